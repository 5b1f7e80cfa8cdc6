/* format.h - a parsed format specification; for format.c and template.c. */
#ifndef TSR_FRONTEND_FORMAT_H
#define TSR_FRONTEND_FORMAT_H

#include "frontend/eval/interp.h"

typedef struct Spec {
    uint32_t fill, type;                /* code points; type 0: none given */
    char align, sign, group;            /* 0: not given */
    bool has_fill, alternate, zero_pad, no_minus_zero;
    int64_t width, precision;           /* -1: not given */
} Spec;

/* false: ValueError is pending. type_name stands in the message. */
enum { PRECISION_MAX = 10000000 };      /* digits; printing that many takes a hundred megabytes */
bool format_int(Interp *I, const Spec *s, int64_t v, StrBuf *b);
bool format_float(Interp *I, const Spec *s, double v, StrBuf *b);
bool format_str(Interp *I, const Spec *s, StrObj *v, StrBuf *b);

#endif
