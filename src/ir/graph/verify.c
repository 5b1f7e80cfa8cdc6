/*
 * The rules of the Graph IR, checked one by one: operands come before their
 * users, types are what the op table says, use counts are right, ordered effects
 * are in order, results and parameters belong to the graph, and regions keep the rules too.
 */
#include "ir/graph/graph.h"

#include <stdarg.h>

typedef struct Check {
    const Graph *g;
    StrBuf *err;
    uint32_t *uses;             /* by id */
    bool *defined;
    uint32_t token[EFFECT_COUNT];       /* of the last op with that effect */
} Check;

static bool broken(Check *c, const Node *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool broken(Check *c, const Node *n, const char *fmt, ...)
{
    va_list ap;

    if (n)
        sb_printf(c->err, "node %u (%s): ", n->id, n->op == GRAPH_PARAM ? "parameter" : op_info[n->op].name);
    va_start(ap, fmt);
    sb_vprintf(c->err, fmt, ap);
    va_end(ap);
    return false;
}

static bool value_ok(Check *c, const Node *user, GValue v)
{
    if (!v.node || v.node->id >= c->g->nnodes || !c->defined[v.node->id])
        return broken(c, user, "uses a value that is not defined before it");
    if (v.index < 0 || v.index >= v.node->nout)
        return broken(c, user, "uses result %d of a node with %d", v.index, v.node->nout);
    c->uses[v.node->id]++;
    return true;
}

static bool types_ok(Check *c, const Node *n)
{
    TType *x = tsr_alloc(sizeof *x * (size_t)(n->nin + 1)), *y = tsr_alloc(sizeof *y * (size_t)graph_max_results((OpId)n->op, n->attr));
    StrBuf why = {0};
    int nout = 0, code;
    bool ok;

    for (int i = 0; i < n->nin; i++)
        x[i] = *gvalue_type(n->in[i]);
    ok = op_infer((OpId)n->op, n->attr, x, n->nin, y, &nout, &why, &code);
    if (!ok)
        broken(c, n, "%s", sb_str(&why));
    else if (nout != n->nout)
        ok = broken(c, n, "has %d results instead of %d", n->nout, nout);
    for (int i = 0; i < nout && ok; i++)
        if (!result_fits((OpId)n->op, &n->type[i], &y[i]))
            ok = broken(c, n, "result %d has a type that the op table does not give", i);
    sb_done(&why);
    tsr_free(x);
    tsr_free(y);
    return ok;
}

/* Ops with the same ordered effect have tokens that grow along the list. */
static bool token_ok(Check *c, const Node *n)
{
    unsigned flags = node_effects(n);

    for (int i = 0; i < EFFECT_COUNT; i++)
        if (flags & op_effect[i].flag && op_effect[i].ordered) {
            if (n->token <= c->token[i])
                return broken(c, n, "its effect %s comes too late: token %u after %u", op_effect[i].name, n->token, c->token[i]);
            c->token[i] = n->token;
        }
    return true;
}

static bool node_ok(Check *c, const Node *n)
{
    if (n->op > OP_COUNT)
        return broken(c, n, "there is no op %d", n->op);
    for (int i = 0; i < n->nin; i++)
        if (!value_ok(c, n, n->in[i]))
            return false;
    c->defined[n->id] = true;
    if (n->op == GRAPH_PARAM)
        return n->nin == 0 || broken(c, n, "a parameter has no operands");
    for (int k = 0; k < 4; k++)
        if (n->attr->region[k] && !graph_verify(n->attr->region[k], c->err))
            return broken(c, n, " (in region %d)", k);
    return token_ok(c, n) && types_ok(c, n);
}

static bool is_param(const Graph *g, const Node *n)
{
    for (int i = 0; i < g->params.n; i++)
        if (g->params.at[i] == n)
            return true;
    return false;
}

static bool graph_ok(Check *c)
{
    const Graph *g = c->g;

    for (const Node *n = g->first; n; n = n->next) {
        if (n->id >= g->nnodes || (n->next && n->next->prev != n))
            return broken(c, n, "the list of nodes is damaged");
        if (n->op == GRAPH_PARAM && !is_param(g, n))
            return broken(c, n, "is not among the graph's parameters");
        if (!node_ok(c, n))
            return false;
    }
    for (int i = 0; i < g->params.n; i++)
        if (g->params.at[i]->op != GRAPH_PARAM || !c->defined[g->params.at[i]->id])
            return broken(c, NULL, "parameter %d is not a node of the graph", i);
    for (int i = 0; i < g->results.n; i++)
        if (!value_ok(c, NULL, g->results.at[i]))
            return false;
    for (const Node *n = g->first; n; n = n->next)
        if (n->nuse != c->uses[n->id])
            return broken(c, n, "counts %u uses, has %u", n->nuse, c->uses[n->id]);
    return true;
}

bool graph_verify(const Graph *g, StrBuf *err)
{
    Check c = {.g = g, .err = err};
    bool ok;

    c.uses = tsr_calloc(sizeof *c.uses * (g->nnodes + 1));
    c.defined = tsr_calloc(g->nnodes + 1);
    dim_push();
    for (int i = 0; i < g->conds.n; i++)                /* what the types may rest on */
        dim_cond_assume(&g->conds.at[i]);
    ok = graph_ok(&c);
    dim_pop();
    tsr_free(c.uses);
    tsr_free(c.defined);
    return ok;
}
