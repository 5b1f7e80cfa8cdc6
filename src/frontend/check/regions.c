/*
 * Region privileges, and arguments that overlap.
 *
 * A parameter Region[read] may be read, Region[write] is written before it is
 * read, Region[reduce(+)] takes x[i] += v and nothing else, Region[readwrite]
 * anything.  Passing a region on asks for no more than it has.  Two regions of
 * one call that lie in the same variable must not meet, unless both are read or
 * both reduced by the same operation: the size engine decides for slices.
 */
#include "frontend/check/effects.h"

#include "frontend/check/privilege.h"
#include "frontend/check/type.h"
#include "frontend/kernel/kernel.h"

#include <string.h>

enum { DEPTH = 800, REGIONS = 16 };

typedef struct Region { const Local *local; Privilege priv; const AstParam *param; bool written; } Region;

typedef struct Body {
    Effects *E;
    EffFn *fn;
    Scope *scope;
    Region region[REGIONS];
    int n, depth;
} Body;

static Region *region_named(Body *b, const Ast *e)
{
    const Local *l = AST_IS(e, Name) ? things_local(b->E, b->scope, AST_AS(e, Name), NULL) : NULL;

    for (int i = 0; l && i < b->n; i++)
        if (b->region[i].local == l)
            return &b->region[i];
    return NULL;
}

/* The variable below y[0:n][1]. */
static Ast *root(Ast *e)
{
    while (AST_IS(e, Subscript))
        e = AST_AS(e, Subscript)->value;
    return e;
}

static void forbidden(Body *b, const Region *r, Span span, const char *what)
{
    Diag *d = DIAG_AT(b->E->sink, E0508, span, r->local->name->text, r->priv.text, what);

    diag_label(d, r->param->ast.span, "declared here");
    if (r->priv.kind == PRIV_READ)
        diag_help(d, "declare it Region[write] or Region[readwrite], or write into another region");
    else if (r->priv.kind == PRIV_REDUCE)
        diag_help(d, "update it with %s[...] %s= value, or declare it Region[readwrite]", r->local->name->text, ast_op_text[r->priv.op]);
}

static void read_region(Body *b, Region *r, Span span)
{
    Diag *d;

    if (r->priv.kind == PRIV_REDUCE) {
        forbidden(b, r, span, "read");
    } else if (r->priv.kind == PRIV_WRITE && !r->written) {
        r->written = true;                          /* one report */
        d = DIAG_AT(b->E->sink, E0510, span, r->local->name->text);
        diag_label(d, r->param->ast.span, "declared here");
        diag_help(d, "declare it Region[readwrite] to see what the caller left there");
    }
}

static void write_region(Body *b, Region *r, Span span, bool update, AstOp op)
{
    if (r->priv.kind == PRIV_READ)
        forbidden(b, r, span, "written");
    else if (r->priv.kind == PRIV_REDUCE && !(update && op == r->priv.op))
        forbidden(b, r, span, update ? "updated this way" : "assigned");
    else if (update && r->priv.kind == PRIV_WRITE)
        read_region(b, r, span);
    r->written = true;
}

/* ------------------------------------------------------------- calls with regions */

typedef struct { EffFn *fn; bool bound; } Callee;

static Callee callee_of(Body *b, AstCall *c)
{
    Things t = things_of(b->E, b->scope, c->func);

    for (int i = 0; i < t.n; i++)
        if (t.at[i].kind == THING_FN && !((EffFn *)t.at[i].p)->owner)
            return (Callee){(EffFn *)t.at[i].p, t.at[i].bound};
    return (Callee){NULL, false};
}

static AstParam *param_for(const Callee *f, const AstCall *c, int arg)
{
    const AstArg *a = AST_AS(c->args.at[arg], Arg);
    int k = 0;

    if (a->name) {
        for (int i = 0; i < f->fn->params.n; i++)
            if (AST_IS(f->fn->params.at[i], Param) && AST_AS(f->fn->params.at[i], Param)->name == a->name)
                return AST_AS(f->fn->params.at[i], Param);
        return NULL;
    }
    for (int i = 0; i < arg; i++)
        k += !AST_AS(c->args.at[i], Arg)->name;
    return things_param(f->fn, k + f->bound);
}

/* Is what the callee may do within what this function may? */
static void check_passed(Body *b, Region *have, Privilege want, Ast *arg)
{
    PrivilegeKind k = have->priv.kind;

    if (want.kind == PRIV_READ) {
        read_region(b, have, arg->span);
        return;
    }
    if (k == PRIV_READ)
        forbidden(b, have, arg->span, "written");
    else if (want.kind == PRIV_REDUCE ? k == PRIV_WRITE || (k == PRIV_REDUCE && want.op != have->priv.op) : k == PRIV_REDUCE)
        forbidden(b, have, arg->span, "passed to be changed otherwise");
    else if (want.kind == PRIV_READWRITE && k == PRIV_WRITE)
        read_region(b, have, arg->span);
    have->written = true;
}

/* Sizes as the type checker left them at the expressions. */
static bool bound_of(const Ast *e, Dim missing, Dim *out)
{
    const Type *t;

    *out = missing;
    if (!e)
        return true;
    t = type_found(e);
    if (!t || t->kind != TY_INT || t->value == DIM_BAD)
        return false;
    *out = t->value;
    return true;
}

typedef struct { Dim lo, hi; int64_t step; bool known; } Extent;

/* The part of an axis that an index takes: every step-th from lo on, below hi (DIM_BAD: the end). */
static Extent extent_of(const Ast *index)
{
    const AstSlice *s = AST_AS(index, Slice);
    Extent x = {0, DIM_BAD, 1, false};
    Dim step = 1;

    if (AST_IS(index, Slice)) {
        x.known = bound_of(s->lo, 0, &x.lo) && bound_of(s->hi, DIM_BAD, &x.hi) && dim_ge(x.lo, 0, NULL, NULL) == DIM_PROVED &&
                  (x.hi == DIM_BAD || dim_ge(x.hi, 0, NULL, NULL) == DIM_PROVED) && bound_of(s->step, 1, &step) &&
                  dim_const_value(step, &x.step) && x.step > 0;
    } else if (bound_of(index, DIM_BAD, &x.lo) && x.lo != DIM_BAD) {
        x.hi = dim_add(x.lo, 1);
        x.known = dim_ge(x.lo, 0, NULL, NULL) == DIM_PROVED;
    }
    return x;
}

/* x[::2] and x[1::2] have no element in common: steps with a common divisor that does not divide the distance. */
static bool interleave(const Extent *a, const Extent *b)
{
    int64_t g = a->step, h = b->step;

    while (h) {
        int64_t r = g % h;
        g = h;
        h = r;
    }
    return g > 1 && dim_eq(dim_mod(dim_sub(a->lo, b->lo), g), 0, NULL, NULL) == DIM_REFUTED;
}

static bool apart(const Extent *a, const Extent *b)
{
    if (!a->known || !b->known)
        return false;
    return interleave(a, b) || (a->hi != DIM_BAD && dim_ge(b->lo, a->hi, NULL, NULL) == DIM_PROVED) ||
           (b->hi != DIM_BAD && dim_ge(a->lo, b->hi, NULL, NULL) == DIM_PROVED);
}

/* Surely the same elements? Only then is it reported: what cannot be told may be fine. */
static bool meet(const Ast *x, const Ast *y)
{
    const Ast *a, *b;
    AstSeq s, t;

    if (!AST_IS(x, Subscript) || !AST_IS(y, Subscript))
        return true;                                /* one of them is the whole */
    if (AST_IS(AST_AS(x, Subscript)->value, Subscript) || AST_IS(AST_AS(y, Subscript)->value, Subscript))
        return false;
    a = AST_AS(x, Subscript)->index;
    b = AST_AS(y, Subscript)->index;
    s = AST_IS(a, Tuple) ? AST_AS(a, Tuple)->elts : (AstSeq){(Ast **)&a, 1};
    t = AST_IS(b, Tuple) ? AST_AS(b, Tuple)->elts : (AstSeq){(Ast **)&b, 1};
    for (int i = 0; i < s.n && i < t.n; i++) {
        Extent p = extent_of(s.at[i]), q = extent_of(t.at[i]);
        if (apart(&p, &q))
            return false;
        if (!p.known || !q.known || ((p.step > 1 || q.step > 1) && dim_eq(p.lo, q.lo, NULL, NULL) != DIM_PROVED)) {
            if (!ast_equal(s.at[i], t.at[i]))
                return false;
        } else if (p.hi != DIM_BAD && q.hi != DIM_BAD &&            /* they overlap only when one starts inside the other */
                   (dim_ge(p.hi, dim_add(q.lo, 1), NULL, NULL) != DIM_PROVED || dim_ge(q.hi, dim_add(p.lo, 1), NULL, NULL) != DIM_PROVED)) {
            return false;
        }
    }
    return true;
}

static bool compatible(Privilege a, Privilege b)
{
    return (a.kind == PRIV_READ && b.kind == PRIV_READ) || (a.kind == PRIV_REDUCE && b.kind == PRIV_REDUCE && a.op == b.op);
}

static bool same_place(const Ast *a, const Ast *b)
{
    if (AST_IS(a, Name) && AST_IS(b, Name))
        return AST_AS(a, Name)->id == AST_AS(b, Name)->id;
    return AST_IS(a, Attribute) && AST_IS(b, Attribute) && ast_equal(a, b);
}

static bool check_call(Body *b, AstCall *c)
{
    Callee f = launch_called(c) ? (Callee){NULL, false} : callee_of(b, c);      /* launches have rules of their own */
    struct { Ast *arg; AstParam *param; Privilege priv; } seen[REGIONS];
    int n = 0;

    for (int i = 0; f.fn && i < c->args.n; i++) {
        AstArg *a = AST_AS(c->args.at[i], Arg);
        AstParam *p = a->ast.kind == AST_Arg && !a->stars ? param_for(&f, c, i) : NULL;
        Privilege priv = privilege_of(p ? p->annotation : NULL);
        Region *have = p ? region_named(b, root(a->value)) : NULL;
        if (!p || priv.kind == PRIV_NONE)
            continue;
        if (have)
            check_passed(b, have, priv, a->value);
        for (int k = 0; k < n; k++)
            if (!compatible(seen[k].priv, priv) && same_place(root(seen[k].arg), root(a->value)) && meet(seen[k].arg, a->value)) {
                StrBuf text = {0};
                ast_print(root(a->value), &text);
                Diag *d = DIAG_AT(b->E->sink, E0501, c->ast.span, f.fn->name ? f.fn->name->text : "lambda", sb_str(&text),
                                  seen[k].priv.text, priv.text);
                diag_label(d, seen[k].arg->span, "as %s", seen[k].param->name->text);
                diag_label(d, a->value->span, "as %s", p->name->text);
                diag_help(d, "pass parts that do not overlap, or a copy of one");
                sb_done(&text);
                break;
            }
        if (n < REGIONS) {
            seen[n].arg = a->value;
            seen[n].param = p;
            seen[n++].priv = priv;
        }
    }
    return n > 0;
}

/* ------------------------------------------------------------- bodies */

static bool walk(Ast *n, void *state);

static void target(Body *b, Ast *t, bool update, AstOp op)
{
    Region *r = region_named(b, root(t));

    if (AST_IS(t, Tuple) || AST_IS(t, List)) {
        AstSeq e = AST_IS(t, Tuple) ? AST_AS(t, Tuple)->elts : AST_AS(t, List)->elts;
        for (int i = 0; i < e.n; i++)
            target(b, e.at[i], false, AOP_COUNT);
        return;
    }
    for (Ast *s = t; AST_IS(s, Subscript); s = AST_AS(s, Subscript)->value)
        walk(AST_AS(s, Subscript)->index, b);
    if (r)
        write_region(b, r, t->span, update, op);
    else if (!AST_IS(t, Name) && !AST_IS(root(t), Name))
        walk(root(t), b);
}

/* What every tensor tells without its elements being looked at. */
static bool is_metadata(const AstAttribute *a)
{
    static const char *const names[] = {"shape", "dtype", "ndim", "size", "nbytes", "device"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], a->attr->text))
            return true;
    return false;
}

/* tile.store(y[0:n], v): an operation of kernels writes what its row says; the rest it reads. */
static void walk_kernel_op(Body *b, AstCall *c, const KernelOp *op)
{
    for (int i = 0, at = 0; i < c->args.n; i++) {
        AstArg *a = AST_AS(c->args.at[i], Arg);
        int k = a->ast.kind == AST_Arg && !a->stars ? kernel_memory_arg(op, a->name, &at) : -1;
        Region *r = k >= 0 && op->effects & (k ? KERNEL_W1 : KERNEL_W0) ? region_named(b, root(a->value)) : NULL;
        if (!r) {
            walk(c->args.at[i], b);
            continue;
        }
        for (Ast *s = a->value; AST_IS(s, Subscript); s = AST_AS(s, Subscript)->value)
            walk(AST_AS(s, Subscript)->index, b);
        write_region(b, r, a->value->span, (op->effects & KERNEL_ATOMIC) != 0, kernel_op_id(op) == KOP_atomic_add ? AOP_ADD : AOP_COUNT);
    }
}

static void walk_call(Body *b, AstCall *c)
{
    const KernelOp *op = b->n ? kernel_called(c) : NULL;
    bool regions = !op && check_call(b, c);
    Callee f = regions ? callee_of(b, c) : (Callee){NULL, false};

    if (op) {
        walk_kernel_op(b, c, op);
        return;
    }
    walk(c->func, b);
    for (int i = 0; i < c->args.n; i++) {
        AstArg *a = AST_AS(c->args.at[i], Arg);
        AstParam *p = regions && a->ast.kind == AST_Arg && !a->stars ? param_for(&f, c, i) : NULL;
        bool passed = p && privilege_of(p->annotation).kind != PRIV_NONE && region_named(b, root(a->value));
        bool length = AST_IS(c->func, Name) && !strcmp(AST_AS(c->func, Name)->id->text, "len");
        if (!passed && !length)
            walk(c->args.at[i], b);
    }
}

static bool walk(Ast *n, void *state)
{
    Body *b = state;
    Region *r;

    if (!n || b->depth > DEPTH)
        return true;
    b->depth++;
    switch (n->kind) {
    case AST_FunctionDef: case AST_Lambda: case AST_ClassDef:
        break;
    case AST_Assign:
        walk(AST_AS(n, Assign)->value, b);
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            target(b, AST_AS(n, Assign)->targets.at[i], false, AOP_COUNT);
        break;
    case AST_AugAssign:
        walk(AST_AS(n, AugAssign)->value, b);
        target(b, AST_AS(n, AugAssign)->target, true, (AstOp)AST_AS(n, AugAssign)->op);
        break;
    case AST_Return:                                /* handing the region itself back looks at no element */
        if (!region_named(b, AST_AS(n, Return)->value))
            walk(AST_AS(n, Return)->value, b);
        break;
    case AST_Call:
        walk_call(b, AST_AS(n, Call));
        break;
    case AST_Attribute:
        if (!is_metadata(AST_AS(n, Attribute)))
            walk(AST_AS(n, Attribute)->value, b);
        break;
    case AST_Name:
        if ((r = region_named(b, n)))
            read_region(b, r, n->span);
        break;
    default:
        ast_walk(n, walk, b);
    }
    b->depth--;
    return true;
}

/* A privilege that is none: Region[reed]. */
static void check_annotation(Effects *E, const AstParam *p)
{
    const Ast *a = p->annotation, *base = AST_IS(a, Subscript) ? AST_AS(a, Subscript)->value : NULL;
    bool region = base && ((AST_IS(base, Name) && !strcmp(AST_AS(base, Name)->id->text, "Region")) ||
                           (AST_IS(base, Attribute) && !strcmp(AST_AS(base, Attribute)->attr->text, "Region")));
    StrBuf b = {0};

    if (!region || privilege_of(a).kind != PRIV_NONE)
        return;
    a = AST_AS(a, Subscript)->index;
    ast_print(AST_IS(a, Tuple) && AST_AS(a, Tuple)->elts.n ? AST_AS(a, Tuple)->elts.at[0] : a, &b);
    diag_note(DIAG_AT(E->sink, E0513, p->annotation->span, sb_str(&b)), "privileges are read, write, readwrite and reduce(\"+\"), reduce(\"*\")");
    sb_done(&b);
}

typedef struct { Effects *E; EffFn *f; const Local *local; uint32_t updates; int depth; } Updates;

static bool count_update(Ast *n, void *state)
{
    Updates *u = state;
    const Ast *t = AST_IS(n, AugAssign) ? AST_AS(n, AugAssign)->target : NULL;

    if (!n || u->depth > DEPTH || n->kind == AST_FunctionDef || n->kind == AST_Lambda || n->kind == AST_ClassDef)
        return true;
    u->updates += AST_IS(t, Name) && things_local(u->E, u->f->scope, AST_AS(t, Name), NULL) == u->local;
    u->depth++;
    ast_walk(n, count_update, u);
    u->depth--;
    return true;
}

/* Is the name bound to something else, from there on a variable of its own? W += v is none: it changes the region. */
static bool rebound(EffFn *f, const Local *l, Effects *E)
{
    Updates u = {E, f, l, 0, 0};

    if (l->nbinds > 1)
        ast_walk(f->node, count_update, &u);
    return l->nbinds > 1 + u.updates;
}

static void check_fn(Effects *E, EffFn *f)
{
    Body b = {.E = E, .fn = f, .scope = f->scope};

    for (int i = 0; i < f->params.n; i++) {
        const AstParam *p = AST_AS(f->params.at[i], Param);
        Privilege priv = p->ast.kind == AST_Param && p->kind <= PARAM_KWARGS ? privilege_of(p->annotation) : (Privilege){0};
        const Local *l = p->ast.kind == AST_Param && p->name ? scope_local(f->scope, p->name) : NULL;
        if (p->ast.kind != AST_Param || p->kind > PARAM_KWARGS)
            continue;
        check_annotation(E, p);
        if (priv.kind == PRIV_NONE || b.n == REGIONS || !l)
            continue;
        if (priv.kind == PRIV_READ && rebound(f, l, E))
            continue;
        b.region[b.n++] = (Region){l, priv, p, false};
    }
    if (f->node->kind == AST_Lambda)
        walk(AST_AS(f->node, Lambda)->body, &b);
    else
        for (int i = 0; i < AST_AS(f->node, FunctionDef)->body.n; i++)
            walk(AST_AS(f->node, FunctionDef)->body.at[i], &b);
}

void regions_check(Effects *E)
{
    Body module = {.E = E, .scope = E->u->module->scope};

    if (!strstr(E->u->src->text, "Region"))
        return;
    for (int i = 0; i < E->u->module->body.n; i++)
        walk(E->u->module->body.at[i], &module);
    for (int i = 0; i < E->own.n; i++)
        if (E->own.at[i]->scope)
            check_fn(E, E->own.at[i]);
}
