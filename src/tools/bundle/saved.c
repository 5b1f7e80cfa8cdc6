/*
 * Bundles within a running program: tessera.save makes them of its models, tessera.load calls them.
 *
 * Making one takes notes in place of the compiler, and calling one runs the bundle's own kernels; the
 * program's way of running staged functions is put back behind both.
 *
 * A bundle that replaces one of other graphs has the next graph_version, of the same graphs the same one.
 */
#include "tools/bundle/build.h"

#include "base/sha256.h"
#include "bundle/bundle.h"
#include "frontend/tensor/bind.h"
#include "frontend/tensor/bundles.h"
#include "ir/schedule/fused.h"
#include "runtime/cpu.h"

#include <string.h>

typedef struct Opened { struct tsr_bundle *b; char *manifest; } Opened;

/* ---- saving ---- */

/* Of the graphs alone: neither weights nor kernels change it. */
static void graphs_hash(const Building *b, char hash[static SHA256_TEXT])
{
    StrBuf all = {0};

    for (int i = 0; i < b->file.n; i++)
        if (!strncmp(b->file.at[i].path, "graphs/", 7))
            sb_write(&all, b->file.at[i].bytes.s, b->file.at[i].bytes.n);
    sha256_text(sb_str(&all), all.n, hash);
    sb_done(&all);
}

static uint64_t version_after(const char *folder, const char *hash)
{
    BundleFiles files = bundle_folder(folder);
    StrBuf text = {0}, why = {0};
    uint64_t version = 0;
    bool same;
    Json j;
    int bad = bundle_manifest(&files, &text, &j, &why);

    if (bad || !json_size(&j, json_get(&j, 0, "graph_version"), &version))
        version = 0;
    same = !bad && version && json_is(&j, json_get(&j, 0, "graph_hash"), hash);
    json_done(&j);
    sb_done(&text);
    sb_done(&why);
    return version + !same;
}

static bool save(Interp *I, const char *folder, Exports *x, const char *facts, StrBuf *err)
{
    Building b = {.cpu = {cpu()->name}, .ncpus = 1, .exports = *x};
    FusedWay way = fused_way();
    char hash[SHA256_TEXT], *name = build_name(folder);
    StrBuf all = {0};
    bool ok;

    *x = (Exports){0};
    b.name = name;
    ok = build_code(&b, trace_of(I));
    fused_go(way);
    if (ok) {
        graphs_hash(&b, hash);
        sb_printf(&all, "\"graph_version\": %llu, \"graph_hash\": \"%s\"%s%s", (unsigned long long)version_after(folder, hash), hash,
                  facts && *facts ? ", " : "", facts ? facts : "");
        b.facts = sb_str(&all);
        build_rest(&b);
        ok = build_write(&b, folder, err);
    } else
        sb_puts(err, sb_str(&b.err));
    building_done(&b);
    sb_done(&all);
    tsr_free(name);
    return ok;
}

/* ---- opening ---- */

static int open_bundle(const char *folder, void **out, StrBuf *err)
{
    BundleFiles files = bundle_folder(folder);
    FusedWay way = fused_way();
    StrBuf text = {0};
    struct tsr_bundle *b;
    Opened *o;
    int bad = bundle_read(&files, &b, err);

    fused_go(way);
    if (bad)
        return bad;
    o = tsr_calloc(sizeof *o);
    o->b = b;
    b->T.host_print = bundle_print;
    b->T.host_launch = bundle_launch;
    if (!files.read(files.st, BUNDLE_MANIFEST, BUNDLE_FILE_MAX, &text))
        o->manifest = strcpy(tsr_calloc(text.n + 1), sb_str(&text));
    sb_done(&text);
    *out = o;
    return 0;
}

static void close_bundle(void *bundle)
{
    Opened *o = bundle;

    bundle_free(o->b);
    tsr_free(o->manifest);
    tsr_free(o);
}

static const char *manifest(void *bundle) { return ((Opened *)bundle)->manifest; }

static struct tsr_function *find(const Opened *o, const char *name)
{
    for (int i = 0; i < o->b->function.n; i++)
        if (!strcmp(o->b->function.at[i].name, name))
            return &o->b->function.at[i];
    return NULL;
}

static int count(void *bundle, const char *name)
{
    struct tsr_function *f = find(bundle, name);

    return f ? f->noutputs : -1;
}

static int call(void *bundle, const char *name, Tensor *const *in, int nin, Tensor **out, int nout, StrBuf *err)
{
    Opened *o = bundle;
    FusedWay way = fused_way();
    tsr_array *x = tsr_calloc(sizeof *x * (size_t)(nin + nout + 1));
    int bad;

    for (int i = 0; i < nin; i++)
        x[i] = build_array(in[i]);
    bundle_offer_kernels(o->b);
    bad = bundle_call(find(o, name), x, nin, x + nin, nout, err);
    fused_go(way);
    for (int i = 0; i < nout; i++) {
        if (bad)
            tensor_unref(x[nin + i].owner);
        out[i] = bad ? NULL : x[nin + i].owner;
    }
    tsr_free(x);
    return bad;
}

void bundles_begin(void)
{
    static const BundleTools here = {save, open_bundle, close_bundle, manifest, count, call};

    bundle_tools = &here;
}
