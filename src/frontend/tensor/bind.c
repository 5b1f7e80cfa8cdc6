/*
 * bind.c - values to tensors and back.
 *
 * A Python number has no dtype of its own: alone it becomes a weak 0-d tensor
 * (f32 or int32/int64), beside a tensor it takes that tensor's dtype unless that would
 * lose its kind (a float beside ints makes both f32).
 */
#include "frontend/tensor/bind.h"
#include "runtime/mesh.h"

#include "frontend/syntax/ast.h"

#include <string.h>

bool arg_is_number(Value v)
{
    return v.tag == V_BOOL || v.tag == V_INT || v.tag == V_FLOAT || v.tag == V_COMPLEX || is_symbolic(v);
}

void put_shape(StrBuf *b, int rank, const Dim *shape)
{
    sb_putc(b, '[');
    for (int i = 0; i < rank; i++) {
        if (i)
            sb_puts(b, ", ");
        dim_print_at_hand(shape[i], b);
    }
    sb_putc(b, ']');
}

/* ------------------------------------------------------------- errors and ops */

/* The pending exception says which op it was: e.op. */
static void name_failed_op(Interp *I, OpId op)
{
    Value e = exc_take(I), name = str_c(op_info[op].name);
    if (!value_setattr(I, e, sym("op"), name))
        exc_clear(I);
    raise_value(I, e);
    value_unref(e);
    value_unref(name);
}

Value raise_op_error(Interp *I)
{
    static const ExcKind kind[] = {
        [OPERR_NONE] = EXC_RuntimeError, [OPERR_SHAPE] = EXC_ShapeError, [OPERR_DTYPE] = EXC_DTypeError,
        [OPERR_INDEX] = EXC_IndexError, [OPERR_VALUE] = EXC_ValueError, [OPERR_MEMORY] = EXC_MemoryError,
        [OPERR_ZERODIV] = EXC_ZeroDivisionError, [OPERR_NUMERIC] = EXC_NumericalError,
        [OPERR_HOST] = EXC_RuntimeError, [OPERR_TRACE] = EXC_TypeError, [OPERR_ASSERT] = EXC_AssertionError,
        [OPERR_DEVICE] = EXC_RuntimeError,
    };
    Trace *T = trace_of(I);
    if (!exc_pending(I)) {
        const char *text = sb_str(&T->message);
        if (!*text && T->error != OPERR_ASSERT)
            text = T->error == OPERR_MEMORY ? "not enough memory for the tensor" : "the operation failed";
        raise(I, kind[T->error], "%s", text);
        if (T->error == OPERR_NUMERIC)
            name_failed_op(I, T->failed);
    }
    T->error = OPERR_NONE;
    sb_clear(&T->message);
    return VERR;
}

Tensor *run_op(Interp *I, OpId op, const Attr *a, Tensor *const *in, int n)
{
    Trace *T = trace_of(I);
    T->span = interp_span(I);
    Tensor *out = trace_lie_together(T, op, in, n) ? op1(T, op, a, in, n) : NULL;
    if (!out)
        raise_op_error(I);
    return out;
}

/* An operand that is missing without a word is one that no memory was left for. */
static Tensor *operand_missing(Interp *I)
{
    Trace *T = trace_of(I);

    if (!exc_pending(I)) {
        T->error = T->error ? T->error : OPERR_MEMORY;
        raise_op_error(I);
    }
    return NULL;
}

Tensor *chain1(Interp *I, OpId op, const Attr *a, Tensor *x)
{
    if (!x)
        return operand_missing(I);
    Tensor *y = run_op(I, op, a, &x, 1);
    tensor_unref(x);
    return y;
}

Tensor *chain2(Interp *I, OpId op, const Attr *a, Tensor *x, Tensor *y)
{
    Tensor *out = x && y ? run_op(I, op, a, (Tensor *[]){x, y}, 2) : operand_missing(I);
    tensor_unref(x);
    tensor_unref(y);
    return out;
}

Tensor *do_convert(Interp *I, Tensor *x, DType dt)
{
    if (!x || (x->dtype == dt && !x->weak))
        return x;
    Attr a = attr_default();
    a.dtype = dt;
    return chain1(I, OP_convert, &a, x);
}

Tensor *do_declare(Interp *I, Tensor *x, DType dt, const Policy *policy)
{
    if (!x || (x->dtype == dt && !x->weak && x->policy == policy))
        return x;
    Attr a = attr_default();
    a.dtype = dt;
    a.policy = policy;
    return chain1(I, OP_convert, &a, x);
}

Value with_policy(Interp *I, Value v, Value dtype)
{
    DType dt = DT_NONE;
    const Policy *policy;
    if (is_err(v) || (dtype.tag != V_INSTANCE && dtype.tag != V_CLASS && (dtype.tag != V_DTYPE || !as_dtype(dtype)->policy)))
        return v;
    Tensor *t = tensor_ref(as_tensor(v));
    value_unref(v);
    if (!arg_dtype_policy(I, dtype, &dt, &policy)) {
        tensor_unref(t);
        return VERR;
    }
    return value_of(policy ? do_declare(I, t, dt, policy) : t);
}

Tensor *do_reshape(Interp *I, Tensor *x, int rank, const Dim *shape)
{
    if (!x || (x->rank == rank && !memcmp(x->shape, shape, sizeof(Dim) * (size_t)rank)))
        return x;
    Attr a = attr_default();
    a.nd[0] = (uint8_t)rank;
    memcpy(a.d[0], shape, sizeof(Dim) * (size_t)rank);
    return chain1(I, OP_reshape, &a, x);
}

Tensor *do_broadcast(Interp *I, Tensor *x, int rank, const Dim *shape)
{
    if (!x || (x->rank == rank && !memcmp(x->shape, shape, sizeof(Dim) * (size_t)rank)))
        return x;
    Attr a = attr_default();
    a.nd[0] = (uint8_t)rank;
    memcpy(a.d[0], shape, sizeof(Dim) * (size_t)rank);
    return chain1(I, OP_broadcast, &a, x);
}

Tensor *do_permute(Interp *I, Tensor *x, const int *perm)
{
    if (!x)
        return NULL;
    Attr a = attr_default();
    bool same = true;
    a.naxes = x->rank;
    for (int i = 0; i < x->rank; i++) {
        a.axis[i] = (int8_t)(perm[i] - x->rank);
        same &= perm[i] == i;
    }
    return same ? x : chain1(I, OP_permute, &a, x);
}

Tensor *scalar_as(DType dt, double f, int64_t i)
{
    Tensor *t = dtype_is_inexact(dt) ? tensor_scalar_f(dt, f) : tensor_scalar_i(dt, i);
    return t;
}

Tensor *iota_axis(Interp *I, DType dt, Dim n)
{
    Attr a = attr_iota(dt, 1, &n, -1);

    return run_op(I, OP_iota, &a, NULL, 0);
}

Tensor *matrix_places(Interp *I, const Dim *shape, int axis)
{
    Attr a = attr_iota(DT_int64, 2, shape, axis);

    return run_op(I, OP_iota, &a, NULL, 0);
}

Tensor *binary_op(Interp *I, OpId op, Tensor *x, Tensor *y)
{
    return run_op(I, op, NULL, (Tensor *[]){x, y}, 2);
}

/* bool < int < float < complex */
static int kind_order(DType t)
{
    switch (dtype_info[t].kind) {
    case DK_BOOL: return 0;
    case DK_INT: case DK_UINT: return 1;
    case DK_FLOAT: return 2;
    default: return 3;
    }
}

/* ------------------------------------------------------------- numbers */

static Tensor *complex_scalar(DType dt, double re, double im)
{
    Tensor *t = tensor_new(dt, 0, NULL);
    if (t)
        elem_set_c(t, t->offset, re, im);
    return t;
}

static Tensor *number_tensor(Interp *I, Value v)
{
    Tensor *t;
    switch (v.tag) {
    case V_SYMINT: return size_number(I, symint_size(v));
    case V_SYMFLOAT: t = size_float(I, v, DT_f32); break;
    case V_BOOL: t = tensor_scalar_i(DT_bool, v.i); break;
    case V_INT: t = tensor_scalar_i(v.i >= INT32_MIN && v.i <= INT32_MAX ? DT_int32 : DT_int64, v.i); break;
    case V_FLOAT: t = tensor_scalar_f(DT_f32, v.f); break;
    default: t = complex_scalar(DT_c64, ((ComplexObj *)v.o)->re, ((ComplexObj *)v.o)->im); break;
    }
    if (!t)
        raise(I, EXC_MemoryError, "not enough memory for a tensor");
    else
        t->weak = v.tag != V_BOOL;
    return t;
}

static bool int_fits(DType dt, int64_t v)
{
    int bits = dtype_info[dt].bits;
    if (dtype_info[dt].kind == DK_UINT)
        return v >= 0 && (bits == 64 || v < (int64_t)1 << bits);
    return bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1));
}

Tensor *arg_beside(Interp *I, Value v, const Tensor *like, const char *what)
{
    DType dt = like->dtype;
    if (v.tag == V_TENSOR)
        return tensor_ref(as_tensor(v));
    if (v.tag == V_SYMINT && (dtype_is_inexact(dt) || dtype_is_int(dt)))
        return size_tensor(I, symint_size(v), dt);
    if (v.tag == V_SYMFLOAT && dtype_is_inexact(dt))
        return size_float(I, v, dt);
    if (v.tag == V_FLOAT && dtype_is_inexact(dt))
        return tensor_scalar_f(dt, v.f);
    if (v.tag == V_INT && dtype_is_inexact(dt))
        return tensor_scalar_f(dt, (double)v.i);
    if (v.tag == V_INT && dtype_is_int(dt)) {
        if (int_fits(dt, v.i))
            return tensor_scalar_i(dt, v.i);
        raise(I, EXC_OverflowError, "the integer %lld does not fit %s", (long long)v.i, dtype_info[dt].name);
        return NULL;
    }
    if (v.tag == V_COMPLEX)
        return complex_scalar(dtype_complex(dt), ((ComplexObj *)v.o)->re, ((ComplexObj *)v.o)->im);
    return arg_tensor(I, v, what);
}

/* ------------------------------------------------------------- data */

typedef struct Data { DType dtype; int rank; Dim shape[RANK_MAX]; bool has_tensor; } Data;

static DType data_join(DType a, DType b)
{
    if (a == DT_NONE)
        return b;
    if (kind_order(a) != kind_order(b))
        return kind_order(a) > kind_order(b) ? a : b;
    return dtype_info[a].bits >= dtype_info[b].bits ? a : b;
}

static const Value *data_items(Value v, int64_t *n)
{
    *n = v.tag == V_LIST ? as_list(v)->n : as_tuple(v)->n;
    return v.tag == V_LIST ? as_list(v)->at : as_tuple(v)->at;
}

static bool is_sequence(Value v) { return v.tag == V_LIST || v.tag == V_TUPLE; }

static bool ragged(Interp *I, int depth, int64_t want, int64_t got)
{
    raise(I, EXC_ShapeError, "tensor data is ragged: along axis %d one row has %lld elements and another has %lld",
          depth, (long long)want, (long long)got);
    return false;
}

/* Find shape and dtype; every branch must agree on the sizes. */
static bool data_scan(Interp *I, Value v, int depth, Data *d, bool first)
{
    if (depth >= RANK_MAX) {
        raise(I, EXC_ShapeError, "tensors have at most %d axes", RANK_MAX);
        return false;
    }
    if (is_sequence(v)) {
        int64_t n;
        const Value *at = data_items(v, &n);
        if (first)
            d->shape[depth] = n, d->rank = depth + 1;
        else if (depth >= d->rank || d->shape[depth] != n)
            return ragged(I, depth, depth < d->rank ? d->shape[depth] : 0, n);
        for (int64_t i = 0; i < n; i++)
            if (!data_scan(I, at[i], depth + 1, d, first && i == 0))
                return false;
        return true;
    }
    int extra = v.tag == V_TENSOR ? as_tensor(v)->rank : 0;
    if (first) {
        d->rank = depth + extra;
        for (int i = 0; i < extra; i++)
            d->shape[depth + i] = as_tensor(v)->shape[i];
    } else if (depth + extra != d->rank) {
        return ragged(I, depth, depth < d->rank ? d->shape[depth] : 1, 1);
    }
    switch (v.tag) {
    case V_TENSOR:
        d->has_tensor = true;
        d->dtype = data_join(d->dtype, as_tensor(v)->dtype);
        return true;
    case V_BOOL: d->dtype = data_join(d->dtype, DT_bool); return true;
    case V_INT: d->dtype = data_join(d->dtype, int_fits(DT_int32, v.i) ? DT_int32 : DT_int64); return true;
    case V_FLOAT: d->dtype = data_join(d->dtype, DT_f32); return true;
    case V_COMPLEX: d->dtype = data_join(d->dtype, DT_c64); return true;
    default:
        raise(I, EXC_TypeError, "a tensor holds numbers; %s is none", value_type_name(v));
        return false;
    }
}

static void data_put(Tensor *t, int64_t at, Value v)
{
    if (v.tag == V_COMPLEX)
        elem_set_c(t, at, ((ComplexObj *)v.o)->re, ((ComplexObj *)v.o)->im);
    else if (v.tag == V_FLOAT)
        elem_set_f(t, at, v.f);
    else if (dtype_is_int(t->dtype) || t->dtype == DT_bool)
        elem_set_i(t, at, v.i);
    else
        elem_set_f(t, at, (double)v.i);
}

/* Plain float and int rows, the usual case, without a call an element. */
static void data_fill(Tensor *t, int64_t *at, Value v)
{
    if (!is_sequence(v)) {
        data_put(t, (*at)++, v);
        return;
    }
    int64_t n;
    const Value *x = data_items(v, &n);
    if (t->dtype == DT_f32 && n && x[0].tag == V_FLOAT) {
        float *p = (float *)tensor_data(t) + *at;
        int64_t i = 0;
        for (; i < n && x[i].tag == V_FLOAT; i++)
            p[i] = (float)x[i].f;
        *at += i;
        x += i;
        n -= i;
    }
    for (int64_t i = 0; i < n; i++)
        data_fill(t, at, x[i]);
}

/* A list with tensors inside: stack what each element gives. */
static Tensor *data_stack(Interp *I, Value v, DType dt)
{
    if (!is_sequence(v))
        return tensor_from_data(I, v, dt);
    int64_t n;
    const Value *at = data_items(v, &n);
    Tensor **part = tsr_calloc(sizeof *part * (size_t)(n ? n : 1)), *out = NULL;
    int64_t done = 0;
    for (; done < n; done++) {
        Tensor *t = data_stack(I, at[done], dt);
        Dim shape[RANK_MAX] = {1};
        if (!t)
            goto out;
        memcpy(shape + 1, t->shape, sizeof(Dim) * t->rank);
        if (!(part[done] = do_reshape(I, t, t->rank + 1, shape)))
            goto out;
    }
    Attr a = attr_default();
    a.naxes = 1;
    a.axis[0] = (int8_t)-part[0]->rank;
    out = run_op(I, OP_concat, &a, part, (int)n);
out:
    for (int64_t i = 0; i < n; i++)
        tensor_unref(part[i]);
    tsr_free(part);
    return out;
}

Tensor *tensor_from_data(Interp *I, Value v, DType dtype)
{
    Value list = VNONE;
    Tensor *t = NULL;
    if (v.tag == V_TENSOR)
        return dtype == DT_NONE ? tensor_ref(as_tensor(v)) : do_convert(I, tensor_ref(as_tensor(v)), dtype);
    if (is_symint(v))
        return dtype == DT_NONE ? size_number(I, symint_size(v)) : do_convert(I, size_number(I, symint_size(v)), dtype);
    if (!is_sequence(v) && !arg_is_number(v)) {
        list = value_to_list(I, v);
        if (is_err(list))
            return NULL;
        v = list;
    }
    Data d = {.dtype = DT_NONE};
    if (!symint_settle_inside(I, &v))
        goto out;
    if (!data_scan(I, v, 0, &d, true))
        goto out;
    if (dtype == DT_NONE)
        dtype = d.dtype == DT_NONE ? DT_f32 : d.dtype;
    if (d.has_tensor) {
        t = data_stack(I, v, dtype);
        goto out;
    }
    int64_t at = 0;
    t = tensor_new(dtype, d.rank, d.shape);
    if (!t)
        raise(I, EXC_MemoryError, "not enough memory for a tensor of this size");
    else
        data_fill(t, &at, v);
out:
    value_unref(list);
    return t;
}

/* What an object with __tensor__ stands for; NULL without a pending exception: it has none. */
static Tensor *tensor_of_object(Interp *I, Value v)
{
    Value make = value_getattr_opt(I, v, sym("__tensor__")), r;
    Tensor *t = NULL;
    if (is_err(make))
        return NULL;
    r = value_call(I, make, NULL, 0);
    if (r.tag == V_TENSOR)
        t = tensor_ref(as_tensor(r));
    else if (!is_err(r))
        raise(I, EXC_TypeError, "__tensor__ gives a tensor, not %s", value_type_name(r));
    value_unref(make);
    value_unref(r);
    return t;
}

Tensor *arg_tensor(Interp *I, Value v, const char *what)
{
    if (v.tag == V_TENSOR)
        return tensor_ref(as_tensor(v));
    if (arg_is_number(v))
        return number_tensor(I, v);
    if (is_sequence(v))
        return tensor_from_data(I, v, DT_NONE);
    if (v.tag == V_INSTANCE) {
        Tensor *t = tensor_of_object(I, v);
        if (t || exc_pending(I))
            return t;
    }
    raise(I, EXC_TypeError, "%s takes a tensor, not %s", what, value_type_name(v));
    return NULL;
}

/* ------------------------------------------------------------- axes, shapes, dtypes */

bool arg_axis(Interp *I, Value v, int rank, int *axis)
{
    int64_t i;
    if (!value_as_int(I, v, &i))
        return false;
    int count = rank ? rank : 1;                /* 0 and -1 name the axis that one element has not */
    if (i < -count || i >= count) {
        raise(I, EXC_IndexError, "axis %lld is out of range for a tensor of %d axes", (long long)i, rank);
        return false;
    }
    *axis = rank ? (int)(i >= 0 ? i - rank : i) : 0;
    return true;
}

static bool add_axis(Interp *I, Value v, int rank, Attr *a)
{
    int x;
    if (!arg_axis(I, v, rank, &x))
        return false;
    for (int i = 0; i < a->naxes; i++)
        if (a->axis[i] == x) {
            raise(I, EXC_ValueError, "axis %d is given twice", x + rank);
            return false;
        }
    a->axis[a->naxes++] = (int8_t)x;
    return true;
}

bool arg_axes(Interp *I, Value v, int rank, Attr *a)
{
    a->naxes = 0;
    if (!is_given(v)) {
        for (int i = 0; i < rank; i++)
            a->axis[a->naxes++] = (int8_t)(i - rank);
        return true;
    }
    if (!is_sequence(v))
        return rank == 0 && v.tag == V_INT && (v.i == 0 || v.i == -1) ? true : add_axis(I, v, rank, a);
    int64_t n;
    const Value *at = data_items(v, &n);
    for (int64_t i = 0; i < n; i++)
        if (!add_axis(I, at[i], rank, a))
            return false;
    for (int i = 1; i < a->naxes; i++)          /* in order, as the rules expect */
        for (int k = i; k > 0 && a->axis[k - 1] > a->axis[k]; k--) {
            int8_t t = a->axis[k];
            a->axis[k] = a->axis[k - 1];
            a->axis[k - 1] = t;
        }
    return true;
}

bool arg_bool(Interp *I, Value v, bool *out)
{
    int t = is_given(v) ? value_truth(I, v) : 0;
    *out = t > 0;
    return t >= 0;
}

bool arg_int_list(Interp *I, Value v, int64_t *out, int max, int *n, const char *what)
{
    if (!is_sequence(v)) {
        *n = 1;
        return value_as_int(I, v, out);
    }
    int64_t k;
    const Value *at = data_items(v, &k);
    if (k > max) {
        raise(I, EXC_ValueError, "%s takes at most %d numbers, not %lld", what, max, (long long)k);
        return false;
    }
    for (int64_t i = 0; i < k; i++)
        if (!value_as_int(I, at[i], &out[i]))
            return false;
    *n = (int)k;
    return true;
}

bool arg_shape_star(Interp *I, Value star, Value shape, int *rank, Dim *out)
{
    if (is_given(shape))
        return arg_shape(I, shape, rank, out);
    TupleObj *t = as_tuple(star);
    if (t->n == 1 && is_sequence(t->at[0]))
        return arg_shape(I, t->at[0], rank, out);
    return arg_shape(I, star, rank, out);
}

bool class_dtype(Value v, DType *out)
{
    static const struct { const char *name; DType dt; } host[] = {{"int", DT_int32}, {"float", DT_f32}, {"bool", DT_bool}, {"complex", DT_c64}};
    const char *name = v.tag == V_CLASS ? ((ClassObj *)v.o)->name->text : "";

    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        if (!strcmp(name, host[i].name)) {
            *out = host[i].dt;
            return true;
        }
    return false;
}

bool arg_dtype_policy(Interp *I, Value v, DType *out, const Policy **policy)
{
    *policy = NULL;
    if (!is_given(v))
        return true;
    if (v.tag == V_DTYPE) {
        *out = as_dtype(v)->dtype;
        *policy = as_dtype(v)->policy;
        return true;
    }
    if (v.tag == V_STR && dtype_find(as_str(v)->s, out))
        return true;
    if (class_dtype(v, out))
        return true;
    if (v.tag == V_INSTANCE || v.tag == V_CLASS) {
        int found = policy_of_object(I, v, out, policy);
        if (found)
            return found > 0;
    }
    Value r = value_repr(I, v);
    if (!is_err(r))
        raise(I, EXC_TypeError, "%s is not a dtype; dtypes are f32, bf16, int32, \"f16\" ...", as_str(r)->s);
    value_unref(r);
    return false;
}

bool arg_dtype(Interp *I, Value v, DType *out)
{
    const Policy *policy;
    return arg_dtype_policy(I, v, out, &policy);
}
