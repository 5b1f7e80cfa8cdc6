/*
 * Operands of products: packed, and shared by groups.
 *
 * Right ones are packed in panels as wide as the blocks of the product, so that
 * what a block reads lies in one piece, left ones row by row.  All groups of a
 * column of blocks multiply by the same blocks of b.  So what a round of the
 * loop over the depth takes of b stays, packed (and turned, and converted), in
 * memory of the thread: the next group that asks for the same places of the
 * same parameter finds it there; so does the next column of what the row takes
 * of a, where that is copied.  Places are compared, so nothing is assumed of
 * how groups are launched; but they run in strips of a few columns, from the
 * top to the bottom, as many as have room in the second cache.
 *
 *     columns of a strip: w      slot: (column % w) * rounds + round      tag: where the load begins
 */
#include "codegen/cpu_dot.h"

#include <stddef.h>
#include <unistd.h>

enum {
    ROOM = 8 << 20, STRIP = 1 << 20,    /* bytes of an operand for one column, of a strip */
    TAG = TILE_RANK_MAX,                /* words of a tag */
    ENOUGH_WAYS = 12,                   /* of the first cache, for the rows of a block */
    ROWS_AHEAD = 6,                     /* that are asked for while one is packed: they lie too far apart for machines to see */
    FEW_ROWS = 16,                      /* of the left operand, for which the right one is not worth a copy */
    NEW = 64,                           /* bytes at the start of scratch memory that say that it was used before */
};

static LLVMTypeRef i64_type(CpuCode *e) { return LLVMInt64TypeInContext(e->u->context); }

static const TileNode *load_of(const TileNode *n) { return n->op == TOP_permute ? n->in[0].node : n; }

/* ---- which ones ---- */

/* Does it follow from sizes alone? */
static bool is_uniform(const TileNode *n, int depth)
{
    switch (n->op) {
    case TOP_index: case TOP_size: return true;
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv: case TOP_imod: case TOP_imin: case TOP_imax:
        return depth && is_uniform(n->in[0].node, depth - 1) && is_uniform(n->in[1].node, depth - 1);
    default: return false;
    }
}

typedef struct Written { const CpuCode *e; const TileNode *param; bool is, in_turn; } Written;

/* Is the parameter stored to, and do atomics show the order of groups? */
static void look(Written *w, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        bool writes = n->op == TOP_store || tile_is_atomic(n->op) || n->op == TOP_copy || n->op == TOP_copy_async;
        if (writes) {
            const TileNode *to = cpu_root(n->in[0]);
            w->is |= to == w->param || (to->op != TOP_alloc && !(to->op == TILE_PARAM && to->block == &w->e->k->body));
            w->in_turn |= n->op == TOP_update || (n->op == TOP_atomic && dtype_is_inexact((DType)tile_type(n->in[0])->dtype));
        }
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                look(w, n->region[r]);
    }
}

int cpu_panel(const CpuCode *e, const TileNode *dot, int operand)
{
    int columns = DOT_WIDE * cpu_dot_width(e, dot);

    if (operand == 0)
        return tile_type(dot->in[0])->extent[1];
    return tile_type(dot->in[1])->extent[1] % columns ? 0 : columns;
}

/* A load, transposed or not, for one product alone. */
static bool packs(CpuCode *e, const TileNode *dot, int operand)
{
    const TileNode *n = dot->in[operand].node, *load = load_of(n);
    int panel = cpu_panel(e, dot, operand), side = e->u->machine->vector_bytes / (int)raw_size(lane_dtype((DType)n->type[0].dtype));

    if (load->op != TOP_load || load->nuse != 1 || n->nuse != 1 || load->block != dot->block || n->block != dot->block)
        return false;
    return panel && (n->op == TOP_load || (cpu_turns(e, dot->in[operand]) && panel % side == 0));
}

/*
 * Is a left operand whose rows are rows of the block better read where it lies?  A copy takes as long as it gains, unless rows that are a power of
 * two apart meet in a place of the first cache that has too few ways for them.
 */
static bool reads_left(const CpuCode *e, const TileNode *n)
{
    long ways = e->u->machine == machine_host() ? sysconf(_SC_LEVEL1_DCACHE_ASSOC) : 0;

    return n->op == TOP_load && raw_is_lane((DType)n->type[0].dtype) && ways >= ENOUGH_WAYS;
}

/* Do rounds of the product's loop, and what they load, follow from sizes, so that other groups have the same? */
static bool lasts(CpuCode *e, const TileNode *dot, const TileNode *load)
{
    const TileNode *loop = dot->block->owner;
    Written w = {.e = e};

    for (int i = 0; i < 3; i++)
        if (!is_uniform(loop->in[i].node, 16))
            return false;
    w.param = load->in[0].node;
    look(&w, &e->k->body);
    return w.param->op == TILE_PARAM && w.param->block == &e->k->body && !w.is;
}

static bool keeps(CpuCode *e, const TileNode *dot, int operand)
{
    return packs(e, dot, operand) && (operand == 1 || !reads_left(e, dot->in[0].node)) && lasts(e, dot, load_of(dot->in[operand].node));
}

static int64_t slot_bytes(const TileType *t) { return (cpu_tile_bytes(t) + 63) / 64 * 64; }

/* Only launches of programs' kernels say when memory is new (ir/schedule/launched.c). */
static void find(CpuCode *e)
{
    const TileNode *load;
    int64_t bytes;

    if (!cpu_size(e, sym("_groups")))
        return;
    for (const TileNode *loop = e->k->body.first; loop; loop = loop->next) {
        if (loop->op != TOP_for)
            continue;
        for (const TileNode *n = loop->region[0]->first; n; n = n->next)
            for (int i = 1; i >= 0 && n->op == TOP_dot; i--)
                if (!cpu_unit_parts(e, n) && keeps(e, n, i))
                    vec_push(&e->kept, ((Kept){.node = n->in[i].node, .operand = i, .loop = loop, .bytes = slot_bytes(tile_type(n->in[i]))}));
                else if (i == 1 && cpu_unit_parts(e, n) && (load = cpu_unit_keeps(e, n, &bytes)) && lasts(e, n, load))
                    vec_push(&e->kept, ((Kept){.node = load, .units = true, .operand = 1, .loop = loop, .bytes = bytes}));
    }
}

/* ---- how much ---- */

static LLVMValueRef at_least(CpuCode *e, LLVMValueRef a, int64_t b)
{
    LLVMTypeRef t = i64_type(e);

    return cpu_intrinsic(e, "llvm.smax", &t, 1, (LLVMValueRef[]){a, cpu_number(e, b)}, 2);
}

static LLVMValueRef quotient(CpuCode *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSDiv(e->u->builder, a, b, ""); }

/* Rounds of a loop that have slots: all, unless they take too much room. */
static LLVMValueRef rounds(CpuCode *e, const Kept *k)
{
    LLVMValueRef step = at_least(e, cpu_uniform(e, k->loop->in[2].node), 1);
    LLVMValueRef length = cpu_op(e, LLVMSub, cpu_uniform(e, k->loop->in[1].node), cpu_uniform(e, k->loop->in[0].node));

    length = quotient(e, cpu_op(e, LLVMAdd, length, cpu_op(e, LLVMSub, step, cpu_number(e, 1))), step);
    return cpu_smaller(e, at_least(e, length, 1), cpu_number(e, ROOM / k->bytes > 1 ? ROOM / k->bytes : 1));
}

/* Columns of a strip: 1 where groups have no columns. */
static LLVMValueRef columns(CpuCode *e, LLVMValueRef bytes)
{
    LLVMValueRef across = cpu_size(e, sym("_across"));

    if (!across)
        return cpu_number(e, 1);
    bytes = at_least(e, bytes, 1);
    return at_least(e, cpu_smaller(e, across, quotient(e, cpu_number(e, STRIP), bytes)), 1);
}

/* Fills in rounds and offsets of the kept operands, which need not be those of another function; the bytes of all. */
static LLVMValueRef plan(CpuCode *e)
{
    LLVMValueRef column = cpu_number(e, 0), all = cpu_number(e, 0);

    for (int i = 0; i < e->kept.n; i++) {
        Kept *k = &e->kept.at[i];
        k->rounds = rounds(e, k);
        if (k->operand == 1)
            column = cpu_op(e, LLVMAdd, column, cpu_op(e, LLVMMul, k->rounds, cpu_number(e, k->bytes)));
    }
    e->strip_columns = columns(e, column);
    for (int i = 0; i < e->kept.n; i++) {
        Kept *k = &e->kept.at[i];
        k->slots = k->operand == 1 ? cpu_op(e, LLVMMul, k->rounds, e->strip_columns) : k->rounds;
        k->offset = all;
        all = cpu_op(e, LLVMAdd, all, cpu_op(e, LLVMMul, k->slots, cpu_number(e, k->bytes + 8 * TAG)));
        all = cpu_op(e, LLVMAnd, cpu_op(e, LLVMAdd, all, cpu_number(e, 63)), cpu_number(e, -64));
    }
    return all;
}

LLVMValueRef cpu_keep_bytes(CpuCode *e) { return e->kept.n ? plan(e) : cpu_number(e, 0); }

static LLVMValueRef offset(CpuCode *e, LLVMValueRef base, LLVMValueRef bytes)
{
    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), base, &bytes, 1, "");
}

/* The tags follow the slots. */
static LLVMValueRef tag(CpuCode *e, const Kept *k, LLVMValueRef slot)
{
    LLVMValueRef at = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, k->slots, cpu_number(e, k->bytes)), cpu_op(e, LLVMMul, slot, cpu_number(e, 8 * TAG)));

    return offset(e, k->base, at);
}

/* Nothing is there yet: what nobody loads from. */
static void clear_tags(CpuCode *e)
{
    for (int i = 0; i < e->kept.n; i++) {
        CpuLoop l = cpu_loop(e, cpu_number(e, 0), e->kept.at[i].slots, cpu_number(e, 1));
        LLVMBuildStore(e->u->builder, cpu_number(e, INT64_MIN), tag(e, &e->kept.at[i], l.i));
        cpu_loop_end(e, &l);
    }
}

LLVMValueRef cpu_keep_begin(CpuCode *e)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef first, done;
    LLVMValueRef all, old;

    find(e);
    all = e->kept.n ? plan(e) : cpu_number(e, 0);
    for (int i = 0; i < e->kept.n; i++)
        e->kept.at[i].base = offset(e, e->scratch, cpu_op(e, LLVMAdd, e->fixed, e->kept.at[i].offset));
    if (!e->kept.n)
        return all;
    first = cpu_block(e);
    done = cpu_block(e);
    e->fixed_bytes += NEW;
    old = LLVMBuildLoad2(b, i64_type(e), e->scratch, "");
    LLVMBuildCondBr(b, cpu_compare(e, LLVMIntEQ, old, cpu_number(e, 0)), first, done);
    LLVMPositionBuilderAtEnd(b, first);
    clear_tags(e);
    LLVMBuildStore(b, cpu_number(e, 1), e->scratch);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    return all;
}

/* ---- the order of groups ---- */

LLVMValueRef cpu_keep_group(CpuCode *e, LLVMValueRef place)
{
    LLVMValueRef across = e->kept.n ? cpu_size(e, sym("_across")) : NULL, groups, rows, wide, strip, rest, row, column, last;
    Written w = {.e = e};

    if (!across || e->k->grid.n != 1)
        return place;
    look(&w, &e->k->body);
    if (w.in_turn)
        return place;
    across = at_least(e, across, 1);
    groups = cpu_groups(e, 0);
    rows = quotient(e, groups, across);
    wide = e->strip_columns;
    strip = quotient(e, place, at_least(e, cpu_op(e, LLVMMul, rows, wide), 1));
    rest = cpu_op(e, LLVMSub, place, cpu_op(e, LLVMMul, strip, cpu_op(e, LLVMMul, rows, wide)));
    last = at_least(e, cpu_smaller(e, wide, cpu_op(e, LLVMSub, across, cpu_op(e, LLVMMul, strip, wide))), 1);
    row = quotient(e, rest, last);
    column = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, strip, wide), cpu_op(e, LLVMSub, rest, cpu_op(e, LLVMMul, row, last)));
    row = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, row, across), column);
    return cpu_choose(e, cpu_compare(e, LLVMIntEQ, cpu_op(e, LLVMMul, rows, across), groups), row, place);      /* whole rows */
}

/* ---- use ---- */

static const Kept *find_kept(const CpuCode *e, const TileNode *n, bool units)
{
    for (int i = 0; i < e->kept.n; i++)
        if (e->kept.at[i].node == n && e->kept.at[i].units == units)
            return &e->kept.at[i];
    return NULL;
}

LLVMValueRef cpu_packed_at(CpuCode *e, const TileType *t, const Spot *p, int panel)
{
    LLVMValueRef column = p->at[1], wide = cpu_number(e, panel ? panel : t->extent[1]), place;

    if (!panel)
        return cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, p->at[0], wide), column);
    place = cpu_op(e, LLVMMul, LLVMBuildUDiv(e->u->builder, column, wide, ""), cpu_number(e, t->extent[0]));
    place = cpu_op(e, LLVMMul, cpu_op(e, LLVMAdd, place, p->at[0]), wide);
    return cpu_op(e, LLVMAdd, place, LLVMBuildURem(e->u->builder, column, wide, ""));
}

bool cpu_is_packed(CpuCode *e, const TileNode *dot, int operand)
{
    const TileNode *n = dot->in[operand].node, *load = load_of(n);

    if (!packs(e, dot, operand) || cpu_val(e, dot->in[operand])->x || cpu_val(e, (TileRef){(TileNode *)load, 0})->x)
        return false;
    return find_kept(e, n, false) || (operand == 1 && tile_type(load->in[0])->space == SPACE_GLOBAL && tile_type(dot->in[0])->extent[0] > FEW_ROWS);
}

/* Which slot: by the round, and of a right operand by the column that the load is of. */
static LLVMValueRef slot_of(CpuCode *e, const Kept *k)
{
    const TileNode *load = load_of(k->node), *i = k->loop->region[0]->params.at[0];
    LLVMValueRef step = at_least(e, cpu_val(e, k->loop->in[2])->x, 1), round, column, start;
    int last = tile_type(load->in[0])->rank - 1;

    round = quotient(e, cpu_op(e, LLVMSub, cpu_val(e, (TileRef){(TileNode *)i, 0})->x, cpu_val(e, k->loop->in[0])->x), step);
    round = cpu_smaller(e, round, cpu_op(e, LLVMSub, k->rounds, cpu_number(e, 1)));
    if (k->operand == 0)
        return round;
    start = cpu_val(e, load->in[1 + last])->x;
    column = quotient(e, at_least(e, start, 0), cpu_number(e, load->attr->shape[last]));
    column = LLVMBuildSRem(e->u->builder, column, e->strip_columns, "");
    return cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, column, k->rounds), round);
}

static void pack(CpuCode *e, const TileNode *n, LLVMValueRef to, int panel)
{
    e->rows_ahead = tile_type(load_of(n)->in[0])->space == SPACE_GLOBAL ? ROWS_AHEAD : 0;
    if (n->op == TOP_load)
        cpu_buffered(e, n, to, panel);
    else
        cpu_turn(e, n, to, panel);
    e->rows_ahead = 0;
}

/* The operand in its slot, packed there unless it was. */
static LLVMValueRef kept(CpuCode *e, const Kept *k, const TileNode *dot)
{
    const TileNode *load = load_of(k->node);
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef fill = cpu_block(e), done = cpu_block(e);
    LLVMValueRef slot = slot_of(e, k), at = offset(e, k->base, cpu_op(e, LLVMMul, slot, cpu_number(e, k->bytes))), tags = tag(e, k, slot);
    LLVMValueRef same = NULL;
    int rank = tile_type(load->in[0])->rank;

    for (int i = 0; i < rank; i++) {
        LLVMValueRef was = LLVMBuildLoad2(b, i64_type(e), offset(e, tags, cpu_number(e, 8 * i)), "");
        LLVMValueRef is = cpu_compare(e, LLVMIntEQ, was, cpu_val(e, load->in[1 + i])->x);
        same = same ? LLVMBuildAnd(b, same, is, "") : is;
    }
    LLVMBuildCondBr(b, same, done, fill);
    LLVMPositionBuilderAtEnd(b, fill);
    for (int i = 0; i < rank; i++)
        LLVMBuildStore(b, cpu_val(e, load->in[1 + i])->x, offset(e, tags, cpu_number(e, 8 * i)));
    if (k->units)
        cpu_unit_fill(e, dot, at);
    else
        pack(e, k->node, at, cpu_panel(e, dot, k->operand));
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    return at;
}

LLVMValueRef cpu_packed(CpuCode *e, const TileNode *dot, int operand)
{
    const TileNode *n = dot->in[operand].node;
    const Kept *k = find_kept(e, n, false);
    LLVMValueRef to;

    if (k)
        return kept(e, k, dot);
    to = cpu_buffer(e, cpu_tile_bytes(&n->type[0]));
    pack(e, n, to, cpu_panel(e, dot, operand));
    return to;
}

LLVMValueRef cpu_unit_kept(CpuCode *e, const TileNode *dot, const TileNode *load)
{
    const Kept *k = find_kept(e, load, true);

    return k ? kept(e, k, dot) : NULL;
}
