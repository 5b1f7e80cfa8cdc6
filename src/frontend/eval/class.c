/*
 * Classes: making them, finding names along their bases, the class of a value. Instances are in instance.c.
 *
 * A class written in C is the natives with its name as owner.  Each class
 * keeps its special methods by number, inherited ones included, so that an
 * operator costs one array access; class_touch keeps these tables and the
 * attribute caches true when a class changes after its creation.
 */
#include "frontend/eval/eval.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- tables */

static int dunder_number(Interp *I, Sym name)
{
    if (name->len < 6 || name->text[0] != '_' || name->text[1] != '_')
        return -1;
    for (int i = 0; i < D_COUNT; i++)
        if (I->dunder_sym[i] == name)
            return i;
    return -1;
}

/* What a special method is called as: wrappers of static and class methods are transparent for __new__. */
static Value dunder_target(Value v)
{
    return v.tag == V_STATICMETHOD || v.tag == V_CLASSMETHOD ? ((WrapObj *)v.o)->func : v;
}

static void set_dunder(ClassObj *c, int d, Value v)
{
    Value old = c->dunder[d];

    c->dunder[d] = value_ref(dunder_target(v));
    value_unref(old);
}

static void class_link(ClassObj *c, ClassObj *base)
{
    c->base = (ClassObj *)value_ref(vobj(base)).o;
    c->next_sub = base->subs;
    base->subs = c;
    c->layout = base->layout;
    c->flags |= base->flags & ~(uint32_t)(CLASS_NATIVE | CLASS_ABSTRACT);
    for (int d = 0; d < D_COUNT; d++)
        set_dunder(c, d, base->dunder[d]);
}

void class_unlink(ClassObj *c)
{
    ClassObj **p = c->base ? &c->base->subs : NULL;

    for (; p && *p; p = &(*p)->next_sub)
        if (*p == c) {
            *p = c->next_sub;
            break;
        }
    for (ClassObj *s = c->subs; s; s = s->next_sub)
        if (s->base == c)
            s->base = NULL;
    c->subs = NULL;
}

static void resolve_dunder(ClassObj *c, int d, Sym name)
{
    ClassObj *holder;
    Value v = class_find(c, name, &holder);

    set_dunder(c, d, v);
    for (ClassObj *s = c->subs; s; s = s->next_sub)
        resolve_dunder(s, d, name);
}

void class_touch(Interp *I, ClassObj *c, Sym name, Value v)
{
    int d = dunder_number(I, name);

    I->class_version++;
    if (d >= 0)
        resolve_dunder(c, d, name);
}

Value class_find(ClassObj *c, Sym name, ClassObj **holder)
{
    for (; c; c = c->base) {
        DictEntry *e = c->ns && c->ns->n ? dict_find_sym(c->ns, name) : NULL;
        if (e) {
            if (holder)
                *holder = c;
            return e->val;
        }
    }
    return VERR;
}

bool class_derives(const ClassObj *c, const ClassObj *base)
{
    for (; c; c = c->base)
        if (c == base)
            return true;
    return false;
}

/* ------------------------------------------------------------- making classes */

Value class_new(Interp *I, Sym name, ClassObj *base, DictObj *ns)
{
    ClassObj *c = obj_new(V_CLASS, sizeof *c);
    int64_t pos = 0;
    Value k, v;

    I->class_version++;         /* it may stand where a class was that attribute caches still know */
    c->name = name;
    c->layout = V_INSTANCE;
    c->ns = as_dict(dict_new());
    if (base || I->object_class)
        class_link(c, base ? base : I->object_class);
    while (ns && dict_next(ns, &pos, &k, &v)) {
        Sym s = str_to_sym(as_str(k));
        int d = dunder_number(I, s);
        dict_set_sym(c->ns, s, v);
        if (d >= 0)
            set_dunder(c, d, v);
    }
    c->module = I->frame && I->frame->module ? (ModuleObj *)value_ref(vobj(I->frame->module)).o : NULL;
    return vobj(c);
}

/* ------------------------------------------------------------- facts about whole classes */

/* The function of a method, property, class or static method; NULL: data. */
static FuncObj *method_function(Value v)
{
    if (v.tag == V_PROPERTY)
        v = ((PropertyObj *)v.o)->get;
    if (v.tag == V_STATICMETHOD || v.tag == V_CLASSMETHOD)
        v = ((WrapObj *)v.o)->func;
    return v.tag == V_FUNC ? (FuncObj *)v.o : NULL;
}

static bool is_abstract(Value v)
{
    FuncObj *f = method_function(v);

    return f && f->attrs && dict_get_sym(f->attrs, sym("__isabstractmethod__")).i;
}

/* Names from ns that are still abstract in c, added to the list. */
static void gather_abstract(ClassObj *c, DictObj *ns, ListObj *names)
{
    int64_t pos = 0;
    Value k, v;

    while (dict_next(ns, &pos, &k, &v))
        if (is_abstract(v) && is_abstract(class_find(c, str_to_sym(as_str(k)), NULL)))
            list_push(names, value_ref(k));
}

void class_note_abstract(Interp *I, ClassObj *c)
{
    Value names = list_new(0);

    c->flags &= ~(uint32_t)CLASS_ABSTRACT;
    gather_abstract(c, c->ns, as_list(names));
    for (ClassObj *b = c->base; b && (b->flags & CLASS_ABSTRACT); b = b->base)
        gather_abstract(c, b->ns, as_list(names));
    if (as_list(names)->n) {
        Value set = set_new();
        set_update(I, as_dict(set), names);
        set.o->flags |= 1;
        c->flags |= CLASS_ABSTRACT;
        dict_set_sym(c->ns, sym("__abstractmethods__"), set);
        value_unref(set);
    } else if (!is_err(dict_get_sym(c->ns, sym("__abstractmethods__")))) {
        dict_del_sym(c->ns, sym("__abstractmethods__"));
    }
    value_unref(names);
}

void class_complete(Interp *I, ClassObj *c)
{
    static const char *const hooks[] = {"__class_iter__", "__class_len__", "__class_contains__", "__class_repr__", "__class_call__",
                                        "__class_setattr__", "__class_delattr__"};
    Value slots = dict_get_sym(c->ns, sym("__slots__"));

    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        if (!is_err(dict_get_sym(c->ns, sym(hooks[i]))))
            c->flags |= CLASS_HOOKS;
    if (!is_err(dict_get_sym(c->ns, sym("__class_instancecheck__"))) || !is_err(dict_get_sym(c->ns, sym("__class_subclasscheck__"))))
        c->flags |= CLASS_CHECKS;
    if (!is_err(dict_get_sym(c->ns, sym("__getattribute__"))))
        c->flags |= CLASS_GETATTRIBUTE;
    c->flags &= ~(uint32_t)CLASS_SLOTS;
    if (!is_err(slots) && (c->base == I->object_class || (c->base->flags & CLASS_SLOTS)))
        c->flags |= CLASS_SLOTS;
    class_note_abstract(I, c);
}

bool class_allows(Interp *I, const ClassObj *c, Sym name)
{
    Value key = vobj(sym_obj(name));

    for (; c && (c->flags & CLASS_SLOTS); c = c->base) {
        Value slots = dict_get_sym(c->ns, sym("__slots__"));
        if (slots.tag == V_STR ? str_eq(as_str(slots), as_str(key)) : value_contains(I, slots, key) > 0)
            return true;
    }
    exc_clear(I);
    return c && c != I->object_class;
}

Value class_hook(Interp *I, Value cls, const char *name, const Value *args, int nargs)
{
    ClassObj *c = (ClassObj *)cls.o;
    Value f = c->flags & (CLASS_HOOKS | CLASS_CHECKS) ? class_find(c, sym(name), NULL) : VERR, all[4];

    if (is_err(f) || nargs > 3)
        return VERR;
    all[0] = cls;
    copy_values(all + 1, args, nargs);
    return value_call(I, dunder_target(f), all, nargs + 1);
}

void class_write_name(const ClassObj *c, StrBuf *out)
{
    if (c->module)
        sb_printf(out, "%s.", c->module->name->text);
    sb_puts(out, c->qualname ? c->qualname : c->name->text);
}

static const char *base_name(const char *owner)
{
    const NativeDef *d = native_find(owner, "__base__");
    static char name[64];

    if (!d)
        return !strcmp(owner, "bool") ? "int" : "object";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(d->sig + 5, "]"), d->sig + 5);
    return name;
}

/* A native as an attribute of its class: methods bind, cls makes a class method, neither a static one. */
static Value native_attribute(Interp *I, const NativeDef *d)
{
    Value f;
    WrapObj *w;

    if (!strncmp(d->sig, "property[", 9)) {
        PropertyObj *p = obj_new(V_PROPERTY, sizeof *p);
        p->get = native_new(d, VERR);
        return vobj(p);
    }
    if (d->sig[0] != '(')
        return native_value(I, d);
    f = native_new(d, VERR);
    if (!strncmp(d->sig, "(self", 5))
        return f;
    w = obj_new(!strncmp(d->sig, "(cls", 4) ? V_CLASSMETHOD : V_STATICMETHOD, sizeof *w);
    w->func = f;
    return vobj(w);
}

static void fill_native_class(Interp *I, ClassObj *c, const char *owner)
{
    for (int t = 0; native_tables[t]; t++)
        for (const NativeDef *d = native_tables[t]; d->name; d++) {
            Value v;
            int n;
            if (strcmp(d->owner, owner) || !strcmp(d->name, "__base__"))
                continue;
            v = native_attribute(I, d);
            n = dunder_number(I, sym(d->name));
            if (n >= 0)
                set_dunder(c, n, v);
            if (n == D_new && c != I->object_class) {       /* tuple.__new__(cls, x) is object_new, for subclasses too */
                value_unref(v);
                v = native_attribute(I, &object_methods[0]);
                v.o->kind = V_STATICMETHOD;
                v.tag = V_STATICMETHOD;
            }
            dict_set_sym(c->ns, sym(d->name), v);
            value_unref(v);
        }
}

ClassObj *native_class(Interp *I, const char *owner)
{
    Sym name = sym(owner);
    ClassObj *c = map_get_ptr(&I->native_class, name), *base = NULL;

    if (c)
        return c;
    if (strcmp(owner, "object"))
        base = native_class(I, base_name(owner));
    c = (ClassObj *)class_new(I, name, base, NULL).o;
    if (c->module) {
        obj_unref(c->module);
        c->module = NULL;
    }
    c->layout = V_NATIVEOBJ;
    for (int t = V_NONE; t < V_COUNT; t++)
        if (t != V_INSTANCE && t != V_NATIVEOBJ && !strcmp(value_type_name((Value){.tag = (uint32_t)t}), owner) &&
            t != V_SYMINT && t != V_SYMFLOAT && t != V_TYPEFORM) {
            c->layout = (uint32_t)t;
            break;
        }
    if (base && base != I->object_class && (c->layout == V_NATIVEOBJ))
        c->layout = base->layout;
    map_set_ptr(&I->native_class, name, c);
    if (!base)
        I->object_class = c;
    fill_native_class(I, c, owner);
    if (is_err(c->dunder[D_new]) && c->layout == V_NATIVEOBJ)
        c->layout = V_INSTANCE;     /* __init__ and attributes: instances like any other's */
    c->flags |= CLASS_NATIVE;                  /* made in C */
    return c;
}

/* ------------------------------------------------------------- the class of a value */

const char *value_type_name(Value v)
{
    static const char *const names[V_COUNT] = {
        [V_ERR] = "unset", [V_NONE] = "NoneType", [V_ELLIPSIS] = "ellipsis", [V_NOTIMPL] = "NotImplementedType",
        [V_BOOL] = "bool", [V_INT] = "int", [V_FLOAT] = "float", [V_STR] = "str", [V_BYTES] = "bytes",
        [V_COMPLEX] = "complex", [V_LIST] = "list", [V_TUPLE] = "tuple", [V_DICT] = "dict", [V_SET] = "set",
        [V_RANGE] = "range", [V_SLICE] = "slice", [V_TENSOR] = "Tensor", [V_SYMINT] = "int", [V_SYMFLOAT] = "float", [V_DTYPE] = "dtype",
        [V_TYPEFORM] = "type", [V_FUNC] = "function", [V_NATIVE] = "builtin_function_or_method", [V_BOUND] = "method",
        [V_CLASS] = "type", [V_MODULE] = "module", [V_PROPERTY] = "property", [V_STATICMETHOD] = "staticmethod",
        [V_CLASSMETHOD] = "classmethod", [V_SUPER] = "super", [V_CELL] = "cell", [V_ITER] = "iterator",
        [V_GENERATOR] = "generator", [V_COROUTINE] = "coroutine", [V_FILE] = "file",
    };

    if (v.tag == V_INSTANCE)
        return ((InstanceObj *)v.o)->cls->name->text;
    if (v.tag == V_NATIVEOBJ)
        return ((NativeInst *)v.o)->type->name;
    if (v.tag == V_SET && v.o && (v.o->flags & 1))
        return "frozenset";
    return names[v.tag];
}

/* `int`, `str`, `list` ... as class values: native_class of its name. */
static ClassObj *class_of_tag(Interp *I, Tag tag)
{
    if (!I->tag_class[tag])
        I->tag_class[tag] = native_class(I, value_type_name((Value){.tag = tag}));
    return I->tag_class[tag];
}

/* Found by name once, then by the address of the type. */
static ClassObj *native_object_class(Interp *I, const NativeType *t)
{
    size_t at = ((uintptr_t)t >> 4 ^ (uintptr_t)t >> 10) % (sizeof I->object_class_at / sizeof *I->object_class_at);

    if (I->object_class_at[at].type != t) {
        I->object_class_at[at].cls = native_class(I, t->name);
        I->object_class_at[at].type = t;
    }
    return I->object_class_at[at].cls;
}

ClassObj *class_of(Interp *I, Value v)
{
    if (v.tag == V_INSTANCE)
        return ((InstanceObj *)v.o)->cls;
    if (v.tag == V_NATIVEOBJ)
        return native_object_class(I, ((NativeInst *)v.o)->type);
    if (v.tag == V_SET && (v.o->flags & 1))
        return native_class(I, value_type_name(v));
    return class_of_tag(I, (Tag)v.tag);
}

Value value_type(Interp *I, Value v)
{
    return value_ref(vobj(class_of(I, v)));
}

Value value_dunder(Interp *I, Value v, Dunder d)
{
    return class_of(I, v)->dunder[d];
}

Value value_call_dunder(Interp *I, Value v, Dunder d, const Value *args, int nargs)
{
    Value f = value_dunder(I, v, d), all[8];

    if (is_err(f) || f.tag == V_NONE || nargs > 7)
        return VERR;
    all[0] = v;
    copy_values(all + 1, args, nargs);
    return value_call(I, f, all, nargs + 1);
}
