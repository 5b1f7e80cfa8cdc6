/*
 * tessera.h's functions: one lock around everything, errors in words for the
 * thread that made them.
 *
 * The runtime below has one owner at a time, which is whoever holds the lock.
 * Small memory that runs out unwinds to the call (base/alloc.h); what was in the
 * making then may be half made, so the library takes no more calls.
 */
#define TSR_API __attribute__((visibility("default")))
#include "bundle/bundle.h"

#include "base/alloc.h"
#include "runtime/kernels.h"
#include "runtime/storage.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The header's numbers are those of the tables. */
#define FAULT(name, number, text) _Static_assert(TSR_##name == number, "tessera.h");
#include "bundle/errors.def"
#define SAME(upper, own) _Static_assert((int)TSR_##upper == (int)DT_##own, "tessera.h");
SAME(BOOL, bool) SAME(INT4, int4) SAME(INT8, int8) SAME(INT16, int16) SAME(INT32, int32) SAME(INT64, int64)
SAME(UINT4, uint4) SAME(UINT8, uint8) SAME(UINT16, uint16) SAME(UINT32, uint32) SAME(UINT64, uint64) SAME(FP4, fp4) SAME(FP6, fp6)
SAME(FP8_E4M3, fp8_e4m3) SAME(FP8_E5M2, fp8_e5m2) SAME(F16, f16) SAME(BF16, bf16) SAME(TF32, tf32) SAME(F32, f32) SAME(F64, f64)
SAME(C64, c64) SAME(C128, c128) SAME(C128 + 1, COUNT)
_Static_assert((int)TSR_AXES == (int)RANK_MAX, "tessera.h");

enum { MESSAGE_MAX = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool broken;
static _Thread_local int last;
static _Thread_local char message[MESSAGE_MAX];

/* ---- errors ---- */

static const char *meaning(int status)
{
    switch (status) {
#define FAULT(name, number, text) case number: return text;
#include "bundle/errors.def"
    default: return "";
    }
}

static int report(int status, StrBuf *err)
{
    last = status;
    if (status)
        snprintf(message, sizeof message, "B%02d: %s", status, err && err->n ? sb_str(err) : meaning(status));
    else
        *message = 0;
    return status;
}

TSR_API int tsr_code(void) { return last; }
TSR_API const char *tsr_message(void) { return message; }
TSR_API int tsr_interface(void) { return TSR_INTERFACE; }

/* ---- the lock ---- */

static void take(void) { pthread_mutex_lock(&lock); }
static void leave(void) { pthread_mutex_unlock(&lock); }
static void watch_forks(void) { pthread_atfork(take, leave, leave); }

typedef int Work(void *st, StrBuf *err);

/* Do the work with the runtime to ourselves. */
static int alone(Work *work, void *st)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static StrBuf err;                  /* under the lock, and where memory that runs out finds it */
    static jmp_buf recovery;
    int status;

    pthread_once(&once, watch_forks);
    take();
    if (broken) {
        status = TSR_BROKEN;
    } else if (setjmp(recovery)) {
        broken = true;
        status = TSR_MEMORY;
    } else {
        tsr_oom_set(&recovery);
        status = work(st, &err);
    }
    tsr_oom_set(NULL);
    report(status, broken ? NULL : &err);
    if (err.n && !broken)
        sb_clear(&err);
    leave();
    return status;
}

/* ---- bundles ---- */

typedef struct Opening { const char *folder; struct tsr_bundle *b; const char *device; } Opening;

/* The folder that holds this library, which *path is to have room for. */
static bool own_folder(char *path, size_t room)
{
    static const char here;
    Dl_info info;
    const char *end;

    if (!dladdr(&here, &info) || !info.dli_fname)
        return false;
    end = strrchr(info.dli_fname, '/');
    return snprintf(path, room, "%.*s", end ? (int)(end - info.dli_fname) : 1, end ? info.dli_fname : ".") < (int)room;
}

static int open_bundle(void *st, StrBuf *err)
{
    Opening *o = st;
    BundleFiles files = bundle_folder(o->folder);
    int bad = bundle_read(&files, &o->b, err);

    if (bad)
        return bad;
    o->b->T.host_print = bundle_print;
    o->b->T.host_launch = bundle_launch;
    o->b->folder = strcpy(tsr_alloc(strlen(o->folder) + 1), o->folder);
    return TSR_OK;
}

TSR_API int tsr_open(const char *folder, tsr_bundle **out)
{
    char own[4096];
    Opening o = {folder, NULL};
    int bad;

    if (!out)
        return report(TSR_ARGUMENT, NULL);
    *out = NULL;
    if (!folder && !own_folder(own, sizeof own))
        return report(TSR_FILE, NULL);
    o.folder = folder ? folder : own;
    if (!(bad = alone(open_bundle, &o)))
        *out = o.b;
    return bad;
}

static int close_bundle(void *st, StrBuf *err)
{
    bundle_free(st);
    return TSR_OK;
}

TSR_API void tsr_close(tsr_bundle *b)
{
    if (b)
        alone(close_bundle, b);
}

static int use_device(void *st, StrBuf *err)
{
    Opening *o = st;
    BundleFiles files = bundle_folder(o->b->folder);

    return bundle_use_device(o->b, &files, o->device, err);
}

TSR_API int tsr_use_device(tsr_bundle *b, const char *name)
{
    Opening o = {.b = b, .device = name};

    return b && name ? alone(use_device, &o) : report(TSR_ARGUMENT, NULL);
}

/* ---- functions ---- */

TSR_API tsr_function *tsr_find(tsr_bundle *b, const char *name)
{
    for (int i = 0; b && name && i < b->function.n; i++)
        if (!strcmp(b->function.at[i].name, name))
            return &b->function.at[i];
    report(b && name ? TSR_NAME : TSR_ARGUMENT, NULL);
    if (b && name)
        snprintf(message, sizeof message, "B%02d: the bundle %s has no function '%.100s'", TSR_NAME, b->name, name);
    return NULL;
}

TSR_API tsr_function *tsr_function_at(tsr_bundle *b, int i) { return b && i >= 0 && i < b->function.n ? &b->function.at[i] : NULL; }
TSR_API const char *tsr_name(const tsr_function *f) { return f ? f->name : ""; }
TSR_API const char *tsr_signature(const tsr_function *f) { return f ? f->signature : ""; }
TSR_API int tsr_inputs(const tsr_function *f) { return f ? f->input.n : 0; }
TSR_API int tsr_outputs(const tsr_function *f) { return f ? f->noutputs : 0; }

typedef struct Calling { tsr_function *f; const tsr_array *in; int nin; tsr_array *out; int nout; } Calling;

static int call(void *st, StrBuf *err)
{
    Calling *c = st;

    return bundle_call(c->f, c->in, c->nin, c->out, c->nout, err);
}

TSR_API int tsr_call(tsr_function *f, const tsr_array *in, int nin, tsr_array *out, int nout)
{
    Calling c = {f, in, nin, out, nout};

    return !f || (!in && nin) || (!out && nout) || nin < 0 || nout < 0 ? report(TSR_ARGUMENT, NULL) : alone(call, &c);
}

static int release(void *st, StrBuf *err)
{
    tensor_unref(st);
    return TSR_OK;
}

TSR_API void tsr_release(tsr_array *a)
{
    if (!a || !a->owner)
        return;
    alone(release, a->owner);
    *a = tsr_result();
}

/* ---- weights, random numbers, threads ---- */

typedef struct Weighing { tsr_bundle *b; const char *name; tsr_array *out; const tsr_array *value; uint64_t seed; } Weighing;

static Weight *find_weight(const Weighing *w, StrBuf *err)
{
    int i = bundle_find_weight(w->b, w->name);

    if (i < 0)
        sb_printf(err, "the bundle %s has no weight '%.100s'", w->b->name, w->name);
    return i < 0 ? NULL : &w->b->weight.at[i];
}

static int get_weight(void *st, StrBuf *err)
{
    Weighing *w = st;
    Weight *of = find_weight(w, err);

    if (!of)
        return TSR_NAME;
    int bad = bundle_wait(w->b, err);

    return bad ? bad : bundle_give(tensor_ref(of->t), w->name, w->out, err);
}

TSR_API int tsr_weight(tsr_bundle *b, const char *name, tsr_array *out)
{
    Weighing w = {.b = b, .name = name, .out = out};

    return b && name && out ? alone(get_weight, &w) : report(TSR_ARGUMENT, NULL);
}

static int set_weight(void *st, StrBuf *err)
{
    Weighing *w = st;
    Weight *of = find_weight(w, err);
    Borrowed value = {0};
    int bad = of ? bundle_borrow(w->value, w->name, &value, err) : TSR_NAME;
    Tensor *t = value.t, *copy;

    if (bad)
        return bad;
    if (t->dtype != of->t->dtype || t->rank != of->t->rank || memcmp(t->shape, of->t->shape, sizeof(Dim) * t->rank)) {
        sb_printf(err, "%s: another dtype or shape than the weight has", w->name);
        bad = t->dtype != of->t->dtype ? TSR_DTYPE : TSR_SIZE;
    } else if (!(copy = tensor_copy(t))) {
        bad = TSR_MEMORY;
    } else {
        copy->weak = of->t->weak;
        copy->policy = of->t->policy;
        storage_place(copy->store, (uint32_t)w->b->device);
        tensor_unref(of->t);
        of->t = copy;
    }
    tensor_unref(t);
    return bad;
}

TSR_API int tsr_set_weight(tsr_bundle *b, const char *name, const tsr_array *value)
{
    Weighing w = {.b = b, .name = name, .value = value};

    return b && name && value ? alone(set_weight, &w) : report(TSR_ARGUMENT, NULL);
}

static int reset(void *st, StrBuf *err)
{
    bundle_reset(st);
    return TSR_OK;
}

TSR_API int tsr_reset(tsr_bundle *b) { return b ? alone(reset, b) : report(TSR_ARGUMENT, NULL); }

static int seed(void *st, StrBuf *err)
{
    Weighing *w = st;

    w->b->T.seed = w->seed;
    w->b->T.draws = 0;
    return TSR_OK;
}

TSR_API int tsr_seed(tsr_bundle *b, uint64_t value)
{
    Weighing w = {.b = b, .seed = value};

    return b ? alone(seed, &w) : report(TSR_ARGUMENT, NULL);
}

static int set_threads(void *st, StrBuf *err)
{
    pool_init(*(int *)st);
    return TSR_OK;
}

TSR_API int tsr_threads(int n) { return n < 0 ? report(TSR_ARGUMENT, NULL) : alone(set_threads, &n); }
