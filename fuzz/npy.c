/*
 * npy.c - any bytes, read as npy, npz and safetensors.
 *
 * What reads must write and read back the same; what does not gives a reason.
 */
#include "runtime/npz.h"
#include "runtime/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void try_npy(const uint8_t *data, size_t n)
{
    StrBuf err = {0}, out = {0};
    Tensor *t, *u;

    if (npy_read(data, n, &t, &err)) {
        if (!npy_write(t, &out, &err) || !npy_read(out.s, out.n, &u, &err) || !tensor_same_bits(t, u))
            abort();
        tensor_unref(t);
        tensor_unref(u);
    } else if (!err.n) {
        abort();
    }
    sb_done(&err);
    sb_done(&out);
}

static void try_npz(const uint8_t *data, size_t n)
{
    StrBuf err = {0};
    Npz z;

    if (npz_read(data, n, &z, &err))
        npz_free(&z);
    else if (!err.n)
        abort();
    sb_done(&err);
}

static void try_safetensors(const uint8_t *data, size_t n)
{
    StrBuf err = {0};
    SafeTensors s;

    if (safetensors_read(data, n, &s, &err))
        safetensors_done(&s);
    else if (!err.n)
        abort();
    sb_done(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    try_npy(data, n);
    try_npz(data, n);
    try_safetensors(data, n);
    return 0;
}
