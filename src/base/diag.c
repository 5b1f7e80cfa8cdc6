/* Collecting diagnostics; base/render.c draws them. */
#include "base/diag.h"

#include "base/sym.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct { const char *name, *text; DiagSeverity severity; } table[] = {
#define DIAG(code, sev, text) {#code, text, DIAG_##sev},
#include "base/diag.def"
};

static const char *const remedy[DIAG_COUNT] = {
#define DIAG(code, sev, text)
#define HELP(code, text) [code] = text,
#include "base/diag.def"
};

/* The row's text with {n} replaced by args[n]. */
static const char *fill(Arena *a, const char *text, const char *const *args, int nargs)
{
    StrBuf b = {0};
    char *s;

    for (const char *p = text; *p; p++) {
        if (p[0] == '{' && p[1] >= '0' && p[1] <= '9' && p[2] == '}') {
            int i = p[1] - '0';
            sb_puts(&b, i < nargs && args[i] ? args[i] : "?");
            p += 2;
        } else {
            sb_putc(&b, *p);
        }
    }
    s = arena_strdup(a, sb_str(&b));
    sb_done(&b);
    return s;
}

static void free_lists(Diag *d)
{
    vec_free(&d->labels);
    vec_free(&d->notes);
    vec_free(&d->helps);
}

Diag *diag_emit(DiagSink *sink, DiagCode code, Span span, const char *const *args, int nargs)
{
    Diag *d = arena_new(&sink->arena, Diag);
    int limit = sink->limit ? sink->limit : DIAG_LIMIT;

    d->arena = &sink->arena;
    d->code = code;
    d->span = span;
    d->message = fill(&sink->arena, table[code].text, args, nargs);
    if (remedy[code]) {
        vec_push(&d->helps, fill(&sink->arena, remedy[code], args, nargs));
        d->common = true;
    }
    if (sink->errors < limit || table[code].severity != DIAG_ERROR) {
        vec_push(&sink->all, d);
    } else {
        if (sink->unseen)
            free_lists(sink->unseen);
        sink->unseen = d;
    }
    sink->errors += table[code].severity == DIAG_ERROR;
    return d;
}

void diag_copy(DiagSink *to, const Diag *d)
{
    Arena *a = &to->arena;
    Diag *c = arena_copy(a, d, sizeof *d);

    c->arena = a;
    c->message = arena_strdup(a, d->message);
    c->fix_text = d->fix_text ? arena_strdup(a, d->fix_text) : NULL;
    memset(&c->labels, 0, sizeof c->labels);
    memset(&c->notes, 0, sizeof c->notes);
    memset(&c->helps, 0, sizeof c->helps);
    for (int i = 0; i < d->labels.n; i++)
        vec_push(&c->labels, ((DiagLabel){d->labels.at[i].span, arena_strdup(a, d->labels.at[i].text)}));
    for (int i = 0; i < d->notes.n; i++)
        vec_push(&c->notes, arena_strdup(a, d->notes.at[i]));
    for (int i = 0; i < d->helps.n; i++)
        vec_push(&c->helps, arena_strdup(a, d->helps.at[i]));
    vec_push(&to->all, c);
    to->errors += table[d->code].severity == DIAG_ERROR;
}

static const char *vformat(Arena *a, const char *fmt, va_list ap)
{
    StrBuf b = {0};
    char *s;

    sb_vprintf(&b, fmt, ap);
    s = arena_strdup(a, sb_str(&b));
    sb_done(&b);
    return s;
}

void diag_label(Diag *d, Span span, const char *fmt, ...)
{
    va_list ap;
    DiagLabel l = {.span = span};

    va_start(ap, fmt);
    l.text = vformat(d->arena, fmt, ap);
    va_end(ap);
    vec_push(&d->labels, l);
}

void diag_note(Diag *d, const char *fmt, ...)
{
    va_list ap;
    const char *s;

    va_start(ap, fmt);
    s = vformat(d->arena, fmt, ap);
    va_end(ap);
    vec_push(&d->notes, s);
}

void diag_help(Diag *d, const char *fmt, ...)
{
    va_list ap;
    const char *s;

    if (d->common)
        d->helps.n = 0;
    d->common = false;
    va_start(ap, fmt);
    s = vformat(d->arena, fmt, ap);
    va_end(ap);
    vec_push(&d->helps, s);
}

void diag_fix(Diag *d, Span span, const char *replacement)
{
    if (!span.hi)
        return;
    d->fix_span = span;
    d->fix_text = arena_strdup(d->arena, replacement);
    d->guessed = false;
}

void diag_trace(Diag *d, const char *message, const char *expected, const char *received, const char *why, const char *trace)
{
    d->message = arena_strdup(d->arena, message);
    d->expected = arena_strdup(d->arena, expected);
    d->received = arena_strdup(d->arena, received);
    d->why = arena_strdup(d->arena, why);
    d->trace = arena_strdup(d->arena, trace);
}

/* One letter too many, too few, another or two swapped, in a word long enough to be known again. */
static bool is_slip(const char *wrong, const char *near)
{
    return strlen(near) >= 3 && strlen(wrong) >= 4 && edit_distance(wrong, near, 2) < 2;
}

void diag_guess(Diag *d, Span span, const char *wrong, const char *near)
{
    diag_help(d, "did you mean '%s'?", near);
    diag_fix(d, span, near);
    d->guessed = !is_slip(wrong, near);
}

const char *diag_code_name(DiagCode code)
{
    return table[code].name;
}

DiagSeverity diag_severity(DiagCode code)
{
    return table[code].severity;
}

void diag_sink_done(DiagSink *sink)
{
    for (int i = 0; i < sink->all.n; i++)
        free_lists(sink->all.at[i]);
    if (sink->unseen)
        free_lists(sink->unseen);
    sink->unseen = NULL;
    vec_free(&sink->all);
    arena_done(&sink->arena);
    sink->errors = 0;
}
