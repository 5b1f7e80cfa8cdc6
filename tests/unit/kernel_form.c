/* What a kernel's text says to whoever launches it: its parameters, what it writes, who does the work. */
#include "unit.h"

#include "frontend/check/spaces.h"
#include "frontend/kernel/kernel.h"
#include "frontend/prelude.h"

#include <string.h>

typedef struct Kernels { Unit *unit; Scope *globals; DiagSink sink; } Kernels;

static Kernels resolved(const char *text)
{
    Kernels k = {.globals = scope_new_module(sym("test"))};

    k.unit = unit_parse(source_add("test.tsr", text, strlen(text)), &k.sink);
    scope_resolve(k.unit, k.globals, (ScopeOptions){0}, &k.sink);
    return k;
}

static void done(Kernels *k)
{
    scope_free_module(k->globals);
    unit_free(k->unit);
    diag_sink_done(&k->sink);
}

static AstFunctionDef *def(const Kernels *k, int i)
{
    assert_true(i < k->unit->module->body.n && AST_IS(k->unit->module->body.at[i], FunctionDef));
    return AST_AS(k->unit->module->body.at[i], FunctionDef);
}

static void elements(void **state)
{
    Kernels k = resolved("@ts.kernel\n"
                         "def axpy(a: float, x: Tensor['N', f32], y: ts.Tensor['N', f32], n: int):\n"
                         "    i = ts.tile.linear_id()\n"
                         "    if i < x.shape[0]:\n"
                         "        y[i] += a * x[i]\n");
    KernelForm f;

    assert_int_equal(k.sink.errors, 0);
    assert_true(kernel_def(def(&k, 0)));
    kernel_form(def(&k, 0), &f);
    assert_int_equal(f.n, 4);
    assert_int_equal(f.param[0].kind, KPARAM_NUMBER);
    assert_int_equal(f.param[1].kind, KPARAM_TENSOR);
    assert_true(f.param[1].read && !f.param[1].written);
    assert_true(f.param[2].read && f.param[2].written);
    assert_true(!f.param[3].read);
    assert_true(f.numbered && !f.returns && !f.atomic);
    assert_int_equal(f.levels, 1u << KERNEL_LANE);
    done(&k);
}

static void blocks(void **state)
{
    Kernels k = resolved("from tessera.tile import store\n"
                         "@kernel.schedule(Schedule(block=(8, 8)))\n"
                         "def copy(A: Tile['M', 'N', f32] @ memory.global, B: KTile['M', 'N', f32], C: Region[write]):\n"
                         "    buf = tile.alloc_shared((8, 8), f32)\n"
                         "    tile.async_copy(src=A, dst=buf)\n"
                         "    store(B, tile.load_shared(buf))\n"
                         "    tile.async_copy(buf, C)\n"
                         "    tile.atomic_add(C, 0, 1.0)\n"
                         "    return tile.load(A[0:8])\n");
    KernelForm f;

    assert_int_equal(k.sink.errors, 0);
    kernel_form(def(&k, 1), &f);
    assert_int_equal(f.param[0].kind, KPARAM_TILE);
    assert_int_equal(f.param[1].kind, KPARAM_TILE);
    assert_int_equal(f.param[2].kind, KPARAM_REGION);
    assert_true(f.param[0].read && !f.param[0].written);
    assert_true(f.param[1].written && !f.param[1].read);
    assert_true(f.param[2].written && f.param[2].read);
    assert_true(!f.numbered && f.returns && f.atomic);
    assert_int_equal(f.levels, 1u << KERNEL_LANE | 1u << KERNEL_BLOCK);
    done(&k);
}

static void own_decorators(void **state)
{
    Kernels k = resolved("def kernel(f):\n"
                         "    return f\n"
                         "@kernel\n"
                         "def plain(x):\n"
                         "    return x\n"
                         "@tessera.kernel.auto\n"
                         "def ours(x: Tile):\n"
                         "    return x\n");

    assert_false(kernel_def(def(&k, 1)));
    assert_true(kernel_def(def(&k, 2)));
    done(&k);
}

static void tables(void **state)
{
    for (int i = 0; i < KOP_COUNT; i++) {
        const KernelOp *op = &kernel_ops[i];
        bool writes = op->effects & (KERNEL_W0 | KERNEL_W1);
        assert_true(*op->doc && op->sig[0] == '(');
        assert_true(!writes || strncmp(op->sig, "()", 2));          /* what is written is an argument */
        assert_true(!(op->effects & KERNEL_SYNC) || op->level == KERNEL_BLOCK);
    }
    assert_int_equal(schedule_field("vector_width"), SCHED_vector);
    assert_int_equal(schedule_field("nothing"), SCHED_COUNT);
    assert_string_equal(schedule_nearest("swizle"), "swizzle");
    assert_true(schedule_is_implicit("BM") && schedule_is_implicit("block_n") && !schedule_is_implicit("warps"));
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(elements),
        cmocka_unit_test(blocks),
        cmocka_unit_test(own_decorators),
        cmocka_unit_test(tables),
    };
    int failed = cmocka_run_group_tests(all, NULL, NULL);

    spaces_done();
    prelude_done();
    return failed;
}
