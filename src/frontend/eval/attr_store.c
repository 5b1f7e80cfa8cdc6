/*
 * Attributes that programs change: v.name = x, del v.name.
 *
 * Each kind has its own rule: an instance its dict behind properties and __slots__, a class its namespace, with the caches of
 * all places told, a module its variables.  What is stored is consumed, whether the store succeeds or not.
 */
#include "frontend/eval/attr.h"

#include <string.h>

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

/* Class attributes that stay plain data keep the caches: they remember places, not values. */
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
    DictEntry *ce = attr_class_entry(I, o->cls, a), *e;

    if (ce && ce->val.tag == V_PROPERTY && !attr_is_cached(ce))
        return property_set(I, (PropertyObj *)ce->val.o, v, x, a->name);
    if ((e = attr_own_entry(o->attrs, a))) {
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
    dict_set_sym(attr_of_func(f), name, x);
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
        DictEntry *e = is_err(f) ? attr_cached_entry(I, (InstanceObj *)v.o, a) : NULL;
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
