/*
 * store: what is kept is found again; what is damaged, torn, of another key, in
 * a folder of others, or beyond what may be kept is not, and nothing but a miss follows.
 */
#include "unit.h"

#include "base/alloc.h"
#include "base/vfs.h"
#include "runtime/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PLENTY = 1 << 28 };

static char parent[64], folder[96];

static Hash128 key(uint64_t i) { return (Hash128){i * 0x9e3779b97f4a7c15u, i + 1}; }

/* Bytes that follow from the key, `n` of them. */
static void fill(StrBuf *b, uint64_t i, size_t n)
{
    for (size_t k = 0; k < n; k++)
        sb_putc(b, (char)(hash_u64(i * 1000003 + k) >> 7));
}

static void put(uint64_t i, size_t n)
{
    StrBuf b = {0};

    fill(&b, i, n);
    store_put(key(i), sb_str(&b), n);
    sb_done(&b);
}

/* Is it there? If so it has the right bytes. */
static bool has(uint64_t i, size_t n)
{
    StrBuf want = {0}, got = {0};
    bool found = store_get(key(i), &got);

    fill(&want, i, n);
    if (found) {
        assert_int_equal(got.n, n);
        assert_memory_equal(sb_str(&got), sb_str(&want), n);
    } else {
        assert_int_equal(got.n, 0);
    }
    sb_done(&want);
    sb_done(&got);
    return found;
}

static char *file_of(uint64_t i)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%016llx%016llx.o", folder, (unsigned long long)key(i).hi, (unsigned long long)key(i).lo);
    return path;
}

static int count_files(void)
{
    DIR *d = opendir(folder);
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static int setup(void **state)
{
    strcpy(parent, "/tmp/tessera-store-XXXXXX");
    assert_non_null(mkdtemp(parent));
    snprintf(folder, sizeof folder, "%s/a/b", parent);      /* the store makes both */
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    vfs_set(NULL);
    store_begin(NULL, 0);
    snprintf(command, sizeof command, "rm -rf %s", parent);
    return system(command);
}

static void kept_and_found(void **state)
{
    StoreSurvey s;
    StrBuf why = {0};

    store_begin(folder, PLENTY);
    assert_false(has(1, 100));
    assert_false(store_survey(&s, &why));
    assert_int_equal(why.n, 0);
    put(1, 100);
    put(2, 0);
    put(3, 1 << 20);
    assert_int_equal(count_files(), 0);         /* nothing is written before the end */
    store_begin(folder, PLENTY);
    assert_true(has(1, 100) && has(2, 0) && has(3, 1 << 20));
    assert_false(has(4, 1));
    assert_true(store_survey(&s, &why));
    assert_int_equal(s.entries, 3);
    store_begin("", PLENTY);
    assert_false(store_in_use() || has(1, 100));
    put(5, 10);
    store_begin(folder, PLENTY);
    assert_false(has(5, 10));
    sb_done(&why);
}

static void many_are_written_at_once(void **state)
{
    store_begin(folder, PLENTY);
    for (uint64_t i = 0; i < 100; i++)
        put(i, 64);
    assert_true(count_files() > 0);             /* before the end of the process */
    store_begin(folder, PLENTY);
    for (uint64_t i = 0; i < 100; i++)
        assert_true(has(i, 64));
}

static void write_file(const char *path, const char *p, size_t n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

/* Every byte of a file changed, every length it can be cut to, bytes after its end, the file of another key. */
static void damage_is_a_miss(void **state)
{
    enum { N = 300 };
    StrBuf body = {0}, file = {0};

    fill(&body, 7, N);
    store_pack(key(7), body.s, N, &file);
    store_begin(folder, PLENTY);
    put(7, N);
    store_begin(folder, PLENTY);
    assert_true(has(7, N));
    for (size_t at = 0; at < file.n; at++)
        for (int bit = 0; bit < 8; bit += 7) {
            file.s[at] ^= (char)(1 << bit);
            write_file(file_of(7), file.s, file.n);
            assert_false(has(7, N));
            file.s[at] ^= (char)(1 << bit);
        }
    for (size_t n = 0; n < file.n; n++) {
        write_file(file_of(7), file.s, n);
        assert_false(has(7, N));
    }
    write_file(file_of(8), file.s, file.n);
    assert_false(has(8, N));
    write_file(file_of(7), file.s, file.n);
    assert_true(has(7, N));
    sb_putc(&file, 0);
    write_file(file_of(7), file.s, file.n);
    assert_false(has(7, N));
    put(7, N);                                  /* a miss is made again and mends the file */
    store_begin(folder, PLENTY);
    assert_true(has(7, N));
    sb_done(&body);
    sb_done(&file);
}

/* Sizes in the head that no file has are misses, though the checksum is right. */
static void sizes_are_not_believed(void **state)
{
    static const uint64_t sizes[] = {0, 1, 299, 301, UINT64_MAX, UINT64_MAX - 47, (uint64_t)1 << 63};
    StrBuf body = {0}, file = {0};
    size_t n;

    fill(&body, 7, 300);
    store_pack(key(7), body.s, 300, &file);
    assert_non_null(store_unpack(key(7), file.s, file.n, &n));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Hash128 sum;
        memcpy(file.s + 40, &sizes[i], 8);
        sum = hash_bytes128(file.s + 24, file.n - 24);
        memcpy(file.s + 8, &sum, 16);
        assert_null(store_unpack(key(7), file.s, file.n, &n));
    }
    sb_done(&body);
    sb_done(&file);
}

static void set_age(uint64_t i, time_t seconds)
{
    struct timespec t[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};

    assert_int_equal(utimensat(AT_FDCWD, file_of(i), t, 0), 0);
}

static void what_was_unused_longest_goes(void **state)
{
    enum { COUNT = 200, SIZE = 8000, LIMIT = 100 * 8192 };
    StoreSurvey s;
    StrBuf why = {0};

    store_begin(folder, PLENTY);
    for (uint64_t i = 0; i < COUNT; i++)
        put(i, SIZE);
    store_begin(folder, LIMIT);
    for (uint64_t i = 0; i < COUNT; i++)
        set_age(i, 100000 + (time_t)i);
    for (uint64_t i = 150; i < COUNT; i++)      /* the oldest, but used just now */
        assert_true(has(i, SIZE));
    put(0, SIZE);                               /* its key has a writer look at the folder */
    store_begin(folder, LIMIT);
    assert_true(store_survey(&s, &why));
    assert_true(s.bytes <= LIMIT && s.bytes > LIMIT / 2);
    for (uint64_t i = 150; i < COUNT; i++)
        assert_true(has(i, SIZE));
    assert_true(has(0, SIZE) && has(1, SIZE));
    assert_false(has(149, SIZE));
    sb_done(&why);
}

static void refused(const char *reason)
{
    StoreSurvey s;
    StrBuf why = {0};

    store_begin(folder, PLENTY);
    assert_false(has(1, 10));
    put(2, 10);
    store_begin(folder, PLENTY);
    assert_false(has(2, 10));
    assert_false(store_survey(&s, &why));
    assert_non_null(strstr(sb_str(&why), reason));
    assert_int_equal(store_clear(), 0);
    sb_done(&why);
}

static void folders_that_will_not_do(void **state)
{
    store_begin(folder, PLENTY);
    put(1, 10);
    store_done();
    assert_int_equal(chmod(folder, 0777), 0);
    refused("other users may write to it");
    if (geteuid() == 0) {
        assert_int_equal(chmod(folder, 0700), 0);
        assert_int_equal(chown(folder, 1, 1), 0);
        refused("it belongs to another user");
    }
    snprintf(folder, sizeof folder, "%s/file", parent);
    write_file(folder, "x", 1);
    refused("it is no folder");
    snprintf(folder, sizeof folder, "%s/file/below", parent);
    refused("Not a directory");
}

/* ---- a file system that fails ---- */

static int countdown;           /* so many calls still go well */
static int failure;

static int fail_now(void) { return countdown-- > 0 ? 0 : failure; }
static int f_open(const char *path, int flags, int mode, int *fd) { return fail_now() ? failure : vfs_posix.open(path, flags, mode, fd); }
static int f_close(int fd) { int e = vfs_posix.close(fd); return fail_now() ? failure : e; }
static int f_rename(const char *a, const char *b) { return fail_now() ? failure : vfs_posix.rename(a, b); }

static int f_read(int fd, void *p, size_t n, size_t *got)
{
    *got = 0;
    return fail_now() ? failure : vfs_posix.read(fd, p, n, got);
}

/* What fails has written a part before. */
static int f_write(int fd, const void *p, size_t n, size_t *put)
{
    int e = fail_now();

    vfs_posix.write(fd, p, e ? n / 2 : n, put);
    return e;
}

static void every_call_may_fail(void **state)
{
    StoreSurvey s;
    StrBuf why = {0};

    static const int failures[] = {ENOSPC, EROFS, EIO, EACCES};
    static const Vfs failing = {f_open, f_read, f_write, NULL, f_close, f_rename, NULL};
    Vfs fs = failing;

    fs.fsync = vfs_posix.fsync;
    fs.unlink = vfs_posix.unlink;
    for (int n = 0; n < 40; n++) {
        failure = failures[n % 4];
        store_begin(folder, PLENTY);
        store_clear();
        countdown = n;
        vfs_set(&fs);
        for (uint64_t i = 0; i < 4; i++) {
            has(i, 50);
            put(i, 50);
        }
        store_begin(folder, PLENTY);
        for (uint64_t i = 0; i < 4; i++)
            has(i, 50);
        vfs_set(NULL);
        for (uint64_t i = 0; i < 4; i++)
            has(i, 50);
        if (store_survey(&s, &why))
            assert_int_equal(count_files(), s.entries);     /* nothing half-written stays */
        if (n == 0)
            assert_int_equal(count_files(), 0);
        if (n == 39)
            assert_int_equal(count_files(), 4);
    }
    sb_done(&why);
}

/* An entry that is written again stays as it was until it is whole. */
static void old_or_new(void **state)
{
    Vfs fs = vfs_posix;

    fs.write = f_write;
    failure = ENOSPC;
    countdown = 0;
    store_begin(folder, PLENTY);
    put(1, 5000);
    store_begin(folder, PLENTY);
    put(1, 5000);
    vfs_set(&fs);
    store_begin(folder, PLENTY);
    vfs_set(NULL);
    assert_true(countdown < 0 && has(1, 5000));
}

/* ---- several processes ---- */

enum { KEYS = 40 };

/* Writes entries for ever, several stores' lives long. */
static void write_for_ever(unsigned seed)
{
    for (;; seed++) {
        store_begin(folder, PLENTY);
        for (int i = 0; i < 8; i++) {
            uint64_t k = hash_u64(seed * 8 + (unsigned)i) % KEYS;
            if (!has(k, 20000))
                put(k, 20000);
            if (hash_u64(seed) % 16 == 0)
                unlink(file_of(k));
        }
    }
}

/* Two writers at once, killed at any time: a reader finds whole entries or none. */
static void killed_writers_tear_nothing(void **state)
{
    int found = 0;

    store_begin(folder, PLENTY);
    for (unsigned round = 0; round < 60; round++) {
        pid_t pid[2];
        for (unsigned w = 0; w < 2; w++)
            if ((pid[w] = fork()) == 0) {
                write_for_ever(round * 1000 + w * 100000);
                _exit(0);
            }
        usleep(1000 + hash_u64(round) % 8000);
        store_begin(folder, PLENTY);
        for (uint64_t k = 0; k < KEYS; k++)
            found += has(k, 20000);
        for (int w = 0; w < 2; w++) {
            int status;
            kill(pid[w], SIGKILL);
            waitpid(pid[w], &status, 0);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);   /* no assertion of its own ended it */
        }
        for (uint64_t k = 0; k < KEYS; k++)
            found += has(k, 20000);
    }
    assert_true(found > 0);
}

/* Unfinished files go once they are old; files that are not the store's stay whatever happens. */
static void strangers_stay(void **state)
{
    char path[300], stranger[300];
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};

    store_begin(folder, PLENTY);
    put(1, 10);
    store_begin(folder, PLENTY);
    snprintf(path, sizeof path, "%s/%032d.tmp123", folder, 7);
    snprintf(stranger, sizeof stranger, "%s/letter.o", folder);
    write_file(path, "x", 1);
    write_file(stranger, "x", 1);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, stranger, old, 0), 0);
    put(0, 10);
    store_begin(folder, 0);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(access(stranger, F_OK), 0);
    assert_int_equal(store_clear(), 2);
    assert_int_equal(count_files(), 1);
    put(0, 10);
    store_done();                               /* a limit of nothing keeps nothing */
    assert_int_equal(count_files(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kept_and_found, setup, teardown),
        cmocka_unit_test_setup_teardown(many_are_written_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_a_miss, setup, teardown),
        cmocka_unit_test_setup_teardown(sizes_are_not_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_unused_longest_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(folders_that_will_not_do, setup, teardown),
        cmocka_unit_test_setup_teardown(every_call_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(old_or_new, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_writers_tear_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_stay, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
