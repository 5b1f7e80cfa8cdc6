/*
 * tile.c - any bytes, read as a kernel of the Tile IR.
 *
 * What reads is verified, survives folding, and prints as text that reads
 * back and prints the same again.
 */
#include "session.h"
#include "targets.h"

#include "base/strbuf.h"
#include "ir/tile/tile.h"

static void must_verify(const TileKernel *k, const char *when)
{
    StrBuf err = {0};

    if (!tile_verify(k, &err))
        tsr_bug("%s: %s", when, sb_str(&err));
    sb_done(&err);
}

static void round_trip(const TileKernel *k)
{
    StrBuf a = {0}, b = {0}, err = {0};
    TileKernel *back;

    tile_print(k, &a);
    if (!(back = tile_parse(sb_str(&a), a.n, &err)))
        tsr_bug("printed text does not read back: %s\n%s", sb_str(&err), sb_str(&a));
    tile_print(back, &b);
    if (strcmp(sb_str(&a), sb_str(&b)))
        tsr_bug("text changed:\n%s\n%s", sb_str(&a), sb_str(&b));
    tile_kernel_free(back);
    sb_done(&a);
    sb_done(&b);
    sb_done(&err);
}

static void try_text(const uint8_t *data, size_t n)
{
    StrBuf err = {0};
    TileKernel *k = tile_parse((const char *)data, n, &err);

    if (k) {
        must_verify(k, "as read");
        round_trip(k);
        tile_fold(k);
        must_verify(k, "after folding");
        round_trip(k);
    }
    tile_kernel_free(k);
    sb_done(&err);
}

void fuzz_tile(const uint8_t *data, size_t n) { session_until_full(try_text, data, n); }
