/*
 * Transformations in every order, on functions with control flow: each
 * function is compared with a plain one that does the same without it.
 */
/* row: FUN-21 AD-24 FUN-14 */
#include "unit.h"

#include "op_cases.h"
#include "ir/graph/rules.h"
#include "runtime/kernels.h"

#include <limits.h>
#include <stdlib.h>

static Trace T;

typedef bool (*Call)(void *self, Tensor *const *in, int nin, Tensor **out, int *nout);

/* -- transformations of functions as functions ---------------------------------------------------------------------------- */

typedef struct Wrap { TensorFn f; } Wrap;

/* Gradient of the sum of the first result with respect to all inputs. */
static bool call_grad(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Wrap *w = self;
    Tensor *y[8], *ct[8] = {NULL};
    int ny;
    Pullback *p = trace_vjp(&T, w->f, in, nin, y, &ny);
    Rule r = rule_begin(&T);
    TType type;
    bool ok = p != NULL;

    if (ok) {
        type = tensor_type(y[0]);
        ct[0] = r_full(&r, &type, 1);
        ok = ct[0] && pullback_call(&T, p, ct, out);
        for (int i = 0; i < ny; i++)
            tensor_unref(y[i]);
    }
    *nout = ok ? nin : 0;
    rule_end(&r);
    pullback_free(p);
    return ok;
}

/* Equal sizes above 1 become one unknown: a graph for all sizes. */
static void forget_sizes(TType *types, int n)
{
    int64_t size[16];
    Dim var[16];
    int known = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < types[i].rank; k++) {
            int at = 0;
            if (types[i].shape[k] < 2)
                continue;
            while (at < known && size[at] != types[i].shape[k])
                at++;
            if (at == known) {
                char name[8];
                snprintf(name, sizeof name, "N%d", at);
                size[known] = types[i].shape[k];
                var[known++] = dim_var(sym(name), 2, INT64_MAX);
            }
            types[i].shape[k] = var[at];
        }
}

static bool jit_call(Wrap *w, Tensor *const *in, int nin, Tensor **out, int *nout, bool symbolic);

static bool call_jit(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    return jit_call(self, in, nin, out, nout, false);
}

static bool call_symbolic(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    return jit_call(self, in, nin, out, nout, true);
}

static bool jit_call(Wrap *w, Tensor *const *in, int nin, Tensor **out, int *nout, bool symbolic)
{
    TType types[8];
    Tensor **cap = NULL, *all[64];
    int ncap = 0;
    StrBuf text = {0}, err = {0};
    bool ok;
    Graph *g, *back;

    for (int i = 0; i < nin; i++)
        types[i] = tensor_type(in[i]);
    if (symbolic)
        forget_sizes(types, nin);
    if (!(g = stage(&T, sym("f"), w->f, types, nin, &cap, &ncap)))
        return false;
    assert_true(ncap + nin < 64);
    ok = graph_verify(g, &T.message);
    graph_fold(g);
    graph_cse(g);
    graph_print(g, &text);
    back = graph_parse(sb_str(&text), text.n, &err);
    if (!back)
        print_message("%s\n%s\n", sb_str(&text), sb_str(&err));
    assert_non_null(back);
    if (getenv("SHOW"))
        print_message("%s\n", sb_str(&text));
    memcpy(all, cap, sizeof *all * (size_t)ncap);
    memcpy(all + ncap, in, sizeof *all * (size_t)nin);
    ok = ok && graph_apply(&T, back, all, ncap + nin, out, nout);
    for (int i = 0; i < ncap; i++)
        tensor_unref(cap[i]);
    tsr_free(cap);
    sb_done(&text);
    graph_unref(g);
    graph_unref(back);
    return ok;
}

/* All inputs mapped over axis 0. */
static bool call_vmap(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Wrap *w = self;
    int axis[8] = {0};

    return trace_vmap(&T, w->f, in, axis, nin, NULL, out, nout);
}

/* The derivative along all ones. */
static bool call_jvp(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Wrap *w = self;
    Tensor *t[8], *y[8];
    Rule r = rule_begin(&T);
    bool ok = true;

    for (int i = 0; i < nin; i++) {
        TType type = tensor_type(in[i]);
        t[i] = dtype_is_inexact((DType)type.dtype) ? r_full(&r, &type, 1) : NULL;
    }
    ok = trace_jvp(&T, w->f, in, t, nin, y, out, nout);
    for (int i = 0; ok && i < *nout; i++)
        tensor_unref(y[i]);
    rule_end(&r);
    return ok;
}

static bool call_checkpoint(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Wrap *w = self;

    return trace_checkpoint(&T, w->f, NULL, in, nin, out, nout);
}

static Call letter(char c)
{
    return c == 'g' ? call_grad : c == 's' ? call_symbolic : c == 'j' ? call_jit : c == 'v' ? call_vmap : c == 'd' ? call_jvp : call_checkpoint;
}

/* -- comparing ---------------------------------------------------------------------------------------------------------------- */

static bool close_to(Tensor *a, Tensor *b)
{
    Tensor *x = tensor_copy(a), *y = tensor_copy(b);
    bool ok = a->rank == b->rank && a->dtype == b->dtype && !memcmp(a->shape, b->shape, sizeof(Dim) * a->rank);

    for (int64_t i = 0; ok && i < tensor_size(x); i++) {
        double p = elem_get_f(x, i), q = elem_get_f(y, i);
        ok = fabs(p - q) <= 1e-9 * (1 + fabs(q)) || (isnan(p) && isnan(q));
    }
    if (!ok) {
        StrBuf s = {0};
        tensor_print(a, &s);
        sb_puts(&s, "\nwanted ");
        tensor_print(b, &s);
        print_message("got %s\n", sb_str(&s));
        sb_done(&s);
    }
    tensor_unref(x);
    tensor_unref(y);
    return ok;
}

/* Stack the operands `times` on themselves, scaled a little, for vmap. */
static Tensor *lifted(Tensor *x)
{
    Dim shape[16] = {3};
    Tensor *s, *flat = tensor_copy(x);
    int64_t n = tensor_size(x);

    memcpy(shape + 1, x->shape, sizeof(Dim) * x->rank);
    s = tensor_new((DType)x->dtype, x->rank + 1, shape);
    for (int64_t i = 0; i < 3 * n; i++)
        if (dtype_is_inexact((DType)x->dtype))
            elem_set_f(s, i, elem_get_f(flat, i % n) * (1 + 0.3 * (double)(i / n)));
        else
            elem_set_i(s, i, elem_get_i(flat, i % n));
    tensor_unref(flat);
    return s;
}

/* how: transformations from the innermost to the outermost. */
static void agree(const char *name, Call f, Call plain, Tensor *const *in, int nin, const char *how)
{
    Wrap wf[8], wp[8];
    TensorFn a = {f, NULL, 8}, b = {plain, NULL, 8};
    Tensor *x[8], *y[8], *z[8];
    int n = 0, ny, nz;
    bool ok;

    for (int i = 0; i < nin; i++)
        x[i] = tensor_ref(in[i]);
    for (const char *h = how; *h; h++, n++) {
        wf[n].f = a;
        wp[n].f = b;
        a = (TensorFn){letter(*h), &wf[n], 8};
        if (*h != 'j' && *h != 's' && *h != 'c')
            b = (TensorFn){letter(*h), &wp[n], 8};
        if (*h == 'v')
            for (int i = 0; i < nin; i++) {
                Tensor *up = lifted(x[i]);
                tensor_unref(x[i]);
                x[i] = up;
            }
    }
    sb_clear(&T.message);
    ok = a.call(a.self, x, nin, y, &ny);
    if (!ok)
        print_message("%s '%s': %s\n", name, how, sb_str(&T.message));
    assert_true(ok);
    assert_true(b.call(b.self, x, nin, z, &nz));
    assert_int_equal(ny, nz);
    for (int i = 0; i < ny; i++) {
        if (!close_to(y[i], z[i])) {
            print_message("%s '%s' result %d\n", name, how, i);
            fail();
        }
        tensor_unref(y[i]);
        tensor_unref(z[i]);
    }
    for (int i = 0; i < nin; i++)
        tensor_unref(x[i]);
    assert_null(T.top);
    assert_int_equal(T.temps.n, 0);
}

static const char *const orders[] = {"", "j", "v", "d", "g", "gj", "jg", "vj", "jv", "vg", "gv", "gvj", "jgv", "gjv", "vjg", "dg", "gd",
                                     "gg",
                                     "ggj", "ggv", "vgg", "gdv", "c", "cg", "cgj", "cgv", "cgg", "vcg", "vcgj", "gvg", "dd", "ddv", "jcg", "s", "gs", "sg",
                                     "vs", "sv", "vgs", "gvs", "ds", "ggs", "cgs"};

static void agree_all(const char *name, Call f, Call plain, Tensor *const *in, int nin)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        agree(name, f, plain, in, nin, orders[i]);
}

/* A result that outlives the rule's temporaries. */
static bool give(Rule *r, Tensor **out, int *nout, int n, Tensor *const *y)
{
    bool ok = !r->failed;

    for (int i = 0; i < n; i++)
        ok = ok && y[i];
    for (int i = 0; ok && i < n; i++)
        out[i] = tensor_ref(y[i]);
    *nout = ok ? n : 0;
    rule_end(r);
    return ok;
}

static Tensor *sum_all(Rule *r, Tensor *x)
{
    int axis[16];

    for (int i = 0; x && i < x->rank; i++)
        axis[i] = i - x->rank;
    return x ? r_sum(r, x, x->rank, axis) : NULL;
}

/* -- scan ------------------------------------------------------------------------------------------------------------------------- */

/* h' = tanh(h * w + x), y = h' * h' */
static Tensor *cell(Rule *r, Tensor *h, Tensor *x, Tensor *w)
{
    return r1(r, OP_tanh, r_add(r, r_mul(r, h, w), x));
}

static bool scan_body(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *h = cell(&r, in[0], in[1], self), *y[2] = {h, sum_all(&r, r_mul(&r, h, h))};

    (void)nin;
    return give(&r, out, nout, 2, y);
}

/* in: w [3], h [3], xs [4, 3] */
static bool by_scan(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *res[2], *y;
    int n;

    (void)self, (void)nin;
    if (!trace_scan(&T, (TensorFn){scan_body, in[0], 2}, in + 1, 1, in + 2, 1, false, res, &n))
        return false;
    r_keep(&r, res[0]);
    r_keep(&r, res[1]);
    y = r_add(&r, sum_all(&r, res[1]), sum_all(&r, res[0]));
    return give(&r, out, nout, 1, &y);
}

static bool by_loop(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *h = in[1], *y = NULL;

    (void)self, (void)nin;
    for (int k = 0; k < 4; k++) {
        Tensor *x = r_reshape(&r, r_slice(&r, in[2], -2, k, k + 1), 1, (Dim[]){3});
        h = cell(&r, h, x, in[0]);
        y = r_add(&r, y, sum_all(&r, r_mul(&r, h, h)));
    }
    y = r_add(&r, y, sum_all(&r, h));
    return give(&r, out, nout, 1, &y);
}

static void test_scan(void **state)
{
    Tensor *in[3] = {F64(-1, 1, 3), F64(-1, 1, 3), F64(-1, 1, 4, 3)};

    (void)state;
    agree_all("scan", by_scan, by_loop, in, 3);
    tensors_unref(in, 3);
}

/* -- cond ------------------------------------------------------------------------------------------------------------------------- */

static bool arm_true(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *y = r_mul(&r, r_mul(&r, in[0], in[0]), self);

    (void)nin;
    return give(&r, out, nout, 1, &y);
}

static bool arm_false(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *y = r1(&r, OP_sin, in[0]);

    (void)self, (void)nin;
    return give(&r, out, nout, 1, &y);
}

static bool by_cond(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *p = r2(&r, OP_gt, sum_all(&r, in[0]), r_num(&r, in[0], 0.4)), *y = NULL;
    int n;

    (void)self, (void)nin;
    if (!p || !trace_cond(&T, p, (TensorFn){arm_true, in[1], 1}, (TensorFn){arm_false, NULL, 1}, in, 1, &y, &n)) {
        rule_end(&r);
        return false;
    }
    y = sum_all(&r, r_keep(&r, y));
    return give(&r, out, nout, 1, &y);
}

static bool by_where(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *p = r2(&r, OP_gt, sum_all(&r, in[0]), r_num(&r, in[0], 0.4));
    Tensor *y = r3(&r, OP_where, p, r_mul(&r, r_mul(&r, in[0], in[0]), in[1]), r1(&r, OP_sin, in[0]));

    (void)self, (void)nin;
    y = sum_all(&r, y);
    return give(&r, out, nout, 1, &y);
}

static void test_cond(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        Tensor *in[2] = {k ? F64(0.3, 1, 3) : F64(-0.05, 0.14, 3), F64(-1, 1, 3)};
        agree_all("cond", by_cond, by_where, in, 2);
        tensors_unref(in, 2);
    }
}

/* -- while ------------------------------------------------------------------------------------------------------------------------ */

static bool bigger(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *y = r2(&r, OP_lt, in[1], r_int(&r, 4));

    (void)self, (void)nin;
    return give(&r, out, nout, 1, &y);
}

/* (x * w + sin x, n + 1) */
static bool step(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *y[2] = {r_add(&r, r_mul(&r, in[0], self), r1(&r, OP_sin, in[0])), r2(&r, OP_add, in[1], r_int(&r, 1))};

    (void)nin;
    return give(&r, out, nout, 2, y);
}

static bool by_while(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *init[2] = {in[0], r_int(&r, 0)}, *res[2], *y;

    (void)self, (void)nin;
    if (!trace_while(&T, (TensorFn){bigger, NULL, 1}, (TensorFn){step, in[1], 2}, init, 2, res)) {
        rule_end(&r);
        return false;
    }
    y = sum_all(&r, r_keep(&r, res[0]));
    r_keep(&r, res[1]);
    return give(&r, out, nout, 1, &y);
}

static bool by_four(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *x = in[0];

    (void)self, (void)nin;
    for (int k = 0; k < 4; k++)
        x = r_add(&r, r_mul(&r, x, in[1]), r1(&r, OP_sin, x));
    x = sum_all(&r, x);
    return give(&r, out, nout, 1, &x);
}

static void test_while(void **state)
{
    Tensor *in[2] = {F64(-1, 1, 3), F64(-1, 1, 3)};

    (void)state;
    agree_all("while", by_while, by_four, in, 2);
    tensors_unref(in, 2);
}

/* while x > 1: x = x / 2 * w, a count of rounds that depends on the example */
static bool above_one(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *y = r2(&r, OP_gt, in[0], r_num(&r, in[0], 1));

    (void)self, (void)nin;
    return give(&r, out, nout, 1, &y);
}

static bool halve(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *y = r_mul(&r, r_mul(&r, in[0], r_num(&r, in[0], 0.5)), self);

    (void)nin;
    return give(&r, out, nout, 1, &y);
}

static bool by_halving(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    (void)self, (void)nin;
    *nout = 1;
    return trace_while(&T, (TensorFn){above_one, NULL, 1}, (TensorFn){halve, in[1], 1}, in, 1, out);
}

/* The same with eight rounds of selection. */
static bool by_select(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *x = in[0];

    (void)self, (void)nin;
    for (int k = 0; k < 8; k++) {
        Tensor *go = r2(&r, OP_gt, x, r_num(&r, x, 1));
        x = r3(&r, OP_where, go, r_mul(&r, r_mul(&r, x, r_num(&r, x, 0.5)), in[1]), x);
    }
    return give(&r, out, nout, 1, &x);
}

static void test_halving(void **state)
{
    Tensor *in[2] = {tensor_scalar_f(DT_f64, 7.3), tensor_scalar_f(DT_f64, 0.9)};

    (void)state;
    agree_all("halving", by_halving, by_select, in, 2);
    tensors_unref(in, 2);
}

/* -- nested control flow ------------------------------------------------------------------------------------------------------------- */

/* scan whose body branches on its carry */
static bool branchy_body(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *s = r_add(&r, in[0], in[1]), *res[1], *y[2];
    int n;

    (void)nin;
    if (!s || !by_cond(NULL, (Tensor *[]){s, self}, 2, res, &n)) {
        rule_end(&r);
        return false;
    }
    r_keep(&r, res[0]);
    y[0] = r_mul(&r, s, r_add(&r, res[0], r_num(&r, s, 0.1)));
    y[1] = res[0];
    return give(&r, out, nout, 2, y);
}

static bool by_branchy_scan(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *res[2], *y;
    int n;

    (void)self, (void)nin;
    if (!trace_scan(&T, (TensorFn){branchy_body, in[0], 2}, in + 1, 1, in + 2, 1, true, res, &n)) {
        rule_end(&r);
        return false;
    }
    r_keep(&r, res[0]);
    r_keep(&r, res[1]);
    y = r_add(&r, sum_all(&r, r_mul(&r, res[1], res[1])), sum_all(&r, res[0]));
    return give(&r, out, nout, 1, &y);
}

static bool by_branchy_loop(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *h = in[1], *y = NULL, *c;
    int n;

    (void)self, (void)nin;
    for (int k = 3; k >= 0; k--) {
        Tensor *s = r_add(&r, h, r_reshape(&r, r_slice(&r, in[2], -2, k, k + 1), 1, (Dim[]){3}));
        if (!s || !by_where(NULL, (Tensor *[]){s, in[0]}, 2, &c, &n))
            return false;
        r_keep(&r, c);
        h = r_mul(&r, s, r_add(&r, c, r_num(&r, s, 0.1)));
        y = r_add(&r, y, r_mul(&r, c, c));
    }
    y = r_add(&r, y, sum_all(&r, h));
    return give(&r, out, nout, 1, &y);
}

static void test_nested(void **state)
{
    Tensor *in[3] = {F64(-1, 1, 3), F64(-1, 1, 3), F64(-0.5, 1, 4, 3)};

    (void)state;
    agree_all("scan of cond", by_branchy_scan, by_branchy_loop, in, 3);
    tensors_unref(in, 3);
}

/* -- custom rules --------------------------------------------------------------------------------------------------------------------- */

static int rule_calls;

/* Of x * y * y: the true rules, as a user would write them. */
static bool host_rule(void *host, void *object, int rule, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *y[4];
    int n = 0;

    (void)host, (void)object, (void)nin;
    rule_calls++;
    if (rule == 2) {            /* residuals x, y; cotangent */
        y[n++] = r_mul(&r, in[2], r_mul(&r, in[1], in[1]));
        y[n++] = r_mul(&r, in[2], r_mul(&r, r_mul(&r, in[0], in[1]), r_num(&r, in[0], 2)));
    } else {
        y[n++] = r_mul(&r, r_mul(&r, in[0], in[1]), in[1]);
        if (rule == 1) {
            y[n++] = in[0];
            y[n++] = in[1];
        } else
            y[n++] = r_add(&r, r_mul(&r, in[2], r_mul(&r, in[1], in[1])),
                           r_mul(&r, in[3], r_mul(&r, r_mul(&r, in[0], in[1]), r_num(&r, in[0], 2))));
    }
    return give(&r, out, nout, n, y);
}

static bool xyy(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Rule r = rule_begin(&T);
    Tensor *y = r_mul(&r, r_mul(&r, in[0], in[1]), in[1]);

    (void)self, (void)nin;
    return give(&r, out, nout, 1, &y);
}

static bool custom(OpId op, Tensor *const *in, Tensor **out, int *nout)
{
    TType types[2] = {tensor_type(in[0]), tensor_type(in[1])};
    Attr a = attr_default();
    bool ok;

    a.host = &rule_calls;
    a.region[0] = stage(&T, sym("xyy"), (TensorFn){xyy, NULL, 1}, types, 2, NULL, NULL);
    ok = a.region[0] && op_apply(&T, op, &a, in, 2, out, nout);
    graph_unref(a.region[0]);
    return ok;
}

static bool by_custom_vjp(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    (void)self, (void)nin;
    return custom(OP_custom_vjp, in, out, nout);
}

static bool by_custom_jvp(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    (void)self, (void)nin;
    return custom(OP_custom_jvp, in, out, nout);
}

/* Staged custom rules do not survive as text, so orders that stage below a derivative are left out. */
static void test_custom(void **state)
{
    static const char *const some[] = {"", "v", "d", "g", "gj", "vg", "gv", "gvj", "dg", "gd", "gg", "ggj", "ggv", "vgg", "gdv",
                                       "gvg", "vgv", "cg", "vcg"};
    Tensor *in[2] = {F64(-1, 1, 3), F64(-1, 1, 3)};

    (void)state;
    T.host_rule = host_rule;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        agree("custom_vjp", by_custom_vjp, xyy, in, 2, some[i]);
        agree("custom_jvp", by_custom_jvp, xyy, in, 2, some[i]);
    }
    assert_true(rule_calls > 30);
    tensors_unref(in, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan), cmocka_unit_test(test_cond), cmocka_unit_test(test_while), cmocka_unit_test(test_halving),
        cmocka_unit_test(test_nested), cmocka_unit_test(test_custom),
    };
    int r;

    trace_init(&T);
    pool_init(1);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    trace_done(&T);
    return r;
}
