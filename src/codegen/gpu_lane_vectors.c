/*
 * Neighbouring elements that a lane loads or stores one after another, as
 * tile.load_vector and tile.store_vector do, as one vector of at most 16 bytes
 * (ld.global.v4): where they are in the view and the first of them begins at such
 * a vector, which each lane asks when it gets there; else one by one.
 *
 * Where a kernel says that accesses lie within their view and move so many elements at once (`within`, `vector`) nobody asks.
 *
 * Places are compared as sums of what they are computed from, since each access
 * has its index worked out anew. Between the accesses there is nothing but that.
 */
#include "codegen/gpu_impl.h"

enum { VECTOR_BYTES = 16, VECTOR_LANES = 16, TERMS = 8, DEPTH = 24 };

/* ---- how far places lie apart ---- */

/* c and multiples of what no sum or product by a number is. */
typedef struct Sum { int n; int64_t c; struct { const TileNode *leaf; int index; int64_t k; } t[TERMS]; bool lost; } Sum;

static bool same_leaf(const TileNode *a, int i, const TileNode *b, int j)
{
    return (a == b && i == j) || (a->op == b->op && ((a->op == TOP_lane) || (a->op == TOP_group && a->attr->axis == b->attr->axis) ||
                                                     (a->op == TOP_size && a->attr->name == b->attr->name)));
}

static void add_leaf(Sum *s, TileRef v, int64_t k)
{
    for (int i = 0; i < s->n; i++)
        if (same_leaf(s->t[i].leaf, s->t[i].index, v.node, v.index)) {
            s->t[i].k += k;
            return;
        }
    s->lost |= s->n == TERMS;
    if (s->lost)
        return;
    s->t[s->n].leaf = v.node;
    s->t[s->n].index = v.index;
    s->t[s->n++].k = k;
}

static void add(Sum *s, TileRef v, int64_t k, int depth)
{
    const TileNode *n = v.node;

    if (n->op == TOP_index) {
        s->c += k * n->attr->i;
    } else if ((n->op == TOP_iadd || n->op == TOP_isub) && depth < DEPTH) {
        add(s, n->in[0], k, depth + 1);
        add(s, n->in[1], n->op == TOP_iadd ? k : -k, depth + 1);
    } else if (n->op == TOP_imul && depth < DEPTH && (n->in[0].node->op == TOP_index || n->in[1].node->op == TOP_index)) {
        int number = n->in[1].node->op == TOP_index;
        add(s, n->in[!number], k * n->in[number].node->attr->i, depth + 1);
    } else {
        add_leaf(s, v, k);
    }
}

/* Is b the place by elements behind a? */
static bool lies_behind(TileRef a, TileRef b, int64_t by)
{
    Sum s = {.n = 0};

    add(&s, b, 1, 0);
    add(&s, a, -1, 0);
    for (int i = 0; i < s.n; i++)
        if (s.t[i].k)
            return false;
    return !s.lost && s.c == by;
}

/* ---- runs of accesses ---- */

static bool follows(const TileNode *first, const TileNode *n, int64_t by)
{
    int last = tile_type(n->in[0])->rank - 1;

    if (n->op != first->op || n->attr->within != first->attr->within || !cpu_same(n->in[0], first->in[0]))
        return false;
    for (int i = 0; i <= last; i++)
        if (!lies_behind(first->in[1 + i], n->in[1 + i], i == last ? by : 0))
            return false;
    return true;
}

static bool is_scalar(const TileNode *n)
{
    return n->op == TOP_load ? n->type[0].rank == 0 : n->op == TOP_store && tile_type(n->in[n->nin - 1])->rank == 0;
}

static bool is_index(const TileNode *n)
{
    return n->op == TOP_index || n->op == TOP_size || n->op == TOP_iadd || n->op == TOP_isub || n->op == TOP_imul;
}

/* The access and those that follow it as its neighbours: a power of two of them. */
static int run_of(const TileNode *n, const TileNode **at)
{
    const TileType *view = tile_type(n->in[0]);
    DType dt = (DType)view->dtype;
    int64_t factor;
    int most = dtype_info[dt].sbits >= 8 && !dtype_is_complex(dt) ? VECTOR_BYTES / (int)raw_size(dt) : 1, found = 0, lanes = 1;

    if (!view->rank || view->stride[view->rank - 1] != 1)
        return 1;
    for (const TileNode *m = n; m && found < most; m = m->next)
        if (is_scalar(m) && follows(n, m, found))
            at[found++] = m;
        else if (!is_index(m))
            break;
    factor = tile_factor(n->in[view->rank]);            /* of lanes that follow each other, not only some may begin at a vector */
    while (2 * lanes <= found && factor % (2 * lanes) == 0)
        lanes *= 2;
    return lanes;
}

/* ---- accesses ---- */

typedef struct Spread {
    DType dt;
    LLVMValueRef place, at, inside;     /* of the first element: where, its number along the last axis, is it in the view along the others? */
    LLVMValueRef extent;
    bool within;                        /* all of it */
} Spread;

static Spread spread_of(CpuCode *e, const TileNode *n)
{
    LLVMBuilderRef b = e->u->builder;
    const TileType *t = tile_type(n->in[0]);
    const Val *view = cpu_val(e, n->in[0]);
    Spread s = {.dt = (DType)t->dtype, .within = n->attr->within, .inside = LLVMConstInt(LLVMInt1TypeInContext(e->u->context), 1, false)};
    LLVMValueRef all = cpu_number(e, 0);

    for (int i = 0; i < t->rank; i++) {
        s.at = cpu_val(e, n->in[1 + i])->x;
        if (i < t->rank - 1 && !s.within)
            s.inside = LLVMBuildAnd(b, s.inside, cpu_compare(e, LLVMIntULT, s.at, view->extent[i]), "");
        all = cpu_op(e, LLVMAdd, all, i < t->rank - 1 ? cpu_op(e, LLVMMul, s.at, view->stride[i]) : s.at);
    }
    s.extent = view->extent[t->rank - 1];
    all = cpu_op(e, LLVMMul, all, cpu_number(e, (int64_t)raw_size(s.dt)));
    s.place = LLVMBuildGEP2(b, LLVMInt8TypeInContext(e->u->context), view->x, &all, 1, "");
    return s;
}

static LLVMValueRef is_inside(CpuCode *e, const Spread *s, int i)
{
    LLVMValueRef at = cpu_op(e, LLVMAdd, s->at, cpu_number(e, i));

    return s->within ? s->inside : LLVMBuildAnd(e->u->builder, s->inside, cpu_compare(e, LLVMIntULT, at, s->extent), "");
}

static LLVMValueRef element(CpuCode *e, const Spread *s, int i)
{
    LLVMValueRef by = cpu_number(e, i * (int64_t)raw_size(s->dt));

    return LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), s->place, &by, 1, "");
}

static LLVMValueRef is_vector(CpuCode *e, const Spread *s, int lanes)
{
    LLVMValueRef low = LLVMBuildPtrToInt(e->u->builder, s->place, i64_type(e), ""), is;

    low = LLVMBuildAnd(e->u->builder, low, cpu_number(e, lanes * (int64_t)raw_size(s->dt) - 1), "");
    is = LLVMBuildAnd(e->u->builder, is_inside(e, s, 0), is_inside(e, s, lanes - 1), "");
    return LLVMBuildAnd(e->u->builder, is, cpu_compare(e, LLVMIntEQ, low, cpu_number(e, 0)), "");
}

typedef struct Ways { LLVMBasicBlockRef other, done; } Ways;

static Ways two_ways(CpuCode *e, LLVMValueRef is)
{
    LLVMBasicBlockRef then = cpu_block(e);
    Ways w = {cpu_block(e), cpu_block(e)};

    LLVMBuildCondBr(e->u->builder, is, then, w.other);
    LLVMPositionBuilderAtEnd(e->u->builder, then);
    return w;
}

/* From one way to the other, or to where both end; the block that is left. */
static LLVMBasicBlockRef leave(CpuCode *e, const Ways *w, bool first)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(e->u->builder);

    LLVMBuildBr(e->u->builder, w->done);
    LLVMPositionBuilderAtEnd(e->u->builder, first ? w->other : w->done);
    return from;
}

static bool is_known(const TileNode *n, int lanes) { return n->attr->within && n->attr->vector >= lanes; }

static void load_elements(CpuCode *e, const Spread *s, int lanes, LLVMValueRef *x)
{
    LLVMValueRef all = lanes_load(e->u, s->dt, s->place, cpu_number(e, 0), lanes);

    LLVMSetAlignment(all, (unsigned)(lanes * (int)raw_size(s->dt)));
    for (int i = 0; i < lanes; i++)
        x[i] = LLVMBuildExtractElement(e->u->builder, all, i32_number(e, i), "");
}

static void load_vector(CpuCode *e, const TileNode *const *at, int lanes)
{
    LLVMBuilderRef b = e->u->builder;
    Spread s = spread_of(e, at[0]);
    LLVMValueRef x[2][VECTOR_LANES];
    LLVMBasicBlockRef from[2];
    Ways w;

    if (is_known(at[0], lanes)) {
        load_elements(e, &s, lanes, x[0]);
        for (int i = 0; i < lanes; i++)
            cpu_val(e, (TileRef){(TileNode *)at[i], 0})->x = lanes_of_raw(e->u, s.dt, x[0][i], 1);
        return;
    }
    w = two_ways(e, is_vector(e, &s, lanes));
    load_elements(e, &s, lanes, x[0]);
    from[0] = leave(e, &w, true);
    for (int i = 0; i < lanes; i++)
        x[1][i] = gpu_load_if(e, s.dt, element(e, &s, i), is_inside(e, &s, i), cpu_fill(e, s.dt, at[i]));
    from[1] = leave(e, &w, false);
    for (int i = 0; i < lanes; i++) {
        LLVMValueRef phi = LLVMBuildPhi(b, LLVMTypeOf(x[0][i]), "");
        LLVMAddIncoming(phi, (LLVMValueRef[]){x[0][i], x[1][i]}, from, 2);
        x[0][i] = phi;
    }
    for (int i = 0; i < lanes; i++)
        cpu_val(e, (TileRef){(TileNode *)at[i], 0})->x = lanes_of_raw(e->u, s.dt, x[0][i], 1);
}

static void store_vector(CpuCode *e, const TileNode *const *at, int lanes)
{
    Spread s = spread_of(e, at[0]);
    LLVMValueRef x[VECTOR_LANES], all;
    Spot none = {.strip = -1};
    Ways w;

    for (int i = 0; i < lanes; i++)
        x[i] = cpu_raw(e, at[i]->in[at[i]->nin - 1], &none);
    if (!is_known(at[0], lanes))
        w = two_ways(e, is_vector(e, &s, lanes));
    all = LLVMGetUndef(LLVMVectorType(LLVMTypeOf(x[0]), (unsigned)lanes));
    for (int i = 0; i < lanes; i++)
        all = LLVMBuildInsertElement(e->u->builder, all, x[i], i32_number(e, i), "");
    LLVMSetAlignment(LLVMBuildStore(e->u->builder, all, s.place), (unsigned)(lanes * (int)raw_size(s.dt)));
    if (is_known(at[0], lanes))
        return;
    leave(e, &w, true);
    for (int i = 0; i < lanes; i++)
        gpu_store_if(e, s.dt, element(e, &s, i), is_inside(e, &s, i), x[i]);
    leave(e, &w, false);
}

static bool was_taken(GpuCode *g, const TileNode *n)
{
    for (int i = 0; i < g->taken.n; i++)
        if (g->taken.at[i] == n) {
            g->taken.at[i] = g->taken.at[--g->taken.n];
            return true;
        }
    return false;
}

bool gpu_lane_vector(CpuCode *e, const TileNode *n)
{
    const TileNode *at[VECTOR_LANES];
    int lanes;

    if (was_taken(e->gpu, n))
        return true;
    if (!is_scalar(n) || (lanes = run_of(n, at)) < 2)
        return false;
    cpu_settle(e, n);
    e->width = 1;
    e->masked = true;
    e->known.n = 0;
    if (n->op == TOP_load)
        load_vector(e, at, lanes);
    else
        store_vector(e, at, lanes);
    for (int i = 1; i < lanes; i++)
        vec_push(&e->gpu->taken, at[i]);
    return true;
}
