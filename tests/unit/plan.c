/*
 * The memory plan and the fitting of graphs, on random graphs that run: the
 * executor never holds more than the plan says, a fitted graph gives the same
 * bits in no more than its budget, and its text reads back.
 */
#include "unit.h"

#include "ir/graph/fit.h"
#include "ir/graph/plan.h"
#include "ir/graph/trace.h"
#include "runtime/kernels.h"
#include "runtime/storage.h"

#include <string.h>

enum { N = 48, GRAPHS = 600, RESULTS = 8 };

static uint64_t seed;

static int draw(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

static GValue add(Graph *g, OpId op, const Attr *a, GValue x, GValue y)
{
    GValue in[] = {x, y};
    StrBuf err = {0};
    int code, nin = op_info[op].nin < 0 ? 1 : op_info[op].nin;
    Node *n = graph_add(g, op, a, in, nin, (Span){0, 0}, &err, &code);

    if (!n)
        fail_msg("%s: %s", op_info[op].name, sb_str(&err));
    sb_done(&err);
    return (GValue){n, 0};
}

static GValue turned(Graph *g, GValue x)
{
    Attr a = attr_default();

    a.naxes = 2;
    a.axis[0] = -1;
    a.axis[1] = -2;
    return add(g, OP_permute, &a, x, x);
}

static GValue shaped(Graph *g, GValue x, int rank, Dim p, Dim q)
{
    Attr a = attr_default();

    a.nd[0] = (uint8_t)rank;
    a.d[0][0] = p;
    a.d[0][1] = q;
    return add(g, OP_reshape, &a, x, x);
}

/* Through [N*N]: of a turned matrix a copy, else a view. */
static GValue flattened(Graph *g, GValue x) { return shaped(g, shaped(g, x, 1, N * N, 0), 2, N, N); }

static GValue row_sums(Graph *g, GValue x)
{
    Attr a = attr_default(), b = attr_default();

    a.naxes = 1;
    a.axis[0] = -1;
    b.nd[0] = 2;
    b.d[0][0] = b.d[0][1] = N;
    GValue s = add(g, OP_sum, &a, x, x);
    return add(g, OP_broadcast, &b, shaped(g, s, 2, N, 1), x);
}

/* A call that may hand its operand out, or a view of it. */
static GValue called(Graph *g, GValue x)
{
    Attr a = attr_default();
    Graph *r = graph_new(sym("inner"));
    GValue p = graph_param(r, gvalue_type(x)), q = add(r, OP_tanh, NULL, p, p);

    graph_result(r, draw(2) ? turned(r, p) : add(r, OP_mul, NULL, q, add(r, OP_exp, NULL, q, q)));
    a.region[0] = r;
    GValue y = add(g, OP_call, &a, x, x);
    graph_unref(r);
    return y;
}

static GValue random_node(Graph *g, GValue x, GValue y)
{
    static const OpId unary[] = {OP_tanh, OP_exp, OP_neg, OP_sigmoid}, binary[] = {OP_add, OP_mul, OP_sub, OP_maximum};

    switch (draw(9)) {
    case 0: return turned(g, x);
    case 1: return flattened(g, x);
    case 2: return row_sums(g, x);
    case 3: return add(g, OP_matmul, NULL, x, y);
    case 8: return called(g, x);
    case 4: case 5: return add(g, binary[draw(4)], NULL, x, y);
    default: return add(g, unary[draw(4)], NULL, x, x);
    }
}

/* Values that wait long: the later half of the nodes takes its operands from anywhere. */
static Graph *random_graph(void)
{
    Graph *g = graph_new(sym("random"));
    TType t = {.dtype = DT_f32, .rank = 2, .shape = {N, N}};
    GValue v[64];
    int n = 0, last = 12 + draw(52);

    v[n++] = graph_param(g, &t);
    v[n++] = graph_param(g, &t);
    while (n < last) {
        int back = n > last / 2 ? n : 3 < n ? 3 : n;
        v[n] = random_node(g, v[n - 1 - draw(back)], v[n - 1 - draw(back)]);
        n++;
    }
    for (int i = 0, k = 1 + draw(3); i < k; i++)
        graph_result(g, v[n - 1 - draw(4)]);
    graph_dce(g);
    return g;
}

static Tensor *operand(int k)
{
    Dim d[] = {N, N};
    Tensor *t = tensor_new(DT_f32, 2, d);

    for (int i = 0; i < N * N; i++)
        elem_set_f(t, i, (double)((i * 37 + k * 11) % 101) / 101 - 0.5);
    return t;
}

/* Run it; gives the most bytes that were in use beyond the operands. */
static int64_t run(Trace *T, Graph *g, Tensor **out, int *nout)
{
    Tensor *in[] = {operand(0), operand(1)};
    size_t before = storage_live_bytes();

    storage_reset_peak();
    if (!graph_apply(T, g, in, 2, out, nout))
        fail_msg("%s", sb_str(&T->message));
    int64_t most = (int64_t)(storage_peak_bytes() - before);
    tensor_unref(in[0]);
    tensor_unref(in[1]);
    return most;
}

static void drop(Tensor **out, int n)
{
    for (int i = 0; i < n; i++)
        tensor_unref(out[i]);
}

static int64_t planned(const Graph *g)
{
    Plan *p = graph_plan(g);
    int64_t v;

    assert_true(dim_const_value(plan_peak(p), &v));
    plan_free(p);
    return v;
}

static void reads_back(const Graph *g)
{
    StrBuf a = {0}, b = {0}, err = {0};
    Graph *h;

    graph_print(g, &a);
    h = graph_parse(sb_str(&a), a.n, &err);
    if (!h)
        fail_msg("%s\n%s", sb_str(&err), sb_str(&a));
    graph_print(h, &b);
    assert_string_equal(sb_str(&a), sb_str(&b));
    graph_unref(h);
    sb_done(&a);
    sb_done(&b);
    sb_done(&err);
}

static void same_bits(Tensor **a, Tensor **b, int n)
{
    for (int i = 0; i < n; i++) {
        Tensor *x = tensor_contiguous(a[i]), *y = tensor_contiguous(b[i]);
        assert_true(tensor_same_bits(x, y));
        tensor_unref(x);
        tensor_unref(y);
    }
}

/* Budgets from plenty down to what cannot do. Gives how many graphs of less memory there were. */
static int fit_down(Trace *T, Graph *g, Tensor **want, int nwant)
{
    int fitted = 0;

    for (int64_t budget = planned(g); budget > 0; budget -= N * N * 4) {
        FitReport r;
        Graph *h = graph_fit(g, budget, &r);
        Tensor *out[RESULTS];
        StrBuf err = {0};
        int nout = 0;
        if (!h) {
            assert_true(r.needed > budget);
            break;
        }
        if (!graph_verify(h, &err))
            fail_msg("%s", sb_str(&err));
        assert_true(r.peak <= budget);
        assert_true(planned(h) <= r.peak);
        assert_true(run(T, h, out, &nout) <= budget);
        assert_int_equal(nout, nwant);
        same_bits(out, want, nout);
        reads_back(h);
        graph_cse(h);                                   /* recomputations stay apart from what they repeat */
        assert_true(planned(h) <= budget);
        fitted += r.again > 0;
        drop(out, nout);
        graph_unref(h);
        sb_done(&err);
    }
    return fitted;
}

static void the_plan_holds_and_graphs_fit(void **state)
{
    Trace T;
    int fitted = 0;

    (void)state;
    trace_init(&T);
    for (int k = 0; k < GRAPHS; k++) {
        Tensor *out[RESULTS];
        int nout = 0;
        seed = (uint64_t)k * 7919 + 1;
        Graph *g = random_graph();
        int64_t plan = planned(g), most = run(&T, g, out, &nout);
        if (most > plan)
            fail_msg("graph %d takes %lld bytes, planned are %lld", k, (long long)most, (long long)plan);
        fitted += fit_down(&T, g, out, nout);
        drop(out, nout);
        graph_unref(g);
    }
    if (fitted < GRAPHS / 4)                           /* else the test says little */
        fail_msg("only %d graphs had to compute again", fitted);
    trace_done(&T);
}

static void sizes_may_stay_symbolic(void **state)
{
    static const char text[] = "tessera.graph v1\n"
                               "graph @f(%0: f32[B, 4], %1: f32[4, 8]) -> (%5) {\n"
                               "  %2: f32[B, 8] = matmul(%0, %1)\n"
                               "  %3: f32[B, 8] = tanh(%2)\n"
                               "  %4: f32[B, 8] = exp(%2)\n"
                               "  %5: f32[B, 8] = mul(%3, %4)\n"
                               "}\n";
    StrBuf err = {0}, out = {0};
    Graph *g = graph_parse(text, sizeof text - 1, &err);
    Plan *p;

    (void)state;
    assert_non_null(g);
    p = graph_plan(g);
    plan_print(p, &out);
    assert_string_equal(sb_str(&out), "# peak: 32*B+1152 bytes at step 0 (matmul)\n"
                                      "# or:   64*B bytes at step 1 (tanh)\n"
                                      "# block 2: 32*B bytes, steps 0 to 3 (matmul)\n"
                                      "# block 3: 32*B bytes, from step 1 to the end (tanh)\n"
                                      "# step 2 (exp) takes over the memory of its operand 1\n"
                                      "# step 3 (mul) takes over the memory of its operand 1\n"
                                      "# buffer 1: 32*B bytes, block 2\n"
                                      "# buffer 2: 32*B bytes, block 3\n");
    plan_free(p);
    graph_unref(g);
    sb_done(&err);
    sb_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_plan_holds_and_graphs_fit), cmocka_unit_test(sizes_may_stay_symbolic)};

    pool_init(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
