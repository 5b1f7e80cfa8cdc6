/*
 * What is known about sizes, from dim_push to dim_pop.
 *
 * Divisibility is substitution: D % 8 == 0 makes D = 8*q for a new q, after
 * which D//8 is q.  Equalities solve for a variable where they can; the rest
 * are rewrites of their greatest monomial.
 */
#include "ir/core/dim_impl.h"

enum { VARS_MAX = 12 };

typedef struct { int solved, named, rewrites, ges; } Mark;

Rewrites dim_rewrites;
Dims dim_ges;
uint32_t dim_epoch = 1;
static Vec(uint32_t) solved;
static Vec(uint32_t) named;                         /* variables made by solving: x//q while the facts are in force */
static Vec(Mark) marks;

void dim_push(void)
{
    Mark m = {solved.n, named.n, dim_rewrites.n, dim_ges.n};

    vec_push(&marks, m);
}

void dim_pop(void)
{
    Mark m = vec_pop(&marks);

    while (solved.n > m.solved)
        dim_atoms.at[vec_pop(&solved)].sub = DIM_BAD;
    while (named.n > m.named) {                     /* sizes that were made then are the same sizes now */
        Atom *a = &dim_atoms.at[vec_pop(&named)];
        a->sub = a->def;
    }
    dim_rewrites.n = m.rewrites;
    dim_ges.n = m.ges;
    dim_epoch++;
}

void dim_facts_done(void)
{
    vec_free(&solved);
    vec_free(&named);
    vec_free(&marks);
    dim_epoch = 1;
}

static void solve(uint32_t var, Dim with)
{
    dim_atoms.at[var].sub = with;
    vec_push(&solved, var);
    dim_epoch++;
}

static void know_ge(Dim d)
{
    int64_t c;

    if (d == DIM_BAD || dim_const_value(d, &c))
        return;
    vec_push(&dim_ges, d);
    dim_epoch++;
}

static void add_rewrite(uint32_t m, int64_t c, Dim rhs)
{
    Rewrite w = {m, c, rhs};

    vec_push(&dim_rewrites, w);
    dim_epoch++;
}

static bool mentions(Dim d, uint32_t var)
{
    uint32_t v[VARS_MAX];
    int n = 0;

    dim_var_atoms(d, v, &n, VARS_MAX);
    for (int i = 0; i < n; i++)
        if (v[i] == var)
            return true;
    return n == VARS_MAX;
}

static bool assume_ge(Dim a, Dim b)
{
    Dim d = dim_norm(dim_sub(a, b));
    int64_t c;

    if (dim_const_value(d, &c))
        return c >= 0;
    if (dim_bounds(d).hi < 0)
        return false;
    know_ge(d);
    return true;
}

bool dim_assume_ge(Dim a, Dim b)
{
    bool ok;

    dim_begin();
    ok = assume_ge(a, b);
    dim_end();
    return ok;
}

/* x = q * fresh. The fresh variable prints as x//q, and has the bounds that x's give it. */
static void solve_product(uint32_t x, Dim q)
{
    Atom a = dim_atoms.at[x];
    int64_t k, lo = a.lo >= 1 ? 1 : a.lo == 0 ? 0 : -INF, hi = INF;
    Dim fresh;
    uint32_t v;

    if (dim_const_value(q, &k) && k > 0) {
        lo = a.lo == -INF ? -INF : -floor_div(-a.lo, k);
        hi = a.hi == INF ? INF : floor_div(a.hi, k);
    } else if (dim_interval(q).lo < 1) {
        lo = -INF;
    }
    fresh = dim_var(a.name, lo, hi);
    mono_is_var(leading_mono(fresh), &v);
    dim_atoms.at[v].def = dim_of_atom(atom_make(ATOM_FDIV, dim_of_atom(x), q));
    vec_push(&named, v);
    solve(x, dim_mul(q, fresh));
    if (hi == INF && a.lo > 1 && lo == 1)
        know_ge(dim_sub(dim_mul(q, fresh), a.lo));
}

/* q*(p//q) is p: kept as a rewrite where nothing can be solved. */
static void divides_rewrite(Dim q, Dim p)
{
    Term one[2];
    int n, nq;
    const Term *d = dim_terms(q, &one[0], &nq), *t;
    Dim f;

    if (nq != 1)
        return;
    f = dim_floordiv(p, q);
    if (f == DIM_BAD)
        return;
    t = dim_terms(f, &one[1], &n);
    for (int i = 0; i < n; i++) {
        int64_t c;
        uint32_t m = mono_mul(t[i].m, d->m);
        if (!t[i].m || m == UINT32_MAX || __builtin_mul_overflow(t[i].c, d->c, &c) || c <= 0)
            continue;
        add_rewrite(m, c, dim_sub(p, dim_mul(q, dim_sub(f, dim_of_term(t[i].c, t[i].m)))));
        return;
    }
}

static bool assume_divides(Dim k, Dim e)
{
    Dim p = dim_norm(e), q = dim_norm(k);
    Term one;
    int n;
    const Term *t;
    int64_t kk, c;
    uint32_t x;

    if (p == DIM_BAD || q == DIM_BAD)
        return true;
    t = dim_terms(p, &one, &n);
    if (dim_const_value(q, &kk)) {
        if (kk <= 0)
            return false;
        if (dim_const_value(p, &c))
            return c % kk == 0;
        if (n == 1) {
            kk /= gcd64(kk, t->c);
            if (kk == 1)
                return true;
            if (mono_is_var(t->m, &x)) {
                solve_product(x, kk);
                return true;
            }
        }
    } else if (n == 1 && t->c == 1 && mono_is_var(t->m, &x) && !mentions(q, x)) {
        solve_product(x, q);
        return true;
    }
    divides_rewrite(q, p);
    return true;
}

bool dim_assume_divides(Dim k, Dim e)
{
    bool ok;

    dim_begin();
    ok = assume_divides(k, e);
    dim_end();
    return ok;
}

/* The coefficients' common divisor comes out; false: the constant does not have it, so d is never 0. */
bool dim_primitive(Dim *d)
{
    Term one;
    int n;
    const Term *t = dim_terms(*d, &one, &n);
    int64_t g = 0;
    Sum s;

    for (int i = 0; i < n; i++)
        if (t[i].m)
            g = gcd64(g, t[i].c);
    if (g <= 1)
        return true;
    sum_start(&s);
    for (int i = 0; i < n; i++) {
        if (t[i].c % g)
            return false;
        sum_add(&s, t[i].c / g, t[i].m);
    }
    *d = dim_of_sum(&s);
    return true;
}

/* How gladly a variable is eliminated: unknowns and solved parts before names of the program. */
static int eagerness(uint32_t atom)
{
    const Atom *a = &dim_atoms.at[atom];

    return a->name->text[0] == '?' ? 2 : a->def ? 1 : 0;
}

static bool solve_linear(Dim d)
{
    Term one;
    int n, best = -1, eager = -1;
    const Term *t = dim_terms(d, &one, &n);
    uint32_t x = 0, v;
    Dim rest;
    Atom a;

    for (int i = 0; i < n; i++)
        if ((t[i].c == 1 || t[i].c == -1) && mono_is_var(t[i].m, &v) && eagerness(v) > eager &&
            !mentions(dim_sub(d, dim_of_term(t[i].c, t[i].m)), v)) {
            best = i;
            x = v;
            eager = eagerness(v);
        }
    if (best < 0)
        return false;
    a = dim_atoms.at[x];
    rest = dim_scale(dim_sub(d, dim_of_term(t[best].c, t[best].m)), -t[best].c);
    solve(x, rest);
    if (a.lo != -INF)
        know_ge(dim_sub(rest, dim_const(a.lo)));
    if (a.hi != INF)
        know_ge(dim_sub(dim_const(a.hi), rest));
    return true;
}

static void zero_rewrite(Dim d)
{
    Term lead = dim_leading(d);

    add_rewrite(lead.m, lead.c < 0 ? -lead.c : lead.c, dim_scale(dim_sub(d, dim_of_term(lead.c, lead.m)), lead.c < 0 ? 1 : -1));
}

void dim_learn_zero(Dim d)
{
    Term one;
    int n;
    const Term *t;
    int64_t sign = 0;
    uint32_t x = 0, v;

    if (d == DIM_BAD || !dim_primitive(&d))
        return;
    t = dim_terms(d, &one, &n);
    for (int i = 0; i < n; i++)
        if ((t[i].c == 1 || t[i].c == -1) && mono_is_var(t[i].m, &v) && (!sign || v > x) &&
            !mentions(dim_sub(d, dim_of_term(t[i].c, t[i].m)), v)) {
            x = v;
            sign = t[i].c;
        }
    if (sign)
        solve(x, dim_scale(dim_sub(d, dim_scale(dim_of_atom(x), sign)), -sign));
}

static bool assume_eq(Dim a, Dim b)
{
    Dim d = dim_norm(dim_sub(a, b));
    int64_t c;
    Interval i;

    if (d == DIM_BAD)
        return true;
    if (dim_const_value(d, &c))
        return c == 0;
    i = dim_bounds(d);
    if (i.lo > 0 || i.hi < 0 || !dim_primitive(&d))
        return false;
    if (solve_linear(d))
        return true;
    zero_rewrite(d);
    return true;
}

bool dim_assume_eq(Dim a, Dim b)
{
    bool ok;

    dim_begin();
    ok = assume_eq(a, b);
    dim_end();
    return ok;
}
