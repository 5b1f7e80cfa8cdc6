/*
 * The methods that bytes share with str: they are str's, on text that stands for the bytes.
 *
 * A byte of ASCII stands as itself.  The others, and control characters that count as white space in text alone, stand
 * as characters for private use, which are no letters, digits or space: so upper() leaves b"\xe9" alone.  What
 * comes back as text goes back to bytes, also in lists and tuples.
 */
#include "frontend/lib/lib.h"

#include <string.h>

enum { PRIVATE = 0xe000 };

static Value to_text(const BytesObj *b)
{
    StrBuf t = {0};

    for (uint32_t i = 0; i < b->len; i++) {
        unsigned char c = (unsigned char)b->s[i];
        sb_put_utf8(&t, c >= 0x80 || (c >= 0x1c && c <= 0x1f) ? PRIVATE + c : c);
    }
    return str_steal(&t);
}

static Value from_text(const StrObj *s)
{
    StrBuf b = {0};
    Value out;

    for (const char *p = s->s, *end = p + s->len; p < end;)
        sb_putc(&b, (char)(utf8_next(&p) & 0xff));
    out = bytes_new(sb_str(&b), b.n);
    sb_done(&b);
    return out;
}

/* An argument for str's method: bytes and tuples of bytes become text; text, which bytes do not mix with, is refused. */
static Value argument(Interp *I, Value v, bool one_byte)
{
    Value u = unwrap_base(v), out;
    char c;

    if (u.tag == V_BYTES)
        return to_text(as_bytes(u));
    if (u.tag == V_STR)
        return raise(I, EXC_TypeError, "a bytes-like object is required, not 'str'");
    if (one_byte && u.tag == V_INT) {
        if (u.i < 0 || u.i > 255)
            return raise(I, EXC_ValueError, "byte must be in range(0, 256)");
        c = (char)u.i;
        u = bytes_new(&c, 1);
        out = to_text(as_bytes(u));
        value_unref(u);
        return out;
    }
    if (u.tag != V_TUPLE)
        return value_ref(v);
    out = tuple_new(as_tuple(u)->n);
    for (int64_t i = 0; i < as_tuple(u)->n; i++) {
        Value x = argument(I, as_tuple(u)->at[i], false);
        if (is_err(x)) {
            value_unref(out);
            return VERR;
        }
        as_tuple(out)->at[i] = x;
    }
    return out;
}

static Value answer(Value v)
{
    Value out = v;

    if (v.tag == V_STR) {
        out = from_text(as_str(v));
        value_unref(v);
    } else if (v.tag == V_LIST) {
        for (int64_t i = 0; i < as_list(v)->n; i++)
            as_list(v)->at[i] = answer(as_list(v)->at[i]);
    } else if (v.tag == V_TUPLE) {
        out = tuple_new(as_tuple(v)->n);
        for (int64_t i = 0; i < as_tuple(v)->n; i++)
            as_tuple(out)->at[i] = answer(value_ref(as_tuple(v)->at[i]));
        value_unref(v);
    }
    return out;
}

/* a: the bytes, a tuple of arguments, a dict of keywords. */
static Value by_text(Interp *I, Value *a, const char *name, bool one_byte)
{
    Value self = unwrap_base(a[0]), text, arg[4], r = VERR;
    int64_t n = as_tuple(a[1])->n, i;

    if (self.tag != V_BYTES)
        return raise(I, EXC_TypeError, "this method of 'bytes' doesn't apply to a '%s' object", value_type_name(a[0]));
    if (n > 4)
        return raise(I, EXC_TypeError, "%s() takes at most 4 arguments (%lld given)", name, (long long)n);
    text = to_text(as_bytes(self));
    for (i = 0; i < n; i++)
        if (is_err(arg[i] = argument(I, as_tuple(a[1])->at[i], one_byte && !i)))
            break;
    if (i == n)
        r = call_method_kw(I, text, name, arg, n, a[2]);
    while (i-- > 0)
        value_unref(arg[i]);
    value_unref(text);
    return answer(r);
}

#define EACH_METHOD(X)                                                                                                      \
    X(find, true, "Lowest index of what is looked for, or -1.") X(rfind, true, "Highest index of it, or -1.")               \
    X(index, true, "Lowest index; ValueError when it is absent.") X(rindex, true, "Highest index; ValueError.")             \
    X(count, true, "Occurrences without overlap.") X(startswith, false, "Does it begin with the prefix, or one of them?")   \
    X(endswith, false, "Does it end with the suffix, or one of them?") X(split, false, "The pieces between separators.")    \
    X(rsplit, false, "The same from the right.") X(splitlines, false, "The lines.")                                         \
    X(partition, false, "What is before the separator, it, and what is behind.") X(rpartition, false, "The same, at the last one.") \
    X(strip, false, "Without white space, or the given bytes, at both ends.") X(lstrip, false, "Without it at the start.")  \
    X(rstrip, false, "Without it at the end.") X(replace, false, "With occurrences of the old replaced by the new.")        \
    X(removeprefix, false, "Without the prefix, where it is there.") X(removesuffix, false, "Without the suffix.")          \
    X(center, false, "In the middle of the width.") X(ljust, false, "At the left of the width.")                            \
    X(rjust, false, "At the right of the width.") X(zfill, false, "With zeros in front.") X(expandtabs, false, "Tabs as spaces.") \
    X(upper, false, "ASCII letters as capitals.") X(lower, false, "ASCII letters as small ones.")                           \
    X(title, false, "Words begin with capitals.") X(capitalize, false, "The first letter as a capital.")                    \
    X(swapcase, false, "Capitals as small letters and back.") X(isalpha, false, "ASCII letters only?")                      \
    X(isdigit, false, "ASCII digits only?") X(isalnum, false, "ASCII letters and digits only?")                             \
    X(isspace, false, "White space only?") X(isupper, false, "No small letters?") X(islower, false, "No capitals?")         \
    X(istitle, false, "Do words begin with capitals, and only they?") X(isascii, false, "ASCII only?")

#define METHOD(name, one_byte, doc)                                                                     \
    static Value t_##name(Interp *I, Value *a) { return by_text(I, a, #name, one_byte); }
EACH_METHOD(METHOD)

/* Each byte by a table of 256, without those that are to be deleted. */
static Value t_translate(Interp *I, Value *a)
{
    Value self = unwrap_base(a[0]), table = unwrap_base(a[1]), gone = is_err(a[2]) ? VNONE : unwrap_base(a[2]), out;
    StrBuf b = {0};

    if (self.tag != V_BYTES || (table.tag != V_NONE && (table.tag != V_BYTES || as_bytes(table)->len != 256)))
        return raise(I, EXC_ValueError, "translation table must be 256 characters long");
    for (uint32_t i = 0; i < as_bytes(self)->len; i++) {
        char c = as_bytes(self)->s[i];
        if (gone.tag == V_BYTES && memchr(as_bytes(gone)->s, c, as_bytes(gone)->len))
            continue;
        sb_putc(&b, table.tag == V_NONE ? c : as_bytes(table)->s[(unsigned char)c]);
    }
    out = bytes_new(sb_str(&b), b.n);
    sb_done(&b);
    return out;
}

static Value t_maketrans(Interp *I, Value *a)
{
    Value from = unwrap_base(a[0]), to = unwrap_base(a[1]);
    char table[256];

    if (from.tag != V_BYTES || to.tag != V_BYTES || as_bytes(from)->len != as_bytes(to)->len)
        return raise(I, EXC_ValueError, "maketrans arguments must have same length");
    for (int i = 0; i < 256; i++)
        table[i] = (char)i;
    for (uint32_t i = 0; i < as_bytes(from)->len; i++)
        table[(unsigned char)as_bytes(from)->s[i]] = as_bytes(to)->s[i];
    return bytes_new(table, 256);
}

#define ROW(name, one_byte, doc) {"bytes", #name, t_##name, "(self, *args, **kwargs) -> Any", doc},
const NativeDef natives_bytes_text[] = {
    EACH_METHOD(ROW)
    {"bytes", "translate", t_translate, "(self, table: bytes | None, /, delete: bytes = ...) -> bytes", "Each byte by a table of 256."},
    {"bytes", "maketrans", t_maketrans, "(frm: bytes, to: bytes, /) -> bytes", "A table for translate."},
    {0},
};
