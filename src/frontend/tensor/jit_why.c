/*
 * Why a call became a graph of its own: `tessera why-compile FILE`.
 *
 * A graph serves a call when all of this holds, looked at in this order: as many tensors, of the same kinds, the same
 * numerics around, equal static arguments, sizes that meet its conditions, and what it read from outside as it was.  Of
 * the graphs that there are, the one that failed last came nearest, and its failure is the reason that is told.
 */
#include "frontend/eval/eval.h"
#include "frontend/tensor/jit_entry.h"

#include <string.h>

enum { TEXT_MOST = 60 };

/* How far a call came with a graph, and what then differed. */
typedef enum { WHY_COUNT, WHY_KIND, WHY_AROUND, WHY_STATIC, WHY_SIZES, WHY_OUTSIDE, WHY_ONCE } WhyStep;

/* repr(v), shortened. */
static void put_value(Interp *I, Value v, StrBuf *out)
{
    StrBuf s = {0};
    if (!value_repr_to(I, v, &s)) {
        exc_clear(I);
        sb_puts(&s, value_type_name(v));
    }
    sb_printf(out, "%.*s%s", TEXT_MOST, sb_str(&s), s.n > TEXT_MOST ? "..." : "");
    sb_done(&s);
}

/* The i-th argument of the call as one tree, positional ones first; V_ERR: there are no more. *name is that of a named one. */
static Value argument(Value tree, int i, Sym *name)
{
    TupleObj *t = as_tuple(tree);
    DictObj *named = as_dict(t->at[t->n - 1]);
    int64_t pos = 0;
    Value k, v;
    *name = NULL;
    if (i < t->n - 1)
        return t->at[i];
    for (int64_t at = t->n - 1; dict_next(named, &pos, &k, &v); at++)
        if (at == i) {
            *name = sym_n(as_str(k)->s, as_str(k)->len);
            return v;
        }
    return VERR;
}

static void put_argument(int i, Sym name, StrBuf *out)
{
    if (name)
        sb_printf(out, "argument %s", name->text);
    else
        sb_printf(out, "argument %d", i + 1);
}

/* Which argument the k-th tensor of the call is in; *within: which of that argument's, -1 when it is the argument. */
static int argument_of(Interp *I, Value tree, int k, Sym *name, int *within)
{
    for (int i = 0;; i++) {
        TensorVec leaf = {0};
        Value v = argument(tree, i, name);
        if (is_err(v) || !tree_leaves(I, v, TREE_ALL, &leaf))
            return 0;
        int n = leaf.n;
        vec_free(&leaf);
        if (k < n) {
            *within = v.tag == V_TENSOR ? -1 : k;
            return i;
        }
        k -= n;
    }
}

static void why_kind(Interp *I, const Entry *e, const TensorVec *in, Value tree, int k, StrBuf *out)
{
    TType now = tensor_type(in->at[k]);
    Sym name;
    int within = -1, i = argument_of(I, tree, k, &name, &within);
    put_argument(i, name, out);
    if (within >= 0)
        sb_printf(out, ", tensor %d", within + 1);
    sb_puts(out, " is ");
    ttype_print(&now, out);
    sb_puts(out, " and was ");
    ttype_print(&e->type[k], out);
}

/* Which argument's static parts differ. */
static void why_static(Interp *I, const Entry *e, Value tree, StrBuf *out)
{
    Sym name, other;
    for (int i = 0;; i++) {
        Value was = argument(e->skeleton, i, &other), now = argument(tree, i, &name);
        if (is_err(was) || is_err(now) || name != other) {
            sb_puts(out, "the arguments are others: their number, or their names");
            return;
        }
        int same = tree_same(I, was, now);
        if (same < 0)
            exc_clear(I);
        if (same > 0)
            continue;
        put_argument(i, name, out);
        sb_puts(out, " is ");
        put_value(I, now, out);
        sb_puts(out, " and was ");
        put_value(I, was, out);
        return;
    }
}

static void why_sizes(const Entry *e, const TensorVec *in, StrBuf *out)
{
    sb_puts(out, "the sizes ");
    for (int i = 0; i < in->n; i++) {
        sb_puts(out, i ? ", [" : "[");
        for (int k = 0; k < in->at[i]->rank; k++)
            sb_printf(out, "%s%lld", k ? ", " : "", (long long)in->at[i]->shape[k]);
        sb_putc(out, ']');
    }
    sb_puts(out, " do not meet ");
    for (int i = 0; i < e->n; i++) {
        sb_puts(out, i ? ", " : "");
        ttype_print(&e->type[i], out);
    }
    graph_print_conds(e->graph, out);
}

static bool same_around(Interp *I, const Entry *e)
{
    Trace *T = trace_of(I);
    return e->numerics == T->numerics && e->place == T->place && e->scope == scope_lasting(T->scope);
}

/* How far the call comes with this graph; what differs goes to out. */
static WhyStep why_not(Interp *I, const Entry *e, const TensorVec *in, Value tree, StrBuf *out)
{
    if (e->n != in->n) {
        sb_printf(out, "%d tensors come where %d did", in->n, e->n);
        return WHY_COUNT;
    }
    for (int i = 0; i < in->n; i++)
        if (!jit_same_kind(&e->type[i], in->at[i])) {
            why_kind(I, e, in, tree, i, out);
            return WHY_KIND;
        }
    if (!same_around(I, e)) {
        sb_puts(out, "it is called in another numerics scope, on another rank, or in a @tessera.custom function");
        return WHY_AROUND;
    }
    int same = tree_same(I, e->skeleton, tree);
    if (same <= 0) {
        if (same < 0)
            exc_clear(I);
        why_static(I, e, tree, out);
        return WHY_STATIC;
    }
    if (!jit_sizes_fit(e, in)) {
        why_sizes(e, in, out);
        return WHY_SIZES;
    }
    if (guard_explain(e->guard, e->ncaptures, out))
        return WHY_OUTSIDE;
    sb_puts(out, "the graph before read tensors of a surrounding transformation, and served one call");
    return WHY_ONCE;
}

static void put_place(Interp *I, StrBuf *out)
{
    Span at = interp_span(I);
    Place p = at.hi ? source_place(at.lo) : (Place){0};
    if (p.src)
        sb_printf(out, "%s:%u: ", p.src->path, p.line);
}

void jit_why(Interp *I, const Transform *t, const Staged *s, const TensorVec *in, Value tree)
{
    StrBuf out = {0}, nearest = {0};
    int best = -1, others = -1;
    Value name = value_getattr_opt(I, t->f, sym("__name__"));

    for (const Entry *e = s->first; e; e = e->next, others++) {
        StrBuf why = {0};
        int step = why_not(I, e, in, tree, &why);
        if (step > best) {
            best = step;
            sb_clear(&nearest);
            sb_puts(&nearest, sb_str(&why));
        }
        sb_done(&why);
    }
    put_place(I, &out);
    sb_printf(&out, "%s is compiled for (", name.tag == V_STR ? as_str(name)->s : "a function");
    for (int i = 0; i < in->n; i++) {
        TType y = tensor_type(in->at[i]);
        sb_puts(&out, i ? ", " : "");
        ttype_print(&y, &out);
    }
    sb_printf(&out, "): %s", best < 0 ? s->runs ? "nothing that was compiled before is kept" : "its first call" : sb_str(&nearest));
    if (others > 0)
        sb_printf(&out, "; %d other graph%s come%s less near", others, others > 1 ? "s" : "", others > 1 ? "" : "s");
    interp_flush(I);
    fprintf(stderr, "%s\n", sb_str(&out));
    value_unref(name);
    sb_done(&nearest);
    sb_done(&out);
}
