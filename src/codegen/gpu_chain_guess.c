/*
 * Elements that are computed before a column is known, by what it most likely is.
 *
 * A loop of attention carries the score that weights are relative to, and keeps it as long as no score is much larger:
 *
 *      top = where(highest of the round > m + grow, highest, m);  weights = exp2(s * scale - top * scale);  m = top
 *
 * So a warpgroup would look for the highest score of its rows, and ask the threads of a row, before its first exponential. But a column that is
 * carried so is hardly ever another one than before. The first elements that follow from it are computed by the old one, while the unit for
 * exponentials has nothing else to do; when the new one is known, a warp all of whose rows have kept theirs goes on with these elements, and
 * another one computes them again. What is compared are bits, so both ways lead to the same ones.
 *
 * The late product (gpu_chain_late.c) is waited for before the last elements: then sums and words of the elements before these go between the
 * exponentials of those.
 */
#include "codegen/gpu_chain.h"

#include "base/alloc.h"

#include <string.h>

enum { DEPTH = 12, AHEAD = 7 };                 /* seven of sixteen elements are computed ahead */

static Chain *chain(const CpuCode *e) { return e->gpu->roles->chain; }

/* ---- what is carried ---- */

void chain_find_guess(const CpuCode *e, ChainLate *l)
{
    const TileBlock *b = l->loop->region[0];

    for (int i = 0; i < b->yields.n && !l->guess && l->waits; i++) {
        const TileNode *n = b->yields.at[i].node, *param = b->params.at[i + 1];
        if (n->op != TOP_map || n->attr->op != OP_where || n->block != b || n->type[0].dtype != DT_f32 || !gpu_is_column(&n->type[0]) ||
            (n->in[1].node != param && n->in[2].node != param) || !gpu_carries_fragment(e, (TileRef){(TileNode *)param, 0}))
            continue;
        l->guess = n;
        l->guessed = param;
    }
}

/* Is the round at hand one that is guessed in: has it a product under way before it, and leave its masks out nothing? */
static bool guesses(const CpuCode *e)
{
    const ChainLate *l = chain(e)->late;

    return l && l->guess && l->pending && (!l->keep || e->gpu->keeps);
}

void chain_mark_guess(CpuCode *e)
{
    ChainLate *l = chain(e)->late;
    LLVMBasicBlockRef next;

    if (!guesses(e) || l->mark)
        return;
    next = cpu_block(e);
    l->mark = LLVMBuildBr(e->u->builder, next);
    LLVMPositionBuilderAtEnd(e->u->builder, next);
}

/* ---- elements ---- */

/* Does v follow, element by element, from the guess, products, what the loop carries and what is known before it? *guess: from the guess, too. */
static bool follows(CpuCode *e, const ChainLate *l, TileRef v, int depth, bool *guess)
{
    const TileNode *n = v.node;
    int kept = n->op == TOP_map && n->block == l->loop->region[0] ? gpu_mask_leaves(e, n) : 0;

    *guess |= n == l->guess;
    if (n == l->guess || n->op == TOP_const || n->block != l->loop->region[0])
        return true;
    if (n->op == TILE_PARAM)
        return n == l->guessed;
    if (n->op == TOP_dot)
        return n == l->first->dot;
    if (kept)
        return follows(e, l, n->in[kept], depth - 1, guess);
    if (!depth || (n->op != TOP_map && n->op != TOP_splat && n->op != TOP_reshape))
        return false;
    for (int i = 0; i < n->nin; i++)
        if (!follows(e, l, n->in[i], depth - 1, guess))
            return false;
    return true;
}

typedef struct Former { TileRef v; LLVMValueRef *fragment, x; } Former;
typedef Vec(Former) Formers;

/* What v is computed from in this round is computed anew, numbers first. */
static void set_aside(CpuCode *e, const ChainLate *l, TileRef v, Formers *f)
{
    const TileNode *n = v.node;
    Val *x = cpu_val(e, v);
    int kept;

    if (n == l->guess || n->block != l->loop->region[0] || (n->op != TOP_map && n->op != TOP_splat && n->op != TOP_reshape))
        return;
    kept = n->op == TOP_map ? gpu_mask_leaves(e, n) : 0;
    for (int i = 0; i < n->nin; i++)
        if (!kept || i == kept)
            set_aside(e, l, n->in[i], f);
    vec_push(f, ((Former){v, x->fragment, x->x}));
    x->fragment = NULL;
    x->x = tile_type(v)->rank ? NULL : cpu_scalar(e, n);
}

/* The first n elements of v by what was carried: computed where the first product has just arrived. */
static void compute_ahead(CpuCode *e, const ChainLate *l, TileRef v, const Fragment *f, LLVMValueRef *x, int n)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->u->builder);
    TileRef guess = {(TileNode *)l->guess, 0};
    Formers former = {0};

    LLVMPositionBuilderBefore(e->u->builder, l->mark);
    vec_push(&former, ((Former){guess, cpu_val(e, guess)->fragment, cpu_val(e, guess)->x}));
    cpu_val(e, guess)->fragment = cpu_val(e, (TileRef){(TileNode *)l->guessed, 0})->fragment;
    set_aside(e, l, v, &former);
    for (int i = 0; i < n; i++)
        x[i] = gpu_register_of(e, v, f, i);
    for (int i = former.n - 1; i >= 0; i--) {
        cpu_val(e, former.at[i].v)->fragment = former.at[i].fragment;
        cpu_val(e, former.at[i].v)->x = former.at[i].x;
    }
    vec_free(&former);
    gpu_leave_registers(e);
    LLVMPositionBuilderAtEnd(e->u->builder, here);
}

/* Is it where(guess > former guess, x, 1.0), which is one where the guess is right? */
static bool is_one_if_kept(const ChainLate *l, const TileNode *n)
{
    const TileNode *is = n->in[0].node, *one = n->op == TOP_map && n->attr->op == OP_where ? n->in[2].node : NULL;

    if (!one || one->op != TOP_const || one->attr->f != 1 || is->op != TOP_map || is->nin != 2)
        return false;
    return (is->attr->op == OP_gt || is->attr->op == OP_lt || is->attr->op == OP_ne) &&
           ((is->in[0].node == l->guess && is->in[1].node == l->guessed) || (is->in[0].node == l->guessed && is->in[1].node == l->guess));
}

/* The column that sums are scaled by, if it is one where the guess is right and nobody has asked for it yet. A node NULL: it is not. */
static TileRef scale_of(CpuCode *e, const ChainLate *l)
{
    const TileNode *scaled = l->last->dot->in[2].node;
    TileRef v, none = {NULL, 0};

    if (scaled->op != TOP_map || scaled->attr->op != OP_mul)
        return none;
    v = scaled->in[scaled->in[0].node == l->loop->region[0]->params.at[l->carry + 1]];
    return gpu_is_column(tile_type(v)) && tile_type(v)->dtype == DT_f32 && !cpu_val(e, v)->fragment && is_one_if_kept(l, v.node) ? v : none;
}

/* An i1: has each thread of the warp the column in its rows that was carried? */
static LLVMValueRef is_kept(CpuCode *e, const ChainLate *l)
{
    LLVMValueRef *now = cpu_val(e, (TileRef){(TileNode *)l->guess, 0})->fragment;
    LLVMValueRef *before = cpu_val(e, (TileRef){(TileNode *)l->guessed, 0})->fragment;
    LLVMValueRef in[2] = {i32_number(e, -1), NULL}, is;
    Fragment f;

    gpu_fragment_of(e, &l->guess->type[0], &f);
    for (int i = 0; i < gpu_registers(&f); i++) {
        is = LLVMBuildICmp(e->u->builder, LLVMIntEQ, LLVMBuildBitCast(e->u->builder, now[i], i32_type(e), ""),
                           LLVMBuildBitCast(e->u->builder, before[i], i32_type(e), ""), "");
        in[1] = i ? LLVMBuildAnd(e->u->builder, in[1], is, "") : is;
    }
    return cpu_intrinsic(e, "llvm.nvvm.vote.all.sync", &(LLVMTypeRef){NULL}, 0, in, 2);
}

/* The tile that a sum along rows takes, if it may be guessed; a node NULL: there is none. */
static TileRef summed(CpuCode *e, const ChainLate *l, const Cluster *c)
{
    for (int i = 0; i < c->sinks.n; i++) {
        const Sink *s = &c->sinks.at[i];
        bool guess = false;
        if (s->node && s->node->op == TOP_reduce && !s->v.index && tile_type(s->v)->dtype == DT_f32 && follows(e, l, s->v, DEPTH, &guess) && guess)
            return s->v;
    }
    return (TileRef){NULL, 0};
}

/* x: from one block or from the other. */
static void join(CpuCode *e, LLVMValueRef *x, LLVMBasicBlockRef from, LLVMValueRef *y, LLVMBasicBlockRef way, int n)
{
    for (int i = 0; i < n; i++) {
        LLVMValueRef phi = LLVMBuildPhi(e->u->builder, LLVMTypeOf(x[i]), "");
        LLVMAddIncoming(phi, &x[i], &from, 1);
        LLVMAddIncoming(phi, &y[i], &way, 1);
        x[i] = phi;
    }
}

int chain_guess(CpuCode *e, const Cluster *c, const Fragment *f, LLVMValueRef thread, TileRef *v, LLVMValueRef *x)
{
    LLVMBuilderRef b = e->u->builder;
    LLVMBasicBlockRef from, way, end, done;
    LLVMValueRef again[GUESSES_MOST], ones[GUESSES_MOST], *other = NULL, here, kept;
    ChainLate *l;
    TileRef scale;
    int n, rows = 0;

    if (!gpu_is_chain(e) || !guesses(e))
        return 0;
    l = chain(e)->late;
    n = gpu_registers(f) * AHEAD / OF_ELEMENTS;
    if (!n || n > GUESSES_MOST)
        return 0;
    *v = l->mark && cpu_val(e, (TileRef){(TileNode *)l->guess, 0})->fragment ? summed(e, l, c) : (TileRef){NULL, 0};
    if (!v->node)
        return 0;
    here = e->gpu->thread;
    e->gpu->thread = thread;
    compute_ahead(e, l, *v, f, x, n);
    scale = scale_of(e, l);
    e->gpu->thread = here;
    gpu_compute_here(e, x, n);
    way = cpu_block(e), done = cpu_block(e), from = LLVMGetInsertBlock(b);
    kept = is_kept(e, l);
    LLVMBuildCondBr(b, kept, done, way);
    LLVMPositionBuilderAtEnd(b, way);
    for (int i = 0; i < n; i++)
        again[i] = gpu_register_of(e, *v, f, i);
    gpu_leave_registers(e);
    if (scale.node)
        other = gpu_fragment_now(e, scale, &rows);
    end = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    join(e, x, from, again, end, n);
    if (scale.node) {
        for (int i = 0; i < rows; i++)
            ones[i] = LLVMConstReal(LLVMTypeOf(other[i]), 1.0);
        join(e, ones, from, other, end, rows);
        memcpy(other, ones, sizeof *ones * (size_t)rows);
        cpu_val(e, scale)->fragment = other;
        l->kept = kept;
    }
    return n;
}
