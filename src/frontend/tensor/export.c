/*
 * Exported functions as graphs.
 *
 * Sizes are staged as variables that have some number at hand, since a program
 * may ask about them.  Numbers without common divisors come first: they
 * make no accidental truths ("S is twice T").  A function that wants
 * divisible sizes raises, and gets numbers with many divisors.  Then sizes of 1
 * and 0 are tried, which programs treat apart; where the graph so far does not
 * serve them, they make a further form.
 *
 * A weight is known by the place that holds it.  Places that some function
 * stores to are state, shared by all functions.
 */
#include "frontend/tensor/export.h"

#include "frontend/tensor/export_types.h"
#include "frontend/tensor/jit_entry.h"

#include "frontend/eval/eval.h"

#include <stdlib.h>
#include <string.h>

enum { FORMS_MAX = 16 };
static const int64_t prime[] = {7, 11, 13, 17, 19, 23, 29, 31};
enum { PRIMES = sizeof prime / sizeof *prime };

typedef struct Slot { const void *holder; int64_t at; int weight; bool written; } Slot;     /* a place, and its weight; -1: none yet */
typedef struct Found { const void *holder; int64_t at; char *name; Tensor *t; int capture; } Found;
typedef Vec(Found) Founds;

typedef struct Pending {        /* a form whose weights are not settled yet */
    Entry *s;
    Founds places;
} Pending;

typedef struct Exporting {
    Interp *I;
    Exports *out;
    DiagSink *sink;
    Vec(Slot) slot;
    Vec(Pending) pending;       /* of all functions, in order */
    Vec(int) nforms;            /* of each function */
    bool stateful, found_state; /* does some function store tensors outside: is that known; was it seen? */
} Exporting;

/* ------------------------------------------------------------- what went wrong */

/* The pending exception as its traceback shows it, taken. */
static char *exception_text(Interp *I)
{
    Value exc = exc_take(I);
    StrBuf all = {0};
    char *text;

    exc_render(I, exc, &all);
    value_unref(exc);
    while (all.n && all.s[all.n - 1] == '\n')
        all.n--;
    text = memcpy(tsr_alloc(all.n + 1), sb_str(&all), all.n);
    text[all.n] = 0;
    sb_done(&all);
    return text;
}

static bool refuse(Exporting *e, DiagCode code, const ExportFunction *f, const char *why)
{
    DIAG_AT(e->sink, code, f->span, f->name->text, why);
    return false;
}

/* The same for an exception: its last line, and all of it below. */
static bool refuse_raised(Exporting *e, const ExportFunction *f, const char *text)
{
    const char *line = strrchr(text, '\n');
    Diag *d = DIAG_AT(e->sink, E0811, f->span, f->name->text, line ? line + 1 : text);

    if (line)
        diag_note(d, "%s", text);
    return false;
}

/* ------------------------------------------------------------- sizes to try */

static bool hint(const Value v, const char *name, int64_t *out)
{
    Value n = v.tag == V_DICT ? dict_get_sym(as_dict(v), sym(name)) : VERR;

    *out = n.tag == V_INT ? n.i : -1;
    return *out >= 0;
}

/* The attempt-th choice of numbers for the sizes that the program says nothing about. */
static void choose_sizes(Example *x, Value said, int attempt)
{
    for (int i = 0; i < x->nvars; i++) {
        int64_t p = prime[i % PRIMES] + 32 * (i / PRIMES);
        if (!hint(said, x->var[i]->text, &x->size[i]))
            x->size[i] = attempt == 0 ? p : attempt == 1 ? 48 * p : (int64_t)64 << i % 8;
    }
}

/* ------------------------------------------------------------- staging */

static void note_place(void *st, const GuardPlace *p)
{
    Found f = {p->holder, p->at, NULL, p->t, p->capture};

    f.name = strcpy(tsr_alloc(strlen(p->name) + 1), p->name);
    vec_push((Founds *)st, f);
}

/* Stage f. What is computed from outside tensors alone is computed once, at building, unless there is state: then at each call. */
static Entry *stage_call(Exporting *e, Value f, Example *x)
{
    SizeDeclare sizes = example_sizes(x);
    Transform *t = transform_of(f), probe = {.f = f, .name = "export"};
    CallArgs c = example_call(x);
    Value tree = jit_call_tree(e->I, &c);
    TensorVec in = {0};
    Entry *made = NULL;

    trace_of(e->I)->all_staged = e->stateful;
    trace_of(e->I)->coded = true;
    if (tree_leaves(e->I, tree, TREE_ALL, &in))
        made = jit_build(e->I, t && !is_err(t->f) ? t : &probe, &c, &in, tree, &sizes);
    trace_of(e->I)->all_staged = trace_of(e->I)->coded = false;
    vec_free(&in);
    value_unref(tree);
    return made;
}

/* Is nothing outside changed but tensors, by the graph's stores? Whether there is state is noted. false: an exception is pending. */
static bool leaves_rest(Exporting *e, Entry *made)
{
    bool unchanged = guard_unchanged(made->guard);

    e->found_state |= !unchanged || guard_nwrites(made->guard);
    if (!unchanged && e->stateful)
        raise(e->I, EXC_TypeError, "it changes something outside that is no tensor, such as a number or a list, which no call from C could repeat");
    return unchanged || !e->stateful;
}

/* Stage for x's sizes. false: an exception is pending. */
static bool stage_once(Exporting *e, Value f, Example *x)
{
    Pending p = {0};

    if (!example_fill(x)) {
        raise(e->I, EXC_ValueError, "a size is negative, or too large");
        return false;
    }
    if (!(p.s = stage_call(e, f, x)))
        return false;
    if (!leaves_rest(e, p.s)) {
        jit_entry_free(p.s);
        return false;
    }
    guard_places(p.s->guard, note_place, &p.places);
    vec_push(&e->pending, p);
    return true;
}

static bool is_served(Exporting *e, Example *x, int first)
{
    Dim two = 2;
    Tensor *key = tensor_zeros(DT_uint32, 1, &two);
    bool served = false;

    for (int i = first; key && !served && i < e->pending.n; i++) {
        const Entry *s = e->pending.at[i].s;
        Tensor **t = tsr_calloc(sizeof *t * (size_t)(s->ncaptures + 1));
        for (int k = 0; k < s->ncaptures; k++)
            t[k] = s->capture[k];
        t[s->ncaptures] = key;
        served = example_is_served(x, s->graph, t, s->ncaptures + 1);
        tsr_free(t);
    }
    tensor_unref(key);
    return served;
}

/* A form for these sizes, too, if there is none and the function has a meaning for them. */
static void stage_also(Exporting *e, Value f, Example *x, int first)
{
    if (e->pending.n - first < FORMS_MAX && !is_served(e, x, first) && !stage_once(e, f, x))
        exc_clear(e->I);
}

static void stage_small_sizes(Exporting *e, Value f, Example *x, int first)
{
    int64_t usual[EXPORT_VARS];

    memcpy(usual, x->size, sizeof usual);
    for (int64_t small = 1; small >= 0; small--) {
        for (int i = 0; i < x->nvars; i++) {
            x->size[i] = small;
            stage_also(e, f, x, first);
            x->size[i] = usual[i];
        }
        for (int i = 0; i < x->nvars; i++)
            x->size[i] = small;
        if (x->nvars > 1)
            stage_also(e, f, x, first);
        memcpy(x->size, usual, sizeof usual);
    }
}

/* All forms of a function. */
static bool stage_forms(Exporting *e, const ExportFunction *to, Value f, Example *x, Value sizes)
{
    Value one = sizes.tag == V_LIST && as_list(sizes)->n ? as_list(sizes)->at[0] : sizes;
    int first = e->pending.n;
    char *why = NULL;

    for (int attempt = 0; attempt < 3 && e->pending.n == first; attempt++) {
        choose_sizes(x, one, attempt);
        if (!stage_once(e, f, x) && why)
            exc_clear(e->I);
        else if (e->pending.n == first)
            why = exception_text(e->I);
    }
    if (e->pending.n == first) {
        refuse_raised(e, to, why);
        tsr_free(why);
        return false;
    }
    tsr_free(why);
    for (int64_t i = 1; sizes.tag == V_LIST && i < as_list(sizes)->n; i++) {
        choose_sizes(x, as_list(sizes)->at[i], 0);
        stage_also(e, f, x, first);
    }
    choose_sizes(x, one, 0);
    stage_small_sizes(e, f, x, first);
    return true;
}

/* What no bundle can do: whatever needs other processes. */
static const char *unfit(const Graph *g) { return graph_effects(g) & OPF_COLLECTIVE ? "it communicates with other ranks" : NULL; }

/* ------------------------------------------------------------- weights */

static Slot *slot_of(Exporting *e, const void *holder, int64_t at)
{
    for (int i = 0; i < e->slot.n; i++)
        if (e->slot.at[i].holder == holder && e->slot.at[i].at == at)
            return &e->slot.at[i];
    vec_push(&e->slot, ((Slot){holder, at, -1, false}));
    return &e->slot.at[e->slot.n - 1];
}

static void note_stores(Exporting *e)
{
    for (int i = 0; i < e->pending.n; i++)
        for (int k = 0; k < guard_nwrites(e->pending.at[i].s->guard); k++) {
            GuardPlace p = guard_write_place(e->pending.at[i].s->guard, k);
            slot_of(e, p.holder, p.at)->written = true;
        }
}

static int add_weight(Exports *x, const char *name, Tensor *t, bool state)
{
    ExportWeight w = {NULL, tensor_ref(t), state};
    StrBuf b = {0};
    bool taken = true;

    for (int k = 1; taken; k++) {
        sb_clear(&b);
        sb_puts(&b, *name ? name : "constant");
        if (k > 1 || !*name)
            sb_printf(&b, "_%d", k);
        taken = false;
        for (int i = 0; i < x->weight.n; i++)
            taken |= !strcmp(x->weight.at[i].name, sb_str(&b));
    }
    w.name = strcpy(tsr_alloc(b.n + 1), sb_str(&b));
    sb_done(&b);
    vec_push(&x->weight, w);
    return x->weight.n - 1;
}

static int weight_of_slot(Exports *x, Slot *s, const char *name, Tensor *t)
{
    if (s->weight < 0)
        s->weight = add_weight(x, name, t, true);
    return s->weight;
}

static int weight_of_tensor(Exports *x, const char *name, Tensor *t)
{
    for (int i = 0; i < x->weight.n; i++)
        if (x->weight.at[i].t == t && !x->weight.at[i].state)
            return i;
    return add_weight(x, name, t, false);
}

/* The weight behind a capture; -1: reported. */
static int weight_of_capture(Exporting *e, const ExportFunction *f, const Pending *p, int capture)
{
    const char *name = "";
    Slot *state = NULL;
    int places = 0;

    for (int i = 0; i < p->places.n; i++) {
        const Found *at = &p->places.at[i];
        if (at->capture != capture)
            continue;
        Slot *s = slot_of(e, at->holder, at->at);
        name = places ? name : at->name;
        places++;
        if (s->written) {
            state = s;
            name = at->name;
        }
    }
    if (!state)
        return weight_of_tensor(e->out, name, p->s->capture[capture]);
    if (places > 1) {
        refuse(e, E0812, f, "it changes a tensor that two variables hold; make a copy for one of them");
        return -1;
    }
    return weight_of_slot(e->out, state, name, p->s->capture[capture]);
}

/* The weight that the k-th store goes to; -1: reported. */
static int weight_of_store(Exporting *e, const ExportFunction *f, const Pending *p, int k)
{
    GuardPlace at = guard_write_place(p->s->guard, k);
    const TType *y = gvalue_type(p->s->graph->results.at[p->s->nout + k]);
    const char *name = "";
    bool same = at.t && y->dtype == at.t->dtype && y->rank == at.t->rank;

    for (int i = 0; same && i < y->rank; i++)
        same = y->shape[i] == at.t->shape[i];
    if (!same) {
        refuse(e, E0812, f, at.t ? "it stores a tensor of another dtype or shape than the one before" :
                                   "it stores a tensor where there was none before");
        return -1;
    }
    for (int i = 0; i < p->places.n; i++)
        if (p->places.at[i].holder == at.holder && p->places.at[i].at == at.at)
            name = p->places.at[i].name;
    return weight_of_slot(e->out, slot_of(e, at.holder, at.at), name, at.t);
}

static bool settle_form(Exporting *e, const ExportFunction *f, const Pending *p, ExportForm *out)
{
    *out = (ExportForm){.graph = graph_ref(p->s->graph), .random = p->s->random};
    for (int k = 0; k < p->s->ncaptures; k++) {
        int w = weight_of_capture(e, f, p, k);
        if (w < 0)
            return false;
        vec_push(&out->capture, w);
    }
    for (int k = 0; k < guard_nwrites(p->s->guard); k++) {
        int w = weight_of_store(e, f, p, k);
        if (w < 0)
            return false;
        vec_push(&out->store, w);
    }
    return true;
}

/* ------------------------------------------------------------- functions */

static char *doc_of(Interp *I, Value f)
{
    Value doc = value_getattr_opt(I, f, sym("__doc__"));
    char *text = doc.tag == V_STR ? strcpy(tsr_alloc(as_str(doc)->len + 1), as_str(doc)->s) : NULL;

    value_unref(doc);
    return text;
}

static Value innermost(Value f)
{
    for (Transform *t; (t = transform_of(f)) && !is_err(t->f);)
        f = t->f;
    return f;
}

/* An object that is called: its forward method, else __call__. A new reference. */
static Value callable_of(Interp *I, Value f)
{
    Value m;

    if (f.tag != V_INSTANCE)
        return value_ref(f);
    m = value_getattr_opt(I, f, sym("forward"));
    return is_err(m) ? value_getattr_opt(I, f, sym("__call__")) : m;
}

static bool export_one(Exporting *e, Value v, Sym name, Span otherwise)
{
    Value f = transform_of(v)->f, *said = as_tuple(export_options(v))->at, in = callable_of(e->I, innermost(f));
    ExportFunction to = {.name = said[0].tag == V_STR ? sym_n(as_str(said[0])->s, as_str(said[0])->len) : name, .span = otherwise};
    int first = e->pending.n;
    StrBuf why = {0};
    Example x;
    bool ok;

    ok = example_read(e->I, in, said[2], &x, &why);
    if (x.func)
        to.span = x.func->code->ast->span;
    if (!ok)
        refuse(e, E0811, &to, sb_str(&why));
    ok = ok && stage_forms(e, &to, f, &x, said[1]);
    for (int i = first; ok && i < e->pending.n; i++)
        if (unfit(e->pending.at[i].s->graph))
            ok = refuse(e, E0811, &to, unfit(e->pending.at[i].s->graph));
    if (ok) {
        to.doc = doc_of(e->I, f);
        to.input = x.leaf;
        x.leaf = (NameVec){0};
        ok = tree_names(e->I, e->pending.at[first].s->result, "result", &to.output);
        vec_push(&e->out->function, to);
        vec_push(&e->nforms, e->pending.n - first);
    }
    example_done(&x);
    value_unref(in);
    sb_done(&why);
    return ok;
}

static bool export_named(Exporting *e, DictObj *named)
{
    int64_t pos = 0;
    Value key, v;
    bool ok = true;

    while (dict_next(named, &pos, &key, &v))
        ok = ok && key.tag == V_STR && !is_err(export_options(v)) && export_one(e, v, sym_n(as_str(key)->s, as_str(key)->len), (Span){0});
    return ok;
}

/* The program's variables that hold exported functions, each function once; or those that are named. */
static bool export_all(Exporting *e, Value named)
{
    const ModuleObj *m = interp_main(e->I);
    bool ok = true;

    if (named.tag == V_DICT)
        return export_named(e, as_dict(named));

    for (int i = 0; i < m->scope->locals.n; i++) {
        const Local *l = &m->scope->locals.at[i];
        Value v = (int)l->slot < m->nslots ? m->slot[l->slot] : VERR;
        bool again = is_err(export_options(v));
        for (int k = 0; k < i && !again; k++)
            again = m->slot[m->scope->locals.at[k].slot].tag == v.tag && m->slot[m->scope->locals.at[k].slot].o == v.o;
        if (!again)
            ok &= export_one(e, v, l->name, l->decl);
    }
    return ok;
}

static bool settle_all(Exporting *e)
{
    int at = 0;

    note_stores(e);
    for (int i = 0; i < e->out->function.n; i++)
        for (int k = 0; k < e->nforms.at[i]; k++, at++) {
            ExportForm form;
            bool ok = settle_form(e, &e->out->function.at[i], &e->pending.at[at], &form);
            vec_push(&e->out->function.at[i].form, form);
            if (!ok)
                return false;
        }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ExportFunction *)a)->name->text, ((const ExportFunction *)b)->name->text);
}

static bool names_differ(Exporting *e)
{
    for (int i = 1; i < e->out->function.n; i++)
        if (e->out->function.at[i].name == e->out->function.at[i - 1].name)
            return refuse(e, E0811, &e->out->function.at[i], "another function is exported under the same name");
    return true;
}

/* A key is two words, as a seed is. */
static uint64_t seed_of(const Trace *T)
{
    if (!T->key)
        return T->seed;
    return (uint64_t)elem_get_i(T->key, T->key->offset) | (uint64_t)elem_get_i(T->key, T->key->offset + T->key->stride[0]) << 32;
}

static void names_done(NameVec *v)
{
    for (int i = 0; i < v->n; i++)
        tsr_free(v->at[i]);
    vec_free(v);
}

static void functions_done(Exports *x)
{
    for (int i = 0; i < x->function.n; i++) {
        ExportFunction *f = &x->function.at[i];
        for (int k = 0; k < f->form.n; k++) {
            graph_unref(f->form.at[k].graph);
            vec_free(&f->form.at[k].capture);
            vec_free(&f->form.at[k].store);
        }
        vec_free(&f->form);
        names_done(&f->input);
        names_done(&f->output);
        tsr_free(f->doc);
    }
    vec_free(&x->function);
}

static void drop_pending(Exporting *e)
{
    for (int i = 0; i < e->pending.n; i++) {
        jit_entry_free(e->pending.at[i].s);
        for (int k = 0; k < e->pending.at[i].places.n; k++)
            tsr_free(e->pending.at[i].places.at[k].name);
        vec_free(&e->pending.at[i].places);
    }
    vec_free(&e->pending);
    vec_free(&e->nforms);
}

bool exports_of(Interp *I, Value named, Exports *out, DiagSink *sink)
{
    Exporting e = {.I = I, .out = out, .sink = sink};
    Trace *T = trace_of(I);
    bool ok;

    *out = (Exports){.seed = seed_of(T), .draws = T->draws};
    ok = export_all(&e, named);
    if (ok && e.found_state) {                          /* all functions see it: they are staged anew */
        drop_pending(&e);
        functions_done(out);
        e.stateful = true;
        ok = export_all(&e, named);
    }
    ok = ok && settle_all(&e);
    drop_pending(&e);
    vec_free(&e.slot);
    qsort(out->function.at, (size_t)out->function.n, sizeof *out->function.at, by_name);
    return ok && names_differ(&e);
}

void exports_done(Exports *x)
{
    functions_done(x);
    for (int i = 0; i < x->weight.n; i++) {
        tsr_free(x->weight.at[i].name);
        tensor_unref(x->weight.at[i].t);
    }
    vec_free(&x->weight);
}
