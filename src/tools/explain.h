/* explain.h - the pages of docs/explain, one for each diagnostic code, carried in the binary. */
#ifndef TSR_TOOLS_EXPLAIN_H
#define TSR_TOOLS_EXPLAIN_H

#include "base/strbuf.h"

#include <stdbool.h>

/* The page of a code ("E0301", any case). False: *err says what codes there are. */
bool explain_code(const char *code, StrBuf *out, StrBuf *err);
/* Every code with the title of its page. */
void explain_list(StrBuf *out);

#endif
