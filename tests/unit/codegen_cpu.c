/*
 * Code for CPUs from kernels of the Tile IR gives the oracle's bits: kernels
 * that do what ops of tensors do, at sizes with and without edges, and random
 * kernels, for every instruction set that this machine runs.
 */
#include "codegen.h"
#include "tile_kernels.h"
#include "tile_random.h"
#include "tile_text.h"

#include "codegen/cpu.h"
#include "runtime/cpu.h"
#include "runtime/launch.h"

#include <stdlib.h>
#include <time.h>

static const char *const machines[] = {"base", "v3", "v4"};

typedef struct Made {
    Code *code;
    KernelFn *fn;
    int64_t (*scratch)(const int64_t *size);
} Made;

/* NULL fn: the kernel is not covered, *err says why. */
static Made make(const TileKernel *k, const Machine *m, Level level, StrBuf *err)
{
    Llvm *u = llvm_new("kernel", m);
    Made made = {0};
    StrBuf text = {0}, object = {0};

    if (!cpu_emit(u, k, "f", err)) {
        llvm_free(u);
        return made;
    }
    if (getenv("SHOW")) {
        llvm_print(u, &text);
        fprintf(stderr, "%s\n", sb_str(&text));
    }
    if (!llvm_verify(u, err) || !llvm_optimise(u, level, err) || !llvm_object(u, level, &object, err) ||
        !(made.code = code_load(object.s, object.n, err))) {
        sb_clear(&text);
        tile_print(k, &text);
        fail_msg("%s\n%s", sb_str(err), sb_str(&text));
    }
    made.fn = (KernelFn *)code_find(made.code, "f");
    made.scratch = (int64_t (*)(const int64_t *))code_find(made.code, "f.scratch");
    sb_done(&text);
    sb_done(&object);
    llvm_free(u);
    return made;
}

/* All groups; what lies behind the scratch memory must stay as it is. */
static void run(const Made *m, const TileKernel *k, const int64_t *sizes, const TileArg *arg)
{
    int64_t all[16], n[3], bytes;
    char *scratch;

    assert_true(tile_groups(k, sizes, n));
    for (int i = 0; i < k->size.n; i++)
        all[i] = sizes[i];
    memcpy(all + k->size.n, n, sizeof *n * (size_t)k->grid.n);
    bytes = m->scratch(all);
    scratch = tsr_try_alloc((size_t)bytes + 64, 64);
    memset(scratch, 0x5a, (size_t)bytes + 64);
    m->fn(all, arg, scratch, 0, n[0] * n[1] * n[2]);
    for (int i = 0; i < 64; i++)
        assert_int_equal(scratch[bytes + i], 0x5a);
    tsr_free_aligned(scratch);
}

/* ---- kernels as text ---- */

typedef struct Case {
    const char *text;
    int nargs, ranks[4], dims[4][2];    /* dims: which sizes an argument's axes are */
    int64_t sizes[6][3];
} Case;

static const Case cases[] = {
    {softmax_text, 2, {2, 2}, {{0, 1}, {0, 1}}, {{1, 1}, {4, 256}, {7, 1000}, {5, 257}, {3, 20}, {8, 2048}}},
    {layer_norm_text, 4, {2, 1, 1, 2}, {{0, 1}, {1}, {1}, {0, 1}}, {{1, 1}, {4, 256}, {7, 1000}, {5, 257}, {3, 20}, {8, 2048}}},
    {column_sum_text, 2, {2, 1}, {{0, 1}, {1}}, {{1, 1}, {256, 32}, {1000, 7}, {257, 33}, {2500, 9}, {512, 64}}},
    {matmul_text, 3, {2, 2, 2}, {{0, 2}, {2, 1}, {0, 1}}, {{1, 1, 1}, {12, 32, 32}, {13, 33, 31}, {25, 40, 200}, {2, 3, 1000}, {24, 64, 256}}},
};

static void run_case(const Case *c, const Made *m, const TileKernel *k, const int64_t *sizes)
{
    TileArg arg[4], want[4];
    size_t bytes[4];
    StrBuf err = {0};
    int out = c->nargs - 1;

    for (int i = 0; i < c->nargs; i++) {
        int64_t n = 1;
        memset(&arg[i], 0, sizeof arg[i]);
        for (int a = c->ranks[i] - 1; a >= 0; a--) {
            arg[i].extent[a] = sizes[c->dims[i][a]];
            arg[i].stride[a] = n;
            n *= arg[i].extent[a];
        }
        bytes[i] = 4 * (size_t)n;
        arg[i].base = tsr_alloc(bytes[i]);
        for (int64_t e = 0; e < n; e++)
            ((float *)arg[i].base)[e] = (float)(rnd_to(200001) - 100000) / 16384.0f;
        want[i] = arg[i];
    }
    want[out].base = tsr_calloc(bytes[out]);
    if (!tile_exec(k, sizes, want, &err))
        fail_msg("%s", sb_str(&err));
    run(m, k, sizes, arg);
    assert_memory_equal(arg[out].base, want[out].base, bytes[out]);
    for (int i = 0; i < c->nargs; i++)
        tsr_free(arg[i].base);
    tsr_free(want[out].base);
    sb_done(&err);
}

static void kernels_of_text(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (!cpu_find(machines[i]))
            continue;
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            TileKernel *k = tile_of_text(cases[c].text);
            StrBuf err = {0};
            for (int level = LEVEL_O0; level <= LEVEL_O3; level++) {
                Made m = make(k, machine_find(machines[i]), (Level)level, &err);
                if (!m.fn)
                    fail_msg("%s", sb_str(&err));
                for (int s = 0; s < 6; s++)
                    run_case(&cases[c], &m, k, cases[c].sizes[s]);
                code_free(m.code);
            }
            tile_kernel_free(k);
            sb_done(&err);
        }
    }
}

/* ---- operands that are shared ---- */

/* Each value is used twice by the next: code grows with their number, not with the ways through them; and so it does around a store. */
static void shared_operands(void **state)
{
    enum { STEPS = 200 };
    StrBuf text = {0}, err = {0};
    float x[16], y[16], want = 1.5f;
    TileArg arg[2] = {{x, {16}, {1}}, {y, {16}, {1}}};
    TileKernel *k;
    Made m;

    (void)state;
    sb_puts(&text, "tessera.tile v1\nkernel @f(%x: view f32[1], %y: view f32[1]) grid(1) {\n%0: index = index {i=0}\n"
                   "%1: f32[] = const {dtype=f32 f=0.5}\n%2: f32[16] = load %x[%0] {shape=(16)}\n");
    for (int i = 0; i < STEPS; i++) {
        sb_printf(&text, "%%%d: f32[16] = map add %%%d, %%%d\n", 2 * i + 3, 2 * i + 2, 2 * i + 2);
        sb_printf(&text, "%%%d: f32[16] = map mul %%%d, %%1\n", 2 * i + 4, 2 * i + 3);
    }
    sb_printf(&text, "store %%y[%%0], %%%d\nstore %%x[%%0], %%%d\n}\n", 2 * STEPS + 2, 2 * STEPS + 1);
    k = tile_of_text(sb_str(&text));
    for (int i = 0; i < 16; i++)
        x[i] = want;
    m = make(k, machine_host(), LEVEL_O1, &err);
    assert_non_null(m.fn);
    run(&m, k, (int64_t[]){0}, arg);
    for (int i = 0; i < 16; i++) {
        assert_true(y[i] == want);
        assert_true(x[i] == 2 * want);
    }
    code_free(m.code);
    tile_kernel_free(k);
    sb_done(&text);
    sb_done(&err);
}

/* ---- random kernels ---- */

static const uint8_t dtypes[] = {DT_f32, DT_f32, DT_f32, DT_bf16, DT_f16, DT_f64, DT_int32, DT_int64, DT_int8, DT_uint8, DT_bool,
                                 DT_fp8_e4m3, DT_c64};

static void expect_oracle(RandomKernel *r, const Made *m, int seed, const char *machine)
{
    void *want[RK_ARGS];

    rk_fresh_outputs(r, want);
    run(m, r->k, r->sizes, r->arg);
    for (int i = 0; i < r->narg; i++) {
        DType dt = (DType)r->k->params.at[i]->type[0].dtype;
        if (want[i] && !rk_same(dt, want[i], r->arg[i].base, (int64_t)(r->bytes[i] / raw_size(dt)))) {
            StrBuf text = {0};
            tile_print(r->k, &text);
            fail_msg("kernel %d on %s: output %%%s differs\n%s", seed, machine, r->k->param_name.at[i]->text, sb_str(&text));
        }
        if (want[i]) {
            tsr_free(r->arg[i].base);
            r->arg[i].base = want[i];           /* the oracle's again */
        }
    }
}

/* SEED, COUNT and OPS in the environment: which kernels. */
static int asked(const char *name, int usual) { return getenv(name) ? atoi(getenv(name)) : usual; }

static void random_kernels(void **state)
{
    int first = asked("SEED", 0), count = asked("COUNT", 30), ops = asked("OPS", 14), covered = 0;

    (void)state;
    for (int i = first; i < first + count; i++) {
        RandomKernel r;
        test_seed = 88172645463325252ull + (uint64_t)i * 0x9e3779b97f4a7c15ull;
        rk_make(&r, ops, dtypes, i % 2 ? (int)sizeof dtypes : 3);
        sb_clear(&r.err);
        if (!tile_exec(r.k, r.sizes, r.arg, &r.err))
            fail_msg("%s", sb_str(&r.err));
        if (i % 3)
            tile_fold(r.k);
        for (int v = 0; v < 3; v++) {
            Made m;
            if (!cpu_find(machines[v]))
                continue;
            sb_clear(&r.err);
            m = make(r.k, machine_find(machines[v]), i % 5 ? LEVEL_O0 : LEVEL_O1, &r.err);
            if (!m.fn)
                continue;
            covered++;
            expect_oracle(&r, &m, i, machines[v]);
            code_free(m.code);
        }
        rk_done(&r);
    }
    assert_true(covered >= 2 * count);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_text),
        cmocka_unit_test(shared_operands),
        cmocka_unit_test(random_kernels),
    };

    pool_init(0);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
