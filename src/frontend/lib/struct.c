/*
 * The module struct: numbers as bytes in a given layout.
 *
 * A format is an order ("<" little-endian, ">" and "!" big-endian, "=" and "@" this machine's) and items: a count and a letter.
 * "@" and no order at all align items as C does; the others stand one behind the other.
 */
#include "frontend/lib/lib.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { SIZE_MOST = 1 << 30 };

typedef struct Item { char letter; int64_t count; int size; int64_t at; } Item;         /* at: its first byte */
typedef struct Layout { Item item[256]; int n; int64_t size; bool big; } Layout;

static int size_of_letter(char c)
{
    switch (c) {
    case 'x': case 'c': case 'b': case 'B': case '?': case 's': case 'p': return 1;
    case 'h': case 'H': case 'e': return 2;
    case 'i': case 'I': case 'l': case 'L': case 'f': return 4;
    case 'q': case 'Q': case 'd': case 'n': case 'N': return 8;
    default: return 0;
    }
}

static bool wrong(Interp *I, const char *why)
{
    raise(I, EXC_ValueError, "struct.error: %s", why);
    return false;
}

static bool layout_of(Interp *I, Value v, Layout *out)
{
    Value f = unwrap_base(v);
    const char *p = f.tag == V_STR ? as_str(f)->s : f.tag == V_BYTES ? as_bytes(f)->s : NULL;
    bool native = true;

    *out = (Layout){0};
    if (!p)
        return wrong(I, "Struct() argument 1 must be a str or bytes object");
    if (strchr("<>!=@", *p) && *p) {
        native = *p == '@';
        out->big = *p == '>' || *p == '!';
        p++;
    }
    for (; *p; p++) {
        int64_t count = 1;
        if (isspace((unsigned char)*p))
            continue;
        if (isdigit((unsigned char)*p))
            for (count = 0; isdigit((unsigned char)*p); p++)
                if ((count = count * 10 + (*p - '0')) > INT32_MAX)
                    return wrong(I, "total struct size too long");
        int size = native && (*p == 'l' || *p == 'L') ? 8 : size_of_letter(*p);
        if (!size)
            return wrong(I, "bad char in struct format");
        if (out->n == 256)
            return wrong(I, "more than 256 items in a format");
        if (native)
            out->size = (out->size + size - 1) / size * size;
        out->item[out->n++] = (Item){*p, count, size, out->size};
        out->size += count * size;
        if (out->size > SIZE_MOST)
            return wrong(I, "total struct size too long");
    }
    return true;
}

static int values_of(const Layout *l)
{
    int64_t n = 0;

    for (int i = 0; i < l->n; i++)
        n += l->item[i].letter == 'x' ? 0 : strchr("sp", l->item[i].letter) ? 1 : l->item[i].count;
    return (int)n;
}

/* size bytes of bits, in the layout's order */
static void put(char *to, uint64_t bits, int size, bool big)
{
    for (int i = 0; i < size; i++)
        to[big ? size - 1 - i : i] = (char)(bits >> (8 * i));
}

static uint64_t get(const char *from, int size, bool big)
{
    uint64_t bits = 0;

    for (int i = 0; i < size; i++)
        bits |= (uint64_t)(unsigned char)from[big ? size - 1 - i : i] << (8 * i);
    return bits;
}

static bool put_float(Interp *I, char *to, Value v, const Item *it, bool big)
{
    double d;
    float f;
    uint64_t bits;

    if (!value_as_float(I, v, &d))
        return false;
    f = (float)d;
    if (it->size == 8) {
        memcpy(&bits, &d, 8);
    } else {
        uint32_t word;
        if (isinf(f) && !isinf(d))
            return raise(I, EXC_OverflowError, "float too large to pack with f format"), false;
        memcpy(&word, &f, 4);
        bits = word;
    }
    put(to, bits, it->size, big);
    return true;
}

static bool put_whole(Interp *I, char *to, Value v, const Item *it, bool big)
{
    bool is_signed = strchr("bhilqn", it->letter) != NULL;
    int bits = 8 * it->size;
    int64_t x;

    if (it->letter == '?') {
        int t = value_truth(I, v);
        *to = (char)(t > 0);
        return t >= 0;
    }
    if (unwrap_base(v).tag != V_INT && unwrap_base(v).tag != V_BOOL)
        return wrong(I, "required argument is not an integer");
    if (!value_as_int(I, v, &x))
        return false;
    if (is_signed ? bits < 64 && (x < -((int64_t)1 << (bits - 1)) || x >= (int64_t)1 << (bits - 1)) : x < 0 || (bits < 64 && x >> bits))
        return wrong(I, "argument out of range");
    put(to, (uint64_t)x, it->size, big);
    return true;
}

static bool put_text(Interp *I, char *to, Value v, const Item *it)
{
    Value b = unwrap_base(v);

    if (b.tag != V_BYTES)
        return wrong(I, "argument for 's' must be a bytes object");
    memcpy(to, as_bytes(b)->s, as_bytes(b)->len < it->count ? as_bytes(b)->len : (size_t)it->count);
    return true;
}

static bool put_one(Interp *I, char *to, Value v, const Item *it, bool big)
{
    Value b = unwrap_base(v);

    if (it->letter == 'f' || it->letter == 'd')
        return put_float(I, to, v, it, big);
    if (it->letter != 'c')
        return put_whole(I, to, v, it, big);
    if (b.tag != V_BYTES || as_bytes(b)->len != 1)
        return wrong(I, "char format requires a bytes object of length 1");
    *to = as_bytes(b)->s[0];
    return true;
}

/* a = format, *values */
static Value s_pack(Interp *I, Value *a)
{
    TupleObj *v = as_tuple(a[1]);
    bool ok = true;
    int64_t k = 0;
    Layout l;
    char *out;
    Value r;

    if (!layout_of(I, a[0], &l))
        return VERR;
    for (int i = 0; i < l.n; i++)
        if (l.item[i].letter == 'e' || l.item[i].letter == 'p')
            return raise(I, EXC_ValueError, "struct.error: the formats 'e' and 'p' are not here");
    if (v->n != values_of(&l))
        return raise(I, EXC_ValueError, "struct.error: pack expected %d items for packing (got %lld)", values_of(&l), (long long)v->n);
    out = tsr_calloc((size_t)l.size + 1);
    for (int i = 0; ok && i < l.n; i++) {
        const Item *it = &l.item[i];
        if (it->letter == 's')
            ok = put_text(I, out + it->at, v->at[k++], it);
        for (int64_t j = 0; ok && !strchr("sx", it->letter) && j < it->count; j++)
            ok = put_one(I, out + it->at + j * it->size, v->at[k++], it, l.big);
    }
    r = ok ? bytes_new(out, (size_t)l.size) : VERR;
    tsr_free(out);
    return r;
}

static Value got(const char *from, const Item *it, bool big)
{
    uint64_t bits = get(from, it->size, big);
    uint32_t word = (uint32_t)bits;
    int unused = 64 - 8 * it->size;
    double d;
    float f;

    switch (it->letter) {
    case 'c': return bytes_new(from, 1);
    case '?': return vbool(bits != 0);
    case 'f': memcpy(&f, &word, 4); return vfloat(f);
    case 'd': memcpy(&d, &bits, 8); return vfloat(d);
    default: return vint(strchr("bhilqn", it->letter) ? (int64_t)(bits << unused) >> unused : (int64_t)bits);
    }
}

/* a = format, buffer, offset; exact: the buffer holds that and no more */
static Value unpacked(Interp *I, Value *a, int64_t offset, bool exact)
{
    BytesObj *b;
    Value out;
    int64_t k = 0;
    Layout l;

    if (!layout_of(I, a[0], &l) || !(b = need_bytes(I, a[1])))
        return VERR;
    if (offset < 0 || (exact ? b->len != l.size : b->len < offset || b->len - offset < l.size))
        return raise(I, EXC_ValueError, "struct.error: unpack requires a buffer of %lld bytes", (long long)(l.size + offset));
    for (int i = 0; i < l.n; i++)
        if (l.item[i].letter == 'e' || l.item[i].letter == 'p')
            return raise(I, EXC_ValueError, "struct.error: the formats 'e' and 'p' are not here");
    out = tuple_new(values_of(&l));
    for (int i = 0; i < l.n; i++) {
        const Item *it = &l.item[i];
        const char *from = b->s + offset + it->at;
        if (it->letter == 's')
            as_tuple(out)->at[k++] = bytes_new(from, (size_t)it->count);
        for (int64_t j = 0; !strchr("sx", it->letter) && j < it->count; j++)
            as_tuple(out)->at[k++] = got(from + j * it->size, it, l.big);
    }
    return out;
}

static Value s_unpack(Interp *I, Value *a) { return unpacked(I, a, 0, true); }

static Value s_unpack_from(Interp *I, Value *a)
{
    int64_t offset;
    return value_as_int(I, a[2], &offset) ? unpacked(I, a, offset, false) : VERR;
}

static Value s_calcsize(Interp *I, Value *a)
{
    Layout l;
    return layout_of(I, a[0], &l) ? vint(l.size) : VERR;
}

const NativeDef natives_struct[] = {
    {"_struct", "pack", s_pack, "(format: str | bytes, /, *values) -> bytes", "The values as bytes."},
    {"_struct", "unpack", s_unpack, "(format: str | bytes, buffer: bytes, /) -> tuple", "The values that the bytes hold."},
    {"_struct", "unpack_from", s_unpack_from, "(format: str | bytes, buffer: bytes, /, offset: int = 0) -> tuple", "Those from a place on."},
    {"_struct", "calcsize", s_calcsize, "(format: str | bytes, /) -> int", "How many bytes the format takes."},
    {0},
};
