/*
 * Memory of objects, and the backup collector.
 *
 * Objects up to 512 bytes come from pages of 64 KiB, each for one size: taking
 * one is popping a list.  A page is found from an object by its address, and
 * all objects by walking the pages, so that nothing links them.
 *
 * Counting frees nearly everything at once.  Cycles are found as CPython does
 * it: subtract from each count the references that come from other tracked
 * objects; what is left above zero is held from outside (stacks, C), and
 * what those reach is alive.  The rest is cleared.  No roots are needed, so a
 * collection may happen at any call or loop step.
 */
#include "frontend/eval/eval.h"

#include <string.h>

enum { PAGE = 64 << 10, STEP = 16, CLASSES = 32, SMALL = STEP * CLASSES, FIRST_COLLECT = 200000 };

typedef struct Page {
    struct Page *next;
    uint32_t size, n;           /* bytes a cell; cells */
    uint32_t *count;            /* during a collection, by cell */
} Page;

/* What stands before an object beyond SMALL: its place in heap.big. */
typedef struct Big { _Alignas(16) size_t at; } Big;

static Big *big_of(Obj *o) { return (Big *)(void *)o - 1; }

typedef struct FreeCell { Obj obj; struct FreeCell *next; } FreeCell;     /* obj.kind is V_ERR */

static struct {
    FreeCell *free[CLASSES + 1];
    Page *pages;
    Vec(Obj *) big;             /* tracked objects beyond SMALL, in no order */
    int64_t tracked, limit;     /* tracked objects alive; collect beyond */
    bool collecting;
} heap = {.limit = FIRST_COLLECT};

int heap_full;

static const uint8_t is_tracked[V_COUNT] = {
    [V_LIST] = GC_TRACKED, [V_TUPLE] = GC_TRACKED, [V_DICT] = GC_TRACKED, [V_SET] = GC_TRACKED, [V_FUNC] = GC_TRACKED,
    [V_BOUND] = GC_TRACKED, [V_CLASS] = GC_TRACKED, [V_INSTANCE] = GC_TRACKED, [V_CELL] = GC_TRACKED,
    [V_PROPERTY] = GC_TRACKED, [V_STATICMETHOD] = GC_TRACKED, [V_CLASSMETHOD] = GC_TRACKED, [V_NATIVEOBJ] = GC_TRACKED,
    [V_ITER] = GC_TRACKED, [V_MODULE] = GC_TRACKED,
};

static void page_new(size_t cls)
{
    Page *p = tsr_try_alloc(PAGE, PAGE);
    size_t size = cls * STEP, head = (sizeof *p + STEP - 1) / STEP * STEP;

    if (!p) {
        tsr_free(tsr_alloc(PAGE * 16));     /* takes the way of small allocations that fail */
        return;
    }
    memset(p, 0, PAGE);
    p->size = (uint32_t)size;
    p->n = (uint32_t)((PAGE - head) / size);
    p->next = heap.pages;
    heap.pages = p;
    for (uint32_t i = p->n; i-- > 0;) {
        FreeCell *c = (FreeCell *)((char *)p + head + i * size);
        c->next = heap.free[cls];
        heap.free[cls] = c;
    }
}

static __attribute__((noinline)) Obj *big_new(size_t size, bool tracked)
{
    Obj *o = (Obj *)(void *)((Big *)tsr_calloc(sizeof(Big) + size) + 1);

    o->gc = GC_BIG;
    if (tracked) {
        big_of(o)->at = (size_t)heap.big.n;
        vec_push(&heap.big, o);
    }
    return o;
}

typedef struct { uint64_t word[STEP / 8]; } Unit16;

/* Objects are small: a loop of stores beats a call of memset. */
static inline void clear_units(void *p, size_t n)
{
    Unit16 *u = p;

    for (size_t i = 0; i < n; i++) {
        u[i] = (Unit16){{0}};
        __asm__("" : "+r"(u));
    }
}

static inline Obj *take(Tag kind, size_t size, size_t clear)
{
    size_t cls = (size + STEP - 1) / STEP;
    uint8_t tracked = is_tracked[kind];
    Obj *o;

    if (__builtin_expect(size > SMALL, 0)) {
        o = big_new(size, tracked);
    } else {
        FreeCell *c = heap.free[cls];
        while (__builtin_expect(!c, 0)) {
            page_new(cls);
            c = heap.free[cls];
        }
        heap.free[cls] = c->next;
        o = &c->obj;
        clear_units(o, (clear + STEP - 1) / STEP);
    }
    o->refs = 1;
    o->kind = (uint8_t)kind;
    o->gc |= tracked;
    heap.tracked += tracked;
    heap_full |= heap.tracked > heap.limit;
    return o;
}

void *obj_new(Tag kind, size_t size) { return take(kind, size, size); }
void *obj_new_text(Tag kind, size_t size, size_t head) { return take(kind, size, head); }

static void big_delete(Obj *o)
{
    if (o->gc & GC_TRACKED) {
        Obj *last = vec_pop(&heap.big);
        heap.big.at[big_of(o)->at] = last;
        big_of(last)->at = big_of(o)->at;
    }
    tsr_free(big_of(o));
}

void obj_delete(Obj *o, size_t size)
{
    size_t cls = (size + STEP - 1) / STEP;
    FreeCell *c = (FreeCell *)o;

    heap.tracked -= o->gc & GC_TRACKED;
    if (o->gc & GC_BIG) {
        big_delete(o);
        return;
    }
    o->kind = V_ERR;
    o->gc = 0;
    c->next = heap.free[cls];
    heap.free[cls] = c;
}

Obj *obj_resize(Obj *o, size_t size)
{
    if (!(o->gc & GC_BIG) || (o->gc & GC_TRACKED))
        return NULL;
    return (Obj *)(void *)((Big *)tsr_realloc(big_of(o), sizeof(Big) + size) + 1);
}

bool heap_wants_collect(void)
{
    return heap.tracked > heap.limit && !heap.collecting;
}

/* ------------------------------------------------------------- the collector */

static const uint32_t ALIVE = UINT32_MAX;

typedef Vec(Obj *) ObjVec;
static uint32_t *big_count;

static uint32_t *count_of(Obj *o)
{
    if (o->gc & GC_BIG)
        return &big_count[big_of(o)->at];
    Page *p = (Page *)((uintptr_t)o & ~(uintptr_t)(PAGE - 1));
    size_t head = (sizeof *p + STEP - 1) / STEP * STEP;
    return &p->count[((size_t)((char *)o - (char *)p) - head) / p->size];
}

/* Every tracked object. fn must neither free nor make any. */
static void each_tracked(void (*fn)(Obj *o, void *st), void *st)
{
    size_t head = (sizeof(Page) + STEP - 1) / STEP * STEP;

    for (Page *p = heap.pages; p; p = p->next)
        for (uint32_t i = 0; i < p->n; i++) {
            Obj *o = (Obj *)((char *)p + head + (size_t)i * p->size);
            if (o->kind && (o->gc & GC_TRACKED))
                fn(o, st);
        }
    for (int i = 0; i < heap.big.n; i++)
        fn(heap.big.at[i], st);
}

static void take_count(Obj *o, void *st) { (void)st; *count_of(o) = o->refs; }

static bool tracked_child(Value *v) { return v->tag >= V_OBJ && v->o && (v->o->gc & GC_TRACKED); }

static void subtract(Value *v, void *st)
{
    (void)st;
    if (tracked_child(v))
        --*count_of(v->o);
}

static void subtract_children(Obj *o, void *st) { obj_visit(o, subtract, st); }

static void push_held(Obj *o, void *st)
{
    uint32_t *c = count_of(o);

    if (*c && *c != ALIVE) {
        *c = ALIVE;
        vec_push((ObjVec *)st, o);
    }
}

static void push_child(Value *v, void *st)
{
    if (tracked_child(v) && *count_of(v->o) != ALIVE) {
        *count_of(v->o) = ALIVE;
        vec_push((ObjVec *)st, v->o);
    }
}

static void push_dead(Obj *o, void *st)
{
    if (*count_of(o) != ALIVE) {
        o->refs++;              /* hold all of them while links are cut */
        vec_push((ObjVec *)st, o);
    }
}

size_t heap_collect(void)
{
    ObjVec work = {0}, dead = {0};
    size_t n;

    if (heap.collecting)
        return 0;
    heap.collecting = true;
    heap_full = 0;
    for (Page *p = heap.pages; p; p = p->next)
        p->count = tsr_calloc(p->n * sizeof *p->count);
    big_count = tsr_calloc(((size_t)heap.big.n + 1) * sizeof *big_count);
    each_tracked(take_count, NULL);
    each_tracked(subtract_children, NULL);
    each_tracked(push_held, &work);
    while (work.n)
        obj_visit(vec_pop(&work), push_child, &work);
    each_tracked(push_dead, &dead);
    for (Page *p = heap.pages; p; p = p->next) {
        tsr_free(p->count);
        p->count = NULL;
    }
    tsr_free(big_count);
    for (int i = 0; i < dead.n; i++)
        obj_clear(dead.at[i]);
    for (int i = 0; i < dead.n; i++)
        obj_unref(dead.at[i]);
    n = (size_t)dead.n;
    vec_free(&work);
    vec_free(&dead);
    heap.limit = heap.tracked * 2 > FIRST_COLLECT ? heap.tracked * 2 : FIRST_COLLECT;
    heap.collecting = false;
    return n;
}

/* ------------------------------------------------------------- the end of an Interp */

typedef struct Owned { const Interp *I; ObjVec funcs; } Owned;

static void push_owned(Obj *o, void *st)
{
    Owned *w = st;

    if (o->kind == V_FUNC && ((FuncObj *)o)->module && ((FuncObj *)o)->module->I == w->I) {
        o->refs++;
        vec_push(&w->funcs, o);
    }
}

int heap_abandon(const Interp *I)
{
    Owned w = {.I = I};
    int n;

    each_tracked(push_owned, &w);
    n = w.funcs.n;
    for (int i = 0; i < n; i++)
        func_empty((FuncObj *)w.funcs.at[i]);           /* generators that end by this still have their code */
    for (int i = 0; i < n; i++)
        func_abandon((FuncObj *)w.funcs.at[i]);
    for (int i = 0; i < n; i++)
        obj_unref(w.funcs.at[i]);
    vec_free(&w.funcs);
    return n;
}

int64_t heap_tracked(void)
{
    return heap.tracked;
}

static void free_cells(Page *p, FreeCell **list)
{
    size_t head = (sizeof *p + STEP - 1) / STEP * STEP;

    for (uint32_t i = p->n; i-- > 0;) {
        FreeCell *c = (FreeCell *)((char *)p + head + (size_t)i * p->size);
        if (!c->obj.kind) {
            c->next = *list;
            *list = c;
        }
    }
}

static bool is_empty(const Page *p)
{
    size_t head = (sizeof *p + STEP - 1) / STEP * STEP;

    for (uint32_t i = 0; i < p->n; i++)
        if (((const Obj *)((const char *)p + head + (size_t)i * p->size))->kind)
            return false;
    return true;
}

void heap_trim(void)
{
    Page **at = &heap.pages;

    memset(heap.free, 0, sizeof heap.free);
    while (*at) {
        Page *p = *at;
        if (is_empty(p)) {
            *at = p->next;
            tsr_free_aligned(p);
        } else {
            free_cells(p, &heap.free[p->size / STEP]);
            at = &p->next;
        }
    }
    heap.limit = heap.tracked * 2 > FIRST_COLLECT ? heap.tracked * 2 : FIRST_COLLECT;
}
