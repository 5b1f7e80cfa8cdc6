/*
 * The sources of namespaces, read no further than they are used.
 *
 * A library module comes cut into pieces: each def and class of its top level,
 * and what stands between them.  The names of the whole are known from the
 * cuts and from what stands between, so a definition can be parsed and
 * resolved alone, when the checker first asks for it, and the scope that it is
 * resolved in is that of the module.  Who runs the module asks for all of it,
 * and gets what was made before together with the rest.
 */
#include "frontend/check/resolve.h"

#include "frontend/check/collect.h"
#include "frontend/check/spaces.h"
#include "frontend/stdlib_embed.h"

#include <string.h>

/* ------------------------------------------------------------- names */

typedef struct { Space *space; const char *path; } Reading;

static void read_name(void *state, CollectEvent e, Sym name, Ast *node)
{
    Reading *r = state;

    if (e == COLLECT_BIND)
        space_add(r->space, name);
    if (e == COLLECT_STAR) {
        AstImportFrom *f = AST_AS(node, ImportFrom);
        const Space *from = f->module ? space_import(f->module->text, (int)f->level, r->path) : NULL;
        for (int i = 0; from && i < from->exported.n; i++)
            space_add(r->space, from->exported.at[i]);
    }
}

/* global x in some function makes x a name of the module. */
static bool read_globals(Ast *n, void *state)
{
    if (n && n->kind == AST_Global)
        for (int i = 0; i < AST_AS(n, Global)->names.n; i++)
            space_add(state, AST_AS(AST_AS(n, Global)->names.at[i], Name)->id);
    if (n)
        ast_walk(n, read_globals, state);
    return true;
}

/* __all__ = ["a", "b"]: the exported names, if the module says so literally. */
static bool read_all(Space *s, const Unit *u)
{
    for (int i = 0; i < u->module->body.n; i++) {
        Ast *n = u->module->body.at[i];
        AstAssign *a = AST_AS(n, Assign);
        AstSeq elts;
        if (n->kind != AST_Assign || a->targets.n != 1 || !AST_IS(a->targets.at[0], Name) ||
            strcmp(AST_AS(a->targets.at[0], Name)->id->text, "__all__") || !a->value ||
            (a->value->kind != AST_List && a->value->kind != AST_Tuple))
            continue;
        elts = a->value->kind == AST_List ? AST_AS(a->value, List)->elts : AST_AS(a->value, Tuple)->elts;
        for (int k = 0; k < elts.n; k++)
            if (AST_IS(elts.at[k], Str))
                vec_push(&s->exported, sym_n(AST_AS(elts.at[k], Str)->value.s, AST_AS(elts.at[k], Str)->value.n));
        return true;
    }
    return false;
}

/* ------------------------------------------------------------- trees */

static Unit *parsed(Space *s, Piece *p)
{
    DiagSink sink = {0};

    if (!p->unit) {
        p->unit = p->at == 0 && p->end == s->src->len ? unit_parse(s->src, &sink) : unit_parse_range(s->src, p->at, p->end, &sink);
        s->open |= sink.errors > 0;
        diag_sink_done(&sink);
    }
    return p->unit;
}

void pieces_read(Space *s, const char *path, const char *text, size_t len, const EmbeddedPiece *cut, int ncut)
{
    bool listed = false;

    s->src = cut || utf8_check(text, len) == len ? source_add(path, text, len) : NULL;
    s->open = !s->src;
    if (!s->src)
        return;
    for (int i = 0; i < ncut; i++) {
        size_t end = i + 1 < ncut ? cut[i + 1].at : len;
        vec_push(&s->piece, ((Piece){.at = (uint32_t)cut[i].at, .end = (uint32_t)end, .name = cut[i].name ? sym(cut[i].name) : NULL}));
    }
    if (!ncut)
        vec_push(&s->piece, ((Piece){.end = s->src->len}));
    for (int i = 0; i < s->piece.n; i++) {
        Piece *p = &s->piece.at[i];
        Reading r = {s, s->src->path};
        if (p->name) {
            space_add(s, p->name);
            continue;
        }
        collect_block(parsed(s, p)->module->body, read_name, &r);
        if (!cut && strstr(s->src->text, "global"))     /* library modules bind at the top what functions declare so */
            ast_walk((Ast *)p->unit->module, read_globals, s);
        listed |= read_all(s, p->unit);
    }
    if (!listed)
        space_export_public(s);
}

Unit *space_piece(const Space *s, int i)
{
    Piece *p = &((Space *)s)->piece.at[i];
    DiagSink sink = {0};

    if (!s->open && !p->resolved) {
        p->resolved = true;
        scope_resolve(parsed((Space *)s, p), s->scope, (ScopeOptions){0}, &sink);
        ((Space *)s)->open |= sink.errors > 0;
        diag_sink_done(&sink);
    }
    return s->open ? NULL : p->unit;
}

Scope *space_scope(const Space *s)
{
    Space *own = (Space *)s;

    if (s->open || !s->src)
        return NULL;
    if (!s->scope) {
        own->scope = scope_new_module(sym(s->name));
        for (int i = 0; s->piece.n > 1 && i < s->names.n; i++)
            scope_announce(s->scope, s->names.at[i]);
        for (int i = 0; i < s->piece.n; i++)
            if (!s->piece.at[i].name)
                space_piece(s, i);
    }
    return s->open ? NULL : s->scope;
}

Unit *space_resolved(const Space *s)
{
    Space *own = (Space *)s;
    Unit *whole;
    int n = 0;

    if (s->unit || !space_scope(s))
        return s->open ? NULL : s->unit;
    for (int i = 0; i < s->piece.n && space_piece(s, i); i++)
        n += s->piece.at[i].unit->module->body.n;
    if (s->open)
        return NULL;
    whole = tsr_calloc(sizeof *whole);
    whole->src = s->src;
    whole->module = ast_new(&whole->arena, Module, ((Span){s->src->base, s->src->base + s->src->len}));
    whole->module->body.at = arena_array(&whole->arena, Ast *, n + 1);
    for (int i = 0; i < s->piece.n; i++)
        for (int k = 0; k < s->piece.at[i].unit->module->body.n; k++)
            whole->module->body.at[whole->module->body.n++] = s->piece.at[i].unit->module->body.at[k];
    whole->module->scope = s->scope;
    s->scope->node = (Ast *)whole->module;
    own->unit = whole;
    return whole;
}

int space_piece_of(const Space *s, Sym name)
{
    for (int i = 0; name && i < s->piece.n; i++)
        if (s->piece.at[i].name == name)
            return i;
    return -1;
}

static Ast *definition_in(const Unit *u, Sym name)
{
    for (int i = 0; i < u->module->body.n; i++) {
        Ast *n = u->module->body.at[i];
        if ((n->kind == AST_FunctionDef && AST_AS(n, FunctionDef)->name == name) ||
            (n->kind == AST_ClassDef && AST_AS(n, ClassDef)->name == name))
            return n;
    }
    return NULL;
}

Ast *space_definition(const Space *s, Sym name)
{
    Ast *def = NULL;
    int own = s ? space_piece_of(s, name) : -1;

    if (own >= 0)
        return definition_in(parsed((Space *)s, &((Space *)s)->piece.at[own]), name);
    for (int i = 0; s && i < s->piece.n && !def; i++)
        def = s->piece.at[i].name ? NULL : definition_in(s->piece.at[i].unit, name);
    return def;
}

void pieces_done(Space *s)
{
    if (s->scope)
        scope_free_module(s->scope);
    for (int i = 0; i < s->piece.n; i++)
        if (s->piece.at[i].unit)
            unit_free(s->piece.at[i].unit);
    if (s->unit)
        unit_free(s->unit);
    vec_free(&s->piece);
    source_drop(s->src);
}
