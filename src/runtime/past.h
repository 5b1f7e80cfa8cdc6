/*
 * past.h - results that are larger than the caches go past them: a line that is stored in the usual way is read first, and drives out another.
 */
#ifndef TSR_RUNTIME_PAST_H
#define TSR_RUNTIME_PAST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { PAST_FROM = 32 << 20 };          /* bytes of results: what third caches have for a core, or more */

/* What this thread stored past the caches, others see. */
static inline void past_done(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/*
 * n bytes from src, which the first cache has, to memory past the caches; dst lies as lines do.  As many bytes at each of `next`, some
 * of which are NULL, are asked for meanwhile: where reading stops and goes on, machines do not foresee it.
 */
static inline void past_copy(void *dst, const void *src, size_t n, const char *const *next, int nnext)
{
    size_t i = 0;

#ifdef __SSE2__
    for (; (uintptr_t)dst % 16 == 0 && i + 64 <= n; i += 64) {
        for (int k = 0; k < nnext; k++)
            if (next[k])
                __builtin_prefetch(next[k] + i);
        for (size_t k = i; k < i + 64; k += 16)
            _mm_stream_si128((__m128i *)(void *)((char *)dst + k), _mm_loadu_si128((const __m128i *)(const void *)((const char *)src + k)));
    }
#else
    (void)next, (void)nnext;
#endif
    memcpy((char *)dst + i, (const char *)src + i, n - i);
}

#endif
