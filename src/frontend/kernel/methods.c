/*
 * Methods of block values and elements: reductions, what moves elements
 * (oper_move.c), elementwise operations, and what the library makes of these.
 *
 * An axis that is longer than TILE_REDUCE_MAX is reduced by equal chunks, then
 * over these; one without elements is what the reduction of nothing is.
 */
#include "frontend/kernel/oper.h"

#include "frontend/prelude.h"
#include "frontend/tensor/bind.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------- reductions */

/* An axis that is longer than a chunk: chunks of equal lengths, then what they came to. */
static KVal reduce_long(Body *B, OpId op, KVal v, int axis, bool keep)
{
    DType dt = (DType)kb_type(v)->dtype, wide = op == OP_sum || op == OP_prod ? dtype_accum(dt) : dt;
    int rank = kb_type(v)->rank;
    int32_t extent = kb_type(v)->extent[axis], chunk = TILE_REDUCE_MAX, shape[VIEW_RANK + 1];
    AxisTag tag[VIEW_RANK] = {{0}};
    KVal y;

    while (extent % chunk)
        chunk--;
    if (chunk == 1 || rank == VIEW_RANK)
        return kb_fail(B, "an axis of %d elements is not reduced at once: give the block a multiple of %d, or loop over parts of it", extent,
                       TILE_REDUCE_MAX);
    for (int i = 0, n = 0; i < rank; i++) {
        if (i == axis)
            shape[n++] = extent / chunk;
        shape[n++] = i == axis ? chunk : kb_type(v)->extent[i];
    }
    for (int i = 0; i < rank; i++)
        tag[i] = i == axis ? (AxisTag){0} : v.tag[i];
    y = kb_reduce_axis(B, op, kb_block(B, kb_reshape(B, kb_convert(B, v.ref, wide), rank + 1, shape), NULL), axis + 1, false);
    y = kb_bad(y) ? y : kb_reduce_axis(B, op, kb_block(B, y.ref, tag), axis, keep);
    return kb_bad(y) || !dtype_is_float(dt) || dt == wide ? y : kb_cast(B, y, dt);
}

KVal kb_no_extreme(Body *B, const char *what, KVal v, int axis)
{
    const char *dim = v.tag[axis].dim ? v.tag[axis].dim->text : NULL;
    const char *dtype = dtype_info[kb_type(v)->dtype].name;

    if (dim)
        return kb_fail(B, "%s() of %s along %s, which is 0 in this call: it has no value; call the kernel only where %s > 0", what, dtype, dim, dim);
    return kb_fail(B, "%s() of %s over an axis of size 0 in this call: it has no value; call the kernel only where there are elements", what, dtype);
}

/* What a reduction of no elements along an axis gives. */
static TileRef of_nothing(Body *B, OpId op, DType dt, KVal v, int axis)
{
    int32_t shape[VIEW_RANK];
    double least = op == OP_max ? -INFINITY : INFINITY, y = op == OP_max || op == OP_min ? least : op == OP_prod || op == OP_all;
    int rank = 0;

    if (!isfinite(y) && !dtype_is_float(dt)) {
        kb_no_extreme(B, op == OP_max ? "max" : "min", v, axis);
        return (TileRef){0};
    }
    for (int i = 0; i < kb_type(v)->rank; i++)
        if (i != axis)
            shape[rank++] = kb_type(v)->extent[i];
    return kb_splat(B, kb_const(B, dt, y, isfinite(y) ? (int64_t)y : 0), rank, shape);
}

KVal kb_reduce_axis(Body *B, OpId op, KVal v, int axis, bool keep)
{
    DType dt = (DType)kb_type(v)->dtype, wide = op == OP_sum || op == OP_prod ? dtype_accum(dt) : dt;
    int rank = kb_type(v)->rank, n = 0;
    int32_t extent = kb_type(v)->extent[axis], shape[VIEW_RANK];
    TAttr a = tattr_none;
    AxisTag tag[VIEW_RANK] = {{0}};
    TileRef x;

    if (extent > TILE_REDUCE_MAX)
        return reduce_long(B, op, v, axis, keep);
    a.op = (uint8_t)op;
    a.axis = (int8_t)axis;
    x = v.tag[axis].none ? of_nothing(B, op, wide, v, axis) : kb_convert(B, v.ref, wide);
    if (!v.tag[axis].none)
        x = kb_emit2(B, TOP_reduce, &a, x, kb_index(B, extent));
    if (dtype_is_float(dt))
        x = kb_convert(B, x, dt);
    for (int i = 0; i < rank; i++)
        if (i != axis || keep) {
            tag[n] = i == axis ? (AxisTag){0} : v.tag[i];
            shape[n++] = i == axis ? 1 : kb_type(v)->extent[i];
        }
    return x.node ? kb_block(B, keep ? kb_reshape(B, x, n, shape) : x, tag) : KBAD;
}

/* Over which axes, a bit each; ddof: of a variance, what is taken from their number. */
typedef struct Reduction { uint32_t axes; bool keep; int64_t ddof; } Reduction;

static bool reduced_axis(Body *B, KVal v, KVal at, Reduction *out)
{
    int64_t x;

    if (!kb_static_int(B, at, "an axis", &x))
        return false;
    x += x < 0 ? kb_type(v)->rank : 0;
    if (x < 0 || x >= kb_type(v)->rank)
        return kb_fail(B, "there is no axis %lld of %d", (long long)x, kb_type(v)->rank), false;
    out->axes |= 1u << x;
    return true;
}

static bool reduction_args(Body *B, KVal v, const KVal *arg, const Sym *names, int n, Reduction *out)
{
    *out = (Reduction){0};
    for (int i = 0; i < n; i++) {
        const char *name = names && names[i] ? names[i]->text : i == 0 ? "dim" : "keepdim";
        if (arg[i].kind == K_STATIC && arg[i].v.tag == V_NONE)
            continue;
        if (!strcmp(name, "dim") || !strcmp(name, "axis")) {
            KVal *item;
            int count = kb_sequence(B, arg[i], &item);
            for (int k = 0; k < (count < 0 ? 1 : count); k++)
                if (!reduced_axis(B, v, count < 0 ? arg[i] : item[k], out))
                    return false;
        } else if (!strcmp(name, "keepdim") || !strcmp(name, "keepdims")) {
            out->keep = kb_is_static_true(arg[i]);
        } else if (!strcmp(name, "ddof") || !strcmp(name, "correction")) {
            if (!kb_static_int(B, arg[i], name, &out->ddof))
                return false;
        } else if (!strcmp(name, "unbiased")) {
            out->ddof = kb_is_static_true(arg[i]);
        } else {
            return kb_fail(B, "a reduction has no argument '%s'", name), false;
        }
    }
    if (!out->axes)
        out->axes = (1u << kb_type(v)->rank) - 1;
    return true;
}

/* Over these axes, from the last on. */
static KVal reduce_axes(Body *B, OpId op, KVal v, uint32_t axes, bool keep)
{
    for (int i = kb_type(v)->rank; i-- > 0 && v.kind == K_BLOCK;)
        if (axes >> i & 1)
            v = kb_reduce_axis(B, op, v, i, keep);
    return v;
}

static int64_t reduced_count(KVal v, uint32_t axes)
{
    int64_t count = 1;

    for (int i = 0; i < kb_type(v)->rank; i++)
        count *= !(axes >> i & 1) ? 1 : v.tag[i].none ? 0 : kb_type(v)->extent[i];
    return count;
}

static KVal reduction(Body *B, KVal v, OpId op, bool mean, const KVal *arg, const Sym *names, int n)
{
    Reduction r;
    KVal y;

    if (!reduction_args(B, v, arg, names, n, &r))
        return KBAD;
    if (op == OP_any || op == OP_all) {
        TileRef f = kb_type(v)->dtype == DT_bool ? v.ref : kb_map(B, OP_ne, (TileRef[]){v.ref, kb_const(B, (DType)kb_type(v)->dtype, 0, 0)}, 2);
        v = kb_block(B, f, v.tag);
        if (kb_bad(v))
            return v;
    }
    y = reduce_axes(B, op, v, r.axes, r.keep);
    return mean ? kb_binary(B, AOP_DIV, y, kb_number(reduced_count(v, r.axes))) : y;
}

/* The mean square distance from the mean, or its root. */
static KVal spread(Body *B, KVal v, bool root, const KVal *arg, const Sym *names, int n)
{
    Reduction r;
    KVal d, y;
    int64_t count;

    if (!reduction_args(B, v, arg, names, n, &r))
        return KBAD;
    count = reduced_count(v, r.axes);
    d = kb_binary(B, AOP_SUB, v, kb_binary(B, AOP_DIV, reduce_axes(B, OP_sum, v, r.axes, true), kb_number(count)));
    d = kb_binary(B, AOP_MUL, d, d);
    y = kb_bad(d) ? d : kb_binary(B, AOP_DIV, reduce_axes(B, OP_sum, d, r.axes, r.keep), kb_number(count - r.ddof));
    return root && !kb_bad(y) ? kb_apply(B, OP_sqrt, &y, 1) : y;
}

/* ------------------------------------------------------------- methods */

/* A method that tensors have as a function, too: gelu, clip, softmax. */
static KVal library_method(Body *B, KVal v, const char *name, const KVal *arg, const Sym *names, int n)
{
    KVal *all = kb_alloc(B, sizeof *all * (size_t)(n + 1)), y;
    Sym *called = kb_alloc(B, sizeof *called * (size_t)(n + 1));

    all[0] = v;
    called[0] = NULL;
    for (int i = 0; i < n; i++) {
        all[i + 1] = arg[i];
        called[i + 1] = names ? names[i] : NULL;
    }
    if (klibrary(B, name, all, called, n + 1, &y) || (prelude_method(sym(name)) >= 0 && klibrary_written(B, "", name, all, called, n + 1, &y)))
        return y;
    return kb_fail(B, "a value of a kernel has no method %s()", name);
}

static KVal scalar_method(Body *B, KVal v, const char *name, const KVal *arg, const Sym *names, int n)
{
    KVal in[3] = {v};
    OpId op;

    if (!strcmp(name, "item") && n == 0)
        return v;
    if (op_find(name, &op) && op_info[op].family == FAM_MAP && op_info[op].nin == n + 1 && op != OP_convert) {
        for (int i = 0; i < n; i++)
            in[i + 1] = arg[i];
        return kb_apply(B, op, in, n + 1);
    }
    return library_method(B, v, name, arg, names, n);
}

static bool dtype_of(Body *B, const KVal *arg, int n, DType *out)
{
    bool ok = n >= 1 && arg[0].kind == K_STATIC && arg_dtype(B->I, arg[0].v, out);

    exc_clear(B->I);
    return ok;
}

KVal block_method(Body *B, KVal v, const char *name, const KVal *arg, const Sym *names, int n)
{
    static const struct { const char *name; OpId op; bool mean; } reductions[] = {
        {"sum", OP_sum, false}, {"prod", OP_prod, false}, {"max", OP_max, false}, {"min", OP_min, false}, {"amax", OP_max, false},
        {"amin", OP_min, false}, {"any", OP_any, false}, {"all", OP_all, false}, {"mean", OP_sum, true},
    };
    DType dt;
    KVal y;

    if (kb_bad(v))
        return v;
    if (v.kind == K_GROUP)
        return kb_group_method(B, v, name, arg, names, n);
    if (!strcmp(name, "append") && v.kind == K_LIST)
        return kb_fail(B, "a list in a kernel has its length: make it with a comprehension");
    if ((!strcmp(name, "to") || !strcmp(name, "astype") || !strcmp(name, "cast")) && dtype_of(B, arg, n, &dt))
        return kb_cast(B, v, dt);
    if (v.kind != K_BLOCK)
        return kb_is_value(v) ? scalar_method(B, v, name, arg, names, n) : kb_fail(B, "there is no method %s() here", name);
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (!strcmp(reductions[i].name, name))
            return reduction(B, v, reductions[i].op, reductions[i].mean, arg, names, n);
    if (!strcmp(name, "var") || !strcmp(name, "std"))
        return spread(B, v, name[0] == 's', arg, names, n);
    if (kb_block_moved(B, v, name, arg, names, n, &y) || kb_block_ordered(B, v, name, arg, names, n, &y))
        return y;
    return scalar_method(B, v, name, arg, names, n);
}
