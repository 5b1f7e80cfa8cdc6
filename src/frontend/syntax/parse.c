/*
 * The driver: a logical line at a time, with a way back.
 *
 * Before each line the parser's stack is saved.  When a token does not fit, the
 * stack is restored, the line is fed again up to that token, and diagnose.c,
 * which can now ask the automaton what would fit, says what is wrong and
 * perhaps how to mend it: a token put in, or taken for another.  A line that
 * cannot be mended is fed as one BAD token (BAD_HEAD when a block hangs on it).
 * So one line has at most one report, and what follows is read as if nothing
 * had happened.
 */
#include "frontend/syntax/lexer.h"
#include "frontend/syntax/parse.h"

#include <limits.h>
#include <string.h>

static void *alloc_parser(size_t n)
{
    return tsr_alloc(n);
}

/* ---- feeding ---- */

static bool feed(Driver *d, int kind, const Token *t)
{
    d->p.failed = PARSE_OK;
    tsr_parse_(d->lemon, kind, t);
    return !d->p.failed;
}

static Token *synthetic(Driver *d, int kind, Span span)
{
    Token *t = arena_new(d->p.arena, Token);

    t->kind = (uint8_t)kind;
    t->span = span;
    t->op = AOP_EQ;
    return t;
}

static void feed_made(Driver *d, int kind, Span span)
{
    feed(d, kind, synthetic(d, kind, span));
}

bool driver_accepts(const Driver *d, int kind)
{
    return parser_accepts(d->lemon, kind);
}

/* Only an except or a finally can follow: a try without either stands open. (Anywhere else a BAD line fits.) */
static bool try_is_open(const Driver *d)
{
    return driver_accepts(d, TOK_FINALLY) && !driver_accepts(d, TOK_BAD);
}

/* Close an open try before `kind`, as if it ended in `finally: pass`. */
static void close_try(Driver *d, int kind, Span at)
{
    Diag *e;

    while (!driver_accepts(d, kind) && try_is_open(d)) {
        e = syntax_error(&d->p, E0149, at, NULL, NULL);
        if (e)
            diag_help(e, "a 'try' needs at least one 'except' or a 'finally'");
        feed_made(d, TOK_FINALLY, at);
        feed_made(d, TOK_COLON, at);
        feed_made(d, TOK_PASS, at);
        feed_made(d, TOK_NEWLINE, at);
    }
}

static const Line *line_of(const Driver *d)
{
    return &d->list.line.at[d->line];
}

/* The stub of a missing block, then the line's INDENT and DEDENTs; returns its first other token. */
static int feed_lead(Driver *d, bool careful)
{
    const Line *l = line_of(d);
    const Token *tok = d->list.tok.at;
    int i = l->first, first = l->first;

    while (tok[first].kind == TOK_INDENT || tok[first].kind == TOK_DEDENT || tok[first].kind == TOK_SKIP)
        first++;
    if (l->stub) {
        feed_made(d, TOK_INDENT, tok[first].span);
        feed_made(d, TOK_DEDENT, tok[first].span);
    }
    for (; i < first; i++) {
        if (tok[i].kind == TOK_SKIP)
            continue;
        if (careful)
            close_try(d, tok[i].kind, tok[first].span);
        if (!feed(d, tok[i].kind, &tok[i]))
            return -1 - first;
    }
    return first;
}

/* Feed tokens [from, to); returns the index of the one that failed, or `to`. */
static int feed_tokens(Driver *d, int from, int to)
{
    const Token *tok = d->list.tok.at;

    while (from < to && feed(d, tok[from].kind, &tok[from]))
        from++;
    return from;
}

static void give_up(Driver *d)
{
    const Line *l = line_of(d);
    const Token *next = &d->list.tok.at[l->end];
    int first;
    Span span;

    parser_restore(d->lemon, &d->mark);
    first = feed_lead(d, true);
    if (first < 0)
        first = -1 - first;
    span = span_join(d->list.tok.at[first].span, d->list.tok.at[l->end - 1].span);
    d->p.unit->broken = true;
    if (d->line + 1 < d->list.line.n && next->kind == TOK_INDENT) {
        close_try(d, TOK_BAD_HEAD, span);
        feed_made(d, TOK_BAD_HEAD, span);
    } else {
        close_try(d, TOK_BAD, span);
        feed_made(d, TOK_BAD, span);
        if (d->line + 1 < d->list.line.n)
            d->list.line.at[d->line + 1].stub = false;
    }
    feed_made(d, TOK_NEWLINE, d->list.tok.at[l->end - 1].span);
}

/* Token `at` does not fit (at < 0: a DEDENT did not). Say so, and mend the line or give it up. */
static void mend(Driver *d, int at, ParseFailure why)
{
    const Line *l = line_of(d);
    int first;
    Repair r;

    parser_restore(d->lemon, &d->mark);
    first = feed_lead(d, true);
    if (first < 0) {
        give_up(d);
        return;
    }
    close_try(d, d->list.tok.at[first].kind, d->list.tok.at[first].span);
    at = feed_tokens(d, first, at < 0 ? l->end : at);
    if (at == l->end)
        return;
    if (driver_accepts(d, d->list.tok.at[at].kind)) {           /* the open try was all that was wrong */
        at = feed_tokens(d, at, l->end);
        if (at == l->end)
            return;
        parser_restore(d->lemon, &d->mark);
        feed_tokens(d, feed_lead(d, true), at);
    }
    if (why == PARSE_TOO_DEEP) {
        syntax_error(&d->p, E0121, d->list.tok.at[at].span, "expressions are nested too deeply", NULL);
        give_up(d);
        return;
    }
    r = diagnose(d, first, at);
    if (r.kind == REPAIR_NONE) {
        give_up(d);
        return;
    }
    feed_made(d, r.token, d->list.tok.at[at].span);
    if (feed_tokens(d, at + (r.kind == REPAIR_REPLACE), l->end) != l->end)
        give_up(d);
}

static void parse_line(Driver *d)
{
    const Line *l = line_of(d);
    int first, at;

    d->p.reported = l->bad || l->reported;
    parser_save(d->lemon, &d->mark);
    if (l->bad) {
        give_up(d);
        return;
    }
    first = feed_lead(d, false);
    at = first < 0 ? -1 : feed_tokens(d, first, l->end);
    if (at != l->end)
        mend(d, at, d->p.failed);
}

static void parse_end(Driver *d)
{
    int i = d->list.line.n ? vec_last(&d->list.line).end : 0;
    Span at = vec_last(&d->list.tok).span;

    d->p.reported = false;
    for (; i < d->list.tok.n; i++) {
        const Token *t = &d->list.tok.at[i];
        if (t->kind == TOK_SKIP)
            continue;
        d->list.open |= !driver_accepts(d, t->kind) && try_is_open(d);
        close_try(d, t->kind, at);
        feed(d, t->kind, t);
    }
}

/* ---- units ---- */

enum { PORTION = 4096 };         /* tokens */

/* The list for the next portion; what it had is parsed, to the last token. */
static void turn_lists(Driver *d)
{
    TokenList next = d->last;

    next.tok.n = next.line.n = 0;
    next.open = d->list.open;
    d->last = d->list;
    d->list = next;
}

/* partial: the text may go on, which is asked. */
static void parse_text(Driver *d, bool partial)
{
    Unit *u = d->p.unit;
    Lexer x;
    Layout y;
    bool more;

    lex_begin(&x, u, &d->list, partial, partial ? INT_MAX : PORTION);
    layout_begin(&y, u, d->p.sink, &d->list);
    do {
        turn_lists(d);
        more = lex_portion(&x, d->p.sink);
        layout_lines(&y, !more);
        for (d->line = 0; d->line < d->list.line.n; d->line++)
            parse_line(d);
    } while (more);
    parse_end(d);
    layout_done(&y);
    lex_done(&x);
}

/* Parse src into u; returns whether the text could go on. */
static bool read_source(Unit *u, DiagSink *sink, bool partial)
{
    Driver d = {.p = {.unit = u, .arena = &u->arena, .sink = sink}};

    d.p.list = &d.list;
    d.lemon = tsr_parse_Alloc(alloc_parser, &d.p);
    parse_text(&d, partial);
    tsr_parse_Free(d.lemon, tsr_free);
    tsr_free(d.mark.entry);
    u->module = ast_new(&u->arena, Module, ((Span){u->src->base, u->src->base + u->src->len}));
    u->module->body = d.p.result;
    tokens_done(&d.list);
    tokens_done(&d.last);
    return d.list.open;
}

static void unit_done(Unit *u)
{
    vec_free(&u->comments);
    arena_done(&u->arena);
}

Unit *unit_parse(const Source *src, DiagSink *sink)
{
    Unit *u = tsr_calloc(sizeof *u);

    u->src = src;
    read_source(u, sink, false);
    return u;
}

Unit *unit_parse_range(const Source *src, uint32_t from, uint32_t to, DiagSink *sink)
{
    char *copy = tsr_alloc(to - from + 1);
    Source part = {.path = src->path, .text = copy, .len = to - from, .base = src->base + from};
    Unit *u;

    memcpy(copy, src->text + from, to - from);
    copy[to - from] = 0;
    u = unit_parse(&part, sink);
    u->src = src;
    tsr_free(copy);
    return u;
}

void unit_free(Unit *u)
{
    unit_done(u);
    tsr_free(u);
}

/* Mistakes that more text could still put right. */
static bool only_unfinished(const DiagSink *sink)
{
    for (int i = 0; i < sink->all.n; i++) {
        DiagCode c = sink->all.at[i]->code;
        if (diag_severity(c) == DIAG_ERROR && c != E0104 && c != E0108 && c != E0111 && c != E0113 && c != E0118 &&
            c != E0144 && c != E0149)
            return false;
    }
    return true;
}

InputState input_state(const char *text, size_t len)
{
    Source src = {.path = "", .text = text, .len = (uint32_t)len, .base = 1};
    DiagSink sink = {0};
    Unit u = {.src = &src};
    bool open = read_source(&u, &sink, true);
    InputState s = open && only_unfinished(&sink) ? INPUT_OPEN : sink.errors ? INPUT_BAD : INPUT_COMPLETE;

    unit_done(&u);
    diag_sink_done(&sink);
    return s;
}
