/*
 * The key of a decision: facts about nodes, without pointers and names.
 *
 * Of a node count its op, what region.h says of it, operands by their places, results' types, axes, how many of them an `index` looks up,
 * and its place among recomputations and ordered effects.  Attributes decide nothing else: numbers, constants and the sizes that a slice
 * begins and ends with do not, and the insides of regions are graphs with decisions of their own.  A size is a number, or told by the
 * place of its first mention, where its guess stands too: names of sizes decide nothing.  Of a graph's conditions those count that say
 * two sizes are equal (equal.c); of a scope, who else is in it, whether it is left as it is, and which fusion it asks for (together.c).
 * What a program's own passes make of a graph is in the graph.
 */
#include "ir/schedule/kept.h"

#include "ir/schedule/fused_impl.h"

#include "ir/graph/trace.h"
#include "runtime/kernel_util.h"
#include "runtime/store.h"

#include <string.h>

enum { LARGE = 256 };           /* nodes from which on deciding takes longer than looking */

typedef struct Facts {
    Vec(int64_t) row;
    Map size, scope;            /* Dim, Sym -> the order of first mention */
    int64_t sizes, scopes;
    int *place;                 /* node id -> its place in order */
} Facts;

static void put(Facts *f, int64_t v) { vec_push(&f->row, v); }

static void put_size(Facts *f, Dim d)
{
    uintptr_t at;

    if (dim_is_const(d) || map_find(&f->size, (uint64_t)d, &at)) {
        put(f, dim_is_const(d) ? d : -(int64_t)at);
        return;
    }
    map_set(&f->size, (uint64_t)d, (uintptr_t)++f->sizes);
    put(f, -f->sizes);
    put(f, schedule_guess(d));
}

static void put_type(Facts *f, const TType *t)
{
    put(f, t->dtype | t->weak << 8 | t->rank << 16);
    for (int i = 0; i < t->rank; i++)
        put_size(f, t->shape[i]);
}

static void put_scope(Facts *f, Sym scope)
{
    uintptr_t at = 0;

    if (scope && !map_find(&f->scope, (uintptr_t)scope, &at)) {
        at = (uintptr_t)++f->scopes;
        map_set(&f->scope, (uintptr_t)scope, at);
    }
    put(f, (int64_t)at << 8 | scope_fusion(scope) << 1 | scope_is_manual(scope));
}

/* What region.h and product.c say of the node. */
static int64_t nature(const Node *n)
{
    int64_t accum = DT_NONE;

    if (n->op < OP_COUNT && op_info[n->op].family == FAM_REDUCE)
        accum = accum_dtype(n->attr, (DType)gvalue_type(n->in[0])->dtype, (DType)n->type[0].dtype);
    return region_takes(n) | region_copies(n) << 1 | region_moves(n) << 2 | (int64_t)schedule_accum(n) << 8 | accum << 16;
}

static void put_node(Facts *f, const Node *n)
{
    put(f, n->op | (int64_t)n->nin << 16 | (int64_t)n->nout << 32 | (int64_t)(n->token > 0) << 48);
    put(f, n->again);
    put_scope(f, n->scope);
    for (int i = 0; i < n->nin; i++)
        put(f, (int64_t)f->place[n->in[i].node->id] << 16 | n->in[i].index);
    for (int i = 0; i < n->nout; i++)
        put_type(f, &n->type[i]);
    if (n->op == GRAPH_PARAM)
        return;
    put(f, nature(n));
    put(f, n->op == OP_index ? (int64_t)n->attr->n << 16 | n->attr->m : 0);
    put(f, n->attr->naxes);
    for (int i = 0; i < n->attr->naxes; i++)
        put(f, n->attr->axis[i]);
}

/* Which of the passes that a decision may ask for run. */
static void put_passes(Facts *f)
{
    put(f, pass_runs("fuse") | pass_runs("apart") << 1 | pass_runs("recompute") << 2);
}

static Hash128 hash_of(const Graph *g, const char *what)
{
    int n;
    Facts f = {.place = graph_places(g, NULL, &n)};
    Hash128 both[2];

    put_passes(&f);
    for (const Node *x = g->first; x; x = x->next)
        put_node(&f, x);
    for (int i = 0; i < g->results.n; i++)
        put(&f, (int64_t)f.place[g->results.at[i].node->id] << 16 | g->results.at[i].index);
    for (int i = 0; i < g->conds.n; i++)
        if (g->conds.at[i].rel == DIM_IS_EQ) {
            put_size(&f, g->conds.at[i].a);
            put_size(&f, g->conds.at[i].b);
        }
    both[0] = hash_bytes128(f.row.at, sizeof *f.row.at * (size_t)f.row.n);
    both[1] = hash_bytes128(what, strlen(what));
    vec_free(&f.row);
    map_done(&f.size);
    map_done(&f.scope);
    tsr_free(f.place);
    return hash_bytes128(both, sizeof both);
}

Kept kept_of(const Graph *g, const char *what)
{
    const KernelCompiler *c = fused_state.compiler;
    Kept k = {.in_use = g->nnodes >= LARGE && c && c->origin && store_in_use()};
    Hash128 both[2];

    k.in_use = k.in_use && c->origin(&both[0]);
    if (k.in_use) {
        both[1] = hash_of(g, what);
        k.key = hash_bytes128(both, sizeof both);
    }
    return k;
}

bool kept_read(const Kept *k, void *data, size_t n)
{
    StrBuf bytes = {0};
    bool found = k->in_use && store_get(k->key, &bytes) && bytes.n == n;

    if (found)
        memcpy(data, bytes.s, n);
    sb_done(&bytes);
    return found;
}

void kept_write(const Kept *k, const void *data, size_t n)
{
    if (k->in_use)
        store_put(k->key, data, n);
}
