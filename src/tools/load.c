/*
 * Getting a program's text is where most first contacts fail: a wrong name, a
 * folder, a file saved in another encoding.  Each failure is one line that
 * names the object, the place in it and the next step.
 */
#include "tools/load.h"

#include "base/arena.h"
#include "base/sym.h"
#include "base/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

typedef struct { DIR *dir; Arena names; } Folder;

static const char *next_file(void *state)
{
    Folder *f = state;
    struct dirent *e = readdir(f->dir);

    return e ? arena_strdup(&f->names, e->d_name) : NULL;
}

/* A file of the same folder whose name is nearly this one. */
static void suggest_file(const char *path, StrBuf *err)
{
    const char *slash = strrchr(path, '/'), *near;
    StrBuf folder = {0};
    Folder f = {0};

    if (slash)
        sb_write(&folder, path, (size_t)(slash - path) + 1);
    f.dir = opendir(folder.n ? sb_str(&folder) : ".");
    near = f.dir ? closest_name(slash ? slash + 1 : path, next_file, &f) : NULL;
    if (near)
        sb_printf(err, "; did you mean '%s%s'?", sb_str(&folder), near);
    else
        sb_puts(err, "; check the name and the folder");
    if (f.dir)
        closedir(f.dir);
    arena_done(&f.names);
    sb_done(&folder);
}

static void explain_errno(const char *path, int err, StrBuf *out)
{
    switch (err) {
    case ENOENT:
        sb_printf(out, "there is no file '%s'", path);
        suggest_file(path, out);
        break;
    case EISDIR:
        sb_printf(out, "'%s' is a folder; name a .tsr file in it", path);
        break;
    case EFBIG:
        sb_printf(out, "'%s' is larger than %d MiB, the most that one source file may have; split it into modules", path,
                  SOURCE_MAX >> 20);
        break;
    case EACCES:
        sb_printf(out, "'%s' may not be read by you; change its permissions (chmod u+r)", path);
        break;
    default:
        sb_printf(out, "cannot read '%s': %s", path, strerror(err));
    }
}

static bool is_utf16(const char *s, size_t n)
{
    return n >= 2 && (!memcmp(s, "\xff\xfe", 2) || !memcmp(s, "\xfe\xff", 2));
}

static bool explain_encoding(const char *path, const char *s, size_t n, size_t bad, StrBuf *err)
{
    size_t line = 1;
    unsigned char c = (unsigned char)s[bad];

    for (size_t i = 0; i < bad; i++)
        line += s[i] == '\n';
    if (is_utf16(s, n))
        sb_printf(err, "'%s' is UTF-16 text; save it as UTF-8", path);
    else if (!c)
        sb_printf(err, "%s:%zu: a zero byte: this is not a program text", path, line);
    else
        sb_printf(err, "%s:%zu: the byte 0x%02x is not valid UTF-8; save the file as UTF-8", path, line, c);
    return false;
}

/* The text of tsr_alloc is taken. */
static const Source *take_text(const char *name, char *text, size_t n, StrBuf *err)
{
    size_t bad = utf8_check(text, n);
    const Source *src;

    if (bad < n) {
        explain_encoding(name, text, n, bad, err);
        tsr_free(text);
        return NULL;
    }
    src = source_take(name, text, n);
    if (!src)
        explain_errno(name, EFBIG, err);
    return src;
}

const Source *load_text(const char *name, const char *text, size_t n, StrBuf *err)
{
    char *copy = tsr_alloc(n + 1);

    memcpy(copy, text, n);
    copy[n] = 0;
    return take_text(name, copy, n, err);
}

const Source *load_program(const char *path, StrBuf *err)
{
    bool is_stdin = !strcmp(path, "-");
    const char *shown = is_stdin ? "<stdin>" : path;
    char *text;
    size_t n;
    int e = is_stdin ? vfs_read_fd(0, SOURCE_MAX, &text, &n) : vfs_read_file(path, SOURCE_MAX, &text, &n);

    if (e) {
        explain_errno(shown, e, err);
        return NULL;
    }
    return take_text(shown, text, n, err);
}
