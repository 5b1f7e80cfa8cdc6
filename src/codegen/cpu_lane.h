/*
 * cpu_lane.h - groups of several lanes as code for CPUs.
 *
 * What differs between lanes is computed in strips, vectors of neighbouring
 * lanes.  Nodes that each lane does for itself gather in a run (cpu_lane.c),
 * which becomes one loop over the strips; loops and choices go with it when
 * all that is in them is such nodes (cpu_strip_control.c), with masks for
 * lanes that go other ways.  What is needed after its run waits in a row,
 * memory with an element for each lane.  Where lanes meet (barriers, shuffles,
 * sums over lanes, the group's tiles) runs end.  Loops and choices around such
 * places have their masks in rows, too (cpu_parted.c).
 */
#ifndef TSR_CODEGEN_CPU_LANE_H
#define TSR_CODEGEN_CPU_LANE_H

#include "codegen/cpu_impl.h"
#include "ir/tile/vary.h"

/*
 * An index in the strip at hand: base + lane * step, or, where lanes is not NULL, just that. Of a bool scalar lanes are its i1s,
 * if somebody has made them.
 */
typedef struct LaneIndex {
    LLVMValueRef base, step, lanes;
    int64_t multiple;           /* base is one of this; 0: it is 0 */
} LaneIndex;

typedef struct LaneCode {
    TileVary vary;
    int count, width;           /* lanes of the group, of a strip */
    Vec(const TileNode *) run;
    bool writes, ordered;       /* does the run store; has it an atomic whose order shows? */
    uint8_t *pending;           /* by node id: is it in the run? */
    uint8_t *cost;              /* by node id: of computing an index again where it is used; 0: it has a row */
    uint32_t *inside;           /* by node id: uses in the run */
    LaneIndex *index;           /* by value, in the strip at hand */
    LLVMValueRef *row;          /* by value */
    Vec(TileRef) bound;         /* what has lanes in the strip at hand */
    LLVMValueRef here;          /* a row of bytes: the lanes that are here; NULL: all */
    LLVMValueRef first;         /* lane of the strip at hand */
    LLVMValueRef *whole, *rest; /* by node id of a division: what the strip's first lane gets, if it is known from the strip's start on */
    bool straight;              /* no such division has a step within the strip at hand */
    LLVMValueRef mask;          /* i1s of it; NULL: all are there */
} LaneCode;

/* ---- cpu_lane.c: runs and rows ---- */
void lanes_init(CpuCode *e, LaneCode *c);               /* of e's kernel, whose values are numbered */
void lanes_done(LaneCode *c);
bool cpu_lane_node(CpuCode *e, const TileNode *n);      /* false: the node is the group's */
void cpu_lane_flush(CpuCode *e);                        /* the run at hand, if there is one, becomes its loop */
/* A loop over the strips of all lanes, of which the body is what follows: e->lanes->first, the values bound there. */
CpuLoop strip_begin(CpuCode *e);
void strip_end(CpuCode *e, CpuLoop *l);
LLVMValueRef row_new(CpuCode *e, const TileType *t);    /* memory for a value of each lane, made where the function begins */
LLVMValueRef row_of(CpuCode *e, TileRef v);             /* outside of strips: its elements in memory, now */
void row_store(CpuCode *e, const TileType *t, LLVMValueRef row, LLVMValueRef lanes);    /* the strip's lanes into their place in it */
/* Outside of strips: the rows of `to` become `from`, for the lanes of a mask row or, NULL, all. */
void rows_copy(CpuCode *e, const TileRef *to, const TileRef *from, int n, LLVMValueRef mask);
static inline uint32_t value_number(const CpuCode *e, TileRef v) { return e->first[v.node->id] + (uint32_t)v.index; }
bool cpu_varies(const CpuCode *e, TileRef v);           /* may it differ from lane to lane? */
void strip_bind(CpuCode *e, TileRef v);                 /* a value from outside has lanes in this strip */

/* ---- cpu_strip.c, cpu_strip_divide.c: a node in a strip ---- */
void strip_node(CpuCode *e, const TileNode *n);         /* n for the lanes of the strip: its results are bound */
LLVMValueRef strip_wide(CpuCode *e, TileRef v);         /* its lanes: i64s of an index */
LLVMValueRef strip_flag(CpuCode *e, TileRef v);         /* of a bool, as i1s */
LaneIndex strip_index(CpuCode *e, TileRef v);           /* an index as it is known here */
LLVMValueRef index_lanes(CpuCode *e, const LaneIndex *x);      /* written out: a vector of i64 */
/* iadd, isub or imul of what is base + lane * step, if it is that again. */
bool strip_straight(CpuCode *e, TileOp op, const LaneIndex *a, const LaneIndex *b, LaneIndex *out);
int64_t index_multiple(TileRef v, int depth);           /* of an index that does not vary: a number that it is a multiple of */
int64_t multiple_of_both(int64_t a, int64_t b);         /* the largest number that both are multiples of; 0 is one of all */
void strip_set(CpuCode *e, TileRef v, LLVMValueRef lanes);      /* what v is in this strip */
/* The divisions of the run by numbers of the launch begin here. An i1: does none have a step in this strip? NULL: there is none. */
LLVMValueRef strip_divisions(CpuCode *e);
void strip_divisions_end(CpuCode *e);
bool strip_quotient(CpuCode *e, const TileNode *n, LaneIndex *out);    /* of a to_index of elements divided; false: as any other */
bool strip_waits(const TileNode *n);                    /* is it a division of elements that only the to_index behind it takes, which makes it? */
typedef struct Quotient { LLVMValueRef q, r; } Quotient;
LaneIndex strip_divided(CpuCode *e, const TileNode *n, const LaneIndex *a, const LaneIndex *b);     /* idiv or imod */
bool is_constant(LLVMValueRef x, int64_t v);            /* is it the number v, known now? */
LLVMValueRef mask_and(CpuCode *e, LLVMValueRef a, LLVMValueRef b);      /* NULL: all */
LLVMValueRef mask_any(CpuCode *e, LLVMValueRef mask);
DType row_dtype(const TileType *t);                     /* what a row has: lanes, or i64s */

/* ---- cpu_strip_control.c ---- */
void strip_control(CpuCode *e, const TileNode *n);

/* ---- cpu_together.c, cpu_parted.c ---- */
void lanes_together(CpuCode *e, const TileNode *n);     /* lane_reduce, match, uniform, a shuffle that gives all the same */
LLVMValueRef strip_shuffle(CpuCode *e, const TileNode *n);      /* of an operand that has its row */
void lanes_part(CpuCode *e, const TileNode *n);         /* if, for, while whose lanes go different ways */

#endif
