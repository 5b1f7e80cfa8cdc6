/*
 * Loads across memory: a tile whose rows are columns there.
 *
 * Neighbours along the rows of such a tile lie far apart, and those along its columns side by side.  So threads first bring
 * it into shared memory, neighbours to neighbours down its columns, and everybody takes elements from there.  A row has one
 * element more room than it needs, so that neither way do neighbours meet on a bank.
 */
#include "codegen/gpu_impl.h"

enum { LEAST_SIDE = 8, AT_ONCE = 16, WORD = 4 };

static bool is_turned(const TileNode *n)
{
    const TileType *view = tile_type(n->in[0]), *t = &n->type[0];

    return n->op == TOP_load && view->rank == 2 && !n->attr->drop && view->stride[0] == 1 && view->stride[1] == STRIDE_ANY &&
           t->extent[0] >= LEAST_SIDE && t->extent[1] >= LEAST_SIDE && !dtype_is_complex((DType)t->dtype);
}

static bool has_sink(const Cluster *c, const TileNode *n)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (!c->sinks.at[i].node && c->sinks.at[i].v.node == n)
            return true;
    return false;
}

/* Elements down the columns go to their places: that with this number, or a run of them, runs numbered. */
static void bring_some(CpuCode *e, const TileNode *n, LLVMValueRef to, LLVMValueRef number, int run)
{
    const TileType *t = &n->type[0];
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef high = cpu_number(e, t->extent[0] / run), at, x;
    Spot p = {.at = {LLVMBuildURem(b, number, high, ""), LLVMBuildUDiv(b, number, high, "")}, .strip = -1};

    e->known.n = 0;
    p.at[0] = cpu_op(e, LLVMMul, p.at[0], cpu_number(e, run));
    at = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, p.at[0], cpu_number(e, t->extent[1] + 1)), p.at[1]);
    if (run == 1) {
        cpu_store_flat(e, (DType)t->dtype, to, at, cpu_lanes(e, (TileRef){(TileNode *)n, 0}, &p), NULL);
        return;
    }
    x = LLVMBuildLoad2(b, code_type(e->u, (DType)t->dtype, run), cpu_place(e, n, &p), "");
    LLVMSetAlignment(x, WORD);
    x = lanes_of_raw(e->u, (DType)t->dtype, x, run);
    for (int i = 0; i < run; i++) {
        cpu_store_flat(e, (DType)t->dtype, to, at, lane_get(e->u, x, i, run), NULL);
        at = cpu_op(e, LLVMAdd, at, cpu_number(e, t->extent[1] + 1));
    }
}

static void bring_all(CpuCode *e, const TileNode *n, LLVMValueRef to, bool masked, int run)
{
    int64_t all = tile_elements(&n->type[0]) / run;
    int each = AT_ONCE;
    CpuLoop l;

    while (each > 1 && (masked || all % ((int64_t)each * e->gpu->threads)))
        each /= 2;
    e->masked = masked;
    l = cpu_loop(e, gpu_lane(e), cpu_number(e, all), cpu_number(e, (int64_t)each * e->gpu->threads));
    for (int i = 0; i < each; i++)
        bring_some(e, n, to, cpu_op(e, LLVMAdd, l.i, cpu_number(e, (int64_t)i * e->gpu->threads)), run);
    cpu_loop_end(e, &l);
}

/* Neighbours down a column that are a word, where all columns begin with a word; 1: there are none. */
static int word_of(const TileNode *n)
{
    DType dt = (DType)n->type[0].dtype;
    bool halves = raw_size(dt) == 2 && dtype_info[dt].bits == 16 && (DType)tile_type(n->in[0])->dtype == dt;

    return halves && n->type[0].extent[0] % 2 == 0 ? 2 : 1;
}

/* Do they, of this tile? An i1, the same in all threads. */
static LLVMValueRef begin_with_words(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef b = e->u->builder;
    Spot first = {.at = {cpu_number(e, 0), cpu_number(e, 0)}, .strip = -1};
    LLVMValueRef bytes = cpu_number(e, (int64_t)raw_size((DType)n->type[0].dtype)), at;

    at = LLVMBuildPtrToInt(b, cpu_place(e, n, &first), i64_type(e), "");
    at = LLVMBuildOr(b, at, cpu_op(e, LLVMMul, cpu_val(e, n->in[0])->stride[1], bytes), "");
    return cpu_compare(e, LLVMIntEQ, LLVMBuildAnd(b, at, cpu_number(e, WORD - 1), ""), cpu_number(e, 0));
}

/* A tile that lies within its view. */
static void bring_whole(CpuCode *e, const TileNode *n, LLVMValueRef to)
{
    LLVMBasicBlockRef way[2], done;

    if (word_of(n) == 1) {
        bring_all(e, n, to, false, 1);
        return;
    }
    way[0] = cpu_block(e), way[1] = cpu_block(e), done = cpu_block(e);
    LLVMBuildCondBr(e->u->builder, begin_with_words(e, n), way[0], way[1]);
    for (int i = 0; i < 2; i++) {
        LLVMPositionBuilderAtEnd(e->u->builder, way[i]);
        bring_all(e, n, to, false, i ? 1 : word_of(n));
        LLVMBuildBr(e->u->builder, done);
    }
    LLVMPositionBuilderAtEnd(e->u->builder, done);
}

static void bring(CpuCode *e, const TileNode *n)
{
    const TileType *t = &n->type[0];
    LLVMValueRef to = cpu_buffer(e, (int64_t)t->extent[0] * (t->extent[1] + 1) * (int64_t)raw_size(lane_dtype((DType)t->dtype)));
    LLVMBasicBlockRef way[2] = {cpu_block(e), cpu_block(e)}, done = cpu_block(e);
    Val *v = cpu_val(e, (TileRef){(TileNode *)n, 0});

    e->width = 1;
    LLVMBuildCondBr(e->u->builder, cpu_fits(e, n, -1, NULL, NULL), way[0], way[1]);
    for (int masked = 0; masked < 2; masked++) {
        LLVMPositionBuilderAtEnd(e->u->builder, way[masked]);
        if (masked)
            bring_all(e, n, to, true, 1);
        else
            bring_whole(e, n, to);
        LLVMBuildBr(e->u->builder, done);
    }
    LLVMPositionBuilderAtEnd(e->u->builder, done);
    e->known.n = 0;
    v->x = to;
    v->pitch = t->extent[1] + 1;
}

void gpu_turn_loads(CpuCode *e, const Cluster *c, FragmentBuffers *made)
{
    int before = made->n;

    for (int i = 0; i < c->nodes.n; i++) {
        TileRef v = {(TileNode *)c->nodes.at[i], 0};
        if (!is_turned(v.node) || has_sink(c, v.node) || cpu_val(e, v)->x || cpu_val(e, v)->fragment)
            continue;
        bring(e, v.node);
        vec_push(made, v);
    }
    if (made->n == before)
        return;
    gpu_written(e);
    gpu_fence(e);
}
