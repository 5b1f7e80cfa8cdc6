/*
 * Strings as sequences of code points.
 *
 * Text is UTF-8 and indexed by code point.  A string whose code point count
 * equals its byte count is ASCII, and then an index is an offset; all others
 * walk from the nearer end.  The count is taken once and kept in the object.
 */
#include "frontend/lib/text.h"

#include "frontend/lib/lib.h"

#include <string.h>

uint32_t utf8_next(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    uint32_t c = s[0];

    if (c < 0x80) {
        *p += 1;
        return c;
    }
    if (c < 0xe0) {
        *p += 2;
        return (c & 31) << 6 | (s[1] & 63);
    }
    if (c < 0xf0) {
        *p += 3;
        return (c & 15) << 12 | (uint32_t)(s[1] & 63) << 6 | (s[2] & 63);
    }
    *p += 4;
    return (c & 7) << 18 | (uint32_t)(s[1] & 63) << 12 | (uint32_t)(s[2] & 63) << 6 | (s[3] & 63);
}

int64_t utf8_count(const char *s, size_t n)
{
    int64_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

int64_t str_nchars(StrObj *s)
{
    if (s->nchars == UINT32_MAX)
        s->nchars = (uint32_t)utf8_count(s->s, s->len);
    return s->nchars;
}

bool str_is_ascii(StrObj *s)
{
    return str_nchars(s) == s->len;
}

static bool starts_char(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

size_t str_byte_of(StrObj *s, int64_t index)
{
    int64_t n = str_nchars(s);
    size_t at;

    if (n == s->len)
        return (size_t)index;
    if (index <= n / 2) {
        for (at = 0; index > 0; index--)
            while (++at < s->len && !starts_char(s->s[at]))
                ;
        return at;
    }
    for (at = s->len; index < n; index++)
        while (!starts_char(s->s[--at]))
            ;
    return at;
}

int64_t str_index_of(StrObj *s, size_t byte)
{
    return str_is_ascii(s) ? (int64_t)byte : utf8_count(s->s, byte);
}

static Value ascii_char[128];

Value str_char(uint32_t c)
{
    StrBuf b = {0};

    if (c < 128) {
        char t = (char)c;
        if (ascii_char[c].tag != V_STR)
            ascii_char[c] = str_new(&t, 1);
        return value_ref(ascii_char[c]);
    }
    sb_put_utf8(&b, c);
    return str_steal(&b);
}

void str_chars_done(void)
{
    for (int i = 0; i < 128; i++)
        if (ascii_char[i].tag == V_STR) {
            value_unref(ascii_char[i]);
            ascii_char[i] = VNONE;
        }
}

Value str_item(Interp *I, StrObj *s, int64_t i)
{
    int64_t n = str_nchars(s);
    const char *p;

    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return raise(I, EXC_IndexError, "string index out of range");
    p = s->s + str_byte_of(s, i);
    return str_char(utf8_next(&p));
}

Value str_slice(StrObj *s, int64_t start, int64_t step, int64_t count)
{
    StrBuf b = {0};

    if (count <= 0)
        return str_new("", 0);
    if (step == 1 && count == str_nchars(s))
        return value_ref(vobj(s));
    if (step == 1) {
        size_t from = str_byte_of(s, start), to = str_byte_of(s, start + count);
        return str_new(s->s + from, to - from);
    }
    if (str_is_ascii(s)) {
        for (int64_t i = 0; i < count; i++)
            sb_putc(&b, s->s[start + i * step]);
        return str_steal(&b);
    }
    size_t at = str_byte_of(s, start);
    for (int64_t i = 0;;) {
        const char *p = s->s + at;
        sb_put_utf8(&b, utf8_next(&p));
        if (++i == count)
            break;
        for (int64_t k = 0; k < (step < 0 ? -step : step); k++) {
            if (step > 0)
                while (!starts_char(s->s[++at]))
                    ;
            else
                while (!starts_char(s->s[--at]))
                    ;
        }
    }
    return str_steal(&b);
}

/* UTF-8 keeps the order of code points, so bytes compare alike. */
int str_compare(const StrObj *a, const StrObj *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = n ? memcmp(a->s, b->s, n) : 0;

    return c ? c : a->len < b->len ? -1 : a->len > b->len;
}

/* ------------------------------------------------------------- searching */

const char *mem_find(const char *s, size_t n, const char *sub, size_t m)
{
    if (m == 1)
        return memchr(s, sub[0], n);
    return m ? memmem(s, n, sub, m) : s;
}

const char *mem_rfind(const char *s, size_t n, const char *sub, size_t m)
{
    if (m > n)
        return NULL;
    for (const char *p = s + (n - m);; p--) {
        if (!memcmp(p, sub, m))
            return p;
        if (p == s)
            return NULL;
    }
}

int64_t mem_count(const char *s, size_t n, const char *sub, size_t m)
{
    const char *end = s + n, *p = s;
    int64_t count = 0;

    while ((p = mem_find(p, (size_t)(end - p), sub, m))) {
        count++;
        p += m;
    }
    return count;
}
