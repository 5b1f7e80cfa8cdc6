/*
 * Building kernels of the Tile IR: nodes go to the end of a block, typed as
 * they come, so what has been built is well typed; blocks are closed by their
 * yields.  Nodes, types and attributes are in the kernel's arena; the growing
 * arrays of blocks are not, which is why the kernel lists its blocks.
 */
#include "ir/tile/tile_impl.h"

#include <stdlib.h>
#include <string.h>

const TAttr tattr_none = {.op = 0, .dtype = DT_NONE};

/* ---- attributes: which fields count follows from the row ---- */

static const struct { const char *name; unsigned bit; } field_names[] = {
    {"op", TA_op}, {"dtype", TA_dtype}, {"space", TA_space}, {"rounding", TA_rounding}, {"saturate", TA_saturate},
    {"flush", TA_flush}, {"drop", TA_drop}, {"axis", TA_axis}, {"shape", TA_shape}, {"axes", TA_axes}, {"i", TA_i}, {"f", TA_f},
    {"name", TA_name}, {"swizzle", TA_swizzle}, {"fast", TA_fast},
    {"vector", TA_vector}, {"stages", TA_stages}, {"producers", TA_producers}, {"align", TA_align}, {"within", TA_within},
};

static unsigned parse_fields(const char *s)
{
    unsigned fields = 0;

    while (*s) {
        size_t n = strcspn(s, " ");
        for (size_t i = 0; i < sizeof field_names / sizeof *field_names; i++)
            if (strlen(field_names[i].name) == n && !memcmp(field_names[i].name, s, n))
                fields |= field_names[i].bit;
        s += n;
        s += *s == ' ';
    }
    return fields;
}

unsigned tile_op_fields(TileOp op)
{
    static unsigned fields[TOP_COUNT];

    if (!fields[op])
        fields[op] = parse_fields(tile_op_info[op].attrs) | 1u << 31;   /* known */
    return fields[op] & ~(1u << 31);
}

TAttr tattr_only(TileOp op, const TAttr *a)
{
    TAttr b = tattr_none;
    unsigned has = tile_op_fields(op);

    if (op == TOP_const)                        /* a number is of one kind */
        has &= ~(a->dtype < DT_COUNT && dtype_is_float((DType)a->dtype) ? (unsigned)TA_i : (unsigned)TA_f);
    if (op == TOP_map && a->op != OP_convert)
        has &= ~(unsigned)(TA_dtype | TA_rounding | TA_saturate);
#define KEEP(field) if (has & TA_##field) b.field = a->field
    KEEP(op);
    KEEP(dtype);
    KEEP(space);
    KEEP(rounding);
    KEEP(saturate);
    KEEP(flush);
    KEEP(fast);
    KEEP(drop);
    KEEP(swizzle);
    KEEP(vector);
    KEEP(stages);
    KEEP(producers);
    KEEP(align);
    KEEP(within);
    KEEP(axis);
    KEEP(i);
    KEEP(f);
    KEEP(name);
#undef KEEP
    if (has & (TA_shape | TA_axes))
        b.rank = a->rank;
    for (int i = 0; i < TILE_RANK_MAX && i < b.rank; i++) {
        b.shape[i] = has & TA_shape ? a->shape[i] : 0;
        b.axes[i] = has & TA_axes ? a->axes[i] : 0;
    }
    return b;
}

bool tattr_equal(const TAttr *a, const TAttr *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->space == b->space && a->rounding == b->rounding && a->saturate == b->saturate &&
           a->flush == b->flush && a->fast == b->fast && a->drop == b->drop && a->swizzle == b->swizzle &&
           a->vector == b->vector && a->stages == b->stages && a->producers == b->producers && a->align == b->align && a->within == b->within &&
           a->axis == b->axis && a->rank == b->rank && a->i == b->i && a->name == b->name &&
           !memcmp(&a->f, &b->f, sizeof a->f) && !memcmp(a->shape, b->shape, sizeof a->shape) && !memcmp(a->axes, b->axes, sizeof a->axes);
}

bool tile_op_find(const char *name, TileOp *out)
{
    for (int i = 0; i < TOP_COUNT; i++)
        if (!strcmp(tile_op_info[i].name, name)) {
            *out = (TileOp)i;
            return true;
        }
    return false;
}

/* ---- kernels ---- */

TileKernel *tile_kernel_new(Sym name)
{
    TileKernel *k = tsr_calloc(sizeof *k);

    k->name = name;
    k->lanes = 1;
    return k;
}

static void free_block(TileBlock *b)
{
    vec_free(&b->params);
    vec_free(&b->yields);
}

void tile_kernel_free(TileKernel *k)
{
    if (!k)
        return;
    for (int i = 0; i < k->blocks.n; i++)
        free_block(k->blocks.at[i]);
    free_block(&k->body);
    vec_free(&k->blocks);
    vec_free(&k->params);
    vec_free(&k->param_name);
    vec_free(&k->size);
    vec_free(&k->size_var);
    vec_free(&k->grid);
    arena_done(&k->arena);
    tsr_free(k);
}

Dim tile_size(TileKernel *k, Sym name)
{
    for (int i = 0; i < k->size.n; i++)
        if (k->size.at[i] == name)
            return k->size_var.at[i];
    vec_push(&k->size, name);
    vec_push(&k->size_var, dim_var(name, 0, INT64_MAX));
    return vec_last(&k->size_var);
}

static TileType *keep_types(TileKernel *k, const TileType *t, int n)
{
    TileType *y = arena_array(&k->arena, TileType, n ? n : 1);

    for (int i = 0; i < n; i++)
        y[i] = t[i];
    return y;
}

static TileNode *new_node(TileKernel *k, int op, const TileType *type, int nout)
{
    TileNode *n = arena_new(&k->arena, TileNode);

    n->op = (uint16_t)op;
    n->id = k->nnodes++;
    n->attr = &tattr_none;
    n->nout = (uint16_t)nout;
    n->type = keep_types(k, type, nout);
    return n;
}

static TileRef new_param(TileKernel *k, TileBlock *b, const TileType *t)
{
    TileNode *n = new_node(k, TILE_PARAM, t, 1);

    n->block = b;
    vec_push(&b->params, n);
    return (TileRef){n, 0};
}

TileRef tile_param(TileKernel *k, Sym name, const TileType *view)
{
    TileRef r = new_param(k, &k->body, view);

    vec_push(&k->params, r.node);
    vec_push(&k->param_name, name);
    return r;
}

static void link_node(TileBlock *b, TileNode *n)
{
    n->block = b;
    n->prev = b->last;
    *(b->last ? &b->last->next : &b->first) = n;
    b->last = n;
}

static void make_regions(TileKernel *k, TileNode *n)
{
    TileType *types = tsr_alloc(sizeof *types * (size_t)(n->nin + 1));

    for (int r = 0; r < tile_op_info[n->op].regions; r++) {
        TileBlock *b = arena_new(&k->arena, TileBlock);
        int np = tile_region_params(n, r, types);
        vec_push(&k->blocks, b);
        b->owner = n;
        n->region[r] = b;
        for (int i = 0; i < np; i++)
            new_param(k, b, &types[i]);
    }
    tsr_free(types);
}

static const TAttr *keep_attr(TileKernel *k, TileOp op, const TAttr *a)
{
    TAttr only = tattr_only(op, a);

    return tattr_equal(&only, &tattr_none) ? &tattr_none : arena_copy(&k->arena, &only, sizeof only);
}

void tile_set_attr(TileKernel *k, TileNode *n, const TAttr *a) { n->attr = keep_attr(k, (TileOp)n->op, a); }

TileNode *tile_add(TileBuilder *b, TileOp op, const TAttr *a, const TileRef *in, int nin)
{
    TileType few[8], *types = nin < 8 ? few : tsr_alloc(sizeof *types * (size_t)(nin + 1));
    TileNode *n = NULL;
    int nout;

    a = a ? a : &tattr_none;
    if (b->at->closed)
        sb_printf(b->err, "%s: its block is closed", tile_op_info[op].name);
    else if (tile_infer(b->k, op, a, in, nin, types, &nout, b->err)) {
        n = new_node(b->k, op, types, nout < 0 ? 0 : nout);
        n->span = b->span;
        n->attr = keep_attr(b->k, op, a);
        n->nin = (uint16_t)nin;
        n->in = arena_array(&b->k->arena, TileRef, nin ? nin : 1);
        for (int i = 0; i < nin; i++) {
            n->in[i] = in[i];
            in[i].node->nuse++;
        }
        link_node(b->at, n);
        make_regions(b->k, n);
    }
    if (types != few)
        tsr_free(types);
    return n;
}

TileNode *tile_insert(TileKernel *k, TileNode *at, TileOp op, const TAttr *a, const TileRef *in, int nin)
{
    TileBlock *block = at->block;
    StrBuf err = {0};
    TileBuilder b = {k, block, at->span, &err};
    bool closed = block->closed;
    TileNode *n;

    block->closed = false;
    n = tile_add(&b, op, a, in, nin);
    block->closed = closed;
    sb_done(&err);
    if (!n)
        return NULL;
    *(n->prev ? &n->prev->next : &block->first) = NULL;     /* it is the last one */
    block->last = n->prev;
    n->prev = at->prev;
    n->next = at;
    *(n->prev ? &n->prev->next : &block->first) = n;
    at->prev = n;
    return n;
}

static void replace_in(TileBlock *b, TileRef old, TileRef now)
{
    for (int i = 0; i < b->yields.n; i++)
        if (b->yields.at[i].node == old.node && b->yields.at[i].index == old.index) {
            b->yields.at[i] = now;
            old.node->nuse--;
            now.node->nuse++;
        }
    for (TileNode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->nin; i++)
            if (n->in[i].node == old.node && n->in[i].index == old.index) {
                n->in[i] = now;
                old.node->nuse--;
                now.node->nuse++;
            }
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                replace_in(n->region[r], old, now);
    }
}

void tile_replace(TileKernel *k, TileRef old, TileRef now) { replace_in(&k->body, old, now); }

int64_t tile_schedule(const TileKernel *k, const char *field, int64_t otherwise)
{
    size_t n = strlen(field);

    for (const char *p = k->schedule ? k->schedule->text : ""; *p; p += strcspn(p, " "), p += *p == ' ')
        if (!strncmp(p, field, n) && p[n] == '=')
            return strtoll(p + n + 1, NULL, 10);
    return otherwise;
}

static void take_results(TileKernel *k, TileNode *n, const TileRef *out, int count)
{
    n->type = arena_array(&k->arena, TileType, count ? count : 1);
    n->nout = (uint16_t)count;
    for (int i = 0; i < count; i++)
        n->type[i] = *tile_type(out[i]);
}

bool tile_yield(TileBuilder *b, const TileRef *out, int n)
{
    TileNode *owner = b->at->owner;
    const TileType *want;
    TileType flag;
    int count;

    if (!owner || b->at->closed) {
        sb_puts(b->err, "yield: the block is not one that yields");
        return false;
    }
    count = tile_region_yields(owner, owner->region[0] != b->at, &want, &flag);
    if (count < 0) {
        take_results(b->k, owner, out, n);
        count = n;
        want = owner->type;
    }
    if (n != count) {
        sb_printf(b->err, "yield: %d values where %d are needed", n, count);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!tile_type_equal(tile_type(out[i]), &want[i])) {
            sb_printf(b->err, "yield: value %d is ", i + 1);
            tile_type_print(tile_type(out[i]), b->err);
            sb_puts(b->err, " where ");
            tile_type_print(&want[i], b->err);
            sb_puts(b->err, " is needed");
            return false;
        }
    for (int i = 0; i < n; i++) {
        vec_push(&b->at->yields, out[i]);
        out[i].node->nuse++;
    }
    b->at->closed = true;
    return true;
}

static void drop_uses(TileNode *n)
{
    for (int i = 0; i < n->nin; i++)
        n->in[i].node->nuse--;
    for (int r = 0; r < 2; r++) {
        if (!n->region[r])
            continue;
        for (TileNode *m = n->region[r]->first; m; m = m->next)
            drop_uses(m);
        for (int i = 0; i < n->region[r]->yields.n; i++)
            n->region[r]->yields.at[i].node->nuse--;
    }
}

static void take_out(TileNode *n)
{
    *(n->prev ? &n->prev->next : &n->block->first) = n->next;
    *(n->next ? &n->next->prev : &n->block->last) = n->prev;
}

void tile_unlink(TileNode *n)
{
    drop_uses(n);
    take_out(n);
}

void tile_move(TileNode *n, TileNode *where)
{
    take_out(n);
    n->block = where->block;
    n->prev = where->prev;
    n->next = where;
    *(where->prev ? &where->prev->next : &where->block->first) = n;
    where->prev = n;
}
