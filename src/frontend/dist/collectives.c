/* Running functions on ranks, the collectives they call, and the account of communication. */
#include "frontend/dist/dist.h"
#include "frontend/eval/ranks.h"

#include <string.h>

static Value f_run(Interp *I, Value *a)                 /* mesh, f, args, kwargs */
{
    const Mesh *m = args_are(I, a, "i.ll") ? arg_mesh(I, a[0]) : NULL;

    if (!m)
        return VERR;
    for (int i = 2; i < 4; i++) {
        ListObj *l = as_list(a[i]);
        if (l->n != m->size)
            return raise(I, EXC_ValueError, "arguments for %lld ranks of %d", (long long)l->n, m->size);
        for (int k = 0; k < l->n; k++)
            if (l->at[k].tag != (i == 2 ? V_TUPLE : V_DICT))
                return raise(I, EXC_TypeError, "a rank's arguments are a tuple and a dict");
    }
    return ranks_run(I, m, a[1], a[2], a[3]);
}

static Value f_rank(Interp *I, Value *a)
{
    const Mesh *m;

    return vint(ranks_current(I, &m));
}

static Value f_current(Interp *I, Value *a)
{
    const Mesh *m;

    ranks_current(I, &m);
    return vint(m ? m->id : 0);
}

/* op, x, axes, kind, dim, to, by: what the op does not take is ignored. */
static Value f_collective(Interp *I, Value *a)
{
    const Mesh *m;
    Attr at = attr_default();
    OpId op;
    Tensor *x, *out[1] = {NULL};
    int nout = 0;

    ranks_current(I, &m);
    if (!args_are(I, a, "s.siiii"))
        return VERR;
    if (!op_find(as_str(a[0])->s, &op) || op_info[op].family != FAM_COLLECTIVE)
        return raise(I, EXC_ValueError, "there is no collective '%s'", as_str(a[0])->s);
    if (!m)
        return raise(I, EXC_RuntimeError, "E0726: %s is called outside of ranks: decorate the function that calls it with @tessera.spmd, "
                     "or call it on a tensor that is distributed over a mesh", as_str(a[0])->s);
    at.name = sym(as_str(a[2])->s);
    at.i = mesh_extent(m, mesh_parse_axes(m, at.name));
    at.kind = (uint8_t)a[3].i;
    if (op == OP_barrier)
        return op_apply(trace_of(I), op, &at, NULL, 0, out, &nout) ? VNONE : raise_op_error(I);
    if (op == OP_place || !args_are(I, a + 1, "t"))
        return exc_pending(I) ? VERR : raise(I, EXC_ValueError, "place is no collective");
    x = as_tensor(a[1]);
    if (op == OP_from_root && (a[6].i < 0 || a[6].i >= at.i))
        return raise(I, EXC_ValueError, "there is no rank %lld among %lld", (long long)a[6].i, (long long)at.i);
    if (strstr(op_info[op].attrs, "axes")) {
        int axis, to = 0;
        if (!x->rank)
            return raise(I, EXC_ShapeError, "%s goes along an axis; a number has none", op_info[op].name);
        if (!arg_axis(I, a[4], x->rank, &axis) || (op == OP_all_to_all && !arg_axis(I, a[5], x->rank, &to)))
            return VERR;
        at.naxes = 1;
        at.axis[0] = (int8_t)axis;
        at.n = (int16_t)-to;
    }
    if (op == OP_rank_shift)
        at.seed = a[6].i;
    if (op == OP_from_root)
        at.m = (int16_t)a[6].i;
    return value_of(run1(I, op, &at, x));
}

static Value f_comm(Interp *I, Value *a)
{
    const CommLine *l;
    int n = comm_lines(&l);
    Value list = list_new(n);

    for (int i = 0; i < n; i++)
        list_push(as_list(list), tuple_of(6, str_c(op_info[l[i].op].name), str_sym(l[i].axes), vint(l[i].ranks), vint(l[i].calls),
                                          vint(l[i].bytes), vfloat(l[i].seconds)));
    return list;
}

static Value f_comm_reset(Interp *I, Value *a)
{
    comm_reset();
    return VNONE;
}

const NativeDef dist_collective_natives[] = {
    {"_dist", "run", f_run, "(mesh: int, f: Callable, args: list, kwargs: list) -> list", "f on every rank; the list of results."},
    {"_dist", "rank", f_rank, "() -> int", "The running rank; -1: none."},
    {"_dist", "current", f_current, "() -> int", "The mesh of the running rank; 0: none."},
    {"_dist", "collective", f_collective, "(op: str, x, axes: str, kind: int = 0, dim: int = 0, to: int = 0, by: int = 0)", "One op of family COLLECTIVE."},
    {"_dist", "comm", f_comm, "() -> list", "What was communicated: (op, axes, ranks, calls, bytes, seconds)."},
    {"_dist", "comm_reset", f_comm_reset, "() -> None", "Begin the account anew."},
    {0},
};
