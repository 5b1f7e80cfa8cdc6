/*
 * bytes, and the codecs between text and bytes: UTF-8, ASCII, Latin-1.
 *
 * Text in the language is always valid UTF-8, so only decoding can meet bad
 * bytes and only the narrow encodings can meet characters without a form.
 */
#include "frontend/lib/lib.h"
#include "frontend/lib/number.h"
#include "frontend/lib/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef enum { CODEC_UTF8, CODEC_ASCII, CODEC_LATIN1, CODEC_NONE } Codec;

static Codec codec_find(Interp *I, const char *name)
{
    static const struct { const char *name; Codec codec; } names[] = {
        {"utf8", CODEC_UTF8}, {"u8", CODEC_UTF8}, {"ascii", CODEC_ASCII}, {"usascii", CODEC_ASCII},
        {"latin1", CODEC_LATIN1}, {"iso88591", CODEC_LATIN1}, {"l1", CODEC_LATIN1},
    };
    char plain[32];
    size_t n = 0;

    for (const char *p = name; *p && n + 1 < sizeof plain; p++)
        if (*p != '-' && *p != '_' && *p != ' ')
            plain[n++] = (char)tolower((unsigned char)*p);
    plain[n] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].name, plain))
            return names[i].codec;
    raise(I, EXC_LookupError, "unknown encoding: %s", name);
    return CODEC_NONE;
}

static bool known_errors(Interp *I, const char *errors)
{
    static const char *const known[] = {"strict", "ignore", "replace", "backslashreplace", "xmlcharrefreplace"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i], errors))
            return true;
    raise(I, EXC_LookupError, "unknown error handler name '%s'", errors);
    return false;
}

static void put_backslash(StrBuf *b, uint32_t c)
{
    sb_printf(b, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

/* ------------------------------------------------------------- encode */

static bool encode_bad(Interp *I, StrBuf *b, uint32_t c, int64_t at, Codec codec, const char *errors)
{
    StrBuf shown = {0};

    if (*errors == 'i')
        return true;
    if (*errors == 'r') {
        sb_putc(b, '?');
        return true;
    }
    if (*errors == 'b') {
        put_backslash(b, c);
        return true;
    }
    if (*errors == 'x') {
        sb_printf(b, "&#%u;", (unsigned)c);
        return true;
    }
    put_backslash(&shown, c);
    raise(I, EXC_UnicodeEncodeError, "'%s' codec can't encode character '%s' in position %lld: ordinal not in range(%d)",
          codec == CODEC_ASCII ? "ascii" : "latin-1", shown.s, (long long)at, codec == CODEC_ASCII ? 128 : 256);
    sb_done(&shown);
    return false;
}

Value text_encode(Interp *I, StrObj *s, const char *encoding, const char *errors)
{
    Codec codec = codec_find(I, encoding);
    const char *p = s->s, *end = p + s->len;
    StrBuf b = {0};
    int64_t at = 0;
    Value out;

    if (codec == CODEC_NONE || !known_errors(I, errors))
        return VERR;
    if (codec == CODEC_UTF8 || str_is_ascii(s))
        return bytes_new(s->s, s->len);
    for (; p < end; at++) {
        uint32_t c = utf8_next(&p);
        if (c < (codec == CODEC_ASCII ? 128u : 256u))
            sb_putc(&b, (char)c);
        else if (!encode_bad(I, &b, c, at, codec, errors)) {
            sb_done(&b);
            return VERR;
        }
    }
    out = bytes_new(sb_str(&b), b.n);
    sb_done(&b);
    return out;
}

/* ------------------------------------------------------------- decode */

static bool decode_bad(Interp *I, StrBuf *b, unsigned char c, size_t at, const char *codec, const char *why, const char *errors)
{
    if (*errors == 'i')
        return true;
    if (*errors == 'r') {
        sb_put_utf8(b, 0xfffd);
        return true;
    }
    if (*errors == 'b') {
        put_backslash(b, c);
        return true;
    }
    raise(I, EXC_UnicodeDecodeError, "'%s' codec can't decode byte 0x%02x in position %zu: %s", codec, c, at, why);
    return false;
}

static const char *utf8_fault(unsigned char c, size_t left)
{
    if (c < 0xc2 || c > 0xf4)
        return "invalid start byte";
    return left < (c < 0xe0 ? 2u : c < 0xf0 ? 3u : 4u) ? "unexpected end of data" : "invalid continuation byte";
}

static bool decode_utf8(Interp *I, const char *s, size_t n, const char *errors, StrBuf *b)
{
    size_t at = 0;

    while (at < n) {
        size_t good = 0;
        while (at + good < n) {                         /* utf8_check refuses NUL, which is a character here */
            size_t k = utf8_check(s + at + good, n - at - good);
            good += k;
            if (at + good < n && s[at + good] == 0)
                good++;
            else
                break;
        }
        sb_write(b, s + at, good);
        at += good;
        if (at < n) {
            if (!decode_bad(I, b, (unsigned char)s[at], at, "utf-8", utf8_fault((unsigned char)s[at], n - at), errors))
                return false;
            at++;
        }
    }
    return true;
}

Value text_decode(Interp *I, const char *s, size_t n, const char *encoding, const char *errors)
{
    Codec codec = codec_find(I, encoding);
    StrBuf b = {0};
    bool ok = true;

    if (codec == CODEC_NONE || !known_errors(I, errors))
        return VERR;
    if (codec == CODEC_UTF8) {
        ok = decode_utf8(I, s, n, errors, &b);
    } else {
        for (size_t i = 0; ok && i < n; i++) {
            unsigned char c = (unsigned char)s[i];
            if (c < 128 || codec == CODEC_LATIN1)
                sb_put_utf8(&b, c);
            else
                ok = decode_bad(I, &b, c, i, "ascii", "ordinal not in range(128)", errors);
        }
    }
    if (ok)
        return str_steal(&b);
    sb_done(&b);
    return VERR;
}

/* ------------------------------------------------------------- bytes */

BytesObj *need_bytes(Interp *I, Value v)
{
    v = unwrap_base(v);
    if (v.tag == V_BYTES)
        return (BytesObj *)v.o;
    raise(I, EXC_TypeError, "a bytes-like object is required, not '%s'", value_type_name(v));
    return NULL;
}

static Value bytes_of_ints(Interp *I, Value iterable)
{
    Value l = value_to_list(I, iterable), out;
    StrBuf b = {0};
    int64_t v;

    if (is_err(l))
        return VERR;
    for (int64_t i = 0; i < as_list(l)->n; i++) {
        bool ok = value_as_int(I, as_list(l)->at[i], &v);
        if (ok && (v < 0 || v > 255)) {
            raise(I, EXC_ValueError, "bytes must be in range(0, 256)");
            ok = false;
        }
        if (!ok) {
            value_unref(l);
            sb_done(&b);
            return VERR;
        }
        sb_putc(&b, (char)v);
    }
    value_unref(l);
    out = bytes_new(sb_str(&b), b.n);
    sb_done(&b);
    return out;
}

static Value bytes_make(Interp *I, Value *a)
{
    Value v = unwrap_base(a[1]);
    StrBuf b = {0};
    Value out;

    if (is_err(v))
        return bytes_new("", 0);
    if (v.tag == V_STR) {
        StrObj *enc = is_err(a[2]) ? NULL : need_str(I, a[2], "encoding");
        if (!enc)
            return exc_pending(I) ? VERR : raise(I, EXC_TypeError, "string argument without an encoding");
        return text_encode(I, as_str(v), enc->s, is_err(a[3]) ? "strict" : as_str(a[3])->s);
    }
    if (v.tag == V_BYTES)
        return value_ref(v);
    if (v.tag != V_INT && v.tag != V_BOOL)
        return bytes_of_ints(I, v);
    if (v.i < 0)
        return raise(I, EXC_ValueError, "negative count");
    if (v.i > INT32_MAX)
        return raise(I, EXC_MemoryError, "%lld bytes are too many", (long long)v.i);
    sb_pad(&b, 0, (size_t)v.i);
    out = bytes_new(sb_str(&b), b.n);
    sb_done(&b);
    return out;
}

static Value m_decode(Interp *I, Value *a)
{
    BytesObj *b = need_bytes(I, a[0]);
    StrObj *enc = b ? need_str(I, a[1], "encoding") : NULL, *errors = enc ? need_str(I, a[2], "errors") : NULL;

    return errors ? text_decode(I, b->s, b->len, enc->s, errors->s) : VERR;
}

static Value m_hex(Interp *I, Value *a)
{
    BytesObj *b = need_bytes(I, a[0]);
    StrObj *sep = is_given(a[1]) && b ? need_str(I, a[1], "sep") : NULL;
    int64_t group = 1;
    StrBuf t = {0};

    if (!b || (is_given(a[1]) && !sep) || (is_given(a[2]) && !value_as_int(I, a[2], &group)))
        return VERR;
    if (sep && sep->len != 1)
        return raise(I, EXC_ValueError, "sep must be length 1.");
    for (int64_t i = 0, n = b->len; i < n; i++) {
        /* groups are counted from the end, those of a negative size from the beginning */
        bool between = sep && i && group && !((group > 0 ? n - i : i) % (group > 0 ? group : -group));
        sb_printf(&t, "%s%02x", between ? sep->s : "", (unsigned char)b->s[i]);
    }
    return str_steal(&t);
}

static Value m_fromhex(Interp *I, Value *a)
{
    StrObj *s = need_str(I, a[0], "fromhex() argument");
    StrBuf b = {0};
    Value out;

    if (!s)
        return VERR;
    for (const char *p = s->s; *p;) {
        if (isspace((unsigned char)*p)) {
            p++;
            continue;
        }
        char pair[3] = {p[0], p[1], 0};
        if (!isxdigit((unsigned char)p[0]) || !isxdigit((unsigned char)p[1])) {
            sb_done(&b);
            return raise(I, EXC_ValueError, "non-hexadecimal number found in fromhex() arg at position %td",
                         p - s->s + (isxdigit((unsigned char)p[0]) ? 1 : 0));
        }
        sb_putc(&b, (char)strtol(pair, NULL, 16));
        p += 2;
    }
    out = bytes_new(sb_str(&b), b.n);
    sb_done(&b);
    return out;
}

static Value m_join(Interp *I, Value *a)
{
    BytesObj *sep = need_bytes(I, a[0]);
    Value l = sep ? value_to_list(I, a[1]) : VERR, out;
    StrBuf b = {0};

    if (is_err(l))
        return VERR;
    for (int64_t i = 0; i < as_list(l)->n; i++) {
        BytesObj *x = need_bytes(I, as_list(l)->at[i]);
        if (!x) {
            value_unref(l);
            sb_done(&b);
            return VERR;
        }
        if (i)
            sb_write(&b, sep->s, sep->len);
        sb_write(&b, x->s, x->len);
    }
    value_unref(l);
    out = bytes_new(sb_str(&b), b.n);
    sb_done(&b);
    return out;
}

/* ------------------------------------------------------------- % */

/* One operand for the text's %: bytes as the text of their codes. V_ERR: %s and %b take bytes, and it is none. */
static Value percent_operand(Interp *I, Value v, char conversion)
{
    bool text = conversion == 's' || conversion == 'b';

    if (v.tag == V_BYTES && text)
        return text_decode(I, as_bytes(v)->s, as_bytes(v)->len, "latin-1", "strict");
    return text ? raise(I, EXC_TypeError, "%%b requires a bytes-like object, or an object that implements __bytes__, not '%s'", value_type_name(v))
                : value_ref(v);
}

/* The format as text, with %s for %b; the letter of each conversion that takes an operand goes to *letters. */
static Value percent_format(Interp *I, BytesObj *format, StrBuf *letters)
{
    StrBuf b = {0};
    Value text;

    for (size_t i = 0; i < format->len; i++) {
        sb_putc(&b, format->s[i]);
        if (format->s[i] != '%')
            continue;
        while (++i < format->len && strchr("0123456789-+ #.*", format->s[i])) {
            sb_putc(&b, format->s[i]);
            if (format->s[i] == '*')
                sb_putc(letters, '*');
        }
        if (i < format->len) {
            sb_putc(&b, format->s[i] == 'b' ? 's' : format->s[i]);
            if (format->s[i] != '%')
                sb_putc(letters, format->s[i]);
        }
    }
    text = text_decode(I, sb_str(&b), b.n, "latin-1", "strict");
    sb_done(&b);
    return text;
}

Value bytes_percent(Interp *I, BytesObj *format, Value args)
{
    StrBuf letters = {0};
    Value text = percent_format(I, format, &letters), list, r = VERR;
    int64_t n = args.tag == V_TUPLE ? as_tuple(args)->n : 1;
    bool ok = !is_err(text);

    list = tuple_new(n);
    for (int64_t i = 0; i < n; i++) {
        Value v = args.tag == V_TUPLE ? as_tuple(args)->at[i] : args;
        Value one = ok ? percent_operand(I, v, (size_t)i < letters.n ? sb_str(&letters)[i] : '?') : VNONE;
        ok = ok && !is_err(one);
        as_tuple(list)->at[i] = is_err(one) ? VNONE : one;
    }
    if (ok)
        r = str_percent(I, as_str(text), list);
    value_unref(list);
    if (!is_err(text))
        value_unref(text);
    sb_done(&letters);
    if (is_err(r))
        return VERR;
    text = text_encode(I, as_str(r), "latin-1", "strict");
    value_unref(r);
    return text;
}

const NativeDef natives_bytes[] = {
    {"", "bytes", NULL, "type[bytes]", "A sequence of bytes that cannot change."},
    {"bytes", "__new__", bytes_make, "(cls, source=..., encoding: str = ..., errors: str = ...) -> bytes", "From ints, from text in an encoding, or n zeros."},
    {"bytes", "decode", m_decode, "(self, encoding: str = 'utf-8', errors: str = 'strict') -> str", "The text; UnicodeDecodeError when the bytes are not valid in the encoding."},
    {"bytes", "hex", m_hex, "(self, sep: str | None = None, bytes_per_sep: int = 1) -> str", "Two hexadecimal digits a byte; sep stands between groups."},
    {"bytes", "fromhex", m_fromhex, "(string: str, /) -> bytes", "The bytes of hexadecimal digits."},
    {"bytes", "join", m_join, "(self, iterable: Iterable[bytes], /) -> bytes", "The pieces with self between them."},
    {0},
};
