/*
 * Products of few blocks and many steps on GPUs, in parts (split-K).
 *
 * A product whose blocks are fewer than the chip's processors leaves most of them idle, however many steps it has: so do the
 * derivatives of weights.  There the steps are divided into parts, each of which is a block of its own; a second kernel adds the
 * parts up, the first one first, and rounds.  Matrix units sum in an order of their own, so these bits are no others' to begin with;
 * they are the same in each run.
 */
#include "ir/schedule/far_product.h"

#include "base/strbuf.h"
#include "runtime/mesh.h"

#include <string.h>

enum {
    AT_ONCE = 64,               /* parts that are loaded before the first of them is added: a sum waits for memory once for all of these */
    LANES = 64,                 /* of a group: few, so that there are many */
};

static const char join_text[] =
    "tessera.tile v1\n"
    "kernel @product_join(%%t: view %s[?, 1], %%y: view %s[1]) sizes(s, n) grid(cdiv(n, %d)) lanes=%d {\n"
    "  %%n: index = size {name=\"n\"}\n"
    "  %%block: index = index {i=%d}\n"
    "  %%g: index = group {axis=0}\n"
    "  %%g0: index = imul %%g, %%block\n"
    "  %%lane: index = lane\n"
    "  %%q: index = iadd %%g0, %%lane\n"
    "  %%here: bool[] = ilt %%q, %%n\n"
    "  if %%here {\n"
    "    %%s: index = size {name=\"s\"}\n"
    "    %%zero: index = index {i=0}\n"
    "    %%one: index = index {i=1}\n"
    "    %%many: index = index {i=%d}\n"
    "    %%rest: index = isub %%s, %%one\n"
    "    %%rounds: index = idiv %%rest, %%many\n"
    "    %%rounded: index = imul %%rounds, %%many\n"
    "    %%last: index = iadd %%one, %%rounded\n"
    "    %%first: %s[] = load %%t[%%zero, %%q] {shape=(1, 1) drop=3 within=1}\n"
    "    %%most: %s[] = for %%k = %%one to %%last step %%many carry(%%s0 = %%first) {\n";

static FarKernel *join_kernel(const char *from, const char *to)
{
    struct { char name[8], from[12], to[12]; } what = {"join", "", ""};
    StrBuf b = {0};
    uint64_t key;
    FarKernel *f;

    memcpy(what.from, from, strlen(from));
    memcpy(what.to, to, strlen(to));
    key = far_key(&what, sizeof what);
    if ((f = far_known(key)))
        return f;
    sb_printf(&b, join_text, from, to, LANES, LANES, LANES, AT_ONCE, from, from);
    for (int i = 0; i < AT_ONCE; i++)
        sb_printf(&b, "      %%n%d: index = index {i=%d}\n      %%k%d: index = iadd %%k, %%n%d\n"
                      "      %%x%d: %s[] = load %%t[%%k%d, %%q] {shape=(1, 1) drop=3 within=1}\n", i, i, i, i, i, from, i);
    for (int i = 0; i < AT_ONCE; i++)
        sb_printf(&b, "      %%s%d: %s[] = map add %%s%d, %%x%d\n", i + 1, from, i, i);
    sb_printf(&b, "      yield %%s%d\n    }\n    %%total: %s[] = for %%j = %%last to %%s step %%one carry(%%acc = %%most) {\n"
                  "      %%x: %s[] = load %%t[%%j, %%q] {shape=(1, 1) drop=3 within=1}\n      %%next: %s[] = map add %%acc, %%x\n"
                  "      yield %%next\n    }\n    %%r: %s[] = map convert %%total {dtype=%s}\n    store %%y[%%q], %%r {drop=1}\n  } else {\n  }\n}\n",
              AT_ONCE, from, from, from, to, to);
    f = far_read(key, sb_str(&b));
    sb_done(&b);
    return f;
}

/* Of few rows or columns memory is what takes long, as it does once. */
bool product_parts_fit(const ProductKind *p, const Batches *b, const Tensor *sum)
{
    enum { LEAST = 128 };
    int64_t columns = sum->shape[sum->rank - 1];

    return p->units && b->extent[0] * b->extent[1] == 1 && sum->contiguous && columns % 4 == 0 && b->rows >= LEAST && columns >= LEAST;
}

bool product_build_parts(TileBuilder *b, const ProductKind *p)
{
    int8_t lies[3] = {STRIDE_ANY, STRIDE_ANY, 1};
    Dim parts = tile_size(b->k, sym("b0")), m, n;
    TileRef from[3], in[5], each, lo, hi;
    TAttr a = tattr_none;

    tile_size(b->k, sym("b1"));
    m = tile_size(b->k, sym("m")), n = tile_size(b->k, sym("n"));
    tile_size(b->k, sym("k"));
    vec_push(&b->k->grid, parts);
    vec_push(&b->k->grid, dim_cdiv(n, p->block[1]));
    vec_push(&b->k->grid, dim_cdiv(m, p->block[0]));
    from[0] = product_view(b, p, "x", p->x, p->inner[0]);
    from[1] = product_view(b, p, "y", p->y, p->inner[1]);
    in[0] = far_view(b, "parts", (DType)p->sum, 3, lies);
    b->k->schedule = product_schedule(p);
    each = build_times(b, build_size(b, "b1"), p->block[2]);        /* in whole rounds, as tensor copies want it */
    lo = build_add2(b, TOP_imul, build_group(b, 0), each);
    hi = build_size(b, "k");
    hi = build_add2(b, TOP_imin, hi, build_add2(b, TOP_iadd, lo, each));
    in[1] = build_group(b, 0);
    in[2] = build_times(b, build_group(b, 2), p->block[0]);
    in[3] = build_times(b, build_group(b, 1), p->block[1]);
    in[4] = product_steps(b, p, from, NULL, in[2], in[3], lo, hi);
    a.drop = 1;
    return in[4].node && tile_add(b, TOP_store, &a, in, 5) != NULL;
}

/* All parts, stored one behind the other. */
static int sum_parts(Tensor *const *t, Tensor *parts, int device, const ProductKind *p, const Batches *b, const int64_t *sizes, Span where)
{
    FarKernel *f = product_code(p);
    TileArg arg[3] = {0};

    if (!f->code)
        return 0;
    for (int i = 0; i < 2; i++)
        if (!product_arg(t[i], device, i, p, b, &arg[i]))
            return -1;
    if (!(arg[2].base = far_address(parts, device, true, true)))
        return -1;
    for (int i = 0; i < 3; i++)
        arg[2].extent[i] = parts->shape[i], arg[2].stride[i] = parts->stride[i];
    return far_launcher(f->code, f->tile, device, sizes, arg, where);
}

int far_join_parts(Tensor *parts, Tensor *sum, int device)
{
    const char *from = dtype_info[parts->dtype].name, *to = dtype_info[sum->dtype].name;
    FarKernel *f = join_kernel(from, to);
    int64_t n = tensor_size(sum), sizes[2] = {parts->shape[0], n};
    TileArg arg[2];

    if (!f->code)
        return 0;
    if (!far_flat(parts, device, false, 0, &arg[0]) || !far_flat(sum, device, true, sum->offset, &arg[1]))
        return -1;
    arg[0] = (TileArg){.base = arg[0].base, .extent = {parts->shape[0], n}, .stride = {n, 1}};
    return far_launch(f, device, sizes, arg);
}

int product_in_parts(Tensor *const *t, int device, ProductKind *p, const Batches *b, int64_t *sizes, int parts, Span where)
{
    ProductKind part = *p;
    int64_t rounds = (sizes[4] + p->block[2] - 1) / p->block[2], each = (rounds + parts - 1) / parts;
    Dim shape[3] = {(rounds + each - 1) / each, b->rows, sizes[3]};
    Tensor *all = tensor_new((DType)p->sum, 3, shape);
    int done;

    if (!all)
        return -1;
    part.divided = true;
    part.out = part.sum;
    part.inner[2] = 1;
    sizes[0] = shape[0];
    sizes[1] = each;
    done = sum_parts(t, all, device, &part, b, sizes, where);
    if (done == 1)
        done = far_join_parts(all, t[2], device);
    tensor_unref(all);
    return done;
}
