/*
 * Sorting along the last axis.
 *
 * Every element becomes an unsigned key whose order is the wanted one: NaN last
 * either way, -0 equal to +0, descending by complement.  Keys are sorted stably
 * together with their places, short rows by merging, long ones by digits (LSD
 * radix), which skips digits that all keys share.  A key of 32 bits and its
 * place are one 64-bit number, and sorting those is stable by itself.  Where a
 * long row's values are wanted, keys are sorted alone and made values again;
 * zeros and NaNs, of which several have one key, are put in their places after.
 */
#include "runtime/far_moves.h"
#include "runtime/kernel_util.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

typedef struct Item { uint64_t key; int64_t at; } Item;

enum { RADIX_FROM = 512, INSERT_UP_TO = 16, DIGIT = 2048, DIGITS = 6 /* of 11 bits: 66 */ };

/* Keys of n lanes of dtype t. */
static void make_keys(DType t, const void *lanes, int64_t n, bool descending, uint64_t *key)
{
    const uint64_t top = 1ull << 63, flip = descending ? UINT64_MAX : 0;

    if (dtype_is_float(t)) {
        double v[TILE];
        lane_convert(DT_f64, v, t, lanes, n);
        for (int64_t i = 0; i < n; i++) {
            double x = v[i] == 0 ? 0 : v[i];
            uint64_t u;
            memcpy(&u, &x, 8);
            u = u & top ? ~u : u | top;
            key[i] = v[i] != v[i] ? UINT64_MAX : u ^ flip;
        }
        return;
    }
    lane_convert(t == DT_uint64 ? DT_uint64 : DT_int64, key, t, lanes, n);
    for (int64_t i = 0; i < n; i++)
        key[i] = (t == DT_uint64 ? key[i] : key[i] ^ top) ^ flip;
}

#define ITEM_KEY(x) (x).key
#define SELF(x) (x)

/* Sort n elements by KEY, equal ones in their order; few of them by insertion, and tmp has room for half of them. */
#define MERGE_SORT(name, T, KEY) \
    static void name##_few(T *x, int64_t n) \
    { \
        for (int64_t i = 1; i < n; i++) { \
            T v = x[i]; \
            int64_t j = i; \
            for (; j > 0 && KEY(x[j - 1]) > KEY(v); j--) \
                x[j] = x[j - 1]; \
            x[j] = v; \
        } \
    } \
    static void name(T *x, T *tmp, int64_t n) \
    { \
        int64_t half = n / 2, i = 0, j = half, k = 0; \
        if (n <= INSERT_UP_TO) { \
            name##_few(x, n); \
            return; \
        } \
        name(x, tmp, half); \
        name(x + half, tmp, n - half); \
        memcpy(tmp, x, (size_t)half * sizeof *x); \
        while (i < half && j < n) \
            x[k++] = KEY(x[j]) < KEY(tmp[i]) ? x[j++] : tmp[i++]; \
        memcpy(x + k, tmp + i, (size_t)(half - i) * sizeof *x); \
    }
MERGE_SORT(merge_items, Item, ITEM_KEY)
MERGE_SORT(merge_pairs, uint64_t, SELF)

typedef uint32_t Counts[DIGITS][DIGIT];

/* Sort n < 2^32 elements by KEY's bits from FROM on; the result is in x or in tmp, and returned. */
#define RADIX_SORT(name, T, KEY, FROM) \
    static T *name(T *x, T *tmp, int64_t n, Counts count) \
    { \
        enum { COUNT = ((int)sizeof(KEY(x[0])) * 8 - FROM + 10) / 11 }; \
        memset(count, 0, sizeof(Counts)); \
        for (int64_t i = 0; i < n; i++) \
            for (int d = 0; d < COUNT; d++) \
                count[d][KEY(x[i]) >> (FROM + 11 * d) & (DIGIT - 1)]++; \
        for (int d = 0; d < COUNT; d++) { \
            uint32_t *c = count[d], sum = 0; \
            int shift = FROM + 11 * d; \
            if (c[KEY(x[0]) >> shift & (DIGIT - 1)] == n) \
                continue; \
            for (int b = 0; b < DIGIT; b++) { \
                uint32_t here = c[b]; \
                c[b] = sum; \
                sum += here; \
            } \
            for (int64_t i = 0; i < n; i++) \
                tmp[c[KEY(x[i]) >> shift & (DIGIT - 1)]++] = x[i]; \
            T *sorted = tmp; \
            tmp = x; \
            x = sorted; \
        } \
        return x; \
    }
RADIX_SORT(radix_items, Item, ITEM_KEY, 0)
RADIX_SORT(radix_pairs, uint64_t, SELF, 32)
RADIX_SORT(radix_keys, uint64_t, SELF, 0)
RADIX_SORT(radix_keys32, uint32_t, SELF, 0)

/* ---- keys of 32 bits: the key above the place in one number ---- */

/* Keys of n lanes of a type whose values f32 or 32 bits hold. */
static void make_keys32(DType t, const void *lanes, int64_t n, bool descending, uint32_t *key)
{
    const uint32_t top = 1u << 31, flip = descending ? UINT32_MAX : 0;
    int64_t v[TILE];

    if (dtype_is_float(t)) {
        const float *x = lanes;
        for (int64_t i = 0; i < n; i++) {
            float f = x[i] == 0 ? 0 : x[i];
            uint32_t u;
            memcpy(&u, &f, 4);
            u = u & top ? ~u : u | top;
            key[i] = x[i] != x[i] ? UINT32_MAX : u ^ flip;
        }
        return;
    }
    lane_convert(DT_int64, v, t, lanes, n);
    for (int64_t i = 0; i < n; i++)
        key[i] = ((uint32_t)v[i] ^ (dtype_info[t].kind == DK_INT ? top : 0)) ^ flip;
}

/* Lanes of n keys, of zeros and NaNs some lane. */
static void lanes_of_keys(DType t, const uint64_t *key, int64_t n, bool descending, void *lanes)
{
    const uint64_t top = 1ull << 63, flip = descending ? UINT64_MAX : 0;
    uint64_t v[TILE];

    for (int64_t i = 0; i < n; i++) {
        uint64_t u = key[i] ^ flip;
        v[i] = dtype_is_float(t) ? (u & top ? u ^ top : ~u) : t == DT_uint64 ? u : u ^ top;
    }
    lane_convert(t, lanes, dtype_is_float(t) ? DT_f64 : t == DT_uint64 ? DT_uint64 : DT_int64, v, n);
}

static void lanes_of_keys32(DType t, const uint32_t *key, int64_t n, bool descending, void *lanes)
{
    const uint32_t top = 1u << 31, flip = descending ? UINT32_MAX : 0;
    int64_t v[TILE];

    if (dtype_is_float(t)) {
        for (int64_t i = 0; i < n; i++) {
            uint32_t u = key[i] ^ flip;
            u = u & top ? u ^ top : ~u;
            memcpy((char *)lanes + 4 * i, &u, 4);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = key[i] ^ flip;
        v[i] = dtype_info[t].kind == DK_INT ? (int64_t)(int32_t)(u ^ top) : (int64_t)u;
    }
    lane_convert(t, lanes, DT_int64, v, n);
}

/* ---- rows ---- */

typedef struct SortJob {
    Reader in;
    Tensor *out;
    int64_t n, first;           /* length of a row; places of it that are asked for */
    bool descending, indices, narrow;
    int64_t rows, parts;        /* each part of the rows has its own scratch */
    size_t room;
    char *scratch;
} SortJob;

static void read_row(const SortJob *j, int64_t row, Item *item)
{
    TileBuf buf, spare;
    uint64_t key[TILE];

    for (int64_t i = 0; i < j->n; i += TILE) {
        int64_t k = j->n - i < TILE ? j->n - i : TILE;
        make_keys(lane_dtype(j->in.as), reader_lanes(&j->in, row * j->n + i, k, buf.at, spare.at), k, j->descending, key);
        for (int64_t q = 0; q < k; q++)
            item[i + q] = (Item){key[q], i + q};
    }
}

static void read_row32(const SortJob *j, int64_t row, uint64_t *x)
{
    TileBuf buf, spare;
    uint32_t key[TILE];

    for (int64_t i = 0; i < j->n; i += TILE) {
        int64_t k = j->n - i < TILE ? j->n - i : TILE;
        make_keys32(lane_dtype(j->in.as), reader_lanes(&j->in, row * j->n + i, k, buf.at, spare.at), k, j->descending, key);
        for (int64_t q = 0; q < k; q++)
            x[i + q] = (uint64_t)key[q] << 32 | (uint64_t)(i + q);
    }
}

/* Room for counting digits, at the end of a part's scratch. */
static Counts *counts_of(const SortJob *j, char *scratch) { return (Counts *)(void *)(scratch + j->room - sizeof(Counts)); }

/* The places of a row's elements in sorted order, within scratch. */
static const int64_t *sorted_order(const SortJob *j, int64_t row, char *scratch)
{
    int64_t n = j->n, *order;
    Counts *counts = counts_of(j, scratch);

    if (j->narrow) {
        uint64_t *x = (uint64_t *)(void *)scratch;
        read_row32(j, row, x);
        uint64_t *y = x + n;
        if (n >= RADIX_FROM)
            y = radix_pairs(x, y, n, *counts) == x ? y : x;
        else
            merge_pairs(x, y, n);
        x = y == x ? x + n : x;
        order = (int64_t *)y;
        for (int64_t i = 0; i < n; i++)
            order[i] = (int64_t)(x[i] & UINT32_MAX);
        return order;
    }
    Item *item = (Item *)(void *)scratch;
    read_row(j, row, item);
    Item *other = item + n;
    if (n >= RADIX_FROM && n < UINT32_MAX)
        other = radix_items(item, other, n, *counts) == item ? other : item;
    else
        merge_items(item, other, n);
    item = other == item ? item + n : item;
    order = (int64_t *)(void *)other;
    for (int64_t i = 0; i < n; i++)
        order[i] = item[i].at;
    return order;
}

static void write_indices(const SortJob *j, int64_t row, const int64_t *order)
{
    int32_t *o = (int32_t *)tensor_data(j->out) + row * j->first;

    for (int64_t i = 0; i < j->first; i++)
        o[i] = (int32_t)order[i];
}

static void write_values(const SortJob *j, int64_t row, const int64_t *order)
{
    TileBuf run;
    _Alignas(16) char one[16];
    size_t w = raw_size(j->in.dtype);
    const char *base = reader_row(&j->in);
    Reader dst;

    writer_init(&dst, j->out);
    for (int64_t i = 0; i < j->n; i += TILE) {
        int64_t k = j->n - i < TILE ? j->n - i : TILE;
        for (int64_t q = 0; q < k; q++) {
            int64_t at = row * j->n + order[i + q];
            memcpy(run.at + (size_t)q * w, base ? base + at * (int64_t)w : reader_raw(&j->in, at, 1, one), w);
        }
        writer_raw(&dst, row * j->n + i, k, run.at);
    }
}

/* How many keys at the end of a run are NaNs', and does it have a zero whose sign its key does not tell? */
static void look_at_floats(DType t, const void *lanes, int64_t n, int64_t *nans, bool *zeros)
{
    for (int64_t i = 0; i < n; i++) {
        double x = t == DT_f32 ? (double)((const float *)lanes)[i] : ((const double *)lanes)[i];
        *nans += x != x;
        *zeros |= x == 0 && signbit(x);
    }
}

/* First place whose key is not below v (right: is above v). */
static int64_t bound(const uint64_t *key, int64_t n, uint64_t v, bool right)
{
    int64_t lo = 0, hi = n;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (right ? key[mid] <= v : key[mid] < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Elements of the row that share their key with others that look otherwise, as they come: zeros from `zero` on, NaNs from `nan` on (-1: stay). */
static void put_alike(const SortJob *j, int64_t row, Reader *dst, int64_t zero, int64_t nan)
{
    TileBuf buf, spare, raw;
    DType t = lane_dtype(j->in.as);

    for (int64_t i = 0; i < j->n; i += TILE) {
        int64_t k = j->n - i < TILE ? j->n - i : TILE;
        const void *lanes = reader_lanes(&j->in, row * j->n + i, k, buf.at, spare.at);
        for (int64_t q = 0; q < k; q++) {
            double x = t == DT_f32 ? (double)((const float *)lanes)[q] : ((const double *)lanes)[q];
            int64_t *to = x != x ? &nan : x == 0 ? &zero : NULL;
            if (to && *to >= 0)
                writer_raw(dst, row * j->n + (*to)++, 1, reader_raw(&j->in, row * j->n + i + q, 1, raw.at));
        }
    }
}

/* A row's values: keys alone are sorted, and made values again. */
static void sort_values(const SortJob *j, int64_t row, char *scratch)
{
    TileBuf buf, spare, lanes, raw;
    DType t = lane_dtype(j->in.as);
    uint64_t *key = (uint64_t *)(void *)scratch, zero_key;
    uint32_t *key32 = (uint32_t *)(void *)scratch, zero_key32;
    int64_t n = j->n, nans = 0;
    bool zeros = false;
    double zero = 0;
    Reader dst;

    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        const void *x = reader_lanes(&j->in, row * n + i, k, buf.at, spare.at);
        if (dtype_is_float(t))
            look_at_floats(t, x, k, &nans, &zeros);
        if (j->narrow)
            make_keys32(t, x, k, j->descending, key32 + i);
        else
            make_keys(t, x, k, j->descending, key + i);
    }
    if (j->narrow)
        key32 = radix_keys32(key32, key32 + n, n, *counts_of(j, scratch));
    else
        key = radix_keys(key, key + n, n, *counts_of(j, scratch));
    writer_init(&dst, j->out);
    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        if (j->narrow)
            lanes_of_keys32(t, key32 + i, k, j->descending, lanes.at);
        else
            lanes_of_keys(t, key + i, k, j->descending, lanes.at);
        if (!raw_is_lane(j->in.dtype))
            lane_to_raw(j->in.dtype, lanes.at, raw.at, k);
        writer_raw(&dst, row * n + i, k, raw_is_lane(j->in.dtype) ? lanes.at : raw.at);
    }
    if (!zeros && !nans)
        return;
    make_keys32(DT_f32, &(float){0}, 1, j->descending, &zero_key32);
    make_keys(DT_f64, &zero, 1, j->descending, &zero_key);
    int64_t first = 0;
    if (zeros && !j->narrow)
        first = bound(key, n, zero_key, false);
    while (zeros && j->narrow && key32[first] < zero_key32)
        first++;
    put_alike(j, row, &dst, zeros ? first : -1, nans ? n - nans : -1);
}

static void sort_part(int64_t lo, int64_t hi, void *st)
{
    const SortJob *j = st;

    for (int64_t part = lo; part < hi; part++)
        for (int64_t row = part * j->rows / j->parts; row < (part + 1) * j->rows / j->parts; row++) {
            char *scratch = j->scratch + (size_t)part * j->room;
            if (!j->indices && j->n >= RADIX_FROM && j->n < UINT32_MAX) {
                sort_values(j, row, scratch);
                continue;
            }
            const int64_t *order = sorted_order(j, row, scratch);
            if (j->indices)
                write_indices(j, row, order);
            else
                write_values(j, row, order);
        }
}

/* By the GPU that x is on; places: the first n, or all (0). NULL: it does not. */
static Tensor *sort_far(Tensor *x, const Attr *a, bool places)
{
    const FarMoves *far = far_moves_of(x);
    Tensor *some = far && a->n ? far->first(x, a->i != 0, a->n) : NULL, *all;
    Dim shape[RANK_MAX];

    if (!far || some)
        return some;
    all = far->sort(x, a->i != 0, places);
    if (!all || !a->n)
        return all;
    memcpy(shape, all->shape, sizeof *shape * (size_t)all->rank);
    shape[all->rank - 1] = a->n;
    some = tensor_view(all, all->rank, shape, all->stride, all->offset);
    tensor_unref(all);
    return some;
}

static KStatus sort_run(KCtx *c, const Attr *a, Tensor *x, const TType *type, bool indices, Tensor **out)
{
    SortJob j = {.n = x->rank ? x->shape[x->rank - 1] : 1, .descending = a->i != 0, .indices = indices};
    int64_t total = tensor_size(x);

    if (dtype_is_complex((DType)x->dtype))
        return k_fail(c, K_VALUE, "complex numbers have no order to sort by");
    if (indices && j.n > INT32_MAX)
        return k_fail(c, K_VALUE, "argsort of an axis of %lld: indices are int32", (long long)j.n);
    j.first = indices && a->n ? a->n : j.n;
    if (j.first > j.n)
        return k_fail(c, K_VALUE, "the first %lld of an axis of %lld", (long long)j.first, (long long)j.n);
    if ((out[0] = sort_far(x, a, indices)))
        return K_OK;
    if (!(j.out = k_result(c, type)))
        return K_NOMEM;
    reader_init(&j.in, x);
    j.rows = total ? total / j.n : 0;
    j.parts = is_packed(j.in.dtype) || total < 4096 ? 1 : 4 * pool_threads();
    j.parts = j.parts < j.rows ? j.parts : j.rows;
    j.narrow = raw_size(lane_dtype(j.in.dtype)) <= 4 && j.n < UINT32_MAX;
    j.room = (size_t)j.n * 2 * (j.narrow ? sizeof(uint64_t) : sizeof(Item)) + sizeof(Counts);
    if (!(j.scratch = k_scratch(c, j.parts + 1, j.room))) {
        tensor_unref(j.out);
        return K_NOMEM;
    }
    pool_for(j.parts, 1, sort_part, &j);
    tsr_free_aligned(j.scratch);
    out[0] = j.out;
    return K_OK;
}

KStatus kernel_sort(KERNEL_ARGS)
{
    (void)op, (void)nin;
    return sort_run(c, a, in[0], type, false, out);
}

KStatus kernel_argsort(KERNEL_ARGS)
{
    (void)op, (void)nin;
    return sort_run(c, a, in[0], type, true, out);
}

/* ---- where would it go? ---- */

/* All keys of row `row` of length n. */
static void row_keys(const Reader *r, int64_t row, int64_t n, uint64_t *key)
{
    TileBuf buf, spare;

    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        make_keys(lane_dtype(r->as), reader_lanes(r, row * n + i, k, buf.at, spare.at), k, false, key + i);
    }
}

KStatus kernel_searchsorted(KERNEL_ARGS)
{
    Tensor *x = in[0], *v = in[1];
    int64_t n = x->shape[x->rank - 1], k = type->rank ? type->shape[type->rank - 1] : 1, rows, shape[RANK_MAX];
    int rank = type->rank > x->rank ? type->rank : x->rank;
    uint64_t *key = k_scratch(c, n + k + 1, sizeof *key);
    Reader xs, vs;

    (void)op, (void)nin;
    if (!key)
        return K_NOMEM;
    if (!(out[0] = k_result(c, type))) {
        tsr_free_aligned(key);
        return K_NOMEM;
    }
    if (far_moves_of(out[0]) && far_moves_of(out[0])->search(out[0], x, v, common_dtype(x, v), a->i != 0)) {
        tsr_free_aligned(key);
        return K_OK;
    }
    for (int i = 0; i < rank - 1; i++)
        shape[i] = type->rank == rank ? type->shape[i] : 1;
    shape[rank - 1] = n;
    rows = k ? tensor_size(out[0]) / k : 0;
    reader_stretch(&xs, x, rank, shape);
    reader_stretch(&vs, v, type->rank, type->shape);
    xs.as = vs.as = common_dtype(x, v);
    int32_t *o = tensor_data(out[0]);
    for (int64_t row = 0; row < rows; row++) {
        row_keys(&xs, row, n, key);
        row_keys(&vs, row, k, key + n);
        for (int64_t i = 0; i < k; i++)
            o[row * k + i] = (int32_t)bound(key, n, key[n + i], a->i != 0);
    }
    tsr_free_aligned(key);
    return K_OK;
}
