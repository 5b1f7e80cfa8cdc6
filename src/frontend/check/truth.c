/* Conditions that are decided by types and sizes alone, so that only the branch that runs is judged. */
#include "frontend/check/kernels.h"
#include "frontend/eval/native.h"

#include <stdio.h>
#include <string.h>

/* Is a known text or number one of these? -1: not known. */
static int among(const Type *t, const Type *all)
{
    if (type_is_any(t) || type_is_any(all) || (all->kind != TY_TUPLE && !(all->kind == TY_LIST && all->exact)) || all->n < 0)
        return -1;
    for (int i = 0; i < all->n; i++) {
        const Type *m = all->item[i];
        if (t->kind == TY_DTYPE && m->kind == TY_DTYPE) {
            if (t == m)
                return 1;
            continue;
        }
        if (t->kind != TY_STR || type_is_any(m) || m->kind != TY_STR || !t->text || !m->text)
            return -1;
        if (m->text == t->text)
            return 1;
    }
    return 0;
}

/* Are two sizes equal? In a library's check of its arguments, names that the program declared apart are different sizes. */
static DimAnswer same_size(const Check *C, Dim a, Dim b)
{
    DimAnswer r = dim_eq(a, b, NULL, NULL);

    return r == DIM_DIFFERS && C->apart && !C->lenient && !dim_is_open(a) && !dim_is_open(b) ? DIM_REFUTED : r;
}

/* Are two tuples of sizes equal? -1: not known. */
static int same_sizes(const Check *C, const Type *a, const Type *b)
{
    int same = 1;

    if (a->n < 0 || b->n < 0)
        return -1;
    if (a->n != b->n)
        return 0;
    for (int i = 0; i < a->n; i++) {
        const Type *x = a->item[i], *y = b->item[i];
        DimAnswer r = DIM_UNKNOWN;
        if (x->kind == TY_INT && y->kind == TY_INT && x->value != DIM_BAD && y->value != DIM_BAD)
            r = same_size(C, x->value, y->value);
        if (r == DIM_REFUTED)
            return 0;
        same = r == DIM_PROVED ? same : -1;
    }
    return same;
}

static int truth_of_numbers(AstOp op, double a, double b)
{
    switch (op) {
    case AOP_EQ: return a == b;
    case AOP_NE: return a != b;
    case AOP_GE: return a >= b;
    case AOP_LT: return a < b;
    case AOP_LE: return a <= b;
    case AOP_GT: return a > b;
    default: return -1;
    }
}

int truth_of_types(Check *C, AstOp op, const Type *a, const Type *b)
{
    double x, y;
    DimAnswer r;

    if (op == AOP_IS || op == AOP_IS_NOT) {
        if (b->kind == TY_NONE && a->kind == TY_NONE)
            return op == AOP_IS;
        if (b->kind == TY_NONE && !type_has_none(a) && a->kind != TY_UNSET)
            return op == AOP_IS_NOT;
        return -1;
    }
    if (op == AOP_IN || op == AOP_NOT_IN)
        return among(a, b) < 0 ? -1 : among(a, b) == (op == AOP_IN);
    if (a->kind == TY_TUPLE && b->kind == TY_TUPLE && (op == AOP_EQ || op == AOP_NE)) {
        int same = same_sizes(C, a, b);
        return same < 0 ? same : same == (op == AOP_EQ);
    }
    if (a->kind == TY_DTYPE && b->kind == TY_DTYPE && (op == AOP_EQ || op == AOP_NE))
        return (a == b) == (op == AOP_EQ);
    if (a->kind == TY_STR && b->kind == TY_STR && a->text && b->text && (op == AOP_EQ || op == AOP_NE))
        return (a->text == b->text) == (op == AOP_EQ);
    if ((a->kind == TY_FLOAT || b->kind == TY_FLOAT) && type_float_value(a, &x) && type_float_value(b, &y))
        return truth_of_numbers(op, x, y);
    if (a->kind != TY_INT || b->kind != TY_INT || a->value == DIM_BAD || b->value == DIM_BAD)
        return -1;
    switch (op) {
    case AOP_EQ: case AOP_NE:
        r = same_size(C, a->value, b->value);
        return r == DIM_PROVED ? op == AOP_EQ : r == DIM_REFUTED ? op == AOP_NE : -1;
    case AOP_GE: case AOP_LT:
        r = dim_ge(a->value, b->value, NULL, NULL);
        return r == DIM_PROVED ? op == AOP_GE : r == DIM_REFUTED ? op == AOP_LT : -1;
    case AOP_LE: case AOP_GT:
        r = dim_ge(b->value, a->value, NULL, NULL);
        return r == DIM_PROVED ? op == AOP_LE : r == DIM_REFUTED ? op == AOP_GT : -1;
    default:
        return -1;
    }
}

static int compare_truth(Check *C, AstCompare *c)
{
    const Type *left = expr_looked(C, c->left);
    bool sure = true;

    for (int i = 0; i < c->rest.n; i++) {                   /* one that fails decides */
        AstCompareItem *x = AST_AS(c->rest.at[i], CompareItem);
        const Type *right = expr_looked(C, x->right);
        int r = truth_of_types(C, x->op, left, right);
        if (!r)
            return 0;
        sure &= r > 0;
        left = right;
    }
    return sure ? 1 : -1;
}

/* A call of that builtin with n plain arguments? */
static bool is_builtin(const AstCall *c, const char *name, int n)
{
    for (int i = 0; i < c->args.n; i++)
        if (!AST_IS(c->args.at[i], Arg) || AST_AS(c->args.at[i], Arg)->stars || AST_AS(c->args.at[i], Arg)->name)
            return false;
    return c->args.n == n && AST_IS(c->func, Name) && AST_AS(c->func, Name)->bind == BIND_PRELUDE &&
           !strcmp(AST_AS(c->func, Name)->id->text, name);
}

static int callable_truth(const Type *t)
{
    switch (t->kind) {
    case TY_FUNC: case TY_LIBRARY: case TY_NATIVE: case TY_METHOD: case TY_TRANSFORM: case TY_CLASS: case TY_CALLABLE:
        return 1;
    case TY_NONE: case TY_BOOL: case TY_INT: case TY_FLOAT: case TY_COMPLEX: case TY_STR: case TY_BYTES:
    case TY_LIST: case TY_TUPLE: case TY_DICT: case TY_SET: case TY_RANGE: case TY_TENSOR:
        return 0;
    default:
        return -1;
    }
}

/* Is a value of type t of that builtin class? A function, a text, a tensor, a dtype is of its own class and of object alone. */
static int of_builtin(const Type *t, const char *cls)
{
    static const struct { const char *name; TypeKind kind; } names[] = {
        {"int", TY_INT}, {"float", TY_FLOAT}, {"str", TY_STR}, {"list", TY_LIST}, {"tuple", TY_TUPLE}, {"dict", TY_DICT}, {"range", TY_RANGE},
        {"set", TY_SET}, {"bool", TY_BOOL}, {"Tensor", TY_TENSOR}, {"bytes", TY_BYTES}, {"complex", TY_COMPLEX},
    };
    static const char *const fresh[] = {"map", "filter", "zip", "enumerate", "reversed", "chain"};      /* which nothing else stands for */

    if (t->kind < TY_NONE || (t->kind > TY_RANGE && t->kind != TY_TENSOR && t->kind != TY_FUNC && t->kind != TY_DTYPE))
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].name, cls))
            return t->kind == names[i].kind || (t->kind == TY_BOOL && names[i].kind == TY_INT);
    for (size_t i = 0; i < sizeof fresh / sizeof *fresh; i++)
        if (!strcmp(fresh[i], cls))
            return 0;
    return -1;
}

/* Of a class of the program? An object that was not seen made may be of a class derived from the one that is known. */
static int of_program_class(const Type *t, const Cls *cls)
{
    const Cls *own = t->kind == TY_INSTANCE ? t->ref : NULL;

    if (own && cls_derives(own, cls))
        return 1;
    if (cls_is_open(cls) || cls->is_protocol || cls->builtin || cls->home->library)
        return -1;
    if (own)
        return t->inst && !cls_is_open(own) ? 0 : -1;
    return (t->kind >= TY_NONE && t->kind <= TY_RANGE) || t->kind == TY_TENSOR ? 0 : -1;
}

int truth_of_class(const Type *t, const Type *cls)
{
    int any = 0, r;

    if (type_is_any(t) || type_is_any(cls))
        return -1;
    if (t->kind == TY_UNION) {
        any = truth_of_class(t->item[0], cls);
        for (int i = 1; i < t->n; i++)
            any = truth_of_class(t->item[i], cls) == any ? any : -1;
        return any;
    }
    if (cls->kind == TY_NATIVE) {
        const NativeDef *d = cls->ref;
        return d->sig && !strncmp(d->sig, "type[", 5) ? of_builtin(t, d->name) : -1;
    }
    if (cls->kind == TY_CLASS)
        return of_program_class(t, cls->ref);
    if (cls->kind != TY_TUPLE || cls->n < 0)
        return -1;
    for (int i = 0; i < cls->n; i++)
        if ((r = truth_of_class(t, cls->item[i])) != 0)
            any = any > 0 || r > 0 ? 1 : -1;
    return any;
}

bool truth_is_isinstance(const Ast *test)
{
    return AST_IS(test, Call) && is_builtin(AST_AS(test, Call), "isinstance", 2);
}

static int isinstance_truth(Check *C, AstCall *c)
{
    const Type *t = expr(C, AST_AS(c->args.at[0], Arg)->value);

    return truth_of_class(t, expr(C, AST_AS(c->args.at[1], Arg)->value));
}

/* What a value of this type counts as in a condition; -1: not known. */
static int type_truth(const Type *t)
{
    double number;
    DimAnswer r;

    switch (t->kind) {
    case TY_NONE:
        return 0;
    case TY_FUNC:
        return 1;
    case TY_BOOL:
        return t->value == BOOL_UNKNOWN ? -1 : t->value == BOOL_TRUE;
    case TY_INT:
        r = t->value == DIM_BAD || dim_is_open(t->value) ? DIM_UNKNOWN : dim_eq(t->value, 0, NULL, NULL);
        return r == DIM_PROVED ? 0 : r == DIM_REFUTED ? 1 : -1;
    case TY_FLOAT:
        return type_float_value(t, &number) ? number != 0.0 : -1;
    case TY_STR:
        return t->text ? t->text->text[0] != 0 : -1;
    case TY_TUPLE:
        return t->n < 0 ? -1 : t->n > 0;
    case TY_LIST: case TY_DICT:
        return t->exact && t->n > 0 ? 1 : -1;
    default:
        return -1;
    }
}

/* is_tensor(x), and what the functions of the program and the library answer. */
static int call_truth(Check *C, AstCall *c)
{
    const Type *t;

    if (is_builtin(c, "isinstance", 2))
        return isinstance_truth(C, c);
    if (is_builtin(c, "callable", 1))
        return callable_truth(expr(C, AST_AS(c->args.at[0], Arg)->value));
    if (is_builtin(c, "is_tensor", 1)) {
        t = expr(C, AST_AS(c->args.at[0], Arg)->value);
        return type_is_any(t) ? -1 : of_builtin(t, "Tensor");
    }
    t = AST_IS(c->func, Name) && C->home->library ? expr(C, (Ast *)c) : T_ANY;      /* of methods: objects change out of sight */
    return t->kind == TY_BOOL ? type_truth(t) : -1;
}

int truth(Check *C, Ast *test)
{
    int r;
    AstBoolOp *b;
    const Type *t;

    switch (test->kind) {
    case AST_Const:
        return AST_AS(test, Const)->value == CONST_TRUE || AST_AS(test, Const)->value == CONST_ELLIPSIS;
    case AST_UnaryOp:
        if (AST_AS(test, UnaryOp)->op != AOP_NOT)
            return -1;
        r = truth(C, AST_AS(test, UnaryOp)->operand);
        return r < 0 ? r : !r;
    case AST_BoolOp:
        b = AST_AS(test, BoolOp);
        for (int i = 0; i < b->values.n; i++) {
            r = truth(C, b->values.at[i]);
            if (r < 0 || r == (b->op == AOP_OR))
                return r;
        }
        return b->op == AOP_AND;
    case AST_Compare:
        return compare_truth(C, AST_AS(test, Compare));
    case AST_Call:
        return call_truth(C, AST_AS(test, Call));
    case AST_Name:
        return type_truth(expr_looked(C, test));
    case AST_Attribute:
    case AST_Int:
    case AST_Float:
    case AST_BinOp:
        t = expr(C, test);
        return type_truth(t);
    default:
        return -1;
    }
}

void truth_judged(Check *C, Ast *test)
{
    const Type *t = type_found(test);
    Dim n = t && t->kind == TY_TENSOR ? ttype_count(t->tensor) : DIM_BAD;
    StrBuf count = {0};
    Diag *d;

    if (C->kernel) {
        kernel_condition(C, test);
        return;
    }
    if (n == DIM_BAD || n == 0 || dim_eq(n, 1, NULL, NULL) != DIM_REFUTED || test->kind == AST_BoolOp)     /* whose operands were judged */
        return;
    dim_print(n, &count);
    d = REPORT(C, E0311, test->span, shape_of(t->tensor), sb_str(&count));
    sb_done(&count);
    diag_help(d, "ask for .any() or .all() of it; where(c, a, b) chooses element by element, and & | ~ combine masks");
    origin_of(C, d, test, DIM_BAD);
}
