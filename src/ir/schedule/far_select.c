/*
 * The first k of long rows in order, on a GPU, without sorting the rows: the key that is number k is found digit by digit, the highest first (radix
 * select).  What is below it, and as many of those equal to it as are left, first come first, are put side by side, and sorted alone.
 *
 * Keys are those of far_radix.c.  A digit takes one reading of the keys: groups count those that begin as the key does, as far as it is known, and
 * one group a row finds in which digit the number lies.
 */
#include "ir/schedule/far_impl.h"

#include "base/strbuf.h"
#include "runtime/kernel_util.h"

enum { SPAN = 4096, DIGITS = 256, EACH = 16, DIGIT_BITS = 8, KEY_BITS = 32 };

/* Lane's key number %k of a group's 4096, coalesced: %e in the row, %far in all. */
#define BLOCK_BEGIN \
    "  %n: index = size {name=\"n\"}\n" \
    "  %blocks: index = size {name=\"blocks\"}\n" \
    "  %lane: index = lane\n" \
    "  %g: index = group {axis=0}\n" \
    "  %row: index = idiv %g, %blocks\n" \
    "  %own: index = imod %g, %blocks\n" \
    "  %span: index = index {i=4096}\n" \
    "  %lanes: index = index {i=256}\n" \
    "  %first: index = imul %own, %span\n" \
    "  %line: index = imul %row, %n\n" \
    "  %none: index = index {i=0}\n" \
    "  %one: index = index {i=1}\n" \
    "  %rounds: index = index {i=16}\n" \
    "  %zero: int32[] = const {dtype=int32}\n" \
    "  %unit: int32[] = const {dtype=int32 i=1}\n"

static const char count_text[] =
    "tessera.tile v1\n"
    "kernel @select_count(%key: view uint32[1], %known: view uint32[1], %counts: view int32[1]) sizes(r, n, blocks, shift) grid(r*blocks) lanes=256 {\n"
    BLOCK_BEGIN
    "  %shift: index = size {name=\"shift\"}\n"
    "  %by: uint32[] = to_tile %shift {dtype=uint32}\n"
    "  %eight: uint32[] = const {dtype=uint32 i=8}\n"
    "  %mask: uint32[] = const {dtype=uint32 i=255}\n"
    "  %begins: uint32[] = load %known[%row] {shape=(1) drop=1}\n"
    "  %hist: view int32[1] shared = alloc %lanes {name=\"hist\" dtype=int32 space=shared swizzle=rows}\n"
    "  store %hist[%lane], %zero {drop=1}\n"
    "  barrier\n"
    "  for %k = %none to %rounds step %one {\n"
    "    %e0: index = imul %k, %lanes\n"
    "    %e1: index = iadd %e0, %lane\n"
    "    %e: index = iadd %e1, %first\n"
    "    %far: index = iadd %line, %e\n"
    "    %x: uint32[] = load %key[%far] {shape=(1) drop=1}\n"
    "    %y: uint32[] = map shr %x, %by\n"
    "    %high: uint32[] = map shr %y, %eight\n"
    "    %same: bool[] = map eq %high, %begins\n"
    "    %inside: bool[] = ilt %e, %n\n"
    "    %counted: bool[] = map bitand %same, %inside\n"
    "    if %counted {\n"
    "      %z: uint32[] = map bitand %y, %mask\n"
    "      %d: index = to_index %z\n"
    "      atomic sum %hist[%d], %unit {drop=1}\n"
    "    } else {\n"
    "    }\n"
    "  }\n"
    "  barrier\n"
    "  %sum: int32[] = load %hist[%lane] {shape=(1) drop=1}\n"
    "  %some: bool[] = map ne %sum, %zero\n"
    "  if %some {\n"
    "    %c0: index = imul %row, %lanes\n"
    "    %c: index = iadd %c0, %lane\n"
    "    atomic sum %counts[%c], %sum {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* What a lane's number comes to with those of the lanes before it: %upto of %have. */
#define UP_TO \
    "  %warp: index = index {i=32}\n" \
    "  %warps: index = index {i=8}\n" \
    "  %l: index = imod %lane, %warp\n" \
    "  %w: index = idiv %lane, %warp\n" \
    "  %five: index = index {i=5}\n" \
    "  %u1: uint32[] = const {dtype=uint32 i=1}\n" \
    "  %within: int32[] = for %kd = %none to %five step %one carry(%sofar = %have) {\n" \
    "    %kdu: uint32[] = to_tile %kd {dtype=uint32}\n" \
    "    %dist: uint32[] = map shl %u1, %kdu\n" \
    "    %dd: index = to_index %dist\n" \
    "    %src: index = isub %l, %dd\n" \
    "    %they: int32[] = shuffle %sofar, %src {i=32}\n" \
    "    %edge: bool[] = ilt %l, %dd\n" \
    "    %their: int32[] = map where %edge, %zero, %they\n" \
    "    %more: int32[] = map add %sofar, %their\n" \
    "    yield %more\n" \
    "  }\n" \
    "  %tails: view int32[1] shared = alloc %warps {name=\"tails\" dtype=int32 space=shared swizzle=rows}\n" \
    "  %lastl: index = index {i=31}\n" \
    "  %ends: bool[] = ieq %l, %lastl\n" \
    "  if %ends {\n" \
    "    store %tails[%w], %within {drop=1}\n" \
    "  } else {\n" \
    "  }\n" \
    "  barrier\n" \
    "  %others: int32[] = for %ko = %none to %w step %one carry(%osum = %zero) {\n" \
    "    %ot: int32[] = load %tails[%ko] {shape=(1) drop=1}\n" \
    "    %onext: int32[] = map add %osum, %ot\n" \
    "    yield %onext\n" \
    "  }\n" \
    "  %upto: int32[] = map add %within, %others\n"

/* The digit in which number %left of those counted lies, and how many it is there: the first one from 1 on. Counts are 0 again. */
static const char digit_text[] =
    "tessera.tile v1\n"
    "kernel @select_digit(%counts: view int32[1], %known: view uint32[1], %left: view int32[1]) sizes(r) grid(r) lanes=256 {\n"
    "  %lane: index = lane\n"
    "  %row: index = group {axis=0}\n"
    "  %none: index = index {i=0}\n"
    "  %one: index = index {i=1}\n"
    "  %lanes: index = index {i=256}\n"
    "  %zero: int32[] = const {dtype=int32}\n"
    "  %eight: uint32[] = const {dtype=uint32 i=8}\n"
    "  %c0: index = imul %row, %lanes\n"
    "  %c: index = iadd %c0, %lane\n"
    "  %have: int32[] = load %counts[%c] {shape=(1) drop=1}\n"
    "  store %counts[%c], %zero {drop=1}\n"
    "  %want: int32[] = load %left[%row] {shape=(1) drop=1}\n"
    "  %was: uint32[] = load %known[%row] {shape=(1) drop=1}\n"
    UP_TO
    "  barrier\n"
    "  %before: int32[] = map sub %upto, %have\n"
    "  %above: bool[] = map lt %before, %want\n"
    "  %upthere: bool[] = map le %want, %upto\n"
    "  %is: bool[] = map bitand %above, %upthere\n"
    "  if %is {\n"
    "    %rest: int32[] = map sub %want, %before\n"
    "    store %left[%row], %rest {drop=1}\n"
    "    %high: uint32[] = map shl %was, %eight\n"
    "    %digit: uint32[] = to_tile %lane {dtype=uint32}\n"
    "    %now: uint32[] = map bitor %high, %digit\n"
    "    store %known[%row], %now {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* Of the lane's 16 keys, side by side, which are below the row's number and which are equal to it: %have counts these in its upper half. */
#define CLASSES \
    BLOCK_BEGIN \
    "  %bound: uint32[] = load %known[%row] {shape=(1) drop=1}\n" \
    "  %big: int32[] = const {dtype=int32 i=65536}\n" \
    "  %own0: index = imul %lane, %rounds\n" \
    "  %from: index = iadd %first, %own0\n" \
    "  %have: int32[] = for %k = %none to %rounds step %one carry(%c = %zero) {\n" \
    "    %e: index = iadd %from, %k\n" \
    "    %far: index = iadd %line, %e\n" \
    "    %x: uint32[] = load %key[%far] {shape=(1) drop=1}\n" \
    "    %inside: bool[] = ilt %e, %n\n" \
    "    %less: bool[] = map lt %x, %bound\n" \
    "    %same: bool[] = map eq %x, %bound\n" \
    "    %a0: int32[] = map where %less, %unit, %zero\n" \
    "    %a1: int32[] = map where %same, %big, %a0\n" \
    "    %a2: int32[] = map where %inside, %a1, %zero\n" \
    "    %next: int32[] = map add %c, %a2\n" \
    "    yield %next\n" \
    "  }\n" \
    "  %sixteen: int32[] = const {dtype=int32 i=16}\n" \
    "  %low: int32[] = const {dtype=int32 i=65535}\n"

static const char classes_text[] =
    "tessera.tile v1\n"
    "kernel @select_classes(%key: view uint32[1], %known: view uint32[1], %counts: view int32[1]) sizes(r, n, blocks) grid(r*blocks) lanes=256 {\n"
    CLASSES
    "  %all: int32[] = lane_reduce sum %have {i=0}\n"
    "  %leads: bool[] = ieq %lane, %none\n"
    "  if %leads {\n"
    "    %two: index = index {i=2}\n"
    "    %r2: index = imul %row, %two\n"
    "    %c0: index = imul %r2, %blocks\n"
    "    %c1: index = iadd %c0, %own\n"
    "    %c2: index = iadd %c1, %blocks\n"
    "    %below: int32[] = map bitand %all, %low\n"
    "    %equal: int32[] = map shr %all, %sixteen\n"
    "    store %counts[%c1], %below {drop=1}\n"
    "    store %counts[%c2], %equal {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

static const char put_head[] =
    "tessera.tile v1\n"
    "kernel @select_put(%key: view uint32[1], %known: view uint32[1], %left: view int32[1], %before: view int32[1], %tokey: view uint32[1], "
    "%toplace: view int32[1]) sizes(r, n, blocks, k) grid(r*blocks) lanes=256 {\n"
    CLASSES
    UP_TO;

static const char put_rest[] =
    "  %mine: int32[] = map sub %upto, %have\n"
    "  %two: index = index {i=2}\n"
    "  %r2: index = imul %row, %two\n"
    "  %c0: index = imul %r2, %blocks\n"
    "  %c1: index = iadd %c0, %own\n"
    "  %c2: index = iadd %c1, %blocks\n"
    "  %ties: int32[] = load %left[%row] {shape=(1) drop=1}\n"
    "  %all: index = size {name=\"k\"}\n"
    "  %all1: int32[] = to_tile %all {dtype=int32}\n"
    "  %belows: int32[] = map sub %all1, %ties\n"
    "  %b0: int32[] = load %before[%c1] {shape=(1) drop=1}\n"
    "  %b1: int32[] = map bitand %mine, %low\n"
    "  %b: int32[] = map add %b0, %b1\n"
    "  %t0: int32[] = load %before[%c2] {shape=(1) drop=1}\n"
    "  %t1: int32[] = map shr %mine, %sixteen\n"
    "  %t2: int32[] = map add %t0, %t1\n"
    "  %t: int32[] = map add %t2, %belows\n"
    "  %out: index = imul %row, %all\n"
    "  %any: bool[] = map ne %have, %zero\n"
    "  if %any {\n"
    "    %endb: int32[], %endt: int32[] = for %kp = %none to %rounds step %one carry(%nb = %b, %nt = %t) {\n"
    "      %ep: index = iadd %from, %kp\n"
    "      %farp: index = iadd %line, %ep\n"
    "      %xp: uint32[] = load %key[%farp] {shape=(1) drop=1}\n"
    "      %insidep: bool[] = ilt %ep, %n\n"
    "      %lessp0: bool[] = map lt %xp, %bound\n"
    "      %samep0: bool[] = map eq %xp, %bound\n"
    "      %lessp: bool[] = map bitand %lessp0, %insidep\n"
    "      %samep: bool[] = map bitand %samep0, %insidep\n"
    "      %room: bool[] = map lt %nt, %all1\n"
    "      %fits: bool[] = map bitand %samep, %room\n"
    "      %goes: bool[] = map bitor %lessp, %fits\n"
    "      if %goes {\n"
    "        %at0: int32[] = map where %lessp, %nb, %nt\n"
    "        %at1: index = to_index %at0\n"
    "        %at: index = iadd %out, %at1\n"
    "        %place: int32[] = to_tile %ep {dtype=int32}\n"
    "        store %tokey[%at], %xp {drop=1}\n"
    "        store %toplace[%at], %place {drop=1}\n"
    "      } else {\n"
    "      }\n"
    "      %ib: int32[] = map where %lessp, %unit, %zero\n"
    "      %it: int32[] = map where %samep, %unit, %zero\n"
    "      %nextb: int32[] = map add %nb, %ib\n"
    "      %nextt: int32[] = map add %nt, %it\n"
    "      yield %nextb, %nextt\n"
    "    }\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* ---- a selection ---- */

typedef struct Select {
    int device;
    int64_t r, n, k, blocks;
    Tensor *key, *known, *left, *counts, *classes, *before, *totals, *first, *place;
} Select;

static bool flat(Tensor *t, int device, bool write, TileArg *arg) { return far_flat(t, device, write, t->offset, arg); }

static FarKernel *put_kernel(void)
{
    static const char what[] = "select_put";
    uint64_t key = far_key(what, sizeof what);
    FarKernel *f = far_known(key);
    StrBuf text = {0};

    if (f)
        return f;
    sb_puts(&text, put_head);
    sb_puts(&text, put_rest);
    f = far_read(key, sb_str(&text));
    sb_done(&text);
    return f;
}

/* As far_launch's, of these tensors, the first ones of which are read. */
static int run(const Select *s, const FarKernel *f, Tensor *const *t, int n, int reads, const int64_t *sizes)
{
    TileArg arg[8];

    if (!f->code)
        return 0;
    for (int i = 0; i < n; i++)
        if (!flat(t[i], s->device, i >= reads, &arg[i]))
            return -1;
    return far_launch(f, s->device, sizes, arg);
}

static bool new_flat(Tensor **t, DType dt, int64_t n) { return (*t = tensor_new(dt, 1, &n)) != NULL; }

static bool begin(Select *s)
{
    int64_t digits = s->r * DIGITS, counters = 2 * s->r * s->blocks, all = s->r * s->k;
    Tensor *k = tensor_scalar_i(DT_int32, s->k), *every;
    Dim rows = s->r;

    s->known = tensor_zeros(DT_uint32, 1, &rows);
    s->counts = tensor_zeros(DT_int32, 1, &digits);
    every = k ? tensor_view(k, 1, &rows, (int64_t[]){0}, 0) : NULL;
    s->left = every ? tensor_new(DT_int32, 1, &rows) : NULL;
    if (s->left)
        tensor_assign(s->left, every);
    tensor_unref(every);
    tensor_unref(k);
    return s->known && s->counts && s->left && new_flat(&s->classes, DT_int32, counters) && new_flat(&s->before, DT_int32, counters) &&
           new_flat(&s->totals, DT_int32, 2 * s->r) && new_flat(&s->first, DT_uint32, all) && new_flat(&s->place, DT_int32, all);
}

static void done_with(Select *s)
{
    Tensor *own[] = {s->key, s->known, s->left, s->counts, s->classes, s->before, s->totals, s->first, s->place};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        tensor_unref(own[i]);
}

static int choose(const Select *s)
{
    int64_t sizes[] = {s->r, s->n, s->blocks, s->k};
    int done = 1;

    for (int64_t shift = KEY_BITS - DIGIT_BITS; done > 0 && shift >= 0; shift -= DIGIT_BITS) {
        done = run(s, far_kernel(count_text), (Tensor *[]){s->key, s->known, s->counts}, 3, 2, (int64_t[]){s->r, s->n, s->blocks, shift});
        done = done > 0 ? run(s, far_kernel(digit_text), (Tensor *[]){s->counts, s->known, s->left}, 3, 0, &s->r) : done;
    }
    done = done > 0 ? run(s, far_kernel(classes_text), (Tensor *[]){s->key, s->known, s->classes}, 3, 2, sizes) : done;
    done = done > 0 ? far_sums(s->classes, s->before, s->totals, 2 * s->r, s->blocks, s->device) : done;
    return done > 0 ? run(s, put_kernel(), (Tensor *[]){s->key, s->known, s->left, s->before, s->first, s->place}, 6, 4, sizes) : done;
}

/* The chosen ones' places, in the order of their keys. */
static Tensor *order(const Select *s, const Tensor *x)
{
    Dim shape[RANK_MAX], flat_shape[2] = {s->r, s->k};
    int64_t step[2] = {s->k, 1};
    Tensor *keys = tensor_view(s->first, 2, flat_shape, step, s->first->offset), *value = NULL, *rank = NULL, *y = NULL;

    for (int i = 0; i < x->rank; i++)
        shape[i] = i == x->rank - 1 ? s->k : x->shape[i];
    if (keys && far_sort_both(keys, false, &value, &rank) && (y = tensor_new(DT_int32, x->rank, shape)) &&
        far_fetch(s->place, rank, y, s->r, s->k, s->device) == 0) {
        tensor_unref(y);
        y = NULL;
    }
    tensor_unref(keys);
    tensor_unref(value);
    tensor_unref(rank);
    return y;
}

Tensor *far_first(Tensor *x, bool descending, int64_t k)
{
    enum { LONG = 4 * SPAN, PART = 4 };
    int64_t n = x->rank ? x->shape[x->rank - 1] : 1;
    Select s = {.device = (int)x->store->device, .r = n ? tensor_size(x) / n : 0, .n = n, .k = k, .blocks = (n + SPAN - 1) / SPAN};
    Tensor *lies, *y = NULL;

    if (n < LONG || k < 1 || k * PART > n || s.r * n > INT32_MAX || !(lies = tensor_contiguous(x)))
        return NULL;
    if ((s.key = far_keys(lies, s.r, n, descending)) && begin(&s) && choose(&s))
        y = order(&s, x);
    tensor_unref(lies);
    done_with(&s);
    return y;
}
