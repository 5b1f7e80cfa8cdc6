/*
 * When two bodies of `fused` nodes are the same: bytes that say all of a body but what its sizes are called.
 *
 * The layers of a model differ in nothing else, so each of their kernels is made and looked for once.  A size is a
 * number, a variable, told by the place of its first mention, or an expression, which is told as it is.
 */
#include "ir/schedule/fused_impl.h"

#include "runtime/convert.h"
#include "runtime/tensor.h"

#include <string.h>

typedef struct Key {
    StrBuf *out;
    Vec(Dim) seen;              /* variables, in order of mention */
    int *place;                 /* node id -> its place in order */
} Key;

static void put(Key *k, const void *x, size_t n) { sb_write(k->out, x, n); }
static void put_number(Key *k, int64_t x) { put(k, &x, sizeof x); }

static void put_dim(Key *k, Dim d)
{
    Dim of;
    int i = 0;

    if (dim_is_const(d) || dim_vars(d, &of, 1) != 1 || of != d) {
        put_number(k, d);
        return;
    }
    while (i < k->seen.n && k->seen.at[i] != d)
        i++;
    if (i == k->seen.n)
        vec_push(&k->seen, d);
    sb_putc(k->out, 'v');
    put_number(k, i);
}

static void put_type(Key *k, const TType *t)
{
    put_number(k, t->dtype | t->weak << 8 | t->rank << 16);
    put(k, &t->policy, sizeof t->policy);
    for (int i = 0; i < t->rank; i++)
        put_dim(k, t->shape[i]);
}

/* A number by its bits; constants of more elements are whoever they are. */
static void put_constant(Key *k, const Tensor *t)
{
    size_t bytes = raw_size((DType)t->dtype);

    put_number(k, t->dtype | t->rank << 8);
    if (tensor_size(t) == 1 && t->store && !t->store->device)
        put(k, tensor_read(t), bytes);
    else
        put(k, &t, sizeof t);
}

static void put_attr(Key *k, const Attr *a)
{
    const uint8_t few[] = {a->dtype, a->accum, a->compute, a->rounding, a->saturate, a->flush, a->fast, a->kind, a->naxes,
                           a->nd[0], a->nd[1], a->nd[2], a->nd[3]};

    put(k, few, sizeof few);
    put(k, a->axis, a->naxes);
    put(k, &a->policy, sizeof a->policy);
    put_number(k, (int64_t)a->n << 16 | (uint16_t)a->m);
    put(k, &a->f, sizeof a->f);
    put_number(k, a->i);
    put_number(k, a->seed);
    put(k, &a->name, sizeof a->name);
    put(k, &a->host, sizeof a->host);
    put(k, a->region, sizeof a->region);
    for (int i = 0; i < 4; i++)
        for (int n = 0; n < a->nd[i]; n++)
            put_dim(k, a->d[i][n]);
    if (a->value)
        put_constant(k, a->value);
}

static void put_node(Key *k, const Node *n)
{
    put_number(k, n->op | n->nin << 16 | (int64_t)n->nout << 32);
    if (n->op != GRAPH_PARAM)
        put_attr(k, n->attr);
    for (int i = 0; i < n->nin; i++)
        put_number(k, k->place[n->in[i].node->id] | (int64_t)n->in[i].index << 32);
    for (int i = 0; i < n->nout; i++)
        put_type(k, &n->type[i]);
}

void fused_body_key(const Graph *body, StrBuf *out)
{
    int count;
    Key k = {.out = out, .place = graph_places(body, NULL, &count)};

    for (const Node *n = body->first; n; n = n->next)
        put_node(&k, n);
    for (int i = 0; i < body->params.n; i++)
        put_number(&k, k.place[body->params.at[i]->id]);
    for (int i = 0; i < body->results.n; i++)
        put_number(&k, k.place[body->results.at[i].node->id] | (int64_t)body->results.at[i].index << 32);
    vec_free(&k.seen);
    tsr_free(k.place);
}
