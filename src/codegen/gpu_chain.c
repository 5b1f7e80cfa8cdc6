/*
 * Kernels of several products by warpgroups, as of attention.
 *
 *      one thread (producer)                       warpgroups (consumers), each with its share of the rows
 *      for each group:                             for each group:
 *          send for the blocks that stay               wait for the blocks that stay
 *          go through the loops:                       the kernel as it is written: a product waits for its blocks, multiplies,
 *              send for each block that is                 and leaves their slots when it was the last one to read them
 *              loaded when its slot is empty           leave the slots of the blocks that stayed
 *
 * The producer walks the kernel and does nothing but indices, loops and loads.  Each parameter that loops load has a ring of its own, so that
 * a block is left, and the next one sent for, as soon as the product that reads it is done.  Warpgroups do not wait for each
 * other: while one is at what lies between its products, the other one multiplies.
 *
 * Sums, and what is computed from them, are fragments (gpu_fragment.c), whose layout is that of wgmma; a left operand in registers is such a
 * fragment, two elements in a word.
 */
#include "codegen/gpu_chain.h"

#include <string.h>

enum { ROWS_ASKED = 64 };                       /* columns: for more rows there are no registers */

static Chain *chain(const CpuCode *e) { return e->gpu->roles->chain; }

/* ---- the producer ---- */

static void bring(CpuCode *e, ChainLoad *l)
{
    Chain *c = chain(e);
    ChainRing *g = &c->ring[l->ring];
    int64_t bytes = g->o.bytes;

    for (int i = 0; i < c->nriders; i++)
        bytes += &c->load[c->rider[i].carrier] == l ? c->row[c->rider[i].row].o.bytes : 0;
    l->sent = role_make_room(e, &g->ring, bytes);
    role_bring(e, &g->ring, &g->o, l->load, roles(e)->map[l->ring], l->sent);
    role_next(e, &g->ring);
}

/* What comes with a block that has been sent for. */
static void bring_rider(CpuCode *e, const ChainRider *r)
{
    const Chain *c = chain(e);
    const ChainRow *row = &c->row[r->row];

    role_bring(e, &c->ring[row->ring].ring, &row->o, r->load, roles(e)->map[row->map], c->load[r->carrier].sent);
}

static void produce_block(CpuCode *e, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        int load = chain_load_of(chain(e), n);
        const ChainRider *rider = chain_rider(chain(e), n);
        if (load >= 0) {
            bring(e, &chain(e)->load[load]);
        } else if (rider) {
            bring_rider(e, rider);
        } else if (n->op == TOP_for && chain_has_loads(chain(e), n->region[0])) {
            CpuLoop l = cpu_loop(e, cpu_val(e, n->in[0])->x, cpu_val(e, n->in[1])->x, cpu_val(e, n->in[2])->x);
            cpu_val(e, (TileRef){n->region[0]->params.at[0], 0})->x = l.i;
            produce_block(e, n->region[0]);
            cpu_loop_end(e, &l);
        } else if (b != &e->k->body) {
            role_emit_known(e, n);
        }
    }
}

void chain_produce(CpuCode *e)
{
    Chain *c = chain(e);
    RoleGroups g;

    for (int i = 0; i < c->nrings; i++) {
        gpu_prefetch_map(e, roles(e)->map[i]);
        role_enter_ring(e, &c->ring[i].ring);
    }
    for (int i = 0; i < c->nrows; i++)
        gpu_prefetch_map(e, roles(e)->map[c->row[i].map]);
    g = chain_groups(e);
    produce_block(e, &e->k->body);
    chain_groups_end(e, &g);
}

/* ---- the consumers' slots ---- */

void chain_begin(CpuCode *e)
{
    Chain *c = chain(e);

    for (int i = 0; i < c->nrings; i++)
        role_enter_ring(e, &c->ring[i].ring);
    for (int i = 0; i < c->nloads; i++)
        cpu_val(e, (TileRef){(TileNode *)c->load[i].load, 0})->staged = roles(e)->base;        /* nobody is to load it */
    chain_begin_turns(e);
}

/* The slot of a load is full from here on. */
static void wait_for(CpuCode *e, ChainLoad *l)
{
    ChainRing *g = &chain(e)->ring[l->ring];

    if (l->held)
        return;
    l->held = role_stage(e, &g->ring);
    l->phase = role_phase(e, &g->ring);
    if (l->peek && chain(e)->late && chain(e)->late->pending)
        role_wait_unless(e, &g->ring, get(e, l->peek));
    else if (!l->awaited || !chain(e)->late->pending)
        role_wait(e, &g->ring);
    role_next(e, &g->ring);
}

/* A row lies in memory beside the block that it has come with. */
static void read_rider(CpuCode *e, const ChainRider *r)
{
    const ChainRow *row = &chain(e)->row[r->row];
    ChainLoad *carrier = &chain(e)->load[r->carrier];
    LLVMValueRef at;

    wait_for(e, carrier);
    at = wide(e, op32(e, LLVMAdd, op32(e, LLVMMul, carrier->held, row->o.bytes), row->o.at));
    cpu_val(e, (TileRef){(TileNode *)r->load, 0})->x = LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), e->scratch, &at, 1, "");
}

static bool is_free(const ChainDot *d) { return d->load[0] >= 0 && role_is_zeros(d->dot->in[2]); }

static const ChainDot *dot_of(const Chain *c, const TileNode *n)
{
    for (int i = 0; i < c->ndots; i++)
        if (c->dot[i].dot == n)
            return &c->dot[i];
    return NULL;
}

/*
 * Rows that are needed behind a product, and before the next one that waits for elements, are asked for before it reads its blocks, which keeps
 * shared memory busy: if they have come with blocks that are there.
 */
static void ask_for_rows(CpuCode *e, const ChainDot *d)
{
    const Chain *c = chain(e);

    chain_await(e, d);
    for (const TileNode *n = d->dot; n && (n == d->dot || !dot_of(c, n) || is_free(dot_of(c, n))); n = n->next) {
        const ChainRider *r = chain_rider(c, n);
        if (!r || !c->load[r->carrier].held || n->type[0].extent[1] > ROWS_ASKED)
            continue;
        read_rider(e, r);
        gpu_keep_row(e, (TileRef){(TileNode *)n, 0}, &d->dot->type[0]);
    }
}

bool gpu_is_brought(const CpuCode *e, TileRef v)
{
    return gpu_is_chain(e) ? chain_rider(chain(e), v.node) != NULL : e->gpu->roles && role_is_beside(e, v.node);
}

static void leave(CpuCode *e, ChainLoad *l)
{
    role_release(e, &chain(e)->ring[l->ring].ring, l->held);
    l->held = NULL;
}

void chain_end_group(CpuCode *e)
{
    Chain *c = chain(e);

    for (int i = 0; i < c->nloads; i++)
        if (c->ring[c->load[i].ring].stays && c->load[i].held)
            leave(e, &c->load[i]);
}

/* Does a node of the kernel's body stand behind another one, or behind the loop that has it? */
static bool is_behind(const TileNode *n, const TileNode *other)
{
    while (other->block != n->block)
        other = other->block->owner;
    do
        other = other->next;
    while (other && other != n);
    return other;
}

/* Blocks that stay are left behind the last product that reads them, so that the next group's come during what follows. */
static void leave_early(CpuCode *e, const TileNode *n)
{
    Chain *c = chain(e);

    if (n->block != &e->k->body || c->nflights)
        return;
    for (int i = 0; i < c->nloads; i++) {
        ChainLoad *l = &c->load[i];
        if (c->ring[l->ring].stays && l->held && is_behind(n, l->last))
            leave(e, l);
    }
}

/*
 * Behind the last loop come stores, whose places are read again: registers are scarce in the loop, where each of these would be kept.
 */
static void renew_places(CpuCode *e, const TileNode *n)
{
    if (n->block != &e->k->body || !n->prev || n->prev->op != TOP_for)
        return;
    for (const TileNode *later = n; later; later = later->next)
        if (later->op == TOP_for)
            return;
    chain_take_again(e, n);
}

/* ---- products ---- */

LLVMValueRef *chain_left(CpuCode *e, const TileNode *dot, int *n)
{
    TileRef v = dot->in[0];
    DType dt = (DType)tile_type(v)->dtype;
    bool pack = !cpu_val(e, v)->fragment && role_packs(&v, dt);
    LLVMValueRef *x;
    Fragment f;

    cpu_need(e, v);                             /* in a walk of its own, which knows whether loads need masks */
    cpu_close(e);
    gpu_fragment_of(e, tile_type(v), &f);
    *n = gpu_registers(&f) / 2;
    x = gpu_fragment_values(e, v, &f);
    for (int i = 0; i < *n; i++)
        x[i] = role_word(e, dt, pack, x[2 * i], x[2 * i + 1]);
    return x;
}

/* What an operand's descriptors begin with: of the rows of this thread's warpgroup, or of all columns. */
static LLVMValueRef first_matrix(CpuCode *e, const ChainDot *d, int i, RoleOperand *o)
{
    ChainLoad *l = &chain(e)->load[d->load[i]];
    LLVMValueRef at;

    *o = chain(e)->ring[l->ring].o;
    o->turned = d->turned[i];
    at = plus(e, roles(e)->base, op32(e, LLVMAdd, op32(e, LLVMMul, l->held, o->bytes), o->at));
    if (i == 0)
        at = plus(e, at, op32(e, LLVMMul, role_warpgroup(e), o->turned ? o->slab : (int64_t)GROUP_ROWS * o->span));
    return role_describe(e, o, at);
}

LLVMValueRef chain_right(CpuCode *e, const ChainDot *d, LLVMValueRef stage)
{
    ChainLoad *l = &chain(e)->load[d->load[1]];
    LLVMValueRef held = l->held, low;
    RoleOperand o;

    l->held = stage;
    low = role_same_in_warp(e, first_matrix(e, d, 1, &o));
    l->held = held;
    return low;
}

/* All steps of a product, for the 64 rows after 64 rows that are the warpgroup's. left: words of the operand in registers, or NULL. */
static void multiply(CpuCode *e, const ChainDot *d, LLVMValueRef *left, bool add, LLVMValueRef *sum)
{
    const ChainLate *late = chain(e)->late;
    const TileNode *n = d->dot;
    int groups = roles(e)->threads / GROUP_THREADS, pieces = chain(e)->rows / GROUP_ROWS / groups;
    int steps = tile_type(n->in[0])->extent[1] / d->unit.steps;
    LLVMValueRef low[2], a, b;
    RoleOperand o[2];

    for (int i = left ? 1 : 0; i < 2; i++)
        low[i] = first_matrix(e, d, i, &o[i]);
    for (int i = 0; !left && late && late->held && i < 2; i++)
        low[i] = role_same_in_warp(e, low[i]);
    if (late && late->last == d)
        low[1] = get(e, late->low);
    else if (left)                              /* the assembler does not see it, and would move each descriptor by itself */
        low[1] = role_same_in_warp(e, low[1]);
    gpu_wgmma_fence(e);
    for (int p = 0; p < pieces; p++)
        for (int s = 0; s < steps; s++) {
            LLVMValueRef *x = sum + (size_t)p * (size_t)(d->unit.columns / 2);
            b = role_descriptor(e, &o[1], op32(e, LLVMAdd, low[1], role_step(&d->unit, &o[1], s) >> 4));
            if (left) {
                gpu_wgmma_registers(e, &d->unit, left + 4 * (p * steps + s), b, add || s, x);
                continue;
            }
            int64_t down = (int64_t)p * groups * (o[0].turned ? o[0].slab : (int64_t)GROUP_ROWS * o[0].span);
            a = role_descriptor(e, &o[0], op32(e, LLVMAdd, low[0], (down + role_step(&d->unit, &o[0], s)) >> 4));
            gpu_wgmma(e, &d->unit, a, b, add || s, x);
        }
    gpu_wgmma_commit(e);
}

static LLVMValueRef *no_sums(CpuCode *e, const ChainDot *d, int n)
{
    LLVMValueRef *sum = arena_array(&e->gpu->arena, LLVMValueRef, n);

    for (int i = 0; i < n; i++)
        sum[i] = LLVMGetUndef(lane_type(e->u, (DType)d->dot->type[0].dtype, 1));
    return sum;
}

static int sums_of(CpuCode *e, const ChainDot *d)
{
    Fragment f;

    gpu_fragment_of(e, &d->dot->type[0], &f);
    return gpu_registers(&f);
}

/* ---- under way ---- */

void chain_await(CpuCode *e, const ChainDot *d)
{
    for (int i = 0; i < 2; i++)
        if (d->load[i] >= 0)
            wait_for(e, &chain(e)->load[d->load[i]]);
}

ChainFlight *chain_issue(CpuCode *e, const ChainDot *d, LLVMValueRef *left, bool add, LLVMValueRef *sum)
{
    Chain *c = chain(e);
    ChainFlight *f;

    if (c->nflights == CHAIN_FLIGHTS)
        chain_arrive(e, 0);
    for (int i = left ? 1 : 0; i < 2; i++)
        wait_for(e, &c->load[d->load[i]]);
    multiply(e, d, left, add, sum);
    f = &c->flight[c->nflights++];
    *f = (ChainFlight){.d = d, .value = d->dot, .sum = sum, .n = sums_of(e, d), .fresh = true};
    cpu_val(e, (TileRef){(TileNode *)d->dot, 0})->fragment = sum;
    return f;
}

void chain_issue_free(CpuCode *e, const ChainDot *d)
{
    const Chain *c = chain(e);
    LLVMValueRef group = roles(e)->group;

    roles(e)->group = role_warpgroup(e);        /* once, before shared memory is busy with the first product */
    ask_for_rows(e, d);
    for (const ChainDot *first = d; d < c->dot + c->ndots && d->dot->block == first->dot->block && is_free(d); d++)
        chain_issue(e, d, NULL, false, no_sums(e, d, sums_of(e, d)));
    roles(e)->group = group;
}

/*
 * A wait for what has been under way for a while.  The assembler would move it before the code that runs meanwhile, but moves nothing past a
 * loop: a look at the barrier of a block that is there.
 */
static void look_again(CpuCode *e, const ChainFlight *f)
{
    const ChainLoad *l = &chain(e)->load[f->d->load[1]];

    role_wait_at(e, &chain(e)->ring[l->ring].ring, f->held ? f->held : l->held, f->held ? f->phase : l->phase);
}

/* The product has read its blocks. */
static void leave_blocks(CpuCode *e, const ChainFlight *f)
{
    const ChainDot *d = f->d;

    for (int i = 0; i < 2; i++) {
        ChainLoad *l = d->load[i] < 0 ? NULL : &chain(e)->load[d->load[i]];
        if (!l || l->last != d->dot || chain(e)->ring[l->ring].stays)
            continue;
        if (f->held)
            role_release(e, &chain(e)->ring[l->ring].ring, f->held);
        else
            leave(e, l);
    }
}

void chain_arrive(CpuCode *e, int but)
{
    Chain *c = chain(e);
    int arrived = c->nflights - but, n = 0;
    LLVMValueRef *all;

    if (arrived <= 0)
        return;
    if (!c->flight[arrived - 1].fresh && !c->late)
        look_again(e, &c->flight[arrived - 1]);
    for (int i = 0; i < arrived; i++)
        n += c->flight[i].n;
    all = arena_array(&e->gpu->arena, LLVMValueRef, n);
    n = 0;
    for (int i = 0; i < arrived; n += c->flight[i++].n)
        memcpy(all + n, c->flight[i].sum, sizeof *all * (size_t)c->flight[i].n);
    gpu_wgmma_wait(e, but, all, n);
    n = 0;
    for (int i = 0; i < arrived; n += c->flight[i++].n) {
        memcpy(c->flight[i].sum, all + n, sizeof *all * (size_t)c->flight[i].n);
        leave_blocks(e, &c->flight[i]);
    }
    memmove(c->flight, c->flight + arrived, sizeof *c->flight * (size_t)but);
    c->nflights = but;
}

static void arrive_with(CpuCode *e, int last)
{
    if (last >= 0)
        chain_arrive(e, chain(e)->nflights - 1 - last);
}

static void age(CpuCode *e)
{
    for (int i = 0; i < chain(e)->nflights; i++)
        chain(e)->flight[i].fresh = false;
}

static bool cluster_uses(const Cluster *c, const TileNode *value)
{
    for (int i = 0; i < c->sinks.n; i++)
        if (c->sinks.at[i].v.node == value)
            return true;
    for (int i = 0; i < c->nodes.n; i++)
        for (int k = 0; k < c->nodes.at[i]->nin; k++)
            if (c->nodes.at[i]->in[k].node == value)
                return true;
    return false;
}

void chain_cluster(CpuCode *e, const Cluster *c)
{
    int last = -1;

    for (int i = 0; i < chain(e)->nflights; i++)
        last = cluster_uses(c, chain(e)->flight[i].value) ? i : last;
    arrive_with(e, last);
    if (last >= 0)
        chain_mark_guess(e);
    age(e);
}

void chain_value(CpuCode *e, TileRef v)
{
    int last = -1;

    for (int i = 0; i < chain(e)->nflights; i++)
        last = cpu_in_tree(e, v, chain(e)->flight[i].value) ? i : last;
    arrive_with(e, last);
    age(e);
}

static void product(CpuCode *e, const ChainDot *d)
{
    const TileNode *n = d->dot;
    bool zeros = role_is_zeros(n->in[2]);
    LLVMValueRef *sum, *left = NULL;
    Fragment f;
    int words;

    cpu_close(e);
    if (is_free(d)) {
        chain_issue_free(e, d);
        return;
    }
    gpu_fragment_of(e, &n->type[0], &f);
    if (d->load[0] < 0)
        left = chain_left(e, n, &words);
    sum = zeros ? no_sums(e, d, sums_of(e, d)) : gpu_fragment_values(e, n->in[2], &f);
    ask_for_rows(e, d);
    chain_issue(e, d, left, !zeros, sum);
}

/* Who uses the sums in memory has them there when they have arrived. */
static void settle(CpuCode *e, const ChainDot *d)
{
    TileRef v = {(TileNode *)d->dot, 0};

    if (gpu_stays(e, v))
        return;
    chain_arrive(e, 0);
    gpu_set_fragment(e, v, cpu_val(e, v)->fragment);
}

bool chain_node(CpuCode *e, const TileNode *n)
{
    Chain *c = chain(e);
    int load = chain_load_of(c, n);

    leave_early(e, n);
    renew_places(e, n);
    if (chain_take_node(e, n))
        return true;
    if (n->op == TOP_for) {
        cpu_close(e);
        chain_arrive(e, 0);
        return chain_loop(e, n);
    }
    if (load >= 0 && c->ring[c->load[load].ring].stays)
        wait_for(e, &c->load[load]);
    if (chain_rider(c, n)) {
        if (!cpu_val(e, (TileRef){(TileNode *)n, 0})->fragment)
            read_rider(e, chain_rider(c, n));
        return true;
    }
    for (int i = 0; i < c->ndots; i++)
        if (c->dot[i].dot == n) {
            if (cpu_val(e, (TileRef){(TileNode *)n, 0})->fragment)
                return true;                    /* issued with one before it */
            if (chain_late_dot(e, &c->dot[i]))
                return true;
            product(e, &c->dot[i]);
            settle(e, &c->dot[i]);
            return true;
        }
    return load >= 0;
}
