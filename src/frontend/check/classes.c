/*
 * Classes: which attributes an object surely has, and what they are.
 *
 * An attribute is known to be missing only in a closed class: every base is one
 * of the program's, nothing computes attributes, and no statement of the unit
 * stores that name through an attribute.  class_read.c reads class statements, instances.c makes objects.
 */
#include "frontend/check/foreign.h"
#include "frontend/check/frames.h"
#include "frontend/check/kernels.h"

#include "frontend/eval/native.h"
#include "frontend/stdlib_embed.h"

#include <stdio.h>
#include <string.h>

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
