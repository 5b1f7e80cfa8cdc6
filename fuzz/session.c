/* The budget, the empty world and the evaluators of session.h. */
#include "session.h"
#include "targets.h"

#include "base/interrupt.h"
#include "base/vfs.h"
#include "runtime/kernels.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 2, INTERRUPT_MS = 10, STARVE_MS = 2000 };

static atomic_int age_ms = -1;  /* of the input that runs; negative: none does */
static unsigned long runs;

/* ------------------------------------------------------------- a world without effects */

static int no_open(const char *path, int flags, int mode, int *fd) { return flags & 3 ? EROFS : ENOENT; }
static int no_read(int fd, void *p, size_t n, size_t *got) { return *got = 0; }
static int no_write(int fd, const void *p, size_t n, size_t *put) { *put = n; return 0; }
static int no_fd(int fd) { return 0; }
static int no_rename(const char *from, const char *to) { return EROFS; }
static int no_unlink(const char *path) { return EROFS; }

static const Vfs no_files = {no_open, no_read, no_write, no_fd, no_fd, no_rename, no_unlink};

/* The calls that natives make around the Vfs: while an input runs, the linker's --wrap leads them here. */
#define WRAP(type, name, args, pass, none) \
    type __wrap_##name args; type __real_##name args; \
    type __wrap_##name args { return atomic_load(&age_ms) < 0 ? __real_##name pass : none; }

WRAP(int, mkdir, (const char *path, unsigned mode), (path, mode), (errno = EROFS, -1))
WRAP(int, rmdir, (const char *path), (path), (errno = EROFS, -1))
WRAP(void *, opendir, (const char *path), (path), (errno = ENOENT, NULL))
WRAP(int, nanosleep, (const struct timespec *t, struct timespec *left), (t, left), 0)

/* ------------------------------------------------------------- the budget */

static void *watch(void *unused)
{
    const struct timespec step = {0, STEP_MS * 1000000};

    for (;;) {
        __real_nanosleep(&step, NULL);
        int age = atomic_load(&age_ms);
        if (age < 0)
            continue;
        atomic_compare_exchange_strong(&age_ms, &age, age + STEP_MS);
        if (age >= INTERRUPT_MS)
            tsr_interrupted = 1;
        if (age >= STARVE_MS)
            tsr_alloc_fail_at(1, true);
    }
    return unused;
}

static void start(void)
{
    pthread_t id;

    vfs_set(&no_files);
    pool_init(1);
    if (pthread_create(&id, NULL, watch, NULL))
        tsr_bug("no thread to watch the budget");
    pthread_detach(id);
}

void session_alone(void (*fn)(const uint8_t *, size_t), const uint8_t *data, size_t n)
{
    if (!runs++)
        start();
    fn(data, n);
}

void session_until_full(void (*fn)(const uint8_t *, size_t), const uint8_t *data, size_t n)
{
    static jmp_buf starved;

    /* What ran out of memory leaves its session as it was: only a new process is clean. */
    if (setjmp(starved)) {
        fprintf(stderr, "\nsession: out of memory after %lu runs\n", runs);
        _exit(0);
    }
    tsr_oom_set(&starved);
    session_alone(fn, data, n);
}

void session_run(void (*fn)(const uint8_t *, size_t), const uint8_t *data, size_t n)
{
    tsr_interrupted = 0;
    atomic_store(&age_ms, 0);
    session_until_full(fn, data, n);
    atomic_store(&age_ms, -1);
}

/* ------------------------------------------------------------- evaluators */

Interp *session_interp(void)
{
    static char name[] = "fuzz", *argv[] = {name, NULL};
    InterpOptions o = {.argc = 1, .argv = argv};

    return interp_new(&o);
}

Value session_call(Interp *I, const char *module, const char *name, const Value *args, int nargs)
{
    Value m, f, r;

    if (!*module)
        return value_call(I, prelude_get(I, name), args, nargs);
    m = import_module(I, module);
    if (is_err(m))
        return VERR;
    f = value_getattr(I, m, sym(name));
    r = is_err(f) ? VERR : value_call(I, f, args, nargs);
    value_unref(f);
    value_unref(m);
    return r;
}
