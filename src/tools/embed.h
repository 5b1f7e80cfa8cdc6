/* embed.h - files carried in the binary, as tables that embed.py writes. */
#ifndef TSR_TOOLS_EMBED_H
#define TSR_TOOLS_EMBED_H

#include <stddef.h>

typedef struct Embedded { const char *name, *text; size_t len; } Embedded;

extern const Embedded explain_pages[];
extern const int explain_pages_count;

#endif
