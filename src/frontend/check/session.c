/*
 * Checking again.  Names are resolved anew each time.  For types, statements
 * that share a name of the module are tied together; an edit walks all that is
 * tied to what it changed and to what it took away, and keeps what was found in
 * the rest.  Where a statement can reach others without a name - an object
 * changed in ways that are not followed, a module that ends half-way - all is
 * walked, and so it is when what the statements together say of names changed.
 */
#include "frontend/check/session.h"

#include "frontend/check/check.h"
#include "frontend/check/chunks.h"
#include "frontend/check/spaces.h"

#include <limits.h>
#include <string.h>

struct OpenFile {
    Session *session;
    Chunks text;
    Scope *globals;             /* of the last check */
    DiagSink sink;              /* its answer */
    CheckPart part;
    uint32_t world;             /* the session's, at the last check */
    bool checked;               /* the answer is of the present text */
    bool reads_files;           /* imports what may be a file */
    bool again;                 /* the next check walks all */
};

struct Session {
    Vec(OpenFile *) files;
    uint32_t world;             /* counts what may change the meaning of an import */
};

/* ------------------------------------------------------------- files */

static const char *open_text(void *state, const char *path, size_t *len)
{
    Session *s = state;

    for (int i = 0; i < s->files.n; i++)
        if (!strcmp(s->files.at[i]->text.src->path, path)) {
            *len = s->files.at[i]->text.src->len;
            return s->files.at[i]->text.src->text;
        }
    return NULL;
}

Session *session_new(void)
{
    Session *s = tsr_calloc(sizeof *s);

    spaces_overlay(open_text, s);
    return s;
}

void session_free(Session *s)
{
    while (s->files.n)
        session_close(s->files.at[0]);
    vec_free(&s->files);
    spaces_overlay(NULL, NULL);
    tsr_free(s);
}

/* Files that are not open are read again. */
static void session_disk_changed(Session *s)
{
    s->world++;
    spaces_drop_files();
}

OpenFile *session_open(Session *s, const char *path, const char *text, size_t len)
{
    OpenFile *f = tsr_calloc(sizeof *f);

    f->session = s;
    if (!chunks_read(&f->text, path, text, len)) {
        tsr_free(f);
        return NULL;
    }
    vec_push(&s->files, f);
    session_disk_changed(s);
    return f;
}

void session_close(OpenFile *f)
{
    Session *s = f->session;
    int i = 0;

    while (s->files.at[i] != f)
        i++;
    s->files.n--;
    memmove(&s->files.at[i], &s->files.at[i + 1], sizeof *s->files.at * (size_t)(s->files.n - i));
    session_disk_changed(s);
    diag_sink_done(&f->sink);
    if (f->globals)
        scope_free_module(f->globals);
    chunks_done(&f->text);
    tsr_free(f);
}

bool session_edit(OpenFile *f, uint32_t lo, uint32_t hi, const char *text, size_t len)
{
    if (!chunks_edit(&f->text, lo, hi, text, len))
        return false;
    if (f->session->files.n > 1)
        session_disk_changed(f->session);
    f->checked = false;
    return true;
}

const Source *session_source(const OpenFile *f)
{
    return f->text.src;
}

/* ------------------------------------------------------------- which statements an edit reaches */

static bool find_file_import(Ast *n, void *state)
{
    OpenFile *f = state;
    const Space *s = NULL;
    bool is = false;

    if (!n)
        return true;
    if (n->kind == AST_ImportFrom) {
        AstImportFrom *m = AST_AS(n, ImportFrom);
        s = m->module ? space_import(m->module->text, (int)m->level, f->text.src->path) : NULL;
        is = true;
    }
    for (int i = 0; n->kind == AST_Import && i < AST_AS(n, Import)->names.n; i++) {
        AstAlias *a = AST_AS(AST_AS(n, Import)->names.at[i], Alias);
        if (a->ast.kind == AST_Alias)
            s = space_import(a->name->text, 0, f->text.src->path), is = true;
    }
    f->reads_files |= is && (!s || s->path);        /* what is not there may come */
    return ast_walk(n, find_file_import, f);
}

static void find_file_imports(OpenFile *f, bool all)
{
    for (int i = 0; i < f->text.all.n; i++) {
        Chunk *k = &f->text.all.at[i];
        for (int j = 0; (k->fresh || all) && j < k->n; j++)
            find_file_import(k->stmt[j], f);
    }
}

/* Sets of chunks: each names a lower one of its set, or itself. */
static int root(int *up, int i)
{
    while (up[i] != i)
        i = up[i] = up[up[i]];
    return i;
}

static void tie(int *up, int a, int b)
{
    a = root(up, a);
    b = root(up, b);
    if (a < b)
        up[b] = a;
    else
        up[a] = b;
}

/* Names that imports alone bind tie nothing, nor do those that nothing binds, as __name__: they mean the same to all. */
static Map constant_names(const Chunks *c, const Scope *globals)
{
    Map m = {0};

    for (int i = 0; i < globals->locals.n; i++)
        if (globals->locals.at[i].nbinds == 1 && !globals->locals.at[i].decl.hi)
            map_set(&m, (uintptr_t)globals->locals.at[i].name, 1);
    for (int i = 0; i < c->all.n; i++)
        for (int k = 0; c->all.at[i].imports && k < c->all.at[i].nword; k++) {
            const Local *l = scope_local(globals, c->all.at[i].word[k]);
            if (l && l->nbinds == 1)
                map_set(&m, (uintptr_t)c->all.at[i].word[k], 1);
        }
    return m;
}

static bool is_global(const Scope *s, Sym name) { return s && scope_find(s, name) >= 0; }

static void tie_chunks(const Chunks *c, const Scope *globals, const Map *constant, int *up)
{
    Map owner = {0};

    for (int i = 0; i < c->all.n; i++)
        for (int k = 0; k < c->all.at[i].nword; k++) {
            Sym word = c->all.at[i].word[k];
            uintptr_t first = 0;
            if (!is_global(globals, word) || map_find(constant, (uintptr_t)word, NULL))
                continue;
            if (map_find(&owner, (uintptr_t)word, &first))
                tie(up, (int)first - 1, i);
            else
                map_set(&owner, (uintptr_t)word, (uintptr_t)i + 1);
        }
    map_done(&owner);
}

/* Does the chunk read a name that went away with another, or that another had a part in? */
static bool is_touched(const OpenFile *f, const Chunk *k, const Scope *now, const Map *constant)
{
    for (int i = 0; f->text.gone.n && i < k->nword; i++)
        if (map_find(&f->text.gone, (uintptr_t)k->word[i], NULL) && !map_find(constant, (uintptr_t)k->word[i], NULL) &&
            (is_global(now, k->word[i]) || is_global(f->globals, k->word[i])))
            return true;
    return k->fresh;
}

/* By chunk: is it to be walked? Freed by the caller. NULL: all are. */
static bool *plan(OpenFile *f, const Scope *now)
{
    int n = f->text.all.n, *up;
    bool *walk, *seed;
    Map constant;

    if (!f->globals || f->text.whole || f->text.odd || f->again || f->part.loose)
        return NULL;
    constant = constant_names(&f->text, now);
    up = tsr_alloc(sizeof *up * (size_t)(n + 1));
    walk = tsr_calloc((size_t)n + 1);
    seed = tsr_calloc((size_t)n + 1);
    for (int i = 0; i < n; i++)
        up[i] = i;
    tie_chunks(&f->text, now, &constant, up);
    for (int i = 0; i < n; i++)
        if (is_touched(f, &f->text.all.at[i], now, &constant))
            seed[root(up, i)] = true;
    for (int i = 0; i < n; i++)
        walk[i] = f->text.all.at[i].imports || seed[root(up, i)];
    for (int i = 0; i < n; i++)
        if (f->text.all.at[i].fresh && f->text.all.at[i].imports)
            walk[n] = true;                         /* an import changed: what it binds ties nothing */
    tsr_free(up);
    tsr_free(seed);
    map_done(&constant);
    if (walk[n]) {
        tsr_free(walk);
        walk = NULL;
    }
    return walk;
}

/* ------------------------------------------------------------- checking */

/* The tree of the whole file, of its chunks' statements. */
static void gather(const Chunks *c, Unit *u, const bool *walk, bool **want)
{
    int n = 0;

    for (int i = 0; i < c->all.n; i++)
        n += c->all.at[i].n;
    u->src = c->src;
    u->module = ast_new(&u->arena, Module, ((Span){c->src->base, c->src->base + c->src->len}));
    u->module->body = (AstSeq){arena_array(&u->arena, Ast *, n + 1), 0};
    *want = walk ? arena_array(&u->arena, bool, n + 1) : NULL;
    for (int i = 0; i < c->all.n; i++)
        for (int k = 0; k < c->all.at[i].n; k++) {
            if (walk)
                (*want)[u->module->body.n] = walk[i];
            u->module->body.at[u->module->body.n++] = c->all.at[i].stmt[k];
        }
}

/* What was found goes to the chunks that it was found in; those that were walked forget what they had. */
static void settle(Chunks *c, const bool *walk, const DiagSink *found)
{
    for (int i = 0; i < c->all.n; i++)
        if (!walk || walk[i]) {
            diag_sink_done(&c->all.at[i].found);
            c->all.at[i].found = (DiagSink){0};
        }
    for (int i = 0; i < found->all.n; i++)
        diag_copy(&c->all.at[chunk_at(c, found->all.at[i]->span.lo)].found, found->all.at[i]);
}

static void copy_all(DiagSink *to, const DiagSink *from)
{
    for (int i = 0; i < from->all.n; i++)
        diag_copy(to, from->all.at[i]);
}

/* More mistakes than are shown: which ones they are depends on the order in which they are found. */
static void check_at_once(OpenFile *f, Unit *u)
{
    diag_sink_done(&f->sink);
    f->sink = (DiagSink){0};
    copy_all(&f->sink, &f->text.syntax);
    scope_free_module(f->globals);
    f->globals = scope_new_module(sym("__main__"));
    scope_resolve(u, f->globals, (ScopeOptions){0}, &f->sink);
    check_unit(u, (CheckOptions){0}, &f->sink);
    f->again = true;
}

static void check_text(OpenFile *f)
{
    Unit u = {0};
    DiagSink types = {.limit = INT_MAX};
    Scope *globals = scope_new_module(sym("__main__"));
    bool *walk, *want, loose = f->part.loose;

    gather(&f->text, &u, NULL, &want);
    f->sink.limit = INT_MAX;
    scope_resolve(&u, globals, (ScopeOptions){0}, &f->sink);
    walk = plan(f, globals);
    if (walk)
        gather(&f->text, &u, walk, &want);
    u.module->scope = globals;
    f->part.want = want;
    types.errors = f->sink.errors;
    check_part(&u, (CheckOptions){0}, &types, &f->part);
    if (walk && f->part.loose && !loose && !f->part.whole) {
        diag_sink_done(&types);
        types = (DiagSink){.limit = INT_MAX, .errors = f->sink.errors};
        f->part.want = NULL;
        check_part(&u, (CheckOptions){0}, &types, &f->part);
    }
    settle(&f->text, f->part.whole ? NULL : walk, &types);
    for (int i = 0; i < f->text.all.n; i++)
        copy_all(&f->sink, &f->text.all.at[i].found);
    if (f->globals)
        scope_free_module(f->globals);
    f->globals = globals;
    f->again = false;
    if (f->sink.errors > DIAG_LIMIT)
        check_at_once(f, &u);
    f->sink.limit = 0;
    diag_sink_done(&types);
    tsr_free(walk);
    arena_done(&u.arena);
}

static void begin(OpenFile *f)
{
    bool moved = f->world != f->session->world && f->reads_files;

    diag_sink_done(&f->sink);
    f->sink = (DiagSink){0};
    if (moved) {
        f->again = true;
        f->reads_files = false;
    }
    find_file_imports(f, moved);
    copy_all(&f->sink, &f->text.syntax);
}

static void end(OpenFile *f)
{
    for (int i = 0; i < f->text.all.n; i++)
        f->text.all.at[i].fresh = false;
    map_done(&f->text.gone);
    f->text.whole = false;
    f->world = f->session->world;
    f->checked = true;
}

const DiagSink *session_check(OpenFile *f)
{
    if (f->checked && (f->world == f->session->world || !f->reads_files))
        return &f->sink;
    begin(f);
    if (f->text.syntax.errors)
        f->again = true;
    else
        check_text(f);
    end(f);
    return &f->sink;
}
