/*
 * tile_random.h - random kernels of the Tile IR with their arguments.
 *
 * Ops are offered random operands; those that typing refuses are left out.
 * Every value is stored to an output of its own, so a wrong one shows.
 */
#ifndef TSR_TESTS_TILE_RANDOM_H
#define TSR_TESTS_TILE_RANDOM_H

#include "tensors.h"

#include "ir/tile/tile.h"
#include "runtime/convert.h"

#include <math.h>

enum { RK_ARGS = 48, RK_ROOM = 1 << 14, RK_VALUES = 96 };

typedef struct RandomKernel {
    TileKernel *k;
    TileBuilder b;
    StrBuf err;
    TileRef value[RK_VALUES];
    int nvalues;
    TileRef index[32];
    int nindex, indices;                /* indices: those of the body */
    TileArg arg[RK_ARGS];
    size_t bytes[RK_ARGS];
    bool output[RK_ARGS];
    int narg;
    int64_t sizes[2];
    TileRef row;
    const uint8_t *dtypes;
    int ndtypes;
} RandomKernel;

static inline TileNode *rk_add(RandomKernel *r, TileOp op, const TAttr *a, const TileRef *in, int nin)
{
    sb_clear(&r->err);
    return tile_add(&r->b, op, a, in, nin);
}

static inline TileRef rk_number(RandomKernel *r, int64_t i)
{
    TAttr a = tattr_none;

    a.i = i;
    return tile_out(rk_add(r, TOP_index, &a, NULL, 0));
}

static inline void rk_keep(RandomKernel *r, TileNode *n)
{
    for (int i = 0; n && i < n->nout && r->nvalues < RK_VALUES; i++)
        if (n->type[i].kind == TILE_VALUE && tile_type((TileRef){n, i})->rank <= 3)
            r->value[r->nvalues++] = (TileRef){n, i};
}

static inline double rk_float(void)
{
    static const double odd[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 65504, -1e30};

    return rnd_to(24) == 0 ? odd[rnd_to(8)] : (double)(rnd_to(20001) - 10000) / 1024.0;
}

static inline TileRef rk_param(RandomKernel *r, DType dt, int rank, const int64_t *extent, bool output)
{
    TileType t = {.kind = TILE_VIEW, .dtype = (uint8_t)dt, .rank = (uint8_t)rank};
    TileArg *a = &r->arg[r->narg];
    char name[16];
    int64_t n = 1;

    for (int i = rank - 1; i >= 0; i--) {
        int64_t pad = rnd_to(3) == 0 ? 1 : 0;
        bool plain = i == rank - 1 && rnd_to(4) != 0;
        t.stride[i] = plain ? 1 : STRIDE_ANY;
        a->extent[i] = extent[i];
        a->stride[i] = plain ? 1 : n * (1 + (pad && rank < 3));
        if (!output && rnd_to(8) == 0)
            t.stride[i] = 0, a->stride[i] = 0;
        n = (a->stride[i] ? a->stride[i] : n) * (extent[i] + pad) + pad;
    }
    r->bytes[r->narg] = (size_t)n * raw_size(dt);
    a->base = tsr_calloc(r->bytes[r->narg] + 64);
    for (int64_t i = 0; i < n && !output; i++) {
        double v = rk_float();
        int64_t w = dt == DT_bool ? rnd_to(2) : (int64_t)rnd();
        if (dtype_is_float(dt))
            raw_convert(dt, (char *)a->base + (size_t)i * raw_size(dt), DT_f64, &v, 1, NULL, 0);
        else
            raw_convert(dt, (char *)a->base + (size_t)i * raw_size(dt), DT_int64, &w, 1, NULL, 0);
    }
    r->output[r->narg] = output;
    snprintf(name, sizeof name, "p%d", r->narg++);
    return tile_param(r->k, sym(name), &t);
}

static inline TileRef rk_any(RandomKernel *r) { return r->value[rnd_to(r->nvalues)]; }
static inline TileRef rk_index(RandomKernel *r) { return r->index[rnd_to(r->nindex)]; }

static const int32_t rk_shapes[][3] = {{0}, {16}, {4, 16}, {1, 16}, {4, 1}, {3, 10}, {8, 32}, {2, 4, 8}, {70}, {5, 40}, {16, 8}, {32, 24}};

static inline int rk_shape(TAttr *a)
{
    const int32_t *s = rk_shapes[rnd_to(12)];

    for (a->rank = 0; a->rank < 3 && s[a->rank]; a->rank++)
        a->shape[a->rank] = s[a->rank];
    return a->rank;
}

static inline DType rk_dtype(RandomKernel *r) { return (DType)r->dtypes[rnd_to(r->ndtypes)]; }

static inline void rk_load(RandomKernel *r)
{
    TAttr a = tattr_none;
    int rank = rk_shape(&a);
    int64_t extent[3] = {0};
    TileRef in[4];

    if (r->narg >= RK_ARGS / 2)
        return;
    for (int i = 0; i < rank; i++)
        extent[i] = a.shape[i] + rnd_to(9) - (rnd_to(4) == 0 ? 6 : 0);
    for (int i = 0; i < rank; i++)
        extent[i] = extent[i] < 0 ? 0 : extent[i];
    in[0] = rk_param(r, rk_dtype(r), rank, extent, false);
    for (int i = 0; i < rank; i++)
        in[1 + i] = rnd_to(3) ? r->index[0] : rk_index(r);
    a.f = rnd_to(2) ? 0 : rk_float();
    rk_keep(r, rk_add(r, TOP_load, &a, in, 1 + rank));
}

static inline void rk_map(RandomKernel *r)
{
    TAttr a = tattr_none;
    TileRef in[3];

    do
        a.op = (uint8_t)rnd_to(OP_COUNT);
    while (op_info[a.op].family != FAM_MAP);
    if (rnd_to(2))
        a.op = (uint8_t)(uint8_t[]){OP_add, OP_mul, OP_sub, OP_maximum, OP_where, OP_lt, OP_convert, OP_exp}[rnd_to(8)];
    if (a.op == OP_convert) {
        a.dtype = (uint8_t)rk_dtype(r);
        a.rounding = rnd_to(4) ? 0 : ROUND_ZERO;
        a.saturate = rnd_to(4) == 0;
    }
    a.flush = rnd_to(8) == 0;
    for (int i = 0; i < 3; i++)
        in[i] = rk_any(r);
    for (int i = 1; i < op_info[a.op].nin && rnd_to(3); i++)     /* likely to fit */
        for (int t = 0; t < 20 && tile_type(in[i])->dtype != tile_type(in[a.op == OP_where])->dtype; t++)
            in[i] = rk_any(r);
    rk_keep(r, rk_add(r, TOP_map, &a, in, op_info[a.op].nin));
}

static const uint8_t rk_sums[] = {OP_sum, OP_prod, OP_max, OP_min, OP_any, OP_all};

static inline bool rk_multiply(const TileType *a, const TileType *b) { return a->rank == 2 && b->rank == 2 && a->extent[1] == b->extent[0]; }

static inline bool rk_offer(RandomKernel *r)
{
    static const TileOp ops[] = {TOP_const, TOP_splat, TOP_splat, TOP_iota, TOP_reshape, TOP_permute, TOP_reduce, TOP_reduce, TOP_dot,
                                 TOP_to_tile, TOP_ilt};
    TileOp op = ops[rnd_to(11)];
    TAttr a = tattr_none;
    TileRef in[4] = {rk_any(r), rk_any(r), rk_any(r), rk_any(r)};
    int nin = tile_op_info[op].nin;
    TileNode *n;

    a.dtype = (uint8_t)rk_dtype(r);
    a.f = rk_float();
    a.i = dtype_is_int((DType)a.dtype) ? rnd_to(100) : rnd_to(2);
    a.op = rk_sums[rnd_to(6)];
    a.axis = (int8_t)rnd_to(3);
    rk_shape(&a);
    if (op == TOP_permute) {
        a.rank = (int8_t)tile_type(in[0])->rank;
        for (int i = 0; i < a.rank; i++)
            a.axes[i] = (int8_t)((i + 1) % a.rank);
    }
    if (op == TOP_reshape && rnd_to(3)) {
        int64_t count = tile_type(in[0])->rank ? 1 : 0;
        for (int i = 0; i < tile_type(in[0])->rank; i++)
            count *= tile_type(in[0])->extent[i];
        a.rank = (int8_t)(1 + rnd_to(2));
        a.shape[0] = a.rank == 2 && rnd_to(2) ? 1 : (int32_t)count;
        a.shape[1] = a.shape[0] == 1 ? (int32_t)count : 1;
    }
    if (op == TOP_iota || op == TOP_to_tile || op == TOP_ilt)
        in[0] = rk_index(r), in[1] = rk_index(r);
    if (op == TOP_reduce)
        in[1] = rk_index(r);
    if (op == TOP_dot) {
        for (int t = 0; t < 200 && !rk_multiply(tile_type(in[0]), tile_type(in[1])); t++)
            in[0] = rk_any(r), in[1] = rk_any(r);
        if (tile_type(in[0])->rank == 2 && tile_type(in[1])->rank == 2) {
            TileNode *c;
            TAttr z = tattr_none;
            z.dtype = (uint8_t)rk_dtype(r);
            z.rank = 2;
            z.shape[0] = tile_type(in[0])->extent[0];
            z.shape[1] = tile_type(in[1])->extent[1];
            c = rk_add(r, TOP_const, &z, NULL, 0);
            in[2] = tile_out(c ? rk_add(r, TOP_splat, &z, (TileRef[]){{c, 0}}, 1) : NULL);
            if (!in[2].node)
                return false;
        }
        in[3] = rk_index(r);
    }
    n = rk_add(r, op, &a, in, nin);
    rk_keep(r, n);
    return n != NULL;
}

static inline void rk_value(RandomKernel *r)
{
    for (int i = 0; i < 6 && !rk_offer(r); i++)
        ;
}

static inline void rk_some(RandomKernel *r, int n);

/* A loop that pushes into a tree and carries a tile. */
static inline void rk_loop(RandomKernel *r, int depth)
{
    TAttr a = tattr_none;
    TileRef x = rk_any(r), in[5], y[2];
    TileBuilder outer = r->b;
    TileNode *tree, *loop, *push;
    int values = r->nvalues, indices = r->nindex;

    a.op = rk_sums[rnd_to(6)];
    a.dtype = tile_type(x)->dtype;
    a.rank = (int8_t)tile_type(x)->rank;
    memcpy(a.shape, tile_type(x)->extent, sizeof a.shape);
    if (depth > 1 || r->nindex > 24 || !(tree = rk_add(r, TOP_tree, &a, NULL, 0)))
        return;
    in[0] = r->index[0];
    in[1] = rk_index(r);
    in[2] = rk_number(r, 1 + rnd_to(3));
    in[3] = tile_out(tree);
    in[4] = x;
    loop = rk_add(r, TOP_for, NULL, in, 5);
    r->b.at = loop->region[0];
    r->index[r->nindex++] = tile_out(loop->region[0]->params.at[0]);
    rk_keep(r, loop->region[0]->params.at[2]);
    for (int i = 0; i < 4; i++)
        rk_some(r, 1);
    y[0] = x;
    for (int i = r->nvalues - 1; i >= 0; i--)
        if (tile_type_equal(tile_type(r->value[i]), tile_type(x))) {
            y[0] = r->value[i];
            break;
        }
    push = rk_add(r, TOP_push, NULL, (TileRef[]){{loop->region[0]->params.at[1], 0}, y[0]}, 2);
    tile_yield(&r->b, (TileRef[]){{push, 0}, y[0]}, 2);
    r->b = outer;
    r->nvalues = values;
    r->nindex = indices;
    rk_keep(r, rk_add(r, TOP_total, NULL, (TileRef[]){{loop, 0}}, 1));
    r->value[r->nvalues < RK_VALUES ? r->nvalues++ : 0] = (TileRef){loop, 1};
}

static inline void rk_branch(RandomKernel *r)
{
    TileBuilder outer = r->b;
    TileRef x = rk_any(r), best[2];
    TileNode *flag = rk_add(r, TOP_ilt, NULL, (TileRef[]){rk_index(r), rk_index(r)}, 2), *n = rk_add(r, TOP_if, NULL, (TileRef[]){{flag, 0}}, 1);
    int values = r->nvalues;

    for (int k = 0; k < 2; k++) {
        r->b.at = n->region[k];
        for (int i = 0; i < 3; i++)
            rk_map(r);
        best[k] = x;
        for (int i = values; i < r->nvalues; i++)
            if (tile_type_equal(tile_type(r->value[i]), tile_type(x)))
                best[k] = r->value[i];
        tile_yield(&r->b, &best[k], 1);
        r->nvalues = values;
    }
    r->b = outer;
    rk_keep(r, n);
}

static inline void rk_some(RandomKernel *r, int n)
{
    for (int i = 0; i < n; i++)
        switch (rnd_to(4)) {
        case 0: rk_value(r); break;
        case 1: rk_load(r); break;
        default: rk_map(r);
        }
}

/* Each value to an output of its own, or through a buffer of the group first. */
static inline void rk_store(RandomKernel *r, TileRef v)
{
    const TileType *t = tile_type(v);
    int64_t extent[3] = {0};
    TileRef in[5];

    if (r->narg == RK_ARGS)
        return;
    for (int i = 0; i < t->rank; i++)
        extent[i] = t->extent[i] * (i == 0 ? 2 : 1) - (rnd_to(3) == 0);
    in[0] = rk_param(r, (DType)t->dtype, t->rank, extent, true);
    for (int i = 0; i < t->rank; i++)
        in[1 + i] = i ? r->index[0] : tile_out(rk_add(r, TOP_imul, NULL, (TileRef[]){r->row, rk_number(r, t->extent[0])}, 2));
    if (t->rank == 0)
        in[1] = v;
    in[1 + t->rank] = v;
    rk_add(r, TOP_store, NULL, in, 2 + t->rank);
}

/* Part of an input, copied to a buffer and a bit beyond, perhaps asynchronously; then read, also at an edge. */
static inline void rk_copy(RandomKernel *r)
{
    static const int64_t extent[2] = {6, 20};
    TileRef x, in[5], buf, piece;
    TAttr a = tattr_none;
    bool later = rnd_to(2);

    if (r->narg >= RK_ARGS / 2)
        return;
    x = rk_param(r, rk_dtype(r), 2, extent, false);
    a.dtype = tile_type(x)->dtype;
    a.space = rnd_to(2) ? SPACE_SHARED : SPACE_LOCAL;
    a.f = rk_float();
    buf = tile_out(rk_add(r, TOP_alloc, &a, (TileRef[]){rk_number(r, 5), rk_number(r, 16)}, 2));
    in[0] = x;
    in[1] = r->row;
    in[2] = rk_number(r, rnd_to(6));
    in[3] = rk_number(r, 1 + rnd_to(5));
    in[4] = rk_number(r, 1 + rnd_to(14));
    piece = tile_out(rk_add(r, TOP_part, NULL, in, 5));
    rk_add(r, later ? TOP_copy_async : TOP_copy, &a, (TileRef[]){buf, piece}, 2);
    if (later) {
        rk_add(r, TOP_commit, NULL, NULL, 0);
        rk_add(r, TOP_wait, NULL, NULL, 0);
    }
    rk_add(r, TOP_barrier, NULL, NULL, 0);
    a.rank = 2;
    a.shape[0] = 4;
    a.shape[1] = 16;
    in[0] = buf;
    in[1] = r->row;
    in[2] = r->index[0];
    rk_keep(r, rk_add(r, TOP_load, &a, in, 3));
}

/* Values that meet in a buffer element by element, more than once. */
static inline void rk_atomic(RandomKernel *r)
{
    TileRef v = rk_any(r), in[5], at[4];
    const TileType *t = tile_type(v);
    TAttr a = tattr_none;
    TileNode *buf;

    if (r->b.at != &r->k->body)
        return;
    for (int i = 0; i < t->rank; i++) {
        at[i] = rk_number(r, t->extent[i]);
        a.shape[i] = t->extent[i];
        in[1 + i] = r->index[0];
    }
    a.dtype = t->dtype;
    a.rank = (int8_t)t->rank;
    a.space = SPACE_SHARED;
    a.op = (uint8_t[]){OP_sum, OP_max, OP_min}[rnd_to(3)];
    if (t->dtype == DT_c64 || !(buf = rk_add(r, TOP_alloc, &a, at, t->rank)))
        return;
    in[0] = tile_out(buf);
    in[1 + t->rank] = v;
    rk_add(r, TOP_store, NULL, in, 2 + t->rank);
    if (t->rank)
        in[1] = rnd_to(2) ? r->index[0] : r->row;       /* some lie outside */
    rk_add(r, TOP_atomic, &a, in, 2 + t->rank);
    if (t->rank)
        in[1] = r->index[0];
    rk_keep(r, rk_add(r, TOP_load, &a, in, 1 + t->rank));
}

/* Doubling until a count is reached; a tile and its mirror image change places each time. */
static inline void rk_while(RandomKernel *r)
{
    TileRef x = rk_any(r), y = rk_any(r), one, i, flag;
    TileBuilder outer = r->b;
    TAttr a = tattr_none;
    TileNode *n;

    for (int t = 0; t < 20 && !tile_type_equal(tile_type(x), tile_type(y)); t++)
        y = rk_any(r);
    if (!tile_type_equal(tile_type(x), tile_type(y)))
        y = x;
    n = rk_add(r, TOP_while, NULL, (TileRef[]){r->index[0], x, y}, 3);
    r->b.at = n->region[0];
    i = (TileRef){n->region[0]->params.at[0], 0};
    flag = tile_out(rk_add(r, TOP_ilt, NULL, (TileRef[]){i, r->index[3]}, 2));
    tile_yield(&r->b, &flag, 1);
    r->b.at = n->region[1];
    one = rk_number(r, 1 + rnd_to(3));
    i = tile_out(rk_add(r, TOP_iadd, NULL, (TileRef[]){{n->region[1]->params.at[0], 0}, one}, 2));
    a.op = OP_add;
    x = (TileRef){n->region[1]->params.at[1], 0};
    y = (TileRef){n->region[1]->params.at[2], 0};
    if (rnd_to(2)) {
        TileNode *sum = rk_add(r, TOP_map, &a, (TileRef[]){x, y}, 2);
        x = sum ? tile_out(sum) : x;
    }
    tile_yield(&r->b, (TileRef[]){i, y, x}, 3);
    r->b = outer;
    rk_keep(r, n);
}

static inline void rk_through_buffer(RandomKernel *r)
{
    TileRef v = rk_any(r), in[5], at[4];
    const TileType *t = tile_type(v);
    TAttr a = tattr_none;
    TileNode *buf;

    for (int i = 0; i < t->rank; i++) {
        at[i] = rk_number(r, t->extent[i]);
        a.shape[i] = t->extent[i];
    }
    a.dtype = t->dtype;
    a.rank = (int8_t)t->rank;
    a.space = SPACE_SHARED;
    if (!(buf = rk_add(r, TOP_alloc, &a, at, t->rank)))
        return;
    in[0] = tile_out(buf);
    for (int i = 0; i < t->rank; i++)
        in[1 + i] = r->index[0];
    in[1 + t->rank] = v;
    rk_add(r, TOP_store, NULL, in, 2 + t->rank);
    rk_add(r, TOP_barrier, NULL, NULL, 0);
    rk_keep(r, rk_add(r, TOP_load, &a, in, 1 + t->rank));
    if (!t->rank)
        return;
    for (int i = 0; i < 20 && (i == 0 || !tile_type_equal(tile_type(in[1 + t->rank]), t)); i++)
        in[1 + t->rank] = rk_any(r);
    in[1 + t->rank] = tile_type_equal(tile_type(in[1 + t->rank]), t) ? in[1 + t->rank] : v;
    in[1] = rnd_to(2) ? r->row : rk_number(r, 1);       /* over a part of what was loaded, and may not have been used yet */
    rk_add(r, TOP_store, NULL, in, 2 + t->rank);
    in[1] = r->index[0];
    rk_keep(r, rk_add(r, TOP_load, &a, in, 1 + t->rank));
}

/* A kernel of about n ops over these dtypes. */
static inline void rk_make(RandomKernel *r, int n, const uint8_t *dtypes, int ndtypes)
{
    TAttr a = tattr_none;

    *r = (RandomKernel){.k = tile_kernel_new(sym("random")), .sizes = {2, 1 + rnd_to(40)}, .dtypes = dtypes, .ndtypes = ndtypes};
    r->b = (TileBuilder){r->k, &r->k->body, {0, 0}, &r->err};
    vec_push(&r->k->grid, tile_size(r->k, sym("G")));
    tile_size(r->k, sym("N"));
    r->index[r->nindex++] = rk_number(r, 0);
    r->row = tile_out(rk_add(r, TOP_group, &a, NULL, 0));
    r->index[r->nindex++] = r->row;
    a.name = sym("N");
    r->index[r->nindex++] = tile_out(rk_add(r, TOP_size, &a, NULL, 0));
    r->index[r->nindex++] = rk_number(r, rnd_to(12));
    r->index[r->nindex++] = tile_out(rk_add(r, TOP_isub, NULL, (TileRef[]){r->index[3], r->index[1]}, 2));
    a.dtype = (uint8_t)rk_dtype(r);
    rk_keep(r, rk_add(r, TOP_const, &a, NULL, 0));
    rk_load(r);
    rk_load(r);
    rk_load(r);
    for (int i = 0; i < n && r->nvalues < RK_VALUES - 8; i++)
        switch (rnd_to(14)) {
        case 0: rk_loop(r, 0); break;
        case 1: rk_branch(r); break;
        case 2: rk_through_buffer(r); break;
        case 3: rk_copy(r); break;
        case 4: rnd_to(2) ? rk_atomic(r) : rk_while(r); break;
        default: rk_some(r, 1);
        }
    for (int i = r->nvalues - 1; i >= 0; i--)
        rk_store(r, r->value[i]);
}

/* Give the outputs other memory, all bytes zero; the old one is kept apart in old[]. */
static inline void rk_fresh_outputs(RandomKernel *r, void **old)
{
    for (int i = 0; i < r->narg; i++) {
        old[i] = r->output[i] ? r->arg[i].base : NULL;
        if (r->output[i])
            r->arg[i].base = tsr_calloc(r->bytes[i] + 64);
    }
}

/* Equal bits, where any NaN is like any other? */
static inline bool rk_same(DType dt, const void *a, const void *b, int64_t n)
{
    size_t size = raw_size(dt);

    if (!memcmp(a, b, (size_t)n * size))
        return true;
    for (int64_t i = 0; i < n; i++) {
        double x[2] = {0}, y[2] = {0};
        const char *p = (const char *)a + (size_t)i * size, *q = (const char *)b + (size_t)i * size;
        if (!memcmp(p, q, size))
            continue;
        if (dtype_info[dt].kind < DK_FLOAT)
            return false;
        raw_convert(DT_c128, x, dt, p, 1, NULL, 0);
        raw_convert(DT_c128, y, dt, q, 1, NULL, 0);
        for (int part = 0; part < 2; part++)
            if (!(isnan(x[part]) && isnan(y[part])) && memcmp(&x[part], &y[part], 8))
                return false;
    }
    return true;
}

static inline void rk_done(RandomKernel *r)
{
    for (int i = 0; i < r->narg; i++)
        tsr_free(r->arg[i].base);
    tile_kernel_free(r->k);
    sb_done(&r->err);
}

#endif
