/* stdlib_embed.h - what stdlib/embed.py makes of the library's .tsr files; prelude.h is the way to it. */
#ifndef TSR_FRONTEND_STDLIB_EMBED_H
#define TSR_FRONTEND_STDLIB_EMBED_H

#include <stddef.h>

typedef struct EmbeddedModule {
    const char *name, *text;    /* name NULL ends the table */
    size_t len;
    const char *const *names;   /* public ones, NULL-terminated */
    const char *const *shown;   /* those in the prelude */
} EmbeddedModule;
extern const EmbeddedModule stdlib_embedded[];

#endif
