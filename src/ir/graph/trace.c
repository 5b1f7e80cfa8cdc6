/*
 * The door that every tensor op passes: promotion of operands, the choice of
 * the level that handles the op, and the run of concrete ones by the reference
 * kernels.  What a level does with an op is in stage.c, autodiff.c and vmap.c.
 */
#include "ir/graph/level.h"
#include "ir/graph/shard.h"
#include "runtime/cuda.h"
#include "runtime/far_moves.h"
#include "runtime/kernels.h"
#include "runtime/storage.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

bool trace_fail(Trace *T, OpError e, const char *fmt, ...)
{
    va_list ap;

    T->error = e;
    sb_clear(&T->message);
    va_start(ap, fmt);
    sb_vprintf(&T->message, fmt, ap);
    va_end(ap);
    return false;
}

static void level_unref(Level *lv);

static void tracer_free(Tracer *tr)
{
    tensor_unref(tr->primal);
    tensor_unref(tr->tangent);
    shards_free(tr->shards);
    level_unref(tr->level);
    tsr_free(tr);
}

void trace_init(Trace *T)
{
    memset(T, 0, sizeof *T);
    tensor_tracer_free = tracer_free;
    graph_init();
}

void trace_done(Trace *T)
{
    tensor_unref(T->key);
    vec_free(&T->temps);
    sb_done(&T->message);
}

/* -- levels ------------------------------------------------------------------------------------------------------- */

Level *level_push(Trace *T, TraceKind kind, LevelApply *apply)
{
    Level *lv = tsr_calloc(sizeof *lv);

    lv->refs = 1;
    lv->kind = kind;
    lv->apply = apply;
    lv->depth = T->top ? T->top->depth + 1 : 1;
    lv->outer = T->top;
    T->top = lv;
    return lv;
}

void level_pop(Trace *T, Level *lv)
{
    T->top = lv->outer;
    lv->closed = true;
    lv->outer = NULL;
    level_unref(lv);
}

static void level_unref(Level *lv)
{
    if (--lv->refs)
        return;
    for (int i = 0; i < lv->captures.n; i++)
        tensor_unref(lv->captures.at[i]);
    vec_free(&lv->captures);
    vec_free(&lv->capture_nodes);
    map_done(&lv->capture_of);
    tsr_free(lv);
}

Tensor *level_tensor(Level *lv, const TType *type, Tracer tr)
{
    Tracer *kept = tsr_alloc(sizeof *kept);
    Tensor *t;

    *kept = tr;
    kept->level = lv;
    lv->refs++;
    t = tensor_abstract((DType)type->dtype, type->rank, type->shape, kept);
    t->weak = type->weak;
    t->policy = type->policy;
    return t;
}

void tensors_unref(Tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        tensor_unref(t[i]);
}

TType tensor_type(const Tensor *t)
{
    TType y = {.dtype = t->dtype, .rank = t->rank, .weak = t->weak, .policy = t->policy};

    memcpy(y.shape, t->shape, sizeof(Dim) * t->rank);
    return y;
}

void tensor_donate(Tensor *t)
{
    static Level donated = {.refs = 1, .kind = TRACE_DONATED};

    if (t->tracer)
        return;
    storage_unref(t->store);
    t->store = NULL;
    donated.refs++;
    t->tracer = tsr_calloc(sizeof *t->tracer);
    t->tracer->level = &donated;
}

Tensor *tensor_concrete(Tensor *t)
{
    while (t->tracer) {
        Tracer *tr = t->tracer;
        if (tr->level->kind == TRACE_STAGE || tr->level->kind == TRACE_DONATED || (tr->level->kind == TRACE_BATCH && tr->batched))
            return NULL;
        if (tr->level->kind == TRACE_SHARD)
            return shards_whole(NULL, t);
        t = tr->primal;
    }
    return t;
}

static bool has_symbolic(const Attr *a)
{
    for (int k = 0; a && k < 4; k++)
        for (int i = 0; i < a->nd[k]; i++) {
            int64_t v;
            if (!dim_is_const(a->d[k][i]) && !dim_const_value(a->d[k][i], &v))
                return true;
        }
    return false;
}

/* Control flow whose regions print, or use sizes that are not known yet, waits for the graph to run. */
static bool regions_wait(const Attr *a)
{
    for (int k = 0; a && k < 4; k++)
        for (const Node *n = a->region[k] ? a->region[k]->first : NULL; n; n = n->next)
            if (n->flags & NODE_SYMBOLIC || (n->op != GRAPH_PARAM && (op_info[n->op].flags & OPF_IO || regions_wait(n->attr))))
                return true;
    return false;
}

static Level *program_stage(const Trace *T)
{
    const RuleFrame *r = T->rule;
    Level *lv = T->top;

    for (;;) {
        for (; r && lv == r->top; r = r->outer)
            lv = r->below;
        if (!lv || (lv->kind == TRACE_STAGE && !lv->linear))
            return lv;
        lv = lv->outer;
    }
}

/*
 * What may fail belongs to the code that asks for it: on a staged value it is part of the innermost region, an arm that
 * may not run or a round that may not come, also when all its operands come from outside.
 */
static bool stays_inside(OpId op, Tensor *const *in, int nin)
{
    if (op != OP_check && op != OP_floordiv && op != OP_mod)
        return false;
    for (int i = 0; i < nin; i++)
        if (in[i]->tracer)
            return true;
    return false;
}

/*
 * The innermost arm of a branch, where the op is on a staged value.  What an arm computes from outside is computed where the arm is
 * taken: elsewhere its derivative may be infinite, and zero times that is no number.
 */
static Level *arm_around(const Trace *T, Tensor *const *in, int nin)
{
    Level *lv = T->top;
    bool staged = false;

    for (int i = 0; i < nin; i++)
        staged |= in[i]->tracer != NULL;
    while (lv && staged && !lv->arm)
        lv = lv->outer;
    return staged ? lv : NULL;
}

/* The level that handles the op; NULL: it runs. */
static Level *deciding_level(const Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin)
{
    Level *best = NULL;

    for (int i = 0; i < nin; i++)
        if (in[i]->tracer && (!best || in[i]->tracer->level->depth > best->depth))
            best = in[i]->tracer->level;
    if (T->top && (T->all_staged || (op_info[op].flags & (OPF_IO | OPF_COLLECTIVE)) || stays_inside(op, in, nin) || has_symbolic(a) ||
                   ((op_info[op].flags & OPF_REGIONS) && regions_wait(a)))) {
        Level *s = program_stage(T);
        if (s && (!best || s->depth > best->depth))
            best = s;
    }
    Level *arm = T->top ? arm_around(T, in, nin) : NULL;
    return arm && (!best || arm->depth > best->depth) ? arm : best;
}

/* -- concrete ops --------------------------------------------------------------------------------------------------- */

static bool kernel_failed(Trace *T, OpId op, KStatus st, StrBuf *err)
{
    static const OpError of[] = {[K_NOMEM] = OPERR_MEMORY, [K_INDEX] = OPERR_INDEX, [K_VALUE] = OPERR_VALUE,
                                 [K_ZERODIV] = OPERR_ZERODIV, [K_NUMERIC] = OPERR_NUMERIC};
    const char *text = err->n ? sb_str(err) : st == K_NOMEM ? "out of memory" : "failed";

    T->failed = op;
    return trace_fail(T, of[st], "%s%s%s", err->n ? "" : op_info[op].name, err->n ? "" : ": ", text);
}

/* Results that a kernel shares with an operand must not change the operand's own marks. */
static void mark_result(Tensor **out, const TType *y)
{
    Tensor *t = *out;

    if (t->weak == y->weak && t->policy == y->policy)
        return;
    if (t->refs > 1) {
        t = tensor_view(*out, (*out)->rank, (*out)->shape, (*out)->stride, (*out)->offset);
        tensor_unref(*out);
        *out = t;
    }
    t->weak = y->weak;
    t->policy = y->policy;
}

/* The result lies where its operands do. */
static bool lies_with(Trace *T, Tensor *const *in, int nin, int nout, Tensor **out)
{
    int at = device_of_operands(in, nin);
    bool ok = true;

    for (int i = 0; at && ok && i < nout; i++)
        if (out[i]->store->refs == 1)
            storage_place(out[i]->store, (uint32_t)at);
        else
            ok = tensor_on(&out[i], at) || trace_fail(T, OPERR_MEMORY, "out of memory");
    return ok;
}

bool trace_lie_together(Trace *T, OpId op, Tensor *const *in, int nin)
{
    int a, b;

    return !devices_used || !devices_differ(in, nin, &a, &b) ||
           trace_fail(T, OPERR_VALUE, "E0725: %s: one operand is on gpu:%d, another on gpu:%d; move one with .to(\"gpu:%d\")",
                      op_info[op].name, a - 1, b - 1, a - 1);
}

bool trace_device_failed(Trace *T)
{
    StrBuf text = {0};
    static const OpError of[] = {[FAULT_RUN] = OPERR_DEVICE, [FAULT_MEMORY] = OPERR_MEMORY, [FAULT_VALUE] = OPERR_VALUE, [FAULT_INDEX] = OPERR_INDEX};
    FaultKind kind = FAULT_RUN;

    fault_take(&text, &kind);
    trace_fail(T, of[kind], "%s", sb_str(&text));
    sb_done(&text);
    return false;
}

int (*trace_run_far)(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *y, int nout, Tensor **out);
void (*trace_begins)(Tensor *const *in, int nin);
void (*trace_noted)(OpId op, const Attr *a, Tensor *const *in, int nin, Tensor *const *out, int nout);

int64_t trace_on_host[OP_COUNT];

/* Some result belongs to a GPU, and the host has its elements: in memory of its own, since it wrote them. */
static void count_on_host(OpId op, Tensor *const *in, int nin, int nout, Tensor *const *out)
{
    for (int i = 0; op != OP_fold_key && i < nout; i++) {              /* keys are eight bytes, and read on the host as often */
        const Storage *s = out[i]->store;
        bool shared = !s->nbytes || s->away & AWAY_READ || !device_is_far((int)s->device);
        for (int k = 0; k < nin && !shared; k++)
            shared = in[k]->store == s;
        if (!shared) {
            trace_on_host[op]++;
            return;
        }
    }
}

static bool run_kernel(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, const TType *y, int nout, Tensor **out)
{
    int done = devices_used && trace_run_far ? trace_run_far(T, op, a, in, nin, y, nout, out) : 0;
    StrBuf err = {0};
    KCtx c = {.err = &err, .poll = T->poll, .poll_state = T->poll_state, .slice = op == OP_matmul && T->slices ? T->slices[0] : NULL};
    KStatus st;

    if (done)
        return done > 0 || (fault_kept && trace_device_failed(T));
    int device = devices_used ? device_of_operands(in, nin) : 0;
    int was = device && device_is_far(device) ? device_enter(device) : device_now;      /* moves stay there: runtime/far_moves.h */
    far_moves_where = T->span;
    if (trace_begins)
        trace_begins(in, nin);
    st = kernel_run_dying(&c, op, a, in, nin, y, out, T->dying);
    if (device_now != was)
        device_enter(was);

    if (st != K_OK)
        kernel_failed(T, op, st, &err);
    else
        for (int i = 0; i < nout; i++)
            mark_result(&out[i], &y[i]);
    sb_done(&err);
    bool ok = st == K_OK && (!devices_used || lies_with(T, in, nin, nout, out));
    if (ok && devices_used)
        count_on_host(op, in, nin, nout, out);
    if (__builtin_expect(fault_kept, 0))
        ok = trace_device_failed(T);
    if (ok && trace_noted)
        trace_noted(op, a, in, nin, out, nout);
    if (st == K_OK && !ok)
        tensors_unref(out, nout);
    return ok;
}

static bool infer_types(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, TType *y, int *nout)
{
    TType few[4] = {{0}}, *x = nin <= 4 ? few : tsr_alloc(sizeof *x * (size_t)nin);
    int code;
    bool ok;

    for (int i = 0; i < nin; i++)
        x[i] = tensor_type(in[i]);
    sb_clear(&T->message);
    ok = op_infer(op, a, x, nin, y, nout, &T->message, &code);
    if (!ok)
        T->error = code == 4 ? OPERR_DTYPE : OPERR_SHAPE;
    if (x != few)
        tsr_free(x);
    return ok;
}

/* Does a message template name an exception kind? The text of a check is its name attribute. */
static bool run_check(Trace *T, const Attr *a, Tensor *const *in, int nin)
{
    int64_t n = tensor_size(in[0]);
    Tensor *c = tensor_contiguous(in[0]);
    bool ok = c != NULL;

    (void)nin;
    for (int64_t i = 0; ok && i < n; i++)
        ok = elem_get_i(c, c->offset + i) != 0;
    tensor_unref(c);
    if (!ok && a->host && T->host_raise) {
        T->host_raise(T->host, a->host);
        T->error = OPERR_HOST;
        return false;
    }
    return ok || trace_fail(T, a->kind ? (OpError)a->kind : OPERR_VALUE, "%s", a->name ? a->name->text : "check failed");
}

/* Ask for the cache lines of a tensor's elements, here as many as a second-level cache holds. */
static void prefetch(const Tensor *t)
{
    enum { MOST = 1 << 20, LINE = 64 };
    const FarMoves *far = t->store ? far_moves_of(t) : NULL;
    const char *p = !far && t->store && t->contiguous && !t->store->away ? tensor_read(t) : NULL;

    for (size_t i = 0, n = p ? tensor_nbytes(t) : 0; i < n && i < MOST; i += LINE)
        __builtin_prefetch(p + i, 0, 2);
    if (far)
        far->prefetch(t);
}

bool scope_is_manual(Sym scope) { return scope && strstr(scope->text, SCOPE_MANUAL); }

FusionWay scope_fusion(Sym scope)
{
    static const char *const way[] = {[FUSION_AUTO] = SCOPE_FUSION "auto", [FUSION_HORIZONTAL] = SCOPE_FUSION "horizontal"};

    for (int k = FUSION_AUTO; scope && k <= FUSION_HORIZONTAL; k++)
        if (strstr(scope->text, way[k]))
            return (FusionWay)k;
    return FUSION_PLAIN;
}

/* Does the word begin with one of these? */
static bool begins_with(const char *word, const char *const *of, int n)
{
    for (int i = 0; i < n; i++)
        if (!strncmp(word, of[i], strlen(of[i])))
            return true;
    return false;
}

/* The words of a scope that begin with one of these, or all others; NULL: there are none. */
static Sym scope_words(Sym scope, const char *const *of, int n, bool those)
{
    StrBuf b = {0};
    Sym kept;

    for (const char *at = scope ? scope->text : ""; *at;) {
        size_t length = strcspn(at, " ");
        if (begins_with(at, of, n) == those)
            sb_printf(&b, "%s%.*s", b.n ? " " : "", (int)length, at);
        at += length + (at[length] == ' ');
    }
    kept = b.n ? sym_n(sb_str(&b), b.n) : NULL;
    sb_done(&b);
    return kept;
}

Sym scope_lasting(Sym scope) { return scope_words(scope, (const char *const[]){SCOPE_MANUAL, SCOPE_FUSION}, 2, true); }

Sym scope_around(Sym scope)
{
    return scope && strstr(scope->text, SCOPE_CALL) ? scope_words(scope, (const char *const[]){SCOPE_CALL}, 1, false) : scope;
}

Sym trace_enter(Trace *T, const char *key, const char *value)
{
    Sym former = T->scope;
    StrBuf b = {0};

    sb_printf(&b, "%s%s%s=%s", former ? former->text : "", former ? " " : "", key, value);
    T->scope = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return former;
}

/* Ops that need no kernel. *ok: how it went. */
static bool run_special(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout, bool *ok)
{
    int64_t v;

    *ok = true;
    *nout = 1;
    switch (op) {
    case OP_constant:
        out[0] = tensor_ref(a->value);
        return true;
    case OP_stop_gradient: case OP_as_softmax:
        out[0] = tensor_ref(in[0]);
        return true;
    case OP_lay_as:
        out[0] = tensor_ref(in[0]);
        return true;
    case OP_convert:                                    /* held in another memory (lower_held.c), which is where it is */
        if (a->name)
            out[0] = tensor_ref(in[0]);
        return a->name != NULL;
    case OP_place:
        *ok = run_place(T, a, in[0], out);
        return true;
    case OP_dim_value:
        *ok = dim_const_value(a->d[0][0], &v) || trace_fail(T, OPERR_TRACE, "a size is not known here");
        out[0] = *ok ? tensor_scalar_i(DT_int64, v) : NULL;
        return true;
    case OP_dim_float:                                  /* by its kernel, when all sizes are numbers */
        for (int i = 0; *ok && i < a->nd[0]; i++)
            *ok = dim_const_value(a->d[0][i], &v) || trace_fail(T, OPERR_TRACE, "a size is not known here");
        return !*ok;
    case OP_print:
        *nout = 0;
        *ok = T->host_print && T->host_print(T->host, a, in, nin);
        if (!*ok)
            T->error = OPERR_HOST;
        return true;
    case OP_launch:
        *ok = T->host_launch && T->host_launch(T->host, a, in, nin, T->dying, out, nout);
        if (!*ok)
            T->error = OPERR_HOST;
        return true;
    case OP_prefetch:
        *nout = 0;
        prefetch(in[0]);
        return true;
    case OP_check:
        *nout = 0;
        *ok = run_check(T, a, in, nin);
        return true;
    default:
        return false;
    }
}

static bool apply_now(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    TType y[4];
    bool ok;

    storage_op += !T->fused;
    if (trace_noted && (op == OP_cond || op == OP_while || op_info[op].family == FAM_EFFECT))
        trace_noted(op, a, in, nin, NULL, 0);
    if (op_info[op].flags & OPF_REGIONS || op_info[op].family == FAM_CONTROL) {
        T->fused += op == OP_fused;
        ok = apply_region(T, op, a, in, nin, out, nout);
        T->fused -= op == OP_fused;
        return ok;
    }
    if (run_special(T, op, a, in, nin, out, nout, &ok)) {
        if (ok && op == OP_dim_value && trace_noted)
            trace_noted(op, a, in, nin, out, *nout);
        return ok;
    }
    if (!infer_types(T, op, a, in, nin, y, nout))
        return false;
    if (!kernel_of[op])
        return trace_fail(T, OPERR_TRACE, "%s cannot run here", op_info[op].name);
    if (T->guarded)
        T->dying = 0;                   /* its operands are looked at afterwards */
    ok = run_kernel(T, op, a, in, nin, y, *nout, out);
    if (ok && T->guarded && !sentinel_passes(T, op, in, nin, out, *nout)) {
        tensors_unref(out, *nout);
        return false;
    }
    if (ok && T->watch)
        T->watch(T->host, op, in, nin, out, *nout);
    return ok;
}

bool apply_concrete(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    int64_t began;
    bool ok;

    if (!T->timed)
        return apply_now(T, op, a, in, nin, out, nout);
    began = T->began(T->host);
    ok = apply_now(T, op, a, in, nin, out, nout);
    T->timed(T->host, op, a, in, nin, out, ok ? *nout : 0, began);
    return ok;
}

/* -- dispatch --------------------------------------------------------------------------------------------------------- */

/* A collective that no level of the running rank records: the ranks meet. */
static bool run_collective(Trace *T, OpId op, const Attr *a, Tensor *const *in, Tensor **out, int *nout)
{
    int64_t began = T->timed ? T->began(T->host) : 0;
    TType y[4];

    *nout = op_info[op].nout;
    if (trace_noted)
        trace_noted(op, a, in, 0, NULL, 0);
    if (op_info[op].nin && !infer_types(T, op, a, in, 1, y, nout))
        return false;
    if (!T->host_collective)
        return trace_fail(T, OPERR_VALUE, "E0726: %s is called outside of ranks: decorate the function that calls it with @tessera.spmd, "
                          "or call it on a tensor that is distributed over a mesh", op_info[op].name);
    if (T->host_collective(T->host, op, a, op_info[op].nin ? in[0] : NULL, out)) {
        if (T->timed)
            T->timed(T->host, op, a, in, op_info[op].nin > 0, out, *nout, began);
        return true;
    }
    if (T->error == OPERR_NONE)
        T->error = OPERR_HOST;
    return false;
}

bool op_dispatch(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Level *lv = deciding_level(T, op, a, in, nin);
    bool ok;

    if (T->mute && (op_info[op].flags & OPF_IO)) {
        *nout = 0;
        return true;
    }
    if ((op_info[op].flags & OPF_COLLECTIVE) && (!lv || lv->depth <= T->floor))
        return run_collective(T, op, a, in, out, nout);
    if (!lv)
        return apply_concrete(T, op, a, in, nin, out, nout);
    if (lv->kind == TRACE_SHARD)
        return lv->apply(T, lv, op, a, in, nin, out, nout);
    if (lv->kind == TRACE_DONATED)
        return trace_fail(T, OPERR_VALUE, "E0727: buffer donated: %s uses a tensor that was given away (donate=) to an earlier call",
                          op_info[op].name);
    if (lv->closed)
        return trace_fail(T, OPERR_TRACE, "a traced value was kept after its %s ended, and used in %s",
                          lv->kind == TRACE_STAGE ? "jit" : lv->kind == TRACE_BATCH ? "vmap" : "grad", op_info[op].name);
    RuleFrame frame = {T->top, lv->outer, T->rule};
    T->settled++;                       /* rules say themselves what they want */
    T->rule = &frame;
    ok = lv->apply(T, lv, op, a, in, nin, out, nout);
    T->rule = frame.outer;
    T->settled--;
    return ok;
}

/* Sizes that a condition has fixed are numbers; what needs no size then needs no graph. */
static const Attr *known_sizes(const Attr *a, Attr *room)
{
    if (!dim_asking() || !has_symbolic(a))
        return a;
    if (a != room)
        *room = *a;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < room->nd[k]; i++)
            room->d[k][i] = dim_known(room->d[k][i]);
    return room;
}

/* Rules count axes from the end; callers may do otherwise. What is out of range is left for typing to report. */
static const Attr *trailing_axes(const Attr *a, Tensor *const *in, int nin, Attr *room)
{
    int rank = nin ? in[0]->rank : a->nd[0];
    bool front = false;

    for (int i = 0; i < a->naxes; i++)
        front |= a->axis[i] >= 0;
    if (!front)
        return a;
    *room = *a;
    for (int i = 0; i < a->naxes; i++)
        if (room->axis[i] >= 0 && room->axis[i] < rank)
            room->axis[i] = (int8_t)(room->axis[i] - rank);
    return room;
}

/* Most ops of an eager program are elementwise on small plain tensors, and nothing above needs to know. */
static bool quick(const Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out)
{
    if (a || T->numerics || T->watch || T->timed || T->guarded || T->all_staged || devices_used || op_info[op].family != FAM_MAP)
        return false;
    for (int i = 0; i < nin; i++)
        if (in[i]->tracer || in[i]->policy)
            return false;
    out[0] = kernel_map_small(op, in, nin);
    return out[0] != NULL;
}

bool op_apply(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor *few[8], **x = nin <= 8 ? few : tsr_alloc(sizeof *x * (size_t)nin);
    Attr room;
    bool ok;

    if (quick(T, op, a, in, nin, out)) {
        *nout = 1;
        return true;
    }
    a = a ? known_sizes(trailing_axes(a, in, nin, &room), &room) : &attr_none;
    for (int i = 0; i < nin; i++)
        x[i] = tensor_ref(in[i]);
    ok = promote_operands(T, op, a, x, nin);
    if (ok && !apply_numerics(T, op, a, x, nin, out, nout, &ok))
        ok = op_dispatch(T, op, a, x, nin, out, nout);
    tensors_unref(x, nin);
    if (x != few)
        tsr_free(x);
    return ok;
}

Tensor *op1(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin)
{
    Tensor *out[4] = {NULL};
    int n = 0;

    if (!op_apply(T, op, a, in, nin, out, &n))
        return NULL;
    for (int i = 1; i < n; i++)
        tensor_unref(out[i]);
    return out[0];
}

Tensor *op_unary(Trace *T, OpId op, Tensor *x)
{
    return op1(T, op, NULL, &x, 1);
}

Tensor *op_binary(Trace *T, OpId op, Tensor *x, Tensor *y)
{
    return op1(T, op, NULL, (Tensor *[]){x, y}, 2);
}
