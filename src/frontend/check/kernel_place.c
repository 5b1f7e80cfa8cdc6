/*
 * Memory in kernels: what an index or a slice of it is, and what may be stored there.
 *
 * An index of every dimension gives an element.  A slice is a view whose extent
 * is exactly what is written: what lies outside the tensor reads as zero and is
 * not stored, so nothing is clipped to it.
 */
#include "frontend/check/kernels.h"

#include <stdio.h>
#include <string.h>

static AstSeq indices_of(Ast **index)
{
    return AST_IS(*index, Tuple) ? AST_AS(*index, Tuple)->elts : (AstSeq){index, 1};
}

static bool is_none(const Ast *e) { return ast_is_const(e, CONST_NONE); }
static bool is_ellipsis(const Ast *e) { return ast_is_const(e, CONST_ELLIPSIS); }

/* The variable below bufs[0][i]. */
static Ast *root_of(Ast *e)
{
    while (AST_IS(e, Subscript))
        e = AST_AS(e, Subscript)->value;
    return e;
}

/* ------------------------------------------------------------- slices */

/* A number that is negative as it stands counts from the end. */
static Dim bound(Check *C, Ast *e, Dim missing, Dim size)
{
    const Type *t = e ? expr(C, e) : NULL;
    int64_t n;

    if (!t)
        return missing;
    if (t->kind != TY_INT)
        return DIM_BAD;
    if (t->value == DIM_BAD || !dim_const_value(t->value, &n) || n >= 0)
        return t->value;
    return size == DIM_BAD ? DIM_BAD : dim_add(t->value, size);
}

/* hi - lo; also where both are unknown but hi is written as lo + something. */
static Dim written_extent(const AstSlice *s)
{
    const AstBinOp *b = AST_AS(s->hi, BinOp);
    const Type *more = s->lo && AST_IS(s->hi, BinOp) && b->op == AOP_ADD ? type_found(b->right) : NULL;

    return more && more->kind == TY_INT && ast_equal(b->left, s->lo) ? more->value : DIM_BAD;
}

/* *steps: it is every other element, or in reverse, which is a value and no memory. */
static Dim slice_extent(Check *C, const AstSlice *s, Dim size, Ast *node, bool *steps)
{
    Dim lo = bound(C, s->lo, 0, size), hi = bound(C, s->hi, size, size), extent;
    int64_t step = 1, n;

    if (s->step) {
        const Type *t = expr(C, s->step);
        *steps = true;
        if (t->kind != TY_INT || t->value == DIM_BAD || !dim_const_value(t->value, &step) || !step)
            return kernel_unknown();
        *steps = step != 1;
        if (step < 0)
            return s->lo || s->hi || size == DIM_BAD ? kernel_unknown() : dim_cdiv(size, -step);
    }
    extent = lo == DIM_BAD || hi == DIM_BAD ? DIM_BAD : dim_sub(hi, lo);
    if (extent == DIM_BAD || dim_is_open(extent)) {
        Dim written = written_extent(s);
        extent = written != DIM_BAD ? written : extent;
    }
    if (extent == DIM_BAD)
        return kernel_unknown();
    if (dim_const_value(extent, &n) && n <= 0 && dim_is_const(lo) && dim_is_const(hi)) {
        StrBuf b = {0};
        ast_print((Ast *)s, &b);
        REPORT(C, E0621, node->span, sb_str(&b));
        sb_done(&b);
        return kernel_unknown();
    }
    return step == 1 ? extent : dim_cdiv(extent, step);
}

/* ------------------------------------------------------------- indices */

typedef enum { INDEX_ELEMENT, INDEX_MANY, INDEX_UNKNOWN, INDEX_WRONG } IndexKind;

/* What one index that is no slice selects. */
static IndexKind index_kind(Check *C, Ast *e, const Type *k)
{
    const TType *t = k->kind == TY_TENSOR ? k->tensor : NULL;

    if (type_is_any(k))
        return INDEX_UNKNOWN;
    if (k->kind == TY_INT || k->kind == TY_BOOL)
        return INDEX_ELEMENT;
    if (k->kind == TY_FLOAT || k->kind == TY_STR || k->kind == TY_NONE || k->kind == TY_DTYPE || k->kind == TY_LIST ||
        (t && t->dtype != DT_NONE && dtype_is_float((DType)t->dtype))) {
        Diag *d = REPORT(C, E0611, e->span, type_text(k));
        if (AST_IS(e, BinOp) && AST_AS(e, BinOp)->op == AOP_DIV)
            diag_help(d, "// divides ints, / gives a float");
        else
            diag_help(d, "int(x) makes an int of a number");
        return INDEX_WRONG;
    }
    if (t && t->rank == 0)
        return INDEX_ELEMENT;
    return t ? INDEX_MANY : INDEX_UNKNOWN;
}

static void check_range(Check *C, const Type *k, Dim size, int axis, Ast *e)
{
    int64_t i, n;
    char text[128];

    if (k->kind != TY_INT || k->value == DIM_BAD || !dim_const_value(k->value, &i) || !dim_is_const(size) ||
        !dim_const_value(size, &n) || (i < n && i >= -n))
        return;
    snprintf(text, sizeof text, "index %lld is out of range for axis %d, whose size is %lld", (long long)i, axis, (long long)n);
    REPORT(C, E0306, e->span, text);
}

static const Type *too_many(Check *C, const TType *x, int used, Ast *node)
{
    char count[24], rank[24];

    snprintf(count, sizeof count, "%d", used);
    snprintf(rank, sizeof rank, "%d", x->rank);
    REPORT(C, E0307, node->span, count, shape_of(x), rank);
    return type_tensor_unknown();
}

const Type *kernel_subscript(Check *C, const Type *t, Ast *index, Ast *node)
{
    AstSeq list = indices_of(&index);
    const TType *x = t->tensor;
    TType r = {.dtype = x->dtype, .rank = 0};
    const Type *made;
    int used = 0, at = 0;
    bool vague = x->rank == RANK_UNKNOWN, stepped = false, steps = false;

    for (int i = 0; i < list.n; i++)
        used += !is_none(list.at[i]) && !is_ellipsis(list.at[i]);
    if (!vague && used > x->rank)
        return too_many(C, x, used, node);
    for (int i = 0; i < list.n && r.rank < 15; i++) {
        Ast *e = list.at[i];
        const Type *k;
        if (is_none(e)) {
            r.shape[r.rank++] = 1;
        } else if (is_ellipsis(e)) {
            for (; !vague && at + used < x->rank && r.rank < 15; at++)
                r.shape[r.rank++] = x->shape[at];
        } else if (AST_IS(e, Slice)) {
            r.shape[r.rank++] = slice_extent(C, AST_AS(e, Slice), vague ? DIM_BAD : x->shape[at], e, &steps);
            stepped |= steps;
            at++, used--;
        } else {
            k = expr(C, e);
            switch (index_kind(C, e, k)) {
            case INDEX_ELEMENT:
                if (!vague)
                    check_range(C, k, x->shape[at], at, e);
                break;
            case INDEX_WRONG:
                return type_tensor_unknown();
            default:
                vague = true;
            }
            at++, used--;
        }
    }
    for (; !vague && at < x->rank && r.rank < 15; at++)
        r.shape[r.rank++] = x->shape[at];
    made = vague ? kernel_block(x->dtype, RANK_UNKNOWN, NULL) : type_tensor(&r);
    return t->ref && !stepped && (vague || r.rank) ? type_placed(made, t->ref) : made;
}

/* ------------------------------------------------------------- rows where an element is needed */

/* Indices of ints alone, fewer than the dimensions: a row. */
static bool is_row(const Ast *e)
{
    const AstSubscript *s = AST_AS(e, Subscript);
    const Type *t = AST_IS(e, Subscript) ? type_found(e) : NULL, *base;
    Ast *index;
    AstSeq list;

    if (type_is_any(t) || t->kind != TY_TENSOR || !t->ref)
        return false;
    base = type_found(s->value);
    index = s->index;
    list = indices_of(&index);
    for (int i = 0; i < list.n; i++)
        if (AST_IS(list.at[i], Slice) || is_none(list.at[i]) || is_ellipsis(list.at[i]))
            return false;
    return t->tensor->rank != RANK_UNKNOWN && t->tensor->rank > 0 && !type_is_any(base) && base->kind == TY_TENSOR;
}

static void report_row(Check *C, const Ast *e)
{
    const AstSubscript *s = AST_AS(e, Subscript);
    Ast *index = s->index;
    char given[24], need[24];
    StrBuf b = {0};
    Diag *d;

    ast_print(s->value, &b);
    snprintf(given, sizeof given, "%d", indices_of(&index).n);
    snprintf(need, sizeof need, "%d", type_found(s->value)->tensor->rank);
    d = REPORT(C, E0610, e->span, sb_str(&b), need, shape_of(type_found(s->value)->tensor), given);
    diag_help(d, "index every dimension, or tile.load the row as a block value");
    sb_done(&b);
}

bool kernel_is_row(Check *C, Ast *e)
{
    if (!is_row(e))
        return false;
    report_row(C, e);
    return true;
}

/* ------------------------------------------------------------- stores */

bool kernel_is_captured(Ast *e)
{
    Ast *root = root_of(e);
    const AstName *n = AST_AS(root, Name);

    return AST_IS(root, Name) && (n->bind == BIND_GLOBAL || n->bind == BIND_FREE || n->bind == BIND_PRELUDE);
}

bool kernel_is_own(Check *C, Ast *e, Ast *node)
{
    Ast *root = root_of(e);

    if (!kernel_is_captured(e))
        return true;
    diag_help(REPORT(C, E0613, node->span, AST_AS(root, Name)->id->text),
              "pass it as a parameter: what a kernel leaves in a parameter comes back to the caller");
    return false;
}

static bool kernel_may_store(Check *C, Ast *e, const Type *t, Ast *node)
{
    Ast *root = root_of(e);
    const char *name = AST_IS(root, Name) ? AST_AS(root, Name)->id->text : "it";
    Diag *d;

    if (!kernel_is_own(C, e, node))
        return false;
    if (type_is_any(t) || t->kind != TY_TENSOR || t->ref)
        return true;
    if (t->tensor->rank == 0 && AST_IS(e, Subscript))       /* an element of a place */
        return true;
    if (t->tensor->rank == RANK_UNKNOWN)
        return true;
    d = REPORT(C, E0612, node->span, name, shape_of(t->tensor));
    diag_help(d, "where(condition, a, b) makes a changed one; tile.alloc_shared and tile.alloc_register give arrays");
    return false;
}

const char *kernel_by_steps(Ast *e)
{
    AstSubscript *s = AST_AS(e, Subscript);
    AstSeq list = AST_IS(e, Subscript) ? indices_of(&s->index) : (AstSeq){0};

    for (int i = 0; i < list.n; i++)
        if (AST_IS(list.at[i], Slice) && AST_AS(list.at[i], Slice)->step)
            return "memory by steps is loaded and not stored to: store one row or element a round of a loop, or what belongs together as one block, "
                   "stack([a, b], dim=1).reshape(...)";
    return NULL;
}

static void report_stored(Check *C, const TType *value, const TType *place, Ast *node)
{
    REPORT(C, E0608, node->span, shape_of(value), shape_of(place));
}

/* base[index] = value */
void kernel_store(Check *C, AstSubscript *s, const Type *base, const Type *value)
{
    Ast *node = (Ast *)s;
    const Type *place;

    if (!kernel_may_store(C, s->value, base, node) || !kernel_takes(C, value, node))
        return;
    place = kernel_subscript(C, base, s->index, node);
    type_note(node, place);
    if (kernel_by_steps(node) && place->kind == TY_TENSOR && place->tensor->rank != RANK_UNKNOWN && !place->ref) {
        StrBuf text = {0};
        ast_print(node, &text);
        diag_help(REPORT(C, E0612, node->span, sb_str(&text), shape_of(place->tensor)), "%s", kernel_by_steps(node));
        sb_done(&text);
        return;
    }
    if (place->kind != TY_TENSOR || place->tensor->rank == RANK_UNKNOWN || type_is_any(value))
        return;
    if (value->kind == TY_TENSOR && value->tensor->rank != RANK_UNKNOWN && value->tensor->rank > place->tensor->rank) {
        report_stored(C, value->tensor, place->tensor, node);
        return;
    }
    if (kernel_is_scalar(value) && is_row(node)) {
        report_row(C, node);
        return;
    }
    if (value->kind == TY_TENSOR && value->tensor->rank != RANK_UNKNOWN)
        for (int i = 1; i <= value->tensor->rank; i++)
            if (kernel_differ(C, value->tensor->shape[value->tensor->rank - i], place->tensor->shape[place->tensor->rank - i])) {
                report_stored(C, value->tensor, place->tensor, node);
                return;
            }
    kernel_dtype_goes(C, "this store", value, place->tensor->dtype, node);
}
