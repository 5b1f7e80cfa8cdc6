/*
 * Launches that need no language: what functions that are exported make of
 * them (Trace.coded).
 *
 * The op `launch` then has the kernel's parameters as its operands, one after
 * another: tensors, numbers as f64, what the kernel reads outside.  Its code is
 * that of one version, found by the hash of its text, for operands whose
 * elements are neighbours along the last axis.  What a launch passes besides,
 * sizes and numbers of groups, are expressions over the sizes of the call
 * (Attr.d), so that one op serves all of them.  Where the version or the grid
 * holds for some sizes only, that is asked, and so becomes a condition of the graph.
 *
 * To see what is launched, tensors that are followed are replaced by stand-ins
 * of the sizes at hand, which have no elements.
 */
#include "frontend/kernel/launch_impl.h"

#include "frontend/eval/symint.h"
#include "frontend/tensor/bind.h"
#include "frontend/tensor/tensor_ops.h"
#include "ir/schedule/launched.h"

#include <string.h>

enum { STAND_INS = 64, DIMS = 16 };

typedef struct Coded {
    Interp *I;
    Launch *L;
    const Version *v;
    struct { Tensor *stand_in, *real; } at[STAND_INS];
    int n;
    Tensor *number[KERNEL_PARAMS];      /* a float that is known when the graph runs: its tensor, a reference */
    Dim size[KERNEL_PARAMS];            /* an int, DIM_BAD: its value */
    Dim grid[3];
    Value at_grid, pos, named;          /* the grid and the arguments at hand: references */
#define X(name) Dim name;
    LAUNCH_SIZES(X)
#undef X
} Coded;

/* ------------------------------------------------------------- what was made, by its key */

static Vec(const TileKernel *) made;

const TileKernel *kernel_coded(Hash128 key)
{
    for (int i = 0; i < made.n; i++) {
        Hash128 k = tile_key(made.at[i]);
        if (k.hi == key.hi && k.lo == key.lo)
            return made.at[i];
    }
    return NULL;
}

/* ------------------------------------------------------------- arguments */

static bool refuse(Coded *c, const char *why)
{
    raise(c->I, EXC_RuntimeError, "E0623: kernel '%s': %s", c->L->name, why);
    return false;
}

/* A tensor of the sizes at hand, row by row, that has no elements of its own. */
static Tensor *stand_in(Coded *c, const Tensor *t)
{
    int64_t shape[RANK_MAX], stride[RANK_MAX], step = 1;
    Tensor *one, *y;

    for (int i = 0; i < t->rank; i++)
        if (!dim_at_hand(t->shape[i], &shape[i]))
            return refuse(c, "a size is known only when the staged function runs"), NULL;
    for (int i = t->rank; i-- > 0; step *= shape[i] > 1 ? shape[i] : 1)
        stride[i] = step;
    one = tensor_zeros((DType)t->dtype, 0, NULL);
    y = one ? tensor_view(one, t->rank, shape, stride, 0) : NULL;
    tensor_unref(one);
    return y;
}

static Value in_place_of(Coded *c, Tensor *t)
{
    Tensor *y;

    if (c->n == STAND_INS)
        return refuse(c, "it has too many tensors"), VERR;
    if (!(y = stand_in(c, t)))
        return VERR;
    c->at[c->n].stand_in = y;
    c->at[c->n++].real = t;
    return tensor_value(y);
}

static bool is_float(const KernelForm *f, int param)
{
    const Ast *a = param >= 0 ? f->param[param].param->annotation : NULL;

    return AST_IS(a, Name) && !strcmp(AST_AS(a, Name)->id->text, "float");
}

static Value packed_in_place_of(void *state, Value key, Value tensor)
{
    (void)key;
    return as_tensor(tensor)->tracer ? in_place_of(state, as_tensor(tensor)) : value_ref(tensor);
}

/* What is passed for a parameter (-1: for none of its own), as a call with the sizes at hand would. A new reference. */
static Value at_hand(Coded *c, Value v, int param)
{
    Value own;
    int64_t i;

    if (v.tag == V_TENSOR && as_tensor(v)->tracer && !as_tensor(v)->rank && is_float(&c->L->form, param)) {
        c->number[param] = tensor_ref(as_tensor(v));
        return vfloat(0);
    }
    if (v.tag == V_SYMFLOAT && is_float(&c->L->form, param))
        return (c->number[param] = size_float(c->I, v, DT_f64)) ? vfloat(0) : VERR;
    if (v.tag == V_TENSOR && as_tensor(v)->tracer)
        return in_place_of(c, as_tensor(v));
    if (pack_traced(v))
        return pack_mapped(c->I, v, packed_in_place_of, c);
    if (is_symint(v) && param >= 0 && dim_ask_ge(symint_size(v), 0) == DIM_PROVED && dim_at_hand(symint_size(v), &i)) {
        c->size[param] = symint_size(v);
        return vint(i);
    }
    own = value_ref(v);
    return symint_settle_inside(c->I, &own) ? own : (value_unref(own), VERR);
}

static int param_at(const KernelForm *f, int64_t at)
{
    for (int i = 0; i < f->n; i++)
        if (f->param[i].param->kind != PARAM_KWONLY && at-- == 0)
            return i;
    return -1;
}

static int param_named(const KernelForm *f, Sym name)
{
    for (int i = 0; i < f->n; i++)
        if (f->param[i].param->name == name)
            return i;
    return -1;
}

static Value positions(Coded *c, Value args)
{
    Value y = tuple_new(as_tuple(args)->n);

    for (int64_t i = 0; i < as_tuple(args)->n; i++)
        as_tuple(y)->at[i] = VNONE;
    for (int64_t i = 0; i < as_tuple(args)->n; i++)
        if (is_err(as_tuple(y)->at[i] = at_hand(c, as_tuple(args)->at[i], param_at(&c->L->form, i)))) {
            as_tuple(y)->at[i] = VNONE;
            value_unref(y);
            return VERR;
        }
    return y;
}

static bool put(Coded *c, Value dict, Value key, Value v)
{
    bool ok = !is_err(v) && dict_set(c->I, as_dict(dict), key, v);

    value_unref(v);
    return ok;
}

/* Those by name, and the traced parts of objects by theirs. */
static Value names(Coded *c, Value args, Value kwargs)
{
    const KernelForm *f = &c->L->form;
    Value y = dict_new(), key, v;
    int64_t at = 0;
    bool ok = true;

    while (ok && kwargs.tag == V_DICT && dict_next(as_dict(kwargs), &at, &key, &v))
        ok = put(c, y, key, at_hand(c, v, param_named(f, str_to_sym(as_str(key)))));
    for (int i = 0; ok && i < f->nfields; i++) {
        v = kernel_traced_field(c->I, f, &f->field[i], args, kwargs);
        if (is_err(v))
            continue;
        key = str_c(kernel_field_name(f->param[f->field[i].param].param->name, f->field[i].attr)->text);
        ok = put(c, y, key, in_place_of(c, as_tensor(v)));
        value_unref(key);
        value_unref(v);                                     /* the object holds it */
    }
    if (ok)
        return y;
    value_unref(y);
    return VERR;
}

/* The grid as sizes, and as the numbers at hand. */
static Value grid_of(Coded *c, Value grid)
{
    Value y = grid.tag == V_TUPLE ? tuple_new(as_tuple(grid)->n) : value_ref(grid);
    int64_t now;

    for (int i = 0; i < 3; i++)
        c->grid[i] = 1;
    for (int64_t i = 0; grid.tag == V_TUPLE && i < as_tuple(grid)->n; i++)
        as_tuple(y)->at[i] = symint_dim(as_tuple(grid)->at[i], &c->grid[i]) && dim_at_hand(c->grid[i], &now) ? vint(now) : vint(1);
    return y;
}

/* ------------------------------------------------------------- sizes */

static Tensor *real_of(const Coded *c, int param)
{
    const Tensor *t = c->L->spec.param[param].tensor;

    for (int i = 0; i < c->n; i++)
        if (c->at[i].stand_in == t)
            return c->at[i].real;
    return (Tensor *)t;
}

static Dim axis_of(const Coded *c, int param, int axis) { return real_of(c, param)->shape[axis]; }

static Dim elements(const Coded *c, int param, int axes)
{
    Dim n = 1;

    for (int k = 0; k < axes; k++)
        n = dim_mul(n, axis_of(c, param, k));
    return n;
}

static int rank_of(const Coded *c, int param) { return c->L->spec.param[param].tensor->rank; }

/* One name is one size in all calls, and an axis whose size is written has it. */
static void ask_names(const Coded *c)
{
    const KSpec *s = &c->L->spec;

    for (int i = 0; i < s->nparams; i++)
        for (int k = 0; s->param[i].tensor && k < s->param[i].tensor->rank && k < VIEW_RANK; k++) {
            int param, axis;
            if (!s->param[i].dim[k] && !s->param[i].field && launch_axis_written(c->L, i, k))
                dim_ask_eq(axis_of(c, i, k), s->param[i].tensor->shape[k]);
            if (s->param[i].dim[k] && launch_size_from(s, s->param[i].dim[k], &param, &axis) && axis >= 0)
                dim_ask_eq(axis_of(c, i, k), axis_of(c, param, axis));
        }
}

/* The parameter that says how large the work is does so in all calls. */
static void ask_output(const Coded *c)
{
    int out = c->L->plan.out;

    for (int i = 0; out >= 0 && i < c->L->spec.nparams; i++)
        if (i != out && c->L->spec.param[i].tensor && c->v->written[i])
            dim_ask_ge(elements(c, out, rank_of(c, out)), dim_add(elements(c, i, rank_of(c, i)), i < out));
}

/* Stacks of matrices have the sizes of this launch, but for the one that has most. */
static void ask_stacks(const Coded *c)
{
    const KSpec *s = &c->L->spec;

    for (int i = 0; s->led >= 0 && i < s->nparams; i++) {
        bool stack = kspec_leading(s, i) || (c->v->shared_leads >> i & 1);
        Dim own = stack && s->param[i].tensor->rank > 2 ? elements(c, i, rank_of(c, i) - 2) : c->leads;
        int64_t ignored;
        if (own != c->leads && dim_eq(own, c->leads, NULL, NULL) != DIM_PROVED) {
            dim_settle(own, &ignored);
            dim_settle(c->leads, &ignored);
        }
    }
}

static Dim size_named(const Coded *c, Sym name);

/* How far groups go along rows (0) or columns (1): of what is stored to, or of what is returned. */
static Dim extent_of(const Coded *c, int out, int rank, int k)
{
    Sym cut = c->L->spec.cut[k];

    if (out < 0 && c->L->plan.e.placed[k])
        return c->L->plan.e.dim[k] ? size_named(c, c->L->plan.e.dim[k]) : dim_const(c->L->plan.e.size[k]);
    if (out < 0)
        return cut ? size_named(c, cut) : 1;
    if (c->L->plan.beside)
        return k ? axis_of(c, out, 0) : 1;
    if (c->L->plan.turned)
        return axis_of(c, out, rank - 1 - k);
    return k ? (rank >= 2 ? axis_of(c, out, rank - 1) : 1) : rank ? axis_of(c, out, rank >= 2 ? rank - 2 : 0) : 1;
}

/* What launch_plan has worked out for the sizes at hand, for all of them. */
static void plan_sizes(Coded *c)
{
    const Launch *L = c->L;
    const KSpec *s = &L->spec;
    int out = L->plan.out, rank = out >= 0 ? rank_of(c, out) : 0;
    Dim rows = extent_of(c, out, rank, 0), columns = extent_of(c, out, rank, 1);
    Dim down = L->plan.down_one ? 1 : dim_cdiv(rows, s->sched[SCHED_block_m]);
    Dim across = L->plan.across_one ? 1 : dim_cdiv(columns, s->sched[SCHED_block_n]);

    c->deeps = c->grid[2];
    c->across = dim_max(L->ngrid >= 2 ? c->grid[1] : across, 1);
    switch (L->plan.by) {
    case GRID_ONE: c->groups = c->across = 1; break;
    case GRID_GIVEN: c->groups = dim_mul(dim_mul(c->grid[0], c->grid[1]), c->grid[2]); break;
    case GRID_ELEMENTS: c->groups = dim_cdiv(elements(c, out, rank), s->lanes * s->warps); c->across = 1; break;
    case GRID_BLOCKS: c->groups = dim_mul(down, across); break;
    }
    c->per = c->groups;
    c->leads = s->led >= 0 ? elements(c, s->led, rank_of(c, s->led) - 2) : 1;
    c->groups = dim_mul(dim_mul(c->groups, c->leads), s->warps);
}

static Dim size_named(const Coded *c, Sym name)
{
    const KSpec *s = &c->L->spec;
    int param, axis;

#define X(own) \
    if (name == sym("_" #own)) \
        return c->own;
    LAUNCH_SIZES(X)
#undef X
    if (!launch_size_from(s, name, &param, &axis))
        return 0;
    return axis >= 0 ? axis_of(c, param, axis) : c->size[param] != DIM_BAD ? c->size[param] : dim_const(s->param[param].v.i);
}

static bool ask_version(Coded *c)
{
    for (int i = 0; i < c->v->fixed.n; i++) {
        const Fixed *f = &c->v->fixed.at[i];
        Dim d = size_named(c, f->name);
        if ((f->least ? dim_ask_ge(d, f->v) : dim_ask_eq(d, dim_const(f->v))) != DIM_PROVED)
            return refuse(c, "the launch depends on a size in a way that no staged function can keep");
    }
    return true;
}

static bool put_sizes(Coded *c, Attr *a)
{
    const TileKernel *k = c->v->k;

    if (k->size.n > 2 * DIMS)
        return refuse(c, "it has too many sizes to be exported");
    for (int i = 0; i < k->size.n; i++) {
        Dim d = size_named(c, k->size.at[i]);
        if (d == DIM_BAD)
            return refuse(c, "a size of its launch is too large");
        a->d[1 + i / DIMS][a->nd[1 + i / DIMS]++] = d;
    }
    a->d[3][a->nd[3]++] = c->groups;
    return c->groups != DIM_BAD || refuse(c, "it would have too many groups");
}

/* ------------------------------------------------------------- the op */

/* The operand that a parameter of the code is, a new reference. NULL: an exception is pending. */
static Tensor *operand(Coded *c, int param)
{
    const KParam *p = &c->L->spec.param[param];
    Tensor *y;

    if (p->tensor)
        return tensor_ref(real_of(c, param));
    if (!c->number[param])
        return tensor_scalar_f(DT_f64, p->v.f);
    y = do_convert(c->I, tensor_ref(c->number[param]), DT_f64);
    return y ? y : (raise_op_error(c->I), NULL);
}

/* How long an axis of a result is: all of a dimension that groups share, or a block of it. DIM_BAD: not for all calls. */
static Dim result_axis(const Coded *c, const KResult *r, int i)
{
    const KResultAxis *x = &r->axis[i];
    Dim block = dim_const(x->extent), whole = x->dim ? size_named(c, x->dim) : x->cut ? dim_const(x->whole) : block;
    bool less;

    if (x->cut || !x->dim || whole == DIM_BAD)
        return whole;
    less = launch_size(&c->L->spec, x->dim) < x->extent;
    if (less)
        return dim_ask_ge(dim_sub(block, whole), 0) == DIM_PROVED ? whole : DIM_BAD;
    return dim_ask_ge(whole, x->extent) == DIM_PROVED ? block : DIM_BAD;
}

/* Zeros, which the launch makes the result; a new reference. NULL: an exception is pending. */
static Tensor *blank_result(Coded *c, const KResult *r)
{
    const KSpec *s = &c->L->spec;
    int lead = r->led ? kspec_leading(s, s->led) : 0;
    Attr a = attr_default();

    a.dtype = (uint8_t)r->dtype;
    a.nd[0] = (uint8_t)(lead + r->rank);
    for (int i = 0; i < lead; i++)
        a.d[0][i] = axis_of(c, s->led, i);
    for (int i = 0; i < r->rank; i++)
        if ((a.d[0][lead + i] = result_axis(c, r, i)) == DIM_BAD)
            return refuse(c, "how large its result is depends on the call"), NULL;
    return run_op(c->I, OP_full, &a, NULL, 0);
}

/* Operands in the order of the code's parameters. false: pending. */
static bool operands(Coded *c, Tensor **in, Attr *a, int *result)
{
    const Version *v = c->v;

    for (int i = 0; i < v->reads.n; i++)
        if (v->reads.at[i].param >= 0)
            in[v->reads.at[i].param] = tensor_ref(as_tensor(v->reads.at[i].v));
    for (int i = 0; i < c->L->spec.nparams; i++) {
        if (v->index[i] < 0)
            continue;
        if (!(in[v->index[i]] = operand(c, i)))
            return false;
        if (c->L->spec.param[i].tensor && v->written[i]) {
            if (a->nd[0] == DIMS)
                return refuse(c, "it writes more than 16 tensors");
            result[a->nd[0]] = i;
            a->d[0][a->nd[0]++] = v->index[i];
        }
    }
    for (int i = 0; i < v->nresults; i++) {
        if (a->nd[0] == DIMS)
            return refuse(c, "it writes more than 16 tensors");
        if (!(in[v->result[i].param] = blank_result(c, &v->result[i])))
            return false;
        result[a->nd[0]] = -1;
        a->d[0][a->nd[0]++] = v->result[i].param;
    }
    return true;
}

static Value results(Coded *c, Value args, const Attr *a, const int *result, Tensor **out)
{
    Value outs = tuple_new(as_tuple(args)->n), named = dict_new(), returned = c->v->returns_tuple ? tuple_new(c->v->nresults) : VNONE;
    int n = 0;

    for (int64_t i = 0; i < as_tuple(args)->n; i++)
        as_tuple(outs)->at[i] = VNONE;
    for (int i = 0; i < a->nd[0]; i++) {
        Value t = tensor_value(out[i]);
        int p = result[i];
        if (p < 0) {
            *(c->v->returns_tuple ? &as_tuple(returned)->at[n++] : &returned) = t;
            continue;
        }
        if (c->L->arg[p] >= 0) {
            as_tuple(outs)->at[c->L->arg[p]] = t;
            continue;
        }
        if (c->L->keyword[p])
            dict_set_sym(as_dict(named), c->L->keyword[p], t);
        value_unref(t);
    }
    return tuple_of(3, returned, outs, named);
}

static Value emit(Coded *c, Value args)
{
    const TileKernel *k = c->v->k;
    Tensor **in = tsr_calloc(sizeof *in * (size_t)(k->params.n + 1)), *out[DIMS];
    int result[DIMS], nout = 0;
    Hash128 key = tile_key(k);
    Attr a = attr_default();
    Value y = VERR;

    a.name = sym(c->L->name);
    a.i = (int64_t)key.lo;
    a.seed = (int64_t)key.hi;
    a.kind = tile_in_turn(k);
    a.f = (double)k->lanes * k->nnodes;
    if (operands(c, in, &a, result) && put_sizes(c, &a)) {
        if (op_apply(interp_trace(c->I), OP_launch, &a, in, k->params.n, out, &nout)) {
            vec_push(&made, k);
            y = results(c, args, &a, result, out);
        } else {
            raise_op_error(c->I);
        }
    }
    for (int i = 0; i < k->params.n; i++)
        tensor_unref(in[i]);
    tsr_free(in);
    return y;
}

/* A dimension that groups share of what is returned is longer than a block, where one block that held it would be another kernel's. */
static bool ask_cuts(Coded *c)
{
    for (int k = 0; k < 2 && c->L->plan.out < 0 && !c->v->any_extent; k++) {
        Sym cut = c->L->spec.cut[k];
        if (cut && dim_ask_ge(size_named(c, cut), c->L->spec.sched[k ? SCHED_block_n : SCHED_block_m] + 1) != DIM_PROVED)
            return refuse(c, "how large its result is depends on the call");
    }
    return true;
}

/*
 * The version for this launch.  A dimension of tiles that one block holds is not cut, so its size becomes a number of the kernel; where blocks that
 * reach over its end give the same, one that cuts it is for all sizes.
 */
static bool take_version(Coded *c)
{
    Launch *L = c->L;

    L->spec.any = L->form.returns && launch_tiles(L);
    if (L->spec.any && launch_plan(L) && (c->v = launch_version(L)) && c->v->any_extent)
        return true;
    if (L->spec.any)
        exc_clear(c->I);
    L->spec.any = false;
    return launch_plan(L) && (c->v = launch_version(L)) && ask_cuts(c);
}

/* What the version and its grid hold for becomes conditions of the graph. false: pending. */
static bool ask_sizes(Coded *c)
{
    plan_sizes(c);
    ask_names(c);
    ask_output(c);
    ask_stacks(c);
    return launch_holds(c->L, c->v) && ask_version(c);
}

static Value launch_coded(Coded *c, Value args)
{
    if (!take_version(c))
        return VERR;
    if (!c->v->nresults && c->L->plan.out < 0)
        return refuse(c, "it stores to no parameter by name: in a staged function a kernel stores to its parameters"), VERR;
    return ask_sizes(c) ? emit(c, args) : VERR;
}

/* The launch and its arguments for the sizes at hand. false: an exception is pending. */
static bool coded_begin(Coded *c, Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule)
{
    *c = (Coded){.I = I, .L = tsr_calloc(sizeof *c->L), .pos = VERR, .named = VERR};
    c->L->I = I;
    c->L->name = name;
    for (int i = 0; i < KERNEL_PARAMS; i++)
        c->size[i] = DIM_BAD;
    c->at_grid = grid_of(c, grid);
    interp_keep(I, fn);                                     /* which holds its versions */
    interp_trace(I)->span = interp_span(I);
    if (!launch_begin(c->L, fn, c->at_grid, block, schedule))
        return false;
    c->L->spec.debug = false;
    c->pos = positions(c, args);
    c->named = is_err(c->pos) ? VERR : names(c, args, kwargs);
    return !is_err(c->named) && launch_bind(c->L, c->pos, c->named);
}

static void coded_done(Coded *c)
{
    launch_done(c->L);
    for (int i = 0; i < KERNEL_PARAMS; i++)
        tensor_unref(c->number[i]);
    value_unref(c->pos);
    value_unref(c->named);
    value_unref(c->at_grid);
}

Value kernel_stage_coded(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule)
{
    Coded c;
    Value y = coded_begin(&c, I, name, fn, args, kwargs, grid, block, schedule) ? launch_coded(&c, args) : VERR;

    coded_done(&c);
    return y;
}

bool kernel_blank_results(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value grid, Value block, Value schedule, Tensor **out,
                          int *n, bool *tuple)
{
    Coded c;
    Attr number = attr_default();
    DType dt;
    bool ok;

    *n = 0;
    *tuple = false;
    if (kernel_returns_number(AST_AS(((FuncObj *)fn.o)->code->ast, FunctionDef), &dt)) {      /* of any sizes */
        number.dtype = (uint8_t)dt;
        return (out[(*n)++] = run_op(I, OP_full, &number, NULL, 0)) != NULL || (*n = 0);
    }
    ok = coded_begin(&c, I, name, fn, args, kwargs, grid, block, schedule) && take_version(&c) && ask_sizes(&c);
    for (int i = 0; ok && i < c.v->nresults; i++) {
        out[*n] = blank_result(&c, &c.v->result[i]);
        ok = out[*n] != NULL;
        *n += ok;
    }
    *tuple = ok && c.v->returns_tuple;
    for (int i = 0; !ok && i < *n; i++)
        tensor_unref(out[i]);
    coded_done(&c);
    return ok;
}
