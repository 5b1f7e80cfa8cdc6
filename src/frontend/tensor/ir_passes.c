/*
 * Passes that programs write: what the library's compiler passes are called by, and what is asked of them.
 *
 * The program gives one function that is called with every graph that was staged (_core.graph_passes_by); the library keeps the
 * passes themselves and their order.  Behind each the graph is verified, and must take and give what it did.
 */
#include "frontend/tensor/ir_values.h"

#include "frontend/eval/eval.h"
#include "ir/graph/foreign.h"

static Value f_run_by(Interp *I, Value *a)              /* function */
{
    value_unref(I->graph_passes);
    I->graph_passes = value_ref(a[0]);
    return VNONE;
}

static Value f_declare(Interp *I, Value *a)             /* name, what */
{
    pass_declare(as_str(a[0])->s, as_str(a[1])->s);
    return VNONE;
}

static Value f_is_op(Interp *I, Value *a)
{
    OpId op;
    return vbool(op_find(as_str(a[0])->s, &op));
}

static Value f_on(Interp *I, Value *a) { return vbool(pass_runs(as_str(a[0])->s)); }

/* What the graph takes and gives must stay as it is: whoever staged it goes by that. */
typedef struct Faces { Vec(TType) in, out; } Faces;

static void list_faces(const Graph *g, Faces *f)
{
    for (int i = 0; i < g->params.n; i++)
        vec_push(&f->in, g->params.at[i]->type[0]);
    for (int i = 0; i < g->results.n; i++)
        vec_push(&f->out, *gvalue_type(g->results.at[i]));
}

static bool same_faces(const Faces *f, const Graph *g)
{
    bool same = f->in.n == g->params.n && f->out.n == g->results.n;
    for (int i = 0; same && i < f->in.n; i++)
        same = ttype_fits(&g->params.at[i]->type[0], &f->in.at[i]);
    for (int i = 0; same && i < f->out.n; i++)
        same = ttype_fits(gvalue_type(g->results.at[i]), &f->out.at[i]);
    return same;
}

/* After a pass of the program: valid IR, that takes and gives what it did. */
static Value f_checked(Interp *I, Value *a)             /* name, before, graph */
{
    Graph *was = graph_self(I, a[1]), *g = was ? graph_self(I, a[2]) : NULL;
    Faces f = {0};
    StrBuf err = {0};
    if (!g)
        return VERR;
    list_faces(was, &f);
    bool ok = graph_verify(g, &err);
    if (ok && !same_faces(&f, g))
        ok = (sb_puts(&err, "it takes or gives other values than before"), false);
    vec_free(&f.in);
    vec_free(&f.out);
    if (!ok) {
        raise(I, EXC_ValueError, "the pass %s left a graph that breaks a rule: %s", as_str(a[0])->s, sb_str(&err));
        sb_done(&err);
        return VERR;
    }
    pass_done(as_str(a[0])->s, &graph_ir, g);
    return VNONE;
}

static bool program_passes_run(Interp *I, Graph *g)
{
    if (I->graph_passes.tag == V_ERR)
        return true;
    Value run = I->graph_passes, arg = graph_value(g);
    I->graph_passes = VERR;                             /* what the passes stage themselves is not theirs to change */
    Value r = value_call(I, run, &arg, 1);
    value_unref(I->graph_passes);
    I->graph_passes = run;
    if (!is_err(r))
        graph_dce(g);
    value_unref(arg);
    value_unref(r);
    return !is_err(r);
}

bool graph_passes_run(Interp *I, Graph **g)
{
    StrBuf err = {0};
    if (!program_passes_run(I, *g))
        return false;
    Graph *now = foreign_passes_run(*g, &err);
    if (!now) {
        graph_complain(I, &err);
        return false;
    }
    graph_unref(*g);
    *g = now;
    sb_done(&err);
    return true;
}

const NativeDef tensor_ir_passes[] = {
    {"_core", "graph_passes_by", f_run_by, "(run) -> None", "What is called with every graph that is staged from now on."},
    {"_core", "pass_declare", f_declare, "(name: str, what: str) -> None", "A pass that --passes lists and --no-pass knows."},
    {"_core", "pass_on", f_on, "(name: str) -> bool", "Is it not switched off?"},
    {"_core", "is_op", f_is_op, "(name: str) -> bool", "Is there an operation of that name?"},
    {"_core", "graph_checked", f_checked, "(name: str, before: GraphIR, graph: GraphIR) -> None", "ValueError unless the graph is valid and of the same type as before."},
    {0},
};
