/*
 * parse.c - any bytes, parsed.
 *
 * Every error stands inside the text.  A text without errors prints as source
 * that parses, without errors, to an equal tree; and the tree's height is what
 * its nodes say and no more than AST_HEIGHT_MAX.
 */
#include "targets.h"

#include "frontend/syntax/ast.h"

static bool check_height(Ast *child, void *state)
{
    const Ast *parent = state;
    int own = ast_info[parent->kind].category != CAT_PART;

    if (parent->kind != AST_Module && child->height + own > parent->height)
        tsr_bug("%s of height %d in %s of height %d", ast_info[child->kind].name, child->height,
                ast_info[parent->kind].name, parent->height);
    return ast_walk(child, check_height, child);
}

static void check_errors(const DiagSink *sink, const Source *src)
{
    for (int i = 0; i < sink->all.n; i++) {
        Span s = sink->all.at[i]->span;
        if (s.lo < src->base || s.hi > src->base + src->len || s.lo > s.hi)
            tsr_bug("%s stands outside the text", diag_code_name(sink->all.at[i]->code));
    }
}

static void check_print(const Unit *u)
{
    StrBuf text = {0};
    DiagSink sink = {0};
    const Source *src;
    Unit *again;

    ast_print(&u->module->ast, &text);
    src = source_add("printed.tsr", sb_str(&text), text.n);
    again = src ? unit_parse(src, &sink) : NULL;
    if (again && (sink.errors || !ast_equal(&u->module->ast, &again->module->ast)))
        tsr_bug("the printed text parses to another tree:\n%s", text.s);
    if (again)
        unit_free(again);
    diag_sink_done(&sink);
    sb_done(&text);
}

void fuzz_parse(const uint8_t *data, size_t n)
{
    const Source *src = source_add("fuzz.tsr", (const char *)data, n);
    DiagSink sink = {0};
    Unit *u = unit_parse(src, &sink);

    check_errors(&sink, src);
    check_height(&u->module->ast, &u->module->ast);
    if (!sink.errors)
        check_print(u);
    if (memchr(data, 0, n) == NULL)
        input_state(src->text, n);
    unit_free(u);
    diag_sink_done(&sink);
    source_done();
}
