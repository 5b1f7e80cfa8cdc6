/*
 * prelude.h - the names that every program sees without importing.
 *
 * They come from the native tables (natives.def) and from the index of
 * the .tsr files of stdlib/ that the build makes: one row a public name.  A row's value is
 * made on first use, so a program pays only for the library modules it touches.
 */
#ifndef TSR_FRONTEND_PRELUDE_H
#define TSR_FRONTEND_PRELUDE_H

#include "base/sym.h"

typedef enum { PRELUDE_NATIVE, PRELUDE_STDLIB } PreludeKind;

typedef struct PreludeRow {
    Sym name;
    PreludeKind kind;
    const char *module;         /* stdlib module that defines it, "" for natives */
    const void *native;         /* NativeDef * for natives, else NULL */
} PreludeRow;

int prelude_count(void);
const PreludeRow *prelude_row(int i);
int prelude_find(Sym name);                     /* -1 when there is none */

/* Source text of an embedded library module ("nn", "optim"); NULL when there is none. */
const char *stdlib_text(const char *module, size_t *len);
int stdlib_count(void);
const char *stdlib_name(int i);

#endif
