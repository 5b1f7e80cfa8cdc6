/*
 * guard.c - snapshots of what a staged function read, compared with what is there now.
 *
 * A snapshot is a tree of Items in the guard's arena, made at the first read of
 * a place.  Comparing walks it beside the present value: containers are compared by
 * shape and content, not by identity, so a model that was replaced by one of
 * the same structure still fits; functions, classes and modules by identity.
 * An object met twice is compared once.
 */
#include "frontend/tensor/guard_impl.h"

#include "frontend/check/scope.h"

#include <string.h>

enum { ITEMS_MAX = 1 << 18 };           /* larger trees are compared by identity from there on */

/* ------------------------------------------------------------- snapshots */

static Item *snapshot(Guard *g, Value v);

static void add_children(Guard *g, Item *it, int64_t n)
{
    it->n = (int)n;
    it->child = arena_array(&g->arena, Item *, n ? n : 1);
}

/* Of what has no keys. */
static void snap_sequence(Guard *g, Item *it, Value v)
{
    add_children(g, it, part_count(v));
    for (int i = 0; i < it->n; i++)
        it->child[i] = snapshot(g, part(g, it, v, i));
}

static void snap_dict(Guard *g, Item *it, DictObj *d)
{
    int64_t pos = 0;
    Value k, v, base = inside_of(it->v), cls = class_behind(it->v);
    int i;

    add_children(g, it, part_count(it->v));
    it->key = arena_array(&g->arena, Value, it->n + 1);
    for (i = 0; i < it->n && d && dict_next(d, &pos, &k, &v); i++) {
        it->key[i] = value_ref(k);
        it->child[i] = snapshot(g, v);
    }
    if (!is_err(base)) {
        it->key[i] = VERR;
        it->child[i++] = snapshot(g, base);
    }
    if (!is_err(cls)) {
        it->key[i] = (Value){.tag = V_NOTIMPL};
        it->child[i] = snapshot(g, cls);
    }
}

static Item *snapshot(Guard *g, Value v)
{
    Item *it = is_container(v) ? map_get_ptr(&g->seen_obj, v.o) : NULL;

    if (it)
        return it;
    it = arena_new(&g->arena, Item);
    it->v = value_ref(v);
    it->capture = -1;
    it->position = position_of(v);
    vec_push(&g->item, it);
    if (!is_container(v) || g->item.n > ITEMS_MAX)
        return it;
    if (!interp_enter(g->I)) {          /* nested too deeply to look into: compared by identity */
        exc_clear(g->I);
        return it;
    }
    map_set_ptr(&g->seen_obj, v.o, it);
    if (is_sequence(v))
        snap_sequence(g, it, v);
    else
        snap_dict(g, it, dict_of(v));
    interp_leave(g->I);
    return it;
}

static void note(Guard *g, RootKind kind, Value holder, uint32_t slot)
{
    uint64_t key = (uint64_t)(uintptr_t)holder.o + slot + 1;
    Root p = {.kind = kind, .holder = holder, .slot = slot};

    if (map_find(&g->seen_place, key, NULL))
        return;
    map_set(&g->seen_place, key, 1);
    p.root = snapshot(g, place_value(&p));
    value_ref(holder);
    vec_push(&g->place, p);
}

/* Who else wants to know: a guard around this one, or a branch that this one is staged in. */
static void tell(ReadLog *log, const Root *p)
{
    if (!log)
        return;
    switch (p->kind) {
    case PLACE_CELL: log->cell(log, (CellObj *)p->holder.o); break;
    case PLACE_GLOBAL: log->global(log, (ModuleObj *)p->holder.o, p->slot); break;
    case PLACE_VALUE: log->value(log, p->holder); break;
    }
}

/* A variable of the staged function itself is made anew by every call: inside of this one, and so of those around it. */
static void note_cell(ReadLog *log, CellObj *cell)
{
    Guard *g = (Guard *)log;

    if (map_find(&g->inside, (uint64_t)(uintptr_t)cell, NULL))
        return;
    note(g, PLACE_CELL, vobj(cell), 0);
    if (g->outer)
        g->outer->cell(g->outer, cell);
}

static void note_made(ReadLog *log, CellObj *cell)
{
    Guard *g = (Guard *)log;

    map_set(&g->inside, (uint64_t)(uintptr_t)cell, 1);
    vec_push(&g->made, value_ref(vobj(cell)));
    if (g->outer)
        g->outer->made(g->outer, cell);
}

static void note_global(ReadLog *log, ModuleObj *m, uint32_t slot)
{
    Guard *g = (Guard *)log;

    note(g, PLACE_GLOBAL, vobj(m), slot);
    if (g->outer)
        g->outer->global(g->outer, m, slot);
}

static void note_value(ReadLog *log, Value v)
{
    Guard *g = (Guard *)log;

    note(g, PLACE_VALUE, v, 0);
    if (g->outer)
        g->outer->value(g->outer, v);
}

void guard_note_value(Guard *g, Value v)
{
    if (is_obj(v))
        note_value(&g->log, v);
}

void guard_renote(Guard *g)
{
    for (int i = 0; g && i < g->place.n; i++)
        tell(interp_reads(g->I), &g->place.at[i]);
}

Guard *guard_begin(Interp *I)
{
    Guard *g = tsr_calloc(sizeof *g);

    g->I = I;
    g->log = (ReadLog){note_cell, note_global, note_made, note_value};
    g->outer = interp_set_reads(I, &g->log);
    return g;
}

void guard_end(Guard *g)
{
    interp_set_reads(g->I, g->outer);
    g->outer = NULL;
    for (int i = 0; i < g->item.n; i++)
        g->spent |= position_of(g->item.at[i]->v) != g->item.at[i]->position;
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
    for (int i = 0; g && i < g->place.n; i++)
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

/* Going through a dict gives the keys in the order in which they came. */
static bool same_order(Guard *g, const Item *it, DictObj *d)
{
    int64_t pos = 0;
    Value k, v;

    for (int i = 0; i < it->n && dict_next(d, &pos, &k, &v); i++)
        if (!(k.tag == it->key[i].tag && k.i == it->key[i].i) && value_equal(g->I, k, it->key[i]) != 1)
            return false;
    return true;
}

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
    if (v.tag == V_FUNC || v.tag == V_CLASS) {
        if (v.o != it->v.o)
            return false;
    } else if (v.tag == V_NATIVEOBJ && native_type(v) != native_type(it->v)) {
        return false;
    }
    if (part_count(v) != it->n || (v.tag == V_INSTANCE && ((InstanceObj *)v.o)->cls != ((InstanceObj *)it->v.o)->cls))
        return false;
    if (v.tag == V_DICT && !same_order(g, it, as_dict(v)))
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
    bool ok = !g->spent;

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

/* ------------------------------------------------------------- places and their names */

typedef struct Visit {
    Guard *g;
    Map seen;                   /* containers */
    StrBuf path;
    void (*fn)(void *st, const GuardPlace *p);
    void *st;
} Visit;

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
        if (it->key && (is_err(it->key[i]) || it->key[i].tag == V_NOTIMPL)) {
            ;                                               /* what is inside goes by the object's name */
        } else if (it->key) {
            Value text = value_str(v->g->I, it->key[i]);
            if (is_err(text))
                exc_clear(v->g->I);
            else
                sb_printf(&v->path, ".%s", as_str(text)->s);
            value_unref(text);
        } else if (it->v.tag != V_BOUND && it->v.tag != V_FUNC) {
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
