/*
 * digests.c - what hashlib knows beside SHA-256: MD5 (RFC 1321), SHA-1, SHA-384 and SHA-512 (FIPS 180-4), as the standards write them.
 *
 * All cut the message into blocks, the last with a 1 bit, zeros and the length in bits, and mix each into a state.
 */
#include "frontend/lib/lib.h"

#include <string.h>

typedef union State { uint32_t w32[8]; uint64_t w64[8]; } State;

typedef struct Digest {
    const char *name;
    State begin;
    void (*mix)(State *s, const uint8_t *block);
    int block, word, bytes;     /* of a block, of a word of the state, of the result */
    bool little;                /* words begin with their lowest byte */
} Digest;

static uint32_t load32(const uint8_t *p, bool little)
{
    return little ? (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]
                  : (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t left32(uint32_t x, int n) { return x << n | x >> (32 - n); }
static uint64_t right64(uint64_t x, int n) { return x >> n | x << (64 - n); }

/* ------------------------------------------------------------- MD5 */

/* 2**32 times |sin(1)|, |sin(2)| ... */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af,
    0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa,
    0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
    0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244, 0x432aff97,
    0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
    0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static void mix_md5(State *s, const uint8_t *block)
{
    static const uint8_t turn[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t a = s->w32[0], b = s->w32[1], c = s->w32[2], d = s->w32[3], f, next;

    for (int i = 0; i < 64; i++) {
        int round = i / 16, at = (int[]){i, 5 * i + 1, 3 * i + 5, 7 * i}[round] % 16;
        f = round == 0 ? (b & c) | (~b & d) : round == 1 ? (d & b) | (~d & c) : round == 2 ? b ^ c ^ d : c ^ (b | ~d);
        next = b + left32(a + f + sines[i] + load32(block + 4 * at, true), turn[round][i % 4]);
        a = d, d = c, c = b, b = next;
    }
    s->w32[0] += a, s->w32[1] += b, s->w32[2] += c, s->w32[3] += d;
}

/* ------------------------------------------------------------- SHA-1 */

static void mix_sha1(State *s, const uint8_t *block)
{
    static const uint32_t constant[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], a = s->w32[0], b = s->w32[1], c = s->w32[2], d = s->w32[3], e = s->w32[4], f, next;

    for (int i = 0; i < 16; i++)
        w[i] = load32(block + 4 * i, false);
    for (int i = 16; i < 80; i++)
        w[i] = left32(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        f = i / 20 == 0 ? (b & c) | (~b & d) : i / 20 == 2 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
        next = left32(a, 5) + f + e + constant[i / 20] + w[i];
        e = d, d = c, c = left32(b, 30), b = a, a = next;
    }
    s->w32[0] += a, s->w32[1] += b, s->w32[2] += c, s->w32[3] += d, s->w32[4] += e;
}

/* ------------------------------------------------------------- SHA-512 */

/* The first 64 bits of the fractional parts of the cube roots of the first 80 primes. */
static const uint64_t roots[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc, 0x3956c25bf348b538, 0x59f111f1b605d019,
    0x923f82a4af194f9b, 0xab1c5ed5da6d8118, 0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694, 0xe49b69c19ef14ad2, 0xefbe4786384f25e3,
    0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65, 0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4, 0xc6e00bf33da88fc2, 0xd5a79147930aa725,
    0x06ca6351e003826f, 0x142929670a0e6e70, 0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b, 0xa2bfe8a14cf10364, 0xa81a664bbc423001,
    0xc24b8b70d0f89791, 0xc76c51a30654be30, 0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8, 0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb,
    0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3, 0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b, 0xca273eceea26619c, 0xd186b8c721c0c207,
    0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178, 0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c, 0x4cc5d4becb3e42b6, 0x597f299cfc657e2a,
    0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

static void mix_sha512(State *s, const uint8_t *block)
{
    uint64_t w[80], a = s->w64[0], b = s->w64[1], c = s->w64[2], d = s->w64[3], e = s->w64[4], f = s->w64[5], g = s->w64[6], h = s->w64[7];

    for (int i = 0; i < 16; i++)
        w[i] = (uint64_t)load32(block + 8 * i, false) << 32 | load32(block + 8 * i + 4, false);
    for (int i = 16; i < 80; i++) {
        uint64_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (right64(x, 1) ^ right64(x, 8) ^ x >> 7) + w[i - 7] + (right64(y, 19) ^ right64(y, 61) ^ y >> 6);
    }
    for (int i = 0; i < 80; i++) {
        uint64_t t1 = h + (right64(e, 14) ^ right64(e, 18) ^ right64(e, 41)) + ((e & f) ^ (~e & g)) + roots[i] + w[i];
        uint64_t t2 = (right64(a, 28) ^ right64(a, 34) ^ right64(a, 39)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    s->w64[0] += a, s->w64[1] += b, s->w64[2] += c, s->w64[3] += d, s->w64[4] += e, s->w64[5] += f, s->w64[6] += g, s->w64[7] += h;
}

/* ------------------------------------------------------------- any of them */

static const Digest digests[] = {
    {"md5", {.w32 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}}, mix_md5, 64, 4, 16, true},
    {"sha1", {.w32 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}}, mix_sha1, 64, 4, 20, false},
    {"sha384", {.w64 = {0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
                        0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4}}, mix_sha512, 128, 8, 48, false},
    {"sha512", {.w64 = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                        0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179}}, mix_sha512, 128, 8, 64, false},
};

static void digest_of(const Digest *d, const uint8_t *p, size_t n, uint8_t *out)
{
    State s = d->begin;
    uint8_t last[256] = {0};
    size_t whole = n / (size_t)d->block * (size_t)d->block, rest = n - whole, room = (size_t)d->block / 8;
    size_t end = rest + 1 + room <= (size_t)d->block ? (size_t)d->block : 2 * (size_t)d->block;

    for (size_t at = 0; at < whole; at += (size_t)d->block)
        d->mix(&s, p + at);
    if (rest)
        memcpy(last, p + whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[d->little ? end - 8 + (size_t)i : end - 1 - (size_t)i] = (uint8_t)((uint64_t)n * 8 >> 8 * i);
    for (size_t at = 0; at < end; at += (size_t)d->block)
        d->mix(&s, last + at);
    for (int i = 0; i < d->bytes; i++) {
        int at = i % d->word, shift = 8 * (d->little ? at : d->word - 1 - at);
        out[i] = (uint8_t)(d->word == 4 ? (uint64_t)s.w32[i / 4] >> shift : s.w64[i / 8] >> shift);
    }
}

static Value h_digest(Interp *I, Value *a)              /* name, data */
{
    uint8_t out[64];

    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
        if (!strcmp(as_str(a[0])->s, digests[i].name)) {
            digest_of(&digests[i], (const uint8_t *)as_bytes(a[1])->s, as_bytes(a[1])->len, out);
            return bytes_new((const char *)out, (size_t)digests[i].bytes);
        }
    return raise(I, EXC_ValueError, "unsupported hash type %s", as_str(a[0])->s);
}

const NativeDef natives_digests[] = {
    {"_hash", "digest", h_digest, "(name: str, data: bytes, /) -> bytes", "MD5, SHA-1, SHA-384 or SHA-512."},
    {0},
};
