/*
 * check.c - any text, its names resolved and its types judged.
 *
 * Every report stands inside the text and renders in both forms; judging the
 * same text a second time says the same.
 */
#include "session.h"
#include "targets.h"

#include "frontend/check/check.h"
#include "frontend/check/spaces.h"

static void check_places(const DiagSink *sink, const Source *src)
{
    for (int i = 0; i < sink->all.n; i++) {
        Span s = sink->all.at[i]->span;
        if (s.lo > s.hi || s.hi > src->base + src->len || (s.hi && s.lo < src->base))
            tsr_bug("%s stands outside the text", diag_code_name(sink->all.at[i]->code));
    }
}

/* What is said of a text, as JSON; the caller's. */
static void judge(const char *text, size_t n, StrBuf *said)
{
    const Source *src = source_add("fuzz.tsr", text, n);
    Scope *globals = scope_new_module(sym("__main__"));
    DiagSink sink = {0};
    StrBuf shown = {0};
    Unit *u = unit_parse(src, &sink);

    if (!sink.errors) {
        scope_resolve(u, globals, (ScopeOptions){0}, &sink);
        check_unit(u, (CheckOptions){.effects = said}, &sink);     /* also of texts that speak of none */
    }
    check_places(&sink, src);
    diag_render_json(&sink, said);
    diag_render(&sink, (DiagStyle){0}, &shown);
    sb_done(&shown);
    diag_sink_done(&sink);
    scope_free_module(globals);
    unit_free(u);
    spaces_drop_files();
    source_drop(src);
}

static void try_text(const uint8_t *data, size_t n)
{
    StrBuf once = {0}, again = {0};

    if (utf8_check((const char *)data, n) == n) {
        judge((const char *)data, n, &once);
        judge((const char *)data, n, &again);
        if (strcmp(sb_str(&once), sb_str(&again)))
            tsr_bug("judged twice, said differently:\n%s\n%s", sb_str(&once), sb_str(&again));
    }
    sb_done(&once);
    sb_done(&again);
}

void fuzz_check(const uint8_t *data, size_t n)
{
    session_run(try_text, data, n);
}
