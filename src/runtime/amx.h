/*
 * amx.h - the matrix units of x86 (AMX): 32 x 32 sums of products of packed squares (gemm_words.h).
 *
 * A panel is 32 lines; of each 64 bytes of their steps it has two squares, a KiB each, and of numbers that are sums of several bf16 so many
 * for the high parts, then for those below.  Products of parts are summed that count: of three parts the six largest of nine, of two three of four.
 */
#ifndef TSR_RUNTIME_AMX_H
#define TSR_RUNTIME_AMX_H

#include <stdbool.h>
#include <stdint.h>

enum { AMX_SIDE = 16, AMX_PANEL = 2 * AMX_SIDE, AMX_TWO = 2048 };       /* lines of a square and of a panel; bytes of its two squares */

/* Signed and unsigned bytes of a and of b; bf16; f32; f32 by as many digits as tf32 has, or more. */
typedef enum { AMX_SS, AMX_SU, AMX_US, AMX_UU, AMX_HALVES, AMX_THIRDS, AMX_TF32 } AmxKind;

bool amx_has(AmxKind kind);             /* is there such a unit, and does the system lend it? TESSERA_CPU other than v4 asks for none */
static inline int amx_parts(AmxKind kind) { return kind == AMX_THIRDS ? 3 : kind == AMX_TF32 ? 2 : 1; }

/* Four squares of sums: where they are and where they go, as words; from NULL: they begin with 0. */
typedef struct AmxSums { const uint32_t *from; int64_t from_row; uint32_t *to; int64_t to_row; } AmxSums;

/* Memory that is asked for meanwhile, at most two lines for four products of tiles. */
typedef struct AmxAhead { const char *at, *end; } AmxAhead;

/* What follows is for between begin and end, of a thread. */
void amx_begin(void);
void amx_end(void);
void amx_tile(AmxKind kind, int64_t squares, const char *a, const char *b, const AmxSums *s, const AmxAhead *ahead);
/* Two squares each of 32 lines that are `line` bytes apart, `next` to the next squares. Lines of memory that two share stay in the first cache. */
void amx_copy(int64_t squares, const char *from, int64_t line, int64_t next, char *to);

#endif
