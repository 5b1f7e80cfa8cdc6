/*
 * pieces: sums of padded values whose pieces lie side by side become one concat.
 *
 * That is what is left of slices after differentiation: each slice of a value gives its derivative back surrounded by
 * zeros as large as the value, and these are added up.  Joined, each element is written once.  Adding zeros makes 0 of
 * -0 and changes nothing else: one addition of 0 stays, unless all that is done with the value are products and sums, which begin
 * with 0 and so never give -0, nor anything else that depends on a zero's sign.
 */
#include "ir/graph/graph.h"
#include "ir/core/op.h"

#include <string.h>

enum { PIECES = 16 };

typedef struct Piece { GValue v; int axis; Dim from, to; } Piece;       /* where along the axis, from the end, it lies */
typedef struct Sum { Piece piece[PIECES]; int n; const TType *type; } Sum;

static bool is_zero(const Attr *a, int k, int i) { return i >= a->nd[k] || a->d[k][i] == 0; }

/* The node surrounds its operand with zeros along one axis. */
static bool is_piece(const Node *n, const TType *type, Piece *out)
{
    const Attr *a = n->attr;
    const TType *x;
    int axis = 0;

    if (n->op != OP_pad || n->nuse != 1 || a->f != 0 || a->kind || a->nd[0] != a->nd[1] || a->nd[0] > n->type[0].rank)
        return false;
    x = gvalue_type(n->in[0]);
    for (int i = 0; i < a->nd[0]; i++) {
        if (!is_zero(a, 2, i))
            return false;
        if (is_zero(a, 0, i) && is_zero(a, 1, i))
            continue;
        if (axis)
            return false;
        axis = a->nd[0] - i;
        out->from = a->d[0][i];
    }
    if (!axis || x->dtype != type->dtype || x->weak != type->weak || x->policy != type->policy)
        return false;
    out->v = n->in[0];
    out->axis = -axis;
    out->to = dim_add(out->from, x->shape[x->rank - axis]);
    return true;
}

static bool collect(Sum *s, const Node *n)
{
    for (int k = 0; k < 2; k++) {
        const Node *x = n->in[k].node;
        if (x->op == OP_add && x->nuse == 1) {
            if (!collect(s, x))
                return false;
        } else if (s->n == PIECES || !is_piece(x, s->type, &s->piece[s->n]) || s->piece[s->n].axis != s->piece[0].axis) {
            return false;
        } else {
            s->n++;
        }
    }
    return true;
}

/* The pieces in the order in which they lie, from the beginning of the axis, without a gap. */
static bool in_order(Sum *s)
{
    Dim at = 0;

    for (int i = 0; i < s->n; i++) {
        int k = i;
        while (k < s->n && s->piece[k].from != at)
            k++;
        if (k == s->n)
            return false;
        Piece p = s->piece[k];
        s->piece[k] = s->piece[i];
        s->piece[i] = p;
        at = p.to;
    }
    return true;
}

static GValue zeros(Graph *g, Node *at, const TType *type)
{
    Attr a = attr_default();

    a.dtype = type->dtype;
    a.nd[0] = type->rank;
    for (int i = 0; i < type->rank; i++)
        a.d[0][i] = type->shape[i];
    return graph_value_before(g, at, OP_full, &a, NULL, 0, type);
}

static bool sees_sign_of_zero(const Graph *g, const Node *n);

/* May a user of it tell -0 from 0 by what it gives? */
static bool tells_zeros(const Graph *g, const Node *user)
{
    switch (user->op) {
    case OP_matmul:
        return false;
    case OP_sum:
        return user->attr->kind != 0;
    case OP_convert:
        return user->attr->rounding || !dtype_is_float((DType)user->type[0].dtype) || sees_sign_of_zero(g, user);
    case OP_permute: case OP_reshape: case OP_slice:
        return sees_sign_of_zero(g, user);
    default:
        return true;
    }
}

/* Is there anybody who may? Users in regions, too. */
static bool sees_sign_of_zero(const Graph *g, const Node *n)
{
    uint32_t users = 0;

    for (const Node *m = n->next; m; m = m->next)
        for (int i = 0; i < m->nin; i++)
            if (m->in[i].node == n) {
                if (tells_zeros(g, m))
                    return true;
                users++;
            }
    return users != n->nuse;
}

/* All users of n, which stand behind it, take v. */
static void hand_on(Node *n, GValue v)
{
    for (Node *m = n->next; m; m = m->next)
        for (int i = 0; i < m->nin; i++)
            if (m->in[i].node == n)
                graph_use(&m->in[i], v);
}

/* The sum becomes concat(pieces) + 0, or without the 0. */
static void join(Graph *g, Node *n, const Sum *s)
{
    TType part = *s->type, none = {.dtype = s->type->dtype};
    Attr a = attr_default();
    GValue in[PIECES + 1], all;
    int axis = part.rank + s->piece[0].axis, nin = s->n;
    Dim left = dim_sub(part.shape[axis], s->piece[s->n - 1].to);

    for (int i = 0; i < s->n; i++)
        in[i] = s->piece[i].v;
    if (left != 0) {
        part.shape[axis] = left;
        in[nin++] = zeros(g, n, &part);
    }
    a.naxes = 1;
    a.axis[0] = (int8_t)s->piece[0].axis;
    all = graph_value_before(g, n, OP_concat, &a, in, nin, s->type);
    if (sees_sign_of_zero(g, n)) {
        graph_use(&n->in[0], all);
        graph_use(&n->in[1], zeros(g, n, &none));
    } else {
        hand_on(n, all);
    }
}

bool graph_join_pieces(Graph *g)
{
    bool changed = false;

    for (Node *n = g->last; n; n = n->prev) {
        Sum s = {.type = n->type};
        for (int k = 0; k < 4; k++)
            if (n->attr->region[k])
                changed |= graph_join_pieces(n->attr->region[k]);
        if (n->op != OP_add || !n->nuse || !dtype_is_float((DType)n->type[0].dtype) || n->type[0].weak || !collect(&s, n) || !in_order(&s))
            continue;
        join(g, n, &s);
        changed = true;
    }
    return changed && (graph_dce(g), true);
}
