/*
 * Diagnostics as people and programs read them.
 *
 *     Error: cannot broadcast S with K [E0301]
 *       --> model.tsr:17:12
 *        |
 *     11 | def invalid(x: Tensor["B", "S"], y: Tensor["B", "K"]):
 *        |                                                 --- K comes from here
 *     ...
 *     17 |     return x + y
 *        |            ~~~~~
 *        = x: [B, S]   y: [B, K]
 *     Possible fixes:
 *       1. write the same name
 *
 * An excerpt is a list of marks on lines; each line is shown once, with a line
 * of context around the primary one.  Columns are display columns: tabs take
 * TAB cells, wide characters two.  Reports are sorted by place, and of several
 * errors at one place the first emitted is shown.
 */
#include "base/diag.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { TAB = 4, WIDEST = 160, LEAD = 40 };     /* longer lines are cut to a window around their first mark */

typedef struct { uint32_t line, from, to; const char *text; bool primary; } Mark;     /* from, to: byte offsets in the line */
typedef Vec(Mark) Marks;
typedef Vec(Diag *) Diags;

/* ------------------------------------------------------------- order */

static int by_place(const void *a, const void *b)
{
    const Diag *x = *(Diag *const *)a, *y = *(Diag *const *)b;

    if (x->span.lo != y->span.lo)
        return x->span.lo < y->span.lo ? -1 : 1;
    return 0;
}

/* A stable merge of what is shown: sorted by place, one error a place. */
static Diags in_order(const DiagSink *sink)
{
    Diags d = {0};
    int n = 0;

    for (int i = 0; i < sink->all.n; i++) {
        vec_push(&d, sink->all.at[i]);
        for (int k = d.n - 1; k > 0 && by_place(&d.at[k - 1], &d.at[k]) > 0; k--) {
            Diag *t = d.at[k];
            d.at[k] = d.at[k - 1];
            d.at[k - 1] = t;
        }
    }
    for (int i = 0; i < d.n; i++) {
        bool twin = n && d.at[n - 1]->span.lo == d.at[i]->span.lo && d.at[i]->span.lo &&
                    diag_severity(d.at[n - 1]->code) == DIAG_ERROR && diag_severity(d.at[i]->code) == DIAG_ERROR;
        if (!twin)
            d.at[n++] = d.at[i];
    }
    d.n = n;
    return d;
}

/* ------------------------------------------------------------- display columns */

static int cell_width(const char *s, uint32_t n, uint32_t *step)
{
    utf8proc_int32_t c = -1;
    utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c);
    int w;

    *step = k > 0 ? (uint32_t)k : 1;
    if (c == '\t')
        return TAB;
    w = c >= 0 ? utf8proc_charwidth(c) : 1;
    return w < 0 ? 0 : w;
}

static int width(const char *s, uint32_t from, uint32_t to)
{
    int w = 0;

    for (uint32_t step; from < to; from += step)
        w += cell_width(s + from, to - from, &step);
    return w;
}

/* The first byte at or after display column `col`. */
static uint32_t byte_at(const char *s, uint32_t n, int col)
{
    uint32_t i = 0, step;

    for (int w = 0; i < n && w < col; i += step)
        w += cell_width(s + i, n - i, &step);
    return i;
}

static void put_source(StrBuf *out, const char *s, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (s[i] == '\t')
            sb_pad(out, ' ', TAB);
        else if ((unsigned char)s[i] < 32 || s[i] == 127)
            sb_putc(out, '?');
        else
            sb_putc(out, s[i]);
}

/* ------------------------------------------------------------- excerpts */

static const char *paint(DiagStyle style, const char *escape)
{
    return style.color ? escape : "";
}

#define BOLD "\033[1m"
#define RED "\033[1;31m"
#define YELLOW "\033[1;33m"
#define BLUE "\033[1;34m"
#define CYAN "\033[1;36m"
#define PLAIN "\033[0m"

static uint32_t line_bytes(const Source *s, uint32_t line)
{
    uint32_t n;

    source_line(s, line, &n);
    return n;
}

/* A span becomes a mark on its first line and, when it runs on, one on its last. */
static void add_marks(Marks *m, const Source *src, Span span, const char *text, bool primary)
{
    Place a = source_place(span.lo), b = source_place(span.hi > span.lo ? span.hi - 1 : span.lo);
    uint32_t from, n;

    if (a.src != src)
        return;
    from = span.lo - src->base - src->line[a.line - 1];
    n = line_bytes(src, a.line);
    if (a.line == b.line) {
        uint32_t to = from + (span.hi > span.lo ? span.hi - span.lo : 1);
        vec_push(m, ((Mark){a.line, from, to, text, primary}));
        return;
    }
    vec_push(m, ((Mark){a.line, from, n, NULL, primary}));
    n = span.hi - src->base - src->line[b.line - 1];
    from = 0;
    while (from < n && strchr(" \t", src->text[src->line[b.line - 1] + from]))
        from++;
    vec_push(m, ((Mark){b.line, from, n, text, primary}));
}

static void sort_marks(Marks *m)
{
    for (int i = 1; i < m->n; i++)
        for (int k = i; k > 0; k--) {
            Mark a = m->at[k - 1], b = m->at[k];
            if (a.line < b.line || (a.line == b.line && a.from <= b.from))
                break;
            m->at[k - 1] = b;
            m->at[k] = a;
        }
}

typedef struct { StrBuf *out; DiagStyle style; const Source *src; int gutter; uint32_t last; } Excerpt;

static void put_gutter(Excerpt *e, uint32_t line)
{
    sb_puts(e->out, paint(e->style, BLUE));
    if (line)
        sb_printf(e->out, "%*u |", e->gutter, line);
    else
        sb_printf(e->out, "%*s |", e->gutter, "");
    sb_puts(e->out, paint(e->style, PLAIN));
}

static void end_line(StrBuf *out)
{
    while (out->n && out->s[out->n - 1] == ' ')
        out->n--;
    sb_putc(out, '\n');
}

static void put_mark(Excerpt *e, const Mark *m, const char *s, uint32_t n, uint32_t cut, int lead)
{
    uint32_t from = m->from < n ? m->from : n, to = m->to < n ? m->to : n;
    int w = width(s, from, to);

    put_gutter(e, 0);
    sb_pad(e->out, ' ', (size_t)(1 + lead + width(s, cut, from > cut ? from : cut)));
    sb_puts(e->out, paint(e->style, m->primary ? RED : BLUE));
    sb_pad(e->out, m->primary ? '~' : '-', (size_t)(w < 1 ? 1 : w > WIDEST ? WIDEST : w));
    if (m->text && *m->text)
        sb_printf(e->out, " %s", m->text);
    sb_puts(e->out, paint(e->style, PLAIN));
    end_line(e->out);
}

/* One source line and the marks below it. */
static void put_line(Excerpt *e, uint32_t line, const Mark *m, int nm)
{
    uint32_t n, cut = 0, end;
    const char *s = source_line(e->src, line, &n);
    int at = nm ? width(s, 0, m->from < n ? m->from : n) : 0, lead = 0;

    if (e->last && line > e->last + 1)
        sb_puts(e->out, "...\n");
    e->last = line;
    end = n;
    if (width(s, 0, n) > WIDEST) {
        cut = at > WIDEST - LEAD ? byte_at(s, n, at - LEAD) : 0;
        end = cut + byte_at(s + cut, n - cut, WIDEST);
        lead = cut ? 3 : 0;
    }
    put_gutter(e, line);
    sb_puts(e->out, cut ? " ..." : " ");
    put_source(e->out, s, cut, end);
    if (end < n)
        sb_puts(e->out, "...");
    end_line(e->out);
    for (int i = 0; i < nm; i++)
        put_mark(e, &m[i], s, n, cut, lead);
}

static bool is_blank(const Source *s, uint32_t line)
{
    uint32_t n;
    const char *t = source_line(s, line, &n);

    for (uint32_t i = 0; i < n; i++)
        if (t[i] != ' ' && t[i] != '\t')
            return false;
    return true;
}

static void put_context(Excerpt *e, uint32_t line)
{
    if (line >= 1 && line <= e->src->nlines && line > e->last && !is_blank(e->src, line))
        put_line(e, line, NULL, 0);
}

static int digits(uint32_t n)
{
    int d = 1;

    while (n /= 10)
        d++;
    return d;
}

static void put_arrow(Excerpt *e, Span span)
{
    Place p = source_place(span.lo);

    sb_printf(e->out, "%s%*s-->%s %s:%u:%u\n", paint(e->style, BLUE), e->gutter, "", paint(e->style, PLAIN), p.src->path,
              p.line, p.col);
}

static void put_excerpt(Excerpt *e, Marks *m, uint32_t primary)
{
    put_gutter(e, 0);
    end_line(e->out);
    for (int i = 0, k; i < m->n; i = k) {
        uint32_t line = m->at[i].line;
        for (k = i; k < m->n && m->at[k].line == line; k++)
            ;
        if (line == primary && primary > 1)
            put_context(e, primary - 1);
        put_line(e, line, m->at + i, k - i);
        if (line == primary && (k == m->n || m->at[k].line > primary + 1))
            put_context(e, primary + 1);
    }
}

/* The labels that stand in another file than the error itself. */
static void put_elsewhere(Excerpt *e, const Diag *d)
{
    for (int i = 0; i < d->labels.n; i++) {
        Place p = source_place(d->labels.at[i].span.lo);
        Marks m = {0};
        Excerpt other = *e;
        if (!p.src || p.src == e->src)
            continue;
        other.src = p.src;
        other.last = 0;
        add_marks(&m, p.src, d->labels.at[i].span, d->labels.at[i].text, false);
        put_arrow(&other, d->labels.at[i].span);
        put_excerpt(&other, &m, 0);
        vec_free(&m);
    }
}

/* ------------------------------------------------------------- one diagnostic */

static const char *severity_word(DiagSeverity s)
{
    return s == DIAG_ERROR ? "Error" : s == DIAG_WARNING ? "Warning" : "Note";
}

/* Lines of a note after the first are indented under it; ascii spells the arrow out. */
static void put_text(StrBuf *out, DiagStyle style, const char *s, int indent)
{
    for (; *s; s++)
        if (*s == '\n') {
            sb_putc(out, '\n');
            sb_pad(out, ' ', (size_t)indent);
        } else if (style.ascii && !strncmp(s, "\xe2\x86\x90", 3)) {
            sb_puts(out, "<-");
            s += 2;
        } else {
            sb_putc(out, *s);
        }
    sb_putc(out, '\n');
}

static void put_notes(StrBuf *out, DiagStyle style, const Diag *d, int gutter)
{
    for (int i = 0; i < d->notes.n; i++) {
        sb_printf(out, "%s%*s =%s ", paint(style, BLUE), gutter, "", paint(style, PLAIN));
        put_text(out, style, d->notes.at[i], gutter + 3);
    }
    if (d->helps.n)
        sb_printf(out, "%sPossible fixes:%s\n", paint(style, CYAN), paint(style, PLAIN));
    for (int i = 0; i < d->helps.n; i++) {
        sb_printf(out, "  %d. ", i + 1);
        put_text(out, style, d->helps.at[i], 5);
    }
}

/* ------------------------------------------------------------- a mistake between files */

enum { INDENT = 4 };

/* One line of the story's excerpt; the wrong one says so and is underlined. */
static void put_story_line(const Source *src, uint32_t line, const Diag *d, Place at, DiagStyle style, StrBuf *out)
{
    uint32_t n, from = at.line == line ? d->span.lo - src->base - src->line[line - 1] : 0;
    const char *s = source_line(src, line, &n);
    uint32_t to = from + (d->span.hi - d->span.lo);
    int gutter = digits(at.line + 1);

    sb_pad(out, ' ', INDENT);
    sb_printf(out, "%*u | ", gutter, line);
    put_source(out, s, 0, n);
    sb_puts(out, line != at.line ? "\n" : style.ascii ? "  # <- Error here\n" : "  # \xe2\x86\x90 Error here\n");
    if (line != at.line)
        return;
    sb_pad(out, ' ', (size_t)(INDENT + gutter));
    sb_puts(out, " | ");
    sb_pad(out, ' ', (size_t)width(s, 0, from < n ? from : n));
    sb_puts(out, paint(style, RED));
    sb_pad(out, '~', (size_t)width(s, from < n ? from : n, to < n ? to : n));
    sb_printf(out, "%s\n", paint(style, PLAIN));
}

static void render_story(const Diag *d, DiagStyle style, StrBuf *out)
{
    Place at = source_place(d->span.lo);

    sb_printf(out, "%sError:%s %s%s%s [%s]\n\n", paint(style, RED), paint(style, PLAIN), paint(style, BOLD), d->message,
              paint(style, PLAIN), diag_code_name(d->code));
    sb_printf(out, "    Expected: %s\n    Received: %s\n\n", d->expected, d->received);
    for (uint32_t line = at.line > 1 ? at.line - 1 : 1; line <= at.line + 1 && line <= at.src->nlines; line++)
        if (line == at.line || !is_blank(at.src, line))
            put_story_line(at.src, line, d, at, style, out);
    sb_printf(out, "\n%s\n\n%sPossible fixes:%s\n", d->why, paint(style, CYAN), paint(style, PLAIN));
    for (int i = 0; i < d->helps.n; i++)
        sb_printf(out, "%d. %s\n", i + 1, d->helps.at[i]);
    sb_printf(out, "\nStack trace:\n%s", d->trace);
}

static void render_one(const Diag *d, DiagStyle style, StrBuf *out)
{
    DiagSeverity sev = diag_severity(d->code);
    Place p = source_place(d->span.lo);
    Marks m = {0};
    Excerpt e = {out, style, p.src, 1, 0};

    sb_printf(out, "%s%s:%s ", paint(style, sev == DIAG_ERROR ? RED : YELLOW), severity_word(sev), paint(style, PLAIN));
    sb_printf(out, "%s%s%s [%s]\n", paint(style, BOLD), d->message, paint(style, PLAIN), diag_code_name(d->code));
    if (p.src) {
        add_marks(&m, p.src, d->span, NULL, true);
        for (int i = 0; i < d->labels.n; i++)
            add_marks(&m, p.src, d->labels.at[i].span, d->labels.at[i].text, false);
        sort_marks(&m);
        e.gutter = digits(vec_last(&m).line + 1);
        put_arrow(&e, d->span);
        put_excerpt(&e, &m, p.line);
        put_elsewhere(&e, d);
        vec_free(&m);
    }
    put_notes(out, style, d, e.gutter);
}

void diag_render(const DiagSink *sink, DiagStyle style, StrBuf *out)
{
    Diags d = in_order(sink);
    int kept = 0;

    for (int i = 0; i < sink->all.n; i++)
        kept += diag_severity(sink->all.at[i]->code) == DIAG_ERROR;
    for (int i = 0; i < d.n; i++) {
        if (i)
            sb_putc(out, '\n');
        (d.at[i]->trace ? render_story : render_one)(d.at[i], style, out);
    }
    if (sink->errors > kept)
        sb_printf(out, "\nand %d more errors\n", sink->errors - kept);
    vec_free(&d);
}

/* ------------------------------------------------------------- JSON */

static void put_string(StrBuf *out, const char *key, const char *s)
{
    sb_printf(out, "\"%s\": ", key);
    sb_put_json(out, s, strlen(s));
}

static void put_place(StrBuf *out, Span span)
{
    Place a = source_place(span.lo), b = source_place(span.hi ? span.hi : span.lo);

    put_string(out, "file", a.src ? a.src->path : "");
    sb_printf(out, ", \"line\": %u, \"col\": %u, \"end_line\": %u, \"end_col\": %u", a.line, a.col, b.line, b.col);
}

static void put_strings(StrBuf *out, const char *key, const char *const *s, int n)
{
    sb_printf(out, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        if (i)
            sb_puts(out, ", ");
        sb_put_json(out, s[i], strlen(s[i]));
    }
    sb_putc(out, ']');
}

static void put_labels(StrBuf *out, const Diag *d)
{
    sb_puts(out, ", \"labels\": [");
    for (int i = 0; i < d->labels.n; i++) {
        sb_puts(out, i ? ", {" : "{");
        put_place(out, d->labels.at[i].span);
        sb_puts(out, ", ");
        put_string(out, "text", d->labels.at[i].text);
        sb_putc(out, '}');
    }
    sb_putc(out, ']');
}

static void put_json(StrBuf *out, const Diag *d, bool applied)
{
    static const char *const words[] = {[DIAG_ERROR] = "error", [DIAG_WARNING] = "warning", [DIAG_NOTE] = "note"};

    sb_puts(out, "{");
    put_string(out, "severity", words[diag_severity(d->code)]);
    sb_puts(out, ", ");
    put_string(out, "code", diag_code_name(d->code));
    sb_puts(out, ", ");
    put_string(out, "message", d->message);
    sb_puts(out, ", ");
    put_place(out, d->span);
    put_labels(out, d);
    put_strings(out, "notes", d->notes.at, d->notes.n);
    put_strings(out, "help", d->helps.at, d->helps.n);
    if (d->trace) {
        const char *const said[] = {d->expected, d->received, d->why};
        put_strings(out, "expected_received_why", said, 3);
        put_strings(out, "trace", &d->trace, 1);
    }
    if (d->fix_text) {
        sb_puts(out, ", \"fix\": {");
        put_place(out, d->fix_span);
        sb_puts(out, ", ");
        put_string(out, "text", d->fix_text);
        sb_puts(out, d->guessed ? ", \"sure\": false}" : ", \"sure\": true}");
    }
    sb_puts(out, applied ? ", \"applied\": true}\n" : "}\n");
}

void diag_json_applied(const Diag *d, StrBuf *out)
{
    put_json(out, d, true);
}

void diag_render_json(const DiagSink *sink, StrBuf *out)
{
    Diags all = in_order(sink);

    for (int i = 0; i < all.n; i++)
        put_json(out, all.at[i], false);
    vec_free(&all);
}
