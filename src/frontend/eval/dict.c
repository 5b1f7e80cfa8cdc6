/*
 * Insertion-ordered hash tables, for dicts, sets and namespaces.
 *
 * Entries stand in a dense array in order of insertion; index[] maps hashes to
 * them by linear probing.  Up to FEW entries there is no index: a scan over
 * eight keys is faster than any hash, and most objects have no more fields.
 * Keys that are strings compare by pointer first, since names are interned.
 */
#include "frontend/eval/eval.h"

#include "base/hash.h"

#include <string.h>

enum { FEW = 8, EMPTY = -1, DELETED = -2 };

uint32_t str_hash(StrObj *s)
{
    if (!s->hash) {
        s->hash = hash_bytes(s->s, s->len);
        s->hash += !s->hash;
    }
    return s->hash;
}

bool str_eq(const StrObj *a, const StrObj *b)
{
    return a == b || (a->len == b->len && !(a->sym && b->sym) && !memcmp(a->s, b->s, a->len));
}

Sym str_to_sym(StrObj *s)
{
    return s->sym ? s->sym : sym_n(s->s, s->len);
}

Value dict_new(void)
{
    return vobj(obj_new(V_DICT, sizeof(DictObj)));
}

Value set_new(void)
{
    return vobj(obj_new(V_SET, sizeof(SetObj)));
}

/* ------------------------------------------------------------- storage */

static void index_put(DictObj *d, uint32_t hash, int32_t e)
{
    uint32_t h = hash & d->mask;

    while (d->index[h] >= 0)
        h = (h + 1) & d->mask;
    d->index[h] = e;
}

/* The index anew, without marks of deleted keys: some place must stay empty for searches to end. */
static void reindex(DictObj *d)
{
    memset(d->index, 0xff, ((size_t)d->mask + 1) * sizeof *d->index);
    d->deleted = 0;
    for (int64_t i = 0; i < d->used; i++)
        if (d->entry[i].live)
            index_put(d, d->entry[i].hash, (int32_t)i);
}

/* Drop dead entries, then make room for `least` and some more: entries and index grow together. */
static void grow_to(DictObj *d, int64_t least)
{
    int64_t n = 0;

    for (int64_t i = 0; i < d->used; i++)
        if (d->entry[i].live)
            d->entry[n++] = d->entry[i];
    d->used = n;
    if (n * 4 >= d->cap * 3 || !d->cap || d->cap < least) {
        d->cap = d->cap ? d->cap * 2 : FEW / 2;
        while (d->cap < least)
            d->cap *= 2;
        d->entry = tsr_realloc(d->entry, (size_t)d->cap * sizeof *d->entry);
    }
    tsr_free(d->index);
    d->index = NULL;
    if (d->cap <= FEW)
        return;
    d->mask = 1;
    while ((int64_t)d->mask < d->cap * 3 / 2)
        d->mask = d->mask * 2 + 1;
    d->index = tsr_alloc(((size_t)d->mask + 1) * sizeof *d->index);
    reindex(d);
}

static DictEntry *append(DictObj *d, Value key, uint32_t hash, Value val)
{
    if (d->used == d->cap)
        grow_to(d, 0);
    DictEntry *e = &d->entry[d->used];
    *e = (DictEntry){value_ref(key), value_ref(val), hash, 1};
    if (d->index)
        index_put(d, hash, (int32_t)d->used);
    d->used++;
    d->n++;
    d->version++;
    return e;
}

static void remove_entry(DictObj *d, DictEntry *e)
{
    Value key = e->key, val = e->val;
    int32_t at = (int32_t)(e - d->entry);

    if (d->index) {
        uint32_t h = e->hash & d->mask;
        while (d->index[h] != at)
            h = (h + 1) & d->mask;
        d->index[h] = DELETED;
        d->deleted++;
    }
    *e = (DictEntry){.hash = e->hash};
    d->n--;
    d->version++;
    while (d->used && !d->entry[d->used - 1].live)
        d->used--;
    if (d->index && d->deleted > d->mask / 4)
        reindex(d);
    value_unref(key);
    value_unref(val);
}

void dict_clear(DictObj *d)
{
    DictEntry *entry = d->entry;
    int64_t used = d->used;

    tsr_free(d->index);
    d->index = NULL;
    d->entry = NULL;
    d->n = d->used = d->cap = 0;
    d->mask = 0;
    d->version++;
    for (int64_t i = 0; i < used; i++)
        if (entry[i].live) {
            value_unref(entry[i].key);
            value_unref(entry[i].val);
        }
    tsr_free(entry);
}

/* ------------------------------------------------------------- names as keys: cannot fail */

/* The next entry that may hold a key of this hash: *pos is a probe position, or an entry without an index. */
static inline DictEntry *probe(DictObj *d, uint32_t hash, uint32_t *pos)
{
    if (!d->index) {
        while (*pos < d->used) {
            DictEntry *e = &d->entry[(*pos)++];
            if (e->live && e->hash == hash)
                return e;
        }
        return NULL;
    }
    for (;;) {
        int32_t i = d->index[(hash + (*pos)++) & d->mask];
        if (i == EMPTY)
            return NULL;
        if (i >= 0 && d->entry[i].hash == hash)
            return &d->entry[i];
    }
}

DictEntry *dict_find_str(DictObj *d, StrObj *key)
{
    uint32_t hash = str_hash(key), pos = 0;
    DictEntry *e;

    while ((e = probe(d, hash, &pos)))
        if (e->key.o == &key->obj || (e->key.tag == V_STR && str_eq(as_str(e->key), key)))
            return e;
    return NULL;
}

DictEntry *dict_find_sym(DictObj *d, Sym key)
{
    return dict_find_str(d, sym_obj(key));
}

Value dict_get_sym(DictObj *d, Sym key)
{
    DictEntry *e = d && d->n ? dict_find_sym(d, key) : NULL;

    return e ? e->val : VERR;
}

void dict_set_sym(DictObj *d, Sym key, Value val)
{
    StrObj *s = sym_obj(key);
    DictEntry *e = d->n ? dict_find_str(d, s) : NULL;

    if (!e) {
        append(d, vobj(s), str_hash(s), val);
        return;
    }
    Value old = e->val;
    e->val = value_ref(val);
    value_unref(old);
}

bool dict_del_sym(DictObj *d, Sym key)
{
    DictEntry *e = d->n ? dict_find_sym(d, key) : NULL;

    if (e)
        remove_entry(d, e);
    return e;
}

/* ------------------------------------------------------------- any keys: equality may run code */

/* *out: the entry of key, or NULL. false: pending. */
static bool find(Interp *I, DictObj *d, Value key, uint32_t hash, DictEntry **out)
{
    uint32_t pos, version;
    DictEntry *e;

again:
    pos = 0;
    *out = NULL;
    while ((e = probe(d, hash, &pos))) {
        if (e->key.tag == key.tag && e->key.i == key.i)
            return *out = e, true;
        if (value_is(e->key, key))
            return *out = e, true;
        if (e->key.tag == V_STR && key.tag == V_STR) {
            if (str_eq(as_str(e->key), as_str(key)))
                return *out = e, true;
            continue;
        }
        if (e->key.tag == V_INT && key.tag == V_INT)
            continue;
        version = d->version;
        Value held = value_ref(e->key);
        int eq = value_equal(I, held, key);
        value_unref(held);
        if (eq < 0)
            return false;
        if (version != d->version)
            goto again;
        if (eq)
            return *out = e, true;
    }
    return true;
}

static bool find_key(Interp *I, DictObj *d, Value key, uint32_t *hash, DictEntry **out)
{
    if (key.tag == V_STR)
        *hash = str_hash(as_str(key));
    else if (key.tag == V_INT)
        *hash = hash_u64((uint64_t)key.i);
    else if (!value_hash(I, key, hash))
        return false;
    return find(I, d, key, *hash, out);
}

Value dict_get(Interp *I, DictObj *d, Value key)
{
    uint32_t hash;
    DictEntry *e;

    if (!find_key(I, d, key, &hash, &e) || !e)
        return VERR;
    return e->val;
}

bool dict_set_hash(Interp *I, DictObj *d, Value key, uint32_t hash, Value val)
{
    DictEntry *e;

    if (!find(I, d, key, hash, &e))
        return false;
    if (e) {
        Value old = e->val;
        e->val = value_ref(val);
        value_unref(old);
    } else {
        append(d, key, hash, val);
    }
    return true;
}

bool dict_find_hash(Interp *I, DictObj *d, Value key, uint32_t hash, DictEntry **out)
{
    return find(I, d, key, hash, out);
}

int dict_has_hash(Interp *I, DictObj *d, Value key, uint32_t hash)
{
    DictEntry *e;

    if (!find(I, d, key, hash, &e))
        return -1;
    return e != NULL;
}

void dict_add_new(DictObj *d, Value key, uint32_t hash, Value val)
{
    append(d, key, hash, val);
}

void dict_reserve(DictObj *d, int64_t n)
{
    while (d->cap < n)
        grow_to(d, n);
}

bool dict_set(Interp *I, DictObj *d, Value key, Value val)
{
    uint32_t hash;

    if (key.tag == V_STR)
        hash = str_hash(as_str(key));
    else if (key.tag == V_INT)
        hash = hash_u64((uint64_t)key.i);
    else if (!value_hash(I, key, &hash) || !symint_settle_inside(I, &key))
        return false;
    return dict_set_hash(I, d, key, hash, val);
}

int dict_del(Interp *I, DictObj *d, Value key)
{
    uint32_t hash;
    DictEntry *e;

    if (!find_key(I, d, key, &hash, &e))
        return -1;
    if (e)
        remove_entry(d, e);
    return e != NULL;
}

bool dict_next(DictObj *d, int64_t *pos, Value *key, Value *val)
{
    for (; *pos < d->used; ++*pos) {
        DictEntry *e = &d->entry[*pos];
        if (!e->live)
            continue;
        *key = e->key;
        *val = e->val;
        ++*pos;
        return true;
    }
    return false;
}
