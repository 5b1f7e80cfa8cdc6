/* load.h - program texts from files and standard input, with errors that say what to do. */
#ifndef TSR_TOOLS_LOAD_H
#define TSR_TOOLS_LOAD_H

#include "base/source.h"
#include "base/strbuf.h"

/* The text at `path` (- is standard input) as a Source. NULL: *err holds one line for the user. */
const Source *load_program(const char *path, StrBuf *err);
/* A text given in place (-e CODE). */
const Source *load_text(const char *name, const char *text, size_t n, StrBuf *err);

#endif
