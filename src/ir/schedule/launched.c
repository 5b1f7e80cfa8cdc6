/*
 * A whole kernel by code: made when it pays, refused once and for all, its
 * groups among threads.
 */
#include "ir/schedule/launched.h"
#include "ir/schedule/far.h"

#include "base/alloc.h"
#include "base/interrupt.h"
#include "runtime/kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Nodes of lanes: that pay for compiling, for another thread; pieces of a thread's share; kernels that are told apart. */
enum { PAYS = 1 << 15, ALONE = 1 << 15, SLICES = 8, ON_HOST_MOST = 16 };

typedef struct Launched {
    const KernelCompiler *by;
    void *code;
    char *refusal;
    double work;                        /* nodes of lanes that the oracle has done */
    bool in_turn;                       /* do atomics show the order of groups? */
    void *far;                          /* code for GPUs */
    char *far_refusal;
    bool far_asked;
} Launched;

static const KernelCompiler *compiler;
static bool lazy;
static LaunchedStats stats;
static LaunchedOnHost on_host[ON_HOST_MOST];
static int on_host_n;

void launched_begin(const KernelCompiler *c, bool lazily)
{
    compiler = c;
    lazy = lazily;
}

LaunchedStats launched_stats(void) { return stats; }

const LaunchedOnHost *launched_on_host(int *n)
{
    *n = on_host_n;
    return on_host;
}

/* A launch that a GPU was chosen for goes to the host. */
static void count_on_host(const TileKernel *k, const char *why)
{
    int i = 0;

    while (i < on_host_n && (strcmp(on_host[i].name, k->name->text) != 0 || strncmp(on_host[i].why, why, sizeof on_host[i].why - 1) != 0))
        i++;
    if (i == ON_HOST_MOST)
        return;
    if (i == on_host_n) {
        snprintf(on_host[i].name, sizeof on_host[i].name, "%s", k->name->text);
        snprintf(on_host[i].why, sizeof on_host[i].why, "%s", why);
        on_host_n++;
    }
    on_host[i].times++;
}

void launched_free(void *code)
{
    Launched *l = code;

    if (!l)
        return;
    if (l->code)
        l->by->free(l->code);
    if (l->far)
        fused_far->compiler->free(l->far);
    tsr_free(l->refusal);
    tsr_free(l->far_refusal);
    tsr_free(l);
}

/* ---- compiling ---- */

static bool has_loop(const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_for || n->op == TOP_while)
            return true;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && has_loop(n->region[r]))
                return true;
    }
    return false;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make(Launched *l, const TileKernel *k)
{
    StrBuf why = {0};
    double start = now();

    l->by = compiler;
    l->in_turn = tile_in_turn(k);
    l->code = compiler->compile(k, &why);
    stats.made += l->code != NULL;
    stats.refused += !l->code;
    stats.seconds += now() - start;
    if (!l->code) {
        l->refusal = tsr_alloc(why.n + 1);
        memcpy(l->refusal, sb_str(&why), why.n + 1);
    }
    sb_done(&why);
}

/* ---- running ---- */

typedef struct Job {
    KernelFn *fn;
    const int64_t *size;
    const TileArg *args;
    char *scratch;
    int64_t bytes, groups, parts;
    _Atomic int64_t next;
} Job;

static void run_part(const Job *j, char *scratch, int64_t part)
{
    int64_t from = part * j->groups / j->parts, end = (part + 1) * j->groups / j->parts, step = (end - from + SLICES - 1) / SLICES;

    for (int64_t g = from; g < end && !tsr_interrupted; g += step)
        j->fn(j->size, j->args, scratch, g, g + step < end ? g + step : end);
}

/* One thread, with memory of its own: parts until there are no more. */
static void run_parts(int64_t lo, int64_t hi, void *st)
{
    Job *j = st;

    for (int64_t slot = lo, part; slot < hi; slot++) {
        char *scratch = j->scratch + slot * j->bytes;
        memset(scratch, 0, sizeof(int64_t));
        while ((part = atomic_fetch_add(&j->next, 1)) < j->parts)
            run_part(j, scratch, part);
    }
}

bool launched_groups(KernelFn *fn, int64_t scratch, const int64_t *size, const TileArg *args, int64_t groups, bool in_turn, double work)
{
    Job j = {.fn = fn, .size = size, .args = args, .bytes = (scratch + 63) / 64 * 64 + 64, .groups = groups};
    int64_t threads = pool_threads();
    size_t all;

    j.parts = in_turn || work * (double)groups < ALONE ? 1 : 4 * threads;
    j.parts = j.parts < j.groups ? j.parts : j.groups;
    threads = threads < j.parts ? threads : j.parts;
    if (!tsr_mul((size_t)j.bytes, (size_t)threads, &all) || !(j.scratch = tsr_try_alloc(all, 64)))
        return false;
    pool_for(threads, 1, run_parts, &j);
    tsr_free_aligned(j.scratch);
    return true;
}

int launched_run(void **code, const TileKernel *k, const int64_t *sizes, const TileArg *args, StrBuf *err)
{
    Launched *l = *code ? *code : (*code = tsr_calloc(sizeof *l));
    int64_t groups[3], all, *size;
    double work = (double)k->lanes * k->nnodes;
    bool ok;

    if (!compiler || l->refusal || !tile_groups(k, sizes, groups)) {
        stats.interpreted++;
        return 0;
    }
    all = groups[0] * groups[1] * groups[2];
    l->work += work * (double)all;
    if (!l->code && (!lazy || has_loop(&k->body) || l->work > PAYS))
        make(l, k);
    if (!l->code) {
        stats.interpreted++;
        return 0;
    }
    if (all <= 0)
        return 1;
    size = tsr_alloc(sizeof *size * (size_t)(k->size.n + 3));
    memcpy(size, sizes, sizeof *size * (size_t)k->size.n);
    memcpy(size + k->size.n, groups, sizeof groups);
    ok = launched_groups(l->by->entry(l->code), l->by->scratch(l->code, size), size, args, all, l->in_turn, work);
    tsr_free(size);
    stats.launches++;
    if (!ok)
        sb_puts(err, "there is no memory for what its groups share");
    return ok && !tsr_interrupted ? 1 : -1;
}

/* A rehearsal asks for the code and leaves it. */
static int pretend(const TileKernel *k)
{
    StrBuf why = {0};
    void *code = fused_far->compiler->compile(k, &why);

    if (code)
        fused_far->compiler->free(code);
    sb_done(&why);
    return 1;
}

int launched_far(void **code, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where)
{
    Launched *l = *code ? *code : (*code = tsr_calloc(sizeof *l));
    StrBuf why = {0};
    int done;

    if (far_pretends)
        return pretend(k);
    if (!l->far_asked && !(l->far = fused_far->compiler->compile(k, &why))) {
        l->far_refusal = tsr_alloc(why.n + 1);
        memcpy(l->far_refusal, sb_str(&why), why.n + 1);
    }
    l->far_asked = true;
    sb_done(&why);
    if (!l->far)
        count_on_host(k, l->far_refusal);
    done = l->far ? fused_far->launch(l->far, k, device, sizes, args, where) : 0;
    stats.launches += done > 0;
    return done;
}
