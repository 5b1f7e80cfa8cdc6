/*
 * Sorting along the last axis on a GPU, stably and in the host's order (runtime/sort.c): NaN last either way, zeros equal.
 *
 * A lane has an element and counts who goes before it: first within its block of 256, one by one, which sorts blocks; then, block by
 * block twice as large, in the sorted block beside its own, by halving.  Elements move as they are, with their places.  Rows of more than a
 * block whose elements are ints, or floats of the machine's, go by digits instead (far_radix.c).
 */
#include "ir/schedule/far_impl.h"

#include "runtime/convert.h"
#include "runtime/far_moves.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

enum { BLOCK = 256 };

/* Its element: lane q's, in row %row at %i; nothing for lanes behind the end. */
#define ELEMENT \
    "  %%rows: index = size {name=\"r\"}\n" \
    "  %%n: index = size {name=\"n\"}\n" \
    "  %%one: index = index {i=1}\n" \
    FAR_LANE \
    "  %%all: index = imul %%rows, %%n\n" \
    "  %%here: bool[] = ilt %%q, %%all\n" \
    "  if %%here {\n" \
    "    %%row: index = idiv %%q, %%n\n" \
    "    %%i: index = imod %%q, %%n\n" \
    "    %%v: %s[] = load %%x[%%row, %%i] {shape=(1, 1) drop=3}\n" \
    "    %%k: %s[] = map convert %%v {dtype=%s}\n" \
    "    %%real: bool[] = map eq %%k, %%k\n" \
    "    %%nan: bool[] = map ne %%k, %%k\n"

/* Does the other key go before this one, %less, or behind it, %more? A NaN goes before none. */
#define COMPARED \
    "      %%w: %s[] = load %%x[%%row, %%j] {shape=(1, 1) drop=3}\n" \
    "      %%o: %s[] = map convert %%w {dtype=%s}\n" \
    "      %%oreal: bool[] = map eq %%o, %%o\n" \
    "      %%onan: bool[] = map ne %%o, %%o\n" \
    "      %%less0: bool[] = map %s %%o, %%k\n" \
    "      %%less1: bool[] = map bitand %%oreal, %%nan\n" \
    "      %%less: bool[] = map bitor %%less0, %%less1\n" \
    "      %%more0: bool[] = map %s %%k, %%o\n" \
    "      %%more1: bool[] = map bitand %%real, %%onan\n" \
    "      %%more: bool[] = map bitor %%more0, %%more1\n" \
    "      %%notmore: bool[] = map lnot %%more\n"

static const char blocks_text[] =
    "tessera.tile v1\n"
    "kernel @sort_blocks(%%x: view %s[?, 1], %%y: view %s[?, 1], %%at: view int32[?, 1]) sizes(r, n) grid(cdiv(r*n, 256)) lanes=256 {\n"
    ELEMENT
    "    %%b: index = idiv %%i, %%block\n"
    "    %%lo: index = imul %%b, %%block\n"
    "    %%end: index = iadd %%lo, %%block\n"
    "    %%hi: index = imin %%end, %%n\n"
    "    %%zero: int32[] = const {dtype=int32}\n"
    "    %%count: int32[] = for %%j = %%lo to %%hi step %%one carry(%%c = %%zero) {\n"
    COMPARED
    "      %%first: bool[] = ilt %%j, %%i\n"
    "      %%tie: bool[] = map bitand %%notmore, %%first\n"
    "      %%goes: bool[] = map bitor %%less, %%tie\n"
    "      %%unit: int32[] = map convert %%goes {dtype=int32}\n"
    "      %%next: int32[] = map add %%c, %%unit\n"
    "      yield %%next\n"
    "    }\n"
    "    %%rank: index = to_index %%count\n"
    "    %%to: index = iadd %%lo, %%rank\n"
    "    %%place: int32[] = to_tile %%i {dtype=int32}\n"
    "    store %%y[%%row, %%to], %%v {drop=3}\n"
    "    store %%at[%%row, %%to], %%place {drop=3}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* Sorted blocks of l elements to such of twice as many; s: halvings that suffice. */
static const char merge_text[] =
    "tessera.tile v1\n"
    "kernel @sort_merge(%%x: view %s[?, 1], %%xat: view int32[?, 1], %%y: view %s[?, 1], %%at: view int32[?, 1]) sizes(r, n, l, s) "
    "grid(cdiv(r*n, 256)) lanes=256 {\n"
    ELEMENT
    "    %%l: index = size {name=\"l\"}\n"
    "    %%steps: index = size {name=\"s\"}\n"
    "    %%none: index = index {i=0}\n"
    "    %%two: index = index {i=2}\n"
    "    %%l2: index = imul %%l, %%two\n"
    "    %%pair: index = idiv %%i, %%l2\n"
    "    %%base: index = imul %%pair, %%l2\n"
    "    %%in: index = isub %%i, %%base\n"
    "    %%left: bool[] = ilt %%in, %%l\n"
    "    %%half: index = iadd %%base, %%l\n"
    "    %%other: index = if %%left {\n"
    "      yield %%half\n"
    "    } else {\n"
    "      yield %%base\n"
    "    }\n"
    "    %%from: index = imin %%other, %%n\n"
    "    %%end: index = iadd %%other, %%l\n"
    "    %%till: index = imin %%end, %%n\n"
    "    %%a: index, %%z: index = for %%step = %%none to %%steps step %%one carry(%%lo = %%from, %%hi = %%till) {\n"
    FAR_MIDDLE
    COMPARED
    "      %%goes0: bool[] = map where %%left, %%less, %%notmore\n"
    "      %%up: bool[] = map bitand %%open, %%goes0\n"
    "      %%stays: bool[] = map lnot %%goes0\n"
    "      %%down: bool[] = map bitand %%open, %%stays\n"
    FAR_HALF
    "    %%before: index = isub %%a, %%from\n"
    "    %%own: index = imod %%in, %%l\n"
    "    %%rank: index = iadd %%own, %%before\n"
    "    %%to: index = iadd %%base, %%rank\n"
    "    %%place: int32[] = load %%xat[%%row, %%i] {shape=(1, 1) drop=3}\n"
    "    store %%y[%%row, %%to], %%v {drop=3}\n"
    "    store %%at[%%row, %%to], %%place {drop=3}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* Narrow floats compare as f32, which has all of them, bools as numbers. */
static FarKernel *sort_kernel(const char *format, DType dt, bool descending)
{
    const char *x = dtype_info[dt].name, *k = dtype_info[dt == DT_bool ? DT_uint8 : lane_dtype(dt)].name, *before = descending ? "gt" : "lt";

    return far_kernel_of(format, x, x, x, k, k, x, k, k, before, before);
}

typedef struct Pair { Tensor *value, *place; } Pair;

static bool pair_new(Pair *p, const Tensor *x)
{
    p->value = tensor_new((DType)x->dtype, x->rank, x->shape);
    p->place = p->value ? tensor_new(DT_int32, x->rank, x->shape) : NULL;
    return p->place;
}

static void pair_done(Pair *p)
{
    tensor_unref(p->value);
    tensor_unref(p->place);
    *p = (Pair){NULL, NULL};
}

static bool rows_arg(Tensor *t, int64_t r, int64_t n, int device, bool write, TileArg *arg)
{
    *arg = (TileArg){.base = far_element(t, device, t->offset, write, false), .extent = {r, n}, .stride = {n, 1}};
    return arg->base;
}

/* 1; 0: it cannot; -1: a fault. */
static int blocks(FarKernel *f, Tensor *x, const Pair *to, int64_t r, int64_t n, int device)
{
    TileArg arg[3];

    if (!rows_arg(x, r, n, device, false, &arg[0]) || !rows_arg(to->value, r, n, device, true, &arg[1]) ||
        !rows_arg(to->place, r, n, device, true, &arg[2]))
        return -1;
    return far_launch(f, device, (int64_t[]){r, n}, arg);
}

static int merge(FarKernel *f, const Pair *from, const Pair *to, int64_t r, int64_t n, int64_t l, int device)
{
    TileArg arg[4];
    int64_t steps = 1;

    while (l >> steps)
        steps++;
    if (!rows_arg(from->value, r, n, device, false, &arg[0]) || !rows_arg(from->place, r, n, device, false, &arg[1]) ||
        !rows_arg(to->value, r, n, device, true, &arg[2]) || !rows_arg(to->place, r, n, device, true, &arg[3]))
        return -1;
    return far_launch(f, device, (int64_t[]){r, n, l, steps + 1}, arg);
}

static bool takes(DType dt)
{
    return !is_packed(dt) && !dtype_is_complex(dt);
}

bool far_sort_both(Tensor *x, bool descending, Tensor **value, Tensor **place)
{
    int64_t n = x->rank ? x->shape[x->rank - 1] : 1, r = n ? tensor_size(x) / n : 0;
    int device = (int)x->store->device, done, ordered;
    FarKernel *first, *next;
    Pair now = {NULL, NULL}, then = {NULL, NULL};
    Tensor *from;

    if (!takes((DType)x->dtype) || r * n == 0 || n > INT32_MAX)
        return false;
    first = sort_kernel(blocks_text, (DType)x->dtype, descending);
    next = sort_kernel(merge_text, (DType)x->dtype, descending);
    if (!first->code || !next->code || !(from = tensor_contiguous(x)))
        return false;
    done = pair_new(&now, x);
    ordered = done && n > BLOCK ? far_radix(from, r, n, descending, now.value, now.place) : 0;
    if (done && !ordered)
        done = n <= BLOCK || pair_new(&then, x) ? blocks(first, from, &now, r, n, device) : 0;
    for (int64_t l = BLOCK; done > 0 && !ordered && l < n; l *= 2) {
        Pair was = now;
        done = merge(next, &now, &then, r, n, l, device);
        now = then;
        then = was;
    }
    if (done) {                                         /* a fault is kept: whatever is in it, nobody sees it */
        *value = tensor_ref(now.value);
        *place = tensor_ref(now.place);
    }
    tensor_unref(from);
    pair_done(&now);
    pair_done(&then);
    return done;
}

Tensor *far_sort(Tensor *x, bool descending, bool places)
{
    Tensor *value, *place;

    if (!far_sort_both(x, descending, &value, &place))
        return NULL;
    tensor_unref(places ? value : place);
    return places ? place : value;
}
