/* cache.h - the folder of compiled kernels: where the user wants it, and the verb that shows it. */
#ifndef TSR_TOOLS_CACHE_H
#define TSR_TOOLS_CACHE_H

#include "tools/options.h"

void cache_begin(void);                 /* the store from the environment */
/* `tessera cache [clear]`: the exit code. Something in *err: what is wrong. */
int cache_verb(const Options *o, StrBuf *out, StrBuf *err);

#endif
