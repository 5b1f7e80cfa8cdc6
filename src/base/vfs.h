/*
 * vfs.h - the file system behind a table, so that tests can make it fail.
 *
 * Everything that reads or writes files goes through the current Vfs.  Calls
 * return 0 or an errno value; vfs_write_atomic is the one way to replace a file:
 * temporary in the same folder, synced, renamed, folder synced.
 */
#ifndef TSR_BASE_VFS_H
#define TSR_BASE_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct Vfs {
    int (*open)(const char *path, int flags, int mode, int *fd);
    int (*read)(int fd, void *p, size_t n, size_t *got);
    int (*write)(int fd, const void *p, size_t n, size_t *put);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
} Vfs;

extern const Vfs vfs_posix;
const Vfs *vfs_current(void);
void vfs_set(const Vfs *v);                     /* NULL: back to POSIX */

/* Whole file into *data (tsr_free it), NUL-terminated beyond *len. EFBIG when larger than max. */
int vfs_read_file(const char *path, size_t max, char **data, size_t *len);
int vfs_read_fd(int fd, size_t max, char **data, size_t *len);
/* Replace `path` by the n bytes at p, whole or not at all. A link's target is replaced; a device or pipe is written to. */
int vfs_write_atomic(const char *path, const void *p, size_t n);
/* The same in pieces: begin, any number of writes, then commit or abort. */
typedef struct VfsWriter { int fd; char *path, *tmp; int err; } VfsWriter;
int vfs_begin(VfsWriter *w, const char *path);
int vfs_put(VfsWriter *w, const void *p, size_t n);
int vfs_commit(VfsWriter *w);                   /* the first error of any step; the temporary file is gone on error */

#endif
