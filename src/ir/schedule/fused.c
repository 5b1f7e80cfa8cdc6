/*
 * From a `fused` node to a launch: sizes and strides of the region's axes, a
 * kernel for the stride classes, results, and off it goes.
 *
 * Operands that step by neither 0 nor 1 along the inner axis are copied to rows
 * first, as the reference kernels do; when the outer axis is the one whose
 * elements lie side by side, as in sums down columns, they stay, and a group
 * does more rows at a time.  Rows that memory has in pieces are brought, a few at
 * a time (fused_brought.c).
 *
 * A body with a matrix product (product.c) computes that first: blocks of it go through the kernel as they are finished,
 * where rows of the product are rows of the kernel, else all of it at the end.
 */
#include "ir/schedule/far.h"
#include "ir/schedule/fused_impl.h"

#include "ir/graph/level.h"
#include "ir/graph/sizes.h"
#include "ir/tile/tile_impl.h"

#include "base/alloc.h"
#include "runtime/cuda.h"
#include "runtime/gemm.h"
#include "runtime/kernel_util.h"
#include "runtime/loops.h"
#include "runtime/mesh.h"

#include <string.h>

enum {
    FAR_TOTAL_ROW = 1 << 12,
    TOTAL_ROW = 1 << 14,        /* elements of a part of a total: a power of two of the chunks of R4 of docs/numerics.md */
};

const FusedFar *fused_far;
bool (*fused_oracle)(const TileKernel *k, const int64_t *size, const TileArg *arg, StrBuf *err);
int (*fused_run_steps)(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor *const *slices, Tensor **out, int *nout);
static bool lazy;
static int told;                /* what the compiler does where no function asks */

enum { PAYS = 1 << 23 };        /* element operations that take about as long as making a kernel */

/* ---- one run ---- */

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

/* Has the device no place for an operand or a result, or is it lost? Nothing may be launched then. */
static bool has_fault(const Run *u) { return u->device && fault_kept; }

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

static bool make_results(Run *u)
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

/* No rows are brought. */
static void lie_whole(Run *u)
{
    tsr_free(u->lies);
    u->lies = NULL;
}

/* Merge axes; where an operand hinders it, rows are brought, or it is copied once. */
static bool merge_axes(Run *u)
{
    bool copied[OPERANDS] = {false};
    int which;

    lie_whole(u);
    if (!pair_keys(u, true))
        return false;
    for (;;) {
        set_space(u);
        if (has_fault(u))
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
static int64_t total_row(const Run *u) { return u->device ? FAR_TOTAL_ROW : TOTAL_ROW; }

/* Rows of as many elements in place of one axis; the last may be shorter, and if there is one, its sums are the results. */
static bool split(Run *u)
{
    LaunchSpace *s = &u->space;
    int64_t rows;

    u->total = s->naxes ? s->size[0] : 1;
    rows = u->total > total_row(u) ? (u->total + total_row(u) - 1) / total_row(u) : 1;
    for (int i = 0; i < s->nargs; i++) {
        int64_t step = s->naxes ? s->arg[i].stride[0] : 0;
        bool sum = i >= u->nin && !u->c->value[i]->has;
        if (sum && !u->part[i - u->nin])
            u->part[i - u->nin] = rows == 1 ? tensor_view(u->x[i], 1, &rows, &rows, 0) : tensor_new((DType)u->x[i]->dtype, 1, &rows);
        if (sum && !u->part[i - u->nin])
            return false;
        s->arg[i].stride[0] = sum ? 1 : step * total_row(u);
        s->arg[i].stride[1] = sum ? 0 : step;
        if (sum)
            s->arg[i].base = storage_base(u, u->part[i - u->nin], true);
    }
    for (int i = 0; i < s->ncounters; i++) {
        s->counter[i].stride[1] = s->naxes ? s->counter[i].stride[0] : 0;
        s->counter[i].stride[0] = s->counter[i].stride[1] * total_row(u);
    }
    if (has_fault(u))
        return false;
    s->naxes = 2;
    s->nkept = 1;
    s->size[0] = rows;
    s->size[1] = u->total < total_row(u) ? u->total : total_row(u);
    return true;
}

static Variant *plan(Run *u)
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

/* ---- products ---- */

typedef struct Blocks {
    const Run *u;
    const Variant *v;
    char *scratch;
    int64_t bytes;              /* of it for each thread */
} Blocks;

static void block_done(void *st, int64_t slot, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const Blocks *b = st;

    launch_part(&b->u->space, &b->v->launch, b->bytes ? b->scratch + slot * b->bytes : NULL, row, rows, column, columns);
}

bool fused_blocks(Run *u, const Tensor *p, StrideClass *class)
{
    bool crosswise;
    int which;

    if (!pair_keys(u, false))
        return false;
    set_space(u);
    u->space.nkept = u->space.naxes - 1;
    if (has_fault(u) || p->shape[p->rank - 1] < 2 || p->shape[p->rank - 2] < 2 || !launch_merge(&u->space, &which) ||
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

/* Compute the product, and the kernel with it: 1; 0: the kernel is still to run; -1: no memory. */
static int run_product(Run *u)
{
    Tensor *x = u->x[u->c->factor[0]], *y = u->x[u->c->factor[1]], *p = u->x[u->nin - 1];
    Blocks b = {.u = u, .v = fused_state.compiler ? fused_plan_blocks(u, u->x[u->nin - 1]) : NULL};
    GemmDone done = {block_done, &b, u->c->r.nkept < u->c->r.naxes};
    StrBuf err = {0};
    KCtx c = {.err = &err};
    KStatus s = K_INDEX;

    if (b.v && (b.bytes = launch_scratch(&u->space, &b.v->launch)))
        b.scratch = tsr_try_alloc((size_t)(b.bytes * pool_threads()), 64);
    if (b.v && (!b.bytes || b.scratch))
        s = matmul_into(&c, x, y, schedule_accum(u->c->product), u->c->product->attr, p, &done);
    bool whole = s == K_OK;
    if (s == K_INDEX)
        s = matmul_into(&c, x, y, schedule_accum(u->c->product), u->c->product->attr, p, NULL);
    tsr_free_aligned(b.scratch);
    sb_done(&err);
    return s == K_OK ? whole : -1;
}

typedef struct Oracle { const TileKernel *k; StrBuf err; } Oracle;

static bool oracle_round(void *st, const int64_t *size, const TileArg *arg)
{
    Oracle *o = st;

    return fused_oracle(o->k, size, arg, &o->err);
}

/* What the oracle refuses is our mistake: it is said, never hidden by running op by op. */
static int run_oracle(Run *u, const Variant *v)
{
    Oracle o = {.k = v->tile};
    int done = launch_each(&u->space, v->schedule.kind == SCHEDULE_COLUMNS, oracle_round, &o) ? 1 : -1;

    if (done < 0)
        trace_fail(u->T, OPERR_VALUE, "kernel %s: %s", v->tile->name->text, sb_str(&o.err));
    sb_done(&o.err);
    return done;
}

static int run_compiled(Run *u, const Variant *v)
{
    if (u->lies ? fused_run_brought(u, v) : launch_run(&u->space, &v->launch))
        return 1;
    trace_fail(u->T, OPERR_MEMORY, "no memory for the rows of a fused kernel");
    return -1;
}

static int run_rows(Run *u, const Variant *v)
{
    if (u->device)
        return fused_far_run(u, v);
    return fused_state.compiler ? run_compiled(u, v) : run_oracle(u, v);
}

/* Pairs of neighbours, then pairs of those, until one is left; an odd one passes. */
static void combine(const Tensor *part, OpId reduction, Tensor *total)
{
    DType dt = (DType)total->dtype;
    LoopFn *step = loop_find(tile_step_op(reduction), dt);
    size_t bytes = raw_size(dt);
    char *x = tensor_data(part);
    _Alignas(16) char left[16], right[16];              /* lanes: narrow floats are computed with as f32 */

    for (int64_t n = part->shape[0]; n > 1; n = (n + 1) / 2)
        for (int64_t i = 0; i < n; i += 2) {
            char *to = x + (size_t)(i / 2) * bytes, *a = x + (size_t)i * bytes;
            if (i + 1 < n) {
                raw_to_lane(dt, a, left, 1);
                raw_to_lane(dt, a + bytes, right, 1);
                step(1, left, left, right, NULL);
                lane_to_raw(dt, left, to, 1);
            } else {
                memmove(to, a, bytes);
            }
        }
    memcpy(tensor_data(total), x, bytes);
}

static int run_total(Run *u, const Variant *v)
{
    int64_t whole = u->total / total_row(u), rest = u->total % total_row(u);
    int done = 1;

    if (u->total > total_row(u)) {
        u->space.size[0] = whole;
        done = run_rows(u, v);
        u->space.size[0] = 1;
        u->space.size[1] = rest;
        for (int i = 0; i < u->space.nargs; i++)
            u->space.arg[i].base += whole * u->space.arg[i].stride[0] * u->space.arg[i].bytes;
        for (int i = 0; i < u->space.ncounters; i++)
            u->space.counter[i].base += whole * u->space.counter[i].stride[0];
    }
    if (done > 0 && (rest || u->total <= total_row(u)))
        done = run_rows(u, v);
    for (int i = 0; i < u->nout && done > 0; i++)
        if (u->part[i] && u->part[i]->store == u->x[u->nin + i]->store)     /* the only part is the total */
            continue;
        else if (u->part[i] && u->device)
            done = fused_far->combine(u->device, (OpId)u->c->value[u->nin + i]->node->op, u->part[i], u->x[u->nin + i], u->where) ? 1 : -1;
        else if (u->part[i])
            combine(u->part[i], (OpId)u->c->value[u->nin + i]->node->op, u->x[u->nin + i]);
    return done;
}

/* Has the body computed enough for a kernel, this run included? */
static bool pays(Run *u)
{
    double work = 0;

    for (int v = 0; v < u->c->r.nvalues; v++)
        work += u->c->r.value[v].inside;
    for (int a = 0; a < u->c->r.naxes; a++)
        work *= (double)u->size[a];
    if (fused_state.rehearses)
        vec_push(&fused_state.worked, ((Worked){u->c, u->c->work}));
    u->c->work += work;
    return u->c->first || u->c->work >= PAYS;
}

enum { NOT_HERE = 2 };

/* The same as run_product for a rehearsal, as far as can be said before anything is computed; bundles are for operands that lie in any way. */
static int rehearse_product(Run *u)
{
    return fused_plan_blocks(u, u->x[u->nin - 1]) && !fused_state.compiler->idle;
}

/* As run_product, or NOT_HERE: the device has no way for it. */
static int product_of(Run *u)
{
    if (u->device) {
        Tensor *const *x = u->x;
        int done = fused_far->product(u->device, x[u->c->factor[0]], x[u->c->factor[1]], x[u->nin - 1], u->c->product->attr, u->where);
        return done > 0 ? 0 : done < 0 ? -1 : NOT_HERE;
    }
    return fused_state.rehearses ? rehearse_product(u) : run_product(u);
}

static int run(Run *u, const Graph *body)
{
    Variant *v;

    if (u->c->product && u->device && (!fused_state.rehearses || far_made_for < 0)) {
        int done = fused_far_product(u, body);
        fused_state.stats.launches += done > 0;
        if (done)
            return done;
    }
    if ((u->c->product && !fused_product(u)) || (u->c->looks_up && !fused_places(u)))
        return 0;
    fused_sizes(u);
    if (!fused_all_sizes(u, body) || fused_is_empty_extreme(u) || (lazy && !u->device && !pays(u)) || !make_results(u))
        return 0;
    if (u->c->product) {
        int done = product_of(u);
        if (done == NOT_HERE)
            return 0;
        if (done) {
            fused_state.stats.launches += done > 0 && !fused_state.rehearses;
            return has_fault(u) ? -1 : done > 0;
        }
    }
    if (!(v = plan(u)))
        return has_fault(u) ? -1 : 0;
    if (!v->tile || (fused_state.compiler && !v->code && !v->waits))
        return 0;
    if (fused_state.rehearses && !u->device)
        return 1;
    fused_state.stats.launches += !fused_state.rehearses;
    return fused_is_total(u) ? run_total(u, v) : run_rows(u, v);
}

Variant *fused_plan(Run *u, const Graph *body)
{
    Variant *v;
    bool brought;

    if (!u->c->able || !fused_state.compiler || u->c->product || u->c->looks_up || fused_is_total(u))
        return NULL;
    fused_sizes(u);
    if (!fused_all_sizes(u, body) || fused_is_empty_extreme(u) || !make_results(u))
        return NULL;
    v = plan(u);
    brought = u->lies != NULL;
    lie_whole(u);
    return v && v->tile && v->code && !brought ? v : NULL;
}

bool fused_launch(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, LaunchSpace *space, LaunchKernel *k)
{
    Run u = {.T = T, .nin = nin, .nout = body->results.n};
    Variant *v;
    bool same;

    if (steps_kind(a))
        return false;
    u.c = fused_code_of(body, a);
    for (int i = 0; u.c->able && i < nin; i++)
        u.x[i] = tensor_ref(in[i]);
    same = (v = fused_plan(&u, body)) != NULL;
    for (int i = 0; same && i < nin; i++)
        same = u.x[i] == in[i];                 /* none had to be copied */
    if (same) {
        *space = u.space;
        *k = v->launch;
    }
    tensors_unref(u.x, u.c->able ? nin + u.nout : 0);
    return same;
}

/* The GPU of the driver's that all of this is for; 0: none; -1: it is for devices of another kind, or for several. */
static int device_of(Tensor *const *in, int nin)
{
    int device, other;

    if (devices_used && devices_differ(in, nin, &device, &other))
        return -1;
    device = device_of_operands(in, nin);
    device = device ? device : device_now;
    return !device ? 0 : fused_far && device_is_far(device) ? device : -1;
}

/* Run the body of u->c; there are no results unless it was done. */
static int run_body(Run *u, Graph *body)
{
    const KernelCompiler *here = fused_state.compiler;
    int was = device_now, done;

    if (u->device) {
        fused_state.compiler = fused_far->compiler;
        device_enter(u->device);
    }
    done = run(u, body);
    device_enter(was);
    fused_state.compiler = here;
    return done;
}

static int run_fused(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Run u = {.T = T, .dying = T->dying & ~(uint32_t)DYING_ROWS, .nout = body->results.n, .device = device_of(in, nin), .where = T->span,
             .slices = T->slices};
    int done = 0;

    T->slices = NULL;
    if (T->guarded || u.device < 0)     /* each result is looked at: op by op */
        return 0;
    if (fused_state.rehearses && ((u.device != 0) != far_pretends || steps_kind(a)))        /* step by step */
        return 0;
    for (int i = 0; i < nin; i++)
        if (in[i]->tracer)
            return 0;
    if (steps_kind(a))
        return fused_run_steps && !u.device ? fused_run_steps(T, body, a, in, nin, u.slices, out, nout) : 0;
    u.c = fused_code_of(body, a);
    u.nin = u.c->body->params.n;
    if (!u.c->able)
        return 0;
    if (u.device && fused_divides(u.c, in, u.device))
        return fused_state.rehearses ? 0 : graph_apply(T, u.c->divided, in, nin, out, nout) ? 1 : -1;
    for (int i = 0; i < nin; i++)
        u.x[i] = tensor_ref(in[i]);
    done = u.device && u.c->looks_up ? 0 : run_body(&u, body);
    if (done < 0 && fault_kept)
        trace_device_failed(T);
    fused_state.stats.fallbacks += !done && !fused_state.rehearses;
    tensors_unref(u.x, u.nin);
    tensors_unref(u.part, u.nout);
    lie_whole(&u);
    if (done > 0) {
        memcpy(out, u.x + u.nin, sizeof *out * (size_t)u.nout);
        *nout = u.nout;
    } else
        for (int i = 0; i < u.nout; i++)
            tensor_unref(u.x[u.nin + i]);
    if (!done && u.c->looks_up && !fused_state.rehearses)
        done = fused_run_apart(T, body, a, in, nin, out, nout);
    return done;
}

/* Kernels for results that lie so are made when they are asked for; bundles have those for results of their own. */
static bool takes_slices(void) { return !fused_state.rehearses && (!fused_state.compiler || fused_state.compiler->effort); }

void fused_begin(const KernelCompiler *c, bool lazily)
{
    fused_state.compiler = c;
    lazy = lazily;
    graph_code_free = fused_code_free;
    trace_run_fused = run_fused;
    trace_fused_slices = takes_slices;
}

FusedWay fused_way(void) { return (FusedWay){fused_state.compiler, lazy, trace_run_fused != NULL}; }

void fused_go(FusedWay w)
{
    fused_begin(w.compiler, w.lazily);
    if (!w.on)
        trace_run_fused = NULL;
}

bool fused_lazily(bool lazily)
{
    bool former = lazy;

    lazy = lazily;
    return former;
}

int fused_effort(int level)
{
    int former = fused_state.effort;

    if (!former && fused_state.compiler && fused_state.compiler->effort)
        told = fused_state.compiler->effort(level);
    else if (fused_state.compiler && fused_state.compiler->effort)
        fused_state.compiler->effort(level ? level : told);
    fused_state.effort = level;
    return former;
}

FusedStats fused_stats(void) { return fused_state.stats; }
