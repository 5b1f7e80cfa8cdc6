/* far_product.h - what a product on a GPU is of, and the words that its kernel is built of. */
#ifndef TSR_IR_FAR_PRODUCT_H
#define TSR_IR_FAR_PRODUCT_H

#include "ir/schedule/far_impl.h"

enum { BATCHES = 2, PARTS_OF_STEPS = 32 };

/* What a product's kernel is for. turned: elements lie side by side along the sums' axis of x, along k of y. */
typedef struct ProductKind {
    uint8_t x, y, sum, out;     /* DTypes; out: of what is stored, which may be rounded */
    bool turned[2], units, wide, batched, divided;      /* wide: for warpgroups; batched: views have two more axes in front; divided: far_parts.c */
    bool ragged;                /* in order: the steps are no whole rounds */
    bool fast;                  /* of bytes: sums are not added in f32 after each round */
    int32_t block[3];           /* rows, columns, steps */
    int8_t inner[3];            /* how operands, and the sums, step along the axis on which they lie side by side: 1 or STRIDE_ANY */
    int8_t warps, stages, sets, split, cluster; /* of the schedule; 0: not said */
    uint8_t still[2];           /* axes of batches, a bit each, along which x and y are the same, as tensor copies want to know */
    int16_t formula;            /* cost of what is computed of each sum, if it is long */
} ProductKind;

/* Batches of an operand, as up to two axes that all three walk evenly; rows of x and of the sums. */
typedef struct Batches { int n; int64_t extent[BATCHES], step[3][BATCHES], rows; } Batches;

/* What a product is of, but for its schedule. false: it is not for GPUs. */
bool product_describe(Tensor *const *t, DType accum, int slack, ProductKind *p, Batches *b);
/* Its schedule; sizes: b0, b1, rows, columns, steps. most: parts that the steps may be divided into. How many they should be. */
int product_choose(int device, Tensor *const *t, ProductKind *p, const int64_t *sizes, int most);
Sym product_schedule(const ProductKind *p);             /* as a kernel has it */
TileRef product_view(TileBuilder *b, const ProductKind *p, const char *name, uint8_t dt, int8_t inner);         /* a parameter */
/* The sums of a block of rows and columns; size k is that of the steps. batch: NULL where there is none. */
TileRef product_block(TileBuilder *b, const ProductKind *p, const TileRef *from, const TileRef *batch, TileRef row, TileRef column);
/* The same of steps lo to hi. */
TileRef product_steps(TileBuilder *b, const ProductKind *p, const TileRef *from, const TileRef *batch, TileRef row, TileRef column,
                      TileRef lo, TileRef hi);
FarKernel *product_code(const ProductKind *p);          /* the kernel of such products */
/* The argument of an operand (0, 1) or of the sums. false: a fault. */
bool product_arg(Tensor *t, int device, int i, const ProductKind *p, const Batches *b, TileArg *arg);

/* ---- far_wide.c: by warpgroups ---- */
enum { PRODUCT_AS_IT_IS = 2 };
bool product_is_wide(int device, Tensor *const *t, const ProductKind *p, const int64_t *sizes);        /* do they take its operands as they lie? */
int product_choose_wide(ProductKind *p, const int64_t *sizes, int most);        /* as product_choose */
/* Do tensor copies take the operand: rows at multiples of 16 bytes, and of what is not 16 bits wide those along the steps? */
bool product_is_copied(const Tensor *t, bool turned, bool along_steps);
/* Is it better done with operands that lie otherwise? */
bool product_has_other_way(int device, Tensor *const *t, const ProductKind *p, const int64_t *sizes);
/* As far_product, of such a one; PRODUCT_AS_IT_IS: it is none. rows: as Batches has it. */
int product_other_way(int device, Tensor *const *t, const ProductKind *p, int slack, int64_t rows, const int64_t *sizes, Span where);

/* ---- far_parts.c: few blocks of many steps ---- */
bool product_parts_fit(const ProductKind *p, const Batches *b, const Tensor *sum);     /* may the steps be divided? */
bool product_build_parts(TileBuilder *b, const ProductKind *p);         /* the kernel; sizes b0 and b1: parts, rounds of one */
int product_in_parts(Tensor *const *t, int device, ProductKind *p, const Batches *b, int64_t *sizes, int parts, Span where);     /* as far_product */

#endif
