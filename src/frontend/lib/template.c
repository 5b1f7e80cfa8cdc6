/*
 * Text with holes: "{}".format(...), format_map, render, and the older "%s" % x.
 *
 * A hole is {field!conversion:spec}; a field is a name or number followed by
 * .attribute and [key] steps.  A spec may hold holes itself, one level deep.
 * render() fills {name} holes alone and leaves every other brace as it is, so
 * that code with braces can be a template.
 */
#include "frontend/lib/format.h"
#include "frontend/lib/lib.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct Fill {           /* what the holes are filled from */
    Interp *I;
    Value args, kw;             /* a tuple; any mapping */
    int64_t next;               /* automatic number; -1: fields are numbered by hand */
    bool started;
} Fill;

static bool fail(Fill *f, ExcKind kind, const char *message)
{
    raise(f->I, kind, "%s", message);
    return false;
}

/* ------------------------------------------------------------- fields */

static Value positional(Fill *f, int64_t i)
{
    if (i >= as_tuple(f->args)->n)
        return raise(f->I, EXC_IndexError, "Replacement index %lld out of range for positional args tuple", (long long)i);
    return value_ref(as_tuple(f->args)->at[i]);
}

static Value numbered(Fill *f, bool automatic, int64_t i)
{
    if (f->started && automatic != (f->next >= 0))
        return raise(f->I, EXC_ValueError, automatic
                         ? "cannot switch from manual field specification to automatic field numbering"
                         : "cannot switch from automatic field numbering to manual field specification");
    f->started = true;
    if (automatic)
        i = f->next++;
    else
        f->next = -1;
    return positional(f, i);
}

static bool as_index(const char *s, size_t n, int64_t *out)
{
    if (!n || n > 18)
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)s[i]))
            return false;
        *out = *out * 10 + (s[i] - '0');
    }
    return true;
}

static Value first_part(Fill *f, const char *s, size_t n)
{
    int64_t i;
    Value key, v;

    if (!n)
        return numbered(f, true, 0);
    if (as_index(s, n, &i))
        return numbered(f, false, i);
    key = str_new(s, n);
    v = value_getitem(f->I, f->kw, key);
    value_unref(key);
    return v;
}

/* One .attribute or [key] step at *p; consumes v. */
static Value field_step(Fill *f, Value v, const char **p, const char *end)
{
    const char *from = *p + 1, *q = from;
    bool index = **p == '[';
    int64_t i;
    Value r, key;

    while (q < end && (index ? *q != ']' : *q != '.' && *q != '['))
        q++;
    if (q == from || (index && q == end)) {
        value_unref(v);
        return raise(f->I, EXC_ValueError, q == from ? "Empty attribute in format string" : "Missing ']' in format string");
    }
    if (!index) {
        r = value_getattr(f->I, v, sym_n(from, (size_t)(q - from)));
    } else {
        key = as_index(from, (size_t)(q - from), &i) ? vint(i) : str_new(from, (size_t)(q - from));
        r = value_getitem(f->I, v, key);
        value_unref(key);
        q++;
    }
    value_unref(v);
    *p = q;
    if (index && q < end && *q != '.' && *q != '[' && !is_err(r)) {
        value_unref(r);
        return raise(f->I, EXC_ValueError, "Only '.' or '[' may follow ']' in format field specifier");
    }
    return r;
}

static Value field_value(Fill *f, const char *s, size_t n)
{
    const char *p = s, *end = s + n;
    Value v;

    while (p < end && *p != '.' && *p != '[')
        p++;
    v = first_part(f, s, (size_t)(p - s));
    while (p < end && !is_err(v))
        v = field_step(f, v, &p, end);
    return v;
}

/* ------------------------------------------------------------- holes */

static bool fill(Fill *f, const char *p, const char *end, int depth, StrBuf *b);

static Value convert(Fill *f, Value v, char conversion)
{
    Value r;

    if (!conversion)
        return v;
    if (conversion == 's') {
        r = value_str(f->I, v);
    } else {
        r = value_repr(f->I, v);
        if (conversion == 'a' && !is_err(r)) {
            StrBuf b = {0};
            repr_ascii(&b, as_str(r)->s, as_str(r)->len);
            value_unref(r);
            r = str_steal(&b);
        }
    }
    value_unref(v);
    return r;
}

typedef struct { const char *field, *field_end, *spec, *spec_end; char conversion; } Hole;

/* Split the hole whose text starts after '{' at *p; on success *p is behind its '}'. */
static bool read_hole(Fill *f, const char **p, const char *end, Hole *h)
{
    const char *q = *p;
    int depth = 0;

    *h = (Hole){.field = q};
    for (bool bracket = false; q < end && (bracket || (*q != '}' && *q != ':' && *q != '!')); q++) {
        if (*q == '{')
            return fail(f, EXC_ValueError, "unexpected '{' in field name");
        bracket = *q == '[' || (bracket && *q != ']');
    }
    h->field_end = q;
    if (q < end && *q == '!') {
        if (q + 2 >= end)
            return fail(f, EXC_ValueError, "end of string while looking for conversion specifier");
        h->conversion = q[1];
        q += 2;
        if (*q != ':' && *q != '}')
            return fail(f, EXC_ValueError, "expected ':' after conversion specifier");
        if (!strchr("rsa", h->conversion)) {
            raise(f->I, EXC_ValueError, "Unknown conversion specifier %c", h->conversion);
            return false;
        }
    }
    if (q < end && *q == ':')
        q++;
    h->spec = q;
    for (; q < end && (depth || *q != '}'); q++)
        depth += *q == '{' ? 1 : *q == '}' ? -1 : 0;
    if (q >= end)
        return fail(f, EXC_ValueError, "expected '}' before end of string");
    h->spec_end = q;
    *p = q + 1;
    return true;
}

static bool fill_hole(Fill *f, const Hole *h, int depth, StrBuf *b)
{
    Value v = field_value(f, h->field, (size_t)(h->field_end - h->field)), text;
    StrBuf spec = {0};

    if (!is_err(v))
        v = convert(f, v, h->conversion);
    if (is_err(v))
        return false;
    if (!memchr(h->spec, '{', (size_t)(h->spec_end - h->spec)))
        sb_write(&spec, h->spec, (size_t)(h->spec_end - h->spec));
    else if (!fill(f, h->spec, h->spec_end, depth + 1, &spec)) {
        value_unref(v);
        sb_done(&spec);
        return false;
    }
    text = value_format(f->I, v, sb_str(&spec), spec.n);
    value_unref(v);
    sb_done(&spec);
    if (is_err(text))
        return false;
    sb_write(b, as_str(text)->s, as_str(text)->len);
    value_unref(text);
    return true;
}

static bool fill(Fill *f, const char *p, const char *end, int depth, StrBuf *b)
{
    Hole h;

    if (depth > 2)
        return fail(f, EXC_ValueError, "Max string recursion exceeded");
    while (p < end) {
        const char *from = p;
        while (p < end && *p != '{' && *p != '}')
            p++;
        sb_write(b, from, (size_t)(p - from));
        if (p >= end)
            break;
        if (p + 1 < end && p[0] == p[1] && depth == 1) {
            sb_putc(b, *p);
            p += 2;
            continue;
        }
        if (*p == '}' || p + 1 >= end)
            return fail(f, EXC_ValueError, *p == '}' ? "Single '}' encountered in format string"
                                                     : "Single '{' encountered in format string");
        p++;
        if (!read_hole(f, &p, end, &h) || !fill_hole(f, &h, depth, b))
            return false;
    }
    return true;
}

Value str_format(Interp *I, StrObj *format, Value args, Value kw)
{
    Fill f = {.I = I, .args = args, .kw = kw};
    StrBuf b = {0};

    if (!fill(&f, format->s, format->s + format->len, 1, &b)) {
        sb_done(&b);
        return VERR;
    }
    return str_steal(&b);
}

/* ------------------------------------------------------------- render */

static bool name_byte(unsigned char c, bool first)
{
    return c == '_' || c >= 0x80 || isalpha(c) || (!first && isdigit(c));
}

/* The length of the name in a {name} hole whose '{' is at p, 0 when this brace opens none. */
static size_t hole_name(const char *p, const char *end)
{
    size_t n = 0;

    while (p + 1 + n < end && name_byte((unsigned char)p[1 + n], !n))
        n++;
    return n && p + 1 + n < end && p[1 + n] == '}' ? n : 0;
}

Value str_render(Interp *I, StrObj *text, DictObj *values)
{
    const char *p = text->s, *end = p + text->len;
    StrBuf b = {0};

    while (p < end) {
        size_t n = *p == '{' ? hole_name(p, end) : 0;
        if (!n) {
            sb_putc(&b, *p++);
            continue;
        }
        Value v = dict_get_sym(values, sym_n(p + 1, n));
        if (is_err(v)) {
            raise(I, EXC_KeyError, "template hole '%.*s' not given", (int)n, p + 1);
            goto fail;
        }
        if (!value_str_to(I, v, &b))
            goto fail;
        p += n + 2;
    }
    return str_steal(&b);
fail:
    sb_done(&b);
    return VERR;
}

/* ------------------------------------------------------------- "%" */

typedef struct Percent {
    Interp *I;
    Value args;
    int64_t at;                 /* next element when args is a tuple, or 1 when the one value is used */
    bool used_mapping;
} Percent;

static Value next_arg(Percent *p)
{
    bool tuple = p->args.tag == V_TUPLE;

    if (p->at >= (tuple ? as_tuple(p->args)->n : 1))
        return raise(p->I, EXC_TypeError, "not enough arguments for format string");
    return value_ref(tuple ? as_tuple(p->args)->at[p->at++] : (p->at++, p->args));
}

static Value mapped_arg(Percent *p, const char *name, size_t n)
{
    Value key, v;

    if (p->args.tag != V_DICT && p->args.tag != V_INSTANCE)
        return raise(p->I, EXC_TypeError, "format requires a mapping");
    key = str_new(name, n);
    v = value_getitem(p->I, p->args, key);
    value_unref(key);
    p->used_mapping = true;
    return v;
}

/* A width or precision: digits, or * for the next argument. */
static bool percent_number(Percent *p, const char **s, const char *end, int64_t *out)
{
    if (*s < end && **s == '*') {
        Value v = next_arg(p);
        ++*s;
        if (is_err(v))
            return false;
        if (v.tag != V_INT) {
            raise(p->I, EXC_TypeError, "* wants int");
            value_unref(v);
            return false;
        }
        *out = v.i;
        return true;
    }
    for (; *s < end && isdigit((unsigned char)**s); ++*s) {
        *out = (*out < 0 ? 0 : *out) * 10 + (**s - '0');
        if (*out > INT32_MAX) {
            raise(p->I, EXC_ValueError, "width too big");
            return false;
        }
    }
    return true;
}

static bool percent_flags(Percent *p, const char **s, const char *end, Spec *f)
{
    *f = (Spec){.fill = ' ', .align = '>', .width = -1, .precision = -1};
    for (; *s < end && **s && strchr("-+ #0", **s); ++*s) {
        switch (**s) {
        case '-': f->align = '<'; break;
        case '+': f->sign = '+'; break;
        case ' ': f->sign = f->sign ? f->sign : ' '; break;
        case '#': f->alternate = true; break;
        default: f->zero_pad = true; break;
        }
    }
    if (!percent_number(p, s, end, &f->width))
        return false;
    if (f->width < -1) {
        f->align = '<';
        f->width = -f->width;
    }
    if (*s < end && **s == '.') {
        ++*s;
        f->precision = 0;
        if (!percent_number(p, s, end, &f->precision))
            return false;
        if (f->precision < 0)
            f->precision = 0;
        if (f->precision > PRECISION_MAX) {
            raise(p->I, EXC_ValueError, "precision too big");
            return false;
        }
    }
    while (*s < end && strchr("hlL", **s))
        ++*s;
    return true;
}

static bool percent_text(Percent *p, Spec *f, Value v, char code, StrBuf *b)
{
    Value text = convert(&(Fill){.I = p->I}, value_ref(v), code);
    bool ok;

    if (is_err(text))
        return false;
    f->type = 0;
    f->sign = 0;
    f->alternate = f->zero_pad = false;
    ok = format_str(p->I, f, as_str(text), b);
    value_unref(text);
    return ok;
}

static bool percent_char(Percent *p, Spec *f, Value v, StrBuf *b)
{
    Value text;
    bool ok;

    if (v.tag == V_INT && (v.i < 0 || v.i > 0x10ffff)) {
        raise(p->I, EXC_OverflowError, "%%c arg not in range(0x110000)");
        return false;
    }
    if (v.tag != V_INT && (v.tag != V_STR || str_nchars(as_str(v)) != 1)) {
        raise(p->I, EXC_TypeError, "%%c requires int or char");
        return false;
    }
    text = v.tag == V_INT ? str_char((uint32_t)v.i) : value_ref(v);
    f->sign = 0;
    f->precision = -1;
    f->type = 0;
    f->alternate = f->zero_pad = false;
    ok = format_str(p->I, f, as_str(text), b);
    value_unref(text);
    return ok;
}

/* %.5d: at least that many digits. */
static bool percent_digits(Percent *p, Spec *f, int64_t v, StrBuf *b)
{
    int64_t least = f->precision + (v < 0 || f->sign);
    Spec digits = {.fill = '0', .align = '=', .sign = f->sign, .alternate = f->alternate, .type = f->type,
                   .width = f->align == '=' && f->width > least ? f->width : least, .precision = -1};
    Spec outer = {.fill = ' ', .align = f->align == '=' ? '>' : f->align, .width = f->width, .precision = -1};
    StrBuf t = {0};
    Value text;
    bool ok = format_int(p->I, &digits, v, &t);

    text = str_steal(&t);
    ok = ok && format_str(p->I, &outer, as_str(text), b);
    value_unref(text);
    return ok;
}

static bool percent_int(Percent *p, Spec *f, Value v, char code, StrBuf *b)
{
    int64_t i;

    if (v.tag == V_FLOAT && strchr("diu", code)) {
        if (!isfinite(v.f) || fabs(v.f) >= 9.3e18) {
            raise(p->I, EXC_OverflowError, "float too large for a 64-bit int");
            return false;
        }
        i = (int64_t)v.f;
    } else if (v.tag == V_STR || v.tag == V_FLOAT || !value_as_int(p->I, v, &i)) {
        exc_clear(p->I);
        if (strchr("diu", code))
            raise(p->I, EXC_TypeError, "%%%c format: a real number is required, not %s", code, value_type_name(v));
        else
            raise(p->I, EXC_TypeError, "%%%c format: an integer is required, not %s", code, value_type_name(v));
        return false;
    }
    f->type = strchr("diu", code) ? 'd' : (uint32_t)code;
    return f->precision >= 0 ? percent_digits(p, f, i, b) : format_int(p->I, f, i, b);
}

static bool percent_value(Percent *p, Spec *f, Value v, char code, StrBuf *b)
{
    double x;

    if (f->zero_pad && f->align != '<') {
        f->fill = '0';
        f->align = '=';
    }
    if (strchr("diuxXo", code))
        return percent_int(p, f, v, code, b);
    if (v.tag == V_STR || !value_as_float(p->I, v, &x)) {
        exc_clear(p->I);
        raise(p->I, EXC_TypeError, "must be real number, not %s", value_type_name(v));
        return false;
    }
    f->type = (uint32_t)code;
    return format_float(p->I, f, x, b);
}

/* The conversion behind a '%' at *s, which is left behind it. */
static bool percent_one(Percent *p, const char *start, const char **s, const char *end, StrBuf *b)
{
    const char *name = NULL;
    size_t len = 0;
    Spec f;
    Value v;
    bool ok;
    char code;

    if (*s < end && **s == '(') {
        name = ++*s;
        while (*s < end && **s != ')')
            ++*s;
        len = (size_t)(*s - name);
        if (*s >= end) {
            raise(p->I, EXC_ValueError, "incomplete format key");
            return false;
        }
        ++*s;
    }
    if (!percent_flags(p, s, end, &f))
        return false;
    if (*s >= end) {
        raise(p->I, EXC_ValueError, "incomplete format");
        return false;
    }
    code = *(*s)++;
    if (code == '%') {
        sb_putc(b, '%');
        return true;
    }
    if (!code || !strchr("sracdiuxXoeEfFgG", code)) {
        raise(p->I, EXC_ValueError, "unsupported format character '%c' (0x%x) at index %d", code, (unsigned char)code,
              (int)(*s - start - 1));
        return false;
    }
    v = name ? mapped_arg(p, name, len) : next_arg(p);
    if (is_err(v))
        return false;
    ok = strchr("sra", code) ? percent_text(p, &f, v, code, b) : code == 'c' ? percent_char(p, &f, v, b)
                                                                             : percent_value(p, &f, v, code, b);
    value_unref(v);
    return ok;
}

Value str_percent(Interp *I, StrObj *format, Value args)
{
    Percent p = {.I = I, .args = args};
    const char *s = format->s, *end = s + format->len;
    StrBuf b = {0};

    while (s < end) {
        const char *from = s;
        while (s < end && *s != '%')
            s++;
        sb_write(&b, from, (size_t)(s - from));
        if (s >= end)
            break;
        s++;
        if (!percent_one(&p, format->s, &s, end, &b))
            goto fail;
    }
    if (args.tag == V_TUPLE ? p.at < as_tuple(args)->n : !p.at && !p.used_mapping && args.tag != V_DICT) {
        raise(I, EXC_TypeError, "not all arguments converted during string formatting");
        goto fail;
    }
    return str_steal(&b);
fail:
    sb_done(&b);
    return VERR;
}
