/*
 * Copies between views: row by row, a run at a time where both views have
 * their elements side by side.
 */
#include "runtime/tile_copy.h"

#include <string.h>

typedef struct Row {
    char *to;
    const char *from;
    int64_t n, have;            /* elements to make; of them those that `from` has */
    int64_t to_step, from_step, size;
    const void *fill;
} Row;

static void copy_row(const Row *r)
{
    bool runs = r->to_step == r->size && r->from_step == r->size;

    if (runs && r->have > 0)
        memcpy(r->to, r->from, (size_t)(r->have * r->size));
    for (int64_t i = runs ? r->have : 0; i < r->n; i++)
        memcpy(r->to + i * r->to_step, i < r->have ? r->from + i * r->from_step : r->fill, (size_t)r->size);
}

static void copy_axis(const TileArg *to, const TileArg *from, int64_t axis, int64_t rank, Row at)
{
    int64_t to_step = to->stride[axis] * at.size, from_step = from->stride[axis] * at.size;

    if (axis >= rank - 1 || axis == VIEW_RANK - 1) {
        at.n = to->extent[axis];
        at.have = at.have ? (from->extent[axis] < at.n ? from->extent[axis] : at.n) : 0;
        at.to_step = to_step;
        at.from_step = from_step;
        copy_row(&at);
        return;
    }
    for (int64_t i = 0; i < to->extent[axis]; i++) {
        Row row = at;
        row.have = at.have && i < from->extent[axis];
        row.to += i * to_step;
        row.from += row.have ? i * from_step : 0;
        copy_axis(to, from, axis + 1, rank, row);
    }
}

void tile_copy(const TileArg *to, const TileArg *from, int64_t rank, int64_t size, const void *fill)
{
    Row all = {.to = to->base, .from = from->base, .have = 1, .size = size, .fill = fill};

    if (rank)
        copy_axis(to, from, 0, rank, all);
    else
        memcpy(to->base, from->base, (size_t)size);
}
