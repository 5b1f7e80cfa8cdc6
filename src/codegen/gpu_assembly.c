/*
 * Instructions that LLVM 19 has no names for, as inline PTX: barriers with
 * transactions, tensor copies, products by warpgroups (PTX ISA 8.4, sm_90a).
 *
 * Inline assembly moves freely unless it is told not to: what waits or touches
 * memory clobbers it, all of it is convergent, and sums of products under way
 * are operands of the wait for them.
 */
#include "codegen/gpu_assembly.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

static LLVMTypeRef void_type(const CpuCode *e) { return LLVMVoidTypeInContext(e->u->context); }

LLVMValueRef gpu_assembly(CpuCode *e, LLVMTypeRef result, const char *text, const char *constraints, LLVMValueRef *in, int n, bool effects)
{
    LLVMTypeRef *types = tsr_alloc(sizeof *types * (size_t)(n + 1)), type;
    LLVMValueRef code, call;
    LLVMAttributeRef convergent;

    for (int i = 0; i < n; i++)
        types[i] = LLVMTypeOf(in[i]);
    type = LLVMFunctionType(result, types, (unsigned)n, false);
    tsr_free(types);
    code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), effects, false, LLVMInlineAsmDialectATT, false);
    call = LLVMBuildCall2(e->u->builder, type, code, in, (unsigned)n, "");
    convergent = LLVMCreateEnumAttribute(e->u->context, LLVMGetEnumAttributeKindForName("convergent", 10), 0);
    LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, convergent);
    return call;
}

LLVMValueRef gpu_anew(CpuCode *e, LLVMValueRef x) { return gpu_assembly(e, i32_type(e), "mov.b32 $0, $1;", "=r,r", &x, 1, true); }

void gpu_assembly_pure(CpuCode *e, LLVMValueRef call)
{
    static const char *const name[] = {"memory", "nounwind", "willreturn"};

    for (int i = 0; i < 3; i++) {
        unsigned kind = LLVMGetEnumAttributeKindForName(name[i], strlen(name[i]));
        LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->u->context, kind, 0));
    }
    LLVMRemoveCallSiteEnumAttribute(call, LLVMAttributeFunctionIndex, LLVMGetEnumAttributeKindForName("convergent", 10));
}

static void act(CpuCode *e, const char *text, const char *constraints, LLVMValueRef *in, int n)
{
    gpu_assembly(e, void_type(e), text, constraints, in, n, true);
}

LLVMValueRef gpu_shared_address(CpuCode *e, LLVMValueRef place)
{
    place = LLVMBuildAddrSpaceCast(e->u->builder, place, LLVMPointerTypeInContext(e->u->context, 3), "");
    return LLVMBuildPtrToInt(e->u->builder, place, i32_type(e), "");
}

/* ---- barriers ---- */

LLVMValueRef gpu_count_up(CpuCode *e, LLVMValueRef counter, LLVMValueRef last)
{
    return gpu_assembly(e, i32_type(e), "atom.global.inc.u32 $0, [$1], $2;", "=r,l,r,~{memory}", (LLVMValueRef[]){counter, last}, 2, true);
}

void gpu_barrier_init(CpuCode *e, LLVMValueRef bar, int arrivals)
{
    act(e, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", (LLVMValueRef[]){bar, i32_number(e, arrivals)}, 2);
}

void gpu_barriers_ready(CpuCode *e) { act(e, "fence.mbarrier_init.release.cluster;", "~{memory}", NULL, 0); }

void gpu_barrier_wait(CpuCode *e, LLVMValueRef bar, LLVMValueRef parity)
{
    act(e, "{\n.reg .pred P;\nW_${:uid}:\nmbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1;\n@P bra D_${:uid};\nbra W_${:uid};\nD_${:uid}:\n}",
        "r,r,~{memory}", (LLVMValueRef[]){bar, parity}, 2);
}

LLVMValueRef gpu_barrier_peek(CpuCode *e, LLVMValueRef bar, LLVMValueRef parity)
{
    return gpu_assembly(e, i32_type(e), "{\n.reg .pred P;\nmbarrier.try_wait.parity.shared::cta.b64 P, [$1], $2;\nselp.u32 $0, 1, 0, P;\n}",
                        "=r,r,r,~{memory}", (LLVMValueRef[]){bar, parity}, 2, true);
}

void gpu_barrier_wait_unless(CpuCode *e, LLVMValueRef over, LLVMValueRef bar, LLVMValueRef parity)
{
    act(e, "{\n.reg .pred P;\nsetp.ne.u32 P, $2, 0;\n@P bra D_${:uid};\nW_${:uid}:\nmbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1;\n"
           "@P bra D_${:uid};\nbra W_${:uid};\nD_${:uid}:\n}",
        "r,r,r,~{memory}", (LLVMValueRef[]){bar, parity, over}, 3);
}

void gpu_barrier_arrive(CpuCode *e, LLVMValueRef bar) { act(e, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", &bar, 1); }

void gpu_barrier_expect_some(CpuCode *e, LLVMValueRef bar, LLVMValueRef bytes)
{
    act(e, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", (LLVMValueRef[]){bar, bytes}, 2);
}

void gpu_barrier_expect(CpuCode *e, LLVMValueRef bar, int64_t bytes) { gpu_barrier_expect_some(e, bar, i32_number(e, bytes)); }

LLVMValueRef gpu_in_block(CpuCode *e, LLVMValueRef at, LLVMValueRef block)
{
    LLVMValueRef x = gpu_assembly(e, i32_type(e), "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", (LLVMValueRef[]){at, block}, 2, false);

    gpu_assembly_pure(e, x);
    return x;
}

void gpu_cluster_arrive(CpuCode *e) { act(e, "barrier.cluster.arrive.relaxed;", "~{memory}", NULL, 0); }

void gpu_cluster_wait(CpuCode *e) { act(e, "barrier.cluster.wait;", "~{memory}", NULL, 0); }

void gpu_cluster_barrier(CpuCode *e)
{
    gpu_cluster_arrive(e);
    gpu_cluster_wait(e);
}

void gpu_cluster_meet(CpuCode *e) { act(e, "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;", "~{memory}", NULL, 0); }

/* Spelled .release.cluster it waits until all that the thread stored anywhere is seen by the whole chip. */
void gpu_barrier_arrive_at(CpuCode *e, LLVMValueRef at)
{
    act(e, "mbarrier.arrive.shared::cluster.b64 _, [$0];", "r,~{memory}", &at, 1);
}

void gpu_barrier_wait_others(CpuCode *e, LLVMValueRef bar, LLVMValueRef parity)
{
    act(e, "{\n.reg .pred P;\nW_${:uid}:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P, [$0], $1;\n@P bra D_${:uid};\n"
           "bra W_${:uid};\nD_${:uid}:\n}",
        "r,r,~{memory}", (LLVMValueRef[]){bar, parity}, 2);
}

void gpu_store_at(CpuCode *e, LLVMValueRef at, LLVMValueRef x, LLVMValueRef bar)
{
    bool wide = LLVMTypeOf(x) == i64_type(e) || LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMDoubleTypeKind;
    const char *text = wide ? "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [$0], $1, [$2];"
                            : "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $1, [$2];";

    x = LLVMBuildBitCast(e->u->builder, x, wide ? i64_type(e) : i32_type(e), "");
    act(e, text, wide ? "r,l,r,~{memory}" : "r,r,r,~{memory}", (LLVMValueRef[]){at, x, bar}, 3);
}

void gpu_named_barrier(CpuCode *e, LLVMValueRef id, int threads)
{
    act(e, "bar.sync $0, $1;", "r,r,~{memory}", (LLVMValueRef[]){id, i32_number(e, threads)}, 2);
}

void gpu_named_arrive(CpuCode *e, LLVMValueRef id, int threads)
{
    act(e, "bar.arrive $0, $1;", "r,r,~{memory}", (LLVMValueRef[]){id, i32_number(e, threads)}, 2);
}

void gpu_keep_registers(CpuCode *e, int n, bool more)
{
    LLVMValueRef count = i32_number(e, n);

    act(e, more ? "setmaxnreg.inc.sync.aligned.u32 $0;" : "setmaxnreg.dec.sync.aligned.u32 $0;", "n,~{memory}", &count, 1);
}

/* ---- tensor copies ---- */

/* "{$first, ...}" of so many operands. */
static void put_list(StrBuf *text, int first, int n)
{
    sb_puts(text, "{");
    for (int i = 0; i < n; i++)
        sb_printf(text, "%s$%d", i ? ", " : "", first + i);
    sb_puts(text, "}");
}

/* blocks: does a load go to several of them? */
static void copy_tensor(CpuCode *e, const char *instruction, LLVMValueRef *in, int before, const LLVMValueRef *at, int rank, bool load, bool blocks)
{
    StrBuf text = {0}, constraints = {0};

    memcpy(in + before, at, sizeof *at * (size_t)rank);
    sb_printf(&text, instruction, rank);
    sb_puts(&text, load ? " [$0], [$1, " : " [$0, ");
    put_list(&text, before, rank);
    sb_puts(&text, blocks ? "], [$2], $3;" : load ? "], [$2];" : "], [$1];");
    sb_puts(&constraints, blocks ? "r,l,r,h," : load ? "r,l,r," : "l,r,");
    for (int i = 0; i < rank; i++)
        sb_puts(&constraints, "r,");
    sb_puts(&constraints, "~{memory}");
    act(e, sb_str(&text), sb_str(&constraints), in, before + rank);
    sb_done(&text);
    sb_done(&constraints);
}

void gpu_bulk_load(CpuCode *e, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes, LLVMValueRef bar)
{
    from = LLVMBuildAddrSpaceCast(e->u->builder, from, LLVMPointerTypeInContext(e->u->context, 1), "");
    from = LLVMBuildPtrToInt(e->u->builder, from, i64_type(e), "");
    act(e, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];", "r,l,r,r,~{memory}",
        (LLVMValueRef[]){to, from, bytes, bar}, 4);
}

void gpu_tensor_load(CpuCode *e, LLVMValueRef to, LLVMValueRef map, LLVMValueRef *at, int rank, LLVMValueRef bar)
{
    LLVMValueRef in[8] = {to, map, bar};

    copy_tensor(e, "cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes", in, 3, at, rank, true, false);
}

void gpu_tensor_load_all(CpuCode *e, LLVMValueRef to, LLVMValueRef map, LLVMValueRef *at, int rank, LLVMValueRef bar, LLVMValueRef blocks)
{
    LLVMValueRef in[9] = {to, map, bar, blocks};

    copy_tensor(e, "cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster", in, 4, at, rank, true, true);
}

void gpu_tensor_store(CpuCode *e, LLVMValueRef map, LLVMValueRef *at, int rank, LLVMValueRef from)
{
    LLVMValueRef in[8] = {map, from};

    copy_tensor(e, "cp.async.bulk.tensor.%dd.global.shared::cta.bulk_group", in, 2, at, rank, false, false);
}

void gpu_tensor_commit(CpuCode *e) { act(e, "cp.async.bulk.commit_group;", "~{memory}", NULL, 0); }

void gpu_tensor_wait(CpuCode *e, int but, bool read)
{
    LLVMValueRef n = i32_number(e, but);

    act(e, read ? "cp.async.bulk.wait_group.read $0;" : "cp.async.bulk.wait_group $0;", "n,~{memory}", &n, 1);
}

void gpu_proxy_fence(CpuCode *e) { act(e, "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0); }
void gpu_prefetch(CpuCode *e, LLVMValueRef at) { act(e, "prefetch.global.L2 [$0];", "l,~{memory}", &at, 1); }
void gpu_prefetch_map(CpuCode *e, LLVMValueRef map) { act(e, "prefetch.tensormap [$0];", "l,~{memory}", &map, 1); }

/* ---- matrices ---- */

void gpu_store_matrices(CpuCode *e, LLVMValueRef at, LLVMValueRef *word)
{
    act(e, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1,$2,$3,$4};", "r,r,r,r,r,~{memory}",
        (LLVMValueRef[]){at, word[0], word[1], word[2], word[3]}, 5);
}

void gpu_load_matrices(CpuCode *e, LLVMValueRef at, bool turned, LLVMValueRef *word)
{
    LLVMTypeRef one = i32_type(e), four = LLVMStructTypeInContext(e->u->context, (LLVMTypeRef[]){one, one, one, one}, 4, false);
    const char *text = turned ? "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0,$1,$2,$3}, [$4];"
                              : "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0,$1,$2,$3}, [$4];";
    LLVMValueRef all = gpu_assembly(e, four, text, "=r,=r,=r,=r,r,~{memory}", &at, 1, true);

    for (unsigned i = 0; i < 4; i++)
        word[i] = LLVMBuildExtractValue(e->u->builder, all, i, "");
}

LLVMValueRef gpu_pack(CpuCode *e, DType dt, LLVMValueRef low, LLVMValueRef high)
{
    const char *text = dt == DT_bf16 ? "cvt.rn.bf16x2.f32 $0, $1, $2;" : "cvt.rn.f16x2.f32 $0, $1, $2;";

    LLVMValueRef word = gpu_assembly(e, i32_type(e), text, "=r,f,f", (LLVMValueRef[]){high, low}, 2, false);

    gpu_assembly_pure(e, word);
    return word;
}

/* ---- products ---- */

void gpu_wgmma_fence(CpuCode *e) { act(e, "wgmma.fence.sync.aligned;", "~{memory}", NULL, 0); }
void gpu_wgmma_commit(CpuCode *e) { act(e, "wgmma.commit_group.sync.aligned;", "~{memory}", NULL, 0); }

/* An instruction that changes n registers of one type in place; further operands come behind them. */
static void in_place(CpuCode *e, const char *text, LLVMValueRef *x, int n, const LLVMValueRef *more, int nmore, const char *last)
{
    LLVMTypeRef type, *types = tsr_alloc(sizeof *types * (size_t)n);
    LLVMValueRef *in = tsr_alloc(sizeof *in * (size_t)(n + nmore)), all;
    StrBuf constraints = {0};

    for (int i = 0; i < n; i++) {
        types[i] = LLVMTypeOf(x[0]);
        in[i] = x[i];
        sb_puts(&constraints, LLVMGetTypeKind(types[i]) == LLVMFloatTypeKind ? "=f," : "=r,");
    }
    for (int i = 0; i < n; i++)
        sb_printf(&constraints, "%d%s", i, i + 1 < n || nmore ? "," : "");
    for (int i = 0; i < nmore; i++) {
        in[n + i] = more[i];
        sb_puts(&constraints, LLVMTypeOf(more[i]) == i64_type(e) ? "l" : "r");
        sb_puts(&constraints, i + 1 < nmore ? "," : "");
    }
    sb_puts(&constraints, last);
    type = LLVMStructTypeInContext(e->u->context, types, (unsigned)n, false);
    all = gpu_assembly(e, type, text, sb_str(&constraints), in, n + nmore, true);
    for (int i = 0; i < n; i++)
        x[i] = LLVMBuildExtractValue(e->u->builder, all, (unsigned)i, "");
    sb_done(&constraints);
    tsr_free(types);
    tsr_free(in);
}

/* a: of one descriptor, or of four words. */
static void multiply(CpuCode *e, const Wgmma *w, const LLVMValueRef *a, int words, LLVMValueRef b, bool add, LLVMValueRef *sum)
{
    int n = w->columns / 2;
    LLVMValueRef more[5] = {NULL};
    StrBuf text = {0};

    memcpy(more, a, sizeof *a * (size_t)words);
    more[words] = b;
    sb_printf(&text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s ", w->columns, w->steps, w->name);
    put_list(&text, 0, n);
    if (words == 1) {
        sb_printf(&text, ", $%d", n * 2);
    } else {
        sb_puts(&text, ", ");
        put_list(&text, n * 2, words);
    }
    sb_printf(&text, ", $%d, %d", 2 * n + words, add);
    if (w->real)
        sb_puts(&text, ", 1, 1");
    if (w->steps == 16 && words == 1)
        sb_printf(&text, ", %d", w->turned[0]);
    if (w->steps == 16)
        sb_printf(&text, ", %d", w->turned[1]);
    sb_puts(&text, ";");
    in_place(e, sb_str(&text), sum, n, more, words + 1, "");
    sb_done(&text);
}

void gpu_wgmma(CpuCode *e, const Wgmma *w, LLVMValueRef a, LLVMValueRef b, bool add, LLVMValueRef *sum) { multiply(e, w, &a, 1, b, add, sum); }

void gpu_wgmma_registers(CpuCode *e, const Wgmma *w, const LLVMValueRef *a, LLVMValueRef b, bool add, LLVMValueRef *sum)
{
    multiply(e, w, a, 4, b, add, sum);
}

void gpu_wgmma_wait(CpuCode *e, int but, LLVMValueRef *sum, int n)
{
    char text[64];

    snprintf(text, sizeof text, "wgmma.wait_group.sync.aligned %d;", but);
    in_place(e, text, sum, n, NULL, 0, ",~{memory}");
}

void gpu_compute_here(CpuCode *e, LLVMValueRef *x, int n) { in_place(e, "", x, n, NULL, 0, ""); }

/* Is it so for any thread of the warp, all of which are here? */
LLVMValueRef gpu_any(CpuCode *e, LLVMValueRef is)
{
    LLVMValueRef in[2] = {i32_number(e, -1), is};

    return cpu_intrinsic(e, "llvm.nvvm.vote.any.sync", &(LLVMTypeRef){NULL}, 0, in, 2);
}

/* ---- asynchronous copies ---- */

void gpu_copy_piece(CpuCode *e, LLVMValueRef to, LLVMValueRef from, bool shared)
{
    LLVMValueRef in[2];

    to = LLVMBuildAddrSpaceCast(e->u->builder, to, LLVMPointerTypeInContext(e->u->context, 3), "");
    from = LLVMBuildAddrSpaceCast(e->u->builder, from, LLVMPointerTypeInContext(e->u->context, 1), "");
    in[0] = LLVMBuildPtrToInt(e->u->builder, to, i32_type(e), "");
    in[1] = LLVMBuildPtrToInt(e->u->builder, from, LLVMInt64TypeInContext(e->u->context), "");
    gpu_assembly(e, LLVMVoidTypeInContext(e->u->context),
                 shared ? "cp.async.ca.shared.global [$0], [$1], 16;" : "cp.async.cg.shared.global [$0], [$1], 16;", "r,l,~{memory}", in, 2, true);
}

void gpu_copy_part(CpuCode *e, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes)
{
    LLVMValueRef in[3] = {gpu_shared_address(e, to)};

    from = LLVMBuildAddrSpaceCast(e->u->builder, from, LLVMPointerTypeInContext(e->u->context, 1), "");
    in[1] = LLVMBuildPtrToInt(e->u->builder, from, LLVMInt64TypeInContext(e->u->context), "");
    in[2] = LLVMBuildTrunc(e->u->builder, bytes, i32_type(e), "");
    gpu_assembly(e, LLVMVoidTypeInContext(e->u->context), "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r,~{memory}", in, 3, true);
}

void gpu_commit_copies(CpuCode *e)
{
    gpu_assembly(e, LLVMVoidTypeInContext(e->u->context), "cp.async.commit_group;", "~{memory}", NULL, 0, true);
}

void gpu_wait_copies(CpuCode *e, int but)
{
    LLVMValueRef n = i32_number(e, but);

    gpu_assembly(e, LLVMVoidTypeInContext(e->u->context), "cp.async.wait_group $0;", "n,~{memory}", &n, 1, true);
}
