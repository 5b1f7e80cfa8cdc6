/*
 * The functions that every program sees.
 *
 * Several names are also tensor functions (sum, max, abs ...): given a tensor
 * first they pass all arguments on to its method of the same name.
 */
#include "frontend/lib/lib.h"

#include "frontend/eval/symint.h"
#include "frontend/syntax/ast.h"
#include "frontend/tensor/tensor_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- passing on to tensors */

/* self.name(*args, **kw); args a tuple, kw a dict. */
Value call_method_kw(Interp *I, Value self, const char *name, const Value *args, int64_t nargs, Value kw)
{
    Value method = value_getattr(I, self, sym(name)), r, k, v;
    int n = (int)as_dict(kw)->n, i = 0;
    Value *vals = tsr_alloc((size_t)(n + 1) * sizeof *vals);
    Sym *names = tsr_alloc((size_t)(n + 1) * sizeof *names);
    int64_t pos = 0;

    while (dict_next(as_dict(kw), &pos, &k, &v)) {
        names[i] = sym_n(as_str(k)->s, as_str(k)->len);
        vals[i++] = v;
    }
    r = is_err(method) ? VERR : value_call_kw(I, method, args, (int)nargs, vals, names, n);
    value_unref(method);
    tsr_free(vals);
    tsr_free(names);
    return r;
}

static bool is_tensor(Value v)
{
    return v.tag == V_TENSOR;
}

static bool only_keywords(Interp *I, Value kw, const char *fname, const char *const *allowed, Value *out)
{
    Value k, v;
    int64_t pos = 0;

    while (dict_next(as_dict(kw), &pos, &k, &v)) {
        int i = 0;
        while (allowed[i] && strcmp(allowed[i], as_str(k)->s))
            i++;
        if (!allowed[i]) {
            raise(I, EXC_TypeError, "'%s' is an invalid keyword argument for %s()", as_str(k)->s, fname);
            return false;
        }
        out[i] = v;
    }
    return true;
}

/* ------------------------------------------------------------- print */

static bool put_line(Interp *I, TupleObj *args, const char *sep, const char *end, StrBuf *b)
{
    for (int64_t i = 0; i < args->n; i++) {
        if (i)
            sb_puts(b, sep);
        if (!value_str_to(I, args->at[i], b))
            return false;
    }
    sb_puts(b, end);
    return true;
}

static bool text_option(Interp *I, Value v, const char *name, const char *dflt, const char **out)
{
    Value s = unwrap_base(v);

    *out = dflt;
    if (!is_given(v))
        return true;
    if (s.tag != V_STR) {
        raise(I, EXC_TypeError, "%s must be None or a string, not %s", name, value_type_name(v));
        return false;
    }
    *out = as_str(s)->s;
    return true;
}

/* a = args, sep, end, file, flush */
static Value f_print(Interp *I, Value *a)
{
    const char *sep, *end;
    StrBuf b = {0};
    Value text, r = VNONE, to = is_given(a[3]) ? a[3] : *interp_redirect(I, 1);
    int flush, staged;

    if (!text_option(I, a[1], "sep", " ", &sep) || !text_option(I, a[2], "end", "\n", &end))
        return VERR;
    flush = value_truth(I, a[4]);
    if (flush < 0 || !interp_may(I, SUSPEND_IO, "print"))
        return VERR;
    staged = is_given(a[3]) ? 0 : tensor_staged_print(I, as_tuple(a[0])->at, (int)as_tuple(a[0])->n, sep, end);
    if (staged)
        return staged < 0 ? VERR : VNONE;
    if (!put_line(I, as_tuple(a[0]), sep, end, &b)) {
        sb_done(&b);
        return VERR;
    }
    if (is_err(to)) {
        interp_write(I, sb_str(&b), b.n);
        if (flush)
            interp_flush(I);
        sb_done(&b);
        return VNONE;
    }
    text = str_steal(&b);
    value_ref(to);                  /* what it writes to may end its being written to */
    r = value_call_method(I, to, sym("write"), &text, 1);
    value_unref(text);
    value_unref(r);
    if (flush && !is_err(r))
        value_unref(r = value_call_method(I, to, sym("flush"), NULL, 0));
    value_unref(to);
    return is_err(r) ? VERR : VNONE;
}

/* ------------------------------------------------------------- text of values */

static Value f_repr(Interp *I, Value *a) { return value_repr(I, a[0]); }

static Value f_ascii(Interp *I, Value *a)
{
    Value r = value_repr(I, a[0]);
    StrBuf b = {0};

    if (is_err(r))
        return VERR;
    repr_ascii(&b, as_str(r)->s, as_str(r)->len);
    value_unref(r);
    return str_steal(&b);
}

static Value f_format(Interp *I, Value *a)
{
    StrObj *spec = need_str(I, a[1], "format() argument 2");
    return spec ? value_format(I, a[0], spec->s, spec->len) : VERR;
}

static Value f_chr(Interp *I, Value *a)
{
    int64_t c;

    if (!value_as_int(I, a[0], &c))
        return VERR;
    if (c < 0 || c > 0x10ffff)
        return raise(I, EXC_ValueError, "chr() arg not in range(0x110000)");
    if (c >= 0xd800 && c < 0xe000)
        return raise(I, EXC_ValueError, "chr() arg is half of a surrogate pair, which text cannot hold");
    return str_char((uint32_t)c);
}

static Value f_ord(Interp *I, Value *a)
{
    Value v = unwrap_base(a[0]);
    const char *p;

    if (v.tag == V_BYTES && ((BytesObj *)v.o)->len == 1)
        return vint((unsigned char)((BytesObj *)v.o)->s[0]);
    if (v.tag != V_STR)
        return raise(I, EXC_TypeError, "ord() expected string of length 1, but %s found", value_type_name(v));
    if (str_nchars(as_str(v)) != 1)
        return raise(I, EXC_TypeError, "ord() expected a character, but string of length %lld found",
                     (long long)str_nchars(as_str(v)));
    p = as_str(v)->s;
    return vint(utf8_next(&p));
}

static Value in_base(Interp *I, Value v, const char *spec)
{
    int64_t i;

    if (v.tag == V_FLOAT)
        return raise(I, EXC_TypeError, "'float' object cannot be interpreted as an integer");
    return value_as_int(I, v, &i) ? value_format(I, vint(i), spec, 2) : VERR;
}

static Value f_hex(Interp *I, Value *a) { return in_base(I, a[0], "#x"); }
static Value f_oct(Interp *I, Value *a) { return in_base(I, a[0], "#o"); }
static Value f_bin(Interp *I, Value *a) { return in_base(I, a[0], "#b"); }

/* ------------------------------------------------------------- numbers */

static Value f_abs(Interp *I, Value *a)
{
    Value v = unwrap_base(a[0]), m;

    switch (v.tag) {
    case V_INT: case V_BOOL:
        return v.i == INT64_MIN ? raise(I, EXC_OverflowError, "abs() of the smallest int does not fit in 64 bits")
                                : vint(v.i < 0 ? -v.i : v.i);
    case V_SYMINT:
        m = symint_compare(I, AOP_LT, v, vint(0));
        return is_err(m) ? VERR : m.i ? symint_unary(I, AOP_NEG, v) : v;
    case V_FLOAT: return vfloat(fabs(v.f));
    case V_COMPLEX: return vfloat(hypot(((ComplexObj *)v.o)->re, ((ComplexObj *)v.o)->im));
    case V_TENSOR: return value_call_method(I, v, sym("abs"), NULL, 0);
    default: break;
    }
    m = value_getattr_opt(I, v, sym("__abs__"));
    if (!is_err(m)) {
        Value r = value_call(I, m, NULL, 0);
        value_unref(m);
        return r;
    }
    return exc_pending(I) ? VERR : raise(I, EXC_TypeError, "bad operand type for abs(): '%s'", value_type_name(v));
}

static int64_t int_pow10(int64_t n)
{
    int64_t p = 1;

    while (n-- > 0)
        p *= 10;
    return p;
}

/* An int to a power of ten, halves to even. */
static Value round_int(Interp *I, int64_t v, int64_t digits)
{
    int64_t p, rest, out;

    if (digits >= 0)
        return vint(v);
    if (digits < -18)
        return vint(0);
    p = int_pow10(-digits);
    rest = v % p;
    if (rest < 0)
        rest += p;
    bool up = rest > p - rest || (rest == p - rest && ((v - rest) / p) % 2 != 0);
    if (__builtin_add_overflow(v - rest, up ? p : 0, &out))
        return raise(I, EXC_OverflowError, "round() result does not fit in 64 bits");
    return vint(out);
}

/* Decimal rounding of the exact value, through text: round(2.675, 2) is 2.67. */
static double round_float(double x, int64_t digits)
{
    char t[400];

    if (!isfinite(x) || digits > 330)
        return x;
    if (digits >= 0) {
        snprintf(t, sizeof t, "%.*f", (int)(digits > 60 ? 60 : digits), x);
        return digits > 60 ? x : strtod(t, NULL);
    }
    if (digits < -308)
        return copysign(0, x);
    double p = pow(10, (double)-digits);
    return rint(x / p) * p;
}

static Value f_round(Interp *I, Value *a)
{
    Value v = unwrap_base(a[0]), m, r;
    int64_t digits = 0;

    if (is_tensor(v))
        return value_call_method(I, v, sym("round"), &a[1], is_given(a[1]));
    if (v.tag == V_INT || v.tag == V_BOOL || v.tag == V_FLOAT) {
        if (is_given(a[1]) && !value_as_int(I, a[1], &digits))
            return VERR;
        if (v.tag != V_FLOAT)
            return round_int(I, v.i, digits);
        return is_given(a[1]) ? vfloat(round_float(v.f, digits)) : int_of_float(I, rint(v.f));
    }
    m = value_getattr_opt(I, v, sym("__round__"));
    if (is_err(m))
        return exc_pending(I) ? VERR
               : raise(I, EXC_TypeError, "type %s doesn't define __round__ method", value_type_name(v));
    r = value_call(I, m, &a[1], is_given(a[1]));
    value_unref(m);
    return r;
}

static int64_t mul_mod(int64_t a, int64_t b, int64_t m)
{
    return (int64_t)((__extension__(__int128)a * b) % m);
}

/* x with a * x = 1 modulo m, for a in [0, m); 0 when there is none. */
static int64_t inverse_mod(int64_t a, int64_t m)
{
    int64_t r0 = m, r1 = a, t0 = 0, t1 = 1;

    while (r1) {
        int64_t q = r0 / r1, r = r0 - q * r1, t = t0 - q * t1;
        r0 = r1, r1 = r;
        t0 = t1, t1 = t;
    }
    return r0 == 1 ? (t0 < 0 ? t0 + m : t0) : 0;
}

static Value pow_mod(Interp *I, int64_t base, int64_t e, int64_t mod)
{
    int64_t m = mod < 0 ? -mod : mod, r = 1;

    if (!mod)
        return raise(I, EXC_ValueError, "pow() 3rd argument cannot be 0");
    if (mod == INT64_MIN)
        return raise(I, EXC_OverflowError, "pow() 3rd argument is too large");
    base %= m;
    if (base < 0)
        base += m;
    if (e < 0) {
        base = inverse_mod(base, m);
        if (!base && m != 1)
            return raise(I, EXC_ValueError, "base is not invertible for the given modulus");
        e = -e;
    }
    r %= m;
    for (; e; e >>= 1, base = mul_mod(base, base, m))
        if (e & 1)
            r = mul_mod(r, base, m);
    return vint(mod < 0 && r ? r - m : r);
}

static Value f_pow(Interp *I, Value *a)
{
    if (!is_given(a[2]))
        return value_binary(I, AOP_POW, a[0], a[1]);
    if (a[0].tag == V_INSTANCE) {
        Value m = value_getattr_opt(I, a[0], sym("__pow__")), r = is_err(m) ? VERR : value_call(I, m, a + 1, 2);
        if (!is_err(m))
            value_unref(m);
        if (exc_pending(I) || (!is_err(m) && r.tag != V_NOTIMPL))
            return r;
    }
    for (int i = 0; i < 3; i++)
        if (a[i].tag != V_INT && a[i].tag != V_BOOL)
            return raise(I, EXC_TypeError, "pow() 3rd argument not allowed unless all arguments are integers");
    return pow_mod(I, a[0].i, a[1].i, a[2].i);
}

/* x.name(y) where x has such a method that knows y; V_ERR without pending: it has not. */
static Value known_by(Interp *I, Value x, const char *name, Value y)
{
    Value m = x.tag == V_INSTANCE ? value_getattr_opt(I, x, sym(name)) : VERR, r;

    if (is_err(m))
        return VERR;
    r = value_call(I, m, &y, 1);
    value_unref(m);
    return r.tag == V_NOTIMPL ? VERR : r;
}

static Value f_divmod(Interp *I, Value *a)
{
    Value q = known_by(I, a[0], "__divmod__", a[1]), r;

    if (is_err(q) && !exc_pending(I))
        q = known_by(I, a[1], "__rdivmod__", a[0]);
    if (!is_err(q) || exc_pending(I))
        return q;
    if (a[0].tag == V_FLOAT || a[1].tag == V_FLOAT) {
        double y;
        if (value_as_float(I, a[1], &y) && y == 0)
            return raise(I, EXC_ZeroDivisionError, "float divmod()");
        exc_clear(I);
    }
    q = value_binary(I, AOP_FLOORDIV, a[0], a[1]);
    if (is_err(q) && exc_matches(I, EXC_TypeError)) {
        exc_clear(I);
        return raise(I, EXC_TypeError, "unsupported operand type(s) for divmod(): '%s' and '%s'", value_type_name(a[0]),
                     value_type_name(a[1]));
    }
    r = is_err(q) ? VERR : value_binary(I, AOP_MOD, a[0], a[1]);
    if (is_err(r)) {
        value_unref(q);
        return VERR;
    }
    return tuple_of(2, q, r);
}

/* ------------------------------------------------------------- folding sequences */

typedef struct { Interp *I; Value acc; } Sum;

/* acc + x, owning x; false: acc is V_ERR and pending. */
static bool add_one(void *taker, Value x)
{
    Sum *s = taker;
    Value next;

    if (s->acc.tag == V_INT && (x.tag == V_INT || x.tag == V_BOOL) && !__builtin_add_overflow(s->acc.i, x.i, &next.i)) {
        s->acc.i = next.i;
        return true;
    }
    if (s->acc.tag == V_FLOAT && x.tag == V_FLOAT) {
        s->acc.f += x.f;
        return true;
    }
    next = value_binary(s->I, AOP_ADD, s->acc, x);
    value_unref(s->acc);
    value_unref(x);
    s->acc = next;
    return !is_err(next);
}

static Value add_all(Interp *I, Value v, Value start)
{
    Sum s = {I, start};
    bool ok = true;

    if (v.tag == V_LIST || v.tag == V_TUPLE) {
        for (int64_t i = 0; ok && i < (v.tag == V_LIST ? as_list(v)->n : as_tuple(v)->n); i++)
            ok = add_one(&s, value_ref(v.tag == V_LIST ? as_list(v)->at[i] : as_tuple(v)->at[i]));
    } else {
        ok = value_each(I, v, add_one, &s);
    }
    if (ok)
        return s.acc;
    value_unref(s.acc);
    return VERR;
}

/* a = x, *args, **kwargs */
static Value f_sum(Interp *I, Value *a)
{
    static const char *const names[] = {"start", NULL};
    TupleObj *args = as_tuple(a[1]);
    Value start = args->n ? args->at[0] : vint(0);

    if (is_tensor(a[0]))
        return call_method_kw(I, a[0], "sum", args->at, args->n, a[2]);
    if (args->n > 1)
        return raise(I, EXC_TypeError, "sum() takes at most 2 positional arguments (%lld given)", (long long)args->n + 1);
    if (!only_keywords(I, a[2], "sum", names, &start))
        return VERR;
    if (start.tag == V_STR)
        return raise(I, EXC_TypeError, "sum() can't sum strings [use ''.join(seq) instead]");
    return add_all(I, a[0], value_ref(start));
}

static int value_greater(Interp *I, Value a, Value b)
{
    Value r = value_compare(I, AOP_GT, a, b);
    int t = is_err(r) ? -1 : value_truth(I, r);

    value_unref(r);
    return t;
}

/* The best of what `it` gives; V_ERR without pending when it gives nothing. */
static Value best_of(Interp *I, Value it, Value key, bool largest)
{
    Value best = VERR, best_key = VERR, x, k;

    while (!is_err(x = value_next(I, it))) {
        int better = 1;
        k = is_given(key) ? value_call(I, key, &x, 1) : value_ref(x);
        if (is_err(k))
            better = -1;
        else if (!is_err(best))
            better = largest ? value_greater(I, k, best_key) : value_less(I, k, best_key);
        if (better == 1) {
            value_unref(best), value_unref(best_key);
            best = x, best_key = k;
            continue;
        }
        value_unref(x), value_unref(k);
        if (better < 0)
            break;
    }
    value_unref(best_key);
    if (!exc_pending(I))
        return best;
    value_unref(best);
    return VERR;
}

/* The extreme of ints of which some are symbolic; false: they are not that. */
static bool extreme_size(const TupleObj *args, bool largest, Value *out)
{
    Dim best = 0, d;
    bool symbolic = false;

    for (int64_t i = 0; i < args->n; i++) {
        if (!symint_dim(args->at[i], &d))
            return false;
        symbolic |= is_symint(args->at[i]);
        best = !i ? d : largest ? dim_max(best, d) : dim_min(best, d);
    }
    if (symbolic && best != DIM_BAD)
        *out = size_value(best);
    return symbolic && best != DIM_BAD;
}

/* max(a, b) of numbers that are tensors, or of tensors of floats: no axis is meant. */
static bool compares(Interp *I, const TupleObj *args, Value kwargs)
{
    Value rank, dtype, yes;
    bool number, is;

    if (args->n < 2 || as_dict(kwargs)->n)
        return false;
    rank = value_getattr(I, args->at[0], sym("ndim"));
    number = rank.tag == V_INT && !rank.i;
    value_unref(rank);
    if (number || args->at[1].tag == V_FLOAT || !is_tensor(args->at[1]))
        return number || args->at[1].tag == V_FLOAT;
    dtype = value_getattr(I, args->at[1], sym("dtype"));
    yes = value_getattr(I, dtype, sym("is_float"));
    is = yes.tag == V_BOOL && yes.i;
    value_unref(dtype);
    value_unref(yes);
    return is;
}

/* The largest of each element over all arguments. */
static Value compared(Interp *I, const TupleObj *args, bool largest)
{
    Value r = value_ref(args->at[0]), none = dict_new();

    for (int64_t i = 1; i < args->n && !is_err(r); i++) {
        Value next = call_method_kw(I, r, largest ? "maximum" : "minimum", &args->at[i], 1, none);
        value_unref(r);
        r = next;
    }
    value_unref(none);
    return r;
}

/* a = *args, **kwargs */
static Value extreme(Interp *I, Value *a, const char *name, bool largest)
{
    static const char *const names[] = {"key", "default", NULL};
    TupleObj *args = as_tuple(a[0]);
    Value option[2] = {VERR, VERR}, it, r;

    if (!args->n)
        return raise(I, EXC_TypeError, "%s expected at least 1 argument, got 0", name);
    if (is_tensor(args->at[0]))
        return compares(I, args, a[1]) ? compared(I, args, largest) : call_method_kw(I, args->at[0], name, args->at + 1, args->n - 1, a[1]);
    if (!only_keywords(I, a[1], name, names, option))
        return VERR;
    if (args->n > 1 && !is_err(option[1]))
        return raise(I, EXC_TypeError, "Cannot specify a default for %s() with multiple positional arguments", name);
    if (args->n > 1 && is_err(option[0]) && extreme_size(args, largest, &r))
        return r;
    it = value_iter(I, args->n == 1 ? args->at[0] : a[0]);
    if (is_err(it))
        return VERR;
    r = best_of(I, it, option[0], largest);
    value_unref(it);
    if (!is_err(r) || exc_pending(I))
        return r;
    return is_err(option[1]) ? raise(I, EXC_ValueError, "%s() arg is an empty sequence", name) : value_ref(option[1]);
}

static Value f_min(Interp *I, Value *a) { return extreme(I, a, "min", false); }
static Value f_max(Interp *I, Value *a) { return extreme(I, a, "max", true); }

typedef struct { Interp *I; int want, truth; Value staged; } Search;        /* staged: what such elements give together; V_ERR: none */

static bool differs_staged(Search *s, Value x)
{
    Value joined = is_err(s->staged) ? staged_bool(s->I, x) : staged_logic(s->I, s->want, s->staged, x);

    value_unref(x);
    value_unref(s->staged);
    s->staged = joined;
    return !is_err(joined);
}

static bool differs(void *taker, Value x)
{
    Search *s = taker;

    if (is_tensor(x) && staged_truth(x))
        return differs_staged(s, x);
    s->truth = value_truth(s->I, x);
    value_unref(x);
    return s->truth == !s->want;
}

/* Does an element with this truth occur? Elements that are being staged are joined to a tensor that says so when it runs. */
static Value search_truth(Interp *I, Value iterable, int want)
{
    Search s = {I, want, !want, VERR};

    value_each(I, iterable, differs, &s);
    if (s.truth < 0 || exc_pending(I)) {
        value_unref(s.staged);
        return VERR;
    }
    if (is_err(s.staged))
        return vbool(s.truth);
    if (s.truth == want) {
        value_unref(s.staged);
        return vbool(want);
    }
    return s.staged;
}

/* a = x, *args, **kwargs */
static Value f_any(Interp *I, Value *a)
{
    if (is_tensor(a[0]))
        return call_method_kw(I, a[0], "any", as_tuple(a[1])->at, as_tuple(a[1])->n, a[2]);
    return search_truth(I, a[0], 1);
}

static Value f_all(Interp *I, Value *a)
{
    if (is_tensor(a[0]))
        return call_method_kw(I, a[0], "all", as_tuple(a[1])->at, as_tuple(a[1])->n, a[2]);
    return search_truth(I, a[0], 0);
}

static Value f_sorted(Interp *I, Value *a)
{
    Value l = value_to_list(I, a[0]);
    int reverse = is_err(l) ? -1 : value_truth(I, a[2]);

    if (reverse >= 0 && list_sort(I, as_list(l), a[1], reverse))
        return l;
    value_unref(l);
    return VERR;
}

static Value f_len(Interp *I, Value *a)
{
    if (is_tensor(a[0]) && as_tensor(a[0])->rank)
        return size_value(as_tensor(a[0])->shape[0]);
    int64_t n = value_len(I, a[0]);
    return n < 0 ? VERR : vint(n);
}

const NativeDef natives_builtins[] = {
    {"", "print", f_print, "(*args, sep: str | None = ' ', end: str | None = '\\n', file=None, flush: bool = False) -> None", "Write the texts of the arguments with sep between and end after them."},
    {"", "repr", f_repr, "(obj, /) -> str", "The text that shows what obj is."},
    {"", "ascii", f_ascii, "(obj, /) -> str", "repr with escapes for what is beyond ASCII."},
    {"", "format", f_format, "(value, format_spec: str = '', /) -> str", "The value's text by a format specification."},
    {"", "chr", f_chr, "(i: int, /) -> str", "The character of a code point."},
    {"", "ord", f_ord, "(c: str | bytes, /) -> int", "The code point of a character."},
    {"", "hex", f_hex, "(number: int, /) -> str", "In base 16: '0xff'."},
    {"", "oct", f_oct, "(number: int, /) -> str", "In base 8: '0o17'."},
    {"", "bin", f_bin, "(number: int, /) -> str", "In base 2: '0b11'."},
    {"", "abs", f_abs, "(x: float | Tensor, /)", "The absolute value, elementwise for tensors."},
    {"", "round", f_round, "(number: float | Tensor, ndigits: int | None = None)", "Rounded to ndigits decimals, halves to even; an int without ndigits."},
    {"", "pow", f_pow, "(base, exp, mod=None)", "base ** exp, modulo mod when given."},
    {"", "divmod", f_divmod, "(a, b, /) -> tuple", "(a // b, a % b)"},
    {"", "sum", f_sum, "(x, /, *args, **kwargs)", "start plus the elements; of a tensor, its sum over axes."},
    {"", "min", f_min, "(*args, **kwargs)", "The smallest element or argument, by key; of a tensor, its minimum over axes."},
    {"", "max", f_max, "(*args, **kwargs)", "The largest element or argument, by key; of a tensor, its maximum over axes."},
    {"", "any", f_any, "(x, /, *args, **kwargs)", "Is an element true? Of a tensor, over axes."},
    {"", "all", f_all, "(x, /, *args, **kwargs)", "Are all elements true? Of a tensor, over axes."},
    {"", "sorted", f_sorted, "(iterable: Iterable, /, *, key: Callable | None = None, reverse: bool = False) -> list", "A sorted list of the elements; equal ones keep their order."},
    {"", "len", f_len, "(obj, /) -> int", "Number of elements; the first size of a tensor."},
    {0},
};
