/*
 * What a call of a function of the program, or of the library, comes to: its declared result, or what its body says.
 *
 * A body is walked with the types of the arguments, to a depth.  What a walk found holds for calls with equal types, for
 * as long as nothing changes that it read.
 */
#include "frontend/check/binding.h"
#include "frontend/check/foreign.h"
#include "frontend/check/frames.h"
#include "frontend/check/kernels.h"

#include <string.h>

static bool any_unannotated(const Fn *f)
{
    for (int i = 0; i < f->params.n; i++) {
        const AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->name && !f->sig.param[p->slot])
            return true;
    }
    return false;
}

static bool is_telling(const Type *t)
{
    return !type_is_any(t);
}

static void put_dims(DimNames *out, const DimNames *names, const Bound *b)
{
    for (int i = 0; i < names->n; i++) {
        NamedDim d = {names->at[i].name, dim_subst(names->at[i].dim, b->from, b->to, b->n)};
        vec_push(out, d);
    }
}

/* A default is read where the function was defined. */
static const Type *default_type(Check *C, Fn *f, Ast *dflt)
{
    Home *home = C->home;
    CFrame *frame = C->frame;
    const Type *t;

    C->home = f->around->home;
    C->frame = f->around;
    t = expr(C, dflt);
    C->frame = frame;
    C->home = home;
    return t;
}

/* A container that the callee may change in place is no longer known, to either side. */
static const Type *argument_type(Check *C, const Fn *f, const AstParam *p, const CallArg *a)
{
    if (!f->around->home->library && a->type && a->type->kind == TY_FLOAT)
        return type_of_kind(TY_FLOAT);                      /* only the library's checks of its arguments ask which */
    if (!type_is_container(a->type) || !is_mutated(f->around->home, p->name))
        return type_started(a->type);
    if (a->node)
        forget_place(C, a->node);
    return type_forget(a->type);
}

/* The function and what it gets, as one type; NULL: its result may differ the next time. What objects hold is not part of it. */
static const Type *memo_key(Check *C, Fn *f, const Type *const *given)
{
    const Type *m[ITEMS_MAX], *key;
    int n = 0;

    if (C->mixed || C->lenient || C->kernel || f->scope->frees.n || f->params.n > ITEMS_MAX - 3)
        return NULL;
    m[n++] = type_ref(TY_FUNC, f);
    if (C->facts)
        m[n++] = type_int(C->facts_id);
    for (int i = 0; i < f->params.n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->name && p->kind <= PARAM_KWARGS)
            m[n++] = given[p->slot] ? given[p->slot] : T_ANY;
    }
    key = type_tuple(m, n);
    return key->n == n ? key : NULL;                        /* else too large to tell calls apart by */
}

static Memo *held_results(Check *C)
{
    if (C->held_era != C->era) {
        map_done(&C->held_result_of.said);
        map_done(&C->held_result_of.quiet);
        C->held_era = C->era;
    }
    return &C->held_result_of;
}

static const Type *recalled(const Check *C, const Memo *m, const Type *key)
{
    const Type *r = map_get_ptr(&m->said, key);

    return r || !C->quiet ? r : map_get_ptr(&m->quiet, key);
}

/* The result of an equal call before; NULL: there was none. */
static const Type *remembered(Check *C, const Type *key)
{
    const Type *r = recalled(C, &C->result_of, key);

    if (!r && (r = recalled(C, held_results(C), key))) {
        C->held++;
        C->held_made++;
    }
    return r;
}

/* What a walk read and changed, and whether it found something, tells how long its result holds. */
typedef struct { long findings, era, held, handed; } Before;

static Before before_walk(const Check *C)
{
    return (Before){C->findings, C->era, C->held, C->handed};
}

static void remember(Check *C, const Fn *f, const Type *key, const Type *r, Before b)
{
    Memo *m = C->held == b.held ? &C->result_of : held_results(C);

    if ((C->held != b.held && C->era != b.era) || (C->handed != b.handed && C->findings != b.findings))
        return;                                                                     /* what a wrapper hands on is said of each call */
    if (C->findings == b.findings || (!C->quiet && !f->around->home->library))      /* what was found there has been said, */
        map_set_ptr(&m->said, key, r);
    else if (C->quiet)                                                              /* but of a library to each call */
        map_set_ptr(&m->quiet, key, r);
}

/* An object whose attributes are known makes its methods tell more than their signatures do. */
static bool has_fields(const Type *self)
{
    return self && self->kind == TY_INSTANCE && self->inst;
}

/* What the parameters get, by slot, and the expressions that they get it from; is any of it known? */
static bool given_types(Check *C, Fn *f, Slots *s, const Type *self, const Bound *b, const Type **given, Ast **arg)
{
    bool told = !f->params.n;
    int k = 0;

    for (int i = 0; i < f->params.n && k < s->n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind != AST_Param || p->kind == PARAM_CONSTRAINT || p->kind == PARAM_ANY || !p->name)
            continue;
        if (!k && self)
            given[p->slot] = self;
        else if (s->at[k].arg)
            given[p->slot] = argument_type(C, f, p, s->at[k].arg), arg[p->slot] = value_of_arg(s->at[k].arg->node);
        else if (p->kind == PARAM_VARARGS)
            given[p->slot] = s->rest;
        else if (p->kind == PARAM_KWARGS)
            given[p->slot] = is_mutated(f->around->home, p->name) ? NULL : s->names;
        else if (p->dflt && !s->at[k].taken && !s->open && p->kind != PARAM_KWARGS)
            given[p->slot] = default_type(C, f, p->dflt);
        if (type_is_any(given[p->slot]))
            given[p->slot] = type_subst(f->sig.param[p->slot], b->from, b->to, b->n);
        told |= is_telling(given[p->slot]);
        k++;
    }
    return told;
}

/* The body's result for these types, walked unless that was done before. */
static const Type *walked(Check *C, Fn *f, const Type *const *given, Ast **arg, Slots *s, const Type *self, const Bound *b, Ast *node)
{
    const Type *key = memo_key(C, f, given), *r = key ? remembered(C, key) : NULL;
    DimNames bound = {0};
    Before before;

    if (r)
        return r;
    before = before_walk(C);
    put_dims(&bound, &f->sig.dims, b);
    if (f->cls)
        put_dims(&bound, &f->cls->dims, b);
    f->active++;
    C->calls++;
    C->arg = arg;
    C->slots = s;
    C->called = node;
    r = fn_walk(C, f, given, &bound, has_fields(self) && f->sig.ret ? type_subst(f->sig.ret, b->from, b->to, b->n) : NULL);
    C->calls--;
    f->active--;
    vec_free(&bound);
    r = r ? r : T_NONE;
    if (key)
        remember(C, f, key, r, before);
    return r;
}

/* The result by following the body with the arguments' types. */
static const Type *follow(Check *C, Fn *f, Slots *s, const Type *self, const Bound *b, Ast *node)
{
    size_t room = sizeof(void *) * (size_t)(f->scope->nslots + 1);
    const Type **given, *r = T_ANY;
    FrameHold before;
    Ast **arg;
    bool told;

    if (f->active > RECURSION || C->calls >= CALL_DEPTH || C->fuel <= 0)
        return T_ANY;
    given = spare_take(C, room);
    arg = spare_take(C, room);
    told = given_types(C, f, s, self, b, given, arg);
    fn_followed(C, f);
    before = frame_hold(C);
    if (told)
        r = walked(C, f, given, arg, s, self, b, node);
    spare_put(C, given, room);
    if (frame_hold(C) == before)                            /* no frame that stays has them */
        spare_put(C, arg, room);
    return r;
}

/* The declared result, with what the body tells beyond it. */
const Type *narrowed(const TType *declared, const TType *found)
{
    TType t = declared->rank == RANK_UNKNOWN ? *found : *declared;

    t.dtype = declared->dtype != DT_NONE ? declared->dtype : found->dtype;
    t.policy = declared->policy ? declared->policy : t.dtype == found->dtype ? found->policy : NULL;
    for (int i = 0; t.rank != RANK_UNKNOWN && found->rank == t.rank && i < t.rank; i++)
        if (dim_is_open(t.shape[i]))
            t.shape[i] = found->shape[i];
    return type_tensor(&t);
}

/* The declared result in the caller's sizes. */
const Type *fn_declared_result(const Fn *f, const Bound *b)
{
    return rest_filled(type_subst(f->sig.ret, b->from, b->to, b->n), b);
}

/* Does an argument bring a policy, which the body may hand on? */
static bool given_policies(const Slots *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i].arg && !type_is_any(s->at[i].arg->type) && s->at[i].arg->type->kind == TY_TENSOR && s->at[i].arg->type->tensor->policy)
            return true;
    return false;
}

static bool knows_elements(const Type *t)
{
    t = type_settle(t);
    for (int i = 0; i < t->n; i++)
        if (type_is_any(t->item[i]))
            return false;
    return true;
}

/* Declared as one of a class, or as a function: which one, the body says. */
static bool tells_more(Check *C, const Type *r, const Type *declared)
{
    if (type_is_any(r) || type_fits(C, r, declared) == FITS_NOT)
        return false;
    return declared->kind == TY_INSTANCE ? r->kind == TY_INSTANCE && r->inst && cls_derives(r->ref, declared->ref)
                                         : r->kind == TY_FUNC || r->kind == TY_TRANSFORM;
}

const Type *fn_result(Check *C, Fn *f, Slots *s, const Type *self, const Bound *b, Ast *node)
{
    const Type *generic = f->around->home->library ? generic_result(C, f, s, node) : NULL;     /* of the program's the body says which sizes */

    if (generic) {
        follow(C, f, s, self, b, node);
        return generic;
    }
    if (f->sig.ret && (f->sig.ret->kind == TY_INSTANCE || (f->sig.ret->kind == TY_CALLABLE && f->sig.ret->n < 0)) && !f->around->home->library) {
        const Type *r = follow(C, f, s, self, b, node), *want = fn_declared_result(f, b);
        return tells_more(C, r, want) ? r : want;
    }
    if (f->sig.ret && !type_is_any(f->sig.ret)) {
        if (type_is_container(f->sig.ret)) {        /* which elements, the body says */
            const Type *r = follow(C, f, s, self, b, node), *want = fn_declared_result(f, b);
            return !type_is_any(r) && r->kind == want->kind && type_fits(C, r, want) == FITS && knows_elements(r) ? r : want;
        }
        if (any_unannotated(f) || has_fields(self) || given_policies(s) || (f->sig.ret->kind == TY_TENSOR && ttype_is_open(f->sig.ret->tensor))) {
            const Type *r = follow(C, f, s, self, b, node), *want = fn_declared_result(f, b);
            if (type_is_segmented(want) && r->kind == TY_TENSOR && r->tensor->rank == RANK_UNKNOWN)
                return want;
            if (want->kind == TY_TENSOR && r->kind == TY_TENSOR)
                return narrowed(want->tensor, r->tensor);
        }
        return fn_declared_result(f, b);
    }
    return follow(C, f, s, self, b, node);
}

/* What a call of a generator or an async function gives at once: what it yields, or returns, is known to be in there. */
const Type *fn_running(Check *C, Fn *f, Slots *s, const Type *self, const Bound *b, Ast *node)
{
    const Scope *scope = f->scope;
    const Type *t;

    if (kernel_def(AST_AS(f->node, FunctionDef)) || (scope->is_generator && scope->is_async))
        return T_ANY;
    t = scope->is_generator ? follow(C, f, s, self, b, node) : fn_result(C, f, s, self, b, node);
    if (type_is_any(t))
        return type_object(sym(scope->is_generator ? "generator" : "coroutine"));
    return scope->is_generator ? t : type_iterable(sym("coroutine"), t);
}
