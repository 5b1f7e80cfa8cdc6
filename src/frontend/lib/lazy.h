/*
 * lazy.h - iterators made in C.
 *
 * All of them share one struct of four values and four numbers, so freeing
 * and visiting are written once; an iterator is a `next` function and a name.
 */
#ifndef TSR_FRONTEND_LAZY_H
#define TSR_FRONTEND_LAZY_H

#include "frontend/lib/lib.h"

typedef struct Lazy {
    NativeInst head;
    Value v[4];                 /* owned; V_ERR unused */
    int64_t n[4];
} Lazy;

void lazy_free(void *p);
void lazy_visit(void *p, void (*fn)(Value *v, void *st), void *st);
#define LAZY_TYPE(name, next) {name, lazy_free, lazy_visit, next}

/* A new iterator that owns the values given (V_ERR for none). */
Value lazy_new(const NativeType *t, Value a, Value b, Value c, Value d);
static inline Lazy *as_lazy(Value v) { return (Lazy *)v.o; }
/* A tuple of the iterators of each value; V_ERR pending. */
Value iterators_of(Interp *I, const Value *at, int64_t n);
/* A tuple of n unset elements to give out: the one in *kept when nobody else holds it any more, else a new one.
 * *kept keeps a reference. */
Value tuple_again(Value *kept, int64_t n);
/* The next element of v[i], which is dropped at its end. */
Value lazy_pull(Interp *I, Lazy *z, int i);

#endif
