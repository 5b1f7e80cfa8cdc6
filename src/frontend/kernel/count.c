/*
 * How much work one launch of a kernel is, from its code: that of a call with
 * its arguments, or, where all sizes are written out, of any call.
 *
 * The kernel is made as for the launch, and ir/tile/count.h counts what stands
 * in it.  Memory that has to move is each tensor once, twice when it is read
 * and written; what accesses ask for, which caches may hold, is counted beside it.
 */
#include "frontend/kernel/launch_impl.h"

#include "frontend/tensor/tensor_ops.h"
#include "ir/tile/bounds.h"
#include "ir/tile/count.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------- a launch without one */

static const Ast *without_policy(const Ast *a)
{
    while (AST_IS(a, BinOp) && AST_AS(a, BinOp)->op == AOP_MATMUL)
        a = AST_AS(a, BinOp)->left;
    return a;
}

/* A tensor of the sizes and dtype that an annotation writes out; NULL: it leaves some open. */
static Tensor *tensor_written(const AstParam *p)
{
    const Ast *a = without_policy(p->annotation);
    Dim shape[VIEW_RANK];
    DType dt = DT_NONE;
    int rank = 0;
    Tensor *t;

    if (!AST_IS(a, Subscript) || !AST_IS(AST_AS(a, Subscript)->index, Tuple))
        return NULL;
    for (int i = 0; i < AST_AS(AST_AS(a, Subscript)->index, Tuple)->elts.n; i++) {
        const Ast *e = without_policy(AST_AS(AST_AS(a, Subscript)->index, Tuple)->elts.at[i]);
        const char *word = AST_IS(e, Name) ? AST_AS(e, Name)->id->text : AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : NULL;
        if (AST_IS(e, Tuple) && !AST_AS(e, Tuple)->elts.n)
            continue;
        if (AST_IS(e, Int) && rank < VIEW_RANK && dt == DT_NONE)
            shape[rank++] = AST_AS(e, Int)->value;
        else if (!word || !dtype_find(word, &dt))
            return NULL;
    }
    if (dt == DT_NONE)
        return NULL;
    t = tensor_abstract(dt, rank, shape, NULL);
    for (int64_t i = rank - 1, step = 1; t && i >= 0; i--) {
        t->stride[i] = step;
        step *= shape[i];
    }
    return t;
}

static bool take_written(Launch *L, Tensor **own)
{
    L->spec.nparams = L->form.n;
    for (int i = 0; i < L->form.n; i++) {
        KParam *p = &L->spec.param[i];
        const AstParam *ast = L->form.param[i].param;
        p->name = ast->name;
        p->kind = L->form.param[i].kind;
        p->v = p->kind == KPARAM_NUMBER ? vfloat(1) : VNONE;
        if (p->kind == KPARAM_NUMBER && AST_IS(ast->annotation, Name) && !strcmp(AST_AS(ast->annotation, Name)->id->text, "float"))
            continue;
        p->tensor = own[i] = tensor_written(ast);
        if (!p->tensor)
            return raise(L->I, EXC_RuntimeError, "E0625: kernel '%s': the size of '%s' is not written out, so its work is not known",
                    L->name, p->name->text), false;
    }
    return true;
}

/* As many groups as the largest output asks for. */
static void plan_written(Launch *L)
{
    bool written[KERNEL_PARAMS];
    int out;

    launch_counted(L, written);
    out = launch_output(L, written);
    L->spec.literal = true;
    L->spec.led = -1;
    L->spec.groups = L->spec.across = 1;
    if (out < 0 || launch_tiles(L))
        return;
    if (launch_by_element(L)) {
        int64_t tiles = (int64_t)L->spec.lanes * L->spec.warps;
        L->spec.groups = (tensor_size(L->spec.param[out].tensor) + tiles - 1) / tiles * L->spec.warps;
    } else {
        Extent2 e = launch_extent(L, out);
        launch_grid(L, &e);
    }
}

static double bytes_moved(const Launch *L)
{
    double sum = 0;

    for (int i = 0; i < L->spec.nparams; i++)
        if (L->spec.param[i].tensor)
            sum += (double)tensor_nbytes(L->spec.param[i].tensor) * (L->form.param[i].read + L->form.param[i].written);
    return sum;
}

/* index: which parameter of the code each of the launch is; -1: none. */
static bool count_code(const Launch *L, const TileKernel *k, const int8_t *index, const KReads *reads, TileCount *out)
{
    TileArg *arg = tsr_calloc(sizeof *arg * (size_t)(k->params.n + 1));
    int64_t *size = tsr_calloc(sizeof *size * (size_t)(k->size.n + 1));
    bool ok;

    for (int i = 0; i < k->size.n; i++)
        size[i] = launch_size(&L->spec, k->size.at[i]);
    for (int i = 0; i < L->spec.nparams; i++)
        for (int a = 0; index[i] >= 0 && L->spec.param[i].tensor && a < L->spec.param[i].tensor->rank; a++)
            arg[index[i]].extent[a] = L->spec.param[i].tensor->shape[a];
    for (int i = 0; i < reads->n; i++)
        for (int a = 0; reads->at[i].param >= 0 && a < as_tensor(reads->at[i].v)->rank; a++)
            arg[reads->at[i].param].extent[a] = as_tensor(reads->at[i].v)->shape[a];
    ok = tile_count(k, size, arg, NULL, out);
    tsr_free(arg);
    tsr_free(size);
    return ok || launch_refuse((Launch *)L, "E0623: kernel '%s': it has more groups than can be numbered", L->name);
}

/* Where all sizes are written out the code is made for them, and kept by nobody. */
static bool count_written(Launch *L, TileCount *out)
{
    int8_t index[KERNEL_PARAMS];
    bool ok;
    Body B;

    plan_written(L);
    ok = body_make(L->I, &L->spec, &B) || launch_refuse(L, "E0623: kernel '%s': %s", L->name, B.err.n ? sb_str(&B.err) : "it cannot be made");
    for (int i = 0; i < L->spec.nparams; i++)
        index[i] = (int8_t)(L->spec.param[i].tensor || L->spec.param[i].v.tag == V_FLOAT ? B.param[i].index : -1);
    ok = ok && count_code(L, B.k, index, &B.reads, out);
    tile_kernel_free(B.k);
    map_done(&B.fixed_names);
    body_done(&B);
    return ok;
}

static bool count_call(Launch *L, TileCount *out)
{
    const Version *v = launch_plan(L) ? launch_version(L) : NULL;

    return v && count_code(L, v->k, v->index, &v->reads, out);
}

static Value told(const Launch *L, const TileCount *c)
{
    const struct { const char *name; double n; } numbers[] = {
        {"flops", c->flops}, {"bytes", bytes_moved(L)}, {"loaded", c->loaded}, {"stored", c->stored}, {"local", c->local}, {"groups", c->groups},
    };
    Value d = dict_new(), access = str_c(tile_access_names[c->access]);

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dict_set_sym(as_dict(d), sym(numbers[i].name), vint((int64_t)numbers[i].n));
    dict_set_sym(as_dict(d), sym("access"), access);
    value_unref(access);
    return d;
}

static Value bounds_of(const Launch *L, const Version *v)
{
    int64_t *size = tsr_calloc(sizeof *size * (size_t)(v->k->size.n + 1));
    TileBounds all = {INFINITY, -INFINITY, false};

    for (int i = 0; i < v->k->size.n; i++)
        size[i] = launch_size(&L->spec, v->k->size.at[i]);
    for (int i = 0; i < (v->nresults ? v->nresults : L->spec.nparams); i++) {
        int param = v->nresults ? v->result[i].param : v->written[i] ? v->index[i] : -1;
        TileBounds b = param >= 0 ? tile_bounds(v->k, size, param) : all;
        all = (TileBounds){fmin(all.lo, b.lo), fmax(all.hi, b.hi), all.nan || b.nan};
    }
    tsr_free(size);
    return tuple_of(3, vfloat(all.lo), vfloat(all.hi), vbool(all.nan));
}

Value kernel_bounds(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value schedule)
{
    Launch *L = tsr_calloc(sizeof *L);
    const Version *v = NULL;
    Value y = VERR;

    L->I = I;
    L->name = name;
    if (launch_begin(L, fn, VNONE, VNONE, schedule) && launch_bind(L, args, kwargs) && launch_plan(L) && (v = launch_version(L)))
        y = bounds_of(L, v);
    launch_done(L);
    return y;
}

Value kernel_count(Interp *I, const char *name, Value fn, Value args, Value kwargs, Value schedule)
{
    Launch *L = tsr_calloc(sizeof *L);
    Tensor *own[KERNEL_PARAMS] = {NULL};
    TileCount c;
    Value y = VERR;
    bool ok;

    L->I = I;
    L->name = name;
    ok = launch_begin(L, fn, VNONE, VNONE, schedule);
    if (args.tag == V_TUPLE)
        ok = ok && launch_bind(L, args, kwargs) && count_call(L, &c);
    else
        ok = ok && take_written(L, own) && count_written(L, &c);
    if (ok)
        y = told(L, &c);
    for (int i = 0; i < KERNEL_PARAMS; i++)
        tensor_unref(own[i]);
    launch_done(L);
    return y;
}

Value kernel_written(Interp *I, const char *name, Value fn, Value schedule)
{
    Launch *L = tsr_calloc(sizeof *L);
    Tensor *own[KERNEL_PARAMS] = {NULL};
    Value y = VERR;

    L->I = I;
    L->name = name;
    if (launch_begin(L, fn, VNONE, VNONE, schedule) && take_written(L, own)) {
        y = list_new(L->spec.nparams);
        for (int i = 0; i < L->spec.nparams; i++) {
            Value shape = own[i] ? tuple_new(own[i]->rank) : VNONE;
            for (int a = 0; own[i] && a < own[i]->rank; a++)
                as_tuple(shape)->at[a] = vint(own[i]->shape[a]);
            list_push(as_list(y), tuple_of(2, own[i] ? dtype_value(own[i]->dtype, NULL) : VNONE, shape));
        }
    }
    for (int i = 0; i < KERNEL_PARAMS; i++)
        tensor_unref(own[i]);
    launch_done(L);
    return y;
}
