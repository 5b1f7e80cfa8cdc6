/*
 * Tiles that follow the sums of a product by warpgroups: blocks of the sums' shape that what is stored is computed from, as what is added to a
 * product, or what its elements are multiplied by.
 *
 * The producer brings them through the ring, in rounds behind those of the loop, so they are there when the sums are.  The consumers take
 * what they have of them into registers, two elements a word, 64 rows of a warpgroup at a time, and the slots are free for the next tile.
 *
 *      slot:   left operand's part | right operand's part
 *              piece piece ...       piece piece ...             a piece: 64 rows of 128 bytes, permuted as TMA does
 *
 * Pieces go by a warpgroup's rows, by tile and by 64 columns of it; those of all warpgroups lie side by side, a set.
 */
#include "codegen/gpu_roles.h"

#include "base/alloc.h"

enum { PIECE = GROUP_ROWS * WIDE_BYTES, HALF = 2 };             /* bytes of a piece, of an element */
enum { TURNED_ROWS = 8, PIECE_WORDS = 16 };                     /* a thread's words of a piece */

static int groups_of(const Roles *r) { return r->threads / GROUP_THREADS; }
static int rows_of(const Roles *r) { return r->extent[0] / GROUP_ROWS / groups_of(r); }       /* pieces of a warpgroup above each other */
static int slabs_of(const Roles *r) { return r->extent[1] * HALF / WIDE_BYTES; }
static int sets_of(const Roles *r) { return rows_of(r) * slabs_of(r); }        /* of pieces, one for each warpgroup, of a tile */

/* Sets of pieces that the part of an operand in a slot has room for. */
static int room_of(const Roles *r, int operand) { return (int)(r->o[operand].bytes / PIECE / groups_of(r)); }
static int room(const Roles *r) { return room_of(r, 0) + room_of(r, 1); }

/* ---- which tiles ---- */

/* Is a tile used for nothing but what is stored as a whole, element by element? */
static bool is_for_stores(const CpuCode *e, const Roles *r, const TileNode *v)
{
    for (const TileNode *n = e->k->body.first; n; n = n->next)
        for (int i = 0; i < n->nin; i++) {
            bool stored = false;
            if (n->in[i].node != v)
                continue;
            for (int k = 0; k < r->nstores; k++)
                stored |= r->store[k].store == n && i == n->nin - 1;
            if (!stored && (n->op != TOP_map || n->type[0].rank != 2 || n->type[0].extent[0] != r->extent[0] ||
                            n->type[0].extent[1] != r->extent[1] || !is_for_stores(e, r, n)))
                return false;
        }
    return true;
}

/* Is it known that elements of a row lie side by side, and rows not in the same place? */
static bool lies_by_rows(const TileNode *load, int second)
{
    const TileType *view = tile_type(load->in[0]);

    return view->stride[view->rank - 1] == 1 && view->stride[second] != 0;
}

void roles_find_late(const CpuCode *e, Roles *r)
{
    enum { WORDS = 64 };        /* registers that a thread has for them */
    int words = r->extent[0] * r->extent[1] / r->threads / 2;

    if (r->extent[1] * HALF % WIDE_BYTES || !room(r) || roles_split(r))
        return;
    for (const TileNode *n = e->k->body.first; n; n = n->next) {
        RoleOperand o;
        if (r->nlate == LATE_MOST || r->nmaps == GPU_MAPS || (r->nlate + 1) * words > WORDS)
            return;
        if (n->op != TOP_load || n->type[0].rank != 2 || raw_size((DType)n->type[0].dtype) != HALF || n->type[0].extent[0] != r->extent[0] ||
            n->type[0].extent[1] != r->extent[1] || !role_block(e, n, &o) || o.part || o.span != WIDE_BYTES || !lies_by_rows(n, o.axes.second))
            continue;
        if (!is_for_stores(e, r, n))
            continue;
        o.box[1] = GROUP_ROWS;
        r->late[r->nlate++] = (RoleLate){.o = o, .map = r->nmaps++};
    }
}

int roles_late_rounds(const Roles *r) { return r->nlate ? (r->nlate * sets_of(r) + room(r) - 1) / room(r) : 0; }

/* ---- pieces ---- */

/* Where the piece of a warpgroup lies, of set number `set` of pieces in this slot. */
static LLVMValueRef piece_of(CpuCode *e, LLVMValueRef stage, int set, LLVMValueRef group)
{
    const Roles *r = roles(e);
    int first = room_of(r, 0), operand = set < first ? 0 : 1, at = set < first ? set : set - first;
    const RoleOperand *o = &r->o[operand];
    LLVMValueRef to = plus(e, r->base, op32(e, LLVMAdd, op32(e, LLVMMul, stage, o->bytes), o->at + (int64_t)at * groups_of(r) * PIECE));

    return plus(e, to, op32(e, LLVMMul, group, PIECE));
}

/* ---- the producer ---- */

static const RoleLate *late_of(const Roles *r, int set) { return &r->late[set / slabs_of(r) % r->nlate]; }
static int rows_at(const Roles *r, int set) { return set / slabs_of(r) / r->nlate; }

/* Number `set` of all sets of pieces, whose tile begins at `first`. */
static void send_set(CpuCode *e, int set, LLVMValueRef stage, LLVMValueRef *first)
{
    Roles *r = roles(e);
    const RoleLate *l = late_of(r, set);
    int rank = tile_type(l->o.load->in[0])->rank;

    first[0] = op32(e, LLVMAdd, first[0], (int64_t)(set % slabs_of(r)) * l->o.box[0]);
    first[1] = op32(e, LLVMAdd, first[1], (int64_t)rows_at(r, set) * groups_of(r) * GROUP_ROWS);
    for (int g = 0; g < groups_of(r); g++) {
        gpu_tensor_load(e, piece_of(e, stage, set % room(r), i32_number(e, g)), r->map[l->map], first, rank, role_full(e, &r->ring, stage));
        first[1] = op32(e, LLVMAdd, first[1], GROUP_ROWS);
    }
}

void role_bring_late(CpuCode *e)
{
    Roles *r = roles(e);
    int all = r->nlate * sets_of(r);

    if (!r->nlate)
        return;
    for (const TileNode *n = r->loop->next; n; n = n->next)
        role_emit_known(e, n);
    for (int set = 0; set < all;) {
        int end = set + room(r) < all ? set + room(r) : all;
        LLVMValueRef stage = role_make_room(e, &r->ring, (int64_t)(end - set) * groups_of(r) * PIECE), at[TILE_RANK_MAX];
        for (; set < end; set++) {
            role_coordinates(e, late_of(r, set)->o.load, late_of(r, set)->o.axes, at);
            send_set(e, set, stage, at);
        }
        role_next(e, &r->ring);
    }
}

/* ---- the consumers ---- */

/* This thread's words of a piece: of each 16 columns four matrices. */
static void take_piece(CpuCode *e, LLVMValueRef at, LLVMValueRef *word)
{
    LLVMValueRef lane = op32(e, LLVMAnd, e->gpu->thread, GPU_WARP - 1), row = role_warp_row(e), turn, piece;

    row = plus(e, row, op32(e, LLVMAnd, lane, PIECE_ROWS - 1));
    turn = op32(e, LLVMAnd, row, TURNED_ROWS - 1);
    at = plus(e, at, op32(e, LLVMMul, row, WIDE_BYTES));
    for (int c = 0; c < WIDE_BYTES / HALF / PIECE_ROWS; c++) {
        piece = LLVMBuildXor(e->u->builder, op32(e, LLVMAdd, op32(e, LLVMLShr, lane, 4), 2 * c), turn, "");
        gpu_load_matrices(e, plus(e, at, op32(e, LLVMShl, piece, 4)), false, word + (size_t)c * 4);
    }
}

/*
 * Sets that take turns meet theirs before the other one goes on: waits tell a slot's rounds apart by their parity alone, so none may be two ahead.
 */
void role_meet_late(CpuCode *e)
{
    Roles *r = roles(e);
    int words = sets_of(r) * PIECE_WORDS;

    for (int i = 0; i < r->nlate; i++) {
        r->late[i].word = arena_array(&e->gpu->arena, LLVMValueRef, words);
        cpu_val(e, (TileRef){(TileNode *)r->late[i].o.load, 0})->fragment = arena_array(&e->gpu->arena, LLVMValueRef, 2 * words);
    }
    r->met = arena_array(&e->gpu->arena, LLVMValueRef, roles_late_rounds(r) + 1);
    r->taken = 0;
    for (int i = 0; i < roles_late_rounds(r); i++) {
        r->met[i] = role_stage(e, &r->ring);
        role_wait(e, &r->ring);
        role_next(e, &r->ring);
    }
}

void role_take_late(CpuCode *e, int rows)
{
    Roles *r = roles(e);
    int all = r->nlate * sets_of(r), end = rows < rows_of(r) ? rows * r->nlate * slabs_of(r) : all;

    for (; r->taken < end; r->taken++) {
        int set = r->taken, round = set / room(r);
        take_piece(e, piece_of(e, r->met[round], set % room(r), role_warpgroup(e)),
                   late_of(r, set)->word + ((size_t)rows_at(r, set) * (size_t)slabs_of(r) + (size_t)(set % slabs_of(r))) * PIECE_WORDS);
        if ((set + 1) % room(r) && set + 1 < all)
            continue;
        gpu_proxy_fence(e);                     /* what is read is in registers before copies write there again */
        gpu_warp_fence(e);
        role_release(e, &r->ring, r->met[round]);
    }
}

void roles_take_all(CpuCode *e) { role_take_late(e, rows_of(roles(e))); }

void roles_enter_register(CpuCode *e, int number)
{
    Roles *r = roles(e);
    LLVMBuilderRef b = e->u->builder;

    for (int i = 0; i < r->nlate && r->late[i].word; i++) {
        const TileNode *n = r->late[i].o.load;
        LLVMValueRef x = r->late[i].word[number / 2];
        if (e->gpu->fragment[0] != n->type[0].extent[0] || e->gpu->fragment[1] != n->type[0].extent[1])
            continue;
        x = LLVMBuildTrunc(b, number % 2 ? op32(e, LLVMLShr, x, 16) : x, LLVMInt16TypeInContext(e->u->context), "");
        cpu_val(e, (TileRef){(TileNode *)n, 0})->fragment[number] = lanes_of_raw(e->u, (DType)n->type[0].dtype, x, 1);
    }
}
