/*
 * A function of a bundle on the CPU and on a device: the same bits? how long until the first result, and for each further call?
 *
 *     cc -O2 -I src/bundle bench/gpu/bundle.c -ldl -o caller
 *     ./caller BUNDLE LIBRARY FUNCTION DEVICE SPEC...
 *
 * A SPEC is an input of numbers that follow from nothing but its sizes: f32:8x784, or i64:16 with numbers below 1000.  With a ! before the
 * device nothing runs on the CPU first.  One JSON line; exit code 1: other bits.
 */
#include "tessera.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 8, ROUNDS = 31 };

static void *library;
#define CALL(name) ((__typeof__(&name))dlsym(library, #name))

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void check(int code)
{
    if (!code)
        return;
    printf("{\"error\": \"%s\"}\n", CALL(tsr_message)());
    exit(2);
}

static int64_t count(const tsr_array *a)
{
    int64_t n = 1;

    for (int i = 0; i < a->rank; i++)
        n *= a->shape[i];
    return n;
}

static tsr_array input(const char *spec)
{
    int64_t shape[TSR_AXES];
    int rank = 0, real = *spec == 'f';
    char *p = strchr(spec, ':');
    uint32_t state = 12345;
    tsr_array a;

    for (; p && *p && rank < TSR_AXES; rank++)
        shape[rank] = strtol(p + 1, &p, 10);
    a = tsr_rows(real ? TSR_F32 : TSR_INT64, NULL, rank, shape);
    a.data = malloc((size_t)count(&a) * (real ? 4 : 8) + 1);
    for (int64_t i = 0; i < count(&a); i++) {
        state = state * 1664525u + 1013904223u;
        if (real)
            ((float *)a.data)[i] = (float)(state >> 8) / (1 << 23) - 1;
        else
            ((int64_t *)a.data)[i] = (state >> 8) % 1000;
    }
    return a;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The median of some calls, in milliseconds. */
static double timed(tsr_function *f, const tsr_array *in, int nin, int nout)
{
    double t[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        tsr_array out[MOST];
        double start = now();
        for (int k = 0; k < MOST; k++)
            out[k] = tsr_result();
        check(CALL(tsr_call)(f, in, nin, out, nout));
        t[i] = now() - start;
        for (int k = 0; k < nout; k++)
            CALL(tsr_release)(&out[k]);
    }
    qsort(t, ROUNDS, sizeof *t, ascending);
    return t[ROUNDS / 2];
}

static int same_bits(const tsr_array *a, const tsr_array *b)
{
    return count(a) == count(b) && !memcmp(a->data, b->data, (size_t)count(a) * (a->dtype == TSR_F32 ? 4 : 8));
}

int main(int argc, char **argv)
{
    double begin = now(), open, use, first, whole, cpu = 0;
    tsr_array in[MOST], here[MOST], there[MOST];
    int nin = argc - 5, nout, same = 1, alone = argc > 4 && *argv[4] == '!';
    tsr_bundle *bundle;
    tsr_function *f;

    if (nin < 0 || nin > MOST || !(library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL)))
        return fprintf(stderr, "caller BUNDLE LIBRARY FUNCTION DEVICE SPEC...\n"), 2;
    check(CALL(tsr_open)(argv[1], &bundle));
    if (!(f = CALL(tsr_find)(bundle, argv[3])))
        check(CALL(tsr_code)());
    open = now() - begin;
    for (int i = 0; i < nin; i++)
        in[i] = input(argv[5 + i]);
    nout = CALL(tsr_outputs)(f);
    for (int k = 0; k < MOST; k++)
        here[k] = there[k] = tsr_result();
    if (!alone) {
        check(CALL(tsr_call)(f, in, nin, here, nout));
        cpu = timed(f, in, nin, nout);
        CALL(tsr_reset)(bundle);
        begin = now();
    }
    use = now();
    check(CALL(tsr_use_device)(bundle, argv[4] + alone));
    first = now();
    use = first - use;
    check(CALL(tsr_call)(f, in, nin, there, nout));
    whole = now() - begin;
    first = now() - first;
    for (int k = 0; k < nout && !alone; k++)
        same &= same_bits(&here[k], &there[k]);
    printf("{\"function\": \"%s\", \"input\": \"%s\", \"same_bits\": %s, \"ms\": {\"open\": %.2f, \"use_device\": %.2f, \"first_call\": %.2f, "
           "\"%s\": %.2f, \"cpu_call\": %.3f, \"device_call\": %.3f}}\n", argv[3], nin ? argv[5] : "", alone ? "null" : same ? "true" : "false",
           open, use, first, alone ? "start_to_first_result" : "device_to_first_result", whole, cpu, timed(f, in, nin, nout));
    CALL(tsr_close)(bundle);
    return !same;
}
