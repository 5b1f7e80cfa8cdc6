/*
 * beside.h - results that lie side by side in what a concat makes of them, or as a reshape needs them (private to ir/graph).
 *
 * What runs a graph asks before a node where its results had better lie: slices of one memory, which the concat then finds, and gives as it is.
 */
#ifndef TSR_IR_BESIDE_H
#define TSR_IR_BESIDE_H

#include "ir/graph/sizes.h"

/*
 * A concat, and which of its operands; of a product, the permutation that it had better be laid out as. NULL: none.
 * Which of the graph's results it is, counted from 1; 0: none that is to lie anywhere.
 */
typedef struct BesidePlace { const Node *concat, *permuted; int operand, result; } BesidePlace;

typedef struct Beside {
    const Node **joined;        /* node id -> the concat that has a fused node's results side by side; NULL: there are none */
    BesidePlace *place;         /* slot -> where the result of a launch or a product goes; NULL: nowhere */
    Tensor **whole;             /* id of a concat -> the memory of it, from the first launch on that stores there */
    Tensor *const *results;     /* where the graph's results had better lie; NULL, or one is: anywhere */
    const uint32_t *base;       /* node id -> slot of its first result */
    uint32_t nnodes;
} Beside;

enum { BESIDE_MOST = 16 };

/* base, left: slots, and how often each is used. results: as above. */
void beside_find(Beside *b, const Graph *g, const uint32_t *base, const uint32_t *left, int nslots, Tensor *const *results);
void beside_done(Beside *b);
/* Slices for the node's results: NULL in those that may lie anywhere. How many: all, or 0. */
int beside_slices(Beside *b, Trace *T, const DimEnv *env, Node *n, Tensor *const *in, Tensor **slice);
void beside_arrives(Beside *b, const Node *concat);     /* it is about to run: nobody but its operands holds the memory */

#endif
