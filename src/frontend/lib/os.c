/* The modules os and os.path: paths as text, and what the system knows about them. */
#include "frontend/lib/lib.h"

#include "base/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static StrObj *path_arg(Interp *I, Value v)
{
    StrObj *s = need_str(I, v, "the path");

    if (s && strlen(s->s) != s->len) {
        raise(I, EXC_ValueError, "embedded null byte");
        return NULL;
    }
    return s;
}

/* ------------------------------------------------------------- paths as text */

/* Where the last part begins. */
static size_t base_at(const StrObj *s)
{
    size_t n = s->len;

    while (n && s->s[n - 1] != '/')
        n--;
    return n;
}

static Value f_basename(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    return s ? str_new(s->s + base_at(s), s->len - base_at(s)) : VERR;
}

/* The head of a path: slashes at its end go, unless it is nothing else. */
static Value head_of(const StrObj *s)
{
    size_t n = base_at(s), m = n;

    while (m && s->s[m - 1] == '/')
        m--;
    return str_new(s->s, m ? m : n);
}

static Value f_dirname(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    return s ? head_of(s) : VERR;
}

static Value f_split(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    return s ? tuple_of(2, head_of(s), str_new(s->s + base_at(s), s->len - base_at(s))) : VERR;
}

static Value f_splitext(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    size_t base, dot, first;

    if (!s)
        return VERR;
    base = base_at(s);
    for (first = base; first < s->len && s->s[first] == '.'; first++)
        ;
    for (dot = s->len; dot > first && s->s[dot - 1] != '.'; dot--)
        ;
    dot = dot > first ? dot - 1 : s->len;
    return tuple_of(2, str_new(s->s, dot), str_new(s->s + dot, s->len - dot));
}

static Value f_join(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    StrBuf b = {0};

    if (!s)
        return VERR;
    sb_write(&b, s->s, s->len);
    for (int64_t i = 0; i < as_tuple(a[1])->n; i++) {
        StrObj *t = path_arg(I, as_tuple(a[1])->at[i]);
        if (!t) {
            sb_done(&b);
            return VERR;
        }
        if (t->s[0] == '/')
            sb_clear(&b);
        else if (b.n && b.s[b.n - 1] != '/')
            sb_putc(&b, '/');
        sb_write(&b, t->s, t->len);
    }
    return str_steal(&b);
}

/* Drop the last part of the path under construction; false: there is none to drop. */
static bool pop_part(StrBuf *b, bool absolute)
{
    size_t n = b->n;

    while (n && b->s[n - 1] != '/')
        n--;
    if (b->n == (absolute ? 1u : 0u) || (b->n - n == 2 && !memcmp(b->s + n, "..", 2)))
        return false;
    b->n = n > 1 || (n == 1 && !absolute) ? n - 1 : n;
    return true;
}

static void normalise(const char *p, StrBuf *b)
{
    bool absolute = *p == '/';

    if (absolute)
        sb_putc(b, '/');
    while (*p) {
        size_t n = strcspn(p, "/");
        if (n == 2 && !memcmp(p, "..", 2)) {
            if (!pop_part(b, absolute) && !absolute)
                sb_puts(b, b->n ? "/.." : "..");
        } else if (n && !(n == 1 && *p == '.')) {
            if (b->n && b->s[b->n - 1] != '/')
                sb_putc(b, '/');
            sb_write(b, p, n);
        }
        p += n + (p[n] == '/');
    }
    if (!b->n)
        sb_putc(b, '.');
}

static Value f_normpath(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    StrBuf b = {0};

    if (!s)
        return VERR;
    normalise(s->s, &b);
    return str_steal(&b);
}

static Value f_abspath(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    StrBuf whole = {0}, b = {0};
    char cwd[PATH_MAX];

    if (!s)
        return VERR;
    if (s->s[0] != '/' && getcwd(cwd, sizeof cwd))
        sb_printf(&whole, "%s/", cwd);
    sb_puts(&whole, s->s);
    normalise(whole.s, &b);
    sb_done(&whole);
    return str_steal(&b);
}

static Value f_isabs(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    return s ? vbool(s->s[0] == '/') : VERR;
}

static Value f_expanduser(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    const char *home = getenv("HOME");
    StrBuf b = {0};

    if (!s)
        return VERR;
    if (s->s[0] != '~' || (s->s[1] && s->s[1] != '/') || !home)
        return value_ref(vobj(s));
    sb_printf(&b, "%s%s", home, s->s + 1);
    return str_steal(&b);
}

/* ------------------------------------------------------------- what is there */

static Value stat_is(Interp *I, Value *a, int kind)
{
    StrObj *s = path_arg(I, a[0]);
    struct stat st;

    if (!s)
        return VERR;
    return vbool(!stat(s->s, &st) && (!kind || (st.st_mode & S_IFMT) == (unsigned)kind));
}

static Value f_exists(Interp *I, Value *a) { return stat_is(I, a, 0); }
static Value f_isfile(Interp *I, Value *a) { return stat_is(I, a, S_IFREG); }
static Value f_isdir(Interp *I, Value *a) { return stat_is(I, a, S_IFDIR); }

static bool stat_of(Interp *I, Value v, struct stat *st)
{
    StrObj *s = path_arg(I, v);

    if (!s)
        return false;
    if (!stat(s->s, st))
        return true;
    raise_errno(I, errno, s->s);
    return false;
}

static Value f_getsize(Interp *I, Value *a)
{
    struct stat st;
    return stat_of(I, a[0], &st) ? vint(st.st_size) : VERR;
}

static Value f_getmtime(Interp *I, Value *a)
{
    struct stat st;
    return stat_of(I, a[0], &st) ? vfloat((double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec * 1e-9) : VERR;
}

/* What os_paths.tsr names: mode, ino, dev, nlink, uid, gid, size, atime, mtime, ctime. */
static Value f_stat_numbers(Interp *I, Value *a)
{
    struct stat st;
    const struct timespec *at[] = {&st.st_atim, &st.st_mtim, &st.st_ctim};
    Value t;

    if (!stat_of(I, a[0], &st))
        return VERR;
    t = tuple_new(10);
    const int64_t whole[] = {(int64_t)st.st_mode, (int64_t)st.st_ino, (int64_t)st.st_dev, (int64_t)st.st_nlink, (int64_t)st.st_uid,
                             (int64_t)st.st_gid, (int64_t)st.st_size};
    for (int i = 0; i < 7; i++)
        as_tuple(t)->at[i] = vint(whole[i]);
    for (int i = 0; i < 3; i++)
        as_tuple(t)->at[7 + i] = vfloat((double)at[i]->tv_sec + (double)at[i]->tv_nsec * 1e-9);
    return t;
}

static Value f_listdir(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    DIR *d = s ? opendir(s->s) : NULL;
    struct dirent *e;
    Value out;

    if (!d)
        return s ? raise_errno(I, errno, s->s) : VERR;
    out = list_new(8);
    while ((e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            list_push(as_list(out), text_decode(I, e->d_name, strlen(e->d_name), "utf-8", "replace"));
    closedir(d);
    return out;
}

static Value f_islink(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    struct stat st;

    return s ? vbool(!lstat(s->s, &st) && S_ISLNK(st.st_mode)) : VERR;
}

/* The names in a folder, those of folders apart; a folder that cannot be read has none. Returns the folders' names. */
static Value walk_one(Interp *I, const char *path, Value out)
{
    Value dirs = list_new(4), files = list_new(8);
    struct dirent *e;
    DIR *d = opendir(path);

    while (d && (e = readdir(d))) {
        StrBuf b = {0};
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        sb_printf(&b, "%s/%s", path, e->d_name);
        list_push(as_list(!stat(sb_str(&b), &st) && S_ISDIR(st.st_mode) ? dirs : files),
                  text_decode(I, e->d_name, strlen(e->d_name), "utf-8", "replace"));
        sb_done(&b);
    }
    if (d)
        closedir(d);
    list_push(as_list(out), tuple_of(3, str_c(path), value_ref(dirs), files));
    return dirs;
}

/* path and the folders below it, each before those in it; links are not followed. */
static void walk(Interp *I, const char *path, Value out)
{
    Value dirs = walk_one(I, path, out);

    for (int64_t i = 0; i < as_list(dirs)->n; i++) {
        StrBuf b = {0};
        struct stat st;
        size_t n = strlen(path);
        sb_printf(&b, "%s%s%s", path, n && path[n - 1] == '/' ? "" : "/", as_str(as_list(dirs)->at[i])->s);
        if (!lstat(sb_str(&b), &st) && S_ISDIR(st.st_mode))
            walk(I, sb_str(&b), out);
        sb_done(&b);
    }
    value_unref(dirs);
}

static Value f_walk(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    struct stat st;
    Value out;

    if (!s)
        return VERR;
    out = list_new(8);
    if (!stat(s->s, &st) && S_ISDIR(st.st_mode))
        walk(I, s->s, out);
    return out;
}

/* ------------------------------------------------------------- changing it */

static Value f_mkdir(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    return !s ? VERR : mkdir(s->s, 0777) ? raise_errno(I, errno, s->s) : VNONE;
}

static int make_all(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            if (mkdir(path, 0777) && errno != EEXIST)
                return errno;
            *p = '/';
        }
    return mkdir(path, 0777) ? errno : 0;
}

static Value f_makedirs(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    int ok = s ? value_truth(I, a[1]) : -1, err;
    StrBuf b = {0};
    struct stat st;

    if (ok < 0)
        return VERR;
    sb_puts(&b, s->s);
    while (b.n > 1 && b.s[b.n - 1] == '/')
        b.s[--b.n] = 0;
    err = make_all(sb_str(&b));
    sb_done(&b);
    if (err == EEXIST && ok && !stat(s->s, &st) && S_ISDIR(st.st_mode))
        err = 0;
    return err ? raise_errno(I, err, s->s) : VNONE;
}

static Value f_remove(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    int err = s ? vfs_current()->unlink(s->s) : 0;

    return !s ? VERR : err ? raise_errno(I, err, s->s) : VNONE;
}

static Value f_rmdir(Interp *I, Value *a)
{
    StrObj *s = path_arg(I, a[0]);
    return !s ? VERR : rmdir(s->s) ? raise_errno(I, errno, s->s) : VNONE;
}

static Value f_rename(Interp *I, Value *a)
{
    StrObj *from = path_arg(I, a[0]), *to = from ? path_arg(I, a[1]) : NULL;
    int err = to ? vfs_current()->rename(from->s, to->s) : 0;

    return !to ? VERR : err ? raise_errno(I, err, from->s) : VNONE;
}

/* ------------------------------------------------------------- the process */

static Value f_getcwd(Interp *I, Value *a)
{
    char cwd[PATH_MAX];
    return getcwd(cwd, sizeof cwd) ? str_c(cwd) : raise_errno(I, errno, NULL);
}

static Value f_getenv(Interp *I, Value *a)
{
    StrObj *s = need_str(I, a[0], "the name");
    const char *v = s ? getenv(s->s) : NULL;

    return !s ? VERR : v ? text_decode(I, v, strlen(v), "utf-8", "replace") : value_ref(a[1]);
}

static Value c_environ(Interp *I, Value *a)
{
    Value d = dict_new();

    for (char **e = environ; *e; e++) {
        const char *eq = strchr(*e, '=');
        Value v = eq ? text_decode(I, eq + 1, strlen(eq + 1), "utf-8", "replace") : VERR;
        if (!is_err(v) && utf8_check(*e, (size_t)(eq - *e)) == (size_t)(eq - *e))
            dict_set_sym(as_dict(d), sym_n(*e, (size_t)(eq - *e)), v);
        value_unref(v);
    }
    return d;
}

static Value f_getpid(Interp *I, Value *a) { return vint(getpid()); }
static Value f_cpu_count(Interp *I, Value *a) { return vint(sysconf(_SC_NPROCESSORS_ONLN)); }
static Value c_sep(Interp *I, Value *a) { return str_c("/"); }
static Value c_linesep(Interp *I, Value *a) { return str_c("\n"); }
static Value c_name(Interp *I, Value *a) { return str_c("posix"); }

/* What is written in the library's file os_paths. */
static Value of_library(Interp *I, const char *name)
{
    Value space = prelude_get(I, "os_paths");
    return is_err(space) ? VERR : value_getattr(I, space, sym(name));
}

#define OF_LIBRARY(name) static Value p_##name(Interp *I, Value *a) { return of_library(I, #name); }
OF_LIBRARY(relpath) OF_LIBRARY(commonpath) OF_LIBRARY(commonprefix) OF_LIBRARY(normcase) OF_LIBRARY(expandvars)
OF_LIBRARY(stat)

const NativeDef natives_os[] = {
    {"os.path", "basename", f_basename, "(p: str, /) -> str", "The last part."},
    {"os.path", "dirname", f_dirname, "(p: str, /) -> str", "What is before the last part."},
    {"os.path", "split", f_split, "(p: str, /) -> tuple[str, str]", "(dirname, basename)"},
    {"os.path", "splitext", f_splitext, "(p: str, /) -> tuple[str, str]", "(root, extension with its dot)"},
    {"os.path", "join", f_join, "(a: str, /, *p: str) -> str", "The parts with slashes between; an absolute one starts anew."},
    {"os.path", "normpath", f_normpath, "(path: str, /) -> str", "Without '.', '..' and doubled slashes."},
    {"os.path", "abspath", f_abspath, "(path: str, /) -> str", "From the root, normalised."},
    {"os.path", "isabs", f_isabs, "(s: str, /) -> bool", "Does it begin at the root?"},
    {"os.path", "expanduser", f_expanduser, "(path: str, /) -> str", "With ~ as the home folder."},
    {"os.path", "exists", f_exists, "(path: str, /) -> bool", "Is there anything?"},
    {"os.path", "isfile", f_isfile, "(path: str, /) -> bool", "Is it a file?"},
    {"os.path", "isdir", f_isdir, "(path: str, /) -> bool", "Is it a folder?"},
    {"os.path", "getsize", f_getsize, "(filename: str, /) -> int", "Bytes in the file."},
    {"os.path", "getmtime", f_getmtime, "(filename: str, /) -> float", "When it was last written, in seconds since 1970."},
    {"os.path", "relpath", p_relpath, "Callable", "The path as seen from a folder."},
    {"os.path", "commonpath", p_commonpath, "Callable", "The folder that all paths share."},
    {"os.path", "commonprefix", p_commonprefix, "Callable", "The characters that all texts begin with."},
    {"os.path", "normcase", p_normcase, "Callable", "The path itself: case counts."},
    {"os.path", "expandvars", p_expandvars, "Callable", "With $NAME as the environment has it."},
    {"os.path", "sep", c_sep, "str", "'/'"},
    {"_core", "stat_numbers", f_stat_numbers, "(path: str, /) -> tuple", "What os.stat names."},
    {"os", "stat", p_stat, "Callable", "Size, times and kind of what is at a path: st_size, st_mtime, st_mode ..."},
    {"os", "listdir", f_listdir, "(path: str = '.', /) -> list[str]", "The names in a folder."},
    {"os.path", "islink", f_islink, "(path: str, /) -> bool", "Is it a symbolic link?"},
    {"os.path", "realpath", f_abspath, "(path: str, /) -> str", "From the root, normalised; links stay."},
    {"os", "walk", f_walk, "(top: str) -> list[tuple[str, list[str], list[str]]]", "(folder, folders in it, files in it) of a folder and all below it."},
    {"os", "mkdir", f_mkdir, "(path: str, /) -> None", "Make a folder."},
    {"os", "makedirs", f_makedirs, "(name: str, exist_ok: bool = False) -> None", "Make a folder and those above it."},
    {"os", "remove", f_remove, "(path: str, /) -> None", "Delete a file."},
    {"os", "unlink", f_remove, "(path: str, /) -> None", "Delete a file."},
    {"os", "rmdir", f_rmdir, "(path: str, /) -> None", "Delete an empty folder."},
    {"os", "rename", f_rename, "(src: str, dst: str, /) -> None", "Give a file another path."},
    {"os", "replace", f_rename, "(src: str, dst: str, /) -> None", "Give a file another path."},
    {"os", "getcwd", f_getcwd, "() -> str", "The working folder."},
    {"os", "getenv", f_getenv, "(key: str, default=None, /)", "An environment variable, or default."},
    {"os", "environ", c_environ, "dict[str, str]", "The environment when it was first asked for."},
    {"os", "getpid", f_getpid, "() -> int", "This process's number."},
    {"os", "cpu_count", f_cpu_count, "() -> int", "Processors online."},
    {"os", "sep", c_sep, "str", "'/'"},
    {"os", "linesep", c_linesep, "str", "The end of a line."},
    {"os", "name", c_name, "str", "'posix'"},
    {0},
};
