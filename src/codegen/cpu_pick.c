/*
 * gather: rows of a view by number, each into its row of a buffer.
 */
#include "codegen/cpu_impl.h"

typedef struct Pick {
    const TileNode *n;
    DType dt;
    LLVMValueRef fill;          /* raw */
    int width;                  /* of vectors along the last axis */
} Pick;

/* The number that a row has in the view. */
static LLVMValueRef row_number(CpuCode *e, const TileNode *n, LLVMValueRef i)
{
    DType dt = (DType)tile_type(n->in[1])->dtype;
    Spot p = {.at = {i}, .strip = -1};

    e->width = 1;
    e->known.n = 0;
    return lanes_convert(e->u, DT_int64, dt, NULL, cpu_raw(e, n->in[1], &p), NULL, NULL, 1);
}

/* The elements of a strip of a row, raw: those outside are the fill. */
static LLVMValueRef elements(CpuCode *e, const Pick *p, const LLVMValueRef *at)
{
    const Val *view = cpu_val(e, p->n->in[0]);
    int last = p->n->type[0].rank - 1, width = p->width;
    LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(e->u->context), raw_size(p->dt));
    LLVMValueRef place = cpu_number(e, 0), inside = LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false), in[4];
    LLVMTypeRef over[2];

    for (int i = 0; i <= last; i++) {
        place = cpu_op(e, LLVMAdd, place, cpu_op(e, LLVMMul, at[i], view->stride[i]));
        if (i < last || width == 1)
            inside = LLVMBuildAnd(e->u->builder, inside, cpu_compare(e, LLVMIntULT, at[i], view->extent[i]), "");
    }
    place = LLVMBuildGEP2(e->u->builder, bytes, view->x, &place, 1, "");
    if (width == 1) {
        LLVMValueRef slot = llvm_slot(e->u, LLVMArrayType2(LLVMInt64TypeInContext(e->u->context), 2));
        lanes_store(e->u, p->dt, slot, cpu_number(e, 0), p->fill, 1);
        return lanes_load(e->u, p->dt, cpu_choose(e, inside, place, slot), cpu_number(e, 0), 1);
    }
    e->width = width;
    in[0] = place;
    in[1] = LLVMConstInt(LLVMInt32TypeInContext(e->u->context), raw_size(p->dt), false);
    in[2] = cpu_lane_mask(e, at[last], view->extent[last], false, inside);
    in[3] = lane_splat(e->u, p->fill, width);
    over[0] = LLVMTypeOf(in[3]);
    over[1] = LLVMTypeOf(place);
    return cpu_intrinsic(e, "llvm.masked.load", over, 2, in, 4);
}

static void choose_width(CpuCode *e, Pick *p)
{
    const TileType *view = tile_type(p->n->in[0]), *t = &p->n->type[0];

    p->width = 1;
    if (t->rank < 2 || view->stride[t->rank - 1] != 1 || dtype_is_complex(p->dt))
        return;
    p->width = e->u->machine->vector_bytes / (int)raw_size(lane_dtype(p->dt));
    while (p->width > 1 && p->width / 2 >= t->extent[t->rank - 1])
        p->width /= 2;
}

/* A strip that reaches over its row's end is mended by the next row, and behind the last one there is room. */
void cpu_pick(CpuCode *e, const TileNode *n)
{
    const TileType *t = &n->type[0];
    Pick p = {.n = n, .dt = (DType)t->dtype};
    LLVMValueRef to = cpu_buffer(e, cpu_tile_bytes(t)), at[TILE_RANK_MAX], raw, row = NULL;
    CpuLoop l[TILE_RANK_MAX];
    Spot spot = {.strip = t->rank - 1};
    int stride;

    cpu_need(e, n->in[1]);
    cpu_close(e);
    p.fill = cpu_fill(e, p.dt, n);
    choose_width(e, &p);
    for (int i = 0; i < t->rank; i++) {
        l[i] = cpu_loop(e, cpu_number(e, 0), cpu_number(e, t->extent[i]), cpu_number(e, i == t->rank - 1 ? p.width : 1));
        spot.at[i] = at[i] = l[i].i;
        row = i ? row : row_number(e, n, l[0].i);
    }
    at[0] = row;
    raw = elements(e, &p, at);
    e->width = p.width;
    cpu_store_flat(e, p.dt, to, cpu_flat(e, t, &spot, &stride), lanes_of_raw(e->u, p.dt, raw, p.width), NULL);
    for (int i = t->rank - 1; i >= 0; i--)
        cpu_loop_end(e, &l[i]);
    e->width = 1;
    cpu_val(e, (TileRef){(TileNode *)n, 0})->x = to;
}
