/*
 * Groups of several lanes in the oracle: all lanes take an op before any takes
 * the next one, and a mask says which of them are there.
 *
 * So a choice that varies runs both of its blocks, each for its own lanes, and
 * a loop goes on until its last lane has left.  What lanes do not agree on has
 * an element for each of them in its slot; lanes that are not there leave
 * theirs alone.  Nothing depends on this order but the order of atomic sums:
 * where memory is touched by two lanes with no barrier between them the
 * program is at fault, and exec_check.c finds it in any order.
 */
#include "ir/tile/exec_impl.h"

#include <inttypes.h>
#include <string.h>

static int lanes_of(const Exec *e) { return e->k->lanes; }
static size_t element_size(const TileType *t) { return t->kind == TILE_INDEX ? sizeof(int64_t) : raw_size((DType)t->dtype); }

/* ---- elements of lanes ---- */

/* Where lane l finds a value: its own element, or the one for all. */
static void *lane_at(Exec *e, TileRef v, int l)
{
    Slot *s = exec_slot(e, v);
    bool own = exec_varies(e, v);

    if (tile_type(v)->kind == TILE_INDEX)
        return own ? &s->indices[l] : &s->index;
    return s->data + (own ? (size_t)l * element_size(tile_type(v)) : 0);
}

static int64_t lane_index(Exec *e, TileRef v, int l) { return *(int64_t *)lane_at(e, v, l); }

static TileRef out_of(const TileNode *n, int i) { return (TileRef){(TileNode *)n, i}; }

/* All lanes' elements of a scalar in a row; *own is what to free, if anything. */
static const void *in_row(Exec *e, TileRef v, char **own)
{
    size_t size = element_size(tile_type(v));

    *own = NULL;
    if (exec_varies(e, v))
        return lane_at(e, v, 0);
    *own = tsr_alloc(size * (size_t)lanes_of(e));
    for (int l = 0; l < lanes_of(e); l++)
        memcpy(*own + (size_t)l * size, lane_at(e, v, 0), size);
    return *own;
}

static int active(const uint8_t *mask, int n)
{
    int count = 0;

    for (int l = 0; l < n; l++)
        count += mask[l];
    return count;
}

static int first_active(const Exec *e)
{
    for (int l = 0; l < lanes_of(e); l++)
        if (e->mask[l])
            return l;
    return 0;
}

/* ---- scalars ---- */

static void lane_map(Exec *e, const TileNode *n)
{
    const void *in[3] = {NULL, NULL, NULL};
    char *own[3] = {NULL, NULL, NULL};

    for (int k = 0; k < n->nin; k++)
        in[k] = in_row(e, n->in[k], &own[k]);
    tile_eval_map(n->attr, tile_map_dtype((OpId)n->attr->op, n->in), (DType)n->type[0].dtype, n->nin, in, lanes_of(e),
                  exec_slot(e, out_of(n, 0))->data);
    for (int k = 0; k < n->nin; k++)
        tsr_free(own[k]);
}

static bool lane_scalar(Exec *e, const TileNode *n, int l)
{
    void *y = lane_at(e, out_of(n, 0), l);
    const void *a = n->nin ? lane_at(e, n->in[0], l) : NULL;

    switch (n->op) {
    case TOP_lane: *(int64_t *)y = l; return true;
    case TOP_ilt: case TOP_ieq: {
        int64_t x = lane_index(e, n->in[0], l), z = lane_index(e, n->in[1], l);
        *(uint8_t *)y = n->op == TOP_ilt ? x < z : x == z;
        return true;
    }
    case TOP_to_index: raw_convert(DT_int64, y, (DType)tile_type(n->in[0])->dtype, a, 1, NULL, 0); return true;
    case TOP_to_tile: raw_convert((DType)n->type[0].dtype, y, DT_int64, a, 1, NULL, 0); return true;
    case TOP_splat: case TOP_reshape: case TOP_permute:             /* of rank 0 */
        memcpy(y, a, element_size(&n->type[0]));
        return true;
    default: return exec_index(e, n, lane_index(e, n->in[0], l), lane_index(e, n->in[1], l), y);
    }
}

static bool lane_scalars(Exec *e, const TileNode *n)
{
    for (int l = 0; l < lanes_of(e); l++)
        if (e->mask[l] && !lane_scalar(e, n, l))
            return false;
    return true;
}

/* ---- lanes together ---- */

/* The lane at `at` of l's run, or -1 when nobody is there. */
static int neighbour(const Exec *e, const TileNode *n, int l, int at)
{
    int run = n->attr->i ? (int)n->attr->i : lanes_of(e), m = l / run * run + at;

    return m < lanes_of(e) && e->mask[m] ? m : -1;
}

/* Halves of a run join, then quarters; `there` says which elements count. */
static void join_run(OpId step, DType dt, char *x, bool *there, int run)
{
    size_t size = raw_size(dt);
    int n = 1;

    while (n < run)
        n *= 2;
    for (n /= 2; n; n /= 2)
        for (int l = 0; l < n && l + n < run; l++) {
            char *a = x + (size_t)l * size, *b = x + (size_t)(l + n) * size;
            if (there[l] && there[l + n])
                tile_eval_step(step, dt, 1, a, a, b);
            else if (there[l + n])
                memcpy(a, b, size);
            there[l] |= there[l + n];
            there[l + n] = false;
        }
}

static void lane_reduce(Exec *e, const TileNode *n)
{
    int lanes = lanes_of(e), run = n->attr->i && n->attr->i < lanes ? (int)n->attr->i : lanes;
    DType dt = (DType)n->type[0].dtype;
    size_t size = raw_size(dt);
    char *own, *x = tsr_alloc(size * (size_t)lanes);
    bool *there = tsr_alloc((size_t)lanes);

    memcpy(x, in_row(e, n->in[0], &own), size * (size_t)lanes);
    tsr_free(own);
    for (int l = 0; l < lanes; l++)
        there[l] = e->mask[l];
    for (int from = 0; from < lanes; from += run)
        join_run(tile_step_op((OpId)n->attr->op), dt, x + (size_t)from * size, there + from, lanes - from < run ? lanes - from : run);
    for (int l = 0; l < lanes; l++)
        if (e->mask[l])
            memcpy(lane_at(e, out_of(n, 0), l), x + (size_t)(l / run * run) * size, size);
    tsr_free(x);
    tsr_free(there);
}

static void lane_shuffle(Exec *e, const TileNode *n)
{
    int run = n->attr->i ? (int)n->attr->i : lanes_of(e);
    size_t size = element_size(&n->type[0]);

    for (int l = 0; l < lanes_of(e); l++) {
        int64_t at = lane_index(e, n->in[1], l) % run;
        int from = e->mask[l] ? neighbour(e, n, l, (int)(at < 0 ? at + run : at)) : -1;
        if (e->mask[l])
            memcpy(lane_at(e, out_of(n, 0), l), lane_at(e, n->in[0], from < 0 ? l : from), size);
    }
}

static void lane_match(Exec *e, const TileNode *n)
{
    size_t size = element_size(tile_type(n->in[0]));

    for (int l = 0; l < lanes_of(e); l++) {
        uint64_t bits = 0;
        for (int at = 0; at < n->attr->i && e->mask[l]; at++) {
            int m = neighbour(e, n, l, at);
            if (m >= 0 && !memcmp(lane_at(e, n->in[0], l), lane_at(e, n->in[0], m), size))
                bits |= (uint64_t)1 << at;
        }
        if (e->mask[l])
            *(int64_t *)lane_at(e, out_of(n, 0), l) = (int64_t)bits;
    }
}

static bool lane_uniform(Exec *e, const TileNode *n)
{
    const TileType *t = &n->type[0];
    int first = first_active(e), same = 0;

    memcpy(lane_at(e, out_of(n, 0), 0), lane_at(e, n->in[0], first), element_size(t));
    for (int l = 0; l < lanes_of(e); l++)
        same += !memcmp(lane_at(e, n->in[0], l), lane_at(e, n->in[0], first), element_size(t));
    return same == lanes_of(e) || !(e->checks & TILE_CHECK_RACES) ||
           exec_fault(e, n, "divergent barrier: %d of %d tiles of the group go another way here, with a barrier or the group's work on it",
                      lanes_of(e) - same, lanes_of(e));
}

/* ---- memory ---- */

/* An element of a view for a lane; NULL: it lies outside. */
static char *element(Exec *e, const TileNode *n, const View *v, int l, int64_t *start)
{
    char *p = v->base + (int64_t)raw_size(v->dtype) * v->lane_step * l;
    bool inside = true;

    for (int i = 0; i < v->rank; i++) {
        start[i] = lane_index(e, n->in[1 + i], l);
        inside &= start[i] >= 0 && start[i] < v->extent[i];
        if (inside)
            p += start[i] * v->stride[i] * (int64_t)raw_size(v->dtype);
    }
    return inside ? p : NULL;
}

static const char *space_of(const View *v) { return !v->shared ? "global" : v->lane_step ? "register" : "shared"; }

static bool outside(Exec *e, const TileNode *n, const View *v, const int64_t *start, int l)
{
    StrBuf at = {0}, size = {0};

    if (!(e->checks & TILE_CHECK_RACES) && !n->attr->within)
        return true;
    for (int i = 0; i < v->rank; i++) {
        sb_printf(&at, "%s%" PRId64, i ? ", " : "", start[i]);
        sb_printf(&size, "%s%" PRId64, i ? ", " : "", v->extent[i]);
    }
    exec_fault(e, n, "out of bounds: tile %d of group %" PRId64 " %s %s '%s' at [%s], which has %s[%s]", l, e->group_number,
               n->op == TOP_load ? "reads" : "writes", space_of(v), v->name ? v->name->text : "?", sb_str(&at),
               v->rank > 1 ? "the shape " : "only ", sb_str(&size));
    sb_done(&at);
    sb_done(&size);
    return false;
}

static bool lane_access(Exec *e, const TileNode *n, const View *v, const void *fill, int l)
{
    int64_t start[TILE_RANK_MAX];
    size_t size = raw_size(v->dtype);
    char *p = element(e, n, v, l, start);
    uint8_t *state = v->state && p ? v->state + (p - v->base) / (int64_t)size : NULL;
    Touch touch = n->op == TOP_load ? TOUCH_READ : n->op == TOP_store ? TOUCH_WRITE : TOUCH_ATOMIC;

    if (!p) {
        if (!outside(e, n, v, start, l))
            return false;
        if (n->op == TOP_load || n->op == TOP_update)
            memcpy(lane_at(e, out_of(n, 0), l), fill, size);
        return true;
    }
    if (e->watch && !v->lane_step)
        exec_seen_lane(e, v, p, l);
    if ((state && touch != TOUCH_WRITE && !memory_usable(e, n, v, state, p)) || !memory_touch(e, n, v, p, l, touch) ||
        (state && touch == TOUCH_WRITE && !memory_usable(e, n, v, state, p)))
        return false;
    if (n->op == TOP_load || n->op == TOP_update)
        memcpy(lane_at(e, out_of(n, 0), l), p, size);
    if (n->op == TOP_store)
        memcpy(p, lane_at(e, n->in[n->nin - 1], l), size);
    else if (n->op == TOP_update)
        exec_updated(n, (char *)lane_at(e, out_of(n, 0), l), tile_expects(n) ? lane_at(e, n->in[n->nin - 2], l) : NULL,
                     lane_at(e, n->in[n->nin - 1], l), p);
    else if (n->op == TOP_atomic)
        tile_eval_step(tile_step_op((OpId)n->attr->op), v->dtype, 1, p, p, lane_at(e, n->in[n->nin - 1], l));
    if (state && n->op == TOP_store)
        *state = WRITTEN;
    return true;
}

static bool lane_accesses(Exec *e, const TileNode *n)
{
    const View *v = &exec_slot(e, n->in[0])->view;
    _Alignas(16) char fill[16] = {0};

    if (n->op == TOP_load)
        exec_fill(n->attr, v->dtype, fill);
    if (e->watch && !v->lane_step)
        exec_seen_access(e, n, v);
    for (int l = 0; l < lanes_of(e); l++)
        if (e->mask[l] && !lane_access(e, n, v, fill, l))
            return false;
    return true;
}

/* ---- control ---- */

/* All at once, to[i] becomes what from[i] holds, for the lanes of the mask. */
static void lane_carry(Exec *e, const TileRef *to, const TileRef *from, int n)
{
    Slot *kept = tsr_calloc(sizeof *kept * (size_t)(n + 1));

    for (int i = 0; i < n; i++) {
        if (!exec_varies(e, to[i])) {
            exec_move(&kept[i], exec_slot(e, from[i]), tile_type(from[i]));
        } else {
            char *own;
            const void *row = in_row(e, from[i], &own);
            size_t bytes = element_size(tile_type(from[i])) * (size_t)lanes_of(e);
            kept[i].data = own ? own : memcpy(tsr_alloc(bytes), row, bytes);
        }
    }
    for (int i = 0; i < n; i++) {
        size_t size = exec_varies(e, to[i]) ? element_size(tile_type(to[i])) : 0;
        if (!size)
            exec_move(exec_slot(e, to[i]), &kept[i], tile_type(to[i]));
        for (int l = 0; l < lanes_of(e) && size; l++)
            if (e->mask[l])
                memcpy(lane_at(e, to[i], l), kept[i].data + (size_t)l * size, size);
        tsr_free(kept[i].data);
    }
    tsr_free(kept);
}

static void room(Exec *e, const TileNode *n)
{
    for (int i = 0; i < n->nout; i++)
        exec_result(e, n, i);
}

static void carry_params(Exec *e, const TileBlock *b, int skip, const TileRef *from, int n)
{
    TileRef *to = tsr_alloc(sizeof *to * (size_t)(n + 1));

    for (int i = 0; i < n; i++) {
        to[i] = (TileRef){b->params.at[skip + i], 0};
        exec_result(e, to[i].node, 0);
    }
    lane_carry(e, to, from, n);
    tsr_free(to);
}

static void carry_results(Exec *e, const TileNode *n, const TileRef *from)
{
    TileRef *to = tsr_alloc(sizeof *to * (size_t)(n->nout + 1));

    for (int i = 0; i < n->nout; i++)
        to[i] = out_of(n, i);
    lane_carry(e, to, from, n->nout);
    tsr_free(to);
}

static void results_of_params(Exec *e, const TileNode *n, const TileBlock *b, int skip)
{
    TileRef *from = tsr_alloc(sizeof *from * (size_t)(n->nout + 1));

    for (int i = 0; i < n->nout; i++)
        from[i] = (TileRef){b->params.at[skip + i], 0};
    carry_results(e, n, from);
    tsr_free(from);
}

/* The lanes that are here and for which a flag is `want`. */
static uint8_t *lanes_where(Exec *e, TileRef flag, bool want)
{
    uint8_t *mask = tsr_alloc((size_t)lanes_of(e));

    for (int l = 0; l < lanes_of(e); l++)
        mask[l] = e->mask[l] && *(uint8_t *)lane_at(e, flag, l) == want;
    return mask;
}

static bool lane_if(Exec *e, const TileNode *n)
{
    uint8_t *here = e->mask, *way[2];
    bool ok = true;

    room(e, n);
    if (!exec_varies(e, n->in[0])) {
        const TileBlock *b = n->region[!*(uint8_t *)lane_at(e, n->in[0], 0)];
        if (!exec_block(e, b))
            return false;
        carry_results(e, n, b->yields.at);
        return true;
    }
    for (int r = 0; r < 2; r++)
        way[r] = lanes_where(e, n->in[0], !r);
    for (int r = 0; r < 2 && ok; r++) {
        e->mask = way[r];
        if (!active(e->mask, lanes_of(e)))
            continue;
        ok = exec_block(e, n->region[r]);
        if (ok)
            carry_results(e, n, n->region[r]->yields.at);
    }
    e->mask = here;
    tsr_free(way[0]);
    tsr_free(way[1]);
    return ok;
}

/* The lanes that have another round; false: none has. */
static bool another_round(Exec *e, const TileNode *n, TileRef i, uint8_t *left)
{
    for (int l = 0; l < lanes_of(e); l++)
        left[l] = left[l] && lane_index(e, i, l) < lane_index(e, n->in[1], l);
    return active(left, lanes_of(e)) != 0;
}

static bool next_round(Exec *e, const TileNode *n, TileRef i, uint8_t *left)
{
    bool own = exec_varies(e, i), past = false;

    for (int l = 0; l < (own ? lanes_of(e) : 1); l++) {
        int64_t *at = lane_at(e, i, l);
        if (__builtin_add_overflow(*at, lane_index(e, n->in[2], l), at)) {
            left[l] = 0;
            past = !own;
        }
    }
    return !past;
}

static bool lane_for(Exec *e, const TileNode *n)
{
    const TileBlock *b = n->region[0];
    TileRef i = {b->params.at[0], 0};
    uint8_t *here = e->mask, *left = tsr_alloc((size_t)lanes_of(e));
    bool ok = true;

    room(e, n);
    exec_result(e, i.node, 0);
    memcpy(left, here, (size_t)lanes_of(e));
    for (int l = 0; l < lanes_of(e) && ok; l++)
        if (here[l] && lane_index(e, n->in[2], l) <= 0)
            ok = exec_fault(e, n, "the step %" PRId64 " is not positive", lane_index(e, n->in[2], l));
    lane_carry(e, &i, n->in, 1);
    carry_params(e, b, 1, n->in + 3, n->nout);
    while (ok && another_round(e, n, i, left)) {
        e->mask = left;
        ok = !exec_interrupted(e, n) && exec_block(e, b);
        if (ok)
            carry_params(e, b, 1, b->yields.at, n->nout);
        e->mask = here;
        if (!next_round(e, n, i, left))
            break;
    }
    if (ok)
        results_of_params(e, n, b, 1);
    tsr_free(left);
    return ok;
}

static bool lane_while(Exec *e, const TileNode *n)
{
    const TileBlock *test = n->region[0], *body = n->region[1];
    uint8_t *here = e->mask, *left = tsr_alloc((size_t)lanes_of(e));
    TileRef *now = tsr_alloc(sizeof *now * (size_t)(n->nout + 1));
    bool ok = true;

    room(e, n);
    for (int i = 0; i < n->nout; i++)
        now[i] = (TileRef){test->params.at[i], 0};
    memcpy(left, here, (size_t)lanes_of(e));
    carry_params(e, test, 0, n->in, n->nout);
    while (ok && active(left, lanes_of(e))) {
        uint8_t *go;
        e->mask = left;
        ok = !exec_interrupted(e, n) && exec_block(e, test);
        if (!ok)
            break;
        go = lanes_where(e, test->yields.at[0], true);
        memcpy(left, go, (size_t)lanes_of(e));
        tsr_free(go);
        if (!active(left, lanes_of(e)))
            break;
        carry_params(e, body, 0, now, n->nout);
        ok = exec_block(e, body);
        if (ok)
            carry_params(e, test, 0, body->yields.at, n->nout);
    }
    e->mask = here;
    if (ok)
        results_of_params(e, n, test, 0);
    tsr_free(left);
    tsr_free(now);
    return ok;
}

/* ---- what is printed ---- */

void exec_say(Exec *e, const TileNode *n, int lane)
{
    const void **in = tsr_alloc(sizeof *in * (size_t)(n->nin + 1));

    for (int i = 0; i < n->nin; i++)
        in[i] = lane_at(e, n->in[i], lane);
    if (tile_said && !e->watch)
        tile_said(tile_host, n, in);
    tsr_free(in);
}

static void lanes_say(Exec *e, const TileNode *n)
{
    for (int l = 0; l < lanes_of(e); l++)
        if (e->mask[l])
            exec_say(e, n, l);
}

/* ---- nodes ---- */

static bool scalar_access(const TileNode *n)
{
    if (n->op == TOP_load)
        return n->type[0].rank == 0;
    return (n->op == TOP_store || tile_is_atomic(n->op)) && tile_type(n->in[n->nin - 1])->rank == 0;
}

bool lane_does(const Exec *e, const TileNode *n)
{
    switch (n->op) {
    case TOP_if: case TOP_for: case TOP_while: case TOP_lane_reduce: case TOP_shuffle: case TOP_match: case TOP_uniform: case TOP_lane:
        return true;
    case TOP_load:
        return scalar_access(n) && (e->checks || tile_node_varies(&e->vary, n));
    case TOP_store: case TOP_atomic: case TOP_update: return scalar_access(n);
    case TOP_say: return !tile_is_groups(n);
    default: return tile_node_varies(&e->vary, n);
    }
}

bool lane_run(Exec *e, const TileNode *n)
{
    room(e, n);
    switch (n->op) {
    case TOP_if: return lane_if(e, n);
    case TOP_for: return lane_for(e, n);
    case TOP_while: return lane_while(e, n);
    case TOP_lane_reduce: return lane_reduce(e, n), true;
    case TOP_shuffle: return lane_shuffle(e, n), true;
    case TOP_match: return lane_match(e, n), true;
    case TOP_uniform: return lane_uniform(e, n);
    case TOP_load: case TOP_store: case TOP_atomic: case TOP_update: return lane_accesses(e, n);
    case TOP_map: return lane_map(e, n), true;
    case TOP_say: return lanes_say(e, n), true;
    default: return lane_scalars(e, n);
    }
}
