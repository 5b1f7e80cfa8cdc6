/*
 * One kernel for one kind of launch: parameters become views, sizes and
 * values; the body is evaluated; what it returns is stored (result.c).
 *
 * An attempt may find that it needs to know something first (body.h); then the
 * kernel is made again with it.  Each thing is found once, so this ends.
 */
#include "frontend/kernel/body.h"

#include "frontend/tensor/tensor_ops.h"
#include "ir/tile/vary.h"

#include <string.h>

enum { ATTEMPTS = 400 };

/* ------------------------------------------------------------- sizes */

KVal kb_size(Body *B, Sym name, int64_t v)
{
    TileBlock *here = B->b.at;
    TAttr a = tattr_none;
    KSize *s;
    int i = 0;

    if (B->spec->literal || map_find(B->fixed, (uintptr_t)name, NULL))
        return kb_number(v);
    while (i < B->nsizes && B->size[i].name != name)
        i++;
    if (i == KERNEL_SIZES)
        return kb_fail(B, "a kernel has at most %d sizes", KERNEL_SIZES);
    s = &B->size[i];
    if (i == B->nsizes) {
        B->nsizes++;
        *s = (KSize){.name = name, .v = v};
        tile_size(B->k, name);
        a.name = name;
        a.i = v < 0;
        B->b.at = &B->k->body;
        s->ref = kb_emit(B, TOP_size, &a, NULL, 0);
        B->b.at = here;
        if (!s->ref.node)
            return KBAD;
        kb_to_front(B, s->ref.node);
        kb_know(B, s->ref, v, (uint64_t)1 << i);
    }
    return kb_int(B, lin_of(s->ref));
}

KVal kb_field(Body *B, ScheduleField f)
{
    (void)B;
    if (schedule_fields[f].kind == SCHED_WORD)
        return kb_static(B, str_c(B->spec->sched[f] ? "xor" : "none"));
    return kb_number(B->spec->sched[f]);
}

KVal kb_launch_size(Body *B, LaunchSize which)
{
    switch (which) {
#define X(name) case LAUNCH_##name: return kb_size(B, sym("_" #name), B->spec->name);
        LAUNCH_SIZES(X)
#undef X
    }
    return KBAD;
}

KVal kb_group_count(Body *B) { return kb_binary(B, AOP_FLOORDIV, kb_launch_size(B, LAUNCH_groups), kb_number(B->spec->warps)); }

/* Groups are numbered along the grid's axes, the last one fastest. */
KVal group_offset(Body *B, int axis)
{
    KVal across = kb_launch_size(B, LAUNCH_across), g, y;
    static const ScheduleField field[3] = {SCHED_block_m, SCHED_block_n, SCHED_block_k};
    TileBlock *here = B->b.at;
    TileNode *last;

    if (axis == 2 && !B->spec->deep)
        return kb_number(0);
    if (B->offset[axis])
        return *B->offset[axis];
    g = lead_inside(B);
    if (kb_bad(g))
        return g;
    if (B->spec->deep)
        kb_launch_size(B, LAUNCH_deeps);
    B->b.at = &B->k->body;
    last = B->k->body.last;
    if (B->spec->deep) {
        KVal deep = kb_launch_size(B, LAUNCH_deeps);
        y = axis == 2 ? kb_binary(B, AOP_MOD, g, deep) : KUNSET;
        g = kb_binary(B, AOP_FLOORDIV, g, deep);
    }
    if (axis < 2)
        y = kb_binary(B, axis ? AOP_MOD : AOP_FLOORDIV, g, across);
    y = kb_binary(B, AOP_MUL, y, kb_field(B, field[axis]));
    for (TileNode *n = last ? last->next : B->k->body.first, *next; n; n = next) {
        next = n->next;
        kb_to_front(B, n);
    }
    B->b.at = here;
    if (kb_bad(y))
        return y;
    B->offset[axis] = kb_alloc(B, sizeof y);
    *B->offset[axis] = y;
    return y;
}

/* The size of a dimension by its name. */
bool kspec_dimension(const KSpec *spec, Sym name, int64_t *out)
{
    for (int i = 0; i < spec->nparams; i++)
        for (int k = 0; spec->param[i].tensor && k < spec->param[i].tensor->rank && k < VIEW_RANK; k++)
            if (spec->param[i].dim[k] == name) {
                *out = kspec_extent(spec, i, k);
                return true;
            }
    return false;
}

KVal kb_dimension(Body *B, Sym name, bool block)
{
    int64_t v;

    for (int c = 0; c < 2 && block; c++)
        if (B->spec->cut[c] == name && (B->asks_extent = true))
            return kb_field(B, c ? SCHED_block_n : SCHED_block_m);
    return kspec_dimension(B->spec, name, &v) ? kb_size(B, name, v) : KUNSET;
}

/* ------------------------------------------------------------- parameters */

/* How large an axis is: its own size, or for a look at what is returned at most a block. */
int64_t kspec_extent(const KSpec *spec, int param, int axis)
{
    const KParam *p = &spec->param[param];
    int64_t v = p->tensor->shape[axis];

    if (spec->sample && p->kind == KPARAM_TILE && p->dim[axis]) {
        int64_t most = axis == p->tensor->rank - 1 && p->tensor->rank > 1 ? spec->sched[SCHED_block_n] : spec->sched[SCHED_block_m];
        for (int i = 0; i < spec->nparams; i++)             /* a name has one size: its first place decides */
            for (int k = 0; spec->param[i].tensor && k < spec->param[i].tensor->rank && k < VIEW_RANK; k++)
                if (spec->param[i].dim[k] == p->dim[axis] && spec->param[i].kind != KPARAM_TILE)
                    return v;
        for (int i = 0; i < spec->nparams; i++)
            for (int k = 0; spec->param[i].tensor && k < spec->param[i].tensor->rank && k < VIEW_RANK; k++)
                if (spec->param[i].dim[k] == p->dim[axis]) {
                    most = k == spec->param[i].tensor->rank - 1 && k ? spec->sched[SCHED_block_n] : spec->sched[SCHED_block_m];
                    return v < most && !spec->any ? v : most;
                }
        return v < most && !spec->any ? v : most;
    }
    return v;
}

int kparam_side(const KParam *p)
{
    const Tensor *t = p->tensor;

    for (int i = t->rank - 1; i >= (p->plain ? t->rank - 1 : 0); i--)
        if (t->stride[i] == 1 || (i == t->rank - 1 && t->shape[i] <= 1))
            return i;
    return -1;
}

static TileType view_type(const KParam *p)
{
    const Tensor *t = p->tensor;
    TileType y = {.kind = TILE_VIEW, .dtype = t->dtype, .rank = t->rank, .space = SPACE_GLOBAL};

    for (int i = 0; i < t->rank; i++)
        y.stride[i] = i == kparam_side(p) ? 1 : STRIDE_ANY;
    return y;
}

Sym kparam_axis_name(const KParam *p, int axis)
{
    char text[96];

    if (p->dim[axis])
        return p->dim[axis];
    snprintf(text, sizeof text, "%.64s_%d", p->name->text, axis);
    return sym(text);
}

static KVal tensor_param(Body *B, int i)
{
    const KSpec *s = B->spec;
    const KParam *p = &s->param[i];
    TileType t = view_type(p);
    KPlace place = {.dtype = (DType)t.dtype, .rank = t.rank, .param = i, .reduces = p->reduces};

    B->param[i].index = B->k->params.n;
    place.view = tile_param(B->k, p->name, &t);
    for (int k = 0; k < t.rank; k++) {
        PlaceAxis *x = &place.axis[k];
        KVal size = kb_size(B, kparam_axis_name(p, k), kspec_extent(s, i, k));
        if (!kb_to_lin(B, size, &x->size))
            return KBAD;
        x->dim = p->field ? kparam_axis_name(p, k) : p->dim[k];
        x->extent = x->size;
        for (int c = 0; c < 2 && p->kind == KPARAM_TILE && p->dim[k]; c++)
            if (s->cut[c] == p->dim[k]) {
                KVal at = group_offset(B, c);
                if (!kb_to_lin(B, at, &x->start))
                    return KBAD;
                x->extent = lin_number(s->sched[c ? SCHED_block_n : SCHED_block_m]);
                x->cut = true;
            }
    }
    if (kspec_leading(s, i) && !lead_take(B, &place, kspec_leading(s, i)))
        return KBAD;
    return kplace_value(B, &place);
}

KVal kb_tensor_outside(Body *B, Tensor *x, Sym name)
{
    const Tensor *c = tensor_concrete(x);
    TileType t = {.kind = TILE_VIEW, .dtype = x->dtype, .rank = x->rank, .space = SPACE_GLOBAL};
    KPlace place = {.dtype = x->dtype, .rank = x->rank, .param = -1};

    if (!c || x->rank > VIEW_RANK || dtype_info[x->dtype].sbits < 8 || dtype_info[x->dtype].sbits % 8)
        return KUNSET;
    for (int i = 0; i < x->rank; i++) {
        t.stride[i] = STRIDE_ANY;
        place.axis[i].extent = place.axis[i].size = lin_number(x->shape[i]);
    }
    place.view = tile_param(B->k, name, &t);
    return kplace_value(B, &place);
}

static KVal float_param(Body *B, int i)
{
    TileType t = {.kind = TILE_VIEW, .dtype = DT_f64};
    TileRef view;
    TAttr a = tattr_none;

    B->param[i].index = B->k->params.n;
    view = tile_param(B->k, B->spec->param[i].name, &t);
    return kb_scalar(kb_emit1(B, TOP_load, &a, view), true);
}

static KVal param_value(Body *B, int i)
{
    const KParam *p = &B->spec->param[i];

    if (p->tensor)
        return tensor_param(B, i);
    if (p->v.tag == V_INT)
        return kb_size(B, p->name, p->v.i);
    if (p->v.tag == V_FLOAT)
        return float_param(B, i);
    return kb_static(B, value_ref(p->v));
}

/* A list or tuple among whose items are tensors; of a dict its tensors are looked up by their keys (expr.c). */
static KVal holder(Body *B, const KParam *p)
{
    int64_t n = p->v.tag == V_TUPLE ? as_tuple(p->v)->n : p->v.tag == V_LIST ? as_list(p->v)->n : 0;
    const Value *items = p->v.tag == V_TUPLE ? as_tuple(p->v)->at : p->v.tag == V_LIST ? as_list(p->v)->at : NULL;
    KVal y = {.kind = p->v.tag == V_TUPLE ? K_TUPLE : K_LIST, .n = (int)n};

    if (!items)
        return kb_static(B, value_ref(p->v));
    y.item = kb_alloc(B, sizeof *y.item * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++)
        y.item[i] = items[i].tag == V_TENSOR ? *kb_var(B, kernel_item_name(B->I, p->name, vint(i))) : kb_static(B, value_ref(items[i]));
    return y;
}

static void bind_params(Body *B)
{
    const KSpec *s = B->spec;

    for (int i = 0; i < s->nparams && !B->failed; i++) {
        for (int k = 0; s->param[i].tensor && k < s->param[i].tensor->rank && k < VIEW_RANK; k++)
            if (s->param[i].dim[k] && !kb_var(B, s->param[i].dim[k]))
                kb_set(B, s->param[i].dim[k], kb_dimension(B, s->param[i].dim[k], false));
        if (!s->param[i].holds)
            kb_set(B, s->param[i].name, param_value(B, i));
    }
    for (int i = 0; i < s->nparams && !B->failed; i++)
        if (s->param[i].holds)
            kb_set(B, s->param[i].name, holder(B, &s->param[i]));
}

/* ------------------------------------------------------------- making */

static void evaluate(Body *B)
{
    Inlined in = {.fn = B->spec->fn, .scope = B->spec->fn->code->scope, .path = 0x243f6a8885a308d3u};

    B->fn = &in;
    vec_push(&B->k->grid, B->spec->literal ? B->spec->groups : tile_size(B->k, sym("_groups")));
    B->b.at = &B->k->body;
    bind_params(B);
    kb_body_of(B, B->spec->def->body);
    if (!B->failed) {
        B->b.span = B->spec->def->ast.span;
        kb_give_results(B);
    }
    vec_free(&in.vars);
    B->fn = NULL;
}

static void drop(Body *B)
{
    map_done(&B->known);
    map_done(&B->loop_of);
    map_done(&B->lane_dep);
    map_done(&B->buffers);
    map_done(&B->guess);
    vec_free(&B->indices);
    vec_free(&B->positive);
    for (int i = 0; i < B->kept.n; i++)
        value_unref(B->kept.at[i]);
    vec_free(&B->kept);
    arena_done(&B->arena);
    sb_done(&B->build_err);
}

static void drop_reads(Body *B)
{
    for (int i = 0; i < B->reads.n; i++)
        value_unref(B->reads.at[i].v);
    vec_free(&B->reads);
}

void body_done(Body *B)
{
    drop(B);
    drop_reads(B);
    sb_done(&B->err);
}

/* What the schedule says, for the passes that go by it and for readers. */
static Sym schedule_text(const KSpec *s)
{
    StrBuf b = {0};
    Sym y;

    for (int i = 0; i < SCHED_COUNT; i++)
        if (s->sched_given[i] && schedule_fields[i].kind == SCHED_WORD)
            sb_printf(&b, "%s%s=%s", b.n ? " " : "", schedule_fields[i].name, s->sched[i] ? "xor" : "none");
        else if (s->sched_given[i])
            sb_printf(&b, "%s%s=%lld", b.n ? " " : "", schedule_fields[i].name, (long long)s->sched[i]);
    y = b.n ? sym(sb_str(&b)) : NULL;
    sb_done(&b);
    return y;
}

static bool attempt(Body *B, Interp *I, const KSpec *spec)
{
    B->I = I;
    B->spec = spec;
    B->k = tile_kernel_new(sym(spec->def->name->text));
    B->k->lanes = spec->lanes;
    B->k->schedule = schedule_text(spec);
    B->b = (TileBuilder){B->k, &B->k->body, {0, 0}, &B->build_err};
    for (int i = 0; i < spec->nparams; i++)
        B->param[i] = spec->param[i];
    evaluate(B);
    return !B->failed;
}

/* Is what the group does done where all its lanes are, on what they agree on? Said with the line, as the verifier can't. */
static bool lanes_agree(Body *B, const TileKernel *k)
{
    TileVary v;
    const char *why;
    const TileNode *bad;

    tile_vary(k, &v);
    bad = tile_vary_broken(k, &v, &why);
    tile_vary_done(&v);
    if (!bad)
        return true;
    B->b.span = bad->span;
    kb_fail(B, "an operation on blocks: %s", why);
    return false;
}

TileKernel *body_make(Interp *I, const KSpec *spec, Body *out)
{
    Map unroll = {0}, stack = {0}, fixed = {0}, in_memory = {0};
    int stacks = 0;
    bool apart = false;
    TileKernel *k = NULL;

    for (int i = 0; i < ATTEMPTS; i++) {
        *out = (Body){.unroll = &unroll, .stack = &stack, .fixed = &fixed, .in_memory = &in_memory, .nstacks = &stacks, .fragments_apart = &apart};
        if (attempt(out, I, spec)) {
            k = out->k;
            break;
        }
        tile_kernel_free(out->k);
        out->k = NULL;
        if (!out->again || i + 1 == ATTEMPTS || tsr_interrupted)
            break;
        body_done(out);
    }
    if (k) {
        StrBuf why = {0};
        if (!out->uses_lanes && (out->uses_blocks || (!spec->debug && !out->updates)))     /* in blocks, what is done is done once */
            k->lanes = 1;
        tile_outward(k);
        tile_fold(k);
        if (!spec->debug)                       /* which looks at what is loaded and not used, too */
            tile_carries(k);
        if (!spec->debug && !spec->watched)
            tile_barriers(k);
        tile_layout(k);
        if (!lanes_agree(out, k) || !tile_verify(k, &why)) {
            sb_printf(&out->err, "%s", sb_str(&why));
            tile_kernel_free(k);
            out->k = k = NULL;
        }
        sb_done(&why);
    }
    out->fixed_names = fixed;
    map_done(&unroll);
    map_done(&stack);
    map_done(&in_memory);
    out->unroll = out->stack = out->fixed = out->in_memory = NULL;
    return k;
}
