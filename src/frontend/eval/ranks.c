/*
 * The ranks of an SPMD function as fibers, and their meetings.
 *
 * Each rank has its own view of the Interp (stack, frames, exception being
 * handled, trace levels, random keys), put in place while it runs.  A rank
 * stops inside a collective on whatever fiber it has come to (a generator of
 * its own, for example) and goes on there.
 *
 * When a rank raises, or ranks wait for one another in vain, the others are
 * unwound: their finally blocks run, and one exception leaves ranks_run.
 */
#include "frontend/eval/ranks.h"
#include "frontend/eval/tasks.h"

#include "frontend/eval/eval.h"
#include "ir/graph/collective.h"

#include <string.h>

enum { RANK_STACK = 2 << 20, UNWIND_TRIES = 100 };

typedef enum { RANK_READY, RANK_WAITING, RANK_DONE } RankState;

/* What of the Interp belongs to the rank. */
typedef struct View {
    Fiber *fiber;
    Frame *frame;
    char *stack_limit;
    int depth, device;
    Value handling;
    ReadLog *reads;
    struct TaskLoop *tasks;
    Trace trace;
} View;

typedef struct Rank {
    struct Ranks *all;
    int index;
    RankState state;
    bool started;
    Fiber *fiber;               /* where it began */
    View view;
    Value out, error;           /* error V_ERR: none */
    Value thrown;               /* to be raised where it waits; V_ERR: none */
    /* the collective in which it waits */
    OpId op;
    const Attr *attr;
    Tensor *x, *result;
    uint16_t axes;
    Frame *where;
} Rank;

typedef struct Ranks {
    Interp *I;
    const Mesh *mesh;
    Rank *rank, *running;
    Value f, args, kwargs;
    View home;
    struct Ranks *outer;
} Ranks;

/* ------------------------------------------------------------- switching */

static void view_save(Interp *I, View *v)
{
    *v = (View){I->fiber, I->frame, I->stack_limit, I->depth, device_now, I->handling, I->reads, I->tasks, I->trace};
}

static void view_load(Interp *I, const View *v)
{
    I->fiber = v->fiber;
    I->frame = v->frame;
    I->stack_limit = v->stack_limit;
    I->depth = v->depth;
    I->handling = v->handling;
    I->reads = v->reads;
    I->tasks = v->tasks;
    I->trace = v->trace;
    device_enter(v->device);
}

static void rank_entry(void *arg)
{
    Rank *k = arg;
    Ranks *s = k->all;
    Interp *I = s->I;
    Value r = call_with(I, s->f, as_list(s->args)->at[k->index], as_list(s->kwargs)->at[k->index]);

    if (is_err(r))
        k->error = exc_take(I);
    else
        k->out = r;
    k->state = RANK_DONE;
}

/* Let a rank run until it waits or is done. */
static void rank_step(Ranks *s, Rank *k)
{
    Interp *I = s->I;

    view_save(I, &s->home);
    view_load(I, &k->view);
    k->state = RANK_READY;
    k->started = true;
    s->running = k;
    fiber_jump(s->home.fiber, k->view.fiber);
    s->running = NULL;
    if (k->state == RANK_DONE)
        view_save(I, &k->view);
    view_load(I, &s->home);
}

/* ------------------------------------------------------------- on the rank */

/* Trace.host_collective */
static bool meet(void *host, OpId op, const Attr *a, Tensor *x, Tensor **out)
{
    Interp *I = host;
    Ranks *s = I->ranks;
    Rank *k = s->running;

    k->op = op;
    k->attr = a;
    k->x = x;
    k->axes = mesh_parse_axes(s->mesh, a->name);
    k->where = I->frame;
    k->result = NULL;
    k->state = RANK_WAITING;
    view_save(I, &k->view);
    fiber_jump(I->fiber, s->home.fiber);
    if (!is_err(k->thrown)) {
        raise_value(I, k->thrown);
        value_unref(k->thrown);
        k->thrown = VERR;
        I->trace.error = OPERR_HOST;
        return false;
    }
    if (out && x)
        out[0] = k->result;
    k->result = NULL;
    return true;
}

int ranks_current(Interp *I, const Mesh **mesh)
{
    Ranks *s = I->ranks;

    *mesh = s && s->running ? s->mesh : NULL;
    return s && s->running ? s->running->index : -1;
}

/* ------------------------------------------------------------- saying where ranks are */

/* The line of the program in which a rank waits, library files apart. */
static void put_line(const Rank *k, StrBuf *b)
{
    for (const Frame *f = k->where; f; f = f->up) {
        Place p = source_place(f->at ? f->at->span.lo : 0);
        if (f->at && p.src && strncmp(p.src->path, "<stdlib>", 8)) {
            sb_printf(b, " at %s:%u", p.src->path, p.line);
            return;
        }
    }
}

static void put_wait(const Ranks *s, const Rank *k, StrBuf *b)
{
    static const char *const extreme[] = {"max", "min"};
    const char *op = op_info[k->op].name;

    sb_printf(b, "rank %d waits in ", k->index);
    if (k->op == OP_all_reduce || k->op == OP_all_extreme)
        sb_printf(b, "all_reduce(op=\"%s\")", k->op == OP_all_reduce ? "sum" : extreme[k->attr->kind & 1]);
    else
        sb_puts(b, k->op == OP_from_root ? (k->attr->kind ? "reduce" : "broadcast") : op);
    if (k->x) {
        TType y = tensor_type(k->x);
        sb_puts(b, " of ");
        ttype_print(&y, b);
    }
    if (k->attr->naxes && k->x)
        sb_printf(b, " along dim %d", k->x->rank + k->attr->axis[0]);
    if (k->op == OP_rank_shift)
        sb_printf(b, " by %lld", (long long)k->attr->seed);
    if (k->op == OP_from_root)
        sb_printf(b, " with src=%d", k->attr->m);
    sb_printf(b, " over %s", mesh_axes_name(s->mesh, k->axes)->text);
    put_line(k, b);
}

static void put_rank(const Ranks *s, int rank, StrBuf *b)
{
    sb_printf(b, "rank %d", rank);
    for (int a = 0; s->mesh->naxes > 1 && a < s->mesh->naxes; a++)
        sb_printf(b, "%s%s=%d%s", a ? ", " : " (", s->mesh->name[a]->text, mesh_coordinate(s->mesh, rank, a), a == s->mesh->naxes - 1 ? ")" : "");
}

/* ------------------------------------------------------------- meeting */

static bool same_shape(const Tensor *x, const Tensor *y)
{
    if (!x || !y)
        return x == y;
    return x->dtype == y->dtype && x->rank == y->rank && !memcmp(x->shape, y->shape, sizeof(Dim) * x->rank);
}

static bool agree(const Rank *a, const Rank *b)
{
    return a->op == b->op && a->axes == b->axes && attr_equal(a->attr, b->attr) && same_shape(a->x, b->x);
}

static Rank *member(Ranks *s, const Rank *k, int i) { return &s->rank[mesh_member(s->mesh, k->index, k->axes, i)]; }

/* Is every member of k's group waiting in what k waits in? */
static bool complete(Ranks *s, const Rank *k)
{
    for (int i = 0; i < mesh_extent(s->mesh, k->axes); i++) {
        const Rank *m = member(s, k, i);
        if (m->state != RANK_WAITING || !agree(k, m))
            return false;
    }
    return true;
}

static void throw_at(Rank *k, Value exc)
{
    value_unref(k->thrown);
    k->thrown = value_ref(exc);
    k->state = RANK_READY;
}

/* Compute what a group waits for; its members go on, each with a result on its device. */
static void serve(Ranks *s, Rank *k)
{
    Interp *I = s->I;
    int n = mesh_extent(s->mesh, k->axes);
    Tensor **in = tsr_calloc(sizeof *in * 2 * (size_t)n), **out = in + n;
    bool ok = true;

    for (int i = 0; i < n; i++)
        in[i] = member(s, k, i)->x;
    if (k->x)
        ok = collective_run(&I->trace, k->op, k->attr, in, n, out);
    else
        comm_note(k->op, k->attr->name, n, 0, 0);
    for (int i = 0; ok && k->x && i < n; i++)
        ok = tensor_on(&out[i], s->mesh->device[member(s, k, i)->index]);
    if (!ok) {
        raise_op_error(I);
        Value exc = exc_take(I);
        throw_at(k, exc);
        value_unref(exc);
        for (int i = 0; i < n; i++)
            tensor_unref(out[i]);
    }
    for (int i = 0; ok && i < n; i++) {
        Rank *m = member(s, k, i);
        m->result = out[i];
        m->state = RANK_READY;
    }
    tsr_free(in);
}

static bool serve_all(Ranks *s)
{
    bool any = false;

    for (int i = 0; i < s->mesh->size; i++)
        if (s->rank[i].state == RANK_WAITING && complete(s, &s->rank[i])) {
            serve(s, &s->rank[i]);
            any = true;
        }
    return any;
}

/* ------------------------------------------------------------- when it goes wrong */

/* Nobody can go on: the first waiting rank raises what keeps it. */
static void deadlock(Ranks *s)
{
    Rank *k = s->rank, *other = NULL;
    StrBuf b = {0};
    Value exc;

    while (k->state != RANK_WAITING)
        k++;
    for (int i = 0; i < mesh_extent(s->mesh, k->axes) && !other; i++) {
        Rank *m = member(s, k, i);
        if (m->state == RANK_DONE || (m->state == RANK_WAITING && !agree(k, m)))
            other = m;
    }
    if (!other || other->state == RANK_DONE) {
        sb_puts(&b, "E0731: ");
        put_wait(s, k, &b);
        sb_printf(&b, ", but rank %d has finished; every rank must make the same collective calls in the same order", other ? other->index : -1);
    } else {
        bool same_group = other->axes == k->axes;
        sb_printf(&b, same_group ? "E0730: ranks do not make the same collective call: " : "E0732: deadlock: ");
        put_wait(s, k, &b);
        sb_puts(&b, "; ");
        put_wait(s, other, &b);
    }
    raise(s->I, EXC_RuntimeError, "%s", sb_str(&b));
    exc = exc_take(s->I);
    throw_at(k, exc);
    value_unref(exc);
    sb_done(&b);
}

/* The others leave, by an exception that handlers of errors do not see. */
static void unwind(Ranks *s)
{
    Value exc = instance_new(exc_class(s->I, EXC_GeneratorExit));

    for (int i = 0; i < s->mesh->size; i++) {
        Rank *k = &s->rank[i];
        for (int tries = 0; k->started && k->state != RANK_DONE && tries < UNWIND_TRIES; tries++) {
            throw_at(k, exc);
            rank_step(s, k);
        }
    }
    value_unref(exc);
}

static Rank *failed(Ranks *s)
{
    for (int i = 0; i < s->mesh->size; i++)
        if (!is_err(s->rank[i].error))
            return &s->rank[i];
    return NULL;
}

/* Raise what a rank raised, saying which one it was. */
static void report(Ranks *s, Rank *k)
{
    StrBuf b = {0};
    Value note, none;

    raise_value(s->I, k->error);
    Value exc = exc_take(s->I);
    sb_puts(&b, "raised in ");
    put_rank(s, k->index, &b);
    sb_printf(&b, " of %d", s->mesh->size);
    note = str_steal(&b);
    none = value_call_method(s->I, exc, sym("add_note"), &note, 1);
    if (is_err(none))
        exc_clear(s->I);
    value_unref(none);
    value_unref(note);
    raise_value(s->I, exc);
    value_unref(exc);
}

/* ------------------------------------------------------------- the run */

static bool run_all(Ranks *s)
{
    for (;;) {
        bool ran = false, waiting = false;
        for (int i = 0; i < s->mesh->size; i++) {
            Rank *k = &s->rank[i];
            if (k->state == RANK_READY) {
                rank_step(s, k);
                ran = true;
            }
            if (!is_err(k->error))
                return false;
            waiting |= k->state == RANK_WAITING;
        }
        if (!ran && !waiting)
            return true;
        if (!serve_all(s) && !ran)
            deadlock(s);
    }
}

/* Each rank draws its own random numbers, whatever order they run in. */
static bool own_key(Interp *I, Rank *k, Tensor *base)
{
    Tensor *index = tensor_scalar_i(DT_int32, k->index);

    k->view.trace.key = index ? op_binary(&I->trace, OP_fold_key, base, index) : NULL;
    k->view.trace.draws = 0;
    tensor_unref(index);
    return k->view.trace.key != NULL;
}

static bool rank_init(Ranks *s, int i, Tensor *key)
{
    Interp *I = s->I;
    Rank *k = &s->rank[i];
    Trace *T = &k->view.trace;

    *k = (Rank){.all = s, .index = i, .out = VERR, .error = VERR, .thrown = VERR};
    view_save(I, &k->view);
    k->view.tasks = NULL;
    T->temps.at = NULL;
    T->temps.n = T->temps.cap = 0;
    T->message = (StrBuf){0};
    T->floor = T->top ? T->top->depth : 0;
    T->place = ((int64_t)s->mesh->id << 32) + i + 1;
    T->host_collective = meet;
    if (!own_key(I, k, key)) {
        raise_op_error(I);
        return false;
    }
    k->view.device = s->mesh->device[i];
    k->view.depth += GEN_DEPTH;
    k->fiber = fiber_new(RANK_STACK, rank_entry, k);
    if (!k->fiber) {
        raise(I, EXC_MemoryError, "no stack left for rank %d", i);
        return false;
    }
    k->fiber->caller = I->fiber;
    k->view.fiber = k->fiber;
    k->view.stack_limit = k->fiber->limit;
    return true;
}

static void rank_done(Rank *k)
{
    loop_free(k->view.tasks);
    tensor_unref(k->view.trace.key);
    sb_done(&k->view.trace.message);
    vec_free(&k->view.trace.temps);
    value_unref(k->out);
    value_unref(k->error);
    value_unref(k->thrown);
    if (k->fiber)
        fiber_free(k->fiber);
}

static Value results(Ranks *s)
{
    Value list = list_new(s->mesh->size);

    for (int i = 0; i < s->mesh->size; i++)
        list_push(as_list(list), value_ref(s->rank[i].out));
    return list;
}

Value ranks_run(Interp *I, const Mesh *mesh, Value f, Value args, Value kwargs)
{
    Ranks s = {.I = I, .mesh = mesh, .f = f, .args = args, .kwargs = kwargs, .outer = I->ranks};
    Tensor *key = trace_key(&I->trace);
    Value r = VERR;
    int made = 0;
    bool ok = key != NULL;

    if (I->depth + GEN_DEPTH >= I->depth_limit)
        return raise(I, EXC_RecursionError, "maximum recursion depth exceeded");
    s.rank = tsr_calloc(sizeof *s.rank * (size_t)mesh->size);
    for (; ok && made < mesh->size; made++)
        ok = rank_init(&s, made, key);
    if (key)
        tensor_unref(key);
    else
        raise_op_error(I);
    if (ok) {
        I->ranks = &s;
        if (run_all(&s))
            r = results(&s);
        else {
            Rank *k = failed(&s);
            unwind(&s);
            report(&s, k);
        }
        I->ranks = s.outer;
    }
    for (int i = 0; i < made; i++)
        rank_done(&s.rank[i]);
    tsr_free(s.rank);
    return r;
}
