/*
 * ir_values.h - graphs as values of the language: GraphIR, GraphNode, and the passes that programs write over them.
 */
#ifndef TSR_FRONTEND_IR_VALUES_H
#define TSR_FRONTEND_IR_VALUES_H

#include "frontend/tensor/transform.h"
#include "ir/graph/graph.h"

Value graph_value(Graph *g);            /* a GraphIR around g itself: what is changed through it is changed */
Graph *graph_of_value(Value v);         /* borrowed; NULL: v is no GraphIR */
Graph *graph_self(Interp *I, Value v);  /* the graph of a method's self, borrowed; NULL: TypeError pending */
Value graph_complain(Interp *I, StrBuf *err);           /* an edit's complaint as ValueError; frees it; V_ERR */

/* The passes of the program, then those of plugins, over a graph that was staged just now; *g may become another. false: an exception is pending. */
bool graph_passes_run(Interp *I, Graph **g);

#endif
