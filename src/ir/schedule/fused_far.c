/*
 * How bodies run on GPUs: kernels that give each group enough to do, and each processor enough groups.
 *
 * Rows that are reduced go whole where they fit into the registers of a group (codegen/gpu_rows.c), or of a few that work together, or in large
 * pieces.  Few rows that are long are summed in parts, by as many groups as there are places for; the parts are aligned in the tree of R4 of
 * docs/numerics.md, so that a second kernel, which joins them, ends with the same bits.  Operands that lie across the others are turned tile by tile.
 */
#include "ir/schedule/fused_impl.h"

#include "ir/graph/level.h"

#include <string.h>

/* ---- schedules ---- */

enum {
    FAR_TILE = 8192,            /* elements of a tile of an elementwise kernel, */
    FAR_TILE_LEAST = 2048,      /* or so many, where that makes enough groups: two sizes, since each is a kernel to be made */
    FAR_SIDE = 64,              /* rows and columns of one that is turned */
    FAR_ROWS = 16, FAR_COLUMNS = 128, FAR_NARROW = 32,  /* that a group does at once: side by side, four a thread or one */
    FAR_DEEP = 1024,            /* rows of the columns that a group sums before its threads meet, where sums may go in any order */
    FAR_GROUPS = 512,           /* that fill the chip */
    FAR_CHUNKS = 64, FAR_PIECE = 8192,  /* of a row that is whole, at most; elements of a piece of a longer one */
    FAR_THREADS = 64,           /* of a group of short rows, at least */
    FAR_LANES = 8, FAR_WARP = 32, FAR_STEP = 8,         /* chunks of a warp, of pairs */
    FAR_ALONE = 9, FAR_MANY = 320,      /* chunks of a long row; threads of a group of which a processor has few */
    FAR_BLOCKS = 8,             /* that divide a row, at most */
    FAR_ENDS = 8,               /* elements of a vector of the narrowest dtype that goes by vectors of many */
    FAR_HELD = 110 << 10, FAR_HELD_BY = 1 << 10,        /* elements of a row that stays in shared memory, and what they are rounded up to */
};

static int64_t inner_size(const Run *u) { return u->space.naxes > u->space.nkept ? u->space.size[u->space.nkept] : 1; }

/* Blocks of threads that divide rows of so many chunks: those that have the fewest chunks beyond the row, and of those the most. 0: too few can. */
static int blocks_for(int64_t chunks, int most)
{
    int64_t least = 0;
    int blocks = 0;

    for (int b = 2; b <= most; b++) {
        int64_t each = ((chunks + b - 1) / b + FAR_STEP - 1) / FAR_STEP * FAR_STEP;
        if (each > FAR_CHUNKS || (blocks && b * each > least))
            continue;
        blocks = b;
        least = b * each;
    }
    return blocks;
}

/* Rows that several blocks have, or pieces of rows. */
static void long_rows(int64_t chunks, int most, Schedule *s)
{
    int blocks = blocks_for(chunks, most);

    s->m = 1;
    s->whole = blocks ? WHOLE_ROWS : WHOLE_PIECES;
    s->blocks = (uint8_t)blocks;
    s->n = FAR_PIECE;
    if (blocks)
        s->n = (int32_t)((chunks + blocks * FAR_STEP - 1) / (blocks * FAR_STEP)) * FAR_STEP * blocks * TILE_REDUCE_MAX;
}

/* Rows of so many chunks that make a group of whole warps, and of enough threads. */
static int64_t rows_for(int64_t chunks)
{
    int64_t m = 1;

    while (m * chunks * FAR_LANES < FAR_THREADS || m * chunks * FAR_LANES % FAR_WARP)
        m *= 2;
    return m;
}

/*
 * Long rows that end within a chunk, or of which several would make too large a group, have groups of their own with chunks up to whole warps: all
 * warps but the last one then have whole chunks.
 */
bool schedule_whole(int64_t n1, int most, Schedule *s)
{
    int64_t chunks = (n1 + TILE_REDUCE_MAX - 1) / TILE_REDUCE_MAX;

    if (s->kind != SCHEDULE_ROWS || n1 < FAR_WARP)
        return false;
    if (chunks > FAR_CHUNKS) {
        long_rows(chunks, most, s);
        return true;
    }
    if (chunks >= FAR_ALONE && (n1 % TILE_REDUCE_MAX || rows_for(chunks) * chunks * FAR_LANES > FAR_MANY))
        chunks = (chunks + FAR_WARP / FAR_LANES - 1) / (FAR_WARP / FAR_LANES) * (FAR_WARP / FAR_LANES);
    s->whole = WHOLE_ROWS;
    s->n = (int32_t)(chunks > 1 ? chunks * TILE_REDUCE_MAX : (n1 + FAR_LANES - 1) / FAR_LANES * FAR_LANES);
    s->m = (int32_t)rows_for(chunks);
    return true;
}

/* Are both axes long enough for tiles that are turned in shared memory? */
bool fused_far_turns(const Run *u)
{
    const LaunchSpace *p = &u->space;

    return u->device && u->c->s.kind == SCHEDULE_MAP && p->nkept && p->naxes > p->nkept && p->size[p->nkept - 1] >= FAR_SIDE / 4 &&
           p->size[p->nkept] >= FAR_SIDE / 4;
}

static bool has_turned(const Run *u, const StrideClass *class)
{
    bool has = false;

    for (int i = 0; i < u->nin; i++)
        has |= class[i].outer == 1 && class[i].inner == STRIDE_ANY;
    return has;
}

/* Axes before the last two. */
static int round_axes(const LaunchSpace *s) { return s->nkept > 1 ? s->nkept - 1 : 0; }

static int64_t rounds_of(const LaunchSpace *s)
{
    int64_t n = 1;

    for (int a = 0; a < round_axes(s); a++)
        n *= s->size[a];
    return n;
}

/* The power of two that divides rows which are reduced, where their length is a number; 0: 1 does. */
static int16_t fixed_divisor(const Region *r)
{
    int64_t n = 1, size;

    for (int a = r->nkept; a < r->naxes; a++) {
        if (!dim_const_value(r->size[a], &size))
            return 0;
        n *= size;
    }
    n = n & -n;
    return (int16_t)(r->nkept == r->naxes || n < 2 ? 0 : n < ALIGN_MOST ? n : ALIGN_MOST);
}

/* For GPUs: tiles that give a few hundred threads something to do, and as many groups as there are places for. */
Schedule fused_far_fitting(const Run *u, const StrideClass *class, bool crosswise)
{
    const LaunchSpace *p = &u->space;
    int64_t n0 = p->nkept ? p->size[p->nkept - 1] : 1, n1 = p->naxes > p->nkept ? p->size[p->nkept] : 1;
    Schedule s = u->c->s;

    s.lean = true;
    s.align = fused_aligned(u);
    s.align = s.align ? s.align : fixed_divisor(&u->c->r);
    if (s.kind == SCHEDULE_MAP && has_turned(u, class)) {
        s.m = s.n = FAR_SIDE;
        return s;
    }
    if (s.kind == SCHEDULE_MAP) {
        int64_t all = n0 * n1 * rounds_of(p), tile = all < (int64_t)FAR_TILE * FAR_GROUPS ? FAR_TILE_LEAST : FAR_TILE;
        for (s.n = (int32_t)tile; n0 > 1 && s.n > 32 && s.n / 2 >= n1; )        /* of one row no others would fill the tile */
            s.n /= 2;
        s.m = (int32_t)tile / s.n;
        return s;
    }
    if (crosswise) {
        int64_t parts = schedule_parts(&u->c->r) ? n1 / (2 * TILE_REDUCE_MAX) + 1 : 1;
        s.kind = SCHEDULE_COLUMNS;
        parts = parts < PARTS_MOST ? parts : PARTS_MOST;
        for (s.m = FAR_COLUMNS; s.m > FAR_NARROW && n0 * rounds_of(p) * parts < (int64_t)s.m * (FAR_GROUPS / 2); )
            s.m /= 2;
        return s;
    }
    for (s.m = FAR_ROWS; s.m > 4 && n0 * rounds_of(p) < (int64_t)s.m * FAR_GROUPS; )
        s.m /= 2;
    return s;
}

/* ---- kernels ---- */

/* Elements of a part such that there are enough groups: a power of two of chunks. 0: there are enough as it is. */
static int64_t far_part(const Run *u, const Schedule *s)
{
    const LaunchSpace *p = &u->space;
    int64_t n0 = p->nkept ? p->size[p->nkept - 1] : 1, n1 = p->naxes > p->nkept ? p->size[p->nkept] : 1;
    int64_t groups = (n0 + s->m - 1) / s->m * rounds_of(p), part = TILE_REDUCE_MAX;

    if (fused_is_total(u) || groups >= FAR_GROUPS / 2 || n1 < 4 * TILE_REDUCE_MAX || !schedule_parts(&u->c->r))
        return 0;
    while ((n1 + part - 1) / part > PARTS_MOST || (n1 + part - 1) / part * groups > FAR_GROUPS)
        part *= 2;
    return part < n1 ? part : 0;
}

/* Kernels for rows in parts: the one that joins them; NULL: there is no code for both. */
static Variant *far_parts(Run *u, const StrideClass *class, Schedule s)
{
    int64_t n1 = u->space.size[u->space.nkept];
    Variant *join;

    s.part = PART_SUMS;
    u->sums = fused_variant(u->c, class, u->space.nargs + u->space.ncounters, s);
    s.part = PART_JOIN;
    join = u->sums->code ? fused_variant(u->c, class, u->space.nargs + u->space.ncounters, s) : NULL;
    if (join && join->code) {
        u->parts = (n1 + u->each - 1) / u->each;
        return join;
    }
    u->sums = NULL;
    return NULL;
}

/* May all its sums go in any order? */
static bool any_order(const Graph *body)
{
    for (const Node *n = body->first; n; n = n->next)
        if ((n->op == OP_sum || n->op == OP_prod) && !n->attr->fast && dtype_is_inexact((DType)n->type[0].dtype))
            return false;
    return true;
}

static bool has_exponentials(const Graph *body)
{
    for (const Node *n = body->first; n; n = n->next)
        if (n->op == OP_exp)
            return true;
    return false;
}

/* How these rows end: with their piece, or with a vector, whether or not the program says so. And may they stay in shared memory? */
static void end_rows(const Run *u, Schedule *s)
{
    int64_t n1 = inner_size(u);

    s->stays = s->blocks && n1 % FAR_ENDS == 0 && !s->rounds && !has_exponentials(u->c->body);
    if (n1 % FAR_ENDS == 0)
        s->align = s->align > FAR_ENDS ? s->align : FAR_ENDS;
    if (s->whole == WHOLE_PIECES && n1 % FAR_ENDS == 0 && n1 <= FAR_HELD)
        s->held = (int32_t)((n1 + FAR_HELD_BY - 1) / FAR_HELD_BY * FAR_HELD_BY);
    else if (n1 % s->n == 0 && !s->stays)
        s->align = 0;                           /* no row ends before its piece does */
}

/*
 * Are rows stored that take long to compute, or, where sums are in order, whatever they take? Several blocks have all of a row at once then; what is
 * cheaper goes quicker in pieces.
 */
static bool is_dear(const FusedCode *c)
{
    uint16_t inner = (uint16_t)(region_all(&c->r) & ~region_kept(&c->r));
    bool stores = false;

    for (int i = 0; i < c->body->results.n; i++) {
        const RegionValue *v = region_value(&c->r, c->body->results.at[i].node);
        stores |= v && (v->has & inner);
    }
    return stores && (!any_order(c->body) || has_exponentials(c->body));
}

static bool is_ready(const Variant *v) { return v && (v->code || v->waits); }

/* Whole rows, or pieces of them, by so many blocks of threads at most. NULL: not these. */
static Variant *whole_variant(Run *u, const StrideClass *class, Schedule s, int most)
{
    if (!schedule_whole(inner_size(u), most, &s))
        return NULL;
    end_rows(u, &s);
    return fused_variant(u->c, class, u->space.nargs + u->space.ncounters, s);
}

/* By whole rows, or by parts of rows, where there is code for that. */
static Variant *variant_of(Run *u, const StrideClass *class, Schedule s)
{
    int rounds = round_axes(&u->space);
    Variant *v = NULL;

    if (s.kind != SCHEDULE_MAP && (u->each = far_part(u, &s)) && (v = far_parts(u, class, s)))
        return v;
    s.rounds = (uint8_t)(rounds < ROUND_AXES ? rounds : ROUND_AXES);
    v = whole_variant(u, class, s, is_dear(u->c) ? FAR_BLOCKS : 1);
    if (v && !is_ready(v))
        v = whole_variant(u, class, s, 1);
    return is_ready(v) ? v : fused_variant(u->c, class, u->space.nargs + u->space.ncounters, s);
}

/* Columns that a group has no memory for are divided. */
Variant *fused_far_variant(Run *u, const StrideClass *class, bool crosswise)
{
    Schedule s = fused_far_fitting(u, class, crosswise), deep = s;
    Variant *v;

    deep.n = FAR_DEEP;
    if (s.kind == SCHEDULE_COLUMNS && inner_size(u) % FAR_DEEP == 0 && any_order(u->c->whole)) {
        v = variant_of(u, class, deep);
        if (v->code || v->waits)
            return v;
    }
    v = variant_of(u, class, s);
    while (!v->code && !v->waits && s.kind == SCHEDULE_COLUMNS && s.m > FAR_NARROW) {
        s.m /= 2;
        v = variant_of(u, class, s);
    }
    return v;
}

/* ---- launches ---- */

enum { FAR_SIZES = 3 + 3 * LAUNCH_COUNTERS + ROUND_AXES * (1 + LAUNCH_COUNTERS) };

/* inside: the axes before the last two that the kernel goes over. */
typedef struct FarRound { const Run *u; const Variant *v; int inside[ROUND_AXES], done; } FarRound;

/* The axes of the kernel's rounds come first in each view; an operand that does not move along one stands still there. */
static void add_round_axes(const FarRound *r, TileArg *arg)
{
    const LaunchSpace *s = &r->u->space;
    int rounds = r->v->schedule.rounds;

    for (int i = 0; i < s->nargs; i++) {
        TileArg one = arg[i];
        for (int k = 0; k < 2; k++) {
            arg[i].extent[rounds + k] = one.extent[k];
            arg[i].stride[rounds + k] = one.stride[k];
        }
        for (int a = 0; a < rounds; a++) {
            arg[i].extent[a] = s->size[r->inside[a]];
            arg[i].stride[a] = s->arg[i].stride[r->inside[a]];
        }
    }
}

/* As lower_rounds names them. */
static void add_round_sizes(const FarRound *r, int64_t *sizes)
{
    const LaunchSpace *s = &r->u->space;
    int rounds = r->v->schedule.rounds, n = 2 + 3 * s->ncounters;

    for (int a = 0; a < rounds; a++)
        sizes[n++] = s->size[r->inside[a]];
    for (int i = 0; i < s->ncounters; i++)
        for (int a = 0; a < rounds; a++)
            sizes[n++] = s->counter[i].stride[r->inside[a]];
}

static bool far_round(void *st, const int64_t *size, const TileArg *arg)
{
    FarRound *r = st;
    TileArg all[OPERANDS];
    int64_t sizes[FAR_SIZES];

    memcpy(all, arg, sizeof *all * (size_t)r->u->space.nargs);
    memcpy(sizes, size, sizeof *sizes * (size_t)(2 + 3 * r->u->space.ncounters));
    add_round_axes(r, all);
    add_round_sizes(r, sizes);
    r->done = fused_far->launch(r->v->code, r->v->tile, r->u->device, sizes, all, r->u->where);
    return r->done > 0;
}

/* The longest axes of rounds are the kernel's, in their order; one launch for each place along the others. */
static void choose_inside(FarRound *r, LaunchSpace *outside)
{
    int rounds = r->v->schedule.rounds;

    for (int k = 0; k < rounds; k++) {
        int longest = 0;
        for (int a = 1; a < round_axes(outside); a++)
            longest = outside->size[a] > outside->size[longest] ? a : longest;
        outside->size[longest] = 0;
    }
    for (int a = 0, k = 0; k < rounds; a++)
        if (!outside->size[a]) {
            outside->size[a] = 1;
            r->inside[k++] = a;
        }
}

static int run_all(Run *u, const Variant *v)
{
    FarRound r = {.u = u, .v = v, .done = 1};
    LaunchSpace outside = u->space;

    choose_inside(&r, &outside);
    launch_each(&outside, v->schedule.kind == SCHEDULE_COLUMNS, far_round, &r);
    return r.done;
}

/* Sums of parts, which each round uses anew. */
typedef struct FarParts { const Run *u; const Variant *join; Tensor *sum[OPERANDS]; int n, done; } FarParts;

static bool far_parts_round(void *st, const int64_t *size, const TileArg *arg)
{
    FarParts *r = st;
    const Run *u = r->u;
    TileArg all[2 * OPERANDS];
    int64_t sizes[FAR_SIZES];
    int nargs = u->space.nargs, words = 2 + 3 * u->space.ncounters;

    memcpy(sizes, size, sizeof *sizes * (size_t)words);
    sizes[words] = u->each;

    memcpy(all, arg, sizeof *all * (size_t)nargs);
    for (int i = 0; i < r->n; i++) {
        all[nargs + i] = (TileArg){.extent = {u->parts, size[0]}, .stride = {size[0], 1}};
        if (!(all[nargs + i].base = fused_far->address(r->sum[i], u->device, true, true)))
            r->done = -1;
    }
    if (r->done > 0)
        r->done = fused_far->launch(u->sums->code, u->sums->tile, u->device, sizes, all, u->where);
    if (r->done > 0)
        r->done = fused_far->launch(r->join->code, r->join->tile, u->device, sizes, all, u->where);
    return r->done > 0;
}

static int run_parts(Run *u, const Variant *join)
{
    FarParts r = {.u = u, .join = join, .done = 1};
    int64_t shape[2] = {u->parts, u->space.nkept ? u->space.size[u->space.nkept - 1] : 1};
    const Node *sum[REGION_OPERANDS];

    r.n = schedule_part_sums(&u->c->r, sum);
    for (int i = 0; i < r.n && r.done > 0; i++)
        if (!(r.sum[i] = tensor_new(schedule_part_dtype(sum[i]), 2, shape)))
            r.done = 0;
    if (r.done > 0)
        launch_each(&u->space, join->schedule.kind == SCHEDULE_COLUMNS, far_parts_round, &r);
    tensors_unref(r.sum, r.n);
    return r.done;
}

int fused_far_run(Run *u, const Variant *v) { return u->sums ? run_parts(u, v) : run_all(u, v); }
