/*
 * tile.slope(y, x): the derivative of what was computed from x element by element, at each element.
 *
 * The formula is walked from y back to x, each node once, by the chain rule with x's own derivative 1.  What does not come from x is a
 * constant, whatever computed it; kinks are as docs/derivatives.md has them.  So a kernel that takes a function of its user, as attention
 * does for its scores, needs nobody to write that one's derivative.
 *
 * tile.quick(y, x) marks the same formula: its functions may be the machine's own.
 */
#include "frontend/kernel/body.h"

#include <math.h>

enum { DEPTH = 200 };

typedef struct Slope {
    Body *B;
    TileRef x;
    Map seen;                      /* the number of a node, plus 1, to a place in `at`, plus 1 */
    Vec(KVal) at;               /* KUNSET: it does not come from x */
} Slope;

static KVal value_of(Slope *s, TileRef v) { return kb_block(s->B, v, NULL); }
static KVal number(double v) { return (KVal){.kind = K_STATIC, .v = vfloat(v)}; }
static bool some(KVal t) { return t.kind != K_UNSET; }

static KVal two(Slope *s, OpId op, KVal a, KVal b) { return some(a) && some(b) ? kb_apply(s->B, op, (KVal[]){a, b}, 2) : KUNSET; }
static KVal one(Slope *s, OpId op, KVal a) { return kb_apply(s->B, op, &a, 1); }
static KVal times(Slope *s, KVal a, KVal b) { return two(s, OP_mul, a, b); }
static KVal over(Slope *s, KVal a, KVal b) { return two(s, OP_div, a, b); }
static KVal minus(Slope *s, KVal a, KVal b) { return two(s, OP_sub, a, b); }
static KVal sum(Slope *s, KVal a, KVal b) { return !some(a) ? b : !some(b) ? a : two(s, OP_add, a, b); }

static KVal slope_of(Slope *s, TileRef v, int depth);

/* ---- one operand ---- */

/* What the operand's own slope is multiplied with; KBAD: nobody has said. */
static KVal factor(Slope *s, OpId op, KVal x, KVal y)
{
    const double ln2 = 0.693147180559945309417, peak = 1.128379167095512573896;

    switch (op) {
    case OP_neg: return number(-1);
    case OP_abs: return one(s, OP_sign, x);
    case OP_exp: return y;
    case OP_exp2: return times(s, y, number(ln2));
    case OP_expm1: return sum(s, y, number(1));
    case OP_log: return over(s, number(1), x);
    case OP_log2: return over(s, number(1 / ln2), x);
    case OP_log1p: return over(s, number(1), sum(s, x, number(1)));
    case OP_sqrt: return over(s, number(0.5), y);
    case OP_rsqrt: return times(s, over(s, y, x), number(-0.5));
    case OP_sin: return one(s, OP_cos, x);
    case OP_cos: return one(s, OP_neg, one(s, OP_sin, x));
    case OP_tanh: return minus(s, number(1), times(s, y, y));
    case OP_sigmoid: return times(s, y, minus(s, number(1), y));
    case OP_atan: return over(s, number(1), sum(s, times(s, x, x), number(1)));
    case OP_erf: return times(s, one(s, OP_exp, one(s, OP_neg, times(s, x, x))), number(peak));
    default: return kb_fail(s->B, "E0622: tile.slope() has no rule for %s", op_info[op].name);
    }
}

static KVal of_one(Slope *s, const TileNode *n, KVal t)
{
    DType to = (DType)n->type[0].dtype;

    if (n->attr->op == OP_convert)
        return dtype_is_float(to) ? kb_cast(s->B, t, to) : KUNSET;
    return times(s, t, factor(s, n->attr->op, value_of(s, n->in[0]), value_of(s, (TileRef){(TileNode *)n, 0})));
}

/* ---- several ---- */

/* The part of an operand's slope that a choice lets through: all, half at ties, none. */
static KVal let_through(Slope *s, KVal t, KVal mine, KVal other, KVal y)
{
    KVal through;

    if (!some(t))
        return t;
    through = kb_apply(s->B, OP_where, (KVal[]){two(s, OP_eq, mine, y), t, number(0)}, 3);
    return kb_apply(s->B, OP_where, (KVal[]){two(s, OP_eq, mine, other), times(s, t, number(0.5)), through}, 3);
}

/* b * a**(b - 1) to a, a**b * log(a) to b. */
static KVal of_power(Slope *s, KVal a, KVal b, KVal y, KVal ta, KVal tb)
{
    KVal by_a = some(ta) ? times(s, ta, times(s, b, two(s, OP_pow, a, minus(s, b, number(1))))) : KUNSET;

    return sum(s, by_a, some(tb) ? times(s, tb, times(s, y, one(s, OP_log, a))) : KUNSET);
}

static KVal of_several(Slope *s, const TileNode *n, const KVal *t)
{
    KVal a = value_of(s, n->in[0]), b = value_of(s, n->in[1]), y = value_of(s, (TileRef){(TileNode *)n, 0});

    switch (n->attr->op) {
    case OP_add: return sum(s, t[0], t[1]);
    case OP_sub: return !some(t[1]) ? t[0] : some(t[0]) ? minus(s, t[0], t[1]) : one(s, OP_neg, t[1]);
    case OP_mul: return sum(s, times(s, t[0], b), times(s, t[1], a));
    case OP_div:
        return sum(s, over(s, t[0], b), some(t[1]) ? one(s, OP_neg, times(s, t[1], over(s, y, b))) : KUNSET);
    case OP_fma: return sum(s, sum(s, times(s, t[0], b), times(s, t[1], a)), t[2]);
    case OP_where:
        return kb_apply(s->B, OP_where, (KVal[]){a, some(t[1]) ? t[1] : number(0), some(t[2]) ? t[2] : number(0)}, 3);
    case OP_minimum: case OP_maximum: return sum(s, let_through(s, t[0], a, b, y), let_through(s, t[1], b, a, y));
    case OP_pow: return of_power(s, a, b, y, t[0], t[1]);
    default: return kb_fail(s->B, "E0622: tile.slope() has no rule for %s", op_info[n->attr->op].name);
    }
}

/* ---- the walk ---- */

static bool is_constant(const TileNode *n)
{
    return n->op == TILE_PARAM ? !n->block->owner : n->op == TOP_load || n->op == TOP_gather || n->op == TOP_update || n->op == TOP_const || !n->nin;
}

static KVal of_node(Slope *s, TileRef v, int depth)
{
    const TileNode *n = v.node;
    KVal t[3] = {KUNSET, KUNSET, KUNSET};
    bool any = false;

    if (is_constant(n) || !dtype_is_float((DType)tile_type(v)->dtype))
        return KUNSET;
    for (int i = 0; i < n->nin && i < 3; i++) {
        t[i] = tile_type(n->in[i])->kind == TILE_VALUE ? slope_of(s, n->in[i], depth - 1) : KUNSET;
        any |= some(t[i]);
    }
    if (s->B->failed || (any && n->op != TOP_map && n->op != TOP_splat) || n->region[0] || n->op == TILE_PARAM)
        return kb_fail(s->B, "E0622: tile.slope(y, x): y is computed from x element by element, in no loop or choice");
    if (!any)
        return KUNSET;
    if (n->op == TOP_splat)
        return t[0];
    return op_info[n->attr->op].flags & OPF_NODIFF ? KUNSET : n->nin == 1 ? of_one(s, n, t[0]) : of_several(s, n, t);
}

static KVal slope_of(Slope *s, TileRef v, int depth)
{
    uintptr_t place;
    KVal t;

    if (v.node == s->x.node && v.index == s->x.index)
        return number(1);
    if (map_find(&s->seen, (uint64_t)v.node->id + 1, &place))
        return s->at.at[place - 1];
    if (!depth)
        return kb_fail(s->B, "tile.slope(): this formula is too long");
    t = of_node(s, v, depth);
    vec_push(&s->at, t);
    map_set(&s->seen, (uint64_t)v.node->id + 1, (uintptr_t)s->at.n);
    return t;
}

/* ---- quick formulas ---- */

static bool has_quick(OpId op)
{
    switch (op) {
    case OP_exp: case OP_exp2: case OP_log: case OP_log2: case OP_log10: case OP_sqrt: case OP_rsqrt: case OP_sigmoid: case OP_tanh: case OP_erf:
    case OP_div: return true;
    default: return false;
    }
}

/* Marks the nodes that v is computed by, back to x: who makes code may take the machine's own functions. */
static void mark_quick(Slope *s, TileRef v, int depth)
{
    TileNode *n = v.node;
    TAttr a;

    if (!depth || (n == s->x.node && v.index == s->x.index) || (n->op != TOP_map && n->op != TOP_splat))
        return;
    if (map_find(&s->seen, (uint64_t)n->id + 1, NULL))
        return;
    map_set(&s->seen, (uint64_t)n->id + 1, 1);
    for (int i = 0; i < n->nin; i++)
        mark_quick(s, n->in[i], depth - 1);
    if (n->op == TOP_map && has_quick(n->attr->op)) {
        a = *n->attr;
        a.fast = 1;
        tile_set_attr(s->B->k, n, &a);
    }
}

KVal kquick(Body *B, KVal y, KVal x)
{
    Slope s = {.B = B};

    if (kb_bad(y) || kb_bad(x))
        return KBAD;
    if ((y.kind == K_BLOCK || y.kind == K_SCALAR) && (x.kind == K_BLOCK || x.kind == K_SCALAR)) {
        s.x = x.ref;
        mark_quick(&s, y.ref, DEPTH);
        map_done(&s.seen);
    }
    return y;
}

KVal kslope(Body *B, KVal y, KVal x)
{
    Slope s = {.B = B};
    KVal t, full[3];

    if (kb_bad(y) || kb_bad(x))
        return KBAD;
    if (x.kind == K_STATIC || (x.kind != K_BLOCK && x.kind != K_SCALAR) || !dtype_is_float((DType)tile_type(x.ref)->dtype))
        return kb_fail(B, "tile.slope(y, x): x is a block, or an element, of floats");
    s.x = x.ref;
    t = y.kind == K_BLOCK || y.kind == K_SCALAR ? slope_of(&s, y.ref, DEPTH) : KUNSET;
    map_done(&s.seen);
    vec_free(&s.at);
    if (B->failed)
        return KBAD;
    full[0] = kb_apply(B, OP_eq, (KVal[]){x, x}, 2);
    full[1] = full[2] = some(t) ? t : number(0);
    return some(t) && t.kind != K_STATIC ? t : kb_cast(B, kb_apply(B, OP_where, full, 3), (DType)tile_type(x.ref)->dtype);
}
