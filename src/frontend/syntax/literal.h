/*
 * literal.h - the values of number and string literals, and the lexer's list of mistakes.
 *
 * The lexer knows where a literal ends; these say what it means.  Mistakes are
 * listed, not emitted: the lexer may read a stretch of text again when it finds
 * that a bracket was never closed, and drops what it had said of it.
 */
#ifndef TSR_FRONTEND_LITERAL_H
#define TSR_FRONTEND_LITERAL_H

#include "frontend/syntax/ast.h"

typedef struct LexError {
    DiagCode code;
    Span span;
    const char *a, *b;          /* arguments of the message */
    const char *help, *fix;     /* fix replaces the span */
    Span other;                 /* labelled "opened here" when set */
} LexError;

typedef struct LexErrors { Vec(LexError) all; } LexErrors;

/* Append; the LexError returned may be completed until the next call. */
LexError *lex_error(LexErrors *e, DiagCode code, Span span, const char *a, const char *b);

typedef struct Literal {        /* where the text stands, for messages */
    Arena *arena;
    LexErrors *errors;
    uint32_t at;                /* position of its first byte */
} Literal;

/*
 * Digits with underscores in the given base.  Exactly 2^63 gives INT64_MIN and *edge (it is right
 * after a minus sign only); more than that reports and returns false.
 */
bool literal_int(Literal at, const char *s, size_t n, int base, int64_t *out, bool *edge);
double literal_float(const char *s, size_t n);

/* raw: no escapes; bytes: ASCII only; doubled: in an f-string, {{ and }} mean one brace */
typedef struct { bool raw, bytes, doubled; } StringForm;
/* The body of a string, between its quotes. Never NULL; false in *ok after a report. */
const AstText *literal_string(Literal at, const char *s, size_t n, StringForm form, bool *ok);

#endif
