/*
 * watch.c - what a run tells about itself on standard error, when the command line asks for it.
 */
#include "frontend/tensor/watch.h"

#include "base/source.h"
#include "frontend/eval/eval.h"
#include "frontend/tensor/ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct StatRow { Sym function; int64_t n[STAT_COUNT]; const char *note; } StatRow;

struct Watch { Vec(StatRow) rows; };            /* in the order of their first count */

/* ------------------------------------------------------------- statistics */

static Sym function_name(Interp *I, Value f)
{
    Value name = value_getattr_opt(I, f, I->s_name);
    Sym s = name.tag == V_STR ? sym_n(as_str(name)->s, as_str(name)->len) : sym("function");

    value_unref(name);
    return s;
}

static StatRow *row_of(struct Watch *w, Sym function)
{
    for (int i = 0; i < w->rows.n; i++)
        if (w->rows.at[i].function == function)
            return &w->rows.at[i];
    vec_push(&w->rows, ((StatRow){.function = function}));
    return &w->rows.at[w->rows.n - 1];
}

void stats_add(Interp *I, Value f, StatKind kind, int64_t n)
{
    if (I->watch)
        row_of(I->watch, function_name(I, f))->n[kind] += n;
}

void stats_note(Interp *I, Value f, const char *what)
{
    if (I->watch)
        row_of(I->watch, function_name(I, f))->note = what;
}

static void stats_print(const struct Watch *w)
{
    static const char *const name[STAT_COUNT] = {
#define STAT(name, summary) #name,
#include "frontend/tensor/stats.def"
    };

    for (int i = 0; i < w->rows.n; i++) {
        fprintf(stderr, "stats: %s", w->rows.at[i].function->text);
        for (int k = 0; k < STAT_COUNT; k++)
            fprintf(stderr, " %s=%" PRId64, name[k], w->rows.at[i].n[k]);
        fprintf(stderr, "%s%s\n", w->rows.at[i].note ? " not-captured: " : "", w->rows.at[i].note ? w->rows.at[i].note : "");
    }
}

/* ------------------------------------------------------------- ops */

static void put_place(StrBuf *s, Span at)
{
    Place p = source_place(at.lo);

    if (p.src)
        sb_printf(s, "%s:%u ", p.src->path, p.line);
}

static void put_tensor(StrBuf *s, const Tensor *t)
{
    TType type = tensor_type(t);

    ttype_print(&type, s);
}

static void trace_shapes(const Trace *T, OpId op, Tensor *const *in, int nin, Tensor *const *out, int nout)
{
    StrBuf s = {0};

    put_place(&s, T->span);
    sb_puts(&s, op_info[op].name);
    for (int i = 0; i < nin; i++) {
        sb_putc(&s, ' ');
        put_tensor(&s, in[i]);
    }
    sb_puts(&s, " ->");
    for (int i = 0; i < nout; i++) {
        sb_putc(&s, ' ');
        put_tensor(&s, out[i]);
    }
    fprintf(stderr, "%s\n", sb_str(&s));
    sb_done(&s);
}

/* The key is two words; a random op's operand 0. */
static void trace_rng(const Trace *T, Tensor *const *in, Tensor *const *out)
{
    Tensor *key = tensor_contiguous(in[0]);
    StrBuf s = {0};

    if (!key)
        return;
    put_place(&s, T->span);
    sb_puts(&s, "random ");
    put_tensor(&s, out[0]);
    fprintf(stderr, "%s key %08" PRIx64 "%08" PRIx64 "\n", sb_str(&s), (uint64_t)elem_get_i(key, key->offset + 1),
            (uint64_t)elem_get_i(key, key->offset));
    sb_done(&s);
    tensor_unref(key);
}

static void watch_op(void *host, OpId op, Tensor *const *in, int nin, Tensor *const *out, int nout)
{
    Interp *I = host;

    interp_flush(I);                            /* lines stand among the program's own where they happened */
    if (I->opt.trace_shapes)
        trace_shapes(&I->trace, op, in, nin, out, nout);
    if (I->opt.trace_rng && op == OP_random)
        trace_rng(&I->trace, in, out);
}

/* The pass's values, one a line, and their sum. The place is where the value was made known to the backward pass. */
static void watch_saved(void *host, int n, Tensor *const *value, const Span *at)
{
    size_t total = 0;
    StrBuf s = {0};

    interp_flush(host);
    for (int i = 0; i < n; i++) {
        size_t bytes = dtype_nbytes((DType)value[i]->dtype, (size_t)tensor_size(value[i]));
        put_place(&s, at[i]);
        sb_puts(&s, "saved ");
        put_tensor(&s, value[i]);
        sb_printf(&s, " %zu bytes\n", bytes);
        total += bytes;
    }
    fprintf(stderr, "%smemory: the backward pass keeps %d value%s, %zu bytes\n", sb_str(&s), n, n == 1 ? "" : "s", total);
    sb_done(&s);
}

void watch_fold(Interp *I, int level, int64_t calls)
{
    if (!I->opt.trace_fold)
        return;
    interp_flush(I);
    fprintf(stderr, "fold: level %d: %" PRId64 " call%s\n", level, calls, calls == 1 ? "" : "s");
}

/* ------------------------------------------------------------- the beginning and the end */

void watch_begin(Interp *I)
{
    if (I->opt.trace_shapes || I->opt.trace_rng)
        I->trace.watch = watch_op;
    if (I->opt.trace_memory)
        I->trace.saved = watch_saved;
    ranges_begin(I);
    if (I->opt.profile)
        profile_begin(I);
    if (I->opt.stats)
        I->watch = tsr_calloc(sizeof *I->watch);
}

void watch_end(Interp *I)
{
    profile_end(I);
    ranges_end(I);
    if (!I->watch)
        return;
    stats_print(I->watch);
    vec_free(&I->watch->rows);
    tsr_free(I->watch);
    I->watch = NULL;
}
