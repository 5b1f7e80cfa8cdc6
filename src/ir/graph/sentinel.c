/*
 * Sentinels for NaN and infinity: under `run --guard-numerics` and in numerics.guard() every op that runs,
 * eagerly or in a graph, looks at its results.  What was not finite before it came in is not the op's doing,
 * and neither is what a program writes down (an op without operands).
 */
#include "ir/graph/level.h"

#include "base/source.h"

#include <math.h>
#include <string.h>

/* The place of the first NaN or infinity in row-major order, -1 when there is none; *x its value. */
static int64_t first_bad(Tensor *t, double *x)
{
    Tensor *c = t->tracer || !dtype_is_float((DType)t->dtype) ? NULL : tensor_contiguous(t);
    int64_t at = -1;

    for (int64_t i = 0, n = c ? tensor_size(c) : 0; i < n && at < 0; i++)
        if (!isfinite(*x = elem_get_f(c, c->offset + i)))
            at = i;
    tensor_unref(c);
    return at;
}

static void put_place(Trace *T)
{
    Place at = T->span.hi ? source_place(T->span.lo) : (Place){0};
    const char *slash = at.src ? strrchr(at.src->path, '/') : NULL;

    if (at.src)
        sb_printf(&T->message, " at %s:%u", slash ? slash + 1 : at.src->path, at.line);
}

static const char *common_name(DType t)
{
    return t == DT_f16 ? "fp16" : t == DT_f32 ? "fp32" : t == DT_f64 ? "fp64" : dtype_info[t].name;
}

/* What an op of one operand was given where its result went bad. */
static void put_input(Trace *T, OpId op, Tensor *in, const Tensor *out, int64_t at, double bad)
{
    Tensor *c;

    if (!dtype_is_float((DType)in->dtype) || tensor_size(in) != tensor_size(out) || !(c = tensor_contiguous(in)))
        return;
    sb_printf(&T->message, ". Input to %s: ", op_info[op].name);
    elem_print((DType)c->dtype, elem_get_f(c, c->offset + at), &T->message);
    if (isinf(bad))
        sb_printf(&T->message, " (exceeds %s max)", common_name((DType)out->dtype));
    tensor_unref(c);
}

bool sentinel_passes(Trace *T, OpId op, Tensor *const *in, int nin, Tensor *const *out, int nout)
{
    double bad = 0, old;
    int64_t at = -1;
    int k = 0;

    for (; nin && k < nout && (at = first_bad(out[k], &bad)) < 0; k++)
        ;
    if (at < 0)
        return true;
    for (int i = 0; i < nin; i++)
        if (first_bad(in[i], &old) >= 0)
            return true;
    T->error = OPERR_NUMERIC;
    T->failed = op;
    sb_clear(&T->message);
    sb_printf(&T->message, "%s produced by %s", isnan(bad) ? "NaN" : "infinity", op_info[op].name);
    put_place(T);
    if (nin == 1)
        put_input(T, op, in[0], out[k], at, bad);
    return false;
}
