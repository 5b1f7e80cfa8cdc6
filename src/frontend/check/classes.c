/*
 * Classes: which attributes an object surely has, and what they are.
 *
 * An attribute is known to be missing only in a closed class: every base is one
 * of the program's, nothing computes attributes, and no statement of the unit
 * stores that name through an attribute.
 */
#include "frontend/check/foreign.h"
#include "frontend/check/frames.h"
#include "frontend/check/kernels.h"

#include "frontend/eval/native.h"
#include "frontend/prelude.h"
#include "frontend/stdlib_embed.h"

#include <stdio.h>
#include <string.h>

enum { INST_MAX = 20000 };

const char *cls_name(const void *cls)
{
    const Cls *c = cls;

    return c->name ? c->name->text : "class";
}

const Type *cls_find(const Cls *c, Sym name)
{
    for (; c; c = c->base) {
        const Type *t = map_get_ptr(&c->attrs, name);
        if (t)
            return t;
    }
    return NULL;
}

const Type *cls_declared(const Cls *c, Sym name)
{
    for (; c; c = c->base) {
        const Type *t = map_get_ptr(&c->declared, name);
        if (t)
            return t;
    }
    return NULL;
}

bool cls_is_open(const Cls *c)
{
    for (; c; c = c->base)
        if (c->open)
            return true;
    return false;
}

bool cls_derives(const Cls *c, const Cls *base)
{
    for (; c; c = c->base)
        if (c == base)
            return true;
    return false;
}

bool cls_has(const Cls *c, Sym name)
{
    if (cls_is_open(c) || cls_find(c, name) || cls_declared(c, name))
        return true;
    for (; c; c = c->base)
        if (map_find(&c->stored, (uintptr_t)name, NULL))
            return true;
    return false;
}

/* ------------------------------------------------------------- making */

/* Bases that add nothing to an object. */
static bool is_plain_base(const Ast *e)
{
    return ast_is_marker_base(e) || (AST_IS(e, Name) && !strcmp(AST_AS(e, Name)->id->text, "object"));
}

/* builtin: the base that is not followed, but known; NULL: what leaves it open is not known. */
static void opened(Cls *c, const char *builtin)
{
    c->open = true;
    c->builtin = builtin;
}

/* "dict": the class that a native makes objects of. */
static const char *builtin_class(const Type *t)
{
    static const char *const known[] = {"dict", "list", "set", "str", "tuple", "int", "float"};
    const NativeDef *d = t && t->kind == TY_NATIVE ? t->ref : NULL;

    for (size_t i = 0; d && i < sizeof known / sizeof *known; i++)
        if (!strcmp(d->name, known[i]))
            return known[i];
    return NULL;
}

typedef struct { Sym name; bool other; } GivesBack;

/* Returns of something else than the parameter, stores into it or over it. */
static bool find_other(Ast *n, void *state)
{
    GivesBack *g = state;
    const Ast *t = NULL;

    if (!n || g->other || n->kind == AST_FunctionDef || n->kind == AST_Lambda)
        return true;
    if (n->kind == AST_Return)
        g->other = !AST_IS(AST_AS(n, Return)->value, Name) || AST_AS(AST_AS(n, Return)->value, Name)->id != g->name;
    for (int i = 0; n->kind == AST_Assign && i < AST_AS(n, Assign)->targets.n; i++) {
        t = AST_AS(n, Assign)->targets.at[i];
        t = AST_IS(t, Attribute) ? AST_AS(t, Attribute)->value : t;
        g->other |= AST_IS(t, Name) && AST_AS(t, Name)->id == g->name;
    }
    if (n->kind == AST_Call && AST_IS(AST_AS(n, Call)->func, Name) && !strcmp(AST_AS(AST_AS(n, Call)->func, Name)->id->text, "setattr"))
        g->other = true;
    ast_walk(n, find_other, g);
    return true;
}

/* Is it a function of the program that returns the class that it gets, as it was: a decorator that registers it? */
static bool gives_back(const Type *t)
{
    const Fn *f = !type_is_any(t) && t->kind == TY_FUNC ? t->ref : NULL;
    const AstFunctionDef *def = f && AST_IS(f->node, FunctionDef) ? AST_AS(f->node, FunctionDef) : NULL;
    GivesBack g = {0};

    if (!def || f->around->home->library || def->decorators.n || def->params.n != 1 || !AST_IS(def->params.at[0], Param) || !def->body.n ||
        !AST_IS(def->body.at[def->body.n - 1], Return))
        return false;
    g.name = AST_AS(def->params.at[0], Param)->name;
    for (int i = 0; i < def->body.n; i++)
        find_other(def->body.at[i], &g);
    return !g.other;
}

static void read_base(Check *C, Cls *c, AstClassDef *def)
{
    for (int i = 0; i < def->bases.n; i++) {
        AstArg *a = AST_AS(def->bases.at[i], Arg);
        const Type *t = a->ast.kind == AST_Arg && !a->name && a->value ? expr(C, a->value) : NULL;
        bool positional = a->ast.kind == AST_Arg && !a->name && a->value;
        if (positional && AST_IS(a->value, Name) && !strcmp(AST_AS(a->value, Name)->id->text, "Protocol"))
            c->is_protocol = true;
        if (positional && AST_IS(a->value, Name) && !strcmp(AST_AS(a->value, Name)->id->text, "TypedDict"))
            c->is_dict = true;
        if (t && t->kind == TY_CLASS && a->value == ast_class_base(def)) {
            c->base = (Cls *)t->ref;
            c->is_record |= c->base->is_record || (c->base->home->library && c->base->name && !strcmp(c->base->name->text, "NamedTuple"));
            c->is_dict |= c->base->is_dict;
        }
        if (!(t && t->kind == TY_CLASS) && (!positional || !is_plain_base(a->value)))
            opened(c, positional && !c->open ? builtin_class(t) : NULL);
        if (c->open && a->ast.kind == AST_Arg && a->value && !a->name &&
            !(AST_IS(a->value, Name) && AST_AS(a->value, Name)->bind == BIND_PRELUDE))
            c->far = true;
        if (AST_IS(a->value, Name) && AST_AS(a->value, Name)->bind == BIND_PRELUDE &&
            !strcmp(AST_AS(a->value, Name)->id->text, "Module"))
            c->is_module = true;
    }
    if ((c->base && c->base->is_module) || (C->home->library && c->name && !strcmp(c->name->text, "Module")))
        c->is_module = true;
    if (c->base && c->base->far)
        c->far = true;
    for (int i = 0; i < def->decorators.n; i++) {
        if (!strcmp(decorator_name(def->decorators.at[i]), "dataclass"))
            c->is_dataclass = true, c->is_frozen = decorator_says(def->decorators.at[i], "frozen"),
            c->makes_init = !decorator_denies(def->decorators.at[i], "init"), c->is_ordered = decorator_says(def->decorators.at[i], "order");
        else if (!gives_back(expr(C, def->decorators.at[i])))
            opened(c, NULL);
    }
}

/* Names that methods store through their first parameter. */
typedef struct { Cls *c; Sym self; int depth; } Stores;

/* Both kinds of stores change what is there; `a.n += 1` reads it first, so that another has to have made it. */
static void note_change(Stores *s, Sym attr)
{
    uintptr_t n = 0;

    map_find(&s->c->stores, (uintptr_t)attr, &n);
    map_set(&s->c->stores, (uintptr_t)attr, n + 1);
}

static bool is_own(const Stores *s, const Ast *t)
{
    return t->kind == AST_Attribute && AST_IS(AST_AS(t, Attribute)->value, Name) && AST_AS(AST_AS(t, Attribute)->value, Name)->id == s->self;
}

static void note_store(Stores *s, Ast *t)
{
    if (!t)
        return;
    if (t->kind == AST_Tuple || t->kind == AST_List) {
        AstSeq e = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : AST_AS(t, List)->elts;
        for (int i = 0; i < e.n; i++)
            note_store(s, e.at[i]);
    } else if (t->kind == AST_Starred) {
        note_store(s, AST_AS(t, Starred)->value);
    } else if (is_own(s, t)) {
        note_change(s, AST_AS(t, Attribute)->attr);
        map_set(&s->c->stored, (uintptr_t)AST_AS(t, Attribute)->attr, 0);
    }
}

static bool is_self(const Stores *s, const AstArg *a)
{
    return a->ast.kind == AST_Arg && AST_IS(a->value, Name) && AST_AS(a->value, Name)->id == s->self;
}

static bool find_stores(Ast *n, void *state)
{
    Stores *s = state;

    if (!n || s->depth > 400)
        return true;
    s->depth++;
    if (n->kind == AST_Assign)
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            note_store(s, AST_AS(n, Assign)->targets.at[i]);
    else if (n->kind == AST_AugAssign && is_own(s, AST_AS(n, AugAssign)->target))
        note_change(s, AST_AS(AST_AS(n, AugAssign)->target, Attribute)->attr);
    else if (n->kind == AST_AnnAssign)
        note_store(s, AST_AS(n, AnnAssign)->target);
    else if (n->kind == AST_For)
        note_store(s, AST_AS(n, For)->target);
    else if (n->kind == AST_WithItem)
        note_store(s, AST_AS(n, WithItem)->target);
    else if (n->kind == AST_Call && AST_IS(AST_AS(n, Call)->func, Name) && AST_AS(n, Call)->args.n &&
             (!strcmp(AST_AS(AST_AS(n, Call)->func, Name)->id->text, "setattr") || !strcmp(AST_AS(AST_AS(n, Call)->func, Name)->id->text, "vars")))
        if (is_self(s, AST_AS(AST_AS(n, Call)->args.at[0], Arg)))
            opened(s->c, NULL);
    if (is_own(s, n) && !strcmp(AST_AS(n, Attribute)->attr->text, "__dict__") && !s->c->home->library)     /* which knows what it does */
        opened(s->c, NULL);
    ast_walk(n, find_stores, s);
    s->depth--;
    return true;
}

/* local: of a class that a function makes, whose attributes it may make as well, by names that it is given. */
static void read_methods(Cls *c, AstClassDef *def, bool local)
{
    for (int i = 0; i < def->body.n; i++) {
        AstFunctionDef *f = AST_AS(def->body.at[i], FunctionDef);
        Stores s = {c, NULL, 0};
        if (f->ast.kind != AST_FunctionDef)
            continue;
        if (f->name && (!strcmp(f->name->text, "__getattr__") || !strcmp(f->name->text, "__getattribute__") ||
                        !strcmp(f->name->text, "__setattr__")))
            opened(c, NULL);
        if (f->name && !strcmp(f->name->text, "__new__"))       /* what it stores in the object is stored somewhere in the unit */
            opened(c, local ? NULL : c->builtin);
        if (!f->params.n || !AST_IS(f->params.at[0], Param))
            continue;
        s.self = AST_AS(f->params.at[0], Param)->name;
        find_stores((Ast *)f, &s);
    }
}

Cls *cls_make(Check *C, AstClassDef *def)
{
    Cls *c = map_get_ptr(&C->cls_of, def);

    if (c)
        return c;
    c = arena_new(&C->arena, Cls);
    map_set_ptr(&C->cls_of, def, c);
    c->def = def;
    c->home = C->home;
    c->name = def->name;
    for (int i = 0; i < def->typarams.n; i++) {
        Sym name = AST_AS(def->typarams.at[i], TypeParam)->name;
        vec_push(&c->dims, ((NamedDim){name, dim_var(name, 1, INT64_MAX)}));
    }
    read_base(C, c, def);
    read_methods(c, def, C->frame->fn != NULL);
    return c;
}

/* ------------------------------------------------------------- attributes */

typedef struct { const Cls *c; const Map *map; uint32_t i; int stage; } Members;

static const char *next_member(void *state)
{
    Members *m = state;

    for (; m->c; m->c = m->c->base, m->stage = 0, m->i = 0)
        for (; m->stage < 3; m->stage++, m->i = 0) {
            const Map *map = m->stage == 0 ? &m->c->stored : m->stage == 1 ? &m->c->attrs : &m->c->declared;
            while (m->i < map->cap)
                if (map->key[m->i++])
                    return ((Sym)map->key[m->i - 1])->text;
        }
    return NULL;
}

typedef struct { const Cls *c; const char *last; bool library; } Alphabet;

/* The members again, by their names, those of the program's classes first: what lists them must not follow the places of a map. */
static const char *next_by_name(void *state)
{
    Alphabet *a = state;
    Members m = {a->c, NULL, 0, 0};
    const char *least = NULL;

    for (const char *name; (name = next_member(&m));)
        if (m.c->home->library == a->library && (!a->last || strcmp(name, a->last) > 0) && (!least || strcmp(name, least) < 0))
            least = name;
    if (!least && !a->library) {
        *a = (Alphabet){a->c, NULL, true};
        return next_by_name(a);
    }
    return a->last = least;
}

static bool cls_stores(const Cls *c, Sym attr)
{
    for (; c; c = c->base)
        if (map_find(&c->stored, (uintptr_t)attr, NULL))
            return true;
    return false;
}

/* What every object has. */
static bool is_common(Sym attr)
{
    return !strncmp(attr->text, "__", 2) || !strcmp(attr->text, "mro");
}

static bool takes_self(const Fn *f)
{
    return f->cls && !f->is_static && f->params.n && AST_IS(f->params.at[0], Param) && !strcmp(AST_AS(f->params.at[0], Param)->name->text, "self");
}

static const Type *bound(Check *C, const Type *t, const Type *self)
{
    if (type_is_kernel(t) && self->kind == TY_INSTANCE && ((const Type *)t->ref)->kind == TY_FUNC && takes_self(((const Type *)t->ref)->ref))
        return T_ANY;                                   /* its arguments are looked at when it is called */
    const Fn *f = t->kind == TY_FUNC ? t->ref : NULL;

    if (!f)
        return t;
    if (f->is_property)
        return call_type(C, type_method(self, t), &(CallArgs){0}, f->node);
    return f->is_static ? t : type_method(f->is_class && self->kind == TY_INSTANCE ? type_ref(TY_CLASS, self->ref) : self, t);
}

/* Trusted where one statement alone stores it. */
static const Type *stored_type(Check *C, const Cls *c, Sym attr)
{
    C->held++;
    C->held_made++;
    for (; c; c = c->base) {
        uintptr_t t, n = 0;
        if (map_find(&c->stored, (uintptr_t)attr, &t)) {
            map_find(&c->stores, (uintptr_t)attr, &n);
            return t && n == 1 && !map_find(&C->stored_attrs, (uintptr_t)attr, NULL) ? (const Type *)t : T_ANY;
        }
    }
    return T_ANY;
}

/* What the object of a known call holds. NULL: nothing is known. */
static const Type *held(Check *C, const Inst *i, Sym attr)
{
    uintptr_t t = 0, how = 0;

    C->held++;
    C->held_made += i && !i->making;
    map_find(&C->stored_attrs, (uintptr_t)attr, &how);
    if (!i || i->wild || how & ATTR_HIDDEN || C->setattr_used || map_find(&C->wild, (uintptr_t)attr, NULL) ||
        !map_find(&i->stored, (uintptr_t)attr, &t))
        return NULL;
    return grown_read((const Type *)t);
}

/* A stored attribute that the wrong name begins, or that begins it. */
static const char *longer_name(const Cls *c, Sym attr)
{
    for (; c; c = c->base)
        for (uint32_t i = 0; i < c->stored.cap; i++) {
            const char *s = c->stored.key[i] ? ((Sym)c->stored.key[i])->text : NULL;
            size_t n = s ? strlen(s) : 0, k = strlen(attr->text);
            if (s && n != k && (n > k ? n - k : k - n) < 3 && !strncmp(s, attr->text, n < k ? n : k))
                return s;
        }
    return NULL;
}

/*
 * Enumerations and named tuples are made by library classes that set attributes as they like, which leaves them open; what the
 * program's own classes below them have is what their bodies say.
 */
static bool listed_in_body(const Cls *c, const char *maker, Sym attr)
{
    for (; c && !c->home->library; c = c->base)
        if (c->open || map_find(&c->attrs, (uintptr_t)attr, NULL) || map_find(&c->declared, (uintptr_t)attr, NULL) ||
            map_find(&c->stored, (uintptr_t)attr, NULL) || map_find(&c->stores, (uintptr_t)attr, NULL))
            return true;
    for (; c; c = c->base)
        if (!strcmp(cls_name(c), maker))
            return cls_find(c, attr) != NULL;
    return true;
}

static bool surely_missing(const Cls *c, const Type *self, Sym attr)
{
    if (attr->text[0] == '_' || c->home->library)
        return false;
    return self->kind == TY_CLASS ? !listed_in_body(c, "Enum", attr)
                                  : !native_find("tuple", attr->text) && !listed_in_body(c, "NamedTuple", attr);
}

const Type *cls_super(Check *C, Sym attr, Ast *node)
{
    const CFrame *f = C->frame;
    const Cls *base = f->fn && f->fn->cls ? f->fn->cls->base : NULL;
    const AstParam *self = f->fn && f->fn->params.n ? AST_AS(f->fn->params.at[0], Param) : NULL;
    const Type *t = base && self && !f->fn->is_static && !f->fn->is_class ? cls_find(base, attr) : NULL;

    if (base && !is_common(attr) && !base->home->library && !cls_has(base, attr) && !map_find(&C->stored_attrs, (uintptr_t)attr, NULL)) {
        Members m = {base, NULL, 0, 0};
        const char *near = closest_name(attr->text, next_member, &m);
        Diag *d = REPORT(C, E0910, node->span, cls_name(base), attr->text);
        if (near)
            diag_guess(d, span_tail(node->span, attr->text), attr->text, near);
    }
    if (!t || t->kind != TY_FUNC || ((const Fn *)t->ref)->is_static || ((const Fn *)t->ref)->is_class || ((const Fn *)t->ref)->is_property ||
        AST_AS(((const Fn *)t->ref)->node, FunctionDef)->decorators.n)
        return T_ANY;
    return type_method((int)self->slot < f->nvar && f->var[self->slot] && f->var[self->slot]->kind == TY_INSTANCE ? f->var[self->slot]
                                                                                                        : type_instance(f->fn->cls, NULL), t);
}

/* The longest method whose name begins the wrong one: init for initialize. */
static const char *shorter_method(const Cls *c, Sym attr)
{
    const char *best = NULL;

    for (; c; c = c->base)
        for (uint32_t i = 0; i < c->attrs.cap; i++) {
            const char *s = c->attrs.key[i] ? ((Sym)c->attrs.key[i])->text : NULL;
            if (s && strlen(s) > 3 && !strncmp(s, attr->text, strlen(s)) && (!best || strlen(s) > strlen(best)))
                best = s;
        }
    return best;
}

/* In a body that is followed only what looks like a slip of the pen is said: else the program may mean to be told when it runs. */
static void missing_attribute(Check *C, const Cls *c, Sym attr, Ast *node)
{
    Members m = {c, NULL, 0, 0};
    const char *near = longer_name(c, attr);
    int calls = C->calls;
    const Site *s = NULL;
    Diag *d;

    near = near ? near : closest_name(attr->text, next_member, &m);
    for (const Cls *x = c; x && !near; x = x->base)
        near = x->builtin ? builtin_near(x->builtin, attr) : NULL;
    C->calls = near ? 0 : calls;
    d = REPORT(C, E0910, node->span, cls_name(c), attr->text);
    C->calls = calls;
    if (!near && (near = shorter_method(c, attr)))
        diag_help(d, "there is '%s'", near);
    else if (near)
        diag_guess(d, span_tail(node->span, attr->text), attr->text, near);
    else
        help_names(d, "it has", next_by_name, &(Alphabet){c, NULL, false});
    if (!near)
        return;
    for (const Cls *x = c; x && !s; x = x->base)
        s = map_get_ptr(&x->sites, sym(near));
    if (s && C->shown && !s->frame->home->library)
        diag_label(d, s->value->span, "'%s' is stored here", near);
}

/* Does no class below the builtin one have it, nor that? false: what they have is not known. */
static bool builtin_lacks(const Cls *c, Sym attr)
{
    const char *builtin = NULL;

    for (; c; c = c->base) {
        if ((c->open && !c->builtin) || map_find(&c->attrs, (uintptr_t)attr, NULL) || map_find(&c->declared, (uintptr_t)attr, NULL) ||
            map_find(&c->stored, (uintptr_t)attr, NULL) || map_find(&c->stores, (uintptr_t)attr, NULL))
            return false;
        builtin = c->open ? c->builtin : builtin;
    }
    return builtin && !native_find(builtin, attr->text);
}

/* Some file of the library stores x.attr = ..., or names it in a text, from which it may be made; methods: or defines it. */
static bool library_stores(Sym attr, bool methods)
{
    for (const EmbeddedModule *m = stdlib_embedded; m->name; m++)
        for (const char *s = m->text; (s = strstr(s, attr->text)); s++) {
            const char *end = s + strlen(attr->text);
            char before = s > m->text ? s[-1] : 0;
            if ((before == '"' || before == '\'') && *end == before)
                return true;
            while (*end == ' ')
                end++;
            if (methods && *end == '(' && s - m->text > 4 && !strncmp(s - 4, "def ", 4))
                return true;
            if (before == '.' && ((*end == '=' && end[1] != '=') || *end == ':' || *end == ','))
                return true;
        }
    return false;
}

/* An object of a library class that has no such attribute, whatever the library does to it. */
static bool library_lacks(const Cls *c, const Type *self, Sym attr)
{
    if (self->kind != TY_INSTANCE || attr->text[0] == '_' || (self->inst && ((const Inst *)self->inst)->wild))
        return false;
    if (cls_is_open(c) && !builtin_lacks(c, attr))
        return false;
    return !library_stores(attr, !self->inst);      /* an object that was not seen made may be of a derived class */
}

/* A list or dict of which no element is known, as others may have changed it. */
static bool is_vague(const Type *t)
{
    return (t->kind == TY_LIST && !t->exact && (!t->n || type_is_any(t->item[0]))) ||
           (t->kind == TY_DICT && !t->exact && (t->n < 2 || type_is_any(t->item[1])));
}

const Type *cls_attribute(Check *C, const Cls *c, const Type *self, Sym attr, Ast *node)
{
    const Type *t = self->kind == TY_INSTANCE ? held(C, self->inst, attr) : NULL, *want = cls_declared(c, attr);

    if (t && !(want && want->kind == t->kind && is_vague(t)))
        return t;
    t = want;
    if (t)
        return self->inst ? type_subst(t, ((Inst *)self->inst)->dims.from, ((Inst *)self->inst)->dims.to, ((Inst *)self->inst)->dims.n)
                          : object_field(C, c, t, node);
    t = cls_find(c, attr);
    if (t && t->kind == TY_FUNC && !self->inst && c->name && map_find(&C->subclassed, (uintptr_t)c->name, NULL) &&
        map_find(&C->stored_attrs, (uintptr_t)attr, NULL))
        return T_ANY;                               /* a derived class may have its own */
    if (t && t->kind != TY_FUNC && (map_find(&C->stored_attrs, (uintptr_t)attr, NULL) || cls_stores(c, attr)))
        return T_ANY;                               /* the class's value, or the object's */
    if (t && t->kind != TY_FUNC && (cls_is_open(c) || cls_find(c, sym("__init_subclass__"))))
        return T_ANY;                               /* its base may have changed it, as Enum does */
    if (t)
        return self->kind != TY_CLASS || (t->kind == TY_FUNC && ((const Fn *)t->ref)->is_class) ? bound(C, t, self) : t;
    if (is_schedule_class(c) && self->kind == TY_INSTANCE)
        return schedule_attribute(C, c, attr, node);
    if (cls_has(c, attr) && !surely_missing(c, self, attr) && !(self->kind == TY_INSTANCE && builtin_lacks(c, attr)))
        return self->kind == TY_CLASS ? T_ANY : stored_type(C, c, attr);
    if (is_common(attr) || C->setattr_used || map_find(&C->stored_attrs, (uintptr_t)attr, NULL) ||
        C->home->library || (c->home->library && !is_kernel_class(c) && !library_lacks(c, self, attr)) || (c->is_module && attr->text[0] == '_'))
        return T_ANY;
    missing_attribute(C, c, attr, node);
    return T_ANY;
}

void attr_wild(Check *C, Sym attr)
{
    C->era += !map_find(&C->wild, (uintptr_t)attr, NULL);
    map_set(&C->wild, (uintptr_t)attr, 1);
}

/* A store into an object whose making is known. What changes its type later is no longer known. */
static void inst_store(Check *C, Inst *i, Sym attr, const Type *t)
{
    uintptr_t before = 0;

    map_find(&i->stored, (uintptr_t)attr, &before);
    if (before && !(i->making && !C->branches))
        t = i->making ? type_join((const Type *)before, t) : t == (const Type *)before ? t : T_ANY;
    C->era += before && t != (const Type *)before;
    map_set(&i->stored, (uintptr_t)attr, (uintptr_t)t);
}

/* Names of sizes that fields of the class are declared with get those of a tensor that is stored in one. */
void cls_match_field(const Cls *c, const Type *want, const Type *t, Bound *b)
{
    static const Sig none;

    for (; c && t; c = c->base)
        sig_match(&none, c, want, t, b);
}

const Type *cls_field_wants(const Cls *c, Inst *i, const Type *want, const Type *t)
{
    Bound here = {0}, *b = i ? &i->dims : &here;

    if (!i || i->making)
        cls_match_field(c, want, t, b);
    return type_subst(want, b->from, b->to, b->n);
}

/* A property that no setter was added to takes no value. */
static void property_stored(Check *C, const Cls *c, Sym attr, Ast *target)
{
    const Type *t = cls_find(c, attr);
    const Fn *f = t && t->kind == TY_FUNC ? t->ref : NULL;
    StrBuf what = {0};
    Diag *d;

    if (!f || !f->is_property || c->home->library || cls_is_open(c))
        return;
    sb_printf(&what, "the target '%s' of %s", attr->text, cls_name(c));
    d = REPORT(C, E0906, target->span, sb_str(&what), "an attribute", "a property without a setter");
    diag_label(d, f->node->span, "it is computed here");
    diag_help(d, "store what it is computed from, or add a method @%s.setter", attr->text);
    sb_done(&what);
}

void cls_store(Check *C, const Type *self, Sym attr, const Type *t, Ast *target, Ast *value)
{
    Cls *c = (Cls *)self->ref;
    Inst *inst = (Inst *)self->inst;
    const Type *want = cls_declared(c, attr), *first;
    uintptr_t before = 0;
    char what[128];

    if (!value)
        want = NULL;
    property_stored(C, c, attr, target);
    if (c->is_frozen && !c->home->library && (!C->frame->fn || C->frame->fn->cls == c)) {      /* elsewhere the error may be meant */
        snprintf(what, sizeof what, "the target '%.40s' of %.40s", attr->text, cls_name(c));
        diag_help(REPORT(C, E0906, target->span, what, "an attribute that can be stored", "a field of a frozen dataclass"),
                  "make a changed copy: replace(x, %s=...)", attr->text);
    }
    if (want)
        want = cls_field_wants(c, inst, want, t);
    if (want && type_fits(C, t, want) == FITS_NOT) {
        snprintf(what, sizeof what, "attribute '%s' of %s", attr->text, cls_name(c));
        report_misfit(C, target->span, what, t, want);
        t = want;
    }
    if (value && type_is_container(t) && is_mutated(C->home, attr))
        forget_place(C, value);
    t = with_declared_policy(t, want);
    first = grows_in(C, inst, attr) && value ? grown_first(t, value) : NULL;
    t = has_mutated_parts(C->home, attr) ? type_forget_parts(t) : is_mutated(C->home, attr) ? type_forget(t) : type_keep(t);
    if (inst)
        inst_store(C, inst, attr, first ? first : t ? t : T_ANY);
    if (value) {
        Site *s = arena_new(&C->arena, Site);
        *s = (Site){value, C->frame};
        frame_capture(C);
        map_set_ptr(&c->sites, attr, s);
        if (inst)
            map_set_ptr(&inst->sites, attr, s);
    }
    map_find(&c->stored, (uintptr_t)attr, &before);
    t = before ? type_join((const Type *)before, t) : t;
    C->era += before && t != (const Type *)before;
    map_set(&c->stored, (uintptr_t)attr, (uintptr_t)t);
}

/* ------------------------------------------------------------- construction */

const Type *cls_callee(const Cls *c)
{
    const Type *m = cls_find(c, sym("__call__"));

    if (c->is_module && (!m || (m->kind == TY_FUNC && ((const Fn *)m->ref)->cls->home->library)))
        m = cls_find(c, sym("forward"));
    return m;
}

/* The object that this class makes of these arguments; *fresh: its __init__ is still to be walked. NULL: too many to tell. */
static Inst *inst_of(Check *C, Cls *c, const CallArgs *a, Ast *node, bool *fresh)
{
    const Type *m[ITEMS_MAX], *key;
    Inst *i, *older;
    int n = 0;

    *fresh = false;
    m[n++] = type_ref(TY_CLASS, c);
    for (int k = 0; k < a->n; k++) {
        if (n + 2 >= ITEMS_MAX)
            return NULL;
        if (a->at[k].name)
            m[n++] = type_lazy(c, a->at[k].name);           /* no argument is of that type: C("a", 1) is not C(a=1) */
        m[n++] = !a->at[k].type ? T_ANY : c->home->library ? a->at[k].type : type_any_float(a->at[k].type);
    }
    key = type_tuple(m, n);
    if (key->n != n)                                        /* too large to tell calls apart by */
        return NULL;
    older = map_get_ptr(&C->inst_of, key);
    if (older && !older->refused && (older->making || older->era < 0 || older->era == C->era))
        return older->making ? NULL : older;
    if (C->inst_of.n > INST_MAX)
        return NULL;
    i = arena_new(&C->arena, Inst);
    map_set_ptr(&C->inst_of, key, i);
    *i = (Inst){.cls = c, .key = key, .made = node, .older = older};
    *fresh = true;
    return i;
}

/* Sizes of the class that the constructor's arguments tell, then what its attributes tell. */
static void bind_dims(Check *C, Inst *i, const Fn *init, CallArgs *a)
{
    static const Sig none;
    const Sig *sig = init ? fn_sig(C, (Fn *)init) : &none;
    int k = 0;

    for (int p = 1; init && p < init->params.n && k < a->n; p++, k++) {
        const AstParam *x = AST_AS(init->params.at[p], Param);
        if (x->ast.kind != AST_Param || x->kind != PARAM_NORMAL || a->at[k].name || a->at[k].stars)
            break;
        sig_match(&none, i->cls, sig->param[x->slot], a->at[k].type, &i->dims);
    }
    for (int k2 = 0; init && k2 < a->n; k2++)
        for (int p = 1; a->at[k2].name && p < init->params.n; p++)
            if (AST_IS(init->params.at[p], Param) && AST_AS(init->params.at[p], Param)->name == a->at[k2].name)
                sig_match(&none, i->cls, sig->param[AST_AS(init->params.at[p], Param)->slot], a->at[k2].type, &i->dims);
}

static void bind_declared(Inst *i)
{
    static const Sig none;

    for (uint32_t k = 0; k < i->cls->declared.cap; k++) {
        uintptr_t t = 0;
        if (i->cls->declared.key[k] && map_find(&i->stored, i->cls->declared.key[k], &t))
            sig_match(&none, i->cls, (const Type *)i->cls->declared.val[k], (const Type *)t, &i->dims);
    }
    for (int k = 0; k < i->cls->dims.n; k++)
        bound_add(&i->dims, i->cls->dims.at[k].dim, dim_open());
}

/* Is the nearest __init__ that of a dataclass, which takes its fields? */
static bool inits_by_fields(const Cls *c)
{
    for (; c; c = c->base) {
        if (map_find(&c->attrs, (uintptr_t)sym("__init__"), NULL))
            return false;
        if (c->is_dataclass && c->makes_init)
            return true;
    }
    return false;
}

/* Walk __init__ for an object of its own. */
static void make_inst(Check *C, Inst *i, const Type *self, const Type *init, CallArgs *a, Ast *node)
{
    int branches = C->branches;
    long findings = C->findings, held = C->held_made;

    bind_dims(C, i, init && init->kind == TY_FUNC ? init->ref : NULL, a);
    i->making = true;
    C->blame.branches -= branches;          /* as many more or less than there are here */
    C->branches = 0;
    if (init && init->kind == TY_FUNC)
        call_type(C, type_method(self, init), a, node);
    C->branches = branches;
    C->blame.branches += branches;
    i->making = false;
    i->refused = i->cls->home->library && C->findings != findings;
    i->era = C->held_made == held ? -1 : C->era;
    bind_declared(i);
}

const Type *cls_call(Check *C, Cls *c, CallArgs *a, Ast *node)
{
    bool fresh, known = !a->open && !cls_is_open(c);
    Inst *i = known ? inst_of(C, c, a, node, &fresh) : NULL;
    bool of_fields = inits_by_fields(c);
    const Type *self = type_instance(c, i), *init = of_fields ? NULL : cls_find(c, sym("__init__"));

    abstract_judged(C, c, node);
    if (is_schedule_class(c) && !strcmp(c->name->text, "Schedule")) {
        schedule_check_call(C, NULL, a, node);
        return type_instance(c, NULL);
    }
    if (c->is_dict)
        return type_dict(T_ANY, T_ANY);
    if (c->is_record && !c->far && !map_find(&c->attrs, (uintptr_t)sym("__new__"), NULL))
        return dataclass_call(C, c, a->open ? NULL : inst_of(C, c, a, node, &fresh), a, node);
    if (c->far || cls_find(c, sym("__class_call__")))
        return self;
    if (i && !fresh)
        return self;
    if (i)
        make_inst(C, i, self, init, a, node);
    if (init && init->kind == TY_FUNC) {
        if (!i)
            call_type(C, type_method(self, init), a, node);
    } else if (of_fields && !cls_is_open(c))
        return dataclass_call(C, c, i, a, node);
    else if (!cls_is_open(c) && a->n && !a->open && !init)
        REPORT(C, E0903, node->span, cls_name(c), "it takes no arguments");
    return self;
}
