/*
 * Which kernel an op has, and what kernels share.
 */
#include "runtime/kernels.h"

#include "base/alloc.h"
#include "runtime/kernel_util.h"

#include <stdarg.h>
#include <string.h>

/* A family with one driver, or a kernel an op. */
#define KERNEL_MAP(n) kernel_map
#define KERNEL_REDUCE(n) kernel_reduce
#define KERNEL_SCAN(n) kernel_scan
#define KERNEL_MOVE(n) kernel_##n
#define KERNEL_CONTRACT(n) kernel_##n
#define KERNEL_INDEX(n) kernel_##n
#define KERNEL_SORT(n) kernel_##n
#define KERNEL_RANDOM(n) kernel_##n
#define KERNEL_LINALG(n) kernel_##n
#define KERNEL_FFT(n) kernel_##n
#define KERNEL_MAKE(n) kernel_##n
#define KERNEL_CONTROL(n) NULL
#define KERNEL_EFFECT(n) NULL
#define KERNEL_COLLECTIVE(n) NULL

const Kernel kernel_of[OP_COUNT] = {
#define OP(name, nin, nout, fam, ...) [OP_##name] = KERNEL_##fam(name),
#include "ir/core/ops.def"
};

KStatus kernel_run_dying(KERNEL_ARGS, uint32_t dying)
{
    if (!kernel_of[op])
        tsr_bug("no kernel for %s", op_info[op].name);
    if (!a)
        a = &attr_none;
    c->dying = dying;
    KStatus s = kernel_of[op](c, op, a, in, nin, type, out);
    for (int i = 0; s == K_OK && i < op_info[op].nout; i++) {
        out[i]->policy = type[i].policy;
        out[i]->weak = type[i].weak;
    }
    return s;
}

KStatus kernel_run(KERNEL_ARGS)
{
    return kernel_run_dying(c, op, a, in, nin, type, out, 0);
}

KStatus k_fail(KCtx *c, KStatus s, const char *fmt, ...)
{
    va_list ap;

    if (c->err) {
        va_start(ap, fmt);
        sb_vprintf(c->err, fmt, ap);
        va_end(ap);
    }
    return s;
}

KStatus k_no_memory(KCtx *c, const TType *type)
{
    StrBuf shape = {0};

    for (int i = 0; i < type->rank; i++)
        sb_printf(&shape, "%s%lld", i ? ", " : "", (long long)type->shape[i]);
    k_fail(c, K_NOMEM, "no memory for a tensor of shape (%s%s) and dtype %s", sb_str(&shape), type->rank == 1 ? "," : "",
           dtype_info[type->dtype].name);
    sb_done(&shape);
    return K_NOMEM;
}

Tensor *k_result(KCtx *c, const TType *type)
{
    Tensor *t = tensor_new((DType)type->dtype, type->rank, type->shape);

    if (!t)
        k_no_memory(c, type);
    return t;
}

void *k_scratch(KCtx *c, int64_t n, size_t size)
{
    size_t bytes;
    void *p = tsr_mul((size_t)n, size, &bytes) ? tsr_try_alloc(bytes, 64) : NULL;

    if (!p)
        k_fail(c, K_NOMEM, "no memory for %lld intermediate elements", (long long)n);
    return p;
}

bool k_stopped(KCtx *c)
{
    return c->poll && !c->poll(c->poll_state);
}

int64_t dim_int(Dim d)
{
    int64_t v = 0;

    if (d >= 0)
        return d;
    if (!dim_const_value(d, &v))
        tsr_bug("a kernel met a symbolic size");
    return v;
}

int axis_of(int axis, int rank)
{
    return axis < 0 ? axis + rank : axis;
}

bool is_reduced(const Attr *a, int rank, int axis)
{
    for (int i = 0; i < a->naxes; i++)
        if (axis_of(a->axis[i], rank) == axis)
            return true;
    return false;
}

Tensor *share(Tensor *t)
{
    return tensor_view(t, t->rank, t->shape, t->stride, t->offset);
}

DType accum_dtype(const Attr *a, DType in, DType out)
{
    if (a->accum != DT_NONE && dtype_is_float((DType)a->accum) == dtype_is_float(in) && !dtype_is_complex(in))
        return (DType)a->accum;
    if (!dtype_is_inexact(in))
        return dtype_accum(out);
    return dtype_is_inexact(out) && dtype_info[out].bits > dtype_info[in].bits ? dtype_accum(out) : dtype_accum(in);
}

Tensor *lanes_of(KCtx *c, Tensor *t, DType as)
{
    DType lane = lane_dtype(as);
    Tensor *r, *lanes;

    if (t->dtype == as && lane == as)
        return tensor_ref(t);
    r = tensor_new(as, t->rank, t->shape);
    if (r)
        tensor_assign(r, t);
    if (!r || lane == as)
        return r ? r : (k_fail(c, K_NOMEM, "no memory for an operand as %s", dtype_info[as].name), NULL);
    lanes = tensor_new(lane, t->rank, t->shape);
    if (lanes)
        tensor_assign(lanes, r);
    else
        k_fail(c, K_NOMEM, "no memory for an operand as %s", dtype_info[as].name);
    tensor_unref(r);
    return lanes;
}
