/*
 * The plan of a graph's sizes, and its use in a call.
 *
 * A parameter's axis is a number, a variable met for the first time (which it
 * binds), or an expression that must come out as the operand's size.  When a
 * function is transformed the operands may be symbolic themselves; then
 * expressions are substituted instead of evaluated.
 */
#include "ir/graph/sizes.h"

#include "ir/graph/level.h"

#include <string.h>

/* -- the plan ------------------------------------------------------------------------------------------------------ */

/* Where a parameter's axis stands among all: says which axis bound a variable. */
static int axis_id(int param, int axis)
{
    return param * 16 + axis;
}

/* The slot of a bound variable, -1: it is none. */
static int var_slot(const SizePlan *p, Dim var)
{
    uintptr_t at;

    return map_find(&p->slot, (uint64_t)var, &at) ? (int)at - 1 : -1;
}

/* Does d need nothing but variables that the parameters bind? */
static bool is_bound(const SizePlan *p, Dim d)
{
    enum { VARS_MAX = 32 };
    Dim v[VARS_MAX];
    int n = dim_vars(d, v, VARS_MAX);

    for (int i = 0; i < n && i < VARS_MAX; i++)
        if (var_slot(p, v[i]) < 0)
            return false;
    return n < VARS_MAX;
}

static void plan_binding(SizePlan *p, SizeStep s)
{
    if (!dim_is_var(s.d) || var_slot(p, s.d) >= 0)
        return;
    s.kind = SIZE_BINDS;
    s.slot = p->var.n;
    vec_push(&p->var, s.d);
    vec_push(&p->home, axis_id(s.param, s.axis));
    map_set(&p->slot, (uint64_t)s.d, (uintptr_t)p->var.n);
    vec_push(&p->step, s);
}

static void plan_test(SizePlan *p, SizeStep s)
{
    int slot = dim_is_const(s.d) ? -1 : var_slot(p, s.d);

    if ((slot >= 0 && p->home.at[slot] == axis_id(s.param, s.axis)) || !is_bound(p, s.d))
        return;
    s.kind = dim_is_const(s.d) ? SIZE_IS : SIZE_EQUALS;
    vec_push(&p->step, s);
}

static void plan_expr(SizePlan *p, Dim d)
{
    int64_t v;

    if (dim_const_value(d, &v) || map_find(&p->at, (uint64_t)d, NULL) || !is_bound(p, d))
        return;
    vec_push(&p->expr, d);
    map_set(&p->at, (uint64_t)d, (uintptr_t)p->expr.n);
}

static void plan_nodes(SizePlan *p, const Graph *g)
{
    for (const Node *n = g->first; n; n = n->next)
        for (int k = 0; k < 4; k++) {
            for (int i = 0; n->flags & NODE_SYMBOLIC && i < n->attr->nd[k]; i++)
                plan_expr(p, n->attr->d[k][i]);
            if (n->attr->region[k])
                plan_nodes(p, n->attr->region[k]);
        }
}

/* Does the node's value follow from the sizes that the parameters bind? */
static bool is_fixed(const SizePlan *p, const Node *n)
{
    enum { UNFIT = OPF_IO | OPF_RANDOM | OPF_STATE | OPF_RAISE | OPF_REGIONS };
    int64_t v;

    if (n->op >= OP_COUNT || n->op == OP_constant || n->nout != 1 || op_info[n->op].flags & UNFIT ||
        op_info[n->op].family >= FAM_CONTROL)
        return false;
    for (int i = 0; i < n->nin; i++)
        if (!p->fixed[n->in[i].node->id] && n->in[i].node->op != OP_constant)
            return false;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < n->attr->nd[k]; i++)
            if (!dim_const_value(n->attr->d[k][i], &v) && !map_find(&p->at, (uint64_t)n->attr->d[k][i], NULL))
                return false;
    return true;
}

static void plan_fixed(SizePlan *p, const Graph *g)
{
    bool any = false;

    p->nnodes = g->nnodes;
    p->fixed = tsr_calloc(sizeof *p->fixed * (g->nnodes + 1));
    for (const Node *n = g->first; n; n = n->next)
        any |= p->fixed[n->id] = is_fixed(p, n);
    if (any) {
        p->made = tsr_calloc(sizeof *p->made * (g->nnodes + 1));
        return;
    }
    tsr_free(p->fixed);
    p->fixed = NULL;
}

static void forget_made(SizePlan *p)
{
    for (uint32_t i = 0; p->made && i < p->nnodes; i++) {
        tensor_unref(p->made[i]);
        p->made[i] = NULL;
    }
    p->serial++;
}

static void plan_params(SizePlan *p, const Graph *g, void (*plan)(SizePlan *p, SizeStep s))
{
    for (int i = 0; i < g->params.n; i++) {
        const TType *y = &g->params.at[i]->type[0];
        for (int k = 0; k < y->rank; k++)
            plan(p, (SizeStep){.param = i, .axis = k, .d = y->shape[k]});
    }
}

const SizePlan *size_plan(Graph *g)
{
    SizePlan *p = g->sizes;

    if (p)
        return p;
    p = g->sizes = tsr_calloc(sizeof *p);
    plan_params(p, g, plan_binding);        /* first: an expression may use what a later parameter binds */
    plan_params(p, g, plan_test);
    plan_nodes(p, g);
    plan_fixed(p, g);
    p->last = tsr_calloc(sizeof *p->last * (size_t)(p->step.n + 1));
    p->bound = tsr_calloc(sizeof *p->bound * (size_t)(p->var.n + 1));
    p->value = tsr_calloc(sizeof *p->value * (size_t)(p->expr.n + 1));
    return p;
}

void size_plan_free(SizePlan *p)
{
    if (!p)
        return;
    forget_made(p);
    tsr_free(p->fixed);
    tsr_free(p->made);
    vec_free(&p->step);
    vec_free(&p->var);
    vec_free(&p->home);
    vec_free(&p->expr);
    map_done(&p->slot);
    map_done(&p->at);
    tsr_free(p->last);
    tsr_free(p->bound);
    tsr_free(p->value);
    tsr_free(p);
}

/* -- a call ----------------------------------------------------------------------------------------------------------- */

static Dim size_at(const SizeStep *s, Tensor *const *in)
{
    return in[s->param]->shape[s->axis];
}

static bool as_last_time(const SizePlan *p, Tensor *const *in)
{
    if (!p->known)
        return false;
    for (int i = 0; i < p->step.n; i++)
        if (size_at(&p->step.at[i], in) != p->last[i])
            return false;
    return true;
}

/* The step that these numbers do not meet, or -1. Sets the numbers of the run. */
static int first_misfit(const SizePlan *p, Tensor *const *in)
{
    int64_t v;

    for (int i = 0; i < p->step.n; i++) {
        const SizeStep *s = &p->step.at[i];
        Dim have = size_at(s, in);
        if (s->kind == SIZE_BINDS)
            dim_set_now(s->d, have);
        else if (s->kind == SIZE_IS ? have != s->d : dim_now(s->d, &v) && v != have)
            return i;
    }
    return -1;
}

static bool conditions_hold(const Graph *g)
{
    for (int i = 0; i < g->conds.n; i++) {
        bool holds = false;
        if (!dim_cond_now(&g->conds.at[i], &holds) || !holds)
            return false;
    }
    return true;
}

static bool remember(SizePlan *p, Tensor *const *in)
{
    int64_t v;

    p->known = false;
    forget_made(p);
    for (int i = 0; i < p->step.n; i++) {
        const SizeStep *s = &p->step.at[i];
        p->last[i] = size_at(s, in);
        if (s->kind == SIZE_BINDS)
            p->bound[s->slot] = p->last[i];
    }
    for (int i = 0; i < p->expr.n; i++) {
        if (!dim_now(p->expr.at[i], &v))
            return false;
        p->value[i] = dim_const(v);
    }
    return p->known = true;
}

static bool all_numbers(const SizePlan *p, Tensor *const *in)
{
    for (int i = 0; i < p->step.n; i++)
        if (!dim_is_const(size_at(&p->step.at[i], in)))
            return false;
    return true;
}

static bool ranks_fit(const Graph *g, int first, Tensor *const *in)
{
    for (int i = first; i < g->params.n; i++)
        if (g->params.at[i]->type[0].rank != in[i]->rank)
            return false;
    return true;
}

bool graph_takes(Graph *g, Tensor *const *in)
{
    SizePlan *p = (SizePlan *)(uintptr_t)size_plan(g);

    if (!ranks_fit(g, 0, in) || !all_numbers(p, in))
        return false;
    if (as_last_time(p, in))
        return true;
    return first_misfit(p, in) < 0 && conditions_hold(g) && remember(p, in);
}

static bool misfit(Trace *T, const SizeStep *s, Dim have)
{
    return trace_fail(T, OPERR_SHAPE, "operand %d has size %s at axis %d where the graph takes %s", s->param + 1, dim_text(have), s->axis,
                      dim_text(s->d));
}

static bool put_conditions(Trace *T, const Graph *g)
{
    StrBuf b = {0};

    graph_print_conds(g, &b);
    trace_fail(T, OPERR_SHAPE, "the graph does not serve these sizes: it is for%s", sb_str(&b));
    sb_done(&b);
    return false;
}

static Dim size_for(const DimEnv *e, Dim d)
{
    return dim_subst(d, e->plan->var.at, e->bound, e->plan->var.n);
}

/* Some operand's size is symbolic: variables stand for sizes, expressions are substituted when they are asked for. */
static bool bind_symbolic(DimEnv *e, Trace *T, const Graph *g, Tensor *const *in)
{
    const SizePlan *p = e->plan;

    for (int i = 0; i < p->step.n; i++) {
        const SizeStep *s = &p->step.at[i];
        Dim have = size_at(s, in);
        if (s->kind == SIZE_BINDS)
            e->bound[s->slot] = have;
    }
    for (int i = 0; i < p->step.n; i++) {
        const SizeStep *s = &p->step.at[i];
        if (s->kind != SIZE_BINDS && dim_ask_eq(size_at(s, in), size_for(e, s->d)) == DIM_REFUTED)
            return misfit(T, s, size_at(s, in));
    }
    for (int i = 0; i < g->conds.n; i++) {
        const DimCond *c = &g->conds.at[i];
        Dim a = size_for(e, c->a), b = size_for(e, c->b);
        if (c->rel == DIM_IS_GE ? dim_ask_ge(a, b) == DIM_REFUTED : dim_same(a, b) != (c->rel == DIM_IS_EQ))
            return put_conditions(T, g);
    }
    return true;
}

bool env_init(DimEnv *e, Trace *T, Graph *g, Tensor *const *in)
{
    SizePlan *p = (SizePlan *)(uintptr_t)size_plan(g);
    int bad;

    *e = (DimEnv){.plan = p, .outer = T->dims};
    for (int i = 0; i < g->params.n; i++)
        if (g->params.at[i]->type[0].rank != in[i]->rank)
            return trace_fail(T, OPERR_SHAPE, "a value with %d axes where the graph takes %d", in[i]->rank, g->params.at[i]->type[0].rank);
    if (p->var.n)
        e->bound = tsr_alloc(sizeof *e->bound * (size_t)(p->var.n + p->expr.n));
    if (!all_numbers(p, in))
        return bind_symbolic(e, T, g, in);
    if (!as_last_time(p, in)) {
        if ((bad = first_misfit(p, in)) >= 0)
            return misfit(T, &p->step.at[bad], size_at(&p->step.at[bad], in));
        if (!conditions_hold(g))
            return put_conditions(T, g);
        if (!remember(p, in))
            return trace_fail(T, OPERR_SHAPE, "a size of the graph is not defined for these operands");
    }
    e->serial = p->serial;
    if (p->var.n) {
        memcpy(e->bound, p->bound, sizeof *e->bound * (size_t)p->var.n);
        e->value = e->bound + p->var.n;
        if (p->expr.n)
            memcpy(e->value, p->value, sizeof *e->value * (size_t)p->expr.n);
    }
    return true;
}

void env_done(DimEnv *e)
{
    tsr_free(e->bound);
    tsr_free(e->from);
    tsr_free(e->to);
}

Dim env_subst(const DimEnv *e, Dim d)
{
    uintptr_t at;

    for (const DimEnv *k = e; k && !dim_is_const(d); k = k->outer)
        if (k->value && map_find(&k->plan->at, (uint64_t)d, &at))
            return k->value[at - 1];
    for (; e && !dim_is_const(d); e = e->outer) {
        if (e->bound)
            d = dim_subst(d, e->plan->var.at, e->bound, e->plan->var.n);
        if (e->n)
            d = dim_subst(d, e->from, e->to, e->n);
    }
    return d;
}

/* Are the plan's values those of this call? */
static bool is_current(const DimEnv *e)
{
    return e->value && e->plan->fixed && e->serial == e->plan->serial;
}

Tensor *env_made(const DimEnv *e, const Node *n)
{
    return is_current(e) ? e->plan->made[n->id] : NULL;
}

void env_keep(DimEnv *e, const Node *n, Tensor *t)
{
    if (!is_current(e) || !e->plan->fixed[n->id] || t->tracer ||
        dtype_nbytes((DType)t->dtype, (size_t)tensor_size(t)) > SIZE_KEPT_MAX)
        return;
    tensor_unref(e->plan->made[n->id]);
    e->plan->made[n->id] = tensor_ref(t);
}

static void bind(DimEnv *e, Dim var, Dim to)
{
    if (e->n == e->cap) {
        e->cap = e->cap ? 2 * e->cap : 8;
        e->from = tsr_realloc(e->from, sizeof(Dim) * (size_t)e->cap);
        e->to = tsr_realloc(e->to, sizeof(Dim) * (size_t)e->cap);
    }
    e->from[e->n] = var;
    e->to[e->n++] = to;
}

bool env_bind_type(DimEnv *e, Trace *T, const TType *y, const Tensor *t)
{
    if (y->rank != t->rank)
        return trace_fail(T, OPERR_SHAPE, "a result with %d axes where the graph has %d", t->rank, y->rank);
    for (int i = 0; i < y->rank; i++) {
        Dim d = y->shape[i] == t->shape[i] ? y->shape[i] : env_subst(e, y->shape[i]);
        if (dim_is_var(d) && d != t->shape[i])
            bind(e, d, t->shape[i]);
        else if (dim_is_const(d) && dim_is_const(t->shape[i]) && d != t->shape[i])
            return trace_fail(T, OPERR_SHAPE, "axis %d has size %s where the graph has %s", i, dim_text(t->shape[i]), dim_text(d));
    }
    return true;
}

static Dim size_of_call(void *st, Dim d)
{
    return env_subst(st, d);
}

Graph *graph_at_sizes(Trace *T, Graph *g, Tensor *const *in)
{
    DimEnv e;
    Graph *c = env_init(&e, T, g, in) ? graph_resize(g, size_of_call, &e) : NULL;

    if (c)
        c->conds.n = 0;
    env_done(&e);
    return c;
}
