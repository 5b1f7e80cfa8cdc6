/*
 * Typing of ops: the driver, the dtype rules, and helpers for the shape rules.
 *
 * Dtypes follow one lattice (dtype_promote): ints widen, ints join the float
 * operand, two different floats do not mix.  Weak operands come from Python
 * scalars and adopt the other side's dtype as long as its kind can hold them.
 * Results keep the policy of their operands while the storage dtype is the same.
 */
#include "ir/core/infer.h"

#include "ir/core/dim_float.h"

#include <stdarg.h>
#include <string.h>

bool infer_fail(Infer *f, int code, const char *fmt, ...)
{
    va_list ap;

    f->code = code;
    va_start(ap, fmt);
    sb_vprintf(f->err, fmt, ap);
    va_end(ap);
    return false;
}

/* A few rotating buffers: one message names at most this many shapes. */
static StrBuf *text_slot(void)
{
    static _Thread_local StrBuf slot[8];
    static _Thread_local int next;

    sb_clear(&slot[next & 7]);
    return &slot[next++ & 7];
}

const char *dims_text(const Dim *d, int n)
{
    StrBuf *b = text_slot();

    sb_putc(b, '[');
    for (int i = 0; i < n; i++) {
        sb_puts(b, i ? ", " : "");
        dim_print_at_hand(d[i], b);
    }
    sb_putc(b, ']');
    return sb_str(b);
}

const char *shape_text(const TType *t)
{
    return dims_text(t->shape, t->rank);
}

static const char *const infix[OP_COUNT] = {
    [OP_add] = "+", [OP_sub] = "-", [OP_mul] = "*", [OP_div] = "/", [OP_floordiv] = "//", [OP_mod] = "%", [OP_pow] = "**",
    [OP_bitand] = "&", [OP_bitor] = "|", [OP_bitxor] = "^", [OP_shl] = "<<", [OP_shr] = ">>", [OP_eq] = "==", [OP_ne] = "!=",
    [OP_lt] = "<", [OP_le] = "<=", [OP_gt] = ">", [OP_ge] = ">=", [OP_matmul] = "@",
};

const char *call_text(Infer *f)
{
    StrBuf *b = text_slot();

    if (f->nin == 2 && infix[f->op]) {
        sb_printf(b, "%s %s %s", shape_text(&f->in[0]), infix[f->op], shape_text(&f->in[1]));
        return sb_str(b);
    }
    sb_printf(b, "%s(", op_info[f->op].name);
    for (int i = 0; i < f->nin && i < 4; i++)
        sb_printf(b, "%s%s", i ? ", " : "", shape_text(&f->in[i]));
    sb_puts(b, f->nin > 4 ? ", ...)" : ")");
    return sb_str(b);
}

bool dim_below(Dim d, int64_t lo)
{
    return d == DIM_BAD || (dim_is_const(d) ? d < lo : dim_ask_ge(d, lo) == DIM_REFUTED);
}

bool shape_join(const TType *a, const TType *b, TType *out)
{
    TType s = *out;

    s.rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 1; i <= s.rank; i++) {         /* i-th axis from the end */
        Dim x = i <= a->rank ? a->shape[a->rank - i] : 1;
        Dim y = i <= b->rank ? b->shape[b->rank - i] : 1;
        if (!dim_join(x, y, &s.shape[s.rank - i]))
            return false;
    }
    *out = s;
    return true;
}

int infer_axis(Infer *f, int axis, int rank)
{
    int i = axis < 0 ? axis + rank : axis;

    if (i >= 0 && i < rank)
        return i;
    infer_fail(f, INFER_SHAPE, "%s: axis %d is out of range for %s with %d axes", op_info[f->op].name, axis,
               f->nin ? shape_text(&f->in[0]) : dims_text(f->a->d[0], f->a->nd[0]), rank);
    return -1;
}

/* -- dtypes ------------------------------------------------------------------------------------------------ */

/* bool < int < float < complex */
static int category(uint8_t t)
{
    int k = dtype_info[t].kind;

    return k == DK_BOOL ? 0 : k <= DK_UINT ? 1 : k == DK_FLOAT ? 2 : 3;
}

/* The dtype of a strong tensor s meeting a weak scalar w. */
static uint8_t join_weak(uint8_t s, uint8_t w)
{
    int cs = category(s), cw = category(w);

    if (cw <= cs)
        return s;
    if (cw == 1)
        return w;
    if (cw == 2)
        return DT_f32;
    return cs == 2 ? dtype_complex(s) : DT_c64;
}

bool op_join_dtypes(const TType *a, const TType *b, uint8_t *dt, uint8_t *weak)
{
    DType d;

    *weak = a->weak && b->weak;
    if (a->weak != b->weak) {
        *dt = a->weak ? join_weak(b->dtype, a->dtype) : join_weak(a->dtype, b->dtype);
        return true;
    }
    if (dtype_promote(a->dtype, b->dtype, &d)) {
        *dt = d;
        return true;
    }
    *dt = dtype_info[a->dtype].bits >= dtype_info[b->dtype].bits ? a->dtype : b->dtype;
    return *weak;                               /* two scalars: the wider */
}

/* Programs do not mix different policies (ir/graph/numerics.c); rules of derivatives may, and need none. */
static void join_policy(const TType *a, const TType *b, TType *out)
{
    const Policy *p = a->dtype == out->dtype ? a->policy : NULL, *q = b->dtype == out->dtype ? b->policy : NULL;

    out->policy = p && q && p != q ? NULL : p ? p : q;
}

/* Promote operands [lo, nin) into out[0]. */
static bool promote_from(Infer *f, int lo)
{
    TType *o = &f->out[0];

    if (lo >= f->nin)
        return true;
    o->dtype = f->in[lo].dtype;
    o->weak = f->in[lo].weak;
    o->policy = f->in[lo].policy;
    for (int i = lo + 1; i < f->nin; i++) {
        TType acc = *o;
        if (!op_join_dtypes(&acc, &f->in[i], &o->dtype, &o->weak))
            return infer_fail(f, INFER_DTYPE, "%s: %s and %s do not mix; cast one side, for example with .to(%s)",
                              infix[f->op] ? infix[f->op] : op_info[f->op].name, dtype_info[acc.dtype].name,
                              dtype_info[f->in[i].dtype].name, dtype_info[o->dtype].name);
        join_policy(&acc, &f->in[i], o);
    }
    return true;
}

static bool to_float(TType *t)
{
    if (!dtype_is_inexact(t->dtype)) {
        t->dtype = DT_f32;
        t->policy = NULL;
    }
    return true;
}

static bool dtype_SAME(Infer *f)
{
    f->out[0].dtype = f->in[0].dtype;
    f->out[0].weak = f->in[0].weak;
    f->out[0].policy = f->in[0].policy;
    return true;
}

static bool dtype_PROMOTE(Infer *f)
{
    if (!promote_from(f, 0))
        return false;
    if (f->a->dtype != DT_NONE) {
        f->out[0].dtype = f->a->dtype;
        f->out[0].policy = NULL;
    }
    return true;
}

static bool linalg_dtype(Infer *f, uint8_t dt)
{
    if (op_info[f->op].family != FAM_LINALG || dtype_info[dt].bits >= 32 || !dtype_is_inexact(dt))
        return true;
    return infer_fail(f, INFER_DTYPE, "%s takes f32 or f64, not %s: cast with .to(f32)", op_info[f->op].name, dtype_info[dt].name);
}

static bool dtype_FLOAT(Infer *f)
{
    if (!promote_from(f, 0) || !to_float(&f->out[0]) || !linalg_dtype(f, f->out[0].dtype))
        return false;
    for (int i = 1; i < f->nout; i++)
        f->out[i].dtype = f->out[0].dtype;
    if (f->op == OP_eigh && f->nout == 2)
        f->out[0].dtype = dtype_real(f->out[0].dtype);
    if (f->op == OP_svd && f->nout == 3)
        f->out[1].dtype = dtype_real(f->out[0].dtype);
    return true;
}

static bool set_dtype(Infer *f, uint8_t dt)
{
    for (int i = 0; i < f->nout; i++) {
        f->out[i].dtype = dt;
        f->out[i].weak = 0;
        f->out[i].policy = NULL;
    }
    return true;
}

static bool dtype_BOOL(Infer *f)
{
    return (f->nin < 2 || promote_from(f, 0)) && set_dtype(f, DT_bool);
}

static bool dtype_ATTR(Infer *f)
{
    if (f->a->dtype >= DT_COUNT)
        return infer_fail(f, INFER_DTYPE, "%s needs a dtype", op_info[f->op].name);
    set_dtype(f, f->a->dtype);
    f->out[0].policy = f->op == OP_convert || f->op == OP_dither ? f->a->policy : NULL;
    return true;
}

static bool dtype_INT32(Infer *f) { return set_dtype(f, DT_int32); }
static bool dtype_INT64(Infer *f) { return set_dtype(f, DT_int64); }
static bool dtype_F64(Infer *f) { return set_dtype(f, DT_f64); }
static bool dtype_UINT32(Infer *f) { return set_dtype(f, DT_uint32); }
static bool dtype_NONE(Infer *f) { return f->nout == 0; }
static bool dtype_REGION(Infer *f) { return f->op < OP_COUNT; }         /* the region rule has set them */
static bool dtype_CONSTANT(Infer *f) { return f->op < OP_COUNT; }

static bool dtype_REAL(Infer *f)
{
    dtype_SAME(f);
    f->out[0].dtype = dtype_real(f->in[0].dtype);
    return true;
}

static bool dtype_COMPLEX(Infer *f)
{
    if (!promote_from(f, 0) || !to_float(&f->out[0]))
        return false;
    f->out[0].dtype = dtype_complex(f->out[0].dtype);
    f->out[0].policy = NULL;
    return true;
}

static bool dtype_ACCUM(Infer *f)
{
    dtype_SAME(f);
    f->out[0].weak = 0;
    if (!dtype_is_inexact(f->in[0].dtype))
        f->out[0].dtype = dtype_accum(f->in[0].dtype);
    if (f->a->dtype != DT_NONE)
        f->out[0].dtype = f->a->dtype;
    if (f->out[0].dtype != f->in[0].dtype)
        f->out[0].policy = NULL;
    return true;
}

static bool dtype_WHERE(Infer *f)
{
    if (f->in[0].dtype != DT_bool)
        return infer_fail(f, INFER_DTYPE, "where: the condition must be bool, not %s", dtype_info[f->in[0].dtype].name);
    return promote_from(f, 1);
}

static bool dtype_LU(Infer *f)
{
    if (!dtype_FLOAT(f))
        return false;
    f->out[1].dtype = DT_int32;
    f->out[1].policy = NULL;
    return true;
}

static bool dtype_FFT(Infer *f)
{
    dtype_SAME(f);
    to_float(&f->out[0]);
    f->out[0].policy = NULL;
    f->out[0].dtype = dtype_complex(f->out[0].dtype);
    if (f->a->kind == 3)
        f->out[0].dtype = dtype_real(f->out[0].dtype);
    if (f->a->kind == 2 && dtype_is_complex(f->in[0].dtype))
        return infer_fail(f, INFER_DTYPE, "rfft takes real input, not %s; use fft", dtype_info[f->in[0].dtype].name);
    return true;
}

/* What an op cannot take at all, in one place: the operand of the highest kind decides. */
static bool check_domain(Infer *f)
{
    const char *name = infix[f->op] ? infix[f->op] : op_info[f->op].name;
    uint8_t dt = DT_bool;

    for (int i = f->op == OP_where; i < f->nin && i < 3; i++)
        dt = dtype_info[f->in[i].dtype].kind > dtype_info[dt].kind ? f->in[i].dtype : dt;
    switch (f->op) {
    case OP_bitand: case OP_bitor: case OP_bitxor: case OP_bitnot: case OP_shl: case OP_shr:
        if (dtype_is_inexact(dt))
            return infer_fail(f, INFER_DTYPE, "%s takes integers or bools, not %s", name, dtype_info[dt].name);
        return true;
    case OP_lt: case OP_le: case OP_gt: case OP_ge: case OP_minimum: case OP_maximum: case OP_max: case OP_min: case OP_floordiv:
    case OP_mod: case OP_floor: case OP_ceil: case OP_round: case OP_trunc: case OP_argmax: case OP_argmin: case OP_cummax:
    case OP_cummin: case OP_sort: case OP_argsort: case OP_erf: case OP_erfc: case OP_erfinv: case OP_lgamma: case OP_digamma:
    case OP_atan2: case OP_searchsorted:
        if (dtype_is_complex(dt))
            return infer_fail(f, INFER_DTYPE, "%s is not defined for complex numbers (%s)", name, dtype_info[dt].name);
        return true;
    default:
        return true;
    }
}

/* -- attributes: what no op accepts, so that rules and kernels need not look again ---------------------------------------- */

static bool bad_attr(Infer *f, const char *what)
{
    return infer_fail(f, INFER_SHAPE, "%s: bad attribute: %s", op_info[f->op].name, what);
}

static int kinds_of(OpId op)
{
    switch (op) {
    case OP_triangular_solve: return 8;
    case OP_random: return 5;
    case OP_fft: return 4;
    case OP_call: return 3;
    case OP_while: case OP_custom_lin: case OP_pad: return 2;
    default: return 256;
    }
}

/* Ops along exactly one axis. */
static bool one_axis(OpId op)
{
    return op_info[op].family == FAM_SCAN || op == OP_argmax || op == OP_argmin || op == OP_concat || op == OP_iota;
}

static bool all_positive(const Dim *d, int n)
{
    for (int i = 0; i < n; i++)
        if (dim_below(d[i], 1))
            return false;
    return true;
}

/* Sizes, strides and dilations of windows and convolutions, all of n axes. */
static bool check_windows(Infer *f)
{
    const Attr *a = f->a;
    int n = a->n;

    if (f->op == OP_conv)
        return (n >= 0 && n <= 8 && a->nd[0] == n && a->nd[1] == n && a->nd[2] == n && (!a->nd[3] || a->nd[3] == 2 * n) &&
                all_positive(a->d[0], n) && all_positive(a->d[3], a->nd[3])) || bad_attr(f, "strides, pads or dilations");
    return (n >= 0 && n <= 8 && a->nd[0] == n && a->nd[1] == n && (!a->nd[2] || a->nd[2] == n) && all_positive(a->d[0], n) &&
            all_positive(a->d[1], n) && all_positive(a->d[2], a->nd[2]) && (f->op == OP_window || a->nd[3] == n)) ||
           bad_attr(f, "sizes, strides or dilations");
}

static bool check_axes(Infer *f)
{
    const Attr *a = f->a;

    if (a->naxes > 16 || (one_axis(f->op) && a->naxes != 1))
        return bad_attr(f, "axes");
    for (int i = 0; i < a->naxes; i++)
        for (int k = 0; k < i; k++)
            if (a->axis[i] == a->axis[k])
                return bad_attr(f, "an axis is named twice");
    return true;
}

static bool check_attr(Infer *f)
{
    const Attr *a = f->a;

    if ((a->dtype >= DT_COUNT && a->dtype != DT_NONE) || (a->accum >= DT_COUNT && a->accum != DT_NONE))
        return bad_attr(f, "dtype");
    if ((a->compute >= DT_COUNT && a->compute != DT_NONE) || a->rounding > ROUND_AWAY || a->kind >= kinds_of(f->op) || a->n < 0 || a->m < 0)
        return bad_attr(f, "rounding, kind, n or m");
    if (f->op == OP_convert && a->rounding == ROUND_STOCHASTIC)
        return bad_attr(f, "stochastic rounding is dither's, which has a key");
    if (f->op == OP_conv || f->op == OP_window || f->op == OP_unwindow)
        return check_windows(f);
    if (f->op == OP_slice || f->op == OP_pad)
        return (a->nd[0] == a->nd[1] && (!a->nd[2] || a->nd[2] == a->nd[0])) || bad_attr(f, "d0, d1 and d2 have different lengths");
    if (f->op == OP_dynamic_slice)
        return a->nd[0] == a->n || bad_attr(f, "sizes");
    if (f->op == OP_dim_value)
        return a->nd[0] == 1 || bad_attr(f, "one size");
    if (f->op == OP_dim_float) {
        double ignored;
        return (a->name && dim_float_eval(a->name->text, NULL, a->nd[0], &ignored)) || bad_attr(f, "a formula of the sizes");
    }
    return check_axes(f);
}

/* -- the driver ---------------------------------------------------------------------------------------------- */

#define OP(name, nin, nout, fam, shape, ...) bool shape_##shape(Infer *f);
#include "ir/core/ops.def"

typedef struct Rules { InferRule shape, dtype; } Rules;
static const Rules rules_of[OP_COUNT] = {
#define OP(name, nin, nout, fam, shape, dtype, ...) [OP_##name] = {shape_##shape, dtype_##dtype},
#include "ir/core/ops.def"
};

bool op_infer(OpId op, const Attr *a, const TType *in, int nin, TType *out, int *nout, StrBuf *err, int *code)
{
    const OpInfo *o = &op_info[op];
    Infer f = {.op = op, .a = a, .in = in, .nin = nin, .out = out, .nout = o->nout, .err = err, .code = INFER_SHAPE};
    bool ok;

    if (o->nin >= 0 && nin != o->nin)
        ok = infer_fail(&f, INFER_SHAPE, "%s takes %d operands, not %d", o->name, o->nin, nin);
    else if (o->nin < 0 && nin == 0 && o->family != FAM_CONTROL && op != OP_print)
        ok = infer_fail(&f, INFER_SHAPE, "%s needs operands", o->name);
    else {
        for (int i = 0; i < o->nout; i++)
            memset(&out[i], 0, offsetof(TType, shape));
        ok = check_attr(&f) && rules_of[op].shape(&f) && check_domain(&f) && rules_of[op].dtype(&f);
    }
    *nout = f.nout;
    *code = ok ? 0 : f.code;
    return ok;
}
