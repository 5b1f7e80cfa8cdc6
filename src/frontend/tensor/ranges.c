/*
 * ranges.c - see ranges.h.
 *
 * NVTX has no library to link: a program asks the tool's for its functions, as NVIDIA's header does (nvtxInitDefs.h, version 3).  The tool
 * exports InitializeInjectionNvtx2, which is called with a function that hands out tables; through the table of callbacks the tool asks
 * for the slots of a module's functions and puts its own there.  Two of the core module are called here.
 *
 * Ranks and coroutines run on stacks of their own, so the range that ends need not be the last that began: it is found by its key.
 */
#include "frontend/tensor/ranges.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

enum { RANGES_MAX = 1 << 19 };

typedef struct OpenRange { Range range; const void *key; } OpenRange;

struct Ranges {
    Vec(OpenRange) open;
    Vec(Range) kept;
    int (*event)(void);                 /* NULL: nothing is kept */
    bool told;                          /* NVTX listens */
};

/* ------------------------------------------------------------- NVTX */

enum { MODULE_CORE = 1, CORE_RANGE_PUSH_A = 9, CORE_RANGE_POP = 11, CORE_SLOTS = 16, TABLE_CALLBACKS = 1, TABLE_VERSION = 3, NVTX_VERSION = 3 };

typedef void (*Function)(void);

static Function core[CORE_SLOTS];
static Function *slot_of[CORE_SLOTS + 1];               /* as NVTX gives them: pointers to slots, and NULL */

static int module_table(int module, Function ***table, unsigned *size)
{
    if (module != MODULE_CORE)
        return 0;
    for (int i = 0; i < CORE_SLOTS; i++)
        slot_of[i] = i ? &core[i] : NULL;               /* slot 0 is none */
    *table = slot_of;
    *size = CORE_SLOTS;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const struct { size_t size; int (*module)(int, Function ***, unsigned *); } callbacks = {sizeof callbacks, module_table};
    static const struct { size_t size; uint32_t version, reserved; void (*set)(uint32_t); } version = {sizeof version, NVTX_VERSION, 0, NULL};

    return id == TABLE_CALLBACKS ? (const void *)&callbacks : id == TABLE_VERSION ? (const void *)&version : NULL;
}

/* Does a tool listen? Asked once in a process. */
static bool nvtx_there(void)
{
    static bool asked, there;
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = asked || !path ? NULL : dlopen(path, RTLD_LAZY);
    union { void *found; int (*call)(const void *(*)(uint32_t)); } init = {library ? dlsym(library, "InitializeInjectionNvtx2") : NULL};

    asked = true;
    if (init.found)
        there = init.call(export_table) == 1 && core[CORE_RANGE_PUSH_A] && core[CORE_RANGE_POP];
    return there;
}

/* ------------------------------------------------------------- from begin to end */

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct Ranges *ranges_of(Interp *I)
{
    if (!I->ranges)
        I->ranges = tsr_calloc(sizeof *I->ranges);
    return I->ranges;
}

void ranges_begin(Interp *I)
{
    if (nvtx_there())
        ranges_of(I)->told = true;
}

void ranges_keep(Interp *I, int (*event)(void))
{
    ranges_of(I)->event = event;
}

const Range *ranges_kept(const Interp *I, int *n)
{
    *n = I->ranges ? I->ranges->kept.n : 0;
    return I->ranges ? I->ranges->kept.at : NULL;
}

void ranges_forget(Interp *I)
{
    if (!I->ranges)
        return;
    vec_free(&I->ranges->kept);
    I->ranges->event = NULL;
    if (!I->ranges->told)
        ranges_end(I);
}

void ranges_end(Interp *I)
{
    if (!I->ranges)
        return;
    vec_free(&I->ranges->open);
    vec_free(&I->ranges->kept);
    tsr_free(I->ranges);
    I->ranges = NULL;
}

void range_push(Interp *I, Sym name, const void *key)
{
    struct Ranges *r = I->ranges;
    OpenRange o = {{now(), -1, name, r->open.n, r->event ? r->event() : 0}, key};
    union { Function any; int (*push)(const char *); } f = {core[CORE_RANGE_PUSH_A]};

    vec_push(&r->open, o);
    if (r->told)
        f.push(name ? name->text : "");
}

void range_pop(Interp *I, const void *key)
{
    struct Ranges *r = I->ranges;
    union { Function any; int (*pop)(void); } f = {core[CORE_RANGE_POP]};
    int i = r->open.n - 1;

    while (i >= 0 && r->open.at[i].key != key)
        i--;
    if (i < 0)
        return;                                         /* it began before anyone asked */
    Range done = r->open.at[i].range;
    for (r->open.n--; i < r->open.n; i++)
        r->open.at[i] = r->open.at[i + 1];
    if (r->told)
        f.pop();
    done.took = now() - done.began;
    if (r->event && r->event() > done.event && r->kept.n < RANGES_MAX)
        vec_push(&r->kept, done);
}
