/*
 * profile.c - what a profile is made of: each op and kernel that ran, with its place, its time and what it moves, and each
 * block of memory that was taken and given back.
 *
 * Ops may be inside of others (a scan's body, a fused node that runs op by op); each event says how deep it is, so that time is
 * counted once.  stdlib/profiling.tsr makes tables, traces and pictures of the lists.
 */
#include "frontend/tensor/watch.h"

#include "base/map.h"
#include "base/source.h"
#include "frontend/eval/code.h"
#include "frontend/eval/eval.h"
#include "frontend/tensor/ranges.h"
#include "runtime/storage.h"

#include <string.h>
#include <time.h>

enum { EVENTS_MAX = 1 << 21, PATH_MAX_FRAMES = 64 };

typedef struct Event {
    int64_t began, took;                /* nanoseconds */
    double flops, bytes;
    Sym path;                           /* the functions around, "main;layer" */
    Sym op;
    Span span;
    int depth;
    bool kernel, collective;
} Event;

typedef struct Block { int64_t at; int64_t bytes, live; uint32_t number; bool made; Span span; } Block;

typedef struct Beside { int64_t began, took; double bytes; Sym what; bool waits; } Beside;      /* waits: it is the program that does */

static struct Profile {
    Interp *I;                          /* NULL: nothing is recorded */
    Vec(Beside) beside;
    Vec(Event) event;
    Vec(Block) block;
    Map number;                         /* Storage -> its number */
    uint32_t numbers;
    int depth;
    int64_t first, live;
} P;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ------------------------------------------------------------- events */

static int64_t began(void *host)
{
    P.depth++;
    return now();
}

static double elements(const Tensor *t)
{
    double n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= dim_is_const(t->shape[i]) ? (double)t->shape[i] : 1;
    return n;
}

static double bytes_of(const Tensor *t) { return elements(t) * dtype_info[t->dtype].sbits / 8.0; }

/* Operations on numbers: 2mnk of a product, likewise of a convolution, one an element of all else. */
static double flops_of(OpId op, Tensor *const *in, int nin, Tensor *const *out, int nout)
{
    double most = 0;

    if (op == OP_matmul && nin >= 2 && nout)
        return 2.0 * elements(out[0]) * (in[0]->rank ? (double)in[0]->shape[in[0]->rank - 1] : 1);
    if (op == OP_conv && nin >= 2 && nout && elements(in[1]) > 0)
        return 2.0 * elements(out[0]) * elements(in[1]) / (double)in[1]->shape[0];
    for (int i = 0; i < nin; i++)
        most = elements(in[i]) > most ? elements(in[i]) : most;
    for (int i = 0; i < nout; i++)
        most = elements(out[i]) > most ? elements(out[i]) : most;
    return most;
}

/* Of a kernel: of all that its body does, at the sizes of the operands; each op as if over the largest of them. */
static double flops_of_body(const Graph *g, Tensor *const *in, int nin, Tensor *const *out, int nout)
{
    double space = flops_of(OP_fused, in, nin, out, nout), all = 0;

    for (const Node *n = g->first; n; n = n->next)
        if (n->op == OP_matmul && nin >= 2)
            all += 2.0 * elements(out[0]) * (in[0]->rank ? (double)in[0]->shape[in[0]->rank - 1] : 1);
        else if (n->op != GRAPH_PARAM && (op_info[n->op].family == FAM_MAP || op_info[n->op].family == FAM_REDUCE))
            all += space;
    return all;
}

/* The names of the functions that run, outermost first; a library's own functions below one of its are left out. */
static Sym path_now(Interp *I)
{
    const char *name[PATH_MAX_FRAMES];
    int n = 0;
    StrBuf b = {0};
    Sym s;

    for (const Frame *f = I->frame; f && n < PATH_MAX_FRAMES; f = f->up)
        if (f->func && f->code && f->code->name)
            name[n++] = f->code->name->text;
    sb_puts(&b, "main");
    while (n)
        sb_printf(&b, ";%s", name[--n]);
    s = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return s;
}

/* A kernel is called by what it computes last, "fused softmax": the last ops of its body. */
static Sym name_of(OpId op, const Attr *a)
{
    StrBuf b = {0};
    const char *last[3] = {NULL};
    int n = 0;
    Sym s;

    if (op != OP_fused || !a->region[0])
        return sym(op_info[op].name);
    for (const Node *k = a->region[0]->first; k; k = k->next)
        if (k->op != GRAPH_PARAM && k->op != OP_constant && k->op != OP_full && !(op_info[k->op].flags & OPF_VIEW) && k->op != OP_convert)
            last[n++ % 3] = op_info[k->op].name;
    sb_puts(&b, "kernel");
    for (int i = n > 3 ? n - 3 : 0; i < n; i++)
        sb_printf(&b, "%c%s", i == (n > 3 ? n - 3 : 0) ? ' ' : '+', last[i % 3]);
    s = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return s;
}

/* An event with what it read and wrote, and where. */
static void keep_event(Interp *I, Event *e, Tensor *const *in, int nin, Tensor *const *out, int nout)
{
    for (int i = 0; i < nin; i++)
        e->bytes += bytes_of(in[i]);
    for (int i = 0; i < nout; i++)
        e->bytes += bytes_of(out[i]);
    e->path = path_now(I);
    vec_push(&P.event, *e);
}

static void timed(void *host, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor *const *out, int nout, int64_t from)
{
    Interp *I = host;
    Event e = {.began = from - P.first, .took = now() - from, .op = name_of(op, a), .span = I->trace.span,
               .kernel = op == OP_fused || op == OP_launch, .collective = (op_info[op].flags & OPF_COLLECTIVE) != 0};

    e.depth = --P.depth;
    if (P.event.n >= EVENTS_MAX)
        return;
    e.flops = op == OP_fused && a->region[0] ? flops_of_body(a->region[0], in, nin, out, nout) : flops_of(op, in, nin, out, nout);
    keep_event(I, &e, in, nin, out, nout);
}

void profile_graph(Interp *I, bool ran, Tensor *const *in, int nin, Tensor *const *out, int nout, int64_t from)
{
    Event e = {.began = from - P.first, .took = now() - from, .op = sym("cudaGraphLaunch"), .span = I->trace.span, .kernel = true};

    e.depth = --P.depth;
    if (!ran || P.event.n >= EVENTS_MAX)
        return;
    keep_event(I, &e, in, nin, out, nout);
}

void profile_beside(Sym what, int64_t began, int64_t took, double bytes)
{
    if (P.I && P.beside.n < EVENTS_MAX)
        vec_push(&P.beside, ((Beside){began - P.first, took, bytes, what, false}));
}

void profile_wait(int64_t began, int64_t took)
{
    if (P.I && P.beside.n < EVENTS_MAX)
        vec_push(&P.beside, ((Beside){began - P.first, took, 0, sym("wait"), true}));
}

/* ------------------------------------------------------------- memory */

static void noted(const Storage *s, bool made)
{
    uintptr_t number = 0;
    Block b = {.at = now() - P.first, .bytes = (int64_t)s->nbytes, .made = made, .span = P.I->trace.span};

    if (made) {
        number = ++P.numbers;
        map_set(&P.number, (uintptr_t)s, number);
    } else if (map_find(&P.number, (uintptr_t)s, &number))
        map_set(&P.number, (uintptr_t)s, 0);
    if (!number)
        return;                         /* it was there before */
    P.live += made ? b.bytes : -b.bytes;
    b.live = P.live;
    b.number = (uint32_t)number;
    if (P.block.n < EVENTS_MAX)
        vec_push(&P.block, b);
}

/* ------------------------------------------------------------- from begin to end */

static int events(void) { return P.event.n; }

void profile_begin(Interp *I)
{
    if (P.I)
        return;
    P.I = I;
    P.first = now();
    P.live = (int64_t)storage_live_bytes();
    P.depth = 0;
    I->trace.timed = timed;
    I->trace.began = began;
    storage_noted = noted;
    ranges_keep(I, events);
}

static void stop(void)
{
    if (!P.I)
        return;
    P.I->trace.timed = NULL;
    P.I->trace.began = NULL;
    storage_noted = NULL;
    P.I = NULL;
}

static void forget(Interp *I)
{
    ranges_forget(I);
    vec_free(&P.event);
    vec_free(&P.block);
    vec_free(&P.beside);
    map_done(&P.number);
    P.number = (Map){0};
    P.numbers = 0;
}

void profile_end(Interp *I)
{
    stop();
    forget(I);
}

/* ------------------------------------------------------------- the lists */

static Value place_of(Span at)
{
    Place p = source_place(at.lo);
    StrBuf b = {0};
    Value v;

    if (p.src)
        sb_printf(&b, "%s:%u", p.src->path, p.line);
    v = str_new(sb_str(&b), b.n);
    sb_done(&b);
    return v;
}

static Value event_value(const Event *e)
{
    return tuple_of(10, vint(e->began), vint(e->took), vfloat(e->flops), vfloat(e->bytes), value_ref(str_sym(e->path)), value_ref(str_sym(e->op)),
                    place_of(e->span), vint(e->depth), vbool(e->kernel), vbool(e->collective));
}

static Value f_begin(Interp *I, Value *a)
{
    forget(I);
    profile_begin(I);
    return VNONE;
}

/* (events, memory, nanoseconds from begin to now, calls of functions, what went on beside); recording ends, unless it is to go on. */
static Value f_end(Interp *I, Value *a)                 /* go_on */
{
    int64_t took = now() - P.first;
    Value events, memory, calls, beside;
    int nranges;
    const Range *range = ranges_kept(I, &nranges);

    if (value_truth(I, a[0]) <= 0)
        stop();
    events = list_new(P.event.n);
    memory = list_new(P.block.n);
    calls = list_new(nranges);
    for (int i = 0; i < P.event.n; i++)
        list_push(as_list(events), event_value(&P.event.at[i]));
    for (int i = 0; i < P.block.n; i++) {
        const Block *b = &P.block.at[i];
        list_push(as_list(memory), tuple_of(6, vint(b->at), vbool(b->made), vint(b->number), vint(b->bytes), vint(b->live), place_of(b->span)));
    }
    for (int i = 0; i < nranges; i++) {
        const Range *r = &range[i];
        list_push(as_list(calls), tuple_of(4, vint(r->began - P.first), vint(r->took), value_ref(str_sym(r->name)), vint(r->depth)));
    }
    beside = list_new(P.beside.n);
    for (int i = 0; i < P.beside.n; i++) {
        const Beside *b = &P.beside.at[i];
        list_push(as_list(beside), tuple_of(5, vint(b->began), vint(b->took), vfloat(b->bytes), value_ref(str_sym(b->what)), vbool(b->waits)));
    }
    if (!P.I)
        forget(I);
    return tuple_of(5, events, memory, vint(took), calls, beside);
}

static Value f_count(Interp *I, Value *a) { return vint(P.event.n); }
static Value f_running(Interp *I, Value *a) { return vbool(P.I != NULL); }

const NativeDef tensor_profile_natives[] = {
    {"_profile", "begin", f_begin, "() -> None", "Record ops, kernels and memory from now on."},
    {"_profile", "end", f_end, "(go_on: bool = False) -> tuple", "What was recorded: events, blocks of memory, nanoseconds, calls, what went on beside. Recording ends, unless it is to go on."},
    {"_profile", "count", f_count, "() -> int", "Events so far."},
    {"_profile", "running", f_running, "() -> bool", "Is something recorded?"},
    {0},
};
