/*
 * dtypes.c - dtypes as values: f32, bf16 @accum(f32), int8.bits, f32.add(x, y).
 *
 * One immortal object for each plain dtype; a policy makes a new one.
 */
#include "frontend/eval/eval.h"
#include "frontend/tensor/bind.h"

#include "frontend/syntax/ast.h"

#include <string.h>

Value dtype_value(DType t, const Policy *p)
{
    static DTypeObj plain[DT_COUNT];
    if (!p) {
        DTypeObj *d = &plain[t];
        if (!d->obj.kind)
            *d = (DTypeObj){.obj = {.refs = 1, .kind = V_DTYPE}, .dtype = t};
        d->obj.refs++;
        return vobj(d);
    }
    DTypeObj *d = obj_new(V_DTYPE, sizeof *d);
    d->dtype = t;
    d->policy = p;
    return vobj(d);
}

/* ------------------------------------------------------------- policies: bf16 @accum(f32) @saturate */

/* What accum(...), saturate, stochastic_round ... are: changes to a policy, applied by @. */
typedef struct PolicyPart { NativeInst inst; Policy p; const char *text; DType arg; double number; } PolicyPart;

static void part_repr(Interp *I, void *self, StrBuf *out)
{
    PolicyPart *p = self;
    sb_puts(out, p->text);
    if (p->arg != DT_NONE)
        sb_printf(out, "(%s)", dtype_info[p->arg].name);
    else if (p->p.has_scale)
        sb_printf(out, "(%g)", p->number);
}

static const NativeType part_type = {.name = "PolicyPart", .repr = part_repr};

static Policy no_policy(void)
{
    return (Policy){.storage = DT_NONE, .compute = DT_NONE, .accum = DT_NONE, .rounding = DT_NONE};
}

static PolicyPart *new_part(const char *text)
{
    PolicyPart *p = nativeobj_new(&part_type, sizeof *p);
    p->p = no_policy();
    p->text = text;
    p->arg = DT_NONE;
    return p;
}

static Value n_accum(Interp *I, Value *a)
{
    DType t = DT_NONE;
    if (!arg_dtype(I, a[0], &t))
        return VERR;
    PolicyPart *p = new_part("accum");
    p->p.accum = (uint8_t)t;
    p->arg = t;
    return vobj(p);
}

static Value n_loss_scale(Interp *I, Value *a)
{
    double k;
    if (!value_as_float(I, a[0], &k))
        return VERR;
    PolicyPart *p = new_part("loss_scale");
    p->p.has_scale = true;
    p->p.scale = p->number = k;
    return vobj(p);
}

static Value n_saturate(Interp *I, Value *a)
{
    PolicyPart *p = new_part("saturate");
    p->p.saturate = true;
    return vobj(p);
}

static Value n_stochastic_round(Interp *I, Value *a)
{
    PolicyPart *p = new_part("stochastic_round");
    p->p.rounding = ROUND_STOCHASTIC;
    return vobj(p);
}

static Value n_fp32_master(Interp *I, Value *a) { return vobj(new_part("fp32_master")); }

static Policy merge(Policy a, const Policy *b)
{
    if (b->storage != DT_NONE) a.storage = b->storage;
    if (b->compute != DT_NONE) a.compute = b->compute;
    if (b->accum != DT_NONE) a.accum = b->accum;
    if (b->rounding != DT_NONE) a.rounding = b->rounding;
    if (b->denorm) a.denorm = b->denorm;
    a.saturate |= b->saturate;
    if (b->has_scale)
        a.has_scale = true, a.scale = b->scale;
    return a;
}

static Value with_part(Interp *I, const DTypeObj *d, const PolicyPart *part)
{
    Policy p = d->policy ? *d->policy : no_policy();
    DType acc = (DType)part->p.accum;
    if (part->arg != DT_NONE && dtype_is_float(d->dtype) && acc != DT_f32 && acc != DT_bf16 && acc != DT_f16 && acc != DT_tf32 && acc != DT_f64)
        return raise(I, EXC_DTypeError, "%s @accum(%s): a float tensor accumulates in f32, bf16, f16 or tf32", dtype_info[d->dtype].name,
                     dtype_info[acc].name);
    p = merge(p, &part->p);
    return dtype_value(d->dtype, policy_intern(p));
}

Value dtype_op_binary(Interp *I, int op, Value a, Value b)
{
    if (op == AOP_MATMUL && a.tag == V_DTYPE && b.tag == V_NATIVEOBJ && ((NativeInst *)b.o)->type == &part_type)
        return with_part(I, as_dtype(a), (PolicyPart *)b.o);
    if ((op == AOP_EQ || op == AOP_NE) && a.tag == V_DTYPE) {
        DType t = DT_NONE;
        if (b.tag == V_STR && !dtype_find(as_str(b)->s, &t))
            t = DT_NONE;
        bool eq = b.tag == V_DTYPE ? as_dtype(a)->dtype == as_dtype(b)->dtype && as_dtype(a)->policy == as_dtype(b)->policy
                                   : t == as_dtype(a)->dtype;
        return vbool(eq == (op == AOP_EQ));
    }
    return VNOTIMPL;
}

/* ------------------------------------------------------------- attributes */

static void dtype_text(const DTypeObj *d, StrBuf *b)
{
    const Policy *p = d->policy;
    sb_puts(b, dtype_info[d->dtype].name);
    if (!p)
        return;
    if (p->accum != DT_NONE)
        sb_printf(b, " @accum(%s)", dtype_info[p->accum].name);
    if (p->rounding == ROUND_STOCHASTIC)
        sb_puts(b, " @stochastic_round");
    if (p->saturate)
        sb_puts(b, " @saturate");
    if (p->has_scale)
        sb_printf(b, " @loss_scale(%g)", p->scale);
}

void dtype_repr(Value v, StrBuf *out) { dtype_text(as_dtype(v), out); }

Value dtype_op_getattr(Interp *I, Value v, Sym name)
{
    const DTypeObj *d = as_dtype(v);
    const DTypeInfo *info = &dtype_info[d->dtype];
    const Policy *p = d->policy;
    if (!strcmp(name->text, "bits"))
        return vint(info->bits);
    if (!strcmp(name->text, "name") || !strcmp(name->text, "__name__"))
        return str_c(info->name);
    if (!strcmp(name->text, "itemsize"))
        return vint((info->sbits + 7) / 8);
    if (!strcmp(name->text, "accumulate"))
        return dtype_value(p && p->accum != DT_NONE ? (DType)p->accum : dtype_accum(d->dtype), NULL);
    if (!strcmp(name->text, "compute"))
        return dtype_value(p && p->compute != DT_NONE ? (DType)p->compute : dtype_compute(d->dtype), NULL);
    return VERR;
}

/* ------------------------------------------------------------- operations of one dtype: f32.add, i8.saturating_add */

static bool typed_pair(Interp *I, Value *a, Tensor **x, Tensor **y)
{
    const DTypeInfo *want = &dtype_info[as_dtype(a[0])->dtype];
    *x = arg_tensor(I, a[1], want->name);
    *y = *x ? arg_beside(I, a[2], *x, want->name) : NULL;
    if (*x && *y && ((*x)->dtype != as_dtype(a[0])->dtype || (*y)->dtype != as_dtype(a[0])->dtype)) {
        DType got = (DType)((*x)->dtype != as_dtype(a[0])->dtype ? (*x)->dtype : (*y)->dtype);
        raise(I, EXC_DTypeError, "an operation of %s takes tensors of %s, not %s", want->name, want->name, dtype_info[got].name);
    }
    if (*x && *y && !exc_pending(I))
        return true;
    tensor_unref(*x);
    tensor_unref(*y);
    return false;
}

static Value typed(Interp *I, Value *a, OpId op)
{
    Tensor *x, *y;
    if (!typed_pair(I, a, &x, &y))
        return VERR;
    Tensor *out = binary_op(I, op, x, y);
    tensor_unref(x);
    tensor_unref(y);
    return value_of(out);
}

static Value d_add(Interp *I, Value *a) { return typed(I, a, OP_add); }
static Value d_sub(Interp *I, Value *a) { return typed(I, a, OP_sub); }
static Value d_mul(Interp *I, Value *a) { return typed(I, a, OP_mul); }
static Value d_div(Interp *I, Value *a) { return typed(I, a, OP_div); }

/* Integers up to 32 bits compute in int64 and clamp to the range of the dtype. */
static Value saturating(Interp *I, Value *a, OpId op)
{
    Tensor *x, *y;
    DType dt = as_dtype(a[0])->dtype;
    if (!dtype_is_int(dt) || dtype_info[dt].bits > 32)
        return raise(I, EXC_DTypeError, "saturating operations are for integers up to 32 bits, not %s", dtype_info[dt].name);
    if (!typed_pair(I, a, &x, &y))
        return VERR;
    int bits = dtype_info[dt].bits;
    bool sign = dtype_info[dt].kind == DK_INT;
    int64_t hi = ((int64_t)1 << (bits - sign)) - 1, lo = sign ? -hi - 1 : 0;
    Tensor *s = chain2(I, op, NULL, do_convert(I, x, DT_int64), do_convert(I, y, DT_int64));
    s = chain2(I, OP_minimum, NULL, s, tensor_scalar_i(DT_int64, hi));
    s = chain2(I, OP_maximum, NULL, s, tensor_scalar_i(DT_int64, lo));
    return value_of(do_convert(I, s, dt));
}

static Value d_saturating_add(Interp *I, Value *a) { return saturating(I, a, OP_add); }
static Value d_saturating_sub(Interp *I, Value *a) { return saturating(I, a, OP_sub); }
static Value d_saturating_mul(Interp *I, Value *a) { return saturating(I, a, OP_mul); }

/* f32(x): the tensor or number x converted. */
static Value d_call(Interp *I, Value *a)
{
    Tensor *x = arg_tensor(I, a[1], dtype_info[as_dtype(a[0])->dtype].name);
    return value_of(do_convert(I, x, as_dtype(a[0])->dtype));
}

/* ------------------------------------------------------------- names */

#define TYPED "(self, x: Tensor, y: Tensor | float) -> Tensor"
#define DTYPE(n, ...) static Value v_##n(Interp *I, Value *a) { return dtype_value(DT_##n, NULL); }
#include "ir/core/dtype.def"

#define ALIAS(name, dt) {"", name, v_##dt, "dtype", "The dtype " #dt "."}
const NativeDef tensor_dtype_natives[] = {
    ALIAS("int4", int4), ALIAS("int8", int8), ALIAS("int16", int16), ALIAS("int32", int32), ALIAS("int64", int64),
    ALIAS("uint4", uint4), ALIAS("uint8", uint8), ALIAS("uint16", uint16), ALIAS("uint32", uint32), ALIAS("uint64", uint64),
    ALIAS("fp4", fp4), ALIAS("fp6", fp6), ALIAS("fp8_e4m3", fp8_e4m3), ALIAS("fp8_e5m2", fp8_e5m2), ALIAS("f16", f16), ALIAS("bf16", bf16),
    ALIAS("tf32", tf32), ALIAS("f32", f32), ALIAS("f64", f64), ALIAS("c64", c64), ALIAS("c128", c128),
    ALIAS("i4", int4), ALIAS("Int4", int4), ALIAS("i8", int8), ALIAS("Int8", int8), ALIAS("i16", int16), ALIAS("Int16", int16),
    ALIAS("i32", int32), ALIAS("Int32", int32), ALIAS("i64", int64), ALIAS("Int64", int64), ALIAS("u4", uint4), ALIAS("u8", uint8),
    ALIAS("UInt8", uint8), ALIAS("u16", uint16), ALIAS("UInt16", uint16), ALIAS("u32", uint32), ALIAS("UInt32", uint32),
    ALIAS("u64", uint64), ALIAS("UInt64", uint64), ALIAS("bool_", bool),
    ALIAS("fp4_e2m1", fp4), ALIAS("f4", fp4), ALIAS("Float4", fp4), ALIAS("fp6_e3m2", fp6), ALIAS("f6", fp6), ALIAS("Float6", fp6),
    ALIAS("fp8", fp8_e4m3), ALIAS("f8", fp8_e4m3), ALIAS("Float8", fp8_e4m3), ALIAS("fp16", f16), ALIAS("float16", f16),
    ALIAS("Float16", f16), ALIAS("half", f16), ALIAS("bfloat16", bf16), ALIAS("BFloat16", bf16), ALIAS("TFloat32", tf32),
    ALIAS("fp32", f32), ALIAS("float32", f32), ALIAS("Float32", f32), ALIAS("fp64", f64), ALIAS("float64", f64), ALIAS("Float64", f64),
    ALIAS("double", f64), ALIAS("complex64", c64), ALIAS("Complex64", c64), ALIAS("complex128", c128), ALIAS("Complex128", c128),
    {"", "accum", n_accum, "(dtype: dtype | str) -> PolicyPart", "A policy: bf16 @accum(f32) sums and multiplies in f32."},
    {"", "saturate", n_saturate, "PolicyPart", "A policy: fp8_e4m3 @saturate clamps to the largest value instead of overflowing."},
    {"", "stochastic_round", n_stochastic_round, "PolicyPart", "A policy: round up or down with the odds of the distances."},
    {"", "loss_scale", n_loss_scale, "(k: float) -> PolicyPart", "A policy: gradients through the tensor are carried times k."},
    {"", "fp32_master", n_fp32_master, "PolicyPart", "A policy: optimisers keep an f32 copy of the parameter."},
    {"dtype", "add", d_add, TYPED, "x + y, both of this dtype; DTypeError otherwise."},
    {"dtype", "sub", d_sub, TYPED, "x - y, both of this dtype."},
    {"dtype", "mul", d_mul, TYPED, "x * y, both of this dtype."},
    {"dtype", "div", d_div, TYPED, "x / y, both of this dtype."},
    {"dtype", "saturating_add", d_saturating_add, TYPED, "x + y clamped to the range of the dtype."},
    {"dtype", "saturating_sub", d_saturating_sub, TYPED, "x - y clamped to the range of the dtype."},
    {"dtype", "saturating_mul", d_saturating_mul, TYPED, "x * y clamped to the range of the dtype."},
    {"dtype", "__call__", d_call, "(self, x: Tensor | float) -> Tensor", "x converted to this dtype."},
    {0},
};
