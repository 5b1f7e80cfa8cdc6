/*
 * Bundles with variants for several models of GPUs.
 *
 * The program runs once on a simulated device of each model, so that
 * current_device() is that one.  Functions whose graphs are the same on all keep
 * one; the others keep those of each model, and what opens the bundle reads the
 * ones of the device at hand.  Weights are the same on all models, by name: a
 * variant may read some that others do not.
 */
#include "tools/bundle/build.h"

#include "runtime/gpu.h"

#include <string.h>

bool variants_read(Building *b, const char *text, StrBuf *err)
{
    for (size_t n; *text; text += n + (text[n] == ',')) {
        const GpuModel *m;
        bool again = false;
        n = strcspn(text, ",");
        if (!(m = gpu_of_arch(text, n))) {
            sb_printf(err, "--arch takes sm_70, sm_75, sm_80, sm_89 and sm_90, separated by commas, not '%.*s'", (int)n, text);
            return false;
        }
        for (int i = 0; i < b->nmodels; i++)
            again |= b->model[i] == m;
        if (!again)
            b->model[b->nmodels++] = m;
    }
    return true;
}

static bool same_graph(const Graph *x, const Graph *y)
{
    StrBuf a = {0}, b = {0};
    bool same;

    graph_print(x, &a);
    graph_print(y, &b);
    same = a.n == b.n && !memcmp(sb_str(&a), sb_str(&b), a.n);
    sb_done(&a);
    sb_done(&b);
    return same;
}

static bool same_forms(const ExportFunction *x, const ExportFunction *y)
{
    bool same = x->form.n == y->form.n;

    for (int k = 0; same && k < x->form.n; k++)
        same = same_graph(x->form.at[k].graph, y->form.at[k].graph);
    return same;
}

static bool fail(Building *b, const char *what, const char *name, const char *how)
{
    sb_printf(&b->err, "%s %s %s: variants of a program export the same functions of the same parameters, and share their weights", what, name, how);
    return false;
}

/* Places of x's weights among those of the bundle, which get what they lack. NULL: b->err. */
static int *share_weights(Building *b, Exports *x)
{
    int *place = tsr_calloc(sizeof *place * (size_t)(x->weight.n + 1));

    for (int i = 0; i < x->weight.n; i++) {
        ExportWeight *w = &x->weight.at[i];
        int k = 0;
        while (k < b->exports.weight.n && strcmp(b->exports.weight.at[k].name, w->name))
            k++;
        if (k == b->exports.weight.n) {
            vec_push(&b->exports.weight, *w);
            b->exports.weight.at[k].name = strcpy(tsr_alloc(strlen(w->name) + 1), w->name);
            tensor_ref(w->t);
        } else if (!tensor_same_bits(b->exports.weight.at[k].t, w->t)) {
            fail(b, "the weight", w->name, "depends on the device");
            tsr_free(place);
            return NULL;
        }
        b->exports.weight.at[k].state |= w->state;
        place[i] = k;
    }
    return place;
}

/* x's form, on the weights of the bundle, as a further one of f. */
static void add_form(ExportFunction *f, const ExportForm *x, const int *place, const char *arch)
{
    ExportForm m = {.graph = graph_ref(x->graph), .random = x->random, .arch = arch};

    for (int i = 0; i < x->capture.n; i++)
        vec_push(&m.capture, place[x->capture.at[i]]);
    for (int i = 0; i < x->store.n; i++)
        vec_push(&m.store, place[x->store.at[i]]);
    vec_push(&f->form, m);
}

static bool join_function(Building *b, ExportFunction *f, int at, Exports *each, int **place)
{
    bool same = true;

    for (int v = 1; v < b->nmodels; v++) {
        const ExportFunction *g = at < each[v].function.n ? &each[v].function.at[at] : NULL;
        if (!g || g->name != f->name || g->input.n != f->input.n || g->output.n != f->output.n)
            return fail(b, "the function", f->name->text, "depends on the device");
        same &= same_forms(f, g);
    }
    for (int k = 0; k < f->form.n && !same; k++)
        f->form.at[k].arch = b->model[0]->arch;
    for (int v = 1; v < b->nmodels && !same; v++)
        for (int k = 0; k < each[v].function.at[at].form.n; k++)
            add_form(f, &each[v].function.at[at].form.at[k], place[v], b->model[v]->arch);
    return true;
}

bool variants_join(Building *b, Exports *each)
{
    int *place[BUILD_ARCHS] = {0};
    bool ok = true;

    b->exports = each[0];
    memset(&each[0], 0, sizeof each[0]);
    for (int v = 1; ok && v < b->nmodels; v++) {
        place[v] = share_weights(b, &each[v]);
        ok = place[v] && (each[v].function.n == b->exports.function.n || fail(b, "a function of", b->model[v]->name, "is missing on others"));
    }
    for (int i = 0; ok && i < b->exports.function.n; i++)
        ok = join_function(b, &b->exports.function.at[i], i, each, place);
    for (int v = 1; v < b->nmodels; v++)
        tsr_free(place[v]);
    return ok;
}
