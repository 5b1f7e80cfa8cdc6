/*
 * Snapshots of the mutable objects that staged code can reach.
 *
 * One Held for each object, with its content as it was; the objects are found
 * breadth first, so depth needs no stack.  Lists, dicts, sets, cells, globals and
 * the positions of builtin iterators can be put back.  Generators and objects made in C
 * cannot: that they moved is noticed and refused.
 */
#include "frontend/eval/snapshot.h"

#include <string.h>

typedef struct Held {
    Value v;                    /* owned */
    Value *val, *key;           /* its content then, owned; key: of dicts and sets */
    int64_t n;
    uint64_t mark;              /* iterators: position; generators and C objects: how far they went */
    struct Held *in;            /* what it was found in; NULL: a variable */
    Value at;                   /* under which key or index. Owned */
    Sym name;
} Held;

typedef struct Global { ModuleObj *m; uint32_t slot; Value before; } Global;

struct Shot {
    ReadLog log;                /* first: the evaluator calls through it */
    ReadLog *outer;
    Interp *I;
    Vec(Held *) held;
    Map seen;                   /* Obj -> Held */
    Vec(Global) global;
    Map seen_global;
    Map made;                   /* cells that the arms made: theirs alone */
    Vec(Value) kept;            /* the same, counted, so that no other object takes their address */
};

/* ------------------------------------------------------------- places */

static DictObj *keyed(Value of)
{
    return of.tag == V_INSTANCE ? ((InstanceObj *)of.o)->attrs : as_dict(of);
}

Value spot_read(Interp *I, const Spot *p, Frame *f)
{
    switch (p->kind) {
    case SPOT_LOCAL: return value_ref(f->slot[p->at]);
    case SPOT_GLOBAL: return value_ref(((ModuleObj *)p->of.o)->slot[p->at]);
    case SPOT_CELL: return value_ref(((CellObj *)p->of.o)->v);
    case SPOT_ELEMENT: return p->at < as_list(p->of)->n ? value_ref(as_list(p->of)->at[p->at]) : VERR;
    case SPOT_KEY: return keyed(p->of) ? value_ref(dict_get(I, keyed(p->of), p->key)) : VERR;
    case SPOT_WHOLE: return tuple_from(I, p->of);
    }
    return VERR;
}

static void put(Value *at, Value v)
{
    Value old = *at;

    *at = value_ref(v);
    value_unref(old);
}

static bool write_key(Interp *I, Value of, Value key, Value v)
{
    if (of.tag == V_INSTANCE && !keyed(of))
        ((InstanceObj *)of.o)->attrs = as_dict(dict_new());
    return is_err(v) ? dict_del(I, keyed(of), key) >= 0 : dict_set(I, keyed(of), key, v);
}

static void write_whole(ListObj *l, const TupleObj *t)
{
    for (int64_t i = 0; i < t->n; i++)
        value_ref(t->at[i]);
    while (l->n)
        value_unref(l->at[--l->n]);
    for (int64_t i = 0; i < t->n; i++)
        list_push(l, t->at[i]);
}

bool spot_write(Interp *I, const Spot *p, Frame *f, Value v)
{
    switch (p->kind) {
    case SPOT_LOCAL: put(&f->slot[p->at], v); return true;
    case SPOT_GLOBAL: put(&((ModuleObj *)p->of.o)->slot[p->at], v); return true;
    case SPOT_CELL: put(&((CellObj *)p->of.o)->v, v); return true;
    case SPOT_ELEMENT:
        if (p->at < as_list(p->of)->n)
            put(&as_list(p->of)->at[p->at], v);
        return true;
    case SPOT_KEY: return write_key(I, p->of, p->key, v);
    case SPOT_WHOLE: write_whole(as_list(p->of), as_tuple(v)); return true;
    }
    return false;
}

bool spot_equal(Interp *I, const Spot *a, const Spot *b)
{
    bool ab = a->kind != SPOT_LOCAL, bb = b->kind != SPOT_LOCAL;

    if (ab != bb || (ab && a->of.o != b->of.o))
        return false;
    if (a->kind == SPOT_WHOLE || b->kind == SPOT_WHOLE)
        return a->kind == b->kind;
    return a->kind == SPOT_KEY ? b->kind == SPOT_KEY && value_equal(I, a->key, b->key) == 1 : a->at == b->at;
}

void spot_free(Spot *p)
{
    value_unref(p->of);
    value_unref(p->key);
    value_unref(p->number);
}

/* ------------------------------------------------------------- taking */

/* Objects that hold others or that move. */
static bool is_held(Value v)
{
    switch (v.tag) {
    case V_LIST: case V_TUPLE: case V_DICT: case V_SET: case V_INSTANCE: case V_CELL: case V_FUNC: case V_BOUND: case V_NATIVE:
    case V_ITER: case V_GENERATOR: case V_COROUTINE: case V_NATIVEOBJ: case V_PROPERTY: case V_STATICMETHOD: case V_CLASSMETHOD:
        return true;
    default: return false;
    }
}

static Held *hold(Shot *s, Value v, Held *in, Value at, Sym name)
{
    Held *h;

    if (!is_held(v) || map_find(&s->seen, (uintptr_t)v.o, NULL))
        return NULL;
    h = tsr_calloc(sizeof *h);
    h->v = value_ref(v);
    h->in = in;
    h->at = value_ref(at);
    h->name = name;
    map_set_ptr(&s->seen, v.o, h);
    vec_push(&s->held, h);
    return h;
}

static void keep_sequence(Held *h, const Value *at, int64_t n)
{
    h->n = n;
    h->val = tsr_alloc(sizeof *h->val * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++)
        h->val[i] = value_ref(at[i]);
}

static void keep_dict(Held *h, DictObj *d)
{
    int64_t pos = 0, i = 0, n = d ? d->n : 0;
    Value k, v;

    h->val = tsr_alloc(sizeof *h->val * (size_t)(n + 1));
    h->key = tsr_alloc(sizeof *h->key * (size_t)(n + 1));
    for (; i < n && dict_next(d, &pos, &k, &v); i++) {
        h->key[i] = value_ref(k);
        h->val[i] = h->v.tag == V_SET ? VNONE : value_ref(v);
    }
    h->n = i;
}

static uint64_t mix(uint64_t h, uint64_t x) { return (h ^ x) * 0x100000001b3u; }

static void count_value(Value *v, void *st)
{
    *(uint64_t *)st = mix(mix(*(uint64_t *)st, v->tag), (uint64_t)v->i);
}

/* An object made in C: its bytes and the values it owns. Callables may remember what they like (caches, graphs). */
static uint64_t native_mark(Value v)
{
    const uint64_t *word = (const uint64_t *)v.o + sizeof(Obj) / 8, *end = (const uint64_t *)v.o + v.o->flags;
    uint64_t h = 14695981039346656037u;

    if (((NativeInst *)v.o)->type->call)
        return 0;
    for (; word < end; word++)
        h = mix(h, *word);
    obj_visit(v.o, count_value, &h);
    return h;
}

/* What an object without restorable content looks like: a number that changes when it does. */
static uint64_t mark_of(Value v)
{
    switch (v.tag) {
    case V_ITER: return (uint64_t)((IterObj *)v.o)->at;
    case V_GENERATOR: case V_COROUTINE: return v.o->flags;
    case V_NATIVEOBJ: return native_mark(v);
    default: return 0;
    }
}

typedef struct Finding { Shot *s; Held *in; } Finding;

static void found(Value *v, void *st)
{
    Finding *f = st;

    hold(f->s, *v, f->in, VNONE, NULL);
}

static void keep(Shot *s, Held *h)
{
    Finding all = {s, h};
    Value v = h->v;

    h->mark = mark_of(v);
    switch (v.tag) {
    case V_LIST: keep_sequence(h, as_list(v)->at, as_list(v)->n); break;
    case V_CELL: keep_sequence(h, &((CellObj *)v.o)->v, 1); break;
    case V_DICT: case V_SET: keep_dict(h, as_dict(v)); break;
    case V_INSTANCE:
        keep_dict(h, ((InstanceObj *)v.o)->attrs);
        hold(s, ((InstanceObj *)v.o)->base, h, VNONE, NULL);
        break;
    default:
        obj_visit(v.o, found, &all);
        return;
    }
    for (int64_t i = 0; i < h->n; i++)
        hold(s, h->val[i], h, h->key ? h->key[i] : vint(i), v.tag == V_CELL ? h->name : NULL);
}

/* Hold v and all that is reached from it. */
static void take(Shot *s, Value v, Sym name)
{
    int next = s->held.n;

    hold(s, v, NULL, VNONE, name);
    for (; next < s->held.n; next++)
        keep(s, s->held.at[next]);
}

static void note_cell(ReadLog *log, CellObj *cell)
{
    Shot *s = (Shot *)log;

    if (!map_find(&s->made, (uintptr_t)cell, NULL))
        take(s, vobj(cell), NULL);
    if (s->outer)
        s->outer->cell(s->outer, cell);
}

static void note_made(ReadLog *log, CellObj *cell)
{
    Shot *s = (Shot *)log;

    map_set(&s->made, (uintptr_t)cell, 1);
    vec_push(&s->kept, value_ref(vobj(cell)));
    if (s->outer)
        s->outer->made(s->outer, cell);
}

static void note_global(ReadLog *log, ModuleObj *m, uint32_t slot)
{
    Shot *s = (Shot *)log;
    uint64_t key = (uint64_t)(uintptr_t)m + slot + 1;
    Global g = {m, slot, m->slot[slot]};

    if (!map_find(&s->seen_global, key, NULL)) {
        map_set(&s->seen_global, key, 1);
        m->obj.refs++;
        value_ref(g.before);
        vec_push(&s->global, g);
        take(s, g.before, m->scope && (int)slot < m->scope->locals.n ? m->scope->locals.at[slot].name : NULL);
    }
    if (s->outer)
        s->outer->global(s->outer, m, slot);
}

static void note_value(ReadLog *log, Value v)
{
    Shot *s = (Shot *)log;

    take(s, v, NULL);
    if (s->outer)
        s->outer->value(s->outer, v);
}

Sym local_name(const Code *c, int slot)
{
    for (int i = 0; c->scope && i < c->scope->locals.n; i++)
        if ((int)c->scope->locals.at[i].slot == slot)
            return c->scope->locals.at[i].name;
    return NULL;
}

Shot *shot_take(Interp *I, Frame *f)
{
    Shot *s = tsr_calloc(sizeof *s);
    const Scope *scope = f->code->scope;

    s->I = I;
    for (int i = 0; i < f->code->nslots; i++)
        take(s, f->slot[i], local_name(f->code, i));
    for (int i = 0; f->closure && scope && i < scope->frees.n; i++)
        take(s, vobj(f->closure[i]), scope->frees.at[i].name);
    s->log = (ReadLog){note_cell, note_global, note_made, note_value};
    s->outer = interp_set_reads(I, &s->log);
    return s;
}

static void drop(Value *v, int64_t n)
{
    for (int64_t i = 0; v && i < n; i++)
        value_unref(v[i]);
    tsr_free(v);
}

void shot_free(Shot *s)
{
    interp_set_reads(s->I, s->outer);
    for (int i = 0; i < s->held.n; i++) {
        Held *h = s->held.at[i];
        drop(h->val, h->n);
        drop(h->key, h->n);
        value_unref(h->at);
        value_unref(h->v);
        tsr_free(h);
    }
    for (int i = 0; i < s->global.n; i++) {
        value_unref(s->global.at[i].before);
        obj_unref(s->global.at[i].m);
    }
    for (int i = 0; i < s->kept.n; i++)
        value_unref(s->kept.at[i]);
    vec_free(&s->kept);
    map_done(&s->made);
    vec_free(&s->held);
    vec_free(&s->global);
    map_done(&s->seen);
    map_done(&s->seen_global);
    tsr_free(s);
}

bool shot_has(const Shot *s, Value v)
{
    return is_obj(v) && map_find(&s->seen, (uintptr_t)v.o, NULL);
}

/* ------------------------------------------------------------- names */

static void name_held(Interp *I, const Held *h, StrBuf *out, int depth)
{
    if (!h->in || depth > 8) {
        sb_puts(out, h->name ? h->name->text : "an object");
        return;
    }
    name_held(I, h->in, out, depth + 1);
    if (h->in->v.tag == V_INSTANCE && h->at.tag == V_STR) {
        sb_printf(out, ".%s", as_str(h->at)->s);
    } else if (h->in->v.tag == V_LIST || h->in->v.tag == V_DICT) {
        sb_putc(out, '[');
        if (!value_repr_to(I, h->at, out))
            exc_clear(I);
        sb_putc(out, ']');
    }
}

void shot_name(Shot *s, const Spot *p, StrBuf *out)
{
    const Held *h = is_obj(p->of) ? map_get_ptr(&s->seen, p->of.o) : NULL;

    if (p->name || !h) {
        sb_puts(out, p->name ? p->name->text : "a variable");
        return;
    }
    name_held(s->I, h, out, 0);
    if (p->kind == SPOT_KEY && p->of.tag == V_INSTANCE && p->key.tag == V_STR) {
        sb_printf(out, ".%s", as_str(p->key)->s);
    } else if (p->kind == SPOT_ELEMENT || p->kind == SPOT_KEY) {
        sb_putc(out, '[');
        if (!value_repr_to(s->I, p->kind == SPOT_KEY ? p->key : vint(p->at), out))
            exc_clear(s->I);
        sb_putc(out, ']');
    }
}

/* ------------------------------------------------------------- comparing */

static bool same_value(Value a, Value b) { return a.tag == b.tag && (a.tag < V_BOOL || a.i == b.i); }

static bool add_spot(Shot *s, Spots *places, Spot p)
{
    for (int i = 0; i < places->n; i++)
        if (spot_equal(s->I, &places->at[i], &p))
            return false;
    value_ref(p.of);
    value_ref(p.key);
    vec_push(places, p);
    return true;
}

/* A list that is a place as a whole has no elements that are. */
static bool is_whole(const Shot *s, const Spots *places, const Spot *whole)
{
    for (int i = 0; i < places->n; i++)
        if (spot_equal(s->I, &places->at[i], whole))
            return true;
    return false;
}

static bool list_changes(Shot *s, const Held *h, Spots *places)
{
    const ListObj *l = as_list(h->v);
    bool any = false;
    Spot p = {.kind = SPOT_WHOLE, .of = h->v, .key = VNONE};

    if (is_whole(s, places, &p))
        return false;
    if (l->n != h->n)
        return add_spot(s, places, p);
    p.kind = SPOT_ELEMENT;
    for (p.at = 0; p.at < h->n; p.at++)
        if (!same_value(l->at[p.at], h->val[p.at]))
            any |= add_spot(s, places, p);
    return any;
}

/* Keys whose values differ, keys that went, keys that came. */
static bool dict_changes(Shot *s, const Held *h, Spots *places)
{
    DictObj *d = h->v.tag == V_INSTANCE ? ((InstanceObj *)h->v.o)->attrs : as_dict(h->v);
    Spot p = {.kind = SPOT_KEY, .of = h->v};
    bool any = false;
    int64_t pos = 0, i = 0;
    Value v;

    if (!d)
        return false;
    for (i = 0; i < h->n && d->n == h->n && dict_next(d, &pos, &p.key, &v); i++)      /* as a rule nothing changed */
        if (p.key.o != h->key[i].o || !same_value(v, h->val[i]))
            break;
    if (i == h->n && d->n == h->n)
        return false;
    for (i = 0; i < h->n; i++) {
        p.key = h->key[i];
        if (!same_value(dict_get(s->I, d, p.key), h->val[i]))
            any |= add_spot(s, places, p);
    }
    for (pos = 0; dict_next(d, &pos, &p.key, &v);) {
        for (i = 0; i < h->n && value_equal(s->I, h->key[i], p.key) != 1;)
            i++;
        if (i == h->n)
            any |= add_spot(s, places, p);
    }
    return any;
}

/* Did the set change? Its elements are static, so there is nothing to join. */
static bool set_changed(const Held *h)
{
    int64_t pos = 0;
    Value k, v;

    for (int64_t i = 0; i < h->n; i++)
        if (!dict_next(as_dict(h->v), &pos, &k, &v) || k.o != h->key[i].o)
            return true;
    return dict_next(as_dict(h->v), &pos, &k, &v);
}

static bool refuse_moved(Shot *s, const Held *h)
{
    StrBuf b = {0};
    bool gen = h->v.tag == V_GENERATOR || h->v.tag == V_COROUTINE;
    bool it = h->v.tag == V_ITER || (h->v.tag == V_NATIVEOBJ && ((NativeInst *)h->v.o)->type->next);

    name_held(s->I, h, &b, 0);
    raise(s->I, EXC_TypeError, "E0541: '%s' (%s) is %s in code that runs only where a condition on a staged tensor holds, and cannot be "
          "put back for the other branch; %s before the branch", sb_str(&b), value_type_name(h->v), gen || it ? "advanced" : "changed",
          gen || it ? "take its elements" : "change it");
    sb_done(&b);
    return false;
}

bool shot_changes(Shot *s, Spots *places, bool *found)
{
    Spot p = {.kind = SPOT_GLOBAL, .key = VNONE};

    for (int i = 0; i < s->held.n; i++) {
        const Held *h = s->held.at[i];
        if (h->v.tag == V_LIST)
            *found |= list_changes(s, h, places);
        else if (h->v.tag == V_DICT || h->v.tag == V_INSTANCE)
            *found |= dict_changes(s, h, places);
        else if (h->v.tag == V_SET && set_changed(h))
            return refuse_moved(s, h);
        else if (h->v.tag == V_CELL && !same_value(((CellObj *)h->v.o)->v, h->val[0]))
            *found |= add_spot(s, places, (Spot){.kind = SPOT_CELL, .of = h->v, .key = VNONE, .name = h->name});
        else if (h->v.tag != V_CELL && mark_of(h->v) != h->mark)
            return refuse_moved(s, h);
    }
    for (int i = 0; i < s->global.n; i++) {
        const Global *g = &s->global.at[i];
        if (same_value(g->m->slot[g->slot], g->before))
            continue;
        p.of = vobj(g->m);
        p.at = g->slot;
        p.name = g->m->scope && (int)g->slot < g->m->scope->locals.n ? g->m->scope->locals.at[g->slot].name : NULL;
        *found |= add_spot(s, places, p);
    }
    return !exc_pending(s->I);
}

/* ------------------------------------------------------------- going back */

static void undo_list(ListObj *l, const Held *h)
{
    while (l->n > h->n)
        value_unref(l->at[--l->n]);
    for (int64_t i = 0; i < h->n; i++)
        if (i >= l->n)
            list_push(l, value_ref(h->val[i]));
        else if (!same_value(l->at[i], h->val[i]))
            put(&l->at[i], h->val[i]);
}

/* The old keys in the old order? */
static bool has_keys(DictObj *d, const Held *h)
{
    int64_t pos = 0, i = 0;
    Value k, v;

    while (i < h->n && dict_next(d, &pos, &k, &v) && k.o == h->key[i].o && k.tag == h->key[i].tag)
        i++;
    return i == h->n && d->n == h->n;
}

/* In the old order; who goes over it goes on where its keys are as they were. */
static bool undo_dict(Interp *I, DictObj *d, const Held *h)
{
    bool ok = true;
    int64_t pos = 0;
    Value k, v;

    if (has_keys(d, h)) {
        for (int64_t i = 0; h->v.tag != V_SET && dict_next(d, &pos, &k, &v); i++)
            if (!same_value(v, h->val[i]))
                put(&d->entry[pos - 1].val, h->val[i]);
        return true;
    }
    dict_clear(d);
    for (int64_t i = 0; ok && i < h->n; i++)
        ok = h->v.tag == V_SET ? set_add(I, d, h->key[i]) : dict_set(I, d, h->key[i], h->val[i]);
    return ok;
}

bool shot_undo(Shot *s)
{
    bool ok = true;

    for (int i = 0; i < s->held.n; i++) {
        const Held *h = s->held.at[i];
        if (h->v.tag == V_LIST)
            undo_list(as_list(h->v), h);
        else if (h->v.tag == V_DICT || h->v.tag == V_SET)
            ok &= undo_dict(s->I, as_dict(h->v), h);
        else if (h->v.tag == V_INSTANCE && ((InstanceObj *)h->v.o)->attrs)
            ok &= undo_dict(s->I, ((InstanceObj *)h->v.o)->attrs, h);
        else if (h->v.tag == V_CELL && !same_value(((CellObj *)h->v.o)->v, h->val[0]))
            put(&((CellObj *)h->v.o)->v, h->val[0]);
        else if (h->v.tag == V_ITER)
            ((IterObj *)h->v.o)->at = (int64_t)h->mark;
    }
    for (int i = 0; i < s->global.n; i++)
        put(&s->global.at[i].m->slot[s->global.at[i].slot], s->global.at[i].before);
    return ok;
}
