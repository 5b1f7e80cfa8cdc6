/*
 * Vectors between memory and the registers of whole rows (gpu_rows.c).
 *
 * Eight threads' elements lie mixed in memory.  Where a tile lies within its view and aligned, they load vectors, neighbours next to each
 * other, put them into shared memory that is theirs alone, and take their own from there; they store in the same way.
 *
 *     memory    |v0 of thread 0|v0 of thread 1| ... |v0 of thread 7|v1 of thread 0| ...      16 bytes each
 *     registers   element r of thread t is element 8 r + t of the chunk
 *
 * Under fast numerics sums may go in any order, and a thread keeps the vectors that it loads: element r of thread t is element
 * 8 run (r / run) + run t + r % run of the chunk, run the elements of a vector of the narrowest operand.  Nothing is turned then.
 */
#include "codegen/gpu_rows.h"

#include "base/alloc.h"

#include <string.h>

enum { VECTORS_MOST = TILE_REDUCE_MAX * ROW_WIDEST / (GPU_OCTET * ROW_VECTOR) };     /* of pairs, which are half as wide, no more */

/* The tile that an access is of, and the view's bytes of an element. */
static const TileType *accessed(const TileNode *n) { return n->op == TOP_load ? &n->type[0] : tile_type(n->in[n->nin - 1]); }

bool rows_by_vectors(const CpuCode *e, const TileNode *n)
{
    const WholeRows *w = &e->gpu->whole;
    const TileType *view = tile_type(n->in[0]), *t = accessed(n);
    int64_t bytes = row_bytes(row_dtype(n));

    return view->rank == 2 && !n->attr->drop && view->stride[1] == 1 && t->rank == 2 && t->extent[1] == w->columns &&
           (t->extent[0] == w->rows || t->extent[0] == 1) && bytes <= ROW_WIDEST && w->chunk * bytes % (w->each * ROW_VECTOR) == 0 && w->pitch;
}

/* Are all rows of the access aligned as vectors? The answer is the same in all threads. */
LLVMValueRef rows_are_aligned(CpuCode *e, const TileNode *n, LLVMValueRef is)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef none = cpu_number(e, 0), mask = cpu_number(e, ROW_VECTOR - 1), bytes = cpu_number(e, row_bytes(row_dtype(n)));
    Spot first = {.at = {none, none}, .strip = -1};
    LLVMValueRef at = LLVMBuildPtrToInt(b, cpu_place(e, n, &first), i64_type(e), "");

    is = LLVMBuildAnd(b, is, cpu_compare(e, LLVMIntEQ, LLVMBuildAnd(b, at, mask, ""), none), "");
    if (accessed(n)->extent[0] == 1)
        return is;
    at = cpu_op(e, LLVMMul, cpu_val(e, n->in[0])->stride[0], bytes);
    return LLVMBuildAnd(b, is, cpu_compare(e, LLVMIntEQ, LLVMBuildAnd(b, at, mask, ""), none), "");
}

static LLVMTypeRef vector_type(CpuCode *e) { return LLVMVectorType(i32_type(e), ROW_VECTOR / 4); }

int rows_vectors(const CpuCode *e, const TileNode *n)
{
    return (int)(e->gpu->whole.chunk * row_bytes(row_dtype(n)) / (e->gpu->whole.each * ROW_VECTOR));
}

static Spot vector_spot(CpuCode *e, const TileNode *n, const RowPlace *p, int i)
{
    int64_t each = ROW_VECTOR / row_bytes(row_dtype(n));
    Spot s = e->gpu->whole.run > 1 ? rows_spot(e, p, i * (int)each) : (Spot){.strip = -1};

    s.at[0] = accessed(n)->extent[0] == 1 ? cpu_number(e, 0) : p->row;
    if (e->gpu->whole.run == 1) {
        s.at[1] = cpu_op(e, LLVMAdd, cpu_op(e, LLVMMul, p->lane, cpu_number(e, each)), cpu_number(e, i * each * e->gpu->whole.each));
        s.at[1] = cpu_op(e, LLVMAdd, p->column, s.at[1]);
    }
    return s;
}

LLVMValueRef rows_vector_place(CpuCode *e, const TileNode *n, const RowPlace *p, int i)
{
    Spot s = vector_spot(e, n, p, i);

    return cpu_place(e, n, &s);
}

bool rows_end_with_vectors(const TileNode *n)
{
    return n->attr->align * row_bytes(row_dtype(n)) % ROW_VECTOR == 0 && n->attr->align &&
           (n->op == TOP_store || (tile_fills_zeros(n) && !n->attr->i));
}

/* Does vector i lie within the view, whose rows end with a vector? An i1. */
static LLVMValueRef is_inside(CpuCode *e, const TileNode *n, const RowPlace *p, int i)
{
    return cpu_compare(e, LLVMIntSLT, vector_spot(e, n, p, i).at[1], cpu_room(e, n, 1));
}

static void store_vector(CpuCode *e, const TileNode *n, const RowPlace *p, int i, LLVMValueRef x)
{
    GpuIf inside;

    if (e->gpu->whole.ragged)
        inside = gpu_if(e, is_inside(e, n, p, i));
    LLVMSetAlignment(LLVMBuildStore(e->u->builder, x, rows_vector_place(e, n, p, i)), ROW_VECTOR);
    if (e->gpu->whole.ragged)
        gpu_end_if(e, &inside);
}

/* Where the chunk of this thread is turned: nobody else's, whatever is turned there. */
static LLVMValueRef stage_of(CpuCode *e)
{
    LLVMValueRef at;

    if (e->gpu->whole.nstay)
        return rows_stay_stage(e);
    at = LLVMBuildMul(e->u->builder, row_wide(e, rows_octet(e)), cpu_number(e, e->gpu->whole.pitch), "");
    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), e->gpu->whole.stage, &at, 1, "");
}

LLVMValueRef rows_stage_vector(CpuCode *e, LLVMValueRef stage, const RowPlace *p, int i)
{
    LLVMValueRef at = cpu_op(e, LLVMMul, cpu_op(e, LLVMAdd, p->lane, cpu_number(e, i * e->gpu->whole.each)), cpu_number(e, ROW_VECTOR));

    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), stage, &at, 1, "");
}

static LLVMValueRef stage_element(CpuCode *e, const RowPlace *p, int r)
{
    LLVMValueRef first = cpu_op(e, LLVMMul, p->lane, cpu_number(e, e->gpu->whole.wide));

    return cpu_op(e, LLVMAdd, first, cpu_number(e, rows_behind_first(e, r)));
}

/* Of pairs: the two elements from register r on, in a chunk's room. */
static LLVMValueRef pair_place(CpuCode *e, DType dt, LLVMValueRef stage, const RowPlace *p, int r)
{
    LLVMValueRef at = cpu_op(e, LLVMMul, stage_element(e, p, r), cpu_number(e, row_bytes(dt)));

    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), stage, &at, 1, "");
}

void rows_stage_store(CpuCode *e, DType dt, const RowPlace *p, LLVMValueRef *raw, int r)
{
    int wide = e->gpu->whole.wide, first = r + 1 - wide;
    LLVMValueRef both;

    if (wide == 1) {
        lanes_store(e->u, dt, stage_of(e), stage_element(e, p, r), raw[r], 1);
    } else {
        both = LLVMBuildStore(e->u->builder, lanes_side_by_side(e->u, dt, &raw[first], wide), pair_place(e, dt, stage_of(e), p, first));
        LLVMSetAlignment(both, (unsigned)(wide * row_bytes(dt)));
    }
    memset(&raw[first], 0, sizeof *raw * (size_t)wide);
}

/* The elements of registers from r on, as many as lie side by side. */
static void take_staged(CpuCode *e, DType dt, LLVMValueRef stage, const RowPlace *p, int r, LLVMValueRef *y)
{
    int wide = e->gpu->whole.wide;
    LLVMValueRef x;

    if (wide == 1) {
        *y = lanes_of_raw(e->u, dt, lanes_load(e->u, dt, stage, stage_element(e, p, r), 1), 1);
        return;
    }
    x = LLVMBuildLoad2(e->u->builder, code_type(e->u, dt, wide), pair_place(e, dt, stage, p, r), "");
    LLVMSetAlignment(x, (unsigned)(wide * row_bytes(dt)));
    x = lanes_of_raw(e->u, dt, x, wide);
    for (int i = 0; i < wide; i++)
        y[i] = lane_get(e->u, x, i, wide);
}

static LLVMValueRef first_of_row(CpuCode *e, const TileNode *n, const RowPlace *p)
{
    Spot s = {.at = {accessed(n)->extent[0] == 1 ? cpu_number(e, 0) : p->row, cpu_number(e, 0)}, .strip = -1};

    return cpu_place(e, n, &s);
}

LLVMValueRef rows_vector_within(CpuCode *e, const TileNode *n, const RowPlace *p, int i, int64_t further, LLVMValueRef at)
{
    LLVMValueRef column = cpu_op(e, LLVMAdd, vector_spot(e, n, p, i).at[1], cpu_number(e, further));

    return cpu_choose(e, cpu_compare(e, LLVMIntSLT, column, cpu_room(e, n, 1)), at, first_of_row(e, n, p));
}

static void load_vectors(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef *x)
{
    for (int i = 0; i < rows_vectors(e, n); i++) {
        LLVMValueRef inside = e->gpu->whole.ragged ? is_inside(e, n, p, i) : NULL, at = rows_vector_place(e, n, p, i);
        if (inside)                             /* the row's first one is there, so nobody waits to know */
            at = cpu_choose(e, inside, at, first_of_row(e, n, p));
        x[i] = LLVMBuildLoad2(e->u->builder, vector_type(e), at, "");
        LLVMSetAlignment(x[i], ROW_VECTOR);
        x[i] = inside ? cpu_choose(e, inside, x[i], LLVMConstNull(vector_type(e))) : x[i];
    }
}

/* The elements of one as registers. */
static void spread_vector(CpuCode *e, DType dt, LLVMValueRef x, LLVMValueRef *y)
{
    int each = ROW_VECTOR / (int)row_bytes(dt);

    x = LLVMBuildBitCast(e->u->builder, x, code_type(e->u, dt, each), "");
    x = lanes_of_raw(e->u, dt, x, each);
    for (int i = 0; i < each; i++)
        y[i] = lane_get(e->u, x, i, each);
}

/* Registers of vectors that have their elements side by side. */
static void keep_vectors(CpuCode *e, const TileNode *n, LLVMValueRef *x)
{
    int each = ROW_VECTOR / (int)row_bytes(row_dtype(n)), registers = rows_registers(e);
    LLVMValueRef *y = arena_alloc(&e->gpu->arena, sizeof *y * (size_t)registers);

    for (int r = 0; r < registers; r += each)
        spread_vector(e, row_dtype(n), x[r / each], &y[r]);
    cpu_val(e, (TileRef){(TileNode *)n, 0})->fragment = y;
}

static LLVMValueRef staged_vector(CpuCode *e, LLVMValueRef stage, const RowPlace *p, int i)
{
    LLVMValueRef x = LLVMBuildLoad2(e->u->builder, vector_type(e), rows_stage_vector(e, stage, p, i), "");

    LLVMSetAlignment(x, ROW_VECTOR);
    return x;
}

void rows_take(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef stage)
{
    DType dt = row_dtype(n);
    int registers = rows_registers(e);
    LLVMValueRef *y = arena_alloc(&e->gpu->arena, sizeof *y * (size_t)registers), x[VECTORS_MOST];

    if (e->gpu->whole.run > 1) {
        for (int i = 0; i < rows_vectors(e, n); i++)
            x[i] = staged_vector(e, stage, p, i);
        keep_vectors(e, n, x);
        return;
    }
    for (int r = 0; r < registers; r += e->gpu->whole.wide)
        take_staged(e, dt, stage, p, r, &y[r]);
    cpu_val(e, (TileRef){(TileNode *)n, 0})->fragment = y;
}

/* Vectors of a load become registers, which its value has from then on. */
static void turn_vectors(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef *x)
{
    LLVMValueRef stage;

    if (e->gpu->whole.run > 1) {
        keep_vectors(e, n, x);
        return;
    }
    stage = stage_of(e);
    gpu_warp_fence(e);
    for (int i = 0; i < rows_vectors(e, n); i++)
        LLVMSetAlignment(LLVMBuildStore(e->u->builder, x[i], rows_stage_vector(e, stage, p, i)), ROW_VECTOR);
    gpu_warp_fence(e);
    rows_take(e, n, p, stage);
}

/* One row for all of them: it lies in shared memory for the group, but where that would leave room for few groups. */
static bool is_same_row(const CpuCode *e, const TileNode *n)
{
    bool alone = e->gpu->whole.rows == 1 && n->block != &e->k->body;            /* nobody waits for others in a loop, then */

    if (e->gpu->whole.nstay)
        return tile_type(n->in[0])->stride[0] == 0;
    return tile_type(n->in[0])->stride[0] == 0 && !alone && (e->gpu->whole.rows > 1 || row_bytes(row_dtype(n)) < 4);
}

/* This thread's chunk of new room for such a row. */
static LLVMValueRef near_room(CpuCode *e, const TileNode *n)
{
    int64_t pitch = rows_pitch(&e->gpu->whole, row_bytes(row_dtype(n)));
    LLVMValueRef base = cpu_buffer(e, e->gpu->whole.here * pitch), chunk;

    chunk = LLVMBuildURem(e->u->builder, rows_octet(e), i32_number(e, e->gpu->whole.here), "");
    chunk = LLVMBuildMul(e->u->builder, row_wide(e, chunk), cpu_number(e, pitch), "");
    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), base, &chunk, 1, "");
}

/* A row at a place that is known from the start; those that end with a vector before their chunks do are loaded as such, but by blocks that stay. */
static bool is_known_early(CpuCode *e, const TileNode *n)
{
    if (n->op != TOP_load || !rows_by_vectors(e, n) || (rows_end_with_vectors(n) && !e->gpu->whole.nstay) || !is_same_row(e, n))
        return false;
    for (int i = 1; i < n->nin; i++)
        if (n->in[i].node->op != TOP_index || !cpu_val(e, n->in[i])->x)
            return false;
    return true;
}

void rows_send_near(CpuCode *e)
{
    WholeRows *w = &e->gpu->whole;
    RowPlace p = rows_place(e);

    for (const TileNode *n = e->k->body.first; n && !e->gpu->copies && !w->ahead; n = n->next) {
        LLVMValueRef may, none = cpu_number(e, 0), room, at;
        if (w->nsent == SENT_MOST || !is_known_early(e, n))
            continue;
        room = near_room(e, n);
        may = rows_are_aligned(e, n, cpu_compare(e, LLVMIntSGE, cpu_room(e, n, 1), cpu_number(e, rows_end_with_vectors(n) ? 1 : w->columns)));
        GpuIf first = gpu_if(e, LLVMBuildAnd(e->u->builder, may, cpu_compare(e, LLVMIntEQ, p.row, none), ""));
        for (int i = 0; i < rows_vectors(e, n); i++) {
            at = rows_vector_place(e, n, &p, i);
            at = rows_end_with_vectors(n) ? rows_vector_within(e, n, &p, i, 0, at) : at;
            gpu_copy_piece(e, rows_stage_vector(e, room, &p, i), at, true);
        }
        gpu_end_if(e, &first);
        if (w->nstay) {
            first = gpu_if(e, LLVMBuildNot(e->u->builder, may, ""));
            rows_bring_by_elements(e, n, &p, room);
            gpu_end_if(e, &first);
        }
        w->sent[w->nsent] = n;
        w->sent_to[w->nsent++] = room;
    }
    if (w->nsent)
        gpu_commit_copies(e);
}

/* The threads of the first row bring it, or have sent for it. */
static Near bring_near(CpuCode *e, const TileNode *n, const RowPlace *p)
{
    const WholeRows *w = &e->gpu->whole;
    LLVMValueRef x[VECTORS_MOST];
    Near near = {n, NULL};
    GpuIf first;

    for (int i = 0; i < w->nsent && !near.stage; i++)
        near.stage = w->sent[i] == n ? w->sent_to[i] : NULL;
    if (near.stage) {
        gpu_wait_copies(e, 0);
        return near;
    }
    near.stage = near_room(e, n);
    first = gpu_if(e, cpu_compare(e, LLVMIntEQ, p->row, cpu_number(e, 0)));
    load_vectors(e, n, p, x);
    for (int i = 0; i < rows_vectors(e, n); i++)
        LLVMSetAlignment(LLVMBuildStore(e->u->builder, x[i], rows_stage_vector(e, near.stage, p, i)), ROW_VECTOR);
    gpu_end_if(e, &first);
    return near;
}

/* This thread's element of each near row, for the register at hand. */
void rows_take_near(CpuCode *e, const Nears *near, const RowPlace *p, int r)
{
    for (int i = 0; i < near->n; i++) {
        DType dt = row_dtype(near->at[i].node);
        LLVMValueRef **y = &cpu_val(e, (TileRef){(TileNode *)near->at[i].node, 0})->fragment;
        if (!*y)
            *y = arena_alloc(&e->gpu->arena, sizeof **y * (size_t)rows_registers(e));
        if (e->gpu->whole.run > 1 && r % (ROW_VECTOR / row_bytes(dt)) == 0)
            spread_vector(e, dt, staged_vector(e, near->at[i].stage, p, r / (int)(ROW_VECTOR / row_bytes(dt))), &(*y)[r]);
        else if (e->gpu->whole.run == 1 && r % e->gpu->whole.wide == 0)
            take_staged(e, dt, near->at[i].stage, p, r, &(*y)[r]);
    }
}

/* All vectors from afar are under way before the first is turned. */
void rows_load(CpuCode *e, const Cluster *c, const RowPlace *p, Nears *near)
{
    LLVMValueRef (*x)[VECTORS_MOST] = tsr_calloc(sizeof *x * (size_t)(c->nodes.n + 1));

    for (int far = 1; far >= 0; far--)
        for (int i = 0; i < c->nodes.n; i++) {
            const TileNode *n = c->nodes.at[i];
            bool elsewhere = rows_come_ahead(e, n) || rows_is_held(e, n) || rows_stays(e, n);
            if (n->op != TOP_load || !rows_by_vectors(e, n) || elsewhere || is_same_row(e, n) == far)
                continue;
            if (far)
                load_vectors(e, n, p, x[i]);
            else
                vec_push(near, bring_near(e, n, p));
        }
    rows_bring(e, c, p);
    rows_take_held(e, c, p);
    rows_take_stay(e, c, p);
    for (int i = 0; i < c->nodes.n; i++)
        if (x[i][0])
            turn_vectors(e, c->nodes.at[i], p, x[i]);
    if (near->n && e->gpu->whole.rows > 1) {
        gpu_written(e);
        gpu_fence(e);
    } else {                                    /* of a row's only threads each eight have brought their own */
        gpu_warp_fence(e);
    }
    tsr_free(x);
}

void rows_forget(CpuCode *e, const Cluster *c)
{
    for (int i = 0; i < c->nodes.n; i++)
        if (c->nodes.at[i]->op == TOP_load)
            cpu_val(e, (TileRef){(TileNode *)c->nodes.at[i], 0})->fragment = NULL;
}

static void store_vectors(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef stage)
{
    for (int i = 0; i < rows_vectors(e, n); i++)
        store_vector(e, n, p, i, staged_vector(e, stage, p, i));
}

/* Raw elements: of each register, NULL where they are in place already. */
void rows_store_turned(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef *raw)
{
    DType dt = row_dtype(n);
    LLVMValueRef stage = stage_of(e);
    bool done = !raw[0];

    gpu_warp_fence(e);
    for (int r = e->gpu->whole.wide - 1; !done && r < rows_registers(e); r += e->gpu->whole.wide)
        rows_stage_store(e, dt, p, raw, r);
    if (!done)
        gpu_warp_fence(e);
    if (e->gpu->whole.nstay) {
        GpuIf apart = gpu_if(e, LLVMBuildNot(e->u->builder, e->gpu->whole.sent_for, ""));
        rows_store_by_elements(e, n, p);
        gpu_end_if(e, &apart);
        apart = gpu_if(e, e->gpu->whole.sent_for);
        store_vectors(e, n, p, stage);
        gpu_end_if(e, &apart);
    } else {
        store_vectors(e, n, p, stage);
    }
}

/* The vector whose last element is that of register r, stored; raw: of each register. */
void rows_store_run(CpuCode *e, const TileNode *n, const RowPlace *p, LLVMValueRef *raw, int r)
{
    DType dt = row_dtype(n);
    int each = ROW_VECTOR / (int)row_bytes(dt);
    LLVMValueRef x = lanes_side_by_side(e->u, dt, &raw[r + 1 - each], each);

    store_vector(e, n, p, r / each, x);
}
