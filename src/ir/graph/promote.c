/*
 * Operands before an op runs: the dtype they meet in.
 *
 * Kernels and rules see operands of one dtype.  The conversions are ordinary
 * convert ops of whatever level, so derivatives and graphs contain them.
 * What numeric policies add is in numerics.c.
 */
#include "ir/graph/level.h"

#include <string.h>

/* A Python scalar in another dtype, without passing through f32. */
static Tensor *convert_scalar(const Tensor *t, uint8_t dtype)
{
    Tensor *c = tensor_scalar_i((DType)dtype, 0);
    double re, im;

    if (dtype_is_int(t->dtype) && dtype_is_int(dtype))
        elem_set_i(c, 0, elem_get_i(t, t->offset));
    else if (dtype_is_complex(t->dtype)) {
        elem_get_c(t, t->offset, &re, &im);
        if (dtype_is_complex(dtype))
            elem_set_c(c, 0, re, im);
        else
            elem_set_f(c, 0, re);
    } else if (dtype_is_complex(dtype))
        elem_set_c(c, 0, elem_get_f(t, t->offset), 0);
    else
        elem_set_f(c, 0, elem_get_f(t, t->offset));
    return c;
}

/* The tensor in this dtype, a new reference; NULL on error. */
static Tensor *convert_to(Trace *T, Tensor *t, uint8_t dtype)
{
    Attr a;
    Tensor *out[1];
    int n;

    if (t->dtype == dtype)
        return tensor_ref(t);
    if (!t->tracer && t->rank == 0 && t->weak && !(dtype_is_int(dtype) && dtype_is_inexact(t->dtype)))
        return convert_scalar(t, dtype);
    a = attr_default();
    a.dtype = dtype;
    return op_dispatch(T, OP_convert, &a, &t, 1, out, &n) ? out[0] : NULL;
}

/* The dtype that operands [lo, nin) meet in; DT_NONE when they do not, which typing the op will report. */
static uint8_t common_dtype(Tensor *const *in, int lo, int nin)
{
    TType acc = {.dtype = in[lo]->dtype, .weak = in[lo]->weak};

    for (int i = lo + 1; i < nin; i++) {
        TType next = {.dtype = in[i]->dtype, .weak = in[i]->weak};
        uint8_t dt, weak;
        if (!op_join_dtypes(&acc, &next, &dt, &weak))
            return DT_NONE;
        acc.dtype = dt, acc.weak = weak;
    }
    return acc.dtype;
}

static bool convert_range(Trace *T, Tensor **in, int lo, int hi, uint8_t dt)
{
    for (int i = lo; i < hi; i++) {
        Tensor *c;
        if (in[i]->dtype == dt)
            continue;
        if (!(c = convert_to(T, in[i], dt)))
            return false;
        tensor_unref(in[i]);
        in[i] = c;
    }
    return true;
}

/* Values stored into a tensor take its dtype when that loses nothing of their kind. */
static bool stored_operand(Trace *T, Tensor **in)
{
    uint8_t x = in[0]->dtype, v = in[1]->dtype;
    DType p;

    if (x == v)
        return true;
    if (!in[1]->weak && (!dtype_promote((DType)x, (DType)v, &p) || p != (DType)x))
        return trace_fail(T, OPERR_DTYPE, "cannot store %s values into a %s tensor; convert them with .to(%s)", dtype_info[v].name,
                          dtype_info[x].name, dtype_info[x].name);
    return convert_range(T, in, 1, 2, x);
}

/* Ops whose operands become floats. */
static bool wants_float(OpId op)
{
    return !strcmp(op_info[op].typing, "FLOAT") || op == OP_complex || op == OP_lu || op == OP_triangular_solve;
}

bool promote_operands(Trace *T, OpId op, const Attr *a, Tensor **in, int nin)
{
    int lo = op == OP_where, hi = nin;
    uint8_t dt;

    switch (op_info[op].family) {
    case FAM_MAP: case FAM_CONTRACT: case FAM_LINALG:
        break;
    case FAM_MOVE:
        if (op != OP_concat)
            return true;
        break;
    case FAM_SORT:
        if (op != OP_searchsorted)
            return true;
        break;
    case FAM_INDEX:
        return op == OP_index_put || op == OP_index_add || op == OP_dynamic_update ? nin < 2 || stored_operand(T, in) : true;
    case FAM_FFT:
        if (!dtype_is_inexact(in[0]->dtype))
            return convert_range(T, in, 0, 1, DT_f32);
        return a->kind == 3 ? convert_range(T, in, 0, 1, dtype_complex((DType)in[0]->dtype)) : true;
    default:
        return true;
    }
    if (op_info[op].nin >= 0 && nin != op_info[op].nin)
        return true;                    /* typing will say so */
    if (hi <= lo || (dt = common_dtype(in, lo, hi)) == DT_NONE)
        return true;
    if (wants_float(op) && !dtype_is_inexact((DType)dt))
        dt = DT_f32;
    return convert_range(T, in, lo, hi, dt);
}
