/*
 * What an LALR(1) parser cannot see coming, settled on the list of tokens.
 *
 * Soft keywords (match case type on where) are names until the shape of their
 * line says otherwise.  At depth 0 of a decorator line every @ begins a new
 * decorator.  A parenthesised list of managers after `with` is told from an
 * expression by the `as` in it.  And blocks are made regular: a header whose
 * block is missing gets a stub, an indent that nothing opened is taken out, so
 * that the grammar meets only well-formed blocks and each mistake is said once.
 */
#include "frontend/syntax/token.h"

#include <string.h>

static Token *token_at(Layout *y, int i)
{
    return &y->list->tok.at[i];
}

/* First token of a line that is not INDENT or DEDENT. */
static int content(Layout *y, int line)
{
    int i = y->list->line.at[line].first;

    while (token_at(y, i)->kind == TOK_INDENT || token_at(y, i)->kind == TOK_DEDENT || token_at(y, i)->kind == TOK_SKIP)
        i++;
    return i;
}

static bool is_name(Layout *y, int i, Sym s)
{
    Token *t = token_at(y, i);

    return t->kind == TOK_NAME && t->u.sym == s && !(t->flags & TOKF_RAW);
}

/* Does the line open a deeper level? (It may have DEDENTs or one INDENT before its content, never both.) */
static bool indented(Layout *y, int line)
{
    return line < y->list->line.n && token_at(y, y->list->line.at[line].first)->kind == TOK_INDENT;
}

static bool ends_in_colon(Layout *y, int line)
{
    int end = y->list->line.at[line].end;

    return end - 2 >= y->list->line.at[line].first && token_at(y, end - 2)->kind == TOK_COLON;
}

static bool opens_bracket(int kind)
{
    return kind == TOK_LPAR || kind == TOK_LSQB || kind == TOK_LBRACE || kind == TOK_FLBRACE || kind == TOK_WITH_LPAR;
}

static bool closes_bracket(int kind)
{
    return kind == TOK_RPAR || kind == TOK_RSQB || kind == TOK_RBRACE || kind == TOK_FRBRACE;
}

/* The token after the bracket that closes the one at i; `end` when it does not close. */
static int after_bracket(Layout *y, int i, int end)
{
    int depth = 0;

    for (; i < end; i++) {
        int k = token_at(y, i)->kind;
        depth += opens_bracket(k) - closes_bracket(k);
        if (!depth)
            return i + 1;
    }
    return end;
}

/* First token of kind k at depth 0 in [i, end), or end. */
static int find_outside(Layout *y, int i, int end, int kind)
{
    while (i < end && token_at(y, i)->kind != kind)
        i = opens_bracket(token_at(y, i)->kind) ? after_bracket(y, i, end) : i + 1;
    return i < end ? i : end;
}

/* ---- soft keywords ---- */

/* After a name, this token cannot continue an expression: the name was a keyword. */
static bool begins_operand(int kind)
{
    switch (kind) {
    case TOK_NAME: case TOK_INT: case TOK_FLOAT: case TOK_IMAG: case TOK_STRING: case TOK_BYTES: case TOK_FSTART:
    case TOK_NONE: case TOK_TRUE: case TOK_FALSE: case TOK_ELLIPSIS: case TOK_LAMBDA: case TOK_NOT: case TOK_AWAIT:
    case TOK_TILDE:
        return true;
    default:
        return false;
    }
}

static bool is_match(Layout *y, int line, int i)
{
    if (!is_name(y, i, y->match))
        return false;
    if (indented(y, line + 1) && is_name(y, content(y, line + 1), y->kase))
        return token_at(y, i + 1)->kind != TOK_EQ && token_at(y, i + 1)->kind != TOK_COLON;
    return begins_operand(token_at(y, i + 1)->kind) && ends_in_colon(y, line);
}

static bool is_on(Layout *y, int line, int i)
{
    return is_name(y, i, y->on) &&
           (begins_operand(token_at(y, i + 1)->kind) ||
            (ends_in_colon(y, line) && indented(y, line + 1) && token_at(y, i + 1)->kind != TOK_COLON));
}

/* type X = ..., at the start of a simple statement. */
static void find_type(Layout *y, int i, int end)
{
    int start = i;

    for (; i + 1 < end; i = opens_bracket(token_at(y, i)->kind) ? after_bracket(y, i, end) : i + 1)
        if (is_name(y, i, y->type) && token_at(y, i + 1)->kind == TOK_NAME &&
            (i == start || token_at(y, i - 1)->kind == TOK_SEMI || token_at(y, i - 1)->kind == TOK_COLON))
            token_at(y, i)->kind = TOK_TYPE;
}

/* where, behind the parameter list of a def at i. */
static void find_where(Layout *y, int i, int end)
{
    i = find_outside(y, i, end, TOK_LPAR);
    i = i < end ? after_bracket(y, i, end) : end;
    for (; i < end && token_at(y, i)->kind != TOK_COLON;
         i = opens_bracket(token_at(y, i)->kind) ? after_bracket(y, i, end) : i + 1)
        if (is_name(y, i, y->where) && token_at(y, i - 1)->kind != TOK_ARROW && i + 1 < end &&
            token_at(y, i + 1)->kind != TOK_COLON) {
            token_at(y, i)->kind = TOK_WHERE;
            return;
        }
}

static void find_with_list(Layout *y, int i, int end)
{
    int close, k;

    if (i + 1 >= end || token_at(y, i + 1)->kind != TOK_LPAR)
        return;
    close = after_bracket(y, i + 1, end) - 1;
    if (close + 1 >= end || token_at(y, close + 1)->kind != TOK_COLON)
        return;
    k = find_outside(y, i + 2, close, TOK_AS);
    if (k < close || find_outside(y, i + 2, close, TOK_COMMA) < close)
        token_at(y, i + 1)->kind = TOK_WITH_LPAR;
}

/* Every @ at depth 0 begins a decorator; returns where a definition on the same line begins, or end. */
static int find_decorators(Layout *y, int i, int end)
{
    while (i < end) {
        int k = token_at(y, i)->kind;
        if (k == TOK_DEF || k == TOK_CLASS || k == TOK_ASYNC)
            return i;
        if (k == TOK_AT)
            token_at(y, i)->kind = TOK_DECORATOR;
        i = opens_bracket(k) ? after_bracket(y, i, end) : i + 1;
    }
    return end;
}

static bool begins_definition(int kind)
{
    return kind == TOK_DEF || kind == TOK_CLASS || kind == TOK_ASYNC || kind == TOK_AT || kind == TOK_DECORATOR;
}

static void decorators_alone(Layout *y, int line, int i)
{
    Line *l = &y->list->line.at[line];
    bool next = line + 1 < y->list->line.n && token_at(y, l->end)->kind != TOK_DEDENT &&
                token_at(y, l->end)->kind != TOK_INDENT;

    if (next && begins_definition(token_at(y, content(y, line + 1))->kind))
        return;
    if (!l->bad)
        DIAG_AT(y->sink, E0144, token_at(y, i)->span, NULL);
    l->bad = true;
    y->list->open |= line + 1 == y->list->line.n;
}

/* Give the words of a line their kinds. */
static void settle_words(Layout *y, int line)
{
    int i = content(y, line), end = y->list->line.at[line].end - 1;

    if (y->list->line.at[line].bad || i >= end)
        return;
    if (token_at(y, i)->kind == TOK_AT) {
        int d = find_decorators(y, i, end);
        if (d == end)
            decorators_alone(y, line, i);
        i = d;
    }
    if (y->block.n && vec_last(&y->block) == BLOCK_MATCH && is_name(y, i, y->kase))
        token_at(y, i)->kind = TOK_CASE;
    else if (is_match(y, line, i))
        token_at(y, i)->kind = TOK_MATCH;
    else if (is_on(y, line, i))
        token_at(y, i)->kind = TOK_ON;
    find_type(y, i, end);
    if (token_at(y, i)->kind == TOK_ASYNC && i + 1 < end)
        i++;
    if (token_at(y, i)->kind == TOK_DEF)
        find_where(y, i, end);
    if (token_at(y, i)->kind == TOK_WITH)
        find_with_list(y, i, end);
}

/* ---- blocks ---- */

/* The word that makes a line a header, or -1. */
static int header_word(Layout *y, int line)
{
    int i = content(y, line), end = y->list->line.at[line].end;

    if (token_at(y, i)->kind == TOK_DECORATOR)
        i = find_decorators(y, i, end - 1);
    if (token_at(y, i)->kind == TOK_ASYNC)
        i++;
    switch (token_at(y, i)->kind) {
    case TOK_IF: case TOK_ELIF: case TOK_ELSE: case TOK_WHILE: case TOK_FOR: case TOK_TRY: case TOK_EXCEPT:
    case TOK_FINALLY: case TOK_WITH: case TOK_DEF: case TOK_CLASS: case TOK_MATCH: case TOK_CASE: case TOK_ON:
        return i;
    default:
        return -1;
    }
}

/* Must the next line be indented? */
static bool opens_block(Layout *y, int line)
{
    int end = y->list->line.at[line].end - 1, word = header_word(y, line);

    if (y->list->line.at[line].bad)
        return indented(y, line + 1);
    if (word >= 0)
        return ends_in_colon(y, line) ||
               (indented(y, line + 1) && find_outside(y, word, end, TOK_COLON) == end);
    return ends_in_colon(y, line) && indented(y, line + 1);
}

static const char *block_name(Layout *y, int line)
{
    int i = header_word(y, line);

    if (i < 0)
        return "this line";
    switch (token_at(y, i)->kind) {
    case TOK_DEF: return "function definition";
    case TOK_CLASS: return "class definition";
    default: {
        Span s = token_at(y, i)->span;
        return arena_printf(&y->unit->arena, "'%.*s'", (int)(s.hi - s.lo), y->unit->src->text + (s.lo - y->unit->src->base));
    }
    }
}

/* The header at `line` has no block: say so at the token where it should begin. */
static void missing_block(Layout *y, int line, Span at)
{
    Span head = token_at(y, content(y, line))->span;
    const char *number = arena_printf(&y->unit->arena, "%u", source_place(head.lo).line);
    Diag *d;

    if (y->list->line.at[line].bad)
        return;
    d = DIAG_AT(y->sink, E0104, at, block_name(y, line), number);
    diag_label(d, head, "the block of this line is missing");
    diag_help(d, "indent the lines that belong to it, or write 'pass' for an empty block");
}

/* Match the line's INDENT and DEDENTs with what the line before asked for. */
static void settle_block(Layout *y, int line, bool open, bool match)
{
    Line *l = &y->list->line.at[line];
    int first = content(y, line);

    for (int i = l->first; i < first; i++) {
        Token *t = token_at(y, i);
        BlockKind kind = match ? BLOCK_MATCH : BLOCK_PLAIN;
        if (t->kind == TOK_DEDENT && vec_pop(&y->block) == BLOCK_DROPPED)
            t->kind = TOK_SKIP;
        if (t->kind != TOK_INDENT)
            continue;
        if (!open) {
            if (!l->bad && !l->reported)
                diag_help(DIAG_AT(y->sink, E0105, token_at(y, first)->span, NULL),
                          "align it with the lines of the block it belongs to");
            l->reported = true;
            t->kind = TOK_SKIP;
            kind = BLOCK_DROPPED;
        }
        vec_push(&y->block, kind);
    }
}

static void settle_line(Layout *y, int line)
{
    bool open = line > 0 && opens_block(y, line - 1);
    int word = line > 0 ? header_word(y, line - 1) : -1;
    bool match = open && word >= 0 && token_at(y, word)->kind == TOK_MATCH && !y->list->line.at[line - 1].bad;
    Line *l = &y->list->line.at[line];

    if (open && !indented(y, line)) {
        if (!l->bad)
            missing_block(y, line - 1, token_at(y, content(y, line))->span);
        l->reported = true;
        l->stub = true;
    }
    settle_block(y, line, open, match);
    settle_words(y, line);
}

/* After the last line: its missing block, and the DEDENTs before the end. */
static void settle_end(Layout *y)
{
    int n = y->list->line.n, end = n ? vec_last(&y->list->line).end : 0;

    if (n && opens_block(y, n - 1)) {
        Span s = token_at(y, content(y, n - 1))->span;
        missing_block(y, n - 1, s);
        y->list->open = true;
        vec_last(&y->list->line).bad = true;
    }
    for (int i = end; i < y->list->tok.n; i++)
        if (token_at(y, i)->kind == TOK_DEDENT && y->block.n && vec_pop(&y->block) == BLOCK_DROPPED)
            token_at(y, i)->kind = TOK_SKIP;
}

void layout_begin(Layout *y, Unit *u, DiagSink *sink, TokenList *list)
{
    *y = (Layout){.unit = u, .sink = sink, .list = list, .match = sym("match"), .kase = sym("case"), .type = sym("type"),
                  .on = sym("on"), .where = sym("where")};
}

void layout_lines(Layout *y, bool last)
{
    for (int i = 0; i < y->list->line.n; i++)
        settle_line(y, i);
    if (last)
        settle_end(y);
}

void layout_done(Layout *y) { vec_free(&y->block); }
