/*
 * export.h - the exported functions of a program that has run, as graphs.
 *
 * A function is staged from the types of its parameters: Tensor["B", 784, f32]
 * is a tensor whose first size is a variable B.  What its graph asks about
 * sizes (is B 1?) becomes a condition; sizes that the first graph does not
 * serve get graphs of their own, its further forms.  Tensors that the function
 * reads from outside are weights, and those that it stores there are state.
 */
#ifndef TSR_FRONTEND_EXPORT_H
#define TSR_FRONTEND_EXPORT_H

#include "base/diag.h"
#include "frontend/tensor/tree.h"
#include "ir/graph/graph.h"

typedef struct ExportForm {
    Graph *graph;               /* parameters: captures, the key of random numbers, inputs; results: outputs, stores */
    Vec(int) capture, store;    /* weights */
    bool random;
    const char *arch;           /* of the GPUs that it is for; NULL: wherever the function runs */
} ExportForm;

typedef struct ExportFunction {
    Sym name;
    Span span;
    char *doc;                  /* NULL: none */
    NameVec input, output;
    Vec(ExportForm) form;       /* the first one has the signature's types */
} ExportFunction;

typedef struct ExportWeight { char *name; Tensor *t; bool state; } ExportWeight;

typedef struct Exports {
    Vec(ExportFunction) function;       /* by name */
    Vec(ExportWeight) weight;
    uint64_t seed, draws;               /* the state of random numbers */
} Exports;

/* Of the program's variables, or of a dict of names and functions that export() made. false: *sink says why. Whatever came of it is to be freed. */
bool exports_of(Interp *I, Value named, Exports *out, DiagSink *sink);
void exports_done(Exports *x);

#endif
