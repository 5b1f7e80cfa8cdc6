/*
 * lower: the body of a `fused` node as a kernel of the Tile IR.  Where its values lie is in lower_memory.c.
 *
 * A group does m rows.  Values of a row are tiles [m, 1], values of elements
 * tiles [m, n] for a piece of the rows; what an operand does not have an axis
 * for has extent 1 there, and stretches.  The rows are gone over in passes
 * (region.h): each pass reduces the pieces in the order of R4 of docs/numerics.md and
 * stores the results that it knows.
 *
 * A pass that needs an element's value again computes it again where that is
 * cheap; otherwise the first pass kept it, in the result that it is anyway, in
 * the place of one that a later pass will store, or in a buffer of the group.
 * Where whole rows are there at once, passes are no loops, and who makes the
 * code chooses.  Where a group does rows in turn, all passes are one loop (lower_turns.c).
 */
#include "ir/schedule/lower_impl.h"

#include "runtime/kernel_util.h"

#include <stdio.h>
#include <string.h>

const ScheduleTurns *schedule_turns;

enum { DEAR = 12 };             /* what is computed with an element while memory could bring as much */

/* ---- maps ---- */

static TileRef convert(Lower *l, TileRef x, DType to, const Attr *how)
{
    TAttr a = tattr_none;

    if (tile_type(x)->dtype == to && !how)
        return x;
    a.op = OP_convert;
    a.dtype = to;
    if (how) {
        a.rounding = how->rounding;
        a.saturate = how->saturate;
        a.flush = how->flush;
    }
    return add(l, TOP_map, &a, &x, 1);
}

/* A [m, 1] and a scalar meet as they are: ranks are equal or 0. */
static TileRef emit_map(Lower *l, const Node *n, TileRef *in)
{
    DType out = (DType)n->type[0].dtype, have[3], as[3];
    TAttr a = tattr_none;
    bool weak[3];

    if (n->op == OP_stop_gradient || n->op == OP_conj || (n->op == OP_convert && n->attr->name))
        return in[0];
    if (n->op == OP_convert)
        return convert(l, in[0], out, n->attr);
    for (int i = 0; i < n->nin; i++) {
        have[i] = (DType)gvalue_type(n->in[i])->dtype;
        weak[i] = gvalue_type(n->in[i])->weak;
    }
    map_operand_dtypes((OpId)n->op, n->nin, have, weak, out, as);
    for (int i = 0; i < n->nin; i++)
        in[i] = convert(l, in[i], as[i], NULL);
    a.op = (uint8_t)n->op;
    a.dtype = out;
    a.flush = n->attr->flush;
    a.fast = n->attr->fast;
    return add(l, TOP_map, &a, in, n->nin);
}

/* A constant of one element, or `full`. */
static TileRef emit_copy(Lower *l, const Node *n)
{
    TAttr a = tattr_none;
    const Tensor *t = n->attr->value;
    bool real = dtype_is_inexact((DType)n->type[0].dtype);

    a.dtype = n->type[0].dtype;
    if (n->op == OP_full) {
        a.f = n->attr->f;
        a.i = real ? 0 : (int64_t)n->attr->f;
    } else if (real)
        a.f = elem_get_f(t, t->offset);
    else
        a.i = elem_get_i(t, t->offset);
    return add(l, TOP_const, &a, NULL, 0);
}

/* ---- values ---- */

int lower_operand(const Lower *l, const Node *n)
{
    for (int i = 0; i < l->body->params.n; i++)
        if (l->body->params.at[i] == n)
            return i;
    return -1;
}

static TileRef product_block(Lower *l)
{
    TileRef x = l->product->block(&l->b, l->row0, l->col, l->product->st);

    l->ok = l->ok && x.node;
    return x;
}

/*
 * Are the next group's elements asked for in this pass? Where it computes so long that memory could bring them meanwhile, or, where results go past
 * the caches, does not store them: memory that is written does not bring anything.
 */
static bool asks_ahead(const Lower *l)
{
    return l->pass == l->busy && !l->s->long_rows && (l->work >= DEAR || (l->s->past && l->pass < l->r->npasses - 1));
}

static TileRef outside_value(Lower *l, int v)
{
    const Node *n = l->r->value[v].node;
    int i = lower_operand(l, n);
    bool ahead;

    if (l->keep[v] && l->pass > 0)
        return lower_load_kept(l, v);
    if (l->product && i == l->body->params.n - 1)
        return product_block(l);

    if (i < 0)
        return emit_copy(l, n);
    ahead = l->turns ? l->pass == l->first[v] : asks_ahead(l);
    return lower_load_operand(l, i, ahead);
}

/* What a launch says of a counter: its first number, its steps along the outer and the inner axis. */
static const char *counter_name(int counter, int word, char *out)
{
    static const char *const what[] = {"first", "outer", "inner"};

    snprintf(out, 24, "c%d_%s", counter, what[word]);
    return out;
}

static TileRef counter_word(Lower *l, int counter, int word) { return lower_size(l, counter_name(counter, word, (char[24]){0})); }

static TileRef number_tile(Lower *l, TileRef index)
{
    TAttr a = tattr_none;

    a.dtype = DT_int64;
    return add(l, TOP_to_tile, &a, &index, 1);
}

/* from, from + 1, ... along the rows or the elements of a tile, times a step. */
static TileRef run_of(Lower *l, TileRef from, bool columns, TileRef step)
{
    TAttr a = tattr_none;
    TileRef in[2];

    a.dtype = DT_int64;
    a.axis = (int8_t)(columns != lower_upright(l));
    lower_set_shape(l, &a, columns ? 1 : l->s->m, columns ? l->s->n : 1);
    in[0] = add(l, TOP_iota, &a, &from, 1);
    if (!step.node)
        return in[0];
    a = tattr_none;
    a.op = OP_mul;
    in[1] = number_tile(l, step);
    return add(l, TOP_map, &a, in, 2);
}

/* The numbers of the elements of a block, int64: first + row * outer + column * inner. */
static TileRef emit_counter(Lower *l, int i)
{
    StrideClass c = l->counts[i];
    TileRef first = lower_first(l, i, counter_word(l, i, 0)), outer = c.outer ? counter_word(l, i, 1) : none(), inner = none(), row, x[2];
    TAttr a = tattr_none;

    if (c.outer && l->s->m == 1) {                      /* one row: it is a number of all */
        first = add2(l, TOP_iadd, first, add2(l, TOP_imul, l->row0, outer));
        c.outer = 0;
    }
    row = c.outer ? run_of(l, l->row0, false, outer) : none();
    if (c.inner == 1) {
        x[0] = run_of(l, add2(l, TOP_iadd, first, l->col), true, none());
    } else {
        inner = c.inner ? run_of(l, l->col, true, counter_word(l, i, 2)) : none();
        x[0] = number_tile(l, first);
        a.op = OP_add;
        x[1] = inner;
        x[0] = c.inner ? add(l, TOP_map, &a, x, 2) : x[0];
    }
    a.op = OP_add;
    x[1] = row;
    return c.outer ? add(l, TOP_map, &a, x, 2) : x[0];
}

/* What follows from elements' numbers: places along an axis, random numbers. */
static TileRef emit_numbered(Lower *l, const RegionValue *v)
{
    TileRef number = emit_counter(l, v->counter);

    if (!l->ok || v->node->op == OP_iota)
        return convert(l, number, (DType)v->node->type[0].dtype, NULL);
    number = schedule_random(&l->b, v->node->attr->kind, (DType)v->node->type[0].dtype, lower_get(l, lower_value(l, v->node->in[0].node)), number,
                             none());
    l->ok &= number.node != NULL;
    return number;
}

static TileRef inside_value(Lower *l, int v)
{
    const RegionValue *x = &l->r->value[v];
    TileRef in[3];

    if (l->keep[v] && x->pass < l->pass)
        return lower_load_kept(l, v);
    if (region_moves(x->node))
        return lower_get(l, lower_value(l, x->node->in[0].node));
    l->b.span = x->node->span;
    if (region_looks_up(x->node))
        return lower_look_up(l, x->node, lower_get(l, lower_value(l, x->node->in[1].node)));
    if (x->counter >= 0)
        return emit_numbered(l, x);
    for (int i = 0; i < x->node->nin; i++)
        in[i] = lower_get(l, lower_value(l, x->node->in[i].node));
    l->b.span = x->node->span;
    if (l->held[v].node)
        return lower_held(l, v, in[0]);
    return l->ok ? emit_map(l, x->node, in) : none();
}

/* The tile of a value in this pass. Those of rows and scalars were made before the loop over pieces. */
TileRef lower_get(Lower *l, int v)
{
    if (l->row[v].node)
        return l->row[v];
    if (!l->piece[v].node && l->ok)
        l->piece[v] = l->r->value[v].inside ? inside_value(l, v) : outside_value(l, v);
    return l->piece[v];
}

/* Which values stay the same along a row, so that they can be made before the loop over pieces: operands first, then in order. */
static void find_steady(Lower *l)
{
    for (int v = 0; v < l->r->nvalues; v++) {
        int operand = l->r->value[v].inside ? -1 : lower_operand(l, l->r->value[v].node);
        l->steady[v] = !l->r->value[v].inside && (operand < 0 || !l->stride[operand].inner);
    }
    for (int v = 0; v < l->r->nvalues; v++) {
        const RegionValue *x = &l->r->value[v];
        bool all = x->inside && (x->counter < 0 || !l->counts[x->counter].inner);
        for (int i = 0; all && i < x->node->nin; i++)
            all = l->steady[lower_value(l, x->node->in[i].node)];
        l->steady[v] |= all || lower_is_row(l, v);
    }
}

/* ---- passes ---- */

static void emit_steady_one(Lower *l, int v)
{
    const RegionValue *x = &l->r->value[v];

    if (!l->ok || l->row[v].node || !l->steady[v] || x->pass > l->pass || x->lead || is_reduce_node(x->node))
        return;
    l->row[v] = x->inside ? inside_value(l, v) : outside_value(l, v);
}

/* Everything along rows that is known by now: first what comes from outside. */
void lower_steady(Lower *l)
{
    for (int inside = 0; inside < 2; inside++)
        for (int v = 0; v < l->r->nvalues; v++)
            if (l->r->value[v].inside == inside)
                emit_steady_one(l, v);
}

/* Reductions over this pass. */
int lower_pass_reduces(const Lower *l, int *out)
{
    int n = 0;

    for (int v = 0; v < l->r->nvalues; v++)
        if (l->r->value[v].inside && is_reduce_node(l->r->value[v].node) && l->r->value[v].pass - 1 == l->pass)
            out[n++] = v;
    return n;
}

TileRef lower_shaped(Lower *l, TileOp op, TileRef x, int32_t m, int32_t n)
{
    TAttr a = tattr_none;

    lower_set_shape(l, &a, m, n);
    return add(l, op, &a, &x, 1);
}

/* A tile of all rows of a piece: what has one row or one column stretches. */
TileRef lower_stretched(Lower *l, TileRef x)
{
    const TileType *t = l->ok ? tile_type(x) : NULL;
    bool whole = t && t->rank == 2 && t->extent[lower_upright(l)] == l->s->m && t->extent[!lower_upright(l)] == l->s->n;

    return !t || whole ? x : lower_shaped(l, TOP_splat, x, l->s->m, l->s->n);
}

TileRef lower_tree(Lower *l, const Node *n)
{
    TAttr a = tattr_none;

    a.op = (uint8_t)n->op;
    a.dtype = reduce_accum(n);
    a.rank = 1;
    a.shape[0] = l->s->m;
    return add(l, TOP_tree, &a, NULL, 0);
}

TileRef lower_reduce_piece(Lower *l, const Node *n)
{
    TAttr a = tattr_none;
    TileRef x = lower_get(l, lower_value(l, n->in[0].node));

    if (!l->ok)
        return none();
    l->b.span = n->span;
    x = lower_stretched(l, convert(l, x, reduce_accum(n), NULL));
    a.op = (uint8_t)n->op;
    a.axis = !lower_upright(l);
    a.fast = n->attr->fast;
    return add(l, TOP_reduce, &a, (TileRef[]){x, l->count}, 2);
}

/* The length of the rows that are reduced, where it is one number for all launches: the only reduced axis has it. -1: it is not known. */
static int64_t fixed_length(const Lower *l)
{
    int64_t n = -1;

    return l->r->nkept && l->r->naxes == l->r->nkept + 1 && dim_const_value(l->r->size[l->r->nkept], &n) ? n : -1;
}

/* How much of a piece there is: all of it, but at the end of rows of any length. */
TileRef lower_piece_length(Lower *l)
{
    int64_t n = fixed_length(l);

    if (n >= 0 && n <= l->s->n)
        return l->end;
    return n >= 0 && n % l->s->n == 0 ? l->step : add2(l, TOP_imin, l->step, add2(l, TOP_isub, l->to, l->col));
}

/* The loop over pieces; the trees after it replace those before it. */
static void emit_pieces(Lower *l, const int *reduce, int n, TileRef *tree)
{
    TileBlock *outside = l->b.at;
    TileRef in[3 + REGION_OPERANDS] = {l->from, l->to, l->step}, x[REGION_OPERANDS];
    TileNode *loop;

    memcpy(in + 3, tree, sizeof *tree * (size_t)n);
    loop = l->ok ? tile_add(&l->b, TOP_for, NULL, in, 3 + n) : NULL;
    if (!(l->ok = loop != NULL))
        return;
    l->b.at = loop->region[0];
    l->col = (TileRef){loop->region[0]->params.at[0], 0};
    l->count = lower_piece_length(l);
    for (int i = 0; i < n; i++)
        x[i] = lower_reduce_piece(l, l->r->value[reduce[i]].node);
    lower_store_pass(l);                                /* beside the reductions, so that a piece is gone over once */
    for (int i = 0; i < n; i++)
        tree[i] = add2(l, TOP_push, (TileRef){loop->region[0]->params.at[i + 1], 0}, x[i]);
    l->ok = l->ok && tile_yield(&l->b, tree, n);
    l->b.at = outside;
    for (int i = 0; i < n; i++)
        tree[i] = (TileRef){loop, i};
}

TileRef lower_row_value(Lower *l, int v, TileRef x)
{
    return l->ok ? lower_shaped(l, TOP_reshape, convert(l, x, (DType)l->r->value[v].node->type[0].dtype, NULL), l->s->m, 1) : none();
}

/* Rows that are there as a whole: values stay what they are from pass to pass. */
static void emit_whole_pass(Lower *l)
{
    int reduce[REGION_VALUES], n = lower_pass_reduces(l, reduce);
    TileRef x[REGION_VALUES];

    lower_steady(l);
    l->col = l->zero;
    l->count = l->end;
    for (int i = 0; i < n; i++)
        x[i] = lower_reduce_piece(l, l->r->value[reduce[i]].node);
    lower_store_pass(l);
    for (int i = 0; i < n; i++)
        l->row[reduce[i]] = lower_row_value(l, reduce[i], x[i]);
}

/* The second kernel: sums of parts, then what is computed of them. */
static void emit_joined(Lower *l)
{
    int reduce[REGION_VALUES], n = lower_pass_reduces(l, reduce);

    for (int i = 0; i < n && l->ok; i++)
        l->row[reduce[i]] = lower_row_value(l, reduce[i], lower_join_parts(l, i, l->r->value[reduce[i]].node, 0, PARTS_MOST));
    l->pass = l->r->npasses;
}

static void emit_pass(Lower *l)
{
    int reduce[REGION_VALUES], n = lower_pass_reduces(l, reduce);
    TileRef tree[REGION_OPERANDS];

    lower_steady(l);
    memset(l->piece, 0, sizeof *l->piece * REGION_VALUES);
    if (n > REGION_OPERANDS) {
        l->ok = false;
        return;
    }
    for (int i = 0; i < n; i++)
        tree[i] = lower_tree(l, l->r->value[reduce[i]].node);
    emit_pieces(l, reduce, n, tree);
    for (int i = 0; i < n && l->ok; i++) {
        TileRef x = add(l, TOP_total, NULL, &tree[i], 1);
        if (l->s->part)
            lower_store_part(l, i, x);
        else
            l->row[reduce[i]] = lower_row_value(l, reduce[i], x);
    }
    memset(l->piece, 0, sizeof *l->piece * REGION_VALUES);
}

/* ---- the kernel ---- */

/* The group's place along an axis of the grid, behind that of the rounds. */
static TileRef group_of(Lower *l, int axis)
{
    TAttr a = tattr_none;

    a.axis = (int8_t)(axis + (l->s->rounds > 0));
    return add(l, TOP_group, &a, NULL, 0);
}

/* Sizes of a launch have places, used or not. */
static void name_counters(Lower *l)
{
    for (int i = 0; i < 3 * l->r->ncounters; i++)
        tile_size(l->k, sym(counter_name(i / 3, i % 3, (char[24]){0})));
}

static void set_grid(Lower *l)
{
    Dim n0 = tile_size(l->k, sym("n0")), n1 = tile_size(l->k, sym("n1"));

    name_counters(l);
    if (l->s->rounds)
        vec_push(&l->k->grid, lower_rounds(l));
    vec_push(&l->k->grid, dim_cdiv(n0, l->turns ? schedule_group_rows(l->s) : l->s->m));
    if (!lower_reduces(l))
        vec_push(&l->k->grid, dim_cdiv(n1, l->s->n));
    if (l->s->part == PART_SUMS)
        vec_push(&l->k->grid, dim_cdiv(n1, tile_size(l->k, sym("part"))));
}

static void emit_map_kernel(Lower *l)
{
    l->col = add2(l, TOP_imul, group_of(l, 1), l->step);
    lower_steady(l);
    lower_store_pass(l);
}

static void emit_rows_kernel(Lower *l)
{
    if (l->s->part == PART_SUMS) {
        emit_pass(l);
        return;
    }
    if (l->s->part == PART_JOIN)
        emit_joined(l);
    for (; l->pass < l->r->npasses && l->ok; l->pass++)
        if (l->s->whole == WHOLE_ROWS)
            emit_whole_pass(l);
        else
            emit_pass(l);
    lower_steady(l);
    lower_store_rows(l);
}

static TileRef inner_size(Lower *l)
{
    TAttr a = tattr_none;

    a.name = sym("n1");
    a.align = (uint16_t)l->s->align;
    return add(l, TOP_size, &a, NULL, 0);
}

static Sym whole_schedule(const Schedule *s)
{
    char text[40];

    snprintf(text, sizeof text, s->held ? "whole=1 held=%d" : s->blocks ? "whole=1 blocks=%d" : "whole=1", s->held ? s->held : s->blocks);
    if (s->stays)
        strncat(text, " stays=1", sizeof text - strlen(text) - 1);
    return sym(text);
}

/* Does a group do nothing but sums of columns, of operands that have all axes, so that two groups may do the same columns to the same bits? */
static bool sums_columns_alone(const Lower *l)
{
    bool alone = l->s->lean && l->s->kind == SCHEDULE_COLUMNS && !l->turns && !l->s->whole && l->r->npasses == 1;

    for (int v = 0; alone && v < l->r->nvalues; v++) {
        const RegionValue *x = &l->r->value[v];
        bool row = region_is_row(l->r, x);
        alone = !(x->out && !row) && !(row && x->has && lower_operand(l, x->node) >= 0);
    }
    return alone;
}

/* The group's first row. The last group of columns reaches as far back as it takes to be whole: at an edge each thread waits for each load. */
static TileRef first_row(Lower *l)
{
    TileRef m = index_of(l, l->turns ? schedule_group_rows(l->s) : l->s->m), row = add2(l, TOP_imul, group_of(l, 0), m);

    if (!sums_columns_alone(l))
        return row;
    row = add2(l, TOP_imin, row, add2(l, TOP_isub, lower_size(l, "n0"), m));
    return add2(l, TOP_imax, row, l->zero);
}

static void emit_kernel(Lower *l)
{
    set_grid(l);
    lower_add_views(l);
    l->zero = index_of(l, 0);
    if (l->s->rounds)
        lower_round_views(l);
    l->step = index_of(l, l->s->n);
    l->end = lower_reduces(l) && fixed_length(l) >= 0 ? index_of(l, fixed_length(l)) : inner_size(l);
    l->row0 = first_row(l);
    l->from = l->zero;
    l->to = l->end;
    if (l->s->part == PART_SUMS) {
        l->part = group_of(l, 1);
        l->from = add2(l, TOP_imul, l->part, lower_size(l, "part"));
        l->to = add2(l, TOP_imin, l->end, add2(l, TOP_iadd, l->from, lower_size(l, "part")));
    }
    if (l->s->whole)
        l->k->schedule = whole_schedule(l->s);
    if (l->s->whole != WHOLE_ROWS) {
        lower_choose_kept(l);
        lower_choose_copied(l);
    }
    if (l->turns) {
        schedule_turns->lower(l);
        return;
    }
    if (l->s->whole != WHOLE_ROWS) {
        lower_find_busy(l);
        lower_choose_homes(l);
    }
    lower_add_buffers(l);
    lower_held_buffers(l);
    if (lower_reduces(l))
        emit_rows_kernel(l);
    else
        emit_map_kernel(l);
}

void schedule_row_major(const Graph *body, const Region *r, StrideClass *out)
{
    int nin = body->params.n;
    uint16_t inner = r->nkept < r->naxes ? (uint16_t)(region_all(r) & ~region_kept(r)) : (uint16_t)(region_all(r) & ~(region_all(r) >> 1));

    for (int i = 0; i < nin + body->results.n; i++) {
        const RegionValue *v = region_value(r, i < nin ? body->params.at[i] : body->results.at[i - nin].node);
        uint16_t has = v ? v->has : 0;
        out[i].inner = (has & inner) || i >= nin;
        out[i].outer = has & ~inner || i >= nin ? STRIDE_ANY : 0;
    }
    for (int i = 0; i < r->ncounters; i++) {
        uint16_t has = 0;
        for (int k = 0; k < r->counter[i].n; k++)
            has |= (uint16_t)(1u << r->counter[i].axis[k]);
        out[nin + body->results.n + i] = (StrideClass){has & ~inner ? STRIDE_ANY : 0, has & inner ? 1 : 0};
    }
}

TileKernel *schedule_lower(const Graph *body, const Region *r, const Schedule *s, const StrideClass *stride, const LowerProduct *product, StrBuf *err)
{
    const char *name = s->kind == SCHEDULE_MAP ? "map" : s->kind == SCHEDULE_ROWS ? "rows" : "columns";
    Lower l = {.body = body, .r = r, .s = s, .stride = stride, .product = product, .counts = stride + body->params.n + body->results.n,
               .k = tile_kernel_new(sym(name)), .ok = true};
    TileRef room[5][REGION_VALUES] = {0};
    bool keep[REGION_VALUES] = {0}, steady[REGION_VALUES] = {0};
    int home[REGION_VALUES], first[REGION_VALUES], last[REGION_VALUES];

    l.b = (TileBuilder){.k = l.k, .at = &l.k->body, .err = err};
    l.row = room[0], l.piece = room[1], l.kept = room[2], l.view = room[3], l.held = room[4];
    l.keep = keep;
    l.steady = steady;
    l.home = memset(home, -1, sizeof home);
    l.first = memset(first, -1, sizeof first);
    l.last = memset(last, -1, sizeof last);
    l.turns = s->kind == SCHEDULE_ROWS && s->turns && !s->whole && !s->part && schedule_turns && schedule_turns->may(r);
    find_steady(&l);
    emit_kernel(&l);
    if (l.ok)
        return l.k;
    tile_kernel_free(l.k);
    return NULL;
}
