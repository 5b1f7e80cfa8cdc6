/*
 * llvm.h - LLVM's owner: machines to make code for, and units of code.
 *
 * An Llvm is a unit of code, one LLVM module with a context of its own, so threads that work on
 * different units do not meet.  It is built through `builder`, verified,
 * optimised, and emitted as the bytes of an object file, which code.h makes
 * callable.  The same unit gives the same bytes.  Errors are text for our own
 * reports: a unit that LLVM refuses is our mistake, not the user's.  What LLVM
 * holds fatal (an intrinsic that a machine lacks) ends the process with
 * tsr_bug: units are made from the instructions that formula.def and the
 * lowerings name, which tests select for every machine.
 */
#ifndef TSR_CODEGEN_LLVM_H
#define TSR_CODEGEN_LLVM_H

#include "base/strbuf.h"

#include <llvm-c/Core.h>
#include <stdbool.h>

/* What code is made for. */
typedef struct Machine {
    const char *triple, *cpu, *features;
    bool has_f16;               /* converts f16 by instructions, with the bits of the formulas */
    bool has_fma;               /* otherwise each fused multiply-add is a call */
    int vector_bytes;           /* of a vector register */
    int vector_registers;
} Machine;

const Machine *machine_host(void);      /* this CPU, or what TESSERA_CPU asks for (runtime/cpu.h) */
const Machine *machine_find(const char *name);      /* base, v3, v4: as in cpu.h; sm_80, sm_90a; NULL: unknown. Any machine can be compiled for. */

bool machine_is_gpu(const Machine *m);

typedef enum { LEVEL_O0, LEVEL_O1, LEVEL_O3 } Level;

typedef struct Llvm {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    const Machine *machine;
    bool exp_near;              /* formula_exp_near */
    StrBuf complaints;          /* LLVM's errors about this unit */
} Llvm;

Llvm *llvm_new(const char *name, const Machine *m);
void llvm_free(Llvm *u);
/* Each false says in *err what LLVM found wrong. */
bool llvm_verify(Llvm *u, StrBuf *err);
bool llvm_optimise(Llvm *u, Level level, StrBuf *err);
bool llvm_object(Llvm *u, Level level, StrBuf *bytes, StrBuf *err);     /* an ELF object; of a GPU its PTX */
/*
 * The same for n units at once, optimised first, on the threads of the pool: bytes[i] stays empty where one failed, which *err says.
 * then: told of each whose bytes are there, on the thread that made them; NULL: nobody is.
 */
typedef void LlvmThen(int i, void *st);
void llvm_objects(Llvm **unit, int n, Level level, StrBuf *bytes, LlvmThen *then, void *st, StrBuf *err);
bool llvm_assembly(Llvm *u, Level level, StrBuf *text, StrBuf *err);
void llvm_print(const Llvm *u, StrBuf *out);        /* LLVM's text */

/* A call, at the builder, of LLVM's function of that name, which has to exist; over: the types that it is overloaded for. */
LLVMValueRef llvm_intrinsic(Llvm *u, const char *name, const LLVMTypeRef *over, int nover, LLVMValueRef *operands, int n);
/* Operand i of x where x is an instruction of that kind; NULL: it is another, or NULL. */
LLVMValueRef llvm_operand(LLVMValueRef x, LLVMOpcode opcode, int i);

/* "LLVM 19.1.7 for znver4": its version and the CPU that code is made for. */
void llvm_describe(StrBuf *out);

#endif
