/*
 * Units of code: the same bytes for the same unit, errors as text, threads that
 * compile at once, machines other than this one, and objects that are damaged.
 */
#include "codegen.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "runtime/cpu.h"
#include "runtime/loops.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef void MapFn(int64_t n, void *out, const void *in);

/* f(n, out, in): an op on 8 lanes at a time; n is a multiple of 8. */
static Llvm *map_unit(OpId op, DType as, const Machine *m, int width)
{
    Llvm *u = llvm_new("map", m);
    LLVMValueRef fn = begin_function(u, "f", 2), x[3];
    Loop l = llvm_loop(u, llvm_int(u, 0), LLVMGetParam(fn, 0), width);

    for (int k = 0; k < op_info[op].nin; k++)
        x[k] = lanes_load(u, op == OP_where && !k ? DT_bool : lane_dtype(as), LLVMGetParam(fn, 2), l.i, width);
    x[0] = formula_emit(u, op, as, x, op_info[op].nin, width);
    if (LLVMGetTypeKind(LLVMTypeOf(x[0])) == LLVMStructTypeKind)
        x[0] = lane_part(u, x[0], 0);
    LLVMValueRef bytes = LLVMBuildMul(u->builder, l.i, llvm_int(u, 8), ""), at = LLVMGetParam(fn, 1);
    LLVMSetAlignment(LLVMBuildStore(u->builder, x[0], LLVMBuildGEP2(u->builder, LLVMInt8TypeInContext(u->context), at, &bytes, 1, "")), 1);
    llvm_loop_end(u, &l);
    LLVMBuildRetVoid(u->builder);
    return u;
}

static void object_of(OpId op, Level level, StrBuf *object)
{
    Llvm *u = map_unit(op, DT_f32, machine_host(), 8);
    StrBuf err = {0};

    if (!llvm_optimise(u, level, &err) || !llvm_object(u, level, object, &err))
        fail_msg("%s", sb_str(&err));
    llvm_free(u);
}

static void the_same_unit_gives_the_same_bytes(void **state)
{
    for (Level level = LEVEL_O0; level <= LEVEL_O3; level++) {
        StrBuf a = {0}, b = {0}, other = {0};
        object_of(OP_tanh, level, &a);
        object_of(OP_lgamma, level, &other);
        object_of(OP_tanh, level, &b);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.s, b.s, a.n);
        assert_true(other.n != a.n || memcmp(other.s, a.s, a.n) != 0);
        sb_done(&a);
        sb_done(&b);
        sb_done(&other);
    }
}

static uint64_t hash_of_objects(void)
{
    static const OpId ops[] = {OP_tanh, OP_sin, OP_lgamma, OP_pow};
    StrBuf all = {0};
    uint64_t h;

    for (int k = 0; k < 4; k++)
        object_of(ops[k], LEVEL_O3, &all);
    h = hash_bytes64(all.s, all.n);
    sb_done(&all);
    return h;
}

/* Memory lies elsewhere in each process; nothing may be ordered by where it lies. */
static void processes_make_the_same_bytes(void **state)
{
    char self[4096], command[5000], line[32];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    uint64_t mine = hash_of_objects();

    assert_true(n > 0);
    self[n] = 0;
    for (int k = 0; k < 3; k++) {
        snprintf(command, sizeof command, "FILL%d=%0*d '%s' hash", k, 1 + 777 * k, 0, self);
        FILE *f = popen(command, "r");
        assert_non_null(f);
        assert_non_null(fgets(line, sizeof line, f));
        assert_int_equal(pclose(f), 0);
        assert_true(strtoull(line, NULL, 16) == mine);
    }
}

static void broken_units_are_refused(void **state)
{
    Llvm *u = llvm_new("broken", machine_host());
    StrBuf err = {0};

    begin_function(u, "f", 1);              /* a block without an end */
    assert_false(llvm_verify(u, &err));
    assert_non_null(strstr(sb_str(&err), "terminator"));
    llvm_free(u);
    sb_done(&err);
}

static void unknown_symbols_are_refused(void **state)
{
    Llvm *u = llvm_new("stranger", machine_host());
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), NULL, 0, false);
    LLVMValueRef stranger = LLVMAddFunction(u->module, "system", type);
    StrBuf object = {0}, err = {0};

    begin_function(u, "f", 0);
    LLVMBuildCall2(u->builder, type, stranger, NULL, 0, "");
    LLVMBuildRetVoid(u->builder);
    assert_true(llvm_object(u, LEVEL_O1, &object, &err));
    assert_null(code_load(object.s, object.n, &err));
    assert_non_null(strstr(sb_str(&err), "calls system"));
    llvm_free(u);
    sb_done(&object);
    sb_done(&err);
}

/* Cut short or with bytes changed: loaded or refused, never a crash. */
static void damaged_objects_do_no_harm(void **state)
{
    StrBuf object = {0}, err = {0};
    int refused = 0;

    object_of(OP_lgamma, LEVEL_O1, &object);
    for (size_t n = 0; n < object.n; n += 7) {
        char *cut = memcpy(tsr_alloc(n + 1), object.s, n);      /* a block of its own: reading beyond it shows */
        Code *c = code_load(cut, n, &err);
        refused += !c;
        code_free(c);
        tsr_free(cut);
    }
    assert_true(refused > (int)object.n / 7 - 80);
    for (int round = 0; round < 30000; round++) {
        char *bad = memcpy(tsr_alloc(object.n), object.s, object.n);
        for (int k = (int)rnd_to(4); k >= 0; k--)
            bad[rnd_to((int64_t)object.n)] = (char)(rnd_to(3) ? rnd() : (uint64_t)-1);
        code_free(code_load(bad, object.n, &err));
        tsr_free(bad);
        sb_clear(&err);
    }
    sb_done(&object);
    sb_done(&err);
}

static void run_map(OpId op, const Machine *m, Level level)
{
    float in[64], want[64];
    char got[64 * 8];
    Llvm *u = map_unit(op, DT_f32, m, 8);
    Code *code;
    MapFn *f = (MapFn *)compiled(u, level, "f", &code);

    for (int i = 0; i < 64; i++)
        in[i] = (float)i / 7 - 3;
    loop_find(op, DT_f32)(64, want, in, in, in);
    f(64, got, in);
    for (int i = 0; i < 64; i += 8)
        assert_int_equal(first_difference(DT_f32, want + i, got + (size_t)i * 8, 8), -1);
    code_free(code);
    llvm_free(u);
}

static void other_machines_give_the_same_bits(void **state)
{
    static const char *const names[] = {"base", "v3", "v4"};

    for (int k = 0; k < 3; k++)
        for (Level level = LEVEL_O0; level <= LEVEL_O3 && cpu_find(names[k]); level++) {
            run_map(OP_exp, machine_find(names[k]), level);
            run_map(OP_erf, machine_find(names[k]), level);
            run_map(OP_floor, machine_find(names[k]), level);
            run_map(OP_digamma, machine_find(names[k]), level);
        }
}

static void *compile_many(void *st)
{
    static const OpId ops[] = {OP_exp, OP_tanh, OP_sin, OP_lgamma, OP_floor};

    for (int i = 0; i < 10; i++)
        run_map(ops[(i + (int)(intptr_t)st) % 5], machine_host(), i % 2 ? LEVEL_O1 : LEVEL_O0);
    return NULL;
}

static void threads_compile_at_once(void **state)
{
    pthread_t thread[4];

    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, compile_many, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

/* What a machine could not select would end this process. */
static void every_formula_is_code_for_every_machine(void **state)
{
    static const char *const names[] = {"base", "sm_80", "sm_90a"};

    for (int k = 0; k < 3; k++)
        for (int op = 0; op < OP_COUNT; op++)
            for (int as = 0; as < DT_COUNT; as++) {
                if (op_info[op].family != FAM_MAP || op == OP_convert || formula_way((OpId)op, (DType)as) != FORMULA_INLINE)
                    continue;
                Llvm *u = map_unit((OpId)op, (DType)as, machine_find(names[k]), k ? 1 : 4);
                StrBuf text = {0}, err = {0};
                if (!llvm_verify(u, &err) || !llvm_assembly(u, LEVEL_O1, &text, &err))
                    fail_msg("%s of %s on %s: %s", op_info[op].name, dtype_info[as].name, names[k], sb_str(&err));
                assert_non_null(strstr(sb_str(&text), k ? ".visible .func" : "f:"));
                llvm_free(u);
                sb_done(&text);
                sb_done(&err);
            }
}

/* Ops whose formula is called, not expanded: elementwise code of f32 and of the common integers is none of them but these. */
static void formulas_are_in_line(void **state)
{
    static const OpId called[] = {OP_erfinv, OP_lgamma, OP_digamma, OP_floordiv, OP_mod};
    int n = 0;

    for (int op = 0; op < OP_COUNT; op++)
        if (op_info[op].family == FAM_MAP && formula_way((OpId)op, DT_f32) == FORMULA_CALLED) {
            bool known = false;
            for (int k = 0; k < 5; k++)
                known |= called[k] == (OpId)op;
            if (!known)
                fail_msg("%s of f32 is called", op_info[op].name);
            n++;
        }
    assert_int_equal(n, 5);
    for (int op = 0; op < OP_COUNT; op++)
        if (op_info[op].family == FAM_MAP && op != OP_pow)
            assert_true(formula_way((OpId)op, DT_int32) != FORMULA_CALLED && formula_way((OpId)op, DT_int64) != FORMULA_CALLED);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "hash"))
        return printf("%llx\n", (unsigned long long)hash_of_objects()) < 0;

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_unit_gives_the_same_bytes), cmocka_unit_test(processes_make_the_same_bytes),
        cmocka_unit_test(broken_units_are_refused),
        cmocka_unit_test(unknown_symbols_are_refused),        cmocka_unit_test(damaged_objects_do_no_harm),
        cmocka_unit_test(other_machines_give_the_same_bits),  cmocka_unit_test(threads_compile_at_once),
        cmocka_unit_test(formulas_are_in_line),               cmocka_unit_test(every_formula_is_code_for_every_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
