/*
 * Finding names.  A name is looked for from the innermost frame outwards; a
 * local of an outer function becomes a cell there and a free variable in every
 * frame between.
 */
#include "frontend/check/resolve.h"
#include "frontend/check/foreign.h"
#include "frontend/check/spaces.h"

#include "frontend/prelude.h"

#include <stdio.h>
#include <string.h>

Scope *scope_make(Res *R, ScopeKind kind, Ast *node, Sym name, Scope *parent)
{
    Scope *s = tsr_calloc(sizeof *s);

    s->kind = kind;
    s->node = node;
    s->name = name;
    s->parent = parent;
    s->owned = R->globals->owned;
    R->globals->owned = s;
    return s;
}

/* Their names, once looking at each would take long. */
static void index_local(Scope *s)
{
    for (int i = s->index_of.n ? s->locals.n - 1 : 0; s->locals.n > LOCALS_FEW && i < s->locals.n; i++)
        map_set(&s->index_of, (uintptr_t)s->locals.at[i].name, (uintptr_t)i + 1);
}

int scope_add_local(Scope *s, Sym name, Span decl, Ast *node)
{
    int i = scope_find(s, name);

    if (i < 0) {
        Local fresh = {.name = name, .decl = decl, .dim_param = -1};
        fresh.slot = s->kind == SCOPE_MODULE ? (uint32_t)s->locals.n : (uint32_t)s->nslots;
        s->nslots += s->kind != SCOPE_MODULE && s->kind != SCOPE_CLASS;
        vec_push(&s->locals, fresh);
        index_local(s);
        i = s->locals.n - 1;
    }
    s->locals.at[i].nbinds++;
    s->locals.at[i].node = node;
    return i;
}

void scope_announce(Scope *s, Sym name)
{
    int i = scope_add_local(s, name, (Span){0, 0}, NULL);

    s->locals.at[i].nbinds--;
}

static uint32_t add_free(Scope *s, Sym name, bool from_cell, uint32_t index)
{
    Free f = {name, from_cell, index};

    for (int i = 0; i < s->frees.n; i++)
        if (s->frees.at[i].from_cell == from_cell && s->frees.at[i].index == index)
            return (uint32_t)i;
    vec_push(&s->frees, f);
    return (uint32_t)s->frees.n - 1;
}

static uintptr_t declared(const Frame *f, Sym name)
{
    uintptr_t d = 0;

    map_find(&f->decl, (uintptr_t)name, &d);
    return d;
}

const DimDecl *frame_dim(const Frame *f, Sym name)
{
    for (int i = 0; i < f->dims.n; i++)
        if (f->dims.at[i].name == name)
            return &f->dims.at[i];
    return NULL;
}

bool name_is_type_var(Res *R, Sym name)
{
    if (R->sig && frame_dim(R->sig, name))
        return true;
    for (Frame *f = R->frame; f; f = f->up)
        if (frame_dim(f, name))
            return true;
    return false;
}

static Found frame_find_global(Res *R, Sym name)
{
    Local *l = scope_local(R->globals, name);
    int row;

    if (l)
        return (Found){.bind = BIND_GLOBAL, .slot = l->slot};
    row = prelude_find(name);
    if (row >= 0)
        return (Found){.bind = BIND_PRELUDE, .slot = (uint32_t)row};
    return (Found){.bind = BIND_NONE};
}

static Found found_local(Scope *s, int i)
{
    return (Found){BIND_LOCAL, s->locals.at[i].slot, s, i};
}

/* The frame's own variables: comprehensions', parameters, locals, dims used as values. */
static bool find_own(Frame *f, Sym name, Found *out)
{
    const DimDecl *dim;
    int i;

    for (Comp *c = f->comp; c; c = c->up)
        if ((i = scope_find(c->scope, name)) >= 0) {
            *out = found_local(c->scope, i);
            return true;
        }
    if (f->scope->kind == SCOPE_MODULE || f->scope->kind == SCOPE_CLASS || declared(f, name) & (DECL_GLOBAL | DECL_NONLOCAL))
        return false;
    if ((i = scope_find(f->scope, name)) >= 0) {
        *out = found_local(f->scope, i);
        return true;
    }
    if (!(dim = frame_dim(f, name)) || dim->param < 0)      /* no argument tells its value: an outer name may */
        return false;
    i = scope_add_local(f->scope, name, f->scope->node ? f->scope->node->span : (Span){0, 0}, NULL);
    f->scope->locals.at[i].is_dim = 1;
    f->scope->locals.at[i].dim_param = dim->param;
    f->scope->locals.at[i].dim_axis = dim->axis;
    memcpy(f->scope->locals.at[i].dim_path, dim->path, sizeof dim->path);
    *out = found_local(f->scope, i);
    return true;
}

/* What an outer frame found, as the frame inside it sees it. */
static Found captured(Frame *f, Sym name, Found outer)
{
    if (outer.bind == BIND_LOCAL) {
        outer.scope->locals.at[outer.local].is_cell = 1;
        return (Found){.bind = BIND_FREE, .slot = add_free(f->scope, name, true, outer.slot)};
    }
    if (outer.bind == BIND_FREE)
        return (Found){.bind = BIND_FREE, .slot = add_free(f->scope, name, false, outer.slot)};
    return outer;
}

Found frame_find(Res *R, Frame *f, Sym name, bool direct)
{
    Found own;

    if (find_own(f, name, &own))
        return own;
    if (f->scope->kind == SCOPE_MODULE || declared(f, name) & DECL_GLOBAL)
        return frame_find_global(R, name);
    if (f->scope->kind == SCOPE_CLASS && direct && !f->comp && !(declared(f, name) & DECL_NONLOCAL) &&
        scope_local(f->scope, name))
        return (Found){.bind = BIND_CLASS};
    return captured(f, name, frame_find(R, f->up, name, false));
}

void frame_bind(Res *R, Frame *f, Sym name, Span span, Ast *node)
{
    uintptr_t d = declared(f, name);
    Local *l = NULL;

    if (d & DECL_GLOBAL) {
        l = &R->globals->locals.at[scope_add_local(R->globals, name, span, node)];
        l->is_shared |= f->scope->kind != SCOPE_MODULE;
    } else if (d & DECL_NONLOCAL) {
        for (Frame *up = f->up; up && !l; up = up->up)
            l = up->scope->kind == SCOPE_FUNCTION ? scope_local(up->scope, name) : NULL;
        if (l)
            l->is_shared = 1, l->nbinds++;
    }
    if (!(d & (DECL_GLOBAL | DECL_NONLOCAL)))
        scope_add_local(f->scope, name, span, node);
}

void frame_done(Frame *f)
{
    map_done(&f->decl);
    vec_free(&f->dims);
}

void name_set(Res *R, AstName *n, Found f)
{
    n->bind = (uint8_t)f.bind;
    n->slot = f.slot;
    if (f.bind == BIND_LOCAL) {
        Use u = {n, f.scope, f.local};
        vec_push(&R->uses, u);
    }
    if (f.bind == BIND_CLASS) {
        Found outer = frame_find_global(R, n->id);
        n->outer = (uint8_t)outer.bind;
        n->outer_slot = outer.slot;
    }
}

/* ------------------------------------------------------------- unknown names */

/* Yields the names visible from a frame: comprehensions, locals, outer frames, module, prelude; words that stand alone. */
typedef struct { Frame *frame; Comp *comp; int i; int stage; } Visible;

static const char *next_visible(void *state)
{
    static const char *const keyword[] = {"break", "continue", "pass", "return", "True", "False", "None", NULL};
    Visible *v = state;

    for (;;) {
        Scope *s = v->comp ? v->comp->scope : v->frame ? v->frame->scope : NULL;
        if (s && v->i < s->locals.n)
            return s->locals.at[v->i++].name->text;
        if (!v->frame && v->i < prelude_count())
            return prelude_row(v->i++)->name->text;
        if (!v->frame)
            return keyword[v->i - prelude_count()] ? keyword[v->i++ - prelude_count()] : NULL;
        v->i = 0;
        if (v->comp) {
            v->comp = v->comp->up;
            continue;
        }
        v->frame = v->frame->up;
        v->comp = v->frame ? v->frame->comp : NULL;
    }
}

static const struct { const char *name, *help; } left_out[] = {
    {"eval", "there is no evaluation of text; int(), float() and json.loads() read values"},
    {"exec", "there is no execution of text; define a function or import a module"},
    {"compile", "there is no compilation of text; @jit compiles functions"},
    {"__import__", "write import m"},
};

static bool report_left_out(Res *R, AstName *n)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (!strcmp(left_out[i].name, n->id->text)) {
            Diag *d = DIAG_AT(R->sink, E0210, n->ast.span, n->id->text);
            diag_help(d, "%s", left_out[i].help);
            return true;
        }
    return false;
}

/* Where the function at hand binds the name that may have been meant. */
static void label_bound(Res *R, Diag *d, const AstName *use, const char *near)
{
    const Local *l = R->frame->scope->kind == SCOPE_FUNCTION ? scope_local(R->frame->scope, sym(near)) : NULL;

    if (l && !l->is_param && l->decl.hi && source_place(l->decl.lo).line != source_place(use->ast.span.lo).line)
        diag_label(d, l->decl, "'%s' is bound here", near);
}

/* The module that a name is imported from in Python; NULL: none of those that programs import single names from. */
static const char *module_of(Sym name)
{
    static const char *const modules[] = {
        "enum", "abc", "collections", "itertools", "functools", "math", "dataclasses", "pathlib", "datetime", "heapq", "bisect", "contextlib",
        "operator", "copy", "io", "time", "statistics", "fractions", "re", "json", "random", "string", "numbers", "cmath", "queue", "textwrap",
        "pprint", "typing", "collections.abc",
    };

    for (size_t i = 0; name->len > 1 && i < sizeof modules / sizeof *modules; i++) {
        const Space *s = space_builtin(modules[i]);
        if (s && space_has(s, name))
            return modules[i];
    }
    return NULL;
}

void name_unknown(Res *R, AstName *n, DiagCode code)
{
    Visible v = {R->frame, R->frame->comp, 0, 0};
    const Foreign *known;
    const char *near, *from;
    Diag *d;

    if (report_left_out(R, n))
        return;
    d = DIAG_AT(R->sink, code, n->ast.span, n->id->text);
    known = foreign_find("", n->id->text);
    if (known) {
        foreign_help(d, known, n->ast.span);
        return;
    }
    near = closest_name(n->id->text, next_visible, &v);
    from = near && prelude_find(sym(near)) < 0 ? NULL : module_of(n->id);       /* a slip in a name of the program's is the likelier one */
    if (from) {
        diag_help(d, "write from %s import %s before", from, n->id->text);
    } else if (near) {
        diag_guess(d, n->ast.span, n->id->text, near);
        label_bound(R, d, n, near);
    }
}
