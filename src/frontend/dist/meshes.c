/* Devices and meshes by their numbers, and where tensors are. */
#include "frontend/dist/dist.h"

#include "runtime/cuda.h"
#include "runtime/gpu_device.h"

#include <stdlib.h>
#include <string.h>

static bool all_str(ListObj *l)
{
    for (int64_t i = 0; i < l->n; i++)
        if (l->at[i].tag != V_STR)
            return false;
    return true;
}

bool args_are(Interp *I, const Value *a, const char *kinds)
{
    for (; *kinds; kinds++, a++) {
        bool ok = *kinds == 't' ? a->tag == V_TENSOR : *kinds == 'i' ? a->tag == V_INT : *kinds == 's' ? a->tag == V_STR :
                  *kinds == 'l' ? a->tag == V_LIST : *kinds == 'L' ? a->tag == V_LIST && all_str(as_list(*a)) : true;
        if (!ok) {
            raise(I, EXC_TypeError, "an argument of another type was expected, not %s", value_type_name(*a));
            return false;
        }
    }
    return true;
}

static Value f_gpus(Interp *I, Value *a) { return vint(devices_gpus()); }

static bool ints_of(Interp *I, Value list, int *out, int max, int *n)
{
    ListObj *l = as_list(list);

    *n = (int)l->n;
    for (int i = 0; i < l->n && i < max; i++) {
        int64_t v;
        if (!value_as_int(I, l->at[i], &v))
            return false;
        out[i] = (int)v;
    }
    return true;
}

static Value f_mesh(Interp *I, Value *a)                /* names, extents, devices */
{
    Sym name[MESH_AXES_MAX];
    int extent[MESH_AXES_MAX], *device, naxes, n = 0;
    int64_t size = 1;
    ListObj *names;
    Value v = VERR;

    if (!args_are(I, a, "Lll"))
        return VERR;
    names = as_list(a[0]);
    if (as_list(a[1])->n != names->n)
        return raise(I, EXC_ValueError, "a mesh has a size for each axis");
    if (names->n > MESH_AXES_MAX || !names->n)
        return raise(I, EXC_ValueError, "a mesh has from 1 to %d axes, not %lld", MESH_AXES_MAX, (long long)names->n);
    for (int i = 0; i < names->n; i++)
        name[i] = sym(as_str(names->at[i])->s);
    if (!ints_of(I, a[1], extent, MESH_AXES_MAX, &naxes))
        return VERR;
    for (int i = 0; i < naxes; i++)
        size = extent[i] < 1 || size > DEVICES_MAX ? 0 : size * extent[i];
    device = tsr_calloc(sizeof *device * (size_t)(as_list(a[2])->n + 1));
    if (ints_of(I, a[2], device, (int)as_list(a[2])->n, &n) && n == size)
        v = vint(mesh_new(naxes, name, extent, device)->id);
    tsr_free(device);
    return is_err(v) && !exc_pending(I) ? raise(I, EXC_ValueError, "a mesh of %lld places, and %d devices", (long long)size, n) : v;
}

const Mesh *arg_mesh(Interp *I, Value id)
{
    const Mesh *m = id.tag == V_INT ? mesh_by_id(id.i) : NULL;

    if (!m)
        raise(I, EXC_ValueError, "there is no such mesh");
    return m;
}

Value mesh_axes_list(const Mesh *m, uint16_t axes)
{
    Value l = list_new(m->naxes);

    for (int i = 0; i < m->naxes; i++)
        if (axes >> i & 1)
            list_push(as_list(l), str_sym(m->name[i]));
    return l;
}

static Value f_coordinates(Interp *I, Value *a)         /* mesh, rank */
{
    const Mesh *m = arg_mesh(I, a[0]);
    Value t;

    if (!m || !args_are(I, a, "ii"))
        return VERR;
    if (a[1].i < 0 || a[1].i >= m->size)
        return raise(I, EXC_IndexError, "there is no rank %lld", (long long)a[1].i);
    t = tuple_new(m->naxes);
    for (int i = 0; i < m->naxes; i++)
        as_tuple(t)->at[i] = vint(mesh_coordinate(m, (int)a[1].i, i));
    return t;
}

static Value f_device_enter(Interp *I, Value *a)
{
    if (!args_are(I, a, "i"))
        return VERR;
    if (a[0].i < 0 || (a[0].i && a[0].i > devices_gpus()))
        return raise(I, EXC_ValueError, "there is no such device");
    return vint(device_enter((int)a[0].i));
}

static Value facts_of(const GpuModel *m)
{
    const double fact[] = {m->processors, m->shared_group, m->shared_processor, m->registers, m->cache, m->memory, m->flops, m->bandwidth, m->links};
    Value t = tuple_new(sizeof fact / sizeof *fact);

    for (size_t i = 0; i < sizeof fact / sizeof *fact; i++)
        as_tuple(t)->at[i] = fact[i] < 1e8 ? vint((int64_t)fact[i]) : vfloat(fact[i]);
    return t;
}

static Value f_model(Interp *I, Value *a)
{
    if (!args_are(I, a, "s"))
        return VERR;
    const GpuModel *m = gpu_model(as_str(a[0])->s);

    return m ? facts_of(m) : VNONE;
}

/* A GPU of the driver's: its name, and the facts of f_model as the driver has them; None: the device is none. */
static Value f_gpu(Interp *I, Value *a)
{
    const GpuDevice *g;
    GpuModel m;
    Value t;

    if (!args_are(I, a, "i"))
        return VERR;
    if (!device_is_far((int)a[0].i) || !(g = gpu_look((int)a[0].i - 1)))
        return VNONE;
    gpu_facts(g, &m);
    t = tuple_new(2);
    as_tuple(t)->at[0] = str_c(g->name);
    as_tuple(t)->at[1] = facts_of(&m);
    return t;
}

/* Why there are no GPUs, beginning with the number of the error; None: there are some, or are simulated. */
static Value f_no_gpu(Interp *I, Value *a) { return devices_gpus() || !*cuda_reason() ? VNONE : str_c(cuda_reason()); }

static Value f_device_now(Interp *I, Value *a) { return vint(device_now); }

/* Where a tensor is; -1: over a mesh. What has no value yet will be where new tensors are. */
static int device_of(Tensor *t)
{
    const Tensor *c;

    if (shards_of(t))
        return -1;
    c = tensor_concrete(t);
    return c && c->store ? (int)c->store->device : device_now;
}

static Value f_device_of(Interp *I, Value *a) { return args_are(I, a, "t") ? vint(device_of(as_tensor(a[0]))) : VERR; }

Value attr_device(Interp *I, Value v)
{
    int d = device_of(as_tensor(v));
    char name[24];

    if (d <= 0)
        return str_c(d ? "mesh" : "cpu");
    snprintf(name, sizeof name, "gpu:%d", d - 1);
    return str_c(name);
}

bool arg_device(Interp *I, Value v, int *number)
{
    Value n;
    int64_t k = 0;
    bool ok;

    if (v.tag == V_STR && device_named(as_str(v)->s, number))
        return true;
    if (v.tag == V_STR && *number > 0 && !devices_gpus() && *cuda_reason()) {
        raise(I, EXC_ValueError, "%s; so there is no device '%s'; devices: cpu; --sim-devices %d simulates it", cuda_reason(), as_str(v)->s, *number);
        return false;
    }
    if (v.tag == V_STR) {
        raise(I, EXC_ValueError, devices_gpus() ? "there is no dtype or device '%s' here; devices: cpu, gpu:0 to gpu:%d"
                                                : "there is no dtype or device '%s' here; devices: cpu", as_str(v)->s, devices_gpus() - 1);
        return false;
    }
    n = value_getattr(I, v, sym("number"));
    ok = !is_err(n) && value_as_int(I, n, &k);
    value_unref(n);
    *number = (int)k;
    return ok;
}

Value device_move(Interp *I, Tensor *t, int number)
{
    if (shards_of(t) && !(t = shards_whole(trace_of(I), t)))
        return raise_op_error(I);
    tensor_ref(t);
    if (!tensor_on(&t, number)) {
        tensor_unref(t);
        if (fault_kept)
            return fault_raise(I, VNONE);
        return raise(I, EXC_MemoryError, "not enough memory for the tensor");
    }
    return tensor_value(t);
}

static Value f_donate(Interp *I, Value *a)
{
    if (!args_are(I, a, "t"))
        return VERR;
    tensor_donate(as_tensor(a[0]));
    return VNONE;
}

/* The tensor object itself gets another value: what all_gather_into does to its first argument. */
static Value f_fill(Interp *I, Value *a)
{
    TensorObj *o;
    Tensor *old;

    if (!args_are(I, a, "tt"))
        return VERR;
    o = (TensorObj *)a[0].o;
    old = o->t;
    o->t = tensor_ref(as_tensor(a[1]));
    tensor_unref(old);
    return VNONE;
}

const NativeDef dist_mesh_natives[] = {
    {"_dist", "gpus", f_gpus, "() -> int", "How many GPUs there are."},
    {"_dist", "mesh", f_mesh, "(names: list, extents: list, devices: list) -> int", "The id of a mesh."},
    {"_dist", "coordinates", f_coordinates, "(mesh: int, rank: int) -> tuple", "Where a rank is along each axis."},
    {"_dist", "device_enter", f_device_enter, "(device: int) -> int", "Make new tensors there; the place before."},
    {"_dist", "model", f_model, "(name: str) -> tuple", "A GPU's model as gpu.def has it: multiprocessors, shared memory of a group and of a multiprocessor in KB, registers, cache in MB, memory in GB, operations, bytes of memory and of links a second; None: not known."},
    {"_dist", "gpu", f_gpu, "(device: int) -> tuple", "The name of a GPU of the driver's, and its facts as model gives them; None: the device is none."},
    {"_dist", "no_gpu", f_no_gpu, "() -> str", "Why there are no GPUs; None: there are some."},
    {"_dist", "device_now", f_device_now, "() -> int", "Where new tensors are made."},
    {"_dist", "device_of", f_device_of, "(x: Tensor) -> int", "Where a tensor is; -1: over a mesh."},
    {"_dist", "fill", f_fill, "(x: Tensor, value: Tensor) -> None", "x becomes value, for everybody who holds it."},
    {"_dist", "donate", f_donate, "(x: Tensor) -> None", "Give the tensor's memory up: using it again is an error."},
    {0},
};
