/* screen.h - drawing a block of text with prompts, wrapped by hand, and finding it again for the next drawing. */
#ifndef TSR_REPL_SCREEN_H
#define TSR_REPL_SCREEN_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Screen {
    bool color;
    int cursor_row;             /* rows between the block's first shown row and the cursor */
} Screen;

typedef struct View {
    const char *prompt;         /* of the first line; later lines get dots of the same width */
    const char *text;
    size_t n, cursor;
    const uint8_t *style;       /* EditStyle for each byte */
    size_t match;               /* offset of the bracket that matches the one at the cursor, SIZE_MAX: none */
    const char *hint;           /* greyed text after the cursor at the text's end, NULL: none */
    const char *below;          /* lines shown under the block (completions), NULL: none */
} View;

/* Draw the view in place of what this screen drew before. */
void screen_draw(Screen *s, const View *v);
/* Put the cursor on a fresh line below the block. */
void screen_leave(Screen *s, const View *v);
void screen_clear(Screen *s);

#endif
