/*
 * The operations of the kernel language on ids, memory, copies and lanes.
 * oper_math.c has those on block values.
 */
#include "frontend/kernel/body.h"

#include "frontend/tensor/bind.h"
#include "frontend/tensor/tensor_ops.h"

#include <string.h>

/* ------------------------------------------------------------- arguments */

bool kb_given(const KArgs *a, int i) { return a->at[i].kind != K_UNSET && !(a->at[i].kind == K_STATIC && a->at[i].v.tag == V_NONE); }

static bool bind_args(KArgs *a)
{
    const NativeDef *d = native_find(a->op->owner, a->op->name);
    const NativeSig *sig = native_sig(d);
    int at = 0;

    for (int i = 0; i < a->call->args.n; i++) {
        const AstArg *arg = AST_AS(a->call->args.at[i], Arg);
        int p = at;
        if (arg->ast.kind != AST_Arg || arg->stars)
            return kb_fail(a->B, "arguments by * cannot stand in %s()", a->name), false;
        if (arg->name)
            for (p = 0; p < sig->n && sig->param[p].name != arg->name; p++)
                ;
        else
            at++;
        if (p >= sig->n || p >= 12 || a->at[p].kind != K_UNSET)
            return kb_fail(a->B, "the arguments of %s() do not fit", a->name), false;
        a->node[p] = arg->value;
        a->at[p] = kb_expr(a->B, arg->value);
        if (kb_bad(a->at[p]))
            return false;
    }
    for (int p = 0; p < sig->n && p < 12; p++)
        if (sig->param[p].required && a->at[p].kind == K_UNSET)
            return kb_fail(a->B, "%s() misses '%s'", a->name, sig->param[p].name->text), false;
    a->B->b.span = a->call->ast.span;
    return true;
}

static bool shape_from(const KArgs *a, int i, int64_t least, int *rank, int32_t *shape)
{
    KVal *item, one = a->at[i];
    int n = kb_sequence(a->B, a->at[i], &item);

    if (n < 0) {
        n = 1;
        item = &one;
    }
    if (n > VIEW_RANK)
        return kb_fail(a->B, "%s(): a block has at most %d axes", a->name, VIEW_RANK), false;
    for (int k = 0; k < n; k++) {
        int64_t v;
        if (!kb_static_int(a->B, item[k], "an extent", &v))
            return false;
        if (v < least || v > TILE_ELEMENTS_MAX)
            return kb_fail(a->B, "%s(): %lld is no extent of a block", a->name, (long long)v), false;
        shape[k] = (int32_t)v;
    }
    *rank = n;
    return true;
}

bool kb_shape_arg(const KArgs *a, int i, int *rank, int32_t *shape) { return shape_from(a, i, 1, rank, shape); }

bool kb_block_shape_arg(const KArgs *a, int i, int *rank, int32_t *shape, AxisTag *tag)
{
    bool ok = shape_from(a, i, 0, rank, shape);

    for (int k = 0; ok && k < *rank; k++) {
        tag[k].none = !shape[k];
        shape[k] += !shape[k];
    }
    return ok;
}

bool kb_dtype_arg(const KArgs *a, int i, DType missing, DType *out)
{
    KVal v = a->at[i];

    *out = missing;
    if (!kb_given(a, i))
        return true;
    if (v.kind == K_STATIC && arg_dtype(a->B->I, v.v, out))
        return true;
    exc_clear(a->B->I);
    return kb_fail(a->B, "%s() takes a dtype here", a->name), false;
}

static const KPlace *memory_arg(KArgs *a, int i)
{
    if (a->at[i].kind == K_PLACE)
        return a->at[i].place;
    kb_fail(a->B, "%s() needs memory here: a parameter, a shared array or a slice of one", a->name);
    return NULL;
}

/* ------------------------------------------------------------- who am I */

/* Asked for once; its node stands before all others. */
static TileRef once(Body *B, TileRef *at, TileOp op, const TAttr *a)
{
    TileBlock *here = B->b.at;

    if (at->node)
        return *at;
    B->b.at = &B->k->body;
    *at = kb_emit(B, op, a, NULL, 0);
    if (at->node)
        kb_to_front(B, at->node);
    B->b.at = here;
    return *at;
}

/* The group of the code: where warps are apart, the program's group's number times its warps and the warp's. */
static KVal code_group(Body *B)
{
    TAttr a = tattr_none;

    return kb_int(B, lin_of(once(B, &B->group, TOP_group, &a)));
}

static KVal code_lane(Body *B)
{
    B->uses_lanes = true;
    return kb_int(B, lin_of(once(B, &B->lane, TOP_lane, NULL)));
}

/* place + number * many */
static KVal behind(Body *B, KVal number, int64_t many, KVal place)
{
    return kb_binary(B, AOP_ADD, kb_binary(B, AOP_MUL, number, kb_number(many)), place);
}

KVal kb_group_id(Body *B) { return kb_binary(B, AOP_FLOORDIV, code_group(B), kb_number(B->spec->warps)); }
KVal kb_local_id(Body *B) { return behind(B, kb_binary(B, AOP_MOD, code_group(B), kb_number(B->spec->warps)), B->spec->lanes, code_lane(B)); }
KVal kb_linear_id(Body *B) { return behind(B, code_group(B), B->spec->lanes, code_lane(B)); }
int kb_group_size(const Body *B) { return B->spec->lanes * B->spec->warps; }

static KVal op_group_id(KArgs *a)
{
    a->B->asks_group = true;
    return kb_group_id(a->B);
}

static KVal op_num_groups(KArgs *a)
{
    a->B->asks_group = true;
    return kb_group_count(a->B);
}

static KVal lane_id(Body *B) { return kb_binary(B, AOP_MOD, code_lane(B), kb_number(32)); }

/* ------------------------------------------------------------- loops */

static KVal range_of(Body *B, KVal lo, KVal hi, KVal step, int how)
{
    KVal y = {.kind = K_RANGE, .n = 3, .how = (uint8_t)how};

    y.item = kb_alloc(B, sizeof *y.item * 3);
    y.item[0] = kb_value(B, lo);
    y.item[1] = kb_value(B, hi);
    y.item[2] = kb_value(B, step);
    return B->failed ? KBAD : y;
}

static KVal op_range(KArgs *a)
{
    bool two = kb_given(a, 1);

    return range_of(a->B, two ? a->at[0] : kb_number(0), two ? a->at[1] : a->at[0], kb_given(a, 2) ? a->at[2] : kb_number(1), RANGE_SHARED);
}

static KVal op_range_n(KArgs *a)
{
    KVal *item, n = a->at[1], blocks;
    int rank = kb_sequence(a->B, a->at[0], &item);

    if (rank < 1)
        return kb_fail(a->B, "%s() takes a shape", a->name);
    if (rank > 2)                                           /* the rows of matrices in stacks */
        item += rank - 2;
    blocks = kb_binary(a->B, AOP_FLOORDIV, kb_binary(a->B, AOP_ADD, item[0], kb_binary(a->B, AOP_SUB, n, kb_number(1))), n);
    return range_of(a->B, kb_number(0), blocks, kb_number(1), RANGE_ALL);
}

static KVal op_split(KArgs *a)
{
    const KPlace *p = memory_arg(a, 0);
    KVal level = a->at[1], y = {.kind = K_PARTS};

    if (!p)
        return KBAD;
    if (level.kind != K_STATIC || level.v.tag != V_STR || (strcmp(as_str(level.v)->s, "L2") && strcmp(as_str(level.v)->s, "L1") &&
            strcmp(as_str(level.v)->s, "register")))
        return kb_fail(a->B, "E0615: %s() knows the levels \"L2\", \"L1\" and \"register\"", a->name);
    y.place = p;
    y.name = sym(as_str(level.v)->s);
    return y;
}

/* ------------------------------------------------------------- memory */

static KVal op_alloc_shared(KArgs *a)
{
    int32_t shape[VIEW_RANK];
    int rank;
    DType dt;
    int64_t align = 0;
    uint64_t path = (a->B->fn->path ^ (uintptr_t)a->call) * 0x9e3779b97f4a7c15u | 1;
    bool swizzle = kb_given(a, 2) && a->at[2].kind == K_STATIC && a->at[2].v.tag == V_STR && !strcmp(as_str(a->at[2].v)->s, "xor");

    if (!kb_shape_arg(a, 0, &rank, shape) || !kb_dtype_arg(a, 1, DT_f32, &dt) || (kb_given(a, 3) && !kb_static_int(a->B, a->at[3],
            "an alignment", &align)))
        return KBAD;
    return kb_alloc_shared(a->B, path, a->B->target ? a->B->target : sym("shared"), rank, shape, dt, SPACE_SHARED, align, swizzle);
}

static KVal op_alloc_register(KArgs *a)
{
    int32_t shape[VIEW_RANK];
    int rank;
    DType dt;
    uint64_t path = (a->B->fn->path ^ (uintptr_t)a->call) * 0x9e3779b97f4a7c15u | 1;
    KVal held;

    a->B->uses_lanes = true;
    if (!kb_given(a, 1) && a->at[0].kind == K_STATIC && a->at[0].v.tag == V_DTYPE)
        return kb_scalar(kb_const(a->B, as_dtype(a->at[0].v)->dtype, 0, 0), false);
    if (!kb_shape_arg(a, 0, &rank, shape) || !kb_dtype_arg(a, 1, DT_f32, &dt))
        return KBAD;
    held = held_new(a->B, path, rank, shape, dt);
    return held.kind != K_UNSET ? held
                                : kb_alloc_shared(a->B, path, a->B->target ? a->B->target : sym("register"), rank, shape, dt, SPACE_LOCAL, 0, false);
}

static bool set_extent(KArgs *a, KPlace *p, int k, KVal extent)
{
    int64_t v;

    if (k < 0)
        return kb_fail(a->B, "%s(): the memory has no such axis", a->name), false;
    if (!kb_static_int(a->B, extent, "the extent of a block", &v))
        return false;
    p->axis[k].extent = lin_number(v);
    return true;
}

/* view, block, shape, rows, cols */
/* vector=, stages= and prefetch= are for the passes that know how memory is moved (ir/tile/pass.def). */
static KVal with_hints(KArgs *a, KVal v)
{
    TAttr own;
    int64_t vector = 0, stages = 0, prefetch = 0;

    if (v.kind != K_BLOCK || v.ref.node->op != TOP_load)
        return v;
    if ((kb_given(a, 5) && !kb_static_int(a->B, a->at[5], "a vector's width", &vector)) ||
        (kb_given(a, 6) && !kb_static_int(a->B, a->at[6], "how far a load is brought ahead", &prefetch)) ||
        (kb_given(a, 7) && !kb_static_int(a->B, a->at[7], "the buffers of a pipeline", &stages)))
        return KBAD;
    stages = stages ? stages : prefetch ? prefetch + 1 : 0;
    own = *v.ref.node->attr;
    own.vector = (uint8_t)(vector == 1 || vector == 2 || vector == 4 || vector == 8 || vector == 16 ? vector : 0);
    own.stages = (uint8_t)(stages < 0 ? 0 : stages > 16 ? 16 : stages);
    tile_set_attr(a->B->k, v.ref.node, &own);
    return v;
}

static KVal op_load(KArgs *a)
{
    const KPlace *from;
    KPlace p;
    Lin start;

    if (a->at[0].kind == K_BLOCK || a->at[0].kind == K_SCALAR)
        return a->at[0];
    from = memory_arg(a, 0);
    if (!from)
        return KBAD;
    p = *from;
    if ((kb_given(a, 1) || kb_given(a, 3) || kb_given(a, 4)) && kplace_free(&p) > 2 && !lead_take(a->B, &p, kplace_free(&p) - 2))
        return KBAD;
    if (kb_given(a, 2)) {
        KVal *item;
        int n = kb_sequence(a->B, a->at[2], &item);
        if (n != kplace_free(&p))
            return kb_fail(a->B, "%s(): the shape has %d extents where the memory has %d axes", a->name, n, kplace_free(&p));
        for (int i = 0; i < n; i++)
            if (!set_extent(a, &p, kplace_axis(&p, i), item[i]))
                return KBAD;
    }
    if ((kb_given(a, 3) && !set_extent(a, &p, kplace_axis(&p, 0), a->at[3])) ||
        (kb_given(a, 4) && !set_extent(a, &p, kplace_axis(&p, kplace_free(&p) - 1), a->at[4])))
        return KBAD;
    if (kb_given(a, 1)) {
        int k = kplace_axis(&p, 0);
        KVal rows = kb_given(a, 3) ? a->at[3] : kb_field(a->B, SCHED_block_n);
        if (k < 0 || (!kb_given(a, 3) && !kb_given(a, 2) && !set_extent(a, &p, k, rows)))
            return kb_fail(a->B, "%s(): there are no rows to take a block of", a->name);
        if (!kb_to_lin(a->B, kb_binary(a->B, AOP_MUL, a->at[1], kb_int(a->B, p.axis[k].extent)), &start) ||
            !lin_add(a->B, p.axis[k].start, start, 1, &p.axis[k].start))
            return KBAD;
    }
    return with_hints(a, kplace_load(a->B, &p));
}

static KVal op_store(KArgs *a)
{
    const KPlace *p = memory_arg(a, 0);
    KPlace q;
    KVal v = kb_value(a->B, a->at[1]);

    if (!p || kb_bad(v))
        return KBAD;
    q = *p;
    if (v.kind == K_BLOCK && tile_type(v.ref)->rank == kplace_free(p) && p->param >= 0)      /* a tile of the group's own is as large as the value */
        for (int i = 0; i < kplace_free(p); i++) {
            PlaceAxis *x = &q.axis[kplace_axis(p, i)];
            int64_t n;
            if (!lin_number_of(&x->extent, &n))
                x->extent = lin_number(tile_type(v.ref)->extent[i]);
        }
    kplace_store(a->B, &q, v);
    return (KVal){.kind = K_STATIC, .v = VNONE};
}

/* A view with the place's free axes that begin at 0; what the place has outside of its view stays outside. */
static TileRef window(KArgs *a, const KPlace *p)
{
    TileRef in[1 + 2 * VIEW_RANK];
    TAttr attr = tattr_none;

    if (!held_leave(a->B, p))
        return (TileRef){0};
    in[0] = p->view;
    for (int i = 0; i < p->rank; i++) {
        TileRef size = lin_ref(a->B, &p->axis[i].size), start = lin_ref(a->B, &p->axis[i].start), extent = lin_ref(a->B, &p->axis[i].extent);
        int64_t s, e, n;
        bool inside = lin_number_of(&p->axis[i].start, &s) && lin_number_of(&p->axis[i].extent, &e) && lin_number_of(&p->axis[i].size, &n) &&
                s >= 0 && s + e <= n;
        if (p->axis[i].gone)
            attr.drop |= (uint8_t)(1u << i);
        if (!inside && !p->axis[i].gone && !p->stacked) {
            start = kb_emit2(a->B, TOP_imin, NULL, start, size);
            extent = kb_emit2(a->B, TOP_imin, NULL, extent, kb_emit2(a->B, TOP_isub, NULL, size, start));
        }
        in[1 + i] = start;
        in[1 + p->rank + i] = extent;
    }
    return kb_emit(a->B, TOP_part, &attr, in, 1 + 2 * p->rank);
}

static KVal copy(KArgs *a, int dst, int src, bool async)
{
    const KPlace *to = memory_arg(a, dst), *from = to ? memory_arg(a, src) : NULL;
    KVal none = {.kind = K_STATIC, .v = VNONE}, v;
    TileRef x, y;

    if (!from)
        return KBAD;
    a->B->uses_blocks = true;
    if (!to->buffer || to->dtype != from->dtype || kplace_free(to) != kplace_free(from)) {    /* only shared memory is copied to beside the lanes */
        KPlace p = *from;
        for (int i = 0; i < kplace_free(to) && i < kplace_free(from) && to->buffer; i++)
            p.axis[kplace_axis(&p, i)].extent = to->axis[kplace_axis(to, i)].extent;
        v = kplace_load(a->B, &p);
        return !kb_bad(v) && kplace_store(a->B, to, v) ? none : KBAD;
    }
    x = window(a, to);
    y = window(a, from);
    kb_emit2(a->B, async ? TOP_copy_async : TOP_copy, NULL, x, y);
    return a->B->failed ? KBAD : none;
}

static KVal none_of(Body *B) { return B->failed ? KBAD : (KVal){.kind = K_STATIC, .v = VNONE}; }

static KVal op_wait(KArgs *a, bool barrier)
{
    TAttr attr = tattr_none;

    if (kb_given(a, 0) && !kb_static_int(a->B, a->at[0], "the number of copies under way", &attr.i))
        return KBAD;
    attr.i = attr.i < 0 ? 0 : attr.i;
    kb_emit(a->B, TOP_wait, &attr, NULL, 0);
    if (barrier)
        kb_emit(a->B, TOP_barrier, NULL, NULL, 0);
    return none_of(a->B);
}

/* Elements of axis 0 by number. inside: one that is outside is the program's mistake. */
static KVal gather(KArgs *a, const KPlace *p, TileRef index, bool inside)
{
    TAttr attr = tattr_none;
    AxisTag tag[VIEW_RANK] = {{0}};
    int rank = kplace_free(p);

    if (rank != p->rank || !rank)
        return kb_fail(a->B, "%s() takes memory without indices", a->name);
    attr.rank = (int8_t)rank;
    for (int i = 0; i < rank; i++)
        if (i && !kplace_extent(a->B, p, i, &attr.shape[i]))
            return KBAD;
    if (!index.node)
        return KBAD;
    attr.shape[0] = tile_type(index)->extent[0];
    attr.i = 2 * inside;
    a->B->uses_blocks = true;
    return kb_block(a->B, kb_emit2(a->B, TOP_gather, &attr, window(a, p), index), tag);
}

static KVal op_load_strided(KArgs *a)
{
    const KPlace *p = memory_arg(a, 0);
    int64_t stride;
    int32_t extent, shape[1];
    TileRef in[2];
    Lin zero = lin_number(0);

    if (!p || !kb_static_int(a->B, a->at[1], "a stride", &stride) || !kplace_extent(a->B, p, 0, &extent))
        return KBAD;
    if (stride < 1)
        return kb_fail(a->B, "%s(): a stride is at least 1", a->name);
    shape[0] = (int32_t)((extent + stride - 1) / stride);
    in[0] = kb_iota(a->B, &zero, 1, shape, 0);
    in[1] = kb_const(a->B, DT_int64, 0, stride);
    return gather(a, p, kb_map(a->B, OP_mul, in, 2), false);
}

static KVal op_load_gather(KArgs *a)
{
    const KPlace *p = memory_arg(a, 0);
    KVal index = p ? kb_value(a->B, a->at[1]) : KBAD;

    if (kb_bad(index))
        return KBAD;
    if (index.kind != K_BLOCK || tile_type(index.ref)->rank != 1 || !dtype_is_int((DType)tile_type(index.ref)->dtype))
        return kb_fail(a->B, "%s() takes one axis of ints as indices", a->name);
    return gather(a, p, index.ref, true);
}

/* The place of element k of a vector: along the last axis, from where it begins. */
static KPlace vector_element(Body *B, const KPlace *p, int k)
{
    KPlace q = *p;
    PlaceAxis *x = &q.axis[q.rank - 1];

    lin_add(B, x->start, lin_number(k), 1, &x->start);
    x->gone = true;
    x->extent = lin_number(1);
    return q;
}

static KVal op_load_vector(KArgs *a)
{
    const KPlace *p = memory_arg(a, 0);
    KVal y = {.kind = K_VECTOR};
    int64_t n, row;

    if (!p || !kb_static_int(a->B, a->at[1], "a vector's width", &n))
        return KBAD;
    if (n != 2 && n != 4 && n != 8 && n != 16)
        return kb_fail(a->B, "E0616: a vector's width is 2, 4, 8 or 16, not %lld", (long long)n);
    if (kplace_free(p) > 1 || !p->rank)
        return kb_fail(a->B, "%s() takes a row of memory, or the element where it begins", a->name);
    if (kplace_free(p) == 1 && lin_known(a->B, &p->axis[p->rank - 1].extent, &row) && row % n)
        return kb_fail(a->B, "E0616: a vector's width %lld does not divide the row's %lld elements", (long long)n, (long long)row);
    y.n = (int)n;
    y.item = kb_alloc(a->B, sizeof *y.item * (size_t)n);
    for (int k = 0; k < y.n; k++) {
        KPlace q = vector_element(a->B, p, k);
        y.item[k] = kplace_load(a->B, &q);
    }
    return a->B->failed ? KBAD : y;
}

static KVal op_store_vector(KArgs *a)
{
    const KPlace *p = memory_arg(a, 0);
    KVal v = a->at[1];

    if (!p)
        return KBAD;
    if (v.kind != K_VECTOR)
        return kb_fail(a->B, "%s() stores a vector, which load_vector gives", a->name);
    for (int k = 0; k < v.n; k++) {
        KPlace q = vector_element(a->B, p, k);
        kplace_store(a->B, &q, v.item[k]);
    }
    return none_of(a->B);
}

/* ------------------------------------------------------------- lanes together */

/* A lane's own value, of which a reduction can be taken: ints as int64. */
static KVal lanes_reduce(Body *B, KVal v, OpId op, int64_t run)
{
    TAttr a = tattr_none;
    TileRef x;

    v = op == OP_any || op == OP_all ? kb_truth(B, v) : kb_value(B, v);
    if (kb_bad(v))
        return v;
    if (v.kind == K_BLOCK || !kb_is_value(v))
        return kb_fail(B, "a reduction over lanes takes a number or an element of each");
    B->uses_lanes = true;
    x = kb_ref(B, v, op == OP_any || op == OP_all ? DT_bool : kb_is_int(v) ? DT_int64 : v.kind == K_STATIC ? DT_f64 : (DType)tile_type(v.ref)->dtype);
    a.op = (uint8_t)op;
    a.i = run;
    x = kb_emit1(B, TOP_lane_reduce, &a, x);
    if (kb_is_int(v) && op != OP_any && op != OP_all)
        return kb_int(B, lin_of(kb_emit1(B, TOP_to_index, NULL, x)));
    return kb_scalar(x, v.kind == K_STATIC || v.weak);
}

static KVal lanes_shuffle(Body *B, KVal v, KVal at, int64_t run)
{
    TAttr a = tattr_none;
    Lin l, x;

    v = kb_value(B, v);
    if (kb_bad(v) || !kb_to_lin(B, at, &l))
        return KBAD;
    B->uses_lanes = true;
    a.i = run;
    if (kb_is_int(v))
        return kb_to_lin(B, v, &x) ? kb_int(B, lin_of(kb_emit2(B, TOP_shuffle, &a, lin_ref(B, &x), lin_ref(B, &l)))) : KBAD;
    if (v.kind == K_STATIC)
        return v;
    if (v.kind != K_SCALAR)
        return kb_fail(B, "lanes exchange numbers and elements");
    return kb_scalar(kb_emit2(B, TOP_shuffle, &a, v.ref, lin_ref(B, &l)), v.weak);
}

static KVal op_match(KArgs *a)
{
    TAttr attr = tattr_none;
    KVal v = kb_value(a->B, a->at[0]);
    Lin l;
    TileRef x;

    if (kb_bad(v) || (kb_is_int(v) && !kb_to_lin(a->B, v, &l)))
        return KBAD;
    a->B->uses_lanes = true;
    attr.i = 32;
    x = kb_is_int(v) ? lin_ref(a->B, &l) : kb_ref(a->B, v, v.kind == K_STATIC ? DT_f64 : (DType)tile_type(v.ref)->dtype);
    return kb_int(a->B, lin_of(kb_emit1(a->B, TOP_match, &attr, x)));
}

static KVal with_barrier(Body *B, KVal v)
{
    kb_emit(B, TOP_barrier, NULL, NULL, 0);
    return v;
}

static KVal op_group(KArgs *a)
{
    KVal y = {.kind = K_GROUP};
    int64_t n;

    if (!kb_static_int(a->B, a->at[0], "the size of a cooperative group", &n))
        return KBAD;
    if (n < 1 || n > 1024 || (n & (n - 1)))
        return kb_fail(a->B, "E0604: a cooperative group has a power of two of tiles, up to 1024, not %lld", (long long)n);
    if (n > a->B->spec->lanes)
        return kb_fail(a->B, "a cooperative group of %lld tiles does not fit into a group of %d", (long long)n, a->B->spec->lanes);
    y.v = vint(n);
    return y;
}

KVal kb_group_method(Body *B, KVal group, const char *name, const KVal *arg, const Sym *names, int n)
{
    static const struct { const char *name; OpId op; } ops[] = {{"sum", OP_sum}, {"max", OP_max}, {"min", OP_min}, {"prod", OP_prod}};
    const char *how = "sum";

    if (!strcmp(name, "size") && n == 0)
        return kb_number(group.v.i);
    if (strcmp(name, "reduce") || n < 1 || n > 2 || (n == 2 && (arg[1].kind != K_STATIC || arg[1].v.tag != V_STR)))
        return kb_fail(B, "a cooperative group has reduce(x, op=)");
    (void)names;
    how = n == 2 ? as_str(arg[1].v)->s : how;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, how))
            return lanes_reduce(B, arg[0], ops[i].op, group.v.i == B->spec->lanes ? 0 : group.v.i);
    return kb_fail(B, "a cooperative group reduces by sum, max, min or prod");
}

/* ------------------------------------------------------------- atomics */

/* The last argument is the value; before it stands what is expected, if anything is. */
static KVal op_atomic(KArgs *a, OpId op, bool expects)
{
    KVal at = a->at[0], index[8], *item;
    const KPlace *p = memory_arg(a, 0);
    int n;

    if (!p)
        return KBAD;
    n = kb_sequence(a->B, a->at[1], &item);
    if (n > 8)
        return kb_fail(a->B, "%s(): too many indices", a->name);
    for (int i = 0; i < n; i++)
        index[i] = kb_value(a->B, item[i]);
    if (n < 0)
        index[0] = kb_value(a->B, a->at[1]);
    at = kb_subscript(a->B, at, index, n < 0 ? 1 : n);
    if (kb_bad(at))
        return at;
    if (at.kind != K_PLACE || kplace_free(at.place))
        return kb_fail(a->B, "E0610: %s() updates one element: give an index for each axis", a->name);
    return kplace_take(a->B, at.place, op, expects ? &a->at[2] : NULL, a->at[2 + expects]);
}

/* ------------------------------------------------------------- other ranks */

static KVal op_all_reduce(KArgs *a)
{
    Body *B = a->B;
    KVal x = kb_value(B, a->at[0]);
    TAttr attr = tattr_none;
    TileRef y;

    if (kb_bad(x))
        return x;
    if (x.kind != K_BLOCK && (x.kind != K_SCALAR || kb_lane_dependent(B, x.ref)))
        return kb_fail(B, "E0614: %s() takes a block value, or an element that is the same in all tiles of the group", a->name);
    if (a->at[1].kind != K_STATIC || a->at[1].v.tag != V_STR)
        return kb_fail(B, "%s() takes the name of a mesh axis", a->name);
    if (tile_type(x.ref)->dtype == DT_bool)
        return kb_fail(B, "%s(): a sum of bools; tile.cast makes numbers of them", a->name);
    attr.name = sym(as_str(a->at[1].v)->s);
    y = kb_emit1(B, TOP_over_ranks, &attr, x.ref);
    return !y.node ? KBAD : x.kind == K_BLOCK ? kb_block(B, y, x.tag) : kb_scalar(y, x.weak);
}

/* ------------------------------------------------------------- all of them */

static KVal run(KArgs *a)
{
    Body *B = a->B;

    switch (kernel_op_id(a->op)) {
    case KOP_linear_id: return kb_linear_id(B);
    case KOP_group_id: return op_group_id(a);
    case KOP_local_id: return kb_local_id(B);
    case KOP_lane_id: return lane_id(B);
    case KOP_group_size: return kb_number(kb_group_size(B));
    case KOP_num_groups: return op_num_groups(a);
    case KOP_context: return (KVal){.kind = K_CONTEXT};
    case KOP_row_index: return group_offset(B, 0);
    case KOP_col_index: return kb_given(a, 0) ? kb_binary(B, AOP_MUL, a->at[0], kb_field(B, SCHED_block_n)) : group_offset(B, 1);
    case KOP_range: return op_range(a);
    case KOP_range_n: return op_range_n(a);
    case KOP_split: return op_split(a);
    case KOP_alloc_shared: return op_alloc_shared(a);
    case KOP_alloc_register: return op_alloc_register(a);
    case KOP_load: case KOP_load_shared: return op_load(a);
    case KOP_load_coalesced: return kb_value(B, a->at[0]);
    case KOP_store: case KOP_store_shared: return op_store(a);
    case KOP_load_strided: return op_load_strided(a);
    case KOP_load_gather: return op_load_gather(a);
    case KOP_load_broadcast: return kb_value(B, a->at[0]);
    case KOP_load_vector: return op_load_vector(a);
    case KOP_store_vector: return op_store_vector(a);
    case KOP_cp_async: return copy(a, 0, 1, true);
    case KOP_cp_commit_group: return kb_emit(B, TOP_commit, NULL, NULL, 0), none_of(B);
    case KOP_cp_wait_group: return op_wait(a, false);
    case KOP_async_copy: {
        KVal v = copy(a, 1, 0, true);
        kb_emit(B, TOP_commit, NULL, NULL, 0);
        return v;
    }
    case KOP_wait_async: return op_wait(a, true);
    case KOP_warp_reduce_sum: return lanes_reduce(B, a->at[0], OP_sum, 32);
    case KOP_warp_reduce_max: return lanes_reduce(B, a->at[0], OP_max, 32);
    case KOP_warp_reduce_min: return lanes_reduce(B, a->at[0], OP_min, 32);
    case KOP_warp_shuffle: return lanes_shuffle(B, a->at[0], a->at[1], 32);
    case KOP_warp_butterfly: return lanes_shuffle(B, a->at[0], kb_binary(B, AOP_BITXOR, lane_id(B), kb_value(B, a->at[1])), 32);
    case KOP_warp_all: return lanes_reduce(B, a->at[0], OP_all, 32);
    case KOP_warp_any: return lanes_reduce(B, a->at[0], OP_any, 32);
    case KOP_warp_match: return op_match(a);
    case KOP_barrier: case KOP_block_sync: return with_barrier(B, none_of(B));
    case KOP_block_reduce_sum: return with_barrier(B, lanes_reduce(B, a->at[0], OP_sum, 0));
    case KOP_block_reduce_max: return with_barrier(B, lanes_reduce(B, a->at[0], OP_max, 0));
    case KOP_block_reduce_min: return with_barrier(B, lanes_reduce(B, a->at[0], OP_min, 0));
    case KOP_block_broadcast: return with_barrier(B, lanes_shuffle(B, a->at[0], kb_given(a, 1) ? a->at[1] : kb_number(0), 0));
    case KOP_cooperative_group: return op_group(a);
    case KOP_atomic_add: return op_atomic(a, OP_sum, false);
    case KOP_atomic_max: return op_atomic(a, OP_max, false);
    case KOP_atomic_min: return op_atomic(a, OP_min, false);
    case KOP_atomic_and: return op_atomic(a, OP_bitand, false);
    case KOP_atomic_or: return op_atomic(a, OP_bitor, false);
    case KOP_atomic_xor: return op_atomic(a, OP_bitxor, false);
    case KOP_atomic_xchg: return op_atomic(a, OP_where, false);
    case KOP_atomic_cas: return op_atomic(a, OP_where, true);
    case KOP_all_reduce: return op_all_reduce(a);
    default: return oper_math(a);
    }
}

KVal kb_operation(Body *B, const KernelOp *op, const AstCall *c)
{
    KArgs a = {.B = B, .op = op, .call = c, .name = kernel_op_text(op)};
    KVal y;

    for (int i = 0; i < 12; i++)
        a.at[i] = KUNSET;
    if (!bind_args(&a))
        return KBAD;
    y = run(&a);
    return B->failed ? KBAD : y;
}
