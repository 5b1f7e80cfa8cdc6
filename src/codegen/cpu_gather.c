/*
 * Clusters: what is done with tiles of one shape, gathered for one walk.
 *
 * Sinks (stores, reductions, pushes, tiles that need a buffer) gather until one
 * of another shape, or whatever needs a result of theirs, comes; then the
 * cluster is emitted (cpu_walk.c).
 *
 * A cluster interleaves its loads and stores, so a load and a store that may
 * meet in memory stand in one cluster only if they are of the same places.
 */
#include "codegen/gpu_impl.h"

/* ---- which nodes are computed where they are used ---- */

/* Are the axes longer than 1 the same, so that a place in one tile is a place in the other? */
static bool only_ones(const TileType *a, const TileType *b)
{
    int i = 0, k = 0;

    for (;;) {
        while (i < a->rank && a->extent[i] == 1)
            i++;
        while (k < b->rank && b->extent[k] == 1)
            k++;
        if (i == a->rank || k == b->rank)
            return i == a->rank && k == b->rank;
        if (a->extent[i++] != b->extent[k++])
            return false;
    }
}

bool cpu_is_virtual(const TileNode *n)
{
    switch (n->op) {
    case TOP_splat: case TOP_map: case TOP_iota: case TOP_load: case TOP_permute: return n->type[0].rank > 0;
    case TOP_gather: return n->attr->i == 1;    /* else each number is looked at before */
    case TOP_reshape: return n->type[0].rank > 0 && only_ones(tile_type(n->in[0]), &n->type[0]);
    default: return false;
    }
}

bool cpu_is_cheap(const TileNode *n) { return n->op == TOP_splat && tile_type(n->in[0])->rank == 0; }

/* Does it have to be computed from its operands? */
static bool is_open(CpuCode *e, TileRef v)
{
    return tile_type(v)->kind == TILE_VALUE && tile_type(v)->rank > 0 && cpu_is_virtual(v.node) && !cpu_val(e, v)->x && !cpu_val(e, v)->fragment &&
           !cpu_val(e, v)->staged;
}

/* ---- what may meet in memory ---- */

typedef enum { APART, OTHER_PARAM, SAME_MEMORY } Meeting;

const TileNode *cpu_root(TileRef view)
{
    while (view.node->op == TOP_part)
        view = view.node->in[0];
    return view.node;
}

static bool is_kernel_param(const CpuCode *e, const TileNode *n) { return n->op == TILE_PARAM && n->block == &e->k->body; }

static Meeting meeting(const CpuCode *e, const TileNode *a, const TileNode *b)
{
    const TileNode *x = cpu_root(a->in[0]), *y = cpu_root(b->in[0]);
    bool px = is_kernel_param(e, x), py = is_kernel_param(e, y);

    if (x == y)
        return SAME_MEMORY;
    if (px && py)
        return OTHER_PARAM;
    return (px || x->op == TOP_alloc) && (py || y->op == TOP_alloc) ? APART : SAME_MEMORY;
}

/* The block of a load and that of a store: the same elements? */
static bool same_place(const TileNode *load, const TileNode *store)
{
    int rank = tile_type(load->in[0])->rank, axis = 0;
    const TileType *t = tile_type(store->in[store->nin - 1]);

    if (load->op != TOP_load || !cpu_same(load->in[0], store->in[0]) || store->op != TOP_store)
        return false;
    for (int i = 0; i < rank; i++) {
        int32_t length = store->attr->drop >> i & 1 ? 1 : t->extent[axis++];
        if (!cpu_same(load->in[1 + i], store->in[1 + i]) || load->attr->shape[i] != length || load->attr->drop != store->attr->drop)
            return false;
    }
    return true;
}

static bool same_stores(const TileNode *a, const TileNode *b)
{
    if (a->nin != b->nin || a->attr->drop != b->attr->drop || !tile_type_equal(tile_type(a->in[a->nin - 1]), tile_type(b->in[b->nin - 1])))
        return false;
    for (int i = 0; i < a->nin - 1; i++)
        if (!cpu_same(a->in[i], b->in[i]))
            return false;
    return true;
}

static bool reaches(CpuCode *e, TileRef v, const TileNode *part)
{
    if (v.node == part)
        return true;
    if (e->asked[v.node->id] == e->question)
        return false;
    e->asked[v.node->id] = e->question;
    for (int i = 0; is_open(e, v) && i < v.node->nin; i++)
        if (reaches(e, v.node->in[i], part))
            return true;
    return false;
}

bool cpu_in_tree(CpuCode *e, TileRef v, const TileNode *part)
{
    e->question++;
    return reaches(e, v, part);
}

/* ---- gathering ---- */

void cpu_forget_load(CpuCode *e, const TileNode *n)
{
    int kept = 0;

    for (int i = 0; i < e->loads.n; i++)
        if (e->loads.at[i] != n)
            e->loads.at[kept++] = e->loads.at[i];
    e->loads.n = kept;
}

/* Operands before those who use them. */
static void gather(CpuCode *e, TileRef v)
{
    const TileNode *n = v.node;

    if (!is_open(e, v) || e->gathered[n->id])
        return;
    e->gathered[n->id] = true;
    for (int i = 0; i < n->nin; i++) {
        e->seen[n->in[i].node->id]++;
        gather(e, n->in[i]);
    }
    vec_push(&e->open.nodes, n);
    if (cpu_reads(n))
        cpu_forget_load(e, n);
}

bool cpu_has_shape(const Cluster *c, const TileType *t, int axis)
{
    if (c->rank != t->rank || (axis >= 0 && c->axis >= 0 && c->axis != axis))
        return false;
    for (int i = 0; i < t->rank; i++)
        if (c->shape[i] != t->extent[i])
            return false;
    return true;
}

static void add_sink(CpuCode *e, const TileNode *n, TileRef v)
{
    const TileType *t = tile_type(v);
    int axis = n && n->op == TOP_reduce ? n->attr->axis : -1;
    Cluster *c = &e->open;

    if (c->sinks.n && !cpu_has_shape(c, t, axis))
        cpu_close(e);
    if (!c->sinks.n) {
        c->rank = t->rank;
        c->axis = -1;
        for (int i = 0; i < t->rank; i++)
            c->shape[i] = t->extent[i];
    }
    c->axis = axis >= 0 ? axis : c->axis;
    if (n)
        e->seen[v.node->id]++;
    gather(e, v);
    vec_push(&c->sinks, ((Sink){.node = n, .v = v}));
    if (n && n->nout)
        e->waits[n->id] = true;
}

typedef Vec(const TileNode *) TurnedTiles;

/* What v is computed from that is to be turned: operands first, each once. */
static void find_turned(CpuCode *e, TileRef v, TurnedTiles *found)
{
    if (!is_open(e, v) || e->asked[v.node->id] == e->question)
        return;
    e->asked[v.node->id] = e->question;
    for (int i = 0; i < v.node->nin; i++)
        find_turned(e, v.node->in[i], found);
    if (cpu_turns(e, v))
        vec_push(found, v.node);
}

static void turn_parts(CpuCode *e, TileRef v)
{
    TurnedTiles found = {0};

    e->question++;
    find_turned(e, v, &found);
    for (int i = 0; i < found.n; i++)
        cpu_turn(e, found.at[i], NULL, 0);
    vec_free(&found);
}

void cpu_need(CpuCode *e, TileRef v)
{
    if (e->gpu && v.node->op == TOP_permute && gpu_is_operand(e, v))
        v = v.node->in[0];                      /* products turn it themselves */
    if (!is_open(e, v) || cpu_is_cheap(v.node))
        return;
    turn_parts(e, v);
    if (!is_open(e, v))
        return;
    for (int i = 0; i < e->open.sinks.n; i++)
        if (!e->open.sinks.at[i].node && cpu_same(e->open.sinks.at[i].v, v))
            return;
    add_sink(e, NULL, v);
}

/* Does a store stand apart from the loads and stores of the open cluster? */
static bool joins_stores(CpuCode *e, const TileNode *store)
{
    for (int i = 0; i < e->open.sinks.n; i++) {
        const TileNode *s = e->open.sinks.at[i].node;
        if (s && s->op == TOP_store && meeting(e, s, store) == SAME_MEMORY && !same_stores(s, store))
            return false;
    }
    for (int i = 0; i < e->open.nodes.n; i++) {
        const TileNode *l = e->open.nodes.at[i];
        if (cpu_reads(l) && meeting(e, l, store) == SAME_MEMORY && !same_place(l, store))
            return false;
    }
    return true;
}

/* Loads that the store would overtake, or that it may disturb element by element, have their buffers before it. */
static void settle_loads(CpuCode *e, const TileNode *store, TileRef v)
{
    Vec(const TileNode *) early = {0};

    for (int i = 0; i < e->loads.n; i++) {
        const TileNode *l = e->loads.at[i];
        Meeting m = meeting(e, l, store);
        bool along = cpu_in_tree(e, v, l) && (m == OTHER_PARAM || same_place(l, store));
        if (m != APART && !along)
            vec_push(&early, l);
    }
    for (int i = 0; i < early.n; i++)
        cpu_need(e, (TileRef){(TileNode *)early.at[i], 0});
    if (early.n)
        cpu_close(e);
    vec_free(&early);
}

void cpu_sink(CpuCode *e, const TileNode *n, TileRef v)
{
    if (n && (n->op == TOP_store || n->op == TOP_atomic)) {
        settle_loads(e, n, v);
        if (n->op == TOP_atomic || !joins_stores(e, n))
            cpu_close(e);
    }
    turn_parts(e, v);
    add_sink(e, n, v);
    if (n && n->op == TOP_atomic)
        cpu_close(e);
}

void cpu_stage(CpuCode *e, TileRef v, const struct Stage *stage, LLVMValueRef to)
{
    cpu_close(e);
    e->seen[v.node->id]++;
    add_sink(e, NULL, v);
    vec_last(&e->open.sinks).stage = stage;
    vec_last(&e->open.sinks).buffer = to;
    cpu_close(e);
}
