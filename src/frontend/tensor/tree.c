/*
 * tree.c - walking and rebuilding trees of tensors.
 *
 * One recursive walk serves all: it visits tensors in order.  Rebuilding copies
 * containers and instances and leaves static parts shared.
 */
#include "frontend/tensor/tree.h"

#include "frontend/tensor/bind.h"

#include <string.h>

/* ------------------------------------------------------------- which instances are trees */

static Value class_attr(const ClassObj *c, Sym name)
{
    for (; c; c = c->base) {
        Value v = c->ns ? dict_get_sym(c->ns, name) : VERR;
        if (!is_err(v))
            return v;
    }
    return VERR;
}

/* The list, tuple or dict inside an instance of a class that derives from it: a named tuple's elements; V_ERR: it has none. */
static Value inner(Value v)
{
    Value base = v.tag == V_INSTANCE ? ((InstanceObj *)v.o)->base : VERR;
    return base.tag == V_LIST || base.tag == V_TUPLE || base.tag == V_DICT ? base : VERR;
}

/* Are its attributes parts of the tree? */
static bool has_parts(Value v)
{
    if (v.tag != V_INSTANCE)
        return false;
    const ClassObj *c = ((InstanceObj *)v.o)->cls;
    return !is_err(class_attr(c, sym("__tree__"))) || !is_err(class_attr(c, sym("__dataclass_fields__")));
}

static bool is_tree_instance(Value v) { return has_parts(v) || !is_err(inner(v)); }

static bool is_branch(Value v) { return v.tag == V_LIST || v.tag == V_TUPLE || v.tag == V_DICT || is_tree_instance(v); }

/* Is attribute `name` of instance o kept out of training? `_buffers` of the instance or its class lists such names. */
static bool is_buffer(const InstanceObj *o, Value name)
{
    Value own = o->attrs ? dict_get_sym(o->attrs, sym("_buffers")) : VERR, list = is_err(own) ? class_attr(o->cls, sym("_buffers")) : own;
    if (list.tag != V_LIST && list.tag != V_TUPLE)
        return false;
    int64_t n = list.tag == V_LIST ? as_list(list)->n : as_tuple(list)->n;
    for (int64_t i = 0; i < n; i++) {
        Value s = list.tag == V_LIST ? as_list(list)->at[i] : as_tuple(list)->at[i];
        if (s.tag == V_STR && name.tag == V_STR && as_str(s)->len == as_str(name)->len && !memcmp(as_str(s)->s, as_str(name)->s, as_str(s)->len))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------- leaves */

static bool leaves(Interp *I, Value v, TreeMode mode, ValueVec *out);

static bool leaves_dict(Interp *I, DictObj *d, TreeMode mode, ValueVec *out, const InstanceObj *owner)
{
    int64_t pos = 0;
    Value key, val;
    while (d && dict_next(d, &pos, &key, &val)) {
        if (owner && (mode & TREE_TRAINED) && is_buffer(owner, key))
            continue;
        if (!leaves(I, val, owner ? mode & ~TREE_NUMBERS : mode, out))
            return false;
    }
    return true;
}

static bool is_leaf(Value v, TreeMode mode)
{
    return v.tag == V_TENSOR || v.tag == V_NOTIMPL || ((mode & TREE_NUMBERS) && arg_is_number(v) && v.tag != V_BOOL);
}

/* A random key, where what is not trained counts. */
static bool is_key(Value v, TreeMode mode)
{
    return v.tag == V_NATIVEOBJ && !(mode & TREE_TRAINED) && !is_err(random_key_data(v));
}

static bool leaves(Interp *I, Value v, TreeMode mode, ValueVec *out)
{
    bool ok = true;
    if (is_leaf(v, mode)) {
        vec_push(out, v);
        return true;
    }
    if (is_key(v, mode))
        vec_push(out, random_key_data(v));
    if (v.tag != V_LIST && v.tag != V_TUPLE && v.tag != V_DICT && v.tag != V_INSTANCE)
        return true;
    if (!interp_enter(I))
        return false;
    if (v.tag == V_LIST)
        for (int64_t i = 0; ok && i < as_list(v)->n; i++)
            ok = leaves(I, as_list(v)->at[i], mode, out);
    else if (v.tag == V_TUPLE)
        for (int64_t i = 0; ok && i < as_tuple(v)->n; i++)
            ok = leaves(I, as_tuple(v)->at[i], mode, out);
    else if (v.tag == V_DICT)
        ok = leaves_dict(I, as_dict(v), mode, out, NULL);
    if (!is_err(inner(v)))
        ok = leaves(I, inner(v), mode, out);
    if (ok && has_parts(v))
        ok = leaves_dict(I, ((InstanceObj *)v.o)->attrs, mode, out, (InstanceObj *)v.o);
    interp_leave(I);
    return ok;
}

bool tree_values(Interp *I, Value v, TreeMode mode, ValueVec *out) { return leaves(I, v, mode, out); }

bool tree_leaves(Interp *I, Value v, TreeMode mode, TensorVec *out)
{
    ValueVec all = {0};
    bool ok = leaves(I, v, mode & ~TREE_NUMBERS, &all);
    for (int i = 0; ok && i < all.n; i++)
        vec_push(out, all.at[i].tag == V_TENSOR ? as_tensor(all.at[i]) : NULL);
    vec_free(&all);
    return ok;
}

void tree_buffers(Value v, PlaceVec *out)
{
    InstanceObj *o = has_parts(v) ? (InstanceObj *)v.o : NULL;
    DictObj *d = o ? o->attrs : v.tag == V_DICT ? as_dict(v) : NULL;
    Value key, val;
    int64_t pos = 0;
    if (!is_err(inner(v)))
        tree_buffers(inner(v), out);
    for (int64_t i = 0; v.tag == V_LIST && i < as_list(v)->n; i++)
        tree_buffers(as_list(v)->at[i], out);
    for (int64_t i = 0; v.tag == V_TUPLE && i < as_tuple(v)->n; i++)
        tree_buffers(as_tuple(v)->at[i], out);
    while (d && dict_next(d, &pos, &key, &val))
        if (!o || !is_buffer(o, key))
            tree_buffers(val, out);
        else if (val.tag == V_TENSOR)
            vec_push(out, ((TreePlace){o, key, val}));
}

/* ------------------------------------------------------------- names */

typedef struct Naming { Interp *I; StrBuf path; NameVec *out; } Naming;

static bool name_leaves(Naming *m, Value v);

/* A part of a container, named by its key. */
static bool name_part(Naming *m, Value key, Value v)
{
    size_t n = m->path.n;
    Value text = value_str(m->I, key);
    if (is_err(text))
        return false;
    sb_printf(&m->path, ".%s", as_str(text)->s);
    bool ok = name_leaves(m, v);
    m->path.n = n;
    value_unref(text);
    return ok;
}

/* The elements of a named tuple go by their fields, those of other containers by their keys and places. */
static bool name_inner(Naming *m, Value v)
{
    Value base = inner(v), fields = class_attr(((InstanceObj *)v.o)->cls, sym("_fields"));
    if (base.tag != V_TUPLE || fields.tag != V_TUPLE || as_tuple(fields)->n != as_tuple(base)->n)
        return name_leaves(m, base);
    for (int64_t i = 0; i < as_tuple(base)->n; i++)
        if (!name_part(m, as_tuple(fields)->at[i], as_tuple(base)->at[i]))
            return false;
    return true;
}

static bool name_leaves(Naming *m, Value v)
{
    if (is_leaf(v, TREE_ALL) || is_key(v, TREE_ALL)) {
        vec_push(m->out, memcpy(tsr_alloc(m->path.n + 1), sb_str(&m->path), m->path.n + 1));
        m->out->at[m->out->n - 1][m->path.n] = 0;
        return true;
    }
    DictObj *d = v.tag == V_DICT ? as_dict(v) : has_parts(v) ? ((InstanceObj *)v.o)->attrs : NULL;
    int64_t n = v.tag == V_LIST ? as_list(v)->n : v.tag == V_TUPLE ? as_tuple(v)->n : 0, pos = 0;
    Value key, val;
    if (!interp_enter(m->I))
        return false;
    bool ok = is_err(inner(v)) || name_inner(m, v);
    for (int64_t i = 0; ok && i < n; i++)
        ok = name_part(m, vint(i), v.tag == V_LIST ? as_list(v)->at[i] : as_tuple(v)->at[i]);
    while (ok && d && dict_next(d, &pos, &key, &val))
        ok = name_part(m, key, val);
    interp_leave(m->I);
    return ok;
}

bool tree_names(Interp *I, Value v, const char *root, NameVec *out)
{
    Naming m = {.I = I, .out = out};
    sb_puts(&m.path, root);
    bool ok = name_leaves(&m, v);
    sb_done(&m.path);
    return ok;
}

/* ------------------------------------------------------------- rebuilding */

/* leaf gives what replaces each leaf; other (may be NULL) what replaces static parts outside instances. */
typedef struct Walk {
    Interp *I;
    TreeMode mode;
    Value (*leaf)(struct Walk *w, Value old);
    Value (*other)(struct Walk *w, Value v);
    Tensor *const *with;
    int *pos;
    int inside;                 /* instances around */
    void *state;
} Walk;

static Value walk(Walk *w, Value v);

static Value walk_dict(Walk *w, DictObj *d, const InstanceObj *owner)
{
    Value out = dict_new(), key, val;
    int64_t pos = 0;
    while (d && dict_next(d, &pos, &key, &val)) {
        bool keep = owner && (w->mode & TREE_TRAINED) && is_buffer(owner, key);
        Value x = keep ? value_ref(val) : walk(w, val);
        bool ok = !is_err(x) && dict_set(w->I, as_dict(out), key, x);
        value_unref(x);
        if (!ok) {
            value_unref(out);
            return VERR;
        }
    }
    return out;
}

static Value walk_instance(Walk *w, Value v)
{
    InstanceObj *o = (InstanceObj *)v.o;
    Value base = is_err(inner(v)) ? o->base : walk(w, o->base);
    if (is_err(base) && !is_err(o->base))
        return VERR;
    w->inside++;
    Value attrs = has_parts(v) ? walk_dict(w, o->attrs, o) : o->attrs ? dict_copy(w->I, o->attrs) : dict_new();
    w->inside--;
    if (is_err(attrs)) {
        value_unref(is_err(inner(v)) ? VNONE : base);
        return VERR;
    }
    Value copy = instance_new(o->cls);
    InstanceObj *n = (InstanceObj *)copy.o;
    obj_unref(n->attrs);
    n->attrs = as_dict(attrs);
    n->base = is_err(inner(v)) && !is_err(base) ? value_ref(base) : base;
    return copy;
}

static Value walk_sequence(Walk *w, Value v)
{
    bool list = v.tag == V_LIST;
    int64_t n = list ? as_list(v)->n : as_tuple(v)->n;
    Value out = list ? list_new(n) : tuple_new(n);
    for (int64_t i = 0; i < n; i++) {
        Value x = walk(w, list ? as_list(v)->at[i] : as_tuple(v)->at[i]);
        if (is_err(x)) {
            value_unref(out);
            return VERR;
        }
        if (list)
            list_push(as_list(out), x);
        else
            as_tuple(out)->at[i] = x;
    }
    return out;
}

static Value walk(Walk *w, Value v)
{
    Value r;
    if (is_leaf(v, w->inside ? w->mode & ~TREE_NUMBERS : w->mode))
        return w->leaf(w, v);
    if (is_key(v, w->mode)) {
        r = w->leaf(w, random_key_data(v));
        return is_err(r) ? r : random_key_of(r);
    }
    if (!is_branch(v))
        return w->other && !w->inside ? w->other(w, v) : value_ref(v);
    if (!interp_enter(w->I))
        return VERR;
    r = v.tag == V_DICT ? walk_dict(w, as_dict(v), NULL) : v.tag == V_INSTANCE ? walk_instance(w, v) : walk_sequence(w, v);
    interp_leave(w->I);
    return r;
}

static Value leaf_next(Walk *w, Value old)
{
    Value v = tensor_value(tensor_ref(w->with[(*w->pos)++]));
    if (is_obj(old))
        v.o->flags = old.o->flags;
    return v;
}

Value tree_rebuild(Interp *I, Value like, TreeMode mode, Tensor *const *leaf, int *pos)
{
    Walk w = {.I = I, .mode = mode, .leaf = leaf_next, .with = leaf, .pos = pos};
    return walk(&w, like);
}

static Value leaf_none(Walk *w, Value old) { return (Value){.tag = V_NOTIMPL}; }

Value tree_skeleton(Interp *I, Value v)
{
    Walk w = {.I = I, .leaf = leaf_none};
    return walk(&w, v);
}

static Value leaf_same(Walk *w, Value old) { return value_ref(old); }

static Value lift(Walk *w, Value v)
{
    if (!arg_is_number(v))
        return value_ref(v);
    const DType *dt = w->state;
    return value_of(tensor_from_data(w->I, v, dt ? *dt : DT_NONE));
}

Value tree_lift_numbers(Interp *I, Value v)
{
    Walk w = {.I = I, .leaf = leaf_same, .other = lift};
    return walk(&w, v);
}

static Value lift_weak(Walk *w, Value v)
{
    return arg_is_number(v) ? value_of(arg_tensor(w->I, v, "a number")) : value_ref(v);
}

Value tree_lift_weak(Interp *I, Value v)
{
    Walk w = {.I = I, .leaf = leaf_same, .other = lift_weak};
    return walk(&w, v);
}

Value tree_lift_numbers_as(Interp *I, Value v, DType dt)
{
    Walk w = {.I = I, .leaf = leaf_same, .other = lift, .state = &dt};
    return walk(&w, v);
}

/* The numbers of a tree that `mask` chooses become tensors. */
typedef struct Chosen { const bool *mask; int n, at; } Chosen;

static Value leaf_chosen(Walk *w, Value old)
{
    Chosen *c = w->state;
    if (old.tag == V_TENSOR || c->at >= c->n || !c->mask[c->at++])
        return value_ref(old);
    return value_of(arg_tensor(w->I, old, "a number"));
}

Value tree_lift_chosen(Interp *I, Value v, const bool *mask, int n)
{
    Chosen c = {mask, n, 0};
    Walk w = {.I = I, .mode = TREE_NUMBERS, .leaf = leaf_chosen, .state = &c};
    return walk(&w, v);
}

/* ------------------------------------------------------------- mapping */

typedef struct Mapping { Value f; ValueVec *tree; int ntrees, at; } Mapping;

static Value leaf_mapped(Walk *w, Value old)
{
    Mapping *m = w->state;
    Value args[16];
    for (int i = 0; i < m->ntrees; i++)
        args[i] = m->tree[i].at[m->at];
    m->at++;
    return value_call(w->I, m->f, args, m->ntrees);
}

Value tree_map_values(Interp *I, Value f, const Value *trees, int n)
{
    ValueVec leaf[16] = {0};
    Mapping m = {.f = f, .tree = leaf, .ntrees = n};
    TreeMode mode = TREE_TRAINED | TREE_NUMBERS;
    Value out = VERR;
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        ok = leaves(I, trees[i], mode, &leaf[i]);
        if (ok && leaf[i].n != leaf[0].n) {
            raise(I, EXC_ValueError, "tree_map: the first tree has %d leaves, tree %d has %d", leaf[0].n, i + 1, leaf[i].n);
            ok = false;
        }
    }
    if (ok) {
        Walk w = {.I = I, .mode = mode, .leaf = leaf_mapped, .state = &m};
        out = walk(&w, trees[0]);
    }
    for (int i = 0; i < n; i++)
        vec_free(&leaf[i]);
    return out;
}

/* ------------------------------------------------------------- comparing */

static int same_dict(Interp *I, DictObj *a, DictObj *b)
{
    int64_t p = 0, q = 0;
    Value ka, va, kb, vb;
    if (!a || !b)
        return (!a || !a->n) && (!b || !b->n);
    if (a->n != b->n)
        return 0;
    while (dict_next(a, &p, &ka, &va) && dict_next(b, &q, &kb, &vb)) {
        int eq = value_equal(I, ka, kb);
        if (eq == 1)
            eq = tree_same(I, va, vb);
        if (eq != 1)
            return eq;
    }
    return 1;
}

static int same_branch(Interp *I, Value a, Value b)
{
    int eq = 1;
    if (a.tag == V_LIST || a.tag == V_TUPLE) {
        int64_t n = a.tag == V_LIST ? as_list(a)->n : as_tuple(a)->n, m = a.tag == V_LIST ? as_list(b)->n : as_tuple(b)->n;
        const Value *p = a.tag == V_LIST ? as_list(a)->at : as_tuple(a)->at, *q = a.tag == V_LIST ? as_list(b)->at : as_tuple(b)->at;
        if (n != m)
            return 0;
        for (int64_t i = 0; eq == 1 && i < n; i++)
            eq = tree_same(I, p[i], q[i]);
        return eq;
    }
    if (a.tag == V_DICT)
        return same_dict(I, as_dict(a), as_dict(b));
    InstanceObj *x = (InstanceObj *)a.o, *y = (InstanceObj *)b.o;
    if (x->cls != y->cls || inner(a).tag != inner(b).tag)
        return 0;
    eq = is_err(inner(a)) ? 1 : same_branch(I, inner(a), inner(b));
    return eq == 1 ? same_dict(I, x->attrs, y->attrs) : eq;
}

int tree_same(Interp *I, Value a, Value b)
{
    if (is_leaf(a, TREE_ALL) || is_leaf(b, TREE_ALL))
        return is_leaf(a, TREE_ALL) && is_leaf(b, TREE_ALL);
    if (a.tag != b.tag)
        return 0;
    if (is_key(a, TREE_ALL) || is_key(b, TREE_ALL))
        return is_key(a, TREE_ALL) && is_key(b, TREE_ALL);
    if (is_symbolic(a))                                 /* sizes of other stagings only look alike */
        return a.i == b.i;
    if (!is_branch(a)) {
        if (is_obj(a) && a.o == b.o)
            return 1;
        if (a.tag == V_FUNC || a.tag == V_NATIVE || a.tag == V_CLASS || a.tag == V_MODULE || a.tag == V_NATIVEOBJ)
            return 0;
        return value_equal(I, a, b);
    }
    if (a.tag == V_INSTANCE && !is_tree_instance(b))
        return 0;
    if (!interp_enter(I))
        return -1;
    int eq = same_branch(I, a, b);
    interp_leave(I);
    return eq;
}

static bool differ(Interp *I, Value a, Value b)
{
    bool odd = tree_same(I, a, b) != 1;

    exc_clear(I);
    return odd;
}

/* The first key under which two dicts differ, both with a part there; false: none. */
static bool odd_key(Interp *I, DictObj *a, DictObj *b, Value *key, Value *x, Value *y)
{
    int64_t pos = 0;

    while (a && b && dict_next(a, &pos, key, x)) {
        *y = dict_get(I, b, *key);
        if (!is_err(*y) && differ(I, *x, *y))
            return true;
    }
    return false;
}

/* One step down; false: they differ themselves. */
static bool odd_part(Interp *I, Value *a, Value *b, StrBuf *path)
{
    Value key, x, y;
    bool list = a->tag == V_LIST;

    if (a->tag != b->tag)
        return false;
    if (list || a->tag == V_TUPLE) {
        int64_t n = list ? as_list(*a)->n : as_tuple(*a)->n;
        for (int64_t i = 0; n == (list ? as_list(*b)->n : as_tuple(*b)->n) && i < n; i++) {
            x = list ? as_list(*a)->at[i] : as_tuple(*a)->at[i];
            y = list ? as_list(*b)->at[i] : as_tuple(*b)->at[i];
            if (differ(I, x, y)) {
                sb_printf(path, "[%lld]", (long long)i);
                *a = x, *b = y;
                return true;
            }
        }
        return false;
    }
    if (a->tag == V_INSTANCE && !is_err(inner(*a)) && !is_err(inner(*b)) && differ(I, inner(*a), inner(*b))) {
        *a = inner(*a), *b = inner(*b);
        return true;
    }
    if (a->tag != V_DICT && !(a->tag == V_INSTANCE && ((InstanceObj *)a->o)->cls == ((InstanceObj *)b->o)->cls))
        return false;
    bool dict = a->tag == V_DICT;
    if (!odd_key(I, dict ? as_dict(*a) : ((InstanceObj *)a->o)->attrs, dict ? as_dict(*b) : ((InstanceObj *)b->o)->attrs, &key, &x, &y))
        return false;
    if (dict) {
        sb_putc(path, '[');
        value_repr_to(I, key, path);
        sb_putc(path, ']');
    } else {
        sb_printf(path, ".%s", as_str(key)->s);
    }
    *a = x, *b = y;
    return true;
}

void tree_difference(Interp *I, Value *a, Value *b, StrBuf *path)
{
    enum { DEEPEST = 16 };

    for (int i = 0; i < DEEPEST && odd_part(I, a, b, path); i++)
        ;
    exc_clear(I);
}
