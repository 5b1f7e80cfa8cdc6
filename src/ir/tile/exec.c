/*
 * The oracle of the Tile IR: groups run one after another, each op as tile.def
 * says it, with the runtime's own arithmetic.
 *
 * A value has a slot: data of a tile, an index, a view, or a tree.  Slots of
 * tiles are made when first written and written again in later rounds; what a
 * loop carries is copied, trees move, as they are used up.  Memory is in
 * exec_memory.c.  Groups of several lanes: what is the same in all lanes is
 * done here, once; exec_lane.c has the rest.
 */
#include "ir/tile/exec_impl.h"

#include "base/interrupt.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* ---- slots ---- */

Slot *exec_slot(Exec *e, TileRef v) { return &e->slot[e->first[v.node->id] + (uint32_t)v.index]; }

/* Where result i of a node goes; made when first asked for. */
Slot *exec_result(Exec *e, const TileNode *n, int i)
{
    TileRef v = {(TileNode *)n, i};
    Slot *s = exec_slot(e, v);
    size_t lanes = exec_varies(e, v) ? (size_t)e->k->lanes : 1;

    if (n->type[i].kind == TILE_VALUE && !s->data)
        s->data = tsr_calloc(exec_bytes(&n->type[i]) * lanes);
    if (n->type[i].kind == TILE_INDEX && lanes > 1 && !s->indices)
        s->indices = tsr_calloc(sizeof *s->indices * lanes);
    return s;
}

void exec_move(Slot *to, Slot *from, const TileType *t)
{
    switch (t->kind) {
    case TILE_VALUE:
        if (!to->data)
            to->data = tsr_alloc(exec_bytes(t));
        memcpy(to->data, from->data, exec_bytes(t));
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

/* Whose program is checked sees its own lines and names; who wrote the kernel's text, its ops too. */
bool exec_fault(Exec *e, const TileNode *n, const char *fmt, ...)
{
    va_list ap;
    Place p = n->span.hi ? source_place(n->span.lo) : (Place){0};

    if (p.src)
        sb_printf(e->err, "%s:%u: ", p.src->path, p.line);
    if (n->nout && !(e->checks & TILE_CHECK_RACES))
        sb_printf(e->err, "%%%u, ", e->number[n->id]);
    if (!(e->checks & TILE_CHECK_RACES))
        sb_printf(e->err, "%s: ", tile_op_info[n->op].name);
    va_start(ap, fmt);
    sb_vprintf(e->err, fmt, ap);
    va_end(ap);
    return false;
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

bool exec_index(Exec *e, const TileNode *n, int64_t x, int64_t y, int64_t *out)
{
    uint64_t a = (uint64_t)x, b = (uint64_t)y;

    if ((n->op == TOP_idiv || n->op == TOP_imod) && y <= 0)
        return exec_fault(e, n, "the divisor %" PRId64 " is not positive", y);
    switch (n->op) {
    case TOP_iadd: *out = (int64_t)(a + b); break;
    case TOP_isub: *out = (int64_t)(a - b); break;
    case TOP_imul: *out = (int64_t)(a * b); break;
    case TOP_idiv: *out = floor_div(x, y); break;
    case TOP_imod: *out = (int64_t)(a - (uint64_t)floor_div(x, y) * b); break;
    case TOP_imin: *out = x < y ? x : y; break;
    default: *out = x > y ? x : y;
    }
    return true;
}

static bool run_index(Exec *e, const TileNode *n)
{
    int64_t *y = &exec_result(e, n, 0)->index;

    switch (n->op) {
    case TOP_index: *y = n->attr->i; return true;
    case TOP_size:
        *y = size_named(e, n->attr->name);
        if (n->attr->align && *y % n->attr->align)
            return exec_fault(e, n, "the size %s is %" PRId64 ", no multiple of %d", n->attr->name->text, *y, n->attr->align);
        return *y >= 0 || n->attr->i || exec_fault(e, n, "the size %s is %" PRId64, n->attr->name->text, *y);
    case TOP_group: *y = e->group[n->attr->axis]; return true;
    case TOP_lane: *y = 0; return true;
    case TOP_extent: *y = exec_slot(e, n->in[0])->view.extent[n->attr->axis]; return true;
    default: return exec_index(e, n, exec_index_in(e, n, 0), exec_index_in(e, n, 1), y);
    }
}

/* ---- values ---- */

static void raw_of(const TAttr *a, DType dt, void *raw)
{
    if (dtype_is_int(dt) || dt == DT_bool)
        raw_convert(dt, raw, DT_int64, &a->i, 1, NULL, 0);
    else
        raw_convert(dt, raw, DT_f64, &a->f, 1, NULL, 0);
}

void exec_fill(const TAttr *a, DType dt, void *raw) { raw_convert(dt, raw, DT_f64, &a->f, 1, NULL, 0); }

static void run_map(Exec *e, const TileNode *n)
{
    DType as = tile_map_dtype((OpId)n->attr->op, n->in);
    char *stretched[3] = {NULL, NULL, NULL};
    const void *in[3] = {NULL, NULL, NULL};

    for (int k = 0; k < n->nin; k++) {
        const TileType *x = tile_type(n->in[k]);
        in[k] = exec_data_in(e, n, k);
        if (tile_elements(x) != tile_elements(&n->type[0])) {
            TileType full = n->type[0];
            full.dtype = x->dtype;
            in[k] = stretched[k] = tsr_alloc(exec_bytes(&full));
            eval_stretch(x, exec_data_in(e, n, k), &full, stretched[k]);
        }
    }
    tile_eval_map(n->attr, as, (DType)n->type[0].dtype, n->nin, in, tile_elements(&n->type[0]), exec_result(e, n, 0)->data);
    for (int k = 0; k < n->nin; k++)
        tsr_free(stretched[k]);
}

static bool run_value(Exec *e, const TileNode *n)
{
    Slot *y = exec_result(e, n, 0);
    uint8_t flag;

    switch (n->op) {
    case TOP_ilt: case TOP_ieq:
        flag = n->op == TOP_ilt ? exec_index_in(e, n, 0) < exec_index_in(e, n, 1) : exec_index_in(e, n, 0) == exec_index_in(e, n, 1);
        memcpy(y->data, &flag, 1);
        break;
    case TOP_to_index: raw_convert(DT_int64, &y->index, (DType)tile_type(n->in[0])->dtype, exec_data_in(e, n, 0), 1, NULL, 0); break;
    case TOP_to_tile: raw_convert((DType)n->type[0].dtype, y->data, DT_int64, &exec_slot(e, n->in[0])->index, 1, NULL, 0); break;
    case TOP_const: raw_of(n->attr, (DType)n->type[0].dtype, y->data); break;
    case TOP_splat: eval_stretch(tile_type(n->in[0]), exec_data_in(e, n, 0), &n->type[0], y->data); break;
    case TOP_iota: eval_iota(n, exec_index_in(e, n, 0), y->data); break;
    case TOP_map: run_map(e, n); break;
    case TOP_reshape: memcpy(y->data, exec_data_in(e, n, 0), exec_bytes(&n->type[0])); break;
    case TOP_permute: eval_permute(n, exec_data_in(e, n, 0), y->data); break;
    case TOP_reduce: eval_reduce(n, exec_data_in(e, n, 0), exec_index_in(e, n, 1), y->data); break;
    default: eval_dot(n, exec_data_in(e, n, 0), exec_data_in(e, n, 1), exec_data_in(e, n, 2), exec_index_in(e, n, 3), y->data);
    }
    return true;
}

static bool run_tree(Exec *e, const TileNode *n)
{
    Slot *y = exec_result(e, n, 0);

    if (n->op == TOP_tree) {
        tsr_free(y->tree.wait);
        y->tree = (Tree){.n = tile_elements(&n->type[0])};
        return true;
    }
    Slot *x = exec_slot(e, n->in[0]);
    if (n->op == TOP_total) {
        tree_total(tile_type(n->in[0]), &x->tree, y->data);
        return true;
    }
    tree_push(&n->type[0], &x->tree, exec_data_in(e, n, 1));
    exec_move(y, x, &n->type[0]);
    return true;
}

/* A group of one lane: it is who it asks. */
static bool run_alone(Exec *e, const TileNode *n)
{
    Slot *y = exec_result(e, n, 0);

    if (n->op == TOP_match)
        y->index = 1;
    else
        exec_move(y, exec_slot(e, n->in[0]), &n->type[0]);
    return true;
}

bool (*tile_ranks)(void *st, Sym axes, const TileType *t, const void *in, void *out);
void (*tile_said)(void *st, const TileNode *n, const void *const *in);
void *tile_host;

static bool run_ranks(Exec *e, const TileNode *n)
{
    if (!tile_ranks)
        return exec_fault(e, n, "there are no ranks");
    return tile_ranks(tile_host, n->attr->name, &n->type[0], exec_data_in(e, n, 0), exec_result(e, n, 0)->data) ||
           exec_fault(e, n, "it did not meet the others");
}

/* ---- control ---- */

/* values become what to[0..n) holds, all at once. */
static void carry(Exec *e, const TileRef *to, const TileRef *from, int n)
{
    Slot *kept = tsr_calloc(sizeof *kept * (size_t)(n + 1));

    for (int i = 0; i < n; i++)
        exec_move(&kept[i], exec_slot(e, from[i]), tile_type(from[i]));
    for (int i = 0; i < n; i++) {
        exec_move(exec_slot(e, to[i]), &kept[i], tile_type(to[i]));
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
        exec_move(exec_result(e, n, i), exec_slot(e, (TileRef){b->params.at[skip + i], 0}), &n->type[i]);
}

bool exec_interrupted(Exec *e, const TileNode *n) { return tsr_interrupted && !exec_fault(e, n, "interrupted"); }

static bool run_for(Exec *e, const TileNode *n)
{
    int64_t i = exec_index_in(e, n, 0), hi = exec_index_in(e, n, 1), step = exec_index_in(e, n, 2);
    const TileBlock *b = n->region[0];

    if (step <= 0)
        return exec_fault(e, n, "the step %" PRId64 " is not positive", step);
    carry_params(e, b, 1, n->in + 3, n->nout);
    while (i < hi) {
        exec_slot(e, (TileRef){b->params.at[0], 0})->index = i;
        if (exec_interrupted(e, n) || !exec_block(e, b))
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
    const TileBlock *b = n->region[!*exec_data_in(e, n, 0)];

    if (!exec_block(e, b))
        return false;
    carry_results(e, n, b->yields.at);
    return true;
}

static bool run_while(Exec *e, const TileNode *n)
{
    const TileBlock *test = n->region[0], *body = n->region[1];

    carry_params(e, test, 0, n->in, n->nout);
    for (;;) {
        if (exec_interrupted(e, n) || !exec_block(e, test))
            return false;
        if (!*exec_slot(e, test->yields.at[0])->data)
            break;
        for (int i = 0; i < n->nout; i++)
            exec_move(exec_slot(e, (TileRef){body->params.at[i], 0}), exec_slot(e, (TileRef){test->params.at[i], 0}), &n->type[i]);
        if (!exec_block(e, body))
            return false;
        carry_params(e, test, 0, body->yields.at, n->nout);
    }
    results_of_params(e, n, test, 0);
    return true;
}

static bool run_node(Exec *e, const TileNode *n)
{
    if ((e->k->lanes > 1 || e->checks & TILE_CHECK_RACES) && n->op != TOP_prefetch && lane_does(e, n))
        return lane_run(e, n);
    switch (n->op) {
    case TOP_lane_reduce: case TOP_shuffle: case TOP_match: case TOP_uniform: return run_alone(e, n);
    case TOP_over_ranks: return run_ranks(e, n);
    case TOP_say: return exec_say(e, n, 0), true;
    case TOP_index: case TOP_size: case TOP_group: case TOP_lane: case TOP_extent: case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv:
    case TOP_imod: case TOP_imin: case TOP_imax:
        return run_index(e, n);
    case TOP_tree: case TOP_push: case TOP_total: return run_tree(e, n);
    case TOP_load: case TOP_store: case TOP_atomic: case TOP_update: case TOP_gather: case TOP_alloc: case TOP_part: case TOP_copy:
    case TOP_copy_async: case TOP_commit: case TOP_wait: case TOP_prefetch: case TOP_barrier:
        return exec_memory(e, n);
    case TOP_for: return run_for(e, n);
    case TOP_if: return run_if(e, n);
    case TOP_while: return run_while(e, n);
    default: return run_value(e, n);
    }
}

bool exec_block(Exec *e, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next)
        if (!run_node(e, n) || (e->checks & TILE_CHECK_NUMBERS && !exec_finite(e, n)) || (e->watch && !exec_seen_step(e)))
            return false;
    return true;
}

/* ---- launches ---- */

static bool run_group(Exec *e)
{
    bool ok;

    e->pending.n = 0;
    e->batch = 0;
    e->epoch = 0;
    ok = exec_block(e, &e->k->body);
    if (ok && e->pending.n && !(e->checks & TILE_CHECK_BUFFERS))
        ok = exec_land(e, INT64_MAX);
    if (ok && e->pending.n)
        ok = exec_fault(e, e->pending.at[0].node, "the copy is still under way at the end of the group");
    exec_give_buffers(e);
    return ok;
}

static bool bind_params(Exec *e, const TileArg *args)
{
    for (int i = 0; i < e->k->params.n; i++) {
        const TileType *t = &e->k->params.at[i]->type[0];
        View *v = &e->slot[e->first[e->k->params.at[i]->id]].view;
        *v = (View){.base = args[i].base, .rank = t->rank, .dtype = (DType)t->dtype, .name = e->k->param_name.at[i]};
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
        if (e->checks & TILE_CHECK_RACES || e->watch)
            v->memory = memory_new(v);
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
                else
                    e->group_number++;
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

static void give_slots(Exec *e)
{
    for (uint32_t i = 0; i < e->count; i++) {
        tsr_free(e->slot[i].data);
        tsr_free(e->slot[i].indices);
        tsr_free(e->slot[i].tree.wait);
    }
    for (int i = 0; i < e->k->params.n; i++)
        memory_free(e->slot[e->first[e->k->params.at[i]->id]].view.memory);
    tsr_free(e->slot);
    tsr_free(e->first);
    tsr_free(e->number);
}

/* One group, by its number; what ended it early is no fault when enough was seen. */
static bool run_watched(Exec *e, int64_t group)
{
    int64_t n[3];

    if (!tile_groups(e->k, e->sizes, n) || group < 0 || group >= n[0] * n[1] * n[2])
        return false;
    e->group_number = group;
    e->group[2] = group % n[2];
    e->group[1] = group / n[2] % n[1];
    e->group[0] = group / n[2] / n[1];
    run_group(e);
    exec_seen_end(e);
    return e->err->n == 0;
}

static bool run(Exec *e, const TileArg *args, int64_t group)
{
    bool ok;

    number_slots(e);
    tile_vary(e->k, &e->vary);
    e->mask = tsr_alloc((size_t)e->k->lanes);
    memset(e->mask, 1, (size_t)e->k->lanes);
    ok = bind_params(e, args) && (e->watch ? run_watched(e, group) : run_grid(e));
    give_slots(e);
    tile_vary_done(&e->vary);
    tsr_free(e->mask);
    vec_free(&e->pending);
    return ok;
}

bool tile_run(const TileKernel *k, const int64_t *sizes, const TileArg *args, unsigned checks, StrBuf *err)
{
    return run(&(Exec){.k = k, .sizes = sizes, .err = err, .checks = checks}, args, 0);
}

bool exec_watched(const TileKernel *k, const int64_t *sizes, const TileArg *args, int64_t group, Watch *w, StrBuf *err)
{
    return run(&(Exec){.k = k, .sizes = sizes, .err = err, .watch = w}, args, group);
}

bool tile_exec(const TileKernel *k, const int64_t *sizes, const TileArg *args, StrBuf *err)
{
    return tile_run(k, sizes, args, TILE_CHECK_BUFFERS, err);
}
