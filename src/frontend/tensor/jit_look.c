/*
 * Looking at staged functions: the text of their graphs on every level, types, effects, decorators.
 */
#include "frontend/eval/eval.h"
#include "frontend/tensor/ir_values.h"
#include "frontend/tensor/jit_entry.h"
#include "ir/schedule/lowered.h"

#include <string.h>

/* The entry for these arguments, or the last one used when there are none; NULL with an exception. *mine: free it. */
static Entry *entry_for(Interp *I, Value f, TupleObj *xs, bool *mine)
{
    Transform *t = transform_of(f), probe = {.f = f, .name = "graph"};
    Staged *s = t ? t->state : NULL;
    CallArgs c = {xs->at, (int)xs->n};
    TensorVec in = {0};
    Entry *e = NULL;
    *mine = false;
    if (!xs->n && s && s->first)
        return s->first;
    if (!xs->n && t) {
        raise(I, EXC_ValueError, "the function was not staged yet: call it first, or give example arguments");
        return NULL;
    }
    Value tree = jit_call_tree(I, &c);
    if (tree_leaves(I, tree, TREE_ALL, &in))
        e = jit_build(I, t && !is_err(t->f) ? t : &probe, &c, &in, tree, NULL);
    *mine = e != NULL;
    vec_free(&in);
    value_unref(tree);
    return e;
}

/* The text of a graph at a level below; V_ERR with what it cannot be lowered for. */
static Value level_text(Interp *I, Graph *g, IrLevel level)
{
    StrBuf s = {0}, err = {0};
    bool ok = lowered_print(g, level, &s, &err);
    Value v = ok ? str_steal(&s) : raise(I, EXC_ValueError, "%s", sb_str(&err));

    sb_done(&err);
    sb_done(&s);
    return v;
}

/* Which level a text names. false: ValueError lists them. */
static bool arg_level(Interp *I, Value v, IrLevel *out)
{
    if (v.tag == V_STR && level_find(as_str(v)->s, out))
        return true;
    raise(I, EXC_ValueError, "there is no IR %s; the levels are graph, schedule, tile, target", v.tag == V_STR ? as_str(v)->s : "of that name");
    return false;
}

/* f.inspect_ir(level, *args): the text. */
static Value m_inspect_ir(Interp *I, Value *a)
{
    IrLevel level;
    bool mine;
    Entry *e = arg_level(I, a[1], &level) ? entry_for(I, a[0], as_tuple(a[2]), &mine) : NULL;
    if (!e)
        return VERR;
    Value text = level_text(I, e->graph, level);
    if (mine)
        jit_entry_free(e);
    return text;
}

/* inspect_ir(level): of the function that was staged last. */
static Value f_inspect_ir(Interp *I, Value *a)
{
    IrLevel level;
    if (!arg_level(I, a[0], &level))
        return VERR;
    if (is_err(I->last_graph))
        return raise(I, EXC_ValueError, "no function was staged yet: call one that has @jit first");
    return level_text(I, graph_of_value(I->last_graph), level);
}

/* f.ir("tile"): the IR as an object. */
static Value ir_object(Interp *I, Graph *g, IrLevel level)
{
    if (level == LEVEL_GRAPH)
        return graph_value(g);
    Value m = import_module(I, "compiler"), text = is_err(m) ? VERR : level_text(I, g, level), v = VERR;
    if (!is_err(text)) {
        Value args[] = {str_c(level_name[level]), text};
        v = value_call_method(I, m, sym("_level"), args, 2);
        value_unref(args[0]);
    }
    value_unref(text);
    value_unref(m);
    return v;
}

static Value graph_text(Interp *I, Value *a)            /* f, *args */
{
    bool mine;
    Entry *e = entry_for(I, a[0], as_tuple(a[1]), &mine);
    StrBuf s = {0};
    if (!e)
        return VERR;
    graph_print(e->graph, &s);
    if (mine)
        jit_entry_free(e);
    return str_steal(&s);
}

static Value m_ir(Interp *I, Value *a)                  /* f, *args */
{
    TupleObj *xs = as_tuple(a[1]);
    IrLevel level;
    bool mine;
    if (xs->n != 1 || xs->at[0].tag != V_STR || !level_find(as_str(xs->at[0])->s, &level))
        return graph_text(I, a);
    Value none = tuple_new(0);
    Entry *e = entry_for(I, a[0], as_tuple(none), &mine);
    value_unref(none);
    return e ? ir_object(I, e->graph, level) : VERR;
}

static Value m_shapes(Interp *I, Value *a)
{
    bool mine;
    Entry *e = entry_for(I, a[0], as_tuple(a[1]), &mine);
    StrBuf s = {0};
    if (!e)
        return VERR;
    sb_putc(&s, '(');
    for (int i = 0; i < e->n; i++) {
        sb_puts(&s, i ? ", " : "");
        ttype_print(&e->type[i], &s);
    }
    sb_puts(&s, ") -> (");
    for (int i = 0; i < e->nout; i++) {
        sb_puts(&s, i ? ", " : "");
        ttype_print(gvalue_type(e->graph->results.at[i]), &s);
    }
    sb_putc(&s, ')');
    if (mine)
        jit_entry_free(e);
    return str_steal(&s);
}

static Value m_effects(Interp *I, Value *a)
{
    bool mine;
    Entry *e = entry_for(I, a[0], as_tuple(a[1]), &mine);
    if (!e)
        return VERR;
    unsigned flags = graph_effects(e->graph) | (e->random ? OPF_RANDOM : 0);
    Value list = list_new(2);
    for (int i = 0; i < EFFECT_COUNT; i++)
        if (flags & op_effect[i].flag)
            list_push(as_list(list), str_c(op_effect[i].name));
    if (mine)
        jit_entry_free(e);
    return list;
}

/* The names of the decorators, from the function outwards. */
static Value m_stages(Interp *I, Value *a)
{
    Value list = list_new(4), f = value_ref(a[0]), name, inner;
    for (;;) {                                          /* decorators of the library say what they are: __stage__ */
        Transform *t = transform_of(f);
        name = t ? str_c(t->name) : f.tag == V_FUNC ? value_getattr_opt(I, f, sym("__stage__")) : VERR;
        if (is_err(name))
            break;
        list_push(as_list(list), name);
        inner = t ? value_ref(t->f) : value_getattr_opt(I, f, sym("__wrapped__"));
        value_unref(f);
        f = inner;
    }
    value_unref(f);
    ListObj *l = as_list(list);
    for (int64_t i = 0; i < l->n / 2; i++) {
        Value v = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = v;
    }
    return list;
}

/* How many graphs the function has become. */
static Value m_compiles(Interp *I, Value *a)
{
    Transform *t = transform_of(a[0]);
    return vint(t && t->state ? ((Staged *)t->state)->entries : 0);
}

const NativeDef tensor_look_natives[] = {
    {"tessera.function", "ir", m_ir, "(self, *args)", "The text of its graph, for example arguments or of the last call; of a level (\"graph\", \"schedule\", \"tile\", \"target\") an object with .operations."},
    {"tessera.function", "inspect_ir", m_inspect_ir, "(self, level: str, *args) -> str", "The text of its graph at a level, graph, schedule, tile or target: for example arguments, or of the last call."},
    {"tessera.function", "shapes", m_shapes, "(self, *args) -> str", "The types of its tensors and results."},
    {"tessera.function", "effects", m_effects, "(self, *args) -> list", "What its graph does besides computing: io, state, collective, raise, random, memory."},
    {"tessera.function", "stages", m_stages, "(self) -> list", "Its decorators, from the function outwards."},
    {"tessera.function", "compiles", m_compiles, "(self) -> int", "How many graphs it has become: one for each kind of arguments."},
    {"tessera.transform", "stages", m_stages, "(self) -> list", "Its decorators, from the function outwards."},
    {"", "graph_of", graph_text, "(f: Callable, /, *args) -> str", "The text of the graph that f becomes for these arguments."},
    {"", "inspect_ir", f_inspect_ir, "(level: str = 'graph') -> str", "The text, at a level (graph, schedule, tile, target), of the function that was staged last."},
    {0},
};
