/* Distributed tensors: laying out, taking apart, and looking at layouts. */
#include "frontend/dist/dist.h"

#include <string.h>

/* A list with, for each axis of the tensor, the mesh axes that cut it ("dp,tp"; "" none): masks from the front. */
static bool cuts_of(Interp *I, const Mesh *m, Value list, int rank, Dim *mask)
{
    ListObj *l = as_list(list);

    if (l->n != rank) {
        raise(I, EXC_ShapeError, "a layout of %lld axes for a tensor of %d", (long long)l->n, rank);
        return false;
    }
    for (int i = 0; i < rank; i++)
        mask[i] = mesh_parse_axes(m, sym(as_str(l->at[i])->s));
    return true;
}

static Value f_place(Interp *I, Value *a)               /* x, mesh, cuts */
{
    const Mesh *m = args_are(I, a, "tiL") ? arg_mesh(I, a[1]) : NULL;
    Attr at = attr_default();

    if (!m || !cuts_of(I, m, a[2], as_tensor(a[0])->rank, at.d[0]))
        return VERR;
    at.i = m->id;
    at.nd[0] = as_tensor(a[0])->rank;
    return value_of(run1(I, OP_place, &at, as_tensor(a[0])));
}

static Value f_whole(Interp *I, Value *a)
{
    Attr at = attr_default();

    return args_are(I, a, "t") ? value_of(run1(I, OP_place, &at, as_tensor(a[0]))) : VERR;
}

/* The parts of a tensor, also when derivatives or a batch are followed above them. */
static Shards *shards_beneath(const Tensor *t)
{
    while (t->tracer && t->tracer->primal)
        t = t->tracer->primal;
    return shards_of(t);
}

static Value f_spread(Interp *I, Value *a) { return vbool(a[0].tag == V_TENSOR && shards_beneath(as_tensor(a[0])) != NULL); }

/* Is another transformation following the tensor? */
static Value f_followed(Interp *I, Value *a)
{
    return args_are(I, a, "t") ? vbool(as_tensor(a[0])->tracer && !shards_of(as_tensor(a[0]))) : VERR;
}

Value attr_placement(Interp *I, Value v)
{
    Shards *s = shards_beneath(as_tensor(v));
    StrBuf b = {0};

    if (!s)
        return VNONE;
    placement_print(&s->at, as_tensor(v)->rank, &b);
    return str_steal(&b);
}

Value attr_mesh(Interp *I, Value v)
{
    Shards *s = shards_beneath(as_tensor(v));
    Value module, mesh, id;

    if (!s)
        return VNONE;
    module = import_module(I, "dist");
    if (is_err(module))
        return VERR;
    id = vint(s->at.mesh->id);
    mesh = value_call_method(I, module, sym("mesh_by_id"), &id, 1);
    value_unref(module);
    return mesh;
}

Value attr_local_shape(Interp *I, Value v)
{
    Tensor *t = as_tensor(v);
    Shards *s = shards_beneath(t);
    Value shape = tuple_new(t->rank);

    for (int i = 0; i < t->rank; i++)
        as_tuple(shape)->at[i] = vint(s ? t->shape[i] / mesh_extent(s->at.mesh, s->at.cut[t->rank - 1 - i]) : t->shape[i]);
    return shape;
}

/* (mesh id, [names of mesh axes for each axis], names of those still to be added over) */
static Value f_layout(Interp *I, Value *a)
{
    Tensor *t;
    Shards *s;
    Value cuts;

    if (!args_are(I, a, "t"))
        return VERR;
    t = as_tensor(a[0]);
    if (!(s = shards_beneath(t)))
        return VNONE;
    cuts = list_new(t->rank);
    for (int i = 0; i < t->rank; i++)
        list_push(as_list(cuts), mesh_axes_list(s->at.mesh, s->at.cut[t->rank - 1 - i]));
    return tuple_of(3, vint(s->at.mesh->id), cuts, mesh_axes_list(s->at.mesh, s->at.partial));
}

static Value f_locals(Interp *I, Value *a)
{
    Shards *s;
    Value l;

    if (!args_are(I, a, "t"))
        return VERR;
    if (!(s = shards_of(as_tensor(a[0]))))
        return raise(I, EXC_ValueError, "the tensor is not distributed");
    l = list_new(s->at.mesh->size);
    for (int i = 0; i < s->at.mesh->size; i++) {
        Tensor *t = tensor_ref(s->local[i]);
        if (!tensor_on(&t, s->at.mesh->device[i])) {
            tensor_unref(t);
            value_unref(l);
            return raise(I, EXC_MemoryError, "not enough memory for the tensor");
        }
        list_push(as_list(l), tensor_value(t));
    }
    return l;
}

/* The shape of the whole, from one part. */
static void whole_type(const Tensor *part, const Placement *p, TType *y)
{
    *y = tensor_type(part);
    for (int d = 0; d < y->rank; d++)
        y->shape[y->rank - 1 - d] *= mesh_extent(p->mesh, p->cut[d]);
}

/* Ranks that differ in no axis of the layout share one tensor, the first one's. */
static void share_parts(const Placement *p, Tensor **local)
{
    uint16_t used = p->partial;

    for (int d = 0; d < RANK_MAX; d++)
        used |= p->cut[d];
    for (int i = 0; i < p->mesh->size; i++)
        local[i] = local[mesh_member(p->mesh, i, (uint16_t)(mesh_all(p->mesh) & ~used), 0)];
}

static Value f_assemble(Interp *I, Value *a)            /* locals, mesh, cuts, partial */
{
    const Mesh *m = args_are(I, a, "liLs") ? arg_mesh(I, a[1]) : NULL;
    ListObj *l = as_list(a[0]);
    Placement p = {.mesh = m};
    Dim mask[RANK_MAX];
    Tensor **local;
    TType y;
    int rank;

    if (!m || l->n != m->size)
        return m ? raise(I, EXC_ValueError, "%lld parts for a mesh of %d", (long long)l->n, m->size) : VERR;
    for (int i = 0; i < m->size; i++)
        if (!args_are(I, &l->at[i], "t"))
            return VERR;
    rank = as_tensor(l->at[0])->rank;
    if (!cuts_of(I, m, a[2], rank, mask))
        return VERR;
    for (int i = 0; i < rank; i++)
        p.cut[rank - 1 - i] = (uint16_t)mask[i];
    p.partial = mesh_parse_axes(m, sym(as_str(a[3])->s));
    local = tsr_alloc(sizeof *local * (size_t)m->size);
    for (int i = 0; i < m->size; i++) {
        local[i] = tensor_concrete(as_tensor(l->at[i]));
        if (!local[i] || local[i]->rank != rank || local[i]->dtype != local[0]->dtype ||
            memcmp(local[i]->shape, local[0]->shape, sizeof(Dim) * (size_t)rank)) {
            tsr_free(local);
            return raise(I, EXC_ShapeError, "the parts of a distributed tensor have one shape and dtype; rank %d's differs from rank 0's", i);
        }
    }
    share_parts(&p, local);
    whole_type(local[0], &p, &y);
    Value v = tensor_value(shards_tensor(&p, &y, local));
    tsr_free(local);
    return v;
}

static Value f_exact(Interp *I, Value *a)
{
    Trace *T = trace_of(I);
    bool was = T->exact, on;

    if (!arg_bool(I, a[0], &on))
        return VERR;
    T->exact = on;
    return vbool(was);
}

const NativeDef dist_layout_natives[] = {
    {"_dist", "place", f_place, "(x: Tensor, mesh: int, cuts: list) -> Tensor", "The tensor laid out over a mesh."},
    {"_dist", "whole", f_whole, "(x: Tensor) -> Tensor", "The tensor on the host again."},
    {"_dist", "spread", f_spread, "(x) -> bool", "Is it a tensor that is distributed?"},
    {"_dist", "followed", f_followed, "(x: Tensor) -> bool", "Is a transformation following it?"},
    {"_dist", "layout", f_layout, "(x: Tensor) -> tuple | None", "Mesh, cuts, and axes still to be added over."},
    {"_dist", "locals", f_locals, "(x: Tensor) -> list", "Each rank's part, on its device."},
    {"_dist", "assemble", f_assemble, "(parts: list, mesh: int, cuts: list, partial: str) -> Tensor", "The tensor whose parts these are."},
    {"_dist", "exact", f_exact, "(on: bool) -> bool", "Sums keep the order of whole tensors; what was so before."},
    {0},
};
