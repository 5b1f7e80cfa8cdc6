/*
 * Steps: `fused` nodes that hold others (steps.h) run as one launch.
 *
 * steps.rows: threads take blocks of rows.  For each, a thread asks the last step for its rows; a step that multiplies what the
 * one before it gives asks that for them first, into memory of the thread, packs and multiplies them (gemm_here), and runs the kernel of what
 * follows its product.  So of what lies between two steps there is a block for each thread, in its second cache, and the bits are those
 * of step after step: rows depend on no others.
 *
 * What a step cannot do so for the operands at hand (an operand that would have to be copied, a single row) is done node by node.
 */
#include "ir/schedule/steps_impl.h"

#include "base/alloc.h"
#include "ir/graph/level.h"
#include "runtime/convert.h"
#include "runtime/gemm.h"
#include "runtime/kernel_util.h"

#include <stdatomic.h>
#include <string.h>

enum { STEPS_MAX = 16, BLOCK_BYTES = 1 << 20, BLOCK_MOST = 512, BLOCK_LEAST = 48 };

typedef struct Step {
    Run u;
    const Variant *v;           /* NULL: the product is the result */
    int left;                   /* the operand that the step before gives; -1: all are there */
    int in_place;               /* the result that takes the product's place; -1: none */
    Gemm g;                     /* of its product */
    Tensor *lanes[2];           /* factors that are there, as the product takes them. Owned */
    int64_t columns;            /* of its result */
    DType dtype;                /* of that */
    char *in_place_at;          /* the last step's: where the product goes; NULL: into a thread's memory */
    /* Where a thread's memory has rows of: the left factor as it is given and as lanes, the product. -1: none */
    int64_t given_at, lanes_at, product_at, scratch_at;
} Step;

typedef struct Rows {
    Step step[STEPS_MAX];
    int n;
    int64_t rows, batch;        /* rows of each batch */
    int64_t block, bytes;       /* rows at a time; memory of a thread */
    int64_t room_at;            /* of packed matrices */
    char *room;
    _Atomic int64_t next;       /* block that nobody has taken */
} Rows;

/* ---- operands ---- */

Tensor *steps_phantom(DType dt, int rank, const Dim *shape)
{
    int64_t stride[RANK_MAX], step = 1;
    Dim one = 1;
    Tensor *base = tensor_new(dt, 1, &one), *t;

    for (int k = rank; k-- > 0; step *= shape[k])
        stride[k] = step;
    t = base ? tensor_view(base, rank, shape, stride, 0) : NULL;
    tensor_unref(base);
    return t;
}

/* A node's number among n of them; -1: it is none. */
static int given_by(const Node *const *node, int n, const Node *x)
{
    for (int i = 0; i < n; i++)
        if (node[i] == x)
            return i;
    return -1;
}

Tensor *steps_value(const Graph *body, Tensor *const *in, GValue v)
{
    if (v.node->op == OP_constant)
        return v.node->attr->value;
    for (int i = 0; i < body->params.n; i++)
        if (body->params.at[i] == v.node)
            return in[i];
    return NULL;
}

/* The `fused` nodes of a body, in order; -1: there are too many, or something else that is not to be there. */
static int list_steps(const Graph *body, const Node **node, bool others)
{
    int n = 0;

    for (const Node *x = body->first; x; x = x->next) {
        if (x->op == GRAPH_PARAM || x->op == OP_constant || (others && x->op != OP_fused))
            continue;
        if (x->op != OP_fused || n == STEPS_MAX)
            return -1;
        node[n++] = x;
    }
    return n;
}

static void close_step(Step *s)
{
    tensors_unref(s->u.x, s->u.nin + s->u.nout);
    tensor_unref(s->lanes[0]);
    tensor_unref(s->lanes[1]);
}

/* ---- steps one behind the other ---- */

/* The step's operands; the rows of the one before it (a result of this type) only by their shape. */
static bool open_step(Trace *T, Step *s, const Graph *body, const Node *n, Tensor *const *in, const Step *before)
{
    Graph *own = n->attr->region[0];

    s->u = (Run){.T = T, .c = fused_code_of(own, n->attr), .nout = n->nout};
    s->u.nin = s->u.c->body->params.n;
    s->left = s->in_place = -1;
    if (own->params.n + n->nout >= OPERANDS || s->u.c->looks_up)
        return false;
    for (int i = 0; i < n->nin; i++) {
        Tensor *x = steps_value(body, in, n->in[i]);
        if (!x && (!before || before->u.nout != 1))
            return false;
        s->left = x ? s->left : i;
        s->u.x[i] = x ? tensor_ref(x) : tensor_ref(before->u.x[before->u.nin]);
    }
    if (s->left < 0)
        return !before;
    return s->u.c->product && s->u.c->factor[0] == s->left && s->u.c->factor[1] != s->left;
}

/* The product of factors as they lie; its rows are made block by block. */
static bool open_product(Step *s)
{
    Run *u = &s->u;
    const TType *t = &u->c->product->type[0];
    DType accum = schedule_accum(u->c->product);
    Tensor *x[2] = {u->x[u->c->factor[0]], u->x[u->c->factor[1]]};
    TType type = {.dtype = (uint8_t)accum, .rank = t->rank};
    KCtx c = {.err = &(StrBuf){0}};

    for (int k = 0; k < t->rank; k++) {
        int a = k - t->rank + x[0]->rank, b = k - t->rank + x[1]->rank;
        Dim p = a >= 0 ? x[0]->shape[a] : 1, q = b >= 0 ? x[1]->shape[b] : 1;
        type.shape[k] = k == t->rank - 2 ? p : k == t->rank - 1 ? q : p == 1 ? q : p;
    }
    if (matmul_by_units(x[0], x[1], accum, u->c->product->attr, &type))
        return false;
    for (int k = s->left >= 0; k < 2; k++)
        if (!(x[k] = s->lanes[k] = lanes_of(&c, x[k], accum)))
            return false;
    return matmul_plan(x[0], x[1], accum, &type, &s->g) && (u->x[u->nin - 1] = steps_phantom(accum, type.rank, type.shape)) != NULL;
}

/* Results: of the last step as they will stay, of others by their shape. */
static bool open_results(Step *s, bool last)
{
    Run *u = &s->u;

    s->in_place = u->c->product && u->c->able ? fused_result_in_place(u) : -1;
    if (u->c->product && !u->c->able)                   /* nothing follows the product */
        s->in_place = 0;
    for (int i = 0; i < u->nout; i++) {
        const TType *y = gvalue_type(u->c->whole->results.at[i]);
        Tensor *like = s->in_place == i ? u->x[u->nin - 1] : NULL;
        Tensor *t = like ? tensor_new((DType)like->dtype, like->rank, like->shape) : fused_result(u, i);
        Tensor *shown = t && !last ? steps_phantom((DType)t->dtype, t->rank, t->shape) : tensor_ref(t);
        tensor_unref(t);
        if (!(u->x[u->nin + i] = shown))
            return false;
        shown->weak = y->weak;
        shown->policy = y->policy;
    }
    return true;
}

static bool ready_step(Step *s, const Graph *own, bool last)
{
    Run *u = &s->u;
    const Tensor *y;

    if (u->c->product && !open_product(s))
        return false;
    fused_sizes(u);
    if (u->c->able && (!fused_all_sizes(u, own) || fused_is_empty_extreme(u)))
        return false;
    if ((!u->c->able && !u->c->product) || !open_results(s, last))
        return false;
    y = u->x[u->nin];
    s->columns = y->shape[y->rank - 1];
    s->dtype = (DType)y->dtype;
    s->in_place_at = last && s->in_place >= 0 ? tensor_data(u->x[u->nin + s->in_place]) : NULL;
    return !u->c->able || (s->v = fused_plan_blocks(u, y)) != NULL;
}

/* ---- memory of a thread ---- */

static int64_t take(int64_t *at, int64_t bytes)
{
    int64_t here = *at;

    *at += (bytes + 63) / 64 * 64;
    return here;
}

static int64_t row_bytes(const Rows *r)
{
    int64_t n = 0;

    for (int i = 0; i < r->n; i++)
        n += (i ? r->step[i - 1].columns * 8 : 0) + (r->step[i].u.c->product ? r->step[i].g.n * 4 : 0);
    return n;
}

/* Rows at a time: few enough for the second cache, and two blocks for each thread where there are as many. */
static void choose_block(Rows *r)
{
    int64_t all = r->rows * r->batch, block = BLOCK_BYTES / (row_bytes(r) + 1), shared = all / (2 * pool_threads());

    block = block > BLOCK_MOST ? BLOCK_MOST : block;
    block = shared < block ? shared : block;
    block = block < BLOCK_LEAST ? BLOCK_LEAST : block;
    r->block = block < r->rows ? block : r->rows;
}

static bool plan_memory(Rows *r)
{
    int64_t at = 0;
    bool product = false;

    choose_block(r);
    for (int i = 0; i < r->n; i++) {
        Step *s = &r->step[i];
        const Step *before = i ? s - 1 : NULL;
        bool narrow = before && before->dtype != s->g.accum;
        s->given_at = before ? take(&at, r->block * before->columns * (int64_t)raw_size(before->dtype)) : -1;
        s->lanes_at = narrow ? take(&at, r->block * before->columns * (int64_t)raw_size(s->g.accum)) : -1;
        s->product_at = s->u.c->product && s->in_place < 0 ? take(&at, r->block * s->g.n * (int64_t)raw_size(s->g.accum)) : -1;
        s->scratch_at = s->v ? take(&at, launch_scratch(&s->u.space, &s->v->launch)) : -1;
        product |= s->u.c->product != NULL;
    }
    r->room_at = product ? take(&at, gemm_room_max()) : -1;
    r->bytes = at + 64;
    return (r->room = tsr_try_alloc((size_t)(r->bytes * pool_threads()), 64)) != NULL;
}

/* ---- running ---- */

/* Where the element would be that rows from `row` on come behind. */
static char *before_rows(char *at, int64_t row, int64_t bytes) { return (char *)((uintptr_t)at - (uintptr_t)(row * bytes)); }

/* The kernel of a step for rows whose product lies at p, if it has one, into `to`; NULL: where its results are. */
static void run_kernel(const Step *s, char *mine, int64_t row, int64_t rows, char *p, char *to)
{
    LaunchSpace space = s->u.space;

    if (p)
        space.arg[s->u.nin - 1].base = before_rows(p, row, s->g.n * (int64_t)raw_size(s->g.accum));
    if (to)
        space.arg[s->u.nin].base = before_rows(to, row, s->columns * (int64_t)raw_size(s->dtype));
    launch_part(&space, &s->v->launch, mine + s->scratch_at, row, rows, 0, s->columns);
}

/* Rows of what step i gives, of one batch; `to`: where they go, NULL: into its results. */
static void make_rows(const Rows *r, int i, char *mine, int64_t row, int64_t rows, char *to)
{
    const Step *s = &r->step[i];
    int64_t batch = row / r->rows, within = row % r->rows, size;
    Gemm g = s->g;

    if (!s->u.c->product) {
        run_kernel(s, mine, row, rows, NULL, to);
        return;
    }
    size = (int64_t)raw_size(g.accum);
    g.batch = 1;
    g.m = rows;
    g.b = (const char *)g.b + batch * g.bbatch * size;
    if (s->left >= 0) {
        make_rows(r, i - 1, mine, row, rows, mine + s->given_at);
        g.a = mine + (s->lanes_at >= 0 ? s->lanes_at : s->given_at);
        g.arow = g.k;
        g.acol = 1;
        if (s->lanes_at >= 0)
            raw_to_lane(s[-1].dtype, mine + s->given_at, mine + s->lanes_at, rows * g.k);
    } else {
        g.a = (const char *)g.a + (batch * g.abatch + within * g.arow) * size;
    }
    g.c = s->in_place < 0 ? mine + s->product_at : to ? to : s->in_place_at + row * g.n * size;
    gemm_here(&g, mine + r->room_at);
    if (s->v)
        run_kernel(s, mine, row, rows, g.c, to);
}

/* One thread: blocks until there are no more. */
static void run_blocks(int64_t lo, int64_t hi, void *st)
{
    Rows *r = st;
    int64_t each = (r->rows + r->block - 1) / r->block, t;

    for (int64_t slot = lo; slot < hi; slot++)
        while ((t = atomic_fetch_add(&r->next, 1)) < each * r->batch) {
            int64_t row = t % each * r->block, rows = r->rows - row < r->block ? r->rows - row : r->block;
            make_rows(r, r->n - 1, r->room + slot * r->bytes, t / each * r->rows + row, rows, NULL);
        }
}

/* The launch: 1, or 0 where something does not lie so. */
static int run_rows(Rows *r)
{
    const Tensor *y = r->step[r->n - 1].u.x[r->step[r->n - 1].u.nin];

    r->rows = y->shape[y->rank - 2];
    r->batch = y->shape[y->rank - 1] && r->rows ? tensor_size(y) / y->shape[y->rank - 1] / r->rows : 0;
    for (int i = 0; i < r->n; i++)
        if (r->step[i].u.c->product && (r->step[i].g.m != r->rows || r->step[i].g.batch != r->batch || r->step[i].g.k == 0))
            return 0;
    if (!r->batch || !plan_memory(r))
        return 0;
    pool_for(pool_threads(), 1, run_blocks, r);
    tsr_free_aligned(r->room);
    return 1;
}

static int steps_in_rows(Trace *T, const Graph *body, const Node *const *node, int n, Tensor *const *in, Tensor **out, int *nout)
{
    Rows *r = tsr_calloc(sizeof *r);
    bool ok = true;
    int done = 0;
    Step *last;

    for (r->n = 0; ok && r->n < n; r->n++) {
        Step *s = &r->step[r->n];
        ok = open_step(T, s, body, node[r->n], in, r->n ? s - 1 : NULL) && ready_step(s, node[r->n]->attr->region[0], r->n == n - 1);
    }
    last = &r->step[n - 1];
    for (int i = 0; ok && i < body->results.n; i++)
        ok = body->results.at[i].node == node[n - 1];
    if (ok && !fused_state.compiler->idle)
        done = run_rows(r);
    for (int i = 0; done > 0 && i < body->results.n; i++)
        out[i] = tensor_ref(last->u.x[last->u.nin + body->results.at[i].index]);
    *nout = body->results.n;
    for (int i = 0; i < r->n; i++)
        close_step(&r->step[i]);
    tsr_free(r);
    return done;
}

/* ---- steps beside each other ---- */

static int steps_beside(Trace *T, const Graph *body, const Node *const *node, int n, Tensor *const *in, Tensor **out, int *nout)
{
    Step *s = tsr_calloc(sizeof *s * (size_t)n);
    LaunchOne of[STEPS_MAX];
    bool ok = true;
    int opened = 0, done;

    for (; ok && opened < n; opened++) {
        Step *x = &s[opened];
        ok = open_step(T, x, body, node[opened], in, NULL) && (x->v = fused_plan(&x->u, node[opened]->attr->region[0]));
        if (ok)
            of[opened] = (LaunchOne){&x->u.space, &x->v->launch};
    }
    done = ok && !fused_state.compiler->idle && launch_beside(of, n);
    for (int i = 0; done && i < body->results.n; i++) {
        const Step *by = &s[given_by(node, n, body->results.at[i].node)];
        out[i] = tensor_ref(by->u.x[by->u.nin + body->results.at[i].index]);
    }
    *nout = body->results.n;
    for (int i = 0; i < opened; i++)
        close_step(&s[i]);
    tsr_free(s);
    return done;
}

/* Has each step a kernel already? Bodies that are not worth one yet run by themselves. */
static bool all_made(const Node *const *node, int n)
{
    for (int i = 0; i < n; i++) {
        const FusedCode *c = fused_code_of(node[i]->attr->region[0], node[i]->attr);
        if (c->able && !c->first)
            return false;
    }
    return true;
}

static int run_steps(Trace *T, Graph *body, const Attr *a, Tensor *const *in, int nin, Tensor *const *slices, Tensor **out, int *nout)
{
    const Node *node[STEPS_MAX];
    bool in_slices = steps_kind(a) == STEPS_SLICES;
    int n = fused_state.compiler ? list_steps(body, node, in_slices) : -1, done = 0;

    (void)nin;
    if (n >= 0 && in_slices && (!fused_way().lazily || all_made(node, n)))
        done = steps_in_slices(T, body, in, slices, out, nout);
    else if (n > 0 && (!fused_way().lazily || all_made(node, n)))
        done = (steps_kind(a) == STEPS_ROWS ? steps_in_rows : steps_beside)(T, body, node, n, in, out, nout);
    fused_state.stats.launches += done > 0;
    return done;
}

void steps_begin(void) { fused_run_steps = run_steps; }
