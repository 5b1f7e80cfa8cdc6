/*
 * The methods of str that look for, strip, join and pad text (str_split.c takes it apart).  Positions in the
 * language count code points; inside, everything works on bytes and converts
 * at the edges, which costs nothing for ASCII.
 */
#include "frontend/lib/lib.h"
#include "frontend/lib/number.h"
#include "frontend/lib/text.h"

#include <utf8proc.h>

#include <string.h>

StrObj *self_str(Interp *I, Value v)
{
    v = unwrap_base(v);
    if (v.tag == V_STR)
        return as_str(v);
    raise(I, EXC_TypeError, "descriptor of 'str' objects doesn't apply to a '%s' object", value_type_name(v));
    return NULL;
}

StrObj *need_str(Interp *I, Value v, const char *what)
{
    Value s = unwrap_base(v);

    if (s.tag == V_STR)
        return as_str(s);
    raise(I, EXC_TypeError, "%s must be str, not %s", what, value_type_name(v));
    return NULL;
}

/* ------------------------------------------------------------- find, count, starts */

typedef struct Part { const char *s; size_t n; size_t at; bool valid; } Part;

/* The bytes of s[start:end] for optional bounds; valid is false when start lies behind the text. */
static bool part_of(Interp *I, StrObj *s, Value start, Value end, Part *out)
{
    int64_t n, lo = 0, hi;
    size_t from, to;

    *out = (Part){s->s, s->len, 0, true};
    if (!is_given(start) && !is_given(end))
        return true;
    n = hi = str_nchars(s);
    if (is_given(start) && !value_as_int(I, start, &lo))
        return false;
    if (is_given(end) && !value_as_int(I, end, &hi))
        return false;
    lo = lo < -n ? 0 : lo < 0 ? lo + n : lo;
    hi = hi < -n ? 0 : hi < 0 ? hi + n : hi > n ? n : hi;
    if (lo > hi) {
        out->valid = false;
        out->n = 0;
        return true;
    }
    from = str_byte_of(s, lo);
    to = str_byte_of(s, hi);
    *out = (Part){s->s + from, to - from, from, true};
    return true;
}

/* find and its relatives: a = self, sub, start, end. -1: not there; -2: pending. */
static int64_t search(Interp *I, Value *a, bool reverse)
{
    StrObj *s = self_str(I, a[0]), *sub = s ? need_str(I, a[1], "the text to look for") : NULL;
    const char *hit;
    Part p;

    if (!sub || !part_of(I, s, a[2], a[3], &p))
        return -2;
    if (!p.valid)
        return -1;
    hit = reverse ? mem_rfind(p.s, p.n, sub->s, sub->len) : mem_find(p.s, p.n, sub->s, sub->len);
    return hit ? str_index_of(s, (size_t)(hit - s->s)) : -1;
}

static Value m_find(Interp *I, Value *a)
{
    int64_t i = search(I, a, false);
    return i == -2 ? VERR : vint(i);
}

static Value m_rfind(Interp *I, Value *a)
{
    int64_t i = search(I, a, true);
    return i == -2 ? VERR : vint(i);
}

static Value found(Interp *I, int64_t i)
{
    return i == -2 ? VERR : i == -1 ? raise(I, EXC_ValueError, "substring not found") : vint(i);
}

static Value m_index(Interp *I, Value *a) { return found(I, search(I, a, false)); }
static Value m_rindex(Interp *I, Value *a) { return found(I, search(I, a, true)); }

static Value m_count(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]), *sub = s ? need_str(I, a[1], "the text to count") : NULL;
    Part p;

    if (!sub || !part_of(I, s, a[2], a[3], &p))
        return VERR;
    if (!p.valid)
        return vint(0);
    return vint(sub->len ? mem_count(p.s, p.n, sub->s, sub->len) : utf8_count(p.s, p.n) + 1);
}

static bool has_affix(const Part *p, const StrObj *x, bool at_end)
{
    return p->valid && x->len <= p->n && !memcmp(at_end ? p->s + p->n - x->len : p->s, x->s, x->len);
}

static Value affix(Interp *I, Value *a, bool at_end)
{
    const char *name = at_end ? "endswith" : "startswith";
    StrObj *s = self_str(I, a[0]);
    Value x = unwrap_base(a[1]);
    Part p;

    if (!s || !part_of(I, s, a[2], a[3], &p))
        return VERR;
    if (x.tag == V_STR)
        return vbool(has_affix(&p, as_str(x), at_end));
    if (x.tag != V_TUPLE)
        return raise(I, EXC_TypeError, "%s first arg must be str or a tuple of str, not %s", name, value_type_name(a[1]));
    for (int64_t i = 0; i < as_tuple(x)->n; i++) {
        Value y = unwrap_base(as_tuple(x)->at[i]);
        if (y.tag != V_STR)
            return raise(I, EXC_TypeError, "tuple for %s must only contain str, not %s", name, value_type_name(y));
        if (has_affix(&p, as_str(y), at_end))
            return vbool(true);
    }
    return vbool(false);
}

static Value m_startswith(Interp *I, Value *a) { return affix(I, a, false); }
static Value m_endswith(Interp *I, Value *a) { return affix(I, a, true); }

static Value m_removeprefix(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]), *x = s ? need_str(I, a[1], "the prefix") : NULL;

    if (!x)
        return VERR;
    if (!has_affix(&(Part){s->s, s->len, 0, true}, x, false))
        return value_ref(vobj(s));
    return str_new(s->s + x->len, s->len - x->len);
}

static Value m_removesuffix(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]), *x = s ? need_str(I, a[1], "the suffix") : NULL;

    if (!x)
        return VERR;
    if (!has_affix(&(Part){s->s, s->len, 0, true}, x, true))
        return value_ref(vobj(s));
    return str_new(s->s, s->len - x->len);
}

/* ------------------------------------------------------------- strip */

static bool in_set(const StrObj *set, const char *p, size_t n)
{
    return set ? mem_find(set->s, set->len, p, n) != NULL : is_space(utf8_next(&p));
}

static size_t char_len(unsigned char c)
{
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static Value strip(Interp *I, Value *a, bool left, bool right)
{
    StrObj *s = self_str(I, a[0]), *set = NULL;
    const char *p, *end;

    if (!s || (is_given(a[1]) && !(set = need_str(I, a[1], "strip arg"))))
        return VERR;
    p = s->s;
    end = p + s->len;
    while (left && p < end && in_set(set, p, char_len((unsigned char)*p)))
        p += char_len((unsigned char)*p);
    while (right && p < end) {
        const char *q = end - 1;
        while (((unsigned char)*q & 0xc0) == 0x80)
            q--;
        if (!in_set(set, q, (size_t)(end - q)))
            break;
        end = q;
    }
    return (size_t)(end - p) == s->len ? value_ref(vobj(s)) : str_new(p, (size_t)(end - p));
}

static Value m_strip(Interp *I, Value *a) { return strip(I, a, true, true); }
static Value m_lstrip(Interp *I, Value *a) { return strip(I, a, true, false); }
static Value m_rstrip(Interp *I, Value *a) { return strip(I, a, false, true); }

/* ------------------------------------------------------------- join, replace */

/* The bytes of n strings with separators; SIZE_MAX: one of them is none, TypeError pending. */
static size_t joined_length(Interp *I, const StrObj *sep, const Value *at, int64_t n)
{
    size_t total = n > 1 ? (size_t)(n - 1) * sep->len : 0;

    for (int64_t i = 0; i < n; i++) {
        Value x = unwrap_base(at[i]);
        if (x.tag != V_STR) {
            raise(I, EXC_TypeError, "sequence item %lld: expected str instance, %s found", (long long)i, value_type_name(x));
            return SIZE_MAX;
        }
        total += as_str(x)->len;
    }
    if (total < UINT32_MAX / 2)
        return total;
    raise(I, EXC_MemoryError, "a string of %zu bytes is too long", total);
    return SIZE_MAX;
}

static Value join(Interp *I, const StrObj *sep, const Value *at, int64_t n)
{
    size_t total = joined_length(I, sep, at, n);
    Value out = total == SIZE_MAX ? VERR : str_room(total);
    char *to = is_err(out) ? NULL : as_str(out)->s;

    for (int64_t i = 0; to && i < n; i++) {
        const StrObj *x = as_str(unwrap_base(at[i]));
        if (i && sep->len) {
            memcpy(to, sep->s, sep->len);
            to += sep->len;
        }
        memcpy(to, x->s, x->len);
        to += x->len;
    }
    return out;
}

static Value m_join(Interp *I, Value *a)
{
    StrObj *sep = self_str(I, a[0]);
    Value items = a[1], out;

    if (!sep)
        return VERR;
    if (items.tag == V_LIST || items.tag == V_TUPLE)
        value_ref(items);
    else if (is_err(items = value_to_list(I, items))) {
        if (exc_matches(I, EXC_TypeError) && a[1].tag != V_INSTANCE && a[1].tag != V_GENERATOR) {
            exc_clear(I);
            raise(I, EXC_TypeError, "can only join an iterable");
        }
        return VERR;
    }
    int64_t n = items.tag == V_LIST ? as_list(items)->n : as_tuple(items)->n;
    out = join(I, sep, items.tag == V_LIST ? as_list(items)->at : as_tuple(items)->at, n);
    value_unref(items);
    return out;
}

/* Put `to` before every code point and at the end, at most max times. */
static Value replace_empty(const StrObj *s, const StrObj *to, int64_t max)
{
    const char *p = s->s, *end = p + s->len;
    StrBuf b = {0};

    while (p < end && max != 0) {
        size_t n = char_len((unsigned char)*p);
        sb_write(&b, to->s, to->len);
        sb_write(&b, p, n);
        p += n;
        max--;
    }
    if (max != 0)
        sb_write(&b, to->s, to->len);
    sb_write(&b, p, (size_t)(end - p));
    return str_steal(&b);
}

static Value m_replace(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]), *from = s ? need_str(I, a[1], "replace() argument 1") : NULL;
    StrObj *to = from ? need_str(I, a[2], "replace() argument 2") : NULL;
    const char *p, *end, *hit;
    StrBuf b = {0};
    int64_t max;

    if (!to || !value_as_int(I, a[3], &max))
        return VERR;
    if (!from->len)
        return replace_empty(s, to, max);
    for (p = s->s, end = p + s->len; max != 0 && (hit = mem_find(p, (size_t)(end - p), from->s, from->len)); max--) {
        sb_write(&b, p, (size_t)(hit - p));
        sb_write(&b, to->s, to->len);
        p = hit + from->len;
    }
    if (p == s->s)
        return value_ref(vobj(s));
    sb_write(&b, p, (size_t)(end - p));
    return str_steal(&b);
}

/* ------------------------------------------------------------- padding */

/* a = self, width, fillchar; left gets `left(room)` of the fill. */
static Value pad(Interp *I, Value *a, char side)
{
    StrObj *s = self_str(I, a[0]), *fill = s ? need_str(I, a[2], "the fill character") : NULL;
    int64_t width, room, left, n;
    StrBuf b = {0};

    if (!fill || !value_as_int(I, a[1], &width))
        return VERR;
    if (str_nchars(fill) != 1)
        return raise(I, EXC_TypeError, "The fill character must be exactly one character long");
    n = str_nchars(s);
    if (width <= n)
        return value_ref(vobj(s));
    if (width > INT32_MAX / 8)
        return raise(I, EXC_MemoryError, "a width of %lld is too large", (long long)width);
    room = width - n;
    left = side == 'l' ? 0 : side == 'r' ? room : room / 2 + (room & width & 1);    /* CPython's centre */
    for (int64_t i = 0; i < left; i++)
        sb_write(&b, fill->s, fill->len);
    sb_write(&b, s->s, s->len);
    for (int64_t i = left; i < room; i++)
        sb_write(&b, fill->s, fill->len);
    return str_steal(&b);
}

static Value m_ljust(Interp *I, Value *a) { return pad(I, a, 'l'); }
static Value m_rjust(Interp *I, Value *a) { return pad(I, a, 'r'); }
static Value m_center(Interp *I, Value *a) { return pad(I, a, 'c'); }

static Value m_zfill(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    int64_t width, n;
    bool sign;
    StrBuf b = {0};

    if (!s || !value_as_int(I, a[1], &width))
        return VERR;
    n = str_nchars(s);
    if (width <= n)
        return value_ref(vobj(s));
    if (width > INT32_MAX / 8)
        return raise(I, EXC_MemoryError, "a width of %lld is too large", (long long)width);
    sign = s->len && (s->s[0] == '-' || s->s[0] == '+');
    sb_write(&b, s->s, sign);
    sb_pad(&b, '0', (size_t)(width - n));
    sb_write(&b, s->s + sign, s->len - sign);
    return str_steal(&b);
}

static Value m_expandtabs(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    const char *p, *end;
    int64_t tab, col = 0;
    StrBuf b = {0};

    if (!s || !value_as_int(I, a[1], &tab))
        return VERR;
    for (p = s->s, end = p + s->len; p < end;) {
        const char *from = p;
        uint32_t c = utf8_next(&p);
        if (c == '\t') {
            int64_t n = tab > 0 ? tab - col % tab : 0;
            sb_pad(&b, ' ', (size_t)n);
            col += n;
            continue;
        }
        sb_write(&b, from, (size_t)(p - from));
        col = c == '\n' || c == '\r' ? 0 : col + 1;
    }
    return str_steal(&b);
}

/* ------------------------------------------------------------- translate */

static bool map_pair(Interp *I, DictObj *d, uint32_t from, Value to)
{
    bool ok = dict_set(I, d, vint(from), to);

    value_unref(to);
    return ok;
}

/* maketrans(x, y, z): code points of x to those of y, those of z to None. */
static Value map_text(Interp *I, Value *a, StrObj *x, StrObj *y)
{
    const char *p = x->s, *q = y->s;
    Value d;
    StrObj *z = NULL;

    if (str_nchars(x) != str_nchars(y))
        return raise(I, EXC_ValueError, "the first two maketrans arguments must have equal length");
    if (is_given(a[2]) && !(z = need_str(I, a[2], "maketrans() argument 3")))
        return VERR;
    d = dict_new();
    while (p < x->s + x->len) {
        uint32_t c = utf8_next(&p);
        if (!map_pair(I, as_dict(d), c, vint(utf8_next(&q))))
            goto fail;
    }
    for (p = z ? z->s : NULL; z && p < z->s + z->len;)
        if (!map_pair(I, as_dict(d), utf8_next(&p), VNONE))
            goto fail;
    return d;
fail:
    value_unref(d);
    return VERR;
}

static Value map_dict(Interp *I, DictObj *from)
{
    Value d = dict_new(), key, val;
    int64_t pos = 0;

    while (dict_next(from, &pos, &key, &val)) {
        if (key.tag == V_STR && str_nchars(as_str(key)) == 1) {
            const char *p = as_str(key)->s;
            key = vint(utf8_next(&p));
        } else if (key.tag != V_INT) {
            value_unref(d);
            return key.tag == V_STR ? raise(I, EXC_ValueError, "string keys in translate table must be of length 1")
                                    : raise(I, EXC_TypeError, "keys in translate table must be strings or integers");
        }
        if (!dict_set(I, as_dict(d), key, val)) {
            value_unref(d);
            return VERR;
        }
    }
    return d;
}

static Value s_maketrans(Interp *I, Value *a)
{
    StrObj *x, *y;

    if (!is_given(a[1])) {
        if (a[0].tag != V_DICT)
            return raise(I, EXC_TypeError, "if you give only one argument to maketrans it must be a dict");
        return map_dict(I, as_dict(a[0]));
    }
    x = need_str(I, a[0], "maketrans() argument 1");
    y = x ? need_str(I, a[1], "maketrans() argument 2") : NULL;
    return y ? map_text(I, a, x, y) : VERR;
}

static Value m_translate(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    const char *p, *end;
    StrBuf b = {0};

    if (!s)
        return VERR;
    for (p = s->s, end = p + s->len; p < end;) {
        const char *from = p;
        Value to = value_getitem(I, a[1], vint(utf8_next(&p)));
        if (is_err(to)) {
            if (!exc_matches(I, EXC_LookupError))
                goto fail;
            exc_clear(I);
            sb_write(&b, from, (size_t)(p - from));
        } else if (to.tag == V_STR) {
            sb_write(&b, as_str(to)->s, as_str(to)->len);
        } else if (to.tag == V_INT && to.i >= 0 && to.i <= 0x10ffff) {
            sb_put_utf8(&b, (uint32_t)to.i);
        } else if (to.tag != V_NONE) {
            raise(I, EXC_TypeError, "character mapping must return integer, None or str");
            value_unref(to);
            goto fail;
        }
        value_unref(to);
    }
    return str_steal(&b);
fail:
    sb_done(&b);
    return VERR;
}

/* ------------------------------------------------------------- format, encode */

static Value m_format(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    return s ? str_format(I, s, a[1], a[2]) : VERR;
}

static Value m_format_map(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    Value none, r;

    if (!s)
        return VERR;
    none = tuple_new(0);
    r = str_format(I, s, none, a[1]);
    value_unref(none);
    return r;
}

static Value m_render(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]);
    return s ? str_render(I, s, as_dict(a[1])) : VERR;
}

static Value m_encode(Interp *I, Value *a)
{
    StrObj *s = self_str(I, a[0]), *enc = s ? need_str(I, a[1], "encoding") : NULL;
    StrObj *errors = enc ? need_str(I, a[2], "errors") : NULL;

    return errors ? text_encode(I, s, enc->s, errors->s) : VERR;
}

/* str(object), str(bytes, encoding, errors) */
static Value str_make(Interp *I, Value *a)
{
    StrObj *enc, *errors;

    if (is_err(a[1]))
        return str_new("", 0);
    if (is_err(a[2]) && is_err(a[3]))
        return value_str(I, a[1]);
    if (a[1].tag != V_BYTES)
        return raise(I, EXC_TypeError, "decoding to str: need a bytes-like object, %s found", value_type_name(a[1]));
    enc = is_err(a[2]) ? NULL : need_str(I, a[2], "encoding");
    errors = is_err(a[3]) ? NULL : need_str(I, a[3], "errors");
    if (exc_pending(I))
        return VERR;
    return text_decode(I, ((BytesObj *)a[1].o)->s, ((BytesObj *)a[1].o)->len, enc ? enc->s : "utf-8", errors ? errors->s : "strict");
}

const NativeDef natives_str[] = {
    {"", "str", NULL, "type[str]", "Text: a sequence of Unicode code points."},
    {"str", "__new__", str_make, "(cls, object=..., encoding: str = ..., errors: str = ...) -> str", "The text of any value, or of bytes in an encoding."},
    {"str", "find", m_find, "(self, sub: str, start: int | None = None, end: int | None = None, /) -> int", "Lowest index where sub is found in self[start:end], else -1."},
    {"str", "rfind", m_rfind, "(self, sub: str, start: int | None = None, end: int | None = None, /) -> int", "Highest index where sub is found in self[start:end], else -1."},
    {"str", "index", m_index, "(self, sub: str, start: int | None = None, end: int | None = None, /) -> int", "Like find, but raises ValueError when sub is not found."},
    {"str", "rindex", m_rindex, "(self, sub: str, start: int | None = None, end: int | None = None, /) -> int", "Like rfind, but raises ValueError when sub is not found."},
    {"str", "count", m_count, "(self, sub: str, start: int | None = None, end: int | None = None, /) -> int", "Occurrences of sub in self[start:end] without overlap."},
    {"str", "startswith", m_startswith, "(self, prefix: str | tuple, start: int | None = None, end: int | None = None, /) -> bool", "Does self[start:end] begin with the prefix, or one of them?"},
    {"str", "endswith", m_endswith, "(self, suffix: str | tuple, start: int | None = None, end: int | None = None, /) -> bool", "Does self[start:end] end with the suffix, or one of them?"},
    {"str", "removeprefix", m_removeprefix, "(self, prefix: str, /) -> str", "Without the prefix if it begins with it."},
    {"str", "removesuffix", m_removesuffix, "(self, suffix: str, /) -> str", "Without the suffix if it ends with it."},
    {"str", "strip", m_strip, "(self, chars: str | None = None, /) -> str", "Without white space, or the given characters, at both ends."},
    {"str", "lstrip", m_lstrip, "(self, chars: str | None = None, /) -> str", "Without white space, or the given characters, at the start."},
    {"str", "rstrip", m_rstrip, "(self, chars: str | None = None, /) -> str", "Without white space, or the given characters, at the end."},
    {"str", "join", m_join, "(self, iterable: Iterable[str], /) -> str", "The strings with self between them."},
    {"str", "replace", m_replace, "(self, old: str, new: str, count: int = -1, /) -> str", "With the first count occurrences of old, or all, replaced."},
    {"str", "ljust", m_ljust, "(self, width: int, fillchar: str = ' ', /) -> str", "Padded at the right to the width."},
    {"str", "rjust", m_rjust, "(self, width: int, fillchar: str = ' ', /) -> str", "Padded at the left to the width."},
    {"str", "center", m_center, "(self, width: int, fillchar: str = ' ', /) -> str", "Padded at both sides to the width."},
    {"str", "zfill", m_zfill, "(self, width: int, /) -> str", "With zeros after the sign up to the width."},
    {"str", "expandtabs", m_expandtabs, "(self, tabsize: int = 8) -> str", "With tabs as spaces up to the next tab stop."},
    {"str", "maketrans", s_maketrans, "(x, y=None, z=None, /) -> dict", "A table for translate: from a dict, or from the characters of x to those of y, dropping those of z."},
    {"str", "translate", m_translate, "(self, table, /) -> str", "Each character through the table: a character, a string, or None to drop it."},
    {"str", "format", m_format, "(self, /, *args, **kwargs) -> str", "With {} holes filled from the arguments."},
    {"str", "format_map", m_format_map, "(self, mapping, /) -> str", "With {name} holes filled from the mapping."},
    {"str", "render", m_render, "(self, /, **values) -> str", "With {name} holes filled; braces that hold no name stay. KeyError when a name is not given."},
    {"str", "encode", m_encode, "(self, encoding: str = 'utf-8', errors: str = 'strict') -> bytes", "As bytes; UnicodeEncodeError when a character has no form in the encoding."},
    {0},
};
