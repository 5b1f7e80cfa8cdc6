/* attr.h - attributes found through the cache of the place that names them; for attr.c and attr_store.c, where each call counts. */
#ifndef TSR_FRONTEND_ATTR_H
#define TSR_FRONTEND_ATTR_H

#include "frontend/eval/eval.h"

/* What c's chain holds under the name; NULL: nothing. Borrowed until a class changes. */
static inline DictEntry *attr_class_entry(Interp *I, ClassObj *c, AttrCache *a)
{
    if (a->cls != c || a->version != I->class_version) {
        ClassObj *holder = NULL;
        a->cls = c;
        a->version = I->class_version;
        class_find(c, a->name, &holder);
        a->holder = holder;
        a->index = holder ? (int32_t)(dict_find_str(holder->ns, a->key) - holder->ns->entry) : -1;
    }
    return a->holder ? &a->holder->ns->entry[a->index] : NULL;
}

/* The entry of an instance's own dict, which may be NULL; NULL: it has none. */
static inline DictEntry *attr_own_entry(DictObj *d, AttrCache *a)
{
    DictEntry *e;

    if (!d)
        return NULL;
    if ((uint32_t)a->hint < (uint64_t)d->used && d->entry[a->hint].key.o == &a->key->obj)
        return &d->entry[a->hint];
    if (!d->n || !(e = dict_find_str(d, a->key)))
        return NULL;
    a->hint = (int32_t)(e - d->entry);
    return e;
}

/* The instance's own attribute where the cache says that its class has none of that name; NULL: look properly. */
static inline DictEntry *attr_cached_entry(Interp *I, const InstanceObj *o, const AttrCache *a)
{
    const ClassObj *c = o->cls;
    DictObj *d = o->attrs;

    if (a->cls != c || a->version != I->class_version || a->holder || (c->flags & CLASS_GETATTRIBUTE) || !d)
        return NULL;
    return (uint32_t)a->hint < (uint64_t)d->used && d->entry[a->hint].key.o == &a->key->obj ? &d->entry[a->hint] : NULL;
}

/* A property that is computed once, and is an attribute of the instance from then on. */
static inline bool attr_is_cached(const DictEntry *e) { return e->val.o->flags & PROPERTY_CACHED; }

DictObj *attr_of_func(FuncObj *f);      /* f.__dict__, made when it is first asked for */

#endif
