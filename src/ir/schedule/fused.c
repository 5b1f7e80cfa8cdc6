/*
 * From a `fused` node to a launch: what there is to run it is made ready (fused_plan.c), and off it goes: here, on a GPU (fused_far.c), by the
 * oracle, or not at all, and then the caller does its nodes one by one.
 *
 * A body with a matrix product (product.c) computes that first: blocks of it go through the kernel as they are finished,
 * where rows of the product are rows of the kernel, else all of it at the end.
 */
#include "ir/schedule/far.h"
#include "ir/schedule/fused_impl.h"

#include "ir/graph/level.h"
#include "ir/tile/tile_impl.h"

#include "base/alloc.h"
#include "runtime/cuda.h"
#include "runtime/gemm.h"
#include "runtime/kernel_util.h"
#include "runtime/loops.h"
#include "runtime/mesh.h"

#include <string.h>

const FusedFar *fused_far;
bool (*fused_oracle)(const TileKernel *k, const int64_t *size, const TileArg *arg, StrBuf *err);
int (*fused_run_steps)(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor *const *slices, Tensor **out, int *nout);
static bool lazy;
static int told;                /* what the compiler does where no function asks */

enum { PAYS = 1 << 23 };        /* element operations that take about as long as making a kernel */

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
    int64_t whole = u->total / fused_total_row(u), rest = u->total % fused_total_row(u);
    int done = 1;

    if (u->total > fused_total_row(u)) {
        u->space.size[0] = whole;
        done = run_rows(u, v);
        u->space.size[0] = 1;
        u->space.size[1] = rest;
        for (int i = 0; i < u->space.nargs; i++)
            u->space.arg[i].base += whole * u->space.arg[i].stride[0] * u->space.arg[i].bytes;
        for (int i = 0; i < u->space.ncounters; i++)
            u->space.counter[i].base += whole * u->space.counter[i].stride[0];
    }
    if (done > 0 && (rest || u->total <= fused_total_row(u)))
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
    if (!fused_all_sizes(u, body) || fused_is_empty_extreme(u) || (lazy && !u->device && !pays(u)) || !fused_make_results(u))
        return 0;
    if (u->c->product) {
        int done = product_of(u);
        if (done == NOT_HERE)
            return 0;
        if (done) {
            fused_state.stats.launches += done > 0 && !fused_state.rehearses;
            return fused_has_fault(u) ? -1 : done > 0;
        }
    }
    if (!(v = fused_prepare(u)))
        return fused_has_fault(u) ? -1 : 0;
    if (!v->tile || (fused_state.compiler && !v->code && !v->waits))
        return 0;
    if (fused_state.rehearses && !u->device)
        return 1;
    fused_state.stats.launches += !fused_state.rehearses;
    return fused_is_total(u) ? run_total(u, v) : run_rows(u, v);
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
    Graph *one;
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
    if ((one = fused_one_row(&u))) {
        tensors_unref(u.x, u.nin);
        return graph_apply(T, one, in, nin, out, nout) ? 1 : -1;
    }
    done = u.device && u.c->looks_up ? 0 : run_body(&u, body);
    if (done < 0 && fault_kept)
        trace_device_failed(T);
    fused_state.stats.fallbacks += !done && !fused_state.rehearses;
    tensors_unref(u.x, u.nin);
    tensors_unref(u.part, u.nout);
    fused_lie_whole(&u);
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
