/*
 * The operations of the kernel language: their arguments; who a tile is, what it goes over, what lanes and ranks do together.
 * oper_memory.c has those on memory, oper_math.c those on block values.
 */
#include "frontend/kernel/oper.h"

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
        if (p >= sig->n || p >= OPER_PARAMS || a->at[p].kind != K_UNSET)
            return kb_fail(a->B, "the arguments of %s() do not fit", a->name), false;
        a->node[p] = arg->value;
        a->at[p] = kb_expr(a->B, arg->value);
        if (kb_bad(a->at[p]))
            return false;
    }
    for (int p = 0; p < sig->n && p < OPER_PARAMS; p++)
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

const KPlace *oper_memory_arg(KArgs *a, int i)
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

/* This lane's number among those of groups, of which so many stand before its own. */
static KVal before_lane(Body *B, KVal groups)
{
    KVal first = kb_binary(B, AOP_MUL, groups, kb_number(B->spec->lanes));

    return kb_binary(B, AOP_ADD, first, code_lane(B));
}

KVal kb_group_id(Body *B) { return kb_binary(B, AOP_FLOORDIV, code_group(B), kb_number(B->spec->warps)); }
KVal kb_local_id(Body *B) { return before_lane(B, kb_binary(B, AOP_MOD, code_group(B), kb_number(B->spec->warps))); }
KVal kb_linear_id(Body *B) { return before_lane(B, code_group(B)); }
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
    const KPlace *p = oper_memory_arg(a, 0);
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
    TileRef y;
    Lin l, x;

    v = kb_value(B, v);
    if (kb_bad(v) || !kb_to_lin(B, at, &l))
        return KBAD;
    B->uses_lanes = true;
    a.i = run;
    if (kb_is_int(v)) {
        if (!kb_to_lin(B, v, &x))
            return KBAD;
        y = lin_ref(B, &x);
        return kb_int(B, lin_of(kb_emit2(B, TOP_shuffle, &a, y, lin_ref(B, &l))));
    }
    if (v.kind == K_STATIC)
        return v;
    if (v.kind != K_SCALAR)
        return kb_fail(B, "lanes exchange numbers and elements");
    return kb_scalar(kb_emit2(B, TOP_shuffle, &a, v.ref, lin_ref(B, &l)), v.weak);
}

static KVal butterfly(KArgs *a)
{
    KVal lane = lane_id(a->B);

    return lanes_shuffle(a->B, a->at[0], kb_binary(a->B, AOP_BITXOR, lane, kb_value(a->B, a->at[1])), WARP);
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
    case KOP_warp_reduce_sum: return lanes_reduce(B, a->at[0], OP_sum, 32);
    case KOP_warp_reduce_max: return lanes_reduce(B, a->at[0], OP_max, 32);
    case KOP_warp_reduce_min: return lanes_reduce(B, a->at[0], OP_min, 32);
    case KOP_warp_shuffle: return lanes_shuffle(B, a->at[0], a->at[1], 32);
    case KOP_warp_butterfly: return butterfly(a);
    case KOP_warp_all: return lanes_reduce(B, a->at[0], OP_all, 32);
    case KOP_warp_any: return lanes_reduce(B, a->at[0], OP_any, 32);
    case KOP_warp_match: return op_match(a);
    case KOP_barrier: case KOP_block_sync: return with_barrier(B, kb_none(B));
    case KOP_block_reduce_sum: return with_barrier(B, lanes_reduce(B, a->at[0], OP_sum, 0));
    case KOP_block_reduce_max: return with_barrier(B, lanes_reduce(B, a->at[0], OP_max, 0));
    case KOP_block_reduce_min: return with_barrier(B, lanes_reduce(B, a->at[0], OP_min, 0));
    case KOP_block_broadcast: return with_barrier(B, lanes_shuffle(B, a->at[0], kb_given(a, 1) ? a->at[1] : kb_number(0), 0));
    case KOP_cooperative_group: return op_group(a);
    case KOP_all_reduce: return op_all_reduce(a);
    default: return oper_memory(a);
    }
}

KVal kb_operation(Body *B, const KernelOp *op, const AstCall *c)
{
    KArgs a = {.B = B, .op = op, .call = c, .name = kernel_op_text(op)};
    KVal y;

    for (int i = 0; i < OPER_PARAMS; i++)
        a.at[i] = KUNSET;
    if (!bind_args(&a))
        return KBAD;
    y = run(&a);
    return B->failed ? KBAD : y;
}
