/*
 * Matrix products on GPUs.
 *
 * A product is a kernel of blocks.  Where matrix units take its operands each group sums in registers along all of k; else, and
 * that is any other pair of dtypes, it sums chunks of 256 steps, which it adds up, as the host does (runtime/gemm.h).  An operand whose
 * elements lie side by side along the other axis is loaded as it lies and turned.  Up to two axes of batches are in the kernel;
 * batches of the left operand alone are further rows, where they lie so.
 */
#include "ir/schedule/far_product.h"

#include "runtime/gpu_device.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ---- */

enum { STEPS = 64, CHUNK = 256 };

static bool has_units(DType x, DType y, DType sum)
{
    bool real = x == DT_bf16 || x == DT_f16 || x == DT_fp8_e4m3 || x == DT_fp8_e5m2;

    return x == y && ((real && sum == DT_f32) || ((x == DT_int8 || x == DT_uint8) && sum == DT_int32));
}

/* Of tf32 warpgroups alone have units here. */
static bool is_of_tf32(const ProductKind *p) { return p->x == DT_tf32 && p->y == DT_tf32 && p->sum == DT_f32; }

/* Rows `row` and steps `k` of x; steps and columns of y: a tile [rows, steps] or [steps, columns]. */
static TileRef load_operand(TileBuilder *b, const ProductKind *p, int operand, TileRef from, const TileRef *batch, TileRef row, TileRef k)
{
    TAttr a = tattr_none;
    bool rows_first = (operand == 0) != p->turned[operand];
    TileRef in[5] = {from}, x;
    int n = 1;

    for (int i = 0; p->batched && i < BATCHES; i++) {
        a.shape[i] = 1;
        a.drop |= (uint8_t)(1 << i);
        in[n++] = p->still[operand] >> i & 1 ? build_number(b, 0) : batch[i];
    }
    a.rank = (int8_t)(n + 1);
    a.shape[n - 1] = rows_first ? p->block[operand] : p->block[2];
    a.shape[n] = rows_first ? p->block[2] : p->block[operand];
    in[n++] = rows_first ? row : k;
    in[n++] = rows_first ? k : row;
    if (operand == 0 && p->ragged)
        a.f = -0.0;                             /* steps past the last one add -0, which leaves all sums as they are */
    x = build_add(b, TOP_load, &a, in, n);
    if (rows_first == (operand == 0))
        return x;
    a = tattr_none;
    a.rank = 2;
    a.axes[0] = 1;
    return build_add(b, TOP_permute, &a, &x, 1);
}

/* By a loop whose rounds add blocks of steps to zeros. */
TileRef product_steps(TileBuilder *b, const ProductKind *p, const TileRef *from, const TileRef *batch, TileRef row, TileRef column,
                      TileRef lo, TileRef hi)
{
    TileBlock *outside = b->at;
    TileRef step = build_number(b, p->block[2]), in[4] = {lo, hi, step, build_zeros(b, p->sum, 2, p->block)}, at, x, y, sum;
    TileNode *loop = in[3].node ? tile_add(b, TOP_for, NULL, in, 4) : NULL;

    if (!loop)
        return build_none();
    b->at = loop->region[0];
    at = (TileRef){loop->region[0]->params.at[0], 0};
    sum = (TileRef){loop->region[0]->params.at[1], 0};
    x = load_operand(b, p, 0, from[0], batch, row, at);
    y = load_operand(b, p, 1, from[1], batch, column, at);
    sum = build_add(b, TOP_dot, NULL, (TileRef[]){x, y, sum, step}, 4);     /* zeros where steps have ended: chunks are of whole rounds */
    if (!sum.node || !tile_yield(b, &sum, 1))
        return build_none();
    b->at = outside;
    return (TileRef){loop, 0};
}

/* What the sums of chunks are added to: to -0, so that the first one is as it was. Of no steps it is 0. */
static TileRef begin_chunks(TileBuilder *b, const ProductKind *p, TileRef k)
{
    TileRef in[3] = {build_add2(b, TOP_ieq, k, build_number(b, 0))}, x;
    TAttr a = tattr_none;

    if (!dtype_is_float((DType)p->sum))
        return build_zeros(b, p->sum, 2, p->block);
    a.dtype = p->sum;
    in[1] = build_add(b, TOP_const, &a, NULL, 0);
    a.f = -0.0;
    in[2] = build_add(b, TOP_const, &a, NULL, 0);
    a = tattr_none;
    a.op = OP_where;
    x = build_add(b, TOP_map, &a, in, 3);
    a = tattr_none;
    a.rank = 2;
    memcpy(a.shape, p->block, 2 * sizeof *a.shape);
    return build_add(b, TOP_splat, &a, &x, 1);
}

/* Chunks one after the other: their sums are added up. */
TileRef product_block(TileBuilder *b, const ProductKind *p, const TileRef *from, const TileRef *batch, TileRef row, TileRef column)
{
    TileBlock *outside = b->at;
    TileRef k = build_size(b, "k"), zero = build_number(b, 0), at, sum;
    TileRef in[4] = {zero, k, build_number(b, CHUNK)};
    TAttr a = tattr_none;
    TileNode *loop;

    if (p->units)
        return product_steps(b, p, from, batch, row, column, zero, k);
    in[3] = begin_chunks(b, p, k);
    loop = in[3].node ? tile_add(b, TOP_for, NULL, in, 4) : NULL;
    if (!loop)
        return build_none();
    b->at = loop->region[0];
    at = (TileRef){loop->region[0]->params.at[0], 0};
    sum = product_steps(b, p, from, batch, row, column, at, build_add2(b, TOP_imin, k, build_add2(b, TOP_iadd, at, build_number(b, CHUNK))));
    a.op = OP_add;
    sum = build_add(b, TOP_map, &a, (TileRef[]){(TileRef){loop->region[0]->params.at[1], 0}, sum}, 2);
    if (!sum.node || !tile_yield(b, &sum, 1))
        return build_none();
    b->at = outside;
    return (TileRef){loop, 0};
}

Sym product_schedule(const ProductKind *p)
{
    StrBuf text = {0};
    Sym s;

    if (!p->warps)
        return NULL;
    sb_printf(&text, "warps=%d", p->warps);
    if (p->units && !p->wide)
        sb_puts(&text, " tensor=0");
    if (p->stages)
        sb_printf(&text, " stages=%d", p->stages);
    if (p->sets)
        sb_printf(&text, " sets=%d", p->sets);
    if (p->split > 1)
        sb_printf(&text, " split=%d", p->split);
    if (p->cluster > 1)
        sb_printf(&text, " cluster=%d", p->cluster);
    if (p->fast)
        sb_puts(&text, " promote=0");
    s = sym(sb_str(&text));
    sb_done(&text);
    return s;
}

/* A view of an operand or of the sums, whose last axis steps by `inner`. */
TileRef product_view(TileBuilder *b, const ProductKind *p, const char *name, uint8_t dt, int8_t inner)
{
    int8_t lies[4] = {STRIDE_ANY, STRIDE_ANY, STRIDE_ANY, STRIDE_ANY};
    int rank = p->batched ? 2 + BATCHES : 2;

    lies[rank - 1] = inner;
    return far_view(b, name, (DType)dt, rank, lies);
}

static TileRef rounded(TileBuilder *b, const ProductKind *p, TileRef sum)
{
    TAttr a = tattr_none;

    a.op = OP_convert;
    a.dtype = p->out;
    return p->out == p->sum ? sum : build_add(b, TOP_map, &a, &sum, 1);
}

static bool build_product(TileBuilder *b, const void *what)
{
    const ProductKind *p = what;
    Dim b0 = tile_size(b->k, sym("b0")), b1 = tile_size(b->k, sym("b1")), m = tile_size(b->k, sym("m")), n = tile_size(b->k, sym("n"));
    TileRef from[3], batch[2], row, column, in[6];
    TAttr a = tattr_none;
    int axes = p->batched ? 1 : 0, nin = 0;

    if (p->divided)
        return product_build_parts(b, p);
    tile_size(b->k, sym("k"));
    if (p->batched)
        vec_push(&b->k->grid, dim_mul(b0, b1));
    vec_push(&b->k->grid, dim_cdiv(n, p->block[1]));
    vec_push(&b->k->grid, dim_cdiv(m, p->block[0]));
    from[0] = product_view(b, p, "x", p->x, p->inner[0]);
    from[1] = product_view(b, p, "y", p->y, p->inner[1]);
    from[2] = product_view(b, p, "sum", p->out, p->inner[2]);
    b->k->schedule = product_schedule(p);
    in[nin++] = from[2];
    for (int i = 0; p->batched && i < BATCHES; i++) {
        batch[i] = build_group(b, 0);
        in[nin++] = batch[i] = build_add2(b, i ? TOP_imod : TOP_idiv, batch[i], build_size(b, "b1"));
        a.drop |= (uint8_t)(1 << i);
    }
    in[nin++] = row = build_times(b, build_group(b, axes + 1), p->block[0]);
    in[nin++] = column = build_times(b, build_group(b, axes), p->block[1]);
    in[nin++] = rounded(b, p, product_block(b, p, from, batch, row, column));
    return in[nin - 1].node && tile_add(b, TOP_store, &a, in, nin) != NULL;
}

/* ---- operands ---- */

/* Batches that only x and the sums have, behind their rows at even steps: they are rows. */
static void fold_rows(Tensor *const *t, Batches *b)
{
    while (b->n && b->step[1][0] == 0) {
        for (int i = 0; i < 3; i += 2)
            if (b->step[i][0] != t[i]->stride[t[i]->rank - 2] * b->rows)
                return;
        b->rows *= b->extent[0];
        b->n--;
        for (int k = 0; k < b->n; k++) {
            b->extent[k] = b->extent[k + 1];
            for (int i = 0; i < 3; i++)
                b->step[i][k] = b->step[i][k + 1];
        }
    }
}

static bool find_batches(Tensor *const *t, Batches *out)
{
    const Tensor *sum = t[2];

    *out = (Batches){.rows = sum->shape[sum->rank - 2]};
    for (int axis = sum->rank - 3; axis >= 0; axis--) {
        int64_t step[3], extent = sum->shape[axis];
        bool joins = out->n > 0;
        if (extent == 1)
            continue;
        for (int i = 0; i < 3; i++) {
            int own = axis - sum->rank + t[i]->rank;
            step[i] = own < 0 || t[i]->shape[own] == 1 ? 0 : t[i]->stride[own];
            joins = joins && step[i] == out->step[i][out->n - 1] * out->extent[out->n - 1];
        }
        if (joins) {
            out->extent[out->n - 1] *= extent;
            continue;
        }
        if (out->n == BATCHES)
            return false;
        for (int i = 0; i < 3; i++)
            out->step[i][out->n] = step[i];
        out->extent[out->n++] = extent;
    }
    fold_rows(t, out);
    for (; out->n < BATCHES; out->n++) {
        out->extent[out->n] = 1;
        for (int i = 0; i < 3; i++)
            out->step[i][out->n] = 0;
    }
    return true;
}

/* ---- schedules ---- */

/* Of f64 for matrix units, which older chips and bundles have none of (codegen/gpu_matrix.c)? */
static bool is_of_double_units(int device, const ProductKind *p)
{
    return p->x == DT_f64 && p->y == DT_f64 && far_made_for < 0 && far_chip(device) >= 90;
}

/*
 * Blocks for a product of this size: smaller ones where there are few, no wider than there are rows and columns. The largest ones of sums in
 * order are of threads with half of the registers for a chunk's sums; those before it wait in shared memory (codegen/gpu_park.c), beside
 * rounds of few steps. Where both operands lie by their steps, of which threads take four at once, they have no registers for as many sums.
 */
static void choose_blocks(ProductKind *p, bool doubles, int64_t batches, int64_t m, int64_t n)
{
    enum { PLACES = 132, MOST = 128, SMALL = 64, LEAST = 16, STEPS_BESIDE = 16 };
    bool twice = raw_size((DType)p->sum) > 4, by_steps = !p->turned[0] && p->turned[1];

    p->block[0] = MOST;
    p->block[1] = twice && !doubles ? MOST / 2 : MOST;
    for (int i = 0; i < 2; i++)
        while (p->block[i] > LEAST && p->block[i] / 2 >= (i ? n : m))
            p->block[i] /= 2;
    for (int i = 0; i < 2; i++)
        while (p->block[i] > SMALL && batches * ((m + p->block[0] - 1) / p->block[0]) * ((n + p->block[1] - 1) / p->block[1]) < PLACES)
            p->block[i] /= 2;
    p->block[2] = twice ? STEPS / 2 : STEPS;
    if (p->units) {
        p->warps = p->block[0] * p->block[1] >= MOST * MOST ? 8 : 4;
    } else if (p->block[0] * p->block[1] == MOST * MOST && (twice || !by_steps)) {
        p->warps = twice ? 8 : 4;
        p->block[2] = STEPS_BESIDE;
    } else if (doubles && p->block[0] * p->block[1] == SMALL * SMALL) {
        p->warps = 4;
    }
}

/* TESSERA_PARTS (src/tools/options.def): such kernels have no other reason to divide their steps. */
static int asked_parts(int most)
{
    const char *asked = getenv("TESSERA_PARTS");
    int parts = asked ? atoi(asked) : 1;

    return parts < 1 ? 1 : parts < most ? parts : most;
}

int product_choose(int device, Tensor *const *t, ProductKind *p, const int64_t *sizes, int most)
{
    p->wide = product_is_wide(device, t, p, sizes);
    p->units = p->units && (p->wide || !is_of_tf32(p));
    if (!p->wide)
        p->x = t[0]->dtype, p->y = t[1]->dtype;
    p->inner[2] = p->wide && !product_is_copied(t[2], false, true) ? STRIDE_ANY : 1;
    if (p->wide)
        return product_choose_wide(p, sizes, most);
    choose_blocks(p, is_of_double_units(device, p), sizes[0] * sizes[1], sizes[2], sizes[3]);
    p->ragged = !p->units && dtype_is_float((DType)p->sum) && sizes[4] % p->block[2];
    return p->units ? asked_parts(most) : 1;
}

int product_slack(const Attr *a) { return !a->fast ? 0 : a->compute == DT_tf32 ? SLACK_SUMS | SLACK_TF32 : SLACK_SUMS; }

bool product_describe(Tensor *const *t, DType accum, int slack, ProductKind *p, Batches *b)
{
    memset(p, 0, sizeof *p);
    p->x = t[0]->dtype, p->y = t[1]->dtype, p->sum = accum, p->out = t[2]->dtype;
    for (int i = 0; i < 2; i++) {
        int r = t[i]->rank;
        if (r < 2 || dtype_is_complex((DType)t[i]->dtype) || is_packed((DType)t[i]->dtype))
            return false;
        p->turned[i] = t[i]->stride[r - 1] != 1 && t[i]->stride[r - 2] == 1;
        p->inner[i] = (int8_t)(t[i]->stride[r - 1 - p->turned[i]] == 1 ? 1 : STRIDE_ANY);
    }
    if (slack & SLACK_TF32 && p->x == DT_f32 && p->y == DT_f32 && accum == DT_f32)
        p->x = p->y = DT_tf32;                  /* units pass over the bits that it has not */
    p->units = has_units((DType)p->x, (DType)p->y, (DType)p->sum) || is_of_tf32(p);
    p->fast = slack && p->units && dtype_is_float((DType)p->x) && raw_size((DType)p->x) == 1;
    return find_batches(t, b);
}

/* ---- launches ---- */

bool product_arg(Tensor *t, int device, int i, const ProductKind *p, const Batches *b, TileArg *arg)
{
    int r = t->rank, axis = 0;
    bool turned = i < 2 && p->turned[i];
    char *base = far_address(t, device, i == 2, i == 2);

    if (!base && tensor_nbytes(t))
        return false;
    arg->base = base ? base + t->offset * (dtype_info[t->dtype].sbits / 8) : NULL;
    for (int k = 0; p->batched && k < BATCHES; k++) {
        arg->extent[axis] = i < 2 && p->still[i] >> k & 1 ? 1 : b->extent[BATCHES - 1 - k];
        arg->stride[axis++] = b->step[i][BATCHES - 1 - k];
    }
    for (int k = 0; k < 2; k++) {
        int own = r - 2 + (k != turned);
        arg->extent[axis] = i != 1 && own == r - 2 ? b->rows : t->shape[own];
        arg->stride[axis++] = t->stride[own];
    }
    return true;
}

/*
 * Its kernel, or where there is no code for the blocks that suit these sizes the one that serves all sizes, to the same bits: bundles have that for
 * each way in which operands lie.
 */
FarKernel *product_code(const ProductKind *p)
{
    ProductKind any = *p;
    FarKernel *f = far_kernel_for(p, sizeof *p, "product", build_product);

    if (p->wide || (f->code && far_made_for < 0))
        return f;
    any.block[0] = any.block[1] = 64;
    any.warps = p->units ? 4 : 0;
    any.ragged = !p->units && dtype_is_float((DType)p->sum);
    FarKernel *g = far_kernel_for(&any, sizeof any, "product", build_product);

    return f->code ? f : g;
}

static void find_still(ProductKind *p, const Batches *b)
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < BATCHES; k++)
            if (b->extent[BATCHES - 1 - k] > 1 && !b->step[i][BATCHES - 1 - k])
                p->still[i] |= (uint8_t)(1 << k);
}

int far_product(int device, Tensor *x, Tensor *y, Tensor *sum, DType accum, int slack, Span where)
{
    Tensor *t[3] = {x, y, sum};
    ProductKind p;
    TileArg arg[3];
    Batches b;
    int64_t sizes[5];
    FarKernel *f;
    int parts, done;

    if (!product_describe(t, accum, slack, &p, &b))
        return 0;
    if (!tensor_size(sum))
        return 1;
    sizes[0] = b.extent[1], sizes[1] = b.extent[0], sizes[2] = b.rows, sizes[3] = sum->shape[sum->rank - 1];
    sizes[4] = x->shape[x->rank - 1];
    p.batched = sizes[0] * sizes[1] != 1;
    if ((done = product_other_way(device, t, &p, slack, b.rows, sizes, where)) != PRODUCT_AS_IT_IS)
        return done;
    parts = product_choose(device, t, &p, sizes, product_parts_fit(&p, &b, sum) ? PARTS_OF_STEPS : 1);
    if (parts > 1)
        return product_in_parts(t, device, &p, &b, sizes, parts, where);
    if (p.wide && p.batched)
        find_still(&p, &b);
    f = product_code(&p);
    if (!f->code)
        return 0;
    for (int i = 0; i < 3; i++)
        if (!product_arg(t[i], device, i, &p, &b, &arg[i]))
            return -1;
    return far_launcher(f->code, f->tile, device, sizes, arg, where);
}
