/*
 * A launch on a GPU: the module where there is none yet, the group's memory, the words of its parameters.
 */
#include "ir/schedule/far_code.h"

#include "runtime/gpu_launch.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

#include <stdio.h>
#include <string.h>

/* ---- what a launch has to know, as a text ---- */

void far_frame_print(const GpuFrame *f, StrBuf *out) { sb_printf(out, "threads %d shared %lld", f->threads, (long long)f->shared); }

bool far_frame_read(const char *s, GpuFrame *f)
{
    enum { THREADS_MOST = 1024 };
    long long shared;
    int end = 0;

    *f = (GpuFrame){0};
    if (sscanf(s, "threads %4d shared %10lld%n", &f->threads, &shared, &end) != 2 || s[end])
        return false;
    f->shared = shared;
    return f->threads > 0 && f->threads <= THREADS_MOST && shared >= 0 && shared <= INT32_MAX;
}

/* ---- launches ---- */

static int64_t uniform_number(const TileKernel *k, const TileNode *n, const int64_t *sizes)
{
    int64_t a, b;

    if (n->op == TOP_index)
        return n->attr->i;
    for (int i = 0; n->op == TOP_size && i < k->size.n; i++)
        if (k->size.at[i] == n->attr->name)
            return sizes[i];
    if (n->nin != 2)
        return 0;
    a = uniform_number(k, n->in[0].node, sizes);
    b = uniform_number(k, n->in[1].node, sizes);
    switch (n->op) {
    case TOP_iadd: return a + b;
    case TOP_isub: return a - b;
    case TOP_imul: return a * b;
    case TOP_idiv: return b < 1 ? a : a / b - (a % b < 0);
    case TOP_imod: return b < 1 ? 0 : (a % b + b) % b;
    case TOP_imin: return a < b ? a : b;
    default: return a > b ? a : b;
    }
}

/* Bytes of shared memory that a group of this launch takes. -1: more than 2^31. */
static int64_t shared_bytes(const TileKernel *k, const GpuFrame *f, const int64_t *sizes)
{
    int64_t all = f->shared;

    for (const TileNode *n = k->body.first; n; n = n->next) {
        int64_t count = 1;
        if (n->op != TOP_alloc || (n->attr->space == SPACE_LOCAL && k->lanes > 1))
            continue;
        for (int i = 0; i < n->nin; i++) {
            int64_t extent = uniform_number(k, n->in[i].node, sizes);
            if (__builtin_mul_overflow(count, extent > 0 ? extent : 0, &count) || count > INT32_MAX)
                return -1;
        }
        all += (count * (int64_t)raw_size((DType)n->attr->dtype) + 2 * 64 - 1) / 64 * 64;
    }
    return all > INT32_MAX ? -1 : all;
}

static int put_words(const TileKernel *k, const int64_t *sizes, const int64_t *groups, const TileArg *args, uint64_t *words)
{
    int n = 0;

    for (int i = 0; i < k->size.n; i++)
        words[n++] = (uint64_t)sizes[i];
    for (int i = 0; i < 3; i++)
        words[n++] = (uint64_t)groups[i];
    for (int i = 0; i < k->params.n; i++) {
        int rank = k->params.at[i]->type[0].rank;
        words[n++] = (uint64_t)(uintptr_t)args[i].base;
        for (int r = 0; r < rank; r++)
            words[n++] = (uint64_t)args[i].extent[r];
        for (int r = 0; r < rank; r++)
            words[n++] = (uint64_t)args[i].stride[r];
    }
    return n;
}

static GpuFunction *function_of(FarCode *c, GpuDevice *g)
{
    GpuModule *m;

    if (g->index >= FAR_GPUS)
        return NULL;
    if (!c->function[g->index] && (m = gpu_module_begin(g, sb_str(&c->image), c->image.n)))
        c->function[g->index] = gpu_module_function(m, "kernel");
    return c->function[g->index];
}

/* ---- tensor maps ---- */

/* The axes of rows that end with a part. false: rows are too far from each other. */
static bool end_rows(int *rank, uint64_t *extent, uint64_t *step, uint32_t *box)
{
    enum { BACK = 34 };         /* so many bits and those of GPU_END are a word's */

    if (step[1] >> BACK)
        return false;
    for (int i = *rank + 1; i > 3; i--)
        extent[i] = extent[i - 2], step[i] = step[i - 2], box[i] = 1;
    extent[2] = extent[1] + 1, step[2] = step[1], box[2] = 1;
    extent[1] = GPU_END;
    extent[3] = INT32_MAX, step[3] = (UINT64_C(1) << BACK) - step[1], box[3] = 1;
    *rank += 2;
    return true;
}

int far_map(GpuDevice *g, const GpuMap *m, int rank, const TileArg *arg, CUtensorMap *out)
{
    enum { ROW_ALIGN = 16, STEP_BITS = 40, L2_256 = 3, BYTE = 0, TWO = 1, FOUR = 2, TF32 = 11 };
    uint64_t extent[MAP_AXES], step[MAP_AXES];
    uint32_t box[MAP_AXES];
    int type = m->tf32 ? TF32 : m->bytes == 1 ? BYTE : m->bytes == 2 ? TWO : FOUR;
    int swizzle = m->swizzle == 128 ? 3 : m->swizzle == 64 ? 2 : m->swizzle ? 1 : 0;

    for (int i = 0; i < rank; i++) {
        int axis = gpu_map_axis(rank, m->inner, m->second, i);
        int64_t bytes = arg->stride[axis] * m->bytes;
        bool one = arg->extent[axis] == 1, fits = i ? bytes > 0 && bytes % ROW_ALIGN == 0 && !(bytes >> STEP_BITS) : arg->stride[axis] == 1;
        if (arg->extent[axis] < 1 || arg->extent[axis] > INT32_MAX || !(one || fits))
            return FAR_MISFIT;
        extent[i] = (uint64_t)arg->extent[axis];
        step[i] = one ? ROW_ALIGN : (uint64_t)bytes;
        box[i] = m->box[i] ? m->box[i] : 1;
    }
    if ((uintptr_t)arg->base % ROW_ALIGN)
        return FAR_MISFIT;
    if (m->ends && !end_rows(&rank, extent, step, box))
        return FAR_MISFIT;
    return gpu_tensor_map(g, out, type, rank, (CUdeviceptr)(uintptr_t)arg->base, extent, step + 1, box, swizzle, L2_256) ? 1 : -1;
}

/* As far_map. */
static int make_maps(GpuDevice *g, const FarCode *c, const TileKernel *k, const TileArg *args, CUtensorMap *map)
{
    for (int i = 0; i < c->frame.nmaps; i++) {
        const GpuMap *m = &c->frame.map[i];
        int done = far_map(g, m, k->params.at[m->param]->type[0].rank, &args[m->param], &map[i]);
        if (done != 1)
            return done;
    }
    return 1;
}

/* ---- launches ---- */

void (*far_noted)(struct GpuFunction *f, const struct GpuLaunch *l, const FarCode *c, const TileKernel *k, const TileArg *args);

/* Blocks for so many groups: as many as the device holds at once, in whole clusters, or one for a group, or a cluster. 0: there is a fault. */
static int64_t blocks_of(FarCode *c, GpuDevice *g, GpuFunction *f, GpuLaunch *l, const int64_t *groups)
{
    int cluster = c->frame.cluster > 1 ? c->frame.cluster : 1, *most = &c->clusters[g->index];
    int64_t all = 1, blocks;

    for (int i = 0; i < 3; i++)
        all *= cluster > 1 && i == c->frame.share ? (groups[i] + cluster - 1) / cluster : groups[i];
    if (cluster == 1) {
        blocks = (int64_t)c->frame.resident * g->processors;
        return blocks && blocks < all ? blocks : all;
    }
    l->cluster[0] = l->grid[0] = (uint32_t)cluster;
    if (!c->frame.resident)
        return all * cluster <= INT32_MAX ? all * cluster : 0;
    if (!*most && !gpu_max_clusters(f, l, most))
        return 0;
    return (*most && *most < all ? *most : all) * cluster;
}

int far_code_launch(FarCode *c, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where)
{
    GpuDevice *g = device_gpu(device);
    GpuFunction *f = g ? function_of(c, g) : NULL;
    uint64_t words[GPU_WORDS];
    CUtensorMap map[GPU_MAPS];
    void *each[GPU_WORDS + GPU_MAPS];
    int64_t groups[3], all, shared, blocks;
    int fits, n;

    if (!f)
        return -1;
    shared = shared_bytes(k, &c->frame, sizes);
    if (!tile_groups(k, sizes, groups) || shared < 0 || shared > g->shared_group ||
        __builtin_mul_overflow(groups[0] * groups[1], groups[2], &all) || all > INT32_MAX)
        return 0;
    if (!all)
        return 1;
    n = put_words(k, sizes, groups, args, words);
    if ((fits = make_maps(g, c, k, args, map)) != 1)
        return fits;
    for (int i = 0; i < n + c->frame.nmaps; i++)
        each[i] = i < n ? (void *)&words[i] : (void *)&map[i - n];
    GpuLaunch l = {.block = {(uint32_t)c->frame.threads}, .shared = (int)shared, .params = words,
                   .nbytes = 8 * (size_t)n, .each = c->frame.nmaps ? each : NULL, .where = {k->name->text, where}};
    if (!(blocks = blocks_of(c, g, f, &l, groups)))
        return -1;
    l.grid[0] = (uint32_t)blocks;
    if (far_noted)
        far_noted(f, &l, c, k, args);
    return gpu_launch(f, &l) ? 1 : -1;
}
