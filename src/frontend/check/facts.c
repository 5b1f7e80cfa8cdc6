/*
 * What a program has tested of sizes holds where the test did:
 *
 *     assert N % 4 == 0            from there on
 *     if x.shape != y.shape:       behind it, as its body ends in raise or return
 *         raise ValueError(...)
 *     y = x[:N // 2] if N > 1 else x
 *
 * A test is read where it stands, into comparisons of sizes, which no later
 * store changes; they are assumed for a branch, and dropped at its end.  Facts
 * that hold in a whole function hold in the functions that it defines.
 */
#include "frontend/check/kernels.h"

static void fact_add(Facts *out, FactKind kind, Dim a, Dim b)
{
    if (out->n < FACTS_MAX && !(dim_is_const(a) && dim_is_const(b)))
        out->at[out->n++] = (Fact){kind, a, b};
}

static bool is_size(const Type *t)
{
    return t->kind == TY_INT && t->value != DIM_BAD;
}

/* e % k == 0, written out: the size engine knows more of divisibility than of a difference that is 0. */
static bool read_divides(Check *C, Ast *left, Ast *right, Facts *out)
{
    AstBinOp *b = AST_AS(left, BinOp);
    const Type *e, *k;

    if (!AST_IS(left, BinOp) || b->op != AOP_MOD || (right && (!AST_IS(right, Int) || AST_AS(right, Int)->value)))
        return false;
    e = expr(C, b->left);
    k = expr(C, b->right);
    if (is_size(e) && is_size(k))
        fact_add(out, FACT_DIVIDES, k->value, e->value);
    return true;
}

static void read_sizes(AstOp op, const Type *a, const Type *b, Facts *out)
{
    if (op == AOP_EQ && a->kind == TY_TUPLE && b->kind == TY_TUPLE && a->n == b->n)
        for (int i = 0; i < a->n; i++)
            read_sizes(op, a->item[i], b->item[i], out);
    if (!is_size(a) || !is_size(b))
        return;
    if (op == AOP_EQ)
        fact_add(out, FACT_EQ, a->value, b->value);
    else if (op == AOP_GE || op == AOP_GT)
        fact_add(out, FACT_GE, a->value, op == AOP_GT ? dim_add(b->value, 1) : b->value);
    else if (op == AOP_LE || op == AOP_LT)
        fact_add(out, FACT_GE, b->value, op == AOP_LT ? dim_add(a->value, 1) : a->value);
    else if (op == AOP_NE && dim_ge(a->value, b->value, NULL, NULL) == DIM_PROVED)
        fact_add(out, FACT_GE, a->value, dim_add(b->value, 1));
}

static AstOp opposite(AstOp op)
{
    switch (op) {
    case AOP_EQ: return AOP_NE;
    case AOP_NE: return AOP_EQ;
    case AOP_LT: return AOP_GE;
    case AOP_GE: return AOP_LT;
    case AOP_LE: return AOP_GT;
    case AOP_GT: return AOP_LE;
    default: return AOP_IN;                         /* of which nothing follows */
    }
}

static void read_compare(Check *C, AstCompare *c, bool holds, Facts *out)
{
    Ast *left = c->left;

    if (!holds && c->rest.n != 1)                   /* some link of a chain fails: which one is not known */
        return;
    for (int i = 0; i < c->rest.n; i++) {
        AstCompareItem *x = AST_AS(c->rest.at[i], CompareItem);
        AstOp op = holds ? x->op : opposite(x->op);
        if (op != AOP_EQ || !read_divides(C, left, x->right, out))
            read_sizes(op, expr(C, left), expr(C, x->right), out);
        left = x->right;
    }
}

void test_read(Check *C, Ast *test, bool holds, TestReader *read, void *out)
{
    AstBoolOp *b = AST_AS(test, BoolOp);

    if (AST_IS(test, UnaryOp) && AST_AS(test, UnaryOp)->op == AOP_NOT)
        test_read(C, AST_AS(test, UnaryOp)->operand, !holds, read, out);
    else if (!AST_IS(test, BoolOp))
        read(C, test, holds, out);
    else if (holds == (b->op == AOP_AND))           /* all of them do, or fail; else which one is not known */
        for (int i = 0; i < b->values.n; i++)
            test_read(C, b->values.at[i], holds, read, out);
}

static void read_one(Check *C, Ast *test, bool holds, void *state)
{
    Facts *out = state;

    switch (test->kind) {
    case AST_Compare:
        read_compare(C, AST_AS(test, Compare), holds, out);
        break;
    case AST_BinOp:
    case AST_Name:
        if (!holds && !read_divides(C, test, NULL, out))
            read_sizes(AOP_EQ, expr(C, test), type_int(0), out);
        break;
    default:
        break;
    }
}

void facts_read(Check *C, Ast *test, bool holds, Facts *out)
{
    out->n = 0;
    C->quiet++;                                     /* what a test compares is its own business */
    test_read(C, test, holds, read_one, out);
    C->quiet--;
}

void facts_hold(const Fact *at, int n)
{
    for (int i = 0; i < n; i++) {           /* there may be none, and no place of them */
        const Fact *f = &at[i];
        switch (f->kind) {
        case FACT_EQ: dim_assume_eq(f->a, f->b); break;
        case FACT_GE: dim_assume_ge(f->a, f->b); break;
        case FACT_DIVIDES: dim_assume_divides(f->a, f->b); break;
        }
    }
}

void facts_assume(Check *C, const Facts *f)
{
    CFrame *frame = C->frame;

    if (!f->n || C->kernel)                         /* whose numbers are each tile's own */
        return;
    dim_push();
    C->facts++;
    C->facts_id = ++C->facts_made;
    facts_hold(f->at, f->n);
    for (int i = 0; frame->fn && C->branches == frame->branches && i < f->n; i++)
        vec_push(&frame->facts, f->at[i]);
}

void facts_drop(Check *C, int mark)
{
    if (C->facts == mark)
        return;
    while (C->facts > mark) {
        dim_pop();
        C->facts--;
    }
    C->facts_id = C->facts ? ++C->facts_made : 0;
}
