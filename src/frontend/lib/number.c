/*
 * Numbers and their text.
 *
 * Problem: a float prints with the fewest digits that read back the same
 * value, and the nearest such text where several are as short.  Three paths,
 * cheapest first: values with at most 15 digits and a small scale are found
 * by exact arithmetic (m and 10^k are both doubles, so m / 10^k is correctly
 * rounded); values from 1e-5 to 2^53 by integers of 128 bits, in which the
 * value times 10^k and the ends of its interval are exact; other normal
 * values need 15, 16 or 17 digits, which the C library rounds correctly;
 * subnormals have fewer digits than 15 and try them all.
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

size_t put_decimal(uint64_t m, char *out)
{
    char t[20];
    size_t n = 0;

    do
        t[n++] = (char)('0' + m % 10);
    while (m /= 10);
    for (size_t i = 0; i < n; i++)
        out[i] = t[n - 1 - i];
    out[n] = 0;
    return n;
}

/* Digits of m without trailing zeros; value is 0.DIGITS * 10^point. */
static void digits_of_int(uint64_t m, int scale, FloatDigits *out)
{
    int n = (int)put_decimal(m, out->digit);

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

__extension__ typedef unsigned __int128 Wide;

/* x = m * 2^-shift with 0 <= shift < 76, m < 2^53; false: x has another size. */
static bool split_float(double x, uint64_t *m, int *shift)
{
    int e;
    double f = frexp(x, &e);

    *m = (uint64_t)ldexp(f, 53);
    *shift = 53 - e;
    return *shift >= 0 && *shift < 76 && x >= 1e-5;
}

static Wide wide_pow10(int k)
{
    Wide p = 1;

    while (k-- > 0)
        p *= 10;
    return p;
}

/*
 * The shortest decimal in the interval of values that read back as x.  In units
 * of 10^-k, where x has 17 digits before the point, all of 4x, the interval's
 * ends and their comparisons are exact.  The ends themselves count when m is even.
 */
static bool digits_by_interval(double x, FloatDigits *out)
{
    uint64_t m, lo, hi, p = 1, down, mid;
    int shift, k;
    Wide scale, w, low, high, one;

    if (!split_float(x, &m, &shift))
        return false;
    k = 16 - (int)floor(log10(x));
    shift += 2;
    scale = wide_pow10(k);
    one = (Wide)1 << shift;
    w = scale * m * 4;
    low = w - scale * (m == (uint64_t)1 << 52 ? 1 : 2);
    high = w + scale * 2;
    lo = (uint64_t)((low + one - 1) >> shift);
    hi = (uint64_t)(high >> shift);
    if (m & 1) {
        lo += (Wide)lo << shift == low;
        hi -= (Wide)hi << shift == high;
    }
    while (hi / (p * 10) * (p * 10) >= lo && hi / (p * 10))
        p *= 10;
    mid = (uint64_t)(w >> shift);
    down = mid / p * p;
    Wide below = w - ((Wide)down << shift), above = ((Wide)(down + p) << shift) - w;
    bool up = above < below || (above == below && down / p % 2);
    if (down < lo || (up && down + p <= hi))
        down += p;
    digits_of_int(down, k, out);
    return true;
}

bool float_fixed(double x, int places, StrBuf *b)
{
    uint64_t m, q;
    int shift;
    Wide w, half;
    char text[24];
    size_t n;

    if (x == 0)
        m = 0, shift = 0;
    else if (places > 15 || x >= 1e15 || !split_float(x, &m, &shift))
        return false;
    w = wide_pow10(places) * m;
    if (shift && w >> shift >= (uint64_t)1 << 63)
        return false;
    q = (uint64_t)(w >> shift);
    half = shift ? (Wide)1 << (shift - 1) : 0;
    w -= (Wide)q << shift;
    q += shift && (w > half || (w == half && (q & 1)));
    n = put_decimal(q, text);
    if (n <= (size_t)places) {                  /* 0.05: zeros in front */
        sb_putc(b, '0');
        if (places)
            sb_putc(b, '.');
        sb_pad(b, '0', (size_t)places - n);
        sb_write(b, text, n);
        return true;
    }
    sb_write(b, text, n - (size_t)places);
    if (places) {
        sb_putc(b, '.');
        sb_write(b, text + n - (size_t)places, (size_t)places);
    }
    return true;
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
    if (digits_by_interval(x, out) || digits_by_scaling(x, out))
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
static void trim(const char **s, size_t *n)
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

/* Nothing but digits, fewer than overflow: what most texts of ints are. */
static bool plain_digits(const char *s, size_t n, int64_t *out)
{
    int64_t v = 0;

    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)(s[i] - '0') > 9)
            return false;
        v = v * 10 + (s[i] - '0');
    }
    *out = v;
    return true;
}

ParseStatus parse_int(const char *s, size_t n, int base, int64_t *out)
{
    bool negative = false;
    int prefix;

    if (n && n < 19 && base == 10 && plain_digits(s, n, out))
        return PARSE_OK;
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

/* [-]digits[.digits] with at most 15 digits: both parts of the quotient are exact doubles, so it is rounded once. */
static bool short_decimal(const char *s, size_t n, double *out)
{
    bool negative = n && *s == '-';
    int64_t m = 0;
    int digits = 0, places = -1;

    for (size_t i = negative; i < n; i++) {
        if (s[i] == '.' && places < 0) {
            places = 0;
            continue;
        }
        if ((unsigned char)(s[i] - '0') > 9 || ++digits > 15)
            return false;
        m = m * 10 + (s[i] - '0');
        places += places >= 0;
    }
    if (!digits)
        return false;
    *out = (double)m / pow10_exact[places < 0 ? 0 : places];
    if (negative)
        *out = -*out;
    return true;
}

bool parse_float(const char *s, size_t n, double *out)
{
    StrBuf b = {0}, ascii = {0};
    bool ok;

    if (short_decimal(s, n, out))
        return true;
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
