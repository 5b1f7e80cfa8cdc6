/*
 * Passes that know graphs by their text alone.
 *
 * The text is the interface: it is complete and versioned, so that a library
 * of another maker needs neither our structures nor our compiler.  Nothing
 * that comes back is trusted: it is parsed, verified, and its parameters and
 * results must have the types that they had.
 */
#include "ir/graph/foreign.h"

#include "ir/graph/edit.h"

#include <string.h>

typedef struct ForeignPass {
    Sym name;
    ForeignRun *run;
    void *state;
} ForeignPass;

static Vec(ForeignPass) passes;

void foreign_pass_add(const char *name, const char *help, ForeignRun *run, void *state)
{
    StrBuf what = {0};

    vec_push(&passes, ((ForeignPass){sym(name), run, state}));
    sb_printf(&what, "graph     %s", help ? help : "a pass of a plugin");
    pass_declare(name, sb_str(&what));
    sb_done(&what);
}

/* Types as text: those of the new graph have sizes of their own, of the same names. */
static void put_types(const Graph *g, StrBuf *out)
{
    for (int i = 0; i < g->params.n; i++) {
        ttype_print(&g->params.at[i]->type[0], out);
        sb_putc(out, ';');
    }
    sb_puts(out, "->");
    for (int i = 0; i < g->results.n; i++) {
        ttype_print(gvalue_type(g->results.at[i]), out);
        sb_putc(out, ';');
    }
}

/* The graph of a text that says itself what g says: both went through one printer, so that sizes have the same names. */
static bool same_faces(const Graph *was, const Graph *now)
{
    StrBuf a = {0}, b = {0};
    bool same;

    put_types(was, &a);
    put_types(now, &b);
    same = !strcmp(sb_str(&a), sb_str(&b));
    sb_done(&a);
    sb_done(&b);
    return same;
}

static void take(void *to, const char *graph)
{
    sb_clear(to);
    sb_puts(to, graph);
}

/* The graph after one pass; NULL: *err says what is wrong. */
static Graph *run_one(const ForeignPass *p, Graph *g, StrBuf *err)
{
    StrBuf text = {0}, changed = {0}, why = {0};
    Graph *back = NULL, *now = NULL;

    graph_print(g, &text);
    p->run(sb_str(&text), take, &changed, p->state);
    if (!changed.n) {
        now = graph_ref(g);
    } else if ((back = graph_parse(sb_str(&text), text.n, &why)) && (now = graph_parse(sb_str(&changed), changed.n, &why)) &&
               !same_faces(back, now)) {
        sb_puts(&why, "it takes or gives other values than before");
        graph_unref(now);
        now = NULL;
    }
    if (!now)
        sb_printf(err, "the pass %s gave a graph that is none: %s", p->name->text, sb_str(&why));
    else
        pass_done(p->name->text, &graph_ir, now);
    graph_unref(back);
    sb_done(&changed);
    sb_done(&why);
    sb_done(&text);
    return now;
}

Graph *foreign_passes_run(Graph *g, StrBuf *err)
{
    Graph *now = graph_ref(g);

    for (int i = 0; i < passes.n && now && graph_text_is_whole(now); i++) {
        Graph *next;
        if (!pass_runs(passes.at[i].name->text))
            continue;
        next = run_one(&passes.at[i], now, err);
        graph_unref(now);
        now = next;
    }
    return now;
}
