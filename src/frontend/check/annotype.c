/*
 * Annotations as types. Whether one type fits another is fits.c's.
 *
 * A dimension name means the same size everywhere in a function and in the
 * functions inside it.  What an annotation says beyond this file's
 * understanding is TY_ANY.
 */
#include "frontend/check/checker.h"
#include "frontend/eval/native.h"
#include "frontend/kernel/kernel.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- dims */

static bool find_dim(const DimNames *d, Sym name, Dim *out)
{
    for (int i = 0; i < d->n; i++)
        if (d->at[i].name == name) {
            *out = d->at[i].dim;
            return true;
        }
    return false;
}

static bool module_number(Check *C, Sym name, Dim *out)
{
    const Local *l = scope_local(C->home->scope, name);
    const Type *t;

    if (!l)
        return false;
    t = l->nbinds == 1 && (int)l->slot < C->home->nglob ? C->home->glob[l->slot] : NULL;
    if (!t || t->kind != TY_INT || t->value == DIM_BAD)
        return false;
    *out = t->value;
    return true;
}

/* The size of that name, of this function or one around; made on first use. */
static Dim dims_name(Check *C, Sym name)
{
    Dim d;
    CFrame *f;

    if (C->aliases)                                 /* a size of the type that is named, each time another */
        return dim_open();
    for (f = C->frame; f; f = f->up)
        if ((f->up || f == C->frame) && find_dim(f->cls && !f->fn ? &f->cls->dims : &f->dims, name, &d))
            return d;
    if (C->constants && module_number(C, name, &d))
        return d;
    for (f = C->frame; f->up && !f->fn && !f->cls; f = f->up)
        ;
    d = dim_var(name, 1, INT64_MAX);
    vec_push(f->cls && !f->fn ? &f->cls->dims : &f->dims, ((NamedDim){name, d}));
    return d;
}

static Dim dim_of_name(void *st, Sym name)
{
    return dims_name(st, name);
}

static const Type *named_type(Check *C, AstName *n);

static Dim dim_of_ast(Check *C, Ast *e)
{
    Dim a, b;
    const Type *t;

    switch (e->kind) {
    case AST_Int:
        return dim_const(AST_AS(e, Int)->value);
    case AST_Str:
        if (!strcmp(AST_AS(e, Str)->value.s, "?") || !dim_parse(AST_AS(e, Str)->value.s, dim_of_name, C, &a))
            return dim_open();
        return a;
    case AST_Name:
        if (AST_AS(e, Name)->bind == BIND_DIM)
            return dims_name(C, AST_AS(e, Name)->id);
        t = named_type(C, AST_AS(e, Name));
        return t && t->kind == TY_INT && t->value != DIM_BAD ? t->value : dim_open();
    case AST_BinOp:
        a = dim_of_ast(C, AST_AS(e, BinOp)->left);
        b = dim_of_ast(C, AST_AS(e, BinOp)->right);
        switch (AST_AS(e, BinOp)->op) {
        case AOP_ADD: return dim_add(a, b);
        case AOP_SUB: return dim_sub(a, b);
        case AOP_MUL: return dim_mul(a, b);
        case AOP_FLOORDIV: return dim_floordiv(a, b);
        case AOP_MOD: return dim_mod(a, b);
        default: return dim_open();
        }
    default:
        return dim_open();
    }
}

/* ------------------------------------------------------------- dtypes and policies */

static bool dtype_name(const Ast *e, DType *out)
{
    if (e->kind == AST_Name)
        return dtype_find(AST_AS(e, Name)->id->text, out);
    return e->kind == AST_Attribute && dtype_find(AST_AS(e, Attribute)->attr->text, out);
}

static const char *last_name(const Ast *e)
{
    if (e && e->kind == AST_Call)
        e = AST_AS(e, Call)->func;
    if (e && e->kind == AST_Attribute)
        return AST_AS(e, Attribute)->attr->text;
    return e && e->kind == AST_Name ? AST_AS(e, Name)->id->text : "";
}

/*
 * What a name of the program is in an annotation.  A signature is read in a frame without variables (fn_sig): its names are
 * those around the function, which are known where one statement alone binds them.
 */
static const Type *named_type(Check *C, AstName *n)
{
    CFrame *f = C->frame, *up = f->up;
    bool own = n->bind == BIND_LOCAL || n->bind == BIND_CELL;
    const Type *t;
    Local *l;

    if (f->var || !up || n->bind == BIND_GLOBAL || n->bind == BIND_PRELUDE)
        return name_type(C, n);
    l = own ? scope_local(up->scope, n->id) : NULL;
    if (own && (!l || l->nbinds > 1 || (int)n->slot >= up->nvar || !up->var[n->slot]))
        return T_ANY;
    C->frame = up;
    t = name_type(C, n);
    C->frame = f;
    return t;
}

/* A class, object or dtype of the program where the dtype stands: Tensor["D", QuantizedPolicy]. */
static const Type *policy_name(Check *C, Ast *e)
{
    const Type *t = e->kind == AST_Name && AST_AS(e, Name)->bind != BIND_DIM ? named_type(C, AST_AS(e, Name)) : NULL;

    return t && (t->kind == TY_CLASS || t->kind == TY_INSTANCE || t->kind == TY_DTYPE) ? t : NULL;
}

/* Such a class makes of a tensor what it likes. */
static bool quantises(const Type *t)
{
    static Sym quantize;

    quantize = quantize ? quantize : sym("quantize");
    return (t->kind == TY_CLASS || t->kind == TY_INSTANCE) && cls_find(t->ref, quantize);
}

/* A dtype with its policies; false: it is no dtype. */
static bool element_of_ast(Check *C, Ast *e, TType *out)
{
    DType dt;

    out->dtype = DT_NONE;
    out->policy = NULL;
    if (e->kind == AST_BinOp && AST_AS(e, BinOp)->op == AOP_MATMUL) {
        if (!element_of_ast(C, AST_AS(e, BinOp)->left, out))
            return false;
        if (out->dtype != DT_NONE)
            policy_suffix(C, out->dtype, &out->policy, AST_AS(e, BinOp)->right);
        return true;
    }
    if (dtype_name(e, &dt)) {
        out->dtype = (uint8_t)dt;
        return true;
    }
    if (e->kind == AST_Call) {                      /* Policy(...) */
        element_of_type(C, expr(C, e), out);
        return true;
    }
    return element_of_type(C, policy_name(C, e), out) || policy_name(C, e) || !strcmp(last_name(e), "dtype");
}

/* A name of which nothing is known may be a policy or a size; so may one that stands for several things, as [f32, bool] in turn. */
static bool is_either(Check *C, Ast *e)
{
    bool named = AST_IS(e, Name) && AST_AS(e, Name)->bind != BIND_DIM && AST_AS(e, Name)->bind != BIND_PRELUDE;
    const Type *t = named ? named_type(C, AST_AS(e, Name)) : NULL;

    return t && (t == T_ANY || t->kind == TY_UNION || t->kind == TY_NATIVE);
}

/* ------------------------------------------------------------- types */

enum { ALIAS_DEPTH = 6 };       /* names for types that name types, which may be themselves */

static bool is_rest(const Ast *e)
{
    if (e->kind == AST_Const)
        return AST_AS(e, Const)->value == CONST_ELLIPSIS;
    return e->kind == AST_Str && !strncmp(AST_AS(e, Str)->value.s, "...", 3);
}

static AstSeq elements(Ast **index)
{
    return AST_IS(*index, Tuple) ? AST_AS(*index, Tuple)->elts : (AstSeq){index, 1};
}

static const Type *tensor_form(Check *C, AstSeq elts)
{
    TType t = {.dtype = DT_NONE};
    int n = elts.n, rest = 0, front = 0, count = 0;

    bool either = n && is_either(C, elts.at[n - 1]);

    if (n && policy_name(C, elts.at[n - 1]) && quantises(policy_name(C, elts.at[n - 1])))
        return type_of_kind(TY_HIDDEN);         /* whatever tensor is assigned, it is not that tensor afterwards */
    if (either || (n && element_of_ast(C, elts.at[n - 1], &t))) {
        n--;
        if (!n)
            t.rank = RANK_UNKNOWN;                  /* Tensor[f32] */
    }
    if (n > 16)
        return T_ANY;
    for (int i = 0; i < n; i++) {
        if (is_rest(elts.at[i])) {
            rest++;
            front = count;
        } else if (!AST_IS(elts.at[i], Tuple) || AST_AS(elts.at[i], Tuple)->elts.n) {       /* Tensor[(), f32] has no axes */
            t.shape[count++] = dim_of_ast(C, elts.at[i]);
        }
    }
    if (t.rank == RANK_UNKNOWN || rest > 1 || (either && rest))
        return type_tensor(&(TType){.dtype = t.dtype, .policy = t.policy, .rank = RANK_UNKNOWN});
    t.rank = (uint8_t)(rest || either ? RANK_UNKNOWN : count);
    return either ? type_tensor_rest(&t, count, 0) : rest ? type_tensor_rest(&t, front, count - front) : type_tensor(&t);
}

/* Tile2D and Tile3D say in their names how many sizes they have. */
static const Type *tile_form(Check *C, AstSubscript *s, const char *base, AstSeq elts)
{
    const Type *t = tensor_form(C, elts);
    int want = base[4] - '0';
    char count[2] = {base[4], 0}, given[24];

    snprintf(given, sizeof given, "%d", t->kind == TY_TENSOR ? t->tensor->rank : 0);
    if (t->kind == TY_TENSOR && t->tensor->rank != RANK_UNKNOWN && t->tensor->rank != want)
        REPORT(C, E0310, s->ast.span, base, count, given);
    else
        return t;
    return T_ANY;
}

static const Type *or_any(const Type *t)
{
    return t ? t : T_ANY;
}

static const Type *tuple_form(Check *C, AstSeq elts)
{
    const Type *item[ITEMS_MAX];

    if (elts.n == 2 && is_rest(elts.at[1]))
        return type_tuple_any(or_any(annotation(C, elts.at[0])));
    if (elts.n > ITEMS_MAX)
        return type_tuple_any(T_ANY);
    for (int i = 0; i < elts.n; i++)
        item[i] = or_any(annotation(C, elts.at[i]));
    return type_tuple(item, elts.n);
}

static const Type *callable_form(Check *C, AstSeq elts)
{
    const Type *param[ITEMS_MAX];
    AstSeq list;

    if (elts.n != 2 || !AST_IS(elts.at[0], List))
        return type_callable(NULL, -1, T_ANY);
    list = AST_AS(elts.at[0], List)->elts;
    if (list.n > ITEMS_MAX)
        return T_ANY;
    for (int i = 0; i < list.n; i++)
        param[i] = or_any(annotation(C, list.at[i]));
    return type_callable(param, list.n, or_any(annotation(C, elts.at[1])));
}

static const Type *union_form(Check *C, AstSeq elts)
{
    const Type *t = NULL;

    for (int i = 0; i < elts.n; i++) {
        const Type *m = or_any(annotation(C, elts.at[i]));
        t = t ? type_union(t, m) : m;
    }
    return or_any(t);
}

static bool is(const char *s, const char *a, const char *b)
{
    return !strcmp(s, a) || (b && !strcmp(s, b));
}

static const Type *library_form(Check *C, AstName *n);

/* KVCache["B", "H", S_max, "D_h", bf16]: an object whose K and V are tensors of these sizes, and of a number of tokens that is not known. */
static const Type *cache_form(Check *C, AstSubscript *s, AstSeq elts)
{
    const Type *cls = AST_IS(s->value, Name) && AST_AS(s->value, Name)->bind == BIND_PRELUDE ? name_type(C, AST_AS(s->value, Name)) : T_ANY;
    const Type *t = tensor_form(C, elts);
    CallArg of[2];
    TType sizes;

    if (cls->kind != TY_CLASS || t->kind != TY_TENSOR || t->tensor->rank != 4)
        return T_ANY;
    sizes = *t->tensor;
    sizes.shape[2] = dim_open();
    of[0] = of[1] = (CallArg){.type = type_tensor(&sizes), .node = &s->ast};
    return cls_call(C, (Cls *)cls->ref, &(CallArgs){of, 2, false}, &s->ast);
}

static const Type *subscript_form(Check *C, AstSubscript *s)
{
    const char *base = last_name(s->value);
    AstSeq elts = elements(&s->index);

    if (is(base, "Tensor", NULL) || is(base, "Tile", "KTile"))
        return tensor_form(C, elts);
    if (is(base, "Region", NULL))                   /* its privilege, then as a tensor */
        return elts.n > 1 ? tensor_form(C, (AstSeq){elts.at + 1, elts.n - 1}) : type_tensor_unknown();
    if (!strncmp(base, "Tile", 4) && base[4] >= '1' && base[4] <= '9' && base[5] == 'D')
        return tile_form(C, s, base, elts);
    if (is(base, "KVCache", NULL))
        return cache_form(C, s, elts);
    if (is(base, "List", "list"))
        return type_list(elts.n == 1 ? or_any(annotation(C, elts.at[0])) : T_ANY);
    if (is(base, "Dict", "dict") && elts.n == 2)
        return type_dict(or_any(annotation(C, elts.at[0])), or_any(annotation(C, elts.at[1])));
    if (is(base, "Set", "set"))
        return type_set(elts.n == 1 ? or_any(annotation(C, elts.at[0])) : T_ANY);
    if (is(base, "Tuple", "tuple"))
        return tuple_form(C, elts);
    if (is(base, "Callable", NULL))
        return callable_form(C, elts);
    if (is(base, "Maybe", NULL) && AST_IS(s->value, Name))
        return library_form(C, AST_AS(s->value, Name));
    if (is(base, "Optional", NULL) && elts.n == 1)
        return type_union(or_any(annotation(C, elts.at[0])), T_NONE);
    if (is(base, "Union", NULL))
        return union_form(C, elts);
    return T_ANY;
}

static const struct { const char *name; TypeKind kind; } simple[] = {
    {"int", TY_INT}, {"float", TY_FLOAT}, {"str", TY_STR}, {"bool", TY_BOOL}, {"complex", TY_COMPLEX}, {"bytes", TY_BYTES},
};

/* What an object of that native class is; none where much of it is made elsewhere. */
static const Type *native_form(const Type *t)
{
    const NativeDef *d = t->ref;

    return d->sig && !strncmp(d->sig, "type[", 5) && native_find(d->name, "appendleft") ? type_object(sym(d->name)) : T_ANY;
}

/* A Maybe is an object of the library's class: no tensor until it is unwrapped; so are the library's layers. */
static const Type *library_form(Check *C, AstName *n)
{
    const Type *t = n->bind == BIND_PRELUDE ? name_type(C, n) : T_ANY;

    if (t->kind == TY_NATIVE)
        return native_form(t);

    return t->kind == TY_CLASS && !((const Cls *)t->ref)->is_protocol && !((const Cls *)t->ref)->is_dict ? type_instance(t->ref, NULL) : T_ANY;
}

/* Is a value written as a type is: Tensor["B", 4], list[float], int | None? */
static bool is_written_type(const Ast *e)
{
    static const char *const bases[] = {"Tensor", "Tile", "KTile", "List", "list", "Dict", "dict", "Set", "set", "Tuple", "tuple", "Callable",
                                        "Optional", "Union"};

    if (AST_IS(e, BinOp) && AST_AS(e, BinOp)->op == AOP_BITOR)
        return true;
    for (size_t i = 0; AST_IS(e, Subscript) && i < sizeof bases / sizeof *bases; i++)
        if (is(last_name(AST_AS(e, Subscript)->value), bases[i], NULL))
            return true;
    return false;
}

/*
 * Image = Tensor["B", 3, 32, 32]: the type that one statement of the module alone gives a name; NULL: none. Named sizes in it may differ from
 * use to use: def product(a: Matrix, b: Matrix) -> Matrix.
 */
static const Type *alias_form(Check *C, const AstName *n)
{
    const Local *l = n->bind == BIND_GLOBAL && (int)n->slot < C->home->nglob ? scope_local(C->home->scope, n->id) : NULL;
    Ast *value = l && l->nbinds == 1 && !l->is_shared && l->slot == n->slot ? C->home->from[n->slot] : NULL;
    const Type *t;

    if (!is_written_type(value) || C->aliases >= ALIAS_DEPTH)
        return NULL;
    C->aliases++;
    t = annotation(C, value);
    C->aliases--;
    return t;
}

static const Type *name_form(Check *C, AstName *n)
{
    const char *s = n->id->text;
    const Type *t;

    if (n->bind != BIND_PRELUDE && n->bind != BIND_DIM && (t = alias_form(C, n)))
        return t;
    if (n->bind != BIND_PRELUDE && n->bind != BIND_DIM) {
        const Cls *c = (t = name_type(C, n)) && t->kind == TY_CLASS ? t->ref : NULL;
        if (t->kind == TY_NATIVE)
            return native_form(t);
        return c && !c->is_protocol && !c->is_dict ? type_instance(c, NULL) : T_ANY;
    }
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
        if (!strcmp(simple[i].name, s))
            return simple[i].kind == TY_INT ? type_int(DIM_BAD) : type_of_kind(simple[i].kind);
    if (is(s, "Tensor", NULL) || is(s, "Tile", "KTile") || is(s, "Region", NULL))
        return type_tensor_unknown();
    if (is(s, "List", "list"))
        return type_list(T_ANY);
    if (is(s, "Dict", "dict"))
        return type_dict(T_ANY, T_ANY);
    if (is(s, "Set", "set"))
        return type_set(T_ANY);
    if (is(s, "Tuple", "tuple"))
        return type_tuple_any(T_ANY);
    if (is(s, "Callable", NULL))
        return type_callable(NULL, -1, T_ANY);
    return library_form(C, n);
}

const Type *annotation(Check *C, Ast *a)
{
    const Type *t = T_ANY;

    if (!a)
        return NULL;
    if (C->depth > 200)
        return T_ANY;
    C->depth++;
    switch (a->kind) {
    case AST_Name:
        t = name_form(C, AST_AS(a, Name));
        break;
    case AST_Subscript:
        t = subscript_form(C, AST_AS(a, Subscript));
        break;
    case AST_Const:
        t = AST_AS(a, Const)->value == CONST_NONE ? T_NONE : T_ANY;
        break;
    case AST_Attribute:
        t = is(AST_AS(a, Attribute)->attr->text, "Tensor", "Tile") ? type_tensor_unknown() : T_ANY;
        break;
    case AST_BinOp:
        if (AST_AS(a, BinOp)->op == AOP_MATMUL)
            t = annotation(C, AST_AS(a, BinOp)->left);
        else if (AST_AS(a, BinOp)->op == AOP_BITOR)
            t = type_union(annotation(C, AST_AS(a, BinOp)->left), annotation(C, AST_AS(a, BinOp)->right));
        break;
    default:
        break;
    }
    C->depth--;
    return t;
}

/* What the library says of its host parameters is libargs.c's: they take more than a program's. */
static const Type *signed_type(Check *C, const AstFunctionDef *def, Ast *a)
{
    const Type *t = annotation(C, a);

    return t && C->home->library && t->kind != TY_TENSOR && !kernel_def(def) ? NULL : t;
}

/* The signature, read once in a frame of its own so that its dims are its own. */
Sig *fn_sig(Check *C, Fn *f)
{
    AstFunctionDef *def = AST_AS(f->node, FunctionDef);
    CFrame frame = {.up = f->around, .fn = f, .scope = f->scope}, *outer = C->frame;
    Home *home = C->home;

    if (f->sig.ready)
        return &f->sig;
    f->sig.ready = true;
    f->sig.param = arena_array(&C->arena, const Type *, f->scope->nslots + 1);
    if (f->node->kind == AST_Lambda)
        return &f->sig;
    C->frame = &frame;
    frame.home = C->home = f->around->home;
    for (int i = 0; i < f->params.n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->name && p->kind <= PARAM_KWARGS)
            f->sig.param[p->slot] = signed_type(C, def, p->annotation);
    }
    C->constants = true;
    f->sig.ret = annotation(C, def->returns);
    C->constants = false;
    C->frame = outer;
    C->home = home;
    f->sig.dims = frame.dims;
    if (f->sig.dims.n)
        vec_push(&C->signed_fns, f);
    return &f->sig;
}
