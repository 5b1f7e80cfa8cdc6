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

static Value op_neg(Interp *I, Value *a) { return value_unary(I, AOP_NEG, a[0]); }

#define SELF1 "(self) -> Any"
#define SELF2 "(self, other, /) -> Any"

enum {
    NUM = 1, TEXT = 2, SEQ = 4, DICT = 8, SET = 16, ITER = 32, CALL = 64,
    SIZED = TEXT | SEQ | DICT | SET, ALL = 127
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
    {NUM | SET, {"operator", "__and__", op_and, SELF2, "self & other"}},
    {NUM | SET | DICT, {"operator", "__or__", op_or, SELF2, "self | other"}},
    {NUM | SET, {"operator", "__xor__", op_xor, SELF2, "self ^ other"}},
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
    case V_INT: case V_BOOL: case V_FLOAT: case V_COMPLEX: return NUM;
    case V_STR: case V_BYTES: case V_RANGE: case V_TUPLE: return TEXT;     /* read only */
    case V_LIST: return SEQ;
    case V_DICT: return DICT;
    case V_SET: return SET;
    case V_ITER: case V_GENERATOR: return ITER;
    case V_FUNC: case V_NATIVE: case V_BOUND: return CALL;
    default: return 0;
    }
}

Value operator_method(const ClassObj *c, Sym name)
{
    int kind = kind_of(c->layout);

    if (!kind || name->text[0] != '_' || name->text[1] != '_')
        return VERR;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((rows[i].kinds & kind) && !strcmp(rows[i].def.name, name->text))
            return native_new(&rows[i].def, VERR);
    return VERR;
}
