/*
 * Arithmetic and comparisons, the hot half.
 *
 * Operators on ints and floats are done here without leaving the node; for
 * operands that are locals or constants no function is called at all.  What is
 * neither goes to ops.c.  The tables at the end pick a function by operator
 * and shape of the operands.
 */
#include "frontend/eval/lower.h"

#include <math.h>

static __attribute__((noinline)) Value slow_binary(const Step *n, Frame *f, Value a, Value b)
{
    Value r;

    f->at = n;
    r = binary_slow(f->I, n->op, a, b);
    value_unref(a);
    value_unref(b);
    return r;
}

static __attribute__((noinline)) Value slow_compare(const Step *n, Frame *f, Value a, Value b)
{
    Value r;

    f->at = n;
    r = compare_op(f->I, n->op, a, b);
    value_unref(a);
    value_unref(b);
    return r;
}

/* Operand readers: a new reference, V_ERR on error. */
static inline Value get_any(const Step *n, Frame *f) { return n->eval(n, f); }
static inline Value get_local(const Step *n, Frame *f)
{
    Value v = f->slot[n->slot];
    return __builtin_expect(is_err(v), 0) ? n->eval(n, f) : value_ref(v);
}
static inline Value get_const(const Step *n, Frame *f) { (void)f; return value_ref(n->k); }

#define INT_OP(name, overflow_fn, float_expr)                                                       \
    static inline bool fast_##name(Value a, Value b, Value *r)                                      \
    {                                                                                               \
        if (a.tag == V_INT && b.tag == V_INT) {                                                     \
            r->tag = V_INT;                                                                         \
            return !overflow_fn(a.i, b.i, &r->i);                                                   \
        }                                                                                           \
        if (a.tag == V_FLOAT && b.tag == V_FLOAT) {                                                 \
            double x = a.f, y = b.f;                                                                \
            *r = vfloat(float_expr);                                                                \
            return true;                                                                            \
        }                                                                                           \
        if ((a.tag == V_FLOAT && b.tag == V_INT) || (a.tag == V_INT && b.tag == V_FLOAT)) {         \
            double x = a.tag == V_INT ? (double)a.i : a.f, y = b.tag == V_INT ? (double)b.i : b.f;  \
            *r = vfloat(float_expr);                                                                \
            return true;                                                                            \
        }                                                                                           \
        return false;                                                                               \
    }
INT_OP(add, __builtin_add_overflow, x + y)
INT_OP(sub, __builtin_sub_overflow, x - y)
INT_OP(mul, __builtin_mul_overflow, x * y)

static inline bool fast_div(Value a, Value b, Value *r)
{
    double x, y;

    if ((a.tag != V_FLOAT && a.tag != V_INT) || (b.tag != V_FLOAT && b.tag != V_INT))
        return false;
    x = a.tag == V_INT ? (double)a.i : a.f;
    y = b.tag == V_INT ? (double)b.i : b.f;
    if (y == 0)
        return false;
    *r = vfloat(x / y);
    return true;
}

static inline bool fast_mod(Value a, Value b, Value *r)
{
    int64_t m;

    if (a.tag != V_INT || b.tag != V_INT || b.i <= 0)
        return false;
    m = a.i % b.i;
    *r = vint(m < 0 ? m + b.i : m);
    return true;
}

static inline bool fast_floordiv(Value a, Value b, Value *r)
{
    int64_t q;

    if (a.tag != V_INT || b.tag != V_INT || b.i <= 0)
        return false;
    q = a.i / b.i;
    *r = vint(q - (q * b.i > a.i));
    return true;
}

static inline bool fast_bits(int op, Value a, Value b, Value *r)
{
    if (a.tag != V_INT || b.tag != V_INT)
        return false;
    *r = vint(op == AOP_BITAND ? a.i & b.i : op == AOP_BITOR ? a.i | b.i : a.i ^ b.i);
    return true;
}
static inline bool fast_and(Value a, Value b, Value *r) { return fast_bits(AOP_BITAND, a, b, r); }
static inline bool fast_or(Value a, Value b, Value *r) { return fast_bits(AOP_BITOR, a, b, r); }
static inline bool fast_xor(Value a, Value b, Value *r) { return fast_bits(AOP_BITXOR, a, b, r); }

static inline bool fast_pow(Value a, Value b, Value *r)
{
    double x, y, p;

    if (a.tag != V_FLOAT || (b.tag != V_FLOAT && b.tag != V_INT) || a.f <= 0)
        return false;
    x = a.f;
    y = b.tag == V_INT ? (double)b.i : b.f;
    p = y == 2 ? x * x : pow(x, y);
    if (isinf(p))
        return false;
    *r = vfloat(p);
    return true;
}

#define CMP_OP(name, op)                                                                            \
    static inline bool fast_##name(Value a, Value b, Value *r)                                      \
    {                                                                                               \
        if (a.tag == V_INT && b.tag == V_INT)                                                       \
            *r = vbool(a.i op b.i);                                                                 \
        else if (a.tag == V_FLOAT && b.tag == V_FLOAT)                                              \
            *r = vbool(a.f op b.f);                                                                 \
        else                                                                                        \
            return false;                                                                           \
        return true;                                                                                \
    }
CMP_OP(lt, <) CMP_OP(le, <=) CMP_OP(gt, >) CMP_OP(ge, >=) CMP_OP(eq, ==) CMP_OP(ne, !=)

/* One function for an operator and the shapes of its operands. */
#define NODE_FN(op, sa, sb, slow)                                                                   \
    static Value op##_##sa##_##sb(const Step *n, Frame *f)                                          \
    {                                                                                               \
        Value a = get_##sa(n->a, f), b, r;                                                          \
        if (__builtin_expect(is_err(a), 0))                                                         \
            return VERR;                                                                            \
        b = get_##sb(n->b, f);                                                                      \
        if (__builtin_expect(is_err(b), 0)) {                                                       \
            value_unref(a);                                                                         \
            return VERR;                                                                            \
        }                                                                                           \
        if (__builtin_expect(fast_##op(a, b, &r), 1))                                               \
            return r;                                                                               \
        return slow(n, f, a, b);                                                                    \
    }
#define SHAPES(op, slow)                                                                            \
    NODE_FN(op, any, any, slow) NODE_FN(op, any, const, slow) NODE_FN(op, any, local, slow)         \
    NODE_FN(op, local, any, slow) NODE_FN(op, local, const, slow) NODE_FN(op, local, local, slow)   \
    NODE_FN(op, const, any, slow) NODE_FN(op, const, local, slow)
SHAPES(add, slow_binary) SHAPES(sub, slow_binary) SHAPES(mul, slow_binary) SHAPES(div, slow_binary)
SHAPES(mod, slow_binary) SHAPES(floordiv, slow_binary) SHAPES(and, slow_binary) SHAPES(or, slow_binary)
SHAPES(xor, slow_binary) SHAPES(pow, slow_binary)
SHAPES(lt, slow_compare) SHAPES(le, slow_compare) SHAPES(gt, slow_compare) SHAPES(ge, slow_compare)
SHAPES(eq, slow_compare) SHAPES(ne, slow_compare)

/* Both operands, left before right; false: one raised, and nothing is held. */
static inline bool operands(const Step *n, Frame *f, Value *a, Value *b)
{
    *a = n->a->eval(n->a, f);
    if (is_err(*a))
        return false;
    *b = n->b->eval(n->b, f);
    if (!is_err(*b))
        return true;
    value_unref(*a);
    return false;
}

Value ev_binary(const Step *n, Frame *f)
{
    Value a, b;

    return operands(n, f, &a, &b) ? slow_binary(n, f, a, b) : VERR;
}

Value ev_compare(const Step *n, Frame *f)
{
    Value a, b;

    return operands(n, f, &a, &b) ? slow_compare(n, f, a, b) : VERR;
}

/* is, is not: a pointer comparison */
Value ev_is(const Step *n, Frame *f)
{
    Value a, b;
    bool same;

    if (!operands(n, f, &a, &b))
        return VERR;
    same = value_is(a, b);
    value_unref(a);
    value_unref(b);
    return vbool(same == (n->op == AOP_IS));
}

#define ROW(op) {{op##_any_any, op##_any_const, op##_any_local},                                    \
                 {op##_const_any, NULL, op##_const_local},                                          \
                 {op##_local_any, op##_local_const, op##_local_local}}
/* by operator, shape of a, shape of b: 0 any, 1 constant, 2 local */
static const EvalFn arith[AOP_COUNT][3][3] = {
    [AOP_ADD] = ROW(add), [AOP_SUB] = ROW(sub), [AOP_MUL] = ROW(mul), [AOP_DIV] = ROW(div), [AOP_MOD] = ROW(mod),
    [AOP_FLOORDIV] = ROW(floordiv), [AOP_BITAND] = ROW(and), [AOP_BITOR] = ROW(or), [AOP_BITXOR] = ROW(xor),
    [AOP_POW] = ROW(pow),
    [AOP_LT] = ROW(lt), [AOP_LE] = ROW(le), [AOP_GT] = ROW(gt), [AOP_GE] = ROW(ge), [AOP_EQ] = ROW(eq), [AOP_NE] = ROW(ne),
};

static int shape_of(const Step *n) { return is_const(n) ? 1 : is_local(n) ? 2 : 0; }

static Step *operator_node(Lower *L, const Ast *at, int op, Step *a, Step *b, EvalFn otherwise)
{
    Step *n = step_new(L, at);
    EvalFn fn = arith[op][shape_of(a)][shape_of(b)];

    n->eval = fn ? fn : otherwise;
    n->op = (uint8_t)op;
    n->a = a;
    n->b = b;
    return n;
}

Step *lower_arith(Lower *L, const Ast *at, int op, Step *a, Step *b)
{
    return operator_node(L, at, op, a, b, ev_binary);
}

Step *lower_compare1(Lower *L, const Ast *at, int op, Step *a, Step *b)
{
    return operator_node(L, at, op, a, b, op == AOP_IS || op == AOP_IS_NOT ? ev_is : ev_compare);
}
