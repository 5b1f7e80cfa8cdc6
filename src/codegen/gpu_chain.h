/*
 * gpu_chain.h - kernels of several products that warpgroups do (sm_90a).
 *
 * Blocks that loops load come through rings of slots, those that are loaded once for a group stay in one; what is computed from products
 * goes into the next one in registers.  Found before code is made (gpu_chain_find.c); gpu_chain.c makes it.
 */
#ifndef TSR_CODEGEN_GPU_CHAIN_H
#define TSR_CODEGEN_GPU_CHAIN_H

#include "codegen/gpu_roles.h"

enum { CHAIN_RINGS = 6, CHAIN_LOADS = 16, CHAIN_DOTS = 16, CHAIN_ROWS = 4, CHAIN_NUMBERS = 40 };
enum { SUMS_WITH_ROOM = 128 };                  /* so many registers for sums at most leave room for a few others */

/* Slots of blocks of one parameter. */
typedef struct ChainRing {
    RoleOperand o;              /* turned means nothing here: a block may be read either way */
    RoleRing ring;
    bool stays;                 /* one block for a group */
    LLVMValueRef held;          /* the slot that the consumers' group has: of blocks that stay */
} ChainRing;

/* A load that products read: its ring, and the last product of its block that does. */
typedef struct ChainLoad {
    const TileNode *load, *last;
    int ring;
    LLVMValueRef sent;          /* the slot that the producer sent it to */
    LLVMValueRef held, phase;   /* the slot that the consumers' round has; NULL: not waited for yet */
    LLVMValueRef peek;          /* a slot, of whether the next one is full; NULL: nobody has asked */
    bool awaited;               /* has each round waited for the next one's? */
} ChainLoad;

/*
 * A row of numbers beside the columns of products, which comes with a block and has slots as that one's ring: the same barriers are for both.
 * Loads of several loops share them.
 */
typedef struct ChainRow {
    RoleOperand o;
    int ring, map;
} ChainRow;

typedef struct ChainRider { const TileNode *load; int row, carrier; } ChainRider;       /* carrier: the load that it comes with */

/* What follows from the group's number, and consumers use. */
typedef struct ChainNumber { const TileNode *node; LLVMTypeRef type; } ChainNumber;

typedef struct ChainDot {
    const TileNode *dot;
    Wgmma unit;
    int load[2];                /* -1: in registers, of the left operand */
    bool turned[2];
} ChainDot;

/* A product under way. */
typedef struct ChainFlight {
    const ChainDot *d;
    const TileNode *value;      /* what its sums are: the product, or of a late one the loop's parameter */
    LLVMValueRef *sum;
    int n;
    LLVMValueRef held, phase;   /* of a late one: the slot of its right block; else NULL */
    bool fresh;                 /* has nothing been emitted since it was issued? */
} ChainFlight;

/* A loop whose last product is a round late (gpu_chain_late.c). */
typedef struct ChainLate {
    const TileNode *loop;
    const ChainDot *first, *last;
    int carry;                  /* which of the loop's results the last one is */
    bool pending;               /* is that of a round before still to come? */
    LLVMValueRef *word, *sum;   /* slots: its left operand, and what it adds to */
    LLVMValueRef held, phase;   /* slots: the slot of its right block, where the round had it before; else NULL */
    LLVMValueRef low;           /* a slot: what its right block's descriptors begin with */
    LLVMValueRef hi, step;      /* of the loop */
    LLVMValueRef i, more, keep; /* slots: the next round's number, is there one, do its masks leave out nothing? keep NULL: it shows later */
    int nwords, nsums;
    bool waits;                 /* does a round end with all waits of its own, and of the next one's beginning? */
    bool arrived;               /* has this round waited for the late product before its end? */
    const TileNode *guess, *guessed;    /* a column that hardly ever changes, and what it is carried as (gpu_chain_guess.c); NULL: there is none */
    LLVMValueRef mark;          /* of the round at hand: the branch behind the arrival of its first product; NULL: there is none */
    LLVMValueRef kept;          /* an i1: was the guess right in it, and are sums scaled by ones then? NULL: nobody knows */
} ChainLate;

enum { CHAIN_FLIGHTS = 8 };

typedef struct Chain {
    int rows, sums;             /* of all products; registers of a thread that those of one block sum in, at most */
    ChainRing ring[CHAIN_RINGS];
    ChainLoad load[CHAIN_LOADS];
    ChainDot dot[CHAIN_DOTS];
    ChainRow row[CHAIN_ROWS];
    ChainRider rider[CHAIN_LOADS];
    int nrings, nloads, ndots, nrows, nriders;
    ChainFlight flight[CHAIN_FLIGHTS];  /* oldest first */
    int nflights;
    ChainLate *late;            /* of the loop at hand; NULL: products are done where they stand */
    int maps;                   /* there may be so many of rings and rows */
    bool grows;                 /* do groups further down take longer? */
    bool uneven;                /* do some take longer than others? Then blocks take one after the other as they come to it */
    ChainNumber number[CHAIN_NUMBERS];
    int nnumbers;
    RoleRing taken;             /* slots of a group's numbers, from the producer to the consumers */
    int64_t numbers;            /* in shared memory: those slots */
} Chain;

bool chain_find(CpuCode *e, Roles *r, Chain *c);        /* is the kernel one of these? Then all but the values is set, in r, too */
int chain_load_of(const Chain *c, const TileNode *load);        /* its number; -1: it is none */
const ChainRider *chain_rider(const Chain *c, const TileNode *load);    /* NULL: it is none */
void chain_maps(const CpuCode *e, const Roles *r, GpuFrame *frame);
bool chain_has_loads(const Chain *c, const TileBlock *b);       /* in it, or in its blocks */

/* ---- gpu_chain.c ---- */
void chain_produce(CpuCode *e);
void chain_begin(CpuCode *e);                           /* the consumers' rings */
void chain_end_group(CpuCode *e);
/* The low word of what its right operand's descriptors begin with when that is in a slot of the ring; the same number for a warp. */
LLVMValueRef chain_right(CpuCode *e, const ChainDot *d, LLVMValueRef stage);
bool chain_node(CpuCode *e, const TileNode *n);         /* loads, products, and loops of some; false: another node */
LLVMValueRef *chain_left(CpuCode *e, const TileNode *dot, int *n);      /* words of a left operand in registers, n of them */
void chain_await(CpuCode *e, const ChainDot *d);         /* its blocks are there from here on */
/* A product waits for its blocks, and is under way: a flight, whose value has registers that nobody may touch before it has arrived. */
ChainFlight *chain_issue(CpuCode *e, const ChainDot *d, LLVMValueRef *left, bool add, LLVMValueRef *sum);
void chain_issue_free(CpuCode *e, const ChainDot *d);   /* this one, which needs nothing but blocks, and those behind it that do not either */

/* ---- gpu_chain_take.c ---- */
bool chain_take_find(const CpuCode *e, Chain *c);       /* which numbers consumers use; false: too many */
void chain_take_lay(Chain *c, int64_t *all);            /* room for them in shared memory */
RoleGroups chain_groups(CpuCode *e);                    /* the producer's, whose numbers are known and handed on */
void chain_groups_end(CpuCode *e, const RoleGroups *g);
RoleGroups chain_taken(CpuCode *e);                     /* the consumers' */
void chain_taken_end(CpuCode *e, const RoleGroups *g);
bool chain_take_node(CpuCode *e, const TileNode *n);    /* consumers: a number, if they use it; false: another node */
void chain_take_again(CpuCode *e, const TileNode *before);     /* the numbers anew, so that no register keeps them from before */

/* ---- gpu_chain_late.c ---- */
bool chain_loop(CpuCode *e, const TileNode *n);         /* a loop whose last product can be late; false: it is another one */
bool chain_late_dot(CpuCode *e, const ChainDot *d);     /* the first or last product of such a loop; false: another one */
void chain_begin_turns(CpuCode *e);                     /* warpgroups take turns at sending products on their way */

/* ---- gpu_chain_guess.c ---- */
void chain_find_guess(const CpuCode *e, ChainLate *l);
void chain_mark_guess(CpuCode *e);                      /* the loop's first product has arrived */

#endif
