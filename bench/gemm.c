/*
 * gemm.c - matrix products against the peak of one core.
 *
 *     ninja -C build bench/bench_gemm && TESSERA_THREADS=1 build/bench/bench_gemm [M N K [LAYOUT [BATCH [KIND]]]]
 *
 * LAYOUT is two letters, of a and b: n as they are, t transposed. KIND is a number: 0 of f32, 1 and 2 of bf16 and bytes by dot products, 3 and 4 of
 * bf16 and bytes by matrix units, 5 and 6 of f32 by three and two parts of its numbers there.  Each line is a JSON object: GFLOP/s and what part of the
 * peak they are.  The peak is that of fused multiply-adds on registers alone, of bf16 and bytes that of dot products or of matrix units, measured in turns
 * with the product.  Times are this thread's processor time and medians of many rounds, so a busy machine matters little.
 */
#include "base/alloc.h"
#include "runtime/cpu.h"
#include "runtime/each.h"
#include "runtime/gemm_amx.h"
#include "runtime/gemm_bf16.h"
#include "runtime/gemm_int8.h"
#include "runtime/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define PEAK 1
/* Multiply-adds of 28 registers, enough to hide their latency; gives how many operations that were. */
__attribute__((target("avx512f"), noinline)) static double fma_wide(int64_t rounds)
{
    __m512 acc[28], x = _mm512_set1_ps(0.5f);

    UNROLL for (int i = 0; i < 28; i++)
        acc[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++)
        UNROLL for (int i = 0; i < 28; i++)
            __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(acc[i]) : "v"(x));
    return (double)rounds * 28 * 16 * 2;
}

/* The same of dot products: of pairs of bf16, of four bytes. */
#define DOTS(name, op, operations) \
    __attribute__((target("avx512f"), noinline)) static double name(int64_t rounds) \
    { \
        __m512i acc[28], x = _mm512_set1_epi32(1); \
        UNROLL for (int i = 0; i < 28; i++) \
            acc[i] = _mm512_set1_epi32(i); \
        for (int64_t r = 0; r < rounds; r++) \
            UNROLL for (int i = 0; i < 28; i++) \
                __asm__ volatile(op " %1, %1, %0" : "+v"(acc[i]) : "v"(x)); \
        return (double)rounds * 28 * 16 * (operations); \
    }
DOTS(dots_bf16, "vdpbf16ps", 4)
DOTS(dots_int8, "vpdpbusd", 8)

/* The same of matrix units: six registers of sums; eight of 16 rows of 64 bytes are told. */
static const struct Config { uint8_t palette, zero[15]; uint16_t bytes[16]; uint8_t rows[16]; } config = {
    1, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
#define TILES(name, op, operations) \
    __attribute__((noinline)) static double name(int64_t rounds) \
    { \
        if (!amx_has(AMX_SS)) \
            return 0; \
        __asm__ volatile("ldtilecfg %0" : : "m"(config)); \
        for (int64_t r = 0; r < rounds; r++) \
            __asm__ volatile(op " %tmm6, %tmm7, %tmm0\n\t" op " %tmm6, %tmm7, %tmm1\n\t" op " %tmm6, %tmm7, %tmm2\n\t" \
                             op " %tmm6, %tmm7, %tmm3\n\t" op " %tmm6, %tmm7, %tmm4\n\t" op " %tmm6, %tmm7, %tmm5"); \
        __asm__ volatile("tilerelease"); \
        return (double)rounds * 6 * 16 * 16 * (operations); \
    }
TILES(tiles_bf16, "tdpbf16ps", 64)
TILES(tiles_int8, "tdpbssd", 128)

__attribute__((target("avx2,fma"), noinline)) static double fma_v3(int64_t rounds)
{
    __m256 acc[12], x = _mm256_set1_ps(0.5f);

    UNROLL for (int i = 0; i < 12; i++)
        acc[i] = _mm256_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++)
        UNROLL for (int i = 0; i < 12; i++)
            __asm__ volatile("vfmadd231ps %1, %1, %0" : "+x"(acc[i]) : "x"(x));
    return (double)rounds * 12 * 8 * 2;
}
#else
#define PEAK 0
#endif

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef enum { KIND_F32, KIND_BF16, KIND_INT8, KIND_TILES, KIND_BYTES, KIND_PARTS, KIND_TF32, KINDS } Kind;
static const char *const kind_name[] = {"", "bf16 ", "int8 ", "bf16 fast ", "int8 AMX ", "f32 fast ", "tf32 fast "};
static const int64_t kind_size[] = {4, 2, 1, 2, 1, 4, 4};

static bool has(Kind kind)
{
    switch (kind) {
    case KIND_BF16: return gemm_bf16_has();
    case KIND_TILES: return amx_has(AMX_HALVES);
    case KIND_INT8: return bytes_unit() != BYTES_NONE && bytes_unit_has(BYTES_VNNI);
    case KIND_BYTES: return bytes_unit() == BYTES_AMX;
    case KIND_PARTS: case KIND_TF32: return amx_has(AMX_THIRDS);
    default: return true;
    }
}

/* Operations of multiply-adds in about 1 ms; 0: no instructions for it here. */
static double probe(Kind kind)
{
#if PEAK
    switch (kind) {
    case KIND_BF16: return dots_bf16(100000);
    case KIND_INT8: return dots_int8(100000);
    case KIND_TILES: return tiles_bf16(30000);
    case KIND_BYTES: return tiles_int8(30000);
    default: break;
    }
    if (!strcmp(cpu()->name, "v4"))
        return fma_wide(100000);
    if (!strcmp(cpu()->name, "v3"))
        return fma_v3(100000);
#endif
    return 0;
}

static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

static bool run(KCtx *c, Kind kind, const Gemm *g)
{
    BytesGemm bytes = {.m = g->m, .n = g->n, .k = g->k, .a = g->a, .b = g->b, .asigned = true, .bsigned = true, .arow = g->arow, .acol = g->acol,
                       .brow = g->brow, .bcol = g->bcol, .c = g->c, .crow = g->crow};

    switch (kind) {
    case KIND_BF16: return gemm_bf16(c, g) == K_OK;
    case KIND_TILES: return gemm_amx(c, g, AMX_HALVES) == K_OK;
    case KIND_INT8: return gemm_bytes(c, &bytes, BYTES_VNNI) == K_OK;
    case KIND_BYTES: return gemm_bytes(c, &bytes, BYTES_AMX) == K_OK;
    case KIND_PARTS: return gemm_amx(c, g, AMX_THIRDS) == K_OK;
    case KIND_TF32: return gemm_amx(c, g, AMX_TF32) == K_OK;
    default: return gemm_run(c, *g) == K_OK;
    }
}

/* Numbers between 0 and 1 of f32 and bf16, any bytes. */
static void fill(Kind kind, void *to, int64_t n, int64_t period)
{
    for (int64_t i = 0; i < n; i++) {
        float x = (float)(i * 7919 % period) / (float)period;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (kind_size[kind] == 4)
            ((float *)to)[i] = x;
        else if (kind_size[kind] == 2)
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        else
            ((uint8_t *)to)[i] = (uint8_t)(i * 7919 % period);
    }
}

static void measure(Kind kind, int64_t m, int64_t n, int64_t k, const char *layout, int64_t batch)
{
    enum { ROUNDS = 31 };
    Gemm g = {.accum = DT_f32, .batch = batch, .m = m, .n = n, .k = k, .abatch = m * k, .bbatch = k * n, .cbatch = m * n, .crow = n};
    void *a = tsr_try_alloc((size_t)(batch * m * k * kind_size[kind]), 64), *b = tsr_try_alloc((size_t)(batch * k * n * kind_size[kind]), 64);
    void *c = tsr_try_alloc((size_t)(batch * m * n * 4), 64);
    double work = 2.0 * (double)batch * (double)m * (double)n * (double)k, took[ROUNDS], peak[ROUNDS];
    int64_t repeat = (int64_t)(2e7 / work) + 1;
    KCtx ctx = {0};

    fill(kind, a, batch * m * k, 1009);
    fill(kind, b, batch * k * n, 1013);
    g.a = a, g.b = b, g.c = c;
    g.arow = layout[0] == 't' ? 1 : k, g.acol = layout[0] == 't' ? m : 1;
    g.brow = layout[1] == 't' ? 1 : n, g.bcol = layout[1] == 't' ? k : 1;
    for (int r = 0; r < ROUNDS; r++) {
        double t = now(), ops = probe(kind);
        peak[r] = (now() - t) / (ops > 0 ? ops : 1);
        t = now();
        for (int64_t i = 0; i < repeat; i++)
            if (!run(&ctx, kind, &g))
                exit(1);
        took[r] = (now() - t) / (double)repeat;
    }
    double t = median(took, ROUNDS), p = median(peak, ROUNDS);
    printf("{\"name\": \"%s%lldx%lldx%lld %s", kind_name[kind], (long long)m, (long long)n, (long long)k, layout);
    if (batch > 1)
        printf(" batch %lld", (long long)batch);
    printf("\", \"microseconds\": %.2f, \"gflops\": %.1f", t * 1e6, work / t * 1e-9);
    if (probe(kind) > 0)
        printf(", \"peak\": %.1f, \"of_peak\": %.3f", 1e-9 / p, work / t * p);
    printf("}\n");
    fflush(stdout);
    tsr_free_aligned(a), tsr_free_aligned(b), tsr_free_aligned(c);
}

int main(int argc, char **argv)
{
    static const int64_t sizes[][3] = {{1024, 1024, 1024}, {2048, 2048, 2048}, {512, 3072, 768}, {256, 256, 256}, {1025, 1023, 1025},
                                       {257, 255, 257},
                                       {2047, 2049, 2047}, {512, 3073, 767}, {128, 128, 128}, {64, 64, 64}, {33, 47, 65}, {100, 100, 100},
                                       {16, 16, 16}, {8, 8, 8}, {1, 4096, 4096}, {4, 4096, 1024}, {16, 1024, 1024}, {1000, 10, 784},
                                       {1024, 1, 1024}, {1024, 1024, 64}, {64, 64, 4096}};
    static const char *const layouts[] = {"nn", "nt", "tn", "tt"};

    if (argc > 6 && !has((Kind)atoi(argv[6])))
        return 1;
    if (argc > 3)
        measure(argc > 6 ? (Kind)atoi(argv[6]) : KIND_F32, atoll(argv[1]), atoll(argv[2]), atoll(argv[3]), argc > 4 ? argv[4] : "nn",
                argc > 5 ? atoll(argv[5]) : 1);
    for (size_t i = 0; argc <= 3 && i < sizeof sizes / sizeof *sizes; i++)
        for (int l = 0; l < (i < 4 || i > 13 ? 4 : 1); l++)
            measure(KIND_F32, sizes[i][0], sizes[i][1], sizes[i][2], layouts[l], 1);
    if (argc <= 3)
        for (int l = 0; l < 2; l++)
            measure(KIND_F32, 256, 256, 32, layouts[l], 64), measure(KIND_F32, 64, 64, 64, layouts[l], 32);
    for (int kind = KIND_BF16; kind < KINDS && argc <= 3; kind++)
        for (size_t i = 0; i < 6 && has((Kind)kind); i++)
            for (int l = 0; l < 3; l++)
                measure((Kind)kind, sizes[i][0], sizes[i][1], sizes[i][2], layouts[l], 1);
    return 0;
}
