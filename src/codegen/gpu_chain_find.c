/*
 * Which kernels of several products are done by warpgroups, and with which rings.
 *
 * All products have as many rows, which the warpgroups divide.  A right operand is a block that is loaded, read either way; a left one is such
 * a block too, or lies in registers: whatever is computed from products and columns.  Blocks that are loaded in a loop come through a
 * ring; loads of one parameter in several loops, of the same extents, share one.  Blocks that the kernel's body loads stay for a
 * group.  What else the kernel does must not need the group's memory for tiles: it sums along rows, and goes element by element.
 */
#include "codegen/gpu_chain.h"

#include <string.h>

enum { STREAMS_MOST = 4, STREAMS_LEAST = 2, STAYS_MOST = 2, SUMS_OF_TWO = 208, SUMS_OF_THREE = 128 };
enum { OTHERS = 2048 };                         /* bytes of shared memory for what is neither a block nor a tile on its way out */

/* ---- loads ---- */

int chain_load_of(const Chain *c, const TileNode *load)
{
    for (int i = 0; i < c->nloads; i++)
        if (c->load[i].load == load)
            return i;
    return -1;
}

const ChainRider *chain_rider(const Chain *c, const TileNode *load)
{
    for (int i = 0; i < c->nriders; i++)
        if (c->rider[i].load == load)
            return &c->rider[i];
    return NULL;
}

bool chain_has_loads(const Chain *c, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (chain_load_of(c, n) >= 0)
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && chain_has_loads(c, n->region[r]))
                return true;
    }
    return false;
}

/* Is a block the other one, or inside it? */
static bool is_inside(const TileBlock *b, const TileBlock *other)
{
    while (b && b != other)
        b = b->owner ? b->owner->block : NULL;
    return b;
}

/* Do loads that have a ring stand such that this one takes turns with them: in other loops, one after the other? */
static bool takes_turns(const Chain *c, int ring, const TileNode *load)
{
    for (int i = 0; i < c->nloads; i++)
        if (c->load[i].ring == ring && (is_inside(load->block, c->load[i].load->block) || is_inside(c->load[i].load->block, load->block)))
            return false;
    return true;
}

/* The slots for a block that lies so: those of other loads, or new ones. -1: there are too many. */
static int ring_of(Chain *c, const RoleOperand *o, bool stays)
{
    for (int i = 0; i < c->nrings && !stays; i++) {
        const RoleOperand *p = &c->ring[i].o;
        if (p->load->in[0].node == o->load->in[0].node && p->box[0] == o->box[0] && p->box[1] == o->box[1] && p->slabs == o->slabs &&
            p->axes.second == o->axes.second && !c->ring[i].stays && takes_turns(c, i, o->load))
            return i;
    }
    if (c->nrings == CHAIN_RINGS)
        return -1;
    c->ring[c->nrings] = (ChainRing){.o = *o, .stays = stays};
    return c->nrings++;
}

static bool is_turn(const TileNode *n) { return n->op == TOP_permute && n->type[0].rank == 2 && n->attr->axes[0] == 1; }

/* Is every use of v an operand of a product, or one that is turned for that? */
static bool only_multiplied(const TileBlock *b, const TileBlock *all, TileRef v)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->nin; i++)
            if (cpu_same(n->in[i], v) && !(n->op == TOP_dot && i < 2) && !(is_turn(n) && v.node->op == TOP_load &&
                only_multiplied(all, all, (TileRef){(TileNode *)n, 0})))
                return false;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !only_multiplied(n->region[r], all, v))
                return false;
    }
    for (int i = 0; i < b->yields.n; i++)
        if (cpu_same(b->yields.at[i], v))
            return false;
    return true;
}

/* The block that an operand is, for this product and maybe others. false: it is none. */
static bool find_load(const CpuCode *e, Chain *c, ChainDot *d, int i)
{
    TileRef v = d->dot->in[i];
    bool turned = is_turn(v.node), body;
    const TileNode *load = turned ? v.node->in[0].node : v.node;
    RoleOperand o = {0};
    int at = chain_load_of(c, load);

    body = load->block == &e->k->body;
    if (at < 0) {
        if (c->nloads == CHAIN_LOADS || !role_block(e, load, &o) || o.part || o.axes.inner < o.axes.second ||
            !only_multiplied(&e->k->body, &e->k->body, (TileRef){(TileNode *)load, 0}))
            return false;
        at = c->nloads;
        c->load[at] = (ChainLoad){.load = load, .ring = ring_of(c, &o, body)};
        if (c->load[at].ring < 0)
            return false;
        c->nloads++;
    }
    c->load[at].last = d->dot;
    d->load[i] = at;
    d->turned[i] = turned == (i == 0);
    d->unit.turned[i] = d->turned[i];
    return (body || d->dot->block == load->block) && !(i == 0 && d->turned[i] && c->ring[c->load[at].ring].o.span != WIDE_BYTES);
}

/* ---- products ---- */

/* Is a left operand that no copy brings computed from tiles of its shape, and columns? */
static bool is_computed(TileRef v) { return v.node->op == TOP_map && tile_type(v)->rank == 2; }

static bool find_dot(const CpuCode *e, Chain *c, const TileNode *n)
{
    const TileType *a = tile_type(n->in[0]), *b = tile_type(n->in[1]);
    const TileNode *count = n->in[3].node;
    ChainDot *d = &c->dot[c->ndots];

    if (c->ndots == CHAIN_DOTS)
        return false;
    *d = (ChainDot){.dot = n, .load = {-1, -1}};
    c->rows = c->rows ? c->rows : a->extent[0];
    if (a->extent[0] != c->rows || c->rows % GROUP_ROWS || b->extent[1] % 16 || b->extent[1] > 256 || a->extent[1] % 16 ||
        raw_size((DType)a->dtype) != 2 || a->dtype != b->dtype || !role_unit((DType)a->dtype, (DType)n->type[0].dtype, b->extent[1], &d->unit) ||
        count->op != TOP_index || count->attr->i < a->extent[1] || !find_load(e, c, d, 1))
        return false;
    c->ndots++;
    return find_load(e, c, d, 0) || (d->load[0] < 0 && is_computed(n->in[0]));
}

static bool find_dots(const CpuCode *e, Chain *c, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_dot ? !find_dot(e, c, n) : n->op == TOP_reduce ? n->attr->axis != 1 : !role_is_of_consumers((TileOp)n->op))
            return false;
        if (n->region[0] && (n->op != TOP_for || !find_dots(e, c, n->region[0])))
            return false;
    }
    return true;
}

/* ---- rows ---- */

/* Do two nodes of a block stand in this order, or are they one? */
static bool in_order(const TileNode *first, const TileNode *then)
{
    while (first && first != then)
        first = first->next;
    return first;
}

/* Does all that is computed from v become left operands of products, the given one the last of them? */
static bool only_feeds(TileRef v, const TileNode *last)
{
    uint32_t uses = 0;

    for (const TileNode *n = v.node; n; n = n->next)
        for (int i = 0; i < n->nin; i++) {
            if (!cpu_same(n->in[i], v))
                continue;
            if (!(n->op == TOP_dot && i == 0 && in_order(n, last)) &&
                !((n->op == TOP_map || n->op == TOP_splat) && only_feeds((TileRef){(TileNode *)n, 0}, last)))
                return false;
            uses++;
        }
    return uses == v.node->nuse;
}

/* Slots for a row, or those that have been made for another loop. -1: there are too many. */
static int row_of(Chain *c, const RoleOperand *o, int ring)
{
    for (int i = 0; i < c->nrows; i++)
        if (c->row[i].ring == ring && c->row[i].o.load->in[0].node == o->load->in[0].node && c->row[i].o.bytes == o->bytes &&
            c->row[i].o.axes.second == o->axes.second)
            return i;
    if (c->nrows == CHAIN_ROWS || c->nrings + c->nrows == c->maps)
        return -1;
    c->row[c->nrows] = (ChainRow){.o = *o, .ring = ring, .map = c->nrings + c->nrows};
    return c->nrows++;
}

/* Is it a row that comes with a block: one that stands before it, and is left when all that reads the row is done? */
static void find_rider(const CpuCode *e, Chain *c, const TileNode *n)
{
    RoleOperand o;
    int row;

    if (n->op != TOP_load || c->nriders == CHAIN_LOADS || !role_row(e, n, &o))
        return;
    for (int i = 0; i < c->nloads; i++) {
        const ChainLoad *l = &c->load[i];
        if (l->load->block != n->block || c->ring[l->ring].stays || !in_order(l->load, n) || !only_feeds((TileRef){(TileNode *)n, 0}, l->last))
            continue;
        if ((row = row_of(c, &o, l->ring)) >= 0)
            c->rider[c->nriders++] = (ChainRider){n, row, i};
        return;
    }
}

static void find_riders(const CpuCode *e, Chain *c, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        find_rider(e, c, n);
        if (n->region[0])
            find_riders(e, c, n->region[0]);
    }
}

/* Tensor maps that a kernel has for what it loads. */
static int maps_for_loads(const TileKernel *k)
{
    int n = GPU_MAPS;

    for (const TileNode *m = k->body.first; m; m = m->next)
        n -= m->op == TOP_store;
    return n;
}

/* Does the producer know when each loop that loads ends? */
static bool knows_loops(const Chain *c, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op != TOP_for || !chain_has_loads(c, n->region[0]))
            continue;
        for (int i = 0; i < 3; i++)
            if (!roles_is_known(n->in[i].node))
                return false;
        if (!knows_loops(c, n->region[0]))
            return false;
    }
    return true;
}

/* ---- which groups take longer ---- */

enum { SOME_SIZE = 1 << 16, FAR_GROUP = 9, SOME_DEPTH = 24 };  /* a size that nobody knows yet, a group further down; indices behind indices */

static int64_t quotient(int64_t a, int64_t b) { return !b ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* What a known number comes to in the group that is so far down, if all sizes are the same one. */
static int64_t number_in(const TileNode *n, int64_t group, int depth)
{
    int64_t a = 0, b = 0;

    if (n->op == TOP_group)
        return group;
    if (n->op == TOP_size || n->op == TOP_extent)
        return n->op == TOP_size && n->attr->name == sym("_across") ? 1 : SOME_SIZE;
    if (n->op == TOP_index || n->op == TOP_const)
        return n->attr->i;
    if (!depth || n->op == TILE_PARAM || !n->nin)
        return 0;
    a = number_in(n->in[0].node, group, depth - 1);
    b = n->nin > 1 ? number_in(n->in[1].node, group, depth - 1) : 0;
    switch (n->op == TOP_map ? (int)n->attr->op : -n->op) {
    case -TOP_iadd: case OP_add: return a + b;
    case -TOP_isub: case OP_sub: return a - b;
    case -TOP_imul: case OP_mul: return (int64_t)((uint64_t)a * (uint64_t)b);
    case -TOP_idiv: case OP_floordiv: return quotient(a, b);
    case -TOP_imod: case OP_mod: return a - quotient(a, b) * b;
    case -TOP_imin: return a < b ? a : b;
    case -TOP_imax: return a > b ? a : b;
    default: return a;
    }
}

/* How far the loops that load go in a group, all of them together. */
static int64_t length_in(const Chain *c, const TileBlock *b, int64_t group)
{
    int64_t all = 0, one;

    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op != TOP_for || !chain_has_loads(c, n->region[0]))
            continue;
        one = number_in(n->in[1].node, group, SOME_DEPTH) - number_in(n->in[0].node, group, SOME_DEPTH);
        all += one <= 0 ? 0 : one * (1 + length_in(c, n->region[0], group));
    }
    return all;
}

/* ---- the kernel ---- */

static int64_t bytes_of(const Chain *c, int streams, int stays)
{
    int64_t all = 0;

    for (int i = 0; i < c->nrings; i++)
        all += c->ring[i].o.bytes * (c->ring[i].stays ? stays : streams);
    for (int i = 0; i < c->nrows; i++)
        all += c->row[i].o.bytes * streams;
    return all;
}

/* As many slots as there is room for, up to what is worth it or was asked for. */
static bool lay_out(const CpuCode *e, Roles *r, Chain *c)
{
    int64_t slots = role_slots(r), rest = SHARED_MOST - SLOT_ALIGN - slots - OTHERS, all = 0, asked = tile_schedule(e->k, "stages", 0);
    int streams = STREAMS_LEAST, stays = 1, most = asked > 0 && asked < STREAMS_MOST ? (int)asked : STREAMS_MOST;

    if (bytes_of(c, streams, stays) > rest)
        return false;
    while (stays < STAYS_MOST && bytes_of(c, streams, stays + 1) <= rest)
        stays++;
    while (streams < most && bytes_of(c, streams + 1, stays) <= rest)
        streams++;
    for (int i = 0; i < c->nrings; i++) {
        c->ring[i].ring.stages = c->ring[i].stays ? stays : streams;
        c->ring[i].o.at = role_lay(&all, c->ring[i].o.bytes * c->ring[i].ring.stages, SLOT_ALIGN);
    }
    r->slots = role_lay(&all, slots, SLOT_ALIGN);
    for (int i = 0; i < c->nrows; i++)
        c->row[i].o.at = role_lay(&all, c->row[i].o.bytes * streams, ROW_ALIGN);
    for (int i = 0; i < c->nrings; i++)
        c->ring[i].ring.barriers = role_lay(&all, 2 * 8 * (int64_t)c->ring[i].ring.stages, 64);
    chain_take_lay(c, &all);
    r->shared = all;
    return true;
}

/* Registers of a thread that the products of one block sum in; those of other blocks come to use them again. */
static int sums_of(const Roles *r, const Chain *c)
{
    int most = 0;

    for (int i = 0; i < c->ndots; i++) {
        int n = 0;
        for (int k = 0; k < c->ndots; k++)
            n += c->dot[k].dot->block == c->dot[i].dot->block ? c->dot[k].dot->type[0].extent[1] * c->rows / r->threads : 0;
        most = n > most ? n : most;
    }
    return most;
}

bool chain_find(CpuCode *e, Roles *r, Chain *c)
{
    int64_t warps = tile_schedule(e->k, "warps", 8);

    *c = (Chain){0};
    *r = (Roles){.sets = 1, .cluster = 1, .chain = c};
    if (e->k->lanes != 1 || strcmp(e->u->machine->cpu, "sm_90a") || !tile_schedule(e->k, "tensor", 1) || !find_dots(e, c, &e->k->body))
        return false;
    if (c->ndots < 2 || !knows_loops(c, &e->k->body))
        return false;
    r->extent[0] = c->rows;
    r->threads = GROUP_THREADS * (int)(warps / 4 < 1 ? 1 : warps / 4 > 3 ? 3 : warps / 4);
    while (r->threads > GROUP_THREADS && (c->rows / GROUP_ROWS) % (r->threads / GROUP_THREADS))
        r->threads -= GROUP_THREADS;
    c->sums = sums_of(r, c);
    if (c->sums > (r->threads == 3 * GROUP_THREADS ? SUMS_OF_THREE : SUMS_OF_TWO))
        return false;
    c->grows = length_in(c, &e->k->body, FAR_GROUP) > length_in(c, &e->k->body, 0);
    c->uneven = length_in(c, &e->k->body, FAR_GROUP) != length_in(c, &e->k->body, 0);
    c->maps = maps_for_loads(e->k);
    find_riders(e, c, &e->k->body);
    r->nmaps = c->nrings + c->nrows;
    role_find_stores(e, r, e->k->body.first, 0);
    r->reads_own = role_reads_own(e->k);
    return chain_take_find(e, c) && lay_out(e, r, c);
}

void chain_maps(const CpuCode *e, const Roles *r, GpuFrame *frame)
{
    for (int i = 0; i < r->chain->nrings; i++)
        role_map(e, &r->chain->ring[i].o, &frame->map[i]);
    for (int i = 0; i < r->chain->nrows; i++)
        role_map(e, &r->chain->row[i].o, &frame->map[r->chain->row[i].map]);
    role_store_maps(e, r, frame);
}
