/*
 * Displays and comprehensions: what lists, tuples, sets and dicts hold that stand in the text.
 *
 * Elements that are known one by one stay so; a comprehension over such is walked once for each.
 */
#include "frontend/check/texts.h"
#include "frontend/check/checker.h"

#include "frontend/check/frames.h"
#include "frontend/check/ways.h"

#include <string.h>

static const Type *display_of(Check *C, AstSeq elts, bool tuple)
{
    const Type *m[ITEMS_MAX] = {NULL}, *join = NULL;
    bool open = elts.n > ITEMS_MAX, leaving = C->leaving;

    C->leaving = false;
    for (int i = 0; i < elts.n; i++) {
        bool star = elts.at[i]->kind == AST_Starred;
        const Type *t = star ? expr_looked(C, AST_AS(elts.at[i], Starred)->value) : leaving ? expr_looked(C, elts.at[i]) : expr(C, elts.at[i]);
        open |= star;
        t = star ? element_of(t) : t;
        if (!open)
            m[i] = t;
        join = join ? type_join(join, t) : t;
    }
    if (open)
        return tuple ? type_tuple_any(join) : type_list(join);
    if (!elts.n)
        return tuple ? type_tuple(m, 0) : type_list(T_ANY);
    return tuple ? type_tuple(m, elts.n) : type_list_of(m, elts.n);
}

/* A text or a number that is known: what such keys stand for is kept apart. */
bool display_is_key(const Type *k)
{
    return !type_is_any(k) && ((k->kind == TY_STR && k->text) || (k->kind == TY_INT && k->value != DIM_BAD && dim_is_const(k->value)));
}

/* Of two entries with one key the later counts. */
static int entry(const Type **m, int n, const Type *k, const Type *v)
{
    int i = 0;

    while (i < n && m[i] != k)
        i += 2;
    m[i] = k;
    m[i + 1] = v;
    return i < n ? n : n + 2;
}

/* What can change is found by no hash: lists, dicts and sets are no keys, and no elements of sets. */
static const Type *hashed(Check *C, const Type *t, const Ast *e, const char *what)
{
    Diag *d;

    if (type_is_any(t) || (t->kind != TY_LIST && t->kind != TY_DICT && t->kind != TY_SET))
        return t;
    d = REPORT(C, E0906, e->span, what, "a text, a number, a tuple or another value that does not change", type_text(t));
    diag_help(d, t->kind == TY_DICT ? "its pairs may be one: tuple(d.items())" :
                 t->kind == TY_LIST ? "write a tuple: (a, b), tuple(xs)" : "frozenset(s) is one that does not change");
    return T_ANY;
}

static const Type *set_display(Check *C, AstSeq elts)
{
    for (int i = 0; i < elts.n; i++)
        if (elts.at[i]->kind != AST_Starred)
            hashed(C, expr(C, elts.at[i]), elts.at[i], "an element of a set");
    return type_set(element_of(display_of(C, elts, false)));
}

static const Type *dict_display(Check *C, AstDict *d)
{
    const Type *key = NULL, *val = NULL, *m[ITEMS_MAX];
    int n = 0;

    for (int i = 0; i < d->items.n; i++) {
        AstDictItem *x = AST_AS(d->items.at[i], DictItem);
        const Type *k = x->key ? hashed(C, expr(C, x->key), x->key, "a key of a dict") : T_ANY, *v = expr(C, x->value);
        if (!x->key)
            v = T_ANY;
        if (x->key && display_is_key(k) && n >= 0 && n + 2 <= ITEMS_MAX)
            n = entry(m, n, k, v);
        else
            n = -1;
        key = key ? type_join(key, k) : k;
        val = val ? type_join(val, v) : v;
    }
    return n > 0 ? type_dict_of(m, n) : type_dict(key ? key : T_ANY, val ? val : T_ANY);
}

static void comp_clause(Check *C, AstCompFor *c, const Type *iter)
{
    host_iterated(C, iter, c->iter);
    bind_target(C, c->target, c->is_async ? T_ANY : element_of(iter), NULL);
    for (int k = 0; k < c->ifs.n; k++)
        expr(C, c->ifs.at[k]);
}

/* Going through a dict gives its keys. */
const Type *iterated(const Type *t)
{
    return !type_is_any(t) && t->kind == TY_DICT && t->exact ? dict_view(t, "keys") : t;
}

/*
 * What the elements of sequences that are known one by one give, into m[n ..), from a clause on: how many there are then, or -1: a sequence
 * or a condition is not known, or there are too many.
 */
static int each_given(Check *C, AstSeq clauses, int k, const Type *iter, Ast *elt, const Type **m, int n)
{
    AstCompFor *c = AST_AS(clauses.at[k], CompFor);
    const Type *const *item = NULL;
    int count = c->is_async || C->unrolled * ITEMS_MAX > UNROLL_MAX ? 0 : type_items(iterated(iter), &item), times = count ? count : 1;

    if (count < (k ? 0 : 1))
        return -1;
    C->unrolled *= times;
    for (int i = 0; i < count && n >= 0; i++) {
        int taken = 1;
        bind_target(C, c->target, item[i], NULL);
        for (int t = 0; t < c->ifs.n && taken > 0; t++) {
            taken = truth(C, c->ifs.at[t]);
            expr(C, c->ifs.at[t]);
        }
        if (taken < 0 || (taken && n == ITEMS_MAX))
            n = -1;
        else if (taken && k + 1 < clauses.n)
            n = each_given(C, clauses, k + 1, expr_looked(C, AST_AS(clauses.at[k + 1], CompFor)->iter), elt, m, n);
        else if (taken)
            m[n++] = expr(C, elt);
    }
    C->unrolled /= times;
    return n;
}

/* Over a sequence that is known element by element: the list of what each one gives. NULL: it is not. */
static const Type *comp_unrolled(Check *C, AstSeq clauses, Ast *elt)
{
    const Type *m[ITEMS_MAX];
    int n = each_given(C, clauses, 0, expr_looked(C, AST_AS(clauses.at[0], CompFor)->iter), elt, m, 0);

    return n > 0 ? type_list_of(m, n) : NULL;
}

/* Likewise of a dict, whose keys are then known. */
static const Type *comp_record(Check *C, AstDictComp *d)
{
    const Type *keys = comp_unrolled(C, d->clauses, d->key), *values, *m[ITEMS_MAX];

    if (!keys || keys->n * 2 > ITEMS_MAX)
        return NULL;
    for (int i = 0; i < keys->n; i++)
        if (!keys->exact || !display_is_key(keys->item[i]))
            return NULL;
    values = comp_unrolled(C, d->clauses, d->value);
    for (int i = 0; i < keys->n; i++) {
        for (int k = 0; k < i; k++)
            if (keys->item[k] == keys->item[i])
                return NULL;
        m[2 * i] = keys->item[i];
        m[2 * i + 1] = values->item[i];
    }
    return type_dict_of(m, 2 * keys->n);
}

/* Elements may be guarded by conditions on them: what cannot be decided is not followed. */
static const Type *comp_element(Check *C, AstSeq clauses, Ast *elt)
{
    bool guarded = false;
    const Type *t;

    for (int i = 0; i < clauses.n; i++)
        guarded |= AST_AS(clauses.at[i], CompFor)->ifs.n > 0;
    C->quiet += guarded;
    t = expr(C, elt);
    C->quiet -= guarded;
    return guarded ? T_ANY : type_settle(t);
}

static void comp_clauses(Check *C, AstSeq clauses, int from)
{
    for (int i = from; i < clauses.n; i++)
        comp_clause(C, AST_AS(clauses.at[i], CompFor), expr_looked(C, AST_AS(clauses.at[i], CompFor)->iter));
}

static const Type *comp_value(Check *C, AstSeq clauses, Ast *elt)
{
    comp_clauses(C, clauses, 0);
    return comp_element(C, clauses, elt);
}

/* A generator expression has a frame of its own; its first iterable is the frame's around. */
static const Type *generator(Check *C, AstGenExp *g)
{
    CFrame *f, *outer = C->frame;
    FrameHold before = frame_hold(C);
    AstCompFor *first = g->clauses.n ? AST_AS(g->clauses.at[0], CompFor) : NULL;
    const Type *each = first ? expr_looked(C, first->iter) : T_ANY, *m[ITEMS_MAX];
    int n;

    if (!first || C->kernel)
        return T_ANY;
    f = frame_new(C, outer, g->scope);
    f->home = outer->home;
    f->fn = outer->fn;
    C->frame = f;
    C->branches++;                          /* who goes through it may stop */
    n = each_given(C, g->clauses, 0, each, g->elt, m, 0);
    C->branches--;
    if (n <= 0) {
        comp_clause(C, first, each);
        comp_clauses(C, g->clauses, 1);
        each = comp_element(C, g->clauses, g->elt);
    }
    C->frame = outer;
    frame_leave(C, f, before);
    return n > 0 ? type_view_of(sym("generator"), m, n) : type_iterable(sym("generator"), each);
}

static const Type *comp_list(Check *C, AstSeq clauses, Ast *elt)
{
    const Type *t = comp_unrolled(C, clauses, elt);

    return t ? t : type_list(comp_value(C, clauses, elt));
}

static const Type *comp_dict(Check *C, AstDictComp *d)
{
    const Type *known = comp_record(C, d), *key;

    if (known)
        return known;
    key = comp_value(C, d->clauses, d->key);
    return type_dict(key, comp_value(C, d->clauses, d->value));
}

const Type *display(Check *C, Ast *e)
{
    switch (e->kind) {
    case AST_Tuple: return display_of(C, AST_AS(e, Tuple)->elts, true);
    case AST_List: return display_of(C, AST_AS(e, List)->elts, false);
    case AST_Set: return set_display(C, AST_AS(e, Set)->elts);
    case AST_Dict: return dict_display(C, AST_AS(e, Dict));
    case AST_ListComp: return comp_list(C, AST_AS(e, ListComp)->clauses, AST_AS(e, ListComp)->elt);
    case AST_SetComp: return type_set(comp_value(C, AST_AS(e, SetComp)->clauses, AST_AS(e, SetComp)->elt));
    case AST_DictComp: return comp_dict(C, AST_AS(e, DictComp));
    default: return generator(C, AST_AS(e, GenExp));
    }
}
