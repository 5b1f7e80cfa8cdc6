/*
 * safetensors.h - named tensors in one file: the safetensors format.
 *
 * Eight bytes of header length, a JSON header {"name": {"dtype", "shape",
 * "data_offsets"}, "__metadata__": {string: string}}, then the elements,
 * little-endian and row-major.  dtypes that the format does not name (int4,
 * uint4, fp4, fp6, tf32, complex) are written under our own names.
 */
#ifndef TSR_RUNTIME_SAFETENSORS_H
#define TSR_RUNTIME_SAFETENSORS_H

#include "base/strbuf.h"
#include "base/vec.h"
#include "runtime/tensor.h"

enum { SAFETENSORS_HEADER_MAX = 16 << 20, SAFETENSORS_COUNT_MAX = 65536 };

typedef struct NamedTensor { char *name; Tensor *t; } NamedTensor;      /* both owned */
typedef struct MetaEntry { char *key, *value; } MetaEntry;              /* both owned */

typedef struct SafeTensors {
    Vec(NamedTensor) tensors;       /* in the order of the file */
    Vec(MetaEntry) meta;
} SafeTensors;

/* Parse a whole file. false: err has one line (without the path); *out is empty then. */
bool safetensors_read(const void *data, size_t n, SafeTensors *out, StrBuf *err);

/* Append the file's bytes. Tensors may have any strides. false: err says why. */
bool safetensors_write(const SafeTensors *s, StrBuf *out, StrBuf *err);

void safetensors_add(SafeTensors *s, const char *name, Tensor *t);      /* takes a reference */
void safetensors_meta(SafeTensors *s, const char *key, const char *value);
void safetensors_done(SafeTensors *s);

#endif
