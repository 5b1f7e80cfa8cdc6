/*
 * Floats that follow from symbolic sizes: 1.0 / n, n ** 0.5, math.sqrt(n).
 *
 * Each is a row of a table: a size, a number, or a function of earlier rows, and the float that it is in the call at hand.  A
 * tensor meets it as one op of its graph (OP_dim_float), which computes it anew in each call, so the graph serves every size.  All
 * else that looks at one settles its sizes, as for ints.  What could raise for other sizes (division by what may be 0, roots of what
 * may be negative) is not put off: only what is above 0 for every size that is served is divided by, and is a base or under a root.
 */
#include "frontend/eval/symint.h"

#include "base/vec.h"
#include "frontend/eval/eval.h"
#include "frontend/syntax/ast.h"
#include "ir/core/dim_float.h"

#include <math.h>
#include <stdio.h>

enum { SIZE = -1, NUMBER = -2, WIDTH_MOST = 1000 };

typedef struct SymFloat {
    int op;                     /* DimFloatOp; SIZE, NUMBER */
    int32_t in[2];              /* rows */
    Dim size;
    double now;
    bool above;                 /* is it above 0 in every call? */
    double width;               /* then it is within 2**-width and 2**width, else its magnitude is below the latter */
    uint8_t sizes, depth;       /* how many sizes the formula mentions, how much it stacks */
} SymFloat;

static Vec(SymFloat) table;
bool symfloat_made;

static SymFloat *row_of(Value v) { return &table.at[v.i]; }

static int32_t add_row(SymFloat r)
{
    vec_push(&table, r);
    symfloat_made = true;
    return table.n - 1;
}

static Value value_at(int32_t row) { return (Value){.tag = V_SYMFLOAT, .aux = (uint32_t)dim_asking_id(), .i = row}; }

/* One that was kept from an earlier staging is the number that it was. */
static bool is_open(Value v) { return v.aux == (uint32_t)dim_asking_id() && dim_asking(); }

/* A row for an operand; false: it is none that has one, such as a size without a number. */
static bool operand(Value v, int32_t *out)
{
    SymFloat r = {.op = NUMBER, .depth = 1};
    int64_t i;
    Dim d;

    if (v.tag == V_SYMFLOAT && is_open(v)) {
        *out = (int32_t)v.i;
        return true;
    }
    if (v.tag == V_SYMFLOAT || v.tag == V_FLOAT) {
        r.now = v.tag == V_FLOAT ? v.f : row_of(v)->now;
        r.above = r.now > 0;
        r.width = r.now ? fabs(log2(fabs(r.now))) + 1 : 0;
        *out = add_row(r);
        return isfinite(r.now);
    }
    if (!symint_dim(v, &d) || !dim_at_hand(d, &i))
        return false;
    r.now = (double)i;
    if (!dim_is_const(d)) {
        r.op = SIZE;
        r.size = d;
        r.sizes = 1;
    }
    r.above = dim_is_const(d) ? i > 0 : dim_ask_ge(d, 1) == DIM_PROVED;
    r.width = 63;
    *out = add_row(r);
    return true;
}

/* May it be computed in any call without raising? Whether the result is above 0 then goes to *above, how wide it is to *width. */
static bool is_safe(DimFloatOp op, const SymFloat *a, const SymFloat *b, bool *above, double *width)
{
    *above = a->above && (!b || b->above);
    *width = b ? a->width + b->width : fmax(a->width, 6);       /* of a root or a logarithm: 2**6 is more than log(2**63) */
    switch (op) {
    case DF_ADD: case DF_MUL:
        return true;
    case DF_SUB: case DF_NEG: case DF_SIN: case DF_COS:
        *above = false;
        return true;
    case DF_DIV:
        return b->above || (b->op == NUMBER && b->now != 0);
    case DF_POW:
        *above = true;
        *width = a->width * fabs(b->now);
        return a->above && b->op == NUMBER && *width <= WIDTH_MOST;
    case DF_LOG: case DF_LOG2: case DF_LOG10:
        *above = false;
        return a->above;
    default:                                            /* sqrt, log1p, tanh: above 0 where the operand is */
        return a->above || op == DF_TANH;
    }
}

/* The row of op, whose operands are rows. false: it is to be computed with numbers. */
static bool make_row(DimFloatOp op, const SymFloat *a, const SymFloat *b, SymFloat *r)
{
    if (!is_safe(op, a, b, &r->above, &r->width))
        return false;
    r->above = r->above && r->width <= WIDTH_MOST;      /* else it may be rounded to 0 */
    r->sizes = (uint8_t)(a->sizes + (b ? b->sizes : 0));
    r->depth = b && b->depth + 1 > a->depth ? b->depth + 1 : a->depth;
    r->now = dim_float_apply(op, a->now, b ? b->now : 0);
    return r->sizes <= DIM_FLOAT_SIZES && r->depth <= DIM_FLOAT_DEPTH && isfinite(r->now);
}

/* V_NOTIMPL: it is to be computed with numbers. */
static Value apply(DimFloatOp op, Value a, Value b)
{
    SymFloat r = {.op = (int)op};
    bool two = dim_float_arity(op) == 2;
    int before = table.n;

    if (dim_asking() && operand(a, &r.in[0]) && (!two || operand(b, &r.in[1])) &&
        make_row(op, &table.at[r.in[0]], two ? &table.at[r.in[1]] : NULL, &r))
        return value_at(add_row(r));
    table.n = before;
    return VNOTIMPL;
}

static bool is_float(Value v) { return v.tag == V_FLOAT || v.tag == V_SYMFLOAT; }

Value symfloat_binary(int op, Value a, Value b)
{
    static const int8_t of[] = {
        [AOP_ADD] = DF_ADD + 1, [AOP_SUB] = DF_SUB + 1, [AOP_MUL] = DF_MUL + 1, [AOP_DIV] = DF_DIV + 1, [AOP_POW] = DF_POW + 1,
    };
    bool known = op >= 0 && op < (int)(sizeof of) && of[op];

    if (!known || (op != AOP_DIV && !is_float(a) && !is_float(b)))
        return VNOTIMPL;
    return apply((DimFloatOp)(of[op] - 1), a, b);
}

Value symfloat_unary(int op, Value a)
{
    return op == AOP_POS ? a : op == AOP_NEG ? apply(DF_NEG, a, VNONE) : VNOTIMPL;
}

Value symfloat_call(const char *function, Value a)
{
    DimFloatOp op;

    return is_symbolic(a) && dim_float_find(function, &op) ? apply(op, a, VNONE) : VNOTIMPL;
}

static bool settle(Interp *I, int32_t at)
{
    SymFloat r = table.at[at];
    int64_t i;

    if (r.op == SIZE)
        return dim_settle(r.size, &i) || (raise(I, EXC_TypeError, "the size %s is known only when the staged function runs, and here "
                                                "it is needed before", dim_text(r.size)), false);
    return r.op == NUMBER || (settle(I, r.in[0]) && (dim_float_arity((DimFloatOp)r.op) < 2 || settle(I, r.in[1])));
}

bool symfloat_number(Interp *I, Value v, double *out)
{
    *out = row_of(v)->now;
    return !is_open(v) || settle(I, (int32_t)v.i);
}

static void put_formula(int32_t at, StrBuf *out, Dim *size, int *n)
{
    SymFloat r = table.at[at];

    if (r.op == NUMBER) {
        sb_printf(out, "%.17g", r.now);
    } else if (r.op == SIZE) {
        sb_printf(out, "$%d", *n);
        size[(*n)++] = r.size;
    } else {
        for (int k = 0; k < dim_float_arity((DimFloatOp)r.op); k++) {
            put_formula(r.in[k], out, size, n);
            sb_putc(out, ' ');
        }
        dim_float_word((DimFloatOp)r.op, out);
    }
}

bool symfloat_formula(Value v, StrBuf *out, Dim *size, int *n)
{
    *n = 0;
    if (!is_open(v))
        return false;
    put_formula((int32_t)v.i, out, size, n);
    return true;
}
