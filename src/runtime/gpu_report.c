/*
 * What kernels find wrong with numbers: gpu_report.h.
 *
 * The words are in pinned memory, which a GPU writes and the host reads as it is.  A recording's launches hold the address of theirs, so a word is
 * its question's to the end.
 */
#include "runtime/gpu_report.h"

#include "runtime/gpu_impl.h"

enum { WORDS = 1 << 14 };

/* false: there is no such memory. */
static bool make(GpuState *s)
{
    void *at = NULL;

    if (s->report)
        return true;
    if (cu.MemHostAlloc(&at, WORDS * sizeof *s->report, CUDA_HOST_PORTABLE) != CUDA_SUCCESS)
        return false;
    s->report = at;
    for (int i = 0; i < WORDS; i++)
        s->report[i] = GPU_FINE;
    vec_push(&s->asked, (GpuAsked){.size = -1});
    return true;
}

static int64_t *word_of(GpuState *s, GpuAsked of)
{
    for (int i = 1; i < s->asked.n; i++) {
        const GpuAsked *q = &s->asked.at[i];
        if (q->where.lo == of.where.lo && q->axis == of.axis && q->size == of.size)
            return &s->report[i];
    }
    if (s->asked.n == WORDS)
        return NULL;
    vec_push(&s->asked, of);
    return &s->report[s->asked.n - 1];
}

int64_t *gpu_report(GpuDevice *g, GpuAsked of)
{
    int64_t *word = NULL;

    gpu_lock();
    if (gpu_enter(g) && make(g->state))
        word = word_of(g->state, of);
    gpu_unlock();
    return word;
}

int64_t *gpu_report_now(GpuDevice *g)
{
    int64_t *word = NULL;

    gpu_lock();
    if (gpu_enter(g) && make(g->state))
        word = g->state->report;
    gpu_unlock();
    return word;
}

bool gpu_reports(const GpuDevice *g, const void *at)
{
    const int64_t *first = g->state ? g->state->report : NULL;

    return first && (const int64_t *)at >= first && (const int64_t *)at < first + WORDS;
}

static void tell(const GpuAsked *q, int64_t said)
{
    long long number = (long long)(said & 0xffffffff) - 0x80000000LL;
    const char *beyond = number == INT32_MAX || number == INT32_MIN ? " or beyond" : "";
    Place p = source_place(q->where.lo);

    if (p.src)
        fault(FAULT_INDEX, "index %lld%s is out of range for axis %d of size %lld (%s:%u, on a GPU)", number, beyond, q->axis, (long long)q->size,
              p.src->path, p.line);
    else
        fault(FAULT_INDEX, "index %lld%s is out of range for axis %d of size %lld (on a GPU)", number, beyond, q->axis, (long long)q->size);
}

void gpu_reports_read(GpuDevice *g)
{
    GpuState *s = g->state;

    for (int i = 1; i < s->asked.n; i++)
        if (s->report[i] != GPU_FINE) {
            tell(&s->asked.at[i], s->report[i]);
            s->report[i] = GPU_FINE;
        }
}
