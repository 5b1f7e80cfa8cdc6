/*
 * formulas.h - the formulas of formulas.c that are neither an op nor a conversion between dtypes.
 *
 * Compiled code knows a formula by its table (src/codegen/formula.h) and calls the function only where that has none.
 */
#ifndef TSR_RUNTIME_FORMULAS_H
#define TSR_RUNTIME_FORMULAS_H

#define FORMULAS_MORE(X) \
    X(to_odd) X(fma_odd) X(flush_f32) X(flush_f64) X(clamp_f32) X(clamp_int4) X(clamp_uint4) X(sign_extend4) \
    X(is_far_f32) X(is_far_f64) X(far_sin_f32) X(far_cos_f32) X(far_tan_f32) X(far_sin_f64) X(far_cos_f64) X(far_tan_f64)

#endif
