/*
 * The oracle of the Tile IR: groups run one after another, each op as tile.def
 * says it, with the runtime's own arithmetic.
 *
 * A value has a slot: data of a tile, an index, a view, or a tree.  Slots of
 * tiles are made when first written and written again in later rounds; what a
 * loop carries is copied, trees move, as they are used up.  Copies that are
 * not waited for have not happened yet, and their elements may not be touched.
 */
#include "ir/tile/exec_impl.h"

#include "base/interrupt.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

typedef struct Slot {
    char *data;
    int64_t index;
    View view;
    Tree tree;
} Slot;

typedef struct Pending {
    View to, from;
    int64_t batch;
    _Alignas(16) char fill[16];
} Pending;

typedef struct Exec {
    const TileKernel *k;
    const int64_t *sizes;
    int64_t group[3];
    uint32_t count, *first;             /* slots: all, and the first of each node */
    uint32_t *number;
    Slot *slot;
    Buffer *buffers;
    Vec(Pending) pending;
    int64_t batch;                      /* copies from now on belong to it */
    StrBuf *err;
} Exec;

static bool run_block(Exec *e, const TileBlock *b);

/* ---- slots ---- */

static Slot *slot_of(Exec *e, TileRef v) { return &e->slot[e->first[v.node->id] + (uint32_t)v.index]; }
static int64_t index_in(Exec *e, const TileNode *n, int i) { return slot_of(e, n->in[i])->index; }
static const char *data_in(Exec *e, const TileNode *n, int i) { return slot_of(e, n->in[i])->data; }

static size_t bytes_of(const TileType *t) { return (size_t)tile_elements(t) * raw_size((DType)t->dtype); }

/* Where result i of a node goes; made when first asked for. */
static Slot *result(Exec *e, const TileNode *n, int i)
{
    Slot *s = slot_of(e, (TileRef){(TileNode *)n, i});

    if (n->type[i].kind == TILE_VALUE && !s->data)
        s->data = tsr_calloc(bytes_of(&n->type[i]));
    return s;
}

static void move_value(Slot *to, Slot *from, const TileType *t)
{
    switch (t->kind) {
    case TILE_VALUE:
        if (!to->data)
            to->data = tsr_alloc(bytes_of(t));
        memcpy(to->data, from->data, bytes_of(t));
        break;
    case TILE_TREE:
        tsr_free(to->tree.wait);
        to->tree = from->tree;
        from->tree = (Tree){0};
        break;
    case TILE_VIEW: to->view = from->view; break;
    default: to->index = from->index;
    }
}

static bool fault(Exec *e, const TileNode *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fault(Exec *e, const TileNode *n, const char *fmt, ...)
{
    va_list ap;
    Place p = n->span.hi ? source_place(n->span.lo) : (Place){0};

    if (p.src)
        sb_printf(e->err, "%s:%u: ", p.src->path, p.line);
    if (n->nout)
        sb_printf(e->err, "%%%u, ", e->number[n->id]);
    sb_printf(e->err, "%s: ", tile_op_info[n->op].name);
    va_start(ap, fmt);
    sb_vprintf(e->err, fmt, ap);
    va_end(ap);
    return false;
}

/* The message of a part of the oracle, under the op's name. */
static bool pass_on(Exec *e, const TileNode *n, bool ok, StrBuf *why)
{
    if (!ok)
        fault(e, n, "%s", sb_str(why));
    sb_done(why);
    return ok;
}

/* ---- sizes and places ---- */

static int64_t size_named(const Exec *e, Sym name)
{
    for (int i = 0; i < e->k->size.n; i++)
        if (e->k->size.at[i] == name)
            return e->sizes[i];
    return 0;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static bool run_index(Exec *e, const TileNode *n)
{
    int64_t *y = &result(e, n, 0)->index;
    uint64_t a = n->nin > 0 ? (uint64_t)index_in(e, n, 0) : 0, b = n->nin > 1 ? (uint64_t)index_in(e, n, 1) : 0;

    if ((n->op == TOP_idiv || n->op == TOP_imod) && (int64_t)b <= 0)
        return fault(e, n, "the divisor %" PRId64 " is not positive", (int64_t)b);
    switch (n->op) {
    case TOP_index: *y = n->attr->i; break;
    case TOP_size: *y = size_named(e, n->attr->name); break;
    case TOP_group: *y = e->group[n->attr->axis]; break;
    case TOP_extent: *y = slot_of(e, n->in[0])->view.extent[n->attr->axis]; break;
    case TOP_iadd: *y = (int64_t)(a + b); break;
    case TOP_isub: *y = (int64_t)(a - b); break;
    case TOP_imul: *y = (int64_t)(a * b); break;
    case TOP_idiv: *y = floor_div((int64_t)a, (int64_t)b); break;
    case TOP_imod: *y = (int64_t)a - floor_div((int64_t)a, (int64_t)b) * (int64_t)b; break;
    case TOP_imin: *y = (int64_t)a < (int64_t)b ? (int64_t)a : (int64_t)b; break;
    default: *y = (int64_t)a > (int64_t)b ? (int64_t)a : (int64_t)b;
    }
    return true;
}

/* ---- values ---- */

static void raw_of(const TAttr *a, DType dt, void *raw)
{
    if (dtype_is_int(dt) || dt == DT_bool)
        raw_convert(dt, raw, DT_int64, &a->i, 1, NULL, 0);
    else
        raw_convert(dt, raw, DT_f64, &a->f, 1, NULL, 0);
}

static void fill_raw(const TAttr *a, DType dt, void *raw) { raw_convert(dt, raw, DT_f64, &a->f, 1, NULL, 0); }

static void run_map(Exec *e, const TileNode *n)
{
    DType as = tile_map_dtype((OpId)n->attr->op, n->in);
    char *stretched[3] = {NULL, NULL, NULL};
    const void *in[3] = {NULL, NULL, NULL};

    for (int k = 0; k < n->nin; k++) {
        const TileType *x = tile_type(n->in[k]);
        in[k] = data_in(e, n, k);
        if (tile_elements(x) != tile_elements(&n->type[0])) {
            TileType full = n->type[0];
            full.dtype = x->dtype;
            in[k] = stretched[k] = tsr_alloc(bytes_of(&full));
            eval_stretch(x, data_in(e, n, k), &full, stretched[k]);
        }
    }
    tile_eval_map(n->attr, as, (DType)n->type[0].dtype, n->nin, in, tile_elements(&n->type[0]), result(e, n, 0)->data);
    for (int k = 0; k < n->nin; k++)
        tsr_free(stretched[k]);
}

static bool run_value(Exec *e, const TileNode *n)
{
    Slot *y = result(e, n, 0);
    uint8_t flag;

    switch (n->op) {
    case TOP_ilt: case TOP_ieq:
        flag = n->op == TOP_ilt ? index_in(e, n, 0) < index_in(e, n, 1) : index_in(e, n, 0) == index_in(e, n, 1);
        memcpy(y->data, &flag, 1);
        break;
    case TOP_to_index: raw_convert(DT_int64, &y->index, (DType)tile_type(n->in[0])->dtype, data_in(e, n, 0), 1, NULL, 0); break;
    case TOP_to_tile: raw_convert((DType)n->type[0].dtype, y->data, DT_int64, &slot_of(e, n->in[0])->index, 1, NULL, 0); break;
    case TOP_const: raw_of(n->attr, (DType)n->type[0].dtype, y->data); break;
    case TOP_splat: eval_stretch(tile_type(n->in[0]), data_in(e, n, 0), &n->type[0], y->data); break;
    case TOP_iota: eval_iota(n, index_in(e, n, 0), y->data); break;
    case TOP_map: run_map(e, n); break;
    case TOP_reshape: memcpy(y->data, data_in(e, n, 0), bytes_of(&n->type[0])); break;
    case TOP_permute: eval_permute(n, data_in(e, n, 0), y->data); break;
    case TOP_reduce: eval_reduce(n, data_in(e, n, 0), index_in(e, n, 1), y->data); break;
    default: eval_dot(n, data_in(e, n, 0), data_in(e, n, 1), data_in(e, n, 2), index_in(e, n, 3), y->data);
    }
    return true;
}

static bool run_tree(Exec *e, const TileNode *n)
{
    Slot *y = result(e, n, 0);

    if (n->op == TOP_tree) {
        tsr_free(y->tree.wait);
        y->tree = (Tree){.n = tile_elements(&n->type[0])};
        return true;
    }
    Slot *x = slot_of(e, n->in[0]);
    if (n->op == TOP_total) {
        tree_total(tile_type(n->in[0]), &x->tree, y->data);
        return true;
    }
    tree_push(&n->type[0], &x->tree, data_in(e, n, 1));
    move_value(y, x, &n->type[0]);
    return true;
}

/* ---- memory ---- */

static void starts(Exec *e, const TileNode *n, int from, int rank, int64_t *out)
{
    for (int i = 0; i < rank; i++)
        out[i] = index_in(e, n, from + i);
}

/* The shape of a stored tile with the view's axes. */
static void block_shape(const TileType *x, int rank, unsigned drop, int32_t *shape)
{
    for (int i = 0, k = 0; i < rank; i++)
        shape[i] = drop >> i & 1 ? 1 : x->extent[k++];
}

static bool run_access(Exec *e, const TileNode *n)
{
    const View *v = &slot_of(e, n->in[0])->view;
    int64_t start[TILE_RANK_MAX];
    int32_t shape[TILE_RANK_MAX];
    _Alignas(16) char fill[16];
    StrBuf why = {0};
    bool ok;

    starts(e, n, 1, v->rank, start);
    if (n->op == TOP_load) {
        fill_raw(n->attr, v->dtype, fill);
        ok = view_load(v, start, n->attr->shape, fill, result(e, n, 0)->data, &why);
    } else {
        block_shape(tile_type(n->in[n->nin - 1]), v->rank, n->attr->drop, shape);
        if (n->op == TOP_store)
            ok = view_store(v, start, shape, data_in(e, n, n->nin - 1), &why);
        else
            ok = view_atomic(v, start, shape, tile_step_op((OpId)n->attr->op), data_in(e, n, n->nin - 1), &why);
    }
    return pass_on(e, n, ok, &why);
}

enum { BUFFER_MAX = 1 << 28 };          /* elements of a buffer */

static bool run_alloc(Exec *e, const TileNode *n)
{
    View *v = &result(e, n, 0)->view;
    Buffer *b;
    int64_t count = 1;

    *v = (View){.rank = n->nin, .dtype = (DType)n->attr->dtype};
    for (int i = n->nin - 1; i >= 0; i--) {
        v->extent[i] = index_in(e, n, i);
        v->stride[i] = count;
        if (v->extent[i] < 0 || (v->extent[i] && count > BUFFER_MAX / v->extent[i]))
            return fault(e, n, "%" PRId64 " elements along axis %d", v->extent[i], i);
        count *= v->extent[i];
    }
    b = tsr_calloc(sizeof *b);
    b->n = count;
    b->data = tsr_calloc((size_t)count * raw_size(v->dtype) + 1);
    b->state = tsr_calloc((size_t)count + 1);
    b->next = e->buffers;
    e->buffers = b;
    v->base = b->data;
    v->state = b->state;
    return true;
}

static bool run_part(Exec *e, const TileNode *n)
{
    View v = slot_of(e, n->in[0])->view;
    int64_t start[TILE_RANK_MAX], extent[TILE_RANK_MAX];
    StrBuf why = {0};

    starts(e, n, 1, v.rank, start);
    starts(e, n, 1 + v.rank, v.rank, extent);
    if (!pass_on(e, n, view_part(&v, start, extent, &why), &why))
        return false;
    result(e, n, 0)->view = v;
    return true;
}

static bool run_copy(Exec *e, const TileNode *n)
{
    Pending c = {.to = slot_of(e, n->in[0])->view, .from = slot_of(e, n->in[1])->view, .batch = e->batch};
    StrBuf why = {0};

    fill_raw(n->attr, c.to.dtype, c.fill);
    if (n->op == TOP_copy)
        return pass_on(e, n, view_copy(&c.to, &c.from, c.fill, WRITTEN, &why), &why);
    vec_push(&e->pending, c);
    return pass_on(e, n, view_mark(&c.to, -1, COMING, &why), &why);
}

/* Copies happen as late as they may. */
static bool run_wait(Exec *e, const TileNode *n)
{
    StrBuf why = {0};
    bool ok = true;
    int kept = 0;

    for (int i = 0; i < e->pending.n && ok; i++) {
        Pending *c = &e->pending.at[i];
        if (c->batch >= e->batch - n->attr->i)
            e->pending.at[kept++] = *c;
        else
            ok = view_mark(&c->to, COMING, COMING, &why) && view_copy(&c->to, &c->from, c->fill, LANDED, &why);
    }
    e->pending.n = kept;
    return pass_on(e, n, ok, &why);
}

static bool run_barrier(Exec *e)
{
    for (Buffer *b = e->buffers; b; b = b->next)
        for (int64_t i = 0; i < b->n; i++)
            b->state[i] = b->state[i] == LANDED ? WRITTEN : b->state[i];
    return true;
}

/* ---- control ---- */

/* values become what to[0..n) holds, all at once. */
static void carry(Exec *e, const TileRef *to, const TileRef *from, int n)
{
    Slot *kept = tsr_calloc(sizeof *kept * (size_t)(n + 1));

    for (int i = 0; i < n; i++)
        move_value(&kept[i], slot_of(e, from[i]), tile_type(from[i]));
    for (int i = 0; i < n; i++) {
        move_value(slot_of(e, to[i]), &kept[i], tile_type(to[i]));
        tsr_free(kept[i].data);
    }
    tsr_free(kept);
}

static void carry_params(Exec *e, const TileBlock *b, int skip, const TileRef *from, int n)
{
    TileRef *to = tsr_alloc(sizeof *to * (size_t)(n + 1));

    for (int i = 0; i < n; i++)
        to[i] = (TileRef){b->params.at[skip + i], 0};
    carry(e, to, from, n);
    tsr_free(to);
}

static void carry_results(Exec *e, const TileNode *n, const TileRef *from)
{
    TileRef *to = tsr_alloc(sizeof *to * (size_t)(n->nout + 1));

    for (int i = 0; i < n->nout; i++)
        to[i] = (TileRef){(TileNode *)n, i};
    carry(e, to, from, n->nout);
    tsr_free(to);
}

static void results_of_params(Exec *e, const TileNode *n, const TileBlock *b, int skip)
{
    for (int i = 0; i < n->nout; i++)
        move_value(result(e, n, i), slot_of(e, (TileRef){b->params.at[skip + i], 0}), &n->type[i]);
}

static bool interrupted(Exec *e, const TileNode *n) { return tsr_interrupted && !fault(e, n, "interrupted"); }

static bool run_for(Exec *e, const TileNode *n)
{
    int64_t i = index_in(e, n, 0), hi = index_in(e, n, 1), step = index_in(e, n, 2);
    const TileBlock *b = n->region[0];

    if (step <= 0)
        return fault(e, n, "the step %" PRId64 " is not positive", step);
    carry_params(e, b, 1, n->in + 3, n->nout);
    while (i < hi) {
        slot_of(e, (TileRef){b->params.at[0], 0})->index = i;
        if (interrupted(e, n) || !run_block(e, b))
            return false;
        carry_params(e, b, 1, b->yields.at, n->nout);
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    results_of_params(e, n, b, 1);
    return true;
}

static bool run_if(Exec *e, const TileNode *n)
{
    const TileBlock *b = n->region[!*data_in(e, n, 0)];

    if (!run_block(e, b))
        return false;
    carry_results(e, n, b->yields.at);
    return true;
}

static bool run_while(Exec *e, const TileNode *n)
{
    const TileBlock *test = n->region[0], *body = n->region[1];

    carry_params(e, test, 0, n->in, n->nout);
    for (;;) {
        if (interrupted(e, n) || !run_block(e, test))
            return false;
        if (!*slot_of(e, test->yields.at[0])->data)
            break;
        for (int i = 0; i < n->nout; i++)
            move_value(slot_of(e, (TileRef){body->params.at[i], 0}), slot_of(e, (TileRef){test->params.at[i], 0}), &n->type[i]);
        if (!run_block(e, body))
            return false;
        carry_params(e, test, 0, body->yields.at, n->nout);
    }
    results_of_params(e, n, test, 0);
    return true;
}

static bool run_node(Exec *e, const TileNode *n)
{
    switch (n->op) {
    case TOP_index: case TOP_size: case TOP_group: case TOP_extent: case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv:
    case TOP_imod: case TOP_imin: case TOP_imax:
        return run_index(e, n);
    case TOP_tree: case TOP_push: case TOP_total: return run_tree(e, n);
    case TOP_load: case TOP_store: case TOP_atomic: return run_access(e, n);
    case TOP_alloc: return run_alloc(e, n);
    case TOP_part: return run_part(e, n);
    case TOP_copy: case TOP_copy_async: return run_copy(e, n);
    case TOP_commit: return e->batch++, true;
    case TOP_wait: return run_wait(e, n);
    case TOP_barrier: return run_barrier(e);
    case TOP_for: return run_for(e, n);
    case TOP_if: return run_if(e, n);
    case TOP_while: return run_while(e, n);
    default: return run_value(e, n);
    }
}

static bool run_block(Exec *e, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next)
        if (!run_node(e, n))
            return false;
    return true;
}

/* ---- launches ---- */

static void give_buffers(Exec *e)
{
    for (Buffer *b = e->buffers, *next; b; b = next) {
        next = b->next;
        tsr_free(b->data);
        tsr_free(b->state);
        tsr_free(b);
    }
    e->buffers = NULL;
}

static bool run_group(Exec *e)
{
    bool ok;

    e->pending.n = 0;
    e->batch = 0;
    ok = run_block(e, &e->k->body);
    if (ok && e->pending.n) {
        sb_puts(e->err, "a copy is still under way at the end of the group");
        ok = false;
    }
    give_buffers(e);
    return ok;
}

static bool bind_params(Exec *e, const TileArg *args)
{
    for (int i = 0; i < e->k->params.n; i++) {
        const TileType *t = &e->k->params.at[i]->type[0];
        View *v = &e->slot[e->first[e->k->params.at[i]->id]].view;
        *v = (View){.base = args[i].base, .rank = t->rank, .dtype = (DType)t->dtype};
        for (int k = 0; k < t->rank; k++) {
            v->extent[k] = args[i].extent[k];
            v->stride[k] = args[i].stride[k];
            if (v->extent[k] < 0 || (t->stride[k] != STRIDE_ANY && t->stride[k] != v->stride[k] && v->extent[k] > 1)) {
                sb_printf(e->err, "parameter %%%s: extent %" PRId64 " with stride %" PRId64 " along axis %d does not fit ",
                          e->k->param_name.at[i]->text, v->extent[k], v->stride[k], k);
                tile_type_print(t, e->err);
                return false;
            }
        }
    }
    return true;
}

bool tile_groups(const TileKernel *k, const int64_t *sizes, int64_t *groups)
{
    for (int i = 0; i < 3; i++) {
        groups[i] = 1;
        if (i < k->grid.n && !dim_eval(k->grid.at[i], k->size_var.at, sizes, k->size.n, &groups[i]))
            return false;
    }
    return true;
}

static bool run_grid(Exec *e)
{
    int64_t n[3];

    if (!tile_groups(e->k, e->sizes, n)) {
        sb_puts(e->err, "the grid has no size for these sizes");
        return false;
    }
    for (e->group[0] = 0; e->group[0] < n[0]; e->group[0]++)
        for (e->group[1] = 0; e->group[1] < n[1]; e->group[1]++)
            for (e->group[2] = 0; e->group[2] < n[2]; e->group[2]++)
                if (!run_group(e))
                    return false;
    return true;
}

static void number_slots(Exec *e)
{
    e->number = tile_numbers(e->k, &e->count);
    e->first = tsr_alloc(sizeof *e->first * (e->k->nnodes + 1));
    memcpy(e->first, e->number, sizeof *e->first * e->k->nnodes);
    for (int i = 0; i < e->k->params.n; i++)
        e->first[e->k->params.at[i]->id] = e->count++;
    e->slot = tsr_calloc(sizeof *e->slot * (e->count + 1));
}

bool tile_exec(const TileKernel *k, const int64_t *sizes, const TileArg *args, StrBuf *err)
{
    Exec e = {.k = k, .sizes = sizes, .err = err};
    bool ok;

    number_slots(&e);
    ok = bind_params(&e, args) && run_grid(&e);
    for (uint32_t i = 0; i < e.count; i++) {
        tsr_free(e.slot[i].data);
        tsr_free(e.slot[i].tree.wait);
    }
    tsr_free(e.slot);
    tsr_free(e.first);
    tsr_free(e.number);
    vec_free(&e.pending);
    return ok;
}
