/*
 * Expressions to nodes.
 *
 * Each case of lower_expr makes one node and says which of its fields hold
 * what; the functions that read them are in run_expr.c, run_call.c and
 * run_arith.c.
 */
#include "frontend/eval/lower.h"

#include <string.h>

Step *step_new(Lower *L, const Ast *at)
{
    Step *n = arena_new(L->arena, Step);

    n->span = at->span;
    return n;
}

StepSeq *seq_new(Lower *L, int n)
{
    StepSeq *s = arena_alloc(L->arena, sizeof *s + (size_t)n * sizeof *s->at);

    s->n = n;
    return s;
}

AttrCache *cache_new(Lower *L, Sym name)
{
    AttrCache *c = arena_new(L->arena, AttrCache);

    c->name = name;
    c->key = sym_obj(name);
    c->hint = -1;
    return c;
}

const char *qualified(Lower *L, Sym name)
{
    return arena_printf(L->arena, "%s%s", L->prefix, name->text);
}

static Step *make(Lower *L, const Ast *at, EvalFn fn, Step *a, Step *b)
{
    Step *n = step_new(L, at);

    n->eval = fn;
    n->a = a;
    n->b = b;
    return n;
}

static Step *lower_const(Lower *L, const Ast *at, Value v)
{
    Step *n = make(L, at, ev_const, NULL, NULL);

    n->k = lower_keep(L, v);
    return n;
}

Value lower_keep(Lower *L, Value v)
{
    if (v.tag >= V_OBJ)
        vec_push(&L->I->constants, v);
    return v;
}

StepSeq *lower_exprs(Lower *L, AstSeq s)
{
    StepSeq *seq = seq_new(L, s.n);

    for (int i = 0; i < s.n; i++)
        seq->at[i] = lower_expr(L, s.at[i]);
    return seq;
}

/* ------------------------------------------------------------- names */

static EvalFn load_fn(int bind)
{
    switch (bind) {
    case BIND_LOCAL: return ev_local;
    case BIND_CELL: return ev_cell;
    case BIND_FREE: return ev_free;
    case BIND_GLOBAL: return ev_global;
    case BIND_CLASS: return ev_class_name;
    case BIND_PRELUDE: return ev_prelude;
    default: return ev_unknown;
    }
}

static Step *lower_name(Lower *L, const AstName *name)
{
    Step *n = make(L, &name->ast, load_fn(name->bind), NULL, NULL);

    n->slot = name->slot;
    n->sym = name->id;
    if (name->bind == BIND_NONE && !strcmp(name->id->text, "__class__"))
        n->eval = ev_class_cell;
    if (name->bind == BIND_CLASS) {
        n->a = make(L, &name->ast, load_fn(name->outer), NULL, NULL);
        n->a->slot = name->outer_slot;
        n->a->sym = name->id;
    }
    return n;
}

static StoreFn store_fn(int bind)
{
    switch (bind) {
    case BIND_LOCAL: return st_local;
    case BIND_CELL: return st_cell;
    case BIND_FREE: return st_free;
    case BIND_GLOBAL: return st_global;
    case BIND_CLASS: return st_class_name;
    default: return st_ignore;
    }
}

Step *lower_name_store(Lower *L, const AstName *name)
{
    Step *n = step_new(L, &name->ast);

    n->store = store_fn(name->bind);
    n->slot = name->slot;
    n->sym = name->id;
    return n;
}

/* ------------------------------------------------------------- targets */

static Step *lower_unpack(Lower *L, const Ast *t, AstSeq elts)
{
    Step *n = step_new(L, t);

    n->store = st_unpack;
    n->seq = seq_new(L, elts.n);
    n->small = UINT16_MAX;      /* index of the starred one */
    for (int i = 0; i < elts.n; i++) {
        const Ast *e = elts.at[i];
        if (AST_IS(e, Starred)) {
            n->small = (uint16_t)i;
            e = AST_AS(e, Starred)->value;
        }
        n->seq->at[i] = lower_target(L, e);
    }
    return n;
}

Step *lower_target(Lower *L, const Ast *t)
{
    Step *n;

    switch (t->kind) {
    case AST_Name: return lower_name_store(L, AST_AS(t, Name));
    case AST_Tuple: return lower_unpack(L, t, AST_AS(t, Tuple)->elts);
    case AST_List: return lower_unpack(L, t, AST_AS(t, List)->elts);
    case AST_Starred: return lower_target(L, AST_AS(t, Starred)->value);
    case AST_Attribute:
        n = step_new(L, t);
        n->store = st_attr;
        n->a = lower_expr(L, AST_AS(t, Attribute)->value);
        n->p = cache_new(L, AST_AS(t, Attribute)->attr);
        return n;
    case AST_Subscript:
        n = step_new(L, t);
        n->store = st_item;
        n->a = lower_expr(L, AST_AS(t, Subscript)->value);
        n->b = lower_expr(L, AST_AS(t, Subscript)->index);
        switch (AST_AS(t, Subscript)->value->kind) {    /* a tensor there is replaced, so its place must be known */
        case AST_Name: case AST_Attribute: case AST_Subscript:
            n->c = lower_target(L, AST_AS(t, Subscript)->value);
            break;
        default: break;
        }
        return n;
    default:
        n = step_new(L, t);
        n->store = st_ignore;
        return n;
    }
}

/* ------------------------------------------------------------- calls */

static bool plain_args(AstSeq args)
{
    for (int i = 0; i < args.n; i++)
        if (AST_AS(args.at[i], Arg)->stars || AST_AS(args.at[i], Arg)->name)
            return false;
    return true;
}

static StepSeq *lower_args(Lower *L, AstSeq args, bool plain)
{
    StepSeq *s = seq_new(L, args.n);

    for (int i = 0; i < args.n; i++) {
        const AstArg *a = AST_AS(args.at[i], Arg);
        Step *v = lower_expr(L, a->value);
        s->at[i] = v;
        if (!plain) {
            s->at[i] = step_new(L, &a->ast);
            s->at[i]->a = v;
            s->at[i]->flag = (uint8_t)a->stars;
            s->at[i]->sym = a->name;
        }
    }
    return s;
}

static Step *lower_call(Lower *L, const AstCall *c)
{
    bool plain = plain_args(c->args);
    Step *n = make(L, &c->ast, plain ? ev_call : ev_call_general, NULL, NULL);

    if (AST_IS(c->func, Attribute)) {
        const AstAttribute *a = AST_AS(c->func, Attribute);
        n->eval = plain ? ev_call_method : ev_call_general;
        n->flag = 1;            /* a method: a is the object, p the attribute */
        n->a = lower_expr(L, a->value);
        n->p = cache_new(L, a->attr);
    } else {
        n->a = lower_expr(L, c->func);
    }
    n->seq = lower_args(L, c->args, plain);
    return n;
}

/* ------------------------------------------------------------- displays, f-strings */

/* Elements with stars: the element's node has flag 1 and its value in a. */
static Step *lower_display(Lower *L, const Ast *at, EvalFn fn, AstSeq elts)
{
    Step *n = make(L, at, fn, NULL, NULL);

    n->seq = seq_new(L, elts.n);
    for (int i = 0; i < elts.n; i++) {
        const Ast *e = elts.at[i];
        if (AST_IS(e, Starred)) {
            n->seq->at[i] = step_new(L, e);
            n->seq->at[i]->a = lower_expr(L, AST_AS(e, Starred)->value);
            n->flag = 1;
        } else {
            n->seq->at[i] = lower_expr(L, e);
        }
    }
    return n;
}

static Step *lower_dict(Lower *L, const AstDict *d)
{
    Step *n = make(L, &d->ast, ev_dict, NULL, NULL);

    n->seq = seq_new(L, d->items.n * 2);
    for (int i = 0; i < d->items.n; i++) {
        const AstDictItem *item = AST_AS(d->items.at[i], DictItem);
        n->seq->at[2 * i] = item->key ? lower_expr(L, item->key) : NULL;
        n->seq->at[2 * i + 1] = lower_expr(L, item->value);
    }
    return n;
}

static Step *lower_str(Lower *L, const Ast *at, AstText t)
{
    Value v = t.n < 64 ? str_sym(sym_n(t.s, t.n)) : str_new(t.s, t.n);

    return lower_const(L, at, v);
}

static Step *lower_hole(Lower *L, const AstHole *h)
{
    Step *n = make(L, &h->ast, ev_hole, lower_expr(L, h->value), NULL);

    n->small = (uint16_t)h->conversion;
    if (h->debug.n && !h->conversion && !h->spec)
        n->small = 'r';
    if (h->spec)
        n->b = lower_expr(L, h->spec);
    return n;
}

static Step *lower_fstring(Lower *L, const AstFString *s)
{
    Step *n = make(L, &s->ast, ev_fstring, NULL, NULL);
    int extra = 0, at = 0;

    for (int i = 0; i < s->parts.n; i++)
        extra += AST_IS(s->parts.at[i], Hole) && AST_AS(s->parts.at[i], Hole)->debug.n;
    n->seq = seq_new(L, s->parts.n + extra);
    for (int i = 0; i < s->parts.n; i++) {
        const Ast *p = s->parts.at[i];
        if (!AST_IS(p, Hole)) {
            n->seq->at[at++] = lower_expr(L, p);
            continue;
        }
        if (AST_AS(p, Hole)->debug.n)
            n->seq->at[at++] = lower_str(L, p, AST_AS(p, Hole)->debug);
        n->seq->at[at++] = lower_hole(L, AST_AS(p, Hole));
    }
    return n;
}

/* ------------------------------------------------------------- operators */

/* What may change something outside of the expression, or fail: calls, assignments, subscripts, the division of ints. */
static bool look_danger(Ast *n, void *st)
{
    bool divides = n->kind == AST_BinOp && (AST_AS(n, BinOp)->op == AOP_FLOORDIV || AST_AS(n, BinOp)->op == AOP_MOD);

    if (n->kind == AST_Call || n->kind == AST_NamedExpr || n->kind == AST_Await || n->kind == AST_Subscript || divides)
        *(bool *)st = true;
    return *(bool *)st || n->kind == AST_Lambda || ast_walk(n, look_danger, st);
}

/* flag: may what stands right of the first comparison change something, or fail? */
static Step *lower_chain(Lower *L, const AstCompare *c)
{
    Step *first = lower_expr(L, c->left), *n;
    bool dangers = false;

    if (c->rest.n == 1) {
        const AstCompareItem *item = AST_AS(c->rest.at[0], CompareItem);
        return lower_compare1(L, &c->ast, (int)item->op, first, lower_expr(L, item->right));
    }
    n = make(L, &c->ast, ev_chain, first, NULL);
    n->seq = seq_new(L, c->rest.n);
    for (int i = 0; i < c->rest.n; i++) {
        const AstCompareItem *item = AST_AS(c->rest.at[i], CompareItem);
        n->seq->at[i] = make(L, &c->ast, NULL, lower_expr(L, item->right), NULL);
        n->seq->at[i]->op = (uint8_t)item->op;
        if (i)
            look_danger(item->right, &dangers);
    }
    n->flag = dangers;
    return n;
}

static Step *lower_unary(Lower *L, const AstUnaryOp *u)
{
    Step *a = lower_expr(L, u->operand), *n;

    if (u->op == AOP_NEG && is_const(a) && a->k.tag == V_INT && a->k.i != INT64_MIN)
        return lower_const(L, &u->ast, vint(-a->k.i));
    if (u->op == AOP_NEG && is_const(a) && a->k.tag == V_FLOAT)
        return lower_const(L, &u->ast, vfloat(-a->k.f));
    n = make(L, &u->ast, u->op == AOP_NOT ? ev_not : ev_unary, a, NULL);
    n->op = (uint8_t)u->op;
    return n;
}

static Step *lower_slice(Lower *L, const AstSlice *s)
{
    Step *n = make(L, &s->ast, ev_slice, NULL, NULL);

    n->a = s->lo ? lower_expr(L, s->lo) : NULL;
    n->b = s->hi ? lower_expr(L, s->hi) : NULL;
    n->c = s->step ? lower_expr(L, s->step) : NULL;
    return n;
}

static Step *lower_named(Lower *L, const AstNamedExpr *e)
{
    Step *n = make(L, &e->ast, ev_named, lower_expr(L, e->value), NULL);

    n->b = lower_target(L, e->target);
    return n;
}

static Step *lower_lambda(Lower *L, const AstLambda *e)
{
    Step *n = make(L, &e->ast, ev_lambda, NULL, NULL);

    n->p = lower_code(L, &e->ast, e->scope, sym("<lambda>"));
    return n;
}

static Step *lower_genexp(Lower *L, const AstGenExp *e)
{
    Step *n = make(L, &e->ast, ev_genexp, NULL, NULL);

    n->a = lower_expr(L, AST_AS(e->clauses.at[0], CompFor)->iter);
    n->p = lower_code(L, &e->ast, e->scope, sym("<genexpr>"));
    return n;
}

static Step *lower_ifexp(Lower *L, const AstIfExp *e)
{
    Step *n = make(L, &e->ast, ev_ifexp, lower_expr(L, e->test), lower_expr(L, e->body));

    n->c = lower_expr(L, e->orelse);
    return n;
}

/* flag: may its right sides change something, or fail? */
static Step *lower_boolop(Lower *L, const AstBoolOp *e)
{
    Step *n = make(L, &e->ast, e->op == AOP_AND ? ev_and : ev_or, NULL, NULL);
    bool dangers = false;

    n->seq = lower_exprs(L, e->values);
    for (int i = 1; i < e->values.n; i++)
        look_danger(e->values.at[i], &dangers);
    n->flag = dangers;
    return n;
}

static Value const_value(int64_t c)
{
    switch (c) {
    case CONST_FALSE: return vbool(false);
    case CONST_TRUE: return vbool(true);
    case CONST_ELLIPSIS: return (Value){.tag = V_ELLIPSIS};
    default: return VNONE;
    }
}

static Value bytes_value(AstText t)
{
    BytesObj *b = obj_new(V_BYTES, sizeof *b + t.n + 1);

    b->len = t.n;
    memcpy(b->s, t.s, t.n);
    return vobj(b);
}

static Step *lower_attr(Lower *L, const AstAttribute *a)
{
    Step *n = make(L, &a->ast, ev_attr, lower_expr(L, a->value), NULL);

    n->p = cache_new(L, a->attr);
    return n;
}

static Step *lower_unit_await(Lower *L, const Ast *at, EvalFn fn, const Ast *value)
{
    return make(L, at, fn, value ? lower_expr(L, value) : NULL, NULL);
}

/* W{"d_model"}: indexing by names. */
static Step *lower_brace(Lower *L, const AstBraceIndex *e)
{
    Step *n = make(L, &e->ast, ev_item, lower_expr(L, e->value), NULL);

    n->b = e->index.n == 1 ? lower_expr(L, e->index.at[0]) : lower_display(L, &e->ast, ev_tuple, e->index);
    return n;
}

Step *lower_expr(Lower *L, const Ast *e)
{
    switch (e->kind) {
    case AST_Name: return lower_name(L, AST_AS(e, Name));
    case AST_Int: return lower_const(L, e, vint(AST_AS(e, Int)->value));
    case AST_Float: return lower_const(L, e, vfloat(AST_AS(e, Float)->value));
    case AST_Imag: return lower_const(L, e, complex_new(0, AST_AS(e, Imag)->value));
    case AST_Str: return lower_str(L, e, AST_AS(e, Str)->value);
    case AST_Bytes: return lower_const(L, e, bytes_value(AST_AS(e, Bytes)->value));
    case AST_Const: return lower_const(L, e, const_value(AST_AS(e, Const)->value));
    case AST_FString: return lower_fstring(L, AST_AS(e, FString));
    case AST_Hole: return lower_hole(L, AST_AS(e, Hole));
    case AST_BinOp:
        return lower_arith(L, e, (int)AST_AS(e, BinOp)->op, lower_expr(L, AST_AS(e, BinOp)->left),
                           lower_expr(L, AST_AS(e, BinOp)->right));
    case AST_UnaryOp: return lower_unary(L, AST_AS(e, UnaryOp));
    case AST_BoolOp: return lower_boolop(L, AST_AS(e, BoolOp));
    case AST_Compare: return lower_chain(L, AST_AS(e, Compare));
    case AST_Call: return lower_call(L, AST_AS(e, Call));
    case AST_Attribute: return lower_attr(L, AST_AS(e, Attribute));
    case AST_Subscript:
        return make(L, e, ev_item, lower_expr(L, AST_AS(e, Subscript)->value), lower_expr(L, AST_AS(e, Subscript)->index));
    case AST_BraceIndex: return lower_brace(L, AST_AS(e, BraceIndex));
    case AST_Slice: return lower_slice(L, AST_AS(e, Slice));
    case AST_Tuple: return lower_display(L, e, ev_tuple, AST_AS(e, Tuple)->elts);
    case AST_List: return lower_display(L, e, ev_list, AST_AS(e, List)->elts);
    case AST_Set: return lower_display(L, e, ev_set, AST_AS(e, Set)->elts);
    case AST_Dict: return lower_dict(L, AST_AS(e, Dict));
    case AST_IfExp: return lower_ifexp(L, AST_AS(e, IfExp));
    case AST_Lambda: return lower_lambda(L, AST_AS(e, Lambda));
    case AST_ListComp: case AST_SetComp: case AST_DictComp: return lower_comp(L, e);
    case AST_GenExp: return lower_genexp(L, AST_AS(e, GenExp));
    case AST_Await: return lower_unit_await(L, e, ev_await, AST_AS(e, Await)->value);
    case AST_Yield: return lower_unit_await(L, e, ev_yield, AST_AS(e, Yield)->value);
    case AST_YieldFrom: return lower_unit_await(L, e, ev_yield_from, AST_AS(e, YieldFrom)->value);
    case AST_NamedExpr: return lower_named(L, AST_AS(e, NamedExpr));
    case AST_Starred: return lower_expr(L, AST_AS(e, Starred)->value);
    default: return make(L, e, ev_unknown, NULL, NULL);
    }
}
