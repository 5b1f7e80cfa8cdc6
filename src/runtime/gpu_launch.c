/*
 * Modules of kernels, launches, and graphs of launches.
 *
 * A launch is what a program does most, so little is done for one: the configuration is built on the stack, the driver copies the
 * parameters, and the name and place of the launch go into a ring from which an error that shows later is told.
 */
#include "runtime/gpu_launch.h"

#include "runtime/gpu_impl.h"

#include <string.h>

enum { SHARED_PLAIN = 48 << 10, CLUSTER_PLAIN = 8 };            /* what needs no attribute of the function */

struct GpuFunction {
    GpuModule *module;
    CUfunction f;
    int shared;                 /* bytes that it was told of */
    bool large_clusters;        /* was it allowed those? */
    GpuFunction *next;
    char name[];
};

struct GpuModule {
    GpuDevice *g;
    CUmodule m;                 /* NULL: not loaded yet */
    GpuMaking *making;          /* its code, until it is loaded; NULL: it is */
    StrBuf text;                /* what that is made of */
    GpuFunction *functions;
};

/* ---- modules ---- */

static bool is_ptx(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r'))
        i++;
    return n - i > 8 && (!strncmp(s + i, "//", 2) || !strncmp(s + i, ".version", 8));
}

enum { LOG = 4096 };

typedef struct Load { GpuModule *m; const void *image; CUresult r; char log[LOG]; } Load;

static void load_aside(void *arg)
{
    Load *l = arg;
    int option[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *value[] = {l->log, (void *)(uintptr_t)(LOG - 1)};

    if ((l->r = cu.CtxSetCurrent(l->m->g->state->context)) == CUDA_SUCCESS)
        l->r = cu.ModuleLoadDataEx(&l->m->m, l->image, 2, option, value);
}

static bool load(GpuModule *m, const void *image)
{
    Load l = {.m = m, .image = image};
    StrBuf why = {0};

    cuda_aside(load_aside, &l);
    if (l.r == CUDA_SUCCESS || !*l.log)
        return gpu_check(m->g, l.r, "cuModuleLoadDataEx");
    cuda_say(&why, l.r);
    fault(FAULT_RUN, "E0746: gpu:%d does not load a module: %s: %s", m->g->index, sb_str(&why), l.log);
    sb_done(&why);
    return false;
}

GpuModule *gpu_module_load(GpuDevice *g, const void *image, size_t n)
{
    GpuModule *m = tsr_calloc(sizeof *m);
    GpuAssembly made = {0};
    StrBuf bytes = {0};
    bool ok, ptx = g->sm && is_ptx(image, n);

    gpu_lock();
    m->g = g;
    ok = gpu_enter(g);
    if (ok && ptx)
        ok = gpu_assemble(g, image, n, &made);
    else if (ok)
        sb_write(&bytes, image, n);
    ok = ok && load(m, ptx ? made.cubin.s : sb_str(&bytes));
    sb_done(&bytes);
    gpu_assembly_done(&made);
    gpu_unlock();
    if (ok)
        return m;
    tsr_free(m);
    return NULL;
}

GpuModule *gpu_module_begin(GpuDevice *g, const void *image, size_t n)
{
    GpuModule *m = NULL;
    GpuMaking *making = NULL;

    gpu_lock();
    if (g->sm && is_ptx(image, n) && !g->state->capturing && !g->state->one_by_one && (making = gpu_making_begin(g, image, n))) {
        m = tsr_calloc(sizeof *m);
        m->g = g;
        m->making = making;
        sb_write(&m->text, image, n);
    }
    gpu_unlock();
    return m ? m : gpu_module_load(g, image, n);
}

/* Loaded, when its code is there; of a text that the assembler did not take the driver says what is wrong. */
static bool finish(GpuModule *m)
{
    StrBuf cubin = {0};
    bool ok = !m->making || gpu_making_end(m->making, &cubin);

    if (m->making)
        ok = gpu_enter_beside(m->g) && load(m, ok ? cubin.s : sb_str(&m->text));
    m->making = NULL;
    sb_done(&m->text);
    sb_done(&cubin);
    return ok && (m->m || fault(FAULT_RUN, "E0746: gpu:%d: a module could not be loaded", m->g->index));
}

/* Has the function its handle? */
static bool ready(GpuFunction *f)
{
    return f->f || (finish(f->module) && gpu_check(f->module->g, cu.ModuleGetFunction(&f->f, f->module->m, f->name), "cuModuleGetFunction"));
}

static GpuFunction *known(const GpuModule *m, const char *name)
{
    GpuFunction *f = m->functions;

    while (f && strcmp(f->name, name))
        f = f->next;
    return f;
}

GpuFunction *gpu_module_function(GpuModule *m, const char *name)
{
    CUfunction handle = NULL;
    GpuFunction *f;

    gpu_lock();
    f = known(m, name);
    if (!f && (m->making || (gpu_enter_beside(m->g) && gpu_check(m->g, cu.ModuleGetFunction(&handle, m->m, name), "cuModuleGetFunction")))) {
        f = tsr_calloc(sizeof *f + strlen(name) + 1);
        f->module = m;
        f->f = handle;
        strcpy(f->name, name);
        f->next = m->functions;
        m->functions = f;
    }
    gpu_unlock();
    return f;
}

/* ---- launches ---- */

static bool tell(GpuFunction *f, int attribute, int value)
{
    return gpu_check(f->module->g, cu.FuncSetAttribute(f->f, attribute, value), "cuFuncSetAttribute");
}

/* What the function must be told before it may have so much. */
static bool allow(GpuFunction *f, int shared, uint32_t cluster)
{
    if (shared > SHARED_PLAIN && shared > f->shared) {
        if (!tell(f, CUDA_MAX_DYNAMIC_SHARED, shared))
            return false;
        f->shared = shared;
    }
    if (cluster > CLUSTER_PLAIN && !f->large_clusters)
        f->large_clusters = tell(f, CUDA_NON_PORTABLE_CLUSTER, 1);
    return cluster <= CLUSTER_PLAIN || f->large_clusters;
}

enum { ATTRIBUTES = 2 };

static uint32_t size_of(uint32_t n) { return n ? n : 1; }

static CUlaunchConfig config_of(GpuDevice *g, const GpuLaunch *l, CUlaunchAttribute *a)
{
    CUlaunchConfig c = {.shared = (unsigned)l->shared, .stream = g->state->stream[l->stream], .attribute = a};

    for (int i = 0; i < 3; i++) {
        c.grid[i] = size_of(l->grid[i]);
        c.block[i] = size_of(l->block[i]);
    }
    if (size_of(l->cluster[0]) * size_of(l->cluster[1]) * size_of(l->cluster[2]) > 1) {
        a[c.nattributes] = (CUlaunchAttribute){.id = CUDA_LAUNCH_CLUSTER};
        for (int i = 0; i < 3; i++)
            a[c.nattributes].value.size[i] = size_of(l->cluster[i]);
        c.nattributes++;
    }
    if (l->overlap) {
        a[c.nattributes] = (CUlaunchAttribute){.id = CUDA_LAUNCH_OVERLAP};
        a[c.nattributes++].value.value = 1;
    }
    return c;
}

static bool launch(GpuFunction *f, const GpuLaunch *l)
{
    GpuDevice *g = f->module->g;
    CUlaunchAttribute a[ATTRIBUTES];
    CUlaunchConfig c = config_of(g, l, a);
    size_t nbytes = l->nbytes;
    void *extra[] = {(void *)(uintptr_t)1, (void *)(uintptr_t)l->params, (void *)(uintptr_t)2, &nbytes, NULL};  /* BUFFER_POINTER, BUFFER_SIZE, END */
    GpuWhere where = {l->where.kernel ? l->where.kernel : f->name, l->where.span};

    if (!allow(f, l->shared, size_of(l->cluster[0]) * size_of(l->cluster[1]) * size_of(l->cluster[2])))
        return false;
    gpu_remember(g, l->stream, where);
    return gpu_check(g, cu.LaunchKernelEx(&c, f->f, l->each, !l->each && nbytes ? extra : NULL), where.kernel) &&
           (!g->state->one_by_one || g->state->capturing || gpu_sync_stream(g, l->stream));
}

static int64_t launches;                /* under the lock */

bool gpu_launch_now(GpuFunction *f, const GpuLaunch *l)
{
    bool ok = gpu_enter_beside(f->module->g) && ready(f) && launch(f, l);

    launches += ok && !f->module->g->state->capturing;
    return ok;
}

bool gpu_launch(GpuFunction *f, const GpuLaunch *l)
{
    bool ok;

    gpu_lock();
    ok = (!f->module->g->state->capturing && gpu_launch_later(f, l, f->f != NULL)) || (gpu_settle() && gpu_launch_now(f, l));
    gpu_unlock();
    return ok;
}

static int64_t read_count(const int64_t *count)
{
    int64_t n;

    gpu_lock();
    n = *count;
    gpu_unlock();
    return n;
}

int64_t gpu_launches(void) { return read_count(&launches); }

bool gpu_max_clusters(GpuFunction *f, const GpuLaunch *l, int *clusters)
{
    CUlaunchAttribute a[ATTRIBUTES];
    CUlaunchConfig c = config_of(f->module->g, l, a);
    bool ok;

    gpu_lock();
    ok = gpu_enter(f->module->g) && ready(f) && allow(f, l->shared, size_of(l->cluster[0]) * size_of(l->cluster[1]) * size_of(l->cluster[2])) &&
         gpu_check(f->module->g, cu.OccupancyMaxActiveClusters(clusters, f->f, &c), "cuOccupancyMaxActiveClusters");
    gpu_unlock();
    return ok;
}

bool gpu_tensor_map(GpuDevice *g, CUtensorMap *out, int type, int rank, CUdeviceptr at, const uint64_t *extent, const uint64_t *stride,
                    const uint32_t *box, int swizzle, int l2)
{
    static const uint32_t ones[] = {1, 1, 1, 1, 1};

    return gpu_check(g, cu.TensorMapEncodeTiled(out, type, (uint32_t)rank, (void *)(uintptr_t)at, extent, stride, box, ones, 0, swizzle, l2, 0),
                     "cuTensorMapEncodeTiled");
}

/* ---- graphs ---- */

struct GpuGraph {
    GpuDevice *g;
    CUgraphExec exec;
    Vec(CUdeviceptr) held;
};

bool gpu_capture_begin(GpuDevice *g, GpuStream s)
{
    bool ok;

    gpu_lock();
    ok = !g->state->capturing || fault(FAULT_RUN, "E0746: gpu:%d: a graph is captured already", g->index);
    ok = ok && gpu_enter(g) && gpu_check(g, cu.StreamBeginCapture(g->state->stream[s], CUDA_CAPTURE_RELAXED), "cuStreamBeginCapture");
    if (ok)
        g->state->capturing = 1 + (int)s;
    gpu_unlock();
    return ok;
}

bool gpu_capturing(const GpuDevice *g) { return g->state && g->state->capturing; }

bool gpu_capture_after(GpuDevice *g, GpuNode *after, int n)
{
    CUresult r = cu.StreamUpdateCaptureDependencies(g->state->stream[g->state->capturing - 1], after, (size_t)n, CUDA_CAPTURE_SET);

    return gpu_check(g, r, "cuStreamUpdateCaptureDependencies");
}

GpuNode gpu_captured(GpuDevice *g)
{
    const GpuNode *last = NULL;
    CUgraph graph;
    uint64_t id;
    size_t n = 0;
    int status;
    CUresult r = cu.StreamGetCaptureInfo(g->state->stream[g->state->capturing - 1], &status, &id, &graph, &last, &n);

    if (!gpu_check(g, r, "cuStreamGetCaptureInfo"))
        return NULL;
    return n == 1 ? last[0] : (fault(FAULT_RUN, "E0746: gpu:%d: %zu nodes of a graph were captured at once", g->index, n), NULL);
}

/* What runs may go on; where the driver cannot put other numbers into the graph that there is, it makes one anew. */
static bool instantiate(GpuGraph *p, CUgraph graph)
{
    CUgraphUpdate update;

    if (p->exec && cu.GraphExecUpdate(p->exec, graph, &update) == CUDA_SUCCESS)
        return true;
    if (p->exec)
        cu.GraphExecDestroy(p->exec);
    p->exec = NULL;
    return gpu_check(p->g, cu.GraphInstantiate(&p->exec, graph, 0), "cuGraphInstantiate");
}

bool gpu_capture_into(GpuDevice *g, GpuGraph *p)
{
    CUgraph graph = NULL;
    bool ok;

    gpu_lock();
    ok = g->state->capturing && gpu_enter(g) &&
         gpu_check(g, cu.StreamEndCapture(g->state->stream[g->state->capturing - 1], &graph), "cuStreamEndCapture") && instantiate(p, graph);
    if (graph)
        cu.GraphDestroy(graph);
    g->state->capturing = 0;
    for (int i = 0; i < g->state->held.n; i++)
        vec_push(&p->held, g->state->held.at[i]);
    g->state->held.n = 0;
    gpu_unlock();
    return ok;
}

GpuGraph *gpu_capture_end(GpuDevice *g)
{
    GpuGraph *p = tsr_calloc(sizeof *p);

    p->g = g;
    if (gpu_capture_into(g, p))
        return p;
    gpu_graph_free(p);
    return NULL;
}

static int64_t graph_launches;          /* under the lock */

int64_t gpu_graph_launches(void) { return read_count(&graph_launches); }

bool gpu_graph_launch(GpuGraph *p, GpuStream s, GpuWhere where)
{
    bool ok;

    gpu_lock();
    gpu_remember(p->g, s, where);
    ok = gpu_enter(p->g) && gpu_check(p->g, cu.GraphLaunch(p->exec, p->g->state->stream[s]), "cuGraphLaunch");
    graph_launches += ok;
    gpu_unlock();
    return ok;
}

void gpu_graph_free(GpuGraph *p)
{
    if (!p)
        return;
    gpu_lock();
    if (p->exec)
        cu.GraphExecDestroy(p->exec);
    for (int i = 0; i < p->held.n; i++)
        gpu_free(p->g, p->held.at[i]);
    vec_free(&p->held);
    tsr_free(p);
    gpu_unlock();
}
