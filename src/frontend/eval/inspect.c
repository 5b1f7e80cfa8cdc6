/*
 * What functions and classes tell about themselves: f.__code__ and f.__annotations__, C.__mro__ and C.__subclasses__(), and
 * whose instances values are.
 */
#include "frontend/eval/eval.h"

#include <string.h>

typedef struct CodeObj { NativeInst inst; const Code *code; } CodeObj;

enum { CO_VARARGS = 4, CO_VARKEYWORDS = 8, CO_GENERATOR = 32, CO_COROUTINE = 128 };

/* Python lists *args and **kw after the parameters that can be named. */
static Value param_names(const Code *c)
{
    Value t = tuple_new(c->nparams);
    int at = 0;

    for (int i = 0; i < c->nparams; i++)
        if (i != c->varargs && i != c->kwargs)
            as_tuple(t)->at[at++] = str_sym(c->param[i]);
    if (c->varargs >= 0)
        as_tuple(t)->at[at++] = str_sym(c->param[c->varargs]);
    if (c->kwargs >= 0)
        as_tuple(t)->at[at++] = str_sym(c->param[c->kwargs]);
    return t;
}

static int64_t code_flags(const Code *c)
{
    return (c->varargs >= 0 || c->any_params ? CO_VARARGS : 0) | (c->kwargs >= 0 || c->any_params ? CO_VARKEYWORDS : 0) |
           (c->is_generator ? CO_GENERATOR : 0) | (c->is_async ? CO_COROUTINE : 0);
}

/* The text of the definition, as the file has it, without its decorators. */
static Value source_text(const Code *c)
{
    const Source *src = source_of(c->ast->span.lo);

    return src ? str_new(src->text + (c->ast->span.lo - src->base), c->ast->span.hi - c->ast->span.lo) : VNONE;
}

static Value code_getattr(Interp *I, void *self, Sym name)
{
    const Code *c = ((CodeObj *)self)->code;
    int stars = (c->varargs >= 0) + (c->kwargs >= 0);

    (void)I;
    if (!strcmp(name->text, "co_name"))
        return str_sym(c->name);
    if (!strcmp(name->text, "co_qualname"))
        return str_c(c->qualname);
    if (!strcmp(name->text, "co_argcount"))
        return vint(c->npos);
    if (!strcmp(name->text, "co_posonlyargcount"))
        return vint(c->nposonly);
    if (!strcmp(name->text, "co_kwonlyargcount"))
        return vint(c->nparams - c->npos - stars);
    if (!strcmp(name->text, "co_varnames"))
        return param_names(c);
    if (!strcmp(name->text, "co_flags"))
        return vint(code_flags(c));
    if (!strcmp(name->text, "co_firstlineno"))
        return vint(source_place(c->ast->span.lo).line);
    if (!strcmp(name->text, "co_filename"))
        return source_of(c->ast->span.lo) ? str_c(source_of(c->ast->span.lo)->path) : VNONE;
    if (!strcmp(name->text, "co_source"))
        return source_text(c);
    return VERR;
}

static const NativeType code_type = {.name = "code", .getattr = code_getattr};

static Value code_value(const Code *c)
{
    CodeObj *o = nativeobj_new(&code_type, sizeof *o);

    o->code = c;
    return vobj(o);
}

/* What a plain name stands for in the function's module or in the prelude: the class of that name; V_ERR: anything else. */
static Value named_class(Interp *I, ModuleObj *m, Sym name)
{
    Value v = value_getattr_opt(I, vobj(m), name);

    if (is_err(v))
        v = value_ref(prelude_get(I, name->text));
    if (v.tag == V_CLASS && ((ClassObj *)v.o)->name == name)
        return v;
    value_unref(v);
    return VERR;
}

/* What stands for a class, None, or a union of such; V_ERR: anything else. */
static Value named_type(Interp *I, ModuleObj *m, const Ast *annotation)
{
    Value a, b, u;

    if (AST_IS(annotation, Name))
        return named_class(I, m, AST_AS(annotation, Name)->id);
    if (ast_is_const(annotation, CONST_NONE))
        return VNONE;
    if (!AST_IS(annotation, BinOp) || AST_AS(annotation, BinOp)->op != AOP_BITOR)
        return VERR;
    a = named_type(I, m, AST_AS(annotation, BinOp)->left);
    b = is_err(a) ? VERR : named_type(I, m, AST_AS(annotation, BinOp)->right);
    u = is_err(b) ? VERR : value_binary(I, AOP_BITOR, a, b);
    value_unref(a);
    value_unref(b);
    return u;
}

/* Annotations are not evaluated, so that they may name what does not exist: classes by their names and unions of these, else the text. */
static void put_annotation(Interp *I, ModuleObj *m, DictObj *d, Sym name, const Ast *annotation)
{
    StrBuf text = {0};
    Value v = VERR;

    if (!annotation)
        return;
    if (AST_IS(annotation, Str))
        v = str_new(AST_AS(annotation, Str)->value.s, AST_AS(annotation, Str)->value.n);
    else
        v = named_type(I, m, annotation);
    if (is_err(v)) {
        ast_print(annotation, &text);
        v = str_steal(&text);
    }
    dict_set_sym(d, name, v);
    value_unref(v);
}

/* Name to annotation. */
static Value annotations(Interp *I, FuncObj *f)
{
    const Code *c = f->code;
    Value d = dict_new();

    if (!AST_IS(c->ast, FunctionDef))
        return d;
    const AstFunctionDef *def = AST_AS(c->ast, FunctionDef);
    for (int i = 0; i < def->params.n; i++) {
        const AstParam *p = AST_AS(def->params.at[i], Param);
        if (p->kind <= PARAM_KWARGS)
            put_annotation(I, f->module, as_dict(d), p->name, p->annotation);
    }
    put_annotation(I, f->module, as_dict(d), sym("return"), def->returns);
    return d;
}

Value func_inspect(Interp *I, FuncObj *f, Sym name)
{
    if (!strcmp(name->text, "__code__"))
        return code_value(f->code);
    if (name == I->s_annotations)
        return annotations(I, f);
    return VERR;
}

/* ------------------------------------------------------------- classes */

static Value mro_list(ClassObj *c)
{
    Value l = list_new(4);

    for (; c; c = c->base)
        list_push(as_list(l), value_ref(vobj(c)));
    return l;
}

static Value mro_tuple(ClassObj *c)
{
    Value l = mro_list(c), t = tuple_new(as_list(l)->n);

    copy_values(as_tuple(t)->at, as_list(l)->at, as_list(l)->n);
    as_list(l)->n = 0;
    value_unref(l);
    return t;
}

static Value c_mro(Interp *I, Value *a) { return mro_list((ClassObj *)a[0].o); }

/* Those that still live, in the order in which they were made. */
static Value c_subclasses(Interp *I, Value *a)
{
    Value l = list_new(0);
    ListObj *out = as_list(l);

    for (ClassObj *s = ((ClassObj *)a[0].o)->subs; s; s = s->next_sub)
        list_push(out, value_ref(vobj(s)));
    for (int64_t i = 0, j = out->n - 1; i < j; i++, j--) {
        Value x = out->at[i];
        out->at[i] = out->at[j];
        out->at[j] = x;
    }
    return l;
}

/* Methods of classes themselves, which what derives from them does not have. */
static const NativeDef class_methods[] = {
    {"type", "mro", c_mro, "(self) -> list", "the class and what it derives from, in the order of lookup"},
    {"type", "__subclasses__", c_subclasses, "(self) -> list", "the classes made directly from this one"},
    {0},
};

Value class_inspect(Interp *I, ClassObj *c, Sym name)
{
    if (name == I->s_name)
        return str_sym(c->name);
    if (!strcmp(name->text, "__qualname__"))
        return c->qualname ? str_c(c->qualname) : str_sym(c->name);
    if (name == I->s_class)
        return value_ref(vobj(class_of(I, vobj(c))));
    if (name == I->s_dict)
        return value_ref(vobj(c->ns));
    if (name == I->s_doc)
        return VNONE;
    if (!strcmp(name->text, "__module__"))
        return c->module ? str_sym(c->module->name) : str_c("builtins");
    if (!strcmp(name->text, "__base__"))
        return c->base ? value_ref(vobj(c->base)) : VNONE;
    if (!strcmp(name->text, "__bases__"))
        return c->base ? tuple_of(1, value_ref(vobj(c->base))) : tuple_new(0);
    if (!strcmp(name->text, "__mro__"))
        return mro_tuple(c);
    for (const NativeDef *d = class_methods; d->name; d++)
        if (!strcmp(d->name, name->text))
            return native_new(d, vobj(c));
    return VERR;
}

/* ------------------------------------------------------------- isinstance and issubclass */

static bool isinstance_form(Interp *I, Value v, TypeFormObj *t)
{
    if (t->op == '|')
        return value_isinstance(I, v, t->origin) || (!exc_pending(I) && value_isinstance(I, v, as_tuple(t->args)->at[0]));
    return value_isinstance(I, v, t->origin);
}

/* The truth of an answer, which is dropped; false where there is none. */
static bool answer_holds(Interp *I, Value r)
{
    bool yes = !is_err(r) && truth(I, r) > 0;

    value_unref(r);
    return yes;
}

bool class_includes(Interp *I, ClassObj *c, ClassObj *sub)
{
    Value v = vobj(sub);

    if (class_derives(sub, c))
        return true;
    return (c->flags & CLASS_CHECKS) && answer_holds(I, class_hook(I, vobj(c), "__class_subclasscheck__", &v, 1));
}

static bool isinstance_class(Interp *I, Value v, ClassObj *c)
{
    if (class_derives(class_of(I, v), c) || class_derives(class_of(I, unwrap_base(v)), c))
        return true;
    return (c->flags & CLASS_CHECKS) && answer_holds(I, class_hook(I, vobj(c), "__class_instancecheck__", &v, 1));
}

bool value_isinstance(Interp *I, Value v, Value cls)
{
    Value check;

    switch (cls.tag) {
    case V_CLASS: return isinstance_class(I, v, (ClassObj *)cls.o);
    case V_NONE: return v.tag == V_NONE;
    case V_TYPEFORM: return isinstance_form(I, v, (TypeFormObj *)cls.o);
    case V_TUPLE:
        for (int64_t i = 0; i < as_tuple(cls)->n && !exc_pending(I); i++)
            if (value_isinstance(I, v, as_tuple(cls)->at[i]))
                return true;
        return false;
    case V_INSTANCE:
        check = value_getattr_opt(I, cls, sym("__instancecheck__"));
        if (!is_err(check)) {
            bool yes = answer_holds(I, value_call(I, check, &v, 1));
            value_unref(check);
            return yes;
        }
        if (exc_pending(I))
            return false;
        /* fallthrough */
    default:
        raise(I, EXC_TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union, not '%s'",
              value_type_name(cls));
        return false;
    }
}
