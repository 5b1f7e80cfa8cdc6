/*
 * Barriers for what the group does as one.
 *
 * A program says nothing between a block that the group stores and the same
 * block that it loads; where lanes share out that work, they must have met in
 * between.  The walk keeps what the group has touched since the last barrier,
 * and puts one in front of whatever clashes with that.  What lanes do by
 * themselves is ordered by the program's own barriers.
 */
#include "ir/tile/memory.h"
#include "ir/tile/vary.h"

typedef struct Sync {
    TileKernel *k;
    TileMemory memory;
    bool putting;               /* else only looking */
    bool changed;
} Sync;

static TileTouch in_block(Sync *s, TileBlock *b, TileTouch since);

/* A round finds what the one before it left. */
static TileTouch in_loop(Sync *s, TileNode *n, TileTouch since)
{
    bool putting = s->putting;

    s->putting = false;
    for (int r = 0; r < 2; r++)
        if (n->region[r])
            since = touch_both(since, in_block(s, n->region[r], since));
    s->putting = putting;
    for (int r = 0; r < 2; r++)
        if (n->region[r])
            since = touch_both(since, in_block(s, n->region[r], since));
    return since;
}

static TileTouch in_choice(Sync *s, TileNode *n, TileTouch since)
{
    return touch_both(in_block(s, n->region[0], since), in_block(s, n->region[1], since));
}

static bool is_done_together(const Sync *s, const TileNode *n) { return s->k->lanes == 1 || tile_is_groups(n); }

static TileTouch in_block(Sync *s, TileBlock *b, TileTouch since)
{
    for (TileNode *n = b->first; n; n = n->next) {
        TileTouch t = tile_touch(&s->memory, n);
        if (n->op == TOP_for || n->op == TOP_while) {
            since = in_loop(s, n, since);
        } else if (n->op == TOP_if) {
            since = in_choice(s, n, since);
        } else if (n->op == TOP_barrier) {
            since = (TileTouch){0, 0};
        } else if (is_done_together(s, n)) {
            if (n->op != TOP_wait && touch_clash(since, t)) {      /* what a copy brings is the copy's until then */
                if (s->putting)
                    s->changed |= tile_insert(s->k, n, TOP_barrier, NULL, NULL, 0) != NULL;
                since = (TileTouch){0, 0};
            }
            since = touch_both(since, t);
        }
    }
    return since;
}

bool tile_sync(TileKernel *k)
{
    Sync s = {.k = k, .putting = true};

    if (!pass_runs("tile.sync"))
        return false;
    if (tile_memory(k, &s.memory))
        in_block(&s, &k->body, (TileTouch){0, 0});
    tile_memory_done(&s.memory);
    pass_done("tile.sync", &tile_ir, k);
    return s.changed;
}
