/* Parse, resolve, check, and forget it all; the library's trees stay (check/spaces.h). */
#include "judge.h"

#include "base/alloc.h"
#include "frontend/check/check.h"
#include "frontend/check/spaces.h"
#include "frontend/syntax/token.h"

#include <time.h>

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t judge_budget(int tokens)
{
    return 50000000u + 10000u * (uint64_t)tokens;
}

static int count_tokens(const Source *src)
{
    Unit u = {.src = src};
    DiagSink sink = {0};
    TokenList list = {0};
    int n;

    lex_source(&u, &sink, &list, false);
    n = list.tok.n;
    tokens_done(&list);
    diag_sink_done(&sink);
    vec_free(&u.comments);
    arena_done(&u.arena);
    return n;
}

static void check_places(const DiagSink *sink, const Source *src)
{
    for (int i = 0; i < sink->all.n; i++) {
        Span s = sink->all.at[i]->span;
        if (s.lo > s.hi || s.hi > src->base + src->len || (s.hi && s.lo < src->base))
            tsr_bug("%s stands outside the text", diag_code_name(sink->all.at[i]->code));
    }
}

bool judge(const char *text, size_t n, bool effects, Judged *out)
{
    const Source *src = source_add("fuzz.tsr", text, n);
    DiagSink sink = {0};
    StrBuf shown = {0};
    uint64_t start = now();
    Scope *globals;
    Unit *u;

    if (!src)
        return false;
    globals = scope_new_module(sym("__main__"));
    u = unit_parse(src, &sink);
    out->parsed = !sink.errors;
    if (out->parsed) {
        scope_resolve(u, globals, (ScopeOptions){0}, &sink);
        check_unit(u, (CheckOptions){.effects = effects ? &out->said : NULL}, &sink);
    }
    out->ns = now() - start;
    out->tokens = count_tokens(src);
    check_places(&sink, src);
    diag_render_json(&sink, &out->said);
    diag_render(&sink, (DiagStyle){0}, &shown);
    sb_done(&shown);
    diag_sink_done(&sink);
    scope_free_module(globals);
    unit_free(u);
    spaces_drop_files();
    source_drop(src);
    return true;
}
