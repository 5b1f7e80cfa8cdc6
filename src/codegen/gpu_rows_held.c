/*
 * Long rows that stay in shared memory.
 *
 * A row that does not fit into registers, but into the shared memory of a group, is brought there once: before the first piece of the first loop that
 * goes over it asynchronous copies of all of it are sent, piece by piece, and that loop waits for the first one, then for half of the row, then for
 * all.  Later loops find it there.
 *
 *     room     | chunk 0 | chunk 1 | ... | last chunk of the row | nobody's |
 *
 * Eight threads copy and take a chunk, as in gpu_rows_ahead.c.  Those behind the row's end copy nothing, and take what lies in nobody's chunk, which
 * is masked.
 * Only under fast numerics: in order vectors are turned as well, for which such rows leave no memory, and bringing rows again was quicker.
 */
#include "codegen/gpu_rows.h"

enum { MEMORY = 226 << 10, HALF = 112 << 10, WAITS = 3 };

/* ---- which loads ---- */

static bool is_view(const WholeRows *w, const TileNode *load)
{
    for (int i = 0; i < w->nheld; i++)
        if (w->held_load[i]->in[0].node == load->in[0].node && w->held_load[i]->in[1].node == load->in[1].node)
            return true;
    return false;
}

/* A piece that vectors bring, also the last one. */
static bool can_hold(const CpuCode *e, const TileNode *n)
{
    return e->gpu->whole.run > 1 && rows_is_piece(e, n) && rows_by_vectors(e, n) && rows_end_with_vectors(n) && n->block->owner->block == &e->k->body;
}

bool rows_is_held(const CpuCode *e, const TileNode *load)
{
    return load->op == TOP_load && e->gpu->whole.held && load->nin == 3 && is_view(&e->gpu->whole, load) && can_hold(e, load);
}

/* The first load that loads what `load` does in another loop before it. */
static const TileNode *loaded_before(const CpuCode *e, const TileNode *load)
{
    for (const TileNode *loop = e->k->body.first; loop != load->block->owner; loop = loop->next)
        for (const TileNode *n = loop->op == TOP_for ? loop->region[0]->first : NULL; n; n = n->next)
            if (n->op == TOP_load && n->nin == 3 && n->in[0].node == load->in[0].node && n->in[1].node == load->in[1].node && can_hold(e, n))
                return n;
    return NULL;
}

static int64_t chunk_bytes(const CpuCode *e, const TileNode *load) { return rows_pitch(&e->gpu->whole, row_bytes(row_dtype(load))); }

static int64_t chunks_held(const CpuCode *e) { return (tile_schedule(e->k, "held", 0) + e->gpu->whole.chunk - 1) / e->gpu->whole.chunk; }

static int64_t room_bytes(const CpuCode *e, const TileNode *load) { return (chunks_held(e) + 1) * chunk_bytes(e, load); }

/* ---- memory ---- */

void rows_held_memory(CpuCode *e)
{
    WholeRows *w = &e->gpu->whole;
    int64_t bytes = 0;

    for (const TileNode *loop = e->k->body.first; loop && chunks_held(e) && !e->gpu->copies; loop = loop->next)
        for (const TileNode *n = loop->op == TOP_for ? loop->region[0]->first : NULL; n; n = n->next) {
            const TileNode *first = can_hold(e, n) ? loaded_before(e, n) : NULL;
            if (!first || is_view(w, n) || w->nheld == HELD_MOST)
                continue;
            bytes += room_bytes(e, n);
            w->held_load[w->nheld++] = first;
        }
    if (!w->nheld || bytes > MEMORY) {
        w->nheld = 0;
        return;
    }
    w->held = cpu_buffer(e, bytes);
    w->two_held = bytes <= HALF;
    w->is_sent = llvm_slot(e->u, LLVMInt1TypeInContext(e->u->context));
    LLVMBuildStore(e->u->builder, LLVMConstNull(LLVMInt1TypeInContext(e->u->context)), w->is_sent);
}

/* ---- places ---- */

/* The number of this thread's chunk of a piece, whose number is `turn`. */
static LLVMValueRef chunk_number(CpuCode *e, LLVMValueRef turn)
{
    return cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, turn, cpu_number(e, e->gpu->whole.chunks)), row_wide(e, rows_octet(e)));
}

/* The room's chunk that this thread has of it. */
static LLVMValueRef chunk_of(CpuCode *e, const TileNode *load, LLVMValueRef turn)
{
    const WholeRows *w = &e->gpu->whole;
    LLVMValueRef number = chunk_number(e, turn), most = cpu_number(e, chunks_held(e)), at;
    int64_t before = 0;

    for (int i = 0; w->held_load[i]->in[0].node != load->in[0].node || w->held_load[i]->in[1].node != load->in[1].node; i++)
        before += room_bytes(e, w->held_load[i]);
    number = cpu_choose(e, cpu_compare(e, LLVMIntSLT, number, most), number, most);
    at = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, number, cpu_number(e, chunk_bytes(e, load))), cpu_number(e, before));
    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), w->held, &at, 1, "");
}

static LLVMValueRef turn_of(CpuCode *e, const TileNode *loop)
{
    LLVMValueRef number = cpu_val(e, (TileRef){loop->region[0]->params.at[0], 0})->x;

    return cpu_op(e, LLVMUDiv, cpu_op(e, LLVMSub, number, cpu_val(e, loop->in[0])->x), cpu_number(e, e->gpu->whole.columns));
}

/* ---- rounds ---- */

/* All pieces, from the one at hand, which is the first; what lies behind the row's end is its first vector. */
static void send(CpuCode *e, const TileNode *load, const RowPlace *p, int piece)
{
    int64_t further = (int64_t)piece * e->gpu->whole.columns;
    LLVMValueRef turn = cpu_number(e, piece), to = chunk_of(e, load, turn), by = cpu_number(e, further * row_bytes(row_dtype(load)));
    GpuIf within = gpu_if(e, cpu_compare(e, LLVMIntSLT, chunk_number(e, turn), cpu_number(e, chunks_held(e))));

    for (int i = 0; i < rows_vectors(e, load); i++) {
        LLVMValueRef at = rows_vector_place(e, load, p, i), from = LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), at, &by, 1, "");
        gpu_copy_piece(e, rows_stage_vector(e, to, p, i), rows_vector_within(e, load, p, i, further, from), false);
    }
    gpu_end_if(e, &within);
}

static int pieces(const CpuCode *e) { return (int)((tile_schedule(e->k, "held", 0) + e->gpu->whole.columns - 1) / e->gpu->whole.columns); }

bool rows_may_take(CpuCode *e, const Cluster *c, LLVMValueRef *may)
{
    bool takes = false, sends = false;

    for (int i = 0; i < c->nodes.n; i++) {
        const TileNode *n = c->nodes.at[i];
        takes |= rows_is_held(e, n);
        sends |= rows_is_held(e, n) && !loaded_before(e, n);
    }
    if (takes && !sends)
        *may = LLVMBuildAnd(e->u->builder, *may, LLVMBuildLoad2(e->u->builder, LLVMInt1TypeInContext(e->u->context), e->gpu->whole.is_sent, ""), "");
    return takes;
}

/* The rows that this cluster is the first to take, in its first round; then, in three of its rounds, a wait for this round's pieces and some more. */
static void bring(CpuCode *e, const Cluster *c, const RowPlace *p, LLVMValueRef turn)
{
    GpuIf first = gpu_if(e, cpu_compare(e, LLVMIntEQ, turn, cpu_number(e, 0)));

    for (int piece = 0; piece < pieces(e); piece++) {
        for (int i = 0; i < c->nodes.n; i++)
            if (rows_is_held(e, c->nodes.at[i]) && !loaded_before(e, c->nodes.at[i]))
                send(e, c->nodes.at[i], p, piece);
        gpu_commit_copies(e);
    }
    LLVMBuildStore(e->u->builder, LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false), e->gpu->whole.is_sent);
    gpu_end_if(e, &first);
    for (int i = 0, from = 0; i < WAITS && from < pieces(e); i++) {
        int last = i == 0 ? 0 : i == 1 ? (pieces(e) + 1) / 2 : pieces(e) - 1;
        GpuIf now = gpu_if(e, cpu_compare(e, LLVMIntEQ, turn, cpu_number(e, from)));
        gpu_wait_copies(e, pieces(e) - 1 > last ? pieces(e) - 1 - last : 0);
        gpu_end_if(e, &now);
        from = last + 1;
    }
    gpu_warp_fence(e);
}

void rows_take_held(CpuCode *e, const Cluster *c, const RowPlace *p)
{
    LLVMValueRef turn = NULL;
    bool brings = false;

    for (int i = 0; i < c->nodes.n; i++)
        if (rows_is_held(e, c->nodes.at[i])) {
            turn = turn ? turn : turn_of(e, c->nodes.at[i]->block->owner);
            brings |= !loaded_before(e, c->nodes.at[i]);
        }
    if (brings)
        bring(e, c, p, turn);
    for (int i = 0; i < c->nodes.n; i++)
        if (rows_is_held(e, c->nodes.at[i]))
            rows_take(e, c->nodes.at[i], p, chunk_of(e, c->nodes.at[i], turn));
}
