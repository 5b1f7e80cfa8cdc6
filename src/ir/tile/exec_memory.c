/*
 * The oracle's memory: views that are loaded and stored, buffers of a group, parts of views, copies and the waits for them.
 *
 * Copies that are not waited for have not happened yet, and their elements may not be touched.
 */
#include "ir/tile/exec_impl.h"

#include <inttypes.h>
#include <string.h>

/* The message of a part of the oracle, under the op's name. */
static bool pass_on(Exec *e, const TileNode *n, bool ok, StrBuf *why)
{
    if (!ok)
        exec_fault(e, n, "%s", sb_str(why));
    sb_done(why);
    return ok;
}

static void starts(Exec *e, const TileNode *n, int from, int rank, int64_t *out)
{
    for (int i = 0; i < rank; i++)
        out[i] = exec_index_in(e, n, from + i);
}

/* The shape of a stored tile with the view's axes. */
static void block_shape(const TileType *x, int rank, unsigned drop, int32_t *shape)
{
    for (int i = 0, k = 0; i < rank; i++)
        shape[i] = drop >> i & 1 ? 1 : x->extent[k++];
}

static bool touched(Exec *e, const TileNode *n, const View *v, const int64_t *start, const int32_t *shape)
{
    int64_t extent[TILE_RANK_MAX];

    for (int i = 0; i < v->rank; i++)
        extent[i] = shape[i];
    return memory_touch_block(e, n, v, start, extent, n->op == TOP_store ? TOUCH_WRITE : tile_is_atomic(n->op) ? TOUCH_ATOMIC : TOUCH_READ);
}

void exec_updated(const TileNode *n, const char *old, const char *expected, const char *with, char *next)
{
    DType dt = (DType)n->type[0].dtype;

    if (n->attr->op != OP_where)
        tile_eval_step(tile_update_step((OpId)n->attr->op), dt, 1, next, old, with);
    else
        memcpy(next, expected && memcmp(expected, old, raw_size(dt)) != 0 ? old : with, raw_size(dt));
}

static bool lies_within(const View *v, const int64_t *start, const int32_t *shape)
{
    bool within = true;

    for (int i = 0; i < v->rank; i++)
        within = within && start[i] >= 0 && start[i] + shape[i] <= v->extent[i];
    return within;
}

static bool run_access(Exec *e, const TileNode *n)
{
    const View *v = &exec_slot(e, n->in[0])->view;
    int64_t start[TILE_RANK_MAX];
    int32_t shape[TILE_RANK_MAX];
    _Alignas(16) char fill[16];
    StrBuf why = {0};
    bool ok;

    starts(e, n, 1, v->rank, start);
    block_shape(n->op == TOP_load ? &n->type[0] : tile_type(n->in[n->nin - 1]), v->rank, n->attr->drop, shape);
    if (!touched(e, n, v, start, shape))
        return false;
    if (n->attr->align && (v->extent[v->rank - 1] - start[v->rank - 1]) % n->attr->align)
        return exec_fault(e, n, "from its start on the view has no multiple of %d elements along the last axis", n->attr->align);
    if (n->attr->within && !lies_within(v, start, shape))
        return exec_fault(e, n, "what is said to lie within '%s' does not", v->name ? v->name->text : "?");
    if (n->op == TOP_load) {
        exec_fill(n->attr, v->dtype, fill);
        ok = view_load(v, start, n->attr->shape, fill, exec_result(e, n, 0)->data, &why);
    } else if (n->op == TOP_update) {
        _Alignas(16) char next[16];
        ok = view_load(v, start, shape, memset(fill, 0, sizeof fill), exec_result(e, n, 0)->data, &why);
        exec_updated(n, exec_result(e, n, 0)->data, tile_expects(n) ? exec_data_in(e, n, n->nin - 2) : NULL, exec_data_in(e, n, n->nin - 1), next);
        ok = ok && view_store(v, start, shape, next, &why);
    } else {
        if (n->op == TOP_store)
            ok = view_store(v, start, shape, exec_data_in(e, n, n->nin - 1), &why);
        else
            ok = view_atomic(v, start, shape, tile_step_op((OpId)n->attr->op), exec_data_in(e, n, n->nin - 1), &why);
    }
    return pass_on(e, n, ok, &why);
}

enum { BUFFER_MAX = 1 << 28 };          /* elements of a buffer */

static bool guarded(const TileBlock *all, const TileNode *n);

/* A use of what n gives that is of no consequence where a test says so. */
static bool guards(const TileBlock *all, const TileNode *user, const TileNode *n)
{
    if (user->op == TOP_reshape || user->op == TOP_permute || (user->op == TOP_map && user->attr->op == OP_convert))
        return guarded(all, user);
    return user->op == TOP_map && user->attr->op == OP_where && user->in[0].node != n;
}

static bool guarded_in(const TileBlock *b, const TileBlock *all, const TileNode *n)
{
    for (const TileNode *m = b->first; m; m = m->next) {
        for (int i = 0; i < m->nin; i++)
            if (m->in[i].node == n && !guards(all, m, n))
                return false;
        for (int r = 0; r < 2; r++)
            if (m->region[r] && !guarded_in(m->region[r], all, n))
                return false;
    }
    for (int i = 0; i < b->yields.n; i++)
        if (b->yields.at[i].node == n)
            return false;
    return true;
}

/* Is what n gives only looked at where a test chooses it, where(test, x[q], 0)? Then nobody has to want what lies outside. */
static bool guarded(const TileBlock *all, const TileNode *n) { return guarded_in(all, all, n); }

/* A place outside, where faults are looked for. INT64_MIN stands for one that is of no element. */
static bool gather_outside(Exec *e, const TileNode *n, const View *v, int64_t at)
{
    if (at == INT64_MIN || guarded(&e->k->body, n))
        return true;
    return exec_fault(e, n, "out of bounds: group %" PRId64 " gathers [%" PRId64 "] of '%s', which has only [%" PRId64 "]", e->group_number, at,
                      v->name ? v->name->text : "?", v->extent[0]);
}

static bool run_gather(Exec *e, const TileNode *n)
{
    const View *v = &exec_slot(e, n->in[0])->view;
    const TileType *x = tile_type(n->in[1]);
    size_t row = exec_bytes(&n->type[0]) / (size_t)x->extent[0];
    int64_t start[TILE_RANK_MAX] = {0};
    int32_t shape[TILE_RANK_MAX] = {1};
    _Alignas(16) char fill[16];

    exec_fill(n->attr, v->dtype, fill);
    memcpy(shape + 1, n->attr->shape + 1, sizeof *shape * (size_t)(v->rank - 1));
    for (int32_t i = 0; i < x->extent[0]; i++) {
        StrBuf why = {0};
        raw_convert(DT_int64, start, (DType)x->dtype, exec_data_in(e, n, 1) + (size_t)i * raw_size((DType)x->dtype), 1, NULL, 0);
        if (n->attr->i == 2 && e->checks & TILE_CHECK_RACES && (start[0] < 0 || start[0] >= v->extent[0]) &&
            !gather_outside(e, n, v, start[0]))
            return false;
        if (!touched(e, n, v, start, shape))
            return false;
        if (!pass_on(e, n, view_load(v, start, shape, fill, exec_result(e, n, 0)->data + (size_t)i * row, &why), &why))
            return false;
    }
    return true;
}

static bool run_alloc(Exec *e, const TileNode *n)
{
    View *v = &exec_result(e, n, 0)->view;
    Buffer *b;
    int64_t count = 1, lanes = n->attr->space == SPACE_LOCAL ? e->k->lanes : 1;

    *v = (View){.rank = n->nin, .dtype = (DType)n->attr->dtype, .name = n->attr->name, .shared = true};
    for (int i = n->nin - 1; i >= 0; i--) {
        v->extent[i] = exec_index_in(e, n, i);
        v->stride[i] = count;
        if (v->extent[i] < 0 || (v->extent[i] && count > BUFFER_MAX / v->extent[i]))
            return exec_fault(e, n, "%" PRId64 " elements along axis %d", v->extent[i], i);
        count *= v->extent[i];
    }
    b = tsr_calloc(sizeof *b);
    b->n = count * lanes;
    b->cols = v->rank ? v->extent[v->rank - 1] : 1;
    b->swizzle = n->attr->swizzle == SWIZZLE_XOR;
    b->data = tsr_calloc((size_t)b->n * raw_size(v->dtype) + 1);
    b->state = e->checks & TILE_CHECK_BUFFERS ? tsr_calloc((size_t)b->n + 1) : NULL;
    b->copier = b->state && e->checks & TILE_CHECK_RACES ? tsr_calloc(sizeof *b->copier * ((size_t)b->n + 1)) : NULL;
    b->next = e->buffers;
    e->buffers = b;
    v->base = b->data;
    v->state = b->state;
    v->buffer = b;
    v->lane_step = lanes > 1 ? count : 0;
    if ((e->checks & TILE_CHECK_RACES || e->watch) && n->attr->space == SPACE_SHARED)
        v->memory = b->memory = memory_new(v);
    return true;
}

static bool run_part(Exec *e, const TileNode *n)
{
    View v = exec_slot(e, n->in[0])->view;
    int64_t start[TILE_RANK_MAX], extent[TILE_RANK_MAX];
    StrBuf why = {0};

    starts(e, n, 1, v.rank, start);
    starts(e, n, 1 + v.rank, v.rank, extent);
    if (!pass_on(e, n, view_part(&v, start, extent, &why), &why))
        return false;
    for (int i = 0, k = 0; i < v.rank; i++)
        if (!(n->attr->drop >> i & 1)) {
            v.extent[k] = v.extent[i];
            v.stride[k++] = v.stride[i];
        }
    v.rank -= __builtin_popcount(n->attr->drop);
    exec_result(e, n, 0)->view = v;
    return true;
}

static bool run_copy(Exec *e, const TileNode *n)
{
    static const int64_t origin[TILE_RANK_MAX];
    Pending c = {.to = exec_slot(e, n->in[0])->view, .from = exec_slot(e, n->in[1])->view, .batch = e->batch, .node = n};
    StrBuf why = {0};

    if (!memory_touch_block(e, n, &c.to, origin, c.to.extent, TOUCH_WRITE) || !memory_touch_block(e, n, &c.from, origin, c.to.extent, TOUCH_READ))
        return false;

    exec_fill(n->attr, c.to.dtype, c.fill);
    if (n->op == TOP_copy)
        return pass_on(e, n, view_copy(&c.to, &c.from, c.fill, WRITTEN, &why), &why);
    vec_push(&e->pending, c);
    return pass_on(e, n, view_mark(&c.to, -1, COMING, n, &why), &why);
}

bool exec_land(Exec *e, int64_t until)
{
    static const int64_t origin[TILE_RANK_MAX];
    int kept = 0;

    for (int i = 0; i < e->pending.n; i++) {
        Pending *c = &e->pending.at[i];
        StrBuf why = {0};
        if (c->batch >= until)
            e->pending.at[kept++] = *c;
        else if ((e->watch && !memory_touch_block(e, c->node, &c->to, origin, c->to.extent, TOUCH_WRITE)) ||
                 !pass_on(e, c->node, view_mark(&c->to, COMING, COMING, NULL, &why) && view_copy(&c->to, &c->from, c->fill, LANDED, &why), &why))
            return false;
    }
    e->pending.n = kept;
    return true;
}

static bool run_barrier(Exec *e, const TileNode *n)
{
    if (e->watch)
        exec_seen_barrier(e, n);
    e->epoch++;
    for (Buffer *b = e->buffers; b; b = b->next)
        for (int64_t i = 0; b->state && i < b->n; i++)
            b->state[i] = b->state[i] == LANDED ? WRITTEN : b->state[i];
    return true;
}

void exec_give_buffers(Exec *e)
{
    for (Buffer *b = e->buffers, *next; b; b = next) {
        next = b->next;
        tsr_free(b->data);
        tsr_free(b->state);
        tsr_free(b->copier);
        memory_free(b->memory);
        tsr_free(b);
    }
    e->buffers = NULL;
}

bool exec_memory(Exec *e, const TileNode *n)
{
    switch (n->op) {
    case TOP_load: case TOP_store: case TOP_atomic: case TOP_update: return run_access(e, n);
    case TOP_gather: return run_gather(e, n);
    case TOP_alloc: return run_alloc(e, n);
    case TOP_part: return run_part(e, n);
    case TOP_copy: case TOP_copy_async: return run_copy(e, n);
    case TOP_commit: return e->batch++, true;
    case TOP_wait: return exec_land(e, e->batch - n->attr->i);
    case TOP_barrier: return run_barrier(e, n);
    default: return true;               /* prefetch */
    }
}
