/*
 * The elementwise ops and the conversions as functions of one element.
 *
 * It is compiled twice.  clang makes straight-line LLVM code of the functions,
 * which src/codegen/formulas.py turns into tables that compiled programs are
 * built from; gcc makes what those programs call where a function has branches
 * or is libm's.  So compiled code means what the loops of loops.c and codecs.c
 * mean: all expand the same formulas.
 *
 * Names: tsr_op__NAME__DTYPE, tsr_lane__TO__FROM, tsr_enc__DTYPE, tsr_dec__DTYPE and
 * tsr_x__NAME.  A function stores its result through its first pointers, a complex one as two
 * parts; complex operands are two parameters.
 */
#include "runtime/formulas.h"

#include "runtime/codec_formulas.h"
#include "runtime/scalar.h"

#define PUBLIC(fn, params) \
    void fn params; \
    void fn params
#define PART(T) __typeof__(__real__ (T)0)

/* ---- ops ---- */

#define JOIN_(name, x) tsr_op__##name##__##x
#define JOIN(name, x) JOIN_(name, x)
#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

#define DEFINE(name, arity, result, formula) \
    PUBLIC(JOIN(name, X), (OUT_##result, IN_##arity)) \
    { \
        PUT_##result(formula); \
    }
#define IN_1 T a
#define IN_2 T a, T b
#define IN_3 T a, T b, T c
#define IN_W uint8_t a, T b, T c
#define OUT_T T *o
#define OUT_B uint8_t *o
#define OUT_Z T *o, T *p
#define PUT_T(formula) *o = (formula)
#define PUT_B(formula) *o = (bool)(formula)
#define PUT_Z(formula) \
    CPLX z = (formula); \
    *o = __real__ z, *p = __imag__ z

/* complex: operands come in parts */
#define DEFINE_CPX(name, arity, result, formula) \
    PUBLIC(JOIN(name, X), (OUTS_##result, INS_##arity)) \
    { \
        WHOLE_##arity \
        PUTS_##result(formula); \
    }
#define INS_1 REAL ar, REAL ai
#define INS_2 INS_1, REAL br, REAL bi
#define INS_3 INS_2, REAL cr, REAL ci
#define INS_W uint8_t a, REAL br, REAL bi, REAL cr, REAL ci
#define WHOLE(v) T v = CMPLX_OF(v##r, v##i);
#define WHOLE_1 WHOLE(a)
#define WHOLE_2 WHOLE(a) WHOLE(b)
#define WHOLE_3 WHOLE(a) WHOLE(b) WHOLE(c)
#define WHOLE_W WHOLE(b) WHOLE(c)
#define OUTS_T REAL *o, REAL *p
#define OUTS_R REAL *o
#define OUTS_B uint8_t *o
#define PUTS_T(formula) \
    T z = (formula); \
    *o = __real__ z, *p = __imag__ z
#define PUTS_R PUT_T
#define PUTS_B PUT_B
#include "runtime/scalar_lanes.def"

/* ---- conversions ---- */

#define FROM_B(S) S x
#define FROM_N(S) S x
#define FROM_F(S) S x
#define FROM_C(S) PART(S) xr, PART(S) xi
#define WHOLE_B(S)
#define WHOLE_N(S)
#define WHOLE_F(S)
#define WHOLE_C(S) \
    S x; \
    memcpy(&x, (PART(S)[2]){xr, xi}, sizeof x);
#define TO_B(T) uint8_t *o
#define TO_N(T) T *o
#define TO_F(T) T *o
#define TO_C(T) PART(T) *o, PART(T) *p
#define STORE_B(T, formula) *o = (formula)
#define STORE_N(T, formula) *o = (formula)
#define STORE_F(T, formula) *o = (formula)
#define STORE_C(T, formula) \
    T z = (formula); \
    *o = __real__ z, *p = __imag__ z
#define PAIR(from, S, ks, to, T, kt, lo, hi) \
    PUBLIC(tsr_lane__##to##__##from, (TO_##kt(T), FROM_##ks(S))) \
    { \
        WHOLE_##ks(S) \
        STORE_##kt(T, CV_##kt##_##ks(T, S, x, lo, hi)); \
    }
#define ROW(to, T, kt, lo, hi) LANES2(PAIR, to, T, kt, lo, hi)
LANES(ROW)

#define NARROW(dt, S, enc, dec) \
    PUBLIC(tsr_enc__##dt, (S *o, float x)) { *o = (S)(enc); } \
    PUBLIC(tsr_dec__##dt, (float *o, S c)) { *o = dec; }
NARROW_FORMATS(NARROW)

/* ---- what else drivers do to lanes: FORMULAS_MORE of formulas.h ---- */

PUBLIC(tsr_x__to_odd, (float *o, double x)) { *o = to_odd(x); }
PUBLIC(tsr_x__fma_odd, (float *o, float a, float b, float c)) { *o = f32_fma_odd(a, b, c); }
PUBLIC(tsr_x__flush_f32, (float *o, float x)) { *o = f32_flush(x); }
PUBLIC(tsr_x__flush_f64, (double *o, double x)) { *o = f64_flush(x); }
PUBLIC(tsr_x__clamp_f32, (float *o, float x, float max)) { *o = f32_clamp(x, max); }
PUBLIC(tsr_x__clamp_int4, (int8_t *o, int8_t x)) { *o = clamp_int4(x); }
PUBLIC(tsr_x__clamp_uint4, (uint8_t *o, uint8_t x)) { *o = clamp_uint4(x); }
PUBLIC(tsr_x__sign_extend4, (int8_t *o, uint8_t x)) { *o = sign_extend4(x); }
PUBLIC(tsr_x__is_far_f32, (uint8_t *o, float x)) { *o = f32_is_far(x); }
PUBLIC(tsr_x__is_far_f64, (uint8_t *o, double x)) { *o = f64_is_far(x); }
PUBLIC(tsr_x__far_sin_f32, (float *o, float x)) { *o = f32_far_sin(x, far_turn(x)); }
PUBLIC(tsr_x__far_cos_f32, (float *o, float x)) { *o = f32_far_cos(x, far_turn(x)); }
PUBLIC(tsr_x__far_tan_f32, (float *o, float x)) { *o = f32_far_tan(x, far_turn(x)); }
PUBLIC(tsr_x__far_sin_f64, (double *o, double x)) { *o = sin(x); }
PUBLIC(tsr_x__far_cos_f64, (double *o, double x)) { *o = cos(x); }
PUBLIC(tsr_x__far_tan_f64, (double *o, double x)) { *o = tan(x); }
