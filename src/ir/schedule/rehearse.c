/*
 * Rehearsals.
 *
 * What a kernel is made for depends on how operands step and, for rows, on how
 * long they are, in powers of two: a ladder of numbers for one size at a
 * time, for all at once, and for all beside a size of 1 meets the cases.  Or the operands are those of a call.  Others are tensors
 * without elements of their own; ops that give views are run, since views step in ways of their own, and of
 * others only the types of their results count.
 */
#include "ir/schedule/rehearse.h"
#include "ir/schedule/far.h"
#include "ir/schedule/fused_impl.h"

#include "ir/schedule/steps.h"

#include "ir/graph/level.h"
#include "ir/graph/sizes.h"
#include "runtime/kernel_util.h"
#include "runtime/kernels.h"
#include "runtime/mesh.h"

#include <string.h>

enum { VARS_MAX = 32, USUAL = 48, UNKNOWN = 3, SMALL_BYTES = 4096, MOVED_BYTES = 4 << 20 };
static const int64_t here[] = {0, 1, 2, 8, 24, 48, 96, 208, 304};
/* On GPUs: their products with any number lie between all powers of two. */
static const int64_t there[] = {0, 1, 2, 4, 7, 13, 24, 48, 90, 170, 304, 600, 1100, 2100, 9000, 70000};

static void walk(Trace *T, Graph *g, Tensor *const *in);

/* ---- tensors that stand for values ---- */

static int64_t size_in(const DimEnv *env, Dim d)
{
    int64_t v;

    d = env ? env_subst(env, d) : d;
    return dim_const_value(d, &v) && v >= 0 ? v : UNKNOWN;
}

static size_t bytes_of(DType dt, int rank, const Dim *shape)
{
    size_t n = raw_size(dt);

    for (int i = 0; i < rank; i++)
        if (!tsr_mul(n, (size_t)shape[i], &n))
            return SIZE_MAX;
    return n;
}

/* Small ones are zeros: they may say where a view begins. NULL: too large. */
static Tensor *stand_in(const DimEnv *env, const TType *y)
{
    Dim shape[16];
    Tensor *t;

    for (int i = 0; i < y->rank; i++)
        shape[i] = size_in(env, y->shape[i]);
    t = (bytes_of((DType)y->dtype, y->rank, shape) <= SMALL_BYTES ? tensor_zeros : fused_ghost)((DType)y->dtype, y->rank, shape);
    if (!t)
        return NULL;
    t->weak = y->weak;
    t->policy = y->policy;
    return t;
}

/* ---- nodes ---- */

static bool once;               /* for one call: nothing that it may leave out */

typedef struct Slots { uint32_t *base; Tensor **at; int n; } Slots;

static Tensor *operand(const Slots *s, GValue v) { return s->at[s->base[v.node->id] + (uint32_t)v.index]; }

static void walk_regions(Trace *T, const DimEnv *env, const Node *n)
{
    for (int k = 0; k < 4; k++) {
        Graph *g = n->attr->region[k];
        int made = 0;
        if (!g || (once && n->op == OP_cond))
            continue;
        Tensor **in = tsr_calloc(sizeof *in * (size_t)(g->params.n + 1));
        while (made < g->params.n && (in[made] = stand_in(env, &g->params.at[made]->type[0])))
            made++;
        if (made == g->params.n)
            walk(T, g, in);
        tensors_unref(in, made);
        tsr_free(in);
    }
}

/* Does it give a view of as many elements? A rehearsed size may be one that the op refuses, and of what it would copy there are no elements. */
static bool views_shape(const Tensor *t, int rank, const int64_t *shape)
{
    int64_t n, stride[RANK_MAX];

    return shape_elements(rank, shape, &n) && n > 0 && n == tensor_size(t) && reshape_strides(t, rank, shape, stride);
}

/* Its attributes with numbers for sizes. */
static Attr sized(const DimEnv *env, const Node *n)
{
    Attr a = *n->attr;

    for (int k = 0; k < 4; k++)
        for (int i = 0; i < a.nd[k]; i++)
            a.d[k][i] = size_in(env, a.d[k][i]);
    return a;
}

/* What moves elements asks for kernels underneath the host's (runtime/far_moves.h), which may look at places. */
static bool is_move(const Node *n, Tensor *const *in, const TType *y)
{
    size_t all = bytes_of((DType)y->dtype, y->rank, y->shape);
    bool moves = op_info[n->op].family == FAM_MOVE || n->op == OP_index || n->op == OP_index_put || n->op == OP_index_add ||
                 (once && (n->op == OP_full || n->op == OP_iota));

    for (int i = 0; i < n->nin && all <= MOVED_BYTES; i++)
        all += tensor_nbytes(in[i]) <= MOVED_BYTES ? tensor_nbytes(in[i]) : MOVED_BYTES + 1;
    return moves && (once || all <= MOVED_BYTES);
}

/* An op on a GPU: a body of its own, a product, a move. false: the host does it. */
static bool run_alone(Trace *T, const DimEnv *env, const Node *n, Tensor *const *in, Tensor **out)
{
    Attr a = sized(env, n);
    TType y = n->type[0];
    int nout = 0;

    for (int i = 0; i < y.rank; i++)
        y.shape[i] = size_in(env, y.shape[i]);
    if (n->nout != 1 || !trace_run_far)
        return false;
    if (is_move(n, in, &y))
        return op_dispatch(T, (OpId)n->op, &a, in, n->nin, out, &nout);
    return trace_run_far(T, (OpId)n->op, &a, in, n->nin, &y, 1, out) > 0;
}

static bool run_view(Trace *T, const DimEnv *env, const Node *n, Tensor *const *in, Tensor **out, int *nout)
{
    Attr a = sized(env, n);

    if (n->op == OP_reshape && !views_shape(in[0], a.nd[0], a.d[0]) && !(once && far_pretends))
        return far_pretends && run_alone(T, env, n, in, out);
    return op_dispatch(T, (OpId)n->op, &a, in, n->nin, out, nout);
}

/* A program's kernel, of a call that there will be. */
static bool run_launch(Trace *T, const Node *n, Tensor *const *in, Tensor **out)
{
    int nout = 0;

    if (!once || !far_pretends || !T->host_launch)
        return false;
    if (T->host_launch(T->host, n->attr, in, n->nin, 0, out, &nout) && nout == n->nout)
        return true;
    tensors_unref(out, nout);
    memset(out, 0, sizeof *out * (size_t)n->nout);
    return false;
}

/* The results of a fused node or a view as they come; false: make some. */
static bool run_node(Trace *T, const DimEnv *env, const Node *n, Tensor *const *in, Tensor **out)
{
    int nout = 0;

    if (n->op == OP_launch)
        return run_launch(T, n, in, out);

    if (n->op == OP_fused)
        return trace_run_fused && trace_run_fused(T, n->attr->region[0], n->attr, in, n->nin, out, &nout) > 0;
    if (n->op == OP_stop_gradient || (n->op == OP_convert && n->attr->name)) {
        out[0] = tensor_ref(in[0]);
        return true;
    }
    if (op_info[n->op].flags & OPF_REGIONS)
        return false;
    return op_info[n->op].flags & OPF_VIEW ? run_view(T, env, n, in, out, &nout) : far_pretends && run_alone(T, env, n, in, out);
}

/* A fused node that no kernel does: op by op, tables by themselves, or in two halves. */
static void walk_apart(Trace *T, const Node *n, Tensor *const *in)
{
    Graph *body = n->attr->region[0], *g = fused_looks_up(body) ? fused_apart(body, n->attr) : NULL;
    FusedCode *c = g || !far_pretends ? NULL : fused_code_of(body, n->attr);

    g = g ? g : graph_ref(c && fused_divides(c, in, device_now) ? c->divided : body);

    walk(T, g, in);
    graph_unref(g);
}

static bool walk_node(Trace *T, DimEnv *env, const Node *n, const Slots *s)
{
    Tensor **in = tsr_calloc(sizeof *in * (size_t)(n->nin + 1)), **out = &s->at[s->base[n->id]];
    bool ok = true;

    for (int i = 0; i < n->nin; i++)
        ok &= (in[i] = operand(s, n->in[i])) != NULL;
    if (ok && n->op == OP_fused && steps_kind(n->attr))
        walk(T, n->attr->region[0], in);
    else if (ok && n->op != OP_fused)
        walk_regions(T, env, n);
    if (ok && !run_node(T, env, n, in, out)) {
        if (n->op == OP_fused && !steps_kind(n->attr) && (far_pretends || fused_looks_up(n->attr->region[0])))
            walk_apart(T, n, in);
        for (int i = 0; i < n->nout && ok; i++)
            ok = (out[i] = stand_in(env, &n->type[i])) != NULL;
    }
    for (int i = 0; i < n->nout && ok; i++)
        ok = !(n->flags & NODE_BINDS) || env_bind_type(env, T, &n->type[i], out[i]);
    tsr_free(in);
    return ok;
}

static void walk(Trace *T, Graph *g, Tensor *const *in)
{
    DimEnv *outer = T->dims, env;
    Slots s = {.base = tsr_alloc(sizeof *s.base * (g->nnodes + 1))};
    bool ok;

    for (const Node *n = g->first; n; n = n->next) {
        s.base[n->id] = (uint32_t)s.n;
        s.n += n->nout;
    }
    s.at = tsr_calloc(sizeof *s.at * (size_t)(s.n + 1));
    for (int i = 0; i < g->params.n; i++)
        s.at[s.base[g->params.at[i]->id]] = tensor_ref(in[i]);
    ok = env_init(&env, T, g, in);
    T->dims = &env;
    for (const Node *n = g->first; n && ok; n = n->next)
        ok = n->op == GRAPH_PARAM || walk_node(T, &env, n, &s);
    T->dims = outer;
    env_done(&env);
    tensors_unref(s.at, s.n);
    tsr_free(s.at);
    tsr_free(s.base);
}

/* ---- sizes ---- */

typedef struct Sizes { Dim var[VARS_MAX]; int64_t now[VARS_MAX]; int n; } Sizes;

static void find_vars(const Graph *g, Sizes *z)
{
    for (int i = 0; i < g->params.n; i++)
        for (int k = 0; k < g->params.at[i]->type[0].rank; k++) {
            Dim v[VARS_MAX];
            int n = dim_vars(g->params.at[i]->type[0].shape[k], v, VARS_MAX);
            for (int j = 0; j < n && j < VARS_MAX && z->n < VARS_MAX; j++) {
                bool known = false;
                for (int q = 0; q < z->n; q++)
                    known |= z->var[q] == v[j];
                if (!known)
                    z->var[z->n++] = v[j];
            }
        }
}

/* Go through g for the numbers of now, if it serves them. */
static void rehearse(Trace *T, Graph *g, const Sizes *z)
{
    Tensor **in = tsr_calloc(sizeof *in * (size_t)(g->params.n + 1));
    int made = 0;

    for (; made < g->params.n; made++) {
        TType y = g->params.at[made]->type[0];
        for (int k = 0; k < y.rank; k++) {
            int64_t v = y.shape[k];
            if (!dim_is_const(v) && !dim_eval(v, z->var, z->now, z->n, &v))
                v = UNKNOWN;
            y.shape[k] = v < 0 ? 0 : v;
        }
        if (!(in[made] = stand_in(NULL, &y)))
            break;
    }
    if (made == g->params.n && graph_takes(g, in))
        walk(T, g, in);
    T->error = OPERR_NONE;
    tensors_unref(in, made);
    tsr_free(in);
}

static void set_apart(Sizes *z, int i, int64_t one, int64_t others)
{
    for (int k = 0; k < z->n; k++)
        z->now[k] = k == i ? one : others;
}

static void rehearse_all(Trace *T, Graph *g, const int64_t *ladder, int rungs)
{
    Sizes z = {.n = 0};

    find_vars(g, &z);
    for (int rung = 0; rung < rungs; rung++) {
        for (int i = 0; i < z.n; i++)
            z.now[i] = ladder[rung];
        rehearse(T, g, &z);
        if (!z.n)
            return;
        for (int i = 0; i < z.n && z.n > 1; i++) {
            set_apart(&z, i, ladder[rung], USUAL);
            rehearse(T, g, &z);
            set_apart(&z, i, 1, ladder[rung]);
            rehearse(T, g, &z);
        }
    }
}

void graph_rehearse(Trace *T, Graph *g)
{
    fused_rehearse(true);
    if (far_pretends)
        rehearse_all(T, g, there, sizeof there / sizeof *there);
    else
        rehearse_all(T, g, here, sizeof here / sizeof *here);
    fused_rehearse(false);
}

void graph_rehearse_far(Trace *T, Graph *g, const KernelCompiler *notes, int chip)
{
    FarWay here = far_way();
    int was;

    far_pretend(notes, chip);
    was = device_enter(1);
    graph_rehearse(T, g);
    device_enter(was);
    far_go(here);
}

/* ---- one call ---- */

static void prepare(Trace *T, Graph *g, Tensor *const *in)
{
    once = true;
    fused_rehearse(true);
    walk(T, g, in);
    fused_rehearse(false);
    once = false;
    T->error = OPERR_NONE;
}

/* Without elements, and where t is: on the host it is t itself. NULL: it cannot be. */
static Tensor *ghost_of(Tensor *t)
{
    int device = (int)t->store->device, was = device_enter(device);
    int64_t n = (int64_t)((double)t->store->nbytes * 8 / dtype_info[t->dtype].sbits);
    Tensor *all = !device ? tensor_ref(t) : t->contiguous && !t->offset ? tensor_new((DType)t->dtype, t->rank, t->shape)
                                                                         : tensor_new((DType)t->dtype, 1, &n), *view = all;

    if (all && device && !(t->contiguous && !t->offset)) {
        view = tensor_view(all, t->rank, t->shape, t->stride, t->offset);
        tensor_unref(all);
    }
    if (view && device) {
        view->weak = t->weak;
        view->policy = t->policy;
    }
    device_enter(was);
    return view;
}

static const KernelCompiler *noted_for;

/* What cannot be made is asked for in other ways, as when it is run. */
static void *note(const TileKernel *k, StrBuf *err)
{
    static char done;

    return noted_for->takes(k) ? &done : NULL;
}

/* Which kernels the call asks for on a GPU, noted by a rehearsal on one that is none. */
static void note_far(Trace *T, Graph *g, Tensor *const *in, int device)
{
    static KernelCompiler notes;
    FarWay here = far_way();
    FusedStats stats = fused_state.stats;
    Tensor **ghost = tsr_calloc(sizeof *ghost * (size_t)(g->params.n + 1));
    int made = 0, was;

    notes = far_notes(note);
    far_pretend(&notes, -1);
    was = device_enter(device);
    while (made < g->params.n && (ghost[made] = ghost_of(in[made])))
        made++;
    if (made == g->params.n)
        prepare(T, g, ghost);
    tensors_unref(ghost, made);
    tsr_free(ghost);
    device_enter(was);
    far_go(here);
    fused_state.stats = stats;
}

/* false: it is not for a GPU. */
static bool prepare_far(Trace *T, Graph *g, Tensor *const *in)
{
    int device = device_of_operands(in, g->params.n);

    device = device ? device : device_now;
    if (!device || !device_is_far(device))
        return false;
    noted_for = far_way().compiler;
    if (noted_for && noted_for->takes) {
        note_far(T, g, in, device);
        noted_for->make_taken();
    }
    return true;
}

void graph_prepare(Trace *T, Graph *g, Tensor *const *in)
{
    if (!fused_state.compiler || !fused_state.compiler->compile_all || !trace_run_fused || pool_threads() < 2 || T->guarded)
        return;
    if (!prepare_far(T, g, in))
        prepare(T, g, in);
}
