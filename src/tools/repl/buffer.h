/* buffer.h - the text being edited: a string, a cursor, what was cut, and the way back. */
#ifndef TSR_REPL_BUFFER_H
#define TSR_REPL_BUFFER_H

#include "base/strbuf.h"
#include "base/vec.h"

#include <stdbool.h>

typedef struct { char *text; size_t cursor; } BufferState;

typedef struct Buffer {
    StrBuf text;                /* UTF-8, never NULL once set */
    size_t cursor;              /* byte offset, at a code point's start */
    StrBuf cut;                 /* the last text removed by a kill */
    Vec(BufferState) undo;
} Buffer;

void buffer_set(Buffer *b, const char *text);               /* cursor at the end */
void buffer_insert(Buffer *b, const char *s, size_t n);
void buffer_remove(Buffer *b, size_t from, size_t to);      /* cursor ends at from */
void buffer_kill(Buffer *b, size_t from, size_t to);        /* remove, and keep for yank */
void buffer_newline(Buffer *b);                             /* a line end and the indentation that fits */
void buffer_save(Buffer *b);                                /* a step to undo back to */
bool buffer_undo(Buffer *b);
void buffer_done(Buffer *b);

size_t buffer_line_start(const Buffer *b, size_t at);
size_t buffer_line_end(const Buffer *b, size_t at);
size_t buffer_prev(const Buffer *b, size_t at);             /* one visible character left */
size_t buffer_next(const Buffer *b, size_t at);
size_t buffer_word_left(const Buffer *b, size_t at);
size_t buffer_word_right(const Buffer *b, size_t at);
/* The same column in the line above or below; false at the first or last line. */
bool buffer_vertical(Buffer *b, int lines);
/* Is there nothing but blanks between the line's start and the cursor? */
bool buffer_in_indent(const Buffer *b);

#endif
