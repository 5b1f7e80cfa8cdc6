/*
 * session.h - an evaluator that a fuzzer can run in its own process.
 *
 * Programs see no files, no input, no clock to sleep on; they have a budget of
 * time, after which they are interrupted, and of memory.  One that goes on all
 * the same (a loop that catches every exception) loses its memory too: the
 * process then ends without a finding, and fuzz/all.sh starts it again.
 */
#ifndef TSR_FUZZ_SESSION_H
#define TSR_FUZZ_SESSION_H

#include "frontend/eval/interp.h"

#include <stddef.h>
#include <stdint.h>

/* fn(data, n) in the world without files, but with all time and memory: what takes too long is a finding. */
void session_alone(void (*fn)(const uint8_t *, size_t), const uint8_t *data, size_t n);
/* The same, but memory may come to an end without a finding: sizes and names are interned for as long as the process lives. */
void session_until_full(void (*fn)(const uint8_t *, size_t), const uint8_t *data, size_t n);
/* fn(data, n) within the budget. */
void session_run(void (*fn)(const uint8_t *, size_t), const uint8_t *data, size_t n);
Interp *session_interp(void);   /* a new one, without arguments; the caller's */

/* module.name(args...), or a prelude name where module is "". V_ERR: an exception is pending. */
Value session_call(Interp *I, const char *module, const char *name, const Value *args, int nargs);

#endif
