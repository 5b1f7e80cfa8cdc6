/*
 * philox.h - Philox4x32-10: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
 * Counter-based: word w of block (key, counter) is a pure function, so draws need no order.
 */
#ifndef TSR_RUNTIME_PHILOX_H
#define TSR_RUNTIME_PHILOX_H

#include <stdint.h>

typedef struct Philox { uint32_t w[4]; } Philox;

static inline Philox philox(uint64_t key, uint64_t lo, uint64_t hi)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * c0, q = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)q;
        c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (Philox){{c0, c1, c2, c3}};
}

#endif
