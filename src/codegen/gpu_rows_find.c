/*
 * Which kernels have whole rows in registers (gpu_rows.c), and which thread has what of a row.
 *
 * Where rows are gone over in pieces, a chunk of 256 is two: twice the threads have half the registers each, and loops of shorter code, which
 * instruction caches hold.  The second half of a sum goes on from what the first one hands over: every thread sums its elements from
 * nothing, then those of the second half once more from there.  Where sums may go in any order, rows of several operands are halved as well:
 * half the registers, and twice as many warps that wait for memory.
 */
#include "codegen/gpu_rows.h"

enum { FEW_LOADS = 1, QUARTERS = 4 };

/* The tile that the first sum is of. */
static const TileType *summed(const TileBlock *b)
{
    const TileType *t = NULL;

    for (const TileNode *n = b->first; n && !t; n = n->next)
        if (n->op == TOP_reduce && n->attr->axis == 1 && tile_type(n->in[0])->rank == 2)
            t = tile_type(n->in[0]);
        else if (n->region[0])
            t = summed(n->region[0]);
    return t;
}

bool rows_has_loops(const TileKernel *k, int often)
{
    for (const TileNode *n = k->body.first; n; n = n->next)
        often -= n->op == TOP_for;
    return often <= 0;
}

/* May the kernel's sums be taken in any order? */
static bool any_order(const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        bool sum = n->op == TOP_reduce && (n->attr->op == OP_sum || n->attr->op == OP_prod);
        if ((sum && !n->attr->fast && dtype_is_inexact((DType)n->type[0].dtype)) || (n->region[0] && !any_order(n->region[0])))
            return false;
    }
    return true;
}

/* Elements of a thread that lie side by side. */
static int run_of(const TileKernel *k, int chunk)
{
    int run = 1;

    if (!any_order(&k->body))
        return 1;
    for (int i = 0; i < k->params.n; i++) {
        const TileType *t = &k->params.at[i]->type[0];
        DType dt = (DType)t->dtype;
        int bytes = (int)raw_size(dt);
        if (t->rank != 2 || t->stride[1] != 1 || bytes > ROW_WIDEST)
            continue;
        if (dtype_is_complex(dt) || dtype_info[dt].bits < 8)
            return 1;
        run = ROW_VECTOR / bytes > run ? ROW_VECTOR / bytes : run;
    }
    return chunk % (GPU_OCTET * run) ? 1 : run;
}

static int whole_loads(const TileKernel *k, const WholeRows *w)
{
    int loads = 0;

    for (const TileNode *n = k->body.first; n; n = n->next)
        loads += n->op == TOP_load && n->type[0].rank == 2 && n->type[0].extent[0] == w->rows && n->type[0].extent[1] == w->columns;
    return loads;
}

/* Chunks of 256, halves of them, or, where sums may go in any order, quarters of a row, which is a warp's then: no barrier is needed to meet. */
static void choose_chunks(WholeRows *w, const TileKernel *k)
{
    int quarter = w->columns / QUARTERS;
    bool loops = rows_has_loops(k, 1);

    if (w->columns > TILE_REDUCE_MAX) {
        w->chunk = TILE_REDUCE_MAX;
        w->chunks = w->columns / TILE_REDUCE_MAX;
    }
    w->run = run_of(k, w->chunk);
    if (w->run > 1 && !loops && w->chunks > 1 && w->chunks < QUARTERS && quarter % GPU_OCTET == 0 && run_of(k, quarter) > 1) {
        w->chunk = quarter;
        w->chunks = QUARTERS;
    } else if (w->chunk == TILE_REDUCE_MAX && (loops || (w->run > 1 && whole_loads(k, w) > FEW_LOADS))) {
        w->halves = 2;
        w->chunk /= 2;
        w->chunks *= 2;
    }
    w->run = run_of(k, w->chunk);
}

int gpu_rows_begin(GpuCode *g, const TileKernel *k)
{
    const TileType *t = tile_schedule(k, "whole", 0) ? summed(&k->body) : NULL;
    WholeRows w;

    if (!t)
        return 0;
    w = (WholeRows){.rows = t->extent[0], .columns = t->extent[1], .chunk = t->extent[1], .chunks = 1, .halves = 1};
    choose_chunks(&w, k);
    w.blocks = (int)tile_schedule(k, "blocks", 1);
    w.here = w.chunks / w.blocks;
    if (w.columns != w.chunk * w.chunks || w.chunk % GPU_OCTET || w.chunks % w.blocks || (w.rows * w.here * GPU_OCTET) % GPU_WARP)
        return 0;
    rows_find_loose(&w, k);
    g->whole = w;
    return w.rows * w.here * GPU_OCTET;
}

bool gpu_rows_refuse(CpuCode *e, bool tensor)
{
    bool divided = tile_schedule(e->k, "blocks", 1) > 1;

    return divided && (rows_has_loops(e->k, 1) || !rows_may_divide(e, tensor)) && !cpu_refuse(e, "rows of several blocks of threads");
}
