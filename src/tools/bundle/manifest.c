/* The manifest: all that a bundle is, for readers who do not run it, and a hash of everything. */
#include "tools/bundle/build.h"

#include "base/sha256.h"
#include "runtime/gpu.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

static const TType *build_input(const ExportFunction *f, int i)
{
    return &f->form.at[0].graph->params.at[f->form.at[0].capture.n + 1 + i]->type[0];
}

static const TType *build_output(const ExportFunction *f, int i) { return gvalue_type(f->form.at[0].graph->results.at[i]); }

static void put_shape(const TType *y, StrBuf *out)
{
    for (int k = 0; k < y->rank; k++) {
        sb_puts(out, k ? ", " : "");
        dim_print(y->shape[k], out);
    }
}

static void put_type(const TType *y, StrBuf *out)
{
    sb_printf(out, "%s[", dtype_info[y->dtype].name);
    put_shape(y, out);
    sb_putc(out, ']');
}

void build_signature(const ExportFunction *f, StrBuf *out)
{
    sb_printf(out, "%s(", f->name->text);
    for (int i = 0; i < f->input.n; i++) {
        sb_printf(out, "%s%s: ", i ? ", " : "", f->input.at[i]);
        put_type(build_input(f, i), out);
    }
    sb_puts(out, f->output.n == 1 ? ") -> " : ") -> (");
    for (int i = 0; i < f->output.n; i++) {
        sb_puts(out, i ? ", " : "");
        put_type(build_output(f, i), out);
    }
    sb_puts(out, f->output.n == 1 ? "" : ")");
}

/* ---- JSON ---- */

static void put_text(StrBuf *out, const char *s) { sb_put_json(out, s, strlen(s)); }

static void put_tensor(StrBuf *out, const char *name, const TType *y)
{
    sb_puts(out, "{\"name\": ");
    put_text(out, name);
    sb_printf(out, ", \"dtype\": \"%s\", \"shape\": [", dtype_info[y->dtype].name);
    for (int k = 0; k < y->rank; k++) {
        StrBuf d = {0};
        dim_print(y->shape[k], &d);
        sb_puts(out, k ? ", " : "");
        if (dim_is_const(y->shape[k]))
            sb_puts(out, sb_str(&d));
        else
            put_text(out, sb_str(&d));
        sb_done(&d);
    }
    sb_puts(out, "]}");
}

static void put_weights(StrBuf *out, const char *key, const Exports *x, const int *at, int n)
{
    sb_printf(out, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        sb_puts(out, i ? ", " : "");
        put_text(out, x->weight.at[at[i]].name);
    }
    sb_putc(out, ']');
}

/* The guards: which sizes the form serves, besides those that its types say. */
static void put_where(StrBuf *out, const Graph *g)
{
    StrBuf conds = {0};
    size_t skip = sizeof " where " - 1;

    graph_print_conds(g, &conds);
    sb_puts(out, ", \"where\": ");
    put_text(out, conds.n > skip ? sb_str(&conds) + skip : "");
    sb_done(&conds);
}

static void put_schedules(StrBuf *out, StrBuf *graph)
{
    static const char mark[] = "{name=\"";
    bool any = false;

    sb_puts(out, ", \"schedules\": [");
    for (const char *at = sb_str(graph); (at = strstr(at, "= fused(")); at++) {
        const char *end = strchr(at, '\n'), *name = strstr(at, mark);
        if (!name || !end || name > end)
            continue;
        name += sizeof mark - 1;
        sb_puts(out, any ? ", " : "");
        sb_put_json(out, name, strcspn(name, "\""));
        any = true;
    }
    sb_putc(out, ']');
}

static StrBuf *find_file(const Building *b, const char *path)
{
    for (int i = 0; i < b->file.n; i++)
        if (!strcmp(b->file.at[i].path, path))
            return &b->file.at[i].bytes;
    return NULL;
}

static void put_form(StrBuf *out, const Building *b, const ExportFunction *f, int k)
{
    const ExportForm *m = &f->form.at[k];
    char *path = build_graph_path(f, k);

    sb_puts(out, "{\"graph\": ");
    put_text(out, path);
    if (m->arch)
        sb_printf(out, ", \"arch\": \"%s\"", m->arch);
    put_where(out, m->graph);
    put_weights(out, "captures", &b->exports, m->capture.at, m->capture.n);
    put_weights(out, "stores", &b->exports, m->store.at, m->store.n);
    sb_printf(out, ", \"random\": %s", m->random ? "true" : "false");
    put_schedules(out, find_file(b, path));
    sb_putc(out, '}');
    tsr_free(path);
}

static void put_effects(StrBuf *out, const ExportFunction *f)
{
    unsigned flags = 0;
    bool any = false;

    for (int k = 0; k < f->form.n; k++)
        flags |= graph_effects(f->form.at[k].graph) | (f->form.at[k].random ? OPF_RANDOM : 0) | (f->form.at[k].store.n ? OPF_STATE : 0);
    sb_puts(out, ", \"effects\": [");
    for (int i = 0; i < EFFECT_COUNT; i++)
        if (flags & op_effect[i].flag) {
            sb_printf(out, "%s\"%s\"", any ? ", " : "", op_effect[i].name);
            any = true;
        }
    sb_putc(out, ']');
}

static void put_function(StrBuf *out, const Building *b, const ExportFunction *f)
{
    StrBuf signature = {0};

    build_signature(f, &signature);
    sb_puts(out, "    {\"name\": ");
    put_text(out, f->name->text);
    sb_puts(out, ", \"signature\": ");
    put_text(out, sb_str(&signature));
    sb_puts(out, ",\n     \"doc\": ");
    put_text(out, f->doc ? f->doc : "");
    sb_puts(out, ",\n     \"parameters\": [");
    for (int i = 0; i < f->input.n; i++) {
        sb_puts(out, i ? ", " : "");
        put_tensor(out, f->input.at[i], build_input(f, i));
    }
    sb_puts(out, "],\n     \"results\": [");
    for (int i = 0; i < f->output.n; i++) {
        sb_puts(out, i ? ", " : "");
        put_tensor(out, f->output.at[i], build_output(f, i));
    }
    sb_putc(out, ']');
    put_effects(out, f);
    sb_puts(out, ",\n     \"forms\": [");
    for (int k = 0; k < f->form.n; k++) {
        sb_puts(out, k ? ",\n               " : "");
        put_form(out, b, f, k);
    }
    sb_puts(out, "]}");
    sb_done(&signature);
}

static void put_functions(StrBuf *out, const Building *b)
{
    sb_puts(out, "  \"functions\": [\n");
    for (int i = 0; i < b->exports.function.n; i++) {
        sb_puts(out, i ? ",\n" : "");
        put_function(out, b, &b->exports.function.at[i]);
    }
    sb_puts(out, "\n  ],\n  \"weights\": [");
    for (int i = 0; i < b->exports.weight.n; i++) {
        const ExportWeight *w = &b->exports.weight.at[i];
        TType y = tensor_type(w->t);
        sb_puts(out, i ? ",\n    " : "\n    ");
        put_tensor(out, w->name, &y);
        out->n--;
        sb_printf(out, ", \"state\": %s}", w->state ? "true" : "false");
    }
    sb_puts(out, "],\n");
}

static void put_kernels(StrBuf *out, const Building *b)
{
    sb_puts(out, "  \"kernels\": [");
    for (int i = 0; i < b->kernel.n; i++) {
        const BuildKernel *k = &b->kernel.at[i];
        sb_printf(out, "%s{\"key\": \"%s\", \"objects\": {", i ? ",\n    " : "\n    ", k->key);
        for (int c = 0; c < b->ncpus; c++)
            sb_printf(out, "%s\"%s\": \"objects/%s/%s.o\"", c ? ", " : "", b->cpu[c], b->cpu[c], k->key);
        sb_puts(out, "}}");
    }
    sb_puts(out, "],\n");
}

static int by_path(const void *a, const void *b) { return strcmp(((const BuildFile *)a)->path, ((const BuildFile *)b)->path); }

static void put_files(StrBuf *out, const Building *b)
{
    sb_puts(out, "  \"files\": [\n");
    for (int i = 0; i < b->file.n; i++) {
        char hash[SHA256_TEXT];
        sha256_text(sb_str(&b->file.at[i].bytes), b->file.at[i].bytes.n, hash);
        sb_puts(out, i ? ",\n    {\"path\": " : "    {\"path\": ");
        put_text(out, b->file.at[i].path);
        sb_printf(out, ", \"bytes\": %zu, \"sha256\": \"%s\"}", b->file.at[i].bytes.n, hash);
    }
    sb_puts(out, "\n  ],\n  ");
}

static void put_variants(StrBuf *out, const Building *b)
{
    if (!b->nmodels)
        return;
    sb_puts(out, "  \"variants\": [");
    for (int i = 0; i < b->nmodels; i++)
        sb_printf(out, "%s{\"arch\": \"%s\", \"device\": \"%s\"}", i ? ", " : "", b->model[i]->arch, b->model[i]->name);
    sb_puts(out, "],\n");
}

static void put_target(StrBuf *out, const Building *b)
{
    sb_puts(out, "  \"target\": {\"arch\": \"x86_64\", \"cpu\": [");
    for (int c = 0; c < b->ncpus; c++)
        sb_printf(out, "%s\"%s\"", c ? ", " : "", b->cpu[c]);
    sb_putc(out, ']');
    for (int c = 0; c < b->nchips; c++)
        sb_printf(out, "%s\"%s\"", c ? ", " : ", \"gpu\": [", b->chip[c].name);
    if (b->nchips)
        sb_printf(out, "], \"cubins\": %s", b->cubins ? "true" : "false");
    sb_puts(out, "},\n");
}

void build_manifest(Building *b)
{
    StrBuf out = {0};

    qsort(b->file.at, (size_t)b->file.n, sizeof *b->file.at, by_path);
    sb_printf(&out, "{\n  \"tessera_bundle\": %d,\n  \"name\": \"%s\",\n  \"made_by\": \"tessera %s\",\n", BUNDLE_FORMAT, b->name, TESSERA_VERSION);
    put_target(&out, b);
    sb_printf(&out, "  \"random\": {\"seed\": \"%" PRIx64 "\", \"draws\": %" PRIu64 "},\n", b->exports.seed, b->exports.draws);
    if (b->debug)
        sb_puts(&out, "  \"checks\": [\"bounds\", \"races\", \"sentinels\"],\n");
    put_variants(&out, b);
    if (b->facts)
        sb_printf(&out, "  %s,\n", b->facts);
    put_functions(&out, b);
    put_kernels(&out, b);
    if (b->nchips)
        chips_describe(b, &out);
    put_files(&out, b);
    bundle_seal(&out);
    *build_file(b, BUNDLE_MANIFEST) = out;
}
