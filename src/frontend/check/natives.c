/*
 * Natives as their signatures declare them: which argument meets which
 * parameter, what surely is no such argument, and what comes back.
 *
 * A signature says what is meant, and natives take more than that: a float may be any number, an
 * int what has __index__, a float that is known here a tensor of no axes.  So
 * an argument is judged only when it is of a kind that the declared one never
 * takes: a text where a number is meant.
 */
#include "frontend/check/binding.h"

#include "frontend/eval/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ------------------------------------------------------------- results */

static const Type *declared_name(const char *s)
{
    static const struct { const char *name; TypeKind kind; } plain[] = {
        {"float", TY_FLOAT}, {"bool", TY_BOOL}, {"complex", TY_COMPLEX}, {"bytes", TY_BYTES}, {"range", TY_RANGE},
    };

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(plain[i].name, s))
            return type_of_kind(plain[i].kind);
    if (!strcmp(s, "dict"))
        return type_dict(T_ANY, T_ANY);
    if (!strcmp(s, "list"))
        return type_list(T_ANY);
    if (!strcmp(s, "set"))
        return type_set(T_ANY);
    if (!strcmp(s, "int"))
        return type_int(DIM_BAD);
    if (!strcmp(s, "str"))
        return type_str(NULL);
    if (!strcmp(s, "Tensor"))
        return type_tensor_unknown();
    return native_has_owner(s) && (native_find(s, "__enter__") || native_find(s, "appendleft")) ? type_object(sym(s)) : T_ANY;
}

static const Type *declared_form(const char *of, AstSeq items)
{
    const Type *m[ITEMS_MAX];

    if (!strcmp(of, "Tensor"))
        return type_tensor_unknown();
    if (items.n > ITEMS_MAX || !items.n)
        return T_ANY;
    for (int i = 0; i < items.n; i++)
        m[i] = native_declared(items.at[i]);
    return !strcmp(of, "list") ? type_list(m[0]) : !strcmp(of, "Iterator") ? T_ANY : !strcmp(of, "tuple") ? type_tuple(m, items.n) : T_ANY;
}

const Type *native_declared(const Ast *r)
{
    const AstSubscript *s = AST_AS(r, Subscript);
    Ast *one;

    if (!r)
        return T_ANY;
    switch (r->kind) {
    case AST_Const:
        return AST_AS(r, Const)->value == CONST_NONE ? T_NONE : T_ANY;
    case AST_Name:
        return declared_name(AST_AS(r, Name)->id->text);
    case AST_BinOp:
        return AST_AS(r, BinOp)->op != AOP_BITOR ? T_ANY :
               type_join(native_declared(AST_AS(r, BinOp)->left), native_declared(AST_AS(r, BinOp)->right));
    case AST_Subscript:
        one = s->index;
        return !AST_IS(s->value, Name) ? T_ANY :
               declared_form(AST_AS(s->value, Name)->id->text, AST_IS(one, Tuple) ? AST_AS(one, Tuple)->elts : (AstSeq){&one, 1});
    default:
        return T_ANY;
    }
}

const Type *native_elements(const char *owner)
{
    const NativeDef *d = native_find(owner, "__iter__");
    const NativeSig *sig = d && d->sig && d->sig[0] == '(' ? native_sig(d) : NULL;
    const AstSubscript *s = sig ? AST_AS(sig->returns, Subscript) : NULL;

    return s && AST_IS(sig->returns, Subscript) ? native_declared(s->index) : T_ANY;
}

/* ------------------------------------------------------------- arguments */

static bool bind(Check *C, const NativeDef *d, const char *callee, bool method, CallArgs *a, Ast *node, Slots *s)
{
    const NativeSig *sig = native_sig(d);

    slots_init(s, callee, (AstSeq){0});
    for (int i = 0; i < sig->n; i++) {
        const NativeParam *p = &sig->param[i];
        if (p->kind == PARAM_ANY)
            return true;
        s->at[s->n++] = (Slot){p->name, p->kind, p->required && p->kind != PARAM_VARARGS && p->kind != PARAM_KWARGS, NULL, 0};
    }
    return slots_bind(C, s, a, method && (!*d->owner || !strncmp(d->sig, "(self", 5) || !strncmp(d->sig, "(cls", 4)), node);
}

static bool has_signature(const NativeDef *d)
{
    return d->sig && d->sig[0] == '(' && native_sig(d)->n <= 64;
}

bool native_bind(Check *C, const NativeDef *d, bool method, CallArgs *a, Ast *node, Slots *s)
{
    return !has_signature(d) || bind(C, d, d->name, method, a, node, s);
}

bool native_arguments(Check *C, const NativeDef *d, bool method, CallArgs *a, Ast *node, const CallArg **out, int max)
{
    char name[128];
    Slots s;
    bool ok;

    snprintf(name, sizeof name, "%s%s%s", d->owner, *d->owner ? "." : "", d->name);
    ok = bind(C, d, name, method, a, node, &s);
    for (int i = 0; ok && i < s.n && i < max; i++)
        out[i] = s.at[i].arg;
    return ok;
}

/* Kinds of values that a declared name never takes. */
static bool never(TypeKind k, const char *want)
{
    bool container = k == TY_LIST || k == TY_TUPLE || k == TY_DICT || k == TY_SET || k == TY_RANGE,
         callable = k == TY_FUNC || k == TY_LIBRARY || k == TY_OBJECT, text = k == TY_STR || k == TY_BYTES, number = k == TY_INT || k == TY_BOOL;

    if (!strcmp(want, "int") || !strcmp(want, "float"))
        return k == TY_NONE || text || container || callable;
    if (!strcmp(want, "str"))
        return k == TY_NONE || k == TY_BYTES || number || k == TY_FLOAT || container || callable;
    if (!strcmp(want, "bytes"))
        return k == TY_NONE || k == TY_STR || number || k == TY_FLOAT || container || callable;
    if (!strcmp(want, "Callable"))
        return k == TY_NONE || text || number || container;
    if (!strcmp(want, "bool"))
        return text || k == TY_DICT || k == TY_SET;
    if (!strcmp(want, "Device") || !strcmp(want, "DType"))
        return k == TY_FLOAT || container || k == TY_BYTES || k == TY_TENSOR || k == TY_FUNC;
    if (!strcmp(want, "Tensor"))
        return text || k == TY_DICT || k == TY_SET;
    if (!strcmp(want, "dict"))
        return k == TY_NONE || text || number || k == TY_FLOAT || k == TY_LIST || k == TY_TUPLE;
    if (!strcmp(want, "tuple"))
        return k == TY_NONE || number || k == TY_FLOAT || text || k == TY_DICT || k == TY_SET || callable;
    if (!strcmp(want, "list") && (text || k == TY_FLOAT))
        return true;
    if (!strcmp(want, "list") || !strcmp(want, "Iterable"))
        return k == TY_NONE || number || (callable && k != TY_OBJECT);
    return !strcmp(want, "None") && k != TY_NONE && k > TY_UNSET && k != TY_UNION;
}

static bool surely_not(const Type *t, const Ast *want);

/* What the json module writes: numbers, texts, lists and dicts of them. */
static bool no_json(const Type *t, int deep)
{
    if (type_is_any(t) || deep > 8)
        return false;
    if (t->kind == TY_DICT && t->exact) {
        for (int i = 1; i < t->n; i += 2)
            if (no_json(t->item[i], deep + 1))
                return true;
        return false;
    }
    if (t->kind == TY_LIST || t->kind == TY_TUPLE) {
        for (int i = 0; t->item && i < (t->n < 0 ? 1 : t->n) && (t->kind == TY_TUPLE ? t->n > 0 : t->exact); i++)
            if (no_json(t->item[i], deep + 1))
                return true;
        return false;
    }
    return t->kind == TY_TENSOR || t->kind == TY_SET || t->kind == TY_BYTES || t->kind == TY_COMPLEX || t->kind == TY_FUNC;
}

/* Iterable[str] and list[str] of elements that are none. */
static bool elements_not(const Type *t, const Ast *want)
{
    const AstSubscript *s = AST_AS(want, Subscript);
    const char *of = AST_IS(s->value, Name) ? AST_AS(s->value, Name)->id->text : "";

    return (!strcmp(of, "Iterable") || !strcmp(of, "list")) &&
           (t->kind == TY_LIST || t->kind == TY_TUPLE || t->kind == TY_SET || t->kind == TY_RANGE) && surely_not(element_of(t), s->index);
}

AstSeq native_choices(const Ast *want)
{
    const AstSubscript *s = AST_AS(want, Subscript);
    AstSeq one = AST_IS(want, BinOp) ? native_choices(AST_AS(want, BinOp)->left) : (AstSeq){0};

    if (AST_IS(want, BinOp))
        return one.n ? one : native_choices(AST_AS(want, BinOp)->right);
    if (!AST_IS(want, Subscript) || !AST_IS(s->value, Name) || strcmp(AST_AS(s->value, Name)->id->text, "Literal"))
        return (AstSeq){0};
    return AST_IS(s->index, Tuple) ? AST_AS(s->index, Tuple)->elts : (AstSeq){(Ast **)&s->index, 1};
}

static bool not_chosen(const Type *t, AstSeq texts)
{
    for (int i = 0; i < texts.n && t->kind == TY_STR && t->text; i++)
        if (AST_IS(texts.at[i], Str) && !strcmp(AST_AS(texts.at[i], Str)->value.s, t->text->text))
            return false;
    return t->kind == TY_STR ? t->text != NULL : never(t->kind, "str");
}

bool native_refuses(const Type *t, const Ast *want) { return surely_not(t, want); }

/* "64MB", "1.5 GB", "512": what the library reads as a number of bytes. */
static bool is_size(const char *s)
{
    const char *end = s + strspn(s, " "), *digits = end;
    double n = strtod(digits, NULL);

    end += strspn(end, "0123456789.");
    end += end > digits ? strspn(end, " ") : 0;
    return n > 0 && end > digits &&
           (!*end || !strcasecmp(end, "B") || (strchr("KMGTkmgt", *end) && strspn(end + 1, "Bb") == strlen(end + 1) && strlen(end) < 3));
}

static bool surely_not(const Type *t, const Ast *want)
{
    DType dt;

    if (!want || type_is_any(t) || t->kind == TY_LAZY)
        return false;
    if (t->kind == TY_UNION) {
        for (int i = 0; i < t->n; i++)
            if (!surely_not(t->item[i], want))
                return false;
        return true;
    }
    switch (want->kind) {
    case AST_Name:
        if (t->kind == TY_TENSOR && (!strcmp(AST_AS(want, Name)->id->text, "int") || !strcmp(AST_AS(want, Name)->id->text, "float")))
            return ttype_count(t->tensor) != DIM_BAD && dim_eq(ttype_count(t->tensor), 1, NULL, NULL) == DIM_REFUTED;
        if (!strcmp(AST_AS(want, Name)->id->text, "Device") && device_misnamed(t))
            return true;
        if (!strcmp(AST_AS(want, Name)->id->text, "Size"))
            return t->kind == TY_STR ? t->text && !is_size(t->text->text) : never(t->kind, "int");
        if (!strcmp(AST_AS(want, Name)->id->text, "Json"))
            return no_json(t, 0);
        if (!strcmp(AST_AS(want, Name)->id->text, "DType") && t->kind == TY_STR)
            return t->text && !dtype_find(t->text->text, &dt);
        return never(t->kind, AST_AS(want, Name)->id->text);
    case AST_Const:
        return AST_AS(want, Const)->value == CONST_NONE && never(t->kind, "None");
    case AST_Subscript:
        if (native_choices(want).n)
            return not_chosen(t, native_choices(want));
        return surely_not(t, AST_AS(want, Subscript)->value) || elements_not(t, want);
    case AST_BinOp:
        return AST_AS(want, BinOp)->op == AOP_BITOR && surely_not(t, AST_AS(want, BinOp)->left) && surely_not(t, AST_AS(want, BinOp)->right);
    default:
        return false;
    }
}

static bool is_number(const char *s)
{
    char *end;

    strtod(s, &end);
    return *s && !*end && strspn(s, "+-.0123456789eE") == strlen(s);
}

static void advise(Diag *d, const Type *got, const char *want, Ast *arg)
{
    StrBuf text = {0};
    const Ast *value = AST_IS(arg, Arg) ? AST_AS(arg, Arg)->value : arg;
    const char *make = !strcmp(want, "float") || !strcmp(want, "int") || !strcmp(want, "str") ? want : NULL;

    ast_print(value, &text);
    while (text.n && strchr("\n ", sb_str(&text)[text.n - 1]))
        text.n--;
    if (make && got->kind == TY_LIST)
        diag_help(d, "take its elements one by one: [f(x) for x in xs], or compute with a tensor: tensor(xs)");
    else if (AST_IS(value, Str) && make && strcmp(make, "str") && is_number(AST_AS(value, Str)->value.s)) {
        diag_help(d, "write it without quotes: %s", AST_AS(value, Str)->value.s);
        diag_fix(d, value->span, AST_AS(value, Str)->value.s);
    } else if (AST_IS(value, Str) && make && strcmp(make, "str"))
        diag_help(d, "pass %s", want);
    else if (make && (got->kind == TY_STR || !strcmp(make, "str")) && got->kind != TY_NONE && text.n < 40)
        diag_help(d, "convert it: %s(%.*s)", make, (int)text.n, sb_str(&text));
    else
        diag_help(d, "pass %s", want);
    sb_done(&text);
}

/* The parameter that argument i meets; NULL: not known. */
static const NativeParam *met(const NativeSig *sig, const Slots *s, const CallArgs *a, int i)
{
    for (int k = 0; k < s->n; k++)
        if (s->at[k].arg == &a->at[i])
            return &sig->param[k];
    for (int k = 0; k < sig->n && !a->at[i].name && !a->at[i].stars && !a->open; k++)
        if (sig->param[k].kind == PARAM_VARARGS)
            return &sig->param[k];
    return NULL;
}

void native_report(Check *C, const char *what, const char *want, const CallArg *x, Ast *node)
{
    bool json = !strcmp(want, "Json"), size = !strcmp(want, "Size"), text = size && x->type->kind == TY_STR;
    Diag *told = REPORT(C, E0906, at_call(node, x->node), what,
                        json ? "made of numbers, texts, lists and dicts" : size ? "a number of bytes, or a text such as \"64MB\"" : want,
                        text ? x->type->text->text : type_text(x->type));

    if (json)
        diag_help(told, "a tensor is written as x.tolist(), a set as a list, other objects by default=f");
    else if (size)
        diag_help(told, "sizes are written with B, KB, MB, GB or TB; 1 KB is 1024 bytes");
    else
        advise(told, x->type, want, x->node);
    origin_of(C, told, AST_IS(x->node, Arg) ? AST_AS(x->node, Arg)->value : x->node, DIM_BAD);
}

static void report_argument(Check *C, const NativeDef *d, const NativeParam *p, const CallArg *x, Ast *node)
{
    StrBuf want = {0}, what = {0};

    ast_print(p->annotation, &want);
    if (!strcmp(d->name, "__new__"))
        sb_printf(&what, "the argument '%s' of %s()", p->name->text, d->owner);
    else
        sb_printf(&what, "the argument '%s' of %s%s%s()", p->name->text, d->owner, *d->owner ? "." : "", d->name);
    native_report(C, sb_str(&what), sb_str(&want), x, node);
    sb_done(&want);
    sb_done(&what);
}

/* json.dumps(x, default=f, cls=C): what JSON has not is made of it then. */
static bool takes_more(const CallArgs *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->at[i].stars || (a->at[i].name && (!strcmp(a->at[i].name->text, "default") || !strcmp(a->at[i].name->text, "cls"))))
            return true;
    return false;
}

void native_judged(Check *C, const NativeDef *d, const Slots *s, const CallArgs *a, Ast *node)
{
    const NativeSig *sig = has_signature(d) ? native_sig(d) : NULL;

    for (int i = 0; sig && i < a->n; i++) {
        const NativeParam *p = met(sig, s, a, i);
        if (p && AST_IS(p->annotation, Name) && !strcmp(AST_AS(p->annotation, Name)->id->text, "Json") && takes_more(a))
            continue;
        if (p && p->annotation && !AST_IS(p->dflt, Const) && surely_not(T_NONE, p->annotation) && !a->at[i].stars)
            optional_used(C, value_of_arg(a->at[i].node), "it does not go into %s()", *d->name == '_' ? d->owner : d->name);
        if (!p || !p->annotation || (a->at[i].type->kind == TY_NONE && AST_IS(p->dflt, Const)) || !surely_not(a->at[i].type, p->annotation))
            continue;
        report_argument(C, d, p, &a->at[i], node);
        return;
    }
}
