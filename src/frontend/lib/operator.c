/* The module operator: operators and getters as functions. */
#include "frontend/lib/lib.h"

#include "frontend/eval/eval.h"
#include "frontend/syntax/ast.h"

#include <string.h>

static Value f_add(Interp *I, Value *a) { return value_binary(I, AOP_ADD, a[0], a[1]); }
static Value f_sub(Interp *I, Value *a) { return value_binary(I, AOP_SUB, a[0], a[1]); }
static Value f_mul(Interp *I, Value *a) { return value_binary(I, AOP_MUL, a[0], a[1]); }
static Value f_truediv(Interp *I, Value *a) { return value_binary(I, AOP_DIV, a[0], a[1]); }
static Value f_floordiv(Interp *I, Value *a) { return value_binary(I, AOP_FLOORDIV, a[0], a[1]); }
static Value f_mod(Interp *I, Value *a) { return value_binary(I, AOP_MOD, a[0], a[1]); }
static Value f_pow(Interp *I, Value *a) { return value_binary(I, AOP_POW, a[0], a[1]); }
static Value f_matmul(Interp *I, Value *a) { return value_binary(I, AOP_MATMUL, a[0], a[1]); }
static Value f_and(Interp *I, Value *a) { return value_binary(I, AOP_BITAND, a[0], a[1]); }
static Value f_or(Interp *I, Value *a) { return value_binary(I, AOP_BITOR, a[0], a[1]); }
static Value f_xor(Interp *I, Value *a) { return value_binary(I, AOP_BITXOR, a[0], a[1]); }
static Value f_lshift(Interp *I, Value *a) { return value_binary(I, AOP_LSHIFT, a[0], a[1]); }
static Value f_rshift(Interp *I, Value *a) { return value_binary(I, AOP_RSHIFT, a[0], a[1]); }
static Value f_iadd(Interp *I, Value *a) { return inplace_op(I, AOP_ADD, a[0], a[1]); }
static Value f_isub(Interp *I, Value *a) { return inplace_op(I, AOP_SUB, a[0], a[1]); }
static Value f_imul(Interp *I, Value *a) { return inplace_op(I, AOP_MUL, a[0], a[1]); }
static Value f_itruediv(Interp *I, Value *a) { return inplace_op(I, AOP_DIV, a[0], a[1]); }
static Value f_ifloordiv(Interp *I, Value *a) { return inplace_op(I, AOP_FLOORDIV, a[0], a[1]); }
static Value f_imod(Interp *I, Value *a) { return inplace_op(I, AOP_MOD, a[0], a[1]); }
static Value f_ipow(Interp *I, Value *a) { return inplace_op(I, AOP_POW, a[0], a[1]); }
static Value f_imatmul(Interp *I, Value *a) { return inplace_op(I, AOP_MATMUL, a[0], a[1]); }
static Value f_iand(Interp *I, Value *a) { return inplace_op(I, AOP_BITAND, a[0], a[1]); }
static Value f_ior(Interp *I, Value *a) { return inplace_op(I, AOP_BITOR, a[0], a[1]); }
static Value f_ixor(Interp *I, Value *a) { return inplace_op(I, AOP_BITXOR, a[0], a[1]); }
static Value f_ilshift(Interp *I, Value *a) { return inplace_op(I, AOP_LSHIFT, a[0], a[1]); }
static Value f_irshift(Interp *I, Value *a) { return inplace_op(I, AOP_RSHIFT, a[0], a[1]); }
static Value f_neg(Interp *I, Value *a) { return value_unary(I, AOP_NEG, a[0]); }
static Value f_pos(Interp *I, Value *a) { return value_unary(I, AOP_POS, a[0]); }
static Value f_invert(Interp *I, Value *a) { return value_unary(I, AOP_INVERT, a[0]); }
static Value f_eq(Interp *I, Value *a) { return value_compare(I, AOP_EQ, a[0], a[1]); }
static Value f_ne(Interp *I, Value *a) { return value_compare(I, AOP_NE, a[0], a[1]); }
static Value f_lt(Interp *I, Value *a) { return value_compare(I, AOP_LT, a[0], a[1]); }
static Value f_le(Interp *I, Value *a) { return value_compare(I, AOP_LE, a[0], a[1]); }
static Value f_gt(Interp *I, Value *a) { return value_compare(I, AOP_GT, a[0], a[1]); }
static Value f_ge(Interp *I, Value *a) { return value_compare(I, AOP_GE, a[0], a[1]); }
static Value f_is(Interp *I, Value *a) { return vbool(value_is(a[0], a[1])); }
static Value f_is_not(Interp *I, Value *a) { return vbool(!value_is(a[0], a[1])); }
static Value f_getitem(Interp *I, Value *a) { return value_getitem(I, a[0], a[1]); }

static Value f_not(Interp *I, Value *a)
{
    int t = value_truth(I, a[0]);
    return t < 0 ? VERR : vbool(!t);
}

static Value f_truth(Interp *I, Value *a)
{
    int t = value_truth(I, a[0]);
    return t < 0 ? VERR : vbool(t);
}

static Value f_contains(Interp *I, Value *a)
{
    int t = value_contains(I, a[0], a[1]);
    return t < 0 ? VERR : vbool(t);
}

static Value f_setitem(Interp *I, Value *a)
{
    Value to = a[0];
    return value_setitem(I, &to, a[1], a[2]) ? VNONE : VERR;
}

static Value f_delitem(Interp *I, Value *a)
{
    return value_delitem(I, a[0], a[1]) ? VNONE : VERR;
}

static Value f_index(Interp *I, Value *a)
{
    int64_t i;

    if (a[0].tag == V_FLOAT)
        return raise(I, EXC_TypeError, "'float' object cannot be interpreted as an integer");
    return value_as_int(I, a[0], &i) ? vint(i) : VERR;
}

/* ------------------------------------------------------------- getters */

typedef struct Getter {
    NativeInst head;
    Value what;                 /* a tuple of keys or names; for methodcaller (name, args, kw) */
} Getter;

static void getter_free(void *p) { value_unref(((Getter *)p)->what); }
static void getter_visit(void *p, void (*fn)(Value *, void *), void *st) { fn(&((Getter *)p)->what, st); }

/* a.b.c from v, for the dotted text. */
static Value dotted_attr(Interp *I, Value v, const StrObj *path)
{
    const char *p = path->s;

    value_ref(v);
    while (!is_err(v)) {
        size_t n = strcspn(p, ".");
        Value next = value_getattr(I, v, sym_n(p, n));
        value_unref(v);
        v = next;
        if (!p[n])
            break;
        p += n + 1;
    }
    return v;
}

static Value item_of(Interp *I, Value v, Value key) { return value_getitem(I, v, key); }
static Value attr_of(Interp *I, Value v, Value name) { return dotted_attr(I, v, as_str(name)); }

/* One value, or a tuple of several. */
static Value get_each(Interp *I, Getter *g, Value v, Value (*get)(Interp *, Value, Value))
{
    TupleObj *what = as_tuple(g->what);
    Value out;

    if (what->n == 1)
        return get(I, v, what->at[0]);
    out = tuple_new(what->n);
    for (int64_t i = 0; i < what->n; i++)
        as_tuple(out)->at[i] = VNONE;
    for (int64_t i = 0; i < what->n; i++) {
        Value x = get(I, v, what->at[i]);
        if (is_err(x)) {
            value_unref(out);
            return VERR;
        }
        as_tuple(out)->at[i] = x;
    }
    return out;
}

static bool one_argument(Interp *I, const char *name, int nargs, int nkw)
{
    if (nargs == 1 && !nkw)
        return true;
    raise(I, EXC_TypeError, "%s expected 1 argument, got %d", name, nargs + nkw);
    return false;
}

static Value itemgetter_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    return one_argument(I, "itemgetter", nargs, nkw) ? get_each(I, p, args[0], item_of) : VERR;
}

static Value attrgetter_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    return one_argument(I, "attrgetter", nargs, nkw) ? get_each(I, p, args[0], attr_of) : VERR;
}

static Value methodcaller_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    const Value *what = as_tuple(((Getter *)p)->what)->at;

    if (!one_argument(I, "methodcaller", nargs, nkw))
        return VERR;
    return call_method_kw(I, args[0], as_str(what[0])->s, as_tuple(what[1])->at, as_tuple(what[1])->n, what[2]);
}

static const NativeType itemgetter_type = {"itemgetter", getter_free, getter_visit, .call = itemgetter_call};
static const NativeType attrgetter_type = {"attrgetter", getter_free, getter_visit, .call = attrgetter_call};
static const NativeType methodcaller_type = {"methodcaller", getter_free, getter_visit, .call = methodcaller_call};

static Value getter_new(const NativeType *t, Value what)
{
    Getter *g = nativeobj_new(t, sizeof *g);

    g->what = what;
    return vobj(g);
}

static Value f_itemgetter(Interp *I, Value *a)
{
    if (!as_tuple(a[0])->n)
        return raise(I, EXC_TypeError, "itemgetter expected 1 argument, got 0");
    return getter_new(&itemgetter_type, value_ref(a[0]));
}

static Value f_attrgetter(Interp *I, Value *a)
{
    if (!as_tuple(a[0])->n)
        return raise(I, EXC_TypeError, "attrgetter expected 1 argument, got 0");
    for (int64_t i = 0; i < as_tuple(a[0])->n; i++)
        if (as_tuple(a[0])->at[i].tag != V_STR)
            return raise(I, EXC_TypeError, "attribute name must be a string");
    return getter_new(&attrgetter_type, value_ref(a[0]));
}

static Value f_methodcaller(Interp *I, Value *a)
{
    StrObj *name = need_str(I, a[0], "method name");

    return name ? getter_new(&methodcaller_type, tuple_of(3, value_ref(vobj(name)), value_ref(a[1]), value_ref(a[2]))) : VERR;
}

#define AB "(a, b, /)"
const NativeDef natives_operator[] = {
    {"operator", "add", f_add, AB, "a + b"},
    {"operator", "sub", f_sub, AB, "a - b"},
    {"operator", "mul", f_mul, AB, "a * b"},
    {"operator", "truediv", f_truediv, AB, "a / b"},
    {"operator", "floordiv", f_floordiv, AB, "a // b"},
    {"operator", "mod", f_mod, AB, "a % b"},
    {"operator", "pow", f_pow, AB, "a ** b"},
    {"operator", "matmul", f_matmul, AB, "a @ b"},
    {"operator", "and_", f_and, AB, "a & b"},
    {"operator", "or_", f_or, AB, "a | b"},
    {"operator", "xor", f_xor, AB, "a ^ b"},
    {"operator", "lshift", f_lshift, AB, "a << b"},
    {"operator", "rshift", f_rshift, AB, "a >> b"},
    {"operator", "iadd", f_iadd, AB, "the value of a after a += b"},
    {"operator", "isub", f_isub, AB, "the value of a after a -= b"},
    {"operator", "imul", f_imul, AB, "the value of a after a *= b"},
    {"operator", "itruediv", f_itruediv, AB, "the value of a after a /= b"},
    {"operator", "ifloordiv", f_ifloordiv, AB, "the value of a after a //= b"},
    {"operator", "imod", f_imod, AB, "the value of a after a %= b"},
    {"operator", "ipow", f_ipow, AB, "the value of a after a **= b"},
    {"operator", "imatmul", f_imatmul, AB, "the value of a after a @= b"},
    {"operator", "iand", f_iand, AB, "the value of a after a &= b"},
    {"operator", "ior", f_ior, AB, "the value of a after a |= b"},
    {"operator", "ixor", f_ixor, AB, "the value of a after a ^= b"},
    {"operator", "ilshift", f_ilshift, AB, "the value of a after a <<= b"},
    {"operator", "irshift", f_irshift, AB, "the value of a after a >>= b"},
    {"operator", "concat", f_add, AB, "a + b of two sequences"},
    {"operator", "iconcat", f_iadd, AB, "the value of a after a += b"},
    {"operator", "index", f_index, "(a, /) -> int", "a as an int: TypeError unless it is one, or has __index__"},
    {"operator", "inv", f_invert, "(a, /)", "~a"},
    {"operator", "delitem", f_delitem, "(a, b, /) -> None", "del a[b]"},
    {"operator", "neg", f_neg, "(a, /)", "-a"},
    {"operator", "pos", f_pos, "(a, /)", "+a"},
    {"operator", "invert", f_invert, "(a, /)", "~a"},
    {"operator", "not_", f_not, "(a, /) -> bool", "not a"},
    {"operator", "truth", f_truth, "(a, /) -> bool", "Is a true?"},
    {"operator", "eq", f_eq, AB, "a == b"},
    {"operator", "ne", f_ne, AB, "a != b"},
    {"operator", "lt", f_lt, AB, "a < b"},
    {"operator", "le", f_le, AB, "a <= b"},
    {"operator", "gt", f_gt, AB, "a > b"},
    {"operator", "ge", f_ge, AB, "a >= b"},
    {"operator", "is_", f_is, "(a, b, /) -> bool", "a is b"},
    {"operator", "is_not", f_is_not, "(a, b, /) -> bool", "a is not b"},
    {"operator", "contains", f_contains, "(a, b, /) -> bool", "b in a"},
    {"operator", "getitem", f_getitem, AB, "a[b]"},
    {"operator", "setitem", f_setitem, "(a, b, c, /) -> None", "a[b] = c"},
    {"operator", "itemgetter", f_itemgetter, "(*items) -> Callable", "A function that gives x[item], or a tuple of several."},
    {"operator", "attrgetter", f_attrgetter, "(*attrs: str) -> Callable", "A function that gives x.attr, or a tuple of several."},
    {"operator", "methodcaller", f_methodcaller, "(name: str, /, *args, **kwargs) -> Callable", "A function that gives x.name(*args, **kwargs)."},
    {0},
};
