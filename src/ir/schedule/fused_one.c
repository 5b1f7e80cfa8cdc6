/*
 * One long row, which a kernel of rows would leave to one thread.
 *
 * Where the axes that a body keeps have one place each, it reduces over everything.  Said so, with these sizes as the number 1, it is fused
 * to kernels of totals, whose parts all threads share (fused.c), and of what follows: more passes over memory, with the same bits (R4 of
 * docs/numerics.md).
 */
#include "ir/schedule/fused_impl.h"

#include "runtime/kernels.h"

enum { LONG_ROW = 1 << 17 };            /* elements that are worth several threads */

Graph *(*fused_make)(Graph *g);

typedef struct Ones { Dim size[REGION_AXES], one[REGION_AXES]; int n; } Ones;

/* The sizes of the kept axes, if all of them are variables and 1 in this call, and the row is long. */
static bool are_ones(Run *u, Ones *ones)
{
    const Region *r = &u->c->r;
    int64_t row = 1;

    ones->n = 0;
    for (int a = 0; a < r->naxes; a++) {
        bool kept = region_kept(r) >> a & 1;
        if (u->size[a] < 1 || (kept && (u->size[a] != 1 || !dim_is_var(r->size[a]))))
            return false;
        if (kept) {
            ones->size[ones->n] = r->size[a];
            ones->one[ones->n++] = 1;
        }
        row *= u->size[a];
    }
    return ones->n && row >= LONG_ROW;
}

static Dim with_ones(void *st, Dim d)
{
    const Ones *o = st;

    return dim_subst(d, o->size, o->one, o->n);
}

Graph *fused_one_row(Run *u)
{
    FusedCode *c = u->c;
    Ones ones;

    if (!fused_make || pool_threads() == 1 || u->device || fused_state.rehearses || c->product || c->looks_up)
        return NULL;
    if (!c->r.nkept || c->r.nkept == c->r.naxes)
        return NULL;
    fused_sizes(u);
    if (!are_ones(u, &ones))
        return NULL;
    if (!c->one_asked) {
        Graph *g = graph_resize(c->whole, with_ones, &ones);
        c->one = fused_make(g);
        graph_unref(g);
    }
    c->one_asked = true;
    return c->one;
}
