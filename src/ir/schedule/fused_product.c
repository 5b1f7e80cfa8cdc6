/*
 * The product that a body may begin with: room for it, or none where a GPU computes what follows block by block.
 */
#include "ir/schedule/fused_impl.h"

#include "runtime/cuda.h"

/* Its shape, as its operands show it. */
static void product_shape(const Run *u, Dim *shape)
{
    const TType *t = &u->c->product->type[0];
    const Tensor *x = u->x[u->c->factor[0]], *y = u->x[u->c->factor[1]];

    for (int k = 0; k < t->rank; k++) {
        int a = k - t->rank + x->rank, b = k - t->rank + y->rank;
        Dim p = a >= 0 ? x->shape[a] : 1, q = b >= 0 ? y->shape[b] : 1;
        shape[k] = k == t->rank - 2 ? p : k == t->rank - 1 ? q : p == 1 ? q : p;
    }
}

static Tensor *product_room(const Run *u, bool ghost)
{
    Dim shape[REGION_AXES];

    product_shape(u, shape);
    return (ghost ? fused_ghost : tensor_new)(schedule_accum(u->c->product), u->c->product->type[0].rank, shape);
}

bool fused_product(Run *u) { return (u->x[u->nin - 1] = product_room(u, fused_state.rehearses)) != NULL; }

/* Room for the results. The number of those there are. */
static int make_results(Run *u, const Graph *body)
{
    int n = 0;

    for (bool ok = fused_all_sizes(u, body); ok && n < u->nout; n += ok) {
        const TType *y = gvalue_type(u->c->body->results.at[n]);
        ok = (u->x[u->nin + n] = fused_result(u, n)) != NULL;
        if (ok) {
            u->x[u->nin + n]->weak = y->weak;
            u->x[u->nin + n]->policy = y->policy;
        }
    }
    return n;
}

int fused_far_product(Run *u, const Graph *body)
{
    Tensor *p = u->c->s.kind == SCHEDULE_MAP && fused_far->blocks && u->c->product->type[0].rank >= 2 ? product_room(u, true) : NULL;
    StrideClass class[OPERANDS];
    int done = 0, made;

    if (!p)
        return 0;
    u->x[u->nin - 1] = p;
    u->in_blocks = true;
    fused_sizes(u);
    made = make_results(u, body);
    if (made == u->nout && fused_blocks(u, p, class) && u->space.naxes == 2)
        done = fused_far->blocks(u, class);
    u->in_blocks = false;
    for (int i = u->nin - 1; done <= 0 && i < u->nin + made; i++) {
        tensor_unref(u->x[i]);
        u->x[i] = NULL;
    }
    return done;
}
