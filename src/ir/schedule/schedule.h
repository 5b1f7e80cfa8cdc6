/*
 * schedule.h - the Schedule IR: a graph whose `fused` nodes are kernels to be.
 *
 * A `fused` node means what its body means, op by op.  Its name is its
 * schedule, which says how it is carried out and never changes a result:
 *
 *     map.block(n=1024)               no reduction: rows in pieces of n elements
 *     rows.block(m=4, n=256)          m rows a group, n elements of each at a time
 *     columns.block(m=64, n=256)      the same for rows that stand upright in memory: tiles are turned, so that
 *                                     neighbours in memory are neighbours in a vector
 *
 * and behind that how results go to memory and how rows follow each other: .past(), .beside(), .near(), .turns(32) (see Schedule).
 *
 * lower makes a Tile IR kernel from a body, for operands that lie in memory in
 * a certain way; the sizes stay open.
 */
#ifndef TSR_IR_SCHEDULE_H
#define TSR_IR_SCHEDULE_H

#include "ir/graph/graph.h"
#include "ir/schedule/region.h"
#include "ir/tile/tile.h"

typedef enum { SCHEDULE_MAP, SCHEDULE_ROWS, SCHEDULE_COLUMNS } ScheduleKind;

/*
 * lean: what later passes need is computed again rather than kept in a buffer, where rows are long and many groups share a processor.
 * beside: what later passes need is kept beside the results, which go past the caches in whole lines, and not in one of them.
 * near: of columns, what several passes look at is copied in the first, so that the second cache has it all the time.
 * long_rows: the next group's rows are not asked for while one is at work.
 * whole: for GPUs; rows of at most n elements, of which a group has all at once, or long ones, of which it has n at once, a power of two of chunks.
 * part: few rows are long, so several groups sum a row, each some chunks of it, a power of two; a second kernel joins their sums.
 * blocks: of threads that divide whole rows, a cluster; 0: one has them.
 * stays: rows are whole, a group is one, and each ends with a vector: code may bring the next one while one is computed.
 * align: a power of two that is known to divide the inner axis, by the graph's conditions (aligned.c); 0: none is.
 * turns: a group does so many times m rows, all passes side by side, each over rows of another turn (lower_turns.c); 0: it does not.
 * rounds: axes before the outer one that operands do not walk in one go with it; one launch does all their rounds.
 */
typedef enum { WHOLE_NOT, WHOLE_ROWS, WHOLE_PIECES } ScheduleWhole;
typedef enum { PART_ALL, PART_SUMS, PART_JOIN } SchedulePart;
typedef struct Schedule {
    uint8_t kind;
    int32_t m, n, turns, held;      /* held: elements that a row has at most, for pieces that stay in shared memory; 0: they do not */
    bool lean, past, beside, near, long_rows, stays;
    uint8_t whole, part, rounds, blocks;
    int16_t align;
} Schedule;
enum { PARTS_MOST = 32, ROUND_AXES = 2 };       /* groups of a row; axes of rounds that a kernel knows */

/* Whole rows of n1 elements, by so many blocks of threads at most, or pieces; false: rows of this schedule do not go so. */
bool schedule_whole(int64_t n1, int most, Schedule *s);
/* May a region's rows be summed in parts? They are gone over once, and nothing of an element waits for a sum. */
bool schedule_parts(const Region *r);
int schedule_divisor(Dim d);    /* the power of two, ALIGN_MOST at most, that divides it as far as the facts at hand (dim_push) say; of a number 1 */
/* The power of two that divides the inner axis of each launch of a region, where divisor gives that of a size; 0: none does. */
int schedule_aligned(const Region *r, int (*divisor)(void *st, Dim size), void *st);
/*
 * Rows in turn (lower_turns.c): may a region's rows be done so, which are gone over more than once, and all of such a kernel but what stands
 * before passes.  Set by who makes code, so that nobody else need have it; NULL: none are.
 */
struct Lower;
typedef struct ScheduleTurns { bool (*may)(const Region *r); void (*lower)(struct Lower *l); } ScheduleTurns;
extern const ScheduleTurns *schedule_turns, schedule_rows_in_turn;
static inline int64_t schedule_group_rows(const Schedule *s) { return s->m * (int64_t)(s->turns ? s->turns : 1); }
/* Its sums, in the order of the parts' views behind the kernels' others: [parts, rows] of the accumulator. Room for REGION_OPERANDS. */
int schedule_part_sums(const Region *r, const Node **out);
DType schedule_part_dtype(const Node *sum);

Schedule schedule_default(const Region *r);      /* NULL: of a region without reductions */
void schedule_print(const Schedule *s, StrBuf *out);
bool schedule_read(const char *text, Schedule *out, StrBuf *err);

/* A graph that computes the same and keeps less for its second half, which computes it again; NULL: there is nothing to win. */
Graph *schedule_recompute(const Graph *g);

/* A graph without what only derivatives look at, and with turned products as products of turned operands (settled.c); NULL: there are none. */
Graph *schedule_settled(const Graph *g);

/* A graph in which sizes that its conditions say are equal are one (equal.c); NULL: none are written in two ways. */
Graph *schedule_equal(Graph *g);

/* A graph in which reductions over different axes compute what they need for themselves (apart.c); NULL: there are none of that kind. */
Graph *schedule_apart(Graph *g);

bool schedule_is_cheap(const Node *n);      /* elementwise or a view, and not one of those ops that are computed element by element */
int schedule_op_cost(const Node *n);        /* of an element, beside a load's 1 */
int schedule_gpu_cost(const Node *n);       /* the same on a GPU, which has quicker ways under fast numerics */
int64_t schedule_bytes(const TType *t);     /* at guessed sizes */
int64_t schedule_guess(Dim d);              /* a size, were each variable some usual number */

/* The most bytes that wait at once for a while between the graph's nodes, at guessed sizes. */
int64_t schedule_waiting(const Graph *g);

/* A graph that computes the same with `fused` nodes; NULL: none of its nodes can be fused, nor said in another way. */
Graph *schedule_fuse(Graph *g);

/* Both, where fused nodes then keep less between them: the graph as compiled functions run it. NULL: as it is. */
Graph *schedule_make(Graph *g);
extern Graph *(*fused_make)(Graph *g);      /* the same where kernels can be made for what it gives; NULL: they are those that there are */

/* May parts of a sum over everything have its own dtype? A sum that accumulates in a wider one is rounded once; a place is none of a part. */
bool schedule_totals_as_it_is(const Node *n);

/* The accumulator of a matrix product that a body may begin with, whose lanes are f32 or f64; DT_NONE: n is none. */
DType schedule_accum(const Node *n);

/*
 * A body that holds a matrix product is two steps: the product, and what is left, the epilogue, with the product's lanes as
 * one more operand, the last.  *product: the node in the body; NULL: there is none.  In what is given argmax and argmin are said by
 * other ops, and each `index` takes places (region_is_placed), operands behind the body's own in the order of these nodes; where there is
 * nothing of all this it is the body itself.  A new reference.
 */
Graph *schedule_epilogue(Graph *body, const Node **product);
Node *schedule_place_of_extreme(Graph *g, const Node *n, Node *x);      /* n, an argmax or argmin, of x: nodes behind the others of g */

/*
 * How an operand or result steps along the outer and the inner axis: 0 not at all, 1 by one element, STRIDE_ANY.
 * Operands of the body come first, then its results, then the region's counters, whose numbers so step.
 */
typedef struct StrideClass { int8_t outer, inner; } StrideClass;

/* How operands, results and counters step that lie row by row in the region's order: one for each, room for REGION_OPERANDS. */
void schedule_row_major(const Graph *body, const Region *r, StrideClass *out);

/* The last operand of an elementwise body as a product that the kernel computes: its block at a row and a column. A node NULL: it cannot. */
typedef struct LowerProduct { TileRef (*block)(TileBuilder *b, TileRef row, TileRef column, const void *st); const void *st; } LowerProduct;

/*
 * Random numbers (numbered.c): a draw (Dist) in dtype dt of a tile of keys (uint64, a pair of words each) and one of elements' numbers (int64).
 * limit: an int64 that whole numbers, and Bernoulli's 53 bits, stay below.  NULL: b->err says why not.
 */
TileRef schedule_random(TileBuilder *b, int kind, DType dt, TileRef key, TileRef number, TileRef limit);
bool schedule_draws(int kind, DType dt);    /* is there a formula for it? */

/*
 * The kernel of a body: views as its operands, then its results, each with an outer and an inner axis, for columns the
 * other way round; sizes n0 and n1, and for each counter its first number and its steps along both axes.  product may be NULL.
 */
TileKernel *schedule_lower(const Graph *body, const Region *r, const Schedule *s, const StrideClass *stride, const LowerProduct *product,
                           StrBuf *err);

#endif
