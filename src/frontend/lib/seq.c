/*
 * What str, bytes, list, tuple and range share: indexing, slicing, joining,
 * repeating, comparing.  A slice is resolved once into a start, a step and a
 * count; after that no sequence has to think about its ends.
 */
#include "frontend/lib/lib.h"
#include "frontend/lib/text.h"
#include "frontend/syntax/ast.h"

#include <string.h>

/* ------------------------------------------------------------- slices */

static bool slice_int(Interp *I, Value v, int64_t dflt, int64_t *out)
{
    *out = dflt;
    if (v.tag == V_NONE || v.tag == V_ERR || value_as_int(I, v, out))
        return true;
    if (exc_matches(I, EXC_TypeError)) {
        exc_clear(I);
        raise(I, EXC_TypeError, "slice indices must be integers or None or have an __index__ method");
    }
    return false;
}

/* A bound: None gives dflt; otherwise clamped into [low, high] after adding n to negatives. */
static bool bound(Interp *I, Value v, int64_t n, int64_t dflt, int64_t low, int64_t high, int64_t *out)
{
    if (!slice_int(I, v, dflt, out))
        return false;
    if (v.tag == V_NONE || v.tag == V_ERR)
        return true;
    if (*out < 0)
        *out = *out < -n ? low : *out + n;
    if (*out < low)
        *out = low;
    if (*out > high)
        *out = high;
    return true;
}

bool slice_bounds(Interp *I, const SliceObj *s, int64_t n, int64_t *start, int64_t *stop, int64_t *step)
{
    if (!slice_int(I, s->step, 1, step))
        return false;
    if (*step == INT64_MIN)
        *step = -INT64_MAX;
    if (*step == 0) {
        raise(I, EXC_ValueError, "slice step cannot be zero");
        return false;
    }
    if (*step > 0)
        return bound(I, s->lo, n, 0, 0, n, start) && bound(I, s->hi, n, n, 0, n, stop);
    return bound(I, s->lo, n, n - 1, -1, n - 1, start) && bound(I, s->hi, n, -1, -1, n - 1, stop);
}

static int64_t slice_count(int64_t start, int64_t stop, int64_t step)
{
    if (step > 0)
        return stop > start ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

bool slice_resolve(Interp *I, const SliceObj *s, int64_t n, int64_t *start, int64_t *step, int64_t *count)
{
    int64_t stop;

    if (!slice_bounds(I, s, n, start, &stop, step))
        return false;
    *count = slice_count(*start, stop, *step);
    return true;
}

Value range_new(int64_t start, int64_t stop, int64_t step, int64_t n)
{
    RangeObj *r = obj_new(V_RANGE, sizeof *r);

    r->start = start;
    r->stop = stop;
    r->step = step;
    r->n = n;
    return vobj(r);
}

static Value tuple_slice(TupleObj *t, int64_t start, int64_t step, int64_t count)
{
    Value out;

    if (step == 1 && count == t->n)
        return value_ref(vobj(t));
    out = tuple_new(count);
    for (int64_t i = 0; i < count; i++)
        as_tuple(out)->at[i] = value_ref(t->at[start + i * step]);
    return out;
}

static Value list_slice(ListObj *l, int64_t start, int64_t step, int64_t count)
{
    Value out = list_new(count);

    Value *to = as_list(out)->at;

    if (step == 1)
        for (int64_t i = 0; i < count; i++)
            to[i] = value_ref(l->at[start + i]);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = value_ref(l->at[start + i * step]);
    as_list(out)->n = count;
    return out;
}

static Value bytes_slice(BytesObj *b, int64_t start, int64_t step, int64_t count)
{
    StrBuf t = {0};
    Value out;

    if (step == 1)
        return bytes_new(b->s + start, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        sb_putc(&t, b->s[start + i * step]);
    out = bytes_new(sb_str(&t), t.n);
    sb_done(&t);
    return out;
}

static int64_t seq_length(Value v)
{
    switch (v.tag) {
    case V_STR: return str_nchars(as_str(v));
    case V_BYTES: return ((BytesObj *)v.o)->len;
    case V_LIST: return as_list(v)->n;
    case V_TUPLE: return as_tuple(v)->n;
    default: return ((RangeObj *)v.o)->n;
    }
}

Value seq_slice(Interp *I, Value v, const SliceObj *s)
{
    int64_t start, stop, step, count;
    RangeObj *r;

    if (!slice_bounds(I, s, seq_length(v), &start, &stop, &step))
        return VERR;
    count = slice_count(start, stop, step);
    switch (v.tag) {
    case V_STR: return str_slice(as_str(v), start, step, count);
    case V_BYTES: return bytes_slice((BytesObj *)v.o, start, step, count);
    case V_LIST: return list_slice(as_list(v), start, step, count);
    case V_TUPLE: return tuple_slice(as_tuple(v), start, step, count);
    default:
        r = (RangeObj *)v.o;
        return range_new(r->start + start * r->step, r->start + stop * r->step, step * r->step, count);
    }
}

Value seq_item(Interp *I, Value v, int64_t i)
{
    static const char *const what[V_COUNT] = {[V_BYTES] = "", [V_LIST] = "list ", [V_TUPLE] = "tuple ",
                                              [V_RANGE] = "range object "};
    int64_t n;

    if (v.tag == V_STR)
        return str_item(I, as_str(v), i);
    n = seq_length(v);
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return raise(I, EXC_IndexError, "%sindex out of range", what[v.tag]);
    switch (v.tag) {
    case V_BYTES: return vint((unsigned char)((BytesObj *)v.o)->s[i]);
    case V_LIST: return value_ref(as_list(v)->at[i]);
    case V_TUPLE: return value_ref(as_tuple(v)->at[i]);
    default: return vint(((RangeObj *)v.o)->start + i * ((RangeObj *)v.o)->step);
    }
}

/* ------------------------------------------------------------- storing into slices */

/* Replace `count` elements from `start` by the n values at `with`, which it refs. */
static void list_splice(ListObj *l, int64_t start, int64_t count, const Value *with, int64_t n)
{
    Value *old;

    if (!count && !n)           /* an empty list may have no array at all */
        return;
    old = tsr_alloc((size_t)(count ? count : 1) * sizeof *old);
    for (int64_t i = 0; i < count; i++)
        old[i] = l->at[start + i];
    if (l->n - count + n > l->cap) {
        l->cap = l->n - count + n;
        l->at = tsr_realloc(l->at, (size_t)l->cap * sizeof *l->at);
    }
    memmove(l->at + start + n, l->at + start + count, (size_t)(l->n - start - count) * sizeof *l->at);
    for (int64_t i = 0; i < n; i++)
        l->at[start + i] = value_ref(with[i]);
    l->n += n - count;
    for (int64_t i = 0; i < count; i++)
        value_unref(old[i]);
    tsr_free(old);
}

static bool store_strided(Interp *I, ListObj *l, int64_t start, int64_t step, int64_t count, const ListObj *with)
{
    if (with->n != count) {
        raise(I, EXC_ValueError, "attempt to assign sequence of size %lld to extended slice of size %lld",
              (long long)with->n, (long long)count);
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        Value old = l->at[start + i * step];
        l->at[start + i * step] = value_ref(with->at[i]);
        value_unref(old);
    }
    return true;
}

static void delete_strided(ListObj *l, int64_t start, int64_t step, int64_t count)
{
    if (step < 0) {
        start += (count - 1) * step;
        step = -step;
    }
    for (int64_t i = count - 1; i >= 0; i--)
        list_splice(l, start + i * step, 1, NULL, 0);
}

bool list_set_slice(Interp *I, ListObj *l, const SliceObj *s, Value v)
{
    int64_t start, step, count;
    Value with;
    bool ok = true;

    if (v.tag == V_ERR) {
        if (!slice_resolve(I, s, l->n, &start, &step, &count))
            return false;
        if (step == 1)
            list_splice(l, start, count, NULL, 0);
        else if (count)
            delete_strided(l, start, step, count);
        return true;
    }
    with = value_to_list(I, v);             /* a copy: l[1:3] = l works */
    if (is_err(with)) {
        if (exc_matches(I, EXC_TypeError)) {
            exc_clear(I);
            raise(I, EXC_TypeError, "can only assign an iterable");
        }
        return false;
    }
    ok = slice_resolve(I, s, l->n, &start, &step, &count);
    if (ok && step == 1)
        list_splice(l, start, count, as_list(with)->at, as_list(with)->n);
    else if (ok)
        ok = store_strided(I, l, start, step, count, as_list(with));
    value_unref(with);
    return ok;
}

/* ------------------------------------------------------------- joining and repeating */

Value bytes_new(const char *s, size_t n)
{
    BytesObj *b = obj_new(V_BYTES, sizeof *b + n + 1);

    b->len = (uint32_t)n;
    if (n)
        memcpy(b->s, s, n);
    b->s[n] = 0;
    return vobj(b);
}

static Value join_text(Interp *I, Value v, const char *p, size_t n, const char *q, size_t m)
{
    StrBuf b = {0};
    Value out;

    if (n + m > UINT32_MAX / 2)
        return raise(I, EXC_MemoryError, "string of %zu bytes is too long", n + m);
    sb_write(&b, p, n);
    sb_write(&b, q, m);
    if (v.tag == V_STR)
        return str_steal(&b);
    out = bytes_new(b.s, b.n);
    sb_done(&b);
    return out;
}

static Value new_like(Value v, int64_t n)
{
    return v.tag == V_LIST ? list_new(n) : tuple_new(n);
}

static const Value *elements(Value v, int64_t *n)
{
    *n = v.tag == V_LIST ? as_list(v)->n : as_tuple(v)->n;
    return v.tag == V_LIST ? as_list(v)->at : as_tuple(v)->at;
}

static void put_element(Value out, int64_t i, Value x)
{
    if (out.tag == V_LIST)
        list_push(as_list(out), value_ref(x));
    else
        as_tuple(out)->at[i] = value_ref(x);
}

Value seq_concat(Interp *I, Value a, Value b)
{
    int64_t n, m;
    const Value *p, *q;
    Value out;

    if (a.tag == V_STR)
        return join_text(I, a, as_str(a)->s, as_str(a)->len, as_str(b)->s, as_str(b)->len);
    if (a.tag == V_BYTES)
        return join_text(I, a, ((BytesObj *)a.o)->s, ((BytesObj *)a.o)->len, ((BytesObj *)b.o)->s, ((BytesObj *)b.o)->len);
    p = elements(a, &n);
    q = elements(b, &m);
    out = new_like(a, n + m);
    for (int64_t i = 0; i < n; i++)
        put_element(out, i, p[i]);
    for (int64_t i = 0; i < m; i++)
        put_element(out, n + i, q[i]);
    return out;
}

enum { REPEAT_MAX = 1 << 30 };          /* bytes or elements that a * n may make */

Value seq_repeat(Interp *I, Value a, int64_t times)
{
    int64_t n, total;
    const Value *p;
    Value out;

    if (times < 0)
        times = 0;
    n = a.tag == V_STR ? as_str(a)->len : seq_length(a);
    if (__builtin_mul_overflow(n, times, &total) || total > REPEAT_MAX)
        return raise(I, EXC_MemoryError, "%s of %lld times %lld elements is too long", value_type_name(a), (long long)n,
                     (long long)times);
    if (a.tag == V_STR || a.tag == V_BYTES) {
        const char *s = a.tag == V_STR ? as_str(a)->s : ((BytesObj *)a.o)->s;
        StrBuf b = {0};
        if (n == 1)
            sb_pad(&b, s[0], (size_t)times);
        else
            for (int64_t i = 0; n && i < times; i++)
                sb_write(&b, s, (size_t)n);
        if (a.tag == V_STR)
            return str_steal(&b);
        out = bytes_new(sb_str(&b), b.n);
        sb_done(&b);
        return out;
    }
    p = elements(a, &n);
    out = new_like(a, total);
    for (int64_t k = 0; k < times; k++)
        for (int64_t i = 0; i < n; i++)
            put_element(out, k * n + i, p[i]);
    return out;
}

/* ------------------------------------------------------------- comparing */

static int decide(int op, int64_t n, int64_t m)
{
    switch (op) {
    case AOP_EQ: return n == m;
    case AOP_NE: return n != m;
    case AOP_LT: return n < m;
    case AOP_LE: return n <= m;
    case AOP_GT: return n > m;
    default: return n >= m;
    }
}

static int compare_values(Interp *I, int op, Value a, Value b)
{
    Value r = value_compare(I, op, a, b);
    int t = is_err(r) ? -1 : value_truth(I, r);

    value_unref(r);
    return t;
}

/* The first pair that differs decides; without one the lengths do. Elements that are the same object are equal. */
int seq_compare(Interp *I, int op, Value a, Value b)
{
    int64_t n, m;
    int result = -1;

    elements(a, &n);
    elements(b, &m);
    if (n != m && (op == AOP_EQ || op == AOP_NE))
        return op == AOP_NE;
    if (!interp_enter(I))
        return -1;
    for (int64_t i = 0;; i++) {
        const Value *p = elements(a, &n), *q = elements(b, &m);     /* comparing may change a list */
        if (i >= n || i >= m) {
            result = decide(op, n, m);
            break;
        }
        Value x = value_ref(p[i]), y = value_ref(q[i]);
        int same = value_is(x, y) ? 1 : value_equal(I, x, y);
        if (same == 0)
            result = op == AOP_EQ ? 0 : op == AOP_NE ? 1 : compare_values(I, op, x, y);
        value_unref(x);
        value_unref(y);
        if (same != 1)
            break;
    }
    interp_leave(I);
    return result;
}
