/*
 * reserve.c - see reserve.h.
 *
 * A reserve is a file of pages in memory, mapped in segments: one at first, one more each time it grows.  Storage takes a run of free
 * pages that lie beside each other, the first that is long enough, and gives it back; runs that touch are one again.
 *
 *     segment   | a a a | . . | b | . . . | c c |        a, b, c: taken; two runs are free
 *
 * Where enough pages are free and no run is long enough, the pages of several runs are mapped behind one another at another address:
 * what is scattered in the file is one piece there.  So nothing that lives has to move, and no pointer to it changes.
 *
 * Storage of a GPU (far) is counted here and lies in the GPU's own pool, whose pages its driver maps in the same way.
 * Tensors of less than SMALL bytes are counted, too, and come from the heap: they would waste their pages.
 */
#include "runtime/reserve.h"

#include "base/alloc.h"
#include "base/vec.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, SMALL = 1024 };

typedef struct Run { uint32_t first, n; } Run;          /* pages of the file */
typedef struct Segment { char *base; Run pages; } Segment;
typedef struct Joined { char *base; uint32_t n; Vec(Run) runs; } Joined;

struct Reserve {
    StoragePool hook;                   /* the first member: storage knows the reserve by it */
    int64_t refs;                       /* of programs, and one for each storage */
    int file;
    double growth;
    ReserveFacts facts;
    uint32_t free_pages;
    Vec(Run) free;                      /* in the order of the file; none crosses segments */
    Vec(Segment) segment;
    Vec(Joined) joined;
};

static uint32_t pages_of(size_t n) { return (uint32_t)((n + PAGE - 1) / PAGE); }

/* ------------------------------------------------------------- free runs */

static const Segment *segment_of_page(const Reserve *r, uint32_t page)
{
    for (int i = 0; i < r->segment.n; i++)
        if (page - r->segment.at[i].pages.first < r->segment.at[i].pages.n)
            return &r->segment.at[i];
    return NULL;
}

static bool touch(const Reserve *r, Run a, Run b)
{
    return a.first + a.n == b.first && segment_of_page(r, a.first) == segment_of_page(r, b.first);
}

static void remove_run(Reserve *r, int i)
{
    r->free.n--;
    memmove(r->free.at + i, r->free.at + i + 1, sizeof *r->free.at * (size_t)(r->free.n - i));
}

static void free_run(Reserve *r, Run run)
{
    int lo = 0, hi = r->free.n;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (r->free.at[mid].first < run.first)
            lo = mid + 1;
        else
            hi = mid;
    }
    r->free_pages += run.n;
    if (lo < r->free.n && touch(r, run, r->free.at[lo])) {
        run.n += r->free.at[lo].n;
        remove_run(r, lo);
    }
    if (lo > 0 && touch(r, r->free.at[lo - 1], run)) {
        r->free.at[lo - 1].n += run.n;
        return;
    }
    vec_push(&r->free, run);
    memmove(r->free.at + lo + 1, r->free.at + lo, sizeof run * (size_t)(r->free.n - 1 - lo));
    r->free.at[lo] = run;
}

/* The first n pages of a free run. */
static Run cut(Reserve *r, int i, uint32_t n)
{
    Run run = {r->free.at[i].first, n};

    r->free.at[i].first += n;
    r->free.at[i].n -= n;
    if (!r->free.at[i].n)
        remove_run(r, i);
    r->free_pages -= n;
    return run;
}

/* ------------------------------------------------------------- growing */

/* n more pages behind those that there are. false: no memory. */
static bool extend(Reserve *r, uint32_t n)
{
    uint32_t first = r->segment.n ? vec_last(&r->segment).pages.first + vec_last(&r->segment).pages.n : 0;
    Segment s = {NULL, {first, n}};
    void *at;

    if (ftruncate(r->file, ((off_t)first + n) * PAGE))
        return false;
    at = mmap(NULL, (size_t)n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, r->file, (off_t)first * PAGE);
    if (at == MAP_FAILED)
        return false;
    s.base = at;
    vec_push(&r->segment, s);
    free_run(r, s.pages);
    return true;
}

/* Room for n more bytes, growing if it must. */
static bool have_room(Reserve *r, size_t n)
{
    size_t size = r->facts.capacity, wanted = r->facts.used + n;

    while (size < wanted || (n >= SMALL && r->free_pages + pages_of(size - r->facts.capacity) < pages_of(n))) {
        double next = (double)size * r->growth;
        if (r->growth <= 1.0 || next >= (double)PTRDIFF_MAX / 4)
            return false;
        size = (size_t)next > size ? (size_t)next : size + 1;
        r->facts.grows++;
    }
    if (size > r->facts.capacity && !extend(r, pages_of(size - r->facts.capacity)))
        return false;
    r->facts.capacity = size;
    return true;
}

/* ------------------------------------------------------------- taking and giving */

/* Pages of several free runs at one address; NULL: no memory. */
static void *join(Reserve *r, uint32_t n)
{
    char *base = mmap(NULL, (size_t)n * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Joined j = {.base = base, .n = n};
    uint32_t done = 0;

    if (base == MAP_FAILED)
        return NULL;
    while (done < n) {
        Run run = cut(r, 0, r->free.at[0].n < n - done ? r->free.at[0].n : n - done);
        vec_push(&j.runs, run);
        if (mmap(base + (size_t)done * PAGE, (size_t)run.n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r->file,
                 (off_t)run.first * PAGE) == MAP_FAILED)
            break;
        done += run.n;
    }
    if (done < n) {
        munmap(base, (size_t)n * PAGE);
        for (int i = 0; i < j.runs.n; i++)
            free_run(r, j.runs.at[i]);
        vec_free(&j.runs);
        return NULL;
    }
    vec_push(&r->joined, j);
    r->facts.defrags++;
    return base;
}

static void *take_pages(Reserve *r, uint32_t n)
{
    for (int i = 0; i < r->free.n; i++)
        if (r->free.at[i].n >= n) {
            Run run = cut(r, i, n);
            const Segment *s = segment_of_page(r, run.first);
            return s->base + (size_t)(run.first - s->pages.first) * PAGE;
        }
    return join(r, n);
}

static void *take(StoragePool *hook, size_t n, bool far)
{
    Reserve *r = (Reserve *)hook;
    void *at = r;

    if (n > PTRDIFF_MAX / 2 || !have_room(r, n))
        return NULL;
    if (!far)
        at = n < SMALL ? tsr_try_alloc(n ? n : 1, 64) : take_pages(r, pages_of(n));
    else if (n >= SMALL)
        r->free_pages -= pages_of(n);
    if (!at)
        return NULL;
    r->facts.used += n;
    r->facts.peak = r->facts.used > r->facts.peak ? r->facts.used : r->facts.peak;
    r->refs++;
    return at;
}

static void give_pages(Reserve *r, char *at, uint32_t n)
{
    for (int i = 0; i < r->joined.n; i++) {
        Joined j = r->joined.at[i];
        if (j.base != at)
            continue;
        munmap(at, (size_t)n * PAGE);
        for (int k = 0; k < j.runs.n; k++)
            free_run(r, j.runs.at[k]);
        vec_free(&j.runs);
        r->joined.at[i] = vec_pop(&r->joined);
        return;
    }
    for (int i = 0; i < r->segment.n; i++) {
        const Segment *s = &r->segment.at[i];
        if (at >= s->base && at < s->base + (size_t)s->pages.n * PAGE) {
            free_run(r, (Run){s->pages.first + (uint32_t)((size_t)(at - s->base) / PAGE), n});
            return;
        }
    }
}

static void give(StoragePool *hook, void *at, size_t n)
{
    Reserve *r = (Reserve *)hook;

    r->facts.used -= n;
    if (n < SMALL)
        tsr_free_aligned(at);
    else if (at)
        give_pages(r, at, pages_of(n));
    else
        r->free_pages += pages_of(n);
    reserve_unref(r);
}

/* ------------------------------------------------------------- from beginning to end */

Reserve *reserve_new(size_t size, double growth)
{
    Reserve *r = tsr_calloc(sizeof *r);

    *r = (Reserve){.hook = {take, give}, .refs = 1, .growth = growth, .facts = {.capacity = size}, .file = memfd_create("tessera-pool", MFD_CLOEXEC)};
    if (size <= PTRDIFF_MAX / 4 && r->file >= 0 && extend(r, pages_of(size)))
        return r;
    reserve_unref(r);
    return NULL;
}

void reserve_unref(Reserve *r)
{
    if (!r || --r->refs)
        return;
    for (int i = 0; i < r->segment.n; i++)
        munmap(r->segment.at[i].base, (size_t)r->segment.at[i].pages.n * PAGE);
    if (r->file >= 0)
        close(r->file);
    vec_free(&r->free);
    vec_free(&r->segment);
    vec_free(&r->joined);
    tsr_free(r);
}

StoragePool *reserve_hook(Reserve *r) { return r ? &r->hook : NULL; }
ReserveFacts reserve_facts(const Reserve *r) { return r->facts; }
