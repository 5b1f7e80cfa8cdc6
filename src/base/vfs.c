/* POSIX underneath, one retry rule (EINTR), one protocol for replacing files. */
#include "base/vfs.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

    if (err)
        return err;
    err = vfs_read_fd(fd, max, data, len);
    current->close(fd);
    return err;
}

int vfs_begin(VfsWriter *w, const char *path)
{
    size_t n = strlen(path) + 32;

    *w = (VfsWriter){.fd = -1};
    w->path = tsr_alloc(n);
    w->tmp = tsr_alloc(n);
    snprintf(w->path, n, "%s", path);
    snprintf(w->tmp, n, "%s.tmp%ld", path, (long)getpid());
    w->err = current->open(w->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644, &w->fd);
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

int vfs_commit(VfsWriter *w)
{
    int err = w->err, e;

    if (!err)
        err = current->fsync(w->fd);
    if (w->fd >= 0) {
        e = current->close(w->fd);
        err = err ? err : e;
    }
    if (!err)
        err = current->rename(w->tmp, w->path);
    if (err && w->fd >= 0)
        current->unlink(w->tmp);
    if (!err)
        sync_folder(w->path);
    forget(w);
    return err;
}

void vfs_abort(VfsWriter *w)
{
    w->err = w->err ? w->err : ECANCELED;
    vfs_commit(w);
}

int vfs_write_atomic(const char *path, const void *p, size_t n)
{
    VfsWriter w;

    vfs_begin(&w, path);
    vfs_put(&w, p, n);
    return vfs_commit(&w);
}
