/*
 * Steps one slice after another (steps.slices): products of batches, and the kernels behind them, each of which needs of the others only what they
 * have at the same place of the leading axes.
 *
 *     scores, softmax      P = softmax(q @ k^T)        heads x rows x columns
 *     P @ v                                            reads the head's P while the second cache has it
 *
 * Threads take slices.  For each, a thread does all steps: the product of two matrices (gemm_here), and the kernel of what follows it for the rows
 * of this slice.  What only other steps take has one slice of memory for each thread; what others take, too, is stored where it belongs and
 * is in the cache when the next step reads it.  The bits are those of step after step.
 *
 * A body has parameters, constants, products, `fused` nodes that begin with one, and permutations of the last two axes of what a step gives.
 * What cannot be done so for the operands at hand, or would not stay in the cache, is done node by node.
 */
#include "ir/schedule/steps_impl.h"

#include "base/alloc.h"
#include "ir/graph/level.h"
#include "runtime/convert.h"
#include "runtime/gemm.h"
#include "runtime/kernel_util.h"

#include <stdatomic.h>
#include <string.h>

enum { SLICES_STEPS = 8, SLICES_VALUES = 64 };
enum { SLICE_BYTES = 3 << 19 };         /* of all that the steps of a slice read and write: what a second cache keeps */
enum { NOWHERE = -1 };

/* A value of the body: a tensor, or one slice of it in a thread's memory, of which t only says types and strides. */
typedef struct Value {
    GValue is;
    const Node *by;             /* the step that gives it, or what it is a view of; NULL: none does */
    Tensor *t;
    int64_t at;
} Value;

typedef struct Step {
    const Node *node;
    Run u;                      /* of a `fused` node */
    const Variant *v;           /* NULL: the product is the result */
    Gemm g;                     /* of one slice */
    Value a, b, c;              /* its factors and where it goes (counted in the list of values, or by the run) */
    int value[OPERANDS];        /* of the kernel's operands and results: which value it is; NOWHERE: the product */
    int64_t scratch_at;
} Step;

typedef struct Slices {
    Value value[SLICES_VALUES];
    int nvalues;
    Step step[SLICES_STEPS];
    int n;
    int nlead;                  /* leading axes, and their sizes */
    Dim lead[RANK_MAX];
    int64_t count;              /* slices */
    int64_t bytes, room_at;     /* memory of a thread; packed matrices there */
    int64_t touched;            /* bytes of a slice */
    char *room;
    _Atomic int64_t next;       /* slice that nobody has taken */
} Slices;

/* ---- values ---- */

static int64_t take(int64_t *at, int64_t bytes)
{
    int64_t here = *at;

    *at += (bytes + 63) / 64 * 64;
    return here;
}

static int64_t last_two(const Tensor *t) { return t->shape[t->rank - 1] * t->shape[t->rank - 2] * (int64_t)raw_size((DType)t->dtype); }

/* Takes t over. */
static Value *add_value(Slices *s, GValue is, const Node *by, Tensor *t, int64_t at)
{
    Value *v = s->nvalues < SLICES_VALUES && t ? &s->value[s->nvalues] : NULL;

    if (!v) {
        tensor_unref(t);
        return NULL;
    }
    s->nvalues++;
    *v = (Value){is, by, t, at};
    return v;
}

/* The value, an operand or a constant when it is asked for first; NULL: no step has given it. */
static Value *find_value(Slices *s, const Graph *body, Tensor *const *in, GValue is)
{
    Tensor *t;

    for (int i = 0; i < s->nvalues; i++)
        if (s->value[i].is.node == is.node && s->value[i].is.index == is.index)
            return &s->value[i];
    if (!(t = steps_value(body, in, is)))
        return NULL;
    if (t->rank > s->nlead)
        s->touched += t->rank >= 2 ? last_two(t) : 0;
    return add_value(s, is, NULL, tensor_ref(t), NOWHERE);
}

/* Which of the body's results it is; -1: only steps take it. */
static int result_of(const Graph *body, GValue is)
{
    for (int i = 0; i < body->results.n; i++)
        if (body->results.at[i].node == is.node && body->results.at[i].index == is.index)
            return i;
    return -1;
}

/* The same sizes as the leading axes of all steps? The first step says what they are. */
static bool has_lead(Slices *s, const TType *type)
{
    if (!s->n && type->rank >= 3) {
        s->nlead = type->rank - 2;
        memcpy(s->lead, type->shape, sizeof *s->lead * (size_t)s->nlead);
        s->count = 1;
        for (int k = 0; k < s->nlead; k++)
            s->count *= s->lead[k];
    }
    return type->rank == s->nlead + 2 && !memcmp(s->lead, type->shape, sizeof *s->lead * (size_t)s->nlead);
}

/* Where the matrix of a slice begins. */
static char *slice_of(const Slices *s, const Value *v, char *mine, int64_t slice)
{
    const Tensor *t = v->t;
    int64_t at = t->offset;

    if (v->at >= 0)
        return mine + v->at;
    for (int k = s->nlead - 1, own = t->rank - 3; k >= 0; k--, own--) {
        if (own >= 0 && t->shape[own] != 1)
            at += slice % s->lead[k] * t->stride[own];
        slice /= s->lead[k];
    }
    return (char *)t->store->data + at * (int64_t)raw_size((DType)t->dtype);
}

/* ---- steps ---- */

/* A result of a step: memory of its own, or what stands for it. Of a product that may lie there, where it had better lie. */
static Value *make_result(Slices *s, const Graph *body, GValue is, Tensor *like, Tensor *const *slices, bool product)
{
    int i = result_of(body, is);
    Tensor *at = i >= 0 && slices && product ? slices[i] : NULL, *t;
    bool fits = at && at->dtype == like->dtype && at->rank == like->rank && at->stride[at->rank - 1] == 1 &&
                !memcmp(at->shape, like->shape, sizeof *at->shape * (size_t)at->rank);
    int64_t where = NOWHERE;

    if (i < 0)
        where = take(&s->bytes, last_two(like));
    s->touched += last_two(like);
    t = fits ? tensor_ref(at) : (i < 0 ? steps_phantom : tensor_new)((DType)like->dtype, like->rank, like->shape);
    return add_value(s, is, is.node, t, where);
}

/* Is the product computed by lanes, as its factors lie? Units have other bits. */
static bool by_lanes(const Value *a, const Value *b, DType accum, const Attr *how, const TType *type)
{
    return a->t->dtype == accum && b->t->dtype == accum && (accum == DT_f32 || accum == DT_f64) &&
           !matmul_by_units(a->t, b->t, accum, how, type);
}

/* The product of values as they lie; type: its own. */
static bool plan_product(Slices *s, Step *x, const Value *a, const Value *b, DType accum, const Attr *how, TType *type)
{
    type->dtype = (uint8_t)accum;
    for (int k = 0; k < type->rank; k++) {
        int p = k - type->rank + a->t->rank, q = k - type->rank + b->t->rank;
        Dim m = p >= 0 ? a->t->shape[p] : 1, n = q >= 0 ? b->t->shape[q] : 1;
        type->shape[k] = k == type->rank - 2 ? m : k == type->rank - 1 ? n : m == 1 ? n : m;
    }
    if (!has_lead(s, type) || !by_lanes(a, b, accum, how, type))
        return false;
    matmul_plan(a->t, b->t, accum, type, &x->g);        /* batches may lie as they like */
    x->g.batch = 1;
    x->a = *a;
    x->b = *b;
    return x->g.m > 1 && x->g.n > 1 && x->g.k > 0;
}

static bool open_product(Slices *s, Step *x, const Graph *body, const Node *n, Tensor *const *in, Tensor *const *slices)
{
    const Value *a = find_value(s, body, in, n->in[0]), *b = a ? find_value(s, body, in, n->in[1]) : NULL, *c;
    TType type = {.rank = n->type[0].rank};
    DType accum = schedule_accum(n);
    Tensor like = {.dtype = n->type[0].dtype, .rank = type.rank, .shape = type.shape};

    if (!b || accum != (DType)n->type[0].dtype || !plan_product(s, x, a, b, accum, n->attr, &type))
        return false;
    if (!(c = make_result(s, body, (GValue){(Node *)n, 0}, &like, slices, true)))
        return false;
    c->t->weak = n->type[0].weak;
    c->t->policy = n->type[0].policy;
    x->c = *c;
    x->g.crow = x->c.t->stride[type.rank - 2];
    return true;
}

/* The kernel's operands; the product stands for itself. */
static bool open_operands(Slices *s, Step *x, const Graph *body, const Node *n, Tensor *const *in)
{
    Run *u = &x->u;

    for (int i = 0; i < n->nin; i++) {
        const Value *v = find_value(s, body, in, n->in[i]);
        if (!v)
            return false;
        u->x[i] = tensor_ref(v->t);
        x->value[i] = (int)(v - s->value);
    }
    x->value[n->nin] = NOWHERE;
    return u->nin == n->nin + 1;
}

static bool open_results(Slices *s, Step *x, const Graph *body, const Node *n)
{
    Run *u = &x->u;
    int in_place = fused_result_in_place(u);

    for (int i = 0; i < u->nout; i++) {
        const TType *y = gvalue_type(u->c->body->results.at[i]);
        const RegionValue *r = u->c->value[u->nin + i];
        Dim shape[RANK_MAX];
        Tensor like = {.dtype = y->dtype, .rank = y->rank, .shape = shape};
        for (int k = 0; k < y->rank; k++)
            shape[k] = r->axis[k] < 0 ? 1 : u->size[(int)r->axis[k]];
        Value *v = y->rank == s->nlead + 2 && !memcmp(shape, s->lead, sizeof *shape * (size_t)s->nlead)
                       ? make_result(s, body, (GValue){(Node *)n, i}, &like, NULL, false) : NULL;
        if (!v)
            return false;
        v->t->weak = y->weak;
        v->t->policy = y->policy;
        u->x[u->nin + i] = tensor_ref(v->t);
        x->value[u->nin + i] = (int)(v - s->value);
        if (i == in_place && v->at >= 0)
            x->c = *v;
    }
    if (!x->c.t)                /* rows of what others take come to memory from end to end, as the kernel stores them, and not a tile after another */
        x->c = (Value){{NULL, 0}, n, u->x[u->nin - 1], take(&s->bytes, last_two(u->x[u->nin - 1]))};
    return true;
}

/* Elements of a row of the kernel's i-th operand or result. */
static int64_t row_of(const Slices *s, const Step *x, int i)
{
    const Tensor *t = x->value[i] == NOWHERE ? NULL : s->value[x->value[i]].t;

    return t ? t->shape[t->rank - 1] : x->g.n;
}

static bool in_thread(const Slices *s, const Step *x, int i) { return x->value[i] == NOWHERE || s->value[x->value[i]].at >= 0; }

/* Does the kernel go over what lies in a thread's memory row after row, slice after slice? */
static bool follows_rows(const Slices *s, const Step *x, int i)
{
    const LaunchSpace *p = &x->u.space;
    int64_t row = row_of(s, x, i), next = row;
    bool ok = p->arg[i].stride[p->nkept] == (row > 1);

    for (int a = p->nkept - 1; a >= 0; next *= p->size[a--])
        ok &= p->arg[i].stride[a] == next;
    return ok && (row == 1 || row == x->g.n);
}

/* Are the kernel's rows those of the product, slice after slice? */
static bool rows_agree(const Slices *s, const Step *x)
{
    const LaunchSpace *p = &x->u.space;
    int64_t rows = 1;
    bool ok = true;

    for (int a = 0; a < p->nkept; a++)
        rows *= p->size[a];
    for (int i = 0; i < p->nargs; i++)
        ok &= !in_thread(s, x, i) || follows_rows(s, x, i);
    return ok && rows == s->count * x->g.m && p->size[p->nkept] == x->g.n;
}

static bool open_fused(Slices *s, Step *x, const Graph *body, const Node *n, Tensor *const *in, Trace *T)
{
    Graph *own = n->attr->region[0];
    Run *u = &x->u;
    const Node *product;
    TType type;

    *u = (Run){.T = T, .c = fused_code_of(own, n->attr), .nout = n->nout};
    product = u->c->product;
    if (!product || !u->c->able || u->c->looks_up || own->params.n + n->nout >= OPERANDS)
        return false;
    u->nin = u->c->body->params.n;
    type = (TType){.rank = product->type[0].rank};
    if (!open_operands(s, x, body, n, in) || !plan_product(s, x, &s->value[x->value[u->c->factor[0]]], &s->value[x->value[u->c->factor[1]]],
                                                           schedule_accum(product), product->attr, &type))
        return false;
    if (!(u->x[u->nin - 1] = steps_phantom((DType)type.dtype, type.rank, type.shape)))
        return false;
    fused_sizes(u);
    if (!fused_all_sizes(u, own) || fused_is_empty_extreme(u) || !open_results(s, x, body, n) || !(x->v = fused_plan_blocks(u, u->x[u->nin - 1])))
        return false;
    x->g.crow = x->g.n;
    x->scratch_at = take(&s->bytes, launch_scratch(&u->space, &x->v->launch));
    return rows_agree(s, x);
}

/* The last two axes of a value the other way round. */
static bool turn_value(Slices *s, const Graph *body, const Node *n, Tensor *const *in)
{
    const Value *v = find_value(s, body, in, n->in[0]);
    Dim shape[RANK_MAX];
    int64_t stride[RANK_MAX];
    int r = v ? v->t->rank : 0;

    if (!v || result_of(body, (GValue){(Node *)n, 0}) >= 0)
        return false;
    for (int k = 0; k < r; k++) {
        int from = k == r - 1 ? r - 2 : k == r - 2 ? r - 1 : k;
        shape[k] = v->t->shape[from];
        stride[k] = v->t->stride[from];
    }
    return add_value(s, (GValue){(Node *)n, 0}, v->by, tensor_view(v->t, r, shape, stride, 0), v->at);
}

/* Does the step take what one of those from i on gives? */
static bool waits(const Slices *s, const Step *x, int i)
{
    bool any = false;

    for (; i < s->n; i++) {
        const Node *by = s->step[i].node;
        any |= &s->step[i] != x && (x->a.by == by || x->b.by == by);
        for (int k = 0; &s->step[i] != x && k < x->u.nin; k++)
            any |= x->value[k] != NOWHERE && s->value[x->value[k]].by == by;
    }
    return any;
}

/* Kernels first, as early as they can: they read what comes from memory row by row, and products then find it in the cache. */
static void order_steps(Slices *s)
{
    for (int i = 0; i < s->n; i++)
        for (int k = i + 1; k < s->n && !s->step[i].v; k++)
            if (s->step[k].v && !waits(s, &s->step[k], i)) {
                Step first = s->step[k];
                memmove(&s->step[i + 1], &s->step[i], sizeof first * (size_t)(k - i));
                s->step[i] = first;
            }
}

static bool open_steps(Slices *s, Trace *T, const Graph *body, Tensor *const *in, Tensor *const *slices)
{
    bool ok = true;

    for (const Node *n = body->first; ok && n; n = n->next) {
        if (n->op == GRAPH_PARAM || n->op == OP_constant)
            continue;
        if (n->op == OP_permute) {
            ok = turn_value(s, body, n, in);
            continue;
        }
        if (s->n == SLICES_STEPS)
            return false;
        Step *x = &s->step[s->n];
        x->node = n;
        ok = n->op == OP_matmul ? open_product(s, x, body, n, in, slices) : n->op == OP_fused && open_fused(s, x, body, n, in, T);
        s->n++;
    }
    order_steps(s);
    return ok && s->n;
}

/* ---- running ---- */

/* The kernel of what follows the product, which lies at p, for this slice's rows. */
static void run_kernel(const Slices *s, const Step *x, char *mine, int64_t slice, char *p)
{
    LaunchSpace space = x->u.space;
    int64_t row = slice * x->g.m;

    for (int i = 0; i < space.nargs; i++) {
        char *here = x->value[i] == NOWHERE ? p : mine + s->value[x->value[i]].at;
        if (in_thread(s, x, i))         /* where the first slice would be */
            space.arg[i].base = (char *)((uintptr_t)here - (uintptr_t)(row * row_of(s, x, i) * space.arg[i].bytes));
    }
    launch_part(&space, &x->v->launch, mine + x->scratch_at, row, x->g.m, 0, x->g.n);
}

static void run_slice(const Slices *s, char *mine, int64_t slice)
{
    for (int i = 0; i < s->n; i++) {
        const Step *x = &s->step[i];
        Gemm g = x->g;
        g.a = slice_of(s, &x->a, mine, slice);
        g.b = slice_of(s, &x->b, mine, slice);
        g.c = slice_of(s, &x->c, mine, slice);
        gemm_here(&g, mine + s->room_at);
        if (x->v)
            run_kernel(s, x, mine, slice, g.c);
    }
}

/* One thread: slices until there are no more. */
static void run_slots(int64_t lo, int64_t hi, void *st)
{
    Slices *s = st;
    int64_t slice;

    for (int64_t slot = lo; slot < hi; slot++)
        while ((slice = atomic_fetch_add(&s->next, 1)) < s->count)
            run_slice(s, s->room + slot * s->bytes, slice);
}

/* Slices that stay in the second cache, and enough of them for all threads. */
static bool pays(const Slices *s) { return s->touched <= SLICE_BYTES && s->count >= 2 && s->count >= pool_threads(); }

static int run_all(Slices *s)
{
    s->room_at = take(&s->bytes, gemm_room_max());
    s->bytes += 64;
    if (!(s->room = tsr_try_alloc((size_t)(s->bytes * pool_threads()), 64)))
        return 0;
    pool_for(pool_threads(), 1, run_slots, s);
    tsr_free_aligned(s->room);
    return 1;
}

int steps_in_slices(Trace *T, const Graph *body, Tensor *const *in, Tensor *const *slices, Tensor **out, int *nout)
{
    Slices *s = tsr_calloc(sizeof *s);
    int done = open_steps(s, T, body, in, slices) && pays(s) && !fused_state.compiler->idle ? run_all(s) : 0;

    *nout = body->results.n;
    for (int i = 0; done > 0 && i < body->results.n; i++)
        out[i] = tensor_ref(find_value(s, body, in, body->results.at[i])->t);
    for (int i = 0; i < s->n; i++)
        tensors_unref(s->step[i].u.x, s->step[i].u.nin + s->step[i].u.nout);
    for (int i = 0; i < s->nvalues; i++)
        tensor_unref(s->value[i].t);
    tsr_free(s);
    return done;
}
