/* memory.c - see memory.h. Bytes are those of tensors' storage; operands that share one count once. */
#include "frontend/tensor/memory.h"

#include "frontend/eval/eval.h"
#include "ir/graph/fit.h"
#include "ir/graph/plan.h"
#include "ir/graph/sizes.h"
#include "ir/schedule/schedule.h"
#include "runtime/storage.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool quantity_of_bytes(const char *text, int64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    double v = strtod(text, &end);
    const char *unit;

    while (isspace((unsigned char)*end))
        end++;
    if (end == text || !(v > 0))
        return false;
    if (*end && (unit = strchr(units, toupper((unsigned char)*end)))) {
        for (const char *u = units; u <= unit; u++)
            v *= 1024;
        end++;
        end += *end == 'i';
    }
    end += *end == 'B' || *end == 'b';
    if (*end || v < 1 || v > 9e18)
        return false;
    *out = (int64_t)v;
    return true;
}

/* ------------------------------------------------------------- operands */

static Hash128 sizes_of(Tensor *const *in, int nin)
{
    Dim few[64] = {0}, *d = few;
    int n = 0, cap = 64;
    Hash128 h;

    for (int i = 0; i < nin; i++)
        for (int k = -1; k < in[i]->rank; k++) {
            if (n == cap) {
                Dim *more = tsr_alloc(sizeof *more * (size_t)cap * 2);
                memcpy(more, d, sizeof *more * (size_t)n);
                if (d != few)
                    tsr_free(d);
                d = more;
                cap *= 2;
            }
            d[n++] = k < 0 ? in[i]->rank : in[i]->shape[k];
        }
    h = hash_bytes128(d, sizeof *d * (size_t)n);
    if (d != few)
        tsr_free(d);
    return h;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)*(Storage *const *)a, y = (uintptr_t)*(Storage *const *)b;

    return x < y ? -1 : x > y;
}

static int64_t operand_bytes(Tensor *const *in, int nin)
{
    Storage **all = tsr_alloc(sizeof *all * (size_t)(nin + 1));
    int64_t sum = 0;
    int n = 0;

    for (int i = 0; i < nin; i++)
        if (in[i]->store)
            all[n++] = in[i]->store;
    qsort(all, (size_t)n, sizeof *all, by_address);
    for (int i = 0; i < n; i++)
        sum += i && all[i] == all[i - 1] ? 0 : (int64_t)all[i]->nbytes;
    tsr_free(all);
    return sum;
}

static bool all_concrete(Tensor *const *in, int nin)
{
    for (int i = 0; i < nin; i++)
        if (in[i]->tracer)
            return false;
    return true;
}

/* ------------------------------------------------------------- fitting */

void fitted_done(Fitted *f)
{
    graph_unref(f->variant);
    *f = (Fitted){0};
}

static int64_t planned_bytes(const Graph *g)
{
    Plan *p = graph_plan(g);
    int64_t v;

    if (!dim_const_value(plan_peak(p), &v))
        v = INT64_MAX;                          /* a size that only the run knows */
    plan_free(p);
    return v;
}

static Graph *too_much(Interp *I, int64_t needed, int64_t operands, int64_t budget)
{
    raise(I, EXC_MemoryError, "the memory limit is too small: besides %" PRId64 " bytes of arguments the function needs %" PRId64
          " bytes at once, also when values are computed again, and %" PRId64 " are left; raise the limit, or use smaller batches",
          operands, needed, budget > 0 ? budget : 0);
    return NULL;
}

/*
 * A variant with kernels, which need some more while they run: one that is fitted into less may stay below the budget with them.
 * NULL: none does. *plain: it without kernels.
 */
static Graph *fused_variant(const Graph *now, int64_t budget, FitReport *r, Graph **plain)
{
    enum { TRIES = 4 };

    for (int k = 0; k < TRIES; k++) {
        Graph *variant = graph_fit(now, budget - budget / (2 * TRIES) * k, r), *fused = variant ? schedule_fuse(variant) : NULL;
        int64_t needs = fused ? planned_bytes(fused) : INT64_MAX;
        if (needs <= budget) {
            r->peak = needs;
            *plain = variant;
            return fused;
        }
        graph_unref(fused);
        graph_unref(variant);
        if (!variant)
            break;
    }
    return NULL;
}

/* What graph and fused graph need at these sizes. false: an error is pending. */
static bool plan_sizes(Interp *I, Fitted *f, Graph *g, Graph *fused, Tensor *const *in)
{
    Graph *all[] = {g, fused};
    int64_t bytes[2] = {INT64_MAX, INT64_MAX};

    for (int i = 0; i < 2 && all[i]; i++) {
        Graph *now = graph_at_sizes(interp_trace(I), all[i], in);
        if (!now)
            return raise_op_error(I), false;
        bytes[i] = planned_bytes(now);
        graph_unref(now);
    }
    f->planned = true;
    f->plain = bytes[0];
    f->fused = bytes[1];
    return true;
}

Graph *memory_fit(Interp *I, Fitted *f, Graph *g, Graph *fused, Tensor *const *in, int nin, int64_t limit)
{
    const InterpOptions *opt = interp_options(I);
    Trace *T = interp_trace(I);
    int64_t budget = INT64_MAX, operands;
    Graph *now, *variant = NULL, *kernels;
    FitReport r = {0};
    Hash128 sizes;

    if ((!limit && !opt->memory_limit) || T->top || !all_concrete(in, nin))
        return fused ? fused : g;
    operands = operand_bytes(in, nin);
    if (limit)
        budget = limit - operands;
    if (opt->memory_limit && opt->memory_limit - (int64_t)storage_live_bytes() < budget)
        budget = opt->memory_limit - (int64_t)storage_live_bytes();
    for (int i = 0; i < nin && budget < INT64_MAX; i++)     /* the plan takes operands to be in row-major order: these may be copied */
        budget -= in[i]->contiguous ? 0 : 2 * (int64_t)tensor_nbytes(in[i]);
    sizes = sizes_of(in, nin);
    if (!f->planned || f->sizes.lo != sizes.lo || f->sizes.hi != sizes.hi) {
        fitted_done(f);
        *f = (Fitted){.sizes = sizes};
        if (!plan_sizes(I, f, g, fused, in))
            return NULL;
    }
    if (fused && f->fused <= budget)
        return fused;
    if (f->plain <= budget)
        return g;
    if (f->variant && f->needs <= budget)
        return f->variant;
    if (!(now = graph_at_sizes(T, g, in)))
        return raise_op_error(I), NULL;
    kernels = fused ? fused_variant(now, budget, &r, &variant) : NULL;
    variant = kernels ? variant : graph_fit(now, budget, &r);
    graph_unref(now);
    if (!variant)
        return too_much(I, r.needed, operands, budget);
    graph_unref(f->variant);
    f->needs = r.peak;
    f->again = r.again;
    if (opt->staged)
        opt->staged(opt->staged_state, variant);
    if (kernels)
        graph_unref(variant);
    return f->variant = kernels ? kernels : variant;
}

bool memory_run(Interp *I, const Fitted *f, Graph *run, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Trace *T = interp_trace(I);
    size_t former = storage_peak_bytes(), before = storage_live_bytes();
    bool ok;

    if (!interp_options(I)->trace_memory || T->top)
        return graph_apply(T, run, in, nin, out, nout);
    storage_reset_peak();
    ok = graph_apply(T, run, in, nin, out, nout);
    interp_flush(I);
    fprintf(stderr, "memory: %s takes %zu bytes besides %" PRId64 " of arguments", run->name ? run->name->text : "the function",
            storage_peak_bytes() - before, operand_bytes(in, nin));
    if (run == f->variant)
        fprintf(stderr, ", instead of %" PRId64 "; %d values are computed again", f->plain, f->again);
    fputc('\n', stderr);
    storage_raise_peak(former);
    return ok;
}
