/*
 * What a run of a `fused` body is made ready with: sizes and strides of the region's axes, room for results, and the kernel for how
 * operands and results lie.
 *
 * Operands that step by neither 0 nor 1 along the inner axis are copied to rows
 * first, as the reference kernels do; when the outer axis is the one whose
 * elements lie side by side, as in sums down columns, they stay, and a group
 * does more rows at a time.  Rows that memory has in pieces are brought, a few at
 * a time (fused_brought.c).
 */
#include "ir/schedule/fused_impl.h"

#include "ir/graph/sizes.h"

#include "base/alloc.h"
#include "runtime/cuda.h"

#include <string.h>

enum {
    FAR_TOTAL_ROW = 1 << 12,
    TOTAL_ROW = 1 << 14,        /* elements of a part of a total: a power of two of the chunks of R4 of docs/numerics.md */
};

/* ---- sizes and places ---- */

void fused_sizes(Run *u)
{
    for (int a = 0; a < u->c->r.naxes; a++)
        u->size[a] = -1;
    for (int i = 0; i < u->nin; i++)
        for (int k = 0; u->c->value[i] && k < u->x[i]->rank; k++)
            if (u->c->value[i]->axis[k] >= 0)
                u->size[(int)u->c->value[i]->axis[k]] = u->x[i]->shape[k];
}

bool fused_all_sizes(Run *u, const Graph *body)
{
    Region r;

    for (int a = 0; a < u->c->r.naxes; a++)
        if (u->size[a] < 0) {
            if (!region_of_body(body, &r) || !u->T->dims)
                return false;
            Dim d = env_subst(u->T->dims, r.size[a]);
            if (!dim_is_const(d))
                return false;
            u->size[a] = d;
        }
    return true;
}

bool fused_is_empty_extreme(const Run *u)
{
    const Region *r = &u->c->r;
    bool empty = false;

    for (int a = r->nkept; a < r->naxes; a++)
        empty |= !u->size[a];
    for (int v = 0; empty && v < r->nvalues; v++)
        if (r->value[v].inside && (r->value[v].node->op == OP_max || r->value[v].node->op == OP_min))
            return true;
    return false;
}

/* Where a storage begins: here, or on the device. A result in an operand's place is not fresh. */
static char *storage_base(const Run *u, Tensor *t, bool write)
{
    if (u->device)
        return fused_far->address(t, u->device, write, t->store->refs == 1);
    return write ? storage_data(t->store) : (char *)storage_read(t->store);
}

bool fused_has_fault(const Run *u) { return u->device && fault_kept; }

static bool is_key(const Run *u, int i) { return u->c->value[i] && u->c->value[i]->key; }

static bool is_table(const Run *u, int i) { return u->c->value[i] && u->c->value[i]->lead; }

/* Of keys, two words are one element. A table's places count from where its memory begins. */
static void set_arg(Run *u, int i)
{
    Tensor *t = u->x[i];
    LaunchArg *arg = &u->space.arg[i];
    int words = is_key(u, i) ? 2 : 1;
    char *base;

    memset(arg, 0, sizeof *arg);
    arg->bytes = words * dtype_info[t->dtype].sbits / 8;
    if (is_table(u, i))
        arg->places = t->store->nbytes / arg->bytes > 1 ? t->store->nbytes / arg->bytes : 1;
    if (!(u->in_blocks && i == u->nin - 1) && (base = storage_base(u, t, i >= u->nin)))
        arg->base = is_table(u, i) ? base : base + t->offset / words * arg->bytes;
    for (int k = 0; u->c->value[i] && k < t->rank; k++)
        if (u->c->value[i]->axis[k] >= 0 && t->shape[k] != 1)
            arg->stride[(int)u->c->value[i]->axis[k]] = t->stride[k] / words;
}

/* Row-major order along the counter's axes. */
static void set_counter(Run *u, int i)
{
    const RegionCounter *c = &u->c->r.counter[i];
    LaunchCounter *out = &u->space.counter[i];
    int64_t step = 1;

    memset(out, 0, sizeof *out);
    for (int k = c->n; k-- > 0; step *= u->size[(int)c->axis[k]])
        out->stride[(int)c->axis[k]] = step;
}

/* The space as the operands lie now, no axis merged. */
static void set_space(Run *u)
{
    u->space.naxes = u->c->r.naxes;
    u->space.nkept = u->c->r.nkept;
    memcpy(u->space.size, u->size, sizeof u->size);
    u->space.nargs = u->nin + u->nout;
    for (int i = 0; i < u->space.nargs; i++)
        set_arg(u, i);
    u->space.ncounters = u->c->r.ncounters;
    for (int i = 0; i < u->space.ncounters; i++)
        set_counter(u, i);
}

/* ---- results ---- */

Tensor *fused_result(const Run *u, int i)
{
    const TType *y = gvalue_type(u->c->body->results.at[i]);
    const RegionValue *v = u->c->value[u->nin + i];
    Dim shape[REGION_AXES];

    for (int k = 0; k < y->rank; k++)
        shape[k] = v->axis[k] < 0 ? 1 : u->size[(int)v->axis[k]];
    return fused_state.rehearses ? fused_ghost((DType)y->dtype, y->rank, shape) : tensor_new((DType)y->dtype, y->rank, shape);
}

/*
 * May the result lie where the operand does, which nobody else has?  A pass reads all of an element before it stores it, and the last one is
 * behind whatever reads the row (lower_keep.c keeps nothing there while somebody reads it); what a product multiplies is read again.
 */
static bool may_replace(const Run *u, int operand, int i)
{
    const Tensor *t = u->x[operand];
    const TType *y = gvalue_type(u->c->body->results.at[i]);
    const RegionValue *a = u->c->value[operand], *b = u->c->value[u->nin + i];
    bool same = u->dying >> operand & 1 && !u->c->product && b->pass == u->c->r.npasses - 1 && a && !a->lead && t->refs == 2 && t->store->refs == 1 &&
                t->contiguous && t->offset == 0 && t->dtype == y->dtype && t->rank == y->rank && a->has == region_all(&u->c->r);

    for (int k = 0; same && k < y->rank; k++)
        same = a->axis[k] == b->axis[k];
    return same;
}

/* A result in the memory of an operand that dies here, each of which serves one; NULL: there is none. */
static Tensor *reuse_operand(Run *u, int i)
{
    for (int k = 0; k < u->nin && k < 32; k++)
        if (may_replace(u, k, i)) {
            u->dying &= ~(1u << k);
            return tensor_view(u->x[k], u->x[k]->rank, u->x[k]->shape, u->x[k]->stride, 0);
        }
    return NULL;
}

/* Its elements are those of the product, and stored by the last pass, each after whatever is read there. */
int fused_result_in_place(const Run *u)
{
    const Tensor *p = u->c->product ? u->x[u->nin - 1] : NULL;
    const RegionValue *from = p ? u->c->value[u->nin - 1] : NULL;

    for (int i = 0; p && i < u->nout; i++) {
        const TType *y = gvalue_type(u->c->body->results.at[i]);
        const RegionValue *to = u->c->value[u->nin + i];
        if (y->dtype == p->dtype && y->rank == p->rank && !memcmp(from->axis, to->axis, sizeof *from->axis * y->rank) &&
            to->has == from->has && to->pass == u->c->r.npasses - 1)
            return i;
    }
    return -1;
}

/* The place that the result had better have, if it is one for it; else NULL. */
static Tensor *placed(const Run *u, int i)
{
    const TType *y = gvalue_type(u->c->body->results.at[i]);
    const RegionValue *v = u->c->value[u->nin + i];
    Tensor *t = u->slices && !u->device && !u->c->product && !fused_is_total(u) ? u->slices[i] : NULL;

    if (!t || t->dtype != y->dtype || t->rank != y->rank)
        return NULL;
    for (int k = 0; k < y->rank; k++)
        if (t->shape[k] != (v->axis[k] < 0 ? 1 : u->size[(int)v->axis[k]]))
            return NULL;
    return tensor_ref(t);
}

bool fused_make_results(Run *u)
{
    int in_place = fused_result_in_place(u);

    for (int i = 0; i < u->nout; i++) {
        const TType *y = gvalue_type(u->c->body->results.at[i]);
        Tensor *t = placed(u, i);
        if (!t)
            t = i == in_place ? tensor_ref(u->x[u->nin - 1]) : reuse_operand(u, i);
        if (!t && !(t = fused_result(u, i)))
            return false;
        t->weak = y->weak;
        t->policy = y->policy;
        u->x[u->nin + i] = t;
    }
    return true;
}

/* ---- how they lie ---- */

/* A row-major copy in place of the operand. */
static bool straighten(Run *u, int i)
{
    Tensor *x = u->x[i], *t = NULL;

    if (is_table(u, i))                                 /* places are where it lies now */
        return false;
    if (i < u->nin && !(u->device && (t = fused_far->copy(u->T, x))))
        t = fused_state.rehearses ? fused_ghost((DType)x->dtype, x->rank, x->shape) : tensor_copy(x);
    if (!t)
        return false;
    tensor_unref(u->x[i]);
    u->x[i] = t;
    return true;
}

/* Do the words of keys lie in pairs? */
static bool in_pairs(const Tensor *t)
{
    bool ok = t->stride[t->rank - 1] == 1 && t->offset % 2 == 0;

    for (int k = 0; k < t->rank - 1; k++)
        ok &= t->stride[k] % 2 == 0 || t->shape[k] == 1;
    return ok;
}

static bool pair_keys(Run *u, bool copy)
{
    for (int i = 0; i < u->nin; i++)
        if (is_key(u, i) && !in_pairs(u->x[i]) && !(copy && straighten(u, i)))
            return false;
    return true;
}

void fused_lie_whole(Run *u)
{
    tsr_free(u->lies);
    u->lies = NULL;
}

/* Merge axes; where an operand hinders it, rows are brought, or it is copied once. */
static bool merge_axes(Run *u)
{
    bool copied[OPERANDS] = {false};
    int which;

    fused_lie_whole(u);
    if (!pair_keys(u, true))
        return false;
    for (;;) {
        set_space(u);
        if (fused_has_fault(u))
            return false;
        if (launch_merge(&u->space, &which))
            return true;
        set_space(u);
        if (fused_brings(u))
            return true;
        if (which < 0 || copied[which] || !straighten(u, which))
            return false;
        copied[which] = true;
    }
}

static int64_t inner_step(const LaunchSpace *s, const int64_t *stride) { return s->naxes > s->nkept ? stride[s->nkept] : 0; }
static int64_t outer_step(const LaunchSpace *s, const int64_t *stride) { return s->nkept ? stride[s->nkept - 1] : 0; }
static int8_t class_of(int64_t step) { return (int8_t)(step == 0 || step == 1 ? step : STRIDE_ANY); }

/* A result's axis that it lacks has one element, which is stored to: it is no axis that stands still.  Counters come last. */
static void classify(const LaunchSpace *s, int nin, StrideClass *out)
{
    for (int i = 0; i < s->nargs; i++) {
        int64_t inner = inner_step(s, s->arg[i].stride), outer = outer_step(s, s->arg[i].stride);
        out[i].inner = inner == 0 && i >= nin ? 1 : class_of(inner);
        out[i].outer = outer == 0 && i >= nin ? STRIDE_ANY : class_of(outer);
    }
    for (int i = 0; i < s->ncounters; i++) {
        const int64_t *stride = s->counter[i].stride;
        out[s->nargs + i] = (StrideClass){outer_step(s, stride) ? STRIDE_ANY : 0, class_of(inner_step(s, stride))};
    }
}

/* Rows that nobody reads side by side: a step from row to row of 1 is like any other, but for who turns tiles. */
static void forget_neighbours(const LaunchSpace *s, StrideClass *c, bool turns)
{
    for (int i = 0; i < s->nargs; i++)
        if (c[i].outer == 1 && !(turns && c[i].inner == STRIDE_ANY))
            c[i].outer = STRIDE_ANY;
}

/* A table and its places are read where they lie, however they step. */
static bool lies_anyhow(const Run *u, int i)
{
    bool places = u->c->looks_up && i >= u->c->whole->params.n && i < u->nin - (u->c->product != NULL);

    return places || is_table(u, i);
}

/* Which operand should be copied to rows first: -1 none. *crosswise: rows are read side by side instead. */
static int awkward(const Run *u, const StrideClass *c, bool *crosswise)
{
    bool reduces = u->c->r.nkept < u->c->r.naxes;

    *crosswise = false;
    for (int i = 0; i < u->space.nargs; i++)
        *crosswise |= reduces && (c[i].inner == STRIDE_ANY || is_table(u, i)) && c[i].outer == 1;
    for (int i = 0; i < u->nin; i++)
        if (c[i].inner == STRIDE_ANY && !lies_anyhow(u, i) && !(*crosswise && c[i].outer == 1))
            return i;
    return -1;
}

/* On a GPU more groups share the work. */
int64_t fused_total_row(const Run *u) { return u->device ? FAR_TOTAL_ROW : TOTAL_ROW; }

/* Rows of as many elements in place of one axis; the last may be shorter, and if there is one, its sums are the results. */
static bool split(Run *u)
{
    LaunchSpace *s = &u->space;
    int64_t rows;

    u->total = s->naxes ? s->size[0] : 1;
    rows = u->total > fused_total_row(u) ? (u->total + fused_total_row(u) - 1) / fused_total_row(u) : 1;
    for (int i = 0; i < s->nargs; i++) {
        int64_t step = s->naxes ? s->arg[i].stride[0] : 0;
        bool sum = i >= u->nin && !u->c->value[i]->has;
        if (sum && !u->part[i - u->nin])
            u->part[i - u->nin] = rows == 1 ? tensor_view(u->x[i], 1, &rows, &rows, 0) : tensor_new((DType)u->x[i]->dtype, 1, &rows);
        if (sum && !u->part[i - u->nin])
            return false;
        s->arg[i].stride[0] = sum ? 1 : step * fused_total_row(u);
        s->arg[i].stride[1] = sum ? 0 : step;
        if (sum)
            s->arg[i].base = storage_base(u, u->part[i - u->nin], true);
    }
    for (int i = 0; i < s->ncounters; i++) {
        s->counter[i].stride[1] = s->naxes ? s->counter[i].stride[0] : 0;
        s->counter[i].stride[0] = s->counter[i].stride[1] * fused_total_row(u);
    }
    if (fused_has_fault(u))
        return false;
    s->naxes = 2;
    s->nkept = 1;
    s->size[0] = rows;
    s->size[1] = u->total < fused_total_row(u) ? u->total : fused_total_row(u);
    return true;
}

/* ---- kernels ---- */

Variant *fused_prepare(Run *u)
{
    StrideClass class[OPERANDS];
    bool crosswise;
    int which;

    for (int tries = 0; tries <= u->nin; tries++) {
        if (!merge_axes(u) || (fused_is_total(u) && !split(u)))
            return NULL;
        classify(&u->space, u->nin, class);
        if ((which = awkward(u, class, &crosswise)) < 0 || u->device) {
            if (!crosswise)
                forget_neighbours(&u->space, class, fused_far_turns(u));
            return u->device ? fused_far_variant(u, class, crosswise)
                             : fused_variant(u->c, class, u->space.nargs + u->space.ncounters, fused_fitting(u, class, crosswise));
        }
        if (!straighten(u, which))
            return NULL;
    }
    return NULL;
}

bool fused_blocks(Run *u, const Tensor *p, StrideClass *class)
{
    bool crosswise;
    int which;

    if (!pair_keys(u, false))
        return false;
    set_space(u);
    u->space.nkept = u->space.naxes - 1;
    if (fused_has_fault(u) || p->shape[p->rank - 1] < 2 || p->shape[p->rank - 2] < 2 || !launch_merge(&u->space, &which) ||
        u->space.nkept != u->space.naxes - 1 || u->space.naxes < 2)
        return false;
    classify(&u->space, u->nin, class);
    if (awkward(u, class, &crosswise) >= 0 || crosswise)
        return false;
    forget_neighbours(&u->space, class, false);
    return true;
}

Variant *fused_plan_blocks(Run *u, const Tensor *p)
{
    StrideClass class[OPERANDS];
    Schedule s;
    Variant *v;

    if (!fused_blocks(u, p, class))
        return NULL;
    s = fused_fitting(u, class, false);
    s.align = 0;                                /* blocks end where the product likes */
    v = fused_variant(u->c, class, u->space.nargs + u->space.ncounters, s);
    return v->code || v->waits ? v : NULL;
}

Variant *fused_plan(Run *u, const Graph *body)
{
    Variant *v;
    bool brought;

    if (!u->c->able || !fused_state.compiler || u->c->product || u->c->looks_up || fused_is_total(u))
        return NULL;
    fused_sizes(u);
    if (!fused_all_sizes(u, body) || fused_is_empty_extreme(u) || !fused_make_results(u))
        return NULL;
    v = fused_prepare(u);
    brought = u->lies != NULL;
    fused_lie_whole(u);
    return v && v->tile && v->code && !brought ? v : NULL;
}
