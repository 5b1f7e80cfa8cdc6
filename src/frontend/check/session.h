/*
 * session.h - files that stay open while they are edited, and what is wrong with them at each moment.
 *
 * What a language server asks for: open files, edit them, ask what a check of
 * the present text would say.  The answer is that of a fresh check.  A session
 * keeps the trees of what was not edited, and what was found in statements that
 * nothing ties to an edit - no name of the module, in code, text or annotation,
 * leads from one to the other.  An open file counts instead of the one on disk
 * when another imports it.
 *
 * One session at a time; the checker's tables are the process's.
 */
#ifndef TSR_FRONTEND_SESSION_H
#define TSR_FRONTEND_SESSION_H

#include "base/diag.h"

typedef struct Session Session;
typedef struct OpenFile OpenFile;

Session *session_new(void);
void session_free(Session *s);                          /* and the files that are still open */

/* NULL: the text is too long or not UTF-8. The path is what imports of others find it by. */
OpenFile *session_open(Session *s, const char *path, const char *text, size_t len);
void session_close(OpenFile *f);
/* Bytes [lo, hi) become these. false, with nothing changed: there are no such bytes, or the text would not be one. */
bool session_edit(OpenFile *f, uint32_t lo, uint32_t hi, const char *text, size_t len);
/* What a check says now; valid until the file's next edit or check. */
const DiagSink *session_check(OpenFile *f);
const Source *session_source(const OpenFile *f);        /* its present text */

#endif
