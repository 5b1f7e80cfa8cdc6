/*
 * @dataclass: reads a class's annotations into fields and gives it methods
 * (data_methods.c).  Fields are inherited; a later one of the same name takes
 * the earlier one's place.
 */
#include "frontend/lib/dataclasses.h"

#include <string.h>

/* ------------------------------------------------------------- fields */

static void field_free(void *p)
{
    Field *f = p;

    value_unref(f->type);
    value_unref(f->element);
    value_unref(f->dflt);
    value_unref(f->factory);
    value_unref(f->metadata);
}

static void field_visit(void *p, void (*fn)(Value *, void *), void *st)
{
    Field *f = p;

    fn(&f->type, st);
    fn(&f->element, st);
    fn(&f->dflt, st);
    fn(&f->factory, st);
    fn(&f->metadata, st);
}

static Value missing_value(Interp *I, Value *a);

static Value field_getattr(Interp *I, void *p, Sym name)
{
    Field *f = p;

    if (!strcmp(name->text, "name"))
        return f->name ? value_ref(str_sym(f->name)) : VNONE;
    if (!strcmp(name->text, "type"))
        return value_ref(f->type);
    if (!strcmp(name->text, "default"))
        return is_err(f->dflt) ? missing_value(I, NULL) : value_ref(f->dflt);
    if (!strcmp(name->text, "default_factory"))
        return is_err(f->factory) ? missing_value(I, NULL) : value_ref(f->factory);
    if (!strcmp(name->text, "metadata"))
        return is_err(f->metadata) ? dict_new() : value_ref(f->metadata);
    if (!strcmp(name->text, "init"))
        return vbool(f->init);
    if (!strcmp(name->text, "repr"))
        return vbool(f->repr);
    if (!strcmp(name->text, "compare"))
        return vbool(f->compare);
    return !strcmp(name->text, "kw_only") ? vbool(f->kw_only) : VERR;
}

static void field_repr(Interp *I, void *p, StrBuf *b)
{
    Field *f = p;

    sb_printf(b, "Field(name='%s')", f->name ? f->name->text : "");
}

static const NativeType field_type = {"Field", field_free, field_visit, .getattr = field_getattr, .repr = field_repr};

static Field *field_new(void)
{
    Field *f = nativeobj_new(&field_type, sizeof *f);

    f->type = VNONE;
    f->element = VERR;
    f->init = f->repr = f->compare = true;
    f->hash = -1;
    return f;
}

Field *as_field(Value v)
{
    return v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type == &field_type ? (Field *)v.o : NULL;
}

static void missing_repr(Interp *I, void *p, StrBuf *b) { sb_puts(b, "MISSING"); }
static const NativeType missing_type = {"_MISSING_TYPE", .repr = missing_repr};
static void kw_only_repr(Interp *I, void *p, StrBuf *b) { sb_puts(b, "KW_ONLY"); }
static const NativeType kw_only_type = {"_KW_ONLY_TYPE", .repr = kw_only_repr};

static Value missing_value(Interp *I, Value *a)
{
    static Value missing;

    if (missing.tag != V_NATIVEOBJ)
        missing = vobj(nativeobj_new(&missing_type, sizeof(NativeInst)));
    return value_ref(missing);
}

/* InitVar stands in annotations, which are not evaluated; as a value it is a class to name. */
static Value init_var_value(Interp *I, Value *a) { return class_new(I, sym("InitVar"), NULL, NULL); }

static Value kw_only_value(Interp *I, Value *a)
{
    return vobj(nativeobj_new(&kw_only_type, sizeof(NativeInst)));
}

/* a = default, default_factory, init, repr, hash, compare, metadata, kw_only */
static Value f_field(Interp *I, Value *a)
{
    Field *f;
    int flag[4] = {value_truth(I, a[2]), value_truth(I, a[3]), value_truth(I, a[5]), is_given(a[7]) ? value_truth(I, a[7]) : 0};

    if (exc_pending(I))
        return VERR;
    if (!is_err(a[0]) && !is_err(a[1]))
        return raise(I, EXC_ValueError, "cannot specify both default and default_factory");
    f = field_new();
    f->dflt = value_ref(a[0]);
    f->factory = value_ref(a[1]);
    f->metadata = is_given(a[6]) ? value_ref(a[6]) : VERR;
    f->init = flag[0];
    f->repr = flag[1];
    f->compare = flag[2];
    f->kw_only = flag[3];
    f->hash = is_given(a[4]) ? (int8_t)(value_truth(I, a[4]) > 0) : -1;
    return vobj(f);
}

/* The fields dict of a dataclass or of an instance of one, borrowed; NULL: it is neither. */
static DictObj *dataclass_fields(Value v)
{
    ClassObj *c = v.tag == V_CLASS ? (ClassObj *)v.o : v.tag == V_INSTANCE ? ((InstanceObj *)v.o)->cls : NULL;

    for (; c; c = c->base) {
        Value d = c->ns ? dict_get_sym(c->ns, sym("__dataclass_fields__")) : VERR;
        if (d.tag == V_DICT)
            return as_dict(d);
    }
    return NULL;
}

/* ------------------------------------------------------------- reading a class */

static bool mentions(Value annotation, const char *word)
{
    return annotation.tag == V_STR && strstr(as_str(annotation)->s, word) != NULL;
}

static bool is_mutable(Value v)
{
    return v.tag == V_LIST || v.tag == V_DICT || (v.tag == V_SET && !(v.o->flags & 1));
}

/* The field that an annotated name of class c declares. New reference; NULL pending. */
static Field *read_field(Interp *I, ClassObj *c, Sym name, Value annotation, bool kw_only)
{
    Value given = dict_get_sym(c->ns, name);
    Field *f = as_field(given);

    if (f) {
        f->head.obj.refs++;
        if (!is_err(f->dflt) ? !value_setattr(I, vobj(c), name, f->dflt) : !value_delattr(I, vobj(c), name))
            return NULL;
    } else {
        f = field_new();
        f->dflt = value_ref(given);
        if (is_mutable(given)) {
            raise(I, EXC_ValueError, "mutable default <class '%s'> for field %s is not allowed: use default_factory",
                  value_type_name(given), name->text);
            value_unref(vobj(f));
            return NULL;
        }
    }
    f->name = name;
    value_unref(f->type);
    f->type = value_ref(annotation);
    f->kw_only = f->kw_only || kw_only;
    f->initvar = mentions(annotation, "InitVar");
    return f;
}

static bool read_own_fields(Interp *I, ClassObj *c, DictObj *fields, bool kw_only)
{
    Value notes = dict_get_sym(c->ns, sym("__annotations__")), elements = dict_get_sym(c->ns, sym("__element_types__")), element, k, v;
    int64_t pos = 0;

    while (notes.tag == V_DICT && dict_next(as_dict(notes), &pos, &k, &v)) {
        Field *f;
        if (mentions(v, "ClassVar"))
            continue;
        if (mentions(v, "KW_ONLY")) {
            kw_only = true;
            continue;
        }
        f = read_field(I, c, sym_n(as_str(k)->s, as_str(k)->len), v, kw_only);
        if (!f)
            return false;
        element = elements.tag == V_DICT ? dict_get_sym(as_dict(elements), f->name) : VERR;
        f->element = is_err(element) ? VERR : value_ref(element);
        dict_set_sym(fields, f->name, vobj(f));
        value_unref(vobj(f));
    }
    return true;
}

/* Positional fields without a default may not follow one with a default. */
static bool check_order(Interp *I, DictObj *fields)
{
    const Field *with = NULL;
    Value k, v;
    int64_t pos = 0;

    while (dict_next(fields, &pos, &k, &v)) {
        const Field *f = as_field(v);
        bool has = !is_err(f->dflt) || !is_err(f->factory);
        if (!f->init || f->kw_only)
            continue;
        if (has)
            with = f;
        else if (with) {
            raise(I, EXC_TypeError, "non-default argument '%s' follows default argument", f->name->text);
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------- the decorator */

typedef struct DataOptions { NativeInst head; bool init, repr, eq, order, frozen, kw_only, unsafe_hash, match_args, slots; } DataOptions;

static bool defines(const ClassObj *c, const char *name)
{
    return !is_err(dict_get_sym(c->ns, sym(name)));
}

static bool put(Interp *I, ClassObj *c, const char *name, Value v)
{
    bool ok = value_setattr(I, vobj(c), sym(name), v);

    value_unref(v);
    return ok;
}

static bool put_method(Interp *I, ClassObj *c, const char *name, DataMethod kind, Value fields)
{
    return defines(c, name) || put(I, c, name, data_method_new(kind, c, fields));
}

static bool put_order(Interp *I, ClassObj *c, Value fields)
{
    static const struct { const char *name; DataMethod kind; } row[] = {
        {"__lt__", DM_LT}, {"__le__", DM_LE}, {"__gt__", DM_GT}, {"__ge__", DM_GE}};

    for (int i = 0; i < 4; i++) {
        if (defines(c, row[i].name)) {
            raise(I, EXC_TypeError, "Cannot overwrite attribute %s in class %s. Consider using functools.total_ordering",
                  row[i].name, c->name->text);
            return false;
        }
        if (!put(I, c, row[i].name, data_method_new(row[i].kind, c, fields)))
            return false;
    }
    return true;
}

static bool put_hash(Interp *I, ClassObj *c, const DataOptions *o, Value fields)
{
    if (o->unsafe_hash || (o->eq && o->frozen))
        return put_method(I, c, "__hash__", DM_HASH, fields);
    return !o->eq || defines(c, "__hash__") || put(I, c, "__hash__", VNONE);
}

static Value match_names(DictObj *fields)
{
    Value l = list_new(fields->n), t, k, v;
    int64_t pos = 0;

    while (dict_next(fields, &pos, &k, &v))
        if (as_field(v)->init && !as_field(v)->kw_only)
            list_push(as_list(l), value_ref(k));
    t = tuple_new(as_list(l)->n);
    for (int64_t i = 0; i < as_list(l)->n; i++)
        as_tuple(t)->at[i] = value_ref(as_list(l)->at[i]);
    value_unref(l);
    return t;
}

static bool fill_class(Interp *I, ClassObj *c, const DataOptions *o, Value fields)
{
    DictObj *base = c->base ? dataclass_fields(vobj(c->base)) : NULL;
    DictObj *d = as_dict(fields);
    Value copy, k, v;
    int64_t pos = 0;
    bool ok;

    while (base && dict_next(base, &pos, &k, &v))
        if (!dict_set(I, d, k, v))
            return false;
    if (!read_own_fields(I, c, d, o->kw_only) || (o->init && !check_order(I, d)))
        return false;
    copy = value_ref(fields);
    ok = put(I, c, "__dataclass_fields__", copy);
    ok = ok && (!o->init || put_method(I, c, "__init__", DM_INIT, fields));
    ok = ok && (!o->repr || put_method(I, c, "__repr__", DM_REPR, fields));
    ok = ok && (!o->eq || put_method(I, c, "__eq__", DM_EQ, fields));
    ok = ok && (!o->order || put_order(I, c, fields));
    ok = ok && put_hash(I, c, o, fields);
    ok = ok && (!o->frozen || (put_method(I, c, "__setattr__", DM_SETATTR, fields) && put_method(I, c, "__delattr__", DM_DELATTR, fields)));
    return ok && (!o->match_args || defines(c, "__match_args__") || put(I, c, "__match_args__", match_names(d)));
}

/* Instances have the fields as attributes and no others: those of bases are theirs. */
static void set_slots(Interp *I, ClassObj *c, DictObj *fields)
{
    DictObj *known = c->base ? dataclass_fields(vobj(c->base)) : NULL;
    Value names = list_new(fields->n), t, k, v;
    int64_t pos = 0;

    while (dict_next(fields, &pos, &k, &v))
        if (!as_field(v)->initvar && !(known && !is_err(dict_get_sym(known, as_field(v)->name))))
            list_push(as_list(names), str_sym(as_field(v)->name));
    t = tuple_from(I, names);
    dict_set_sym(c->ns, sym("__slots__"), t);
    value_unref(t);
    value_unref(names);
    class_complete(I, c);
}

static Value decorate(Interp *I, Value cls, const DataOptions *o)
{
    Value fields;
    bool ok;

    if (cls.tag != V_CLASS)
        return raise(I, EXC_TypeError, "dataclass() decorates classes, not '%s'", value_type_name(cls));
    if (o->order && !o->eq)
        return raise(I, EXC_ValueError, "eq must be true if order is true");
    fields = dict_new();
    ok = fill_class(I, (ClassObj *)cls.o, o, fields);
    if (ok && o->slots)
        set_slots(I, (ClassObj *)cls.o, as_dict(fields));
    value_unref(fields);
    if (ok)
        class_note_abstract(I, (ClassObj *)cls.o);
    return ok ? value_ref(cls) : VERR;
}

static Value options_call(Interp *I, void *p, Value *args, int nargs, Value *kwvals, Sym *kwnames, int nkw)
{
    if (nargs != 1 || nkw)
        return raise(I, EXC_TypeError, "the dataclass decorator takes one class");
    return decorate(I, args[0], p);
}

static const NativeType options_type = {"dataclass", .call = options_call};

/* a = cls, init, repr, eq, order, unsafe_hash, frozen, match_args, kw_only, slots */
static Value f_dataclass(Interp *I, Value *a)
{
    DataOptions *o = nativeobj_new(&options_type, sizeof *o);
    Value r;

    o->init = value_truth(I, a[1]) == 1;
    o->repr = value_truth(I, a[2]) == 1;
    o->eq = value_truth(I, a[3]) == 1;
    o->order = value_truth(I, a[4]) == 1;
    o->unsafe_hash = value_truth(I, a[5]) == 1;
    o->frozen = value_truth(I, a[6]) == 1;
    o->match_args = value_truth(I, a[7]) == 1;
    o->kw_only = value_truth(I, a[8]) == 1;
    o->slots = value_truth(I, a[9]) == 1;
    if (!is_given(a[0]))
        return vobj(o);
    r = decorate(I, a[0], o);
    value_unref(vobj(o));
    return r;
}

/* ------------------------------------------------------------- looking at dataclasses */

static Value f_is_dataclass(Interp *I, Value *a)
{
    return vbool(dataclass_fields(a[0]) != NULL);
}

static Value f_fields(Interp *I, Value *a)
{
    DictObj *d = dataclass_fields(a[0]);
    Value l, t, k, v;
    int64_t pos = 0;

    if (!d)
        return raise(I, EXC_TypeError, "must be called with a dataclass type or instance");
    l = list_new(d->n);
    while (dict_next(d, &pos, &k, &v))
        if (!as_field(v)->initvar)
            list_push(as_list(l), value_ref(v));
    t = tuple_from(I, l);
    value_unref(l);
    return t;
}

/* What asdict and astuple make of dataclasses: dicts or tuples, or what the factory makes of the pairs or the elements. */
typedef struct Plain { bool tuples; Value factory; } Plain;

static Value plain(Interp *I, Value v, const Plain *how);

/* The factory's object for a list of pairs or elements. Steals list. */
static Value made_by(Interp *I, const Plain *how, Value list)
{
    Value r = is_err(how->factory) ? tuple_from(I, list) : value_call(I, how->factory, &list, 1);

    value_unref(list);
    return r;
}

static Value plain_fields(Interp *I, Value obj, DictObj *fields, const Plain *how)
{
    bool listed = how->tuples || !is_err(how->factory);
    Value out = listed ? list_new(fields->n) : dict_new(), k, v;
    int64_t pos = 0;

    while (!is_err(out) && dict_next(fields, &pos, &k, &v)) {
        Value x, y;
        if (as_field(v)->initvar)
            continue;
        x = field_get(I, obj, as_field(v));
        y = is_err(x) ? VERR : plain(I, x, how);
        value_unref(x);
        if (is_err(y)) {
            value_unref(out);
            return VERR;
        }
        if (listed) {
            list_push(as_list(out), how->tuples ? y : tuple_of(2, str_sym(as_field(v)->name), y));
        } else {
            dict_set_sym(as_dict(out), as_field(v)->name, y);
            value_unref(y);
        }
    }
    return listed ? made_by(I, how, out) : out;
}

static Value plain_list(Interp *I, Value v, const Plain *how)
{
    bool tuple = v.tag == V_TUPLE;
    int64_t n = tuple ? as_tuple(v)->n : as_list(v)->n;
    Value out = list_new(n), t;

    for (int64_t i = 0; i < n; i++) {
        Value x = plain(I, tuple ? as_tuple(v)->at[i] : as_list(v)->at[i], how);
        if (is_err(x)) {
            value_unref(out);
            return VERR;
        }
        list_push(as_list(out), x);
    }
    if (!tuple)
        return out;
    t = tuple_from(I, out);
    value_unref(out);
    return t;
}

static Value plain_dict(Interp *I, DictObj *d, const Plain *how)
{
    Value out = dict_new(), k, v;
    int64_t pos = 0;

    while (dict_next(d, &pos, &k, &v)) {
        Value x = plain(I, k, how), y = is_err(x) ? VERR : plain(I, v, how);
        bool ok = !is_err(y) && dict_set(I, as_dict(out), x, y);
        value_unref(x);
        value_unref(y);
        if (!ok) {
            value_unref(out);
            return VERR;
        }
    }
    return out;
}

/* A dataclass instance as a dict or tuple, containers element by element, anything else copied deeply. */
static Value plain(Interp *I, Value v, const Plain *how)
{
    DictObj *fields = v.tag == V_INSTANCE ? dataclass_fields(v) : NULL;
    Value r;

    if (!interp_enter(I))
        return VERR;
    if (fields)
        r = plain_fields(I, v, fields, how);
    else if (v.tag == V_LIST || v.tag == V_TUPLE)
        r = plain_list(I, v, how);
    else if (v.tag == V_DICT)
        r = plain_dict(I, as_dict(v), how);
    else
        r = value_deepcopy(I, v);
    interp_leave(I);
    return r;
}

static Value f_asdict(Interp *I, Value *a)
{
    if (a[0].tag != V_INSTANCE || !dataclass_fields(a[0]))
        return raise(I, EXC_TypeError, "asdict() should be called on dataclass instances");
    return plain(I, a[0], &(Plain){false, a[1]});
}

static Value f_astuple(Interp *I, Value *a)
{
    if (a[0].tag != V_INSTANCE || !dataclass_fields(a[0]))
        return raise(I, EXC_TypeError, "astuple() should be called on dataclass instances");
    return plain(I, a[0], &(Plain){true, a[1]});
}

/* a = obj, **changes */
static Value f_replace(Interp *I, Value *a)
{
    DictObj *fields = a[0].tag == V_INSTANCE ? dataclass_fields(a[0]) : NULL;
    Value kw, none, k, v, r;
    int64_t pos = 0;
    bool ok = true;

    if (!fields)
        return raise(I, EXC_TypeError, "replace() should be called on dataclass instances");
    kw = dict_copy(I, as_dict(a[1]));
    while (ok && dict_next(fields, &pos, &k, &v)) {
        Field *f = as_field(v);
        bool given = !is_err(dict_get_sym(as_dict(kw), f->name));
        if (!f->init && given) {
            raise(I, EXC_ValueError, "field %s is declared with init=False, it cannot be specified with replace()", f->name->text);
            ok = false;
        } else if (f->init && !given && !f->initvar) {
            Value x = field_get(I, a[0], f);
            ok = !is_err(x);
            if (ok)
                dict_set_sym(as_dict(kw), f->name, x);
            value_unref(x);
        }
    }
    none = tuple_new(0);
    r = ok ? call_with(I, vobj(((InstanceObj *)a[0].o)->cls), none, kw) : VERR;
    value_unref(none);
    value_unref(kw);
    return r;
}

/* make_dataclass of the library's file data_classes. */
static Value c_make(Interp *I, Value *a)
{
    Value space = prelude_get(I, "data_classes");
    return is_err(space) ? VERR : value_getattr(I, space, sym("make_dataclass"));
}

static Value c_frozen(Interp *I, Value *a) { return value_ref(vobj(exc_class(I, EXC_FrozenInstanceError))); }

#define DATACLASS "(obj=None, /, *, init: bool = True, repr: bool = True, eq: bool = True, order: bool = False, " \
                  "unsafe_hash: bool = False, frozen: bool = False, match_args: bool = True, kw_only: bool = False, slots: bool = False)"
#define FIELD "(*, default=..., default_factory: Callable = ..., init: bool = True, repr: bool = True, hash: bool | None = None, " \
              "compare: bool = True, metadata=None, kw_only: bool | None = None)"
const NativeDef natives_dataclasses[] = {
    {"dataclasses", "dataclass", f_dataclass, DATACLASS, "Decorator: methods made from the annotated fields of a class."},
    {"", "dataclass", f_dataclass, DATACLASS, "Decorator: methods made from the annotated fields of a class."},
    {"dataclasses", "field", f_field, FIELD, "What is special about a field."},
    {"", "field", f_field, FIELD, "What is special about a field."},
    {"dataclasses", "fields", f_fields, "(class_or_instance, /) -> tuple", "The fields of a dataclass."},
    {"dataclasses", "asdict", f_asdict, "(obj, /, *, dict_factory: Callable = ...) -> dict", "A dataclass instance as a dict, deeply."},
    {"", "asdict", f_asdict, "(obj, /, *, dict_factory: Callable = ...) -> dict", "A dataclass instance as a dict, deeply."},
    {"dataclasses", "astuple", f_astuple, "(obj, /, *, tuple_factory: Callable = ...) -> tuple", "A dataclass instance as a tuple, deeply."},
    {"dataclasses", "replace", f_replace, "(obj, /, **changes)", "A new instance with some fields changed."},
    {"dataclasses", "make_dataclass", c_make, "Callable", "A dataclass from a name and a list of fields."},
    {"dataclasses", "is_dataclass", f_is_dataclass, "(obj, /) -> bool", "Is it a dataclass or an instance of one?"},
    {"dataclasses", "FrozenInstanceError", c_frozen, "type[FrozenInstanceError]", "Raised by assignments to frozen instances."},
    {"dataclasses", "MISSING", missing_value, "Any", "Stands for a default that is not given."},
    {"dataclasses", "InitVar", init_var_value, "Any", "In an annotation: the field is an argument of __init__ and __post_init__ only."},
    {"dataclasses", "KW_ONLY", kw_only_value, "Any", "As an annotation: the fields after it are keyword-only."},
    {0},
};
