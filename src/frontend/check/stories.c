/*
 * Mistakes between files.  A function that another file declares does not take
 * an argument's size: labels in one excerpt cannot show both sides, so the
 * report tells what was expected and received in the annotation's own words,
 * and traces the call into the other file, to where its number comes from.
 *
 * Inside a generic function the size received is a name; the first call seen
 * says what it stands for.
 */
#include "frontend/check/checker.h"

#include <string.h>

typedef struct { const TType *want, *got; AstSeq said; int axis; Dim received; const char *name; } Story;

static void put_size(Dim d, StrBuf *out)
{
    int64_t v;

    sb_puts(out, dim_const_value(d, &v) ? "" : "\"");
    dim_print(d, out);
    sb_puts(out, dim_const_value(d, &v) ? "" : "\"");
}

/* Tensor["B", "S", "D"] where D = 768 */
static void put_expected(const Story *s, StrBuf *out)
{
    sb_puts(out, "Tensor[");
    for (int i = 0; i < s->want->rank; i++) {
        sb_puts(out, i ? ", " : "");
        if (i < s->said.n && AST_IS(s->said.at[i], Name))
            sb_printf(out, "\"%s\"", AST_AS(s->said.at[i], Name)->id->text);
        else if (i < s->said.n && AST_IS(s->said.at[i], Str))
            sb_printf(out, "\"%s\"", AST_AS(s->said.at[i], Str)->value.s);
        else
            put_size(s->want->shape[i], out);
    }
    sb_puts(out, "]");
    if (s->name) {
        sb_printf(out, " where %s = ", s->name);
        dim_print(s->want->shape[s->axis], out);
    }
}

static void put_received(const Story *s, StrBuf *out)
{
    sb_puts(out, "Tensor[");
    for (int i = 0; i < s->got->rank; i++) {
        sb_puts(out, i ? ", " : "");
        put_size(i == s->axis ? s->received : s->got->shape[i], out);
    }
    sb_puts(out, "]");
}

/* "D=768", or "768 at axis 2". */
static void put_named(const Story *s, Dim d, StrBuf *out)
{
    if (s->name)
        sb_printf(out, "%s=", s->name);
    dim_print(d, out);
    if (!s->name)
        sb_printf(out, " at axis %d", s->axis);
}

static void put_frame(StrBuf *out, Span at, const char *function)
{
    Place p = source_place(at.lo);

    sb_printf(out, "  File \"%s\", line %u, in %s\n", p.src ? p.src->path : "?", p.line, function);
}

/* Where the other file has its number from: the line, or what it is computed from. */
static void put_origin(const Story *s, const Fn *f, StrBuf *out)
{
    AstName *n = s->axis < s->said.n && AST_IS(s->said.at[s->axis], Name) ? AST_AS(s->said.at[s->axis], Name) : NULL;
    const Home *home = f->around->home;
    Ast *from = n && n->bind == BIND_GLOBAL && (int)n->slot < home->nglob ? home->from[n->slot] : NULL;
    StrBuf text = {0};

    sb_puts(out, "    Expected ");
    put_named(s, s->want->shape[s->axis], out);
    if (from && !AST_IS(from, Int)) {
        ast_print(from, &text);
        while (text.n && strchr("\n ", sb_str(&text)[text.n - 1]))
            text.n--;
        sb_printf(out, " from %s", sb_str(&text));
    }
    if (from)
        sb_printf(out, ", given in line %u", source_place(from->span.lo).line);
    sb_puts(out, "\n");
    sb_done(&text);
}

static void advise(Diag *d, const Story *s, Ast *arg)
{
    StrBuf want = {0}, got = {0}, name = {0};

    dim_print(s->want->shape[s->axis], &want);
    put_named(s, s->received, &got);
    ast_print(AST_IS(arg, Arg) ? AST_AS(arg, Arg)->value : arg, &name);
    while (name.n && strchr("\n ", sb_str(&name)[name.n - 1]))
        name.n--;
    d->helps.n = 0;
    d->common = false;
    diag_help(d, "Ensure input tensor has correct dimensions");
    if (s->axis == s->want->rank - 1 && dim_is_const(s->want->shape[s->axis]))
        diag_help(d, "Add a projection layer: %s = linear(%s, out_dim=%s)", AST_IS(arg, Name) ? sb_str(&name) : "x", sb_str(&name),
                  sb_str(&want));
    if (s->name && dim_is_const(s->received))
        diag_help(d, "Update the model configuration to use %s", sb_str(&got));
    sb_done(&want);
    sb_done(&got);
    sb_done(&name);
}

/* The first axis whose sizes differ; what the caller's own name stands for in the first call seen. */
static bool find_axis(Check *C, Story *s, const Fn *caller)
{
    for (s->axis = 0; s->axis < s->want->rank; s->axis++)
        if (dims_differ(s->want->shape[s->axis], s->got->shape[s->axis]))
            break;
    if (s->axis == s->want->rank)
        return false;
    s->received = s->got->shape[s->axis];
    if (caller && caller->example)
        s->received = dim_subst(s->received, caller->example, caller->example + caller->example_n, caller->example_n);
    if (dim_is_open(s->received) || s->received == s->want->shape[s->axis])
        s->received = s->got->shape[s->axis];
    if (s->axis < s->said.n && AST_IS(s->said.at[s->axis], Name))
        s->name = AST_AS(s->said.at[s->axis], Name)->id->text;
    return true;
}

void story_between_files(Check *C, const Fn *f, const AstParam *p, const TType *want, const TType *got, Ast *arg, Ast *node)
{
    const Fn *caller = C->frame->fn;
    const char *where = caller && caller->name ? caller->name->text : "<module>";
    AstSubscript *a = AST_AS(p->annotation, Subscript);
    Story s = {.want = want, .got = got};
    StrBuf title = {0}, expected = {0}, received = {0}, why = {0}, trace = {0};
    Diag *d = C->last;

    if (!d || d->code != E0301 || C->home->library || want->rank != got->rank || want->rank == RANK_UNKNOWN)
        return;
    if (AST_IS(p->annotation, Subscript))
        s.said = AST_IS(a->index, Tuple) ? AST_AS(a->index, Tuple)->elts : (AstSeq){&a->index, 1};
    if (!find_axis(C, &s, caller))
        return;
    sb_printf(&title, "Shape mismatch in function '%s' at line %u", where, source_place(node->span.lo).line);
    put_expected(&s, &expected);
    put_received(&s, &received);
    sb_printf(&why, "The %s function expects dimension ", f->name ? f->name->text : "called");
    put_named(&s, want->shape[s.axis], &why);
    sb_puts(&why, " but received ");
    put_named(&s, s.received, &why);
    sb_puts(&why, ".");
    put_frame(&trace, node->span, where);
    put_frame(&trace, f->node->span, f->name ? f->name->text : "lambda");
    put_origin(&s, f, &trace);
    d->span = node->span;
    diag_trace(d, sb_str(&title), sb_str(&expected), sb_str(&received), sb_str(&why), sb_str(&trace));
    advise(d, &s, arg);
    sb_done(&title);
    sb_done(&expected);
    sb_done(&received);
    sb_done(&why);
    sb_done(&trace);
}
