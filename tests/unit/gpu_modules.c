/*
 * Modules, launches, events and graphs; PTX through the assemblers that are here; and last, because nothing works after it, a kernel that
 * goes wrong: the wait that finds out names it.
 */
#include "gpu.h"

#include "base/source.h"
#include "runtime/store.h"

#include <unistd.h>

static GpuDevice *g;

static void devices(void **state)
{
    (void)state;
    if (is_real())
        skip();
    assert_int_equal(gpu_count(), 2);
    assert_int_equal(g->sm, 0);
    assert_string_equal(g->name, "Tessera Fake GPU");
    assert_int_equal(g->processors, 4);
    assert_int_equal(g->shared_group, 227 << 10);
    assert_null(gpu_look(2));
    assert_null(gpu_device(2));
    assert_non_null(strstr(fault_text(NULL), "E0741"));
    assert_int_equal(cuda_version(), 13000);
}

static void launches(void **state)
{
    CUdeviceptr x = gpu_alloc(g, 400);
    float back[100];
    Axpb p = {x, 100, 0, 0};
    GpuLaunch l = {.grid = {4, 2}, .block = {64}, .cluster = {2}, .params = &p, .nbytes = sizeof p};

    (void)state;
    assert_true(gpu_launch(builtin(g, "count"), &l));
    p.n = 0;                                            /* the driver has a copy */
    assert_true(axpb(g, x, 100, 2, 1));
    assert_true(gpu_download(g, back, x, sizeof back));
    for (int i = 0; i < 100; i++)
        assert_true(back[i] == 2 * (float)i + 1);
    assert_ptr_equal(builtin(g, "count"), builtin(g, "count"));
    assert_null(builtin(g, "missing"));
    assert_non_null(strstr(fault_text(NULL), "E0746: gpu:0: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (named symbol not found)"));
    l.cluster[0] = 3;
    assert_false(gpu_launch(builtin(g, "count"), &l));
    assert_non_null(strstr(fault_text(NULL), is_real() ? "E0746: gpu:0: count: " : "E0746: gpu:0: count: CUDA_ERROR_INVALID_VALUE (invalid argument)"));
    gpu_free(g, x);
}

static void shared_memory(void **state)
{
    GpuLaunch l = {.shared = 200 << 10};

    (void)state;
    assert_true(gpu_launch(builtin(g, "nothing"), &l));
    l.shared = 300 << 10;
    assert_false(gpu_launch(builtin(g, "nothing"), &l));
    assert_non_null(strstr(fault_text(NULL), "cuFuncSetAttribute"));
    assert_true(gpu_sync(g));
}

/* A function belongs to its device: each has modules of its own, in any order of use and from any thread's last device. */
static void two_devices(void **state)
{
    GpuDevice *h = gpu_device(second());
    CUdeviceptr x = gpu_alloc(g, 40), y = gpu_alloc(h, 40);
    float from[10] = {1, 2, 3}, back[10];

    (void)state;
    assert_true(gpu_upload(g, x, from, sizeof from));
    assert_true(gpu_copy(h, y, g, x, sizeof from));
    assert_true(axpb(h, y, 10, 10, 0));
    assert_true(axpb(g, x, 10, 1, 1));
    assert_true(gpu_download(h, back, y, sizeof back));
    assert_true(back[2] == 30);
    assert_true(gpu_download(g, back, x, sizeof back));
    assert_true(back[2] == 4);
    gpu_free(g, x);
    gpu_free(h, y);
}

static void events(void **state)
{
    GpuEvent a, b;

    (void)state;
    assert_true(gpu_event(g, &a) && gpu_event(g, &b));
    assert_true(gpu_record(&a, GPU_MAIN));
    assert_true(gpu_launch(builtin(g, "nothing"), &(GpuLaunch){0}));
    assert_true(gpu_record(&b, GPU_MAIN) && gpu_wait(g, GPU_COPY, &b));
    assert_true(gpu_sync(g));
    gpu_event_done(&a);
    gpu_event_done(&b);
}

static void graphs(void **state)
{
    CUdeviceptr x = gpu_alloc(g, 400), gone;
    float back[100];
    Axpb p = {x, 100, 0, 0};
    size_t used = gpu_memory(g).used;
    GpuGraph *graph;

    (void)state;
    assert_true(gpu_launch(builtin(g, "count"), &(GpuLaunch){.params = &p, .nbytes = sizeof p}));
    assert_true(gpu_capture_begin(g, GPU_MAIN));
    assert_true(gpu_capturing(g));
    gone = gpu_alloc(g, 400);
    assert_true(axpb(g, x, 100, 1, 1));
    gpu_free(g, gone);                                  /* the graph's from now on */
    assert_false(gpu_download(g, back, x, 4));
    assert_non_null(strstr(fault_text(NULL), "while a graph is captured"));
    graph = gpu_capture_end(g);
    assert_non_null(graph);
    assert_true(gpu_alloc(g, 400) != gone);
    for (int i = 0; i < 5; i++)
        assert_true(gpu_graph_launch(graph, GPU_MAIN, (GpuWhere){"step", {0, 0}}));
    assert_true(gpu_download(g, back, x, sizeof back));
    assert_true(back[7] == 12);
    gpu_graph_free(graph);
    assert_int_equal(gpu_memory(g).used, used + 512);
    assert_int_equal(counted("graph"), is_real() ? -1 : 5);
}

static void bad_images(void **state)
{
    static const char text[] = "no module at all", empty[64] = "\177ELF";       /* a header that says of no sections */

    (void)state;
    assert_null(gpu_module_load(g, text, sizeof text));
    assert_non_null(strstr(fault_text(NULL), is_real() ? "E0746" : "CUDA_ERROR_INVALID_IMAGE"));
    if (!is_real())
        assert_null(gpu_module_load(g, empty, sizeof empty));
    assert_true(is_real() || strstr(fault_text(NULL), "E0746"));
}

static const char ptx[] =
    ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd<3>;\n.reg .f32 %f<3>;\n"
    "ld.param.u64 %rd1, [p];\nld.global.f32 %f1, [%rd1];\nadd.f32 %f2, %f1, %f1;\nst.global.f32 [%rd1], %f2;\nret;\n}\n";

/* With ptxas or nvJitLink here: a cubin, which is found again; without, the driver's answer. */
static void assembles(void **state)
{
    char folder[] = "/tmp/tessera-test-XXXXXX";
    GpuAssembly a;
    bool ok;

    (void)state;
    assert_non_null(mkdtemp(folder));
    store_begin(folder, 1 << 24);
    ok = gpu_assemble(g, ptx, sizeof ptx - 1, &a);
    assert_int_equal(ok, gpu_assembler() || is_real());
    if (ok) {
        assert_true(a.cubin.n > 100 && !memcmp(a.cubin.s, "\177ELF", 4));
        assert_true(a.registers > 0 && !a.spills && !a.serialised && !a.found);
        gpu_assembly_done(&a);
        store_done();
        store_begin(folder, 1 << 24);                   /* as another process */
        assert_true(gpu_assemble(gpu_assembler() ? NULL : g, ptx, sizeof ptx - 1, &a));
        assert_true(a.found && a.registers > 0 && !memcmp(a.cubin.s, "\177ELF", 4));
        gpu_assembly_done(&a);
        assert_false(gpu_assemble(g, ptx, 200, &a));
        assert_non_null(strstr(fault_text(NULL), "E0746: PTX for sm_90a cannot be assembled"));
    } else {
        assert_non_null(strstr(fault_text(NULL), "E0746"));
    }
    gpu_assembly_done(&a);
    assert_false(gpu_assemble(g, "// nothing", 10, &a));
    assert_non_null(strstr(fault_text(NULL), "without a .target"));
    store_clear();
    store_done();
    rmdir(folder);
}

/* Registers for so many values there are not: said, in words of ours. */
static void spills(void **state)
{
    enum { VALUES = 300 };
    StrBuf b = {0};
    GpuAssembly a;

    (void)state;
    if (!gpu_assembler())
        skip();
    sb_puts(&b, ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry many(.param .u64 p)\n.maxntid 32\n.maxnreg 32\n{\n"
                ".reg .b64 %rd<3>;\n.reg .f32 %f<700>;\nld.param.u64 %rd1, [p];\n");
    for (int i = 0; i < VALUES; i++)
        sb_printf(&b, "ld.volatile.global.f32 %%f%d, [%%rd1+%d];\n", i, 4 * i);
    for (int i = 0; i < VALUES; i++)
        sb_printf(&b, "st.volatile.global.f32 [%%rd1+%d], %%f%d;\n", 4 * i, (i * 7) % VALUES);
    sb_puts(&b, "ret;\n}\n");
    assert_true(gpu_assemble(g, b.s, b.n, &a));
    assert_true(a.spills > 0);
    assert_non_null(strstr(sb_str(&a.log), "many: registers do not suffice"));
    gpu_assembly_done(&a);
    sb_done(&b);
}

static void goes_wrong(void **state)
{
    static const char text[] = "x = 1\ny = broken(x)\nprint(y)\n";
    const Source *src = source_add("train.tsr", text, sizeof text - 1);
    GpuWhere where = {"softmax", {src->base + 8, src->base + 10}};
    CUdeviceptr x = gpu_alloc(g, 400);
    char back[400];
    const char *said;

    (void)state;
    assert_true(gpu_sync(g));
    assert_true(gpu_launch(builtin(g, "nothing"), &(GpuLaunch){.where = {"matmul", {src->base, src->base + 1}}}));
    assert_true(gpu_launch(builtin(g, "illegal"), &(GpuLaunch){.where = where}));
    assert_false(fault_kept);                           /* nobody knows yet */
    assert_false(gpu_download(g, back, x, sizeof back));
    said = fault_text(NULL);
    assert_non_null(strstr(said, "E0745: a kernel went wrong on gpu:0: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"));
    assert_non_null(strstr(said, "it was one of these kernels: matmul (train.tsr:1), softmax (train.tsr:2) (TESSERA_GPU_SYNC=1"));
    assert_false(gpu_launch(builtin(g, "nothing"), &(GpuLaunch){0}));
    assert_non_null(strstr(fault_text(NULL), "it was told before"));
    gpu_free(g, x);                                     /* still no crash */
    source_done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices), cmocka_unit_test(launches), cmocka_unit_test(shared_memory), cmocka_unit_test(two_devices),
        cmocka_unit_test(events), cmocka_unit_test(graphs), cmocka_unit_test(bad_images), cmocka_unit_test(assembles), cmocka_unit_test(spills),
        cmocka_unit_test(goes_wrong),
    };

    fake_begin("devices=2");
    g = gpu_device(0);
    return g ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
