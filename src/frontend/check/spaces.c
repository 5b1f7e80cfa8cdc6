/* Files are searched as import searches them; every Space is made once and kept by the name or path it came from. */
#include "frontend/check/spaces.h"

#include "frontend/eval/native.h"
#include "frontend/prelude.h"
#include "frontend/stdlib_embed.h"

#include "base/vfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static Map builtin_of, file_of;     /* Sym of a dotted name / path -> Space * */
static Map missing;                 /* Sym of a path without its end -> 1: nothing was there when it was looked for */

void space_add(Space *s, Sym name)
{
    if (!name || map_find(&s->has, (uintptr_t)name, NULL))
        return;
    map_set(&s->has, (uintptr_t)name, 1);
    vec_push(&s->names, name);
}

void space_export_public(Space *s)
{
    for (int i = 0; i < s->names.n; i++)
        if (s->names.at[i]->text[0] != '_')
            vec_push(&s->exported, s->names.at[i]);
}

static void add_module_attributes(Space *s)
{
    static const char *const names[] = {"__name__", "__doc__", "__file__", "__dict__"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        space_add(s, sym(names[i]));
}

bool space_has(const Space *s, Sym name)
{
    return s->open || map_find(&s->has, (uintptr_t)name, NULL);
}

/* ------------------------------------------------------------- built in */

static void add_prelude(Space *s)
{
    for (int i = 0; i < prelude_count(); i++)
        space_add(s, prelude_row(i)->name);
}

/* Natives of `owner` itself, and the next part of the names of owners inside it. */
static void add_natives(Space *s, const char *owner)
{
    size_t n = strlen(owner);

    for (int t = 0; native_tables[t]; t++)
        for (const NativeDef *d = native_tables[t]; d->name; d++) {
            if (*d->owner != *owner)                /* most rows */
                continue;
            if (!strcmp(d->owner, owner))
                space_add(s, sym(d->name));
            else if (!strncmp(d->owner, owner, n) && d->owner[n] == '.')
                space_add(s, sym_n(d->owner + n + 1, strcspn(d->owner + n + 1, ".")));
        }
}

static void add_library(Space *s, const char *module)
{
    size_t n = strlen(module), len = 0;
    const char *text = stdlib_text(module, &len);
    int ncut;
    const EmbeddedPiece *cut = stdlib_pieces(module, &ncut);

    for (int i = 0; stdlib_name(i); i++)
        if (!strncmp(stdlib_name(i), module, n) && stdlib_name(i)[n] == '.')
            space_add(s, sym_n(stdlib_name(i) + n + 1, strcspn(stdlib_name(i) + n + 1, ".")));
    if (text) {
        StrBuf path = {0};
        sb_printf(&path, LIBRARY_FOLDER "%s.tsr", module);
        pieces_read(s, sb_str(&path), text, len, cut, ncut);
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
        space_export_public(s);
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
    pieces_read(s, path, open ? open : text, len, NULL, 0);
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
    if (map_find(&missing, (uintptr_t)sym(sb_str(&b)), NULL)) {
        sb_done(&b);
        return NULL;
    }
    for (int i = 0; i < 3 && !found; i++) {
        b.n = stem;
        sb_puts(&b, ends[i]);
        found = *ends[i] ? space_file(sb_str(&b), dotted) : space_folder(sb_str(&b), dotted);
    }
    if (!found)
        map_set(&missing, (uintptr_t)sym(sb_str(&b)), 1);           /* the last end is empty */
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

    if (!level && is_of_library(from))
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

/* ------------------------------------------------------------- end */

static void free_spaces(Map *m)
{
    for (uint32_t i = 0; i < m->cap; i++)
        if (m->key[i]) {
            Space *s = (Space *)m->val[i];
            pieces_done(s);
            vec_free(&s->names);
            vec_free(&s->exported);
            map_done(&s->has);
            tsr_free(s);
        }
    map_done(m);
}

void spaces_look_again(void)
{
    map_done(&missing);
}

void spaces_drop_files(void)
{
    spaces_look_again();
    free_spaces(&file_of);
}

void spaces_done(void)
{
    free_spaces(&builtin_of);
    spaces_drop_files();
}
