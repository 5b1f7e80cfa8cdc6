/*
 * What compiled kernels call: the formulas that have no list of instructions
 * (called.inc names them: src/codegen/formulas.py), exact conversions, copies
 * between views.
 */
#include "runtime/called.h"

#include "runtime/code.h"
#include "runtime/convert.h"
#include "runtime/tile_copy.h"
#include "runtime/unit_dot.h"

#include <pthread.h>

/* A run of n elements: `how` is to, from, rounding, saturate and flush, a byte each. */
static void convert_run(int64_t how, void *dst, const void *src, int64_t n, int64_t seed, int64_t first)
{
    ConvOpts o = {(uint8_t)(how >> 16), how >> 24 & 1, how >> 32 & 1, (uint64_t)seed};

    raw_convert((DType)(how & 255), dst, (DType)(how >> 8 & 255), src, n, &o, first);
}

#define CALLED(name) void name(void);
#include "codegen/called.inc"
#undef CALLED

static const CodeSymbol called[] = {
    {"tsr_convert_run", (CodeFn *)convert_run}, {"tsr_tile_copy", (CodeFn *)tile_copy},
    {"tsr_unit_pack", (CodeFn *)unit_pack}, {"tsr_unit_dot", (CodeFn *)unit_dot},
#define CALLED(name) {#name, name},
#include "codegen/called.inc"
#undef CALLED
};

static void offer(void) { code_offer(called, sizeof called / sizeof *called); }

void called_offer(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, offer);
}
