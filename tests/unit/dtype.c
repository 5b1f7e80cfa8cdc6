/*
 * Number formats: the exact encoder against a search over all values of the
 * format, and the fast loops against the exact encoder.
 */
#include "tensors.h"

#include "ir/core/dtype_code.h"
#include "runtime/convert.h"

#include <math.h>
#include <stdlib.h>

static const DType narrow[] = {DT_fp4, DT_fp6, DT_fp8_e4m3, DT_fp8_e5m2, DT_f16, DT_bf16};
enum { NARROW = sizeof narrow / sizeof *narrow };

static uint64_t codes_of(DType t) { return 1ull << dtype_info[t].bits; }

static void every_code_round_trips(void **state)
{
    static const RoundOpts nearest;

    for (int k = 0; k < NARROW; k++)
        for (uint64_t c = 0; c < codes_of(narrow[k]); c++) {
            double v = dtype_decode(narrow[k], c);
            uint64_t back = 0;
            float f;
            raw_to_lane(narrow[k], &c, &f, 1);
            lane_to_raw(narrow[k], &f, &back, 1);
            if (v == v) {
                assert_true((double)f == v && !signbit(f) == !signbit(v));
                assert_int_equal(back, c);
                assert_int_equal(dtype_encode(narrow[k], v, &nearest), c);
            } else {
                assert_true(f != f);
                assert_true(dtype_decode(narrow[k], back) != dtype_decode(narrow[k], back));
            }
        }
}

/* All finite values of a format, ascending, to search in: knows nothing of bits. */
typedef struct { double *v; int n; } Values;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static Values values_of(DType t)
{
    Values s = {malloc(codes_of(t) * sizeof(double)), 0};

    for (uint64_t c = 0; c < codes_of(t); c++) {
        double v = dtype_decode(t, c);
        if (isfinite(v) && !(v == 0 && signbit(v)))
            s.v[s.n++] = v;
    }
    qsort(s.v, (size_t)s.n, sizeof *s.v, by_value);
    return s;
}

/* The neighbours of x within the finite values. */
static void neighbours(const Values *s, double x, double *lo, double *hi)
{
    int a = 0, b = s->n - 1;

    while (a < b) {
        int mid = (a + b + 1) / 2;
        if (s->v[mid] <= x)
            a = mid;
        else
            b = mid - 1;
    }
    *lo = s->v[a];
    *hi = s->v[a] == x ? x : s->v[a + 1 < s->n ? a + 1 : a];
}

/* Is the last bit of this value's code zero? */
static bool even(DType t, double v)
{
    static const RoundOpts o;

    return !(dtype_encode(t, v, &o) & 1);
}

static double round_by_search(DType t, const Values *s, double x, Rounding mode)
{
    double lo, hi;

    neighbours(s, x, &lo, &hi);
    if (lo == hi)
        return lo;
    switch (mode) {
    case ROUND_ZERO: return x > 0 ? lo : hi;
    case ROUND_UP: return hi;
    case ROUND_DOWN: return lo;
    case ROUND_AWAY: return x - lo == hi - x ? (x > 0 ? hi : lo) : x - lo < hi - x ? lo : hi;
    default: return x - lo == hi - x ? (even(t, lo) ? lo : hi) : x - lo < hi - x ? lo : hi;
    }
}

static void rounding_finds_the_right_neighbour(void **state)
{
    static const Rounding modes[] = {ROUND_NEAREST, ROUND_ZERO, ROUND_UP, ROUND_DOWN, ROUND_AWAY};

    for (int k = 0; k < NARROW; k++) {
        DType t = narrow[k];
        Values s = values_of(t);
        double top = s.v[s.n - 1];
        for (int i = 0; i < 60000; i++) {
            double x = s.v[rnd_to(s.n)], y = s.v[rnd_to(s.n)];
            x = i % 3 == 0 ? (x + nextafter(x, INFINITY)) : i % 3 == 1 ? x + (y - x) * 0x1p-12 : ldexp(x, -1) + y / 4;
            x = i % 7 ? x : (s.v[i % (s.n - 1)] + s.v[i % (s.n - 1) + 1]) / 2;     /* ties */
            if (fabs(x) > top)
                continue;
            for (int m = 0; m < 5; m++) {
                RoundOpts o = {.rounding = (uint8_t)modes[m]};
                double got = dtype_decode(t, dtype_encode(t, x, &o)), want = round_by_search(t, &s, x, modes[m]);
                if (got != want)
                    fail_msg("%s mode %d: %a gives %a, not %a", dtype_info[t].name, modes[m], x, got, want);
            }
        }
        free(s.v);
    }
}

static void fast_conversions_equal_the_encoder(void **state)
{
    static const RoundOpts nearest;
    static const DType all[] = {DT_fp4, DT_fp6, DT_fp8_e4m3, DT_fp8_e5m2, DT_f16, DT_bf16, DT_tf32};

    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (uint32_t i = 0; i < 1u << 21; i++) {
            uint32_t u = i * 2048u + (uint32_t)(rnd() & 2047);
            uint64_t got = 0, wide = (uint64_t)u << 32 | (uint32_t)rnd(), want;
            float f;
            double d;
            memcpy(&f, &u, 4);
            raw_convert(all[k], &got, DT_f32, &f, 1, NULL, 0);
            want = dtype_encode(all[k], f, &nearest);
            if (got != want && f == f)
                fail_msg("%s of %a: %llx, not %llx", dtype_info[all[k]].name, f, (unsigned long long)got, (unsigned long long)want);
            if (i % 8)
                continue;
            memcpy(&d, &wide, 8);
            d = i % 16 ? (double)f * (1 + 0x1p-40 * (double)(i % 64)) : d;
            got = 0;
            raw_convert(all[k], &got, DT_f64, &d, 1, NULL, 0);
            want = dtype_encode(all[k], d, &nearest);
            if (got != want && d == d)
                fail_msg("%s of %a: %llx, not %llx", dtype_info[all[k]].name, d, (unsigned long long)got, (unsigned long long)want);
        }
}

static double once(DType t, double x, bool saturate, Rounding mode)
{
    ConvOpts o = {.rounding = (uint8_t)mode, .saturate = saturate};
    char raw[16] = {0}, lane[16];
    double v;

    raw_convert(t, raw, DT_f64, &x, 1, &o, 0);
    raw_to_lane(t, raw, lane, 1);
    lane_convert(DT_f64, &v, lane_dtype(t), lane, 1);
    return v;
}

static void overflow_follows_the_format(void **state)
{
    assert_true(once(DT_fp8_e4m3, 448, false, 0) == 448);
    assert_true(once(DT_fp8_e4m3, 464, false, 0) == 448);           /* a tie, to even */
    assert_true(isnan(once(DT_fp8_e4m3, 464.5, false, 0)));
    assert_true(isnan(once(DT_fp8_e4m3, INFINITY, false, 0)));
    assert_true(once(DT_fp8_e4m3, INFINITY, true, 0) == 448);
    assert_true(isnan(once(DT_fp8_e4m3, NAN, true, 0)));
    assert_true(once(DT_fp8_e5m2, 1e9, false, 0) == INFINITY);
    assert_true(once(DT_fp8_e5m2, 1e9, true, 0) == 57344);
    assert_true(once(DT_f16, 65519.999, false, 0) == 65504);
    assert_true(once(DT_f16, 65520, false, 0) == INFINITY);
    assert_true(once(DT_f16, -1e9, true, 0) == -65504);
    assert_true(once(DT_fp4, 1e9, false, 0) == 6 && once(DT_fp6, -1e9, false, 0) == -28);
    assert_true(once(DT_f16, 1e9, false, ROUND_ZERO) == 65504 && once(DT_f16, 1e9, false, ROUND_UP) == INFINITY);
    assert_true(once(DT_f16, -1e9, false, ROUND_UP) == -65504 && once(DT_f16, -1e9, false, ROUND_DOWN) == -INFINITY);
    assert_true(once(DT_int8, 300.7, false, 0) == 127 && once(DT_int8, -300, false, 0) == -128 && once(DT_int8, NAN, false, 0) == 0);
    assert_true(once(DT_int4, 9, false, 0) == 7 && once(DT_int4, -9, false, 0) == -8 && once(DT_uint4, 99, false, 0) == 15);
    assert_true(once(DT_uint8, -1, false, 0) == 0 && once(DT_int32, 2.9, false, 0) == 2 && once(DT_int32, -2.9, false, 0) == -2);
}

static void values_are_rounded_once(void **state)
{
    double x = 1 + 0x1p-8 + 0x1p-40;                                /* just above a tie of bf16; f32 would make it the tie */
    int64_t i = (1ll << 53) + 1;
    float f;
    uint16_t h;

    assert_true(once(DT_bf16, x, false, 0) == 1 + 0x1p-7);
    raw_convert(DT_f32, &f, DT_int64, &i, 1, NULL, 0);
    assert_true(f == 0x1p53f);
    i = (1ll << 40) + (1ll << 32) + 1;                              /* a tie of bf16 but for its last bit, which f32 drops */
    raw_convert(DT_bf16, &h, DT_int64, &i, 1, NULL, 0);
    assert_true(dtype_decode(DT_bf16, h) == 0x1p40 + 0x1p33);
    uint64_t big = UINT64_MAX;
    double d;
    raw_convert(DT_f64, &d, DT_uint64, &big, 1, NULL, 0);
    assert_true(d == 0x1p64);
}

static void integers_wrap_or_saturate(void **state)
{
    int32_t v[] = {300, -1, 127, -129};
    int8_t wrapped[4], kept[4];
    uint8_t u[4];
    ConvOpts sat = {.saturate = true};

    raw_convert(DT_int8, wrapped, DT_int32, v, 4, NULL, 0);
    raw_convert(DT_int8, kept, DT_int32, v, 4, &sat, 0);
    raw_convert(DT_uint8, u, DT_int32, v, 4, &sat, 0);
    assert_int_equal(wrapped[0], 44);
    assert_int_equal(wrapped[3], 127);
    assert_int_equal(kept[0], 127);
    assert_int_equal(kept[3], -128);
    assert_int_equal(u[0], 255);
    assert_int_equal(u[1], 0);
}

/* One of two neighbours, exact values never move, and the right share goes up. */
static void stochastic_rounding_is_fair(void **state)
{
    enum { N = 20000 };
    static const double share[] = {0.0, 0.03, 0.25, 0.5, 0.9};
    static uint16_t out[N];
    static float x[N];

    for (int k = 0; k < 5; k++) {
        ConvOpts o = {.rounding = ROUND_STOCHASTIC, .seed = 7 + (uint64_t)k};
        int up = 0;
        for (int i = 0; i < N; i++)
            x[i] = (float)(1 + share[k] / 128);
        raw_convert(DT_bf16, out, DT_f32, x, N, &o, 0);
        for (int i = 0; i < N; i++) {
            assert_true(out[i] == 0x3f80 || out[i] == 0x3f81);
            up += out[i] == 0x3f81;
        }
        double sigma = sqrt(N * share[k] * (1 - share[k]));
        assert_true(fabs(up - N * share[k]) <= 5.5 * sigma);
    }
    ConvOpts o = {.rounding = ROUND_STOCHASTIC};
    for (int k = 0; k < NARROW; k++)
        for (uint64_t c = 0; c < codes_of(narrow[k]); c++) {
            double v = dtype_decode(narrow[k], c);
            uint64_t back = 0;
            o.seed = c;
            raw_convert(narrow[k], &back, DT_f64, &v, 1, &o, 5);
            if (v == v)
                assert_int_equal(back, c);                          /* infinities too */
        }
}

static void packed_elements_are_neighbourly(void **state)
{
    static const DType packed[] = {DT_int4, DT_uint4, DT_fp4, DT_fp6};
    uint8_t in[41], out[41];
    char buf[64];

    for (int k = 0; k < 4; k++)
        for (int64_t at = 0; at < 9; at++)
            for (int64_t n = 0; n + at < 41; n++) {
                unsigned mask = (1u << dtype_info[packed[k]].sbits) - 1;
                memset(buf, 0xff, sizeof buf);
                for (int i = 0; i < n; i++)
                    in[i] = (uint8_t)(rnd() & mask);
                raw_pack(packed[k], buf, at, n, in);
                raw_unpack(packed[k], buf, at, n, out);
                assert_memory_equal(in, out, (size_t)n);
                raw_unpack(packed[k], buf, 0, at, out);
                for (int i = 0; i < at; i++)
                    assert_int_equal(out[i], mask);
                raw_unpack(packed[k], buf, at + n, 1, out);
                assert_int_equal(out[0], mask);
            }
    assert_int_equal(dtype_nbytes(DT_fp6, 4), 3);
    assert_int_equal(dtype_nbytes(DT_int4, 3), 2);
}

static void nan_payloads_survive(void **state)
{
    uint32_t u = 0xffc01234;
    uint32_t same;

    raw_convert(DT_f32, &same, DT_f32, &u, 1, NULL, 0);
    assert_int_equal(same, u);
    u = 0x7f800001;                                                 /* payload only in the low bits: must not become inf */
    uint16_t h;
    raw_convert(DT_bf16, &h, DT_f32, &u, 1, NULL, 0);
    assert_true((h & 0x7fff) > 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_round_trips),
        cmocka_unit_test(rounding_finds_the_right_neighbour),
        cmocka_unit_test(fast_conversions_equal_the_encoder),
        cmocka_unit_test(overflow_follows_the_format),
        cmocka_unit_test(values_are_rounded_once),
        cmocka_unit_test(integers_wrap_or_saturate),
        cmocka_unit_test(stochastic_rounding_is_fair),
        cmocka_unit_test(packed_elements_are_neighbourly),
        cmocka_unit_test(nan_payloads_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
