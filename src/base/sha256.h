/*
 * sha256.h - SHA-256 (FIPS 180-4), for what must be the same tomorrow and on
 * another machine: texts of programs' graphs, keys of caches on disk.  Tables use hash.h.
 */
#ifndef TSR_BASE_SHA256_H
#define TSR_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_TEXT = 65 };

void sha256_text(const void *p, size_t n, char out[static SHA256_TEXT]);       /* in lower-case hexadecimal, with a NUL */

#endif
