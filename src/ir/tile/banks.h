/*
 * banks.h - where the elements of a group's buffers lie in its shared memory,
 * and what a warp's accesses to memory cost there.
 *
 * Shared memory has 32 banks of 4 bytes; a warp gets 128 bytes at once when
 * they lie in different banks, or are the same words.  Global memory comes in
 * sectors of 32 bytes.
 */
#ifndef TSR_IR_TILE_BANKS_H
#define TSR_IR_TILE_BANKS_H

#include <stdint.h>

enum { WARP_LANES = 32, BANKS = 32, BANK_BYTES = 4, LINE_BYTES = BANKS * BANK_BYTES, SECTOR_BYTES = 32 };

/*
 * Where element `at`, counted in row-major order, of a buffer with rows of `cols` elements of `size` bytes lies when its swizzle is
 * xor, in elements.  The number of the line of banks is xored into the place of a word in its row, over as many words as are
 * a power of two that divides the row; rows keep their places.
 */
int64_t bank_xor(int64_t at, int64_t cols, int size);

/*
 * The elements that `lanes` lanes of a warp, at most 32, ask for at once: lane l has the `each` byte addresses from[l * each ...], -1: none,
 * of elements of `size` bytes.  How often the slowest bank is asked for different words, by the lanes that are served together: 1 is best.
 */
int bank_ways(const int64_t *from, int lanes, int each, int size);
/* The sectors that they touch; *fewest: how many would hold as many bytes. */
int bank_sectors(const int64_t *from, int lanes, int each, int size, int *fewest);

#endif
