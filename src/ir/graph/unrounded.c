/* unrounded.h: whose uses are all products is found once for a run, by the nodes in order and back. */
#include "ir/graph/unrounded.h"

#include "ir/graph/level.h"

#include "base/alloc.h"
#include "runtime/mesh.h"

int (*trace_rounds)(Tensor *const *x, const Attr *a);

static bool is_conversion(const Node *n)
{
    const Attr *a = n->attr;

    return n->op == OP_convert && n->type[0].dtype == DT_tf32 && gvalue_type(n->in[0])->dtype == DT_f32 && !a->rounding && !a->saturate &&
           !a->flush && !a->policy;
}

/* The product of a fused node's body that its operands i and *other are multiplied by, which nothing else there uses. NULL: there is none. */
static const Node *product_of_body(const Node *n, int *factor)
{
    const Graph *body = n->attr->region[0];
    const Node *product = NULL;

    for (const Node *m = body->first; m; m = m->next)
        if (m->op == OP_matmul && product)
            return NULL;
        else if (m->op == OP_matmul)
            product = m;
    for (int k = 0; product && k < 2; k++) {
        factor[k] = -1;
        for (int i = 0; i < body->params.n; i++)
            factor[k] = product->in[k].node == body->params.at[i] ? i : factor[k];
        if (factor[k] < 0)
            return NULL;
    }
    for (const Node *m = product ? body->first : NULL; m; m = m->next)
        for (int i = 0; i < m->nin && m != product; i++)
            if (m->in[i].node == product->in[0].node || m->in[i].node == product->in[1].node)
                return NULL;
    return product;
}

/* The node's operands that are multiplied with each other, and the product. NULL: it is none. */
static const Node *product_of(const Node *n, int *factor)
{
    factor[0] = 0, factor[1] = 1;
    return n->op == OP_matmul ? n : n->op == OP_fused && n->attr->region[0] ? product_of_body(n, factor) : NULL;
}

static uint32_t slot_of(const Unrounded *u, GValue v) { return u->base[v.node->id] + (uint32_t)v.index; }

/* What n has of others is none of these where it is no factor of a product, nor permuted for one. */
static void look_at_uses(Unrounded *u, const Node *n)
{
    bool permutes = n->op == OP_permute && u->may[u->base[n->id]], any = false;
    const Node *product;
    int factor[2];

    for (int i = 0; i < n->nin && !any; i++)
        any = u->may[slot_of(u, n->in[i])];
    if (!any || permutes)
        return;
    product = product_of(n, factor);
    for (int i = 0; i < n->nin; i++)
        if (!product || (i != factor[0] && i != factor[1]))
            u->may[slot_of(u, n->in[i])] = false;
}

void unrounded_find(Unrounded *u, const Graph *g, const uint32_t *base, int nslots)
{
    bool any = false;

    *u = (Unrounded){.base = base};
    for (const Node *n = g->first; n && trace_rounds && devices_used; n = n->next)
        any = any || is_conversion(n);
    if (!any)
        return;
    u->may = tsr_calloc(2 * (size_t)nslots + 1);
    u->is = u->may + nslots;
    for (const Node *n = g->first; n; n = n->next)
        u->may[base[n->id]] = n->nout == 1 && (is_conversion(n) || (n->op == OP_permute && u->may[slot_of(u, n->in[0])]));
    for (int i = 0; i < g->results.n; i++)
        u->may[slot_of(u, g->results.at[i])] = false;
    for (const Node *n = g->last; n; n = n->prev)
        look_at_uses(u, n);
}

void unrounded_done(Unrounded *u) { tsr_free(u->may); }

bool unrounded_begins(const Unrounded *u, const Node *n, Tensor *x)
{
    return u->may && n->op == OP_convert && u->may[u->base[n->id]] && !x->tracer && device_is_far(device_of_operands(&x, 1));
}

/* The same elements as a tensor of tf32. */
static Tensor *as_tf32(Tensor *t)
{
    Tensor *v = tensor_view(t, t->rank, t->shape, t->stride, t->offset);

    v->dtype = DT_tf32;
    return v;
}

/* [..., n, k] of [..., k, n]. */
static bool exchange(Trace *T, Tensor **t)
{
    Attr a = attr_default();
    int r = (*t)->rank, n;
    Tensor *y;

    a.naxes = (uint8_t)r;
    for (int i = 0; i < r; i++)
        a.axis[i] = (int8_t)(i < r - 2 ? i - r : -3 - (i - r));
    if (!op_dispatch(T, OP_permute, &a, t, 1, &y, &n))
        return false;
    tensor_unref(*t);
    *t = y;
    return true;
}

static bool convert(Trace *T, Tensor **t)
{
    Attr a = attr_default();
    Tensor *y;
    int n;

    a.dtype = DT_tf32;
    if (!op_dispatch(T, OP_convert, &a, t, 1, &y, &n))
        return false;
    tensor_unref(*t);
    *t = y;
    return true;
}

/* The right operand's rows then lie side by side, where units are to have it. */
static bool convert_operand(Trace *T, Tensor **t, bool across)
{
    return !across ? convert(T, t) : exchange(T, t) && convert(T, t) && exchange(T, t);
}

bool unrounded_pair(Trace *T, Tensor **x, const Attr *a, bool *ok)
{
    int which = !trace_rounds || !devices_used || x[0]->tracer || x[1]->tracer ? 0 : trace_rounds(x, a);

    *ok = true;
    for (int i = 0; which && *ok && i < 2; i++) {
        Tensor *v;
        if (!(which >> i & 1)) {
            *ok = convert_operand(T, &x[i], i == 1);
            continue;
        }
        v = as_tf32(x[i]);
        tensor_unref(x[i]);
        x[i] = v;
    }
    return which != 0;
}

bool unrounded_meet(Unrounded *u, Trace *T, const Node *n, Tensor **in, Tensor **slot, Tensor **made)
{
    int factor[2], which;
    const Node *product;
    bool any = false;

    for (int i = 0; i < n->nin && !any; i++)
        any = u->is[slot_of(u, n->in[i])];
    if (!any || n->op == OP_permute) {
        u->is[u->base[n->id]] = any;
        return true;
    }
    product = product_of(n, factor);
    which = trace_rounds((Tensor *[]){in[factor[0]], in[factor[1]]}, product->attr);
    for (int k = 0; k < 2; k++) {
        uint32_t s = slot_of(u, n->in[factor[k]]);
        if (!u->is[s])
            continue;
        if (which >> k & 1)
            made[k] = as_tf32(slot[s]);
        else if (!convert_operand(T, &slot[s], which && k == 1))
            return false;
        u->is[s] = which >> k & 1;
        in[factor[k]] = made[k] ? made[k] : slot[s];
    }
    return true;
}
