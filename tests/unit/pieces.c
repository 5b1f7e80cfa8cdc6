/*
 * Library modules are parsed and resolved in pieces, in any order; together
 * they are what the whole text parses to, at the same places.
 */
#include "unit.h"

#include "base/alloc.h"
#include "frontend/check/scope.h"
#include "frontend/check/spaces.h"
#include "frontend/prelude.h"

#include <string.h>

typedef struct { Ast *at[200000]; int n; } Nodes;
static Nodes piecewise, whole;

static bool list_node(Ast *n, void *state)
{
    Nodes *all = state;

    if (!n)
        return true;
    assert_true(all->n < (int)(sizeof all->at / sizeof *all->at));
    all->at[all->n++] = n;
    return ast_walk(n, list_node, all);
}

/* Statements alone: resolving adds nodes of its own only inside of `from m import *`. */
static void same_trees(const char *module)
{
    size_t len;
    const char *text = stdlib_text(module, &len);
    Source src = {.path = module, .text = text, .len = (uint32_t)len, .base = 1};
    DiagSink sink = {0};
    Unit *one = unit_parse(&src, &sink), *many = space_resolved(space_builtin(module));
    uint32_t by;

    assert_int_equal(sink.errors, 0);
    assert_non_null(many);
    assert_int_equal(one->module->body.n, many->module->body.n);
    assert_true(ast_equal((Ast *)one->module, (Ast *)many->module));
    piecewise.n = whole.n = 0;
    list_node((Ast *)one->module, &whole);
    list_node((Ast *)many->module, &piecewise);
    assert_int_equal(whole.n, piecewise.n);
    by = many->module->ast.span.lo - 1;
    for (int i = 0; i < whole.n; i++) {
        assert_int_equal(whole.at[i]->span.lo + by, piecewise.at[i]->span.lo);
        assert_int_equal(whole.at[i]->span.hi + by, piecewise.at[i]->span.hi);
    }
    diag_sink_done(&sink);
    unit_free(one);
}

static void pieces_make_the_whole(void **state)
{
    for (int i = 0; stdlib_name(i); i++)
        same_trees(stdlib_name(i));
    spaces_done();
}

/* The last definition first, then the others: each finds the names of all. */
static void order_does_not_matter(void **state)
{
    for (int i = 0; stdlib_name(i); i++) {
        const Space *s = space_builtin(stdlib_name(i));
        int defs = 0;
        assert_non_null(space_scope(s));
        for (int k = s->piece.n - 1; k >= 0; k--) {
            assert_non_null(space_piece(s, k));
            if (!s->piece.at[k].name)
                continue;
            defs++;
            assert_int_equal(space_piece_of(s, s->piece.at[k].name), k);
            assert_non_null(space_definition(s, s->piece.at[k].name));
        }
        assert_true(defs > 0 || s->piece.n == 1);
        assert_false(s->open);
    }
    spaces_done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test(order_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
