/*
 * npy and npz: what is written reads back, damage is refused with a reason,
 * and no mutation of a valid file does more than that.
 */
#include "tensors.h"

#include "runtime/npz.h"

#include <stdlib.h>

static void put_npy(StrBuf *b, int version, const char *header, const void *data, size_t n)
{
    size_t len = strlen(header);

    sb_clear(b);
    sb_write(b, "\x93NUMPY", 6);
    sb_putc(b, (char)version);
    sb_putc(b, 0);
    for (int i = 0; i < (version == 1 ? 2 : 4); i++)
        sb_putc(b, (char)(len >> (8 * i)));
    sb_puts(b, header);
    sb_write(b, data, n);
}

static void every_dtype_reads_back(void **state)
{
    for (int dt = 0; dt < DT_COUNT; dt++) {
        int64_t shape[] = {3, 1 + rnd_to(4), 5};
        Tensor *x = random_view((DType)dt, 3, shape), *y;
        StrBuf file = {0}, err = {0};
        bool held_by_npy = dtype_info[dt].sbits >= 8 && dt != DT_bf16 && dt != DT_tf32 && dt != DT_fp8_e4m3 && dt != DT_fp8_e5m2;
        assert_int_equal(npy_write(x, &file, &err), held_by_npy);
        if (held_by_npy) {
            assert_true(npy_read(file.s, file.n, &y, &err));
            assert_true(tensor_same_bits(x, y));
            tensor_unref(y);
        }
        tensor_unref(x);
        sb_done(&file);
        sb_done(&err);
    }
}

static void orders_and_versions(void **state)
{
    static const uint8_t big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
    StrBuf b = {0}, err = {0};
    Tensor *t;

    for (int v = 1; v <= 3; v++) {
        put_npy(&b, v, "{'shape': (2, 3), 'fortran_order': False, 'descr': '>i2'}\n", big, 12);
        assert_true(npy_read(b.s, b.n, &t, &err));
        assert_text(t, "Tensor([[1, 2, 3], [4, 5, 6]], shape=(2, 3), dtype=int16)");
        tensor_unref(t);
    }
    put_npy(&b, 1, "{\"descr\": \">i2\", \"fortran_order\": True, \"shape\": (2, 3L,), }", big, 12);
    assert_true(npy_read(b.s, b.n, &t, &err));
    assert_text(t, "Tensor([[1, 3, 5], [2, 4, 6]], shape=(2, 3), dtype=int16)");
    tensor_unref(t);
    put_npy(&b, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}", "\7", 1);
    assert_true(npy_read(b.s, b.n, &t, &err));
    assert_text(t, "Tensor(True, shape=(), dtype=bool)");
    tensor_unref(t);
    sb_done(&b);
    sb_done(&err);
}

static void refuses(StrBuf *b, const char *why)
{
    StrBuf err = {0};
    Tensor *t;

    assert_false(npy_read(b->s, b->n, &t, &err));
    if (!strstr(sb_str(&err), why))
        fail_msg("said '%s', not '%s'", sb_str(&err), why);
    sb_done(&err);
}

static void damage_is_refused(void **state)
{
    static const struct { const char *header, *why; } bad[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "needs 12 bytes"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "objects"},
        {"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "records"},
        {"{'descr': '<ixy', 'fortran_order': False, 'shape': (1,)}", "'descr'"},
        {"{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}", "no counterpart"},
        {"{'descr': '<f99999999999', 'fortran_order': False, 'shape': (1,)}", "no counterpart"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "not a size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "not a size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9)}", "more elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "more elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (np.int64(1),)}", "not a size"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}", "neither True nor False"},
        {"{'descr': '<f4', 'shape': (1,)}", "lacks"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", "16 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "goes on"},
        {"", "not a dict"},
        {"{'descr': '<f4", "'descr'"},
    };
    StrBuf b = {0};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_npy(&b, 1, bad[i].header, "abcd", 4);
        refuses(&b, bad[i].why);
    }
    put_npy(&b, 2, "{}", "", 0);
    b.s[11] = (char)0xff;                           /* a header of 4 GiB in 14 bytes */
    refuses(&b, "longer than the file");
    b.n = 9;
    refuses(&b, "not an npy file");
    b.s[6] = 9, b.n = 14;
    refuses(&b, "version");
    sb_done(&b);
}

static Npz two_tensors(void)
{
    static NpzEntry e[2];

    e[0] = (NpzEntry){(char *)"weights/0", of_doubles(DT_f32, 3, (double[]){1, 2, 3})};
    e[1] = (NpzEntry){(char *)"ids", of_doubles(DT_int64, 2, (double[]){-1, 7})};
    return (Npz){e, 2, 2};
}

static void archives_read_back(void **state)
{
    Npz z = two_tensors(), r;
    StrBuf file = {0}, again = {0}, err = {0};

    assert_true(npz_write(z.at, z.n, &file, &err));
    assert_true(npz_write(z.at, z.n, &again, &err));
    assert_int_equal(file.n, again.n);
    assert_memory_equal(file.s, again.s, file.n);
    assert_true(npz_read(file.s, file.n, &r, &err));
    assert_int_equal(r.n, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(r.at[i].name, z.at[i].name);
        assert_true(tensor_same_bits(r.at[i].t, z.at[i].t));
        tensor_unref(z.at[i].t);
    }
    npz_free(&r);
    sb_done(&file);
    sb_done(&again);
    sb_done(&err);
}

/* Flip, cut, repeat and overwrite bytes of good files; ASan and the status are the judges. */
static void mutations_never_crash(void **state)
{
    Npz z = two_tensors(), r;
    StrBuf good[2] = {0}, err = {0};
    char *b;

    npy_write(z.at[0].t, &good[0], &err);
    npz_write(z.at, z.n, &good[1], &err);
    for (int round = 0; round < 20000; round++) {
        StrBuf *g = &good[round % 2];
        size_t n = g->n;
        Tensor *t;
        b = malloc(n);
        memcpy(b, g->s, n);
        for (int64_t k = 1 + rnd_to(4); k > 0; k--) {
            static const char nasty[] = {0, -1, 1, 127, -128, '(', ',', '\'', '9', '}'};
            size_t at = (size_t)rnd_to((int64_t)n);
            b[at] = rnd_to(2) ? nasty[rnd_to(10)] : (char)(b[at] ^ 1 << rnd_to(8));
        }
        if (rnd_to(4) == 0)
            n = (size_t)rnd_to((int64_t)n);
        char *exact = malloc(n ? n : 1);            /* so that reading past the end is seen */
        memcpy(exact, b, n);
        free(b);
        sb_clear(&err);
        if (round % 2 ? npz_read(exact, n, &r, &err) : npy_read(exact, n, &t, &err)) {
            if (round % 2)
                npz_free(&r);
            else
                tensor_unref(t);
        } else {
            assert_true(err.n > 0);
        }
        free(exact);
    }
    for (int i = 0; i < 2; i++) {
        tensor_unref(z.at[i].t);
        sb_done(&good[i]);
    }
    sb_done(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_reads_back),
        cmocka_unit_test(orders_and_versions),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(archives_read_back),
        cmocka_unit_test(mutations_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
