/*
 * Kernels of the Tile IR on the GPUs that the driver has: PTX of each text once, in the store too, and a module of it on each device that
 * it is launched on.  All GPUs of a machine are taken to be of the first one's kind, unless they cannot be.
 */
#include "codegen/compiler.h"

#include "codegen/gpu.h"
#include "codegen/origin.h"

#include "base/alloc.h"
#include "base/map.h"
#include "runtime/gpu_launch.h"
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

    sb_printf(&all, "%s%s%s ", arch, tensor ? " tensor" : "", pass_runs("tile.pipeline") ? "" : " in turn");
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

/* The code of a key if somebody has it, one reference more. */
static GpuCompiled *shared(Hash128 key)
{
    uintptr_t at;
    GpuCompiled *c = map_find(&in_use, key.lo | 1, &at) ? (GpuCompiled *)at : NULL;

    if (!c || c->key.lo != key.lo || c->key.hi != key.hi)
        return NULL;
    c->refs++;
    return c;
}

static GpuCompiled *compiled_new(Hash128 key)
{
    GpuCompiled *c = tsr_calloc(sizeof *c);

    c->refs = 2;
    c->key = key;
    return c;
}

/* It is in use from now on, if it has code; else NULL. */
static GpuCompiled *begin_use(GpuCompiled *c, bool made)
{
    if (made) {
        map_set(&in_use, c->key.lo | 1, (uintptr_t)c);
        return c;
    }
    sb_done(&c->code.image);
    tsr_free(c);
    return NULL;
}

static bool recall(const Machine *m, GpuCompiled *c)
{
    Hash128 stored;

    return m && store_in_use() && store_key(c->key, &stored) && find(stored, c);
}

static void keep(const Machine *m, const GpuCompiled *c)
{
    Hash128 stored;

    if (m && store_in_use() && store_key(c->key, &stored))
        file(stored, c);
}

static bool make(const TileKernel *k, const Machine *m, bool tensor, GpuCompiled *c, StrBuf *err)
{
    if (recall(m, c))
        return true;
    if (!(m ? compile_ptx(k, m, tensor, &c->code.frame, &c->code.image, err) : compile_stand_in(k, &c->code.frame, &c->code.image, err)))
        return false;
    keep(m, c);
    return true;
}

static GpuCompiled *compile_way(const TileKernel *k, bool tensor, StrBuf *err)
{
    const char *arch;
    const Machine *m = target(&arch);
    Hash128 key = key_of(k, arch, tensor);
    GpuCompiled *c = shared(key);

    if (c)
        return c;
    c = compiled_new(key);
    return begin_use(c, make(k, m, tensor, c, err));
}

static void *compile(const TileKernel *k, StrBuf *err) { return compile_way(k, compile_tensor_copies(), err); }

/* ---- many kernels at once ---- */

/* Units of kernels that `takes` was asked of, until make_taken. Each has a key that no other has. */
typedef struct Unit { GpuCompiled *c; Llvm *u; } Unit;
static Vec(Unit) waiting;

static bool is_waiting(Hash128 key)
{
    for (int i = 0; i < waiting.n; i++)
        if (waiting.at[i].c->key.lo == key.lo && waiting.at[i].c->key.hi == key.hi)
            return true;
    return false;
}

/* The kernel becomes a unit. false: it has no code. */
static bool enter(const TileKernel *k, const Machine *m, GpuCompiled *c)
{
    Llvm *u = llvm_new(k->name->text, m);
    StrBuf err = {0};
    bool ok = gpu_emit(u, k, "kernel", compile_tensor_copies(), &c->code.frame, &err) && llvm_verify(u, &err);

    if (ok) {
        vec_push(&waiting, ((Unit){c, u}));
    } else {
        begin_use(c, false);
        llvm_free(u);
    }
    sb_done(&err);
    return ok;
}

static bool takes(const TileKernel *k)
{
    const char *arch;
    const Machine *m = target(&arch);
    Hash128 key = key_of(k, arch, compile_tensor_copies());
    GpuCompiled *c = shared(key);

    if (c)
        c->refs--;
    if (c || !m || is_waiting(key))
        return true;
    c = compiled_new(key);
    if (!recall(m, c))
        return enter(k, m, c);
    begin_use(c, true)->refs--;
    return true;
}

typedef struct Texts { StrBuf *ptx, *cubin; } Texts;

static void assemble_text(int i, void *st)
{
    const Texts *t = st;

    gpu_assemble_text(gpu_look(0), &t->ptx[i], &t->cubin[i]);
}

/* A kernel with its text, and what that was assembled to, if it was. */
static void finished(const Machine *m, GpuCompiled *c, StrBuf ptx, StrBuf cubin)
{
    c->code.image = ptx;
    if (!begin_use(c, ptx.n > 0))
        return;
    c->refs--;
    keep(m, c);
    if (cubin.n) {
        sb_done(&c->code.image);
        c->code.image = cubin;
    }
}

/* Texts of all that wait, and cubins of these, by all threads. */
static void make_taken(void)
{
    const char *arch;
    const Machine *m = target(&arch);
    size_t room = (size_t)waiting.n + 1;
    Llvm **unit = tsr_alloc(sizeof *unit * room);
    Texts t = {tsr_calloc(sizeof *t.ptx * room), tsr_calloc(sizeof *t.cubin * room)};
    StrBuf err = {0};

    for (int i = 0; i < waiting.n; i++)
        unit[i] = waiting.at[i].u;
    llvm_objects(unit, waiting.n, LEVEL_O3, t.ptx, assemble_text, &t, &err);
    for (int i = 0; i < waiting.n; i++) {
        llvm_free(unit[i]);
        finished(m, waiting.at[i].c, t.ptx[i], t.cubin[i]);
    }
    vec_free(&waiting);
    sb_done(&err);
    tsr_free(unit);
    tsr_free(t.ptx);
    tsr_free(t.cubin);
}

static void drop(void *code) { ((GpuCompiled *)code)->refs--; }

static uint32_t users(const void *code) { return ((const GpuCompiled *)code)->refs - 1; }
static KernelFn *no_entry(const void *code) { return NULL; }
static int64_t no_scratch(const void *code, const int64_t *size) { return 0; }

static const KernelCompiler gpu_compiler = {.compile = compile, .entry = no_entry, .scratch = no_scratch, .users = users, .free = drop,
                                            .takes = takes, .make_taken = make_taken};

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
