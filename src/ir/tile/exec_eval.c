/*
 * Values of tiles as the oracle computes them, by the runtime's own loops and
 * conversions, so that bits are those of eager evaluation.  Elements are in
 * their raw form (convert.h), a slot each, row-major.
 */
#include "ir/tile/exec_impl.h"

#include "runtime/loops.h"
#include "runtime/sums.h"

#include <math.h>
#include <string.h>

enum { RUN = 256, CHUNK_LANES = LANES };

/* ---- elementwise ---- */

static void convert(const TAttr *a, DType to, DType from, const void *in, int64_t n, void *out)
{
    ConvOpts o = {a->rounding, a->saturate != 0, a->flush != 0, 0};
    bool plain = !a->rounding && !a->saturate && !a->flush;

    raw_convert(to, out, from, in, n, plain ? NULL : &o, 0);
}

/* At most RUN elements. */
static void map_run(const TAttr *a, DType as, DType to, int nin, const void *const *in, int64_t n, void *out)
{
    _Alignas(64) char lanes[3][RUN * 16], y[RUN * 16];
    const void *x[3] = {NULL, NULL, NULL};

    for (int k = 0; k < nin; k++) {
        DType dt = a->op == OP_where && k == 0 ? DT_bool : as;
        x[k] = lanes[k];
        raw_to_lane(dt, in[k], lanes[k], n);
        if (a->flush)
            lane_flush(dt, lanes[k], n);
    }
    loop_find((OpId)a->op, as)(n, y, x[0], x[1], x[2]);
    if (a->flush)
        lane_flush(to, y, n);
    lane_to_raw(to, y, out, n);
}

void tile_eval_map(const TAttr *a, DType as, DType to, int nin, const void *const *in, int64_t n, void *out)
{
    if (a->op == OP_convert) {
        convert(a, to, as, in[0], n, out);
        return;
    }
    for (int64_t i = 0; i < n; i += RUN) {
        const void *at[3] = {NULL, NULL, NULL};
        for (int k = 0; k < nin; k++)
            at[k] = (const char *)in[k] + (size_t)i * raw_size(a->op == OP_where && k == 0 ? DT_bool : as);
        map_run(a, as, to, nin, at, n - i < RUN ? n - i : RUN, (char *)out + (size_t)i * raw_size(to));
    }
}

void tile_eval_step(OpId step, DType dt, int64_t n, void *out, const void *a, const void *b)
{
    TAttr op = tattr_none;
    const void *in[2] = {a, b};

    op.op = (uint8_t)step;
    tile_eval_map(&op, dt, dt, 2, in, n, out);
}

/* Infinity saturates to the ends of dtypes that have none: of ints, and of floats whose conversion would say NaN. */
void tile_identity(OpId reduction, DType dt, void *raw)
{
    bool finite = dt == DT_fp8_e4m3 || dt == DT_fp6 || dt == DT_fp4;
    double v = reduction == OP_prod || reduction == OP_all ? 1 : reduction == OP_max ? -INFINITY : reduction == OP_min ? INFINITY : 0;
    uint8_t flag = reduction == OP_all || reduction == OP_min || reduction == OP_prod;

    if (dt == DT_bool)
        memcpy(raw, &flag, 1);
    else
        raw_convert(dt, raw, DT_f64, &v, 1, finite ? &(ConvOpts){.saturate = true} : NULL, 0);
}

/* ---- moving ---- */

void eval_stretch(const TileType *from, const char *in, const TileType *to, char *out)
{
    size_t size = raw_size((DType)to->dtype);
    int64_t n = tile_elements(to), stride[TILE_RANK_MAX] = {0}, at = 1;

    for (int i = from->rank - 1; i >= 0; i--) {
        stride[i] = from->extent[i] == 1 ? 0 : at;
        at *= from->extent[i];
    }
    for (int64_t e = 0; e < n; e++) {
        int64_t rest = e, src = 0;
        for (int i = to->rank - 1; i >= 0; i--) {
            src += rest % to->extent[i] * stride[i];
            rest /= to->extent[i];
        }
        memcpy(out + (size_t)e * size, in + (size_t)src * size, size);
    }
}

void eval_permute(const TileNode *n, const char *in, char *out)
{
    const TileType *x = tile_type(n->in[0]), *y = &n->type[0];
    size_t size = raw_size((DType)y->dtype);
    int64_t stride[TILE_RANK_MAX] = {0}, at = 1;

    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = at;
        at *= x->extent[i];
    }
    for (int64_t e = 0; e < at; e++) {
        int64_t rest = e, src = 0;
        for (int i = y->rank - 1; i >= 0; i--) {
            src += rest % y->extent[i] * stride[n->attr->axes[i]];
            rest /= y->extent[i];
        }
        memcpy(out + (size_t)e * size, in + (size_t)src * size, size);
    }
}

void eval_iota(const TileNode *n, int64_t first, char *out)
{
    const TileType *y = &n->type[0];
    size_t size = raw_size((DType)y->dtype);
    int64_t count = tile_elements(y), inner = 1;

    for (int i = n->attr->axis + 1; i < y->rank; i++)
        inner *= y->extent[i];
    for (int64_t e = 0; e < count; e++) {
        int64_t v = (int64_t)((uint64_t)first + (uint64_t)(e / inner % y->extent[n->attr->axis]));
        raw_convert((DType)y->dtype, out + (size_t)e * size, DT_int64, &v, 1, NULL, 0);
    }
}

/* ---- sums ---- */

/* One chunk: `count` elements `stride` slots apart, in 8 lanes. */
static void reduce_chunk(OpId reduction, DType dt, const char *in, int64_t stride, int64_t count, char *out)
{
    OpId step = tile_step_op(reduction);
    size_t size = raw_size(dt);
    _Alignas(16) char acc[CHUNK_LANES * 16], row[CHUNK_LANES * 16];

    for (int l = 0; l < CHUNK_LANES; l++)
        tile_identity(reduction, dt, acc + (size_t)l * size);
    for (int64_t i = 0; i < count; i += CHUNK_LANES) {
        int64_t n = count - i < CHUNK_LANES ? count - i : CHUNK_LANES;
        for (int64_t l = 0; l < n; l++)
            memcpy(row + (size_t)l * size, in + (i + l) * stride * (int64_t)size, size);
        tile_eval_step(step, dt, n, acc, acc, row);
    }
    tile_eval_step(step, dt, 4, acc, acc, acc + 4 * size);      /* 0+4, 1+5, 2+6, 3+7 */
    tile_eval_step(step, dt, 2, acc, acc, acc + 2 * size);      /* (0+4)+(2+6), (1+5)+(3+7) */
    tile_eval_step(step, dt, 1, out, acc, acc + size);
}

/* Chunks one after the other; those that wait stand in the order of their sizes, and equal ones join (R4 of docs/numerics.md). */
static void reduce_chunks(OpId reduction, DType dt, const char *in, int64_t stride, int64_t count, char *out)
{
    size_t size = raw_size(dt);
    _Alignas(16) char wait[TILE_LEVELS * 16];
    int depth = 0;

    for (int64_t chunk = 0; chunk * TILE_REDUCE_MAX < count || !chunk; chunk++) {
        int64_t first = chunk * TILE_REDUCE_MAX, n = count - first < TILE_REDUCE_MAX ? count - first : TILE_REDUCE_MAX;
        reduce_chunk(reduction, dt, in + first * stride * (int64_t)size, stride, n, wait + (size_t)depth++ * size);
        for (int64_t c = chunk + 1; !(c & 1); c >>= 1, depth--)
            tile_eval_step(tile_step_op(reduction), dt, 1, wait + (size_t)(depth - 2) * size, wait + (size_t)(depth - 2) * size,
                           wait + (size_t)(depth - 1) * size);
    }
    for (; depth > 1; depth--)
        tile_eval_step(tile_step_op(reduction), dt, 1, wait + (size_t)(depth - 2) * size, wait + (size_t)(depth - 2) * size,
                       wait + (size_t)(depth - 1) * size);
    memcpy(out, wait, size);
}

void eval_reduce(const TileNode *n, const char *in, int64_t count, char *out)
{
    const TileType *x = tile_type(n->in[0]);
    int64_t inner = 1, extent = x->extent[n->attr->axis], total = tile_elements(&n->type[0]);
    size_t size = raw_size((DType)x->dtype);

    count = count < 0 ? 0 : count > extent ? extent : count;
    for (int i = n->attr->axis + 1; i < x->rank; i++)
        inner *= x->extent[i];
    for (int64_t e = 0; e < total; e++) {
        int64_t first = e / inner * extent * inner + e % inner;
        reduce_chunks((OpId)n->attr->op, (DType)x->dtype, in + (size_t)first * size, inner, count, out + (size_t)e * size);
    }
}

void tree_push(const TileType *t, Tree *tree, const char *value)
{
    DType dt = (DType)t->dtype;
    size_t bytes = (size_t)tree->n * raw_size(dt);

    if (tree->depth == tree->room) {
        tree->room = tree->room ? 2 * tree->room : 4;
        tree->wait = tsr_realloc(tree->wait, (size_t)tree->room * bytes);
    }
    memcpy(tree->wait + (size_t)tree->depth++ * bytes, value, bytes);
    for (int64_t c = ++tree->count; !(c & 1); c >>= 1) {
        char *b = tree->wait + (size_t)--tree->depth * bytes, *a = b - bytes;
        tile_eval_step(tile_step_op((OpId)t->op), dt, tree->n, a, a, b);
    }
}

void tree_total(const TileType *t, Tree *tree, char *out)
{
    DType dt = (DType)t->dtype;
    size_t size = raw_size(dt), bytes = (size_t)tree->n * size;

    for (; tree->depth > 1; tree->depth--) {
        char *b = tree->wait + (size_t)(tree->depth - 1) * bytes, *a = b - bytes;
        tile_eval_step(tile_step_op((OpId)t->op), dt, tree->n, a, a, b);
    }
    if (tree->depth)
        memcpy(out, tree->wait, bytes);
    else
        for (int64_t i = 0; i < tree->n; i++)
            tile_identity((OpId)t->op, dt, out + (size_t)i * size);
}

/* acc = fma(a, b, acc) a row of results at a time, the first count steps of k in order; every step rounds to acc's dtype. */
void eval_dot(const TileNode *n, const char *a, const char *b, const char *acc, int64_t count, char *out)
{
    const TileType *ta = tile_type(n->in[0]), *tb = tile_type(n->in[1]), *y = &n->type[0];
    int64_t m = y->extent[0], cols = y->extent[1], k = ta->extent[1];
    DType dt = (DType)y->dtype;
    size_t size = raw_size(dt);
    char *ca = tsr_alloc((size_t)(m * k) * size), *cb = tsr_alloc((size_t)(k * cols) * size), *row = tsr_alloc((size_t)cols * size);
    TAttr fma = tattr_none;

    fma.op = OP_fma;
    raw_convert(dt, ca, (DType)ta->dtype, a, m * k, NULL, 0);
    raw_convert(dt, cb, (DType)tb->dtype, b, k * cols, NULL, 0);
    memcpy(out, acc, (size_t)(m * cols) * size);
    for (int64_t i = 0; i < m; i++)
        for (int64_t q = 0; q < k && q < count; q++) {
            char *sum = out + (size_t)(i * cols) * size;
            for (int64_t j = 0; j < cols; j++)
                memcpy(row + (size_t)j * size, ca + (size_t)(i * k + q) * size, size);
            tile_eval_map(&fma, dt, dt, 3, (const void *[]){row, cb + (size_t)(q * cols) * size, sum}, cols, sum);
        }
    tsr_free(ca);
    tsr_free(cb);
    tsr_free(row);
}
