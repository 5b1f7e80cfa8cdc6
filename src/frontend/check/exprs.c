/*
 * Expressions: a type for each, and the bindings that they make.  displays.c has displays and comprehensions.
 */
#include "frontend/check/texts.h"
#include "frontend/check/checker.h"

#include "frontend/check/frames.h"
#include "frontend/check/kernels.h"
#include "frontend/check/ways.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* super() without arguments */
static bool is_super(const Ast *e)
{
    const AstName *n = AST_IS(e, Call) && !AST_AS(e, Call)->args.n ? AST_AS(AST_AS(e, Call)->func, Name) : NULL;

    return n && n->ast.kind == AST_Name && n->bind == BIND_PRELUDE && !strcmp(n->id->text, "super");
}

/* ------------------------------------------------------------- operators */

static bool is_number(const Type *t)
{
    return t->kind >= TY_BOOL && t->kind <= TY_COMPLEX;
}

static const Type *int_binary(int op, Dim a, Dim b)
{
    int64_t k;

    if (a == DIM_BAD || b == DIM_BAD)
        return type_int(DIM_BAD);
    switch (op) {
    case AOP_ADD: return type_int(dim_add(a, b));
    case AOP_SUB: return type_int(dim_sub(a, b));
    case AOP_MUL: return type_int(dim_mul(a, b));
    case AOP_FLOORDIV:
        return type_int(dim_const_value(b, &k) && k <= 0 ? DIM_BAD : dim_floordiv(a, b));
    case AOP_MOD:
        return type_int(dim_const_value(b, &k) && k <= 0 ? DIM_BAD : dim_mod(a, b));
    default:
        return type_int(DIM_BAD);
    }
}

/* 2 ** 3 is an int, 2 ** -1 a float. */
static const Type *int_power(const Type *a, const Type *b)
{
    int64_t n;
    Dim r = 1;

    if (a->kind != TY_INT || b->kind != TY_INT || b->value == DIM_BAD || !dim_const_value(b->value, &n))
        return type_union(type_int(DIM_BAD), type_of_kind(TY_FLOAT));
    if (n < 0)
        return type_of_kind(TY_FLOAT);
    for (; a->value != DIM_BAD && n <= 64 && n > 0; n--)
        r = dim_mul(r, a->value);
    return type_int(n || a->value == DIM_BAD ? DIM_BAD : r);
}

/* a ** b of which one is a float: of a negative number it is complex. */
static const Type *float_power(const Type *a)
{
    int64_t n;

    if (a->kind == TY_INT && a->value != DIM_BAD && (!dim_const_value(a->value, &n) || n >= 0))
        return type_of_kind(TY_FLOAT);
    return type_union(type_of_kind(TY_FLOAT), type_of_kind(TY_COMPLEX));
}

static const Type *number_binary(int op, const Type *a, const Type *b)
{
    int k = a->kind > b->kind ? a->kind : b->kind;

    if (op == AOP_DIV && k < TY_FLOAT)
        return type_of_kind(TY_FLOAT);
    if (op == AOP_POW && k == TY_INT)
        return int_power(a, b);
    if (op == AOP_POW && a->kind == TY_FLOAT && b->kind == TY_INT)
        return type_of_kind(TY_FLOAT);
    if (op == AOP_POW && k == TY_FLOAT)
        return float_power(a);
    if (k == TY_COMPLEX || k == TY_FLOAT)
        return type_of_kind((TypeKind)k);
    if (a->kind == TY_INT && b->kind == TY_INT)
        return int_binary(op, a->value, b->value);
    return a->kind == TY_BOOL && b->kind == TY_BOOL && op >= AOP_BITAND ? type_of_kind(TY_BOOL) : type_int(DIM_BAD);
}

static const Type *repeated(const Type *a, const Type *b)
{
    const Type *m[ITEMS_MAX];
    int64_t k;

    if (a->n < 0 || (a->kind == TY_LIST && !a->exact) || b->value == DIM_BAD || !dim_const_value(b->value, &k) || k < 0 ||
        k * a->n > ITEMS_MAX)
        return a->kind == TY_LIST ? type_settle(a) : type_tuple_any(element_of(a));
    for (int i = 0; i < a->n * k; i++)
        m[i] = a->item[i % a->n];
    return a->kind == TY_LIST ? type_list_of(m, (int)(a->n * k)) : type_tuple(m, (int)(a->n * k));
}

static const Type *sequence_binary(int op, const Type *a, const Type *b)
{
    if (a->kind == TY_STR && (op == AOP_MOD || (op == AOP_ADD && b->kind == TY_STR) || (op == AOP_MUL && b->kind == TY_INT)))
        return type_str(NULL);
    if (a->kind == TY_LIST && b->kind == TY_LIST && op == AOP_ADD) {
        const Type *m[ITEMS_MAX];
        if (!a->exact || !b->exact || a->n + b->n > ITEMS_MAX)
            return type_join(type_settle(a), type_settle(b));
        for (int i = 0; i < a->n + b->n; i++)
            m[i] = i < a->n ? a->item[i] : b->item[i - a->n];
        return type_list_of(m, a->n + b->n);
    }
    if (a->kind == TY_TUPLE && b->kind == TY_TUPLE && op == AOP_ADD && a->n >= 0 && b->n >= 0 && a->n + b->n <= ITEMS_MAX) {
        const Type *m[ITEMS_MAX];
        for (int i = 0; i < a->n + b->n; i++)
            m[i] = i < a->n ? a->item[i] : b->item[i - a->n];
        return type_tuple(m, a->n + b->n);
    }
    if ((a->kind == TY_LIST || a->kind == TY_TUPLE) && b->kind == TY_INT && op == AOP_MUL)
        return repeated(a, b);
    return T_ANY;
}

/* A Maybe: what is in it may be computed with, it itself not. */
static bool no_operators(const Type *t)
{
    const Cls *c = t->kind == TY_INSTANCE ? t->ref : NULL;

    return c && c->home->library && c->name && !strcmp(c->name->text, "Maybe");
}

static const Type *binary(Check *C, int op, const Type *a, const Type *b, Ast *node)
{
    if (C->kernel && AST_IS(node, BinOp) && (kernel_is_row(C, AST_AS(node, BinOp)->left) || kernel_is_row(C, AST_AS(node, BinOp)->right)))
        return T_ANY;
    if (type_is_any(a) || type_is_any(b))
        return T_ANY;
    if (op == AOP_MOD && a->kind == TY_STR)
        percent_judged(C, a, b, node);
    if (no_operators(a) || no_operators(b)) {
        REPORT(C, E0906, node->span, "an operand", "a number or a tensor", type_text(no_operators(a) ? a : b));
        return T_ANY;
    }
    if (a->kind == TY_TENSOR || b->kind == TY_TENSOR)
        return tensor_binary(C, op, a, b, node);
    if (a->kind == TY_INSTANCE || b->kind == TY_INSTANCE)
        return object_operator(C, op, a, b, node);
    host_operands(C, op, a, b, node);
    if (is_number(a) && is_number(b))
        return number_binary(op, a, b);
    return sequence_binary(op, a, b);
}

const Type *operated(Check *C, AstBinOp *op, const Type *a, const Type *b)
{
    const Policy *policy = a->ref;

    if (a->kind == TY_DTYPE && op->op == AOP_MATMUL)
        return policy_suffix(C, (uint8_t)a->value, &policy, op->right) ? type_dtype((DType)a->value, policy) : T_ANY;
    for (int i = 0; i < 2; i++)                     /* an object may define the operator for None */
        if (type_is_any(i ? a : b) || (i ? a : b)->kind != TY_INSTANCE)
            optional_used(C, i ? op->right : op->left, "'%s' is not defined for None", ast_op_text[op->op]);
    return binary(C, (int)op->op, a, b, (Ast *)op);
}

static const Type *unary(Check *C, int op, Ast *e, Ast *node)
{
    const Type *t = op == AOP_NOT ? expr_looked(C, e) : expr(C, e);
    double number;
    int known;

    if (op == AOP_NOT) {
        truth_judged(C, e);
        known = C->kernel ? -1 : truth(C, e);
        return known < 0 ? type_of_kind(TY_BOOL) : type_bool(!known);
    }
    optional_used(C, e, "None is no number");
    if (type_is_any(t))
        return T_ANY;
    if (t->kind == TY_TENSOR)
        return op == AOP_POS ? t : tensor_unary(C, op == AOP_NEG ? OP_neg : OP_bitnot, t, node);
    host_operand(C, t, e, op == AOP_NEG ? "-" : op == AOP_POS ? "+" : "~");
    if (t->kind == TY_INT && op == AOP_NEG)
        return type_int(t->value == DIM_BAD ? DIM_BAD : dim_sub(0, t->value));
    if (op == AOP_NEG && t->kind == TY_FLOAT && type_float_value(t, &number))
        return type_float(-number);
    return t->kind == TY_FLOAT || (t->kind == TY_INT && op == AOP_POS) ? t : t->kind == TY_INT ? type_int(DIM_BAD) : T_ANY;
}

static void optional_compared(Check *C, AstOp op, const Ast *left, const Ast *right)
{
    if (op == AOP_IN || op == AOP_NOT_IN)
        optional_used(C, right, "None holds no elements");
    else if (op >= AOP_LT && op <= AOP_GE && !optional_used(C, left, "'%s' is not defined for None", ast_op_text[op]))
        optional_used(C, right, "'%s' is not defined for None", ast_op_text[op]);
}

static const Type *compare(Check *C, AstCompare *c)
{
    const Type *left = expr_looked(C, c->left), *r = type_of_kind(TY_BOOL);
    int known;

    for (int i = 0; i < c->rest.n; i++) {
        AstCompareItem *x = AST_AS(c->rest.at[i], CompareItem);
        const Type *right = expr_looked(C, x->right);
        optional_compared(C, x->op, i ? AST_AS(c->rest.at[i - 1], CompareItem)->right : c->left, x->right);
        if (x->op >= AOP_EQ && x->op <= AOP_GE && (left->kind == TY_TENSOR || right->kind == TY_TENSOR))
            r = type_is_any(left) || type_is_any(right) ? T_ANY : tensor_binary(C, (int)x->op, left, right, (Ast *)c);
        else {
            if (!type_is_any(left) && !type_is_any(right))
                host_order(C, (int)x->op, left, right, i ? AST_AS(c->rest.at[i - 1], CompareItem)->right : c->left, x->right);
            if (type_is_any(left) || type_is_any(right) || left->kind == TY_INSTANCE)
                r = x->op <= AOP_GE ? T_ANY : r;
        }
        if (c->rest.n == 1 && r->kind == TY_BOOL && !C->kernel && (known = truth_of_types(C, x->op, left, right)) >= 0)
            r = type_bool(known);
        left = right;
    }
    return r;
}

static const Type *conditional(Check *C, AstIfExp *e)
{
    int r = truth(C, e->test);
    const Type *a;

    expr(C, e->test);
    truth_judged(C, e->test);
    if (r >= 0)
        return expr(C, r ? e->body : e->orelse);
    if (C->kernel) {
        a = expr(C, e->body);
        return kernel_join(a, expr(C, e->orelse));
    }
    return flow_conditional(C, e);
}

/* One operand, of which the truth is r; later ones run only when the earlier ones allow it. */
static const Type *bool_operand(Check *C, const AstBoolOp *b, int i, int r)
{
    const Type *v;

    C->quiet += i > 0;
    v = expr(C, b->values.at[i]);
    if (i < b->values.n - 1)
        truth_judged(C, b->values.at[i]);
    C->quiet -= i > 0;
    v = r >= 0 && v->kind == TY_BOOL ? type_bool(r) : v;
    return b->op == AOP_OR && i < b->values.n - 1 ? type_some(v) : v;
}

static const Type *bool_op(Check *C, AstBoolOp *b)
{
    const Type *t = NULL, *v;
    Narrowing told = {.n = 0};
    int r;

    for (int i = 0; i < b->values.n; i++) {
        if (i) {                                    /* the one before held, or failed */
            narrow_back(&told);
            narrow_more(C, b->values.at[i - 1], b->op == AOP_AND, &told);
            narrow_take(&told);
        }
        r = truth(C, b->values.at[i]);
        if (r == (b->op == AOP_OR)) {               /* nothing after this one is looked at */
            v = expr(C, b->values.at[i]);
            v = v->kind == TY_BOOL ? type_bool(r) : v;
            t = t ? type_join(t, v) : v;
            break;
        }
        if (r >= 0 && i < b->values.n - 1) {        /* this one is never the result */
            expr(C, b->values.at[i]);
            continue;
        }
        v = bool_operand(C, b, i, r);
        t = t ? type_join(t, v) : v;
    }
    narrow_back(&told);
    return t ? t : T_ANY;
}

/* ------------------------------------------------------------- subscripts */

const Type *slice_bound(Check *C, Ast *e, const Type *left_out)
{
    const Type *t = e ? expr(C, e) : left_out;

    if (e && !type_is_any(t) && (t->kind == TY_FLOAT || t->kind == TY_STR))
        diag_help(REPORT(C, E0906, e->span, "a bound of a slice", "an int", type_text(t)),
                  t->kind == TY_STR ? "read the number in it with int(...)" : "divide with //, which gives an int, or convert with int(...)");
    return t;
}

/* t[lo:hi:step], element by element where they are known. */
static const Type *sequence_slice(Check *C, const Type *t, const AstSlice *s)
{
    const Type *lo = slice_bound(C, s->lo, T_NONE), *hi = slice_bound(C, s->hi, T_NONE), *by = slice_bound(C, s->step, type_int(1));
    const Type *m[ITEMS_MAX], *const *item;
    int64_t n = type_items(t, &item), a = 0, b = n, step = 1;
    int k = 0;

    if (n < 0 || by->kind != TY_INT || !dim_const_value(by->value, &step) || (step != 1 && step != -1) ||
        (step < 0 && (lo->kind != TY_NONE || hi->kind != TY_NONE)) ||
        (lo->kind != TY_NONE && (lo->kind != TY_INT || !dim_const_value(lo->value, &a))) ||
        (hi->kind != TY_NONE && (hi->kind != TY_INT || !dim_const_value(hi->value, &b))))
        return t->kind == TY_LIST ? type_settle(t) : type_tuple_any(element_of(t));
    a = a < 0 ? a + n < 0 ? 0 : a + n : a > n ? n : a;
    b = b < 0 ? b + n < 0 ? 0 : b + n : b > n ? n : b;
    for (; a + k < b; k++)
        m[k] = item[step < 0 ? n - 1 - k : a + k];
    return t->kind == TY_TUPLE ? type_tuple(m, k) : k ? type_list_of(m, k) : type_list(T_ANY);
}

/* x.shape[k] of a tensor with "...": the sizes around it are known from their side. */
static Dim size_around(const Ast *node, const Type *k)
{
    const AstAttribute *a = AST_IS(node, Subscript) ? AST_AS(AST_AS(node, Subscript)->value, Attribute) : NULL;
    const Type *x = AST_IS((const Ast *)a, Attribute) && !strcmp(a->attr->text, "shape") ? type_found(a->value) : NULL;
    int64_t i;

    if (!type_is_segmented(x) || k->kind != TY_INT || !dim_const_value(k->value, &i) || i >= type_front(x) || i < -type_back(x))
        return DIM_BAD;
    return x->tensor->shape[i < 0 ? type_front(x) + type_back(x) + i : i];
}

/* "abc"[3]: of a text that is known. */
static void text_index_judged(Check *C, const Type *t, const Type *index, Ast *node)
{
    int64_t k, n = 0;

    if (!t->text || type_is_any(index) || index->kind != TY_INT || !dim_const_value(index->value, &k) || C->frame->fn)
        return;
    for (uint32_t i = 0; i < t->text->len; i++)
        n += (t->text->text[i] & 0xc0) != 0x80;
    if (k < -n || k >= n)
        host_out_of_range(C, t, n, k, node);
}

const Type *subscript(Check *C, const Type *t, Ast *index, Ast *node)
{
    const Type *i;
    int64_t k;
    Dim size;

    if (!type_is_any(t) && t->kind == TY_TENSOR)
        return C->kernel ? kernel_subscript(C, t, index, node) : tensor_subscript(C, t, index, node);
    i = expr(C, index);
    if (type_is_any(t))
        return T_ANY;
    t = record_tuple(t);
    if (t->kind == TY_TUPLE && t->n < 0 && (size = size_around(node, i)) != DIM_BAD)
        return type_int(size);
    if (t->kind == TY_INSTANCE)
        return object_subscript(C, t, i, node);
    host_subscripted(C, t, i, AST_IS(node, Subscript) ? AST_AS(node, Subscript)->value : node, node);
    if (t->kind == TY_DICT && t->exact && display_is_key(i)) {
        const Type *value = type_dict_find(t, i);
        if (!value)
            host_key_missing(C, t, i, node);
        return value ? value : T_ANY;
    }
    if (t->kind == TY_DICT)
        return type_settle(t)->item[1];
    if (t->kind == TY_RANGE)
        return i->kind == TY_INT ? type_int(DIM_BAD) : index->kind == AST_Slice ? type_of_kind(TY_RANGE) : T_ANY;
    if (t->kind == TY_STR) {
        text_index_judged(C, t, i, node);
        return type_str(NULL);
    }
    if (index->kind == AST_Slice && (t->kind == TY_LIST || t->kind == TY_TUPLE))
        return sequence_slice(C, t, AST_AS(index, Slice));
    if ((t->kind == TY_TUPLE || (t->kind == TY_LIST && t->exact)) && i->kind == TY_INT && t->n >= 0 &&
        dim_const_value(i->value, &k)) {
        if (k < -t->n || k >= t->n) {
            if (t->kind == TY_TUPLE || !C->frame->fn)       /* of a list a function may mean the IndexError */
                host_out_of_range(C, t, t->n, k, node);
            return T_ANY;
        }
        return t->item[k < 0 ? k + t->n : k];
    }
    return t->kind == TY_LIST || t->kind == TY_TUPLE ? element_of(t) : T_ANY;
}

/* ------------------------------------------------------------- all expressions */

static const Type *lambda_type(Check *C, Ast *e)
{
    return type_ref(TY_FUNC, fn_make(C, e));
}

static void walk_hole(Check *C, Ast *e)
{
    AstFString *f = AST_AS(e, FString);

    for (int i = 0; i < f->parts.n; i++)
        if (AST_IS(f->parts.at[i], Hole)) {
            const Type *t = expr_looked(C, AST_AS(f->parts.at[i], Hole)->value);
            hole_judged(C, AST_AS(f->parts.at[i], Hole), t);
            if (AST_IS(AST_AS(f->parts.at[i], Hole)->spec, FString))
                walk_hole(C, AST_AS(f->parts.at[i], Hole)->spec);
        }
}

/* What an f-string says, where all that stands in it is known; NULL: it is not. */
static Sym fstring_text(const AstFString *f)
{
    StrBuf text = {0};
    Sym s;
    int i = 0;

    for (; i < f->parts.n && text.n < 200; i++) {
        const AstHole *h = AST_AS(f->parts.at[i], Hole);
        const Type *t = AST_IS(f->parts.at[i], Hole) ? type_found(h->value) : NULL;
        int64_t k;
        if (AST_IS(f->parts.at[i], Str))
            sb_write(&text, AST_AS(f->parts.at[i], Str)->value.s, AST_AS(f->parts.at[i], Str)->value.n);
        else if (!t || h->conversion || h->spec || h->debug.n)
            break;
        else if (t->kind == TY_STR && t->text)
            sb_puts(&text, t->text->text);
        else if (t->kind == TY_INT && t->value != DIM_BAD && dim_const_value(t->value, &k))
            sb_printf(&text, "%" PRId64, k);
        else
            break;
    }
    s = i == f->parts.n && text.n < 200 ? sym_n(sb_str(&text), text.n) : NULL;
    sb_done(&text);
    return s;
}

static const Type *constant(const Ast *e)
{
    switch (AST_AS(e, Const)->value) {
    case CONST_NONE: return T_NONE;
    case CONST_TRUE: case CONST_FALSE: return type_bool(AST_AS(e, Const)->value == CONST_TRUE);
    default: return T_ANY;
    }
}

/* Of a coroutine: what its function returns. */
static const Type *awaited(const Type *t)
{
    return !type_is_any(t) && t->kind == TY_OBJECT && t->item && !strcmp(t->text->text, "coroutine") ? t->item[0] : T_ANY;
}

static const Type *yields(Check *C, const Type *t)
{
    C->frame->yields = C->frame->yields ? type_join(C->frame->yields, t) : t;
    return T_ANY;
}

static const Type *walrus(Check *C, AstNamedExpr *w)
{
    const Type *t = expr(C, w->value);

    bind_target(C, w->target, C->quiet ? T_ANY : t, w->value);
    return t;
}

static const Type *bare_slice(Check *C, const AstSlice *s)
{
    Ast *part[3] = {s->lo, s->hi, s->step};

    for (int i = 0; i < 3; i++)
        if (part[i])
            expr(C, part[i]);
    return T_ANY;
}

static const Type *expr_of(Check *C, Ast *e)
{
    switch (e->kind) {
    case AST_Name: return name_type(C, AST_AS(e, Name));
    case AST_Int: return type_int(dim_const(AST_AS(e, Int)->value));
    case AST_Float: return type_float(AST_AS(e, Float)->value);
    case AST_Imag: return type_of_kind(TY_COMPLEX);
    case AST_Str: return type_str(AST_AS(e, Str)->value.n < 200 ? sym_n(AST_AS(e, Str)->value.s, AST_AS(e, Str)->value.n) : NULL);
    case AST_Bytes: return type_of_kind(TY_BYTES);
    case AST_Const: return constant(e);
    case AST_FString:
        walk_hole(C, e);
        return type_str(fstring_text(AST_AS(e, FString)));
    case AST_BinOp: {
        const Type *a = expr_looked(C, AST_AS(e, BinOp)->left);
        return operated(C, AST_AS(e, BinOp), a, expr_looked(C, AST_AS(e, BinOp)->right));
    }
    case AST_UnaryOp: return unary(C, (int)AST_AS(e, UnaryOp)->op, AST_AS(e, UnaryOp)->operand, e);
    case AST_BoolOp: return bool_op(C, AST_AS(e, BoolOp));
    case AST_Compare: return compare(C, AST_AS(e, Compare));
    case AST_Call: return call(C, AST_AS(e, Call));
    case AST_Attribute:
        if (strncmp(AST_AS(e, Attribute)->attr->text, "__", 2))
            optional_used(C, AST_AS(e, Attribute)->value, "None has no attribute '%s'", AST_AS(e, Attribute)->attr->text);
        return is_super(AST_AS(e, Attribute)->value) ? cls_super(C, AST_AS(e, Attribute)->attr, e) :
               attribute(C, expr(C, AST_AS(e, Attribute)->value), AST_AS(e, Attribute)->attr, e);
    case AST_Subscript:
        optional_used(C, AST_AS(e, Subscript)->value, "None cannot be indexed with []");
        return subscript(C, expr_looked(C, AST_AS(e, Subscript)->value), AST_AS(e, Subscript)->index, e);
    case AST_Tuple: case AST_List: case AST_Set: case AST_Dict: case AST_ListComp: case AST_SetComp: case AST_DictComp: case AST_GenExp:
        return display(C, e);
    case AST_IfExp: return conditional(C, AST_AS(e, IfExp));
    case AST_Lambda: return lambda_type(C, e);
    case AST_NamedExpr: return walrus(C, AST_AS(e, NamedExpr));
    case AST_Starred:
        expr(C, AST_AS(e, Starred)->value);
        return T_ANY;
    case AST_Await:
        return awaited(expr(C, AST_AS(e, Await)->value));
    case AST_Yield:
        return yields(C, AST_AS(e, Yield)->value ? expr(C, AST_AS(e, Yield)->value) : T_NONE);
    case AST_YieldFrom:
        return yields(C, element_of(expr(C, AST_AS(e, YieldFrom)->value)));
    case AST_Slice: return bare_slice(C, AST_AS(e, Slice));
    default:
        return T_ANY;
    }
}

/* Mistakes of shapes and dtypes: where the operands come from explains them. */
static bool about_tensors(DiagCode code)
{
    return diag_code_name(code)[2] == '3' || diag_code_name(code)[2] == '4';
}

const Type *expr(Check *C, Ast *e)
{
    const Type *t;

    if (!e || C->fuel-- <= 0 || C->depth > 1500)
        return T_ANY;
    C->depth++;
    if (C->frame->several)
        several_judged(C, e);
    C->last = NULL;
    t = expr_of(C, e);
    C->depth--;
    if (C->last && !C->last->labels.n && (e->kind == AST_Call || e->kind == AST_BinOp) && about_tensors(C->last->code))
        origins(C, C->last, e, &(Dim){DIM_BAD}, 1);
    if (!t)
        t = T_ANY;
    type_note(e, t);
    return t;
}
