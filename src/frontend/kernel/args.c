/*
 * The arguments of a launch: which parameter each is for, whether its dtype,
 * rank and sizes are those written, and what its dimensions are called.
 */
#include "frontend/kernel/launch_impl.h"

#include "frontend/check/privilege.h"
#include "frontend/tensor/tensor_ops.h"

#include <stdarg.h>
#include <string.h>

/* ------------------------------------------------------------- arguments */

bool launch_refuse(Launch *L, const char *fmt, ...)
{
    StrBuf b = {0};
    va_list ap;

    va_start(ap, fmt);
    sb_vprintf(&b, fmt, ap);
    va_end(ap);
    raise(L->I, EXC_TypeError, "%s", sb_str(&b));
    sb_done(&b);
    return false;
}

const char *kernel_annotation_word(const Ast *a)
{
    return AST_IS(a, Name) ? AST_AS(a, Name)->id->text : AST_IS(a, Attribute) ? AST_AS(a, Attribute)->attr->text : "";
}

int kernel_annotation_items(const Ast *a, const Ast **item)
{
    bool region = privilege_of(a).kind != PRIV_NONE;
    AstSeq in;
    int n = 0;

    while (AST_IS(a, BinOp) && AST_AS(a, BinOp)->op == AOP_MATMUL)
        a = AST_AS(a, BinOp)->left;
    if (!AST_IS(a, Subscript))
        return 0;
    a = AST_AS(a, Subscript)->index;
    in = AST_IS(a, Tuple) ? AST_AS(a, Tuple)->elts : (AstSeq){(Ast **)&a, 1};
    if (region && in.n == 2 && AST_IS(in.at[1], Subscript))
        return kernel_annotation_items(in.at[1], item);
    for (int i = region; i < in.n && n < 12; i++)
        item[n++] = in.at[i];
    return n;
}

static bool is_word(const char *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_' || (i && s[i] >= '0' && s[i] <= '9')))
            return false;
    return n > 0;
}

bool kernel_axis_item(const Ast *a, Sym *name, int64_t *number)
{
    DType dt;

    *name = NULL;
    *number = -1;
    if (AST_IS(a, Int)) {
        *number = AST_AS(a, Int)->value;
        return true;
    }
    if (AST_IS(a, Str)) {
        if (is_word(AST_AS(a, Str)->value.s, AST_AS(a, Str)->value.n))
            *name = sym(AST_AS(a, Str)->value.s);
        return true;
    }
    if (AST_IS(a, Name) && !dtype_find(AST_AS(a, Name)->id->text, &dt) && AST_AS(a, Name)->bind == BIND_DIM) {
        *name = AST_AS(a, Name)->id;
        return true;
    }
    return false;
}

/* The names of a tensor's axes, and whether its dtype and sizes are the ones written. */
static bool match_annotation(Launch *L, KParam *p, const AstParam *ast)
{
    const Ast *item[12];
    int n = kernel_annotation_items(ast->annotation, item), axis = 0, axes = 0;
    bool none = false;                                      /* Tensor[(), f32] */
    DType dt = DT_NONE;

    for (int i = 0; i < n; i++) {
        Sym name;
        int64_t number;
        const Ast *a = item[i];
        while (AST_IS(a, BinOp))
            a = AST_AS(a, BinOp)->left;
        none |= AST_IS(a, Tuple) && !AST_AS(a, Tuple)->elts.n;
        if (kernel_axis_item(a, &name, &number)) {
            if (axis < p->tensor->rank && axis < VIEW_RANK) {
                p->dim[axis] = name;
                if (number >= 0 && number != p->tensor->shape[axis])
                    return launch_refuse(L, "E0623: kernel '%s': '%s' has size %lld along axis %d, not %lld", L->name, p->name->text,
                            (long long)number, axis,
                                  (long long)p->tensor->shape[axis]);
            }
            axis++;
            axes = axis;
        } else if (*kernel_annotation_word(a) && dtype_find(kernel_annotation_word(a), &dt) && dt != p->tensor->dtype) {
            return launch_refuse(L, "E0623: kernel '%s': '%s' is %s, not %s", L->name, p->name->text, dtype_info[dt].name,
                    dtype_info[p->tensor->dtype].name);
        }
    }
    if ((axes || none) && axes != p->tensor->rank)
        return launch_refuse(L, "E0623: kernel '%s': '%s' has %d axes, not %d", L->name, p->name->text, axes, p->tensor->rank);
    return true;
}

bool launch_axis_written(const Launch *L, int param, int axis)
{
    const Ast *item[12], *a;
    int n = kernel_annotation_items(L->form.param[param].param->annotation, item), at = 0;
    int64_t number;
    Sym name;

    for (int i = 0; i < n; i++) {
        for (a = item[i]; AST_IS(a, BinOp); a = AST_AS(a, BinOp)->left)
            ;
        if (kernel_axis_item(a, &name, &number) && at++ == axis)
            return !name;
    }
    return false;
}

/* One name, one size. */
static bool match_sizes(Launch *L)
{
    const KSpec *s = &L->spec;

    for (int i = 0; i < s->nparams; i++)
        for (int k = 0; s->param[i].tensor && k < s->param[i].tensor->rank && k < VIEW_RANK; k++)
            for (int j = 0; j <= i && s->param[i].dim[k]; j++)
                for (int m = 0; s->param[j].tensor && m < s->param[j].tensor->rank && m < VIEW_RANK; m++)
                    if (s->param[j].dim[m] == s->param[i].dim[k] && s->param[j].tensor->shape[m] != s->param[i].tensor->shape[k])
                        return launch_refuse(L, "E0623: kernel '%s': %s is %lld in '%s' and %lld in '%s'", L->name, s->param[i].dim[k]->text,
                                      (long long)s->param[j].tensor->shape[m], s->param[j].name->text, (long long)s->param[i].tensor->shape[k],
                                      s->param[i].name->text);
    return true;
}

static bool number_arg(Launch *L, KParam *p, const AstParam *ast)
{
    const char *want = kernel_annotation_word(ast->annotation);
    Value v = p->v;

    if (v.tag == V_TENSOR && as_tensor(v)->rank == 0) {
        v = tensor_op_item(L->I, v);
        if (is_err(v))
            return false;
        vec_push(&L->held, v);
    }
    if (!strcmp(want, "float") && (v.tag == V_INT || v.tag == V_BOOL))
        v = vfloat((double)v.i);
    if (!strcmp(want, "int") && v.tag == V_BOOL)
        v = vint(v.i);
    if ((!strcmp(want, "int") && v.tag != V_INT) || (!strcmp(want, "float") && v.tag != V_FLOAT) || (!strcmp(want, "bool") && v.tag != V_BOOL))
        return launch_refuse(L, "E0623: kernel '%s': '%s' is %s, not %s", L->name, p->name->text, want, value_type_name(p->v));
    p->v = v;
    return true;
}

/* A tensor whose elements kernels can reach. */
static bool has_places(Launch *L, const KParam *p)
{
    if (p->tensor->rank > VIEW_RANK)
        return launch_refuse(L, "E0623: kernel '%s': '%s' has %d axes, and kernels see at most %d", L->name, p->name->text, p->tensor->rank,
                VIEW_RANK);
    if (dtype_info[p->tensor->dtype].sbits < 8 || dtype_info[p->tensor->dtype].sbits % 8)
        return launch_refuse(L, "E0623: kernel '%s': '%s' is %s, whose elements have no place of their own", L->name, p->name->text,
                dtype_info[p->tensor->dtype].name);
    return true;
}

static bool take_arg(Launch *L, int i, Value v)
{
    KParam *p = &L->spec.param[i];
    const AstParam *ast = L->form.param[i].param;

    p->v = v;
    p->kind = L->form.param[i].kind;
    if (p->kind == KPARAM_NUMBER)
        return number_arg(L, p, ast);
    if (v.tag != V_TENSOR) {
        if (p->kind != KPARAM_OTHER)
            return launch_refuse(L, "E0623: kernel '%s': '%s' must be a tensor, not %s", L->name, p->name->text, value_type_name(v));
        return true;
    }
    p->tensor = as_tensor(v);
    p->leads = kernel_param_leads(&L->form, ast);
    p->reduces = privilege_of(ast->annotation).kind == PRIV_REDUCE;
    p->discards = privilege_of(ast->annotation).kind == PRIV_WRITE;
    return has_places(L, p) && match_annotation(L, p, ast);
}

/* cache.K of an object among the arguments: a tensor is a parameter of its own, and is given by its name where the launch was staged. */
static bool take_field(Launch *L, const KernelField *f, Value kwargs, int *used)
{
    KParam *of = &L->spec.param[f->param], *p = &L->spec.param[L->spec.nparams];
    Sym name = kernel_field_name(of->name, f->attr);
    Value v = kwargs.tag == V_DICT ? dict_get_sym(as_dict(kwargs), name) : VERR;

    if (of->v.tag != V_INSTANCE)
        return true;
    *used += !is_err(v);
    v = is_err(v) ? value_getattr(L->I, of->v, f->attr) : value_ref(v);
    if (is_err(v))
        return false;
    vec_push(&L->held, v);
    if (L->spec.nparams == KERNEL_PARAMS)
        return launch_refuse(L, "E0623: kernel '%s' has more than %d parameters", L->name, KERNEL_PARAMS);
    *p = (KParam){.name = name, .v = v, .field = true, .kind = v.tag == V_TENSOR ? KPARAM_TENSOR : KPARAM_OTHER,
                  .tensor = v.tag == V_TENSOR ? as_tensor(v) : NULL};
    L->form.param[L->spec.nparams] = (KernelParam){.kind = p->kind, .read = true};
    L->arg[L->spec.nparams++] = -1;
    if (p->tensor && p->tensor->tracer)
        return launch_refuse(L, "E0622: kernel '%s': '%s' is followed by a transformation: pass the tensor itself as a parameter",
                             L->name, name->text);
    return !p->tensor || has_places(L, p);
}

static bool take_fields(Launch *L, Value kwargs, int *used)
{
    for (int i = 0; i < L->form.n; i++)
        L->spec.param[i].apart = L->spec.param[i].v.tag == V_INSTANCE && !L->form.param[i].read;
    for (int i = 0; i < L->form.nfields; i++)
        if (!take_field(L, &L->form.field[i], kwargs, used))
            return false;
    return true;
}

/* ------------------------------------------------------------- tensors in lists and dicts */

Sym kernel_item_name(Interp *I, Sym param, Value key)
{
    StrBuf b = {0};
    Sym name;

    sb_printf(&b, "%.64s[", param->text);
    if (!value_repr_to(I, key, &b))
        exc_clear(I);
    sb_puts(&b, "]");
    name = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return name;
}

/* An item that is a tensor is a parameter, which is only read. */
static bool take_item(Launch *L, int of, Value key, Value v)
{
    KParam *p = &L->spec.param[L->spec.nparams];

    if (v.tag != V_TENSOR)
        return true;
    if (L->spec.nparams == KERNEL_PARAMS)
        return launch_refuse(L, "E0623: kernel '%s' has more than %d parameters", L->name, KERNEL_PARAMS);
    *p = (KParam){.name = kernel_item_name(L->I, L->spec.param[of].name, key), .v = v, .field = true, .kind = KPARAM_TENSOR, .tensor = as_tensor(v)};
    L->form.param[L->spec.nparams] = (KernelParam){.kind = p->kind, .read = true};
    L->arg[L->spec.nparams++] = -1;
    L->spec.param[of].holds = true;
    if (p->tensor->tracer)
        return launch_refuse(L, "E0622: kernel '%s': '%s' is followed by a transformation: pass the tensor itself as a parameter", L->name,
                             p->name->text);
    return has_places(L, p);
}

static bool take_items(Launch *L, int of)
{
    Value v = L->spec.param[of].v, key, item;
    int64_t n = v.tag == V_TUPLE ? as_tuple(v)->n : v.tag == V_LIST ? as_list(v)->n : 0, at = 0;
    const Value *items = v.tag == V_TUPLE ? as_tuple(v)->at : v.tag == V_LIST ? as_list(v)->at : NULL;

    for (int64_t i = 0; i < n; i++)
        if (!take_item(L, of, vint(i), items[i]))
            return false;
    while (v.tag == V_DICT && dict_next(as_dict(v), &at, &key, &item))
        if (!take_item(L, of, key, item))
            return false;
    return true;
}

/* def k(out, *xs): what is left of the arguments. */
static Value rest_of(Launch *L, Value args, int64_t *at)
{
    int64_t n = as_tuple(args)->n;
    Value rest = tuple_new(n - *at);

    for (int64_t i = 0; *at < n; i++)
        as_tuple(rest)->at[i] = value_ref(as_tuple(args)->at[(*at)++]);
    vec_push(&L->held, rest);
    return rest;
}

bool launch_bind(Launch *L, Value args, Value kwargs)
{
    int64_t n = as_tuple(args)->n, at = 0;
    Value v;
    int used = 0;

    L->spec.nparams = L->form.n;
    for (int i = 0; i < L->form.n; i++) {
        const AstParam *p = L->form.param[i].param;
        KParam *k = &L->spec.param[i];
        k->name = p->name;
        L->arg[i] = -1;
        v = VERR;
        if (p->kind == PARAM_KWARGS)
            return launch_refuse(L, "E0623: kernel '%s' has parameters by **, which launches do not give", L->name);
        if (p->kind == PARAM_VARARGS) {
            v = rest_of(L, args, &at);
        } else if (p->kind != PARAM_KWONLY && at < n) {
            L->arg[i] = (int)at;
            v = as_tuple(args)->at[at++];
        } else if (kwargs.tag == V_DICT) {
            v = dict_get_sym(as_dict(kwargs), p->name);
            L->keyword[i] = is_err(v) ? NULL : p->name;
            used += !is_err(v);
        }
        if (is_err(v) && L->spec.fn->defaults)
            v = L->spec.fn->defaults[p->slot];
        if (is_err(v))
            return launch_refuse(L, "%s() missing the argument '%s'", L->name, p->name->text);
        if (!take_arg(L, i, v))
            return false;
    }
    if (!take_fields(L, kwargs, &used))
        return false;
    for (int i = 0; i < L->form.n; i++)
        if (!take_items(L, i))
            return false;
    if (at < n || (kwargs.tag == V_DICT && as_dict(kwargs)->n > used))
        return launch_refuse(L, "%s() takes %d arguments, and %lld were given", L->name, L->form.n,
                (long long)(n + (kwargs.tag == V_DICT ? as_dict(kwargs)->n : 0)));
    return match_sizes(L);
}
