/*
 * Dictionaries against a plain model, and the collector on cycles of every kind.
 */
#include "unit.h"

#include "frontend/eval/eval.h"

#include <stdlib.h>

static Interp *I;

static int setup(void **state)
{
    (void)state;
    I = interp_new(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    interp_free(I);
    return 0;
}

enum { KEYS = 400, STEPS = 60000 };

/* Insert, replace and delete at random; the dict agrees with an array after each step. */
static void dict_follows_model(void **state)
{
    int64_t model[KEYS];
    Value d = dict_new();
    int live = 0;

    (void)state;
    for (int i = 0; i < KEYS; i++)
        model[i] = -1;
    srand(7);
    for (int step = 0; step < STEPS; step++) {
        int k = rand() % KEYS;
        if (rand() % 3) {
            live += model[k] < 0;
            model[k] = step;
            assert_true(dict_set(I, as_dict(d), vint(k), vint(step)));
        } else {
            assert_int_equal(dict_del(I, as_dict(d), vint(k)), model[k] >= 0);
            live -= model[k] >= 0;
            model[k] = -1;
        }
        assert_int_equal(as_dict(d)->n, live);
        k = rand() % KEYS;
        Value v = dict_get(I, as_dict(d), vint(k));
        assert_int_equal(is_err(v) ? -1 : v.i, model[k]);
    }
    value_unref(d);
}

/* A stack of keys on a dict: marks of deleted keys must not fill the index. */
static void dict_survives_churn(void **state)
{
    Value d = dict_new();

    (void)state;
    for (int i = 0; i < 20; i++)
        dict_set(I, as_dict(d), vint(i), vint(i));
    for (int i = 100; i < 100000; i++) {
        dict_set(I, as_dict(d), vint(i), VNONE);
        assert_int_equal(dict_del(I, as_dict(d), vint(i)), 1);
    }
    assert_int_equal(as_dict(d)->n, 20);
    value_unref(d);
}

static void dict_keeps_order(void **state)
{
    Value d = dict_new(), k, v;
    int64_t pos = 0, want = 1;

    (void)state;
    for (int i = 0; i < 100; i++)
        dict_set(I, as_dict(d), vint(i), vint(i));
    for (int i = 0; i < 100; i += 2)
        dict_del(I, as_dict(d), vint(i));
    while (dict_next(as_dict(d), &pos, &k, &v)) {
        assert_int_equal(k.i, want);
        want += 2;
    }
    assert_int_equal(want, 101);
    value_unref(d);
}

/* 1, 1.0 and True are one key. */
static void equal_keys_are_one(void **state)
{
    Value d = dict_new();

    (void)state;
    dict_set(I, as_dict(d), vint(1), vint(10));
    dict_set(I, as_dict(d), vfloat(1.0), vint(20));
    dict_set(I, as_dict(d), vbool(true), vint(30));
    assert_int_equal(as_dict(d)->n, 1);
    assert_int_equal(dict_get(I, as_dict(d), vint(1)).i, 30);
    value_unref(d);
}

static void collector_frees_cycles(void **state)
{
    (void)state;
    heap_collect();
    for (int i = 0; i < 100; i++) {
        Value l = list_new(0), d = dict_new(), t = tuple_of(1, value_ref(l)), o = instance_new(I->object_class);
        dict_set(I, as_dict(d), vint(1), t);
        list_push(as_list(l), d);                   /* list -> dict -> tuple -> list */
        value_unref(t);
        value_unref(l);
        value_setattr(I, o, sym("me"), o);
        value_unref(o);
    }
    assert_int_equal(heap_collect(), 100 * 5);      /* list, dict, tuple; the object and its attributes */
    assert_int_equal(heap_collect(), 0);
}

static void collector_keeps_what_is_held(void **state)
{
    Value outer = list_new(0), inner = list_new(0);

    (void)state;
    list_push(as_list(inner), value_ref(outer));
    list_push(as_list(inner), vint(42));
    list_push(as_list(outer), inner);
    heap_collect();
    assert_int_equal(as_list(outer)->n, 1);
    assert_int_equal(as_list(as_list(outer)->at[0])->at[1].i, 42);
    value_unref(outer);
    assert_int_equal(heap_collect(), 2);
}

/* A million links deep, and freed without using the stack for it. */
static void long_chains_are_freed(void **state)
{
    Value chain = VNONE;

    (void)state;
    for (int i = 0; i < 1000000; i++) {
        Value l = list_new(1);
        list_push(as_list(l), chain);
        chain = l;
    }
    value_unref(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dict_follows_model),
        cmocka_unit_test(dict_survives_churn),
        cmocka_unit_test(dict_keeps_order),
        cmocka_unit_test(equal_keys_are_one),
        cmocka_unit_test(collector_frees_cycles),
        cmocka_unit_test(collector_keeps_what_is_held),
        cmocka_unit_test(long_chains_are_freed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
