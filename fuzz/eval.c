/*
 * eval.c - any text, checked and run, in a session of its own.
 *
 * Each input has a new Interp, so that a finding depends on its input alone and
 * the session's end is walked each time.  A program that the checker refuses
 * is run all the same: what runs must not depend on having been checked.
 */
#include "session.h"
#include "targets.h"

#include "frontend/check/check.h"
#include "frontend/check/spaces.h"

static void drop_exception(Interp *I)
{
    StrBuf out = {0};
    Value exc = exc_take(I);

    exc_render(I, exc, &out);
    value_unref(exc);
    sb_done(&out);
}

static void run(Unit *u)
{
    Interp *I = session_interp();

    if (!interp_run_unit(I, u, sym("__main__")))
        drop_exception(I);
    interp_free(I);
}

static void try_text(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    DiagSink sink = {0};
    const Source *src;
    Scope *globals;
    Unit *u;

    if (utf8_check(text, n) < n)
        return;
    src = source_add("fuzz.tsr", text, n);
    u = unit_parse(src, &sink);
    globals = scope_new_module(sym("__main__"));
    if (!sink.errors)
        scope_resolve(u, globals, (ScopeOptions){0}, &sink);
    if (!sink.errors) {
        check_unit(u, (CheckOptions){0}, &sink);
        run(u);
    }
    diag_sink_done(&sink);
    scope_free_module(globals);
    unit_free(u);
    spaces_drop_files();
    source_drop(src);
}

void fuzz_eval(const uint8_t *data, size_t n)
{
    session_run(try_text, data, n);
}
