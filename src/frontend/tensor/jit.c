/*
 * jit.c - staged functions: a call becomes a Graph once, then the graph runs.
 *
 * The cache holds one entry for each combination of static parts (everything that is
 * no tensor, compared by value), tree structure, tensor dtypes, and numerics scope, and for the sizes that meet the conditions
 * of its graph (jit_sizes.h).
 * What the function reads from outside is guarded (guard.h): changed tensors are new inputs of the same graph,
 * other changes make another entry, stores happen after every run.  An entry that read tensors of a surrounding
 * transformation serves one call.
 * A number that keeps changing (a step count, a rate) would make a graph a call: after
 * LIFT_AFTER graphs that differ only in numbers, those numbers become tensors too, unless the function
 * needs them as numbers (sizes, static_argnums).  Random draws inside start from a key that every call passes, so each call draws anew.
 */
#include "frontend/tensor/jit_entry.h"
#include "frontend/tensor/jit_mode.h"
#include "frontend/tensor/ranges.h"
#include "frontend/tensor/watch.h"
#include "frontend/tensor/whole.h"
#include "ir/schedule/rehearse.h"
#include "ir/schedule/schedule.h"

#include <string.h>

enum { LIFT_AFTER = 3, ENTRIES_MAX = 64 };

void jit_entry_free(Entry *e)
{
    value_unref(e->skeleton);
    value_unref(e->result);
    tsr_free(e->type);
    tsr_free(e->kept);
    graph_unref(e->graph);
    graph_unref(e->fused);
    for (int i = 0; i < e->ncaptures; i++)
        tensor_unref(e->capture[i]);
    tsr_free(e->capture);
    guard_free(e->guard);
    replay_free(e->replay);
    fitted_done(&e->fitted);
    tsr_free(e);
}

static void staged_free(void *state)
{
    Staged *s = state;
    while (s->first) {
        Entry *e = s->first;
        s->first = e->next;
        jit_entry_free(e);
    }
    tsr_free(s->lift);
    tsr_free(s);
}

static void staged_visit(void *state, void (*fn)(Value *v, void *st), void *st)
{
    for (Entry *e = ((Staged *)state)->first; e; e = e->next) {
        fn(&e->skeleton, st);
        fn(&e->result, st);
        guard_visit(e->guard, fn, st);
    }
}

/* The oldest entries go: a function whose outside changes with every call must not keep all its graphs. */
static void drop_old(Staged *s)
{
    Entry **p = &s->first;
    for (int i = 0; *p && i < ENTRIES_MAX; i++)
        p = &(*p)->next;
    if (*p) {
        jit_entry_free(*p);
        *p = NULL;
        s->entries--;
    }
}

/* ------------------------------------------------------------- finding an entry */

/* The call as one tree: (args..., {name: value}). */
Value jit_call_tree(Interp *I, const CallArgs *c)
{
    Value t = tuple_new(c->n + 1), kw = dict_new();
    for (int i = 0; i < c->n; i++)
        as_tuple(t)->at[i] = value_ref(c->args[i]);
    for (int i = 0; i < c->nkw; i++)
        dict_set_sym(as_dict(kw), c->kwnames[i], c->kwvals[i]);
    as_tuple(t)->at[c->n] = kw;
    return t;
}

/* Sizes apart: the graph has conditions for them. */
bool jit_same_kind(const TType *t, const Tensor *x)
{
    return t->dtype == x->dtype && t->rank == x->rank && t->weak == x->weak && t->policy == x->policy;
}

enum { FEW = 32 };

/* The operands of the graph: what it captured, the key, the arguments; in `few` when they fit. */
static Tensor **operands(const Entry *e, Tensor *key, const TensorVec *in, Tensor **few)
{
    int n = e->ncaptures + 1 + e->n;
    Tensor **x = n <= FEW ? few : tsr_alloc(sizeof *x * (size_t)n);
    if (e->ncaptures)
        memcpy(x, e->capture, sizeof *x * (size_t)e->ncaptures);
    x[e->ncaptures] = key;
    if (e->n)
        memcpy(x + e->ncaptures + 1, in->at, sizeof *x * (size_t)e->n);
    return x;
}

bool jit_sizes_fit(const Entry *e, const TensorVec *in)
{
    if (e->within) {
        for (int i = 0; i < e->n; i++)
            if (memcmp(e->type[i].shape, in->at[i]->shape, sizeof(Dim) * in->at[i]->rank))
                return false;
        return true;
    }
    Tensor *few[FEW], *key = trace_no_key(), **x = key ? operands(e, key, in, few) : few;
    bool fit = key && graph_takes(e->graph, x);
    tensor_unref(key);
    if (x != few)
        tsr_free(x);
    return fit;
}

/* Graphs that were staged within another function know its sizes: they end with it. */
static void drop_within(Staged *s)
{
    for (Entry **p = &s->first; *p;) {
        Entry *e = *p;
        if (e->within && e->within != dim_asking_id()) {
            *p = e->next;
            s->entries--;
            jit_entry_free(e);
        } else
            p = &e->next;
    }
}

/* Is what e read from outside as it was, tensors apart? Those become its captures. 1, 0, -1 pending. */
static int still_holds(Entry *e)
{
    Tensor **now = tsr_calloc(sizeof *now * (size_t)(e->ncaptures + 1)), **old = e->capture;
    for (int i = 0; i < e->ncaptures; i++)
        now[i] = tensor_ref(old[i]);
    int ok = guard_check(e->guard, now);
    if (ok == 1)
        e->capture = now, now = old;
    for (int i = 0; i < e->ncaptures; i++)
        tensor_unref(now[i]);
    tsr_free(now);
    return ok;
}

static Sym lasting_scope(Interp *I) { return scope_lasting(trace_of(I)->scope); }

static Entry *find(Interp *I, Staged *s, Value tree, const TensorVec *in, bool *failed)
{
    const Policy *numerics = trace_of(I)->numerics;
    drop_within(s);
    for (Entry **p = &s->first; *p; p = &(*p)->next) {
        Entry *e = *p;
        bool same = e->n == in->n && e->numerics == numerics && e->place == trace_of(I)->place && e->scope == lasting_scope(I);
        for (int i = 0; same && i < in->n; i++)
            same = jit_same_kind(&e->type[i], in->at[i]);
        int eq = same && jit_sizes_fit(e, in) ? tree_same(I, e->skeleton, tree) : 0;
        if (eq > 0)
            eq = still_holds(e);
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

static bool cacheable(const Entry *e)
{
    for (int i = 0; i < e->ncaptures; i++)
        if (e->capture[i]->tracer)
            return false;
    return true;
}

/* ------------------------------------------------------------- running */

static int64_t count_kernels(const Graph *g)
{
    int64_t n = 0;
    for (const Node *x = g->first; x; x = x->next) {
        n += x->op == OP_fused;
        for (int k = 0; x->op != OP_fused && k < 4; k++)
            n += x->attr->region[k] ? count_kernels(x->attr->region[k]) : 0;
    }
    return n;
}

/* The graph to run on these operands: kernels are for values, transformations look at every op. */
static Graph *graph_for(Interp *I, const Transform *t, Entry *e, Tensor *const *x, int n, bool limited)
{
    if (!trace_run_fused || trace_of(I)->watch)
        return e->graph;
    for (int i = 0; i < n; i++)
        if (x[i]->tracer)
            return e->graph;
    if (!e->looked) {
        e->looked = true;
        e->fused = schedule_make(e->graph);
        if (e->fused && !limited)
            graph_prepare(trace_of(I), e->fused, x);
        if (!jit_is_whole(t))
            stats_add(I, t->f, STAT_kernels, e->fused ? count_kernels(e->fused) : 0);
    }
    return e->fused ? e->fused : e->graph;
}

static int64_t memory_limit(const Transform *t) { return t->opt[OPT_MEMORY].tag == V_INT ? t->opt[OPT_MEMORY].i : 0; }

/* By a launch of a whole former run, where there is one that fits; else by the graph, which is put down for the next time. */
static bool run_graph(Interp *I, const Transform *t, Entry *e, Graph *g, Tensor *const *x, int n, Tensor **out, int *nout)
{
    Trace *T = trace_of(I);
    bool wanted = t->opt[OPT_CAPTURE].tag == V_BOOL && t->opt[OPT_CAPTURE].i;
    int64_t began = T->timed ? T->began(I) : 0;
    int done = replay_again(T, e->replay, g->name ? g->name->text : "a staged function", x, n, out, nout);
    if (T->timed)
        profile_graph(I, done > 0, x, n, out, *nout, began);
    if (done)
        return done > 0;
    replay_begin(T, &e->replay, x, n);
    bool ok = memory_run(I, &e->fitted, g, x, n, out, nout);
    replay_end(e->replay, ok, wanted, out, *nout);
    stats_note(I, t->f, replay_why_not(e->replay));
    return ok;
}

/* A run, or a launch of a former one, told as a range of the function's name. */
static bool run_as_range(Interp *I, const Transform *t, Entry *e, Graph *g, bool limited, Tensor *const *x, int n, Tensor **out, int *nout)
{
    const void *key = &key;
    bool told = I->ranges, ok;

    if (told)
        range_push(I, g->name ? g->name : sym("jit"), key);
    ok = limited ? memory_run(I, &e->fitted, g, x, n, out, nout) : run_graph(I, t, e, g, x, n, out, nout);
    if (told && I->ranges)
        range_pop(I, key);
    return ok;
}

static Value run(Interp *I, const Transform *t, Entry *e, const TensorVec *in, const CallArgs *c)
{
    Trace *T = trace_of(I);
    int n = e->ncaptures + 1 + e->n, nout = 0, stores = guard_nwrites(e->guard), more = e->nkept + stores;
    Tensor **out = tsr_calloc(sizeof *out * (size_t)(e->nout + more + 1));
    Value v = VERR;
    T->span = interp_span(I);
    Tensor *key = e->random ? trace_key(T) : trace_no_key();
    if (!key) {
        tsr_free(out);
        T->error = OPERR_MEMORY;
        return raise_op_error(I);
    }
    Tensor *few[FEW], **x = operands(e, key, in, few);
    bool limited = memory_limit(t) || interp_options(I)->memory_limit;
    Graph *g = graph_for(I, t, e, x, n, limited);
    if (limited)
        g = memory_fit(I, &e->fitted, e->graph, g != e->graph ? g : NULL, x, n, memory_limit(t));
    if (g && run_as_range(I, t, e, g, limited, x, n, out, &nout)) {
        bool stored = buffers_keep(I, c, NULL, e->kept, e->nkept, out + e->nout) && guard_write(e->guard, out + e->nout + e->nkept);
        v = result_tree(I, e->result, out, e->nout);
        for (int i = 0; i < more; i++)
            tensor_unref(out[e->nout + i]);
        if (!stored) {
            value_unref(v);
            v = VERR;
        }
    } else if (g)
        raise_op_error(I);
    tensor_unref(key);
    if (x != few)
        tsr_free(x);
    tsr_free(out);
    return v;
}

/* Who follows what is staged hears of a call. */
static void tell(Interp *I, const Transform *t, const Entry *e, bool fresh)
{
    stats_add(I, t->f, STAT_compiles, fresh);
    stats_add(I, t->f, STAT_calls, 1);
    if (fresh && interp_options(I)->staged && !e->within)
        interp_options(I)->staged(interp_options(I)->staged_state, e->graph);
}

static Value run_kept(Interp *I, const Transform *t, Staged *s, Entry *e, bool fresh, const TensorVec *in, const CallArgs *c)
{
    bool keep = !fresh || cacheable(e);
    if (!jit_is_whole(t))
        tell(I, t, e, fresh);
    if (fresh && keep) {
        e->next = s->first;
        s->first = e;
        s->entries++;
        drop_old(s);
    }
    if (!fresh)
        guard_renote(e->guard);
    Value v = run(I, t, e, in, c);
    s->runs++;
    if (!keep)
        jit_entry_free(e);
    return v;
}

/* The call whose arguments are those of the tree. */
static CallArgs tree_args(Value tree, const CallArgs *c, Value *kwvals)
{
    TupleObj *t = as_tuple(tree);
    int64_t pos = 0;
    Value key;
    for (int i = 0; i < c->nkw && dict_next(as_dict(t->at[c->n]), &pos, &key, &kwvals[i]); i++)
        ;
    return (CallArgs){t->at, c->n, kwvals, c->kwnames, c->nkw};
}

static Value call_tree_staged(Interp *I, Transform *t, Staged *s, Value tree, const CallArgs *c)
{
    TensorVec in = {0};
    Value v = VERR, *kwvals = tsr_calloc(sizeof *kwvals * (size_t)(c->nkw + 1));
    CallArgs args = tree_args(tree, c, kwvals);
    bool failed = false;
    if (tree_leaves(I, tree, TREE_ALL, &in)) {
        Entry *e = find(I, s, tree, &in, &failed);
        bool fresh = !e && !failed;
        if (fresh && interp_options(I)->why_compile && !dim_asking_id() && !jit_is_whole(t))
            jit_why(I, t, s, &in, tree);
        if (fresh)
            e = jit_build(I, t, &args, &in, tree, NULL);
        if (e)
            v = run_kept(I, t, s, e, fresh, &in, c);
    }
    vec_free(&in);
    tsr_free(kwvals);
    return v;
}

/* ------------------------------------------------------------- numbers that change */

static bool numbers_of(Interp *I, Value tree, ValueVec *out)
{
    ValueVec all = {0};
    bool ok = tree_values(I, tree, TREE_NUMBERS, &all);
    for (int i = 0; ok && i < all.n; i++)
        if (all.at[i].tag == V_INT || all.at[i].tag == V_FLOAT)
            vec_push(out, all.at[i]);
    vec_free(&all);
    return ok;
}

/* A function with static arguments says itself what is static. */
static bool any_static(const Transform *t) { return t->opt[OPT_STATIC].tag != V_ERR && t->opt[OPT_STATIC].tag != V_NONE; }

/* Find the numbers in which this call differs from the graphs there are; true: they are marked in s->lift. */
static bool find_changing(Interp *I, Staged *s, Value tree)
{
    ValueVec now = {0}, then = {0};
    int alike = 0;
    bool ok = numbers_of(I, tree, &now), *mask = tsr_calloc((size_t)now.n + 1);
    for (Entry *e = s->first; ok && e; e = e->next) {
        then.n = 0;
        if (!numbers_of(I, e->skeleton, &then))
            break;
        bool same = then.n == now.n, differs = false;
        for (int i = 0; same && i < now.n; i++)
            same = then.at[i].tag == now.at[i].tag, differs |= same && then.at[i].i != now.at[i].i;
        if (!same || !differs)
            continue;
        alike++;
        for (int i = 0; i < now.n; i++)
            mask[i] |= then.at[i].i != now.at[i].i;
    }
    bool enough = alike >= LIFT_AFTER;
    if (enough) {
        tsr_free(s->lift);
        s->lift = mask;
        s->nlift = now.n;
    } else
        tsr_free(mask);
    vec_free(&now);
    vec_free(&then);
    return enough;
}

/* The call with changing numbers as tensors; a function that will not have it gets them as they are, from now on. */
static Value call_lifted(Interp *I, Transform *t, Staged *s, Value tree, const CallArgs *c)
{
    Value lifted = tree_lift_chosen(I, tree, s->lift, s->nlift), v = VERR;
    if (!is_err(lifted))
        v = call_tree_staged(I, t, s, lifted, c);
    value_unref(lifted);
    if (!is_err(v) || !(exc_matches(I, EXC_TypeError) || exc_matches(I, EXC_ValueError)))
        return v;
    exc_clear(I);
    s->never = true;
    return call_tree_staged(I, t, s, tree, c);
}

static Value call_by_graph(Interp *I, Transform *t, const CallArgs *c)
{
    if (!t->state) {
        t->state = tsr_calloc(sizeof(Staged));
        t->state_free = staged_free;
        t->state_visit = staged_visit;
    }
    Staged *s = t->state;
    Value tree = jit_call_tree(I, c), v = VERR;
    Entry *e = NULL;
    bool may = !s->never && !any_static(t);
    if (may && !s->lift && s->entries >= LIFT_AFTER) {
        TensorVec in = {0};
        bool failed = false;
        if (tree_leaves(I, tree, TREE_ALL, &in)) {
            e = find(I, s, tree, &in, &failed);
            if (e)
                v = run_kept(I, t, s, e, false, &in, c);
            else if (!failed)
                find_changing(I, s, tree);
        }
        vec_free(&in);
    }
    if (!e)
        v = may && s->lift && !exc_pending(I) ? call_lifted(I, t, s, tree, c) : call_tree_staged(I, t, s, tree, c);
    value_unref(tree);
    return v;
}

static Value call_jit(Interp *I, Transform *t, const CallArgs *c)
{
    JitMode mode = t->opt[OPT_MODE].tag == V_INT ? (JitMode)t->opt[OPT_MODE].i : MODE_DEFAULT;
    JitManner manner;
    Value v;
    if (mode == MODE_DEFAULT)
        return call_by_graph(I, t, c);
    if (mode == MODE_INTERPRET)
        return value_call_kw(I, t->f, c->args, c->n, c->kwvals, c->kwnames, c->nkw);
    manner = jit_manner_begin(I, mode);
    v = call_by_graph(I, t, c);
    jit_manner_end(I, &manner);
    return v;
}

/* A number of bytes, or a text such as "64MB", as an int; V_NONE: no limit; V_ERR pending. */
static Value limit_of(Interp *I, Value v)
{
    int64_t n = v.tag == V_INT ? v.i : 0;
    if (!is_given(v))
        return VNONE;
    if (v.tag == V_STR ? !quantity_of_bytes(as_str(v)->s, &n) : n <= 0)
        return raise(I, EXC_ValueError, "memory_limit is a number of bytes above 0, or a text such as \"64MB\"");
    return vint(n);
}

/* f, static_argnums, static_argnames, capture_graph, memory_limit, compile_mode */
static Value staged_function(Interp *I, Value *a, const char *name)
{
    if (is_given(a[0]) && !value_is_callable(a[0]))
        return raise(I, EXC_TypeError, "%s takes a function, not %s", name, value_type_name(a[0]));
    JitMode mode;
    Value opt[TRANSFORM_OPTIONS] = {[OPT_STATIC] = is_given(a[1]) ? a[1] : a[2], [OPT_MEMORY] = limit_of(I, a[4]), [OPT_EXPORT] = VNONE};
    if (is_err(opt[OPT_MEMORY]) || !jit_mode_of(I, a[5], &mode))
        return VERR;
    opt[OPT_MODE] = vint(mode);
    opt[OPT_CAPTURE] = a[3];
    return transform_new(name, call_jit, is_given(a[0]) ? a[0] : VERR, opt, TRANSFORM_OPTIONS);
}

static Value f_jit(Interp *I, Value *a) { return staged_function(I, a, "jit"); }

static Value f_jit_within(Interp *I, Value *a)          /* f, blocks, names */
{
    if (!value_is_callable(a[0]))
        return raise(I, EXC_TypeError, "a function is fused, not %s", value_type_name(a[0]));
    Value block = tuple_new(2);
    as_tuple(block)->at[0] = value_ref(a[1]);
    as_tuple(block)->at[1] = value_ref(a[2]);
    Value opt[TRANSFORM_OPTIONS] = {VNONE, VNONE, VNONE, vint(MODE_DEFAULT), block};
    Value v = transform_new("jit", call_jit, a[0], opt, TRANSFORM_OPTIONS);
    value_unref(block);
    return v;
}

Obj *jit_when_large(Value f)
{
    const Value opt[TRANSFORM_OPTIONS] = {VNONE, VNONE, VNONE, vint(MODE_DEFAULT), VNONE, VNONE};

    return transform_new(jit_whole_name, call_jit, f, opt, TRANSFORM_OPTIONS).o;
}

static Value f_staged_when_large(Interp *I, Value *a)
{
    FuncObj *f = a[0].tag == V_FUNC ? (FuncObj *)a[0].o : NULL;

    if (!f || f->code->varargs >= 0 || f->code->kwargs >= 0 || f->whole)
        return raise(I, EXC_TypeError, "a function with named parameters alone is staged when its tensors are large");
    f->whole = jit_when_large(a[0]);
    return value_ref(a[0]);
}

static Value f_compile(Interp *I, Value *a) { return staged_function(I, a, "compile"); }
static Value f_function(Interp *I, Value *a) { return staged_function(I, a, "function"); }

static Value f_export(Interp *I, Value *a)              /* f, name, sizes, args */
{
    if (is_given(a[0]) && !value_is_callable(a[0]))
        return raise(I, EXC_TypeError, "export takes a function, not %s", value_type_name(a[0]));
    Value said = tuple_new(3), opt[] = {[OPT_STATIC] = VNONE, [OPT_MEMORY] = VNONE, [OPT_EXPORT] = said};
    for (int i = 0; i < 3; i++)
        as_tuple(said)->at[i] = is_given(a[i + 1]) ? value_ref(a[i + 1]) : VNONE;
    Value v = transform_new("export", call_jit, is_given(a[0]) ? a[0] : VERR, opt, 3);
    value_unref(said);
    return v;
}

Value export_options(Value v)
{
    Transform *t = transform_of(v);
    return t && t->call == call_jit && !is_err(t->f) && t->opt[OPT_EXPORT].tag == V_TUPLE ? t->opt[OPT_EXPORT] : VERR;
}

#define JIT "(f: Callable | None = None, /, static_argnums: int | tuple | list | None = None, *, static_argnames=None, " \
    "capture_graph: bool = False, memory_limit: int | str | None = None, compile_mode: str | None = None) -> Callable"
const NativeDef tensor_jit_natives[] = {
    {"", "jit", f_jit, JIT, "f staged: its first call makes a graph for every size that meets the graph's conditions, later calls run it. What is no tensor is static: "
     "a new value makes a new graph. if, while and for over tensors become part of the graph; a print happens at every call. Under memory_limit "
     "(bytes, or \"64MB\") a call computes values again rather than take more with its arguments and results. On a GPU a call like an earlier one is one "
     "launch of its kernels; capture_graph: also where that takes much memory in one piece. compile_mode: interpret (op by op), "
     "default, optimize (kernels from the first call on, made with more effort), fast (the same, and sums may be reassociated)."},
    {"_core", "jit_within", f_jit_within, "(f: Callable, blocks: tuple, names: list | None) -> Callable",
     "jit of a function that stands in blocks (key, value), in which graphs remember calls of functions of these names."},
    {"_core", "staged_when_large", f_staged_when_large, "(f: Callable) -> Callable", "f, a function of the library, whose calls on large tensors are one graph (whole.h)."},
    {"", "compile", f_compile, JIT, "jit under the name that compiles to kernels."},
    {"", "function", f_function, JIT, "Marks a pure tensor function and stages it."},
    {"", "export", f_export, "(f: Callable | None = None, /, *, name: str | None = None, sizes: dict | list | None = None, args: dict | None = None) -> Callable",
     "f staged, as jit does, and part of the bundle that tessera build makes of the program. Its parameters are tensors with all sizes in their types, or have "
     "example values in args; sizes gives numbers to try for named sizes."},
    {0},
};
