/*
 * Whether a value of one type may stand where another is declared, and how it is said that it may not.
 *
 * FITS_MAYBE is what nobody knows before the program runs: it is no error.
 */
#include "frontend/check/checker.h"

#include <stdio.h>
#include <string.h>

static Fit worst(Fit a, Fit b)
{
    if (a == FITS_NOT || b == FITS_NOT)
        return FITS_NOT;
    return a == FITS_MAYBE || b == FITS_MAYBE ? FITS_MAYBE : FITS;
}

/* What a container holds is taken as it is: no policy is put on it. */
static Fit item_fits(Check *C, const Type *from, const Type *to)
{
    if (!type_is_any(from) && !type_is_any(to) && from->kind == TY_TENSOR && to->kind == TY_TENSOR && policies_differ(from->tensor, to->tensor))
        return FITS_NOT;
    return type_fits(C, from, to);
}

static Fit items_fit(Check *C, const Type *from, const Type *to, int n)
{
    Fit f = FITS;

    for (int i = 0; i < n; i++)
        f = worst(f, item_fits(C, from->item[from->n < 0 ? 0 : i], to->item[to->n < 0 ? 0 : i]));
    return f;
}

static Fit sizes_fit(Dim from, Dim to)
{
    DimAnswer a;

    if (from == to)
        return FITS;
    a = dim_eq(from, to, NULL, NULL);
    if (a == DIM_PROVED)
        return FITS;
    if (a == DIM_REFUTED)
        return FITS_NOT;
    return a == DIM_UNKNOWN || dim_is_open(from) || dim_is_open(to) ? FITS_MAYBE : FITS_NOT;
}

/* Are the sizes around "..." of both the same, as far as they face each other? */
static Fit rest_fits(const Type *a, const Type *b)
{
    const TType *from = a->tensor, *to = b->tensor;
    int nfrom = from->rank == RANK_UNKNOWN ? type_front(a) + type_back(a) : from->rank;
    int front = type_front(b), back = type_back(b), nto = front + back;
    Fit f = FITS;

    if (from->rank != RANK_UNKNOWN && nfrom < nto)
        return FITS_NOT;
    if (from->rank == RANK_UNKNOWN && front > type_front(a))
        front = type_front(a);
    if (from->rank == RANK_UNKNOWN && back > type_back(a))
        back = type_back(a);
    for (int i = 0; i < front; i++)
        f = worst(f, sizes_fit(from->shape[i], to->shape[i]));
    for (int i = 1; i <= back; i++)
        f = worst(f, sizes_fit(from->shape[nfrom - i], to->shape[nto - i]));
    return f == FITS && (front < type_front(b) || back < type_back(b)) ? FITS_MAYBE : f;
}

static Fit tensor_fits(const Type *a, const Type *b)
{
    const TType *from = a->tensor, *to = b->tensor;
    Fit f = FITS;

    if (from->dtype != DT_NONE && to->dtype != DT_NONE && from->dtype != to->dtype)
        return FITS_NOT;
    if (to->rank == RANK_UNKNOWN)
        return rest_fits(a, b);
    if (from->rank == RANK_UNKNOWN)
        return FITS_MAYBE;
    if (from->rank != to->rank)
        return FITS_NOT;
    for (int i = 0; i < to->rank; i++)
        f = worst(f, sizes_fit(from->shape[i], to->shape[i]));
    return f;
}

/* How many arguments may a function take? */
static bool takes(const Type *t, int n)
{
    const Fn *f = t->ref;
    int least = 0, most = 0;

    for (int i = 0; i < f->params.n; i++) {
        const AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->kind == PARAM_VARARGS || p->kind == PARAM_ANY)
            most = 1000;
        if (p->kind == PARAM_KWONLY && !p->dflt)
            return false;
        if (p->kind != PARAM_POSONLY && p->kind != PARAM_NORMAL)
            continue;
        most++;
        least += !p->dflt;
    }
    return n >= least && n <= most;
}

static Fit callable_fits(const Type *from, const Type *to)
{
    switch (from->kind) {
    case TY_FUNC:
        return to->n >= 0 && !takes(from, to->n) ? FITS_NOT : FITS;
    case TY_NATIVE: case TY_LIBRARY: case TY_TRANSFORM: case TY_METHOD: case TY_CLASS: case TY_CALLABLE: case TY_INSTANCE:
    case TY_DTYPE: case TY_SPACE:
        return FITS_MAYBE;
    default:
        return FITS_NOT;
    }
}

static Fit union_fits(Check *C, const Type *from, const Type *to)
{
    const Type *u = from->kind == TY_UNION ? from : to;
    int no = 0, yes = 0;

    for (int i = 0; i < u->n; i++) {
        Fit f = from->kind == TY_UNION ? type_fits(C, u->item[i], to) : type_fits(C, from, u->item[i]);
        no += f == FITS_NOT;
        yes += f == FITS;
    }
    if (no == u->n)
        return FITS_NOT;
    return (from->kind == TY_UNION ? yes == u->n : yes > 0) ? FITS : FITS_MAYBE;
}

/* Kinds that differ, from left to right: may the value still be taken? */
/* Modules and what the library keeps in objects: no tensor stands for one, as it may for a number or a sequence. */
static bool is_no_tensor(const Cls *c)
{
    static const char *const names[] = {"KVCache", "Device", "Schedule", "OptimizerState"};

    for (size_t i = 0; c->name && i < sizeof names / sizeof *names; i++)
        if (!strcmp(c->name->text, names[i]))
            return true;
    return c->is_module;
}

static Fit kinds_fit(const Type *from, const Type *to)
{
    static const int level[] = {[TY_BOOL] = 1, [TY_INT] = 2, [TY_FLOAT] = 3, [TY_COMPLEX] = 4, [TY_DTYPE] = 0};
    int a = from->kind < TY_STR ? level[from->kind] : 0, b = to->kind < TY_STR ? level[to->kind] : 0;

    if (a && b)
        return a <= b ? FITS : FITS_NOT;
    if (from->kind == TY_TENSOR && b)                /* a 0-d tensor may stand for a number */
        return from->tensor->rank == RANK_UNKNOWN || from->tensor->rank == 0 ? FITS_MAYBE : FITS_NOT;
    if (to->kind == TY_TENSOR && a)                  /* and a number for a tensor, unless that has axes */
        return to->tensor->rank == 0 || (to->tensor->rank == RANK_UNKNOWN && type_front(to) + type_back(to) == 0) ? FITS_MAYBE : FITS_NOT;
    if (from->kind == TY_INSTANCE)
        return cls_is_open(from->ref) ? FITS_MAYBE : FITS_NOT;
    if (to->kind == TY_INSTANCE && from->kind == TY_TENSOR && is_no_tensor(to->ref))
        return FITS_NOT;
    if (to->kind == TY_INSTANCE)                    /* a Path and a Device are their names, too */
        return ((const Cls *)to->ref)->home->library && (from->kind == TY_STR || from->kind >= TY_FUNC) ? FITS_MAYBE : FITS_NOT;
    if (from->kind == TY_UNSET || to->kind == TY_UNSET || from->kind >= TY_FUNC || to->kind >= TY_FUNC)
        return from->kind == TY_TENSOR || to->kind == TY_TENSOR ? FITS_NOT : FITS_MAYBE;
    return FITS_NOT;
}

/* Of a dict whose keys are known each value is held to the declaration for itself. */
static Fit dict_fits(Check *C, const Type *from, const Type *to)
{
    Fit f = items_fit(C, type_settle(from), to, to->n);

    for (int i = 1; from->exact && i < from->n; i += 2)
        f = worst(f, item_fits(C, from->item[i], to->item[1]));
    return f;
}

/* In a numerics scope products have the dtype that it stores, and declared dtypes are met by conversion: floats of any dtype fit. */
static const Type *met(const Check *C, const Type *from, const Type *to)
{
    TType t = *from->tensor;

    if (!C->mixed || t.dtype == DT_NONE || to->tensor->dtype == DT_NONE || t.dtype == to->tensor->dtype || t.rank == RANK_UNKNOWN ||
        !dtype_is_float((DType)t.dtype) || !dtype_is_float((DType)to->tensor->dtype))
        return from;
    t.dtype = to->tensor->dtype;
    return type_tensor(&t);
}

Fit type_fits(Check *C, const Type *from, const Type *to)
{
    if (from == to || type_is_any(from) || type_is_any(to))
        return FITS;
    if (from->kind == TY_UNION || to->kind == TY_UNION)
        return union_fits(C, from, to);
    if (to->kind == TY_CALLABLE)
        return callable_fits(from, to);
    if (from->kind != to->kind)
        return kinds_fit(from, to);
    switch (to->kind) {
    case TY_TENSOR:
        return tensor_fits(met(C, from, to), to);
    case TY_LIST: {
        Fit f = FITS;
        for (int i = 0; i < from->n; i++)
            f = worst(f, item_fits(C, from->item[i], type_settle(to)->item[0]));
        return f;
    }
    case TY_DICT:
        return dict_fits(C, from, type_settle(to));
    case TY_SET:
        return items_fit(C, from, to, to->n);
    case TY_TUPLE:
        if (from->n >= 0 && to->n >= 0 && from->n != to->n)
            return FITS_NOT;
        return items_fit(C, from, to, from->n < 0 || to->n < 0 ? (from->n > to->n ? from->n : to->n) < 0 ? 1 :
                         (from->n > to->n ? from->n : to->n) : to->n);
    case TY_INSTANCE:
        if (cls_derives(from->ref, to->ref))
            return FITS;
        return cls_is_open(from->ref) ? FITS_MAYBE : FITS_NOT;
    default:
        return FITS;
    }
}

/* ------------------------------------------------------------- saying why not */

static bool misfit_sizes(Check *C, Span span, const char *what, const TType *from, const TType *to)
{
    char text[64];

    if (from->rank != to->rank) {
        diag_note(REPORT(C, E0303, span, what, shape_of(to), shape_of(from)), "they have %d and %d axes", to->rank, from->rank);
        return true;
    }
    for (int i = 0; i < to->rank; i++)
        if (sizes_fit(from->shape[i], to->shape[i]) == FITS_NOT) {
            StrBuf want = {0}, got = {0};
            dim_print(to->shape[i], &want);
            dim_print(from->shape[i], &got);
            snprintf(text, sizeof text, "%d", i);
            Diag *d = REPORT(C, E0301, span, what, sb_str(&want), sb_str(&got), text);
            diag_note(d, "Expected: %s", shape_of(to));
            diag_note(d, "Received: %s", shape_of(from));
            if (dim_is_const(from->shape[i]) && dim_is_const(to->shape[i]) && i == to->rank - 1 && !strncmp(what, "argument", 8))
                diag_help(d, "add a projection: linear(x, w) with w of shape (%s, %s)", sb_str(&got), sb_str(&want));
            diag_help(d, "%s a tensor whose size at axis %d is %s", !strncmp(what, "argument", 8) ? "pass" : "give", i, sb_str(&want));
            sb_done(&want);
            sb_done(&got);
            return true;
        }
    return false;
}

Diag *report_dtype(Check *C, Span span, const char *what, const TType *from, const TType *to)
{
    CFrame *f = C->frame;
    const char *where = f->fn && f->fn->name ? f->fn->name->text : "the program";
    Diag *d = REPORT(C, E0402, span, where);

    diag_note(d, "Cannot implicitly convert from %s to %s", dtype_info[from->dtype].name, dtype_info[to->dtype].name);
    diag_note(d, "%s has type %s but %s is needed", what, dtype_info[from->dtype].name, dtype_info[to->dtype].name);
    diag_help(d, "Add explicit cast: .to(%s)", dtype_info[to->dtype].name);
    return d;
}

void report_misfit(Check *C, Span span, const char *what, const Type *from, const Type *to)
{
    char text[48];

    if (from->kind == TY_TENSOR && to->kind == TY_TENSOR) {
        const TType *a = from->tensor, *b = to->tensor;
        if (a->dtype != DT_NONE && b->dtype != DT_NONE && a->dtype != b->dtype) {
            report_dtype(C, span, what, a, b);
            return;
        }
        if (a->rank != RANK_UNKNOWN && b->rank != RANK_UNKNOWN && misfit_sizes(C, span, what, a, b))
            return;
    }
    if (from->kind == TY_FUNC && to->kind == TY_CALLABLE) {
        int n = ((const Fn *)from->ref)->params.n;
        snprintf(text, sizeof text, "a function of %d parameter%s", n, n == 1 ? "" : "s");
        REPORT(C, E0906, span, what, type_text(to), text);
        return;
    }
    REPORT(C, E0906, span, what, type_text(to), type_text(from));
}
