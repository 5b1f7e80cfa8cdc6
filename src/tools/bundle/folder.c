/*
 * Writing the folder: beside its place under another name, then renamed, so
 * that nobody ever sees half a bundle under its name.
 */
#include "tools/bundle/build.h"

#include "base/vfs.h"
#include "bundle/bundle.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool is_bundle(const char *path)
{
    StrBuf manifest = {0};
    struct stat st;
    bool is;

    sb_printf(&manifest, "%s/%s", path, BUNDLE_MANIFEST);
    is = !stat(path, &st) && S_ISDIR(st.st_mode) && !stat(sb_str(&manifest), &st) && S_ISREG(st.st_mode);
    sb_done(&manifest);
    return is;
}

/* Remove a folder that was written here, or a bundle. */
static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        StrBuf sub = {0};
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        sb_printf(&sub, "%s/%s", path, e->d_name);
        if (!lstat(sb_str(&sub), &st) && S_ISDIR(st.st_mode))
            remove_tree(sb_str(&sub));
        else
            unlink(sb_str(&sub));
        sb_done(&sub);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

/* The folders of a file's path below `root`. */
static int make_folders(const char *root, const char *path)
{
    StrBuf at = {0};
    int failed = 0;

    for (const char *s = strchr(path, '/'); s && !failed; s = strchr(s + 1, '/')) {
        sb_clear(&at);
        sb_printf(&at, "%s/%.*s", root, (int)(s - path), path);
        if (mkdir(sb_str(&at), 0777) && errno != EEXIST)
            failed = errno;
    }
    sb_done(&at);
    return failed;
}

static int put_file(const char *root, const BuildFile *f)
{
    StrBuf path = {0};
    VfsWriter w;
    int failed = make_folders(root, f->path);

    sb_printf(&path, "%s/%s", root, f->path);
    failed = failed ? failed : vfs_begin(&w, sb_str(&path));
    if (!failed) {
        vfs_put(&w, f->bytes.s, f->bytes.n);
        failed = vfs_commit(&w);
    }
    if (!failed && strlen(f->path) > 3 && !strcmp(f->path + strlen(f->path) - 3, ".so"))
        chmod(sb_str(&path), 0755);
    sb_done(&path);
    return failed;
}

/* Put `from` in the place of `to`, which is a bundle or nothing. */
static int replace(const char *from, const char *to)
{
    StrBuf old = {0};
    int failed = 0;

    sb_printf(&old, "%s.old.%ld", to, (long)getpid());
    if (rename(to, sb_str(&old)) && errno != ENOENT)
        failed = errno;
    if (!failed && rename(from, to)) {
        failed = errno;
        rename(sb_str(&old), to);
    }
    if (!failed)
        remove_tree(sb_str(&old));
    sb_done(&old);
    return failed;
}

bool build_write(const Building *b, const char *folder, StrBuf *err)
{
    StrBuf tmp = {0};
    struct stat st;
    int failed;

    if (!lstat(folder, &st) && !is_bundle(folder)) {
        sb_printf(err, "'%s' is there and no bundle: remove it, or choose another name with -o", folder);
        return false;
    }
    sb_printf(&tmp, "%s.new.%ld", folder, (long)getpid());
    failed = mkdir(sb_str(&tmp), 0777) ? errno : 0;
    for (int i = 0; i < b->file.n && !failed; i++)
        failed = put_file(sb_str(&tmp), &b->file.at[i]);
    failed = failed ? failed : replace(sb_str(&tmp), folder);
    if (failed) {
        remove_tree(sb_str(&tmp));
        sb_printf(err, "cannot write %s: %s", folder, strerror(failed));
    }
    sb_done(&tmp);
    return !failed;
}
