/* text.h - strings as code points, and searching in bytes; for the str and bytes methods. */
#ifndef TSR_FRONTEND_TEXT_H
#define TSR_FRONTEND_TEXT_H

#include "frontend/eval/value.h"

int64_t utf8_count(const char *s, size_t n);            /* code points */
bool str_is_ascii(StrObj *s);
int64_t str_index_of(StrObj *s, size_t byte);           /* code point index of a byte offset */
Value str_slice(StrObj *s, int64_t start, int64_t step, int64_t count);     /* a resolved slice */
void str_chars_done(void);                              /* drops the shared one-character strings */

const char *mem_find(const char *s, size_t n, const char *sub, size_t m);   /* NULL: not there; m 0 finds at s */
const char *mem_rfind(const char *s, size_t n, const char *sub, size_t m);
int64_t mem_count(const char *s, size_t n, const char *sub, size_t m);      /* without overlap; m > 0 */

#endif
