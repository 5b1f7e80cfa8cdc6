/*
 * Functions with a declared result whose body can end without return.
 *
 * The walk says whether the end is reached at all; which statement it is reached behind, the form tells.  Where nothing but the
 * form speaks for it, the report waits for a form that leaves no doubt: a loop may be meant to return in one of its turns, so
 * one that also raises or catches is believed, cases without `_` may be all that there are, and what is called may not come back.
 */
#include "frontend/check/checker.h"

#include <string.h>

/* Only a docstring, pass, ...: declared here, defined elsewhere. */
static bool is_stub(AstSeq body)
{
    for (int i = 0; i < body.n; i++)
        if (body.at[i]->kind != AST_Pass && body.at[i]->kind != AST_Raise &&
            !(body.at[i]->kind == AST_ExprStmt && (AST_IS(AST_AS(body.at[i], ExprStmt)->value, Str) ||
                                                   AST_IS(AST_AS(body.at[i], ExprStmt)->value, Const))))
            return false;
    return true;
}

static bool leaves(AstSeq body)
{
    const Ast *last = body.n ? body.at[body.n - 1] : NULL;

    return last && (last->kind == AST_Return || last->kind == AST_Raise);
}

/* if ... elif ... of which each arm leaves, without else: whoever writes it means that one of them is taken. */
static bool is_complete(const AstIf *n)
{
    int arms = 1;

    for (; leaves(n->body) && n->orelse.n == 1 && AST_IS(n->orelse.at[0], If); n = AST_AS(n->orelse.at[0], If))
        arms++;
    return arms > 1 && leaves(n->body) && !n->orelse.n;
}

static Ast *way_out(AstSeq body);

static Ast *way_out_of_if(AstIf *n)
{
    Ast *by = leaves(n->body) ? NULL : way_out(n->body);

    if (by || is_complete(n))
        return by;
    return n->orelse.n ? way_out(n->orelse) : (Ast *)n;
}

static Ast *way_out_of_try(AstTry *n)
{
    Ast *by = n->has_final && leaves(n->final) ? NULL : way_out(n->orelse.n ? n->orelse : n->body);

    for (int i = 0; !by && i < n->handlers.n; i++)
        by = way_out(AST_AS(n->handlers.at[i], Handler)->body);
    return by;
}

/* ------------------------------------------------------------- loops and cases */

typedef struct { bool breaks, doubtful; int loops; } Inside;

static bool look_inside(Ast *n, void *state)
{
    Inside *in = state;
    bool loop = n && (n->kind == AST_For || n->kind == AST_While);

    if (!n || n->kind == AST_FunctionDef || n->kind == AST_ClassDef || n->kind == AST_Lambda)
        return true;
    in->breaks |= n->kind == AST_Break && !in->loops;
    in->doubtful |= n->kind == AST_Raise || n->kind == AST_Try || n->kind == AST_Assert || n->kind == AST_With;
    in->loops += loop;
    ast_walk(n, look_inside, in);
    in->loops -= loop;
    return true;
}

static Inside inside(AstSeq body)
{
    Inside in = {0};

    for (int i = 0; i < body.n; i++)
        look_inside(body.at[i], &in);
    return in;
}

/* Does going through it come to an end, with nothing said of how long it is? A range of a written length may be meant to be left in it. */
static bool is_finite(const Ast *iter)
{
    const Type *t = type_found(iter), *const *item;

    if (type_is_any(t) || type_items(t, &item) > 0)
        return false;
    return t->kind == TY_LIST || t->kind == TY_TUPLE || t->kind == TY_DICT || t->kind == TY_SET || t->kind == TY_STR;
}

static bool always(const Ast *test)
{
    return ast_is_const(test, CONST_TRUE) || (AST_IS(test, Int) && AST_AS(test, Int)->value);
}

static Ast *way_out_of_loop(Ast *loop)
{
    const AstFor *f = AST_IS(loop, For) ? AST_AS(loop, For) : NULL;
    const AstWhile *w = f ? NULL : AST_AS(loop, While);
    AstSeq orelse = f ? f->orelse : w->orelse;
    Inside in = inside(f ? f->body : w->body);

    if (in.breaks)
        return in.doubtful ? NULL : loop;
    if (w && always(w->test))
        return NULL;
    if (orelse.n)
        return way_out(orelse);
    return in.doubtful || (f && (f->is_async || !is_finite(f->iter))) ? NULL : loop;
}

/* Behind one of the cases; NULL where one may be missing, too. */
static Ast *way_out_of_match(AstMatch *m)
{
    Ast *by = NULL;

    for (int i = 0; !by && i < m->cases.n; i++)
        by = way_out(AST_AS(m->cases.at[i], MatchCase)->body);
    return by;
}

/* The statement behind which the body ends without return, as far as its form tells; NULL: nowhere for certain. */
static Ast *way_out(AstSeq body)
{
    Ast *last = body.n ? body.at[body.n - 1] : NULL;

    switch (last ? (int)last->kind : -1) {
    case AST_If:
        return way_out_of_if(AST_AS(last, If));
    case AST_Try:
        return way_out_of_try(AST_AS(last, Try));
    case AST_With:
        return way_out(AST_AS(last, With)->body);
    case AST_For: case AST_While:
        return way_out_of_loop(last);
    case AST_Match:
        return way_out_of_match(AST_AS(last, Match));
    case AST_Assign: case AST_AugAssign: case AST_AnnAssign: case AST_Pass:
        return last;
    case AST_ExprStmt: {
        const Ast *e = AST_AS(last, ExprStmt)->value, *f = AST_IS(e, Call) ? AST_AS(e, Call)->func : NULL;
        return AST_IS(f, Name) && AST_AS(f, Name)->bind == BIND_PRELUDE && !strcmp(AST_AS(f, Name)->id->text, "print") ? last : NULL;
    }
    default:
        return NULL;
    }
}

/* ------------------------------------------------------------- the report */

static const char *how(const Ast *last, bool never)
{
    if (never)
        return "the body ends here";
    switch (last->kind) {
    case AST_If: return "it goes on behind this, to the end, where the condition is false";
    case AST_For: case AST_While: return "it goes on behind this, to the end, when the loop is done";
    default: return "it ends behind this";
    }
}

void ends_judged(Check *C, const Fn *f, const Type *declared, bool never)
{
    AstFunctionDef *def = AST_AS(f->node, FunctionDef);
    Ast *last = def->body.n ? def->body.at[def->body.n - 1] : NULL;
    Diag *d;

    if (fn_is_held_back(f) || !last || !def->returns || is_stub(def->body) || type_fits(C, T_NONE, declared) != FITS_NOT || C->fuel <= 0)
        return;
    if (!never && !(last = way_out(def->body)))
        return;
    d = REPORT(C, E0907, def->returns->span, f->name->text, type_text(declared), never ? "None: its body ends without return"
                                                                                      : "None where its body ends without return");
    diag_label(d, last->span, "%s", how(last, never));
    if (last->kind == AST_Assign && AST_AS(last, Assign)->targets.n == 1 && AST_IS(AST_AS(last, Assign)->targets.at[0], Name))
        diag_help(d, "end it with: return %s", AST_AS(AST_AS(last, Assign)->targets.at[0], Name)->id->text);
    else if (never)
        diag_help(d, "end it with return and the result, or declare -> None");
    else
        diag_help(d, "end it with return and the result, or with raise, or declare Optional[...]");
}
