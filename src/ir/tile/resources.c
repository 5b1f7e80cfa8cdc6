/*
 * Registers by lifetimes: nodes are numbered in program order, a value lives
 * from its node to the last one that uses it, or to the end of the outermost
 * loop that uses it again and does not make it.  The estimate is the largest
 * sum of what lives at one point, and three fifths more for what an assembler
 * adds to it, up to a limit: ptxas gives four of five kernels within a fifth.
 */
#include "ir/tile/resources.h"

#include "ir/tile/tile_impl.h"

enum { ALWAYS = 8, WIDE = 2, SCRATCH = 28 };    /* ids of any kernel; places and pointers; what assemblers add at most */

typedef struct Live {
    const TileKernel *k;
    const int64_t *sizes;
    int lanes;
    uint32_t *number;           /* of values: tile_numbers */
    uint32_t *place;            /* of nodes, by id */
    uint32_t *end;              /* of values, by number: the place of the last use */
    uint32_t *last;             /* of loops, by id: the place behind what stands in them */
    uint32_t places;
    int64_t *change;            /* by place: registers that begin there less those that ended before */
    int64_t shared, staged;
} Live;

static bool of_kernel(TileRef v) { return v.node->op == TILE_PARAM && !v.node->block->owner; }

/* ---- sizes ---- */

static int64_t number_of(const Live *l, TileRef v)
{
    const TileNode *n = v.node;

    switch (n->op) {
    case TOP_index: return n->attr->i;
    case TOP_size:
        for (int i = 0; i < l->k->size.n; i++)
            if (l->k->size.at[i] == n->attr->name)
                return l->sizes[i];
        return 1;
    case TOP_iadd: return number_of(l, n->in[0]) + number_of(l, n->in[1]);
    case TOP_imul: return number_of(l, n->in[0]) * number_of(l, n->in[1]);
    default: return 1;
    }
}

static int64_t bytes_of(const TileType *t) { return (tile_elements(t) * dtype_info[t->dtype].bits + 7) / 8; }

/* Immediate operands, and blocks that follow from a number: made where they are needed. */
static bool free_to_make(const TileNode *n)
{
    return n->op == TOP_index || n->op == TOP_size || n->op == TOP_const || n->op == TOP_iota || n->op == TOP_extent ||
           (n->op == TOP_splat && n->in[0].node->op == TOP_const);
}

static int64_t registers_of(const Live *l, const TileType *t)
{
    switch (t->kind) {
    case TILE_INDEX: return WIDE;
    case TILE_VALUE:
        if (t->dtype == DT_bool && t->rank == 0)
            return 0;                                       /* a predicate */
        return t->rank == 0 ? (dtype_info[t->dtype].bits + 31) / 32 : (bytes_of(t) + 4 * (int64_t)l->lanes - 1) / (4 * (int64_t)l->lanes);
    case TILE_TREE: return 4 * ((bytes_of(t) + 4 * (int64_t)l->lanes - 1) / (4 * (int64_t)l->lanes));
    default: return t->space == SPACE_GLOBAL ? WIDE : 0;
    }
}

/* ---- places ---- */

static void number_block(Live *l, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        l->place[n->id] = ++l->places;
        for (int r = 0; r < 2; r++)
            if (n->region[r]) {
                for (int i = 0; i < n->region[r]->params.n; i++)
                    l->place[n->region[r]->params.at[i]->id] = l->places;
                number_block(l, n->region[r]);
            }
        l->last[n->id] = n->region[0] ? ++l->places : l->places;
    }
}

/* A use at `place` of block `b`: loops around it that do not make the value keep it to their end. */
static void use(Live *l, TileRef v, const TileBlock *b, uint32_t place)
{
    uint32_t *end;

    if (of_kernel(v))
        return;
    for (; b->owner && b != v.node->block; b = b->owner->block)
        if (b->owner->op != TOP_if)
            place = l->last[b->owner->id];
    end = &l->end[l->number[v.node->id] + (uint32_t)v.index];
    *end = place > *end ? place : *end;
}

static void uses_in(Live *l, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->nin; i++)
            use(l, n->in[i], b, l->place[n->id]);
        for (int r = 0; r < 2; r++)
            if (n->region[r]) {
                uses_in(l, n->region[r]);
                for (int i = 0; i < n->region[r]->yields.n; i++)
                    use(l, n->region[r]->yields.at[i], n->region[r], l->last[n->id]);
            }
    }
}

/* ---- sums ---- */

static void alive(Live *l, TileRef v, uint32_t from, int64_t registers)
{
    uint32_t end = l->end[l->number[v.node->id] + (uint32_t)v.index];

    if (end <= from)
        return;
    l->change[from] += registers;                           /* an operand that ends at a node gives its registers to the result */
    l->change[end] -= registers;
}

/* Is a block loaded for products alone? They read it from shared memory. From the end, so that users are seen first. */
static void mark_used_otherwise(const TileBlock *b, uint8_t *otherwise)
{
    for (int i = 0; i < b->yields.n; i++)
        otherwise[b->yields.at[i].node->id] = 1;
    for (const TileNode *n = b->last; n; n = n->prev) {
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                mark_used_otherwise(n->region[r], otherwise);
        for (int i = 0; i < n->nin; i++)
            if (!(n->op == TOP_dot && i < 2) && !(n->op == TOP_permute && !otherwise[n->id]))
                otherwise[n->in[i].node->id] = 1;
    }
}

static void take(Live *l, const TileNode *n, const uint8_t *otherwise)
{
    bool operand = (n->op == TOP_load || n->op == TOP_gather || n->op == TOP_permute) && !otherwise[n->id] && n->type[0].rank >= 2;

    if (operand && n->op != TOP_permute && tile_type(n->in[0])->space == SPACE_GLOBAL)
        l->staged += bytes_of(&n->type[0]);
    if (n->op == TOP_alloc) {
        int64_t bytes = (dtype_info[n->attr->dtype].bits + 7) / 8;
        for (int i = 0; i < n->nin; i++)
            bytes *= number_of(l, n->in[i]);
        if (n->attr->space == SPACE_SHARED)
            l->shared += bytes;
        else
            alive(l, (TileRef){(TileNode *)n, 0}, l->place[n->id], (bytes + 3) / 4);
        return;
    }
    for (int i = 0; i < n->nout && !free_to_make(n) && !operand; i++)
        alive(l, (TileRef){(TileNode *)n, i}, n->region[0] ? l->last[n->id] : l->place[n->id], registers_of(l, &n->type[i]));
}

static void take_block(Live *l, const TileBlock *b, const uint8_t *otherwise)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        take(l, n, otherwise);
        for (int r = 0; r < 2; r++)
            if (n->region[r]) {
                for (int i = 0; i < n->region[r]->params.n; i++) {
                    TileRef p = {n->region[r]->params.at[i], 0};
                    alive(l, p, l->place[p.node->id], registers_of(l, tile_type(p)));
                }
                take_block(l, n->region[r], otherwise);
            }
    }
}

void tile_resources(const TileKernel *k, const int64_t *sizes, int lanes, TileResources *out)
{
    uint32_t values;
    Live l = {.k = k, .sizes = sizes, .lanes = lanes};
    uint8_t *otherwise = tsr_calloc(k->nnodes + 1);
    int64_t now = 0, most = 0;

    l.number = tile_numbers(k, &values);
    l.place = tsr_calloc(sizeof *l.place * (k->nnodes + 1));
    l.last = tsr_calloc(sizeof *l.last * (k->nnodes + 1));
    l.end = tsr_calloc(sizeof *l.end * (values + 1));
    number_block(&l, &k->body);
    l.change = tsr_calloc(sizeof *l.change * (l.places + 2));
    uses_in(&l, &k->body);
    mark_used_otherwise(&k->body, otherwise);
    take_block(&l, &k->body, otherwise);
    for (uint32_t i = 0; i <= l.places; i++) {
        now += l.change[i];
        most = now > most ? now : most;
    }
    most = most > 1 << 20 ? 1 << 20 : most;
    most += ALWAYS + (most * 3 / 5 < SCRATCH ? most * 3 / 5 : SCRATCH);
    *out = (TileResources){(int)most, l.shared, l.staged};
    tsr_free(otherwise);
    tsr_free(l.number);
    tsr_free(l.place);
    tsr_free(l.last);
    tsr_free(l.end);
    tsr_free(l.change);
}
