/* Tile registers of AMX: what they are asked for, and the loops over squares. */
#include "runtime/amx.h"

#include "runtime/cpu.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel lends the tile registers to processes that ask; asked once. */
bool amx_has(AmxKind kind)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18, BF16 = 1 << 22, TILES = 1 << 24, BYTES = 1 << 25, ASKED = 1 };
    static _Atomic unsigned answer;
    unsigned a, b, c, d = atomic_load_explicit(&answer, memory_order_relaxed);

    if (!d) {
        __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
        d = ASKED | (!strcmp(cpu()->name, "v4") && d & TILES && !syscall(SYS_arch_prctl, REQUEST, TILE_DATA) ? d : 0);
        atomic_store_explicit(&answer, d, memory_order_relaxed);
    }
    return d & (kind < AMX_HALVES ? BYTES : BF16);
}

/* ---- tile registers: 0 to 3 are sums, 4 and 5 rows of a, 6 and 7 columns of b ---- */

typedef struct TileConfig {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TileConfig;

void amx_begin(void)
{
    TileConfig t = {.palette = 1};

    for (int i = 0; i < 8; i++)
        t.bytes[i] = 64, t.rows[i] = AMX_SIDE;
    __asm__ volatile("ldtilecfg %0" : : "m"(t));
}

void amx_end(void) { __asm__ volatile("tilerelease"); }

#define LOAD(t, from, stride) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(from), "r"((int64_t)(stride)) : "memory")
#define LOADT(t, from, stride) __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #t : : "r"(from), "r"((int64_t)(stride)) : "memory")
#define STORE(t, to, stride) __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(stride)) : "memory")
/* Two lines more are asked for. */
#define ASK \
    if (at < ahead->end) { \
        __builtin_prefetch(at, 0, 2); \
        __builtin_prefetch(at + 64, 0, 2); \
        at += 2 * 64; \
    }
#define DOTS_FN(name, dot) \
    static void name(int64_t squares, const char *a, const char *b, const AmxAhead *ahead) \
    { \
        const char *at = ahead->at; \
        for (; squares > 0; squares--, a += AMX_TWO, b += AMX_TWO) { \
            ASK \
            LOAD(4, a, 64); \
            LOADT(6, b, 64); \
            LOAD(5, a + AMX_TWO / 2, 64); \
            LOADT(7, b + AMX_TWO / 2, 64); \
            __asm__ volatile(dot " %tmm6, %tmm4, %tmm0\n\t" dot " %tmm7, %tmm4, %tmm1\n\t" dot " %tmm6, %tmm5, %tmm2\n\t" \
                             dot " %tmm7, %tmm5, %tmm3"); \
        } \
    }
DOTS_FN(dots_ss, "tdpbssd")
DOTS_FN(dots_su, "tdpbsud")
DOTS_FN(dots_us, "tdpbusd")
DOTS_FN(dots_uu, "tdpbuud")
DOTS_FN(dots_halves, "tdpbf16ps")

#define LOAD_A(part) LOAD(4, a + (part) * AMX_TWO, 64); LOAD(5, a + (part) * AMX_TWO + AMX_TWO / 2, 64)
#define LOAD_B(part) LOADT(6, b + (part) * AMX_TWO, 64); LOADT(7, b + (part) * AMX_TWO + AMX_TWO / 2, 64)
#define FOUR_DOTS \
    __asm__ volatile("tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\ttdpbf16ps %tmm6, %tmm5, %tmm2\n\t" \
                     "tdpbf16ps %tmm7, %tmm5, %tmm3")

/* Parts of a and b that are together at most two steps from the high ones; the small products first. */
static void dots_thirds(int64_t squares, const char *a, const char *b, const AmxAhead *ahead)
{
    enum { HIGH, MIDDLE, LOW };
    const char *at = ahead->at;

    for (; squares > 0; squares--, a += 3 * AMX_TWO, b += 3 * AMX_TWO) {
        LOAD_A(LOW);
        LOAD_B(HIGH);
        ASK
        FOUR_DOTS;
        LOAD_A(HIGH);
        LOAD_B(LOW);
        ASK
        FOUR_DOTS;
        LOAD_B(MIDDLE);
        ASK
        FOUR_DOTS;
        LOAD_A(MIDDLE);
        ASK
        FOUR_DOTS;
        LOAD_B(HIGH);
        ASK
        FOUR_DOTS;
        LOAD_A(HIGH);
        ASK
        FOUR_DOTS;
    }
}

static void dots_tf32(int64_t squares, const char *a, const char *b, const AmxAhead *ahead)
{
    enum { HIGH, LOW };
    const char *at = ahead->at;

    for (; squares > 0; squares--, a += 2 * AMX_TWO, b += 2 * AMX_TWO) {
        LOAD_A(LOW);
        LOAD_B(HIGH);
        ASK
        FOUR_DOTS;
        LOAD_A(HIGH);
        ASK
        FOUR_DOTS;
        LOAD_B(LOW);
        ASK
        FOUR_DOTS;
    }
}

static void load_sums(const AmxSums *s)
{
    const uint32_t *c = s->from;
    int64_t row = s->from_row;

    __asm__ volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3");
    if (!c)
        return;
    LOADT(0, c, row * 4);
    LOADT(1, c + AMX_SIDE, row * 4);
    LOADT(2, c + AMX_SIDE * row, row * 4);
    LOADT(3, c + AMX_SIDE * row + AMX_SIDE, row * 4);
}

static void store_sums(const AmxSums *s)
{
    uint32_t *c = s->to;
    int64_t row = s->to_row;

    STORE(0, c, row * 4);
    STORE(1, c + AMX_SIDE, row * 4);
    STORE(2, c + AMX_SIDE * row, row * 4);
    STORE(3, c + AMX_SIDE * row + AMX_SIDE, row * 4);
}

void amx_tile(AmxKind kind, int64_t squares, const char *a, const char *b, const AmxSums *s, const AmxAhead *ahead)
{
    static void (*const dots[])(int64_t squares, const char *a, const char *b, const AmxAhead *ahead) = {dots_ss, dots_su, dots_us, dots_uu,
                                                                                                       dots_halves, dots_thirds, dots_tf32};

    load_sums(s);
    dots[kind](squares, a, b, ahead);
    store_sums(s);
}

#define COPY_SQUARES(how) \
    for (; squares > 0; squares--, from += next, to += AMX_TWO) { \
        how(4, from, line); \
        how(5, from + AMX_SIDE * line, line); \
        STORE(4, to, 64); \
        STORE(5, to + AMX_TWO / 2, 64); \
    }

void amx_copy(int64_t squares, const char *from, int64_t line, int64_t next, char *to)
{
    if (line % 64)
        COPY_SQUARES(LOAD)
    else
        COPY_SQUARES(LOADT)
}
#else
bool amx_has(AmxKind kind) { return false; }
void amx_begin(void) { }
void amx_end(void) { }
void amx_tile(AmxKind kind, int64_t squares, const char *a, const char *b, const AmxSums *s, const AmxAhead *ahead) { }
void amx_copy(int64_t squares, const char *from, int64_t line, int64_t next, char *to) { }
#endif
