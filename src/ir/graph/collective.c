/*
 * The collectives: how results come from operands, their derivatives, and the
 * account of what was communicated.
 */
#include "ir/graph/collective.h"

#include "base/vec.h"
#include "ir/graph/level.h"

#include <time.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, batch, doc) \
    void jvp_##jvp(Jvp *j); \
    void transpose_##transpose(Transpose *t); \
    void batch_##batch(Batch *b);
#include "ir/core/ops.def"

/* ------------------------------------------------------------- parts */

static Tensor *tree(Rule *r, Tensor *const *x, int n)
{
    Tensor **y = tsr_alloc(sizeof *y * (size_t)n), *sum;

    for (int i = 0; i < n; i++)
        y[i] = x[i];
    for (; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n; i += 2)
            y[i / 2] = i + 1 < n ? r_add(r, y[i], y[i + 1]) : y[i];
    sum = y[0];
    tsr_free(y);
    return sum;
}

Tensor *r_sum_ranks(Rule *r, Tensor *const *x, int n)
{
    uint8_t dt = x[0]->dtype, wide = dtype_is_inexact((DType)dt) ? (uint8_t)dtype_accum((DType)dt) : dt;
    Tensor **y, *sum;

    if (wide == dt)
        return tree(r, x, n);
    y = tsr_alloc(sizeof *y * (size_t)n);
    for (int i = 0; i < n; i++)
        y[i] = r_convert(r, x[i], wide);
    sum = r->failed ? NULL : r_convert(r, tree(r, y, n), dt);
    tsr_free(y);
    return sum;
}

Tensor *r_join(Rule *r, Tensor *const *x, int n, int axis)
{
    Attr a = attr_default();

    if (n == 1)
        return x[0];
    a.naxes = 1;
    a.axis[0] = (int8_t)axis;
    return r_op(r, OP_concat, &a, x, n);
}

Tensor *r_part(Rule *r, Tensor *x, int axis, int k, int n)
{
    Dim size = dim_floordiv(x->shape[x->rank + axis], n);

    return n == 1 ? x : r_slice(r, x, axis, dim_mul(size, k), dim_mul(size, k + 1));
}

Tensor *r_extreme(Rule *r, Tensor *const *x, int n, bool smallest)
{
    Tensor *y = x[0];

    for (int i = 1; i < n; i++)
        y = r2(r, smallest ? OP_minimum : OP_maximum, y, x[i]);
    return y;
}

/* ------------------------------------------------------------- running */

static void exchange(Rule *r, const Attr *a, Tensor *const *in, int n, Tensor **out)
{
    Tensor **piece = tsr_alloc(sizeof *piece * (size_t)n);

    for (int k = 0; k < n && !r->failed; k++) {
        for (int i = 0; i < n && !r->failed; i++)
            piece[i] = r_part(r, in[i], a->axis[0], k, n);
        if (!r->failed)
            out[k] = r_join(r, piece, n, -a->n);
    }
    tsr_free(piece);
}

static Tensor *zeros(Rule *r, const Tensor *like)
{
    TType y = tensor_type(like);

    return r_zeros(r, &y);
}

static void shift(Rule *r, const Attr *a, Tensor *const *in, int n, Tensor **out)
{
    for (int k = 0; k < n; k++) {
        int64_t from = k - a->seed % n;
        bool inside = k - a->seed >= 0 && k - a->seed < n;
        from = (from % n + n) % n;
        out[k] = a->kind || inside ? in[from] : zeros(r, in[k]);
    }
}

static void rooted(Rule *r, const Attr *a, Tensor *const *in, int n, Tensor **out)
{
    Tensor *sum = a->kind ? r_sum_ranks(r, in, n) : NULL;

    for (int k = 0; k < n; k++)
        out[k] = !a->kind ? in[a->m] : k == a->m ? sum : zeros(r, in[k]);
}

static void fill(Tensor **out, int n, Tensor *y)
{
    for (int i = 0; i < n; i++)
        out[i] = y;
}

static void run(Rule *r, OpId op, const Attr *a, Tensor *const *in, int n, Tensor **out)
{
    Tensor *sum;

    switch (op) {
    case OP_all_reduce:
        fill(out, n, r_sum_ranks(r, in, n));
        break;
    case OP_all_extreme:
        fill(out, n, r_extreme(r, in, n, a->kind == 1));
        break;
    case OP_all_gather:
        fill(out, n, r_join(r, in, n, a->axis[0]));
        break;
    case OP_reduce_scatter:
        sum = r_sum_ranks(r, in, n);
        for (int k = 0; k < n && !r->failed; k++)
            out[k] = r_part(r, sum, a->axis[0], k, n);
        break;
    case OP_all_to_all:
        exchange(r, a, in, n, out);
        break;
    case OP_rank_shift:
        shift(r, a, in, n, out);
        break;
    case OP_from_root:
        rooted(r, a, in, n, out);
        break;
    default:
        tsr_bug("%s is no collective", op_info[op].name);
    }
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool collective_run(Trace *T, OpId op, const Attr *a, Tensor *const *in, int n, Tensor **out)
{
    Rule r = rule_begin(T);
    double start = now();
    bool ok;

    run(&r, op, a, in, n, out);
    ok = !r.failed;
    for (int i = 0; ok && i < n; i++)
        tensor_ref(out[i]);
    rule_end(&r);
    if (ok)
        comm_note(op, a->name, n, in[0]->tracer ? 0 : tensor_nbytes(in[0]), now() - start);
    return ok;
}

/* ------------------------------------------------------------- derivatives */

/* What ranks hold the largest value share its tangent. */
void jvp_all_extreme(Jvp *j)
{
    Rule *r = j->r;
    Attr a = *j->a;
    Tensor *hit = r2(r, OP_eq, j->x[0], j->y[0]), *mine = r3(r, OP_where, hit, j->t[0], r_num(r, j->t[0], 0));
    Tensor *one = r_convert(r, hit, j->x[0]->dtype);

    a.kind = 0;
    j->dy[0] = r_div(r, r_op(r, OP_all_reduce, &a, &mine, 1), r_op(r, OP_all_reduce, &a, &one, 1));
}

static void transposed(Transpose *t, OpId op, const Attr *a)
{
    Tensor *ct = r_fit(t->r, t->ct[0], &t->yt[0]);

    t->dx[0] = r_op(t->r, op, a, &ct, 1);
}

void transpose_all_reduce(Transpose *t) { transposed(t, OP_all_reduce, t->a); }
void transpose_all_gather(Transpose *t) { transposed(t, OP_reduce_scatter, t->a); }
void transpose_reduce_scatter(Transpose *t) { transposed(t, OP_all_gather, t->a); }

void transpose_all_to_all(Transpose *t)
{
    Attr a = *t->a;

    a.axis[0] = (int8_t)-t->a->n;
    a.n = (int16_t)-t->a->axis[0];
    transposed(t, OP_all_to_all, &a);
}

void transpose_rank_shift(Transpose *t)
{
    Attr a = *t->a;

    a.seed = -a.seed;
    transposed(t, OP_rank_shift, &a);
}

void transpose_from_root(Transpose *t)
{
    Attr a = *t->a;

    a.kind = !a.kind;
    transposed(t, OP_from_root, &a);
}

/* Where a tensor lies does not change its value; its cotangent lies where it comes from. */
void transpose_place(Transpose *t) { t->dx[0] = t->ct[0]; }
void jvp_lay_as(Jvp *j) { j->dy[0] = j->t[0]; }
void transpose_lay_as(Transpose *t) { t->dx[0] = t->ct[0]; }

void batch_lay_as(Batch *b)
{
    b->y[0] = b->x[0];
    b->out[0] = b->in[0];
    b->ny = 1;
}

/* ------------------------------------------------------------- the account */

static Vec(CommLine) lines;

/* Bytes that one group sends in all: what a ring needs. */
static int64_t ring_bytes(OpId op, int n, size_t nbytes)
{
    int64_t size = (int64_t)nbytes, others = n - 1;

    switch (op) {
    case OP_all_reduce: case OP_all_extreme:
        return 2 * others * size;
    case OP_all_gather:
        return n * others * size;
    case OP_rank_shift:
        return n * size;
    default:
        return others * size;
    }
}

void comm_note(OpId op, Sym axes, int ranks, size_t nbytes, double seconds)
{
    CommLine *l = NULL;

    if (ranks == 1)
        return;
    for (int i = 0; i < lines.n && !l; i++)
        if (lines.at[i].op == op && lines.at[i].axes == axes && lines.at[i].ranks == ranks)
            l = &lines.at[i];
    if (!l) {
        vec_push(&lines, ((CommLine){.op = op, .axes = axes, .ranks = ranks}));
        l = &vec_last(&lines);
    }
    l->calls++;
    l->bytes += ring_bytes(op, ranks, nbytes);
    l->seconds += seconds;
}

int comm_lines(const CommLine **out)
{
    *out = lines.at;
    return lines.n;
}

void comm_reset(void) { vec_free(&lines); }
