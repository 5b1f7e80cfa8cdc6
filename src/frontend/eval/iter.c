/*
 * Iteration: iter(v), next(it), unpacking.
 *
 * Builtin containers give an IterObj that knows how to step over them; a dict
 * or set that changes size under it raises.  Generators, native iterators and
 * objects with __next__ step themselves.  Exhaustion is V_ERR with nothing pending.
 */
#include "frontend/eval/eval.h"

/* V_ITER over a builtin container. */
static Value iter_new(Interp *I, Value seq)
{
    IterObj *it = obj_new(V_ITER, sizeof *it);

    it->seq = value_ref(seq);
    if (seq.tag == V_DICT || seq.tag == V_SET)
        it->version = as_dict(seq)->version;
    return vobj(it);
}

static Value not_iterable(Interp *I, Value v)
{
    return raise(I, EXC_TypeError, "'%s' object is not iterable", value_type_name(v));
}

static Value iter_by_method(Interp *I, Value v)
{
    if (v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type->next)
        return value_ref(v);
    ClassObj *c = class_of(I, v);
    Value f = c->dunder[D_iter], r, u;

    if (!is_err(f) && f.tag != V_NONE) {
        r = value_call(I, f, &v, 1);
        if (!is_err(r) && r.tag < V_OBJ) {
            value_unref(r);
            return raise(I, EXC_TypeError, "iter() returned non-iterator of type '%s'", value_type_name(r));
        }
        return r;
    }
    if (v.tag == V_NATIVEOBJ && !is_err(c->dunder[D_next]))
        return value_ref(v);
    u = unwrap_base(v);
    if (u.o != v.o)
        return value_iter(I, u);
    return is_err(c->dunder[D_getitem]) ? not_iterable(I, v) : iter_new(I, v);  /* the old protocol: v[0], v[1] ... */
}

static Value iter_class(Interp *I, Value cls)
{
    Value r = class_hook(I, cls, "__class_iter__", NULL, 0);

    return is_err(r) && !exc_pending(I) ? raise(I, EXC_TypeError, "'type' object is not iterable") : r;
}

Value value_iter(Interp *I, Value v)
{
    switch (v.tag) {
    case V_LIST: case V_TUPLE: case V_STR: case V_DICT: case V_SET: case V_RANGE: case V_BYTES: return iter_new(I, v);
    case V_ITER: case V_GENERATOR: return value_ref(v);
    case V_TENSOR: return tensor_op_iter(I, v);
    case V_INSTANCE: case V_NATIVEOBJ: return iter_by_method(I, v);
    case V_CLASS: return iter_class(I, v);
    case V_COROUTINE:
        return raise(I, EXC_TypeError, "'coroutine' object is not iterable; await it");
    default: return not_iterable(I, v);
    }
}

/* The key or element at a dict iterator; V_ERR at the end. */
static Value next_key(Interp *I, IterObj *it)
{
    DictObj *d = as_dict(it->seq);
    Value k, v;

    if (d->version != it->version)
        return raise(I, EXC_RuntimeError, it->seq.tag == V_DICT ? "dictionary changed size during iteration"
                                                                : "Set changed size during iteration");
    return dict_next(d, &it->at, &k, &v) ? value_ref(k) : VERR;
}

static Value next_char(IterObj *it)
{
    StrObj *s = as_str(it->seq);
    const char *p = s->s + it->at;
    Value v;

    if (it->at >= s->len)
        return VERR;
    v = str_char(utf8_next(&p));
    it->at = p - s->s;
    return v;
}

static Value next_by_index(Interp *I, IterObj *it)
{
    Value v = value_getitem(I, it->seq, vint(it->at));

    if (is_err(v) && (exc_matches(I, EXC_IndexError) || exc_matches(I, EXC_StopIteration)))
        exc_clear(I);
    it->at++;
    return v;
}

static Value iter_next(Interp *I, IterObj *it)
{
    Value v = VERR;
    RangeObj *r;

    switch (it->seq.tag) {
    case V_LIST:
        if (it->at < as_list(it->seq)->n)
            return value_ref(as_list(it->seq)->at[it->at++]);
        break;
    case V_TUPLE:
        if (it->at < as_tuple(it->seq)->n)
            return value_ref(as_tuple(it->seq)->at[it->at++]);
        break;
    case V_RANGE:
        r = (RangeObj *)it->seq.o;
        if (it->at < r->n)
            return vint(r->start + it->at++ * r->step);
        break;
    case V_BYTES:
        if (it->at < ((BytesObj *)it->seq.o)->len)
            return vint((unsigned char)((BytesObj *)it->seq.o)->s[it->at++]);
        break;
    case V_STR: v = next_char(it); break;
    case V_DICT: case V_SET: v = next_key(I, it); break;
    case V_INSTANCE: case V_NATIVEOBJ: v = next_by_index(I, it); break;
    default: return VERR;
    }
    if (is_err(v) && !exc_pending(I)) {     /* exhausted for good */
        value_unref(it->seq);
        it->seq = VNONE;
    }
    return v;
}

static Value next_by_method(Interp *I, Value it)
{
    Value f = class_of(I, it)->dunder[D_next], r;

    if (is_err(f))
        return raise(I, EXC_TypeError, "'%s' object is not an iterator", value_type_name(it));
    r = value_call(I, f, &it, 1);
    if (is_err(r) && exc_matches(I, EXC_StopIteration))
        exc_clear(I);
    return r;
}

Value value_next(Interp *I, Value it)
{
    switch (it.tag) {
    case V_ITER: return iter_next(I, (IterObj *)it.o);
    case V_GENERATOR: return gen_resume(I, (GenObj *)it.o, VNONE, 0);
    case V_NATIVEOBJ:
        if (((NativeInst *)it.o)->type->next) {
            ((NativeInst *)it.o)->turns++;
            return ((NativeInst *)it.o)->type->next(I, it.o);
        }
        return next_by_method(I, it);
    case V_INSTANCE: return next_by_method(I, it);
    default: return raise(I, EXC_TypeError, "'%s' object is not an iterator", value_type_name(it));
    }
}

bool value_each(Interp *I, Value v, bool (*give)(void *taker, Value x), void *taker)
{
    Value it, x = VERR;
    bool more = true;

    if (gen_drivable(I, v))
        return gen_drive(I, v, give, taker);
    it = value_iter(I, v);
    if (is_err(it))
        return false;
    while (more && !is_err(x = value_next(I, it)))
        more = give(taker, x);
    value_unref(it);
    return more && !exc_pending(I);
}

typedef struct { Interp *I; ListObj *list; } ListTaker;

static bool take_into_list(void *taker, Value x)
{
    ListTaker *t = taker;

    list_push(t->list, x);
    return (t->list->n & 1023) || interp_poll(t->I);
}

Value value_to_list(Interp *I, Value v)
{
    Value l;

    if (v.tag == V_LIST || v.tag == V_TUPLE) {
        int64_t n = v.tag == V_LIST ? as_list(v)->n : as_tuple(v)->n;
        Value *at = v.tag == V_LIST ? as_list(v)->at : as_tuple(v)->at;
        l = list_new(n);
        for (int64_t i = 0; i < n; i++)
            as_list(l)->at[i] = value_ref(at[i]);
        as_list(l)->n = n;
        return l;
    }
    l = list_new(0);
    if (value_each(I, v, take_into_list, &(ListTaker){I, as_list(l)}))
        return l;
    value_unref(l);
    return VERR;
}

/* ------------------------------------------------------------- unpacking */

static bool wrong_count(Interp *I, int64_t got, int n, int star)
{
    if (star >= 0)
        raise(I, EXC_ValueError, "not enough values to unpack (expected at least %d, got %lld)", n - 1, (long long)got);
    else if (got < n)
        raise(I, EXC_ValueError, "not enough values to unpack (expected %d, got %lld)", n, (long long)got);
    else
        raise(I, EXC_ValueError, "too many values to unpack (expected %d)", n);
    return false;
}

static bool unpack_array(Interp *I, const Value *at, int64_t have, Value *out, int n, int star)
{
    int64_t rest = have - (n - 1);

    if (star < 0 ? have != n : rest < 0)
        return wrong_count(I, have, n, star);
    for (int i = 0; i < n; i++) {
        if (i == star) {
            out[i] = list_new(rest);
            for (int64_t k = 0; k < rest; k++)
                list_push(as_list(out[i]), value_ref(*at++));
        } else {
            out[i] = value_ref(*at++);
        }
    }
    return true;
}

/* Without a star at most one element too many is asked for: the source may be endless. */
static Value take_some(Interp *I, Value v, int n)
{
    Value it = value_iter(I, v), l, x;

    if (is_err(it)) {
        if (exc_matches(I, EXC_TypeError) && v.tag != V_TENSOR) {
            exc_clear(I);
            raise(I, EXC_TypeError, "cannot unpack non-iterable %s object", value_type_name(v));
        }
        return VERR;
    }
    l = list_new(n);
    while (as_list(l)->n <= n && !is_err(x = value_next(I, it)))
        list_push(as_list(l), x);
    value_unref(it);
    if (exc_pending(I)) {
        value_unref(l);
        return VERR;
    }
    return l;
}

bool unpack(Interp *I, Value v, Value *out, int n, int star)
{
    Value l;
    bool ok;

    if (v.tag == V_TUPLE)
        return unpack_array(I, as_tuple(v)->at, as_tuple(v)->n, out, n, star);
    if (v.tag == V_LIST)
        return unpack_array(I, as_list(v)->at, as_list(v)->n, out, n, star);
    l = star < 0 ? take_some(I, v, n) : value_to_list(I, v);
    if (is_err(l))
        return false;
    ok = unpack_array(I, as_list(l)->at, as_list(l)->n, out, n, star);
    value_unref(l);
    return ok;
}
