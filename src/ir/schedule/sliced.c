/*
 * sliced: products of batches that go slice after slice (steps.slices).
 *
 *     p = softmax(q @ k^T)        a kernel that begins with a product [heads, rows, columns]
 *     p @ v                       a product that takes its result, as it is or turned
 *     p^T @ g, ds @ k, ds^T @ q   and those that take what another kernel of the group takes or gives
 *
 * Of the other values of the group each needs what lies at the same place of the leading axes alone.  So one slice after another can go
 * through all, and what lies between them stays in a second cache (steps_slices.c).  A group begins with a kernel whose result a product takes;
 * products join it that multiply a large value which the kernel takes or gives.
 */
#include "ir/schedule/steps.h"

#include "ir/core/pass.h"
#include "ir/graph/edit.h"
#include "ir/graph/trace.h"
#include "ir/schedule/schedule.h"

#include "base/alloc.h"

#include <string.h>

enum { GROUP_MAX = 8, FAR = 64 };       /* nodes of a group; and between its first and its last */

/* Is it a permutation of the last two axes? */
static bool turns(const Node *n)
{
    const Attr *a = n->attr;
    bool ok = n->op == OP_permute && a->naxes >= 2 && a->axis[a->naxes - 1] == -2 && a->axis[a->naxes - 2] == -1;

    for (int i = 0; ok && i < a->naxes - 2; i++)
        ok = a->axis[i] == i - a->naxes;
    return ok;
}

/* The value that v is a turned view of, or v. */
static GValue unturned(GValue v)
{
    while (turns(v.node))
        v = v.node->in[0];
    return v;
}

/* As many leading axes, of the same sizes? */
static bool same_lead(const TType *x, const TType *y)
{
    return x->rank == y->rank && !memcmp(x->shape, y->shape, sizeof(Dim) * (size_t)(x->rank - 2));
}

/* Is it a product of as many matrices on either side, of its own dtype, whose lanes are its elements? */
static bool is_batched(const Node *n)
{
    const TType *y = &n->type[0];
    bool ok = n->op == OP_matmul && y->rank > 2 && schedule_accum(n) == (DType)gvalue_type(n->in[0])->dtype;

    for (int i = 0; ok && i < 2; i++)
        ok = same_lead(gvalue_type(n->in[i]), y) && gvalue_type(n->in[i])->dtype == gvalue_type(n->in[0])->dtype;
    return ok;
}

/* The product of batches that a kernel begins with; NULL: it does not. */
static const Node *product_in(const Node *n)
{
    for (const Node *x = n->op == OP_fused && !steps_kind(n->attr) ? n->attr->region[0]->first : NULL; x; x = x->next)
        if (x->op == OP_matmul)
            return is_batched(x) ? x : NULL;
    return NULL;
}

static bool is_product(const Node *n, const TType *like)
{
    return n->op == OP_matmul && is_batched(n) && same_lead(&n->type[0], like) && schedule_accum(n) == (DType)n->type[0].dtype;
}

/* Is v, or what it is a view of, as large as the kernel's product, and something that the kernel takes or gives? */
static bool shares(const Node *kernel, const TType *product, GValue v, bool gives)
{
    const TType *t;

    v = unturned(v);
    t = gvalue_type(v);
    if (!same_lead(t, product) || memcmp(t->shape, product->shape, sizeof(Dim) * product->rank))
        return false;
    for (int i = 0; i < kernel->nin && !gives; i++)
        if (kernel->in[i].node == v.node && kernel->in[i].index == v.index)
            return true;
    return v.node == kernel;
}

/* What a group is made of, in the graph's order, and which nodes need some of it, or are of it. */
typedef struct Joined {
    Node *node[GROUP_MAX];
    int n;
    bool *needs;                /* by id */
    size_t size;                /* of that */
} Joined;

static bool is_of(const Joined *j, const Node *n)
{
    for (int i = 0; i < j->n; i++)
        if (j->node[i] == n)
            return true;
    return false;
}

static void add(Joined *j, Node *n)
{
    if (j->n < GROUP_MAX)
        j->node[j->n++] = n;
}

/* Does the node wait for one that is outside of the group and waits for it? */
static bool waits(const Joined *j, const Node *n)
{
    for (int i = 0; i < n->nin; i++)
        if (j->needs[n->in[i].node->id] && !is_of(j, n->in[i].node))
            return true;
    return false;
}

/* The product, and before it the turned views of the kernel's results that it takes. false: somebody else takes one, too. */
static bool add_product(Joined *j, const Node *kernel, Node *product)
{
    int was = j->n;

    for (int i = 0; i < 2; i++) {
        Node *v = product->in[i].node;
        if (!turns(v) || unturned(product->in[i]).node != kernel)
            continue;
        if (v->in[0].node != kernel || v->nuse != 1) {
            j->n = was;
            return false;
        }
        add(j, v);
    }
    if (waits(j, product)) {
        j->n = was;
        return false;
    }
    add(j, product);
    return true;
}

/* The kernel and the products of its large values: those that it gives, or those that it takes as well. */
static bool collect(Joined *j, Node *kernel, const TType *type, bool gives)
{
    Node *at = kernel;
    bool any = false, ok = true;

    j->n = 0;
    memset(j->needs, 0, j->size);
    for (int i = 0; i < FAR && at->prev && !gives; i++)
        at = at->prev;
    for (int i = 0; at && ok && i < 2 * FAR && j->n < GROUP_MAX; i++, at = at->next) {
        bool one = at != kernel && is_product(at, type) && (shares(kernel, type, at->in[0], gives) || shares(kernel, type, at->in[1], gives));
        j->needs[at->id] = false;
        for (int k = 0; k < at->nin; k++)
            j->needs[at->id] |= j->needs[at->in[k].node->id];
        if (at == kernel) {
            ok = !waits(j, kernel);
            add(j, kernel);
        } else if (one && add_product(j, kernel, at)) {
            any |= shares(kernel, type, at->in[0], true) || shares(kernel, type, at->in[1], true);
        }
        j->needs[at->id] |= is_of(j, at);
    }
    return ok && any && j->n < GROUP_MAX;
}

/* Fast products of the group, those of its kernels too, carry that they go so: whether they do in a call or not, units or lanes multiply them. */
static void mark_products(Graph *g)
{
    for (Node *n = g->first; n; n = n->next) {
        if (n->op == OP_fused)
            mark_products(n->attr->region[0]);
        if (n->op != OP_matmul || !n->attr->fast)
            continue;
        Attr a = *n->attr;
        a.kind = 1;
        graph_set_attr(g, n, &a);
    }
}

static bool join(Graph *g, const Joined *j)
{
    StrBuf err = {0};
    Node *group = graph_group_as(g, j->node, j->n, (GroupAs){OP_fused, 0, steps_name(STEPS_SLICES)}, NULL, &err);

    sb_done(&err);
    if (group)
        mark_products(group->attr->region[0]);
    return group;
}

bool schedule_slices(Graph *g)
{
    bool any = false;
    Joined j;

    if (!pass_runs("slices"))
        return false;
    for (Node *n = g->first, *next; n; n = next) {
        const Node *product = product_in(n);
        const TType type = product ? product->type[0] : (TType){0};
        next = n->next;
        if (!product || scope_fusion(n->scope) != FUSION_PLAIN)
            continue;
        j = (Joined){.size = g->nnodes + 1};
        j.needs = tsr_calloc(j.size);
        if ((collect(&j, n, &type, false) && join(g, &j)) || (collect(&j, n, &type, true) && join(g, &j))) {
            any = true;
            next = g->first;            /* the nodes behind may be others now */
        }
        tsr_free(j.needs);
    }
    if (any)
        pass_done("slices", &graph_ir, g);
    return any;
}
