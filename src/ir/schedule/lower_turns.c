/*
 * Rows in turn: a group does many rows, a few at a time, and goes over them in one loop for all passes.
 *
 * Passes over one row wait for each other: the first for memory that is read, the middle ones for arithmetic, the last for memory that is
 * written.  Passes over different rows do not.  So in turn t, pass p goes over the rows of turn t - p, all passes piece by piece side by
 * side, and what one pass is waiting for does not hold up the others:
 *
 *     turn        0    1    2    3   ...
 *     pass 0     r0   r1   r2   r3              reads operands
 *     pass 1          r0   r1   r2              reductions that need the first ones
 *     pass 2               r0   r1              stores results
 *
 * What a pass knows of rows, its reductions, the loop over turns carries to the next pass.  What it keeps of elements lies in a buffer of
 * the group, a piece of which the next pass reads before this pass, in the same round, puts the same piece of the next rows in its
 * place; a pass that hands it on to a third one has a second buffer for that.
 *
 * At either end of a group some passes are early or late.  Early ones go over the first rows, whose results they store again when it
 * is time: what they are told of them, and the buffers, are zero until then.  Late ones go over the last rows once more, to the same effect.
 * No result lies where an operand does.
 */
#include "ir/schedule/lower_impl.h"

#include "base/alloc.h"

enum { STAGES_MAX = 8, CARRIES_MAX = 64 };

/* A pass over the rows that it is at. */
typedef struct Stage {
    TileRef row0, row[REGION_VALUES], piece[REGION_VALUES];
    TileRef kept[REGION_VALUES];        /* value -> the buffer where the stage before left it */
    TileRef result[REGION_OPERANDS], tree[REGION_OPERANDS], sum[REGION_OPERANDS];
    int reduce[REGION_VALUES], nreduces;
} Stage;

typedef struct Turns {
    Lower *l;
    Stage *stage;
    int n;
    TileRef origin, last;       /* the group's first row, and the last turn that it has rows for */
} Turns;

static bool is_reduction(const RegionValue *x) { return x->inside && is_reduce_node(x->node); }

/* Reductions that are known before pass p. */
static bool is_carried(const Region *r, int v, int p) { return is_reduction(&r->value[v]) && r->value[v].pass <= p; }

static bool may(const Region *r)
{
    int carries = 0, reductions = 0;
    bool plain = true;

    for (int v = 0; v < r->nvalues; v++) {
        const RegionValue *x = &r->value[v];
        plain &= !x->lead && !(x->inside && x->node->op == OP_convert && x->node->attr->name);
        reductions += is_reduction(x);
        for (int p = 1; p < r->npasses; p++)
            carries += is_carried(r, v, p);
    }
    return plain && r->nkept && r->nkept < r->naxes && r->npasses > 1 && r->npasses <= STAGES_MAX && reductions <= REGION_OPERANDS &&
           carries <= CARRIES_MAX;
}

static void enter(Turns *t, int pass)
{
    Stage *s = &t->stage[pass];
    Lower *l = t->l;

    l->pass = pass;
    l->row0 = s->row0;
    l->row = s->row;
    l->piece = s->piece;
    l->kept = s->kept;
}

/* ---- before the turns ---- */

/* What is the same along a row each pass computes again: only reductions are handed on. */
static void forget_steady(Lower *l)
{
    for (int v = 0; v < l->r->nvalues; v++)
        l->keep[v] &= !l->steady[v];
}

static void begin_group(Turns *t)
{
    Lower *l = t->l;
    TileRef m = index_of(l, l->s->m), rows = add2(l, TOP_isub, lower_size(l, "n0"), l->row0);

    t->origin = l->row0;
    t->last = add2(l, TOP_isub, add2(l, TOP_iadd, rows, index_of(l, l->s->m - 1)), m);
    t->last = add2(l, TOP_idiv, t->last, m);
    t->last = add2(l, TOP_imin, t->last, index_of(l, l->s->turns - 1));
}

/* Does pass p find the value where the pass before left it? */
static bool is_left(const Lower *l, int v, int p) { return l->keep[v] && l->r->value[v].pass < p && p <= l->last[v]; }

static void add_buffers(Turns *t)
{
    Lower *l = t->l;

    for (int p = 1; p < t->n; p++)
        for (int v = 0; v < l->r->nvalues; v++) {
            TAttr a = tattr_none;
            TileRef extent[2];
            if (!is_left(l, v, p))
                continue;
            a.dtype = l->r->value[v].node->type[0].dtype;
            a.space = SPACE_LOCAL;
            lower_set_place(l, extent, index_of(l, l->s->m), l->end);
            t->stage[p].kept[v] = add(l, TOP_alloc, &a, extent, 2);
        }
}

static TileRef zero_of(Lower *l, DType dt)
{
    TAttr a = tattr_none;

    a.dtype = (uint8_t)dt;
    return add(l, TOP_const, &a, NULL, 0);
}

/* The loop over pieces, and into it. */
static TileNode *each_piece(Lower *l, const TileRef *carry, int n)
{
    TileRef in[3 + REGION_OPERANDS] = {l->from, l->to, l->step};
    TileNode *loop;

    for (int i = 0; i < n; i++)
        in[3 + i] = carry[i];
    loop = l->ok ? tile_add(&l->b, TOP_for, NULL, in, 3 + n) : NULL;
    if (!(l->ok = loop != NULL))
        return NULL;
    l->b.at = loop->region[0];
    l->col = (TileRef){loop->region[0]->params.at[0], 0};
    return loop;
}

static void clear_buffers(Turns *t)
{
    Lower *l = t->l;
    TileBlock *outside = l->b.at;

    if (!each_piece(l, NULL, 0))
        return;
    for (int p = 1; p < t->n; p++)
        for (int v = 0; v < l->r->nvalues; v++)
            if (is_left(l, v, p)) {
                TileRef in[4] = {t->stage[p].kept[v], l->zero, l->zero, lower_stretched(l, zero_of(l, (DType)l->r->value[v].node->type[0].dtype))};
                lower_set_place(l, in + 1, l->zero, l->col);
                add(l, TOP_store, NULL, in, 4);
            }
    l->ok = l->ok && tile_yield(&l->b, NULL, 0);
    l->b.at = outside;
}

/* ---- a turn ---- */

static void begin_stage(Turns *t, int p, TileRef turn)
{
    Lower *l = t->l;
    Stage *s = &t->stage[p];

    turn = add2(l, TOP_isub, turn, index_of(l, p));
    turn = p ? add2(l, TOP_imax, turn, l->zero) : turn;
    turn = p < t->n - 1 ? add2(l, TOP_imin, turn, t->last) : turn;
    s->row0 = add2(l, TOP_iadd, t->origin, add2(l, TOP_imul, turn, index_of(l, l->s->m)));
    enter(t, p);
    lower_steady(l);
    s->nreduces = lower_pass_reduces(l, s->reduce);
    for (int i = 0; i < s->nreduces; i++)
        s->tree[i] = lower_tree(l, l->r->value[s->reduce[i]].node);
}

/* Later passes come first: they take from the buffers what earlier ones replace. Nothing is stored before all is loaded. */
static void do_piece(Turns *t)
{
    Lower *l = t->l;

    l->count = lower_piece_length(l);
    for (int p = t->n - 1; p >= 0; p--) {
        Stage *s = &t->stage[p];
        enter(t, p);
        lower_pass_results(l, s->result);
        for (int v = 0; v < l->r->nvalues && p + 1 < t->n; v++)
            if (is_left(l, v, p + 1))
                lower_get(l, v);
        for (int i = 0; i < s->nreduces; i++)
            s->sum[i] = lower_reduce_piece(l, l->r->value[s->reduce[i]].node);
    }
    for (int p = t->n - 1; p >= 0; p--) {
        enter(t, p);
        lower_store_results(l, t->stage[p].result);
        for (int v = 0; v < l->r->nvalues && p + 1 < t->n && l->ok; v++)
            if (is_left(l, v, p + 1))
                lower_store_kept(l, v, t->stage[p + 1].kept[v]);
    }
}

/* The trees of all stages, one after another. */
static int gather_trees(const Turns *t, TileRef *tree)
{
    int n = 0;

    for (int p = 0; p < t->n; p++)
        for (int i = 0; i < t->stage[p].nreduces; i++)
            tree[n++] = t->stage[p].tree[i];
    return n;
}

static void do_pieces(Turns *t)
{
    Lower *l = t->l;
    TileBlock *outside = l->b.at;
    TileRef tree[REGION_OPERANDS];
    int n = gather_trees(t, tree), k = 0;
    TileNode *loop = each_piece(l, tree, n);

    if (!loop)
        return;
    do_piece(t);
    for (int p = 0; p < t->n; p++)
        for (int i = 0; i < t->stage[p].nreduces; i++, k++) {
            tree[k] = add2(l, TOP_push, (TileRef){loop->region[0]->params.at[k + 1], 0}, t->stage[p].sum[i]);
            t->stage[p].tree[i] = (TileRef){loop, k};
        }
    l->ok = l->ok && tile_yield(&l->b, tree, n);
    l->b.at = outside;
}

static void end_stage(Turns *t, int p)
{
    Lower *l = t->l;
    Stage *s = &t->stage[p];

    enter(t, p);
    for (int i = 0; i < s->nreduces && l->ok; i++)
        s->row[s->reduce[i]] = lower_row_value(l, s->reduce[i], add(l, TOP_total, NULL, &s->tree[i], 1));
    if (p < t->n - 1)
        return;
    l->pass = t->n;
    lower_steady(l);
    lower_store_rows(l);
}

/* ---- all turns ---- */

/* What passes begin with, in the order in which it is carried: of the first turn, nothing; else what the passes before them know. */
static int carried(Turns *t, TileRef *out, bool first)
{
    Lower *l = t->l;
    int n = 0;

    for (int p = 1; p < t->n; p++)
        for (int v = 0; v < l->r->nvalues && l->ok; v++)
            if (is_carried(l->r, v, p))
                out[n++] = first ? lower_shaped(l, TOP_splat, zero_of(l, (DType)l->r->value[v].node->type[0].dtype), l->s->m, 1)
                                 : t->stage[p - 1].row[v];
    return n;
}

static void take_carried(Turns *t, const TileBlock *turn)
{
    int n = 1;

    for (int p = 1; p < t->n; p++)
        for (int v = 0; v < t->l->r->nvalues; v++)
            if (is_carried(t->l->r, v, p))
                t->stage[p].row[v] = (TileRef){turn->params.at[n++], 0};
}

static void do_turns(Turns *t)
{
    Lower *l = t->l;
    TileBlock *outside = l->b.at;
    TileRef in[3 + CARRIES_MAX] = {l->zero, add2(l, TOP_iadd, t->last, index_of(l, t->n)), index_of(l, 1)};
    int n = carried(t, in + 3, true);
    TileNode *loop = l->ok ? tile_add(&l->b, TOP_for, NULL, in, 3 + n) : NULL;

    if (!(l->ok = loop != NULL))
        return;
    l->b.at = loop->region[0];
    take_carried(t, loop->region[0]);
    for (int p = 0; p < t->n; p++)
        begin_stage(t, p, (TileRef){loop->region[0]->params.at[0], 0});
    do_pieces(t);
    for (int p = 0; p < t->n; p++)
        end_stage(t, p);
    n = carried(t, in, false);
    l->ok = l->ok && tile_yield(&l->b, in, n);
    l->b.at = outside;
}

static void lower(Lower *l)
{
    Turns t = {.l = l, .n = l->r->npasses};

    t.stage = tsr_calloc(sizeof *t.stage * (size_t)t.n);
    forget_steady(l);
    begin_group(&t);
    add_buffers(&t);
    clear_buffers(&t);
    do_turns(&t);
    if (l->ok)
        tile_carries(l->k);
    tsr_free(t.stage);
}

const ScheduleTurns schedule_rows_in_turn = {may, lower};
