/*
 * What loops and choices hand on and nobody uses.
 *
 * A name that a loop of a program gives a value is carried from round to round
 * and out of the loop, because something might read it.  Mostly nothing does:
 * a block that is loaded and used in one round needs no place for the next.
 * A value counts when an effect follows from it, be it by way of other rounds;
 * all others go, and with them the copies that carrying them takes.
 */
#include "ir/tile/tile_impl.h"

#include "base/alloc.h"

typedef struct Carries {
    TileKernel *k;
    uint32_t *first;            /* the number of each node's first value, by id */
    bool *counts;               /* by number */
    bool *stays;                /* by id: a node with regions in which something happens, or whose results count */
    Vec(TileRef) todo;
    bool changed;
} Carries;

static bool is_control(const TileNode *n) { return n->op == TOP_for || n->op == TOP_while || n->op == TOP_if; }

/* Operands before those that are carried, and parameters of region r before theirs. */
static int operands_before(const TileNode *n) { return n->op == TOP_for ? 3 : n->op == TOP_if ? 1 : 0; }
static int params_before(const TileNode *n) { return n->op == TOP_for; }

/* ---- what counts ---- */

static void count(Carries *c, TileRef v)
{
    bool *known = &c->counts[c->first[v.node->id] + (uint32_t)v.index];

    if (!*known)
        vec_push(&c->todo, v);
    *known = true;
}

static void count_operands(Carries *c, const TileNode *n, int to)
{
    for (int i = 0; i < to; i++)
        count(c, n->in[i]);
}

/* Something in the node's regions counts: so does whether, and how often, they run. */
static void keep(Carries *c, const TileNode *n)
{
    for (; n && !c->stays[n->id]; n = n->block->owner) {
        c->stays[n->id] = true;
        count_operands(c, n, operands_before(n));
        if (n->op == TOP_while)
            count(c, n->region[0]->yields.at[0]);
    }
}

/* The i-th value that a node hands on. */
static void count_carried(Carries *c, TileNode *n, int i)
{
    keep(c, n);
    count(c, (TileRef){n, i});
    if (n->op != TOP_if)
        count(c, n->in[operands_before(n) + i]);
    for (int r = 0; r < 2; r++)
        if (n->region[r] && !(n->op == TOP_while && r == 0))
            count(c, n->region[r]->yields.at[i]);
}

static void roots(Carries *c, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (!is_control(n) && tile_op_info[n->op].flags & (TF_WRITE | TF_ORDER)) {
            keep(c, n->block->owner);
            count_operands(c, n, n->nin);
        }
        if (n->op == TOP_while)                 /* which may not end */
            keep(c, n);
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                roots(c, n->region[r]);
    }
}

static void spread(Carries *c)
{
    while (c->todo.n) {
        TileRef v = vec_last(&c->todo);
        TileNode *owner = v.node->block->owner;
        c->todo.n--;
        if (is_control(v.node)) {
            count_carried(c, v.node, v.index);
        } else if (v.node->op != TILE_PARAM) {
            count_operands(c, v.node, v.node->nin);
            keep(c, owner);
        } else if (owner) {
            keep(c, owner);
            for (int r = 0; r < 2; r++)
                for (int i = params_before(owner); owner->region[r] && i < owner->region[r]->params.n; i++)
                    if (owner->region[r]->params.at[i] == v.node)
                        count_carried(c, owner, i - params_before(owner));
        }
    }
}

/* ---- what goes ---- */

static void drop_use(TileRef v) { v.node->nuse--; }

/* The node without the results that do not count. */
static void narrow(Carries *c, TileNode *n)
{
    int before = operands_before(n), skip = params_before(n), kept = 0;
    bool carries = n->op != TOP_if;

    for (int i = 0; i < n->nout; i++) {
        bool counts = c->counts[c->first[n->id] + (uint32_t)i];
        for (int r = 0; r < 2; r++) {
            TileBlock *b = n->region[r];
            bool yields = b && !(n->op == TOP_while && r == 0);
            if (yields && !counts)
                drop_use(b->yields.at[i]);
            if (yields && counts)
                b->yields.at[kept] = b->yields.at[i];
            if (b && carries && counts)
                b->params.at[skip + kept] = b->params.at[skip + i];
        }
        if (carries && !counts)
            drop_use(n->in[before + i]);
        if (carries && counts)
            n->in[before + kept] = n->in[before + i];
        if (counts)
            n->type[kept++] = n->type[i];
    }
    c->changed |= kept != n->nout;
    for (int r = 0; r < 2; r++) {
        if (n->region[r] && !(n->op == TOP_while && r == 0))
            n->region[r]->yields.n = kept;
        if (n->region[r] && carries)
            n->region[r]->params.n = skip + kept;
    }
    n->nin = (uint16_t)(carries ? before + kept : n->nin);
    n->nout = (uint16_t)kept;
}

/* Which of its results a node's i-th one is by then. */
static int new_index(const Carries *c, TileRef v)
{
    int index = 0;

    for (int i = 0; i < v.index; i++)
        index += c->counts[c->first[v.node->id] + (uint32_t)i];
    return index;
}

static void renumber(const Carries *c, TileRef *v, int n)
{
    for (int i = 0; i < n; i++)
        if (is_control(v[i].node))
            v[i].index = new_index(c, v[i]);
}

static void each_block(Carries *c, TileBlock *b, void (*what)(Carries *c, TileNode *n))
{
    for (TileNode *n = b->first; n; n = n->next) {
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                each_block(c, n->region[r], what);
        what(c, n);
    }
}

static void narrow_control(Carries *c, TileNode *n)
{
    if (is_control(n))
        narrow(c, n);
}

/* Uses of values in a node and in its regions' yields. What does not count keeps its number: it goes with its user. */
static void renumber_node(Carries *c, TileNode *n)
{
    renumber(c, n->in, n->nin);
    for (int r = 0; r < 2; r++)
        if (n->region[r])
            renumber(c, n->region[r]->yields.at, n->region[r]->yields.n);
}

/* Nodes that do not count have nobody who uses them but each other. */
static void unlink_block(Carries *c, TileBlock *b)
{
    for (TileNode *n = b->last, *prev; n; n = prev) {
        bool counts = is_control(n) ? c->stays[n->id] : (tile_op_info[n->op].flags & (TF_WRITE | TF_ORDER)) != 0;
        prev = n->prev;
        for (int i = 0; i < n->nout && !counts; i++)
            counts = c->counts[c->first[n->id] + (uint32_t)i];
        if (!counts) {
            tile_unlink(n);
            c->changed = true;
            continue;
        }
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                unlink_block(c, n->region[r]);
    }
}

/* ---- the pass ---- */

bool tile_carries(TileKernel *k)
{
    Carries c = {.k = k};
    uint32_t count;

    if (!pass_runs("tile.carries"))
        return false;
    c.first = tile_numbers(k, &count);
    for (int i = 0; i < k->params.n; i++)
        c.first[k->params.at[i]->id] = count++;
    c.counts = tsr_calloc(sizeof *c.counts * (count + 1));
    c.stays = tsr_calloc(sizeof *c.stays * (k->nnodes + 1));
    roots(&c, &k->body);
    spread(&c);
    unlink_block(&c, &k->body);
    each_block(&c, &k->body, narrow_control);
    each_block(&c, &k->body, renumber_node);
    tsr_free(c.first);
    tsr_free(c.counts);
    tsr_free(c.stays);
    vec_free(&c.todo);
    pass_done("tile.carries", &tile_ir, k);
    return c.changed;
}
