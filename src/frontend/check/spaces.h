/*
 * spaces.h - the names that modules and namespaces hold, known without running them.
 *
 * A Space is a built-in namespace (natives of one owner, a library module,
 * `tessera` itself) or a .tsr file that an import finds.  A file is parsed for
 * the names of its top level only.
 *
 * What is built in never changes, so its trees and scopes are made once and
 * serve every check and every Interp of the process.  Files may change between
 * two checks: whoever does several calls spaces_drop_files between them.
 */
#ifndef TSR_FRONTEND_SPACES_H
#define TSR_FRONTEND_SPACES_H

#include "base/map.h"
#include "base/sym.h"
#include "base/vec.h"

#define LIBRARY_FOLDER "<stdlib>/"      /* where the built-in modules' sources are, as people see it */

typedef struct Space {
    const char *name;           /* dotted, as the program would import it */
    const char *path;           /* of the file; NULL: built in */
    Vec(Sym) names;
    Map has;                    /* Sym -> 1 */
    Vec(Sym) exported;          /* what `from m import *` gives */
    struct Unit *unit;          /* its tree; NULL for natives */
    struct Scope *scope;        /* once space_resolved was asked */
    bool open;                  /* did not parse or is made while running: any name may be there */
} Space;

/* The namespace or library module of this dotted name; NULL when there is none. */
const Space *space_builtin(const char *dotted);
/* What `import dotted` in the file `from` finds: beside the file, on TESSERA_PATH, built in; NULL: nothing.
 * level > 0: relative, that many folders up (1: the file's own). */
const Space *space_import(const char *dotted, int level, const char *from);
bool space_has(const Space *s, Sym name);
/* The namespace that attribute `name` of s is; NULL when it is a value or not there. */
const Space *space_member(const Space *s, Sym name);
/* The def or class statement that makes `name` at the top level of its source; NULL when there is none. */
struct Ast *space_definition(const Space *s, Sym name);
/* Its tree with its names resolved; NULL when it has no source or is not in order. */
struct Unit *space_resolved(const Space *s);
void spaces_drop_files(void);           /* and their sources */
/* Texts that count instead of the files of these paths: those that an editor has open. NULL from it, or for it: the file. */
typedef const char *SpaceText(void *state, const char *path, size_t *len);
void spaces_overlay(SpaceText *text, void *state);
void spaces_done(void);

#endif
