/*
 * Block values: which extents go together, what an operator gives, and which
 * dtype goes where without a cast.
 */
#include "frontend/check/kernels.h"

#include <stdio.h>
#include <string.h>

const Type *kernel_block(uint8_t dtype, int rank, const Dim *shape)
{
    TType t = {.dtype = dtype, .rank = (uint8_t)rank};

    for (int i = 0; rank != RANK_UNKNOWN && i < rank; i++)
        t.shape[i] = shape[i];
    return type_tensor(&t);
}

const Type *kernel_value(const Type *t)
{
    return place_of(t) ? type_placed(t, NULL) : t;
}

bool kernel_is_scalar(const Type *t)
{
    return t->kind == TY_TENSOR ? t->tensor->rank == 0 : t->kind >= TY_BOOL && t->kind <= TY_FLOAT;
}

/* ------------------------------------------------------------- extents */

/* Which variables a size mentions: those of the schedule, those of the parameters, or ones that nobody knows. */
typedef struct { bool schedule, param, open; } Mentions;

static Mentions mentions(const Check *C, Dim d)
{
    enum { MAX = 16 };
    Mentions m = {false, false, dim_is_open(d)};
    Dim v[MAX];
    int n = dim_is_const(d) || d == DIM_BAD ? 0 : dim_vars(d, v, MAX);

    for (int i = 0; i < n; i++) {
        bool schedule = false;
        for (int f = 0; C->kernel && f < SCHED_COUNT; f++)
            schedule |= C->kernel->size[f] == v[i];
        m.schedule |= schedule;
        m.param |= !schedule;
    }
    return m;
}

/* Do they agree where every size has many divisors, as D//2 and D - D//2 do for even D? Sizes of different names are different numbers. */
static bool agree_for_even(Dim a, Dim b)
{
    static const int64_t size[] = {96, 160, 224, 352, 416, 544, 608, 736};      /* primes times 32 */
    enum { MAX = sizeof size / sizeof *size };
    Dim v[MAX], whole = dim_add(a, b);
    int n = dim_vars(whole, v, MAX);
    int64_t x, y;

    return dim_eval(a, v, size, n, &x) && dim_eval(b, v, size, n, &y) && x == y;
}

/* A number and a name may agree in some launch; two numbers, two dimensions of parameters, two sizes of a schedule do not. */
bool kernel_differ(const Check *C, Dim a, Dim b)
{
    Mentions p, q;
    DimAnswer r;

    if (a == b || a == DIM_BAD || b == DIM_BAD)
        return false;
    r = dim_eq(a, b, NULL, NULL);
    if (r == DIM_REFUTED || r != DIM_DIFFERS)
        return r == DIM_REFUTED;
    p = mentions(C, a);
    q = mentions(C, b);
    return !p.open && !q.open && p.schedule == q.schedule && p.param == q.param && !agree_for_even(a, b);
}

static void report_extents(Check *C, const TType *a, const TType *b, int axis, Ast *node)
{
    Diag *d = REPORT(C, E0606, node->span, shape_of(a), shape_of(b));
    StrBuf x = {0}, y = {0};

    dim_print(a->shape[a->rank - axis], &x);
    dim_print(b->shape[b->rank - axis], &y);
    diag_note(d, "%s and %s meet in axis %d from the end", sb_str(&x), sb_str(&y), axis);
    if (AST_IS(node, BinOp)) {
        diag_label(d, AST_AS(node, BinOp)->left->span, "%s", shape_of(a));
        diag_label(d, AST_AS(node, BinOp)->right->span, "%s", shape_of(b));
    }
    if (a->rank != b->rank)
        diag_help(d, "v[:, None] gives a block value a new axis");
    sb_done(&x);
    sb_done(&y);
}

bool kernel_extents(Check *C, const TType *a, const TType *b, TType *out, Ast *node)
{
    TType r = a->rank >= b->rank ? *a : *b;

    if (a->rank == RANK_UNKNOWN || b->rank == RANK_UNKNOWN) {
        out->rank = RANK_UNKNOWN;
        return true;
    }
    for (int i = 1; i <= a->rank && i <= b->rank; i++) {
        Dim p = a->shape[a->rank - i], q = b->shape[b->rank - i];
        if (p != 1 && q != 1 && kernel_differ(C, p, q)) {
            report_extents(C, a, b, i, node);
            out->rank = RANK_UNKNOWN;
            return false;
        }
        r.shape[r.rank - i] = p == 1 ? q : q == 1 ? p : dim_is_const(q) ? q : p;
    }
    out->rank = r.rank;
    memcpy(out->shape, r.shape, sizeof(Dim) * (size_t)r.rank);
    return true;
}

/* ------------------------------------------------------------- dtypes */

static bool strong_float(const TType *t)
{
    return !t->weak && t->dtype != DT_NONE && dtype_is_float((DType)t->dtype);
}

static bool narrower(DType from, DType into)
{
    return dtype_info[into].bits < dtype_info[from].bits || (dtype_info[into].bits == dtype_info[from].bits && from != into);
}

static void report_dtypes(Check *C, const char *what, DType value, DType into, Ast *node)
{
    Diag *d = REPORT(C, E0609, node->span, what, dtype_info[value].name, dtype_info[into].name);

    diag_help(d, "cast explicitly: tile.cast(value, %s)", dtype_info[into].name);
}

bool kernel_dtype_goes(Check *C, const char *what, const Type *value, uint8_t into, Ast *node)
{
    DType to = (DType)into, from;

    if (into == DT_NONE || type_is_any(value))
        return true;
    if (value->kind == TY_FLOAT && (dtype_is_int(to) || to == DT_bool)) {
        report_dtypes(C, what, DT_f32, to, node);
        return false;
    }
    if (value->kind != TY_TENSOR || value->tensor->dtype == DT_NONE)
        return true;
    from = (DType)value->tensor->dtype;
    if (from == to || (value->tensor->weak && dtype_is_float(from) == dtype_is_float(to)) || (dtype_is_int(from) && to != DT_bool) ||
        from == DT_bool || (dtype_is_float(from) && dtype_is_float(to) && (value->tensor->weak || !narrower(from, to))))
        return true;
    report_dtypes(C, what, from, to, node);
    return false;
}

/* ------------------------------------------------------------- operators */

/* Two floats of different dtypes meet only by a cast. */
static bool dtypes_mix(Check *C, OpId op, const TType *in, Ast *node)
{
    const char *text = AST_IS(node, BinOp) ? ast_op_text[AST_AS(node, BinOp)->op] : op_info[op].name;
    char message[96];
    Diag *d;

    if (!strong_float(&in[0]) || !strong_float(&in[1]) || in[0].dtype == in[1].dtype)
        return true;
    snprintf(message, sizeof message, "%s: %s and %s do not mix", text, dtype_info[in[0].dtype].name, dtype_info[in[1].dtype].name);
    d = REPORT(C, E0401, node->span, message);
    diag_help(d, "cast one side: tile.cast(value, %s)",
              dtype_info[narrower((DType)in[0].dtype, (DType)in[1].dtype) ? in[0].dtype : in[1].dtype].name);
    return false;
}

/* The extents by the rule of kernels, the dtype by the op's. */
const Type *kernel_elementwise(Check *C, OpId op, const TType *in, int nin, Ast *node)
{
    TType one[2], r = in[0];
    Attr at = attr_default();
    const Type *t;

    if (nin == 2 && !dtypes_mix(C, op, in, node))
        return type_tensor_unknown();
    if (nin == 2 && !kernel_extents(C, &in[0], &in[1], &r, node))
        return type_tensor_unknown();
    for (int i = 0; i < nin; i++) {
        one[i] = in[i];
        one[i].rank = 0;
    }
    t = tensor_infer(C, op, &at, one, nin, node);
    r.dtype = t->kind == TY_TENSOR ? t->tensor->dtype : DT_NONE;
    r.weak = 0;
    r.policy = NULL;
    return type_tensor(&r);
}

/* ------------------------------------------------------------- what a kernel returns */

static const char *last_word(const Ast *a)
{
    return AST_IS(a, Name) ? AST_AS(a, Name)->id->text : AST_IS(a, Attribute) ? AST_AS(a, Attribute)->attr->text : "";
}

/* The annotation of a result as it goes for one value: f32 is a number of that dtype. NULL: it says nothing, or what is not judged here. */
static const Type *returned_type(Check *C, Ast *a)
{
    const Type *t;
    DType dt;

    if (dtype_find(last_word(a), &dt))
        return kernel_block((uint8_t)dt, 0, NULL);
    if (!AST_IS(a, Subscript) || !strcmp(last_word(AST_AS(a, Subscript)->value), "KTile"))      /* which matrix stands before the axes */
        return NULL;
    t = annotation(C, a);
    return t && t->kind == TY_TENSOR ? t : NULL;
}

void kernel_returned(Check *C, const AstFunctionDef *def, const Type *t, AstReturn *r)
{
    const Type *v = kernel_value(t), *want = def->returns ? returned_type(C, def->returns) : NULL;
    const TType *a, *b;
    Diag *d;

    if (!want || !r->value || (v->kind != TY_TENSOR && v->kind != TY_TUPLE))
        return;
    a = v->kind == TY_TENSOR ? v->tensor : NULL;
    b = want->tensor;
    if (a && (a->rank == b->rank || a->rank == RANK_UNKNOWN || b->rank == RANK_UNKNOWN)) {
        if (a->dtype != DT_NONE && b->dtype != DT_NONE && !a->weak && a->dtype != b->dtype)
            report_dtypes(C, "what is returned", (DType)a->dtype, (DType)b->dtype, r->value);
        return;
    }
    d = REPORT(C, E0907, r->ast.span, def->name->text, b->rank ? type_text(want) : dtype_info[b->dtype].name, type_text(v));
    diag_label(d, def->returns->span, "declared here");
}
