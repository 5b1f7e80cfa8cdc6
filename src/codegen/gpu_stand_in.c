/*
 * Kernels for a machine that stands in for a GPU: the tests' driver, whose kernels are functions of this CPU over a whole grid (tests/fake).
 *
 *     int kernel(const Launch *l)
 *
 * takes the words of a launch (gpu.h) apart for the code that cpu_emit makes.
 */
#include "codegen/compiler.h"

#include "codegen/cpu.h"
#include "codegen/gpu.h"

#include <stddef.h>

/* What the driver hands over: fake_cuda.h. */
typedef struct Launch { uint32_t grid[3], block[3], cluster[3], shared; const void *params; size_t nbytes; } Launch;

enum { SCRATCH = 4 << 20 };

typedef struct Frame { Llvm *u; LLVMTypeRef i64, ptr; LLVMValueRef words; unsigned next; } Frame;

static LLVMValueRef number(const Frame *f, int64_t v) { return LLVMConstInt(f->i64, (uint64_t)v, true); }

static LLVMValueRef at(const Frame *f, LLVMValueRef base, int64_t bytes)
{
    LLVMValueRef n = number(f, bytes);

    return LLVMBuildGEP2(f->u->builder, LLVMInt8TypeInContext(f->u->context), base, &n, 1, "");
}

static LLVMValueRef next_word(Frame *f) { return LLVMBuildLoad2(f->u->builder, f->i64, at(f, f->words, 8 * (int64_t)f->next++), ""); }

static void set_arg(Frame *f, LLVMValueRef arg, int rank)
{
    LLVMBuildStore(f->u->builder, next_word(f), at(f, arg, offsetof(TileArg, base)));
    for (int i = 0; i < rank; i++)
        LLVMBuildStore(f->u->builder, next_word(f), at(f, arg, (int64_t)offsetof(TileArg, extent) + 8 * i));
    for (int i = 0; i < rank; i++)
        LLVMBuildStore(f->u->builder, next_word(f), at(f, arg, (int64_t)offsetof(TileArg, stride) + 8 * i));
}

static LLVMValueRef scratch(const Frame *f)
{
    LLVMValueRef g = LLVMAddGlobal(f->u->module, LLVMArrayType2(f->i64, SCRATCH / 8), "scratch");

    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetInitializer(g, LLVMConstNull(LLVMArrayType2(f->i64, SCRATCH / 8)));
    LLVMSetAlignment(g, 64);
    return g;
}

static void emit_entry(Llvm *u, const TileKernel *k, LLVMValueRef code)
{
    Frame f = {u, LLVMInt64TypeInContext(u->context), LLVMPointerTypeInContext(u->context, 0), NULL, 0};
    LLVMTypeRef i32 = LLVMInt32TypeInContext(u->context);
    LLVMValueRef fn = LLVMAddFunction(u->module, "kernel", LLVMFunctionType(i32, &f.ptr, 1, false)), args;
    LLVMValueRef memory = scratch(&f), groups = number(&f, 1);

    LLVMPositionBuilderAtEnd(u->builder, LLVMAppendBasicBlockInContext(u->context, fn, ""));
    args = LLVMBuildArrayAlloca(u->builder, f.i64, number(&f, (int64_t)(sizeof(TileArg) / 8) * (k->params.n + 1)), "");
    f.words = LLVMBuildLoad2(u->builder, f.ptr, at(&f, LLVMGetParam(fn, 0), offsetof(Launch, params)), "");
    f.next = (unsigned)k->size.n;
    for (int i = 0; i < 3; i++)
        groups = LLVMBuildMul(u->builder, groups, next_word(&f), "");
    for (int i = 0; i < k->params.n; i++)
        set_arg(&f, at(&f, args, (int64_t)sizeof(TileArg) * i), k->params.at[i]->type[0].rank);
    LLVMBuildStore(u->builder, number(&f, 0), memory);
    LLVMBuildCall2(u->builder, LLVMGlobalGetValueType(code), code, (LLVMValueRef[]){f.words, args, memory, number(&f, 0), groups}, 5, "");
    LLVMBuildRet(u->builder, LLVMConstInt(i32, 0, false));
}

bool compile_stand_in(const TileKernel *k, GpuFrame *frame, StrBuf *object, StrBuf *err)
{
    Llvm *u = llvm_new(k->name->text, machine_host());
    bool ok = cpu_emit(u, k, "groups", err);

    if (ok) {
        emit_entry(u, k, LLVMGetNamedFunction(u->module, "groups"));
        ok = llvm_verify(u, err) && llvm_optimise(u, LEVEL_O1, err) && llvm_object(u, LEVEL_O1, object, err);
    }
    *frame = (GpuFrame){.threads = 1};
    llvm_free(u);
    return ok;
}
