/*
 * Running sums, products and extremes on a GPU, in the order of the host's (runtime/scan.c): chunks of 256 one after the other, each of whose
 * results meets once what the chunks before it come to, which is a scan of their totals.
 *
 * The tensor is [o, n, i] with the scanned axis in the middle.  A lane does one chunk of one line (`runs`); the last elements of chunks are scanned
 * in the same way; then a lane does one element (`join`).  One chunk is the first kernel alone.
 * Where the scanned axis is the last one, neighbouring lanes would read far from each other: long lines go through memory of groups (`lines`), many
 * short ones are turned before, and back afterwards.
 */
#include "ir/schedule/far_impl.h"

#include "base/strbuf.h"
#include "runtime/far_moves.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

enum { CHUNK = 256, LONG = 8, LINES = 32, AT_ONCE = 8 };    /* elements; chunks; lines that are turned; elements loaded before the first is added */
enum { FEW = 2048, ALONE = 32 };                            /* lanes that leave others idle; as many elements for each of those */

static const char runs_text[] =
    "tessera.tile v1\n"
    "kernel @scan_runs(%%x: view %s[?, ?, ?], %%p: view %s[?, ?, ?]) sizes(o, n, i, c) grid(cdiv(o*c*i, 64)) lanes=64 {\n"
    "  %%0: index = size {name=\"o\"}\n"
    "  %%1: index = size {name=\"n\"}\n"
    "  %%2: index = size {name=\"i\"}\n"
    "  %%3: index = size {name=\"c\"}\n"
    "  %%4: index = index {i=64}\n"
    "  %%5: index = index {i=256}\n"
    "  %%7: index = group {axis=0}\n"
    "  %%8: index = imul %%7, %%4\n"
    "  %%9: index = lane\n"
    "  %%10: index = iadd %%8, %%9\n"
    "  %%11: index = imul %%2, %%3\n"
    "  %%12: index = imul %%11, %%0\n"
    "  %%13: bool[] = ilt %%10, %%12\n"
    "  if %%13 {\n"
    "    %%line: index = imod %%10, %%2\n"
    "    %%15: index = idiv %%10, %%2\n"
    "    %%16: index = imod %%15, %%3\n"
    "    %%own: index = idiv %%15, %%3\n"
    "    %%first: index = imul %%16, %%5\n"
    "    %%19: index = iadd %%first, %%5\n"
    "    %%end: index = imin %%19, %%1\n";

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
    "      %%22: index = isub %%13, %%3\n"
    "      %%18: index = idiv %%22, %%3\n"
    "      %%19: %s[] = load %%b[%%14, %%18, %%11] {shape=(1, 1, 1) drop=7}\n"
    "      %%20: %s[] = map %s %%19, %%15\n"
    "      yield %%20\n"
    "    }\n"
    "    %%21: %s[] = map convert %%17 {dtype=%s}\n"
    "    store %%y[%%14, %%13, %%11], %%21 {drop=7}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* A kernel that scans from %first to %end: what it is for, dtypes of what it reads, adds in and stores, elements that it loads at once. */
typedef struct Steps { const char *step, *x, *a, *p; int many; } Steps;

/*
 * So many elements from %at on, all loads before the first of them is added: names of nodes have `tag` in them. The first ones begin with no
 * sum. What is behind the end is read as 0, and not stored.
 */
static void put_steps(StrBuf *b, const Steps *s, const char *at, const char *tag, bool begins)
{
    for (int k = 0; k < s->many; k++) {
        sb_printf(b, "      %%k%s%d: index = index {i=%d}\n      %%i%s%d: index = iadd %%%s, %%k%s%d\n", tag, k, k, tag, k, at, tag, k);
        sb_printf(b, "      %%x%s%d: %s[] = load %%x[%%own, %%i%s%d, %%line] {shape=(1, 1, 1) drop=7}\n", tag, k, s->x, tag, k);
        sb_printf(b, "      %%a%s%d: %s[] = map convert %%x%s%d {dtype=%s}\n", tag, k, s->a, tag, k, s->a);
    }
    for (int k = 0; k < s->many; k++) {
        if (begins && !k)
            sb_printf(b, "      %%s%s0: %s[] = map convert %%a%s0 {dtype=%s}\n", tag, s->a, tag, s->a);
        else if (k)
            sb_printf(b, "      %%s%s%d: %s[] = map %s %%s%s%d, %%a%s%d\n", tag, k, s->a, s->step, tag, k - 1, tag, k);
        else
            sb_printf(b, "      %%s%s0: %s[] = map %s %%carried, %%a%s0\n", tag, s->a, s->step, tag);
        sb_printf(b, "      %%p%s%d: %s[] = map convert %%s%s%d {dtype=%s}\n", tag, k, s->p, tag, k, s->p);
        sb_printf(b, "      store %%p[%%own, %%i%s%d, %%line], %%p%s%d {drop=7}\n", tag, k, tag, k);
    }
}

static FarKernel *runs_kernel(OpId step, DType x, DType a, DType p, int many)
{
    const struct { char name[8]; int32_t step, x, a, p, many; } what = {"scan", (int32_t)step, (int32_t)x, (int32_t)a, (int32_t)p, many};
    uint64_t key = far_key(&what, sizeof what);
    Steps s = {op_info[step].name, dtype_info[x].name, dtype_info[a].name, dtype_info[p].name, many};
    StrBuf b = {0};
    FarKernel *f = far_known(key);

    if (f)
        return f;
    sb_printf(&b, runs_text, s.x, s.p);
    put_steps(&b, &s, "first", "b", true);
    sb_printf(&b, "    %%few: index = index {i=%d}\n    %%next: index = iadd %%first, %%few\n", many);
    sb_printf(&b, "    %%last: %s[] = for %%at = %%next to %%end step %%few carry(%%carried = %%sb%d) {\n", s.a, many - 1);
    put_steps(&b, &s, "at", "c", false);
    sb_printf(&b, "      yield %%sc%d\n    }\n  } else {\n  }\n}\n", many - 1);
    f = far_read(key, sb_str(&b));
    sb_done(&b);
    return f;
}

static FarKernel *join_kernel(const char *step, const char *a, const char *y)
{
    return far_kernel_of(join_text, a, a, y, a, a, a, a, step, y, y);
}

/* ---- long lines ---- */

/*
 * A group has 32 chunks of a line, which it brings to its own memory side by side; a lane each goes over them there.  The first time that is for what
 * they come to alone, the second time, when what is before each is known, for the results: so a line is read twice and written once.
 */
static const char lines_text[] =
    "tessera.tile v1\n"
    "kernel @scan_lines(%%x: view %s[?, ?, ?], %%b: view %s[?, ?, ?], %%y: view %s[?, ?, ?]) sizes(o, n, blocks) grid(o*blocks) lanes=256 {\n"
    "  %%n: index = size {name=\"n\"}\n"
    "  %%blocks: index = size {name=\"blocks\"}\n"
    "  %%lane: index = lane\n"
    "  %%g: index = group {axis=0}\n"
    "  %%own: index = idiv %%g, %%blocks\n"
    "  %%part: index = imod %%g, %%blocks\n"
    "  %%none: index = index {i=0}\n"
    "  %%one: index = index {i=1}\n"
    "  %%lanes: index = index {i=256}\n"
    "  %%chunks: index = index {i=32}\n"
    "  %%apart: index = index {i=257}\n"
    "  %%room: index = index {i=8224}\n"
    "  %%a: view %s[1] shared = alloc %%room {name=\"a\" dtype=%s space=shared swizzle=rows}\n"
    "  %%first: index = imul %%part, %%chunks\n"
    "  %%some: index = index {i=%d}\n";

/* An element of each of the next AT_ONCE chunks a lane, all loads before the first of them is needed. */
static void put_chunks_in(StrBuf *b, const char *x, const char *a)
{
    sb_puts(b, "  for %k = %none to %chunks step %some {\n");
    for (int k = 0; k < AT_ONCE; k++)
        sb_printf(b, "    %%j%d: index = index {i=%d}\n    %%q%d: index = iadd %%k, %%j%d\n    %%c%d: index = iadd %%first, %%q%d\n"
                     "    %%o%d: index = imul %%c%d, %%lanes\n    %%e%d: index = iadd %%o%d, %%lane\n"
                     "    %%v%d: %s[] = load %%x[%%own, %%e%d, %%none] {shape=(1, 1, 1) drop=7}\n",
                  k, k, k, k, k, k, k, k, k, k, k, x, k);
    for (int k = 0; k < AT_ONCE; k++)
        sb_printf(b, "    %%w%d: %s[] = map convert %%v%d {dtype=%s}\n    %%t%d: index = imul %%q%d, %%apart\n    %%p%d: index = iadd %%t%d, %%lane\n"
                     "    store %%a[%%p%d], %%w%d {drop=1}\n",
                  k, a, k, a, k, k, k, k, k, k);
    sb_puts(b, "  }\n  barrier\n  %scans: bool[] = ilt %lane, %chunks\n  if %scans {\n    %line: index = imul %lane, %apart\n");
}

/* Chunks that others follow put down what they come to: the last one's is behind the end. */
static const char lines_totals[] =
    "    %mine: index = iadd %first, %lane\n"
    "    store %y[%own, %mine, %none], %last {drop=7}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* Results go back as they came, each after what is before its chunk. */
static void put_chunks_out(StrBuf *b, const char *step, const char *a, const char *y)
{
    sb_puts(b, "  } else {\n  }\n  barrier\n  for %kr = %none to %chunks step %some {\n");
    for (int k = 0; k < AT_ONCE; k++)
        sb_printf(b, "    %%jr%d: index = index {i=%d}\n    %%qr%d: index = iadd %%kr, %%jr%d\n    %%cr%d: index = iadd %%first, %%qr%d\n"
                     "    %%tr%d: index = imul %%qr%d, %%apart\n    %%pr%d: index = iadd %%tr%d, %%lane\n"
                     "    %%z%d: %s[] = load %%a[%%pr%d] {shape=(1) drop=1}\n    %%was%d: index = isub %%cr%d, %%one\n"
                     "    %%before%d: %s[] = load %%b[%%own, %%was%d, %%none] {shape=(1, 1, 1) drop=7}\n",
                  k, k, k, k, k, k, k, k, k, k, k, a, k, k, k, k, a, k);
    for (int k = 0; k < AT_ONCE; k++)
        sb_printf(b, "    %%both%d: %s[] = map %s %%before%d, %%z%d\n    %%follows%d: bool[] = ilt %%none, %%cr%d\n"
                     "    %%sum%d: %s[] = map where %%follows%d, %%both%d, %%z%d\n"
                     "    %%or%d: index = imul %%cr%d, %%lanes\n    %%er%d: index = iadd %%or%d, %%lane\n"
                     "    %%yr%d: %s[] = map convert %%sum%d {dtype=%s}\n    store %%y[%%own, %%er%d, %%none], %%yr%d {drop=7}\n",
                  k, a, step, k, k, k, k, k, a, k, k, k, k, k, k, k, k, y, k, y, k, k);
    sb_puts(b, "  }\n}\n");
}

/*
 * AT_ONCE elements of the lane's chunk from %at on, all loads before the first is added, as put_steps has them; stored where they were unless it is
 * for totals.
 */
static void put_line_steps(StrBuf *b, const char *step, const char *type, const char *at, const char *tag, bool begins, bool totals)
{
    for (int k = 0; k < AT_ONCE; k++) {
        sb_printf(b, "      %%k%s%d: index = index {i=%d}\n      %%i%s%d: index = iadd %%%s, %%k%s%d\n", tag, k, k, tag, k, at, tag, k);
        sb_printf(b, "      %%z%s%d: %s[] = load %%a[%%i%s%d] {shape=(1) drop=1}\n", tag, k, type, tag, k);
    }
    for (int k = 0; k < AT_ONCE; k++) {
        if (begins && !k)
            sb_printf(b, "      %%s%s0: %s[] = map convert %%z%s0 {dtype=%s}\n", tag, type, tag, type);
        else if (k)
            sb_printf(b, "      %%s%s%d: %s[] = map %s %%s%s%d, %%z%s%d\n", tag, k, type, step, tag, k - 1, tag, k);
        else
            sb_printf(b, "      %%s%s0: %s[] = map %s %%carried, %%z%s0\n", tag, type, step, tag);
        if (!totals)
            sb_printf(b, "      store %%a[%%i%s%d], %%s%s%d {drop=1}\n", tag, k, tag, k);
    }
}

/* totals: the first time. */
static FarKernel *lines_kernel(OpId step, DType x, DType a, DType y, bool totals)
{
    const struct { char name[8]; int32_t step, x, a, y, totals; } what = {"lines", (int32_t)step, (int32_t)x, (int32_t)a, (int32_t)y, totals};
    const char *s = op_info[step].name, *xs = dtype_info[x].name, *as = dtype_info[a].name, *ys = dtype_info[totals ? a : y].name;
    uint64_t key = far_key(&what, sizeof what);
    FarKernel *f = far_known(key);
    StrBuf b = {0};

    if (f)
        return f;
    sb_printf(&b, lines_text, xs, as, ys, as, as, AT_ONCE);
    put_chunks_in(&b, xs, as);
    put_line_steps(&b, s, as, "line", "b", true, totals);
    sb_printf(&b, "    %%few: index = index {i=%d}\n    %%next: index = iadd %%line, %%few\n    %%end: index = iadd %%line, %%lanes\n", AT_ONCE);
    sb_printf(&b, "    %%last: %s[] = for %%at = %%next to %%end step %%few carry(%%carried = %%sb%d) {\n", as, AT_ONCE - 1);
    put_line_steps(&b, s, as, "at", "c", false, totals);
    sb_printf(&b, "      yield %%sc%d\n    }\n", AT_ONCE - 1);
    if (totals)
        sb_puts(&b, lines_totals);
    else
        put_chunks_out(&b, s, as, ys);
    f = far_read(key, sb_str(&b));
    sb_done(&b);
    return f;
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

/* What chunks that others follow come to: their last elements, a view. */
static Tensor *totals_of(Tensor *p, const Lines *l)
{
    int64_t last = l->reverse ? l->n - CHUNK : CHUNK - 1, each = l->reverse ? -CHUNK : CHUNK;

    return tensor_view(p, 3, (int64_t[]){l->o, l->c - 1, l->i}, (int64_t[]){l->n * l->i, each * l->i, 1}, p->offset + last * l->i);
}

/* Chunks meet what was before them: their totals are scanned as well. p: the chunks' own results, in the accumulator's dtype. false: it cannot. */
static bool join_chunks(OpId step, DType accum, Tensor *p, Tensor *y, const Lines *l, int device)
{
    FarKernel *join = join_kernel(op_info[step].name, dtype_info[accum].name, dtype_info[y->dtype].name);
    Tensor *totals = join->code ? totals_of(p, l) : NULL, *before = totals ? tensor_new(accum, 3, totals->shape) : NULL;
    TileArg arg[3];
    bool ok = before && far_scan(step, accum, before, totals, 1, false) && line_arg(p, l->n, l, device, false, l->reverse, &arg[0]) &&
              line_arg(before, l->c - 1, l, device, false, false, &arg[1]) && line_arg(y, l->n, l, device, true, l->reverse, &arg[2]) &&
              far_launch(join, device, (int64_t[]){l->o, l->n, l->i}, arg) != 0;

    tensor_unref(totals);
    tensor_unref(before);
    return ok;
}

/* Of lines along the last axis, of many chunks. false: it cannot. */
static bool scan_lines(OpId step, DType accum, Tensor *y, Tensor *x, const Lines *l)
{
    enum { BLOCK = 32 };
    int device = (int)y->store->device;
    int64_t shape[3] = {l->o, l->c - 1, 1}, sizes[3] = {l->o, l->n, (l->c + BLOCK - 1) / BLOCK};
    FarKernel *first = lines_kernel(step, (DType)x->dtype, accum, accum, true);
    FarKernel *last = lines_kernel(step, (DType)x->dtype, accum, (DType)y->dtype, false);
    Tensor *from = first->code && last->code ? tensor_contiguous(x) : NULL, *totals = from ? tensor_new(accum, 3, shape) : NULL;
    Tensor *before = totals ? tensor_new(accum, 3, shape) : NULL;
    TileArg arg[3];
    bool ok = before && line_arg(from, l->n, l, device, false, l->reverse, &arg[0]) && line_arg(totals, l->c - 1, l, device, true, false, &arg[2]);

    if (ok) {
        arg[1] = arg[2];
        ok = far_launch(first, device, sizes, arg) != 0 && far_scan(step, accum, before, totals, 1, false);
    }
    ok = ok && line_arg(from, l->n, l, device, false, l->reverse, &arg[0]) && line_arg(before, l->c - 1, l, device, false, false, &arg[1]) &&
         line_arg(y, l->n, l, device, true, l->reverse, &arg[2]) && far_launch(last, device, sizes, arg) != 0;
    tensor_unref(before);
    tensor_unref(totals);
    tensor_unref(from);
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
    int device = (int)y->store->device;
    Lines l = {.o = 1, .n = x->shape[axis], .i = 1, .reverse = reverse};
    Tensor *from, *p;
    TileArg arg[2];
    FarKernel *runs;
    bool ok;

    for (int k = 0; k < x->rank; k++)
        *(k < axis ? &l.o : k > axis ? &l.i : &l.n) *= k == axis ? 1 : x->shape[k];
    l.c = (l.n + CHUNK - 1) / CHUNK;
    if (!adds_up(accum) || !takes((DType)x->dtype) || !takes((DType)y->dtype))
        return false;
    if (l.i == 1 && l.c >= LONG && scan_lines(step, accum, y, x, &l))
        return true;
    if (l.i == 1 && l.o >= LINES && l.n > 1 && scan_turned(step, accum, y, x, l.o, l.n, reverse))
        return true;
    runs = runs_kernel(step, (DType)x->dtype, accum, l.c > 1 ? accum : (DType)y->dtype, l.o * l.c * l.i < FEW ? ALONE : AT_ONCE);
    if (!runs->code || !(from = tensor_contiguous(x)))
        return false;
    p = l.c == 1 || accum == (DType)y->dtype ? tensor_ref(y) : tensor_new(accum, y->rank, y->shape);
    ok = p != NULL;
    if (ok && line_arg(from, l.n, &l, device, false, reverse, &arg[0]) && line_arg(p, l.n, &l, device, true, reverse, &arg[1]))
        ok = far_launch(runs, device, (int64_t[]){l.o, l.n, l.i, l.c}, arg) != 0 && (l.c == 1 || join_chunks(step, accum, p, y, &l, device));
    tensor_unref(p);
    tensor_unref(from);
    return ok;
}
