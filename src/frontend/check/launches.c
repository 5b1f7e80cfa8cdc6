/*
 * Index launches: index_launch(domain=4)(f)(A.part[i], B.part[i + 1], x).
 *
 * All points of a launch count as concurrent.  What f writes needs disjoint
 * parts and a projection that gives each point its own; two projections of one
 * tensor must never meet unless both are read or both reduced alike.  Affine
 * projections a * i + b of equal partitions are decided here; modulo, calls,
 * several variables and unequal partitions are left to the launch, which looks
 * at every colour (stdlib/launches.tsr).  Nothing is reported that some domain
 * with at least two points might allow.
 */
#include "frontend/check/effects.h"

#include "frontend/check/privilege.h"
#include "frontend/check/type.h"

#include <string.h>

enum { USES = 16, DEPTH = 600, TERM_DEPTH = 32 };

/* a * i + b, when known. */
typedef struct Affine { int64_t a, b; bool known; } Affine;

typedef struct Use {
    Ast *arg, *root, *parts;    /* A.part.equal(2)[i]; A; A.part.equal(2).  parts NULL: the whole tensor */
    Affine at;
    bool aliased;               /* parts of different numbers share elements */
    Privilege priv;
    const AstParam *param;
} Use;

typedef struct Launches {
    Effects *E;
    Scope *scope;
    int depth;
} Launches;

static const char *last_name(const Ast *e)
{
    return AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : AST_IS(e, Name) ? AST_AS(e, Name)->id->text : "";
}

static const AstArg *plain_arg(const AstCall *c, int i)
{
    const AstArg *a = i < c->args.n && AST_IS(c->args.at[i], Arg) ? AST_AS(c->args.at[i], Arg) : NULL;

    return a && !a->stars && !a->name ? a : NULL;
}

/* ------------------------------------------------------------- projections */

static bool is_variable(Launches *L, const AstName *n)
{
    const Local *l = things_local(L->E, L->scope, n, NULL);
    const Given *g = things_given(L->E, l);

    return l && l->nbinds == 1 && g && !g->next && !g->held && AST_IS(g->value, Call) &&
           !strcmp(last_name(AST_AS(g->value, Call)->func), "launch_index") && !AST_AS(g->value, Call)->args.n;
}

static bool combine(AstOp op, Affine x, Affine y, Affine *out)
{
    switch (op) {
    case AOP_ADD: return !__builtin_add_overflow(x.a, y.a, &out->a) && !__builtin_add_overflow(x.b, y.b, &out->b);
    case AOP_SUB: return !__builtin_sub_overflow(x.a, y.a, &out->a) && !__builtin_sub_overflow(x.b, y.b, &out->b);
    case AOP_MUL:
        if (y.a) {
            Affine z = x;
            x = y;
            y = z;
        }
        return !y.a && !__builtin_mul_overflow(x.a, y.b, &out->a) && !__builtin_mul_overflow(x.b, y.b, &out->b);
    default: return false;
    }
}

static Affine affine_of(Launches *L, const Ast *e, int depth)
{
    Affine r = {0, 0, false};

    if (AST_IS(e, Int) && AST_AS(e, Int)->value >= 0) {
        r = (Affine){0, AST_AS(e, Int)->value, true};
    } else if (AST_IS(e, Name) && is_variable(L, AST_AS(e, Name))) {
        r = (Affine){1, 0, true};
    } else if (AST_IS(e, UnaryOp) && AST_AS(e, UnaryOp)->op == AOP_NEG && depth < TERM_DEPTH) {
        Affine x = affine_of(L, AST_AS(e, UnaryOp)->operand, depth + 1);
        r.known = x.known && combine(AOP_SUB, (Affine){0, 0, true}, x, &r);
    } else if (AST_IS(e, BinOp) && depth < TERM_DEPTH) {
        Affine x = affine_of(L, AST_AS(e, BinOp)->left, depth + 1), y = affine_of(L, AST_AS(e, BinOp)->right, depth + 1);
        r.known = x.known && y.known && combine((AstOp)AST_AS(e, BinOp)->op, x, y, &r);
    }
    return r;
}

/* halo(2): a literal width above zero. */
static bool widens(const AstCall *c)
{
    const AstArg *a = plain_arg(c, 0);

    return a && AST_IS(a->value, Int) && AST_AS(a->value, Int)->value > 0;
}

/* Read A.part.tiles(4).halo(1)[i]; false: the expression is no projection. */
static bool projection(Launches *L, Ast *e, Use *u)
{
    static const char *const makers[] = {"tiles", "equal", "halo", "by", "part"};
    Ast *p = AST_IS(e, Subscript) ? AST_AS(e, Subscript)->value : NULL;
    bool part = false;

    *u = (Use){.arg = e, .root = e};
    for (u->parts = p; p && !part;) {
        const AstCall *c = AST_IS(p, Call) ? AST_AS(p, Call) : NULL;
        Ast *f = c ? c->func : p;
        size_t i = 0;
        if (!AST_IS(f, Attribute))
            break;
        while (i < sizeof makers / sizeof *makers && strcmp(makers[i], last_name(f)))
            i++;
        part = i < sizeof makers / sizeof *makers && !strcmp(makers[i], "part");
        if (i == sizeof makers / sizeof *makers || (!c && !part))
            break;
        u->aliased = u->aliased || (c && !strcmp(makers[i], "halo") && widens(c));
        u->root = p = AST_AS(f, Attribute)->value;
    }
    if (u->root == e) {
        u->parts = NULL;
        return false;
    }
    u->at = affine_of(L, AST_AS(e, Subscript)->index, 0);
    return true;
}

/* ------------------------------------------------------------- the rules */

static bool changes_all(const Use *u) { return u->priv.kind == PRIV_WRITE || u->priv.kind == PRIV_READWRITE; }

static char *text_of(Launches *L, const Ast *e)
{
    StrBuf b = {0};
    char *text;

    ast_print(e, &b);
    text = arena_strdup(&L->E->arena, sb_str(&b));
    sb_done(&b);
    return text;
}

static const char *name_of(const EffFn *f) { return f->name ? f->name->text : "lambda"; }

static bool is_tensor(const Ast *e)
{
    const Type *t = type_found(e);

    return t && t->kind == TY_TENSOR;
}

static void check_write(Launches *L, const EffFn *f, const Use *u, int64_t points)
{
    Diag *d;

    if (!changes_all(u) || points == 1 || (!u->parts && !is_tensor(u->arg)))
        return;
    if (!u->parts || (u->at.known && !u->at.a)) {
        d = DIAG_AT(L->E->sink, E0515, u->arg->span, name_of(f), text_of(L, u->arg));
        diag_label(d, u->param->ast.span, "written");
        diag_help(d, u->parts ? "let the part depend on the launch variable" : "pass a part for each point: %s.part[i]", text_of(L, u->root));
    } else if (u->aliased && u->at.known) {
        d = DIAG_AT(L->E->sink, E0516, u->arg->span, name_of(f), text_of(L, u->parts));
        diag_label(d, u->param->ast.span, "written");
        diag_help(d, "write parts without a halo, and read those with one from another tensor");
    }
}

/* The one literal among a maker's arguments, above 0; 0: there are others. */
static int64_t only_literal(const AstCall *c)
{
    const AstArg *a = c->args.n == 1 ? plain_arg(c, 0) : NULL;

    return a && AST_IS(a->value, Int) && AST_AS(a->value, Int)->value > 0 ? AST_AS(a->value, Int)->value : 0;
}

/* The size of axis 0, where it is written out; -1: it is not known. */
static int64_t rows_of(const Ast *e)
{
    const Type *t = type_found((Ast *)e);
    int64_t n;

    return t && t->kind == TY_TENSOR && t->tensor->rank != RANK_UNKNOWN && t->tensor->rank && dim_const_value(t->tensor->shape[0], &n) ? n : -1;
}

/* How many parts A.part.equal(4).halo(1) has along axis 0; -1: not known. */
static int64_t parts_count(const Use *u, int64_t points)
{
    const Ast *p = u->parts;
    int64_t b, n;

    while (AST_IS(p, Call) && !strcmp(last_name(AST_AS(p, Call)->func), "halo") && AST_IS(AST_AS(p, Call)->func, Attribute))
        p = AST_AS(AST_AS(p, Call)->func, Attribute)->value;
    if (AST_IS(p, Attribute))
        return !strcmp(last_name(p), "part") ? points : -1;
    if (!AST_IS(p, Call) || !(b = only_literal(AST_AS(p, Call))))
        return -1;
    if (!strcmp(last_name(AST_AS(p, Call)->func), "tiles"))
        return (n = rows_of(u->root)) < 0 ? -1 : n / b + (n % b != 0);
    return !strcmp(last_name(AST_AS(p, Call)->func), "equal") || !strcmp(last_name(AST_AS(p, Call)->func), "part") ? b : -1;
}

/* The first point whose part there is not. */
static void check_range(Launches *L, const Use *u, int64_t points)
{
    int64_t n = u->parts && u->at.known && points > 0 ? parts_count(u, points) : -1, a = u->at.a, b = u->at.b, p = 0, last;
    Diag *d;

    if (n < 0 || __builtin_mul_overflow(a, points, &last) || __builtin_add_overflow(last, b, &last))
        return;
    if (b >= 0 && b < n)                            /* the first point has one */
        p = a > 0 ? (n - b + a - 1) / a : a < 0 ? b / -a + 1 : points;
    if (p >= points)
        return;
    d = DIAG_AT(L->E->sink, E0518, u->arg->span, NULL);
    diag_note(d, "at i=%lld the launch picks part %lld of '%s', which has parts 0 to %lld", (long long)p, (long long)(a * p + b),
              u->param->name->text, (long long)n - 1);
    diag_help(d, "launch over fewer points, or come back to the first part with a modulo");
}

/* How many points a launch has, when a literal says so; 0: not known. */
static int64_t points_of(const AstCall *launch)
{
    for (int i = 0; i < launch->args.n; i++) {
        const AstArg *a = AST_IS(launch->args.at[i], Arg) ? AST_AS(launch->args.at[i], Arg) : NULL;
        if (a && a->name && !strcmp(a->name->text, "domain") && AST_IS(a->value, Int))
            return AST_AS(a->value, Int)->value;
    }
    return 0;
}

static bool same_root(const Ast *a, const Ast *b)
{
    if (AST_IS(a, Name) && AST_IS(b, Name))
        return AST_AS(a, Name)->id == AST_AS(b, Name)->id;
    return AST_IS(a, Attribute) && AST_IS(b, Attribute) && ast_equal(a, b);
}

/*
 * Do points p and q exist so that the part of x at p is the part of y at q?  Of equal slopes a they do when a divides
 * the difference of the constants and that many steps lie between two points; *p, *q are the first such.
 */
static bool points_meet(const Use *x, const Use *y, int64_t points, int64_t *p, int64_t *q)
{
    int64_t d, k;

    if (!x->at.known || !y->at.known || x->at.a != y->at.a || !x->at.a || __builtin_sub_overflow(y->at.b, x->at.b, &d) ||
        d == INT64_MIN || d % x->at.a)
        return false;
    k = d / x->at.a;                                /* a * (q + k) + x.b = a * q + y.b */
    *q = k < 0 ? -k : 0;
    *p = *q + k;
    return (points ? points : 2) > (k < 0 ? -k : k);
}

static bool compatible(const Use *x, const Use *y)
{
    return (x->priv.kind <= PRIV_READ && y->priv.kind <= PRIV_READ) ||
           (x->priv.kind == PRIV_REDUCE && y->priv.kind == PRIV_REDUCE && x->priv.op == y->priv.op);
}

static void check_pair(Launches *L, const EffFn *f, const Use *x, const Use *y, int64_t points)
{
    const char *where = "at every point";
    int64_t p = 0, q = 0;
    Diag *d;

    if (compatible(x, y) || !same_root(x->root, y->root))
        return;
    if (x->parts && y->parts) {
        if (!ast_equal(x->parts, y->parts) || !points_meet(x, y, points, &p, &q))
            return;
        if (p != q) {
            StrBuf b = {0};
            sb_printf(&b, "what i=%lld has as %s, i=%lld has as %s", (long long)p, x->param->name->text, (long long)q, y->param->name->text);
            where = arena_strdup(&L->E->arena, sb_str(&b));
            sb_done(&b);
        }
    }
    d = DIAG_AT(L->E->sink, E0517, y->arg->span, name_of(f), text_of(L, x->root), where);
    diag_label(d, x->arg->span, "as %s, privilege %s", x->param->name->text, x->priv.kind ? x->priv.text : "read");
    diag_label(d, y->arg->span, "as %s, privilege %s", y->param->name->text, y->priv.kind ? y->priv.text : "read");
    diag_help(d, "write into another tensor, or launch twice");
}

static void check_collective(Launches *L, const EffFn *f, const Ast *at)
{
    Diag *d;

    if (!(effects_seen(f) >> EFF_collective & 1))
        return;
    d = DIAG_AT(L->E->sink, E0519, at->span, name_of(f));
    if (f->why[EFF_collective].what)
        diag_label(d, f->why[EFF_collective].span, "the collective");
    diag_help(d, "call the collective with what the launch gave, after it");
}

/* ------------------------------------------------------------- calls */

AstCall *launch_called(AstCall *c)
{
    AstCall *made = AST_IS(c->func, Call) ? AST_AS(c->func, Call) : NULL;

    return made && AST_IS(made->func, Call) && !strcmp(last_name(AST_AS(made->func, Call)->func), "index_launch") ? made : NULL;
}

static const EffFn *launched(Launches *L, AstCall *made)
{
    const AstArg *a = plain_arg(made, 0);
    Things t = a ? things_of(L->E, L->scope, a->value) : (Things){.n = 0};

    return t.n == 1 && t.at[0].kind == THING_FN && !t.at[0].bound && !((const EffFn *)t.at[0].p)->owner ? t.at[0].p : NULL;
}

static void check_launch(Launches *L, AstCall *c)
{
    AstCall *made = launch_called(c);
    const EffFn *f = made ? launched(L, made) : NULL;
    Use use[USES];
    int64_t points = made ? points_of(AST_AS(made->func, Call)) : 0;
    bool projected = false;
    int n = 0;

    if (!f)
        return;
    check_collective(L, f, (Ast *)made);
    for (int i = 0; i < c->args.n; i++) {
        const AstArg *a = plain_arg(c, i);
        if (!a || n == USES)
            return;
        projected |= projection(L, a->value, &use[n]) || affine_of(L, a->value, 0).a;
        use[n].param = things_param(f, i);
        if (!use[n].param || use[n].param->ast.kind != AST_Param)
            return;
        use[n].priv = privilege_of(use[n].param->annotation);
        n += use[n].parts || use[n].priv.kind != PRIV_NONE;
    }
    for (int i = 0; projected && i < n; i++) {      /* else f gets the index first, and whole values */
        check_write(L, f, &use[i], points);
        check_range(L, &use[i], points);
        for (int k = 0; k < i; k++)
            check_pair(L, f, &use[k], &use[i], points);
    }
}

static bool walk(Ast *n, void *state)
{
    Launches *L = state;

    if (!n || L->depth > DEPTH || AST_IS(n, FunctionDef) || AST_IS(n, Lambda))
        return true;                                /* functions are walked with their own scope */
    L->depth++;
    if (AST_IS(n, Call))
        check_launch(L, AST_AS(n, Call));
    ast_walk(n, walk, L);
    L->depth--;
    return true;
}

void launches_check(Effects *E)
{
    Launches L = {.E = E, .scope = E->u->module->scope};

    if (!strstr(E->u->src->text, "index_launch"))
        return;
    for (int i = 0; i < E->u->module->body.n; i++)
        walk(E->u->module->body.at[i], &L);
    for (int i = 0; i < E->own.n; i++) {
        const EffFn *f = E->own.at[i];
        L.scope = f->scope;
        if (!f->scope)
            continue;
        if (f->node->kind == AST_Lambda)
            walk(AST_AS(f->node, Lambda)->body, &L);
        else
            for (int k = 0; k < AST_AS(f->node, FunctionDef)->body.n; k++)
                walk(AST_AS(f->node, FunctionDef)->body.at[k], &L);
    }
}
