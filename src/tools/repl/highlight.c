/*
 * The text is lexed as a Source that is never registered: drawing on every key
 * must not use up positions.  What the lexer could not read stays plain.
 */
#include "tools/repl/highlight.h"

#include "frontend/prelude.h"
#include "frontend/syntax/token.h"
#include "tools/repl/edit.h"

#include <string.h>

static EditStyle token_style(const Token *t)
{
    if (t->flags & TOKF_RAW)
        return STYLE_PLAIN;
    switch (t->kind) {
    case TOK_STRING:
    case TOK_BYTES:
    case TOK_FTEXT:
        return STYLE_STRING;
    case TOK_INT:
    case TOK_FLOAT:
    case TOK_IMAG:
        return STYLE_NUMBER;
    case TOK_NAME:
        return prelude_find(t->u.sym) >= 0 ? STYLE_NAME : STYLE_PLAIN;
    default:
        return token_is_keyword(t->kind) ? STYLE_KEYWORD : STYLE_PLAIN;
    }
}

static void fill(const Source *src, Span span, EditStyle s, uint8_t *style)
{
    uint32_t lo = span.lo - src->base, hi = span.hi - src->base;

    if (span.lo >= src->base && hi <= src->len && lo < hi)
        memset(style + lo, s, hi - lo);
}

void highlight(const char *text, size_t n, uint8_t *style)
{
    uint32_t first_line = 0;
    Source src = {.path = "<input>", .text = text, .len = (uint32_t)n, .base = 1, .line = &first_line, .nlines = 1};
    Unit u = {.src = &src};
    DiagSink sink = {0};
    TokenList list = {0};

    lex_source(&u, &sink, &list, true);
    for (int i = 0; i < list.tok.n; i++)
        fill(&src, list.tok.at[i].span, token_style(&list.tok.at[i]), style);
    for (int i = 0; i < u.comments.n; i++)
        fill(&src, u.comments.at[i].span, STYLE_COMMENT, style);
    tokens_done(&list);
    vec_free(&u.comments);
    arena_done(&u.arena);
    diag_sink_done(&sink);
}
