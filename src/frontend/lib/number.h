/* number.h - digits of floats and the white space of text; for number.c, format.c and the text methods. */
#ifndef TSR_FRONTEND_NUMBER_H
#define TSR_FRONTEND_NUMBER_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum { FLOAT_DIGITS_MAX = 22 };

/* 0.DIGITS * 10^point, without trailing zeros. */
typedef struct FloatDigits {
    char digit[FLOAT_DIGITS_MAX + 2];
    int n, point;
} FloatDigits;

/* The shortest digits that read back as x, which is finite and not negative. */
void float_digits(double x, FloatDigits *out);
/* x, finite and not negative, correctly rounded to n <= FLOAT_DIGITS_MAX digits. */
void float_digits_rounded(double x, int n, FloatDigits *out);
/* x, finite and not negative, with that many places after the point, correctly rounded; false: not a size this does. */
bool float_fixed(double x, int places, StrBuf *b);
size_t put_decimal(uint64_t m, char *out);      /* its digits and a 0 byte; how many digits */
/* Write them, with an exponent or without; dot_zero adds ".0" to whole numbers. */
void float_digits_put(StrBuf *b, const FloatDigits *d, bool exponent, bool dot_zero);

bool is_space(uint32_t codepoint);              /* as str.isspace */

#endif
