/* tile_text.h - kernels of the Tile IR from their text, in tests. */
#ifndef TSR_TESTS_TILE_TEXT_H
#define TSR_TESTS_TILE_TEXT_H

#include "unit.h"

#include "ir/tile/tile.h"

#include <string.h>

/* The kernel, which verifies; else the test fails. */
static inline TileKernel *tile_of_text(const char *text)
{
    StrBuf err = {0};
    TileKernel *k = tile_parse(text, strlen(text), &err);

    if (!k || !tile_verify(k, &err))
        fail_msg("%s\n%s", sb_str(&err), text);
    sb_done(&err);
    return k;
}

#endif
