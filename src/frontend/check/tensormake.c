/* Tensors made from sizes and from data. */
#include "frontend/check/tensorcalls.h"

#include <stdio.h>
#include <string.h>

/* zeros((2, 3), bf16), zeros((2, 3), bool), zeros((2, 3), of): what is not known may be one. */
static bool may_be_dtype(const Type *t, int at)
{
    return t->kind == TY_DTYPE || (at > 0 && (type_is_any(t) || t->kind == TY_CLASS || t->kind == TY_NATIVE));
}

/* How many positional sizes: all but trailing non-ints. full(shape, value) has its shape in one argument. */
const Type *rule_make_sized(TCall *c)
{
    Dim d[16];
    int n = tcall_sizes(c, 0, "shape", d);
    TType e = {.dtype = DT_f32};

    tcall_element(c, -1, &e);
    for (int i = 0; i < c->n; i++)
        if (!c->at[i].name && may_be_dtype(c->at[i].type, i))
            element_of_type(c->C, c->at[i].type, &e);
    if (n < 0)
        return tensor_made(&e, RANK_UNKNOWN, NULL);
    for (int i = 0; i < n; i++) {
        int64_t v;
        char text[96];
        if (!dim_const_value(d[i], &v) || v >= 0)
            continue;
        snprintf(text, sizeof text, "%s: a size cannot be negative: %lld", c->name, (long long)v);
        diag_help(REPORT(c->C, E0306, c->node->span, text), "sizes are 0 or more; only reshape and expand know -1, for the size that fits");
        return tensor_unknown();
    }
    return tensor_made(&e, n, d);
}

const Type *rule_make_full(TCall *c)
{
    const CallArg *shape = tcall_arg(c, 0, "shape", NULL), *fill = tcall_arg(c, 1, "fill_value", "value");
    CallArg one[1];
    TCall only = *c;
    Dim d[16];
    TType e = {.dtype = DT_NONE};
    int n;

    if (!shape || c->open)
        return tensor_unknown();
    one[0] = *shape;
    one[0].name = NULL;
    only.at = one;
    only.n = 1;
    n = tcall_sizes(&only, 0, NULL, d);
    if (fill && fill->type->kind == TY_FLOAT)
        e.dtype = DT_f32;
    tcall_element(c, 2, &e);
    return n < 0 ? tensor_unknown() : tensor_made(&e, n, d);
}

const Type *rule_make_eye(TCall *c)
{
    const CallArg *n = tcall_arg(c, 0, "n", NULL), *m = tcall_arg(c, 1, "m", NULL);
    Dim d[2];
    TType e = {.dtype = DT_f32};

    if (!n || c->open || (m && m->type->kind != TY_INT))
        return tensor_unknown();
    tcall_element(c, -1, &e);
    d[0] = size_of_type(n->type);
    d[1] = m ? size_of_type(m->type) : d[0];
    return tensor_made(&e, 2, d);
}

const Type *rule_make_arange(TCall *c)
{
    int n = tcall_positional(c);
    int64_t step = 1;
    TType e = {.dtype = DT_NONE};
    Dim lo = 0, hi, d;

    if (c->open || n < 1 || n > 3)
        return tensor_unknown();
    for (int i = 0; i < n; i++)
        if (c->at[i].name || c->at[i].type->kind != TY_INT) {
            if (!c->at[i].name && !type_is_any(c->at[i].type) && c->at[i].type->kind == TY_TENSOR)
                tcall_judge_number(c, &c->at[i]);
            return tensor_unknown();
        }
    tcall_element(c, -1, &e);
    if (n > 1)
        lo = size_of_type(c->at[0].type);
    hi = size_of_type(c->at[n > 1].type);
    if (e.dtype == DT_NONE && !tcall_dtype(c, -1) && (!dim_is_const(hi) || hi < INT32_MAX) && (!dim_is_const(lo) || lo > INT32_MIN))
        e.dtype = DT_int32;                         /* beyond its numbers int64 */
    if (n == 3 && type_int_value(c->at[2].type, &step) && !step)
        diag_help(REPORT(c->C, E0306, c->node->span, "arange: the step cannot be 0"), "full(n, value) repeats one number");
    if (n == 3 && (!type_int_value(c->at[2].type, &step) || step < 1))
        return tensor_unknown();
    d = dim_cdiv(dim_sub(hi, lo), step);
    if (dim_ge(d, 0, NULL, NULL) != DIM_PROVED)
        d = dim_open();
    return tensor_made(&e, 1, &d);
}

const Type *rule_make_linspace(TCall *c)
{
    const CallArg *n = tcall_arg(c, 2, "num", NULL);
    TType e = {.dtype = DT_f32};
    Dim d = n ? size_of_type(n->type) : 50;

    if (c->open)
        return tensor_unknown();
    tcall_element(c, 4, &e);
    return tensor_made(&e, 1, &d);
}

/* The shape of nested displays. */
static int data_shape(const Type *t, Dim *d, int depth, uint8_t *dt)
{
    int n;

    if (type_is_any(t))
        return -1;
    if (t->kind == TY_BOOL || t->kind == TY_INT || t->kind == TY_FLOAT) {
        uint8_t k = t->kind == TY_BOOL ? DT_bool : t->kind == TY_INT ? DT_int32 : DT_f32;
        *dt = *dt == DT_NONE ? k : *dt == k ? k : DT_f32;
        return depth;
    }
    if ((t->kind != TY_LIST && t->kind != TY_TUPLE) || t->n < 0 || depth == 8 || (t->kind == TY_LIST && !t->exact))
        return -1;
    d[depth] = t->n;
    if (!t->n)
        return -1;
    n = data_shape(t->item[0], d, depth + 1, dt);
    for (int i = 1; i < t->n; i++) {
        Dim other[16] = {0};
        if (data_shape(t->item[i], other, depth + 1, dt) != n || n < 0)
            return -1;
        for (int k = depth + 1; k < n; k++)
            if (other[k] != d[k])
                return -1;
    }
    return n;
}

/* Nested displays lose their inner lists' lengths when they are settled: read them from the source. */
static int source_shape(const Ast *e, Dim *d, int depth, uint8_t *dt)
{
    AstSeq elts;
    int n = -1;

    if (e->kind == AST_UnaryOp)
        return source_shape(AST_AS(e, UnaryOp)->operand, d, depth, dt);
    if (e->kind == AST_Int || e->kind == AST_Float || (e->kind == AST_Const && AST_AS(e, Const)->value != CONST_NONE)) {
        uint8_t k = e->kind == AST_Int ? DT_int32 : e->kind == AST_Float ? DT_f32 : DT_bool;
        *dt = *dt == DT_NONE || *dt == k ? k : *dt == DT_f32 || k == DT_f32 ? DT_f32 : DT_int32;
        return depth;
    }
    if ((e->kind != AST_List && e->kind != AST_Tuple) || depth == 8)
        return -1;
    elts = e->kind == AST_List ? AST_AS(e, List)->elts : AST_AS(e, Tuple)->elts;
    d[depth] = elts.n;
    for (int i = 0; i < elts.n; i++) {
        Dim other[16] = {0};
        int k = source_shape(elts.at[i], i ? other : d, depth + 1, dt);
        if (k < 0 || (i && k != n))
            return -1;
        for (int j = depth + 1; i && j < k; j++)
            if (other[j] != d[j])
                return -1;
        n = k;
    }
    return elts.n ? n : -1;
}

/* Rows of known lengths that differ, and what is no number. false: reported. */
static bool data_judged(TCall *c, const Type *t, const Ast *node, int depth)
{
    const Type *const *item, *const *inner;
    int n = type_is_any(t) || (t->kind != TY_LIST && t->kind != TY_TUPLE) ? -1 : type_items(t, &item), first = -1, m;
    char text[128];

    if (!type_is_any(t) && (t->kind == TY_STR || t->kind == TY_NONE || t->kind == TY_DICT ||
                            (t->kind == TY_INSTANCE && ((const Cls *)t->ref)->is_module && !cls_find(t->ref, sym("__iter__"))))) {
        snprintf(text, sizeof text, "a tensor holds numbers; %s is none", type_text(t));
        diag_help(REPORT(c->C, E0401, node->span, text), "make numbers of the elements first: [float(s) for s in xs]");
        return false;
    }
    for (int i = 0; i < n && depth < 8; i++) {
        if (!data_judged(c, item[i], node, depth + 1))
            return false;
        m = type_is_any(item[i]) || (item[i]->kind != TY_LIST && item[i]->kind != TY_TUPLE) ? -1 : type_items(item[i], &inner);
        if (first >= 0 && m >= 0 && m != first) {
            snprintf(text, sizeof text, "tensor: the data is ragged: one row has %d element%s and another %d", first, first == 1 ? "" : "s", m);
            diag_help(REPORT(c->C, E0306, node->span, text), "pad the rows to one length, or keep a list of tensors");
            return false;
        }
        first = m >= 0 ? m : first;
    }
    return true;
}

const Type *rule_make_tensor(TCall *c)
{
    const CallArg *data = tcall_arg(c, 0, "data", NULL);
    Dim d[16] = {0};
    uint8_t dt = DT_NONE;
    TType e = {.dtype = DT_NONE};
    Ast *src;
    int n;

    if (!data || c->open)
        return tensor_unknown();
    tcall_element(c, 1, &e);
    src = data->node->kind == AST_Arg ? AST_AS(data->node, Arg)->value : data->node;
    if (!data_judged(c, data->type, c->node, 0))
        return tensor_unknown();
    n = source_shape(src, d, 0, &dt);
    if (n < 0) {
        dt = DT_NONE;
        n = data_shape(data->type, d, 0, &dt);
    }
    if (n < 0)
        return tensor_made(&e, RANK_UNKNOWN, NULL);
    if (!tcall_dtype(c, 1))
        e.dtype = dt;
    return tensor_made(&e, n, d);
}

const Type *rule_like(TCall *c)
{
    const TType *x = tcall_tensor(c, 0);
    TType t;

    if (!x)
        return tensor_unknown();
    t = *x;
    t.policy = NULL;
    tcall_element(c, -1, &t);
    return type_tensor(&t);
}

