/*
 * What follows products by warpgroups: loads by predicates, and stores of whole tiles, which go through shared memory by tensor copies.
 *
 * A long formula of a value of two bytes is computed on its way: the value is put where the result will be, and a loop goes over it, 32 bytes of a
 * lane at a time.  As straight code for all registers of a thread it would be more than processors have caches of instructions for.
 */
#include "codegen/gpu_roles.h"

#include "codegen/cpu_lane.h"
#include "codegen/formula.h"

#include "base/alloc.h"

enum { SLOT_PIECE = 16, SOME = 8 };     /* bytes of a piece; registers that are computed together */

/*
 * By predicates instead of branches, of which there would be as many as registers. What lies in memory that nobody stores to may be loaded once
 * for all.
 */
LLVMValueRef roles_load_if(CpuCode *e, LLVMValueRef place, LLVMValueRef inside, LLVMValueRef fill)
{
    LLVMTypeRef t = LLVMTypeOf(fill), word;
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef is = LLVMBuildZExt(b, inside, i32_type(e), ""), x, in[3] = {NULL, is, NULL};
    bool own = roles(e)->reads_own;
    StrBuf text = {0}, constraints = {0};
    unsigned bits = LLVMGetTypeKind(t) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(t) : LLVMGetTypeKind(t) == LLVMFloatTypeKind ? 32 : 64;
    char letter = bits == 64 ? 'l' : bits == 32 ? 'r' : 'h';

    word = LLVMIntTypeInContext(e->u->context, bits == 8 ? 16 : bits);
    in[0] = LLVMBuildPtrToInt(b, place, i64_type(e), "");
    x = LLVMBuildBitCast(b, fill, LLVMIntTypeInContext(e->u->context, bits), "");
    in[2] = LLVMBuildZExtOrBitCast(b, x, word, "");
    sb_printf(&text, "{\n.reg .pred P;\nsetp.ne.b32 P, $2, 0;\nmov.b%u $0, $3;\n", bits == 8 ? 16 : bits);
    sb_printf(&text, "@P ld.%c%u $0, [$1];\n}", bits == 8 ? 'u' : 'b', bits);
    sb_printf(&constraints, "=&%c,l,r,%c%s", letter, letter, own ? ",~{memory}" : "");
    x = gpu_assembly(e, word, sb_str(&text), sb_str(&constraints), in, 3, own);
    if (!own)
        gpu_assembly_pure(e, x);
    sb_done(&text);
    sb_done(&constraints);
    return LLVMBuildBitCast(b, LLVMBuildTruncOrBitCast(b, x, LLVMIntTypeInContext(e->u->context, bits), ""), t, "");
}

/* ---- stores ---- */

/* Registers of a tile as words of memory: two of 16 bits a word. *v is what the registers are of, which may be what is yet to be converted. */
bool role_packs(TileRef *v, DType dt)
{
    const TileNode *n = v->node;

    if (!tile_converts_plainly(n) || (dt != DT_bf16 && dt != DT_f16) || tile_type(n->in[0])->dtype != DT_f32 || tile_type(n->in[0])->rank != 2)
        return false;
    *v = n->in[0];
    return true;
}

LLVMValueRef role_word(CpuCode *e, DType dt, bool pack, LLVMValueRef low, LLVMValueRef high)
{
    LLVMBuilderRef b = e->u->builder;

    if (pack)
        return gpu_pack(e, dt, low, high);
    low = LLVMBuildZExt(b, lanes_to_raw(e->u, dt, low, 1), i32_type(e), "");
    high = LLVMBuildZExt(b, lanes_to_raw(e->u, dt, high, 1), i32_type(e), "");
    return LLVMBuildOr(b, low, LLVMBuildShl(b, high, i32_number(e, 16), ""), "");
}

typedef struct Slabs {
    const RoleStore *s;
    DType dt;
    bool pack;
    int bytes, columns;         /* of an element; of a slab */
    LLVMValueRef lane, row, turn;       /* row: of a slab, that this lane writes; turn: how its pieces are permuted */
    LLVMValueRef slots;         /* this warpgroup's */
} Slabs;

/* 16-byte pieces are permuted by bits of the row's number, as TMA does it. */
static LLVMValueRef turn_of(CpuCode *e, int span, LLVMValueRef row)
{
    int shift = span == 128 ? 0 : span == 64 ? 1 : 2;

    return op32(e, LLVMAnd, op32(e, LLVMLShr, row, shift), span / 16 - 1);
}

static LLVMValueRef piece_at(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef row, LLVMValueRef turn, LLVMValueRef piece)
{
    LLVMValueRef at = plus(e, slot, op32(e, LLVMMul, row, s->s->span));

    return plus(e, at, op32(e, LLVMShl, LLVMBuildXor(e->u->builder, piece, turn, ""), 4));
}

LLVMValueRef role_warp_row(CpuCode *e)
{
    return op32(e, LLVMMul, op32(e, LLVMAnd, op32(e, LLVMLShr, e->gpu->thread, 5), 3), 16);
}

/* The words of one slab, of 16 bits: four matrices at a time. */
static void put_halves(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef *word)
{
    LLVMValueRef row = plus(e, role_warp_row(e), op32(e, LLVMAnd, s->lane, 15)), turn = turn_of(e, s->s->span, row);

    for (int c = 0; c < s->columns / 16; c++)
        gpu_store_matrices(e, piece_at(e, s, slot, row, turn, op32(e, LLVMAdd, op32(e, LLVMLShr, s->lane, 4), 2 * c)), word + (size_t)c * 4);
}

/* The same of 32 or 8 bits: two neighbours at a time. */
static void put_pairs(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef *x)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef word = LLVMIntTypeInContext(e->u->context, 8 * (unsigned)s->bytes), two = LLVMVectorType(word, 2);
    LLVMTypeRef shared = LLVMPointerTypeInContext(e->u->context, 3);
    int pair = 2 * s->bytes, four = 4 * pair;   /* bytes of a lane's two elements, of a row's eight */

    for (int h = 0; h < 2; h++) {
        LLVMValueRef row = op32(e, LLVMAdd, plus(e, role_warp_row(e), op32(e, LLVMLShr, s->lane, 2)), 8 * h), turn = turn_of(e, s->s->span, row);
        for (int j = 0; j < s->columns / 8; j++) {
            LLVMValueRef byte = op32(e, LLVMAdd, op32(e, LLVMMul, op32(e, LLVMAnd, s->lane, 3), pair), (int64_t)j * four);
            LLVMValueRef at = piece_at(e, s, slot, row, turn, op32(e, LLVMLShr, byte, 4)), v = LLVMGetUndef(two);
            at = plus(e, at, op32(e, LLVMAnd, byte, 15));
            for (int c = 0; c < 2; c++) {
                LLVMValueRef raw = lanes_to_raw(e->u, s->dt, x[4 * j + 2 * h + c], 1);
                v = LLVMBuildInsertElement(b, v, LLVMBuildBitCast(b, raw, word, ""), i32_number(e, c), "");
            }
            LLVMSetAlignment(LLVMBuildStore(b, v, LLVMBuildIntToPtr(b, at, shared, "")), (unsigned)pair);
        }
    }
}

/* ---- formulas ---- */

static bool is_seed(const TileType *t)
{
    return t->rank == 2 && dtype_is_float((DType)t->dtype) && !is_packed((DType)t->dtype) && raw_size((DType)t->dtype) == 2;
}

/* Does v follow from one value of two bytes and from numbers alone? *seed: that value; *cost: instructions from there on, few of fast ones. */
static bool follows_from(TileRef v, TileRef whole, TileRef *seed, int *cost)
{
    const TileNode *n = v.node;
    const TileType *t = tile_type(v), *all = tile_type(whole);

    if (t->rank == 0 || (n->op == TOP_splat && tile_type(n->in[0])->rank == 0))
        return true;
    if (t->rank != 2 || t->extent[0] != all->extent[0] || t->extent[1] != all->extent[1])
        return false;
    if (n != whole.node && is_seed(t)) {
        if (seed->node && !cpu_same(*seed, v))
            return false;
        *seed = v;
        return true;
    }
    if (n->op != TOP_map)
        return false;
    *cost += n->attr->fast ? 1 : formula_cost((OpId)n->attr->op, (DType)t->dtype);
    for (int i = 0; i < n->nin; i++)
        if (!follows_from(n->in[i], whole, seed, cost))
            return false;
    return true;
}

TileRef role_seed(TileRef v, int span)
{
    TileRef seed = {NULL, 0}, none = {NULL, 0};
    int cost = 0;

    return span >= 64 && is_seed(tile_type(v)) && follows_from(v, v, &seed, &cost) && seed.node && cost >= LONG_FORMULA ? seed : none;
}

/* The address of a piece of a slot that this lane goes over: of the rows from `first` on of its warp. */
static LLVMValueRef own_piece(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef first)
{
    int pieces = s->s->span / SLOT_PIECE;
    LLVMValueRef row = plus(e, plus(e, role_warp_row(e), first), op32(e, LLVMUDiv, s->lane, pieces));
    LLVMValueRef at = piece_at(e, s, slot, row, turn_of(e, s->s->span, row), op32(e, LLVMURem, s->lane, pieces));

    return LLVMBuildIntToPtr(e->u->builder, at, LLVMPointerTypeInContext(e->u->context, 3), "");
}

LLVMValueRef role_formula(CpuCode *e, TileRef v, TileRef seed, LLVMValueRef x, int width)
{
    LLVMValueRef y;

    e->width = width;
    e->spot = (Spot){.at = {cpu_number(e, 0), cpu_number(e, 0)}, .strip = 1};
    e->known.n = 0;
    vec_push(&e->known, ((Known){seed.node, e->spot, {NULL, x}}));
    y = cpu_raw(e, v, &e->spot);
    e->width = 1;
    e->known.n = 0;
    return y;
}

/* The formula v of what this warp has put into a slot, in its place; places of elements do not matter to it. */
static void go_over(CpuCode *e, const Slabs *s, LLVMValueRef slot, TileRef v, TileRef seed)
{
    enum { TOGETHER = 2, HALVES = SLOT_PIECE / 2 };     /* pieces of a round; elements of a piece */
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef raw = LLVMVectorType(LLVMInt16TypeInContext(e->u->context), HALVES);
    int rows = GPU_WARP / (s->s->span / SLOT_PIECE);    /* that the lanes have at once */
    LLVMValueRef place[TOGETHER], x[TOGETHER], number[TOGETHER * HALVES], y;
    CpuLoop l;

    for (int i = 0; i < TOGETHER * HALVES; i++)
        number[i] = i32_number(e, i);
    e->gpu->in_order = true;
    gpu_warp_fence(e);
    l = cpu_loop(e, cpu_number(e, 0), wide(e, gpu_anew(e, i32_number(e, PIECE_ROWS))), cpu_number(e, TOGETHER * rows));
    for (int k = 0; k < TOGETHER; k++) {
        place[k] = own_piece(e, s, slot, op32(e, LLVMAdd, narrow(e, l.i), (int64_t)k * rows));
        x[k] = LLVMBuildLoad2(b, raw, place[k], "");
        LLVMSetAlignment(x[k], SLOT_PIECE);
    }
    y = LLVMBuildShuffleVector(b, x[0], x[1], LLVMConstVector(number, TOGETHER * HALVES), "");
    y = role_formula(e, v, seed, y, TOGETHER * HALVES);
    for (int k = 0; k < TOGETHER; k++)
        LLVMSetAlignment(LLVMBuildStore(b, LLVMBuildShuffleVector(b, y, y, LLVMConstVector(number + k * HALVES, HALVES), ""), place[k]), SLOT_PIECE);
    cpu_loop_end(e, &l);
}

/*
 * Where a warp meets numbers that are not in the table: word by word, which is little code, as each slab has its own, and processors have
 * small caches of instructions.
 */
static void compute_words(CpuCode *e, const Slabs *s, LLVMValueRef slot, TileRef v, TileRef seed)
{
    enum { WORDS = SLOT_PIECE / 4 };
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef two = LLVMVectorType(LLVMInt16TypeInContext(e->u->context), 2);
    int rows = GPU_WARP / (s->s->span / SLOT_PIECE), words = PIECE_ROWS / rows * WORDS;
    CpuLoop l = cpu_loop(e, cpu_number(e, 0), wide(e, gpu_anew(e, i32_number(e, words))), cpu_number(e, 1));
    LLVMValueRef i = narrow(e, l.i), at = op32(e, LLVMAnd, i, WORDS - 1), x;
    LLVMValueRef place = own_piece(e, s, slot, op32(e, LLVMMul, op32(e, LLVMUDiv, i, WORDS), rows));

    place = LLVMBuildGEP2(b, two, place, &at, 1, "");
    x = LLVMBuildLoad2(b, two, place, "");
    LLVMSetAlignment(x, 4);
    LLVMSetAlignment(LLVMBuildStore(b, role_formula(e, v, seed, x, 2), place), 4);
    cpu_loop_end(e, &l);
}

/* What this warp has put into a slot, looked up. */
static void look_over(CpuCode *e, const Slabs *s, LLVMValueRef slot, TileRef v, TileRef seed)
{
    enum { WORDS = SLOT_PIECE / 4, PIECES_MOST = PIECE_ROWS };
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef four = LLVMVectorType(i32_type(e), WORDS);
    int rows = GPU_WARP / (s->s->span / SLOT_PIECE), pieces = PIECE_ROWS / rows;
    LLVMValueRef place[PIECES_MOST], word[PIECES_MOST * WORDS], found;
    LLVMBasicBlockRef there = cpu_block(e), beyond = cpu_block(e), done = cpu_block(e);

    gpu_warp_fence(e);
    for (int k = 0; k < pieces; k++) {
        place[k] = own_piece(e, s, slot, i32_number(e, (int64_t)k * rows));
        LLVMValueRef x = LLVMBuildLoad2(b, four, place[k], "");
        LLVMSetAlignment(x, SLOT_PIECE);
        for (int i = 0; i < WORDS; i++)
            word[k * WORDS + i] = LLVMBuildExtractElement(b, x, i32_number(e, i), "");
    }
    found = role_find_in_table(e, word, pieces * WORDS);
    LLVMBuildCondBr(b, found, there, beyond);
    LLVMPositionBuilderAtEnd(b, there);
    for (int k = 0; k < pieces; k++) {
        LLVMValueRef x = LLVMGetUndef(four);
        for (int i = 0; i < WORDS; i++)
            x = LLVMBuildInsertElement(b, x, word[k * WORDS + i], i32_number(e, i), "");
        LLVMSetAlignment(LLVMBuildStore(b, x, place[k]), SLOT_PIECE);
    }
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, beyond);
    compute_words(e, s, slot, v, seed);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
}

/* ---- slabs ---- */

/* Where a row of the tile is, along the axes of its box: they are powers of two, and go from the second one on. */
static void step_to_row(CpuCode *e, const RoleStore *s, LLVMValueRef row, LLVMValueRef *at)
{
    const TileType *t = tile_type(s->store->in[s->store->nin - 1]);

    if (!s->box[1]) {
        at[1] = plus(e, at[1], row);
        return;
    }
    for (int i = 1; i < t->rank; i++) {
        int extent = t->extent[t->rank - 1 - i];
        at[i] = plus(e, at[i], op32(e, LLVMAnd, row, extent - 1));
        row = op32(e, LLVMUDiv, row, extent);
    }
}

static void send_slab(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef row, int64_t column)
{
    const TileNode *n = s->s->store;
    LLVMValueRef at[MAP_AXES];
    int rank;

    role_coordinates(e, n, s->s->axes, at);
    at[0] = op32(e, LLVMAdd, at[0], column);
    step_to_row(e, s->s, row, at);
    rank = role_end_rows(e, n, s->s->part, s->s->axes.second, GROUP_ROWS, at);
    gpu_tensor_store(e, roles(e)->map[s->s->map], at, rank, slot);
    gpu_tensor_commit(e);
}

/* What is inside the view of a slab whose rows begin before the first one: by the warpgroup's threads, two a row. */
static void store_rows(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef first, int64_t column)
{
    enum { A_ROW = GROUP_THREADS / GROUP_ROWS };
    const TileNode *n = s->s->store;
    const Val *v = cpu_val(e, n->in[0]);
    LLVMBuilderRef b = e->u->builder;
    int rank = tile_type(n->in[0])->rank, pieces = s->s->span / SLOT_PIECE / A_ROW, elements = SLOT_PIECE / s->bytes;
    LLVMTypeRef raw = LLVMVectorType(LLVMIntTypeInContext(e->u->context, 8 * (unsigned)s->bytes), (unsigned)elements);
    LLVMTypeRef one = LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), (uint64_t)s->bytes);
    LLVMValueRef thread = op32(e, LLVMAnd, e->gpu->thread, GROUP_THREADS - 1), slab_row = op32(e, LLVMAnd, thread, GROUP_ROWS - 1);
    LLVMValueRef row = LLVMBuildSExt(b, plus(e, first, slab_row), i64_type(e), ""), inside;
    LLVMValueRef at = cpu_op(e, LLVMMul, row, v->stride[s->s->axes.second]);
    LLVMValueRef part = op32(e, LLVMMul, op32(e, LLVMLShr, thread, 6), pieces), turn = turn_of(e, s->s->span, slab_row);

    inside = LLVMBuildAnd(b, cpu_compare(e, LLVMIntSGE, row, cpu_number(e, 0)), cpu_compare(e, LLVMIntSLT, row, v->extent[s->s->axes.second]), "");
    for (int i = 0; i < rank - 1; i++)
        at = i == s->s->axes.second ? at : cpu_op(e, LLVMAdd, at, cpu_op(e, LLVMMul, cpu_val(e, n->in[1 + i])->x, v->stride[i]));
    for (int j = 0; j < pieces; j++) {
        LLVMValueRef piece = op32(e, LLVMAdd, part, j), from = piece_at(e, s, slot, slab_row, turn, piece), x;
        x = LLVMBuildLoad2(b, raw, LLVMBuildIntToPtr(b, from, LLVMPointerTypeInContext(e->u->context, 3), ""), "");
        LLVMSetAlignment(x, SLOT_PIECE);
        for (int i = 0; i < elements; i++) {
            LLVMValueRef c = cpu_op(e, LLVMAdd, wide(e, op32(e, LLVMMul, piece, elements)), cpu_number(e, column + i)), place;
            c = cpu_op(e, LLVMAdd, cpu_val(e, n->in[rank])->x, c);
            place = cpu_op(e, LLVMAdd, at, c);
            place = LLVMBuildGEP2(b, one, v->x, &place, 1, "");
            gpu_store_if(e, s->dt, place, LLVMBuildAnd(b, inside, cpu_compare(e, LLVMIntSLT, c, v->extent[rank - 1]), ""),
                         LLVMBuildExtractElement(b, x, i32_number(e, i), ""));
        }
    }
}

/* One slab of a slot, on its way by tensor copies if it may be. one: is this thread the one that sends it? */
static void store_slab(CpuCode *e, const Slabs *s, LLVMValueRef slot, LLVMValueRef row, int64_t column, LLVMValueRef one)
{
    LLVMValueRef at[TILE_RANK_MAX], first, before, rows;
    GpuIf sends;

    if (s->s->before) {
        role_coordinates(e, s->s->store, s->s->axes, at);
        first = plus(e, at[1], row);
        before = LLVMBuildICmp(e->u->builder, LLVMIntSLT, first, i32_number(e, 0), "");
        one = LLVMBuildAnd(e->u->builder, one, LLVMBuildNot(e->u->builder, before, ""), "");
        rows = LLVMBuildICmp(e->u->builder, LLVMIntSGT, first, i32_number(e, -GROUP_ROWS), "");
        GpuIf some = gpu_if(e, LLVMBuildAnd(e->u->builder, before, rows, ""));
        store_rows(e, s, slot, first, column);
        gpu_end_if(e, &some);
    }
    sends = gpu_if(e, one);
    send_slab(e, s, slot, row, column);
    gpu_end_if(e, &sends);
}

/*
 * A tile on its way. whole: what is stored; seed: what that is a long formula of, or none; v: what registers are of; x: those of a slab, of
 * elements of two bytes words.
 */
typedef struct Sent { Slabs s; TileRef whole, seed, v; LLVMValueRef *x; } Sent;

static Sent sent_of(CpuCode *e, const RoleStore *store, LLVMValueRef own)
{
    Sent t = {.s = {.s = store}, .whole = role_stored(store->store)};

    t.seed = role_seed(t.whole, store->span);
    t.v = t.seed.node ? t.seed : t.whole;
    t.s.dt = (DType)tile_type(t.v)->dtype;
    t.s.pack = role_packs(&t.v, t.s.dt);
    t.s.bytes = (int)raw_size(t.s.dt);          /* of the seed as of what is stored */
    t.s.columns = store->span / t.s.bytes;
    t.x = arena_array(&e->gpu->arena, LLVMValueRef, t.s.columns / 2);
    t.s.lane = op32(e, LLVMAnd, e->gpu->thread, GPU_WARP - 1);
    t.s.slots = plus(e, roles(e)->base, op32(e, LLVMAdd, op32(e, LLVMMul, own, OUT_SLOTS * (int64_t)GROUP_ROWS * store->span), roles(e)->slots));
    return t;
}

/* A few registers of a slab. */
static void compute(CpuCode *e, Sent *t, const Fragment *f, int first, int at, int n)
{
    LLVMValueRef *x = t->s.bytes == 2 ? arena_array(&e->gpu->arena, LLVMValueRef, n) : t->x + at;

    gpu_fragment_some(e, t->v, f, first + at, n, x);
    for (int i = 0; t->s.bytes == 2 && i < n; i += 2)
        t->x[(at + i) / 2] = gpu_anew(e, role_word(e, t->s.dt, t->s.pack, x[i], x[i + 1]));       /* here: what it is made of takes more registers */
}

/* The number'th slab of the warpgroup, whose registers are there. */
static void send(CpuCode *e, const Sent *t, int number, LLVMValueRef one, LLVMValueRef barrier, LLVMValueRef row, int64_t column)
{
    LLVMValueRef slot = op32(e, LLVMAdd, t->s.slots, number % OUT_SLOTS * (int64_t)GROUP_ROWS * t->s.s->span);
    GpuIf waits = gpu_if(e, one);

    gpu_tensor_wait(e, number ? OUT_SLOTS - 1 : 0, true);
    gpu_end_if(e, &waits);
    gpu_named_barrier(e, barrier, GROUP_THREADS);
    if (t->s.bytes == 2)
        put_halves(e, &t->s, slot, t->x);
    else
        put_pairs(e, &t->s, slot, t->x);
    if (t->seed.node)
        (cpu_same(t->whole, roles(e)->tabled) ? look_over : go_over)(e, &t->s, slot, t->whole, t->seed);
    gpu_proxy_fence(e);
    gpu_named_barrier(e, barrier, GROUP_THREADS);
    store_slab(e, &t->s, slot, row, column, one);
}

void role_store_tiles(CpuCode *e, const RoleStore *store, int n)
{
    Roles *r = roles(e);
    LLVMValueRef group = role_warpgroup(e), own = plus(e, op32(e, LLVMMul, r->set, r->threads / GROUP_THREADS), group), one, barrier, row;
    LLVMValueRef thread = e->gpu->thread;
    Sent *sent = arena_array(&e->gpu->arena, Sent, n);
    int number = 0;
    Fragment f;

    if (store->before)                          /* where this thread's part lies takes no registers in the loops before */
        e->gpu->thread = gpu_anew(e, thread);
    barrier = op32(e, LLVMAdd, own, SLOT_BARRIER);
    for (int i = 0; i < n; i++)
        sent[i] = sent_of(e, &store[i], own);
    gpu_fragment_of(e, tile_type(sent->v), &f);
    one = LLVMBuildICmp(e->u->builder, LLVMIntEQ, op32(e, LLVMAnd, e->gpu->thread, GROUP_THREADS - 1), i32_number(e, 0), "");
    for (int p = 0; p < f.rows; p++) {
        role_take_late(e, p + 1);
        for (int c = 0; c < f.columns * PIECE_COLUMNS; c += sent->s.columns) {
            row = op32(e, LLVMAdd, op32(e, LLVMMul, group, GROUP_ROWS), (int64_t)p * r->threads / 2);
            for (int k = 0; k < sent->s.columns / 2; k += SOME)
                for (int i = 0; i < n; i++)
                    compute(e, &sent[i], &f, 4 * (p * f.columns + c / 8), k, SOME);
            for (int i = 0; i < n; i++)
                send(e, &sent[i], number++, one, barrier, row, c);
        }
    }
    e->gpu->thread = thread;
}

static const TileType *stored_type(const RoleStore *s) { return tile_type(role_stored(s->store)); }

bool role_stores_together(const Roles *r)
{
    bool may = r->nstores > 1 && !r->chain && !r->reads_own;
    const TileType *a = may ? stored_type(&r->store[0]) : NULL;

    for (int i = 1; may && i < r->nstores; i++) {
        const TileType *b = stored_type(&r->store[i]);
        may = r->store[i].span == r->store[0].span && raw_size((DType)a->dtype) == raw_size((DType)b->dtype) && a->extent[1] == b->extent[1];
    }
    return may;
}
