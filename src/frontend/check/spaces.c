/* Files are searched as import searches them; every Space is made once and kept by the name or path it came from. */
#include "frontend/check/spaces.h"

#include "frontend/check/collect.h"
#include "frontend/check/scope.h"
#include "frontend/eval/native.h"
#include "frontend/prelude.h"

#include "base/vfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static Map builtin_of, file_of;     /* Sym of a dotted name / path -> Space * */

static void add(Space *s, Sym name)
{
    if (!name || map_find(&s->has, (uintptr_t)name, NULL))
        return;
    map_set(&s->has, (uintptr_t)name, 1);
    vec_push(&s->names, name);
}

static void export_public(Space *s)
{
    for (int i = 0; i < s->names.n; i++)
        if (s->names.at[i]->text[0] != '_')
            vec_push(&s->exported, s->names.at[i]);
}

static void add_module_attributes(Space *s)
{
    static const char *const names[] = {"__name__", "__doc__", "__file__", "__dict__"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add(s, sym(names[i]));
}

bool space_has(const Space *s, Sym name)
{
    return s->open || map_find(&s->has, (uintptr_t)name, NULL);
}

/* ------------------------------------------------------------- from source text */

typedef struct { Space *space; const char *path; } Reading;

static void read_name(void *state, CollectEvent e, Sym name, Ast *node)
{
    Reading *r = state;

    if (e == COLLECT_BIND)
        add(r->space, name);
    if (e == COLLECT_STAR) {
        AstImportFrom *f = AST_AS(node, ImportFrom);
        const Space *from = f->module ? space_import(f->module->text, (int)f->level, r->path) : NULL;
        for (int i = 0; from && i < from->exported.n; i++)
            add(r->space, from->exported.at[i]);
    }
}

/* global x in some function makes x a name of the module. */
static bool read_globals(Ast *n, void *state)
{
    if (n && n->kind == AST_Global)
        for (int i = 0; i < AST_AS(n, Global)->names.n; i++)
            add(state, AST_AS(AST_AS(n, Global)->names.at[i], Name)->id);
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

static void read_text(Space *s, const char *path, const char *text, size_t len)
{
    DiagSink sink = {0};
    const Source *src = utf8_check(text, len) == len ? source_add(path, text, len) : NULL;
    Unit *u = src ? unit_parse(src, &sink) : NULL;
    Reading r = {s, src ? src->path : path};

    s->open = !u || sink.errors > 0;
    s->unit = u;
    if (u) {
        collect_block(u->module->body, read_name, &r);
        ast_walk((Ast *)u->module, read_globals, s);
        if (!read_all(s, u))
            export_public(s);
    }
    diag_sink_done(&sink);
}

/* ------------------------------------------------------------- built in */

static void add_prelude(Space *s)
{
    for (int i = 0; i < prelude_count(); i++)
        add(s, prelude_row(i)->name);
}

/* Natives of `owner` itself, and the next part of the names of owners inside it. */
static void add_natives(Space *s, const char *owner)
{
    size_t n = strlen(owner);

    for (int t = 0; native_tables[t]; t++)
        for (const NativeDef *d = native_tables[t]; d->name; d++) {
            if (!strcmp(d->owner, owner))
                add(s, sym(d->name));
            else if (!strncmp(d->owner, owner, n) && d->owner[n] == '.')
                add(s, sym_n(d->owner + n + 1, strcspn(d->owner + n + 1, ".")));
        }
}

static void add_library(Space *s, const char *module)
{
    size_t n = strlen(module), len = 0;
    const char *text = stdlib_text(module, &len);

    for (int i = 0; i < stdlib_count(); i++)
        if (!strncmp(stdlib_name(i), module, n) && stdlib_name(i)[n] == '.')
            add(s, sym_n(stdlib_name(i) + n + 1, strcspn(stdlib_name(i) + n + 1, ".")));
    if (text) {
        StrBuf path = {0};
        sb_printf(&path, LIBRARY_FOLDER "%s.tsr", module);
        read_text(s, sb_str(&path), text, len);
        sb_done(&path);
    }
}

const Space *space_builtin(const char *dotted)
{
    Sym key;
    Space *s;

    if (!strncmp(dotted, "tessera.", 8) || !strncmp(dotted, "ts.", 3))
        dotted = strchr(dotted, '.') + 1;
    key = sym(dotted);
    s = map_get_ptr(&builtin_of, key);
    if (s || !space_exists(dotted))
        return s;
    s = tsr_calloc(sizeof *s);
    s->name = key->text;
    map_set_ptr(&builtin_of, key, s);
    if (!strcmp(dotted, "tessera") || !strcmp(dotted, "ts"))
        add_prelude(s);
    add_natives(s, dotted);
    add_library(s, dotted);
    if (!s->exported.n)
        export_public(s);
    add_module_attributes(s);
    return s;
}

/* ------------------------------------------------------------- files */

static SpaceText *overlay;
static void *overlay_state;

void spaces_overlay(SpaceText *text, void *state)
{
    overlay = text;
    overlay_state = state;
}

static const Space *space_file(const char *path, const char *dotted)
{
    Sym key = sym(path);
    Space *s = map_get_ptr(&file_of, key);
    char *text = NULL;
    size_t len;
    const char *open = s || !overlay ? NULL : overlay(overlay_state, path, &len);

    if (s || (!open && vfs_read_file(path, SOURCE_MAX, &text, &len)))
        return s;
    s = tsr_calloc(sizeof *s);
    s->name = sym(dotted)->text;
    s->path = key->text;
    map_set_ptr(&file_of, key, s);
    read_text(s, path, open ? open : text, len);
    add_module_attributes(s);
    tsr_free(text);
    return s;
}

/* A folder is a package without names of its own: what is in it is found by importing it. */
static const Space *space_folder(const char *path, const char *dotted)
{
    Sym key = sym(path);
    struct stat st;
    Space *s = map_get_ptr(&file_of, key);

    if (s || stat(path, &st) || !S_ISDIR(st.st_mode))
        return s;
    s = tsr_calloc(sizeof *s);
    s->name = sym(dotted)->text;
    s->path = key->text;
    s->open = true;
    map_set_ptr(&file_of, key, s);
    return s;
}

/* dir/a/b.tsr, dir/a/b/__init__.tsr or the folder dir/a/b for a.b; dir may be empty: the current one. */
static const Space *search(const char *dir, size_t ndir, const char *dotted)
{
    static const char *const ends[] = {".tsr", "/__init__.tsr", ""};
    StrBuf b = {0};
    const Space *found = NULL;
    size_t stem;

    sb_write(&b, dir, ndir);
    if (ndir && dir[ndir - 1] != '/')
        sb_putc(&b, '/');
    for (const char *p = dotted; *p; p++)
        sb_putc(&b, *p == '.' ? '/' : *p);
    stem = b.n;
    for (int i = 0; i < 3 && !found; i++) {
        b.n = stem;
        sb_puts(&b, ends[i]);
        found = *ends[i] ? space_file(sb_str(&b), dotted) : space_folder(sb_str(&b), dotted);
    }
    sb_done(&b);
    return found;
}

static const Space *search_path(const char *dotted)
{
    const char *path = getenv("TESSERA_PATH");
    const Space *found = NULL;

    while (path && *path && !found) {
        size_t n = strcspn(path, ":");
        if (n)
            found = search(path, n, dotted);
        path += n + (path[n] == ':');
    }
    return found;
}

const Space *space_import(const char *dotted, int level, const char *from)
{
    const char *slash = from ? strrchr(from, '/') : NULL;
    size_t ndir = slash ? (size_t)(slash - from) + 1 : 0;
    const Space *s;

    if (from && !level && !strncmp(from, LIBRARY_FOLDER, strlen(LIBRARY_FOLDER)))
        return space_builtin(dotted);           /* a file of the program's does not stand in for one of the library */
    for (int up = 1; up < level && ndir; up++) {
        for (ndir--; ndir && from[ndir - 1] != '/'; ndir--)
            ;
    }
    s = search(from, ndir, dotted);
    if (!s && !level)
        s = search_path(dotted);
    return s || level ? s : space_builtin(dotted);
}

const Space *space_member(const Space *s, Sym name)
{
    StrBuf b = {0};
    const Space *m = NULL;

    if (!strcmp(s->name, "tessera") || !strcmp(s->name, "ts")) {
        const PreludeRow *r = prelude_row(prelude_find(name));
        return r && r->kind == PRELUDE_SPACE ? space_builtin(r->module) : NULL;
    }
    if (s->path)
        return NULL;
    sb_printf(&b, "%s.%s", s->name, name->text);
    if (space_exists(sb_str(&b)))
        m = space_builtin(sb_str(&b));
    sb_done(&b);
    return m;
}

Ast *space_definition(const Space *s, Sym name)
{
    for (int i = 0; s && s->unit && i < s->unit->module->body.n; i++) {
        Ast *n = s->unit->module->body.at[i];
        if ((n->kind == AST_FunctionDef && AST_AS(n, FunctionDef)->name == name) ||
            (n->kind == AST_ClassDef && AST_AS(n, ClassDef)->name == name))
            return n;
    }
    return NULL;
}

struct Unit *space_resolved(const Space *s)
{
    Space *own = (Space *)s;
    DiagSink sink = {0};

    if (!s->unit || s->open)
        return NULL;
    if (!s->scope) {
        own->scope = scope_new_module(sym(s->name));
        scope_resolve(s->unit, own->scope, (ScopeOptions){0}, &sink);
        own->open |= sink.errors > 0;
        diag_sink_done(&sink);
    }
    return s->open ? NULL : s->unit;
}

/* ------------------------------------------------------------- end */

static void free_spaces(Map *m)
{
    for (uint32_t i = 0; i < m->cap; i++)
        if (m->key[i]) {
            Space *s = (Space *)m->val[i];
            if (s->scope)
                scope_free_module(s->scope);
            if (s->unit) {
                source_drop(s->unit->src);
                unit_free(s->unit);
            }
            vec_free(&s->names);
            vec_free(&s->exported);
            map_done(&s->has);
            tsr_free(s);
        }
    map_done(m);
}

void spaces_drop_files(void)
{
    free_spaces(&file_of);
}

void spaces_done(void)
{
    free_spaces(&builtin_of);
    free_spaces(&file_of);
}
