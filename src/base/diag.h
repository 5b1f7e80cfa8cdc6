/*
 * diag.h - what the front end tells the user.
 *
 * A Diag has a code from diag.def, a primary span, and any number of labels
 * (other places), notes and helps, and at most one fix.  A DiagSink collects
 * them in an arena; rendering sorts by place, so emission order is free.
 *
 *     Diag *d = diag_emit(sink, E0301, span, (const char *[]){"S", "K"}, 2);
 *     diag_label(d, other, "K comes from here");
 *     diag_help(d, "write the same name");
 */
#ifndef TSR_BASE_DIAG_H
#define TSR_BASE_DIAG_H

#include "base/arena.h"
#include "base/source.h"
#include "base/strbuf.h"
#include "base/vec.h"

typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } DiagSeverity;

typedef enum DiagCode {
#define DIAG(code, severity, text) code,
#include "base/diag.def"
    DIAG_COUNT
} DiagCode;

typedef struct { Span span; const char *text; } DiagLabel;

typedef struct Diag {
    DiagCode code;
    Span span;
    const char *message;
    Vec(DiagLabel) labels;
    Vec(const char *) notes, helps;
    bool common;                    /* helps has only what diag.def says for the code; diag_help replaces it */
    Span fix_span;                  /* where fix_text goes; fix_text NULL: no fix */
    const char *fix_text;
    const char *expected, *received, *why, *trace;      /* a mistake between files (diag_trace); NULL: none */
    bool guessed;                   /* the fix may not be what was meant: shown, not made by --fix */
    Arena *arena;
} Diag;

typedef struct DiagSink {
    Arena arena;
    Vec(Diag *) all;
    int errors;
    int limit;                      /* errors kept; 0: DIAG_LIMIT. Later ones are counted only */
    Diag *unseen;                   /* the last one past the limit */
} DiagSink;

enum { DIAG_LIMIT = 200 };

/* Never NULL: past the limit the Diag returned is simply not shown. */
Diag *diag_emit(DiagSink *sink, DiagCode code, Span span, const char *const *args, int nargs);
void diag_label(Diag *d, Span span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_note(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void diag_help(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The edit that mends it for certain; an empty span is a place to insert at. {0, 0}: there is none. */
void diag_fix(Diag *d, Span span, const char *replacement);
/* "did you mean near?" for a name at span, with its edit; only a slip of the keyboard is mended for certain. */
void diag_guess(Diag *d, Span span, const char *wrong, const char *near);
/* The same in another sink, whatever its limit. */
void diag_copy(DiagSink *to, const Diag *d);
void diag_sink_done(DiagSink *sink);

/*
 * A mistake between two files is told as a story: what was expected and received, why, and the lines of a stack trace. The
 * message is said anew; labels are not shown.
 */
void diag_trace(Diag *d, const char *message, const char *expected, const char *received, const char *why, const char *trace);

const char *diag_code_name(DiagCode code);          /* "E0301" */
DiagSeverity diag_severity(DiagCode code);

typedef struct { bool color, ascii; } DiagStyle;

/* Render all, sorted by place: for people, or one JSON object a line
 * (severity code message file line col end_line end_col labels notes help). */
void diag_render(const DiagSink *sink, DiagStyle style, StrBuf *out);
void diag_render_json(const DiagSink *sink, StrBuf *out);
/* One whose edit was made: the same object with "applied": true. */
void diag_json_applied(const Diag *d, StrBuf *out);

/* diag_emit with its arguments listed: DIAG_AT(sink, E0301, span, "S", "K"); at least one (NULL for none) */
#define DIAG_AT(sink, code, span, ...) \
    diag_emit(sink, code, span, (const char *const[]){__VA_ARGS__}, \
              (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

#endif
