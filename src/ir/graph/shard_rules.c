/*
 * How ops go over the parts of distributed tensors.
 *
 * A rule works on axes: it reads how each operand axis is cut, says how the operands must lie
 * (giving up a cut means gathering that axis), how the result lies, and the
 * attributes of the op on the parts.  Layouts only flow forwards, and an op
 * never guesses: operands cut by different mesh axes along the same axis are an error.
 *
 * A sum over a cut axis leaves parts that are still to be added (`partial`).
 * Linear ops carry that along; everything else adds them up first.
 */
#include "ir/graph/shard.h"

#include <string.h>

/* ------------------------------------------------------------- pieces */

static Dim size_at(const TType *t, int d) { return d < t->rank ? t->shape[t->rank - 1 - d] : 1; }
static int front(const TType *t, int i) { return t->rank - 1 - i; }     /* axis i from the front as one from the end */
static int parts(const ShardPlan *p, uint16_t axes) { return mesh_extent(p->mesh, axes); }

static bool conflict(ShardPlan *p, int d, uint16_t a, uint16_t b)
{
    sb_printf(p->err, "E0720: %s: axis %d is cut by mesh axis '%s' in one operand and by '%s' in another; reshard one of them",
              op_info[p->op].name, -1 - d, mesh_axes_name(p->mesh, a)->text, mesh_axes_name(p->mesh, b)->text);
    return false;
}

/* One mesh axis may cut one axis of a result. */
static bool distinct(ShardPlan *p, const Placement *out)
{
    uint16_t seen = out->partial;

    for (int d = 0; d < RANK_MAX; d++) {
        if (seen & out->cut[d]) {
            sb_printf(p->err, "E0721: %s: mesh axis '%s' would cut two axes of the result; reshard an operand", op_info[p->op].name,
                      mesh_axes_name(p->mesh, seen & out->cut[d])->text);
            return false;
        }
        seen |= out->cut[d];
    }
    return true;
}

/* Axis d of the result is cut as in the operands that have it whole. */
static bool join_axes(ShardPlan *p, int lo, int d, uint16_t *cut)
{
    *cut = 0;
    for (int i = lo; i < p->nin; i++) {
        uint16_t c = d < p->x[i].rank && size_at(&p->x[i], d) == size_at(p->y, d) ? p->in[i].cut[d] : 0;
        if (c && *cut && c != *cut)
            return conflict(p, d, *cut, c);
        *cut |= c;
    }
    for (int i = lo; i < p->nin; i++)
        p->in[i].cut[d] = d < p->x[i].rank && size_at(&p->x[i], d) == size_at(p->y, d) ? *cut : 0;
    return true;
}

static void add_up_all(ShardPlan *p)
{
    for (int i = 0; i < p->nin; i++)
        p->in[i].partial = 0;
}

static bool narrow(uint8_t dt) { return dtype_is_inexact((DType)dt) && dtype_accum((DType)dt) != (DType)dt; }

/* Operands may stay unadded where the op is linear in them together (all or none) or each alone (at most one). */
static void carry_partial(ShardPlan *p, bool together)
{
    uint16_t first = p->in[0].partial, any = 0;
    int count = 0;
    bool same = true;

    for (int i = 0; i < p->nin; i++) {
        same &= p->in[i].partial == first;
        count += p->in[i].partial != 0;
        any |= p->in[i].partial;
    }
    if ((together ? same : count == 1) && !narrow(p->y->dtype) && p->x[0].dtype == p->y->dtype)
        p->out[0].partial = any;
    else
        add_up_all(p);
}

/* The result's sizes in the attributes become those of a part. */
static void local_sizes(ShardPlan *p, int k)
{
    for (int i = 0; i < p->local.nd[k]; i++)
        p->local.d[k][i] /= parts(p, p->out[0].cut[p->local.nd[k] - 1 - i]);
}

/* Leading axes stay as they are, the last `n` are gathered. */
static bool leading_axes(ShardPlan *p, int n)
{
    add_up_all(p);
    for (int d = 0; d < n; d++)
        p->in[0].cut[d] = 0;
    for (int k = 0; k < p->nout; k++)
        for (int i = 0; i < p->x[0].rank - n; i++)
            p->out[k].cut[front(&p->y[k], i)] = p->in[0].cut[front(&p->x[0], i)];
    return true;
}

/* ------------------------------------------------------------- elementwise */

static bool plan_map(ShardPlan *p)
{
    for (int d = 0; d < p->y->rank; d++)
        if (!join_axes(p, 0, d, &p->out[0].cut[d]))
            return false;
    switch (p->op) {
    case OP_neg: case OP_add: case OP_sub:
        carry_partial(p, true);
        break;
    case OP_mul:
        carry_partial(p, false);
        break;
    case OP_div:
        p->in[1].partial = 0;
        carry_partial(p, false);
        break;
    default:
        add_up_all(p);
    }
    if (p->out[0].partial)
        for (int i = 0; i < p->nin; i++)        /* an axis that is cut cannot also be summed over */
            for (int d = 0; d < p->y->rank; d++)
                if (p->out[0].cut[d] & p->out[0].partial) {
                    add_up_all(p);
                    p->out[0].partial = 0;
                }
    return distinct(p, &p->out[0]);
}

/* ------------------------------------------------------------- reductions */

static bool is_reduced(const Attr *a, int d)
{
    for (int i = 0; i < a->naxes; i++)
        if (a->axis[i] == -1 - d)
            return true;
    return false;
}

static bool plan_reduce(ShardPlan *p)
{
    Placement *in = &p->in[0];
    uint16_t cut = 0;

    for (int d = 0; d < p->x->rank; d++)
        if (is_reduced(p->a, d))
            cut |= in->cut[d];
    if (p->op != OP_sum)
        in->partial = 0;
    if ((p->op == OP_sum && p->exact) || p->op == OP_prod || p->op == OP_argmax || p->op == OP_argmin)
        cut = 0;
    else if (p->op == OP_sum) {
        if (cut && narrow(p->y->dtype)) {
            p->local.dtype = dtype_accum((DType)p->y->dtype);
            in->partial = 0;
        } else if (narrow(p->y->dtype))
            in->partial = 0;
        p->out[0].partial = cut | in->partial;
    } else {
        p->extreme = cut;
        p->smallest = p->op == OP_min || p->op == OP_all;
    }
    for (int d = 0, to = 0; d < p->x->rank; d++) {
        if (!is_reduced(p->a, d))
            p->out[0].cut[to++] = in->cut[d];
        else if (!cut)
            in->cut[d] = 0;
    }
    return true;
}

/* ------------------------------------------------------------- moving */

/*
 * A part is a run of elements after each choice of the axes before the cut one.
 * The reshaped tensor has the same runs when some axis of it begins at the same place.
 */
static bool plan_reshape(ShardPlan *p)
{
    const TType *x = p->x, *y = p->y;
    Dim before = 1;

    for (int i = 0; i < x->rank; before *= x->shape[i++]) {
        uint16_t axes = p->in[0].cut[front(x, i)];
        Dim at = 1;
        bool found = false;
        for (int j = 0; axes && j < y->rank && !found; at *= y->shape[j++])
            if (at == before && y->shape[j] > 1 && y->shape[j] % parts(p, axes) == 0 && !p->out[0].cut[front(y, j)]) {
                p->out[0].cut[front(y, j)] = axes;
                found = true;
            }
        if (axes && !found)
            p->in[0].cut[front(x, i)] = 0;
    }
    p->out[0].partial = p->in[0].partial;
    local_sizes(p, 0);
    return true;
}

static bool plan_permute(ShardPlan *p)
{
    int n = p->a->naxes;

    p->out[0] = p->in[0];
    for (int i = 0; i < n; i++)
        p->out[0].cut[n - 1 - i] = p->in[0].cut[-1 - p->a->axis[i]];
    return true;
}

static bool plan_broadcast(ShardPlan *p)
{
    for (int d = 0; d < p->x->rank; d++) {
        if (size_at(p->x, d) != size_at(p->y, d))
            p->in[0].cut[d] = 0;
        p->out[0].cut[d] = p->in[0].cut[d];
    }
    p->out[0].partial = p->in[0].partial;
    local_sizes(p, 0);
    return true;
}

static bool plan_slice(ShardPlan *p)
{
    const Attr *a = p->a;
    int n = a->nd[0];

    for (int i = 0; i < n; i++) {
        int d = n - 1 - i;
        bool whole = a->d[0][i] == 0 && a->d[1][i] >= size_at(p->x, d) && (i >= a->nd[2] || a->d[2][i] == 1);
        if (!whole)
            p->in[0].cut[d] = 0;
        else
            p->local.d[1][i] = size_at(p->x, d) / parts(p, p->in[0].cut[d]);
    }
    p->out[0] = p->in[0];
    return true;
}

static bool plan_pad(ShardPlan *p)
{
    const Attr *a = p->a;
    int n = a->nd[0];

    for (int i = 0; i < n; i++)
        if (a->d[0][i] || a->d[1][i] || (i < a->nd[2] && a->d[2][i]))
            p->in[0].cut[n - 1 - i] = 0;
    if (a->f != 0)
        p->in[0].partial = 0;
    p->out[0] = p->in[0];
    return true;
}

static bool plan_flip(ShardPlan *p)
{
    for (int i = 0; i < p->a->naxes; i++)
        p->in[0].cut[-1 - p->a->axis[i]] = 0;
    p->out[0] = p->in[0];
    return true;
}

static bool plan_concat(ShardPlan *p)
{
    int axis = -1 - p->a->axis[0];

    for (int d = 0; d < p->y->rank; d++) {
        if (d == axis)
            for (int i = 0; i < p->nin; i++)
                p->in[i].cut[d] = 0;
        else if (!join_axes(p, 0, d, &p->out[0].cut[d]))
            return false;
    }
    carry_partial(p, true);
    return distinct(p, &p->out[0]);
}

static bool plan_move(ShardPlan *p)
{
    switch (p->op) {
    case OP_reshape:
        return plan_reshape(p);
    case OP_permute:
        return plan_permute(p);
    case OP_broadcast:
        return plan_broadcast(p);
    case OP_slice:
        return plan_slice(p);
    case OP_pad:
        return plan_pad(p);
    case OP_as_softmax:
        return plan_map(p);
    case OP_flip:
        return plan_flip(p);
    case OP_concat:
        return plan_concat(p);
    case OP_window:
        return leading_axes(p, p->a->n);
    case OP_unwindow:
        return leading_axes(p, 2 * p->a->n);
    default:
        return false;
    }
}

/* ------------------------------------------------------------- contractions */

static uint16_t taken(const Placement *out)
{
    uint16_t all = out->partial;

    for (int d = 0; d < RANK_MAX; d++)
        all |= out->cut[d];
    return all;
}

/* [..., m, k] @ [..., k, n]: the left operand's cuts come first; a mesh axis that is taken already is gathered on the right. */
static bool plan_matmul(ShardPlan *p)
{
    Placement *a = &p->in[0], *b = &p->in[1], *out = &p->out[0];
    uint16_t k;

    for (int d = 2; d < p->y->rank; d++)
        if (!join_axes(p, 0, d, &out->cut[d]))
            return false;
    if (!distinct(p, out))
        return false;
    a->cut[1] &= a->cut[1] & taken(out) ? 0 : 0xffff;
    out->cut[1] = a->cut[1];
    if (a->cut[0] && b->cut[1] && a->cut[0] != b->cut[1])
        return conflict(p, 0, a->cut[0], b->cut[1]);
    k = a->cut[0] | b->cut[1];
    if (p->exact || (k & taken(out)))
        k = 0;
    a->cut[0] = b->cut[1] = k;
    if (a->partial && b->partial)
        add_up_all(p);
    if ((a->partial | b->partial) && (k || narrow(p->y->dtype) || ((a->partial | b->partial) & taken(out))))
        add_up_all(p);
    out->partial = k | a->partial | b->partial;
    if (b->cut[0] & taken(out))
        b->cut[0] = 0;
    out->cut[0] = b->cut[0];
    if (k && narrow(p->y->dtype))
        p->local.dtype = dtype_accum((DType)p->y->dtype);
    return true;
}

/* Images are cut by example only. */
static bool plan_conv(ShardPlan *p)
{
    int n = p->a->n + 1;
    uint16_t examples = p->in[0].cut[n];

    add_up_all(p);
    memset(p->in[0].cut, 0, sizeof p->in[0].cut);
    memset(p->in[1].cut, 0, sizeof p->in[1].cut);
    p->in[0].cut[n] = p->out[0].cut[n] = examples;
    return true;
}

/* ------------------------------------------------------------- indexing */

/* The m leading axes that all operands share are cut alike. */
static bool batch_axes(ShardPlan *p, int m)
{
    for (int i = 0; i < m; i++) {
        uint16_t cut = 0;
        for (int k = 0; k < p->nin; k++) {
            uint16_t c = p->in[k].cut[front(&p->x[k], i)];
            if (c && cut && c != cut)
                return conflict(p, front(p->y, i), cut, c);
            cut |= c;
        }
        for (int k = 0; k < p->nin; k++)
            p->in[k].cut[front(&p->x[k], i)] = size_at(&p->x[k], front(&p->x[k], i)) == size_at(p->y, front(p->y, i)) ? cut : 0;
        p->out[0].cut[front(p->y, i)] = cut;
    }
    return distinct(p, &p->out[0]);
}

static void gather_from(ShardPlan *p, int k, int lo, int hi)    /* axes from the front */
{
    for (int i = lo; i < hi; i++)
        p->in[k].cut[front(&p->x[k], i)] = 0;
}

/* x[i1, ..., in]: result axes are m shared ones, those of the indices, and the rest of x. */
static bool plan_index(ShardPlan *p)
{
    int m = p->a->m, n = p->a->n, own = p->nin > 1 ? p->x[1].rank - m : 0, rest = p->x->rank - m - n;

    add_up_all(p);
    for (int k = 2; k < p->nin; k++)
        if (p->x[k].rank != p->x[1].rank || memcmp(p->x[k].shape, p->x[1].shape, sizeof(Dim) * p->x[1].rank))
            return false;
    if (own < 0 || rest < 0 || !batch_axes(p, m))
        return false;
    gather_from(p, 0, m, m + n);
    for (int i = 0; i < own; i++) {
        uint16_t cut = 0;
        for (int k = 1; k < p->nin; k++)
            cut = cut ? cut : p->in[k].cut[front(&p->x[k], m + i)];
        cut = cut & taken(&p->out[0]) ? 0 : cut;
        for (int k = 1; k < p->nin; k++)
            p->in[k].cut[front(&p->x[k], m + i)] = cut;
        p->out[0].cut[front(p->y, m + i)] = cut;
    }
    for (int i = 0; i < rest; i++) {
        uint16_t *cut = &p->in[0].cut[front(p->x, m + n + i)];
        *cut = *cut & taken(&p->out[0]) ? 0 : *cut;
        p->out[0].cut[front(p->y, m + own + i)] = *cut;
    }
    return true;
}

static bool plan_update(ShardPlan *p)
{
    int m = p->a->m;

    add_up_all(p);
    for (int k = 0; k < p->nin; k++)
        gather_from(p, k, m, p->x[k].rank);
    return batch_axes(p, m);
}

/* ------------------------------------------------------------- all */

bool shard_plan(ShardPlan *p)
{
    memset(p->out, 0, sizeof p->out);
    for (int k = 0; k < p->nout; k++)
        p->out[k].mesh = p->mesh;
    p->extreme = 0;
    switch (op_info[p->op].family) {
    case FAM_MAP:
        return plan_map(p);
    case FAM_REDUCE:
        return plan_reduce(p);
    case FAM_SCAN:
        add_up_all(p);
        p->in[0].cut[-1 - p->a->axis[0]] = 0;
        p->out[0] = p->in[0];
        return true;
    case FAM_MOVE:
        return plan_move(p);
    case FAM_CONTRACT:
        return p->op == OP_matmul ? plan_matmul(p) : plan_conv(p);
    case FAM_INDEX:
        return p->op == OP_index ? plan_index(p) : p->op == OP_index_put || p->op == OP_index_add ? plan_update(p) : false;
    case FAM_SORT:
        return p->nin == 1 && leading_axes(p, 1);
    case FAM_LINALG:
        return p->nin == 1 && leading_axes(p, 2);
    case FAM_FFT:
        return leading_axes(p, 1);
    default:
        return false;
    }
}
