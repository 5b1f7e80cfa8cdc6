/*
 * chunks.h - a file's text in pieces that are parsed one by one, so that an edit costs what it touches.
 *
 * A chunk is the statements that begin on one line at the left margin, with
 * all that is indented below it.  When an edit leaves the file in order, only
 * the chunks that it touches are parsed again; the others keep their trees,
 * whose places move along.  A file with a syntax error is parsed as a whole.
 */
#ifndef TSR_FRONTEND_CHUNKS_H
#define TSR_FRONTEND_CHUNKS_H

#include "base/map.h"
#include "frontend/syntax/ast.h"

/* A text that was parsed in one go, and how many chunks still live in its tree. */
typedef struct Part { Unit *u; int live; } Part;

typedef struct Chunk {
    uint32_t at;                /* where it begins in the text */
    Part *part;
    Ast **stmt;
    int n;
    Sym *word;                  /* the names in its text, each once */
    int nword;
    bool fresh;                 /* new since the flag was taken back */
    bool imports;               /* nothing but imports */
    DiagSink found;             /* of its owner's: what was found in it, with places in the present text */
} Chunk;

typedef Vec(Chunk) ChunkVec;

typedef struct Chunks {
    const Source *src;
    ChunkVec all;
    DiagSink syntax;            /* with an error the rest means nothing */
    Map gone;                   /* Sym -> 1: words of chunks that went away, until the owner empties it */
    bool whole;                 /* parsed as a whole since the flag was taken back */
    bool odd;                   /* has names that are not ASCII, which have several spellings */
} Chunks;

/* Read a new text; it stays the caller's. false: it is too long or not UTF-8. */
bool chunks_read(Chunks *c, const char *path, const char *text, size_t len);
/* Bytes [lo, hi) become these. false: no such bytes, or as above; nothing is changed then. */
bool chunks_edit(Chunks *c, uint32_t lo, uint32_t hi, const char *text, size_t len);
int chunk_at(const Chunks *c, uint32_t pos);            /* the chunk that a position of the source is in; -1: there are none */
void chunks_done(Chunks *c);

#endif
