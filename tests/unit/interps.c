/*
 * Evaluators one after the other and side by side in one process: ending one drops all that it made, and nothing of another.
 */
#include "unit.h"

#include "frontend/check/scope.h"
#include "frontend/eval/eval.h"

#include <string.h>

typedef struct Program { Unit *unit; Scope *globals; Interp *I; } Program;

static Program start(const char *text)
{
    Program p = {.I = interp_new(NULL)};
    DiagSink sink = {0};

    p.unit = unit_parse(source_add("test.tsr", text, strlen(text)), &sink);
    p.globals = scope_new_module(sym("__main__"));
    scope_resolve(p.unit, p.globals, (ScopeOptions){0}, &sink);
    assert_int_equal(sink.errors, 0);
    diag_sink_done(&sink);
    return p;
}

static void finish(Program *p)
{
    interp_free(p->I);
    scope_free_module(p->globals);
    unit_free(p->unit);
}

/* The global `result` of a program that ran. */
static int64_t result(Program *p)
{
    Value v = VERR, m = vobj(interp_main(p->I));
    int64_t i = -1;

    if (interp_main(p->I))
        v = value_getattr_opt(p->I, m, sym("result"));
    if (v.tag == V_INT)
        i = v.i;
    value_unref(v);
    return i;
}

static const char *const programs[] = {
    "result = sum(range(5)) + 32\n",
    "class A:\n    def __init__(self): self.me = self\nxs = [A() for _ in range(50)]\nresult = 42\n",
    "def make(n):\n    def f(x=[1]): return n + len(x)\n    return f\nfs = [make(i) for i in range(10)]\nresult = fs[9]() + 32\n",
    "def g():\n    try:\n        while True: yield 1\n    finally:\n        pass\nit = g()\nnext(it)\nloop = [it]\nloop.append(loop)\nresult = 42\n",
    "x = ones((2, 3))\nf = jit(lambda x: (x * 7.0).sum())\nresult = int(f(x).item())\n",
    "g = grad(lambda x: (x * x).sum())\nresult = int(g(tensor([21.0])).item())\n",
    "import json, re, math\nresult = json.loads('42')\nm = re.compile('a+')\n",
    "try:\n    1 // 0\nexcept ZeroDivisionError as e:\n    kept = e\nresult = 42\n",
    "result = 42\nraise ValueError('the end')\n",
    "def make():\n    def g():\n        yield it\n    it = g()\n    return next\nmake()\nresult = 42\n",       /* a cycle through a generator */
    ("def make(n):\n    def again(x=n): return x\n    def g():\n        try:\n            yield it\n        finally:\n"
     "            again(), it\n    it = g()\n    next(it)\nfor n in range(3): make(n)\nresult = 42\n"),
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static void run(Program *p)
{
    if (!interp_run_unit(p->I, p->unit, sym("__main__")))
        exc_clear(p->I);
    assert_int_equal(result(p), 42);
}

/* What the first run leaves (names, one-character strings) is all that the later ones leave. */
static void an_end_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        int64_t first = 0;
        for (int round = 0; round < 3; round++) {
            Program p = start(programs[i]);
            run(&p);
            finish(&p);
            if (!round)
                first = heap_tracked();
            if (heap_tracked() != first)
                fail_msg("round %d of program %d leaves %lld objects", round, i, (long long)(heap_tracked() - first));
        }
    }
}

/* The end of one evaluator leaves another, with programs running in both, as it was. */
static void two_live_side_by_side(void **state)
{
    (void)state;
    for (int i = 0; i < PROGRAMS; i++) {
        Program a = start(programs[i]), b = start(programs[(i + 1) % PROGRAMS]);
        run(&a);
        run(&b);
        finish(&a);
        heap_collect();
        assert_int_equal(result(&b), 42);
        run(&b);
        finish(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_leaves_nothing),
        cmocka_unit_test(two_live_side_by_side),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
