/*
 * A kernel of the Tile IR to callable code: emitted, optimised, made an object
 * file, loaded; or its object is found in the store, and LLVM does not even
 * start.
 */
#include "codegen/compiler.h"

#include "codegen/cpu.h"
#include "codegen/origin.h"

#include "base/alloc.h"
#include "runtime/code.h"
#include "runtime/store.h"

static const Level KERNEL_LEVEL = LEVEL_O1;

typedef int64_t ScratchFn(const int64_t *size);

typedef struct Compiled {
    Code *code;
    KernelFn *entry;
    ScratchFn *scratch;
} Compiled;

typedef bool Finish(Llvm *u, Level level, StrBuf *out, StrBuf *err);

static bool lower(const TileKernel *k, const Machine *m, Finish *finish, StrBuf *out, StrBuf *err)
{
    Llvm *u = llvm_new(k->name->text, m);
    bool ok = cpu_emit(u, k, "kernel", err) && llvm_optimise(u, KERNEL_LEVEL, err) && finish(u, KERNEL_LEVEL, out, err);

    llvm_free(u);
    return ok;
}

bool compile_object(const TileKernel *k, const Machine *m, StrBuf *object, StrBuf *err) { return lower(k, m, llvm_object, object, err); }

bool compile_assembly(const TileKernel *k, StrBuf *out, StrBuf *err) { return lower(k, machine_host(), llvm_assembly, out, err); }

static void compiled_free(void *code)
{
    Compiled *c = code;

    code_free(c->code);
    tsr_free(c);
}

/* Of the kernel's text and all else that its object follows from. false: what that is, is not known. */
static bool key_of(const TileKernel *k, Hash128 *out)
{
    static struct { bool asked, known; Hash128 hash; } origin;
    StrBuf all = {0};

    if (!origin.asked)
        origin.known = code_origin(&origin.hash);
    origin.asked = true;
    sb_write(&all, (const char *)&origin.hash, sizeof origin.hash);
    sb_printf(&all, "O%d ", KERNEL_LEVEL);
    tile_print(k, &all);
    *out = hash_bytes128(all.s, all.n);
    sb_done(&all);
    return origin.known;
}

/* NULL: there is none in the store, or none that can be loaded. */
static Code *kept(Hash128 key)
{
    StrBuf object = {0}, why = {0};
    Code *code = store_get(key, &object) ? code_load(object.s, object.n, &why) : NULL;

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

static Code *code_of(const TileKernel *k, StrBuf *err)
{
    Hash128 key;
    bool keep = store_in_use() && key_of(k, &key);
    Code *code = keep ? kept(key) : NULL;

    return code ? code : made(k, keep ? &key : NULL, err);
}

static void *compile(const TileKernel *k, StrBuf *err)
{
    Code *code = code_of(k, err);
    Compiled *c;

    if (!code)
        return NULL;
    c = tsr_calloc(sizeof *c);
    *c = (Compiled){code, (KernelFn *)code_find(code, "kernel"), (ScratchFn *)code_find(code, "kernel.scratch")};
    if (c->entry && c->scratch)
        return c;
    compiled_free(c);
    sb_puts(err, "the object lacks its functions");
    return NULL;
}

static KernelFn *entry(const void *code) { return ((const Compiled *)code)->entry; }
static int64_t scratch(const void *code, const int64_t *size) { return ((const Compiled *)code)->scratch(size); }

const KernelCompiler cpu_compiler = {compile, entry, scratch, compiled_free};
