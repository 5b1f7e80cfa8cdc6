/*
 * Collectives that not every rank may reach.
 *
 * Ranks run one program on different data.  A value varies when it comes from
 * the rank or from a shard; a collective under control that varies, or behind
 * an exit that only some ranks take, leaves the others waiting for ever.
 *
 * Variance is a mask: bit 0, it varies; bit 1 + i, it varies when parameter i
 * does.  Variables have one mask for the whole function, the union over all
 * their stores and the conditions around these.  Parameters vary when some call
 * in the program passes what varies.
 */
#include "frontend/check/variance.h"

#include "frontend/eval/native.h"

#include <string.h>

/* ------------------------------------------------------------- names that tell */

bool vary_listed(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (!strcmp(*list, name))
            return true;
    return false;
}

/* Results that differ from rank to rank. */
static const char *const differing[] = {"get_rank", "get_local_rank", "local_rank", "axis_index", "mesh_coordinate", "shard", "scatter_ranks",
                                        "reduce_scatter", "all_to_all", "ppermute", "mesh_shift", NULL};
/* Results that are equal on all ranks, whatever goes in. */
static const char *const agreeing[] = {"all_reduce", "all_gather", "broadcast_from", "mesh_reduce", "reduce_ranks", "len", "isinstance",
                                       "type", "get_world_size", NULL};
/* What is the same for every shard of a tensor. */
static const char *const uniform[] = {"shape", "dtype", "ndim", "size", "device", NULL};

const char *vary_name(const Ast *e)
{
    return AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : AST_IS(e, Name) ? AST_AS(e, Name)->id->text : "";
}

/* The program's own function that a call runs; NULL: the library's, or not known. */
EffFn *vary_callee(Vary *v, AstCall *c, bool *bound)
{
    Things t = things_of(v->E, v->scope, c->func);

    for (int i = 0; i < t.n; i++)
        if (t.at[i].kind == THING_FN && !((EffFn *)t.at[i].p)->owner) {
            *bound = t.at[i].bound;
            return (EffFn *)t.at[i].p;
        }
    return NULL;
}

/* ------------------------------------------------------------- expressions */

bool vary_resolves(const Vary *v, uint64_t mask)
{
    return mask & VARIES || (v->fn && mask >> 1 & v->fn->param_varies);
}

static uint64_t name_varies(Vary *v, AstName *n)
{
    Scope *owner = NULL;
    const Local *l = things_local(v->E, v->scope, n, &owner);
    uintptr_t m = 0;

    if (!l)
        return 0;
    map_find(&v->E->varies, (uintptr_t)l, &m);
    if (!v->fn || owner == v->fn->scope || owner->kind == SCOPE_GENEXP)
        return m | (l->is_param && v->fn && owner == v->fn->scope && l->slot < 62 ? 2ull << l->slot : 0);
    EffFn *f = map_get_ptr(&v->E->fn_of, owner->node);      /* of a function around, or of the module */
    if (l->is_param && f && l->slot < 62)
        m |= 2ull << l->slot;
    return m & VARIES || (f && m >> 1 & f->param_varies) ? VARIES : 0;
}

static uint64_t argument_varies(Vary *v, const EffFn *f, AstCall *c, int slot, bool bound)
{
    AstParam *p = things_param(f, slot);
    int at = slot - bound, k = 0;

    if (bound && !slot)
        return AST_IS(c->func, Attribute) ? vary_mask(v, AST_AS(c->func, Attribute)->value) : 0;
    for (int i = 0; i < c->args.n; i++) {
        AstArg *a = AST_AS(c->args.at[i], Arg);
        if (a->ast.kind != AST_Arg)
            continue;
        if (a->stars || (a->name ? p && a->name == p->name : k++ == at))
            return vary_mask(v, a->value);
    }
    return 0;
}

/* A call passes what varies on: the callee's parameters vary, too. */
static void pass(Vary *v, EffFn *f, AstCall *c, bool bound)
{
    for (int slot = 0; slot < 62; slot++)
        if (things_param(f, slot) && !(f->param_varies >> slot & 1) && vary_resolves(v, argument_varies(v, f, c, slot, bound))) {
            f->param_varies |= 1ull << slot;
            v->changed = true;
        }
}

/* os.environ["RANK"], os.getenv("LOCAL_RANK") */
static bool is_rank_variable(const Ast *e)
{
    return AST_IS(e, Str) && strstr(AST_AS(e, Str)->value.s, "RANK");
}

static uint64_t call_varies(Vary *v, AstCall *c)
{
    const char *name = vary_name(c->func);
    bool bound = false;
    EffFn *f = vary_callee(v, c, &bound);
    uint64_t m = 0;

    if (f) {
        pass(v, f, c, bound);
        m = f->result & VARIES;
        for (int slot = 0; slot < 62; slot++)
            if (f->result >> (slot + 1) & 1)
                m |= argument_varies(v, f, c, slot, bound);
        return m;
    }
    if (vary_listed(differing, name))
        return VARIES;
    for (int i = 0; i < c->args.n; i++)
        if (AST_IS(c->args.at[i], Arg)) {
            m |= vary_mask(v, AST_AS(c->args.at[i], Arg)->value);
            if (is_rank_variable(AST_AS(c->args.at[i], Arg)->value))
                m |= VARIES;
        }
    if (AST_IS(c->func, Attribute))
        m |= vary_mask(v, AST_AS(c->func, Attribute)->value);
    return vary_listed(agreeing, name) ? 0 : m;
}

typedef struct { Vary *v; uint64_t mask; } Sum;

static bool add_child(Ast *n, void *state)
{
    Sum *s = state;

    s->mask |= vary_mask(s->v, n);
    return true;
}

uint64_t vary_mask(Vary *v, Ast *e)
{
    Sum s = {v, 0};

    if (!e || v->depth > DEPTH)
        return 0;
    switch (e->kind) {
    case AST_Name:
        return name_varies(v, AST_AS(e, Name));
    case AST_Call:
        v->depth++;
        s.mask = call_varies(v, AST_AS(e, Call));
        v->depth--;
        return s.mask;
    case AST_Attribute:
        if (vary_listed(uniform, AST_AS(e, Attribute)->attr->text))
            return 0;
        if (!strcmp(AST_AS(e, Attribute)->attr->text, "rank"))
            return VARIES;
        break;
    case AST_Subscript:
        if (is_rank_variable(AST_AS(e, Subscript)->index))
            return VARIES;
        break;
    case AST_Lambda:
        return 0;
    default:
        break;
    }
    v->depth++;
    ast_walk(e, add_child, &s);
    v->depth--;
    return s.mask;
}

/* ------------------------------------------------------------- collectives */

#define DIFFERS "this condition differs between ranks"

static void diverge(Vary *v, AstCall *c)
{
    StrBuf callee = {0};
    Diag *d;

    ast_print(c->func, &callee);
    if (*vary_name(c->func) || callee.n > 40)
        sb_clear(&callee), sb_puts(&callee, *vary_name(c->func) ? vary_name(c->func) : "this function");
    d = DIAG_AT(v->E->sink, E0506, c->ast.span, sb_str(&callee));
    diag_label(d, v->why->span, "%s", v->how);
    diag_help(d, "let every rank call %s(), and choose what to do with its result", sb_str(&callee));
    sb_done(&callee);
}

/* May the callee be one function here and another there? */
static bool is_one_of_several(Vary *v, Ast *callee)
{
    return (AST_IS(callee, Name) || AST_IS(callee, Subscript) || AST_IS(callee, IfExp) || AST_IS(callee, Call)) &&
           things_of(v->E, v->scope, callee).n > 1 && vary_resolves(v, vary_mask(v, callee));
}

/* cond(test, f, g) runs one of two functions, fs[rank](x) one of many. */
static const Ast *chosen_by(Vary *v, AstCall *c, const char **how)
{
    Ast *test = c->args.n && AST_IS(c->args.at[0], Arg) ? AST_AS(c->args.at[0], Arg)->value : NULL;

    *how = DIFFERS;
    if (test && !strcmp(vary_name(c->func), "cond") && vary_resolves(v, vary_mask(v, test)))
        return test;
    *how = "which function this is differs between ranks";
    return is_one_of_several(v, c->func) ? c->func : NULL;
}

static void check_call(Vary *v, AstCall *c)
{
    const char *how = NULL;
    const Ast *was = v->why, *test = was || !v->report ? NULL : chosen_by(v, c, &how);
    uint8_t bits;

    if (test) {
        v->why = test;
        v->how = how;
    }
    bits = v->report && v->why ? effects_of_call(v->E, v->scope, c) : 0;
    if (bits >> EFF_collective & 1)
        diverge(v, c);
    else if (bits & EFFECTS_MORE)
        diag_label(DIAG_AT(v->E->sink, E0514, c->ast.span, effects_callee(v->E, vary_name(c->func))), v->why->span, "%s", v->how);
    v->why = was;
}

/* ------------------------------------------------------------- statements */

static bool walk(Ast *n, void *state);

static void walk_each(Vary *v, AstSeq s)
{
    for (int i = 0; i < s.n; i++)
        walk(s.at[i], v);
}

/* Some statements under a condition. */
static void under(Vary *v, uint64_t mask, const Ast *test, const char *how, AstSeq body)
{
    uint64_t control = v->control;
    const Ast *why = v->why;
    const char *was = v->how;

    v->control |= mask;
    if (!v->why && vary_resolves(v, mask)) {
        v->why = test;
        v->how = how;
    }
    walk_each(v, body);
    v->control = control;
    v->why = why;
    v->how = was;
}

enum { EXIT_LOOP = 1, EXIT_FUNCTION = 2, EXIT_ROUND = 4 };
typedef struct { Vary *v; int kinds; bool found; int loops, depth; } Exits;

static bool find_exit(Ast *n, void *state)
{
    Exits *x = state;
    bool loop = n && (n->kind == AST_For || n->kind == AST_While);

    if (!n || x->found || x->depth > DEPTH || n->kind == AST_FunctionDef || n->kind == AST_Lambda || n->kind == AST_ClassDef)
        return true;
    if (((n->kind == AST_Return || n->kind == AST_Raise) && x->kinds & EXIT_FUNCTION) ||
        (n->kind == AST_Break && x->kinds & EXIT_LOOP && !x->loops) || (n->kind == AST_Continue && x->kinds & EXIT_ROUND && !x->loops))
        x->found = true;
    x->loops += loop;
    x->depth++;
    ast_walk(n, find_exit, x);
    x->depth--;
    x->loops -= loop;
    return true;
}

static bool leaves(Vary *v, AstSeq body, int kinds)
{
    Exits x = {v, kinds, false, 0, 0};

    for (int i = 0; i < body.n; i++)
        find_exit(body.at[i], &x);
    return x.found;
}

/* The condition below which only some ranks leave these statements; NULL: none. */
static const Ast *divergent_exit(Vary *v, AstSeq body, int kinds);

static const Ast *divergent_statement(Vary *v, Ast *n, int kinds)
{
    AstIf *i = AST_AS(n, If);
    const Ast *t;

    switch (n->kind) {
    case AST_If:
        if (vary_resolves(v, vary_mask(v, i->test)) && (leaves(v, i->body, kinds) || leaves(v, i->orelse, kinds)))
            return i->test;
        t = divergent_exit(v, i->body, kinds);
        return t ? t : divergent_exit(v, i->orelse, kinds);
    case AST_With:
        return divergent_exit(v, AST_AS(n, With)->body, kinds);
    case AST_Try:
        return divergent_exit(v, AST_AS(n, Try)->body, kinds);
    case AST_For:
        if (kinds & EXIT_FUNCTION && vary_resolves(v, vary_rounds(v, AST_AS(n, For)->iter)) && leaves(v, AST_AS(n, For)->body, EXIT_FUNCTION))
            return AST_AS(n, For)->iter;
        return divergent_exit(v, AST_AS(n, For)->body, kinds & EXIT_FUNCTION);
    case AST_While:
        return divergent_exit(v, AST_AS(n, While)->body, kinds & EXIT_FUNCTION);
    default:
        return NULL;
    }
}

static const Ast *divergent_exit(Vary *v, AstSeq body, int kinds)
{
    const Ast *t = NULL;

    if (v->depth > DEPTH)
        return NULL;
    v->depth++;
    for (int i = 0; i < body.n && !t; i++)
        t = divergent_statement(v, body.at[i], kinds);
    v->depth--;
    return t;
}

/* Statements in order; behind an exit that some ranks take, the others go on alone. */
static void sequence(Vary *v, AstSeq body, int kinds)
{
    const Ast *why = v->why;
    const char *how = v->how;

    for (int i = 0; i < body.n; i++) {
        const Ast *t;
        walk(body.at[i], v);
        t = v->why ? NULL : divergent_statement(v, body.at[i], kinds);
        if (t) {
            v->why = t;
            v->how = "only some ranks go on behind this";
        }
    }
    v->why = why;
    v->how = how;
}

/* A loop runs as often as its condition says, and as often as no rank leaves it. */
static void loop(Vary *v, uint64_t mask, const Ast *test, AstSeq body, AstSeq orelse)
{
    const Ast *why = v->why, *leave = why ? NULL : divergent_exit(v, body, EXIT_LOOP | EXIT_FUNCTION);
    const char *how = v->how;
    uint64_t control = v->control;

    v->control |= mask;
    if (!why && vary_resolves(v, mask)) {
        v->why = test;
        v->how = "how often this runs differs between ranks";
    } else if (leave) {
        v->why = leave;
        v->how = "some ranks leave the loop here";
    }
    sequence(v, body, EXIT_ROUND | EXIT_FUNCTION);
    v->why = why;
    v->how = how;
    v->control = control;
    walk_each(v, orelse);
}

static void set_mask(Vary *v, const Local *l, uint64_t mask)
{
    uintptr_t was = 0;

    map_find(&v->E->varies, (uintptr_t)l, &was);
    if ((was | mask) == was)
        return;
    map_set(&v->E->varies, (uintptr_t)l, was | mask);
    v->changed = true;
}

static void store(Vary *v, Ast *t, uint64_t mask)
{
    AstSeq e;
    const Local *l;

    mask |= v->control;
    if (!t || !mask || v->depth > DEPTH)
        return;
    v->depth++;
    switch (t->kind) {
    case AST_Name:
        l = things_local(v->E, v->scope, AST_AS(t, Name), NULL);
        if (l)
            set_mask(v, l, mask);
        break;
    case AST_Tuple:
    case AST_List:
        e = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : AST_AS(t, List)->elts;
        for (int i = 0; i < e.n; i++)
            store(v, e.at[i], mask);
        break;
    case AST_Starred:
        store(v, AST_AS(t, Starred)->value, mask);
        break;
    case AST_Subscript:
        store(v, AST_AS(t, Subscript)->value, mask);
        break;
    default:
        break;
    }
    v->depth--;
}

static void walk_assign(Vary *v, AstSeq targets, Ast *value)
{
    walk(value, v);
    if (AST_IS(value, Tuple) && targets.n == 1 && AST_IS(targets.at[0], Tuple) &&
        AST_AS(value, Tuple)->elts.n == AST_AS(targets.at[0], Tuple)->elts.n) {
        for (int i = 0; i < AST_AS(value, Tuple)->elts.n; i++)
            store(v, AST_AS(targets.at[0], Tuple)->elts.at[i], vary_mask(v, AST_AS(value, Tuple)->elts.at[i]));
        return;
    }
    for (int i = 0; i < targets.n; i++)
        store(v, targets.at[i], vary_mask(v, value));
}

static void walk_return(Vary *v, AstReturn *r)
{
    uint64_t mask = v->control | vary_mask(v, r->value);

    walk(r->value, v);
    if (v->fn && (v->fn->result | mask) != v->fn->result) {
        v->fn->result |= mask;
        v->changed = true;
    }
}

/* a and b: b is evaluated where a lets it. */
static void walk_bool(Vary *v, AstBoolOp *b)
{
    uint64_t mask = 0;

    for (int i = 0; i < b->values.n; i++) {
        under(v, mask, b->values.at[i ? i - 1 : 0], DIFFERS, (AstSeq){&b->values.at[i], 1});
        mask |= vary_mask(v, b->values.at[i]);
    }
}

static void walk_comp(Vary *v, Ast *n, AstSeq clauses)
{
    uint64_t mask = 0;
    const Ast *test = n;
    Scope *was = v->scope;

    if (n->kind == AST_GenExp && AST_AS(n, GenExp)->scope)
        v->scope = AST_AS(n, GenExp)->scope;
    for (int i = 0; i < clauses.n; i++) {
        AstCompFor *c = AST_AS(clauses.at[i], CompFor);
        uint64_t m = vary_clauses(v, (AstSeq){&clauses.at[i], 1});
        if (m)
            test = c->iter;
        mask |= m;
        store(v, c->target, vary_mask(v, c->iter));
    }
    uint64_t control = v->control;
    const Ast *why = v->why, *seen = v->seen;
    Ast *first = clauses.n ? AST_AS(clauses.at[0], CompFor)->iter : NULL;
    walk(first, v);
    v->seen = first;
    v->control |= mask;
    if (!why && vary_resolves(v, mask)) {
        v->why = test;
        v->how = "how often this runs differs between ranks";
    }
    v->depth++;
    ast_walk(n, walk, v);
    v->depth--;
    v->seen = seen;
    v->why = why;
    v->control = control;
    v->scope = was;
}

static void walk_try(Vary *v, AstTry *t)
{
    const Ast *why = v->why;

    sequence(v, t->body, EXIT_LOOP | EXIT_FUNCTION | EXIT_ROUND);
    for (int i = 0; i < t->handlers.n; i++) {
        if (!why) {
            v->why = t->handlers.at[i];
            v->how = "an exception may be raised on some ranks only";
        }
        walk_each(v, AST_AS(t->handlers.at[i], Handler)->body);
        v->why = why;
    }
    walk_each(v, t->orelse);
    walk_each(v, t->final);
}

static void walk_branches(Vary *v, Ast *n)
{
    uint64_t m;

    switch (n->kind) {
    case AST_If:
        walk(AST_AS(n, If)->test, v);
        m = vary_mask(v, AST_AS(n, If)->test);
        under(v, m, AST_AS(n, If)->test, DIFFERS, AST_AS(n, If)->body);
        under(v, m, AST_AS(n, If)->test, DIFFERS, AST_AS(n, If)->orelse);
        break;
    case AST_IfExp:
        walk(AST_AS(n, IfExp)->test, v);
        m = vary_mask(v, AST_AS(n, IfExp)->test);
        under(v, m, AST_AS(n, IfExp)->test, DIFFERS, (AstSeq){&AST_AS(n, IfExp)->body, 1});
        under(v, m, AST_AS(n, IfExp)->test, DIFFERS, (AstSeq){&AST_AS(n, IfExp)->orelse, 1});
        break;
    case AST_For:
        walk(AST_AS(n, For)->iter, v);
        m = vary_rounds(v, AST_AS(n, For)->iter);
        store(v, AST_AS(n, For)->target, m | vary_mask(v, AST_AS(n, For)->iter));
        loop(v, m, AST_AS(n, For)->iter, AST_AS(n, For)->body, AST_AS(n, For)->orelse);
        break;
    case AST_While:
        walk(AST_AS(n, While)->test, v);
        loop(v, vary_mask(v, AST_AS(n, While)->test), AST_AS(n, While)->test, AST_AS(n, While)->body, AST_AS(n, While)->orelse);
        break;
    default:                                        /* Match */
        walk(AST_AS(n, Match)->subject, v);
        m = vary_mask(v, AST_AS(n, Match)->subject);
        for (int i = 0; i < AST_AS(n, Match)->cases.n; i++)
            under(v, m, AST_AS(n, Match)->subject, DIFFERS, AST_AS(AST_AS(n, Match)->cases.at[i], MatchCase)->body);
    }
}

static bool walk(Ast *n, void *state)
{
    Vary *v = state;

    if (!n || n == v->seen || v->depth > DEPTH)
        return true;
    v->depth++;
    switch (n->kind) {
    case AST_FunctionDef: case AST_Lambda: case AST_ClassDef:
        break;
    case AST_If: case AST_IfExp: case AST_For: case AST_While: case AST_Match:
        walk_branches(v, n);
        break;
    case AST_Try:
        walk_try(v, AST_AS(n, Try));
        break;
    case AST_With:
        walk_each(v, AST_AS(n, With)->items);
        sequence(v, AST_AS(n, With)->body, EXIT_LOOP | EXIT_FUNCTION | EXIT_ROUND);
        break;
    case AST_BoolOp:
        walk_bool(v, AST_AS(n, BoolOp));
        break;
    case AST_ListComp: walk_comp(v, n, AST_AS(n, ListComp)->clauses); break;
    case AST_SetComp: walk_comp(v, n, AST_AS(n, SetComp)->clauses); break;
    case AST_DictComp: walk_comp(v, n, AST_AS(n, DictComp)->clauses); break;
    case AST_GenExp: walk_comp(v, n, AST_AS(n, GenExp)->clauses); break;
    case AST_Assign:
        walk_assign(v, AST_AS(n, Assign)->targets, AST_AS(n, Assign)->value);
        break;
    case AST_AnnAssign:
        walk(AST_AS(n, AnnAssign)->value, v);
        store(v, AST_AS(n, AnnAssign)->target, vary_mask(v, AST_AS(n, AnnAssign)->value));
        break;
    case AST_AugAssign:
        walk(AST_AS(n, AugAssign)->value, v);
        store(v, AST_AS(n, AugAssign)->target, vary_mask(v, AST_AS(n, AugAssign)->value));
        break;
    case AST_NamedExpr:
        walk(AST_AS(n, NamedExpr)->value, v);
        store(v, AST_AS(n, NamedExpr)->target, vary_mask(v, AST_AS(n, NamedExpr)->value));
        break;
    case AST_Return:
        walk_return(v, AST_AS(n, Return));
        break;
    case AST_Call:
        ast_walk(n, walk, v);
        call_varies(v, AST_AS(n, Call));
        check_call(v, AST_AS(n, Call));
        break;
    default:
        ast_walk(n, walk, v);
    }
    v->depth--;
    return true;
}

/* ------------------------------------------------------------- the unit */

static bool walk_fn(Effects *E, EffFn *f, bool report)
{
    Vary v = {.E = E, .fn = f, .scope = f ? f->scope : E->u->module->scope, .report = report};

    if (!f)
        sequence(&v, E->u->module->body, 0);
    else if (f->node->kind == AST_Lambda) {
        f->result |= vary_mask(&v, AST_AS(f->node, Lambda)->body);
        walk(AST_AS(f->node, Lambda)->body, &v);
    }
    else if (f->scope)
        sequence(&v, AST_AS(f->node, FunctionDef)->body, EXIT_FUNCTION);
    return v.changed;
}

static bool walk_all(Effects *E, bool report)
{
    bool changed = walk_fn(E, NULL, report);

    for (int i = 0; i < E->own.n; i++)
        changed |= walk_fn(E, E->own.at[i], report);
    return changed;
}

/* Without a word that tells ranks apart there is nothing that varies. */
static bool speaks_of_ranks(const char *text)
{
    static const char *const words[] = {"rank", "RANK", "except", "coordinate", "axis_index", "shard", "scatter", "all_to_all", "ppermute", "shift"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]))
            return true;
    return false;
}

void variance_check(Effects *E)
{
    int rounds = 0;

    if (!speaks_of_ranks(E->u->src->text))
        return;
    while (rounds < VARIANCE_ROUNDS && walk_all(E, false))
        rounds++;
    if (rounds == VARIANCE_ROUNDS)
        DIAG_AT(E->sink, E0514, E->u->module->ast.span, "the program");
    walk_all(E, true);
}
