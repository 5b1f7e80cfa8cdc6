/*
 * scopes.c - what surrounds tensor operations: prints while staging, the
 * numerics scope, and the trace's callbacks into the language.
 *
 * A staged print is an op whose template holds the finished text with a mark
 * where each tensor goes; it runs, in order, whenever the graph does.
 */
#include "base/hash.h"
#include "frontend/eval/eval.h"
#include "frontend/kernel/launch.h"
#include "frontend/tensor/bind.h"
#include "frontend/tensor/memory.h"
#include "frontend/tensor/custom.h"
#include "frontend/tensor/watch.h"
#include "ir/graph/print_mark.h"
#include "runtime/storage.h"

#include <string.h>

static bool poll_interp(void *I) { return interp_poll(I); }

/* ------------------------------------------------------------- printing */

static bool staging(const Trace *T)
{
    for (const Level *l = T->top; l; l = l->outer)
        if (l->kind == TRACE_STAGE && !l->linear)
            return true;
    return false;
}

/* A tracer that outlived its transformation has no text but <traced>. */
static bool records(Value v) { return value_is_staged(v) && !as_tensor(v)->tracer->level->closed; }

static bool print_piece(Interp *I, Value v, StrBuf *text, Tensor **in, int *n)
{
    if (records(v) && *n < RANK_MAX) {
        sb_putc(text, PRINT_MARK);
        in[(*n)++] = as_tensor(v);
        return true;
    }
    Value s = value_str(I, v);
    if (is_err(s))
        return false;
    sb_write(text, as_str(s)->s, as_str(s)->len);
    value_unref(s);
    return true;
}

int tensor_staged_print(Interp *I, const Value *args, int nargs, const char *sep, const char *end)
{
    Trace *T = trace_of(I);
    Tensor *in[RANK_MAX], *out[1];
    int n = 0, nout = 0;
    StrBuf text = {0};
    bool hidden = false, ok = true;
    for (int i = 0; i < nargs; i++)
        hidden |= records(args[i]);
    if (!hidden && !staging(T))
        return 0;
    for (int i = 0; ok && i < nargs; i++) {
        sb_puts(&text, i ? sep : "");
        ok = print_piece(I, args[i], &text, in, &n);
    }
    sb_puts(&text, end);
    if (ok) {
        Attr a = attr_default();
        a.name = sym_n(sb_str(&text), text.n);
        T->span = interp_span(I);
        if (!op_apply(T, OP_print, &a, in, n, out, &nout)) {
            raise_op_error(I);
            ok = false;
        }
    }
    sb_done(&text);
    return ok ? 1 : -1;
}

static bool host_print(void *host, const Attr *a, Tensor *const *in, int nin)
{
    Interp *I = host;
    StrBuf text = {0};
    int at = 0;
    for (uint32_t i = 0; i < a->name->len; i++) {
        if (a->name->text[i] != PRINT_MARK || at >= nin) {
            sb_putc(&text, a->name->text[i]);
            continue;
        }
        Value v = tensor_value(tensor_ref(in[at++]));
        tensor_op_repr(I, v, &text);
        value_unref(v);
    }
    interp_write(I, sb_str(&text), text.n);
    sb_done(&text);
    return true;
}

static bool add_check(Interp *I, Value test, Attr *a)
{
    Trace *T = trace_of(I);
    Tensor *t = do_convert(I, tensor_ref(as_tensor(test)), DT_bool), *out[1];
    int nout = 0;
    bool ok = t != NULL;
    if (ok && !is_err(I->active)) {                     /* true where this code does not count */
        Tensor *idle = op_unary(T, OP_lnot, as_tensor(I->active)), *both = idle ? op_binary(T, OP_bitor, t, idle) : NULL;
        tensor_unref(idle);
        tensor_unref(t);
        t = both;
        ok = t || (raise_op_error(I), false);
    }
    if (ok) {
        a->kind = OPERR_ASSERT;
        T->span = interp_span(I);
        ok = op_apply(T, OP_check, a, &t, 1, out, &nout);
        if (!ok)
            raise_op_error(I);
    }
    tensor_unref(t);
    return ok;
}

bool tensor_staged_raise(Interp *I, Value ok, Value exc)
{
    Attr a = attr_default();
    Value text = value_str(I, exc);
    if (is_err(text))
        return false;
    a.name = sym_n(as_str(text)->s, as_str(text)->len);
    a.host = interp_keep(I, exc);
    value_unref(text);
    return add_check(I, ok, &a);
}

/* A new exception like the one that the function raised while it was staged: each has its own traceback. */
static void host_raise(void *host, void *object)
{
    Interp *I = host;
    InstanceObj *e = object;
    Value args = e->attrs ? dict_get_sym(e->attrs, sym("args")) : VERR;
    Value fresh = args.tag == V_TUPLE ? value_call(I, vobj(e->cls), as_tuple(args)->at, (int)as_tuple(args)->n) : VERR;
    if (is_err(fresh)) {
        exc_clear(I);
        fresh = value_ref(vobj(e));
    }
    raise_value(I, fresh);
    value_unref(fresh);
}

bool tensor_staged_assert(Interp *I, Value test, Value message)
{
    Attr a = attr_default();
    Value text = is_given(message) ? value_str(I, message) : str_c("");
    if (is_err(text))
        return false;
    a.name = sym_n(as_str(text)->s, as_str(text)->len);
    value_unref(text);
    return add_check(I, test, &a);
}

/* ------------------------------------------------------------- numerics */

static bool dtype_field(Interp *I, Value v, uint8_t *out)
{
    DType t = (DType)*out;
    bool ok = arg_dtype(I, v, &t);
    *out = (uint8_t)t;
    return ok;
}

/* The scope in force, changed by what is given: storage, compute, accumulate, rounding, saturate, denorm_mode, compensated, fast.
 * Gives the former scope, for numerics_leave. */
static Value f_enter(Interp *I, Value *a)
{
    Trace *T = trace_of(I);
    Policy p = T->numerics ? *T->numerics : policy_none;
    if (!dtype_field(I, a[0], &p.storage) || !dtype_field(I, a[1], &p.compute) || !dtype_field(I, a[2], &p.accum) ||
        !arg_rounding(I, a[3], &p.rounding) || !arg_denorm(I, a[5], &p.denorm) || (is_given(a[4]) && !arg_bool(I, a[4], &p.saturate)) ||
        (is_given(a[6]) && !arg_bool(I, a[6], &p.compensated)) || (is_given(a[7]) && !arg_bool(I, a[7], &p.fast)))
        return VERR;
    Value former = vint((int64_t)(intptr_t)T->numerics);
    T->numerics = policy_intern(p);
    return former;
}

/* Products of floats go by way of integers: those of the left operand and of the right one. Gives the former scope. */
static Value f_quantize(Interp *I, Value *a)            /* activations, weights, accumulate, training */
{
    Trace *T = trace_of(I);
    Policy p = T->numerics ? *T->numerics : policy_none;
    if (!dtype_field(I, a[0], &p.quant[0]) || !dtype_field(I, a[1], &p.quant[1]) || !dtype_field(I, a[2], &p.accum) ||
        !arg_bool(I, a[3], &p.training))
        return VERR;
    for (int i = 0; i < 2; i++)
        if (p.quant[i] != DT_int8 && p.quant[i] != DT_int4 && p.quant[i] != DT_int16)
            return raise(I, EXC_DTypeError, "quantised operands are int4, int8 or int16, not %s",
                         p.quant[i] == DT_NONE ? "None" : dtype_info[p.quant[i]].name);
    Value former = vint((int64_t)(intptr_t)T->numerics);
    T->numerics = policy_intern(p);
    return former;
}

/* Are products quantised, and as in training? A Module in evaluation inside of it computes with the integers. */
static Value f_quantizes(Interp *I, Value *a)
{
    const Policy *p = trace_of(I)->numerics;
    return vbool(p && p->quant[0] != DT_NONE && p->training);
}

/* The scope in force, with quantised products for use. Gives the former scope. */
static Value f_quantize_use(Interp *I, Value *a)
{
    Trace *T = trace_of(I);
    Policy p = T->numerics ? *T->numerics : policy_none;
    Value former = vint((int64_t)(intptr_t)T->numerics);
    p.training = false;
    T->numerics = policy_intern(p);
    return former;
}

static Value f_leave(Interp *I, Value *a)
{
    trace_of(I)->numerics = (const Policy *)(intptr_t)a[0].i;
    return VNONE;
}

/* Are these settings meaningful? Raises ValueError when not. */
static Value f_check(Interp *I, Value *a)               /* rounding, denorm_mode */
{
    uint8_t r = 0, d = 0;
    return arg_rounding(I, a[0], &r) && arg_denorm(I, a[1], &d) ? VNONE : VERR;
}

static Value f_dtype(Interp *I, Value *a)
{
    DType t = DT_NONE;
    return arg_dtype(I, a[0], &t) ? dtype_value(t, NULL) : VERR;
}

static Value f_same_bits(Interp *I, Value *a)
{
    Tensor *x = a[0].tag == V_TENSOR ? tensor_concrete(as_tensor(a[0])) : NULL, *y = a[1].tag == V_TENSOR ? tensor_concrete(as_tensor(a[1])) : NULL;
    if (!x || !y)
        return raise(I, EXC_TypeError, "same_bits compares two tensors with values");
    return vbool(tensor_same_bits(x, y));
}

/* 128 bits as hexadecimal digits. */
static Value f_digest(Interp *I, Value *a)
{
    Hash128 h = hash_bytes128(as_str(a[0])->s, as_str(a[0])->len);
    char text[33];
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
    return str_c(text);
}

static Value f_guard(Interp *I, Value *a)
{
    bool on, was = trace_of(I)->guarded;
    if (!arg_bool(I, a[0], &on))
        return VERR;
    trace_of(I)->guarded = on;
    return vbool(was);
}

/* What was in force before and what these forbid besides. */
static Value f_suspend(Interp *I, Value *a)
{
    bool draws, io;
    if (!arg_bool(I, a[0], &draws) || !arg_bool(I, a[1], &io))
        return VERR;
    unsigned was = interp_suspend(I, 0);
    interp_suspend(I, was | (draws ? SUSPEND_RANDOM : 0) | (io ? SUSPEND_IO : 0));
    return vint(was);
}

static Value f_resume(Interp *I, Value *a)
{
    interp_suspend(I, (unsigned)a[0].i);
    return VNONE;
}

/* Bring x nearer: an op of its own, so that a graph shows and repeats it. */
static Value f_prefetch(Interp *I, Value *a)            /* x, into */
{
    Tensor *t = arg_tensor(I, a[0], "prefetch"), *none[1];
    Attr at = attr_default();
    int nout = 0;
    if (!t)
        return VERR;
    at.name = sym_n(as_str(a[1])->s, as_str(a[1])->len);
    trace_of(I)->span = interp_span(I);
    bool ok = op_apply(trace_of(I), OP_prefetch, &at, &t, 1, none, &nout);
    tensor_unref(t);
    return ok ? VNONE : raise_op_error(I);
}

/* What is staged of x, which others may hold too, becomes that of y, and the other way round. */
static void exchange(Tensor *x, Tensor *y)
{
    struct Tracer *t = x->tracer;

    x->tracer = y->tracer;
    y->tracer = t;
}

/*
 * From now on x, which is staged, is held in a memory: a value of its own, which kernels copy there (lower_held.c). Gives what it was, for
 * f_release; None: it is not staged.
 */
static Value f_hold(Interp *I, Value *a)                /* x, into */
{
    Tensor *x = as_tensor(a[0]), *y[1];
    Attr at = attr_default();
    int nout = 0;

    if (!value_is_staged(a[0]))
        return VNONE;
    at.dtype = x->dtype;
    at.policy = x->policy;
    at.name = sym_n(as_str(a[1])->s, as_str(a[1])->len);
    trace_of(I)->span = interp_span(I);
    if (!op_apply(trace_of(I), OP_convert, &at, &x, 1, y, &nout))
        return raise_op_error(I);
    exchange(x, y[0]);
    return tensor_value(y[0]);
}

static Value f_release(Interp *I, Value *a)             /* x, what it was */
{
    exchange(as_tensor(a[0]), as_tensor(a[1]));
    return VNONE;
}

/* x is said to be in a memory: what was said before. */
static Value f_place(Interp *I, Value *a)               /* x, space */
{
    uint8_t *space = tensor_space(as_tensor(a[0])), was = space ? *space : 0;

    for (uint8_t i = 0; space && tensor_spaces[i]; i++)
        if (!strcmp(tensor_spaces[i], as_str(a[1])->s))
            *space = i;
    return str_c(tensor_spaces[was]);
}

/* A with block that graphs remember: the blocks before, for f_scope_leave. */
static Value f_scope_enter(Interp *I, Value *a)         /* key, value */
{
    Sym was = trace_enter(trace_of(I), as_str(a[0])->s, as_str(a[1])->s);
    return was ? str_new(was->text, was->len) : VNONE;
}

static Value f_scope_leave(Interp *I, Value *a)
{
    trace_of(I)->scope = a[0].tag == V_STR ? sym_n(as_str(a[0])->s, as_str(a[0])->len) : NULL;
    return VNONE;
}

static Value f_is_staged(Interp *I, Value *a) { return vbool(value_is_staged(a[0])); }

/* Where the calling library function was called from: a number that differs between places in the source. */
static Value f_call_site(Interp *I, Value *a)
{
    const Frame *caller = I->frame ? I->frame->up : NULL;
    return vint(caller && caller->at ? caller->at->span.lo : 0);
}

/* Bytes of tensors: ever made, in use now, the most there were since the last call with reset. */
static Value f_memory(Interp *I, Value *a)
{
    int64_t n[] = {(int64_t)storage_made_bytes(), (int64_t)storage_live_bytes(), (int64_t)storage_peak_bytes()};
    Value t = tuple_new(3);

    for (int i = 0; i < 3; i++)
        as_tuple(t)->at[i] = vint(n[i]);
    if (value_truth(I, a[0]) > 0)
        storage_reset_peak();
    return t;
}

/* ------------------------------------------------------------- the beginning and the end */

void tensor_init(Interp *I)
{
    Trace *T = trace_of(I);
    T->host = I;
    T->host_raise = host_raise;
    T->host_print = host_print;
    T->host_launch = kernel_staged_run;
    T->host_rule = custom_host_rule;
    T->poll = poll_interp;
    T->poll_state = I;
    T->guarded = I->opt.guard_numerics;
    if (I->opt.fast)
        T->numerics = fast_numerics(NULL);
    watch_begin(I);
}

void tensor_done(Interp *I)
{
    tape_end(I);
    custom_done();
    watch_end(I);
}

const NativeDef tensor_scope_natives[] = {
    {"_core", "numerics_enter", f_enter,
     "(storage=None, compute=None, accumulate=None, rounding: str | None = None, saturate: bool | None = None, denorm_mode: str | None = None, "
     "compensated: bool | None = None, fast: bool | None = None) -> int",
     "Change the numerics in force; gives the former ones."},
    {"_core", "quantize_enter", f_quantize, "(activations, weights, accumulate, training: bool) -> int",
     "Quantise the operands of products; gives the former numerics."},
    {"_core", "quantizes", f_quantizes, "() -> bool", "Are products quantised as in training?"},
    {"_core", "quantize_use", f_quantize_use, "() -> int", "Quantise for use instead of training; gives the former numerics."},
    {"_core", "numerics_leave", f_leave, "(former: int) -> None", "Return to the former numerics."},
    {"_core", "numerics_check", f_check, "(rounding: str | None = None, denorm_mode: str | None = None) -> None", "ValueError unless these are known modes."},
    {"_core", "dtype", f_dtype, "(name: str | dtype) -> dtype", "The dtype of that name."},
    {"_core", "same_bits", f_same_bits, "(x: Tensor, y: Tensor) -> bool", "Equal shape, dtype and bits."},
    {"_core", "call_site", f_call_site, "() -> int", "The place in the source that called the calling function."},
    {"_core", "digest", f_digest, "(text: str) -> str", "A 128-bit hash of a text, the same in every run."},
    {"_core", "guard", f_guard, "(on: bool) -> bool", "Raise NumericalError where NaN or infinity first appears; gives what was so before."},
    {"_core", "memory", f_memory, "(reset: bool = False) -> tuple[int, int, int]",
     "Bytes of tensors: ever made, in use, the most in use at once; reset begins the last anew."},
    {"_core", "suspend", f_suspend, "(random: bool, io: bool) -> int", "Forbid these effects besides the ones forbidden already; gives those."},
    {"_core", "resume", f_resume, "(former: int) -> None", "Forbid only these effects."},
    {"_core", "prefetch", f_prefetch, "(x: Tensor, into: str) -> None", "Bring x's elements nearer to the processor."},
    {"_core", "hold", f_hold, "(x: Tensor, into: str)", "x is held in a memory from now on; gives what it was."},
    {"_core", "release", f_release, "(x: Tensor, was: Tensor) -> None", "x is what it was."},
    {"_core", "place", f_place, "(x: Tensor, space: str) -> str", "Say in which memory x is; gives the one before."},
    {"_core", "scope_enter", f_scope_enter, "(key: str, value: str) -> str | None", "A with block that graphs remember; gives the ones before."},
    {"_core", "scope_leave", f_scope_leave, "(former) -> None", "Back to the blocks before."},
    {"_core", "is_staged", f_is_staged, "(x) -> bool", "Is x a tensor whose value is not known now?"},
    {0},
};
