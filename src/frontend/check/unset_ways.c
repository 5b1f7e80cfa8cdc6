/*
 * What is known of the variables of one body on the ways through it, for unset.c.
 *
 * Stores go into a log, with what was before.  The end of a way takes back what the log holds since its beginning and keeps what
 * it came to; two ways that began at the same place are joined by looking at the variables that either changed.  A variable that
 * some ways have set remembers the statement that did: a later test which speaks of the same names is believed to decide alike.
 */
#include "frontend/check/unset.h"

#include "frontend/check/foreign.h"

enum { DOUBTS_MAX = 64 };

/* ------------------------------------------------------------- variables */

UnsetVar *unset_var(UnsetWalk *w, const AstName *n)
{
    bool own = w->scope->kind == SCOPE_MODULE ? n->bind == BIND_GLOBAL : n->bind == BIND_LOCAL || n->bind == BIND_CELL;

    return own && (int)n->slot < w->n ? &w->var[n->slot] : NULL;
}

void unset_put(UnsetWalk *w, int slot, uint8_t state, const Ast *why)
{
    UnsetVar *v = &w->var[slot];

    if (v->state == state)
        return;
    vec_push(&w->log, ((UnsetPut){slot, v->state, v->why}));
    if (state == PARTLY && w->doubts.n < DOUBTS_MAX)
        vec_push(&w->doubts, ((UnsetDoubt){.slot = slot}));
    v->state = state;
    v->why = why;
}

void unset_bind(UnsetWalk *w, const AstName *n)
{
    UnsetVar *v = n ? unset_var(w, n) : NULL;

    if (v)
        unset_put(w, (int)(v - w->var), IS_SET, NULL);
}

void unset_read(UnsetWalk *w, const AstName *n)
{
    UnsetVar *v = unset_var(w, n);
    const Local *l;
    Diag *d;

    if (!v || v->state == IS_SET || v->state == NOT_SET || v->hushed || w->tries || w->dead)
        return;
    l = scope_local(w->scope, n->id);
    if (l && v->state == PARTLY && v->why) {
        d = DIAG_AT(w->R->sink, E0219, n->ast.span, n->id->text);
        diag_label(d, span_head(v->why->span, v->why->kind == AST_Try ? "try" : v->why->kind == AST_Match ? "match" : "if"),
                   "not every way through this assigns it");
        diag_label(d, l->decl, "assigned here");
    } else if (v->state == TAKEN) {
        d = DIAG_AT(w->R->sink, E0218, n->ast.span, n->id->text);
        if (v->why && v->why->kind == AST_Handler)
            diag_label(d, span_head(v->why->span, "except"), "the name is gone when this handler ends");
        else if (v->why)
            diag_label(d, v->why->span, "deleted here");
        if (v->why)
            diag_help(d, v->why->kind == AST_Handler ? "give it to another variable in the handler" : "read it before, or do not delete it");
    }
    unset_put(w, (int)(v - w->var), IS_SET, NULL);          /* said once */
}

/* ------------------------------------------------------------- ways */

UnsetWay unset_end(UnsetWalk *w, int from)
{
    UnsetWay way = {.dead = w->dead};

    w->stamp++;
    for (int i = from; i < w->log.n; i++) {
        UnsetVar *v = &w->var[w->log.at[i].slot];
        if (v->stamp != w->stamp)
            vec_push(&way.put, ((UnsetPut){w->log.at[i].slot, v->state, v->why}));
        v->stamp = w->stamp;
    }
    while (w->log.n > from) {
        UnsetPut p = w->log.at[--w->log.n];
        w->var[p.slot].state = p.state;
        w->var[p.slot].why = p.why;
    }
    w->dead = false;
    return way;
}

/* taken: what took it, on one of the ways */
static void put_both(UnsetWalk *w, int slot, uint8_t a, uint8_t b, const Ast *why, const Ast *taken)
{
    uint8_t most = a > b ? a : b;

    if (a == b || most <= TAKEN)
        unset_put(w, slot, most, a == PARTLY ? why : most == TAKEN ? taken : NULL);
    else
        unset_put(w, slot, w->var[slot].hushed && most == IS_SET ? IS_SET : PARTLY, why);
}

void unset_join(UnsetWalk *w, UnsetWay *a, UnsetWay *b, const Ast *why)
{
    const UnsetWay *one = a->dead ? b : a;
    int stamp = ++w->stamp;

    w->dead = a->dead && b->dead;
    for (int i = 0; (a->dead || b->dead) && i < one->put.n; i++)
        unset_put(w, one->put.at[i].slot, one->put.at[i].state, one->put.at[i].why);
    for (int i = 0; !a->dead && !b->dead && i < a->put.n; i++) {
        w->var[a->put.at[i].slot].stamp = stamp;
        w->var[a->put.at[i].slot].other = a->put.at[i].state;
    }
    for (int i = 0; !a->dead && !b->dead && i < b->put.n; i++) {
        UnsetVar *v = &w->var[b->put.at[i].slot];
        put_both(w, b->put.at[i].slot, v->stamp == stamp ? v->other : v->state, b->put.at[i].state, why, b->put.at[i].why);
        v->stamp = 0;
    }
    for (int i = 0; !a->dead && !b->dead && i < a->put.n; i++)
        if (w->var[a->put.at[i].slot].stamp == stamp)
            put_both(w, a->put.at[i].slot, w->var[a->put.at[i].slot].state, a->put.at[i].state, why, a->put.at[i].why);
    vec_free(&a->put);
    vec_free(&b->put);
}

/* ------------------------------------------------------------- what a statement tests and sets */

static void add_topic(UnsetTopics *t, Sym s)
{
    if (t->n < TOPICS_MAX)
        t->at[t->n++] = s;
}

bool unset_names(Ast *n, void *state)
{
    UnsetTopics *t = state;

    if (!n || t->depth > 100)
        return true;
    if (n->kind == AST_Name)
        add_topic(t, AST_AS(n, Name)->id);
    if (n->kind == AST_Attribute)
        add_topic(t, AST_AS(n, Attribute)->attr);
    t->depth++;
    ast_walk(n, unset_names, t);
    t->depth--;
    return true;
}

static bool add_tests(Ast *n, void *state);

static void add_targets(UnsetTopics *t, AstSeq targets)
{
    for (int i = 0; i < targets.n; i++)
        unset_names(targets.at[i], t);
}

static bool add_tests(Ast *n, void *state)
{
    UnsetTopics *t = state;

    if (!n || t->depth > 100 || n->kind == AST_FunctionDef || n->kind == AST_ClassDef || n->kind == AST_Lambda)
        return true;
    if (n->kind == AST_If)
        unset_names(AST_AS(n, If)->test, t);
    if (n->kind == AST_Match)
        unset_names(AST_AS(n, Match)->subject, t);
    if (n->kind == AST_Assign)
        add_targets(t, AST_AS(n, Assign)->targets);
    t->depth++;
    ast_walk(n, add_tests, t);
    t->depth--;
    return true;
}

bool unset_share(const UnsetTopics *a, const UnsetTopics *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (a->at[i] == b->at[k])
                return true;
    return false;
}

void unset_hush(UnsetWalk *w, int slot)
{
    w->var[slot].hushed++;
    vec_push(&w->hushed, slot);
}

void unset_believe(UnsetWalk *w, Ast *test)
{
    UnsetTopics of = {0};

    if (!w->doubts.n)
        return;
    unset_names(test, &of);
    for (int i = 0; i < w->doubts.n; i++) {
        UnsetDoubt *d = &w->doubts.at[i];
        UnsetVar *v = &w->var[d->slot];
        if (v->state != PARTLY || v->hushed || !v->why)
            continue;
        if (d->why != v->why) {
            *d = (UnsetDoubt){.slot = d->slot, .why = v->why};
            add_tests((Ast *)v->why, &d->of);
        }
        if (unset_share(&of, &d->of))
            unset_hush(w, d->slot);
    }
}

void unset_unhush(UnsetWalk *w, int mark)
{
    while (w->hushed.n > mark)
        w->var[w->hushed.at[--w->hushed.n]].hushed--;
}
