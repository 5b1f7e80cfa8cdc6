/*
 * What runs on GPUs: kernels for matrix products and for totals, and single ops as bodies of one node.
 *
 * A product is a kernel of blocks.  Where matrix units take its operands each group sums in registers along all of k; else, and
 * that is any other pair of dtypes, it sums chunks of 256 steps, which it adds up, as the host does (runtime/gemm.h).  An operand whose
 * elements lie side by side along the other axis is loaded as it lies and turned.  Up to two axes of batches are in the kernel.
 */
#include "ir/schedule/far.h"

#include "ir/schedule/far_impl.h"
#include "ir/schedule/fused_impl.h"
#include "ir/tile/tile_impl.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "runtime/cuda.h"
#include "runtime/far_moves.h"
#include "runtime/gpu_device.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

#include <string.h>

static const KernelCompiler *compiler;
static FarLaunch *launcher;

/* ---- kernels by name ---- */

static Map kernels;             /* hash of what it is for, and of who makes its code -> FarKernel *, to the end of the process */

typedef bool Build(TileBuilder *b, const void *what);

static uint64_t key_of(const void *what, size_t n)
{
    uint64_t by[2] = {hash_bytes64(what, n), (uintptr_t)compiler};

    return hash_bytes64(by, sizeof by) | 1;
}

static FarKernel *kernel_for(const void *what, size_t n, const char *name, Build *build)
{
    uint64_t key = key_of(what, n);
    StrBuf err = {0};
    uintptr_t at;
    FarKernel *f;

    if (map_find(&kernels, key, &at))
        return (FarKernel *)at;
    f = tsr_calloc(sizeof *f);
    f->tile = tile_kernel_new(sym(name));
    TileBuilder b = {.k = f->tile, .at = &f->tile->body, .err = &err};
    if (build(&b, what)) {
        tile_fold(f->tile);
        f->code = compiler->compile(f->tile, &err);
    }
    sb_done(&err);
    map_set(&kernels, key, (uintptr_t)f);
    return f;
}

FarKernel *far_kernel(const char *text)
{
    uint64_t key = key_of(text, strlen(text));
    StrBuf err = {0};
    uintptr_t at;
    FarKernel *f;

    if (map_find(&kernels, key, &at))
        return (FarKernel *)at;
    f = tsr_calloc(sizeof *f);
    f->tile = tile_parse(text, strlen(text), &err);
    if (!f->tile)
        tsr_bug("a kernel for GPUs cannot be read: %s", sb_str(&err));
    tile_fold(f->tile);
    f->code = compiler->compile(f->tile, &err);
    sb_done(&err);
    map_set(&kernels, key, (uintptr_t)f);
    return f;
}

/* ---- building ---- */

static TileRef none(void) { return (TileRef){NULL, 0}; }

static TileRef add(TileBuilder *b, TileOp op, const TAttr *a, const TileRef *in, int nin)
{
    for (int i = 0; i < nin; i++)
        if (!in[i].node)
            return none();
    return (TileRef){tile_add(b, op, a, in, nin), 0};
}

static TileRef add2(TileBuilder *b, TileOp op, TileRef x, TileRef y) { return add(b, op, NULL, (TileRef[]){x, y}, 2); }

static TileRef number(TileBuilder *b, int64_t i)
{
    TAttr a = tattr_none;

    a.i = i;
    return add(b, TOP_index, &a, NULL, 0);
}

static TileRef size_of(TileBuilder *b, const char *name)
{
    TAttr a = tattr_none;

    a.name = sym(name);
    return add(b, TOP_size, &a, NULL, 0);
}

static TileRef group(TileBuilder *b, int axis)
{
    TAttr a = tattr_none;

    a.axis = (int8_t)axis;
    return add(b, TOP_group, &a, NULL, 0);
}

static TileRef view(TileBuilder *b, const char *name, DType dt, int rank, const int8_t *stride)
{
    TileType t = {.kind = TILE_VIEW, .dtype = (uint8_t)dt, .rank = (uint8_t)rank, .space = SPACE_GLOBAL};

    memcpy(t.stride, stride, (size_t)rank);
    return tile_param(b->k, sym(name), &t);
}

/* ---- products ---- */

enum { STEPS = 32, CHUNK = 256, BATCHES = 2 };

/* What a product's kernel is for. turned: elements lie side by side along the sums' axis of x, along k of y. */
typedef struct ProductKind {
    uint8_t x, y, sum;          /* DTypes */
    bool turned[2], units;
    int32_t block[3];           /* rows, columns, steps */
    int8_t inner[2];            /* how operands step along the axis on which they lie side by side: 1 or STRIDE_ANY */
} ProductKind;

static bool has_units(DType x, DType y, DType sum)
{
    bool real = x == DT_bf16 || x == DT_f16 || x == DT_fp8_e4m3 || x == DT_fp8_e5m2;

    return x == y && ((real && sum == DT_f32) || ((x == DT_int8 || x == DT_uint8) && sum == DT_int32));
}

/* Rows `row` and steps `k` of x; steps and columns of y: a tile [rows, steps] or [steps, columns]. */
static TileRef load_operand(TileBuilder *b, const ProductKind *p, int operand, TileRef from, const TileRef *batch, TileRef row, TileRef k)
{
    TAttr a = tattr_none;
    bool rows_first = (operand == 0) != p->turned[operand];
    TileRef in[5] = {from, batch[0], batch[1], rows_first ? row : k, rows_first ? k : row}, x;

    a.rank = 4;
    a.shape[0] = a.shape[1] = 1;
    a.shape[2] = rows_first ? p->block[operand] : p->block[2];
    a.shape[3] = rows_first ? p->block[2] : p->block[operand];
    a.drop = 3;
    x = add(b, TOP_load, &a, in, 5);
    if (rows_first == (operand == 0))
        return x;
    a = tattr_none;
    a.rank = 2;
    a.axes[0] = 1;
    return add(b, TOP_permute, &a, &x, 1);
}

static TileRef zeros(TileBuilder *b, const ProductKind *p)
{
    TAttr a = tattr_none;
    TileRef zero;

    a.dtype = p->sum;
    zero = add(b, TOP_const, &a, NULL, 0);
    a = tattr_none;
    a.rank = 2;
    a.shape[0] = p->block[0];
    a.shape[1] = p->block[1];
    return add(b, TOP_splat, &a, &zero, 1);
}

/* A loop along k from `lo` to `hi` whose rounds add blocks of steps to zeros. */
static TileRef sum_blocks(TileBuilder *b, const ProductKind *p, const TileRef *from, const TileRef *batch, TileRef row, TileRef column,
                          TileRef lo, TileRef hi)
{
    TileBlock *outside = b->at;
    TileRef step = number(b, p->block[2]), in[4] = {lo, hi, step, zeros(b, p)}, at, x, y, count, sum;
    TileNode *loop = in[3].node ? tile_add(b, TOP_for, NULL, in, 4) : NULL;

    if (!loop)
        return none();
    b->at = loop->region[0];
    at = (TileRef){loop->region[0]->params.at[0], 0};
    sum = (TileRef){loop->region[0]->params.at[1], 0};
    x = load_operand(b, p, 0, from[0], batch, row, at);
    y = load_operand(b, p, 1, from[1], batch, column, at);
    count = p->units ? step : add2(b, TOP_imin, step, add2(b, TOP_isub, hi, at));
    sum = add(b, TOP_dot, NULL, (TileRef[]){x, y, sum, count}, 4);
    if (!sum.node || !tile_yield(b, &sum, 1))
        return none();
    b->at = outside;
    return (TileRef){loop, 0};
}

/* Chunks one after the other: their sums are added up. */
static TileRef sum_chunks(TileBuilder *b, const ProductKind *p, const TileRef *from, const TileRef *batch, TileRef row, TileRef column)
{
    TileBlock *outside = b->at;
    TileRef k = size_of(b, "k"), zero = number(b, 0), in[4] = {zero, k, number(b, CHUNK), zeros(b, p)}, at, sum;
    TAttr a = tattr_none;
    TileNode *loop;

    if (p->units)
        return sum_blocks(b, p, from, batch, row, column, zero, k);
    loop = in[3].node ? tile_add(b, TOP_for, NULL, in, 4) : NULL;
    if (!loop)
        return none();
    b->at = loop->region[0];
    at = (TileRef){loop->region[0]->params.at[0], 0};
    sum = sum_blocks(b, p, from, batch, row, column, at, add2(b, TOP_imin, k, add2(b, TOP_iadd, at, number(b, CHUNK))));
    a.op = OP_add;
    sum = add(b, TOP_map, &a, (TileRef[]){(TileRef){loop->region[0]->params.at[1], 0}, sum}, 2);
    if (!sum.node || !tile_yield(b, &sum, 1))
        return none();
    b->at = outside;
    return (TileRef){loop, 0};
}

static bool build_product(TileBuilder *b, const void *what)
{
    const ProductKind *p = what;
    int8_t lies[3][4] = {{STRIDE_ANY, STRIDE_ANY, STRIDE_ANY, p->inner[0]}, {STRIDE_ANY, STRIDE_ANY, STRIDE_ANY, p->inner[1]},
                         {STRIDE_ANY, STRIDE_ANY, STRIDE_ANY, 1}};
    Dim b0 = tile_size(b->k, sym("b0")), b1 = tile_size(b->k, sym("b1")), m = tile_size(b->k, sym("m")), n = tile_size(b->k, sym("n"));
    TileRef from[3], batch[2], row, column, sum, place;

    tile_size(b->k, sym("k"));
    vec_push(&b->k->grid, dim_mul(b0, b1));
    vec_push(&b->k->grid, dim_cdiv(n, p->block[1]));
    vec_push(&b->k->grid, dim_cdiv(m, p->block[0]));
    from[0] = view(b, "x", (DType)p->x, 4, lies[0]);
    from[1] = view(b, "y", (DType)p->y, 4, lies[1]);
    from[2] = view(b, "sum", (DType)p->sum, 4, lies[2]);
    b->k->schedule = p->units && p->block[0] * p->block[1] >= 128 * 128 ? sym("warps=8") : p->units ? sym("warps=4") : NULL;
    place = group(b, 0);
    batch[0] = add2(b, TOP_idiv, place, size_of(b, "b1"));
    batch[1] = add2(b, TOP_imod, place, size_of(b, "b1"));
    row = add2(b, TOP_imul, group(b, 2), number(b, p->block[0]));
    column = add2(b, TOP_imul, group(b, 1), number(b, p->block[1]));
    sum = sum_chunks(b, p, from, batch, row, column);
    TAttr a = tattr_none;
    a.drop = 3;
    if (!sum.node)
        return false;
    return tile_add(b, TOP_store, &a, (TileRef[]){from[2], batch[0], batch[1], row, column, sum}, 6) != NULL;
}

/* Batches of an operand, as up to two axes that all three walk evenly. */
typedef struct Batches { int n; int64_t extent[BATCHES], step[3][BATCHES]; } Batches;

static bool find_batches(Tensor *const *t, Batches *out)
{
    const Tensor *sum = t[2];

    *out = (Batches){0};
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
    for (; out->n < BATCHES; out->n++) {
        out->extent[out->n] = 1;
        for (int i = 0; i < 3; i++)
            out->step[i][out->n] = 0;
    }
    return true;
}

static char *address(Tensor *t, int device, bool write, bool fresh)
{
    if (far_pretends)
        return far_pretended;
    GpuDevice *g = device_gpu(device);
    uint64_t at = g ? storage_on_device(t->store, g, !write ? DEVICE_READ : fresh ? DEVICE_FILL : DEVICE_UPDATE) : 0;

    return (char *)(uintptr_t)at;
}

/* Blocks for a product of this size: smaller ones where there are few, no wider than there are rows and columns. */
static void choose_blocks(ProductKind *p, int64_t batches, int64_t m, int64_t n)
{
    enum { PLACES = 132, MOST = 128, LEAST = 16 };
    int32_t most = MOST;

    p->block[0] = p->block[1] = most;
    p->block[2] = p->units ? 2 * STEPS : STEPS;
    for (int i = 0; i < 2; i++)
        while (p->block[i] > LEAST && p->block[i] / 2 >= (i ? n : m))
            p->block[i] /= 2;
    while (p->block[0] > 64 && batches * ((m + p->block[0] - 1) / p->block[0]) * ((n + p->block[1] - 1) / p->block[1]) < PLACES)
        p->block[0] /= 2;
    while (p->block[1] > 64 && batches * ((m + p->block[0] - 1) / p->block[0]) * ((n + p->block[1] - 1) / p->block[1]) < PLACES)
        p->block[1] /= 2;
}

/* The argument of an operand or of the sums: its axes as the kernel has them. */
static bool set_arg(Tensor *t, int device, int i, const ProductKind *p, const Batches *b, TileArg *arg)
{
    int r = t->rank;
    bool turned = i < 2 && p->turned[i];
    char *base = address(t, device, i == 2, i == 2);

    if (!base && tensor_nbytes(t))
        return false;
    arg->base = base + t->offset * (dtype_info[t->dtype].sbits / 8);
    for (int k = 0; k < BATCHES; k++) {
        arg->extent[k] = b->extent[BATCHES - 1 - k];
        arg->stride[k] = b->step[i][BATCHES - 1 - k];
    }
    arg->extent[2] = t->shape[r - 2 + turned];
    arg->extent[3] = t->shape[r - 1 - turned];
    arg->stride[2] = t->stride[r - 2 + turned];
    arg->stride[3] = t->stride[r - 1 - turned];
    return true;
}

static int product(int device, Tensor *x, Tensor *y, Tensor *sum, Span where)
{
    Tensor *t[3] = {x, y, sum};
    ProductKind p;
    TileArg arg[3];
    Batches b;
    int64_t sizes[5];
    FarKernel *f;

    memset(&p, 0, sizeof p);
    p.x = x->dtype, p.y = y->dtype, p.sum = sum->dtype;
    for (int i = 0; i < 2; i++)
        if (t[i]->rank < 2 || dtype_is_complex((DType)t[i]->dtype) || is_packed((DType)t[i]->dtype))
            return 0;
    if (!find_batches(t, &b))
        return 0;
    if (!tensor_size(sum))
        return 1;
    p.units = has_units((DType)p.x, (DType)p.y, (DType)p.sum);
    p.turned[0] = x->stride[x->rank - 1] != 1 && x->stride[x->rank - 2] == 1;
    p.turned[1] = y->stride[y->rank - 1] != 1 && y->stride[y->rank - 2] == 1;
    for (int i = 0; i < 2; i++)
        p.inner[i] = (int8_t)(t[i]->stride[t[i]->rank - 1 - p.turned[i]] == 1 ? 1 : STRIDE_ANY);
    sizes[0] = b.extent[1], sizes[1] = b.extent[0], sizes[2] = sum->shape[sum->rank - 2], sizes[3] = sum->shape[sum->rank - 1];
    sizes[4] = x->shape[x->rank - 1];
    choose_blocks(&p, sizes[0] * sizes[1], sizes[2], sizes[3]);
    f = kernel_for(&p, sizeof p, "product", build_product);
    if (!f->code)
        return 0;
    for (int i = 0; i < 3; i++)
        if (!set_arg(t[i], device, i, &p, &b, &arg[i]))
            return -1;
    return launcher(f->code, f->tile, device, sizes, arg, where);
}

/* ---- totals ---- */

enum { JOINED = 256 };

typedef struct JoinKind { uint8_t op, dtype; char name[6]; } JoinKind;

static TileRef map2(TileBuilder *b, OpId op, TileRef x, TileRef y)
{
    TAttr a = tattr_none;

    a.op = (uint8_t)op;
    return add(b, TOP_map, &a, (TileRef[]){x, y}, 2);
}

/* Each group joins JOINED neighbours: a lane with the one next to it, then with the one after that pair, ... */
static bool build_join(TileBuilder *b, const void *what)
{
    const JoinKind *j = what;
    int8_t one = 1;
    TileRef n, from, to, lane, at, x;
    TAttr a = tattr_none;

    vec_push(&b->k->grid, dim_cdiv(tile_size(b->k, sym("n")), JOINED));
    b->k->lanes = JOINED;
    from = view(b, "from", (DType)j->dtype, 1, &one);
    to = view(b, "to", (DType)j->dtype, 1, &one);
    n = size_of(b, "n");
    lane = add(b, TOP_lane, NULL, NULL, 0);
    at = add2(b, TOP_iadd, add2(b, TOP_imul, group(b, 0), number(b, JOINED)), lane);
    a.rank = 1;
    a.shape[0] = 1;
    a.drop = 1;
    x = add(b, TOP_load, &a, (TileRef[]){from, at}, 2);
    for (int step = 1; step < JOINED && x.node; step *= 2) {
        TileRef there = add2(b, TOP_ilt, add2(b, TOP_iadd, at, number(b, step)), n), other;
        a = tattr_none;
        other = add(b, TOP_shuffle, &a, (TileRef[]){x, add2(b, TOP_iadd, lane, number(b, step))}, 2);
        other = map2(b, tile_step_op((OpId)j->op), x, other);
        a.op = OP_where;
        x = add(b, TOP_map, &a, (TileRef[]){there, other, x}, 3);
    }
    if (!x.node)
        return false;
    TileRef first = add2(b, TOP_ieq, lane, number(b, 0));
    TileBlock *outside = b->at;
    TileNode *choice = tile_add(b, TOP_if, NULL, &first, 1);
    if (!choice)
        return false;
    b->at = choice->region[0];
    a = tattr_none;
    a.drop = 1;
    if (!tile_add(b, TOP_store, &a, (TileRef[]){to, group(b, 0), x}, 3) || !tile_yield(b, NULL, 0))
        return false;
    b->at = choice->region[1];
    if (!tile_yield(b, NULL, 0))
        return false;
    b->at = outside;
    return true;
}

static bool combine(int device, OpId reduction, Tensor *parts, Tensor *total, Span where)
{
    JoinKind j = {.op = (uint8_t)reduction, .dtype = parts->dtype};
    FarKernel *f = kernel_for(&j, sizeof j, "join", build_join);
    Tensor *from = tensor_ref(parts), *to;
    bool ok = f->code;

    for (bool last = false; ok && !last; ) {
        int64_t n = from->shape[0], left = (n + JOINED - 1) / JOINED;
        last = left == 1;
        to = last ? tensor_ref(total) : tensor_new((DType)parts->dtype, 1, &left);
        TileArg arg[2] = {{.extent = {n}, .stride = {1}}, {.extent = {left}, .stride = {1}}};
        ok = to && (arg[0].base = address(from, device, false, false)) && (arg[1].base = address(to, device, true, true));
        if (ok)
            arg[1].base = (char *)arg[1].base + to->offset * (dtype_info[to->dtype].sbits / 8);
        ok = ok && launcher(f->code, f->tile, device, &n, arg, where) > 0;
        tensor_unref(from);
        from = to;
    }
    tensor_unref(from);
    return ok;
}

/* ---- single ops ---- */

/* Sizes of operands as sizes of a graph: equal ones are the same variable, so that a body serves all that are equal likewise. */
typedef struct SizeNames { int64_t size[LAUNCH_AXES]; Dim var[LAUNCH_AXES]; int n; } SizeNames;

static Dim variable(int i)
{
    static Dim made[LAUNCH_AXES];
    char name[8] = {'s', (char)('a' + i)};

    made[i] = made[i] ? made[i] : dim_var(sym(name), 2, INT64_MAX);
    return made[i];
}

static bool name_size(SizeNames *s, int64_t size, Dim *out)
{
    int i = 0;

    *out = size;
    if (size < 2)
        return true;
    while (i < s->n && s->size[i] != size)
        i++;
    if (i == LAUNCH_AXES)
        return false;
    if (i == s->n)
        s->size[s->n++] = size;
    *out = variable(i);
    return true;
}

static GValue operand(Graph *g, const Tensor *t, SizeNames *s, bool *ok)
{
    TType type = tensor_type(t);

    for (int i = 0; i < type.rank; i++)
        *ok = *ok && name_size(s, t->shape[i], &type.shape[i]);
    return *ok ? graph_param(g, &type) : (GValue){0};
}

static bool is_total(const Node *n)
{
    bool all = op_info[n->op].family == FAM_REDUCE;

    for (int i = 0; all && i < n->type[0].rank; i++)
        all = n->type[0].shape[i] == 1;
    return all;
}

/* The body of one node; NULL: a region is not for it. */
static Graph *body_of(OpId op, const Attr *a, Tensor *const *in, int nin)
{
    Graph *g = graph_new(sym("op"));
    SizeNames s = {.n = 0};
    GValue x[3];
    StrBuf err = {0};
    bool ok = nin <= 3;
    Node *n;
    int code;

    for (int i = 0; ok && i < nin; i++)
        x[i] = operand(g, in[i], &s, &ok);
    n = ok ? graph_add(g, op, a, x, nin, (Span){0}, &err, &code) : NULL;
    sb_done(&err);
    if (n && n->nout == 1 && region_takes(n) && !region_moves(n) && (!is_total(n) || schedule_totals_as_it_is(n))) {
        graph_result(g, (GValue){n, 0});
        return g;
    }
    graph_unref(g);
    return NULL;
}

static int run_body(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *y, Tensor **out)
{
    Graph *body = body_of(op, a, in, nin);
    Attr none = attr_default();
    int n, done = body && trace_run_fused ? trace_run_fused(T, body, &none, in, nin, out, &n) : 0;

    if (body)
        graph_unref(body);
    if (done > 0) {
        out[0]->weak = y->weak;
        out[0]->policy = y->policy;
    }
    return done;
}

/* A product whose dtype is not that of its sums is rounded by a kernel of its own. */
static int run_matmul(Trace *T, int device, const Attr *a, Tensor *const *in, const TType *y, Tensor **out)
{
    DType both, accum;
    Tensor *sum;
    int done;

    if (y->rank < 2 || in[0]->rank < 2 || in[1]->rank < 2 || in[0]->weak != in[1]->weak ||
        !dtype_promote((DType)in[0]->dtype, (DType)in[1]->dtype, &both))
        return 0;
    accum = accum_dtype(a, both, (DType)y->dtype);
    if (accum != DT_f32 && accum != DT_f64 && accum != DT_int32)
        return 0;
    if (!(sum = tensor_new(accum, y->rank, y->shape)))
        return 0;
    done = product(device, in[0], in[1], sum, T->span);
    out[0] = sum;
    if (done > 0 && accum != y->dtype) {
        Attr to = attr_default();
        to.dtype = y->dtype;
        done = run_body(T, OP_convert, &to, &sum, 1, y, out);
        tensor_unref(sum);
    } else if (done <= 0) {
        tensor_unref(sum);
    } else {
        sum->weak = y->weak;
        sum->policy = y->policy;
    }
    return done;
}

static int run_far(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *y, int nout, Tensor **out)
{
    int device = device_of_operands(in, nin), was, done;

    if (!device || !device_is_far(device) || T->guarded || nout != 1)
        return 0;
    for (int i = 0; i < nin; i++)
        if (in[i]->tracer)
            return 0;
    was = device_enter(device);
    done = op == OP_matmul ? run_matmul(T, device, a, in, y, out) : run_body(T, op, a, in, nin, y, out);
    device_enter(was);
    return done;
}

/* By a conversion to the dtype that it has; one that is contiguous needs no other place, and is not asked for. */
static Tensor *copy(Trace *T, Tensor *t)
{
    TType y = tensor_type(t);
    Attr to = attr_default();
    Tensor *out;

    to.dtype = y.dtype;
    return !t->contiguous && run_body(T, OP_convert, &to, &t, 1, &y, &out) > 0 ? out : NULL;
}

char *far_address(Tensor *t, int device, bool write, bool fresh) { return address(t, device, write, fresh); }

int far_launch(const FarKernel *f, int device, const int64_t *sizes, const TileArg *args)
{
    return launcher(f->code, f->tile, device, sizes, args, (Span){0});
}

static const FusedFar far = {.address = address, .product = product, .copy = copy, .combine = combine};
static FusedFar offered;

void far_begin(const KernelCompiler *c, FarLaunch *launch)
{
    compiler = c;
    launcher = launch;
    offered = far;
    offered.compiler = c;
    offered.launch = launch;
    fused_far = c ? &offered : NULL;
    trace_run_far = c ? run_far : NULL;
    far_moves = c ? &far_moves_made : NULL;
}

FarWay far_way(void) { return (FarWay){compiler, launcher, storage_far, far_pretends, far_made_for}; }
