/*
 * Random numbers on a GPU (runtime/random.c's bits): a group has a run of one key's elements, by their numbers (numbered.c).
 *
 * Keys are read there as any tensor is, so what a call draws with may differ each time that its launches are put there again; those of the host
 * come along, eight bytes of them.
 */
#include "ir/schedule/far_impl.h"

#include "ir/graph/trace.h"
#include "runtime/cuda.h"
#include "runtime/kernel_util.h"
#include "runtime/storage.h"

#include <math.h>

enum { WIDTH = 1024 };

typedef struct DrawKind { uint8_t kind, dtype; char name[6]; } DrawKind;

static bool build(TileBuilder *b, const void *what)
{
    const DrawKind *d = what;
    int8_t one = 1, rows[2] = {STRIDE_ANY, 1};
    TAttr a = tattr_none;
    TileRef key, y, at, limit, number, x;

    vec_push(&b->k->grid, tile_size(b->k, sym("k")));
    vec_push(&b->k->grid, dim_cdiv(tile_size(b->k, sym("n")), WIDTH));
    tile_size(b->k, sym("limit"));
    key = far_view(b, "key", DT_uint64, 1, &one);
    y = far_view(b, "y", (DType)d->dtype, 2, rows);
    at = build_times(b, build_group(b, 1), WIDTH);
    a.rank = 1;
    a.shape[0] = 1;
    a.drop = 1;
    key = build_add(b, TOP_load, &a, (TileRef[]){key, build_group(b, 0)}, 2);
    a = tattr_none;
    a.name = sym("limit");
    a.i = 1;
    limit = build_add(b, TOP_size, &a, NULL, 0);
    a = tattr_none;
    a.dtype = DT_int64;
    limit = build_add(b, TOP_to_tile, &a, &limit, 1);
    a.rank = 1;
    a.shape[0] = WIDTH;
    number = build_add(b, TOP_iota, &a, &at, 1);
    x = schedule_random(b, d->kind, (DType)d->dtype, key, number, limit);
    a = tattr_none;
    a.drop = 1;
    return x.node && build_add(b, TOP_store, &a, (TileRef[]){y, build_group(b, 0), at, x}, 4).node;
}

/* What random.c compares 53 bits with as a double: no whole number lies between. */
static int64_t limit_of(const Attr *a) { return a->kind == DIST_BERNOULLI ? (int64_t)ceil(a->f * 0x1p53) : a->i; }

static bool launch(const FarKernel *f, int device, const Attr *a, Tensor *key, Tensor *y, int64_t nkeys, Span where)
{
    int64_t n = tensor_size(y) / nkeys;
    char *from = far_element(key, device, key->offset, false, false), *to = far_address(y, device, true, true);
    TileArg arg[2] = {{.base = from, .extent = {nkeys}, .stride = {1}}, {.base = to, .extent = {nkeys, n}, .stride = {n, 1}}};

    return from && to && far_launcher(f->code, f->tile, device, (int64_t[]){nkeys, n, limit_of(a)}, arg, where) > 0;
}

int far_random(Trace *T, int device, const Attr *a, Tensor *key, const TType *y, Tensor **out)
{
    DrawKind d = {.kind = a->kind, .dtype = y->dtype};
    int64_t nkeys = tensor_size(key) / 2;
    FarKernel *f;
    Tensor *keys;
    bool done;

    if (!schedule_draws(a->kind, (DType)y->dtype) || key->dtype != DT_uint32 || key->offset % 2 || !nkeys || y->policy ||
        (a->kind == DIST_BERNOULLI && !(a->f >= 0 && a->f <= 1)) || (a->kind == DIST_RANDINT && a->i <= 0))
        return 0;
    f = far_kernel_for(&d, sizeof d, "random", build);
    if (!f->code || !(keys = tensor_contiguous(key)))
        return 0;
    out[0] = tensor_new((DType)y->dtype, y->rank, y->shape);
    done = out[0] && (!tensor_size(out[0]) || launch(f, device, a, keys, out[0], nkeys, T->span));
    tensor_unref(keys);
    if (done) {
        out[0]->weak = y->weak;
        return 1;
    }
    tensor_unref(out[0]);
    return fault_kept ? -1 : 0;
}
