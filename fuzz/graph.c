/*
 * graph.c - any bytes, read as a graph.
 *
 * What reads is verified, survives the passes, and prints as text that reads
 * back and prints the same again.
 */
#include "session.h"
#include "targets.h"

#include "base/strbuf.h"
#include "ir/graph/graph.h"

static void must_verify(const Graph *g, const char *when)
{
    StrBuf err = {0};

    if (!graph_verify(g, &err))
        tsr_bug("%s: %s", when, sb_str(&err));
    sb_done(&err);
}

static void round_trip(const Graph *g)
{
    StrBuf a = {0}, b = {0}, err = {0};
    Graph *back;

    graph_print(g, &a);
    if (!(back = graph_parse(sb_str(&a), a.n, &err)))
        tsr_bug("printed text does not read back: %s\n%s", sb_str(&err), sb_str(&a));
    graph_print(back, &b);
    if (strcmp(sb_str(&a), sb_str(&b)))
        tsr_bug("text changed:\n%s\n%s", sb_str(&a), sb_str(&b));
    graph_unref(back);
    sb_done(&a);
    sb_done(&b);
    sb_done(&err);
}

static void try_text(const uint8_t *data, size_t n)
{
    StrBuf err = {0};
    Graph *g = graph_parse((const char *)data, n, &err);

    if (g) {
        must_verify(g, "as read");
        round_trip(g);
        graph_cse(g);
        must_verify(g, "after cse");
        graph_fold(g);
        must_verify(g, "after fold");
        round_trip(g);
    }
    graph_unref(g);
    sb_done(&err);
}

void fuzz_graph(const uint8_t *data, size_t n) { session_until_full(try_text, data, n); }
