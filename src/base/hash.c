/* The only file that sees xxHash. */
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint32_t hash_bytes(const void *p, size_t n)
{
    return (uint32_t)XXH3_64bits(p, n);
}

uint64_t hash_bytes64(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}

Hash128 hash_bytes128(const void *p, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(p, n);

    return (Hash128){h.low64, h.high64};
}
