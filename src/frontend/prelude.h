/*
 * prelude.h - the names that every program sees without importing.
 *
 * They come from the native tables (natives.def) and from the index of
 * the .tsr files of stdlib/ that the build makes: one row a public name.  A row's value is
 * made on first use, so a program pays only for the library modules it touches.
 *
 * A module's public names are its top-level definitions that do not begin with _,
 * or those of its `__all__ = [...]`.  They enter the prelude unless the module
 * says otherwise with `__prelude__ = [...]` (statistics: `__prelude__ = []`).
 * Natives win over library definitions, both win over namespaces.  The
 * namespaces are `tessera` and `ts` (all of the prelude), each library module and
 * each owner of natives that is no type.
 */
#ifndef TSR_FRONTEND_PRELUDE_H
#define TSR_FRONTEND_PRELUDE_H

#include "base/sym.h"

typedef enum {
    PRELUDE_NATIVE, PRELUDE_STDLIB, PRELUDE_SPACE,
    PRELUDE_EXCEPTION           /* a class of exceptions.def: exc_class by name */
} PreludeKind;

typedef struct PreludeRow {
    Sym name;
    PreludeKind kind;
    const char *module;         /* stdlib module that defines it; a namespace's own name; "" for natives */
    const void *native;         /* NativeDef * for natives, else NULL */
} PreludeRow;

int prelude_count(void);                        /* how many names programs see */
int prelude_room(void);                         /* how many rows there are: behind those names stand functions that are only methods */
const PreludeRow *prelude_row(int i);
int prelude_find(Sym name);                     /* -1 when there is none */
int prelude_method(Sym name);                   /* the row of a function that tensors have as a method, too; -1 when there is none */
void prelude_done(void);                        /* at exit, for leak checkers */

/* Does this dotted name ("math", "os", "os.path", "tessera", "nn") name a namespace or module that is built in? */
bool space_exists(const char *dotted);

/* Source text of an embedded library module ("nn", "optim"); NULL when there is none. */
const char *stdlib_text(const char *module, size_t *len);
/* The pieces that its text is made of (stdlib_embed.h); NULL when there is no such module. */
const struct EmbeddedPiece *stdlib_pieces(const char *module, int *n);
const char *stdlib_name(int i);                 /* NULL behind the last */

#endif
