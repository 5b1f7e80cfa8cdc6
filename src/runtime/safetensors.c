/*
 * safetensors, read with suspicion: every count, size and offset of the header
 * is checked against the file before anything is allocated from it, ranges may
 * not overlap or leave gaps, and nothing is read past the end.
 */
#include "runtime/safetensors.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "runtime/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The format's dtype names; the others go by our own. */
static const struct { const char *file; DType dtype; } file_names[] = {
    {"BOOL", DT_bool},  {"U8", DT_uint8},   {"I8", DT_int8},          {"U16", DT_uint16},       {"I16", DT_int16},
    {"U32", DT_uint32}, {"I32", DT_int32},  {"U64", DT_uint64},       {"I64", DT_int64},        {"F16", DT_f16},
    {"BF16", DT_bf16},  {"F32", DT_f32},    {"F64", DT_f64},          {"F8_E4M3", DT_fp8_e4m3}, {"F8_E5M2", DT_fp8_e5m2},
    {"C64", DT_c64},
};
enum { FILE_NAMES = sizeof file_names / sizeof *file_names };

static const char *dtype_file_name(DType dt)
{
    for (int i = 0; i < FILE_NAMES; i++)
        if (file_names[i].dtype == dt)
            return file_names[i].file;
    return dtype_info[dt].name;
}

static bool dtype_from_file(const char *name, DType *out)
{
    for (int i = 0; i < FILE_NAMES; i++)
        if (!strcmp(file_names[i].file, name)) {
            *out = file_names[i].dtype;
            return true;
        }
    return dtype_find(name, out);
}

/* ------------------------------------------------------------- reading */

typedef struct Reader {
    Json j;
    const char *data;
    size_t data_len;
    StrBuf *err;
    uint64_t covered;           /* bytes of data that tensors so far have claimed */
    Map names;                  /* hash of a tensor's name -> its place in the result */
} Reader;

static bool fail(Reader *r, const char *what)
{
    sb_puts(r->err, what);
    return false;
}

typedef struct Entry {
    DType dtype;
    int rank;
    Dim shape[RANK_MAX];
    uint64_t lo, hi;
    unsigned seen;              /* bit 0 dtype, 1 shape, 2 offsets */
} Entry;

static bool read_shape(Reader *r, int i, Entry *e)
{
    if (json_kind(&r->j, i) != JSON_ARRAY || json_count(&r->j, i) > RANK_MAX)
        return fail(r, "a shape is not an array of at most 16 sizes");
    e->rank = json_count(&r->j, i);
    for (int k = 0; k < e->rank; k++) {
        uint64_t v;
        if (!json_size(&r->j, i + 1 + k, &v))
            return fail(r, "a shape holds something other than a size");
        e->shape[k] = (Dim)v;
    }
    return true;
}

static bool read_offsets(Reader *r, int i, Entry *e)
{
    if (json_kind(&r->j, i) != JSON_ARRAY || json_count(&r->j, i) != 2 || !json_size(&r->j, i + 1, &e->lo) || !json_size(&r->j, i + 2, &e->hi))
        return fail(r, "data_offsets is not a pair of offsets");
    if (e->lo > e->hi || e->hi > r->data_len)
        return fail(r, "a tensor's data lies outside the file");
    return true;
}

static bool read_field(Reader *r, int key, Entry *e)
{
    int value = key + 1;

    if (json_is(&r->j, key, "dtype")) {
        char *name = json_string(&r->j, value);
        bool known = json_kind(&r->j, value) == JSON_STRING && dtype_from_file(name, &e->dtype);
        if (!known)
            sb_printf(r->err, "unknown dtype '%.40s'", name);
        tsr_free(name);
        e->seen |= 1;
        return known;
    }
    if (json_is(&r->j, key, "shape")) {
        e->seen |= 2;
        return read_shape(r, value, e);
    }
    if (json_is(&r->j, key, "data_offsets")) {
        e->seen |= 4;
        return read_offsets(r, value, e);
    }
    return fail(r, "a tensor has a field other than dtype, shape and data_offsets");
}

/* Does the byte range fit dtype and shape? */
static bool check_entry(Reader *r, const Entry *e)
{
    int64_t n;

    if (e->seen != 7)
        return fail(r, "a tensor lacks its dtype, shape or data_offsets");
    if (!shape_elements(e->rank, e->shape, &n))
        return fail(r, "a tensor has too many elements");
    if (dtype_nbytes(e->dtype, (size_t)n) != e->hi - e->lo)
        return fail(r, "a tensor's data has another length than its shape and dtype ask for");
    return true;
}

/* Has a tensor of that name been read? It is noted otherwise. */
static bool is_known(Reader *r, const SafeTensors *out, const char *name)
{
    uint64_t key = hash_bytes64(name, strlen(name)) | 1;
    uintptr_t at;

    for (; map_find(&r->names, key, &at); key += 2)
        if (!strcmp(out->tensors.at[at].name, name))
            return true;
    map_set(&r->names, key, (uintptr_t)out->tensors.n);
    return false;
}

static bool read_tensor(Reader *r, int key, SafeTensors *out)
{
    Entry e = {0};
    int value = key + 1, i = value + 1;
    NamedTensor named;

    if (json_kind(&r->j, value) != JSON_OBJECT)
        return fail(r, "an entry of the header is not an object");
    for (int k = 0; k < json_count(&r->j, value); k++) {
        if (!read_field(r, i, &e))
            return false;
        i = json_next(&r->j, i + 1);
    }
    if (!check_entry(r, &e))
        return false;
    r->covered += e.hi - e.lo;
    named.name = json_string(&r->j, key);
    if (is_known(r, out, named.name)) {
        tsr_free(named.name);
        return fail(r, "two tensors have the same name");
    }
    named.t = tensor_new(e.dtype, e.rank, e.shape);
    if (!named.t) {
        tsr_free(named.name);
        return fail(r, "not enough memory for its tensors");
    }
    if (e.hi > e.lo)
        memcpy(storage_data(named.t->store), r->data + e.lo, e.hi - e.lo);
    if (e.dtype == DT_bool)
        bools_from_bytes(storage_data(named.t->store), (int64_t)(e.hi - e.lo));
    vec_push(&out->tensors, named);
    return true;
}

static bool read_meta(Reader *r, int key, SafeTensors *out)
{
    int value = key + 1;

    if (json_kind(&r->j, value) != JSON_OBJECT)
        return fail(r, "__metadata__ is not an object");
    for (int k = 0, i = value + 1; k < json_count(&r->j, value); k++, i += 2) {
        MetaEntry m;
        if (json_kind(&r->j, i + 1) != JSON_STRING)
            return fail(r, "__metadata__ holds something other than strings");
        m.key = json_string(&r->j, i);
        m.value = json_string(&r->j, i + 1);
        vec_push(&out->meta, m);
    }
    return true;
}

static bool read_header(Reader *r, SafeTensors *out)
{
    int i = 1;

    if (json_kind(&r->j, 0) != JSON_OBJECT)
        return fail(r, "its header is not a JSON object");
    if (json_count(&r->j, 0) > SAFETENSORS_COUNT_MAX)
        return fail(r, "it has more than 65536 tensors");
    for (int k = 0; k < json_count(&r->j, 0); k++) {
        bool ok = json_is(&r->j, i, "__metadata__") ? read_meta(r, i, out) : read_tensor(r, i, out);
        if (!ok)
            return false;
        i = json_next(&r->j, i + 1);
    }
    if (r->covered != r->data_len)
        return fail(r, "its tensors do not cover the data exactly");
    return true;
}

bool safetensors_read(const void *data, size_t n, SafeTensors *out, StrBuf *err)
{
    const unsigned char *p = data;
    Reader r = {.err = err};
    uint64_t len = 0;
    bool ok;

    *out = (SafeTensors){0};
    if (n < 8)
        return fail(&r, "it is too short to be a safetensors file");
    for (int i = 7; i >= 0; i--)
        len = len << 8 | p[i];
    if (len > n - 8)
        return fail(&r, "it is cut off, or no safetensors file: its header does not fit");
    if (len > SAFETENSORS_HEADER_MAX)
        return fail(&r, "its header is larger than 16 MiB");
    r.data = (const char *)p + 8 + len;
    r.data_len = n - 8 - len;
    ok = (json_read((const char *)p + 8, len, &r.j) || fail(&r, "its header is not well-formed JSON")) && read_header(&r, out);
    json_done(&r.j);
    map_done(&r.names);
    if (!ok)
        safetensors_done(out);
    return ok;
}

/* ------------------------------------------------------------- writing */

static void put_header(const SafeTensors *s, StrBuf *h)
{
    uint64_t at = 0;

    sb_putc(h, '{');
    if (s->meta.n) {
        sb_puts(h, "\"__metadata__\":{");
        for (int i = 0; i < s->meta.n; i++) {
            sb_puts(h, i ? "," : "");
            sb_put_json(h, s->meta.at[i].key, strlen(s->meta.at[i].key));
            sb_putc(h, ':');
            sb_put_json(h, s->meta.at[i].value, strlen(s->meta.at[i].value));
        }
        sb_puts(h, s->tensors.n ? "}," : "}");
    }
    for (int i = 0; i < s->tensors.n; i++) {
        const Tensor *t = s->tensors.at[i].t;
        uint64_t n = tensor_nbytes(t);
        sb_puts(h, i ? "," : "");
        sb_put_json(h, s->tensors.at[i].name, strlen(s->tensors.at[i].name));
        sb_printf(h, ":{\"dtype\":\"%s\",\"shape\":[", dtype_file_name(t->dtype));
        for (int k = 0; k < t->rank; k++)
            sb_printf(h, "%s%lld", k ? "," : "", (long long)t->shape[k]);
        sb_printf(h, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + n));
        at += n;
    }
    sb_putc(h, '}');
    sb_pad(h, ' ', (8 - h->n % 8) % 8);     /* the data begin aligned */
}

bool safetensors_write(const SafeTensors *s, StrBuf *out, StrBuf *err)
{
    StrBuf h = {0};

    put_header(s, &h);
    for (int i = 0; i < 8; i++)
        sb_putc(out, (char)(h.n >> (8 * i)));
    sb_write(out, h.s, h.n);
    sb_done(&h);
    for (int i = 0; i < s->tensors.n; i++) {
        Tensor *c = tensor_copy(s->tensors.at[i].t);
        if (!c) {
            sb_puts(err, "not enough memory");
            return false;
        }
        sb_write(out, c->store ? storage_read(c->store) : "", tensor_nbytes(c));
        tensor_unref(c);
    }
    return true;
}

static char *copy_text(const char *s)
{
    size_t n = strlen(s) + 1;

    return memcpy(tsr_alloc(n), s, n);
}

void safetensors_add(SafeTensors *s, const char *name, Tensor *t)
{
    NamedTensor named = {copy_text(name), tensor_ref(t)};

    vec_push(&s->tensors, named);
}

void safetensors_meta(SafeTensors *s, const char *key, const char *value)
{
    MetaEntry m = {copy_text(key), copy_text(value)};

    vec_push(&s->meta, m);
}

void safetensors_done(SafeTensors *s)
{
    for (int i = 0; i < s->tensors.n; i++) {
        tsr_free(s->tensors.at[i].name);
        tensor_unref(s->tensors.at[i].t);
    }
    for (int i = 0; i < s->meta.n; i++) {
        tsr_free(s->meta.at[i].key);
        tsr_free(s->meta.at[i].value);
    }
    vec_free(&s->tensors);
    vec_free(&s->meta);
}
