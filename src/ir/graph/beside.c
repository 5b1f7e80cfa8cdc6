/*
 * Where results lie, so that a concat or a reshape has nothing to copy.
 *
 *     y, z = fused(...); concat(y, z)             the results of one fused node, which the host computes
 *     q = launch(...); k, v = launch(...)         those of kernels of the program, on a GPU, as they are or seen in another shape: so do the
 *     concat(q.reshape(...), k, v)                derivatives of what was one product come together
 *     p = x @ y; p.transpose(1, 2).reshape(...)   a product that the host computes: its columns are neighbours wherever its rows are, so it
 *                                                 lies as the reshape needs it, or as a concat does
 *
 * A fused node that holds products (steps.slices of ir/schedule) gives them as if they stood outside of it.
 *
 * The memory of the concat is made early, and its parts are handed to whoever computes them, in the shape that he knows.  kernel_concat looks where
 * its operands lie.  Nothing depends on it: who cannot store there stores elsewhere.
 */
#include "ir/graph/beside.h"

#include "base/alloc.h"
#include "ir/graph/level.h"

#include "runtime/convert.h"
#include "runtime/mesh.h"

#include <string.h>

enum { BESIDE_BYTES = 64 << 10, MOVES_MOST = 8 };       /* less is copied as fast */

/* ---- what comes together ---- */

static uint32_t slot_of(const Beside *b, GValue v) { return b->base[v.node->id] + (uint32_t)v.index; }

/* Does the concat put all results of one fused node side by side, which nobody else uses? */
static bool joins(const Beside *b, const uint32_t *left, const Node *n)
{
    const Node *f = n->nin > 1 ? n->in[0].node : NULL;
    bool all = f && f->op == OP_fused && f->nout == n->nin;

    for (int i = 0; all && i < n->nin; i++)
        all = n->in[i].node == f && n->in[i].index == i && left[slot_of(b, n->in[i])] == 1 && f->type[i].dtype == n->type[0].dtype &&
              f->type[i].rank == n->type[0].rank;
    return all;
}

static bool is_view(const Node *n) { return n->op == OP_permute || n->op == OP_reshape; }

/* Is it what a matmul gives, one of its own or one that a fused node holds? */
static bool is_product(GValue v)
{
    const Node *by = v.node->op == OP_fused ? v.node->attr->region[0]->results.at[v.index].node : v.node;

    return by->op == OP_matmul;
}

/* The result of a launch or a product that an operand of a concat is, seen in another shape, and that nobody else sees; node NULL: there is none. */
static GValue launched(const Beside *b, const uint32_t *left, GValue v)
{
    for (int i = 0; i < MOVES_MOST && left[slot_of(b, v)] == 1 && is_view(v.node); i++)
        v = v.node->in[0];
    return left[slot_of(b, v)] == 1 && (v.node->op == OP_launch || is_product(v)) ? v : (GValue){NULL, 0};
}

static void make_room(Beside *b, int nslots)
{
    if (b->place)
        return;
    b->place = tsr_calloc(sizeof *b->place * ((size_t)nslots + 1));
    b->whole = tsr_calloc(sizeof *b->whole * ((size_t)b->nnodes + 1));
}

/* The permutation of a product that a reshape would copy, whose columns it leaves where they are; NULL: the node is no such reshape. */
static const Node *permuted_product(const Node *n)
{
    const Node *p = n->in[0].node;
    const Attr *a = p->attr;

    return p->op == OP_permute && is_product(p->in[0]) && a->naxes && a->axis[a->naxes - 1] == -1 ? p : NULL;
}

static void find_launches(Beside *b, const uint32_t *left, int nslots, const Node *n)
{
    for (int i = 0; i < n->nin; i++) {
        GValue v = launched(b, left, n->in[i]);
        if (!v.node)
            continue;
        make_room(b, nslots);
        b->place[slot_of(b, v)].concat = n;
        b->place[slot_of(b, v)].operand = i;
    }
}

void beside_find(Beside *b, const Graph *g, const uint32_t *base, const uint32_t *left, int nslots, Tensor *const *results)
{
    *b = (Beside){.base = base, .nnodes = g->nnodes, .results = results};
    for (int i = 0; results && i < g->results.n; i++) {
        make_room(b, nslots);
        b->place[slot_of(b, g->results.at[i])].result = i + 1;
    }
    for (const Node *n = g->first; n; n = n->next) {
        const Node *permuted = n->op == OP_reshape ? permuted_product(n) : NULL;
        if (permuted) {
            make_room(b, nslots);
            b->place[slot_of(b, permuted->in[0])].permuted = permuted;
        }
        if (n->op != OP_concat)
            continue;
        if (joins(b, left, n)) {
            if (!b->joined)
                b->joined = tsr_calloc(sizeof *b->joined * (g->nnodes + 1));
            b->joined[n->in[0].node->id] = n;
        } else {
            find_launches(b, left, nslots, n);
        }
    }
}

void beside_done(Beside *b)
{
    for (uint32_t i = 0; b->whole && i <= b->nnodes; i++)
        tensor_unref(b->whole[i]);
    tsr_free(b->joined);
    tsr_free(b->place);
    tsr_free(b->whole);
}

void beside_arrives(Beside *b, const Node *concat)
{
    if (!b->whole)
        return;
    tensor_unref(b->whole[concat->id]);
    b->whole[concat->id] = NULL;
}

/* ---- the memory ---- */

/* The sizes of a type as they are now. false: some are not known. */
static bool sizes_now(const DimEnv *env, const TType *t, Dim *size)
{
    for (int i = 0; i < t->rank; i++)
        if (!dim_is_const(size[i] = env_subst(env, t->shape[i])))
            return false;
    return true;
}

static int axis_of(const Node *concat) { return concat->attr->axis[0] + (concat->attr->axis[0] < 0 ? concat->type[0].rank : 0); }

/* The memory of what the node makes; NULL: it is small, or not known. A new reference. */
static Tensor *new_whole(const DimEnv *env, const Node *node)
{
    const TType *type = &node->type[0];
    Dim all[RANK_MAX];
    int64_t bytes = (int64_t)raw_size((DType)type->dtype);

    if (is_packed((DType)type->dtype) || !sizes_now(env, type, all))
        return NULL;
    for (int i = 0; i < type->rank; i++)
        bytes *= all[i];
    return bytes < BESIDE_BYTES ? NULL : tensor_new((DType)type->dtype, type->rank, all);
}

/* The part of the memory that begins at a place along the axis and has these sizes; NULL: it does not fit. */
static Tensor *part_at(const Tensor *whole, int axis, int64_t at, const Dim *size)
{
    bool fits = at + size[axis] <= whole->shape[axis];

    for (int i = 0; fits && i < whole->rank; i++)
        fits = i == axis || size[i] == whole->shape[i];
    return fits ? tensor_view((Tensor *)whole, whole->rank, size, whole->stride, at * whole->stride[axis]) : NULL;
}

/* ---- of a fused node ---- */

static int slices_of_fused(const Beside *b, const DimEnv *env, const Node *n, Tensor **slice)
{
    const Node *c = b->joined && !devices_used && trace_fused_slices && trace_fused_slices() ? b->joined[n->id] : NULL;
    Tensor *whole = c && n->nout <= BESIDE_MOST ? new_whole(env, c) : NULL;
    Dim size[RANK_MAX];
    int64_t at = 0;
    int made = 0;

    for (bool fits = true; whole && fits && made < n->nout; made += fits) {
        fits = sizes_now(env, &n->type[made], size) && (slice[made] = part_at(whole, axis_of(c), at, size));
        at += fits ? size[axis_of(c)] : 0;
    }
    tensor_unref(whole);
    if (made < n->nout)
        tensors_unref(slice, made);
    return made < n->nout ? 0 : made;
}

/* ---- of a launch ---- */

/* What x was before the node, a view, made x of it: the same memory, or NULL. Takes x over. */
static Tensor *before_view(Trace *T, const DimEnv *env, const Node *n, Tensor *x)
{
    Attr a = attr_default();
    const TType *was = gvalue_type(n->in[0]);
    Tensor *y = NULL;

    if (n->op == OP_permute) {
        a.naxes = n->attr->naxes;
        for (int i = 0; i < a.naxes; i++) {
            int from = n->attr->axis[i] < 0 ? n->attr->axis[i] + a.naxes : n->attr->axis[i];
            a.axis[from] = (int8_t)(i - a.naxes);
        }
        y = op1(T, OP_permute, &a, &x, 1);
    } else if (sizes_now(env, was, a.d[0])) {
        a.nd[0] = was->rank;
        y = op1(T, OP_reshape, &a, &x, 1);
    }
    if (y && y->store != x->store) {
        tensor_unref(y);
        y = NULL;
    }
    tensor_unref(x);
    return y;
}

/* The slice for what the operand is before it is seen as one: from the concat back to the launch. */
static Tensor *seen_by_launch(Trace *T, const DimEnv *env, GValue v, Tensor *slice)
{
    for (; slice && is_view(v.node); v = v.node->in[0])
        slice = before_view(T, env, v.node, slice);
    return slice;
}

static Tensor *slice_for(Beside *b, Trace *T, const DimEnv *env, const BesidePlace *p, int device)
{
    Tensor **whole = &b->whole[p->concat->id], *part;
    Dim size[RANK_MAX];
    int64_t at = 0;
    int axis = axis_of(p->concat);

    if (!*whole) {
        int was = device_enter(device);
        *whole = new_whole(env, p->concat);
        device_enter(was);
    }
    for (int i = 0; *whole && i <= p->operand; i++) {
        at += i ? size[axis] : 0;
        if (!sizes_now(env, gvalue_type(p->concat->in[i]), size))
            return NULL;
    }
    part = *whole ? part_at(*whole, axis, at, size) : NULL;
    return part ? seen_by_launch(T, env, p->concat->in[p->operand], part) : NULL;
}

static int slices_of_launch(Beside *b, Trace *T, const DimEnv *env, const Node *n, Tensor *const *in, Tensor **slice)
{
    int device = n->nin ? (int)in[0]->store->device : 0, made = 0;

    if (!b->place || !device_is_far(device) || n->nout > BESIDE_MOST)
        return 0;
    for (int i = 0; i < n->nout; i++) {
        const BesidePlace *p = &b->place[b->base[n->id] + (uint32_t)i];
        slice[i] = p->concat ? slice_for(b, T, env, p, device) : NULL;
        made += slice[i] != NULL;
    }
    return made ? n->nout : 0;
}

/* ---- of a product ---- */

/* Where the graph's result had better lie, else as the concat has it, else as its permutation does; NULL: anywhere. */
static Tensor *slice_of_product(Beside *b, Trace *T, const DimEnv *env, GValue v)
{
    const BesidePlace *p = &b->place[slot_of(b, v)];
    Tensor *slice = p->result ? tensor_ref(b->results[p->result - 1]) : NULL, *whole;

    if (!slice && p->concat)
        slice = slice_for(b, T, env, p, 0);
    if (!slice && p->permuted && (whole = new_whole(env, p->permuted)))
        slice = before_view(T, env, p->permuted, whole);
    return slice;
}

static int slices_of_products(Beside *b, Trace *T, const DimEnv *env, Node *n, Tensor **slice)
{
    int made = 0;

    if (!b->place || devices_used || !trace_fused_slices || !trace_fused_slices() || n->nout > BESIDE_MOST)
        return 0;
    for (int i = 0; i < n->nout; i++) {
        slice[i] = is_product((GValue){n, i}) ? slice_of_product(b, T, env, (GValue){n, i}) : NULL;
        made += slice[i] != NULL;
    }
    return made ? n->nout : 0;
}

int beside_slices(Beside *b, Trace *T, const DimEnv *env, Node *n, Tensor *const *in, Tensor **slice)
{
    int made = n->op == OP_fused ? slices_of_fused(b, env, n, slice) : n->op == OP_launch ? slices_of_launch(b, T, env, n, in, slice) : 0;

    return !made && (n->op == OP_fused || n->op == OP_matmul) ? slices_of_products(b, T, env, n, slice) : made;
}
