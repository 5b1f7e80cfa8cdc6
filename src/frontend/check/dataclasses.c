/*
 * Objects that are made by their class's statements alone: dataclasses, whose fields are the parameters, and classes with methods that only a
 * class below can have a body for.
 */
#include "frontend/check/checker.h"
#include "frontend/check/foreign.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- dataclasses */

static bool field_has_default(const AstAnnAssign *a)
{
    return a->value != NULL;
}

/* ClassVar[int] and KW_ONLY are no fields; field(init=False) takes no argument. */
static bool is_init_field(const AstAnnAssign *a)
{
    const Ast *form = AST_IS(a->annotation, Subscript) ? AST_AS(a->annotation, Subscript)->value : a->annotation;
    Sym name = AST_IS(form, Name) ? AST_AS(form, Name)->id : AST_IS(form, Attribute) ? AST_AS(form, Attribute)->attr : NULL;
    const AstCall *made = AST_AS(a->value, Call);

    if (name && (!strcmp(name->text, "ClassVar") || !strcmp(name->text, "KW_ONLY")))
        return false;
    for (int i = 0; a->value && AST_IS(a->value, Call) && i < made->args.n; i++) {
        const AstArg *arg = AST_AS(made->args.at[i], Arg);
        if (AST_IS(made->args.at[i], Arg) && arg->name && !strcmp(arg->name->text, "init"))
            return false;
    }
    return true;
}

int cls_fields(const Cls *c, AstParam *out, int max)
{
    int n = c->base ? cls_fields(c->base, out, max) : 0;

    if (!c->is_dataclass && !c->is_record)
        return n;
    for (int i = 0; i < c->def->body.n; i++) {
        AstAnnAssign *a = AST_AS(c->def->body.at[i], AnnAssign);
        int k = 0;
        if (a->ast.kind != AST_AnnAssign || !AST_IS(a->target, Name) || n >= max || !is_init_field(a))
            continue;
        while (k < n && out[k].name != AST_AS(a->target, Name)->id)
            k++;
        n += k == n;
        out[k] = (AstParam){.ast = {.kind = AST_Param, .span = a->ast.span}, .kind = PARAM_NORMAL,
                              .name = AST_AS(a->target, Name)->id, .annotation = a->annotation, .dflt = a->value};
    }
    return n;
}

typedef struct { const AstParam *at; int n, i; } Fields;

static const char *next_field(void *state)
{
    Fields *f = state;

    return f->i < f->n ? f->at[f->i++].name->text : NULL;
}

static void no_field(Check *C, const Cls *c, const AstParam *field, int n, const CallArg *a)
{
    Diag *d = REPORT(C, E0904, a->node->span, cls_name(c), a->name->text);
    const char *near = closest_name(a->name->text, next_field, &(Fields){field, n, 0});

    if (near)
        diag_guess(d, span_head(a->node->span, a->name->text), a->name->text, near);
    else
        help_names(d, "it takes", next_field, &(Fields){field, n, 0});
}

const Type *dataclass_call(Check *C, Cls *c, Inst *inst, CallArgs *a, Ast *node)
{
    const Type *self = type_instance(c, inst);
    AstParam field[ITEMS_MAX];
    int n = cls_fields(c, field, ITEMS_MAX), given = 0;
    Bound sizes = {0};
    char what[128];

    for (int i = 0; i < a->n && !a->open; i++) {
        int k = given;
        if (a->at[i].name) {
            for (k = 0; k < n && field[k].name != a->at[i].name; k++)
                ;
            if (k == n) {
                no_field(C, c, field, n, &a->at[i]);
                return self;
            }
        } else if (given++ >= n) {
            REPORT(C, E0903, a->at[i].node->span, cls_name(c), "too many arguments");
            return self;
        }
        const Type *want = cls_declared(c, field[k].name);
        cls_match_field(c, want, a->at[i].type, &sizes);
        want = want ? type_subst(want, sizes.from, sizes.to, sizes.n) : NULL;
        snprintf(what, sizeof what, "field '%s' of %s", field[k].name->text, cls_name(c));
        if (want && type_fits(C, a->at[i].type, want) == FITS_NOT)
            report_misfit(C, node->span, what, a->at[i].type, want);
        if (inst)
            map_set(&inst->stored, (uintptr_t)field[k].name,
                    (uintptr_t)type_forget(a->at[i].type ? with_declared_policy(a->at[i].type, want) : T_ANY));
        field[k].kind = PARAM_ANY;                  /* taken */
    }
    for (int k = 0; inst && k < c->dims.n; k++)     /* the sizes of the class, of this object; behind them those that are not told */
        bound_add(&sizes, c->dims.at[k].dim, dim_open());
    if (inst)
        inst->dims = sizes;
    for (int k = 0; k < n && !a->open; k++)
        if (field[k].kind != PARAM_ANY && k >= given && !field_has_default(&(AstAnnAssign){.value = field[k].dflt})) {
            REPORT(C, E0902, node->span, cls_name(c), field[k].name->text);
            break;
        }
    return self;
}

/* An object like t, made anew with what the arguments behind the first `from` say of its n fields. */
static const Type *made_anew(Check *C, const Type *t, const AstParam *field, int n, const CallArgs *a, int from, Ast *node)
{
    const Inst *inst = t->inst;
    CallArg all[ITEMS_MAX];
    const Type *r;

    for (int k = 0; k < n; k++) {
        uintptr_t held = 0;
        if (inst)
            map_find(&inst->stored, (uintptr_t)field[k].name, &held);
        all[k] = (CallArg){field[k].name, held ? (const Type *)held : T_ANY, node, 0};
        for (int i = from; i < a->n; i++)
            if (a->at[i].name == field[k].name)
                all[k] = a->at[i];
    }
    C->quiet++;
    r = cls_call(C, (Cls *)t->ref, &(CallArgs){all, n, false}, node);
    C->quiet--;
    return r;
}

const Type *fields_changed(Check *C, const Type *t, const CallArgs *a, int from, Ast *node)
{
    const Cls *c = t->ref;
    AstParam field[ITEMS_MAX];
    int n = cls_fields(c, field, ITEMS_MAX);
    long findings = C->findings;
    char what[128];

    for (int i = from; n && i < a->n; i++) {
        int k = 0;
        const Type *want;
        if (!a->at[i].name)
            return NULL;
        while (k < n && field[k].name != a->at[i].name)
            k++;
        if (k == n) {
            no_field(C, c, field, n, &a->at[i]);
            continue;
        }
        want = cls_declared(c, field[k].name);
        snprintf(what, sizeof what, "field '%.40s' of %.60s", field[k].name->text, cls_name(c));
        if (want && want->kind != TY_TENSOR && type_fits(C, a->at[i].type, want) == FITS_NOT)
            report_misfit(C, at_call(node, a->at[i].node), what, a->at[i].type, want);
    }
    if (!n || !t->inst || findings != C->findings || n >= ITEMS_MAX)
        return n ? type_instance(c, NULL) : NULL;
    return made_anew(C, t, field, n, a, from, node);
}

/* replace(x, k=v): another object of x's class. NULL: x is of no class whose fields are all known. */
const Type *dataclass_replace(Check *C, const CallArgs *a, Ast *node)
{
    const Type *t = a->n && !a->at[0].name && !a->open ? a->at[0].type : T_ANY;
    const Cls *c = !type_is_any(t) && t->kind == TY_INSTANCE ? t->ref : NULL;

    return c && c->is_dataclass && !cls_is_open(c) ? fields_changed(C, t, a, 1, node) : NULL;
}

/* ------------------------------------------------------------- abstract classes */

static bool is_named(const Ast *e, const char *name)
{
    return AST_IS(e, Name) ? !strcmp(AST_AS(e, Name)->id->text, name) : AST_IS(e, Attribute) && !strcmp(AST_AS(e, Attribute)->attr->text, name);
}

static bool is_abstract(const AstFunctionDef *f)
{
    for (int i = 0; i < f->decorators.n; i++)
        if (!strcmp(decorator_name(f->decorators.at[i]), "abstractmethod"))
            return true;
    return false;
}

/* The definition of that name in the nearest class that has it; NULL: there it is no function. */
static const Ast *nearest(const Cls *c, Sym name)
{
    for (; c; c = c->base) {
        for (int i = c->def->body.n - 1; i >= 0; i--) {
            const Ast *s = c->def->body.at[i];
            if (AST_IS(s, FunctionDef) && AST_AS(s, FunctionDef)->name == name)
                return s;
        }
        if (map_find(&c->attrs, (uintptr_t)name, NULL) || map_find(&c->declared, (uintptr_t)name, NULL))
            return NULL;
    }
    return NULL;
}

static bool derives_from_abc(const Cls *c)
{
    for (; c; c = c->base) {
        if (c->home->library)
            return c->name && !strcmp(c->name->text, "ABC");
        for (int i = 0; i < c->def->bases.n; i++)
            if (AST_IS(c->def->bases.at[i], Arg) && is_named(AST_AS(c->def->bases.at[i], Arg)->value, "ABC"))
                return true;
    }
    return false;
}

/* Does @dataclass(order=True) make it? */
static bool is_ordering(Sym name)
{
    return !strcmp(name->text, "__lt__") || !strcmp(name->text, "__le__") || !strcmp(name->text, "__gt__") || !strcmp(name->text, "__ge__");
}

/* A method that only a class below can have a body for; NULL: none, or not all that the class has is known. */
static const char *abstract_method(const Cls *own)
{
    if (cls_is_open(own) || own->far || !derives_from_abc(own))
        return NULL;
    for (const Cls *c = own; c; c = c->base)
        for (int i = 0; i < c->def->body.n; i++) {
            const AstFunctionDef *f = AST_AS(c->def->body.at[i], FunctionDef);
            if (AST_IS(c->def->body.at[i], FunctionDef) && is_abstract(f) && nearest(own, f->name) == (const Ast *)f &&
                !(own->is_ordered && is_ordering(f->name)))
                return f->name->text;
        }
    return NULL;
}

void abstract_judged(Check *C, const Cls *c, Ast *node)
{
    const char *missing = C->home->library || C->calls ? NULL : abstract_method(c);
    char text[192];

    if (!missing)
        return;
    snprintf(text, sizeof text, "%.60s, whose %.60s() is abstract", cls_name(c), missing);
    diag_help(REPORT(C, E0906, node->span, "what is made here", "of a class with all of its methods", text),
              "make an object of a class that derives from it and defines %s", missing);
}
