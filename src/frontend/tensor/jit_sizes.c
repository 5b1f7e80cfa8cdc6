/*
 * jit_sizes.c - the sizes of a staged function's arguments as variables.
 *
 * Each axis of each tensor argument becomes a variable that knows its size in
 * the call that is being staged (ir/core/dim_ask.h), named as the signature
 * names it: B for x: Tensor["B", 4], else x_0.  What the function asks about
 * sizes while it is staged is left with its graph as conditions; equalities of variables
 * disappear into the types of the parameters.
 */
#include "frontend/tensor/jit_sizes.h"

#include "frontend/eval/code.h"
#include "frontend/syntax/ast.h"

#include <ctype.h>
#include <string.h>

/* ------------------------------------------------------------- names */

/* The parameters of the function that is staged in the end, without self; n 0: not known. */
static AstSeq parameters(Value f)
{
    AstSeq all = {0};
    int skip = 0;

    for (Transform *t; (t = transform_of(f)) && !is_err(t->f);)
        f = t->f;
    if (f.tag == V_BOUND) {
        f = ((BoundObj *)f.o)->func;
        skip = 1;
    }
    if (f.tag != V_FUNC || !((FuncObj *)f.o)->code->ast)
        return all;
    const Ast *def = ((FuncObj *)f.o)->code->ast;
    if (AST_IS(def, FunctionDef))
        all = AST_AS(def, FunctionDef)->params;
    else if (AST_IS(def, Lambda))
        all = AST_AS(def, Lambda)->params;
    if (skip && all.n) {
        all.at++;
        all.n--;
    }
    return all;
}

static const AstParam *parameter(AstSeq params, int position, Sym name)
{
    for (int i = 0; i < params.n; i++) {
        const AstParam *p = AST_IS(params.at[i], Param) ? AST_AS(params.at[i], Param) : NULL;
        if (p && (name ? p->name == name : i == position))
            return p;
    }
    return NULL;
}

static Sym identifier(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_')
            return NULL;
    return n && !isdigit((unsigned char)*s) ? sym_n(s, n) : NULL;
}

/* What an annotation Tensor["B", D, 768, ...] says of this axis; NULL: nothing. */
static const Ast *said_of(const Ast *annotation, int axis, int rank)
{
    const Ast *index, *const *at;
    int n = 1, dots = -1;

    if (!annotation || !AST_IS(annotation, Subscript))
        return NULL;
    index = AST_AS(annotation, Subscript)->index;
    at = &index;
    if (AST_IS(index, Tuple)) {
        at = (const Ast *const *)AST_AS(index, Tuple)->elts.at;
        n = AST_AS(index, Tuple)->elts.n;
    }
    for (int i = 0; i < n; i++)
        if (AST_IS(at[i], Const))
            dots = i;
    if (dots >= 0 && axis >= dots)
        axis = axis >= rank - (n - dots - 1) ? n - (rank - axis) : n;
    return axis < n ? at[axis] : NULL;
}

/* Its name there. */
static Sym declared(const Ast *annotation, int axis, int rank)
{
    const Ast *said = said_of(annotation, axis, rank);

    if (!said)
        return NULL;
    if (AST_IS(said, Name))
        return AST_AS(said, Name)->id;
    return AST_IS(said, Str) ? identifier(AST_AS(said, Str)->value.s, AST_AS(said, Str)->value.n) : NULL;
}

/* Is its size written there as a number, this one? Then it is the same for all calls. */
static bool is_written(const AstParam *p, int axis, int rank, Dim size)
{
    const Ast *said = p ? said_of(p->annotation, axis, rank) : NULL;

    return said && AST_IS(said, Int) && AST_AS(said, Int)->value == size;
}

static Sym axis_name(const AstParam *p, int leaf, int axis, int rank)
{
    Sym name = p ? declared(p->annotation, axis, rank) : NULL;
    StrBuf b = {0};

    if (name)
        return name;
    sb_puts(&b, p ? p->name->text : "size");
    if (leaf)
        sb_printf(&b, "%d", leaf);
    sb_printf(&b, "_%d", axis);
    name = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return name;
}

/* ------------------------------------------------------------- variables */

static void name_tensor(SizeVars *v, TType *y, const AstParam *p, int leaf)
{
    for (int i = 0; i < y->rank; i++) {
        if (is_written(p, i, y->rank, y->shape[i]))
            continue;
        y->shape[i] = dim_sized(axis_name(p, leaf, i, y->rank), y->shape[i]);
        vec_push(&v->var, y->shape[i]);
    }
}

static bool all_numbers(const TType *type, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < type[i].rank; k++)
            if (!dim_is_const(type[i].shape[k]))
                return false;
    return true;
}

bool size_vars_begin(Interp *I, SizeVars *v, Value f, const CallArgs *c, const SizeDeclare *declare, TType *type, int n)
{
    AstSeq params = parameters(f);
    int at = 0;

    if (dim_asking() || !all_numbers(type, n))
        return false;
    dim_ask_begin();
    if (declare) {
        declare->declare(declare->st, v, type, n);
        return true;
    }
    for (int i = 0; i < c->n + c->nkw; i++) {
        const AstParam *p = parameter(params, i, i < c->n ? NULL : c->kwnames[i - c->n]);
        TensorVec leaf = {0};
        if (!tree_leaves(I, i < c->n ? c->args[i] : c->kwvals[i - c->n], TREE_ALL, &leaf))
            exc_clear(I);
        for (int k = 0; k < leaf.n && at < n; k++)
            name_tensor(v, &type[at++], p, k);
        vec_free(&leaf);
    }
    for (; at < n; at++)
        name_tensor(v, &type[at], NULL, at);
    return true;
}

/* ------------------------------------------------------------- conditions */

typedef struct Renaming {
    Vec(Dim) from, to;
    Map done;                   /* expressions met before, and the variables: a graph has few, many times */
} Renaming;

/* Only the few variables of the expression matter, of one for each axis of each argument. */
static Dim substituted(const Renaming *r, Dim d)
{
    enum { VARS_MAX = 32 };
    Dim v[VARS_MAX], from[VARS_MAX], to[VARS_MAX];
    int n = dim_vars(d, v, VARS_MAX), k = 0;
    uintptr_t known;

    if (n == VARS_MAX)
        return dim_subst(d, r->from.at, r->to.at, r->from.n);
    for (int i = 0; i < n; i++)
        if (map_find(&r->done, (uint64_t)v[i], &known) && (Dim)known != v[i]) {
            from[k] = v[i];
            to[k++] = (Dim)known;
        }
    return dim_subst(d, from, to, k);
}

static Dim renamed(void *st, Dim d)
{
    Renaming *r = st;
    uintptr_t known;
    Dim to;

    if (dim_is_const(d))
        return d;
    if (map_find(&r->done, (uint64_t)d, &known))
        return (Dim)known;
    to = substituted(r, d);
    map_set(&r->done, (uint64_t)d, (uintptr_t)to);
    return to;
}

/* A condition of numbers only says nothing any more; every one holds for the call at hand. */
static void drop_settled(Graph *g)
{
    int n = 0;
    int64_t v;

    for (int i = 0; i < g->conds.n; i++) {
        DimCond c = g->conds.at[i];
        if (c.a != c.b && !(dim_const_value(c.a, &v) && dim_const_value(c.b, &v)))
            g->conds.at[n++] = c;
    }
    g->conds.n = n;
}

Graph *size_vars_end(SizeVars *v, Graph *g, TType *type, int n)
{
    Renaming r = {0};
    DimConds conds = {0};

    for (int i = 0; i < v->var.n; i++) {
        Dim known = dim_known(v->var.at[i]);
        if (known != v->var.at[i] && (dim_is_const(known) || dim_is_var(known))) {
            vec_push(&r.from, v->var.at[i]);
            vec_push(&r.to, known);
            map_set(&r.done, (uint64_t)v->var.at[i], (uintptr_t)known);
        }
    }
    dim_ask_end(&conds);
    vec_free(&v->var);
    if (g) {
        for (int i = 0; i < conds.n; i++)
            vec_push(&g->conds, conds.at[i]);
        if (r.from.n) {
            Graph *old = g;
            g = graph_resize(old, renamed, &r);
            graph_unref(old);
        }
        drop_settled(g);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < type[i].rank; k++)
                type[i].shape[k] = renamed(&r, type[i].shape[k]);
    }
    vec_free(&conds);
    map_done(&r.done);
    vec_free(&r.from);
    vec_free(&r.to);
    return g;
}
