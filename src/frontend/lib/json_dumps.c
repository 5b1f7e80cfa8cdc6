/*
 * Values written as JSON: dumps and dump of the module json (json.c).
 */
#include "frontend/lib/json.h"

#include "frontend/lib/text.h"

#include <inttypes.h>
#include <math.h>

enum { BEING_WRITTEN = 1 << 15 };

typedef struct Writer {
    Interp *I;
    StrBuf b;
    const char *indent;         /* NULL: one line */
    const char *item, *key;     /* separators */
    bool ascii, sort, nan, skip;
    Value dflt;
    int depth;
} Writer;

static void put_string(Writer *w, const StrObj *s)
{
    const char *p = s->s, *end = p + s->len;
    StrBuf *b = &w->b;

    sb_putc(b, '"');
    while (p < end) {
        const char *from = p;
        uint32_t c = utf8_next(&p);
        if (c == '"' || c == '\\')
            sb_printf(b, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f')
            sb_printf(b, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c == '\b' ? 'b' : 'f');
        else if (c < 0x20 || (w->ascii && c >= 0x7f && c < 0x10000))
            sb_printf(b, "\\u%04x", c);
        else if (w->ascii && c >= 0x10000)
            sb_printf(b, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
        else
            sb_write(b, from, (size_t)(p - from));
    }
    sb_putc(b, '"');
}

static bool put_float(Writer *w, double x)
{
    if (!isfinite(x)) {
        if (!w->nan) {
            raise(w->I, EXC_ValueError, "Out of range float values are not JSON compliant");
            return false;
        }
        sb_puts(&w->b, isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
        return true;
    }
    repr_float(&w->b, x);
    return true;
}

static void new_line(Writer *w)
{
    if (!w->indent)
        return;
    sb_putc(&w->b, '\n');
    for (int i = 0; i < w->depth; i++)
        sb_puts(&w->b, w->indent);
}

static bool put(Writer *w, Value v);

static bool put_list(Writer *w, Value v)
{
    int64_t n = v.tag == V_LIST ? as_list(v)->n : as_tuple(v)->n;

    if (!n) {
        sb_puts(&w->b, "[]");
        return true;
    }
    sb_putc(&w->b, '[');
    w->depth++;
    for (int64_t i = 0; i < n; i++) {
        if (i)
            sb_puts(&w->b, w->item);
        new_line(w);
        if (!put(w, v.tag == V_LIST ? as_list(v)->at[i] : as_tuple(v)->at[i]))
            return false;
    }
    w->depth--;
    new_line(w);
    sb_putc(&w->b, ']');
    return true;
}

/* A key's text; false: not a key JSON can have (an exception is pending, or it is skipped). */
static bool key_text(Writer *w, Value k, Value *out)
{
    StrBuf b = {0};

    k = unwrap_base(k);
    switch (k.tag) {
    case V_STR: *out = value_ref(k); return true;
    case V_BOOL: *out = str_c(k.i ? "true" : "false"); return true;
    case V_NONE: *out = str_c("null"); return true;
    case V_INT: sb_printf(&b, "%" PRId64, k.i); *out = str_steal(&b); return true;
    case V_FLOAT: repr_float(&b, k.f); *out = str_steal(&b); return true;
    default: break;
    }
    if (!w->skip)
        raise(w->I, EXC_TypeError, "keys must be str, int, float, bool or None, not %s", value_type_name(k));
    return false;
}

static bool put_entry(Writer *w, Value k, Value v, bool *first)
{
    Value text;

    if (!key_text(w, k, &text))
        return w->skip;
    if (!*first)
        sb_puts(&w->b, w->item);
    *first = false;
    new_line(w);
    put_string(w, as_str(text));
    value_unref(text);
    sb_puts(&w->b, w->key);
    return put(w, v);
}

static bool put_sorted(Writer *w, DictObj *d, bool *first)
{
    Value keys = value_to_list(w->I, vobj(d));
    bool ok = !is_err(keys) && list_sort(w->I, as_list(keys), VNONE, false);

    for (int64_t i = 0; ok && i < as_list(keys)->n; i++) {
        Value v = dict_get(w->I, d, as_list(keys)->at[i]);
        ok = is_err(v) ? !exc_pending(w->I) : put_entry(w, as_list(keys)->at[i], v, first);
    }
    value_unref(keys);
    return ok;
}

static bool put_dict(Writer *w, DictObj *d)
{
    Value k, v;
    int64_t pos = 0;
    bool first = true, ok = true;

    if (!d->n) {
        sb_puts(&w->b, "{}");
        return true;
    }
    sb_putc(&w->b, '{');
    w->depth++;
    if (w->sort)
        ok = put_sorted(w, d, &first);
    else
        while (ok && dict_next(d, &pos, &k, &v)) {
            value_ref(k), value_ref(v);         /* default= is the program's */
            ok = put_entry(w, k, v, &first);
            value_unref(k), value_unref(v);
        }
    w->depth--;
    if (!first)
        new_line(w);
    sb_putc(&w->b, '}');
    return ok;
}

static bool put_container(Writer *w, Value v)
{
    bool ok;

    if (v.o->flags & BEING_WRITTEN) {
        raise(w->I, EXC_ValueError, "Circular reference detected");
        return false;
    }
    if (!interp_enter(w->I))
        return false;
    v.o->flags |= BEING_WRITTEN;
    ok = v.tag == V_DICT ? put_dict(w, as_dict(v)) : put_list(w, v);
    v.o->flags &= (uint16_t)~BEING_WRITTEN;
    interp_leave(w->I);
    return ok;
}

static bool put_default(Writer *w, Value v)
{
    Value r;
    bool ok;

    if (!is_given(w->dflt)) {
        raise(w->I, EXC_TypeError, "Object of type %s is not JSON serializable", value_type_name(v));
        return false;
    }
    if (!interp_enter(w->I))
        return false;
    r = value_call(w->I, w->dflt, &v, 1);
    ok = !is_err(r) && put(w, r);
    value_unref(r);
    interp_leave(w->I);
    return ok;
}

static bool put(Writer *w, Value v)
{
    Value x = unwrap_base(v);

    switch (x.tag) {
    case V_NONE: sb_puts(&w->b, "null"); return true;
    case V_BOOL: sb_puts(&w->b, x.i ? "true" : "false"); return true;
    case V_INT: sb_printf(&w->b, "%" PRId64, x.i); return true;
    case V_FLOAT: return put_float(w, x.f);
    case V_STR: put_string(w, as_str(x)); return true;
    case V_LIST: case V_TUPLE: case V_DICT: return put_container(w, x);
    default: return put_default(w, v);
    }
}

/* indent: None, a number of spaces, or the text itself. The caller frees it. */
static bool set_indent(Interp *I, Writer *w, Value v, StrBuf *text)
{
    int64_t n;

    if (!is_given(v))
        return true;
    if (v.tag == V_STR) {
        sb_write(text, as_str(v)->s, as_str(v)->len);
    } else {
        if (!value_as_int(I, v, &n))
            return false;
        sb_pad(text, ' ', n < 0 ? 0 : n > 64 ? 64 : (size_t)n);
    }
    w->indent = sb_str(text);
    return true;
}

static bool set_separators(Interp *I, Writer *w, Value v)
{
    w->item = w->indent ? "," : ", ";
    w->key = ": ";
    if (!is_given(v))
        return true;
    if ((v.tag != V_TUPLE && v.tag != V_LIST) || value_len(I, v) != 2)
        goto bad;
    const Value *at = v.tag == V_TUPLE ? as_tuple(v)->at : as_list(v)->at;
    if (at[0].tag != V_STR || at[1].tag != V_STR)
        goto bad;
    w->item = as_str(at[0])->s;
    w->key = as_str(at[1])->s;
    return true;
bad:
    raise(I, EXC_TypeError, "separators must be a pair of strings");
    return false;
}

/* The default of an encoder, cls(), where no other is given; V_ERR pending. A new reference. */
static Value default_of(Interp *I, Value cls, Value dflt)
{
    Value encoder, r;

    if (!is_given(cls) || is_given(dflt))
        return value_ref(dflt);
    encoder = value_call(I, cls, NULL, 0);
    r = is_err(encoder) ? VERR : value_getattr(I, encoder, sym("default"));
    value_unref(encoder);
    return r;
}

Value json_dumps(Interp *I, Value *a)
{
    Value dflt = default_of(I, a[8], a[6]);
    Writer w = {.I = I, .dflt = dflt};
    StrBuf indent = {0};
    bool ok = !is_err(dflt) && set_indent(I, &w, a[4], &indent) && set_separators(I, &w, a[5]);

    w.skip = value_truth(I, a[1]) == 1;
    w.ascii = value_truth(I, a[2]) == 1;
    w.nan = value_truth(I, a[3]) == 1;
    w.sort = value_truth(I, a[7]) == 1;
    ok = ok && put(&w, a[0]);
    sb_done(&indent);
    value_unref(dflt);
    if (ok)
        return str_steal(&w.b);
    sb_done(&w.b);
    return VERR;
}

Value json_dump(Interp *I, Value *a)
{
    Value args[9] = {a[0], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]}, text = json_dumps(I, args), r;

    if (is_err(text))
        return VERR;
    r = value_call_method(I, a[1], sym("write"), &text, 1);
    value_unref(text);
    value_unref(r);
    return is_err(r) ? VERR : VNONE;
}
