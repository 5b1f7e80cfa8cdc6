/*
 * Arrays of a lane whose elements are variables.
 *
 * tile.alloc_register gives each lane an array.  Where every element is named by
 * numbers that are known when the kernel is made, as short loops of fixed
 * bounds name them once they are written out, the elements are variables like
 * any others: loops carry them, and code has them in registers.  An array that
 * something else is done with (an index of the launch, a slice, an atomic, a
 * function that is given it) is memory.
 *
 * An attempt takes each array for variables; where that turns out wrong, the
 * kernel is made again with memory for it (body.h).
 */
#include "frontend/kernel/body.h"

#include <stdio.h>

enum { ELEMENTS_MAX = 64, ALL_MAX = 128, ROUNDS_MAX = 16, DEPTH = 8 };     /* of an array, of a kernel; of a loop that is written out for it */

struct Held {
    uint64_t path;
    const Inlined *owner;               /* the function whose variables they are */
    int rank, n;
    int32_t shape[VIEW_RANK];
    Sym name[ELEMENTS_MAX];
};

KVal held_new(Body *B, uint64_t path, int rank, const int32_t *shape, DType dt)
{
    KPlace p = {.dtype = dt, .rank = rank, .param = -1, .buffer = path};
    Held *h = kb_alloc(B, sizeof *h);
    int64_t n = 1;

    for (int i = 0; i < rank && n <= ELEMENTS_MAX; i++)
        n *= shape[i];
    if (B->spec->debug || B->b.at != &B->k->body || map_find(B->in_memory, path, NULL) || n < 1 || n > ELEMENTS_MAX || B->held + n > ALL_MAX)
        return KUNSET;
    *h = (Held){.path = path, .owner = B->fn, .rank = rank, .n = (int)n};
    for (int i = 0; i < rank; i++) {
        h->shape[i] = shape[i];
        p.axis[i].extent = p.axis[i].size = lin_number(shape[i]);
    }
    for (int i = 0; i < h->n; i++) {
        char text[32];
        snprintf(text, sizeof text, "$r%d", B->held++);
        h->name[i] = sym(text);
        kb_set(B, h->name[i], kb_scalar(kb_const(B, dt, 0, 0), false));
    }
    p.held = h;
    return kplace_value(B, &p);
}

bool held_leave(Body *B, const KPlace *p)
{
    if (!p->held)
        return true;
    map_set(B->in_memory, p->held->path, 1);
    kb_again(B);
    return false;
}

/* ------------------------------------------------------------- which element */

static bool is_short(const TileNode *loop)
{
    int64_t v[3];

    for (int i = 0; i < 3; i++) {
        if (loop->in[i].node->op != TOP_index)
            return false;
        v[i] = loop->in[i].node->attr->i;
    }
    return v[2] > 0 && v[1] - v[0] <= v[2] * ROUNDS_MAX;
}

/* Does the index follow from numbers of short loops alone? *loop becomes one of them. */
static bool of_loops(Body *B, TileRef v, int depth, uintptr_t *loop)
{
    const TileNode *n = v.node;

    if (!n || depth == 0)
        return false;
    if (n->op == TILE_PARAM)
        return n->block && n->block->owner && map_find(&B->loop_of, n->id + 1, loop) && is_short(n->block->owner);
    switch (n->op) {
    case TOP_index: return true;
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv: case TOP_imod: case TOP_imin: case TOP_imax:
        return of_loops(B, n->in[0], depth - 1, loop) && of_loops(B, n->in[1], depth - 1, loop);
    default: return false;
    }
}

/* A loop that would have to be written out to know the index; 0: that would not do. */
static uintptr_t loop_for(Body *B, const Lin *l)
{
    uintptr_t loop = 0;

    for (int i = 0; i < l->n; i++)
        if (!of_loops(B, l->t[i].r, DEPTH, &loop))
            return 0;
    return loop;
}

/* The variable of the element; NULL: the kernel is made again. */
static Sym element(Body *B, const KPlace *p)
{
    const Held *h = p->held;
    int64_t at = 0, v;

    for (int i = 0; i < p->rank; i++) {
        uintptr_t loop;
        if (p->axis[i].gone && lin_number_of(&p->axis[i].start, &v) && v >= 0 && v < h->shape[i]) {
            at = at * h->shape[i] + v;
            continue;
        }
        if (p->axis[i].gone && !lin_number_of(&p->axis[i].start, &v) && (loop = loop_for(B, &p->axis[i].start))) {
            map_set(B->unroll, loop, 1);
            kb_again(B);
            return NULL;
        }
        held_leave(B, p);
        return NULL;
    }
    if (h->owner == B->fn)
        return h->name[at];
    held_leave(B, p);
    return NULL;
}

KVal held_load(Body *B, const KPlace *p)
{
    Sym name = element(B, p);
    KVal *v = name ? kb_var(B, name) : NULL;

    if (name && !v)
        held_leave(B, p);
    return v ? *v : KBAD;
}

bool held_store(Body *B, const KPlace *p, KVal v)
{
    Sym name = element(B, p);
    TileRef x = {0};

    v = name ? kb_value(B, v) : KBAD;
    if (!kb_bad(v))
        x = kb_ref(B, v, p->dtype);
    if (!x.node)
        return false;
    if (tile_type(x)->rank)
        return kb_fail(B, "E0608: a block value of %d axes does not fit an element", tile_type(x)->rank), false;
    kb_set(B, name, kb_scalar(x, false));
    return true;
}

/* ------------------------------------------------------------- what loops carry */

static void add_elements(Merge *m, KVal v)
{
    if (v.kind == K_PLACE && v.place->held)
        for (int i = 0; i < v.place->held->n; i++)
            merge_add(m, v.place->held->name[i]);
    for (int i = 0; (v.kind == K_LIST || v.kind == K_TUPLE) && i < v.n; i++)
        add_elements(m, v.item[i]);
}

void held_assigned(Body *B, Merge *m)
{
    for (int i = 0, n = m->name.n; i < n; i++)
        add_elements(m, vars_value(&B->fn->vars, m->name.at[i]));
}
