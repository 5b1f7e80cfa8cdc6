/* Matrix products, by gemm: m, k and n are the rows, the summed axis and the columns. */
#include "runtime/gemm_amx.h"
#include "runtime/gemm_bf16.h"
#include "runtime/gemm_int8.h"

#include "base/alloc.h"

#include <string.h>

KStatus sum_as(KCtx *c, Tensor *sum, const TType *type, Tensor **out)
{
    if (sum->dtype == type->dtype) {
        out[0] = sum;
        return K_OK;
    }
    out[0] = k_result(c, type);
    if (out[0])
        tensor_assign(out[0], sum);
    tensor_unref(sum);
    return out[0] ? K_OK : K_NOMEM;
}

/* Element offset of batch i of an operand whose leading axes stretch to the result's. */
static int64_t batch_offset(const Tensor *t, const TType *type, int64_t i)
{
    int64_t at = 0;

    for (int ax = type->rank - 3, own = t->rank - 3; ax >= 0; ax--, own--) {
        int64_t d = i % type->shape[ax];
        i /= type->shape[ax];
        if (own >= 0 && t->shape[own] != 1)
            at += d * t->stride[own];
    }
    return at;
}

/* The step between batches if it is one number: 0, or the same everywhere. */
static bool batch_step(const Tensor *t, const TType *type, int64_t batch, int64_t *step)
{
    *step = batch > 1 ? batch_offset(t, type, 1) : 0;
    for (int64_t i = 2; i < batch; i++)
        if (batch_offset(t, type, i) != i * *step)
            return false;
    return true;
}

bool matmul_plan(const Tensor *x, const Tensor *y, DType accum, const TType *type, Gemm *out)
{
    int r = type->rank, rx = x->rank, ry = y->rank;
    Gemm g = {.accum = accum, .batch = 1, .m = type->shape[r - 2], .n = type->shape[r - 1], .k = x->shape[rx - 1],
              .arow = x->stride[rx - 2], .acol = x->stride[rx - 1], .brow = y->stride[ry - 2], .bcol = y->stride[ry - 1],
              .a = tensor_read(x), .b = tensor_read(y), .crow = type->shape[r - 1], .cbatch = type->shape[r - 2] * type->shape[r - 1]};

    for (int i = 0; i < r - 2; i++)
        g.batch *= type->shape[i];
    *out = g;
    return batch_step(x, type, g.batch, &out->abatch) && batch_step(y, type, g.batch, &out->bbatch);
}

typedef enum { UNIT_NONE, UNIT_DOTS, UNIT_TILES, UNIT_THIRDS, UNIT_TF32 } Unit;
enum { UNIT_SIDE = 32 };

/*
 * Matrices that go slice after slice with what is behind them (attribute `kind`, steps.slices of ir/schedule): lanes multiply as few steps while a
 * cache keeps the sums, which saves more than the units do.
 */
static bool stays_with_lanes(const Gemm *g, const Attr *a)
{
    enum { STEPS = 64, SUMS = 1 << 18 };

    return a->kind && g->k < STEPS && (double)g->m * (double)g->n <= SUMS;
}

/* Of f32: is it so large that the two or three parts of its numbers are found in less time than they save? */
static bool are_worth_parts(const Gemm *g, bool two)
{
    enum { LEAST = 64, MULTIPLICATIONS = 1 << 20, OF_TWO = 1 << 18 };

    return g->m >= LEAST && g->n >= LEAST && g->k >= UNIT_SIDE &&
           (double)g->m * (double)g->n * (double)g->k >= (two ? OF_TWO : MULTIPLICATIONS);
}

/*
 * What multiplies bf16 and, by its parts, f32: for fast numerics matrix units; of bf16 dot products, which give the bits of lanes of f32; neither.
 * tf32 is kept as f32.
 */
static Unit unit_of(const Tensor *x, const Tensor *y, DType accum, const Attr *a, const TType *type)
{
    bool halves = x->dtype == DT_bf16, tf32 = x->dtype == DT_tf32 || a->compute == DT_tf32;
    bool may = accum == DT_f32 && x->dtype == y->dtype && (halves || (a->fast && (tf32 || x->dtype == DT_f32)));
    Gemm g;

    if (!may)
        return UNIT_NONE;
    matmul_plan(x, y, accum, type, &g);         /* its sizes; batches may lie as they like */
    if (!halves)
        return !are_worth_parts(&g, tf32) || (!tf32 && stays_with_lanes(&g, a)) || !amx_has(AMX_THIRDS) ? UNIT_NONE : tf32 ? UNIT_TF32 : UNIT_THIRDS;
    if (a->fast && g.k >= UNIT_SIDE && g.n >= UNIT_SIDE && amx_has(AMX_HALVES))
        return UNIT_TILES;
    return gemm_bf16_worth(&g) ? UNIT_DOTS : UNIT_NONE;
}

bool matmul_by_units(const Tensor *x, const Tensor *y, DType accum, const Attr *a, const TType *type)
{
    return unit_of(x, y, accum, a, type) >= UNIT_TILES;
}

static bool is_bytes(const Tensor *t) { return t->dtype == DT_int8 || t->dtype == DT_uint8; }

/* Bytes summed in 32 bits, where the machine has a unit for that. NULL: the general way is to be taken. */
static Tensor *product_of_bytes(KCtx *c, Tensor *x, Tensor *y, DType accum, const TType *type)
{
    BytesUnit unit = accum == DT_int32 && is_bytes(x) && is_bytes(y) ? bytes_unit() : BYTES_NONE;
    int r = type->rank;
    BytesGemm g = {.m = type->shape[r - 2], .n = type->shape[r - 1], .k = x->shape[x->rank - 1], .crow = type->shape[r - 1],
                   .asigned = x->dtype == DT_int8, .bsigned = y->dtype == DT_int8, .arow = x->stride[x->rank - 2], .acol = x->stride[x->rank - 1],
                   .brow = y->stride[y->rank - 2], .bcol = y->stride[y->rank - 1]};
    TType lanes = *type;
    int64_t batch = 1;
    KStatus s = K_OK;
    Tensor *sum;

    lanes.dtype = DT_int32;
    if (unit == BYTES_NONE || !(sum = k_result(c, &lanes)))
        return NULL;
    for (int i = 0; i < r - 2; i++)
        batch *= type->shape[i];
    for (int64_t i = 0; i < batch && s == K_OK && g.m && g.n; i++) {
        g.a = (const uint8_t *)tensor_read(x) + batch_offset(x, type, i);
        g.b = (const uint8_t *)tensor_read(y) + batch_offset(y, type, i);
        g.c = (int32_t *)(void *)storage_data(sum->store) + i * g.m * g.n;
        s = gemm_bytes(c, &g, unit);
    }
    if (s == K_OK)
        return sum;
    tensor_unref(sum);
    return NULL;
}

/* Where the sums go: where the result had better lie, if it is of their dtype, and its columns are neighbours there. */
static Tensor *room_of(KCtx *c, const TType *lanes, const TType *type)
{
    Tensor *at = c->slice;
    int r = type->rank;
    bool fits = at && lanes->dtype == type->dtype && at->dtype == type->dtype && at->rank == r && at->stride[r - 1] == 1;

    return fits ? tensor_ref(at) : k_result(c, lanes);
}

KStatus kernel_matmul(KERNEL_ARGS)
{
    DType accum = accum_dtype(a, common_dtype(in[0], in[1]), (DType)type->dtype);
    Tensor *bytes = product_of_bytes(c, in[0], in[1], accum, type);
    if (bytes)
        return sum_as(c, bytes, type, out);
    TType lanes = *type;
    KStatus s = K_NOMEM;
    Tensor *sum;

    (void)op, (void)nin;
    lanes.dtype = (uint8_t)lane_dtype(accum);
    if ((sum = room_of(c, &lanes, type)))
        s = matmul_into(c, in[0], in[1], accum, a, sum, NULL);
    if (s == K_OK)
        return sum_as(c, sum, type, out);
    tensor_unref(sum);
    return s;
}

static TType shape_of(const Tensor *sum)
{
    TType type = {.dtype = sum->dtype, .rank = (uint8_t)sum->rank};

    memcpy(type.shape, sum->shape, sizeof *sum->shape * (size_t)sum->rank);
    return type;
}

/* Do the batches of all three lie in equal steps? *g: the product, as c lies, then. */
static bool plan_into(const Tensor *x, const Tensor *y, DType accum, const TType *type, const Tensor *sum, Gemm *g)
{
    int r = type->rank;

    if (!matmul_plan(x, y, accum, type, g) || !batch_step(sum, type, g->batch, &g->cbatch))
        return false;
    g->crow = sum->stride[r - 2];
    g->cbatch = g->batch > 1 ? g->cbatch : g->m * g->crow;
    g->c = (char *)storage_data(sum->store) + sum->offset * (int64_t)raw_size((DType)sum->dtype);
    return true;
}

static KStatus run_planned(KCtx *c, const Gemm *g, Unit unit)
{
    switch (unit) {
    case UNIT_DOTS: return gemm_bf16(c, g);
    case UNIT_TILES: return gemm_amx(c, g, AMX_HALVES);
    case UNIT_THIRDS: return gemm_amx(c, g, AMX_THIRDS);
    case UNIT_TF32: return gemm_amx(c, g, AMX_TF32);
    default: return gemm_run(c, *g);
    }
}

/* Rows of a part are counted from this one on. */
typedef struct Shifted { const GemmDone *done; int64_t row; } Shifted;

static void shifted_done(void *st, int64_t slot, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const Shifted *s = st;

    s->done->fn(s->done->st, slot, s->row + row, rows, column, columns);
}

/* What an operand, or the result, of so many axes has at place i of the first one. */
static Tensor at_first(const Tensor *t, int rank, int64_t i)
{
    Tensor v = *t;

    if (t->rank < rank)
        return v;
    v.offset += t->shape[0] == 1 ? 0 : i * t->stride[0];
    v.rank--;
    v.shape++;
    v.stride++;
    return v;
}

/* x @ y into sum, whose columns are neighbours: all at once where batches lie in equal steps, else for one place of the first axis after another. */
static KStatus multiply(KCtx *c, const Tensor *x, const Tensor *y, DType accum, Unit unit, const Tensor *sum, const GemmDone *done)
{
    TType type = shape_of(sum);
    KStatus s = K_OK;
    int64_t rows = 1;
    Gemm g;

    if (plan_into(x, y, accum, &type, sum, &g)) {
        g.done = done;
        return run_planned(c, &g, unit);
    }
    for (int k = 1; k < sum->rank - 1; k++)
        rows *= sum->shape[k];
    for (int64_t i = 0; i < sum->shape[0] && s == K_OK; i++) {
        Shifted shift = {done, i * rows};
        GemmDone later = {shifted_done, &shift, done && done->whole_rows};
        Tensor xi = at_first(x, sum->rank, i), yi = at_first(y, sum->rank, i), to = at_first(sum, sum->rank, i);
        s = k_stopped(c) ? K_VALUE : multiply(c, &xi, &yi, accum, unit, &to, done ? &later : NULL);
    }
    return s;
}

KStatus matmul_into(KCtx *c, Tensor *x, Tensor *y, DType accum, const Attr *a, Tensor *sum, const GemmDone *done)
{
    TType type = shape_of(sum);
    Unit unit = unit_of(x, y, accum, a, &type);
    KStatus s = K_NOMEM;

    if (unit != UNIT_NONE)
        return multiply(c, x, y, accum, unit, sum, done);
    x = lanes_of(c, x, accum);
    y = x ? lanes_of(c, y, accum) : NULL;
    if (y)
        s = multiply(c, x, y, accum, unit, sum, done);
    tensor_unref(x);
    tensor_unref(y);
    return s;
}
