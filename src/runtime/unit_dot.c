/* Block products of kernels on matrix units: loops over panels of 32 rows and columns. */
#include "runtime/unit_dot.h"

#include "base/ints.h"
#include "runtime/amx.h"
#include "runtime/gemm_words.h"

#include <string.h>

enum { PIECE = 16 };                    /* squares of rows that the first cache keeps, while columns pass */

int64_t unit_pack(int64_t how, const void *from, int64_t line, int64_t step, int64_t lines, int64_t steps, int64_t all_lines, int64_t all_steps,
                  void *to)
{
    int parts = (int)(how & UNIT_PARTS);
    bool halves = how & UNIT_HALVES;
    char *at = to;
    uint32_t odd = 0;

    if (!amx_has(AMX_HALVES))
        return 1;
    lines = least(lines, all_lines), steps = least(steps, all_steps);
    for (int64_t i = 0; i < all_lines; i += AMX_PANEL)
        for (int64_t s = 0; s < all_steps; s += AMX_PANEL, at += parts * AMX_TWO) {
            const char *x = (const char *)from + (i * line + s * step) * (halves ? 2 : 4);
            odd |= pack_parts(parts, halves, x, line, step, most(lines - i, 0), most(steps - s, 0), how & UNIT_LEFT, (uint32_t *)(void *)at);
        }
    return odd;
}

/* The part of a block that a panel has, in 32 rows of 32. */
static void bring(const uint32_t *from, int64_t row, int64_t rows, int64_t columns, uint32_t *to)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * AMX_PANEL, from + r * row, (size_t)columns * sizeof *to);
}

static void take(const uint32_t *from, int64_t row, int64_t rows, int64_t columns, uint32_t *to)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * row, from + r * AMX_PANEL, (size_t)columns * sizeof *to);
}

/* A product, and the squares of a piece of its steps. */
typedef struct Block {
    int64_t parts, m, n, squares, at, piece;
    const char *a, *b;
} Block;

/* Sums of 32 rows and columns from i and j on over a piece: those that are there, NULL: none, and where they go. */
static void one_tile(const Block *p, int64_t i, int64_t j, const uint32_t *from, uint32_t *to)
{
    int64_t rows = least(p->m - i, AMX_PANEL), columns = least(p->n - j, AMX_PANEL), square = p->parts * AMX_TWO, first = p->at * square;
    bool whole = rows == AMX_PANEL && columns == AMX_PANEL;
    uint32_t edge[AMX_PANEL * AMX_PANEL];
    AmxSums s = {from, p->n, to, p->n};

    if (!whole && from)
        bring(from, p->n, rows, columns, edge);
    if (!whole)
        s = (AmxSums){from ? edge : NULL, AMX_PANEL, edge, AMX_PANEL};
    amx_tile(p->parts == 3 ? AMX_THIRDS : p->parts == 2 ? AMX_TF32 : AMX_HALVES, p->piece, p->a + i / AMX_PANEL * p->squares * square + first,
             p->b + j / AMX_PANEL * p->squares * square + first, &s, &(AmxAhead){0});
    if (!whole)
        take(edge, p->n, rows, columns, to);
}

void unit_dot(int64_t parts, int64_t m, int64_t n, int64_t steps, const void *a, const void *b, const void *from, void *to)
{
    Block p = {.parts = parts, .m = m, .n = n, .squares = ceil_div(steps, AMX_PANEL), .a = a, .b = b};
    int64_t pieces = ceil_div(p.squares, PIECE / parts), piece = ceil_div(p.squares, pieces);

    amx_begin();
    for (int64_t i = 0; i < m; i += AMX_PANEL)
        for (p.at = 0; p.at < p.squares; p.at += piece)
            for (int64_t j = 0; j < n; j += AMX_PANEL) {
                const uint32_t *begin = p.at ? to : from;
                p.piece = least(piece, p.squares - p.at);
                one_tile(&p, i, j, begin ? begin + i * n + j : NULL, (uint32_t *)to + i * n + j);
            }
    amx_end();
}
