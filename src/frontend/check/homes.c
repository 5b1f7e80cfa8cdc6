/*
 * Homes: the sources whose code the checker walks.
 *
 * The program is one.  A library file or an imported module becomes one when
 * something of it is used: its tree is resolved, its body walked once without
 * a word, and from then on its functions and classes are followed like the
 * program's own.  Mistakes in there are mistakes of the call that led there.
 */
#include "frontend/check/checker.h"

#include "frontend/check/spaces.h"
#include "frontend/eval/native.h"

#include <string.h>

/* ------------------------------------------------------------- making */

void home_init(Check *C, Home *h, Scope *s)
{
    h->scope = s;
    h->nglob = s->locals.n;
    h->glob = arena_array(&C->arena, const Type *, h->nglob + 1);
    h->decl = arena_array(&C->arena, const Type *, h->nglob + 1);
    h->from = arena_array(&C->arena, Ast *, h->nglob + 1);
    h->frame.home = h;
    h->frame.trail = &h->frame.own;
    h->frame.scope = s;
    h->frame.nvar = s->nslots;
    h->frame.var = arena_array(&C->arena, const Type *, h->frame.nvar + 1);
    h->frame.decl = arena_array(&C->arena, const Type *, h->frame.nvar + 1);
    h->frame.from = arena_array(&C->arena, Ast *, h->frame.nvar + 1);
}

void home_done(Home *h)
{
    vec_free(&h->frame.dims);
    vec_free(&h->frame.own.put);
    map_done(&h->mutated);
}

static void walk_body(Check *C, Home *h, Unit *u)
{
    Home *home = C->home;
    CFrame *frame = C->frame;
    struct Loop *loop = C->loop;
    Ast *stmt = C->stmt;
    int mixed = C->mixed, branches = C->branches;

    C->home = h;
    C->frame = &h->frame;
    C->loop = NULL;
    C->mixed = C->branches = 0;
    C->quiet++;
    block(C, u->module->body);
    C->quiet--;
    h->frame.dead = false;
    C->mixed = mixed;
    C->branches = branches;
    C->stmt = stmt;
    C->loop = loop;
    C->frame = frame;
    C->home = home;
}

static void walk_piece(Check *C, Home *h, int i)
{
    Unit *u = h->walked[i] ? NULL : space_piece(h->space, i);

    h->walked[i] = true;
    if (u) {
        survey(C, h, u);
        walk_body(C, h, u);
    }
}

/* What stands between definitions may be changed by any of those that are not read yet. */
static void mark_variables(Home *h)
{
    for (int i = 0; i < h->scope->locals.n; i++)
        if (space_piece_of(h->space, h->scope->locals.at[i].name) < 0)
            map_set(&h->mutated, (uintptr_t)h->scope->locals.at[i].name, 1);
}

static Home *home_of(Check *C, const Space *s)
{
    Home *h = map_get_ptr(&C->home_of, s);
    Scope *names;

    if (h)
        return h;
    names = space_scope(s);
    if (!names || map_find(&C->home_of, (uintptr_t)s, NULL))
        return NULL;
    h = arena_new(&C->arena, Home);
    map_set_ptr(&C->home_of, s, h);
    h->space = s;
    h->library = true;
    h->walked = arena_array(&C->arena, bool, s->piece.n);
    home_init(C, h, names);
    if (s->piece.n > 1)
        mark_variables(h);
    for (int i = 0; i < s->piece.n; i++)
        if (!s->piece.at[i].name)
            walk_piece(C, h, i);
    return h;
}

void home_need(Check *C, Home *h, Sym name)
{
    int i = h->space ? space_piece_of(h->space, name) : -1;

    if (i >= 0 && !h->walked[i])
        walk_piece(C, h, i);
}

const Type *space_type(Check *C, const Space *s, Sym name)
{
    Home *h = home_of(C, s);
    int i = h ? scope_find(h->scope, name) : -1;
    const Local *l;

    if (i < 0)
        return NULL;
    home_need(C, h, name);
    l = &h->scope->locals.at[i];
    return l->nbinds == 1 && (int)l->slot < h->nglob ? h->glob[l->slot] : NULL;
}
