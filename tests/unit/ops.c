/*
 * Every row of ops.def, on the samples of op_cases.h: what the table says must
 * hold when the op runs, is differentiated, batched, staged and printed.
 */
/* row: AD-19 */
#include "unit.h"

#include "op_cases.h"
#include "runtime/kernels.h"

#include <stdlib.h>

static Trace T;
static int checks, failures;

static void report(const Case *c, const char *what, const char *detail)
{
    if (failures++ < 60)
        print_message("%s (%s): %s: %s\n", op_info[c->op].name, c->what, what, detail);
}

#define CHECK(c, ok, what) (checks++, (ok) ? true : (report(c, what, T.message.n ? sb_str(&T.message) : ""), false))

enum { RESULTS = 4 };

/* The op as a function of its inexact operands; the others stay. */
typedef struct Fn { const Case *c; } Fn;

static bool is_diff(const Case *c, int i) { return dtype_is_inexact((DType)c->in[i]->dtype); }

static bool call_op(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Fn *f = self;
    Tensor *x[8];
    int k = 0;

    (void)nin;
    for (int i = 0; i < f->c->nin; i++)
        x[i] = is_diff(f->c, i) ? in[k++] : f->c->in[i];
    return op_apply(&T, f->c->op, &f->c->a, x, f->c->nin, out, nout);
}

static int diff_operands(const Case *c, Tensor **x)
{
    int n = 0;

    for (int i = 0; i < c->nin; i++)
        if (is_diff(c, i))
            x[n++] = c->in[i];
    return n;
}

static int64_t flat_size(const Tensor *t) { return tensor_size(t) * (dtype_is_complex((DType)t->dtype) ? 2 : 1); }

/* Element k of the tensor's real and imaginary parts, row-major. */
static double part(Tensor *t, int64_t k)
{
    Tensor *c = tensor_contiguous(t);
    double re, im;
    bool two = dtype_is_complex((DType)t->dtype);

    elem_get_c(c, c->offset + k / (1 + two), &re, &im);
    tensor_unref(c);
    return two && k % 2 ? im : re;
}

static double dot(Tensor *a, Tensor *b)
{
    double s = 0;
    int64_t n = flat_size(a);

    for (int64_t k = 0; k < n; k++)             /* the pairing of a value and a cotangent: plain, as JAX has it */
        s += part(a, k) * part(b, k) * (dtype_is_complex((DType)a->dtype) && k % 2 ? -1 : 1);
    return s;
}

static Tensor *like(Tensor *t) { return case_tensor((DType)t->dtype, t->rank, t->shape, -1, 1); }

static Tensor *moved(Tensor *x, Tensor *v, double eps)
{
    Tensor *m = tensor_copy(x), *d = tensor_copy(v);
    int64_t n = tensor_size(m);

    for (int64_t k = 0; k < n; k++) {
        double a, b, p, q;
        elem_get_c(m, k, &a, &b);
        elem_get_c(d, k, &p, &q);
        if (dtype_is_complex((DType)x->dtype))
            elem_set_c(m, k, a + eps * p, b + eps * q);
        else
            elem_set_f(m, k, a + eps * p);
    }
    tensor_unref(d);
    return m;
}

static bool near(Tensor *got, Tensor *want, double rtol, double atol)
{
    int64_t n = flat_size(want);

    if (got->rank != want->rank || memcmp(got->shape, want->shape, sizeof(Dim) * got->rank))
        return false;
    for (int64_t k = 0; k < n; k++) {
        double a = part(got, k), b = part(want, k);
        if (!(fabs(a - b) <= atol + rtol * fabs(b)) && !(isnan(a) && isnan(b)))
            return false;
    }
    return true;
}

/* (hi - lo) / (2 eps), into hi's copy */
static Tensor *slope(Tensor *hi, Tensor *lo, double eps)
{
    Tensor *d = tensor_copy(hi), *l = tensor_copy(lo);
    int64_t n = tensor_size(d);

    for (int64_t k = 0; k < n; k++) {
        double a, b, p, q;
        elem_get_c(d, k, &a, &b);
        elem_get_c(l, k, &p, &q);
        if (dtype_is_complex((DType)d->dtype))
            elem_set_c(d, k, (a - p) / (2 * eps), (b - q) / (2 * eps));
        else
            elem_set_f(d, k, (a - p) / (2 * eps));
    }
    tensor_unref(l);
    return d;
}

static bool differentiable(OpId op) { return strcmp(op_info[op].jvp, "none") != 0; }
static bool smooth(OpId op)
{
    int f = op_info[op].family;

    return f == FAM_MAP || f == FAM_CONTRACT || f == FAM_LINALG || op == OP_prod || op == OP_cumprod;
}

/* -- types -------------------------------------------------------------------------------------------------------------- */

static void check_types(const Case *c)
{
    TType x[8], y[RESULTS];
    Tensor *out[RESULTS];
    StrBuf err = {0};
    int n, nout, code;

    if (!CHECK(c, op_apply(&T, c->op, &c->a, c->in, c->nin, out, &nout), "runs"))
        return;
    for (int i = 0; i < c->nin; i++)
        x[i] = tensor_type(c->in[i]);
    CHECK(c, op_infer(c->op, &c->a, x, c->nin, y, &n, &err, &code) && n == nout, "types");
    for (int i = 0; i < nout; i++) {
        bool same = out[i]->dtype == y[i].dtype && out[i]->rank == y[i].rank;
        for (int k = 0; same && k < y[i].rank; k++)
            same = out[i]->shape[k] == y[i].shape[k] || (c->op == OP_nonzero && k == 0);
        CHECK(c, same, "the inferred type is the result's");
        tensor_unref(out[i]);
    }
    sb_done(&err);
}

/* Operands in every dtype that the table takes. */
static void check_dtypes(const Case *c)
{
    static const DType all[] = {DT_bool, DT_int4, DT_int8, DT_uint8, DT_int32, DT_int64, DT_uint64, DT_fp8_e4m3, DT_f16, DT_bf16, DT_tf32,
                                DT_f32, DT_c64};

    for (size_t d = 0; d < sizeof all / sizeof *all; d++) {
        Case k = *c;
        TType x[8], y[RESULTS];
        StrBuf err = {0};
        int n, code;
        for (int i = 0; i < c->nin; i++)
            k.in[i] = is_diff(c, i) ? case_tensor(all[d], c->in[i]->rank, c->in[i]->shape, 1, 2) : tensor_ref(c->in[i]);
        for (int i = 0; i < c->nin; i++)
            x[i] = tensor_type(k.in[i]);
        if (op_infer(k.op, &k.a, x, k.nin, y, &n, &err, &code) && op_info[k.op].family != FAM_LINALG)
            check_types(&k);
        for (int i = 0; i < c->nin; i++)
            tensor_unref(k.in[i]);
        sb_done(&err);
    }
}

/* -- derivatives ------------------------------------------------------------------------------------------------------------ */

typedef struct Push { Tensor *y[RESULTS], *dy[RESULTS]; int n; } Push;

static void push_done(Push *p)
{
    for (int i = 0; i < p->n; i++) {
        tensor_unref(p->y[i]);
        tensor_unref(p->dy[i]);
    }
}

static void check_central(const Case *c, TensorFn fn, Tensor **x, Tensor **v, int n, Push *p)
{
    const double eps = 1e-6;
    Tensor *hi[8] = {NULL}, *lo[8] = {NULL}, *yh[RESULTS], *yl[RESULTS];
    int k, ok;

    for (int i = 0; i < n; i++) {
        hi[i] = moved(x[i], v[i], eps);
        lo[i] = moved(x[i], v[i], -eps);
    }
    ok = fn.call(fn.self, hi, n, yh, &k) && fn.call(fn.self, lo, n, yl, &k);
    for (int i = 0; ok && i < k; i++) {
        if (dtype_is_inexact((DType)yh[i]->dtype)) {
            Tensor *d = slope(yh[i], yl[i], eps);
            CHECK(c, near(p->dy[i], d, 1e-3, 1e-5), "jvp is the central difference");
            tensor_unref(d);
        }
        tensor_unref(yh[i]);
        tensor_unref(yl[i]);
    }
    for (int i = 0; i < n; i++) {
        tensor_unref(hi[i]);
        tensor_unref(lo[i]);
    }
}

static void check_adjoint(const Case *c, TensorFn fn, Tensor **x, Tensor **v, int n, Push *p)
{
    Tensor *y[RESULTS], *u[RESULTS] = {NULL}, *dx[8];
    int k;
    double left = 0, right = 0;
    Pullback *back = trace_vjp(&T, fn, x, n, y, &k);

    if (!CHECK(c, back != NULL, "vjp"))
        return;
    for (int i = 0; i < k; i++) {
        CHECK(c, tensor_same_bits(y[i], p->y[i]), "vjp and jvp agree on the value");
        if (dtype_is_inexact((DType)y[i]->dtype)) {
            u[i] = like(y[i]);
            left += dot(p->dy[i], u[i]);
        }
    }
    if (CHECK(c, pullback_call(&T, back, u, dx), "pullback")) {
        for (int i = 0; i < n; i++) {
            CHECK(c, dx[i]->rank == x[i]->rank && !memcmp(dx[i]->shape, x[i]->shape, sizeof(Dim) * x[i]->rank), "cotangent shape");
            right += dot(v[i], dx[i]);
            tensor_unref(dx[i]);
        }
        sb_clear(&T.message);
        sb_printf(&T.message, "%.15g %.15g", left, right);
        CHECK(c, fabs(left - right) <= 1e-10 * (1 + fabs(left) + fabs(right)), "<Jv, u> = <v, J'u>");
        sb_clear(&T.message);
    }
    for (int i = 0; i < k; i++) {
        tensor_unref(y[i]);
        tensor_unref(u[i]);
    }
    pullback_free(back);
}

/* The gradient map x -> J(x)' u, for second derivatives. */
typedef struct GradFn { TensorFn fn; Tensor **u; } GradFn;

static bool call_grad(void *self, Tensor *const *in, int n, Tensor **out, int *nout)
{
    GradFn *g = self;
    Tensor *y[RESULTS];
    int k;
    Pullback *p = trace_vjp(&T, g->fn, in, n, y, &k);
    bool ok = p && pullback_call(&T, p, g->u, out);

    for (int i = 0; p && i < k; i++)
        tensor_unref(y[i]);
    pullback_free(p);
    *nout = ok ? n : 0;
    return ok;
}

static void check_second(const Case *c, TensorFn fn, Tensor **x, Tensor **v, int n, Push *first)
{
    Tensor *u[RESULTS] = {NULL};
    GradFn g = {fn, u};
    TensorFn grad = {call_grad, &g, 8};
    Push p = {0};
    Tensor *y[8], *dy[8];

    for (int i = 0; i < first->n; i++)
        u[i] = dtype_is_inexact((DType)first->y[i]->dtype) ? like(first->y[i]) : NULL;
    if (CHECK(c, trace_jvp(&T, grad, x, v, n, y, dy, &p.n), "jvp of vjp")) {
        for (int i = 0; i < p.n && i < RESULTS; i++) {
            p.y[i] = y[i];
            p.dy[i] = dy[i];
        }
        check_central(c, grad, x, v, n, &p);
        push_done(&p);
    }
    for (int i = 0; i < first->n; i++)
        tensor_unref(u[i]);
}

static void check_derivatives(const Case *c)
{
    Fn f = {c};
    TensorFn fn = {call_op, &f, RESULTS};
    Tensor *x[8], *v[8];
    int n = diff_operands(c, x);
    Push p = {0};

    if (!n || !differentiable(c->op))
        return;
    for (int i = 0; i < n; i++)
        v[i] = i && x[i] == x[0] ? tensor_ref(v[0]) : like(x[i]);
    if (CHECK(c, trace_jvp(&T, fn, x, v, n, p.y, p.dy, &p.n), "jvp")) {
        check_central(c, fn, x, v, n, &p);
        check_adjoint(c, fn, x, v, n, &p);
        if (smooth(c->op))
            check_second(c, fn, x, v, n, &p);
        push_done(&p);
    }
    for (int i = 0; i < n; i++)
        tensor_unref(v[i]);
}

/* -- vmap ---------------------------------------------------------------------------------------------------------------------- */

/* The op as a function of all its operands. */
static bool call_all(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Fn *f = self;

    return op_apply(&T, f->c->op, &f->c->a, in, nin, out, nout);
}

static Tensor *variant(const Case *c, int i, int example)
{
    Tensor *t = c->in[i];

    if (example == 0 || c->op == OP_searchsorted)
        return tensor_copy(t);
    if (op_info[c->op].family == FAM_LINALG || !dtype_is_inexact((DType)t->dtype)) {
        Tensor *flat = tensor_copy(t);          /* keep what the op needs: definite matrices, valid indices */
        if (dtype_is_inexact((DType)t->dtype))
            for (int64_t k = 0; k < tensor_size(flat); k++)
                elem_set_f(flat, k, elem_get_f(flat, k) * (1 + example));
        else if (tensor_size(flat) > 1) {
            int64_t a = elem_get_i(flat, 0);
            elem_set_i(flat, 0, elem_get_i(flat, 1));
            elem_set_i(flat, 1, a);
        } else if (tensor_size(flat) == 1 && t->dtype == DT_int32 && c->op != OP_fold_key)
            elem_set_i(flat, 0, 0);
        return flat;
    }
    if (dtype_is_complex((DType)t->dtype))
        return like(t);
    double lo, hi;
    case_domain(c->op, &lo, &hi);
    return case_tensor((DType)t->dtype, t->rank, t->shape, lo, hi);
}

static Tensor *stacked(Tensor *a, Tensor *b)
{
    Dim shape[16] = {2};
    Tensor *s, *half;

    memcpy(shape + 1, a->shape, sizeof(Dim) * a->rank);
    s = tensor_new((DType)a->dtype, a->rank + 1, shape);
    for (int k = 0; k < 2; k++) {
        half = tensor_view(s, a->rank, s->shape + 1, s->stride + 1, k * s->stride[0]);
        tensor_assign(half, k ? b : a);
        tensor_unref(half);
    }
    return s;
}

static Tensor *half_of(Tensor *s, int k)
{
    return tensor_view(s, s->rank - 1, s->shape + 1, s->stride + 1, s->offset + k * s->stride[0]);
}

/* Operands whose bit is set are batched. */
static void check_vmap_mask(const Case *c, unsigned mask)
{
    Fn f = {c};
    TensorFn fn = {call_all, &f, RESULTS};
    Tensor *in[8], *one[2][8], *out[RESULTS], *alone[2][RESULTS];
    int axis[8], n[2], nout;
    bool ok;

    for (int i = 0; i < c->nin; i++) {
        one[0][i] = tensor_ref(c->in[i]);
        one[1][i] = mask >> i & 1 ? variant(c, i, 1) : tensor_ref(c->in[i]);
        in[i] = mask >> i & 1 ? stacked(one[0][i], one[1][i]) : tensor_ref(c->in[i]);
        axis[i] = mask >> i & 1 ? 0 : INT32_MIN;
    }
    ok = CHECK(c, trace_vmap(&T, fn, in, axis, c->nin, NULL, out, &nout), "vmap");
    for (int k = 0; ok && k < 2; k++)
        ok = CHECK(c, call_all(&f, one[k], c->nin, alone[k], &n[k]), "runs alone");
    for (int i = 0; ok && i < nout; i++) {
        for (int k = 0; k < 2; k++) {
            Tensor *h = half_of(out[i], k);
            char what[64];
            snprintf(what, sizeof what, "vmap is the loop (operands %x, example %d)", mask, k);
            CHECK(c, tensor_same_bits(h, alone[k][i]), what);
            tensor_unref(h);
            tensor_unref(alone[k][i]);
        }
        tensor_unref(out[i]);
    }
    for (int i = 0; i < c->nin; i++) {
        tensor_unref(in[i]);
        tensor_unref(one[0][i]);
        tensor_unref(one[1][i]);
    }
}

static void check_vmap(const Case *c)
{
    if (!c->nin || !strcmp(op_info[c->op].batch, "none"))
        return;
    check_vmap_mask(c, (1u << c->nin) - 1);
    for (int i = 0; i < c->nin && c->nin > 1; i++)
        check_vmap_mask(c, 1u << i);
}

/* vmap of the gradient equals the gradient in a loop */
static void check_vmap_grad(const Case *c)
{
    Fn f = {c};
    TensorFn fn = {call_op, &f, RESULTS};
    Tensor *u[RESULTS] = {NULL}, *x[8], *b[8], *alone[2][8], *out[8], *y[RESULTS];
    GradFn g = {fn, u};
    TensorFn grad = {call_grad, &g, 8};
    int n = diff_operands(c, x), axis[8] = {0}, k, ny;
    bool ok;

    if (!n || !differentiable(c->op) || op_info[c->op].family == FAM_LINALG)
        return;
    if (!call_op(&f, x, n, y, &ny))
        return;
    for (int i = 0; i < ny; i++)
        u[i] = dtype_is_inexact((DType)y[i]->dtype) ? like(y[i]) : NULL;
    for (int i = 0; i < n; i++)
        b[i] = stacked(x[i], x[i]);
    ok = CHECK(c, trace_vmap(&T, grad, b, axis, n, NULL, out, &k), "vmap of grad");
    ok = ok && CHECK(c, call_grad(&g, x, n, alone[0], &k), "grad");
    for (int i = 0; ok && i < n; i++) {
        for (int e = 0; e < 2; e++) {
            Tensor *h = half_of(out[i], e);
            CHECK(c, near(h, alone[0][i], 1e-12, 1e-12), "vmap of grad is the loop");
            tensor_unref(h);
        }
        tensor_unref(out[i]);
        tensor_unref(alone[0][i]);
    }
    for (int i = 0; i < n; i++)
        tensor_unref(b[i]);
    for (int i = 0; i < ny; i++) {
        tensor_unref(u[i]);
        tensor_unref(y[i]);
    }
}

/* -- staging and text -------------------------------------------------------------------------------------------------------------- */

static void check_text(const Case *c, Graph *g)
{
    StrBuf a = {0}, b = {0}, err = {0};
    Graph *back;

    graph_print(g, &a);
    back = graph_parse(sb_str(&a), a.n, &err);
    sb_clear(&T.message);
    sb_puts(&T.message, sb_str(&err));
    if (CHECK(c, back != NULL, "text reads back")) {
        graph_print(back, &b);
        CHECK(c, !strcmp(sb_str(&a), sb_str(&b)), "text prints the same again");
        graph_unref(back);
    }
    sb_clear(&T.message);
    sb_done(&a);
    sb_done(&b);
    sb_done(&err);
}

static void check_staged(const Case *c, TensorFn fn, Tensor **x, int n, const char *what)
{
    TType types[8];
    Tensor **cap = NULL, *all[64], *staged[8], *eager[8];
    int ncap = 0, k, m;
    Graph *g;

    for (int i = 0; i < n; i++)
        types[i] = tensor_type(x[i]);
    g = stage(&T, sym("case"), fn, types, n, &cap, &ncap);
    if (!CHECK(c, g != NULL && ncap + n < 64, what))
        return;
    CHECK(c, graph_verify(g, &T.message), "verifies");
    check_text(c, g);
    memcpy(all, cap, sizeof *all * (size_t)ncap);
    memcpy(all + ncap, x, sizeof *all * (size_t)n);
    for (int round = 0; round < 2; round++) {
        if (CHECK(c, graph_apply(&T, g, all, ncap + n, staged, &k), what) && CHECK(c, fn.call(fn.self, x, n, eager, &m), what))
            for (int i = 0; i < k; i++) {
                CHECK(c, tensor_same_bits(staged[i], eager[i]), round ? "optimised equals eager" : what);
                tensor_unref(staged[i]);
                tensor_unref(eager[i]);
            }
        graph_fold(g);
        graph_cse(g);
        graph_dce(g);
        CHECK(c, graph_verify(g, &T.message), "verifies after passes");
    }
    for (int i = 0; i < ncap; i++)
        tensor_unref(cap[i]);
    tsr_free(cap);
    graph_unref(g);
}

static void check_staging(const Case *c)
{
    Fn f = {c};
    Tensor *x[8], *u[RESULTS] = {NULL}, *y[RESULTS];
    int n = diff_operands(c, x), ny;
    GradFn g = {{call_op, &f, RESULTS}, u};

    check_staged(c, (TensorFn){call_all, &f, RESULTS}, (Tensor **)c->in, c->nin, "staged equals eager");
    if (!n || !differentiable(c->op) || !call_op(&f, x, n, y, &ny))
        return;
    for (int i = 0; i < ny; i++)
        u[i] = dtype_is_inexact((DType)y[i]->dtype) ? like(y[i]) : NULL;
    check_staged(c, (TensorFn){call_grad, &g, 8}, x, n, "staged grad equals eager");
    for (int i = 0; i < ny; i++) {
        tensor_unref(u[i]);
        tensor_unref(y[i]);
    }
}

/* -- the table ---------------------------------------------------------------------------------------------------------------------- */

static bool has_kernel(OpId op)
{
    return kernel_of[op] || op == OP_constant || op == OP_stop_gradient || op == OP_dim_value || op_info[op].family >= FAM_CONTROL;
}

static void test_ops(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        Cases c = {0};
        if (op_info[op].family >= FAM_CONTROL || op == OP_as_softmax)       /* has another function's derivative: tests/transforms/as_softmax.tsr */
            continue;
        if (getenv("OPS_ONLY") && strcmp(getenv("OPS_ONLY"), op_info[op].name))
            continue;
        if (!has_kernel((OpId)op)) {
            print_message("%s has no kernel\n", op_info[op].name);
            failures++;
            continue;
        }
        cases_of(&c, (OpId)op);
        if (!c.n && op != OP_constant) {
            print_message("%s has no sample\n", op_info[op].name);
            failures++;
        }
        for (int i = 0; i < c.n; i++) {
            check_types(&c.at[i]);
            check_derivatives(&c.at[i]);
            check_vmap(&c.at[i]);
            check_vmap_grad(&c.at[i]);
            check_staging(&c.at[i]);
            if (i == 0)
                check_dtypes(&c.at[i]);
        }
        cases_free(&c);
    }
    print_message("%d checks, %d failures\n", checks, failures);
    assert_int_equal(failures, 0);
    assert_true(getenv("OPS_ONLY") || checks >= 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ops)};
    int r;

    trace_init(&T);
    pool_init(1);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    trace_done(&T);
    return r;
}
