/*
 * Copies of views that a kernel asks for.
 *
 * One from global into shared memory is asynchronous (cp.async): pieces of 16
 * bytes, a thread one after another, where rows on both sides begin at such and
 * are made of such, which is asked when the kernel runs. What lies outside of the
 * tensor is zeros: the instruction reads the part of a piece that is there. All
 * others go an element a thread, and are there at once, which no program may see.
 *
 * Batches and waits are a thread's own; the fence before somebody reads what
 * arrived is behind the wait. In such a kernel nothing else is brought ahead, so
 * that the batches which a wait counts are the program's (gpu_matrix.c, gpu_rows_ahead.c).
 */
#include "codegen/gpu_impl.h"

enum { PIECE = 16 };

static LLVMValueRef product_of_extents(CpuCode *e, const TileType *t, const Val *v)
{
    LLVMValueRef count = cpu_number(e, 1);

    for (int i = 0; i < t->rank; i++)
        count = cpu_op(e, LLVMMul, count, v->extent[i]);
    return count;
}

static LLVMValueRef place(CpuCode *e, DType dt, const Val *v, LLVMValueRef elements)
{
    LLVMValueRef bytes = cpu_op(e, LLVMMul, elements, cpu_number(e, (int64_t)raw_size(dt)));

    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), v->x, &bytes, 1, "");
}

/* ---- elements ---- */

static void copy_elements(CpuCode *e, const TileNode *n)
{
    const TileType *t = tile_type(n->in[0]);
    const Val *to = cpu_val(e, n->in[0]), *from = cpu_val(e, n->in[1]);
    DType dt = (DType)t->dtype;
    LLVMValueRef at[2] = {cpu_number(e, 0), cpu_number(e, 0)}, inside = LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false), rest, x;
    CpuLoop l = gpu_share(e, product_of_extents(e, t, to));

    rest = l.i;
    for (int i = t->rank - 1; i >= 0; i--) {
        LLVMValueRef here = i ? LLVMBuildURem(e->u->builder, rest, to->extent[i], "") : rest;
        rest = i ? LLVMBuildUDiv(e->u->builder, rest, to->extent[i], "") : rest;
        inside = LLVMBuildAnd(e->u->builder, inside, cpu_compare(e, LLVMIntSLT, here, from->extent[i]), "");
        at[0] = cpu_op(e, LLVMAdd, at[0], cpu_op(e, LLVMMul, here, to->stride[i]));
        at[1] = cpu_op(e, LLVMAdd, at[1], cpu_op(e, LLVMMul, here, from->stride[i]));
    }
    x = gpu_load_if(e, dt, place(e, dt, from, at[1]), inside, cpu_fill(e, dt, n));
    lanes_store(e->u, dt, place(e, dt, to, at[0]), cpu_number(e, 0), x, 1);
    cpu_loop_end(e, &l);
}

/* ---- pieces ---- */

static bool may_be_pieces(const TileNode *n)
{
    const TileType *to = tile_type(n->in[0]), *from = tile_type(n->in[1]);
    int last = to->rank - 1;

    return n->op == TOP_copy_async && last >= 0 && to->space == SPACE_SHARED && from->space == SPACE_GLOBAL && to->stride[last] == 1 &&
           from->stride[last] == 1;
}

static LLVMValueRef low_bits(CpuCode *e, LLVMValueRef all, LLVMValueRef elements, DType dt)
{
    return LLVMBuildOr(e->u->builder, all, cpu_op(e, LLVMMul, elements, cpu_number(e, (int64_t)raw_size(dt))), "");
}

/* Do both sides begin at pieces, in every row, and has a row whole ones? */
static LLVMValueRef are_pieces(CpuCode *e, const TileNode *n)
{
    const TileType *t = tile_type(n->in[0]);
    const Val *v[2] = {cpu_val(e, n->in[0]), cpu_val(e, n->in[1])};
    LLVMValueRef all = low_bits(e, cpu_number(e, 0), v[0]->extent[t->rank - 1], (DType)t->dtype);

    for (int k = 0; k < 2; k++) {
        all = LLVMBuildOr(e->u->builder, all, LLVMBuildPtrToInt(e->u->builder, v[k]->x, i64_type(e), ""), "");
        for (int i = 0; i < t->rank - 1; i++)
            all = low_bits(e, all, v[k]->stride[i], (DType)t->dtype);
    }
    all = LLVMBuildAnd(e->u->builder, all, cpu_number(e, PIECE - 1), "");
    return cpu_compare(e, LLVMIntEQ, all, cpu_number(e, 0));
}

static void send_pieces(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef b = e->u->builder;
    const TileType *t = tile_type(n->in[0]);
    const Val *to = cpu_val(e, n->in[0]), *from = cpu_val(e, n->in[1]);
    DType dt = (DType)t->dtype;
    int last = t->rank - 1;
    LLVMValueRef each = cpu_number(e, PIECE / (int64_t)raw_size(dt)), none = cpu_number(e, 0), at[2] = {none, none}, rest, there;
    CpuLoop l = gpu_share(e, LLVMBuildUDiv(b, product_of_extents(e, t, to), each, ""));

    rest = l.i;
    there = each;
    for (int i = last; i >= 0; i--) {
        LLVMValueRef many = i == last ? LLVMBuildUDiv(b, to->extent[i], each, "") : to->extent[i];
        LLVMValueRef here = i ? LLVMBuildURem(b, rest, many, "") : rest, left;
        rest = i ? LLVMBuildUDiv(b, rest, many, "") : rest;
        here = i == last ? cpu_op(e, LLVMMul, here, each) : here;
        left = LLVMBuildSub(b, from->extent[i], here, "");
        if (i < last)
            left = LLVMBuildSelect(b, cpu_compare(e, LLVMIntSGT, left, none), each, none, "");
        there = LLVMBuildSelect(b, cpu_compare(e, LLVMIntSLT, left, there), left, there, "");
        at[0] = cpu_op(e, LLVMAdd, at[0], cpu_op(e, LLVMMul, here, to->stride[i]));
        at[1] = cpu_op(e, LLVMAdd, at[1], cpu_op(e, LLVMMul, here, from->stride[i]));
    }
    there = LLVMBuildSelect(b, cpu_compare(e, LLVMIntSGT, there, none), there, none, "");
    at[1] = LLVMBuildSelect(b, cpu_compare(e, LLVMIntSGT, there, none), at[1], none, "");
    gpu_copy_part(e, place(e, dt, to, at[0]), place(e, dt, from, at[1]), cpu_op(e, LLVMMul, there, cpu_number(e, (int64_t)raw_size(dt))));
    cpu_loop_end(e, &l);
}

void gpu_copy_view(CpuCode *e, const TileNode *n)
{
    cpu_settle(e, n);
    gpu_fence(e);
    if (may_be_pieces(n)) {
        LLVMValueRef pieces = are_pieces(e, n);
        GpuIf yes = gpu_if(e, pieces), no;
        send_pieces(e, n);
        gpu_end_if(e, &yes);
        no = gpu_if(e, LLVMBuildNot(e->u->builder, pieces, ""));
        copy_elements(e, n);
        gpu_end_if(e, &no);
    } else {
        copy_elements(e, n);
    }
    gpu_written(e);
}

void gpu_copy_batch(CpuCode *e, const TileNode *n)
{
    cpu_settle(e, n);
    if (n->op == TOP_commit) {
        gpu_commit_copies(e);
        return;
    }
    gpu_wait_copies(e, (int)n->attr->i);
    gpu_written(e);                             /* by others, too, whose waits are behind them at the next fence */
}
