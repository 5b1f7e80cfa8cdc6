/*
 * Distributed tensors: laying out, gathering, and running ops on parts.
 */
#include "ir/graph/shard.h"

#include "base/alloc.h"
#include "ir/graph/level.h"

#include <string.h>

static Level shard_level = {.refs = 1, .depth = 0, .kind = TRACE_SHARD, .apply = apply_shard};

Shards *shards_of(const Tensor *t)
{
    return t->tracer && t->tracer->level->kind == TRACE_SHARD ? t->tracer->shards : NULL;
}

void shards_free(Shards *s)
{
    if (!s)
        return;
    tensors_unref(s->local, s->at.mesh->size);
    tensor_unref(s->whole);
    tsr_free(s);
}

Tensor *shards_tensor(const Placement *at, const TType *whole, Tensor *const *local)
{
    int n = at->mesh->size;
    Shards *s = tsr_alloc(sizeof *s + sizeof *s->local * (size_t)n);

    s->at = *at;
    s->whole = NULL;
    for (int i = 0; i < n; i++)
        s->local[i] = tensor_ref(local[i]);
    return level_tensor(&shard_level, whole, (Tracer){.shards = s});
}

/* ------------------------------------------------------------- moving */

static uint16_t axes_used(const Placement *p)
{
    uint16_t all = p->partial;

    for (int d = 0; d < RANK_MAX; d++)
        all |= p->cut[d];
    return all;
}

/* The first of the ranks that hold the same part as this one. */
static int leader(const Placement *p, int rank)
{
    return mesh_member(p->mesh, rank, (uint16_t)(mesh_all(p->mesh) & ~axes_used(p)), 0);
}

/* make(group of `axes`, its operands in order) for each group that differs; members share the result. */
static void by_group(Rule *r, const Placement *p, uint16_t axes, Tensor **local,
                     Tensor *(*make)(Rule *r, Tensor *const *x, int n, int arg), int arg)
{
    int n = mesh_extent(p->mesh, axes);
    Tensor **x = tsr_alloc(sizeof *x * (size_t)n), **out = tsr_calloc(sizeof *out * (size_t)p->mesh->size);

    for (int rank = 0; rank < p->mesh->size && !r->failed; rank++) {
        int first = mesh_member(p->mesh, leader(p, rank), axes, 0);
        if (first < rank) {
            out[rank] = out[first];
            continue;
        }
        for (int i = 0; i < n; i++)
            x[i] = local[mesh_member(p->mesh, rank, axes, i)];
        out[rank] = make(r, x, n, arg);
    }
    if (!r->failed)
        memcpy(local, out, sizeof *out * (size_t)p->mesh->size);
    tsr_free(x);
    tsr_free(out);
}

static Tensor *make_sum(Rule *r, Tensor *const *x, int n, int dtype) { return r_convert(r, r_sum_ranks(r, x, n), (uint8_t)dtype); }
static Tensor *make_join(Rule *r, Tensor *const *x, int n, int axis) { return r_join(r, x, n, axis); }

static Tensor *make_extreme(Rule *r, Tensor *const *x, int n, int smallest) { return r_extreme(r, x, n, smallest); }

static void note(OpId op, const Placement *p, uint16_t axes, const Tensor *x)
{
    int n = mesh_extent(p->mesh, axes);

    for (int g = 0; g < p->mesh->size / n; g++)
        comm_note(op, mesh_axes_name(p->mesh, axes), n, tensor_nbytes(x), 0);
}

static void add_up(Rule *r, Placement *p, uint8_t dtype, Tensor **local)
{
    note(OP_all_reduce, p, p->partial, local[0]);
    by_group(r, p, p->partial, local, make_sum, dtype);
    p->partial = 0;
}

static void join_axis(Rule *r, Placement *p, int d, Tensor **local)
{
    note(OP_all_gather, p, p->cut[d], local[0]);
    by_group(r, p, p->cut[d], local, make_join, -1 - d);
    p->cut[d] = 0;
}

static void cut_axis(Rule *r, Placement *p, int d, uint16_t axes, Tensor **local)
{
    int n = mesh_extent(p->mesh, axes);
    Tensor **out = tsr_calloc(sizeof *out * (size_t)p->mesh->size);

    p->cut[d] = axes;
    for (int rank = 0; rank < p->mesh->size && !r->failed; rank++) {
        int first = leader(p, rank);
        out[rank] = first < rank ? out[first] : r_part(r, local[rank], -1 - d, mesh_index(p->mesh, rank, axes), n);
    }
    if (!r->failed)
        memcpy(local, out, sizeof *out * (size_t)p->mesh->size);
    tsr_free(out);
}

/* The parts of a tensor, distributed or not, laid out as `to`: temporaries of the rule. */
static void shards_locals(Rule *r, Tensor *t, const Placement *to, Tensor **local)
{
    Shards *s = shards_of(t);
    Placement p = {.mesh = to->mesh};

    if (s && s->at.mesh != to->mesh)
        s = NULL, t = shards_whole(r->T, t);
    if (!t) {
        r->failed = true;
        return;
    }
    for (int i = 0; i < to->mesh->size; i++)
        local[i] = s ? s->local[i] : t;
    if (s)
        p = s->at;
    if (p.partial && p.partial != to->partial)
        add_up(r, &p, t->dtype, local);
    for (int d = 0; d < t->rank && !r->failed; d++)
        if (p.cut[d] && p.cut[d] != to->cut[d])
            join_axis(r, &p, d, local);
    for (int d = 0; d < t->rank && !r->failed; d++)
        if (to->cut[d] && !p.cut[d])
            cut_axis(r, &p, d, to->cut[d], local);
}

Tensor *shards_whole(Trace *T, Tensor *t)
{
    Shards *s = shards_of(t);
    Placement flat = {0};
    Tensor **local;
    Trace own;
    Rule r;

    if (!s || s->whole)
        return s ? s->whole : t;
    flat.mesh = s->at.mesh;
    if (!T)
        trace_init(&own);
    local = tsr_alloc(sizeof *local * (size_t)flat.mesh->size);
    r = rule_begin(T ? T : &own);
    shards_locals(&r, t, &flat, local);
    if (!r.failed) {
        s->whole = tensor_ref(local[0]);
        tensor_on(&s->whole, 0);
    }
    rule_end(&r);
    tsr_free(local);
    if (!T)
        trace_done(&own);
    return s->whole;
}

static bool lay_out(Trace *T, const Placement *to, Tensor *x, Tensor **out)
{
    Tensor **local = tsr_alloc(sizeof *local * (size_t)to->mesh->size);
    TType y = tensor_type(x);
    Rule r = rule_begin(T);

    shards_locals(&r, x, to, local);
    *out = r.failed ? NULL : shards_tensor(to, &y, local);
    rule_end(&r);
    tsr_free(local);
    return *out != NULL;
}

/* Derivatives lie as what they are derivatives of. */
static bool run_lay_as(Trace *T, Tensor *x, const Tensor *like, Tensor **out)
{
    Shards *s = shards_of(like);
    Placement to;

    if (!s || x->rank != like->rank) {
        *out = tensor_ref(x);
        return true;
    }
    to = s->at;
    to.partial = 0;
    return lay_out(T, &to, x, out);
}

/* ------------------------------------------------------------- running an op on parts */

static bool gathered(Trace *T, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    Tensor **x = tsr_alloc(sizeof *x * (size_t)(nin + 1));
    bool ok = true;

    for (int i = 0; ok && i < nin; i++)
        ok = (x[i] = shards_whole(T, in[i])) != NULL;
    ok = ok && op_dispatch(T, op, a, x, nin, out, nout);
    tsr_free(x);
    return ok;
}

static bool run_parts(Rule *r, ShardPlan *p, Tensor *const *in, Tensor **out)
{
    int size = p->mesh->size, nout = 0;
    Tensor **local = tsr_calloc(sizeof *local * (size_t)size * (size_t)(p->nin + p->nout));
    Tensor **x = tsr_alloc(sizeof *x * (size_t)(p->nin + 1)), **made = local + (size_t)size * (size_t)p->nin, *y[4];
    Placement all = {.mesh = p->mesh};

    for (int i = 0; i < p->nin && !r->failed; i++) {
        shards_locals(r, in[i], &p->in[i], local + (size_t)size * (size_t)i);
        all.partial |= axes_used(&p->in[i]);
    }
    for (int rank = 0; rank < size && !r->failed; rank++) {
        int first = leader(&all, rank);
        for (int i = 0; i < p->nin; i++)
            x[i] = local[(size_t)size * (size_t)i + (size_t)rank];
        r->failed = first == rank && !op_dispatch(r->T, p->op, &p->local, x, p->nin, y, &nout);
        for (int k = 0; k < p->nout && !r->failed; k++)
            made[k * size + rank] = first < rank ? made[k * size + first] : r_keep(r, y[k]);
    }
    if (p->extreme && !r->failed) {
        all.partial |= p->extreme;
        note(OP_all_extreme, &all, p->extreme, made[0]);
        by_group(r, &all, p->extreme, made, make_extreme, p->smallest);
    }
    for (int k = 0; k < p->nout && !r->failed; k++)
        out[k] = shards_tensor(&p->out[k], &p->y[k], made + (size_t)k * (size_t)size);
    tsr_free(local);
    tsr_free(x);
    return !r->failed;
}

static bool plan_and_run(Trace *T, ShardPlan *p, Tensor *const *in, Tensor **out, int *nout)
{
    StrBuf err = {0};
    Rule r;
    bool ok;

    p->err = &err;
    if (!shard_plan(p)) {
        ok = err.n ? trace_fail(T, OPERR_SHAPE, "%s", sb_str(&err)) : gathered(T, p->op, p->a, in, p->nin, out, nout);
        sb_done(&err);
        return ok;
    }
    r = rule_begin(T);
    ok = run_parts(&r, p, in, out);
    rule_end(&r);
    *nout = p->nout;
    return ok;
}

/* The one mesh of the operands. */
static bool common_mesh(Trace *T, OpId op, Tensor *const *in, int nin, const Mesh **mesh)
{
    *mesh = NULL;
    for (int i = 0; i < nin; i++) {
        Shards *s = shards_of(in[i]);
        if (s && *mesh && *mesh != s->at.mesh)
            return trace_fail(T, OPERR_VALUE, "E0723: %s: the operands lie on different meshes; move one with reshard(x, mesh=...)",
                              op_info[op].name);
        if (s)
            *mesh = s->at.mesh;
    }
    return true;
}

bool apply_shard(Trace *T, Level *lv, OpId op, const Attr *a, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    TType y[4], *x;
    ShardPlan p = {.op = op, .a = a, .nin = nin, .local = *a, .exact = T->exact};
    int code;
    bool ok;

    if (T->host_collective)
        return trace_fail(T, OPERR_VALUE, "E0724: %s: a tensor that is distributed over a mesh is used inside a rank; pass it to the "
                          "function as an argument, whose local part the rank gets", op_info[op].name);
    if (op == OP_place)
        return run_place(T, a, in[0], out) && (*nout = 1);
    if (op == OP_lay_as)
        return run_lay_as(T, in[0], in[1], out) && (*nout = 1);
    if (op_info[op].family >= FAM_CONTROL || op == OP_constant || op == OP_dim_value || op == OP_dim_float)
        return gathered(T, op, a, in, nin, out, nout);
    if (!common_mesh(T, op, in, nin, &p.mesh))
        return false;
    x = tsr_alloc(sizeof *x * (size_t)nin);
    p.in = tsr_calloc(sizeof *p.in * (size_t)nin);
    for (int i = 0; i < nin; i++) {
        Shards *s = shards_of(in[i]);
        x[i] = tensor_type(in[i]);
        p.in[i] = s ? s->at : (Placement){.mesh = p.mesh};
    }
    p.x = x;
    p.y = y;
    sb_clear(&T->message);
    ok = op_infer(op, a, x, nin, y, &p.nout, &T->message, &code);
    if (!ok)
        T->error = code == 4 ? OPERR_DTYPE : OPERR_SHAPE;
    else
        ok = plan_and_run(T, &p, in, out, nout);
    tsr_free(x);
    tsr_free(p.in);
    return ok;
}

/* ------------------------------------------------------------- laying out */

static bool fits(Trace *T, const Placement *to, const Tensor *x)
{
    uint16_t seen = 0;

    for (int d = 0; d < x->rank; d++) {
        int n = mesh_extent(to->mesh, to->cut[d]);
        if (seen & to->cut[d])
            return trace_fail(T, OPERR_VALUE, "E0721: mesh axis '%s' cuts two axes of the tensor; cut one of them by another axis, or "
                              "leave it whole", mesh_axes_name(to->mesh, seen & to->cut[d])->text);
        seen |= to->cut[d];
        if (x->shape[x->rank - 1 - d] % n)
            return trace_fail(T, OPERR_SHAPE, "E0722: dimension %d: %lld not divisible by %s=%d", x->rank - 1 - d,
                              (long long)x->shape[x->rank - 1 - d], mesh_axes_name(to->mesh, to->cut[d])->text, n);
    }
    return true;
}

bool run_place(Trace *T, const Attr *a, Tensor *x, Tensor **out)
{
    Placement to = {.mesh = mesh_by_id(a->i)};

    if (T->host_collective)
        return trace_fail(T, OPERR_VALUE, "E0724: tensors are distributed outside of ranks; inside one, every tensor is the rank's own");
    if (!to.mesh) {
        Tensor *whole = shards_whole(T, x);
        *out = whole ? tensor_ref(whole) : NULL;
        return whole != NULL;
    }
    for (int d = 0; d < x->rank && d < a->nd[0]; d++)
        to.cut[d] = (uint16_t)a->d[0][a->nd[0] - 1 - d];
    if (!fits(T, &to, x))
        return false;
    return lay_out(T, &to, x, out);
}

void placement_print(const Placement *p, int rank, StrBuf *out)
{
    size_t start = out->n;

    for (int i = 0; i < rank; i++) {
        uint16_t axes = p->cut[rank - 1 - i];
        if (axes)
            sb_printf(out, p->mesh->naxes > 1 ? "%sshard(dim=%d, axis=%s)" : "%sshard(dim=%d)", out->n > start ? " " : "", i,
                      mesh_axes_name(p->mesh, axes)->text);
    }
    if (p->partial)
        sb_printf(out, p->mesh->naxes > 1 ? "%spartial(sum, axis=%s)" : "%spartial(sum)", out->n > start ? " " : "",
                  mesh_axes_name(p->mesh, p->partial)->text);
    if (out->n == start)
        sb_puts(out, "replicate");
}
