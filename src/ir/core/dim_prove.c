/*
 * Bounds and decisions.
 *
 * An answer PROVED or REFUTED holds for every assignment of positive integers
 * that satisfies the facts; DIFFERS comes with one that tells the sizes apart.
 */
#include "ir/core/dim_impl.h"

#include <string.h>

enum {
    GES_MAX = 24,               /* facts that bounding looks at */
    BOUND_DEPTH = 3,
    VARS_MAX = 12,
    RESIDUES = 64, CASES = 4096,
    GRID = 400, RANDOM = 600
};


/* ------------------------------------------------------------- intervals */

static int64_t sat_mul(int64_t a, int64_t b)
{
    int64_t r;

    if (!a || !b)
        return 0;
    if (a == INF || a == -INF || b == INF || b == -INF || __builtin_mul_overflow(a, b, &r) || r == INT64_MIN)
        return (a < 0) == (b < 0) ? INF : -INF;
    return r;
}

/* Sum of two lower (sign -1) or upper (sign 1) bounds: an unbounded one wins. */
static int64_t sat_add(int64_t a, int64_t b, int sign)
{
    int64_t r, open = sign < 0 ? -INF : INF;

    if (a == open || b == open)
        return open;
    if (a == INF || a == -INF)
        return a;
    if (b == INF || b == -INF)
        return b;
    if (__builtin_add_overflow(a, b, &r) || r == INT64_MIN)
        return a < 0 ? -INF : INF;
    return r;
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static Interval mul_intervals(Interval a, Interval b)
{
    int64_t w = sat_mul(a.lo, b.lo), x = sat_mul(a.lo, b.hi), y = sat_mul(a.hi, b.lo), z = sat_mul(a.hi, b.hi);

    return (Interval){min64(min64(w, x), min64(y, z)), max64(max64(w, x), max64(y, z))};
}

static int64_t div_bound(int64_t x, int64_t y)
{
    if (x == INF || x == -INF)
        return x;
    if (y == INF)
        return x >= 0 ? 0 : -1;
    return floor_div(x, y);
}

static Interval atom_interval(uint32_t atom)
{
    Atom x = dim_atoms.at[atom];
    Interval a, b;

    if (x.kind == ATOM_VAR)
        return (Interval){x.lo, x.hi};
    a = dim_interval(x.a);
    b = dim_interval(x.b);
    if (x.kind == ATOM_MUL)
        return mul_intervals(a, b);
    if (x.kind == ATOM_MIN)
        return (Interval){min64(a.lo, b.lo), min64(a.hi, b.hi)};
    if (b.lo <= 0)
        return (Interval){-INF, INF};
    return (Interval){min64(div_bound(a.lo, b.lo), div_bound(a.lo, b.hi)), max64(div_bound(a.hi, b.lo), div_bound(a.hi, b.hi))};
}

Interval dim_interval(Dim d)
{
    Term one;
    int n;
    const Term *t;
    Interval sum = {0, 0};

    if (d == DIM_BAD || dim_steps-- <= 0)
        return (Interval){-INF, INF};
    t = dim_terms(d, &one, &n);
    for (int i = 0; i < n; i++) {
        Interval r = {t[i].c, t[i].c};
        Mono m = dim_monos.at[t[i].m];
        for (int k = 0; k < m.n; k++) {
            Interval a = atom_interval(m.f[k].atom);
            for (uint32_t e = 0; e < m.f[k].exp; e++)
                r = mul_intervals(r, a);
        }
        sum.lo = sat_add(sum.lo, r.lo, -1);
        sum.hi = sat_add(sum.hi, r.hi, 1);
    }
    return sum;
}

static int64_t coefficient(Dim d, uint32_t m)
{
    Term one;
    int n;
    const Term *t = dim_terms(d, &one, &n);

    for (int i = 0; i < n; i++)
        if (t[i].m == m)
            return t[i].c;
    return 0;
}

static Interval bounds_with(Dim d, const Dim *ge, int nge, int depth);

/* Adding k times a fact g >= 0 cancels one monomial: p = k*g + rest bounds p by rest. */
static void bound_by_fact(Dim d, Dim g, const Dim *ge, int nge, int depth, Interval *b)
{
    Term one;
    int n;
    const Term *t = dim_terms(g, &one, &n);

    for (int i = 0; i < n; i++) {
        int64_t c = t[i].m ? coefficient(d, t[i].m) : 0, k;
        Interval r;
        if (!c || c % t[i].c)
            continue;
        k = c / t[i].c;
        r = bounds_with(dim_sub(d, dim_scale(g, k)), ge, nge, depth - 1);
        if (k > 0)
            b->lo = max64(b->lo, r.lo);
        else
            b->hi = min64(b->hi, r.hi);
    }
}

static Interval bounds_with(Dim d, const Dim *ge, int nge, int depth)
{
    int64_t c;
    Interval b;

    if (dim_const_value(d, &c))
        return (Interval){c, c};
    b = dim_interval(d);
    if (d == DIM_BAD || !depth)
        return b;
    for (int i = 0; i < nge && dim_steps > 0; i++)
        if (ge[i] < 0 && ge[i] != DIM_BAD)
            bound_by_fact(d, ge[i], ge, nge, depth, &b);
    return b;
}

Interval dim_bounds(Dim d)
{
    int n = dim_plain ? 0 : dim_ges.n < GES_MAX ? dim_ges.n : GES_MAX;

    return bounds_with(d, dim_ges.at, n, BOUND_DEPTH);
}

/* ------------------------------------------------------------- evaluation */

/* The numbers of variables: listed, one for all that have no definition (each), or those that the atoms have (neither var nor each). */
typedef struct { const uint32_t *var; const int64_t *value; int n; DimNumber which; int64_t each; } Env;

static bool eval(Dim d, const Env *env, int depth, int64_t *out);

static bool eval_atom(uint32_t atom, const Env *env, int depth, int64_t *out)
{
    Atom x = dim_atoms.at[atom];
    int64_t a, b;

    if (x.kind == ATOM_VAR) {
        if (env->each && !x.def) {
            *out = env->each;
            return true;
        }
        if (!env->var && !env->each) {
            *out = x.number[env->which];
            return x.numbered[env->which] || (x.def && eval(x.def, env, depth + 1, out));
        }
        for (int i = 0; i < env->n; i++)
            if (env->var[i] == atom) {
                *out = env->value[i];
                return true;
            }
        return x.def && eval(x.def, env, depth + 1, out);
    }
    if (!eval(x.a, env, depth + 1, &a) || !eval(x.b, env, depth + 1, &b))
        return false;
    if (x.kind == ATOM_MUL)
        return !__builtin_mul_overflow(a, b, out);
    if (x.kind == ATOM_FDIV && !b)
        return false;
    *out = x.kind == ATOM_MIN ? min64(a, b) : floor_div(a, b);
    return true;
}

static bool eval(Dim d, const Env *env, int depth, int64_t *out)
{
    Term one;
    int n;
    const Term *t;
    int64_t sum = 0;

    if (d == DIM_BAD || depth > 2 * DEPTH_MAX)
        return false;
    if (dim_is_const(d)) {                      /* also before any expression has been made */
        *out = d;
        return true;
    }
    t = dim_terms(d, &one, &n);
    for (int i = 0; i < n; i++) {
        int64_t v = t[i].c, x;
        Mono m = dim_monos.at[t[i].m];
        for (int k = 0; k < m.n; k++) {
            if (!eval_atom(m.f[k].atom, env, depth, &x))
                return false;
            for (uint32_t e = 0; e < m.f[k].exp; e++)
                if (__builtin_mul_overflow(v, x, &v))
                    return false;
        }
        if (__builtin_add_overflow(sum, v, &sum))
            return false;
    }
    *out = sum;
    return true;
}

bool dim_eval(Dim d, const Dim *vars, const int64_t *values, int n, int64_t *out)
{
    uint32_t v[64];
    int64_t x[64];
    Env env = {v, x, 0, DIM_NOW};

    for (int i = 0; i < n && env.n < 64; i++) {
        Term one;
        int nt;
        const Term *t = vars[i] < 0 && vars[i] != DIM_BAD ? dim_terms(vars[i], &one, &nt) : NULL;
        if (t && nt == 1 && t->c == 1 && mono_is_var(t->m, &v[env.n]))
            x[env.n++] = values[i];
    }
    return eval(d, &env, 0, out);
}

bool dim_eval_each(Dim d, int64_t each, int64_t *out)
{
    return eval(d, &(Env){.each = each}, 0, out);
}

bool dim_number(Dim d, DimNumber which, int64_t *out)
{
    return eval(d, &(Env){NULL, NULL, 0, which}, 0, out);
}

/* ------------------------------------------------------------- counterexamples */

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

/* The facts at a point; variables that the question does not have count as 1. */
static bool facts_hold(Env *env, uint32_t *var, int64_t *value)
{
    int n = env->n;
    bool ok = true;
    int64_t x, y, z;

    for (int i = 0; i < dim_ges.n + dim_rewrites.n; i++) {
        bool ge = i < dim_ges.n;
        const Rewrite *w = ge ? NULL : &dim_rewrites.at[i - dim_ges.n];
        int before = env->n;
        dim_var_atoms(ge ? dim_ges.at[i] : w->rhs, var, &env->n, VARS_MAX);
        if (!ge)
            dim_var_atoms(dim_of_term(1, w->m), var, &env->n, VARS_MAX);
        for (int k = before; k < env->n; k++)
            value[k] = 1;
    }
    for (int i = 0; i < dim_ges.n && ok; i++)
        ok = eval(dim_ges.at[i], env, 0, &x) && x >= 0;
    for (int i = 0; i < dim_rewrites.n && ok; i++)
        ok = eval(dim_of_term(dim_rewrites.at[i].c, dim_rewrites.at[i].m), env, 0, &y) &&
             eval(dim_rewrites.at[i].rhs, env, 0, &z) && y == z;
    env->n = n;
    return ok;
}

static bool in_bounds(const Env *env)
{
    for (int i = 0; i < env->n; i++)
        if (env->value[i] < dim_atoms.at[env->var[i]].lo || env->value[i] > dim_atoms.at[env->var[i]].hi)
            return false;
    return true;
}

typedef struct { uint32_t raw[VARS_MAX]; int nraw; } Names;

/* The point in terms of the program's own variables. */
static bool witness_at(const Env *env, const Names *names, DimWitness *w, int *nw)
{
    int n = 0;

    for (int i = 0; i < names->nraw && n < 8; i++) {
        int64_t v;
        if (!eval(dim_norm(dim_of_atom(names->raw[i])), env, 0, &v))
            return false;
        if (v < dim_atoms.at[names->raw[i]].lo || v > dim_atoms.at[names->raw[i]].hi)
            return false;
        if (w)
            w[n] = (DimWitness){dim_atoms.at[names->raw[i]].name, v};
        n++;
    }
    if (nw)
        *nw = n;
    return true;
}

/* Small values first, then random ones. `want` 0: d != 0; -1: d < 0. */
static bool counterexample(Dim raw, Dim d, int want, DimWitness *w, int *nw)
{
    uint32_t var[VARS_MAX];
    int64_t value[VARS_MAX], x;
    Names names = {.nraw = 0};
    uint64_t seed = 0x9E3779B97F4A7C15u;
    Env env = {var, value, 0};
    int grid = 1;

    dim_var_atoms(dim_surface(raw), names.raw, &names.nraw, VARS_MAX);
    dim_var_atoms(d, var, &env.n, VARS_MAX);
    for (int i = 0; i < names.nraw; i++)
        dim_var_atoms(dim_norm(dim_of_atom(names.raw[i])), var, &env.n, VARS_MAX);
    if (!env.n || env.n >= VARS_MAX)
        return false;
    for (int i = 0; i < env.n && grid <= GRID; i++)
        grid *= 6;
    if (env.n > 4)
        grid = 0;
    for (int i = 0; i < (grid < GRID ? grid : GRID) + RANDOM; i++) {
        int code = i;
        for (int k = env.n - 1; k >= 0; k--, code /= 6) {
            int64_t lo = max64(dim_atoms.at[var[k]].lo, -8);
            value[k] = lo + (i < grid && i < GRID ? code % 6 : (int64_t)(next_random(&seed) % 40));
        }
        if (!in_bounds(&env) || !facts_hold(&env, var, value) || !eval(d, &env, 0, &x) || (want ? x >= 0 : x == 0))
            continue;
        if (witness_at(&env, &names, w, nw))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------- residues */

static void constant_divisors(Dim d, int64_t *lcm, uint32_t *inner, int *n)
{
    Term one;
    int nt;
    const Term *t = dim_terms(d, &one, &nt);
    int64_t k;

    for (int i = 0; i < nt; i++)
        for (int f = 0; f < dim_monos.at[t[i].m].n; f++) {
            uint32_t atom = dim_monos.at[t[i].m].f[f].atom;
            Atom a = dim_atoms.at[atom];
            if (a.kind == ATOM_VAR)
                continue;
            atom_vars(atom, inner, n, VARS_MAX);
            if (a.kind == ATOM_FDIV && dim_const_value(a.b, &k) && *lcm <= RESIDUES)
                *lcm = k > RESIDUES ? k : *lcm / gcd64(*lcm, k) * k;
            constant_divisors(a.a, lcm, inner, n);
            constant_divisors(a.b, lcm, inner, n);
        }
}

/* The variable v' of v = L*v' + r; it starts at 0. */
static Dim twin_of(uint32_t v)
{
    Dim d;
    uint32_t t;

    if (dim_atoms.at[v].twin)
        return dim_of_atom(dim_atoms.at[v].twin - 1);
    d = dim_var(dim_atoms.at[v].name, 0, INF);
    mono_is_var(leading_mono(d), &t);
    dim_atoms.at[v].twin = t + 1;
    return d;
}

/* Is d zero for every residue of its inner variables modulo the constant divisors? */
static bool zero_by_residues(Dim d)
{
    uint32_t inner[VARS_MAX];
    int n = 0, cases = 1;
    int64_t lcm = 1;
    Dim to[2], twin[2];

    constant_divisors(d, &lcm, inner, &n);
    if (lcm <= 1 || lcm > RESIDUES || n < 1 || n > 2)
        return false;
    for (int i = 0; i < n; i++) {
        if (dim_atoms.at[inner[i]].lo < 0)
            return false;
        cases *= (int)lcm;
        twin[i] = twin_of(inner[i]);
    }
    for (int k = 0; k < cases && cases <= CASES; k++) {
        to[0] = dim_add(dim_scale(twin[0], lcm), k % lcm);
        if (n == 2)
            to[1] = dim_add(dim_scale(twin[1], lcm), k / lcm);
        if (dim_map(d, &(AtomMap){inner, to, n}) != 0 || dim_steps <= 0)
            return false;
    }
    return cases <= CASES;
}

/* ------------------------------------------------------------- decisions */

/* Is *d, which becomes its normal form, always 0, or never? */
static DimAnswer decide_zero(Dim *d)
{
    int64_t c;
    Interval b;

    *d = dim_norm(*d);
    if (*d == DIM_BAD)
        return DIM_UNKNOWN;
    if (dim_const_value(*d, &c))
        return c ? DIM_REFUTED : DIM_PROVED;
    b = dim_bounds(*d);
    if (b.lo > 0 || b.hi < 0 || !dim_primitive(d))
        return DIM_REFUTED;
    return zero_by_residues(*d) ? DIM_PROVED : DIM_UNKNOWN;
}

static DimAnswer decide_eq(Dim raw, DimWitness *w, int *nw)
{
    Dim d = raw;
    DimAnswer r = decide_zero(&d);

    return r == DIM_UNKNOWN && d != DIM_BAD && counterexample(raw, d, 0, w, nw) ? DIM_DIFFERS : r;
}

DimAnswer dim_eq(Dim a, Dim b, DimWitness *w, int *nw)
{
    DimAnswer r;

    if (nw)
        *nw = 0;
    if (a == b)
        return DIM_PROVED;
    if (a >= 0 && b >= 0)
        return DIM_REFUTED;
    dim_begin();
    r = decide_eq(dim_sub(a, b), w, nw);
    dim_end();
    return r;
}

/* For each p//q in d, with q >= 1: 0 <= p - q*(p//q) <= q-1. */
static void division_facts(Dim d, Dim *ge, int *n)
{
    Term one;
    int nt;
    const Term *t = dim_terms(d, &one, &nt);

    for (int i = 0; i < nt; i++)
        for (int f = 0; f < dim_monos.at[t[i].m].n && *n + 2 <= GES_MAX; f++) {
            uint32_t atom = dim_monos.at[t[i].m].f[f].atom;
            Atom a = dim_atoms.at[atom];
            Dim r;
            if (a.kind == ATOM_MIN) {
                ge[(*n)++] = dim_sub(a.a, dim_of_atom(atom));
                ge[(*n)++] = dim_sub(a.b, dim_of_atom(atom));
            }
            if (a.kind != ATOM_FDIV || dim_interval(a.b).lo < 1)
                continue;
            r = dim_sub(a.a, dim_mul(a.b, dim_of_atom(atom)));
            ge[(*n)++] = r;
            ge[(*n)++] = dim_sub(dim_sub(a.b, 1), r);
            division_facts(a.a, ge, n);
        }
}

static DimAnswer decide_ge(Dim raw, DimWitness *w, int *nw)
{
    Dim d = dim_norm(raw), ge[GES_MAX + 2];
    int n = 0;
    Interval b;

    if (d == DIM_BAD)
        return DIM_UNKNOWN;
    for (; n < dim_ges.n && n < GES_MAX / 2; n++)
        ge[n] = dim_ges.at[n];
    division_facts(d, ge, &n);
    b = bounds_with(d, ge, n, BOUND_DEPTH);
    if (b.lo >= 0)
        return DIM_PROVED;
    if (b.hi < 0)
        return DIM_REFUTED;
    return counterexample(raw, d, -1, w, nw) ? DIM_DIFFERS : DIM_UNKNOWN;
}

DimAnswer dim_ge(Dim a, Dim b, DimWitness *w, int *nw)
{
    DimAnswer r;

    if (nw)
        *nw = 0;
    if (a >= 0 && b >= 0)
        return a >= b ? DIM_PROVED : DIM_REFUTED;
    dim_begin();
    r = decide_ge(dim_sub(a, b), w, nw);
    dim_end();
    return r;
}

DimAnswer dim_divides(Dim k, Dim e)
{
    int64_t c;
    Dim rest;
    DimAnswer r;

    if (dim_const_value(k, &c) && c <= 0)
        return DIM_REFUTED;
    if (k > 0 && e >= 0)
        return e % k ? DIM_REFUTED : DIM_PROVED;
    dim_begin();
    rest = dim_mod(e, k);
    r = decide_zero(&rest);
    dim_end();
    return r;
}
