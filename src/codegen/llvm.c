/*
 * Starting LLVM, and what is done to a whole unit.
 *
 * Nothing of LLVM runs before its first use: late_ctors.ld has gathered its
 * static constructors in an array, which is run here, once.  Target machines
 * are not to be shared by threads and cost a third of a millisecond, so those
 * that are not in use wait in a list.
 *
 * Our code arrives with its loops blocked and its vectors chosen, so LLVM's own
 * vectorisers stay off: they could only undo it.  Nothing here lets LLVM
 * reassociate or contract, so every level gives the same results.
 */
#include "codegen/llvm.h"

#include "base/alloc.h"
#include "runtime/cpu.h"
#include "runtime/kernels.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CPU_TRIPLE "x86_64-unknown-linux-gnu"
#define GPU_TRIPLE "nvptx64-nvidia-cuda"

typedef void Ctor(int argc, char **argv, char **envp);
extern Ctor *const llvm_ctors_begin[], *const llvm_ctors_end[];

static void fatal(const char *reason) { tsr_bug("LLVM: %s", reason); }

/*
 * Memory runs out inside LLVM as it does elsewhere: one clean error from the driver's recovery point. These two are C++,
 * which LLVM-C has no words for.
 */
void set_new_handler(void (*handler)(void)) __asm__("_ZSt15set_new_handlerPFvvE");
void install_bad_alloc_error_handler(void (*handler)(void *, const char *, bool), void *st)
    __asm__("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");

static void no_memory(void *st, const char *reason, bool diagnose) { tsr_out_of_memory(); }

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
    LLVMInstallFatalErrorHandler(fatal);
    set_new_handler(tsr_out_of_memory);
    install_bad_alloc_error_handler(no_memory, NULL);
}

static void llvm_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start);
}

/* ---- machines ---- */

static const Machine machines[] = {
    {CPU_TRIPLE, "x86-64", "", false, false, 16, 16},
    {CPU_TRIPLE, "x86-64-v3", "", true, true, 32, 16},
    {CPU_TRIPLE, "x86-64-v4", "", true, true, 64, 32},
    {GPU_TRIPLE, "sm_80", "+ptx84", false, true, 16, 255},
    {GPU_TRIPLE, "sm_90a", "+ptx84", false, true, 16, 255},
};
static const char *const names[] = {"base", "v3", "v4", "sm_80", "sm_90a"};
enum { MACHINES = sizeof machines / sizeof *machines };

const Machine *machine_find(const char *name)
{
    for (int i = 0; i < MACHINES; i++)
        if (!strcmp(names[i], name))
            return &machines[i];
    return NULL;
}

static Machine here;

static void find_host(void)
{
    const char *want = getenv("TESSERA_CPU");

    llvm_start();
    here = *machine_find(cpu()->name);
    if (!want || strcmp(want, cpu()->name) != 0) {      /* not asked for by name: all that this CPU has */
        here.cpu = LLVMGetHostCPUName();
        here.features = LLVMGetHostCPUFeatures();
    }
}

const Machine *machine_host(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_host);
    return &here;
}

bool machine_is_gpu(const Machine *m) { return !strcmp(m->triple, GPU_TRIPLE); }

void llvm_describe(StrBuf *out)
{
    unsigned major, minor, patch;

    LLVMGetVersion(&major, &minor, &patch);
    sb_printf(out, "LLVM %u.%u.%u for %s", major, minor, patch, machine_host()->cpu);
}

/* ---- target machines: made for a machine and a level, kept for the next unit ---- */

typedef struct Idle {
    LLVMTargetMachineRef target;
    const Machine *machine;
    Level level;
    struct Idle *next;
} Idle;
static Idle *idle;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;      /* also of what is allocated for them: units are finished on many threads */

static Idle *target_new(const Machine *m, Level level)
{
    LLVMCodeGenOptLevel effort = level == LEVEL_O0 ? LLVMCodeGenLevelNone : level == LEVEL_O1 ? LLVMCodeGenLevelLess : LLVMCodeGenLevelDefault;
    LLVMTargetRef target;
    char *why = NULL;
    Idle *t = tsr_alloc(sizeof *t);

    if (LLVMGetTargetFromTriple(m->triple, &target, &why))
        tsr_bug("LLVM: %s", why);
    *t = (Idle){LLVMCreateTargetMachine(target, m->triple, m->cpu, m->features, effort, LLVMRelocPIC, LLVMCodeModelSmall), m, level, NULL};
    return t;
}

/* LLVM's options are as they were; C++, as above. */
void reset_options(void) __asm__("_ZN4llvm2cl25ResetAllOptionOccurrencesEv");

/*
 * Addresses of our loops are a base and a place times the element's size, which CPUs have instructions for: a search for
 * better ones takes a quarter of all the time and makes no kernel faster.  GPUs have no such instructions.  The switch is the
 * process's; units for CPUs and for GPUs are not finished at the same time.
 */
static void choose_addresses(const Machine *m)
{
    static const char *const as_they_are[] = {"tessera", "-disable-lsr"};
    static bool off;

    if (off == !machine_is_gpu(m))
        return;
    off = !off;
    reset_options();
    if (off)
        LLVMParseCommandLineOptions(2, as_they_are, "");
}

static Idle *target_take(const Machine *m, Level level)
{
    Idle **at, *t;

    llvm_start();
    pthread_mutex_lock(&idle_lock);
    for (at = &idle; *at && ((*at)->machine != m || (*at)->level != level); )
        at = &(*at)->next;
    t = *at;
    if (t)
        *at = t->next;
    else
        t = target_new(m, level);
    choose_addresses(m);
    pthread_mutex_unlock(&idle_lock);
    return t;
}

static void target_give(Idle *t)
{
    pthread_mutex_lock(&idle_lock);
    t->next = idle;
    idle = t;
    pthread_mutex_unlock(&idle_lock);
}

/* ---- units ---- */

static void note(LLVMDiagnosticInfoRef info, void *st)
{
    Llvm *u = st;
    char *text;

    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
        return;
    text = LLVMGetDiagInfoDescription(info);
    sb_puts(&u->complaints, text);
    sb_putc(&u->complaints, '\n');
    LLVMDisposeMessage(text);
}

Llvm *llvm_new(const char *name, const Machine *m)
{
    Idle *t = target_take(m, LEVEL_O3);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(t->target);
    Llvm *u = tsr_calloc(sizeof *u);

    u->machine = m;
    u->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(u->context, note, u);
    u->module = LLVMModuleCreateWithNameInContext(name, u->context);
    LLVMSetTarget(u->module, m->triple);
    LLVMSetModuleDataLayout(u->module, layout);
    LLVMDisposeTargetData(layout);
    u->builder = LLVMCreateBuilderInContext(u->context);
    target_give(t);
    return u;
}

void llvm_free(Llvm *u)
{
    if (!u)
        return;
    LLVMDisposeBuilder(u->builder);
    LLVMDisposeModule(u->module);
    LLVMContextDispose(u->context);
    sb_done(&u->complaints);
    tsr_free(u);
}

/* Did LLVM complain? Then *err has it. */
static bool is_clean(Llvm *u, StrBuf *err)
{
    if (u->complaints.n)
        sb_puts(err, sb_str(&u->complaints));
    return !u->complaints.n;
}

bool llvm_verify(Llvm *u, StrBuf *err)
{
    char *why = NULL;
    bool broken = LLVMVerifyModule(u->module, LLVMReturnStatusAction, &why);

    if (broken)
        sb_puts(err, why);
    LLVMDisposeMessage(why);
    return !broken;
}

/*
 * LLVM's own pipelines spend half of a small unit's time on inlining, unrolling and vectorising, which the lowerings
 * have decided.  What they leave to LLVM: redundant addresses and loads, masks, moving what is invariant out of loops.
 */
static const char *const passes[] = {
    [LEVEL_O0] = NULL,
    [LEVEL_O1] = "always-inline,function(sroa,early-cse<memssa>,loop-mssa(licm),simplifycfg)",
    [LEVEL_O3] = "always-inline,function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
                 "loop-mssa(loop-rotate,licm),gvn,instcombine<no-verify-fixpoint>,dse,loop-mssa(licm,indvars),"
                 "early-cse,instcombine<no-verify-fixpoint>,simplifycfg)",
};

/* NULL: they ran. */
static LLVMErrorRef run_passes(Llvm *u, Level level)
{
    LLVMPassBuilderOptionsRef options;
    LLVMErrorRef failed;
    Idle *t;

    if (!passes[level])
        return NULL;
    t = target_take(u->machine, level);
    options = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(options, false);
    LLVMPassBuilderOptionsSetSLPVectorization(options, false);
    LLVMPassBuilderOptionsSetLoopInterleaving(options, false);
    failed = LLVMRunPasses(u->module, passes[level], t->target, options);
    LLVMDisposePassBuilderOptions(options);
    target_give(t);
    return failed;
}

static bool passes_went(LLVMErrorRef failed, StrBuf *err)
{
    char *text;

    if (!failed)
        return true;
    text = LLVMGetErrorMessage(failed);
    sb_puts(err, text);
    LLVMDisposeErrorMessage(text);
    return false;
}

bool llvm_optimise(Llvm *u, Level level, StrBuf *err) { return passes_went(run_passes(u, level), err) && is_clean(u, err); }

/* NULL: *why, to be disposed of, says what is wrong. */
static LLVMMemoryBufferRef finished(Llvm *u, Level level, LLVMCodeGenFileType kind, char **why)
{
    Idle *t = target_take(u->machine, level);
    LLVMMemoryBufferRef bytes = NULL;
    bool failed = LLVMTargetMachineEmitToMemoryBuffer(t->target, u->module, kind, why, &bytes);

    target_give(t);
    return failed ? NULL : bytes;
}

/* Takes bytes and why over. */
static bool hand_out(Llvm *u, LLVMMemoryBufferRef bytes, char *why, StrBuf *out, StrBuf *err)
{
    if (bytes)
        sb_write(out, LLVMGetBufferStart(bytes), LLVMGetBufferSize(bytes));
    else if (why)
        sb_puts(err, why);
    LLVMDisposeMessage(why);
    if (bytes)
        LLVMDisposeMemoryBuffer(bytes);
    return bytes && is_clean(u, err);
}

static bool emit(Llvm *u, Level level, LLVMCodeGenFileType kind, StrBuf *out, StrBuf *err)
{
    char *why = NULL;
    LLVMMemoryBufferRef bytes = finished(u, level, kind, &why);

    return hand_out(u, bytes, why, out, err);
}

/* GPUs' objects are PTX, a text. */
static LLVMCodeGenFileType file_of(const Llvm *u) { return machine_is_gpu(u->machine) ? LLVMAssemblyFile : LLVMObjectFile; }

bool llvm_object(Llvm *u, Level level, StrBuf *bytes, StrBuf *err) { return emit(u, level, file_of(u), bytes, err); }

/* ---- many units at once ---- */

typedef struct Finishing { Llvm **unit; int *turn; StrBuf *bytes, *err; LlvmThen *then; void *st; Level level; } Finishing;

static void finish_part(int64_t lo, int64_t hi, void *st)
{
    Finishing *f = st;

    for (int64_t k = lo; k < hi; k++) {
        int i = f->turn[k];
        if (!passes_went(run_passes(f->unit[i], f->level), &f->err[i]))
            continue;
        if (emit(f->unit[i], f->level, file_of(f->unit[i]), &f->bytes[i], &f->err[i]) && f->then)
            f->then(i, f->st);
    }
}

/* Instructions: how long it will take, more or less. */
static int size_of(const Llvm *u)
{
    int n = 0;

    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                n++;
    return n;
}

typedef struct Sized { int size, unit; } Sized;

static int larger(const void *a, const void *b)
{
    const Sized *x = a, *y = b;

    return x->size != y->size ? (x->size < y->size) - (x->size > y->size) : x->unit - y->unit;
}

/* The largest first, since nobody is to wait for one that began last. */
static int *turns(Llvm **unit, int n)
{
    Sized *all = tsr_alloc(sizeof *all * ((size_t)n + 1));
    int *turn = tsr_alloc(sizeof *turn * ((size_t)n + 1));

    for (int i = 0; i < n; i++)
        all[i] = (Sized){size_of(unit[i]), i};
    qsort(all, (size_t)n, sizeof *all, larger);
    for (int i = 0; i < n; i++)
        turn[i] = all[i].unit;
    tsr_free(all);
    return turn;
}

void llvm_objects(Llvm **unit, int n, Level level, StrBuf *bytes, LlvmThen *then, void *st, StrBuf *err)
{
    Finishing f = {unit, turns(unit, n), bytes, tsr_calloc(((size_t)n + 1) * sizeof *f.err), then, st, level};

    pool_each(n, finish_part, &f);
    for (int i = 0; i < n; i++) {
        sb_puts(err, sb_str(&f.err[i]));
        sb_done(&f.err[i]);
    }
    tsr_free(f.turn);
    tsr_free(f.err);
}

bool llvm_assembly(Llvm *u, Level level, StrBuf *text, StrBuf *err) { return emit(u, level, LLVMAssemblyFile, text, err); }

void llvm_print(const Llvm *u, StrBuf *out)
{
    char *text = LLVMPrintModuleToString(u->module);

    sb_puts(out, text);
    LLVMDisposeMessage(text);
}

LLVMValueRef llvm_intrinsic(Llvm *u, const char *name, const LLVMTypeRef *over, int nover, LLVMValueRef *operands, int n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef types[2] = {nover > 0 ? over[0] : NULL, nover > 1 ? over[1] : NULL};
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(u->module, id, types, (size_t)nover);

    return LLVMBuildCall2(u->builder, LLVMIntrinsicGetType(u->context, id, types, (size_t)nover), fn, operands, (unsigned)n, "");
}

LLVMValueRef llvm_operand(LLVMValueRef x, LLVMOpcode opcode, int i)
{
    return x && LLVMIsAInstruction(x) && LLVMGetInstructionOpcode(x) == opcode ? LLVMGetOperand(x, (unsigned)i) : NULL;
}
