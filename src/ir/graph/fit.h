/*
 * fit.h - the same graph in less memory: values that are large and wait long
 * are given up and computed again where they are needed.
 */
#ifndef TSR_IR_FIT_H
#define TSR_IR_FIT_H

#include "ir/graph/graph.h"

typedef struct FitReport {
    int64_t peak;               /* the most bytes between operands and results, results included */
    int again;                  /* nodes that are computed again */
    int64_t needed;             /* where it does not fit: the bytes that stood at once when nothing was left to give up */
} FitReport;

/*
 * A graph that gives the same bits and holds at most `budget` bytes besides its operands; all its sizes are numbers.
 * Effects stay in order and happen once.  NULL: nothing was found that fits, report->needed says how much there was.
 */
Graph *graph_fit(const Graph *g, int64_t budget, FitReport *report);

#endif
