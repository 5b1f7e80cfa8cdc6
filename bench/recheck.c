/*
 * recheck.c - how long a language server waits for the answer to an edit.
 *
 *     ninja -C build bench/bench_recheck && build/bench/bench_recheck FILE...
 *
 * Each file is opened and checked; then lines all over it get one more blank at
 * their end, one by one, and each time the file is checked again.  Times are
 * the processor's, in milliseconds: the first check, the median and the worst
 * of the edits.
 */
#include "base/alloc.h"
#include "base/vfs.h"
#include "frontend/check/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { EDITS = 41 };

static double now(void)
{
    return (double)clock() * 1000 / CLOCKS_PER_SEC;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void measure(const char *path, const char *text, size_t len)
{
    Session *s = session_new();
    double start = now(), first, edit[EDITS];
    OpenFile *f = session_open(s, path, text, len);
    int errors = session_check(f)->errors;

    first = now() - start;
    for (int i = 0; i < EDITS; i++) {
        const Source *src = session_source(f);
        uint32_t line = (uint32_t)((uint64_t)src->nlines * (uint32_t)(i + 1) / (EDITS + 1));
        uint32_t at = src->line[line] - 1;
        start = now();
        session_edit(f, at, at, " ", 1);
        errors += session_check(f)->errors;
        edit[i] = now() - start;
    }
    qsort(edit, EDITS, sizeof *edit, by_size);
    printf("{\"name\": \"recheck %s\", \"lines\": %u, \"first_ms\": %.2f, \"edit_ms\": %.2f, \"worst_ms\": %.2f, \"errors\": %d}\n", path,
           session_source(f)->nlines, first, edit[EDITS / 2], edit[EDITS - 1], errors);
    session_free(s);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *text;
        size_t len;
        if (vfs_read_file(argv[i], SOURCE_MAX, &text, &len)) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 1;
        }
        measure(argv[i], text, len);
        tsr_free(text);
    }
    return 0;
}
