/* inspect.h - the op table as a user reads it. */
#ifndef TSR_TOOLS_INSPECT_H
#define TSR_TOOLS_INSPECT_H

#include "base/strbuf.h"

#include <stdbool.h>

/* The row of one op, a property a line. False: *err says that there is none, and what is near. */
bool inspect_op(const char *name, StrBuf *out, StrBuf *err);
/* Every op with what it does. */
void inspect_list(StrBuf *out);

#endif
