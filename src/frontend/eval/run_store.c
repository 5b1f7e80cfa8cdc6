/*
 * Storing: names, attributes, items, unpacking, deleting, op=.
 *
 * A tensor is a value: `x[i] = v` makes a new tensor and stores it back where
 * x is, so the container expression of a subscript is a place too.  For a
 * local the tensor is taken out of its slot meanwhile, so that the only
 * reference is ours and the store happens in place.
 */
#include "frontend/eval/lower.h"

#include <alloca.h>
#include <string.h>

static inline void put(Value *place, Value v)
{
    Value old = *place;

    *place = v;
    value_unref(old);
}

bool st_local(const Step *n, Frame *f, Value v)
{
    put(&f->slot[n->slot], v);
    return true;
}

bool st_cell(const Step *n, Frame *f, Value v)
{
    put(&((CellObj *)f->slot[n->slot].o)->v, v);
    return true;
}

bool st_free(const Step *n, Frame *f, Value v)
{
    put(&f->closure[n->slot]->v, v);
    return true;
}

bool st_global(const Step *n, Frame *f, Value v)
{
    put(&f->module->slot[n->slot], v);
    return true;
}

bool st_class_name(const Step *n, Frame *f, Value v)
{
    dict_set_sym(f->ns, n->sym, v);
    value_unref(v);
    return true;
}

bool st_ignore(const Step *n, Frame *f, Value v)
{
    (void)n, (void)f;
    value_unref(v);
    return true;
}

bool st_attr(const Step *n, Frame *f, Value v)
{
    Value o = n->a->eval(n->a, f);
    bool ok;

    if (is_err(o)) {
        value_unref(v);
        return false;
    }
    f->at = n;
    ok = attr_store(f->I, o, n->p, v);
    value_unref(o);
    return ok;
}

bool store_to(const Step *target, Frame *f, Value v)
{
    return target->store(target, f, v);
}

/* Take the value of a name out of its place, leaving None, so that a tensor there has one owner. */
static Value *name_place(const Step *n, Frame *f)
{
    ReadLog *reads = f->I->reads;

    if (reads && n->store == st_free)
        reads->cell(reads, f->closure[n->slot]);
    if (reads && n->store == st_global)
        reads->global(reads, f->module, n->slot);
    if (n->store == st_local)
        return &f->slot[n->slot];
    if (n->store == st_cell)
        return &((CellObj *)f->slot[n->slot].o)->v;
    if (n->store == st_free)
        return &f->closure[n->slot]->v;
    if (n->store == st_global)
        return &f->module->slot[n->slot];
    return NULL;
}

/* container[key] = v where the container is a tensor: *c is its value (owned), place where it came from. */
static bool store_tensor_item(const Step *place, Frame *f, Value *c, Value key, Value v)
{
    Value *at = place ? name_place(place, f) : NULL;
    bool ok;

    if (at && at->o == c->o) {          /* give up the second reference while writing */
        value_unref(*c);
        *c = *at;
        *at = VNONE;
        ok = value_setitem(f->I, c, key, v);
        *at = *c;
        *c = VNONE;
        return ok;
    }
    if (!value_setitem(f->I, c, key, v))
        return false;
    if (place) {
        ok = place->store(place, f, *c);
        *c = VNONE;
        return ok;
    }
    return true;
}

static inline bool list_put(Value c, Value k, Value v)
{
    int64_t i;

    if (c.tag != V_LIST || k.tag != V_INT)
        return false;
    i = k.i + (k.i < 0 ? as_list(c)->n : 0);
    if ((uint64_t)i >= (uint64_t)as_list(c)->n)
        return false;
    put(&as_list(c)->at[i], v);
    return true;
}

static bool store_item(const Step *n, const Step *place, Frame *f, Value *c, Value key, Value v)
{
    bool ok;

    if (list_put(*c, key, v))
        return true;
    f->at = n;
    ok = c->tag == V_TENSOR ? store_tensor_item(place, f, c, key, v) : value_setitem(f->I, c, key, v);
    value_unref(v);
    return ok;
}

bool st_item(const Step *n, Frame *f, Value v)
{
    Value c = n->a->eval(n->a, f), k;
    bool ok;

    if (is_err(c)) {
        value_unref(v);
        return false;
    }
    k = n->b->eval(n->b, f);
    if (is_err(k)) {
        value_unref(c);
        value_unref(v);
        return false;
    }
    ok = store_item(n, n->c, f, &c, k, v);
    value_unref(c);
    value_unref(k);
    return ok;
}

/* A tuple never changes: its elements go to the targets one by one. */
static bool unpack_tuple(const Step *n, Frame *f, Value v)
{
    const TupleObj *t = as_tuple(v);
    bool ok = true;

    f->at = n;
    for (int i = 0; ok && i < n->seq->n; i++) {
        const Step *target = n->seq->at[i];
        if (target->store == st_local)
            put(&f->slot[target->slot], value_ref(t->at[i]));
        else
            ok = target->store(target, f, value_ref(t->at[i]));
    }
    value_unref(v);
    return ok;
}

bool st_unpack(const Step *n, Frame *f, Value v)
{
    int count = n->seq->n, star = n->small == UINT16_MAX ? -1 : n->small;
    Value *at;

    if (v.tag == V_TUPLE && star < 0 && as_tuple(v)->n == count)
        return unpack_tuple(n, f, v);
    at = alloca(((size_t)count + 1) * sizeof *at);
    memset(at, 0, (size_t)count * sizeof *at);
    f->at = n;
    if (!unpack(f->I, v, at, count, star)) {
        slots_drop(at, count);
        value_unref(v);
        return false;
    }
    value_unref(v);
    for (int i = 0; i < count; i++)
        if (!store_to(n->seq->at[i], f, at[i])) {
            slots_drop(at + i + 1, count - i - 1);
            return false;
        }
    return true;
}

/* ------------------------------------------------------------- assignment statements */

Exit ex_assign(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);

    if (is_err(v))
        return X_RAISE;
    f->at = n;
    return n->b->store(n->b, f, v) ? X_NORMAL : X_RAISE;
}

Exit ex_assign_local(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);

    if (is_err(v))
        return X_RAISE;
    put(&f->slot[n->slot], v);
    return X_NORMAL;
}

/* list[i] = x with the list and the index in locals, which need no counting; anything else goes the general way. */
Exit ex_assign_item(const Step *n, Frame *f)
{
    const Step *t = n->b;
    Value v = n->a->eval(n->a, f);

    if (is_err(v))
        return X_RAISE;
    if (list_put(f->slot[t->a->slot], f->slot[t->b->slot], v))
        return X_NORMAL;
    f->at = n;
    return st_item(t, f, v) ? X_NORMAL : X_RAISE;
}

/* a, b = x, y: all values first, then the targets from the left. At most 8. */
Exit ex_swap(const Step *n, Frame *f)
{
    Value v[8];
    int count = n->seq->n;

    for (int i = 0; i < count; i++)
        if (is_err(v[i] = n->seq->at[i]->eval(n->seq->at[i], f))) {
            slots_drop(v, i);
            return X_RAISE;
        }
    f->at = n;
    for (int i = 0; i < count; i++)
        if (!store_to(n->b->seq->at[i], f, v[i])) {
            slots_drop(v + i + 1, count - i - 1);
            return X_RAISE;
        }
    return X_NORMAL;
}

Exit ex_assign_many(const Step *n, Frame *f)
{
    Value v = n->a->eval(n->a, f);

    if (is_err(v))
        return X_RAISE;
    f->at = n;
    for (int i = 0; i < n->seq->n; i++)
        if (!store_to(n->seq->at[i], f, value_ref(v))) {
            value_unref(v);
            return X_RAISE;
        }
    value_unref(v);
    return X_NORMAL;
}

/* ns[key][name] = v, in a dict that is made when there is none. */
static void note_in(DictObj *ns, Sym key, Sym name, Value v)
{
    Value d = dict_get_sym(ns, key);

    if (is_err(d)) {
        d = dict_new();
        dict_set_sym(ns, key, d);
        value_unref(d);
    }
    dict_set_sym(as_dict(d), name, v);
}

Exit ex_annotate(const Step *n, Frame *f)
{
    Value element;

    note_in(f->ns, f->I->s_annotations, n->sym, n->k);
    if (!n->a)
        return X_NORMAL;
    element = n->a->eval(n->a, f);
    if (!is_err(element)) {
        note_in(f->ns, sym("__element_types__"), n->sym, element);
        value_unref(element);
    } else if (exc_matches(f->I, EXC_NameError)) {      /* a policy that is defined later: forward references are fine */
        exc_clear(f->I);
    } else {
        return X_RAISE;
    }
    return X_NORMAL;
}

/* ------------------------------------------------------------- op= */

/* a op= b for numbers without a call; everything else by methods. Both borrowed. */
static Value augmented(const Step *n, Frame *f, Value a, Value b)
{
    Value r;

    if (a.tag == V_INT && b.tag == V_INT)
        return int_binary(f->I, n->op, a.i, b.i);
    if (a.tag == V_FLOAT && b.tag == V_FLOAT) {
        r = float_binary(f->I, n->op, a.f, b.f);
        if (r.tag != V_NOTIMPL)
            return r;
    }
    return inplace_op(f->I, n->op, a, b);
}

Exit ex_aug_local(const Step *n, Frame *f)
{
    Value *slot = &f->slot[n->slot], b = n->c->eval(n->c, f), r, a;

    if (is_err(b))
        return X_RAISE;
    if (slot->tag == V_INT && b.tag == V_INT && n->op <= AOP_SUB &&
        !(n->op == AOP_ADD ? __builtin_add_overflow(slot->i, b.i, &r.i) : __builtin_sub_overflow(slot->i, b.i, &r.i))) {
        slot->i = r.i;
        return X_NORMAL;
    }
    if (slot->tag == V_FLOAT && b.tag == V_FLOAT && n->op <= AOP_MUL) {
        slot->f = n->op == AOP_ADD ? slot->f + b.f : n->op == AOP_SUB ? slot->f - b.f : slot->f * b.f;
        return X_NORMAL;
    }
    if (slot->tag == V_STR && b.tag == V_STR && n->op == AOP_ADD && str_append(slot, as_str(b))) {
        value_unref(b);
        return X_NORMAL;
    }
    f->at = n;
    a = n->a->eval(n->a, f);
    r = is_err(a) ? VERR : augmented(n, f, a, b);
    value_unref(a);
    value_unref(b);
    if (is_err(r))
        return X_RAISE;
    put(slot, r);
    return X_NORMAL;
}

Exit ex_aug_name(const Step *n, Frame *f)
{
    Value a = n->a->eval(n->a, f), b, r, *at;

    if (is_err(a))
        return X_RAISE;
    b = n->c->eval(n->c, f);
    if (a.tag == V_STR && b.tag == V_STR && n->op == AOP_ADD && (at = name_place(n->b, f)) && at->o == a.o) {
        value_unref(a);
        if (str_append(at, as_str(b))) {
            value_unref(b);
            return X_NORMAL;
        }
        value_ref(a);
    }
    f->at = n;
    r = is_err(b) ? VERR : augmented(n, f, a, b);
    value_unref(a);
    value_unref(b);
    return !is_err(r) && store_to(n->b, f, r) ? X_NORMAL : X_RAISE;
}

/* x = x + t: a = the sum, b = x as a target.  A string that x alone holds grows in place, as with +=. */
Exit ex_append_name(const Step *n, Frame *f)
{
    Value *at = n->b->store == st_local ? &f->slot[n->slot] : name_place(n->b, f), x, t, r;
    const Step *more = n->a->b;

    if (!at || at->tag != V_STR)
        return ex_assign(n, f);
    x = value_ref(*at);
    t = more->eval(more, f);
    at = name_place(n->b, f);
    if (t.tag == V_STR && at->tag == V_STR && at->o == x.o && x.o->refs == 2) {
        value_unref(x);
        if (str_append(at, as_str(t))) {
            value_unref(t);
            return X_NORMAL;
        }
        value_ref(x);
    }
    f->at = n->a;
    r = is_err(t) ? VERR : value_binary(f->I, AOP_ADD, x, t);
    value_unref(x);
    value_unref(t);
    return !is_err(r) && store_to(n->b, f, r) ? X_NORMAL : X_RAISE;
}

Exit ex_aug_attr(const Step *n, Frame *f)
{
    Value o = n->a->eval(n->a, f), a, b, r = VERR;
    bool ok;

    if (is_err(o))
        return X_RAISE;
    f->at = n;
    a = attr_load(f->I, o, n->p);
    b = is_err(a) ? VERR : n->c->eval(n->c, f);
    f->at = n;
    if (!is_err(b))
        r = augmented(n, f, a, b);
    value_unref(a);
    value_unref(b);
    ok = !is_err(r) && attr_store(f->I, o, n->p, r);
    value_unref(o);
    return ok ? X_NORMAL : X_RAISE;
}

static Value item_of(Frame *f, Value c, Value k)
{
    int64_t i;

    if (c.tag == V_LIST && k.tag == V_INT) {
        i = k.i + (k.i < 0 ? as_list(c)->n : 0);
        if ((uint64_t)i < (uint64_t)as_list(c)->n)
            return value_ref(as_list(c)->at[i]);
    }
    return value_getitem(f->I, c, k);
}

Exit ex_aug_item(const Step *n, Frame *f)
{
    Value c = n->a->eval(n->a, f), k, a, b, r = VERR;
    bool ok;

    if (is_err(c))
        return X_RAISE;
    k = n->b->eval(n->b, f);
    if (is_err(k)) {
        value_unref(c);
        return X_RAISE;
    }
    f->at = n;
    a = item_of(f, c, k);
    b = is_err(a) ? VERR : n->c->eval(n->c, f);
    f->at = n;
    if (!is_err(b))
        r = augmented(n, f, a, b);
    value_unref(a);
    value_unref(b);
    ok = !is_err(r) && store_item(n, n->p, f, &c, k, r);
    value_unref(c);
    value_unref(k);
    return ok ? X_NORMAL : X_RAISE;
}

/* ------------------------------------------------------------- del */

static bool delete_place(const Step *n, Frame *f, Value *at)
{
    if (is_err(*at)) {
        f->at = n;
        raise(f->I, n->store == st_global ? EXC_NameError : EXC_UnboundLocalError, "name '%s' is not defined", n->sym->text);
        return false;
    }
    put(at, VERR);
    return true;
}

static bool delete_target(const Step *n, Frame *f)
{
    Value *at = name_place(n, f), o, k;
    bool ok;

    if (at)
        return delete_place(n, f, at);
    f->at = n;
    if (n->store == st_class_name)
        return dict_del_sym(f->ns, n->sym) || !is_err(raise_no_global(f->I, n->sym));
    if (is_err(o = n->a->eval(n->a, f)))
        return false;
    f->at = n;
    if (n->store == st_attr) {
        ok = value_delattr(f->I, o, ((AttrCache *)n->p)->name);
    } else {
        k = n->b->eval(n->b, f);
        f->at = n;
        ok = !is_err(k) && value_delitem(f->I, o, k);
        value_unref(k);
    }
    value_unref(o);
    return ok;
}

Exit ex_del(const Step *n, Frame *f)
{
    for (int i = 0; i < n->seq->n; i++)
        if (!delete_target(n->seq->at[i], f))
            return X_RAISE;
    return X_NORMAL;
}
