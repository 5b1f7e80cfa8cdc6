/*
 * A launch goes: arguments become memory where the kernel runs, outputs are
 * copied, the code or the oracle runs it, and what it leaves is given back.
 *
 * Tensors are values: a parameter that the kernel stores to is copied, and the
 * call gives the copy back for the caller's variable.
 *
 * On a rank, tile.all_reduce stops in the middle of the oracle until the other
 * ranks have come as far (eval/ranks.h).
 */
#include "frontend/kernel/launch_impl.h"

#include "frontend/eval/ranks.h"
#include "frontend/tensor/tensor_ops.h"
#include "ir/schedule/far.h"
#include "ir/schedule/launched.h"
#include "ir/schedule/recording.h"
#include "runtime/cuda.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

#include <string.h>

/* A tensor's place is found when it is known where the kernel runs. */
static TileArg arg_of(const Tensor *t)
{
    TileArg a = {.base = NULL};

    for (int i = 0; i < t->rank; i++) {
        a.extent[i] = t->shape[i];
        a.stride[i] = t->stride[i];
    }
    return a;
}

/* A result is as large as its block, or as the dimensions that groups share; what is past the end of one is none of it. */
static Tensor *new_result(const KSpec *s, const KResult *r)
{
    Dim shape[VIEW_RANK];
    int lead = r->led ? kspec_leading(s, s->led) : 0;

    for (int i = 0; i < lead; i++)
        shape[i] = s->param[s->led].tensor->shape[i];
    for (int i = 0; i < r->rank; i++) {
        shape[lead + i] = kresult_extent(s, &r->axis[i]);
    }
    return tensor_zeros(r->dtype, lead + r->rank, shape);
}

typedef struct Run {
    TileArg *arg;
    double *number;
    Tensor *out[KERNEL_PARAMS], *result[KERNEL_RESULTS], *far_number[KERNEL_PARAMS];
    Tensor **at;                        /* by argument: the tensor that it is, borrowed; NULL: a number */
    bool *written, *fresh;              /* by argument; fresh: none of it was written before, and nobody will know what it was */
} Run;

static void set_arg(Run *r, int i, Tensor *t, bool written)
{
    r->arg[i] = arg_of(t);
    r->at[i] = t;
    r->written[i] = written;
}

/* The device of the launch's tensors, 0 the host's; false: it is several, *a and *b. */
static bool lie_together(const Version *v, const Run *r, int *a, int *b)
{
    int n = v->k->params.n, tensors = 0;
    Tensor **some = tsr_calloc(sizeof *some * (size_t)(n + 1));
    bool differ;

    for (int i = 0; i < n; i++)
        if (r->at[i])
            some[tensors++] = r->at[i];
    differ = devices_differ(some, tensors, a, b);
    tsr_free(some);
    return !differ;
}

/* The GPU of the driver's that the launch's tensors are on, or that new ones are made on; 0: none. */
static int far_device(const Launch *L, const Version *v, const Run *r)
{
    int device = 0, other;

    if (devices_used)
        lie_together(v, r, &device, &other);
    device = device ? device : device_now;
    return device && fused_far && device_is_far(device) && !L->spec.debug && !kernel_launched && !interp_trace(L->I)->guarded ? device : 0;
}

/* A copy on the device of the tensor; in a rehearsal nobody looks at it. */
static Tensor *copy_there(const Tensor *t)
{
    int was = device_enter((int)t->store->device);
    Tensor *c = far_pretends ? tensor_new((DType)t->dtype, t->rank, t->shape) : tensor_copy(t);

    device_enter(was);
    return c;
}

/* What tile_fills says of the parameters of a version's last launch (a bit each), and of which sizes it does; or what the program says. */
static bool is_filled(Version *v, const Run *r, const int64_t *size, int param)
{
    size_t n = 0, sizes = (size_t)v->k->size.n, most = sizes + (size_t)v->k->params.n * VIEW_RANK;
    int64_t *at;

    if (param < 64 && v->discards >> param & 1)
        return true;
    at = tsr_alloc(sizeof *at * (most + 1));
    for (; n < sizes; n++)
        at[n] = size[n];
    for (int i = 0; i < v->k->params.n; i++)
        for (int k = 0; k < v->k->params.at[i]->type[0].rank; k++)
            at[n++] = r->arg[i].extent[k];
    if (!v->filled_at || memcmp(v->filled_at, at, sizeof *at * n) != 0) {
        tsr_free(v->filled_at);
        v->filled_at = at;
        v->filled = 0;
        for (int i = 0; i < v->k->params.n && i < 64; i++)
            v->filled |= r->written[i] && tile_fills(v->k, i, size, r->arg) ? 1ULL << i : 0;
    } else {
        tsr_free(at);
    }
    return param < 64 && v->filled >> param & 1;
}

/* Does the host run the kernel, and nobody looks at what it has not written? */
static bool runs_here(const Launch *L, const Tensor *t)
{
    return !devices_used && !device_is_far((int)t->store->device) && !L->spec.debug && !kernel_launched && !interp_trace(L->I)->guarded;
}

/* Memory that is there for the output, if it lies as the code takes it and nobody looks at what the kernel has not written; NULL: there is none. */
static Tensor *into(const Launch *L, Version *v, const Run *r, const int64_t *size, int i)
{
    const Tensor *t = L->spec.param[i].tensor;
    Tensor *x = L->arg[i] >= 0 && L->arg[i] < KERNEL_PARAMS ? L->call->into[L->arg[i]] : NULL;
    const TileType *view = &v->k->params.at[v->index[i]]->type[0];
    bool fits = x && x->dtype == t->dtype && x->rank == t->rank && view->rank == t->rank && device_is_far((int)t->store->device);

    for (int k = 0; fits && k < t->rank; k++)
        fits = x->shape[k] == t->shape[k] && (view->stride[k] == STRIDE_ANY || view->stride[k] == x->stride[k]);
    return fits && is_filled(v, r, size, v->index[i]) ? tensor_ref(x) : NULL;
}

/*
 * What the kernel stores to: a copy, or the tensor itself where that is the launch's and no other argument looks at it. A copy that the kernel
 * fills without reading it need have nothing in it.
 */
static Tensor *as_output(const Launch *L, Version *v, const Run *r, const int64_t *size, int i)
{
    const Tensor *t = L->spec.param[i].tensor;
    Tensor *x = into(L, v, r, size, i);

    if (x)
        return x;
    for (int k = 0; k < L->call->nown; k++)
        if (L->call->own[k] == t && t->refs == 2)           /* the graph's and the argument's */
            return tensor_ref((Tensor *)t);
    return runs_here(L, t) && is_filled(v, r, size, v->index[i]) ? tensor_new((DType)t->dtype, t->rank, t->shape) : copy_there(t);
}

/* The sizes that the code has. */
static int64_t *sizes_of_code(const Launch *L, const Version *v)
{
    int64_t *size = tsr_calloc(sizeof *size * (size_t)(v->k->size.n + 1));

    for (int i = 0; i < v->k->size.n; i++)
        size[i] = launch_size(&L->spec, v->k->size.at[i]);
    return size;
}

/* Arguments that the kernel stores to become its own. */
static bool prepare_outputs(Launch *L, Version *v, Run *r)
{
    int64_t *size = sizes_of_code(L, v);
    bool ok = true;

    for (int i = 0; i < L->spec.nparams && ok; i++) {
        if (!L->spec.param[i].tensor || v->index[i] < 0 || !v->written[i])
            continue;
        ok = (r->out[i] = as_output(L, v, r, size, i)) != NULL;
        if (ok)
            set_arg(r, v->index[i], r->out[i], true);
    }
    tsr_free(size);
    return ok || (raise(L->I, EXC_MemoryError, "no memory for what kernel '%s' writes", L->name), false);
}

static bool prepare(Launch *L, Version *v, Run *r)
{
    int a, b;

    for (int i = 0; i < v->reads.n; i++)
        if (v->reads.at[i].param >= 0)
            set_arg(r, v->reads.at[i].param, as_tensor(v->reads.at[i].v), false);
    for (int i = 0; i < L->spec.nparams; i++) {
        KParam *p = &L->spec.param[i];
        if (v->index[i] < 0)
            continue;
        if (!p->tensor) {
            r->number[i] = p->v.f;
            r->arg[v->index[i]] = (TileArg){.base = &r->number[i]};
            continue;
        }
        set_arg(r, v->index[i], (Tensor *)p->tensor, v->written[i]);
    }
    if (!prepare_outputs(L, v, r))
        return false;
    if (devices_used && !lie_together(v, r, &a, &b))
        return raise(L->I, EXC_ValueError, "E0725: kernel '%s': one argument is on gpu:%d, another on gpu:%d; move one with .to(\"gpu:%d\")",
                     L->name, a - 1, b - 1, a - 1), false;
    for (int i = 0; i < v->nresults; i++) {
        int device = far_device(L, v, r), was;
        if (!kresult_keeps(L, &v->result[i]))
            return false;
        was = device_enter(device ? device : device_now);
        r->result[i] = new_result(&L->spec, &v->result[i]);
        device_enter(was);
        if (!r->result[i])
            return raise(L->I, EXC_MemoryError, "no memory for what kernel '%s' returns", L->name), false;
        set_arg(r, v->result[i].param, r->result[i], true);
    }
    return true;
}

static size_t place_in(const Tensor *t) { return (size_t)t->offset * (dtype_info[t->dtype].sbits / 8); }

/* Are zeros about to be written over, all of them, so that nobody need write them? */
static bool is_fresh(Version *v, const Run *r, const int64_t *size, int param)
{
    const Tensor *t = r->at[param];

    if (!t || !r->written[param] || !t->store->blank || t->offset || !t->contiguous || tensor_nbytes(t) != t->store->nbytes)
        return false;
    for (int i = 0; i < v->k->params.n; i++)
        if (i != param && r->at[i] && r->at[i]->store == t->store)
            return false;
    return is_filled(v, r, size, param);
}

/* Where arguments are on the device; numbers get a place there. false: a fault is kept. */
static bool place_far(Version *v, Run *r, const int64_t *size, int device)
{
    for (int i = 0, n = 0; i < v->k->params.n; i++) {
        const double *number = r->at[i] ? NULL : r->arg[i].base;
        Tensor *t = r->at[i];
        char *base;
        if (number && !(t = r->far_number[n++] = tensor_scalar_f(DT_f64, *number)))
            return false;
        if (number)
            recording_settled(t->store);                /* it is the launch's, each time */
        if (!t || !tensor_nbytes(t))
            continue;
        if (!number)
            r->fresh[i] = is_fresh(v, r, size, i);
        if (!(base = fused_far->address(t, device, r->written[i], r->fresh[i])))
            return false;
        r->arg[i].base = base + place_in(t);
    }
    return true;
}

static void place_here(const Version *v, Run *r)
{
    for (int i = 0; i < v->k->params.n; i++)
        if (r->at[i])
            r->arg[i].base = r->written[i] ? tensor_data(r->at[i]) : (void *)tensor_read(r->at[i]);
}

/* 1: done; 0: it is for the host to do; -1: an exception is pending. */
static int execute_far(Launch *L, Version *v, Run *r, const int64_t *size, int device)
{
    TileArg *here = tsr_alloc(sizeof *here * (size_t)(v->k->params.n + 1));
    StrBuf text = {0};
    FaultKind kind;
    int done;

    memcpy(here, r->arg, sizeof *here * (size_t)v->k->params.n);
    done = place_far(v, r, size, device) ? launched_far(&v->code, v->k, device, size, r->arg, interp_span(L->I)) : -1;
    for (int i = 0; i < v->k->params.n; i++)
        if (done <= 0 && r->fresh[i])
            storage_zero(r->at[i]->store);
    memcpy(r->arg, here, sizeof *here * (size_t)v->k->params.n);
    tsr_free(here);
    if (done < 0)
        raise(L->I, EXC_RuntimeError, "%s", fault_take(&text, &kind) ? sb_str(&text) : "E0624: the GPU did not run it");
    sb_done(&text);
    return done;
}

/* tile.all_reduce: the ranks meet as in the host's. false: an exception is pending. */
static bool meet_ranks(void *st, Sym axes, const TileType *t, const void *in, void *out)
{
    Interp *I = st;
    Trace *T = interp_trace(I);
    const Mesh *mesh;
    Attr at = attr_default();
    Dim shape[TILE_RANK_MAX];
    Tensor *x, *y = NULL;
    bool ok;

    ranks_current(I, &mesh);
    if (!mesh || !T->host_collective) {
        raise(I, EXC_RuntimeError, "E0726: tile.all_reduce() in a kernel that is launched outside of ranks: decorate the function that launches it "
              "with @tessera.spmd");
        return false;
    }
    at.name = mesh_axes_name(mesh, mesh_parse_axes(mesh, axes));
    at.i = mesh_extent(mesh, mesh_parse_axes(mesh, axes));
    for (int i = 0; i < t->rank; i++)
        shape[i] = t->extent[i];
    if (!mesh_parse_axes(mesh, axes) || !(x = tensor_new((DType)t->dtype, t->rank, shape))) {
        raise(I, EXC_RuntimeError, "E0723: tile.all_reduce() along '%s', and the ranks are on a mesh of %s", axes->text,
              mesh_axes_name(mesh, (uint16_t)((1 << mesh->naxes) - 1))->text);
        return false;
    }
    memcpy(tensor_data(x), in, tensor_nbytes(x));
    ok = T->host_collective(T->host, OP_all_reduce, &at, x, &y);
    if (ok)
        memcpy(out, tensor_read(y), tensor_nbytes(x));
    else
        raise_op_error(I);
    tensor_unref(x);
    tensor_unref(y);
    return ok;
}

static bool execute(Launch *L, Version *v, Run *r)
{
    int device = far_device(L, v, r);
    int64_t *size = sizes_of_code(L, v);
    StrBuf err = {0};
    bool guarded = interp_trace(L->I)->guarded;
    int done = 0;

    if (device && (done = execute_far(L, v, r, size, device))) {
        tsr_free(size);
        return done > 0;
    }
    place_here(v, r);
    if (kernel_launched)
        kernel_launched(kernel_launched_state, &(KernelLaunch){L->name, v->k, size, r->arg, L->spec.groups / L->spec.warps,
                                                               L->spec.lanes * L->spec.warps});
    if (!L->spec.debug && !guarded)
        done = launched_run(&v->code, v->k, size, r->arg, &err);
    tile_ranks = meet_ranks;
    tile_said = kernel_said;
    tile_host = L->I;
    if (!done)
        done = tile_run(v->k, size, r->arg,
                        (L->spec.debug ? TILE_CHECK_BUFFERS | TILE_CHECK_RACES : 0) | (guarded ? TILE_CHECK_NUMBERS : 0), &err) ? 1 : -1;
    if (done < 0 && exc_pending(L->I))
        ;
    else if (done < 0 && tsr_interrupted)
        interp_poll(L->I);
    else if (done < 0 && guarded && (!strncmp(sb_str(&err), "NaN", 3) || !strncmp(sb_str(&err), "infinity", 8)))
        raise(L->I, EXC_NumericalError, "kernel '%s': %s", L->name, sb_str(&err));
    else if (done < 0)
        raise(L->I, EXC_RuntimeError, "E0624: kernel '%s' is at fault: %s", L->name, sb_str(&err));
    sb_done(&err);
    tsr_free(size);
    return done > 0;
}

static Value take_tensor(Tensor **t)
{
    Value v = *t ? tensor_value(*t) : VNONE;

    *t = NULL;
    return v;
}

/* (result, outputs by position, outputs by name) */
static Value give_back(Launch *L, Version *v, Run *r, Value args)
{
    Value outs = tuple_new(as_tuple(args)->n), named = dict_new(), result = VNONE;

    for (int64_t i = 0; i < as_tuple(args)->n; i++)
        as_tuple(outs)->at[i] = VNONE;
    for (int i = 0; i < L->spec.nparams; i++) {
        if (!r->out[i])
            continue;
        if (L->arg[i] >= 0) {
            as_tuple(outs)->at[L->arg[i]] = take_tensor(&r->out[i]);
        } else if (L->keyword[i]) {
            Value t = take_tensor(&r->out[i]);
            dict_set_sym(as_dict(named), L->keyword[i], t);
            value_unref(t);
        }
    }
    if (v->returns_tuple) {
        result = tuple_new(v->nresults);
        for (int i = 0; i < v->nresults; i++)
            as_tuple(result)->at[i] = take_tensor(&r->result[i]);
    } else if (v->nresults) {
        result = take_tensor(&r->result[0]);
    }
    return tuple_of(3, result, outs, named);
}

Value launch_go(Launch *L, Version *v, Value args)
{
    size_t n = (size_t)(v->k->params.n + 1);
    Run r = {.arg = tsr_calloc(sizeof *r.arg * n), .number = tsr_calloc(sizeof *r.number * KERNEL_PARAMS), .at = tsr_calloc(sizeof *r.at * n),
             .written = tsr_calloc(sizeof *r.written * n), .fresh = tsr_calloc(sizeof *r.fresh * n)};
    Value y = VERR;

    if (prepare(L, v, &r) && execute(L, v, &r))
        y = give_back(L, v, &r, args);
    for (int i = 0; i < KERNEL_PARAMS; i++)
        tensor_unref(r.out[i]);
    for (int i = 0; i < KERNEL_RESULTS; i++)
        tensor_unref(r.result[i]);
    for (int i = 0; i < KERNEL_PARAMS; i++)
        tensor_unref(r.far_number[i]);
    tsr_free(r.arg);
    tsr_free(r.number);
    tsr_free(r.at);
    tsr_free(r.written);
    tsr_free(r.fresh);
    return y;
}
