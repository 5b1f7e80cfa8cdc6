/*
 * Launches: an N-axis space as rounds of a two-axis kernel.
 *
 * Axes of one element go.  Neighbours merge when every operand steps from the
 * end of one row to the beginning of the next without a gap, which also holds
 * for operands that have neither axis.  What remains before the last two axes
 * counts rounds.
 */
#include "runtime/launch.h"

#include "base/alloc.h"
#include "runtime/kernels.h"
#include "runtime/past.h"

#include <string.h>

static void drop_axis(LaunchSpace *s, int axis)
{
    size_t after = (size_t)(s->naxes - axis - 1);

    memmove(s->size + axis, s->size + axis + 1, sizeof *s->size * after);
    for (int i = 0; i < s->nargs; i++)
        memmove(s->arg[i].stride + axis, s->arg[i].stride + axis + 1, sizeof *s->size * after);
    for (int i = 0; i < s->ncounters; i++)
        memmove(s->counter[i].stride + axis, s->counter[i].stride + axis + 1, sizeof *s->size * after);
    s->naxes--;
    s->nkept -= axis < s->nkept;
}

static bool goes_on(const LaunchSpace *s, const int64_t *stride, int axis) { return stride[axis] == stride[axis + 1] * s->size[axis + 1]; }

/* Is stepping along `axis` the same as going over the end of the next one, for every operand and counter? *which: for which not, -1: a counter. */
static bool continues(const LaunchSpace *s, int axis, int *which)
{
    for (int i = 0; i < s->nargs; i++)
        if (!goes_on(s, s->arg[i].stride, axis)) {
            *which = i;
            return false;
        }
    *which = -1;
    for (int i = 0; i < s->ncounters; i++)
        if (!goes_on(s, s->counter[i].stride, axis))
            return false;
    return true;
}

/* Make one axis of this one and the next. */
static void merge(LaunchSpace *s, int axis)
{
    s->size[axis + 1] *= s->size[axis];
    drop_axis(s, axis);
}

bool launch_merge(LaunchSpace *s, int *which)
{
    bool reduces = s->nkept < s->naxes;
    int ignored;

    for (int a = s->naxes - 1; a >= 0; a--)
        if (s->size[a] == 1)
            drop_axis(s, a);
    for (int a = s->naxes - 2; a >= s->nkept; a--) {
        if (!continues(s, a, which))
            return false;
        merge(s, a);
    }
    for (int a = s->nkept - 2; a >= 0; a--)
        if (continues(s, a, &ignored))
            merge(s, a);
    if (!reduces && s->nkept == s->naxes && s->naxes)
        s->nkept--;
    return true;
}

/* ---- running ---- */

enum { LAUNCH_WORDS = 4 + 3 * LAUNCH_COUNTERS };

typedef struct Launch {
    const LaunchSpace *s;
    const LaunchKernel *k;
    bool upright;
    int64_t size[LAUNCH_WORDS]; /* n0, n1, what counters need, and the groups along each axis */
    int64_t rounds, groups;     /* groups of one round */
    int64_t parts;              /* among which all groups are divided */
    int64_t bytes;              /* of scratch memory for each part */
    char *scratch;
} Launch;

enum { SMALL = 16384 };         /* elements that one thread does alone */

/* Where the first element of a round is, of whatever steps so along the axes before the last two. */
static int64_t place_of(const int64_t *stride, const int64_t *at, int outer)
{
    int64_t place = 0;

    for (int a = 0; a < outer; a++)
        place += at[a] * stride[a];
    return place;
}

static int inner_axis(const LaunchSpace *s) { return s->naxes > s->nkept ? s->nkept : -1; }

/* What a kernel is told of the round's counters. */
static void place_counters(const LaunchSpace *s, const int64_t *at, int64_t *size)
{
    int inner = inner_axis(s), outer = s->nkept - 1;

    for (int i = 0; i < s->ncounters; i++) {
        const LaunchCounter *c = &s->counter[i];
        int64_t *word = size + 2 + 3 * i;
        word[0] = c->base + place_of(c->stride, at, outer);
        word[1] = outer >= 0 ? c->stride[outer] : 0;
        word[2] = inner >= 0 ? c->stride[inner] : 0;
    }
}

/* The operands of a round, and in `size` its counters. */
static void place_args(const Launch *l, int64_t round, TileArg *arg, int64_t *size)
{
    const LaunchSpace *s = l->s;
    int inner = inner_axis(s), outer = s->nkept - 1;
    int64_t at[LAUNCH_AXES];

    for (int a = outer - 1; a >= 0; a--) {
        at[a] = round % s->size[a];
        round /= s->size[a];
    }
    place_counters(s, at, size);
    for (int i = 0; i < s->nargs; i++) {
        const LaunchArg *x = &s->arg[i];
        int row = (x->places != 0) + l->upright, column = (x->places != 0) + !l->upright;
        arg[i] = (TileArg){.base = x->base ? x->base + place_of(x->stride, at, outer) * x->bytes : NULL, .extent = {1, 1, 1}};
        if (x->places) {
            arg[i].stride[0] = 1;
            arg[i].extent[0] = x->places;
        }
        if (outer >= 0 && x->stride[outer]) {
            arg[i].stride[row] = x->stride[outer];
            arg[i].extent[row] = l->size[0];
        }
        if (inner >= 0 && x->stride[inner]) {
            arg[i].stride[column] = x->stride[inner];
            arg[i].extent[column] = l->size[1];
        }
    }
}

static void run_parts(int64_t lo, int64_t hi, void *st)
{
    const Launch *l = st;
    TileArg arg[LAUNCH_ARGS];
    int64_t all = l->rounds * l->groups, size[LAUNCH_WORDS];

    memcpy(size, l->size, sizeof size);
    for (int64_t part = lo; part < hi; part++) {
        int64_t g = part * all / l->parts, end = (part + 1) * all / l->parts;
        while (g < end) {
            int64_t round = g / l->groups, first = g - round * l->groups;
            int64_t n = end - g < l->groups - first ? end - g : l->groups - first;
            place_args(l, round, arg, size);
            l->k->fn(size, arg, l->scratch ? l->scratch + part * l->bytes : NULL, first, first + n);
            g += n;
        }
    }
    past_done();
}

static int64_t pieces(int64_t n, int64_t size) { return size ? (n + size - 1) / size : 1; }

static void count_rounds(Launch *l)
{
    const LaunchSpace *s = l->s;

    l->size[0] = s->nkept ? s->size[s->nkept - 1] : 1;
    l->size[1] = s->naxes > s->nkept ? s->size[s->nkept] : 1;
    l->rounds = 1;
    for (int a = 0; a < s->nkept - 1; a++)
        l->rounds *= s->size[a];
}

static void set_groups(Launch *l)
{
    int64_t *groups = l->size + 2 + 3 * l->s->ncounters;

    groups[0] = pieces(l->size[0], l->k->rows);
    groups[1] = pieces(l->size[1], l->k->columns);
    l->groups = groups[0] * groups[1];
}

static void count_groups(Launch *l)
{
    int64_t all;

    count_rounds(l);
    set_groups(l);
    all = l->rounds * l->groups;
    l->parts = pool_threads() == 1 || l->rounds * l->size[0] * l->size[1] < SMALL ? 1 : 4 * (int64_t)pool_threads();
    l->parts = l->parts < all ? l->parts : all;
}

int64_t launch_scratch(const LaunchSpace *s, const LaunchKernel *k)
{
    Launch l = {.s = s, .k = k};

    count_rounds(&l);
    return k->scratch ? (k->scratch(k->code, l.size) + 63) / 64 * 64 : 0;
}

void launch_part(const LaunchSpace *s, const LaunchKernel *k, char *scratch, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    Launch l = {.s = s, .k = k};
    TileArg arg[LAUNCH_ARGS];
    int outer = s->nkept - 1, inner = s->nkept;
    int64_t end = row + rows, n;

    for (; row < end; row += n) {
        int64_t within = row % s->size[outer];
        n = end - row < s->size[outer] - within ? end - row : s->size[outer] - within;
        l.size[0] = n;
        l.size[1] = columns;
        set_groups(&l);
        place_args(&l, row / s->size[outer], arg, l.size);
        for (int i = 0; i < s->ncounters; i++)
            l.size[2 + 3 * i] += within * s->counter[i].stride[outer] + column * s->counter[i].stride[inner];
        for (int i = 0; i < s->nargs; i++)
            arg[i].base = (char *)arg[i].base + (within * s->arg[i].stride[outer] + column * s->arg[i].stride[inner]) * s->arg[i].bytes;
        k->fn(l.size, arg, scratch, 0, l.groups);
    }
}

/* What threads share, and scratch memory for each part. false: there is none. */
static bool launch_init(Launch *l, LaunchOne of)
{
    const LaunchKernel *k = of.kernel;
    size_t all;

    *l = (Launch){.s = of.space, .k = k, .upright = k->upright};
    count_groups(l);
    l->bytes = l->parts && k->scratch ? (k->scratch(k->code, l->size) + 63) / 64 * 64 : 0;
    return !l->bytes || (tsr_mul((size_t)l->bytes, (size_t)l->parts, &all) && (l->scratch = tsr_try_alloc(all, 64)));
}

bool launch_run(const LaunchSpace *s, const LaunchKernel *k)
{
    Launch l;

    if (!launch_init(&l, (LaunchOne){s, k}))
        return false;
    if (l.parts)
        pool_for(l.parts, 1, run_parts, &l);
    tsr_free_aligned(l.scratch);
    return true;
}

/* Parts of several launches, counted over all. */
typedef struct Beside { Launch *at; int n; } Beside;

static void run_beside(int64_t lo, int64_t hi, void *st)
{
    const Beside *b = st;

    for (int i = 0; i < b->n && lo < hi; i++) {
        Launch *l = &b->at[i];
        int64_t end = hi < l->parts ? hi : l->parts;
        if (lo < end)
            run_parts(lo, end, l);
        lo = lo < l->parts ? 0 : lo - l->parts;
        hi -= l->parts;
    }
}

bool launch_beside(const LaunchOne *of, int n)
{
    Beside b = {.at = tsr_calloc(sizeof *b.at * (size_t)n)};
    int64_t parts = 0;
    bool ok = true;

    for (; ok && b.n < n; b.n++) {
        ok = launch_init(&b.at[b.n], of[b.n]);
        parts += b.at[b.n].parts;
    }
    if (ok)
        pool_for(parts, 1, run_beside, &b);
    for (int i = 0; i < b.n; i++)
        tsr_free_aligned(b.at[i].scratch);
    tsr_free(b.at);
    return ok;
}

bool launch_each(const LaunchSpace *s, bool upright, bool (*fn)(void *st, const int64_t *size, const TileArg *arg), void *st)
{
    Launch l = {.s = s, .upright = upright};
    TileArg arg[LAUNCH_ARGS];
    bool go = true;

    count_rounds(&l);
    for (int64_t round = 0; go && round < l.rounds; round++) {
        place_args(&l, round, arg, l.size);
        go = fn(st, l.size, arg);
    }
    return go;
}
