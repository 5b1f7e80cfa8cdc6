/*
 * together: `fused` nodes that become one where the program asks for it (tessera.fusion).
 *
 * fuse.c makes kernels of nodes that share an iteration space.  A product does not share that of what makes its left operand;
 * yet row by row one may follow the other, so that what lies between them never is as a whole.  Such steps become one node
 * (steps.rows), in blocks of @fusion.auto a product with what goes before it, in groups of @fusion.manual as many as there are.  In
 * blocks of @fusion.horizontal what is equally far from the beginning becomes one (steps.beside).
 */
#include "ir/schedule/steps.h"

#include "ir/graph/edit.h"
#include "ir/graph/trace.h"
#include "ir/schedule/region.h"
#include "ir/schedule/schedule.h"

#include <string.h>

enum { BESIDE_MAX = 16 };

/* ---- steps ---- */

/* What a step computes last, as reasons call it. */
static const char *text_of(const Node *n)
{
    const Graph *body = n->op == OP_fused ? n->attr->region[0] : NULL;

    return body && body->results.n ? op_info[body->results.at[0].node->op].name : op_info[n->op].name;
}

/* Its matrix product, itself or in its body; NULL: there is none. */
static const Node *product_of(const Node *n)
{
    if (n->op == OP_matmul)
        return schedule_accum(n) != DT_NONE ? n : NULL;
    for (const Node *x = n->op == OP_fused && !steps_kind(n->attr) ? n->attr->region[0]->first : NULL; x; x = x->next)
        if (x->op == OP_matmul)
            return x;
    return NULL;
}

static bool is_kernel(const Node *n) { return n->op == OP_fused && !steps_kind(n->attr); }

static bool may_be_kernel(const Node *n)
{
    return is_kernel(n) || product_of(n) || (n->op < OP_COUNT && region_takes(n) && !region_moves(n) && !region_looks_up(n));
}

static bool all_out(void *st, const Node *n) { return (void)st, (void)n, true; }

/* The node as a `fused` one, though it be a single op; NULL: it cannot be. */
static Node *as_kernel(Graph *g, Node *n)
{
    StrBuf err = {0}, name = {0};
    Region r;
    Node *made;

    if (n->op == OP_fused)
        return n;
    Schedule s = schedule_default(region_takes(n) && region_of(&n, 1, all_out, NULL, &r) ? &r : NULL);
    schedule_print(&s, &name);
    made = graph_group_as(g, &n, 1, (GroupAs){OP_fused, 0, sym(sb_str(&name))}, NULL, &err);
    sb_done(&name);
    sb_done(&err);
    return made;
}

static bool uses(const Node *n, const Node *x)
{
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].node == x)
            return true;
    return false;
}

/* Does only `user` see what the node gives? */
static bool only_for(const Graph *g, const Node *n, const Node *user)
{
    for (const Node *x = n->next; x; x = x->next)
        if (x != user && uses(x, n))
            return false;
    return !graph_gives(g, n);
}

/* Which operand of the node its product multiplies from the left and nothing else takes; -1: none. */
static int left_operand(const Node *n, const Node *product)
{
    const Graph *body = n->op == OP_fused ? n->attr->region[0] : NULL;

    if (!body)
        return n->in[0].node != n->in[1].node ? 0 : -1;
    for (int i = 0; i < body->params.n; i++)
        if (body->params.at[i] == product->in[0].node)
            return body->params.at[i]->nuse == 1 ? i : -1;
    return -1;
}

/* Do the rows of the kernel's one result come one after another, as those of its space do? */
static bool gives_rows(const Node *n)
{
    const Node *product, *last;
    Graph *body = is_kernel(n) ? schedule_epilogue(n->attr->region[0], &product) : NULL;
    const RegionValue *v;
    Region r;
    bool ok = n->nout == 1 && n->type[0].rank >= 2;

    if (ok && body) {
        last = body->results.at[0].node;
        ok = last->op == GRAPH_PARAM || (region_of_body(body, &r) && (v = region_value(&r, last)) && r.naxes >= 2 && r.nkept >= r.naxes - 1 &&
                                         v->has == region_all(&r) && v->axis[n->type[0].rank - 1] == r.naxes - 1);
        for (int k = 0, before = -1; ok && last->op != GRAPH_PARAM && k < n->type[0].rank; k++) {
            ok = v->axis[k] < 0 || v->axis[k] > before;
            before = v->axis[k] < 0 ? before : v->axis[k];
        }
    }
    graph_unref(body);
    return ok;
}

/* May `to` take the rows of `from` as they are made? false: *why. */
static bool follows(const Graph *g, const Node *from, const Node *to, StrBuf *why)
{
    const Node *product = product_of(to);
    int left = product ? left_operand(to, product) : -1;
    const TType *x = &from->type[0], *y = product ? &product->type[0] : NULL;

    if (left < 0 || to->in[left].node != from)
        sb_printf(why, "%s takes what %s gives otherwise than row by row, as the left side of a product", text_of(to), text_of(from));
    else if (!only_for(g, from, to))
        sb_printf(why, "what %s gives is used elsewhere, too", text_of(from));
    else if (!gives_rows(from))
        sb_printf(why, "%s does not give row after row", text_of(from));
    else if (x->rank != y->rank || memcmp(x->shape, y->shape, sizeof(Dim) * (size_t)(x->rank - 1)))
        sb_printf(why, "the rows of %s are not those of the product behind it", text_of(from));
    else
        return true;
    return false;
}

/* ---- @fusion.auto ---- */

static Node *join(Graph *g, Node *const *nodes, int n, StepsKind kind, StrBuf *err)
{
    return graph_group_as(g, nodes, n, (GroupAs){OP_fused, 0, steps_name(kind)}, NULL, err);
}

/* A product and the kernel before it. */
static void join_left(Graph *g, Node *n)
{
    const Node *product = product_of(n);
    int left = product ? left_operand(n, product) : -1;
    Node *from = left < 0 ? NULL : n->in[left].node;
    StrBuf err = {0};

    if (from && from->scope == n->scope && may_be_kernel(from) && !product_of(from) && follows(g, from, n, &err)) {
        Node *both[2] = {as_kernel(g, from), as_kernel(g, n)};
        if (both[0] && both[1])
            join(g, both, 2, STEPS_ROWS, &err);
    }
    sb_done(&err);
}

/* ---- @fusion.horizontal ---- */

/* How many nodes that compute lie one behind the other up to each: those of one number do not wait for each other. */
static int *levels(const Graph *g)
{
    int *level = tsr_calloc(sizeof *level * (g->nnodes + 1));

    for (const Node *n = g->first; n; n = n->next) {
        for (int i = 0; i < n->nin; i++) {
            int before = level[n->in[i].node->id];
            level[n->id] = before > level[n->id] ? before : level[n->id];
        }
        level[n->id] += n->op != GRAPH_PARAM && n->op != OP_constant && !region_moves(n);
    }
    return level;
}

static bool stands_beside(const Node *n)
{
    return scope_fusion(n->scope) == FUSION_HORIZONTAL && may_be_kernel(n) && !product_of(n) && !region_copies(n);
}

/* Join the first such group; false: there is none left. Nodes from `known` on have been made here. */
static bool join_some_beside(Graph *g, const int *level, uint32_t known)
{
    Node *group[BESIDE_MAX];
    StrBuf err = {0};
    bool joined = false;

    for (Node *first = g->first; first && !joined; first = first->next) {
        int n = 0;
        for (Node *x = first; x && n < BESIDE_MAX && first->id < known && stands_beside(first); x = x->next)
            if (x->id < known && x->scope == first->scope && level[x->id] == level[first->id] && stands_beside(x))
                group[n++] = x;
        if (n < 2)
            continue;
        for (int i = 0; i < n; i++)
            group[i] = as_kernel(g, group[i]);
        joined = join(g, group, n, STEPS_BESIDE, &err) != NULL;
        break;
    }
    sb_done(&err);
    return joined;
}

static void join_beside(Graph *g)
{
    int *level = levels(g);
    uint32_t known = g->nnodes;

    while (join_some_beside(g, level, known))
        ;
    tsr_free(level);
}

bool schedule_asks(const Graph *g)
{
    for (const Node *n = g->first; n; n = n->next)
        if (scope_fusion(n->scope) != FUSION_PLAIN)
            return true;
    return false;
}

void schedule_together(Graph *g)
{
    bool beside = false;

    for (Node *n = g->first, *next; n; n = next) {
        next = n->next;
        beside |= scope_fusion(n->scope) == FUSION_HORIZONTAL;
        if (n->op != GRAPH_PARAM && scope_fusion(n->scope) == FUSION_AUTO)
            join_left(g, n);
    }
    if (beside)
        join_beside(g);
}

/* ---- groups that are to be one kernel ---- */

/* What makes no elements: operands, numbers, views. */
static bool is_given(const Node *n) { return n->op == GRAPH_PARAM || !n->nin || region_copies(n) || op_info[n->op].flags & OPF_VIEW; }

/* What computes in the region, in order, as kernels; the caller frees *out. -1: something is none. */
static int list_kernels(Graph *g, Node ***out, StrBuf *why)
{
    int n = 0;

    *out = tsr_alloc(sizeof **out * (g->nnodes + 1));
    for (Node *x = g->first, *next; x; x = next) {
        next = x->next;
        if (is_given(x))
            continue;
        if (!may_be_kernel(x) || !((*out)[n] = as_kernel(g, x))) {
            sb_printf(why, "%s is computed by the runtime alone", text_of(x));
            return -1;
        }
        n++;
    }
    return n;
}

static bool as_one(Graph *g, StrBuf *why)
{
    Node **step;
    int n = list_kernels(g, &step, why);
    bool ok = n > 0;

    if (!n)
        sb_puts(why, "it computes nothing");
    for (int i = 0; ok && i + 1 < n; i++)
        ok = follows(g, step[i], step[i + 1], why);
    if (ok && n > 1)
        ok = join(g, step, n, STEPS_ROWS, why) != NULL;
    tsr_free(step);
    return ok;
}

static Graph *fused_copy(Graph *region)
{
    Graph *g = schedule_fuse(region);

    return g ? g : graph_clone(region);
}

Graph *schedule_one(Graph *region)
{
    Graph *g = fused_copy(region);
    StrBuf why = {0};

    as_one(g, &why);
    sb_done(&why);
    return g;
}

bool schedule_one_kernel(Graph *region, StrBuf *why)
{
    Graph *g = fused_copy(region);
    bool ok = as_one(g, why);

    graph_unref(g);
    return ok;
}
