/*
 * Places on a GPU: of the elements that are true (nonzero), and where elements would go among sorted ones (searchsorted).
 *
 * True elements are counted block by block of 256, whose counts are summed up as running sums are; so each lane knows how many come before its
 * own.  How many there are in all the host reads, four bytes: the result's size.
 */
#include "ir/schedule/far_impl.h"

#include "base/strbuf.h"
#include "runtime/convert.h"
#include "runtime/cuda.h"
#include "runtime/far_moves.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

enum { BLOCK = 256 };

/* ---- true elements ---- */

/* Element %q, of which %is says whether it is true, and %p how many of its block are up to it; behind the end there are zeros. */
static const char element_text[] =
    "  %%zero: index = index {i=0}\n"
    "  %%block: index = index {i=256}\n"
    "  %%g: index = group {axis=0}\n"
    "  %%g0: index = imul %%g, %%block\n"
    "  %%lane: index = lane\n"
    "  %%q: index = iadd %%g0, %%lane\n"
    "  %%x0: %s[] = load %%x[%%q] {shape=(1) drop=1}\n"
    "  %%is: bool[] = map convert %%x0 {dtype=bool}\n"
    "  %%none: int32[] = const {dtype=int32}\n"
    "  %%p0: int32[] = map convert %%is {dtype=int32}\n";

static const char step_text[] =
    "  %%c%d: index = index {i=%d}\n"
    "  %%l%d: index = isub %%lane, %%c%d\n"
    "  %%o%d: int32[] = shuffle %%p%d, %%l%d\n"
    "  %%b%d: bool[] = ilt %%lane, %%c%d\n"
    "  %%w%d: int32[] = map where %%b%d, %%none, %%o%d\n"
    "  %%p%d: int32[] = map add %%p%d, %%w%d\n";

static const char count_text[] =
    "  %%most: index = index {i=255}\n"
    "  %%end: bool[] = ieq %%lane, %%most\n"
    "  if %%end {\n"
    "    store %%counts[%%g], %%p8 {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* Those of blocks before are as many as the block before ends with. */
static const char place_text[] =
    "  %%one: index = index {i=1}\n"
    "  %%g1: index = isub %%g, %%one\n"
    "  %%former: index = imax %%g1, %%zero\n"
    "  %%sum: int32[] = load %%ends[%%former] {shape=(1) drop=1}\n"
    "  %%front: bool[] = ieq %%g, %%zero\n"
    "  %%base: int32[] = map where %%front, %%none, %%sum\n"
    "  %%upto: int32[] = map add %%base, %%p8\n"
    "  %%upto0: index = to_index %%upto\n"
    "  %%at0: index = isub %%upto0, %%one\n"
    "  %%at: index = imax %%at0, %%zero\n"
    "  if %%is {\n"
    "    %%r0: index = iadd %%q, %%zero\n";

/* Axis k's place, from the last axis on: what is left is in the axes before. */
static const char axis_text[] =
    "    %%d%d: index = size {name=\"d%d\"}\n"
    "    %%i%d: index = imod %%r%d, %%d%d\n"
    "    %%r%d: index = idiv %%r%d, %%d%d\n"
    "    %%y%d: int32[] = to_tile %%i%d {dtype=int32}\n"
    "    %%k%d: index = index {i=%d}\n"
    "    store %%y[%%at, %%k%d], %%y%d {drop=3}\n";

static void put_element(StrBuf *text, const char *dtype)
{
    sb_printf(text, element_text, dtype);
    for (int i = 0; i < 8; i++)
        sb_printf(text, step_text, i, 1 << i, i, i, i, i, i, i, i, i, i, i, i + 1, i, i);
}

static FarKernel *finished(StrBuf *text)
{
    FarKernel *f = far_kernel(sb_str(text));

    sb_done(text);
    return f;
}

static FarKernel *count_kernel(const char *dtype)
{
    StrBuf text = {0};

    sb_printf(&text,
              "tessera.tile v1\n"
              "kernel @nonzero_count(%%x: view %s[1], %%counts: view int32[1]) sizes(n) grid(cdiv(n, 256)) lanes=256 {\n",
              dtype);
    put_element(&text, dtype);
    sb_printf(&text, count_text);
    return finished(&text);
}

static FarKernel *place_kernel(const char *dtype, int rank)
{
    StrBuf text = {0};

    sb_printf(&text, "tessera.tile v1\nkernel @nonzero(%%x: view %s[1], %%ends: view int32[1], %%y: view int32[?, 1]) sizes(n", dtype);
    for (int k = 0; k < rank; k++)
        sb_printf(&text, ", d%d", k);
    sb_puts(&text, ") grid(cdiv(n, 256)) lanes=256 {\n");
    put_element(&text, dtype);
    sb_printf(&text, place_text);
    for (int k = 0; k < rank; k++)
        sb_printf(&text, axis_text, k, k, k, k, k, k + 1, k, k, k, k, k, rank - 1 - k, k, k);
    sb_puts(&text, "  } else {\n  }\n}\n");
    return finished(&text);
}

/* How many are true up to the end of each block. NULL: it cannot. */
static Tensor *block_ends(FarKernel *f, Tensor *x, int64_t n, int device)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;
    Tensor *counts = tensor_new(DT_int32, 1, &blocks), *ends = counts ? tensor_new(DT_int32, 1, &blocks) : NULL;
    TileArg arg[2];
    bool ok = ends && far_flat(x, device, false, x->offset, &arg[0]) && far_flat(counts, device, true, 0, &arg[1]);

    if (ok)
        arg[0].extent[0] = n;
    ok = ok && far_launch(f, device, &n, arg) > 0 && far_scan(OP_add, DT_int32, ends, counts, 0, false);
    tensor_unref(counts);
    if (ok)
        return ends;
    tensor_unref(ends);
    return NULL;
}

static Tensor *places(FarKernel *f, Tensor *x, Tensor *ends, int64_t n, int device)
{
    int64_t size[1 + RANK_MAX] = {n}, count = elem_get_i(ends, ends->shape[0] - 1), shape[2] = {count, x->rank};
    Tensor *y = fault_kept ? NULL : tensor_new(DT_int32, 2, shape);
    TileArg arg[3];
    bool ok = y;

    for (int k = 0; k < x->rank; k++)
        size[1 + k] = x->shape[x->rank - 1 - k];
    if (ok && count && far_flat(x, device, false, x->offset, &arg[0]) && far_flat(ends, device, false, 0, &arg[1]) &&
        far_flat(y, device, true, 0, &arg[2])) {
        arg[0].extent[0] = n;
        arg[2] = (TileArg){.base = arg[2].base, .extent = {count, x->rank}, .stride = {x->rank, 1}};
        ok = far_launch(f, device, size, arg) != 0;
    }
    if (ok)
        return y;
    tensor_unref(y);
    return NULL;
}

Tensor *far_nonzero(Tensor *x)
{
    int64_t n = tensor_size(x);
    int device = (int)x->store->device;
    DType dt = (DType)x->dtype;
    FarKernel *count, *place;
    Tensor *row, *ends, *y;

    if (far_pretends || !n || n > INT32_MAX - BLOCK || !x->rank || is_packed(dt) || dtype_is_complex(dt))
        return NULL;
    count = count_kernel(dtype_info[dt].name);
    place = place_kernel(dtype_info[dt].name, x->rank);
    if (!count->code || !place->code || !(row = tensor_contiguous(x)))
        return NULL;
    ends = block_ends(count, row, n, device);
    y = ends ? places(place, row, ends, n, device) : NULL;
    tensor_unref(ends);
    tensor_unref(row);
    return y;
}

/* ---- places among sorted elements ---- */

/* NaN goes behind all numbers, and zeros are equal (sort.c). s: halvings that suffice. */
static const char search_text[] =
    "tessera.tile v1\n"
    "kernel @search(%%x: view %s[?, ?], %%v: view %s[?, ?], %%y: view int32[?, 1]) sizes(r, k, n, s) grid(cdiv(r*k, 256)) lanes=256 {\n"
    "  %%rows: index = size {name=\"r\"}\n"
    "  %%each: index = size {name=\"k\"}\n"
    "  %%n: index = size {name=\"n\"}\n"
    "  %%steps: index = size {name=\"s\"}\n"
    "  %%zero: index = index {i=0}\n"
    "  %%one: index = index {i=1}\n"
    "  %%two: index = index {i=2}\n"
    "  %%block: index = index {i=256}\n"
    "  %%g: index = group {axis=0}\n"
    "  %%g0: index = imul %%g, %%block\n"
    "  %%lane: index = lane\n"
    "  %%q: index = iadd %%g0, %%lane\n"
    "  %%all: index = imul %%rows, %%each\n"
    "  %%here: bool[] = ilt %%q, %%all\n"
    "  if %%here {\n"
    "    %%row: index = idiv %%q, %%each\n"
    "    %%i: index = imod %%q, %%each\n"
    "    %%v0: %s[] = load %%v[%%row, %%i] {shape=(1, 1) drop=3}\n"
    "    %%v1: %s[] = map convert %%v0 {dtype=%s}\n"
    "    %%k: %s[] = map convert %%v1 {dtype=%s}\n"
    "    %%real: bool[] = map eq %%k, %%k\n"
    "    %%nan: bool[] = map ne %%k, %%k\n"
    "    %%a: index, %%z: index = for %%step = %%zero to %%steps step %%one carry(%%lo = %%zero, %%hi = %%n) {\n"
    "      %%open: bool[] = ilt %%lo, %%hi\n"
    "      %%sum: index = iadd %%lo, %%hi\n"
    "      %%mid: index = idiv %%sum, %%two\n"
    "      %%last: index = isub %%n, %%one\n"
    "      %%j: index = imin %%mid, %%last\n"
    "      %%w0: %s[] = load %%x[%%row, %%j] {shape=(1, 1) drop=3}\n"
    "      %%w1: %s[] = map convert %%w0 {dtype=%s}\n"
    "      %%o: %s[] = map convert %%w1 {dtype=%s}\n"
    "      %%oreal: bool[] = map eq %%o, %%o\n"
    "      %%onan: bool[] = map ne %%o, %%o\n"
    "      %%less0: bool[] = map lt %%o, %%k\n"
    "      %%less1: bool[] = map bitand %%oreal, %%nan\n"
    "      %%less: bool[] = map bitor %%less0, %%less1\n"
    "      %%more0: bool[] = map lt %%k, %%o\n"
    "      %%more1: bool[] = map bitand %%real, %%onan\n"
    "      %%more: bool[] = map bitor %%more0, %%more1\n"
    "      %%notmore: bool[] = map lnot %%more\n"
    "      %%up: bool[] = map bitand %%open, %s\n"
    "      %%stays: bool[] = map lnot %s\n"
    "      %%down: bool[] = map bitand %%open, %%stays\n"
    "      %%above: index = iadd %%mid, %%one\n"
    "      %%lo1: index = if %%up {\n"
    "        yield %%above\n"
    "      } else {\n"
    "        yield %%lo\n"
    "      }\n"
    "      %%hi1: index = if %%down {\n"
    "        yield %%mid\n"
    "      } else {\n"
    "        yield %%hi\n"
    "      }\n"
    "      yield %%lo1, %%hi1\n"
    "    }\n"
    "    %%y0: int32[] = to_tile %%a {dtype=int32}\n"
    "    store %%y[%%row, %%i], %%y0 {drop=3}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* Rows of a tensor, or the one row that all rows share. false: a fault. */
static bool rows_of(Tensor *t, bool shared, int64_t r, int64_t n, int device, TileArg *arg)
{
    *arg = (TileArg){.base = far_element(t, device, t->offset, false, false), .extent = {r, n}, .stride = {shared ? 0 : n, 1}};
    return arg->base;
}

/* Are all axes but the last the result's? */
static bool same_rows(const Tensor *t, int rank, const int64_t *shape)
{
    bool same = t->rank == rank;

    for (int i = 0; same && i < rank - 1; i++)
        same = t->shape[i] == shape[i];
    return same;
}

bool far_search(const Tensor *y, Tensor *x, Tensor *v, DType as, bool right)
{
    const char *xs = dtype_info[x->dtype].name, *vs = dtype_info[v->dtype].name, *to = dtype_info[as].name, *up = right ? "%notmore" : "%less";
    const char *k = dtype_info[as == DT_bool ? DT_uint8 : lane_dtype(as)].name;
    int64_t n = x->shape[x->rank - 1], each = y->rank ? y->shape[y->rank - 1] : 1, r = each ? tensor_size(y) / each : 0, steps = 1;
    int device = (int)y->store->device;
    bool one_x = x->rank == 1, one_v = v->rank < 2;
    Tensor *from = NULL, *values = NULL;
    TileArg arg[3];
    FarKernel *f;
    bool done;

    if (is_packed((DType)x->dtype) || is_packed((DType)v->dtype) || dtype_is_complex(as) || r * each == 0 || n < 1 ||
        (!one_x && !same_rows(x, y->rank, y->shape)) || (!one_v && !same_rows(v, y->rank, y->shape)))
        return false;
    f = far_kernel_of(search_text, xs, vs, vs, to, to, k, k, xs, to, to, k, k, up, up);
    if (!f->code || !(from = tensor_contiguous(x)) || !(values = tensor_contiguous(v))) {
        tensor_unref(from);
        return false;
    }
    while (n >> steps)
        steps++;
    done = !rows_of(from, one_x, r, n, device, &arg[0]) || !rows_of(values, one_v, r, each, device, &arg[1]) ||
           !far_flat(y, device, true, 0, &arg[2]);
    if (!done) {
        arg[2] = (TileArg){.base = arg[2].base, .extent = {r, each}, .stride = {each, 1}};
        done = far_launch(f, device, (int64_t[]){r, each, n, steps + 1}, arg) != 0;
    }
    tensor_unref(from);
    tensor_unref(values);
    return done;
}
