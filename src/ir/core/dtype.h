/*
 * dtype.h - element types and numeric policies.
 *
 * A Policy says how values of a dtype are computed with: compute and accumulator
 * dtypes, rounding, saturation, treatment of subnormals, scale.  Policies are
 * interned; NULL means the default of the dtype.
 */
#ifndef TSR_IR_DTYPE_H
#define TSR_IR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DType {
#define DTYPE(name, kind, bits, sbits, e, m, aliases) DT_##name,
#include "ir/core/dtype.def"
    DT_COUNT,
    DT_NONE = 255
} DType;

typedef enum { DK_BOOL, DK_INT, DK_UINT, DK_FLOAT, DK_COMPLEX } DTypeKind;

typedef struct DTypeInfo {
    const char *name;
    uint8_t kind, bits, sbits, ebits, mbits;
    const char *aliases;        /* space separated */
} DTypeInfo;
extern const DTypeInfo dtype_info[DT_COUNT];

typedef enum { ROUND_NEAREST, ROUND_ZERO, ROUND_UP, ROUND_DOWN, ROUND_STOCHASTIC, ROUND_AWAY } Rounding;
typedef enum { DENORM_PRESERVE, DENORM_FLUSH } DenormMode;

typedef struct Policy {         /* DT_NONE: as the dtype's default */
    uint8_t storage, compute, accum, rounding, denorm;
    bool saturate;
    bool compensated;           /* of scopes: sums keep what their steps round away */
    bool fast;                  /* of scopes: compiled code may reassociate, contract, and leave roundings out */
    uint8_t quant[2];           /* of scopes: the integers that the operands of products of floats are quantised to */
    bool training;              /* with quant: rounded to the grid, computed in floats */
    bool has_scale;             /* loss_scale: gradients are carried times `scale` */
    bool master;                /* optimisers keep an f32 copy of the parameter */
    double scale;
} Policy;
extern const Policy policy_none;                        /* says nothing */

bool dtype_find(const char *name, DType *out);          /* canonical names and aliases */
static inline bool dtype_is_float(DType t) { return dtype_info[t].kind == DK_FLOAT; }
/* Does every float of `from` have its value in `to`? */
static inline bool dtype_holds(DType to, DType from)
{
    return dtype_is_float(from) && dtype_info[to].ebits >= dtype_info[from].ebits && dtype_info[to].mbits >= dtype_info[from].mbits;
}
static inline bool dtype_is_int(DType t) { return dtype_info[t].kind == DK_INT || dtype_info[t].kind == DK_UINT; }
static inline bool dtype_is_complex(DType t) { return dtype_info[t].kind == DK_COMPLEX; }
static inline bool dtype_is_inexact(DType t) { return dtype_info[t].kind >= DK_FLOAT; }
/* The dtype of `a op b`: wider int, or the float operand; false when two different floats meet (language.md). */
bool dtype_promote(DType a, DType b, DType *out);
DType dtype_real(DType t);                              /* c64 -> f32, c128 -> f64, else itself */
DType dtype_complex(DType t);                           /* f64, c128 -> c128; else c64 */
DType dtype_compute(DType t);                           /* default compute type: f32 up to 19 bits (tf32), else itself */
DType dtype_accum(DType t);                             /* default accumulator: f32 up to 19 bits (tf32), int32 for narrow ints */
size_t dtype_nbytes(DType t, size_t n);                 /* bytes of n packed elements, rounded up */

const Policy *fast_numerics(const Policy *scope);       /* the scope, NULL: none, with fast set */
const Policy *policy_intern(Policy p);                  /* NULL for policy_none */
Policy policy_over(Policy outer, const Policy *inner);  /* what inner says, else what outer does */
static inline Rounding policy_rounding(const Policy *p) { return p->rounding == DT_NONE ? ROUND_NEAREST : (Rounding)p->rounding; }

const char *rounding_name(Rounding r);
bool rounding_find(const char *name, Rounding *out);    /* with the aliases of C-08 */

#endif
