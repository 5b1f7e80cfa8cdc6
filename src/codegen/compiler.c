/*
 * A kernel of the Tile IR to callable code: emitted, optimised, made an object
 * file, loaded; or its object is found in the store, and LLVM does not even
 * start.  Kernels of the same text share their code: the layers of a model make
 * one set of kernels.
 */
#include "codegen/compiler.h"

#include "codegen/cpu.h"
#include "codegen/gpu.h"
#include "codegen/origin.h"

#include "base/alloc.h"
#include "base/map.h"
#include "runtime/called.h"
#include "runtime/code.h"
#include "runtime/store.h"

#include <stdlib.h>

static int kernel_effort = 1;
static Level kernel_level = LEVEL_O1;

typedef int64_t ScratchFn(const int64_t *size);

typedef struct Compiled {
    uint32_t refs;
    Hash128 key;
    Code *code;
    KernelFn *entry;
    ScratchFn *scratch;
} Compiled;

typedef bool Finish(Llvm *u, Level level, StrBuf *out, StrBuf *err);

static bool lower(const TileKernel *k, const Machine *m, Finish *finish, StrBuf *out, StrBuf *err)
{
    Llvm *u = llvm_new(k->name->text, m);
    TileKernel *wide = tile_widened(k);
    bool ok = cpu_emit(u, wide ? wide : k, "kernel", err) && llvm_optimise(u, kernel_level, err) && finish(u, kernel_level, out, err);

    tile_kernel_free(wide);
    llvm_free(u);
    return ok;
}

void compile_level(int level)
{
    kernel_effort = level;
    kernel_level = level == 0 ? LEVEL_O0 : level == 1 ? LEVEL_O1 : LEVEL_O3;
}

bool compile_object(const TileKernel *k, const Machine *m, StrBuf *object, StrBuf *err) { return lower(k, m, llvm_object, object, err); }

bool compile_tensor_copies(void)
{
    const char *way = getenv("TESSERA_TMA");

    return !way || *way != '0';
}

bool compile_ptx(const TileKernel *k, const Machine *m, bool tensor, GpuFrame *frame, StrBuf *ptx, StrBuf *err)
{
    Llvm *u = llvm_new(k->name->text, m);
    bool ok = gpu_emit(u, k, "kernel", tensor, frame, err) && llvm_verify(u, err) && llvm_optimise(u, LEVEL_O3, err) &&
              llvm_object(u, LEVEL_O3, ptx, err);

    llvm_free(u);
    return ok;
}

static const Machine *shown;

void compile_shown(const Machine *m) { shown = m; }

bool compile_assembly(const TileKernel *k, StrBuf *out, StrBuf *err)
{
    const Machine *m = shown ? shown : machine_host();
    GpuFrame frame;

    return machine_is_gpu(m) ? compile_ptx(k, m, compile_tensor_copies(), &frame, out, err) : lower(k, m, llvm_assembly, out, err);
}

/* Of the kernel's text, and of whether products in it are widened. */
static Hash128 key_of(const TileKernel *k)
{
    StrBuf all = {0};
    Hash128 key;

    sb_printf(&all, "O%d%s ", kernel_level, pass_runs("tile.widen") ? "" : " narrow");
    tile_print(k, &all);
    key = hash_bytes128(all.s, all.n);
    sb_done(&all);
    return key;
}

static bool origin(Hash128 *out)
{
    static struct { bool asked, known; Hash128 hash; } o;

    if (!o.asked)
        o.known = code_origin(&o.hash);
    o.asked = true;
    *out = o.hash;
    return o.known;
}

/* The key, and all else that an object follows from. false: what that is, is not known. */
static bool store_key(Hash128 key, Hash128 *out)
{
    Hash128 both[2];
    bool known = origin(&both[0]);

    both[1] = key;
    *out = hash_bytes128(both, sizeof both);
    return known;
}

/* NULL: there is none in the store, or none that can be loaded. */
static Code *kept(Hash128 key)
{
    StrBuf object = {0}, why = {0};
    Code *code;

    called_offer();
    code = store_get(key, &object) ? code_load(object.s, object.n, &why) : NULL;

    if (code)
        store_note_found();
    sb_done(&object);
    sb_done(&why);
    return code;
}

static Code *made(const TileKernel *k, const Hash128 *key, StrBuf *err)
{
    StrBuf object = {0};
    Code *code = compile_object(k, machine_host(), &object, err) ? code_load(object.s, object.n, err) : NULL;

    if (code && key)
        store_put(*key, object.s, object.n);
    sb_done(&object);
    return code;
}

static Code *code_of(const TileKernel *k, Hash128 key, StrBuf *err)
{
    Hash128 stored;
    bool keep = store_in_use() && store_key(key, &stored);
    Code *code = keep ? kept(stored) : NULL;

    return code ? code : made(k, keep ? &stored : NULL, err);
}

/* ---- code in use ---- */

static Map in_use;                      /* low half of the key -> Compiled *, which holds no reference */

static bool same_key(Hash128 a, Hash128 b) { return a.lo == b.lo && a.hi == b.hi; }
static uint64_t place_of(Hash128 key) { return key.lo | 1; }

static Compiled *shared(Hash128 key)
{
    uintptr_t at;
    Compiled *c = map_find(&in_use, place_of(key), &at) ? (Compiled *)at : NULL;

    if (!c || !same_key(c->key, key))
        return NULL;
    c->refs++;
    return c;
}

static void compiled_free(void *code)
{
    Compiled *c = code;
    uintptr_t at;

    if (--c->refs)
        return;
    if (map_find(&in_use, place_of(c->key), &at) && (Compiled *)at == c)
        map_set(&in_use, place_of(c->key), 0);
    code_free(c->code);
    tsr_free(c);
}

/* Code in use, of which this is the only reference. NULL: it lacks its functions. */
static Compiled *begin_use(Hash128 key, Code *code)
{
    Compiled *c = tsr_calloc(sizeof *c);

    *c = (Compiled){1, key, code, (KernelFn *)code_find(code, "kernel"), (ScratchFn *)code_find(code, "kernel.scratch")};
    if (c->entry && c->scratch) {
        map_set(&in_use, place_of(key), (uintptr_t)c);
        return c;
    }
    compiled_free(c);
    return NULL;
}

static void *compile(const TileKernel *k, StrBuf *err)
{
    Hash128 key = key_of(k);
    Compiled *c = shared(key);
    Code *code;

    if (c)
        return c;
    if (!(code = code_of(k, key, err)))
        return NULL;
    if (!(c = begin_use(key, code)))
        sb_puts(err, "the object lacks its functions");
    return c;
}

/* ---- many kernels at once ---- */

typedef struct Batch {
    int n, nunits;
    Hash128 *key;               /* of each kernel */
    int *unit_of;               /* kernel -> its unit; -1: there is code of it, or none can be made */
    Llvm **unit;
    StrBuf *object;             /* of each unit */
} Batch;

/* The kernel is in use, in the store, the same as one before, or becomes a unit. */
static void enter(Batch *b, const TileKernel *const *k, int i, void **code)
{
    Hash128 stored;
    Code *found;
    TileKernel *wide;
    StrBuf err = {0};

    b->unit_of[i] = -1;
    if ((code[i] = shared(b->key[i])))
        return;
    for (int j = 0; j < i; j++)
        if (same_key(b->key[i], b->key[j])) {
            b->unit_of[i] = b->unit_of[j];
            return;
        }
    if (store_in_use() && store_key(b->key[i], &stored) && (found = kept(stored))) {
        code[i] = begin_use(b->key[i], found);
        return;
    }
    wide = tile_widened(k[i]);
    b->unit[b->nunits] = llvm_new(k[i]->name->text, machine_host());
    if (cpu_emit(b->unit[b->nunits], wide ? wide : k[i], "kernel", &err))
        b->unit_of[i] = b->nunits++;
    else
        llvm_free(b->unit[b->nunits]);
    tile_kernel_free(wide);
    sb_done(&err);
}

/* The first kernel of a unit has its code. */
static void take_code(const Batch *b, int i, void **code)
{
    Hash128 stored;
    StrBuf *object = &b->object[b->unit_of[i]], err = {0};
    Code *made = object->n ? code_load(object->s, object->n, &err) : NULL;

    if (made && store_in_use() && store_key(b->key[i], &stored))
        store_put(stored, object->s, object->n);
    if (made)
        code[i] = begin_use(b->key[i], made);
    sb_done(object);
    sb_done(&err);
}

static void compile_all(const TileKernel *const *k, int n, void **code)
{
    size_t room = (size_t)n + 1;
    Batch b = {n, 0, tsr_alloc(room * sizeof *b.key), tsr_alloc(room * sizeof *b.unit_of), tsr_alloc(room * sizeof(Llvm *)),
               tsr_calloc(room * sizeof(StrBuf))};
    StrBuf err = {0};

    for (int i = 0; i < n; i++) {
        b.key[i] = key_of(k[i]);
        enter(&b, k, i, code);
    }
    llvm_objects(b.unit, b.nunits, kernel_level, b.object, NULL, NULL, &err);
    for (int i = 0; i < n; i++)
        if (!code[i] && !(code[i] = shared(b.key[i])) && b.unit_of[i] >= 0)
            take_code(&b, i, code);
    for (int i = 0; i < b.nunits; i++) {
        llvm_free(b.unit[i]);
        sb_done(&b.object[i]);
    }
    tsr_free(b.key);
    tsr_free(b.unit_of);
    tsr_free(b.unit);
    tsr_free(b.object);
    sb_done(&err);
}

static KernelFn *entry(const void *code) { return ((const Compiled *)code)->entry; }
static int64_t scratch(const void *code, const int64_t *size) { return ((const Compiled *)code)->scratch(size); }

static uint32_t users(const void *code) { return ((const Compiled *)code)->refs; }

static int effort(int level)
{
    int former = kernel_effort;

    compile_level(level);
    return former;
}

const KernelCompiler cpu_compiler = {.compile = compile, .entry = entry, .scratch = scratch, .users = users, .free = compiled_free, .effort = effort,
                                     .compile_all = compile_all, .origin = origin};
