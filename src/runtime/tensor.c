/*
 * Tensors: headers, views and ownership.  Elements are read and written in
 * elem.c, and moved in bulk in reader.c.
 *
 * Headers are small and made for every op, so freed ones wait in a list.
 */
#include "runtime/tensor.h"

#include "base/alloc.h"
#include "runtime/cuda.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

#include <string.h>

void (*tensor_tracer_free)(struct Tracer *);

enum { SPARE_MAX = 256 };
static Tensor *spare;                   /* free headers, linked through `shape` */
static int nspare;

static Tensor *header_new(DType dt, int rank)
{
    Tensor *t = spare;

    if (t) {
        spare = (Tensor *)(void *)t->shape;
        nspare--;
    } else {
        t = tsr_alloc(sizeof *t);
    }
    memset(t, 0, sizeof *t);
    t->refs = 1;
    t->dtype = (uint8_t)dt;
    t->rank = (uint8_t)rank;
    t->shape = t->dims_;
    t->stride = t->strides_;
    if (rank > RANK_INLINE) {
        t->shape = tsr_alloc(2 * RANK_MAX * sizeof *t->shape);
        t->stride = t->shape + RANK_MAX;
    }
    return t;
}

static void header_free(Tensor *t)
{
    if (t->shape != t->dims_)
        tsr_free(t->shape);
    if (nspare == SPARE_MAX) {
        tsr_free(t);
        return;
    }
    t->shape = (Dim *)(void *)spare;
    spare = t;
    nspare++;
}

bool shape_elements(int rank, const Dim *shape, int64_t *out)
{
    int64_t n = 1;
    bool empty = false;

    for (int i = 0; i < rank; i++) {
        empty |= shape[i] == 0;
        if (shape[i] && (__builtin_mul_overflow(n, shape[i], &n) || n > (int64_t)1 << 56))
            return false;
    }
    *out = empty ? 0 : n;
    return true;
}

/* memcpy that takes NULL for no sizes. */
static void copy_sizes(int64_t *to, const int64_t *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = from[i];
}

static void set_row_major(Tensor *t)
{
    int64_t step = 1;

    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = step;
        step *= t->shape[i] > 0 ? t->shape[i] : 1;
    }
    t->contiguous = true;
}

Tensor *tensor_new(DType dt, int rank, const Dim *shape)
{
    int64_t n;
    Storage *s;

    if (rank > RANK_MAX || !shape_elements(rank, shape, &n))
        return NULL;
    s = storage_new(dtype_nbytes(dt, (size_t)n));
    if (!s)
        return NULL;
    Tensor *t = header_new(dt, rank);
    copy_sizes(t->shape, shape, rank);
    set_row_major(t);
    t->store = s;
    return t;
}

Tensor *tensor_zeros(DType dt, int rank, const Dim *shape)
{
    Tensor *t = tensor_new(dt, rank, shape);

    if (t)
        storage_zero(t->store);
    return t;
}

Tensor *tensor_abstract(DType dt, int rank, const Dim *shape, struct Tracer *tr)
{
    Tensor *t = header_new(dt, rank);

    copy_sizes(t->shape, shape, rank);
    t->tracer = tr;
    return t;
}

static bool is_row_major(const Tensor *t)
{
    int64_t step = 1;

    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] == 0)
            return true;
        if (t->shape[i] != 1 && t->stride[i] != step)
            return false;
        step *= t->shape[i];
    }
    return true;
}

Tensor *tensor_view(Tensor *base, int rank, const Dim *shape, const int64_t *stride, int64_t offset)
{
    Tensor *t = header_new(base->dtype, rank);

    copy_sizes(t->shape, shape, rank);
    copy_sizes(t->stride, stride, rank);
    t->offset = offset;
    t->store = storage_ref(base->store);
    t->policy = base->policy;
    t->weak = base->weak;
    /* packed elements that start inside a byte are no plain row: copy before raw access */
    bool aligned = dtype_info[base->dtype].sbits % 8 == 0 || offset % 4 == 0;
    t->contiguous = aligned && is_row_major(t);
    return t;
}

Tensor *tensor_scalar_f(DType dt, double v)
{
    Tensor *t = tensor_new(dt, 0, NULL);

    if (t)
        elem_set_f(t, 0, v);
    return t;
}

Tensor *tensor_scalar_i(DType dt, int64_t v)
{
    Tensor *t = tensor_new(dt, 0, NULL);

    if (t)
        elem_set_i(t, 0, v);
    return t;
}

Tensor *tensor_ref(Tensor *t)
{
    t->refs++;
    return t;
}

void tensor_unref(Tensor *t)
{
    if (!t || --t->refs)
        return;
    storage_unref(t->store);
    if (t->tracer && tensor_tracer_free)
        tensor_tracer_free(t->tracer);
    header_free(t);
}

int64_t tensor_size(const Tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

size_t tensor_nbytes(const Tensor *t)
{
    return dtype_nbytes(t->dtype, (size_t)tensor_size(t));
}

/* Rows of bytes go between devices, and on one, without a look at their elements. */
static bool copied_far(Tensor *to, const Tensor *from)
{
    size_t at = (size_t)from->offset * dtype_info[from->dtype].sbits / 8;

    return (to->store->away | from->store->away) && from->contiguous && storage_copy_far(to->store, 0, from->store, at, to->store->nbytes);
}

static Tensor *copy_on(const Tensor *t, int device)
{
    int was = device_now;
    Tensor *c;

    device_now = device;
    c = tensor_new(t->dtype, t->rank, t->shape);
    device_now = was;
    if (!c)
        return NULL;
    c->policy = t->policy;
    c->weak = t->weak;
    if (!copied_far(c, t))
        tensor_assign(c, t);
    return c;
}

Tensor *tensor_copy(const Tensor *t) { return copy_on(t, t->store->device ? (int)t->store->device : device_now); }

bool tensor_on(Tensor **t, int device)
{
    Tensor *c;

    if ((*t)->tracer || (*t)->store->device == (uint32_t)device)
        return true;
    devices_used |= device != 0;
    c = copy_on(*t, device);
    if (!c || fault_kept) {
        tensor_unref(c);
        return false;
    }
    tensor_unref(*t);
    *t = c;
    return true;
}

Tensor *tensor_contiguous(Tensor *t)
{
    return t->contiguous ? tensor_ref(t) : tensor_copy(t);
}

bool tensor_own(Tensor **t)
{
    Tensor *c;

    if ((*t)->refs == 1 && (*t)->store->refs == 1)
        return true;
    c = tensor_copy(*t);
    if (!c)
        return false;
    tensor_unref(*t);
    *t = c;
    return true;
}
