/*
 * Numbers and their text.
 *
 * Problem: a float prints with the fewest digits that read back the same
 * value, and the nearest such text where several are as short.  Three paths,
 * cheapest first: values with at most 15 digits and a small scale are found
 * by exact arithmetic (m and 10^k are both doubles, so m / 10^k is correctly
 * rounded); other normal values need 15, 16 or 17 digits, which the C library
 * rounds correctly; subnormals have fewer digits than 15 and try them all.
 *
 * One trap: at a power of two the gap below is half the gap above, so the
 * nearest text of p digits may miss while its upper neighbour hits.
 */
#include "frontend/lib/lib.h"

#include "frontend/lib/number.h"

#include <utf8proc.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double pow10_exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Digits of m without trailing zeros; value is 0.DIGITS * 10^point. */
static void digits_of_int(uint64_t m, int scale, FloatDigits *out)
{
    int n = snprintf(out->digit, sizeof out->digit, "%llu", (unsigned long long)m);

    out->point = n - scale;
    while (n > 1 && out->digit[n - 1] == '0')
        n--;
    out->digit[n] = 0;
    out->n = n;
}

static bool digits_by_scaling(double x, FloatDigits *out)
{
    for (int k = 0; k <= 22; k++) {
        double y = x * pow10_exact[k], m = rint(y);
        if (m >= 1e15)
            return false;
        if (m / pow10_exact[k] == x) {
            digits_of_int((uint64_t)m, k, out);
            return true;
        }
    }
    return false;
}

/* Read "d.ddddde[+-]xx" of snprintf's %e into digits. */
static void digits_of_text(const char *s, FloatDigits *out)
{
    int n = 0;

    for (; *s && *s != 'e'; s++)
        if (*s != '.')
            out->digit[n++] = *s;
    out->point = atoi(s + 1) + 1;
    while (n > 1 && out->digit[n - 1] == '0')
        n--;
    out->digit[n] = 0;
    out->n = n;
}

static bool reads_back(const char *s, double x)
{
    return strtod(s, NULL) == x;
}

/* Add one unit to the last digit of "d.ddde+xx"; false when it would carry out of the first digit. */
static bool step_up(char *s)
{
    char *e = strchr(s, 'e');

    for (char *p = e - 1; p >= s; p--) {
        if (*p == '.')
            continue;
        if (*p != '9') {
            ++*p;
            return true;
        }
        *p = '0';
    }
    return false;
}

static bool try_precision(double x, int digits, bool uneven_gap, FloatDigits *out)
{
    char s[40];

    snprintf(s, sizeof s, "%.*e", digits - 1, x);
    if (!reads_back(s, x) && !(uneven_gap && step_up(s) && reads_back(s, x)))
        return false;
    digits_of_text(s, out);
    return true;
}

void float_digits_rounded(double x, int n, FloatDigits *out)
{
    char s[40];

    snprintf(s, sizeof s, "%.*e", n - 1, x);
    digits_of_text(s, out);
}

void float_digits(double x, FloatDigits *out)
{
    int e;
    bool uneven = frexp(x, &e) == 0.5;

    if (x == 0) {
        *out = (FloatDigits){.digit = "0", .n = 1, .point = 1};
        return;
    }
    if (digits_by_scaling(x, out))
        return;
    for (int p = x < 2.3e-308 ? 1 : 15; p < 17; p++)
        if (try_precision(x, p, uneven, out))
            return;
    try_precision(x, 17, false, out);
}

void repr_float(StrBuf *b, double x)
{
    FloatDigits d;

    if (isnan(x)) {
        sb_puts(b, "nan");
        return;
    }
    if (signbit(x))
        sb_putc(b, '-');
    if (isinf(x)) {
        sb_puts(b, "inf");
        return;
    }
    float_digits(fabs(x), &d);
    float_digits_put(b, &d, d.point > 16 || d.point < -3, true);
}

void float_digits_put(StrBuf *b, const FloatDigits *d, bool exponent, bool dot_zero)
{
    if (exponent) {
        sb_putc(b, d->digit[0]);
        if (d->n > 1) {
            sb_putc(b, '.');
            sb_write(b, d->digit + 1, (size_t)d->n - 1);
        }
        sb_printf(b, "e%c%02d", d->point > 0 ? '+' : '-', abs(d->point - 1));
        return;
    }
    if (d->point <= 0) {
        sb_puts(b, "0.");
        sb_pad(b, '0', (size_t)-d->point);
        sb_write(b, d->digit, (size_t)d->n);
    } else if (d->point >= d->n) {
        sb_write(b, d->digit, (size_t)d->n);
        sb_pad(b, '0', (size_t)(d->point - d->n));
        if (dot_zero)
            sb_puts(b, ".0");
    } else {
        sb_write(b, d->digit, (size_t)d->point);
        sb_putc(b, '.');
        sb_write(b, d->digit + d->point, (size_t)(d->n - d->point));
    }
}

/* ------------------------------------------------------------- reading */

bool is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Trim white space at both ends of the n bytes at *s. */
void trim(const char **s, size_t *n)
{
    const char *p = *s, *end = p + *n;

    while (p < end) {
        const char *q = p;
        if (!is_space(utf8_next(&q)))
            break;
        p = q;
    }
    while (end > p) {
        const char *q = end - 1, *r;
        while (q > p && ((unsigned char)*q & 0xc0) == 0x80)
            q--;
        r = q;
        if (!is_space(utf8_next(&r)))
            break;
        end = q;
    }
    *s = p;
    *n = (size_t)(end - p);
}

static int digit_value(unsigned char c)
{
    return isdigit(c) ? c - '0' : isalpha(c) && c < 0x80 ? tolower(c) - 'a' + 10 : 99;
}

/* "0x", "0o", "0b" in front of digits: its base, else 0. */
static int prefix_base(const char *s, size_t n)
{
    if (n < 2 || s[0] != '0')
        return 0;
    switch (s[1] | 32) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 0;
    }
}

/* Digits with single underscores between them. */
static ParseStatus read_digits(const char *s, size_t n, int base, bool negative, bool after_prefix, int64_t *out)
{
    bool range = false, need = !after_prefix;
    int64_t v = 0;

    if (!n)
        return PARSE_BAD;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '_') {
            if (need)
                return PARSE_BAD;
            need = true;
            continue;
        }
        int d = digit_value((unsigned char)s[i]);
        if (d >= base)
            return PARSE_BAD;
        need = false;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_sub_overflow(v, d, &v))    /* grows downward: holds -2^63 */
            range = true;
    }
    if (need)
        return PARSE_BAD;
    if (range || (!negative && v == INT64_MIN))
        return PARSE_RANGE;
    *out = negative ? v : -v;
    return PARSE_OK;
}

/* Decimal digits of any script become ASCII, as int("٣") reads them; false: other non-ASCII text. */
static bool to_ascii_digits(const char *s, size_t n, StrBuf *out)
{
    const char *end = s + n;

    while (s < end) {
        uint32_t c = utf8_next(&s);
        if (c >= 0x80) {
            int zero;
            if (utf8proc_category((utf8proc_int32_t)c) != UTF8PROC_CATEGORY_ND)
                return false;
            for (zero = 0; zero < 10 && utf8proc_category((utf8proc_int32_t)c - zero - 1) == UTF8PROC_CATEGORY_ND;)
                zero++;
            c = '0' + (uint32_t)(zero % 10);
        }
        sb_putc(out, (char)c);
    }
    return true;
}

static bool all_ascii(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0x80)
            return false;
    return true;
}

ParseStatus parse_int(const char *s, size_t n, int base, int64_t *out)
{
    bool negative = false;
    int prefix;

    trim(&s, &n);
    if (!all_ascii(s, n)) {
        StrBuf b = {0};
        ParseStatus st = to_ascii_digits(s, n, &b) ? parse_int(b.s, b.n, base, out) : PARSE_BAD;
        sb_done(&b);
        return st;
    }
    if (n && (*s == '-' || *s == '+')) {
        negative = *s == '-';
        s++, n--;
    }
    prefix = prefix_base(s, n);
    if (prefix && (base == 0 || base == prefix))
        return read_digits(s + 2, n - 2, prefix, negative, true, out);
    if (base == 0) {                        /* 010 is nothing, 00 is zero */
        ParseStatus st = read_digits(s, n, 10, negative, false, out);
        return st == PARSE_OK && n > 1 && s[0] == '0' && *out ? PARSE_BAD : st;
    }
    return read_digits(s, n, base, negative, false, out);
}

/* The special names that float() knows, after an optional sign. */
static bool special_float(const char *s, size_t n, double *out)
{
    bool negative = n && *s == '-';

    if (n && (*s == '-' || *s == '+'))
        s++, n--;
    if ((n == 3 && !strncasecmp(s, "inf", 3)) || (n == 8 && !strncasecmp(s, "infinity", 8)))
        *out = negative ? -INFINITY : INFINITY;
    else if (n == 3 && !strncasecmp(s, "nan", 3))
        *out = NAN;
    else
        return false;
    return true;
}

/* Copy a decimal literal without its underscores, which must stand between digits; false: not a decimal. */
static bool plain_decimal(const char *s, size_t n, StrBuf *out)
{
    bool digit = false, dot = false, exp = false, any = false;

    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool next_digit = i + 1 < n && isdigit((unsigned char)s[i + 1]);
        if (isdigit((unsigned char)c)) {
            digit = any = true;
        } else if (c == '_') {
            if (!digit || !next_digit)
                return false;
            continue;
        } else if (c == '.' && !dot && !exp) {
            dot = true;
            digit = false;
        } else if ((c == 'e' || c == 'E') && any && !exp) {
            exp = true;
            any = digit = false;
        } else if ((c != '+' && c != '-') || (i && (s[i - 1] | 32) != 'e')) {
            return false;
        }
        sb_putc(out, c);
    }
    return any;
}

bool parse_float(const char *s, size_t n, double *out)
{
    StrBuf b = {0}, ascii = {0};
    bool ok;

    trim(&s, &n);
    if (special_float(s, n, out))
        return true;
    ok = to_ascii_digits(s, n, &ascii) && plain_decimal(sb_str(&ascii), ascii.n, &b);
    if (ok)
        *out = strtod(sb_str(&b), NULL);
    sb_done(&b);
    sb_done(&ascii);
    return ok;
}
