/*
 * f32 to the narrow floats, against a reference that knows only the values of
 * a format: rounding is monotonous, so going up through the floats the nearest
 * value changes exactly at the midpoints, and ties go to the even neighbour.
 *
 * Always: the floats around every midpoint and every power of two, and runs of
 * them all over the range. TESSERA_EXHAUSTIVE=1: all 2^32, on every instruction set.
 */
#include "tensors.h"

#include "runtime/convert.h"
#include "runtime/cpu.h"

#include <math.h>
#include <stdlib.h>

/* What the standards say of each format; values follow from it. over: what is past the largest. */
typedef enum { TO_INF, TO_NAN, TO_MAX } Over;
typedef struct { DType t; int e, m, bias; uint32_t top; Over over; bool has_nan; } Spec;
static const Spec specs[] = {
    {DT_bf16, 8, 7, 127, 0x7f7f, TO_INF, true},    {DT_f16, 5, 10, 15, 0x7bff, TO_INF, true},
    {DT_fp8_e5m2, 5, 2, 15, 0x7b, TO_INF, true},   {DT_fp8_e4m3, 4, 3, 7, 0x7e, TO_NAN, true},
    {DT_fp6, 3, 2, 3, 0x1f, TO_MAX, false},        {DT_fp4, 2, 1, 1, 0x7, TO_MAX, false},
};
enum { SPECS = sizeof specs / sizeof *specs, RUN = 4096 };

static double value_of(const Spec *s, uint32_t code)
{
    int field = (int)(code >> s->m);
    double mant = code & ((1u << s->m) - 1);

    return field ? ldexp(1 + ldexp(mant, -s->m), field - s->bias) : ldexp(mant, 1 - s->bias - s->m);
}

/* ends[c]: the largest float, as bits, whose nearest value is that of code c. */
static uint32_t *ends_of(const Spec *s)
{
    uint32_t *end = malloc((s->top + 1) * sizeof *end);

    for (uint32_t c = 0; c <= s->top; c++) {
        double v = value_of(s, c), next = c < s->top ? value_of(s, c + 1) : v + (v - value_of(s, c - 1)), mid = (v + next) / 2;
        float f = (float)mid;
        uint32_t u;
        memcpy(&u, &f, 4);
        if (isinf(f))
            u = 0x7f7fffff;
        else if ((double)f > mid || ((double)f == mid && c & 1))
            u--;                                    /* a tie goes up from an odd code */
        end[c] = u;
    }
    return end;
}

static uint32_t sign_bit(const Spec *s) { return 1u << (s->e + s->m); }

static bool is_nan(const Spec *s, uint32_t code)
{
    code &= sign_bit(s) - 1;
    return s->over == TO_INF ? code > s->top + 1 : s->has_nan && code > s->top;
}

/* Is `got` right for the float of bits u, whose magnitude's code by the table is c (top + 1: past the largest)? */
static bool right(const Spec *s, uint32_t u, uint32_t c, bool saturate, uint32_t got)
{
    uint32_t a = u & 0x7fffffff, sign = u >> 31 ? sign_bit(s) : 0;

    if (a > 0x7f800000)
        return s->has_nan ? is_nan(s, got) : (got & (sign_bit(s) - 1)) == 0;
    if (c > s->top)
        c = saturate || s->over == TO_MAX ? s->top : s->top + 1;
    return got == (sign | c);
}

/* Codes of n floats with consecutive bits, by the raw loop of an instruction set or (NULL) by raw_convert with saturation. */
static void codes(const Spec *s, const Cpu *c, const float *x, uint32_t *got, int n)
{
    static const ConvOpts saturate = {.saturate = true};
    static uint8_t raw[RUN * 2];

    if (c)
        c->codecs->encode[s->t](x, raw, n);
    else
        raw_convert(s->t, raw, DT_f32, x, n, &saturate, 0);
    for (int i = 0; i < n; i++)
        got[i] = raw_size(s->t) == 2 ? (uint32_t)(raw[2 * i] | raw[2 * i + 1] << 8) : raw[i];
}

/* Check the floats with bits [lo, lo + n), n <= RUN, both signs; *c follows the table upwards. */
static void check_run(const Spec *s, const Cpu *cpu, const uint32_t *end, uint32_t lo, int n, uint32_t *c)
{
    static float x[RUN];
    static uint32_t got[RUN];

    for (uint32_t sign = 0; sign < 2; sign++) {
        uint32_t code = *c;
        for (int i = 0; i < n; i++) {
            uint32_t u = (lo + (uint32_t)i) | sign << 31;
            memcpy(&x[i], &u, 4);
        }
        codes(s, cpu, x, got, n);
        for (int i = 0; i < n; i++) {
            uint32_t a = lo + (uint32_t)i;
            while (code <= s->top && a > end[code])
                code++;
            if (!right(s, a | sign << 31, code, !cpu, got[i]))
                fail_msg("%s of %a (%08x) on %s: code %x, by the table %x", dtype_info[s->t].name, x[i], a | sign << 31,
                         cpu ? cpu->name : "saturating", got[i], code);
        }
        if (sign)
            *c = code;
    }
}

/* The code of one float by halving. */
static uint32_t code_at(const Spec *s, const uint32_t *end, uint32_t a)
{
    uint32_t lo = 0, hi = s->top + 1;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (a > end[mid])
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void check_near(const Spec *s, const Cpu *cpu, const uint32_t *end, uint32_t a)
{
    uint32_t lo = a < 3 ? 0 : a - 3, n = lo > 0x7fffffff - 8 ? 0x80000000 - lo : 8, c = code_at(s, end, lo);

    check_run(s, cpu, end, lo, (int)n, &c);
}

static void for_each_way(void (*check)(const Spec *s, const Cpu *cpu, const uint32_t *end))
{
    static const char *const names[] = {"base", "v3", "v4"};

    for (int k = 0; k < SPECS; k++) {
        uint32_t *end = ends_of(&specs[k]);
        check(&specs[k], NULL, end);
        for (int i = 0; i < 3; i++)
            if (cpu_find(names[i]))
                check(&specs[k], cpu_find(names[i]), end);
        free(end);
    }
}

static void check_some(const Spec *s, const Cpu *cpu, const uint32_t *end)
{
    for (uint32_t c = 0; c <= s->top; c++)
        check_near(s, cpu, end, end[c]);
    for (uint32_t e = 0; e < 256; e++)
        check_near(s, cpu, end, e << 23);
    for (uint32_t a = 0; a < 0x7fff0000; a += 999983)
        check_near(s, cpu, end, a);
}

/* Runs of floats, all of them or every 1021st run. */
static void check_runs(const Spec *s, const Cpu *cpu, const uint32_t *end)
{
    uint32_t c = 0, step = getenv("TESSERA_EXHAUSTIVE") ? RUN : 1021 * RUN;

    for (uint32_t lo = 0; lo < 0x80000000; lo += step)
        check_run(s, cpu, end, lo, RUN, &c);
    if (step == RUN)
        print_message("%s, %s: all 2^32 floats\n", dtype_info[s->t].name, cpu ? cpu->name : "saturating");
}

static void narrowing_rounds_to_the_nearest(void **state) { for_each_way(check_some); }

static void runs_narrow_to_the_nearest(void **state) { for_each_way(check_runs); }

/* The instruction sets agree on NaNs too, whose codes the table leaves open. */
static void nans_are_the_same_everywhere(void **state)
{
    static const char *const names[] = {"v3", "v4"};
    float x[RUN];
    uint32_t want[RUN], got[RUN];

    for (int i = 0; i < RUN; i++) {
        uint32_t u = 0x7f800001 + (uint32_t)rnd_to(0x7ffffe);
        u |= (uint32_t)rnd_to(2) << 31;
        memcpy(&x[i], &u, 4);
    }
    for (int k = 0; k < SPECS; k++)
        for (int i = 0; i < 2; i++)
            if (cpu_find(names[i])) {
                codes(&specs[k], cpu_find("base"), x, want, RUN);
                codes(&specs[k], cpu_find(names[i]), x, got, RUN);
                assert_memory_equal(want, got, sizeof want);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrowing_rounds_to_the_nearest),
        cmocka_unit_test(nans_are_the_same_everywhere),
        cmocka_unit_test(runs_narrow_to_the_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
