/* tile_impl.h - what the files of the Tile IR share: typing, fields of attributes, values as text, elementwise evaluation. */
#ifndef TSR_IR_TILE_IMPL_H
#define TSR_IR_TILE_IMPL_H

#include "ir/tile/tile.h"

enum { TILE_DEPTH_MAX = 32, TILE_LEVELS = 48 };         /* blocks in blocks; subtrees that wait in a tree */

/* The fields of TAttr, by bits, that an op has. */
enum { TA_op = 1, TA_dtype = 2, TA_space = 4, TA_rounding = 8, TA_saturate = 16, TA_flush = 32, TA_drop = 64, TA_axis = 128,
       TA_shape = 256, TA_axes = 512, TA_i = 1024, TA_f = 2048, TA_name = 4096, TA_swizzle = 8192, TA_fast = 16384,
       TA_vector = 32768, TA_stages = 65536, TA_producers = 131072, TA_align = 262144,
       TA_within = 524288 };
unsigned tile_op_fields(TileOp op);
TAttr tattr_only(TileOp op, const TAttr *a);            /* with all fields that do not count as tattr_none has them */
bool tattr_equal(const TAttr *a, const TAttr *b);
bool tile_op_find(const char *name, TileOp *out);

/*
 * Result types. out has room for nin + 1; nout is -1 where the first region's yield decides (if).
 * false: *err says what does not fit.
 */
bool tile_infer(const TileKernel *k, TileOp op, const TAttr *a, const TileRef *in, int nin, TileType *out, int *nout, StrBuf *err);
/* What the parameters of a node's region r are: types[0 .. n). */
int tile_region_params(const TileNode *n, int r, TileType *types);
/* What region r of a node must yield; n < 0: whatever it likes (the first of an if). */
int tile_region_yields(const TileNode *n, int r, const TileType **types, TileType *flag);

int64_t tile_elements(const TileType *t);               /* of a value or tree */
OpId tile_step_op(OpId reduction);                      /* sum -> add, max -> maximum, ... */
OpId tile_update_step(OpId op);                         /* the same of an update's op, bitand, bitor and bitxor among them; where: OP_COUNT */
/* The dtype that a map's formula works in, given its operands. */
DType tile_map_dtype(OpId op, const TileRef *in);

/*
 * The number that each value prints with, by node id (first result), and how many there are; free with tsr_free.
 * Parameters of the kernel have names instead.
 */
uint32_t *tile_numbers(const TileKernel *k, uint32_t *count);

/*
 * n elements (raw slots, convert.h) of an elementwise op as eager evaluation gives them: operands of dtype `as`
 * (the first of `where`: bool), result of dtype `to`.
 */
void tile_eval_map(const TAttr *a, DType as, DType to, int nin, const void *const *in, int64_t n, void *out);
/* out = a op b rounded to the dtype: one step of a reduction. */
void tile_eval_step(OpId step, DType dt, int64_t n, void *out, const void *a, const void *b);
void tile_identity(OpId reduction, DType dt, void *raw);        /* what a reduction starts from */

#endif
