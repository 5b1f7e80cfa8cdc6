/*
 * lower_impl.h - what the files that make a kernel of a body share.
 */
#ifndef TSR_IR_LOWER_IMPL_H
#define TSR_IR_LOWER_IMPL_H

#include "ir/schedule/schedule.h"

#include "ir/tile/build.h"
#include "runtime/kernel_util.h"

typedef struct Lower {
    const Graph *body;
    const Region *r;
    const Schedule *s;
    const StrideClass *stride;
    const LowerProduct *product;        /* of the last operand; NULL: that is loaded like any other */
    TileKernel *k;
    TileBuilder b;
    TileRef row0, zero, col;    /* where the group's rows and the piece begin */
    TileRef step, end;          /* n, and the size of the inner axis */
    TileRef from, to;           /* of the inner axis: all of it, or this group's part */
    TileRef count;              /* elements of the piece that there are */
    TileRef *view;              /* by operand, then result */
    const StrideClass *counts;  /* of the region's counters */
    TileRef *row;               /* value -> tile [m, 1] (or [1, 1], or a scalar) of values that no pass changes */
    TileRef *piece;             /* value -> tile of this pass's piece */
    TileRef *kept;              /* value -> buffer that an earlier pass filled */
    TileRef *held;              /* value -> buffer in shared memory that it is used from */
    TileRef part;               /* this group's number among those of its rows */
    TileRef round[ROUND_AXES];  /* where the group's round is */
    bool *keep;                 /* value -> does its first pass keep it? */
    int *home;                  /* value -> the result in whose place it is kept until that is known; -1: it has a place of its own */
    int *first, *last;          /* value -> the first and the last pass that loads it, from outside or from where it is kept; -1: none does */
    bool turns;                 /* does a group do rows in turn (lower_turns.c)? */
    int busy, work;             /* the pass after the first that computes most of those that load operands, and what an element's value costs it */
    bool *steady;               /* value -> is it the same along a row? */
    int pass;
    bool ok;
} Lower;

static inline TileRef none(void) { return build_none(); }

/* Words of build.h, for kernels that are given up as a whole. */
static inline TileRef lower_word(Lower *l, TileRef x)
{
    l->ok &= x.node != NULL;
    return x;
}

static inline TileRef add(Lower *l, TileOp op, const TAttr *a, const TileRef *in, int nin)
{
    return l->ok ? lower_word(l, build_add(&l->b, op, a, in, nin)) : none();
}

static inline TileRef add2(Lower *l, TileOp op, TileRef a, TileRef b) { return add(l, op, NULL, (TileRef[]){a, b}, 2); }
static inline TileRef index_of(Lower *l, int64_t i) { return l->ok ? lower_word(l, build_number(&l->b, i)) : none(); }
static inline TileRef lower_size(Lower *l, const char *name) { return l->ok ? lower_word(l, build_size(&l->b, name)) : none(); }

static inline bool is_reduce_node(const Node *n) { return n->op < OP_COUNT && op_info[n->op].family == FAM_REDUCE; }

static inline DType reduce_accum(const Node *n)
{
    return n->op == OP_any || n->op == OP_all ? DT_bool
           : n->op == OP_max || n->op == OP_min ? (DType)gvalue_type(n->in[0])->dtype
           : accum_dtype(n->attr, (DType)gvalue_type(n->in[0])->dtype, (DType)n->type[0].dtype);
}

static inline int lower_value(const Lower *l, const Node *n) { return (int)(region_value(l->r, n) - l->r->value); }
static inline bool lower_reduces(const Lower *l) { return l->r->nkept < l->r->naxes; }
static inline bool lower_is_row(const Lower *l, int v) { return lower_reduces(l) && region_is_row(l->r, &l->r->value[v]); }

/* Columns: tiles and views have their elements first and their rows second. */
static inline bool lower_upright(const Lower *l) { return l->s->kind == SCHEDULE_COLUMNS; }
int lower_operand(const Lower *l, const Node *n);       /* the number of a parameter of the body; -1: it is none */

/* ---- lower.c ---- */
TileRef lower_get(Lower *l, int v);                     /* the tile of a value in this pass */
TileRef lower_shaped(Lower *l, TileOp op, TileRef x, int32_t m, int32_t n);
TileRef lower_stretched(Lower *l, TileRef x);           /* a tile of all rows of a piece: what has one row or one column stretches */
void lower_steady(Lower *l);                            /* everything along rows that is known by now */
int lower_pass_reduces(const Lower *l, int *out);       /* reductions over this pass, room for REGION_VALUES */
TileRef lower_tree(Lower *l, const Node *reduction);
TileRef lower_reduce_piece(Lower *l, const Node *reduction);
TileRef lower_row_value(Lower *l, int v, TileRef x);    /* reduction v of the rows, of its total */
TileRef lower_piece_length(Lower *l);                   /* how much of the piece there is */

/* ---- lower_memory.c ---- */
void lower_set_shape(const Lower *l, TAttr *a, int32_t rows, int32_t columns);          /* two extents of a tile */
void lower_set_place(const Lower *l, TileRef *in, TileRef row, TileRef column);         /* starts in a view, or extents of one */
void lower_add_views(Lower *l);                         /* of operands, results and parts: the kernel's parameters */
void lower_add_buffers(Lower *l);                       /* for what is kept and is no result */
TileRef lower_load_operand(Lower *l, int i, bool ahead);        /* its block; ahead: the next group's is asked for beside it */
TileRef lower_load_kept(Lower *l, int v);
void lower_pass_results(Lower *l, TileRef *x);          /* by result: what this pass stores of elements, or none; room for REGION_OPERANDS */
void lower_store_results(Lower *l, const TileRef *x);
void lower_store_kept(Lower *l, int v, TileRef to);
void lower_store_pass(Lower *l);                        /* all that the pass stores */
void lower_store_rows(Lower *l);                        /* results of a row */

/* ---- lower_keep.c ---- */
/* What later passes than its first one look at, and is dear, its first pass keeps. Which passes load what follows from that. */
void lower_choose_kept(Lower *l);
/* Of columns that stay near, the first pass keeps what later ones load. */
void lower_choose_copied(Lower *l);
/* Whose place a value takes that its pass loads for the last time; -1: nobody's. */
int lower_taken_over(const Lower *l, int v);
/* Which of the passes after the first that load operands computes most: it asks for the next group's elements. */
void lower_find_busy(Lower *l);
/* What is kept and is no result lies where one will be, if it can: that memory is in the cache by then. */
void lower_choose_homes(Lower *l);

/* ---- lower_rounds.c ---- */
Dim lower_rounds(Lower *l);                             /* how many there are, over sizes of the launch, which are named here */
void lower_round_views(Lower *l);                       /* all views become those of this group's round */
TileRef lower_first(Lower *l, int counter, TileRef first);      /* a counter's first number in this round, by that in the first one */

/* ---- lower_table.c ---- */
/* What n, an `index`, looks up for a block: places is the block of where it does. */
TileRef lower_look_up(Lower *l, const Node *n, TileRef places);

/* ---- lower_held.c ---- */
void lower_held_buffers(Lower *l);
TileRef lower_held(Lower *l, int v, TileRef x);         /* x, which is loaded, by way of the value's buffer; x itself where there is none */

/* ---- lower_parts.c ---- */
void lower_part_views(Lower *l);
void lower_store_part(Lower *l, int i, TileRef x);
/* What `count` parts of sum i from the first on come to, as a tile of one row; those that are not there are identities. */
TileRef lower_join_parts(Lower *l, int i, const Node *sum, int first, int count);

#endif
