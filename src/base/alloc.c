/*
 * The heap behind one door.  Failures are injected here by count, so that
 * every caller's unhappy path can be walked by a test that counts upwards.
 */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory of this size and more asks for huge pages: they come at a five-hundredth of the page faults. */
enum { HUGE_PAGE = 2 << 20, HUGE_FROM = 2 * HUGE_PAGE };
enum { HEAP_STEP = 64 << 20, HEAP_LARGEST = 8 << 20, HEAP_KEPT = 64 << 20, HEAP_FIRST = 256 << 10 };       /* tsr_heap_begin */

static _Thread_local jmp_buf *recovery;         /* of the thread that set it: no other may jump there */
static _Atomic uint64_t count;                  /* exact where one thread allocates, as in the tests that ask */
static uint64_t fail_at;
static bool fail_forever;

static bool must_fail(void)
{
    uint64_t now = atomic_load_explicit(&count, memory_order_relaxed) + 1;

    atomic_store_explicit(&count, now, memory_order_relaxed);       /* no more than an increment: every allocation comes by here */
    if (!fail_at || now < fail_at)
        return false;
    return fail_forever || now == fail_at;
}

_Noreturn void tsr_out_of_memory(void)
{
    if (recovery)
        longjmp(*recovery, 1);
    fputs("error: out of memory\n", stderr);
    exit(1);
}

/* A wish: whether it is met changes nothing else. */
static void *huge_pages(void *p, size_t n)
{
    uintptr_t from = ((uintptr_t)p + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1), to = ((uintptr_t)p + n) & ~(uintptr_t)(HUGE_PAGE - 1);

    if (p && n >= HUGE_FROM)
        madvise((void *)from, to - from, MADV_HUGEPAGE);
    return p;
}

void tsr_heap_begin(void)
{
    char *from = sbrk(0);
    void *volatile more;

    mallopt(M_MMAP_THRESHOLD, HEAP_LARGEST);
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
    mallopt(M_TOP_PAD, HEAP_STEP);
    more = malloc(HEAP_FIRST);                  /* more than there is: the heap grows */
    free(more);
    if ((char *)sbrk(0) > from)
        huge_pages(from, (size_t)((char *)sbrk(0) - from));
}

void *tsr_alloc(size_t n)
{
    void *p = must_fail() ? NULL : malloc(n ? n : 1);

    if (!p)
        tsr_out_of_memory();
    return huge_pages(p, n);
}

void *tsr_calloc(size_t n)
{
    void *p = must_fail() ? NULL : calloc(1, n ? n : 1);

    if (!p)
        tsr_out_of_memory();
    return huge_pages(p, n);
}

void *tsr_realloc(void *p, size_t n)
{
    void *q = must_fail() ? NULL : realloc(p, n ? n : 1);

    if (!q)
        tsr_out_of_memory();
    return huge_pages(q, n);
}

void tsr_free(void *p)
{
    free(p);
}

void *tsr_try_alloc(size_t n, size_t align)
{
    void *p = NULL;

    if (n >= HUGE_FROM && align < HUGE_PAGE)
        align = HUGE_PAGE;
    if (must_fail() || n > PTRDIFF_MAX - align)
        return NULL;
    if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, n ? n : 1))
        return NULL;
    return huge_pages(p, n);
}

void tsr_free_aligned(void *p)
{
    tsr_free(p);
}

void tsr_oom_set(jmp_buf *r)
{
    recovery = r;
}

void tsr_alloc_fail_at(uint64_t n, bool forever)
{
    fail_at = n ? count + n : 0;
    fail_forever = forever;
}

uint64_t tsr_alloc_count(void)
{
    return count;
}

bool tsr_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

_Noreturn void tsr_bug_at(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "tessera: internal error at %s:%d: ", file, line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}
