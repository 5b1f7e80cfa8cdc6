/* Lookups, windows and contractions of networks. */
#include "frontend/check/tensorcalls.h"

#include <inttypes.h>
#include <stdio.h>
#include <ctype.h>
#include <string.h>

/* table[ids]: the shape of the ids, then the rest of the table. */
const Type *rule_lookup(TCall *c)
{
    const TType *t = tcall_tensor(c, 0), *ids = tcall_tensor(c, 1);
    bool swapped = c->rule->op == 1;
    const CallArg *a = tcall_arg(c, 2, "axis", "dim");
    TType r;
    int k = 0;

    if (swapped && t && ids && t->dtype != DT_NONE && dtype_is_int((DType)t->dtype) && ids->dtype != DT_NONE &&
        !dtype_is_int((DType)ids->dtype)) {
        const TType *x = t;
        t = ids;
        ids = x;
    }
    if (ids && tcall_not_index(c, ids))
        return t ? tensor_of_dtype(t) : T_ANY;
    if (!t || !ids || t->rank == RANK_UNKNOWN || ids->rank == RANK_UNKNOWN || !t->rank || t->rank + ids->rank > 16)
        return t ? tensor_of_dtype(t) : T_ANY;
    if (a && (k = tcall_axis(c, t, a)) < 0)
        return tensor_of_dtype(t);
    r = *t;
    r.rank = 0;
    for (int i = 0; i < k; i++)
        r.shape[r.rank++] = t->shape[i];
    for (int i = 0; i < ids->rank; i++)
        r.shape[r.rank++] = ids->shape[i];
    for (int i = k + 1; i < t->rank; i++)
        r.shape[r.rank++] = t->shape[i];
    return type_tensor(&r);
}

/* index_select(x, axis, index) is take(x, index, axis). */
const Type *rule_index_select(TCall *c)
{
    const CallArg *axis = tcall_arg(c, 1, "axis", "dim"), *index = tcall_arg(c, 2, "index", NULL);
    CallArg turned[3];
    TCall take = *c;

    if (c->open || c->n != 3 || !axis || !index)
        return T_ANY;
    turned[0] = c->at[0];
    turned[1] = (CallArg){NULL, index->type, index->node, 0};
    turned[2] = (CallArg){NULL, axis->type, axis->node, 0};
    take.at = turned;
    return rule_lookup(&take);
}

const Type *rule_one_hot(TCall *c)
{
    const TType *ids = tcall_tensor(c, 0);
    const CallArg *n = tcall_arg(c, 1, "num_classes", "n");
    TType r;

    if (!ids || tcall_not_index(c, ids) || ids->rank == RANK_UNKNOWN || ids->rank > 15 || !n)
        return tensor_unknown();
    r = *ids;
    r.dtype = DT_f32;
    r.policy = NULL;
    r.shape[r.rank++] = size_of_type(n->type);
    return type_tensor(&r);
}

/* ------------------------------------------------------------- einsum */

/* Are there as many operands as the text names, and is each letter of the result there once? false: not so, reported. */
static bool einsum_counts(TCall *c, const char *s, const char *arrow)
{
    int named = 1, given = c->n - 1;
    char text[96];

    for (const char *p = s; p < arrow; p++)
        named += *p == ',';
    if (!c->open && named != given && !(given == 1 && (type_is_any(c->at[1].type) || c->at[1].type->kind != TY_TENSOR))) {
        snprintf(text, sizeof text, "einsum: \"%.20s\" names %d operand%s, %d %s given", s, named, named == 1 ? "" : "s", given,
                 given == 1 ? "is" : "are");
        diag_help(REPORT(c->C, E0306, c->node->span, text), "the letters of each operand stand between commas: \"ij,jk->ik\" has two");
        return false;
    }
    for (const char *p = arrow + 2; *p; p++)
        if (isalpha((unsigned char)*p) && strchr(p + 1, *p)) {
            snprintf(text, sizeof text, "einsum: \"%.20s\" gives %c twice", s, *p);
            diag_help(REPORT(c->C, E0306, c->node->span, text), "each letter of the result stands there once; diag(x) puts a vector on a diagonal");
            return false;
        }
    return true;
}

enum { LETTERS = 128, EINSUM_MAX = 256 };

/* The size that the letter stands for; NULL: it is none. */
static Dim *size_of_letter(Dim *size, char letter) { return (unsigned char)letter < LETTERS ? &size[(unsigned char)letter] : NULL; }

/* One more axis of the letter: of the size it has, or one of them is 1. false: reported. */
static bool einsum_letter(TCall *c, char letter, Dim *have, Dim d)
{
    DimAnswer a = *have == DIM_BAD ? DIM_PROVED : dim_eq(*have, d, NULL, NULL);
    StrBuf e = {0};

    if ((a != DIM_REFUTED && a != DIM_DIFFERS) || *have == 1 || d == 1 || dim_is_open(*have) || dim_is_open(d)) {
        *have = *have == DIM_BAD || *have == 1 ? d : *have;
        return true;
    }
    sb_printf(&e, "einsum: letter %c stands for sizes ", letter);
    dim_print(*have, &e);
    sb_puts(&e, " and ");
    dim_print(d, &e);
    diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&e)), "a letter is one size in all operands: use another one, or pass axes of one size");
    sb_done(&e);
    return false;
}

/* The operands' letters and their sizes, from s up to the arrow. How many operands there are; 0: not known, or reported. */
static int einsum_operands(TCall *c, const char *s, const char *arrow, Dim *size)
{
    int operand = 0, axis = 0;
    char text[64];

    for (const char *p = s; p <= arrow; p++) {
        const TType *x = tcall_tensor(c, operand + 1);
        Dim *have = size_of_letter(size, *p);
        if (!x || x->rank == RANK_UNKNOWN)
            return 0;
        if (*p != ',' && p != arrow) {
            if (have && axis < x->rank && !einsum_letter(c, *p, have, x->shape[axis]))
                return 0;
            axis++;
            continue;
        }
        if (axis != x->rank) {
            snprintf(text, sizeof text, "einsum: \"%.20s\" names %d axes", s, axis);
            diag_note(REPORT(c->C, E0306, c->node->span, text), "operand %d is %s", operand + 1, shape_of(x));
            return 0;
        }
        operand++;
        axis = 0;
    }
    return operand;
}

/* The sizes of the letters behind the arrow. false: reported. */
static bool einsum_result(TCall *c, const char *s, const char *letters, Dim *size, TType *r)
{
    char text[64];

    for (const char *p = letters; *p; p++) {
        const Dim *have = size_of_letter(size, *p);
        if (have && *have == DIM_BAD && isalpha((unsigned char)*p)) {
            snprintf(text, sizeof text, "einsum: \"%.20s\" gives %c, which no operand has", s, *p);
            diag_help(REPORT(c->C, E0306, c->node->span, text), "the letters behind -> are some of those before it");
            return false;
        }
        if (r->rank < 16)
            r->shape[r->rank++] = have && *have != DIM_BAD ? *have : dim_open();
    }
    return true;
}

/* The operands are multiplied with each other. false: their dtypes do not mix, which is reported. */
static bool einsum_mixes(TCall *c, int operands)
{
    long findings = c->C->findings;

    for (int i = 2; i <= operands && findings == c->C->findings; i++) {
        TType in[2] = {*tcall_tensor(c, 1), *tcall_tensor(c, i)};
        Attr a = attr_default();
        in[0].rank = in[1].rank = 0;
        tensor_infer(c->C, OP_mul, &a, in, 2, c->node);
    }
    return findings == c->C->findings;
}

/* The text without spaces; without an arrow the result has the letters that stand there once, in their order. false: it is too long. */
static bool einsum_text(const char *given, char out[EINSUM_MAX])
{
    int n = 0, count[LETTERS] = {0};

    for (const char *p = given; *p; p++) {
        if (*p != ' ' && n < EINSUM_MAX - LETTERS)
            out[n++] = *p;
        count[*p & (LETTERS - 1)]++;
    }
    if (!strstr(given, "->")) {
        out[n++] = '-';
        out[n++] = '>';
        for (int l = 'A'; l <= 'z'; l++)
            if (count[l] == 1 && isalpha(l))
                out[n++] = (char)l;
    }
    out[n] = 0;
    return strlen(given) < EINSUM_MAX - LETTERS;
}

const Type *rule_einsum(TCall *c)
{
    const Type *given = c->n && c->at[0].type->kind == TY_STR && c->at[0].type->text ? c->at[0].type : NULL;
    char s[EINSUM_MAX], *arrow;
    Dim size[LETTERS];
    TType r = {.dtype = DT_NONE};
    int operands;

    if (!given || strstr(given->text->text, "...") || !einsum_text(given->text->text, s))
        return tensor_unknown();
    arrow = strstr(s, "->");
    if (!einsum_counts(c, s, arrow))
        return tensor_unknown();
    for (int i = 0; i < LETTERS; i++)
        size[i] = DIM_BAD;
    operands = einsum_operands(c, s, arrow, size);
    if (!operands || !einsum_result(c, s, arrow + 2, size, &r) || !einsum_mixes(c, operands))
        return tensor_unknown();
    for (int i = operands; i > 0; i--) {
        const TType *x = tcall_tensor(c, i);
        r.dtype = x->dtype;
        r.policy = x->policy ? x->policy : r.policy;
    }
    return type_tensor(&r);
}

/* ------------------------------------------------------------- tensordot */

/* The axes that tensordot names for one of its operands, counted from the front; -1: they are not known, -2: reported. */
static int contracted(TCall *c, const TType *x, const Type *axes, const CallArg *a, int out[16])
{
    const Type *const *item;
    CallArg one = *a;
    int n = 1;

    if (type_is_any(axes) || (axes->kind != TY_INT && (n = type_items(axes, &item)) < 0) || n > 16)
        return -1;
    for (int i = 0; i < n; i++) {
        one.type = axes->kind == TY_INT ? axes : item[i];
        if ((out[i] = tcall_axis(c, x, &one)) < 0)
            return out[i];
    }
    return n;
}

/* The last n axes of x, or its first; -1: x has not so many. */
static int contracted_ends(const TType *x, int64_t n, bool last, int out[16])
{
    if (n < 0 || n > x->rank)
        return -1;
    for (int i = 0; i < n; i++)
        out[i] = last ? x->rank - (int)n + i : i;
    return (int)n;
}

/* What x keeps, behind what r has. false: too many axes. */
static bool add_kept(TType *r, const TType *x, const int *gone, int n)
{
    for (int i = 0; i < x->rank; i++) {
        bool kept = true;
        for (int k = 0; k < n; k++)
            kept &= gone[k] != i;
        if (kept && r->rank == 16)
            return false;
        if (kept)
            r->shape[r->rank++] = x->shape[i];
    }
    return true;
}

static bool contracted_fit(TCall *c, const TType *x, const TType *y, const int *left, const int *right, int n)
{
    char text[160];

    for (int i = 0; i < n; i++)
        if (dims_differ(x->shape[left[i]], y->shape[right[i]])) {
            snprintf(text, sizeof text, "tensordot: axis %d of %.50s and axis %d of %.50s have sizes that differ", left[i], shape_of(x), right[i],
                     shape_of(y));
            diag_help(REPORT(c->C, E0306, c->node->span, text),
                      "name axes of one size: axes=([of the first], [of the second]); an int n means the last n and the first n");
            return false;
        }
    return true;
}

/* tensordot(x, y, n), or with a pair of axes, or of lists of them. */
const Type *rule_tensordot(TCall *c)
{
    const TType *x = tcall_tensor(c, 0), *y = tcall_tensor(c, 1);
    const CallArg *a = tcall_arg(c, 2, "axes", "dims");
    const Type *const *pair;
    int left[16], right[16], n = -1, m = -1;
    int64_t ends = 2;
    TType r;

    if (c->open || !x || !y || x->rank == RANK_UNKNOWN || y->rank == RANK_UNKNOWN)
        return tensor_unknown();
    if (!a || type_int_value(a->type, &ends)) {
        n = contracted_ends(x, ends, true, left);
        m = contracted_ends(y, ends, false, right);
    } else if (type_items(a->type, &pair) == 2) {
        n = contracted(c, x, pair[0], a, left);
        m = n >= 0 ? contracted(c, y, pair[1], a, right) : n;
    }
    if (n < 0 || m != n || !contracted_fit(c, x, y, left, right, n))
        return tensor_unknown();
    r = *x;
    r.rank = 0;
    if (x->dtype != y->dtype || !add_kept(&r, x, left, n) || !add_kept(&r, y, right, n))
        return tensor_unknown();
    return type_tensor(&r);
}

/* ------------------------------------------------------------- windows */

/* An int for all spatial axes or a tuple with one each; false: not known. */
static bool spatial(const TCall *c, int pos, const char *name, int n, int64_t dflt, int64_t *out)
{
    const CallArg *a = tcall_arg(c, pos, name, NULL);

    for (int i = 0; i < n; i++)
        out[i] = dflt;
    if (!a || a->type->kind == TY_NONE)
        return true;
    if (type_int_value(a->type, out)) {
        for (int i = 1; i < n; i++)
            out[i] = out[0];
        return true;
    }
    if (type_is_any(a->type) || a->type->kind != TY_TUPLE || a->type->n != n)
        return false;
    for (int i = 0; i < n; i++)
        if (!type_int_value(a->type->item[i], &out[i]))
            return false;
    return true;
}

/* x [N, C, s...] with w [O, C/groups, k...]; a bias may stand third. */
const Type *rule_conv(TCall *c)
{
    const TType *x = tcall_tensor(c, 0), *w = tcall_tensor(c, 1);
    TType in[2];
    Attr a = attr_default();
    int n = c->rule->op;
    int64_t stride[3], pad[3], dil[3], groups = 1;
    const CallArg *g = tcall_arg(c, -1, "groups", NULL), *b;
    StrBuf text = {0};

    if (!x || !w || c->open || x->rank == RANK_UNKNOWN || w->rank == RANK_UNKNOWN || !spatial(c, -1, "stride", n, 1, stride) ||
        !spatial(c, -1, "padding", n, 0, pad) || !spatial(c, -1, "dilation", n, 1, dil) || (g && !type_int_value(g->type, &groups)) ||
        tcall_positional(c) > 3)
        return tensor_unknown();
    in[0] = *x;
    in[1] = *w;
    a.n = (int16_t)n;
    a.m = (int16_t)groups;
    a.nd[0] = a.nd[1] = a.nd[2] = (uint8_t)n;
    a.nd[3] = (uint8_t)(2 * n);
    for (int i = 0; i < n; i++) {
        a.d[0][i] = stride[i];
        a.d[1][i] = a.d[2][i] = pad[i];
        a.d[3][i] = 1;
        a.d[3][n + i] = dil[i];
    }
    b = tcall_arg(c, 2, "bias", NULL);
    if (b && !type_is_any(b->type) && b->type->kind == TY_TENSOR && b->type->tensor->rank == 1 && w->rank == n + 2 &&
        dims_differ(b->type->tensor->shape[0], w->shape[0])) {
        sb_printf(&text, "%s: the bias is %s, the weight ", c->name, shape_of(b->type->tensor));
        sb_printf(&text, "%s gives ", shape_of(w));
        dim_print(w->shape[0], &text);
        diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&text)), "a bias has one number for each channel that comes out");
        sb_done(&text);
        return tensor_unknown();
    }
    return tensor_infer(c->C, OP_conv, &a, in, 2, c->node);
}

/* x [N, C, s...] with w [C, O/groups, k...]: each size s becomes (s-1)*stride - 2*padding + dilation*(k-1) + output_padding + 1. */
const Type *rule_conv_transpose(TCall *c)
{
    const TType *x = tcall_tensor(c, 0), *w = tcall_tensor(c, 1);
    int n = c->rule->op;
    int64_t stride[3], pad[3], more[3], dil[3], groups = 1;
    const CallArg *g = tcall_arg(c, 6, "groups", NULL);
    StrBuf text = {0};
    DimAnswer a;
    TType r;

    if (!x || !w || c->open || x->rank == RANK_UNKNOWN || w->rank == RANK_UNKNOWN || (g && !type_int_value(g->type, &groups)) ||
        !spatial(c, 3, "stride", n, 1, stride) || !spatial(c, 4, "padding", n, 0, pad) ||
        !spatial(c, 5, "output_padding", n, 0, more) || !spatial(c, 7, "dilation", n, 1, dil))
        return x ? tensor_of_dtype(x) : T_ANY;
    a = x->rank == n + 2 && w->rank == n + 2 ? dim_eq(x->shape[1], w->shape[0], NULL, NULL) : DIM_REFUTED;
    if (a == DIM_REFUTED || (a == DIM_DIFFERS && !dim_is_open(x->shape[1]) && !dim_is_open(w->shape[0]))) {
        sb_printf(&text, "conv_transpose%dd: the input %s and the weight %s do not fit: [N, C, sizes...] and [C, O, sizes...]", n,
                  shape_of(x), shape_of(w));
        REPORT(c->C, E0306, c->node->span, sb_str(&text));
        sb_done(&text);
        return tensor_of_dtype(x);
    }
    r = *x;
    r.shape[1] = dim_mul(w->shape[1], dim_const(groups));
    for (int i = 0; i < n; i++) {
        Dim reach = dim_mul(dim_sub(w->shape[2 + i], 1), dim_const(dil[i]));
        r.shape[2 + i] = dim_add(dim_add(dim_mul(dim_sub(x->shape[2 + i], 1), dim_const(stride[i])), reach),
                                 dim_const(more[i] + 1 - 2 * pad[i]));
    }
    return type_tensor(&r);
}

static void window_too_large(TCall *c, const TType *x, int axis, int64_t k)
{
    StrBuf text = {0};

    sb_printf(&text, "%s: a window of %" PRId64 " is larger than axis %d of %s", c->name, k, axis, shape_of(x));
    diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&text)),
              "a mean over all of an axis is x.mean(axis=%d); padding= makes the axis longer", axis);
    origins(c->C, c->C->last, c->node, &x->shape[axis], 1);
    sb_done(&text);
}

const Type *rule_pool(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    int64_t k[3], stride[3], pad[3];
    int n = c->rule->op;
    TType r;

    if (!x || c->open || x->rank == RANK_UNKNOWN || x->rank < n || !spatial(c, 1, "kernel_size", n, 0, k) || !k[0])
        return x ? tensor_of_dtype(x) : T_ANY;
    if (!spatial(c, 2, "stride", n, -1, stride) || !spatial(c, 3, "padding", n, 0, pad))
        return tensor_of_dtype(x);
    r = *x;
    for (int i = 0; i < n; i++) {
        Dim *d = &r.shape[r.rank - n + i], room = dim_add(*d, dim_const(2 * pad[i] - k[i]));
        if (dim_ge(room, 0, NULL, NULL) == DIM_REFUTED && !c->C->lenient) {
            window_too_large(c, x, r.rank - n + i, k[i]);
            return tensor_of_dtype(x);
        }
        *d = dim_add(dim_floordiv(dim_add(*d, dim_const(2 * pad[i] - k[i])), stride[i] < 0 ? k[i] : stride[i]), 1);
    }
    return type_tensor(&r);
}

/* ------------------------------------------------------------- along one axis */

static void too_many_asked(TCall *c, const TType *x, int axis, Dim k)
{
    StrBuf text = {0};

    sb_puts(&text, "topk: ");
    dim_print(k, &text);
    sb_puts(&text, " of ");
    dim_print(x->shape[axis], &text);
    sb_printf(&text, " elements along axis %d of %s", axis, shape_of(x));
    diag_help(REPORT(c->C, E0306, c->node->span, sb_str(&text)), "ask for no more elements than the axis has: min(k, x.shape[%d])", axis);
    origins(c->C, c->C->last, c->node, &x->shape[axis], 1);
    sb_done(&text);
}

const Type *rule_topk(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *k = tcall_arg(c, 1, "k", NULL), *a = tcall_arg(c, 2, "dim", "axis");
    const Type *pair[2];
    TType r;
    int axis;

    if (!x || !k || x->rank == RANK_UNKNOWN || !x->rank || c->open)
        return T_ANY;
    axis = a ? tcall_axis(c, x, a) : x->rank - 1;
    if (axis < 0)
        return T_ANY;
    r = *x;
    r.shape[axis] = size_of_type(k->type);
    if (dim_ge(x->shape[axis], r.shape[axis], NULL, NULL) == DIM_REFUTED && !c->C->lenient) {
        too_many_asked(c, x, axis, r.shape[axis]);
        return T_ANY;
    }
    pair[0] = type_tensor(&r);
    r.dtype = DT_int32;
    r.policy = NULL;
    pair[1] = type_tensor(&r);
    return type_tuple(pair, 2);
}

const Type *rule_repeat(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *n = tcall_arg(c, 1, "repeats", NULL), *a = tcall_arg(c, 2, "axis", "dim");
    TType r;
    int axis;

    if (!x || !n || c->open || x->rank == RANK_UNKNOWN)
        return x ? tensor_of_dtype(x) : T_ANY;
    r = *x;
    if (!a || a->type->kind == TY_NONE) {           /* of all elements */
        r.rank = 1;
        r.shape[0] = n->type->kind == TY_INT && ttype_count(x) != DIM_BAD ? dim_mul(ttype_count(x), size_of_type(n->type)) : dim_open();
        return type_tensor(&r);
    }
    if ((axis = tcall_axis(c, x, a)) < 0)
        return tensor_of_dtype(x);
    r.shape[axis] = dim_mul(r.shape[axis], size_of_type(n->type));
    return type_tensor(&r);
}

/* linear(x, w) is x @ w; linear(x, n) makes its weight: the last size becomes n. */
const Type *rule_linear(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    const CallArg *w = tcall_arg(c, 1, NULL, NULL);
    TType r;

    if (!x || !w || type_is_any(w->type))
        return x ? tensor_of_dtype(x) : T_ANY;
    if (w->type->kind == TY_TENSOR)
        return tensor_binary(c->C, AOP_MATMUL, c->at[0].type, w->type, c->node);
    if (w->type->kind != TY_INT || x->rank == RANK_UNKNOWN || !x->rank)
        return tensor_of_dtype(x);
    r = *x;
    r.shape[r.rank - 1] = size_of_type(w->type);
    return type_tensor(&r);
}
