/* foreign.h - passes over graphs as text: what plugins bring (src/tools/tessera_plugin.h). */
#ifndef TSR_IR_GRAPH_FOREIGN_H
#define TSR_IR_GRAPH_FOREIGN_H

#include "ir/graph/graph.h"

/* run calls give with the text of the changed graph, or does not where nothing changes. name and help are copied. */
typedef void ForeignGive(void *to, const char *graph);
typedef void ForeignRun(const char *graph, ForeignGive *give, void *to, void *state);
void foreign_pass_add(const char *name, const char *help, ForeignRun *run, void *state);
/*
 * All of them, in order, over a graph: a new reference, to g itself where nothing changed.  Graphs that hold what text cannot
 * say (rules of the program's own) are left as they are.  NULL: *err names the pass and what was wrong with its text.
 */
Graph *foreign_passes_run(Graph *g, StrBuf *err);

#endif
