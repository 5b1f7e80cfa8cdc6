/*
 * A bundle from its files.
 *
 * The manifest comes first: its last member is the hash of all bytes before
 * it.  What it lists is read at most once, compared by size and hash, and only
 * then looked into.  The parts that are executed, kernels, are loaded last.
 */
#include "bundle/bundle.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/vfs.h"
#include "ir/tile/tile.h"
#include "runtime/cpu.h"
#include "runtime/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_MAX = 64 << 20, INPUTS_MAX = 4096 };
static const char seal[] = "\"manifest_sha256\": \"";

typedef struct Reading {
    const BundleFiles *files;
    struct tsr_bundle *b;
    StrBuf text;                /* the manifest */
    Json j;
    char *arch;                 /* whose variants are read; NULL: there are none */
    StrBuf *err;
    int status;
    bool checked;               /* built with --debug */
} Reading;

static bool fail(Reading *r, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fail(Reading *r, int status, const char *fmt, ...)
{
    va_list ap;

    if (r->status)
        return false;
    r->status = status;
    va_start(ap, fmt);
    sb_vprintf(r->err, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- keys and seals ---- */

void bundle_key_text(Hash128 key, char text[static KEY_DIGITS + 1])
{
    snprintf(text, KEY_DIGITS + 1, "%016llx%016llx", (unsigned long long)key.hi, (unsigned long long)key.lo);
}

bool bundle_key_read(const char *s, Hash128 *out)
{
    char half[KEY_DIGITS / 2 + 1] = {0};

    if (strlen(s) != KEY_DIGITS || strspn(s, "0123456789abcdef") != KEY_DIGITS)
        return false;
    memcpy(half, s, KEY_DIGITS / 2);
    out->hi = strtoull(half, NULL, 16);
    out->lo = strtoull(s + KEY_DIGITS / 2, NULL, 16);
    return true;
}

void bundle_seal(StrBuf *text)
{
    char hash[SHA256_TEXT];

    sha256_text(text->s, text->n, hash);
    sb_printf(text, "%s%s\"\n}\n", seal, hash);
}

/* The manifest's end is the hash of what is before it. */
static bool is_sealed(const StrBuf *text)
{
    size_t tail = sizeof seal - 1 + SHA256_TEXT - 1 + sizeof "\"\n}\n" - 1;
    StrBuf again = {0};
    bool same;

    if (text->n < tail)
        return false;
    sb_write(&again, text->s, text->n - tail);
    bundle_seal(&again);
    same = again.n == text->n && !memcmp(again.s, text->s, text->n);
    sb_done(&again);
    return same;
}

/* ---- files ---- */

static int folder_read(void *st, const char *path, size_t max, StrBuf *out)
{
    StrBuf whole = {0};
    char *data;
    size_t n;
    int failed;

    sb_printf(&whole, "%s/%s", (const char *)st, path);
    failed = vfs_read_file(sb_str(&whole), max, &data, &n);
    sb_done(&whole);
    if (failed)
        return failed;
    sb_write(out, data, n);
    tsr_free(data);
    return 0;
}

BundleFiles bundle_folder(const char *path) { return (BundleFiles){folder_read, (void *)(uintptr_t)path}; }

/* Within the bundle, and nowhere else. */
static bool is_plain_path(const char *path)
{
    return *path && *path != '/' && !strstr(path, "..") && strlen(path) < 512;
}

/* The row of the manifest's files that names this one; -1: none. */
static int find_file(const Reading *r, const char *path)
{
    int list = json_get(&r->j, 0, "files");

    for (int k = 0, i = list + 1; k < json_count(&r->j, list); k++, i = json_next(&r->j, i))
        if (json_is(&r->j, json_get(&r->j, i, "path"), path))
            return i;
    return -1;
}

static bool read_file(Reading *r, const char *path, StrBuf *out)
{
    int row = find_file(r, path), failed;
    char hash[SHA256_TEXT];
    uint64_t size;

    if (row < 0 || !is_plain_path(path) || !json_size(&r->j, json_get(&r->j, row, "bytes"), &size) || size > BUNDLE_FILE_MAX)
        return fail(r, TSR_MANIFEST, "%s: the manifest does not describe %s", BUNDLE_MANIFEST, path);
    if ((failed = r->files->read(r->files->st, path, BUNDLE_FILE_MAX, out)))
        return fail(r, TSR_FILE, "%s: %s", path, strerror(failed));
    if (out->n != size)
        return fail(r, TSR_HASH, "%s: %s: it has %zu bytes, %llu were built", path, "hash mismatch", out->n, (unsigned long long)size);
    sha256_text(sb_str(out), out->n, hash);
    return json_is(&r->j, json_get(&r->j, row, "sha256"), hash) || fail(r, TSR_HASH, "%s: hash mismatch: it was changed or damaged", path);
}

int bundle_file(const BundleFiles *files, const Json *manifest, const char *path, StrBuf *out, StrBuf *err)
{
    Reading r = {.files = files, .j = *manifest, .err = err};

    read_file(&r, path, out);
    return r.status;
}

/* ---- the manifest ---- */

static bool malformed(Reading *r, const char *what) { return fail(r, TSR_MANIFEST, "%s: %s", BUNDLE_MANIFEST, what); }

static char *member_text(Reading *r, int object, const char *key)
{
    int i = json_get(&r->j, object, key);

    if (json_kind(&r->j, i) == JSON_STRING)
        return json_string(&r->j, i);
    malformed(r, "a text is missing");
    return NULL;
}

static bool read_manifest(Reading *r)
{
    int failed = r->files->read(r->files->st, BUNDLE_MANIFEST, MANIFEST_MAX, &r->text);
    uint64_t format;

    if (failed)
        return fail(r, TSR_FILE, "%s: %s", BUNDLE_MANIFEST, strerror(failed));
    if (!json_read(sb_str(&r->text), r->text.n, &r->j) || json_kind(&r->j, 0) != JSON_OBJECT)
        return malformed(r, "it is no JSON object: damaged, cut off, or not made by tessera build");
    if (!json_size(&r->j, json_get(&r->j, 0, "tessera_bundle"), &format))
        return malformed(r, "it does not say that it is a bundle's");
    if (format != BUNDLE_FORMAT)
        return fail(r, TSR_VERSION, "the bundle has format %llu, and format %d is understood here: build it again, or use the library that is in it",
                    (unsigned long long)format, BUNDLE_FORMAT);
    if (!is_sealed(&r->text))
        return fail(r, TSR_HASH, "%s: hash mismatch: it was changed or damaged", BUNDLE_MANIFEST);
    return true;
}

int bundle_manifest(const BundleFiles *files, StrBuf *text, Json *j, StrBuf *err)
{
    Reading r = {.files = files, .err = err};

    read_manifest(&r);
    *text = r.text;
    *j = r.j;
    return r.status;
}

/* Is code for "base", "v3" or "v4" also for this machine? */
static bool bundle_cpu_fits(const char *name)
{
    return cpu_find(name) != NULL;
}

/* The best of the CPUs that the bundle is for. */
static bool choose_cpu(Reading *r)
{
    static const char *const best[] = {"v4", "v3", "base"};
    int target = json_get(&r->j, 0, "target"), list = json_get(&r->j, target, "cpu");

    if (!json_is(&r->j, json_get(&r->j, target, "arch"), "x86_64"))
        return fail(r, TSR_CPU, "the bundle's code is for another kind of machine than x86_64");
    for (size_t c = 0; c < sizeof best / sizeof *best; c++)
        for (int k = 0, i = list + 1; k < json_count(&r->j, list); k++, i = json_next(&r->j, i))
            if (json_is(&r->j, i, best[c]) && bundle_cpu_fits(best[c])) {
                r->b->cpu = json_string(&r->j, i);
                return true;
            }
    StrBuf all = {0};
    for (int k = 0, i = list + 1; k < json_count(&r->j, list); k++, i = json_next(&r->j, i)) {
        char *one = json_string(&r->j, i);
        sb_printf(&all, "%s%.20s", k ? ", " : "", one);
        tsr_free(one);
    }
    fail(r, TSR_CPU, "the bundle's code is for CPUs with %s, this one has %s: build it with --target=%s", sb_str(&all), cpu()->name, cpu()->name);
    sb_done(&all);
    return false;
}

static bool read_random(Reading *r)
{
    int random = json_get(&r->j, 0, "random");
    char *seed = member_text(r, random, "seed"), *end;

    if (!seed)
        return false;
    r->b->seed = strtoull(seed, &end, 16);
    bool ok = *seed && !*end && json_size(&r->j, json_get(&r->j, random, "draws"), &r->b->draws);
    tsr_free(seed);
    return ok || malformed(r, "the state of random numbers is damaged");
}

/* ---- weights ---- */

int bundle_find_weight(const struct tsr_bundle *b, const char *name)
{
    for (int i = 0; i < b->weight.n; i++)
        if (!strcmp(b->weight.at[i].name, name))
            return i;
    return -1;
}

static bool read_weights(Reading *r)
{
    StrBuf file = {0}, why = {0};
    SafeTensors all = {0};
    bool ok = find_file(r, BUNDLE_WEIGHTS) < 0 || (read_file(r, BUNDLE_WEIGHTS, &file) &&
              (safetensors_read(sb_str(&file), file.n, &all, &why) || fail(r, TSR_WEIGHTS, "%s: %s", BUNDLE_WEIGHTS, sb_str(&why))));

    for (int i = 0; ok && i < all.tensors.n; i++) {
        NamedTensor *n = &all.tensors.at[i];
        vec_push(&r->b->weight, ((Weight){n->name, tensor_ref(n->t), tensor_ref(n->t)}));
        n->name = NULL;
    }
    safetensors_done(&all);
    sb_done(&file);
    sb_done(&why);
    return ok;
}

/* A list of names of weights as their places. */
static bool read_places(Reading *r, int list, int **out, int *n)
{
    *n = json_count(&r->j, list);
    *out = tsr_calloc(sizeof **out * (size_t)(*n + 1));
    if (json_kind(&r->j, list) != JSON_ARRAY)
        return malformed(r, "a list of weights is missing");
    for (int k = 0, i = list + 1; k < *n; k++, i = json_next(&r->j, i)) {
        char *name = json_string(&r->j, i);
        (*out)[k] = bundle_find_weight(r->b, name);
        if ((*out)[k] < 0)
            fail(r, TSR_WEIGHTS, "%s: there is no '%.100s'", BUNDLE_WEIGHTS, name);
        tsr_free(name);
    }
    return !r->status;
}

/* ---- functions ---- */

static bool suits(const TType *want, const Tensor *t)
{
    bool same = want->dtype == t->dtype && want->rank == t->rank;

    for (int i = 0; same && i < want->rank; i++)
        same = want->shape[i] == t->shape[i];
    return same;
}

/* Do parameters and results have the numbers and types that the lists of weights ask for? */
static bool form_agrees(Reading *r, const struct tsr_function *f, const Form *m)
{
    const Graph *g = m->graph;
    bool ok = g->params.n == m->ncaptures + 1 + f->input.n && g->results.n == f->noutputs + m->nstores;

    for (int i = 0; ok && i < m->ncaptures; i++)
        ok = suits(&g->params.at[i]->type[0], r->b->weight.at[m->capture[i]].t);
    ok = ok && g->params.at[m->ncaptures]->type[0].dtype == DT_uint32 && g->params.at[m->ncaptures]->type[0].rank == 1;
    for (int i = 0; ok && i < f->input.n; i++) {
        const TType *y = &g->params.at[m->ncaptures + 1 + i]->type[0];
        const TType *first = &f->form.at[0].graph->params.at[f->form.at[0].ncaptures + 1 + i]->type[0];
        ok = y->dtype == first->dtype && y->rank == first->rank;
    }
    for (int i = 0; ok && i < m->nstores; i++)
        ok = suits(gvalue_type(g->results.at[f->noutputs + i]), r->b->weight.at[m->store[i]].t);
    return ok || fail(r, TSR_GRAPH, "the graph of %s does not agree with the manifest", f->name);
}

/* Weights keep the marks that the graph's parameters have: they are not part of the file. */
static void mark_captures(Reading *r, const Form *m)
{
    for (int i = 0; i < m->ncaptures; i++) {
        const TType *y = &m->graph->params.at[i]->type[0];
        Weight *w = &r->b->weight.at[m->capture[i]];
        w->t->weak = y->weak;
        w->t->policy = y->policy;
    }
}

static bool read_graph(Reading *r, const char *path, Graph **out)
{
    StrBuf text = {0}, why = {0};
    bool ok = read_file(r, path, &text);

    if (ok && !(*out = graph_parse(sb_str(&text), text.n, &why)))
        ok = fail(r, TSR_GRAPH, "%s: %s", path, sb_str(&why));
    sb_done(&text);
    sb_done(&why);
    return ok;
}

static bool read_form(Reading *r, int object, struct tsr_function *f)
{
    Form m = {.random = json_true(&r->j, json_get(&r->j, object, "random"))};
    char *path = member_text(r, object, "graph");
    bool ok = path && read_places(r, json_get(&r->j, object, "captures"), &m.capture, &m.ncaptures) &&
              read_places(r, json_get(&r->j, object, "stores"), &m.store, &m.nstores) && read_graph(r, path, &m.graph);

    tsr_free(path);
    vec_push(&f->form, m);
    if (!ok || !form_agrees(r, f, &f->form.at[f->form.n - 1]))
        return false;
    mark_captures(r, &m);
    return true;
}

/* The architecture whose variants run here: that of the device that TESSERA_FAKE_DEVICE names, else the first; NULL: there are none. */
static char *choose_arch(Reading *r)
{
    int list = json_get(&r->j, 0, "variants"), best = list + 1;
    const char *here = getenv("TESSERA_FAKE_DEVICE");

    if (!json_count(&r->j, list))
        return NULL;
    for (int k = 0, i = list + 1; k < json_count(&r->j, list); k++, i = json_next(&r->j, i)) {
        char *device = member_text(r, i, "device");
        if (here && device && strstr(here, device))
            best = i;
        tsr_free(device);
    }
    return member_text(r, best, "arch");
}

/* Is the form for any device, or for this one? */
static bool form_is_here(Reading *r, int object)
{
    int arch = json_get(&r->j, object, "arch");

    return arch < 0 || (r->arch && json_is(&r->j, arch, r->arch));
}

static bool read_function(Reading *r, int object)
{
    struct tsr_function f = {.bundle = r->b};
    int inputs = json_get(&r->j, object, "parameters"), forms = json_get(&r->j, object, "forms");
    int at = r->b->function.n;

    f.name = member_text(r, object, "name");
    f.signature = member_text(r, object, "signature");
    f.noutputs = json_count(&r->j, json_get(&r->j, object, "results"));
    for (int k = 0, i = inputs + 1; k < json_count(&r->j, inputs) && k < INPUTS_MAX; k++, i = json_next(&r->j, i))
        vec_push(&f.input, json_string(&r->j, json_get(&r->j, i, "name")));
    vec_push(&r->b->function, f);
    if (r->status || f.input.n != json_count(&r->j, inputs) || !json_count(&r->j, forms))
        return malformed(r, "a function lacks its name, parameters or forms");
    if (at && strcmp(r->b->function.at[at - 1].name, f.name) >= 0)
        return malformed(r, "functions are not in the order of their names");
    for (int k = 0, i = forms + 1; k < json_count(&r->j, forms); k++, i = json_next(&r->j, i))
        if (form_is_here(r, i) && !read_form(r, i, &r->b->function.at[at]))
            return false;
    return r->b->function.at[at].form.n || malformed(r, "a function has no form for this device");
}

static bool read_functions(Reading *r)
{
    int list = json_get(&r->j, 0, "functions");

    r->arch = choose_arch(r);
    for (int k = 0, i = list + 1; k < json_count(&r->j, list); k++, i = json_next(&r->j, i))
        if (!read_function(r, i))
            return false;
    for (int i = 0; i < r->b->function.n; i++)
        quick_begin(&r->b->function.at[i]);
    return r->b->function.n > 0 || malformed(r, "it has no functions");
}

/* ---- kernels ---- */

static bool read_kernel(Reading *r, int row)
{
    StrBuf object = {0}, why = {0};
    BundleKernel k = {.path = member_text(r, json_get(&r->j, row, "objects"), r->b->cpu)};
    char *key = member_text(r, row, "key");
    bool ok = k.path && key && (bundle_key_read(key, &k.key) || malformed(r, "the key of a kernel is damaged")) && read_file(r, k.path, &object);

    if (ok && !kernel_load(&k, sb_str(&object), object.n, &why))
        ok = fail(r, TSR_CODE, "%s: %s", k.path, sb_str(&why));
    vec_push(&r->b->kernel, k);
    tsr_free(key);
    sb_done(&object);
    sb_done(&why);
    return ok;
}

static bool read_kernels(Reading *r)
{
    int list = json_get(&r->j, 0, "kernels");

    for (int k = 0, i = list + 1; k < json_count(&r->j, list); k++, i = json_next(&r->j, i))
        if (!read_kernel(r, i))
            return false;
    return true;
}

/* ---- the whole ---- */

static void form_done(Form *m)
{
    graph_unref(m->graph);
    quick_free(m->quick);
    tsr_free(m->capture);
    tsr_free(m->store);
}

void bundle_free(struct tsr_bundle *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->function.n; i++) {
        struct tsr_function *f = &b->function.at[i];
        for (int k = 0; k < f->form.n; k++)
            form_done(&f->form.at[k]);
        for (int k = 0; k < f->input.n; k++)
            tsr_free(f->input.at[k]);
        vec_free(&f->form);
        vec_free(&f->input);
        tsr_free(f->name);
        tsr_free(f->signature);
    }
    for (int i = 0; i < b->weight.n; i++) {
        tsr_free(b->weight.at[i].name);
        tensor_unref(b->weight.at[i].t);
        tensor_unref(b->weight.at[i].first);
    }
    for (int i = 0; i < b->kernel.n; i++) {
        kernel_unload(&b->kernel.at[i]);
        tsr_free(b->kernel.at[i].path);
    }
    bundle_leave_device(b);
    vec_free(&b->function);
    vec_free(&b->weight);
    vec_free(&b->kernel);
    trace_done(&b->T);
    tsr_free(b->folder);
    tsr_free(b->name);
    tsr_free(b->cpu);
    tsr_free(b);
}

void bundle_reset(struct tsr_bundle *b)
{
    for (int i = 0; i < b->weight.n; i++) {
        Weight *w = &b->weight.at[i];
        if (w->t != w->first) {
            tensor_unref(w->t);
            w->t = tensor_ref(w->first);
        }
    }
    tensor_unref(b->T.key);
    b->T.key = NULL;
    b->T.seed = b->seed;
    b->T.draws = b->draws;
}

int bundle_read(const BundleFiles *files, struct tsr_bundle **out, StrBuf *err)
{
    Reading r = {.files = files, .b = tsr_calloc(sizeof *r.b), .err = err};

    *out = NULL;
    trace_init(&r.b->T);
    bool ok = read_manifest(&r) && (r.b->name = member_text(&r, 0, "name")) &&
              choose_cpu(&r) && read_random(&r) && read_weights(&r) && read_functions(&r) && read_kernels(&r);
    r.checked = ok && json_count(&r.j, json_get(&r.j, 0, "checks")) > 0;
    tsr_free(r.arch);
    json_done(&r.j);
    sb_done(&r.text);
    if (!ok) {
        bundle_free(r.b);
        return r.status ? r.status : TSR_MANIFEST;
    }
    bundle_offer_kernels(r.b);
    r.b->T.guarded = r.checked;
    bundle_reset(r.b);
    *out = r.b;
    return TSR_OK;
}
