/*
 * Normal form: substitution of solved variables, floor division and minimum.
 *
 * There is no mod, max or ceiling: a % b is a - b*(a//b), max(a, b) is
 * a + b - min(a, b), cdiv(a, b) is (a+b-1)//b; so identities between them hold
 * by construction.  Division takes out what divides and keeps the rest as an
 * atom.  Every rule holds for all integers its guard admits.
 */
#include "ir/core/dim_impl.h"

#include "base/alloc.h"

int dim_steps;
bool dim_plain;
static int nested;

void dim_begin(void)
{
    if (!nested++)
        dim_steps = STEPS;
}

void dim_end(void)
{
    nested--;
}

int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q - (a % b != 0 && (a < 0) != (b < 0));
}

/* a - floor_div(a, b) * b, for which the product may have no room; 0 <= it < b for b > 0. */
static int64_t floor_rest(int64_t a, int64_t b)
{
    int64_t r = a % b;

    return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}

/* ------------------------------------------------------------- substitution */

static Dim fdiv(Dim p, Dim q);
static Dim minimum(Dim p, Dim q);

/* What stands for this atom now; false: itself. */
static bool map_atom(uint32_t atom, const AtomMap *m, Dim *out)
{
    Atom x = dim_atoms.at[atom];
    Dim a, b;

    if (x.kind == ATOM_VAR) {
        for (int i = 0; m && i < m->n; i++)
            if (m->from[i] == atom) {
                *out = m->to[i];
                return true;
            }
        *out = x.sub;
        return !m && x.sub != DIM_BAD;
    }
    a = dim_map(x.a, m);
    b = dim_map(x.b, m);
    if (a == x.a && b == x.b)
        return false;
    *out = x.kind == ATOM_FDIV ? fdiv(a, b) : x.kind == ATOM_MIN ? minimum(a, b) : dim_mul(a, b);
    return true;
}

static Dim power(Dim base, uint32_t exp)
{
    Dim r = 1;

    while (exp--)
        r = dim_mul(r, base);
    return r;
}

static Dim map_term(Term t, const AtomMap *m, bool *changed)
{
    Mono x = dim_monos.at[t.m];
    Dim r = dim_const(t.c), with;

    for (int k = 0; k < x.n; k++) {
        bool other = map_atom(x.f[k].atom, m, &with);
        *changed |= other;
        r = dim_mul(r, other ? power(with, x.f[k].exp) : power(dim_of_atom(x.f[k].atom), x.f[k].exp));
    }
    return r;
}

Dim dim_map(Dim d, const AtomMap *m)
{
    Term one;
    int n;
    bool changed = false;
    const Term *t;
    Dim r = 0;

    if (d >= 0 || d == DIM_BAD || dim_steps-- <= 0)
        return d;
    t = dim_terms(d, &one, &n);
    for (int i = 0; i < n; i++)
        r = dim_add(r, map_term(t[i], m, &changed));
    return changed ? r : d;
}

/* One rewrite c*m -> rhs, in every term that it divides. */
static Dim rewrite(Dim d, const Rewrite *w)
{
    Term one;
    int n;
    const Term *t = dim_terms(d, &one, &n);
    Dim r = d;

    for (int i = 0; i < n; i++) {
        uint32_t rest;
        if (t[i].c % w->c || !mono_div(t[i].m, w->m, &rest))
            continue;
        r = dim_sub(r, dim_of_term(t[i].c, t[i].m));
        r = dim_add(r, dim_mul(dim_of_term(t[i].c / w->c, rest), w->rhs));
    }
    return r;
}

Dim dim_norm(Dim d)
{
    enum { ROUNDS = 8 };
    Dim p = d;

    if (d >= 0 || d == DIM_BAD || dim_plain)
        return d;
    if (dim_polys.at[-1 - d].epoch == dim_epoch)
        return dim_polys.at[-1 - d].norm;
    for (int i = 0; i < ROUNDS; i++) {
        Dim q = dim_map(p, NULL);
        for (int k = 0; k < dim_rewrites.n && q < 0 && q != DIM_BAD; k++)
            q = rewrite(q, &dim_rewrites.at[k]);
        if (q == p)
            break;
        p = q;
        if (p >= 0 || p == DIM_BAD)
            break;
    }
    if (dim_steps > 0) {
        dim_polys.at[-1 - d].epoch = dim_epoch;
        dim_polys.at[-1 - d].norm = p;
    }
    return p;
}

/* ------------------------------------------------------------- division */

static Dim atom_dim(AtomKind kind, Dim a, Dim b)
{
    if (dim_depth(a) >= DEPTH_MAX || dim_depth(b) >= DEPTH_MAX)
        return dim_unknown("?deep");
    return dim_of_atom(atom_make(kind, a, b));
}

/* r = x//a + c with a number a: then r//k is (x + a*c)//(a*k). */
static bool nested_floor(Dim r, int64_t k, Dim *out)
{
    Term one;
    int n;
    const Term *t = dim_terms(r, &one, &n);
    int64_t c = 0, a, ak, ac;
    const Mono *m;
    Atom x;

    if (n > 2 || (n == 2 && t[0].m && t[1].m))
        return false;
    if (n == 2) {
        c = t[0].m ? t[1].c : t[0].c;
        t = t[0].m ? t : t + 1;
    }
    m = &dim_monos.at[t->m];
    if (t->c != 1 || m->n != 1 || m->f[0].exp != 1)
        return false;
    x = dim_atoms.at[m->f[0].atom];
    if (x.kind != ATOM_FDIV || !dim_const_value(x.b, &a) || __builtin_mul_overflow(a, k, &ak) ||
        __builtin_mul_overflow(a, c, &ac))
        return false;
    *out = fdiv(dim_add(x.a, dim_const(ac)), dim_const(ak));
    return true;
}

enum { DIVIDE_MAX = 16 };
static int dividing;                            /* divisions inside each other: facts may lead from one to the next in a circle */

static Dim divided_by(Dim p, int64_t k)
{
    Term one;
    int n;
    const Term *t = dim_terms(p, &one, &n);
    Sum whole, rest;
    int64_t g = k, c = 0;
    Dim a, r, inner;
    Interval b;

    sum_start(&whole);
    sum_start(&rest);
    for (int i = 0; i < n; i++) {
        int64_t q = floor_div(t[i].c, k);
        sum_add(&whole, q, t[i].m);
        int64_t left = floor_rest(t[i].c, k);
        sum_add(&rest, left, t[i].m);
        if (t[i].m)
            g = gcd64(g, left);
    }
    a = dim_of_sum(&whole);
    r = dim_of_sum(&rest);
    if (dim_const_value(r, &c))
        return a;                               /* 0 <= c < k */
    if (g > 1 && dividing < DIVIDE_MAX) {
        Sum less;
        sum_start(&less);
        t = dim_terms(r, &one, &n);
        for (int i = 0; i < n; i++)
            sum_add(&less, floor_div(t[i].c, g), t[i].m);
        return dim_add(a, fdiv(dim_of_sum(&less), k / g));
    }
    if (dividing < DIVIDE_MAX && nested_floor(r, k, &inner))
        return dim_add(a, inner);
    b = dim_bounds(r);
    if (b.lo >= 0 && b.hi < k)
        return a;
    return dim_add(a, atom_dim(ATOM_FDIV, r, k));
}

static Dim fdiv_const(Dim p, int64_t k)
{
    Dim q;

    dividing++;
    q = divided_by(p, k);
    dividing--;
    return q;
}

static bool divides_all(uint32_t m, const Term *t, int n)
{
    uint32_t rest;

    for (int i = 0; i < n; i++)
        if (!mono_div(t[i].m, m, &rest))
            return false;
    return true;
}

/* The greatest factor of m that divides all terms. */
static uint32_t common_factor(uint32_t m, const Term *t, int n)
{
    Mono x = dim_monos.at[m];
    uint32_t g = 0;

    for (int k = 0; k < x.n; k++)
        for (uint32_t e = 0; e < x.f[k].exp; e++) {
            uint32_t more = mono_mul(g, leading_mono(dim_of_atom(x.f[k].atom)));
            if (more == UINT32_MAX || !divides_all(more, t, n))
                break;
            g = more;
        }
    return g;
}

/* d / g, which divides it. */
static Dim without_factor(Dim d, uint32_t g)
{
    Term one;
    int n;
    const Term *t = dim_terms(d, &one, &n);
    Sum s;

    sum_start(&s);
    for (int i = 0; i < n; i++) {
        uint32_t m = 0;
        mono_div(t[i].m, g, &m);
        sum_add(&s, t[i].c, m);
    }
    return dim_of_sum(&s);
}

/* q is one term: what it divides comes out, and what it has in common with the rest goes from both: (x*a)//(x*b) is a//b, as x is not 0. */
static Dim fdiv_term(Dim p, Dim q)
{
    Term one[2];
    int n, nq;
    const Term *t = dim_terms(p, &one[0], &n), *d = dim_terms(q, &one[1], &nq);
    Sum whole, rest;
    Dim a, r;
    uint32_t g;

    sum_start(&whole);
    sum_start(&rest);
    for (int i = 0; i < n; i++) {
        uint32_t m;
        if (t[i].c % d->c == 0 && mono_div(t[i].m, d->m, &m))
            sum_add(&whole, t[i].c / d->c, m);
        else
            sum_add(&rest, t[i].c, t[i].m);
    }
    a = dim_of_sum(&whole);
    r = dim_of_sum(&rest);
    if (r == 0 || r == DIM_BAD)
        return a;
    t = dim_terms(r, &one[0], &n);
    g = common_factor(d->m, t, n);
    if (g)
        return dim_add(a, fdiv(without_factor(r, g), without_factor(q, g)));
    if (dim_bounds(r).lo >= 0 && dim_bounds(dim_sub(q, r)).lo >= 1)
        return a;
    return dim_add(a, atom_dim(ATOM_FDIV, r, q));
}

Term dim_leading(Dim d)
{
    Term one;
    int n, best = 0;
    const Term *t = dim_terms(d, &one, &n);

    for (int i = 1; i < n; i++)
        if (mono_less(t[best].m, t[i].m))
            best = i;
    return t[best];
}

/* Exact long division by a sum; what does not divide stays whole. */
static Dim fdiv_sum(Dim p, Dim q)
{
    enum { ROUNDS = 20 };
    Term d = dim_leading(q);
    Dim quotient = 0, r = p;

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t m;
        Term l;
        Dim step;
        if (r == 0)
            return quotient;
        if (r == DIM_BAD)
            break;
        l = dim_leading(r);
        if (l.c % d.c || !mono_div(l.m, d.m, &m))
            break;
        step = dim_of_term(l.c / d.c, m);
        quotient = dim_add(quotient, step);
        r = dim_sub(r, dim_mul(step, q));
    }
    return atom_dim(ATOM_FDIV, p, q);
}

static Dim fdiv(Dim p, Dim q)
{
    int64_t k;
    Term one;
    int n;

    p = dim_norm(p);
    q = dim_norm(q);
    if (p == DIM_BAD || q == DIM_BAD)
        return DIM_BAD;
    if (dim_const_value(q, &k))
        return k > 0 ? fdiv_const(p, k) : DIM_BAD;
    if (p == 0)
        return 0;
    dim_terms(q, &one, &n);
    return n == 1 ? fdiv_term(p, q) : fdiv_sum(p, q);
}

Dim dim_floordiv(Dim a, Dim b)
{
    Dim r;

    if (a >= 0 && b > 0)
        return a / b;
    dim_begin();
    r = fdiv(a, b);
    dim_end();
    return r;
}

Dim dim_mod(Dim a, Dim b)
{
    Dim r;

    if (a >= 0 && b > 0)
        return a % b;
    dim_begin();
    r = dim_sub(dim_norm(a), dim_mul(dim_norm(b), fdiv(a, b)));
    dim_end();
    return r;
}

Dim dim_cdiv(Dim a, Dim b)
{
    if (a >= 0 && b > 0)
        return a / b + (a % b != 0);
    return dim_floordiv(dim_add(a, dim_sub(b, 1)), b);
}

/* ------------------------------------------------------------- minimum */

static Dim minimum(Dim p, Dim q)
{
    Interval b;

    p = dim_norm(p);
    q = dim_norm(q);
    if (p == DIM_BAD || q == DIM_BAD)
        return DIM_BAD;
    b = dim_bounds(dim_sub(p, q));
    if (b.hi <= 0)
        return p;
    if (b.lo >= 0)
        return q;
    return atom_dim(ATOM_MIN, p < q ? p : q, p < q ? q : p);
}

Dim dim_min(Dim a, Dim b)
{
    Dim r;

    if (a >= 0 && b >= 0)
        return a < b ? a : b;
    dim_begin();
    r = minimum(a, b);
    dim_end();
    return r;
}

Dim dim_max(Dim a, Dim b)
{
    if (a >= 0 && b >= 0)
        return a > b ? a : b;
    return dim_sub(dim_add(a, b), dim_min(a, b));
}

/* ------------------------------------------------------------- for others */

static bool is_var(Dim d, uint32_t *atom)
{
    Term one;
    int n;
    const Term *t = d < 0 && d != DIM_BAD ? dim_terms(d, &one, &n) : NULL;

    return t && n == 1 && t->c == 1 && mono_is_var(t->m, atom);
}

/* One and the same variable is one and the same Dim, so that those alone are looked up without a word of arithmetic. */
static Dim subst_var(Dim d, const Dim *from, const Dim *to, int n)
{
    for (int i = 0; i < n; i++)
        if (from[i] == d)
            return to[i];
    return d;
}

Dim dim_subst(Dim d, const Dim *from, const Dim *to, int n)
{
    enum { FEW = 32 };
    uint32_t few[FEW], *atoms = few, alone;
    Dim r;

    if (d >= 0 || d == DIM_BAD || n <= 0)
        return d;
    if (is_var(d, &alone))
        return subst_var(d, from, to, n);
    if (n > FEW)
        atoms = tsr_alloc(sizeof *atoms * (size_t)n);
    for (int i = 0; i < n; i++)
        if (!is_var(from[i], &atoms[i]))
            atoms[i] = UINT32_MAX;
    dim_begin();
    r = dim_map(d, &(AtomMap){atoms, to, n});
    dim_end();
    if (n > FEW)
        tsr_free(atoms);
    return r;
}

Dim dim_surface(Dim d)
{
    enum { MAX = 16, ROUNDS = 8 };
    uint32_t v[MAX], from[MAX];
    Dim to[MAX];

    dim_begin();
    dim_plain = true;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0, k = 0;
        dim_var_atoms(d, v, &n, MAX);
        for (int i = 0; i < n; i++)
            if (dim_atoms.at[v[i]].def) {
                from[k] = v[i];
                to[k++] = dim_atoms.at[v[i]].def;
            }
        if (!k)
            break;
        d = dim_map(d, &(AtomMap){from, to, k});
    }
    dim_plain = false;
    dim_end();
    return d;
}
