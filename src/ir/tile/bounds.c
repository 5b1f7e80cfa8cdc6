/*
 * Intervals, by walking the code as it runs: a value's interval holds all that
 * it may be in any lane and any group.  Loops whose trips follow from sizes are
 * walked trip by trip as long as that is cheap, others until nothing changes;
 * what still grows then may be anything.
 */
#include "ir/tile/bounds.h"

#include "ir/tile/tile_impl.h"
#include "runtime/convert.h"

#include <float.h>
#include <math.h>

enum { TRIPS = 256, ROUNDS = 3, WORK = 1 << 18 };       /* walked one by one; until what grows is given up; nodes, before nothing is tried twice */

typedef struct Bounding {
    const TileKernel *k;
    const int64_t *sizes;
    const TileNode *param;
    uint32_t *number;
    TileBounds *at;                     /* by value number */
    TileBounds stored;
    int64_t left;                       /* nodes that may still be walked more than once */
} Bounding;

static const TileBounds nothing = {INFINITY, -INFINITY, false}, anything = {-INFINITY, INFINITY, true};

static bool of_kernel(TileRef v) { return v.node->op == TILE_PARAM && !v.node->block->owner; }
static TileBounds *slot(Bounding *b, TileRef v) { return &b->at[b->number[v.node->id] + (uint32_t)v.index]; }
static TileBounds of(Bounding *b, TileRef v) { return of_kernel(v) ? anything : *slot(b, v); }
static TileBounds in(Bounding *b, const TileNode *n, int i) { return of(b, n->in[i]); }
static TileBounds exactly(double x) { return (TileBounds){x, x, isnan(x)}; }
static bool is_empty(TileBounds x) { return x.lo > x.hi; }

static TileBounds join(TileBounds a, TileBounds b) { return (TileBounds){fmin(a.lo, b.lo), fmax(a.hi, b.hi), a.nan || b.nan}; }

/* Of several numbers, the least and the largest; inf - inf and the like count as anything. */
static TileBounds hull(const double *x, int n, bool nan)
{
    TileBounds y = {INFINITY, -INFINITY, nan};

    for (int i = 0; i < n; i++) {
        if (isnan(x[i]))
            return anything;
        y.lo = fmin(y.lo, x[i]);
        y.hi = fmax(y.hi, x[i]);
    }
    return y;
}

/* ---- dtypes ---- */

static double largest(DType dt)
{
    const DTypeInfo *d = &dtype_info[dt];

    switch (dt) {
    case DT_fp4: return 6;
    case DT_fp6: return 28;
    case DT_fp8_e4m3: return 448;
    default:
        return dtype_is_float(dt) ? ldexp(2 - ldexp(1, -d->mbits), (1 << (d->ebits - 1)) - 1) : ldexp(1, d->bits - (d->kind == DK_INT));
    }
}

static TileBounds of_dtype(DType dt)
{
    if (dt == DT_bool)
        return (TileBounds){0, 1, false};
    if (dtype_is_float(dt))
        return dt == DT_fp4 || dt == DT_fp6 ? (TileBounds){-largest(dt), largest(dt), false} : anything;
    if (dtype_is_int(dt))
        return dtype_info[dt].kind == DK_INT ? (TileBounds){-largest(dt), largest(dt) - 1, false}
                                                                : (TileBounds){0, largest(dt) - 1, false};
    return anything;
}

/* What an exact result may become when it is rounded to the dtype; ints wrap around. */
static TileBounds rounded(TileBounds x, DType dt)
{
    double step, most = largest(dt);

    if (is_empty(x))
        return x;
    if (!dtype_is_float(dt))
        return x.lo < of_dtype(dt).lo || x.hi > of_dtype(dt).hi || x.nan ? of_dtype(dt) : x;
    step = ldexp(2, -dtype_info[dt].mbits);             /* and what functions are off by */
    x.lo -= fabs(x.lo) * step + (x.lo ? DBL_MIN : 0);
    x.hi += fabs(x.hi) * step + (x.hi ? DBL_MIN : 0);
    x.lo = x.lo < -most ? -INFINITY : x.lo;
    x.hi = x.hi > most ? INFINITY : x.hi;
    return x;
}

/* ---- arithmetic ---- */

static TileBounds add(TileBounds a, TileBounds b)
{
    double lo = a.lo + b.lo, hi = a.hi + b.hi;
    bool nan = a.nan || b.nan || (isinf(a.hi) && b.lo == -INFINITY) || (isinf(b.hi) && a.lo == -INFINITY);

    return is_empty(a) || is_empty(b) ? nothing : (TileBounds){isnan(lo) ? -INFINITY : lo, isnan(hi) ? INFINITY : hi, nan};
}

static TileBounds negated(TileBounds a) { return (TileBounds){-a.hi, -a.lo, a.nan}; }

/* 0 times infinity is NaN as a value, and as a bound what a factor near 0 may make of a finite number: 0 stays the bound, NaN is noted. */
static double bound_product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

static bool holds_zero(TileBounds a) { return a.lo <= 0 && a.hi >= 0; }
static bool holds_inf(TileBounds a) { return isinf(a.lo) || isinf(a.hi); }

static TileBounds multiply(TileBounds a, TileBounds b)
{
    const double x[] = {bound_product(a.lo, b.lo), bound_product(a.lo, b.hi), bound_product(a.hi, b.lo), bound_product(a.hi, b.hi)};

    if (is_empty(a) || is_empty(b))
        return nothing;
    return hull(x, 4, a.nan || b.nan || (holds_zero(a) && holds_inf(b)) || (holds_zero(b) && holds_inf(a)));
}

static TileBounds divide(TileBounds a, TileBounds b)
{
    if (is_empty(a) || is_empty(b))
        return nothing;
    if (holds_zero(b) || (holds_inf(a) && holds_inf(b)))
        return anything;
    const double x[] = {a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi};
    return hull(x, 4, a.nan || b.nan);
}

/* A sum of between `least` and `most` of such numbers. */
static TileBounds several(TileBounds x, double least, double most)
{
    TileBounds y = multiply(x, (TileBounds){least, most, false});

    y.nan = x.nan || (isinf(x.hi) && isinf(x.lo));
    return is_empty(x) ? nothing : y;
}

/* A function that grows with its argument, defined from `from` on. */
static TileBounds growing(TileBounds a, double (*f)(double), double from)
{
    TileBounds y = {f(fmax(a.lo, from)), f(fmax(a.hi, from)), a.nan || a.lo < from};

    return is_empty(a) ? nothing : y;
}

/* One more joins a maximum, a minimum. */
static TileBounds extreme(TileBounds a, TileBounds b, OpId op)
{
    return op == OP_max ? (TileBounds){fmax(a.lo, b.lo), fmax(a.hi, b.hi), a.nan || b.nan}
                        : (TileBounds){fmin(a.lo, b.lo), fmin(a.hi, b.hi), a.nan || b.nan};
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double sign(double x) { return (x > 0) - (x < 0); }

static TileBounds powers(TileBounds a, TileBounds b)
{
    if (b.lo == b.hi && b.lo == 2) {
        TileBounds y = multiply(a, a);
        return holds_zero(a) ? (TileBounds){0, y.hi, a.nan} : y;
    }
    if (a.lo > 0 && !a.nan && !b.nan) {
        const double x[] = {pow(a.lo, b.lo), pow(a.lo, b.hi), pow(a.hi, b.lo), pow(a.hi, b.hi)};
        return hull(x, 4, false);
    }
    return anything;
}

static TileBounds magnitude(TileBounds a)
{
    double far = fmax(fabs(a.lo), fabs(a.hi));

    return is_empty(a) ? nothing : (TileBounds){holds_zero(a) ? 0 : fmin(fabs(a.lo), fabs(a.hi)), far, a.nan};
}

/* To ints as they are cut off or rounded, NaN as 0; to bools as they differ from 0. */
static TileBounds converted(TileBounds x, const TAttr *a, DType to)
{
    if (is_empty(x) || dtype_is_float(to) || dtype_is_complex(to))
        return x;
    if (to == DT_bool)
        return (TileBounds){!holds_zero(x), x.lo != 0 || x.hi != 0 || x.nan, false};
    return (TileBounds){a->rounding ? floor(x.lo) : trunc(x.lo), a->rounding ? ceil(x.hi) : trunc(x.hi), x.nan};
}

/* The nearest numbers that a dtype has to these, none of them infinite. */
static TileBounds saturated(TileBounds x, DType to)
{
    TileBounds y = rounded(x, to);

    y = (TileBounds){fmax(fmin(y.lo, largest(to)), -largest(to)), fmax(fmin(y.hi, largest(to)), -largest(to)), y.nan};
    return is_empty(x) ? nothing : y;
}

/* Is it exact, whatever its operands? */
static bool is_exact(OpId op)
{
    switch (op) {
    case OP_neg: case OP_abs: case OP_sign: case OP_floor: case OP_ceil: case OP_round: case OP_trunc: case OP_minimum: case OP_maximum:
    case OP_where: case OP_stop_gradient: case OP_real: case OP_conj:
        return true;
    default: return false;
    }
}

static TileBounds mapped(Bounding *b, const TileNode *n)
{
    TileBounds x = in(b, n, 0), y = n->nin > 1 ? in(b, n, 1) : x, z = n->nin > 2 ? in(b, n, 2) : x;

    switch ((OpId)n->attr->op) {
    case OP_neg: return negated(x);
    case OP_abs: return magnitude(x);
    case OP_sign: return growing(x, sign, -INFINITY);
    case OP_exp: return growing(x, exp, -INFINITY);
    case OP_exp2: return growing(x, exp2, -INFINITY);
    case OP_expm1: return growing(x, expm1, -INFINITY);
    case OP_log: return growing(x, log, 0);
    case OP_log2: return growing(x, log2, 0);
    case OP_log10: return growing(x, log10, 0);
    case OP_log1p: return growing(x, log1p, -1);
    case OP_sqrt: return growing(x, sqrt, 0);
    case OP_rsqrt: return divide(exactly(1), growing(x, sqrt, 0));
    case OP_tanh: return growing(x, tanh, -INFINITY);
    case OP_atan: return growing(x, atan, -INFINITY);
    case OP_erf: return growing(x, erf, -INFINITY);
    case OP_sigmoid: return growing(x, sigmoid, -INFINITY);
    case OP_floor: return growing(x, floor, -INFINITY);
    case OP_ceil: return growing(x, ceil, -INFINITY);
    case OP_round: return growing(x, rint, -INFINITY);
    case OP_trunc: return growing(x, trunc, -INFINITY);
    case OP_sin: case OP_cos: return (TileBounds){-1, 1, x.nan || holds_inf(x)};
    case OP_add: return add(x, y);
    case OP_sub: return add(x, negated(y));
    case OP_mul: return n->in[0].node == n->in[1].node && n->in[0].index == n->in[1].index ? powers(x, exactly(2)) : multiply(x, y);
    case OP_div: return divide(x, y);
    case OP_pow: return powers(x, y);
    case OP_fma: return add(multiply(x, y), z);
    case OP_minimum: return extreme(x, y, OP_min);
    case OP_maximum: return extreme(x, y, OP_max);
    case OP_where: return join(y, z);
    case OP_mod: return y.lo > 0 && !y.nan && !x.nan && !holds_inf(x) ? (TileBounds){0, y.hi, false} : anything;
    case OP_convert: return converted(x, n->attr, (DType)n->type[0].dtype);
    case OP_stop_gradient: return x;
    default: return of_dtype((DType)n->type[0].dtype);
    }
}

static TileBounds of_map(Bounding *b, const TileNode *n)
{
    DType to = (DType)n->type[0].dtype;
    TileBounds y = mapped(b, n);

    if (dtype_is_complex(to) || dtype_is_complex(tile_map_dtype((OpId)n->attr->op, n->in)))
        return anything;
    if (n->attr->op == OP_convert && n->attr->saturate && dtype_is_float(to))
        return saturated(y, to);
    return is_exact((OpId)n->attr->op) ? y : rounded(y, to);
}

/* ---- sums ---- */

/* What comes out where there is nothing to reduce. */
static TileBounds of_none(OpId op, DType dt)
{
    char raw[16];
    double x;

    if (dtype_is_complex(dt))
        return anything;
    tile_identity(op, dt, raw);
    raw_convert(DT_f64, &x, dt, raw, 1, NULL, 0);
    return exactly(x);
}

/* Of n numbers at most; some: of one at least. */
static TileBounds reduced(TileBounds x, OpId op, double n, bool some, DType dt)
{
    TileBounds y;

    switch (op) {
    case OP_max: case OP_min: return some ? x : join(x, of_none(op, dt));
    case OP_sum:
        y = several(x, 0, n);
        for (double steps = n; steps > 1; steps /= 2)           /* each level rounds; eight lanes are no deeper */
            y = rounded(y, dt);
        return rounded(y, dt);
    case OP_any: case OP_all: return (TileBounds){0, 1, false};
    default: return of_dtype(dt);
    }
}

/* A tree after one more value. */
static TileBounds pushed(TileBounds tree, TileBounds x, OpId op, DType dt)
{
    switch (op) {
    case OP_max: case OP_min: return extreme(tree, x, op);
    case OP_sum: return rounded(add(tree, x), dt);
    case OP_prod: return of_dtype(dt);
    default: return join(tree, x);
    }
}

static TileBounds multiplied(Bounding *b, const TileNode *n)
{
    DType dt = (DType)n->type[0].dtype;
    double steps = tile_type(n->in[0])->extent[tile_type(n->in[0])->rank - 1];
    TileBounds y = add(several(multiply(in(b, n, 0), in(b, n, 1)), 0, steps), in(b, n, 2));
    double more = ldexp(steps, -dtype_info[dt].mbits) * 2;

    if (dtype_is_float(dt)) {
        y.lo -= fabs(y.lo) * more;
        y.hi += fabs(y.hi) * more;
    }
    return rounded(y, dt);
}

/* ---- control ---- */

static bool number(const Bounding *b, TileRef v, int64_t *out)
{
    const TileBounds x = of_kernel(v) ? anything : b->at[b->number[v.node->id] + (uint32_t)v.index];

    *out = (int64_t)x.lo;
    return x.lo == x.hi && fabs(x.lo) < 1e15;
}

static void walk(Bounding *b, const TileBlock *block);

/* What is carried becomes what was yielded, or that joined with it. true: something changed. */
static bool carry(Bounding *b, const TileRef *from, const TileBlock *to, int skip, int n, bool joined)
{
    TileBounds *next = tsr_alloc(sizeof *next * (size_t)(n + 1));
    bool changed = false;

    for (int i = 0; i < n; i++)
        next[i] = of(b, from[i]);
    for (int i = 0; i < n; i++) {
        TileBounds *p = slot(b, (TileRef){to->params.at[skip + i], 0}), y = joined ? join(*p, next[i]) : next[i];
        changed |= y.lo != p->lo || y.hi != p->hi || y.nan != p->nan;
        *p = y;
    }
    tsr_free(next);
    return changed;
}

/* What still grows after some rounds grows on; where loops in loops took too long already, all may. */
static void give_up(Bounding *b, const TileBlock *block, int skip, int n, int round)
{
    for (int i = 0; i < n && (round == ROUNDS || b->left <= 0); i++)
        *slot(b, (TileRef){block->params.at[skip + i], 0}) = anything;
}

static void results(Bounding *b, const TileNode *n, const TileBlock *block, int skip)
{
    for (int i = 0; i < n->nout; i++)
        *slot(b, (TileRef){(TileNode *)n, i}) = *slot(b, (TileRef){block->params.at[skip + i], 0});
}

static void walk_for(Bounding *b, const TileNode *n)
{
    const TileBlock *body = n->region[0];
    TileBounds *index = slot(b, (TileRef){body->params.at[0], 0}), first = in(b, n, 0), end = in(b, n, 1);
    int64_t lo, hi, by;
    bool sure = number(b, n->in[0], &lo) && number(b, n->in[1], &hi) && number(b, n->in[2], &by) && by > 0 && (hi - lo) / by < TRIPS && b->left > 0;

    carry(b, n->in + 3, body, 1, n->nout, false);
    for (int64_t i = lo; sure && i < hi; i += by) {
        *index = exactly((double)i);
        walk(b, body);
        carry(b, body->yields.at, body, 1, n->nout, false);
    }
    *index = (TileBounds){first.lo, fmax(first.lo, end.hi - 1), false};
    for (int round = 0; !sure; round++) {
        give_up(b, body, 1, n->nout, round);
        walk(b, body);
        if (!carry(b, body->yields.at, body, 1, n->nout, true))
            break;
    }
    results(b, n, body, 1);
}

static void walk_while(Bounding *b, const TileNode *n)
{
    const TileBlock *test = n->region[0], *body = n->region[1];

    carry(b, n->in, test, 0, n->nout, false);
    for (int round = 0;; round++) {
        give_up(b, test, 0, n->nout, round);
        walk(b, test);
        for (int i = 0; i < n->nout; i++)
            *slot(b, (TileRef){body->params.at[i], 0}) = *slot(b, (TileRef){test->params.at[i], 0});
        walk(b, body);
        if (!carry(b, body->yields.at, test, 0, n->nout, true))
            break;
    }
    results(b, n, test, 0);
}

static void walk_if(Bounding *b, const TileNode *n)
{
    for (int r = 0; r < 2; r++)
        walk(b, n->region[r]);
    for (int i = 0; i < n->nout; i++)
        *slot(b, (TileRef){(TileNode *)n, i}) = join(of(b, n->region[0]->yields.at[i]), of(b, n->region[1]->yields.at[i]));
}

/* ---- nodes ---- */

static TileBounds size_of(const Bounding *b, Sym name)
{
    for (int i = 0; i < b->k->size.n; i++)
        if (b->k->size.at[i] == name)
            return exactly((double)b->sizes[i]);
    return anything;
}

static TileBounds of_index(Bounding *b, const TileNode *n)
{
    TileBounds x = n->nin ? in(b, n, 0) : anything, y = n->nin > 1 ? in(b, n, 1) : x;

    switch (n->op) {
    case TOP_index: return exactly((double)n->attr->i);
    case TOP_size: return size_of(b, n->attr->name);
    case TOP_lane: return (TileBounds){0, b->k->lanes - 1, false};
    case TOP_group: case TOP_extent: return (TileBounds){0, INFINITY, false};
    case TOP_iadd: return add(x, y);
    case TOP_isub: return add(x, negated(y));
    case TOP_imul: return multiply(x, y);
    case TOP_imin: return extreme(x, y, OP_min);
    case TOP_imax: return extreme(x, y, OP_max);
    case TOP_imod: return (TileBounds){0, y.hi - 1, false};
    case TOP_idiv: x = divide(x, y); return (TileBounds){floor(x.lo), floor(x.hi), false};
    default: return (TileBounds){-INFINITY, INFINITY, false};
    }
}

static bool param_is(TileRef v, const TileNode *param)
{
    while (v.node->op == TOP_part)
        v = v.node->in[0];
    return v.node == param;
}

static void note_store(Bounding *b, const TileNode *n)
{
    if (!param_is(n->in[0], b->param))
        return;
    b->stored = n->op == TOP_store ? join(b->stored, in(b, n, n->nin - 1)) : anything;
}

static TileBounds value(Bounding *b, const TileNode *n)
{
    DType dt = (DType)n->type[0].dtype;

    switch (n->op) {
    case TOP_const: return exactly(dtype_is_float(dt) ? n->attr->f : (double)n->attr->i);
    case TOP_splat: case TOP_reshape: case TOP_permute: case TOP_shuffle: case TOP_uniform: case TOP_total: return in(b, n, 0);
    case TOP_to_tile: return rounded(in(b, n, 0), dt);
    case TOP_to_index: return in(b, n, 0);
    case TOP_iota: return rounded(add(in(b, n, 0), (TileBounds){0, n->type[0].extent[n->attr->axis] - 1, false}), dt);
    case TOP_ilt: case TOP_ieq: return (TileBounds){0, 1, false};
    case TOP_map: return of_map(b, n);
    case TOP_reduce: return reduced(in(b, n, 0), (OpId)n->attr->op, tile_type(n->in[0])->extent[n->attr->axis], in(b, n, 1).lo >= 1, dt);
    case TOP_dot: return multiplied(b, n);
    case TOP_tree: return of_none((OpId)n->attr->op, dt);
    case TOP_push: return pushed(in(b, n, 0), in(b, n, 1), (OpId)n->type[0].op, dt);
    case TOP_lane_reduce: return reduced(in(b, n, 0), (OpId)n->attr->op, n->attr->i ? (double)n->attr->i : b->k->lanes, true, dt);
    case TOP_load: case TOP_gather: return tile_type(n->in[0])->space == SPACE_GLOBAL ? join(of_dtype(dt), exactly(n->attr->f)) : anything;
    default: return n->type[0].kind == TILE_INDEX ? of_index(b, n) : anything;
    }
}

static void walk(Bounding *b, const TileBlock *block)
{
    for (const TileNode *n = block->first; n; n = n->next) {
        b->left--;
        if (n->op == TOP_for) {
            walk_for(b, n);
        } else if (n->op == TOP_while) {
            walk_while(b, n);
        } else if (n->op == TOP_if) {
            walk_if(b, n);
        } else if (n->op == TOP_store || tile_is_atomic(n->op) || n->op == TOP_copy || n->op == TOP_copy_async) {
            note_store(b, n);
        } else {
            for (int i = 0; i < n->nout; i++)
                *slot(b, (TileRef){(TileNode *)n, i}) = value(b, n);
        }
    }
}

TileBounds tile_bounds(const TileKernel *k, const int64_t *sizes, int param)
{
    uint32_t values;
    Bounding b = {.k = k, .sizes = sizes, .param = k->params.at[param], .stored = nothing, .left = WORK};

    b.number = tile_numbers(k, &values);
    b.at = tsr_calloc(sizeof *b.at * (values + 1));
    walk(&b, &k->body);
    tsr_free(b.number);
    tsr_free(b.at);
    return b.stored;
}
