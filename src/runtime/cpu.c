/* Which loops this machine gets. */
#include "runtime/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef TSR_LEAN         /* of bundles: what their kernels do not do need not be fast, apart from products */
#define VARIANT_ROW(v) {#v, &loops_base, &far_base, &gemm_##v, &dots_##v, &sums_base, &draw_base, &codecs_base, &fft_base}
#else
#define VARIANT_ROW(v) {#v, &loops_##v, &far_##v, &gemm_##v, &dots_##v, &sums_##v, &draw_##v, &codecs_##v, &fft_##v}
#endif
static const Cpu all[] = {
    VARIANT_ROW(base),
#ifdef TSR_HAS_v3
    VARIANT_ROW(v3),
#endif
#ifdef TSR_HAS_v4
    VARIANT_ROW(v4),
#endif
};
enum { COUNT = sizeof all / sizeof *all };

static bool runs_here(const Cpu *c)
{
#ifdef __x86_64__
    if (!strcmp(c->name, "v3"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!strcmp(c->name, "v4"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return c == &all[0];
}

const Cpu *cpu_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(all[i].name, name))
            return runs_here(&all[i]) ? &all[i] : NULL;
    return NULL;
}

const Cpu *cpu(void)
{
    static const Cpu *_Atomic kept;                 /* threads that ask at once find the same */
    const Cpu *best = atomic_load_explicit(&kept, memory_order_relaxed);
    const char *want;

    if (best)
        return best;
    want = getenv("TESSERA_CPU");
    best = want ? cpu_find(want) : NULL;
    for (int i = COUNT - 1; !best; i--)
        best = runs_here(&all[i]) ? &all[i] : NULL;
    atomic_store_explicit(&kept, best, memory_order_relaxed);
    return best;
}
