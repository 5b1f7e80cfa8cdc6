/*
 * Subscripts of tensors: what x[i, 1:5, None, mask] gives for a tensor of known or partly known sizes.
 *
 * A subscript is read item by item: numbers drop an axis, slices keep a part of one, None adds one, ... stands for those that nothing
 * names.  Where a mask or tensors of ints are among the items, it is read once more by the rules for those.
 */
#include "frontend/check/checker.h"

#include <stdio.h>
#include <string.h>

/* Of a tensor, and of what is picked by indices or left by them: together they are at most as many as a tensor has. */
enum { AXES = sizeof ((TType *)NULL)->shape / sizeof(Dim), PICKED_FROM = AXES / 2 };

/* ------------------------------------------------------------- items */

/* The size of lo:hi of an axis; unknown unless the bounds surely lie in order inside it. */
static Dim slice_size(Check *C, const AstSlice *s, Dim D)
{
    const Type *lo = slice_bound(C, s->lo, type_int(0)), *hi = slice_bound(C, s->hi, type_int(D)), *st = slice_bound(C, s->step, type_int(1));
    int64_t step, v;
    Dim a, b;

    if (lo->kind == TY_NONE) lo = type_int(0);
    if (hi->kind == TY_NONE) hi = type_int(D);
    if (lo->kind != TY_INT || hi->kind != TY_INT || st->kind != TY_INT || lo->value == DIM_BAD || hi->value == DIM_BAD ||
        !dim_const_value(st->value, &step))
        return dim_open();
    if (step == -1 && !s->lo && !s->hi)
        return D;
    if (step < 1)
        return dim_open();
    a = dim_const_value(lo->value, &v) && v < 0 ? dim_add(D, lo->value) : lo->value;
    b = dim_const_value(hi->value, &v) && v < 0 ? dim_add(D, hi->value) : hi->value;
    if (dim_is_const(D) && dim_const_value(a, &v))
        a = v < 0 ? 0 : v > D ? D : v;
    if (dim_is_const(D) && dim_const_value(b, &v))
        b = v < 0 ? 0 : v > D ? D : v;
    if (dim_ge(a, 0, NULL, NULL) != DIM_PROVED || dim_ge(b, a, NULL, NULL) != DIM_PROVED || dim_ge(D, b, NULL, NULL) != DIM_PROVED)
        return dim_is_const(D) && dim_is_const(a) && dim_is_const(b) ? 0 : dim_open();
    return dim_cdiv(dim_sub(b, a), step);
}

static bool is_ellipsis(const Ast *e) { return ast_is_const(e, CONST_ELLIPSIS); }
static bool is_newaxis(const Ast *e) { return ast_is_const(e, CONST_NONE); }

/* A known index into an axis of known size. false: there is no such element, reported. */
static bool index_in_range(Check *C, const TType *x, const Type *k, int axis, Ast *node)
{
    int64_t i, size;
    char text[128];

    if (x->rank == RANK_UNKNOWN || axis >= x->rank || type_is_any(k) || k->kind != TY_INT || k->value == DIM_BAD ||
        !dim_const_value(k->value, &i) || !dim_const_value(x->shape[axis], &size) || (i < size && i >= -size))
        return true;
    snprintf(text, sizeof text, "index %lld is out of range for axis %d of %s", (long long)i, axis, shape_of(x));
    diag_help(REPORT(C, E0306, node->span, text), "the last index of an axis is its size less one, %lld, or -1", (long long)size - 1);
    return false;
}

/* A subscript as it is read: the sizes of the part so far, the axis that comes next, and how many axes the rest names. */
typedef struct Subscript {
    Check *C;
    const TType *x;
    Ast *node;
    TType part;
    int at, used;
    bool plain;                 /* without masks and tensors of ints */
} Subscript;

static int axes_named(AstSeq list)
{
    int n = 0;

    for (int i = 0; i < list.n; i++)
        n += !is_ellipsis(list.at[i]) && !is_newaxis(list.at[i]);
    return n;
}

static Subscript subscript_of(Check *C, const TType *x, AstSeq list, Ast *node)
{
    Subscript s = {.C = C, .x = x, .node = node, .part = *x, .used = axes_named(list), .plain = true};

    s.part.rank = s.part.weak = 0;
    return s;
}

/* One more axis; what is beyond the most that a tensor has is dropped, and then the part is not known. */
static void put_axis(Subscript *s, Dim size)
{
    if (s->part.rank < AXES)
        s->part.shape[s->part.rank++] = size;
}

/* The axes of x that nothing names, up to those that the rest of the subscript is for. */
static void put_whole_axes(Subscript *s)
{
    for (; s->x->rank != RANK_UNKNOWN && s->at + s->used < s->x->rank && s->part.rank < AXES; s->at++)
        put_axis(s, s->x->shape[s->at]);
}

/* May it be an index? false: it has been reported that it is none. */
static bool is_index(Check *C, const Type *k, Ast *e)
{
    if (k->kind == TY_TENSOR && k->tensor->dtype != DT_NONE && !dtype_is_int((DType)k->tensor->dtype) && k->tensor->dtype != DT_bool) {
        diag_help(REPORT(C, E0906, e->span, "an index", "int or bool, a number or a tensor", dtype_info[k->tensor->dtype].name),
                  "convert it: .to(int32)");
        return false;
    }
    if (k->kind == TY_FLOAT || k->kind == TY_STR) {
        diag_help(REPORT(C, E0906, e->span, "an index of a tensor", "an int, a slice, a mask or a tensor of ints", type_text(k)),
                  k->kind == TY_STR ? "names are keys of dicts: params[\"w\"]" : "divide with //, which gives an int, or convert with int(...)");
        return false;
    }
    return true;
}

static bool read_item(Subscript *s, Ast *e)
{
    const Type *k;

    if (is_newaxis(e)) {
        put_axis(s, 1);
        return true;
    }
    if (is_ellipsis(e)) {
        put_whole_axes(s);
        return true;
    }
    if (e->kind == AST_Slice && s->x->rank != RANK_UNKNOWN && s->at < s->x->rank) {
        put_axis(s, slice_size(s->C, AST_AS(e, Slice), s->x->shape[s->at]));
    } else {
        k = expr(s->C, e);
        if (!index_in_range(s->C, s->x, k, s->at, s->node) || !is_index(s->C, k, e))
            return false;
        s->plain = s->plain && k->kind == TY_INT;
    }
    s->at++;
    s->used--;
    return true;
}

/* ------------------------------------------------------------- masks and indices */

/* The elements where the mask says so, over its axes. */
static const Type *masked(Check *C, const TType *x, const TType *mask, Ast *node)
{
    TType r = *x;
    StrBuf text = {0};

    for (int i = 0; i < mask->rank && !C->lenient; i++)
        if (dims_differ(mask->shape[i], x->shape[i])) {
            sb_printf(&text, "the mask %s does not fit %s: axis %d has size ", shape_of(mask), shape_of(x), i);
            dim_print(x->shape[i], &text);
            diag_help(REPORT(C, E0306, node->span, sb_str(&text)), "a mask has the sizes of the axes that it stands for; where() broadcasts");
            origins(C, C->last, node, (Dim[]){x->shape[i], mask->shape[i]}, 2);
            sb_done(&text);
            return type_tensor_like(x);
        }

    r.rank = 0;
    r.weak = 0;
    r.shape[r.rank++] = dim_open();
    for (int i = mask->rank; i < x->rank; i++)
        r.shape[r.rank++] = x->shape[i];
    return mask->rank ? type_tensor(&r) : type_tensor_like(x);
}

/* The sizes of several index tensors together: those of *a, and of b, broadcast. false: they do not go together. */
static bool indices_meet(TType *a, const TType *b)
{
    TType r = a->rank >= b->rank ? *a : *b;
    const TType *few = a->rank >= b->rank ? b : a;

    for (int i = 1; i <= few->rank; i++) {
        Dim *d = &r.shape[r.rank - i], o = few->shape[few->rank - i];
        if (*d != 1 && o != 1 && dims_differ(*d, o))
            return false;
        *d = *d == 1 ? o : o == 1 || !dim_is_open(*d) ? *d : o;
    }
    *a = r;
    return true;
}

/* An index that picks: a tensor of ints, or a list of them whose elements are in range. 1: its sizes are in *out; 0: not known; -1: reported. */
static int picking_index(Check *C, const TType *x, const Type *k, int axis, TType *out, Ast *node)
{
    *out = (TType){.dtype = DT_int32, .rank = 1};
    if (type_is_any(k))
        return 0;
    if (k->kind == TY_TENSOR) {
        *out = *k->tensor;
        return out->dtype != DT_NONE && dtype_is_int((DType)out->dtype) && out->rank != RANK_UNKNOWN && out->rank < PICKED_FROM;
    }
    if (k->kind != TY_LIST || !k->exact || k->n < 1)
        return 0;
    for (int i = 0; i < k->n; i++) {
        if (type_is_any(k->item[i]) || k->item[i]->kind != TY_INT)
            return 0;
        if (!index_in_range(C, x, k->item[i], axis, node))
            return -1;
    }
    out->shape[0] = dim_const(k->n);
    return 1;
}

/* What the indices of a subscript pick together, where that stands, and which item of the subscript the last of them is. */
typedef struct Picks {
    Subscript s;
    TType all;
    bool any;
    int place, last;
} Picks;

/* The sizes of one more index tensor. false: it does not go together with those before it, which is reported. */
static bool add_picked(Picks *p, const TType *one)
{
    StrBuf text = {0};

    if (!p->any || indices_meet(&p->all, one)) {
        p->all = p->any ? p->all : *one;
        p->any = true;
        return true;
    }
    sb_printf(&text, "the indices %s ", shape_of(&p->all));
    sb_printf(&text, "and %s do not go together", shape_of(one));
    diag_help(REPORT(p->s.C, E0306, p->s.node->span, sb_str(&text)), "indices pick one element for each place; their sizes are equal or 1");
    sb_done(&text);
    return false;
}

/* As picking_index, of any item; item number i. */
static int pick_item(Picks *p, Ast *e, int i)
{
    Subscript *s = &p->s;
    const Type *k;
    TType one;
    int how;

    if (is_newaxis(e) || is_ellipsis(e) || (e->kind == AST_Slice && s->at < s->x->rank))
        return read_item(s, e);
    if (s->at >= s->x->rank || (p->last >= 0 && p->last != i - 1))
        return 0;
    p->place = p->last < 0 ? s->part.rank : p->place;
    p->last = i;
    k = expr(s->C, e);
    if (type_is_any(k) || k->kind != TY_INT) {
        if ((how = picking_index(s->C, s->x, k, s->at, &one, s->node)) < 1)
            return how;
        if (!add_picked(p, &one))
            return -1;
    }
    s->at++;
    s->used--;
    return 1;
}

/*
 * x[:, ids], x[arange(n), labels]: what the indices give together stands where the first of them stands, as long as all of them
 * stand side by side, numbers among them.  NULL: not known.
 */
static const Type *picked_by_tensors(Check *C, const TType *x, AstSeq list, Ast *node)
{
    Picks p = {.s = subscript_of(C, x, list, node), .last = -1};
    TType *r = &p.s.part;
    int how;

    for (int i = 0; i < list.n; i++)
        if ((how = pick_item(&p, list.at[i], i)) < 1)
            return how < 0 ? type_tensor_like(x) : NULL;
    put_whole_axes(&p.s);
    if (!p.any || r->rank > PICKED_FROM)
        return NULL;
    for (int i = r->rank - 1; i >= p.place; i--)
        r->shape[i + p.all.rank] = r->shape[i];
    memcpy(r->shape + p.place, p.all.shape, sizeof(Dim) * p.all.rank);
    r->rank = (uint8_t)(r->rank + p.all.rank);
    return type_tensor(r);
}

/* By True or False alone: on a new axis of size 1 or 0. */
static const Type *under_truth(const TType *x)
{
    TType r = *x;

    r.weak = 0;
    r.shape[0] = dim_open();
    memcpy(r.shape + 1, x->shape, sizeof(Dim) * x->rank);
    r.rank++;
    return type_tensor(&r);
}

/* By one mask, or by integer tensors. */
static const Type *picked(Check *C, const TType *x, AstSeq list, Ast *index, Ast *node)
{
    const Type *k = list.n == 1 ? expr(C, index) : T_ANY, *part;
    int used = axes_named(list);

    if (k->kind == TY_TENSOR && k->tensor->dtype == DT_bool && k->tensor->rank != RANK_UNKNOWN && k->tensor->rank <= x->rank)
        return masked(C, x, k->tensor, node);
    if (k->kind == TY_BOOL && x->rank < AXES)
        return under_truth(x);
    part = used <= x->rank ? picked_by_tensors(C, x, list, node) : NULL;
    return part ? part : type_tensor_like(x);
}

/* ------------------------------------------------------------- subscripts */

struct Indexed { Ast *index, *node; };

static const Type *subscript_segmented(Check *C, CallArgs *a, const void *with)
{
    return tensor_subscript(C, a->at[0].type, ((const struct Indexed *)with)->index, ((const struct Indexed *)with)->node);
}

static const Type *too_many(Check *C, const TType *x, int used, Ast *node)
{
    char rank[24], count[24];

    snprintf(rank, sizeof rank, "%d", x->rank);
    snprintf(count, sizeof count, "%d", used);
    REPORT(C, E0307, node->span, count, shape_of(x), rank);
    return type_tensor_unknown();
}

const Type *tensor_subscript(Check *C, const Type *t, Ast *index, Ast *node)
{
    const Type *part;
    Ast *one[1] = {index};
    AstSeq list = AST_IS(index, Tuple) ? AST_AS(index, Tuple)->elts : (AstSeq){one, 1};
    const TType *x = t->tensor;
    Subscript s = subscript_of(C, x, list, node);

    if (segments_infer(C, &(CallArgs){&(CallArg){NULL, t, node, 0}, 1, false}, subscript_segmented, &(struct Indexed){index, node}, &part))
        return part;
    for (int i = 0; i < list.n; i++)
        if (!read_item(&s, list.at[i]))
            return type_tensor_like(x);
    if (x->rank == RANK_UNKNOWN || s.part.rank == AXES)
        return type_tensor_like(x);
    if (!s.plain)
        return picked(C, x, list, index, node);
    if (axes_named(list) > x->rank)
        return too_many(C, x, axes_named(list), node);
    put_whole_axes(&s);
    return type_tensor(&s.part);
}
