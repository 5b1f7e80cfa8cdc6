/*
 * A group's work among its threads.
 *
 * A cluster (cpu_gather.c) without a sum is a row of strips, vectors along the
 * last axis, which the threads take in turn, so that neighbours touch
 * neighbouring memory.  A strip that lies within all views, aligned as vectors
 * are loaded, is done in one go, another one element by element.
 *
 * Sums keep the order of R4 of docs/numerics.md: its 8 lanes are threads.  Along the
 * last axis eight neighbours share a row and exchange their sums in registers;
 * along another axis an eighth of the group takes every eighth row, and the
 * lanes meet in shared memory.
 */
#include "codegen/gpu_impl.h"

enum { CHUNK_LANES = 8, VECTOR_BYTES = 16 };
enum { UNROLLED = 4096, AHEAD = 32, STRIPS_AHEAD = 8, LOADED = 64 };    /* an unrolled walk: instructions; elements of a sum; strips; registers */

/* ---- numbers of threads and of elements ---- */

static LLVMValueRef widened(CpuCode *e, LLVMValueRef x) { return LLVMBuildZExt(e->u->builder, x, i64_type(e), ""); }

CpuLoop gpu_share(CpuCode *e, LLVMValueRef n) { return cpu_loop(e, gpu_lane(e), n, cpu_number(e, e->gpu->threads)); }

CpuLoop cpu_spread(CpuCode *e, int64_t n, int64_t step)
{
    if (!e->gpu)
        return cpu_loop(e, cpu_number(e, 0), cpu_number(e, n), cpu_number(e, step));
    return cpu_loop(e, cpu_op(e, LLVMMul, gpu_lane(e), cpu_number(e, step)), cpu_number(e, n), cpu_number(e, step * e->gpu->threads));
}

/* Places along the axes, but one, of an element's number in row-major order: in 32 bits, which divide fast. */
void gpu_decode(CpuCode *e, LLVMValueRef number, const int32_t *extent, int rank, int except, LLVMValueRef *at)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef rest = LLVMBuildTrunc(b, number, i32_type(e), "");
    int first = except == 0 ? 1 : 0;

    for (int i = rank - 1; i >= 0; i--) {
        if (i == except)
            continue;
        at[i] = extent[i] == 1 ? cpu_number(e, 0)
                : widened(e, i == first ? rest : LLVMBuildURem(b, rest, i32_number(e, extent[i]), ""));
        if (i != first && extent[i] != 1)
            rest = LLVMBuildUDiv(b, rest, i32_number(e, extent[i]), "");
    }
}

static int64_t elements_but(const Cluster *c, int axis)
{
    int64_t n = 1;

    for (int i = 0; i < c->rank; i++)
        n *= i == axis ? 1 : c->shape[i];
    return n;
}

typedef void Reduce(CpuCode *e, Cluster *c, Sink *s);

static void do_strip(CpuCode *e, Cluster *c, Reduce *reduce)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (sink_reduces(&c->sinks.at[i]))
            reduce(e, c, &c->sinks.at[i]);
        else
            cpu_sink_strip(e, c, &c->sinks.at[i]);
}

static void do_sinks(CpuCode *e, Cluster *c, bool masked, int width, Reduce *reduce)
{
    e->known.n = 0;
    e->masked = masked;
    e->width = c->width = width;
    do_strip(e, c, reduce);
}

/* ---- strips ---- */

/* What an access is to be loaded or stored as a vector for: its node, if it walks the strip's axis element by element. */
static bool is_vector(CpuCode *e, const Cluster *c, const TileNode *n)
{
    const TileType *view = tile_type(n->in[0]), *t = n->op == TOP_load ? &n->type[0] : tile_type(n->in[n->nin - 1]);
    int axis = 0;

    if (!c->rank || t->rank != c->rank || t->extent[c->strip] != c->shape[c->strip])
        return false;
    for (int left = c->strip; left || n->attr->drop >> axis & 1; axis++)       /* the view's axis that is the strip's */
        left -= !(n->attr->drop >> axis & 1);
    if (view->stride[axis] != 1)
        return false;
    for (int i = 0; n->op == TOP_load && i < c->nodes.n; i++) {
        const TileNode *m = c->nodes.at[i];
        if ((m->op == TOP_permute || m->op == TOP_reshape) && cpu_in_tree(e, (TileRef){(TileNode *)m, 0}, n))
            return false;
    }
    return true;
}

static bool is_vector_store(CpuCode *e, const Cluster *c, const Sink *s) { return s->node && s->node->op == TOP_store && is_vector(e, c, s->node); }

static int element_bytes(const TileNode *n) { return (int)raw_size((DType)tile_type(n->in[0])->dtype); }

/* A load of all of the walk's elements, which comes first in each strip. */
static bool is_whole_load(CpuCode *e, const Cluster *c, const TileNode *n)
{
    return n->op == TOP_load && is_vector(e, c, n) && cpu_has_shape(c, &n->type[0], -1);
}

/*
 * Strips whose loads are all under way before anything is stored: what a cluster stores and loads in different places never
 * meets (cpu_gather.c), which nobody below knows.  As many at once as have registers for what they load.
 */
static void do_together(CpuCode *e, Cluster *c, const Spot *at, int n, int width, Reduce *reduce)
{
    int each = 0, batch, kept;

    for (int i = 0; i < c->nodes.n; i++)
        each += is_whole_load(e, c, c->nodes.at[i]) ? (width * element_bytes(c->nodes.at[i]) + 3) / 4 : 0;
    batch = each && LOADED / each < n ? (LOADED / each ? LOADED / each : 1) : n;
    e->masked = false;
    e->width = c->width = width;
    for (int first = 0; first < n; first += batch) {
        int last = first + batch < n ? first + batch : n;
        e->known.n = 0;
        for (int i = first; i < last; i++)
            for (int k = 0; k < c->nodes.n; k++)
                if (is_whole_load(e, c, c->nodes.at[k]) && !cpu_val(e, (TileRef){(TileNode *)c->nodes.at[k], 0})->x)
                    cpu_raw(e, (TileRef){(TileNode *)c->nodes.at[k], 0}, &at[i]);
        kept = e->known.n;
        for (int i = first; i < last; i++) {
            e->spot = at[i];
            e->known.n = kept;
            do_strip(e, c, reduce);
        }
    }
}

/* Bytes of the largest element that is accessed in vectors; 0: there is none. */
static int vector_element(CpuCode *e, const Cluster *c)
{
    int most = 0;

    for (int i = 0; i < c->nodes.n; i++)
        if (c->nodes.at[i]->op == TOP_load && is_vector(e, c, c->nodes.at[i]))
            most = element_bytes(c->nodes.at[i]) > most ? element_bytes(c->nodes.at[i]) : most;
    for (int i = 0; i < c->sinks.n; i++)
        if (is_vector_store(e, c, &c->sinks.at[i]))
            most = element_bytes(c->sinks.at[i].node) > most ? element_bytes(c->sinks.at[i].node) : most;
    return most;
}

static bool has_complex(const Cluster *c)
{
    bool has = false;

    for (int i = 0; i < c->nodes.n; i++)
        has |= dtype_is_complex((DType)c->nodes.at[i]->type[0].dtype);
    for (int i = 0; i < c->sinks.n; i++)
        has |= dtype_is_complex((DType)tile_type(c->sinks.at[i].v)->dtype);
    return has;
}

/* Elements of a strip: those that the largest element's vector holds. */
static int strip_width(CpuCode *e, const Cluster *c)
{
    int most = vector_element(e, c), width;

    for (int i = 0; i < c->sinks.n; i++)
        if (c->sinks.at[i].node && c->sinks.at[i].node->op != TOP_store)
            return 1;
    if (has_complex(c))
        return 1;
    width = !c->rank || !most ? 1 : VECTOR_BYTES / most;
    while (width > 1 && c->shape[c->strip] % width)
        width /= 2;
    return width;
}

/* Is the strip of an access aligned? */
static LLVMValueRef is_aligned(CpuCode *e, const Cluster *c, const TileNode *n, int width)
{
    LLVMBuilderRef b = e->u->builder;
    Spot p = e->spot;
    LLVMValueRef at;

    for (int i = 0; n->op == TOP_load && i < c->rank; i++)
        if (n->type[0].extent[i] == 1 && c->shape[i] != 1)
            p.at[i] = cpu_number(e, 0);
    at = LLVMBuildPtrToInt(b, cpu_place(e, n, &p), i64_type(e), "");
    at = LLVMBuildAnd(b, at, cpu_number(e, width * element_bytes(n) - 1), "");
    vec_push(&e->gpu->vectors, n);
    return cpu_compare(e, LLVMIntEQ, at, cpu_number(e, 0));
}

/* `is`, and is the strip of each access that is a vector aligned? */
static LLVMValueRef and_aligned(CpuCode *e, const Cluster *c, LLVMValueRef is, int width)
{
    for (int i = 0; i < c->nodes.n; i++)
        if (c->nodes.at[i]->op == TOP_load && is_vector(e, c, c->nodes.at[i]))
            is = LLVMBuildAnd(e->u->builder, is, is_aligned(e, c, c->nodes.at[i], width), "");
    for (int i = 0; i < c->sinks.n; i++)
        if (is_vector_store(e, c, &c->sinks.at[i]))
            is = LLVMBuildAnd(e->u->builder, is, is_aligned(e, c, c->sinks.at[i].node, width), "");
    return is;
}

/* Does the strip lie within all views, and aligned where it is to be loaded as a vector? */
static LLVMValueRef is_plain(CpuCode *e, const Cluster *c, const Ends *ends, int width)
{
    LLVMValueRef end = cpu_op(e, LLVMAdd, e->spot.at[c->strip], cpu_number(e, width));

    return and_aligned(e, c, cpu_compare(e, LLVMIntSLE, end, ends->plain), width);
}

/* Element by element of a strip. */
static void strip_by_elements(CpuCode *e, Cluster *c, int width)
{
    LLVMValueRef first = e->spot.at[c->strip];
    CpuLoop l;

    if (width == 1) {
        do_sinks(e, c, true, 1, NULL);
        return;
    }
    l = cpu_loop(e, first, cpu_op(e, LLVMAdd, first, cpu_number(e, width)), cpu_number(e, 1));
    e->spot.at[c->strip] = l.i;
    do_sinks(e, c, true, 1, NULL);
    cpu_loop_end(e, &l);
    e->spot.at[c->strip] = first;
}

/* The strip with this number is the one at hand. */
static void enter_strip(CpuCode *e, const Cluster *c, LLVMValueRef number, int width)
{
    int32_t extent[TILE_RANK_MAX];

    for (int i = 0; i < TILE_RANK_MAX; i++)
        extent[i] = i < c->rank ? c->shape[i] : 1;
    extent[c->strip] /= c->rank ? width : 1;
    gpu_decode(e, number, extent, c->rank, -1, e->spot.at);
    if (c->rank)
        e->spot.at[c->strip] = cpu_op(e, LLVMMul, e->spot.at[c->strip], cpu_number(e, width));
    e->spot.strip = c->rank ? c->strip : -1;
}

/* Does an access step from place to place along the other axes in whole vectors? */
static LLVMValueRef steps_aligned(CpuCode *e, const Cluster *c, const TileNode *n, int width, LLVMValueRef is)
{
    const Val *view = cpu_val(e, n->in[0]);
    const TileType *t = n->op == TOP_load ? &n->type[0] : tile_type(n->in[n->nin - 1]);
    LLVMValueRef bits;

    for (int i = 0, axis = 0; i < tile_type(n->in[0])->rank; i++) {
        if (n->attr->drop >> i & 1)
            continue;
        if (axis != c->strip && t->extent[axis] > 1) {
            bits = LLVMBuildAnd(e->u->builder, cpu_op(e, LLVMMul, view->stride[i], cpu_number(e, element_bytes(n))),
                                cpu_number(e, width * element_bytes(n) - 1), "");
            is = LLVMBuildAnd(e->u->builder, is, cpu_compare(e, LLVMIntEQ, bits, cpu_number(e, 0)), "");
        }
        axis++;
    }
    return is;
}

/* `is`, and are all strips aligned? */
static LLVMValueRef and_all_aligned(CpuCode *e, const Cluster *c, LLVMValueRef is, int width)
{
    for (int i = 0; i < c->rank; i++)
        e->spot.at[i] = cpu_number(e, 0);
    is = and_aligned(e, c, is, width);
    for (int i = 0; i < c->nodes.n; i++)
        if (c->nodes.at[i]->op == TOP_load && is_vector(e, c, c->nodes.at[i]))
            is = steps_aligned(e, c, c->nodes.at[i], width, is);
    for (int i = 0; i < c->sinks.n; i++)
        if (is_vector_store(e, c, &c->sinks.at[i]))
            is = steps_aligned(e, c, c->sinks.at[i].node, width, is);
    return is;
}

/* Several strips a thread, so that what they load is under way together. */
static void walk_plain(CpuCode *e, Cluster *c, int width, int each)
{
    int64_t strips = elements_but(c, -1) / width;
    CpuLoop l = cpu_loop(e, cpu_number(e, 0), cpu_number(e, strips), cpu_number(e, (int64_t)each * e->gpu->threads));
    Spot at[STRIPS_AHEAD];

    for (int i = 0; i < each; i++) {
        LLVMValueRef number = cpu_op(e, LLVMAdd, cpu_op(e, LLVMAdd, l.i, gpu_lane(e)), cpu_number(e, (int64_t)i * e->gpu->threads));
        enter_strip(e, c, number, width);
        at[i] = e->spot;
    }
    do_together(e, c, at, each, width, NULL);
    cpu_loop_end(e, &l);
}

/* One by one: each is plain or not. */
static void walk_ragged(CpuCode *e, Cluster *c, int width, const Ends *ends)
{
    LLVMBasicBlockRef plain, rest, done;
    CpuLoop l = cpu_spread(e, elements_but(c, -1) / width, 1);

    enter_strip(e, c, l.i, width);
    if (width > 1) {
        plain = cpu_block(e), rest = cpu_block(e), done = cpu_block(e);
        e->gpu->vectors.n = 0;
        LLVMBuildCondBr(e->u->builder, is_plain(e, c, ends, width), plain, rest);
        LLVMPositionBuilderAtEnd(e->u->builder, plain);
        do_sinks(e, c, false, width, NULL);
        e->gpu->vectors.n = 0;
        LLVMBuildBr(e->u->builder, done);
        LLVMPositionBuilderAtEnd(e->u->builder, rest);
    }
    strip_by_elements(e, c, width);
    if (width > 1) {
        LLVMBuildBr(e->u->builder, done);
        LLVMPositionBuilderAtEnd(e->u->builder, done);
    }
    cpu_loop_end(e, &l);
}

/* Strips that a thread does at once, of which there is no rest: 1 where it has one. */
static int strips_at_once(CpuCode *e, const Cluster *c, int width)
{
    int64_t strips = elements_but(c, -1) / width;
    int each = STRIPS_AHEAD;

    while (each > 1 && (strips % ((int64_t)each * e->gpu->threads) || each * width * (cpu_cluster_cost(c) + 4) > UNROLLED))
        each /= 2;
    return each;
}

/* A tile that lies within all views goes by vectors, if they are aligned, else by elements, neighbours by neighbouring threads. */
static void walk_strips(CpuCode *e, Cluster *c)
{
    int width = strip_width(e, c), each = strips_at_once(e, c, width), singly = strips_at_once(e, c, 1);
    LLVMBasicBlockRef way[3], other, done;
    LLVMValueRef inside;
    Ends ends;

    c->masked_width = 1;
    c->width = c->plain_width = width;
    ends = cpu_find_ends(e, c);
    if (each == 1 || width == 1) {
        walk_ragged(e, c, width, &ends);
        return;
    }
    for (int i = 0; i < 3; i++)
        way[i] = cpu_block(e);
    other = cpu_block(e), done = cpu_block(e);
    e->gpu->vectors.n = 0;
    inside = cpu_compare(e, LLVMIntSLE, cpu_number(e, c->shape[c->strip]), ends.plain);
    LLVMBuildCondBr(e->u->builder, and_all_aligned(e, c, inside, width), way[0], other);
    LLVMPositionBuilderAtEnd(e->u->builder, other);
    LLVMBuildCondBr(e->u->builder, inside, way[1], way[2]);
    for (int i = 0; i < 3; i++) {
        LLVMPositionBuilderAtEnd(e->u->builder, way[i]);
        c->width = i == 1 ? 1 : width;
        if (i < 2)
            walk_plain(e, c, c->width, i ? singly : each);
        else
            walk_ragged(e, c, width, &ends);
        e->gpu->vectors.n = 0;
        LLVMBuildBr(e->u->builder, done);
    }
    LLVMPositionBuilderAtEnd(e->u->builder, done);
}

/* ---- sums ---- */

static OpId sum_step(const Sink *s) { return tile_step_op((OpId)s->node->attr->op); }

/* From here on e->width of them side by side. */
static void begin_sums(CpuCode *e, Cluster *c)
{
    for (int i = 0; i < c->sinks.n; i++) {
        Sink *s = &c->sinks.at[i];
        if (!sink_reduces(s))
            continue;
        s->acc[0] = llvm_slot(e->u, lane_type(e->u, sink_dtype(s), e->width));
        LLVMBuildStore(e->u->builder, cpu_identity(e, (OpId)s->node->attr->op, sink_dtype(s), e->width), s->acc[0]);
    }
}

static LLVMValueRef sum_so_far(CpuCode *e, const Sink *s)
{
    return LLVMBuildLoad2(e->u->builder, lane_type(e->u, sink_dtype(s), e->width), s->acc[0], "");
}

static void add_element(CpuCode *e, Cluster *c, Sink *s)
{
    LLVMValueRef x = cpu_lanes(e, s->v, &e->spot);

    if (e->masked)
        x = cpu_choose(e, cpu_compare(e, LLVMIntSLT, e->spot.at[c->axis], s->count), x, cpu_identity(e, (OpId)s->node->attr->op, sink_dtype(s), 1));
    LLVMBuildStore(e->u->builder, cpu_step(e, sum_step(s), sink_dtype(s), sum_so_far(e, s), x, e->width), s->acc[0]);
}

/* Every eighth place of the summed axis from `lane` on, of which none needs a mask: unrolled as far as it pays. */
static void sum_plain(CpuCode *e, Cluster *c, LLVMValueRef lane, int width)
{
    int64_t each = c->shape[c->axis] / CHUNK_LANES;
    int ahead = AHEAD;
    Spot at[AHEAD];
    CpuLoop l;

    if (each > TILE_REDUCE_MAX / CHUNK_LANES)           /* there is always a next round: half as many leave registers for a second group */
        ahead /= 2;
    while (ahead > 1 && (each % ahead || ahead * width * (cpu_cluster_cost(c) + 4) > UNROLLED))
        ahead /= 2;
    l = cpu_loop(e, cpu_number(e, 0), cpu_number(e, each * CHUNK_LANES), cpu_number(e, ahead * CHUNK_LANES));
    for (int i = 0; i < ahead; i++) {
        at[i] = e->spot;
        at[i].at[c->axis] = cpu_op(e, LLVMAdd, cpu_op(e, LLVMAdd, l.i, cpu_number(e, i * CHUNK_LANES)), lane);
    }
    do_together(e, c, at, ahead, width, add_element);
    cpu_loop_end(e, &l);
}

static void sum_masked(CpuCode *e, Cluster *c, LLVMValueRef lane, const Ends *ends)
{
    CpuLoop l = cpu_loop(e, lane, ends->end, cpu_number(e, CHUNK_LANES));

    e->spot.at[c->axis] = l.i;
    do_sinks(e, c, true, 1, add_element);
    cpu_loop_end(e, &l);
}

static void sum_lane(CpuCode *e, Cluster *c, LLVMValueRef lane, const Ends *ends)
{
    LLVMBasicBlockRef plain = cpu_block(e), rest = cpu_block(e), done = cpu_block(e);
    LLVMValueRef whole = cpu_number(e, c->shape[c->axis]);

    if (c->shape[c->axis] % CHUNK_LANES)
        LLVMBuildBr(e->u->builder, rest);
    else
        LLVMBuildCondBr(e->u->builder, cpu_compare(e, LLVMIntSGE, ends->plain, whole), plain, rest);
    LLVMPositionBuilderAtEnd(e->u->builder, plain);
    if (c->shape[c->axis] % CHUNK_LANES == 0)
        sum_plain(e, c, lane, 1);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, rest);
    sum_masked(e, c, lane, ends);
    LLVMBuildBr(e->u->builder, done);
    LLVMPositionBuilderAtEnd(e->u->builder, done);
}

/* Rows: eight neighbours share one. ((0+4)+(2+6))+((1+5)+(3+7)) */
static void walk_rows(CpuCode *e, Cluster *c)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef eight = i32_number(e, CHUNK_LANES), lane, octet, mask, shift;
    int64_t rows = elements_but(c, c->axis);
    CpuLoop l;
    Ends ends;

    c->masked_width = 1;
    c->width = c->plain_width = CHUNK_LANES;
    ends = cpu_find_ends(e, c);
    lane = widened(e, LLVMBuildURem(b, e->gpu->thread, eight, ""));
    octet = widened(e, LLVMBuildUDiv(b, e->gpu->thread, eight, ""));
    shift = LLVMBuildAnd(b, e->gpu->thread, i32_number(e, GPU_WARP - CHUNK_LANES), "");
    mask = LLVMBuildShl(b, i32_number(e, (1 << CHUNK_LANES) - 1), shift, "");
    l = cpu_loop(e, octet, cpu_number(e, rows), cpu_number(e, e->gpu->threads / CHUNK_LANES));
    gpu_decode(e, l.i, c->shape, c->rank, c->axis, e->spot.at);
    e->width = 1;
    begin_sums(e, c);
    sum_lane(e, c, lane, &ends);
    e->width = c->width = 1;
    for (int i = 0; i < c->sinks.n; i++) {
        Sink *s = &c->sinks.at[i];
        LLVMValueRef x;
        if (!sink_reduces(s))
            continue;
        x = sum_so_far(e, s);
        for (int n = CHUNK_LANES / 2; n; n /= 2)
            x = cpu_step(e, sum_step(s), sink_dtype(s), x, gpu_other(e, x, n, mask), 1);
        GpuIf first = gpu_if(e, cpu_compare(e, LLVMIntEQ, lane, cpu_number(e, 0)));
        cpu_store_flat(e, sink_dtype(s), s->buffer, l.i, x, NULL);
        gpu_end_if(e, &first);
    }
    cpu_loop_end(e, &l);
}

/* Where the lanes of a column's sum meet. */
static void fold_columns(CpuCode *e, Sink *s, LLVMValueRef meet, int64_t columns)
{
    CpuLoop l = cpu_spread(e, columns, 1);
    LLVMValueRef x[CHUNK_LANES];

    for (int i = 0; i < CHUNK_LANES; i++)
        x[i] = cpu_load_flat(e, sink_dtype(s), meet, cpu_op(e, LLVMAdd, l.i, cpu_number(e, i * columns)), 1);
    for (int n = CHUNK_LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            x[i] = cpu_step(e, sum_step(s), sink_dtype(s), x[i], x[i + n], 1);
    cpu_store_flat(e, sink_dtype(s), s->buffer, l.i, x[0], NULL);
    cpu_loop_end(e, &l);
}

/* Columns that a thread sums side by side: as many as a vector of memory has, while there are enough for all threads. */
static int columns_at_once(CpuCode *e, const Cluster *c)
{
    int64_t columns = elements_but(c, c->axis), side = e->gpu->threads / CHUNK_LANES;
    int most = vector_element(e, c), width = most && !has_complex(c) && c->strip != c->axis ? VECTOR_BYTES / most : 1;

    while (width > 1 && (c->shape[c->axis] % CHUNK_LANES || c->shape[c->strip] % width || columns / width < side))
        width /= 2;
    return width;
}

/* The threads' parts of a walk: which of eight lanes a thread is, the first columns that it sums, and where lanes meet, by sink. */
typedef struct Columns { int64_t n, side; LLVMValueRef lane, first, *meet; const Ends *ends; } Columns;

static void sum_columns(CpuCode *e, Cluster *c, const Columns *of, int width)
{
    CpuLoop l = cpu_loop(e, of->first, cpu_number(e, of->n / width), cpu_number(e, of->side));
    int32_t extent[TILE_RANK_MAX];
    LLVMValueRef at;

    memcpy(extent, c->shape, sizeof extent);
    extent[c->strip] /= width;
    gpu_decode(e, l.i, extent, c->rank, c->axis, e->spot.at);
    e->spot.at[c->strip] = width > 1 ? cpu_op(e, LLVMMul, e->spot.at[c->strip], cpu_number(e, width)) : e->spot.at[c->strip];
    e->spot.strip = width > 1 ? c->strip : -1;
    e->width = width;
    begin_sums(e, c);
    if (width > 1)
        sum_plain(e, c, of->lane, width);
    else
        sum_lane(e, c, of->lane, of->ends);
    e->width = c->width = width;
    at = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, of->lane, cpu_number(e, of->n)), cpu_op(e, LLVMMul, l.i, cpu_number(e, width)));
    for (int i = 0; i < c->sinks.n; i++)
        if (sink_reduces(&c->sinks.at[i]))
            cpu_store_flat(e, sink_dtype(&c->sinks.at[i]), of->meet[i], at, sum_so_far(e, &c->sinks.at[i]), NULL);
    cpu_loop_end(e, &l);
    e->spot.strip = -1;
    e->width = c->width = 1;
}

/* Several columns a thread where all of them lie within all views, aligned as vectors are loaded, else one. */
static void sum_all_columns(CpuCode *e, Cluster *c, const Columns *of, int width)
{
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e);
    LLVMValueRef plain = cpu_compare(e, LLVMIntSGE, of->ends->plain, cpu_number(e, c->shape[c->axis]));

    e->gpu->vectors.n = 0;
    e->spot.strip = c->strip;
    LLVMBuildCondBr(e->u->builder, and_all_aligned(e, c, plain, width), way[0], way[1]);
    for (int i = 0; i < 2; i++) {
        LLVMPositionBuilderAtEnd(e->u->builder, way[i]);
        sum_columns(e, c, of, i ? 1 : width);
        LLVMBuildBr(e->u->builder, done);
        e->gpu->vectors.n = 0;
    }
    LLVMPositionBuilderAtEnd(e->u->builder, done);
}

static void walk_columns(CpuCode *e, Cluster *c)
{
    LLVMBuilderRef b = e->u->builder;
    int width = columns_at_once(e, c);
    Columns of = {elements_but(c, c->axis), e->gpu->threads / CHUNK_LANES, .meet = tsr_calloc(sizeof *of.meet * (size_t)c->sinks.n)};
    Ends ends;

    c->masked_width = 1;
    c->width = c->plain_width = width;
    ends = cpu_find_ends(e, c);
    of.ends = &ends;
    of.first = widened(e, LLVMBuildURem(b, e->gpu->thread, i32_number(e, of.side), ""));
    of.lane = widened(e, LLVMBuildUDiv(b, e->gpu->thread, i32_number(e, of.side), ""));
    for (int i = 0; i < c->sinks.n; i++)
        if (sink_reduces(&c->sinks.at[i]))
            of.meet[i] = cpu_buffer(e, CHUNK_LANES * of.n * (int64_t)raw_size(lane_dtype(sink_dtype(&c->sinks.at[i]))));
    if (width > 1)
        sum_all_columns(e, c, &of, width);
    else
        sum_columns(e, c, &of, 1);
    gpu_written(e);
    gpu_fence(e);
    for (int i = 0; i < c->sinks.n; i++)
        if (sink_reduces(&c->sinks.at[i]))
            fold_columns(e, &c->sinks.at[i], of.meet[i], of.n);
    tsr_free(of.meet);
}

/* ---- clusters ---- */

/* Does it read what others of the group may just have written? */
static bool reads_memory(CpuCode *e, const Cluster *c)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (cpu_val(e, c->sinks.at[i].v)->x)
            return true;
    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        if (n->op == TOP_load && (cpu_root(n->in[0])->op != TILE_PARAM || gpu_writes(&e->k->body, cpu_root(n->in[0]))))
            return true;
        for (int k = 0; k < n->nin; k++) {
            const TileType *t = tile_type(n->in[k]);
            if (t->kind == TILE_VALUE && t->rank && cpu_val(e, n->in[k])->x && !gpu_is_brought(e, n->in[k]))
                return true;
        }
    }
    return false;
}

/* Does a cluster of registers do nothing in the group's memory: do its sinks stay there, or go to parameters that the kernel does not read? */
static bool only_stores(const CpuCode *e, const Cluster *c)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (!c->sinks.at[i].kept && !(c->sinks.at[i].node && c->sinks.at[i].node->op == TOP_store && !roles_read_own(e)))
            return false;
    return true;
}

void gpu_cluster(CpuCode *e, Cluster *c)
{
    FragmentBuffers lent = {0};
    bool fragments, writes = true;

    if (gpu_is_chain(e))
        chain_cluster(e, c);
    if (!c->rank)
        c->shape[0] = 1;
    for (c->strip = c->rank ? c->rank - 1 : 0; c->strip > 0 && c->shape[c->strip] == 1; )
        c->strip--;
    c->rows = 1;
    c->row = 0;
    fragments = gpu_in_fragments(e, c);
    if (fragments && !e->gpu->whole.chunk)
        writes = gpu_keep_sinks(e, c) && !(e->gpu->roles && only_stores(e, c));
    else if (!fragments)
        gpu_lend_buffers(e, c, &lent);
    if (!e->gpu->staging && (writes || reads_memory(e, c)))     /* nobody reads what a second operand is put into */
        gpu_fence(e);
    if (c->rank == 2 && !e->gpu->whole.chunk && !fragments)
        gpu_turn_loads(e, c, &lent);
    for (int i = 0; i < c->sinks.n; i++) {
        if (gpu_is_kept_row(e, c, &c->sinks.at[i]))
            continue;
        gpu_stage_sink(e, &c->sinks.at[i]);
        cpu_begin_sink(e, &c->sinks.at[i]);
    }
    e->spot.strip = -1;
    if (!fragments && e->gpu->whole.blocks > 1)
        gpu_rows_apart(e, c);
    if (fragments && e->gpu->whole.chunk)
        gpu_walk_rows(e, c);
    else if (fragments)
        gpu_walk_fragment(e, c);
    else if (c->axis < 0)
        walk_strips(e, c);
    else if (c->axis == c->strip)
        walk_rows(e, c);
    else
        walk_columns(e, c);
    e->known.n = 0;
    e->width = 1;
    if (writes)
        gpu_written(e);
    for (int i = 0; i < c->sinks.n; i++)
        if (!gpu_is_kept_row(e, c, &c->sinks.at[i]))
            cpu_end_sink(e, &c->sinks.at[i]);
    gpu_end_buffers(e, &lent);
}

void gpu_copy_tile(CpuCode *e, const TileType *t, LLVMValueRef to, LLVMValueRef from)
{
    CpuLoop l;

    gpu_fence(e);
    l = cpu_spread(e, tile_elements(t), 1);
    e->width = 1;
    cpu_store_flat(e, (DType)t->dtype, to, l.i, cpu_load_flat(e, (DType)t->dtype, from, l.i, 1), NULL);
    cpu_loop_end(e, &l);
    gpu_written(e);
}
