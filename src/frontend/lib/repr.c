/*
 * The text of a value: repr() and str().
 *
 * One walk writes into one buffer.  A container that is being written carries
 * a mark, so a cycle prints as [...] instead of forever; deep nesting stops at
 * the interpreter's depth guard.  Classes written in Tessera answer through
 * __repr__ and __str__; everything else has its form here.
 */
#include "frontend/lib/lib.h"

#include "ir/core/dtype.h"
#include "runtime/tensor.h"

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

void repr_bytes(StrBuf *b, const char *s, size_t n)
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

static void put_address(StrBuf *b, const char *what, const char *name, const void *p)
{
    sb_printf(b, "<%s%s%s at %p>", what, *what && *name ? " " : "", name, p);
}

static bool is_exception(Interp *I, const ClassObj *c)
{
    const ClassObj *root = exc_class(I, EXC_BaseException);

    while (c && c != root)
        c = c->base;
    return c != NULL;
}

static Value exception_args(Interp *I, InstanceObj *o)
{
    Value args = o->attrs ? dict_get_sym(o->attrs, sym("args")) : VERR;

    return args.tag == V_TUPLE ? args : VERR;
}

static bool put_exception(Interp *I, InstanceObj *o, StrBuf *b)
{
    Value args = exception_args(I, o);

    sb_write(b, o->cls->name->text, o->cls->name->len);
    sb_putc(b, '(');
    if (!is_err(args) && !put_items(I, as_tuple(args)->at, as_tuple(args)->n, b))
        return false;
    sb_putc(b, ')');
    return true;
}

/* str(exc): nothing, the one argument, or the tuple of them; a KeyError shows its key as repr. */
static bool put_exception_text(Interp *I, Value v, StrBuf *b)
{
    Value args = exception_args(I, (InstanceObj *)v.o), text;

    if (is_err(args) || !as_tuple(args)->n)
        return true;
    if (as_tuple(args)->n > 1)
        return value_repr_to(I, args, b);
    if (value_isinstance(I, v, vobj(exc_class(I, EXC_KeyError))))
        return value_repr_to(I, as_tuple(args)->at[0], b);
    text = value_str(I, as_tuple(args)->at[0]);
    if (is_err(text))
        return false;
    sb_write(b, as_str(text)->s, as_str(text)->len);
    value_unref(text);
    return true;
}

Value method_of(Value v, const char *name)
{
    Sym s = sym(name);

    if (v.tag != V_INSTANCE)
        return VERR;
    for (ClassObj *c = ((InstanceObj *)v.o)->cls; c && c->base; c = c->base) {
        Value f = c->ns ? dict_get_sym(c->ns, s) : VERR;
        if (!is_err(f))
            return f;
    }
    return VERR;
}

/* Append what a user's __repr__ or __str__ gives, which must be a string. */
static bool put_called(Interp *I, Value v, Value method, const char *name, StrBuf *b)
{
    Value text;

    if (!interp_enter(I))
        return false;
    text = value_call(I, method, &v, 1);
    interp_leave(I);
    if (is_err(text))
        return false;
    Value s = unwrap_base(text);
    if (s.tag != V_STR) {
        raise(I, EXC_TypeError, "%s returned non-string (type %s)", name, value_type_name(text));
        value_unref(text);
        return false;
    }
    sb_write(b, as_str(s)->s, as_str(s)->len);
    value_unref(text);
    return true;
}

static bool put_instance(Interp *I, Value v, StrBuf *b)
{
    InstanceObj *o = (InstanceObj *)v.o;
    Value f = method_of(v, "__repr__");

    if (!is_err(f))
        return put_called(I, v, f, "__repr__", b);
    if (!is_err(o->base))
        return value_repr_to(I, o->base, b);
    if (is_exception(I, o->cls))
        return put_exception(I, o, b);
    put_address(b, o->cls->name->text, "object", o);
    return true;
}

static bool put_native_object(Interp *I, Value v, StrBuf *b)
{
    NativeInst *o = (NativeInst *)v.o;
    bool ok;

    if (!o->type->repr) {
        put_address(b, o->type->name, "object", o);
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

static bool put_bound(Interp *I, const BoundObj *o, StrBuf *b)
{
    Value name = value_getattr_opt(I, o->func, sym("__name__"));

    sb_printf(b, "<bound method %s.%s of ", value_type_name(o->self), name.tag == V_STR ? as_str(name)->s : "?");
    value_unref(name);
    if (!value_repr_to(I, o->self, b))
        return false;
    sb_putc(b, '>');
    return true;
}

static void put_native(StrBuf *b, const NativeObj *o)
{
    if (!is_err(o->self))
        sb_printf(b, "<built-in method %s of %s object at %p>", o->def->name, value_type_name(o->self), (void *)o);
    else if (*o->def->owner)
        sb_printf(b, "<built-in function %s.%s>", o->def->owner, o->def->name);
    else
        sb_printf(b, "<built-in function %s>", o->def->name);
}

static void put_opaque(Value v, StrBuf *b)
{
    switch (v.tag) {
    case V_FUNC: {
        Value name = ((FuncObj *)v.o)->name;
        put_address(b, "function", name.tag == V_STR ? as_str(name)->s : "<lambda>", v.o);
        return;
    }
    case V_NATIVE: put_native(b, (NativeObj *)v.o); return;
    case V_CLASS: sb_printf(b, "<class '%s'>", ((ClassObj *)v.o)->name->text); return;
    case V_MODULE: sb_printf(b, "<module '%s'>", ((ModuleObj *)v.o)->name->text); return;
    default: put_address(b, value_type_name(v), "object", v.o); return;
    }
}

bool value_repr_to(Interp *I, Value v, StrBuf *b)
{
    switch (v.tag) {
    case V_ERR: sb_puts(b, "<unset>"); return true;
    case V_NONE: sb_puts(b, "None"); return true;
    case V_ELLIPSIS: sb_puts(b, "Ellipsis"); return true;
    case V_NOTIMPL: sb_puts(b, "NotImplemented"); return true;
    case V_BOOL: sb_puts(b, v.i ? "True" : "False"); return true;
    case V_INT: sb_printf(b, "%" PRId64, v.i); return true;
    case V_FLOAT: repr_float(b, v.f); return true;
    case V_STR: repr_str(b, as_str(v)->s, as_str(v)->len); return true;
    case V_BYTES: repr_bytes(b, ((BytesObj *)v.o)->s, ((BytesObj *)v.o)->len); return true;
    case V_COMPLEX: put_complex(b, (ComplexObj *)v.o); return true;
    case V_LIST: case V_TUPLE: case V_DICT: case V_SET: return put_container(I, v, b);
    case V_RANGE: put_range(b, (RangeObj *)v.o); return true;
    case V_SLICE: return put_slice(I, (SliceObj *)v.o, b);
    case V_TENSOR: tensor_print(as_tensor(v), b); return true;
    case V_BOUND: return put_bound(I, (BoundObj *)v.o, b);
    case V_INSTANCE: return put_instance(I, v, b);
    case V_NATIVEOBJ: return put_native_object(I, v, b);
    case V_SYMINT: case V_DTYPE: case V_TYPEFORM: return typeform_repr(I, v, b);
    default: put_opaque(v, b); return true;
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

/* str(v) where it differs from repr(v). */
bool value_str_to(Interp *I, Value v, StrBuf *b)
{
    Value f;

    if (v.tag == V_STR) {
        sb_write(b, as_str(v)->s, as_str(v)->len);
        return true;
    }
    if (v.tag != V_INSTANCE)
        return value_repr_to(I, v, b);
    f = method_of(v, "__str__");
    if (!is_err(f))
        return put_called(I, v, f, "__str__", b);
    if (is_exception(I, ((InstanceObj *)v.o)->cls))
        return is_err(method_of(v, "__repr__")) || !is_err(exception_args(I, (InstanceObj *)v.o))
                   ? put_exception_text(I, v, b) : value_repr_to(I, v, b);
    Value base = ((InstanceObj *)v.o)->base;
    return base.tag == V_STR && is_err(method_of(v, "__repr__")) ? value_str_to(I, base, b) : value_repr_to(I, v, b);
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
