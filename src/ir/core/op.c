/*
 * The op table as data, and what can be said about an op's attributes without
 * knowing the op: equality and printing.  Attributes print as the fields that
 * differ from the default, in a fixed order, so that printing and parsing of
 * graphs need no column of their own.  Typing is in infer.c and shape_*.c.
 */
#include "ir/core/op.h"

#include "base/words.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define ADJOINT(rule, text) static const char adjoint_##rule[] = text;
#include "ir/core/adjoint.def"

const OpInfo op_info[OP_COUNT] = {
#define OP(name, nin, nout, fam, shape, dtype, flags, attrs, jvp, transpose, batch, doc) \
    [OP_##name] = {#name, doc, attrs, #dtype, nin, nout, FAM_##fam, flags, #jvp, #transpose, #batch, #shape, \
                   adjoint_##transpose},
#include "ir/core/ops.def"
};

const OpEffect op_effect[EFFECT_COUNT] = {
    {"io", OPF_IO, true}, {"state", OPF_STATE, true}, {"collective", OPF_COLLECTIVE, true}, {"raise", OPF_RAISE, true},
    {"random", OPF_RANDOM, false},          /* draws have keys, so their order does not matter */
    {"memory", OPF_MEMORY, false},
};

unsigned op_effects(OpId op)
{
    unsigned flags = op_info[op].flags & (OPF_IO | OPF_STATE | OPF_COLLECTIVE | OPF_RAISE | OPF_RANDOM | OPF_MEMORY);

    return op_info[op].nout ? flags & ~(unsigned)OPF_RAISE : flags;
}

static Word op_word[1024];
static Words op_words = {op_word, 1024, 0};
static pthread_once_t op_words_made = PTHREAD_ONCE_INIT;

static void make_op_words(void)
{
    for (int i = 0; i < OP_COUNT; i++)
        words_add(&op_words, op_info[i].name, strlen(op_info[i].name), i);
}

bool op_find(const char *name, OpId *out)
{
    int i;

    pthread_once(&op_words_made, make_op_words);
    i = words_find(&op_words, name);
    if (i >= 0)
        *out = (OpId)i;
    return i >= 0;
}

const Attr attr_none = {.dtype = DT_NONE, .accum = DT_NONE, .compute = DT_NONE};

Attr attr_default(void)
{
    return attr_none;
}

Attr attr_iota(DType dt, int rank, const Dim *shape, int axis)
{
    Attr a = attr_none;

    a.dtype = (uint8_t)dt;
    a.naxes = 1;
    a.axis[0] = (int8_t)axis;
    a.nd[0] = (uint8_t)rank;
    memcpy(a.d[0], shape, sizeof *shape * (size_t)rank);
    return a;
}

static bool dims_equal(const Attr *a, const Attr *b)
{
    for (int k = 0; k < 4; k++)
        if (a->nd[k] != b->nd[k] || memcmp(a->d[k], b->d[k], a->nd[k] * sizeof(Dim)))
            return false;
    return true;
}

bool attr_equal(const Attr *a, const Attr *b)
{
    return a->dtype == b->dtype && a->accum == b->accum && a->compute == b->compute && a->policy == b->policy &&
           a->rounding == b->rounding && a->saturate == b->saturate &&
           a->flush == b->flush && a->fast == b->fast && a->kind == b->kind && a->naxes == b->naxes && !memcmp(a->axis, b->axis, a->naxes) &&
           a->n == b->n && a->m == b->m && !memcmp(&a->f, &b->f, sizeof a->f) && a->i == b->i && a->seed == b->seed &&
           dims_equal(a, b) && !memcmp(a->region, b->region, sizeof a->region) && a->value == b->value &&
           a->name == b->name && a->host == b->host;
}

static void print_int(StrBuf *out, const char *key, int64_t v)
{
    if (v)
        sb_printf(out, "%s%s=%lld", out->n ? " " : "", key, (long long)v);
}

static void print_dims(StrBuf *out, int k, const Attr *a)
{
    if (!a->nd[k])
        return;
    sb_printf(out, "%sd%d=[", out->n ? " " : "", k);
    for (int i = 0; i < a->nd[k]; i++) {
        sb_puts(out, i ? ", " : "");
        dim_print(a->d[k][i], out);
    }
    sb_putc(out, ']');
}

static void print_axes(StrBuf *out, const Attr *a)
{
    if (!a->naxes)
        return;
    sb_printf(out, "%saxes=(", out->n ? " " : "");
    for (int i = 0; i < a->naxes; i++)
        sb_printf(out, "%s%d", i ? ", " : "", a->axis[i]);
    sb_putc(out, ')');
}

void policy_print(const Policy *q, StrBuf *out)
{
    const struct { const char *name; uint8_t dt; } dtypes[] = {{"storage", q->storage}, {"compute", q->compute}, {"accum", q->accum}};

    sb_puts(out, "policy(");
    for (int i = 0; i < 3; i++)
        sb_printf(out, "%s=%s, ", dtypes[i].name, dtypes[i].dt == DT_NONE ? "none" : dtype_info[dtypes[i].dt].name);
    sb_printf(out, "rounding=%s, saturate=%d, flush=%d", q->rounding == DT_NONE ? "none" : rounding_name((Rounding)q->rounding),
              q->saturate, q->denorm == DENORM_FLUSH);
    if (q->master)
        sb_puts(out, ", master=1");
    if (q->has_scale)
        sb_printf(out, ", scale=%.17g", q->scale);
    sb_putc(out, ')');
}

void attr_print(OpId op, const Attr *a, StrBuf *out)
{
    StrBuf b = {0};

    if (a->dtype != DT_NONE)
        sb_printf(&b, "dtype=%s", dtype_info[a->dtype].name);
    if (a->accum != DT_NONE)
        sb_printf(&b, "%saccum=%s", b.n ? " " : "", dtype_info[a->accum].name);
    if (a->compute != DT_NONE)
        sb_printf(&b, "%scompute=%s", b.n ? " " : "", dtype_info[a->compute].name);
    if (a->rounding)
        sb_printf(&b, "%srounding=%s", b.n ? " " : "", rounding_name((Rounding)a->rounding));
    print_int(&b, "saturate", a->saturate);
    print_int(&b, "flush", a->flush);
    print_int(&b, "fast", a->fast);
    print_int(&b, "kind", a->kind);
    print_axes(&b, a);
    print_int(&b, "n", a->n);
    print_int(&b, "m", a->m);
    if (a->f != 0 || signbit(a->f))
        sb_printf(&b, "%sf=%.17g", b.n ? " " : "", a->f);
    print_int(&b, "i", a->i);
    print_int(&b, "seed", a->seed);
    for (int k = 0; k < 4; k++)
        print_dims(&b, k, a);
    if (a->policy) {
        sb_puts(&b, b.n ? " " : "");
        policy_print(a->policy, &b);
    }
    if (a->name) {
        sb_printf(&b, "%sname=", b.n ? " " : "");
        sb_put_json(&b, a->name->text, a->name->len);
    }
    if (op == OP_constant && !a->value)
        sb_puts(&b, "value=none");
    sb_write(out, sb_str(&b), b.n);
    sb_done(&b);
}

void ttype_print(const TType *t, StrBuf *out)
{
    sb_printf(out, "%s[", dtype_info[t->dtype].name);
    for (int i = 0; i < t->rank; i++) {
        sb_puts(out, i ? ", " : "");
        dim_print(t->shape[i], out);
    }
    sb_putc(out, ']');
}
