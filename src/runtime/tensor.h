/*
 * tensor.h - tensors: a dtype, a shape, strides into counted storage.
 *
 * Letters: r rank, n elements.  Strides and offsets count elements, also for
 * packed dtypes.  A tensor is a value: whoever wants to write calls
 * tensor_own first, which copies unless the reference is the only one.
 * A tensor with `tracer` set has no storage: it stands for a value that a
 * transformation follows (ir/graph/trace.h); its sizes may then be symbolic.
 */
#ifndef TSR_RUNTIME_TENSOR_H
#define TSR_RUNTIME_TENSOR_H

#include "ir/core/dim.h"
#include "ir/core/dtype.h"

#include "base/strbuf.h"

enum { RANK_MAX = 16, RANK_INLINE = 6 };

/* Why `data` is not simply there: storage.h. A storage that never was on a GPU of the driver's has 0. */
enum { AWAY_READ = 1, AWAY_WRITE = 2 };

typedef struct Storage {
    uint32_t refs;
    uint32_t device;            /* where it is: mesh.h */
    size_t nbytes;
    void *data;                 /* on the host, 64-byte aligned; taken through storage_read and storage_data alone */
    uint64_t remote;            /* on a GPU; 0: it has no room there */
    int16_t gpu;                /* which, while remote is not 0 */
    uint8_t away;               /* AWAY_READ: the host's bytes are stale, or have no room; AWAY_WRITE: a GPU's are those, too */
    uint8_t valid;              /* are the GPU's bytes those of the storage? */
    uint8_t blank;              /* of a GPU, not valid: zeros that nobody has written yet, and nobody will if all are written first */
    uint8_t apart;              /* has its host memory apart, once it has any */
    uint8_t space;              /* the memory that the program says it is in: tensor_spaces; 0: the device's own */
    struct StoragePool *pool;   /* where its memory is from; NULL: the system */
    uint64_t used;              /* the op that used its room on a GPU last, by storage_op */
    size_t seen;                /* of a GPU's bytes: what parts of them that the host has read have cost (resident.c) */
} Storage;

/* storage.h: bring the bytes to the host; to be written there: the GPU's become stale. */
void storage_bring(Storage *s, bool write);

/* Its bytes on the host, to be read. */
static inline const char *storage_read(const Storage *s)
{
    if (__builtin_expect(__atomic_load_n(&s->away, __ATOMIC_ACQUIRE) & AWAY_READ, 0))
        storage_bring((Storage *)s, false);
    return s->data;
}

/* The same, to be read and written. */
static inline char *storage_data(Storage *s)
{
    if (__builtin_expect(__atomic_load_n(&s->away, __ATOMIC_ACQUIRE), 0))
        storage_bring(s, true);
    return s->data;
}

typedef struct Tensor {
    uint32_t refs;
    uint8_t dtype, rank;
    uint8_t contiguous;         /* row-major without gaps */
    uint8_t weak;               /* made from a Python scalar: adopts the other operand's dtype */
    const Policy *policy;
    Storage *store;             /* NULL while traced */
    int64_t offset;
    Dim *shape;                 /* r sizes */
    int64_t *stride;
    struct Tracer *tracer;      /* NULL: concrete */
    Dim dims_[RANK_INLINE];
    int64_t strides_[RANK_INLINE];
} Tensor;

/* NULL: no memory, or more than 2^63 bytes. Elements are not initialised. */
Tensor *tensor_new(DType dt, int rank, const Dim *shape);
Tensor *tensor_zeros(DType dt, int rank, const Dim *shape);                        /* the same, of zeros */
Tensor *tensor_abstract(DType dt, int rank, const Dim *shape, struct Tracer *tr);  /* steals tr */
extern void (*tensor_tracer_free)(struct Tracer *tr);   /* set by ir/graph; called with the tracer of a dying tensor */
/* Shares base's storage, which it keeps alive; offset is from the storage's beginning, and nothing is checked against its size. */
Tensor *tensor_view(Tensor *base, int rank, const Dim *shape, const int64_t *stride, int64_t offset);
Tensor *tensor_scalar_f(DType dt, double v);            /* 0-d, rounded to dt; NULL: no memory */
Tensor *tensor_scalar_i(DType dt, int64_t v);
Tensor *tensor_ref(Tensor *t);                          /* t, with one owner more */
void tensor_unref(Tensor *t);                           /* NULL allowed */
/* Elements of a concrete shape. false: they are more than 2^56, sizes of 0 left out (so that no step overflows). */
bool shape_elements(int rank, const Dim *shape, int64_t *n);
int64_t tensor_size(const Tensor *t);                   /* elements; concrete sizes only */
size_t tensor_nbytes(const Tensor *t);                  /* packed bytes of its elements */
Tensor *tensor_contiguous(Tensor *t);                   /* itself (a new reference) or a row-major copy; NULL: no memory */
/* Make *t the only owner of its elements, copying if it is not. false: no memory. */
bool tensor_own(Tensor **t);
/* Row by row in memory that nobody else has, and known to one owner. */
static inline bool tensor_is_own(const Tensor *t)
{
    return t->refs == 1 && t->store && t->store->refs == 1 && t->contiguous && t->offset == 0;
}
Tensor *tensor_copy(const Tensor *t);                   /* a fresh row-major copy, on the same device; of the host's where new tensors are made */
bool tensor_same_bits(const Tensor *a, const Tensor *b);/* equal shape, dtype and element bits (NaNs included) */

/* Element access, slow and general, of concrete tensors: brings them to the host. `at` counts elements of the storage: strides are the caller's. */
double elem_get_f(const Tensor *t, int64_t at);         /* of a complex one the real part */
int64_t elem_get_i(const Tensor *t, int64_t at);        /* as conversion to int64 does: towards zero */
void elem_set_f(Tensor *t, int64_t at, double v);       /* rounds to nearest */
void elem_set_i(Tensor *t, int64_t at, int64_t v);
void elem_get_c(const Tensor *t, int64_t at, double *re, double *im);
void elem_set_c(Tensor *t, int64_t at, double re, double im);
/* Its first element on the host, to be written or only to be read. */
static inline void *tensor_data(const Tensor *t) { return storage_data(t->store) + t->offset * (dtype_info[t->dtype].sbits / 8); }
static inline const void *tensor_read(const Tensor *t) { return storage_read(t->store) + t->offset * (dtype_info[t->dtype].sbits / 8); }

/* dst[...] = src, converting; shapes equal, dst owned (tensor_own). Where both are on one GPU, there. */
void tensor_assign(Tensor *dst, const Tensor *src);

/* "Tensor([[1.0, 2.0]], shape=(1, 2), dtype=f32)" as language.md fixes; `str` form of a 0-d likewise. */
void tensor_print(const Tensor *t, StrBuf *out);
void tensor_print_element(const Tensor *t, int64_t at, StrBuf *out);     /* the element with that number, as it prints among others */
void elem_print(DType dt, double v, StrBuf *out);       /* fewest digits that read back the same in dt */

/* npy. On failure a one-line reason in err (no path in it). */
bool npy_read(const void *data, size_t n, Tensor **out, StrBuf *err);      /* a new tensor; data is the whole file */
bool npy_write(const Tensor *t, StrBuf *out, StrBuf *err);

#endif
