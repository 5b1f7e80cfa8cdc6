/*
 * npy.c - any bytes, read as a .npy file.
 *
 * What reads must write and read back the same; what does not gives a reason.
 * Half of the changes keep the header's length field in agreement with the header.
 */
#include "targets.h"

#include "runtime/tensor.h"

void fuzz_npy(const uint8_t *data, size_t n)
{
    StrBuf err = {0}, out = {0};
    Tensor *t, *u;

    if (npy_read(data, n, &t, &err)) {
        if (!npy_write(t, &out, &err) || !npy_read(out.s, out.n, &u, &err) || !tensor_same_bits(t, u))
            tsr_bug("written and read back: another tensor: %s", sb_str(&err));
        tensor_unref(t);
        tensor_unref(u);
    } else if (!err.n) {
        tsr_bug("refused without a reason");
    }
    sb_done(&err);
    sb_done(&out);
}

enum { START = 10 };            /* magic, version, two bytes of length */

size_t change_npy(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    const uint8_t *end;

    n = LLVMFuzzerMutate(data, n, max);
    end = n > START ? memchr(data + START, '\n', n - START) : NULL;
    if (seed % 2 && end) {
        size_t len = (size_t)(end + 1 - data) - START;
        memcpy(data, "\x93NUMPY\x01\x00", 8);
        data[8] = (uint8_t)len;
        data[9] = (uint8_t)(len >> 8);
    }
    return n;
}
