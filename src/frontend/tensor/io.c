/*
 * Files of tensors: npy, npz, safetensors; and bytes as tensors.
 *
 * The formats themselves are the runtime's; here are paths, exceptions and the
 * promise that a file is replaced whole or not at all.
 */
#include "base/vfs.h"
#include "frontend/eval/native.h"
#include "frontend/lib/lib.h"
#include "frontend/tensor/bind.h"
#include "frontend/tensor/tensor_ops.h"
#include "runtime/convert.h"
#include "runtime/npz.h"
#include "runtime/safetensors.h"

#include <string.h>

enum { FILE_MAX_BYTES_SHIFT = 40 };     /* files beyond a terabyte are refused */

static const char *path_of(Value v)
{
    return as_str(unwrap_base(v))->s;
}

/* false: a TypeError is pending. */
static bool is_path(Interp *I, Value v)
{
    return need_str(I, v, "the path") != NULL;
}

static bool is_dict(Interp *I, Value v)
{
    if (v.tag != V_DICT)
        raise(I, EXC_TypeError, "a dict of tensors is saved, not %s", value_type_name(v));
    return v.tag == V_DICT;
}

static bool read_file(Interp *I, Value path, char **data, size_t *n)
{
    int err = is_path(I, path) ? vfs_read_file(path_of(path), (size_t)1 << FILE_MAX_BYTES_SHIFT, data, n) : -1;

    if (err > 0)
        raise_errno(I, err, path_of(path));
    return !err;
}

static Value write_bytes(Interp *I, Value path, const StrBuf *b)
{
    int err = vfs_write_atomic(path_of(path), b->n ? b->s : "", b->n);

    return err ? raise_errno(I, err, path_of(path)) : VNONE;
}

/* "path: reason" as a ValueError; empties err. */
static Value raise_format(Interp *I, Value path, StrBuf *err)
{
    Value v = raise(I, EXC_ValueError, "%s: %s", path_of(path), sb_str(err));

    sb_done(err);
    return v;
}

/* The concrete tensor of a value, borrowed; NULL: a TypeError or ValueError is pending. */
static Tensor *stored_tensor(Interp *I, Value v)
{
    Tensor *t;

    if (v.tag != V_TENSOR) {
        raise(I, EXC_TypeError, "only tensors can be saved, not %s", value_type_name(v));
        return NULL;
    }
    t = tensor_concrete(as_tensor(v));
    if (!t)
        raise(I, EXC_ValueError, "a staged tensor has no value to save");
    return t;
}

static Value load_npy(Interp *I, Value *a)
{
    char *data;
    size_t n;
    StrBuf err = {0};
    Tensor *t = NULL;
    bool ok;

    if (!read_file(I, a[0], &data, &n))
        return VERR;
    ok = npy_read(data, n, &t, &err);
    tsr_free(data);
    if (!ok)
        return raise_format(I, a[0], &err);
    sb_done(&err);
    return tensor_value(t);
}

static Value save_npy(Interp *I, Value *a)
{
    StrBuf out = {0}, err = {0};
    Tensor *t = is_path(I, a[0]) ? stored_tensor(I, a[1]) : NULL;
    Value v;

    if (!t)
        return VERR;
    v = npy_write(t, &out, &err) ? write_bytes(I, a[0], &out) : raise_format(I, a[0], &err);
    sb_done(&out);
    sb_done(&err);
    return v;
}

/* dict[name] = t; takes a reference of its own. */
static void put_named(Value dict, const char *name, Tensor *t)
{
    Value v = tensor_value(tensor_ref(t));

    dict_set_sym(as_dict(dict), sym(name), v);
    value_unref(v);
}

static Value load_npz(Interp *I, Value *a)
{
    char *data;
    size_t n;
    StrBuf err = {0};
    Npz z = {0};
    bool ok;
    Value d;

    if (!read_file(I, a[0], &data, &n))
        return VERR;
    ok = npz_read(data, n, &z, &err);
    tsr_free(data);
    if (!ok)
        return raise_format(I, a[0], &err);
    d = dict_new();
    for (int i = 0; i < z.n; i++)
        put_named(d, z.at[i].name, z.at[i].t);
    npz_free(&z);
    sb_done(&err);
    return d;
}

/* Collect the tensors of a dict with string keys. false: an exception is pending. */
static bool collect(Interp *I, Value dict, SafeTensors *s)
{
    int64_t pos = 0;
    Value k, v;

    while (dict_next(as_dict(dict), &pos, &k, &v)) {
        Tensor *t;
        if (k.tag != V_STR) {
            raise(I, EXC_TypeError, "names of saved tensors are strings, not %s", value_type_name(k));
            return false;
        }
        t = stored_tensor(I, v);
        if (!t)
            return false;
        safetensors_add(s, as_str(k)->s, t);
    }
    return true;
}

static Value save_npz(Interp *I, Value *a)
{
    SafeTensors s = {0};
    StrBuf out = {0}, err = {0};
    Value v = VERR;

    if (is_path(I, a[0]) && is_dict(I, a[1]) && collect(I, a[1], &s)) {
        Vec(NpzEntry) e = {0};
        for (int i = 0; i < s.tensors.n; i++)
            vec_push(&e, ((NpzEntry){s.tensors.at[i].name, s.tensors.at[i].t}));
        v = npz_write(e.at, e.n, &out, &err) ? write_bytes(I, a[0], &out) : raise_format(I, a[0], &err);
        vec_free(&e);
    }
    safetensors_done(&s);
    sb_done(&out);
    sb_done(&err);
    return v;
}

static bool collect_meta(Interp *I, Value meta, SafeTensors *s)
{
    int64_t pos = 0;
    Value k, v;

    while (meta.tag == V_DICT && dict_next(as_dict(meta), &pos, &k, &v)) {
        if (k.tag != V_STR || v.tag != V_STR) {
            raise(I, EXC_TypeError, "metadata maps strings to strings");
            return false;
        }
        safetensors_meta(s, as_str(k)->s, as_str(v)->s);
    }
    return true;
}

static Value save_safetensors(Interp *I, Value *a)
{
    SafeTensors s = {0};
    StrBuf out = {0}, err = {0};
    Value v = VERR;

    if (is_path(I, a[0]) && is_dict(I, a[1]) && collect(I, a[1], &s) && collect_meta(I, a[2], &s))
        v = safetensors_write(&s, &out, &err) ? write_bytes(I, a[0], &out) : raise_format(I, a[0], &err);
    safetensors_done(&s);
    sb_done(&out);
    sb_done(&err);
    return v;
}

static Value load_safetensors(Interp *I, Value *a)
{
    char *data;
    size_t n;
    StrBuf err = {0};
    SafeTensors s;
    Value tensors, meta;
    bool ok;

    if (!read_file(I, a[0], &data, &n))
        return VERR;
    ok = safetensors_read(data, n, &s, &err);
    tsr_free(data);
    if (!ok)
        return raise_format(I, a[0], &err);
    tensors = dict_new();
    meta = dict_new();
    for (int i = 0; i < s.tensors.n; i++)
        put_named(tensors, s.tensors.at[i].name, s.tensors.at[i].t);
    for (int i = 0; i < s.meta.n; i++) {
        Value t = str_c(s.meta.at[i].value);
        dict_set_sym(as_dict(meta), sym(s.meta.at[i].key), t);
        value_unref(t);
    }
    safetensors_done(&s);
    sb_done(&err);
    return tuple_of(2, tensors, meta);
}

/* Sizes of a shape given as a list or tuple of ints; -1: pending. */
static int shape_of(Interp *I, Value v, Dim *shape)
{
    Value l = value_to_list(I, v);
    int n;

    if (is_err(l))
        return -1;
    n = (int)as_list(l)->n;
    if (as_list(l)->n > RANK_MAX) {
        raise(I, EXC_ValueError, "a tensor has at most %d axes, not %lld", RANK_MAX, (long long)as_list(l)->n);
        n = -1;
    }
    for (int i = 0; i < n; i++) {
        if (value_as_int(I, as_list(l)->at[i], &shape[i]) && shape[i] >= 0)
            continue;
        if (!exc_pending(I))
            raise(I, EXC_ValueError, "a size cannot be negative: %lld", (long long)shape[i]);
        n = -1;
    }
    value_unref(l);
    return n;
}

static void reverse_elements(char *p, size_t width, size_t n)
{
    for (size_t i = 0; i < n; i++, p += width)
        for (size_t k = 0; k < width / 2; k++) {
            char c = p[k];
            p[k] = p[width - 1 - k];
            p[width - 1 - k] = c;
        }
}

static Value tensor_from_bytes(Interp *I, Value *a)
{
    BytesObj *b = (BytesObj *)a[0].o;
    DType dtype = DT_f32;
    Dim shape[RANK_MAX];
    bool told = a[0].tag == V_BYTES && a[3].tag == V_STR;
    int rank = !told ? -1 : arg_dtype(I, a[1], &dtype) ? shape_of(I, a[2], shape) : -1;
    bool big = told && !strcmp(as_str(a[3])->s, "big");
    size_t width, n;
    int64_t count;
    Tensor *t;

    if (!told)
        return raise(I, EXC_TypeError, "tensor_from_bytes takes bytes, and the byte order as a str");
    if (rank < 0)
        return VERR;
    if (!big && strcmp(as_str(a[3])->s, "little"))
        return raise(I, EXC_ValueError, "byteorder is 'little' or 'big', not '%s'", as_str(a[3])->s);
    if (!shape_elements(rank, shape, &count))
        return raise(I, EXC_ValueError, "a tensor cannot have that many elements");
    n = (size_t)count;
    width = dtype_info[dtype].sbits / 8;
    if (dtype_nbytes(dtype, n) != b->len)
        return raise(I, EXC_ValueError, "%u bytes given, but the shape asks for %zu", b->len, dtype_nbytes(dtype, n));
    t = tensor_new(dtype, rank, shape);
    if (!t)
        return raise(I, EXC_MemoryError, "not enough memory for %u bytes", b->len);
    if (b->len)
        memcpy(storage_data(t->store), b->s, b->len);
    if (dtype == DT_bool)
        bools_from_bytes(storage_data(t->store), (int64_t)n);
    if (big && width > 1)
        reverse_elements(storage_data(t->store), dtype_is_complex(dtype) ? width / 2 : width, dtype_is_complex(dtype) ? 2 * n : n);
    return tensor_value(t);
}

static Value tensor_tobytes(Interp *I, Value *a)
{
    Tensor *t = stored_tensor(I, a[0]), *c;
    Value b;
    size_t n;

    if (!t)
        return VERR;
    n = tensor_nbytes(t);
    c = n > UINT32_MAX ? NULL : tensor_copy(t);
    if (!c)
        return raise(I, EXC_MemoryError, "not enough memory for %zu bytes", n);
    b = bytes_new(c->store ? storage_read(c->store) : "", n);
    tensor_unref(c);
    return b;
}

static Value write_file(Interp *I, Value *a)
{
    const char *p;
    size_t n;
    int err;

    if (!is_path(I, a[0]))
        return VERR;
    if (a[1].tag == V_STR) {
        p = as_str(a[1])->s;
        n = as_str(a[1])->len;
    } else if (a[1].tag != V_BYTES) {
        return raise(I, EXC_TypeError, "a text or bytes are written, not %s", value_type_name(a[1]));
    } else {
        p = ((BytesObj *)a[1].o)->s;
        n = ((BytesObj *)a[1].o)->len;
    }
    err = vfs_write_atomic(path_of(a[0]), p, n);
    return err ? raise_errno(I, err, path_of(a[0])) : VNONE;
}

const NativeDef tensor_io_natives[] = {
    {"", "load_npy", load_npy, "(path: str) -> Tensor",
     "The tensor of a .npy file (NumPy's format).\nRaises OSError, or ValueError when it is damaged."},
    {"", "save_npy", save_npy, "(path: str, x: Tensor) -> None", "Write one tensor as a .npy file, whole or not at all."},
    {"", "load_npz", load_npz, "(path: str) -> dict[str, Tensor]",
     "The named tensors of a .npz file.\nRaises OSError, or ValueError when it is damaged."},
    {"", "save_npz", save_npz, "(path: str, tensors: dict) -> None", "Write named tensors as a .npz file, whole or not at all."},
    {"", "load_safetensors", load_safetensors, "(path: str) -> tuple[dict, dict]",
     "(tensors by name, metadata) of a safetensors file.\nRaises OSError, or ValueError when it is damaged."},
    {"", "save_safetensors", save_safetensors, "(path: str, tensors: dict, metadata: dict | None = None) -> None",
     "Write named tensors and a dict of strings as a safetensors file, whole or not at all."},
    {"", "tensor_from_bytes", tensor_from_bytes,
     "(data: bytes, dtype: DType, shape: list | tuple, byteorder: str = 'little') -> Tensor",
     "A tensor from its packed row-major elements.\nRaises ValueError when the length does not fit dtype and shape."},
    {"Tensor", "tobytes", tensor_tobytes, "(self) -> bytes", "The packed row-major elements, little-endian."},
    {"", "write_file", write_file, "(path: str, data: str | bytes) -> None",
     "Replace a file by this text or these bytes, whole or not at all (temporary file, sync, rename)."},
    {0},
};
