/*
 * token.h - what the lexer hands to the layout pass, and that to the parser.
 *
 * A TokenList holds a stretch of a file, or all of it: tokens in order, grouped into logical lines.
 * Kinds are the TOK_ numbers that Lemon makes from grammar/tessera.y.  A line
 * is its tokens up to and including NEWLINE; INDENT and DEDENT tokens stand at
 * the start of the line that they precede.  The lexer reports what is wrong
 * with characters and marks the line `bad`; nothing more is said of such a line.
 */
#ifndef TSR_FRONTEND_TOKEN_H
#define TSR_FRONTEND_TOKEN_H

#include "frontend/syntax/ast.h"
#include "tessera.h"

enum {
    TOKF_SPACE = 1,     /* white space stands before it */
    TOKF_BOL = 2,       /* first on its physical line */
    TOKF_RAW = 4        /* a keyword's spelling that is a name here (after a dot) */
};

typedef struct Token {
    uint8_t kind, flags;
    uint8_t op;             /* AstOp of CMP, AUG, SHIFT, IN */
    Span span;
    union {
        Sym sym;            /* NAME; keywords too, for messages */
        int64_t i;          /* INT */
        double r;           /* FLOAT IMAG */
        const AstText *text; /* STRING BYTES FTEXT */
    } u;
} Token;

typedef struct Line {
    int first, end;         /* tokens [first, end); the last is NEWLINE */
    bool bad;               /* not to be parsed: its one report is made */
    bool reported;          /* to be parsed, but its one report is made */
    bool stub;              /* an indented block is missing before it */
} Line;

enum { TOK_SKIP = 255 };    /* a token that the layout pass took out */

enum { NEST_MAX = 256, NAME_MAX_BYTES = 4096 };

typedef struct TokenList {
    Vec(Token) tok;
    Vec(Line) line;
    bool open;              /* the text ends inside a bracket, string, continued line or block */
} TokenList;

/* All of a text to tokens; errors go to the sink, comments and texts to the unit. `partial`: the text is still being typed. */
void lex_source(Unit *u, DiagSink *sink, TokenList *out, bool partial);
void tokens_done(TokenList *t);

/*
 * Settle what needs foresight: soft keywords, decorator signs, WITH_LPAR, and
 * the block structure (every INDENT belongs to a header, every header has one).
 */
typedef enum BlockKind { BLOCK_PLAIN, BLOCK_MATCH, BLOCK_DROPPED } BlockKind;
typedef struct Layout {
    Unit *unit;
    DiagSink *sink;
    TokenList *list;
    Vec(BlockKind) block;       /* one for each INDENT not yet closed */
    Sym match, kase, type, on, where;
} Layout;
void layout_begin(Layout *y, Unit *u, DiagSink *sink, TokenList *list);
void layout_lines(Layout *y, bool last);        /* those in the list, which follow those that were there before; last: the text ends with them */
void layout_done(Layout *y);

/* How a kind is spelled in messages: "':'", "name", "end of line". */
const char *token_name(int kind);
bool token_is_keyword(int kind);
/* All keywords and operators, for documents and editors: NULL past the end. */
const char *keyword_at(int i);
const char *operator_at(int i);

#endif
