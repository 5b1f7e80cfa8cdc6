/*
 * Index tensors on a GPU: places, and what lands on them (runtime/far_moves.h).
 *
 * A lane resolves one number of an index operand: what it is worth is added to the points of those before it, and one that is
 * out of range makes a point no place, which is reported (runtime/gpu_report.h).
 *
 * Where blocks may land on each other (scatter) points are sorted, stably: those of one place stand together, in order.  The first one of
 * them goes through all, so results are the host's, and nothing is locked.  Points that are known on the host are sorted there.
 */
#include "ir/schedule/far_impl.h"

#include "ir/schedule/far.h"
#include "ir/schedule/recording.h"

#include "base/alloc.h"
#include "runtime/far_moves.h"
#include "runtime/gpu_report.h"
#include "runtime/kernel_util.h"
#include "runtime/storage.h"

#include <string.h>

static int device_of(const Tensor *t) { return (int)t->store->device; }

/* ---- what index operands say ---- */

#define PLACES_HEAD \
    "sizes(n, each, off, batch, size, step) grid(cdiv(n, 256)) lanes=256 {\n" \
    "  %%n: index = size {name=\"n\"}\n" \
    FAR_LANE \
    "  %%here: bool[] = ilt %%q, %%n\n" \
    "  if %%here {\n" \
    "    %%zero: index = index {i=0}\n" \
    "    %%size: index = size {name=\"size\"}\n" \
    "    %%step: index = size {name=\"step\" i=1}\n"

/* The first operand's points begin where their batch does; later ones are added to. */
#define BY_BATCH \
    "    %%each: index = size {name=\"each\"}\n" \
    "    %%off: index = size {name=\"off\"}\n" \
    "    %%batch: index = size {name=\"batch\" i=1}\n" \
    "    %%b: index = idiv %%q, %%each\n" \
    "    %%b0: index = imul %%b, %%batch\n" \
    "    %%was: index = iadd %%b0, %%off\n" \
    "    %%lost: bool[] = const {dtype=bool}\n"
#define BY_OTHERS \
    "    %%w: int64[] = load %%before[%%q] {shape=(1) drop=1}\n" \
    "    %%was: index = to_index %%w\n" \
    "    %%lost: bool[] = ilt %%was, %%zero\n"

/* A point is -2^62 where it is no place: no block reaches from there to a view. */
#define PLACES_REST \
    "    %%v: %s[] = load %%x[%%q] {shape=(1) drop=1}\n" \
    "    %%v64: int64[] = map convert %%v {dtype=int64}\n" \
    "    %%i: index = to_index %%v64\n" \
    "    %%negative: bool[] = ilt %%i, %%zero\n" \
    "    %%up: index = iadd %%i, %%size\n" \
    "    %%k: index = if %%negative {\n" \
    "      yield %%up\n" \
    "    } else {\n" \
    "      yield %%i\n" \
    "    }\n" \
    "    %%low: bool[] = ilt %%k, %%zero\n" \
    "    %%below: bool[] = ilt %%k, %%size\n" \
    "    %%high: bool[] = map lnot %%below\n" \
    "    %%wrong: bool[] = map bitor %%low, %%high\n" \
    "    if %%wrong {\n" \
    "      %%most: index = index {i=2147483647}\n" \
    "      %%least: index = index {i=-2147483648}\n" \
    "      %%unit: index = index {i=4294967296}\n" \
    "      %%i0: index = imin %%i, %%most\n" \
    "      %%i1: index = imax %%i0, %%least\n" \
    "      %%i2: index = isub %%i1, %%least\n" \
    "      %%q0: index = imul %%q, %%unit\n" \
    "      %%said: index = iadd %%q0, %%i2\n" \
    "      %%word: int64[] = to_tile %%said {dtype=int64}\n" \
    "      atomic min %%report[%%zero], %%word {drop=1}\n" \
    "    } else {\n" \
    "    }\n" \
    "    %%part: index = imul %%k, %%step\n" \
    "    %%sum: index = iadd %%was, %%part\n" \
    "    %%none: bool[] = map bitor %%wrong, %%lost\n" \
    "    %%place: index = if %%none {\n" \
    "      %%nowhere: index = index {i=-4611686018427387904}\n" \
    "      yield %%nowhere\n" \
    "    } else {\n" \
    "      yield %%sum\n" \
    "    }\n" \
    "    %%y: int64[] = to_tile %%place {dtype=int64}\n" \
    "    store %%at[%%q], %%y {drop=1}\n" \
    "  } else {\n" \
    "  }\n" \
    "}\n"

static const char first_text[] =
    "tessera.tile v1\n"
    "kernel @places(%%x: view %s[1], %%at: view int64[1], %%report: view int64[1]) "
    PLACES_HEAD BY_BATCH PLACES_REST;

static const char later_text[] =
    "tessera.tile v1\n"
    "kernel @places(%%x: view %s[1], %%at: view int64[1], %%report: view int64[1], %%before: view int64[1]) "
    PLACES_HEAD BY_OTHERS PLACES_REST;

static bool is_number(DType dt) { return dtype_is_int(dt) && !is_packed(dt) && dt != DT_uint64; }

/* Operand t over all points, row-major. NULL: there is no memory. */
static Tensor *over_points(Tensor *t, int m, int rank, const int64_t *shape)
{
    int64_t stride[RANK_MAX] = {0};
    Tensor *view, *rows;

    for (int i = 0; i < m; i++)
        stride[i] = t->shape[i] == 1 ? 0 : t->stride[i];
    for (int own = m; own < t->rank; own++)
        stride[rank - t->rank + own] = t->shape[own] == 1 ? 0 : t->stride[own];
    view = tensor_view(t, rank, shape, stride, t->offset);
    rows = tensor_contiguous(view);
    tensor_unref(view);
    return rows;
}

/* The batch axes of target as one: its stride. false: they are not. */
static bool batch_step(const Tensor *target, int m, int64_t *step)
{
    int64_t next = 0;

    *step = 0;
    for (int i = m - 1; i >= 0; i--) {
        if (target->shape[i] == 1)
            continue;
        if (next && target->stride[i] != next)
            return false;
        *step = next ? *step : target->stride[i];
        next = target->stride[i] * target->shape[i];
    }
    return true;
}

/* Does anybody ask for them there: are they not on the host, or is all to be put down? */
static bool wanted(const Attr *a, Tensor *const *index)
{
    bool there = recording_writing() || far_pretends;

    for (int k = 0; k < a->n; k++) {
        if (!is_number((DType)index[k]->dtype) || !index[k]->store)
            return false;
        there = there || index[k]->store->away & AWAY_READ;
    }
    return there && a->n;
}

/* The word for operand k's axis. NULL: there is none. */
static int64_t *word_for(const Tensor *target, int axis, int device)
{
    GpuDevice *g;

    if (far_pretends)
        return (int64_t *)far_pretended;
    if (!(g = gpu_of(device - 1)))
        return NULL;
    return recording_writing() ? gpu_report(g, (GpuAsked){far_moves_where, axis, target->shape[axis]}) : gpu_report_now(g);
}

/* Where nothing is put down, whoever asks is told at once. false: something is out of range. */
static bool all_inside(int device)
{
    GpuDevice *g = far_pretends || recording_writing() ? NULL : gpu_of(device - 1);
    int64_t *word = g ? gpu_report_now(g) : NULL;
    bool fine;

    if (!word)
        return true;
    fine = gpu_sync_stream(g, GPU_MAIN) && *word == GPU_FINE;
    *word = GPU_FINE;
    return fine;
}

typedef struct Points { Tensor *at; int64_t count, each, batch; int device; } Points;

/* Operand k's part. false: it cannot be. */
static bool add_operand(const Points *p, const Tensor *target, Tensor *index, int k, int axis)
{
    FarKernel *f = far_kernel_of(k ? later_text : first_text, dtype_info[index->dtype].name, dtype_info[index->dtype].name);
    int64_t *word = f->code ? word_for(target, axis, p->device) : NULL;
    TileArg arg[4];

    if (!word)
        return false;
    arg[2] = (TileArg){.base = word, .extent = {1}, .stride = {1}};
    if (!far_flat(index, p->device, false, index->offset, &arg[0]) || !far_flat(p->at, p->device, true, 0, &arg[1]))
        return true;
    arg[0].extent[0] = arg[1].extent[0] = p->count;
    arg[3] = arg[1];
    return far_launch(f, p->device, (int64_t[]){p->count, p->each, target->offset, p->batch, target->shape[axis], target->stride[axis]}, arg) != 0;
}

Tensor *far_places(const Attr *a, Tensor *const *index, const Tensor *target, int rank, const int64_t *shape)
{
    Points p = {.count = 1, .each = 1, .device = device_of(target)};
    bool ok;

    for (int i = 0; i < rank; i++) {
        p.count *= shape[i];
        p.each *= i < a->m ? 1 : shape[i];
    }
    if (!p.count || p.count > INT32_MAX || !wanted(a, index) || !batch_step(target, a->m, &p.batch))
        return NULL;
    if (!(p.at = tensor_new(DT_int64, 1, &p.count)))
        return NULL;
    ok = device_of(p.at) == p.device;
    for (int k = 0; ok && k < a->n; k++) {
        Tensor *rows = over_points(index[k], a->m, rank, shape);
        ok = rows && add_operand(&p, target, rows, k, a->m + k);
        tensor_unref(rows);
    }
    if (ok && all_inside(p.device))
        return p.at;
    tensor_unref(p.at);
    return NULL;
}

/* ---- those of one place together ---- */

/*
 * Points by where they land: place[k], the k-th smallest, is point order[k]'s; of those of one place the first one has where they end, the
 * others, and those that are no place, 0.
 */
typedef struct Landing { Tensor *place, *end, *order; } Landing;

typedef struct Block { int64_t at, i; } Block;

/* By place, those of one place in order (radix sort, least significant digit first). */
static void sort_blocks(Block *x, Block *spare, int64_t n, int64_t largest)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    int64_t start[BUCKETS + 1];

    for (int shift = 0; largest >> shift; shift += BITS) {
        memset(start, 0, sizeof start);
        for (int64_t k = 0; k < n; k++)
            start[(x[k].at >> shift & (BUCKETS - 1)) + 1]++;
        for (int d = 0; d < BUCKETS; d++)
            start[d + 1] += start[d];
        for (int64_t k = 0; k < n; k++)
            spare[start[x[k].at >> shift & (BUCKETS - 1)]++] = x[k];
        memcpy(x, spare, (size_t)n * sizeof *x);
    }
}

static Landing land_here(const int64_t *at, int64_t count)
{
    Block *b = tsr_alloc(2 * (size_t)count * sizeof *b);
    int64_t *place = tsr_alloc((size_t)count * sizeof *place), largest = 0, first = 0;
    int32_t *end = tsr_calloc((size_t)count * sizeof *end), *order = tsr_alloc((size_t)count * sizeof *order);
    bool sorted = true;
    Landing l;

    for (int64_t i = 0; i < count; i++) {
        b[i] = (Block){at[i], i};
        largest = at[i] > largest ? at[i] : largest;
        sorted &= !i || at[i - 1] <= at[i];
    }
    if (!sorted)
        sort_blocks(b, b + count, count, largest);
    for (int64_t i = 0; i < count; i++) {
        first = i && b[i].at == b[i - 1].at ? first : i;
        end[first] = (int32_t)(i + 1);
        place[i] = b[i].at;
        order[i] = (int32_t)b[i].i;
    }
    l = (Landing){far_numbers(DT_int64, place, count), far_numbers(DT_int32, end, count), far_numbers(DT_int32, order, count)};
    tsr_free(b);
    tsr_free(place);
    tsr_free(end);
    tsr_free(order);
    return l;
}

static const char ends_text[] =
    "tessera.tile v1\n"
    "kernel @ends(%%place: view int64[1], %%end: view int32[1]) sizes(n, steps) grid(cdiv(n, 256)) lanes=256 {\n"
    "  %%n: index = size {name=\"n\"}\n"
    FAR_LANE
    "  %%here: bool[] = ilt %%q, %%n\n"
    "  if %%here {\n"
    "    %%zero: index = index {i=0}\n"
    "    %%one: index = index {i=1}\n"
    "    %%two: index = index {i=2}\n"
    "    %%steps: index = size {name=\"steps\"}\n"
    "    %%v: int64[] = load %%place[%%q] {shape=(1) drop=1}\n"
    "    %%q1: index = isub %%q, %%one\n"
    "    %%before: index = imax %%q1, %%zero\n"
    "    %%u: int64[] = load %%place[%%before] {shape=(1) drop=1}\n"
    "    %%new: bool[] = map ne %%u, %%v\n"
    "    %%front: bool[] = ieq %%q, %%zero\n"
    "    %%first: bool[] = map bitor %%new, %%front\n"
    "    %%at: index = to_index %%v\n"
    "    %%none: bool[] = ilt %%at, %%zero\n"
    "    %%some: bool[] = map lnot %%none\n"
    "    %%goes: bool[] = map bitand %%first, %%some\n"
    "    %%q2: index = iadd %%q, %%one\n"
    "    %%a: index, %%z: index = for %%step = %%zero to %%steps step %%one carry(%%lo = %%q2, %%hi = %%n) {\n"
    FAR_MIDDLE
    "      %%w: int64[] = load %%place[%%j] {shape=(1) drop=1}\n"
    "      %%same: bool[] = map eq %%w, %%v\n"
    "      %%other: bool[] = map ne %%w, %%v\n"
    "      %%up: bool[] = map bitand %%open, %%same\n"
    "      %%down: bool[] = map bitand %%open, %%other\n"
    FAR_HALF
    "    %%e: index = if %%goes {\n"
    "      yield %%a\n"
    "    } else {\n"
    "      yield %%zero\n"
    "    }\n"
    "    %%y: int32[] = to_tile %%e {dtype=int32}\n"
    "    store %%end[%%q], %%y {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* false: it cannot. */
static bool land_there(Tensor *at, int64_t count, int device, Landing *l)
{
    FarKernel *f = far_kernel_of(ends_text);
    int64_t steps = 1;
    TileArg arg[2];

    while (count >> steps)
        steps++;
    if (!f->code || !far_sort_both(at, false, &l->place, &l->order))
        return false;
    if (!(l->end = tensor_new(DT_int32, 1, &count)))
        return false;
    if (!far_flat(l->place, device, false, 0, &arg[0]) || !far_flat(l->end, device, true, 0, &arg[1]))
        return true;
    return far_launch(f, device, (int64_t[]){count, steps + 1}, arg) != 0;
}

static void landing_done(Landing *l)
{
    tensor_unref(l->place);
    tensor_unref(l->end);
    tensor_unref(l->order);
}

/* ---- writing by place ---- */

#define SCATTER_HEAD \
    "tessera.tile v1\n" \
    "kernel @scatter(%%v: view %s[?, 1], %%place: view int64[1], %%end: view int32[1], %%order: view int32[1], %%y: view %s[1]) sizes(n, w) "

/* A group has some of a block's elements. */
static const char rows_head[] =
    SCATTER_HEAD "grid(n, cdiv(w, %d)) {\n"
    "  %%i: index = group {axis=0}\n"
    "  %%g: index = group {axis=1}\n"
    "  %%tile: index = index {i=%d}\n"
    "  %%from: index = imul %%g, %%tile\n"
    "  %%zero: index = index {i=0}\n"
    "  %%one: index = index {i=1}\n"
    "  %%e: int32[] = load %%end[%%i] {shape=(1) drop=1}\n"
    "  %%hi: index = to_index %%e\n"
    "  %%p: int64[] = load %%place[%%i] {shape=(1) drop=1}\n"
    "  %%p0: index = to_index %%p\n"
    "  %%at: index = imax %%p0, %%zero\n"
    "  %%w: index = size {name=\"w\"}\n"
    "  %%any: index = imin %%hi, %%one\n"
    "  %%room: index = imul %%w, %%any\n"
    "  %%to: view %s[1] = part %%y[%%at], %%room\n";

static const char rows_put[] =
    "  %%h: index = isub %%hi, %%one\n"
    "  %%last: index = imax %%h, %%zero\n"
    "  %%o: int32[] = load %%order[%%last] {shape=(1) drop=1}\n"
    "  %%of: index = to_index %%o\n"
    "  %%x: %s[%d] = load %%v[%%of, %%from] {shape=(1, %d) drop=1}\n"
    "  store %%to[%%from], %%x\n"
    "}\n";

static const char rows_add[] =
    "  %%lo: index = imin %%i, %%hi\n"
    "  %%there: %s[%d] = load %%to[%%from] {shape=(%d)}\n"
    "  %%sum: %s[%d] = map convert %%there {dtype=%s}\n"
    "  %%total: %s[%d] = for %%k = %%lo to %%hi step %%one carry(%%acc = %%sum) {\n"
    "    %%o: int32[] = load %%order[%%k] {shape=(1) drop=1}\n"
    "    %%of: index = to_index %%o\n"
    "    %%x: %s[%d] = load %%v[%%of, %%from] {shape=(1, %d) drop=1}\n"
    "    %%xa: %s[%d] = map convert %%x {dtype=%s}\n"
    "    %%next: %s[%d] = map add %%acc, %%xa\n"
    "    yield %%next\n"
    "  }\n"
    "  %%r: %s[%d] = map convert %%total {dtype=%s}\n"
    "  store %%to[%%from], %%r\n"
    "}\n";

/* Blocks of few elements: a lane has one. */
static const char lanes_head[] =
    SCATTER_HEAD "grid(cdiv(n*w, 256)) lanes=256 {\n"
    "  %%n: index = size {name=\"n\"}\n"
    "  %%w: index = size {name=\"w\"}\n"
    FAR_LANE
    "  %%one: index = index {i=1}\n"
    "  %%zero: index = index {i=0}\n"
    "  %%all: index = imul %%n, %%w\n"
    "  %%here: bool[] = ilt %%q, %%all\n"
    "  if %%here {\n"
    "    %%i: index = idiv %%q, %%w\n"
    "    %%c: index = imod %%q, %%w\n"
    "    %%e: int32[] = load %%end[%%i] {shape=(1) drop=1}\n"
    "    %%hi: index = to_index %%e\n"
    "    %%any: bool[] = ilt %%zero, %%hi\n"
    "    if %%any {\n"
    "      %%p: int64[] = load %%place[%%i] {shape=(1) drop=1}\n"
    "      %%p0: index = to_index %%p\n"
    "      %%at: index = iadd %%p0, %%c\n";

static const char lanes_put[] =
    "      %%last: index = isub %%hi, %%one\n"
    "      %%o: int32[] = load %%order[%%last] {shape=(1) drop=1}\n"
    "      %%of: index = to_index %%o\n"
    "      %%x: %s[] = load %%v[%%of, %%c] {shape=(1, 1) drop=3}\n"
    "      store %%y[%%at], %%x {drop=1}\n";

static const char lanes_add[] =
    "      %%there: %s[] = load %%y[%%at] {shape=(1) drop=1}\n"
    "      %%sum: %s[] = map convert %%there {dtype=%s}\n"
    "      %%total: %s[] = for %%k = %%i to %%hi step %%one carry(%%acc = %%sum) {\n"
    "        %%o: int32[] = load %%order[%%k] {shape=(1) drop=1}\n"
    "        %%of: index = to_index %%o\n"
    "        %%x: %s[] = load %%v[%%of, %%c] {shape=(1, 1) drop=3}\n"
    "        %%xa: %s[] = map convert %%x {dtype=%s}\n"
    "        %%next: %s[] = map add %%acc, %%xa\n"
    "        yield %%next\n"
    "      }\n"
    "      %%r: %s[] = map convert %%total {dtype=%s}\n"
    "      store %%y[%%at], %%r {drop=1}\n";

static const char lanes_end[] =
    "    } else {\n"
    "    }\n"
    "  } else {\n"
    "  }\n"
    "}\n";

enum { ROWS_LEAST = 16, ROWS_MOST = 1024 };

/* Sums of integers are in their own dtype, those of floats in their accumulator. */
static bool adds(DType dt) { return dt == DT_f32 || dt == DT_f64 || dt == DT_bf16 || dt == DT_f16 || dt == DT_int32 || dt == DT_int64; }

static FarKernel *scatter_kernel(OpId op, const Tensor *to, const Tensor *values, int64_t block)
{
    DType dt = (DType)to->dtype, accum = dtype_is_inexact(dt) ? dtype_accum(dt) : dt;
    const char *d = op == OP_index_add ? dtype_info[dt].name : far_bits(to), *v = op == OP_index_add ? dtype_info[values->dtype].name : d;
    const char *a = dtype_info[accum].name;
    bool rows = block >= ROWS_LEAST, put = op == OP_index_put;
    int w = far_width(block, ROWS_MOST);
    StrBuf text = {0};
    FarKernel *f;

    if (!d || (put ? dt != values->dtype : !adds(dt) || !adds((DType)values->dtype)))
        return NULL;
    if (rows)
        sb_printf(&text, rows_head, v, d, w, w, d);
    else
        sb_printf(&text, lanes_head, v, d);
    if (rows && put)
        sb_printf(&text, rows_put, d, w, w);
    else if (rows)
        sb_printf(&text, rows_add, d, w, w, a, w, a, a, w, v, w, w, a, w, a, a, w, d, w, d);
    else if (put)
        sb_printf(&text, lanes_put, d);
    else
        sb_printf(&text, lanes_add, d, a, a, a, v, a, a, a, d, d);
    if (!rows)
        sb_puts(&text, lanes_end);
    f = far_kernel(sb_str(&text));
    sb_done(&text);
    return f;
}

/* Sums of ints in any order: each lane adds its own to memory at once. A place below 0 is none. */
static const char ints_text[] =
    "tessera.tile v1\n"
    "kernel @add_ints(%%v: view %s[?, 1], %%place: view int64[1], %%y: view %s[1]) sizes(n, w) grid(cdiv(n*w, 256)) lanes=256 {\n"
    "  %%n: index = size {name=\"n\"}\n"
    "  %%w: index = size {name=\"w\"}\n"
    FAR_LANE
    "  %%zero: index = index {i=0}\n"
    "  %%all: index = imul %%n, %%w\n"
    "  %%here: bool[] = ilt %%q, %%all\n"
    "  if %%here {\n"
    "    %%i: index = idiv %%q, %%w\n"
    "    %%c: index = imod %%q, %%w\n"
    "    %%p: int64[] = load %%place[%%i] {shape=(1) drop=1}\n"
    "    %%p0: index = to_index %%p\n"
    "    %%none: bool[] = ilt %%p0, %%zero\n"
    "    if %%none {\n"
    "    } else {\n"
    "      %%at: index = iadd %%p0, %%c\n"
    "      %%x: %s[] = load %%v[%%i, %%c] {shape=(1, 1) drop=3}\n"
    "      atomic sum %%y[%%at], %%x {drop=1}\n"
    "    }\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* The same to few places, one of each value: a group adds in its own memory first, and what that comes to there. */
static const char few_text[] =
    "tessera.tile v1\n"
    "kernel @add_few(%v: view int32[1], %place: view int64[1], %y: view int32[1]) sizes(n, base, places) grid(cdiv(n, 16384)) lanes=256 {\n"
    "  %n: index = size {name=\"n\"}\n"
    "  %base: index = size {name=\"base\"}\n"
    "  %places: index = size {name=\"places\"}\n"
    "  %lane: index = lane\n"
    "  %g: index = group {axis=0}\n"
    "  %none: index = index {i=0}\n"
    "  %one: index = index {i=1}\n"
    "  %lanes: index = index {i=256}\n"
    "  %rounds: index = index {i=64}\n"
    "  %span: index = index {i=16384}\n"
    "  %zero: int32[] = const {dtype=int32}\n"
    "  %sums: view int32[1] shared = alloc %places {name=\"sums\" dtype=int32 space=shared swizzle=rows}\n"
    "  for %c = %lane to %places step %lanes {\n"
    "    store %sums[%c], %zero {drop=1}\n"
    "  }\n"
    "  barrier\n"
    "  %g0: index = imul %g, %span\n"
    "  %first: index = iadd %g0, %lane\n"
    "  for %k = %none to %rounds step %one {\n"
    "    %k0: index = imul %k, %lanes\n"
    "    %q: index = iadd %first, %k0\n"
    "    %here: bool[] = ilt %q, %n\n"
    "    if %here {\n"
    "      %p: int64[] = load %place[%q] {shape=(1) drop=1}\n"
    "      %x: int32[] = load %v[%q] {shape=(1) drop=1}\n"
    "      %p0: index = to_index %p\n"
    "      %nobody: bool[] = ilt %p0, %none\n"
    "      if %nobody {\n"
    "      } else {\n"
    "        %at: index = isub %p0, %base\n"
    "        atomic sum %sums[%at], %x {drop=1}\n"
    "      }\n"
    "    } else {\n"
    "    }\n"
    "  }\n"
    "  barrier\n"
    "  for %i = %lane to %places step %lanes {\n"
    "    %sum: int32[] = load %sums[%i] {shape=(1) drop=1}\n"
    "    %some: bool[] = map ne %sum, %zero\n"
    "    if %some {\n"
    "      %to: index = iadd %i, %base\n"
    "      atomic sum %y[%to], %sum {drop=1}\n"
    "    } else {\n"
    "    }\n"
    "  }\n"
    "}\n";

/* Places that a GPU has, each with ints for it. */
static bool adds_ints(OpId op, const Tensor *to, const Tensor *values, const FarPoints *p)
{
    return op == OP_index_add && p->there && to->dtype == values->dtype && (to->dtype == DT_int32 || to->dtype == DT_int64);
}

static bool add_ints(const Tensor *to, const Tensor *values, const FarPoints *p)
{
    enum { FEW = 8192, MANY = 1 << 16 };        /* places that a group has memory for; values that are worth it */
    const char *t = dtype_info[to->dtype].name;
    bool few = to->dtype == DT_int32 && to->contiguous && tensor_size(to) <= FEW && p->block == 1 && p->count >= MANY;
    FarKernel *f = few ? far_kernel(few_text) : far_kernel_of(ints_text, t, t, t);
    int device = device_of(to);
    TileArg arg[3];

    if (!f->code || !far_flat(values, device, false, values->offset, &arg[0]) || !far_flat(p->there, device, false, 0, &arg[1]) ||
        !far_flat(to, device, true, 0, &arg[2]))
        return false;
    if (few)
        return far_launch(f, device, (int64_t[]){p->count, to->offset, tensor_size(to)}, arg) != 0;
    arg[0] = (TileArg){.base = arg[0].base, .extent = {p->count, p->block}, .stride = {p->block, 1}};
    return far_launch(f, device, (int64_t[]){p->count, p->block}, arg) != 0;
}

bool far_scatter(OpId op, const Tensor *to, const Tensor *values, const FarPoints *p)
{
    int device = device_of(to);
    Landing l = {0};
    TileArg arg[5];
    FarKernel *f;
    bool done;

    if (p->count > INT32_MAX)
        return false;
    if (adds_ints(op, to, values, p))
        return add_ints(to, values, p);
    if (!(f = scatter_kernel(op, to, values, p->block)) || !f->code)
        return false;
    if (!p->there)
        l = land_here(p->at, p->count);
    done = p->there ? land_there(p->there, p->count, device, &l) : l.place && l.end && l.order;
    if (done && far_flat(values, device, false, values->offset, &arg[0]) && far_flat(l.place, device, false, 0, &arg[1]) &&
        far_flat(l.end, device, false, 0, &arg[2]) && far_flat(l.order, device, false, 0, &arg[3]) && far_flat(to, device, true, 0, &arg[4])) {
        arg[0] = (TileArg){.base = arg[0].base, .extent = {p->count, p->block}, .stride = {p->block, 1}};
        done = far_launch(f, device, (int64_t[]){p->count, p->block}, arg) != 0;
    }
    landing_done(&l);
    return done;
}
