/*
 * A pool of threads for loops over independent parts.
 *
 * One job at a time: the caller and the workers take parts off a shared
 * counter until none is left.  Kernels never let a result depend on how a loop
 * is cut, so the number of threads is a matter of speed alone.  A loop started
 * inside a loop runs in its own thread.  Who waits looks for a while before it sleeps, because
 * programs start loops one after another and waking a thread takes longer than many of them.
 */
#include "runtime/kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 256, LOOKS = 1000 };

typedef struct Job {
    void (*fn)(int64_t lo, int64_t hi, void *st);
    void *st;
    int64_t n, part;
    _Atomic int64_t next;
} Job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
static Job job;
static _Atomic uint64_t generation;     /* counts jobs: a worker joins each once */
static _Atomic int busy;
static int nthreads, started;
static _Thread_local bool inside;

static void take_parts(void)
{
    int64_t lo;

    inside = true;
    while ((lo = atomic_fetch_add(&job.next, job.part)) < job.n)
        job.fn(lo, lo + job.part < job.n ? lo + job.part : job.n, job.st);
    inside = false;
}

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void *worker(void *arg)
{
    uint64_t seen = 0;

    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < LOOKS && generation == seen; i++)
            pause_a_little();
        pthread_mutex_lock(&lock);
        while (generation == seen)
            pthread_cond_wait(&wake, &lock);
        seen = generation;
        busy++;
        pthread_mutex_unlock(&lock);
        take_parts();
        pthread_mutex_lock(&lock);
        if (!--busy)
            pthread_cond_signal(&idle);
    }
    return NULL;
}

void pool_init(int threads)
{
    const char *env = getenv("TESSERA_THREADS");

    if (threads <= 0 && env)
        threads = atoi(env);
    if (threads <= 0)
        threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    nthreads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
}

int pool_threads(void)
{
    if (!nthreads)
        pool_init(0);
    return nthreads;
}

/* A child process has none of the workers. */
static void forget_workers(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&wake, NULL);
    pthread_cond_init(&idle, NULL);
    started = 0;
    busy = 0;
}

/* Workers are made when first needed and stay; a machine that refuses one just has fewer. */
static void start_workers(int want)
{
    static bool watched;
    pthread_attr_t attr;
    pthread_t id;

    if (!watched)
        watched = !pthread_atfork(NULL, NULL, forget_workers);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    while (started < want && !pthread_create(&id, &attr, worker, NULL))
        started++;
    pthread_attr_destroy(&attr);
}

/* part: how many are taken at once. */
static void run_parts(int64_t n, int64_t part, void (*fn)(int64_t lo, int64_t hi, void *st), void *st)
{
    pthread_mutex_lock(&lock);
    start_workers(pool_threads() - 1);
    while (busy)                                    /* stragglers of the last job */
        pthread_cond_wait(&idle, &lock);
    job.fn = fn;
    job.st = st;
    job.n = n;
    job.part = part;
    atomic_store(&job.next, 0);
    generation++;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    take_parts();
    for (int i = 0; i < LOOKS && busy; i++)
        pause_a_little();
    pthread_mutex_lock(&lock);
    while (busy)
        pthread_cond_wait(&idle, &lock);
    pthread_mutex_unlock(&lock);
}

void pool_for(int64_t n, int64_t grain, void (*fn)(int64_t lo, int64_t hi, void *st), void *st)
{
    int threads = pool_threads();
    int64_t parts = (n + grain - 1) / grain, per = (parts + threads * 4 - 1) / (threads * 4);

    if (n <= 0)
        return;
    if (n <= grain || threads == 1 || inside)
        fn(0, n, st);
    else
        run_parts(n, per * grain, fn, st);
}

void pool_each(int64_t n, void (*fn)(int64_t lo, int64_t hi, void *st), void *st)
{
    if (n <= 0)
        return;
    if (n == 1 || pool_threads() == 1 || inside)
        fn(0, n, st);
    else
        run_parts(n, 1, fn, st);
}
