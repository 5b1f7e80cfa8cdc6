/*
 * Conditions on sizes, found while a function is staged.
 *
 * An equality is solved for a variable where it can be, so that it answers
 * later questions; a bound on one variable narrows that variable.  Other
 * answers are only remembered.  All of it is sound because the condition
 * itself is checked before what was built is used.
 */
#include "ir/core/dim_ask.h"

#include "ir/core/dim_impl.h"

static struct {
    uint64_t id;
    DimConds cond;
    Map noted;                  /* difference of the two sides, with the relation -> noted before */
} ask;

bool dim_ask_open;

Dim dim_sized(Sym name, int64_t size)
{
    Dim d = dim_var(name, 0, INT64_MAX);
    uint32_t v;

    mono_is_var(leading_mono(d), &v);
    dim_atoms.at[v].number[DIM_AT_HAND] = size;
    dim_atoms.at[v].numbered[DIM_AT_HAND] = true;
    return d;
}

bool dim_at_hand(Dim d, int64_t *out)
{
    return dim_const_value(d, out) || dim_number(d, DIM_AT_HAND, out);
}

void dim_set_now(Dim var, int64_t x)
{
    uint32_t v;

    mono_is_var(leading_mono(var), &v);
    dim_atoms.at[v].number[DIM_NOW] = x;
    dim_atoms.at[v].numbered[DIM_NOW] = true;
}

bool dim_now(Dim d, int64_t *out)
{
    return dim_const_value(d, out) || dim_number(d, DIM_NOW, out);
}

bool dim_is_var(Dim d)
{
    Term one;
    int n;
    uint32_t v;
    const Term *t;

    if (d >= 0 || d == DIM_BAD)
        return false;
    t = dim_terms(d, &one, &n);
    return n == 1 && t->c == 1 && mono_is_var(t->m, &v);
}

static bool compare(DimRel rel, int64_t a, int64_t b)
{
    return rel == DIM_IS_EQ ? a == b : rel == DIM_IS_NE ? a != b : a >= b;
}

bool dim_cond_now(const DimCond *c, bool *holds)
{
    int64_t a, b;

    if (!dim_now(c->a, &a) || !dim_now(c->b, &b))
        return false;
    *holds = compare(c->rel, a, b);
    return true;
}

void dim_cond_assume(const DimCond *c)
{
    if (c->rel == DIM_IS_EQ)
        dim_assume_eq(c->a, c->b);
    else if (c->rel == DIM_IS_GE)
        dim_assume_ge(c->a, c->b);
}

void dim_ask_begin(void)
{
    dim_ask_open = true;
    ask.id++;
    dim_push();
}

uint64_t dim_asking_id(void)
{
    return dim_ask_open ? ask.id : 0;
}

void dim_ask_end(DimConds *out)
{
    for (int i = 0; i < ask.cond.n; i++)
        vec_push(out, ask.cond.at[i]);
    vec_free(&ask.cond);
    map_done(&ask.noted);
    dim_ask_open = false;
    dim_pop();
}

void dim_print_at_hand(Dim d, StrBuf *out)
{
    int64_t v;

    dim_print(dim_at_hand(d, &v) ? dim_const(v) : d, out);
}

const char *dim_text(Dim d)
{
    static _Thread_local StrBuf slot[8];
    static _Thread_local int next;
    StrBuf *b = &slot[next++ & 7];

    sb_clear(b);
    dim_print_at_hand(d, b);
    return sb_str(b);
}

/* ------------------------------------------------------------- what answers teach */

/* d >= 0 of one variable with coefficient 1 or -1: it narrows the variable. */
static void narrow(Dim d)
{
    Term one;
    int n;
    const Term *t = dim_terms(d, &one, &n);
    int64_t c = 0;
    uint32_t v;
    int at = -1;

    for (int i = 0; i < n; i++)
        if (!t[i].m)
            c = t[i].c;
        else if (at >= 0 || !mono_is_var(t[i].m, &v))
            return;
        else
            at = i;
    if (at < 0 || (t[at].c != 1 && t[at].c != -1))
        return;
    if (t[at].c == 1 && -c > dim_atoms.at[v].lo)
        dim_atoms.at[v].lo = -c;
    if (t[at].c == -1 && c < dim_atoms.at[v].hi)
        dim_atoms.at[v].hi = c;
    dim_epoch++;
}

static void note(DimRel rel, Dim a, Dim b, Dim difference)
{
    uint64_t key = (uint64_t)difference * 4 + rel + 1;
    DimCond c = {rel, a, b};

    if (map_find(&ask.noted, key, NULL))
        return;
    map_set(&ask.noted, key, 1);
    vec_push(&ask.cond, c);
    if (rel == DIM_IS_EQ)
        dim_learn_zero(difference);
    else if (rel == DIM_IS_GE)
        narrow(difference);
}

/* ------------------------------------------------------------- questions */

static DimAnswer yes(bool b)
{
    return b ? DIM_PROVED : DIM_REFUTED;
}

static Dim difference_of(Dim a, Dim b)
{
    return dim_norm(dim_sub(dim_norm(a), dim_norm(b)));
}

/* A size that is not 0 is at least 1. */
static void note_unequal(Dim a, Dim b, Dim d, Interval r, int64_t va, int64_t vb)
{
    if (r.lo == 0 && va > vb)
        note(DIM_IS_GE, a, dim_add(b, 1), dim_sub(d, 1));
    else if (r.hi == 0 && va < vb)
        note(DIM_IS_GE, b, dim_add(a, 1), dim_sub(dim_sub(0, d), 1));
    else
        note(DIM_IS_NE, a, b, d);
}

DimAnswer dim_ask_eq(Dim a, Dim b)
{
    int64_t va, vb, c;
    Interval r;
    Dim d;

    if (a == b)
        return DIM_PROVED;
    if (dim_is_const(a) && dim_is_const(b))
        return DIM_REFUTED;
    if (!dim_at_hand(a, &va) || !dim_at_hand(b, &vb))
        return dim_eq(a, b, NULL, NULL);
    if (!dim_ask_open)
        return yes(va == vb);
    dim_begin();
    d = difference_of(a, b);
    if (d == DIM_BAD)
        note(va == vb ? DIM_IS_EQ : DIM_IS_NE, a, b, a ^ b);
    else if (!dim_const_value(d, &c)) {
        r = dim_interval(d);
        if (va == vb)
            note(DIM_IS_EQ, a, b, d);
        else if (r.lo <= 0 && r.hi >= 0)
            note_unequal(a, b, d, r, va, vb);
    }
    dim_end();
    return yes(va == vb);
}

DimAnswer dim_ask_ge(Dim a, Dim b)
{
    int64_t va, vb, c;
    Interval r;
    Dim d;

    if (dim_is_const(a) && dim_is_const(b))
        return yes(a >= b);
    if (!dim_at_hand(a, &va) || !dim_at_hand(b, &vb))
        return dim_ge(a, b, NULL, NULL);
    if (!dim_ask_open)
        return yes(va >= vb);
    dim_begin();
    d = difference_of(a, b);
    if (d == DIM_BAD)
        note(DIM_IS_GE, va >= vb ? a : b, va >= vb ? b : dim_add(a, 1), a ^ b);
    else if (!dim_const_value(d, &c)) {
        r = dim_interval(d);
        if (va >= vb && r.lo < 0 && dim_ge(a, b, NULL, NULL) != DIM_PROVED)
            note(DIM_IS_GE, a, b, d);
        else if (va < vb && r.hi >= 0)
            note(DIM_IS_GE, b, dim_add(a, 1), dim_sub(dim_sub(0, d), 1));
    }
    dim_end();
    return yes(va >= vb);
}

Dim dim_ask_min(Dim a, Dim b)
{
    int64_t x, y;
    bool second = dim_at_hand(a, &x) && dim_at_hand(b, &y) && y < x;

    if (dim_ask_ge(second ? a : b, second ? b : a) != DIM_PROVED)
        return dim_min(a, b);
    return second ? b : a;
}

bool dim_settle(Dim d, int64_t *out)
{
    return dim_const_value(d, out) || (dim_at_hand(d, out) && dim_ask_eq(d, dim_const(*out)) == DIM_PROVED);
}

Dim dim_known(Dim d)
{
    if (dim_is_const(d) || d == DIM_BAD)
        return d;
    dim_begin();
    d = dim_norm(d);
    dim_end();
    return d;
}

/* ------------------------------------------------------------- joining */

bool dim_may_equal(Dim a, Dim b)
{
    DimAnswer r;

    if (a == b)
        return true;
    if (dim_is_const(a) && dim_is_const(b))
        return false;
    r = dim_ask_eq(a, b);
    return r == DIM_PROVED || r == DIM_UNKNOWN;
}

/* Two sizes of which the call at hand says that one is 1 and the other not. */
static bool join_one(Dim a, Dim b, Dim *out)
{
    int64_t x, y;

    if (!dim_at_hand(a, &x) || !dim_at_hand(b, &y) || x == y)
        return false;
    if (x == 1 && dim_same(a, 1))
        *out = b;
    else if (dim_same(b, 1))
        *out = a;
    else
        return false;
    return true;
}

bool dim_join(Dim a, Dim b, Dim *out)
{
    a = dim_known(a);
    b = dim_known(b);
    if (a == b || b == 1)
        *out = a;
    else if (a == 1)
        *out = b;
    else if (dim_is_const(a) && dim_is_const(b))
        return false;
    else if (!join_one(a, b, out)) {
        if (!dim_may_equal(a, b))
            return false;
        *out = dim_is_const(a) ? b : a;         /* prefer the named one */
    }
    return true;
}

bool dim_stretches(Dim have, Dim want)
{
    int64_t x, y;

    have = dim_known(have);
    if (have == 1 || have == want)
        return true;
    if (!dim_is_const(have) && dim_at_hand(have, &x) && x == 1 && dim_at_hand(want, &y) && y != 1)
        return dim_same(have, 1);
    return dim_may_equal(have, want);
}
