/*
 * Loops of chains whose last product is a round late.
 *
 *      S0 = first product; P0 from S0; A0 = what the last product adds to
 *      for each further round j:
 *          Sj = first product          } both under way
 *          Aj = Aj-1 + Pj-1 Vj-1       }
 *          wait for Sj; Pj from Sj, while the other one may still be under way
 *          wait for the sums of round j - 1; what becomes of them in round j
 *      A = Aj + Pj Vj
 *
 * So the registers are at work on this round's elements while the unit is at the last one's sums.  The first round is
 * emitted by itself, because it has none before it.  What a round hands on is in slots.
 *
 * Warpgroups take turns at sending products on their way: the elements of one are computed under the products of the other.  Between its turn
 * and its products a warpgroup has nothing left to find out: blocks have been waited for, where they lie is known, and so is what the next round
 * begins with (look_ahead), to whose code it goes on at once where that is this round's.  Rounds whose masks leave out nothing have code of their
 * own, in which the maximum of one row is looked for under the exponentials of another.  Sums along rows that are only added up stay apart in the
 * four threads of a row until the loop ends.
 *
 * Two warpgroups have little to hide the late product's wait under, so it comes after all elements of the round; the assembler would have it
 * before them, but moves nothing past the wait for a block, which is there anyway.  Three fill each other's gaps.  What the late product adds to,
 * scaled by a column, stays as it is where all of a warp's rows have ones there: its threads ask each other.  Attention sees to it that they
 * hardly ever have anything else (stdlib/attention.tsr).
 */
#include "codegen/gpu_chain.h"

#include "base/alloc.h"

#include <string.h>

enum { TURN_BARRIER = 8, REGISTERS_OF_TWO = 176, REGISTERS_OF_THREE = 128 };

static Chain *chain(const CpuCode *e) { return e->gpu->roles->chain; }

/* ---- turns ---- */

static int warpgroups(const CpuCode *e) { return roles(e)->threads / GROUP_THREADS; }

static bool takes_turns(const CpuCode *e) { return warpgroups(e) > 1; }

static void take_turn(CpuCode *e)
{
    if (takes_turns(e))
        gpu_named_barrier(e, op32(e, LLVMAdd, role_warpgroup(e), TURN_BARRIER), 2 * GROUP_THREADS);
}

/* The next warpgroup's turn. */
static void give_turn(CpuCode *e)
{
    LLVMValueRef group, last;

    if (!takes_turns(e))
        return;
    group = role_warpgroup(e);
    last = LLVMBuildICmp(e->u->builder, LLVMIntEQ, group, i32_number(e, warpgroups(e) - 1), "");
    group = cpu_choose(e, last, i32_number(e, TURN_BARRIER), op32(e, LLVMAdd, group, TURN_BARRIER + 1));
    gpu_named_arrive(e, group, 2 * GROUP_THREADS);
}

void chain_begin_turns(CpuCode *e)
{
    GpuIf last;

    if (!takes_turns(e))
        return;
    last = gpu_if(e, LLVMBuildICmp(e->u->builder, LLVMIntEQ, role_warpgroup(e), i32_number(e, warpgroups(e) - 1), ""));
    give_turn(e);
    gpu_end_if(e, &last);
}

/* ---- which loops ---- */

static const ChainDot *dot_of(const Chain *c, const TileNode *n)
{
    for (int i = 0; i < c->ndots; i++)
        if (c->dot[i].dot == n)
            return &c->dot[i];
    return NULL;
}

/* Is the parameter used at most once, by the accumulator that a product takes, and that by nobody else? */
static bool only_added_to(const TileNode *param, const TileNode *dot)
{
    const TileNode *n = dot->in[2].node;
    int uses = 0;

    if (n == param)
        return param->nuse == 1;
    if (n->op != TOP_map || n->nuse != 1 || param->nuse != 1)
        return false;
    for (int i = 0; i < n->nin; i++)
        uses += n->in[i].node == param;
    return uses == 1;
}

/* Has the round its right block before it, for other products or what comes with it? */
static bool has_block(const Chain *c, const ChainLate *l)
{
    for (int i = 0; i < c->nriders; i++)
        if (c->rider[i].carrier == l->last->load[1])
            return true;
    for (int i = 0; i < c->ndots; i++)
        if (&c->dot[i] != l->last && (c->dot[i].load[0] == l->last->load[1] || c->dot[i].load[1] == l->last->load[1]))
            return true;
    return false;
}

/* Of a thread, for the sums of all products of a block, and a left operand that is kept for a round. */
static int registers_in(CpuCode *e, const TileBlock *b, const ChainDot *kept)
{
    const Chain *c = chain(e);
    int n = tile_type(kept->dot->in[0])->extent[1] / 2;

    for (int i = 0; i < c->ndots; i++)
        n += c->dot[i].dot->block == b ? c->dot[i].dot->type[0].extent[1] : 0;
    return n * c->rows / roles(e)->threads;
}

static bool find(CpuCode *e, const TileNode *n, ChainLate *l)
{
    const TileBlock *b = n->region[0];
    Chain *c = chain(e);

    *l = (ChainLate){.loop = n, .carry = -1};
    for (const TileNode *m = b->first; m; m = m->next) {
        if (m->region[0] || m->op == TOP_store)
            return false;
        if (m->op == TOP_dot) {
            l->first = l->first ? l->first : dot_of(c, m);
            l->last = dot_of(c, m);
        }
    }
    if (!l->first || l->first == l->last || l->first->load[0] < 0 || !role_is_zeros(l->first->dot->in[2]) || l->last->load[0] >= 0)
        return false;
    for (int i = 0; i < b->yields.n; i++) {
        if (!gpu_carries_fragment(e, (TileRef){b->params.at[i + 1], 0}))
            return false;
        l->carry = b->yields.at[i].node == l->last->dot ? i : l->carry;
    }
    return l->carry >= 0 && registers_in(e, b, l->last) <= (warpgroups(e) > 2 ? REGISTERS_OF_THREE : REGISTERS_OF_TWO) &&
           l->last->dot->nuse == 1 && only_added_to(b->params.at[l->carry + 1], l->last->dot) && !c->ring[c->load[l->last->load[1]].ring].stays;
}

/* ---- sums along rows ---- */

static bool is_op(TileRef v, OpId op) { return v.node->op == TOP_map && v.node->attr->op == op && v.node->nuse == 1; }

static bool is_kept(TileRef v, const TileNode *param)
{
    return v.node == param || (is_op(v, OP_mul) && (v.node->in[0].node == param || v.node->in[1].node == param));
}

static bool is_sum(TileRef v, const TileNode *reduce)
{
    while (v.node->op == TOP_reshape && v.node->nuse == 1)
        v = v.node->in[0];
    return v.node == reduce;
}

/*
 * Which of the loop's results a sum along rows is added to, if that is all that becomes of both: s = s * column + sum. -1: none. Each of the four
 * threads of a row then has a sum of its own, and they meet behind the loop.
 */
static int sum_of_rows(CpuCode *e, const ChainLate *l, const TileNode *reduce)
{
    const TileBlock *b = l->loop->region[0];

    if (reduce->block != b || reduce->nuse != 1 || tile_step_op((OpId)reduce->attr->op) != OP_add ||
        !gpu_sums_to_column(e, tile_type(reduce->in[0])) || !gpu_stays(e, (TileRef){(TileNode *)reduce, 0}))
        return -1;
    for (int i = 0; i < b->yields.n; i++) {
        TileRef y = b->yields.at[i];
        const TileNode *param = b->params.at[i + 1];
        if (!is_op(y, OP_add) || param->nuse != 1 || !role_is_zeros(l->loop->in[3 + i]))
            continue;
        for (int k = 0; k < 2; k++)
            if (is_sum(y.node->in[k], reduce) && is_kept(y.node->in[1 - k], param))
                return i;
    }
    return -1;
}

bool chain_joins_late(CpuCode *e, const TileNode *reduce)
{
    return gpu_is_chain(e) && chain(e)->late && sum_of_rows(e, chain(e)->late, reduce) >= 0;
}

/* The threads of a row meet, for each of the loop's results whose sums have been kept apart. */
static void join_late(CpuCode *e, const ChainLate *l, int result, LLVMValueRef *x, int n)
{
    for (const TileNode *m = l->loop->region[0]->first; m; m = m->next) {
        if (m->op != TOP_reduce || sum_of_rows(e, l, m) != result)
            continue;
        for (int i = 0; i < n; i++)
            for (int k = 1; k < ROW_LANES; k *= 2)
                x[i] = LLVMBuildFAdd(e->u->builder, x[i], gpu_other(e, x[i], k, i32_number(e, -1)), "");
    }
}

/* ---- slots ---- */

static LLVMValueRef *make_slots(CpuCode *e, LLVMValueRef *x, int n)
{
    LLVMValueRef *slot = arena_array(&e->gpu->arena, LLVMValueRef, n);

    for (int i = 0; i < n; i++)
        slot[i] = llvm_slot(e->u, LLVMTypeOf(x[i]));
    return slot;
}

static void put(CpuCode *e, LLVMValueRef *slot, LLVMValueRef *x, int n)
{
    for (int i = 0; i < n; i++)
        LLVMBuildStore(e->u->builder, x[i], slot[i]);
}

static LLVMValueRef *take(CpuCode *e, LLVMValueRef *slot, int n)
{
    LLVMValueRef *x = arena_array(&e->gpu->arena, LLVMValueRef, n);

    for (int i = 0; i < n; i++)
        x[i] = LLVMBuildLoad2(e->u->builder, LLVMGetAllocatedType(slot[i]), slot[i], "");
    return x;
}

static int registers_of(CpuCode *e, TileRef v)
{
    Fragment f;

    gpu_fragment_of(e, tile_type(v), &f);
    return gpu_registers(&f);
}

static LLVMValueRef is_so(CpuCode *e, LLVMValueRef slot) { return LLVMBuildLoad2(e->u->builder, LLVMInt1TypeInContext(e->u->context), slot, ""); }

/* ---- rounds ahead ---- */

/* What the walk over the kernel knows, so that a block can be emitted again. */
typedef struct Walk { Val *val; uint32_t *seen; bool *visited; } Walk;

static void remember(CpuCode *e, Walk *w)
{
    size_t n = (size_t)e->k->nnodes + 1;

    w->val = tsr_alloc(sizeof *w->val * e->nvals);
    w->seen = tsr_alloc(sizeof *w->seen * n);
    w->visited = tsr_alloc(n);
    memcpy(w->val, e->val, sizeof *w->val * e->nvals);
    memcpy(w->seen, e->seen, sizeof *w->seen * n);
    memcpy(w->visited, e->visited, n);
}

static void restore(CpuCode *e, const Walk *w)
{
    size_t n = (size_t)e->k->nnodes + 1;

    memcpy(e->val, w->val, sizeof *w->val * e->nvals);
    memcpy(e->seen, w->seen, sizeof *w->seen * n);
    memcpy(e->visited, w->visited, n);
}

static void forget(Walk *w)
{
    tsr_free(w->val);
    tsr_free(w->seen);
    tsr_free(w->visited);
}

/*
 * What the next round begins with: its number, whether there is one, and whether its masks leave out nothing; and whether its blocks are there.
 * That takes a while, and is known while products are under way.
 */
static void look_ahead(CpuCode *e, ChainLate *l)
{
    const TileBlock *b = l->loop->region[0];
    LLVMValueRef next = cpu_op(e, LLVMAdd, cpu_val(e, (TileRef){b->params.at[0], 0})->x, l->step);
    Chain *c = chain(e);
    Walk now;

    LLVMBuildStore(e->u->builder, next, l->i);
    LLVMBuildStore(e->u->builder, cpu_compare(e, LLVMIntSLT, next, l->hi), l->more);
    if (l->keep) {
        remember(e, &now);
        cpu_val(e, (TileRef){b->params.at[0], 0})->x = next;
        LLVMBuildStore(e->u->builder, gpu_masks_keep_all(e, b), l->keep);
        restore(e, &now);
        forget(&now);
    }
    for (int i = 0; !l->waits && c->sums <= SUMS_WITH_ROOM && i < c->nloads; i++) {
        ChainLoad *load = &c->load[i];
        if (load->load->block != b || c->ring[load->ring].stays || (!load->held && (l->held || i != l->last->load[1])))
            continue;
        if (!load->peek)
            load->peek = llvm_slot(e->u, i32_type(e));
        LLVMBuildStore(e->u->builder, role_peek(e, &c->ring[load->ring].ring), load->peek);
    }
}

/* The blocks that the next round begins with, if there is one (`next`), or this one's of the late product. */
static void await_blocks(CpuCode *e, const ChainLate *l, bool next)
{
    Chain *c = chain(e);

    for (int i = 0; i < c->nloads; i++) {
        ChainLoad *load = &c->load[i];
        const RoleRing *g = &c->ring[load->ring].ring;
        if (load->load->block != l->loop->region[0] || c->ring[load->ring].stays || (i == l->last->load[1]) == next)
            continue;
        if (next)
            role_wait_unless(e, g, LLVMBuildZExt(e->u->builder, LLVMBuildNot(e->u->builder, is_so(e, l->more), ""), i32_type(e), ""));
        else
            role_wait(e, g);
        load->awaited = true;
    }
}

/* ---- products ---- */

static TileRef sum_param(const ChainLate *l) { return (TileRef){l->loop->region[0]->params.at[l->carry + 1], 0}; }

/* The last product of the round before; its block is another one than this round's. */
static void issue_late(CpuCode *e, ChainLate *l)
{
    ChainLoad *right = &chain(e)->load[l->last->load[1]];
    LLVMValueRef held = right->held, phase = right->phase, *sum = take(e, l->sum, l->nsums);
    ChainFlight *f;

    if (l->held) {
        right->held = get(e, l->held);
        right->phase = get(e, l->phase);
    }
    f = chain_issue(e, l->last, take(e, l->word, l->nwords), true, sum);
    f->held = right->held;
    f->phase = right->phase;
    f->value = sum_param(l).node;
    cpu_val(e, (TileRef){(TileNode *)l->last->dot, 0})->fragment = NULL;
    cpu_val(e, sum_param(l))->fragment = sum;
    right->held = l->held ? held : NULL;
    right->phase = phase;
}

/* The first product of a round, and with it the last one of the round before. */
static void begin_round(CpuCode *e, ChainLate *l)
{
    LLVMValueRef group = roles(e)->group;

    l->mark = l->kept = NULL;
    cpu_close(e);
    roles(e)->group = role_warpgroup(e);        /* once, before the turn */
    chain_await(e, l->first);
    if (l->pending && !l->held)
        chain_await(e, l->last);
    take_turn(e);
    chain_issue_free(e, l->first);
    if (l->pending)
        issue_late(e, l);
    give_turn(e);
    roles(e)->group = group;
    look_ahead(e, l);
    if (!l->held)
        LLVMBuildStore(e->u->builder, chain_right(e, l->last, role_stage(e, &chain(e)->ring[chain(e)->load[l->last->load[1]].ring].ring)), l->low);
}

/* ---- sums that are scaled ---- */

/* The column that the late product's sums are scaled by, if that is all that becomes of them: n registers. NULL: it is not. */
static LLVMValueRef *scale_of(CpuCode *e, const ChainLate *l, int *n)
{
    const TileNode *scaled = l->last->dot->in[2].node;
    Fragment f;
    TileRef v;

    if (scaled->op != TOP_map || scaled->attr->op != OP_mul)
        return NULL;
    v = scaled->in[scaled->in[0].node == sum_param(l).node];
    while ((v.node->op == TOP_splat || v.node->op == TOP_reshape) && !cpu_val(e, v)->fragment)
        v = v.node->in[0];
    if (!gpu_is_column(tile_type(v)) || !gpu_fragment_of(e, tile_type(v), &f))
        return NULL;
    *n = gpu_registers(&f);
    return cpu_val(e, v)->fragment;
}

/* Are n numbers of all threads of a warp one? */
static LLVMValueRef are_ones(CpuCode *e, LLVMValueRef *x, int n)
{
    LLVMValueRef in[2] = {i32_number(e, -1), NULL}, is;

    for (int i = 0; i < n; i++) {
        is = LLVMBuildFCmp(e->u->builder, LLVMRealOEQ, x[i], LLVMConstReal(LLVMTypeOf(x[i]), 1.0), "");
        in[1] = i ? LLVMBuildAnd(e->u->builder, in[1], is, "") : is;
    }
    return cpu_intrinsic(e, "llvm.nvvm.vote.all.sync", &(LLVMTypeRef){NULL}, 0, in, 2);
}

/* What the late product's sums, which have arrived, come to in this round: they are passed over where they are scaled by ones. */
static void rescale(CpuCode *e, const ChainLate *l)
{
    LLVMBuilderRef b = e->u->builder;
    TileRef v = l->last->dot->in[2];
    LLVMBasicBlockRef from, way, end, done;
    LLVMValueRef *scale, *old = cpu_val(e, sum_param(l))->fragment, *x, *y;
    int n = 0;

    if (v.node == sum_param(l).node)
        return;
    gpu_columns_now(e, v);
    scale = scale_of(e, l, &n);
    if (!scale)
        return;
    from = LLVMGetInsertBlock(b), way = cpu_block(e), done = cpu_block(e);
    LLVMBuildCondBr(b, l->kept ? l->kept : are_ones(e, scale, n), done, way);
    LLVMPositionBuilderAtEnd(b, way);
    x = gpu_fragment_now(e, v, &n);
    end = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    y = arena_array(&e->gpu->arena, LLVMValueRef, n);
    for (int i = 0; i < n; i++) {
        y[i] = LLVMBuildPhi(b, LLVMTypeOf(x[i]), "");
        LLVMAddIncoming(y[i], &old[i], &from, 1);
        LLVMAddIncoming(y[i], &x[i], &end, 1);
    }
    cpu_val(e, v)->fragment = y;
}

/* The late product's sums are there from here on. */
static void arrive_late(CpuCode *e, const ChainLate *l)
{
    if (l->waits)
        await_blocks(e, l, false);
    chain_value(e, l->last->dot->in[2]);
}

void chain_wait_within(CpuCode *e)
{
    arrive_late(e, chain(e)->late);
    chain(e)->late->arrived = true;
}

/* The last product of a round is kept for the next one. */
static void end_round(CpuCode *e, ChainLate *l)
{
    ChainLoad *right = &chain(e)->load[l->last->load[1]];
    LLVMValueRef *word;
    Fragment f;

    cpu_close(e);
    word = chain_left(e, l->last->dot, &l->nwords);
    if (!l->word)
        l->word = make_slots(e, word, l->nwords);
    gpu_fragment_of(e, &l->last->dot->type[0], &f);
    if (!l->arrived)
        arrive_late(e, l);
    l->arrived = false;
    if (l->pending)
        rescale(e, l);
    put(e, l->sum, gpu_fragment_values(e, l->last->dot->in[2], &f), l->nsums);
    put(e, l->word, word, l->nwords);
    if (l->waits)
        await_blocks(e, l, true);
    if (l->held) {
        LLVMBuildStore(e->u->builder, chain_right(e, l->last, right->held), l->low);
        put(e, &l->held, &right->held, 1);
        put(e, &l->phase, &right->phase, 1);
        right->held = NULL;
    }
}

bool chain_late_dot(CpuCode *e, const ChainDot *d)
{
    ChainLate *l = chain(e)->late;

    if (!l || (d != l->first && d != l->last))
        return false;
    if (d == l->first)
        begin_round(e, l);
    else
        end_round(e, l);
    return true;
}

/* ---- the loop ---- */

static void round_of(CpuCode *e, ChainLate *l, LLVMValueRef i, LLVMValueRef **slot)
{
    const TileBlock *b = l->loop->region[0];
    int n = b->yields.n;
    LLVMValueRef **next = tsr_calloc(sizeof *next * (size_t)n);

    cpu_val(e, (TileRef){b->params.at[0], 0})->x = i;
    for (int k = 0; k < n; k++) {
        TileRef p = {b->params.at[k + 1], 0};
        cpu_val(e, p)->fragment = take(e, slot[k], registers_of(e, p));
    }
    cpu_emit_block(e, b);
    for (int k = 0; k < n; k++)
        next[k] = k == l->carry ? NULL : gpu_fragment_next(e, (TileRef){b->params.at[k + 1], 0}, b->yields.at[k]);
    for (int k = 0; k < n; k++)
        if (next[k])
            put(e, slot[k], next[k], registers_of(e, b->yields.at[k]));
    tsr_free(next);
}

/*
 * A round: where its masks leave out nothing it has code of its own, all of which the assembler may then mix. i: its number; NULL: the one that was
 * found out before, and so on as long as rounds are of that kind.
 */
static void round_either_way(CpuCode *e, ChainLate *l, LLVMValueRef i, LLVMValueRef keep, LLVMValueRef **slot, const Walk *w)
{
    LLVMBasicBlockRef way[2] = {keep ? cpu_block(e) : NULL, cpu_block(e)}, done = cpu_block(e);
    LLVMBuilderRef b = e->u->builder;

    if (keep)
        LLVMBuildCondBr(b, keep, way[1], way[0]);
    else
        LLVMBuildBr(b, way[1]);
    e->gpu->decided = keep ? l->loop->region[0] : NULL;
    for (int keeps = 1; keeps >= !keep; keeps--) {
        LLVMPositionBuilderAtEnd(b, way[keeps]);
        e->gpu->keeps = keeps;
        round_of(e, l, i ? i : LLVMBuildLoad2(b, i64_type(e), l->i, ""), slot);
        if (i || !keeps)
            LLVMBuildBr(b, done);
        else
            LLVMBuildCondBr(b, keep ? LLVMBuildAnd(b, is_so(e, l->more), is_so(e, l->keep), "") : is_so(e, l->more), way[1], done);
        restore(e, w);
    }
    e->gpu->decided = NULL;
    LLVMPositionBuilderAtEnd(b, done);
}

static void drain(CpuCode *e, ChainLate *l)
{
    LLVMValueRef *sum;

    issue_late(e, l);
    sum = cpu_val(e, sum_param(l))->fragment;
    chain_arrive(e, 0);
    put(e, l->sum, sum, l->nsums);
}

/* The first round, which has none before it, then all others. */
static void rounds(CpuCode *e, ChainLate *l, LLVMValueRef lo, LLVMValueRef **slot)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef bit = LLVMInt1TypeInContext(e->u->context);
    LLVMBasicBlockRef head = cpu_block(e), body = cpu_block(e), done = cpu_block(e);
    LLVMValueRef keep;
    Walk w;

    remember(e, &w);
    cpu_val(e, (TileRef){l->loop->region[0]->params.at[0], 0})->x = lo;
    keep = gpu_masks_keep_all(e, l->loop->region[0]);
    restore(e, &w);
    l->i = llvm_slot(e->u, i64_type(e));
    l->more = llvm_slot(e->u, bit);
    l->keep = keep ? llvm_slot(e->u, bit) : NULL;
    round_either_way(e, l, lo, keep, slot, &w);
    l->pending = true;
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, head);
    LLVMBuildCondBr(b, is_so(e, l->more), body, done);
    LLVMPositionBuilderAtEnd(b, body);
    round_either_way(e, l, NULL, keep ? is_so(e, l->keep) : NULL, slot, &w);
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, done);
    drain(e, l);
    restore(e, &w);
    forget(&w);
}

/* Do two warpgroups have a loop whose products before the last one need nothing but blocks, and the last one a block that nobody else has? */
static bool may_wait(CpuCode *e, const ChainLate *l)
{
    const Chain *c = chain(e);

    for (int i = 0; i < c->ndots; i++)
        if (c->dot[i].dot->block == l->loop->region[0] && &c->dot[i] != l->last && (c->dot[i].load[0] < 0 || !role_is_zeros(c->dot[i].dot->in[2])))
            return false;
    return !l->held && warpgroups(e) == 2;
}

bool chain_loop(CpuCode *e, const TileNode *n)
{
    LLVMValueRef lo, **slot;
    ChainLate l;
    GpuIf any;

    if (!find(e, n, &l))
        return false;
    cpu_settle(e, n);
    lo = cpu_val(e, n->in[0])->x, l.hi = cpu_val(e, n->in[1])->x, l.step = cpu_val(e, n->in[2])->x;
    slot = tsr_calloc(sizeof *slot * (size_t)n->nout);
    for (int i = 0; i < n->nout; i++) {
        Fragment f;
        gpu_fragment_of(e, tile_type(n->in[3 + i]), &f);
        LLVMValueRef *x = gpu_fragment_values(e, n->in[3 + i], &f);
        slot[i] = make_slots(e, x, gpu_registers(&f));
        put(e, slot[i], x, gpu_registers(&f));
    }
    if (has_block(chain(e), &l)) {
        l.held = llvm_slot(e->u, i32_type(e));
        l.phase = llvm_slot(e->u, i32_type(e));
    }
    l.low = llvm_slot(e->u, i32_type(e));
    l.sum = slot[l.carry];
    l.nsums = registers_of(e, (TileRef){(TileNode *)n, l.carry});
    any = gpu_if(e, cpu_compare(e, LLVMIntSLT, lo, l.hi));
    l.waits = may_wait(e, &l);
    chain_find_guess(e, &l);
    chain(e)->late = &l;
    rounds(e, &l, lo, slot);
    chain(e)->late = NULL;
    for (int i = 0; i < chain(e)->nloads; i++) {
        chain(e)->load[i].peek = NULL;
        chain(e)->load[i].awaited = false;
    }
    gpu_end_if(e, &any);
    for (int i = 0; i < n->nout; i++) {
        int registers = registers_of(e, (TileRef){(TileNode *)n, i});
        LLVMValueRef *x = take(e, slot[i], registers);
        join_late(e, &l, i, x, registers);
        gpu_set_fragment(e, (TileRef){(TileNode *)n, i}, x);
    }
    tsr_free(slot);
    gpu_written(e);
    return true;
}
