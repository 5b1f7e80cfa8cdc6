/*
 * NumPy's .npy files, versions 1 to 3.
 *
 * The header is a Python dict literal with three keys; only that much Python is
 * understood, so a file can neither run code nor nest.  Every length is checked
 * against the bytes that are there before it is used.
 */
#include "runtime/tensor.h"

#include "base/alloc.h"
#include "runtime/convert.h"
#include "runtime/reader.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER_MAX = 1 << 20, ALIGN = 64 };

/* What numpy calls our dtypes: kind and bytes. */
typedef struct { DType dt; char kind; int size; } NpyType;
static const NpyType types[] = {
    {DT_bool, 'b', 1},   {DT_int8, 'i', 1},   {DT_int16, 'i', 2},  {DT_int32, 'i', 4}, {DT_int64, 'i', 8},
    {DT_uint8, 'u', 1},  {DT_uint16, 'u', 2}, {DT_uint32, 'u', 4}, {DT_uint64, 'u', 8},
    {DT_f16, 'f', 2},    {DT_f32, 'f', 4},    {DT_f64, 'f', 8},    {DT_c64, 'c', 8},   {DT_c128, 'c', 16},
};

typedef struct Header {
    const char *p, *end;
    StrBuf *err;
    const NpyType *type;
    bool swapped, fortran;
    int rank;
    int64_t shape[RANK_MAX];
    bool seen[3];
} Header;

static bool fail(StrBuf *err, const char *why)
{
    sb_puts(err, why);
    return false;
}

static void skip_space(Header *h)
{
    while (h->p < h->end && strchr(" \t\r\n", *h->p) && *h->p)
        h->p++;
}

static bool take(Header *h, char c)
{
    skip_space(h);
    if (h->p == h->end || *h->p != c)
        return false;
    h->p++;
    return true;
}

/* A quoted string without escapes. */
static bool take_string(Header *h, const char **s, size_t *n)
{
    char quote;

    skip_space(h);
    if (h->p == h->end || (*h->p != '\'' && *h->p != '"'))
        return false;
    quote = *h->p++;
    *s = h->p;
    while (h->p < h->end && *h->p != quote && *h->p != '\\')
        h->p++;
    if (h->p == h->end || *h->p != quote)
        return false;
    *n = (size_t)(h->p++ - *s);
    return true;
}

static bool take_word(Header *h, const char *word)
{
    size_t n = strlen(word);

    skip_space(h);
    if ((size_t)(h->end - h->p) < n || memcmp(h->p, word, n))
        return false;
    h->p += n;
    return true;
}

static bool read_descr(Header *h)
{
    const char *s;
    size_t n;

    if (take(h, '['))
        return fail(h->err, "npy: records (structured dtypes) are not tensors");
    if (!take_string(h, &s, &n) || n < 2)
        return fail(h->err, "npy: 'descr' is not a dtype like '<f4'");
    bool big = *s == '>';
    if (strchr("<>=|", *s))
        s++, n--;
    if (*s == 'O')
        return fail(h->err, "npy: Python objects are not read");
    int size = 0;
    for (size_t i = 1; i < n && size < 1000; i++) {
        if (s[i] < '0' || s[i] > '9')
            return fail(h->err, "npy: 'descr' is not a dtype like '<f4'");
        size = size * 10 + (s[i] - '0');
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].kind == *s && types[i].size == size) {
            h->type = &types[i];
            h->swapped = big && size > 1;
            return true;
        }
    sb_printf(h->err, "npy: dtype '%.*s' has no counterpart here", (int)(n < 16 ? n : 16), s);
    return false;
}

static bool read_size(Header *h, int64_t *out)
{
    int64_t v = 0;
    const char *start;

    skip_space(h);
    for (start = h->p; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *h->p - '0', &v))
            return false;
    *out = v;
    if (h->p == start)
        return false;
    if (h->p < h->end && *h->p == 'L')              /* Python 2 wrote long numbers so */
        h->p++;
    return true;
}

static bool read_shape(Header *h)
{
    if (!take(h, '('))
        return fail(h->err, "npy: 'shape' is not a tuple");
    while (!take(h, ')')) {
        if (h->rank == RANK_MAX)
            return fail(h->err, "npy: more than 16 axes");
        if (!read_size(h, &h->shape[h->rank++]))
            return fail(h->err, "npy: 'shape' holds something that is not a size");
        if (take(h, ','))
            continue;
        if (!take(h, ')'))
            return fail(h->err, "npy: 'shape' is not a tuple");
        break;
    }
    return true;
}

static bool read_fortran(Header *h)
{
    h->fortran = take_word(h, "True");
    return h->fortran || take_word(h, "False") || fail(h->err, "npy: 'fortran_order' is neither True nor False");
}

static bool read_header(Header *h)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    static bool (*const readers[])(Header *) = {read_descr, read_fortran, read_shape};
    const char *s;
    size_t n;

    if (!take(h, '{'))
        return fail(h->err, "npy: the header is not a dict");
    while (!take(h, '}')) {
        int k = 0;
        if (!take_string(h, &s, &n) || !take(h, ':'))
            return fail(h->err, "npy: the header is not a dict");
        while (k < 3 && (strlen(keys[k]) != n || memcmp(keys[k], s, n)))
            k++;
        if (k == 3 || h->seen[k])
            return fail(h->err, "npy: the header has a key that is unknown or comes twice");
        h->seen[k] = true;
        if (!readers[k](h))
            return false;
        if (!take(h, ',')) {
            if (!take(h, '}'))
                return fail(h->err, "npy: the header is not a dict");
            break;
        }
    }
    skip_space(h);
    if (h->p != h->end)
        return fail(h->err, "npy: the header goes on after its dict");
    return (h->seen[0] && h->seen[1] && h->seen[2]) || fail(h->err, "npy: the header lacks descr, fortran_order or shape");
}

/* The header's place in the file; *body is where elements begin. */
static bool find_header(const uint8_t *p, size_t n, Header *h, size_t *body)
{
    size_t len, at;

    if (n < 10 || memcmp(p, "\x93NUMPY", 6))
        return fail(h->err, "npy: this is not an npy file");
    if (p[6] < 1 || p[6] > 3)
        return fail(h->err, "npy: the version is neither 1, 2 nor 3");
    at = p[6] == 1 ? 10 : 12;
    if (n < at)
        return fail(h->err, "npy: the file ends inside its header");
    len = p[6] == 1 ? p[8] | (size_t)p[9] << 8 : p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (len > HEADER_MAX || len > n - at)
        return fail(h->err, "npy: the header is longer than the file");
    h->p = (const char *)p + at;
    h->end = h->p + len;
    *body = at + len;
    return true;
}

static void swap_bytes(char *p, size_t count, size_t unit)
{
    for (size_t i = 0; i < count; i++, p += unit)
        for (size_t a = 0, b = unit - 1; a < b; a++, b--) {
            char t = p[a];
            p[a] = p[b];
            p[b] = t;
        }
}

/* Elements into a fresh tensor whose axes are reversed when the file is in Fortran order. */
static Tensor *read_elements(const Header *h, const void *data, size_t bytes)
{
    int64_t shape[RANK_MAX];
    Tensor *t;
    size_t unit = h->type->kind == 'c' ? (size_t)h->type->size / 2 : (size_t)h->type->size;

    for (int i = 0; i < h->rank; i++)
        shape[i] = h->shape[h->fortran ? h->rank - 1 - i : i];
    if (!(t = tensor_new(h->type->dt, h->rank, shape)))
        return NULL;
    memcpy(storage_data(t->store), data, bytes);
    if (h->swapped)
        swap_bytes(storage_data(t->store), bytes / unit, unit);
    if (h->type->dt == DT_bool)
        bools_from_bytes(storage_data(t->store), (int64_t)bytes);
    return t;
}

/* t with its axes reversed, row-major again. */
static Tensor *reversed(Tensor *t)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX];
    Tensor *view, *r;

    for (int i = 0; i < t->rank; i++) {
        shape[i] = t->shape[t->rank - 1 - i];
        stride[i] = t->stride[t->rank - 1 - i];
    }
    view = tensor_view(t, t->rank, shape, stride, 0);
    r = tensor_contiguous(view);
    tensor_unref(view);
    tensor_unref(t);
    return r;
}

bool npy_read(const void *data, size_t n, Tensor **out, StrBuf *err)
{
    Header h = {.err = err};
    size_t body, bytes;
    int64_t count;

    if (!find_header(data, n, &h, &body) || !read_header(&h))
        return false;
    if (!shape_elements(h.rank, h.shape, &count))
        return fail(err, "npy: the shape has more elements than memory could hold");
    bytes = (size_t)count * (size_t)h.type->size;
    if (n - body != bytes) {
        sb_printf(err, "npy: the shape needs %zu bytes of elements, the file has %zu", bytes, n - body);
        return false;
    }
    *out = read_elements(&h, (const char *)data + body, bytes);
    if (*out && h.fortran && h.rank > 1)
        *out = reversed(*out);
    return *out || fail(err, "npy: no memory for the tensor");
}

bool npy_write(const Tensor *t, StrBuf *out, StrBuf *err)
{
    StrBuf h = {0};
    const NpyType *type = NULL;
    size_t len;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dt == t->dtype)
            type = &types[i];
    if (!type) {
        sb_printf(err, "npy cannot hold %s: convert it first, for example with .to(f32)", dtype_info[t->dtype].name);
        return false;
    }
    sb_printf(&h, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", type->size == 1 ? '|' : '<', type->kind, type->size);
    for (int i = 0; i < t->rank; i++)
        sb_printf(&h, "%s%" PRId64, i ? ", " : "", t->shape[i]);
    sb_puts(&h, t->rank == 1 ? ",), }" : "), }");
    len = (10 + h.n + 1 + ALIGN - 1) / ALIGN * ALIGN - 10;
    sb_pad(&h, ' ', len - h.n - 1);
    sb_putc(&h, '\n');
    sb_write(out, "\x93NUMPY\x01", 7);
    sb_putc(out, 0);
    sb_putc(out, (char)(len & 255));
    sb_putc(out, (char)(len >> 8));
    sb_write(out, h.s, h.n);
    sb_done(&h);

    Reader r;
    TileBuf buf;
    int64_t n = tensor_size(t);
    reader_init(&r, t);
    for (int64_t i = 0; i < n; i += TILE) {
        int64_t k = n - i < TILE ? n - i : TILE;
        sb_write(out, reader_raw(&r, i, k, buf.at), (size_t)k * raw_size(r.dtype));
    }
    return true;
}
