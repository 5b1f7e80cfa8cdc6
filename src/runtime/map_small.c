/*
 * Elementwise ops on small plain tensors, where the way to the loop costs more
 * than the loop: no readers, no typing, no threads.
 *
 * Plain means: of one dtype that is its own lane, without a policy, row-major,
 * and either of the result's shape or a single element without axes.  Anything
 * else, and whatever may fail, is for the drivers that everything goes through.
 */
#include "runtime/kernel_util.h"
#include "runtime/loops.h"

#include <string.h>

/* What the dtype rules of ops.def, by name, give for operands of one dtype; NEVER, of every other op: more to it. */
enum { NEVER, SAME, INEXACT, REAL, BOOLEAN };
static const struct { const char *name; uint8_t rule; } rules[] = {
    {"SAME", SAME}, {"PROMOTE", SAME}, {"WHERE", SAME}, {"FLOAT", INEXACT}, {"REAL", REAL}, {"BOOL", BOOLEAN},
};

static uint8_t rule_of(OpId op)
{
    static uint8_t known[OP_COUNT];
    static bool ready;

    for (int i = 0; !ready && i < OP_COUNT; i++)
        for (size_t k = 0; op_info[i].family == FAM_MAP && k < sizeof rules / sizeof *rules; k++)
            if (!strcmp(op_info[i].typing, rules[k].name))
                known[i] = rules[k].rule;
    ready = true;
    return known[op];
}

/* Ops on integers that refuse some of them. */
static bool may_refuse(OpId op) { return op == OP_floordiv || op == OP_mod || op == OP_pow; }

/* Does op on operands of dtype t go by its table row alone? Then the result's dtype, else DT_NONE. */
static DType result_dtype(OpId op, DType t)
{
    if (!raw_is_lane(t) || op == OP_stop_gradient || op == OP_conj || (may_refuse(op) && !dtype_is_inexact(t)))
        return DT_NONE;
    switch (rule_of(op)) {
    case SAME: return t;
    case INEXACT: return dtype_is_inexact(t) ? t : DT_NONE;
    case REAL: return dtype_is_complex(t) ? DT_NONE : t;
    case BOOLEAN: return DT_bool;
    default: return DT_NONE;
    }
}

static bool same_shape(const Tensor *a, const Tensor *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

/* n copies of one element. */
static const void *repeat(const char *one, size_t size, int64_t n, char *to)
{
    size_t have = size, all = (size_t)n * size;

    memcpy(to, one, size);
    for (; have < all; have += have)
        memcpy(to + have, to, have < all - have ? have : all - have);
    return to;
}

/* The operand of the most axes, which has the result's shape; NULL when some operand is not plain. */
static Tensor *widest(OpId op, Tensor *const *in, int nin)
{
    Tensor *x = in[nin - 1];

    for (int i = 0; i < nin; i++) {
        DType want = op == OP_where && !i ? DT_bool : (DType)in[nin - 1]->dtype;
        if (in[i]->dtype != want || in[i]->policy || !in[i]->contiguous)
            return NULL;
        if (in[i]->rank > x->rank)
            x = in[i];
    }
    for (int i = 0; i < nin; i++)
        if (in[i]->rank && !same_shape(in[i], x))
            return NULL;
    return x;
}

Tensor *kernel_map_small(OpId op, Tensor *const *in, int nin)
{
    TileBuf buf[3];
    const void *x[3] = {NULL, NULL, NULL};
    Tensor *like = nin == op_info[op].nin && nin && nin <= 3 ? widest(op, in, nin) : NULL, *out;
    DType dt = like ? (DType)in[nin - 1]->dtype : DT_NONE, result = like ? result_dtype(op, dt) : DT_NONE;
    LoopFn *loop = result != DT_NONE ? loop_find(op, dt) : NULL;
    int64_t n = loop ? tensor_size(like) : 0;
    uint8_t weak = 1;

    if (!loop || n > tile_length(raw_size(dt)) || !(out = tensor_new(result, like->rank, like->shape)))
        return NULL;
    for (int i = 0; i < nin; i++) {
        size_t size = raw_size((DType)in[i]->dtype);
        const char *data = storage_read(in[i]->store) + in[i]->offset * (int64_t)size;
        x[i] = in[i]->rank == like->rank || n <= 1 ? data : repeat(data, size, n, buf[i].at);
        weak &= in[i]->weak || (op == OP_where && !i);
    }
    out->weak = weak && result != DT_bool;
    loop(n, storage_data(out->store), x[0], x[1], x[2]);
    return out;
}
