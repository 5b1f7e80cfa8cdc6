/*
 * infer.h - what the typing rules of ops share (private to ir/core and the Graph IR's own rows).
 *
 * A shape rule fills the shapes (and the number) of the results, a dtype rule
 * their dtypes, weakness and policies.  Both return false after saying why.
 */
#ifndef TSR_IR_INFER_H
#define TSR_IR_INFER_H

#include "ir/core/dim_ask.h"
#include "ir/core/op.h"

typedef struct Infer {
    OpId op;
    const Attr *a;
    const TType *in;
    int nin;
    TType *out;
    int nout;
    StrBuf *err;
    int code;
} Infer;

enum { INFER_SHAPE = 3, INFER_DTYPE = 4 };

typedef bool (*InferRule)(Infer *f);

/* Report; always false. */
bool infer_fail(Infer *f, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "[32, 784]" of a type, with the numbers at hand: text that lives until the next few calls. */
const char *shape_text(const TType *t);
const char *dims_text(const Dim *d, int n);
/* The op with its operands as users write it: "[2, 3] + [4]", "maximum([2], [3])". */
const char *call_text(Infer *f);

/* Is d known to be less than lo (a small number that is not negative)? */
bool dim_below(Dim d, int64_t lo);
bool shape_join(const TType *a, const TType *b, TType *out);
/* An axis attribute as an index from the front; -1 after reporting that there is no such axis. */
int infer_axis(Infer *f, int axis, int rank);

#endif
