/*
 * polynomial.h - polynomials by Horner's rule as lists of coefficients, the highest power's first.
 *
 *     POLY(f64_sin_poly, double, f64_fma, c3, c2, c1, c0)
 *
 * is a function of one number, a multiply-add a coefficient, 2 to 14 of them.
 */
#ifndef TSR_RUNTIME_POLYNOMIAL_H
#define TSR_RUNTIME_POLYNOMIAL_H

#define POLY(name, T, fma, ...) \
    static inline T name(T x) { return HORNER(fma, x, __VA_ARGS__); }
#define HORNER(fma, x, ...) \
    HORNER_PICK(__VA_ARGS__, HORNER_14, HORNER_13, HORNER_12, HORNER_11, HORNER_10, HORNER_9, HORNER_8, HORNER_7, HORNER_6, HORNER_5, \
                HORNER_4, HORNER_3, HORNER_2, )(fma, x, __VA_ARGS__)
#define HORNER_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, pick, ...) pick
#define HORNER_2(f, x, a, b) f(a, x, b)
#define HORNER_3(f, x, a, b, ...) HORNER_2(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_4(f, x, a, b, ...) HORNER_3(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_5(f, x, a, b, ...) HORNER_4(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_6(f, x, a, b, ...) HORNER_5(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_7(f, x, a, b, ...) HORNER_6(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_8(f, x, a, b, ...) HORNER_7(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_9(f, x, a, b, ...) HORNER_8(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_10(f, x, a, b, ...) HORNER_9(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_11(f, x, a, b, ...) HORNER_10(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_12(f, x, a, b, ...) HORNER_11(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_13(f, x, a, b, ...) HORNER_12(f, x, f(a, x, b), __VA_ARGS__)
#define HORNER_14(f, x, a, b, ...) HORNER_13(f, x, f(a, x, b), __VA_ARGS__)

#endif
