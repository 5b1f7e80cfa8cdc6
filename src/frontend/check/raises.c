/*
 * A library function that raises, whatever happens, for the arguments of a call:
 * MultiHeadAttention(10, heads=3).  Its own checks of its arguments are the
 * checker's, then.  Sure is only what no undecided branch, loop (but one in the
 * library that is walked round by round) or earlier return stands before, from the program's
 * call to the raise.
 */
#include "frontend/check/checker.h"
#include "frontend/check/spaces.h"

#include <string.h>

/* ", ".join(names) of known texts. */
static bool put_joined(Check *C, const Ast *e, StrBuf *out)
{
    const AstCall *c = AST_AS(e, Call);
    const AstAttribute *f = AST_IS(e, Call) && AST_IS(c->func, Attribute) && c->args.n == 1 && AST_IS(c->args.at[0], Arg)
                                ? AST_AS(c->func, Attribute) : NULL;
    const Type *const *item, *sep;
    int n;

    if (!f || strcmp(f->attr->text, "join"))
        return false;
    sep = expr(C, f->value);
    n = type_items(expr(C, AST_AS(c->args.at[0], Arg)->value), &item);
    for (int i = 0; i < n; i++)
        if (item[i]->kind != TY_STR || !item[i]->text || sep->kind != TY_STR || !sep->text)
            return false;
    for (int i = 0; i < n; i++)
        sb_printf(out, "%s%s", i ? sep->text->text : "", item[i]->text->text);
    return n >= 0;
}

/* A value as str() writes it; false: it is not known. */
static bool put_value(Check *C, Ast *e, bool quoted, StrBuf *out)
{
    const Type *t = expr(C, e);
    double number;

    if (t->kind == TY_FLOAT && type_float_value(t, &number))
        sb_printf(out, "%.6g%s", number, number == (double)(int)number ? ".0" : "");
    else if (t->kind == TY_INT && t->value != DIM_BAD && !dim_is_open(t->value))
        dim_print(t->value, out);
    else if (t->kind == TY_STR && t->text)
        sb_printf(out, quoted ? "'%s'" : "%s", t->text->text);
    else if (t->kind == TY_DTYPE)
        sb_puts(out, element_text((uint8_t)t->value, t->ref));
    else if (t->kind == TY_TUPLE && t->n >= 0) {
        sb_putc(out, '(');
        for (int i = 0; i < t->n; i++) {
            if (t->item[i]->kind != TY_INT || t->item[i]->value == DIM_BAD || dim_is_open(t->item[i]->value))
                return false;
            sb_puts(out, i ? ", " : "");
            dim_print(t->item[i]->value, out);
        }
        sb_puts(out, t->n == 1 ? ",)" : ")");
    } else
        return put_joined(C, e, out);
    return true;
}

static bool put_message(Check *C, Ast *e, StrBuf *out)
{
    if (AST_IS(e, Str)) {
        sb_puts(out, AST_AS(e, Str)->value.s);
        return true;
    }
    for (int i = 0; AST_IS(e, FString) && i < AST_AS(e, FString)->parts.n; i++) {
        Ast *part = AST_AS(e, FString)->parts.at[i];
        AstHole *h = AST_AS(part, Hole);
        if (AST_IS(part, Str))
            sb_puts(out, AST_AS(part, Str)->value.s);
        else if (!AST_IS(part, Hole) || h->spec || !put_value(C, h->value, h->conversion == 'r', out))
            return false;
    }
    return AST_IS(e, FString);
}

/*
 * "ValueError: size 10 is not a multiple of the 3 heads". false: its text is not known, and the run tells more.  What is not
 * implemented may be in a class that derives from the one seen.
 */
static bool put_exception(Check *C, Ast *exc, StrBuf *out)
{
    AstCall *c = AST_AS(exc, Call);

    if (!AST_IS(exc, Call) || !AST_IS(c->func, Name) || c->args.n != 1 || !AST_IS(c->args.at[0], Arg) ||
        !strcmp(AST_AS(c->func, Name)->id->text, "NotImplementedError"))
        return false;
    sb_printf(out, "%s: ", AST_AS(c->func, Name)->id->text);
    return put_message(C, AST_AS(c->args.at[0], Arg)->value, out);
}

bool library_surely(const Check *C)
{
    const CFrame *f = C->frame;

    if (!C->home->library || C->quiet || !C->blame.node || C->branches != C->blame.branches || C->blame.unrolled != 1)
        return false;
    for (; f && f != C->blame.frame && f->home->library; f = f->caller)
        if (f->ret)
            return false;
    return f && f == C->blame.frame;
}

/* Texts, numbers and objects of classes that are known and derive from nothing cannot be raised. */
static void raised_judged(Check *C, const Ast *exc)
{
    const Type *t = type_found(exc);
    const Cls *c = !type_is_any(t) && (t->kind == TY_INSTANCE || t->kind == TY_CLASS) ? t->ref : NULL;
    bool text = !type_is_any(t) && t->kind == TY_STR;
    Diag *d;

    if (type_is_any(t) || C->home->library ||
        (c ? cls_is_open(c) || c->far || c->base || c->home->library || c->def->bases.n
           : !(t->kind >= TY_NONE && t->kind <= TY_FUNC) && t->kind != TY_TENSOR))
        return;
    d = REPORT(C, E0906, exc->span, "what is raised", "an exception", type_text(t));
    if (c)
        diag_help(d, "derive the class from Exception: class %s(Exception)", cls_name(c));
    else
        diag_help(d, text ? "put the text into an exception: raise ValueError(...)" : "raise an exception: ValueError(...), RuntimeError(...)");
}

void raise_judged(Check *C, AstRaise *r)
{
    StrBuf text = {0};
    Span span;

    if (r->exc)
        raised_judged(C, r->exc);
    if (!r->exc || !library_surely(C))
        return;
    span = C->blame.node->span;
    if (map_find(&C->reported, (uint64_t)span.lo + 1, NULL) || !put_exception(C, r->exc, &text)) {
        sb_done(&text);
        return;
    }
    map_set(&C->reported, (uint64_t)span.lo + 1, 1);
    C->findings++;
    C->last = DIAG_AT(C->sink, E0916, span, sb_str(&text));
    diag_note(C->last, "in %s, %s line %u", C->frame->fn && C->frame->fn->name ? C->frame->fn->name->text : "the module",
              C->home->space ? C->home->space->name : "", source_place(r->ast.span.lo).line);
    C->shown = true;
    origins(C, C->last, NULL, &(Dim){DIM_BAD}, 1);
    sb_done(&text);
}
