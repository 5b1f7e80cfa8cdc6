/*
 * guard.c - snapshots of what a staged function read, compared and written through.
 *
 * A snapshot is a tree of Items in the guard's arena, made at the first read of
 * a place.  Comparing walks it beside the present value: containers are compared by
 * shape and content, not by identity, so a model that was replaced by one of
 * the same structure still fits; functions, classes and modules by identity.
 * An object met twice is compared once.
 */
#include "frontend/tensor/guard.h"

#include "frontend/check/scope.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "frontend/check/scope.h"

#include <string.h>

enum { ITEMS_MAX = 1 << 18 };           /* larger trees are compared by identity from there on */

typedef struct Item {
    Value v;                    /* owned */
    Value now;                  /* the container as guard_check last saw it; borrowed */
    struct Item **child;        /* of list, tuple, dict (by order of keys), instance */
    Value *key;                 /* dict and instance: keys of the children; borrowed from v */
    int n;
    int capture;                /* tensor: index among the graph's captures, -1 none */
} Item;

typedef enum { PLACE_CELL, PLACE_GLOBAL, PLACE_VALUE } RootKind;
typedef struct Root {
    RootKind kind;
    Value holder;               /* cell; module; the value itself. Owned */
    uint32_t slot;
    Item *root;
} Root;

/* One store: into child `at` of `in`, or into the place itself when in is NULL. */
typedef struct Write { int place; Item *in; int at; } Write;

struct Guard {
    ReadLog log;                /* first: the evaluator calls through it */
    Interp *I;
    Guard *outer;
    ReadLog *outer_log;
    Arena arena;
    Map seen_place, seen_obj;   /* place key, object -> Item */
    Map inside;                 /* cells made since guard_begin */
    Vec(Value) made;            /* the same, held until guard_end so that no other takes the address */
    Vec(Root) place;
    Vec(Item *) item;
    Vec(Write) write;
    Tensor **fresh;             /* guard_check: the captures being gathered */
    Map compared;               /* objects of this comparison */
    Item *odd;                  /* the innermost item that differed in it, NULL: none */
    Value odd_now;              /* what stands there now; V_ERR: nothing. Borrowed */
};

/* ------------------------------------------------------------- snapshots */

static Item *snapshot(Guard *g, Value v);

static void add_children(Guard *g, Item *it, int64_t n)
{
    it->n = (int)n;
    it->child = arena_array(&g->arena, Item *, n ? n : 1);
}

static void snap_sequence(Guard *g, Item *it, const Value *at, int64_t n)
{
    add_children(g, it, n);
    for (int i = 0; i < it->n; i++)
        it->child[i] = snapshot(g, at[i]);
}

static void snap_dict(Guard *g, Item *it, DictObj *d)
{
    int64_t pos = 0;
    Value k, v;

    add_children(g, it, d ? d->n : 0);
    it->key = arena_array(&g->arena, Value, it->n + 1);
    for (int i = 0; i < it->n && dict_next(d, &pos, &k, &v); i++) {
        it->key[i] = value_ref(k);
        it->child[i] = snapshot(g, v);
    }
}

/* Builtin storage that is walked; the others are leaves. */
static bool is_container(Value v)
{
    return v.tag == V_LIST || v.tag == V_TUPLE || v.tag == V_DICT || v.tag == V_INSTANCE || v.tag == V_BOUND;
}

static Item *snapshot(Guard *g, Value v)
{
    Item *it = is_container(v) ? map_get_ptr(&g->seen_obj, v.o) : NULL;

    if (it)
        return it;
    it = arena_new(&g->arena, Item);
    it->v = value_ref(v);
    it->capture = -1;
    vec_push(&g->item, it);
    if (!is_container(v) || g->item.n > ITEMS_MAX)
        return it;
    if (!interp_enter(g->I)) {          /* nested too deeply to look into: compared by identity */
        exc_clear(g->I);
        return it;
    }
    map_set_ptr(&g->seen_obj, v.o, it);
    if (v.tag == V_LIST)
        snap_sequence(g, it, as_list(v)->at, as_list(v)->n);
    else if (v.tag == V_TUPLE)
        snap_sequence(g, it, as_tuple(v)->at, as_tuple(v)->n);
    else if (v.tag == V_DICT)
        snap_dict(g, it, as_dict(v));
    else if (v.tag == V_BOUND)
        snap_sequence(g, it, (Value[]){((BoundObj *)v.o)->self, ((BoundObj *)v.o)->func}, 2);
    else
        snap_dict(g, it, ((InstanceObj *)v.o)->attrs);
    interp_leave(g->I);
    return it;
}

static Value place_value(const Root *p)
{
    if (p->kind == PLACE_CELL)
        return ((CellObj *)p->holder.o)->v;
    if (p->kind == PLACE_GLOBAL)
        return ((ModuleObj *)p->holder.o)->slot[p->slot];
    return p->holder;
}

static void note(Guard *g, RootKind kind, Value holder, uint32_t slot)
{
    uint64_t key = (uint64_t)(uintptr_t)holder.o + slot + 1;
    Root p = {.kind = kind, .holder = holder, .slot = slot};

    for (; g; g = g->outer) {
        if (kind == PLACE_CELL && map_find(&g->inside, (uint64_t)(uintptr_t)holder.o, NULL))
            break;                                      /* inside of this one, and so of those around it */
        if (map_find(&g->seen_place, key, NULL))
            continue;
        map_set(&g->seen_place, key, 1);
        p.root = snapshot(g, place_value(&p));
        value_ref(holder);
        vec_push(&g->place, p);
    }
}

/* A variable of the staged function itself is made anew by every call. */
static void note_cell(ReadLog *log, CellObj *cell)
{
    if (!map_find(&((Guard *)log)->inside, (uint64_t)(uintptr_t)cell, NULL))
        note((Guard *)log, PLACE_CELL, vobj(cell), 0);
}

static void note_made(ReadLog *log, CellObj *cell)
{
    for (Guard *g = (Guard *)log; g; g = g->outer) {
        map_set(&g->inside, (uint64_t)(uintptr_t)cell, 1);
        vec_push(&g->made, value_ref(vobj(cell)));
    }
}

static void note_global(ReadLog *log, ModuleObj *m, uint32_t slot)
{
    note((Guard *)log, PLACE_GLOBAL, vobj(m), slot);
}

void guard_note_value(Guard *g, Value v)
{
    if (is_obj(v))
        note(g, PLACE_VALUE, v, 0);
}

void guard_renote(Guard *g)
{
    Guard *open = (Guard *)interp_reads(g->I);

    for (int i = 0; open && i < g->place.n; i++)
        note(open, g->place.at[i].kind, g->place.at[i].holder, g->place.at[i].slot);
}

Guard *guard_begin(Interp *I)
{
    Guard *g = tsr_calloc(sizeof *g);

    g->I = I;
    g->log = (ReadLog){note_cell, note_global, note_made};
    g->outer_log = interp_set_reads(I, &g->log);
    g->outer = (Guard *)g->outer_log;
    return g;
}

void guard_end(Guard *g)
{
    interp_set_reads(g->I, g->outer_log);
    g->outer = NULL;
    for (int i = 0; i < g->made.n; i++)
        value_unref(g->made.at[i]);
    vec_free(&g->made);
    map_done(&g->inside);
    map_done(&g->seen_obj);
    map_done(&g->seen_place);
}

void guard_free(Guard *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->item.n; i++) {
        Item *it = g->item.at[i];
        for (int k = 0; it->key && k < it->n; k++)
            value_unref(it->key[k]);
        value_unref(it->v);
    }
    for (int i = 0; i < g->place.n; i++)
        value_unref(g->place.at[i].holder);
    vec_free(&g->item);
    vec_free(&g->place);
    vec_free(&g->write);
    map_done(&g->seen_obj);
    map_done(&g->seen_place);
    map_done(&g->compared);
    arena_done(&g->arena);
    tsr_free(g);
}

void guard_visit(Guard *g, void (*fn)(Value *v, void *st), void *st)
{
    for (int i = 0; g && i < g->item.n; i++) {
        Item *it = g->item.at[i];
        fn(&it->v, st);
        for (int k = 0; it->key && k < it->n; k++)
            fn(&it->key[k], st);
    }
    for (int i = 0; g && i < g->place.n; i++)
        fn(&g->place.at[i].holder, st);
}

void guard_bind_captures(Guard *g, Tensor *const *capture, int n)
{
    for (int i = 0; i < g->item.n; i++)
        for (int k = 0; g->item.at[i]->v.tag == V_TENSOR && k < n; k++)
            if (as_tensor(g->item.at[i]->v) == capture[k])
                g->item.at[i]->capture = k;
}

/* ------------------------------------------------------------- the parts of a container */

static DictObj *dict_of(Value v)
{
    return v.tag == V_DICT ? as_dict(v) : ((InstanceObj *)v.o)->attrs;
}

/* Child i of a container that has the item's keys; V_ERR: absent. Borrowed. */
static Value part(Guard *g, const Item *it, Value v, int i)
{
    DictObj *d;

    switch (v.tag) {
    case V_LIST: return i < as_list(v)->n ? as_list(v)->at[i] : VERR;
    case V_TUPLE: return i < as_tuple(v)->n ? as_tuple(v)->at[i] : VERR;
    case V_BOUND: return i ? ((BoundObj *)v.o)->func : ((BoundObj *)v.o)->self;
    default: d = dict_of(v); return d ? dict_get(g->I, d, it->key[i]) : VERR;
    }
}

static int64_t part_count(Value v)
{
    switch (v.tag) {
    case V_LIST: return as_list(v)->n;
    case V_TUPLE: return as_tuple(v)->n;
    case V_BOUND: return 2;
    default: return dict_of(v) ? dict_of(v)->n : 0;
    }
}

/* container[i] = x; refs x. */
static bool put_part(Guard *g, const Item *it, Value container, int i, Value x)
{
    if (container.tag == V_LIST) {
        value_ref(x);
        value_unref(as_list(container)->at[i]);
        as_list(container)->at[i] = x;
        return true;
    }
    return dict_set(g->I, dict_of(container), it->key[i], x);
}

static void put_place(const Root *p, Value x)
{
    Value *at = p->kind == PLACE_CELL ? &((CellObj *)p->holder.o)->v : &((ModuleObj *)p->holder.o)->slot[p->slot], old = *at;

    *at = value_ref(x);
    value_unref(old);
}

/* ------------------------------------------------------------- comparing */

static bool same_tensor(Guard *g, Item *it, Value v)
{
    Tensor *old = as_tensor(it->v), *t = as_tensor(v);

    if (it->capture >= 0 && g->fresh) {
        if (t->tracer || t->dtype != old->dtype || t->rank != old->rank || t->weak != old->weak || t->policy != old->policy ||
            memcmp(t->shape, old->shape, sizeof(Dim) * t->rank))
            return false;
        tensor_unref(g->fresh[it->capture]);
        g->fresh[it->capture] = tensor_ref(t);
        return true;
    }
    return t == old;
}

static bool same(Guard *g, Item *it, Value v);

static bool same_inside(Guard *g, Item *it, Value v)
{
    if (it->v.tag != v.tag)
        return false;
    if (v.tag == V_TENSOR)
        return same_tensor(g, it, v);
    if (v.tag == V_STR)
        return v.o == it->v.o || value_equal(g->I, v, it->v) == 1;
    if (v.tag == V_FLOAT)
        return !memcmp(&v.f, &it->v.f, sizeof v.f);
    if (!is_container(v))
        return v.i == it->v.i;
    if (!it->child)
        return v.o == it->v.o;
    if (map_find(&g->compared, (uintptr_t)it, NULL))
        return it->now.o == v.o;
    map_set(&g->compared, (uintptr_t)it, 1);
    it->now = v;
    if (part_count(v) != it->n || (v.tag == V_INSTANCE && ((InstanceObj *)v.o)->cls != ((InstanceObj *)it->v.o)->cls))
        return false;
    for (int i = 0; i < it->n; i++) {
        Value x = part(g, it, v, i);
        if (is_err(x) || !same(g, it->child[i], x))
            return false;
    }
    return true;
}

static bool same(Guard *g, Item *it, Value v)
{
    bool ok = same_inside(g, it, v);

    if (!ok && !g->odd) {
        g->odd = it;
        g->odd_now = v;
    }
    return ok;
}

int guard_check(Guard *g, Tensor **capture)
{
    bool ok = true;

    g->fresh = capture;
    g->odd = NULL;
    map_done(&g->compared);
    for (int i = 0; ok && i < g->place.n; i++)
        ok = same(g, g->place.at[i].root, place_value(&g->place.at[i]));
    g->fresh = NULL;
    return exc_pending(g->I) ? -1 : ok;
}

/* What a variable is called. */
static void put_name(const Root *p, StrBuf *out)
{
    const ModuleObj *m = (const ModuleObj *)p->holder.o;

    if (p->kind == PLACE_GLOBAL && m->scope && (int)p->slot < m->scope->locals.n)
        sb_printf(out, "the global %s", m->scope->locals.at[p->slot].name->text);
    else
        sb_puts(out, p->kind == PLACE_VALUE ? "the object that is staged" : "a variable of a function around it");
}

static void put_old_and_new(Guard *g, const Item *it, Value now, StrBuf *out)
{
    enum { MOST = 60 };
    StrBuf a = {0}, b = {0};

    if (it->v.tag == V_TENSOR && now.tag == V_TENSOR) {
        TType was = tensor_type(as_tensor(it->v)), is = tensor_type(as_tensor(now));
        ttype_print(&is, &a);
        ttype_print(&was, &b);
    } else if (!value_repr_to(g->I, now, &a) || !value_repr_to(g->I, it->v, &b)) {
        exc_clear(g->I);
    }
    if (is_container(now) && now.o == it->v.o)          /* itself, with other contents */
        sb_printf(out, "has %lld parts and had %d", (long long)part_count(now), it->n);
    else
        sb_printf(out, "is %.*s and was %.*s", MOST, sb_str(&a), MOST, sb_str(&b));
    sb_done(&a);
    sb_done(&b);
}

bool guard_explain(Guard *g, int n, StrBuf *out)
{
    Tensor **now = tsr_calloc(sizeof *now * (size_t)(n + 1));
    const Root *odd = NULL;

    g->odd = NULL;
    g->fresh = now;
    map_done(&g->compared);
    for (int i = 0; !odd && i < g->place.n; i++)
        if (!same(g, g->place.at[i].root, place_value(&g->place.at[i])))
            odd = &g->place.at[i];
    g->fresh = NULL;
    for (int i = 0; i < n; i++)
        if (now[i])
            tensor_unref(now[i]);
    tsr_free(now);
    if (exc_pending(g->I))
        exc_clear(g->I);
    if (!odd)
        return false;
    put_name(odd, out);
    sb_puts(out, g->odd == odd->root ? " " : ": a part of it ");
    put_old_and_new(g, g->odd, g->odd_now, out);
    return true;
}

/* ------------------------------------------------------------- stores */

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
    if (v.tag == V_LIST || v.tag == V_TUPLE) {
        for (int64_t i = 0; i < part_count(v); i++)
            if (holds_staged(g, v.tag == V_LIST ? as_list(v)->at[i] : as_tuple(v)->at[i], depth + 1))
                return true;
        return false;
    }
    if (v.tag == V_BOUND)
        return false;
    d = dict_of(v);
    while (d && dict_next(d, &pos, &k, &x))
        if (holds_staged(g, x, depth + 1))
            return true;
    return false;
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
            known = value_equal(t->g->I, k, it->key[i]) == 1;
        if (!known && holds_staged(t->g, x, 0))
            return refuse(t->g, "add a tensor outside under", k);
    }
    return true;
}

static bool take_parts(Taking *t, Item *it, Value v)
{
    if (v.tag == V_LIST && as_list(v)->n != it->n)
        return !holds_staged(t->g, v, 0) || refuse(t->g, "change the length of a list outside that holds its tensors", VERR);
    for (int i = 0; i < it->n; i++) {
        Value x = part(t->g, it, v, i);
        if (!is_err(x) && !take_value(t, it, i, it->child[i], x))
            return false;
    }
    return (v.tag != V_DICT && v.tag != V_INSTANCE) || new_keys(t, it, dict_of(v));
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

/* Make an object again what it was when it was read. */
static void restore(Guard *g, Item *it)
{
    Value v = it->v;

    if (v.tag == V_LIST) {
        while (as_list(v)->n > it->n)
            value_unref(as_list(v)->at[--as_list(v)->n]);
        while (as_list(v)->n < it->n)
            list_push(as_list(v), VNONE);
    } else if (v.tag == V_DICT || v.tag == V_INSTANCE) {
        if (dict_of(v))
            dict_clear(dict_of(v));
    } else {
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

/* ------------------------------------------------------------- places and their names */

typedef struct Visit {
    Guard *g;
    Map seen;                   /* containers */
    StrBuf path;
    void (*fn)(void *st, const GuardPlace *p);
    void *st;
} Visit;

static Tensor *tensor_at(const Item *it) { return it->v.tag == V_TENSOR ? as_tensor(it->v) : NULL; }

static void visit(Visit *v, const void *holder, int64_t at, const Item *it)
{
    size_t n = v->path.n;

    if (tensor_at(it)) {
        GuardPlace p = {holder, at, sb_str(&v->path), tensor_at(it), it->capture};
        v->fn(v->st, &p);
    }
    if (!it->child || map_find(&v->seen, (uintptr_t)it, NULL))
        return;
    map_set(&v->seen, (uintptr_t)it, 1);
    for (int i = 0; i < it->n; i++) {
        if (it->key) {
            Value text = value_str(v->g->I, it->key[i]);
            if (is_err(text))
                exc_clear(v->g->I);
            else
                sb_printf(&v->path, ".%s", as_str(text)->s);
            value_unref(text);
        } else if (it->v.tag != V_BOUND) {
            sb_printf(&v->path, ".%d", i);
        }
        visit(v, it->v.o, i, it->child[i]);
        v->path.n = n;
    }
}

/* Of a module's variable its name, behind the module's unless that is the program. */
static void put_root(Visit *v, const Root *p)
{
    const ModuleObj *m = (const ModuleObj *)p->holder.o;

    if (p->kind != PLACE_GLOBAL) {
        sb_puts(&v->path, p->kind == PLACE_CELL ? "closure" : "self");
        return;
    }
    if (m != interp_main(v->g->I))
        sb_printf(&v->path, "%s.", m->name->text);
    for (int i = 0; m->scope && i < m->scope->locals.n; i++)
        if (m->scope->locals.at[i].slot == p->slot) {
            sb_puts(&v->path, m->scope->locals.at[i].name->text);
            return;
        }
}

void guard_places(Guard *g, void (*fn)(void *st, const GuardPlace *p), void *st)
{
    Visit v = {.g = g, .fn = fn, .st = st};

    for (int i = 0; i < g->place.n; i++) {
        const Root *p = &g->place.at[i];
        sb_clear(&v.path);
        put_root(&v, p);
        visit(&v, p->holder.o, -1 - (int64_t)p->slot, p->root);
    }
    map_done(&v.seen);
    sb_done(&v.path);
}

GuardPlace guard_write_place(const Guard *g, int i)
{
    const Write *w = &g->write.at[i];
    const Root *p = &g->place.at[w->place];

    if (w->in)
        return (GuardPlace){w->in->v.o, w->at, "", tensor_at(w->in->child[w->at]), -1};
    return (GuardPlace){p->holder.o, -1 - (int64_t)p->slot, "", tensor_at(p->root), -1};
}
