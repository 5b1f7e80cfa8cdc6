/*
 * Runs that are done again: replay.h.
 *
 * A run is known by what its operands are but for their elements: types, strides, places in their storage, which of them share one,
 * devices.  It cannot be done again where the host took part: it decided by values (cond, while, print, checks), or computed something from
 * elements that may be others next time.  What it computes from the host's own operands alone, such as keys of random numbers, it
 * computes again before the launch.  Elements that are on the host and are neither operands nor made from them are constants of the graph.
 */
#include "ir/schedule/replay.h"

#include "ir/core/pass.h"
#include "ir/graph/level.h"
#include "ir/graph/timed.h"
#include "ir/schedule/far.h"
#include "ir/schedule/recording.h"

#include "base/vec.h"
#include "runtime/cuda.h"
#include "runtime/gpu_device.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

#include <string.h>

enum { TAKES = 16, TRIES = 4, SHARE = 8 };       /* runs that are kept; that may fail in a row; a part of the memory that is little */
enum { STEP_OPERANDS = 4, STEP_ELEMENTS = 1 << 12 };            /* of what the host computes again */

typedef enum { FROM_CONSTANT, FROM_OPERAND, FROM_STORE, FROM_STEP, FROM_MADE } From;

/* A tensor: a constant (counted), an operand as it is, or one that lies so in the storage of an operand, of a step's result, of the GPU's. */
typedef struct Look {
    From from;
    int which;
    Tensor *is;
    TType type;
    int64_t offset, stride[RANK_MAX];
} Look;

/* What the host computes again, with one result. */
typedef struct Step {
    OpId op;
    Attr attr;
    Look in[STEP_OPERANDS];
    int nin, device;            /* where new tensors were made */
} Step;

typedef struct Made { size_t bytes; uint8_t dtype; bool blank; } Made;      /* storage of results */

typedef struct Take {
    Vec(int64_t) key;
    Recording *recording;
    Vec(Step) steps;
    Vec(Look) results;
    Vec(Made) made;
    int device;
    struct Take *next;
} Take;

typedef Vec(Storage *) Stores;

struct Replay {
    Take *first;
    int failed;
    const char *why;
    Take *now;                  /* being put down */
    Recording *recording;
    Tensor *const *in;
    int nin;
    Stores stores;              /* of its operands, then of its results */
    int noperands;
};

/* ---- which run it is ---- */

static int store_index(Stores *all, Storage *s)
{
    for (int i = 0; i < all->n; i++)
        if (all->at[i] == s)
            return i;
    vec_push(all, s);
    return all->n - 1;
}

static void describe(Take *k, Stores *stores, Tensor *const *in, int nin)
{
    vec_push(&k->key, device_now);
    for (int i = 0; i < nin; i++) {
        const Tensor *t = in[i];
        vec_push(&k->key, t->dtype | t->weak << 8 | t->rank << 16 | (int64_t)t->store->device << 32);
        vec_push(&k->key, (int64_t)(intptr_t)t->policy);
        vec_push(&k->key, store_index(stores, t->store));
        vec_push(&k->key, t->offset);
        for (int a = 0; a < t->rank; a++) {
            vec_push(&k->key, t->shape[a]);
            vec_push(&k->key, t->stride[a]);
        }
    }
}

/* The GPU of the driver's that it is for; 0: it is for none, or somebody wants to see each op. */
static int device_for(const Trace *T, Tensor *const *in, int nin)
{
    int device;

    if (!devices_used || !fused_far || far_pretends || recording_writing() || timed_on || !pass_runs("capture"))
        return 0;
    if (T->watch || T->guarded || T->top || T->place || T->mute || T->all_staged)
        return 0;
    for (int i = 0; i < nin; i++)
        if (in[i]->tracer)
            return 0;
    device = device_of_operands(in, nin);
    device = device ? device : device_now;
    return device && device_is_far(device) ? device : 0;
}

static bool same_key(const Take *a, const Take *b)
{
    return a->key.n == b->key.n && !memcmp(a->key.at, b->key.at, sizeof *a->key.at * (size_t)a->key.n);
}

/* ---- what the host does meanwhile ---- */

static Replay *now;             /* whose run is put down */

static bool on_host(const Storage *s) { return s && !(s->away & AWAY_READ); }

static bool any_varies(Tensor *const *in, int nin)
{
    for (int i = 0; i < nin; i++)
        if (recording_varies(in[i]->store))
            return true;
    return false;
}

static bool is_new(const Storage *s, Tensor *const *in, int nin)
{
    for (int i = 0; i < nin; i++)
        if (in[i]->store == s)
            return false;
    return true;
}

/* How the tensor is found again. false: it is none of these, or another's that may change. */
static bool look_at(const Replay *r, Tensor *t, Look *y)
{
    *y = (Look){.which = -1, .type = tensor_type(t), .offset = t->offset};
    memcpy(y->stride, t->stride, sizeof *y->stride * t->rank);
    for (int i = 0; i < r->nin; i++)
        if (r->in[i] == t) {
            y->from = FROM_OPERAND;
            y->which = i;
            return true;
        }
    for (int i = 0; i < r->nin; i++)
        if (r->in[i]->store == t->store && r->in[i]->dtype == t->dtype) {
            y->from = FROM_STORE;
            y->which = i;
            return true;
        }
    if ((y->which = recording_host(t->store)) >= 0) {
        y->from = FROM_STEP;
        return true;
    }
    y->from = FROM_CONSTANT;
    return !recording_varies(t->store);
}

/* Can the host compute it again, from what it has? Then it will. */
static bool add_step(Replay *r, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor *const *out, int nout)
{
    Step s = {.op = op, .attr = *a, .nin = nin, .device = device_now};
    bool ok = nin <= STEP_OPERANDS && nout == 1 && !(op_info[op].flags & OPF_REGIONS) && !a->value && !a->host && on_host(out[0]->store) &&
              tensor_size(out[0]) <= STEP_ELEMENTS;

    for (int i = 0; ok && i < nin; i++)                 /* a constant that the result has taken the place of is gone */
        ok = on_host(in[i]->store) && tensor_size(in[i]) <= STEP_ELEMENTS && look_at(r, in[i], &s.in[i]) &&
             (s.in[i].from != FROM_CONSTANT || in[i]->store != out[0]->store);
    if (!ok)
        return false;
    for (int i = 0; i < nin; i++)
        if (s.in[i].from == FROM_CONSTANT)
            s.in[i].is = tensor_ref(in[i]);
    recording_hosted(out[0]->store, r->now->steps.n);
    vec_push(&r->now->steps, s);
    return true;
}

/* Was all that it made made on the GPU, without a look at values? Moves go where sizes say; what the host sends for that is noted by itself. */
static bool made_far(OpId op, Tensor *const *out, int nout)
{
    bool far = op_info[op].family == FAM_MOVE || op_info[op].family == FAM_SCAN || op_info[op].family == FAM_SORT ||
               op == OP_index || op == OP_index_put || op == OP_index_add;

    for (int i = 0; i < nout; i++)
        far = far && !on_host(out[i]->store);
    return far && nout;
}

/* What an op makes on its way, of what never changes, does not change either. */
static void begins(Tensor *const *in, int nin) { recording_settles(!any_varies(in, nin)); }

static void noted(OpId op, const Attr *a, Tensor *const *in, int nin, Tensor *const *out, int nout)
{
    bool makes = !(op_info[op].flags & OPF_VIEW) && !made_far(op, out, nout), reads = false;

    recording_settles(false);
    if (op == OP_cond || op == OP_while || op == OP_print || op == OP_check || op_info[op].family == FAM_COLLECTIVE)
        recording_spoil("the host decides by values, or shows them");
    for (int i = 0; i < nout && !made_far(op, out, nout); i++)
        makes = makes || is_new(out[i]->store, in, nin);
    for (int i = 0; makes && i < nin; i++)
        reads = reads || (on_host(in[i]->store) && recording_varies(in[i]->store));
    if (reads && !add_step(now, op, a, in, nin, out, nout))
        recording_spoil("the host computes a part of it");
    for (int i = 0; i < nout && makes && !any_varies(in, nin); i++)
        recording_settled(out[i]->store);
}

/* ---- putting down ---- */

static void take_free(Take *k)
{
    recording_drop(k->recording);
    for (int i = 0; i < k->steps.n; i++)
        for (int j = 0; j < k->steps.at[i].nin; j++)
            tensor_unref(k->steps.at[i].in[j].is);
    for (int i = 0; i < k->results.n; i++)
        tensor_unref(k->results.at[i].is);
    vec_free(&k->steps);
    vec_free(&k->key);
    vec_free(&k->results);
    vec_free(&k->made);
    tsr_free(k);
}

void replay_free(Replay *r)
{
    if (!r)
        return;
    while (r->first) {
        Take *k = r->first;
        r->first = k->next;
        take_free(k);
    }
    tsr_free(r);
}

const char *replay_why_not(const Replay *r) { return r ? r->why : NULL; }

void replay_begin(Trace *T, Replay **all, Tensor *const *in, int nin)
{
    int device = device_for(T, in, nin);
    Replay *r;

    if (!device || (*all && (*all)->failed >= TRIES))
        return;
    r = *all = *all ? *all : tsr_calloc(sizeof **all);
    r->now = tsr_calloc(sizeof *r->now);
    r->now->device = device;
    r->in = in;
    r->nin = nin;
    describe(r->now, &r->stores, in, nin);
    if ((r->recording = recording_begin(device, r->stores.at, r->stores.n))) {
        r->noperands = r->stores.n;
        trace_noted = noted;
        trace_begins = begins;
        now = r;
        return;
    }
    take_free(r->now);
    r->now = NULL;
    vec_free(&r->stores);
}

/* Results are operands, constants, made by the host's steps, or lie in storage of the GPU that the run made. */
static void note_result(Replay *r, Stores *stores, Tensor *t)
{
    int before = r->noperands, made;
    Storage *s = t->store;
    Look y;

    if (!look_at(r, t, &y)) {
        y.from = FROM_MADE;
        y.which = made = store_index(stores, s) - before;
        if (made == r->now->made.n) {
            vec_push(&r->now->made, ((Made){s->nbytes, t->dtype, s->blank}));
            if ((int)s->device != r->now->device || (s->nbytes && !s->blank && (!s->valid || !(s->away & AWAY_READ))))
                recording_spoil("a result is on the host");
        } else if (r->now->made.at[made].dtype != t->dtype) {
            recording_spoil("results of several dtypes share memory");
        }
    } else if (y.from == FROM_CONSTANT) {
        y.is = tensor_ref(t);
    }
    vec_push(&r->now->results, y);
}

/* The oldest go. */
static void keep(Replay *r, Take *k)
{
    Take **p = &r->first;

    k->next = r->first;
    r->first = k;
    for (int i = 0; *p && i < TAKES; i++)
        p = &(*p)->next;
    if (*p) {
        take_free(*p);
        *p = NULL;
    }
}

void replay_end(Replay *r, bool ok, bool wanted, Tensor *const *out, int nout)
{
    Take *k = r ? r->now : NULL;
    int n = k ? r->noperands : 0;

    if (!k)
        return;
    trace_noted = NULL;
    trace_begins = NULL;
    now = NULL;
    for (int i = 0; ok && i < nout; i++)
        note_result(r, &r->stores, out[i]);
    r->now = NULL;
    if (ok) {
        k->recording = recording_end(r->recording, r->stores.at + n, r->stores.n - n, &r->why);
    } else {
        recording_drop(r->recording);
        r->why = "it failed";
    }
    if (k->recording && !wanted && recording_within(k->recording) > gpu_look(k->device - 1)->memory / SHARE)
        r->why = "it takes much memory in one piece, which is taken only where capture_graph=True says so";
    r->recording = NULL;
    vec_free(&r->stores);
    r->failed = r->why ? r->failed + 1 : 0;
    if (r->why)
        take_free(k);
    else
        keep(r, k);
}

/* ---- doing it again ---- */

/* The tensors of a run that is done again. */
typedef struct Now { Tensor *const *in; Tensor **step, **made; } Now;

static Tensor *tensor_now(const Look *y, const Now *w)
{
    Tensor *of, *t;

    if (y->from == FROM_CONSTANT || y->from == FROM_OPERAND)
        return tensor_ref(y->from == FROM_CONSTANT ? y->is : w->in[y->which]);
    of = y->from == FROM_STORE ? w->in[y->which] : y->from == FROM_STEP ? w->step[y->which] : w->made[y->which];
    t = tensor_view(of, y->type.rank, y->type.shape, y->stride, y->offset);
    t->weak = y->type.weak;
    t->policy = y->type.policy;
    return t;
}

static bool run_step(Trace *T, const Step *s, const Now *w, Tensor **out)
{
    Tensor *in[STEP_OPERANDS];
    int was = device_enter(s->device), nout;
    bool ok;

    for (int i = 0; i < s->nin; i++)
        in[i] = tensor_now(&s->in[i], w);
    T->settled++;
    ok = op_dispatch(T, s->op, &s->attr, in, s->nin, out, &nout);
    T->settled--;
    tensors_unref(in, s->nin);
    device_enter(was);
    return ok;
}

static bool make_results(const Take *k, Tensor **made)
{
    int was = device_enter(k->device);
    bool ok = true;

    for (int i = 0; ok && i < k->made.n; i++) {
        const Made *m = &k->made.at[i];
        int64_t n = (int64_t)m->bytes * 8 / dtype_info[m->dtype].sbits;
        ok = (made[i] = tensor_new((DType)m->dtype, 1, &n)) != NULL;
        if (ok && m->blank)
            storage_zero(made[i]->store);
    }
    device_enter(was);
    return ok;
}

static bool play(Trace *T, const Take *k, const char *name, const Now *w, Storage *const *operand, Tensor **out)
{
    int made = k->made.n, steps = k->steps.n;
    Storage **store = tsr_calloc(sizeof *store * (size_t)(made + steps + 1));
    bool ok = make_results(k, w->made);

    for (int i = 0; ok && i < steps; i++)
        ok = run_step(T, &k->steps.at[i], w, &w->step[i]);
    for (int i = 0; ok && i < made + steps; i++)
        store[i] = i < made ? w->made[i]->store : w->step[i - made]->store;
    ok = ok && recording_play(k->recording, operand, store, store + made, name, T->span);
    for (int i = 0; ok && i < k->results.n; i++)
        out[i] = tensor_now(&k->results.at[i], w);
    tsr_free(store);
    return ok;
}

/* With room for what it makes. */
static bool play_take(Trace *T, const Take *k, const char *name, Tensor *const *in, Storage *const *operand, Tensor **out)
{
    int n = k->made.n + k->steps.n;
    Tensor **some = tsr_calloc(sizeof *some * (size_t)(n + 1));
    bool ok = play(T, k, name, &(Now){in, some + k->made.n, some}, operand, out);

    tensors_unref(some, n);
    tsr_free(some);
    return ok;
}

/* The run that is known by this key, which becomes the first. */
static Take *known(Replay *r, const Take *k)
{
    for (Take **p = &r->first, *found; (found = *p); p = &found->next)
        if (same_key(found, k)) {
            *p = found->next;
            found->next = r->first;
            return r->first = found;
        }
    return NULL;
}

static void forget(Replay *r, Take *k)
{
    for (Take **p = &r->first; *p; p = &(*p)->next)
        if (*p == k) {
            *p = k->next;
            take_free(k);
            return;
        }
}

/* Without memory for it in one piece the run goes its long way, which makes room. */
static int failed(Trace *T, Replay *r, Take *k)
{
    StrBuf text = {0};
    FaultKind kind = FAULT_MEMORY;

    if (fault_kept) {
        fault_take(&text, &kind);
        if (kind != FAULT_MEMORY)
            fault(kind, "%s", sb_str(&text));
        sb_done(&text);
    }
    if (kind != FAULT_MEMORY)
        return trace_device_failed(T), -1;
    forget(r, k);
    r->failed = TRIES;
    return 0;
}

int replay_again(Trace *T, Replay *r, const char *name, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Take *same, *k;
    Stores stores = {0};
    int done = 0;

    if (!r || !r->first || !device_for(T, in, nin))
        return 0;
    same = tsr_calloc(sizeof *same);
    describe(same, &stores, in, nin);
    if ((k = known(r, same))) {
        done = play_take(T, k, name, in, stores.at, out) ? 1 : failed(T, r, k);
        *nout = done > 0 ? k->results.n : 0;
    }
    vec_free(&stores);
    take_free(same);
    return done;
}
