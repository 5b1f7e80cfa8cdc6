/* json.h - the module json, between its files. */
#ifndef TSR_FRONTEND_JSON_H
#define TSR_FRONTEND_JSON_H

#include "frontend/lib/lib.h"

/* json_dumps.c: a = obj, skipkeys, ensure_ascii, allow_nan, indent, separators, default, sort_keys, cls; the text. */
Value json_dumps(Interp *I, Value *a);
/* a = obj, fp, then as json_dumps; None. */
Value json_dump(Interp *I, Value *a);

#endif
