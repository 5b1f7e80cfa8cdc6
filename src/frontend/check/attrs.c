/* Names of modules and namespaces: imports, and attributes of what is surely a module. */
#include "frontend/check/resolve.h"

#include "frontend/check/collect.h"
#include "frontend/check/spaces.h"
#include "frontend/check/foreign.h"
#include "frontend/prelude.h"

#include <string.h>

typedef struct { const Space *space; int i; } Members;

static const char *next_member(void *state)
{
    Members *m = state;

    return m->i < m->space->names.n ? m->space->names.at[m->i++]->text : NULL;
}

/* span: of the name alone. */
static void suggest(Diag *d, const Space *s, Sym wrong, Span span)
{
    Members m = {s, 0};
    const Foreign *known = foreign_find(s->name, wrong->text);
    const char *near = known ? NULL : closest_name(wrong->text, next_member, &m);

    if (known) {
        foreign_help(d, known, span);
    } else if (near)
        diag_guess(d, span, wrong->text, near);
}

/* ------------------------------------------------------------- imports */

static const char *next_module(void *state)
{
    int *i = state;

    while (*i < prelude_count()) {
        const PreludeRow *r = prelude_row((*i)++);
        if (r->kind == PRELUDE_SPACE)
            return r->name->text;
    }
    return NULL;
}

static void no_module(Res *R, Span span, const char *name)
{
    Diag *d = DIAG_AT(R->sink, E0801, span, name);
    int i = 0;
    const Foreign *known = foreign_find("import", name);
    const char *near = closest_name(name, next_module, &i);

    if (known) {
        foreign_help(d, known, span);
    } else if (near)
        diag_guess(d, span_head(span, name), name, near); else
        diag_help(d, "it is looked for as %s.tsr beside this file, on TESSERA_PATH, then in the library", name);
}

static void check_from(Res *R, AstImportFrom *f)
{
    const char *module = f->module ? f->module->text : "";
    const char *path = R->u->src->path;
    const Space *s = *module ? space_import(module, (int)f->level, path) : NULL;

    if (!*module)
        return;
    if (!s) {
        no_module(R, f->ast.span, module);
        return;
    }
    for (int i = 0; i < f->names.n; i++) {
        AstAlias *a = AST_AS(f->names.at[i], Alias);
        StrBuf sub = {0};
        if (a->ast.kind != AST_Alias || !a->name || space_has(s, a->name))
            continue;
        sb_printf(&sub, "%s.%s", module, a->name->text);
        if (!space_import(sb_str(&sub), (int)f->level, path))
            suggest(DIAG_AT(R->sink, E0203, a->ast.span, module, a->name->text), s, a->name, span_head(a->ast.span, a->name->text));
        sb_done(&sub);
    }
}

void import_check(Res *R, Ast *stmt)
{
    if (stmt->kind == AST_ImportFrom) {
        check_from(R, AST_AS(stmt, ImportFrom));
        return;
    }
    for (int i = 0; i < AST_AS(stmt, Import)->names.n; i++) {
        AstAlias *a = AST_AS(AST_AS(stmt, Import)->names.at[i], Alias);
        if (a->ast.kind == AST_Alias && a->name && !space_import(a->name->text, 0, R->u->src->path))
            no_module(R, a->ast.span, a->name->text);
    }
}

/* ------------------------------------------------------------- attributes */

/* The module that an import statement binds to `name`; NULL when it binds a value. */
static const Space *imported_space(Res *R, Ast *stmt, Sym name)
{
    const char *path = R->u->src->path;
    bool from = stmt->kind == AST_ImportFrom;
    AstSeq names = from ? AST_AS(stmt, ImportFrom)->names : AST_AS(stmt, Import)->names;

    for (int i = 0; i < names.n; i++) {
        AstAlias *a = AST_AS(names.at[i], Alias);
        const Space *s;
        if (a->ast.kind != AST_Alias || alias_binds(a, from) != name)
            continue;
        if (!from)
            return a->asname || !strchr(a->name->text, '.') ? space_import(a->name->text, 0, path) : NULL;
        if (!AST_AS(stmt, ImportFrom)->module)
            return NULL;
        s = space_import(AST_AS(stmt, ImportFrom)->module->text, (int)AST_AS(stmt, ImportFrom)->level, path);
        return s ? space_member(s, a->name) : NULL;
    }
    return NULL;
}

static const Space *space_of_name(Res *R, AstName *n)
{
    const PreludeRow *r;
    Local *l;

    if (n->bind == BIND_PRELUDE) {
        r = prelude_row((int)n->slot);
        return r->kind == PRELUDE_SPACE ? space_builtin(r->module) : NULL;
    }
    if (n->bind != BIND_GLOBAL)
        return NULL;
    l = scope_local(R->globals, n->id);
    if (!l || l->nbinds != 1 || !l->node || (l->node->kind != AST_Import && l->node->kind != AST_ImportFrom))
        return NULL;
    return imported_space(R, l->node, n->id);
}

static const Space *space_of(Res *R, Ast *e)
{
    const Space *s;

    if (AST_IS(e, Name))
        return space_of_name(R, AST_AS(e, Name));
    if (!AST_IS(e, Attribute))
        return NULL;
    s = space_of(R, AST_AS(e, Attribute)->value);
    return s ? space_member(s, AST_AS(e, Attribute)->attr) : NULL;
}

/* Tell the name before a dot which namespace of the prelude it is, for readers of the tree that have no scopes at hand. */
static void note_space(Ast *e, const Space *s)
{
    AstName *n = AST_IS(e, Name) ? AST_AS(e, Name) : NULL;
    int row = n && n->bind == BIND_GLOBAL && !s->path ? prelude_find(sym(s->name)) : -1;

    if (row >= 0 && prelude_row(row)->kind == PRELUDE_SPACE)
        n->space = (uint16_t)(row + 1);
}

void attrs_check(Res *R)
{
    for (int i = 0; i < R->attrs.n; i++) {
        AstAttribute *a = AST_AS(R->attrs.at[i], Attribute);
        const Space *s = space_of(R, a->value);
        StrBuf sub = {0};
        if (s)
            note_space(a->value, s);
        if (!s || !a->attr || space_has(s, a->attr))
            continue;
        sb_printf(&sub, "%s.%s", s->name, a->attr->text);   /* import a.b makes b an attribute of a */
        if (!s->path || !space_import(sb_str(&sub), 0, R->u->src->path))
            suggest(DIAG_AT(R->sink, E0202, a->ast.span, s->name, a->attr->text), s, a->attr, span_tail(a->ast.span, a->attr->text));
        sb_done(&sub);
    }
}
