/*
 * oper.c - operators and the other questions that the core asks of tensors.
 *
 * Operators meet two tensors or a tensor and a number; anything else is
 * answered with NotImplemented, so that user classes get their turn.
 */
#include "frontend/dist/dist.h"
#include "frontend/tensor/bind.h"
#include "frontend/tensor/memory.h"
#include "frontend/tensor/linear.h"

#include "frontend/syntax/ast.h"
#include "runtime/cuda.h"
#include "runtime/storage.h"

#include <math.h>
#include <string.h>

static const OpId operator_op[AOP_COUNT] = {
    [AOP_ADD] = OP_add, [AOP_SUB] = OP_sub, [AOP_MUL] = OP_mul, [AOP_DIV] = OP_div, [AOP_FLOORDIV] = OP_floordiv,
    [AOP_MOD] = OP_mod, [AOP_POW] = OP_pow, [AOP_MATMUL] = OP_matmul, [AOP_LSHIFT] = OP_shl, [AOP_RSHIFT] = OP_shr,
    [AOP_BITAND] = OP_bitand, [AOP_BITOR] = OP_bitor, [AOP_BITXOR] = OP_bitxor,
    [AOP_EQ] = OP_eq, [AOP_NE] = OP_ne, [AOP_LT] = OP_lt, [AOP_LE] = OP_le, [AOP_GT] = OP_gt, [AOP_GE] = OP_ge,
};

/* ------------------------------------------------------------- binary operators */

static bool combines(Value v) { return v.tag == V_TENSOR || arg_is_number(v); }

/* The pair as tensors; the number of a mixed pair takes its dtype from the other. */
static bool pair(Interp *I, Value a, Value b, Tensor **x, Tensor **y)
{
    if (a.tag == V_TENSOR) {
        *x = tensor_ref(as_tensor(a));
        *y = arg_beside(I, b, *x, "the operator");
    } else {
        *y = tensor_ref(as_tensor(b));
        *x = arg_beside(I, a, *y, "the operator");
    }
    if (*x && *y)
        return true;
    tensor_unref(*x);
    tensor_unref(*y);
    if (!exc_pending(I))
        raise(I, EXC_MemoryError, "not enough memory for a tensor");
    return false;
}

/* Comparing with a number outside the dtype's range is meaningful: compare as wide ints. */
static bool compare_pair(Interp *I, Value a, Value b, Tensor **x, Tensor **y)
{
    Value n = a.tag == V_TENSOR ? b : a;
    Tensor *t = as_tensor(a.tag == V_TENSOR ? a : b);
    if ((n.tag != V_INT && !is_symint(n)) || !dtype_is_int(t->dtype) || (n.tag == V_INT && n.i >= 0 && n.i < 8))
        return pair(I, a, b, x, y);
    Tensor *s = is_symint(n) ? size_tensor(I, symint_size(n), DT_int64) : tensor_scalar_i(DT_int64, n.i), *w = do_convert(I, tensor_ref(t), DT_int64);
    *x = a.tag == V_TENSOR ? w : s;
    *y = a.tag == V_TENSOR ? s : w;
    if (w && s)
        return true;
    tensor_unref(w);
    tensor_unref(s);
    return false;
}

static Tensor *pow_op(Interp *I, Tensor *x, Tensor *y, Value exponent)
{
    if (exponent.tag == V_INT && exponent.i == 2)       /* exact, and twice differentiable at 0 */
        return binary_op(I, OP_mul, x, x);
    return binary_op(I, OP_pow, x, y);
}

Value tensor_op_binary(Interp *I, int op, Value a, Value b)
{
    Tensor *x, *y, *out;
    if (!combines(a) || !combines(b))
        return VNOTIMPL;
    if (a.tag == V_TENSOR && b.tag == V_TENSOR && op != AOP_MATMUL)
        return value_of(run_op(I, operator_op[op], NULL, (Tensor *[]){as_tensor(a), as_tensor(b)}, 2));
    if (op == AOP_POW && is_symbolic(b)) {               /* which power it is decides how it is computed */
        b = symint_settled(I, b);
        return is_err(b) ? VERR : tensor_op_binary(I, op, a, b);
    }
    if (!pair(I, a, b, &x, &y))
        return VERR;
    if (op == AOP_MATMUL)
        out = matmul_op(I, x, y);
    else if (op == AOP_POW)
        out = pow_op(I, x, y, b);
    else
        out = binary_op(I, operator_op[op], x, y);
    tensor_unref(x);
    tensor_unref(y);
    return value_of(out);
}

Value tensor_op_compare(Interp *I, int op, Value a, Value b)
{
    Tensor *x, *y;
    if (!combines(a) || !combines(b))
        return VNOTIMPL;
    if (!compare_pair(I, a, b, &x, &y))
        return VERR;
    Tensor *out = binary_op(I, operator_op[op], x, y);
    tensor_unref(x);
    tensor_unref(y);
    return value_of(out);
}

Value tensor_op_unary(Interp *I, int op, Value a)
{
    Tensor *t = as_tensor(a);
    switch (op) {
    case AOP_NEG:
        return value_of(run1(I, OP_neg, NULL, t));
    case AOP_POS:
        return value_ref(a);
    case AOP_INVERT:
        return value_of(run1(I, OP_bitnot, NULL, t));
    default: {                                          /* not */
        int truth = tensor_op_truth(I, a);
        return truth < 0 ? VERR : vbool(!truth);
    }
    }
}

/* ------------------------------------------------------------- one element */

bool value_is_staged(Value v)
{
    return v.tag == V_TENSOR && as_tensor(v)->tracer && !tensor_concrete(as_tensor(v));
}

static bool was_donated(Interp *I, Value v)
{
    if (as_tensor(v)->tracer->level->kind != TRACE_DONATED)
        return false;
    raise(I, EXC_ValueError, "buffer donated: the tensor was given away (donate=) to an earlier call");
    return true;
}

/* The only element's place in a concrete tensor; NULL with an exception. */
static Tensor *single(Interp *I, Value v, const char *what)
{
    Tensor *t = tensor_concrete(as_tensor(v));
    if (!t) {
        if (!was_donated(I, v))
            raise(I, EXC_TypeError, "%s needs a value, but this tensor is being %s; use where, cond or a loop over tensors", what,
                  "traced: its elements are known only when the staged function runs");
        return NULL;
    }
    if (tensor_size(t) != 1) {
        StrBuf s = {0};
        put_shape(&s, t->rank, t->shape);
        raise(I, EXC_ValueError, "%s needs a tensor of one element, not %s", what, sb_str(&s));
        sb_done(&s);
        return NULL;
    }
    return t;
}

/* Was that element read? false: a GPU failed meanwhile, which is raised. */
static bool arrived(Interp *I) { return !fault_kept || !is_err(fault_raise(I, VNONE)); }

int tensor_op_truth(Interp *I, Value v)
{
    Tensor *t = tensor_concrete(as_tensor(v));
    if (t && tensor_size(t) > 1) {
        raise(I, EXC_ValueError, "the truth of a tensor with more than one element is ambiguous: use .any() or .all()");
        return -1;
    }
    if (!(t = single(I, v, "a condition")))
        return -1;
    int truth;
    if (dtype_is_complex(t->dtype)) {
        double re, im;
        elem_get_c(t, t->offset, &re, &im);
        truth = re != 0 || im != 0;
    } else {
        truth = dtype_is_inexact(t->dtype) ? elem_get_f(t, t->offset) != 0 : elem_get_i(t, t->offset) != 0;
    }
    return arrived(I) ? truth : -1;
}

static Value element(const Tensor *t, int64_t at)
{
    double re, im;
    switch (dtype_info[t->dtype].kind) {
    case DK_BOOL:
        return vbool(elem_get_i(t, at) != 0);
    case DK_INT: case DK_UINT:
        return vint(elem_get_i(t, at));
    case DK_FLOAT:
        return vfloat(elem_get_f(t, at));
    default:
        elem_get_c(t, at, &re, &im);
        return complex_new(re, im);
    }
}

Value tensor_op_item(Interp *I, Value v)
{
    Tensor *t = single(I, v, ".item()");
    Value r = t ? element(t, t->offset) : VERR;
    return t && fault_kept ? fault_raise(I, r) : r;
}

bool tensor_op_as_int(Interp *I, Value v, int64_t *out)
{
    Tensor *t = single(I, v, "an int");
    if (!t)
        return false;
    if (dtype_is_inexact(t->dtype)) {
        raise(I, EXC_TypeError, "an int is needed here; a tensor of %s is not one", dtype_info[t->dtype].name);
        return false;
    }
    *out = elem_get_i(t, t->offset);
    return arrived(I);
}

bool tensor_op_as_float(Interp *I, Value v, double *out)
{
    Tensor *t = single(I, v, "a float");
    if (!t)
        return false;
    *out = dtype_is_inexact(t->dtype) ? elem_get_f(t, t->offset) : (double)elem_get_i(t, t->offset);
    return arrived(I);
}

/* ------------------------------------------------------------- as a sequence */

int64_t tensor_op_len(Interp *I, Value v)
{
    Tensor *t = as_tensor(v);
    int64_t n;
    if (!t->rank) {
        raise(I, EXC_TypeError, "a 0-d tensor has no len()");
        return -1;
    }
    return symint_number(I, size_value(t->shape[0]), &n) ? n : -1;
}

typedef struct TensorIter { NativeInst inst; Value tensor; int64_t i, n; } TensorIter;

static void iter_free(void *self) { value_unref(((TensorIter *)self)->tensor); }

static Value iter_next(Interp *I, void *self)
{
    TensorIter *it = self;
    if (it->i >= it->n)
        return VERR;
    return tensor_op_getitem(I, it->tensor, vint(it->i++));
}

static const NativeType iter_type = {.name = "tensor_iterator", .free = iter_free, .next = iter_next};

Value tensor_op_iter(Interp *I, Value v)
{
    if (!as_tensor(v)->rank)
        return raise(I, EXC_TypeError, "a 0-d tensor cannot be iterated over");
    int64_t n = tensor_op_len(I, v);                    /* one graph for each length */
    if (n < 0)
        return VERR;
    TensorIter *it = nativeobj_new(&iter_type, sizeof *it);
    it->n = n;
    it->tensor = value_ref(v);
    return vobj(it);
}

int tensor_op_contains(Interp *I, Value v, Value x)
{
    Value eq = tensor_op_compare(I, AOP_EQ, v, x);
    if (is_err(eq))
        return -1;
    if (eq.tag == V_NOTIMPL)
        return 0;
    Attr a = attr_default();
    arg_axes(I, VNONE, as_tensor(eq)->rank, &a);
    Value any = value_of(run1(I, OP_any, &a, as_tensor(eq)));
    value_unref(eq);
    int truth = is_err(any) ? -1 : tensor_op_truth(I, any);
    value_unref(any);
    return truth;
}

/* ------------------------------------------------------------- text */

bool tensor_op_repr(Interp *I, Value v, StrBuf *out)
{
    if (v.tag == V_DTYPE) {
        dtype_repr(v, out);
        return true;
    }
    Tensor *t = as_tensor(v), *c = tensor_concrete(t);
    if (c) {
        tensor_print(c, out);
        return !fault_kept || !is_err(fault_raise(I, VNONE));
    }
    TType type = tensor_type(t);
    sb_puts(out, "Tensor(<traced>, shape=(");
    for (int i = 0; i < type.rank; i++) {
        int64_t size;
        sb_puts(out, dim_text(dim_settle(type.shape[i], &size) ? size : type.shape[i]));
        sb_puts(out, i + 1 < type.rank ? ", " : type.rank == 1 ? "," : "");
    }
    sb_printf(out, "), dtype=%s)", dtype_info[type.dtype].name);
    return true;
}

Value tensor_op_format(Interp *I, Value v, const char *spec, size_t n)
{
    Tensor *t = tensor_concrete(as_tensor(v));
    if (n && t && t->rank == 0) {
        Value item = element(t, t->offset);
        Value s = value_format(I, item, spec, n);
        value_unref(item);
        return s;
    }
    if (n)
        return raise(I, EXC_TypeError, "a format like %.*s needs a 0-d tensor", (int)n, spec);
    return value_str(I, v);
}

/* ------------------------------------------------------------- tolist */

static Value nested(const Tensor *t, int axis, int64_t at)
{
    if (axis == t->rank)
        return element(t, at);
    Value list = list_new(t->shape[axis]);
    for (int64_t i = 0; i < t->shape[axis]; i++)
        list_push(as_list(list), nested(t, axis + 1, at + i * t->stride[axis]));
    return list;
}

static Value m_tolist(Interp *I, Value *a)
{
    Tensor *t = tensor_concrete(as_tensor(a[0]));
    if (!t && was_donated(I, a[0]))
        return VERR;
    if (!t)
        return raise(I, EXC_TypeError, ".tolist() needs values, but this tensor is being traced: its elements are known only when the "
                                       "staged function runs; return the tensor, or print it");
    if (!(t = tensor_here(t)))
        return fault_kept ? fault_raise(I, VNONE) : raise(I, EXC_MemoryError, "out of memory");
    Value list = nested(t, 0, t->offset);
    tensor_unref(t);
    return list;
}

/* Of the only element; of that at a place of the flattened tensor, or at an index. */
static Value m_item(Interp *I, Value *a)
{
    TupleObj *at = as_tuple(a[1]);
    Tensor *x = as_tensor(a[0]);
    Dim n = shape_product(x->rank, x->shape);

    if (at->n == 1 && at->at[0].tag == V_TUPLE)
        at = as_tuple(at->at[0]);
    if (!at->n)
        return tensor_op_item(I, a[0]);
    if (at->n != 1 && at->n != x->rank)
        return raise(I, EXC_IndexError, "item() takes one place or an index for each of %d axes, not %d", x->rank, (int)at->n);
    Value all = at->n == 1 ? value_of(do_reshape(I, tensor_ref(x), 1, &n)) : value_ref(a[0]);
    Value one = is_err(all) ? VERR : tensor_op_getitem(I, all, at->n == 1 ? at->at[0] : (Value){.tag = V_TUPLE, .o = &at->obj});
    Value r = is_err(one) ? VERR : tensor_op_item(I, one);
    value_unref(all);
    value_unref(one);
    return r;
}

/* ------------------------------------------------------------- attributes */

static Value attr_shape(Interp *I, Value v)
{
    Tensor *t = as_tensor(v);
    Value s = tuple_new(t->rank);
    for (int i = 0; i < t->rank; i++) {
        as_tuple(s)->at[i] = size_value(t->shape[i]);
    }
    return s;
}

static Value m_same_storage(Interp *I, Value *a)
{
    Tensor *x = tensor_concrete(as_tensor(a[0])), *y = a[1].tag == V_TENSOR ? tensor_concrete(as_tensor(a[1])) : NULL;
    return vbool(x && y && x->store && x->store == y->store);
}

static Value attr_dtype(Interp *I, Value v) { return dtype_value(as_tensor(v)->dtype, NULL); }
static Value attr_policy(Interp *I, Value v) { return dtype_value(as_tensor(v)->dtype, as_tensor(v)->policy); }
static Value attr_itemsize(Interp *I, Value v) { return vint((dtype_info[as_tensor(v)->dtype].sbits + 7) / 8); }
static Value attr_ndim(Interp *I, Value v) { return vint(as_tensor(v)->rank); }
static Value attr_size(Interp *I, Value v) { return size_value(shape_product(as_tensor(v)->rank, as_tensor(v)->shape)); }
static Value attr_grad(Interp *I, Value v)
{
    Value g = ((TensorObj *)v.o)->grad;
    return is_err(g) ? VNONE : value_ref(g);
}

const char *const tensor_spaces[] = {"global", "register", "shared", "host", "disk", "local", "constant", NULL};

uint8_t *tensor_space(Tensor *t) { return t->store ? &t->store->space : t->tracer ? &t->tracer->space : NULL; }

static Value attr_space(Interp *I, Value v)
{
    const uint8_t *space = tensor_space(as_tensor(v));

    return str_c(tensor_spaces[space ? *space : 0]);
}

static Value attr_nbytes(Interp *I, Value v)
{
    Tensor *t = as_tensor(v);
    int64_t n;
    if (!symint_number(I, size_value(shape_product(t->rank, t->shape)), &n))
        return VERR;
    return vint((int64_t)dtype_nbytes(t->dtype, (size_t)n));
}

static Value attr_T(Interp *I, Value v)
{
    Tensor *t = as_tensor(v);
    int perm[RANK_MAX];
    for (int i = 0; i < t->rank; i++)
        perm[i] = t->rank - 1 - i;
    return value_of(do_permute(I, tensor_ref(t), perm));
}

static Value attr_mT(Interp *I, Value v)
{
    Tensor *t = as_tensor(v);
    int perm[RANK_MAX];
    if (t->rank < 2)
        return raise(I, EXC_ShapeError, ".mT needs at least two axes");
    for (int i = 0; i < t->rank; i++)
        perm[i] = i;
    perm[t->rank - 1] = t->rank - 2;
    perm[t->rank - 2] = t->rank - 1;
    return value_of(do_permute(I, tensor_ref(t), perm));
}

static Value attr_real(Interp *I, Value v)
{
    return dtype_is_complex(as_tensor(v)->dtype) ? value_of(run1(I, OP_real, NULL, as_tensor(v))) : value_ref(v);
}

static Value attr_imag(Interp *I, Value v)
{
    Tensor *t = as_tensor(v);
    if (dtype_is_complex(t->dtype))
        return value_of(run1(I, OP_imag, NULL, t));
    return tensor_op_binary(I, AOP_MUL, v, vint(0));
}

Value from_library(Interp *I, const char *file, const char *maker, const Value *args, int n)
{
    Value module = import_module(I, file), r;

    if (is_err(module))
        return VERR;
    r = value_call_method(I, module, sym(maker), args, n);
    value_unref(module);
    return r;
}

static Value attr_part(Interp *I, Value v) { return from_library(I, "launches", "partition_of", &v, 1); }
static Value attr_at(Interp *I, Value v) { return from_library(I, "updates", "at_of", &v, 1); }

/* The sizes come as a tuple. */
static Value m_tiles(Interp *I, Value *a)
{
    const TupleObj *sizes = as_tuple(a[1]);
    Value args[1 + RANK_MAX];

    if (sizes->n > RANK_MAX)
        return raise(I, EXC_ValueError, "tiles: %d sizes", (int)sizes->n);
    args[0] = a[0];
    for (int i = 0; i < sizes->n; i++)
        args[1 + i] = sizes->at[i];
    return from_library(I, "launches", "tiles_of", args, 1 + (int)sizes->n);
}

static const struct { const char *name; Value (*get)(Interp *I, Value v); } attrs[] = {
    {"shape", attr_shape}, {"dtype", attr_dtype}, {"policy", attr_policy}, {"ndim", attr_ndim}, {"size", attr_size}, {"nbytes", attr_nbytes},
    {"T", attr_T}, {"mT", attr_mT}, {"real", attr_real}, {"imag", attr_imag}, {"device", attr_device}, {"grad", attr_grad},
    {"placement", attr_placement}, {"mesh", attr_mesh}, {"local_shape", attr_local_shape}, {"global_shape", attr_shape},
    {"part", attr_part}, {"at", attr_at}, {"space", attr_space}, {"itemsize", attr_itemsize},
};
enum { NATTRS = sizeof attrs / sizeof *attrs };

Value tensor_op_getattr(Interp *I, Value v, Sym name)
{
    static Sym syms[NATTRS];
    if (!syms[0])
        for (int i = 0; i < NATTRS; i++)
            syms[i] = sym(attrs[i].name);
    for (int i = 0; i < NATTRS; i++)
        if (syms[i] == name)
            return attrs[i].get(I, v);
    return VERR;
}

bool tensor_op_setattr(Interp *I, Value v, Sym name, Value x)
{
    TensorObj *o = (TensorObj *)v.o;
    if (strcmp(name->text, "grad")) {
        raise(I, EXC_AttributeError, "tensors have no attribute %s to set", name->text);
        return false;
    }
    value_ref(x);
    if (!is_err(o->grad))
        value_unref(o->grad);
    o->grad = x;
    return true;
}

const NativeDef tensor_oper_natives[] = {
    {"Tensor", "tiles", m_tiles, "(self, *sizes: int) -> object", "The tensor cut into parts of these sizes, for an index launch: x.tiles(16)[i]."},
    {"Tensor", "tolist", m_tolist, "(self) -> list | int | float | bool", "The elements as nested lists of Python numbers."},
    {"Tensor", "same_storage", m_same_storage, "(self, other: Tensor) -> bool", "Do both lie in the same memory? A change of one still does not show in the other."},
    {"Tensor", "item", m_item, "(self, *index: int | tuple) -> int | float | bool",
     "The only element as a Python number; ValueError when there are more. With ints: the element at that place of the flattened tensor, or at that index."},
    {0},
};
