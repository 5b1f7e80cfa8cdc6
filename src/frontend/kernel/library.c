/*
 * The tensor library's functions on values of a kernel.
 *
 * Most are the tensor's operations under a name of their own, and are applied
 * (calls.c).  Here are the natives that are more than one operation, and those that
 * only look at what they are given.  With these, whatever the library writes in
 * the language itself (gelu, hypot, softmax ...) is evaluated in place like a
 * function of the program, as a function, as a method, and of `math`.
 */
#include "frontend/kernel/body.h"

#include "frontend/prelude.h"

#include <string.h>

/* Argument `at`, or the one of that name; UNSET: not given, or None. */
static KVal given(const KVal *arg, const Sym *names, int n, int at, const char *name)
{
    for (int i = 0; i < n; i++)
        if (names && names[i] ? !strcmp(names[i]->text, name) : i == at)
            return arg[i].kind == K_STATIC && arg[i].v.tag == V_NONE ? KUNSET : arg[i];
    return KUNSET;
}

static KVal limit(Body *B, KVal v, KVal by, OpId op)
{
    if (by.kind == K_UNSET || kb_bad(v))
        return v;
    return kb_is_int(v) && kb_is_int(kb_value(B, by)) ? kb_extreme(B, op == OP_maximum, v, by) : kb_apply(B, op, (KVal[]){v, by}, 2);
}

static KVal l_clip(Body *B, const KVal *arg, const Sym *names, int n)
{
    KVal lo = given(arg, names, n, 1, "lo"), hi = given(arg, names, n, 2, "hi");

    lo = lo.kind == K_UNSET ? given(arg, names, n, -1, "min") : lo;
    hi = hi.kind == K_UNSET ? given(arg, names, n, -1, "max") : hi;
    if (lo.kind == K_UNSET && hi.kind == K_UNSET)
        return kb_fail(B, "clip needs a lower bound, an upper bound or both");
    return limit(B, limit(B, kb_value(B, arg[0]), lo, OP_maximum), hi, OP_minimum);
}

/* A number of Python's as an element, which tensors of numbers are. */
static KVal element(Body *B, KVal v)
{
    v = kb_value(B, v);
    if (v.kind == K_SCALAR && v.weak)
        return kb_cast(B, v, DT_f32);
    return kb_is_int(v) ? kb_cast(B, v, DT_int32) : v;
}

static KVal l_tensor(Body *B, const KVal *arg, const Sym *names, int n)
{
    KVal dtype = given(arg, names, n, 1, "dtype");

    if (dtype.kind == K_UNSET)
        return element(B, arg[0]);
    return dtype.kind == K_STATIC && dtype.v.tag == V_DTYPE ? kb_cast(B, arg[0], as_dtype(dtype.v)->dtype) : kb_fail(B, "tensor() takes a dtype");
}

static KVal l_is_tensor(Body *B, const KVal *arg, const Sym *names, int n)
{
    KVal v = kb_value(B, arg[0]);

    (void)names, (void)n;
    return kb_bad(v) ? v : v.kind == K_BLOCK || (v.kind == K_SCALAR && !v.weak) ? kb_yes : kb_no;
}

static KVal l_same(Body *B, const KVal *arg, const Sym *names, int n)
{
    (void)names, (void)n;
    return kb_value(B, arg[0]);
}

static KVal l_fill(Body *B, KVal like, KVal value)
{
    DType dt;
    TileRef x;

    like = element(B, like);
    if (kb_bad(like) || kb_bad(value))
        return KBAD;
    dt = kb_dtype(like);
    x = kb_ref(B, value, dt);
    if (!x.node)
        return KBAD;
    return like.kind == K_BLOCK ? kb_block(B, kb_splat(B, x, tile_type(like.ref)->rank, tile_type(like.ref)->extent), like.tag) : kb_scalar(x, false);
}

static KVal l_zeros_like(Body *B, const KVal *arg, const Sym *names, int n) { (void)names, (void)n; return l_fill(B, arg[0], kb_number(0)); }
static KVal l_ones_like(Body *B, const KVal *arg, const Sym *names, int n) { (void)names, (void)n; return l_fill(B, arg[0], kb_number(1)); }

static KVal l_full_like(Body *B, const KVal *arg, const Sym *names, int n)
{
    KVal v = given(arg, names, n, 1, "value");

    return v.kind == K_UNSET ? kb_fail(B, "full_like() takes a value") : l_fill(B, arg[0], kb_value(B, v));
}

static KVal logical(Body *B, const KVal *arg, int n, OpId op)
{
    KVal t[2];

    t[0] = kb_truth(B, arg[0]);
    t[1] = n > 1 ? kb_truth(B, arg[1]) : kb_no;
    return n != 2 ? kb_fail(B, "this takes two truths") : kb_bad(t[0]) || kb_bad(t[1]) ? KBAD : kb_apply(B, op, t, 2);
}

static KVal l_and(Body *B, const KVal *arg, const Sym *names, int n) { (void)names; return logical(B, arg, n, OP_bitand); }
static KVal l_or(Body *B, const KVal *arg, const Sym *names, int n) { (void)names; return logical(B, arg, n, OP_bitor); }
static KVal l_xor(Body *B, const KVal *arg, const Sym *names, int n) { (void)names; return logical(B, arg, n, OP_bitxor); }
static KVal l_not(Body *B, const KVal *arg, const Sym *names, int n) { (void)names, (void)n; return kb_unary(B, AOP_NOT, arg[0]); }

static KVal l_round(Body *B, const KVal *arg, const Sym *names, int n)
{
    KVal digits = given(arg, names, n, 1, "digits"), v = kb_value(B, arg[0]), by, y;
    int64_t k = 0;

    if (kb_bad(v) || (digits.kind != K_UNSET && !kb_static_int(B, digits, "the digits of round()", &k)))
        return KBAD;
    if (!k)
        return kb_apply(B, OP_round, &v, 1);
    by = kb_binary(B, AOP_POW, kb_static_item(vfloat(10)), kb_number(k < 0 ? -k : k));
    y = kb_binary(B, k < 0 ? AOP_DIV : AOP_MUL, v, by);
    y = kb_bad(y) ? y : kb_apply(B, OP_round, &y, 1);
    return kb_binary(B, k < 0 ? AOP_MUL : AOP_DIV, y, by);
}

static KVal l_matmul(Body *B, const KVal *arg, const Sym *names, int n)
{
    KVal x;

    (void)names;
    if (n != 2)
        return kb_fail(B, "matmul() takes two blocks");
    x = kb_value(B, arg[0]);
    return kb_binary(B, AOP_MATMUL, x, kb_value(B, arg[1]));
}

/* The class of a value as isinstance() has it: an element and a block are tensors. */
static const char *class_said(KVal v)
{
    if (v.kind == K_LIST || v.kind == K_TUPLE)
        return v.kind == K_LIST ? "list" : "tuple";
    return kb_is_int(v) ? "int" : v.kind == K_SCALAR && v.weak ? "float" : "Tensor";
}

static KVal l_isinstance(Body *B, const KVal *arg, const Sym *names, int n)
{
    KVal v = kb_now(B, arg[0]), one = n == 2 ? arg[1] : KUNSET, *item;
    int count = n == 2 && !kb_bad(v) ? kb_sequence(B, one, &item) : -1;

    (void)names;
    if (count < 0)
        item = &one;
    for (int i = 0; i < (count < 0 ? 1 : count); i++) {
        if (item[i].kind != K_STATIC || item[i].v.tag != V_CLASS)
            return kb_fail(B, "isinstance() takes a value and classes here");
        if (!strcmp(((ClassObj *)item[i].v.o)->name->text, class_said(v)))
            return kb_yes;
    }
    return kb_no;
}

static KVal l_float(Body *B, const KVal *arg, const Sym *names, int n) { (void)names, (void)n; return kb_cast(B, arg[0], DT_f32); }
static KVal l_half(Body *B, const KVal *arg, const Sym *names, int n) { (void)names, (void)n; return kb_cast(B, arg[0], DT_f16); }

static const struct { const char *name; KVal (*run)(Body *, const KVal *, const Sym *, int); } composed[] = {
    {"clip", l_clip}, {"clamp", l_clip}, {"tensor", l_tensor}, {"asarray", l_tensor}, {"is_tensor", l_is_tensor}, {"stop_gradient", l_same},
    {"detach", l_same}, {"clone", l_same}, {"copy", l_same}, {"contiguous", l_same}, {"as_softmax", l_same}, {"zeros_like", l_zeros_like},
    {"ones_like", l_ones_like}, {"full_like", l_full_like}, {"logical_and", l_and}, {"logical_or", l_or}, {"logical_xor", l_xor},
    {"logical_not", l_not}, {"round", l_round}, {"float", l_float}, {"half", l_half},
    {"matmul", l_matmul}, {"isinstance", l_isinstance},
};

/* Operators under names of functions. */
static const struct { const char *name; AstOp op; bool compares; } operators[] = {
    {"add", AOP_ADD, false}, {"subtract", AOP_SUB, false}, {"multiply", AOP_MUL, false}, {"divide", AOP_DIV, false}, {"floor_divide", AOP_FLOORDIV, false},
    {"remainder", AOP_MOD, false}, {"power", AOP_POW, false}, {"bitwise_and", AOP_BITAND, false}, {"bitwise_or", AOP_BITOR, false},
    {"bitwise_xor", AOP_BITXOR, false}, {"equal", AOP_EQ, true}, {"not_equal", AOP_NE, true}, {"less", AOP_LT, true}, {"less_equal", AOP_LE, true},
    {"greater", AOP_GT, true}, {"greater_equal", AOP_GE, true},
};

bool klibrary(Body *B, const char *name, const KVal *arg, const Sym *names, int n, KVal *out)
{
    for (size_t i = 0; n && i < sizeof composed / sizeof *composed; i++)
        if (!strcmp(composed[i].name, name)) {
            *out = composed[i].run(B, arg, names, n);
            return true;
        }
    for (size_t i = 0; n == 2 && i < sizeof operators / sizeof *operators; i++)
        if (!strcmp(operators[i].name, name)) {
            *out = (operators[i].compares ? kb_compare : kb_binary)(B, operators[i].op, arg[0], arg[1]);
            return true;
        }
    return false;
}

KVal klibrary_of_arrays(Body *B, KVal f, Sym name)
{
    bool np = f.kind == K_STATIC && f.v.tag == V_FUNC && !strcmp(((FuncObj *)f.v.o)->module->name->text, "np");
    int row = np ? prelude_find(name) : -1;
    Value v = row >= 0 ? prelude_value(B->I, row) : VERR;

    if (row >= 0 && is_err(v))
        return kb_pending(B);
    return row < 0 || (v.tag != V_NATIVE && v.tag != V_FUNC) ? f : kb_static(B, value_ref(v));
}

/* What `math` calls by other names than tensors' functions have. */
static const char *under(const char *owner, const char *name)
{
    if (!strcmp(owner, "math") && !strcmp(name, "degrees"))
        return "rad2deg";
    return !strcmp(owner, "math") && !strcmp(name, "radians") ? "deg2rad" : name;
}

/* Numbers beside elements become elements like them: the library looks at dtypes. */
static void alike(Body *B, const KVal *arg, int n, KVal *out)
{
    DType dt = DT_NONE;

    for (int i = 0; i < n; i++) {
        out[i] = kb_value(B, arg[i]);
        if (dt == DT_NONE && !kb_bad(out[i]))
            dt = kb_dtype(out[i]);
    }
    for (int i = 0; i < n && dt != DT_NONE; i++)
        if (!kb_bad(out[i]) && kb_dtype(out[i]) == DT_NONE && kb_is_value(out[i]))
            out[i] = kb_cast(B, out[i], dt);
}

bool klibrary_written(Body *B, const char *owner, const char *name, const KVal *arg, const Sym *names, int n, KVal *out)
{
    int row = prelude_find(sym(under(owner, name)));
    Value f = row >= 0 ? prelude_value(B->I, row) : VERR;

    if (!strcmp(owner, "math") && !strcmp(name, "log") && n == 2) {     /* to a base */
        KVal x = arg[0], base = arg[1];
        x = kb_apply(B, OP_log, &x, 1);
        *out = kb_binary(B, AOP_DIV, x, kb_apply(B, OP_log, &base, 1));
        return true;
    }
    if (row >= 0 && is_err(f))
        return (*out = kb_pending(B)), true;
    if (f.tag != V_FUNC)
        return false;
    if (!strcmp(owner, "math")) {
        KVal *same = kb_alloc(B, sizeof *same * (size_t)(n + 1));
        alike(B, arg, n, same);
        arg = same;
    }
    *out = kb_inline(B, (FuncObj *)f.o, arg, names, n, NULL);
    return true;
}
