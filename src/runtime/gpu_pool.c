/*
 * Memory of a GPU, in blocks.
 *
 * The driver's own allocation takes tens of microseconds and waits for the device when memory goes back; so segments of the
 * driver's are cut into blocks, the smallest free one that fits, and free neighbours are joined.  Small requests share segments
 * of 2 MB, those of up to 10 MB segments of 20, so that one size of a program does not hold the memory of all others.
 *
 * All that touches blocks is on the main stream, in the order of the program: a block that is given back may be taken at once,
 * because what used it comes before what will.
 *
 * Before the driver is asked for a large segment, blocks that stand in the way are moved: where little of a long enough piece of a segment is
 * taken, by elements that no running operation uses, these are copied elsewhere.  Parameters and the state of an optimiser are made while most of
 * the memory is free, and come to lie anywhere in what the next step needs in one piece.
 */
#include "runtime/gpu_impl.h"

#include "ir/core/pass.h"
#include "runtime/storage.h"

enum {
    GRAIN = 512,
    SMALL = 1 << 20, SMALL_SEGMENT = 2 << 20,           /* requests of up to SMALL bytes share segments of that */
    MIDDLE = 10 << 20, MIDDLE_SEGMENT = 20 << 20,
    MUCH = 8,                                            /* a part of the memory for which free segments go back to the driver first */
    STEP = 2 << 20,                                     /* the driver's pages: larger segments are multiples */
    PARTS = 64,                                          /* into which a segment is cut, at most */
    IN_THE_WAY = 4,                                     /* so much of a request is moved at most: a quarter */
};

/* Four classes to a power of two. */
static int class_of(size_t n)
{
    size_t units = n / GRAIN;
    int p = 63 - __builtin_clzll(units), c = p < 2 ? (int)units : 4 * (p - 1) + (int)(units >> (p - 2) & 3);

    return c < POOL_CLASSES ? c : POOL_CLASSES - 1;
}

static void list_add(GpuPool *p, GpuBlock *b)
{
    GpuBlock **head = &p->free[class_of(b->size)];

    b->last = NULL;
    b->next = *head;
    if (*head)
        (*head)->last = b;
    *head = b;
    p->sum.kept += b->size;
}

static void list_remove(GpuPool *p, GpuBlock *b)
{
    if (b->last)
        b->last->next = b->next;
    else
        p->free[class_of(b->size)] = b->next;
    if (b->next)
        b->next->last = b->last;
    p->sum.kept -= b->size;
}

/* Does a request of this size go into segments of another kind than the block's? Small ones must not cut large segments up. */
static bool wrong_kind(const GpuBlock *b, size_t n) { return b->segment > SMALL_SEGMENT && n < b->segment / PARTS; }

/* The smallest that fits; any: of any kind. */
static GpuBlock *find(const GpuPool *p, size_t n, bool any)
{
    for (int c = class_of(n); c < POOL_CLASSES; c++) {
        GpuBlock *best = NULL;
        for (GpuBlock *b = p->free[c]; b; b = b->next)
            if (b->size >= n && (!best || b->size < best->size) && (any || !wrong_kind(b, n)))
                best = b;
        if (best)
            return best;
    }
    return NULL;
}

/* The part of the block behind its first n bytes becomes a free one. */
static void cut(GpuPool *p, GpuBlock *b, size_t n)
{
    GpuBlock *rest = tsr_calloc(sizeof *rest);

    *rest = (GpuBlock){.at = b->at + n, .size = b->size - n, .segment = b->segment, .before = b, .after = b->after};
    if (b->after)
        b->after->before = rest;
    b->after = rest;
    b->size = n;
    list_add(p, rest);
}

/* b and what is behind it become one; both are in no list. */
static GpuBlock *joined(GpuBlock *b)
{
    GpuBlock *gone = b->after;

    b->size += gone->size;
    b->after = gone->after;
    if (b->after)
        b->after->before = b;
    tsr_free(gone);
    return b;
}

static size_t segment_for(size_t n)
{
    return n <= SMALL ? SMALL_SEGMENT : n <= MIDDLE ? MIDDLE_SEGMENT : (n + STEP - 1) / STEP * STEP;
}

/* A new segment, as one block that is free; NULL: the driver has none, which is in *r. */
static GpuBlock *segment(GpuPool *p, size_t n, CUresult *r)
{
    CUdeviceptr at = 0;
    GpuBlock *b;

    p->sum.calls++;
    if ((*r = cu.MemAlloc(&at, n)) != CUDA_SUCCESS)
        return NULL;
    b = tsr_calloc(sizeof *b);
    *b = (GpuBlock){.at = at, .size = n, .segment = n};
    p->sum.segments++;
    list_add(p, b);
    return b;
}

void gpu_trim(GpuDevice *g)
{
    GpuPool *p = &g->state->pool;

    gpu_lock();
    if (g->state->capturing || !gpu_enter(g) || cu.CtxSynchronize() != CUDA_SUCCESS) {          /* what runs may use what is free by now */
        gpu_unlock();
        return;
    }
    for (int c = 0; c < POOL_CLASSES; c++)
        for (GpuBlock *b = p->free[c], *next; b; b = next) {
            next = b->next;
            if (b->before || b->after)
                continue;
            list_remove(p, b);
            cu.MemFree(b->at);
            p->sum.segments--;
            tsr_free(b);
        }
    gpu_unlock();
}

/* ---- what holds the memory ---- */

typedef struct Held { size_t size; int64_t n; } Held;
typedef Vec(Held) HeldList;

static void count(HeldList *l, size_t size)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i].size == size) {
            l->at[i].n++;
            return;
        }
    vec_push(l, ((Held){size, 1}));
}

static void put_size(StrBuf *out, size_t n)
{
    static const char unit[] = "KMGT";
    double v = (double)n / 1024;
    int u = 0;

    if (n < 1024) {
        sb_printf(out, "%zu bytes", n);
        return;
    }
    for (; v >= 1024 && u < 3; u++)
        v /= 1024;
    sb_printf(out, "%.*f %cB", v < 10 ? 1 : 0, v, unit[u]);
}

/* "8.0 GB (3 times), 2.0 GB, ..." of the blocks that are taken, those first that hold the most. */
static void put_holders(const GpuPool *p, StrBuf *out)
{
    enum { SHOWN = 4 };
    HeldList l = {0};

    for (uint32_t i = 0; i < p->taken.cap; i++)
        if (p->taken.key[i] && p->taken.val[i])
            count(&l, ((const GpuBlock *)p->taken.val[i])->size);
    for (int k = 0; k < SHOWN && k < l.n; k++) {
        int most = k;
        for (int i = k; i < l.n; i++)
            if (l.at[i].size * (size_t)l.at[i].n > l.at[most].size * (size_t)l.at[most].n)
                most = i;
        Held h = l.at[most];
        l.at[most] = l.at[k];
        l.at[k] = h;
        sb_puts(out, k ? ", " : ": ");
        put_size(out, h.size);
        if (h.n > 1)
            sb_printf(out, " (%lld times)", (long long)h.n);
    }
    if (l.n > SHOWN)
        sb_puts(out, ", ...");
    vec_free(&l);
}

static void say_full(GpuDevice *g, size_t bytes)
{
    const GpuPool *p = &g->state->pool;
    size_t available = 0, total = 0;
    StrBuf out = {0};

    cu.MemGetInfo(&available, &total);
    sb_printf(&out, "E0744: gpu:%d has no ", g->index);
    put_size(&out, bytes);
    sb_puts(&out, " left: tensors of this program hold ");
    put_size(&out, p->sum.used);
    if (p->sum.blocks) {
        sb_printf(&out, " in %lld block%s", (long long)p->sum.blocks, p->sum.blocks > 1 ? "s" : "");
        put_holders(p, &out);
    }
    sb_puts(&out, "; between them ");
    put_size(&out, p->sum.kept);
    sb_puts(&out, " are free, the driver has ");
    put_size(&out, available);
    sb_puts(&out, " of ");
    put_size(&out, total);
    fault(FAULT_MEMORY, "%s", sb_str(&out));
    sb_done(&out);
}

/* ---- making room ---- */

/*
 * The elements that were used longest ago, in no op that still runs, go to the host; what uses them brings them back. The first half of a training
 * step makes values that the second half uses in the other order, so what goes is what is needed last.
 */
static bool offload(GpuDevice *g)
{
    GpuPool *p = &g->state->pool;
    struct Storage *oldest = NULL;

    if (g->state->capturing || !pass_runs("offload"))
        return false;
    for (uint32_t i = 0; i < p->taken.cap; i++) {
        const GpuBlock *b = p->taken.key[i] ? (const GpuBlock *)p->taken.val[i] : NULL;
        if (b && b->owner && b->owner->used < storage_op && (!oldest || b->owner->used < oldest->used))
            oldest = b->owner;
    }
    if (!oldest)
        return false;
    p->sum.moved++;
    storage_off_device(oldest);
    return true;
}

void gpu_own(GpuDevice *g, CUdeviceptr at, struct Storage *s)
{
    uintptr_t v = 0;

    if (map_find(&g->state->pool.taken, at, &v) && v)
        ((GpuBlock *)v)->owner = s;
}

/* ---- blocks that stand in the way ---- */

/* Neighbours that have room for a request, and how much of it is taken. */
typedef struct Piece { GpuBlock *first, *last; size_t taken; } Piece;

static bool may_move(const GpuBlock *b) { return !b->taken || (b->owner && b->owner->used < storage_op); }

/* The piece of the segment of which the least is taken, if that is less than *least. */
static void look_through(GpuBlock *head, size_t n, Piece *least)
{
    Piece p = {head, head, 0};
    size_t size = 0;

    for (GpuBlock *b = head; b; b = b->after) {
        if (!may_move(b)) {
            p = (Piece){b->after, b->after, 0};
            size = 0;
            continue;
        }
        p.last = b;
        size += b->size;
        p.taken += b->taken ? b->size : 0;
        for (; size - p.first->size >= n; p.first = p.first->after) {
            size -= p.first->size;
            p.taken -= p.first->taken ? p.first->size : 0;
        }
        if (size >= n && p.taken < least->taken)
            *least = p;
    }
}

/* Of all segments with something free that would serve the request. */
static Piece find_piece(const GpuPool *p, size_t n)
{
    Piece least = {NULL, NULL, n / IN_THE_WAY + 1};

    for (int c = 0; c < POOL_CLASSES; c++)
        for (GpuBlock *b = p->free[c]; b; b = b->next) {
            GpuBlock *head = b;
            bool first = !wrong_kind(b, n);
            while (first && head->before) {
                head = head->before;
                first = head->taken;
            }
            if (first)
                look_through(head, n, &least);
        }
    return least;
}

static CUdeviceptr take(GpuPool *p, GpuBlock *b, size_t n);

/* Its elements get another place, and it is free, in no list. Nobody goes to the host for that: it might be these, or others in the way. */
static bool move_away(GpuDevice *g, GpuBlock *b)
{
    GpuPool *p = &g->state->pool;
    CUresult r;
    GpuBlock *found = find(p, b->size, false), *place = found ? found : segment(p, segment_for(b->size), &r);
    CUdeviceptr to = place ? take(p, place, b->size) : 0;

    if (!to || !storage_shift(b->owner, g, to)) {
        gpu_free(g, to);
        return false;
    }
    if (gpu_notes)
        gpu_notes->moved(g, b->at, to);
    map_set(&p->taken, b->at, 0);
    p->sum.blocks--;
    p->sum.used -= b->size;
    p->sum.shifted++;
    b->owner = NULL;
    b->taken = false;
    b->aside = true;
    return true;
}

static void give(GpuPool *p, GpuBlock *b);

/* A free block for the request where little stands in the way; NULL: there is none. */
static GpuBlock *clear(GpuDevice *g, size_t n)
{
    GpuPool *p = &g->state->pool;
    Piece piece = n > MIDDLE && !g->state->capturing ? find_piece(p, n) : (Piece){0};
    bool ok = piece.first != NULL;

    if (!ok)
        return NULL;
    for (GpuBlock *b = piece.first; ; b = b->after) {
        if (!b->taken) {
            list_remove(p, b);
            b->aside = true;
        }
        if (b == piece.last)
            break;
    }
    for (GpuBlock *b = piece.first; ; b = b->after) {
        ok = ok && (!b->taken || move_away(g, b));
        if (b == piece.last)
            break;
    }
    for (GpuBlock *b = piece.first, *next; b; b = next) {
        next = b == piece.last ? NULL : b->after;
        if (!b->taken)
            give(p, b);
    }
    return ok ? find(p, n, false) : NULL;
}

/* ---- requests ---- */

static GpuBlock *obtain(GpuDevice *g, size_t n, size_t asked)
{
    GpuPool *p = &g->state->pool;
    GpuBlock *b = find(p, n, false);
    CUresult r;

    if (b || (b = clear(g, n)))
        return b;
    if (n > g->memory / MUCH)
        gpu_trim(g);
    if ((b = segment(p, segment_for(n), &r)))
        return b;
    while (r == CUDA_ERROR_OUT_OF_MEMORY) {
        gpu_trim(g);
        if ((b = segment(p, segment_for(n), &r)) || (b = segment(p, (n + STEP - 1) / STEP * STEP, &r)))
            return b;
        if ((b = find(p, n, true)))
            return b;
        if (!offload(g))
            break;
    }
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        say_full(g, asked);
    else
        gpu_check(g, r, "cuMemAlloc");
    return NULL;
}

/* Of the free block, as much as was asked for. */
static CUdeviceptr take(GpuPool *p, GpuBlock *b, size_t n)
{
    list_remove(p, b);
    if (b->size - n >= (n <= SMALL ? GRAIN : SMALL))
        cut(p, b, n);
    b->taken = true;
    map_set(&p->taken, b->at, (uintptr_t)b);
    p->sum.blocks++;
    p->sum.used += b->size;
    p->sum.peak = p->sum.used > p->sum.peak ? p->sum.used : p->sum.peak;
    return b->at;
}

/* The block, which is in no list, is free; those beside it join it. */
static void give(GpuPool *p, GpuBlock *b)
{
    b->aside = false;
    if (b->after && !b->after->taken && !b->after->aside) {
        list_remove(p, b->after);
        b = joined(b);
    }
    if (b->before && !b->before->taken && !b->before->aside) {
        list_remove(p, b->before);
        b = joined(b->before);
    }
    list_add(p, b);
}

CUdeviceptr gpu_alloc(GpuDevice *g, size_t bytes)
{
    size_t n = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    GpuPool *p = &g->state->pool;
    GpuBlock *b;
    CUdeviceptr at = 0;

    n = n ? n : GRAIN;
    gpu_lock();
    if (bytes > PTRDIFF_MAX / 2)
        say_full(g, bytes);
    else if (gpu_enter_beside(g) && (b = obtain(g, n, bytes)))
        at = take(p, b, n);
    gpu_unlock();
    return at;
}

void gpu_free(GpuDevice *g, CUdeviceptr at)
{
    GpuPool *p = &g->state->pool;
    uintptr_t v = 0;
    GpuBlock *b;

    if (!at)
        return;
    gpu_lock();
    if (gpu_notes)
        gpu_notes->left(g, at);
    if (g->state->capturing) {
        gpu_own(g, at, NULL);
        vec_push(&g->state->held, at);
    } else if (map_find(&p->taken, at, &v) && v) {
        b = (GpuBlock *)v;
        b->owner = NULL;
        map_set(&p->taken, at, 0);
        p->sum.blocks--;
        p->sum.used -= b->size;
        b->taken = false;
        give(p, b);
    } else {
        tsr_bug("memory of gpu:%d given back that is not taken", g->index);
    }
    gpu_unlock();
}

GpuMemory gpu_memory(const GpuDevice *g)
{
    GpuMemory m = {0};

    gpu_lock();
    if (g->state)
        m = g->state->pool.sum;
    gpu_unlock();
    return m;
}

bool gpu_available(GpuDevice *g, size_t *bytes)
{
    size_t total;
    bool ok;

    gpu_lock();
    ok = gpu_enter(g) && gpu_check(g, cu.MemGetInfo(bytes, &total), "cuMemGetInfo");
    gpu_unlock();
    return ok;
}
