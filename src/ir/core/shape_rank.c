/*
 * Shape rules of collectives.  n is how many ranks meet: they join along an
 * axis, cut one into n parts, or both.
 */
#include "ir/core/infer.h"

#define OP(name, nin, nout, fam, shape, ...) bool shape_##shape(Infer *f);
#include "ir/core/ops.def"

static void same_shape(Infer *f)
{
    f->out[0].rank = f->in[0].rank;
    for (int i = 0; i < f->in[0].rank; i++)
        f->out[0].shape[i] = f->in[0].shape[i];
}

static int axis_from_end(Infer *f, int axis)
{
    return f->in[0].rank ? infer_axis(f, axis, f->in[0].rank)
                         : (infer_fail(f, INFER_SHAPE, "%s needs an axis; a number has none", op_info[f->op].name), -1);
}

static bool cut(Infer *f, int k)
{
    Dim n = f->a->i, part = dim_floordiv(f->out[0].shape[k], n);
    int64_t rest;

    if (dim_const_value(dim_mod(f->out[0].shape[k], n), &rest) && rest)
        return infer_fail(f, INFER_SHAPE, "%s: axis %d of %s has %s elements, which do not divide among %lld ranks", op_info[f->op].name, k,
                          shape_text(&f->in[0]), dim_text(f->out[0].shape[k]), (long long)n);
    f->out[0].shape[k] = part;
    return true;
}

bool shape_ALL_GATHER(Infer *f)
{
    int k = f->a->naxes == 1 ? axis_from_end(f, f->a->axis[0]) : -1;

    if (k < 0)
        return false;
    same_shape(f);
    f->out[0].shape[k] = dim_mul(f->out[0].shape[k], f->a->i);
    return true;
}

bool shape_REDUCE_SCATTER(Infer *f)
{
    int k = f->a->naxes == 1 ? axis_from_end(f, f->a->axis[0]) : -1;

    if (k < 0)
        return false;
    same_shape(f);
    return cut(f, k);
}

bool shape_ALL_TO_ALL(Infer *f)
{
    int k = f->a->naxes == 1 ? axis_from_end(f, f->a->axis[0]) : -1, to = axis_from_end(f, -f->a->n);

    if (k < 0 || to < 0)
        return false;
    same_shape(f);
    if (!cut(f, k))
        return false;
    f->out[0].shape[to] = dim_mul(f->out[0].shape[to], f->a->i);
    return true;
}
