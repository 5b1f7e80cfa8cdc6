/*
 * Simplifying kernels: index arithmetic on numbers, maps of constant scalars,
 * equal pure nodes of one block made one, and what nobody uses removed.
 *
 * One walk forward: each node first takes the operands that earlier ones were
 * replaced by, then becomes a constant, or another value, or stays.  One walk
 * backward removes what is left without users.  Trees are used up by their
 * users, so they are never merged.
 */
#include "ir/tile/tile_impl.h"

#include "base/map.h"
#include "runtime/convert.h"

#include <math.h>
#include <string.h>

typedef struct Fold {
    TileKernel *k;
    TileRef *now;               /* by node id: what its first result is by now, or no node */
    bool changed;
} Fold;

TilePass tile_pass_find(const char *name)
{
    static const struct { const char *name; TilePass run; } passes[] = {
#define PASS(name, function, help) {#name, function},
#include "ir/tile/pass.def"
    };

    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!strcmp(passes[i].name, name))
            return passes[i].run;
    return NULL;
}

/* ---- becoming something else ---- */

static void take_operands(Fold *f, TileRef *v, int n)
{
    for (int i = 0; i < n; i++)
        if (v[i].index == 0 && f->now[v[i].node->id].node) {
            v[i].node->nuse--;
            v[i] = f->now[v[i].node->id];
            v[i].node->nuse++;
        }
}

static bool becomes(Fold *f, TileNode *n, TileRef v)
{
    f->now[n->id] = v;
    f->changed = true;
    return true;
}

static bool becomes_op(Fold *f, TileNode *n, TileOp op, TAttr a)
{
    for (int i = 0; i < n->nin; i++)
        n->in[i].node->nuse--;
    n->nin = 0;
    n->op = (uint16_t)op;
    a = tattr_only(op, &a);
    n->attr = arena_copy(&f->k->arena, &a, sizeof a);
    f->changed = true;
    return true;
}

static bool becomes_index(Fold *f, TileNode *n, int64_t v)
{
    TAttr a = tattr_none;

    a.i = v;
    return becomes_op(f, n, TOP_index, a);
}

/* A scalar of raw bits; false: not one that a constant can say. */
static bool becomes_const(Fold *f, TileNode *n, const void *raw)
{
    TAttr a = tattr_none;
    DType dt = (DType)n->type[0].dtype;

    a.dtype = (uint8_t)dt;
    if (dtype_is_complex(dt))
        return false;
    if (dtype_is_float(dt))
        raw_convert(DT_f64, &a.f, dt, raw, 1, NULL, 0);
    else
        raw_convert(DT_int64, &a.i, dt, raw, 1, NULL, 0);
    return !isnan(a.f) && becomes_op(f, n, TOP_const, a);
}

/* ---- indices ---- */

static bool is_number(TileRef v, int64_t *out)
{
    *out = v.node->attr->i;
    return v.node->op == TOP_index;
}

static bool same(TileRef a, TileRef b) { return a.node == b.node && a.index == b.index; }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static bool fold_numbers(Fold *f, TileNode *n, int64_t a, int64_t b)
{
    uint8_t flag = n->op == TOP_ilt ? a < b : a == b;

    switch (n->op) {
    case TOP_iadd: return becomes_index(f, n, (int64_t)((uint64_t)a + (uint64_t)b));
    case TOP_isub: return becomes_index(f, n, (int64_t)((uint64_t)a - (uint64_t)b));
    case TOP_imul: return becomes_index(f, n, (int64_t)((uint64_t)a * (uint64_t)b));
    case TOP_idiv: return b > 0 && becomes_index(f, n, floor_div(a, b));
    case TOP_imod: return b > 0 && becomes_index(f, n, a - floor_div(a, b) * b);
    case TOP_imin: return becomes_index(f, n, a < b ? a : b);
    case TOP_imax: return becomes_index(f, n, a > b ? a : b);
    default: return becomes_const(f, n, &flag);
    }
}

static bool fold_index(Fold *f, TileNode *n)
{
    int64_t a, b;
    bool na = is_number(n->in[0], &a), nb = is_number(n->in[1], &b);

    if (na && nb)
        return fold_numbers(f, n, a, b);
    switch (n->op) {
    case TOP_iadd:
        if (na && a == 0)
            return becomes(f, n, n->in[1]);
        return nb && b == 0 && becomes(f, n, n->in[0]);
    case TOP_isub: return nb && b == 0 && becomes(f, n, n->in[0]);
    case TOP_imul:
        if ((na && a == 0) || (nb && b == 0))
            return becomes_index(f, n, 0);
        if (na && a == 1)
            return becomes(f, n, n->in[1]);
        return nb && b == 1 && becomes(f, n, n->in[0]);
    case TOP_idiv: return nb && b == 1 && becomes(f, n, n->in[0]);
    case TOP_imod: return nb && b == 1 && becomes_index(f, n, 0);
    case TOP_imin: case TOP_imax: return same(n->in[0], n->in[1]) && becomes(f, n, n->in[0]);
    default: return false;
    }
}

/* ---- scalars ---- */

static bool constant_raw(TileRef v, void *raw)
{
    const TAttr *a = v.node->attr;

    if (v.node->op != TOP_const)
        return false;
    if (dtype_is_float((DType)a->dtype))
        raw_convert((DType)a->dtype, raw, DT_f64, &a->f, 1, NULL, 0);
    else
        raw_convert((DType)a->dtype, raw, DT_int64, &a->i, 1, NULL, 0);
    return true;
}

static bool fold_map(Fold *f, TileNode *n)
{
    _Alignas(16) char raw[3][16], out[16];
    const void *in[3] = {raw[0], raw[1], raw[2]};

    for (int i = 0; i < n->nin; i++)
        if (!constant_raw(n->in[i], raw[i]))
            return false;
    tile_eval_map(n->attr, tile_map_dtype((OpId)n->attr->op, n->in), (DType)n->type[0].dtype, n->nin, in, 1, out);
    return becomes_const(f, n, out);
}

/* To a dtype that has all of x's values, and back. */
static bool fold_there_and_back(Fold *f, TileNode *n)
{
    const TileNode *there = n->in[0].node;

    return tile_converts_plainly(n) && tile_converts_plainly(there) && tile_type_equal(tile_type(there->in[0]), &n->type[0]) &&
           dtype_holds((DType)there->type[0].dtype, (DType)n->type[0].dtype) && becomes(f, n, there->in[0]);
}

static bool simplify(Fold *f, TileNode *n)
{
    _Alignas(16) char raw[16];
    int64_t v;

    switch (n->op) {
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv: case TOP_imod: case TOP_imin: case TOP_imax: case TOP_ilt: case TOP_ieq:
        return fold_index(f, n);
    case TOP_map: return (n->type[0].rank == 0 && fold_map(f, n)) || fold_there_and_back(f, n);
    case TOP_splat: case TOP_reshape:
        return tile_type_equal(tile_type(n->in[0]), &n->type[0]) && becomes(f, n, n->in[0]);
    case TOP_to_index:
        if (!constant_raw(n->in[0], raw))
            return false;
        raw_convert(DT_int64, &v, (DType)tile_type(n->in[0])->dtype, raw, 1, NULL, 0);
        return becomes_index(f, n, v);
    case TOP_to_tile:
        if (!is_number(n->in[0], &v))
            return false;
        raw_convert((DType)n->type[0].dtype, raw, DT_int64, &v, 1, NULL, 0);
        return becomes_const(f, n, raw);
    default: return false;
    }
}

/* ---- equal nodes ---- */

static bool can_merge(const TileNode *n)
{
    if (tile_op_info[n->op].flags != TF_PURE || tile_op_info[n->op].regions || n->nout != 1 || n->type[0].kind == TILE_TREE)
        return false;
    return n->op != TOP_total;
}

static uint64_t hash_of(const TileNode *n)
{
    uint64_t h = n->op * 0x9e3779b97f4a7c15u + (uint64_t)n->attr->i, bits;

    memcpy(&bits, &n->attr->f, sizeof bits);
    h = (h ^ bits) * 0xff51afd7ed558ccdu + n->attr->op + n->attr->dtype * 256u + (uint64_t)n->attr->axis * 65536u;
    for (int i = 0; i < n->attr->rank; i++)
        h = (h ^ h >> 29) * 0xff51afd7ed558ccdu + (uint64_t)n->attr->shape[i];
    for (int i = 0; i < n->nin; i++)
        h = (h ^ h >> 31) * 0xff51afd7ed558ccdu + n->in[i].node->id * 8u + (uint64_t)n->in[i].index;
    return h | 1;
}

static bool equal_nodes(const TileNode *a, const TileNode *b)
{
    if (a->op != b->op || a->nin != b->nin || !tattr_equal(a->attr, b->attr))
        return false;
    for (int i = 0; i < a->nin; i++)
        if (!same(a->in[i], b->in[i]))
            return false;
    return true;
}

static void merge(Fold *f, Map *seen, TileNode *n)
{
    uintptr_t v;
    uint64_t h;

    if (!can_merge(n))
        return;
    h = hash_of(n);
    if (!map_find(seen, h, &v))
        map_set(seen, h, (uintptr_t)n);
    else if (equal_nodes((TileNode *)v, n))
        becomes(f, n, (TileRef){(TileNode *)v, 0});
}

static void forward(Fold *f, TileBlock *b)
{
    Map seen = {0};

    for (TileNode *n = b->first; n; n = n->next) {
        take_operands(f, n->in, n->nin);
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                forward(f, n->region[r]);
        if (!simplify(f, n) || !f->now[n->id].node)
            merge(f, &seen, n);
    }
    take_operands(f, b->yields.at, b->yields.n);
    map_done(&seen);
}

/* ---- what nobody uses ---- */

static bool writes(const TileNode *n)
{
    if (tile_op_info[n->op].flags & (TF_WRITE | TF_ORDER) || n->op == TOP_while)    /* which may not end */
        return true;
    for (int r = 0; r < 2; r++)
        for (const TileNode *m = n->region[r] ? n->region[r]->first : NULL; m; m = m->next)
            if (writes(m))
                return true;
    return false;
}

static void backward(Fold *f, TileBlock *b)
{
    for (TileNode *n = b->last, *prev; n; n = prev) {
        prev = n->prev;
        if (!n->nuse && n->op == TOP_update && (n->attr->op == OP_sum || n->attr->op == OP_max || n->attr->op == OP_min)) {
            n->op = TOP_atomic;                 /* nobody asks what was there */
            n->nout = 0;
            f->changed = true;
        }
        if (!n->nuse && (n->op == TOP_alloc || !writes(n))) {
            tile_unlink(n);
            f->changed = true;
            continue;
        }
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                backward(f, n->region[r]);
    }
}

bool tile_fold(TileKernel *k)
{
    Fold f = {.k = k};

    if (!pass_runs("tile.fold"))
        return false;
    f.now = tsr_calloc(sizeof *f.now * (k->nnodes + 1));
    forward(&f, &k->body);
    backward(&f, &k->body);
    tsr_free(f.now);
    pass_done("tile.fold", &tile_ir, k);
    return f.changed;
}
