/*
 * Formulas of a bf16 behind products by warpgroups: tables.
 *
 * What is a long formula of one bf16 and gives a bf16, as GELU behind a product and its bias is, has 65,536 values. Before its first tile a
 * block computes those of 0 and of all numbers from 2^-28 to below 2^4, of either sign, by the formula itself, and keeps them in 16 KB of
 * shared memory. Elements of tiles look theirs up. Where one of a warp's is none of these numbers, the warp computes the formula for what it
 * has at hand, so the bits are those of the formula in any case. (Of sums of two bf16 one in a thousand is 0.)
 */
#include "codegen/gpu_roles.h"

#include "codegen/cpu_lane.h"

enum { MANTISSA = 7, SIDE = 32 << MANTISSA, SIGN = 1 << 15, TABLE_BYTES = 2 * 2 * SIDE };
enum { FIRST = (99 << MANTISSA) - 1 };          /* it stands for 0, before 2^-28 */
enum { AT_ONCE = 16, TABLE_BARRIER = 15, TWICE = 0x10001 };

/* Are all of v's operands that are no tiles numbers of the program? */
static bool has_numbers_alone(TileRef v, TileRef seed)
{
    const TileNode *n = v.node;

    if (cpu_same(v, seed) || n->op == TOP_const)
        return true;
    if (n->op != TOP_map && n->op != TOP_splat)
        return false;
    for (int i = 0; i < n->nin; i++)
        if (!has_numbers_alone(n->in[i], seed))
            return false;
    return true;
}

/* The only tile that is stored; what comes with tiles of its own would have to be brought again where slabs go on. */
int64_t roles_find_table(Roles *r)
{
    const TileNode *store = r->nstores == 1 && !r->nlate ? r->store[0].store : NULL;
    TileRef whole, seed;

    if (!store)
        return 0;
    whole = store->in[store->nin - 1];
    seed = role_seed(whole, r->store[0].span);
    if (!seed.node || tile_type(seed)->dtype != DT_bf16 || tile_type(whole)->dtype != DT_bf16 || !has_numbers_alone(whole, seed))
        return 0;
    r->tabled = whole;
    r->tabled_seed = seed;
    return TABLE_BYTES;
}

static void emit_numbers(CpuCode *e, TileRef v, TileRef seed)
{
    if (cpu_same(v, seed))
        return;
    if (v.node->op == TOP_const)
        cpu_val(e, v)->x = cpu_scalar(e, v.node);
    for (int i = 0; i < v.node->nin; i++)
        emit_numbers(e, v.node->in[i], seed);
}

static LLVMValueRef place_at(CpuCode *e, LLVMValueRef byte)
{
    LLVMValueRef at = op32(e, LLVMAdd, plus(e, byte, roles(e)->base), roles(e)->table);

    return LLVMBuildIntToPtr(e->u->builder, at, LLVMPointerTypeInContext(e->u->context, 3), "");
}

/* The bits of so many numbers from entry `first` on, which are of one sign: the first entry is that of 0. */
static LLVMValueRef numbers_from(CpuCode *e, LLVMValueRef first)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef raw = LLVMVectorType(LLVMInt16TypeInContext(e->u->context), AT_ONCE);
    LLVMValueRef x, each[AT_ONCE], none[AT_ONCE], zero;

    x = LLVMBuildOr(b, op32(e, LLVMAdd, op32(e, LLVMAnd, first, SIDE - 1), FIRST), op32(e, LLVMMul, op32(e, LLVMUDiv, first, SIDE), SIGN), "");
    x = LLVMBuildTrunc(b, x, LLVMInt16TypeInContext(e->u->context), "");
    for (int i = 0; i < AT_ONCE; i++) {
        each[i] = LLVMConstInt(LLVMInt16TypeInContext(e->u->context), (unsigned)i, false);
        none[i] = i32_number(e, 0);
    }
    x = LLVMBuildInsertElement(b, LLVMGetUndef(raw), x, i32_number(e, 0), "");
    x = LLVMBuildAdd(b, LLVMBuildShuffleVector(b, x, x, LLVMConstVector(none, AT_ONCE), ""), LLVMConstVector(each, AT_ONCE), "");
    zero = LLVMBuildAnd(b, LLVMBuildExtractElement(b, x, i32_number(e, 0), ""), LLVMConstInt(LLVMInt16TypeInContext(e->u->context), SIGN, false), "");
    zero = LLVMBuildInsertElement(b, x, zero, i32_number(e, 0), "");
    return cpu_choose(e, LLVMBuildICmp(b, LLVMIntEQ, op32(e, LLVMAnd, first, SIDE - 1), i32_number(e, 0), ""), zero, x);
}

void role_make_table(CpuCode *e)
{
    Roles *r = roles(e);
    int threads = r->sets * r->threads;
    CpuLoop l;

    if (!r->tabled.node)
        return;
    emit_numbers(e, r->tabled, r->tabled_seed);
    l = cpu_loop(e, cpu_op(e, LLVMMul, gpu_lane(e), cpu_number(e, AT_ONCE)), wide(e, gpu_anew(e, i32_number(e, 2 * SIDE))),
                 cpu_number(e, (int64_t)threads * AT_ONCE));
    LLVMValueRef first = narrow(e, l.i), y = role_formula(e, r->tabled, r->tabled_seed, numbers_from(e, first), AT_ONCE);
    LLVMSetAlignment(LLVMBuildStore(e->u->builder, y, place_at(e, op32(e, LLVMMul, first, 2))), 2 * AT_ONCE);
    cpu_loop_end(e, &l);
    gpu_named_barrier(e, i32_number(e, TABLE_BARRIER), threads);
}

/* The greater of the halves of two words each. */
static LLVMValueRef greater_halves(CpuCode *e, LLVMValueRef x, int64_t y)
{
    LLVMValueRef in[2] = {x, i32_number(e, y)};

    return gpu_assembly(e, i32_type(e), "max.u16x2 $0, $1, $2;", "=r,r,r", in, 2, false);
}

/*
 * Words of two bf16 each become the entries' bytes: of the lower one in the lower half. *beyond: it has bits where a number is none of the table: a
 * larger one than those, or a smaller one that is not 0. Half of a word plus 2^15 - 1 has its upper bit where it is not 0.
 */
static void find_entries(CpuCode *e, LLVMValueRef *word, int n, LLVMValueRef *beyond)
{
    enum { ALL = SIGN - 1 };
    LLVMBuilderRef b = e->u->builder;
    LLVMValueRef large = i32_number(e, 0), small = large;

    for (int i = 0; i < n; i++) {
        LLVMValueRef size = op32(e, LLVMAnd, word[i], (int64_t)ALL * TWICE), entry, sign, none;
        entry = op32(e, LLVMSub, greater_halves(e, size, (int64_t)FIRST * TWICE), (int64_t)FIRST * TWICE);
        none = LLVMBuildNot(b, op32(e, LLVMAdd, entry, (int64_t)ALL * TWICE), "");
        large = LLVMBuildOr(b, large, entry, "");
        small = LLVMBuildOr(b, small, LLVMBuildAnd(b, op32(e, LLVMAdd, size, (int64_t)ALL * TWICE), none, ""), "");
        sign = op32(e, LLVMAnd, op32(e, LLVMLShr, word[i], 2), (int64_t)2 * SIDE * TWICE);
        word[i] = LLVMBuildOr(b, op32(e, LLVMAnd, op32(e, LLVMShl, entry, 1), (int64_t)2 * (SIDE - 1) * TWICE), sign, "");
    }
    *beyond = LLVMBuildOr(b, op32(e, LLVMAnd, large, (int64_t)(SIGN - SIDE) * TWICE), op32(e, LLVMAnd, small, (int64_t)SIGN * TWICE), "");
}

LLVMValueRef role_find_in_table(CpuCode *e, LLVMValueRef *word, int n)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMTypeRef half = LLVMInt16TypeInContext(e->u->context);
    LLVMValueRef beyond, found, part[2];

    find_entries(e, word, n, &beyond);
    found = LLVMBuildNot(b, gpu_any(e, LLVMBuildICmp(b, LLVMIntNE, beyond, i32_number(e, 0), "")), "");
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            LLVMValueRef at = k ? op32(e, LLVMLShr, word[i], 16) : op32(e, LLVMAnd, word[i], 0xFFFF);
            part[k] = LLVMBuildLoad2(b, half, place_at(e, at), "");
            LLVMSetAlignment(part[k], 2);
            part[k] = LLVMBuildZExt(b, part[k], i32_type(e), "");
        }
        word[i] = LLVMBuildOr(b, part[0], op32(e, LLVMShl, part[1], 16), "");
    }
    return found;
}
