/*
 * Types as examples.
 *
 * An example tensor has one element in memory and strides of 0, however large
 * it is.  The sizes in a type are numbers, names, or expressions of both; a name
 * that is written as text is always a size of the call, another name may be a
 * number of the program.
 */
#include "frontend/tensor/export_types.h"

#include "frontend/eval/lower.h"
#include "frontend/tensor/bind.h"

#include "ir/core/dim_ask.h"

#include <string.h>

static bool no(StrBuf *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool no(StrBuf *why, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    sb_vprintf(why, fmt, ap);
    va_end(ap);
    return false;
}

static char *copied(const char *s, size_t n)
{
    char *t = tsr_alloc(n + 1);

    memcpy(t, s, n);
    t[n] = 0;
    return t;
}

/* ------------------------------------------------------------- sizes */

/* What a name of the program stands for. A new reference; V_ERR: nothing. */
static Value named_value(const Example *x, Sym name)
{
    return x->func && x->func->module ? value_getattr_opt(x->I, vobj(x->func->module), name) : VERR;
}

/* Sizes of an expression: numbers of the program, else variables, whose value here gives `var`. */
typedef struct Lookup { Example *x; bool literal; Dim (*var)(Example *x, int i); } Lookup;

static int var_place(Example *x, Sym name)
{
    for (int i = 0; i < x->nvars; i++)
        if (x->var[i] == name)
            return i;
    if (x->nvars == EXPORT_VARS)
        return -1;
    x->var[x->nvars] = name;
    return x->nvars++;
}

static Dim size_of_name(void *st, Sym name)
{
    Lookup *l = st;
    Value v = l->literal ? VERR : named_value(l->x, name);
    int i;

    if (v.tag == V_INT)
        return v.i;
    value_unref(v);
    i = var_place(l->x, name);
    return i < 0 ? DIM_BAD : l->var(l->x, i);
}

static Dim var_number(Example *x, int i) { return x->size[i]; }
static Dim var_fresh(Example *x, int i) { return dim_var(x->var[i], 0, INT64_MAX); }

static bool size_of(Example *x, const SizeText *s, Dim (*var)(Example *x, int i), Dim *out)
{
    Lookup l = {x, s->literal, var};

    *out = s->size;
    return !s->text || (dim_parse(s->text, size_of_name, &l, out) && *out != DIM_BAD);
}

static bool read_size(Example *x, Ast *e, SizeText *out, const char *param, StrBuf *why)
{
    StrBuf text = {0};
    Dim d;

    *out = (SizeText){.size = AST_IS(e, Int) ? AST_AS(e, Int)->value : 0, .literal = AST_IS(e, Str)};
    if (AST_IS(e, Int))
        return true;
    if (AST_IS(e, Str))
        sb_write(&text, AST_AS(e, Str)->value.s, AST_AS(e, Str)->value.n);
    else
        ast_print(e, &text);
    out->text = copied(sb_str(&text), text.n);
    sb_done(&text);
    return size_of(x, out, var_fresh, &d) || no(why, "parameter '%s': '%s' is no size that a call can tell; name it, or give an example in args",
                                                   param, out->text);
}

/* ------------------------------------------------------------- types */

static bool element_dtype(Example *x, Ast *e, DType *out)
{
    const char *name;
    Value v;

    while (AST_IS(e, BinOp) && AST_AS(e, BinOp)->op == AOP_MATMUL)     /* bf16 @accum(f32): the function itself gives the policy */
        e = AST_AS(e, BinOp)->left;
    name = AST_IS(e, Name) ? AST_AS(e, Name)->id->text : AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : NULL;
    if (name && dtype_find(name, out))
        return true;
    if (!AST_IS(e, Name))
        return false;
    v = named_value(x, AST_AS(e, Name)->id);
    bool is = v.tag == V_DTYPE && arg_dtype(x->I, v, out);
    value_unref(v);
    return is;
}

static void add_leaf(Example *x, const ExampleTensor *t, const char *name)
{
    vec_push(&x->tensor, *t);
    vec_push(&x->leaf, copied(name, strlen(name)));
}

/* A tensor without memory of its own for each leaf is put in later (example_fill): None holds its place. */
static bool read_tensor(Example *x, AstSubscript *s, bool region, const char *name, StrBuf *why)
{
    AstSeq elts = AST_IS(s->index, Tuple) ? AST_AS(s->index, Tuple)->elts : (AstSeq){&s->index, 1};
    ExampleTensor t = {.dtype = DT_f32};
    int n = elts.n;
    bool ok = true;

    if (n > region && element_dtype(x, elts.at[n - 1], &t.dtype) && !--n)
        return no(why, "parameter '%s' needs its sizes, as in Tensor[\"B\", 784, f32], or an example in args", name);
    for (int i = region; i < n && ok; i++) {
        if (AST_IS(elts.at[i], Const) || (AST_IS(elts.at[i], Str) && !strncmp(AST_AS(elts.at[i], Str)->value.s, "...", 3)) || t.rank == 16)
            ok = no(why, "parameter '%s': how many axes stand for '...'? Write them, or give an example in args", name);
        else
            ok = read_size(x, elts.at[i], &t.axis[t.rank++], name, why);
    }
    add_leaf(x, &t, name);
    return ok;
}

static bool read_type(Example *x, Ast *annotation, const char *name, StrBuf *why, Value *out);

static bool read_tuple(Example *x, AstSeq elts, const char *name, StrBuf *why, Value *out)
{
    bool ok = true;

    *out = tuple_new(elts.n);
    for (int i = 0; i < elts.n; i++)
        as_tuple(*out)->at[i] = VNONE;
    for (int i = 0; i < elts.n && ok; i++) {
        StrBuf part = {0};
        sb_printf(&part, "%s.%d", name, i);
        ok = read_type(x, elts.at[i], sb_str(&part), why, &as_tuple(*out)->at[i]);
        sb_done(&part);
    }
    return ok;
}

static bool read_type(Example *x, Ast *annotation, const char *name, StrBuf *why, Value *out)
{
    bool region = false;
    AstSubscript *s = annotation ? tensor_brackets(annotation, &region) : NULL;

    *out = VNONE;
    if (s)
        return read_tensor(x, s, region, name, why);
    if (annotation && AST_IS(annotation, Subscript)) {
        AstSubscript *t = AST_AS(annotation, Subscript);
        const char *base = AST_IS(t->value, Name) ? AST_AS(t->value, Name)->id->text : "";
        if ((!strcmp(base, "tuple") || !strcmp(base, "Tuple")) && AST_IS(t->index, Tuple))
            return read_tuple(x, AST_AS(t->index, Tuple)->elts, name, why, out);
    }
    return no(why, "parameter '%s' needs a type such as Tensor[\"B\", 784, f32], a default, or an example in args", name);
}

/* ------------------------------------------------------------- parameters */

/* An argument more; takes v. */
static void pass(Example *x, Value v, Sym name, bool given)
{
    vec_push(&x->value, v);
    vec_push(&x->name, name);
    vec_push(&x->given, given);
}

static bool read_example(Example *x, Value v, Sym name, StrBuf *why)
{
    TensorVec leaf = {0};
    bool ok = tree_leaves(x->I, v, TREE_ALL, &leaf) && tree_names(x->I, v, name->text, &x->leaf);

    for (int i = 0; ok && i < leaf.n; i++) {
        ExampleTensor t = {.like = leaf.at[i]};
        ok = !leaf.at[i]->tracer;
        vec_push(&x->tensor, t);
    }
    vec_free(&leaf);
    pass(x, value_ref(v), name, true);
    return ok || no(why, "the example for '%s' is no tree of tensors", name->text);
}

static bool read_param(Example *x, const AstParam *p, Value dflt, Value args, StrBuf *why)
{
    Value given = args.tag == V_DICT ? dict_get_sym(as_dict(args), p->name) : VERR, v;
    bool ok;

    if (p->kind == PARAM_VARARGS || p->kind == PARAM_KWARGS || p->kind == PARAM_ANY)
        return no(why, "parameter '%s' takes any number of arguments", p->name ? p->name->text : "...");
    if (p->kind == PARAM_CONSTRAINT)
        return true;
    if (!is_err(given))
        return read_example(x, given, p->name, why);
    if (!is_err(dflt))
        return true;
    ok = read_type(x, p->annotation, p->name->text, why, &v);
    pass(x, v, p->name, false);
    return ok;
}

static bool known_names(const AstFunctionDef *def, Value args, StrBuf *why)
{
    int64_t pos = 0;
    Value key, v;

    while (args.tag == V_DICT && dict_next(as_dict(args), &pos, &key, &v)) {
        bool known = false;
        for (int i = 0; i < def->params.n && key.tag == V_STR; i++)
            known |= AST_AS(def->params.at[i], Param)->name == sym_n(as_str(key)->s, as_str(key)->len);
        if (!known)
            return no(why, "args has an example for '%s', which is no parameter", key.tag == V_STR ? as_str(key)->s : "?");
    }
    return true;
}

/* The function with text behind decorators and objects, and whether its first parameter is given. */
static FuncObj *function_of(Value f, int *skip)
{
    *skip = 0;
    if (f.tag == V_BOUND) {
        f = ((BoundObj *)f.o)->func;
        *skip = 1;
    }
    return f.tag == V_FUNC && ((FuncObj *)f.o)->code->ast && AST_IS(((FuncObj *)f.o)->code->ast, FunctionDef) ? (FuncObj *)f.o : NULL;
}

bool example_read(Interp *I, Value f, Value args, Example *x, StrBuf *why)
{
    const AstFunctionDef *def;
    int skip;

    *x = (Example){.I = I, .func = function_of(f, &skip)};
    if (!x->func)
        return no(why, "it is no function of the program with named parameters");
    def = AST_AS(x->func->code->ast, FunctionDef);
    if (x->func->code->is_generator || x->func->code->is_async)
        return no(why, "a generator or coroutine has no graph");
    if (!known_names(def, args, why))
        return false;
    for (int i = skip; i < def->params.n; i++) {
        Value dflt = i < x->func->code->nparams && x->func->defaults ? x->func->defaults[i] : VERR;
        if (!read_param(x, AST_AS(def->params.at[i], Param), dflt, args, why))
            return false;
        if (x->npos == i - skip && x->value.n > x->npos && AST_AS(def->params.at[i], Param)->kind <= PARAM_NORMAL)
            x->npos++;
    }
    return true;
}

/* ------------------------------------------------------------- values */

static Tensor *example_tensor(Example *x, const ExampleTensor *t)
{
    Dim shape[16];
    int64_t still[16] = {0};
    Tensor *one, *r;

    if (t->like)
        return tensor_ref(t->like);
    for (int i = 0; i < t->rank; i++)
        if (!size_of(x, &t->axis[i], var_number, &shape[i]) || !dim_is_const(shape[i]))
            return NULL;
    if (!(one = tensor_zeros(t->dtype, 0, NULL)))
        return NULL;
    r = tensor_view(one, t->rank, shape, still, 0);
    tensor_unref(one);
    return r;
}

/* v with its marks, None, replaced by the next tensors. */
static bool fill(Example *x, Value *v, int *at)
{
    Tensor *t;

    if (v->tag == V_TUPLE) {
        for (int64_t i = 0; i < as_tuple(*v)->n; i++)
            if (!fill(x, &as_tuple(*v)->at[i], at))
                return false;
        return true;
    }
    if (!(t = example_tensor(x, &x->tensor.at[(*at)++])))
        return false;
    value_unref(*v);
    *v = tensor_value(t);
    return true;
}

bool example_fill(Example *x)
{
    int at = 0;

    for (int i = 0; i < x->value.n; i++) {
        TensorVec leaf = {0};
        if (x->given.at[i]) {                                   /* an example of the program's stays as it is */
            if (!tree_leaves(x->I, x->value.at[i], TREE_ALL, &leaf))
                return false;
            at += leaf.n;
            vec_free(&leaf);
        } else if (!fill(x, &x->value.at[i], &at)) {
            return false;
        }
    }
    return true;
}

CallArgs example_call(const Example *x)
{
    return (CallArgs){x->value.at, x->npos, x->value.at + x->npos, x->name.at + x->npos, x->value.n - x->npos};
}

/* ------------------------------------------------------------- sizes while staging */

static Dim var_staged(Example *x, int i) { return x->dim[i]; }

static void declare_sizes(void *st, SizeVars *v, TType *type, int n)
{
    Example *x = st;

    for (int i = 0; i < x->nvars; i++) {
        x->dim[i] = dim_sized(x->var[i], x->size[i]);
        vec_push(&v->var, x->dim[i]);
    }
    for (int i = 0; i < n && i < x->tensor.n; i++)
        for (int k = 0; k < x->tensor.at[i].rank; k++)
            if (!size_of(x, &x->tensor.at[i].axis[k], var_staged, &type[i].shape[k]))
                tsr_bug("a size of '%s' is none any more", x->leaf.at[i]);
}

SizeDeclare example_sizes(Example *x) { return (SizeDeclare){declare_sizes, x}; }

bool example_is_served(Example *x, Graph *g, Tensor *const *first, int nfirst)
{
    int n = nfirst + x->tensor.n, made = 0;
    Tensor **t = tsr_calloc(sizeof *t * (size_t)(n + 1));
    bool ok = true;

    for (int i = 0; i < nfirst; i++)
        t[i] = first[i];
    for (; ok && made < x->tensor.n; made++)
        ok = (t[nfirst + made] = example_tensor(x, &x->tensor.at[made])) != NULL;
    ok = ok && graph_takes(g, t);
    for (int i = 0; i < made; i++)
        tensor_unref(t[nfirst + i]);
    tsr_free(t);
    return ok;
}

void example_done(Example *x)
{
    for (int i = 0; i < x->value.n; i++)
        value_unref(x->value.at[i]);
    for (int i = 0; i < x->leaf.n; i++)
        tsr_free(x->leaf.at[i]);
    for (int i = 0; i < x->tensor.n; i++)
        for (int k = 0; k < x->tensor.at[i].rank; k++)
            tsr_free(x->tensor.at[i].axis[k].text);
    vec_free(&x->value);
    vec_free(&x->given);
    vec_free(&x->name);
    vec_free(&x->tensor);
    vec_free(&x->leaf);
}
