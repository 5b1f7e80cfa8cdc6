/*
 * The format mini-language: [[fill]align][sign][z][#][0][width][grouping][.precision][type].
 *
 * A spec is parsed once into a Spec; a number becomes sign, prefix, digits and
 * the rest (point, fraction, exponent, %), and one function joins these with
 * grouping and padding.  Messages are CPython's.
 */
#include "frontend/lib/format.h"

#include "frontend/eval/symint.h"
#include "frontend/lib/lib.h"
#include "frontend/lib/number.h"
#include "frontend/tensor/tensor_ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- parsing */

static bool is_align(uint32_t c)
{
    return c == '<' || c == '>' || c == '=' || c == '^';
}

/* Digits at *p; false: the number does not fit. *out stays -1 without digits. */
static bool read_number(const char **p, const char *end, int64_t *out)
{
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p) {
        *out = (*out < 0 ? 0 : *out) * 10 + (**p - '0');
        if (*out > INT32_MAX)
            return false;
    }
    return true;
}

static void read_fill(Spec *s, const char **p, const char *end)
{
    const char *q = *p;
    uint32_t c;

    if (q >= end)
        return;
    c = utf8_next(&q);
    if (q < end && is_align((unsigned char)*q)) {
        s->fill = c;
        s->align = *q;
        s->has_fill = true;
        *p = q + 1;
    } else if (is_align(c)) {
        s->align = (char)c;
        *p = q;
    }
}

static bool read_grouping(Interp *I, Spec *s, const char **p, const char *end)
{
    while (*p < end && (**p == ',' || **p == '_')) {
        if (s->group && s->group != **p) {
            raise(I, EXC_ValueError, "Cannot specify both ',' and '_'.");
            return false;
        }
        if (s->group) {
            raise(I, EXC_ValueError, "Cannot specify '%c' with '%c'.", s->group, **p);
            return false;
        }
        s->group = *(*p)++;
    }
    return true;
}

static void read_flags(Spec *s, const char **p, const char *end)
{
    if (*p < end && (**p == '+' || **p == '-' || **p == ' '))
        s->sign = *(*p)++;
    if (*p < end && **p == 'z')
        s->no_minus_zero = true, ++*p;
    if (*p < end && **p == '#')
        s->alternate = true, ++*p;
    if (*p < end && **p == '0' && !s->has_fill) {
        s->fill = '0';
        if (!s->align)
            s->align = '=', s->zero_pad = true;
        ++*p;
    }
}

static bool spec_parse(Interp *I, const char *text, size_t n, const char *type_name, Spec *s)
{
    const char *p = text, *end = text + n;

    *s = (Spec){.fill = ' ', .width = -1, .precision = -1};
    read_fill(s, &p, end);
    read_flags(s, &p, end);
    if (!read_number(&p, end, &s->width)) {
        raise(I, EXC_ValueError, "Too many decimal digits in format string");
        return false;
    }
    if (!read_grouping(I, s, &p, end))
        return false;
    if (p < end && *p == '.') {
        p++;
        if (!read_number(&p, end, &s->precision)) {
            raise(I, EXC_ValueError, "Too many decimal digits in format string");
            return false;
        }
        if (s->precision < 0) {
            raise(I, EXC_ValueError, "Format specifier missing precision");
            return false;
        }
        if (s->precision > PRECISION_MAX) {
            raise(I, EXC_ValueError, "precision too big");
            return false;
        }
    }
    if (p < end)
        s->type = utf8_next(&p);
    if (s->group && s->type && !(s->type < 0x80 && strchr(s->group == ',' ? "defgEFG%" : "defgEFG%boxX", (int)s->type))) {
        raise(I, EXC_ValueError, "Cannot specify '%c' with '%c'.", s->group, (char)s->type);
        return false;
    }
    if (p < end) {
        raise(I, EXC_ValueError, "Invalid format specifier '%.*s' for object of type '%s'", (int)n, text, type_name);
        return false;
    }
    return true;
}

static bool unknown_code(Interp *I, uint32_t code, const char *type_name)
{
    StrBuf b = {0};

    sb_put_utf8(&b, code);
    raise(I, EXC_ValueError, "Unknown format code '%s' for object of type '%s'", b.s, type_name);
    sb_done(&b);
    return false;
}

/* ------------------------------------------------------------- padding */

static void put_fill(StrBuf *b, uint32_t fill, int64_t n)
{
    if (n > 0 && fill < 0x80) {
        sb_pad(b, (char)fill, (size_t)n);
        return;
    }
    for (; n > 0; n--)
        sb_put_utf8(b, fill);
}

/* Text of nchars code points, padded to the width; `inner` bytes at its start stay in front of '=' padding. */
static void put_padded(StrBuf *b, const Spec *s, const char *text, size_t n, int64_t nchars, size_t inner, char dflt)
{
    int64_t room = s->width > nchars ? s->width - nchars : 0;
    char align = s->align ? s->align : dflt;
    int64_t left = align == '<' || align == '=' ? 0 : align == '^' ? room / 2 : room;

    put_fill(b, s->fill, left);
    if (align == '=') {
        sb_write(b, text, inner);
        put_fill(b, s->fill, room);
        sb_write(b, text + inner, n - inner);
        return;
    }
    sb_write(b, text, n);
    put_fill(b, s->fill, room - left);
}

/* Digits with a separator every `every`, counted from the right, at least min_width wide with zeros in front. */
static void put_grouped(StrBuf *b, const char *digits, size_t n, char sep, size_t every, int64_t min_width)
{
    size_t total = n;

    if (!sep) {
        sb_write(b, digits, n);
        return;
    }
    while ((int64_t)(total + (total - 1) / every) < min_width)
        total++;
    for (size_t i = 0; i < total; i++) {
        if (i && (total - i) % every == 0)
            sb_putc(b, sep);
        sb_putc(b, i < total - n ? '0' : digits[i - (total - n)]);
    }
}

/* Join sign, prefix, digits and rest of a number under the spec. */
static void put_number(StrBuf *out, const Spec *s, bool negative, const char *prefix, const char *digits, size_t ndigits,
                       const char *rest)
{
    StrBuf b = {0};
    if (s->width < 0 && !s->group) {                /* nothing to pad or group */
        if (negative || s->sign == '+' || s->sign == ' ')
            sb_putc(out, negative ? '-' : s->sign);
        sb_puts(out, prefix);
        sb_write(out, digits, ndigits);
        sb_puts(out, rest);
        return;
    }
    size_t inner, every = s->type == 'x' || s->type == 'X' || s->type == 'o' || s->type == 'b' ? 4 : 3;
    int64_t min = -1;

    if (negative || s->sign == '+' || s->sign == ' ')
        sb_putc(&b, negative ? '-' : s->sign);
    sb_puts(&b, prefix);
    inner = b.n;
    if (s->fill == '0' && s->align == '=')          /* the zeros take part in the grouping */
        min = s->width - (int64_t)inner - (int64_t)strlen(rest);
    put_grouped(&b, digits, ndigits, s->group, every, min);
    sb_puts(&b, rest);
    put_padded(out, s, sb_str(&b), b.n, (int64_t)b.n, inner, '>');
    sb_done(&b);
}

/* ------------------------------------------------------------- strings */

bool format_str(Interp *I, const Spec *s, StrObj *v, StrBuf *b)
{
    int64_t n = str_nchars(v);
    size_t bytes = v->len;

    if (s->type && s->type != 's')
        return unknown_code(I, s->type, "str");
    if (s->sign) {
        raise(I, EXC_ValueError, s->sign == ' ' ? "Space not allowed in string format specifier"
                                                : "Sign not allowed in string format specifier");
        return false;
    }
    if (s->alternate) {
        raise(I, EXC_ValueError, "Alternate form (#) not allowed in string format specifier");
        return false;
    }
    if (s->group) {
        raise(I, EXC_ValueError, "Cannot specify '%c' with 's'.", s->group);
        return false;
    }
    if (s->align == '=' && !s->zero_pad) {
        raise(I, EXC_ValueError, "'=' alignment not allowed in string format specifier");
        return false;
    }
    if (s->precision >= 0 && s->precision < n) {
        n = s->precision;
        bytes = str_byte_of(v, n);
    }
    Spec t = *s;
    t.align = s->zero_pad ? '<' : s->align;
    put_padded(b, &t, v->s, bytes, n, 0, '<');
    return true;
}

/* ------------------------------------------------------------- ints */

static size_t digits_in_base(uint64_t v, unsigned base, bool upper, char *out)
{
    char tmp[64];
    size_t n = 0;

    do
        tmp[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
    while (v /= base);
    for (size_t i = 0; i < n; i++)
        out[i] = tmp[n - 1 - i];
    return n;
}

static bool format_char(Interp *I, const Spec *s, int64_t v, StrBuf *b)
{
    StrBuf t = {0};

    if (s->sign || s->alternate) {
        raise(I, EXC_ValueError, s->sign ? "Sign not allowed with integer format specifier 'c'"
                                         : "Alternate form (#) not allowed with integer format specifier 'c'");
        return false;
    }
    if (v < 0 || v > 0x10ffff) {
        raise(I, EXC_OverflowError, "%%c arg not in range(0x110000)");
        return false;
    }
    sb_put_utf8(&t, (uint32_t)v);
    put_padded(b, s, t.s, t.n, 1, 0, '<');
    sb_done(&t);
    return true;
}

static bool int_code(uint32_t c)
{
    return !c || (c < 0x80 && strchr("bcdnoxX", (int)c));
}

bool format_int(Interp *I, const Spec *s, int64_t v, StrBuf *b)
{
    char digits[64];
    const char *prefix = "";
    unsigned base = s->type == 'b' ? 2 : s->type == 'o' ? 8 : (s->type | 32) == 'x' ? 16 : 10;
    size_t n;

    if (s->precision >= 0) {
        raise(I, EXC_ValueError, "Precision not allowed in integer format specifier");
        return false;
    }
    if (s->type == 'c')
        return format_char(I, s, v, b);
    if (s->alternate && base != 10)
        prefix = s->type == 'b' ? "0b" : s->type == 'o' ? "0o" : s->type == 'X' ? "0X" : "0x";
    n = digits_in_base(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, base, s->type == 'X', digits);
    put_number(b, s, v < 0, prefix, digits, n, "");
    return true;
}

/* ------------------------------------------------------------- floats */

/* Without a type: repr, or with a precision like g but never bare of a point, so 1000 to 4 digits is 1e+03. */
static void general_digits(StrBuf *b, const Spec *s, double x)
{
    int p = s->precision ? (int)s->precision : 1;
    FloatDigits d;

    if (s->precision < 0) {
        float_digits(x, &d);
        float_digits_put(b, &d, d.point > 16 || d.point < -3, true);
    } else if (p <= FLOAT_DIGITS_MAX) {
        float_digits_rounded(x, p, &d);
        float_digits_put(b, &d, d.point > p - 1 || d.point < -3, true);
    } else {                                            /* more digits than any double needs */
        sb_printf(b, "%.*g", p, x);
        if (!strpbrk(b->s, ".e"))
            sb_puts(b, ".0");
    }
}

/* The text of |x|, finite. */
static void float_text(StrBuf *b, const Spec *s, double x)
{
    int p = s->precision < 0 ? 6 : (int)s->precision;
    char form[8];

    if (!s->type) {
        general_digits(b, s, x);
        return;
    }
    if ((s->type == 'f' || s->type == 'F') && !s->alternate && float_fixed(x, p, b))
        return;
    snprintf(form, sizeof form, s->alternate ? "%%#.*%c" : "%%.*%c",
             s->type == '%' ? 'f' : s->type == 'n' ? 'g' : (char)s->type);
    sb_printf(b, form, p, s->type == '%' ? x * 100 : x);
}

/* Does the rounded text hold only zeros? Then z drops its minus. */
static bool all_zero(const char *s)
{
    for (; *s && (*s | 32) != 'e'; s++)
        if (*s >= '1' && *s <= '9')
            return false;
    return true;
}

bool format_float(Interp *I, const Spec *s, double x, StrBuf *b)
{
    StrBuf t = {0};
    bool negative = signbit(x) && !isnan(x);
    size_t whole = 0;

    if (s->type && !(s->type < 0x80 && strchr("eEfFgGn%", (int)s->type)))
        return unknown_code(I, s->type, "float");
    if (isfinite(x)) {
        float_text(&t, s, fabs(x));
    } else {
        bool upper = s->type == 'F' || s->type == 'E' || s->type == 'G';
        sb_puts(&t, isnan(x) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
    }
    if (s->no_minus_zero && negative && isfinite(x) && all_zero(t.s))
        negative = false;
    while (whole < t.n && t.s[whole] >= '0' && t.s[whole] <= '9')
        whole++;
    if (s->type == '%')
        sb_putc(&t, '%');
    if (!whole) {                                       /* inf, nan: nothing to group */
        Spec plain = *s;
        plain.group = 0;
        put_number(b, &plain, negative, "", t.s, t.n, "");
    } else {
        char *rest = t.s + whole;
        put_number(b, s, negative, "", t.s, whole, rest);
    }
    sb_done(&t);
    return true;
}

static int shortest_length(double x)
{
    FloatDigits d = {.n = 1};

    if (isfinite(x))
        float_digits(fabs(x), &d);
    return d.n > d.point ? d.n : d.point <= 16 ? d.point : d.n;
}

/* Both parts under the spec without padding; then padded as one text. Without a type in parentheses, as repr. */
static bool format_complex(Interp *I, const Spec *s, const ComplexObj *z, StrBuf *b)
{
    Spec part = *s;
    StrBuf t = {0};
    bool ok, bare = !s->type;

    if (s->type && !(s->type < 0x80 && strchr("eEfFgGn", (int)s->type)))
        return unknown_code(I, s->type, "complex");
    if (s->fill == '0' || s->align == '=') {
        raise(I, EXC_ValueError, s->fill == '0' ? "Zero padding is not allowed in complex format specifier"
                                                : "'=' alignment flag is not allowed in complex format specifier");
        return false;
    }
    part.width = -1;
    part.align = 0;
    if (bare) {
        part.type = 'g';
        sb_putc(&t, '(');
    }
    if (bare && s->precision < 0)
        part.precision = shortest_length(z->re);
    ok = format_float(I, &part, z->re, &t);
    if (bare && s->precision < 0)
        part.precision = shortest_length(z->im);
    part.sign = '+';
    ok = ok && format_float(I, &part, z->im, &t);
    sb_puts(&t, bare ? "j)" : "j");
    if (ok)
        put_padded(b, s, t.s, t.n, (int64_t)t.n, 0, '>');
    sb_done(&t);
    return ok;
}

/* ------------------------------------------------------------- dispatch */

static bool format_number(Interp *I, Value v, const char *spec, size_t n, StrBuf *b)
{
    const char *name = v.tag == V_FLOAT ? "float" : v.tag == V_COMPLEX ? "complex" : v.tag == V_BOOL ? "bool" : "int";
    Spec s;

    if (!spec_parse(I, spec, n, name, &s))
        return false;
    if (v.tag == V_COMPLEX)
        return format_complex(I, &s, (ComplexObj *)v.o, b);
    if (v.tag == V_FLOAT)
        return format_float(I, &s, v.f, b);
    if (int_code(s.type))
        return format_int(I, &s, v.i, b);
    if (s.type < 0x80 && strchr("eEfFgG%", (int)s.type))
        return format_float(I, &s, (double)v.i, b);
    return unknown_code(I, s.type, name);
}

static Value format_builtin(Interp *I, Value v, const char *spec, size_t n)
{
    StrBuf b = {0};
    Spec s;
    bool ok = v.tag == V_STR ? spec_parse(I, spec, n, "str", &s) && format_str(I, &s, as_str(v), &b)
                             : format_number(I, v, spec, n, &b);

    if (!ok) {
        sb_done(&b);
        return VERR;
    }
    return str_steal(&b);
}

static Value format_instance(Interp *I, Value v, const char *spec, size_t n)
{
    Value text = str_new(spec, n), r = value_call_dunder(I, v, D_format, &text, 1);
    Value base = unwrap_base(v);

    value_unref(text);
    if (!is_err(r) && r.tag != V_STR) {
        raise(I, EXC_TypeError, "__format__ must return a str, not %s", value_type_name(r));
        value_unref(r);
        return VERR;
    }
    if (!is_err(r) || exc_pending(I))
        return r;
    if (base.tag != V_INSTANCE && n)
        return value_format(I, base, spec, n);
    if (n)
        return raise(I, EXC_TypeError, "unsupported format string passed to %s.__format__", value_type_name(v));
    return value_str(I, v);
}

Value value_format(Interp *I, Value v, const char *spec, size_t n)
{
    if (is_symbolic(v) && is_err(v = symint_settled(I, v)))
        return VERR;
    switch (v.tag) {
    case V_BOOL: case V_INT: case V_FLOAT: case V_COMPLEX: case V_STR:
        return n ? format_builtin(I, v, spec, n) : value_str(I, v);
    case V_TENSOR:
        return tensor_op_format(I, v, spec, n);
    case V_INSTANCE:
        return format_instance(I, v, spec, n);
    default:
        if (n)
            return raise(I, EXC_TypeError, "unsupported format string passed to %s.__format__", value_type_name(v));
        return value_str(I, v);
    }
}
