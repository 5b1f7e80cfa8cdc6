/*
 * Tensors: what operators, methods and functions give, by op_infer's rules.
 *
 * A rule here turns the arguments as written into an op's attributes and asks
 * op_infer.  Where a size, dtype or rank is not known the result is not known
 * either, and nothing is reported.
 */
#include "frontend/check/checker.h"

#include "frontend/check/kernels.h"
#include "frontend/check/spaces.h"
#include "frontend/check/foreign.h"
#include "frontend/check/tensorcalls.h"
#include "frontend/eval/native.h"
#include "frontend/prelude.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- operands */

/* A tensor, or a Python number as a weak 0-d one. */
static bool operand(const Type *t, TType *out)
{
    if (type_is_any(t))
        return false;
    memset(out, 0, sizeof *out);
    switch (t->kind) {
    case TY_TENSOR: *out = *t->tensor; return true;
    case TY_BOOL: out->dtype = DT_bool; break;
    case TY_INT: out->dtype = DT_int32; break;
    case TY_FLOAT: out->dtype = DT_f32; break;
    case TY_COMPLEX: out->dtype = DT_c64; break;
    case TY_UNION:                                  /* a number of one kind or another: 2 ** n */
        for (int i = 0; i < t->n; i++)
            if (t->item[i]->kind < TY_BOOL || t->item[i]->kind > TY_COMPLEX)
                return false;
        out->dtype = DT_NONE;
        break;
    default: return false;
    }
    out->weak = 1;
    return true;
}

/* An elementwise op on tensors whose axes are not known: the element type follows from those of the operands alone. */
static const Type *elements_alone(OpId op, const Attr *a, const TType *from, int nin)
{
    TType in[ITEMS_MAX], out[4];
    int nout = 0, code = 0;
    StrBuf err = {0};
    bool ok = op_info[op].family == FAM_MAP;

    for (int i = 0; i < nin; i++) {
        in[i] = from[i];
        in[i].rank = 0;
        ok = ok && in[i].dtype != DT_NONE;
    }
    memset(out, 0, sizeof out);
    ok = ok && op_infer(op, a, in, nin, out, &nout, &err, &code) && nout == 1;
    sb_done(&err);
    return ok ? type_tensor_like(&out[0]) : type_tensor_unknown();
}

static void describe_broadcast(const TType *a, const TType *b, Diag *d, bool *known, Dim *pair)
{
    int rank = a->rank > b->rank ? a->rank : b->rank;
    StrBuf x = {0}, y = {0};

    for (int i = 1; i <= a->rank && i <= b->rank; i++) {
        Dim p = a->shape[a->rank - i], q = b->shape[b->rank - i];
        DimAnswer r;
        if (p == 1 || q == 1 || p == q)
            continue;
        r = dim_eq(p, q, NULL, NULL);
        if (r != DIM_REFUTED && r != DIM_DIFFERS)
            continue;
        dim_print(p, &x);
        dim_print(q, &y);
        diag_note(d, "Cannot broadcast %s with %s", sb_str(&x), sb_str(&y));
        diag_note(d, "Shape mismatch in dimension %d: %s vs %s", rank - i, sb_str(&x), sb_str(&y));
        *known = true;
        pair[0] = p;
        pair[1] = q;
        break;
    }
    sb_done(&x);
    sb_done(&y);
}

/* When sizes are not rigid, give an example of values that make them differ. */
static void describe_witness(Dim a, Dim b, Diag *d)
{
    DimWitness w[8];
    int n = 0;
    StrBuf text = {0};

    if (dim_eq(a, b, w, &n) != DIM_DIFFERS)
        return;
    for (int i = 0; i < n; i++)
        sb_printf(&text, "%s%s = %lld", i ? ", " : "", dim_name_shown(w[i].name->text), (long long)w[i].value);
    diag_note(d, "they differ for example when %s", sb_str(&text));
    sb_done(&text);
}

/* What would make a @ b a product: one side the other way round, where that fits. */
static void help_transposed(const TType *a, const TType *b, Diag *d)
{
    const char *t = a->rank == 2 && b->rank == 2 ? "T" : "mT";
    bool right = dim_eq(a->shape[a->rank - 1], b->shape[b->rank - 1], NULL, NULL) == DIM_PROVED;
    bool left = dim_eq(a->shape[a->rank - 2], b->shape[b->rank - 2], NULL, NULL) == DIM_PROVED;

    if (right)
        diag_help(d, "transpose the right side: .%s", t);
    if (left)
        diag_help(d, "transpose the left side: .%s", t);
    if (!right && !left)
        diag_help(d, "give the sides the same inner size: the last one on the left, the last but one on the right");
}

/* a @ b of two axes at least: their inner sizes, or else the leading ones that do not broadcast. */
static void describe_product(const TType *a, const TType *b, Diag *d, Dim *pair)
{
    pair[0] = a->shape[a->rank - 1];
    pair[1] = b->shape[b->rank - 2];
    if (dims_differ(pair[0], pair[1])) {
        describe_witness(pair[0], pair[1], d);
        help_transposed(a, b, d);
        return;
    }
    for (int i = 3; i <= a->rank && i <= b->rank; i++)
        if (a->shape[a->rank - i] != 1 && b->shape[b->rank - i] != 1 && dims_differ(a->shape[a->rank - i], b->shape[b->rank - i])) {
            pair[0] = a->shape[a->rank - i];
            pair[1] = b->shape[b->rank - i];
            break;
        }
    diag_help(d, "give both sides the same leading axes, or one of them axes of size 1 there");
}

/* x + y of two dtypes: the casts that there are, with the names of the operands. */
static void help_cast(const TType *a, const TType *b, Diag *d, const Ast *node)
{
    const AstBinOp *op = AST_IS(node, BinOp) ? AST_AS(node, BinOp) : NULL;
    const char *x = op && AST_IS(op->left, Name) ? AST_AS(op->left, Name)->id->text : "the left side";
    const char *y = op && AST_IS(op->right, Name) ? AST_AS(op->right, Name)->id->text : "the right side";

    diag_help(d, "cast %s with .to(%s), or %s with .to(%s)", x, dtype_info[b->dtype].name, y, dtype_info[a->dtype].name);
}

static void report_op(Check *C, OpId op, const TType *in, int nin, const StrBuf *err, int code, Ast *node)
{
    Diag *d = REPORT(C, code == 4 ? E0401 : E0306, node->span, err->s);
    bool known = false;
    Dim pair[2] = {DIM_BAD, DIM_BAD};

    if (code == 4) {
        origins(C, d, node, pair, 1);
        if (nin == 2 && in[0].dtype != in[1].dtype && !strstr(err->s, "cast"))
            diag_help(d, "cast one side: .to(%s)", dtype_info[in[0].dtype].name);
        else if (nin == 2 && in[0].dtype != in[1].dtype)
            help_cast(&in[0], &in[1], d, node);
        else
            diag_help(d, "cast explicitly with .to(dtype)");
        return;
    }
    if (nin == 2 && op_info[op].family == FAM_MAP)
        describe_broadcast(&in[0], &in[1], d, &known, pair);
    if (op == OP_matmul && nin == 2 && in[0].rank > 1 && in[1].rank > 1)
        describe_product(&in[0], &in[1], d, pair);
    else if (known) {
        diag_help(d, "if the sizes must be equal, give them the same name or number");
        diag_help(d, "reshape or unsqueeze one side so that the axes line up");
    } else {
        diag_help(d, op == OP_conv ? "the weight is [channels out, channels in / groups, ...]" :
                                     "print the shapes before this line, or check with --shapes");
    }
    if (op == OP_conv)
        pair[0] = in[0].shape[1], pair[1] = in[1].shape[1];
    origins(C, d, node, pair, pair[1] == DIM_BAD ? 1 : 2);
}

/* Run an op's rules. Unknown parts of the operands make unknown results; only sure failures are reported. */
const Type *tensor_infer(Check *C, OpId op, const Attr *a, const TType *from, int nin, Ast *node)
{
    TType in[ITEMS_MAX], out[4];
    uint8_t known = DT_NONE;
    const TType *all[ITEMS_MAX];
    bool open = false, no_dtype = false;
    int nout = 0, code = 0;
    StrBuf err = {0};
    bool ok;

    if (nin < 1 || nin > ITEMS_MAX)
        return type_tensor_unknown();
    for (int i = 0; i < nin; i++)
        all[i] = &from[i];
    if (!policies_meet(C, op_info[op].name, all, nin, node))
        return type_tensor_unknown();
    memset(out, 0, sizeof out);
    for (int i = 0; i < nin; i++) {
        in[i] = from[i];
        if (in[i].dtype != DT_NONE && !in[i].weak)
            known = in[i].dtype;
    }
    for (int i = 0; i < nin; i++) {
        if (in[i].rank == RANK_UNKNOWN)
            return elements_alone(op, a, from, nin);
        open |= ttype_is_open(&in[i]) && in[i].dtype != DT_NONE;
        for (int k = 0; k < in[i].rank; k++)
            open |= dim_is_open(in[i].shape[k]) || (C->lenient && !dim_is_const(in[i].shape[k]));
        if (in[i].dtype == DT_NONE) {
            no_dtype = true;
            in[i].dtype = known != DT_NONE ? known : DT_f32;
        }
    }
    ok = op_infer(op, a, in, nin, out, &nout, &err, &code);
    if (!ok && (!open || operands_conflict(C, op, in, nin)) && !(no_dtype && code == 4) && !(C->mixed && code == 4)) {
        report_op(C, op, in, nin, &err, code, node);
        open = false;
    }
    sb_done(&err);
    if (!ok && open && code != 4 && operands_agreed(C, op, in, nin)) {       /* when it runs they agree */
        ok = op_infer(op, a, in, nin, out, &nout, &err, &code);
        sb_done(&err);
    }
    if (!ok)
        return type_tensor_unknown();
    if (no_dtype && op_info[op].family != FAM_MAKE && out[0].dtype != DT_bool && out[0].dtype != DT_int32)
        out[0].dtype = DT_NONE;
    if (C->mixed)                                   /* a scope may store products elsewhere */
        out[0].policy = NULL;
    return nout == 1 ? type_tensor(&out[0]) : T_ANY;
}

/* ------------------------------------------------------------- operators */

/* In the vectors' own shapes: op_infer would tell those of the matrices that they are taken as. */
static void report_inner(Check *C, const TType *a, const TType *b, Dim left, Dim right, Ast *node)
{
    StrBuf text = {0};
    Diag *d;

    sb_printf(&text, "%s @ %s: inner sizes ", shape_of(a), shape_of(b));
    dim_print(left, &text);
    sb_puts(&text, " and ");
    dim_print(right, &text);
    sb_puts(&text, " differ");
    d = REPORT(C, E0306, node->span, sb_str(&text));
    diag_help(d, "the last axis of the left side meets the first of a vector, the second to last of a matrix");
    origins(C, d, node, (Dim[]){left, right}, 2);
    sb_done(&text);
}

/* A vector on the left is a row, on the right a column, whose axis of 1 the result does not have. */
static const Type *matmul(Check *C, TType *a, TType *b, Ast *node)
{
    Attr at = attr_default();
    TType in[2] = {*a, *b}, t;
    const Type *r;
    bool row = a->rank == 1, col = b->rank == 1;
    Dim left, right;

    if (!policies_meet(C, "@", (const TType *[]){a, b}, 2, node))
        return type_tensor_unknown();
    if (a->rank == RANK_UNKNOWN || b->rank == RANK_UNKNOWN)
        return a->dtype == b->dtype && !C->mixed ? type_tensor_like(a->policy ? a : b) : type_tensor_unknown();
    if (!a->rank || !b->rank) {
        REPORT(C, E0306, node->span, "@ needs tensors with at least one axis; use * to scale");
        return type_tensor_unknown();
    }
    left = a->shape[a->rank - 1];
    right = b->shape[col ? 0 : b->rank - 2];
    if ((row || col) && !C->lenient && dims_differ(left, right)) {
        report_inner(C, a, b, left, right, node);
        return type_tensor_unknown();
    }
    if (row) {
        in[0].rank = 2;
        in[0].shape[1] = a->shape[0];
        in[0].shape[0] = 1;
    }
    if (col) {
        in[1].rank = 2;
        in[1].shape[1] = 1;
    }
    r = tensor_infer(C, OP_matmul, &at, in, 2, node);
    if (r->kind != TY_TENSOR || r->tensor->rank == RANK_UNKNOWN)
        return r;
    t = *r->tensor;
    if (col)
        t.rank--;
    if (row) {
        if (!col)
            t.shape[t.rank - 2] = t.shape[t.rank - 1];
        t.rank--;
    }
    return type_tensor(&t);
}

static int op_of(int ast_op)
{
    static const int ops[] = {
        [AOP_ADD] = OP_add, [AOP_SUB] = OP_sub, [AOP_MUL] = OP_mul, [AOP_DIV] = OP_div, [AOP_FLOORDIV] = OP_floordiv,
        [AOP_MOD] = OP_mod, [AOP_POW] = OP_pow, [AOP_LSHIFT] = OP_shl, [AOP_RSHIFT] = OP_shr, [AOP_BITAND] = OP_bitand,
        [AOP_BITOR] = OP_bitor, [AOP_BITXOR] = OP_bitxor, [AOP_EQ] = OP_eq, [AOP_NE] = OP_ne, [AOP_LT] = OP_lt,
        [AOP_LE] = OP_le, [AOP_GT] = OP_gt, [AOP_GE] = OP_ge,
    };

    return ast_op < (int)(sizeof ops / sizeof *ops) ? ops[ast_op] : -1;
}

/* Types that no tensor operator takes. */
static bool never_operand(const Type *t)
{
    if (type_is_any(t))
        return false;
    if (t->kind == TY_INSTANCE)
        return ((const Cls *)t->ref)->is_module && !cls_is_open(t->ref) && ((const Cls *)t->ref)->home->space == NULL;
    return t->kind == TY_STR || t->kind == TY_NONE || t->kind == TY_DICT || t->kind == TY_FUNC || t->kind == TY_CLASS || t->kind == TY_LIST ||
           t->kind == TY_TUPLE || t->kind == TY_SET;
}

static void help_operand(Diag *d, const Type *bad, const Ast *node)
{
    if (bad->kind == TY_LIST || bad->kind == TY_TUPLE)
        diag_help(d, "make a tensor of it: tensor(...)");
    else if (bad->kind == TY_FUNC)
        diag_help(d, "call it first");
    else if (bad->kind == TY_NONE)
        diag_help(d, "give the variable a value first; a function without return gives None");
    else if (bad->kind == TY_STR && AST_IS(node, BinOp) && AST_AS(node, BinOp)->op == AOP_ADD)
        diag_help(d, "put the value into the text: f\"... {value}\"");
}

/* An operation of operands of which one may have "...": which one, and where it stands. */
typedef struct { int op; Ast *node; } Operator;

static const Type *binary_segmented(Check *C, CallArgs *a, const void *with)
{
    return tensor_binary(C, ((const Operator *)with)->op, a->at[0].type, a->at[1].type, ((const Operator *)with)->node);
}

static const Type *unary_segmented(Check *C, CallArgs *a, const void *with)
{
    return tensor_unary(C, (OpId)((const Operator *)with)->op, a->at[0].type, ((const Operator *)with)->node);
}

const Type *tensor_binary(Check *C, int op, const Type *a, const Type *b, Ast *node)
{
    TType in[2];
    Attr at = attr_default();
    int id = op_of(op);
    CallArg arg[2] = {{NULL, a, node, 0}, {NULL, b, node, 0}};
    const Type *r;

    if (op != AOP_EQ && op != AOP_NE && (never_operand(a) || never_operand(b))) {
        const Type *bad = never_operand(a) ? a : b;
        char text[160];
        snprintf(text, sizeof text, "beside a tensor stands a tensor or a number, not %s", type_text(bad));
        help_operand(REPORT(C, E0401, node->span, text), bad, node);
        return T_ANY;
    }
    if (segments_infer(C, &(CallArgs){arg, 2, false}, binary_segmented, &(Operator){op, node}, &r))
        return r;
    if (!operand(a, &in[0]) || !operand(b, &in[1]))
        return T_ANY;
    if (op == AOP_MATMUL)
        return matmul(C, &in[0], &in[1], node);
    if (C->kernel && id >= 0)
        return kernel_elementwise(C, (OpId)id, in, 2, node);
    return id < 0 ? T_ANY : tensor_infer(C, (OpId)id, &at, in, 2, node);
}

const Type *tensor_op2(Check *C, OpId op, const Type *a, const Type *b, Ast *node)
{
    TType in[2];
    Attr at = attr_default();

    if (!operand(a, &in[0]) || !operand(b, &in[1]) || (a->kind != TY_TENSOR && b->kind != TY_TENSOR))
        return T_ANY;
    if (C->kernel)
        return kernel_elementwise(C, op, in, 2, node);
    return tensor_infer(C, op, &at, in, 2, node);
}

const Type *tensor_op3(Check *C, OpId op, const Type *a, const Type *b, const Type *c, Ast *node)
{
    TType in[3];
    Attr at = attr_default();

    if (C->kernel || !operand(a, &in[0]) || !operand(b, &in[1]) || !operand(c, &in[2]))
        return T_ANY;
    return tensor_infer(C, op, &at, in, 3, node);
}

const Type *tensor_unary(Check *C, OpId op, const Type *a, Ast *node)
{
    TType in;
    Attr at = attr_default();
    const Type *r;

    if (segments_infer(C, &(CallArgs){&(CallArg){NULL, a, node, 0}, 1, false}, unary_segmented, &(Operator){(int)op, node}, &r))
        return r;
    return operand(a, &in) ? tensor_infer(C, op, &at, &in, 1, node) : T_ANY;
}

/* ------------------------------------------------------------- attributes */

static const Type *shape_tuple(const TType *t)
{
    const Type *m[16];

    if (t->rank == RANK_UNKNOWN)
        return type_tuple_any(type_int(DIM_BAD));
    for (int i = 0; i < t->rank; i++)
        m[i] = type_int(t->shape[i]);
    return type_tuple(m, t->rank);
}

static const Type *reversed(const TType *t, int last)
{
    TType r = *t;
    int n = t->rank;

    if (n == RANK_UNKNOWN || n < 2)
        return type_tensor(&r);
    if (!last)
        for (int i = 0; i < n; i++)
            r.shape[i] = t->shape[n - 1 - i];
    else {
        r.shape[n - 1] = t->shape[n - 2];
        r.shape[n - 2] = t->shape[n - 1];
    }
    return type_tensor(&r);
}

static const char *const plain_attributes[] = {"shape", "dtype", "ndim", "size", "nbytes", "T", "mT", "device", "grad", "real", "imag",
                                               "placement", "policy", "requires_grad", "is_leaf", "data", "mesh", "spec", "local_shape", "global_shape",
                                               "memory", "part", "at", "layout", "H", "itemsize", "space"};

bool tensor_knows(Sym attr)
{
    for (size_t i = 0; i < sizeof plain_attributes / sizeof *plain_attributes; i++)
        if (!strcmp(plain_attributes[i], attr->text))
            return true;
    return native_find("Tensor", attr->text) != NULL;
}

typedef struct { int stage, table, row; } Members;

static const char *next_member(void *state)
{
    Members *m = state;

    if (m->stage < (int)(sizeof plain_attributes / sizeof *plain_attributes))
        return plain_attributes[m->stage++];
    for (; native_tables[m->table]; m->table++, m->row = 0)
        while (native_tables[m->table][m->row].name) {
            const NativeDef *d = &native_tables[m->table][m->row++];
            if (!strcmp(d->owner, "Tensor") || !*d->owner)
                return d->name;
        }
    return NULL;
}

/* Is this a function that every program can call? */
static bool is_function(Check *C, Sym name)
{
    int row = prelude_find(name);
    const Type *t = row >= 0 ? prelude_type(C, row) : T_ANY;

    return t->kind == TY_FUNC || t->kind == TY_LIBRARY || t->kind == TY_NATIVE;
}

/* PyTorch's x.exp_(), which changes x: the method without the line at the end; NULL: there is none. */
static Sym without_line(Sym attr)
{
    Sym stem = attr->len > 1 && attr->text[attr->len - 1] == '_' ? sym_n(attr->text, attr->len - 1) : NULL;

    return stem && (native_find("Tensor", stem->text) || prelude_method(stem) >= 0) ? stem : NULL;
}

static const Type *missing(Check *C, Sym attr, Ast *node)
{
    Members m = {0};
    int calls = C->calls;
    const Foreign *known = foreign_find("Tensor", attr->text);
    const char *near;
    Diag *d;

    for (size_t i = 0; i < sizeof plain_attributes / sizeof *plain_attributes; i++)
        if (!strcmp(plain_attributes[i], attr->text))
            return T_ANY;
    if (!strncmp(attr->text, "__", 2))
        return T_ANY;
    C->calls = 0;                                   /* about a tensor: said of bodies that are followed, too */
    d = REPORT(C, E0910, node->span, "Tensor", attr->text);
    C->calls = calls;
    if (!C->shown)
        return T_ANY;                               /* walked again: not worth a guess */
    near = known ? NULL : closest_name(attr->text, next_member, &m);
    if (known) {
        foreign_help(d, known, span_tail(node->span, attr->text));
    } else if (without_line(attr)) {
        diag_help(d, "tensors are values: write x = x.%s(...)", without_line(attr)->text);
    } else if (is_function(C, attr)) {
        diag_help(d, "it is a function, no method: %s(x)", attr->text);
    } else if (near)
        diag_guess(d, span_tail(node->span, attr->text), attr->text, near);
    return T_ANY;
}

static Dim elements(const TType *x)
{
    Dim n = 1;

    if (x->rank == RANK_UNKNOWN)
        return DIM_BAD;
    for (int i = 0; i < x->rank; i++)
        n = dim_mul(n, x->shape[i]);
    return n;
}

typedef struct { Sym attr; Ast *node; } Attribute;

static const Type *attribute_segmented(Check *C, CallArgs *a, const void *with)
{
    return tensor_attribute(C, a->at[0].type, ((const Attribute *)with)->attr, ((const Attribute *)with)->node);
}

const Type *tensor_attribute(Check *C, const Type *t, Sym attr, Ast *node)
{
    const TType *x = t->tensor;
    const char *s = attr->text;
    const NativeDef *d;
    const Type *r;
    int row;

    if (!strcmp(s, "shape"))
        return shape_tuple(x);
    if (!strcmp(s, "ndim"))
        return type_int(x->rank == RANK_UNKNOWN ? DIM_BAD : x->rank);
    if (!strcmp(s, "dtype"))
        return x->dtype == DT_NONE ? T_ANY : type_dtype((DType)x->dtype, NULL);
    if (!strcmp(s, "policy"))
        return x->dtype != DT_NONE ? type_dtype((DType)x->dtype, x->policy) : T_ANY;
    if ((!strcmp(s, "T") || !strcmp(s, "mT")) &&
        segments_infer(C, &(CallArgs){&(CallArg){NULL, t, node, 0}, 1, false}, attribute_segmented, &(Attribute){attr, node}, &r))
        return r;
    if (!strcmp(s, "T"))
        return reversed(x, false);
    if (!strcmp(s, "mT"))
        return reversed(x, true);
    if (!strcmp(s, "real") || !strcmp(s, "imag"))
        return tensor_unary(C, *s == 'r' ? OP_real : OP_imag, t, node);
    if (!strcmp(s, "size"))
        return type_int(elements(x));
    if (!strcmp(s, "nbytes"))
        return T_ANY;                               /* also callable */
    if (!strcmp(s, "at") && !C->kernel)
        return call_type(C, space_type(C, space_builtin("updates"), sym("at_of")), &(CallArgs){&(CallArg){NULL, t, node, 0}, 1, false}, node);
    d = native_find("Tensor", s);
    if (d && (!d->sig || d->sig[0] != '('))
        return T_ANY;
    if (d)
        return type_method(t, type_ref(TY_NATIVE, d));
    row = prelude_method(attr);
    if (row >= 0)
        return type_method(t, prelude_type(C, row));
    return missing(C, attr, node);
}
