/*
 * Classes: making them, finding names along their bases, making instances.
 *
 * A class written in C is the natives with its name as owner.  Each class
 * keeps its special methods by number, inherited ones included, so that an
 * operator costs one array access; class_touch keeps these tables and the
 * attribute caches true when a class changes after its creation.
 */
#include "frontend/eval/eval.h"

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

/* ------------------------------------------------------------- instances */

Value instance_new(ClassObj *c)
{
    InstanceObj *o = obj_new(V_INSTANCE, sizeof *o);

    c->obj.refs++;
    o->cls = c;
    return vobj(o);
}

static bool user_init(const ClassObj *c) { return c->dunder[D_init].tag == V_FUNC; }

/* The storage of a builtin's subclass: what the builtin's __new__ makes of the arguments, or of none. */
static bool fill_base(Interp *I, InstanceObj *o, Value make, const Value *args, int nargs, const Value *kwvals,
                      const Sym *kwnames, int nkw)
{
    ClassObj *c = o->cls;
    Value *all, v;

    while (!(c->flags & CLASS_NATIVE))
        c = c->base;
    all = tsr_alloc(((size_t)nargs + 1) * sizeof *all);
    all[0] = vobj(c);
    copy_values(all + 1, args, nargs);
    v = value_call_kw(I, make, all, nargs + 1, kwvals, kwnames, nkw);
    tsr_free(all);
    if (is_err(v))
        return false;
    value_unref(o->base);
    o->base = v;
    return true;
}

bool is_exc_class(Interp *I, const ClassObj *c)
{
    return class_derives(c, I->exc_class[EXC_BaseException]);
}

static bool mutable_layout(const ClassObj *c) { return c->layout == V_LIST || c->layout == V_DICT || c->layout == V_SET; }

/* A bare instance of c, before __init__: its builtin storage or its exception arguments are set. */
static Value make_instance(Interp *I, ClassObj *c, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames,
                           int nkw)
{
    Value self, make = c->dunder[D_new];
    InstanceObj *o;

    if (c == I->exc_class[EXC_OSError] && nargs >= 2 && args[0].tag == V_INT)
        c = I->exc_class[errno_class((int)args[0].i)];
    self = instance_new(c);
    o = (InstanceObj *)self.o;
    if (is_exc_class(I, c)) {
        Value t = tuple_new(nargs);
        for (int i = 0; i < nargs; i++)
            as_tuple(t)->at[i] = value_ref(args[i]);
        o->attrs = as_dict(dict_new());
        dict_set_sym(o->attrs, I->s_args, t);
        value_unref(t);
    } else if (make.tag == V_NATIVE) {
        bool none = user_init(c) && mutable_layout(c);
        if (!fill_base(I, o, make, args, none ? 0 : nargs, kwvals, kwnames, none ? 0 : nkw)) {
            value_unref(self);
            return VERR;
        }
    }
    return self;
}

static bool run_init(Interp *I, ClassObj *c, Value self, const Value *args, int nargs, const Value *kwvals,
                     const Sym *kwnames, int nkw)
{
    Value init = c->dunder[D_init], *all, r;

    if (is_err(init)) {
        if ((nargs || nkw) && !is_exc_class(I, c) && is_err(((InstanceObj *)self.o)->base) && is_err(c->dunder[D_new])) {
            raise(I, EXC_TypeError, "%s() takes no arguments", c->name->text);
            return false;
        }
        return true;
    }
    if (init.tag == V_NATIVE && !nkw && is_exc_class(I, c))     /* its arguments are kept already */
        return true;
    all = tsr_alloc(((size_t)nargs + 1) * sizeof *all);
    all[0] = self;
    copy_values(all + 1, args, nargs);
    r = value_call_kw(I, init, all, nargs + 1, kwvals, kwnames, nkw);
    tsr_free(all);
    if (!is_err(r) && r.tag != V_NONE) {
        raise(I, EXC_TypeError, "__init__() should return None, not '%s'", value_type_name(r));
        value_unref(r);
        return false;
    }
    return !is_err(r);
}

static Value call_new(Interp *I, ClassObj *c, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    Value *all = tsr_alloc(((size_t)nargs + 1) * sizeof *all), r;

    all[0] = vobj(c);
    copy_values(all + 1, args, nargs);
    r = value_call_kw(I, c->dunder[D_new], all, nargs + 1, kwvals, kwnames, nkw);
    tsr_free(all);
    return r;
}

static Value raise_abstract(Interp *I, ClassObj *c)
{
    Value names = value_to_list(I, dict_get_sym(c->ns, sym("__abstractmethods__")));
    StrBuf text = {0};

    if (is_err(names) || !list_sort(I, as_list(names), VNONE, false)) {
        value_unref(names);
        return VERR;
    }
    for (int64_t i = 0; i < as_list(names)->n; i++)
        sb_printf(&text, "%s%s", i ? ", " : "", as_str(as_list(names)->at[i])->s);
    raise(I, EXC_TypeError, "Can't instantiate abstract class %s with abstract method%s %s", c->name->text,
          as_list(names)->n == 1 ? "" : "s", sb_str(&text));
    sb_done(&text);
    value_unref(names);
    return VERR;
}

Value class_call(Interp *I, ClassObj *c, const Value *args, int nargs, const Value *kwvals, const Sym *kwnames, int nkw)
{
    Value make = c->dunder[D_new], self;

    if (__builtin_expect(c->flags & (CLASS_ABSTRACT | CLASS_HOOKS), 0)) {
        if (c->flags & CLASS_ABSTRACT)
            return raise_abstract(I, c);
        if (!nkw && !is_err(self = class_hook(I, vobj(c), "__class_call__", args, nargs < 3 ? nargs : 0)))
            return self;
        if (exc_pending(I))
            return VERR;
    }
    if (!is_err(make) && ((c->flags & CLASS_NATIVE) || make.tag == V_FUNC)) {
        self = call_new(I, c, args, nargs, kwvals, kwnames, nkw);
        if (is_err(self) || (c->flags & CLASS_NATIVE) || self.tag != V_INSTANCE || !class_derives(class_of(I, self), c))
            return self;
    } else if (c->layout != V_INSTANCE && is_err(make) && (c->flags & CLASS_NATIVE)) {
        return raise(I, EXC_TypeError, "cannot create '%s' instances", c->name->text);
    } else {
        self = make_instance(I, c, args, nargs, kwvals, kwnames, nkw);
    }
    if (is_err(self))
        return self;
    if (!run_init(I, c, self, args, nargs, kwvals, kwnames, nkw)) {
        value_unref(self);
        return VERR;
    }
    return self;
}

/* ------------------------------------------------------------- natives: what every object can do */

/* super().__new__(cls, ...) */
static Value object_new(Interp *I, Value *a)
{
    TupleObj *args = as_tuple(a[1]);
    ClassObj *c = (ClassObj *)a[0].o, *native;

    if (a[0].tag != V_CLASS)
        return raise(I, EXC_TypeError, "__new__ needs a class, got '%s'", value_type_name(a[0]));
    if ((c->flags & CLASS_NATIVE) && c != I->object_class && c->dunder[D_new].tag == V_NATIVE && !is_exc_class(I, c))
        return call_new(I, c, args->at, (int)args->n, NULL, NULL, 0);
    for (native = c; !(native->flags & CLASS_NATIVE);)
        native = native->base;
    if (c == native && !is_err(c->dunder[D_new]))
        return call_new(I, c, args->at, (int)args->n, NULL, NULL, 0);
    if (is_exc_class(I, c) || native->layout == V_INSTANCE)
        return make_instance(I, c, args->at, (int)args->n, NULL, NULL, 0);
    Value self = instance_new(c);
    if (!fill_base(I, (InstanceObj *)self.o, native->dunder[D_new], args->at, (int)args->n, NULL, NULL, 0)) {
        value_unref(self);
        return VERR;
    }
    return self;
}

/* super().__init__(...): fills the storage of a builtin's subclass. */
static Value object_init(Interp *I, Value *a)
{
    TupleObj *args = as_tuple(a[1]);

    if (a[0].tag == V_INSTANCE && !is_err(((InstanceObj *)a[0].o)->base) && args->n) {
        ClassObj *c = class_of(I, a[0]);
        while (!(c->flags & CLASS_NATIVE))
            c = c->base;
        if (mutable_layout(c) &&
            !fill_base(I, (InstanceObj *)a[0].o, c->dunder[D_new], args->at, (int)args->n, NULL, NULL, 0))
            return VERR;
    }
    return VNONE;
}

/* The name in v, or NULL: TypeError is pending. */
static Sym attribute_name(Interp *I, Value v)
{
    if (v.tag == V_STR)
        return str_to_sym(as_str(v));
    raise(I, EXC_TypeError, "attribute name must be string, not '%s'", value_type_name(v));
    return NULL;
}

static Value object_setattr(Interp *I, Value *a)
{
    Sym name = attribute_name(I, a[1]);

    if (!name)
        return VERR;
    AttrCache c = {.name = name, .key = sym_obj(name), .hint = -1};
    return attr_store_plain(I, a[0], &c, value_ref(a[2])) ? VNONE : VERR;
}

static Value object_delattr(Interp *I, Value *a)
{
    Sym name = attribute_name(I, a[1]);

    if (!name)
        return VERR;
    return (a[0].tag == V_INSTANCE ? attr_delete_plain : value_delattr)(I, a[0], name) ? VNONE : VERR;
}

static Value object_getattribute(Interp *I, Value *a)
{
    Sym name = attribute_name(I, a[1]);

    if (!name)
        return VERR;
    AttrCache c = {.name = name, .key = sym_obj(name), .hint = -1};
    Value r = attr_plain(I, a[0], &c);

    return is_err(r) && !exc_pending(I) ? raise_no_attr(I, a[0], name) : r;
}

static Value object_init_subclass(Interp *I, Value *a)
{
    if (as_dict(a[1])->n)
        return raise(I, EXC_TypeError, "%s.__init_subclass__() takes no keyword arguments", ((ClassObj *)a[0].o)->name->text);
    return VNONE;
}

static Value object_eq(Interp *I, Value *a)
{
    return value_is(a[0], a[1]) ? vbool(true) : VNOTIMPL;
}

static Value object_hash(Interp *I, Value *a)
{
    return vint((int64_t)((uintptr_t)a[0].o >> 4));
}

static Value object_text(Interp *I, Value *a)
{
    StrBuf b = {0};

    sb_putc(&b, '<');
    class_write_name(class_of(I, a[0]), &b);
    sb_printf(&b, " object at 0x%llx>", (unsigned long long)(uintptr_t)a[0].o);
    return str_steal(&b);
}

static Value base_exc_init(Interp *I, Value *a)
{
    InstanceObj *e = (InstanceObj *)a[0].o;

    if (a[0].tag != V_INSTANCE || !e->attrs)
        return raise(I, EXC_TypeError, "an exception expected, got '%s'", value_type_name(a[0]));
    dict_set_sym(e->attrs, I->s_args, a[1]);
    return VNONE;
}

static Value base_exc_str(Interp *I, Value *a)
{
    return exc_str(I, (InstanceObj *)a[0].o);
}

static Value base_exc_with_traceback(Interp *I, Value *a)
{
    return value_ref(a[0]);
}

static Value base_exc_add_note(Interp *I, Value *a)
{
    InstanceObj *e = (InstanceObj *)a[0].o;
    Sym notes = sym("__notes__");
    Value l = dict_get_sym(e->attrs, notes);

    if (a[1].tag != V_STR)
        return raise(I, EXC_TypeError, "note must be a str, not '%s'", value_type_name(a[1]));
    if (is_err(l)) {
        l = list_new(1);
        dict_set_sym(e->attrs, notes, l);
        value_unref(l);
    }
    if (l.tag != V_LIST)
        return raise(I, EXC_TypeError, "Cannot add note: __notes__ is not a list");
    list_push(as_list(l), value_ref(a[1]));
    return VNONE;
}

/* The exception as it shows when nobody catches it. */
static Value exception_text(Interp *I, Value *a)
{
    StrBuf text = {0};
    Value r;

    if (a[0].tag != V_INSTANCE || !class_derives(class_of(I, a[0]), I->exc_class[EXC_BaseException]))
        return raise(I, EXC_TypeError, "an exception expected, got '%s'", value_type_name(a[0]));
    exc_render(I, a[0], &text);
    r = str_new(sb_str(&text), text.n);
    sb_done(&text);
    return r;
}

/* What the except block around is handling, as (class, exception, traceback). */
static Value exc_info(Interp *I, Value *a)
{
    Value e = I->handling;

    if (e.tag != V_INSTANCE)
        return tuple_of(3, VNONE, VNONE, VNONE);
    return tuple_of(3, value_type(I, e), value_ref(e), value_getattr(I, e, sym("__traceback__")));
}

static Value oserror_value(Interp *I, Value *a) { return value_ref(vobj(I->exc_class[EXC_OSError])); }
/* type(name, bases, namespace): a class as a class statement makes it. */
static Value class_by_hand(Interp *I, Value *a)
{
    Value name = unwrap_base(a[1]), bases = unwrap_base(a[2]), ns = unwrap_base(a[3]), cls, key, value;
    ClassObj *base = NULL;

    if (name.tag != V_STR || bases.tag != V_TUPLE || ns.tag != V_DICT)
        return raise(I, EXC_TypeError, "type() takes a name, a tuple of bases and a dict");
    if (as_tuple(bases)->n > 1)
        return raise(I, EXC_TypeError, "multiple inheritance is not in the language");
    if (as_tuple(bases)->n) {
        if (as_tuple(bases)->at[0].tag != V_CLASS)
            return raise(I, EXC_TypeError, "bases must be types");
        base = (ClassObj *)as_tuple(bases)->at[0].o;
    }
    for (int64_t pos = 0; dict_next(as_dict(ns), &pos, &key, &value);)
        if (key.tag != V_STR)
            return raise(I, EXC_TypeError, "the names of attributes are text, not '%s'", value_type_name(key));
    cls = class_new(I, str_to_sym(as_str(name)), base, as_dict(ns));
    class_complete(I, (ClassObj *)cls.o);
    return cls;
}

static Value type_new(Interp *I, Value *a)
{
    return is_err(a[2]) ? value_type(I, a[1]) : class_by_hand(I, a);
}

static Value ellipsis_value(Interp *I, Value *a) { return (Value){.tag = V_ELLIPSIS}; }
static Value notimpl_value(Interp *I, Value *a) { return VNOTIMPL; }

const NativeDef natives_class[] = {
    {"", "type", NULL, "type[type]", "the class of a value"},
    {"type", "__new__", type_new, "(cls, x, bases: tuple = ..., namespace: dict = ..., /) -> Any", "the class of x; a class from a name, bases and attributes"},
    {"", "Ellipsis", ellipsis_value, "ellipsis", "the value of ..."},
    {"", "NotImplemented", notimpl_value, "NotImplementedType", "what a binary special method returns for operands it does not know"},
    {"", "IOError", oserror_value, "type[OSError]", "OSError's older name"},
    {"", "EnvironmentError", oserror_value, "type[OSError]", "OSError's older name"},
    {"", "object", NULL, "type[object]", "the base of all classes"},
    {"_core", "exception_text", exception_text, "(e) -> str", "the traceback and the message, as they show when nobody catches the exception"},
    {"sys", "exc_info", exc_info, "() -> tuple", "the class, the exception and the traceback that the except block around is handling; None three times outside of one"},
    {"BaseException", "__init__", base_exc_init, "(self, *args) -> None", "keep the arguments"},
    {"BaseException", "__str__", base_exc_str, "(self) -> str", "the message"},
    {"BaseException", "with_traceback", base_exc_with_traceback, "(self, tb: Any) -> Any", "the exception itself"},
    {"BaseException", "add_note", base_exc_add_note, "(self, note: str) -> None", "a line shown below the message"},
    {0},
};

/* Found by super() and by class access where nothing else is: these never shadow a class's own methods. */
const NativeDef object_methods[] = {
    {"object", "__new__", object_new, "(cls, *args) -> Any", "a bare instance"},
    {"object", "__init__", object_init, "(self, *args) -> None", "does nothing"},
    {"object", "__setattr__", object_setattr, "(self, name: str, value: Any) -> None", "set an attribute"},
    {"object", "__delattr__", object_delattr, "(self, name: str) -> None", "delete an attribute"},
    {"object", "__getattribute__", object_getattribute, "(self, name: str) -> Any", "get an attribute"},
    {"object", "__init_subclass__", object_init_subclass, "(self, **keywords) -> None", "does nothing"},
    {"object", "__eq__", object_eq, "(self, other: Any) -> bool", "identity"},
    {"object", "__hash__", object_hash, "(self) -> int", "by identity"},
    {"object", "__repr__", object_text, "(self) -> str", "<X object at ...>"},
    {"object", "__str__", object_text, "(self) -> str", "<X object at ...>"},
    {0},
};
