/*
 * GraphIR and GraphNode: the Graph IR as a pass written in Tessera sees it.
 *
 * A GraphIR is the graph itself, so a change is a change of what will run; a
 * GraphNode names a node of it and refuses its service once the node is gone.
 * All changes go through ir/graph/edit.h, which types them; and a graph is
 * verified behind every pass, so that a pass can be wrong without breaking
 * anything below it.
 */
#include "frontend/tensor/ir_values.h"

#include "ir/graph/edit.h"
#include "ir/graph/level.h"
#include "ir/schedule/steps.h"

#include <string.h>

typedef struct GraphObj { NativeInst inst; Graph *g; } GraphObj;
typedef struct NodeObj { NativeInst inst; Value graph; Node *n; } NodeObj;

static void graph_free(void *self) { graph_unref(((GraphObj *)self)->g); }
static int64_t graph_len(void *self);
static void graph_repr(Interp *I, void *self, StrBuf *out) { graph_print_placed(((GraphObj *)self)->g, "graph", out); }
static void node_free(void *self) { value_unref(((NodeObj *)self)->graph); }
static void node_repr(Interp *I, void *self, StrBuf *out);
static bool node_setattr(Interp *I, void *self, Sym name, Value v);

static const NativeType graph_type = {.name = "GraphIR", .free = graph_free, .repr = graph_repr, .len = graph_len};
static const NativeType node_type = {.name = "GraphNode", .free = node_free, .repr = node_repr, .setattr = node_setattr};

Value graph_value(Graph *g)
{
    GraphObj *o = nativeobj_new(&graph_type, sizeof *o);
    o->g = graph_ref(g);
    return vobj(o);
}

static bool is_a(Value v, const NativeType *t) { return v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type == t; }

Graph *graph_of_value(Value v) { return is_a(v, &graph_type) ? ((GraphObj *)v.o)->g : NULL; }

static Value node_value(Value graph, Node *n)
{
    NodeObj *o = nativeobj_new(&node_type, sizeof *o);
    o->graph = value_ref(graph);
    o->n = n;
    return vobj(o);
}

Graph *graph_self(Interp *I, Value v)
{
    Graph *g = graph_of_value(v);
    if (!g)
        raise(I, EXC_TypeError, "a GraphIR is wanted, not %s", value_type_name(v));
    return g;
}

/* A node that is still in its graph (g NULL: any graph); NULL: an exception is pending. */
static Node *need_node(Interp *I, Value v, const Graph *g)
{
    NodeObj *o = (NodeObj *)v.o;
    if (!is_a(v, &node_type)) {
        raise(I, EXC_TypeError, "a GraphNode is wanted, not %s", value_type_name(v));
        return NULL;
    }
    if ((g && graph_of_value(o->graph) != g) || !graph_has(graph_of_value(o->graph), o->n)) {
        raise(I, EXC_ValueError, "the node %s is not in this graph (any more)", o->n->op == GRAPH_PARAM ? "parameter" : op_info[o->n->op].name);
        return NULL;
    }
    return o->n;
}

Value graph_complain(Interp *I, StrBuf *err)
{
    Value v = raise(I, EXC_ValueError, "%s", sb_str(err));
    sb_done(err);
    return v;
}

/* ------------------------------------------------------------- graphs */

static int64_t graph_len(void *self)
{
    int64_t n = 0;
    for (const Node *x = ((GraphObj *)self)->g->first; x; x = x->next)
        n += x->op != GRAPH_PARAM;
    return n;
}

static Value p_nodes(Interp *I, Value *a)
{
    Graph *g = graph_self(I, a[0]);
    Value list = g ? list_new(16) : VERR;
    for (Node *n = g ? g->first : NULL; n; n = n->next)
        if (n->op != GRAPH_PARAM)
            list_push(as_list(list), node_value(a[0], n));
    return list;
}

static Value p_params(Interp *I, Value *a)
{
    Graph *g = graph_self(I, a[0]);
    Value list = g ? list_new(4) : VERR;
    for (int i = 0; g && i < g->params.n; i++)
        list_push(as_list(list), node_value(a[0], g->params.at[i]));
    return list;
}

static Value p_results(Interp *I, Value *a)
{
    Graph *g = graph_self(I, a[0]);
    Value list = g ? list_new(4) : VERR;
    for (int i = 0; g && i < g->results.n; i++)
        list_push(as_list(list), node_value(a[0], g->results.at[i].node));
    return list;
}

static Value p_graph_name(Interp *I, Value *a)
{
    Graph *g = graph_self(I, a[0]);
    return !g ? VERR : g->name ? str_sym(g->name) : str_c("");
}

static Value p_text(Interp *I, Value *a)
{
    Graph *g = graph_self(I, a[0]);
    StrBuf s = {0};
    if (!g)
        return VERR;
    graph_print(g, &s);
    return str_steal(&s);
}

/* Nodes of a list or another iterable, each of this graph; *n of them, the caller's to free. NULL: pending. */
static Node **arg_nodes(Interp *I, Value v, const Graph *g, int *n)
{
    Value list = value_to_list(I, v);
    Node **at = is_err(list) ? NULL : tsr_calloc(sizeof *at * (size_t)(as_list(list)->n + 1));
    *n = at ? (int)as_list(list)->n : 0;
    for (int i = 0; at && i < *n; i++)
        if (!(at[i] = need_node(I, as_list(list)->at[i], g))) {
            tsr_free(at);
            at = NULL;
        }
    value_unref(list);
    return at;
}

static Value m_replace(Interp *I, Value *a)             /* self, node, by */
{
    Graph *g = graph_self(I, a[0]);
    Node *n = g ? need_node(I, a[1], g) : NULL, *by = n ? need_node(I, a[2], g) : NULL;
    StrBuf err = {0};
    if (!by)
        return VERR;
    return graph_replace(g, n, by, &err) ? VNONE : graph_complain(I, &err);
}

static Value m_replace_with_constant(Interp *I, Value *a)       /* self, node, value */
{
    Graph *g = graph_self(I, a[0]);
    Node *n = g ? need_node(I, a[1], g) : NULL;
    Tensor *x = n ? arg_tensor(I, a[2], "the constant") : NULL;
    StrBuf err = {0};
    if (!x)
        return VERR;
    bool ok = x->tracer ? (sb_puts(&err, "the constant is not known yet"), false) : graph_set_constant(g, n, x, &err);
    tensor_unref(x);
    return ok ? VNONE : graph_complain(I, &err);
}

static Value m_keep_only(Interp *I, Value *a)           /* self, nodes */
{
    Graph *g = graph_self(I, a[0]);
    int n;
    Node **keep = g ? arg_nodes(I, a[1], g, &n) : NULL;
    StrBuf err = {0};
    if (!keep)
        return VERR;
    bool ok = graph_keep(g, keep, n, &err);
    tsr_free(keep);
    return ok ? value_ref(a[0]) : graph_complain(I, &err);
}

/* The values that operands name: a node of several results stands for its first. */
static Value m_insert(Interp *I, Value *a)              /* self, before, op, *operands, attributes */
{
    Graph *g = graph_self(I, a[0]);
    Node *at = g ? need_node(I, a[1], g) : NULL;
    StrObj *name = at ? need_str(I, a[2], "the operation's name") : NULL;
    StrObj *attributes = name ? need_str(I, a[4], "attributes") : NULL;
    OpId op;
    int n;
    StrBuf err = {0};
    if (!attributes)
        return VERR;
    if (!op_find(name->s, &op))
        return raise(I, EXC_ValueError, "there is no operation '%s'; tessera inspect lists them", name->s);
    Node **operand = arg_nodes(I, a[3], g, &n), *made;
    if (!operand)
        return VERR;
    GValue *in = tsr_alloc(sizeof *in * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        in[i] = (GValue){operand[i], 0};
    made = graph_insert(g, at, op, attributes->s, in, n, &err);
    tsr_free(in);
    tsr_free(operand);
    if (!made)
        return graph_complain(I, &err);
    sb_done(&err);
    return node_value(a[0], made);
}

/* What the function becomes for these inputs, as a graph; NULL: an exception is pending. */
static Graph *staged_for(Interp *I, Value f, const GValue *in, int nin)
{
    Value *arg = tsr_calloc(sizeof *arg * (size_t)(nin + 1));
    TType *type = tsr_calloc(sizeof *type * (size_t)(nin + 1));
    Tensor **capture = NULL;
    int captures = 0;
    HostFn h = {.I = I, .f = f, .a = {arg, nin, NULL, NULL, 0}, .result = VERR};
    Dim none = 0;
    Graph *g;

    for (int i = 0; i < nin; i++) {                     /* what stands for an input while the function runs */
        type[i] = *gvalue_type(in[i]);
        arg[i] = value_of(tensor_zeros((DType)type[i].dtype, 1, &none));
    }
    g = stage(trace_of(I), sym("body"), host_fn(&h), type, nin, &capture, &captures);
    if (g && captures) {
        raise(I, EXC_ValueError, "a replacement uses nothing but its arguments; it read %d tensor%s from outside", captures, captures > 1 ? "s" : "");
        graph_unref(g);
        g = NULL;
    } else if (!g)
        raise_op_error(I);
    for (int i = 0; i < captures; i++)
        tensor_unref(capture[i]);
    tsr_free(capture);
    for (int i = 0; i < nin; i++)
        value_unref(arg[i]);
    host_fn_done(&h);
    tsr_free(arg);
    tsr_free(type);
    return g;
}

static Value m_group(Interp *I, Value *a)               /* self, nodes, name, replacement */
{
    Graph *g = graph_self(I, a[0]), *region = NULL;
    StrObj *name = g ? need_str(I, a[2], "the group's name") : NULL;
    int n, nin;
    Node **nodes = name ? arg_nodes(I, a[1], g, &n) : NULL, *call = NULL;
    StrBuf err = {0};
    bool ok = nodes != NULL;
    if (ok && is_given(a[3])) {
        GValue *in = graph_group_inputs(nodes, n, &nin);
        ok = (region = staged_for(I, a[3], in, nin)) != NULL;
        tsr_free(in);
    }
    if (ok)
        call = graph_group_as(g, nodes, n, (GroupAs){.op = OP_call, .name = sym_n(name->s, name->len)}, region, &err);
    tsr_free(nodes);
    graph_unref(region);
    if (!ok)
        return VERR;
    if (!call)
        return graph_complain(I, &err);
    sb_done(&err);
    return node_value(a[0], call);
}

static Value m_kernel(Interp *I, Value *a)              /* self, nodes, name */
{
    Graph *g = graph_self(I, a[0]);
    StrObj *name = g ? need_str(I, a[2], "the kernel's name") : NULL;
    int n;
    Node **nodes = name ? arg_nodes(I, a[1], g, &n) : NULL, *call;
    StrBuf err = {0};
    if (!nodes)
        return VERR;
    call = graph_group_as(g, nodes, n, (GroupAs){OP_call, CALL_KERNEL, sym_n(name->s, name->len)}, NULL, &err);
    tsr_free(nodes);
    if (!call || !schedule_one_kernel(call->attr->region[0], &err))
        return graph_complain(I, &err);
    sb_done(&err);
    return node_value(a[0], call);
}

/* The nodes that compute f(node), in order, or None. */
static Value m_match(Interp *I, Value *a)               /* self, f, node */
{
    Graph *g = graph_self(I, a[0]), *pattern;
    Node *n = g ? need_node(I, a[2], g) : NULL;
    if (!n)
        return VERR;
    GValue v = {n, 0};
    if (n->nout != 1 || !(pattern = staged_for(I, a[1], &v, 1))) {
        if (exc_pending(I))                             /* it takes no such values */
            exc_clear(I);
        return VNONE;
    }
    for (const PassInfo *p = graph_pass; p->name; p++)
        if (p->when == PASS_STAGED)                     /* as the graph was */
            p->run(pattern);
    Node **at = tsr_calloc(sizeof *at * (g->nnodes + 1));
    int found = graph_match(g, pattern, v, at);
    Value list = found ? list_new(found) : VNONE;
    for (int i = 0; i < found; i++)
        list_push(as_list(list), node_value(a[0], at[i]));
    tsr_free(at);
    graph_unref(pattern);
    return list;
}

static Value m_verify(Interp *I, Value *a)
{
    Graph *g = graph_self(I, a[0]);
    StrBuf err = {0};
    if (!g)
        return VERR;
    return graph_verify(g, &err) ? VNONE : graph_complain(I, &err);
}

static Value m_clone(Interp *I, Value *a)
{
    Graph *g = graph_self(I, a[0]);
    if (!g)
        return VERR;
    Graph *copy = graph_clone(g);
    Value v = graph_value(copy);
    graph_unref(copy);
    return v;
}

/* ------------------------------------------------------------- nodes */

/* A call made by a pass goes by its name. */
static const char *op_text(const Node *n)
{
    if (n->op == GRAPH_PARAM)
        return "parameter";
    return n->op == OP_call && n->attr->name ? n->attr->name->text : op_info[n->op].name;
}

static void node_repr(Interp *I, void *self, StrBuf *out)
{
    const NodeObj *o = self;
    sb_printf(out, "<node %u %s", o->n->id, op_text(o->n));
    for (int i = 0; i < o->n->nout; i++) {
        sb_puts(out, i ? ", " : ": ");
        ttype_print(&o->n->type[i], out);
    }
    sb_putc(out, '>');
}

static Value p_op(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    return n ? str_c(op_text(n)) : VERR;
}

static bool node_setattr(Interp *I, void *self, Sym name, Value v)
{
    NodeObj *o = self;
    Node *n = need_node(I, vobj(o), NULL), *call;
    StrBuf err = {0};
    if (!n)
        return false;
    if (strcmp(name->text, "op")) {
        raise(I, EXC_AttributeError, "'%s' of a node cannot be assigned; only op can", name->text);
        return false;
    }
    StrObj *s = need_str(I, v, "the operation's name");
    if (!s)
        return false;
    if (!(call = graph_group(graph_of_value(o->graph), &n, 1, sym_n(s->s, s->len), &err))) {
        graph_complain(I, &err);
        return false;
    }
    o->n = call;
    return true;
}

/* The call in which it stands whose name was asked for (_core.jit_within), else its operation. */
static Value p_step(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    const char *at = n && n->scope ? strstr(n->scope->text, SCOPE_CALL) : NULL;
    if (!n)
        return VERR;
    if (!at)
        return str_c(op_text(n));
    at += sizeof SCOPE_CALL - 1;
    return str_new(at, strcspn(at, " "));
}

static Value p_scope(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    return !n ? VERR : n->scope ? str_c(n->scope->text) : VNONE;
}

static Value p_inputs(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    Value list = n ? list_new(n->nin) : VERR;
    for (int i = 0; n && i < n->nin; i++)
        list_push(as_list(list), node_value(((NodeObj *)a[0].o)->graph, n->in[i].node));
    return list;
}

static Value p_users(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    Value list = n ? list_new(2) : VERR;
    for (Node *x = n ? n->next : NULL; x; x = x->next)
        for (int i = 0; i < x->nin; i++)
            if (x->in[i].node == n) {
                list_push(as_list(list), node_value(((NodeObj *)a[0].o)->graph, x));
                break;
            }
    return list;
}

static Value p_attributes(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    StrBuf s = {0};
    if (!n)
        return VERR;
    if (n->op != GRAPH_PARAM)
        attr_print((OpId)n->op, n->attr, &s);
    return str_steal(&s);
}

static Value p_types(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    Value list = n ? list_new(n->nout) : VERR;
    for (int i = 0; n && i < n->nout; i++) {
        StrBuf s = {0};
        ttype_print(&n->type[i], &s);
        list_push(as_list(list), str_steal(&s));
    }
    return list;
}

/* Sizes of the first result: ints, and texts of what only a call tells. */
static Value p_shape(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    const TType *y = n && n->nout ? &n->type[0] : NULL;
    Value t = n ? tuple_new(y ? y->rank : 0) : VERR;
    for (int i = 0; y && i < y->rank; i++) {
        StrBuf s = {0};
        dim_print(y->shape[i], &s);
        as_tuple(t)->at[i] = dim_is_const(y->shape[i]) ? vint(y->shape[i]) : str_steal(&s);
        sb_done(&s);
    }
    return t;
}

static Value p_dtype(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    if (!n)
        return VERR;
    return n->nout ? str_c(dtype_info[n->type[0].dtype].name) : VNONE;
}

static Value p_value(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    if (!n)
        return VERR;
    return n->op == OP_constant ? value_of(tensor_ref(n->attr->value)) : VNONE;
}

static Value p_is_constant(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    return n ? vbool(n->op == OP_constant) : VERR;
}

static Value p_effects(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    unsigned flags = n && n->op != GRAPH_PARAM ? node_effects(n) : 0;
    Value list = n ? list_new(1) : VERR;
    for (int i = 0; n && i < EFFECT_COUNT; i++)
        if (flags & op_effect[i].flag)
            list_push(as_list(list), str_c(op_effect[i].name));
    return list;
}

static Value p_bodies(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    Value list = n ? list_new(2) : VERR;
    for (int k = 0; n && n->op != GRAPH_PARAM && k < 4; k++)
        if (n->attr->region[k])
            list_push(as_list(list), graph_value(n->attr->region[k]));
    return list;
}

static Value p_place(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    Place at = n && n->span.hi ? source_place(n->span.lo) : (Place){0};
    StrBuf s = {0};
    if (!n)
        return VERR;
    if (at.src)
        sb_printf(&s, "%s:%u", at.src->path, at.line);
    return str_steal(&s);
}

/* Its value when all it depends on are constants; None when one is not, or when it would fail or has effects. */
static Value m_evaluate(Interp *I, Value *a)
{
    Node *n = need_node(I, a[0], NULL);
    Tensor *in[16], *out[16] = {NULL};
    Trace T;
    int nout = 0;
    if (!n)
        return VERR;
    if (n->op == GRAPH_PARAM || n->nin > 16 || n->nout != 1 || n->flags & NODE_SYMBOLIC || node_effects(n) ||
        (op_info[n->op].flags & OPF_REGIONS && n->op != OP_call))
        return VNONE;
    for (int i = 0; i < n->nin; i++) {
        if (n->in[i].node->op != OP_constant)
            return VNONE;
        in[i] = n->in[i].node->attr->value;
    }
    if (n->op == OP_constant)
        return value_of(tensor_ref(n->attr->value));
    trace_init(&T);
    bool ok = apply_concrete(&T, (OpId)n->op, n->attr, in, n->nin, out, &nout);
    trace_done(&T);
    return ok ? value_of(out[0]) : VNONE;
}

static Value m_same(Interp *I, Value *a)
{
    return vbool(is_a(a[0], &node_type) && is_a(a[1], &node_type) && ((NodeObj *)a[0].o)->n == ((NodeObj *)a[1].o)->n);
}

static Value m_other(Interp *I, Value *a)
{
    Value same = m_same(I, a);
    return vbool(!same.i);
}

static Value m_hash(Interp *I, Value *a) { return vint((int64_t)(((uintptr_t)((NodeObj *)a[0].o)->n) >> 4)); }

const NativeDef tensor_ir_natives[] = {
    {"", "GraphIR", NULL, "type[GraphIR]", "A staged function's graph, as passes see it; str() is its text."},
    {"", "GraphNode", NULL, "type[GraphNode]", "A node of a GraphIR."},
    {"GraphIR", "nodes", p_nodes, "property[list]", "Its nodes in the order in which they run, without parameters."},
    {"GraphIR", "operations", p_nodes, "property[list]", "Its nodes."},
    {"GraphIR", "inputs", p_params, "property[list]", "Its parameters: what the function read from outside, a random key, the arguments' tensors."},
    {"GraphIR", "outputs", p_results, "property[list]", "The node of each result."},
    {"GraphIR", "name", p_graph_name, "property[str]", "The function's name."},
    {"GraphIR", "text", p_text, "property[str]", "Its text, which reads back as the same graph."},
    {"GraphIR", "replace", m_replace, "(self, node: GraphNode, by: GraphNode) -> None", "Users of node use by instead, which must be of the same type and computed before them."},
    {"GraphIR", "replace_with_constant", m_replace_with_constant, "(self, node: GraphNode, value: Tensor) -> None", "A constant of the same type in the node's place."},
    {"GraphIR", "keep_only", m_keep_only, "(self, nodes) -> GraphIR", "Remove every other node; ValueError when one of these, a result or an effect needs it."},
    {"GraphIR", "insert", m_insert, "(self, before: GraphNode, op: str, /, *operands, attributes: str = '') -> GraphNode", "A new node; attributes as in the graph's text: \"axes=(-1)\"."},
    {"GraphIR", "group", m_group, "(self, nodes, name: str, replacement=None) -> GraphNode", "One node of that name for several: it computes what they did, or what the function `replacement` computes from the same inputs."},
    {"GraphIR", "kernel", m_kernel, "(self, nodes, name: str) -> GraphNode", "One node of that name for several, and one kernel; ValueError says why they are none."},
    {"GraphIR", "match", m_match, "(self, f, node: GraphNode) -> list | None", "The nodes, in order, that compute f(node); None when the graph does not compute it."},
    {"GraphIR", "verify", m_verify, "(self) -> None", "ValueError that names the first rule of the IR that does not hold."},
    {"GraphIR", "clone", m_clone, "(self) -> GraphIR", "A copy."},
    {"GraphNode", "op", p_op, "property[str]", "Its operation; assigning a name makes a node of that name that computes the same."},
    {"GraphNode", "step", p_step, "property[str]", "The call in which it stands, name#number, where calls of that name are told apart; else its operation."},
    {"GraphNode", "scope", p_scope, "property[str | None]", "The with blocks around it: device=gpu:0 mesh_axis=data."},
    {"GraphNode", "inputs", p_inputs, "property[list]", "The nodes of its operands."},
    {"GraphNode", "users", p_users, "property[list]", "The nodes that use it."},
    {"GraphNode", "attributes", p_attributes, "property[str]", "Its attributes as text."},
    {"GraphNode", "types", p_types, "property[list]", "The types of its results, as text."},
    {"GraphNode", "shape", p_shape, "property[tuple]", "The sizes of its first result: ints, and texts of sizes that a call brings."},
    {"GraphNode", "dtype", p_dtype, "property[str | None]", "The dtype of its first result."},
    {"GraphNode", "value", p_value, "property[Tensor | None]", "A constant's value."},
    {"GraphNode", "is_constant", p_is_constant, "property[bool]", "Is it a constant?"},
    {"GraphNode", "effects", p_effects, "property[list]", "What it does besides computing."},
    {"GraphNode", "bodies", p_bodies, "property[list]", "The graphs of its regions."},
    {"GraphNode", "place", p_place, "property[str]", "The line of the program that it is from."},
    {"GraphNode", "evaluate", m_evaluate, "(self) -> Tensor | None", "Its value, when all it depends on are constants."},
    {"GraphNode", "__eq__", m_same, "(self, other) -> bool", "The same node?"},
    {"GraphNode", "__ne__", m_other, "(self, other) -> bool", "Another node?"},
    {"GraphNode", "__hash__", m_hash, "(self) -> int", "Of the node."},
    {0},
};
