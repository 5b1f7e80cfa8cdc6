/*
 * Where the values of a kernel of a body lie: views of operands and results, buffers for what is kept and is no result; blocks of both that
 * are loaded and stored, and what machines are told with them.
 */
#include "ir/schedule/lower_impl.h"

#include <stdio.h>

enum {
    AHEAD = 4,                  /* runs of memory */
    AHEAD_BYTES = 2 << 10,      /* of memory that is gone over once */
};

/* ---- views and buffers ---- */

/* A table has its places as its first axis, any other view the rounds. */
static TileRef add_view(Lower *l, const char *kind, int i, DType dt, StrideClass c, bool table)
{
    int lead = table ? 1 : l->s->rounds;
    TileType t = {.kind = TILE_VIEW, .dtype = (uint8_t)dt, .rank = (uint8_t)(2 + lead), .space = SPACE_GLOBAL};
    char name[24];

    for (int k = 0; k < lead; k++)
        t.stride[k] = table ? 1 : STRIDE_ANY;
    t.stride[lead + lower_upright(l)] = c.outer;
    t.stride[lead + !lower_upright(l)] = c.inner;
    snprintf(name, sizeof name, "%s%d", kind, i);
    return tile_param(l->k, sym(name), &t);
}

void lower_add_views(Lower *l)
{
    int nin = l->body->params.n;

    for (int i = 0; i < nin; i++) {
        const RegionValue *v = region_value(l->r, l->body->params.at[i]);
        l->view[i] = add_view(l, "x", i, v && v->key ? DT_uint64 : (DType)l->body->params.at[i]->type[0].dtype, l->stride[i], v && v->lead);
    }
    for (int i = 0; i < l->body->results.n; i++)
        l->view[nin + i] = add_view(l, "y", i, (DType)gvalue_type(l->body->results.at[i])->dtype, l->stride[nin + i], false);
    if (l->s->part)
        lower_part_views(l);
}

/* A result lies among the other rows, a buffer holds those of the group alone. Rows in turn have buffers for all that is kept. */
static bool is_buffer(const Lower *l, int v) { return l->turns || (!l->r->value[v].out && l->home[v] < 0); }

void lower_add_buffers(Lower *l)
{
    bool taken[REGION_VALUES] = {0};

    for (int i = 0; i < 2 * l->r->nvalues; i++) {       /* what is copied from outside, then what may take its place */
        int v = i % l->r->nvalues, w;
        TAttr a = tattr_none;
        if (!l->keep[v] || l->r->value[v].inside != (i >= l->r->nvalues))
            continue;
        for (int k = 0; k < l->body->results.n && l->r->value[v].out; k++)
            if (l->body->results.at[k].node == l->r->value[v].node)
                l->kept[v] = l->view[l->body->params.n + k];
        if (l->home[v] >= 0)
            l->kept[v] = l->view[l->body->params.n + l->home[v]];
        if (!is_buffer(l, v))
            continue;
        if ((w = lower_taken_over(l, v)) >= 0 && !taken[w]) {
            taken[w] = true;
            l->kept[v] = l->kept[w];
            continue;
        }
        a.dtype = l->r->value[v].node->type[0].dtype;
        a.space = SPACE_LOCAL;
        TileRef extent[2];
        lower_set_place(l, extent, index_of(l, l->s->m), l->end);
        l->kept[v] = add(l, TOP_alloc, &a, extent, 2);
    }
}

/* ---- blocks ---- */

void lower_set_shape(const Lower *l, TAttr *a, int32_t rows, int32_t columns)
{
    a->rank = 2;
    a->shape[lower_upright(l)] = rows;
    a->shape[!lower_upright(l)] = columns;
}

void lower_set_place(const Lower *l, TileRef *in, TileRef row, TileRef column)
{
    in[lower_upright(l)] = row;
    in[!lower_upright(l)] = column;
}

/*
 * What is asked for beside a block, as a load says it.  ahead: the rows of the next group.  Upright, memory lies in runs that are too short
 * for machines to see where they go on.  Maps whose results go past the caches ask for what they come to: such stores fill the buffers that
 * loads wait for, and machines look ahead within a page alone.
 */
static int64_t ask_for(const Lower *l, DType dt, StrideClass c, bool ahead)
{
    if (l->s->kind == SCHEDULE_MAP)
        return l->s->past && c.inner == 1 ? -(AHEAD_BYTES / (int64_t)raw_size(dt)) : 0;
    if (l->turns && !lower_upright(l))
        return ahead && c.inner == 1 ? -(AHEAD_BYTES / (int64_t)raw_size(dt)) : 0;
    return lower_upright(l) && c.inner ? AHEAD : ahead ? l->s->m : 0;
}

/*
 * What divides all that is left of an operand's or result's rows from a piece on, where pieces begin at multiples of it, too.  0: nothing that
 * is known, or the view's last axis is not that of rows.
 */
static uint16_t aligned(const Lower *l, StrideClass c)
{
    int align = lower_upright(l) || !c.inner ? 0 : l->s->align;

    while (align && l->s->n % align)
        align /= 2;
    return align > 1 ? (uint16_t)align : 0;
}

/* A block of a view: rows from row0, columns from col, except along axes in which the view does not move. */
static TileRef load_view(Lower *l, TileRef view, StrideClass c, int64_t ask, uint16_t align)
{
    TAttr a = tattr_none;
    TileRef in[3] = {view};

    a.i = ask;
    a.align = align;
    lower_set_place(l, in + 1, c.outer ? l->row0 : l->zero, c.inner ? l->col : l->zero);
    lower_set_shape(l, &a, c.outer ? l->s->m : 1, c.inner ? l->s->n : 1);
    return add(l, TOP_load, &a, in, 3);
}

TileRef lower_load_operand(Lower *l, int i, bool ahead)
{
    StrideClass c = l->stride[i];

    return load_view(l, l->view[i], c, ask_for(l, tile_type(l->view[i])->dtype, c, ahead), aligned(l, c));
}

static void store_view(Lower *l, TileRef view, StrideClass c, TileRef x, bool past, uint16_t align)
{
    TileRef in[4] = {view, l->zero, l->zero, x};
    TAttr a = tattr_none;

    a.i = past;
    a.align = align;
    lower_set_place(l, in + 1, c.outer ? l->row0 : l->zero, c.inner ? l->col : l->zero);
    add(l, TOP_store, &a, in, 4);
}

TileRef lower_load_kept(Lower *l, int v)
{
    TileRef row0 = l->row0, x;

    l->row0 = is_buffer(l, v) ? l->zero : row0;
    x = load_view(l, l->kept[v], (StrideClass){STRIDE_ANY, 1}, 0, aligned(l, (StrideClass){STRIDE_ANY, 1}));
    l->row0 = row0;
    return x;
}

void lower_store_kept(Lower *l, int v, TileRef to)
{
    TileRef in[4] = {to, l->zero, l->zero, lower_stretched(l, lower_get(l, v))};
    TAttr a = tattr_none;

    a.align = aligned(l, (StrideClass){STRIDE_ANY, 1});
    lower_set_place(l, in + 1, is_buffer(l, v) ? l->zero : l->row0, l->col);
    add(l, TOP_store, &a, in, 4);
}

/* A result past the caches: one that no pass reads, nor what is kept in its place. */
static bool goes_past(const Lower *l, int result)
{
    bool past = l->s->past && (l->turns || !l->keep[lower_value(l, l->body->results.at[result].node)]);

    for (int v = 0; v < l->r->nvalues; v++)
        past &= !l->keep[v] || l->home[v] != result;
    return past;
}

void lower_pass_results(Lower *l, TileRef *x)
{
    for (int i = 0; i < l->body->results.n; i++) {
        int v = lower_value(l, l->body->results.at[i].node);
        bool now = !lower_is_row(l, v) && l->r->value[v].pass == l->pass && l->ok;
        x[i] = now ? lower_stretched(l, lower_get(l, v)) : none();
    }
}

void lower_store_results(Lower *l, const TileRef *x)
{
    int nin = l->body->params.n;

    for (int i = 0; i < l->body->results.n && l->ok; i++)
        if (x[i].node)
            store_view(l, l->view[nin + i], l->stride[nin + i], x[i], goes_past(l, i), aligned(l, l->stride[nin + i]));
}

/* Does this pass keep the value for later ones, in a place of its own? */
static bool is_kept_here(const Lower *l, int v)
{
    return l->keep[v] && l->r->value[v].pass == l->pass && !l->r->value[v].out;
}

/* All of it is loaded and computed before the first store: a result, and what is kept in its place, may lie where an operand did. */
void lower_store_pass(Lower *l)
{
    TileRef x[REGION_OPERANDS];

    lower_pass_results(l, x);
    for (int v = 0; v < l->r->nvalues; v++)
        if (is_kept_here(l, v))
            lower_get(l, v);
    lower_store_results(l, x);
    for (int v = 0; v < l->r->nvalues && l->ok; v++)
        if (is_kept_here(l, v))
            lower_store_kept(l, v, l->kept[v]);
}

/* A value for each row of the group: one that is the same for all of them stretches. */
static TileRef of_each_row(Lower *l, TileRef x)
{
    const TileType *t = l->ok ? tile_type(x) : NULL;

    return !t || t->rank != 2 || t->extent[lower_upright(l)] == l->s->m ? x : lower_shaped(l, TOP_splat, x, l->s->m, 1);
}

void lower_store_rows(Lower *l)
{
    int nin = l->body->params.n;

    l->col = l->zero;
    for (int i = 0; i < l->body->results.n && l->ok; i++) {
        int v = lower_value(l, l->body->results.at[i].node);
        if (lower_is_row(l, v))
            store_view(l, l->view[nin + i], l->stride[nin + i], of_each_row(l, lower_get(l, v)), false, 0);
    }
}
