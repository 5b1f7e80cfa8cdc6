/*
 * guard_stores.c - what a staged function stored outside: taken back, made results of its graph, and put there again after each run.
 *
 * Where a tensor that is being staged is found in the place of what was read, the place gets that back and the tensor becomes a
 * result.  A store that no run could repeat, a new key or a list of another length, is refused, and everything is put back.
 */
#include "frontend/tensor/guard_impl.h"

/* container[i] = x; refs x. */
static bool put_part(Guard *g, const Item *it, Value container, int i, Value x)
{
    if (has_items(container)) {
        Value *at = item_place(container, i), old = *at;
        *at = value_ref(x);
        value_unref(old);
        return true;
    }
    if (container.tag == V_FUNC || container.tag == V_TUPLE || container.tag == V_BOUND || it->key[i].tag == V_NOTIMPL)
        return true;                            /* what they are made of stays */
    if (is_err(it->key[i])) {
        value_ref(x);
        value_unref(((InstanceObj *)container.o)->base);
        ((InstanceObj *)container.o)->base = x;
        return true;
    }
    if (container.tag == V_CLASS) {
        Value now = part(g, it, container, i);
        return (now.tag == x.tag && now.i == x.i) || value_setattr(g->I, container, str_to_sym(as_str(it->key[i])), x);
    }
    return dict_set(g->I, dict_of(container), it->key[i], x);
}

static void put_place(const Root *p, Value x)
{
    Value *at = p->kind == PLACE_CELL ? &((CellObj *)p->holder.o)->v : &((ModuleObj *)p->holder.o)->slot[p->slot], old = *at;

    *at = value_ref(x);
    value_unref(old);
}

/* Does v hold a tensor that is being staged? */
static bool holds_staged(Guard *g, Value v, int depth)
{
    DictObj *d;
    int64_t pos = 0;
    Value k, x;

    if (v.tag == V_TENSOR)
        return as_tensor(v)->tracer && value_is_staged(v);
    if (!is_container(v) || depth > 16)
        return false;
    if (v.tag == V_BOUND || v.tag == V_FUNC)
        return false;
    if (is_sequence(v)) {
        for (int64_t i = 0; i < part_count(v); i++)
            if (holds_staged(g, part(g, NULL, v, (int)i), depth + 1))
                return true;
        return false;
    }
    d = dict_of(v);
    while (d && dict_next(d, &pos, &k, &x))
        if (holds_staged(g, x, depth + 1))
            return true;
    return holds_staged(g, inside_of(v), depth + 1);
}

static bool refuse(Guard *g, const char *what, Value key)
{
    StrBuf b = {0};

    if (!is_err(key))
        value_repr_to(g->I, key, &b);
    raise(g->I, EXC_TypeError, "a staged function cannot %s%s%s: its value is not known yet; return the tensor instead, or make "
          "the %s before staging", what, b.n ? " " : "", sb_str(&b), is_err(key) ? "element" : "entry");
    sb_done(&b);
    return false;
}

typedef struct Taking { Guard *g; Tensor **out; int *nout; int max; int place; } Taking;

static bool take_value(Taking *t, Item *in, int at, Item *it, Value v);

/* Keys that the function added and that hold staged tensors cannot be undone and repeated by the graph. */
static bool new_keys(Taking *t, const Item *it, DictObj *d)
{
    int64_t pos = 0;
    Value k, x;

    while (d && dict_next(d, &pos, &k, &x)) {
        bool known = false;
        for (int i = 0; !known && i < it->n; i++)
            known = !is_err(it->key[i]) && value_equal(t->g->I, k, it->key[i]) == 1;
        if (!known && holds_staged(t->g, x, 0))
            return refuse(t->g, "add a tensor outside under", k);
    }
    return true;
}

static bool take_parts(Taking *t, Item *it, Value v)
{
    if (has_items(v) && item_count(v) != it->n)
        return !holds_staged(t->g, v, 0) || refuse(t->g, "change the length of a list outside that holds its tensors", VERR);
    for (int i = 0; i < it->n; i++) {
        Value x = part(t->g, it, v, i);
        if (!is_err(x) && !take_value(t, it, i, it->child[i], x))
            return false;
    }
    return (v.tag != V_DICT && v.tag != V_INSTANCE && v.tag != V_CLASS) || new_keys(t, it, dict_of(v));
}

static bool take_tensor(Taking *t, Item *in, int at, Item *it, Value v)
{
    Guard *g = t->g;
    Write w = {t->place, in, at};

    if (*t->nout >= t->max)
        return refuse(g, "store so many tensors outside", VERR);
    t->out[(*t->nout)++] = tensor_ref(as_tensor(v));
    vec_push(&g->write, w);
    if (in)
        return put_part(g, in, in->v, at, it->v);
    put_place(&g->place.at[t->place], it->v);
    return true;
}

static bool take_value(Taking *t, Item *in, int at, Item *it, Value v)
{
    if (v.tag == V_TENSOR && holds_staged(t->g, v, 0)) {
        if (it->v.tag == V_TENSOR && as_tensor(it->v) == as_tensor(v))
            return true;
        return take_tensor(t, in, at, it, v);
    }
    if (!is_container(v))
        return true;
    if (!it->child || it->v.o != v.o)           /* another object than was read */
        return !holds_staged(t->g, v, 0) || refuse(t->g, "put a new container of tensors outside", VERR);
    if (map_find(&t->g->compared, (uintptr_t)it, NULL))
        return true;
    map_set(&t->g->compared, (uintptr_t)it, 1);
    return take_parts(t, it, v);
}

/* A class loses the attributes that it did not have. */
static void drop_new(Guard *g, const Item *it)
{
    int64_t pos = 0;
    DictObj *d = dict_of(it->v);
    Value k, x, odd = VERR;

    while (is_err(odd) && dict_next(d, &pos, &k, &x)) {
        bool known = false;
        for (int i = 0; !known && i < it->n; i++)
            known = is_obj(it->key[i]) && value_equal(g->I, k, it->key[i]) == 1;
        if (!known)
            odd = value_ref(k);
    }
    if (is_err(odd))
        return;
    if (value_delattr(g->I, it->v, str_to_sym(as_str(odd))))
        drop_new(g, it);
    value_unref(odd);
}

/* Make an object again what it was when it was read. */
static void restore(Guard *g, Item *it)
{
    Value v = it->v;

    if (v.tag == V_NATIVEOBJ && native_type(v)->resize) {
        native_type(v)->resize(v.o, it->n);
    } else if (v.tag == V_LIST) {
        while (as_list(v)->n > it->n)
            value_unref(as_list(v)->at[--as_list(v)->n]);
        while (as_list(v)->n < it->n)
            list_push(as_list(v), VNONE);
    } else if (v.tag == V_DICT || v.tag == V_SET || v.tag == V_INSTANCE) {
        if (dict_of(v))
            dict_clear(dict_of(v));
    } else if (v.tag == V_CLASS) {
        drop_new(g, it);
    } else if (v.tag != V_NATIVEOBJ) {
        return;
    }
    for (int i = 0; i < it->n; i++)
        put_part(g, it, v, i, it->child[i]->v);
}

static void put_back(Guard *g)
{
    for (int i = 0; i < g->item.n; i++)
        if (g->item.at[i]->child)
            restore(g, g->item.at[i]);
    for (int i = 0; i < g->place.n; i++)
        if (g->place.at[i].kind != PLACE_VALUE)
            put_place(&g->place.at[i], g->place.at[i].root->v);
}

static void restore_all(Guard *g)
{
    Value exc = exc_take(g->I);

    put_back(g);
    raise_value(g->I, exc);
    value_unref(exc);
}

bool guard_unchanged(Guard *g)
{
    bool ok = guard_check(g, NULL) == 1;

    exc_clear(g->I);
    if (!ok)
        put_back(g);
    return ok;
}

bool guard_take_writes(Guard *g, Tensor **out, int *nout, int max)
{
    map_done(&g->compared);
    for (int i = 0; i < g->place.n; i++) {
        Taking t = {g, out, nout, max, i};
        Value v = place_value(&g->place.at[i]);
        if (g->place.at[i].kind == PLACE_VALUE && !is_container(v))
            continue;
        if (!take_value(&t, NULL, 0, g->place.at[i].root, v)) {
            restore_all(g);
            return false;
        }
    }
    return true;
}

bool guard_settle(Guard *g)
{
    for (int i = 0; i < g->place.n; i++) {
        Root *p = &g->place.at[i];
        Value v = place_value(p);
        if (is_symbolic(v) && p->kind != PLACE_VALUE) {
            if (is_err(v = symint_settled(g->I, v)))
                return false;
            put_place(p, v);
        } else if (!symint_settle_inside(g->I, &v)) {
            return false;
        }
    }
    for (int i = 0; i < g->item.n; i++) {
        Value v = g->item.at[i]->v, attrs = VERR;
        if (v.tag == V_INSTANCE && ((InstanceObj *)v.o)->attrs)
            attrs = vobj(((InstanceObj *)v.o)->attrs);
        if (!is_err(attrs) && !symint_settle_inside(g->I, &attrs))
            return false;
    }
    return true;
}

int guard_nwrites(const Guard *g)
{
    return g->write.n;
}

bool guard_write(Guard *g, Tensor *const *result)
{
    bool ok = true;

    for (int i = 0; ok && i < g->write.n; i++) {
        const Write *w = &g->write.at[i];
        Value x = tensor_value(tensor_ref(result[i]));
        if (w->in)
            ok = put_part(g, w->in, w->in->now.tag ? w->in->now : w->in->v, w->at, x);
        else
            put_place(&g->place.at[w->place], x);
        value_unref(x);
    }
    return ok;
}

GuardPlace guard_write_place(const Guard *g, int i)
{
    const Write *w = &g->write.at[i];
    const Root *p = &g->place.at[w->place];

    if (w->in)
        return (GuardPlace){w->in->v.o, w->at, "", tensor_at(w->in->child[w->at]), -1};
    return (GuardPlace){p->holder.o, -1 - (int64_t)p->slot, "", tensor_at(p->root), -1};
}
