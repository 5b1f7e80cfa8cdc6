/*
 * code.h - machine code in memory, from the bytes of an object file.
 *
 * The compiler makes ELF objects, which it also keeps on disk; this makes them
 * callable, without the compiler.  Code calls only what is offered to it by
 * name.  Threads may load, find and free at the same time.
 */
#ifndef TSR_RUNTIME_CODE_H
#define TSR_RUNTIME_CODE_H

#include "base/strbuf.h"

typedef struct Code Code;
typedef void CodeFn(void);
typedef struct CodeSymbol { const char *name; CodeFn *address; } CodeSymbol;

/* Let code call these. The table stays the caller's and outlives all code; offers come before the first load. */
void code_offer(const CodeSymbol *table, int n);

/* NULL: *err says why these bytes are no object that can be loaded here, or what they call that nobody offers. */
Code *code_load(const void *object, size_t n, StrBuf *err);
CodeFn *code_find(const Code *c, const char *name);     /* a function that the object defines; NULL: it does not */
void code_free(Code *c);

#endif
