/*
 * The driver's library: opened once, its entry points looked up by the names of cuda.def, and started.
 *
 * Every way in which this fails is somebody else's installation, so the reasons are written for a person who has to mend
 * that: what was looked for, what was found, and what helps.
 */
#include "runtime/cuda.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CudaApi cu;
bool fault_kept;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char reason[512];
static int version;
static bool loaded, forked;
static struct { FaultKind kind; char text[2048]; } kept;

/* ---- faults ---- */

bool fault(FaultKind kind, const char *fmt, ...)
{
    va_list ap;

    pthread_mutex_lock(&lock);
    if (!fault_kept) {
        va_start(ap, fmt);
        vsnprintf(kept.text, sizeof kept.text, fmt, ap);
        va_end(ap);
        kept.kind = kind;
        fault_kept = true;
    }
    pthread_mutex_unlock(&lock);
    return false;
}

bool fault_take(StrBuf *out, FaultKind *kind)
{
    bool had;

    pthread_mutex_lock(&lock);
    if ((had = fault_kept)) {
        sb_puts(out, kept.text);
        *kind = kept.kind;
        fault_kept = false;
    }
    pthread_mutex_unlock(&lock);
    return had;
}

/* ---- loading ---- */

const char *cuda_library(void)
{
    const char *own = getenv("TESSERA_CUDA_LIBRARY");

    return own ? own : "libcuda.so.1";
}

const char *cuda_reason(void) { return reason; }
int cuda_version(void) { return version; }

static bool fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static bool fail(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    return false;
}

static bool look_up(void *library)
{
    static const struct { const char *symbol; size_t at; } rows[] = {
#define CUDA(name, symbol, parameters) {#symbol, offsetof(CudaApi, name)},
#include "runtime/cuda.def"
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *f = dlsym(library, rows[i].symbol);
        if (!f)
            return fail("E0742: the NVIDIA driver is too old: %s has no %s; CUDA %d.%d or later is needed (driver 525 or later)", cuda_library(),
                        rows[i].symbol, CUDA_OLDEST / 1000, CUDA_OLDEST % 1000 / 10);
        memcpy((char *)&cu + rows[i].at, &f, sizeof f);
    }
    return true;
}

void cuda_say(StrBuf *out, CUresult error)
{
    const char *name = NULL, *text = NULL;

    if (cu.GetErrorName && cu.GetErrorName(error, &name) == CUDA_SUCCESS && name) {
        sb_puts(out, name);
        if (cu.GetErrorString(error, &text) == CUDA_SUCCESS && text)
            sb_printf(out, " (%s)", text);
    } else {
        sb_printf(out, "error %d of the driver", error);
    }
}

/* The version is asked for before anything is looked up that an old driver lacks. */
static bool new_enough(void *library)
{
    CUresult (*ask)(int *) = NULL;
    void *f = dlsym(library, "cuDriverGetVersion");

    memcpy(&ask, &f, sizeof f);
    if (!ask || ask(&version) != CUDA_SUCCESS)
        return fail("E0743: %s does not say which version it is: it is no NVIDIA driver, or a broken one", cuda_library());
    if (version < CUDA_OLDEST)
        return fail("E0742: the NVIDIA driver is too old: it is for CUDA %d.%d; %d.%d or later is needed (driver 525 or later)", version / 1000,
                    version % 1000 / 10, CUDA_OLDEST / 1000, CUDA_OLDEST % 1000 / 10);
    return true;
}

static bool start(void)
{
    CUresult r = cu.Init(0);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int n = 0;
    StrBuf why = {0};

    if (r == CUDA_SUCCESS)
        r = cu.DeviceGetCount(&n);
    if (r == CUDA_SUCCESS && n > 0)
        return true;
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_NO_DEVICE)
        return fail("E0741: the NVIDIA driver finds no GPU%s%s", visible ? ", where CUDA_VISIBLE_DEVICES is " : "", visible ? visible : "");
    cuda_say(&why, r);
    fail("E0743: the NVIDIA driver does not start: %s", sb_str(&why));
    sb_done(&why);
    return false;
}

typedef struct Aside { void (*fn)(void *); void *arg; } Aside;

static void *run_aside(void *arg)
{
    const Aside *a = arg;

    a->fn(a->arg);
    return NULL;
}

void cuda_aside(void (*fn)(void *), void *arg)
{
    enum { STACK = 16 << 20 };
    Aside a = {fn, arg};
    pthread_attr_t attr;
    pthread_t id;
    bool made;

    pthread_attr_init(&attr);
    made = !pthread_attr_setstacksize(&attr, STACK) && !pthread_create(&id, &attr, run_aside, &a);
    pthread_attr_destroy(&attr);
    if (made)
        pthread_join(id, NULL);
    else
        fn(arg);
}

static void forget(void) { forked = true; }

static void load_here(void *arg)
{
    (void)arg;
    const char *name = cuda_library();
    void *library = *name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!library) {
        const char *why = *name ? dlerror() : "TESSERA_CUDA_LIBRARY is empty";
        fail("E0740: there is no NVIDIA driver here: %s", why ? why : name);
        return;
    }
    loaded = new_enough(library) && look_up(library) && start();
    if (loaded)
        pthread_atfork(NULL, NULL, forget);
}

static void load(void) { cuda_aside(load_here, NULL); }

/* The driver does not survive a fork: a child that used it would be told that it is not initialised, and later crash. */
bool cuda_load(void)
{
    pthread_once(&once, load);
    if (loaded && forked)
        return fail("E0743: this process was forked from one that uses GPUs, and cannot use them");
    return loaded;
}
