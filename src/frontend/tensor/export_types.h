/*
 * export_types.h - the parameters of an exported function as example values with named sizes.
 */
#ifndef TSR_FRONTEND_EXPORT_TYPES_H
#define TSR_FRONTEND_EXPORT_TYPES_H

#include "frontend/tensor/jit_sizes.h"
#include "frontend/tensor/tree.h"
#include "ir/graph/graph.h"

enum { EXPORT_VARS = 32 };

typedef struct SizeText {
    Dim size;
    char *text;                 /* NULL: the number */
    bool literal;               /* all names in the text are variables */
} SizeText;

typedef struct ExampleTensor {
    DType dtype;
    int rank;
    SizeText axis[16];
    Tensor *like;               /* an example that the program gave; NULL: it gave none */
} ExampleTensor;

/* What a function is called with. */
typedef struct Example {
    Interp *I;
    FuncObj *func;              /* names in types are looked up where it was defined */
    Vec(Value) value;           /* one for each argument that is passed */
    Vec(Sym) name;
    Vec(bool) given;            /* by an example of the program's */
    int npos;                   /* passed by position: the first ones */
    Vec(ExampleTensor) tensor;  /* leaves, in order */
    NameVec leaf;
    Sym var[EXPORT_VARS];       /* the sizes that have names */
    int64_t size[EXPORT_VARS];  /* the number to try for each */
    Dim dim[EXPORT_VARS];       /* while it is staged */
    int nvars;
} Example;

/*
 * Read the parameters of f (a function or bound method); args: example values by name, or None.
 * false: *why says what cannot be exported.
 */
bool example_read(Interp *I, Value f, Value args, Example *x, StrBuf *why);
/* The arguments for the sizes of now, as tensors without memory of their own. false: some size has no number. */
bool example_fill(Example *x);
CallArgs example_call(const Example *x);
/* For stage: sizes as variables that are x->size at hand. */
SizeDeclare example_sizes(Example *x);
/* Does g serve these sizes? `first` operands come before the arguments' tensors. */
bool example_is_served(Example *x, Graph *g, Tensor *const *first, int nfirst);
void example_done(Example *x);

#endif
