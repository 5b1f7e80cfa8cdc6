/*
 * Loads across memory: a tile whose rows are columns there.
 *
 * Neighbours along the rows of such a tile lie far apart, and those along its columns side by side.  So threads first bring
 * it into shared memory, neighbours to neighbours down its columns, and everybody takes elements from there.  A row has one
 * element more room than it needs, so that neither way do neighbours meet on a bank.
 */
#include "codegen/gpu_impl.h"

enum { LEAST_SIDE = 8, AT_ONCE = 16 };

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

/* The element with this number, down the columns, goes to its place. */
static void bring_one(CpuCode *e, const TileNode *n, LLVMValueRef to, LLVMValueRef number)
{
    const TileType *t = &n->type[0];
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef high = cpu_number(e, t->extent[0]), at;
    Spot p = {.at = {LLVMBuildURem(b, number, high, ""), LLVMBuildUDiv(b, number, high, "")}, .strip = -1};

    e->known.n = 0;
    at = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, p.at[0], cpu_number(e, t->extent[1] + 1)), p.at[1]);
    cpu_store_flat(e, (DType)t->dtype, to, at, cpu_lanes(e, (TileRef){(TileNode *)n, 0}, &p), NULL);
}

static void bring_all(CpuCode *e, const TileNode *n, LLVMValueRef to, bool masked)
{
    int64_t all = tile_elements(&n->type[0]);
    int each = AT_ONCE;
    CpuLoop l;

    while (each > 1 && (masked || all % ((int64_t)each * e->gpu->threads)))
        each /= 2;
    e->masked = masked;
    l = cpu_loop(e, gpu_lane(e), cpu_number(e, all), cpu_number(e, (int64_t)each * e->gpu->threads));
    for (int i = 0; i < each; i++)
        bring_one(e, n, to, cpu_op(e, LLVMAdd, l.i, cpu_number(e, (int64_t)i * e->gpu->threads)));
    cpu_loop_end(e, &l);
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
        bring_all(e, n, to, masked);
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
