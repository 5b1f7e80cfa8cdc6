/*
 * What is assigned to: names, attributes, elements, and the parts of a sequence that is unpacked into several of them.
 */
#include "frontend/check/checker.h"

#include "frontend/check/kernels.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- iterating, unpacking */

const Type *element_of(const Type *t)
{
    const Type *e = NULL;
    TType x;

    if (type_is_any(t))
        return T_ANY;
    t = record_tuple(t);
    switch (t->kind) {
    case TY_LIST:
        return type_settle(t)->item[0];
    case TY_SET:
    case TY_DICT:
        return type_settle(t)->item[0];
    case TY_TUPLE:
        for (int i = 0; i < (t->n < 0 ? 1 : t->n); i++)
            e = e ? type_join(e, t->item[i]) : t->item[i];
        return e ? e : T_ANY;
    case TY_RANGE:
        return type_int(DIM_BAD);
    case TY_STR:
        return type_str(NULL);
    case TY_OBJECT:
        for (int i = 0; i < t->n; i++)
            e = e ? type_join(e, t->item[i]) : t->item[i];
        return e ? e : native_elements(t->text->text);
    case TY_KERNEL:
        return t->value == KT_PARTS ? t->item[0] : T_ANY;
    case TY_TENSOR:
        x = *t->tensor;
        if (x.rank != RANK_UNKNOWN && x.rank > 0) {
            memmove(x.shape, x.shape + 1, sizeof(Dim) * (size_t)(x.rank - 1));
            x.rank--;
        } else {
            x.rank = RANK_UNKNOWN;
        }
        return type_tensor(&x);
    default:
        return T_ANY;
    }
}

static int starred_at(AstSeq elts)
{
    for (int i = 0; i < elts.n; i++)
        if (elts.at[i]->kind == AST_Starred)
            return i;
    return -1;
}

/* How many values t gives when unpacked; -1: not known. */
static int64_t unpacked_count(const Type *t)
{
    if (t->kind == TY_TUPLE)
        return t->n;
    if (t->kind == TY_LIST && t->exact)
        return t->n;
    if (t->kind == TY_TENSOR && t->tensor->rank != RANK_UNKNOWN && t->tensor->rank > 0 && dim_is_const(t->tensor->shape[0]))
        return t->tensor->shape[0];
    return -1;
}

static void unpack(Check *C, AstSeq elts, const Type *t, Ast *target, Ast *value)
{
    int star = starred_at(elts);
    int64_t n;
    char have[24], want[24];

    if (value)
        optional_used(C, value, "None has no values to unpack");
    t = record_tuple(t);
    n = type_is_any(t) ? -1 : unpacked_count(t);
    if (!type_is_any(t) && t->kind != TY_FLOAT)
        host_iterated(C, t, target);

    if (n >= 0 && (star < 0 ? n != elts.n : n < elts.n - 1)) {
        snprintf(have, sizeof have, "%d", (int)n);
        snprintf(want, sizeof want, "%s%d", star < 0 ? "" : "at least ", star < 0 ? elts.n : elts.n - 1);
        REPORT(C, E0909, target->span, have, want);
        n = -1;
    }
    for (int i = 0; i < elts.n; i++) {
        int64_t k = star >= 0 && i > star ? n - (elts.n - i) : i;
        const Type *e = type_is_any(t) ? T_ANY : element_of(t);
        if (i == star)
            e = n < 0 || t->kind == TY_TENSOR ? type_list(e) : type_list_of(t->item + i, (int)n - (elts.n - 1));
        else if (n >= 0 && t->kind != TY_TENSOR)
            e = t->item[k];
        bind_target(C, elts.at[i]->kind == AST_Starred ? AST_AS(elts.at[i], Starred)->value : elts.at[i], e, value);
    }
}

/* ------------------------------------------------------------- storing */

void broadcast_judged(Check *C, const TType *value, const TType *place, Ast *node)
{
    TType a = *value, b = *place;
    int more = a.rank - b.rank;
    StrBuf text = {0};

    a.dtype = b.dtype = DT_NONE;
    for (int i = 0; i < more; i++)                      /* axes of size 1 in front */
        if (dims_differ(a.shape[i], 1)) {
            sb_printf(&text, "a value of shape %s is stored in a place ", shape_of(value));
            sb_printf(&text, "of shape %s", shape_of(place));
            diag_help(REPORT(C, E0306, node->span, sb_str(&text)), "a value has the axes of its place, or fewer");
            origins(C, C->last, node, &(Dim){DIM_BAD}, 1);
            sb_done(&text);
            return;
        }
    if (more > 0)
        return;
    for (; a.rank < b.rank; a.rank++) {                 /* broadcast: axes come in front */
        memmove(a.shape + 1, a.shape, sizeof *a.shape * a.rank);
        a.shape[0] = b.shape[b.rank - a.rank - 1];
    }
    for (int i = 0; i < a.rank; i++)
        if (a.shape[i] == 1)
            a.shape[i] = b.shape[i];
    if (type_fits(C, type_tensor(&a), type_tensor(&b)) == FITS_NOT)
        report_misfit(C, node->span, "the value stored here", type_tensor(&a), type_tensor(&b));
}

static void store_subscript(Check *C, AstSubscript *s, const Type *t)
{
    const Type *base, *index, *place;
    bool grown;

    optional_used(C, s->value, "None cannot be indexed with []");
    base = expr_looked(C, s->value);
    grown = base->kind != TY_TENSOR && grown_is(C, s->value);
    index = expr(C, s->index);
    host_stored(C, base, index, s);
    if (C->kernel && base->kind == TY_TENSOR) {
        kernel_store(C, s, base, t);
        return;
    }
    if (base->kind != TY_TENSOR) {
        if (!grown) {
            host_key_stored(C, base, index, s->index->span);
            host_element_stored(C, base, t, s->ast.span);
        }
        grown_stored(C, s->value, index, t ? t : T_ANY);
        return;
    }
    place = tensor_subscript(C, base, s->index, (Ast *)s);
    if (type_is_any(t))
        return;
    if (t->kind == TY_STR || t->kind == TY_NONE || t->kind == TY_DICT || t->kind == TY_FUNC)
        diag_help(REPORT(C, E0906, s->ast.span, "the value stored here", "a tensor or a number", type_text(t)),
                  "the elements of a tensor are numbers");
    if (t->kind == TY_TENSOR && place->kind == TY_TENSOR && place->tensor->rank != RANK_UNKNOWN && t->tensor->rank != RANK_UNKNOWN)
        broadcast_judged(C, t->tensor, place->tensor, (Ast *)s);
}

/* A tensor's attributes follow from what it is; only its gradient is kept for the program. */
static void tensor_stored(Check *C, const AstAttribute *a)
{
    char what[96];
    Diag *d;

    if (!strcmp(a->attr->text, "grad") || !strncmp(a->attr->text, "__", 2))
        return;
    snprintf(what, sizeof what, "the target '%.60s' of a tensor", a->attr->text);
    d = REPORT(C, E0906, a->ast.span, what, "an attribute that can be stored", "what follows from its value");
    diag_help(d, !strcmp(a->attr->text, "shape") ? "a tensor of another shape is made by x = x.reshape(...)" :
              !strcmp(a->attr->text, "data") ? "assign the variable itself: x = ..."
                                             : "nothing can be stored in a tensor: keep it beside, in a variable or an object");
}

void bind_target(Check *C, Ast *target, const Type *t, Ast *value)
{
    const Type *base;

    if (!target)
        return;
    switch (target->kind) {
    case AST_Name:
        set_name(C, AST_AS(target, Name), t, value);
        break;
    case AST_Tuple:
        unpack(C, AST_AS(target, Tuple)->elts, t, target, value);
        break;
    case AST_List:
        unpack(C, AST_AS(target, List)->elts, t, target, value);
        break;
    case AST_Starred:
        bind_target(C, AST_AS(target, Starred)->value, t, value);
        break;
    case AST_Attribute:
        optional_used(C, AST_AS(target, Attribute)->value, "None has no attribute '%s'", AST_AS(target, Attribute)->attr->text);
        base = expr(C, AST_AS(target, Attribute)->value);
        if (base->kind == TY_HIDDEN)                /* if self.x is None: self.x = ... */
            base = flow_hidden(C, AST_AS(target, Attribute)->value);
        if (type_is_any(base))
            attr_wild(C, AST_AS(target, Attribute)->attr);
        if (base->kind == TY_TENSOR && !C->kernel)
            tensor_stored(C, AST_AS(target, Attribute));
        if (base->kind == TY_INSTANCE)
            cls_store(C, base, AST_AS(target, Attribute)->attr, t, target, value);
        break;
    case AST_Subscript:
        store_subscript(C, AST_AS(target, Subscript), t);
        break;
    default:
        expr(C, target);
    }
}
