/*
 * Shape rules of ops that move and index elements.
 * D is the size of an axis; attributes about "trailing axes" leave leading ones alone.
 */
#include "ir/core/infer.h"

#define OP(name, nin, nout, fam, shape, ...) bool shape_##shape(Infer *f);
#include "ir/core/ops.def"

static void copy_shape(TType *to, const TType *from, int rank)
{
    to->rank = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        to->shape[i] = from->shape[i];
}

static bool negative(Dim d)
{
    return dim_below(d, 0);
}

static Dim product(const Dim *d, int n)
{
    Dim p = 1;

    for (int i = 0; i < n; i++)
        p = dim_mul(p, d[i]);
    return p;
}

bool shape_RESHAPE(Infer *f)
{
    const TType *x = &f->in[0];
    Dim have = product(x->shape, x->rank), want = product(f->a->d[0], f->a->nd[0]);

    for (int i = 0; i < f->a->nd[0]; i++)
        if (negative(f->a->d[0][i]))
            return infer_fail(f, INFER_SHAPE, "reshape: a size cannot be negative: %s", dims_text(f->a->d[0], f->a->nd[0]));
    if (!dim_may_equal(have, want))
        return infer_fail(f, INFER_SHAPE, "cannot reshape %s to %s: %s elements do not fit %s", shape_text(x),
                          dims_text(f->a->d[0], f->a->nd[0]), dim_text(have), dim_text(want));
    f->out[0].rank = f->a->nd[0];
    for (int i = 0; i < f->a->nd[0]; i++)
        f->out[0].shape[i] = f->a->d[0][i];
    return true;
}

bool shape_PERMUTE(Infer *f)
{
    const TType *x = &f->in[0];
    int n = f->a->naxes;
    bool used[16] = {false};

    if (n > x->rank)
        return infer_fail(f, INFER_SHAPE, "permute: %d axes named, %s has %d", n, shape_text(x), x->rank);
    copy_shape(&f->out[0], x, x->rank);
    for (int i = 0; i < n; i++) {
        int k = infer_axis(f, f->a->axis[i], x->rank);
        if (k < 0)
            return false;
        if (k < x->rank - n || used[k])
            return infer_fail(f, INFER_SHAPE, "permute: the axes are not a permutation of the last %d of %s", n, shape_text(x));
        used[k] = true;
        f->out[0].shape[x->rank - n + i] = x->shape[k];
    }
    return true;
}

bool shape_BROADCAST_TO(Infer *f)
{
    const TType *x = &f->in[0];
    int n = f->a->nd[0], lead = n - x->rank;

    if (lead < 0)
        return infer_fail(f, INFER_SHAPE, "cannot broadcast %s to %s: it has more axes", shape_text(x), dims_text(f->a->d[0], n));
    f->out[0].rank = (uint8_t)n;
    for (int i = 0; i < n; i++) {
        Dim want = f->a->d[0][i], have = i < lead ? 1 : x->shape[i - lead];
        if (negative(want) || !dim_stretches(have, want))
            return infer_fail(f, INFER_SHAPE, "cannot broadcast %s to %s: sizes %s and %s at axis %d", shape_text(x),
                              dims_text(f->a->d[0], n), dim_text(have), dim_text(want), i - n);
        f->out[0].shape[i] = want;
    }
    return true;
}

/* May it be added to another such number? */
static bool countable(int64_t v) { return v > -((int64_t)1 << 60) && v < (int64_t)1 << 60; }

/* Number of elements of start:stop:step, where the bounds are already within the axis. */
static bool slice_size(Infer *f, Dim D, Dim start, Dim stop, Dim step, Dim *out)
{
    int64_t a, b, s, n;

    if (!dim_const_value(step, &s) || s == 0)
        return infer_fail(f, INFER_SHAPE, "slice: the step must be a number other than 0");
    if (dim_const_value(start, &a) && dim_const_value(stop, &b)) {
        if (!countable(a) || !countable(b))
            return infer_fail(f, INFER_SHAPE, "slice %lld:%lld of an axis of %s is out of range", (long long)a, (long long)b, dim_text(D));
        n = s > 0 ? b - a : a - b;                      /* how far it goes, then in how many steps */
        *out = n > 0 ? (Dim)(1 + (uint64_t)(n - 1) / (s > 0 ? (uint64_t)s : -(uint64_t)s)) : 0;
        if (*out && dim_is_const(D) && (a < 0 || b < -1 || a >= D || b > D))
            return infer_fail(f, INFER_SHAPE, "slice %lld:%lld of an axis of %s is out of range", (long long)a, (long long)b, dim_text(D));
        return true;
    }
    if (dim_ask_ge(s > 0 ? stop : start, s > 0 ? start : stop) == DIM_REFUTED) {
        *out = 0;
        return true;
    }
    *out = s > 0 ? dim_cdiv(dim_sub(stop, start), s) : dim_cdiv(dim_sub(start, stop), -s);
    if (dim_ask_ge(start, 0) == DIM_REFUTED || dim_ask_ge(D, s > 0 ? stop : dim_add(start, 1)) == DIM_REFUTED)
        return infer_fail(f, INFER_SHAPE, "slice %s:%s of an axis of %s is out of range", dim_text(start), dim_text(stop), dim_text(D));
    return !negative(*out) || infer_fail(f, INFER_SHAPE, "slice %s:%s of an axis of %s is out of range", dim_text(start), dim_text(stop),
                                         dim_text(D));
}

bool shape_SLICE(Infer *f)
{
    const TType *x = &f->in[0];
    const Attr *a = f->a;
    int n = a->nd[0], lead = x->rank - n;

    if (lead < 0)
        return infer_fail(f, INFER_SHAPE, "slice: %d axes for %s", n, shape_text(x));
    copy_shape(&f->out[0], x, x->rank);
    for (int i = 0; i < n; i++)
        if (!slice_size(f, x->shape[lead + i], a->d[0][i], a->d[1][i], a->nd[2] > i ? a->d[2][i] : 1, &f->out[0].shape[lead + i]))
            return false;
    return true;
}

bool shape_PAD(Infer *f)
{
    const TType *x = &f->in[0];
    const Attr *a = f->a;
    int n = a->nd[0], lead = x->rank - n;

    if (lead < 0)
        return infer_fail(f, INFER_SHAPE, "pad: %d axes for %s", n, shape_text(x));
    copy_shape(&f->out[0], x, x->rank);
    for (int i = 0; i < n; i++) {
        Dim D = x->shape[lead + i], between = a->nd[2] > i ? a->d[2][i] : 0;
        if (between != 0 && !dim_same(D, 0))
            D = dim_add(D, dim_mul(between, dim_sub(D, 1)));
        D = dim_add(D, dim_add(a->d[0][i], a->d[1][i]));
        if (!a->kind && (negative(a->d[0][i]) || negative(a->d[1][i])))
            return infer_fail(f, INFER_SHAPE, "pad: amounts cannot be negative (axis %d of %s)", i - n, shape_text(x));
        if (negative(D))
            return infer_fail(f, INFER_SHAPE, "pad: the amounts cut more than axis %d of %s has", i - n, shape_text(x));
        f->out[0].shape[lead + i] = D;
    }
    return true;
}

bool shape_CONCAT(Infer *f)
{
    TType *o = &f->out[0];
    int axis;

    if (f->nin < 1)
        return infer_fail(f, INFER_SHAPE, "concat of nothing");
    copy_shape(o, &f->in[0], f->in[0].rank);
    if ((axis = infer_axis(f, f->a->axis[0], o->rank)) < 0)
        return false;
    for (int k = 1; k < f->nin; k++) {
        const TType *y = &f->in[k];
        if (y->rank != o->rank)
            return infer_fail(f, INFER_SHAPE, "%s: %s and %s have different numbers of axes", call_text(f), shape_text(&f->in[0]),
                              shape_text(y));
        for (int i = 0; i < o->rank; i++) {
            if (i == axis)
                o->shape[i] = dim_add(o->shape[i], y->shape[i]);
            else if (!dim_may_equal(o->shape[i], y->shape[i]))
                return infer_fail(f, INFER_SHAPE, "%s: sizes %s and %s differ at axis %d", call_text(f), dim_text(o->shape[i]),
                                  dim_text(y->shape[i]), i);
            else if (dim_is_const(o->shape[i]))
                o->shape[i] = y->shape[i];
        }
    }
    return true;
}

/* -- indexing ---------------------------------------------------------------------------------------------------- */

/* The shape that operands [lo, lo+n) of index tensors have together behind m batch axes. */
static bool index_shape(Infer *f, int lo, TType *idx)
{
    const TType *x = &f->in[0];
    int n = f->a->n, m = f->a->m;

    idx->rank = 0;
    for (int k = lo; k < lo + n; k++) {
        TType t = f->in[k], joined = {0};
        if (!dtype_is_int(t.dtype))
            return infer_fail(f, INFER_DTYPE, "an index must be integers, not %s", dtype_info[t.dtype].name);
        if (t.rank < m)
            return infer_fail(f, INFER_SHAPE, "%s: index %s lacks the %d batch axes", op_info[f->op].name, shape_text(&t), m);
        for (int i = 0; i < m; i++)
            if (!dim_may_equal(t.shape[i], x->shape[i]))
                return infer_fail(f, INFER_SHAPE, "%s: batch axis %d of the index has size %s, the operand %s", op_info[f->op].name, i,
                                  dim_text(t.shape[i]), dim_text(x->shape[i]));
        t.rank = (uint8_t)(t.rank - m);
        for (int i = 0; i < t.rank; i++)
            t.shape[i] = t.shape[i + m];
        if (!shape_join(idx, &t, &joined))
            return infer_fail(f, INFER_SHAPE, "index shapes %s and %s do not broadcast", shape_text(idx), shape_text(&t));
        copy_shape(idx, &joined, joined.rank);
    }
    return true;
}

/* [batch..., index..., rest...] */
static bool indexed_shape(Infer *f, int lo, TType *o)
{
    const TType *x = &f->in[0];
    int n = f->a->n, m = f->a->m;
    TType idx = {0};

    if (n + m > x->rank)
        return infer_fail(f, INFER_SHAPE, "too many indices: %d for %s with %d axes", n, shape_text(x), x->rank - m);
    if (f->nin != lo + n)
        return infer_fail(f, INFER_SHAPE, "%s: %d index operands, not %d", op_info[f->op].name, n, f->nin - lo);
    if (!index_shape(f, lo, &idx))
        return false;
    if (idx.rank + x->rank - n > 16)
        return infer_fail(f, INFER_SHAPE, "%s: the result would have more than 16 axes", op_info[f->op].name);
    copy_shape(o, x, m);
    for (int i = 0; i < idx.rank; i++)
        o->shape[o->rank++] = idx.shape[i];
    for (int i = m + n; i < x->rank; i++)
        o->shape[o->rank++] = x->shape[i];
    return true;
}

bool shape_INDEX(Infer *f)
{
    return indexed_shape(f, 1, &f->out[0]);
}

bool shape_INDEX_UPDATE(Infer *f)
{
    TType want = {0}, got = f->in[f->nin > 1 ? 1 : 0];
    bool same;

    if (f->nin < 2 || !indexed_shape(f, 2, &want))
        return f->nin < 2 ? infer_fail(f, INFER_SHAPE, "%s needs an operand and values", op_info[f->op].name) : false;
    same = got.rank == want.rank;
    for (int i = 0; same && i < want.rank; i++)
        same = dim_may_equal(got.shape[i], want.shape[i]);
    if (!same)
        return infer_fail(f, INFER_SHAPE, "cannot store %s into %s: the places have shape %s", shape_text(&got), shape_text(&f->in[0]),
                          shape_text(&want));
    copy_shape(&f->out[0], &f->in[0], f->in[0].rank);
    return true;
}

static bool starts_ok(Infer *f, int lo)
{
    if (f->nin != lo + f->a->n || f->a->n > f->in[0].rank)
        return infer_fail(f, INFER_SHAPE, "%s: %d starts for %s", op_info[f->op].name, f->nin - lo, shape_text(&f->in[0]));
    for (int i = lo; i < f->nin; i++)
        if (f->in[i].rank != 0 || !dtype_is_int(f->in[i].dtype))
            return infer_fail(f, INFER_SHAPE, "%s: a start is one integer, not %s%s", op_info[f->op].name, dtype_info[f->in[i].dtype].name,
                              shape_text(&f->in[i]));
    return true;
}

static bool fits(Infer *f, const Dim *size)
{
    const TType *x = &f->in[0];

    for (int i = 0; i < f->a->n; i++) {
        Dim D = x->shape[x->rank - f->a->n + i];
        if (negative(size[i]) || dim_ask_ge(D, size[i]) == DIM_REFUTED)
            return infer_fail(f, INFER_SHAPE, "%s: size %s does not fit axis %d of %s", op_info[f->op].name, dim_text(size[i]), i - f->a->n,
                              shape_text(x));
    }
    return true;
}

bool shape_DYNAMIC_SLICE(Infer *f)
{
    const TType *x = &f->in[0];

    if (!starts_ok(f, 1) || !fits(f, f->a->d[0]))
        return false;
    copy_shape(&f->out[0], x, x->rank);
    for (int i = 0; i < f->a->n; i++)
        f->out[0].shape[x->rank - f->a->n + i] = f->a->d[0][i];
    return true;
}

bool shape_DYNAMIC_UPDATE(Infer *f)
{
    const TType *x = &f->in[0], *v = &f->in[f->nin > 1 ? 1 : 0];
    int lead = x->rank - f->a->n;

    if (!starts_ok(f, 2))
        return false;
    if (v->rank != x->rank || !fits(f, &v->shape[lead]))
        return infer_fail(f, INFER_SHAPE, "%s: cannot write %s into %s", op_info[f->op].name, shape_text(v), shape_text(x));
    for (int i = 0; i < lead; i++)
        if (!dim_may_equal(x->shape[i], v->shape[i]))
            return infer_fail(f, INFER_SHAPE, "%s: sizes %s and %s differ at axis %d", call_text(f), dim_text(x->shape[i]),
                              dim_text(v->shape[i]), i);
    copy_shape(&f->out[0], x, x->rank);
    return true;
}

bool shape_NONZERO(Infer *f)
{
    f->out[0].rank = 2;
    f->out[0].shape[0] = dim_var(sym("count"), 0, INT64_MAX);
    f->out[0].shape[1] = f->in[0].rank;
    return true;
}

/* -- rows whose attributes only ir/graph can read ------------------------------------------------------------------ */

static InferOuter outer;

void op_set_infer_outer(InferOuter fn)
{
    outer = fn;
}

static bool ask_outer(Infer *f)
{
    if (!outer)
        return infer_fail(f, INFER_SHAPE, "%s: nobody types this op", op_info[f->op].name);
    return outer(f->op, f->a, f->in, f->nin, f->out, &f->nout, f->err, &f->code);
}

bool shape_CONSTANT(Infer *f) { return ask_outer(f); }
bool shape_COND(Infer *f) { return ask_outer(f); }
bool shape_WHILE(Infer *f) { return ask_outer(f); }
bool shape_SCAN(Infer *f) { return ask_outer(f); }
bool shape_CALL(Infer *f) { return ask_outer(f); }
