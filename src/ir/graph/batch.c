/*
 * Batching rules.  B is the batch size; a batched operand is [B, own axes...].
 */
#include "ir/graph/rules.h"

#include <string.h>

#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, batch, doc) void batch_##batch(Batch *b);
#include "ir/core/ops.def"

static int own_rank(const Batch *b, int i) { return b->x[i]->rank - b->in[i]; }

/* Operand i, if batched as [B, 1, ..., own] with `rank` axes after B; unbatched as it is. */
static Tensor *aligned(Batch *b, int i, int rank)
{
    Tensor *x = b->x[i];
    Dim shape[16] = {b->size};
    int own = own_rank(b, i);

    if (!b->in[i] || own == rank)
        return x;
    for (int k = 0; k < rank - own; k++)
        shape[1 + k] = 1;
    memcpy(shape + 1 + rank - own, x->shape + 1, sizeof(Dim) * (size_t)own);
    return r_reshape(b->r, x, rank + 1, shape);
}

Tensor *batch_stretched(Batch *b, int i)
{
    Tensor *x = b->x[i];
    Dim shape[16] = {b->size};

    if (b->in[i])
        return x;
    memcpy(shape + 1, x->shape, sizeof(Dim) * x->rank);
    return r_broadcast(b->r, x, x->rank + 1, shape);
}

/* Run the op and mark all results as batched. */
static void run(Batch *b, const Attr *a, Tensor *const *x, int n)
{
    int nout = 0;

    for (int i = 0; i < n; i++)
        if (!x[i])
            return;
    if (b->r->failed || !op_apply(b->r->T, b->op, a, x, n, b->y, &nout)) {
        b->r->failed = true;
        return;
    }
    b->ny = nout;
    for (int i = 0; i < nout; i++) {
        b->out[i] = true;
        r_keep(b->r, b->y[i]);
    }
}

void batch_none(Batch *b)
{
    b->r->failed = true;
    trace_fail(b->r->T, OPERR_TRACE, "%s under vmap: the result's size would differ between examples", op_info[b->op].name);
}

void batch_make(Batch *b) { batch_none(b); }

/* Elementwise and contractions: line up ranks behind the batch axis. */
void batch_map(Batch *b)
{
    Tensor *x[4];
    int rank = 0;

    for (int i = 0; i < b->n; i++)
        rank = own_rank(b, i) > rank ? own_rank(b, i) : rank;
    for (int i = 0; i < b->n; i++)
        x[i] = aligned(b, i, rank);
    run(b, b->a, x, b->n);
}

void batch_matmul(Batch *b) { batch_map(b); }
void batch_axes2(Batch *b) { batch_map(b); }

/* Axes count from the end: nothing changes. */
void batch_axes(Batch *b) { run(b, b->a, b->x, b->n); }

static void prepend(Attr *a, Dim size)
{
    memmove(&a->d[0][1], a->d[0], sizeof(Dim) * a->nd[0]);
    a->d[0][0] = size;
    a->nd[0]++;
}

void batch_reshape(Batch *b)
{
    Attr a = *b->a;

    prepend(&a, b->size);
    run(b, &a, b->x, 1);
}

void batch_broadcast(Batch *b)
{
    Tensor *x = aligned(b, 0, b->a->nd[0]);
    Attr a = *b->a;

    prepend(&a, b->size);
    run(b, &a, &x, 1);
}

void batch_concat(Batch *b)
{
    Tensor **x = tsr_alloc(sizeof *x * (size_t)b->n);

    for (int i = 0; i < b->n; i++)
        x[i] = batch_stretched(b, i);
    run(b, b->a, x, b->n);
    tsr_free(x);
}

/* Each key has a stream of its own, so every example draws what it would draw alone. */
void batch_random(Batch *b)
{
    Attr a = *b->a;

    prepend(&a, b->size);
    run(b, &a, b->x, 1);
}

void batch_dither(Batch *b)
{
    Tensor *x[2] = {batch_stretched(b, 0), batch_stretched(b, 1)};

    run(b, b->a, x, 2);
}

void batch_map_key(Batch *b)
{
    int key = own_rank(b, 0) - 1, num = own_rank(b, 1), rank = key > num ? key : num;
    Tensor *x[2] = {aligned(b, 0, rank + 1), aligned(b, 1, rank)};

    run(b, b->a, x, 2);
}

void batch_search(Batch *b)
{
    int own = own_rank(b, 1);
    Dim shape[16] = {b->size};
    Tensor *x[2] = {b->x[0], batch_stretched(b, 1)};

    if ((b->in[0] || own_rank(b, 0) > 1) && x[1]) {     /* give a the leading axes of b */
        memcpy(shape, x[1]->shape, sizeof(Dim) * (size_t)own);
        shape[own] = b->x[0]->shape[b->x[0]->rank - 1];
        x[0] = r_broadcast(b->r, aligned(b, 0, own), own + 1, shape);
    }
    run(b, b->a, x, 2);
}

/* -- indexing ----------------------------------------------------------------------------------------------------------------- */

enum { OPERANDS_MAX = 20 };

/* Only the indices vary, and there are no batch axes yet: the batch is one more index axis. */
static void index_shared(Batch *b)
{
    Tensor *x[OPERANDS_MAX] = {b->x[0]};
    int rank = 0;

    for (int i = 1; i < b->n; i++)
        rank = own_rank(b, i) > rank ? own_rank(b, i) : rank;
    for (int i = 1; i < b->n; i++)
        x[i] = aligned(b, i, rank);
    run(b, b->a, x, b->n);
}

void batch_index(Batch *b)
{
    Tensor *x[OPERANDS_MAX];
    Attr a = *b->a;

    if (b->op == OP_index && !b->in[0] && a.m == 0) {
        index_shared(b);
        return;
    }
    a.m++;
    for (int i = 0; i < b->n && i < OPERANDS_MAX; i++)
        x[i] = batch_stretched(b, i);
    run(b, &a, x, b->n);
}

/* Axes of [B, lead..., moved...] with the n trailing ones brought behind B, or back again. */
static Tensor *trailing_first(Rule *r, Tensor *x, int n, bool back)
{
    int axis[16], rank, lead, k = 0;

    if (!x)
        return NULL;
    rank = x->rank, lead = rank - 1 - n;
    axis[k++] = -rank;
    for (int i = 0; i < (back ? lead : n); i++)
        axis[k++] = i + 1 + (back ? n : lead) - rank;
    for (int i = 0; i < (back ? n : lead); i++)
        axis[k++] = i + 1 - rank;
    return r_permute(r, x, rank, axis);
}

/* The places start..start+size along axis i of n, as indices [B, 1, ..., size, ..., 1]; starts clamp. */
static Tensor *places(Batch *b, int operand, int i, int n, Dim D, Dim size)
{
    Rule *r = b->r;
    Dim shape[16] = {b->size};
    TType row = {.rank = 1, .shape = {size}};
    Attr dv = attr_default();
    Tensor *start = r_convert(r, b->x[operand], DT_int32), *most, *steps;

    dv.nd[0] = 1;
    dv.d[0][0] = dim_sub(D, size);
    most = r_convert(r, r_op(r, OP_dim_value, &dv, NULL, 0), DT_int32);
    start = r2(r, OP_maximum, r2(r, OP_minimum, start, most), r_int(r, 0));
    if (!start)
        return NULL;
    for (int k = 0; k < n; k++)
        shape[1 + k] = 1;
    if (b->in[operand])
        start = r_reshape(r, start, n + 1, shape);
    shape[0] = 1;
    shape[1 + i] = size;
    steps = r_reshape(r, r_iota(r, &row, -1), n + 1, shape);
    start = r2(r, OP_add, start, steps);
    shape[0] = b->size;
    return r_broadcast(r, start, n + 1, shape);
}

/* Starts that vary: gather or scatter instead. */
static void index_by_places(Batch *b, int nvalues, const Dim *size)
{
    Rule *r = b->r;
    int n = b->a->n;
    Tensor *x[OPERANDS_MAX], *full = batch_stretched(b, 0), *y;
    Attr a = attr_default();

    if (!full)
        return;
    a.n = (int16_t)n;
    a.m = 1;
    x[0] = trailing_first(r, full, n, false);
    if (nvalues)
        x[1] = trailing_first(r, batch_stretched(b, 1), n, false);
    for (int i = 0; i < n; i++)
        x[1 + nvalues + i] = places(b, 1 + nvalues + i, i, n, full->shape[full->rank - n + i], size[i]);
    y = r_op(r, nvalues ? OP_index_put : OP_index, &a, x, 1 + nvalues + n);
    b->y[0] = trailing_first(r, y, n, true);
    b->out[0] = true;
    b->ny = 1;
}

void batch_index_start(Batch *b)
{
    int nvalues = b->op == OP_dynamic_update, n = b->a->n;
    Tensor *x[OPERANDS_MAX];
    bool vary = false;

    for (int i = 1 + nvalues; i < b->n; i++)
        vary |= b->in[i];
    if (vary) {
        const Tensor *v = b->x[nvalues];
        index_by_places(b, nvalues, nvalues ? &v->shape[v->rank - n] : b->a->d[0]);
        return;
    }
    for (int i = 0; i < b->n && i < OPERANDS_MAX; i++)
        x[i] = i <= nvalues ? batch_stretched(b, i) : b->x[i];
    run(b, b->a, x, b->n);
}

/* -- convolution --------------------------------------------------------------------------------------------------------------- */

/* [B, p, q, ...] with the batch axis joined into axis `at` of the rest (0 or 1), behind `outer` groups of it. */
static Tensor *fold_batch(Rule *r, Tensor *x, int at, Dim outer)
{
    int n, axis[16], k = 0;
    Dim s[16];

    if (!x)
        return NULL;
    n = x->rank + 1;
    s[0] = x->shape[0];
    for (int i = 1; i < x->rank; i++) {         /* split axis `at` into [outer, rest] */
        int to = i <= at ? i : i + 1;
        s[to] = x->shape[i];
    }
    s[1 + at] = outer;
    s[2 + at] = dim_floordiv(x->shape[1 + at], outer);
    x = r_reshape(r, x, n, s);
    for (int i = 1; i <= 1 + at; i++)
        axis[k++] = i - n;
    axis[k++] = -n;
    for (int i = 2 + at; i < n; i++)
        axis[k++] = i - n;
    x = r_permute(r, x, n, axis);
    if (!x)
        return NULL;
    for (k = 0; k < at; k++)
        s[k] = x->shape[k];
    s[at] = dim_mul(dim_mul(x->shape[at], x->shape[at + 1]), x->shape[at + 2]);
    for (k = at + 1; k < n - 2; k++)
        s[k] = x->shape[k + 2];
    return r_reshape(r, x, n - 2, s);
}

/* The channels [outer, B, rest] of y [N, channels, ...] taken apart again, B in front. */
static Tensor *unfold_batch(Rule *r, Tensor *y, Dim size, Dim outer)
{
    int n, axis[16];
    Dim s[16];

    if (!y)
        return NULL;
    n = y->rank + 2;
    s[0] = y->shape[0], s[1] = outer, s[2] = size, s[3] = dim_floordiv(y->shape[1], dim_mul(outer, size));
    memcpy(s + 4, y->shape + 2, sizeof(Dim) * (size_t)(y->rank - 2));
    y = r_reshape(r, y, n, s);
    for (int i = 0; i < n; i++)
        axis[i] = i - n;
    axis[0] = 2 - n, axis[1] = -n, axis[2] = 1 - n;
    y = r_permute(r, y, n, axis);
    if (!y)
        return NULL;
    s[0] = size, s[1] = y->shape[1], s[2] = dim_mul(outer, y->shape[3]);
    memcpy(s + 3, y->shape + 4, sizeof(Dim) * (size_t)(n - 4));
    return r_reshape(r, y, n - 1, s);
}

/* Batched input: more examples. Batched kernel: more output channels. Both: one group for each example and group. */
void batch_conv(Batch *b)
{
    Rule *r = b->r;
    Attr a = *b->a;
    Dim g = a.m ? a.m : 1, shape[16] = {b->size};
    int64_t size;
    Tensor *y, *x[2] = {b->x[0], b->x[1]};

    if (!b->in[1]) {
        x[0] = fold_batch(r, x[0], 0, 1);
        y = r_op(r, OP_conv, &a, x, 2);
        if (y) {
            shape[1] = b->x[0]->shape[1];
            memcpy(shape + 2, y->shape + 1, sizeof(Dim) * (size_t)(y->rank - 1));
            y = r_reshape(r, y, y->rank + 1, shape);
        }
    } else {
        x[1] = fold_batch(r, x[1], 0, g);       /* [g, B, O/g] output channels */
        if (b->in[0]) {
            if (!dim_settle(b->size, &size) || size * g > INT16_MAX) {
                r->failed = true;
                trace_fail(r->T, OPERR_TRACE, "conv under vmap of both operands needs a known batch size below %d", INT16_MAX);
                return;
            }
            x[0] = fold_batch(r, x[0], 1, g);   /* [g, B, C/g] input channels: g * B groups */
            a.m = (int16_t)(g * size);
        }
        y = unfold_batch(r, r_op(r, OP_conv, &a, x, 2), b->size, g);
    }
    b->y[0] = y;
    b->out[0] = true;
    b->ny = 1;
}

/* -- effects -------------------------------------------------------------------------------------------------------------------- */

static Tensor *example(Batch *b, int i, int64_t k)
{
    Tensor *x = b->x[i];

    if (!b->in[i])
        return x;
    return r_reshape(b->r, r_slice(b->r, x, -x->rank, k, k + 1), x->rank - 1, x->shape + 1);
}

/* All examples at once. */
void batch_prefetch(Batch *b)
{
    run(b, b->a, b->x, b->n);
}

/* Prints happen once for each example, in order, as a loop would have it; a check looks at all at once. */
void batch_effect(Batch *b)
{
    Tensor *x[OPERANDS_MAX];
    int64_t size;
    int nout;

    if (b->op == OP_check) {
        run(b, b->a, b->x, b->n);
        return;
    }
    if (!dim_settle(b->size, &size) || b->n > OPERANDS_MAX) {
        b->r->failed = true;
        trace_fail(b->r->T, OPERR_TRACE, "print under vmap needs a known batch size");
        return;
    }
    for (int64_t k = 0; k < size && !b->r->failed; k++) {
        for (int i = 0; i < b->n; i++)
            x[i] = example(b, i, k);
        if (!b->r->failed && !op_apply(b->r->T, b->op, b->a, x, b->n, b->y, &nout))
            b->r->failed = true;
    }
}
