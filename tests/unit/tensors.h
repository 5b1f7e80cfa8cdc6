/* tensors.h - making tensors and running ops in tests of the runtime. */
#ifndef TSR_TESTS_TENSORS_H
#define TSR_TESTS_TENSORS_H

#include "unit.h"

#include "runtime/kernels.h"
#include "runtime/tensor.h"

#include <stdio.h>
#include <string.h>

/* Small reproducible random numbers. */
static uint64_t test_seed = 88172645463325252ull;

static inline uint64_t rnd(void)
{
    test_seed ^= test_seed << 13;
    test_seed ^= test_seed >> 7;
    test_seed ^= test_seed << 17;
    return test_seed;
}

static inline int64_t rnd_to(int64_t n) { return (int64_t)(rnd() % (uint64_t)n); }

/* Types from op_infer, then the kernel. The status; out gets the results, err the message. */
static inline KStatus run_ops(OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, StrBuf *err)
{
    TType type[16], result[4];
    Attr none = attr_default();
    KCtx c = {.err = err};
    int nout, code;

    a = a ? a : &none;
    for (int i = 0; i < nin; i++) {
        type[i] = (TType){.dtype = in[i]->dtype, .rank = in[i]->rank, .weak = in[i]->weak};
        memcpy(type[i].shape, in[i]->shape, in[i]->rank * sizeof *in[i]->shape);
    }
    if (!op_infer(op, a, type, nin, result, &nout, err, &code))
        return K_VALUE;
    return kernel_run(&c, op, a, in, nin, result, out);
}

static inline Tensor *run_op(OpId op, const Attr *a, Tensor *const *in, int nin)
{
    Tensor *out[4];
    StrBuf err = {0};

    if (run_ops(op, a, in, nin, out, &err) != K_OK)
        fail_msg("%s: %s", op_info[op].name, sb_str(&err));
    sb_done(&err);
    return out[0];
}

static inline Tensor *run1(OpId op, const Attr *a, Tensor *x) { return run_op(op, a, &x, 1); }
static inline Tensor *run2(OpId op, const Attr *a, Tensor *x, Tensor *y) { return run_op(op, a, (Tensor *[]){x, y}, 2); }

static inline Tensor *converted(Tensor *x, DType dt)
{
    Attr a = attr_default();

    a.dtype = (uint8_t)dt;
    return run1(OP_convert, &a, x);
}

/* Storage element of multi-index i. */
static inline int64_t place_of(const Tensor *t, const int64_t *i)
{
    int64_t at = t->offset;

    for (int k = 0; k < t->rank; k++)
        at += i[k] * t->stride[k];
    return at;
}

/* Next multi-index in row-major order; false after the last. */
static inline bool next_index(int rank, const int64_t *shape, int64_t *i)
{
    for (int k = rank - 1; k >= 0; k--) {
        if (++i[k] < shape[k])
            return true;
        i[k] = 0;
    }
    return false;
}

/* Small whole numbers of a sign that dt has, exact in every dtype; or any bits with `wild`. */
static inline void fill_random(Tensor *t)
{
    int64_t n = (int64_t)(t->store->nbytes * 8 / dtype_info[t->dtype].sbits);

    for (int64_t i = 0; i < n; i++) {
        int64_t v = dtype_info[t->dtype].kind == DK_UINT || t->dtype == DT_bool ? rnd_to(2) * rnd_to(4) : rnd_to(7) - 3;
        elem_set_f(t, i, (double)v);
    }
}

/* A view of a fresh random tensor with the given shape: permuted, sliced, reversed or stretched storage. */
static inline Tensor *random_view(DType dt, int rank, const int64_t *shape)
{
    int64_t big[RANK_MAX], order[RANK_MAX], step[RANK_MAX], stride[RANK_MAX], offset = 0;
    Tensor *base, *view;

    for (int i = 0; i < rank; i++) {
        order[i] = i;
        step[i] = 1 + rnd_to(2);
    }
    for (int i = rank - 1; i > 0; i--) {
        int j = (int)rnd_to(i + 1);
        int64_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < rank; i++)
        big[i] = shape[order[i]] * step[i] + rnd_to(2);
    base = tensor_new(dt, rank, big);
    fill_random(base);
    for (int i = 0; i < rank; i++) {
        int64_t s = base->stride[i] * step[i];
        bool back = rnd_to(3) == 0 && shape[order[i]] > 0;
        stride[order[i]] = back ? -s : s;
        offset += back ? (shape[order[i]] - 1) * s : 0;
    }
    view = tensor_view(base, rank, shape, stride, offset);
    tensor_unref(base);
    return view;
}

static inline Tensor *of_doubles(DType dt, int64_t n, const double *v)
{
    Tensor *t = tensor_new(dt, 1, &n);

    for (int64_t i = 0; i < n; i++)
        elem_set_f(t, i, v[i]);
    return t;
}

/* Let go of t when the test calls release(): for values that are only looked at. */
static Tensor *held[64];
static int nheld;

static inline Tensor *hold(Tensor *t)
{
    assert_true(nheld < 64);
    return held[nheld++] = t;
}

static inline void release(void)
{
    while (nheld)
        tensor_unref(held[--nheld]);
}

static inline void assert_text(const Tensor *t, const char *want)
{
    StrBuf b = {0};

    tensor_print(t, &b);
    assert_string_equal(sb_str(&b), want);
    sb_done(&b);
}

#endif
