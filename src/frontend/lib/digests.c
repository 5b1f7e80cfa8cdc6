/*
 * digests.c - what hashlib knows beside SHA-256, by libmd: MD5 (RFC 1321), SHA-1, SHA-384 and SHA-512 (FIPS 180-4).
 */
#include "frontend/lib/lib.h"

#include <md5.h>
#include <sha1.h>
#include <sha2.h>
#include <string.h>

typedef union Context { MD5_CTX md5; SHA1_CTX sha1; SHA2_CTX sha2; } Context;

typedef struct Digest {
    const char *name;
    size_t bytes;
    void (*of)(const uint8_t *p, size_t n, uint8_t *out);
} Digest;

/* A function that hashes all of n bytes with libmd's three functions for an algorithm. */
#define DIGEST(name, Algorithm, context)                                   \
    static void name##_of(const uint8_t *p, size_t n, uint8_t *out)        \
    {                                                                      \
        Context c;                                                         \
                                                                           \
        Algorithm##Init(&c.context);                                       \
        Algorithm##Update(&c.context, p, n);                               \
        Algorithm##Final(out, &c.context);                                 \
    }
DIGEST(md5, MD5, md5)
DIGEST(sha1, SHA1, sha1)
DIGEST(sha384, SHA384, sha2)
DIGEST(sha512, SHA512, sha2)

static const Digest digests[] = {
    {"md5", MD5_DIGEST_LENGTH, md5_of},
    {"sha1", SHA1_DIGEST_LENGTH, sha1_of},
    {"sha384", SHA384_DIGEST_LENGTH, sha384_of},
    {"sha512", SHA512_DIGEST_LENGTH, sha512_of},
};

static Value h_digest(Interp *I, Value *a)              /* name, data */
{
    uint8_t out[SHA512_DIGEST_LENGTH];

    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
        if (!strcmp(as_str(a[0])->s, digests[i].name)) {
            digests[i].of((const uint8_t *)as_bytes(a[1])->s, as_bytes(a[1])->len, out);
            return bytes_new((const char *)out, digests[i].bytes);
        }
    return raise(I, EXC_ValueError, "unsupported hash type %s", as_str(a[0])->s);
}

const NativeDef natives_digests[] = {
    {"_hash", "digest", h_digest, "(name: str, data: bytes, /) -> bytes", "MD5, SHA-1, SHA-384 or SHA-512."},
    {0},
};
