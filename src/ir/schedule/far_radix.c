/*
 * Sorting of long rows on a GPU by digits of eight bits, the lowest first, stably: keys are ints whose order is the host's, and go with their places.
 *
 * A pass of a digit is three or four kernels. A group counts the digits of 4,096 keys (`count`); the counts, each digit's of all of a row's groups
 * behind those of the smaller ones, are summed up (`sums`, twice where a row has many groups); then the group puts its keys, and places, where they
 * belong (`put`). There a warp goes over 512 keys, 32 at a time: lanes with equal digits find each other, and the first of them takes their numbers
 * from the warp's count of the digit, so equal digits keep their order. The group's keys go to their own order in shared memory before they are
 * written, so that those of a digit are written side by side. Values are fetched by place in the end, as they were.
 */
#include "ir/schedule/far_impl.h"

#include "base/strbuf.h"
#include "runtime/convert.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

enum { LANES = 256, SPAN = 4096, DIGITS = 256, WARP = 32, PUT = SPAN / LANES, AT_ONCE = 1056 };  /* AT_ONCE: groups that a chip has room for */

/* ---- keys ---- */

#define KEYS_BEGIN \
    "tessera.tile v1\n" \
    "kernel @sort_keys(%%x: view %s[1], %%key: view %s[1], %%place: view int32[1]) sizes(r, n) grid(cdiv(r*n, 256)) lanes=256 {\n" \
    "  %%rows: index = size {name=\"r\"}\n" \
    "  %%n: index = size {name=\"n\"}\n" \
    FAR_LANE \
    "  %%all: index = imul %%rows, %%n\n" \
    "  %%here: bool[] = ilt %%q, %%all\n" \
    "  if %%here {\n" \
    "    %%v: %s[] = load %%x[%%q] {shape=(1) drop=1}\n" \
    "    %%b: %s[] = map convert %%v {dtype=%s}\n" \
    "    %%sign: %s[] = const {dtype=%s i=%lld}\n" \
    "    %%turn: %s[] = const {dtype=%s i=%lld}\n"
#define KEYS_END \
    "    store %%key[%%q], %%k {drop=1}\n" \
    "    %%i: index = imod %%q, %%n\n" \
    "    %%place1: int32[] = to_tile %%i {dtype=int32}\n" \
    "    store %%place[%%q], %%place1 {drop=1}\n" \
    "  } else {\n" \
    "  }\n" \
    "}\n"

static const char ints_text[] =
    KEYS_BEGIN
    "    %%up: %s[] = map bitxor %%b, %%sign\n"
    "    %%k: %s[] = map bitxor %%up, %%turn\n"
    KEYS_END;

/* Zeros are one, and NaNs the last one, whichever way it goes. */
static const char floats_text[] =
    KEYS_BEGIN
    "    %%most: %s[] = const {dtype=%s i=%lld}\n"
    "    %%inf: %s[] = const {dtype=%s i=%lld}\n"
    "    %%none: %s[] = const {dtype=%s}\n"
    "    %%minus: bool[] = map eq %%b, %%sign\n"
    "    %%c: %s[] = map where %%minus, %%none, %%b\n"
    "    %%rest: %s[] = map bitxor %%most, %%sign\n"
    "    %%size: %s[] = map bitand %%c, %%rest\n"
    "    %%nan: bool[] = map gt %%size, %%inf\n"
    "    %%s: %s[] = map bitand %%c, %%sign\n"
    "    %%below: bool[] = map ne %%s, %%none\n"
    "    %%down: %s[] = map bitxor %%c, %%most\n"
    "    %%above: %s[] = map bitor %%c, %%sign\n"
    "    %%up: %s[] = map where %%below, %%down, %%above\n"
    "    %%k0: %s[] = map bitxor %%up, %%turn\n"
    "    %%k: %s[] = map where %%nan, %%most, %%k0\n"
    KEYS_END;

/* ---- a digit ---- */

#define DIGIT_BEGIN \
    "  %%n: index = size {name=\"n\"}\n" \
    "  %%shift: index = size {name=\"shift\"}\n" \
    "  %%blocks: index = size {name=\"blocks\"}\n" \
    "  %%lane: index = lane\n" \
    "  %%g: index = group {axis=0}\n" \
    "  %%row: index = idiv %%g, %%blocks\n" \
    "  %%own: index = imod %%g, %%blocks\n" \
    "  %%span: index = index {i=4096}\n" \
    "  %%lanes: index = index {i=256}\n" \
    "  %%first: index = imul %%own, %%span\n" \
    "  %%line: index = imul %%row, %%n\n" \
    "  %%none: index = index {i=0}\n" \
    "  %%one: index = index {i=1}\n" \
    "  %%rounds: index = index {i=16}\n" \
    "  %%zero: int32[] = const {dtype=int32}\n" \
    "  %%by: %s[] = to_tile %%shift {dtype=%s}\n" \
    "  %%mask: %s[] = const {dtype=%s i=255}\n"
/* Of the key at %e the digit, %d; the names end with `of`. */
#define DIGIT(of) \
    "      %%far" of ": index = iadd %%line, %%e" of "\n" \
    "      %%x" of ": %s[] = load %%key[%%far" of "] {shape=(1) drop=1}\n" \
    "      %%y" of ": %s[] = map shr %%x" of ", %%by\n" \
    "      %%z" of ": %s[] = map bitand %%y" of ", %%mask\n" \
    "      %%d" of ": index = to_index %%z" of "\n"
/* The counters of this lane's digit in this group. */
#define COUNTER \
    "  %%c0: index = imul %%row, %%lanes\n" \
    "  %%c1: index = iadd %%c0, %%lane\n" \
    "  %%c2: index = imul %%c1, %%blocks\n" \
    "  %%counter: index = iadd %%c2, %%own\n"

static const char count_text[] =
    "tessera.tile v1\n"
    "kernel @sort_count(%%key: view %s[1], %%counts: view int32[1]) sizes(r, n, blocks, shift) grid(r*blocks) lanes=256 {\n"
    DIGIT_BEGIN
    "  %%hist: view int32[1] shared = alloc %%lanes {name=\"hist\" dtype=int32 space=shared swizzle=rows}\n"
    "  store %%hist[%%lane], %%zero {drop=1}\n"
    "  barrier\n"
    "  %%unit: int32[] = const {dtype=int32 i=1}\n"
    "  for %%k = %%none to %%rounds step %%one {\n"
    "    %%ec0: index = imul %%k, %%lanes\n"
    "    %%ec1: index = iadd %%ec0, %%lane\n"
    "    %%ec: index = iadd %%ec1, %%first\n"
    "    %%here: bool[] = ilt %%ec, %%n\n"
    "    if %%here {\n"
    DIGIT("c")
    "      atomic sum %%hist[%%dc], %%unit {drop=1}\n"
    "    } else {\n"
    "    }\n"
    "  }\n"
    "  barrier\n"
    COUNTER
    "  %%sum: int32[] = load %%hist[%%lane] {shape=(1) drop=1}\n"
    "  store %%counts[%%counter], %%sum {drop=1}\n"
    "}\n";

/* Of each run of `each` numbers what is before each of them, and what all come to. */
static const char sums_text[] =
    "tessera.tile v1\n"
    "kernel @sort_sums(%%counts: view int32[1], %%before: view int32[1], %%totals: view int32[1]) sizes(runs, each) grid(runs) lanes=256 {\n"
    "  %%each: index = size {name=\"each\"}\n"
    "  %%lane: index = lane\n"
    "  %%g: index = group {axis=0}\n"
    "  %%lanes: index = index {i=256}\n"
    "  %%a: view int32[1] shared = alloc %%lanes {name=\"a\" dtype=int32 space=shared swizzle=rows}\n"
    "  %%base: index = imul %%g, %%each\n"
    "  %%zero: int32[] = const {dtype=int32}\n"
    "  %%none: index = index {i=0}\n"
    "  %%one: index = index {i=1}\n"
    "  %%eight: index = index {i=8}\n"
    "  %%last: index = index {i=255}\n"
    "  %%unit: int64[] = const {dtype=int64 i=1}\n"
    "  %%all: int32[] = for %%c = %%none to %%each step %%lanes carry(%%run = %%zero) {\n"
    "    %%i: index = iadd %%c, %%lane\n"
    "    %%here: bool[] = ilt %%i, %%each\n"
    "    %%at: index = iadd %%base, %%i\n"
    "    %%own: int32[] = if %%here {\n"
    "      %%x: int32[] = load %%counts[%%at] {shape=(1) drop=1}\n"
    "      yield %%x\n"
    "    } else {\n"
    "      yield %%zero\n"
    "    }\n"
    "    store %%a[%%lane], %%own {drop=1}\n"
    "    barrier\n"
    "    for %%k = %%none to %%eight step %%one {\n"
    "      %%k1: int64[] = to_tile %%k {dtype=int64}\n"
    "      %%far: int64[] = map shl %%unit, %%k1\n"
    "      %%d: index = to_index %%far\n"
    "      %%edge: bool[] = ilt %%lane, %%d\n"
    "      %%other: int32[] = if %%edge {\n"
    "        yield %%zero\n"
    "      } else {\n"
    "        %%j: index = isub %%lane, %%d\n"
    "        %%y: int32[] = load %%a[%%j] {shape=(1) drop=1}\n"
    "        yield %%y\n"
    "      }\n"
    "      barrier\n"
    "      %%mine: int32[] = load %%a[%%lane] {shape=(1) drop=1}\n"
    "      %%both: int32[] = map add %%mine, %%other\n"
    "      store %%a[%%lane], %%both {drop=1}\n"
    "      barrier\n"
    "    }\n"
    "    if %%here {\n"
    "      %%upto: int32[] = load %%a[%%lane] {shape=(1) drop=1}\n"
    "      %%z: int32[] = map sub %%upto, %%own\n"
    "      %%z1: int32[] = map add %%z, %%run\n"
    "      store %%before[%%at], %%z1 {drop=1}\n"
    "    } else {\n"
    "    }\n"
    "    %%chunk: int32[] = load %%a[%%last] {shape=(1) drop=1}\n"
    "    %%next: int32[] = map add %%run, %%chunk\n"
    "    barrier\n"
    "    yield %%next\n"
    "  }\n"
    "  %%leads: bool[] = ieq %%lane, %%none\n"
    "  if %%leads {\n"
    "    store %%totals[%%g], %%all {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* The number of bits of x, by the formula that code generators know; names end with the key's number. */
#define BITS(to, x) \
    "  %%" to "1_$: uint32[] = map shr %%" x "_$, %%u1\n" \
    "  %%" to "2_$: uint32[] = map bitand %%" to "1_$, %%u5\n" \
    "  %%" to "3_$: uint32[] = map sub %%" x "_$, %%" to "2_$\n" \
    "  %%" to "4_$: uint32[] = map shr %%" to "3_$, %%u2\n" \
    "  %%" to "5_$: uint32[] = map bitand %%" to "4_$, %%u3\n" \
    "  %%" to "6_$: uint32[] = map bitand %%" to "3_$, %%u3\n" \
    "  %%" to "7_$: uint32[] = map add %%" to "5_$, %%" to "6_$\n" \
    "  %%" to "8_$: uint32[] = map shr %%" to "7_$, %%u4\n" \
    "  %%" to "9_$: uint32[] = map add %%" to "7_$, %%" to "8_$\n" \
    "  %%" to "a_$: uint32[] = map bitand %%" to "9_$, %%uf\n" \
    "  %%" to "b_$: uint32[] = map mul %%" to "a_$, %%u01\n" \
    "  %%" to "_$: uint32[] = map shr %%" to "b_$, %%u24\n"

static const char put_text[] =
    "tessera.tile v1\n"
    "kernel @sort_put(%%key: view %s[1], %%place: view int32[1], %%before: view int32[1], %%base: view int32[1], %%tokey: view %s[1], "
    "%%toplace: view int32[1]) sizes(r, n, blocks, shift, twice) grid(r*blocks) lanes=256 {\n"
    DIGIT_BEGIN
    "  %%u1: uint32[] = const {dtype=uint32 i=1}\n"
    "  %%u2: uint32[] = const {dtype=uint32 i=2}\n"
    "  %%u4: uint32[] = const {dtype=uint32 i=4}\n"
    "  %%u24: uint32[] = const {dtype=uint32 i=24}\n"
    "  %%u5: uint32[] = const {dtype=uint32 i=1431655765}\n"
    "  %%u3: uint32[] = const {dtype=uint32 i=858993459}\n"
    "  %%uf: uint32[] = const {dtype=uint32 i=252645135}\n"
    "  %%u01: uint32[] = const {dtype=uint32 i=16843009}\n"
    "  %%u0: uint32[] = const {dtype=uint32}\n"
    "  %%warp: index = index {i=32}\n"
    "  %%warps: index = index {i=8}\n"
    "  %%stride: index = index {i=257}\n"
    "  %%room: index = index {i=2056}\n"
    "  %%each: index = index {i=512}\n"
    "  %%hist: view int32[1] shared = alloc %%room {name=\"hist\" dtype=int32 space=shared swizzle=rows}\n"
    "  %%keys: view %s[1] shared = alloc %%span {name=\"keys\" dtype=%s space=shared swizzle=rows}\n"
    "  %%places: view int32[1] shared = alloc %%span {name=\"places\" dtype=int32 space=shared swizzle=rows}\n"
    "  %%l: index = imod %%lane, %%warp\n"
    "  %%w: index = idiv %%lane, %%warp\n"
    "  %%whist: index = imul %%w, %%stride\n"
    "  for %%kf = %%none to %%warps step %%one {\n"
    "    %%hf0: index = imul %%kf, %%stride\n"
    "    %%hf1: index = iadd %%hf0, %%lane\n"
    "    store %%hist[%%hf1], %%zero {drop=1}\n"
    "  }\n"
    "  %%few: bool[] = ilt %%lane, %%warps\n"
    "  if %%few {\n"
    "    %%h2: index = imul %%lane, %%stride\n"
    "    %%h3: index = iadd %%h2, %%lanes\n"
    "    store %%hist[%%h3], %%zero {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "  barrier\n";

/* Which keys the lane has: PUT of them, 32 apart, whose names end with their numbers. They and their places are all under way before any is used. */
static const char put_first[] =
    "  %%lu: uint32[] = to_tile %%l {dtype=uint32}\n"
    "  %%lu1: uint32[] = map shl %%u1, %%lu\n"
    "  %%under: uint32[] = map sub %%lu1, %%u1\n"
    "  %%we: index = imul %%w, %%each\n"
    "  %%f0: index = iadd %%first, %%we\n"
    "  %%from: index = iadd %%f0, %%l\n"
    "  %%nobody: int64[] = const {dtype=int64 i=256}\n";

static const char put_load[] =
    "  %%k_$: index = index {i=#}\n"
    "  %%e_$: index = iadd %%k_$, %%from\n"
    "  %%here_$: bool[] = ilt %%e_$, %%n\n"
    "  %%far_$: index = iadd %%line, %%e_$\n"
    "  %%x_$: @[] = load %%key[%%far_$] {shape=(1) drop=1}\n"
    "  %%where_$: int32[] = load %%place[%%far_$] {shape=(1) drop=1}\n";

/* Its rank among the keys of its digit in this warp; behind the row's end there is a digit that is none. */
static const char put_rank[] =
    "  %%y_$: @[] = map shr %%x_$, %%by\n"
    "  %%z_$: @[] = map bitand %%y_$, %%mask\n"
    "  %%d0_$: index = to_index %%z_$\n"
    "  %%d1_$: int64[] = to_tile %%d0_$ {dtype=int64}\n"
    "  %%d2_$: int64[] = map where %%here_$, %%d1_$, %%nobody\n"
    "  %%digit_$: index = to_index %%d2_$\n"
    "  %%m0_$: index = match %%digit_$ {i=32}\n"
    "  %%m_$: uint32[] = to_tile %%m0_$ {dtype=uint32}\n"
    "  %%lower_$: uint32[] = map bitand %%m_$, %%under\n"
    "  %%lead_$: bool[] = map eq %%lower_$, %%u0\n"
    BITS("p", "lower")
    BITS("a", "m")
    "  %%neg_$: uint32[] = map sub %%u0, %%m_$\n"
    "  %%low_$: uint32[] = map bitand %%m_$, %%neg_$\n"
    "  %%tail_$: uint32[] = map sub %%low_$, %%u1\n"
    BITS("t", "tail")
    "  %%slot_$: index = iadd %%whist, %%digit_$\n"
    "  %%old_$: int32[] = if %%lead_$ {\n"
    "    %%add_$: int32[] = map convert %%a_$ {dtype=int32}\n"
    "    %%was_$: int32[] = update sum %%hist[%%slot_$], %%add_$ {drop=1}\n"
    "    yield %%was_$\n"
    "  } else {\n"
    "    yield %%zero\n"
    "  }\n"
    "  %%leader_$: index = to_index %%t_$\n"
    "  %%start_$: int32[] = shuffle %%old_$, %%leader_$ {i=32}\n"
    "  %%pi_$: int32[] = map convert %%p_$ {dtype=int32}\n"
    "  %%rank_$: int32[] = map add %%start_$, %%pi_$\n";

static const char put_place[] =
    "  if %%here_$ {\n"
    "    %%ap0_$: int32[] = load %%hist[%%slot_$] {shape=(1) drop=1}\n"
    "    %%ap1_$: int32[] = map add %%ap0_$, %%rank_$\n"
    "    %%to_$: index = to_index %%ap1_$\n"
    "    store %%keys[%%to_$], %%x_$ {drop=1}\n"
    "    store %%places[%%to_$], %%where_$ {drop=1}\n"
    "  } else {\n"
    "  }\n";

/*
 * Where each digit's keys begin: in the group's own order of them (%local), and in the row's, less that (%away); then warp after warp.  Keys and
 * places go to that order first, in shared memory, so that neighbours go to neighbours from there.
 */
static const char put_begin[] =
    "  barrier\n"
    "  %%total: int32[] = for %%kt = %%none to %%warps step %%one carry(%%sum = %%zero) {\n"
    "    %%ht0: index = imul %%kt, %%stride\n"
    "    %%ht1: index = iadd %%ht0, %%lane\n"
    "    %%ct: int32[] = load %%hist[%%ht1] {shape=(1) drop=1}\n"
    "    %%nextt: int32[] = map add %%sum, %%ct\n"
    "    yield %%nextt\n"
    "  }\n"
    "  %%five: index = index {i=5}\n"
    "  %%upto: int32[] = for %%kd = %%none to %%five step %%one carry(%%have = %%total) {\n"
    "    %%kdu: uint32[] = to_tile %%kd {dtype=uint32}\n"
    "    %%dist: uint32[] = map shl %%u1, %%kdu\n"
    "    %%dd: index = to_index %%dist\n"
    "    %%src: index = isub %%l, %%dd\n"
    "    %%they: int32[] = shuffle %%have, %%src {i=32}\n"
    "    %%edge: bool[] = ilt %%l, %%dd\n"
    "    %%their: int32[] = map where %%edge, %%zero, %%they\n"
    "    %%more: int32[] = map add %%have, %%their\n"
    "    yield %%more\n"
    "  }\n"
    "  %%tails: view int32[1] shared = alloc %%warps {name=\"tails\" dtype=int32 space=shared swizzle=rows}\n"
    "  %%lastl: index = index {i=31}\n"
    "  %%ends: bool[] = ieq %%l, %%lastl\n"
    "  if %%ends {\n"
    "    store %%tails[%%w], %%upto {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "  barrier\n"
    "  %%others: int32[] = for %%ko = %%none to %%w step %%one carry(%%osum = %%zero) {\n"
    "    %%ot: int32[] = load %%tails[%%ko] {shape=(1) drop=1}\n"
    "    %%onext: int32[] = map add %%osum, %%ot\n"
    "    yield %%onext\n"
    "  }\n"
    "  %%own0: int32[] = map sub %%upto, %%total\n"
    "  %%local: int32[] = map add %%own0, %%others\n"
    COUNTER
    "  %%begin0: int32[] = load %%before[%%counter] {shape=(1) drop=1}\n"
    "  %%twice: index = size {name=\"twice\"}\n"
    "  %%again: bool[] = ilt %%none, %%twice\n"
    "  %%begin: int32[] = if %%again {\n"
    "    %%b1: int32[] = load %%base[%%c1] {shape=(1) drop=1}\n"
    "    %%b2: int32[] = map add %%begin0, %%b1\n"
    "    yield %%b2\n"
    "  } else {\n"
    "    yield %%begin0\n"
    "  }\n"
    "  %%aways: view int32[1] shared = alloc %%lanes {name=\"aways\" dtype=int32 space=shared swizzle=rows}\n"
    "  %%away: int32[] = map sub %%begin, %%local\n"
    "  store %%aways[%%lane], %%away {drop=1}\n"
    "  %%end: int32[] = for %%ks = %%none to %%warps step %%one carry(%%run = %%local) {\n"
    "    %%hs0: index = imul %%ks, %%stride\n"
    "    %%hs1: index = iadd %%hs0, %%lane\n"
    "    %%c: int32[] = load %%hist[%%hs1] {shape=(1) drop=1}\n"
    "    store %%hist[%%hs1], %%run {drop=1}\n"
    "    %%next: int32[] = map add %%run, %%c\n"
    "    yield %%next\n"
    "  }\n"
    "  barrier\n";

static const char put_rest[] =
    "  barrier\n"
    "  %%left: index = isub %%n, %%first\n"
    "  %%have1: index = imin %%left, %%span\n"
    "  for %%i = %%lane to %%have1 step %%lanes {\n"
    "    %%xs: @[] = load %%keys[%%i] {shape=(1) drop=1}\n"
    "    %%ps: int32[] = load %%places[%%i] {shape=(1) drop=1}\n"
    "    %%ys: @[] = map shr %%xs, %%by\n"
    "    %%zs: @[] = map bitand %%ys, %%mask\n"
    "    %%ds: index = to_index %%zs\n"
    "    %%as0: int32[] = load %%aways[%%ds] {shape=(1) drop=1}\n"
    "    %%as1: index = to_index %%as0\n"
    "    %%as2: index = iadd %%as1, %%i\n"
    "    %%as: index = iadd %%as2, %%line\n"
    "    store %%tokey[%%as], %%xs {drop=1}\n"
    "    store %%toplace[%%as], %%ps {drop=1}\n"
    "  }\n"
    "}\n";

static const char fetch_text[] =
    "tessera.tile v1\n"
    "kernel @sort_fetch(%%x: view %s[1], %%place: view int32[1], %%y: view %s[1]) sizes(r, n) grid(cdiv(r*n, 256)) lanes=256 {\n"
    "  %%rows: index = size {name=\"r\"}\n"
    "  %%n: index = size {name=\"n\"}\n"
    FAR_LANE
    "  %%all: index = imul %%rows, %%n\n"
    "  %%here: bool[] = ilt %%q, %%all\n"
    "  if %%here {\n"
    "    %%p: int32[] = load %%place[%%q] {shape=(1) drop=1}\n"
    "    %%i: index = to_index %%p\n"
    "    %%own: index = imod %%q, %%n\n"
    "    %%line: index = isub %%q, %%own\n"
    "    %%at: index = iadd %%line, %%i\n"
    "    %%v: %s[] = load %%x[%%at] {shape=(1) drop=1}\n"
    "    store %%y[%%q], %%v {drop=1}\n"
    "  } else {\n"
    "  }\n"
    "}\n";

/* ---- which keys ---- */

/* How elements become keys: the ints that they are read as, and that keys are; bits with the sign, all of a key's, and of infinity (floats). */
typedef struct Keys { DType raw, key; long long sign, most, inf; } Keys;

static bool keys_of(DType dt, Keys *k)
{
    int bits = dtype_info[dt].sbits;
    bool floats = dtype_is_float(dt), is_signed = dt == DT_int8 || dt == DT_int16 || dt == DT_int32 || dt == DT_int64;

    if (is_packed(dt) || dtype_is_complex(dt) || bits < 8 || dt == DT_uint64)
        return false;
    if (floats && dt != DT_f32 && dt != DT_f64 && dt != DT_bf16 && dt != DT_f16)
        return false;
    *k = (Keys){.raw = bits == 8 ? DT_uint8 : bits == 16 ? DT_uint16 : bits == 32 ? DT_uint32 : DT_int64, .key = bits == 64 ? DT_int64 : DT_uint32};
    k->most = bits == 64 ? -1 : (1LL << bits) - 1;
    k->sign = floats || is_signed ? (long long)(1ULL << (bits - 1)) : 0;
    k->inf = dt == DT_f32 ? 0x7f800000 : dt == DT_bf16 ? 0x7f80 : dt == DT_f16 ? 0x7c00 : floats ? 0x7ff0000000000000 : 0;
    return true;
}

static FarKernel *keys_kernel(const Keys *k, bool descending)
{
    const char *u = dtype_info[k->raw].name, *t = dtype_info[k->key].name;
    long long turn = descending ? k->most : 0;

    if (!k->inf)
        return far_kernel_of(ints_text, u, t, u, t, t, t, t, k->sign, t, t, turn, t, t);
    return far_kernel_of(floats_text, u, t, u, t, t, t, t, k->sign, t, t, turn, t, t, k->most, t, t, k->inf, t, t, t, t, t, t, t, t, t, t, t);
}

/* A text of put_kernel for keys of a type: @ is the type, $ the key's number, # how far it is from the first one; %% as in formats. */
static void put_words(StrBuf *b, const char *text, const char *type, int number)
{
    for (const char *c = text; *c; c++) {
        if (*c == '@')
            sb_puts(b, type);
        else if (*c == '$' || *c == '#')
            sb_printf(b, "%d", *c == '#' ? WARP * number : number);
        else if (*c != '%' || c[1] != '%')
            sb_putc(b, *c);
    }
}

static FarKernel *put_kernel(DType dt)
{
    const struct { char name[8]; int32_t dtype; } what = {"put", (int32_t)dt};
    const char *t = dtype_info[dt].name;
    uint64_t key = far_key(&what, sizeof what);
    StrBuf b = {0};
    FarKernel *f = far_known(key);

    if (f)
        return f;
    sb_printf(&b, put_text, t, t, t, t, t, t, t, t);
    put_words(&b, put_first, t, 0);
    for (int k = 0; k < PUT; k++)
        put_words(&b, put_load, t, k);
    for (int k = 0; k < PUT; k++)
        put_words(&b, put_rank, t, k);
    put_words(&b, put_begin, t, 0);
    for (int k = 0; k < PUT; k++)
        put_words(&b, put_place, t, k);
    put_words(&b, put_rest, t, 0);
    f = far_read(key, sb_str(&b));
    sb_done(&b);
    return f;
}

/* ---- a sort ---- */

typedef struct Radix {
    int device;
    int64_t r, n, blocks;
    bool twice;                         /* counts are summed up in two steps */
    DType key;
    Tensor *keys[2], *places[2], *counts, *before, *totals, *base;
} Radix;

static bool flat_arg(Tensor *t, DType dt, int64_t n, int device, bool write, TileArg *arg)
{
    char *base = far_address(t, device, write, false);

    *arg = (TileArg){.base = base, .extent = {n}, .stride = {1}};
    if (base)
        arg->base = base + t->offset * (dtype_info[dt].sbits / 8);
    return base;
}

static bool new_flat(Tensor **t, DType dt, int64_t n) { return (*t = tensor_new(dt, 1, (int64_t[]){n})) != NULL; }

static bool radix_new(Radix *s)
{
    int64_t all = s->r * s->n, counters = s->r * DIGITS * s->blocks;

    for (int i = 0; i < 2; i++)
        if (!new_flat(&s->keys[i], s->key, all) || (!s->places[i] && !new_flat(&s->places[i], DT_int32, all)))
            return false;
    return new_flat(&s->counts, DT_int32, counters) && new_flat(&s->before, DT_int32, counters) && new_flat(&s->totals, DT_int32, s->r * DIGITS) &&
           new_flat(&s->base, DT_int32, s->r * DIGITS);
}

static void radix_done(Radix *s)
{
    Tensor *own[] = {s->keys[0], s->keys[1], s->places[0], s->places[1], s->counts, s->before, s->totals, s->base};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        tensor_unref(own[i]);
}

/* Kernels' results here and below: 1; 0: it cannot; -1: a fault. */
static int sum_up(const Radix *s, FarKernel *f, Tensor *from, Tensor *before, Tensor *totals, int64_t runs, int64_t each)
{
    TileArg arg[3];

    if (!flat_arg(from, DT_int32, runs * each, s->device, false, &arg[0]) || !flat_arg(before, DT_int32, runs * each, s->device, true, &arg[1]) ||
        !flat_arg(totals, DT_int32, runs, s->device, true, &arg[2]))
        return -1;
    return far_launch(f, s->device, (int64_t[]){runs, each}, arg);
}

static int sum_counts(const Radix *s, FarKernel *f)
{
    int done;

    if (!s->twice)
        return sum_up(s, f, s->counts, s->before, s->totals, s->r, DIGITS * s->blocks);
    done = sum_up(s, f, s->counts, s->before, s->totals, s->r * DIGITS, s->blocks);
    return done > 0 ? sum_up(s, f, s->totals, s->base, s->totals, s->r, DIGITS) : done;
}

static int pass(const Radix *s, FarKernel *const *f, int now, int64_t shift)
{
    int64_t all = s->r * s->n, counters = s->r * DIGITS * s->blocks;
    TileArg c[2], p[6];
    int done;

    if (!flat_arg(s->keys[now], s->key, all, s->device, false, &c[0]) || !flat_arg(s->counts, DT_int32, counters, s->device, true, &c[1]))
        return -1;
    done = far_launch(f[0], s->device, (int64_t[]){s->r, s->n, s->blocks, shift}, c);
    done = done > 0 ? sum_counts(s, f[1]) : done;
    if (done <= 0)
        return done;
    if (!flat_arg(s->keys[now], s->key, all, s->device, false, &p[0]) || !flat_arg(s->places[now], DT_int32, all, s->device, false, &p[1]) ||
        !flat_arg(s->before, DT_int32, counters, s->device, false, &p[2]) || !flat_arg(s->base, DT_int32, s->r * DIGITS, s->device, false, &p[3]) ||
        !flat_arg(s->keys[!now], s->key, all, s->device, true, &p[4]) || !flat_arg(s->places[!now], DT_int32, all, s->device, true, &p[5]))
        return -1;
    return far_launch(f[2], s->device, (int64_t[]){s->r, s->n, s->blocks, shift, s->twice}, p);
}

static int begin(FarKernel *f, Tensor *x, DType raw, Tensor *key, Tensor *place, int64_t r, int64_t n, int device)
{
    TileArg arg[3];

    if (!flat_arg(x, raw, r * n, device, false, &arg[0]) || !flat_arg(key, (DType)key->dtype, r * n, device, true, &arg[1]) ||
        !flat_arg(place, DT_int32, r * n, device, true, &arg[2]))
        return -1;
    return far_launch(f, device, (int64_t[]){r, n}, arg);
}

/* What was sorted, as it was: of the same bits, read as ints. */
static int fetch(FarKernel *f, Tensor *x, Tensor *place, Tensor *y, DType raw, int64_t r, int64_t n, int device)
{
    TileArg arg[3];

    if (!flat_arg(x, raw, r * n, device, false, &arg[0]) || !flat_arg(place, DT_int32, r * n, device, false, &arg[1]) ||
        !flat_arg(y, raw, r * n, device, true, &arg[2]))
        return -1;
    return far_launch(f, device, (int64_t[]){r, n}, arg);
}

static FarKernel *fetch_kernel(DType raw) { return far_kernel_of(fetch_text, dtype_info[raw].name, dtype_info[raw].name, dtype_info[raw].name); }

int far_fetch(Tensor *x, Tensor *place, Tensor *y, int64_t r, int64_t n, int device)
{
    FarKernel *f = fetch_kernel(DT_int32);

    return f->code ? fetch(f, x, place, y, DT_int32, r, n, device) : 0;
}

int far_sums(Tensor *from, Tensor *before, Tensor *totals, int64_t runs, int64_t each, int device)
{
    FarKernel *f = far_kernel_of(sums_text);

    return f->code ? sum_up(&(Radix){.device = device}, f, from, before, totals, runs, each) : 0;
}

Tensor *far_keys(Tensor *x, int64_t r, int64_t n, bool descending)
{
    int64_t all = r * n;
    Tensor *key = NULL, *place = NULL;
    FarKernel *f;
    bool done;
    Keys k;

    if (!keys_of((DType)x->dtype, &k) || k.key != DT_uint32 || !(f = keys_kernel(&k, descending))->code)
        return NULL;
    done = new_flat(&key, k.key, all) && new_flat(&place, DT_int32, all) && begin(f, x, k.raw, key, place, r, n, (int)x->store->device);
    tensor_unref(place);
    if (done)
        return key;
    tensor_unref(key);
    return NULL;
}

int far_radix(Tensor *x, int64_t r, int64_t n, bool descending, Tensor *value, Tensor *place)
{
    Radix s = {.device = (int)x->store->device, .r = r, .n = n, .blocks = (n + SPAN - 1) / SPAN};
    FarKernel *f[3], *first, *last;
    int done, now = 0, bytes;
    Keys k;
    const char *t;

    if (!keys_of((DType)x->dtype, &k) || r * n > INT32_MAX || r * DIGITS * s.blocks > INT32_MAX)
        return 0;
    s.key = k.key;
    s.twice = s.blocks * ((r + AT_ONCE - 1) / AT_ONCE) > (s.blocks + LANES - 1) / LANES * ((r * DIGITS + AT_ONCE - 1) / AT_ONCE);
    t = dtype_info[k.key].name;
    first = keys_kernel(&k, descending);
    f[0] = far_kernel_of(count_text, t, t, t, t, t, t, t, t);
    f[1] = far_kernel_of(sums_text);
    f[2] = put_kernel(k.key);
    last = fetch_kernel(k.raw);
    if (!first->code || !f[0]->code || !f[1]->code || !f[2]->code || !last->code)
        return 0;
    bytes = dtype_info[x->dtype].sbits / 8;
    s.places[bytes & 1] = tensor_ref(place);            /* those of the last pass */
    done = radix_new(&s) ? begin(first, x, k.raw, s.keys[0], s.places[0], r, n, s.device) : 0;
    for (int i = 0; done > 0 && i < bytes; i++, now = !now)
        done = pass(&s, f, now, 8 * i);
    if (done > 0)
        done = fetch(last, x, s.places[now], value, k.raw, r, n, s.device);
    radix_done(&s);
    return done;
}
