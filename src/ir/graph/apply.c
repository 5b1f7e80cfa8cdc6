/*
 * graph_apply: evaluate a graph, node by node in order, on operands of any level.
 *
 * With concrete operands this is the reference executor: values are freed at
 * their last use, and a kernel may take over the memory of an operand that
 * dies there (--no-pass=memory: at the end, and none does).  With tracers it is how graphs are transformed.
 *
 * Sizes: a graph may be symbolic.  The sizes of its operands bind the size
 * variables of its parameters; results whose size only the run knows bind
 * theirs.  Regions see the bindings of the graphs around them (T->dims).
 */
#include "ir/core/pass.h"
#include "ir/graph/beside.h"
#include "ir/graph/level.h"
#include "ir/graph/sizes.h"
#include "ir/graph/timed.h"
#include "ir/graph/unrounded.h"

#include "runtime/convert.h"
#include "runtime/kernels.h"
#include "runtime/mesh.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_NODES = 24 };

typedef struct Run {
    Graph *g;
    DimEnv env;
    bool at_last_use;           /* values are freed there, not at the end: the pass "memory" */
    uint32_t *base;             /* node id -> slot of its first result */
    Tensor **slot;
    uint32_t *left;             /* slot -> uses still to come */
    Beside beside;
    Unrounded unrounded;
    int nslots;
    uint32_t few_base[FEW_NODES + 1], few_left[FEW_NODES + 1];      /* room for small graphs */
    Tensor *few_slot[FEW_NODES + 1];
} Run;

/* Cleared room for n, in `few` where that suffices. */
static void *room(void *few, size_t size, size_t n)
{
    return n <= FEW_NODES + 1 ? memset(few, 0, size * n) : tsr_calloc(size * n);
}

static void run_init(Run *r, Graph *g, Tensor *const *places)
{
    r->g = g;
    r->at_last_use = pass_runs("memory");
    r->nslots = 0;
    r->env = (DimEnv){0};
    r->base = room(r->few_base, sizeof *r->base, g->nnodes + 1);
    for (Node *n = g->first; n; n = n->next) {
        r->base[n->id] = (uint32_t)r->nslots;
        r->nslots += n->nout;
    }
    r->slot = room(r->few_slot, sizeof *r->slot, (size_t)r->nslots + 1);
    r->left = room(r->few_left, sizeof *r->left, (size_t)r->nslots + 1);
    for (Node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->nin; i++)
            r->left[r->base[n->in[i].node->id] + (uint32_t)n->in[i].index]++;
    for (int i = 0; i < g->results.n; i++)
        r->left[r->base[g->results.at[i].node->id] + (uint32_t)g->results.at[i].index]++;
    beside_find(&r->beside, g, r->base, r->left, r->nslots, places);
    unrounded_find(&r->unrounded, g, r->base, r->nslots);
}

static void run_done(Run *r)
{
    tensors_unref(r->slot, r->nslots);
    if (r->slot != r->few_slot)
        tsr_free(r->slot);
    if (r->left != r->few_left)
        tsr_free(r->left);
    if (r->base != r->few_base)
        tsr_free(r->base);
    beside_done(&r->beside);
    unrounded_done(&r->unrounded);
    env_done(&r->env);
}

static uint32_t slot_of(const Run *r, GValue v)
{
    return r->base[v.node->id] + (uint32_t)v.index;
}

static void drop_use(Run *r, uint32_t s)
{
    if (--r->left[s] == 0 && r->at_last_use) {
        tensor_unref(r->slot[s]);
        r->slot[s] = NULL;
    }
}

/* The operands that nobody uses after this node, as a mask for the kernel, whose result a plan counts on. */
static uint32_t dying_mask(const Run *r, const Node *n)
{
    uint32_t mask = DYING_ROWS;

    if (!r->at_last_use)
        return 0;
    for (int i = 0; i < n->nin && i < DYING_MAX; i++) {
        uint32_t s = slot_of(r, n->in[i]);
        if (r->slot[s]->tracer)
            return 0;
        if (r->left[s] == 1)
            mask |= 1u << i;
    }
    return mask;
}

static Dim size_now(void *st, Dim d)
{
    return env_subst(st, d);
}

/*
 * The node's attributes with sizes as they are now.  Regions that run look
 * their sizes up (T->dims); regions that are to be transformed, because an
 * operand is traced, are copied with the sizes put in.
 */
static const Attr *known_attr(Run *r, const Node *n, bool traced, Attr *room)
{
    bool regions = traced && (r->env.n || r->env.bound) && (op_info[n->op].flags & OPF_REGIONS);

    if (!(n->flags & NODE_SYMBOLIC) && !regions)
        return n->attr;
    *room = *n->attr;
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < room->nd[k]; i++)
            room->d[k][i] = env_subst(&r->env, room->d[k][i]);
        if (room->region[k])
            room->region[k] = regions ? graph_resize(room->region[k], size_now, &r->env) : graph_ref(room->region[k]);
    }
    return room;
}

static void forget_attr(const Attr *a, const Attr *room)
{
    for (int k = 0; a == room && k < 4; k++)
        graph_unref(room->region[k]);
}

static void drop_operands(Run *r, const Node *n)
{
    for (int i = 0; i < n->nin; i++)
        drop_use(r, slot_of(r, n->in[i]));
}

/* What follows from the sizes alone need not be made again while they stay. */
static bool take_made(Run *r, const Node *n)
{
    uint32_t slot = r->base[n->id];
    Tensor *t = env_made(&r->env, n);

    if (!t)
        return false;
    if (r->left[slot])
        r->slot[slot] = tensor_ref(t);
    drop_operands(r, n);
    return true;
}

/* A conversion that who uses it does. */
static bool leave_out(Run *r, const Node *n)
{
    uint32_t slot = r->base[n->id];
    Tensor *x = r->unrounded.may && n->nin == 1 ? r->slot[slot_of(r, n->in[0])] : NULL;

    if (!x || !unrounded_begins(&r->unrounded, n, x))
        return false;
    r->slot[slot] = tensor_ref(x);
    r->unrounded.is[slot] = true;
    drop_operands(r, n);
    return true;
}

/* The device of the innermost device block around the node; -1: there is none here. */
static int device_of(Sym scope)
{
    const char *at = NULL;
    int gpu;

    for (const char *s = scope->text; (s = strstr(s, "device=")); s++)
        at = s + sizeof "device=" - 1;
    if (!at || strncmp(at, "gpu:", 4))
        return at ? 0 : -1;
    gpu = atoi(at + 4);
    return gpu >= 0 && gpu < devices_gpus() ? gpu + 1 : -1;
}

static Sym inside(Sym outer, Sym inner)
{
    StrBuf b = {0};
    Sym s;

    if (!outer || outer == inner)
        return inner;
    sb_printf(&b, "%s %s", outer->text, inner->text);
    s = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return s;
}

static bool run_node(Trace *T, Run *r, Node *n);

/* The node inside the blocks that the program had around it: its results lie on their device. */
static bool run_scoped(Trace *T, Run *r, Node *n)
{
    Sym scope = T->scope;
    int device = device_of(n->scope), was = device >= 0 ? device_enter(device) : -1;
    bool ok;

    T->scope = inside(scope, n->scope);
    ok = run_node(T, r, n);
    T->scope = scope;
    if (was >= 0)
        device_enter(was);
    return ok;
}

/* The op, and how long it took where that is asked for; the time of control flow is that of the ops inside. */
static bool dispatch(Trace *T, const Node *n, const Attr *a, Tensor *const *in, bool traced, Tensor **out, int *nout)
{
    Timed start;
    bool ok;

    if (!timed_on || traced || (n->op != OP_fused && op_info[n->op].flags & OPF_REGIONS))
        return op_dispatch(T, (OpId)n->op, a, in, n->nin, out, nout);
    start = timed_now();
    ok = op_dispatch(T, (OpId)n->op, a, in, n->nin, out, nout);
    if (ok)
        timed_add(n, in, out, *nout, start);
    return ok;
}

static bool run_node(Trace *T, Run *r, Node *n)
{
    Tensor *few[16], **in = n->nin <= 16 ? few : tsr_alloc(sizeof *in * n->nin);
    Tensor **out = &r->slot[r->base[n->id]];
    const Attr *a;
    Tensor *slice[BESIDE_MOST], *made[2] = {NULL, NULL};
    Attr room;
    int nout = 0, nslices;
    bool ok, traced = false;

    for (int i = 0; i < n->nin; i++) {
        in[i] = r->slot[slot_of(r, n->in[i])];
        traced |= in[i]->tracer != NULL;
    }
    if (n->span.hi)
        T->span = n->span;
    ok = !r->unrounded.may || unrounded_meet(&r->unrounded, T, n, in, r->slot, made);
    a = known_attr(r, n, traced, &room);
    nslices = traced ? 0 : beside_slices(&r->beside, T, &r->env, n, in, slice);
    T->dying = dying_mask(r, n);
    if (n->op == OP_concat)
        beside_arrives(&r->beside, n);
    T->slices = nslices ? slice : NULL;
    ok = ok && (!kernel_of[n->op] || trace_lie_together(T, (OpId)n->op, in, n->nin)) && dispatch(T, n, a, in, traced, out, &nout);
    forget_attr(a, &room);
    T->dying = 0;
    T->slices = NULL;
    tensors_unref(slice, nslices);
    tensors_unref(made, 2);
    if (ok && n->nout == 1)
        env_keep(&r->env, n, out[0]);
    for (int i = 0; ok && i < n->nout; i++) {
        ok = !(n->flags & NODE_BINDS) || env_bind_type(&r->env, T, &n->type[i], out[i]);
        if (ok && !r->left[r->base[n->id] + (uint32_t)i]) {
            tensor_unref(out[i]);
            out[i] = NULL;
        }
    }
    drop_operands(r, n);
    if (in != few)
        tsr_free(in);
    return ok;
}

/* Those from `given` on, up to `kept`, are the run's alone from now on, which has references of its own. */
static void take_given(Tensor **in, int given, int kept)
{
    for (int i = given; i < kept; i++) {
        tensor_unref(in[i]);
        in[i] = NULL;
    }
}

static bool bind_operands(Trace *T, Run *r, Tensor *const *in, int nin)
{
    Graph *g = r->g;

    if (nin != g->params.n)
        return trace_fail(T, OPERR_VALUE, "the graph takes %d values, %d are given", g->params.n, nin);
    for (int i = 0; i < nin; i++) {
        const TType *y = &g->params.at[i]->type[0];
        if (y->dtype != in[i]->dtype)
            return trace_fail(T, OPERR_DTYPE, "operand %d is %s where the graph takes %s", i + 1, dtype_info[in[i]->dtype].name,
                              dtype_info[y->dtype].name);
        if (r->left[r->base[g->params.at[i]->id]])
            r->slot[r->base[g->params.at[i]->id]] = tensor_ref(in[i]);
    }
    return env_init(&r->env, T, g, in);
}

/* What is given, and where results had better lie. */
typedef struct Handed { int given, kept; Tensor *const *places; } Handed;

static bool apply(Trace *T, Graph *g, Tensor **in, int nin, Handed handed, Tensor **out, int *nout)
{
    DimEnv *dims = T->dims;
    Span span = T->span;
    Run r;
    bool ok;

    run_init(&r, g, handed.places);
    graph_ref(g);
    T->settled++;
    ok = bind_operands(T, &r, in, nin);
    T->dims = &r.env;
    if (ok)
        take_given(in, handed.given, handed.kept);
    for (Node *n = g->first; ok && n; n = n->next)
        ok = n->op == GRAPH_PARAM || take_made(&r, n) || leave_out(&r, n) || (n->scope ? run_scoped(T, &r, n) : run_node(T, &r, n));
    *nout = ok ? g->results.n : 0;
    for (int i = 0; i < *nout; i++)
        out[i] = tensor_ref(r.slot[slot_of(&r, g->results.at[i])]);
    T->settled--;
    T->dims = dims;
    T->span = span;
    run_done(&r);
    graph_unref(g);
    return ok;
}

bool graph_apply(Trace *T, Graph *g, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    return apply(T, g, (Tensor **)in, nin, (Handed){0}, out, nout);
}

bool graph_apply_placing(Trace *T, Graph *g, Tensor *const *in, int nin, Tensor *const *places, Tensor **out, int *nout)
{
    return apply(T, g, (Tensor **)in, nin, (Handed){.places = places}, out, nout);
}

bool graph_apply_giving(Trace *T, Graph *g, Tensor **in, int nin, int given, int kept, Tensor **out, int *nout)
{
    return apply(T, g, in, nin, (Handed){given, kept, NULL}, out, nout);
}
