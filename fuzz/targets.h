/*
 * targets.h - the fuzzers, and what they share.
 *
 * All are in one libFuzzer binary; TESSERA_FUZZ=NAME in the environment chooses.
 * A target is a row of targets.def and a file with its function; what it finds
 * wrong it says with tsr_bug.
 */
#ifndef TSR_FUZZ_TARGETS_H
#define TSR_FUZZ_TARGETS_H

#include "base/alloc.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TARGET(name, change, what) void fuzz_##name(const uint8_t *data, size_t n);
#include "targets.def"

/* A changed input of at most `max` bytes in place of the n at data; returns its length. */
typedef size_t ChangeFn(uint8_t *data, size_t n, size_t max, unsigned seed);
ChangeFn change_text, change_bytes, change_npy, change_npz, change_safetensors;

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);   /* libFuzzer's own changes */

/* The first lines of a, then the last of b; at most `max` bytes. */
size_t splice_texts(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t max, unsigned seed);

#endif
