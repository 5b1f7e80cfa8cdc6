/*
 * A kernel of the Tile IR to callable code: emitted, optimised, made an object
 * file, loaded.
 */
#include "codegen/compiler.h"

#include "codegen/cpu.h"

#include "base/alloc.h"
#include "runtime/code.h"

typedef int64_t ScratchFn(const int64_t *size);

typedef struct Compiled {
    Code *code;
    KernelFn *entry;
    ScratchFn *scratch;
} Compiled;

bool compile_object(const TileKernel *k, const Machine *m, StrBuf *object, StrBuf *err)
{
    Llvm *u = llvm_new(k->name->text, m);
    bool ok = cpu_emit(u, k, "kernel", err) && llvm_optimise(u, LEVEL_O1, err) && llvm_object(u, LEVEL_O1, object, err);

    llvm_free(u);
    return ok;
}

bool compile_assembly(const TileKernel *k, StrBuf *out, StrBuf *err)
{
    Llvm *u = llvm_new(k->name->text, machine_host());
    bool ok = cpu_emit(u, k, "kernel", err) && llvm_optimise(u, LEVEL_O1, err) && llvm_assembly(u, LEVEL_O1, out, err);

    llvm_free(u);
    return ok;
}

static void compiled_free(void *code)
{
    Compiled *c = code;

    code_free(c->code);
    tsr_free(c);
}

static void *compile(const TileKernel *k, StrBuf *err)
{
    StrBuf object = {0};
    Compiled *c = NULL;
    Code *code = compile_object(k, machine_host(), &object, err) ? code_load(object.s, object.n, err) : NULL;

    sb_done(&object);
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
