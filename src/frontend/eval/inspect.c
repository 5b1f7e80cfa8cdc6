/*
 * What a function tells about itself: f.__code__ and f.__annotations__.
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

/* Annotations are not evaluated, so that they may name what does not exist: a class by its name, else the text. */
static void put_annotation(Interp *I, ModuleObj *m, DictObj *d, Sym name, const Ast *annotation)
{
    StrBuf text = {0};
    Value v = VERR;

    if (!annotation)
        return;
    if (AST_IS(annotation, Name))
        v = named_class(I, m, AST_AS(annotation, Name)->id);
    else if (AST_IS(annotation, Const) && AST_AS(annotation, Const)->value == CONST_NONE)
        v = VNONE;
    else if (AST_IS(annotation, Str))
        v = str_new(AST_AS(annotation, Str)->value.s, AST_AS(annotation, Str)->value.n);
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
