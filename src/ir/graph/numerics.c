/*
 * Numeric policies: what an op computes in, sums in and rounds to.
 *
 * Two things may say so: the scope (with tessera.numerics(...)), and the type of
 * an operand (bf16 @accum(f32), Policy(...)), which the results that keep its
 * dtype inherit.  What a type says goes before what the scope says, except for
 * `storage`: a type's is its own dtype, a scope's that of products made in it.
 *
 *   products      operands go to compute, sums are kept in accum, the result is rounded to storage
 *   sums          are kept in accum
 *   arithmetic    on a tensor whose type names a compute dtype is done in that one.  A scope's compute is for products:
 *                 exponentials and norms in f16 are what nobody asks for who writes precision("mixed")
 *   every result  of these in a dtype narrower than what it was computed in is rounded, saturated and flushed as they say
 *
 * All of it becomes converts around a plain op with `accum`, so levels, graphs
 * and derivatives know nothing of it; it happens once, where the program calls
 * the op (Trace.settled).
 *
 * A type with a loss scale k stands for a tensor whose tangents are divided by
 * k, so that its cotangents are carried times k and do not underflow.  Converts
 * into and out of such types change the tangents (jvp_convert); operands beside
 * a scaled one are brought in first, results that leave the type are brought out.
 */
#include "ir/graph/numerics.h"

#include "ir/graph/unrounded.h"

/* What governs one op. */
typedef struct Governing {
    Policy p;
    const Policy *own;          /* of the operands' type; NULL: none */
} Governing;

static bool run1(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out)
{
    int n;

    return op_dispatch(T, op, a, in, nin, out, &n);
}

/* The policy that the operands' types have in common. */
static bool find_own(Trace *T, OpId op, Tensor *const *in, int nin, const Policy **own)
{
    *own = NULL;
    for (int i = 0; i < nin; i++) {
        if (*own && in[i]->policy && in[i]->policy != *own)
            return trace_fail(T, OPERR_DTYPE, "%s: the operands have different numeric policies; give one of them the other's with .to(x.policy), "
                              "or none with .to(x.dtype)", op_info[op].name);
        *own = *own ? *own : in[i]->policy;
    }
    return true;
}

static Governing governing(const Trace *T, const Policy *own)
{
    Governing g = {T->numerics ? *T->numerics : policy_none, own};
    uint8_t store = g.p.storage;

    if (own)
        g.p = policy_over(g.p, own);
    g.p.storage = store;
    return g;
}

/* Conversions that round to nearest and overflow as the format does need no attributes. */
static bool rounds_plainly(const Policy *p)
{
    return policy_rounding(p) == ROUND_NEAREST && !p->saturate && p->denorm == DENORM_PRESERVE;
}


/* x in a->dtype as p says, which a says nothing of yet. Stochastic rounding is a draw like others: with a key of its own. */
static bool convert_by(Trace *T, const Policy *p, Attr *a, Tensor *x, Tensor **out)
{
    Tensor *key;
    bool ok;

    a->rounding = (uint8_t)policy_rounding(p);
    a->saturate = p->saturate;
    a->flush = p->denorm == DENORM_FLUSH;
    if (a->rounding == ROUND_STOCHASTIC && (!dtype_is_inexact((DType)a->dtype) || dtype_holds((DType)a->dtype, (DType)x->dtype)))
        a->rounding = ROUND_NEAREST;
    if (a->rounding != ROUND_STOCHASTIC)
        return run1(T, OP_convert, a, &x, 1, out);
    if (!(key = trace_key(T)))
        return false;
    ok = run1(T, OP_dither, a, (Tensor *[]){x, key}, 2, out);
    tensor_unref(key);
    return ok;
}

/* y, which it takes, stored: in dtype `store` of policy `label`. carried: y's tangents are still divided by the scale of g. */
static bool store_as(Trace *T, const Governing *g, Tensor *y, uint8_t store, const Policy *label, bool carried, Tensor **out)
{
    Attr a = attr_default();
    bool ok;

    carried = carried && !y->policy && dtype_is_inexact((DType)y->dtype);
    if (y->dtype == store && y->policy == label && !carried) {
        *out = y;
        return true;
    }
    a.dtype = store;
    a.policy = label;
    a.f = carried ? g->own->scale : 0;
    ok = dtype_holds((DType)store, (DType)y->dtype) ? run1(T, OP_convert, &a, &y, 1, out) : convert_by(T, &g->p, &a, y, out);
    tensor_unref(y);
    return ok;
}

/* The floats among x in another dtype; results are new references in place of the old ones. */
static bool take_to(Trace *T, const Governing *g, Tensor **x, int n, uint8_t from, uint8_t to)
{
    for (int i = 0; i < n; i++) {
        Tensor *y = x[i];
        if (y->dtype != from || from == to)
            continue;
        x[i] = NULL;
        if (!store_as(T, g, y, to, NULL, false, &x[i]))
            return false;
    }
    return true;
}

enum { FEW = 8 };

/* References to the operands, in `few` when they fit. */
static Tensor **hold(Tensor *const *in, int nin, Tensor **few)
{
    Tensor **x = nin <= FEW ? few : tsr_alloc(sizeof *x * (size_t)nin);

    for (int i = 0; i < nin; i++)
        x[i] = tensor_ref(in[i]);
    return x;
}

static void release(Tensor **x, int n, const Tensor *const *few)
{
    tensors_unref(x, n);
    if ((const Tensor *const *)x != few)
        tsr_free(x);
}

/* -- products and sums ------------------------------------------------------------------------------------------------------ */

/* Under fast numerics f32 operands that go to tf32 are left to the product: units take no more of them, and what has no units has more digits. */
static bool units_may_round(const Governing *g, OpId op, uint8_t dt)
{
    return g->p.fast && g->p.compute == DT_tf32 && dt == DT_f32 && op == OP_matmul && rounds_plainly(&g->p);
}

/* matmul and conv of floats: in compute, summed in accum, rounded once to storage. */
static bool contract(Trace *T, const Governing *g, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out)
{
    Tensor *few[FEW], **x = hold(in, nin, few), *y;
    uint8_t dt = in[0]->dtype, compute = g->p.compute == DT_NONE ? dt : g->p.compute;
    uint8_t store = a->dtype != DT_NONE ? a->dtype : g->p.storage != DT_NONE ? g->p.storage : dt;
    const Policy *label = store == dt ? g->own : NULL;
    Attr b = *a;
    bool ok = true, left = units_may_round(g, op, dt);

    b.compute = g->p.compute;
    if (g->own) {
        Policy told = *g->own;
        told.storage = store;
        b.policy = policy_intern(told);
    }
    if (b.accum == DT_NONE && g->p.accum != DT_NONE && dtype_is_float((DType)g->p.accum))
        b.accum = g->p.accum;
    b.dtype = b.accum != DT_NONE ? b.accum : (uint8_t)dtype_accum((DType)compute);
    if (!left && op == OP_matmul && compute == DT_tf32 && dt == DT_f32 && x[1]->dtype == DT_f32 && rounds_plainly(&g->p))
        left = unrounded_pair(T, x, &b, &ok);
    ok = left ? ok : take_to(T, g, x, nin, dt, compute);
    ok = ok && run1(T, op, &b, x, nin, &y);
    ok = ok && store_as(T, g, y, store, label, g->own && g->own->has_scale && compute == dt, out);
    release(x, nin, (const Tensor *const *)few);
    return ok;
}

/* Sums and products of floats along axes. */
static bool reduce(Trace *T, const Governing *g, OpId op, const Attr *a, Tensor *const *in, Tensor **out)
{
    uint8_t dt = in[0]->dtype, store = a->dtype == DT_NONE ? dt : a->dtype, wide;
    bool rerounds = op == OP_sum || op == OP_prod || op == OP_cumsum;
    Attr b = *a;
    Tensor *y;

    if (b.accum == DT_NONE && g->p.accum != DT_NONE && dtype_is_float((DType)g->p.accum))
        b.accum = g->p.accum;
    if (op == OP_sum && b.kind == 0)
        b.kind = g->p.compensated;
    wide = b.accum != DT_NONE ? b.accum : (uint8_t)dtype_accum((DType)dt);
    if (rerounds && wide != store && !rounds_plainly(&g->p))
        b.dtype = wide;
    return run1(T, op, &b, in, 1, &y) && store_as(T, g, y, store, store == dt ? g->own : NULL, g->own && g->own->has_scale, out);
}

/* -- arithmetic ---------------------------------------------------------------------------------------------------------------- */

/* Elementwise ops that give one of their operands, or an exact function of it: there is nothing to compute or to round. */
static bool is_exact(OpId op)
{
    switch (op) {
    case OP_neg: case OP_abs: case OP_sign: case OP_floor: case OP_ceil: case OP_round: case OP_trunc: case OP_maximum: case OP_minimum:
    case OP_where: case OP_convert: case OP_stop_gradient: case OP_real: case OP_imag: case OP_conj: case OP_complex:
        return true;
    default:
        return false;
    }
}

/* The dtype in which an elementwise op on dt is done under g; dt itself: as it would be anyway. */
static uint8_t computed_in(const Governing *g, uint8_t dt)
{
    uint8_t usual = (uint8_t)dtype_compute((DType)dt);
    uint8_t asked = g->own && g->own->compute != DT_NONE && dtype_is_float((DType)g->own->compute) ? g->own->compute : usual;

    if (rounds_plainly(&g->p))
        return asked == usual ? dt : asked;
    return asked == dt ? usual : asked;
}

static bool arithmetic(Trace *T, const Governing *g, OpId op, const Attr *a, Tensor *const *in, int nin, uint8_t compute, Tensor **out)
{
    Tensor *few[FEW], **x = hold(in, nin, few), *y;
    uint8_t dt = in[0]->dtype;
    bool ok = take_to(T, g, x, nin, dt, compute) && run1(T, op, a, x, nin, &y) && store_as(T, g, y, dt, g->own, false, out);

    release(x, nin, (const Tensor *const *)few);
    return ok;
}

/* -- the door --------------------------------------------------------------------------------------------------------------------- */

static bool is_sum(OpId op) { return op == OP_sum || op == OP_prod || op == OP_cumsum || op == OP_cumprod; }

bool may_be_fast(OpId op, const Tensor *x)
{
    return dtype_is_float((DType)x->dtype) && ((op_info[op].family == FAM_MAP && !is_exact(op)) || op == OP_sum || op == OP_prod || op == OP_matmul);
}

/* A conversion that says nothing itself: as the type it makes says, else as the scope does. */
static bool convert_governed(Trace *T, const Attr *a, Tensor *const *in, Tensor **out, bool *ok)
{
    Governing g = governing(T, a->policy);
    Attr b = *a;

    if (a->rounding || a->saturate || rounds_plainly(&g.p) || (dtype_holds((DType)a->dtype, (DType)in[0]->dtype) && g.p.denorm == DENORM_PRESERVE))
        return false;
    *ok = convert_by(T, &g.p, &b, in[0], out);
    return true;
}

/* Does a policy change how this op computes? */
static bool governs(const Governing *g, OpId op, const Attr *a, Tensor *const *in, int nin)
{
    const Policy *p = &g->p;

    if (!dtype_is_float((DType)in[0]->dtype))
        return false;
    if (op_info[op].family == FAM_CONTRACT)
        return nin == 2 && (p->compute != DT_NONE || p->accum != DT_NONE || p->storage != DT_NONE || !rounds_plainly(p));
    return is_sum(op) && (a->kind == 0) && (p->accum != DT_NONE || p->compensated || !rounds_plainly(p));
}

/* Control flow and effects take their operands as they are. */
static bool follows_rules(OpId op)
{
    int family = op_info[op].family;

    return op != OP_stop_gradient && op != OP_as_softmax && family != FAM_CONTROL && family != FAM_EFFECT && family != FAM_COLLECTIVE;
}

/* The op under g; false when g changes nothing. */
static bool govern(Trace *T, const Governing *g, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, bool *ok)
{
    uint8_t dt = in[0]->dtype, compute;

    if (op_info[op].family == FAM_CONTRACT && nin == 2 && g->p.quant[0] != DT_NONE && dtype_is_float((DType)dt)) {
        *ok = quantized_product(T, &g->p, op, a, in, out);
        return true;
    }
    if (governs(g, op, a, in, nin)) {
        *ok = is_sum(op) ? reduce(T, g, op, a, in, out) : contract(T, g, op, a, in, nin, out);
        return true;
    }
    if (op_info[op].family != FAM_MAP || op_info[op].flags & OPF_NODIFF || is_exact(op) || !dtype_is_float((DType)dt) || a->dtype != DT_NONE ||
        (compute = computed_in(g, dt)) == dt)
        return false;
    *ok = arithmetic(T, g, op, a, in, nin, compute, out);
    return true;
}

/* As govern, for an op with an operand of a loss-scaled type: its other floats come in, results that leave the type go out. */
static bool scaled(Trace *T, const Governing *g, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor *few[FEW], **x = hold(in, nin, few);
    uint8_t dt = DT_NONE;
    bool ok = true;

    for (int i = 0; i < nin; i++)
        dt = in[i]->policy ? in[i]->dtype : dt;
    for (int i = 0; ok && i < nin; i++)
        if (x[i]->dtype == dt && !x[i]->policy) {
            Tensor *bare = x[i];
            x[i] = NULL;
            ok = store_as(T, g, bare, dt, g->own, false, &x[i]);
        }
    if (ok && !govern(T, g, op, a, x, nin, out, &ok)) {
        ok = op_dispatch(T, op, a, x, nin, out, nout);
        for (int i = 0; ok && i < *nout; i++) {
            Tensor *y = out[i];
            ok = store_as(T, g, y, y->dtype, y->policy, true, &out[i]);
            if (!ok)
                tensors_unref(out, i);
        }
    }
    release(x, nin, (const Tensor *const *)few);
    return ok;
}

bool apply_numerics(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout, bool *ok)
{
    Governing g;
    const Policy *own;
    Attr b;

    if (T->settled || !nin || !follows_rules(op))
        return false;
    *nout = 1;
    if (op == OP_convert)
        return (T->numerics || a->policy) && convert_governed(T, a, in, out, ok);
    if (!(*ok = find_own(T, op, in, nin, &own)))
        return true;
    if (!own && !T->numerics)
        return false;
    g = governing(T, own);
    b = *a;
    b.flush |= op_info[op].family == FAM_MAP && g.p.denorm == DENORM_FLUSH;
    b.fast |= g.p.fast && may_be_fast(op, in[0]);
    if (own && own->has_scale)
        *ok = scaled(T, &g, op, &b, in, nin, out, nout);
    else if (govern(T, &g, op, &b, in, nin, out, ok))
        return true;
    else if (b.flush != a->flush || b.fast != a->fast)
        *ok = run1(T, op, &b, in, nin, out);
    else
        return false;
    return true;
}
