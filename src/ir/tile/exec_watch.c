/*
 * Watching a group.  The elements of a vector are loads of their own that
 * follow each other under one place of the program, so an access is kept until
 * another one comes, and looked at whole.
 *
 * A barrier holds something when, of two accesses that would race, one was
 * before and one behind it and no barrier that is already known to hold
 * something stands between them too.
 */
#include "ir/tile/watch.h"

#include "ir/tile/exec_impl.h"
#include "ir/tile/banks.h"

#include <string.h>

enum { EACH_MAX = 16 };                 /* elements of a vector */

enum { PLAIN, PADDED, XORED, FORMS };   /* how a buffer lies */

typedef struct Request {
    const TileNode *node[EACH_MAX];
    bool shared;
    int size, each;                     /* each: of a lane so far; 0: there is none */
    int64_t *from[FORMS];               /* by lane and element, -1: none; of global memory the first */
} Request;

struct Watch {
    TileWatch *seen;
    int64_t left;                       /* steps */
    Request now;
    Vec(const TileNode *) passed;       /* the barrier that ended each epoch */
};

void tile_watch_init(TileWatch *w, const TileKernel *k) { w->use = tsr_calloc(sizeof *w->use * (k->nnodes + 1)); }
void tile_watch_done(TileWatch *w) { tsr_free(w->use); }

/* ---- accesses ---- */

/* The addresses that n lanes from lane l on ask for; false: none of them does. */
static bool of_warp(const Request *r, int form, int l, int n, int first, int each, int64_t *warp)
{
    bool there = false;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < each; k++) {
            int64_t at = r->from[form][(l + i) * EACH_MAX + first + k];
            warp[i * each + k] = at;
            there |= at >= 0;
        }
    return there;
}

/* Are the elements that each lane asks for neighbours, as a vector's are? */
static bool is_vector(const Exec *e, const Request *r)
{
    const int64_t *from = r->from[PADDED];              /* in order also where the buffer is swizzled */

    for (int l = 0; l < e->k->lanes; l++, from += EACH_MAX)
        for (int k = 1; k < r->each; k++)
            if ((from[k] < 0) != (from[0] < 0) || (from[0] >= 0 && from[k] != from[0] + k * r->size))
                return false;
    return true;
}

/* Elements first, first + 1, ... of each lane as one access. */
static void look_at_some(Exec *e, const Request *r, int first, int each)
{
    TileUse *u = &e->watch->seen->use[r->node[first]->id];
    int lanes = e->k->lanes, *worst[FORMS] = {&u->ways, &u->padded, &u->xored};
    int64_t warp[WARP_LANES * EACH_MAX];

    for (int l = 0; l < lanes; l += WARP_LANES) {
        int n = lanes - l < WARP_LANES ? lanes - l : WARP_LANES, fewest;
        if (!of_warp(r, PLAIN, l, n, first, each, warp))
            continue;
        u->times++;
        for (int f = PLAIN; r->shared && f < FORMS; f++) {
            int ways;
            of_warp(r, f, l, n, first, each, warp);
            ways = bank_ways(warp, n, each, r->size);
            *worst[f] = ways > *worst[f] ? ways : *worst[f];
        }
        if (!r->shared) {
            u->sectors += bank_sectors(warp, n, each, r->size, &fewest);
            u->fewest += fewest;
        }
    }
}

static void look_at(Exec *e, Request *r)
{
    int each = is_vector(e, r) ? r->each : 1;

    for (int k = 0; k < r->each; k += each)
        look_at_some(e, r, k, each);
    r->each = 0;
}

static bool continues(const Request *r, const TileNode *n)
{
    const TileNode *first = r->node[0];

    return r->each && r->each < EACH_MAX && n != first && n->op == first->op && n->span.hi && n->span.lo == first->span.lo &&
           n->span.hi == first->span.hi && n->in[0].node == first->in[0].node;
}

void exec_seen_access(Exec *e, const TileNode *n, const View *v)
{
    Request *r = &e->watch->now;

    if (!continues(r, n)) {
        if (r->each)
            look_at(e, r);
        r->shared = v->shared;
        r->size = (int)raw_size(v->dtype);
        r->each = 0;
    }
    r->node[r->each++] = n;
    for (int f = PLAIN; f < FORMS; f++)
        for (int l = 0; l < e->k->lanes; l++)
            r->from[f][l * EACH_MAX + r->each - 1] = -1;
}

void exec_seen_lane(Exec *e, const View *v, const char *element, int lane)
{
    Request *r = &e->watch->now;
    const Buffer *b = v->buffer;
    int i = lane * EACH_MAX + r->each - 1, size = (int)raw_size(v->dtype);
    int64_t at = b ? (element - b->data) / size : (int64_t)(intptr_t)element, xored = b ? bank_xor(at, b->cols, size) * size : 0;

    r->from[PLAIN][i] = b && b->swizzle ? xored : b ? at * size : at;
    r->from[PADDED][i] = b ? (at + at / (b->cols ? b->cols : 1)) * size : at;
    r->from[XORED][i] = xored;
}

/* ---- barriers ---- */

void exec_seen_barrier(Exec *e, const TileNode *n)
{
    vec_push(&e->watch->passed, n);
    e->watch->seen->use[n->id].times++;
}

void exec_seen_order(Exec *e, uint32_t since)
{
    Watch *w = e->watch;

    for (uint32_t i = e->epoch; i-- > since;)
        if (w->seen->use[w->passed.at[i]->id].held)
            return;
    w->seen->use[w->passed.at[e->epoch - 1]->id].held = true;
}

bool exec_seen_step(Exec *e) { return (e->watch->left -= e->k->lanes) > 0; }

/* ---- groups ---- */

static const TileNode *param_of(TileRef v)
{
    while (v.node->op == TOP_part)
        v = v.node->in[0];
    return v.node->op == TILE_PARAM && !v.node->block->owner ? v.node : NULL;
}

static void mark_written(const TileBlock *b, uint8_t *written)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        const TileNode *p = tile_op_info[n->op].flags & TF_WRITE && n->nin && tile_type(n->in[0])->kind == TILE_VIEW ? param_of(n->in[0]) : NULL;
        if (p)
            written[p->id] = 1;
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                mark_written(n->region[r], written);
    }
}

/* The same elements in memory of their own; *block is to be freed. */
static TileArg copy_of(const TileArg *a, const TileType *t, char **block)
{
    TileArg c = *a;
    int64_t low = 0, high = 0, size = (int64_t)raw_size((DType)t->dtype);

    for (int i = 0; i < t->rank; i++) {
        int64_t reach = a->extent[i] > 0 ? (a->extent[i] - 1) * a->stride[i] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    *block = tsr_alloc((size_t)((high - low + 1) * size));
    memcpy(*block, (const char *)a->base + low * size, (size_t)((high - low + 1) * size));
    c.base = *block - low * size;
    return c;
}

static bool empty(const TileArg *a, int rank)
{
    for (int i = 0; i < rank; i++)
        if (a->extent[i] == 0)
            return true;
    return false;
}

bool tile_watch(const TileKernel *k, const int64_t *sizes, const TileArg *args, int64_t group, int64_t work, TileWatch *seen, StrBuf *err)
{
    int n = k->params.n;
    TileArg *own = tsr_calloc(sizeof *own * (size_t)(n + 1));
    char **block = tsr_calloc(sizeof *block * (size_t)(n + 1));
    uint8_t *written = tsr_calloc(k->nnodes + 1);
    Watch w = {.seen = seen, .left = work};
    bool ok;

    for (int f = PLAIN; f < FORMS; f++)
        w.now.from[f] = tsr_alloc(sizeof *w.now.from[f] * (size_t)k->lanes * EACH_MAX);

    mark_written(&k->body, written);
    for (int i = 0; i < n; i++) {
        const TileNode *p = k->params.at[i];
        own[i] = written[p->id] && !empty(&args[i], p->type[0].rank) ? copy_of(&args[i], &p->type[0], &block[i]) : args[i];
    }
    ok = exec_watched(k, sizes, own, group, &w, err);
    for (int i = 0; i < n; i++)
        tsr_free(block[i]);
    tsr_free(own);
    tsr_free(block);
    tsr_free(written);
    for (int f = PLAIN; f < FORMS; f++)
        tsr_free(w.now.from[f]);
    vec_free(&w.passed);
    return ok;
}

void exec_seen_end(Exec *e)
{
    if (e->watch->now.each)
        look_at(e, &e->watch->now);
    e->watch->passed.n = 0;
}
