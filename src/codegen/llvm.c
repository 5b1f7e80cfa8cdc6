/*
 * Starting LLVM.
 *
 * Nothing of LLVM runs before its first use: late_ctors.ld has gathered its
 * static constructors in an array, which is run here, once.
 */
#include "codegen/llvm.h"

#include "base/alloc.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <pthread.h>

typedef void Ctor(int argc, char **argv, char **envp);
extern Ctor *const llvm_ctors_begin[], *const llvm_ctors_end[];

static void start(void)
{
    static char *none[] = {NULL};

    for (Ctor *const *c = llvm_ctors_begin; c < llvm_ctors_end; c++)
        (*c)(0, none, none);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

static void llvm_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start);
}

void llvm_describe(StrBuf *out)
{
    unsigned major, minor, patch;
    char *cpu;

    llvm_start();
    LLVMGetVersion(&major, &minor, &patch);
    cpu = LLVMGetHostCPUName();
    sb_printf(out, "LLVM %u.%u.%u for %s", major, minor, patch, cpu);
    LLVMDisposeMessage(cpu);
}
