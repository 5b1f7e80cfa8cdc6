/*
 * A tensor's lines into the cache that a GPU's processors share: a lane asks for one line.
 *
 * What a view leaves out between its first and its last element is asked for, too, unless that is more than its elements: then a prefetch
 * would drive out more than it brings, and nothing is asked for.
 */
#include "ir/schedule/far_impl.h"

#include "ir/tile/tile.h"
#include "runtime/convert.h"
#include "runtime/far_moves.h"

enum { LINE = 128, LANES = 256 };

static const char text[] =
    "tessera.tile v1\n"
    "kernel @prefetch(%%x: view uint8[1]) sizes(lines) grid(cdiv(lines, %d)) lanes=%d {\n"
    FAR_LANE
    "  %%n: index = size {name=\"lines\"}\n"
    "  %%line: index = index {i=%d}\n"
    "  %%there: bool[] = ilt %%q, %%n\n"
    "  if %%there {\n"
    "    %%at: index = imul %%q, %%line\n"
    "    prefetch %%x[%%at]\n"
    "  } else {\n"
    "  }\n"
    "}\n";

TileKernel *far_prefetch_kernel(void)
{
    StrBuf out = {0}, err = {0};
    TileKernel *k;

    sb_printf(&out, text, LANES, LANES, LINE);
    if (!(k = tile_parse(out.s, out.n, &err)))
        tsr_bug("a kernel for GPUs cannot be read: %s", sb_str(&err));
    sb_done(&out);
    sb_done(&err);
    return k;
}

/* Elements from the first to the last in memory; *lowest: the first one's place. */
static int64_t spanned(const Tensor *x, int64_t *lowest)
{
    int64_t n = 1;

    *lowest = x->offset;
    for (int i = 0; i < x->rank; i++) {
        int64_t step = x->stride[i] * (x->shape[i] - 1);
        *lowest += step < 0 ? step : 0;
        n += step < 0 ? -step : step;
    }
    return n;
}

bool far_prefetch(const Tensor *x)
{
    int64_t lowest, n = spanned(x, &lowest), bytes = dtype_info[x->dtype].sbits / 8, lines;
    int device = (int)x->store->device;
    TileArg arg = {.stride = {1}};
    FarKernel *f;

    if (!tensor_size(x) || is_packed((DType)x->dtype) || n > 2 * tensor_size(x))
        return true;
    f = far_kernel_of(text, LANES, LANES, LINE);
    if (!f->code || !(arg.base = far_address((Tensor *)x, device, false, false)))
        return true;
    arg.base = (char *)arg.base + lowest * bytes;
    arg.extent[0] = n * bytes;
    lines = (n * bytes + LINE - 1) / LINE;
    far_launch(f, device, &lines, &arg);
    return true;
}
