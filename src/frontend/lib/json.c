/*
 * The module json: reading. Writing is in json_dumps.c.
 *
 * Reading is a walker of our own rather than jansson's: jansson refuses a
 * bare "1.0e400", joins duplicate keys its own way, has no NaN, and gives
 * other messages than Python's, which name line, column and character.  The
 * grammar is strict JSON plus NaN and Infinity; nesting is limited by the
 * interpreter's depth guard.
 */
#include "frontend/lib/json.h"

#include "frontend/lib/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------- loads */

/* What a program wants to make itself of what is read; not given: what is usual. */
enum { HOOK_OBJECT, HOOK_PAIRS, HOOK_FLOAT, HOOK_INT, HOOKS };

typedef struct Reader {
    Interp *I;
    const char *s, *p, *end;
    int64_t doc_depth;
    const Value *hook;
} Reader;

static Value fail(Reader *r, const char *what, const char *at)
{
    int64_t line = 1, col = 1;
    int64_t pos = utf8_count(r->s, (size_t)(at - r->s));
    const char *q = r->s;
    Value error, text = str_c(what);

    while (q < at) {
        uint32_t c = utf8_next(&q);
        col = c == '\n' ? 1 : col + 1;
        line += c == '\n';
    }
    raise(r->I, EXC_JSONDecodeError, "%s: line %" PRId64 " column %" PRId64 " (char %" PRId64 ")", what, line, col, pos);
    error = exc_take(r->I);
    value_setattr(r->I, error, sym("msg"), text);
    value_setattr(r->I, error, sym("pos"), vint(pos));
    value_setattr(r->I, error, sym("lineno"), vint(line));
    value_setattr(r->I, error, sym("colno"), vint(col));
    raise_value(r->I, error);
    value_unref(error);
    value_unref(text);
    return VERR;
}

static void skip_space(Reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
        r->p++;
}

static int hex4(const char *p, const char *end)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        char c = p + i < end ? p[i] : 0;
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* A \u escape behind its 'u'; pairs of surrogates join, halves become U+FFFD. false: malformed. */
static bool read_unicode(Reader *r, StrBuf *b)
{
    int c = hex4(r->p, r->end), low;

    if (c < 0)
        return false;
    r->p += 4;
    if (c >= 0xd800 && c < 0xdc00 && r->p + 1 < r->end && r->p[0] == '\\' && r->p[1] == 'u' &&
        (low = hex4(r->p + 2, r->end)) >= 0xdc00 && low < 0xe000) {
        r->p += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    sb_put_utf8(b, c >= 0xd800 && c < 0xe000 ? 0xfffd : (uint32_t)c);
    return true;
}

static bool read_escape(Reader *r, StrBuf *b)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = r->p - 1, *hit;

    if (r->p >= r->end)
        return true;                        /* reported as an unterminated string */
    if (*r->p == 'u') {
        r->p++;
        if (read_unicode(r, b))
            return true;
        fail(r, "Invalid \\uXXXX escape", at + 1);
        return false;
    }
    hit = *r->p ? strchr(from, *r->p) : NULL;
    if (!hit) {
        fail(r, "Invalid \\escape", at);
        return false;
    }
    sb_putc(b, to[hit - from]);
    r->p++;
    return true;
}

/* A string whose opening quote is at p. */
static Value read_string(Reader *r)
{
    const char *start = r->p++, *from = r->p;
    StrBuf b = {0};

    for (;;) {
        from = r->p;
        while (r->p < r->end && *r->p != '"' && *r->p != '\\' && (unsigned char)*r->p >= 0x20)
            r->p++;
        sb_write(&b, from, (size_t)(r->p - from));
        if (r->p >= r->end || (unsigned char)*r->p < 0x20) {
            sb_done(&b);
            return r->p >= r->end ? fail(r, "Unterminated string starting at", start)
                                  : fail(r, "Invalid control character at", r->p);
        }
        if (*r->p++ == '"')
            return str_steal(&b);
        if (!read_escape(r, &b)) {
            sb_done(&b);
            return VERR;
        }
    }
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* The end of the number at p, or p when there is none; *whole: neither fraction nor exponent. */
static const char *number_end(const char *p, const char *end, bool *whole)
{
    const char *start = p, *q;

    *whole = true;
    p += p < end && *p == '-';
    q = p < end && *p == '0' ? p + 1 : skip_digits(p, end);
    if (q == p)
        return start;
    p = q;
    if (p + 1 < end && *p == '.' && p[1] >= '0' && p[1] <= '9') {
        p = skip_digits(p + 1, end);
        *whole = false;
    }
    if (p < end && (*p | 32) == 'e') {
        q = p + 1;
        q += q < end && (*q == '+' || *q == '-');
        if (q < end && *q >= '0' && *q <= '9') {
            p = skip_digits(q, end);
            *whole = false;
        }
    }
    return p;
}

static Value read_number(Reader *r, const char *end, bool whole)
{
    const char *at = r->p;
    size_t n = (size_t)(end - at);
    double x;
    int64_t i;

    r->p = end;
    if (is_given(r->hook[whole ? HOOK_INT : HOOK_FLOAT])) {
        Value text = str_new(at, n), made = value_call(r->I, r->hook[whole ? HOOK_INT : HOOK_FLOAT], &text, 1);
        value_unref(text);
        return made;
    }
    if (!whole)
        return parse_float(at, n, &x) ? vfloat(x) : fail(r, "Expecting value", at);
    if (parse_int(at, n, 10, &i) == PARSE_OK)
        return vint(i);
    return raise(r->I, EXC_OverflowError, "JSON number %.*s does not fit in 64 bits", (int)n, at);
}

static bool word(Reader *r, const char *text)
{
    size_t n = strlen(text);

    if ((size_t)(r->end - r->p) < n || memcmp(r->p, text, n))
        return false;
    r->p += n;
    return true;
}

static Value read_value(Reader *r);

/* Behind an item: is there another one?  *closed: no, the brackets end here.  Neither: it was said what is wrong. */
static bool another(Reader *r, char close, bool *closed)
{
    skip_space(r);
    *closed = r->p < r->end && *r->p == close;
    if (!*closed && (r->p >= r->end || *r->p != ',')) {
        fail(r, "Expecting ',' delimiter", r->p);
        return false;
    }
    r->p++;
    if (!*closed)
        skip_space(r);
    return !*closed;
}

static Value read_list(Reader *r)
{
    Value out = list_new(4), x;
    bool closed = false;

    r->p++;
    skip_space(r);
    if (r->p < r->end && *r->p == ']') {
        r->p++;
        return out;
    }
    do {
        x = read_value(r);
        if (is_err(x))
            break;
        list_push(as_list(out), x);
    } while (another(r, ']', &closed));
    if (closed)
        return out;
    value_unref(out);
    return VERR;
}

/* Into the dict, or among the pairs. */
static bool read_pair(Reader *r, DictObj *d, ListObj *pairs)
{
    Value key, val;
    bool ok;

    if (r->p >= r->end || *r->p != '"') {
        fail(r, "Expecting property name enclosed in double quotes", r->p);
        return false;
    }
    key = read_string(r);
    if (is_err(key))
        return false;
    skip_space(r);
    if (r->p >= r->end || *r->p != ':') {
        fail(r, "Expecting ':' delimiter", r->p);
        value_unref(key);
        return false;
    }
    r->p++;
    skip_space(r);
    val = read_value(r);
    if (pairs && !is_err(val)) {
        list_push(pairs, tuple_of(2, key, val));
        return true;
    }
    ok = !is_err(val) && dict_set(r->I, d, key, val);
    value_unref(key);
    value_unref(val);
    return ok;
}

static Value read_dict(Reader *r)
{
    bool paired = is_given(r->hook[HOOK_PAIRS]), closed = false;
    Value out = paired ? list_new(4) : dict_new();

    r->p++;
    skip_space(r);
    if (r->p < r->end && *r->p == '}') {
        r->p++;
        return out;
    }
    while (read_pair(r, paired ? NULL : as_dict(out), paired ? as_list(out) : NULL) && another(r, '}', &closed))
        ;
    if (closed)
        return out;
    value_unref(out);
    return VERR;
}

static Value hooked(Reader *r, Value d)
{
    Value out, hook = r->hook[is_given(r->hook[HOOK_PAIRS]) ? HOOK_PAIRS : HOOK_OBJECT];

    if (is_err(d) || !is_given(hook))
        return d;
    out = value_call(r->I, hook, &d, 1);
    value_unref(d);
    return out;
}

static Value read_container(Reader *r)
{
    Value v;

    if (!interp_enter(r->I))
        return VERR;
    v = *r->p == '[' ? read_list(r) : hooked(r, read_dict(r));
    interp_leave(r->I);
    return v;
}

static Value read_value(Reader *r)
{
    const char *end;
    bool whole;

    if (r->p >= r->end)
        return fail(r, "Expecting value", r->p);
    switch (*r->p) {
    case '"': return read_string(r);
    case '[': case '{': return read_container(r);
    default: break;
    }
    if (word(r, "true"))
        return vbool(true);
    if (word(r, "false"))
        return vbool(false);
    if (word(r, "null"))
        return VNONE;
    if (word(r, "NaN"))
        return vfloat(NAN);
    if (word(r, "Infinity"))
        return vfloat(INFINITY);
    if (word(r, "-Infinity"))
        return vfloat(-INFINITY);
    end = number_end(r->p, r->end, &whole);
    return end == r->p ? fail(r, "Expecting value", r->p) : read_number(r, end, whole);
}

static Value load_text(Interp *I, const char *s, size_t n, const Value *hook)
{
    Reader r = {.I = I, .s = s, .p = s, .end = s + n, .hook = hook};
    Value v;

    skip_space(&r);
    v = read_value(&r);
    if (is_err(v))
        return VERR;
    skip_space(&r);
    if (r.p == r.end)
        return v;
    value_unref(v);
    return fail(&r, "Extra data", r.p);
}

/* a = s, and the hooks */
static Value f_loads(Interp *I, Value *a)
{
    Value s = unwrap_base(a[0]), text, v;

    if (s.tag == V_STR)
        return load_text(I, as_str(s)->s, as_str(s)->len, a + 1);
    if (s.tag != V_BYTES)
        return raise(I, EXC_TypeError, "the JSON object must be str, bytes or bytearray, not %s", value_type_name(a[0]));
    text = text_decode(I, ((BytesObj *)s.o)->s, ((BytesObj *)s.o)->len, "utf-8", "strict");
    if (is_err(text))
        return VERR;
    v = load_text(I, as_str(text)->s, as_str(text)->len, a + 1);
    value_unref(text);
    return v;
}

static Value f_load(Interp *I, Value *a)
{
    Value args[1 + HOOKS] = {value_call_method(I, a[0], sym("read"), NULL, 0)}, v;

    memcpy(args + 1, a + 1, sizeof *a * HOOKS);

    if (is_err(args[0]))
        return VERR;
    v = f_loads(I, args);
    value_unref(args[0]);
    return v;
}

/* A class of the library's file json_classes. */
static Value class_named(Interp *I, const char *name)
{
    Value space = prelude_get(I, "json_classes");
    return is_err(space) ? VERR : value_getattr(I, space, sym(name));
}

static Value c_encoder(Interp *I, Value *a) { return class_named(I, "JSONEncoder"); }
static Value c_decoder(Interp *I, Value *a) { return class_named(I, "JSONDecoder"); }
static Value c_error(Interp *I, Value *a) { return value_ref(vobj(exc_class(I, EXC_JSONDecodeError))); }

#define HOW "*, skipkeys: bool = False, ensure_ascii: bool = True, allow_nan: bool = True, indent: int | str | None = None, " \
            "separators: tuple | None = None, default: Callable | None = None, sort_keys: bool = False, cls=None"
#define LOAD_HOOKS "object_hook: Callable | None = None, object_pairs_hook: Callable | None = None, parse_float: Callable | None = None, " \
    "parse_int: Callable | None = None"

const NativeDef natives_json[] = {
    {"json", "loads", f_loads, "(s: str | bytes, *, " LOAD_HOOKS ")", "The value of a JSON text; JSONDecodeError says where it is wrong."},
    {"json", "load", f_load, "(fp, *, " LOAD_HOOKS ")", "The value of the JSON text in an open file."},
    {"json", "dumps", json_dumps, "(obj: Json, " HOW ") -> str", "The JSON text of a value."},
    {"json", "dump", json_dump, "(obj: Json, fp, " HOW ") -> None", "Write the JSON text of a value to an open file."},
    {"json", "JSONEncoder", c_encoder, "type[JSONEncoder]", "What dumps takes as cls: its method default stands for objects that JSON does not know."},
    {"json", "JSONDecoder", c_decoder, "type[JSONDecoder]", "loads as an object."},
    {"json", "JSONDecodeError", c_error, "type[JSONDecodeError]", "Raised by loads; a ValueError."},
    {0},
};
