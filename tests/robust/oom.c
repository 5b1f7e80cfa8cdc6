/*
 * oom.c - every allocation fails once.
 *
 *     oom RUNS SEED ARG...   run `tessera ARG...` again and again; in run N the N-th allocation fails
 *
 * A child process does each run, once with that allocation failing alone and
 * once with it and all later ones.  It must end as it does without faults, or
 * with exit code 1 and a word about memory; a signal or a silent end is a
 * finding.  At most RUNS places are tried, one in each of as many stretches of the
 * run; SEED decides which, so that all are in time.
 */
#include "base/alloc.h"
#include "driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t *shared_count;          /* allocations of the finished child */
static int usual;                       /* exit code without faults */

static int run_child(uint64_t fail_at, bool forever, int out, int argc, char **argv)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        int code;
        lseek(STDIN_FILENO, 0, SEEK_SET);       /* a file, when the scenario reads one */
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        alarm(20);
        tsr_alloc_fail_at(fail_at, forever);
        code = driver_main(argc, argv);
        *shared_count = tsr_alloc_count();
        fflush(NULL);
        _exit(code);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -1;
    return status;
}

static bool says_memory(int fd)
{
    static char text[1 << 16];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);

    text[n < 0 ? 0 : n] = 0;
    return strstr(text, "emory");
}

/* One run; false: it ended in a way that it must not. */
static bool try_one(uint64_t n, bool forever, int fd, int argc, char **argv)
{
    int status;

    if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))
        return false;
    status = run_child(n, forever, fd, argc, argv);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == usual || (WEXITSTATUS(status) == 1 && says_memory(fd))))
        return true;
    printf("allocation %llu%s: ", (unsigned long long)n, forever ? " and all later" : "");
    if (WIFSIGNALED(status))
        printf("killed by signal %d\n", WTERMSIG(status));
    else
        printf("exit code %d without a word about memory\n", WEXITSTATUS(status));
    return false;
}

/* A place in [n, n + step), after the seed. */
static uint64_t place_in(uint64_t n, uint64_t step, uint64_t seed)
{
    uint64_t z = (seed ^ n) * 0x9E3779B97F4A7C15u;

    return n + (z ^ z >> 29) % step;
}

int main(int argc, char **argv)
{
    static char name[] = "tessera";
    struct rlimit no_core = {0, 0};
    int fd = memfd_create("output", 0), bad = 0, status;
    uint64_t total, step, most, seed, runs = 0;

    if (argc < 4 || fd < 0)
        return 2;
    setrlimit(RLIMIT_CORE, &no_core);
    shared_count = mmap(NULL, sizeof *shared_count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    most = strtoull(argv[1], NULL, 10);
    seed = strtoull(argv[2], NULL, 10);
    argc -= 2;
    argv += 2;
    argv[0] = name;
    if (shared_count == MAP_FAILED)
        return 2;
    status = run_child(0, false, fd, argc, argv);
    if (!WIFEXITED(status))
        return printf("it dies without faults\n"), 1;
    usual = WEXITSTATUS(status);
    total = *shared_count;
    step = total / (most ? most : 500) + 1;
    for (uint64_t n = 1; n <= total + 1 && bad < 10; n += step, runs += 2)
        bad += !try_one(place_in(n, step, seed), false, fd, argc, argv) + !try_one(place_in(n, step, seed), true, fd, argc, argv);
    printf("%llu allocations, %llu runs, %d bad\n", (unsigned long long)total, (unsigned long long)runs, bad);
    return bad ? 1 : 0;
}
