/*
 * Attributes: v.name, v.name = x, del v.name.
 *
 * An instance has its own dict first, except that a property of its class
 * comes before it.  Each place in the program that names an attribute keeps an
 * AttrCache: where in instance dicts it was last found (objects of one class
 * fill theirs in the same order), and what the class chain holds under the
 * name while no class has changed.
 */
#include "frontend/eval/eval.h"

#include "frontend/prelude.h"

#include <string.h>

/* ------------------------------------------------------------- finding through the cache */

static Value attr_find(Interp *I, Value v, AttrCache *a);

/* What c's chain holds under the name; NULL: nothing. Borrowed until a class changes. */
static DictEntry *class_entry(Interp *I, ClassObj *c, AttrCache *a)
{
    if (a->cls != c || a->version != I->class_version) {
        ClassObj *holder = NULL;
        a->cls = c;
        a->version = I->class_version;
        class_find(c, a->name, &holder);
        a->holder = holder;
        a->index = holder ? (int32_t)(dict_find_str(holder->ns, a->key) - holder->ns->entry) : -1;
    }
    return a->holder ? &a->holder->ns->entry[a->index] : NULL;
}

static DictEntry *own_entry(DictObj *d, AttrCache *a)
{
    DictEntry *e;

    if (!d)
        return NULL;
    if ((uint32_t)a->hint < (uint64_t)d->used && d->entry[a->hint].key.o == &a->key->obj)
        return &d->entry[a->hint];
    if (!d->n || !(e = dict_find_str(d, a->key)))
        return NULL;
    a->hint = (int32_t)(e - d->entry);
    return e;
}

/* A bound method; references to both are taken. */
static Value bound_new(Value self, Value func)
{
    BoundObj *b = obj_new(V_BOUND, sizeof *b);

    b->self = value_ref(self);
    b->func = value_ref(func);
    return vobj(b);
}

static bool binds(Value v)
{
    return v.tag == V_FUNC || (v.tag == V_NATIVE && (v.o->flags & NATIVE_METHOD)) ||
           (v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type->binds);
}

static Value property_get(Interp *I, PropertyObj *p, Value self)
{
    if (is_err(p->get))
        return raise(I, EXC_AttributeError, "unreadable attribute");
    return value_call(I, p->get, &self, 1);
}

/* Computed once: the result becomes an attribute of the instance, which is found before. */
static Value cached_get(Interp *I, PropertyObj *p, Value self, Sym name)
{
    InstanceObj *o = (InstanceObj *)self.o;
    Value v = property_get(I, p, self);

    if (is_err(v))
        return v;
    if (!o->attrs)
        o->attrs = as_dict(dict_new());
    dict_set_sym(o->attrs, name, v);
    return v;
}

static bool is_cached(const DictEntry *e) { return e->val.o->flags & PROPERTY_CACHED; }

/* A kernel that stands in a class is a method of it: what the library's _bound_to(self, owner) says. Other objects are what they are. */
static Value bind_object(Interp *I, Value attr, Value self)
{
    Value f = class_find(((InstanceObj *)attr.o)->cls, I->s_bound_to, NULL);

    return is_err(f) ? value_ref(attr) : value_call(I, f, (Value[]){attr, self}, 2);
}

Value bind_attr(Interp *I, Value attr, Value self, ClassObj *cls)
{
    if (binds(attr))
        return bound_new(self, attr);
    switch (attr.tag) {
    case V_PROPERTY: return property_get(I, (PropertyObj *)attr.o, self);
    case V_STATICMETHOD: return value_ref(((WrapObj *)attr.o)->func);
    case V_CLASSMETHOD: return bound_new(vobj(cls), ((WrapObj *)attr.o)->func);
    case V_INSTANCE: return bind_object(I, attr, self);
    default: return value_ref(attr);
    }
}

/* ------------------------------------------------------------- attributes that every kind has */

Value raise_no_attr(Interp *I, Value v, Sym name)
{
    if (v.tag == V_MODULE)
        return raise(I, EXC_AttributeError, "module '%s' has no attribute '%s'", ((ModuleObj *)v.o)->name->text, name->text);
    if (v.tag == V_CLASS)
        return raise(I, EXC_AttributeError, "type object '%s' has no attribute '%s'", ((ClassObj *)v.o)->name->text,
                     name->text);
    return raise(I, EXC_AttributeError, "'%s' object has no attribute '%s'", value_type_name(v), name->text);
}

static Value find_object_method(const ClassObj *c, Sym name)
{
    Value op = operator_method(c, name);

    if (!is_err(op))
        return op;
    for (const NativeDef *d = object_methods; d->name; d++)
        if (!strcmp(d->name, name->text))
            return native_new(d, VERR);
    return VERR;
}

static Value instance_dict(InstanceObj *o)
{
    if (!o->attrs)
        o->attrs = as_dict(dict_new());
    return value_ref(vobj(o->attrs));
}

Value attr_plain(Interp *I, Value v, AttrCache *a)
{
    InstanceObj *o = (InstanceObj *)v.o;
    ClassObj *c = o->cls;
    DictEntry *ce, *e;
    Value f, r;

    if (v.tag != V_INSTANCE)
        return attr_find(I, v, a);
    ce = class_entry(I, c, a);
    if (ce && ce->val.tag == V_PROPERTY && !is_cached(ce))
        return property_get(I, (PropertyObj *)ce->val.o, v);
    if ((e = own_entry(o->attrs, a)))
        return value_ref(e->val);
    if (ce)
        return ce->val.tag == V_PROPERTY ? cached_get(I, (PropertyObj *)ce->val.o, v, a->name) : bind_attr(I, ce->val, v, c);
    if (a->name == I->s_class)
        return value_ref(vobj(c));
    if (a->name == I->s_dict && (!(c->flags & CLASS_SLOTS) || class_allows(I, c, a->name)))
        return instance_dict(o);
    if (is_exc_class(I, c) && !is_err(r = exc_attr(I, o, a->name)))
        return r;
    if (!is_err(f = c->dunder[D_getattr]))
        return value_call(I, f, (Value[]){v, str_sym(a->name)}, 2);
    if (a->name == I->s_doc)
        return VNONE;
    f = find_object_method(c, a->name);
    if (!is_err(f)) {
        r = bound_new(v, f);
        value_unref(f);
        return r;
    }
    return VERR;
}

/* v.name with the class's own __getattribute__; __getattr__ is asked when that finds nothing. */
static __attribute__((noinline)) Value attr_by_method(Interp *I, Value v, AttrCache *a)
{
    ClassObj *c = ((InstanceObj *)v.o)->cls;
    Value name = str_sym(a->name), r = value_call(I, class_find(c, sym("__getattribute__"), NULL), (Value[]){v, name}, 2);

    if (is_err(r) && !is_err(c->dunder[D_getattr]) && exc_matches(I, EXC_AttributeError)) {
        exc_clear(I);
        r = value_call(I, c->dunder[D_getattr], (Value[]){v, name}, 2);
    }
    value_unref(name);
    return r;
}

static inline Value instance_attr(Interp *I, Value v, AttrCache *a)
{
    return __builtin_expect(((InstanceObj *)v.o)->cls->flags & CLASS_GETATTRIBUTE, 0) ? attr_by_method(I, v, a)
                                                                                      : attr_plain(I, v, a);
}

static Value class_attr(Interp *I, Value v, AttrCache *a)
{
    ClassObj *c = (ClassObj *)v.o;
    DictEntry *e = class_entry(I, c, a);
    Value r;

    if (e) {
        switch (e->val.tag) {
        case V_STATICMETHOD: return value_ref(((WrapObj *)e->val.o)->func);
        case V_CLASSMETHOD: return bound_new(v, ((WrapObj *)e->val.o)->func);
        default: return value_ref(e->val);
        }
    }
    if (!is_err(r = class_inspect(I, c, a->name)))
        return r;
    return find_object_method(c, a->name);
}

static DictObj *func_attrs(FuncObj *f)
{
    if (!f->attrs)
        f->attrs = as_dict(dict_new());
    return f->attrs;
}

static Value func_defaults(FuncObj *f)
{
    Value l = list_new(0), t;
    int64_t n;

    for (int i = 0; f->defaults && i < f->code->npos; i++)
        if (!is_err(f->defaults[i]))
            list_push(as_list(l), value_ref(f->defaults[i]));
    n = as_list(l)->n;
    t = n ? tuple_new(n) : VNONE;
    if (n)
        memcpy(as_tuple(t)->at, as_list(l)->at, (size_t)n * sizeof(Value));
    as_list(l)->n = 0;
    value_unref(l);
    return t;
}

static Value func_kwdefaults(FuncObj *f)
{
    Value d = dict_new();

    for (int i = f->code->npos; f->defaults && i < f->code->nparams; i++)
        if (!is_err(f->defaults[i]))
            dict_set_sym(as_dict(d), f->code->param[i], f->defaults[i]);
    if (as_dict(d)->n)
        return d;
    value_unref(d);
    return VNONE;
}

static Value func_attr(Interp *I, FuncObj *f, Sym name)
{
    Value v = dict_get_sym(f->attrs, name);

    if (!is_err(v))
        return value_ref(v);
    if (name == I->s_name)
        return value_ref(f->name);
    if (name == I->s_doc)
        return value_ref(f->doc);
    if (name == I->s_dict)
        return value_ref(vobj(func_attrs(f)));
    if (!strcmp(name->text, "__qualname__"))
        return str_c(f->code->qualname);
    if (!strcmp(name->text, "__module__"))
        return str_sym(f->module->name);
    if (!strcmp(name->text, "__defaults__"))
        return func_defaults(f);
    if (!strcmp(name->text, "__kwdefaults__"))
        return func_kwdefaults(f);
    return func_inspect(I, f, name);
}

static Value native_attr(Interp *I, NativeObj *f, Sym name)
{
    const NativeDef *d;

    if (name == I->s_name || !strcmp(name->text, "__qualname__"))
        return str_c(f->def->name);
    if (name == I->s_doc)
        return f->def->doc ? str_c(f->def->doc) : VNONE;
    if (!*f->def->owner && (d = native_find(f->def->name, name->text)))      /* a callable namespace */
        return native_value(I, d);
    return VERR;
}

static Value super_attr(Interp *I, SuperObj *s, Sym name)
{
    Value f = class_find(s->after, name, NULL), r;
    ClassObj *c = s->self.tag == V_CLASS ? (ClassObj *)s->self.o : class_of(I, s->self);

    /* a builtin's __new__ and __init__ seen from a subclass work on the subclass */
    if (!is_err(f) && name == I->dunder_sym[D_new] && f.tag == V_CLASSMETHOD)
        f = VERR;
    if (!is_err(f)) {
        if (s->self.tag == V_CLASS && (f.tag == V_FUNC || f.tag == V_STATICMETHOD))
            return value_ref(f.tag == V_FUNC ? f : ((WrapObj *)f.o)->func);
        return bind_attr(I, f, s->self, c);
    }
    f = find_object_method(c, name);
    if (is_err(f) || name == I->dunder_sym[D_new])
        return f;
    r = bound_new(s->self, f);
    value_unref(f);
    return r;
}

static Value prop_attr(Interp *I, PropertyObj *p, Value self, Sym name)
{
    static const char *const names[] = {"getter", "setter", "deleter"};

    if (name == I->s_doc)
        return p->get.tag == V_FUNC ? value_ref(((FuncObj *)p->get.o)->doc) : VNONE;
    if (!strcmp(name->text, "fget"))
        return is_err(p->get) ? VNONE : value_ref(p->get);
    for (int i = 0; i < 3; i++)
        if (!strcmp(name->text, names[i]))
            return native_new(&property_parts[i], self);
    return VERR;
}

static Value gen_attr(Interp *I, GenObj *g, Sym name)
{
    if (name == I->s_name || !strcmp(name->text, "__qualname__"))
        return value_ref(g->func->name);
    return VERR;
}

static Value form_attr(Interp *I, TypeFormObj *t, Sym name)
{
    if (!strcmp(name->text, "__origin__"))
        return value_ref(t->origin);
    if (!strcmp(name->text, "__args__"))
        return value_ref(t->args);
    return t->op == '[' ? value_getattr_opt(I, t->origin, name) : VERR;
}

/* What a kind answers before its class is asked. */
static Value own_attr(Interp *I, Value v, Sym name)
{
    NativeInst *n = (NativeInst *)v.o;

    switch (v.tag) {
    case V_FUNC: return func_attr(I, (FuncObj *)v.o, name);
    case V_NATIVE: return native_attr(I, (NativeObj *)v.o, name);
    case V_SUPER: return super_attr(I, (SuperObj *)v.o, name);
    case V_MODULE: return module_attr(I, (ModuleObj *)v.o, name);
    case V_PROPERTY: return prop_attr(I, (PropertyObj *)v.o, v, name);
    case V_TENSOR: return tensor_op_getattr(I, v, name);
    case V_DTYPE: return dtype_op_getattr(I, v, name);
    case V_TYPEFORM: return form_attr(I, (TypeFormObj *)v.o, name);
    case V_GENERATOR: case V_COROUTINE: return gen_attr(I, (GenObj *)v.o, name);
    case V_NATIVEOBJ: return n->type->getattr ? n->type->getattr(I, n, name) : VERR;
    case V_BOUND: {
        BoundObj *b = (BoundObj *)v.o;
        if (!strcmp(name->text, "__self__"))
            return value_ref(b->self);
        if (!strcmp(name->text, "__func__"))
            return value_ref(b->func);
        return value_getattr_opt(I, b->func, name);
    }
    case V_STATICMETHOD: case V_CLASSMETHOD:
        return value_getattr_opt(I, ((WrapObj *)v.o)->func, name);
    case V_COMPLEX:
        return !strcmp(name->text, "real") ? vfloat(((ComplexObj *)v.o)->re)
             : !strcmp(name->text, "imag") ? vfloat(((ComplexObj *)v.o)->im) : VERR;
    default: return VERR;
    }
}

/* A function of the prelude that tensors have as a method, too. */
static Value library_method(Interp *I, Sym name)
{
    int row = prelude_method(name);

    return row < 0 ? VERR : value_ref(prelude_value(I, row));
}

static Value other_attr(Interp *I, Value v, AttrCache *a)
{
    Value r = own_attr(I, v, a->name), f;
    DictEntry *e;
    ClassObj *c;

    if (!is_err(r) || exc_pending(I) || v.tag == V_SUPER || v.tag == V_MODULE)
        return r;
    c = class_of(I, v);
    if ((e = class_entry(I, c, a)))
        return bind_attr(I, e->val, v, c);
    if (a->name == I->s_class)
        return value_ref(vobj(c));
    if (v.tag == V_NATIVEOBJ && !is_err(f = c->dunder[D_getattr]))
        return value_call(I, f, (Value[]){v, str_sym(a->name)}, 2);
    if (a->name == I->s_doc)
        return VNONE;
    f = v.tag == V_TENSOR ? library_method(I, a->name) :
        v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type->next ? operator_of_iterator(a->name) : VERR;
    if (is_err(f) && !exc_pending(I))
        f = find_object_method(c, a->name);
    if (is_err(f))
        return VERR;
    r = bound_new(v, f);
    value_unref(f);
    return r;
}

static Value attr_find(Interp *I, Value v, AttrCache *a)
{
    if (v.tag == V_INSTANCE)
        return instance_attr(I, v, a);
    if (v.tag == V_CLASS)
        return class_attr(I, v, a);
    return other_attr(I, v, a);
}

/* The instance's own attribute where the cache says that its class has none of that name; NULL: look properly. */
static inline DictEntry *cached_entry(Interp *I, const InstanceObj *o, const AttrCache *a)
{
    const ClassObj *c = o->cls;
    DictObj *d = o->attrs;

    if (a->cls != c || a->version != I->class_version || a->holder || (c->flags & CLASS_GETATTRIBUTE) || !d)
        return NULL;
    return (uint32_t)a->hint < (uint64_t)d->used && d->entry[a->hint].key.o == &a->key->obj ? &d->entry[a->hint] : NULL;
}

Value attr_load(Interp *I, Value v, AttrCache *a)
{
    DictEntry *e = v.tag == V_INSTANCE ? cached_entry(I, (InstanceObj *)v.o, a) : NULL;
    Value r;

    if (e)
        return value_ref(e->val);
    r = attr_find(I, v, a);

    return is_err(r) && !exc_pending(I) ? raise_no_attr(I, v, a->name) : r;
}

Value value_getattr(Interp *I, Value v, Sym name)
{
    AttrCache a = {.name = name, .key = sym_obj(name), .hint = -1};

    return attr_load(I, v, &a);
}

Value value_getattr_opt(Interp *I, Value v, Sym name)
{
    AttrCache a = {.name = name, .key = sym_obj(name), .hint = -1};
    Value r = attr_find(I, v, &a);

    if (is_err(r) && exc_pending(I) && exc_matches(I, EXC_AttributeError))
        exc_clear(I);
    return r;
}

Value attr_method(Interp *I, Value v, AttrCache *a, bool *with_self)
{
    InstanceObj *o = (InstanceObj *)v.o;
    DictEntry *ce;
    ClassObj *c;

    *with_self = false;
    if (v.tag == V_INSTANCE) {
        ce = class_entry(I, o->cls, a);
        if (ce && binds(ce->val) && !own_entry(o->attrs, a) && !(o->cls->flags & CLASS_GETATTRIBUTE)) {
            *with_self = true;
            return value_ref(ce->val);
        }
        return attr_load(I, v, a);
    }
    if (v.tag == V_LIST || v.tag == V_DICT || v.tag == V_STR || v.tag == V_TUPLE || v.tag == V_SET ||
        (v.tag == V_NATIVEOBJ && !((NativeInst *)v.o)->type->getattr)) {
        c = class_of(I, v);
        ce = class_entry(I, c, a);
        if (ce && binds(ce->val)) {
            *with_self = true;
            return value_ref(ce->val);
        }
    }
    return attr_load(I, v, a);
}

/* ------------------------------------------------------------- storing */

static bool property_set(Interp *I, PropertyObj *p, Value self, Value x, Sym name)
{
    Value r;

    if (is_err(p->set)) {
        raise(I, EXC_AttributeError, "property '%s' of '%s' object has no setter", name->text, value_type_name(self));
        value_unref(x);
        return false;
    }
    r = value_call(I, p->set, (Value[]){self, x}, 2);
    value_unref(x);
    value_unref(r);
    return !is_err(r);
}

static bool plain_data(Value v) { return v.tag < V_FUNC || v.tag == V_INSTANCE; }

/* Class attributes that stay plain data keep the caches: they remember places, not values. */
/* C.__name__ = "A" is the name of that class alone, not an attribute that others would inherit. false: it is something else. */
static bool class_rename(Interp *I, ClassObj *c, Sym name, Value x)
{
    if (x.tag != V_STR)
        return false;
    if (name == I->s_name)
        c->name = str_to_sym(as_str(x));
    else if (!strcmp(name->text, "__qualname__"))
        c->qualname = str_to_sym(as_str(x))->text;
    else
        return false;
    return true;
}

static bool class_store(Interp *I, ClassObj *c, Sym name, Value x)
{
    if (class_rename(I, c, name, x)) {
        value_unref(x);
        return true;
    }
    DictEntry *e = dict_find_sym(c->ns, name);
    bool quiet = e && plain_data(e->val) && plain_data(x);

    dict_set_sym(c->ns, name, x);
    if (!quiet)
        class_touch(I, c, name, x);
    value_unref(x);
    return true;
}

static bool module_store(Interp *I, ModuleObj *m, Sym name, Value x)
{
    int i = m->scope ? scope_find(m->scope, name) : -1;

    if (i >= 0 && i < m->nslots) {
        Value old = m->slot[i];
        m->slot[i] = x;
        value_unref(old);
        return true;
    }
    raise(I, EXC_AttributeError, "module '%s' has no attribute '%s' to set", m->name->text, name->text);
    value_unref(x);
    return false;
}

bool attr_store_plain(Interp *I, Value v, AttrCache *a, Value x)
{
    InstanceObj *o = (InstanceObj *)v.o;
    DictEntry *ce = class_entry(I, o->cls, a), *e;

    if (ce && ce->val.tag == V_PROPERTY && !is_cached(ce))
        return property_set(I, (PropertyObj *)ce->val.o, v, x, a->name);
    if ((e = own_entry(o->attrs, a))) {
        Value old = e->val;
        e->val = x;
        value_unref(old);
        return true;
    }
    if (__builtin_expect(o->cls->flags & CLASS_SLOTS, 0) && !class_allows(I, o->cls, a->name)) {
        raise_no_attr(I, v, a->name);
        value_unref(x);
        return false;
    }
    if (!o->attrs)
        o->attrs = as_dict(dict_new());
    dict_set_sym(o->attrs, a->name, x);
    value_unref(x);
    return true;
}

static bool fixed_attrs(Interp *I, Value v, Sym name, Value x)
{
    if (v.tag == V_NATIVEOBJ || v.tag == V_NATIVE)
        raise(I, EXC_AttributeError, "cannot set attribute '%s' of '%s' object", name->text, value_type_name(v));
    else
        raise(I, EXC_AttributeError, "'%s' object has no attribute '%s'", value_type_name(v), name->text);
    value_unref(x);
    return false;
}

static bool func_store(Interp *I, FuncObj *f, Sym name, Value x)
{
    Value *place = name == I->s_name && x.tag == V_STR ? &f->name : name == I->s_doc ? &f->doc : NULL;

    if (place) {
        Value old = *place;
        *place = x;
        value_unref(old);
        return true;
    }
    dict_set_sym(func_attrs(f), name, x);
    value_unref(x);
    return true;
}

/* Lets the class's own hook change this attribute of it? A hook that does not raises. */
static bool class_consents(Interp *I, Value cls, const char *hook, const Value *args, int nargs)
{
    value_unref(class_hook(I, cls, hook, args, nargs));
    return !exc_pending(I);
}

bool attr_store(Interp *I, Value v, AttrCache *a, Value x)
{
    NativeInst *n = (NativeInst *)v.o;
    bool ok;

    switch (v.tag) {
    case V_INSTANCE: {
        Value f = ((InstanceObj *)v.o)->cls->dunder[D_setattr], r;
        DictEntry *e = is_err(f) ? cached_entry(I, (InstanceObj *)v.o, a) : NULL;
        if (e) {
            r = e->val;
            e->val = x;
            value_unref(r);
            return true;
        }
        if (is_err(f))
            return attr_store_plain(I, v, a, x);
        r = value_call(I, f, (Value[]){v, vobj(a->key), x}, 3);
        value_unref(x);
        value_unref(r);
        return !is_err(r);
    }
    case V_CLASS:
        if (((ClassObj *)v.o)->flags & CLASS_NATIVE)
            break;
        if (!interp_may_touch(I, "changing an attribute of a class") ||
            !class_consents(I, v, "__class_setattr__", (Value[]){vobj(a->key), x}, 2)) {
            value_unref(x);
            return false;
        }
        if (a->name == I->s_name && x.tag == V_STR)
            ((ClassObj *)v.o)->name = str_to_sym(as_str(x));
        return class_store(I, (ClassObj *)v.o, a->name, x);
    case V_FUNC: return func_store(I, (FuncObj *)v.o, a->name, x);
    case V_MODULE: return module_store(I, (ModuleObj *)v.o, a->name, x);
    case V_TENSOR:
        ok = tensor_op_setattr(I, v, a->name, x);
        value_unref(x);
        return ok;
    case V_NATIVEOBJ:
        if (!n->type->setattr)
            break;
        ok = n->type->setattr(I, n, a->name, x);
        if (!ok && !exc_pending(I))
            break;
        value_unref(x);
        return ok;
    default: break;
    }
    return fixed_attrs(I, v, a->name, x);
}

bool value_setattr(Interp *I, Value v, Sym name, Value x)
{
    AttrCache a = {.name = name, .key = sym_obj(name), .hint = -1};

    return attr_store(I, v, &a, value_ref(x));
}

/* ------------------------------------------------------------- deleting */

static bool no_such(Interp *I, Value v, Sym name)
{
    raise_no_attr(I, v, name);
    return false;
}

bool attr_delete_plain(Interp *I, Value v, Sym name)
{
    InstanceObj *o = (InstanceObj *)v.o;
    Value p = class_find(o->cls, name, NULL), r;

    if (p.tag == V_PROPERTY && !(p.o->flags & PROPERTY_CACHED)) {
        PropertyObj *prop = (PropertyObj *)p.o;
        if (is_err(prop->del)) {
            raise(I, EXC_AttributeError, "property '%s' of '%s' object has no deleter", name->text, value_type_name(v));
            return false;
        }
        r = value_call(I, prop->del, &v, 1);
        value_unref(r);
        return !is_err(r);
    }
    return (o->attrs && dict_del_sym(o->attrs, name)) || no_such(I, v, name);
}

static bool instance_del(Interp *I, Value v, Sym name)
{
    Value own = ((InstanceObj *)v.o)->cls->dunder[D_delattr], r;

    if (is_err(own))
        return attr_delete_plain(I, v, name);
    r = value_call(I, own, (Value[]){v, vobj(sym_obj(name))}, 2);
    value_unref(r);
    return !is_err(r);
}

bool value_delattr(Interp *I, Value v, Sym name)
{
    if (v.tag == V_INSTANCE)
        return instance_del(I, v, name);
    if (v.tag == V_CLASS && !(((ClassObj *)v.o)->flags & CLASS_NATIVE)) {
        if (!interp_may_touch(I, "deleting an attribute of a class") ||
            !class_consents(I, v, "__class_delattr__", (Value[]){vobj(sym_obj(name))}, 1))
            return false;
        if (!dict_del_sym(((ClassObj *)v.o)->ns, name))
            return no_such(I, v, name);
        class_touch(I, (ClassObj *)v.o, name, VERR);
        return true;
    }
    if (v.tag == V_FUNC && ((FuncObj *)v.o)->attrs && dict_del_sym(((FuncObj *)v.o)->attrs, name))
        return true;
    return no_such(I, v, name);
}
