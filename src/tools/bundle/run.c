/*
 * `tessera run BUNDLE [FUNCTION] [INPUT]...`: call a function of a bundle and
 * print its results.
 *
 * An input is an .npy file, a .json file, or JSON itself: numbers, true and
 * false, in lists of lists, which become a tensor of the parameter's dtype.
 */
#include "tools/bundle/build.h"

#include "base/json.h"
#include "base/vfs.h"
#include "bundle/bundle.h"
#include "ir/schedule/fused.h"
#include "runtime/kernels.h"
#include "tools/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_MAX = 1 << 30 };

/* ---- inputs ---- */

typedef struct Numbers { const Json *j; DType dtype; Tensor *t; int64_t at; StrBuf *err; } Numbers;

/* The shape of nested lists, along their first items. */
static int shape_of(const Json *j, Dim *shape)
{
    int rank = 0;

    for (int i = 0; json_kind(j, i) == JSON_ARRAY && rank < RANK_MAX; i++) {
        shape[rank++] = json_count(j, i);
        if (!json_count(j, i))
            break;
    }
    return rank;
}

static bool put_number(Numbers *n, int i)
{
    char *text = json_string(n->j, i), *end;
    bool truth = !strcmp(text, "true") || !strcmp(text, "false"), ok = json_kind(n->j, i) == JSON_OTHER && strcmp(text, "null");

    errno = 0;
    if (truth)
        elem_set_i(n->t, n->at++, *text == 't');
    else if (dtype_is_inexact(n->dtype))
        elem_set_f(n->t, n->at++, strtod(text, &end));
    else
        elem_set_i(n->t, n->at++, strtoll(text, &end, 10));
    ok = ok && (truth || !*end);
    if (!ok)
        sb_printf(n->err, "'%.40s' is no %s", text, dtype_info[n->dtype].name);
    tsr_free(text);
    return ok;
}

/* Token i as part `axis` of the tensor; *next is the token behind it. */
static bool put_part(Numbers *n, int i, int axis, int *next)
{
    *next = i + 1;
    if (axis == n->t->rank)
        return put_number(n, i);
    if (json_kind(n->j, i) != JSON_ARRAY || json_count(n->j, i) != n->t->shape[axis]) {
        sb_puts(n->err, "its lists have different lengths");
        return false;
    }
    for (int k = 0; k < json_count(n->j, i); k++)
        if (!put_part(n, *next, axis + 1, next))
            return false;
    return true;
}

static Tensor *from_json(const char *text, size_t n, DType dtype, StrBuf *err)
{
    Dim shape[RANK_MAX];
    Numbers to = {.dtype = dtype, .err = err};
    Json j;
    int next;
    bool ok = json_read(text, n, &j);

    to.j = &j;
    if (!ok)
        sb_puts(err, "it is no JSON, and no .npy or .json file");
    else if (!(to.t = tensor_zeros(dtype, shape_of(&j, shape), shape)))
        ok = (sb_puts(err, "not enough memory"), false);
    ok = ok && put_part(&to, 0, 0, &next);
    json_done(&j);
    if (!ok) {
        tensor_unref(to.t);
        return NULL;
    }
    return to.t;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n > m && !strcmp(s + n - m, end);
}

static Tensor *read_input(const char *text, DType dtype, StrBuf *err)
{
    bool npy = ends_in(text, ".npy");
    Tensor *t = NULL;
    char *data;
    size_t n;
    int failed;

    if (!npy && !ends_in(text, ".json"))
        return from_json(text, strlen(text), dtype, err);
    if ((failed = vfs_read_file(text, INPUT_MAX, &data, &n))) {
        sb_puts(err, strerror(failed));
        return NULL;
    }
    if (npy)
        npy_read(data, n, &t, err);
    else
        t = from_json(data, n, dtype, err);
    tsr_free(data);
    return t;
}

tsr_array build_array(const Tensor *t)
{
    tsr_array a = tsr_rows((tsr_dtype)t->dtype, tensor_data(t), t->rank, t->shape);

    for (int i = 0; i < t->rank; i++)
        a.stride[i] = t->stride[i];
    return a;
}

/* ---- which function ---- */

static struct tsr_function *find(struct tsr_bundle *b, const char *name)
{
    for (int i = 0; i < b->function.n; i++)
        if (!strcmp(b->function.at[i].name, name))
            return &b->function.at[i];
    return NULL;
}

/* The one that is named, else main, else the only one. *used: the name was an operand. */
static struct tsr_function *choose(struct tsr_bundle *b, const char *name, bool *used, StrBuf *err)
{
    struct tsr_function *f = name ? find(b, name) : NULL;

    *used = f != NULL;
    if (!f && !(f = find(b, "main")) && b->function.n == 1)
        f = &b->function.at[0];
    if (f)
        return f;
    sb_printf(err, name ? "the bundle %s has no function '%s'; it has" : "which function of the bundle %s? It has", b->name, name);
    for (int i = 0; i < b->function.n; i++)
        sb_printf(err, "%s %s", i ? "," : "", b->function.at[i].name);
    return NULL;
}

/* ---- the call ---- */

static void print_results(const tsr_array *out, int n)
{
    for (int i = 0; i < n; i++) {
        StrBuf text = {0};
        tensor_print(out[i].owner, &text);
        printf("%s\n", sb_str(&text));
        sb_done(&text);
    }
}

static int call(struct tsr_function *f, char **text, int n, StrBuf *err)
{
    const Form *first = &f->form.at[0];
    Tensor **t = tsr_calloc(sizeof *t * (size_t)(n + 1));
    tsr_array *in = tsr_calloc(sizeof *in * (size_t)(n + f->noutputs + 1)), *out = in + n;
    int bad = n == f->input.n ? 0 : EXIT_USAGE;

    if (bad)
        sb_printf(err, "%s takes %d inputs, %d are given: %s", f->name, f->input.n, n, f->signature);
    for (int i = 0; i < n && !bad; i++) {
        StrBuf why = {0};
        t[i] = read_input(text[i], (DType)first->graph->params.at[first->ncaptures + 1 + i]->type[0].dtype, &why);
        if (t[i])
            in[i] = build_array(t[i]);
        else {
            sb_printf(err, "input %s (%.60s): %s", f->input.at[i], text[i], sb_str(&why));
            bad = EXIT_MISTAKE;
        }
        sb_done(&why);
    }
    if (!bad) {
        StrBuf why = {0};
        int status = bundle_call(f, in, n, out, f->noutputs, &why);
        if (status) {
            sb_printf(err, "B%02d: %s", status, sb_str(&why));
            bad = EXIT_MISTAKE;
        } else
            print_results(out, f->noutputs);
        sb_done(&why);
    }
    for (int i = 0; i < f->noutputs; i++)
        tensor_unref(out[i].owner);
    for (int i = 0; i < n; i++)
        tensor_unref(t[i]);
    tsr_free(t);
    tsr_free(in);
    return bad;
}

/* Kernels are never made here: those that the bundle lacks are run op by op. */
static void print_stats(void)
{
    FusedStats f = fused_stats();

    fprintf(stderr, "stats: kernels made=0 launches=%d op-by-op=%d\n", f.launches, f.fallbacks);
}

int bundle_run_verb(const Options *o)
{
    BundleFiles files = bundle_folder(o->operand[0]);
    struct tsr_bundle *b;
    struct tsr_function *f;
    StrBuf err = {0}, why = {0};
    bool named;
    int bad = bundle_read(&files, &b, &why);

    if (bad) {
        sb_printf(&err, "%s: B%02d: %s", o->operand[0], bad, sb_str(&why));
        sb_done(&why);
        return complain(&err, EXIT_MISTAKE);
    }
    b->T.host_print = bundle_print;
    b->T.host_launch = bundle_launch;
    pool_init((int)o->number[OPT_threads]);
    if (o->value[OPT_device] && (bad = bundle_use_device(b, &files, o->value[OPT_device], &why))) {
        sb_printf(&err, "%s: B%02d: %s", o->operand[0], bad, sb_str(&why));
        sb_done(&why);
        bundle_free(b);
        return complain(&err, EXIT_MISTAKE);
    }
    f = choose(b, o->noperands > 1 ? o->operand[1] : NULL, &named, &err);
    bad = f ? call(f, o->operand + 1 + named, o->noperands - 1 - named, &err) : EXIT_USAGE;
    if (option_on(o, OPT_stats))
        print_stats();
    bundle_free(b);
    return bad ? complain(&err, bad) : EXIT_OK;
}
