/*
 * What runs on GPUs: kernels by what they are for, totals, and single ops as bodies of one node; products are in far_product.c.
 */
#include "ir/schedule/far_impl.h"

#include "ir/schedule/fused_impl.h"
#include "ir/schedule/recording.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "runtime/cuda.h"
#include "runtime/far_moves.h"
#include "runtime/gpu_device.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

#include <stdarg.h>
#include <string.h>

static const KernelCompiler *compiler;
FarLaunch *far_launcher;

/* ---- kernels by name ---- */

static Map kernels;             /* hash of what it is for, and of who makes its code -> FarKernel *, to the end of the process */

uint64_t far_key(const void *what, size_t n)
{
    uint64_t by[2] = {hash_bytes64(what, n), (uintptr_t)compiler};

    return hash_bytes64(by, sizeof by) | 1;
}

FarKernel *far_known(uint64_t key)
{
    uintptr_t at;

    return map_find(&kernels, key, &at) ? (FarKernel *)at : NULL;
}

FarKernel *far_made(uint64_t key, TileKernel *tile)
{
    FarKernel *f = tsr_calloc(sizeof *f);
    StrBuf err = {0};

    f->tile = tile;
    if (tile) {
        tile_fold(tile);
        f->code = compiler->compile(tile, &err);
    }
    sb_done(&err);
    map_set(&kernels, key, (uintptr_t)f);
    return f;
}

FarKernel *far_kernel_for(const void *what, size_t n, const char *name, FarBuild *build)
{
    uint64_t key = far_key(what, n);
    FarKernel *f = far_known(key);
    StrBuf err = {0};
    TileBuilder b;

    if (f)
        return f;
    b = (TileBuilder){.k = tile_kernel_new(sym(name)), .err = &err};
    b.at = &b.k->body;
    if (!build(&b, what)) {
        tile_kernel_free(b.k);
        b.k = NULL;
    }
    sb_done(&err);
    return far_made(key, b.k);
}

FarKernel *far_read(uint64_t key, const char *text)
{
    StrBuf err = {0};
    TileKernel *tile = tile_parse(text, strlen(text), &err);

    if (!tile)
        tsr_bug("a kernel for GPUs cannot be read: %s", sb_str(&err));
    sb_done(&err);
    return far_made(key, tile);
}

FarKernel *far_kernel(const char *text)
{
    uint64_t key = far_key(text, strlen(text));
    FarKernel *f = far_known(key);

    return f ? f : far_read(key, text);
}

FarKernel *far_kernel_of(const char *format, ...)
{
    StrBuf text = {0};
    FarKernel *f;
    va_list ap;

    va_start(ap, format);
    sb_vprintf(&text, format, ap);
    va_end(ap);
    f = far_kernel(sb_str(&text));
    sb_done(&text);
    return f;
}

/* ---- building ---- */

TileRef far_view(TileBuilder *b, const char *name, DType dt, int rank, const int8_t *stride)
{
    TileType t = {.kind = TILE_VIEW, .dtype = (uint8_t)dt, .rank = (uint8_t)rank, .space = SPACE_GLOBAL};

    memcpy(t.stride, stride, (size_t)rank);
    return tile_param(b->k, sym(name), &t);
}

char *far_address(Tensor *t, int device, bool write, bool fresh)
{
    if (far_pretends)
        return far_pretended;
    GpuDevice *g = device_gpu(device);
    uint64_t at = g ? storage_on_device(t->store, g, !write ? DEVICE_READ : fresh ? DEVICE_FILL : DEVICE_UPDATE) : 0;

    return (char *)(uintptr_t)at;
}

char *far_element(Tensor *t, int device, int64_t at, bool write, bool fresh)
{
    char *base = far_address(t, device, write, fresh);

    return base ? base + at * (dtype_info[t->dtype].sbits / 8) : NULL;
}

/* ---- totals ---- */

enum { JOINED = 256 };

typedef struct JoinKind { uint8_t op, dtype; char name[6]; } JoinKind;

static TileRef map2(TileBuilder *b, OpId op, TileRef x, TileRef y)
{
    TAttr a = tattr_none;

    a.op = (uint8_t)op;
    return build_add(b, TOP_map, &a, (TileRef[]){x, y}, 2);
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
    from = far_view(b, "from", (DType)j->dtype, 1, &one);
    to = far_view(b, "to", (DType)j->dtype, 1, &one);
    n = build_size(b, "n");
    lane = build_add(b, TOP_lane, NULL, NULL, 0);
    at = build_add2(b, TOP_iadd, build_times(b, build_group(b, 0), JOINED), lane);
    a.rank = 1;
    a.shape[0] = 1;
    a.drop = 1;
    x = build_add(b, TOP_load, &a, (TileRef[]){from, at}, 2);
    for (int step = 1; step < JOINED && x.node; step *= 2) {
        TileRef there = build_add2(b, TOP_ilt, build_add2(b, TOP_iadd, at, build_number(b, step)), n), other;
        a = tattr_none;
        other = build_add(b, TOP_shuffle, &a, (TileRef[]){x, build_add2(b, TOP_iadd, lane, build_number(b, step))}, 2);
        other = map2(b, tile_step_op((OpId)j->op), x, other);
        a.op = OP_where;
        x = build_add(b, TOP_map, &a, (TileRef[]){there, other, x}, 3);
    }
    if (!x.node)
        return false;
    TileRef first = build_add2(b, TOP_ieq, lane, build_number(b, 0));
    TileBlock *outside = b->at;
    TileNode *choice = tile_add(b, TOP_if, NULL, &first, 1);
    if (!choice)
        return false;
    b->at = choice->region[0];
    a = tattr_none;
    a.drop = 1;
    if (!tile_add(b, TOP_store, &a, (TileRef[]){to, build_group(b, 0), x}, 3) || !tile_yield(b, NULL, 0))
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
    FarKernel *f = far_kernel_for(&j, sizeof j, "join", build_join);
    Tensor *from = tensor_ref(parts), *to;
    bool ok = f->code;

    for (bool last = false; ok && !last; ) {
        int64_t n = from->shape[0], left = (n + JOINED - 1) / JOINED;
        last = left == 1;
        to = last ? tensor_ref(total) : tensor_new((DType)parts->dtype, 1, &left);
        TileArg arg[2] = {{.extent = {n}, .stride = {1}}, {.extent = {left}, .stride = {1}}};
        ok = to && (arg[0].base = far_address(from, device, false, false)) && (arg[1].base = far_element(to, device, to->offset, true, true));
        ok = ok && far_launcher(f->code, f->tile, device, &n, arg, where) > 0;
        tensor_unref(from);
        from = to;
    }
    tensor_unref(from);
    return ok;
}

/* ---- single ops ---- */

enum { BODY_OPERANDS = 3, BODIES = 1 << 14 };

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

/* A total that is rounded once: of the elements as the accumulator has them; the caller rounds it. */
static Graph *widened_total(OpId op, const Attr *a, Tensor *const *in, DType accum)
{
    Graph *g = graph_new(sym("op"));
    SizeNames s = {.n = 0};
    StrBuf err = {0};
    Attr to = attr_default();
    bool ok = true;
    GValue x = operand(g, in[0], &s, &ok);
    Node *n;
    int code;

    to.dtype = accum;
    n = graph_add(g, OP_convert, &to, &x, 1, (Span){0}, &err, &code);
    n = n ? graph_add(g, op, a, &(GValue){n, 0}, 1, (Span){0}, &err, &code) : NULL;
    if (n)
        graph_result(g, (GValue){n, 0});
    sb_done(&err);
    if (n)
        return g;
    graph_unref(g);
    return NULL;
}

/* Makes the body of one node; NULL: a region is not for it. */
static Graph *make_body(OpId op, const Attr *a, Tensor *const *in, int nin)
{
    Graph *g = graph_new(sym("op"));
    SizeNames s = {.n = 0};
    GValue x[BODY_OPERANDS];
    StrBuf err = {0};
    bool ok = nin <= BODY_OPERANDS;
    Node *n;
    int code;

    for (int i = 0; ok && i < nin; i++)
        x[i] = operand(g, in[i], &s, &ok);
    n = ok ? graph_add(g, op, a, x, nin, (Span){0}, &err, &code) : NULL;
    sb_done(&err);
    if (n && n->nout == 1 && region_takes(n) && is_total(n) && !schedule_totals_as_it_is(n)) {
        DType accum = accum_dtype(n->attr, (DType)in[0]->dtype, (DType)n->type[0].dtype);
        bool widens = in[0]->dtype == n->type[0].dtype && op != OP_argmax && op != OP_argmin;        /* places: far_extreme.c */
        graph_unref(g);
        return widens ? widened_total(op, a, in, accum) : NULL;
    }
    if (n && n->nout == 1 && region_takes(n) && !region_moves(n) && !region_looks_up(n) && (!is_total(n) || schedule_totals_as_it_is(n))) {
        graph_result(g, (GValue){n, 0});
        return g;
    }
    graph_unref(g);
    return NULL;
}

/* What a body depends on: ops of the same text have the same one. */
static bool body_key(OpId op, const Attr *a, Tensor *const *in, int nin, StrBuf *key)
{
    SizeNames s = {.n = 0};

    if (nin > BODY_OPERANDS)
        return false;
    sb_putc(key, (char)op);
    attr_print(op, a, key);
    for (int i = 0; i < nin; i++) {
        sb_printf(key, "|%d%d%d", in[i]->dtype, in[i]->weak, in[i]->policy ? 1 : 0);
        for (int k = 0; k < in[i]->rank; k++) {
            Dim size;
            if (!name_size(&s, in[i]->shape[k], &size))
                return false;
            sb_printf(key, ",%lld", (long long)size);
        }
    }
    return true;
}

/* Bodies are kept to the end of the process, as many as fit; *kept: this one is. */
static Graph *body_of(OpId op, const Attr *a, Tensor *const *in, int nin, bool *kept)
{
    static Map bodies;          /* hash of the key -> Graph *; NULL: a region is not for it */
    static int n;
    StrBuf key = {0};
    Graph *g = NULL;
    uint64_t hash;
    uintptr_t at;

    *kept = false;
    if (!body_key(op, a, in, nin, &key)) {
        sb_done(&key);
        return NULL;
    }
    hash = hash_bytes64(key.s, key.n) | 1;
    sb_done(&key);
    if ((*kept = map_find(&bodies, hash, &at)))
        return (Graph *)at;
    g = make_body(op, a, in, nin);
    if ((*kept = n < BODIES)) {
        map_set(&bodies, hash, (uintptr_t)g);
        n++;
    }
    return g;
}

int far_body(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *y, Tensor **out)
{
    bool kept;
    Graph *body = body_of(op, a, in, nin, &kept);
    Attr none = attr_default();
    int n, done = body && trace_run_fused ? trace_run_fused(T, body, &none, in, nin, out, &n) : 0;

    if (body && !kept)
        graph_unref(body);
    if (done > 0 && out[0]->dtype != y->dtype) {        /* a total in its accumulator */
        Tensor *sum = out[0];
        Attr to = attr_default();
        to.dtype = y->dtype;
        done = far_body(T, OP_convert, &to, &sum, 1, y, out);
        tensor_unref(sum);
    } else if (done > 0) {
        out[0]->weak = y->weak;
        out[0]->policy = y->policy;
    }
    return done;
}

/* Is no int of t 0, as far as one element, or a look by the GPU, tells? */
static bool has_no_zero(Trace *T, Tensor *t)
{
    TType flags = tensor_type(t), flag = {.dtype = DT_bool};
    Attr a = attr_default(), axes = attr_default();
    Tensor *zero, *is = NULL, *any = NULL;
    bool none;

    if (far_pretends)
        return true;
    if (recording_writing() && recording_varies(t->store))
        recording_spoil("a divisor is looked at");
    if (tensor_size(t) == 1)
        return elem_get_i(t, t->offset) != 0;
    flags.dtype = DT_bool;
    for (; axes.naxes < t->rank; axes.naxes++)
        axes.axis[axes.naxes] = (int8_t)(axes.naxes - t->rank);
    zero = tensor_scalar_i((DType)t->dtype, 0);
    none = zero && far_body(T, OP_eq, &a, (Tensor *[]){t, zero}, 2, &flags, &is) > 0 && far_body(T, OP_any, &axes, &is, 1, &flag, &any) > 0 &&
           !elem_get_i(any, any->offset) && !fault_kept;
    tensor_unref(zero);
    tensor_unref(is);
    tensor_unref(any);
    return none;
}

/* Of ints, where no divisor is 0: of others the host tells. */
static int run_division(Trace *T, OpId op, const Attr *a, Tensor *const *in, const TType *y, Tensor **out)
{
    Attr known = *a;

    if (dtype_is_inexact((DType)y->dtype))
        return far_body(T, op, a, in, 2, y, out);
    known.i = 1;
    return tensor_size(in[1]) && has_no_zero(T, in[1]) ? far_body(T, op, &known, in, 2, y, out) : 0;
}

/* An operand with all of the result's batch axes as one: [batches, rows, columns], copied only where it has to be. NULL: there is no memory. */
static Tensor *one_batch_axis(Tensor *t, const TType *y)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX], flat[3] = {1, t->shape[t->rank - 2], t->shape[t->rank - 1]}, step[3];
    Tensor *all, *lies, *one;

    for (int i = 0; i < y->rank; i++) {
        int own = i - y->rank + t->rank;
        bool still = own < 0 || (i < y->rank - 2 && t->shape[own] == 1);
        shape[i] = i < y->rank - 2 ? y->shape[i] : t->shape[own];
        stride[i] = still ? 0 : t->stride[own];
        flat[0] *= i < y->rank - 2 ? y->shape[i] : 1;
    }
    all = tensor_view(t, y->rank, shape, stride, t->offset);
    lies = reshape_strides(all, 3, flat, step) ? tensor_ref(all) : tensor_contiguous(all);
    one = lies && reshape_strides(lies, 3, flat, step) ? tensor_view(lies, 3, flat, step, lies->offset) : NULL;
    tensor_unref(all);
    tensor_unref(lies);
    return one;
}

/* Products of more batch axes than kernels have. */
static int product_of_batches(int device, Tensor *const *in, const TType *y, Tensor *out, DType accum, int slack, Span where)
{
    Tensor *a = one_batch_axis(in[0], y), *b = one_batch_axis(in[1], y), *z = one_batch_axis(out, y);
    int done = a && b && z ? far_product(device, a, b, z, accum, slack, where) : 0;

    tensor_unref(a);
    tensor_unref(b);
    tensor_unref(z);
    return done;
}

static int run_matmul(Trace *T, int device, const Attr *a, Tensor *const *in, const TType *y, Tensor **out)
{
    DType both, accum;
    int done;

    if (y->rank < 2 || in[0]->rank < 2 || in[1]->rank < 2 || in[0]->weak != in[1]->weak ||
        !dtype_promote((DType)in[0]->dtype, (DType)in[1]->dtype, &both))
        return 0;
    accum = accum_dtype(a, both, (DType)y->dtype);
    if (accum != DT_f32 && accum != DT_f64 && accum != DT_int32)
        return 0;
    if (!(out[0] = tensor_new((DType)y->dtype, y->rank, y->shape)))
        return 0;
    done = far_product(device, in[0], in[1], out[0], accum, product_slack(a), T->span);
    if (!done && y->rank > 4)
        done = product_of_batches(device, in, y, out[0], accum, product_slack(a), T->span);
    if (done <= 0)
        tensor_unref(out[0]);
    else {
        out[0]->weak = y->weak;
        out[0]->policy = y->policy;
    }
    return done;
}

static int run_far(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *y, int nout, Tensor **out)
{
    int device = device_of_operands(in, nin), was, done;

    device = op == OP_random && !device ? device_now : device;          /* its keys are anywhere */
    if (!device || !device_is_far(device) || T->guarded || nout != 1)
        return 0;
    for (int i = 0; i < nin; i++)
        if (in[i]->tracer)
            return 0;
    was = device_enter(device);
    switch (op) {
    case OP_matmul: done = run_matmul(T, device, a, in, y, out); break;
    case OP_conv: done = far_conv(T, a, in, y, out); break;
    case OP_floordiv: case OP_mod: done = run_division(T, op, a, in, y, out); break;
    case OP_random: done = far_random(T, device, a, in[0], y, out); break;
    default: done = op_info[op].family == FAM_REDUCE ? far_reduce(T, op, a, in, y, out) : far_body(T, op, a, in, nin, y, out);
    }
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
    return !t->contiguous && far_body(T, OP_convert, &to, &t, 1, &y, &out) > 0 ? out : NULL;
}

int far_launch(const FarKernel *f, int device, const int64_t *sizes, const TileArg *args)
{
    return far_launcher(f->code, f->tile, device, sizes, args, far_moves_where);
}

static int product(int device, Tensor *x, Tensor *y, Tensor *sum, const Attr *a, Span where)
{
    return far_product(device, x, y, sum, (DType)sum->dtype, product_slack(a), where);
}

static const FusedFar far = {.address = far_address, .product = product, .blocks = far_blocks, .copy = copy, .combine = combine};
static FusedFar offered;

void far_begin(const KernelCompiler *c, FarLaunch *launch)
{
    compiler = c;
    far_launcher = launch;
    offered = far;
    offered.compiler = c;
    offered.launch = launch;
    fused_far = c ? &offered : NULL;
    trace_run_far = c ? run_far : NULL;
    trace_rounds = c ? product_rounds : NULL;
    far_moves = c ? &far_moves_made : NULL;
}

FarWay far_way(void) { return (FarWay){compiler, far_launcher, storage_far, far_pretends, far_made_for}; }
