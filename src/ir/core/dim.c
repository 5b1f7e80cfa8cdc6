/*
 * The pools of size expressions, and their arithmetic.
 *
 * Sums and products are expanded at once, so that equal polynomials are equal
 * Dims.  All arithmetic on coefficients is checked: what does not fit is
 * DIM_BAD, never a wrapped number.
 */
#include "ir/core/dim_impl.h"

#include "base/arena.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 15 };
static Arena pool;
static uint32_t atom_bucket[BUCKETS], mono_bucket[BUCKETS], poly_bucket[BUCKETS];
static uint32_t unknowns;

Atoms dim_atoms;
Monos dim_monos;
Polys dim_polys;

/* ------------------------------------------------------------- monomials */

static uint32_t intern_mono(const Fac *f, int n)
{
    uint32_t h = (n ? hash_bytes(f, sizeof *f * (size_t)n) : 0) % BUCKETS;
    Mono m = {.n = n, .next = mono_bucket[h]};

    if (!n)
        return 0;
    for (uint32_t i = mono_bucket[h]; i; i = dim_monos.at[i - 1].next)
        if (dim_monos.at[i - 1].n == n && !memcmp(dim_monos.at[i - 1].f, f, sizeof *f * (size_t)n))
            return i - 1;
    m.f = arena_copy(&pool, f, sizeof *f * (size_t)n);
    for (int i = 0; i < n; i++)
        m.degree += (int)f[i].exp;
    vec_push(&dim_monos, m);
    mono_bucket[h] = (uint32_t)dim_monos.n;
    return (uint32_t)dim_monos.n - 1;
}

static void start(void)
{
    Mono one = {0};

    if (!dim_monos.n)
        vec_push(&dim_monos, one);
}

uint32_t mono_mul(uint32_t a, uint32_t b)
{
    const Mono *x = &dim_monos.at[a], *y = &dim_monos.at[b];
    Fac f[64];
    int n = 0, i = 0, k = 0;

    if (!a || !b)
        return a ? a : b;
    if (x->n + y->n > 64)
        return UINT32_MAX;
    while (i < x->n || k < y->n) {
        if (k == y->n || (i < x->n && x->f[i].atom < y->f[k].atom))
            f[n++] = x->f[i++];
        else if (i == x->n || y->f[k].atom < x->f[i].atom)
            f[n++] = y->f[k++];
        else {
            f[n] = x->f[i++];
            f[n].exp += y->f[k++].exp;
            if (f[n++].exp > EXP_MAX)
                return UINT32_MAX;
        }
    }
    return intern_mono(f, n);
}

bool mono_div(uint32_t a, uint32_t b, uint32_t *out)
{
    const Mono *x = &dim_monos.at[a], *y = &dim_monos.at[b];
    Fac f[64];
    int n = 0, k = 0;

    if (x->n > 64)
        return false;
    for (int i = 0; i < x->n; i++) {
        Fac q = x->f[i];
        if (k < y->n && y->f[k].atom == q.atom) {
            if (y->f[k].exp > q.exp)
                return false;
            q.exp -= y->f[k++].exp;
        }
        if (q.exp)
            f[n++] = q;
    }
    if (k < y->n)
        return false;
    *out = intern_mono(f, n);
    return true;
}

bool mono_is_var(uint32_t m, uint32_t *atom)
{
    const Mono *x = &dim_monos.at[m];

    if (x->n != 1 || x->f[0].exp != 1 || dim_atoms.at[x->f[0].atom].kind != ATOM_VAR)
        return false;
    *atom = x->f[0].atom;
    return true;
}

/* Any order that products respect serves division; atoms count as old ones first. */
bool mono_less(uint32_t a, uint32_t b)
{
    const Mono *x = &dim_monos.at[a], *y = &dim_monos.at[b];

    if (x->degree != y->degree)
        return x->degree < y->degree;
    for (int i = 0; i < x->n && i < y->n; i++) {
        if (x->f[i].atom != y->f[i].atom)
            return x->f[i].atom > y->f[i].atom;
        if (x->f[i].exp != y->f[i].exp)
            return x->f[i].exp < y->f[i].exp;
    }
    return false;
}

/* ------------------------------------------------------------- atoms */

static uint32_t atom_hash(AtomKind kind, Dim a, Dim b)
{
    Dim key[3] = {kind, a, b};

    return hash_bytes(key, sizeof key) % BUCKETS;
}

uint32_t atom_make(AtomKind kind, Dim a, Dim b)
{
    uint32_t h = atom_hash(kind, a, b);
    Atom x = {.kind = (uint8_t)kind, .a = a, .b = b, .sub = DIM_BAD, .next = atom_bucket[h]};

    for (uint32_t i = atom_bucket[h]; i; i = dim_atoms.at[i - 1].next)
        if (dim_atoms.at[i - 1].kind == kind && dim_atoms.at[i - 1].a == a && dim_atoms.at[i - 1].b == b)
            return i - 1;
    vec_push(&dim_atoms, x);
    atom_bucket[h] = (uint32_t)dim_atoms.n;
    return (uint32_t)dim_atoms.n - 1;
}

static uint32_t var_make(Sym name, int64_t lo, int64_t hi)
{
    Atom x = {.kind = ATOM_VAR, .name = name, .lo = lo, .hi = hi, .sub = DIM_BAD};

    vec_push(&dim_atoms, x);
    return (uint32_t)dim_atoms.n - 1;
}

Dim dim_of_atom(uint32_t atom)
{
    Fac f = {atom, 1};

    return dim_of_term(1, intern_mono(&f, 1));
}

Dim dim_var(Sym name, int64_t lo, int64_t hi)
{
    start();
    return dim_of_atom(var_make(name, lo, hi));
}

Dim dim_unknown(const char *prefix)
{
    char name[48];

    snprintf(name, sizeof name, "%s%u", prefix, ++unknowns);
    return dim_var(sym(name), -INF, INF);
}

void atom_vars(uint32_t atom, uint32_t *out, int *n, int max)
{
    if (dim_atoms.at[atom].kind != ATOM_VAR) {
        dim_var_atoms(dim_atoms.at[atom].a, out, n, max);
        dim_var_atoms(dim_atoms.at[atom].b, out, n, max);
        return;
    }
    for (int i = 0; i < *n; i++)
        if (out[i] == atom)
            return;
    if (*n < max)
        out[(*n)++] = atom;
}

void dim_var_atoms(Dim d, uint32_t *out, int *n, int max)
{
    Term one;
    int nt;
    const Term *t;

    if (d >= 0 || d == DIM_BAD)
        return;
    t = dim_terms(d, &one, &nt);
    for (int i = 0; i < nt; i++)
        for (int k = 0; k < dim_monos.at[t[i].m].n; k++)
            atom_vars(dim_monos.at[t[i].m].f[k].atom, out, n, max);
}

static bool atom_has_var(uint32_t atom, char first)
{
    const Atom *a = &dim_atoms.at[atom];

    if (a->kind != ATOM_VAR)
        return dim_has_var(a->a, first) || dim_has_var(a->b, first);
    return a->def ? dim_has_var(a->def, first) : a->name->text[0] == first;
}

bool dim_has_var(Dim d, char first)
{
    const Poly *p;

    if (d >= 0 || d == DIM_BAD)
        return false;
    p = &dim_polys.at[-1 - d];
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < dim_monos.at[p->t[i].m].n; k++)
            if (atom_has_var(dim_monos.at[p->t[i].m].f[k].atom, first))
                return true;
    return false;
}

/* ------------------------------------------------------------- polynomials */

const Term *dim_terms(Dim d, Term *one, int *n)
{
    if (d >= 0) {
        *one = (Term){d, 0};
        *n = d != 0;
        return one;
    }
    *n = dim_polys.at[-1 - d].n;
    return dim_polys.at[-1 - d].t;
}

int dim_depth(Dim d)
{
    return d >= 0 || d == DIM_BAD ? 0 : dim_polys.at[-1 - d].depth;
}

static int by_mono(const void *a, const void *b)
{
    uint32_t x = ((const Term *)a)->m, y = ((const Term *)b)->m;

    return x < y ? -1 : x > y;
}

static int nesting(const Term *t, int n)
{
    int depth = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < dim_monos.at[t[i].m].n; k++) {
            const Atom *a = &dim_atoms.at[dim_monos.at[t[i].m].f[k].atom];
            int d = a->kind == ATOM_VAR ? 1 : 1 + (dim_depth(a->a) > dim_depth(a->b) ? dim_depth(a->a) : dim_depth(a->b));
            depth = d > depth ? d : depth;
        }
    return depth;
}

static Dim intern_poly(const Term *t, int n)
{
    uint32_t h = hash_bytes(t, sizeof *t * (size_t)n) % BUCKETS;
    Poly p = {.n = n, .next = poly_bucket[h]};

    for (uint32_t i = poly_bucket[h]; i; i = dim_polys.at[i - 1].next)
        if (dim_polys.at[i - 1].n == n && !memcmp(dim_polys.at[i - 1].t, t, sizeof *t * (size_t)n))
            return -(Dim)i;
    p.t = arena_copy(&pool, t, sizeof *t * (size_t)n);
    p.depth = nesting(t, n);
    vec_push(&dim_polys, p);
    poly_bucket[h] = (uint32_t)dim_polys.n;
    return -(Dim)dim_polys.n;
}

Dim dim_of_sum(Sum *s)
{
    int n = 0;

    if (s->bad)
        return DIM_BAD;
    for (int i = 0; i < s->n; i++)
        if (s->t[i].c)
            s->t[n++] = s->t[i];
    s->n = n;
    if (!n)
        return 0;
    if (n == 1 && !s->t[0].m && s->t[0].c >= 0)
        return s->t[0].c;
    qsort(s->t, (size_t)n, sizeof *s->t, by_mono);
    for (int i = 0; i < n; i++) {           /* padding must not tell equal terms apart */
        Term t;
        memset(&t, 0, sizeof t);
        t.c = s->t[i].c;
        t.m = s->t[i].m;
        memcpy(&s->t[i], &t, sizeof t);
    }
    return intern_poly(s->t, n);
}

void sum_add(Sum *s, int64_t c, uint32_t m)
{
    if (m == UINT32_MAX)
        s->bad = true;
    if (s->bad || !c)
        return;
    for (int i = 0; i < s->n; i++)
        if (s->t[i].m == m) {
            s->bad = __builtin_add_overflow(s->t[i].c, c, &s->t[i].c) || s->t[i].c == INT64_MIN;
            return;
        }
    if (s->n == TERMS_MAX * 2)
        s->bad = true;
    else
        s->t[s->n++] = (Term){c, m};
}

/* *s += k * d. */
static void sum_add_dim(Sum *s, Dim d, int64_t k)
{
    Term one;
    int n;
    const Term *t;

    if (d == DIM_BAD) {
        s->bad = true;
        return;
    }
    t = dim_terms(d, &one, &n);
    for (int i = 0; i < n; i++) {
        int64_t c;
        s->bad |= __builtin_mul_overflow(t[i].c, k, &c) || c == INT64_MIN;
        sum_add(s, c, t[i].m);
    }
}

Dim dim_of_term(int64_t c, uint32_t m)
{
    Sum s;

    sum_start(&s);
    sum_add(&s, c, m);
    return dim_of_sum(&s);
}

Dim dim_const(int64_t v)
{
    start();
    return v >= 0 ? v : v == INT64_MIN ? DIM_BAD : dim_of_term(v, 0);
}

bool dim_const_value(Dim d, int64_t *out)
{
    const Poly *p;

    if (d >= 0) {
        *out = d;
        return true;
    }
    if (d == DIM_BAD)
        return false;
    p = &dim_polys.at[-1 - d];
    if (p->n != 1 || p->t[0].m)
        return false;
    *out = p->t[0].c;
    return true;
}

/* ------------------------------------------------------------- arithmetic */

static Dim add_scaled(Dim a, Dim b, int64_t k)
{
    Sum s;

    sum_start(&s);
    start();
    sum_add_dim(&s, a, 1);
    sum_add_dim(&s, b, k);
    return dim_of_sum(&s);
}

Dim dim_add_slow(Dim a, Dim b)
{
    return add_scaled(a, b, 1);
}

Dim dim_sub(Dim a, Dim b)
{
    if (a >= 0 && b >= 0 && a >= b)
        return a - b;
    return add_scaled(a, b, -1);
}

Dim dim_scale(Dim d, int64_t k)
{
    return add_scaled(0, d, k);
}

/* A product too large to expand stays as it is written. */
static Dim unexpanded(Dim a, Dim b)
{
    if (dim_depth(a) >= DEPTH_MAX || dim_depth(b) >= DEPTH_MAX)
        return dim_unknown("?big");
    return dim_of_atom(atom_make(ATOM_MUL, a < b ? a : b, a < b ? b : a));
}

Dim dim_mul_slow(Dim a, Dim b)
{
    Term one[2];
    int na, nb;
    const Term *x, *y;
    Sum s;

    start();
    if (a == DIM_BAD || b == DIM_BAD)
        return DIM_BAD;
    x = dim_terms(a, &one[0], &na);
    y = dim_terms(b, &one[1], &nb);
    if (na * nb > TERMS_MAX)
        return unexpanded(a, b);
    sum_start(&s);
    for (int i = 0; i < na; i++)
        for (int k = 0; k < nb; k++) {
            int64_t c;
            uint32_t m = mono_mul(x[i].m, y[k].m);
            if (m == UINT32_MAX)
                return unexpanded(a, b);
            s.bad |= __builtin_mul_overflow(x[i].c, y[k].c, &c) || c == INT64_MIN;
            sum_add(&s, c, m);
            x = dim_terms(a, &one[0], &na);         /* interning may move the pools, not the terms; numbers live here */
            y = dim_terms(b, &one[1], &nb);
        }
    return dim_of_sum(&s);
}

DimMark dim_mark(void)
{
    start();
    return (DimMark){(uint32_t)dim_atoms.n, (uint32_t)dim_monos.n, (uint32_t)dim_polys.n, unknowns, arena_mark(&pool)};
}

/* The newest of each kind heads its chain, so going backwards leaves the chains as they were. */
void dim_release(DimMark m)
{
    while ((uint32_t)dim_polys.n > m.polys) {
        Poly p = vec_pop(&dim_polys);
        poly_bucket[hash_bytes(p.t, sizeof *p.t * (size_t)p.n) % BUCKETS] = p.next;
    }
    while ((uint32_t)dim_monos.n > m.monos) {
        Mono o = vec_pop(&dim_monos);
        mono_bucket[hash_bytes(o.f, sizeof *o.f * (size_t)o.n) % BUCKETS] = o.next;
    }
    while ((uint32_t)dim_atoms.n > m.atoms) {
        Atom a = vec_pop(&dim_atoms);
        if (a.kind != ATOM_VAR)
            atom_bucket[atom_hash((AtomKind)a.kind, a.a, a.b)] = a.next;
    }
    for (uint32_t i = 0; i < m.atoms; i++)
        if (dim_atoms.at[i].twin > m.atoms)
            dim_atoms.at[i].twin = 0;
    unknowns = m.unknowns;
    arena_release(&pool, m.pool);
    dim_epoch++;
}

void dim_done(void)
{
    vec_free(&dim_atoms);
    vec_free(&dim_monos);
    vec_free(&dim_polys);
    vec_free(&dim_rewrites);
    vec_free(&dim_ges);
    arena_done(&pool);
    unknowns = 0;
    memset(atom_bucket, 0, sizeof atom_bucket);
    memset(mono_bucket, 0, sizeof mono_bucket);
    memset(poly_bucket, 0, sizeof poly_bucket);
    dim_facts_done();
}
