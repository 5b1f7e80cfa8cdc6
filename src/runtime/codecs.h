/*
 * codecs.h - conversions of runs, a loop for each pair: raw and lane forms as convert.h tells them.
 * codecs.c is compiled once for each instruction set.
 */
#ifndef TSR_RUNTIME_CODECS_H
#define TSR_RUNTIME_CODECS_H

#include "ir/core/dtype.h"

/* n elements from src to dst, which do not overlap. */
typedef void RunFn(const void *src, void *dst, int64_t n);

typedef struct Codecs {
    RunFn *encode[DT_COUNT], *decode[DT_COUNT];     /* f32 to codes and back; NULL: the dtype is no narrow float */
    RunFn *lane[DT_COUNT][DT_COUNT];                /* [to][from], lane dtypes */
    void (*to_odd)(const double *s, float *d, int64_t n);   /* rounded to odd: what a second rounding cannot notice */
} Codecs;
extern const Codecs codecs_base, codecs_v3, codecs_v4;

#endif
