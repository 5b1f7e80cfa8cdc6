/* stdlib_embed.h - what stdlib/embed.py makes of the library's .tsr files; prelude.h is the way to it. */
#ifndef TSR_FRONTEND_STDLIB_EMBED_H
#define TSR_FRONTEND_STDLIB_EMBED_H

#include <stddef.h>

/* From byte `at` to the next piece: the def or class of a name, with its decorators, or what stands between them (NULL). */
typedef struct EmbeddedPiece { size_t at; const char *name; } EmbeddedPiece;

typedef struct EmbeddedModule {
    const char *name, *text;    /* name NULL ends the table */
    size_t len;
    const char *const *shown;   /* names in the prelude, NULL-terminated */
    const EmbeddedPiece *piece;
    int npiece;
} EmbeddedModule;
extern const EmbeddedModule stdlib_embedded[];

typedef struct EmbeddedMethod {
    const char *name;           /* NULL ends the table */
    const char *module;         /* whose function of that name it is, which the prelude does not show; NULL: the prelude's */
} EmbeddedMethod;
extern const EmbeddedMethod stdlib_methods[];  /* functions that are methods of tensors */

#endif
