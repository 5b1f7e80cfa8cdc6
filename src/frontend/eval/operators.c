/*
 * Operators of builtin kinds as methods: list.__len__, super().__setitem__(k, v).
 *
 * Builtin kinds need no methods for their own operators, so these are made
 * only when a program names one, and only for kinds that have the operator:
 * hasattr(5, "__iter__") is False.
 */
#include "frontend/eval/eval.h"

#include <string.h>

static Value op_len(Interp *I, Value *a)
{
    int64_t n = value_len(I, a[0]);
    return n < 0 ? VERR : vint(n);
}

static Value op_getitem(Interp *I, Value *a) { return value_getitem(I, a[0], a[1]); }
static Value op_setitem(Interp *I, Value *a) { return value_setitem(I, &a[0], a[1], a[2]) ? VNONE : VERR; }
static Value op_delitem(Interp *I, Value *a) { return value_delitem(I, a[0], a[1]) ? VNONE : VERR; }
static Value op_iter(Interp *I, Value *a) { return value_iter(I, a[0]); }
static Value op_str(Interp *I, Value *a) { return value_str(I, a[0]); }
static Value op_repr(Interp *I, Value *a) { return value_repr(I, a[0]); }
static Value op_call(Interp *I, Value *a) { return value_call(I, a[0], as_tuple(a[1])->at, (int)as_tuple(a[1])->n); }

static Value op_contains(Interp *I, Value *a)
{
    int r = value_contains(I, a[0], a[1]);
    return r < 0 ? VERR : vbool(r);
}

static Value op_next(Interp *I, Value *a)
{
    Value r = value_next(I, a[0]);
    return is_err(r) && !exc_pending(I) ? raise_stop(I, a[0]) : r;
}

static Value op_bool(Interp *I, Value *a)
{
    int t = value_truth(I, a[0]);
    return t < 0 ? VERR : vbool(t);
}

#define BINARY(name, op) static Value op_##name(Interp *I, Value *a) { return value_binary(I, op, a[0], a[1]); }
BINARY(add, AOP_ADD) BINARY(sub, AOP_SUB) BINARY(mul, AOP_MUL) BINARY(truediv, AOP_DIV) BINARY(floordiv, AOP_FLOORDIV)
BINARY(mod, AOP_MOD) BINARY(pow, AOP_POW) BINARY(and, AOP_BITAND) BINARY(or, AOP_BITOR) BINARY(xor, AOP_BITXOR)
BINARY(eq, AOP_EQ) BINARY(ne, AOP_NE) BINARY(lt, AOP_LT) BINARY(le, AOP_LE) BINARY(gt, AOP_GT) BINARY(ge, AOP_GE)

BINARY(lshift, AOP_LSHIFT) BINARY(rshift, AOP_RSHIFT)

#define TURNED(name, op) static Value op_##name(Interp *I, Value *a) { return value_binary(I, op, a[1], a[0]); }
TURNED(radd, AOP_ADD) TURNED(rsub, AOP_SUB) TURNED(rmul, AOP_MUL) TURNED(rtruediv, AOP_DIV) TURNED(rfloordiv, AOP_FLOORDIV)
TURNED(rmod, AOP_MOD) TURNED(rpow, AOP_POW) TURNED(rand, AOP_BITAND) TURNED(ror, AOP_BITOR) TURNED(rxor, AOP_BITXOR)

/* What a function of the prelude says of the object, and of an argument where one is given. */
#define ASKED(name, function)                                                                           \
    static Value op_##name(Interp *I, Value *a)                                                         \
    {                                                                                                   \
        return value_call(I, prelude_get(I, function), a, 1 + !is_err(a[1]));                           \
    }
#define ASKED1(name, function)                                                                          \
    static Value op_##name(Interp *I, Value *a) { return value_call(I, prelude_get(I, function), a, 1); }
ASKED1(abs, "abs") ASKED1(int, "int") ASKED1(float, "float") ASKED1(complex, "complex") ASKED1(hash, "hash")
ASKED(round, "round") ASKED(divmod, "divmod") ASKED(format, "format")

static Value op_reversed(Interp *I, Value *a)
{
    Value list = unwrap_base(a[0]);
    return value_call(I, prelude_get(I, "reversed"), &list, 1);
}

static Value op_pos(Interp *I, Value *a) { return value_unary(I, AOP_POS, a[0]); }
static Value op_invert(Interp *I, Value *a) { return value_unary(I, AOP_INVERT, a[0]); }
static Value op_index(Interp *I, Value *a) { return a[0].tag == V_BOOL ? vint(a[0].i) : value_ref(a[0]); }
static Value op_neg(Interp *I, Value *a) { return value_unary(I, AOP_NEG, a[0]); }

#define SELF1 "(self) -> Any"
#define SELF2 "(self, other, /) -> Any"

enum {
    TEXT = 2, SEQ = 4, DICT = 8, SET = 16, ITER = 32, CALL = 64, WHOLE = 128, REAL = 256, COMPLEX = 512,
    NUM = WHOLE | REAL | COMPLEX, SIZED = TEXT | SEQ | DICT | SET, ALL = 1023
};

static const struct { int kinds; NativeDef def; } rows[] = {
    {SIZED, {"operator", "__len__", op_len, SELF1, "len(self)"}},
    {TEXT | SEQ | DICT, {"operator", "__getitem__", op_getitem, SELF2, "self[key]"}},
    {SEQ | DICT, {"operator", "__setitem__", op_setitem, "(self, key, value, /) -> None", "self[key] = value"}},
    {SEQ | DICT, {"operator", "__delitem__", op_delitem, "(self, key, /) -> None", "del self[key]"}},
    {SIZED, {"operator", "__contains__", op_contains, SELF2, "x in self"}},
    {SIZED | ITER, {"operator", "__iter__", op_iter, SELF1, "iter(self)"}},
    {ITER, {"operator", "__next__", op_next, SELF1, "next(self)"}},
    {CALL, {"operator", "__call__", op_call, "(self, *args) -> Any", "self(*args)"}},
    {NUM, {"operator", "__bool__", op_bool, SELF1, "bool(self)"}},
    {NUM, {"operator", "__neg__", op_neg, SELF1, "-self"}},
    {ALL, {"operator", "__str__", op_str, SELF1, "str(self)"}},
    {ALL, {"operator", "__repr__", op_repr, SELF1, "repr(self)"}},
    {NUM | TEXT | SEQ, {"operator", "__add__", op_add, SELF2, "self + other"}},
    {NUM | TEXT | SEQ, {"operator", "__mul__", op_mul, SELF2, "self * other"}},
    {NUM | SET, {"operator", "__sub__", op_sub, SELF2, "self - other"}},
    {NUM, {"operator", "__truediv__", op_truediv, SELF2, "self / other"}},
    {NUM, {"operator", "__floordiv__", op_floordiv, SELF2, "self // other"}},
    {NUM | TEXT, {"operator", "__mod__", op_mod, SELF2, "self % other"}},
    {NUM, {"operator", "__pow__", op_pow, SELF2, "self ** other"}},
    {WHOLE | SET, {"operator", "__and__", op_and, SELF2, "self & other"}},
    {WHOLE | SET | DICT, {"operator", "__or__", op_or, SELF2, "self | other"}},
    {WHOLE | SET, {"operator", "__xor__", op_xor, SELF2, "self ^ other"}},
    {NUM, {"operator", "__abs__", op_abs, SELF1, "abs(self)"}},
    {NUM, {"operator", "__pos__", op_pos, SELF1, "+self"}},
    {WHOLE, {"operator", "__invert__", op_invert, SELF1, "~self"}},
    {WHOLE, {"operator", "__index__", op_index, SELF1, "self as an index"}},
    {WHOLE, {"operator", "__lshift__", op_lshift, SELF2, "self << other"}},
    {WHOLE, {"operator", "__rshift__", op_rshift, SELF2, "self >> other"}},
    {WHOLE | REAL, {"operator", "__int__", op_int, SELF1, "int(self)"}},
    {WHOLE | REAL, {"operator", "__trunc__", op_int, SELF1, "int(self)"}},
    {WHOLE | REAL, {"operator", "__float__", op_float, SELF1, "float(self)"}},
    {COMPLEX, {"operator", "__complex__", op_complex, SELF1, "complex(self)"}},
    {WHOLE | REAL, {"operator", "__round__", op_round, "(self, ndigits=..., /) -> Any", "round(self, ndigits)"}},
    {WHOLE | REAL, {"operator", "__divmod__", op_divmod, SELF2, "divmod(self, other)"}},
    {SEQ, {"operator", "__reversed__", op_reversed, SELF1, "reversed(self)"}},
    {ALL, {"operator", "__format__", op_format, SELF2, "format(self, other)"}},
    {ALL & ~SEQ & ~DICT & ~SET, {"operator", "__hash__", op_hash, SELF1, "hash(self)"}},
    {NUM, {"operator", "__radd__", op_radd, SELF2, "other + self"}},
    {NUM | SET, {"operator", "__rsub__", op_rsub, SELF2, "other - self"}},
    {NUM | TEXT | SEQ, {"operator", "__rmul__", op_rmul, SELF2, "other * self"}},
    {NUM, {"operator", "__rtruediv__", op_rtruediv, SELF2, "other / self"}},
    {NUM, {"operator", "__rfloordiv__", op_rfloordiv, SELF2, "other // self"}},
    {NUM, {"operator", "__rmod__", op_rmod, SELF2, "other % self"}},
    {NUM, {"operator", "__rpow__", op_rpow, SELF2, "other ** self"}},
    {WHOLE | SET, {"operator", "__rand__", op_rand, SELF2, "other & self"}},
    {WHOLE | SET | DICT, {"operator", "__ror__", op_ror, SELF2, "other | self"}},
    {WHOLE | SET, {"operator", "__rxor__", op_rxor, SELF2, "other ^ self"}},
    {ALL, {"operator", "__eq__", op_eq, SELF2, "self == other"}},
    {ALL, {"operator", "__ne__", op_ne, SELF2, "self != other"}},
    {NUM | TEXT | SEQ | SET, {"operator", "__lt__", op_lt, SELF2, "self < other"}},
    {NUM | TEXT | SEQ | SET, {"operator", "__le__", op_le, SELF2, "self <= other"}},
    {NUM | TEXT | SEQ | SET, {"operator", "__gt__", op_gt, SELF2, "self > other"}},
    {NUM | TEXT | SEQ | SET, {"operator", "__ge__", op_ge, SELF2, "self >= other"}},
};

static int kind_of(uint32_t layout)
{
    switch (layout) {
    case V_INT: case V_BOOL: return WHOLE;
    case V_FLOAT: return REAL;
    case V_COMPLEX: return COMPLEX;
    case V_STR: case V_BYTES: case V_RANGE: case V_TUPLE: return TEXT;     /* read only */
    case V_LIST: return SEQ;
    case V_DICT: return DICT;
    case V_SET: return SET;
    case V_ITER: case V_GENERATOR: return ITER;
    case V_FUNC: case V_NATIVE: case V_BOUND: return CALL;
    default: return 0;
    }
}

static Value method_of_kind(int kind, Sym name)
{
    if (!kind || name->text[0] != '_' || name->text[1] != '_')
        return VERR;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((rows[i].kinds & kind) && !strcmp(rows[i].def.name, name->text))
            return native_new(&rows[i].def, VERR);
    return VERR;
}

Value operator_method(const ClassObj *c, Sym name) { return method_of_kind(kind_of(c->layout), name); }
Value operator_of_iterator(Sym name) { return method_of_kind(ITER, name); }
