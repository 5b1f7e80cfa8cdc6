/*
 * The text of a value: repr() and str().
 *
 * One walk writes into one buffer.  A container that is being written carries
 * a mark, so a cycle prints as [...] instead of forever; deep nesting stops at
 * the interpreter's depth guard.  Tensors, and the kinds that the evaluator
 * owns (instances, functions, classes ...), write themselves.
 */
#include "frontend/lib/lib.h"
#include "frontend/lib/number.h"

#include "frontend/eval/symint.h"
#include "frontend/tensor/tensor_ops.h"

#include <utf8proc.h>

#include <inttypes.h>
#include <string.h>

enum { BEING_WRITTEN = 1 << 15 };       /* Obj.flags: this container is on the way down */

/* ------------------------------------------------------------- strings */

static bool printable(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_CS: case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN: case UTF8PROC_CATEGORY_ZL: case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return c == ' ';
    default:
        return true;
    }
}

bool codepoint_printable(uint32_t c)
{
    return c < 0x7f ? c >= 0x20 : printable(c);
}

static void put_escape(StrBuf *b, uint32_t c)
{
    switch (c) {
    case '\n': sb_puts(b, "\\n"); return;
    case '\t': sb_puts(b, "\\t"); return;
    case '\r': sb_puts(b, "\\r"); return;
    default: break;
    }
    if (c < 0x100)
        sb_printf(b, "\\x%02x", c);
    else if (c < 0x10000)
        sb_printf(b, "\\u%04x", c);
    else
        sb_printf(b, "\\U%08x", c);
}

/* Python's choice: single quotes, unless the text has those and no double ones. */
static char quote_for(const char *s, size_t n)
{
    return memchr(s, '\'', n) && !memchr(s, '"', n) ? '"' : '\'';
}

static void put_quoted(StrBuf *b, const char *s, size_t n, bool ascii_only)
{
    const char *p = s, *end = s + n;
    char quote = quote_for(s, n);

    sb_putc(b, quote);
    while (p < end) {
        const char *from = p;
        uint32_t c = utf8_next(&p);
        if (c == (uint32_t)quote || c == '\\') {
            sb_putc(b, '\\');
            sb_putc(b, (char)c);
        } else if (!codepoint_printable(c) || (ascii_only && c >= 0x80)) {
            put_escape(b, c);
        } else {
            sb_write(b, from, (size_t)(p - from));
        }
    }
    sb_putc(b, quote);
}

void repr_str(StrBuf *b, const char *s, size_t n)
{
    put_quoted(b, s, n, false);
}

static void repr_bytes(StrBuf *b, const char *s, size_t n)
{
    char quote = quote_for(s, n);

    sb_putc(b, 'b');
    sb_putc(b, quote);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == (unsigned char)quote || c == '\\')
            sb_printf(b, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            put_escape(b, c);
        else
            sb_putc(b, (char)c);
    }
    sb_putc(b, quote);
}

/* Replace what is beyond ASCII in a finished repr by escapes: ascii(). */
void repr_ascii(StrBuf *b, const char *s, size_t n)
{
    const char *end = s + n;

    while (s < end) {
        const char *from = s;
        uint32_t c = utf8_next(&s);
        if (c < 0x80)
            sb_write(b, from, (size_t)(s - from));
        else
            put_escape(b, c);
    }
}

/* ------------------------------------------------------------- containers */

static bool put_items(Interp *I, const Value *at, int64_t n, StrBuf *b)
{
    for (int64_t i = 0; i < n; i++) {
        if (i)
            sb_puts(b, ", ");
        if (!value_repr_to(I, at[i], b))
            return false;
    }
    return true;
}

static bool put_list(Interp *I, Value v, StrBuf *b)
{
    ListObj *l = as_list(v);

    sb_putc(b, '[');
    for (int64_t i = 0; i < l->n; i++) {        /* a __repr__ may change the list: look again each time */
        Value x = value_ref(l->at[i]);
        bool ok;
        if (i)
            sb_puts(b, ", ");
        ok = value_repr_to(I, x, b);
        value_unref(x);
        if (!ok)
            return false;
    }
    sb_putc(b, ']');
    return true;
}

static bool put_tuple(Interp *I, Value v, StrBuf *b)
{
    TupleObj *t = as_tuple(v);

    sb_putc(b, '(');
    if (!put_items(I, t->at, t->n, b))
        return false;
    sb_puts(b, t->n == 1 ? ",)" : ")");
    return true;
}

static bool put_dict(Interp *I, Value v, StrBuf *b)
{
    Value key, val;
    int64_t pos = 0;
    bool first = true, ok = true;

    sb_putc(b, '{');
    while (ok && dict_next(as_dict(v), &pos, &key, &val)) {
        value_ref(key), value_ref(val);
        if (!first)
            sb_puts(b, ", ");
        first = false;
        ok = value_repr_to(I, key, b);
        sb_puts(b, ": ");
        ok = ok && value_repr_to(I, val, b);
        value_unref(key), value_unref(val);
    }
    sb_putc(b, '}');
    return ok;
}

static bool put_set(Interp *I, Value v, StrBuf *b)
{
    bool frozen = v.o->flags & 1, first = true, ok = true;
    Value key, val;
    int64_t pos = 0;

    if (!as_dict(v)->n) {
        sb_puts(b, frozen ? "frozenset()" : "set()");
        return true;
    }
    sb_puts(b, frozen ? "frozenset({" : "{");
    while (ok && dict_next(as_dict(v), &pos, &key, &val)) {
        value_ref(key);
        if (!first)
            sb_puts(b, ", ");
        first = false;
        ok = value_repr_to(I, key, b);
        value_unref(key);
    }
    sb_puts(b, frozen ? "})" : "}");
    return ok;
}

static bool put_container(Interp *I, Value v, StrBuf *b)
{
    static const char *const cycle[V_COUNT] = {[V_LIST] = "[...]", [V_TUPLE] = "(...)", [V_DICT] = "{...}",
                                               [V_SET] = "set(...)"};
    bool ok;

    if (v.o->flags & BEING_WRITTEN) {
        sb_puts(b, cycle[v.tag]);
        return true;
    }
    if (!interp_enter(I))
        return false;
    v.o->flags |= BEING_WRITTEN;
    ok = v.tag == V_LIST ? put_list(I, v, b) : v.tag == V_TUPLE ? put_tuple(I, v, b)
         : v.tag == V_DICT ? put_dict(I, v, b) : put_set(I, v, b);
    v.o->flags &= (uint16_t)~BEING_WRITTEN;
    interp_leave(I);
    return ok;
}

/* ------------------------------------------------------------- the rest */

static void put_complex_part(StrBuf *b, double x)
{
    StrBuf t = {0};

    repr_float(&t, x);
    if (t.n > 2 && !strcmp(t.s + t.n - 2, ".0"))
        t.n -= 2;
    sb_write(b, t.s, t.n);
    sb_done(&t);
}

static void put_complex(StrBuf *b, const ComplexObj *z)
{
    bool real = z->re != 0 || __builtin_signbit(z->re);

    if (real) {
        sb_putc(b, '(');
        put_complex_part(b, z->re);
        if (!__builtin_signbit(z->im) || z->im != z->im)
            sb_putc(b, '+');
    }
    put_complex_part(b, z->im);
    sb_puts(b, real ? "j)" : "j");
}

static void put_range(StrBuf *b, const RangeObj *r)
{
    sb_printf(b, "range(%" PRId64 ", %" PRId64, r->start, r->stop);
    if (r->step != 1)
        sb_printf(b, ", %" PRId64, r->step);
    sb_putc(b, ')');
}

static bool put_slice(Interp *I, const SliceObj *s, StrBuf *b)
{
    const Value part[3] = {s->lo, s->hi, s->step};

    sb_puts(b, "slice(");
    if (!put_items(I, part, 3, b))
        return false;
    sb_putc(b, ')');
    return true;
}

static bool put_native_object(Interp *I, Value v, StrBuf *b)
{
    NativeInst *o = (NativeInst *)v.o;
    bool ok;

    if (!o->type->repr) {
        sb_printf(b, "<%s object at %p>", o->type->name, (void *)o);
        return true;
    }
    if (v.o->flags & BEING_WRITTEN) {
        sb_puts(b, "...");
        return true;
    }
    if (!interp_enter(I))
        return false;
    v.o->flags |= BEING_WRITTEN;
    o->type->repr(I, o, b);
    ok = !exc_pending(I);
    v.o->flags &= (uint16_t)~BEING_WRITTEN;
    interp_leave(I);
    return ok;
}

static void put_int(StrBuf *b, int64_t i)
{
    char digits[24];

    if (i < 0)
        sb_putc(b, '-');
    sb_write(b, digits, put_decimal(i < 0 ? 0 - (uint64_t)i : (uint64_t)i, digits));
}

static bool put_symint(Interp *I, Value v, StrBuf *b)
{
    int64_t i;

    if (!symint_number(I, v, &i))
        return false;
    sb_printf(b, "%" PRId64, i);
    return true;
}

static bool put_symfloat(Interp *I, Value v, StrBuf *b)
{
    double f;

    if (!symfloat_number(I, v, &f))
        return false;
    repr_float(b, f);
    return true;
}

bool value_repr_to(Interp *I, Value v, StrBuf *b)
{
    switch (v.tag) {
    case V_ERR: sb_puts(b, "<unset>"); return true;
    case V_NONE: sb_puts(b, "None"); return true;
    case V_ELLIPSIS: sb_puts(b, "Ellipsis"); return true;
    case V_NOTIMPL: sb_puts(b, "NotImplemented"); return true;
    case V_BOOL: sb_puts(b, v.i ? "True" : "False"); return true;
    case V_INT: put_int(b, v.i); return true;
    case V_FLOAT: repr_float(b, v.f); return true;
    case V_STR: repr_str(b, as_str(v)->s, as_str(v)->len); return true;
    case V_BYTES: repr_bytes(b, ((BytesObj *)v.o)->s, ((BytesObj *)v.o)->len); return true;
    case V_COMPLEX: put_complex(b, (ComplexObj *)v.o); return true;
    case V_LIST: case V_TUPLE: case V_DICT: case V_SET: return put_container(I, v, b);
    case V_RANGE: put_range(b, (RangeObj *)v.o); return true;
    case V_SLICE: return put_slice(I, (SliceObj *)v.o, b);
    case V_SYMINT: return put_symint(I, v, b);
    case V_SYMFLOAT: return put_symfloat(I, v, b);
    case V_TENSOR: case V_DTYPE: return tensor_op_repr(I, v, b);
    case V_NATIVEOBJ: return put_native_object(I, v, b);
    default: return object_repr_to(I, v, b);
    }
}

Value value_repr(Interp *I, Value v)
{
    StrBuf b = {0};

    if (!value_repr_to(I, v, &b)) {
        sb_done(&b);
        return VERR;
    }
    return str_steal(&b);
}

bool value_str_to(Interp *I, Value v, StrBuf *b)
{
    if (v.tag == V_INSTANCE)
        return object_str_to(I, v, b);
    if (v.tag != V_STR)
        return value_repr_to(I, v, b);
    sb_write(b, as_str(v)->s, as_str(v)->len);
    return true;
}

Value value_str(Interp *I, Value v)
{
    StrBuf b = {0};

    if (v.tag == V_STR)
        return value_ref(v);
    if (!value_str_to(I, v, &b)) {
        sb_done(&b);
        return VERR;
    }
    return str_steal(&b);
}
