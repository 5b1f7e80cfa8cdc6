/*
 * Functions made of functions: what calling grad(f), vmap(f), scan(f) or jit(f) asks of f and gives.
 *
 * A TY_TRANSFORM keeps which one it is and its options packed in `value`, and
 * the function in `ref`; without a function it is a decorator that waits for
 * one, as in @vmap(in_dims=0).
 */
#include "frontend/check/transforms.h"

#include "base/words.h"
#include "frontend/check/kernels.h"

#include <stdio.h>
#include <string.h>

/*
 * value, from bit 0: 8 bits the Transform; of grad and its kin see transform_grad.c;
 *   vmap: 4 bits out axis, then 4 bits for each of 12 arguments' axes, then 4 bits how many there are and one more; 0: any number
 * An axis from the end is below AXIS_UNKNOWN: 13 is -1, 12 is -2, and so on down to AXIS_FIRST.
 */
enum { OUT_AXIS = 8, IN_AXIS = 12, MAPPED = 12, IN_COUNT = 60 };
enum { AXIS_FIRST = 9, AXIS_UNKNOWN = 14, AXIS_NONE = 15 };

static const struct { const char *name; Transform which; } makers[] = {
    {"grad", TRANSFORM_GRAD}, {"value_and_grad", TRANSFORM_VALUE_AND_GRAD}, {"vmap", TRANSFORM_VMAP}, {"scan", TRANSFORM_SCAN},
    {"jacfwd", TRANSFORM_JACOBIAN}, {"jacrev", TRANSFORM_JACOBIAN}, {"hessian", TRANSFORM_HESSIAN}, {"jit", TRANSFORM_STAGED}, {"export", TRANSFORM_STAGED},
    {"checkpoint", TRANSFORM_SAME}, {"remat", TRANSFORM_SAME}, {"vjp", TRANSFORM_VJP}, {"jvp", TRANSFORM_JVP},
    {"cond", TRANSFORM_COND}, {"while_loop", TRANSFORM_WHILE}, {"tree_map", TRANSFORM_TREE_MAP},
    {"namedtuple", TRANSFORM_RECORD}, {"compose", TRANSFORM_PIPE}, {"pipe", TRANSFORM_PIPE},
};

/* ------------------------------------------------------------- trees of tensors */

const Type *tree_changed(const Type *t, const TreeChange *c)
{
    const Type *m[ITEMS_MAX];
    TType x;

    if (type_is_any(t))
        return NULL;
    if (t->kind == TY_TENSOR) {
        x = *t->tensor;
        return c->change(&x, c->with) ? type_tensor(&x) : NULL;
    }
    if ((t->kind != TY_TUPLE && t->kind != TY_LIST && t->kind != TY_DICT) || t->n < 0 || t->n > ITEMS_MAX)
        return NULL;
    for (int i = 0; i < t->n; i++)
        if (!(m[i] = t->kind == TY_DICT && i % 2 == 0 ? t->item[i] : tree_changed(t->item[i], c)))
            return NULL;
    if (t->kind == TY_TUPLE)
        return type_tuple(m, t->n);
    if (t->kind == TY_DICT)
        return t->exact ? type_dict_of(m, t->n) : type_dict(m[0], m[1]);
    return t->exact ? type_list_of(m, t->n) : type_list(m[0]);
}

/* The axis that a code means, of so many. */
static int axis_of(int code, int rank)
{
    return code >= AXIS_FIRST && code < AXIS_UNKNOWN ? code - AXIS_UNKNOWN + rank : code;
}

static TType *drop_axis(TType *t, const void *with)
{
    int k = t->rank == RANK_UNKNOWN ? 0 : axis_of(*(const int *)with, t->rank);

    if (t->rank == RANK_UNKNOWN || k < 0 || k >= t->rank)
        return NULL;
    memmove(t->shape + k, t->shape + k + 1, sizeof(Dim) * (size_t)(t->rank - k - 1));
    t->rank--;
    return t;
}

typedef struct { int axis; Dim size; } NewAxis;

static TType *drop_policy(TType *t, const void *with)
{
    t->policy = NULL;
    return t;
}

static TType *add_axis(TType *t, const void *with)
{
    const NewAxis *a = with;
    int k = t->rank == RANK_UNKNOWN ? 0 : axis_of(a->axis, t->rank + 1);

    if (t->rank == RANK_UNKNOWN || t->rank > 14 || k < 0 || k > t->rank)
        return NULL;
    memmove(t->shape + k + 1, t->shape + k, sizeof(Dim) * (size_t)(t->rank - k));
    t->shape[k] = a->size;
    t->rank++;
    t->weak = 0;
    return t;
}

/* The size of one axis of every tensor in a tree; DIM_BAD: not known. */
static Dim axis_size(const Type *t, int axis)
{
    if (type_is_any(t))
        return DIM_BAD;
    if (t->kind == TY_TENSOR) {
        axis = t->tensor->rank == RANK_UNKNOWN ? -1 : axis_of(axis, t->tensor->rank);
        return axis < 0 || axis >= t->tensor->rank ? DIM_BAD : t->tensor->shape[axis];
    }
    if ((t->kind == TY_TUPLE || t->kind == TY_LIST) && t->n > 0)
        return axis_size(t->item[0], axis);
    return t->kind == TY_DICT && t->n > 1 ? axis_size(t->item[1], axis) : DIM_BAD;
}

/* ------------------------------------------------------------- vmap */

static void report_mapped(Check *C, Ast *node, Dim a, Dim b)
{
    StrBuf x = {0}, y = {0}, text = {0};

    dim_print(a, &x);
    dim_print(b, &y);
    sb_printf(&text, "vmap: the mapped axes have sizes %s and %s", sb_str(&x), sb_str(&y));
    diag_help(REPORT(C, E0306, node->span, sb_str(&text)),
              "all arguments that are mapped have as many entries; in_dims= says along which axis, None that one is the same for all");
    sb_done(&x);
    sb_done(&y);
    sb_done(&text);
}

static bool has_no_axis(const Type *t, int code)
{
    int rank = t->kind == TY_TENSOR ? t->tensor->rank : RANK_UNKNOWN;

    return rank != RANK_UNKNOWN && (axis_of(code, rank) < 0 || axis_of(code, rank) >= rank);
}

bool call_has_names(const CallArgs *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->at[i].name)
            return true;
    return false;
}

/* vmap(f)(x, y): f on slices of the mapped axes, whose sizes must agree. */
static const Type *call_vmap(Check *C, const Type *t, CallArgs *a, Ast *node)
{
    CallArg inner[64];
    CallArgs in = {inner, a->n, a->open};
    const Type *r;
    Dim lead = DIM_BAD;
    int out = (int)(t->value >> OUT_AXIS & 15), axes = (int)(t->value >> IN_COUNT & 15);
    char text[96];

    if (axes && axes - 1 != a->n && !a->open && !call_has_names(a)) {
        snprintf(text, sizeof text, "vmap: in_axes has %d entries, the call %d argument%s", axes - 1, a->n, a->n == 1 ? "" : "s");
        diag_help(REPORT(C, E0306, node->span, text), "in_axes has one entry for each argument: an axis, or None for one that is not mapped");
        return T_ANY;
    }

    for (int i = 0; i < a->n; i++) {
        int axis = i < MAPPED ? (int)(t->value >> (IN_AXIS + 4 * i) & 15) : AXIS_UNKNOWN;
        Dim size = axis < AXIS_UNKNOWN && !a->at[i].name ? axis_size(a->at[i].type, axis) : DIM_BAD;
        inner[i] = a->at[i];
        if (axis == AXIS_NONE && !a->at[i].name)
            continue;
        if (axis < AXIS_UNKNOWN && !a->at[i].name && has_no_axis(a->at[i].type, axis)) {
            tensor_axis_report(C, a->at[i].type->tensor, axis < AXIS_FIRST ? axis : axis - AXIS_UNKNOWN, "vmap", node);
            return T_ANY;
        }
        inner[i].type = axis == AXIS_UNKNOWN ? NULL : tree_changed(a->at[i].type, &(TreeChange){drop_axis, &axis});
        if (!inner[i].type)
            inner[i].type = T_ANY;
        if (size == DIM_BAD)
            continue;
        if (lead == DIM_BAD)
            lead = size;
        else if (dims_differ(lead, size) && !dim_is_open(lead) && !dim_is_open(size)) {
            report_mapped(C, node, lead, size);
            return T_ANY;
        }
    }
    r = call_type(C, t->ref, &in, node);
    if (lead == DIM_BAD || out >= AXIS_UNKNOWN)
        return T_ANY;
    r = tree_changed(r, &(TreeChange){add_axis, &(NewAxis){out, lead}});
    return r ? r : T_ANY;
}

/* ------------------------------------------------------------- scan */

/* The carry must come out as it went in. false: it surely does not, reported. */
static bool carry_fits(Check *C, const Type *in, const Type *out, Ast *node)
{
    if (type_is_any(in) || type_is_any(out))
        return true;
    if (in->kind == TY_TUPLE && out->kind == TY_TUPLE && in->n == out->n) {
        for (int i = 0; i < in->n; i++)
            if (!carry_fits(C, in->item[i], out->item[i], node))
                return false;
        return true;
    }
    if (in->kind != TY_TENSOR || out->kind != TY_TENSOR || type_fits(C, out, in) != FITS_NOT)
        return true;
    StrBuf text = {0};
    if (in->tensor->dtype != out->tensor->dtype && in->tensor->dtype != DT_NONE && out->tensor->dtype != DT_NONE) {
        if (in->tensor->weak || C->mixed)
            return true;
        sb_printf(&text, "scan: the carry is %s and becomes %s", dtype_info[in->tensor->dtype].name, dtype_info[out->tensor->dtype].name);
    } else
        sb_printf(&text, "scan: the carry is %s and becomes %s", shape_of(in->tensor), shape_of(out->tensor));
    diag_help(REPORT(C, E0306, node->span, sb_str(&text)), "a carry keeps its shape and dtype from step to step");
    sb_done(&text);
    return false;
}

/* scan(f, init, xs): (carry, stacked results). */
static const Type *transform_scan(Check *C, const Type *f, const Type *init, const Type *xs, Ast *node)
{
    int front = 0;
    const Type *x = tree_changed(xs, &(TreeChange){drop_axis, &front}), *pair[2] = {T_ANY, T_ANY}, *r, *ys;
    CallArg arg[2] = {{NULL, init, node, 0}, {NULL, x ? x : T_ANY, node, 0}};
    Dim steps = axis_size(xs, 0);

    C->lenient++;
    r = call_type(C, f, &(CallArgs){arg, 2, false}, node);
    C->lenient--;
    if (r->kind == TY_TENSOR || r->kind == TY_NONE || r->kind == TY_FLOAT || r->kind == TY_INT || (r->kind == TY_TUPLE && r->n >= 0 && r->n != 2)) {
        Diag *d = REPORT(C, E0906, node->span, "the result of a scan's function", "a pair (carry, output)", type_text(r));
        diag_help(d, "return carry, output: what the next step gets, and what is stacked");
    }
    if (type_is_any(r) || r->kind != TY_TUPLE || r->n != 2)
        return type_tuple(pair, 2);
    if (!carry_fits(C, init, r->item[0], node))
        return type_tuple(pair, 2);
    ys = steps == DIM_BAD ? NULL : tree_changed(r->item[1], &(TreeChange){add_axis, &(NewAxis){0, steps}});
    ys = ys ? tree_changed(ys, &(TreeChange){drop_policy, NULL}) : ys;
    pair[0] = type_is_any(init) || init->kind == TY_TENSOR || init->kind == TY_TUPLE ? r->item[0] : T_ANY;
    pair[1] = ys ? ys : T_ANY;
    return type_tuple(pair, 2);
}

/* ------------------------------------------------------------- making and calling */

/* What a staged function gives: its numbers may come back as tensors. */
const Type *type_staged(const Type *t)
{
    const Type *m[ITEMS_MAX];

    if (type_is_any(t))
        return t;
    switch (t->kind) {
    case TY_TENSOR: case TY_NONE:
        return t;
    case TY_TUPLE:
        if (t->n < 0 || t->n > ITEMS_MAX)
            return T_ANY;
        for (int i = 0; i < t->n; i++)
            m[i] = type_staged(t->item[i]);
        return type_tuple(m, t->n);
    default:
        return T_ANY;
    }
}

static int axis_code(const Type *t)
{
    int64_t k;

    if (!type_is_any(t) && t->kind == TY_NONE)
        return AXIS_NONE;
    if (type_is_any(t) || t->kind != TY_INT || !dim_const_value(t->value, &k) || k < AXIS_FIRST - AXIS_UNKNOWN || k >= AXIS_FIRST)
        return AXIS_UNKNOWN;
    return (int)(k < 0 ? k + AXIS_UNKNOWN : k);
}

/* One axis for all arguments, or one for each: their number and one more. */
static uint64_t read_axes(const Type *t, int *in)
{
    const Type *const *m;
    int n = type_is_any(t) ? -1 : type_items(t, &m);

    for (int k = 0; k < MAPPED; k++)
        in[k] = n < 0 ? axis_code(t) : k < n ? axis_code(m[k]) : AXIS_UNKNOWN;
    return n >= 0 && n <= MAPPED ? (uint64_t)n + 1 : 0;
}

static bool vmap_options(const CallArgs *a, int at, Dim *value)
{
    int out = 0, in[MAPPED] = {0};
    uint64_t axes = 0;

    for (int i = at; i < a->n; i++) {
        const char *s = a->at[i].name ? a->at[i].name->text : i == 1 ? "in_dims" : "out_dims";
        const Type *t = a->at[i].type;
        if (!strcmp(s, "out_dims") || !strcmp(s, "out_axes"))
            out = axis_code(t);
        else if (!strcmp(s, "in_dims") || !strcmp(s, "in_axes"))
            axes = read_axes(t, in);
        else
            return false;
    }
    *value |= (Dim)out << OUT_AXIS | (Dim)(axes << IN_COUNT);
    for (int k = 0; k < MAPPED; k++)
        *value |= (Dim)in[k] << (IN_AXIS + 4 * k);
    return true;
}

static bool is_function(const Type *f)
{
    return !type_is_any(f) && (f->kind == TY_FUNC || f->kind == TY_TRANSFORM || f->kind == TY_METHOD || f->kind == TY_LIBRARY ||
                               f->kind == TY_NATIVE || f->kind == TY_INSTANCE || f->kind == TY_CALLABLE);
}

/* The Transform that a function of this name makes; -1: none. */
static int maker(const char *name)
{
    static Word slot[64];
    static Words words = {slot, 64, 0};

    bool empty = !words.n;

    for (size_t i = 0; empty && i < sizeof makers / sizeof *makers; i++)
        words_add_all(&words, makers[i].name, makers[i].which);
    return words_find(&words, name);
}

/* grad(loss(x)), scan(init, step, xs): what surely is no function. */
static void function_judged(Check *C, const char *name, const CallArgs *a, Ast *node)
{
    const Type *f = a->at[0].type;
    char what[64];
    Diag *d;

    if (type_is_any(f) || !((f->kind >= TY_NONE && f->kind <= TY_RANGE) || f->kind == TY_TENSOR) || C->home->library)
        return;
    snprintf(what, sizeof what, "the first argument of %.30s()", name);
    d = REPORT(C, E0906, at_call(node, a->at[0].node), what, "a function", type_text(f));
    for (int i = 1; i < a->n; i++)
        if (!a->at[i].name && is_function(a->at[i].type) && a->at[i].type->kind != TY_INSTANCE) {
            diag_help(d, "the function comes first: %s", !strcmp(name, "scan") ? "scan(step, init, xs)" : "then what it is given");
            return;
        }
    diag_help(d, AST_IS(a->at[0].node, Call) ? "hand over the function itself, without calling it" : "give a function, a lambda or a Module");
}

/* grad(f, x): a tensor where the options stand; what is made is to be called with it. */
static bool applied_at_once(Check *C, const char *name, const CallArgs *a, Ast *node)
{
    const Type *x = a->n > 1 && !a->at[1].name && !a->at[1].stars ? a->at[1].type : T_ANY;
    char what[64];

    if (type_is_any(x) || x->kind != TY_TENSOR || x->tensor->rank == 0 || C->home->library)
        return false;
    snprintf(what, sizeof what, "the second argument of %.30s()", name);
    diag_help(REPORT(C, E0906, at_call(node, a->at[1].node), what, "an option", type_text(x)),
              "%s(f) gives a function, which is called with the arguments: %s(f)(x)", name, name);
    return true;
}

static bool made_of_several(Check *C, int which, const CallArgs *a, Ast *node, const Type **out)
{
    if (a->open || a->n < (which == TRANSFORM_TREE_MAP ? 2 : 3) || call_has_names(a))
        return false;
    *out = which == TRANSFORM_TREE_MAP ? transform_tree_map(C, a, node) :
           which == TRANSFORM_COND ? transform_cond(C, a, node) : transform_while(C, a, node);
    return true;
}

bool transform_make(Check *C, const char *name, CallArgs *a, Ast *node, const Type **out)
{
    const Type *f = a->n && !a->at[0].name ? a->at[0].type : NULL;
    int which = maker(name), at = f != NULL;
    Dim value;

    if (which == TRANSFORM_COND || which == TRANSFORM_WHILE || which == TRANSFORM_TREE_MAP)
        return made_of_several(C, which, a, node, out);
    if (which == TRANSFORM_RECORD) {
        *out = record_made(C, a, node);
        return true;
    }
    if (which < 0 || a->open)
        return false;
    if (which == TRANSFORM_PIPE)
        return transform_pipe(a, name, out);
    if (f && !is_function(f)) {
        function_judged(C, name, a, node);
        return false;
    }
    value = which;
    *out = T_ANY;
    if (which == TRANSFORM_VJP || which == TRANSFORM_JVP) {
        if (f && which == TRANSFORM_VJP)
            *out = transform_vjp(C, f, a, node);
        else if (f && a->n == 3 && !a->at[1].name && !a->at[2].name)
            *out = transform_jvp(C, f, a->at[1].type, a->at[2].type, node);
        return true;
    }
    if (which == TRANSFORM_SCAN && a->n >= 3 && !a->at[1].name && !a->at[2].name) {
        *out = a->n == 3 || a->at[3].name ? transform_scan(C, f, a->at[1].type, a->at[2].type, node) : T_ANY;
        return true;
    }
    if (which != TRANSFORM_SCAN && applied_at_once(C, name, a, node))
        return true;
    if ((which == TRANSFORM_GRAD || which == TRANSFORM_VALUE_AND_GRAD || which == TRANSFORM_JACOBIAN || which == TRANSFORM_HESSIAN) &&
        !transform_grad_options(a, at, &value))
        return true;
    if (which == TRANSFORM_VMAP && !vmap_options(a, at, &value))
        return true;
    if (which == TRANSFORM_SCAN && a->n > at)
        return true;
    *out = which == TRANSFORM_SAME && f ? f : type_transform(value, f);
    return true;
}

const Type *transform_call(Check *C, const Type *t, CallArgs *a, Ast *node)
{
    const Type *f = a->n == 1 && !a->at[0].name ? a->at[0].type : NULL;

    if (t->ref && (t->value & 255) >= TRANSFORM_KERNEL)
        return kernel_used(C, t, a, node);
    if (!t->ref)                        /* a decorator that waits for its function */
        return is_function(f) ? ((t->value & 255) == TRANSFORM_SAME ? f : type_transform(t->value, f)) : T_ANY;
    switch (t->value & 255) {
    case TRANSFORM_PARTIAL:
        return transform_partial(C, t, a, node);
    case TRANSFORM_PIPE:
        return transform_piped(C, t, a, node);
    case TRANSFORM_PULLBACK:
        return transform_pullback(C, t, a, node);
    case TRANSFORM_VMAP:
        return call_vmap(C, t, a, node);
    case TRANSFORM_JACOBIAN:
        return transform_jacobian(C, t, a, node, 1);
    case TRANSFORM_HESSIAN:
        return transform_jacobian(C, t, a, node, 2);
    case TRANSFORM_SCAN:
        return a->n == 2 ? transform_scan(C, t->ref, a->at[0].type, a->at[1].type, node) : T_ANY;
    case TRANSFORM_STAGED:
        return type_staged(call_type(C, t->ref, a, node));
    default:
        return transform_grad(C, t, a, node);
    }
}
