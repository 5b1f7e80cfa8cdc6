/*
 * SHA-256: 64 rounds a block, the message padded with a 1 bit, zeros and its length in bits.  As the standard writes it, and by the
 * processor's instructions where it has them, which are some five times as fast: bundles are compared with their hashes when they are opened.
 */
#include "base/sha256.h"

#include <stdbool.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { SHA256_BYTES = 32 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void mix_plain(uint32_t state[static 8], const uint8_t *block)
{
    uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[i - 7] + (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
    }
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + round_constant[i] + w[i];
        uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

static void mix_all_plain(uint32_t state[static 8], const uint8_t *at, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++)
        mix_plain(state, at + 64 * i);
}

#ifdef __x86_64__
/* The instructions for it want the state as (a b e f) and (c d g h), highest first, and do two rounds each; w: the last 16 words of the message. */
__attribute__((target("sha,ssse3,sse4.1"))) static void mix_all_sha(uint32_t state[static 8], const uint8_t *at, size_t blocks)
{
    const __m128i bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b), w[4];
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);

    for (; blocks--; at += 64) {
        __m128i first = abef, second = cdgh;
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(at + 16 * i)), bytes);
        for (int i = 0; i < 16; i++) {
            __m128i now = w[i % 4], last = w[(i + 3) % 4], k = _mm_add_epi32(now, _mm_loadu_si128((const __m128i *)(round_constant + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
            now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
            w[i % 4] = _mm_sha256msg2_epu32(now, last);
        }
        abef = _mm_add_epi32(abef, first);
        cdgh = _mm_add_epi32(cdgh, second);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

static bool has_sha(void)
{
    unsigned a, b = 0, c, d;

    return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1;
}
#endif

static void mix_all(uint32_t state[static 8], const uint8_t *at, size_t blocks)
{
#ifdef __x86_64__
    static int way;                     /* 1: plain, 2: by instructions; threads that ask at once find the same */
    int known = __atomic_load_n(&way, __ATOMIC_RELAXED);

    if (!known)
        __atomic_store_n(&way, known = 1 + has_sha(), __ATOMIC_RELAXED);
    if (known == 2) {
        mix_all_sha(state, at, blocks);
        return;
    }
#endif
    mix_all_plain(state, at, blocks);
}

static void sha256(const void *p, size_t n, uint8_t out[static SHA256_BYTES])
{
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *at = p;
    uint8_t end[128] = {0};
    size_t left = n % 64, last = left < 56 ? 64 : 128;

    mix_all(h, at, n / 64);
    if (left)
        memcpy(end, at + (n - left), left);
    end[left] = 0x80;
    for (int i = 0; i < 8; i++)
        end[last - 1 - (size_t)i] = (uint8_t)((uint64_t)n * 8 >> 8 * i);
    mix_all(h, end, last / 64);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_text(const void *p, size_t n, char out[static SHA256_TEXT])
{
    uint8_t raw[SHA256_BYTES];

    sha256(p, n, raw);
    for (int i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = "0123456789abcdef"[raw[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[raw[i] & 15];
    }
    out[64] = 0;
}
