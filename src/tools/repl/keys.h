/*
 * keys.h - bytes from a terminal as keys.
 *
 * A key is a code point, a K_ name for what has none, or a control or alt
 * combination: KEY_CTRL('a'), KEY_ALT('b').  A bracketed paste arrives whole.
 */
#ifndef TSR_REPL_KEYS_H
#define TSR_REPL_KEYS_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    K_NONE = -1,                /* an unknown sequence; nothing to do */
    K_EOF = -2,                 /* the terminal is gone */
    K_INTR = -3,                /* a signal came: the window changed, or ctrl-C from outside */
    K_UP = 0x200000, K_DOWN, K_LEFT, K_RIGHT, K_HOME, K_END, K_PAGE_UP, K_PAGE_DOWN,
    K_DELETE, K_BACKTAB, K_WORD_LEFT, K_WORD_RIGHT, K_PASTE,
    K_ALT = 0x400000,
    K_ENTER = '\r', K_TAB = '\t', K_ESC = 27, K_BACKSPACE = 127
};
#define KEY_CTRL(c) ((c) & 31)
#define KEY_ALT(c) (K_ALT | (c))

/* The next key from fd. After K_PASTE, *paste holds the pasted text, lines ended by \n. */
int32_t key_read(int fd, StrBuf *paste);

#endif
