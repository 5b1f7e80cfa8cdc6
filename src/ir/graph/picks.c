/*
 * picks: one element of each row, such as the log-probability of a label, without the rows.
 *
 *     f(x, r)[i, label[i]]             is  f(x[i, label[i]], r[i])
 *     zeros, += g at [i, label[i]]     is  where(class == label, 0 + g, 0), and the sum of a row of it is g
 *
 * The first computes an elementwise function for what is picked and not for all of a row, so nothing has to hold the rows; the second,
 * which is what differentiation makes of a pick, is elementwise, so it is fused with who reads it.  So a cross entropy reads its
 * logits once for itself and its derivative, and writes that.  Labels are looked up in 0, 1, 2, ..., so that negative
 * ones count from the end and others out of range are refused as they were.
 */
#include "ir/graph/edit.h"

#include "base/alloc.h"

#include <string.h>

enum { PICK_LEAVES = 4, INT32_LAST = INT32_MAX };

typedef struct Pick {
    Graph *g;
    Node *at;                   /* an `index`, or an `index_add`; new nodes go before it */
    const TType *table, *one;   /* types of what is picked from, and of what is picked */
    GValue label;
    int leaves;                 /* values that are picked from as they are */
    bool *seen;                 /* node -> is there a pick of it? by id */
    GValue *made;               /* that one */
} Pick;

/* ---- is it a pick? ---- */

/* v counts 0, 1, 2, ... along one axis of `one`, all of it, and is the same along the others. */
static bool counts_along(const Pick *p, GValue v, int axis)
{
    const Node *n = v.node;
    const TType *t;

    if (n->op == OP_broadcast)
        n = n->in[0].node;
    t = &n->type[0];
    for (int k = 0; k < t->rank; k++) {
        int to = p->one->rank - t->rank + k;
        if (to < 0 || (to == axis ? t->shape[k] != p->table->shape[axis] : t->shape[k] != 1))
            return false;
    }
    if (t->rank < p->one->rank - axis)
        return false;
    if (n->op == OP_reshape)
        n = n->in[0].node;
    return n->op == OP_iota && n->type[0].rank == 1;
}

/* Is each row's index one number of its last axis, and all other indices the row's own place?  operand: the first index. */
static bool is_pick(Pick *p, int operand)
{
    const Node *n = p->at;
    int rank = p->table->rank, rows = rank - 1, kept = p->one->rank - rows, batch = n->attr->m;

    if (n->attr->n + batch != rank || (kept != 0 && kept != 1) || (kept && p->one->shape[rows] != 1) || n->nin - operand != n->attr->n)
        return false;
    for (int k = 0; k < rows; k++)
        if (p->one->shape[k] != p->table->shape[k] || (k >= batch && !counts_along(p, n->in[operand + k - batch], k)))
            return false;
    p->label = n->in[n->nin - 1];
    return true;
}

/* Are its elements along a row of the table's their own? */
static bool has_rows(const Pick *p, const TType *t)
{
    Dim last = t->rank ? t->shape[t->rank - 1] : 1;

    return last != 1 && last == p->table->shape[p->table->rank - 1];
}

static bool is_map(const Node *n) { return n->op < OP_COUNT && op_info[n->op].family == FAM_MAP && n->nout == 1 && n->nin; }

/* Can v be picked from? Values of rows are the same for all of a row; maps are computed of what is picked of their operands. */
static bool can_pick(Pick *p, GValue v)
{
    const TType *t = gvalue_type(v);
    bool can = true;

    if (!has_rows(p, t))
        return !t->rank || t->shape[t->rank - 1] == 1;
    if (p->seen[v.node->id])
        return true;
    p->seen[v.node->id] = true;
    if (!is_map(v.node))
        return ++p->leaves <= PICK_LEAVES && t->rank == p->table->rank && !memcmp(t->shape, p->table->shape, sizeof *t->shape * t->rank);
    for (int i = 0; can && i < v.node->nin; i++)
        can = can_pick(p, v.node->in[i]);
    return can;
}

/* ---- what is picked ---- */

static GValue before(Pick *p, OpId op, const Attr *a, const GValue *in, int nin, const TType *type)
{
    return graph_value_before(p->g, p->at, op, a, in, nin, type);
}

static GValue reshaped(Pick *p, GValue v, int rank, const Dim *shape)
{
    TType t = *gvalue_type(v);
    Attr a = attr_default();

    t.rank = (uint8_t)rank;
    a.nd[0] = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        t.shape[i] = a.d[0][i] = shape[i];
    return before(p, OP_reshape, &a, &v, 1, &t);
}

/* What is the same for all of a row, without the row's axis where what is picked has none. */
static GValue row_value(Pick *p, GValue v)
{
    const TType *t = gvalue_type(v);

    return !t->rank || p->one->rank == p->table->rank ? v : reshaped(p, v, t->rank - 1, t->shape);
}

/* The type of what is picked of a value, or computed of such: as the operands broadcast. */
static TType picked_type(const Pick *p, const Node *n, const GValue *in)
{
    TType t = n->type[0];

    t.rank = 0;
    for (int i = 0; i < n->nin; i++) {
        const TType *x = gvalue_type(in[i]);
        t.rank = x->rank > t.rank ? x->rank : t.rank;
    }
    for (int k = 0; k < t.rank; k++)
        t.shape[k] = p->one->shape[p->one->rank - t.rank + k];
    return t;
}

static GValue pick(Pick *p, GValue v)
{
    Node *n = v.node;
    GValue in[8];
    TType t;

    if (!has_rows(p, gvalue_type(v)))
        return row_value(p, v);
    if (p->made[n->id].node)
        return p->made[n->id];
    if (is_map(n)) {
        for (int i = 0; i < n->nin; i++)
            in[i] = pick(p, n->in[i]);
        t = picked_type(p, n, in);
        return p->made[n->id] = before(p, (OpId)n->op, n->attr, in, n->nin, &t);
    }
    t = n->type[v.index];
    t.rank = p->one->rank;
    memcpy(t.shape, p->one->shape, sizeof *t.shape * t.rank);
    memcpy(in, p->at->in, sizeof *in * p->at->nin);
    in[0] = v;
    return p->made[n->id] = before(p, OP_index, p->at->attr, in, p->at->nin, &t);
}

static bool pick_first(Graph *g, Node *n)
{
    Pick p = {.g = g, .at = n, .table = gvalue_type(n->in[0]), .one = &n->type[0]};
    StrBuf err = {0};
    bool done = false;

    if (!is_map(n->in[0].node) || n->nin > 8 || !p.table->rank || !has_rows(&p, p.table) || !is_pick(&p, 1))
        return false;
    p.seen = tsr_calloc(g->nnodes);
    p.made = tsr_calloc(sizeof *p.made * g->nnodes);
    if (can_pick(&p, n->in[0]))
        done = graph_replace(g, n, pick(&p, n->in[0]).node, &err);
    tsr_free(p.seen);
    tsr_free(p.made);
    sb_done(&err);
    return done;
}

/* ---- its derivative ---- */

/* 0, 1, 2, ... along the last of so many axes. */
static GValue classes(Pick *p, int rank)
{
    Dim n = p->table->shape[p->table->rank - 1];
    int64_t most;
    TType t = {.rank = (uint8_t)rank};
    Attr a;

    t.dtype = dim_const_value(n, &most) && most <= INT32_LAST ? DT_int32 : DT_int64;
    for (int i = 0; i < rank; i++)
        t.shape[i] = i == rank - 1 ? n : 1;
    a = attr_iota((DType)t.dtype, rank, t.shape, -1);
    return before(p, OP_iota, &a, NULL, 0, &t);
}

/* The labels as places in 0, 1, 2, ..., with an axis for the row. */
static GValue resolved(Pick *p)
{
    GValue in[2] = {classes(p, 1), p->label}, v;
    TType t = *gvalue_type(p->label);
    Attr a = attr_default();

    t.dtype = gvalue_type(in[0])->dtype;
    t.weak = 0;
    t.policy = NULL;
    a.n = 1;
    v = before(p, OP_index, &a, in, 2, &t);
    if (p->one->rank == p->table->rank)
        return v;
    t.shape[t.rank] = 1;
    return reshaped(p, v, t.rank + 1, t.shape);
}

static bool put_where(Graph *g, Node *n)
{
    Pick p = {.g = g, .at = n, .table = &n->type[0], .one = gvalue_type(n->in[1])};
    const Node *base = n->in[0].node;
    TType mask = *p.table, none = *p.table, row = *p.table;
    GValue zero, add[2], in[3];
    Attr a = attr_default();
    StrBuf err = {0};
    bool done;

    if (base->op != OP_full || !p.table->rank || row.policy || row.weak || gvalue_type(n->in[1])->dtype != row.dtype || !has_rows(&p, p.table) ||
        !is_pick(&p, 2))
        return false;
    none.rank = 0;
    row.shape[row.rank - 1] = 1;
    mask.dtype = DT_bool;
    a.dtype = row.dtype;
    a.f = base->attr->f;
    zero = before(&p, OP_full, &a, NULL, 0, &none);
    add[0] = zero;
    add[1] = p.one->rank == p.table->rank ? n->in[1] : reshaped(&p, n->in[1], row.rank, row.shape);
    in[0] = before(&p, OP_eq, &attr_none, (GValue[]){classes(&p, mask.rank), resolved(&p)}, 2, &mask);
    in[1] = before(&p, OP_add, &attr_none, add, 2, &row);
    in[2] = zero;
    done = graph_replace(g, n, before(&p, OP_where, &attr_none, in, 3, &n->type[0]).node, &err);
    sb_done(&err);
    return done;
}

/* ---- its sum ---- */

/* The only places of eq that are true are labels' own: a row has one, as what they are compared with was looked up in 0, 1, 2, ... */
static bool has_one_place(const Node *eq)
{
    const Node *class = eq->in[0].node, *label = eq->in[1].node;

    if (eq->op != OP_eq || class->op != OP_iota || class->attr->axis[0] != -1)
        return false;
    while (label->op == OP_reshape)
        label = label->in[0].node;
    return label->op == OP_index && label->attr->n == 1 && label->in[0].node->op == OP_iota &&
           label->in[0].node->type[0].shape[0] == class->type[0].shape[class->type[0].rank - 1];
}

static bool is_zero(GValue v) { return v.node->op == OP_full && v.node->attr->f == 0; }

/* What put_where writes, of which a row is one number, never -0, and zeros. */
static bool is_put(const Node *n)
{
    const Node *row = n->nin == 3 ? n->in[1].node : NULL;
    const TType *t = row ? &row->type[0] : NULL;

    return n->op == OP_where && has_one_place(n->in[0].node) && row->op == OP_add && is_zero(row->in[0]) && is_zero(n->in[2]) &&
           t->rank == n->type[0].rank && t->rank && t->shape[t->rank - 1] == 1;
}

/* The sum of such rows, or of their negatives, is that number: adding zeros of its sign changes nothing. */
static bool sum_put(Graph *g, Node *n)
{
    Node *x = n->in[0].node, *put = x->op == OP_neg ? x->in[0].node : x;
    Pick p = {.g = g, .at = n};
    StrBuf err = {0};
    GValue v;
    TType t;
    bool done;

    if (n->attr->naxes != 1 || n->attr->axis[0] != -1 || n->type[0].dtype != x->type[0].dtype || n->type[0].policy || !is_put(put))
        return false;
    v = put->in[1];
    t = *gvalue_type(v);
    v = x == put ? v : before(&p, OP_neg, x->attr, &v, 1, &t);
    done = graph_replace(g, n, reshaped(&p, v, t.rank - 1, t.shape).node, &err);
    sb_done(&err);
    return done;
}

bool graph_picks(Graph *g)
{
    bool changed = false;

    for (Node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int k = 0; k < 4; k++)
            if (n->attr->region[k])
                changed |= graph_picks(n->attr->region[k]);
        if (n->nuse && n->op == OP_index)
            changed |= pick_first(g, n);
        else if (n->nuse && n->op == OP_index_add)
            changed |= put_where(g, n);
        else if (n->nuse && n->op == OP_sum)
            changed |= sum_put(g, n);
    }
    return changed && (graph_cse(g), graph_dce(g), true);
}
