/*
 * Tokens and brackets.
 *
 * A bracket that is never closed would swallow the rest of the file.  So at the
 * end, or when a line at the statement's own indentation begins with a word
 * that only begins statements, the lexer goes back to the first line that looks
 * like a new statement, says where the bracket was opened, and reads on.
 */
#include "frontend/syntax/lexer.h"

#include <string.h>

/* ---- emitting ---- */

/* A mistake: the line has its report, so later ones on it are not listed. */
LexError *lex_mistake(Lexer *x, DiagCode code, Span span, const char *a, const char *b)
{
    static LexError unused;

    if (x->bad)
        return &unused;
    x->bad = true;
    return lex_error(&x->errors, code, span, a, b);
}

Token *lex_emit(Lexer *x, int kind)
{
    TokenList *o = x->out;
    Token *t;

    o->tok.at = vec_grow(o->tok.at, o->tok.n, &o->tok.cap, sizeof *t);
    t = &o->tok.at[o->tok.n++];
    *t = (Token){.kind = (uint8_t)kind, .flags = (uint8_t)(x->space * TOKF_SPACE | x->fresh * TOKF_BOL),
                 .span = lex_span_of(x, x->start, x->cur)};
    x->space = x->fresh = false;
    return t;
}

Token *lex_previous(Lexer *x)
{
    return x->out->tok.n > x->first ? &vec_last(&x->out->tok) : NULL;
}

bool lex_previous_is(Lexer *x, int kind)
{
    Token *t = lex_previous(x);

    return t && t->kind == kind;
}

void lex_op(Lexer *x, int kind, AstOp o)
{
    lex_emit(x, kind)->op = (uint8_t)o;
}

/* The logical line ends at `at`. */
void lex_end_line(Lexer *x, const char *at)
{
    Line l = {.first = x->first, .bad = x->bad};
    Token *t = lex_emit(x, TOK_NEWLINE);

    t->span = lex_span_of(x, at, at);
    l.end = x->out->tok.n;
    vec_push(&x->out->line, l);
    x->first = l.end;
    x->bad = false;
    x->bol = true;
}

/* ---- brackets ---- */

void lex_open_bracket(Lexer *x, char c, int kind, bool hole)
{
    Bracket b = {.open = c, .hole = hole, .pos = lex_pos_of(x, x->start)};

    if (x->br.n >= NEST_MAX)
        lex_mistake(x, E0121, lex_span_of(x, x->start, x->cur), "brackets are nested too deeply", NULL);
    else
        lex_emit(x, kind);
    vec_push(&x->br, b);
}

static const char *bracket_text(char c)
{
    return c == '(' ? "(" : c == '[' ? "[" : c == '{' ? "{" : c == ')' ? ")" : c == ']' ? "]" : "}";
}

/* The innermost open bracket that c would close, down to the innermost hole; -1: none. */
static int matching(const Lexer *x, char open)
{
    for (int i = x->br.n - 1; i >= 0; i--) {
        if (x->br.at[i].hole)
            return -1;
        if (x->br.at[i].open == open)
            return i;
    }
    return -1;
}

void lex_close_bracket(Lexer *x, char c, int kind)
{
    char open = c == ')' ? '(' : c == ']' ? '[' : '{';
    Span here = lex_span_of(x, x->start, x->cur);

    if (x->br.n && !vec_last(&x->br).hole && vec_last(&x->br).open == open) {
        x->br.n--;
        lex_emit(x, kind);
    } else if (x->br.n && !(vec_last(&x->br).hole && vec_last(&x->br).open == open)) {
        Bracket b = vec_last(&x->br);
        LexError *e = lex_mistake(x, E0110, here, bracket_text(c), bracket_text(b.open));
        int i = matching(x, open);
        e->other = (Span){b.pos, b.pos + 1};
        if (i >= 0)
            x->br.n = i;
    } else {
        lex_mistake(x, E0109, here, bracket_text(c), NULL);
    }
}

/* ---- going back when a bracket was never closed ---- */

static int column(const Lexer *x, const char *p)
{
    const char *b = p;
    int col = 0;

    while (b > x->text && b[-1] != '\n' && b[-1] != '\r')
        b--;
    for (; b < p && (*b == ' ' || *b == '\t' || *b == '\f'); b++)
        col = *b == '\t' ? (col / 8 + 1) * 8 : *b == '\f' ? 0 : col + 1;
    return col;
}

static bool could_begin(int kind)
{
    switch (kind) {
    case TOK_RPAR: case TOK_RSQB: case TOK_RBRACE: case TOK_FRBRACE: case TOK_FTEXT: case TOK_FEND:
    case TOK_COMMA: case TOK_DOT: case TOK_COLON: case TOK_EQ: case TOK_CMP: case TOK_AUG:
    case TOK_PLUS: case TOK_SLASH: case TOK_AND: case TOK_OR: case TOK_PERCENT: case TOK_VBAR:
        return false;
    default:
        return true;
    }
}

/* First token after the outermost open bracket that starts a line no deeper than the statement. */
int lex_resync_token(const Lexer *x)
{
    const Token *tok = x->out->tok.at;
    int first = x->first, limit;

    while (first < x->out->tok.n && (tok[first].kind == TOK_INDENT || tok[first].kind == TOK_DEDENT))
        first++;
    if (first >= x->out->tok.n)
        return -1;
    limit = column(x, x->text + (tok[first].span.lo - x->base));
    for (int i = first + 1; i < x->out->tok.n; i++)
        if ((tok[i].flags & TOKF_BOL) && tok[i].span.lo > x->br.at[0].pos && could_begin(tok[i].kind) &&
            column(x, x->text + (tok[i].span.lo - x->base)) <= limit)
            return i;
    return -1;
}

static void drop_after(Lexer *x, uint32_t pos)
{
    while (x->unit->comments.n && vec_last(&x->unit->comments).span.lo >= pos)
        x->unit->comments.n--;
    while (x->errors.all.n && vec_last(&x->errors.all).span.lo >= pos)
        x->errors.all.n--;
}

/*
 * Report the innermost open bracket and go on at the line of token k, or at the
 * end when k < 0.  Whatever was read after that line's start is forgotten.
 */
void lex_never_closed(Lexer *x, int k)
{
    Bracket b = vec_last(&x->br);
    const char *back = x->cur;

    if (k >= 0) {
        back = x->text + (x->out->tok.at[k].span.lo - x->base);
        while (back > x->text && back[-1] != '\n' && back[-1] != '\r')
            back--;
        x->reread += (size_t)(x->cur - back);
        drop_after(x, lex_pos_of(x, back));
        x->out->tok.n = k;
    }
    if (x->errors.all.n == 0 || vec_last(&x->errors.all).span.lo < x->out->tok.at[x->first].span.lo)
        x->bad = false;
    if (b.hole)
        lex_mistake(x, E0118, (Span){b.pos, b.pos + 1}, "this '{' was never closed: expected '}'", NULL);
    else
        lex_mistake(x, E0108, (Span){b.pos, b.pos + 1}, bracket_text(b.open), NULL);
    x->br.n = x->fs.n = 0;
    x->cur = back;
    lex_end_line(x, back);
}

enum { REREAD_FACTOR = 8 };     /* the text may be gone over so many times in all */

bool lex_may_go_back(const Lexer *x)
{
    return !x->forward && x->reread < REREAD_FACTOR * (size_t)(x->end - x->text) + 4096;
}

/* A word that only begins statements, at the start of a line, while brackets are open. */
bool lex_begins_statement(int kind)
{
    switch (kind) {
    case TOK_DEF: case TOK_CLASS: case TOK_RETURN: case TOK_IMPORT: case TOK_WHILE: case TOK_TRY: case TOK_WITH:
    case TOK_RAISE: case TOK_ASSERT: case TOK_PASS: case TOK_BREAK: case TOK_CONTINUE: case TOK_DEL: case TOK_GLOBAL:
    case TOK_NONLOCAL:
        return true;
    default:
        return false;
    }
}
