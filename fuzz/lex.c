/*
 * lex.c - any bytes, cut into tokens.
 *
 * Tokens stand in order inside the text, lines share them out without a gap,
 * and indents match dedents.  In a text without errors only white space, line
 * continuations and comments lie between two tokens.
 */
#include "targets.h"

#include "frontend/syntax/token.h"

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f' || c == '\r' || c == '\n' || c == '\\';
}

/* The comment that begins at `pos` ends where? 0 when there is none. */
static uint32_t comment_end(const Unit *u, uint32_t pos)
{
    int lo = 0, hi = u->comments.n;

    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (u->comments.at[mid].span.lo < pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < u->comments.n && u->comments.at[lo].span.lo == pos ? u->comments.at[lo].span.hi : 0;
}

static void check_gap(const Unit *u, uint32_t from, uint32_t to)
{
    if (from == u->src->base && to - from >= 3 && (unsigned char)u->src->text[0] == 0xEF)
        from += 3;                                              /* the byte order mark */
    while (from < to) {
        uint32_t end = comment_end(u, from);
        if (!end && !blank(u->src->text[from - u->src->base]))
            tsr_bug("text between tokens at %u", from - u->src->base);
        from = end ? end : from + 1;
    }
}

static void check_tokens(const Unit *u, const TokenList *list, bool clean)
{
    uint32_t at = u->src->base;
    int depth = 0;

    for (int i = 0; i < list->tok.n; i++) {
        const Token *t = &list->tok.at[i];
        if (t->span.lo > t->span.hi || t->span.hi > u->src->base + u->src->len || t->span.lo < u->src->base)
            tsr_bug("token %d lies outside the text", i);
        depth += (t->kind == TOK_INDENT) - (t->kind == TOK_DEDENT);
        if (depth < 0)
            tsr_bug("a dedent too many at token %d", i);
        if (t->kind == TOK_INDENT || t->kind == TOK_DEDENT || t->kind == TOK_NEWLINE)
            continue;
        if (clean && t->span.lo < at)
            tsr_bug("token %d overlaps the one before", i);
        if (clean)
            check_gap(u, at, t->span.lo);
        at = t->span.hi;
    }
    if (depth)
        tsr_bug("%d indents too many", depth);
}

static void check_lines(const TokenList *list)
{
    int at = 0;

    for (int i = 0; i < list->line.n; i++) {
        if (list->line.at[i].first != at || list->line.at[i].end <= at)
            tsr_bug("line %d does not begin where the one before ended", i);
        at = list->line.at[i].end;
        if (list->tok.at[at - 1].kind != TOK_NEWLINE)
            tsr_bug("line %d does not end in a line end", i);
    }
}

void fuzz_lex(const uint8_t *data, size_t n)
{
    Unit u = {.src = source_add("fuzz.tsr", (const char *)data, n)};
    DiagSink sink = {0};
    TokenList list = {0};
    Layout y;

    lex_source(&u, &sink, &list, false);
    check_tokens(&u, &list, !sink.errors);
    check_lines(&list);
    layout_begin(&y, &u, &sink, &list);
    layout_lines(&y, true);
    layout_done(&y);
    tokens_done(&list);
    diag_sink_done(&sink);
    vec_free(&u.comments);
    arena_done(&u.arena);
    source_done();
}
