/*
 * Numeric policies in types: what an element type says beyond its dtype.
 *
 *     Tensor["N", bf16 @accum(f32)]      zeros(n, dtype=Policy(storage=fp8_e4m3, compute=bf16))      x.to(TrainingPolicy)
 *
 * A policy is part of a tensor's type (TType.policy) and of a dtype's (Type.ref); both are interned, so that equal ones
 * are equal pointers, the same that values have at run time (docs/numerics.md).  NULL stands for none and for one that is
 * not known: operands of a policy and of none meet in the one, so nothing can be wrong with it.  A tensor that meets
 * a declared type takes the policy written there, as it does when it runs.
 */
#include "frontend/check/checker.h"

#include "frontend/eval/native.h"

#include "ir/core/policy.h"

#include <string.h>

const char *element_text(uint8_t dtype, const Policy *policy)
{
    static StrBuf text[2];
    static unsigned next;
    StrBuf *b = &text[next++ & 1];

    sb_clear(b);
    element_print((DType)dtype, policy, b);
    return sb_str(b);
}

/* ------------------------------------------------------------- suffixes: bf16 @accum(f32) @saturate */

static Sym name_of(const Ast *e)
{
    if (AST_IS(e, Name))
        return AST_AS(e, Name)->bind == BIND_PRELUDE || AST_AS(e, Name)->bind == BIND_DIM ? AST_AS(e, Name)->id : NULL;
    return AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr : NULL;
}

static bool named_dtype(const Ast *e, DType *out)
{
    Sym s = e ? name_of(e) : NULL;

    if (AST_IS(e, Str))
        return dtype_find(AST_AS(e, Str)->value.s, out);
    return s && dtype_find(s->text, out);
}

/* The only argument of a call. */
static Ast *only_argument(const Ast *part)
{
    const AstCall *c = AST_AS(part, Call);

    return AST_IS(part, Call) && c->args.n == 1 && AST_IS(c->args.at[0], Arg) && !AST_AS(c->args.at[0], Arg)->stars
               ? AST_AS(c->args.at[0], Arg)->value : NULL;
}

/* accum(f32), loss_scale(128.0) */
static bool part_called(Sym name, const Ast *arg, Policy *p)
{
    DType dt;

    if (!strcmp(name->text, "accum") && named_dtype(arg, &dt))
        return p->accum = (uint8_t)dt, true;
    if (strcmp(name->text, "loss_scale") || (!AST_IS(arg, Float) && !AST_IS(arg, Int)))
        return false;
    p->has_scale = true;
    p->scale = AST_IS(arg, Float) ? AST_AS(arg, Float)->value : (double)AST_AS(arg, Int)->value;
    return p->scale > 0;
}

/* What one suffix adds to p; false: it is not known. */
static bool add_part(const Ast *part, Policy *p)
{
    Ast *arg = only_argument(part);
    Sym name = name_of(AST_IS(part, Call) ? AST_AS(part, Call)->func : part);

    if (!name)
        return false;
    if (AST_IS(part, Call))
        return arg && part_called(name, arg, p);
    if (!strcmp(name->text, "saturate"))
        return p->saturate = true;
    if (!strcmp(name->text, "fp32_master"))
        return p->master = true;
    if (strcmp(name->text, "stochastic_round"))
        return false;
    p->rounding = ROUND_STOCHASTIC;
    return true;
}

/* The accumulator must go with what is stored: true with a report. */
static bool accum_wrong(Check *C, uint8_t dtype, const Policy *p, Span at)
{
    if (dtype == DT_NONE || p->accum == DT_NONE || accum_fits((DType)dtype, (DType)p->accum))
        return false;
    REPORT(C, E0403, at, dtype_info[p->accum].name, dtype_info[dtype].name, accum_choices((DType)dtype));
    return true;
}

bool policy_suffix(Check *C, uint8_t dtype, const Policy **policy, Ast *part)
{
    Policy p = policy_none;

    if (!add_part(part, &p) || accum_wrong(C, dtype, &p, part->span)) {
        *policy = NULL;
        return false;
    }
    *policy = policy_intern(policy_over(*policy ? **policy : policy_none, &p));
    return true;
}

/* ------------------------------------------------------------- classes and objects with the fields of a policy */

static const char *const fields[] = {"storage", "compute", "accumulate", "rounding", "saturate", "denorm_mode"};
enum { STORAGE, COMPUTE, ACCUMULATE, ROUNDING, SATURATE, DENORM, FIELDS };

/* Policy(...): the argument of the call that made it. The object's type is made of them (Inst.key). */
static const Type *constructed(const Type *t, int which)
{
    const Inst *o = t->inst;
    const Type *init = cls_find(t->ref, sym("__init__"));
    const Cls *maker = init && init->kind == TY_FUNC ? ((const Fn *)init->ref)->cls : NULL;
    int at = 0;

    if (!o || !maker || !maker->home->library || !maker->name || strcmp(maker->name->text, "NumericalPolicy"))
        return NULL;
    for (int i = 1; i < o->key->n; i++) {
        const Type *x = o->key->item[i];
        if (x->kind == TY_LAZY && i + 1 < o->key->n) {             /* a name: see inst_of */
            i++;
            if (!strcmp(x->text->text, fields[which]))
                return o->key->item[i];
        } else if (at++ == which) {
            return x;
        }
    }
    return NULL;
}

/* What a class or an object has in a field: NULL: nothing; T_ANY: not known. */
static const Type *field_type(Check *C, const Type *t, int which)
{
    const Cls *c = t->ref;
    const Inst *o = t->kind == TY_INSTANCE ? t->inst : NULL;
    Sym name = sym(fields[which]);
    const Type *x = t->kind == TY_INSTANCE ? constructed(t, which) : NULL;
    bool exact = t->kind == TY_CLASS || o;             /* no object of a derived class */
    uintptr_t stored = 0, elsewhere = 0;

    if (x && x->kind != TY_NONE)
        return x;
    map_find(&C->stored_attrs, (uintptr_t)name, &elsewhere);
    if (C->setattr_used || elsewhere & ATTR_STORED || (!exact && elsewhere) || map_find(&C->wild, (uintptr_t)name, NULL) || c->far)
        return T_ANY;
    C->held++;
    C->held_made++;
    if (o && map_find(&o->stored, (uintptr_t)name, &stored))
        return o->wild ? T_ANY : (const Type *)stored;
    x = cls_find(c, name);
    return x && x->kind == TY_NONE ? NULL : x;
}

/* A field that names a dtype. false: it is not known what it says. */
static bool dtype_field(Check *C, const Type *t, int which, uint8_t *out)
{
    const Type *x = field_type(C, t, which);
    DType dt;

    if (!x)
        return true;
    if (x->kind == TY_DTYPE)
        dt = (DType)x->value;
    else if (x->kind != TY_STR || !x->text || !dtype_find(x->text->text, &dt))
        return false;
    *out = (uint8_t)dt;
    return true;
}

static bool other_fields(Check *C, const Type *t, Policy *p)
{
    const Type *r = field_type(C, t, ROUNDING), *s = field_type(C, t, SATURATE), *d = field_type(C, t, DENORM);
    Rounding mode = ROUND_NEAREST;

    if ((r && (r->kind != TY_STR || !r->text || !rounding_find(r->text->text, &mode))) ||
        (s && (s->kind != TY_BOOL || s->value == BOOL_UNKNOWN)) || (d && (d->kind != TY_STR || !d->text)))
        return false;
    p->rounding = mode == ROUND_NEAREST ? DT_NONE : (uint8_t)mode;
    p->saturate = s && s->value == BOOL_TRUE;
    p->denorm = d && !strcmp(d->text->text, "flush") ? DENORM_FLUSH : DENORM_PRESERVE;
    return true;
}

/* What the class body gives the field: where it says so; NULL: it does not. */
static const Ast *field_value(AstSeq body, int which)
{
    for (int i = body.n - 1; i >= 0; i--) {
        const AstAssign *a = AST_AS(body.at[i], Assign);
        if (AST_IS(body.at[i], Assign) && a->targets.n == 1 && AST_IS(a->targets.at[0], Name) &&
            !strcmp(AST_AS(a->targets.at[0], Name)->id->text, fields[which]))
            return a->value;
    }
    return NULL;
}

/* A text for a mode that has no such name. */
static void mode_judged(Check *C, const Type *t, AstSeq body, int which, const char *choices)
{
    const Ast *value = field_value(body, which);
    const Type *x = value ? field_type(C, t, which) : NULL;
    Rounding mode;
    char what[64];
    bool known;

    if (!x || x->kind != TY_STR || !x->text)
        return;
    known = which == ROUNDING ? rounding_find(x->text->text, &mode) : !strcmp(x->text->text, "flush") || !strcmp(x->text->text, "preserve");
    snprintf(what, sizeof what, "the field '%s' of a policy", fields[which]);
    if (!known)
        diag_help(REPORT(C, E0906, value->span, what, choices, x->text->text), "the modes are %s", choices);
}

void policy_class_judged(Check *C, const Type *t, AstSeq body)
{
    const Ast *accumulate = field_value(body, ACCUMULATE);
    uint8_t storage = DT_NONE, dt = DT_NONE;
    Policy p = policy_none;

    if (!cls_has(t->ref, sym("storage")) || (!field_value(body, STORAGE) && !accumulate) || !dtype_field(C, t, STORAGE, &storage) ||
        storage == DT_NONE || !dtype_is_float((DType)storage))
        return;                                     /* what is stored in ints may be computed with as its class says */
    if (accumulate && dtype_field(C, t, ACCUMULATE, &dt)) {
        p.accum = dt;
        accum_wrong(C, storage, &p, accumulate->span);
    }
    mode_judged(C, t, body, ROUNDING, "nearest (rte), toward_zero, up, down, stochastic or away");
    mode_judged(C, t, body, DENORM, "preserve or flush");
}

static void read_object(Check *C, const Type *t, TType *out)
{
    Policy p = policy_none;

    if (!dtype_field(C, t, STORAGE, &out->dtype) || out->dtype == DT_NONE)
        return;
    if (dtype_field(C, t, COMPUTE, &p.compute) && dtype_field(C, t, ACCUMULATE, &p.accum) && other_fields(C, t, &p) &&
        (p.accum == DT_NONE || accum_fits((DType)out->dtype, (DType)p.accum)))
        out->policy = policy_intern(p);
}

/* int, float, bool and complex as dtypes: what class_dtype (tensor/bind.c) makes of them. */
static bool dtype_of_class(const Type *t, uint8_t *out)
{
    static const struct { const char *name; DType dt; } host[] = {{"int", DT_int32}, {"float", DT_f32}, {"bool", DT_bool}, {"complex", DT_c64}};

    for (size_t i = 0; t->kind == TY_NATIVE && i < sizeof host / sizeof *host; i++)
        if (!strcmp(((const NativeDef *)t->ref)->name, host[i].name) && !*((const NativeDef *)t->ref)->owner) {
            *out = (uint8_t)host[i].dt;
            return true;
        }
    return false;
}

bool element_of_type(Check *C, const Type *t, TType *out)
{
    DType dt;

    out->dtype = DT_NONE;
    out->policy = NULL;
    if (type_is_any(t))
        return false;
    if (t->kind == TY_DTYPE) {
        out->dtype = (uint8_t)t->value;
        out->policy = t->ref;
    } else if (t->kind == TY_STR && t->text && dtype_find(t->text->text, &dt)) {
        out->dtype = (uint8_t)dt;
    } else if (dtype_of_class(t, &out->dtype)) {
        return true;
    } else if (t->kind == TY_CLASS || t->kind == TY_INSTANCE) {
        read_object(C, t, out);
    }
    return out->dtype != DT_NONE;
}

/* ------------------------------------------------------------- tensors that meet */

const Type *with_declared_policy(const Type *t, const Type *declared)
{
    TType x;

    if (type_is_any(t) || type_is_any(declared) || t->kind != TY_TENSOR || t->ref || declared->kind != TY_TENSOR || !declared->tensor->policy ||
        (t->tensor->dtype != declared->tensor->dtype && t->tensor->dtype != DT_NONE))
        return t;
    x = *t->tensor;
    x.dtype = declared->tensor->dtype;
    x.policy = declared->tensor->policy;
    return x.rank == RANK_UNKNOWN ? type_tensor_rest(&x, type_front(t), type_back(t)) : type_tensor(&x);
}

bool policies_differ(const TType *a, const TType *b)
{
    return a->policy && b->policy && a->policy != b->policy && a->dtype == b->dtype;
}

/* The operator or function, as the program has it. */
static const char *operation(const Ast *node, const char *name)
{
    if (AST_IS(node, BinOp))
        return ast_op_text[AST_AS(node, BinOp)->op];
    return AST_IS(node, Compare) ? ast_op_text[AST_AS(AST_AS(node, Compare)->rest.at[0], CompareItem)->op] : name;
}

bool policies_meet(Check *C, const char *what, const TType *const *in, int n, Ast *node)
{
    const TType *first = NULL;

    for (int i = 0; i < n; i++) {
        if (first && policies_differ(first, in[i])) {
            Diag *d = REPORT(C, E0405, node->span, operation(node, what), element_text(first->dtype, first->policy),
                             element_text(in[i]->dtype, in[i]->policy), dtype_info[in[i]->dtype].name);
            origin_policies(C, d, node);
            return false;
        }
        first = in[i]->policy ? in[i] : first;
    }
    return true;
}
