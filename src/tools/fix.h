/* fix.h - `check --fix`: the edits that reports carry, made in the file. */
#ifndef TSR_TOOLS_FIX_H
#define TSR_TOOLS_FIX_H

#include "base/source.h"
#include "base/strbuf.h"
#include "tools/options.h"

/*
 * The program's text after all edits that help, which the file holds then, too: written whole or not at all, and only if
 * something changed. What was mended is said on standard error, or as JSON objects with "applied": true on standard
 * output. NULL, with a line in err: the file cannot be read or written.
 */
const Source *fix_program(const char *path, const Options *o, StrBuf *err);

#endif
