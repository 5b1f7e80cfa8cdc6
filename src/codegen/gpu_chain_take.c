/*
 * The groups of a chain, one after the other: who takes which, and what follows from its number.
 *
 *      one thread (producer)                       warpgroups (consumers)
 *      t = the block's own number                  wait for the next group's numbers
 *      while t is a group's:                       while they are a group's:
 *          its numbers, which are handed on            do the group
 *          send for what the group loads               wait for the next group's numbers
 *          t = the next one
 *      hand on that there is none
 *
 * Numbers are places and bounds: what follows from sizes and the group.  The divisions behind them take as long as half a round of attention, so
 * the producer, which is ahead, does them for all.  They lie in shared memory, two groups of them, and are read again where they are needed
 * behind the loops, because registers are scarce in these.
 *
 * Where groups take different times, as those of causal attention, blocks take the next one as they come to it, else every so many'th.
 * Which block does which group shows nowhere in the results.  The counter is a global variable of the kernel's module: who takes a group asks once,
 * so a launch asks as often as there are groups, and the last one to ask sets it to zero again, for the next launch.  Launches of a kernel
 * follow each other on one stream.
 */
#include "codegen/gpu_chain.h"

enum { AHEAD = 2, WORD = 8 };                   /* groups whose numbers are there; bytes of a number */

static Chain *chain(const CpuCode *e) { return e->gpu->roles->chain; }

/* ---- which numbers ---- */

/* Is it there for who asks, whatever the group? */
static bool is_plain(const TileNode *n) { return n->op == TOP_index || n->op == TOP_size || n->op == TOP_const || n->op == TOP_extent; }

static bool is_of_group(const TileNode *n) { return n->nout && roles_is_known(n) && !is_plain(n); }

/* Do consumers use a number: is it no step on the way to others, nor the place of a block that they do not load? */
static bool has_consumer(const CpuCode *e, const Chain *c, const TileBlock *b, const TileNode *number)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        bool others = chain_load_of(c, n) >= 0 || chain_rider(c, n) || (b == &e->k->body && is_of_group(n));
        for (int i = 0; !others && i < n->nin; i++)
            if (n->in[i].node == number)
                return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && has_consumer(e, c, n->region[r], number))
                return true;
    }
    for (int i = 0; i < b->yields.n; i++)
        if (b->yields.at[i].node == number)
            return true;
    return false;
}

bool chain_take_find(const CpuCode *e, Chain *c)
{
    c->nnumbers = 0;
    for (const TileNode *n = e->k->body.first; n; n = n->next) {
        if (!is_of_group(n) || !has_consumer(e, c, &e->k->body, n))
            continue;
        if (c->nnumbers == CHAIN_NUMBERS)
            return false;
        c->number[c->nnumbers++] = (ChainNumber){.node = n};
    }
    return true;
}

void chain_take_lay(Chain *c, int64_t *all)
{
    c->taken.stages = AHEAD;
    c->taken.barriers = role_lay(all, 2 * 8 * AHEAD, 64);
    c->numbers = role_lay(all, (int64_t)AHEAD * WORD * (1 + c->nnumbers), 64);
}

/* ---- handing them on ---- */

/* The place of number i of a slot's group; -1: of whether it is a group. */
static LLVMValueRef place_of(CpuCode *e, LLVMValueRef stage, int i)
{
    const Chain *c = chain(e);
    LLVMValueRef at = op32(e, LLVMAdd, op32(e, LLVMMul, stage, (int64_t)WORD * (1 + c->nnumbers)), c->numbers + (int64_t)WORD * (1 + i));

    at = wide(e, at);
    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), e->scratch, &at, 1, "");
}

/* The numbers of a group, or that there is none. */
static void hand_on(CpuCode *e, bool group)
{
    Chain *c = chain(e);
    LLVMValueRef stage = role_room(e, &c->taken);

    LLVMBuildStore(e->u->builder, i32_number(e, group), place_of(e, stage, -1));
    for (int i = 0; group && i < c->nnumbers; i++) {
        LLVMValueRef x = cpu_val(e, (TileRef){(TileNode *)c->number[i].node, 0})->x;
        c->number[i].type = LLVMTypeOf(x);
        LLVMBuildStore(e->u->builder, x, place_of(e, stage, i));
    }
    role_fill(e, &c->taken, stage);
    role_next(e, &c->taken);
}

static LLVMValueRef same(CpuCode *e, LLVMValueRef x)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef t = LLVMTypeOf(x);
    unsigned bits = LLVMGetIntTypeWidth(t);

    if (bits > 32) {
        LLVMValueRef half = cpu_number(e, 32), low = role_same_in_warp(e, narrow(e, x));
        LLVMValueRef high = role_same_in_warp(e, narrow(e, LLVMBuildLShr(b, x, half, "")));
        return LLVMBuildOr(b, wide(e, low), LLVMBuildShl(b, wide(e, high), half, ""), "");
    }
    if (bits == 32)
        return role_same_in_warp(e, x);
    return LLVMBuildTrunc(b, role_same_in_warp(e, LLVMBuildZExt(b, x, i32_type(e), "")), t, "");
}

static void read_number(CpuCode *e, int i)
{
    const ChainNumber *n = &chain(e)->number[i];
    LLVMValueRef at = place_of(e, role_stage(e, &chain(e)->taken), i);

    cpu_val(e, (TileRef){(TileNode *)n->node, 0})->x = same(e, LLVMBuildLoad2(e->u->builder, n->type, at, ""));
}

bool chain_take_node(CpuCode *e, const TileNode *n)
{
    const Chain *c = chain(e);

    if (n->block != &e->k->body || !is_of_group(n))
        return false;
    for (int i = 0; i < c->nnumbers; i++)
        if (c->number[i].node == n)
            read_number(e, i);
    return true;
}

void chain_take_again(CpuCode *e, const TileNode *before)
{
    const Chain *c = chain(e);

    for (int i = 0; i < c->nnumbers; i++)
        for (const TileNode *n = c->number[i].node; n; n = n->next)
            if (n->next == before) {
                read_number(e, i);
                break;
            }
}

/* ---- groups ---- */

static LLVMValueRef counter(CpuCode *e)
{
    LLVMValueRef g = LLVMGetNamedGlobal(e->u->module, "tsr_next_group");

    if (!g) {
        g = LLVMAddGlobalInAddressSpace(e->u->module, i32_type(e), "tsr_next_group", 1);
        LLVMSetInitializer(g, i32_number(e, 0));
    }
    return LLVMBuildPtrToInt(e->u->builder, g, i64_type(e), "");
}

static LLVMValueRef special(CpuCode *e, const char *name)
{
    LLVMValueRef none = NULL;

    return cpu_intrinsic(e, name, &(LLVMTypeRef){NULL}, 0, &none, 0);
}

RoleGroups chain_groups(CpuCode *e)
{
    LLVMValueRef all = cpu_groups(e, 0), t, next, blocks = special(e, "llvm.nvvm.read.ptx.sreg.nctaid.x");
    LLVMBasicBlockRef body;
    RoleGroups g = {.t = llvm_slot(e->u, i32_type(e)), .next = llvm_slot(e->u, i32_type(e))};

    for (int i = 1; i < 3; i++)
        all = cpu_op(e, LLVMMul, all, cpu_groups(e, i));
    all = narrow(e, all);
    role_enter_ring(e, &chain(e)->taken);
    LLVMBuildStore(e->u->builder, special(e, "llvm.nvvm.read.ptx.sreg.ctaid.x"), g.t);
    g.head = cpu_block(e), g.done = cpu_block(e), body = cpu_block(e);
    LLVMBuildBr(e->u->builder, g.head);
    LLVMPositionBuilderAtEnd(e->u->builder, g.head);
    t = get(e, g.t);
    LLVMBuildCondBr(e->u->builder, LLVMBuildICmp(e->u->builder, LLVMIntULT, t, all, ""), body, g.done);
    LLVMPositionBuilderAtEnd(e->u->builder, body);
    next = chain(e)->uneven ? gpu_count_up(e, counter(e), op32(e, LLVMSub, all, 1)) : t;
    LLVMBuildStore(e->u->builder, plus(e, next, blocks), g.next);
    role_enter_group(e, t);
    for (const TileNode *n = e->k->body.first; n; n = n->next)
        role_emit_known(e, n);
    hand_on(e, true);
    return g;
}

void chain_groups_end(CpuCode *e, const RoleGroups *g)
{
    LLVMBuildStore(e->u->builder, get(e, g->next), g->t);
    LLVMBuildBr(e->u->builder, g->head);
    LLVMPositionBuilderAtEnd(e->u->builder, g->done);
    hand_on(e, false);
}

RoleGroups chain_taken(CpuCode *e)
{
    LLVMBasicBlockRef body = cpu_block(e);
    RoleGroups g = {.head = cpu_block(e), .done = cpu_block(e)};
    LLVMValueRef some;

    role_enter_ring(e, &chain(e)->taken);
    LLVMBuildBr(e->u->builder, g.head);
    LLVMPositionBuilderAtEnd(e->u->builder, g.head);
    role_wait(e, &chain(e)->taken);
    some = same(e, LLVMBuildLoad2(e->u->builder, i32_type(e), place_of(e, role_stage(e, &chain(e)->taken), -1), ""));
    LLVMBuildCondBr(e->u->builder, LLVMBuildICmp(e->u->builder, LLVMIntNE, some, i32_number(e, 0), ""), body, g.done);
    LLVMPositionBuilderAtEnd(e->u->builder, body);
    return g;
}

void chain_taken_end(CpuCode *e, const RoleGroups *g)
{
    role_release(e, &chain(e)->taken, role_stage(e, &chain(e)->taken));
    role_next(e, &chain(e)->taken);
    LLVMBuildBr(e->u->builder, g->head);
    LLVMPositionBuilderAtEnd(e->u->builder, g->done);
}
