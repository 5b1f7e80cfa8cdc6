/*
 * Keys of what is decided about large graphs: what a decision follows from is in the key, and what things are called is not.
 */
#include "unit.h"

#include "ir/graph/graph.h"
#include "ir/graph/trace.h"
#include "ir/schedule/fused.h"
#include "ir/schedule/kept.h"
#include "runtime/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 300 };          /* nodes: decisions about small graphs are not kept */

static char folder[] = "/tmp/tessera-kept-XXXXXX";

static bool origin(Hash128 *out)
{
    *out = (Hash128){1, 2};
    return true;
}

static const KernelCompiler compiler = {.origin = origin};

/* A chain of nodes behind `first`, which gives %2 of type y, in a graph of these parameters. */
static Graph *chain(const char *params, const char *conds, const char *first, const char *y)
{
    StrBuf text = {0}, err = {0};
    Graph *g;

    sb_printf(&text, "tessera.graph v1\ngraph @f(%s) -> (%%%d)%s {\n  %%2: %s = %s\n", params, LENGTH + 2, conds, y, first);
    for (int i = 3; i <= LENGTH + 2; i++)
        sb_printf(&text, "  %%%d: %s = exp(%%%d)\n", i, y, i - 1);
    sb_puts(&text, "}\n");
    g = graph_parse(sb_str(&text), text.n, &err);
    if (!g)
        fail_msg("%s", sb_str(&err));
    sb_done(&text);
    sb_done(&err);
    return g;
}

static Hash128 key_and_end(Graph *g)
{
    Kept k = kept_of(g, "thin");

    assert_true(k.in_use);
    graph_unref(g);
    return k.key;
}

static Hash128 key_of(const char *params, const char *conds, const char *first, const char *y) { return key_and_end(chain(params, conds, first, y)); }

static bool same(Hash128 a, Hash128 b) { return a.hi == b.hi && a.lo == b.lo; }

static void names_decide_nothing(void **state)
{
    Hash128 k = key_of("%0: f32[S, 4], %1: f32[T, 4]", " where S == T", "add(%0, %0)", "f32[S, 4]");

    assert_true(same(k, key_of("%0: f32[A, 4], %1: f32[B, 4]", " where A == B", "add(%0, %0)", "f32[A, 4]")));
    assert_false(same(k, key_of("%0: f32[A, 5], %1: f32[B, 4]", " where A == B", "add(%0, %0)", "f32[A, 5]")));
    assert_false(same(k, key_of("%0: f32[A, 4], %1: f32[A, 4]", "", "add(%0, %0)", "f32[A, 4]")));
    assert_false(same(k, key_of("%0: f32[A, 4], %1: f32[B, 4]", " where A == B", "exp(%0)", "f32[A, 4]")));
}

/* Equal sizes are one when it is decided what to fuse. */
static void conditions_decide(void **state)
{
    const char *params = "%0: f32[S, 4], %1: f32[T, 4]";
    Hash128 none = key_of(params, "", "add(%0, %0)", "f32[S, 4]"), equal = key_of(params, " where S == T", "add(%0, %0)", "f32[S, 4]");

    assert_false(same(none, equal));
    assert_false(same(equal, key_of(params, " where S == 7", "add(%0, %0)", "f32[S, 4]")));
    assert_true(same(none, key_of(params, " where S >= 3", "add(%0, %0)", "f32[S, 4]")));
}

static void axes_decide(void **state)
{
    const char *params = "%0: f32[4, 4, 4], %1: int32[4]", *y = "f32[4, 4, 4]";
    Hash128 k = key_of(params, "", "permute(%0) {axes=(-2, -1, -3)}", y);

    assert_false(same(k, key_of(params, "", "permute(%0) {axes=(-1, -2, -3)}", y)));
}

static Hash128 in_scope(const char *scope)
{
    Graph *g = chain("%0: f32[4], %1: f32[4]", "", "add(%0, %1)", "f32[4]");

    for (Node *n = g->first; n; n = n->next)
        n->scope = sym(scope);
    return key_and_end(g);
}

/* What a block asks for, not what it is called. */
static void blocks_decide(void **state)
{
    Hash128 k = in_scope("device=gpu:0");

    assert_true(same(k, in_scope("device=gpu:1")));
    assert_false(same(k, in_scope(SCOPE_FUSION "auto#1")));
    assert_false(same(in_scope(SCOPE_FUSION "horizontal#1"), in_scope(SCOPE_FUSION "auto#1")));
    assert_true(same(in_scope(SCOPE_FUSION "auto#1"), in_scope(SCOPE_FUSION "auto#2")));
}

static void passes_decide(void **state)
{
    Hash128 k = in_scope("device=gpu:0");

    passes_off("apart");
    assert_false(same(k, in_scope("device=gpu:0")));
}

static int setup(void **state)
{
    graph_init();
    if (!mkdtemp(folder))
        return -1;
    store_begin(folder, 1 << 20);
    fused_begin(&compiler, false);
    return 0;
}

static int teardown(void **state)
{
    store_done();
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_decide_nothing), cmocka_unit_test(conditions_decide), cmocka_unit_test(axes_decide),
        cmocka_unit_test(blocks_decide), cmocka_unit_test(passes_decide),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
