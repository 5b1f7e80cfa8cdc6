/* Statements that need a place: return in a function, break in a loop, await in an async function. */
#include "frontend/check/resolve.h"

static bool in_function(const Frame *f)
{
    return f->scope->kind == SCOPE_FUNCTION;
}

static void outside(Res *R, Ast *n, const char *what, const char *where)
{
    DIAG_AT(R->sink, E0211, n->span, what, where);
}

static void check_await(Res *R, Ast *n, const char *what)
{
    Scope *s = R->frame->scope;

    if (s->kind == SCOPE_MODULE)
        s->is_async = true;                         /* top-level await runs the loop (SYN-51) */
    else if (!s->is_async && !(s->kind == SCOPE_GENEXP && s->parent && s->parent->is_async))
        outside(R, n, what, "async function");
}

void place_check(Res *R, Ast *n)
{
    const Frame *f = R->frame;

    switch (n->kind) {
    case AST_Return:
        if (!in_function(f))
            outside(R, n, "return", "function");
        break;
    case AST_Yield:
    case AST_YieldFrom:
        if (!in_function(f) && f->scope->kind != SCOPE_LAMBDA)
            outside(R, n, "yield", "function");
        break;
    case AST_Break:
        if (!f->loops)
            outside(R, n, "break", "loop");
        break;
    case AST_Continue:
        if (!f->loops)
            outside(R, n, "continue", "loop");
        break;
    case AST_Await:
        check_await(R, n, "await");
        break;
    case AST_For:
        if (AST_AS(n, For)->is_async)
            check_await(R, n, "async for");
        break;
    case AST_With:
        if (AST_AS(n, With)->is_async)
            check_await(R, n, "async with");
        break;
    default:
        break;
    }
}
