/*
 * unit_dot.h - block products of compiled kernels on the matrix units of x86.
 *
 * An operand is packed once, and may then be multiplied with many others.  Packed, it has 32 lines after 32: rows of a left operand, columns of
 * a right one; of each their steps, 32 after 32 (amx.h).
 */
#ifndef TSR_RUNTIME_UNIT_DOT_H
#define TSR_RUNTIME_UNIT_DOT_H

#include <stdint.h>

/* How elements are packed: of f32 (or bf16 in memory) so many parts, by lines of steps as those of a left operand. */
enum { UNIT_PARTS = 3, UNIT_HALVES = 4, UNIT_LEFT = 8 };

/* Bytes of a packed operand. */
static inline int64_t unit_bytes(int parts, int64_t lines, int64_t steps) { return (lines + 31) / 32 * ((steps + 31) / 32) * parts * 2048; }

/*
 * Pack a block of all_lines and all_steps, of which there are so many and the rest is zeros; strides count elements.  Not 0: there is no unit, or
 * numbers are among them that have no parts (gemm_words.h), and what is packed is not to be used.
 */
int64_t unit_pack(int64_t how, const void *from, int64_t line, int64_t step, int64_t lines, int64_t steps, int64_t all_lines, int64_t all_steps,
                  void *to);
/* to[m, n] = from[m, n] + a b, from NULL: of zeros; they may be the same, and both have rows of n. */
void unit_dot(int64_t parts, int64_t m, int64_t n, int64_t steps, const void *a, const void *b, const void *from, void *to);

#endif
