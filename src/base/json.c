/*
 * JSON as tokens: jsmn splits the text; being lenient, it is followed by checks
 * of our own.
 */
#include "base/json.h"

#include "base/alloc.h"
#include "base/strbuf.h"

#define JSMN_PARENT_LINKS
#define JSMN_STRICT
#define JSMN_STATIC
#include <jsmn.h>

#include <string.h>

struct JsonToken { jsmntok_t is; };

/* jsmn also takes {"a" "b"} and {} {}. */
static bool well_formed(const Json *j)
{
    for (int k = 1; k < j->n; k++) {
        const jsmntok_t *t = &j->tok[k].is;
        if (t->parent < 0 || (j->tok[t->parent].is.type == JSMN_OBJECT && (t->type != JSMN_STRING || t->size != 1)))
            return false;
    }
    return j->n > 0;
}

/* Tokens are counted first, so the array is as large as needed. */
bool json_read(const char *text, size_t n, Json *out)
{
    jsmn_parser p;
    int count;

    *out = (Json){.text = text};
    jsmn_init(&p);
    count = jsmn_parse(&p, text, n, NULL, 0);
    if (count <= 0)
        return false;
    out->tok = tsr_alloc((size_t)count * sizeof *out->tok);
    jsmn_init(&p);
    out->n = jsmn_parse(&p, text, n, &out->tok->is, (unsigned)count);
    return out->n == count && well_formed(out);
}

void json_done(Json *j)
{
    tsr_free(j->tok);
    *j = (Json){0};
}

static bool is(const Json *j, int i, jsmntype_t type) { return i >= 0 && i < j->n && j->tok[i].is.type == type; }

JsonKind json_kind(const Json *j, int i)
{
    return is(j, i, JSMN_OBJECT) ? JSON_OBJECT : is(j, i, JSMN_ARRAY) ? JSON_ARRAY : is(j, i, JSMN_STRING) ? JSON_STRING :
           is(j, i, JSMN_PRIMITIVE) ? JSON_OTHER : JSON_NONE;
}

int json_count(const Json *j, int i) { return is(j, i, JSMN_OBJECT) || is(j, i, JSMN_ARRAY) ? j->tok[i].is.size : 0; }

int json_next(const Json *j, int i)
{
    int end = j->tok[i].is.end;

    for (i++; i < j->n && j->tok[i].is.start < end; i++)
        ;
    return i;
}

bool json_is(const Json *j, int i, const char *text)
{
    size_t n;

    if (!is(j, i, JSMN_STRING))
        return false;
    n = (size_t)(j->tok[i].is.end - j->tok[i].is.start);
    return n == strlen(text) && !memcmp(j->text + j->tok[i].is.start, text, n);
}

int json_get(const Json *j, int object, const char *key)
{
    if (!is(j, object, JSMN_OBJECT))
        return -1;
    for (int k = 0, i = object + 1; k < j->tok[object].is.size; k++, i = json_next(j, i + 1))
        if (json_is(j, i, key))
            return i + 1;
    return -1;
}

bool json_size(const Json *j, int i, uint64_t *out)
{
    const char *p, *end;
    uint64_t v = 0;

    if (!is(j, i, JSMN_PRIMITIVE) || j->tok[i].is.start == j->tok[i].is.end)
        return false;
    for (p = j->text + j->tok[i].is.start, end = j->text + j->tok[i].is.end; p < end; p++)
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return false;
    *out = v;
    return v <= INT64_MAX;
}

bool json_true(const Json *j, int i) { return is(j, i, JSMN_PRIMITIVE) && j->text[j->tok[i].is.start] == 't'; }

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

static uint32_t hex4(const char *p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++)
        v = v * 16 + (uint32_t)hex_digit(p[i]);
    return v;
}

/* jsmn has checked the escapes. */
static char *unescape(const char *s, size_t n)
{
    StrBuf b = {0};
    char *text;

    for (size_t i = 0; i < n; i++) {
        static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
        const char *known;
        if (s[i] != '\\') {
            sb_putc(&b, s[i]);
            continue;
        }
        i++;
        known = strchr(from, s[i]);
        if (s[i] == 'u') {
            uint32_t c = hex4(s + i + 1);
            i += 4;
            if (c >= 0xD800 && c < 0xDC00 && i + 6 < n && s[i + 1] == '\\' && s[i + 2] == 'u') {
                c = 0x10000 + ((c - 0xD800) << 10) + (hex4(s + i + 3) - 0xDC00);
                i += 6;
            }
            sb_put_utf8(&b, c && c <= 0x10FFFF ? c : 0xFFFD);
        } else {
            sb_putc(&b, known ? to[known - from] : s[i]);
        }
    }
    text = tsr_alloc(b.n + 1);
    memcpy(text, sb_str(&b), b.n + 1);
    sb_done(&b);
    return text;
}

char *json_string(const Json *j, int i)
{
    bool there = i >= 0 && i < j->n;

    return unescape(there ? j->text + j->tok[i].is.start : "", there ? (size_t)(j->tok[i].is.end - j->tok[i].is.start) : 0);
}
