/*
 * Homes: the sources whose code the checker walks.
 *
 * The program is one.  A library file or an imported module becomes one when
 * something of it is used: its tree is resolved, its body walked once without
 * a word, and from then on its functions and classes are followed like the
 * program's own.  Mistakes in there are mistakes of the call that led there.
 */
#include "frontend/check/checker.h"

#include "frontend/check/spaces.h"
#include "frontend/eval/native.h"

#include <string.h>

/* ------------------------------------------------------------- what is changed in place */

typedef struct { Home *h; Check *C; int depth; } Mutations;

/* The variable and the attributes that an expression goes through. */
static void mark(Home *h, const Ast *e)
{
    for (;;) {
        switch (e ? (int)e->kind : -1) {
        case AST_Name:
            map_set(&h->mutated, (uintptr_t)AST_AS(e, Name)->id, 1);
            return;
        case AST_Attribute:
            map_set(&h->mutated, (uintptr_t)AST_AS(e, Attribute)->attr, 1);
            e = AST_AS(e, Attribute)->value;
            if (e && e->kind == AST_Name)
                return;                             /* self.x.append: x changes, not self */
            break;
        case AST_Subscript:
            e = AST_AS(e, Subscript)->value;
            break;
        case AST_Call:                              /* d.setdefault(k, []).append: what a method gives is part of its object */
            e = AST_AS(e, Call)->func;
            if (e->kind == AST_Name && AST_AS(e, Name)->bind == BIND_PRELUDE)
                return;                             /* list(x).append: a fresh one */
            if (e->kind != AST_Attribute) {
                h->mutates_any = true;
                return;
            }
            e = AST_AS(e, Attribute)->value;
            break;
        default:
            return;
        }
    }
}

static bool is_mutator(Sym method)
{
    static const char *const names[] = {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse", "update",
                                        "setdefault", "add", "discard", "appendleft", "popleft", "extendleft", "rotate",
                                        "difference_update", "intersection_update", "symmetric_difference_update",
                                        "__setitem__", "__delitem__", "move_to_end", "subtract"};

    for (size_t i = 0; method && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], method->text))
            return true;
    return false;
}

static void mark_target(Home *h, Ast *t, bool augmented)
{
    AstSeq e = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : t->kind == AST_List ? AST_AS(t, List)->elts : (AstSeq){0};

    for (int i = 0; i < e.n; i++)
        mark_target(h, e.at[i], augmented);
    if (t->kind == AST_Subscript)
        mark(h, AST_AS(t, Subscript)->value);
    else if (augmented && (t->kind == AST_Name || t->kind == AST_Attribute))
        mark(h, t);
}

static bool find_mutations(Ast *n, void *state)
{
    Mutations *m = state;
    AstSeq targets = {0};
    AstCall *c;

    if (!n || m->depth > 400)
        return true;
    m->depth++;
    switch (n->kind) {
    case AST_Assign: targets = AST_AS(n, Assign)->targets; break;
    case AST_Del: targets = AST_AS(n, Del)->targets; break;
    case AST_AugAssign: mark_target(m->h, AST_AS(n, AugAssign)->target, true); break;
    case AST_For: mark_target(m->h, AST_AS(n, For)->target, false); break;
    case AST_Call:
        c = AST_AS(n, Call);
        if (AST_IS(c->func, Attribute) && is_mutator(AST_AS(c->func, Attribute)->attr))
            mark(m->h, AST_AS(c->func, Attribute)->value);
        break;
    default: break;
    }
    for (int i = 0; i < targets.n; i++) {
        Ast *t = targets.at[i];
        mark_target(m->h, t, false);
        if (t->kind == AST_Attribute && m->h->library &&        /* m.training = mode: not only the object's own methods store it */
            !(AST_IS(AST_AS(t, Attribute)->value, Name) && !strcmp(AST_AS(AST_AS(t, Attribute)->value, Name)->id->text, "self")))
            map_set(&m->C->stored_attrs, (uintptr_t)AST_AS(t, Attribute)->attr, 1);
    }
    ast_walk(n, find_mutations, m);
    m->depth--;
    return true;
}

bool is_mutated(const Home *h, Sym name)
{
    return h->mutates_any || map_find(&h->mutated, (uintptr_t)name, NULL);
}

/* ------------------------------------------------------------- making */

void home_init(Check *C, Home *h, Unit *u)
{
    Scope *s = u->module->scope;

    h->scope = s;
    h->nglob = s->locals.n;
    h->glob = arena_array(&C->arena, const Type *, h->nglob + 1);
    h->decl = arena_array(&C->arena, const Type *, h->nglob + 1);
    h->from = arena_array(&C->arena, Ast *, h->nglob + 1);
    h->frame.home = h;
    h->frame.scope = s;
    h->frame.nvar = s->nslots;
    h->frame.var = arena_array(&C->arena, const Type *, h->frame.nvar + 1);
    h->frame.decl = arena_array(&C->arena, const Type *, h->frame.nvar + 1);
    h->frame.from = arena_array(&C->arena, Ast *, h->frame.nvar + 1);
    find_mutations((Ast *)u->module, &(Mutations){h, C, 0});
}

void home_done(Home *h)
{
    vec_free(&h->frame.dims);
    map_done(&h->mutated);
}

static void walk_body(Check *C, Home *h, Unit *u)
{
    Home *home = C->home;
    CFrame *frame = C->frame;
    struct Loop *loop = C->loop;
    Ast *stmt = C->stmt;
    int mixed = C->mixed, branches = C->branches;

    C->home = h;
    C->frame = &h->frame;
    C->loop = NULL;
    C->mixed = C->branches = 0;
    C->quiet++;
    block(C, u->module->body);
    C->quiet--;
    h->frame.dead = false;
    C->mixed = mixed;
    C->branches = branches;
    C->stmt = stmt;
    C->loop = loop;
    C->frame = frame;
    C->home = home;
}

static Home *home_of(Check *C, const Space *s)
{
    Home *h = map_get_ptr(&C->home_of, s);
    Unit *u;

    if (h)
        return h;
    u = space_resolved(s);
    if (!u || map_find(&C->home_of, (uintptr_t)s, NULL))
        return NULL;
    h = arena_new(&C->arena, Home);
    map_set_ptr(&C->home_of, s, h);
    h->space = s;
    h->library = true;
    home_init(C, h, u);
    walk_body(C, h, u);
    return h;
}

const Type *space_type(Check *C, const Space *s, Sym name)
{
    uintptr_t i = 0;
    Home *h = home_of(C, s);
    const Local *l;

    if (!h || !map_find(&h->scope->slot_of, (uintptr_t)name, &i) || !i)
        return NULL;
    l = &h->scope->locals.at[i - 1];
    return l->nbinds == 1 && (int)l->slot < h->nglob ? h->glob[l->slot] : NULL;
}
