/*
 * parse.c - lines a second through the lexer and the parser.
 *
 *     ninja -C build bench/bench_parse && build/bench/bench_parse FILE...
 *
 * Each file is parsed five times; the best time counts, of the processor and
 * not of the clock, so that other work on the machine does not.
 */
#include "base/alloc.h"
#include "base/vfs.h"
#include "frontend/syntax/ast.h"

#include <stdio.h>
#include <time.h>

static double once(const Source *src)
{
    DiagSink sink = {0};
    clock_t start = clock();
    Unit *u = unit_parse(src, &sink);
    double t = (double)(clock() - start) / CLOCKS_PER_SEC;

    unit_free(u);
    diag_sink_done(&sink);
    return t;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *text;
        size_t n;
        const Source *src;
        double best = 1e9;
        if (vfs_read_file(argv[i], SOURCE_MAX, &text, &n) || !(src = source_add(argv[i], text, n)))
            continue;
        for (int k = 0; k < 5; k++) {
            double t = once(src);
            best = t < best ? t : best;
        }
        printf("{\"name\": \"parse %s\", \"lines\": %u, \"lines_per_second\": %.0f, \"bytes_per_second\": %.0f}\n", argv[i],
               src->nlines, src->nlines / best, (double)n / best);
        tsr_free(text);
    }
    source_done();
    return 0;
}
