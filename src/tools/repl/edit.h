/*
 * edit.h - a line editor for blocks of several lines.
 *
 * It knows text, keys and the screen; what a statement is, how it is coloured
 * and what a name may become is asked of its hooks.
 */
#ifndef TSR_REPL_EDIT_H
#define TSR_REPL_EDIT_H

#include "base/vec.h"
#include "tools/repl/history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a byte of the text is shown. */
typedef enum { STYLE_PLAIN, STYLE_KEYWORD, STYLE_STRING, STYLE_NUMBER, STYLE_COMMENT, STYLE_NAME, STYLE_COUNT } EditStyle;

typedef struct Completions {
    size_t from;                /* offset where the completed word begins */
    Vec(char *) word;           /* owned, sorted, each once */
} Completions;

typedef struct EditHooks {
    void *state;
    bool (*is_complete)(void *state, const char *text, size_t n);           /* may Enter submit it? */
    void (*paint)(void *state, const char *text, size_t n, uint8_t *style); /* an EditStyle for each byte */
    void (*complete)(void *state, const char *text, size_t cursor, Completions *out);
} EditHooks;

typedef enum { EDIT_TEXT, EDIT_EOF, EDIT_CANCELLED } EditResult;

/* Let the user edit one block on the terminal (descriptors 0 and 1). EDIT_TEXT: *text is owned by the caller. */
EditResult edit_read(const EditHooks *hooks, History *history, const char *prompt, bool color, char **text);

#endif
