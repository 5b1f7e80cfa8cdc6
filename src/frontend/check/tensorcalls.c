/*
 * Functions and methods of tensors: how their arguments are read, and which
 * name has which rule.  A name without a row in tensorrules.def is not followed.
 */
#include "frontend/check/tensorcalls.h"

#include "frontend/eval/native.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- arguments */

const CallArg *tcall_arg(const TCall *c, int pos, const char *a, const char *b)
{
    int at = 0;

    for (int i = 0; i < c->n; i++) {
        const CallArg *x = &c->at[i];
        if (x->name ? (a && !strcmp(x->name->text, a)) || (b && !strcmp(x->name->text, b)) : at == pos)
            return x;
        at += !x->name;
    }
    return NULL;
}

int tcall_positional(const TCall *c)
{
    int n = 0;

    for (int i = 0; i < c->n; i++)
        n += !c->at[i].name;
    return n;
}

const TType *tcall_tensor(const TCall *c, int pos)
{
    const CallArg *x = tcall_arg(c, pos, NULL, NULL);

    return x && !type_is_any(x->type) && x->type->kind == TY_TENSOR ? x->type->tensor : NULL;
}

bool type_int_value(const Type *t, int64_t *out)
{
    return !type_is_any(t) && t->kind == TY_INT && t->value != DIM_BAD && dim_const_value(t->value, out);
}

bool tcall_keepdim(const TCall *c, int pos, bool *out)
{
    const CallArg *x = tcall_arg(c, pos, "keepdim", "keepdims");

    *out = false;
    if (!x)
        return true;
    if (type_is_any(x->type) || x->type->kind != TY_BOOL || x->type->value == BOOL_UNKNOWN)
        return false;
    *out = x->type->value == BOOL_TRUE;
    return true;
}

bool tcall_dtype(const TCall *c, int pos)
{
    const CallArg *x = tcall_arg(c, pos, "dtype", NULL);

    return x && (type_is_any(x->type) || x->type->kind != TY_NONE);
}

void tcall_element(const TCall *c, int pos, TType *out)
{
    const CallArg *x = tcall_arg(c, pos, "dtype", NULL);
    char what[64], got[96];

    if (!x || x->type->kind == TY_NONE || element_of_type(c->C, x->type, out) || x->type->kind != TY_STR || !x->type->text)
        return;
    snprintf(what, sizeof what, "the argument 'dtype' of %s()", c->name);
    snprintf(got, sizeof got, "'%.80s'", x->type->text->text);
    diag_help(REPORT(c->C, E0906, at_call(c->node, x->node), what, "a dtype", got), "dtypes are f32, bf16, int32, \"f16\" ...");
}

const Type *tensor_made(const TType *element, int rank, const Dim *shape)
{
    TType t = {.dtype = element->dtype, .policy = element->policy, .rank = (uint8_t)rank};

    for (int i = 0; rank != RANK_UNKNOWN && i < rank; i++)
        t.shape[i] = shape[i];
    return type_tensor(&t);
}

Dim size_of_type(const Type *t)
{
    return !type_is_any(t) && t->kind == TY_INT && t->value != DIM_BAD ? t->value : dim_open();
}

/* Places in a tensor are ints: true, with a report, for one of another dtype. */
bool tcall_not_index(TCall *c, const TType *index)
{
    char text[96];

    if (index->dtype == DT_NONE || index->dtype == DT_bool || dtype_is_int((DType)index->dtype))
        return false;
    snprintf(text, sizeof text, "%s(): indices are ints, not %s", c->name, dtype_info[index->dtype].name);
    diag_help(REPORT(c->C, E0401, c->node->span, text), "make them ints where they come from, or convert: .to(int32)");
    return true;
}

/* A float or a text where a size should be: -1, with a report. */
static int not_whole(const TCall *c, const CallArg *size, const Type *t)
{
    char text[96];

    snprintf(text, sizeof text, "%s(): a size is a whole number, not a %s", c->name, t->kind == TY_STR ? "str" : "float");
    diag_help(REPORT(c->C, E0306, at_call(c->node, size->node), text),
              t->kind == TY_STR ? "read the number in it with int(...)" : "divide with //, which gives an int, or convert with int(...)");
    return -1;
}

void tcall_judge_number(const TCall *c, const CallArg *x)
{
    const TType *t = x->type->tensor;
    Dim n = ttype_count(t);
    StrBuf text = {0};

    if (n == DIM_BAD || dim_eq(n, 1, NULL, NULL) != DIM_REFUTED)
        return;
    sb_printf(&text, "%s(): a number is meant, not a tensor %s", c->name, shape_of(t));
    diag_help(REPORT(c->C, E0306, at_call(c->node, x->node), sb_str(&text)), "one of its sizes is x.shape[0], one of its elements x[0].item()");
    origin_of(c->C, c->C->last, x->node, DIM_BAD);
    sb_done(&text);
}

static bool is_no_size(const Type *t) { return !type_is_any(t) && (t->kind == TY_FLOAT || t->kind == TY_STR); }

/* Sizes from position `from` on: several ints, or one tuple or list. -1: not known how many. */
int tcall_sizes(const TCall *c, int from, const char *name, Dim *out)
{
    const CallArg *first = tcall_arg(c, from, name, NULL);
    int n = 0, at = 0;

    if (c->open || !first)
        return c->open ? -1 : 0;
    if (type_is_any(first->type))
        return -1;
    if (is_no_size(first->type))
        return not_whole(c, first, first->type);
    if (first->type->kind == TY_TUPLE || first->type->kind == TY_LIST) {
        const Type *t = first->type;
        if (t->n < 0 || t->n > 16 || (t->kind == TY_LIST && !t->exact))
            return -1;
        for (; n < t->n; n++) {
            if (is_no_size(t->item[n]))
                return not_whole(c, first, t->item[n]);
            out[n] = size_of_type(t->item[n]);
        }
        return n;
    }
    if (first->name) {
        out[0] = size_of_type(first->type);
        return first->type->kind == TY_INT ? 1 : -1;
    }
    for (int i = 0; i < c->n; i++) {
        if (c->at[i].name)
            continue;
        if (at++ < from)
            continue;
        if (type_is_any(c->at[i].type))
            return -1;
        if (is_no_size(c->at[i].type))
            return not_whole(c, &c->at[i], c->at[i].type);
        if (c->at[i].type->kind == TY_TENSOR && !c->at[i].type->tensor->rank)       /* one number */
            return -1;
        if (c->at[i].type->kind != TY_INT || n == 16)
            break;
        out[n++] = size_of_type(c->at[i].type);
    }
    return n;
}

const Type *tensor_unknown(void)
{
    return type_tensor_unknown();
}

const Type *tensor_of_dtype(const TType *t)
{
    return tensor_made(t, RANK_UNKNOWN, NULL);
}

void tensor_axis_report(Check *C, const TType *x, int64_t k, const char *name, Ast *node)
{
    char axis[24], rank[24];
    Diag *d;

    snprintf(axis, sizeof axis, "%d", (int)k);
    snprintf(rank, sizeof rank, "%d", x->rank);
    d = REPORT(C, E0308, node->span, axis, shape_of(x), rank);
    diag_note(d, "in %s()", name);
    if (x->rank == 1)
        diag_help(d, "it has one axis: 0, or from the end -1");
    else if (x->rank)
        diag_help(d, "its axes are 0 to %d, or from the end -1 to -%d", x->rank - 1, x->rank);
}

int tcall_axis(TCall *c, const TType *x, const CallArg *a)
{
    char text[96];
    int64_t k;

    if (a && is_no_size(a->type)) {
        snprintf(text, sizeof text, "an axis, in %s(),", c->name);
        diag_help(REPORT(c->C, E0906, at_call(c->node, a->node), text, "an int", type_text(a->type)),
                  "axes are counted from 0, or from the end: -1 is the last");
        return -2;
    }
    if (!a || !type_int_value(a->type, &k) || x->rank == RANK_UNKNOWN || (!x->rank && (k == 0 || k == -1)))
        return -1;                          /* 0 and -1 name the axis that one element has not */
    if (k >= x->rank || k < -x->rank) {
        tensor_axis_report(c->C, x, k, c->name, c->node);
        return -2;
    }
    return (int)(k < 0 ? k + x->rank : k);
}

/* ------------------------------------------------------------- the table */

static const Rule rules[] = {
#define RULE(name, fn, op) {"", #name, rule_##fn, op},
#define DRAWN(name, fn, op) {"random", #name, rule_##fn, op},
#define SHARED(name, fn, op) {"_dist", #name, rule_##fn, op},
#include "frontend/check/tensorrules.def"
};

/* The rule of a function; those of the op table need no row. */
static const Rule *find(Check *C, const char *owner, const char *name)
{
    static Rule by_op[OP_COUNT];
    uintptr_t found = 0;
    Sym key;
    OpId op;

    bool first = !C->rule_of.n;

    for (size_t i = 0; first && i < sizeof rules / sizeof *rules; i++)
        if (!*rules[i].owner)
            map_set_ptr(&C->rule_of, sym(rules[i].name), &rules[i]);
    if (*owner) {
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
            if (!strcmp(rules[i].owner, owner) && !strcmp(rules[i].name, name))
                return &rules[i];
        return NULL;
    }
    key = sym(name);
    if (map_find(&C->rule_of, (uintptr_t)key, &found))
        return (const Rule *)found;
    if (!op_find(name, &op) || op_info[op].family != FAM_MAP || op_info[op].nin > 3 || op == OP_convert)
        return NULL;
    by_op[op] = (Rule){"", op_info[op].name, rule_by_name, (int)op};
    return &by_op[op];
}

bool tensor_has_rule(Check *C, const char *name)
{
    return find(C, "", name) != NULL;
}

/* f32.add(x, y): the operands must have that dtype. */
static bool typed_call(TCall *c, const char *owner, const Type **out)
{
    DType dt;

    if (!dtype_find(owner, &dt))
        return false;
    *out = T_ANY;
    for (int i = 0; i < c->n; i++) {
        const TType *x = tcall_tensor(c, i);
        if (!x || x->dtype == DT_NONE || x->dtype == dt)
            continue;
        REPORT(c->C, E0404, c->node->span, owner, c->name, dtype_info[x->dtype].name);
        return true;
    }
    return true;
}

/* The tensors among the arguments, and in lists of them, have one policy or none; what only looks at one may have another. */
static bool arguments_meet(TCall *c)
{
    const TType *in[ITEMS_MAX];
    int n = 0;

    if (c->rule->fn == rule_like || c->rule->fn == rule_convert)
        return true;
    for (int i = 0; i < c->n; i++) {
        const Type *t = c->at[i].type, *const *item = &c->at[i].type;
        int count = type_is_any(t) ? 0 : t->kind == TY_TENSOR ? 1 : type_items(t, &item);
        for (int k = 0; k < count && n < ITEMS_MAX; k++)
            if (!type_is_any(item[k]) && item[k]->kind == TY_TENSOR)
                in[n++] = item[k]->tensor;
    }
    return n < 2 || policies_meet(c->C, c->name, in, n, c->node);
}

static bool stands_for_none(const Type *t)
{
    return t->kind == TY_FUNC || t->kind == TY_CLASS || (t->kind == TY_INSTANCE && ((const Cls *)t->ref)->is_module);
}

static bool is_text(const Type *t) { return t->kind == TY_STR || t->kind == TY_DICT; }

/* The first of the elements, as far as they are known one by one, that is surely no tensor and nothing that becomes one; NULL: there is none. */
static const Type *not_joined(const Type *list)
{
    const Type *const *item;
    int n = type_is_any(list) || (list->kind != TY_LIST && list->kind != TY_TUPLE) ? 0 : type_items(list, &item);

    for (int i = 0; i < n; i++)
        if (!type_is_any(item[i]) && (stands_for_none(item[i]) || is_text(item[i]) || item[i]->kind == TY_NONE))
            return item[i];
    return NULL;
}

/* A module, a function or nothing, in place of the tensor that a function is about. false: reported. */
static bool about_tensor(TCall *c)
{
    static RuleFn *const about[] = {rule_elementwise, rule_same, rule_clip, rule_same_axis, rule_linear, rule_lookup, rule_conv, rule_reshape,
                                    rule_by_name, rule_like, rule_concat, rule_stack};
    const Type *t = c->n && !c->at[0].name && !c->at[0].stars ? c->at[0].type : T_ANY;
    bool lists = c->rule->fn == rule_concat || c->rule->fn == rule_stack;
    char text[160];

    t = lists ? not_joined(t) : t;
    /* natives say of texts themselves what they take */
    if (!t || type_is_any(t) || c->C->kernel || !(lists || stands_for_none(t) || (is_text(t) && !native_find("", c->name))))
        return true;
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (c->rule->fn == about[i]) {
            snprintf(text, sizeof text, "%s() takes %s, not %s", c->name, lists ? "tensors" : "a tensor", type_text(t));
            diag_help(REPORT(c->C, E0401, c->node->span, text), t->kind == TY_INSTANCE ? "pass what the module gives: m(x)" :
                                                                is_text(t)             ? "pass the tensor that was meant" : "call it first");
            return false;
        }
    return true;
}

static const Type *judged(TCall *c) { return about_tensor(c) && arguments_meet(c) ? c->rule->fn(c) : tensor_unknown(); }

static const Type *segmented(Check *C, CallArgs *a, const void *with)
{
    TCall c = *(const TCall *)with;

    c.at = a->at;
    return judged(&c);
}

bool tensor_call(Check *C, const char *owner, const char *name, const Type *self, CallArgs *a, Ast *node, const Type **out)
{
    CallArg all[65];
    bool own = !strcmp(owner, "random") || !strcmp(owner, "_dist");      /* owners that have rules of their own */
    TCall c = {C, name, all, 0, a->open, node, find(C, own ? owner : "", name)};
    bool method = self && self->kind == TY_TENSOR;

    if (self && !method)
        return false;
    if (method)
        all[c.n++] = (CallArg){NULL, self, node, 0};
    for (int i = 0; i < a->n && c.n < 65; i++)
        all[c.n++] = a->at[i];
    if (*owner && !own && strcmp(owner, "Tensor") && strcmp(owner, "_core"))
        return typed_call(&c, owner, out);
    if (!c.rule)
        return false;
    if (!segments_infer(C, &(CallArgs){all, c.n, a->open}, segmented, &c, out))
        *out = judged(&c);
    return *out != NULL;
}
