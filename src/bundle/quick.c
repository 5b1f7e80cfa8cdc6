/*
 * The short way through a call.
 *
 * A function whose graph is one fused node needs no executor: its launch, which
 * was planned for the sizes of the last call, only gets other places of memory.
 * Whatever is unusual about an array (another size, gaps, a place that is not
 * aligned or that another array overlaps) is left to the long way, which also
 * knows what to say about it.
 */
#include "bundle/bundle.h"

#include "base/alloc.h"
#include "ir/graph/level.h"
#include "ir/schedule/fused.h"

#include <string.h>

enum { QUICK_ARGS = 16 };

typedef struct Lie { int32_t dtype, rank; int64_t shape[TSR_AXES], stride[TSR_AXES]; size_t bytes, align; } Lie;

typedef struct Quick {
    const Node *node;           /* the graph's only one */
    int nin, nout;              /* of the node */
    int param[QUICK_ARGS];      /* of each operand: the graph's parameter */
    int result[QUICK_ARGS];     /* of each of the graph's results: the node's */
    bool ready;                 /* is there a launch? It is for arrays that lie like these: */
    Lie in[QUICK_ARGS], out[QUICK_ARGS];
    Tensor *weight[QUICK_ARGS]; /* which the captures were; borrowed, compared and never followed */
    LaunchSpace space;
    LaunchKernel kernel;
} Quick;

/* ---- which functions ---- */

static const Node *only_node(const Graph *g)
{
    const Node *found = NULL;

    for (const Node *n = g->first; n; n = n->next)
        if (n->op != GRAPH_PARAM) {
            if (found || n->op != OP_fused || n->scope)
                return NULL;
            found = n;
        }
    return found;
}

/* Is each of the node's results exactly one of the graph's? */
static bool match_results(const Graph *g, Quick *q)
{
    unsigned seen = 0;

    if (g->results.n != q->nout)
        return false;
    for (int i = 0; i < q->nout; i++) {
        if (g->results.at[i].node != q->node)
            return false;
        q->result[i] = g->results.at[i].index;
        seen |= 1u << q->result[i];
    }
    return seen == (1u << q->nout) - 1;
}

static bool match_operands(const Form *m, Quick *q)
{
    for (int i = 0; i < q->nin; i++) {
        q->param[i] = -1;
        for (int p = 0; p < m->graph->params.n; p++)
            if (q->node->in[i].node == m->graph->params.at[p])
                q->param[i] = p;
        if (q->param[i] < 0 || q->param[i] == m->ncaptures)             /* the key */
            return false;
    }
    return true;
}

/* Bytes that are 0 or 1, or share bytes, need a look. */
static bool is_easy(const TType *y) { return y->dtype != DT_bool && dtype_info[y->dtype].sbits >= 8; }

void quick_begin(struct tsr_function *f)
{
    Form *m = &f->form.at[0];
    const Node *n = f->form.n == 1 && !m->nstores && !m->random ? only_node(m->graph) : NULL;
    bool easy = n && n->nin <= QUICK_ARGS && n->nout <= QUICK_ARGS && f->input.n <= QUICK_ARGS;
    Quick *q;

    for (int i = 0; easy && i < f->input.n; i++)
        easy = is_easy(&m->graph->params.at[m->ncaptures + 1 + i]->type[0]);
    for (int i = 0; easy && i < n->nout; i++)
        easy = is_easy(&n->type[i]);
    if (!easy)
        return;
    q = m->quick = tsr_calloc(sizeof *q);
    q->node = n;
    q->nin = n->nin;
    q->nout = n->nout;
    if (match_results(m->graph, q) && match_operands(m, q))
        return;
    quick_free(q);
    m->quick = NULL;
}

void quick_free(struct Quick *q) { tsr_free(q); }

/* ---- a launch for these sizes ---- */

static void note_rows(Lie *l, DType dt, int rank, const int64_t *shape)
{
    tsr_array a = tsr_rows((tsr_dtype)dt, NULL, rank, shape);
    int64_t n = 1;

    for (int k = 0; k < rank; k++)
        n *= shape[k];
    memcpy(l->shape, a.shape, sizeof l->shape);
    memcpy(l->stride, a.stride, sizeof l->stride);
    l->dtype = dt;
    l->rank = rank;
    l->bytes = (size_t)n * (dtype_info[dt].sbits / 8);
    l->align = dtype_info[dt].sbits > 64 ? 8 : dtype_info[dt].sbits / 8;
}

/* The sizes of the results for operands of these. false: some are not known, or nothing. */
static bool note_results(const Form *m, Quick *q, Tensor *const *x)
{
    enum { VARS = 64 };
    Dim var[VARS];
    int64_t size[VARS], shape[TSR_AXES];
    int n = 0;

    for (int p = 0; p < m->graph->params.n; p++)
        for (int k = 0; k < m->graph->params.at[p]->type[0].rank && n < VARS; k++)
            if (dim_is_var(m->graph->params.at[p]->type[0].shape[k])) {
                var[n] = m->graph->params.at[p]->type[0].shape[k];
                size[n++] = x[p]->shape[k];
            }
    for (int i = 0; i < q->nout; i++) {
        const TType *y = &q->node->type[q->result[i]];
        for (int k = 0; k < y->rank; k++)
            if (dim_is_const(y->shape[k]) ? (shape[k] = y->shape[k], false) : !dim_eval(y->shape[k], var, size, n, &shape[k]))
                return false;
        note_rows(&q->out[i], (DType)y->dtype, y->rank, shape);
        if (!q->out[i].bytes)
            return false;
    }
    return true;
}

void quick_note(struct tsr_function *f, Tensor *const *x)
{
    Form *m = &f->form.at[0];
    Quick *q = m->quick;
    Tensor *in[QUICK_ARGS];
    bool plain = q != NULL;

    if (!plain)
        return;
    for (int i = 0; plain && i < f->input.n; i++) {
        const Tensor *t = x[m->ncaptures + 1 + i];
        plain = t->contiguous && !t->offset;
        note_rows(&q->in[i], (DType)t->dtype, t->rank, t->shape);
        plain = plain && q->in[i].bytes;
    }
    for (int i = 0; i < q->nin; i++) {
        in[i] = x[q->param[i]];
        q->weight[i] = q->param[i] < m->ncaptures ? in[i] : NULL;
    }
    q->ready = plain && note_results(m, q, x) &&
               fused_launch(&f->bundle->T, q->node->attr->region[0], q->node->attr, in, q->nin, &q->space, &q->kernel);
}

/* ---- a call ---- */

static bool lies_like(const tsr_array *a, const Lie *l)
{
    size_t n = sizeof *a->shape * (size_t)l->rank;

    return a->dtype == l->dtype && a->rank == l->rank && a->data && !memcmp(a->shape, l->shape, n) && !memcmp(a->stride, l->stride, n) &&
           !((uintptr_t)a->data & (l->align - 1));
}

static bool apart(const void *a, size_t n, const void *b, size_t m)
{
    return (uintptr_t)a + n <= (uintptr_t)b || (uintptr_t)b + m <= (uintptr_t)a;
}

static bool fits(const struct tsr_function *f, const Quick *q, const tsr_array *in, int nin, const tsr_array *out)
{
    const Form *m = &f->form.at[0];

    for (int i = 0; i < nin; i++)
        if (!lies_like(&in[i], &q->in[i]))
            return false;
    for (int i = 0; i < q->nin; i++)
        if (q->weight[i] && f->bundle->weight.at[m->capture[q->param[i]]].t != q->weight[i])
            return false;
    for (int i = 0; i < q->nout; i++) {
        if (!out[i].data)
            continue;
        if (!lies_like(&out[i], &q->out[i]))
            return false;
        for (int k = 0; k < nin; k++)
            if (!apart(out[i].data, q->out[i].bytes, in[k].data, q->in[k].bytes))
                return false;
        for (int k = 0; k < i; k++)
            if (out[k].data && !apart(out[i].data, q->out[i].bytes, out[k].data, q->out[k].bytes))
                return false;
    }
    return true;
}

/* Results that the library makes. false: no memory, and nothing is made. */
static bool make_results(const Quick *q, tsr_array *out, Tensor **made)
{
    for (int i = 0; i < q->nout; i++) {
        made[i] = out[i].data ? NULL : tensor_new((DType)q->out[i].dtype, q->out[i].rank, q->out[i].shape);
        if (!out[i].data && !made[i]) {
            tensors_unref(made, i);
            return false;
        }
    }
    return true;
}

bool quick_call(struct tsr_function *f, const tsr_array *in, int nin, tsr_array *out)
{
    Form *m = &f->form.at[0];
    Quick *q = m->quick;
    Tensor *made[QUICK_ARGS];

    if (!q || !q->ready || !fits(f, q, in, nin, out) || !make_results(q, out, made))
        return false;
    for (int i = 0; i < q->nin; i++)
        if (!q->weight[i])
            q->space.arg[i].base = in[q->param[i] - m->ncaptures - 1].data;
    for (int i = 0; i < q->nout; i++)
        q->space.arg[q->nin + q->result[i]].base = made[i] ? tensor_data(made[i]) : out[i].data;
    if (!launch_run(&q->space, &q->kernel)) {
        tensors_unref(made, q->nout);
        return false;
    }
    for (int i = 0; i < q->nout; i++)
        if (made[i]) {
            out[i] = tsr_rows((tsr_dtype)made[i]->dtype, tensor_data(made[i]), made[i]->rank, made[i]->shape);
            out[i].owner = made[i];
        }
    return true;
}
