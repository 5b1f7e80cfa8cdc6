/*
 * Rounds: axes that operands do not walk in one go with the rows of the kernel, such as those of a transpose of four axes.
 *
 * A GPU takes as long to launch a kernel as to move megabytes, so one launch does all rounds: the grid has one more axis, the first, of
 * rounds in row-major order, and views have an axis for each axis of rounds before their own two.  A group takes its round's part of
 * every view, and from there on there is but one round.
 */
#include "ir/schedule/lower_impl.h"

#include <stdio.h>

/* The name of what a launch says of an axis of rounds: its size, or (counter >= 0) a counter's step along it. */
static Sym round_name(int axis, int counter)
{
    char name[32];

    snprintf(name, sizeof name, counter < 0 ? "r%d" : "r%d_c%d", axis, counter);
    return sym(name);
}

Dim lower_rounds(Lower *l)
{
    Dim all = dim_const(1);

    for (int a = 0; a < l->s->rounds; a++)
        all = dim_mul(all, tile_size(l->k, round_name(a, -1)));
    for (int i = 0; i < l->r->ncounters; i++)
        for (int a = 0; a < l->s->rounds; a++)
            tile_size(l->k, round_name(a, i));
    return all;
}

/* Row-major: the last axis goes round first. */
static void find_round(Lower *l)
{
    TileRef rest = add(l, TOP_group, &tattr_none, NULL, 0);

    for (int a = l->s->rounds - 1; a > 0; a--) {
        TileRef size = lower_size(l, round_name(a, -1)->text);
        l->round[a] = add2(l, TOP_imod, rest, size);
        rest = add2(l, TOP_idiv, rest, size);
    }
    l->round[0] = rest;
}

static TileRef round_part(Lower *l, TileRef view)
{
    TileRef in[1 + 2 * (ROUND_AXES + 2)] = {view};
    TAttr a = tattr_none, at = tattr_none;
    int rounds = l->s->rounds, rank = rounds + 2;

    a.drop = (uint8_t)((1u << rounds) - 1);
    for (int k = 0; k < rank; k++) {
        at.axis = (int8_t)k;
        in[1 + k] = k < rounds ? l->round[k] : l->zero;
        in[1 + rank + k] = k < rounds ? index_of(l, 1) : add(l, TOP_extent, &at, &view, 1);
    }
    return add(l, TOP_part, &a, in, 1 + 2 * rank);
}

void lower_round_views(Lower *l)
{
    find_round(l);
    for (int i = 0; i < l->body->params.n + l->body->results.n; i++)
        l->view[i] = round_part(l, l->view[i]);
}

TileRef lower_first(Lower *l, int counter, TileRef first)
{
    for (int a = 0; a < l->s->rounds; a++) {
        TileRef step = lower_size(l, round_name(a, counter)->text);
        first = add2(l, TOP_iadd, first, add2(l, TOP_imul, l->round[a], step));
    }
    return first;
}
