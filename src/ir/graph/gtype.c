/*
 * Types of the rows that ir/core cannot type: constants, whose tensors it does
 * not know, and control flow, whose result types are those of its regions.
 */
#include "ir/graph/graph.h"
#include "ir/core/infer.h"
#include "runtime/tensor.h"

#include <string.h>

bool ttype_fits(const TType *have, const TType *want)
{
    if (have->dtype != want->dtype || have->rank != want->rank)
        return false;
    for (int i = 0; i < have->rank; i++) {
        Dim a = have->shape[i], b = want->shape[i];
        DimAnswer r = a == b ? DIM_PROVED : dim_ask_eq(a, b);
        if (r != DIM_PROVED && r != DIM_UNKNOWN)
            return false;
    }
    return true;
}

bool result_fits(OpId op, const TType *written, const TType *inferred)
{
    if (op == OP_nonzero)
        return written->dtype == inferred->dtype && written->rank == inferred->rank;
    return ttype_fits(written, inferred);
}

static bool mismatch(Infer *t, const char *what, const TType *a, const char *first, const TType *b, const char *second)
{
    sb_printf(t->err, "%s: %s ", what, first);
    ttype_print(a, t->err);
    sb_printf(t->err, ", %s ", second);
    ttype_print(b, t->err);
    t->code = a->dtype != b->dtype ? INFER_DTYPE : INFER_SHAPE;
    return false;
}

static const TType *param_type(const Graph *g, int i) { return &g->params.at[i]->type[0]; }
static const TType *result_type(const Graph *g, int i) { return gvalue_type(g->results.at[i]); }

/* Do operands [lo, lo+n) fit the region's parameters from `from` on? */
static bool operands_fit(Infer *t, const Graph *g, int lo, int n, int from)
{
    for (int i = 0; i < n; i++)
        if (!ttype_fits(&t->in[lo + i], param_type(g, from + i)))
            return mismatch(t, op_info[t->op].name, &t->in[lo + i], "operand has type", param_type(g, from + i), "its region takes");
    return true;
}

static bool needs_region(Infer *t, int k, int nparams)
{
    const Graph *g = t->a->region[k];

    if (!g)
        return infer_fail(t, INFER_SHAPE, "%s lacks its region %d", op_info[t->op].name, k);
    if (g->params.n != nparams)
        return infer_fail(t, INFER_SHAPE, "%s: region %d takes %d values, %d are given", op_info[t->op].name, k, g->params.n, nparams);
    return true;
}

static void take_results(Infer *t, const Graph *g, int n)
{
    for (int i = 0; i < n; i++) {
        t->out[t->nout] = *result_type(g, i);
        t->out[t->nout++].weak = 0;
    }
}

static bool type_cond(Infer *t)
{
    const Graph *a, *b;

    if (t->nin < 1 || t->in[0].dtype != DT_bool || t->in[0].rank)
        return infer_fail(t, INFER_SHAPE, "cond: the condition must be one bool");
    if (!needs_region(t, 0, t->nin - 1) || !needs_region(t, 1, t->nin - 1))
        return false;
    a = t->a->region[0], b = t->a->region[1];
    if (a->results.n != b->results.n)
        return infer_fail(t, INFER_SHAPE, "cond: one branch gives %d values, the other branch %d", a->results.n, b->results.n);
    for (int i = 0; i < a->results.n; i++)
        if (!ttype_fits(result_type(a, i), result_type(b, i)))
            return mismatch(t, "both branches must give the same type", result_type(a, i), "the first branch gives", result_type(b, i),
                            "the other branch");
    if (!operands_fit(t, a, 1, t->nin - 1, 0) || !operands_fit(t, b, 1, t->nin - 1, 0))
        return false;
    take_results(t, a, a->results.n);
    return true;
}

static bool stable(Infer *t, const Graph *body, int ncap, int ncarry, const char *what)
{
    if (body->results.n < ncarry)
        return infer_fail(t, INFER_SHAPE, "%s: the body gives %d values for %d carried ones", what, body->results.n, ncarry);
    for (int i = 0; i < ncarry; i++)
        if (!ttype_fits(result_type(body, i), param_type(body, ncap + i))) {
            StrBuf b = {0};
            sb_printf(&b, "%s: value %d changes its type in the loop", what, i + 1);
            mismatch(t, sb_str(&b), param_type(body, ncap + i), "it starts as", result_type(body, i), "the body gives");
            sb_done(&b);
            return false;
        }
    return true;
}

/* Stacked along a new leading axis of n. */
static void push_stacked(Infer *t, const TType *of, Dim n)
{
    TType *o = &t->out[t->nout++];

    *o = *of;
    o->weak = 0;
    o->rank++;
    for (int i = o->rank - 1; i > 0; i--)
        o->shape[i] = of->shape[i - 1];
    o->shape[0] = n;
}

static bool type_while(Infer *t)
{
    int ncap = t->a->n, ncarry = t->nin - ncap;
    const Graph *c, *b;

    if (ncap < 0 || ncarry < 0)
        return infer_fail(t, INFER_SHAPE, "while: too few operands");
    if (t->a->kind && t->a->nd[0] != 1)
        return infer_fail(t, INFER_SHAPE, "while: a tape needs d0, the number of rounds");
    if (!needs_region(t, 0, t->nin) || !needs_region(t, 1, t->nin))
        return false;
    c = t->a->region[0], b = t->a->region[1];
    if (c->results.n != 1 || result_type(c, 0)->dtype != DT_bool || result_type(c, 0)->rank)
        return infer_fail(t, INFER_SHAPE, "while: the condition must give one bool");
    if (!operands_fit(t, b, 0, t->nin, 0) || !stable(t, b, ncap, ncarry, "while"))
        return false;
    take_results(t, b, ncarry);
    for (int i = 0; t->a->kind && i < ncarry; i++)
        push_stacked(t, param_type(b, ncap + i), t->a->d[0][0]);
    return true;
}

static bool type_scan(Infer *t)
{
    int ncap = t->a->n, ncarry = t->a->m, nx = t->nin - ncap - ncarry;
    const Graph *b = t->a->region[0];
    Dim len = t->a->d[0][0];

    if (nx < 0 || ncap < 0 || ncarry < 0 || t->a->nd[0] != 1)
        return infer_fail(t, INFER_SHAPE, "scan: too few operands, or no length");
    if (!needs_region(t, 0, t->nin))
        return false;
    if (!operands_fit(t, b, 0, ncap + ncarry, 0) || !stable(t, b, ncap, ncarry, "scan"))
        return false;
    for (int i = 0; i < nx; i++) {
        TType x = t->in[ncap + ncarry + i];
        if (!x.rank)
            return infer_fail(t, INFER_SHAPE, "scan needs values with a leading axis");
        x.rank--;
        memmove(x.shape, x.shape + 1, sizeof(Dim) * x.rank);
        if (!ttype_fits(&x, param_type(b, ncap + ncarry + i)))
            return mismatch(t, "scan", &x, "an element has type", param_type(b, ncap + ncarry + i), "the body takes");
    }
    take_results(t, b, ncarry);
    for (int i = ncarry; i < b->results.n; i++)
        push_stacked(t, result_type(b, i), len);
    return true;
}

static bool type_call(Infer *t)
{
    const Graph *g = t->a->region[0];

    if (!g)
        return infer_fail(t, INFER_SHAPE, "%s lacks its region", op_info[t->op].name);
    if (t->op == OP_custom_lin && (t->a->n < 0 || t->a->n > t->nin))
        return infer_fail(t, INFER_SHAPE, "custom_lin: %d residuals among %d operands", t->a->n, t->nin);
    if (!(t->op == OP_custom_lin && t->a->host) && (!needs_region(t, 0, t->nin) || !operands_fit(t, g, 0, t->nin, 0)))
        return false;
    take_results(t, g, g->results.n);
    return true;
}

static bool type_constant(Infer *t)
{
    const Tensor *v = t->a->value;

    if (!v)
        return infer_fail(t, INFER_SHAPE, "constant without a value");
    t->out[0] = (TType){.dtype = v->dtype, .rank = v->rank, .weak = v->weak, .policy = v->policy};
    memcpy(t->out[0].shape, v->shape, sizeof(Dim) * v->rank);
    t->nout = 1;
    return true;
}

static bool infer_outer(OpId op, const Attr *a, const TType *in, int nin, TType *out, int *nout, StrBuf *err, int *code)
{
    Infer t = {.op = op, .a = a, .in = in, .nin = nin, .out = out, .err = err, .code = 3};
    bool ok = op == OP_constant ? type_constant(&t) : op == OP_cond ? type_cond(&t) : op == OP_while ? type_while(&t) :
              op == OP_scan ? type_scan(&t) : type_call(&t);

    *nout = t.nout;
    *code = ok ? 0 : t.code;
    return ok;
}

void graph_init(void)
{
    op_set_infer_outer(infer_outer);
}
