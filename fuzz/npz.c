/*
 * npz.c - any bytes, read as a .npz archive.
 *
 * What reads must write and read back the same; what does not gives a reason.
 * Half of the changes happen inside the first member, whose checksums are then
 * made true again: else all of them would end at the checksum.
 */
#include "targets.h"

#include "runtime/npz.h"

#include <zlib.h>

static void write_back(const Npz *z)
{
    StrBuf err = {0}, out = {0};
    Npz again;

    if (!npz_write(z->at, z->n, &out, &err) || !npz_read(out.s, out.n, &again, &err))
        tsr_bug("what was read cannot be written and read: %s", sb_str(&err));
    if (again.n != z->n)
        tsr_bug("written and read back: %d members for %d", again.n, z->n);
    for (int i = 0; i < z->n; i++)
        if (strcmp(z->at[i].name, again.at[i].name) || !tensor_same_bits(z->at[i].t, again.at[i].t))
            tsr_bug("written and read back: another '%s'", z->at[i].name);
    npz_free(&again);
    sb_done(&err);
    sb_done(&out);
}

void fuzz_npz(const uint8_t *data, size_t n)
{
    StrBuf err = {0};
    Npz z;

    if (npz_read(data, n, &z, &err)) {
        write_back(&z);
        npz_free(&z);
    } else if (!err.n) {
        tsr_bug("refused without a reason");
    }
    sb_done(&err);
}

/* ------------------------------------------------------------- changes */

enum { LOCAL = 30, LOCAL_CRC = 14, LOCAL_SIZE = 18, LOCAL_NAME = 26, LOCAL_EXTRA = 28, CENTRAL_CRC = 16 };

static uint32_t get(const uint8_t *p, int bytes)
{
    uint32_t v = 0;

    memcpy(&v, p, (size_t)bytes);
    return v;
}

/* Change the stored bytes of the first member, keeping their number; false: there are none. */
static bool change_member(uint8_t *data, size_t n)
{
    size_t at, size, now;
    uint8_t *central;
    uint32_t sum;

    if (n < LOCAL || memcmp(data, "PK\3\4", 4))
        return false;
    at = LOCAL + get(data + LOCAL_NAME, 2) + get(data + LOCAL_EXTRA, 2);
    size = get(data + LOCAL_SIZE, 4);
    if (!size || at > n || size > n - at)
        return false;
    now = LLVMFuzzerMutate(data + at, size, size);
    memset(data + at + now, 0, size - now);
    sum = (uint32_t)crc32(0, data + at, (uInt)size);
    memcpy(data + LOCAL_CRC, &sum, 4);
    central = memmem(data + at + size, n - at - size, "PK\1\2", 4);
    if (central && central + CENTRAL_CRC + 4 <= data + n)
        memcpy(central + CENTRAL_CRC, &sum, 4);
    return true;
}

size_t change_npz(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    return seed % 2 && change_member(data, n) ? n : LLVMFuzzerMutate(data, n, max);
}
