/*
 * Attributes: what value.name is, for modules, objects, tensors, dtypes and the
 * builtin types; a name that is surely not there is reported with what was meant.
 */
#include "frontend/check/kernels.h"

#include "frontend/check/foreign.h"
#include "frontend/check/spaces.h"
#include "frontend/eval/native.h"
#include "frontend/prelude.h"

#include <stdio.h>
#include <string.h>

static const Type *native_of(const char *owner, Sym attr)
{
    const NativeDef *d = native_find(owner, attr->text);

    if (!d || !d->sig)
        return NULL;
    if (d->sig[0] == '(' || !strncmp(d->sig, "type[", 5))
        return type_ref(TY_NATIVE, d);
    if (!strcmp(d->sig, "property[str]"))
        return type_str(NULL);
    return !strcmp(d->sig, "float") ? type_of_kind(TY_FLOAT) : !strcmp(d->sig, "int") ? type_int(DIM_BAD) :
           native_has_owner(d->sig) ? native_declared(&(AstName){.ast = {.kind = AST_Name}, .id = sym(d->sig)}.ast) : T_ANY;
}

/* Is it the function that the prelude has by that name? np.svd takes other arguments. */
static bool in_prelude(const Space *s, Sym attr)
{
    int row = prelude_find(attr);

    return row >= 0 && prelude_row(row)->kind == PRELUDE_STDLIB && !strcmp(prelude_row(row)->module, s->name);
}

const Type *space_attribute(Check *C, const Space *s, Sym attr)
{
    const Space *sub;
    const Type *t;
    int row;

    if (!s)
        return T_ANY;
    if (s->path) {
        t = space_type(C, s, attr);
        return t && t->kind == TY_LAZY ? lazy_type(C, t) : t ? t : T_ANY;
    }
    if (!strcmp(s->name, "tessera") || !strcmp(s->name, "ts")) {
        row = prelude_find(attr);
        return row >= 0 ? prelude_type(C, row) : T_ANY;
    }
    sub = space_member(s, attr);
    if (sub)
        return type_ref(TY_SPACE, sub);
    t = native_of(s->name, attr);
    if (!t && tensor_has_rule(C, attr->text) && in_prelude(s, attr) && AST_IS(space_definition(s, attr), FunctionDef))
        t = type_ref(TY_LIBRARY, space_definition(s, attr));
    if (!t)
        t = space_type(C, s, attr);
    return t && t->kind == TY_LAZY ? lazy_type(C, t) : t ? t : T_ANY;
}

static const char *owner_of(const Type *t)
{
    switch (t->kind) {
    case TY_STR: return "str";
    case TY_LIST: return "list";
    case TY_DICT: return "dict";
    case TY_SET: return "set";
    case TY_TUPLE: return "tuple";
    case TY_INT: return "int";
    case TY_FLOAT: return "float";
    case TY_BYTES: return "bytes";
    case TY_RANGE: return "range";
    case TY_OBJECT: return t->text->text;
    default: return NULL;
    }
}

typedef struct { const char *owner; int table, row; } Methods;

static const char *next_method(void *state)
{
    Methods *m = state;

    for (; native_tables[m->table]; m->table++, m->row = 0)
        while (native_tables[m->table][m->row].name) {
            const NativeDef *d = &native_tables[m->table][m->row++];
            if (!strcmp(d->owner, m->owner))
                return d->name;
        }
    return NULL;
}

const char *builtin_near(const char *owner, Sym attr)
{
    Methods all = {owner, 0, 0};

    return closest_name(attr->text, next_method, &all);
}

/* None has no methods: whatever is asked of it, the object is what is missing. */
static const Type *none_attribute(Check *C, Sym attr, Ast *node)
{
    Diag *d;

    if (!strncmp(attr->text, "__", 2))
        return T_ANY;
    d = REPORT(C, E0910, node->span, "None", attr->text);
    diag_help(d, "the object is None here: give the variable a value first, or return one; a function without return gives None");
    if (AST_IS(node, Attribute))
        origin_of(C, d, AST_AS(node, Attribute)->value, DIM_BAD);
    return T_ANY;
}

/* The library asks its argument for what tensors have, and it is none. */
static const Type *no_tensor(Check *C, const Type *t, Ast *node)
{
    char text[160];

    snprintf(text, sizeof text, "a tensor is needed, not %s", type_text(t));
    diag_help(REPORT(C, E0401, node->span, text), "pass a tensor: tensor(x) makes one of numbers and of lists of them");
    return T_ANY;
}

static const Type *builtin_attribute(Check *C, const Type *t, const char *owner, Sym attr, Ast *node)
{
    const Type *m = native_of(owner, attr);
    Methods all = {owner, 0, 0};
    const Foreign *known;
    const char *near;
    int calls = C->calls;
    Diag *d;

    if (m)
        return m->kind == TY_NATIVE ? type_method(t, m) : m;
    if (!strncmp(attr->text, "__", 2) || !next_method(&all) || (!strcmp(owner, "float") && native_of("Tensor", attr)))
        return T_ANY;                               /* sqrt(2.0) is a tensor that counts as a float */
    if (C->home->library && library_surely(C) && tensor_knows(attr))
        return no_tensor(C, t, node);
    known = foreign_find(owner, attr->text);
    near = builtin_near(owner, attr);
    /* in a body that is followed a slip of the pen is said, and where a tensor is meant */
    C->calls = near || (tensor_knows(attr) && followed_surely(C)) ? 0 : calls;
    d = REPORT(C, E0910, node->span, owner, attr->text);
    C->calls = calls;
    if (known) {
        foreign_help(d, known, span_tail(node->span, attr->text));
    } else if (near)
        diag_guess(d, span_tail(node->span, attr->text), attr->text, near);
    else
        help_names(d, "it has", next_method, &(Methods){owner, 0, 0});
    return T_ANY;
}

/* The name of a function that has no attributes but what the program stores: a builtin, or one of the program without decorators. */
static const char *plain_name(const Type *t)
{
    const NativeDef *d = t->kind == TY_NATIVE ? t->ref : NULL;
    const Fn *f = t->kind == TY_FUNC ? t->ref : NULL;

    if (d)
        return d->sig[0] == '(' ? d->name : NULL;
    if (!f || !AST_IS(f->node, FunctionDef) || f->around->home->library)
        return NULL;
    return AST_AS(f->node, FunctionDef)->decorators.n ? NULL : f->name->text;
}

/* x.sum.item, s.strip.lower: what was meant is an attribute of what the call gives. */
static const Type *function_attribute(Check *C, const Type *t, Sym attr, Ast *node)
{
    const char *name = plain_name(t->kind == TY_METHOD ? t->ref : t);
    char what[96], help[160];

    if (!name || !strncmp(attr->text, "__", 2) || C->setattr_used || C->hasattr_used || C->home->library ||
        map_find(&C->stored_attrs, (uintptr_t)attr, NULL))
        return T_ANY;
    snprintf(what, sizeof what, "the %s '%.60s'", t->kind == TY_METHOD ? "method" : "function", name);
    if (prelude_find(attr) < 0)
        snprintf(help, sizeof help, "call it: what %.60s(...) gives may have one", name);
    else
        snprintf(help, sizeof help, "%.60s is a name of its own here", attr->text);
    diag_help(REPORT(C, E0910, node->span, what, attr->text), "%s", help);
    return T_ANY;
}

static const Type *native_attribute(Check *C, const Type *t, Sym attr, Ast *node)
{
    const NativeDef *d = t->ref;
    const Type *m = native_of(d->name, attr);       /* tessera.checkpoint.policy */

    if (!m)
        return *d->owner ? T_ANY : function_attribute(C, t, attr, node);
    if (m->kind == TY_NATIVE && !strncmp(((const NativeDef *)m->ref)->sig, "(cls", 4) && strcmp(attr->text, "__new__"))
        return type_method(t, m);                   /* dict.fromkeys, which is given its class as any argument */
    return m;
}

const Type *attribute(Check *C, const Type *t, Sym attr, Ast *node)
{
    const Type *m;

    if (type_is_any(t) || !attr)
        return T_ANY;
    switch (t->kind) {
    case TY_SPACE:
        return space_attribute(C, t->ref, attr);
    case TY_INSTANCE:
    case TY_CLASS:
        return cls_attribute(C, t->ref, t, attr, node);
    case TY_TENSOR:
        return tensor_attribute(C, t, attr, node);
    case TY_KERNEL:
        return kernel_attribute(C, t, attr, node);
    case TY_TRANSFORM:
        return type_is_kernel(t) ? kernel_member(C, t, attr, node) : T_ANY;
    case TY_DTYPE:                                  /* f32.add: the function for that dtype alone */
        if (!strcmp(attr->text, "is_float"))
            return type_bool(dtype_is_float((DType)t->value));
        m = native_of("", attr);
        return m && m->kind == TY_NATIVE ? type_method(t, m) : T_ANY;
    case TY_NATIVE:
        return native_attribute(C, t, attr, node);
    case TY_METHOD: case TY_FUNC:
        return function_attribute(C, t, attr, node);
    case TY_NONE:
        return none_attribute(C, attr, node);
    default:
        return owner_of(t) ? builtin_attribute(C, t, owner_of(t), attr, node) : T_ANY;
    }
}
