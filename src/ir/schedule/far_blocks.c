/*
 * A product and what is computed from it element by element, as one kernel on a
 * GPU: blocks of the product stay in registers until they are what is stored.
 *
 * The kernel is that of the body after the product (lower.c), its blocks as
 * large as a product's, in which the product's own loop stands where the others
 * load theirs.
 */
#include "ir/schedule/far_product.h"

#include "ir/schedule/fused_impl.h"

#include <string.h>

enum { COPIED = 16 };           /* bytes at whose multiples rows of results lie, as tensor copies want it */

static TileRef block(TileBuilder *b, TileRef row, TileRef column, const void *st)
{
    const ProductKind *p = st;
    TileRef from[2] = {product_view(b, p, "left", p->x, p->inner[0]), product_view(b, p, "right", p->y, p->inner[1])};

    tile_size(b->k, sym("k"));
    b->k->schedule = product_schedule(p);
    return product_block(b, p, from, NULL, row, column);
}

/* By the body and what the product is of. */
static FarKernel *kernel_of(const Run *u, const StrideClass *lies, const ProductKind *p)
{
    Schedule s = {SCHEDULE_MAP, p->block[0], p->block[1], false};
    LowerProduct product = {block, p};
    StrBuf all = {0}, err = {0};
    TileKernel *tile;
    uint64_t key;
    FarKernel *f;

    sb_write(&all, (const char *)p, sizeof *p);
    sb_write(&all, (const char *)lies, sizeof *lies * (size_t)u->space.nargs);
    sb_write(&all, u->c->key.s, u->c->key.n);
    key = far_key(all.s, all.n);
    sb_done(&all);
    if ((f = far_known(key)))
        return f;
    tile = schedule_lower(u->c->body, &u->c->r, &s, lies, &product, &err);
    sb_done(&err);
    return far_made(key, tile);
}

typedef struct Round { const Run *u; const FarKernel *f; int64_t steps; TileArg factor[2]; int done; } Round;

/* The sizes and arguments of the body, then the product's. */
static bool launch(void *st, const int64_t *size, const TileArg *arg)
{
    Round *r = st;
    int n = r->u->space.nargs;
    int64_t sizes[3] = {size[0], size[1], r->steps};
    TileArg all[OPERANDS + 2];

    memcpy(all, arg, sizeof *arg * (size_t)n);
    memcpy(all + n, r->factor, sizeof r->factor);
    r->done = far_launcher(r->f->code, r->f->tile, r->u->device, sizes, all, r->u->where);
    return r->done > 0;
}

static bool results_are_copied(const Run *u)
{
    for (int i = u->nin; i < u->nin + u->nout; i++)
        if (u->space.size[1] * (dtype_info[u->x[i]->dtype].sbits / 8) % COPIED)
            return false;
    return true;
}

int far_blocks(Run *u, const StrideClass *lies)
{
    Tensor *t[3] = {u->x[u->c->factor[0]], u->x[u->c->factor[1]], u->x[u->nin - 1]};
    ProductKind p;
    Batches b;
    Round r = {.u = u, .done = 1};
    int64_t sizes[5];
    int formula;

    if (!product_describe(t, (DType)t[2]->dtype, product_slack(u->c->product->attr), &p, &b) || !p.units || b.extent[0] * b.extent[1] != 1 ||
        b.rows != u->space.size[0] || u->c->r.ncounters || !results_are_copied(u))
        return 0;
    sizes[0] = sizes[1] = 1, sizes[2] = b.rows, sizes[3] = u->space.size[1], sizes[4] = r.steps = t[0]->shape[t[0]->rank - 1];
    if (product_has_other_way(u->device, t, &p, sizes))
        return 0;
    formula = u->c->divided ? fused_divided_cost(u->c) : 0;
    p.formula = (int16_t)(formula < INT16_MAX ? formula : INT16_MAX);
    product_choose(u->device, t, &p, sizes, 1);
    if (!p.units)
        return 0;
    r.f = kernel_of(u, lies, &p);
    if (!r.f->code)
        return 0;
    for (int i = 0; i < 2; i++)
        if (!product_arg(t[i], u->device, i, &p, &b, &r.factor[i]))
            return -1;
    launch_each(&u->space, false, launch, &r);
    return r.done;
}
