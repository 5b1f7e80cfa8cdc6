/*
 * Modules: finding them, loading them once, what they hold.
 *
 * A name is looked for beside the importing file, then on the search path,
 * then among the modules that are built in (library text and natives).  A
 * file's module is known by its path, a built-in one by its name.  It is
 * entered in the table before its body runs, so that files may import each
 * other in a circle, as in Python.
 */
#include "frontend/eval/eval.h"

#include "base/vfs.h"
#include "frontend/check/check.h"
#include "frontend/check/spaces.h"
#include "frontend/prelude.h"

#include <string.h>
#include <sys/stat.h>

/* ------------------------------------------------------------- module objects */

ModuleObj *module_new(Interp *I, Sym name, const char *path)
{
    ModuleObj *m = obj_new(V_MODULE, sizeof *m);

    m->I = I;
    m->name = name;
    m->attrs = as_dict(dict_new());
    m->path = path ? sym(path)->text : NULL;
    return m;
}

/* Makes room for the module's globals. */
static void module_bind(ModuleObj *m, Scope *s)
{
    int n = s->locals.n;

    m->scope = s;
    if (n > m->nslots) {
        m->slot = tsr_realloc(m->slot, (size_t)n * sizeof *m->slot);
        memset(m->slot + m->nslots, 0, (size_t)(n - m->nslots) * sizeof *m->slot);
        m->nslots = n;
    }
}

static Value builtin_module(Interp *I, const char *dotted);

static Value *global_slot(ModuleObj *m, Sym name)
{
    int i = m->scope ? scope_find(m->scope, name) : -1;

    return i < 0 || i >= m->nslots ? NULL : &m->slot[i];
}

static bool is_builtin(const ModuleObj *m) { return !m->path || m->path[0] == '<'; }

static Value builtin_attr(Interp *I, ModuleObj *m, Sym name)
{
    const NativeDef *d = native_find(m->name->text, name->text);
    StrBuf dotted = {0};
    Value v = VERR;

    if (d)
        v = native_value(I, d);
    if (is_err(v) && !exc_pending(I) && !strcmp(m->name->text, "tessera"))
        v = value_ref(prelude_get(I, name->text));
    if (is_err(v) && !exc_pending(I)) {
        sb_printf(&dotted, "%s.%s", m->name->text, name->text);
        if (space_exists(sb_str(&dotted)))
            v = builtin_module(I, sb_str(&dotted));
        else if (!strcmp(m->name->text, "tessera") && space_exists(name->text))
            v = builtin_module(I, name->text);
        sb_done(&dotted);
    }
    if (!is_err(v))
        dict_set_sym(m->attrs, name, v);
    return v;
}

Value module_attr(Interp *I, ModuleObj *m, Sym name)
{
    Value *slot = global_slot(m, name), v;

    if (slot && !is_err(*slot))
        return value_ref(*slot);
    v = dict_get_sym(m->attrs, name);
    if (!is_err(v))
        return value_ref(v);
    if (is_builtin(m) && !is_err(v = builtin_attr(I, m, name)))
        return v;
    if (exc_pending(I))
        return VERR;
    if (name == I->s_name)
        return str_sym(m->name);
    if (name == I->s_doc)
        return VNONE;
    if (name == I->s_file)
        return m->path ? str_c(m->path) : VERR;
    return VERR;
}

/* ------------------------------------------------------------- running a module's text */

static void set_global(ModuleObj *m, const char *name, Value v)
{
    Value *slot = global_slot(m, sym(name));

    if (slot) {
        value_unref(*slot);
        *slot = v;
    } else {
        value_unref(v);
    }
}

static bool run_body(Interp *I, ModuleObj *m, Unit *u, Arena *a)
{
    const Code *c = lower_module(I, u, a);
    Value *slot = tsr_calloc(((size_t)c->scope->nslots + 1) * sizeof *slot);
    Frame f = {.slot = slot, .I = I, .module = m, .code = c, .up = I->frame};
    Exit x = X_RAISE;

    set_global(m, "__name__", str_sym(m->name));
    set_global(m, "__doc__", is_err(c->doc) ? VNONE : value_ref(c->doc));
    set_global(m, "__file__", m->path ? str_c(m->path) : VNONE);
    if (interp_enter(I)) {
        I->frame = &f;
        x = c->body->exec(c->body, &f);
        if (x == X_RAISE)
            traceback_add(I, &f);
        I->frame = f.up;
        interp_leave(I);
    }
    slots_drop(slot, c->scope->nslots);
    tsr_free(slot);
    return x != X_RAISE;
}

/* The value of one more expression in m: the REPL's last line. */
Value module_eval(Interp *I, ModuleObj *m, Unit *u, const Ast *e)
{
    const Code *c = lower_module_expr(I, u, e);
    Value *slot = tsr_calloc(((size_t)c->scope->nslots + 1) * sizeof *slot), v;
    Frame f = {.slot = slot, .I = I, .module = m, .code = c, .up = I->frame};

    I->frame = &f;
    v = c->expr->eval(c->expr, &f);
    if (is_err(v))
        traceback_add(I, &f);
    I->frame = f.up;
    slots_drop(slot, c->scope->nslots);
    tsr_free(slot);
    return v;
}

static bool run_in(Interp *I, ModuleObj *m, Unit *u, Arena *a)
{
    vec_push(&I->units, u);
    m->unit = u;
    module_bind(m, u->module->scope);
    return run_body(I, m, u, a);
}

bool module_run(Interp *I, ModuleObj *m, Unit *u)
{
    return run_in(I, m, u, &u->arena);
}

/* Parse, resolve and check a file's text; NULL: an ImportError with the reports is pending. */
static Unit *unit_load(Interp *I, const char *path, const char *text, size_t n, Sym name)
{
    const Source *src = source_add(path, text, n);
    DiagSink sink = {0};
    Unit *u = src ? unit_parse(src, &sink) : NULL;
    Scope *scope;

    if (!u) {
        raise(I, EXC_ImportError, "cannot load '%s': the text is too large", path);
        return NULL;
    }
    vec_push(&I->loaded, u);
    scope = scope_new_module(name);
    vec_push(&I->scopes, scope);
    if (!sink.errors)
        scope_resolve(u, scope, (ScopeOptions){0}, &sink);
    if (!sink.errors)
        check_unit(u, (CheckOptions){0}, &sink);
    if (sink.errors) {
        StrBuf out = {0};
        diag_render(&sink, (DiagStyle){0}, &out);
        raise(I, EXC_ImportError, "module '%s' has errors:\n%s", name->text, sb_str(&out));
        sb_done(&out);
        diag_sink_done(&sink);
        return NULL;
    }
    diag_sink_done(&sink);
    return u;
}

static Value forget(Interp *I, Sym key, ModuleObj *m)
{
    dict_del_sym(I->modules, key);
    obj_unref(m);
    return VERR;
}

/* The module of a tree that is in order, or of none when an ImportError is pending, entered under `key`. */
static Value enter(Interp *I, Sym key, ModuleObj *m, Unit *u, Arena *a)
{
    return u && run_in(I, m, u, a) ? vobj(m) : forget(I, key, m);
}

/* Load a module from its text under `key`. */
static Value load_text(Interp *I, Sym key, Sym name, const char *path, const char *text, size_t n)
{
    ModuleObj *m = module_new(I, name, path);
    Unit *u;

    dict_set_sym(I->modules, key, vobj(m));
    u = unit_load(I, path, text, n, name);
    return enter(I, key, m, u, u ? &u->arena : NULL);
}

/* ------------------------------------------------------------- built-in modules */

/* A library module runs the tree that the checker reads as well. */
static Value load_library(Interp *I, Sym key, Sym name)
{
    ModuleObj *m = module_new(I, name, key->text);
    Unit *u = space_resolved(space_builtin(name->text));

    dict_set_sym(I->modules, key, vobj(m));
    if (!u)
        raise(I, EXC_ImportError, "module '%s' has errors", name->text);
    return enter(I, key, m, u, &I->library);
}

static Value builtin_module(Interp *I, const char *dotted)
{
    Sym name, key;
    Value v;
    size_t n;
    StrBuf path = {0};

    if (!strcmp(dotted, "ts"))
        dotted = "tessera";
    if (!strncmp(dotted, "tessera.", 8) && !native_has_owner(dotted))
        dotted += 8;
    name = sym(dotted);
    sb_printf(&path, LIBRARY_FOLDER "%s.tsr", dotted);
    key = sym(sb_str(&path));
    v = dict_get_sym(I->modules, key);
    if (!is_err(v)) {
        sb_done(&path);
        return value_ref(v);
    }
    if (stdlib_text(dotted, &n)) {
        v = load_library(I, key, name);
    } else {
        v = vobj(module_new(I, name, NULL));
        dict_set_sym(I->modules, key, v);
    }
    sb_done(&path);
    return v;
}

/* ------------------------------------------------------------- files */

static bool is_file(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISREG(st.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static Value load_file(Interp *I, const char *path, Sym name)
{
    Sym key = sym(path);
    Value v = dict_get_sym(I->modules, key);
    char *text;
    size_t n;
    int err;

    if (!is_err(v))
        return value_ref(v);
    err = vfs_read_file(path, SOURCE_MAX, &text, &n);
    if (err)
        return raise(I, EXC_ImportError, "cannot read '%s': %s", path, strerror(err));
    v = load_text(I, key, name, path, text, n);
    tsr_free(text);
    return v;
}

static Value load_folder(Interp *I, const char *path, Sym name)
{
    StrBuf init = {0};
    Value v;

    sb_printf(&init, "%s/__init__.tsr", path);
    if (is_file(sb_str(&init))) {
        v = load_file(I, init.s, name);
    } else {
        Sym key = sym(path);
        v = dict_get_sym(I->modules, key);
        if (is_err(v)) {
            v = vobj(module_new(I, name, init.s));
            dict_set_sym(I->modules, key, v);
        } else {
            value_ref(v);
        }
    }
    sb_done(&init);
    return v;
}

/* The module that stands for one part of a dotted name in a folder; VNONE: there is none. */
static Value load_part(Interp *I, const char *folder, const char *part, size_t n, Sym name)
{
    StrBuf path = {0};
    Value v = VNONE;

    sb_printf(&path, "%s%s%.*s.tsr", folder, *folder ? "/" : "", (int)n, part);
    if (is_file(sb_str(&path))) {
        v = load_file(I, path.s, name);
    } else {
        sb_clear(&path);
        sb_printf(&path, "%s%s%.*s", folder, *folder ? "/" : "", (int)n, part);
        if (is_folder(sb_str(&path)))
            v = load_folder(I, path.s, name);
    }
    sb_done(&path);
    return v;
}

/* Load every part of a dotted name below `folder`: *first and the result; VNONE when a part is not there. */
static Value load_below(Interp *I, const char *folder, Sym dotted, Value *first)
{
    StrBuf at = {0};
    const char *p = dotted->text;
    Value parent = VERR, v = VNONE;

    sb_puts(&at, folder);
    *first = VERR;
    for (;;) {
        size_t n = strcspn(p, ".");
        v = load_part(I, sb_str(&at), p, n, sym_n(dotted->text, (size_t)(p - dotted->text) + n));
        if (v.tag != V_MODULE)
            break;
        if (is_err(*first))
            *first = value_ref(v);
        if (!is_err(parent))
            dict_set_sym(((ModuleObj *)parent.o)->attrs, sym_n(p, n), v);
        value_unref(parent);
        parent = v;
        if (!p[n])
            break;
        sb_printf(&at, "%s%.*s", at.n ? "/" : "", (int)n, p);
        p += n + 1;
    }
    if (v.tag != V_MODULE) {
        value_unref(parent);
        value_unref(*first);
        *first = VERR;
    }
    sb_done(&at);
    return v;
}

static void folder_of(const char *path, int up, StrBuf *out)
{
    const char *slash = path ? strrchr(path, '/') : NULL;

    sb_write(out, path ? path : "", slash ? (size_t)(slash - path) : 0);
    for (; up > 0; up--)
        sb_puts(out, out->n ? "/.." : "..");
    if (!slash && !out->n)
        sb_clear(out);
    sb_putc(out, 0);
    out->n--;
}

static Value not_found(Interp *I, Sym name)
{
    return raise(I, EXC_ModuleNotFoundError, "No module named '%s'", name ? name->text : ".");
}

static Value find_builtin(Interp *I, Sym name, Value *first)
{
    const char *dot = strchr(name->text, '.');
    Value v;

    if (!space_exists(name->text) && strncmp(name->text, "tessera.", 8))
        return VNONE;
    if (!strncmp(name->text, "tessera.", 8) && !space_exists(name->text + 8) && !space_exists(name->text))
        return VNONE;
    v = builtin_module(I, name->text);
    if (is_err(v))
        return VERR;
    *first = dot ? builtin_module(I, sym_n(name->text, (size_t)(dot - name->text))->text) : value_ref(v);
    return v;
}

/* Both ends of an import: the module named and its outermost package. A file of the program's does not stand in for one that the library imports. */
static Value find(Interp *I, Sym name, int level, const ModuleObj *from, Value *first)
{
    StrBuf folder = {0};
    Value v;

    folder_of(from && from->path && from->path[0] != '<' ? from->path : NULL, level > 0 ? level - 1 : 0, &folder);
    if (!name) {                                    /* from . import x: the folder itself */
        v = load_folder(I, folder.n ? folder.s : ".", sym("."));
        *first = value_ref(v);
        sb_done(&folder);
        return v;
    }
    v = from && from->path && from->path[0] == '<' && !level ? VNONE : load_below(I, sb_str(&folder), name, first);
    for (int i = 0; v.tag == V_NONE && !level && !(from && is_of_library(from->path)) && I->opt.path && I->opt.path[i]; i++)
        v = load_below(I, I->opt.path[i], name, first);
    if (v.tag == V_NONE && !level)
        v = find_builtin(I, name, first);
    sb_done(&folder);
    return v.tag == V_NONE ? not_found(I, name) : v;
}

Value import_dotted(Interp *I, Sym name, int level, const ModuleObj *from)
{
    Value first = VERR, v = find(I, name, level, from, &first);

    value_unref(first);
    return v;
}

Value import_top(Interp *I, Sym name, const ModuleObj *from)
{
    Value first = VERR, v = find(I, name, 0, from, &first);

    value_unref(v);
    return is_err(v) ? VERR : first;
}

Value import_module(Interp *I, const char *dotted)
{
    return import_dotted(I, sym(dotted), 0, I->main);
}

/* ------------------------------------------------------------- the prelude's values */

static Value make_prelude(Interp *I, const PreludeRow *r)
{
    Value m, v;

    switch (r->kind) {
    case PRELUDE_NATIVE: return native_value(I, r->native);
    case PRELUDE_SPACE: return builtin_module(I, r->module);
    case PRELUDE_EXCEPTION:
        for (int i = 0; i < EXC_COUNT; i++)
            if (I->exc_class[i]->name == r->name)
                return value_ref(vobj(I->exc_class[i]));
        return VERR;
    case PRELUDE_STDLIB:
        m = builtin_module(I, r->module);
        if (is_err(m))
            return VERR;
        v = value_getattr(I, m, r->name);
        value_unref(m);
        return v;
    }
    return VERR;
}

Value prelude_value(Interp *I, int row)
{
    if (is_err(I->prelude[row])) {
        Value v = make_prelude(I, prelude_row(row));
        value_unref(I->prelude[row]);
        I->prelude[row] = v;
    }
    return I->prelude[row];
}

Value prelude_get(Interp *I, const char *name)
{
    int row = prelude_find(sym(name));

    return row < 0 ? VERR : prelude_value(I, row);
}
