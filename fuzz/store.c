/*
 * store.c - any bytes, read as an entry of the kernel cache: what is accepted is what packing writes.  The checksum is
 * also put right, as chance hardly ever does.
 */
#include "targets.h"

#include "runtime/store.h"

static void read_entry(const char *file, size_t n)
{
    static const Hash128 key = {7, 8};
    StrBuf again = {0};
    size_t size;
    const char *object = store_unpack(key, file, n, &size);

    if (object)
        store_pack(key, object, size, &again);
    if (object && (again.n != n || memcmp(again.s, file, n)))
        tsr_bug("an entry that is not what packing writes");
    sb_done(&again);
}

void fuzz_store(const uint8_t *data, size_t n)
{
    enum { SUM = 8, REST = 24 };
    char *file = tsr_alloc(n + 1);
    Hash128 sum;

    memcpy(file, data, n);
    read_entry(file, n);
    if (n >= REST) {
        sum = hash_bytes128(file + REST, n - REST);
        memcpy(file + SUM, &sum, REST - SUM);
        read_entry(file, n);
    }
    tsr_free(file);
}
