/*
 * Running sums, products and extremes on a GPU, in the order of the host's (runtime/scan.c): chunks of 256 one after the other, each of whose
 * results meets the last result of the chunk before once.
 *
 * The tensor is [o, n, i] with the scanned axis in the middle.  A lane does one chunk of one line (`runs`), a lane a line's totals of chunks
 * (`before`), and a lane one element (`join`).  One chunk is the first kernel alone.
 * Where the scanned axis is the last one, neighbouring lanes would read far from each other: many such lines are turned before, and back afterwards.
 */
#include "ir/schedule/far_impl.h"

#include "runtime/far_moves.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

enum { CHUNK = 256, LONGEST = 1 << 14, LINES = 32 };     /* chunks of a line, which `before` takes one by one; lines that are turned */

static const char runs_text[] =
    "tessera.tile v1\n"
    "kernel @scan_runs(%%x: view %s[?, ?, ?], %%p: view %s[?, ?, ?]) sizes(o, n, i, c) grid(cdiv(o*c*i, 64)) lanes=64 {\n"
    "  %%0: index = size {name=\"o\"}\n"
    "  %%1: index = size {name=\"n\"}\n"
    "  %%2: index = size {name=\"i\"}\n"
    "  %%3: index = size {name=\"c\"}\n"
    "  %%4: index = index {i=64}\n"
    "  %%5: index = index {i=256}\n"
    "  %%6: index = index {i=1}\n"
    "  %%7: index = group {axis=0}\n"
    "  %%8: index = imul %%7, %%4\n"
    "  %%9: index = lane\n"
    "  %%10: index = iadd %%8, %%9\n"
    "  %%11: index = imul %%2, %%3\n"
    "  %%12: index = imul %%11, %%0\n"
    "  %%13: bool[] = ilt %%10, %%12\n"
    "  if %%13 {\n"
    "    %%14: index = imod %%10, %%2\n"
    "    %%15: index = idiv %%10, %%2\n"
    "    %%16: index = imod %%15, %%3\n"
    "    %%17: index = idiv %%15, %%3\n"
    "    %%18: index = imul %%16, %%5\n"
    "    %%19: index = iadd %%18, %%5\n"
    "    %%20: index = imin %%19, %%1\n"
    "    %%21: %s[] = load %%x[%%17, %%18, %%14] {shape=(1, 1, 1) drop=7}\n"
    "    %%22: %s[] = map convert %%21 {dtype=%s}\n"
    "    %%23: %s[] = map convert %%22 {dtype=%s}\n"
    "    store %%p[%%17, %%18, %%14], %%23 {drop=7}\n"
    "    %%24: index = iadd %%18, %%6\n"
    "    %%25: %s[] = for %%26 = %%24 to %%20 step %%6 carry(%%27 = %%22) {\n"
    "      %%28: %s[] = load %%x[%%17, %%26, %%14] {shape=(1, 1, 1) drop=7}\n"
    "      %%29: %s[] = map convert %%28 {dtype=%s}\n"
    "      %%30: %s[] = map %s %%27, %%29\n"
    "      %%31: %s[] = map convert %%30 {dtype=%s}\n"
    "      store %%p[%%17, %%26, %%14], %%31 {drop=7}\n"
    "      yield %%30\n"
    "    }\n"
    "  } else {\n"
    "  }\n"
    "}\n";

static const char before_text[] =
    "tessera.tile v1\n"
    "kernel @scan_before(%%p: view %s[?, ?, ?], %%b: view %s[?, ?, ?]) sizes(o, i, c) grid(cdiv(o*i, 32)) lanes=32 {\n"
    "  %%0: index = size {name=\"o\"}\n"
    "  %%1: index = size {name=\"i\"}\n"
    "  %%2: index = size {name=\"c\"}\n"
    "  %%3: index = index {i=32}\n"
    "  %%4: index = index {i=256}\n"
    "  %%5: index = index {i=1}\n"
    "  %%6: index = index {i=255}\n"
    "  %%7: index = group {axis=0}\n"
    "  %%8: index = imul %%7, %%3\n"
    "  %%9: index = lane\n"
    "  %%10: index = iadd %%8, %%9\n"
    "  %%11: index = imul %%0, %%1\n"
    "  %%12: bool[] = ilt %%10, %%11\n"
    "  if %%12 {\n"
    "    %%13: index = imod %%10, %%1\n"
    "    %%14: index = idiv %%10, %%1\n"
    "    %%15: %s[] = load %%p[%%14, %%6, %%13] {shape=(1, 1, 1) drop=7}\n"
    "    store %%b[%%14, %%5, %%13], %%15 {drop=7}\n"
    "    %%16: index = isub %%2, %%5\n"
    "    %%17: %s[] = for %%18 = %%5 to %%16 step %%5 carry(%%19 = %%15) {\n"
    "      %%20: index = imul %%18, %%4\n"
    "      %%21: index = iadd %%20, %%6\n"
    "      %%22: %s[] = load %%p[%%14, %%21, %%13] {shape=(1, 1, 1) drop=7}\n"
    "      %%23: %s[] = map %s %%19, %%22\n"
    "      %%24: index = iadd %%18, %%5\n"
    "      store %%b[%%14, %%24, %%13], %%23 {drop=7}\n"
    "      yield %%23\n"
    "    }\n"
    "  } else {\n"
    "  }\n"
    "}\n";

static const char join_text[] =
    "tessera.tile v1\n"
    "kernel @scan_join(%%p: view %s[?, ?, ?], %%b: view %s[?, ?, ?], %%y: view %s[?, ?, ?]) sizes(o, n, i) grid(cdiv(o*n*i, 256)) lanes=256 {\n"
    "  %%0: index = size {name=\"o\"}\n"
    "  %%1: index = size {name=\"n\"}\n"
    "  %%2: index = size {name=\"i\"}\n"
    "  %%3: index = index {i=256}\n"
    "  %%4: index = group {axis=0}\n"
    "  %%5: index = imul %%4, %%3\n"
    "  %%6: index = lane\n"
    "  %%7: index = iadd %%5, %%6\n"
    "  %%8: index = imul %%0, %%1\n"
    "  %%9: index = imul %%8, %%2\n"
    "  %%10: bool[] = ilt %%7, %%9\n"
    "  if %%10 {\n"
    "    %%11: index = imod %%7, %%2\n"
    "    %%12: index = idiv %%7, %%2\n"
    "    %%13: index = imod %%12, %%1\n"
    "    %%14: index = idiv %%12, %%1\n"
    "    %%15: %s[] = load %%p[%%14, %%13, %%11] {shape=(1, 1, 1) drop=7}\n"
    "    %%16: bool[] = ilt %%13, %%3\n"
    "    %%17: %s[] = if %%16 {\n"
    "      yield %%15\n"
    "    } else {\n"
    "      %%18: index = idiv %%13, %%3\n"
    "      %%19: %s[] = load %%b[%%14, %%18, %%11] {shape=(1, 1, 1) drop=7}\n"
    "      %%20: %s[] = map %s %%19, %%15\n"
    "      yield %%20\n"
    "    }\n"
    "    %%21: %s[] = map convert %%17 {dtype=%s}\n"
    "    store %%y[%%14, %%13, %%11], %%21 {drop=7}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

static FarKernel *runs_kernel(const char *step, const char *x, const char *a, const char *p)
{
    return far_kernel_of(runs_text, x, p, x, a, a, p, p, a, x, a, a, a, step, p, p);
}

static FarKernel *before_kernel(const char *step, const char *a)
{
    return far_kernel_of(before_text, a, a, a, a, a, a, step);
}

static FarKernel *join_kernel(const char *step, const char *a, const char *y)
{
    return far_kernel_of(join_text, a, a, y, a, a, a, a, step, y, y);
}

/* [o, n, i] of a row-major tensor; from the end: its middle axis the other way. */
typedef struct Lines { int64_t o, n, i, c; bool reverse; } Lines;

static bool line_arg(Tensor *t, int64_t n, const Lines *l, int device, bool write, bool reverse, TileArg *arg)
{
    char *base = far_address(t, device, write, false);

    *arg = (TileArg){.extent = {l->o, n, l->i}, .stride = {n * l->i, reverse ? -l->i : l->i, 1}};
    if (base)
        arg->base = base + (t->offset + (reverse ? (n - 1) * l->i : 0)) * (dtype_info[t->dtype].sbits / 8);
    return base;
}

/* What chunks come to meets what was before them. p: the chunks' own results, in the accumulator's dtype. false: it cannot. */
static bool join_chunks(const char *step, DType accum, Tensor *p, Tensor *y, const Lines *l, int device)
{
    const char *a = dtype_info[accum].name;
    FarKernel *before = before_kernel(step, a), *join = join_kernel(step, a, dtype_info[y->dtype].name);
    int64_t shape[3] = {l->o, l->c, l->i}, lines[3] = {l->o, l->i, l->c}, all[3] = {l->o, l->n, l->i};
    Tensor *b = before->code && join->code ? tensor_new(accum, 3, shape) : NULL;
    TileArg arg[3], two[2];
    bool ok = b != NULL;

    if (ok && line_arg(p, l->n, l, device, false, l->reverse, &arg[0]) && line_arg(b, l->c, l, device, true, false, &arg[1]) &&
        line_arg(y, l->n, l, device, true, l->reverse, &arg[2])) {
        two[0] = arg[0];
        two[1] = arg[1];
        ok = far_launch(before, device, lines, two) != 0 && far_launch(join, device, all, arg) != 0;
    }
    tensor_unref(b);
    return ok;
}

static bool takes(DType dt) { return dt != DT_fp8_e4m3 && dt != DT_fp8_e5m2 && !dtype_is_complex(dt) && !is_packed(dt); }
/* Extremes have no other accumulator. */
static bool adds_up(DType dt) { return takes(dt) && dt != DT_bool && dt != DT_tf32; }

/* The rows of a row-major tensor as columns: the view. */
static Tensor *turned(Tensor *t, int64_t o, int64_t n)
{
    int64_t shape[2] = {n, o}, stride[2] = {1, n};

    return tensor_view(t, 2, shape, stride, t->offset);
}

/* Along the last axis, of o lines. false: it cannot. */
static bool scan_turned(OpId step, DType accum, Tensor *y, Tensor *x, int64_t o, int64_t n, bool reverse)
{
    Tensor *rows = tensor_contiguous(x), *view = rows ? turned(rows, o, n) : NULL, *from = view ? tensor_contiguous(view) : NULL;
    Tensor *to = from ? tensor_new((DType)y->dtype, 2, from->shape) : NULL;
    bool ok = to && far_scan(step, accum, to, from, 0, reverse);

    if (ok) {
        Tensor *back = turned(to, n, o), *all = tensor_view(y, 2, back->shape, (int64_t[]){n, 1}, y->offset);
        tensor_assign(all, back);
        tensor_unref(all);
        tensor_unref(back);
    }
    tensor_unref(to);
    tensor_unref(from);
    tensor_unref(view);
    tensor_unref(rows);
    return ok;
}

bool far_scan(OpId step, DType accum, Tensor *y, Tensor *x, int axis, bool reverse)
{
    const char *name = op_info[step].name, *a = dtype_info[accum].name;
    int device = (int)y->store->device;
    Lines l = {.o = 1, .n = x->shape[axis], .i = 1, .reverse = reverse};
    Tensor *from, *p;
    TileArg arg[2];
    FarKernel *runs;
    bool ok;

    for (int k = 0; k < x->rank; k++)
        *(k < axis ? &l.o : k > axis ? &l.i : &l.n) *= k == axis ? 1 : x->shape[k];
    l.c = (l.n + CHUNK - 1) / CHUNK;
    if (!adds_up(accum) || !takes((DType)x->dtype) || !takes((DType)y->dtype) || l.c > LONGEST)
        return false;
    if (l.i == 1 && l.o >= LINES && l.n > 1 && scan_turned(step, accum, y, x, l.o, l.n, reverse))
        return true;
    runs = runs_kernel(name, dtype_info[x->dtype].name, a, l.c > 1 ? a : dtype_info[y->dtype].name);
    if (!runs->code || !(from = tensor_contiguous(x)))
        return false;
    p = l.c == 1 || accum == (DType)y->dtype ? tensor_ref(y) : tensor_new(accum, y->rank, y->shape);
    ok = p != NULL;
    if (ok && line_arg(from, l.n, &l, device, false, reverse, &arg[0]) && line_arg(p, l.n, &l, device, true, reverse, &arg[1]))
        ok = far_launch(runs, device, (int64_t[]){l.o, l.n, l.i, l.c}, arg) != 0 && (l.c == 1 || join_chunks(name, accum, p, y, &l, device));
    tensor_unref(p);
    tensor_unref(from);
    return ok;
}
