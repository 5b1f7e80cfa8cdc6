/*
 * Walks: a cluster as loops over its shape, innermost over vectors.
 *
 * A tile that several sinks use is computed once a strip; one that is used
 * again after the cluster gets a buffer from it.  How far all accesses lie
 * within their views is asked once for each walk: so far nothing is masked, and the
 * rest is, up to where nothing is stored any more.  Strips of long formulas are several
 * vectors, which do not wait for each other, where nothing is masked.  What begins and ends sums is the same for both.
 */
#include "codegen/gpu_impl.h"

enum { CHUNK_LANES = 8 };               /* of R4 of docs/numerics.md */

/* ---- the shape of the walk ---- */

static void widen(size_t *most, bool *scalar, const TileType *t)
{
    size_t size = raw_size(lane_dtype((DType)t->dtype));

    if (t->kind != TILE_VALUE)
        return;
    *scalar |= dtype_is_complex((DType)t->dtype);
    *most = size > *most ? size : *most;
}

/* Instructions of an element. */
int cpu_cluster_cost(const Cluster *c)
{
    int cost = 0;

    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        cost += n->op == TOP_map && n->attr->op != OP_convert ? formula_cost((OpId)n->attr->op, tile_map_dtype((OpId)n->attr->op, n->in)) : 2;
    }
    return cost;
}

enum {
    CHEAP = 24,             /* instructions of an element, above which it is long chains of them that a strip waits for */
    LONG = 200,             /* above which vectors side by side would not stay in registers */
    MANY_REGISTERS = 64,    /* bytes of a vector: machines with such have 32 of them, others 16 */
};

static void choose_width(CpuCode *e, Cluster *c)
{
    size_t most = 1;
    bool scalar = false, few;
    int cost = cpu_cluster_cost(c), width, panel = LANES_MAX;

    for (int i = 0; i < c->sinks.n; i++) {
        panel = c->sinks.at[i].panel ? c->sinks.at[i].panel : panel;
        widen(&most, &scalar, tile_type(c->sinks.at[i].v));
        scalar |= c->sinks.at[i].node && c->sinks.at[i].node->op == TOP_atomic;
    }
    for (int i = 0; i < c->nodes.n; i++) {
        widen(&most, &scalar, &c->nodes.at[i]->type[0]);
        for (int k = 0; k < c->nodes.at[i]->nin; k++)
            widen(&most, &scalar, tile_type(c->nodes.at[i]->in[k]));
    }
    if (!c->rank)                               /* a scalar: as a row of one */
        c->shape[0] = 1;
    for (c->strip = c->rank ? c->rank - 1 : 0; c->strip > 0 && c->shape[c->strip] == 1; )
        c->strip--;
    width = e->u->machine->vector_bytes / (int)most;
    while (width > 1 && (width / 2 >= c->shape[c->strip] || width > panel))
        width /= 2;
    if (c->axis == c->strip && width < CHUNK_LANES)
        width = CHUNK_LANES;
    c->masked_width = c->plain_width = scalar ? 1 : width;
    few = cost > LONG || e->u->machine->vector_bytes < MANY_REGISTERS;
    for (int side = few ? 2 : 4; side > 1 && cost > CHEAP && !scalar && c->plain_width == width; side /= 2)
        if (c->shape[c->strip] % (width * side) == 0 && width * side <= panel)
            c->plain_width = width * side;
    c->width = c->plain_width;
}

/* How many rows to sum side by side. */
static int rows_at_once(const Cluster *c)
{
    int rows = SUMS_MAX;

    if (!(c->axis == c->strip && c->width > 1) || c->rank < 2 || c->strip == 0 || cpu_cluster_cost(c) > CHEAP)
        return 1;
    while (c->shape[c->strip - 1] % rows)
        rows--;
    return rows;
}

/* Reductions in lanes of a vector; else the lanes wait in memory, chosen by the place along the axis. */
static bool along_strip(const Cluster *c) { return c->axis == c->strip && c->width > 1; }

/* ---- what is masked ---- */

/* One axis of a walk is divided: that of its strips, or that of sums in memory. */
static bool in_memory(const Cluster *c) { return c->axis >= 0 && !along_strip(c); }
static int divided_axis(const Cluster *c) { return in_memory(c) ? c->axis : c->strip; }

static LLVMValueRef extreme(CpuCode *e, const char *which, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->u->context);

    if (a && LLVMIsAConstantInt(a) && LLVMIsAConstantInt(b))
        return (LLVMConstIntGetSExtValue(a) < LLVMConstIntGetSExtValue(b)) == !strcmp(which, "llvm.smin") ? a : b;
    return a ? cpu_intrinsic(e, which, &i64, 1, (LLVMValueRef[]){a, b}, 2) : b;
}

/* The axis of the load's view that is the tile's axis. */
static int view_axis(const TileNode *load, int axis)
{
    int at = 0;

    while (load->attr->drop >> at & 1 || axis--)
        at++;
    return at;
}

/* Is the load's element at each place of the walk the one that is taken there? */
static bool lies_along(CpuCode *e, const Cluster *c, const TileNode *load, int axis)
{
    if (!c->rank || load->type[0].rank != c->rank || load->type[0].extent[axis] != c->shape[axis])
        return false;
    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        if ((n->op == TOP_permute || n->op == TOP_reshape) && cpu_in_tree(e, (TileRef){(TileNode *)n, 0}, load))
            return false;
    }
    return true;
}

static LLVMValueRef and_also(CpuCode *e, LLVMValueRef a, LLVMValueRef b) { return a ? LLVMBuildAnd(e->u->builder, a, b, "") : b; }

static bool is_whole_store(const Cluster *c, const Sink *s) { return c->rank && s->node && s->node->op == TOP_store && !s->node->attr->drop; }

/* Where the other axes end for all stores: what lies beyond nobody sees, unless something else than a store does. */
static void find_outer(CpuCode *e, const Cluster *c, Ends *y)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (!is_whole_store(c, &c->sinks.at[i]))
            return;
    for (int a = 0; a < c->rank && !e->gpu; a++) {
        LLVMValueRef last = NULL;
        for (int i = 0; i < c->sinks.n && a != divided_axis(c) && c->shape[a] > 1; i++)
            last = extreme(e, "llvm.smax", last, cpu_room(e, c->sinks.at[i].node, a));
        if (last)
            y->outer[a] = extreme(e, "llvm.smin", extreme(e, "llvm.smax", last, cpu_number(e, 0)), cpu_number(e, c->shape[a]));
    }
}

/* The ends that count for a load: those of axes along which it moves with the walk. */
static const LLVMValueRef *ends_along(CpuCode *e, const Cluster *c, const TileNode *load, const Ends *y, LLVMValueRef *room)
{
    memset(room, 0, sizeof *room * TILE_RANK_MAX);
    for (int a = 0; a < TILE_RANK_MAX; a++)
        if (y->outer[a] && lies_along(e, c, load, a))
            room[view_axis(load, a)] = y->outer[a];
    return room;
}

/* Where the divided axis ends for each access: `plain` before the first of them, if elsewhere all is within bounds. */
Ends cpu_find_ends(CpuCode *e, const Cluster *c)
{
    int axis = divided_axis(c);
    LLVMValueRef whole = cpu_number(e, c->shape[axis]), first = NULL, last = NULL, rest = NULL, some[TILE_RANK_MAX];
    bool seen_all = false;
    Ends y = {0};

    find_outer(e, c, &y);

    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        int along = cpu_reads(n) && lies_along(e, c, n, axis) ? view_axis(n, axis) : -1;
        if (!cpu_reads(n))
            continue;
        rest = cpu_fits(e, n, along, ends_along(e, c, n, &y, some), rest);
        if (along >= 0 && !(along == 0 && n->op == TOP_gather))
            first = extreme(e, "llvm.smin", first, cpu_room(e, n, along));
    }
    for (int i = 0; i < c->sinks.n; i++) {
        const Sink *s = &c->sinks.at[i];
        bool stores = s->node && (s->node->op == TOP_store || s->node->op == TOP_atomic), sums = s->node && s->node->op == TOP_reduce;
        int along = stores && c->rank && !s->node->attr->drop ? axis : -1;
        LLVMValueRef room = along >= 0 ? cpu_room(e, s->node, along) : sums && c->axis == axis ? s->count : NULL;
        rest = stores ? cpu_fits(e, s->node, along, y.outer, rest) : rest;
        if (sums && c->axis != axis)
            rest = and_also(e, rest, cpu_compare(e, LLVMIntSGE, s->count, cpu_number(e, c->shape[c->axis])));
        if (room) {
            first = extreme(e, "llvm.smin", first, room);
            last = extreme(e, "llvm.smax", last, room);
        }
        seen_all |= !room;
    }
    y.plain = first ? extreme(e, "llvm.smax", extreme(e, "llvm.smin", first, whole), cpu_number(e, 0)) : whole;
    y.end = whole;
    if (rest)
        y.plain = cpu_choose(e, rest, y.plain, cpu_number(e, 0));
    if (axis != c->strip && c->shape[c->strip] % c->plain_width)
        y.plain = cpu_number(e, 0);
    if (axis == c->strip)
        y.plain = cpu_op(e, LLVMSub, y.plain, cpu_op(e, LLVMURem, y.plain, cpu_number(e, c->plain_width)));
    if (last && !seen_all)
        y.end = extreme(e, "llvm.smin", last, whole);
    return y;
}

/* ---- sinks in a strip ---- */

/* The lanes of a strip that are in the shape; NULL: all. */
static LLVMValueRef strip_mask(CpuCode *e, const Cluster *c)
{
    if (c->shape[c->strip] % c->width == 0)
        return NULL;
    return cpu_lane_mask(e, e->spot.at[c->strip], cpu_number(e, c->shape[c->strip]), true, NULL);
}

LLVMValueRef cpu_part_of(CpuCode *e, LLVMValueRef x, int from, int n)
{
    LLVMValueRef pick[LANES_MAX];

    for (int i = 0; i < n; i++)
        pick[i] = LLVMConstInt(LLVMInt32TypeInContext(e->u->context), (unsigned)(from + i), false);
    if (n == 1)
        return LLVMBuildExtractElement(e->u->builder, x, pick[0], "");
    return LLVMBuildShuffleVector(e->u->builder, x, LLVMGetPoison(LLVMTypeOf(x)), LLVMConstVector(pick, (unsigned)n), "");
}

/* Lanes of a sum along the strip: 8, whose order counts, or as many as there are where it does not, or nobody minds. */
static int sum_lanes(const Cluster *c, const Sink *s)
{
    DType dt = (DType)tile_type(s->v)->dtype;
    bool ordered = (s->node->attr->op == OP_sum || s->node->attr->op == OP_prod) && dtype_is_inexact(dt) && !s->node->attr->fast;

    return ordered ? CHUNK_LANES : c->masked_width;
}

static LLVMTypeRef acc_type(CpuCode *e, const Cluster *c, const Sink *s)
{
    return lane_type(e->u, (DType)tile_type(s->v)->dtype, sum_lanes(c, s));
}

/* Elements of one lane of the sums in memory: all strips of a row. */
static int64_t lane_row(const Cluster *c)
{
    return c->axis == c->strip ? 1 : (c->shape[c->strip] + c->plain_width - 1) / c->plain_width * (int64_t)c->plain_width;
}

/* Where in memory a lane has the sums of the strip at hand. */
static LLVMValueRef acc_at(CpuCode *e, const Cluster *c, LLVMValueRef lane)
{
    LLVMValueRef row = cpu_op(e, LLVMMul, lane, cpu_number(e, lane_row(c)));

    return c->axis == c->strip ? row : cpu_op(e, LLVMAdd, row, e->spot.at[c->strip]);
}

static void make_acc(CpuCode *e, const Cluster *c, Sink *s)
{
    for (int i = 0; along_strip(c) && i < c->rows; i++)
        s->acc[i] = llvm_slot(e->u, acc_type(e, c, s));
    if (!along_strip(c))
        s->acc[0] = cpu_buffer(e, CHUNK_LANES * lane_row(c) * (int64_t)raw_size(lane_dtype((DType)tile_type(s->v)->dtype)));
}

static void begin_sums(CpuCode *e, Cluster *c)
{
    for (int i = 0; i < c->sinks.n; i++) {
        Sink *s = &c->sinks.at[i];
        DType dt = (DType)tile_type(s->v)->dtype;
        if (!s->node || s->node->op != TOP_reduce)
            continue;
        if (along_strip(c)) {
            LLVMBuildStore(e->u->builder, cpu_identity(e, (OpId)s->node->attr->op, dt, sum_lanes(c, s)), s->acc[c->row]);
            continue;
        }
        for (int l = 0; l < CHUNK_LANES; l++)
            cpu_store_flat(e, dt, s->acc[0], acc_at(e, c, cpu_number(e, l)), cpu_identity(e, (OpId)s->node->attr->op, dt, c->width), NULL);
    }
}

static void sum_strip(CpuCode *e, Cluster *c, Sink *s)
{
    DType dt = (DType)tile_type(s->v)->dtype;
    OpId step = tile_step_op((OpId)s->node->attr->op);
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef x = cpu_lanes(e, s->v, &e->spot), mask = strip_mask(e, c), acc, at;

    if (e->masked) {
        LLVMValueRef taken;
        at = e->spot.at[c->axis];
        if (along_strip(c) && tile_factor(s->node->in[1]) % c->width)
            taken = cpu_lane_mask(e, at, s->count, true, NULL);
        else
            taken = lane_splat(e->u, cpu_compare(e, LLVMIntSLT, at, s->count), c->width);
        mask = mask ? LLVMBuildAnd(b, mask, taken, "") : taken;
        x = cpu_choose(e, mask, x, cpu_identity(e, (OpId)s->node->attr->op, dt, c->width));
    }
    if (!along_strip(c)) {
        at = acc_at(e, c, cpu_op(e, LLVMAnd, e->spot.at[c->axis], cpu_number(e, CHUNK_LANES - 1)));
        acc = cpu_load_flat(e, dt, s->acc[0], at, 1);
        cpu_store_flat(e, dt, s->acc[0], at, cpu_step(e, step, dt, acc, x, c->width), NULL);
        return;
    }
    int n = sum_lanes(c, s);
    acc = LLVMBuildLoad2(b, acc_type(e, c, s), s->acc[c->row], "");
    for (int i = 0; i < c->width; i += n)
        acc = cpu_step(e, step, dt, acc, c->width == n ? x : cpu_part_of(e, x, i, n), n);
    LLVMBuildStore(b, acc, s->acc[c->row]);
}

/* ((0+4)+(2+6))+((1+5)+(3+7)) */
static LLVMValueRef fold_lanes(CpuCode *e, const Cluster *c, const Sink *s)
{
    DType dt = (DType)tile_type(s->v)->dtype;
    OpId step = tile_step_op((OpId)s->node->attr->op);
    LLVMValueRef x[CHUNK_LANES], all;

    if (along_strip(c)) {
        all = LLVMBuildLoad2(e->u->builder, acc_type(e, c, s), s->acc[c->row], "");
        for (int n = sum_lanes(c, s) / 2; n; n /= 2)
            all = cpu_step(e, step, dt, cpu_part_of(e, all, 0, n), cpu_part_of(e, all, n, n), n);
        return all;
    }
    for (int l = 0; l < CHUNK_LANES; l++)
        x[l] = cpu_load_flat(e, dt, s->acc[0], acc_at(e, c, cpu_number(e, l)), 1);
    for (int n = CHUNK_LANES / 2; n; n /= 2)
        for (int l = 0; l < n; l++)
            x[l] = cpu_step(e, step, dt, x[l], x[l + n], c->width);
    return x[0];
}

static void end_sums(CpuCode *e, Cluster *c)
{
    int width = e->width, stride;

    for (int i = 0; i < c->sinks.n; i++) {
        Sink *s = &c->sinks.at[i];
        Spot p = {.strip = -1};
        int k = 0;
        if (!s->node || s->node->op != TOP_reduce)
            continue;
        for (int a = 0; a < c->rank; a++)
            if (a != c->axis)
                p.at[k++] = e->spot.at[a];
        e->width = along_strip(c) ? 1 : c->width;
        LLVMValueRef at = cpu_flat(e, &s->node->type[0], &p, &stride), mask = along_strip(c) || c->axis == c->strip ? NULL : strip_mask(e, c);
        cpu_store_flat(e, (DType)s->node->type[0].dtype, s->buffer, at, fold_lanes(e, c, s), mask);
        e->width = width;
    }
}

/* The value joins the subtrees that its coming completes, then waits in their place. */
static void push_strip(CpuCode *e, Cluster *c, Sink *s)
{
    const TileType *t = tile_type(s->v);
    DType dt = (DType)t->dtype;
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef wait = cpu_val(e, s->node->in[0])->x, v = cpu_lanes(e, s->v, &e->spot), phi, level, joined;
    int stride;
    LLVMValueRef at = cpu_flat(e, t, &e->spot, &stride), size = cpu_number(e, cpu_level_elements(e, t));
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b);
    CpuLoop l = cpu_loop(e, cpu_number(e, 1), cpu_op(e, LLVMAdd, s->joins, cpu_number(e, 1)), cpu_number(e, 1));

    LLVMPositionBuilder(b, l.head, LLVMGetNextInstruction(l.i));
    phi = LLVMBuildPhi(b, LLVMTypeOf(v), "");
    LLVMAddIncoming(phi, &v, &from, 1);
    LLVMPositionBuilderAtEnd(b, l.body);
    level = cpu_op(e, LLVMMul, cpu_op(e, LLVMSub, s->depth, l.i), size);
    joined = cpu_step(e, tile_step_op((OpId)s->node->type[0].op), dt, cpu_load_flat(e, dt, wait, cpu_op(e, LLVMAdd, level, at), 1), phi, c->width);
    from = LLVMGetInsertBlock(b);
    LLVMAddIncoming(phi, &joined, &from, 1);
    cpu_loop_end(e, &l);
    level = cpu_op(e, LLVMMul, cpu_op(e, LLVMSub, s->depth, s->joins), size);
    cpu_store_flat(e, dt, wait, cpu_op(e, LLVMAdd, level, at), phi, strip_mask(e, c));
}

void cpu_sink_strip(CpuCode *e, Cluster *c, Sink *s)
{
    int stride;

    if (s->stage) {
        gpu_stage_strip(e, s);
        return;
    }
    if (!s->node) {
        LLVMValueRef lanes = cpu_lanes(e, s->v, &e->spot), at;
        at = s->panel ? cpu_packed_at(e, tile_type(s->v), &e->spot, s->panel) : cpu_flat(e, tile_type(s->v), &e->spot, &stride);
        cpu_store_flat(e, (DType)tile_type(s->v)->dtype, s->buffer, at, lanes, strip_mask(e, c));
        return;
    }
    switch (s->node->op) {
    case TOP_store: cpu_store(e, s->node, s->v, &e->spot); break;
    case TOP_atomic: cpu_atomic(e, s->node, s->v, &e->spot); break;
    case TOP_reduce: sum_strip(e, c, s); break;
    default: push_strip(e, c, s);
    }
}

/* ---- the walk ---- */

static void strip(CpuCode *e, Cluster *c)
{
    e->known.n = 0;
    for (int i = 0; i < c->sinks.n; i++)
        cpu_sink_strip(e, c, &c->sinks.at[i]);
}

static CpuLoop part_loop(CpuCode *e, int axis, LLVMValueRef lo, LLVMValueRef hi, int step)
{
    CpuLoop l = cpu_loop(e, lo, hi, cpu_number(e, step));

    e->spot.at[axis] = l.i;
    return l;
}

static CpuLoop axis_loop(CpuCode *e, const Cluster *c, int axis, LLVMValueRef end, int step)
{
    return part_loop(e, axis, cpu_number(e, 0), end ? end : cpu_number(e, c->shape[axis]), step);
}

typedef void Walk(CpuCode *e, Cluster *c);

static void each_strip(CpuCode *e, Cluster *c, Walk *what)
{
    bool one = c->axis == c->strip;             /* element by element */
    CpuLoop strips;

    if (!one)
        strips = axis_loop(e, c, c->strip, NULL, c->width);
    what(e, c);
    if (!one)
        cpu_loop_end(e, &strips);
}

/* Do something for each of the rows at hand, of which the first is given; it stays the one that the spot names. */
static void each_row(CpuCode *e, Cluster *c, Walk *what)
{
    LLVMValueRef first = c->strip > 0 ? e->spot.at[c->strip - 1] : NULL;

    for (c->row = 0; c->row < c->rows; c->row++) {
        if (c->rows > 1)
            e->spot.at[c->strip - 1] = cpu_op(e, LLVMAdd, first, cpu_number(e, c->row));
        what(e, c);
    }
    c->row = 0;
    if (c->rows > 1)
        e->spot.at[c->strip - 1] = first;
}

/* A part of the divided axis: strips of the rows at hand; of sums in memory rows in turn, each as it lies in memory. */
static void walk_part(CpuCode *e, Cluster *c, LLVMValueRef lo, LLVMValueRef hi)
{
    int axis = divided_axis(c);
    CpuLoop l = part_loop(e, axis, lo, hi, in_memory(c) ? 1 : c->width);

    if (in_memory(c))
        each_strip(e, c, strip);
    else
        each_row(e, c, strip);
    cpu_loop_end(e, &l);
}

/* What needs no masks, then the rest, each only where there may be any of it. */
static void walk_parts(CpuCode *e, Cluster *c, Ends ends)
{
    bool known = LLVMIsAConstantInt(ends.plain) && LLVMIsAConstantInt(ends.end);
    int64_t plain = known ? LLVMConstIntGetSExtValue(ends.plain) : 0, end = known ? LLVMConstIntGetSExtValue(ends.end) : 0;

    e->masked = false;
    if (!known || plain > 0)
        walk_part(e, c, cpu_number(e, 0), ends.plain);
    e->masked = true;
    e->width = c->width = c->masked_width;
    if (!known || end > plain)
        walk_part(e, c, ends.plain, ends.end);
    e->width = c->width = c->plain_width;
}

static void walk(CpuCode *e, Cluster *c, Ends ends)
{
    CpuLoop outer[TILE_RANK_MAX];
    int n = 0;

    e->width = c->width;
    e->spot.strip = c->rank ? c->strip : -1;
    for (int i = 0; i < c->rank; i++)
        if (i != c->strip && !(in_memory(c) && i == c->axis))
            outer[n++] = axis_loop(e, c, i, ends.outer[i], i == c->strip - 1 ? c->rows : 1);
    if (in_memory(c)) {
        each_strip(e, c, begin_sums);
        walk_parts(e, c, ends);
        each_strip(e, c, end_sums);
    } else {
        each_row(e, c, begin_sums);
        walk_parts(e, c, ends);
        each_row(e, c, end_sums);
    }
    while (n)
        cpu_loop_end(e, &outer[--n]);
    e->known.n = 0;
}

void cpu_begin_push(CpuCode *e, Sink *s)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->u->context);
    LLVMValueRef in[2] = {NULL, LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false)};

    s->count = LLVMBuildLoad2(e->u->builder, i64, cpu_val(e, s->node->in[0])->count, "");
    in[0] = cpu_op(e, LLVMAdd, s->count, cpu_number(e, 1));
    s->joins = cpu_intrinsic(e, "llvm.cttz", &i64, 1, in, 2);
    s->depth = cpu_intrinsic(e, "llvm.ctpop", &i64, 1, &s->count, 1);
}

void cpu_end_push(CpuCode *e, const Sink *s)
{
    Val *y = cpu_val(e, (TileRef){(TileNode *)s->node, 0});

    *y = *cpu_val(e, s->node->in[0]);
    LLVMBuildStore(e->u->builder, cpu_op(e, LLVMAdd, s->count, cpu_number(e, 1)), y->count);
}

void cpu_begin_sink(CpuCode *e, Sink *s)
{
    if ((!s->node || s->node->op == TOP_reduce) && !s->buffer && !s->kept)
        s->buffer = cpu_buffer(e, cpu_tile_bytes(s->node ? &s->node->type[0] : tile_type(s->v)));
    if (s->node && s->node->op == TOP_reduce)
        s->count = cpu_val(e, s->node->in[1])->x;
    if (s->node && s->node->op == TOP_push)
        cpu_begin_push(e, s);
}

void cpu_end_sink(CpuCode *e, const Sink *s)
{
    Val *y;

    if (s->kept) {
        cpu_val(e, s->node ? (TileRef){(TileNode *)s->node, 0} : s->v)->fragment = s->kept;
        return;
    }
    if (!s->node) {
        cpu_val(e, s->v)->x = s->stage ? cpu_val(e, s->v)->x : s->buffer;
        return;
    }
    y = s->node->nout ? cpu_val(e, (TileRef){(TileNode *)s->node, 0}) : NULL;
    if (s->node->op == TOP_reduce) {
        e->width = 1;
        if (!s->node->type[0].rank)
            gpu_fence(e);
        y->x = s->node->type[0].rank ? s->buffer : cpu_load_flat(e, (DType)s->node->type[0].dtype, s->buffer, cpu_number(e, 0), 1);
    } else if (s->node->op == TOP_push) {
        cpu_end_push(e, s);
    }
}

static void emit_cluster(CpuCode *e, Cluster *c)
{
    if (e->gpu) {
        gpu_cluster(e, c);
        return;
    }
    choose_width(e, c);
    c->rows = rows_at_once(c);
    c->row = 0;
    for (int i = 0; i < c->sinks.n; i++) {
        cpu_begin_sink(e, &c->sinks.at[i]);
        if (c->sinks.at[i].node && c->sinks.at[i].node->op == TOP_reduce)
            make_acc(e, c, &c->sinks.at[i]);
    }
    walk(e, c, cpu_find_ends(e, c));
    for (int i = 0; i < c->sinks.n; i++)
        cpu_end_sink(e, &c->sinks.at[i]);
}

/* A tile of another shape that is used again: a walk of its own. to, panel: cpu_buffered's. */
static void emit_alone(CpuCode *e, const TileNode *n, LLVMValueRef to, int panel)
{
    Cluster c = {.rank = n->type[0].rank, .axis = -1};

    for (int i = 0; i < c.rank; i++)
        c.shape[i] = n->type[0].extent[i];
    vec_push(&c.sinks, ((Sink){.v = {(TileNode *)n, 0}, .buffer = to, .panel = panel}));
    for (int i = 0; i < e->open.nodes.n && e->open.nodes.at[i] != n; i++)
        if (cpu_in_tree(e, (TileRef){(TileNode *)n, 0}, e->open.nodes.at[i]))
            vec_push(&c.nodes, e->open.nodes.at[i]);
    vec_push(&c.nodes, n);
    emit_cluster(e, &c);
    vec_free(&c.sinks);
    vec_free(&c.nodes);
}

void cpu_buffered(CpuCode *e, const TileNode *n, LLVMValueRef to, int panel)
{
    cpu_forget_load(e, n);
    emit_alone(e, n, to, panel);
}

/* Numbers of places, and sums of such with scalars: threads have them in an instruction or two. */
static bool counts_places(const TileNode *n)
{
    const TileType *t = &n->type[0];

    if (n->op == TOP_iota)
        return true;
    if (n->op == TOP_splat || !dtype_is_int((DType)t->dtype) || !t->rank)
        return !t->rank;
    if (n->op == TOP_reshape)
        return cpu_is_virtual(n) && counts_places(n->in[0].node);
    if (n->op != TOP_map || (n->attr->op != OP_add && n->attr->op != OP_sub && n->attr->op != OP_bitand && n->attr->op != OP_convert))
        return false;
    for (int i = 0; i < n->nin; i++)
        if (tile_type(n->in[i])->rank && !counts_places(n->in[i].node))
            return false;
    return true;
}

/* What is used again after the open cluster gets a buffer from it, or from a walk of its own. */
static void keep_used_again(CpuCode *e, Cluster *c)
{
    int sinks = c->sinks.n;

    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        TileRef v = {(TileNode *)n, 0};
        bool has = false;
        for (int k = 0; k < sinks; k++)
            has |= !c->sinks.at[k].node && cpu_same(c->sinks.at[k].v, v) && (!c->sinks.at[k].stage || c->sinks.at[k].stage->by_copies);
        if (has || e->seen[n->id] >= n->nuse || cpu_is_cheap(n) || (e->gpu && counts_places(n)))
            continue;
        if (cpu_has_shape(c, &n->type[0], -1))
            vec_push(&c->sinks, ((Sink){.v = v}));
        else
            emit_alone(e, n, NULL, 0);
    }
}

void cpu_close(CpuCode *e)
{
    Cluster *c = &e->open;

    if (!c->sinks.n)
        return;
    for (int i = 0; i < c->nodes.n; i++)
        e->gathered[c->nodes.at[i]->id] = false;
    if (e->gpu && gpu_has_whole_rows(e, c))
        gpu_keep_rows(e, c);
    else
        keep_used_again(e, c);
    emit_cluster(e, c);
    for (int i = 0; i < c->sinks.n; i++)
        if (c->sinks.at[i].node)
            e->waits[c->sinks.at[i].node->id] = false;
    c->sinks.n = c->nodes.n = 0;
}

/* ---- totals ---- */

void cpu_total(CpuCode *e, const TileNode *n)
{
    const TileType *t = &n->type[0];
    DType dt = (DType)t->dtype;
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->u->context);
    const Val *tree = cpu_val(e, n->in[0]);
    OpId op = (OpId)tile_type(n->in[0])->op;
    LLVMValueRef count = LLVMBuildLoad2(b, i64, tree->count, ""), depth = cpu_intrinsic(e, "llvm.ctpop", &i64, 1, &count, 1);
    LLVMValueRef buffer = cpu_buffer(e, cpu_tile_bytes(t)), size = cpu_number(e, cpu_level_elements(e, t)), last, v, phi, joined, none;
    LLVMBasicBlockRef from;
    CpuLoop l, levels;

    e->width = e->gpu || dtype_is_complex(dt) || t->rank == 0 ? 1 : e->u->machine->vector_bytes / (int)raw_size(lane_dtype(dt));
    gpu_fence(e);
    last = cpu_op(e, LLVMSub, depth, cpu_number(e, 1));
    none = cpu_compare(e, LLVMIntEQ, depth, cpu_number(e, 0));
    l = cpu_spread(e, tile_elements(t), e->width);
    v = cpu_load_flat(e, dt, tree->x, cpu_op(e, LLVMAdd, l.i, cpu_op(e, LLVMMul, size, cpu_choose(e, none, cpu_number(e, 0), last))), 1);
    v = cpu_choose(e, none, cpu_identity(e, op, dt, e->width), v);
    from = LLVMGetInsertBlock(b);
    levels = cpu_loop(e, cpu_number(e, 1), depth, cpu_number(e, 1));
    LLVMPositionBuilder(b, levels.head, LLVMGetNextInstruction(levels.i));
    phi = LLVMBuildPhi(b, LLVMTypeOf(v), "");
    LLVMAddIncoming(phi, &v, &from, 1);
    LLVMPositionBuilderAtEnd(b, levels.body);
    joined = cpu_load_flat(e, dt, tree->x, cpu_op(e, LLVMAdd, l.i, cpu_op(e, LLVMMul, size, cpu_op(e, LLVMSub, last, levels.i))), 1);
    joined = cpu_step(e, tile_step_op(op), dt, joined, phi, e->width);
    from = LLVMGetInsertBlock(b);
    LLVMAddIncoming(phi, &joined, &from, 1);
    cpu_loop_end(e, &levels);
    cpu_store_flat(e, dt, buffer, l.i, phi, NULL);
    cpu_loop_end(e, &l);
    gpu_written(e);
    e->width = 1;
    if (!t->rank)
        gpu_fence(e);
    cpu_val(e, (TileRef){(TileNode *)n, 0})->x = t->rank ? buffer : cpu_load_flat(e, dt, buffer, cpu_number(e, 0), 1);
}
