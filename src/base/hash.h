/* hash.h - hashing, by xxHash.  32 bits for tables, 128 for contents that are trusted to be unique. */
#ifndef TSR_BASE_HASH_H
#define TSR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct { uint64_t lo, hi; } Hash128;

uint32_t hash_bytes(const void *p, size_t n);
uint64_t hash_bytes64(const void *p, size_t n);
Hash128 hash_bytes128(const void *p, size_t n);

static inline uint32_t hash_u64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return (uint32_t)x;
}

/* A number whose hash_u64 is h. */
static inline uint64_t hash_u64_inverse(uint32_t h)
{
    uint64_t x = h * 0xcfee444d8b59a89bu;              /* the multiplier's inverse mod 2**64 */

    return x ^ x >> 32;
}

#endif
