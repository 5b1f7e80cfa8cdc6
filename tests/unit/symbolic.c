/*
 * Every row of ops.def staged once with symbolic sizes, then run at several:
 * whenever the graph takes the sizes it gives the bits that the op gives
 * there; also under grad, jvp and vmap, and through the graph's text.
 */
#include "unit.h"

#include "ir/graph/rules.h"
#include "op_cases.h"
#include "runtime/kernels.h"

#include <stdlib.h>

static Trace T;
static int checks, failures, calls, served;

static void report(const Case *c, const char *form, const char *what)
{
    if (failures++ < 60)
        print_message("%s (%s), %s: %s: %s\n", op_info[c->op].name, c->what, form, what, T.message.n ? sb_str(&T.message) : "");
}

#define CHECK(ok, what) (checks++, (ok) ? true : (report(s->c, s->form, what), false))

enum { RESULTS = 8, OPERANDS = 8 };

/* A case in one of its forms; sizes in attributes that are an operand's become that operand's variable. */
typedef struct Sample {
    const Case *c;
    const char *form;
    Attr a;
    Tensor **fixed;             /* grad: the operands, of which the inexact ones vary */
} Sample;

static bool call_plain(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Sample *s = self;

    return op_apply(&T, s->c->op, &s->a, in, nin, out, nout);
}

static bool is_diff(const Case *c, int i) { return dtype_is_inexact((DType)c->in[i]->dtype); }

/* Of the inexact operands; the others are among fixed. */
static bool call_diff(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Sample *s = self;
    Tensor *x[OPERANDS];
    int k = 0;

    (void)nin;
    for (int i = 0; i < s->c->nin; i++)
        x[i] = is_diff(s->c, i) ? in[k++] : s->fixed[i];
    return call_plain(self, x, s->c->nin, out, nout);
}

static int split_operands(Sample *s, Tensor *const *in, Tensor **x)
{
    int n = 0;

    s->fixed = (Tensor **)in;
    for (int i = 0; i < s->c->nin; i++)
        if (is_diff(s->c, i))
            x[n++] = in[i];
    return n;
}

static Tensor *ones_like(const Tensor *t)
{
    Attr a = attr_default();

    a.dtype = t->dtype;
    a.f = 1;
    a.nd[0] = t->rank;
    memcpy(a.d[0], t->shape, sizeof(Dim) * t->rank);
    return op1(&T, OP_full, &a, NULL, 0);
}

static bool call_grad(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor *x[OPERANDS], *y[RESULTS], *u[RESULTS] = {NULL};
    int n = split_operands(self, in, x), k = 0;
    Pullback *p = trace_vjp(&T, (TensorFn){call_diff, self, RESULTS}, x, n, y, &k);
    bool ok = p != NULL;

    (void)nin;
    for (int i = 0; ok && i < k; i++)
        if (dtype_is_inexact((DType)y[i]->dtype))
            ok = (u[i] = ones_like(y[i])) != NULL;
    ok = ok && pullback_call(&T, p, u, out);
    for (int i = 0; p && i < k; i++) {
        tensor_unref(y[i]);
        tensor_unref(u[i]);
    }
    pullback_free(p);
    *nout = ok ? n : 0;
    return ok;
}

static bool call_jvp(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor *x[OPERANDS], *t[OPERANDS] = {NULL}, *dy[RESULTS];
    int n = split_operands(self, in, x), k = 0;
    bool ok = true;

    (void)nin;
    for (int i = 0; i < n; i++)
        t[i] = ones_like(x[i]);
    ok = trace_jvp(&T, (TensorFn){call_diff, self, RESULTS}, x, t, n, out, dy, &k);
    for (int i = 0; ok && i < k; i++)
        if (dy[i])
            out[k + i] = dy[i];
        else
            out[k + i] = tensor_ref(out[i]);
    for (int i = 0; i < n; i++)
        tensor_unref(t[i]);
    *nout = ok ? 2 * k : 0;
    return ok;
}

/* A batch of two along a new first axis. */
static Tensor *doubled(Tensor *t)
{
    Attr a = attr_default(), b = attr_default();
    Tensor *row, *two;

    a.nd[0] = (uint8_t)(t->rank + 1);
    a.d[0][0] = 1;
    memcpy(a.d[0] + 1, t->shape, sizeof(Dim) * t->rank);
    row = op1(&T, OP_reshape, &a, &t, 1);
    b.naxes = 1;
    b.axis[0] = (int8_t)-(t->rank + 1);
    two = row ? op1(&T, OP_concat, &b, (Tensor *[]){row, row}, 2) : NULL;
    tensor_unref(row);
    return two;
}

static bool call_vmap(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor *x[OPERANDS];
    int axis[OPERANDS] = {0};
    bool ok = true;

    for (int i = 0; i < nin; i++)
        ok &= (x[i] = doubled(in[i])) != NULL;
    ok = ok && trace_vmap(&T, (TensorFn){call_plain, self, RESULTS}, x, axis, nin, NULL, out, nout);
    for (int i = 0; i < nin; i++)
        tensor_unref(x[i]);
    return ok;
}

/* -- sizes ------------------------------------------------------------------------------------------------------------ */

typedef int64_t (*Resize)(int64_t n);

static int64_t as_is(int64_t n) { return n; }
static int64_t twice(int64_t n) { return 2 * n; }
static int64_t one_more(int64_t n) { return n < 2 ? n : n + 1; }
static int64_t to_one(int64_t n) { (void)n; return 1; }
static int64_t to_none(int64_t n) { return n < 2 ? n : 0; }

/* An operand of other sizes: floats anew, ints as indices that exist everywhere. */
static Tensor *resized(const Tensor *t, Resize f)
{
    Dim shape[16];

    for (int i = 0; i < t->rank; i++)
        shape[i] = t->dtype == DT_uint32 && i == t->rank - 1 ? t->shape[i] : f(t->shape[i]);
    return case_tensor((DType)t->dtype, t->rank, shape, dtype_is_inexact((DType)t->dtype) ? 0.25 : 0, dtype_is_inexact((DType)t->dtype) ? 2 : 1);
}

/* Sizes that reshape and friends are given: an operand's size, or the product of all. */
static Dim size_like(const Case *c, const TType *types, int64_t v)
{
    for (int i = 0; i < c->nin; i++) {
        Dim all = 1;
        for (int k = 0; k < c->in[i]->rank; k++) {
            if (v > 1 && c->in[i]->shape[k] == v)
                return types[i].shape[k];
            all = dim_mul(all, types[i].shape[k]);
        }
        if (v > 1 && tensor_size(c->in[i]) == v)
            return all;
    }
    return v;
}

static Attr symbolic_attr(const Case *c, const TType *types)
{
    Attr a = c->a;

    if (c->op == OP_reshape || c->op == OP_broadcast)
        for (int i = 0; i < a.nd[0]; i++)
            a.d[0][i] = size_like(c, types, a.d[0][i]);
    return a;
}

/* The attributes at the sizes of a call (dim_set_now). */
static Attr attr_now(const Attr *a)
{
    Attr b = *a;
    int64_t v;

    for (int k = 0; k < 4; k++)
        for (int i = 0; i < b.nd[k]; i++)
            if (!dim_is_const(b.d[k][i]) && dim_now(b.d[k][i], &v))
                b.d[k][i] = dim_const(v);
    return b;
}

/* -- one case, one form ------------------------------------------------------------------------------------------------ */

static void name_sizes(TType *types, int n)
{
    char name[16];

    for (int i = 0; i < n; i++)
        for (int k = 0; k < types[i].rank; k++) {
            snprintf(name, sizeof name, "%c%d", 'a' + i, k);
            types[i].shape[k] = dim_sized(sym(name), types[i].shape[k]);
        }
}

static Graph *reread(Sample *s, Graph *g)
{
    StrBuf a = {0}, b = {0}, err = {0};
    Graph *back;

    graph_print(g, &a);
    back = graph_parse(sb_str(&a), a.n, &err);
    sb_clear(&T.message);
    sb_puts(&T.message, sb_str(&err));
    if (CHECK(back != NULL, "text reads back")) {
        graph_print(back, &b);
        CHECK(!strcmp(sb_str(&a), sb_str(&b)), "text prints the same again");
    }
    sb_done(&a);
    sb_done(&b);
    sb_done(&err);
    return back;
}

static void set_sizes(const TType *types, Tensor *const *in, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < types[i].rank; k++)
            dim_set_now(types[i].shape[k], in[i]->shape[k]);
}

/* The graph and the op itself on the same operands. */
static void compare(Sample *s, TensorFn fn, Graph *g, Tensor *const *cap, int ncap, Tensor *const *in, int n, const TType *types)
{
    Tensor *all[64], *got[2 * RESULTS], *want[2 * RESULTS];
    Sample plain = *s;
    int k = 0, m = 0;
    bool ran, runs;

    memcpy(all, cap, sizeof *all * (size_t)ncap);
    memcpy(all + ncap, in, sizeof *all * (size_t)n);
    calls++;
    if (!graph_takes(g, all))
        return;
    served++;
    set_sizes(types, in, n);
    plain.a = attr_now(&s->a);
    fn.self = &plain;
    ran = graph_apply(&T, g, all, ncap + n, got, &k);
    runs = fn.call(fn.self, in, n, want, &m);
    CHECK(ran == runs, ran ? "the graph runs where the op does not" : "the op runs where the graph does not");
    for (int i = 0; ran && i < k; i++) {
        if (runs)
            CHECK(tensor_same_bits(got[i], want[i]), "the same bits");
        tensor_unref(got[i]);
    }
    for (int i = 0; runs && i < m; i++)
        tensor_unref(want[i]);
}

static void check_form(const Case *c, const char *form, bool (*call)(void *, Tensor *const *, int, Tensor **, int *))
{
    static const Resize sizes[] = {as_is, twice, one_more, to_one, to_none, as_is};
    Sample sample = {.c = c, .form = form}, *s = &sample;
    TensorFn fn = {call, s, 2 * RESULTS};
    TType types[OPERANDS];
    Tensor **cap = NULL;
    int ncap = 0;
    Graph *g, *back;

    for (int i = 0; i < c->nin; i++)
        types[i] = tensor_type(c->in[i]);
    name_sizes(types, c->nin);
    s->a = symbolic_attr(c, types);
    dim_ask_begin();
    g = stage(&T, sym("case"), fn, types, c->nin, &cap, &ncap);
    if (g) {
        CHECK(graph_verify(g, &T.message), "verifies");
        graph_fold(g);
        graph_cse(g);
        graph_dce(g);
        CHECK(graph_verify(g, &T.message), "verifies after passes");
    }
    DimConds conds = {0};
    dim_ask_end(&conds);
    if (!CHECK(g != NULL, "stages"))
        return;
    g->conds.n = 0;
    for (int i = 0; i < conds.n; i++)
        vec_push(&g->conds, conds.at[i]);
    vec_free(&conds);
    back = reread(s, g);
    for (size_t r = 0; r < sizeof sizes / sizeof *sizes; r++) {
        Tensor *in[OPERANDS];
        for (int i = 0; i < c->nin; i++)
            in[i] = r ? resized(c->in[i], sizes[r]) : tensor_ref(c->in[i]);
        int before = served;
        compare(s, fn, g, cap, ncap, in, c->nin, types);
        if (!r)
            CHECK(served == before + 1, "takes the sizes it was staged for");
        if (back)
            compare(s, fn, back, cap, ncap, in, c->nin, types);
        for (int i = 0; i < c->nin; i++)
            tensor_unref(in[i]);
    }
    for (int i = 0; i < ncap; i++)
        tensor_unref(cap[i]);
    tsr_free(cap);
    graph_unref(g);
    graph_unref(back);
}

static bool differentiable(const Case *c)
{
    bool any = false;

    for (int i = 0; i < c->nin; i++)
        any |= is_diff(c, i);
    return any && strcmp(op_info[c->op].jvp, "none");
}

static void test_table(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        Cases c = {0};
        if (op_info[op].family >= FAM_CONTROL || (getenv("OPS_ONLY") && strcmp(getenv("OPS_ONLY"), op_info[op].name)))
            continue;
        cases_of(&c, (OpId)op);
        for (int i = 0; i < c.n; i++) {
            if (!c.at[i].nin)
                continue;
            check_form(&c.at[i], "itself", call_plain);
            if (strcmp(op_info[op].batch, "none"))
                check_form(&c.at[i], "vmap", call_vmap);
            if (differentiable(&c.at[i])) {
                check_form(&c.at[i], "grad", call_grad);
                check_form(&c.at[i], "jvp", call_jvp);
            }
        }
        cases_free(&c);
    }
    print_message("%d checks, %d failures; %d of %d calls served by the one graph\n", checks, failures, served, calls);
    assert_int_equal(failures, 0);
    assert_true(getenv("OPS_ONLY") || (checks > 5000 && served > calls / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    int r;

    trace_init(&T);
    pool_init(1);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    trace_done(&T);
    return r;
}
