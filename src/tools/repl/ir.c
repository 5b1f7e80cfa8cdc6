/*
 * `:ir EXPR`: the graph that an expression becomes.
 *
 * f(x, y) with plain arguments is staged as f for these arguments.  Any other
 * expression is staged as a function of the tensors that it names, so that
 * they are the graph's inputs and not its constants.
 */
#include "tools/repl/session.h"

#include "base/map.h"

#include <stdio.h>

typedef struct Inputs {
    Session *s;
    Map seen;
    StrBuf names;               /* "x, w" */
} Inputs;

/* The tensors among the session's names that the expression mentions, each once. */
static bool note_tensors(Ast *n, void *state)
{
    Inputs *in = state;

    if (AST_IS(n, Name) && !map_get_ptr(&in->seen, AST_AS(n, Name)->id)) {
        Sym id = AST_AS(n, Name)->id;
        Value v = session_lookup(in->s, id->text, id->len);
        map_set_ptr(&in->seen, id, id);
        if (v.tag == V_TENSOR)
            sb_printf(&in->names, "%s%s", in->names.n ? ", " : "", id->text);
        value_unref(v);
    }
    return ast_walk(n, note_tensors, state);
}

/* f or part.f, where part is no tensor: then the arguments are all that it computes from. */
static bool is_function(Session *s, const Ast *f)
{
    bool free = true;
    Value v;

    while (AST_IS(f, Attribute) && free) {
        f = AST_AS(f, Attribute)->value;
        v = AST_IS(f, Name) ? session_lookup(s, AST_AS(f, Name)->id->text, AST_AS(f, Name)->id->len) : VNONE;
        free = v.tag != V_TENSOR;
        value_unref(v);
    }
    return free && AST_IS(f, Name);
}

static bool is_plain_call(Session *s, const Ast *e)
{
    if (!AST_IS(e, Call) || !AST_AS(e, Call)->args.n || !is_function(s, AST_AS(e, Call)->func))
        return false;
    for (int i = 0; i < AST_AS(e, Call)->args.n; i++) {
        const AstArg *a = AST_AS(AST_AS(e, Call)->args.at[i], Arg);
        if (a->stars || a->name)
            return false;
    }
    return true;
}

static void put_span(const Source *src, Span from, Span to, StrBuf *out)
{
    sb_write(out, src->text + (from.lo - src->base), to.hi - from.lo);
}

/* The call whose value is the graph's text. */
static void put_request(Session *s, const Source *src, Ast *e, StrBuf *out)
{
    Inputs in = {.s = s};

    if (is_plain_call(s, e)) {
        const AstCall *c = AST_AS(e, Call);
        sb_puts(out, "tessera.graph_of(");
        put_span(src, c->func->span, c->func->span, out);
        for (int i = 0; i < c->args.n; i++) {
            sb_puts(out, ", ");
            put_span(src, c->args.at[i]->span, c->args.at[i]->span, out);
        }
    } else {
        note_tensors(e, &in);
        sb_printf(out, "tessera.graph_of(lambda %s: (", sb_str(&in.names));
        put_span(src, e->span, e->span, out);
        sb_printf(out, "), %s", sb_str(&in.names));
    }
    sb_puts(out, ")");
    map_done(&in.seen);
    sb_done(&in.names);
}

void session_ir(Session *s, const char *text, size_t n)
{
    const Source *src = source_add("<ir>", text, n);
    DiagSink sink = {0};
    Unit *u = src ? unit_parse(src, &sink) : NULL;
    StrBuf request = {0};
    Value v;

    if (u && !sink.errors && u->module->body.n == 1 && AST_IS(u->module->body.at[0], ExprStmt)) {
        put_request(s, src, AST_AS(u->module->body.at[0], ExprStmt)->value, &request);
    } else if (u && !sink.errors) {
        fputs("error: ':ir' shows the graph of one expression, such as f(x) or x @ w\n", stderr);
    } else {
        sb_write(&request, text, n);            /* running it says what is wrong with it */
    }
    if (u)
        unit_free(u);
    diag_sink_done(&sink);
    if (request.n && session_eval(s, "<ir>", request.s, request.n, &v)) {
        if (v.tag == V_STR)
            interp_write(s->I, as_str(v)->s, as_str(v)->len);
        interp_flush(s->I);
        value_unref(v);
    }
    sb_done(&request);
}
