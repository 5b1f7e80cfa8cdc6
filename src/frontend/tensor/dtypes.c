/*
 * dtypes.c - dtypes as values: f32, bf16 @accum(f32), int8.bits, f32.add(x, y).
 *
 * One immortal object for each plain dtype; a policy makes a new one.
 */
#include "frontend/eval/eval.h"
#include "ir/core/policy.h"
#include "frontend/tensor/bind.h"

#include "frontend/syntax/ast.h"

#include <math.h>
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

static PolicyPart *new_part(const char *text)
{
    PolicyPart *p = nativeobj_new(&part_type, sizeof *p);
    p->p = policy_none;
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
    if (!(k > 0 && isfinite(k)))
        return raise(I, EXC_ValueError, "loss_scale(%g): the scale is a number above 0", k);
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

static Value n_fp32_master(Interp *I, Value *a)
{
    PolicyPart *p = new_part("fp32_master");
    p->p.master = true;
    return vobj(p);
}

static bool check_accum(Interp *I, DType storage, DType accum)
{
    if (accum_fits(storage, accum))
        return true;
    raise(I, EXC_DTypeError, "%s @accum(%s): %s tensor accumulates in %s", dtype_info[storage].name, dtype_info[accum].name,
          dtype_is_int(storage) ? "an integer" : "a float", accum_choices(storage));
    return false;
}

static Value with_part(Interp *I, const DTypeObj *d, const PolicyPart *part)
{
    Policy p = policy_over(d->policy ? *d->policy : policy_none, &part->p);
    if (part->arg != DT_NONE && !check_accum(I, d->dtype, part->arg))
        return VERR;
    return dtype_value(d->dtype, policy_intern(p));
}

Value dtype_op_binary(Interp *I, int op, Value a, Value b)
{
    if (op == AOP_MATMUL && a.tag == V_DTYPE && b.tag == V_NATIVEOBJ && ((NativeInst *)b.o)->type == &part_type)
        return with_part(I, as_dtype(a), (PolicyPart *)b.o);
    if ((op == AOP_EQ || op == AOP_NE) && a.tag == V_DTYPE && (b.tag == V_INSTANCE || b.tag == V_CLASS)) {
        DType t = DT_NONE;
        const Policy *policy = NULL;
        int found = class_dtype(b, &t) ? 1 : policy_of_object(I, b, &t, &policy);
        return found < 0 ? VERR : vbool((found && t == as_dtype(a)->dtype && policy == as_dtype(a)->policy) == (op == AOP_EQ));
    }
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

void dtype_repr(Value v, StrBuf *out)
{
    element_print(as_dtype(v)->dtype, as_dtype(v)->policy, out);
}

/* The fields of a NumericalPolicy, with the defaults of the dtype for what is not said. */
static Value policy_field(const DTypeObj *d, const char *name)
{
    const Policy none = policy_none, *p = d->policy ? d->policy : &none;
    if (!strcmp(name, "storage"))
        return dtype_value(d->dtype, NULL);
    if (!strcmp(name, "accumulate") || !strcmp(name, "accum"))
        return dtype_value(p->accum != DT_NONE ? (DType)p->accum : dtype_accum(d->dtype), NULL);
    if (!strcmp(name, "compute"))
        return dtype_value(p->compute != DT_NONE ? (DType)p->compute : dtype_compute(d->dtype), NULL);
    if (!strcmp(name, "rounding"))
        return str_c(rounding_name(policy_rounding(p)));
    if (!strcmp(name, "saturate"))
        return vbool(p->saturate);
    if (!strcmp(name, "denorm_mode"))
        return str_c(p->denorm == DENORM_FLUSH ? "flush" : "preserve");
    if (!strcmp(name, "loss_scale"))
        return p->has_scale ? vfloat(p->scale) : VNONE;
    if (!strcmp(name, "fp32_master"))
        return vbool(p->master);
    return VERR;
}

static void say(DictObj *d, const char *name, Value v)
{
    dict_set_sym(d, sym(name), v);
    value_unref(v);
}

/* What a policy says, and nothing else, as plain values by the names of the fields: for files. */
static Value f_policy_fields(Interp *I, Value *a)
{
    const Policy none = policy_none, *p = as_dtype(a[0])->policy ? as_dtype(a[0])->policy : &none;
    Value fields = dict_new();
    DictObj *d = as_dict(fields);

    if (p->compute != DT_NONE)
        say(d, "compute", str_c(dtype_info[p->compute].name));
    if (p->accum != DT_NONE)
        say(d, "accumulate", str_c(dtype_info[p->accum].name));
    if (p->rounding != DT_NONE)
        say(d, "rounding", str_c(rounding_name(policy_rounding(p))));
    if (p->saturate)
        say(d, "saturate", vbool(true));
    if (p->denorm == DENORM_FLUSH)
        say(d, "denorm_mode", str_c("flush"));
    if (p->has_scale)
        say(d, "loss_scale", vfloat(p->scale));
    if (p->master)
        say(d, "fp32_master", vbool(true));
    return fields;
}

Value dtype_op_getattr(Interp *I, Value v, Sym name)
{
    const DTypeInfo *info = &dtype_info[as_dtype(v)->dtype];
    if (!strcmp(name->text, "bits"))
        return vint(info->bits);
    if (!strcmp(name->text, "name") || !strcmp(name->text, "__name__"))
        return str_c(info->name);
    if (!strcmp(name->text, "itemsize"))
        return vint((info->sbits + 7) / 8);
    if (!strcmp(name->text, "is_float"))
        return vbool(info->kind == DK_FLOAT);
    return policy_field(as_dtype(v), name->text);
}

/* ------------------------------------------------------------- policies as objects */

/* A dtype among the fields of v; *t stays when there is none or it is None. */
static bool dtype_of_field(Interp *I, Value v, const char *name, DType *t)
{
    Value x = value_getattr_opt(I, v, sym(name));
    bool ok = is_err(x) ? !exc_pending(I) : arg_dtype(I, x, t);
    value_unref(x);
    return ok;
}

bool arg_rounding(Interp *I, Value v, uint8_t *out)
{
    Rounding r;
    if (!is_given(v))
        return true;
    if (v.tag == V_STR && rounding_find(as_str(v)->s, &r)) {
        *out = (uint8_t)r;
        return true;
    }
    Value text = value_repr(I, v);
    raise(I, EXC_ValueError, "unknown rounding %s; the modes are nearest (rte), toward_zero, up, down, stochastic, away",
          is_err(text) ? "?" : as_str(text)->s);
    value_unref(text);
    return false;
}

bool arg_denorm(Interp *I, Value v, uint8_t *out)
{
    if (!is_given(v))
        return true;
    if (v.tag == V_STR && (!strcmp(as_str(v)->s, "flush") || !strcmp(as_str(v)->s, "preserve"))) {
        *out = as_str(v)->s[0] == 'f' ? DENORM_FLUSH : DENORM_PRESERVE;
        return true;
    }
    raise(I, EXC_ValueError, "unknown denorm_mode; the modes are flush, preserve");
    return false;
}

static bool other_fields(Interp *I, Value v, Policy *p)
{
    Value r = value_getattr_opt(I, v, sym("rounding")), s = value_getattr_opt(I, v, sym("saturate")),
          d = value_getattr_opt(I, v, sym("denorm_mode"));
    bool ok = !exc_pending(I) && (is_err(r) || arg_rounding(I, r, &p->rounding)) && (is_err(d) || arg_denorm(I, d, &p->denorm)) &&
              (!is_given(s) || arg_bool(I, s, &p->saturate));
    value_unref(r);
    value_unref(s);
    value_unref(d);
    return ok;
}

int policy_of_object(Interp *I, Value v, DType *dt, const Policy **policy)
{
    DType storage = DT_NONE, compute = DT_NONE, accum = DT_NONE;
    Policy p = policy_none;
    if (!dtype_of_field(I, v, "storage", &storage))
        return -1;
    if (storage == DT_NONE)
        return 0;
    if (!dtype_of_field(I, v, "compute", &compute) || !dtype_of_field(I, v, "accumulate", &accum) || !other_fields(I, v, &p) ||
        (accum != DT_NONE && !check_accum(I, storage, accum)))
        return -1;
    p.compute = (uint8_t)compute;
    p.accum = (uint8_t)accum;
    if (p.rounding == ROUND_NEAREST)
        p.rounding = DT_NONE;
    *dt = storage;
    *policy = policy_intern(p);
    return 1;
}

/* What a class of @precision_policy makes of a tensor: its __declare__ is called with it. */
static Value declared_by_object(Interp *I, Value v, Value type, bool *done)
{
    Value make = value_getattr_opt(I, type, sym("__declare__")), r = VERR;
    *done = !is_err(make) || exc_pending(I);
    if (!is_err(make))
        r = value_call(I, make, &v, 1);
    value_unref(make);
    return r;
}

Value tensor_as_declared(Interp *I, Value v, Value type)
{
    Tensor *t = as_tensor(v);
    DType dt = (DType)t->dtype;
    const Policy *policy = NULL;
    bool done = false;
    int found = 1;
    if (type.tag == V_INSTANCE || type.tag == V_CLASS) {
        Value r = declared_by_object(I, v, type, &done);
        if (done)
            return r;
        found = policy_of_object(I, type, &dt, &policy);
    } else if (type.tag == V_DTYPE) {
        dt = as_dtype(type)->dtype;
        policy = as_dtype(type)->policy;
    }
    if (found < 0)
        return VERR;
    if (!found || (dt == (DType)t->dtype && (t->policy == policy || !policy)))
        return value_ref(v);
    if (dt != (DType)t->dtype && !trace_of(I)->numerics)
        return raise(I, EXC_DTypeError, "Cannot implicitly convert from %s to %s; cast with .to(%s), or write with tessera.precision(\"mixed\"):",
                     dtype_info[t->dtype].name, dtype_info[dt].name, dtype_info[dt].name);
    bool parameter = v.o->flags & TENSOR_IS_PARAMETER;
    Value r = value_of(do_declare(I, tensor_ref(t), dt, policy));
    if (parameter && !is_err(r))
        r.o->flags |= TENSOR_IS_PARAMETER;
    return r;
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
    const DTypeObj *d = as_dtype(a[0]);
    return value_of(do_declare(I, arg_tensor(I, a[1], dtype_info[d->dtype].name), d->dtype, d->policy));
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
    {"_core", "policy_fields", f_policy_fields, "(policy: dtype) -> dict", "What a policy says, as plain values by the names of its fields."},
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
