/* foreign.h - help for names that come from other languages and libraries. */
#ifndef TSR_FRONTEND_FOREIGN_H
#define TSR_FRONTEND_FOREIGN_H

#include "base/diag.h"

typedef struct { const char *where, *name, *ours, *help; } Foreign;

/* A row of foreign.def; NULL: there is none. */
const Foreign *foreign_find(const char *where, const char *name);
/* Says the row's help, and carries the edit of `name` where the name alone has to change. */
void foreign_help(Diag *d, const Foreign *f, Span name);
/* The last n bytes of an attribute's span: the name behind the dot. */
Span span_tail(Span s, const char *name);
/* The first ones: of a keyword, an imported name. */
Span span_head(Span s, const char *name);
/* What stands between the quotes of a text. */
Span span_quoted(Span s);

#endif
