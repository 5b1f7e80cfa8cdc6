/*
 * Calls in a kernel of what is not an operation of its language: builtins on
 * numbers, elementwise functions, functions of the host, which are evaluated
 * in place, and, of arguments that are known now, whatever the host has.
 */
#include "frontend/kernel/oper.h"

#include "frontend/prelude.h"
#include "frontend/tensor/custom.h"
#include "frontend/tensor/tensor_ops.h"

#include <limits.h>
#include <string.h>

enum { ARGS_MAX = 32 };

/* ------------------------------------------------------------- builtins */

typedef struct Builtin { const char *name; KVal (*run)(Body *B, const KVal *arg, int n); int least, most; } Builtin;

static KVal b_range(Body *B, const KVal *arg, int n)
{
    KVal y = {.kind = K_RANGE, .n = 3};

    (void)B;
    y.item = kb_alloc(B, sizeof *y.item * 3);
    y.item[0] = n > 1 ? kb_value(B, arg[0]) : kb_number(0);
    y.item[1] = kb_value(B, arg[n > 1]);
    y.item[2] = n > 2 ? kb_value(B, arg[2]) : kb_number(1);
    return B->failed ? KBAD : y;
}

/* A block of ints that follow each other; how many is a number. */
static KVal b_arange(Body *B, const KVal *arg, int n)
{
    Lin lo = lin_number(0), hi, extent;
    AxisTag tag[VIEW_RANK] = {{0}};
    int32_t shape;
    int64_t count;

    if ((n > 1 && !kb_to_lin(B, arg[0], &lo)) || !kb_to_lin(B, arg[n > 1], &hi))
        return KBAD;
    if (!lin_add(B, hi, lo, -1, &extent) || !kb_need_number(B, &extent, "how many numbers arange gives", &count))
        return B->failed ? KBAD : kb_fail(B, "arange() between sums with too many parts");
    if (count > TILE_ELEMENTS_MAX)
        return kb_fail(B, "arange(): a block of %lld elements", (long long)count);
    tag[0].none = count < 1;
    shape = count < 1 ? 1 : (int32_t)count;
    return kb_block(B, kb_iota(B, &lo, 1, &shape, 0), tag);
}

static KVal b_extreme(Body *B, const KVal *arg, int n, bool max)
{
    KVal *item, y;

    if (n == 1 && arg[0].kind == K_BLOCK)
        return block_method(B, arg[0], max ? "max" : "min", NULL, NULL, 0);
    if (n == 1) {
        n = kb_sequence(B, arg[0], &item);
        if (n < 1)
            return kb_fail(B, "%s() takes numbers, or several of them in a tuple", max ? "max" : "min");
        arg = item;
    }
    y = kb_value(B, arg[0]);
    for (int i = 1; i < n && !kb_bad(y); i++)
        y = kb_extreme(B, max, y, arg[i]);
    return y;
}

static KVal b_min(Body *B, const KVal *arg, int n) { return b_extreme(B, arg, n, false); }
static KVal b_max(Body *B, const KVal *arg, int n) { return b_extreme(B, arg, n, true); }
static KVal b_int(Body *B, const KVal *arg, int n) { return n ? kb_to_int(B, arg[0]) : kb_number(0); }
static KVal b_float(Body *B, const KVal *arg, int n) { return n ? kb_to_float(B, arg[0]) : kb_static_item(vfloat(0)); }
static KVal b_bool(Body *B, const KVal *arg, int n) { return n ? kb_truth(B, arg[0]) : kb_static_item(vbool(false)); }

static KVal b_abs(Body *B, const KVal *arg, int n)
{
    KVal v = kb_value(B, arg[0]);

    (void)n;
    if (kb_is_int(v))
        return kb_extreme(B, true, v, kb_unary(B, AOP_NEG, v));
    return kb_apply(B, OP_abs, &v, 1);
}

static KVal b_len(Body *B, const KVal *arg, int n)
{
    KVal *item, shape;
    int count = kb_sequence(B, arg[0], &item);

    (void)n;
    if (count >= 0)
        return kb_number(count);
    shape = kb_shape(B, arg[0]);
    return shape.n ? shape.item[0] : kb_fail(B, "len() takes a tuple, a list or memory here");
}

static KVal b_sum(Body *B, const KVal *arg, int n)
{
    KVal *item, y = n > 1 ? arg[1] : kb_number(0);
    int count;

    if (n == 1 && arg[0].kind == K_BLOCK)
        return block_method(B, arg[0], "sum", NULL, NULL, 0);
    count = kb_iterated(B, arg[0], &item);
    if (count < 0)
        return kb_fail(B, "sum() takes a block value, a tuple or a list here");
    for (int i = 0; i < count && !kb_bad(y); i++)
        y = kb_binary(B, AOP_ADD, y, item[i]);
    return y;
}

/* any() and all(): all items are looked at, which no kernel can tell from stopping early. */
static KVal truths(Body *B, const KVal *arg, bool all)
{
    KVal *item, y = kb_static(B, vbool(all));
    int count = kb_iterated(B, arg[0], &item);

    if (arg[0].kind == K_BLOCK)
        return block_method(B, arg[0], all ? "all" : "any", NULL, NULL, 0);
    if (count < 0)
        return kb_fail(B, "%s() takes a block value, a tuple or a list here", all ? "all" : "any");
    for (int i = 0; i < count && !kb_bad(y); i++)
        y = kb_binary(B, all ? AOP_BITAND : AOP_BITOR, y, b_bool(B, &item[i], 1));
    return y;
}

static KVal b_any(Body *B, const KVal *arg, int n) { (void)n; return truths(B, arg, false); }
static KVal b_all(Body *B, const KVal *arg, int n) { (void)n; return truths(B, arg, true); }

static KVal b_list(Body *B, const KVal *arg, int n)
{
    KVal y = {.kind = K_LIST};

    if (n && (y.n = kb_iterated(B, arg[0], &y.item)) < 0)
        return kb_fail(B, "list() takes what is known before the launch");
    return y;
}

static KVal b_tuple(Body *B, const KVal *arg, int n)
{
    KVal y = b_list(B, arg, n);

    y.kind = y.kind == K_LIST ? K_TUPLE : y.kind;
    return y;
}

static KVal several(Body *B, int n)
{
    return (KVal){.kind = K_TUPLE, .n = n, .item = kb_alloc(B, sizeof(KVal) * (size_t)n)};
}

static KVal pair(Body *B, KVal a, KVal b)
{
    KVal y = several(B, 2);

    y.item[0] = a;
    y.item[1] = b;
    return y;
}

static KVal b_enumerate(Body *B, const KVal *arg, int n)
{
    KVal *item, y = {.kind = K_LIST, .n = kb_iterated(B, arg[0], &item)};

    if (y.n < 0)
        return kb_fail(B, "enumerate() goes over what is known before the launch");
    y.item = kb_alloc(B, sizeof *y.item * (size_t)(y.n + 1));
    for (int i = 0; i < y.n; i++)
        y.item[i] = pair(B, n > 1 ? kb_binary(B, AOP_ADD, arg[1], kb_number(i)) : kb_number(i), item[i]);
    return y;
}

static KVal b_zip(Body *B, const KVal *arg, int n)
{
    KVal *item[ARGS_MAX], y = {.kind = K_LIST, .n = n ? INT_MAX : 0};

    for (int k = 0; k < n; k++) {
        int count = kb_iterated(B, arg[k], &item[k]);
        if (count < 0)
            return kb_fail(B, "zip() goes over what is known before the launch");
        y.n = count < y.n ? count : y.n;
    }
    y.item = kb_alloc(B, sizeof *y.item * (size_t)(y.n + 1));
    for (int i = 0; i < y.n; i++) {
        y.item[i] = several(B, n);
        for (int k = 0; k < n; k++)
            y.item[i].item[k] = item[k][i];
    }
    return y;
}

static KVal b_reversed(Body *B, const KVal *arg, int n)
{
    KVal *item, y = {.kind = K_LIST, .n = kb_iterated(B, arg[0], &item)};

    (void)n;
    if (y.n < 0)
        return kb_fail(B, "reversed() goes over what is known before the launch");
    y.item = kb_alloc(B, sizeof *y.item * (size_t)(y.n + 1));
    for (int i = 0; i < y.n; i++)
        y.item[i] = item[y.n - 1 - i];
    return y;
}

static KVal b_divmod(Body *B, const KVal *arg, int n)
{
    KVal quotient = kb_binary(B, AOP_FLOORDIV, arg[0], arg[1]);

    (void)n;
    return pair(B, quotient, kb_binary(B, AOP_MOD, arg[0], arg[1]));
}

static KVal b_pow(Body *B, const KVal *arg, int n) { (void)n; return kb_binary(B, AOP_POW, arg[0], arg[1]); }

static const Builtin builtins[] = {
    {"range", b_range, 1, 3}, {"min", b_min, 1, ARGS_MAX}, {"max", b_max, 1, ARGS_MAX}, {"int", b_int, 0, 1}, {"float", b_float, 0, 1},
    {"bool", b_bool, 0, 1}, {"abs", b_abs, 1, 1}, {"len", b_len, 1, 1}, {"sum", b_sum, 1, 2}, {"any", b_any, 1, 1}, {"all", b_all, 1, 1}, {"list", b_list, 0, 1}, {"tuple", b_tuple, 0, 1},
    {"enumerate", b_enumerate, 1, 2}, {"zip", b_zip, 0, ARGS_MAX}, {"reversed", b_reversed, 1, 1}, {"divmod", b_divmod, 2, 2}, {"arange", b_arange, 1, 2}, {"pow", b_pow, 2, 2},
};

/* ------------------------------------------------------------- calls */

static bool all_static(const KVal *arg, int n)
{
    for (int i = 0; i < n; i++)
        if (arg[i].kind != K_STATIC)
            return false;
    return true;
}

static bool any_named(const Sym *names, int n)
{
    for (int i = 0; i < n; i++)
        if (names && names[i])
            return true;
    return false;
}

static KVal call_host(Body *B, Value f, const KVal *arg, const Sym *names, int n)
{
    Value pos[ARGS_MAX], kw[ARGS_MAX], y;
    Sym name[ARGS_MAX];
    int np = 0, nk = 0;

    for (int i = 0; i < n; i++)
        if (names && names[i]) {
            name[nk] = names[i];
            kw[nk++] = arg[i].v;
        } else {
            pos[np++] = arg[i].v;
        }
    y = value_call_kw(B->I, f, pos, np, kw, name, nk);
    if (y.tag == V_TENSOR && as_tensor(y)->rank == 0 && !as_tensor(y)->tracer) {
        Value item = tensor_op_item(B->I, y);               /* sqrt(4): a number */
        value_unref(y);
        y = item;
    }
    return is_err(y) ? kb_pending(B) : kb_static(B, y);
}

/* An elementwise function by its name: exp, maximum, where ...; math.exp too. */
static bool elementwise(const char *owner, const char *name, OpId *op)
{
    if (*owner && strcmp(owner, "math") && strcmp(owner, "Tensor"))
        return false;
    if (!strcmp(name, "fabs") || !strcmp(name, "fmin") || !strcmp(name, "fmax"))
        name = name[1] == 'a' ? "abs" : name[2] == 'i' ? "minimum" : "maximum";
    return op_find(name, op) && op_info[*op].family == FAM_MAP && *op != OP_convert && *op != OP_complex;
}

static KVal call_native(Body *B, const NativeObj *f, const KVal *arg, const Sym *names, int n)
{
    const NativeDef *d = f->def;
    KVal in[3], y;
    OpId op;

    if (!*d->owner)
        for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
            if (!strcmp(builtins[i].name, d->name)) {
                if (all_static(arg, n) && strcmp(d->name, "range") && strcmp(d->name, "arange"))
                    return call_host(B, vobj((void *)f), arg, names, n);
                if (n < builtins[i].least || n > builtins[i].most || any_named(names, n))
                    return kb_fail(B, "the arguments of %s() do not fit here", d->name);
                return builtins[i].run(B, arg, n);
            }
    if (all_static(arg, n))
        return call_host(B, vobj((void *)f), arg, names, n);
    if (!*d->owner && klibrary(B, d->name, arg, names, n, &y))
        return y;
    if (elementwise(d->owner, d->name, &op) && n == op_info[op].nin && !any_named(names, n)) {
        for (int i = 0; i < n; i++)
            in[i] = arg[i];
        return kb_apply(B, op, in, n);
    }
    if (!strcmp(d->owner, "math") && klibrary_written(B, d->owner, d->name, arg, names, n, &y))
        return y;
    if (!*d->owner && kglues(d->name))
        return kglued(B, d->name, arg, names, n);
    if (n && (arg[0].kind == K_BLOCK || arg[0].kind == K_PLACE) && (!*d->owner || !strcmp(d->owner, "_core")))
        return block_method(B, kb_value(B, arg[0]), d->name, arg + 1, names ? names + 1 : NULL, n - 1);
    return kb_fail(B, "%s%s%s() is not for values of a kernel", d->owner, *d->owner ? "." : "", d->name);
}

static KVal call_class(Body *B, Value c, const KVal *arg, const Sym *names, int n)
{
    const char *name = ((ClassObj *)c.o)->name->text;

    if (((ClassObj *)c.o)->flags & CLASS_NATIVE)
        for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
            if (!strcmp(builtins[i].name, name) && !(all_static(arg, n) && strcmp(name, "range")) && n >= builtins[i].least && n <= builtins[i].most)
                return builtins[i].run(B, arg, n);
    return all_static(arg, n) ? call_host(B, c, arg, names, n) : kb_fail(B, "%s() is not for values of a kernel", name);
}

/* A method that is bound, or an object with a function of its own: a kernel is the function that it was made of. */
static KVal call_object(Body *B, Value f, const KVal *arg, const Sym *names, int n, const Ast *at)
{
    Value fn;

    if (all_static(arg, n) && f.tag != V_INSTANCE)
        return call_host(B, f, arg, names, n);
    if (f.tag == V_BOUND && ((BoundObj *)f.o)->func.tag == V_FUNC && n < ARGS_MAX) {
        KVal all[ARGS_MAX];
        Sym name[ARGS_MAX] = {NULL};
        all[0] = kb_static_item(((BoundObj *)f.o)->self);
        for (int i = 0; i < n; i++) {
            all[i + 1] = arg[i];
            name[i + 1] = names ? names[i] : NULL;
        }
        return kb_inline(B, (FuncObj *)((BoundObj *)f.o)->func.o, all, name, n + 1, at);
    }
    fn = custom_function(f);                            /* its rule is the host's: a kernel has the function */
    if (fn.tag == V_FUNC)
        return kb_inline(B, (FuncObj *)fn.o, arg, names, n, at);
    fn = f.tag == V_INSTANCE ? value_getattr_opt(B->I, f, sym("fn")) : VERR;
    if (fn.tag == V_FUNC) {
        KVal keep = kb_static(B, fn);
        return kb_inline(B, (FuncObj *)keep.v.o, arg, names, n, at);
    }
    value_unref(fn);
    return all_static(arg, n) ? call_host(B, f, arg, names, n) : kb_fail(B, "this is not called with values of a kernel");
}

/* A function of the library that blocks have one of their own for: its body asks for elements at coordinates. */
static bool own_of_blocks(Body *B, const FuncObj *f, const KVal *arg, int n)
{
    int row = n && arg[0].kind == K_BLOCK && !strcmp(f->code->name->text, "take_along") ? prelude_find(f->code->name) : -1;
    Value v = row >= 0 ? prelude_value(B->I, row) : VNONE;

    return v.tag == V_FUNC && (const FuncObj *)v.o == f;
}

static KVal kb_call_value(Body *B, KVal f, const KVal *arg, const Sym *names, int n, const Ast *at)
{
    if (f.kind == K_METHOD && f.item[0].kind == K_BLOCK)
        return block_method(B, f.item[0], f.name->text, arg, names, n);
    if (f.kind == K_METHOD)
        return block_method(B, kb_value(B, f.item[0]), f.name->text, arg, names, n);
    if (f.kind != K_STATIC)
        return kb_fail(B, "this is not a function");
    switch (f.v.tag) {
    case V_NATIVE: return call_native(B, (NativeObj *)f.v.o, arg, names, n);
    case V_CLASS: return call_class(B, f.v, arg, names, n);
    case V_FUNC:
        if (own_of_blocks(B, (FuncObj *)f.v.o, arg, n))
            return block_method(B, arg[0], ((FuncObj *)f.v.o)->code->name->text, arg + 1, names ? names + 1 : NULL, n - 1);
        return kb_inline(B, (FuncObj *)f.v.o, arg, names, n, at);
    case V_DTYPE: return n == 1 ? kb_cast(B, arg[0], as_dtype(f.v)->dtype) : kb_fail(B, "a dtype takes one value");
    case V_BOUND: case V_INSTANCE: case V_NATIVEOBJ: return call_object(B, f.v, arg, names, n, at);
    default: return all_static(arg, n) ? call_host(B, f.v, arg, names, n) : kb_fail(B, "this is not called with values of a kernel");
    }
}

/* The operation that a call names: a variable of the program that happens to be called so is none. */
static const KernelOp *operation(Body *B, const AstCall *c)
{
    const KernelOp *op = kernel_called(c);

    if (op && AST_IS(c->func, Name) && AST_AS(c->func, Name)->bind == BIND_GLOBAL) {
        KVal f = kb_name(B, AST_AS(c->func, Name));
        return f.kind == K_STATIC && f.v.tag == V_NATIVE ? kernel_op_of(((NativeObj *)f.v.o)->def) : NULL;
    }
    return op;
}

static int call_args(Body *B, const AstCall *c, KVal *arg, Sym *names)
{
    int n = 0;

    for (int i = 0; i < c->args.n; i++) {
        const AstArg *a = AST_AS(c->args.at[i], Arg);
        KVal v, *item;
        int count;
        if (a->ast.kind != AST_Arg)
            return kb_fail(B, "this argument cannot stand in a kernel"), -1;
        v = kb_expr(B, a->value);
        count = a->stars == 1 && !kb_bad(v) ? kb_sequence(B, v, &item) : 1;
        if (kb_bad(v) || count < 0 || a->stars == 2 || n + count > ARGS_MAX)
            return kb_fail(B, "arguments by * are known before the launch in a kernel, at most %d", ARGS_MAX), -1;
        for (int k = 0; k < count; k++) {
            names[n] = a->name;
            arg[n++] = a->stars ? item[k] : v;
        }
    }
    return n;
}

static bool is_known(KVal v) { return v.kind == K_STATIC || (v.kind == K_TUPLE && !v.name && all_static(v.item, v.n)); }

/* Tuples of what is known are known, too, where all arguments are: a function of the host takes them. */
static void tuples_known(Body *B, KVal *arg, int n)
{
    for (int i = 0; i < n; i++)
        if (!is_known(arg[i]))
            return;
    for (int i = 0; i < n; i++) {
        Value y;
        if (arg[i].kind == K_STATIC)
            continue;
        y = tuple_new(arg[i].n);
        for (int k = 0; k < arg[i].n; k++)
            as_tuple(y)->at[k] = value_ref(arg[i].item[k].v);
        arg[i] = kb_static(B, y);
    }
}

static bool is_print(KVal f)
{
    const NativeDef *d = f.kind == K_STATIC && f.v.tag == V_NATIVE ? ((NativeObj *)f.v.o)->def : NULL;

    return d && !*d->owner && !strcmp(d->name, "print");
}

KVal kb_call(Body *B, AstCall *c)
{
    const KernelOp *op = operation(B, c);
    KVal arg[ARGS_MAX], f;
    Sym names[ARGS_MAX] = {NULL};
    int n;

    if (B->failed)
        return KBAD;
    if (op)
        return kb_operation(B, op, c);
    f = kb_expr(B, c->func);
    if (is_print(f))
        return kb_print(B, c);
    n = kb_bad(f) ? -1 : call_args(B, c, arg, names);
    if (n < 0)
        return KBAD;
    if (AST_IS(c->func, Attribute) && !all_static(arg, n))
        f = klibrary_of_arrays(B, f, AST_AS(c->func, Attribute)->attr);
    if (f.kind == K_STATIC && f.v.tag != V_FUNC)
        tuples_known(B, arg, n);
    B->b.span = c->ast.span;
    return kb_call_value(B, f, arg, names, n, &c->ast);
}
