/*
 * Lists and dicts that statements build: xs = [], then xs.append(...) in a loop; d = {}, then d["w"] = ...
 *
 * What such a variable holds is followed from statement to statement, as long as nobody else can change it: it is no variable of a function
 * around or inside, what it was given is a display or a comprehension, and wherever its value gets another name (y = xs, f(xs) of a method,
 * (xs, 1)) it is forgotten.  Places that only look at it, C->hold, leave it as it is.  The containers in it are not followed.
 *
 * The variable itself keeps one type that no value has: the elements of an empty container are TY_UNSET, so that joining it with one that has
 * some gives those.
 */
#include "frontend/check/kernels.h"
#include "frontend/check/ways.h"

#include <string.h>

bool grows(const Check *C, const AstName *n)
{
    const CFrame *f = C->frame;
    const Local *l;

    if (C->kernel || C->home->library || C->home->mutates_any)
        return false;
    if (n->bind == BIND_LOCAL && f->fn && (int)n->slot < f->nvar) {
        l = scope_local(f->scope, n->id);
        return !l || l->slot != n->slot || (!l->is_param && !l->is_cell && !l->is_shared);
    }
    return n->bind == BIND_GLOBAL && f == &C->home->frame && (int)n->slot < C->home->nglob && !is_mutated_so(C->home, n->id, MUTATED_INSIDE);
}

bool grows_in(const Check *C, const Inst *i, Sym attr)
{
    const Home *h = i && i->making && !C->kernel ? i->cls->home : NULL;

    return h && !h->library && is_mutated(h, attr) && !is_mutated_so(h, attr, MUTATED_LATER);
}

/* ------------------------------------------------------------- what is kept */

static const Type *empty(TypeKind k)
{
    const Type *none = type_of_kind(TY_UNSET);

    return k == TY_LIST ? type_list(none) : type_dict(none, none);
}

static bool is_empty(const Type *t)
{
    return (t->kind == TY_LIST || t->kind == TY_DICT) && !t->exact && t->n > 0 && t->item[0]->kind == TY_UNSET;
}

static const Type *of_items(TypeKind k, const Type *const *m, int n)
{
    return !n ? empty(k) : k == TY_LIST ? type_list_of(m, n) : type_dict_of(m, n);
}

/* Does it make a container that nothing else holds? */
static bool makes(const Ast *e)
{
    static const char *const made[] = {"list", "dict", "sorted"};
    const AstName *f = AST_IS(e, Call) && AST_IS(AST_AS(e, Call)->func, Name) ? AST_AS(AST_AS(e, Call)->func, Name) : NULL;

    for (size_t i = 0; f && f->bind == BIND_PRELUDE && i < sizeof made / sizeof *made; i++)
        if (!strcmp(f->id->text, made[i]))
            return true;
    return AST_IS(e, List) || AST_IS(e, Dict) || AST_IS(e, ListComp) || AST_IS(e, DictComp);
}

static bool has_none(const Ast *e)
{
    return (AST_IS(e, List) && !AST_AS(e, List)->elts.n) || (AST_IS(e, Dict) && !AST_AS(e, Dict)->items.n) ||
           (AST_IS(e, Call) && !AST_AS(e, Call)->args.n);
}

const Type *grown_first(const Type *t, const Ast *value)
{
    const Type *m[ITEMS_MAX];

    if (!t || (t->kind != TY_LIST && t->kind != TY_DICT) || !value || !makes(value))
        return type_forget(t);
    if (has_none(value))
        return empty(t->kind);
    if (t->n > ITEMS_MAX)
        return type_forget(t);
    for (int i = 0; i < t->n; i++)
        m[i] = t->kind == TY_DICT && i % 2 == 0 ? t->item[i] : type_forget(t->item[i]);
    return t->exact ? of_items(t->kind, m, t->n) : t->kind == TY_LIST ? type_list(m[0]) : type_dict(m[0], m[1]);
}

const Type *grown_read(const Type *t)
{
    if (!t || !is_empty(t))
        return t;
    return t->kind == TY_LIST ? type_list(T_ANY) : type_dict(T_ANY, T_ANY);
}

static const Type **variable(Check *C, const AstName *n, Trail **trail)
{
    bool global = n->bind == BIND_GLOBAL;

    *trail = global ? C->home->frame.trail : C->frame->trail;
    return global ? &C->home->glob[n->slot] : &C->frame->var[n->slot];
}

/* xs: list[int] = []: what it may hold is written down. */
static bool is_declared(const Check *C, const AstName *n)
{
    return n->bind == BIND_GLOBAL ? C->home->decl[n->slot] != NULL : C->frame->decl[n->slot] != NULL;
}

const Type *grown_name(Check *C, AstName *n, const Type *t, bool held)
{
    Trail *trail;
    const Type **at;

    if (!is_mutated(C->home, n->id) || !grows(C, n) || is_declared(C, n))
        return t;
    if (held)
        return grown_read(t);
    at = variable(C, n, &trail);
    var_put(trail, at, type_forget(t));
    return type_forget(t);
}

/* ------------------------------------------------------------- what statements do to it */

static bool is_key(const Type *k)
{
    return !type_is_any(k) && ((k->kind == TY_STR && k->text) || (k->kind == TY_INT && k->value != DIM_BAD && dim_is_const(k->value)));
}

/* An element more, of which it is not known where. */
static const Type *with_some(const Type *t, const Type *key, const Type *e)
{
    const Type *s = is_empty(t) ? t : type_settle(t);

    e = type_forget(e);
    if (t->kind == TY_LIST)
        return type_list(type_join(s->item[0], type_settle(e)));
    return type_dict(type_join(s->item[0], key->kind == TY_STR ? type_str(NULL) : key->kind == TY_INT ? type_int(DIM_BAD) : key),
                     type_join(s->item[1], type_settle(e)));
}

static const Type *with_entry(const Type *t, const Type *key, const Type *e)
{
    const Type *m[ITEMS_MAX + 2];
    int n = is_empty(t) ? 0 : t->n, i = 0;

    if (!is_key(key) || (!t->exact && n) || n + 2 > ITEMS_MAX)
        return with_some(t, type_is_any(key) ? T_ANY : key, e);
    memcpy(m, t->item, sizeof *m * (size_t)n);
    while (i < n && m[i] != key)
        i += 2;
    m[i] = key;
    m[i + 1] = type_forget(e);
    return type_dict_of(m, i < n ? n : n + 2);
}

static const Type *with_element(const Type *t, const Type *index, const Type *e)
{
    const Type *m[ITEMS_MAX];
    int64_t k;

    if (is_empty(t) || !t->exact || t->n > ITEMS_MAX || type_is_any(index) || index->kind != TY_INT || index->value == DIM_BAD ||
        !dim_const_value(index->value, &k) || k < -t->n || k >= t->n)
        return with_some(t, index, e);
    memcpy(m, t->item, sizeof *m * (size_t)t->n);
    m[k < 0 ? k + t->n : k] = type_forget(e);
    return type_list_of(m, t->n);
}

static const Type *appended(const Type *t, const Type *e)
{
    const Type *m[ITEMS_MAX];
    int n = is_empty(t) ? 0 : t->n;

    if ((!t->exact && n) || n + 1 > ITEMS_MAX)
        return with_some(t, T_ANY, e);
    memcpy(m, t->item, sizeof *m * (size_t)n);
    m[n] = type_forget(e);
    return type_list_of(m, n + 1);
}

static const Type *extended(const Type *t, const Type *by)
{
    const Type *const *item;
    int n = type_items(by, &item);

    if (n < 0)
        return type_is_any(by) ? type_forget(t) : with_some(t, T_ANY, element_of(by));
    for (int i = 0; i < n; i++)
        t = appended(t, item[i]);
    return t;
}

/* What a method with these arguments leaves; `sure`: it runs as often as it is written. */
static const Type *called(const Type *t, const char *name, const CallArgs *a, bool sure)
{
    const Type *x = a->n ? a->at[0].type : NULL;
    bool plain = !a->open && !(a->n && a->at[0].name), list = t->kind == TY_LIST;
    const Type *m[ITEMS_MAX];

    x = x ? x : T_ANY;
    if (list && plain && a->n == 1 && !strcmp(name, "append"))
        return sure ? appended(t, x) : with_some(t, T_ANY, x);
    if (list && plain && a->n == 1 && !strcmp(name, "extend"))
        return sure ? extended(t, x) : type_is_any(x) ? type_forget(t) : with_some(t, T_ANY, element_of(x));
    if (list && plain && a->n == 2 && !strcmp(name, "insert"))
        return with_some(t, T_ANY, a->at[1].type);
    if (list && (!strcmp(name, "sort") || !strcmp(name, "reverse") || !strcmp(name, "remove") || (!strcmp(name, "pop") && (a->n || !sure))))
        return is_empty(t) ? t : type_settle(t);
    if (list && !strcmp(name, "pop") && t->exact && t->n > 1)
        return type_list_of(t->item, t->n - 1);
    if (!list && plain && a->n == 2 && !strcmp(name, "setdefault") && !is_empty(t) && t->exact && is_key(x) && type_dict_find(t, x))
        return t;
    if (!list && plain && a->n == 2 && !strcmp(name, "setdefault"))
        return sure ? with_entry(t, x, a->at[1].type) : with_some(t, x, a->at[1].type);
    if (!list && plain && a->n == 1 && sure && !strcmp(name, "update") && !type_is_any(x) && x->kind == TY_DICT && x->exact && x->n <= ITEMS_MAX) {
        memcpy(m, x->item, sizeof *m * (size_t)x->n);
        for (int i = 0; i < x->n; i += 2)
            t = with_entry(t, m[i], m[i + 1]);
        return t;
    }
    return type_forget(t);
}

/* The variable, or the attribute of an object that is being made, whose value is followed; NULL: none. */
typedef struct { const Type *is; Trail *trail; const Type **at; Inst *inst; Sym attr; } Grown;

static bool grown_place(Check *C, Ast *base, Grown *out)
{
    const Type *self;
    uintptr_t held = 0;
    Diag *last = C->last;

    *out = (Grown){0};
    if (AST_IS(base, Name) && (AST_AS(base, Name)->bind == BIND_LOCAL || AST_AS(base, Name)->bind == BIND_GLOBAL) && grows(C, AST_AS(base, Name)) &&
        !is_declared(C, AST_AS(base, Name))) {
        out->at = variable(C, AST_AS(base, Name), &out->trail);
        out->is = *out->at;
        flow_forget_hidden(C, out->at);
    } else if (AST_IS(base, Attribute) && AST_IS(AST_AS(base, Attribute)->value, Name) && !C->home->library && !C->kernel) {
        self = expr(C, AST_AS(base, Attribute)->value);
        C->last = last;
        out->inst = self->kind == TY_INSTANCE ? (Inst *)self->inst : NULL;
        out->attr = AST_AS(base, Attribute)->attr;
        if (grows_in(C, out->inst, out->attr) && map_find(&out->inst->stored, (uintptr_t)out->attr, &held))
            out->is = (const Type *)held;
    }
    return out->is && (out->is->kind == TY_LIST || out->is->kind == TY_DICT) && (out->is->exact || !type_is_any(out->is->item[0]));
}

static void put(Check *C, const Grown *p, const Type *t)
{
    if (C->tries)                                   /* perhaps it was not done */
        t = type_forget(t);
    if (p->at) {
        var_put(p->trail, p->at, t);
        return;
    }
    C->era += t != p->is;
    map_set(&p->inst->stored, (uintptr_t)p->attr, (uintptr_t)t);
}

/* A variable goes through the branches of the walk; what an object holds does not. */
static bool is_sure(const Check *C, const Grown *p)
{
    return p->at || !C->branches;
}

void grown_stored(Check *C, Ast *base, const Type *index, const Type *t)
{
    Grown p;

    if (!grown_place(C, base, &p))
        return;
    if (!is_sure(C, &p))
        put(C, &p, with_some(p.is, index, t));
    else
        put(C, &p, p.is->kind == TY_LIST ? with_element(p.is, index, t) : with_entry(p.is, index, t));
}

bool grown_calls(Check *C, const AstCall *c)
{
    Grown p;

    return AST_IS(c->func, Attribute) && is_mutator(AST_AS(c->func, Attribute)->attr) && grown_place(C, AST_AS(c->func, Attribute)->value, &p);
}

bool grown_is(Check *C, Ast *base)
{
    Grown p;

    return grown_place(C, base, &p);
}

void grown_called(Check *C, const AstCall *c, const CallArgs *a)
{
    const AstAttribute *m = AST_AS(c->func, Attribute);
    Grown p;

    if (grown_calls(C, c) && grown_place(C, m->value, &p))
        put(C, &p, called(p.is, m->attr->text, a, is_sure(C, &p)));
}
