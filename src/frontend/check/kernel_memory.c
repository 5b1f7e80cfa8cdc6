/*
 * Operations that make memory and move between it and block values: what each gives.
 */
#include "frontend/check/kernels.h"

#include "runtime/gpu.h"

#include <stdio.h>
#include <string.h>

const Type *kernel_rule_none(KernelCall *k) { return T_NONE; }

/* ------------------------------------------------------------- who and where */

const Type *kernel_rule_index(KernelCall *k) { return type_int(kernel_unknown()); }
const Type *kernel_rule_context(KernelCall *k) { return type_kernel(KT_CONTEXT, NULL, NULL); }

const Type *kernel_rule_positions(KernelCall *k)
{
    Dim n = kernel_field(k->C, kernel_op_id(k->op) == KOP_row_index ? SCHED_block_m : SCHED_block_n);

    return kernel_block(DT_int32, 1, &n);
}

const Type *kernel_rule_range(KernelCall *k) { return type_of_kind(TY_RANGE); }
const Type *kernel_rule_range_n(KernelCall *k) { return type_of_kind(TY_RANGE); }

const Type *kernel_rule_split(KernelCall *k)
{
    const Type *x = k->arg[0] ? k->arg[0]->type : T_ANY;
    Dim shape[16];

    if (type_is_any(x))
        return T_ANY;
    for (int i = 0; x->tensor->rank != RANK_UNKNOWN && i < x->tensor->rank; i++)
        shape[i] = kernel_unknown();
    return type_kernel(KT_PARTS, type_placed(kernel_block(x->tensor->dtype, x->tensor->rank, shape), &kernel_places[MEM_TILE]), NULL);
}

/* ------------------------------------------------------------- allocation */

/* Bytes of an array; -1: its sizes are not known. */
static int64_t bytes_of(uint8_t dtype, int rank, const Dim *shape)
{
    int64_t bits = dtype == DT_NONE ? -1 : dtype_info[dtype].sbits;

    for (int i = 0; i < rank && bits >= 0; i++) {
        if (!dim_is_const(shape[i]))
            return -1;
        if (__builtin_mul_overflow(bits, shape[i], &bits))
            return INT64_MAX / 16;
    }
    return bits < 0 ? -1 : bits / 8 + (bits % 8 != 0);
}

static const char *kilobytes(int64_t bytes, char *out, size_t n)
{
    if (bytes % 1024)
        snprintf(out, n, "%.1f", (double)bytes / 1024.0);
    else
        snprintf(out, n, "%lld", (long long)(bytes / 1024));
    return out;
}

/* A group's arrays stand beside each other for the whole launch: the one that goes over the limit is reported. */
static void count_shared(KernelCall *k, int64_t bytes)
{
    Kernel *kernel = k->C->kernel;
    int64_t before = kernel->shared, most = gpu_target()->shared_group * (int64_t)1024;
    char need[32], have[32], rest[32];
    Diag *d;

    if (bytes < 0 || map_find(&kernel->allocated, (uintptr_t)k->node, NULL))
        return;
    map_set(&kernel->allocated, (uintptr_t)k->node, 1);
    kernel->shared = before + bytes;
    if (kernel->shared <= most || before > most)
        return;
    kilobytes(bytes, need, sizeof need);
    d = REPORT(k->C, E0603, k->node->span, before ? "the kernel" : "this array",
               before ? kilobytes(kernel->shared, rest, sizeof rest) : need, kilobytes(most, have, sizeof have));
    if (before)
        diag_note(d, "this array needs %s KB, those before it %s KB", need, kilobytes(before, rest, sizeof rest));
    diag_help(d, "work on smaller blocks, or on a narrower dtype");
}

static bool positive(KernelCall *k, int rank, const Dim *shape)
{
    for (int i = 0; i < rank; i++)
        if (shape[i] == 0 || dim_ge(0, shape[i], NULL, NULL) == DIM_PROVED) {
            REPORT(k->C, E0621, at_call(k->node, k->arg[0]->node), "this shape");
            return false;
        }
    return true;
}

const Type *kernel_rule_alloc_shared(KernelCall *k)
{
    uint8_t dtype = kernel_dtype_arg(k, 1, DT_NONE);
    Dim shape[16];
    int rank = kernel_shape_arg(k, 0, shape);

    if (rank >= 0 && !positive(k, rank, shape))
        rank = -1;
    if (rank >= 0)
        count_shared(k, bytes_of(dtype, rank, shape));
    return type_placed(kernel_block(dtype, rank < 0 ? RANK_UNKNOWN : rank, shape), &kernel_places[MEM_SHARED]);
}

const Type *kernel_rule_alloc_register(KernelCall *k)
{
    const Type *first = k->arg[0]->type;
    Dim shape[16];
    int rank;

    if (first->kind == TY_DTYPE)                    /* alloc_register(f32): one value */
        return kernel_block((uint8_t)first->value, 0, NULL);
    rank = kernel_shape_arg(k, 0, shape);
    if (rank >= 0 && !positive(k, rank, shape))
        rank = -1;
    return type_placed(kernel_block(kernel_dtype_arg(k, 1, DT_f32), rank < 0 ? RANK_UNKNOWN : rank, shape), &kernel_places[MEM_REGISTER]);
}

/* ------------------------------------------------------------- loads */

static const Type *unknown_block(uint8_t dtype)
{
    return kernel_block(dtype, RANK_UNKNOWN, NULL);
}

static Dim int_arg(const KernelCall *k, int i, Dim missing)
{
    const Type *t = k->arg[i] ? k->arg[i]->type : NULL;

    if (!t)
        return missing;
    return t->kind == TY_INT && t->value != DIM_BAD ? t->value : kernel_unknown();
}

enum { LOAD_BLOCK = 1, LOAD_SHAPE, LOAD_ROWS, LOAD_COLS };      /* parameters of tile.load */

/* tile.load(A, shape=(ctx.M, ctx.K)): as many extents as A has, each of a tile that of its own axis. */
static const Type *load_shape(KernelCall *k, const TType *x)
{
    Dim shape[16];
    int rank = kernel_shape_arg(k, LOAD_SHAPE, shape);
    TType got;

    if (rank < 0)
        return unknown_block(x->dtype);
    got = (TType){.dtype = x->dtype, .rank = (uint8_t)rank};
    memcpy(got.shape, shape, sizeof(Dim) * (size_t)rank);
    if (x->rank == RANK_UNKNOWN)
        return type_tensor(&got);
    for (int i = 0; rank == x->rank && i < rank; i++)
        if (!dim_is_const(shape[i]) && !dim_is_const(x->shape[i]) && kernel_differ(k->C, shape[i], x->shape[i]))
            rank = -1;
    if (rank != x->rank) {
        REPORT(k->C, E0608, at_call(k->node, k->arg[LOAD_SHAPE]->node), shape_of(&got), shape_of(x));
        return unknown_block(x->dtype);
    }
    return type_tensor(&got);
}

const Type *kernel_rule_load(KernelCall *k)
{
    const Type *view = k->arg[0]->type;
    TType x;

    if (type_is_any(view) || !view->tensor)         /* a view, or something that was reported */
        view = type_tensor_unknown();
    x = *view->tensor;
    x.weak = 0;
    if (kernel_op_id(k->op) != KOP_load)
        return kernel_value(view);
    if (k->arg[LOAD_SHAPE])
        return load_shape(k, &x);
    if (!k->arg[LOAD_BLOCK] && !k->arg[LOAD_ROWS] && !k->arg[LOAD_COLS])
        return kernel_value(view);
    if (x.rank != RANK_UNKNOWN && (x.rank < 2 || (x.rank > 2 && !k->C->kernel->leads))) {
        Diag *d = REPORT(k->C, E0614, k->node->span, k->name, "view", "a matrix, of which rows and columns are taken",
                         x.rank == 1 ? "memory of 1 dimension" : "memory of more dimensions");
        if (x.rank > 2)
            diag_help(d, "index the first, or make the parameter a KTile: its leading axes say which matrix a group has");
        return unknown_block(x.dtype);
    }
    if (x.rank == RANK_UNKNOWN)
        x.shape[0] = kernel_unknown(), x.shape[1] = kernel_unknown();
    else
        memmove(x.shape, x.shape + x.rank - 2, 2 * sizeof *x.shape);        /* of the group's own matrix */
    x.rank = 2;
    x.shape[0] = int_arg(k, LOAD_ROWS, k->arg[LOAD_BLOCK] ? kernel_field(k->C, SCHED_block_n) : x.shape[0]);
    x.shape[1] = int_arg(k, LOAD_COLS, x.shape[1]);
    return type_tensor(&x);
}

const Type *kernel_rule_load_strided(KernelCall *k)
{
    const TType *x = kernel_tensor(k, 0);
    Dim stride = int_arg(k, 1, 1);
    TType r;

    if (!x || !x->rank)
        return type_tensor_unknown();
    r = *x;
    r.shape[0] = dim_is_const(stride) && stride > 0 ? dim_cdiv(x->shape[0], stride) : kernel_unknown();
    return type_tensor(&r);
}

const Type *kernel_rule_load_gather(KernelCall *k)
{
    const TType *x = kernel_tensor(k, 0), *at = kernel_tensor(k, 1);
    uint8_t dtype = type_is_any(k->arg[1]->type) || !k->arg[1]->type->tensor ? DT_NONE : k->arg[1]->type->tensor->dtype;
    TType r;

    if (dtype != DT_NONE && dtype_is_float((DType)dtype))
        REPORT(k->C, E0611, at_call(k->node, k->arg[1]->node), type_text(k->arg[1]->type));
    if (!x || !at || !x->rank || x->rank + at->rank > 16)
        return type_tensor_unknown();
    r = *at;
    r.dtype = x->dtype;
    for (int i = 1; i < x->rank; i++)
        r.shape[r.rank++] = x->shape[i];
    return type_tensor(&r);
}

const Type *kernel_rule_broadcast_element(KernelCall *k)
{
    const TType *x = kernel_tensor(k, 0);

    return x && !x->rank ? k->arg[0]->type : unknown_block(x ? x->dtype : DT_NONE);
}

static const Type *wrong_width(KernelCall *k, Dim width, const char *why, const char *help)
{
    char w[24];

    snprintf(w, sizeof w, "%lld", (long long)width);
    diag_help(REPORT(k->C, E0616, at_call(k->node, k->arg[1]->node), w, why), "%s", help);
    return type_tensor_unknown();
}

/* Vectors of 2, 4, 8 or 16 elements; a row has a whole number of them. */
const Type *kernel_rule_load_vector(KernelCall *k)
{
    const TType *x = kernel_tensor(k, 0);
    Dim width = int_arg(k, 1, DIM_BAD), n = x && x->rank ? x->shape[x->rank - 1] : DIM_BAD;

    if (dim_is_const(width) && (width > 16 || width < 1 || width & (width - 1)))
        return wrong_width(k, width, "is not 1, 2, 4, 8 or 16", "choose one of them");
    if (dim_is_const(width) && n != DIM_BAD && dim_divides(width, n) == DIM_REFUTED) {
        const Type *r;
        StrBuf why = {0};
        sb_puts(&why, "does not divide ");
        dim_print(n, &why);
        r = wrong_width(k, width, sb_str(&why), "choose a width that divides the row");
        sb_done(&why);
        return r;
    }
    return kernel_block(x ? x->dtype : DT_NONE, 1, &width);
}

/* ------------------------------------------------------------- stores and copies */

/* Do the value's extents fill the place? Ranks are known. */
static bool fills(KernelCall *k, const TType *value, const TType *place)
{
    if (value->rank != place->rank)
        return false;
    for (int i = 0; i < value->rank; i++)
        if (kernel_differ(k->C, value->shape[i], place->shape[i]))
            return false;
    return true;
}

const Type *kernel_rule_store(KernelCall *k)
{
    const TType *place = kernel_tensor(k, 0), *value = kernel_tensor(k, 1);
    char what[80];

    if (place && value && value->rank && place->rank && !fills(k, value, place)) {
        REPORT(k->C, E0608, k->node->span, shape_of(value), shape_of(place));
        return T_NONE;
    }
    snprintf(what, sizeof what, "%s()", k->name);
    if (k->arg[0]->type->kind == TY_TENSOR && k->arg[1]->type->kind != TY_KERNEL)
        kernel_dtype_goes(k->C, what, k->arg[1]->type, k->arg[0]->type->tensor->dtype, k->node);
    return T_NONE;
}

/* The row is a whole number of vectors. */
const Type *kernel_rule_store_vector(KernelCall *k)
{
    const TType *place = kernel_tensor(k, 0), *value = kernel_tensor(k, 1);
    char what[80];

    if (place && value && value->rank && place->rank &&
        (value->rank != place->rank || (value->rank == 1 && dim_divides(value->shape[0], place->shape[0]) == DIM_REFUTED))) {
        REPORT(k->C, E0608, k->node->span, shape_of(value), shape_of(place));
        return T_NONE;
    }
    snprintf(what, sizeof what, "%s()", k->name);
    if (k->arg[0]->type->kind == TY_TENSOR)
        kernel_dtype_goes(k->C, what, k->arg[1]->type, k->arg[0]->type->tensor->dtype, k->node);
    return T_NONE;
}

static const Type *copied(KernelCall *k, int to, int from)
{
    const TType *dst = kernel_tensor(k, to), *src = kernel_tensor(k, from);
    char what[80];

    snprintf(what, sizeof what, "%s()", k->name);
    if (dst && src && !k->arg[2] && !fills(k, src, dst))
        REPORT(k->C, E0608, k->node->span, shape_of(src), shape_of(dst));
    else if (dst && src && dst->dtype != DT_NONE && src->dtype != DT_NONE && dst->dtype != src->dtype)
        diag_help(REPORT(k->C, E0609, k->node->span, what, dtype_info[src->dtype].name, dtype_info[dst->dtype].name),
                  "a copy moves bytes: give both sides one dtype");
    return T_NONE;
}

const Type *kernel_rule_copy(KernelCall *k)
{
    const KernelPlace *dst = place_of(k->arg[0]->type);

    if (dst && dst->memory != MEM_SHARED) {
        Diag *d = REPORT(k->C, E0614, at_call(k->node, k->arg[0]->node), k->name, "dst", "shared memory", dst->text);
        const KernelPlace *src = place_of(k->arg[1]->type);
        if (src && src->memory == MEM_SHARED)
            diag_help(d, "the destination comes first: tile.cp_async(dst, src)");
        return T_NONE;
    }
    return copied(k, 0, 1);
}

const Type *kernel_rule_copy_back(KernelCall *k) { return copied(k, 1, 0); }

/* ------------------------------------------------------------- atomic updates */

static bool is_of_bits(const KernelOp *op)
{
    KernelOpId id = kernel_op_id(op);

    return id == KOP_atomic_and || id == KOP_atomic_or || id == KOP_atomic_xor;
}

const Type *kernel_rule_atomic(KernelCall *k)
{
    const TType *array = kernel_tensor(k, 0);
    const Type *at = k->arg[1]->type;
    int given = at->kind == TY_TUPLE ? at->n : 1;
    char what[80], need[24], have[24];

    snprintf(what, sizeof what, "%s()", k->name);
    if (array && !type_is_any(at) && given >= 0 && given != array->rank) {
        StrBuf b = {0};
        ast_print(kernel_arg_node(k, 0), &b);
        snprintf(need, sizeof need, "%d", array->rank);
        snprintf(have, sizeof have, "%d", given);
        diag_help(REPORT(k->C, E0610, k->node->span, sb_str(&b), need, shape_of(array), have), "give an index for each dimension, as a tuple");
        sb_done(&b);
    }
    if (!array || array->dtype == DT_NONE)
        return T_ANY;
    if (is_of_bits(k->op) && !dtype_is_int((DType)array->dtype))
        REPORT(k->C, E0614, at_call(k->node, k->arg[0]->node), k->name, "array", "memory of integers, of which there are bits",
               dtype_info[array->dtype].name);
    for (int i = 2; i < 4 && k->arg[i]; i++)
        kernel_dtype_goes(k->C, what, k->arg[i]->type, array->dtype, k->node);
    return type_tensor(&(TType){.dtype = array->dtype, .rank = 0});
}

/* ------------------------------------------------------------- fragments */

static const Type *fragment(KernelCall *k, KernelThing which)
{
    Dim shape[16];
    int rank = kernel_shape_arg(k, 0, shape);
    TType t = {.dtype = kernel_dtype_arg(k, 1, DT_NONE), .rank = (uint8_t)(rank < 0 ? RANK_UNKNOWN : rank)};

    if (rank >= 0 && rank != 2) {
        REPORT(k->C, E0614, at_call(k->node, k->arg[0]->node), k->name, "shape", "two sizes", shape_of(&(TType){.rank = 0}));
        return T_ANY;
    }
    for (int i = 0; i < rank; i++)
        t.shape[i] = shape[i];
    return type_kernel(which, NULL, &t);
}

const Type *kernel_rule_fragment_a(KernelCall *k) { return fragment(k, KT_FRAGMENT_A); }
const Type *kernel_rule_fragment_b(KernelCall *k) { return fragment(k, KT_FRAGMENT_B); }
const Type *kernel_rule_fragment_c(KernelCall *k) { return fragment(k, KT_FRAGMENT_C); }

/* Between a fragment and memory: one dtype, and memory of two dimensions. */
static const Type *fragment_moved(KernelCall *k, int frag, int view)
{
    const TType *f = kernel_tensor(k, frag), *v = kernel_tensor(k, view);
    char what[80];

    snprintf(what, sizeof what, "%s()", k->name);
    if (f && v && f->dtype != DT_NONE && v->dtype != DT_NONE && f->dtype != v->dtype)
        diag_help(REPORT(k->C, E0609, k->node->span, what, dtype_info[view ? v->dtype : f->dtype].name,
                         dtype_info[view ? f->dtype : v->dtype].name), "make the fragment of the memory's dtype");
    if (v && v->rank != 2)
        REPORT(k->C, E0614, at_call(k->node, k->arg[view]->node), k->name, "view", "memory of two dimensions", shape_of(v));
    return T_NONE;
}

const Type *kernel_rule_load_matrix(KernelCall *k) { return fragment_moved(k, 0, 1); }
const Type *kernel_rule_store_matrix(KernelCall *k) { return fragment_moved(k, 1, 0); }
