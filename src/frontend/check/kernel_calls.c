/*
 * Calls of the kernel language's operations: arguments bound by the operation's
 * signature, each of the kind that its annotation names, then the rule of its row.
 */
#include "frontend/check/kernels.h"

#include "frontend/eval/native.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- kinds of arguments */

static bool is_int(const Type *t)
{
    return t->kind == TY_INT || t->kind == TY_BOOL;
}

static bool is_int_element(const Type *t)
{
    return t->kind == TY_TENSOR && (t->tensor->rank == 0 || t->tensor->rank == RANK_UNKNOWN || t->ref) &&
           (t->tensor->dtype == DT_NONE || !dtype_is_float((DType)t->tensor->dtype));
}

static bool is_place(const Type *t)
{
    return t->kind == TY_TENSOR && (t->ref || t->tensor->rank == RANK_UNKNOWN);
}

static bool is_fragment(const Type *t)
{
    return t->kind == TY_KERNEL && t->value >= KT_FRAGMENT_A && t->value <= KT_FRAGMENT_C;
}

static bool is_shape(const Type *t)
{
    if (t->kind == TY_TUPLE || t->kind == TY_LIST)
        for (int i = 0; i < (t->n < 0 ? 1 : t->n); i++)
            if (!type_is_any(t->item[i]) && !is_int(t->item[i]))
                return false;
    return is_int(t) || t->kind == TY_TUPLE || t->kind == TY_LIST;
}

static bool is_dtype(const Type *t)
{
    DType dt;

    return t->kind == TY_DTYPE || t->kind == TY_CLASS || t->kind == TY_NATIVE ||
           (t->kind == TY_STR && (!t->text || dtype_find(t->text->text, &dt)));
}

static bool is_indices(const Type *t)
{
    for (int i = 0; t->kind == TY_TUPLE && i < (t->n < 0 ? 1 : t->n); i++)
        if (!type_is_any(t->item[i]) && !is_int(t->item[i]) && !is_int_element(t->item[i]))
            return false;
    return t->kind == TY_TUPLE || is_int(t) || is_int_element(t);
}

typedef bool KindTest(const Type *t);

static bool is_block(const Type *t) { return t->kind == TY_TENSOR || is_fragment(t) || is_int(t) || t->kind == TY_FLOAT; }
static bool is_number(const Type *t) { return is_int(t) || t->kind == TY_FLOAT || (t->kind == TY_TENSOR && t->tensor->rank == 0); }
static bool is_index(const Type *t) { return is_int(t) || is_int_element(t); }
static bool is_scalar(const Type *t) { return kernel_is_scalar(t) || t->kind == TY_TENSOR; }
static bool is_flag(const Type *t) { return t->kind == TY_BOOL; }
static bool is_word(const Type *t) { return t->kind == TY_STR; }
static bool is_vector(const Type *t) { return t->kind == TY_TENSOR; }

static const struct { const char *name; KindTest *test; const char *text; } kinds[] = {
    {"Place", is_place, "memory: a parameter, a shared array or a slice of one"},
    {"Vector", is_vector, "a row of memory"},
    {"Block", is_block, "a block value"},
    {"Scalar", is_scalar, "an element or a number"},
    {"Index", is_index, "an int"},
    {"Indices", is_indices, "an int or a tuple of ints"},
    {"Int", is_int, "an int"},
    {"Shape", is_shape, "a tuple of ints"},
    {"DType", is_dtype, "a dtype"},
    {"Fragment", is_fragment, "a fragment"},
    {"Flag", is_flag, "True or False"},
    {"Real", is_number, "a number"},
    {"Axis", is_word, "the name of a mesh axis"},
};

static const char *found_text(const Type *t)
{
    if (t->kind != TY_TENSOR)
        return type_text(t);
    if (t->ref)
        return "memory";
    return t->tensor->rank == 0 ? "an element" : t->tensor->rank == RANK_UNKNOWN ? "a tensor" : "a block value";
}

/* The rows of `kinds` that an annotation names, a | b; 0: it names none of them. */
static uint32_t kinds_named(const Ast *a)
{
    if (AST_IS(a, BinOp))
        return kinds_named(AST_AS(a, BinOp)->left) | kinds_named(AST_AS(a, BinOp)->right);
    for (size_t i = 0; AST_IS(a, Name) && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, AST_AS(a, Name)->id->text))
            return 1u << i;
    return 0;
}

static bool report_kind(KernelCall *k, const NativeParam *p, const CallArg *a, uint32_t wanted)
{
    StrBuf need = {0};
    Diag *d;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (wanted >> i & 1)
            sb_printf(&need, "%s%s", need.n ? ", or " : "", kinds[i].text);
    d = REPORT(k->C, E0614, at_call(k->node, a->node), k->name, p->name->text, sb_str(&need), found_text(a->type));
    if (wanted == 1 && a->type->kind == TY_TENSOR && a->type->tensor->rank == 0)
        diag_help(d, "an element is read and stored by its index alone, v = x[i] and x[i] = v; a slice has an extent: x[i:i+1]");
    if (wanted == 1 && kernel_by_steps(a->node))
        diag_help(d, "%s", kernel_by_steps(a->node));
    sb_done(&need);
    return false;
}

/* ------------------------------------------------------------- words */

typedef struct { AstSeq words; int i; } Words;

static const char *next_word(void *state)
{
    Words *w = state;

    return w->i < w->words.n ? AST_AS(w->words.at[w->i++], Str)->value.s : NULL;
}

/* Literal["xor", "none"]: the argument, when its text is known, is one of them. */
static bool check_word(KernelCall *k, const NativeParam *p, const CallArg *a)
{
    const AstSubscript *s = AST_AS(p->annotation, Subscript);
    AstSeq words = AST_IS(s->index, Tuple) ? AST_AS(s->index, Tuple)->elts : (AstSeq){(Ast **)&s->index, 1};
    Words w = {words, 0};
    StrBuf all = {0};
    const char *near;
    Diag *d;

    if (a->type->kind == TY_NONE)
        return true;
    if (a->type->kind != TY_STR) {
        REPORT(k->C, E0614, at_call(k->node, a->node), k->name, p->name->text, "a word", found_text(a->type));
        return false;
    }
    for (int i = 0; i < words.n; i++)
        if (!a->type->text || !strcmp(AST_AS(words.at[i], Str)->value.s, a->type->text->text))
            return true;
    for (int i = 0; i < words.n; i++)
        sb_printf(&all, "%s\"%s\"", i ? i == words.n - 1 ? " and " : ", " : "", AST_AS(words.at[i], Str)->value.s);
    d = REPORT(k->C, E0615, at_call(k->node, a->node), k->name, p->name->text, a->type->text->text, sb_str(&all));
    near = closest_name(a->type->text->text, next_word, &w);
    if (near)
        diag_help(d, "did you mean \"%s\"?", near);
    else
        diag_help(d, "choose one of %s", sb_str(&all));
    sb_done(&all);
    return false;
}

static bool check_argument(KernelCall *k, const NativeParam *p, const CallArg *a)
{
    uint32_t wanted;

    if (!a || type_is_any(a->type) || !p->annotation)
        return true;
    if (AST_IS(p->annotation, Subscript))
        return check_word(k, p, a);
    wanted = kinds_named(p->annotation);
    if (!wanted || (a->type->kind == TY_NONE && !p->required))
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (wanted >> i & 1 && kinds[i].test(a->type))
            return true;
    if (a->type->kind == TY_UNION || (wanted & 1 && a->type->kind == TY_TENSOR && kernel_is_captured(a->node)))
        return true;
    if (kernel_op_id(k->op) == KOP_load && a->type->kind == TY_TENSOR && a->type->tensor->rank && AST_IS(a->node, Subscript))
        return true;                                /* memory by steps, or at blocks of ints: it is loaded as it stands */
    return report_kind(k, p, a, wanted);
}

/* ------------------------------------------------------------- what rules ask */

const TType *kernel_tensor(const KernelCall *k, int i)
{
    const Type *t = k->arg[i] ? k->arg[i]->type : NULL;

    if (type_is_any(t) || (t->kind != TY_TENSOR && t->kind != TY_KERNEL) || !t->tensor)
        return NULL;
    return t->tensor->rank == RANK_UNKNOWN ? NULL : t->tensor;
}

uint8_t kernel_dtype_arg(const KernelCall *k, int i, uint8_t missing)
{
    const Type *t = k->arg[i] ? k->arg[i]->type : NULL;
    DType dt;

    if (!t || t->kind == TY_NONE)
        return missing;
    if (t->kind == TY_DTYPE)
        return (uint8_t)t->value;
    return t->kind == TY_STR && t->text && dtype_find(t->text->text, &dt) ? (uint8_t)dt : DT_NONE;
}

int kernel_shape_arg(const KernelCall *k, int i, Dim *out)
{
    const Type *t = k->arg[i] ? k->arg[i]->type : NULL;

    if (type_is_any(t))
        return -1;
    if (t->kind == TY_INT) {
        out[0] = t->value == DIM_BAD ? kernel_unknown() : t->value;
        return 1;
    }
    if ((t->kind != TY_TUPLE && !(t->kind == TY_LIST && t->exact)) || t->n < 0 || t->n > 15)
        return -1;
    for (int d = 0; d < t->n; d++)
        out[d] = t->item[d]->kind == TY_INT && t->item[d]->value != DIM_BAD ? t->item[d]->value : kernel_unknown();
    return t->n;
}

Ast *kernel_arg_node(const KernelCall *k, int i)
{
    Ast *e = k->arg[i] ? k->arg[i]->node : k->node;

    return AST_IS(e, Arg) ? AST_AS(e, Arg)->value : e;
}

/* ------------------------------------------------------------- builtins */

/* min, max, abs, float and int are a tile's own: of elements and numbers. */
bool kernel_builtin(Check *C, const char *name, CallArgs *a, Ast *node, const Type **out)
{
    static const char *const names[] = {"min", "max", "float", "int", "abs"};
    bool extreme = !strcmp(name, names[0]) || !strcmp(name, names[1]), element = false;
    const Type *t = NULL;
    size_t which = 0;

    while (which < sizeof names / sizeof *names && strcmp(names[which], name))
        which++;
    if (which == sizeof names / sizeof *names || a->open)
        return false;
    *out = T_ANY;
    for (int i = 0; i < a->n; i++) {
        const Type *x = a->at[i].type;
        if (kernel_is_row(C, a->at[i].node))
            return true;
        if (type_is_any(x) || x->kind != TY_TENSOR)
            continue;
        element |= x->tensor->rank == 0;
        if (strcmp(name, "abs") && x->tensor->rank != RANK_UNKNOWN && x->tensor->rank > 0) {
            Diag *d = REPORT(C, E0614, at_call(node, a->at[i].node), name, "x", "an element or a number", found_text(x));
            if (extreme)
                diag_help(d, "%simum(a, b) compares block values", name);
            return true;
        }
    }
    for (int i = 0; extreme && element && i < a->n; i++) {
        if (type_is_any(a->at[i].type) || !kernel_is_scalar(a->at[i].type))
            return true;
        t = t ? kernel_join(t, a->at[i].type) : a->at[i].type;
    }
    if (t)
        *out = t;
    return t != NULL;
}

/* ------------------------------------------------------------- the call */

static KernelRule *const rule_of[KOP_COUNT] = {
#define KERNEL(id, owner, name, sig, rule, ...) [KOP_##id] = kernel_rule_##rule,
#include "frontend/kernel/kernel.def"
};

/* What the operation writes is the kernel's own. */
static bool check_written(KernelCall *k)
{
    for (int i = 0; i < 2; i++)
        if (k->op->effects & (i ? KERNEL_W1 : KERNEL_W0) && k->arg[i] &&
            !kernel_is_own(k->C, kernel_arg_node(k, i), k->arg[i]->node))
            return false;
    return true;
}

/* With *args in the call some arguments are not seen. */
static bool has_required(const KernelCall *k, const NativeSig *sig)
{
    for (int i = k->self != NULL; i < sig->n; i++)
        if (sig->param[i].required && !k->arg[i])
            return false;
    return true;
}

/* What every tile does for itself, it does to an element: a row has to be loaded first. */
static bool takes_elements(const KernelCall *k, const NativeParam *p)
{
    const char *kind = AST_IS(p->annotation, Name) ? AST_AS(p->annotation, Name)->id->text : "";

    return !strcmp(kind, "Scalar") || (k->op->level == KERNEL_LANE && !strcmp(kind, "Block") && !(k->op->effects & KERNEL_W0));
}

const Type *kernel_call(Check *C, const KernelOp *op, const NativeDef *d, const Type *self, CallArgs *a, Ast *node)
{
    const NativeSig *sig = native_sig(d);
    KernelCall k = {.C = C, .op = op, .name = kernel_op_text(op), .self = self, .node = node};

    if (!native_arguments(C, d, self != NULL, a, node, k.arg, (int)(sizeof k.arg / sizeof *k.arg)))
        return T_ANY;
    if (!C->kernel) {
        report_outside(C, op, node);
        return T_ANY;
    }
    if (!check_written(&k) || !has_required(&k, sig))
        return T_ANY;
    for (int i = 0; i < sig->n; i++)
        if (!check_argument(&k, &sig->param[i], k.arg[i]) || (takes_elements(&k, &sig->param[i]) && k.arg[i] &&
                                                              kernel_is_row(C, kernel_arg_node(&k, i))))
            return T_ANY;
    return rule_of[kernel_op_id(op)](&k);
}
