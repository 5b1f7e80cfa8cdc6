/*
 * fft_pass.h - one pass of a Fourier transform (Stockham 1966): n = s r m numbers, real and imaginary parts apart.
 *
 * r parts of x, m s numbers each, become y: for p < m and q < s, with a_k = x[q + s (p + m k)],
 *
 *     y[q + s (r p + t)] = w[(t - 1) m + p] sum_k a_k e^(-2 pi i k t / r)        w = 1 for t = 0
 *
 * fft_pass.c is compiled once for each instruction set; all give the same bits.
 */
#ifndef TSR_RUNTIME_FFT_PASS_H
#define TSR_RUNTIME_FFT_PASS_H

#include <stdint.h>

typedef struct Parts { double *re, *im; } Parts;

typedef void FftPass(int64_t m, int64_t s, Parts x, Parts y, Parts w);

enum { FFT_PRIME_MAX = 31 };

typedef struct FftPasses {
    FftPass *by[6];             /* by radix: 2, 3, 4, 5 */
    /* any radix; root: e^(-2 pi i k / r) */
    void (*any)(int r, int64_t m, int64_t s, Parts x, Parts y, Parts w, Parts root);
} FftPasses;

extern const FftPasses fft_base, fft_v3, fft_v4;

#endif
