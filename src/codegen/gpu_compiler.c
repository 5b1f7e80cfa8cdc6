/*
 * Kernels of the Tile IR on the GPUs that the driver has: PTX of each text once, in the store too, and a module of it on each device that
 * it is launched on.  All GPUs of a machine are taken to be of the first one's kind, unless they cannot be.
 */
#include "codegen/compiler.h"

#include "codegen/gpu.h"
#include "codegen/origin.h"

#include "base/alloc.h"
#include "base/map.h"
#include "runtime/gpu_device.h"
#include "runtime/store.h"

#include <string.h>

typedef struct GpuCompiled {
    uint32_t refs;
    Hash128 key;
    FarCode code;
    struct GpuCompiled *plain;  /* the same kernel for operands that tensor maps cannot describe; made when it is needed */
} GpuCompiled;

static Map in_use;                      /* low half of the key -> GpuCompiled *, a reference: kept to the end */

/* What code is made for: the first GPU; NULL: the driver of the tests. *name: of its architecture. */
static const Machine *target(const char **name)
{
    const GpuDevice *g = gpu_look(0);

    *name = g && g->sm >= 90 && g->sm < 100 ? "sm_90a" : "sm_80";
    return g && g->sm ? machine_find(*name) : NULL;
}

static Hash128 key_of(const TileKernel *k, const char *arch, bool tensor)
{
    StrBuf all = {0};
    Hash128 key;

    sb_printf(&all, "%s%s ", arch, tensor ? " tensor" : "");
    tile_print(k, &all);
    key = hash_bytes128(all.s, all.n);
    sb_done(&all);
    return key;
}

static bool store_key(Hash128 key, Hash128 *out)
{
    Hash128 both[2] = {{0}, key};
    bool known = code_origin(&both[0]);

    *out = hash_bytes128(both, sizeof both);
    return known;
}

/* An entry of the store is the frame, then the image. */
static bool find(Hash128 key, GpuCompiled *c)
{
    StrBuf all = {0};
    bool found = store_get(key, &all) && all.n > sizeof c->code.frame;

    if (found) {
        memcpy(&c->code.frame, all.s, sizeof c->code.frame);
        sb_write(&c->code.image, all.s + sizeof c->code.frame, all.n - sizeof c->code.frame);
    }
    sb_done(&all);
    return found;
}

static void file(Hash128 key, const GpuCompiled *c)
{
    StrBuf all = {0};

    sb_write(&all, (const char *)&c->code.frame, sizeof c->code.frame);
    sb_write(&all, c->code.image.s, c->code.image.n);
    store_put(key, all.s, all.n);
    sb_done(&all);
}

static bool make(const TileKernel *k, const Machine *m, bool tensor, GpuCompiled *c, StrBuf *err)
{
    Hash128 stored;
    bool keep = m && store_in_use() && store_key(c->key, &stored);

    if (keep && find(stored, c))
        return true;
    if (!(m ? compile_ptx(k, m, tensor, &c->code.frame, &c->code.image, err) : compile_stand_in(k, &c->code.frame, &c->code.image, err)))
        return false;
    if (keep)
        file(stored, c);
    return true;
}

static GpuCompiled *compile_way(const TileKernel *k, bool tensor, StrBuf *err)
{
    const char *arch;
    const Machine *m = target(&arch);
    Hash128 key = key_of(k, arch, tensor);
    uintptr_t at;
    GpuCompiled *c = map_find(&in_use, key.lo | 1, &at) ? (GpuCompiled *)at : NULL;

    if (c && c->key.lo == key.lo && c->key.hi == key.hi) {
        c->refs++;
        return c;
    }
    c = tsr_calloc(sizeof *c);
    c->refs = 2;
    c->key = key;
    if (make(k, m, tensor, c, err)) {
        map_set(&in_use, key.lo | 1, (uintptr_t)c);
        return c;
    }
    sb_done(&c->code.image);
    tsr_free(c);
    return NULL;
}

static void *compile(const TileKernel *k, StrBuf *err) { return compile_way(k, compile_tensor_copies(), err); }

static void drop(void *code) { ((GpuCompiled *)code)->refs--; }

static uint32_t users(const void *code) { return ((const GpuCompiled *)code)->refs - 1; }
static KernelFn *no_entry(const void *code) { return NULL; }
static int64_t no_scratch(const void *code, const int64_t *size) { return 0; }

static const KernelCompiler gpu_compiler = {.compile = compile, .entry = no_entry, .scratch = no_scratch, .users = users, .free = drop};

static int launch(void *code, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where)
{
    GpuCompiled *c = code;

    int done = far_code_launch(&c->code, k, device, sizes, args, where);
    StrBuf why = {0};

    if (done != FAR_MISFIT)
        return done;
    c->plain = c->plain ? c->plain : compile_way(k, false, &why);
    sb_done(&why);
    return c->plain ? far_code_launch(&c->plain->code, k, device, sizes, args, where) : 0;
}

void gpu_kernels_begin(void) { far_begin(&gpu_compiler, launch); }
