/* each.h - loops whose rounds are independent, for files that are compiled once for each instruction set (cpu.h). */
#ifndef TSR_RUNTIME_EACH_H
#define TSR_RUNTIME_EACH_H

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"       /* loops of calls stay scalar */
#define EACH(i, n) _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)
#endif

/* Before a loop of at most 28 rounds, whose number is constant: as many statements; where code is to be small, it stays a loop. */
#if defined(TSR_LEAN)
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 28")
#endif

/* name_VARIANT: what this compilation defines. */
#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

#endif
