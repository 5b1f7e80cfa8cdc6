/*
 * index.h - a subscript, resolved against a shape.
 *
 * x[a, 1:5:2, None, mask] becomes a list of items, one for each axis of x (and one
 * for each None).  Masks have become integer tensors, one for each axis they cover.
 */
#ifndef TSR_FRONTEND_TENSOR_INDEX_H
#define TSR_FRONTEND_TENSOR_INDEX_H

#include "frontend/tensor/bind.h"

typedef enum { IX_INT, IX_SLICE, IX_NEW, IX_TENSOR } IxKind;

typedef struct IxItem {
    IxKind kind;
    Dim start, step, count;         /* IX_SLICE; IX_INT: start. The step is a number */
    Tensor *t;                      /* IX_TENSOR: owned */
} IxItem;

typedef struct Index {
    IxItem item[2 * RANK_MAX];
    int n, ntensors;
    Tensor *mask;                   /* the whole subscript was one mask (owned), not yet turned into items */
} Index;

/* Resolve `key` for a tensor of this shape; with keep_mask a lone mask stays one. false: exception pending. */
bool index_resolve(Interp *I, Tensor *x, Value key, bool keep_mask, Index *out);
void index_done(Index *ix);
bool index_int(Interp *I, Index *ix, int64_t i, int axis, Dim size);        /* one more item: i along an axis of this size */
bool index_mask_items(Interp *I, Tensor *x, Index *ix);     /* the kept mask as integer tensors after all */

/* With --debug: do all slices of a subscript of n elements end within x? false: IndexError is pending. */
bool index_slices_inside(Interp *I, const Tensor *x, const Value *key, int64_t n);

/* The part of x that slices and ints choose (tensors choose all of their axis, ints keep an axis of 1 when
 * `keep`); borrows. */
Tensor *index_basic(Interp *I, Tensor *x, const Index *ix, bool keep);

#endif
