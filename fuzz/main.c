/*
 * main.c - the one door between libFuzzer and the targets.
 *
 * -help=1 lists libFuzzer's flags; TESSERA_FUZZ names the target.
 */
#include "targets.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t max,
                                 unsigned seed);

static const struct Target {
    const char *name, *what;
    void (*run)(const uint8_t *, size_t);
    ChangeFn *change;
} targets[] = {
#define TARGET(name, change, what) {#name, what, fuzz_##name, change},
#include "targets.def"
}, *target;

enum { TARGETS = sizeof targets / sizeof *targets };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("TESSERA_FUZZ");

    for (int i = 0; i < TARGETS; i++)
        if (name && !strcmp(name, targets[i].name))
            target = &targets[i];
    if (!target) {
        fputs("set TESSERA_FUZZ to one of these:\n", stderr);
        for (int i = 0; i < TARGETS; i++)
            fprintf(stderr, "  %-12s %s\n", targets[i].name, targets[i].what);
        _Exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    target->run(data, n);
    return 0;
}

size_t change_bytes(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    return LLVMFuzzerMutate(data, n, max);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    return target->change(data, n, max, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t max,
                                 unsigned seed)
{
    return splice_texts(a, na, b, nb, out, max, seed);
}
