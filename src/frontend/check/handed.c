/*
 * Functions that are called out of sight: handed on to others, decorated by
 * the program's own decorators, generators, lambdas, and whatever those call.
 * What they store in attributes is stored at no known time, so such an
 * attribute is not taken for what statements in sight gave it.
 *
 * Functions are told apart by name alone, methods too.
 */
#include "frontend/check/handed.h"

#include <string.h>

/* Is the function given to something that the program itself made or imported? */
static bool is_registered(const AstFunctionDef *def)
{
    for (int i = 0; i < def->decorators.n; i++) {
        const Ast *e = def->decorators.at[i];
        while (AST_IS(e, Call) || AST_IS(e, Attribute))
            e = AST_IS(e, Call) ? AST_AS(e, Call)->func : AST_AS(e, Attribute)->value;
        if (AST_IS(e, Name) && AST_AS(e, Name)->bind != BIND_PRELUDE)
            return true;
    }
    return false;
}

static void reach(Handed *h, int i)
{
    if (h->fn.at[i].reached)
        return;
    h->fn.at[i].reached = true;
    vec_push(&h->found, i);
}

/* ------------------------------------------------------------- what the walk tells */

static void begin(Handed *h)
{
    HandedFn module = {0};
    HandedDeed none = {0};

    if (h->fn.n)
        return;
    vec_push(&h->fn, module);
    vec_push(&h->deed, none);
}

/* An object is made where it is needed: __init__ is not called out of sight. */
static void enlist(Handed *h, int i, Sym name)
{
    uintptr_t last = 0;

    if (!name || !strcmp(name->text, "__init__"))
        return;
    map_find(&h->of_name, (uintptr_t)name, &last);
    h->fn.at[i].namesake = (int)last;
    map_set(&h->of_name, (uintptr_t)name, (uintptr_t)i);
}

void handed_enter(Handed *h, const Ast *function)
{
    const AstFunctionDef *def = AST_IS(function, FunctionDef) ? AST_AS(function, FunctionDef) : NULL;
    HandedFn fn = {.around = h->in};
    int i;

    begin(h);
    i = h->fn.n;
    fn.next = h->fn.at[h->in].inner;
    vec_push(&h->fn, fn);
    h->fn.at[h->in].inner = i;
    h->in = i;
    if (def)
        enlist(h, i, def->name);
    if (!def)
        reach(h, i);
    else if (def->name && (is_registered(def) || (def->scope && def->scope->is_generator)))
        handed_named(h, def->name);
}

void handed_leave(Handed *h) { h->in = h->fn.at[h->in].around; }

void handed_named(Handed *h, Sym name) { map_set(&h->named, (uintptr_t)name, 1); }

static void note(Handed *h, Sym name, bool store)
{
    HandedDeed d = {name, h->in ? h->fn.at[h->in].deed : 0, store};

    if (!h->in)
        return;
    h->fn.at[h->in].deed = h->deed.n;
    vec_push(&h->deed, d);
}

void handed_called(Handed *h, Sym name) { note(h, name, false); }

void handed_stored(Handed *h, const Ast *target)
{
    AstSeq e = AST_IS(target, Tuple) ? AST_AS(target, Tuple)->elts : (AstSeq){0};

    for (int i = 0; h->in && i < e.n; i++)
        handed_stored(h, e.at[i]);
    if (AST_IS(target, Attribute))
        note(h, AST_AS(target, Attribute)->attr, true);
}

/* ------------------------------------------------------------- what follows from it */

static void reach_all(Handed *h, Sym name)
{
    uintptr_t i = 0;

    map_find(&h->of_name, (uintptr_t)name, &i);
    if (!i || h->fn.at[i].all)
        return;
    h->fn.at[i].all = true;
    for (; i; i = (uintptr_t)h->fn.at[i].namesake)
        reach(h, (int)i);
}

static void follow(Handed *h, Check *C, int i)
{
    for (int k = h->fn.at[i].inner; k; k = h->fn.at[k].next)
        reach(h, k);
    for (int k = h->fn.at[i].deed; k; k = h->deed.at[k].next)
        if (h->deed.at[k].store)
            survey_stored(C, h->deed.at[k].name);
        else
            reach_all(h, h->deed.at[k].name);
}

void handed_end(Handed *h, Check *C)
{
    for (uint32_t i = 0; h->classes && i < h->of_name.cap; i++)
        if (h->of_name.key[i] && map_find(&h->named, h->of_name.key[i], NULL))
            reach_all(h, (Sym)(uintptr_t)h->of_name.key[i]);
    while (h->classes && h->found.n)
        follow(h, C, vec_pop(&h->found));
    vec_free(&h->fn);
    vec_free(&h->deed);
    vec_free(&h->found);
    map_done(&h->of_name);
    map_done(&h->named);
}
