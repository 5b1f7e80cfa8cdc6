/*
 * Types in annotations.  A type is an ordinary expression, but its names mean
 * more: inside Tensor[...] and its kin an unknown name is a dimension, after @
 * it is a policy, and a lone capital is a free type variable (SYN-140).
 */
#include "frontend/check/resolve.h"

#include "base/words.h"
#include "frontend/prelude.h"
#include "ir/core/dtype.h"

#include <ctype.h>
#include <string.h>

typedef enum { IN_TYPE, IN_DIM } Position;

/* Containers hold types between their brackets; everything else that is not the program's own holds dims. */
static const char *const containers[] = {
    "List", "list", "Dict", "dict", "Set", "set", "FrozenSet", "frozenset", "Tuple", "tuple", "Callable", "Optional", "Union",
    "Maybe", "Iterable", "Iterator", "Sequence", "Mapping", "MutableMapping", "Generator", "AsyncIterator", "Type", "type",
    "Deque", "deque", "DefaultDict", "defaultdict", "Counter", "Awaitable", "Coroutine", "ClassVar", "Final", "Annotated",
    "Literal", "Protocol", "Generic", "Result", "Just", "Iterable", "Collection", "OrderedDict", "AsyncGenerator",
};

/* Names that are types also when nothing defines a value for them. */
static const char *const type_names[] = {
    "Any", "Self", "Never", "NoReturn", "Hashable", "Sized", "Number", "Real", "object", "Ellipsis",
    "Tensor", "Tile", "Tile1D", "Tile2D", "Tile3D", "Tile4D", "KTile", "MeshTensor", "DTensor", "Mesh", "HierarchicalMesh", "Device",
    "DType", "RoundingMode", "Kernel", "Target", "Binary", "Schedule", "GraphIR", "TileIR", "GraphPass", "KVCache", "Region",
    "OptimizerState", "Policy", "Parameter", "Scalar",
};

static bool is_container(Sym name)
{
    static Word slot[128];
    static Words words = {slot, 128, 0};

    return words_has(&words, containers, sizeof containers / sizeof *containers, name);
}

static bool is_type_name(Sym name)
{
    static Word slot[128];
    static Words words = {slot, 128, 0};

    return words_has(&words, type_names, sizeof type_names / sizeof *type_names, name);
}

static bool is_free_type_var(Sym s)
{
    const char *p = s->text;

    if (!isupper((unsigned char)*p++))
        return false;
    while (isdigit((unsigned char)*p))
        p++;
    return !*p;
}

/* ------------------------------------------------------------- the dims of a signature */

/* Where a tensor type stands in a signature: a parameter, and the elements on the way into it. */
typedef struct { int param; int8_t path[2]; int depth; } Spot;

static void add_dim(Frame *f, Sym name, Spot at, int axis)
{
    DimDecl fresh = {name, (int16_t)at.param, (int8_t)axis, {at.path[0], at.path[1]}};

    for (int i = 0; i < f->dims.n; i++)
        if (f->dims.at[i].name == name) {
            if (f->dims.at[i].param < 0)
                f->dims.at[i] = fresh;
            return;
        }
    vec_push(&f->dims, fresh);
}

static const Spot nowhere = {-1, {-1, -1}, 0};

void annot_gather_typarams(Frame *f, AstSeq typarams)
{
    for (int i = 0; i < typarams.n; i++)
        if (AST_IS(typarams.at[i], TypeParam))
            add_dim(f, AST_AS(typarams.at[i], TypeParam)->name, nowhere, 0);
}

static bool is_program_bind(Found f)
{
    return f.bind == BIND_GLOBAL || f.bind == BIND_LOCAL || f.bind == BIND_FREE || f.bind == BIND_CLASS;
}

/* bf17, flaot32: a name of which a dtype's is one slip away is no size that happens to be called so. */
static bool is_like_dtype(Sym name)
{
    static const char *const more[] = {"float16", "float32", "float64", "bfloat16"};
    const char *s = name->text;

    if (name->len < 3 || !islower((unsigned char)*s) || !strpbrk(s, "0123456789"))
        return false;
    for (int i = 0; i < DT_COUNT; i++)
        if (dtype_info[i].name[0] == *s && strpbrk(dtype_info[i].name, "0123456789") && edit_distance(s, dtype_info[i].name, 1) == 1)
            return true;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (*more[i] == *s && edit_distance(s, more[i], 1) == 1)
            return true;
    return false;
}

/* Does this name, bare between the brackets of a tensor type, stand for a size that the signature declares? */
static bool declares_dim(Res *R, Frame *f, Sym name)
{
    DType dt;

    if (frame_dim(f, name))
        return true;
    if (dtype_find(name->text, &dt) || !strcmp(name->text, "dtype") || is_like_dtype(name))
        return false;
    return !is_program_bind(frame_find(R, R->frame, name, true));
}

/* The identifiers of a string dimension such as "B*H" or "...Lead"; one name alone gets its axis. */
static void gather_text(Frame *f, AstText t, Spot at, int axis)
{
    const char *s = t.s, *end = t.s + t.n;
    bool whole = true;

    for (const char *p = s; p < end; p++)
        whole = whole && (isalnum((unsigned char)*p) || *p == '_' || (unsigned char)*p >= 0x80);
    while (s < end) {
        const char *from = s;
        if (!isalpha((unsigned char)*s) && *s != '_' && (unsigned char)*s < 0x80) {
            s += isdigit((unsigned char)*s) ? strspn(s, "0123456789KMGT") : 1;
            continue;
        }
        while (s < end && (isalnum((unsigned char)*s) || *s == '_' || (unsigned char)*s >= 0x80))
            s++;
        if (from > t.s && from[-1] == '.')
            continue;                               /* "...Lead" names a run of sizes */
        if (!strncmp(from, "min", 3) || !strncmp(from, "max", 3) || !strncmp(from, "cdiv", 4))
            if (s < end && *s == '(')
                continue;
        add_dim(f, sym_n(from, (size_t)(s - from)), whole ? at : nowhere, axis);
    }
}

static bool is_ellipsis(const Ast *e)
{
    if (e->kind == AST_Const)
        return AST_AS(e, Const)->value == CONST_ELLIPSIS;
    return e->kind == AST_Str && AST_AS(e, Str)->value.n >= 3 && !strncmp(AST_AS(e, Str)->value.s, "...", 3);
}

static bool is_dtype_elem(Res *R, const Ast *e)
{
    DType dt;

    if (e->kind == AST_Name) {
        Sym s = AST_AS(e, Name)->id;
        return dtype_find(s->text, &dt) || !strcmp(s->text, "dtype");
    }
    if (e->kind == AST_BinOp)
        return AST_AS(e, BinOp)->op == AOP_MATMUL;
    if (e->kind == AST_Attribute)                   /* ts.f32, but not cfg.width */
        return dtype_find(AST_AS(e, Attribute)->attr->text, &dt);
    return e->kind == AST_Call && AST_IS(AST_AS(e, Call)->func, Name) &&
           !strcmp(AST_AS(AST_AS(e, Call)->func, Name)->id->text, "Policy");
}

static void gather(Res *R, Frame *f, Ast *a, Spot at);

static void gather_elem(Res *R, Frame *f, Ast *e, Spot at, int axis)
{
    if (e->kind == AST_Str)
        gather_text(f, AST_AS(e, Str)->value, at, axis);
    else if (e->kind == AST_Name) {
        if (declares_dim(R, f, AST_AS(e, Name)->id))
            add_dim(f, AST_AS(e, Name)->id, at, axis);
    } else if (e->kind == AST_BinOp && AST_AS(e, BinOp)->op != AOP_MATMUL) {
        gather_elem(R, f, AST_AS(e, BinOp)->left, nowhere, 0);
        gather_elem(R, f, AST_AS(e, BinOp)->right, nowhere, 0);
    }
}

/* Region[read, Tensor["N", f32]] is Region[read, "N", f32] from here on. */
static void flatten(Res *R, AstSubscript *s)
{
    AstTuple *all = AST_AS(s->index, Tuple), *flat;
    AstSubscript *t = AST_IS(s->index, Tuple) && all->elts.n == 2 ? AST_AS(all->elts.at[1], Subscript) : NULL;
    AstSeq in;

    if (!AST_IS((Ast *)t, Subscript) || !AST_IS(s->value, Name) || strcmp(AST_AS(s->value, Name)->id->text, "Region") ||
        !AST_IS(t->value, Name) || strcmp(AST_AS(t->value, Name)->id->text, "Tensor"))
        return;
    in = AST_IS(t->index, Tuple) ? AST_AS(t->index, Tuple)->elts : (AstSeq){&t->index, 1};
    flat = ast_new(&R->u->arena, Tuple, s->index->span);
    flat->elts = (AstSeq){arena_array(&R->u->arena, Ast *, in.n + 1), in.n + 1};
    flat->elts.at[0] = all->elts.at[0];
    memcpy(flat->elts.at + 1, in.at, sizeof *in.at * (size_t)in.n);
    s->index = (Ast *)flat;
}

static void gather_dims(Res *R, Frame *f, AstSubscript *s, Spot at)
{
    flatten(R, s);
    Ast *one[1] = {s->index};
    AstSeq elts = AST_IS(s->index, Tuple) ? AST_AS(s->index, Tuple)->elts : (AstSeq){one, 1};
    int n = elts.n, rest = -1;

    if (AST_IS(s->value, Name) && !strcmp(AST_AS(s->value, Name)->id->text, "Region") && n > 0) {
        elts.at++;                                  /* the privilege */
        n--;
    }
    if (AST_IS(s->value, Name) && !strcmp(AST_AS(s->value, Name)->id->text, "KVCache"))
        at = nowhere;                               /* of two tensors inside: an argument that is one tells the sizes */
    while (n > 0 && is_dtype_elem(R, elts.at[n - 1]))
        n--;
    for (int i = 0; i < n; i++)
        if (is_ellipsis(elts.at[i]))
            rest = i;
    for (int i = 0; i < n; i++)
        if (i != rest)
            gather_elem(R, f, elts.at[i], at, rest >= 0 && i > rest ? i - n : i);
}

static bool holds_types(Res *R, Ast *base)
{
    if (!AST_IS(base, Name))
        return false;
    return is_container(AST_AS(base, Name)->id) ||
           is_program_bind(frame_find(R, R->frame, AST_AS(base, Name)->id, true));
}

/* Into a container: deeper than two levels nothing is read from the argument. */
static Spot inside(Spot at, int element)
{
    if (at.param < 0 || at.depth == 2)
        return nowhere;
    at.path[at.depth++] = (int8_t)element;
    return at;
}

/* List[T] and its kin hold T, Tuple[A, B] an element each, Dict[K, V] values V. */
static void gather_held(Res *R, Frame *f, AstSubscript *s, Spot at)
{
    const char *base = AST_IS(s->value, Name) ? AST_AS(s->value, Name)->id->text : "";
    bool tuple = !strcmp(base, "Tuple") || !strcmp(base, "tuple"), dict = !strcmp(base, "Dict") || !strcmp(base, "dict");
    bool list = !strcmp(base, "List") || !strcmp(base, "list"), maybe = !strcmp(base, "Optional");
    AstSeq elts;

    if (!AST_IS(s->index, Tuple)) {
        gather(R, f, s->index, maybe ? at : list || tuple ? inside(at, 0) : nowhere);
        return;
    }
    elts = AST_AS(s->index, Tuple)->elts;
    for (int i = 0; i < elts.n; i++)
        gather(R, f, elts.at[i], tuple ? inside(at, i) : dict && i == 1 ? inside(at, 0) : nowhere);
}

static void gather(Res *R, Frame *f, Ast *a, Spot at)
{
    AstSeq elts;

    if (!a || R->depth > 100)
        return;
    R->depth++;
    if (a->kind == AST_Subscript && !holds_types(R, AST_AS(a, Subscript)->value))
        gather_dims(R, f, AST_AS(a, Subscript), at);
    else if (a->kind == AST_Subscript)
        gather_held(R, f, AST_AS(a, Subscript), at);
    else if (a->kind == AST_BinOp) {
        gather(R, f, AST_AS(a, BinOp)->left, at);
        if (AST_AS(a, BinOp)->op != AOP_MATMUL)
            gather(R, f, AST_AS(a, BinOp)->right, at);
    } else if (a->kind == AST_Tuple || a->kind == AST_List) {
        elts = a->kind == AST_Tuple ? AST_AS(a, Tuple)->elts : AST_AS(a, List)->elts;
        for (int i = 0; i < elts.n; i++)
            gather(R, f, elts.at[i], nowhere);
    }
    R->depth--;
}

/* A dim named as a parameter is that parameter's value: f(N: int, x: Tensor["N"]). */
static void drop_params(Frame *f, AstSeq params)
{
    for (int k = 0; k < params.n; k++)
        for (int i = 0; i < f->dims.n; i++)
            if (AST_IS(params.at[k], Param) && f->dims.at[i].name == AST_AS(params.at[k], Param)->name) {
                f->dims.at[i] = vec_last(&f->dims);
                f->dims.n--;
            }
}

void annot_gather(Res *R, Frame *f, AstFunctionDef *fn)
{
    int index = 0;

    annot_gather_typarams(f, fn->typarams);
    for (int i = 0; i < fn->params.n; i++) {
        AstParam *p = AST_AS(fn->params.at[i], Param);
        if (p->kind == PARAM_CONSTRAINT || p->kind == PARAM_ANY)
            continue;
        gather(R, f, p->annotation, p->kind == PARAM_VARARGS || p->kind == PARAM_KWARGS ? nowhere : (Spot){index, {-1, -1}, 0});
        index++;
    }
    gather(R, f, fn->returns, nowhere);
    drop_params(f, fn->params);
}

/* ------------------------------------------------------------- resolving */

static void resolve(Res *R, Ast *a, Position at);

static void resolve_name(Res *R, AstName *n, Position at)
{
    Found f;

    if (name_is_type_var(R, n->id)) {
        n->bind = BIND_DIM;
        return;
    }
    f = frame_find(R, R->frame, n->id, true);
    if (f.bind == BIND_NONE && ((at == IN_DIM && !is_like_dtype(n->id)) || is_free_type_var(n->id) || is_type_name(n->id) ||
                                is_container(n->id)))
        f.bind = BIND_DIM;
    name_set(R, n, f);
    if (f.bind == BIND_NONE && !R->opt.repl)
        name_unknown(R, n, E0209);
}

static void resolve_each(Res *R, AstSeq seq, Position at)
{
    for (int i = 0; i < seq.n; i++)
        resolve(R, seq.at[i], at);
}

/* Policy(storage=bf16), accum(f32), memory("host"): what is called is no size, nor is what a suffix is given, but round(rne) names a mode. */
static void resolve_call(Res *R, AstCall *c, Position at)
{
    bool mode = AST_IS(c->func, Name) && !strcmp(AST_AS(c->func, Name)->id->text, "round");

    resolve(R, c->func, IN_TYPE);
    for (int i = 0; i < c->args.n; i++)
        if (AST_IS(c->args.at[i], Arg))
            resolve(R, AST_AS(c->args.at[i], Arg)->value, mode ? IN_DIM : at);
}

static void resolve(Res *R, Ast *a, Position at)
{
    if (!a || R->depth > 200)
        return;
    R->depth++;
    switch (a->kind) {
    case AST_Name:
        resolve_name(R, AST_AS(a, Name), at);
        break;
    case AST_Subscript:
        resolve(R, AST_AS(a, Subscript)->value, at);
        resolve(R, AST_AS(a, Subscript)->index, holds_types(R, AST_AS(a, Subscript)->value) ? IN_TYPE : IN_DIM);
        break;
    case AST_BinOp:
        resolve(R, AST_AS(a, BinOp)->left, at);
        resolve(R, AST_AS(a, BinOp)->right, AST_AS(a, BinOp)->op == AOP_MATMUL ? IN_TYPE : at);
        break;
    case AST_UnaryOp:
        resolve(R, AST_AS(a, UnaryOp)->operand, at);
        break;
    case AST_Tuple:
        resolve_each(R, AST_AS(a, Tuple)->elts, at);
        break;
    case AST_List:
        resolve_each(R, AST_AS(a, List)->elts, at);
        break;
    case AST_Call:
        resolve_call(R, AST_AS(a, Call), at);
        break;
    case AST_Attribute:
        if (!is_type_name(AST_AS(a, Attribute)->attr))    /* tessera.MeshTensor */
            vec_push(&R->attrs, a);
        resolve(R, AST_AS(a, Attribute)->value, at);
        break;
    case AST_Str:
    case AST_Const:
    case AST_Int:
        break;
    default:
        resolve_expr(R, a);
    }
    R->depth--;
}

void annot_resolve(Res *R, Ast *annotation)
{
    resolve(R, annotation, IN_TYPE);
}
