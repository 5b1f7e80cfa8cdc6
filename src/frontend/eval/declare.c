/*
 * Types that act at run time: a tensor declared with a policy has it.
 *
 *     x: Tensor["N", bf16 @accum(f32)] = v        def f(x: Tensor["N", Policy(storage=fp8_e4m3)]) -> Tensor["N", P]:
 *
 * The checker holds programs to the dtypes of annotations, so nothing is to be done for plain ones, except in
 * a scope of precision(...) or numerics(...): there a declared dtype is met by conversion.  What an element type
 * says beyond its dtype becomes part of the tensor here: at the entry of a function, at its return, and where a
 * declared name or field is assigned.  The element type is an expression of the program; it is evaluated each time,
 * unless it is made of the prelude's names alone.
 *
 *     cache: KVCache["B", "H", 128, "D_h", bf16] @rolling_window @device(gpu) = KVCache()
 *
 * Types of states are expressions as a whole, placements apart: objects whose __declare__ makes of a value what is declared.
 */
#include "frontend/eval/lower.h"

#include "frontend/tensor/tensor_ops.h"

#include <string.h>

struct Declared {
    uint32_t slot;              /* the parameter */
    const Step *type;           /* NULL: a plain dtype */
    Value plain;
    bool state;                 /* type is of a state: for objects, not for tensors */
};

/* ------------------------------------------------------------- which annotations say something */

/* The element type of Tensor[..., T] and Region[..., T]; NULL: none is written there. */
static Ast *element_type(Ast *a)
{
    bool region;
    AstSubscript *s = tensor_brackets(a, &region);
    AstTuple *t;

    if (!s)
        return NULL;
    if (!AST_IS(s->index, Tuple))
        return region ? NULL : s->index;                    /* its privilege */
    t = AST_AS(s->index, Tuple);
    return t->elts.n ? t->elts.at[t->elts.n - 1] : NULL;
}

/* @device(gpu), @memory("host"): where it lies. */
static bool is_placement(const Ast *e)
{
    const Ast *f = AST_IS(e, Call) ? AST_AS(e, Call)->func : AST_IS(e, Attribute) ? AST_AS(e, Attribute)->value : NULL;

    return f && AST_IS(f, Name) && (!strcmp(AST_AS(f, Name)->id->text, "device") || !strcmp(AST_AS(f, Name)->id->text, "memory"));
}

/* The type of a state, KVCache[...] or OptimizerState[...] with its marks; NULL: it is none of the library's. */
static Ast *state_type(Ast *a)
{
    Ast *e, *base;

    while (AST_IS(a, BinOp) && AST_AS(a, BinOp)->op == AOP_MATMUL && is_placement(AST_AS(a, BinOp)->right))
        a = AST_AS(a, BinOp)->left;
    for (e = a; AST_IS(e, BinOp) && AST_AS(e, BinOp)->op == AOP_MATMUL;)
        e = AST_AS(e, BinOp)->left;
    base = AST_IS(e, Subscript) ? AST_AS(e, Subscript)->value : NULL;
    if (!base || !AST_IS(base, Name) || AST_AS(base, Name)->bind != BIND_PRELUDE)
        return NULL;
    return !strcmp(AST_AS(base, Name)->id->text, "KVCache") || !strcmp(AST_AS(base, Name)->id->text, "OptimizerState") ? a : NULL;
}

static bool plain_dtype(const Ast *e, DType *dt)
{
    const char *name = AST_IS(e, Name) ? AST_AS(e, Name)->id->text : AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : NULL;

    return name && dtype_find(name, dt);
}

typedef struct Reach { bool frame, outside; } Reach;

static bool look_at_names(Ast *n, void *state)
{
    Reach *r = state;

    if (AST_IS(n, Name)) {
        uint8_t bind = AST_AS(n, Name)->bind;
        r->outside |= bind == BIND_NONE || bind == BIND_DIM;
        r->frame |= bind != BIND_PRELUDE && bind != BIND_GLOBAL;
    } else if (n) {
        ast_walk(n, look_at_names, r);
    }
    return true;
}

/* Do all names of an expression have values where it is to be evaluated? */
static bool has_value(Ast *e, bool in_frame)
{
    Reach r = {0};

    look_at_names(e, &r);
    return !r.outside && (in_frame || !r.frame);
}

/* Does this element type carry a policy, or may it? Sizes are names too: those that no value has are left alone. */
static bool may_be_policy(Ast *e, bool in_frame)
{
    if (AST_IS(e, BinOp) ? AST_AS(e, BinOp)->op != AOP_MATMUL : !AST_IS(e, Name) && !AST_IS(e, Attribute) && !AST_IS(e, Call))
        return false;
    if (AST_IS(e, Name) && AST_AS(e, Name)->bind == BIND_PRELUDE)
        return false;
    return has_value(e, in_frame);
}

/* The element type of a field that a class declares, as an expression; NULL: it is a plain dtype or none. */
Step *lower_element_type(Lower *L, Ast *annotation)
{
    Ast *e = element_type(annotation);
    DType dt;

    return e && !plain_dtype(e, &dt) && may_be_policy(e, true) ? lower_expr(L, e) : NULL;
}

/* Fill in d; false: the annotation says nothing to be done. */
static bool declared_by(Lower *L, Ast *annotation, bool in_frame, struct Declared *d)
{
    Ast *e = element_type(annotation), *state = e ? NULL : state_type(annotation);
    DType dt;

    d->state = state != NULL;
    if (state ? !has_value(state, in_frame) : !e)
        return false;
    if (state) {
        d->type = lower_expr(L, state);
        return true;
    }
    if (plain_dtype(e, &dt)) {
        d->plain = dtype_value(dt, NULL);
        return dtype_is_float(dt);
    }
    if (!may_be_policy(e, in_frame))
        return false;
    d->type = lower_expr(L, e);
    return true;
}

/* ------------------------------------------------------------- acting on values */

static Value state_as_declared(Interp *I, Value v, Value type)
{
    Value make = value_getattr_opt(I, type, sym("__declare__")), r;

    if (is_err(make))
        return exc_pending(I) ? VERR : value_ref(v);
    r = value_call(I, make, &v, 1);
    value_unref(make);
    return r;
}

/* v, which it takes, as it is declared; V_ERR with an exception pending. */
static Value meet(const struct Declared *d, Frame *f, Value v)
{
    Value type, r;

    if (v.tag != (d->state ? V_INSTANCE : V_TENSOR) || (!d->type && !interp_trace(f->I)->numerics))
        return v;
    type = d->type ? d->type->eval(d->type, f) : value_ref(d->plain);
    r = is_err(type) ? VERR : d->state ? state_as_declared(f->I, v, type) : tensor_as_declared(f->I, v, type);
    if (is_err(type) && exc_matches(f->I, EXC_NameError)) {          /* a policy that is defined later: forward references are fine */
        exc_clear(f->I);
        return v;
    }
    value_unref(type);
    value_unref(v);
    return r;
}

Value ev_declared(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);

    return is_err(v) ? v : meet(n->p, f, v);
}

bool declared_enter(Frame *f)
{
    for (int i = 0; i < f->code->ndeclared; i++) {
        const struct Declared *d = &f->code->declared[i];
        Value *at = &f->slot[d->slot];
        if (at->tag == V_CELL)
            at = &((CellObj *)at->o)->v;
        *at = meet(d, f, *at);
        if (is_err(*at))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------- lowering */

Step *lower_declared(Lower *L, Step *value, Ast *annotation, bool in_frame)
{
    struct Declared d = {0}, *kept;
    Step *n;

    if (!annotation || !value || !declared_by(L, annotation, in_frame, &d))
        return value;
    kept = arena_new(L->arena, struct Declared);
    *kept = d;
    n = arena_new(L->arena, Step);
    n->span = value->span;
    n->eval = ev_declared;
    n->a = value;
    n->p = kept;
    return n;
}

void lower_declared_params(Lower *L, Code *c, const AstFunctionDef *d)
{
    struct Declared *list = arena_array(L->arena, struct Declared, d->params.n + 1);

    for (int i = 0; i < d->params.n; i++) {
        const AstParam *p = AST_AS(d->params.at[i], Param);
        struct Declared one = {.slot = p->slot};
        if (p->ast.kind == AST_Param && p->annotation && p->kind < PARAM_VARARGS && declared_by(L, p->annotation, false, &one))
            list[c->ndeclared++] = one;
    }
    c->declared = list;
}

/* The fields that a class declares: name: Tensor[...]. */
void lower_declared_fields(Lower *L, AstSeq body)
{
    for (int i = 0; i < body.n; i++) {
        const AstAnnAssign *a = AST_AS(body.at[i], AnnAssign);
        if (AST_IS(body.at[i], AnnAssign) && AST_IS(a->target, Name))
            lower_declare_name(L, AST_AS(a->target, Name)->id, a->annotation, true);
    }
}

void lower_declare_name(Lower *L, Sym name, Ast *annotation, bool field)
{
    DeclaredName *d;
    Ast *e = element_type(annotation), *state = e ? NULL : state_type(annotation);
    DType dt;

    if (state ? !has_value(state, !field) : !e || plain_dtype(e, &dt) || !may_be_policy(e, !field))
        return;
    d = arena_new(L->arena, DeclaredName);
    *d = (DeclaredName){name, annotation, field, L->declared};
    L->declared = d;
}

/* A value assigned to a name or to a field of self that was declared before. */
Step *lower_assigned(Lower *L, Step *value, const Ast *target)
{
    bool field = AST_IS(target, Attribute) && L->self && AST_IS(AST_AS(target, Attribute)->value, Name) &&
                 AST_AS(AST_AS(target, Attribute)->value, Name)->id == L->self;
    Sym name = field ? AST_AS(target, Attribute)->attr : AST_IS(target, Name) ? AST_AS(target, Name)->id : NULL;

    for (const DeclaredName *d = name ? L->declared : NULL; d; d = d->next)
        if (d->name == name && d->field == field)
            return lower_declared(L, value, d->annotation, !field);
    return value;
}
