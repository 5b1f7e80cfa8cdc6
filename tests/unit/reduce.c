/*
 * The order of sums and products, against a direct transcription of the rule
 * in R4 of docs/numerics.md, and its independence of threads and layouts.
 */
#include "tensors.h"

#include "runtime/gemm_amx.h"
#include "runtime/gemm_bf16.h"
#include "runtime/gemm_int8.h"

#include <math.h>
#include <stdlib.h>

/* Pairs (0,1), (2,3), ...; an odd last one passes up. */
static float tree(float *x, int64_t n)
{
    while (n > 1) {
        for (int64_t i = 0; i < n / 2; i++)
            x[i] = x[2 * i] + x[2 * i + 1];
        if (n % 2)
            x[n / 2] = x[n - 1];
        n = (n + 1) / 2;
    }
    return n ? x[0] : 0;
}

static float sum_by_rule(const float *x, int64_t n)
{
    int64_t chunks = (n + 255) / 256;
    float *part = malloc(((size_t)chunks + 1) * sizeof *part), r;

    for (int64_t c = 0; c < chunks; c++) {
        float lane[8] = {0};
        for (int64_t i = c * 256; i < n && i < (c + 1) * 256; i++)
            lane[i % 8] += x[i];
        part[c] = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    }
    r = tree(part, chunks);
    free(part);
    return r;
}

static float dot_by_rule(const float *a, int64_t as, const float *b, int64_t bs, int64_t k)
{
    float sum = 0, chunk = 0;

    for (int64_t i = 0; i < k; i++) {
        chunk = fmaf(a[i * as], b[i * bs], chunk);
        if ((i + 1) % 256 && i + 1 < k)
            continue;
        sum = i < 256 ? chunk : sum + chunk;
        chunk = 0;
    }
    return sum;
}

static Tensor *noise(int rank, const int64_t *shape)
{
    Tensor *t = tensor_new(DT_f32, rank, shape);
    int64_t n = tensor_size(t);

    for (int64_t i = 0; i < n; i++)
        ((float *)t->store->data)[i] = (float)(int32_t)rnd() * 0x1p-31f * (float)(1 + rnd_to(1000));
    return t;
}

static Attr over(int8_t axis)
{
    Attr a = attr_default();

    a.naxes = 1;
    a.axis[0] = axis;
    return a;
}

static void sums_follow_the_rule(void **state)
{
    static const int64_t sizes[] = {0, 1, 7, 8, 9, 255, 256, 257, 511, 513, 768, 1280, 5000, 65537, 300000};

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        Tensor *x = noise(1, &sizes[k]), *s;
        Attr a = over(-1);
        s = run1(OP_sum, &a, x);
        float want = sum_by_rule(x->store->data, sizes[k]), got = *(float *)s->store->data;
        assert_memory_equal(&got, &want, 4);
        tensor_unref(x);
        tensor_unref(s);
    }
}

/* Rows of one chunk and of some, of wide elements as of narrow ones, several to a run or each by itself. */
static void short_rows_are_whole(void **state)
{
    static const DType dtypes[] = {DT_f32, DT_f64, DT_int32, DT_int64, DT_bf16};

    for (int round = 0; round < 300; round++) {
        int64_t shape[] = {1 + rnd_to(20), 1 + rnd_to(600)};
        Tensor *x = tensor_new(dtypes[round % 5], 2, shape), *s;
        Attr a = over(-1);
        for (int64_t i = 0; i < tensor_size(x); i++)
            elem_set_i(x, i, 1);
        s = run1(OP_sum, &a, x);
        for (int64_t i = 0; i < shape[0] && (round % 5 < 4 || shape[1] <= 256); i++)
            assert_int_equal(elem_get_i(s, i), shape[1]);
        tensor_unref(x);
        tensor_unref(s);
    }
}

/* The sum over a leading axis takes other loops; every layout must give the same bits. */
static void layouts_do_not_change_bits(void **state)
{
    for (int round = 0; round < 60; round++) {
        int64_t shape[] = {1 + rnd_to(700), 1 + rnd_to(40)}, flipped[] = {shape[1], shape[0]}, stride[] = {1, shape[1]};
        Tensor *x = noise(2, shape), *view = tensor_view(x, 2, flipped, stride, 0), *rows = tensor_copy(view);
        Attr first = over(-2), last = over(-1);
        Tensor *a = run1(OP_sum, &first, x), *b = run1(OP_sum, &last, view), *c = run1(OP_sum, &last, rows);
        assert_true(tensor_same_bits(a, b));
        assert_true(tensor_same_bits(a, c));
        float want = sum_by_rule(rows->store->data, shape[0]);
        assert_memory_equal(c->store->data, &want, 4);
        Tensor *all[] = {x, view, rows, a, b, c};
        for (int i = 0; i < 6; i++)
            tensor_unref(all[i]);
    }
}

static void several_axes_flatten_in_row_major_order(void **state)
{
    int64_t shape[] = {5, 11, 7, 13}, flat[] = {7, 5 * 11 * 13};
    Attr a = attr_default(), p = attr_default(), r = attr_default(), last = over(-1);
    Tensor *x = noise(4, shape), *s, *moved, *rows, *t;

    a.naxes = 3;                                    /* all axes but the third, in any order of naming */
    a.axis[0] = -1, a.axis[1] = -4, a.axis[2] = -3;
    s = run1(OP_sum, &a, x);
    p.naxes = 4;
    p.axis[0] = -2, p.axis[1] = -4, p.axis[2] = -3, p.axis[3] = -1;
    moved = run1(OP_permute, &p, x);
    r.nd[0] = 2;
    memcpy(r.d[0], flat, sizeof flat);
    rows = run1(OP_reshape, &r, moved);
    t = run1(OP_sum, &last, rows);
    assert_true(tensor_same_bits(s, t));
    Tensor *all[] = {x, s, moved, rows, t};
    for (int i = 0; i < 5; i++)
        tensor_unref(all[i]);
}

static void threads_do_not_change_bits(void **state)
{
    int64_t n = 3000000, shape[] = {300, 300};
    Tensor *x = noise(1, &n), *m = noise(2, shape), *base[3] = {NULL};
    Attr a = over(-1), key = attr_default();
    Tensor *k = of_doubles(DT_uint32, 2, (double[]){5, 6});

    key.dtype = DT_f32;
    key.kind = DIST_NORMAL;
    key.nd[0] = 1;
    key.d[0][0] = 100000;
    static const int threads[] = {1, 2, 3, 7, 16};
    for (int i = 0; i < 5; i++) {
        pool_init(threads[i]);
        Tensor *got[] = {run1(OP_sum, &a, x), run2(OP_matmul, NULL, m, m), run1(OP_random, &key, k)};
        for (int j = 0; j < 3; j++) {
            if (base[j])
                assert_true(tensor_same_bits(base[j], got[j]));
            else
                base[j] = tensor_ref(got[j]);
            tensor_unref(got[j]);
        }
    }
    pool_init(0);
    for (int j = 0; j < 3; j++)
        tensor_unref(base[j]);
    tensor_unref(x);
    tensor_unref(m);
    tensor_unref(k);
}

static void products_follow_the_rule(void **state)
{
    for (int round = 0; round < 60; round++) {
        int64_t m = 1 + rnd_to(round % 5 ? 40 : 260), k = rnd_to(round % 3 ? 200 : 900), n = 1 + rnd_to(150), sa[] = {m, k}, sb[] = {k, n};
        Tensor *a = noise(2, sa), *b = noise(2, sb), *c = run2(OP_matmul, NULL, a, b);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                float want = dot_by_rule((float *)a->store->data + i * k, 1, (float *)b->store->data + j, n, k);
                assert_memory_equal((float *)c->store->data + i * n + j, &want, 4);
            }
        tensor_unref(a);
        tensor_unref(b);
        tensor_unref(c);
    }
}

/* Products of bytes are exact on every unit that there is, for all signs, sizes and layouts. */
static void products_of_bytes_are_exact(void **state)
{
    enum { LONG = 2700 };               /* several blocks */
    static uint8_t a[70 * LONG], b[70 * LONG];
    static int32_t c[4 * LONG];
    KCtx ctx = {0};

    for (int round = 0; round < 80; round++) {
        int64_t m = 1 + rnd_to(70), n = 1 + rnd_to(70), k = rnd_to(round % 4 ? 200 : LONG);
        if (round % 8 == 7)
            m = 1 + rnd_to(3), n = 1 + rnd_to(LONG), k = rnd_to(70);
        BytesGemm g = {.m = m, .n = n, .k = k, .a = a, .b = b, .asigned = rnd_to(2), .bsigned = rnd_to(2), .c = c, .crow = n + rnd_to(5)};
        bool ta = rnd_to(2), tb = rnd_to(2);
        g.arow = ta ? 1 : k, g.acol = ta ? m : 1, g.brow = tb ? 1 : n, g.bcol = tb ? k : 1;
        for (int64_t i = 0; i < 70 * LONG; i++)
            a[i] = (uint8_t)rnd(), b[i] = (uint8_t)rnd();
        for (BytesUnit u = BYTES_VNNI; u <= BYTES_AMX; u++) {
            memset(c, 0x55, sizeof c);
            if (!bytes_unit_has(u) || gemm_bytes(&ctx, &g, u) != K_OK)
                continue;
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    uint32_t sum = 0;
                    for (int64_t q = 0; q < k; q++) {
                        uint8_t x = a[i * g.arow + q * g.acol], y = b[q * g.brow + j * g.bcol];
                        sum += (uint32_t)(g.asigned ? (int8_t)x : x) * (uint32_t)(g.bsigned ? (int8_t)y : y);
                    }
                    assert_int_equal((uint32_t)c[i * g.crow + j], sum);
                }
        }
    }
}

/* Elements of bf16: of a wide range, of a narrow one, next to the smallest numbers and among them, and zeros. */
static uint16_t some_half(int kind)
{
    uint16_t bits = (uint16_t)rnd();

    switch (kind) {
    case 0: return bits;                                                        /* any, infinities and NaN too */
    case 1: return (uint16_t)((bits & 0x80ff) | (120 + rnd_to(16)) << 7);
    case 2: return (uint16_t)((bits & 0x807f) | rnd_to(75) << 7);
    default: return rnd_to(3) ? 0 : (uint16_t)((bits & 0x807f) | (60 + rnd_to(30)) << 7);
    }
}

static float of_half(uint16_t x) { uint32_t u = (uint32_t)x << 16; float f; memcpy(&f, &u, 4); return f; }

typedef struct Seen { int64_t n; uint8_t row[2 * 100]; } Seen;

static void count_rows(void *st, int64_t slot, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    Seen *s = st;

    assert_int_equal(column, 0);
    assert_int_equal(columns, s->n);
    for (int64_t i = row; i < row + rows; i++)
        s->row[i]++;
}

/* Dot-product instructions give the bits of the rule, for subnormal numbers too, in every layout and by any number of threads. */
static void products_of_halves_follow_the_rule(void **state)
{
    enum { SIZE = 2 * 100 * 600 };
    static uint16_t a[SIZE], b[SIZE];
    static float c[2 * 100 * 110], x[600], y[600];
    KCtx ctx = {0};

    if (!gemm_bf16_has())
        return;
    for (int round = 0; round < 120; round++) {
        int64_t m = 1 + rnd_to(100), n = 1 + rnd_to(100), k = 1 + rnd_to(round % 4 ? 150 : 600), batch = 1 + rnd_to(2);
        bool ta = rnd_to(2), tb = rnd_to(2);
        Seen seen = {n, {0}};
        GemmDone done = {count_rows, &seen, true};
        Gemm g = {.accum = DT_f32, .batch = batch, .m = m, .n = n, .k = k, .a = a, .b = b, .abatch = m * k, .bbatch = rnd_to(2) * n * k, .c = c,
                  .cbatch = m * n, .crow = n, .done = &done};
        g.arow = ta ? 1 : k, g.acol = ta ? m : 1, g.brow = tb ? 1 : n, g.bcol = tb ? k : 1;
        for (int64_t i = 0; i < SIZE; i++)
            a[i] = some_half(round / 4 % 4), b[i] = some_half(round % 4 == 1 ? 1 : round / 4 % 4);
        pool_init(1 + (int)rnd_to(3));
        memset(c, 0x55, sizeof c);
        assert_int_equal(gemm_bf16(&ctx, &g), K_OK);
        for (int64_t i = 0; i < batch * m; i++)
            assert_int_equal(seen.row[i], 1);
        for (int64_t i = 0; i < batch * m * n; i++) {
            int64_t q = i / (m * n), row = i / n % m, column = i % n;
            for (int64_t s = 0; s < k; s++) {
                x[s] = of_half(a[q * g.abatch + row * g.arow + s * g.acol]);
                y[s] = of_half(b[q * g.bbatch + s * g.brow + column * g.bcol]);
            }
            float want = dot_by_rule(x, 1, y, 1, k);
            if (want == want)
                assert_memory_equal(c + i, &want, 4);
            else
                assert_true(c[i] != c[i]);
        }
    }
    pool_init(0);
}

/* (1 + 2^-7)^2 - (1 + 2^-6) = 2^-14, of numbers so small that it is just normal, or subnormal. */
static void halves_cancel_to_subnormal_numbers(void **state)
{
    for (int low = 130; low < 150; low++) {
        uint16_t ea = (uint16_t)(low / 2), eb = (uint16_t)(low - ea);
        uint16_t a[2] = {(uint16_t)(ea << 7 | 1), (uint16_t)(0x8000 | ea << 7 | 2)}, b[2] = {(uint16_t)(eb << 7 | 1), (uint16_t)(eb << 7)};
        float x[2] = {of_half(a[0]), of_half(a[1])}, y[2] = {of_half(b[0]), of_half(b[1])}, c, want = dot_by_rule(x, 1, y, 1, 2);
        Gemm g = {.accum = DT_f32, .batch = 1, .m = 1, .n = 1, .k = 2, .a = a, .arow = 2, .acol = 1, .b = b, .brow = 1, .bcol = 2, .c = &c, .crow = 1};
        KCtx ctx = {0};
        if (!gemm_bf16_has())
            return;
        assert_int_equal(gemm_bf16(&ctx, &g), K_OK);
        assert_true(want > 0);
        assert_memory_equal(&c, &want, 4);
    }
}

/*
 * Matrix units sum in another order: within k roundings of what is summed, the same by any number of threads.
 */
static void products_by_units_are_near(void **state)
{
    enum { M = 100, N = 120, K = 1100, SIZE = 2 * M * K + 2 * N * K };
    static uint16_t half[SIZE];
    static float c[2 * M * N], again[2 * M * N];
    KCtx ctx = {0};

    for (int round = 0; round < 60; round++) {
        int64_t m = 1 + rnd_to(M), n = 16 + rnd_to(N - 16), k = 32 + rnd_to(round % 4 ? 150 : K - 32), batch = 1 + rnd_to(2);
        bool ta = rnd_to(2), tb = rnd_to(2);
        Seen seen = {n, {0}};
        GemmDone done = {count_rows, &seen, true};
        Gemm g = {.accum = DT_f32, .batch = batch, .m = m, .n = n, .k = k, .a = half, .b = half + 2 * M * K, .abatch = m * k,
                  .bbatch = rnd_to(2) * n * k, .arow = ta ? 1 : k, .acol = ta ? m : 1, .brow = tb ? 1 : n, .bcol = tb ? k : 1, .c = c, .cbatch = m * n, .crow = n, .done = &done};
        if (!amx_has(AMX_HALVES))
            return;
        for (int64_t i = 0; i < SIZE; i++)
            half[i] = (uint16_t)(rnd_to(2) << 15 | (100 + rnd_to(40)) << 7 | rnd_to(128));
        pool_init(1 + (int)rnd_to(3));
        memset(c, 0x55, sizeof c);
        assert_int_equal(gemm_amx(&ctx, &g, AMX_HALVES), K_OK);
        for (int64_t i = 0; i < batch * m; i++)
            assert_int_equal(seen.row[i], 1);
        for (int64_t i = 0; i < batch * m * n; i++) {
            int64_t q = i / (m * n), row = i / n % m, column = i % n;
            double want = 0, all = 0;
            for (int64_t s = 0; s < k; s++) {
                int64_t x = q * g.abatch + row * g.arow + s * g.acol, y = 2 * M * K + q * g.bbatch + s * g.brow + column * g.bcol;
                double p = (double)of_half(half[x]) * of_half(half[y]);
                want += p;
                all += fabs(p);
            }
            assert_true(fabs(c[i] - want) <= (double)k * 0x1p-24 * all);
        }
        pool_init(1 + (int)rnd_to(5));
        g.c = again;
        g.done = NULL;
        assert_int_equal(gemm_amx(&ctx, &g, AMX_HALVES), K_OK);
        assert_memory_equal(c, again, (size_t)(batch * m * n) * sizeof *c);
    }
    pool_init(0);
}

/* Small whole numbers have exact products by matrix units, over several blocks of steps and of columns, pieces and layouts, whatever lies behind rows. */
static void products_by_units_over_blocks(void **state)
{
    static const int64_t sizes[][3] = {{37, 50, 3001}, {70, 1501, 97}, {33, 700, 1600}, {64, 64, 544}, {95, 33, 545}, {1, 40, 5000}};
    enum { LEFT = 70 * 3100, RIGHT = 1600 * 800, SUMS = 70 * 1600 };
    static uint16_t half[LEFT + RIGHT];
    static float x[LEFT + RIGHT], c[SUMS];
    KCtx ctx = {0};

    for (int round = 0; round < 24; round++) {
        int64_t m = sizes[round / 4][0], n = sizes[round / 4][1], k = sizes[round / 4][2];
        bool ta = round % 2, tb = round / 2 % 2;
        int64_t pad = rnd_to(3);
        Gemm g = {.accum = DT_f32, .batch = 1, .m = m, .n = n, .k = k, .arow = ta ? 1 : k + pad, .acol = ta ? m : 1, .brow = tb ? 1 : n, .bcol = tb ? k : 1,
                  .c = c, .crow = n};
        for (int64_t i = 0; i < LEFT + RIGHT; i++) {
            uint32_t bits;
            x[i] = (float)(rnd_to(7) - 3);
            memcpy(&bits, &x[i], sizeof bits);
            half[i] = (uint16_t)(bits >> 16);
        }
        for (AmxKind kind = AMX_HALVES; kind <= AMX_TF32; kind++) {
            if (!amx_has(kind))
                return;
            g.a = kind == AMX_HALVES ? (void *)half : (void *)x;
            g.b = kind == AMX_HALVES ? (void *)(half + LEFT) : (void *)(x + LEFT);
            pool_init(1 + (int)rnd_to(3));
            memset(c, 0x55, sizeof c);
            assert_int_equal(gemm_amx(&ctx, &g, kind), K_OK);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    float want = 0;
                    for (int64_t s = 0; s < k; s++)
                        want += x[i * g.arow + s * g.acol] * x[LEFT + s * g.brow + j * g.bcol];
                    assert_true(c[i * n + j] == want);
                }
        }
    }
    pool_init(0);
}

/* As near are those of f32 by three parts, and within 3 * 2^-16 by two, from numbers of all sizes; rows and columns with infinities, NaN or too large numbers are those of lanes. */
static void products_by_parts_are_near(void **state)
{
    enum { M = 100, N = 170, K = 1500, SIZE = 2 * M * K + 2 * N * K };
    static const float odd[] = {INFINITY, -INFINITY, NAN, 3.4e38f};
    static float x[SIZE], c[2 * M * N], again[2 * M * N], lanes[2 * M * N];
    KCtx ctx = {0};

    for (int round = 0; round < 60; round++) {
        AmxKind kind = round % 2 ? AMX_TF32 : AMX_THIRDS;
        double near = kind == AMX_TF32 ? 3 * 0x1p-16 : 0;
        int64_t m = 1 + rnd_to(M), n = 1 + rnd_to(N), k = 1 + rnd_to(round % 8 < 6 ? 150 : K), batch = 1 + rnd_to(2), b0 = 2 * M * K;
        bool ta = rnd_to(2), tb = rnd_to(2);
        Seen seen = {n, {0}};
        GemmDone done = {count_rows, &seen, true};
        Gemm g = {.accum = DT_f32, .batch = batch, .m = m, .n = n, .k = k, .a = x, .b = x + b0, .abatch = m * k,
                  .bbatch = rnd_to(2) * n * k, .arow = ta ? 1 : k, .acol = ta ? m : 1, .brow = tb ? 1 : n, .bcol = tb ? k : 1, .c = c, .cbatch = m * n, .crow = n, .done = &done};
        bool row_odd[2 * M] = {0}, column_odd[2 * N] = {0};
        if (!amx_has(kind))
            return;
        for (int64_t i = 0; i < SIZE; i++)
            x[i] = ldexpf((float)(rnd_to(1 << 24) + 1) * (rnd_to(2) ? 1 : -1), (int)rnd_to(40) - 44);
        for (int t = 0; t < round % 3 * 2; t++) {
            int64_t q = rnd_to((int)batch), i = rnd_to((int)m), j = rnd_to((int)n), s = rnd_to((int)k);
            if (t % 2)
                x[q * g.abatch + i * g.arow + s * g.acol] = odd[rnd_to(4)], row_odd[q * m + i] = true;
            else
                x[b0 + q * g.bbatch + s * g.brow + j * g.bcol] = odd[rnd_to(4)], column_odd[q * n + j] = true, column_odd[j] |= !g.bbatch, column_odd[n * (batch - 1) + j] |= !g.bbatch;
        }
        pool_init(1 + (int)rnd_to(3));
        memset(c, 0x55, sizeof c);
        assert_int_equal(gemm_amx(&ctx, &g, kind), K_OK);
        for (int64_t i = 0; i < batch * m; i++)
            assert_int_equal(seen.row[i], 1);
        pool_init(1 + (int)rnd_to(5));
        g.done = NULL;
        g.c = again;
        assert_int_equal(gemm_amx(&ctx, &g, kind), K_OK);
        assert_memory_equal(c, again, (size_t)(batch * m * n) * sizeof *c);
        g.c = lanes;
        assert_int_equal(gemm_run(&ctx, g), K_OK);
        for (int64_t i = 0; i < batch * m * n; i++) {
            int64_t q = i / (m * n), row = i / n % m, column = i % n;
            double want = 0, all = 0;
            for (int64_t s = 0; s < k; s++) {
                double p = (double)x[q * g.abatch + row * g.arow + s * g.acol] * x[b0 + q * g.bbatch + s * g.brow + column * g.bcol];
                want += p;
                all += fabs(p);
            }
            if (row_odd[q * m + row] || column_odd[q * n + column])
                assert_memory_equal(&c[i], &lanes[i], sizeof *c);
            else
                assert_true(fabs(c[i] - want) <= ((double)(k + 4) * 0x1p-24 + near) * all);
        }
    }
    pool_init(0);
}

/* Any row alone, or in a batch of any form, gives the same bits. */
static void batches_do_not_change_bits(void **state)
{
    int64_t sa[] = {3, 4, 5, 70}, sb[] = {70, 90}, sb4[] = {3, 1, 70, 90}, row[] = {1, 70};
    Tensor *a = noise(4, sa), *b = noise(2, sb), *c = run2(OP_matmul, NULL, a, b), *b4 = tensor_new(DT_f32, 4, sb4);
    int64_t zero[] = {0, 0, 90, 1};
    Tensor *same = tensor_view(b, 4, sb4, zero, 0), *d, *e;

    tensor_assign(b4, same);
    d = run2(OP_matmul, NULL, a, b4);
    e = run2(OP_matmul, NULL, a, same);
    assert_true(tensor_same_bits(c, d));
    assert_true(tensor_same_bits(c, e));
    for (int64_t i = 0; i < 60; i++) {
        int64_t stride[] = {70, 1};
        Tensor *r = tensor_view(a, 2, row, stride, i * 70), *one = run2(OP_matmul, NULL, r, b);
        assert_memory_equal(one->store->data, (float *)c->store->data + i * 90, 360);
        tensor_unref(r);
        tensor_unref(one);
    }
    Tensor *all[] = {a, b, c, b4, same, d, e};
    for (int i = 0; i < 7; i++)
        tensor_unref(all[i]);
}

/* Whole numbers are exact in any order: every dtype and layout against plain sums. */
static void products_of_every_dtype_are_right(void **state)
{
    for (int round = 0; round < 400; round++) {
        DType dt = (DType)(DT_int8 + rnd_to(DT_COUNT - DT_int8));
        int64_t m = 1 + rnd_to(5), k = 1 + rnd_to(40), n = 1 + rnd_to(70), sa[] = {2, m, k}, sb[] = {1 + rnd_to(2), k, n}, i[3] = {0};
        if (dtype_info[dt].sbits < 8)
            continue;
        Tensor *a = random_view(dt, 3, sa), *b = random_view(dt, 3, sb), *af = converted(a, DT_f64), *bf = converted(b, DT_f64);
        Attr wide = attr_default();
        wide.dtype = dtype_is_complex(dt) ? DT_c128 : dtype_is_float(dt) ? DT_f64 : DT_int64;
        Tensor *c = run2(OP_matmul, &wide, a, b);
        do {
            double want = 0;
            for (int64_t q = 0; q < k; q++)
                want += elem_get_f(af, place_of(af, (int64_t[]){i[0], i[1], q})) *
                        elem_get_f(bf, place_of(bf, (int64_t[]){sb[0] == 1 ? 0 : i[0], q, i[2]}));
            assert_true(elem_get_f(c, place_of(c, i)) == want);
        } while (next_index(3, c->shape, i));
        Tensor *all[] = {a, b, af, bf, c};
        for (int j = 0; j < 5; j++)
            tensor_unref(all[j]);
    }
}

static double reduced(OpId op, DType dt, int64_t n, const double *v)
{
    Tensor *x = of_doubles(dt, n, v), *r;
    Attr a = over(-1);
    double s;

    r = run1(op, &a, x);
    s = elem_get_f(r, 0);
    tensor_unref(x);
    tensor_unref(r);
    return s;
}

static void extremes_and_empties(void **state)
{
    double v[600];

    for (int i = 0; i < 600; i++)
        v[i] = -1 - i % 7;
    assert_true(reduced(OP_max, DT_f32, 600, v) == -1 && reduced(OP_min, DT_bf16, 600, v) == -7 && reduced(OP_max, DT_int8, 600, v) == -1);
    assert_true(reduced(OP_argmax, DT_f32, 600, v) == 0 && reduced(OP_argmin, DT_int16, 600, v) == 6);
    v[300] = NAN, v[400] = NAN;
    assert_true(isnan(reduced(OP_max, DT_f32, 600, v)) && isnan(reduced(OP_min, DT_f64, 600, v)) && isnan(reduced(OP_max, DT_f16, 600, v)));
    assert_true(reduced(OP_argmax, DT_f32, 600, v) == 300 && reduced(OP_argmin, DT_f16, 600, v) == 300);
    assert_true(reduced(OP_sum, DT_f32, 0, v) == 0 && reduced(OP_prod, DT_f32, 0, v) == 1);
    assert_true(reduced(OP_any, DT_bool, 0, v) == 0 && reduced(OP_all, DT_bool, 0, v) == 1);
    for (int i = 0; i < 600; i++)
        v[i] = -0.0;
    assert_true(signbit(reduced(OP_max, DT_f32, 600, v)));          /* XLA once gave -inf here from 8193 on */
    v[511] = 0;
    assert_true(!signbit(reduced(OP_max, DT_f32, 600, v)) && signbit(reduced(OP_min, DT_f32, 600, v)));
    for (int i = 0; i < 600; i++)
        v[i] = 1;
    assert_true(reduced(OP_sum, DT_bool, 600, v) == 600 && reduced(OP_sum, DT_int8, 600, v) == 600);
    assert_true(reduced(OP_all, DT_bool, 600, v) == 1);
    v[599] = 0;
    assert_true(reduced(OP_all, DT_bool, 600, v) == 0 && reduced(OP_any, DT_bool, 600, v) == 1);
}

static void narrow_accumulators_round_every_step(void **state)
{
    int64_t n = 257;
    Tensor *x = tensor_new(DT_bf16, 1, &n), *s;
    Attr a = over(-1);

    for (int64_t i = 0; i < n; i++)
        elem_set_f(x, i, 1);
    a.accum = DT_bf16;
    s = run1(OP_sum, &a, x);
    assert_true(elem_get_f(s, 0) == 256);
    tensor_unref(s);
    a.accum = DT_NONE;
    a.dtype = DT_f32;
    s = run1(OP_sum, &a, x);
    assert_true(elem_get_f(s, 0) == 257);
    tensor_unref(s);
    tensor_unref(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_follow_the_rule),
        cmocka_unit_test(short_rows_are_whole),
        cmocka_unit_test(layouts_do_not_change_bits),
        cmocka_unit_test(several_axes_flatten_in_row_major_order),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(products_follow_the_rule),
        cmocka_unit_test(products_of_bytes_are_exact),
        cmocka_unit_test(products_of_halves_follow_the_rule),
        cmocka_unit_test(halves_cancel_to_subnormal_numbers),
        cmocka_unit_test(products_by_units_are_near),
        cmocka_unit_test(products_by_units_over_blocks), cmocka_unit_test(products_by_parts_are_near),
        cmocka_unit_test(batches_do_not_change_bits),
        cmocka_unit_test(products_of_every_dtype_are_right),
        cmocka_unit_test(extremes_and_empties),
        cmocka_unit_test(narrow_accumulators_round_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
