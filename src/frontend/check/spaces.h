/*
 * spaces.h - the names that modules and namespaces hold, known without running them.
 *
 * A Space is a built-in namespace (natives of one owner, a library module,
 * `tessera` itself) or a .tsr file that an import finds.  Its source is read in
 * pieces (pieces.c): a file is one, a library module has one for each def and
 * class, which are parsed and resolved when they are asked for.
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

#include <string.h>

#define LIBRARY_FOLDER "<stdlib>/"      /* where the built-in modules' sources are, as people see it */
static inline bool is_of_library(const char *path) { return path && !strncmp(path, LIBRARY_FOLDER, sizeof LIBRARY_FOLDER - 1); }

typedef struct Piece {
    uint32_t at, end;           /* bytes of the text */
    Sym name;                   /* of its def or class; NULL: other statements */
    struct Unit *unit;          /* its tree, once it is needed */
    bool resolved;
} Piece;

typedef struct Space {
    const char *name;           /* dotted, as the program would import it */
    const char *path;           /* of the file; NULL: built in */
    Vec(Sym) names;
    Map has;                    /* Sym -> 1 */
    Vec(Sym) exported;          /* what `from m import *` gives */
    const struct Source *src;   /* NULL for natives */
    Vec(Piece) piece;           /* of its text, in order */
    struct Unit *unit;          /* the whole tree, once space_resolved was asked */
    struct Scope *scope;        /* once space_scope was asked */
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
void spaces_look_again(void);           /* files that were not there may have come: before a program's names are resolved */
void spaces_drop_files(void);           /* and their sources */
/* Texts that count instead of the files of these paths: those that an editor has open. NULL from it, or for it: the file. */
typedef const char *SpaceText(void *state, const char *path, size_t *len);
void spaces_overlay(SpaceText *text, void *state);
void spaces_done(void);
void space_add(Space *s, Sym name);
void space_export_public(Space *s);

/* pieces.c: sources. What follows is NULL where a space has no source or it is not in order. */
struct EmbeddedPiece;
/* Cut as told, or, with none, one piece. What stands between definitions is parsed for the names that it binds. */
void pieces_read(Space *s, const char *path, const char *text, size_t len, const struct EmbeddedPiece *cut, int ncut);
void pieces_done(Space *s);
/* The def or class statement that makes `name` at the top level, maybe not resolved; NULL when there is none. */
struct Ast *space_definition(const Space *s, Sym name);
/* The names of its top level, all of them, with what stands between definitions resolved. */
struct Scope *space_scope(const Space *s);
/* The piece that is the def or class of `name`; -1: there is none. */
int space_piece_of(const Space *s, Sym name);
/* The tree of a piece, its names resolved; after space_scope. */
struct Unit *space_piece(const Space *s, int i);
/* The whole tree with its names resolved. */
struct Unit *space_resolved(const Space *s);

#endif
