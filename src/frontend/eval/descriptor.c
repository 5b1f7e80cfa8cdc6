/*
 * What stands in a class and answers for its instances: property, cached_property, staticmethod, classmethod; and super().
 *
 * attr.c asks them when it finds one under a name.
 */
#include "frontend/eval/eval.h"

static Value property_new(Value get, Value set, Value del)
{
    PropertyObj *p = obj_new(V_PROPERTY, sizeof *p);

    p->get = value_ref(get);
    p->set = value_ref(set);
    p->del = value_ref(del);
    return vobj(p);
}

static Value make_cached(Interp *I, Value *a)
{
    Value p = property_new(a[1], VERR, VERR);

    p.o->flags |= PROPERTY_CACHED;
    return p;
}

static Value none_as_unset(Value v) { return v.tag == V_NONE ? VERR : v; }

static Value make_property(Interp *I, Value *a)
{
    return property_new(none_as_unset(a[1]), none_as_unset(a[2]), none_as_unset(a[3]));
}

/* p.setter(f): a new property with one part replaced; self is the property. */
static Value property_getter(Interp *I, Value *a)
{
    PropertyObj *p = (PropertyObj *)a[0].o;
    return property_new(a[1], p->set, p->del);
}

static Value property_setter(Interp *I, Value *a)
{
    PropertyObj *p = (PropertyObj *)a[0].o;
    return property_new(p->get, a[1], p->del);
}

static Value property_deleter(Interp *I, Value *a)
{
    PropertyObj *p = (PropertyObj *)a[0].o;
    return property_new(p->get, p->set, a[1]);
}

const NativeDef property_parts[] = {
    {"property", "getter", property_getter, "(self, f: Any, /) -> property", "the property with another getter"},
    {"property", "setter", property_setter, "(self, f: Any, /) -> property", "the property with a setter"},
    {"property", "deleter", property_deleter, "(self, f: Any, /) -> property", "the property with a deleter"},
    {0},
};

static Value wrap(Tag kind, Value f)
{
    WrapObj *w = obj_new(kind, sizeof *w);

    w->func = value_ref(f);
    return vobj(w);
}

static Value make_static(Interp *I, Value *a) { return wrap(V_STATICMETHOD, a[1]); }
static Value make_classmethod(Interp *I, Value *a) { return wrap(V_CLASSMETHOD, a[1]); }

/* super(): the class after the one whose body defined the running function, and its first argument. */
static Value make_super(Interp *I, Value *a)
{
    Frame *f = I->frame;
    SuperObj *s;
    ClassObj *owner;
    Value self;

    if (!is_err(a[1]) && a[1].tag == V_CLASS) {
        owner = (ClassObj *)a[1].o;
        self = a[2];
    } else {
        while (f && f->func && !f->func->owner && f->up)    /* a comprehension or lambda inside a method */
            f = f->up;
        if (!f || !f->func || !f->func->owner || !f->code->nparams)
            return raise(I, EXC_RuntimeError, "super(): no arguments: it works inside methods only");
        owner = f->func->owner;
        self = f->slot[0].tag == V_CELL ? ((CellObj *)f->slot[0].o)->v : f->slot[0];
    }
    if (is_err(self))
        return raise(I, EXC_RuntimeError, "super(): the first argument was deleted");
    s = obj_new(V_SUPER, sizeof *s);
    s->after = owner->base;
    if (s->after)
        s->after->obj.refs++;
    s->self = value_ref(self);
    return vobj(s);
}

const NativeDef natives_attr[] = {
    {"", "property", NULL, "type[property]", "a computed attribute"},
    {"property", "__new__", make_property, "(cls, fget: Any = None, fset: Any = None, fdel: Any = None, doc: Any = None) -> property",
     "a computed attribute"},
    {"_functools", "cached_property", NULL, "type[cached_property]", "a property that computes its value once for each instance"},
    {"cached_property", "__new__", make_cached, "(cls, f: Any, /) -> cached_property", "a property computed once for each instance"},
    {"", "staticmethod", NULL, "type[staticmethod]", "a function in a class that takes no self"},
    {"staticmethod", "__new__", make_static, "(cls, f: Any, /) -> staticmethod", "a function in a class that takes no self"},
    {"", "classmethod", NULL, "type[classmethod]", "a method that takes the class"},
    {"classmethod", "__new__", make_classmethod, "(cls, f: Any, /) -> classmethod", "a method that takes the class"},
    {"", "super", NULL, "type[super]", "the base class's view of an object"},
    {"super", "__new__", make_super, "(cls, after: Any = None, obj: Any = None, /) -> super", "the base class's view of an object"},
    {0},
};
