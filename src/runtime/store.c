/*
 * One folder, one file an entry, named by its key.
 *
 * A file is written under another name and renamed, so readers see it whole;
 * after a power cut its bytes may be missing all the same, which its checksum
 * shows, so nothing is ever synced.  Reading an entry renews its time; now and
 * then a writer looks at the whole folder, removes what was unused longest
 * when there is too much, and what killed writers left.
 *
 * Code that is loaded is run, so the folder must belong to this user and be
 * closed to the writing of others.
 */
#include "runtime/store.h"

#include "base/alloc.h"
#include "base/vec.h"
#include "base/vfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A file: the magic, the checksum of all that follows it, the key, the object's size, the object. */
enum { AT_SUM = 8, AT_KEY = 24, AT_SIZE = 40, HEAD = 48 };
static const char magic[AT_SUM + 1] = "tsrobj1\n";

enum {
    NAME_DIGITS = 32,
    MANY = 64,                  /* so many waiting objects are written at once, */
    MANY_BYTES = 8 << 20,       /* or so many bytes of them */
    ENTRY_MAX = 64 << 20,
    LOOK = 16,                  /* one in so many entries has its writer look at the whole folder */
    BLOCK = 4096,               /* what a file takes is counted in these */
    ABANDONED = 3600,           /* seconds after which an unfinished file has nobody */
    RENEW = 600,                /* times are renewed when they are older, in seconds */
};

typedef struct Waiting { Hash128 key; char *object; size_t n; } Waiting;

static struct {
    char *folder;               /* NULL: no store */
    int64_t limit;
    bool asked, ready;          /* was the folder looked at; is it there and ours? */
    Vec(Waiting) waiting;
    size_t bytes;               /* of them */
    int found;
} store;

/* ---- an entry's bytes ---- */

static void put_le(StrBuf *b, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        sb_putc(b, (char)(x >> (8 * i)));
}

static uint64_t get_le(const char *p)
{
    uint64_t x = 0;

    for (int i = 0; i < 8; i++)
        x |= (uint64_t)(uint8_t)p[i] << (8 * i);
    return x;
}

static Hash128 get_hash(const char *p) { return (Hash128){get_le(p), get_le(p + 8)}; }
static bool same(Hash128 a, Hash128 b) { return a.lo == b.lo && a.hi == b.hi; }

void store_pack(Hash128 key, const void *object, size_t n, StrBuf *file)
{
    StrBuf body = {0};
    Hash128 sum;

    put_le(&body, key.lo);
    put_le(&body, key.hi);
    put_le(&body, n);
    sb_write(&body, object, n);
    sum = hash_bytes128(body.s, body.n);
    sb_write(file, magic, AT_SUM);
    put_le(file, sum.lo);
    put_le(file, sum.hi);
    sb_write(file, body.s, body.n);
    sb_done(&body);
}

const char *store_unpack(Hash128 key, const char *file, size_t n, size_t *size)
{
    if (n < HEAD || memcmp(file, magic, AT_SUM) || !same(get_hash(file + AT_KEY), key) || get_le(file + AT_SIZE) != n - HEAD ||
        !same(get_hash(file + AT_SUM), hash_bytes128(file + AT_KEY, n - AT_KEY)))
        return NULL;
    *size = n - HEAD;
    return file + HEAD;
}

/* ---- the folder ---- */

/* What is wrong with the folder as a store: NULL nothing. */
static const char *fault(void)
{
    struct stat st;

    if (stat(store.folder, &st))
        return strerror(errno);
    if (!S_ISDIR(st.st_mode))
        return "it is no folder";
    if (st.st_uid != geteuid())
        return "it belongs to another user";
    return st.st_mode & (S_IWGRP | S_IWOTH) ? "other users may write to it" : NULL;
}

static bool ready(void)
{
    if (!store.asked && store.folder)
        store.ready = !fault();
    store.asked = true;
    return store.ready;
}

static void make_folder(void)
{
    for (char *s = store.folder + 1; *s; s++)
        if (*s == '/') {
            *s = 0;
            mkdir(store.folder, 0700);
            *s = '/';
        }
    mkdir(store.folder, 0700);
    store.asked = false;
}

static char *path_of(Hash128 key, const char *ending, long pid)
{
    size_t size = strlen(store.folder) + 80;
    char *path = tsr_alloc(size);
    int n = snprintf(path, size, "%s/%016llx%016llx.%s", store.folder, (unsigned long long)key.hi, (unsigned long long)key.lo, ending);

    if (pid)
        snprintf(path + n, size - (size_t)n, "%ld", pid);
    return path;
}

typedef enum { STRANGER, ENTRY, UNFINISHED } FileKind;

static FileKind kind_of(const char *name)
{
    if (strspn(name, "0123456789abcdef") != NAME_DIGITS || name[NAME_DIGITS] != '.')
        return STRANGER;
    name += NAME_DIGITS + 1;
    if (!strcmp(name, "o"))
        return ENTRY;
    return !strncmp(name, "tmp", 3) && name[3] && !name[3 + strspn(name + 3, "0123456789")] ? UNFINISHED : STRANGER;
}

typedef struct File { char name[NAME_DIGITS + 24]; struct timespec used; int64_t bytes; FileKind kind; } File;
typedef struct Files { Vec(File) v; DIR *d; } Files;

/* All files of the store; .d stays open, to remove some. */
static Files list_files(void)
{
    Files all = {.d = opendir(store.folder)};
    struct dirent *e;
    struct stat st;

    while (all.d && (e = readdir(all.d))) {
        File f = {.kind = kind_of(e->d_name)};
        if (f.kind == STRANGER || strlen(e->d_name) >= sizeof f.name || fstatat(dirfd(all.d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        strcpy(f.name, e->d_name);
        f.used = st.st_mtim;
        f.bytes = (st.st_size + BLOCK - 1) / BLOCK * BLOCK;
        vec_push(&all.v, f);
    }
    return all;
}

static void drop_file(const Files *all, int i) { unlinkat(dirfd(all->d), all->v.at[i].name, 0); }

static void files_done(Files *all)
{
    if (all->d)
        closedir(all->d);
    vec_free(&all->v);
}

static int oldest_first(const void *a, const void *b)
{
    const struct timespec *s = &((const File *)a)->used, *t = &((const File *)b)->used;

    if (s->tv_sec != t->tv_sec)
        return s->tv_sec < t->tv_sec ? -1 : 1;
    return s->tv_nsec < t->tv_nsec ? -1 : s->tv_nsec > t->tv_nsec;
}

/* What was unused longest goes while there is more than the limit, and then an eighth more, to be done with it for a while. */
static void tidy(void)
{
    Files all = list_files();
    int64_t total = 0, aim;
    time_t now = time(NULL);

    for (int i = 0; i < all.v.n; i++)
        total += all.v.at[i].bytes;
    aim = total > store.limit ? store.limit - store.limit / 8 : total;
    if (all.v.n)
        qsort(all.v.at, (size_t)all.v.n, sizeof *all.v.at, oldest_first);
    for (int i = 0; i < all.v.n; i++) {
        const File *f = &all.v.at[i];
        if (f->kind == ENTRY ? total > aim : now - f->used.tv_sec > ABANDONED) {
            drop_file(&all, i);
            total -= f->bytes;
        }
    }
    files_done(&all);
}

/* ---- reading ---- */

static void renew(const char *path)
{
    struct stat st;

    if (!stat(path, &st) && time(NULL) - st.st_mtim.tv_sec > RENEW)
        utimensat(AT_FDCWD, path, NULL, 0);
}

bool store_in_use(void) { return store.folder != NULL; }
void store_note_found(void) { store.found++; }
int store_found(void) { return store.found; }

bool store_get(Hash128 key, StrBuf *object)
{
    char *path, *file;
    const char *found = NULL;
    size_t n, size;

    if (!ready())
        return false;
    path = path_of(key, "o", 0);
    if (!vfs_read_file(path, ENTRY_MAX, &file, &n)) {
        if ((found = store_unpack(key, file, n, &size))) {
            sb_write(object, found, size);
            renew(path);
        }
        tsr_free(file);
    }
    tsr_free(path);
    return found != NULL;
}

/* ---- writing ---- */

static bool write_whole(int fd, const char *p, size_t n)
{
    size_t put;

    for (; n; p += put, n -= put)
        if (vfs_current()->write(fd, p, n, &put) || !put)
            return false;
    return true;
}

static bool write_entry(const Waiting *w)
{
    const Vfs *fs = vfs_current();
    char *path = path_of(w->key, "o", 0), *tmp = path_of(w->key, "tmp", (long)getpid());
    StrBuf file = {0};
    bool ok = false;
    int fd;

    if (!fs->open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, &fd)) {
        store_pack(w->key, w->object, w->n, &file);
        ok = write_whole(fd, file.s, file.n);
        ok = !fs->close(fd) && ok && !fs->rename(tmp, path);
        if (!ok)
            fs->unlink(tmp);
    }
    sb_done(&file);
    tsr_free(tmp);
    tsr_free(path);
    return ok;
}

/* Write what waits. When one cannot be written the others hardly can: they are dropped. */
static void flush(void)
{
    bool look = false, ok;

    if (store.waiting.n && !ready())
        make_folder();
    ok = ready();
    for (int i = 0; i < store.waiting.n; i++) {
        Waiting *w = &store.waiting.at[i];
        ok = ok && write_entry(w);
        look |= w->key.lo % LOOK == 0;
        tsr_free(w->object);
    }
    vec_free(&store.waiting);
    store.bytes = 0;
    if (look && ready())
        tidy();
}

void store_put(Hash128 key, const void *object, size_t n)
{
    Waiting w = {key, NULL, n};

    if (!store.folder || n > ENTRY_MAX - HEAD)
        return;
    w.object = tsr_alloc(n);
    memcpy(w.object, object, n);
    vec_push(&store.waiting, w);
    store.bytes += n;
    if (store.waiting.n >= MANY || store.bytes >= MANY_BYTES)
        flush();
}

/* ---- the store as a whole ---- */

void store_begin(const char *folder, int64_t limit)
{
    store_done();
    if (!folder || !*folder)
        return;
    store.folder = tsr_alloc(strlen(folder) + 1);
    strcpy(store.folder, folder);
    store.limit = limit;
}

void store_done(void)
{
    flush();
    tsr_free(store.folder);
    store.folder = NULL;
    store.asked = store.ready = false;
}

bool store_survey(StoreSurvey *out, StrBuf *why)
{
    struct stat st;
    Files all;

    *out = (StoreSurvey){0};
    if (!ready()) {
        if (store.folder && (!stat(store.folder, &st) || errno != ENOENT))
            sb_puts(why, fault());
        return false;
    }
    all = list_files();
    for (int i = 0; i < all.v.n; i++) {
        out->entries += all.v.at[i].kind == ENTRY;
        out->bytes += all.v.at[i].bytes;
    }
    files_done(&all);
    return true;
}

int64_t store_clear(void)
{
    Files all = {0};
    int64_t n = 0;

    if (!ready())
        return 0;
    all = list_files();
    for (int i = 0; i < all.v.n; i++) {
        drop_file(&all, i);
        n += all.v.at[i].kind == ENTRY;
    }
    files_done(&all);
    return n;
}
