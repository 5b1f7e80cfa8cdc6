/*
 * tree.h - trees of tensors: lists, tuples, dicts, dataclasses and Modules.
 *
 * A transformation works on flat lists of tensors; a program works on trees.  tree_leaves lists the tensors of a value
 * in order (dict and field order), tree_rebuild makes an equal tree around other tensors.  What is no tensor
 * is static: it is kept as it is.  Instances count as trees when their class is a dataclass or
 * says `__tree__ = True` (Module does); other objects are static.
 */
#ifndef TSR_FRONTEND_TREE_H
#define TSR_FRONTEND_TREE_H

#include "base/vec.h"
#include "frontend/tensor/tensor_ops.h"

typedef Vec(Tensor *) TensorVec;        /* borrowed tensors */

typedef enum {
    TREE_ALL,                   /* every tensor */
    TREE_TRAINED                /* not the buffers of Modules (names in _buffers), not frozen ones */
} TreeMode;

bool tree_leaves(Interp *I, Value v, TreeMode mode, TensorVec *out);
/* The tree with leaf i replaced by leaf[i] (borrowed); *pos counts on from its value. */
Value tree_rebuild(Interp *I, Value like, TreeMode mode, Tensor *const *leaf, int *pos);
/* The tree with None for each tensor: what a compiled function's cache remembers of it. */
Value tree_skeleton(Interp *I, Value v);
/* Equal structure and equal static parts (1, 0, -1 pending). Tensors match any tensor, None of a skeleton included. */
int tree_same(Interp *I, Value a, Value b);
/* Host numbers among the leaves become 0-d tensors: for carries of loops. */
Value tree_lift_numbers(Interp *I, Value v);

#endif
