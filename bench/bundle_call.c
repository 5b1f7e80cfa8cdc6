/*
 * What a call of a bundle's function costs from C, besides the work: a small function on 4 elements.
 *
 *     bench_bundle_call FOLDER LIBRARY ROUNDS
 *
 * Prints one line of JSON: nanoseconds of the thread's time a call, the median of ROUNDS runs, for results in memory of the
 * caller's and for results that the library makes.
 */
#include "bundle/tessera.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 20000, ROUNDS_MAX = 101 };

typedef int Open(const char *folder, tsr_bundle **out);
typedef tsr_function *Find(tsr_bundle *b, const char *name);
typedef int CallFn(tsr_function *f, const tsr_array *in, int nin, tsr_array *out, int nout);
typedef void Release(tsr_array *a);

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A function of a library, which C gives as an object. */
#define SYMBOL(type, name) type *name = NULL; *(void **)&name = dlsym(lib, "tsr_" #name)

int main(int argc, char **argv)
{
    _Alignas(64) float x[16] = {1, 2, 3, 4};    /* lines of their own: no store is followed by a load beside it */
    _Alignas(64) float y[16] = {5, 6, 7, 8}, z[16] = {0};
    int64_t n = 4;
    tsr_array in[2] = {tsr_rows(TSR_F32, x, 1, &n), tsr_rows(TSR_F32, y, 1, &n)}, out = tsr_rows(TSR_F32, z, 1, &n);
    int rounds = argc > 3 ? atoi(argv[3]) : 21;
    void *lib = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
    double given[ROUNDS_MAX], made[ROUNDS_MAX];
    tsr_bundle *b;

    if (!lib || rounds < 1 || rounds > ROUNDS_MAX)
        return fprintf(stderr, "bench_bundle_call FOLDER LIBRARY ROUNDS\n"), 2;
    SYMBOL(Open, open);
    SYMBOL(Find, find);
    SYMBOL(CallFn, call);
    SYMBOL(Release, release);
    if (open(argv[1], &b))
        return 1;
    tsr_function *f = find(b, "small");
    for (int r = 0; r < rounds; r++) {
        double start = now();
        for (int i = 0; i < CALLS; i++)
            if (call(f, in, 2, &out, 1))
                return 1;
        given[r] = (now() - start) / CALLS;
        start = now();
        for (int i = 0; i < CALLS; i++) {
            tsr_array result = tsr_result();
            if (call(f, in, 2, &result, 1))
                return 1;
            release(&result);
        }
        made[r] = (now() - start) / CALLS;
    }
    qsort(given, (size_t)rounds, sizeof *given, by_value);
    qsort(made, (size_t)rounds, sizeof *made, by_value);
    printf("{\"bench\": \"bundle_call\", \"elements\": 4, \"ns\": %.0f, \"ns_with_new_result\": %.0f}\n", given[rounds / 2], made[rounds / 2]);
    return 0;
}
