/*
 * Which kernels have whole rows in registers (gpu_rows.c), and which thread has what of a row.
 *
 *                   threads of a chunk    elements of a thread
 *     in order      8                     every eighth: a lane
 *     pairs         4                     two lanes that lie side by side
 *     any order     8                     vectors
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

static bool is_whole_load(const WholeRows *w, const TileNode *n)
{
    return n->op == TOP_load && n->type[0].rank == 2 && n->type[0].extent[0] == w->rows && n->type[0].extent[1] == w->columns;
}

static int whole_loads(const TileKernel *k, const WholeRows *w)
{
    int loads = 0;

    for (const TileNode *n = k->body.first; n; n = n->next)
        loads += is_whole_load(w, n);
    return loads;
}

/*
 * May a thread have two lanes that lie side by side? It takes twice the registers, so rows of one operand are, and of no more than four bytes; then
 * a word of shared memory has two elements of two bytes, and what a thread does once is done for twice as many.
 */
static bool takes_pairs(const WholeRows *w, const TileKernel *k)
{
    int loads = 0;

    if (w->run > 1 || w->halves > 1 || w->chunk != TILE_REDUCE_MAX || rows_has_loops(k, 1) || w->rows * w->here * (GPU_OCTET / 2) % GPU_WARP)
        return false;
    for (int i = 0; i < k->params.n; i++) {
        const TileType *t = &k->params.at[i]->type[0];
        if (t->rank == 2 && t->stride[1] == 1 && raw_size((DType)t->dtype) > 4)
            return false;
    }
    for (const TileNode *n = k->body.first; n; n = n->next)
        loads += is_whole_load(w, n) && tile_type(n->in[0])->stride[0] != 0;
    return loads <= 1;
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

int gpu_rows_begin(GpuCode *g, const TileKernel *k, bool stay)
{
    const TileType *t = tile_schedule(k, "whole", 0) ? summed(&k->body) : NULL;
    WholeRows w;

    if (!t)
        return 0;
    w = (WholeRows){.rows = t->extent[0], .columns = t->extent[1], .chunk = t->extent[1], .chunks = 1, .halves = 1};
    choose_chunks(&w, k);
    w.blocks = (int)tile_schedule(k, "blocks", 1);
    w.here = w.chunks / w.blocks;
    if (stay && w.rows == 1 && w.run == 1 && tile_schedule(k, "stays", 0))
        rows_find_stay(&w, k);
    w.nstay = takes_pairs(&w, k) ? w.nstay : 0;
    w.wide = w.nstay ? 2 : 1;
    w.each = GPU_OCTET / w.wide;
    if (w.columns != w.chunk * w.chunks || w.chunk % GPU_OCTET || w.chunks % w.blocks || (w.rows * w.here * w.each) % GPU_WARP)
        return 0;
    rows_find_loose(&w, k);
    g->whole = w;
    return w.rows * w.here * w.each;
}

bool gpu_rows_refuse(CpuCode *e, bool tensor)
{
    bool divided = tile_schedule(e->k, "blocks", 1) > 1, stays = !tile_schedule(e->k, "stays", 0) || e->gpu->whole.nstay;

    return divided && (rows_has_loops(e->k, 1) || !rows_may_divide(e, tensor) || !stays) && !cpu_refuse(e, "rows of several blocks of threads");
}
