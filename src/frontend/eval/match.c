/*
 * match: patterns tested from left to right, captures stored as they match.
 */
#include "frontend/eval/lower.h"

#include <string.h>

Exit ex_match(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f), g;

    if (is_err(v))
        return X_RAISE;
    for (int i = 0; i < n->seq->n; i++) {
        const Step *c = n->seq->at[i];
        int r;
        f->at = c;
        r = c->a->match(c->a, f, v);
        if (r > 0 && c->b) {
            g = c->b->eval(c->b, f);
            f->at = c->b;
            r = is_err(g) ? -1 : truth(f->I, g);
            value_unref(g);
        }
        if (r) {
            value_unref(v);
            return r < 0 ? X_RAISE : c->c->exec(c->c, f);
        }
    }
    value_unref(v);
    return X_NORMAL;
}

int pm_value(const Step *n, Frame *f, Value v)
{
    Value k = n->a->eval(n->a, f);
    int r;

    if (is_err(k))
        return -1;
    if (k.tag == V_NONE || k.tag == V_BOOL)
        r = value_is(v, k);
    else
        r = value_equal(f->I, v, k);
    value_unref(k);
    return r;
}

static int capture(const Step *store, Frame *f, Value v)
{
    return !store || store_to(store, f, value_ref(v)) ? 1 : -1;
}

int pm_capture(const Step *n, Frame *f, Value v) { return capture(n->b, f, v); }

int pm_as(const Step *n, Frame *f, Value v)
{
    int r = n->a->match(n->a, f, v);

    return r > 0 ? capture(n->b, f, v) : r;
}

int pm_or(const Step *n, Frame *f, Value v)
{
    for (int i = 0; i < n->seq->n; i++) {
        int r = n->seq->at[i]->match(n->seq->at[i], f, v);
        if (r)
            return r;
    }
    return 0;
}

/* ------------------------------------------------------------- sequences */

static int match_star(const Step *store, Frame *f, Value v, int64_t from, int64_t to)
{
    Value l, x;

    if (!store)
        return 1;
    l = list_new(to - from);
    for (int64_t i = from; i < to; i++) {
        if (is_err(x = value_getitem(f->I, v, vint(i)))) {
            value_unref(l);
            return -1;
        }
        list_push(as_list(l), x);
    }
    return store_to(store, f, l) ? 1 : -1;
}

/* Does v's class derive from a class of collections.abc that patterns know by this mark? */
static bool class_marked(Value v, const char *mark)
{
    return v.tag == V_INSTANCE && !is_err(class_find(((InstanceObj *)v.o)->cls, sym(mark), NULL));
}

static bool is_match_sequence(Value v)
{
    v = unwrap_base(v);
    return v.tag == V_LIST || v.tag == V_TUPLE || v.tag == V_RANGE || class_marked(v, "_abc_sequence");
}

int pm_sequence(const Step *n, Frame *f, Value v)
{
    int count = n->seq->n, star = n->small == UINT16_MAX ? -1 : n->small, r = 1;
    int64_t len;

    if (!is_match_sequence(v))
        return 0;
    len = value_len(f->I, v);
    if (len < 0)
        return -1;
    if (star < 0 ? len != count : len < count - 1)
        return 0;
    for (int i = 0; r > 0 && i < count; i++) {
        int64_t at = star >= 0 && i > star ? len - (count - i) : i;
        Value x;
        if (i == star) {
            r = match_star(n->seq->at[i], f, v, i, len - (count - 1 - i));
            continue;
        }
        x = value_getitem(f->I, v, vint(at));
        r = is_err(x) ? -1 : n->seq->at[i]->match(n->seq->at[i], f, x);
        value_unref(x);
    }
    return r;
}

/* ------------------------------------------------------------- mappings */

static int match_key(const Step *kn, const Step *pn, Frame *f, DictObj *d, DictObj *rest)
{
    Value k = kn->eval(kn, f), x;
    int r;

    if (is_err(k))
        return -1;
    x = dict_get(f->I, d, k);
    if (is_err(x)) {
        value_unref(k);
        return exc_pending(f->I) ? -1 : 0;
    }
    value_ref(x);
    r = pn->match(pn, f, x);
    value_unref(x);
    if (r > 0 && rest && dict_del(f->I, rest, k) < 0)
        r = -1;
    value_unref(k);
    return r;
}

int pm_mapping(const Step *n, Frame *f, Value v)
{
    Value u = unwrap_base(v), rest = VERR, made = VERR;
    int r = 1;

    if (u.tag != V_DICT && !class_marked(v, "_abc_mapping"))
        return 0;
    if (u.tag != V_DICT) {
        u = made = dict_new();
        if (!dict_update(f->I, as_dict(u), v)) {
            value_unref(made);
            return -1;
        }
    }
    if (n->b && is_err(rest = dict_copy(f->I, as_dict(u)))) {
        value_unref(made);
        return -1;
    }
    for (int i = 0; r > 0 && i < n->seq->n; i += 2)
        r = match_key(n->seq->at[i], n->seq->at[i + 1], f, as_dict(u), n->b ? as_dict(rest) : NULL);
    value_unref(made);
    if (r > 0 && n->b)
        return store_to(n->b, f, rest) ? 1 : -1;
    value_unref(rest);
    return r;
}

/* ------------------------------------------------------------- classes */

/* int(x), str(s) ...: the one position is the value itself */
static bool self_matching(const ClassObj *c)
{
    switch (c->layout) {
    case V_BOOL: case V_INT: case V_FLOAT: case V_STR: case V_BYTES: case V_LIST: case V_TUPLE: case V_DICT: case V_SET:
        return true;
    default:
        return !strcmp(c->name->text, "frozenset");
    }
}

static int match_attr(const Step *p, Frame *f, Value v, Sym name)
{
    Value x = value_getattr_opt(f->I, v, name);
    int r;

    if (is_err(x))
        return exc_pending(f->I) ? -1 : 0;
    r = p->match(p, f, x);
    value_unref(x);
    return r;
}

/* More positions than __match_args__ names are the program's mistake, whatever the value is. */
static bool positions_fit(const Step *n, Frame *f, ClassObj *c)
{
    Value names = class_find(c, f->I->s_match_args, NULL);
    int64_t count = names.tag == V_TUPLE ? as_tuple(names)->n : names.tag == V_LIST ? as_list(names)->n
                  : is_err(names) && self_matching(c) ? 1 : 0;
    int given = 0;

    for (int i = 0; i < n->seq->n; i++)
        given += !n->seq->at[i]->sym;
    if (given <= count)
        return true;
    f->at = n;
    raise(f->I, EXC_TypeError, "%s() accepts %lld positional sub-pattern%s (%d given)", c->name->text, (long long)count,
          count == 1 ? "" : "s", given);
    return false;
}

static int match_position(const Step *n, Frame *f, Value v, ClassObj *c, int i)
{
    const Step *p = n->seq->at[i]->a;
    Value names = class_find(c, f->I->s_match_args, NULL);

    if (is_err(names))
        return p->match(p, f, v);
    Value name = names.tag == V_TUPLE ? as_tuple(names)->at[i] : as_list(names)->at[i];
    if (name.tag != V_STR) {
        raise(f->I, EXC_TypeError, "__match_args__ elements must be strings (got %s)", value_type_name(name));
        return -1;
    }
    return match_attr(p, f, v, str_to_sym(as_str(name)));
}

int pm_class(const Step *n, Frame *f, Value v)
{
    Value cls = n->a->eval(n->a, f);
    bool is;
    int r = 1;

    if (is_err(cls))
        return -1;
    f->at = n;
    is = value_isinstance(f->I, v, cls);
    if (exc_pending(f->I) || !is) {
        value_unref(cls);
        return exc_pending(f->I) ? -1 : 0;
    }
    if (cls.tag == V_CLASS && !positions_fit(n, f, (ClassObj *)cls.o))
        r = -1;
    for (int i = 0; r > 0 && i < n->seq->n; i++) {
        const Step *a = n->seq->at[i];
        if (a->sym)
            r = match_attr(a->a, f, v, a->sym);
        else if (cls.tag == V_CLASS)
            r = match_position(n, f, v, (ClassObj *)cls.o, i);
        else
            r = 0;
    }
    value_unref(cls);
    return r;
}
