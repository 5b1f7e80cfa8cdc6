/*
 * Attributes that programs read: v.name (attr_store.c changes them).
 *
 * An instance has its own dict first, except that a property of its class
 * comes before it.  Each place in the program that names an attribute keeps an
 * AttrCache: where in instance dicts it was last found (objects of one class
 * fill theirs in the same order), and what the class chain holds under the
 * name while no class has changed.
 */
#include "frontend/eval/attr.h"

#include "frontend/prelude.h"

#include <string.h>

/* ------------------------------------------------------------- finding through the cache */

static Value attr_find(Interp *I, Value v, AttrCache *a);

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
    ce = attr_class_entry(I, c, a);
    if (ce && ce->val.tag == V_PROPERTY && !attr_is_cached(ce))
        return property_get(I, (PropertyObj *)ce->val.o, v);
    if ((e = attr_own_entry(o->attrs, a)))
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
    DictEntry *e = attr_class_entry(I, c, a);
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

DictObj *attr_of_func(FuncObj *f)
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
        return value_ref(vobj(attr_of_func(f)));
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
    if (!strcmp(name->text, "__origin__") && t->op != '|')
        return value_ref(t->origin);
    if (!strcmp(name->text, "__args__"))
        return t->op == '|' ? union_types(I, t) : value_ref(t->args);
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
    if ((e = attr_class_entry(I, c, a)))
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

Value attr_load(Interp *I, Value v, AttrCache *a)
{
    DictEntry *e = v.tag == V_INSTANCE ? attr_cached_entry(I, (InstanceObj *)v.o, a) : NULL;
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
        ce = attr_class_entry(I, o->cls, a);
        if (ce && binds(ce->val) && !attr_own_entry(o->attrs, a) && !(o->cls->flags & CLASS_GETATTRIBUTE)) {
            *with_self = true;
            return value_ref(ce->val);
        }
        return attr_load(I, v, a);
    }
    if (v.tag == V_LIST || v.tag == V_DICT || v.tag == V_STR || v.tag == V_TUPLE || v.tag == V_SET ||
        (v.tag == V_NATIVEOBJ && !((NativeInst *)v.o)->type->getattr)) {
        c = class_of(I, v);
        ce = attr_class_entry(I, c, a);
        if (ce && binds(ce->val)) {
            *with_self = true;
            return value_ref(ce->val);
        }
    }
    return attr_load(I, v, a);
}
