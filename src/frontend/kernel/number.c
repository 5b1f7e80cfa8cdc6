/*
 * Numbers in a kernel: ints of the launch as sums of indices, elements, and
 * block values.
 *
 * A Python int stays exact: it is a Lin, a sum of indices with factors, so that
 * (i + 1) * 16 - i * 16 is 16 whatever i is, and extents of slices are numbers.
 * A Python float is an f64 until it meets an element, whose dtype it takes.
 */
#include "frontend/kernel/oper.h"

#include "frontend/tensor/tensor_ops.h"
#include "runtime/loops.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ------------------------------------------------------------- failing */

KVal kb_fail(Body *B, const char *fmt, ...)
{
    va_list ap;

    if (!B->failed) {
        va_start(ap, fmt);
        sb_vprintf(&B->err, fmt, ap);
        va_end(ap);
        B->err_at = B->b.span;
    }
    B->failed = true;
    return KBAD;
}

KVal kb_again(Body *B)
{
    if (!B->failed)
        B->again = true;
    B->failed = true;
    return KBAD;
}

KVal kb_pending(Body *B)
{
    Value e = exc_take(B->I), s = value_str(B->I, e);

    if (is_err(s))
        exc_clear(B->I);
    kb_fail(B, "%s", is_err(s) ? "an exception" : as_str(s)->s);
    value_unref(s);
    value_unref(e);
    return KBAD;
}

void *kb_alloc(Body *B, size_t n) { return arena_alloc(&B->arena, n ? n : 1); }

/* ------------------------------------------------------------- emitting */

/* A node of a kernel that could not be made stands for all others. */
TileRef kb_emit(Body *B, TileOp op, const TAttr *a, const TileRef *in, int n)
{
    TileNode *y = NULL;

    for (int i = 0; i < n; i++)
        if (!in[i].node)
            return (TileRef){0};
    if (!B->failed && !(y = tile_add(&B->b, op, a, in, n)))
        kb_fail(B, "%s", sb_str(&B->build_err));
    return y ? tile_out(y) : (TileRef){0};
}

TileRef kb_emit1(Body *B, TileOp op, const TAttr *a, TileRef x) { return kb_emit(B, op, a, &x, 1); }
TileRef kb_emit2(Body *B, TileOp op, const TAttr *a, TileRef x, TileRef y) { return kb_emit(B, op, a, (TileRef[]){x, y}, 2); }

TileRef kb_map(Body *B, OpId op, const TileRef *in, int n)
{
    TAttr a = tattr_none;

    a.op = (uint8_t)op;
    return kb_emit(B, TOP_map, &a, in, n);
}

TileRef kb_index(Body *B, int64_t v)
{
    TAttr a = tattr_none;

    a.i = v;
    return kb_emit(B, TOP_index, &a, NULL, 0);
}

TileRef kb_const(Body *B, DType dt, double f, int64_t i)
{
    TAttr a = tattr_none;

    if (dtype_is_complex(dt))
        return kb_convert(B, kb_const(B, dt == DT_c64 ? DT_f32 : DT_f64, f, i), dt);
    a.dtype = (uint8_t)dt;
    a.f = f;
    a.i = i;
    return kb_emit(B, TOP_const, &a, NULL, 0);
}

TileRef kb_convert(Body *B, TileRef x, DType to)
{
    TAttr a = tattr_none;

    if (!x.node || tile_type(x)->dtype == to)
        return x;
    a.op = OP_convert;
    a.dtype = (uint8_t)to;
    return kb_emit(B, TOP_map, &a, &x, 1);
}

static TileRef shaped(Body *B, TileOp op, TileRef x, int rank, const int32_t *shape)
{
    TAttr a = tattr_none;

    a.rank = (int8_t)rank;
    for (int i = 0; i < rank; i++)
        a.shape[i] = shape[i];
    return kb_emit1(B, op, &a, x);
}

TileRef kb_splat(Body *B, TileRef x, int rank, const int32_t *shape) { return shaped(B, TOP_splat, x, rank, shape); }

TileRef kb_reshape(Body *B, TileRef x, int rank, const int32_t *shape)
{
    if (x.node && tile_type(x)->rank == rank && !memcmp(tile_type(x)->extent, shape, sizeof *shape * (size_t)rank))
        return x;
    return shaped(B, TOP_reshape, x, rank, shape);
}

/* ------------------------------------------------------------- what depends on the lane */

void kb_lane_mark(Body *B, TileRef r, bool depends)
{
    if (r.node)
        map_set(&B->lane_dep, r.node->id + 1, depends ? 2 : 1);
}

static bool region_depends(Body *B, const TileNode *n, int index)
{
    for (int r = 0; r < 2; r++)
        if (n->region[r] && index < n->region[r]->yields.n && kb_lane_dependent(B, n->region[r]->yields.at[index]))
            return true;
    return false;
}

bool kb_lane_dependent(Body *B, TileRef r)
{
    uintptr_t seen;
    bool yes = false;

    if (!r.node || r.node->op == TILE_PARAM)
        return r.node && map_find(&B->lane_dep, r.node->id + 1, &seen) && seen == 2;
    if (map_find(&B->lane_dep, r.node->id + 1, &seen) && r.node->op != TOP_if)
        return seen == 2;
    map_set(&B->lane_dep, r.node->id + 1, 1);
    if (r.node->op == TOP_lane || r.node->op == TOP_match)
        yes = true;
    else if (r.node->op == TOP_load && tile_type(r.node->in[0])->space == SPACE_LOCAL)
        yes = true;
    else if (r.node->op == TOP_lane_reduce)
        yes = r.node->attr->i && r.node->attr->i < B->spec->lanes && kb_lane_dependent(B, r.node->in[0]);
    else if (r.node->op != TOP_uniform)
        for (int i = 0; i < r.node->nin && !yes; i++)
            yes = tile_type(r.node->in[i])->kind != TILE_VIEW && kb_lane_dependent(B, r.node->in[i]);
    if (!yes && (r.node->op == TOP_if || r.node->op == TOP_for))
        yes = region_depends(B, r.node, r.index);
    kb_lane_mark(B, r, yes);
    return yes;
}

/* ------------------------------------------------------------- making values */

KVal kb_static(Body *B, Value v)
{
    vec_push(&B->kept, v);
    return (KVal){.kind = K_STATIC, .v = v};
}

KVal kb_number(int64_t v) { return (KVal){.kind = K_STATIC, .v = vint(v)}; }

KVal kb_scalar(TileRef r, bool weak) { return r.node ? (KVal){.kind = K_SCALAR, .ref = r, .weak = weak} : KBAD; }

KVal kb_block(Body *B, TileRef r, const AxisTag *tag)
{
    AxisTag *own;

    if (!r.node)
        return KBAD;
    if (tile_type(r)->rank == 0)
        return kb_scalar(r, false);
    own = kb_alloc(B, sizeof *own * VIEW_RANK);
    for (int i = 0; tag && i < tile_type(r)->rank; i++)
        own[i] = tag[i];
    return (KVal){.kind = K_BLOCK, .ref = r, .tag = own};
}

/* ------------------------------------------------------------- sums of indices */

Lin lin_number(int64_t v) { return (Lin){.c = v}; }

Lin lin_of(TileRef r)
{
    Lin l = {.n = 1};

    l.t[0].r = r;
    l.t[0].k = 1;
    return l;
}

bool lin_add(Body *B, Lin a, Lin b, int64_t k, Lin *out)
{
    (void)B;
    a.c = (int64_t)((uint64_t)a.c + (uint64_t)k * (uint64_t)b.c);
    for (int i = 0; i < b.n; i++) {
        int at = 0;
        while (at < a.n && (a.t[at].r.node != b.t[i].r.node || a.t[at].r.index != b.t[i].r.index))
            at++;
        if (at == LIN_TERMS)
            return false;
        if (at == a.n) {
            a.t[a.n].r = b.t[i].r;
            a.t[a.n++].k = 0;
        }
        a.t[at].k += k * b.t[i].k;
        if (!a.t[at].k)
            a.t[at] = a.t[--a.n];
    }
    *out = a;
    return true;
}

bool lin_number_of(const Lin *l, int64_t *out)
{
    *out = l->c;
    return l->n == 0;
}

static bool same_sum(const Lin *a, const Lin *b)
{
    if (a->n != b->n || a->c != b->c)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->t[i].r.node != b->t[i].r.node || a->t[i].r.index != b->t[i].r.index || a->t[i].k != b->t[i].k)
            return false;
    return true;
}

/* Does the code at `at` see what is made in block b? */
static bool sees(const TileBlock *at, const TileBlock *b)
{
    for (; at; at = at->owner ? at->owner->block : NULL)
        if (at == b)
            return true;
    return false;
}

/* An index that was computed where this code sees it; op TOP_COUNT: the sum a. */
static TileRef made_before(Body *B, TileOp op, const Lin *a, const Lin *b)
{
    for (int i = B->indices.n - 1; i >= 0 && i >= B->indices.n - 64; i--) {
        const IndexNode *e = &B->indices.at[i];
        if (e->op == op && same_sum(&e->a, a) && same_sum(&e->b, b) && sees(B->b.at, e->at))
            return e->y;
    }
    return (TileRef){0};
}

static TileRef times(Body *B, TileRef r, int64_t k) { return k == 1 ? r : kb_emit2(B, TOP_imul, NULL, r, kb_index(B, k)); }

static TileRef sum_node(Body *B, const Lin *l)
{
    TileRef y = {0};

    for (int i = 0; i < l->n; i++) {
        bool minus = l->t[i].k < 0 && y.node;
        TileRef x = times(B, l->t[i].r, minus ? -l->t[i].k : l->t[i].k);
        y = y.node ? kb_emit2(B, minus ? TOP_isub : TOP_iadd, NULL, y, x) : x;
    }
    if (l->c)
        y = kb_emit2(B, l->c < 0 ? TOP_isub : TOP_iadd, NULL, y, kb_index(B, l->c < 0 ? -l->c : l->c));
    return y;
}

TileRef lin_ref(Body *B, const Lin *l)
{
    Lin none = lin_number(0);
    TileRef y;

    if (!l->n)
        return kb_index(B, l->c);
    if (l->n == 1 && l->t[0].k == 1 && !l->c)
        return l->t[0].r;
    y = made_before(B, TOP_COUNT, l, &none);
    if (y.node)
        return y;
    y = sum_node(B, l);
    vec_push(&B->indices, ((IndexNode){TOP_COUNT, *l, none, B->b.at, y}));
    return y;
}

KVal kb_int(Body *B, Lin l)
{
    Lin *own;

    if (B->failed)
        return KBAD;
    if (!l.n)
        return kb_number(l.c);
    own = kb_alloc(B, sizeof *own);
    *own = l;
    return (KVal){.kind = K_INT, .lin = own};
}

static const Known *known_of(Body *B, TileRef r)
{
    uintptr_t at;

    return r.node && r.index == 0 && map_find(&B->known, r.node->id + 1, &at) ? (const Known *)at : NULL;
}

void kb_know(Body *B, TileRef r, int64_t v, uint64_t sizes)
{
    Known *k;

    if (!r.node)
        return;
    k = kb_alloc(B, sizeof *k);
    *k = (Known){v, sizes};
    map_set(&B->known, r.node->id + 1, (uintptr_t)k);
}

static bool known_sum(Body *B, const Lin *l, int64_t *out, uint64_t *sizes)
{
    *out = l->c;
    *sizes = 0;
    for (int i = 0; i < l->n; i++) {
        const Known *k = known_of(B, l->t[i].r);
        if (!k)
            return false;
        *out += k->v * l->t[i].k;
        *sizes |= k->sizes;
    }
    return true;
}

void kb_know_from(Body *B, TileRef r, int64_t v, const Lin *a, const Lin *b)
{
    int64_t x;
    uint64_t sizes, more;

    if (known_sum(B, a, &x, &sizes) && known_sum(B, b, &x, &more))
        kb_know(B, r, v, sizes | more);
}

bool lin_known(Body *B, const Lin *l, int64_t *out)
{
    uint64_t sizes;

    return known_sum(B, l, out, &sizes);
}

/* Is an index of sizes 0 or more in every launch; above 0, where the sizes that this takes are? */
static bool counts(Body *B, TileRef r, bool above)
{
    const TileNode *n = r.node;
    const Known *k;

    switch (n->op) {
    case TOP_index: return n->attr->i >= above;
    case TOP_imul: return counts(B, n->in[0], above) && counts(B, n->in[1], above);
    case TOP_iadd:
        return counts(B, n->in[0], false) && counts(B, n->in[1], false) && (!above || counts(B, n->in[0], true) || counts(B, n->in[1], true));
    case TOP_size:
        if (n->attr->i || !above)
            return !n->attr->i;
        k = known_of(B, r);
        if (k && k->v > 0)
            vec_push(&B->positive, n->attr->name);
        return k && k->v > 0;
    default: return false;
    }
}

bool kb_positive(Body *B, const Lin *l)
{
    bool above = l->c > 0;

    if (l->c < 0)
        return false;
    for (int i = 0; i < l->n; i++)
        if (l->t[i].k < 0 || !counts(B, l->t[i].r, false))
            return false;
    for (int i = 0; i < l->n && !above; i++)
        above = counts(B, l->t[i].r, true);
    return above;
}

bool kb_need_number(Body *B, const Lin *l, const char *what, int64_t *out)
{
    uint64_t sizes;

    if (lin_number_of(l, out))
        return true;
    if (known_sum(B, l, out, &sizes)) {
        for (int i = 0; i < B->nsizes; i++)
            if (sizes >> i & 1)
                map_set(B->fixed, (uintptr_t)B->size[i].name, 1);
        kb_again(B);
        return false;
    }
    for (int i = 0; i < l->n; i++) {
        uintptr_t loop;
        if (l->t[i].r.node && map_find(&B->loop_of, l->t[i].r.node->id + 1, &loop)) {
            map_set(B->unroll, loop, 1);
            kb_again(B);
            return false;
        }
    }
    kb_fail(B, "%s must be a number that is known before the launch", what);
    return false;
}

static TileRef index_node(Body *B, TileOp op, const Lin *a, const Lin *b)
{
    TileRef y = made_before(B, op, a, b);

    if (y.node)
        return y;
    y = lin_ref(B, a);
    y = kb_emit2(B, op, NULL, y, lin_ref(B, b));
    vec_push(&B->indices, ((IndexNode){op, *a, *b, B->b.at, y}));
    return y;
}

/* An index op of two sums; what follows from sizes is known for this launch. */
KVal kb_index_op(Body *B, TileOp op, const Lin *a, const Lin *b)
{
    TileRef y = index_node(B, op, a, b);
    int64_t x, z, v;

    if (!y.node)
        return KBAD;
    if (lin_known(B, a, &x) && lin_known(B, b, &z) && !((op == TOP_idiv || op == TOP_imod) && z <= 0)) {
        int64_t q = z ? x / z - (x % z < 0) : 0;
        v = op == TOP_iadd ? x + z : op == TOP_isub ? x - z : op == TOP_imul ? x * z : op == TOP_idiv ? q : op == TOP_imod ? x - q * z
          : op == TOP_imin ? (x < z ? x : z) : (x > z ? x : z);
        kb_know_from(B, y, v, a, b);
    }
    return kb_int(B, lin_of(y));
}

/* ------------------------------------------------------------- kinds */

bool kb_static_of(KVal v, unsigned tag) { return v.kind == K_STATIC && v.v.tag == tag; }
bool kb_is_static_true(KVal v) { return kb_static_of(v, V_BOOL) && v.v.i; }
bool kb_is_static_false(KVal v) { return kb_static_of(v, V_BOOL) && !v.v.i; }
bool kb_is_int(KVal v) { return v.kind == K_INT || kb_static_of(v, V_INT) || kb_static_of(v, V_BOOL); }

bool kb_static_number(KVal v, double *out)
{
    if (kb_static_of(v, V_FLOAT))
        *out = v.v.f;
    else if (kb_static_of(v, V_INT) || kb_static_of(v, V_BOOL))
        *out = (double)v.v.i;
    else
        return false;
    return true;
}

bool kb_is_value(KVal v)
{
    double f;

    return v.kind == K_INT || v.kind == K_SCALAR || v.kind == K_BLOCK || v.kind == K_PLACE || v.kind == K_FRAGMENT || v.kind == K_VECTOR ||
            kb_static_number(v, &f);
}

bool kb_static_int(Body *B, KVal v, const char *what, int64_t *out)
{
    Lin l;

    return kb_to_lin(B, v, &l) && kb_need_number(B, &l, what, out);
}

KVal kb_value(Body *B, KVal v)
{
    if (v.kind == K_PLACE)
        return kplace_load(B, v.place);
    return v.kind == K_FRAGMENT ? fragment_value(B, v) : v;
}

KVal kb_now(Body *B, KVal v) { return v.kind == K_PLACE && kplace_free(v.place) == 0 ? kb_value(B, v) : v; }

DType kb_dtype(KVal v)
{
    return (v.kind == K_SCALAR && !v.weak) || v.kind == K_BLOCK ? (DType)tile_type(v.ref)->dtype : DT_NONE;
}

bool kb_to_lin(Body *B, KVal v, Lin *out)
{
    v = kb_value(B, v);
    *out = lin_number(0);
    if (kb_bad(v))
        return false;
    if (kb_static_of(v, V_INT) || kb_static_of(v, V_BOOL)) {
        *out = lin_number(v.v.i);
    } else if (v.kind == K_INT) {
        *out = *v.lin;
    } else if (v.kind == K_SCALAR && !v.weak && dtype_is_int((DType)tile_type(v.ref)->dtype)) {
        TileRef r = kb_emit1(B, TOP_to_index, NULL, v.ref);
        *out = lin_of(r);
        return r.node != NULL;
    } else if (v.kind == K_SCALAR && tile_type(v.ref)->dtype == DT_bool) {
        return kb_to_lin(B, kb_to_int(B, v), out);
    } else {
        kb_fail(B, "E0611: an index is an int");
        return false;
    }
    return true;
}

/* f without its fraction, as far as an int64 holds it; 0 of what is no number. */
static int64_t int_part(double f)
{
    return !isfinite(f) ? 0 : f >= 0x1p63 ? INT64_MAX : f < -0x1p63 ? INT64_MIN : (int64_t)f;
}

/* A value as a tile of a dtype; the rank is its own. */
TileRef kb_ref(Body *B, KVal v, DType dt)
{
    double f;

    v = kb_value(B, v);
    if (kb_static_number(v, &f)) {
        int64_t i = v.v.tag == V_FLOAT ? int_part(f) : v.v.i;
        return kb_const(B, dt, f, dt == DT_bool ? f != 0 : i);
    }
    if (v.kind == K_INT) {
        TAttr a = tattr_none;
        a.dtype = (uint8_t)(dtype_is_int(dt) ? dt : DT_int64);
        return kb_convert(B, kb_emit1(B, TOP_to_tile, &a, lin_ref(B, v.lin)), dt);
    }
    if (v.kind == K_SCALAR || v.kind == K_BLOCK)
        return kb_convert(B, v.ref, dt);
    kb_fail(B, "a number, an element or a block value is needed here");
    return (TileRef){0};
}
