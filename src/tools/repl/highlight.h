/* highlight.h - a style for each byte of a program text, from the real lexer. */
#ifndef TSR_REPL_HIGHLIGHT_H
#define TSR_REPL_HIGHLIGHT_H

#include <stddef.h>
#include <stdint.h>

/* Fill style[0..n) with EditStyle values; the text may be half typed. */
void highlight(const char *text, size_t n, uint8_t *style);

#endif
