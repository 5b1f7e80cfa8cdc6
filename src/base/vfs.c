/* POSIX underneath, one retry rule (EINTR), one protocol for replacing files. */
#include "base/vfs.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int px_open(const char *path, int flags, int mode, int *fd)
{
    do
        *fd = open(path, flags | O_CLOEXEC, mode);
    while (*fd < 0 && errno == EINTR);
    return *fd < 0 ? errno : 0;
}

static int px_read(int fd, void *p, size_t n, size_t *got)
{
    ssize_t r;

    do
        r = read(fd, p, n);
    while (r < 0 && errno == EINTR);
    *got = r < 0 ? 0 : (size_t)r;
    return r < 0 ? errno : 0;
}

static int px_write(int fd, const void *p, size_t n, size_t *put)
{
    ssize_t r;

    do
        r = write(fd, p, n);
    while (r < 0 && errno == EINTR);
    *put = r < 0 ? 0 : (size_t)r;
    return r < 0 ? errno : 0;
}

static int px_fsync(int fd) { return fsync(fd) < 0 ? errno : 0; }
static int px_close(int fd) { return close(fd) < 0 ? errno : 0; }
static int px_rename(const char *from, const char *to) { return rename(from, to) < 0 ? errno : 0; }
static int px_unlink(const char *path) { return unlink(path) < 0 ? errno : 0; }

const Vfs vfs_posix = {px_open, px_read, px_write, px_fsync, px_close, px_rename, px_unlink};

static const Vfs *current = &vfs_posix;

const Vfs *vfs_current(void)
{
    return current;
}

void vfs_set(const Vfs *v)
{
    current = v ? v : &vfs_posix;
}

/* What is no file, such as /dev/zero, may never end. */
static const size_t ENDLESS_MAX = (size_t)1 << 28;

int vfs_read_fd(int fd, size_t max, char **data, size_t *len)
{
    size_t cap = 1 << 16, n = 0, got;
    char *p = tsr_alloc(cap);
    int err;

    for (;;) {
        if (n + 1 == cap)
            p = tsr_realloc(p, cap *= 2);
        err = current->read(fd, p + n, cap - n - 1, &got);
        if (!err && !got)
            break;
        n += got;
        if (!err && n > max)
            err = EFBIG;
        if (err) {
            tsr_free(p);
            return err;
        }
    }
    p[n] = 0;
    *data = p;
    *len = n;
    return 0;
}

int vfs_read_file(const char *path, size_t max, char **data, size_t *len)
{
    int fd, err = current->open(path, O_RDONLY, 0, &fd);
    struct stat st;

    if (err)
        return err;
    if (max > ENDLESS_MAX && stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        max = ENDLESS_MAX;
    err = vfs_read_fd(fd, max, data, len);
    current->close(fd);
    return err;
}

/* Is `name` the temporary file, for `target`, of a process that is no more? */
static bool is_left_over(const char *name, const char *target, size_t n)
{
    char *end;
    long pid;

    if (strncmp(name, target, n) || strncmp(name + n, ".tmp", 4) || name[n + 4] < '1' || name[n + 4] > '9')
        return false;
    pid = strtol(name + n + 4, &end, 10);
    return !*end && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* Killed writers leave their temporary files; the next writer of the same file takes them away. */
static void sweep(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t head = (size_t)(name - path), size = head + NAME_MAX + 2;
    char *full = tsr_alloc(size);
    struct dirent *e;
    DIR *d;

    snprintf(full, size, "%.*s", (int)head, path);
    d = opendir(head ? full : ".");
    while (d && (e = readdir(d)))
        if (is_left_over(e->d_name, name, strlen(name))) {
            snprintf(full + head, size - head, "%s", e->d_name);
            current->unlink(full);
        }
    if (d)
        closedir(d);
    tsr_free(full);
}

/* What stands at `path` now: a link gives way to its target; a device or pipe is written as it is, without a temporary. */
static char *target_of(const char *path, bool *in_place)
{
    struct stat st;
    char real[PATH_MAX], *copy;

    *in_place = stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    if (!*in_place && lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real))
        path = real;
    copy = tsr_alloc(strlen(path) + 1);
    return strcpy(copy, path);
}

/* A file that takes another's place has its permissions, where the file system knows any. */
static void permit_alike(const VfsWriter *w)
{
    struct stat st;

    if (!w->err && stat(w->path, &st) == 0 && S_ISREG(st.st_mode))
        (void)!fchmod(w->fd, st.st_mode & 0777);
}

int vfs_begin(VfsWriter *w, const char *path)
{
    bool in_place;
    size_t n;

    *w = (VfsWriter){.fd = -1};
    w->path = target_of(path, &in_place);
    if (in_place) {
        w->err = current->open(w->path, O_WRONLY, 0, &w->fd);
        return w->err;
    }
    n = strlen(w->path) + 32;
    w->tmp = tsr_alloc(n);
    snprintf(w->tmp, n, "%s.tmp%ld", w->path, (long)getpid());
    sweep(w->path);
    w->err = current->open(w->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644, &w->fd);
    permit_alike(w);
    return w->err;
}

int vfs_put(VfsWriter *w, const void *p, size_t n)
{
    const char *c = p;

    while (!w->err && n) {
        size_t put;
        w->err = current->write(w->fd, c, n, &put);
        c += put;
        n -= put;
    }
    return w->err;
}

static void forget(VfsWriter *w)
{
    tsr_free(w->path);
    tsr_free(w->tmp);
    w->path = w->tmp = NULL;
}

/* Sync the folder that holds path, so that the rename itself survives power loss. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 1;
    char *dir = tsr_alloc(n + 1);
    int fd;

    memcpy(dir, slash ? path : ".", n);
    dir[n] = 0;
    if (!current->open(dir, O_RDONLY, 0, &fd)) {
        current->fsync(fd);
        current->close(fd);
    }
    tsr_free(dir);
}

/* The temporary file takes its target's place, or goes. */
static int settle(const VfsWriter *w, int err)
{
    if (!err)
        err = current->rename(w->tmp, w->path);
    if (err)
        current->unlink(w->tmp);
    else
        sync_folder(w->path);
    return err;
}

int vfs_commit(VfsWriter *w)
{
    int err = w->err, e;

    if (!err && w->tmp)
        err = current->fsync(w->fd);
    if (w->fd >= 0) {
        e = current->close(w->fd);
        err = err ? err : e;
        err = w->tmp ? settle(w, err) : err;
    }
    forget(w);
    return err;
}

int vfs_write_atomic(const char *path, const void *p, size_t n)
{
    VfsWriter w;

    vfs_begin(&w, path);
    vfs_put(&w, p, n);
    return vfs_commit(&w);
}
