/*
 * jit.c - staged functions: a call becomes a Graph once, then the graph runs.
 *
 * The cache holds one entry for each combination of static parts (everything that is
 * no tensor, compared by value), tree structure, tensor dtypes and shapes, and numerics scope.
 * Tensors that the function reads from outside become inputs that the entry
 * remembers; an entry that read tensors of a surrounding transformation serves one call.
 * Random draws inside start from a key that every call passes, so each call draws anew.
 */
#include "frontend/tensor/transform.h"

#include <string.h>

typedef struct Entry {
    Value skeleton;             /* (args, kwargs) with marks for tensors */
    Value result;
    TType *type;
    int n, nout, ncaptures;
    const Policy *numerics;
    Graph *graph;
    Tensor **capture;
    bool random;                /* the graph uses the key */
    struct Entry *next;
} Entry;

typedef struct Staged { Entry *first; int entries, runs; } Staged;

static void entry_free(Entry *e)
{
    value_unref(e->skeleton);
    value_unref(e->result);
    tsr_free(e->type);
    graph_unref(e->graph);
    for (int i = 0; i < e->ncaptures; i++)
        tensor_unref(e->capture[i]);
    tsr_free(e->capture);
    tsr_free(e);
}

static void staged_free(void *state)
{
    Staged *s = state;
    while (s->first) {
        Entry *e = s->first;
        s->first = e->next;
        entry_free(e);
    }
    tsr_free(s);
}

/* ------------------------------------------------------------- finding an entry */

/* The call as one tree: (args..., {name: value}). */
static Value call_tree(Interp *I, const CallArgs *c)
{
    Value t = tuple_new(c->n + 1), kw = dict_new();
    for (int i = 0; i < c->n; i++)
        as_tuple(t)->at[i] = value_ref(c->args[i]);
    for (int i = 0; i < c->nkw; i++)
        dict_set_sym(as_dict(kw), c->kwnames[i], c->kwvals[i]);
    as_tuple(t)->at[c->n] = kw;
    return t;
}

static bool same_type(const TType *t, const Tensor *x)
{
    return t->dtype == x->dtype && t->rank == x->rank && t->weak == x->weak && t->policy == x->policy &&
           !memcmp(t->shape, x->shape, sizeof(Dim) * x->rank);
}

static Entry *find(Interp *I, Staged *s, Value tree, const TensorVec *in, bool *failed)
{
    const Policy *numerics = trace_of(I)->numerics;
    for (Entry **p = &s->first; *p; p = &(*p)->next) {
        Entry *e = *p;
        bool same = e->n == in->n && e->numerics == numerics;
        for (int i = 0; same && i < in->n; i++)
            same = same_type(&e->type[i], in->at[i]);
        int eq = same ? tree_same(I, e->skeleton, tree) : 0;
        if (eq < 0) {
            *failed = true;
            return NULL;
        }
        if (eq) {
            *p = e->next;                               /* most recent first */
            e->next = s->first;
            return s->first = e;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------- making one */

static bool key_used(const Graph *g, int at) { return g->params.at[at]->nuse > 0; }

static void optimise(Graph *g)
{
    graph_fold(g);
    graph_cse(g);
    graph_dce(g);
}

static Entry *build(Interp *I, Transform *t, const CallArgs *c, const TensorVec *in, Value tree)
{
    HostFn h = {.I = I, .f = t->f, .a = *c, .key_first = true, .result = VERR};
    TType *type = tsr_calloc(sizeof *type * (size_t)(in->n + 1));
    Entry *e = tsr_calloc(sizeof *e);
    e->skeleton = e->result = VERR;
    type[0] = (TType){.dtype = DT_uint32, .rank = 1, .shape = {2}};
    for (int i = 0; i < in->n; i++)
        type[i + 1] = tensor_type(in->at[i]);
    Value name = value_getattr_opt(I, t->f, sym("__name__"));
    Sym label = name.tag == V_STR ? sym_n(as_str(name)->s, as_str(name)->len) : sym("function");
    value_unref(name);
    e->graph = stage(trace_of(I), label, host_fn(&h), type, in->n + 1, &e->capture, &e->ncaptures);
    if (!e->graph) {
        raise_op_error(I);
        host_fn_done(&h);
        tsr_free(type);
        tsr_free(e);
        return NULL;
    }
    optimise(e->graph);
    e->random = key_used(e->graph, e->ncaptures);
    e->result = h.result;
    e->nout = h.nresult;
    e->n = in->n;
    e->numerics = trace_of(I)->numerics;
    memmove(type, type + 1, sizeof *type * (size_t)in->n);
    e->type = type;
    e->skeleton = tree_skeleton(I, tree);
    return e;
}

static bool cacheable(const Entry *e)
{
    for (int i = 0; i < e->ncaptures; i++)
        if (e->capture[i]->tracer)
            return false;
    return true;
}

/* ------------------------------------------------------------- running */

static Tensor *no_key(void)
{
    static Tensor *key;
    Dim two = 2;
    if (!key)
        key = tensor_zeros(DT_uint32, 1, &two);
    return key;
}

static Value run(Interp *I, const Entry *e, const TensorVec *in)
{
    Trace *T = trace_of(I);
    int n = e->ncaptures + 1 + e->n, nout = 0;
    Tensor **x = tsr_alloc(sizeof *x * (size_t)n), **out = tsr_calloc(sizeof *out * (size_t)(e->nout + 1));
    Value v = VERR;
    if (e->ncaptures)
        memcpy(x, e->capture, sizeof *x * (size_t)e->ncaptures);
    Tensor *key = e->random ? trace_key(T) : tensor_ref(no_key());
    x[e->ncaptures] = key;
    if (e->n)
        memcpy(x + e->ncaptures + 1, in->at, sizeof *x * (size_t)e->n);
    if (key && graph_apply(T, e->graph, x, n, out, &nout))
        v = result_tree(I, e->result, out, nout);
    else
        raise_op_error(I);
    tensor_unref(key);
    tsr_free(x);
    tsr_free(out);
    return v;
}

enum { OPT_STATIC };

static Value call_jit(Interp *I, Transform *t, const CallArgs *c)
{
    if (!t->state) {
        t->state = tsr_calloc(sizeof(Staged));
        t->state_free = staged_free;
    }
    Staged *s = t->state;
    TensorVec in = {0};
    Value tree = call_tree(I, c), v = VERR;
    bool failed = false;
    if (tree_leaves(I, tree, TREE_ALL, &in)) {
        Entry *e = find(I, s, tree, &in, &failed);
        bool fresh = !e && !failed;
        if (fresh)
            e = build(I, t, c, &in, tree);
        bool keep = e && (!fresh || cacheable(e));
        if (fresh && keep) {
            e->next = s->first;
            s->first = e;
            s->entries++;
        }
        if (e) {
            v = run(I, e, &in);
            s->runs++;
        }
        if (e && !keep)
            entry_free(e);
    }
    vec_free(&in);
    value_unref(tree);
    return v;
}

static Value staged_function(Interp *I, Value f, Value statics, const char *name)
{
    if (is_given(f) && !value_is_callable(f))
        return raise(I, EXC_TypeError, "%s takes a function, not %s", name, value_type_name(f));
    return transform_new(name, call_jit, is_given(f) ? f : VERR, &statics, 1);
}

static Value f_jit(Interp *I, Value *a) { return staged_function(I, a[0], a[1], "jit"); }
static Value f_compile(Interp *I, Value *a) { return staged_function(I, a[0], a[1], "compile"); }
static Value f_function(Interp *I, Value *a) { return staged_function(I, a[0], a[1], "function"); }

/* ------------------------------------------------------------- looking inside */

static Value graph_text(Interp *I, Value *a)            /* f, *args */
{
    Value f = a[0];
    TupleObj *xs = as_tuple(a[1]);
    CallArgs c = {xs->at, (int)xs->n};
    TensorVec in = {0};
    Value tree = call_tree(I, &c), v = VERR;
    Transform probe = {.f = f, .name = "graph"};
    if (tree_leaves(I, tree, TREE_ALL, &in)) {
        Entry *e = build(I, &probe, &c, &in, tree);
        if (e) {
            StrBuf s = {0};
            graph_print(e->graph, &s);
            v = str_steal(&s);
            entry_free(e);
        }
    }
    vec_free(&in);
    value_unref(tree);
    return v;
}

#define JIT "(f: Callable | None = None, /, static_argnums: int | tuple | list | None = None, *, static_argnames=None, capture_graph: bool = False) -> Callable"
const NativeDef tensor_jit_natives[] = {
    {"", "jit", f_jit, JIT, "f staged: its first call with arguments of given shapes makes a graph, later calls run it. What is no tensor is static: "
     "a new value makes a new graph. if, while and for over tensors become part of the graph; a print happens at every call."},
    {"", "compile", f_compile, JIT, "jit under the name that compiles to kernels."},
    {"", "function", f_function, JIT, "Marks a pure tensor function and stages it."},
    {"", "graph_of", graph_text, "(f: Callable, /, *args) -> str", "The text of the graph that f becomes for these arguments."},
    {0},
};
