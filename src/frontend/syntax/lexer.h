/*
 * lexer.h - the lexer's state, and what its files do for one another.
 *
 * grammar/tessera.re recognises tokens and lines; lex_bracket.c keeps the stack
 * of brackets and goes back when one was never closed; lex_word.c makes names
 * and numbers; lex_string.c reads strings and f-strings.
 */
#ifndef TSR_FRONTEND_LEXER_H
#define TSR_FRONTEND_LEXER_H

#include "frontend/syntax/literal.h"
#include "frontend/syntax/token.h"

typedef struct Bracket {
    char open;                  /* ( [ { */
    bool hole, spec;            /* the brace of an f-string's hole; its format spec has begun */
    uint32_t pos;
} Bracket;

typedef struct FString {
    char quote;
    bool triple, raw;
    bool text;                  /* reading text, not a hole's expression */
    int depth;                  /* brackets open around it */
    const char *start;
} FString;

typedef struct { int col, alt, alias; } Indent;

typedef struct Lexer {
    Unit *unit;
    TokenList *out;
    LexErrors errors;
    const char *text, *end;
    const char *cur, *start;        /* next byte; first byte of the token */
    const char *line;               /* start of the physical line */
    uint32_t base;
    Vec(Bracket) br;
    Vec(FString) fs;
    Vec(Indent) indent;
    int first;                      /* first token of the logical line */
    int line_depth;                 /* brackets open where the physical line starts */
    size_t reread;                  /* bytes gone back over, bounded */
    bool bol;                       /* at the start of a logical line */
    bool fresh;                     /* next token is the first of its physical line */
    bool space, bad, end_seen;
    bool too_deep;                  /* said once that blocks are nested too deeply */
    bool forward;                   /* never go back: the text is still being typed */
    int portion;                    /* so many tokens are enough for once ... */
    bool full;                      /* ... and they are there */
} Lexer;

/*
 * A long text is read in portions, so that its tokens are parsed while they are near to the processor.  A portion ends where
 * a statement begins at the margin: what is behind it needs no look at what is before.  `out` belongs to the caller, who
 * empties it for each portion.
 */
void lex_begin(Lexer *x, Unit *u, TokenList *out, bool partial, int portion);
bool lex_portion(Lexer *x, DiagSink *sink);         /* false: it was the last */
void lex_done(Lexer *x);

static inline uint32_t lex_pos_of(const Lexer *x, const char *p) { return x->base + (uint32_t)(p - x->text); }
static inline Span lex_span_of(const Lexer *x, const char *from, const char *to)
{
    return (Span){lex_pos_of(x, from), lex_pos_of(x, to)};
}

/* A mistake: the line has its report, so later ones on it are not listed. */
LexError *lex_mistake(Lexer *x, DiagCode code, Span span, const char *a, const char *b);
Token *lex_emit(Lexer *x, int kind);
Token *lex_previous(Lexer *x);                  /* NULL at the start of a line */
bool lex_previous_is(Lexer *x, int kind);
void lex_op(Lexer *x, int kind, AstOp o);
/* The logical line ends at `at`. */
void lex_end_line(Lexer *x, const char *at);
void lex_open_bracket(Lexer *x, char c, int kind, bool hole);
void lex_close_bracket(Lexer *x, char c, int kind);
/* First token after the outermost open bracket that starts a line no deeper than the statement; -1: none. */
int lex_resync_token(const Lexer *x);
/* Report the innermost open bracket and go on at the line of token k, or at the end when k < 0. */
void lex_never_closed(Lexer *x, int k);
bool lex_may_go_back(const Lexer *x);           /* the text is gone over a bounded number of times */
/* A word that only begins statements. */
bool lex_begins_statement(int kind);
void lex_keyword(Lexer *x, int kind);
void lex_name(Lexer *x);
void lex_wide_name(Lexer *x);
void lex_integer(Lexer *x, int skip, int base);
void lex_real(Lexer *x, int kind, int suffix);
void lex_string(Lexer *x);
void lex_fstring(Lexer *x);
/* The text of an f-string or of a format spec, up to what ends or interrupts it. */
void lex_fstring_text(Lexer *x);
/* Is the scanner directly inside a hole's braces, so that } : ! = are the hole's own? */
bool lex_at_hole(const Lexer *x);
void lex_right_brace(Lexer *x);
bool lex_colon_of_hole(Lexer *x);
void lex_equals(Lexer *x);

#endif
