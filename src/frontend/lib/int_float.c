/*
 * int, float, bool and complex: their constructors and methods.
 *
 * int is 64 bits wide: what does not fit raises OverflowError.
 */
#include "frontend/lib/lib.h"
#include "frontend/tensor/tensor_ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "... with base 10: 'abc'" */
static Value raise_literal(Interp *I, const char *what, StrObj *s)
{
    StrBuf b = {0};
    Value r;

    repr_str(&b, s->s, s->len);
    r = raise(I, EXC_ValueError, "%s: %s", what, b.s);
    sb_done(&b);
    return r;
}

/* ------------------------------------------------------------- int */

Value int_of_float(Interp *I, double x)
{
    if (isnan(x))
        return raise(I, EXC_ValueError, "cannot convert float NaN to integer");
    if (isinf(x))
        return raise(I, EXC_OverflowError, "cannot convert float infinity to integer");
    if (x >= 9223372036854775808.0 || x < -9223372036854775808.0)
        return raise(I, EXC_OverflowError, "float too large for a 64-bit int");
    return vint((int64_t)x);
}

static Value int_of_text(Interp *I, StrObj *s, int base)
{
    char what[64];
    int64_t v;
    ParseStatus st = parse_int(s->s, s->len, base, &v);

    if (st == PARSE_OK)
        return vint(v);
    if (st == PARSE_RANGE)
        return raise(I, EXC_OverflowError, "int() of a text that does not fit in 64 bits: %s", s->s);
    snprintf(what, sizeof what, "invalid literal for int() with base %d", base);
    return raise_literal(I, what, s);
}

static Value int_of_text_in_base(Interp *I, Value text, Value base)
{
    int64_t b;

    text = unwrap_base(text);
    if (!value_as_int(I, base, &b))
        return VERR;
    if (text.tag != V_STR)
        return raise(I, EXC_TypeError, "int() can't convert non-string with explicit base");
    if (b && (b < 2 || b > 36))
        return raise(I, EXC_ValueError, "int() base must be >= 2 and <= 36, or 0");
    return int_of_text(I, as_str(text), (int)b);
}

static Value int_make(Interp *I, Value *a)
{
    Value v = unwrap_base(a[1]), r;
    int64_t i;

    if (is_err(v))
        return vint(0);
    if (!is_err(a[2]))
        return int_of_text_in_base(I, v, a[2]);
    switch (v.tag) {
    case V_INT: case V_BOOL: return vint(v.i);
    case V_FLOAT: return int_of_float(I, v.f);
    case V_STR: return int_of_text(I, as_str(v), 10);
    case V_TENSOR:
        r = tensor_op_item(I, v);
        if (r.tag != V_FLOAT)
            return r.tag == V_BOOL ? vint(r.i) : r;
        return int_of_float(I, r.f);
    case V_SYMINT: return value_ref(v);
    default: break;
    }
    r = value_call_dunder(I, v, D_int, NULL, 0);
    if (!is_err(r) || exc_pending(I))
        return r;
    if (value_as_int(I, v, &i))
        return vint(i);
    if (exc_matches(I, EXC_TypeError)) {
        exc_clear(I);
        raise(I, EXC_TypeError, "int() argument must be a string, a bytes-like object or a real number, not '%s'",
              value_type_name(v));
    }
    return VERR;
}

static uint64_t magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static bool self_int(Interp *I, Value v, int64_t *out)
{
    return value_as_int(I, unwrap_base(v), out);
}

static Value i_bit_length(Interp *I, Value *a)
{
    int64_t v;

    if (!self_int(I, a[0], &v))
        return VERR;
    return vint(v ? 64 - __builtin_clzll(magnitude(v)) : 0);
}

static Value i_bit_count(Interp *I, Value *a)
{
    int64_t v;

    return self_int(I, a[0], &v) ? vint(__builtin_popcountll(magnitude(v))) : VERR;
}

static Value i_self(Interp *I, Value *a)
{
    int64_t v;
    return self_int(I, a[0], &v) ? vint(v) : VERR;
}

static Value i_ratio(Interp *I, Value *a)
{
    int64_t v;
    return self_int(I, a[0], &v) ? tuple_of(2, vint(v), vint(1)) : VERR;
}

static Value i_is_integer(Interp *I, Value *a) { return vbool(true); }
static Value i_zero(Interp *I, Value *a) { return vint(0); }
static Value i_one(Interp *I, Value *a) { return vint(1); }

static bool byte_order(Interp *I, Value v, bool *big)
{
    StrObj *s = need_str(I, v, "byteorder");

    if (!s)
        return false;
    *big = !strcmp(s->s, "big");
    if (*big || !strcmp(s->s, "little"))
        return true;
    raise(I, EXC_ValueError, "byteorder must be either 'little' or 'big'");
    return false;
}

/* a = self, length, byteorder, signed */
static Value i_to_bytes(Interp *I, Value *a)
{
    int64_t v, n;
    bool big;
    int sign;
    StrBuf b = {0};
    Value out;

    if (!self_int(I, a[0], &v) || !value_as_int(I, a[1], &n) || !byte_order(I, a[2], &big) || (sign = value_truth(I, a[3])) < 0)
        return VERR;
    if (n < 0)
        return raise(I, EXC_ValueError, "length argument must be non-negative");
    if (v < 0 && !sign)
        return raise(I, EXC_OverflowError, "can't convert negative int to unsigned");
    if (n < 8 && (sign ? n == 0 ? v != 0 : v < -((int64_t)1 << (8 * n - 1)) || v >= (int64_t)1 << (8 * n - 1)
                       : n == 0 ? v != 0 : v >> (8 * n)))
        return raise(I, EXC_OverflowError, "int too big to convert");
    for (int64_t i = 0; i < n; i++) {
        int64_t k = big ? n - 1 - i : i;
        sb_putc(&b, (char)(k < 8 ? v >> (8 * k) : v < 0 ? -1 : 0));
    }
    out = bytes_new(sb_str(&b), b.n);
    sb_done(&b);
    return out;
}

static Value int_of_bytes(Interp *I, const BytesObj *b, bool big, bool sign)
{
    bool negative = sign && b->len && (b->s[big ? 0 : b->len - 1] & 0x80);
    uint64_t v = 0;

    for (uint32_t i = 0; i < b->len; i++) {
        unsigned char c = (unsigned char)b->s[big ? i : b->len - 1 - i];
        if (b->len - i > 8 ? c != (negative ? 0xff : 0) : b->len - i == 8 && ((c & 0x80) != 0) != negative)
            return raise(I, EXC_OverflowError, "int does not fit in 64 bits");
        v = v << 8 | c;
    }
    if (negative && b->len < 8)
        v |= ~(uint64_t)0 << (8 * b->len);
    return vint((int64_t)v);
}

/* a = bytes, or what bytes() takes of several; byteorder, signed */
static Value i_from_bytes(Interp *I, Value *a)
{
    Value bytes, r;
    bool big;
    int sign;

    if (a[0].tag == V_INT || a[0].tag == V_STR)
        return raise(I, EXC_TypeError, "cannot convert '%s' object to bytes", value_type_name(a[0]));
    if (!byte_order(I, a[1], &big) || (sign = value_truth(I, a[2])) < 0)
        return VERR;
    bytes = a[0].tag == V_BYTES ? value_ref(a[0]) : value_call(I, prelude_get(I, "bytes"), a, 1);
    r = is_err(bytes) ? VERR : int_of_bytes(I, (BytesObj *)bytes.o, big, sign);
    value_unref(bytes);
    return r;
}

/* ------------------------------------------------------------- float */

static Value float_make(Interp *I, Value *a)
{
    Value v = unwrap_base(a[1]), r;
    double x;

    if (is_err(v))
        return vfloat(0);
    if (v.tag == V_STR)
        return parse_float(as_str(v)->s, as_str(v)->len, &x)
                   ? vfloat(x) : raise_literal(I, "could not convert string to float", as_str(v));
    r = value_call_dunder(I, v, D_float, NULL, 0);
    if (!is_err(r) || exc_pending(I))
        return r;
    if (value_as_float(I, v, &x))
        return vfloat(x);
    if (exc_matches(I, EXC_TypeError) && v.tag != V_TENSOR) {
        exc_clear(I);
        raise(I, EXC_TypeError, "float() argument must be a string or a real number, not '%s'", value_type_name(v));
    }
    return VERR;
}

static bool self_float(Interp *I, Value v, double *out)
{
    return value_as_float(I, unwrap_base(v), out);
}

static Value f_is_integer(Interp *I, Value *a)
{
    double x;
    return self_float(I, a[0], &x) ? vbool(isfinite(x) && floor(x) == x) : VERR;
}

static Value f_self(Interp *I, Value *a)
{
    double x;
    return self_float(I, a[0], &x) ? vfloat(x) : VERR;
}

static Value f_zero(Interp *I, Value *a) { return vfloat(0); }

static Value f_hex(Interp *I, Value *a)
{
    StrBuf b = {0};
    double x;
    int e;

    if (!self_float(I, a[0], &x))
        return VERR;
    if (!isfinite(x)) {
        repr_float(&b, x);
        return str_steal(&b);
    }
    if (signbit(x))
        sb_putc(&b, '-');
    if (x == 0) {
        sb_puts(&b, "0x0.0p+0");
        return str_steal(&b);
    }
    double m = frexp(fabs(x), &e) * 2;
    e--;
    if (e < -1022) {                            /* subnormal: a leading zero and the smallest exponent */
        m = ldexp(m, e + 1022);
        e = -1022;
    }
    uint64_t frac = (uint64_t)ldexp(m - floor(m), 52);
    sb_printf(&b, "0x%d.%013" PRIx64 "p%+d", (int)m, frac, e);
    return str_steal(&b);
}

static Value f_fromhex(Interp *I, Value *a)
{
    StrObj *s = need_str(I, a[0], "fromhex() argument");
    const char *p = s ? s->s : "";
    char *end;
    double x;
    StrBuf b = {0};

    if (!s)
        return VERR;
    while (*p == ' ')
        p++;
    if (*p == '-' || *p == '+')
        sb_putc(&b, *p++);
    if (strncasecmp(p, "0x", 2) && strncasecmp(p, "inf", 3) && strncasecmp(p, "nan", 3))
        sb_puts(&b, "0x");
    sb_puts(&b, p);
    x = strtod(b.s, &end);
    bool ok = *end == 0 && end != b.s;
    sb_done(&b);
    return ok ? vfloat(x) : raise(I, EXC_ValueError, "invalid hexadecimal floating-point string");
}

static Value f_ratio(Interp *I, Value *a)
{
    double x, m;
    int e;

    if (!self_float(I, a[0], &x))
        return VERR;
    if (isnan(x))
        return raise(I, EXC_ValueError, "cannot convert NaN to integer ratio");
    if (isinf(x))
        return raise(I, EXC_OverflowError, "cannot convert Infinity to integer ratio");
    m = frexp(x, &e);
    for (int i = 0; i < 60 && m != floor(m); i++, e--)
        m *= 2;
    if (e > 62 || e < -62 || fabs(ldexp(m, e > 0 ? e : 0)) >= 9223372036854775808.0)
        return raise(I, EXC_OverflowError, "the ratio does not fit in 64-bit ints");
    return e >= 0 ? tuple_of(2, vint((int64_t)ldexp(m, e)), vint(1)) : tuple_of(2, vint((int64_t)m), vint((int64_t)1 << -e));
}

/* ------------------------------------------------------------- bool, complex */

static Value bool_make(Interp *I, Value *a)
{
    int t = is_err(a[1]) ? 0 : value_truth(I, a[1]);

    return t < 0 ? VERR : vbool(t);
}

static bool complex_parts(Interp *I, Value v, double *re, double *im)
{
    v = unwrap_base(v);
    *im = 0;
    if (v.tag == V_COMPLEX) {
        *re = ((ComplexObj *)v.o)->re;
        *im = ((ComplexObj *)v.o)->im;
        return true;
    }
    return value_as_float(I, v, re);
}

/* "1+2j", "(1+2j)", "3j", "4": split at the last sign that is not an exponent's. */
static bool parse_complex(const char *s, size_t n, double *re, double *im)
{
    size_t cut = 0;

    while (n && (*s == ' ' || *s == '('))
        s++, n--;
    while (n && (s[n - 1] == ' ' || s[n - 1] == ')'))
        n--;
    *re = *im = 0;
    if (!n || (s[n - 1] | 32) != 'j')
        return parse_float(s, n, re);
    n--;
    for (size_t i = 1; i < n; i++)
        if ((s[i] == '+' || s[i] == '-') && (s[i - 1] | 32) != 'e')
            cut = i;
    if (cut && !parse_float(s, cut, re))
        return false;
    if (n - cut == 0 || (n - cut == 1 && (s[cut] == '+' || s[cut] == '-'))) {
        *im = n - cut && s[cut] == '-' ? -1 : 1;
        return true;
    }
    return parse_float(s + cut, n - cut, im);
}

static Value complex_make(Interp *I, Value *a)
{
    double re = 0, im = 0, re2 = 0, im2 = 0;
    Value v = unwrap_base(a[1]);

    if (v.tag == V_STR) {
        if (!is_err(a[2]))
            return raise(I, EXC_TypeError, "complex() can't take second arg if first is a string");
        if (!parse_complex(as_str(v)->s, as_str(v)->len, &re, &im))
            return raise(I, EXC_ValueError, "complex() arg is a malformed string");
        return complex_new(re, im);
    }
    if ((!is_err(v) && !complex_parts(I, v, &re, &im)) || (!is_err(a[2]) && !complex_parts(I, a[2], &re2, &im2)))
        return VERR;
    return complex_new(im2 != 0 ? re - im2 : re, is_err(a[2]) ? im : im != 0 ? im + re2 : re2);
}

static Value c_real(Interp *I, Value *a) { return vfloat(((ComplexObj *)unwrap_base(a[0]).o)->re); }
static Value c_imag(Interp *I, Value *a) { return vfloat(((ComplexObj *)unwrap_base(a[0]).o)->im); }

static Value c_conjugate(Interp *I, Value *a)
{
    ComplexObj *z = (ComplexObj *)unwrap_base(a[0]).o;
    return complex_new(z->re, -z->im);
}

const NativeDef natives_number[] = {
    {"", "int", NULL, "type[int]", "A 64-bit integer."},
    {"int", "__new__", int_make, "(cls, x: str | bytes | float = ..., /, base: int = ...) -> int", "From a number, truncated, or from text in a base; OverflowError beyond 64 bits."},
    {"int", "bit_length", i_bit_length, "(self, /) -> int", "Bits needed for the magnitude."},
    {"int", "bit_count", i_bit_count, "(self, /) -> int", "Ones in the magnitude."},
    {"int", "conjugate", i_self, "(self, /) -> int", "Itself."},
    {"int", "as_integer_ratio", i_ratio, "(self, /) -> tuple[int, int]", "(self, 1)."},
    {"int", "is_integer", i_is_integer, "(self, /) -> bool", "True."},
    {"int", "to_bytes", i_to_bytes, "(self, /, length: int = 1, byteorder: str = 'big', *, signed: bool = False) -> bytes", "Its bytes; OverflowError when they are too few."},
    {"int", "from_bytes", i_from_bytes, "(bytes: bytes | Iterable[int], /, byteorder: str = 'big', *, signed: bool = False) -> int", "The int that the bytes spell."},
    {"int", "real", i_self, "property[int]", "Itself."},
    {"int", "imag", i_zero, "property[int]", "0."},
    {"int", "numerator", i_self, "property[int]", "Itself."},
    {"int", "denominator", i_one, "property[int]", "1."},
    {"", "bool", NULL, "type[bool]", "True or False."},
    {"bool", "__base__", NULL, "type[int]", "A bool is an int."},
    {"bool", "__new__", bool_make, "(cls, x=..., /) -> bool", "Is x true?"},
    {"", "float", NULL, "type[float]", "A 64-bit floating point number."},
    {"float", "__new__", float_make, "(cls, x: str | bytes | float = ..., /) -> float", "From a number or text."},
    {"float", "is_integer", f_is_integer, "(self, /) -> bool", "Has it no fraction?"},
    {"float", "hex", f_hex, "(self, /) -> str", "Exactly, in hexadecimal."},
    {"float", "fromhex", f_fromhex, "(string: str, /) -> float", "The float of a hexadecimal text."},
    {"float", "as_integer_ratio", f_ratio, "(self, /) -> tuple[int, int]", "Numerator and denominator of its exact value."},
    {"float", "conjugate", f_self, "(self, /) -> float", "Itself."},
    {"float", "real", f_self, "property[float]", "Itself."},
    {"float", "imag", f_zero, "property[float]", "0.0."},
    {"", "complex", NULL, "type[complex]", "A complex number."},
    {"complex", "__new__", complex_make, "(cls, real=..., imag=...) -> complex", "From parts or text."},
    {"complex", "real", c_real, "property[float]", "Real part."},
    {"complex", "imag", c_imag, "property[float]", "Imaginary part."},
    {"complex", "conjugate", c_conjugate, "(self, /) -> complex", "With the imaginary part negated."},
    {0},
};
