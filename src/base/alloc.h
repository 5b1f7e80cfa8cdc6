/*
 * alloc.h - the only door to the heap.
 *
 * tsr_alloc and friends never return NULL: small allocations that fail unwind
 * to the recovery point that the driver set with tsr_oom_set, which reports
 * one clean error.  Big, user-sized requests (tensor storage, files) use
 * tsr_try_alloc, whose NULL the caller turns into a MemoryError.
 * Every other file is kept from malloc by a test that greps for it.
 */
#ifndef TSR_BASE_ALLOC_H
#define TSR_BASE_ALLOC_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *tsr_alloc(size_t n);                    /* uninitialised */
void *tsr_calloc(size_t n);                   /* zeroed */
void *tsr_realloc(void *p, size_t n);
void tsr_free(void *p);
void *tsr_try_alloc(size_t n, size_t align);  /* NULL when it cannot be had; align is a power of two */
void tsr_free_aligned(void *p);               /* for what tsr_try_alloc gave */

/*
 * For a process that is ours: the heap grows by 64 MB at a time, the first of them on huge pages, and keeps what is given back, blocks of up to 8 MB
 * too.  A graph is copied several times on its way to kernels, and fresh pages for each copy took a fifth of that time.
 */
void tsr_heap_begin(void);

/* Where a failed small allocation of this thread goes; NULL: print one line and exit 1. */
void tsr_oom_set(jmp_buf *recovery);
_Noreturn void tsr_out_of_memory(void);        /* go there */

/* Test hook: the n-th allocation from now fails (once, or it and all later ones). 0 switches it off. */
void tsr_alloc_fail_at(uint64_t n, bool forever);
uint64_t tsr_alloc_count(void);               /* calls so far */

/* Sizes are multiplied here and nowhere else: false when the product does not fit. */
bool tsr_mul(size_t a, size_t b, size_t *out);

/* Our own mistake: prints what and where, then aborts. */
_Noreturn void tsr_bug_at(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define tsr_bug(...) tsr_bug_at(__FILE__, __LINE__, __VA_ARGS__)

#endif
