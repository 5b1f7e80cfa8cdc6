/*
 * Which of a tile's elements each thread has in registers.
 *
 * Those of matrix units are given: of each piece of 16 rows and 8 columns a thread has four elements, and warps take pieces above each other
 * and side by side.  Of a product by threads each has as many sums as leave work for all of them.
 */
#include "codegen/cpu_lane.h"
#include "codegen/gpu_impl.h"

enum { REGISTERS_MAX = 128, ROLES_REGISTERS = 192 };        /* of a tile in registers; beside sets of warpgroups that take turns */

/* ---- shares ---- */

/* How many places there are for threads. */
static int64_t places(const TileType *t, const Fragment *f) { return tile_elements(t) / (f->side[0] * f->side[1]); }

/* Sides twice as long, the shorter first, while at least so many places are left. */
static void grow_sides(const TileType *t, int64_t least, int longest, Fragment *f)
{
    for (bool grown = true; grown && places(t, f) > least; ) {
        int k = f->side[1] < f->side[0];
        grown = false;
        for (int tries = 0; tries < 2 && !grown; tries++, k = !k) {
            Fragment next = *f;
            next.side[k] *= 2;
            grown = next.side[k] <= longest && t->extent[k] % next.side[k] == 0 && places(t, &next) >= least;
            *f = grown ? next : *f;
        }
    }
}

/*
 * A thread's share of a product: as many sums as leave work for all threads, at least as many as there are for each.  Where no halving gives
 * that, threads without a share of their own do one that another does.
 */
static bool by_threads(const CpuCode *e, const TileType *t, Fragment *f)
{
    *f = (Fragment){.extent = {t->extent[0], t->extent[1]}, .side = {1, 1}};
    grow_sides(t, e->gpu->threads, GPU_SIDE, f);
    for (int64_t before = 0; places(t, f) > e->gpu->threads && places(t, f) != before; ) {
        before = places(t, f);
        grow_sides(t, before / 2, GPU_SIDE, f);
    }
    if (places(t, f) == 2 * e->gpu->threads && f->side[1] == GPU_SIDE && t->extent[1] % (2 * GPU_SIDE) == 0)
        f->side[1] = 2 * GPU_SIDE;
    for (int k = 0; k < 2; k++)
        f->run[k] = f->side[k] % e->gpu->run[k] ? 1 : e->gpu->run[k];
    return places(t, f) <= e->gpu->threads;
}

/*
 * Warps above each other where rows are summed, which then needs nobody else; otherwise such that a warp's part is nearly square, because
 * it reads as much of the operands as that has rows and columns.
 */
static void place_warps(const CpuCode *e, int warps, Fragment *f)
{
    int64_t least = INT64_MAX;

    if (e->gpu->roles) {                        /* wgmma's own: four warps above each other in each warpgroup */
        f->high = warps;
        f->wide = 1;
        return;
    }
    for (int high = 1; high <= warps; high++) {
        int h = (int)multiple_of_both(high, f->extent[0] / PIECE_ROWS), w = (int)multiple_of_both(warps / h, f->extent[1] / PIECE_COLUMNS);
        int64_t cost = f->extent[0] / h + f->extent[1] / w + (e->gpu->sums_rows ? 1000 * w : 0) + (h * w < warps ? 100000 / (h * w) : 0);
        if (h != high || cost >= least)
            continue;
        least = cost;
        f->high = h;
        f->wide = w;
    }
}

/* The fragments of matrix units. */
static bool by_units(const CpuCode *e, const TileType *t, Fragment *f)
{
    if (!e->gpu->units || t->extent[0] % PIECE_ROWS || t->extent[1] % PIECE_COLUMNS || e->gpu->threads % GPU_WARP)
        return false;
    *f = (Fragment){.extent = {t->extent[0], t->extent[1]}};
    place_warps(e, e->gpu->threads / GPU_WARP, f);
    if (t->extent[0] / PIECE_ROWS % f->high)
        return false;
    f->rows = t->extent[0] / PIECE_ROWS / f->high;
    f->columns = t->extent[1] / PIECE_COLUMNS / f->wide;
    return gpu_registers(f) <= (e->gpu->roles ? ROLES_REGISTERS : REGISTERS_MAX);
}

bool gpu_is_column(const TileType *t) { return t->kind == TILE_VALUE && (t->rank == 1 || (t->rank == 2 && t->extent[1] == 1)); }

/* A column beside products whose warps have whole rows, all above each other. */
static bool beside_units(const CpuCode *e, const TileType *t, Fragment *f)
{
    int warps = e->gpu->threads / GPU_WARP;

    if (!e->gpu->units || !(e->gpu->sums_rows || gpu_is_chain(e)) || !gpu_is_column(t) || e->gpu->threads % GPU_WARP ||
        t->extent[0] % (PIECE_ROWS * warps))
        return false;
    *f = (Fragment){.extent = {t->extent[0], 1}, .high = warps, .wide = 1, .rows = t->extent[0] / PIECE_ROWS / warps};
    return true;
}

bool gpu_fragment_of(const CpuCode *e, const TileType *t, Fragment *f)
{
    const WholeRows *w = &e->gpu->whole;

    if (w->chunk) {
        *f = (Fragment){.extent = {w->rows, w->columns}, .whole = w->chunk / w->each};
        return t->kind == TILE_VALUE && t->rank == 2 && t->extent[0] == w->rows && t->extent[1] == w->columns;
    }
    return beside_units(e, t, f) || (t->kind == TILE_VALUE && t->rank == 2 && (by_units(e, t, f) || by_threads(e, t, f)));
}

bool gpu_has_rows(const CpuCode *e, const TileType *t)
{
    Fragment f;

    return gpu_fragment_of(e, t, &f) && !f.side[0] && f.columns;
}

bool gpu_sums_to_column(const CpuCode *e, const TileType *t)
{
    TileType column = {.kind = TILE_VALUE, .rank = 1, .extent = {t->extent[0]}};
    Fragment f, g;

    return t->rank == 2 && gpu_fragment_of(e, t, &f) && !f.side[0] && f.columns && f.wide == 1 && beside_units(e, &column, &g) && g.high == f.high;
}

/* ---- where they are ---- */

Warp gpu_warp(CpuCode *e, const Fragment *f)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef warp = LLVMBuildUDiv(b, e->gpu->thread, i32_number(e, GPU_WARP), "");
    Warp w = {LLVMBuildURem(b, e->gpu->thread, i32_number(e, GPU_WARP), ""), LLVMBuildURem(b, warp, i32_number(e, f->high), ""), NULL};

    w.wide = LLVMBuildURem(b, LLVMBuildUDiv(b, warp, i32_number(e, f->high), ""), i32_number(e, f->wide), "");
    return w;
}

static LLVMValueRef sum3(CpuCode *e, LLVMValueRef a, LLVMValueRef x, int64_t by, LLVMValueRef y)
{
    LLVMBuilderRef b = e->u->builder;

    return LLVMBuildAdd(b, LLVMBuildAdd(b, a, LLVMBuildMul(b, x, i32_number(e, by), ""), ""), y, "");
}

/* Number i of a thread's rows, or columns, where it is number `thread` of so many that have some. */
static LLVMValueRef place_in_runs(CpuCode *e, LLVMValueRef thread, int32_t threads, int run, int i)
{
    thread = LLVMBuildMul(e->u->builder, thread, i32_number(e, run), "");
    return LLVMBuildAdd(e->u->builder, thread, i32_number(e, i / run * run * threads + i % run), "");
}

static Spot spot_of_thread(CpuCode *e, const Fragment *f, int number)
{
    LLVMBuilderRef b = e->u->builder;
    int32_t down = f->extent[0] / f->side[0], across = f->extent[1] / f->side[1];
    LLVMValueRef place = LLVMBuildURem(b, e->gpu->thread, i32_number(e, (int64_t)down * across), "");
    LLVMValueRef row = place_in_runs(e, LLVMBuildUDiv(b, place, i32_number(e, across), ""), down, f->run[0], number / f->side[1]);
    LLVMValueRef column = place_in_runs(e, LLVMBuildURem(b, place, i32_number(e, across), ""), across, f->run[1], number % f->side[1]);

    return (Spot){.at = {LLVMBuildZExt(b, row, i64_type(e), ""), LLVMBuildZExt(b, column, i64_type(e), "")}, .strip = -1};
}

/* Register 4 * (i * columns + j) + 2 * h + c: row 16 * (high * i + warp) + lane / 4 + 8 * h, column 8 * j + 2 * (lane % 4) + c. */
Spot gpu_register_spot(CpuCode *e, const Fragment *f, int number)
{
    if (f->whole)
        return gpu_rows_spot(e, number);
    if (f->side[0])
        return spot_of_thread(e, f, number);
    LLVMBuilderRef b = e->u->builder;
    Warp w = gpu_warp(e, f);
    int piece = number / 4, half = f->columns ? number / 2 % 2 : number % 2, down = f->columns ? piece / f->columns : number / 2;
    LLVMValueRef row = i32_number(e, down * f->high * PIECE_ROWS + 8 * half), column;

    row = sum3(e, LLVMBuildUDiv(b, w.lane, i32_number(e, ROW_LANES), ""), w.high, PIECE_ROWS, row);
    if (!f->columns)
        return (Spot){.at = {LLVMBuildZExt(b, row, i64_type(e), ""), cpu_number(e, 0)}, .strip = -1};
    column = i32_number(e, piece % f->columns * PIECE_COLUMNS + number % 2);
    column = sum3(e, LLVMBuildMul(b, LLVMBuildURem(b, w.lane, i32_number(e, ROW_LANES), ""), i32_number(e, 2), ""), w.wide,
                  f->columns * PIECE_COLUMNS, column);
    return (Spot){.at = {LLVMBuildZExt(b, row, i64_type(e), ""), LLVMBuildZExt(b, column, i64_type(e), "")}, .strip = -1};
}

int gpu_register_at(const CpuCode *e, TileRef v, const Spot *p)
{
    const TileType *t = tile_type(v);

    if (e->gpu->whole.chunk && t->extent[0] == 1 && t->rank == 2)       /* a row for all rows */
        return e->gpu->at_register >= 0 && p->at[1] == e->spot.at[1] && t->extent[1] == e->gpu->fragment[1] ? e->gpu->at_register : -1;
    if (gpu_is_chain(e) && t->extent[0] == 1 && t->rank == 2)           /* beside columns of products */
        return e->gpu->at_register >= 0 && p->at[1] == e->spot.at[1] && t->extent[1] == e->gpu->fragment[1] ?
               e->gpu->at_register / 4 % (t->extent[1] / PIECE_COLUMNS) * 2 + e->gpu->at_register % 2 : -1;
    if (e->gpu->at_register < 0 || p->at[0] != e->spot.at[0] || t->extent[0] != e->gpu->fragment[0])
        return -1;
    if (t->rank == 2 && t->extent[1] == e->gpu->fragment[1])            /* a tile of one column, too */
        return p->at[1] == e->spot.at[1] ? e->gpu->at_register : -1;
    return gpu_is_column(t) ? e->gpu->at_line : -1;
}
