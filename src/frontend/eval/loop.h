/* loop.h - stepping over any iterable, without an iterator object for the common containers. */
#ifndef TSR_FRONTEND_LOOP_H
#define TSR_FRONTEND_LOOP_H

#include "frontend/eval/eval.h"

typedef struct Loop { Value src; int64_t i; } Loop;

/* Steals v. false: pending. */
static inline bool loop_init(Interp *I, Loop *l, Value v)
{
    l->i = 0;
    l->src = v;
    if (v.tag == V_LIST || v.tag == V_TUPLE || v.tag == V_RANGE)
        return true;
    l->src = value_iter(I, v);
    value_unref(v);
    return !is_err(l->src);
}

/* The next element; V_ERR at the end, or pending. */
static inline Value loop_next(Interp *I, Loop *l)
{
    const RangeObj *r;

    switch (l->src.tag) {
    case V_LIST: return l->i < as_list(l->src)->n ? value_ref(as_list(l->src)->at[l->i++]) : VERR;
    case V_TUPLE: return l->i < as_tuple(l->src)->n ? value_ref(as_tuple(l->src)->at[l->i++]) : VERR;
    case V_RANGE:
        r = (const RangeObj *)l->src.o;
        return l->i < r->n ? vint(r->start + l->i++ * r->step) : VERR;
    default: return value_next(I, l->src);
    }
}

static inline void loop_done(Loop *l)
{
    value_unref(l->src);
}

#endif
