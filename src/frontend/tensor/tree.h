/*
 * tree.h - trees of tensors: lists, tuples, dicts, classes that derive from these, dataclasses and Modules.
 *
 * A transformation works on flat lists of tensors; a program works on trees.  tree_leaves lists the tensors of a value
 * in order (dict and field order), tree_rebuild makes an equal tree around other tensors.  What is no tensor
 * is static: it is kept as it is.  Instances count as trees when their class is a dataclass or
 * says `__tree__ = True` (Module does); other objects are static.  A random key holds one tensor, which is not trained.
 */
#ifndef TSR_FRONTEND_TREE_H
#define TSR_FRONTEND_TREE_H

#include "base/vec.h"
#include "frontend/tensor/tensor_ops.h"

typedef Vec(Tensor *) TensorVec;        /* borrowed tensors */
typedef Vec(Value) ValueVec;            /* borrowed values */

typedef enum {
    TREE_ALL = 0,               /* every tensor */
    TREE_TRAINED = 1,           /* not the buffers of Modules (names in _buffers) */
    TREE_NUMBERS = 2            /* numbers in lists, tuples and dicts are leaves too (never attributes of objects) */
} TreeMode;

bool tree_values(Interp *I, Value v, TreeMode mode, ValueVec *out);
/* The tensors; NULL for each leaf of a skeleton. */
bool tree_leaves(Interp *I, Value v, TreeMode mode, TensorVec *out);
/* Names of the leaves of v, which goes by `root`, in order: "params.layers.0.w". To be freed. false: pending. */
typedef Vec(char *) NameVec;
bool tree_names(Interp *I, Value v, const char *root, NameVec *out);
/* Where Modules of a tree keep tensors that are not trained, in order; borrowed. */
typedef struct TreePlace { struct InstanceObj *owner; Value key, val; } TreePlace;
typedef Vec(TreePlace) PlaceVec;
void tree_buffers(Value v, PlaceVec *out);
/* The tree with leaf i replaced by leaf[i] (borrowed); *pos counts on from its value. */
Value tree_rebuild(Interp *I, Value like, TreeMode mode, Tensor *const *leaf, int *pos);
/* The tree with a mark for each tensor: what a compiled function's cache remembers of it. */
Value tree_skeleton(Interp *I, Value v);
/* Equal structure and equal static parts (1, 0, -1 pending). Tensors match any tensor, None of a skeleton included. */
int tree_same(Interp *I, Value a, Value b);
/* Where two trees that differ first do: the parts there, borrowed, and the way to them is appended: ".k[0]". */
void tree_difference(Interp *I, Value *a, Value *b, StrBuf *path);
/* f over the leaves of trees that correspond. */
Value tree_map_values(Interp *I, Value f, const Value *trees, int n);
/* The numbers that mask chooses become 0-d tensors, counted as TREE_NUMBERS counts them without tensors. */
Value tree_lift_chosen(Interp *I, Value v, const bool *mask, int n);
/* Host numbers among the leaves become 0-d tensors: for carries of loops. */
Value tree_lift_numbers(Interp *I, Value v);
Value tree_lift_weak(Interp *I, Value v);               /* as what they are beside any tensor */
Value tree_lift_numbers_as(Interp *I, Value v, DType dt);

#endif
