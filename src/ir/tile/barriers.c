/*
 * Barriers that hold nothing apart go.
 *
 * A barrier is needed when something touched since the barriers before it
 * clashes with something touched until the barriers behind it, on any way
 * through the kernel.  Buffers and parameters count whole: who touches which
 * element is not looked at, so what stays may still be one too many.
 */
#include "ir/tile/memory.h"

#include "base/alloc.h"

typedef struct Barriers {
    TileKernel *k;
    TileMemory memory;
    TileTouch *before, *behind;         /* of barriers, by node id */
} Barriers;

static TileTouch forward(Barriers *s, const TileBlock *b, TileTouch since);
static TileTouch backward(Barriers *s, const TileBlock *b, TileTouch until);

/* ---- what was touched since a barrier ---- */

static TileTouch forward_loop(Barriers *s, const TileNode *n, TileTouch since)
{
    TileTouch was;

    do {
        was = since;
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                since = touch_both(since, forward(s, n->region[r], since));
    } while (!touch_equal(was, since));
    return since;
}

static TileTouch forward(Barriers *s, const TileBlock *b, TileTouch since)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_for || n->op == TOP_while) {
            since = forward_loop(s, n, since);
        } else if (n->op == TOP_if) {
            since = touch_both(forward(s, n->region[0], since), forward(s, n->region[1], since));
        } else if (n->op == TOP_barrier) {
            s->before[n->id] = touch_both(s->before[n->id], since);
            since = (TileTouch){0, 0};
        } else {
            since = touch_both(since, tile_touch(&s->memory, n));
        }
    }
    return since;
}

/* ---- what will be touched until a barrier ---- */

static TileTouch backward_loop(Barriers *s, const TileNode *n, TileTouch until)
{
    TileTouch was;

    do {
        was = until;
        for (int r = 1; r >= 0; r--)
            if (n->region[r])
                until = touch_both(until, backward(s, n->region[r], until));
    } while (!touch_equal(was, until));
    return until;
}

static TileTouch backward(Barriers *s, const TileBlock *b, TileTouch until)
{
    for (const TileNode *n = b->last; n; n = n->prev) {
        if (n->op == TOP_for || n->op == TOP_while) {
            until = backward_loop(s, n, until);
        } else if (n->op == TOP_if) {
            until = touch_both(backward(s, n->region[0], until), backward(s, n->region[1], until));
        } else if (n->op == TOP_barrier) {
            s->behind[n->id] = touch_both(s->behind[n->id], until);
            until = (TileTouch){0, 0};
        } else {
            until = touch_both(until, tile_touch(&s->memory, n));
        }
    }
    return until;
}

/* ---- the pass ---- */

static TileNode *first_idle(const Barriers *s, const TileBlock *b)
{
    for (TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_barrier && !touch_clash(s->before[n->id], s->behind[n->id]))
            return n;
        for (int r = 0; r < 2; r++) {
            TileNode *found = n->region[r] ? first_idle(s, n->region[r]) : NULL;
            if (found)
                return found;
        }
    }
    return NULL;
}

/* One at a time: what it kept apart from others is then for those beside it to keep apart. */
static bool drop_one(Barriers *s)
{
    TileNode *idle;

    s->before = tsr_calloc(sizeof *s->before * (s->k->nnodes + 1));
    s->behind = tsr_calloc(sizeof *s->behind * (s->k->nnodes + 1));
    forward(s, &s->k->body, (TileTouch){0, 0});
    backward(s, &s->k->body, (TileTouch){0, 0});
    idle = first_idle(s, &s->k->body);
    if (idle)
        tile_unlink(idle);
    tsr_free(s->before);
    tsr_free(s->behind);
    return idle != NULL;
}

bool tile_barriers(TileKernel *k)
{
    Barriers s = {.k = k};
    bool changed = false;

    if (!pass_runs("tile.barriers"))
        return false;
    if (tile_memory(k, &s.memory))
        while (drop_one(&s))
            changed = true;
    tile_memory_done(&s.memory);
    pass_done("tile.barriers", &tile_ir, k);
    return changed;
}
