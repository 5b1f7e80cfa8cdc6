/*
 * The schedule of a launch's kernel: the body's, fitted to how its operands lie and to how much memory they are.
 *
 * Results larger than the caches go past them.  Rows that stand upright are done many at a time, for long runs of memory; what is gone over
 * again is done in fewer, so that the third cache has it by then.  Many rows that are gone over again are done in turn.
 */
#include "ir/schedule/fused_impl.h"

#include "runtime/kernel_util.h"
#include "runtime/past.h"

#include <unistd.h>

enum {
    COLUMN_ROWS = 2048,         /* that columns do at once: runs of memory long enough to be fetched ahead */
    COLUMN_FEW = 64,
    COLUMN_SOME = 128,          /* shorter runs cost more than memory that is read again */
    LONG_ROW = 2048,            /* elements: rows from which on one by one, each while the next one comes, is faster than side by side */
    FEW_BYTES = 64 << 10, FEW_ROWS = 32,        /* of a row, for which a kernel of its own pays; and rows of which the last few are much */
    AGAIN_BYTES = 4 << 20, AGAIN_MOST = 16 << 20,       /* of a group's operands that its next pass finds in the third cache */
    NEAR_ROWS = 64, NEAR_FROM = 2 << 20,        /* that columns do at once where a second cache of so many bytes and more keeps them */
    AHEAD_BYTES = 128 << 10,    /* of a group's rows: the second cache has room for the next group's, too */
    LINE_BYTES = 64, SECOND_BYTES = 512 << 10,
    TURN_FROM = 8 << 20,        /* bytes of results that rows are done in turn for: more than second caches have */
    TURN_LONG = 128,            /* elements: rows that are done in turn one by one; side by side, AVX2 has too few registers for them */
    TURNS_MANY = 256, TURNS_SOME = 32, TURN_GROUPS = 2,     /* of them each thread has at least so many */
};

int32_t fused_turns;

/* Bytes that a row has in all operands. */
static int64_t row_bytes(const Run *u)
{
    const LaunchSpace *s = &u->space;
    int64_t bytes = 0, n = s->naxes > s->nkept ? s->size[s->nkept] : 1;

    for (int i = 0; i < u->nin; i++)
        bytes += s->naxes > s->nkept && s->arg[i].stride[s->nkept] ? n * s->arg[i].bytes : 0;
    return bytes;
}

/* Bytes of a core's second cache. To ask costs as much as a small launch. */
static int64_t second_cache(void)
{
    static int64_t bytes;
    long said = bytes ? bytes : sysconf(_SC_LEVEL2_CACHE_SIZE);

    return bytes = said > 0 ? said : SECOND_BYTES;
}

/*
 * How many rows that stand upright a group does: two groups for each thread, where there are as many rows, and no rest. Operands that
 * come from memory and are gone over again are to be in the third cache by then, if few enough rows can be.
 */
static int32_t upright_rows(const Run *u, bool past)
{
    const LaunchSpace *s = &u->space;
    int64_t n0 = s->nkept ? s->size[s->nkept - 1] : 1, bytes = row_bytes(u);
    bool again = past && u->c->r.npasses > 2 && bytes * COLUMN_SOME <= AGAIN_MOST;
    int32_t m = COLUMN_ROWS;

    while (m > COLUMN_FEW && (n0 < 2 * (int64_t)pool_threads() * m || n0 % m || (again && m > COLUMN_SOME && m * bytes > AGAIN_BYTES)))
        m /= 2;
    return m;
}

/*
 * Are columns that are gone over again so short that half of the second cache has NEAR_ROWS of them?  Where they lie it has not: their elements
 * are a power of two of bytes apart too often, and so meet in few of its places.
 */
static bool stays_near(const Run *u)
{
    const LaunchSpace *s = &u->space;
    int64_t second = second_cache(), n0 = s->nkept ? s->size[s->nkept - 1] : 1;

    return second >= NEAR_FROM && u->c->r.npasses > 2 && row_bytes(u) * NEAR_ROWS <= second / 2 && n0 >= 2 * (int64_t)pool_threads() * NEAR_ROWS;
}

static int64_t result_bytes(const Run *u)
{
    int64_t bytes = 0;

    for (int i = u->nin; i < u->nin + u->nout; i++)
        bytes += u->x[i] ? tensor_size(u->x[i]) * dtype_info[u->x[i]->dtype].sbits / 8 : 0;
    return bytes;
}

/* Does no result lie in the place of an operand? */
static bool lie_apart(const Run *u)
{
    bool apart = true;

    for (int i = 0; i < u->nin; i++)
        for (int k = u->nin; k < u->nin + u->nout; k++)
            apart &= !u->x[k] || u->x[i]->store != u->x[k]->store;
    return apart;
}

bool fused_goes_past(const Run *u) { return result_bytes(u) >= PAST_FROM && !u->in_blocks && lie_apart(u); }

/* Do all rows of the results begin with a line? Others go past the caches in part only. */
static bool rows_are_lines(const Run *u)
{
    const LaunchSpace *s = &u->space;
    bool lines = true;

    for (int i = u->nin; i < u->nin + u->nout; i++)
        for (int a = 0; a < s->nkept; a++)
            lines &= s->arg[i].stride[a] * s->arg[i].bytes % LINE_BYTES == 0;
    return lines;
}

int16_t fused_aligned(const Run *u)
{
    int64_t n1 = u->space.naxes > u->space.nkept ? u->space.size[u->space.nkept] : 1;

    return u->c->s.align && n1 % u->c->s.align == 0 ? u->c->s.align : 0;
}

static bool may_take_turns(const Run *u)
{
    return schedule_turns && !u->c->product && !fused_is_total(u) && schedule_turns->may(&u->c->r) && lie_apart(u);
}

/* Do all passes' rows fit in half of the second cache, and are there so many that they come from beyond it? */
static bool gain_by_turns(const Run *u, const Schedule *s)
{
    return !s->lean && result_bytes(u) >= TURN_FROM && row_bytes(u) * s->m * u->c->r.npasses <= second_cache() / 2 && pass_runs("turns");
}

/*
 * Many rows are done in turn, as often as leaves some groups for each thread: at either end of a group passes are early or late, which is
 * work for nothing.
 */
static void take_turns(const Run *u, Schedule *s)
{
    const LaunchSpace *x = &u->space;
    int32_t m = x->naxes > x->nkept && x->size[x->nkept] >= TURN_LONG ? 1 : s->m;
    int64_t n0 = x->nkept ? x->size[x->nkept - 1] : 1, each = n0 / (TURN_GROUPS * (int64_t)pool_threads() * m);
    int32_t turns = each >= TURNS_MANY ? TURNS_MANY : each >= TURNS_SOME ? TURNS_SOME : 0;

    if ((!turns && !fused_turns) || !may_take_turns(u))
        return;
    if (fused_turns) {
        s->turns = fused_turns;
    } else if (gain_by_turns(u, s)) {
        s->turns = turns;
        s->m = m;
    }
}

/* Bundles have kernels for results within the caches: a compiler that only finds code does not know others. */
static bool finds_all(void) { return !fused_state.compiler || fused_state.compiler->effort; }

/* Rows that are brought: as many at once as stay in the second cache. */
static Schedule brought(const Run *u, Schedule s)
{
    s.turns = 0;
    s.long_rows = true;
    s.m = finds_all() && row_bytes(u) * s.m > second_cache() / 2 ? 1 : s.m;
    return s;
}

/*
 * Long rows so few that blocks of m have others than whole ones, or that threads have none: each is a block.  What a block lacks is masked, and of
 * rows that lie beyond memory that there is machines take long to find that out.
 */
static bool are_few(const Run *u, int32_t m)
{
    const LaunchSpace *s = &u->space;
    int64_t n0 = s->nkept ? s->size[s->nkept - 1] : 1, rounds = 1;

    for (int a = 0; a < s->nkept - 1; a++)
        rounds *= s->size[a];
    return row_bytes(u) >= FEW_BYTES && n0 <= FEW_ROWS && (n0 % m || n0 / m * rounds < pool_threads());
}

Schedule fused_fitting(const Run *u, const StrideClass *class, bool crosswise)
{
    Schedule s = u->c->s;

    s.turns = !crosswise && s.turns && may_take_turns(u) ? s.turns : 0;
    if (u->device)
        return fused_far_fitting(u, class, crosswise);
    s.align = fused_aligned(u);
    if (u->lies)
        return brought(u, s);
    s.past |= finds_all() && fused_goes_past(u);
    if (s.kind == SCHEDULE_MAP)
        return s;
    if (fused_is_total(u) || (s.past && u->space.naxes > u->space.nkept && u->space.size[u->space.nkept] >= LONG_ROW))
        s.m = 1;
    if (!crosswise && finds_all() && are_few(u, s.m))
        s.m = 1;
    s.long_rows = row_bytes(u) * s.m > AHEAD_BYTES;
    s.beside = s.past && !s.long_rows && !crosswise && rows_are_lines(u);
    if (!crosswise && finds_all())
        take_turns(u, &s);
    if (crosswise) {
        s.kind = SCHEDULE_COLUMNS;
        s.near = s.past && stays_near(u);
        s.beside |= s.near;
        s.m = s.near ? NEAR_ROWS : upright_rows(u, s.past);
        s.lean |= s.past && !s.near;        /* what is kept in a result lies in memory, too: it costs more than computing it again */
    }
    return s;
}
