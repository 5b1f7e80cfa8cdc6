/*
 * Arithmetic and comparison of symbolic ints.
 *
 * Where Python's answer depends on the sign of an operand (division, powers)
 * the sign is asked first, which makes it a condition of the graph.  Anything
 * that sizes cannot express falls back to numbers.
 */
#include "frontend/eval/symint.h"

#include "frontend/eval/eval.h"
#include "frontend/syntax/ast.h"

Value size_value(Dim d)
{
    int64_t v;

    d = dim_known(d);
    return dim_const_value(d, &v) ? vint(v) : (Value){.tag = V_SYMINT, .aux = (uint32_t)dim_asking_id(), .i = d};
}

Dim symint_size(Value v)
{
    int64_t i;

    if (v.aux == (uint32_t)dim_asking_id())
        return dim_known(v.i);
    return dim_at_hand(v.i, &i) ? dim_const(i) : v.i;
}

bool symint_dim(Value v, Dim *out)
{
    if (is_symint(v))
        *out = symint_size(v);
    else if (is_plain_int(v))
        *out = dim_const(v.i);
    else
        return false;
    return *out != DIM_BAD;
}

bool value_as_size(Interp *I, Value v, Dim *out)
{
    int64_t i;

    if (symint_dim(v, out))
        return true;
    if (!value_as_int(I, v, &i))
        return false;
    *out = dim_const(i);
    return true;
}

static Value unknown(Interp *I, Value v)
{
    return raise(I, EXC_TypeError, "the size %s is known only when the staged function runs, and here it is needed before",
                 dim_text(symint_size(v)));
}

bool symint_number(Interp *I, Value v, int64_t *out)
{
    if (is_plain_int(v)) {
        *out = v.i;
        return true;
    }
    if (dim_settle(symint_size(v), out))
        return true;
    unknown(I, v);
    return false;
}

Value symint_settled(Interp *I, Value v)
{
    int64_t i;
    double f;

    if (v.tag == V_SYMFLOAT)
        return symfloat_number(I, v, &f) ? vfloat(f) : VERR;
    if (!is_symint(v))
        return value_ref(v);
    return symint_number(I, v, &i) ? vint(i) : VERR;
}

/* ------------------------------------------------------------- operators */

/* Both as numbers, and then as usual. */
static Value by_numbers(Interp *I, Value (*f)(Interp *I, int op, Value a, Value b), int op, Value a, Value b)
{
    Value x = symint_settled(I, a), y = is_err(x) ? VERR : symint_settled(I, b), r = is_err(y) ? VERR : f(I, op, x, y);

    value_unref(x);
    value_unref(y);
    return r;
}

/* Is d known to be at least lo? */
static bool at_least(Dim d, int64_t lo) { return dim_ask_ge(d, lo) == DIM_PROVED; }

/* a ** n for a small n that is a number. */
static Dim power(Dim a, Dim n)
{
    enum { POWER_MAX = 8 };
    Dim r = 1;

    if (!dim_is_const(n) || n > POWER_MAX)
        return DIM_BAD;
    for (Dim i = 0; i < n; i++)
        r = dim_mul(r, a);
    return r;
}

/* DIM_BAD: not expressible. */
static Dim combine(int op, Dim a, Dim b)
{
    switch (op) {
    case AOP_ADD: return dim_add(a, b);
    case AOP_SUB: return dim_sub(a, b);
    case AOP_MUL: return dim_mul(a, b);
    case AOP_FLOORDIV: return at_least(b, 1) ? dim_floordiv(a, b) : DIM_BAD;
    case AOP_MOD: return at_least(b, 1) ? dim_mod(a, b) : DIM_BAD;
    case AOP_POW: return power(a, b);
    default: return DIM_BAD;
    }
}

Value symint_binary(Interp *I, int op, Value a, Value b)
{
    Dim x, y, r;
    Value f = symfloat_binary(op, a, b);
    int64_t v;

    if (f.tag != V_NOTIMPL)
        return f;
    if (!symint_dim(a, &x) || !symint_dim(b, &y))
        return by_numbers(I, value_binary, op, a, b);
    r = combine(op, x, y);
    if (r == DIM_BAD || (dim_at_hand(x, &v) && dim_at_hand(y, &v) && !dim_at_hand(r, &v)))
        return by_numbers(I, value_binary, op, a, b);
    return size_value(r);
}

/* -1: not decidable */
static int decide(DimAnswer r) { return r == DIM_PROVED ? 1 : r == DIM_REFUTED ? 0 : -1; }

Value symint_compare(Interp *I, int op, Value a, Value b)
{
    Dim x, y;
    int r;

    if (!symint_dim(a, &x) || !symint_dim(b, &y))
        return by_numbers(I, value_compare, op, a, b);
    switch (op) {
    case AOP_EQ: case AOP_NE: r = decide(dim_ask_eq(x, y)); break;
    case AOP_LT: r = decide(dim_ask_ge(y, dim_add(x, 1))); break;
    case AOP_LE: r = decide(dim_ask_ge(y, x)); break;
    case AOP_GT: r = decide(dim_ask_ge(x, dim_add(y, 1))); break;
    default: r = decide(dim_ask_ge(x, y)); break;
    }
    if (r < 0)
        return unknown(I, is_symint(a) ? a : b);
    return vbool(op == AOP_NE ? !r : r);
}

Value symint_unary(Interp *I, int op, Value a)
{
    Dim d;

    if (a.tag == V_SYMFLOAT) {
        Value f = symfloat_unary(op, a);
        if (f.tag != V_NOTIMPL)
            return f;
        f = symint_settled(I, a);
        return is_err(f) ? VERR : value_unary(I, op, f);
    }
    if (op == AOP_POS)
        return a;
    d = symint_size(a);
    d = op == AOP_NEG ? dim_sub(0, d) : dim_sub(dim_const(-1), d);
    if (d != DIM_BAD)
        return size_value(d);
    a = symint_settled(I, a);
    return is_err(a) ? VERR : value_unary(I, op, a);
}

int symint_truth(Interp *I, Value v)
{
    double f;
    int r;

    if (v.tag == V_SYMFLOAT)
        return symfloat_number(I, v, &f) ? f != 0 : -1;
    r = decide(dim_ask_eq(symint_size(v), 0));
    if (r < 0)
        unknown(I, v);
    return r < 0 ? -1 : !r;
}

/* ------------------------------------------------------------- inside of containers */

enum { INSIDE_MAX = 64 };       /* containers nest deeper only by cycles or by intent; sizes are not kept there */

typedef bool (*Visit)(Interp *I, Value *v);

static bool each(Interp *I, Value *v, Visit visit, int depth)
{
    DictObj *d;

    if (is_symbolic(*v))
        return visit(I, v);
    if (depth == INSIDE_MAX)
        return true;
    switch (v->tag) {
    case V_LIST:
        for (int64_t i = 0; i < as_list(*v)->n; i++)
            if (!each(I, &as_list(*v)->at[i], visit, depth + 1))
                return false;
        return true;
    case V_TUPLE:
        for (int64_t i = 0; i < as_tuple(*v)->n; i++)
            if (!each(I, &as_tuple(*v)->at[i], visit, depth + 1))
                return false;
        return true;
    case V_DICT:
        d = as_dict(*v);
        for (int64_t i = 0; i < d->used; i++)
            if (d->entry[i].live && !each(I, &d->entry[i].val, visit, depth + 1))
                return false;
        return true;
    case V_SLICE:
        return each(I, &((SliceObj *)v->o)->lo, visit, depth + 1) && each(I, &((SliceObj *)v->o)->hi, visit, depth + 1) &&
               each(I, &((SliceObj *)v->o)->step, visit, depth + 1);
    default:
        return true;
    }
}

static bool settle_here(Interp *I, Value *v)
{
    *v = symint_settled(I, *v);
    return !is_err(*v);
}

static bool settle_float_here(Interp *I, Value *v) { return is_symint(*v) || settle_here(I, v); }

bool symint_settle_inside(Interp *I, Value *v) { return each(I, v, settle_here, 0); }

bool symfloat_settle_inside(Interp *I, Value *v) { return !symfloat_made || each(I, v, settle_float_here, 0); }
