/*
 * The parts of a bundle that run: each form's graph with its fused nodes, and
 * the kernels that these may ask for.
 *
 * Which ones these are is found by rehearsing the graph with a compiler that
 * takes notes.
 */
#include "tools/bundle/build.h"

#include "frontend/kernel/launch.h"
#include "ir/schedule/fused.h"
#include "ir/schedule/rehearse.h"
#include "ir/schedule/schedule.h"
#include "runtime/safetensors.h"

#include <stdlib.h>
#include <string.h>

bool (*build_object)(const TileKernel *k, const char *cpu, StrBuf *object, StrBuf *err);

static Building *taking;        /* whose notes are taken */

StrBuf *build_file(Building *b, const char *path)
{
    BuildFile f = {strcpy(tsr_alloc(strlen(path) + 1), path), {0}};

    vec_push(&b->file, f);
    return &b->file.at[b->file.n - 1].bytes;
}

/* ---- kernels ---- */

static void nothing(const int64_t *size, const TileArg *arg, char *scratch, int64_t lo, int64_t hi) {}

static bool is_noted(const Building *b, const char *key)
{
    for (int i = 0; i < b->kernel.n; i++)
        if (!strcmp(b->kernel.at[i].key, key))
            return true;
    return false;
}

/* An object for each CPU. false: the compiler does not cover the kernel; its body will run op by op. */
static bool note_kernel(Building *b, const TileKernel *k, const char *key, StrBuf *err)
{
    BuildKernel row = {.key = strcpy(tsr_alloc(strlen(key) + 1), key)};
    StrBuf object[BUILD_CPUS] = {{0}};
    bool ok = true;

    for (int c = 0; c < b->ncpus && ok; c++)
        ok = build_object(k, b->cpu[c], &object[c], err);
    for (int c = 0; c < b->ncpus && ok; c++) {
        StrBuf path = {0};
        sb_printf(&path, "objects/%s/%s.o", b->cpu[c], key);
        sb_write(build_file(b, sb_str(&path)), object[c].s, object[c].n);
        row.made[c] = true;
        sb_done(&path);
    }
    for (int c = 0; c < b->ncpus; c++)
        sb_done(&object[c]);
    if (ok)
        vec_push(&b->kernel, row);
    else
        tsr_free(row.key);
    return ok;
}

static void *take_note(const TileKernel *k, StrBuf *err)
{
    static char done;
    char key[KEY_DIGITS + 1];

    bundle_key_text(tile_key(k), key);
    return is_noted(taking, key) || note_kernel(taking, k, key, err) ? &done : NULL;
}

/* Those of the launches of g, regions included. false: b->err says which one no compiler covers. */
static bool note_launches(Building *b, const Graph *g)
{
    for (const Node *n = g->first; n; n = n->next) {
        const Attr *a = n->attr;
        char key[KEY_DIGITS + 1];
        const TileKernel *k;
        StrBuf why = {0};
        bool ok = true;
        for (int r = 0; r < 4; r++)
            if (n->op != GRAPH_PARAM && a && a->region[r] && !note_launches(b, a->region[r]))
                return false;
        if (n->op != OP_launch)
            continue;
        bundle_key_text((Hash128){.lo = (uint64_t)a->i, .hi = (uint64_t)a->seed}, key);
        k = is_noted(b, key) ? NULL : kernel_coded((Hash128){.lo = (uint64_t)a->i, .hi = (uint64_t)a->seed});
        if (k && !(ok = note_kernel(b, k, key, &why)))
            sb_printf(&b->err, "kernel '%s' cannot be compiled for a bundle: %s", a->name->text, sb_str(&why));
        sb_done(&why);
        if (!ok)
            return false;
    }
    return true;
}

static KernelFn *entry(const void *code) { return nothing; }
static int64_t scratch(const void *code, const int64_t *size) { return 0; }
static uint32_t users(const void *code) { return 1; }
static void drop(void *code) {}

static const KernelCompiler notes = {take_note, entry, scratch, users, drop, .idle = true};

static int by_key(const void *a, const void *b) { return strcmp(((const BuildKernel *)a)->key, ((const BuildKernel *)b)->key); }

/* ---- graphs ---- */

char *build_graph_path(const ExportFunction *f, int form)
{
    StrBuf path = {0};
    char *text;

    const char *arch = f->form.at[form].arch;

    sb_printf(&path, "graphs/%s%s%s", f->name->text, arch ? "." : "", arch ? arch : "");
    sb_printf(&path, form && !(arch && f->form.at[form - 1].arch != arch) ? ".%d.tgir" : ".tgir", form + 1);
    text = strcpy(tsr_alloc(path.n + 1), sb_str(&path));
    sb_done(&path);
    return text;
}

/* What is printed must be what will be read. */
static bool reads_back(const StrBuf *text, StrBuf *err)
{
    Graph *g = graph_parse(text->s, text->n, err);

    graph_unref(g);
    return g != NULL;
}

static bool build_form(Building *b, Trace *T, const ExportFunction *f, int form)
{
    Graph *g = f->form.at[form].graph, *fused = b->debug ? NULL : schedule_fuse(g);
    char *path = build_graph_path(f, form);
    StrBuf text = {0}, why = {0};
    bool ok;

    if (fused)
        graph_dce(fused);                       /* constants that went into bodies */
    graph_print(fused ? fused : g, &text);
    sb_write(build_file(b, path), text.s, text.n);
    ok = reads_back(&text, &why);
    if (!ok)
        sb_printf(&b->err, "the graph of %s cannot be kept: %s", f->name->text, sb_str(&why));
    ok = ok && note_launches(b, g);
    if (ok && fused)
        graph_rehearse(T, fused);
    if (ok && b->nchips)
        chips_rehearse(b, T, fused ? fused : g);
    graph_unref(fused);
    tsr_free(path);
    sb_done(&text);
    sb_done(&why);
    return ok;
}

/* ---- weights ---- */

static bool build_weights(Building *b)
{
    SafeTensors all = {0};
    bool ok;

    if (!b->exports.weight.n)
        return true;
    for (int i = 0; i < b->exports.weight.n; i++)
        safetensors_add(&all, b->exports.weight.at[i].name, b->exports.weight.at[i].t);
    ok = safetensors_write(&all, build_file(b, BUNDLE_WEIGHTS), &b->err);
    safetensors_done(&all);
    return ok;
}

bool build_code(Building *b, Trace *T)
{
    bool ok = build_weights(b);

    taking = b;
    fused_begin(&notes, false);
    for (int i = 0; i < b->exports.function.n; i++)
        for (int k = 0; ok && k < b->exports.function.at[i].form.n; k++)
            ok = build_form(b, T, &b->exports.function.at[i], k);
    if (b->kernel.n)
        qsort(b->kernel.at, (size_t)b->kernel.n, sizeof *b->kernel.at, by_key);
    return ok && chips_finish(b);
}
