/*
 * Typing the ops of the Tile IR: tile_type_<rule> for each rule that tile.def
 * names.  A rule looks at operands and attributes, says why they do not fit,
 * or fills in the results' types; extents are numbers, so nothing is left open.
 */
#include "ir/tile/tile_impl.h"

#include "runtime/convert.h"
#include "runtime/loops.h"

#include <stdarg.h>
#include <string.h>

typedef struct Typing {
    const TileKernel *k;
    TileOp op;
    const TAttr *a;
    const TileRef *in;
    int nin, nout;
    TileType *out;
    StrBuf *err;
} Typing;

const TileOpInfo tile_op_info[TOP_COUNT] = {
#define TOP(name, nin, nout, regions, typing, flags, attrs, doc) [TOP_##name] = {#name, #typing, attrs, doc, nin, nout, regions, flags},
#include "ir/tile/tile.def"
};

static bool refuse(Typing *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(Typing *t, const char *fmt, ...)
{
    va_list ap;

    sb_printf(t->err, "%s: ", tile_op_info[t->op].name);
    va_start(ap, fmt);
    sb_vprintf(t->err, fmt, ap);
    va_end(ap);
    return false;
}

static bool refuse_operand(Typing *t, int i, const char *want)
{
    refuse(t, "operand %d is ", i + 1);
    tile_type_print(tile_type(t->in[i]), t->err);
    sb_printf(t->err, " where %s is needed", want);
    return false;
}

static const TileType *type_in(const Typing *t, int i) { return tile_type(t->in[i]); }
static bool is_index(const Typing *t, int i) { return type_in(t, i)->kind == TILE_INDEX; }
static bool is_value(const Typing *t, int i) { return type_in(t, i)->kind == TILE_VALUE; }
static bool is_scalar(const Typing *t, int i) { return is_value(t, i) && type_in(t, i)->rank == 0; }

static bool want_index(Typing *t, int i) { return is_index(t, i) || refuse_operand(t, i, "an index"); }
static bool want_value(Typing *t, int i) { return is_value(t, i) || refuse_operand(t, i, "a tile"); }
static bool want_view(Typing *t, int i) { return type_in(t, i)->kind == TILE_VIEW || refuse_operand(t, i, "a view"); }
static bool want_tree(Typing *t, int i) { return type_in(t, i)->kind == TILE_TREE || refuse_operand(t, i, "a tree"); }

static bool want_flag(Typing *t, int i)
{
    return (is_scalar(t, i) && type_in(t, i)->dtype == DT_bool) || refuse_operand(t, i, "a bool scalar");
}

static bool want_indices(Typing *t, int from, int n)
{
    for (int i = from; i < from + n; i++)
        if (!want_index(t, i))
            return false;
    return true;
}

static bool want_count(Typing *t, int n)
{
    return t->nin == n || refuse(t, "%d operands where %d are needed", t->nin, n);
}

static bool want_axis(Typing *t, int rank)
{
    return (t->a->axis >= 0 && t->a->axis < rank) || refuse(t, "there is no axis %d of %d", t->a->axis, rank);
}

static bool want_dtype(Typing *t)
{
    return t->a->dtype < DT_COUNT || refuse(t, "it needs a dtype");
}

static bool gives(Typing *t, TileType y)
{
    t->out[0] = y;
    t->nout = 1;
    return true;
}

static bool gives_index(Typing *t) { return gives(t, (TileType){.kind = TILE_INDEX}); }
static bool gives_scalar(Typing *t, DType dt) { return gives(t, (TileType){.kind = TILE_VALUE, .dtype = (uint8_t)dt}); }

int64_t tile_elements(const TileType *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->extent[i];
    return n;
}

/* A tile of the attributes' shape. */
static bool gives_shape(Typing *t, uint8_t kind, DType dt)
{
    TileType y = {.kind = kind, .dtype = (uint8_t)dt, .rank = (uint8_t)t->a->rank};
    int64_t n = 1;

    if (t->a->rank < 0 || t->a->rank > TILE_RANK_MAX)
        return refuse(t, "a tile has at most %d axes", TILE_RANK_MAX);
    for (int i = 0; i < t->a->rank; i++) {
        y.extent[i] = t->a->shape[i];
        if (y.extent[i] < 1 || (n *= y.extent[i]) > TILE_ELEMENTS_MAX)
            return refuse(t, "extents are at least 1, and their product at most %d", TILE_ELEMENTS_MAX);
    }
    return gives(t, y);
}

/* ---- sizes and places ---- */

static bool has_size(const TileKernel *k, Sym name)
{
    for (int i = 0; i < k->size.n; i++)
        if (k->size.at[i] == name)
            return true;
    return false;
}

static bool tile_type_INDEX(Typing *t)
{
    if (t->op == TOP_size && (!t->a->name || !has_size(t->k, t->a->name)))
        return refuse(t, "the kernel has no size '%s'", t->a->name ? t->a->name->text : "");
    if (t->op == TOP_group && !want_axis(t, t->k->grid.n))
        return false;
    return gives_index(t);
}

static bool tile_type_EXTENT(Typing *t)
{
    return want_view(t, 0) && want_axis(t, type_in(t, 0)->rank) && gives_index(t);
}

static bool tile_type_INDEX2(Typing *t) { return want_indices(t, 0, 2) && gives_index(t); }
static bool tile_type_FLAG2(Typing *t) { return want_indices(t, 0, 2) && gives_scalar(t, DT_bool); }

static bool tile_type_TO_INDEX(Typing *t)
{
    return ((is_scalar(t, 0) && dtype_is_int((DType)type_in(t, 0)->dtype)) || refuse_operand(t, 0, "an integer scalar")) && gives_index(t);
}

static bool tile_type_TO_TILE(Typing *t)
{
    if (!want_index(t, 0) || !want_dtype(t))
        return false;
    return dtype_is_int((DType)t->a->dtype) ? gives_scalar(t, (DType)t->a->dtype)
                                            : refuse(t, "%s is not an integer dtype", dtype_info[t->a->dtype].name);
}

/* ---- values ---- */

static bool tile_type_CONST(Typing *t)
{
    if (!want_dtype(t))
        return false;
    return dtype_is_complex((DType)t->a->dtype) ? refuse(t, "constants are real") : gives_scalar(t, (DType)t->a->dtype);
}

static bool tile_type_SPLAT(Typing *t)
{
    const TileType *x = type_in(t, 0);

    if (!want_value(t, 0) || !gives_shape(t, TILE_VALUE, (DType)x->dtype))
        return false;
    if (x->rank && x->rank != t->a->rank)
        return refuse_operand(t, 0, "a scalar or a tile of as many axes");
    for (int i = 0; i < x->rank; i++)
        if (x->extent[i] != 1 && x->extent[i] != t->a->shape[i])
            return refuse_operand(t, 0, "a tile whose extents are 1 or the result's");
    return true;
}

static bool tile_type_IOTA(Typing *t)
{
    return want_index(t, 0) && want_dtype(t) && want_axis(t, t->a->rank) && gives_shape(t, TILE_VALUE, (DType)t->a->dtype);
}

DType tile_map_dtype(OpId op, const TileRef *in)
{
    return (DType)tile_type(in[op == OP_where])->dtype;
}

static DType map_result(const TAttr *a, DType as)
{
    switch ((OpId)a->op) {
    case OP_eq: case OP_ne: case OP_lt: case OP_le: case OP_gt: case OP_ge:
    case OP_isnan: case OP_isinf: case OP_isfinite: case OP_lnot:
        return DT_bool;
    case OP_abs: case OP_real: case OP_imag: return dtype_real(as);
    case OP_complex: return dtype_complex(as);
    case OP_convert: return (DType)a->dtype;
    default: return as;
    }
}

/* Does the formula of an op exist for these operands? */
static bool map_defined(Typing *t, DType as)
{
    const OpInfo *o = &op_info[t->a->op];

    for (int i = 0; i < t->nin; i++)
        if (type_in(t, i)->dtype != (t->a->op == OP_where && i == 0 ? DT_bool : as))
            return refuse(t, "operand %d of %s has dtype %s, where %s is needed", i + 1, o->name, dtype_info[type_in(t, i)->dtype].name,
                          dtype_info[t->a->op == OP_where && i == 0 ? DT_bool : as].name);
    if (t->a->op == OP_convert) {
        if (t->a->rounding == ROUND_STOCHASTIC || t->a->rounding > ROUND_AWAY)
            return refuse(t, "convert has no such rounding here");
        return want_dtype(t);
    }
    return loop_find((OpId)t->a->op, as) != NULL || refuse(t, "%s is not defined for %s", o->name, dtype_info[as].name);
}

static bool join_extents(Typing *t, TileType *y, const TileType *x)
{
    if (!x->rank)
        return true;
    if (y->rank && y->rank != x->rank)
        return refuse(t, "operands have %d and %d axes", y->rank, x->rank);
    if (!y->rank)
        memset(y->extent, 0, sizeof y->extent);
    y->rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        if (y->extent[i] > 1 && x->extent[i] > 1 && y->extent[i] != x->extent[i])
            return refuse(t, "extents %d and %d of axis %d differ", y->extent[i], x->extent[i], i);
        y->extent[i] = y->extent[i] > x->extent[i] ? y->extent[i] : x->extent[i];
    }
    return true;
}

static bool tile_type_MAP(Typing *t)
{
    TileType y = {.kind = TILE_VALUE};
    DType as;

    if (t->a->op >= OP_COUNT || op_info[t->a->op].family != FAM_MAP)
        return refuse(t, "it needs an elementwise op");
    if (!want_count(t, op_info[t->a->op].nin))
        return false;
    for (int i = 0; i < t->nin; i++)
        if (!want_value(t, i))
            return false;
    as = tile_map_dtype((OpId)t->a->op, t->in);
    if (!map_defined(t, as))
        return false;
    for (int i = 0; i < t->nin; i++)
        if (!join_extents(t, &y, type_in(t, i)))
            return false;
    if (tile_elements(&y) > TILE_ELEMENTS_MAX)
        return refuse(t, "the result has more than %d elements", TILE_ELEMENTS_MAX);
    y.dtype = (uint8_t)map_result(t->a, as);
    return gives(t, y);
}

static bool tile_type_RESHAPE(Typing *t)
{
    if (!want_value(t, 0) || !gives_shape(t, TILE_VALUE, (DType)type_in(t, 0)->dtype))
        return false;
    return tile_elements(t->out) == tile_elements(type_in(t, 0)) || refuse_operand(t, 0, "a tile of as many elements");
}

static bool tile_type_PERMUTE(Typing *t)
{
    const TileType *x = type_in(t, 0);
    TileType y = *x;
    unsigned seen = 0;

    if (!want_value(t, 0))
        return false;
    if (t->a->rank != x->rank)
        return refuse(t, "%d axes are given for a tile of %d", t->a->rank, x->rank);
    for (int i = 0; i < x->rank; i++) {
        int from = t->a->axes[i];
        if (from < 0 || from >= x->rank || seen >> from & 1)
            return refuse(t, "axes must name each axis once");
        seen |= 1u << from;
        y.extent[i] = x->extent[from];
    }
    return gives(t, y);
}

OpId tile_step_op(OpId reduction)
{
    switch (reduction) {
    case OP_sum: case OP_any: return OP_add;
    case OP_prod: case OP_all: return OP_mul;
    case OP_max: return OP_maximum;
    case OP_min: return OP_minimum;
    default: return OP_COUNT;
    }
}

OpId tile_update_step(OpId op) { return op == OP_bitand || op == OP_bitor || op == OP_bitxor ? op : tile_step_op(op); }

static bool reduction_ok(Typing *t, DType dt)
{
    OpId step = t->a->op < OP_COUNT ? tile_step_op((OpId)t->a->op) : OP_COUNT;

    if (step == OP_COUNT)
        return refuse(t, "it needs sum, prod, max, min, any or all");
    if ((t->a->op == OP_any || t->a->op == OP_all) && dt != DT_bool)
        return refuse(t, "%s is of bools", op_info[t->a->op].name);
    return loop_find(step, dt) != NULL || refuse(t, "%s is not defined for %s", op_info[t->a->op].name, dtype_info[dt].name);
}

static bool tile_type_REDUCE(Typing *t)
{
    const TileType *x = type_in(t, 0);
    TileType y = *x;

    if (!want_value(t, 0) || !want_index(t, 1) || !want_axis(t, x->rank) || !reduction_ok(t, (DType)x->dtype))
        return false;
    y.rank--;
    for (int i = t->a->axis; i < y.rank; i++)
        y.extent[i] = y.extent[i + 1];
    y.extent[y.rank] = 0;
    return gives(t, y);
}

static bool tile_type_DOT(Typing *t)
{
    const TileType *x[3];

    for (int i = 0; i < 3; i++) {
        x[i] = type_in(t, i);
        if (!want_value(t, i) || x[i]->rank != 2 || x[i]->dtype == DT_bool || dtype_is_complex((DType)x[i]->dtype))
            return refuse_operand(t, i, "a tile of two axes, of a real dtype other than bool,");
    }
    if (!want_index(t, 3))
        return false;
    if (x[0]->extent[1] != x[1]->extent[0] || x[2]->extent[0] != x[0]->extent[0] || x[2]->extent[1] != x[1]->extent[1])
        return refuse(t, "[%d, %d] @ [%d, %d] do not make [%d, %d]", x[0]->extent[0], x[0]->extent[1], x[1]->extent[0], x[1]->extent[1],
                      x[2]->extent[0], x[2]->extent[1]);
    return gives(t, *x[2]);
}

static bool tile_type_TREE(Typing *t)
{
    if (!want_dtype(t) || !reduction_ok(t, (DType)t->a->dtype) || !gives_shape(t, TILE_TREE, (DType)t->a->dtype))
        return false;
    t->out[0].op = t->a->op;
    return true;
}

static TileType tree_value(const TileType *tree)
{
    TileType y = *tree;

    y.kind = TILE_VALUE;
    y.op = 0;
    return y;
}

static bool tile_type_PUSH(Typing *t)
{
    TileType y;

    if (!want_tree(t, 0))
        return false;
    y = tree_value(type_in(t, 0));
    return (tile_type_equal(type_in(t, 1), &y) || refuse_operand(t, 1, "a tile as the tree's")) && gives(t, *type_in(t, 0));
}

static bool tile_type_TOTAL(Typing *t) { return want_tree(t, 0) && gives(t, tree_value(type_in(t, 0))); }

/* ---- lanes together ---- */

static bool tile_type_LANES(Typing *t)
{
    bool index = is_index(t, 0);

    if (!index && !is_scalar(t, 0))
        return refuse_operand(t, 0, "an index or a scalar");
    if (t->a->i < 0 || t->a->i > 1024 || (t->a->i & (t->a->i - 1)))
        return refuse(t, "a run of %lld lanes: it needs a power of two, or 0 for the group", (long long)t->a->i);
    if (t->op == TOP_match)
        return t->a->i < 1 || t->a->i > 32 ? refuse(t, "a run of 1 to 32 lanes has a bit for each") : gives_index(t);
    if (t->op == TOP_shuffle && !want_index(t, 1))
        return false;
    if (t->op == TOP_lane_reduce && (index || !reduction_ok(t, (DType)type_in(t, 0)->dtype)))
        return index ? refuse_operand(t, 0, "a scalar") : false;
    return gives(t, *type_in(t, 0));
}

static bool tile_type_RANKS(Typing *t)
{
    if (!t->a->name)
        return refuse(t, "it needs the name of a mesh's axis");
    if (!want_value(t, 0) || type_in(t, 0)->dtype == DT_bool)
        return refuse_operand(t, 0, "a tile of numbers");
    return gives(t, *type_in(t, 0));
}

/* ---- memory ---- */

static bool tile_type_GATHER(Typing *t)
{
    const TileType *v = type_in(t, 0), *x = type_in(t, 1);

    if (!want_view(t, 0) || !want_value(t, 1))
        return false;
    if (x->rank != 1 || !dtype_is_int((DType)x->dtype))
        return refuse_operand(t, 1, "integers along one axis");
    if (t->a->rank != v->rank || !v->rank || t->a->shape[0] != x->extent[0])
        return refuse(t, "the shape must have the view's axes, and the first as many places as there are numbers");
    return gives_shape(t, TILE_VALUE, (DType)v->dtype);
}

/* View and a start for each axis, and n operands more. */
static bool want_place(Typing *t, int n)
{
    if (t->nin < 1)
        return refuse(t, "it needs a view");
    return want_view(t, 0) && want_count(t, 1 + type_in(t, 0)->rank + n) && want_indices(t, 1, type_in(t, 0)->rank);
}

static bool want_no_overlap(Typing *t, int i)
{
    const TileType *v = type_in(t, i);

    for (int k = 0; k < v->rank; k++)
        if (v->stride[k] == 0)
            return refuse(t, "axis %d of the view has stride 0: its elements are one element", k);
    return true;
}

static bool tile_type_PREFETCH(Typing *t) { return want_place(t, 0); }

static bool tile_type_LOAD(Typing *t)
{
    TileType y;
    int n = 0;

    if (!want_place(t, 0))
        return false;
    if (t->a->rank != type_in(t, 0)->rank)
        return refuse(t, "a shape of %d axes for a view of %d", t->a->rank, type_in(t, 0)->rank);
    if (!gives_shape(t, TILE_VALUE, (DType)type_in(t, 0)->dtype))
        return false;
    y = t->out[0];
    for (int i = 0; i < t->a->rank; i++) {
        if (!(t->a->drop >> i & 1))
            y.extent[n++] = t->a->shape[i];
        else if (t->a->shape[i] != 1)
            return refuse(t, "axis %d of extent %d cannot go", i, t->a->shape[i]);
    }
    if (t->a->drop >> t->a->rank)
        return refuse(t, "drop names an axis that is not there");
    for (int i = n; i < TILE_RANK_MAX; i++)
        y.extent[i] = 0;
    y.rank = (uint8_t)n;
    return gives(t, y);
}

static bool stores_to(Typing *t, unsigned drop)
{
    const TileType *v, *x;

    if (!want_place(t, 1))
        return false;
    v = type_in(t, 0);
    x = type_in(t, t->nin - 1);
    if (!want_value(t, t->nin - 1) || !want_no_overlap(t, 0))
        return false;
    if (drop >> v->rank)
        return refuse(t, "drop names an axis that is not there");
    if (x->dtype != v->dtype)
        return refuse(t, "a tile of %s into a view of %s", dtype_info[x->dtype].name, dtype_info[v->dtype].name);
    return x->rank + __builtin_popcount(drop) == v->rank || refuse_operand(t, t->nin - 1, "a tile with the view's axes less those dropped");
}

static bool tile_type_STORE(Typing *t)
{
    t->nout = 0;
    return stores_to(t, t->a->drop);
}

static bool tile_type_ATOMIC(Typing *t)
{
    t->nout = 0;
    if (!stores_to(t, t->a->drop))
        return false;
    if (t->a->op != OP_sum && t->a->op != OP_prod && t->a->op != OP_max && t->a->op != OP_min)
        return refuse(t, "it needs sum, prod, max or min");
    return reduction_ok(t, (DType)type_in(t, 0)->dtype);
}

static bool tile_type_UPDATE(Typing *t)
{
    TileType y;
    bool combines;

    if (t->nin < 1 || !want_place(t, t->nin > 2 + type_in(t, 0)->rank ? 2 : 1) || !want_no_overlap(t, 0))
        return false;
    y = *type_in(t, t->nin - 1);
    for (int i = 1 + type_in(t, 0)->rank; i < t->nin; i++)
        if (!is_scalar(t, i) || type_in(t, i)->dtype != type_in(t, 0)->dtype)
            return refuse_operand(t, i, "a scalar of the view's dtype");
    if (t->a->drop != (1u << type_in(t, 0)->rank) - 1)
        return refuse(t, "it is of one element: drop names all axes");
    combines = t->a->op == OP_sum || t->a->op == OP_max || t->a->op == OP_min;
    if (t->a->op == OP_bitand || t->a->op == OP_bitor || t->a->op == OP_bitxor)
        return (dtype_is_int((DType)y.dtype) || refuse(t, "bits of %s", dtype_info[y.dtype].name)) && gives(t, y);
    if (!combines && t->a->op != OP_where)
        return refuse(t, "it needs sum, max, min, bitand, bitor, bitxor or where");
    if (t->nin > 2 + type_in(t, 0)->rank && t->a->op != OP_where)
        return refuse(t, "what must be there is only asked by where");
    return (!combines || reduction_ok(t, (DType)y.dtype)) && gives(t, y);
}

static bool tile_type_ALLOC(Typing *t)
{
    TileType y = {.kind = TILE_VIEW, .dtype = t->a->dtype, .rank = (uint8_t)t->nin, .space = t->a->space};

    if (!want_dtype(t) || !want_indices(t, 0, t->nin))
        return false;
    if (t->nin > TILE_RANK_MAX)
        return refuse(t, "a view has at most %d axes", TILE_RANK_MAX);
    if (t->a->space != SPACE_SHARED && t->a->space != SPACE_LOCAL)
        return refuse(t, "a buffer is shared or local");
    if (is_packed((DType)t->a->dtype))
        return refuse(t, "elements of %s have no place of their own", dtype_info[t->a->dtype].name);
    for (int i = 0; i < y.rank; i++)
        y.stride[i] = i == y.rank - 1 ? 1 : STRIDE_ANY;
    return gives(t, y);
}

static bool tile_type_PART(Typing *t)
{
    TileType y;
    int n = 0;

    if (t->nin < 1)
        return refuse(t, "it needs a view");
    if (!want_view(t, 0) || !want_count(t, 1 + 2 * type_in(t, 0)->rank) || !want_indices(t, 1, 2 * type_in(t, 0)->rank))
        return false;
    y = *type_in(t, 0);
    if (t->a->drop >> y.rank)
        return refuse(t, "drop names an axis that is not there");
    for (int i = 0; i < y.rank; i++)
        if (!(t->a->drop >> i & 1))
            y.stride[n++] = y.stride[i];
    y.rank = (uint8_t)n;
    return gives(t, y);
}

static bool tile_type_COPY(Typing *t)
{
    t->nout = 0;
    if (!want_view(t, 0) || !want_view(t, 1) || !want_no_overlap(t, 0))
        return false;
    return (type_in(t, 0)->rank == type_in(t, 1)->rank && type_in(t, 0)->dtype == type_in(t, 1)->dtype) ||
           refuse(t, "both views must have the same dtype and number of axes");
}

static bool tile_type_NONE(Typing *t)
{
    t->nout = 0;
    return t->op != TOP_wait || t->a->i >= 0 || refuse(t, "a number of batches is not negative");
}

/* ---- control ---- */

static bool carries(Typing *t, int from)
{
    for (int i = from; i < t->nin; i++)
        t->out[i - from] = *type_in(t, i);
    t->nout = t->nin - from;
    return true;
}

static bool tile_type_FOR(Typing *t)
{
    if (t->nin < 3)
        return refuse(t, "it needs a first, an end and a step");
    return want_indices(t, 0, 3) && carries(t, 3);
}

static bool tile_type_IF(Typing *t)
{
    t->nout = -1;
    return want_count(t, 1) && want_flag(t, 0);
}

static bool tile_type_WHILE(Typing *t) { return carries(t, 0); }

int tile_region_params(const TileNode *n, int r, TileType *types)
{
    int k = 0;

    (void)r;
    if (n->op == TOP_if)
        return 0;
    if (n->op == TOP_for)
        types[k++] = (TileType){.kind = TILE_INDEX};
    for (int i = 0; i < n->nout; i++)
        types[k++] = n->type[i];
    return k;
}

int tile_region_yields(const TileNode *n, int r, const TileType **types, TileType *flag)
{
    *types = n->type;
    if (n->op == TOP_if && r == 0 && !n->region[0]->closed)
        return -1;
    if (n->op != TOP_while || r == 1)
        return n->nout;
    *flag = (TileType){.kind = TILE_VALUE, .dtype = DT_bool};
    *types = flag;
    return 1;
}

typedef bool TypeRule(Typing *t);
static TypeRule *const rules[TOP_COUNT] = {
#define TOP(name, nin, nout, regions, typing, flags, attrs, doc) [TOP_##name] = tile_type_##typing,
#include "ir/tile/tile.def"
};

bool tile_infer(const TileKernel *k, TileOp op, const TAttr *a, const TileRef *in, int nin, TileType *out, int *nout, StrBuf *err)
{
    Typing t = {.k = k, .op = op, .a = a, .in = in, .nin = nin, .out = out, .err = err};
    bool ok;

    if (tile_op_info[op].nin >= 0 && !want_count(&t, tile_op_info[op].nin))
        return false;
    ok = rules[op](&t);
    *nout = t.nout;
    return ok;
}

/* ---- types ---- */

bool tile_type_equal(const TileType *a, const TileType *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == TILE_INDEX)
        return true;
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    if (a->kind == TILE_VIEW)
        return a->space == b->space && !memcmp(a->stride, b->stride, a->rank);
    return (a->kind != TILE_TREE || a->op == b->op) && !memcmp(a->extent, b->extent, a->rank * sizeof *a->extent);
}

void tile_type_print(const TileType *t, StrBuf *out)
{
    static const char *const space[] = {"", " shared", " local"};

    if (t->kind == TILE_INDEX) {
        sb_puts(out, "index");
        return;
    }
    if (t->kind == TILE_TREE)
        sb_printf(out, "tree %s ", op_info[t->op].name);
    sb_printf(out, "%s%s[", t->kind == TILE_VIEW ? "view " : "", dtype_info[t->dtype].name);
    for (int i = 0; i < t->rank; i++) {
        sb_puts(out, i ? ", " : "");
        if (t->kind != TILE_VIEW)
            sb_printf(out, "%d", t->extent[i]);
        else if (t->stride[i] == STRIDE_ANY)
            sb_putc(out, '?');
        else
            sb_printf(out, "%d", t->stride[i]);
    }
    sb_printf(out, "]%s", t->kind == TILE_VIEW ? space[t->space] : "");
}
