/*
 * `tessera inspect BUNDLE`: what is in it, from its manifest, and whether its
 * files are those that were built.  Nothing of it is run, so bundles for other
 * CPUs are shown, too.
 */
#include "tools/bundle/build.h"

#include "base/json.h"
#include "base/sha256.h"
#include "bundle/bundle.h"
#include "tools/program.h"

#include <stdio.h>
#include <string.h>

enum { METADATA_DEPTH = 16 };

typedef struct Showing { const BundleFiles *files; StrBuf text, *out; Json j; int damaged; } Showing;

static void put(Showing *s, int i)
{
    char *text = json_string(&s->j, i);

    sb_puts(s->out, text);
    tsr_free(text);
}

static void put_list(Showing *s, int list, const char *between)
{
    for (int k = 0, i = list + 1; k < json_count(&s->j, list); k++, i = json_next(&s->j, i)) {
        sb_puts(s->out, k ? between : "");
        put(s, i);
    }
}

/* "  what: a, b", nothing without items. */
static void put_named(Showing *s, int object, const char *key, const char *what)
{
    int list = json_get(&s->j, object, key);

    if (!json_count(&s->j, list))
        return;
    sb_printf(s->out, "    %s: ", what);
    put_list(s, list, ", ");
    sb_putc(s->out, '\n');
}

static void put_form(Showing *s, int form)
{
    int where = json_get(&s->j, form, "where");

    sb_puts(s->out, "    graph: ");
    put(s, json_get(&s->j, form, "graph"));
    if (json_get(&s->j, form, "arch") >= 0) {
        sb_puts(s->out, " on ");
        put(s, json_get(&s->j, form, "arch"));
    }
    if (json_kind(&s->j, where) == JSON_STRING && !json_is(&s->j, where, "")) {
        sb_puts(s->out, " where ");
        put(s, where);
    }
    sb_putc(s->out, '\n');
    put_named(s, form, "schedules", "schedules");
    put_named(s, form, "captures", "weights");
    put_named(s, form, "stores", "state");
}

static void put_functions(Showing *s)
{
    int list = json_get(&s->j, 0, "functions");

    for (int k = 0, i = list + 1; k < json_count(&s->j, list); k++, i = json_next(&s->j, i)) {
        int forms = json_get(&s->j, i, "forms");
        sb_puts(s->out, "function ");
        put(s, json_get(&s->j, i, "signature"));
        sb_putc(s->out, '\n');
        put_named(s, i, "effects", "effects");
        for (int m = 0, at = forms + 1; m < json_count(&s->j, forms); m++, at = json_next(&s->j, at))
            put_form(s, at);
    }
}

static void put_weights(Showing *s)
{
    int list = json_get(&s->j, 0, "weights");

    for (int k = 0, i = list + 1; k < json_count(&s->j, list); k++, i = json_next(&s->j, i)) {
        sb_puts(s->out, json_true(&s->j, json_get(&s->j, i, "state")) ? "state " : "weight ");
        put(s, json_get(&s->j, i, "name"));
        sb_puts(s->out, ": ");
        put(s, json_get(&s->j, i, "dtype"));
        sb_putc(s->out, '[');
        put_list(s, json_get(&s->j, i, "shape"), ", ");
        sb_puts(s->out, "]\n");
    }
}

/* Kernels: how many, and their code for each CPU. */
static void put_kernels(Showing *s)
{
    int cpus = json_get(&s->j, json_get(&s->j, 0, "target"), "cpu"), files = json_get(&s->j, 0, "files");

    for (int c = 0, cpu = cpus + 1; c < json_count(&s->j, cpus); c++, cpu = json_next(&s->j, cpu)) {
        char *name = json_string(&s->j, cpu);
        StrBuf folder = {0};
        uint64_t bytes = 0, one;
        int n = 0;
        sb_printf(&folder, "objects/%s/", name);
        for (int k = 0, i = files + 1; k < json_count(&s->j, files); k++, i = json_next(&s->j, i)) {
            char *path = json_string(&s->j, json_get(&s->j, i, "path"));
            if (!strncmp(path, sb_str(&folder), folder.n) && json_size(&s->j, json_get(&s->j, i, "bytes"), &one)) {
                bytes += one;
                n++;
            }
            tsr_free(path);
        }
        sb_printf(s->out, "kernels for %s: %d objects, %llu bytes\n", name, n, (unsigned long long)bytes);
        sb_done(&folder);
        tsr_free(name);
    }
}

/* Kernels for GPUs: for which chips, and how large. */
static void put_gpu_kernels(Showing *s)
{
    int target = json_get(&s->j, 0, "target"), chips = json_get(&s->j, target, "gpu"), files = json_get(&s->j, 0, "files");
    static const char folder[] = "objects/gpu/";
    uint64_t bytes = 0, one;
    int n = 0;

    if (!json_count(&s->j, chips))
        return;
    for (int k = 0, i = files + 1; k < json_count(&s->j, files); k++, i = json_next(&s->j, i)) {
        char *path = json_string(&s->j, json_get(&s->j, i, "path"));
        if (!strncmp(path, folder, sizeof folder - 1) && json_size(&s->j, json_get(&s->j, i, "bytes"), &one)) {
            bytes += one;
            n++;
        }
        tsr_free(path);
    }
    sb_puts(s->out, "kernels for GPUs ");
    put_list(s, chips, ", ");
    sb_printf(s->out, ": %d fat binaries %s, %llu bytes\n", n,
              json_true(&s->j, json_get(&s->j, target, "cubins")) ? "of machine code and PTX" : "of PTX", (unsigned long long)bytes);
}

static void put_file(Showing *s, int row)
{
    char *path = json_string(&s->j, json_get(&s->j, row, "path")), hash[SHA256_TEXT];
    StrBuf bytes = {0};
    int failed = strstr(path, "..") || *path == '/' ? -1 : s->files->read(s->files->st, path, BUNDLE_FILE_MAX, &bytes);
    const char *state = failed ? "missing" : "";

    sha256_text(sb_str(&bytes), bytes.n, hash);
    if (!failed && !json_is(&s->j, json_get(&s->j, row, "sha256"), hash))
        state = "hash mismatch";
    s->damaged += *state != 0;
    sb_puts(s->out, "file ");
    put(s, json_get(&s->j, row, "sha256"));
    sb_printf(s->out, " %s%s%s\n", path, *state ? ": " : "", state);
    sb_done(&bytes);
    tsr_free(path);
}

/* Whatever was said when it was saved: "metadata requirements.memory: 8GB". */
static void put_metadata_at(Showing *s, int object, const char *path, int deep)
{
    for (int k = 0, i = object + 1; k < json_count(&s->j, object); k++) {
        char *key = json_string(&s->j, i);
        int value = i + 1;
        StrBuf at = {0};
        sb_printf(&at, "%s%s%s", path, *path ? "." : "", key);
        if (json_kind(&s->j, value) == JSON_OBJECT && deep < METADATA_DEPTH)
            put_metadata_at(s, value, sb_str(&at), deep + 1);
        else {
            sb_printf(s->out, "metadata %s: ", sb_str(&at));
            put(s, value);
            sb_putc(s->out, '\n');
        }
        i = json_next(&s->j, value);
        sb_done(&at);
        tsr_free(key);
    }
}

static void put_metadata(Showing *s)
{
    int object = json_get(&s->j, 0, "metadata");

    if (object >= 0)
        put_metadata_at(s, object, "", 0);
}

static void put_variants(Showing *s)
{
    int list = json_get(&s->j, 0, "variants");

    for (int k = 0, i = list + 1; k < json_count(&s->j, list); k++, i = json_next(&s->j, i)) {
        sb_puts(s->out, "\nvariant ");
        put(s, json_get(&s->j, i, "arch"));
        sb_puts(s->out, " for ");
        put(s, json_get(&s->j, i, "device"));
    }
}

static void put_all(Showing *s)
{
    int files = json_get(&s->j, 0, "files"), target = json_get(&s->j, 0, "target");

    sb_puts(s->out, "bundle ");
    put(s, json_get(&s->j, 0, "name"));
    sb_puts(s->out, " made by ");
    put(s, json_get(&s->j, 0, "made_by"));
    sb_puts(s->out, " for ");
    put(s, json_get(&s->j, target, "arch"));
    sb_puts(s->out, " ");
    put_list(s, json_get(&s->j, target, "cpu"), ", ");
    if (json_count(&s->j, json_get(&s->j, target, "gpu"))) {
        sb_puts(s->out, ", ");
        put_list(s, json_get(&s->j, target, "gpu"), ", ");
    }
    put_variants(s);
    sb_puts(s->out, "\nchecks: ");
    if (json_count(&s->j, json_get(&s->j, 0, "checks")) > 0)
        put_list(s, json_get(&s->j, 0, "checks"), ", ");
    else
        sb_puts(s->out, "none");
    if (json_get(&s->j, 0, "graph_version") >= 0) {
        sb_puts(s->out, "\ngraph_version ");
        put(s, json_get(&s->j, 0, "graph_version"));
    }
    sb_puts(s->out, "\nhash ");
    put(s, json_get(&s->j, 0, "manifest_sha256"));
    sb_putc(s->out, '\n');
    put_metadata(s);
    put_functions(s);
    put_weights(s);
    put_kernels(s);
    put_gpu_kernels(s);
    for (int k = 0, i = files + 1; k < json_count(&s->j, files); k++, i = json_next(&s->j, i))
        put_file(s, i);
}

/* The graphs themselves, as --ir graph and --ir schedule print a program's. */
static void put_graphs(Showing *s)
{
    int list = json_get(&s->j, 0, "functions");

    for (int k = 0, i = list + 1; k < json_count(&s->j, list); k++, i = json_next(&s->j, i)) {
        int forms = json_get(&s->j, i, "forms");
        for (int m = 0, at = forms + 1; m < json_count(&s->j, forms); m++, at = json_next(&s->j, at)) {
            char *path = json_string(&s->j, json_get(&s->j, at, "graph"));
            s->damaged += strstr(path, "..") || s->files->read(s->files->st, path, BUNDLE_FILE_MAX, s->out);
            tsr_free(path);
        }
    }
}

int bundle_inspect_verb(const Options *o)
{
    BundleFiles files = bundle_folder(o->operand[0]);
    StrBuf out = {0}, why = {0};
    Showing s = {.files = &files, .out = &out};
    int bad = bundle_manifest(&files, &s.text, &s.j, &why);

    if (bad)
        fprintf(stderr, "error: %s: B%02d: %s\n", o->operand[0], bad, sb_str(&why));
    else if (o->value[OPT_ir])
        put_graphs(&s);
    else
        put_all(&s);
    fwrite(sb_str(&out), 1, out.n, stdout);
    if (s.damaged)
        fprintf(stderr, "error: %s: B%02d: %d files are not those that were built\n", o->operand[0], TSR_HASH, s.damaged);
    json_done(&s.j);
    sb_done(&s.text);
    sb_done(&out);
    sb_done(&why);
    return bad || s.damaged ? EXIT_MISTAKE : EXIT_OK;
}
