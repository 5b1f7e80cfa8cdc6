/*
 * Statements of a kernel: what runs is decided here as far as it is known, and
 * becomes regions where it is not.
 *
 * A choice on a value of the launch evaluates both blocks, each in a region
 * with variables of its own, which then join.  Leaving (return, break,
 * continue) sets a truth, and what follows it in the block runs where that is
 * not set.  Loops are in loops.c.
 */
#include "frontend/kernel/launch_impl.h"

#include <string.h>

Flags kb_flags(void)
{
    static Flags f;

    if (!f.ret)
        f = (Flags){sym("$return"), sym("$break"), sym("$continue"), sym("$value")};
    return f;
}

const KVal kb_no = {.kind = K_STATIC, .v = {.tag = V_BOOL}}, kb_yes = {.kind = K_STATIC, .v = {.tag = V_BOOL, .i = 1}};

/* ------------------------------------------------------------- variables */

Vars vars_copy(const Vars *v)
{
    Vars y = {0};

    for (int i = 0; i < v->n; i++)
        vec_push(&y, v->at[i]);
    return y;
}

KVal vars_value(const Vars *v, Sym name)
{
    for (int i = 0; i < v->n; i++)
        if (v->at[i].name == name)
            return v->at[i].val;
    return KUNSET;
}

void vars_take(Body *B, Vars *v)
{
    vec_free(&B->fn->vars);
    B->fn->vars = *v;
    *v = (Vars){0};
}

/* ------------------------------------------------------------- what a piece of code does */

typedef struct Work { Body *B; bool found; int depth; } Work;

static bool work_in(Ast *n, void *state);

/* What a function of the host does, by its own variables outside; what its parameters will be is not known here. */
static void work_of_function(Work *w, FuncObj *fn)
{
    Inlined in = {.fn = fn, .scope = fn->code->scope, .up = w->B->fn, .depth = w->B->fn->depth + 1, .path = w->B->fn->path};
    AstSeq body = AST_AS(fn->code->ast, FunctionDef)->body;

    w->B->fn = &in;
    w->depth++;
    for (int i = 0; i < body.n; i++)
        work_in(body.at[i], w);
    w->depth--;
    w->B->fn = in.up;
}

/* Functions of the host that are called do what they do. */
static void work_of_call(Work *w, const AstCall *c)
{
    const KernelOp *op = kernel_called(c);
    const AstName *name = AST_IS(c->func, Name) ? AST_AS(c->func, Name) : NULL;
    bool own = name && (name->bind == BIND_LOCAL || name->bind == BIND_CELL);

    if (op && kernel_is_group_work(op))
        w->found = true;
    if (!op && name && w->depth < 8 && !(own && !kb_var(w->B, name->id))) {
        KVal f = kb_name(w->B, name);
        if (f.kind == K_STATIC && f.v.tag == V_FUNC && AST_IS(((FuncObj *)f.v.o)->code->ast, FunctionDef))
            work_of_function(w, (FuncObj *)f.v.o);
    }
}

static bool work_in(Ast *n, void *state)
{
    Work *w = state;

    if (!n || w->found)
        return !w->found;
    if (n->kind == AST_Call)
        work_of_call(w, AST_AS(n, Call));
    return ast_walk(n, work_in, w) && !w->found;
}

/* A barrier, or what the whole group does. */
static bool kb_has_group_work(Body *B, Ast *n)
{
    Work w = {B, false, 0};

    work_in(n, &w);
    return w.found;
}

bool kb_any_group_work(Body *B, AstSeq s)
{
    for (int i = 0; i < s.n; i++)
        if (kb_has_group_work(B, s.at[i]))
            return true;
    return false;
}

/* A truth that decides about the group's work is the same for all lanes, even where nothing shows it. */
KVal kb_for_all(Body *B, KVal test, bool group_work)
{
    if (test.kind == K_STATIC || !group_work || B->spec->lanes == 1 || !kb_lane_dependent(B, test.ref))
        return test;
    return kb_scalar(kb_emit1(B, TOP_uniform, NULL, test.ref), false);
}

/* ------------------------------------------------------------- choices */

typedef struct Way { Vars vars; KVal value; } Way;
typedef void WayFn(Body *B, void *what, KVal *value);

/* The variables and the value of one way, made in a region. */
static Way take_way(Body *B, TileBlock *at, const Vars *before, WayFn *make, void *what)
{
    TileBlock *here = B->b.at;
    Vars start = vars_copy(before);
    Way w = {.value = KUNSET};

    vars_take(B, &start);
    B->b.at = at;
    if (make)
        make(B, what, &w.value);
    B->b.at = here;
    w.vars = vars_copy(&B->fn->vars);
    return w;
}

void merge_add(Merge *m, Sym name)
{
    for (int i = 0; i < m->name.n; i++)
        if (m->name.at[i] == name)
            return;
    vec_push(&m->name, name);
}

void merge_done(Merge *m)
{
    vec_free(&m->name);
    vec_free(&m->type);
}

static bool untouched(KVal a, KVal b)
{
    return a.kind == b.kind && (a.kind == K_UNSET || !memcmp(&a, &b, sizeof a));
}

/* What both ways made of each variable. */
static bool find_types(Body *B, Merge *m, const Way *w)
{
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < w[r].vars.n; i++)
            merge_add(m, w[r].vars.at[i].name);
    for (int i = 0; i < m->name.n; i++) {
        KVal a = vars_value(&w[0].vars, m->name.at[i]), b = vars_value(&w[1].vars, m->name.at[i]);
        KVal t = untouched(a, b) ? a : join_types(B, a, b);
        if (kb_bad(t)) {
            if (!B->again)
                sb_printf(&B->err, " ('%s')", m->name.at[i]->text);
            return false;
        }
        vec_push(&m->type, t);
    }
    return true;
}

/* Convert one way's values, in its region, and yield them. */
static void yield_way(Body *B, TileBlock *at, const Merge *m, const Way *w, KVal type)
{
    TileBlock *here = B->b.at;
    TileRef out[JOIN_REFS];
    int n = 0;

    B->b.at = at;
    for (int i = 0; i < m->name.n && !B->failed; i++) {
        KVal v = vars_value(&w->vars, m->name.at[i]);
        n = join_flatten(B, join_convert(B, v, m->type.at[i]), m->type.at[i], out, n);
    }
    if (type.kind != K_UNSET && !B->failed)
        n = join_flatten(B, join_convert(B, w->value, type), type, out, n);
    if (!B->failed && !tile_yield(&B->b, out, n))
        kb_fail(B, "%s", sb_str(&B->build_err));
    B->b.at = here;
}

/* A whole array of the group's: a name for it is no copy. */
static bool is_array(KVal v)
{
    const KPlace *p = v.kind == K_PLACE ? v.place : NULL;
    int64_t at;

    for (int i = 0; p && i < p->rank; i++)
        if (!(p->stacked && !i) && (p->axis[i].gone || !lin_number_of(&p->axis[i].start, &at) || at))
            return false;
    return p && p->buffer && !p->held && tile_type(p->view)->space == SPACE_SHARED && kplace_free(p);
}

/* Of two arrays one is chosen; an array and a value are values. */
static void arrays_or_values(Body *B, TileNode *n, Way *w)
{
    TileBlock *here = B->b.at;
    const KPlace *p = w[0].value.place, *q = w[1].value.place;

    if (w[0].value.kind == K_PLACE && w[1].value.kind == K_PLACE && p->dtype == q->dtype && kplace_free(p) == kplace_free(q))
        return;
    for (int r = 0; r < 2; r++) {
        B->b.at = n->region[r];
        w[r].value = w[r].value.kind == K_PLACE ? kb_value(B, w[r].value) : w[r].value;
    }
    B->b.at = here;
}

/* if test: yes() else: no(), with the variables that join and a value if they give one. */
static KVal choose(Body *B, KVal test, WayFn *make, void *a, void *b)
{
    Vars before = vars_copy(&B->fn->vars);
    TileNode *n;
    Way w[2];
    Merge m = {{0}, {0}};
    KVal type = KUNSET, value = KUNSET;

    n = B->failed ? NULL : tile_add(&B->b, TOP_if, NULL, &test.ref, 1);
    if (!n) {
        vec_free(&before);
        return kb_fail(B, "%s", sb_str(&B->build_err));
    }
    w[0] = take_way(B, n->region[0], &before, a ? make : NULL, a);
    w[1] = take_way(B, n->region[1], &before, b ? make : NULL, b);
    if (!B->failed)
        arrays_or_values(B, n, w);
    if (!B->failed && (w[0].value.kind != K_UNSET || w[1].value.kind != K_UNSET)) {
        type = join_types(B, w[0].value, w[1].value);
        type = type.kind == K_UNSET ? KBAD : type;
    }
    if (!B->failed && find_types(B, &m, w)) {
        for (int r = 0; r < 2; r++)
            yield_way(B, n->region[r], &m, &w[r], type);
        if (!B->failed) {
            TileRef out[JOIN_REFS];
            int at = 0;
            Vars after = {0};
            for (int i = 0; i < n->nout && i < JOIN_REFS; i++)
                out[i] = (TileRef){n, i};
            for (int i = 0; i < m.name.n; i++)
                vec_push(&after, ((Var){m.name.at[i], join_rebuild(B, m.type.at[i], out, &at)}));
            if (type.kind != K_UNSET)
                value = join_rebuild(B, type, out, &at);
            vars_take(B, &after);
        }
    }
    merge_done(&m);
    vec_free(&w[0].vars);
    vec_free(&w[1].vars);
    vec_free(&before);
    return B->failed ? KBAD : value;
}

typedef struct ChooseValue { KVal (*make)(Body *, void *); void *what; } ChooseValue;

static void make_value(Body *B, void *what, KVal *value)
{
    ChooseValue *c = what;
    KVal v = c->make(B, c->what);

    *value = is_array(v) ? v : kb_value(B, v);
}

KVal kb_choose(Body *B, KVal test, KVal (*make)(Body *, void *), void *a, void *b)
{
    ChooseValue x = {make, a}, y = {make, b};

    if (kb_bad(test))
        return test;
    if (test.kind == K_STATIC)
        return make(B, test.v.i ? a : b);
    return choose(B, test, make_value, &x, &y);
}

static void make_block(Body *B, void *what, KVal *value)
{
    (void)value;
    kb_block_of(B, *(AstSeq *)what);
}

void kb_if_block(Body *B, KVal test, AstSeq *body) { choose(B, test, make_block, body, NULL); }

/* ------------------------------------------------------------- leaving */

KVal kb_either(Body *B, KVal a, KVal b)
{
    if (a.kind == K_UNSET || kb_is_static_false(a))
        return b.kind == K_UNSET ? kb_no : b;
    if (b.kind == K_UNSET || kb_is_static_false(b))
        return a;
    return kb_is_static_true(a) || kb_is_static_true(b) ? kb_yes : kb_apply(B, OP_bitor, (KVal[]){a, b}, 2);
}

static KVal left(Body *B)
{
    Flags f = kb_flags();

    return kb_either(B, vars_value(&B->fn->vars, f.ret), kb_either(B, vars_value(&B->fn->vars, f.brk), vars_value(&B->fn->vars, f.cont)));
}

static void statement(Body *B, Ast *s);

static bool is_barrier(const Ast *s)
{
    const KernelOp *op = AST_IS(s, ExprStmt) && AST_IS(AST_AS(s, ExprStmt)->value, Call) ? kernel_called(AST_AS(AST_AS(s, ExprStmt)->value,
            Call)) : NULL;

    return op && (op->effects & KERNEL_SYNC) && op->level == KERNEL_BLOCK;
}

/* In it nobody has left. */
static void make_rest(Body *B, void *what, KVal *value)
{
    Flags f = kb_flags();

    kb_set(B, f.ret, kb_no);
    kb_set(B, f.brk, kb_no);
    kb_set(B, f.cont, kb_no);
    make_block(B, what, value);
}

void kb_unless(Body *B, KVal gone, AstSeq body)
{
    KVal stay = body.n ? kb_unary(B, AOP_NOT, gone) : kb_no;

    if (kb_bad(stay) || kb_is_static_false(stay))
        return;
    if (kb_is_static_true(stay))
        kb_block_of(B, body);
    else
        choose(B, kb_for_all(B, stay, kb_any_group_work(B, body)), make_rest, &body, NULL);
}

/* What follows where some have left: barriers are for all that are in the group, the rest for those that are still here. */
static void rest_of(Body *B, AstSeq body, KVal gone)
{
    int from = 0;

    while (from < body.n && !B->failed) {
        int to = from;
        AstSeq part;
        KVal stay;
        while (to < body.n && !is_barrier(body.at[to]))
            to++;
        part = (AstSeq){body.at + from, to - from};
        if (part.n) {
            stay = kb_for_all(B, kb_unary(B, AOP_NOT, gone), kb_any_group_work(B, part));
            choose(B, stay, make_rest, &part, NULL);
        }
        if (to < body.n && !B->failed) {
            kb_for_all(B, gone, true);
            statement(B, body.at[to++]);
        }
        if (!B->failed)
            gone = left(B);
        from = to;
    }
}

void kb_block_of(Body *B, AstSeq body)
{
    for (int i = 0; i < body.n && !B->failed; i++) {
        KVal gone;
        statement(B, body.at[i]);
        if (B->failed)
            return;
        gone = left(B);
        if (kb_is_static_true(gone))
            return;
        if (gone.kind != K_STATIC && i + 1 < body.n) {
            rest_of(B, (AstSeq){body.at + i + 1, body.n - i - 1}, gone);
            return;
        }
    }
}

/* ------------------------------------------------------------- targets */

static void store_item(Body *B, AstSubscript *t, KVal v);

/* a, *b = v: the name with a star takes what the others leave, as a list. */
static void bind_several(Body *B, AstSeq names, KVal v)
{
    KVal *item, rest = {.kind = K_LIST};
    int n = kb_sequence(B, v, &item), star = -1;

    for (int i = 0; i < names.n; i++)
        star = AST_IS(names.at[i], Starred) ? i : star;
    if (star < 0 ? n != names.n : n < names.n - 1) {
        kb_fail(B, n < 0 ? "this is not several values" : "%d values for %s%d names", n, star < 0 ? "" : "at least ", names.n - (star >= 0));
        return;
    }
    for (int i = 0; i < names.n; i++) {
        if (i == star) {
            rest.n = n - (names.n - 1);
            rest.item = item + i;
            kb_bind(B, AST_AS(names.at[i], Starred)->value, rest);
        } else {
            kb_bind(B, names.at[i], item[star >= 0 && i > star ? n - (names.n - i) : i]);
        }
    }
}

void kb_bind(Body *B, Ast *target, KVal v)
{

    if (B->failed)
        return;
    B->b.span = target->span;
    switch (target->kind) {
    case AST_Name: kb_set(B, AST_AS(target, Name)->id, v); break;
    case AST_Tuple: case AST_List:
        bind_several(B, AST_AS(target, Tuple)->elts, v);
        break;
    case AST_Subscript: store_item(B, AST_AS(target, Subscript), v); break;
    default: kb_fail(B, "E0618: a kernel stores to variables and to elements of memory");
    }
}

/* list[i] = v: the variable gets a list with another element. */
static void store_in_list(Body *B, AstSubscript *t, KVal list, const KVal *index, int n, KVal v)
{
    int64_t at;

    if (n != 1 || !kb_static_int(B, index[0], "the index of a list", &at))
        return;
    at += at < 0 ? list.n : 0;
    if (at < 0 || at >= list.n || list.kind == K_TUPLE) {
        kb_fail(B, list.kind == K_TUPLE ? "a tuple does not change" : "index %lld of %d elements", (long long)at, list.n);
        return;
    }
    {
        KVal y = list;
        y.item = kb_alloc(B, sizeof *y.item * (size_t)list.n);
        memcpy(y.item, list.item, sizeof *y.item * (size_t)list.n);
        y.item[at] = v;
        kb_bind(B, t->value, y);
    }
}

static void store_item(Body *B, AstSubscript *t, KVal v)
{
    KVal base = kb_expr(B, t->value), index[8], at;
    int n;

    if (kb_bad(base))
        return;
    n = kb_indices(B, t->index, index);
    if (n < 0)
        return;
    if (base.kind == K_LIST || base.kind == K_TUPLE) {
        if (n == 1 && base.n && base.item[0].kind == K_PLACE) {
            kb_fail(B, "shared arrays of a list are stored to by their elements");
            return;
        }
        store_in_list(B, t, base, index, n, v);
        return;
    }
    if (base.kind != K_PLACE) {
        kb_fail(B, base.kind == K_STATIC && base.v.tag == V_TENSOR ? "E0613: a kernel writes through its parameters only"
                                                                  : "E0612: a block value cannot be stored to");
        return;
    }
    at = kb_subscript(B, base, index, n);
    if (at.kind == K_PLACE)
        kplace_assign(B, at.place, v);
    else if (!kb_bad(at))
        kb_fail(B, "E0612: a block value cannot be stored to: memory by steps is one");
}

/* ------------------------------------------------------------- statements */

static void assign(Body *B, AstAssign *s)
{
    KVal v;

    B->target = kb_called(s->targets.at[0]);
    B->targets = AST_IS(s->value, Tuple) && AST_IS(s->targets.at[0], Tuple) ? s->targets.at[0] : NULL;
    v = kb_expr(B, s->value);
    B->target = NULL;
    if (kb_bad(v))
        return;
    v = kb_now(B, v);
    for (int i = 0; i < s->targets.n; i++)
        kb_bind(B, s->targets.at[i], v);
}

/* What an operator does to a Region[reduce(...)], in which every tile's counts; OP_COUNT: nothing. */
static OpId update_op(AstOp op)
{
    switch (op) {
    case AOP_ADD: case AOP_SUB: return OP_sum;
    case AOP_MUL: return OP_prod;
    case AOP_BITAND: return OP_bitand;
    case AOP_BITOR: return OP_bitor;
    default: return OP_COUNT;
    }
}

static void reduce_into(Body *B, const KPlace *p, AstOp op, KVal v)
{
    OpId with = update_op(op);

    if (with == OP_bitand || with == OP_bitor)
        kplace_take(B, p, with, NULL, v);
    else
        kplace_update(B, p, with, op == AOP_SUB ? kb_unary(B, AOP_NEG, v) : v);
}

static void aug_assign(Body *B, AstAugAssign *s)
{
    KVal old, v, index[8], at;
    int n;

    if (!AST_IS(s->target, Subscript)) {
        old = kb_value(B, kb_expr(B, s->target));
        v = kb_bad(old) ? old : kb_expr(B, s->value);
        if (!kb_bad(v))
            kb_bind(B, s->target, kb_binary(B, (AstOp)s->op, old, v));
        return;
    }
    old = kb_expr(B, AST_AS(s->target, Subscript)->value);
    n = kb_bad(old) ? -1 : kb_indices(B, AST_AS(s->target, Subscript)->index, index);
    if (n < 0)
        return;
    if (old.kind != K_PLACE) {
        at = kb_subscript(B, old, index, n);
        v = kb_bad(at) ? at : kb_expr(B, s->value);
        if (!kb_bad(v))
            store_item(B, AST_AS(s->target, Subscript), kb_binary(B, (AstOp)s->op, kb_value(B, at), v));
        return;
    }
    at = kb_subscript(B, old, index, n);
    v = kb_bad(at) ? at : kb_expr(B, s->value);
    if (kb_bad(v))
        return;
    B->b.span = s->ast.span;
    if (at.kind != K_PLACE) {
        kb_fail(B, "E0612: a block value cannot be stored to");
    } else if (at.place->reduces && update_op((AstOp)s->op) != OP_COUNT) {
        reduce_into(B, at.place, (AstOp)s->op, v);
    } else {
        v = kb_binary(B, (AstOp)s->op, kplace_load(B, at.place), v);
        if (!kb_bad(v))
            kplace_assign(B, at.place, v);
    }
}

typedef struct { AstSeq body, orelse; } Ways;

static void if_statement(Body *B, AstIf *s)
{
    KVal t = kb_truth(B, kb_expr(B, s->test));

    if (kb_bad(t))
        return;
    if (t.kind == K_STATIC) {
        kb_block_of(B, t.v.i ? s->body : s->orelse);
        return;
    }
    t = kb_for_all(B, t, kb_any_group_work(B, s->body) || kb_any_group_work(B, s->orelse));
    choose(B, t, make_block, &s->body, s->orelse.n ? &s->orelse : NULL);
}

/* Of what is known before the launch, as sizes of a schedule are: a kernel that does not hold is not made. */
static void assertion(Body *B, const AstAssert *s)
{
    KVal test = kb_truth(B, kb_expr(B, s->test)), why = s->msg ? kb_expr(B, s->msg) : KUNSET;

    if (kb_bad(test) || kb_bad(why))
        return;
    if (test.kind != K_STATIC)
        kb_fail(B, "E0618: an assertion in a kernel is of what is known before the launch");
    else if (!kb_is_static_true(test))
        kb_fail(B, "AssertionError%s%s", kb_static_of(why, V_STR) ? ": " : "", kb_static_of(why, V_STR) ? as_str(why.v)->s : "");
}

static void statement(Body *B, Ast *s)
{
    Flags f = kb_flags();
    KVal v;

    B->b.span = s->span;
    switch (s->kind) {
    case AST_ExprStmt:
        if (!AST_IS(AST_AS(s, ExprStmt)->value, Str))
            kb_expr(B, AST_AS(s, ExprStmt)->value);
        break;
    case AST_Assign: assign(B, AST_AS(s, Assign)); break;
    case AST_AugAssign: aug_assign(B, AST_AS(s, AugAssign)); break;
    case AST_AnnAssign:
        if (AST_AS(s, AnnAssign)->value && !kb_bad(v = kb_expr(B, AST_AS(s, AnnAssign)->value)))
            kb_bind(B, AST_AS(s, AnnAssign)->target, kb_now(B, v));
        break;
    case AST_If: if_statement(B, AST_AS(s, If)); break;
    case AST_While: kb_while(B, AST_AS(s, While)); break;
    case AST_For: kb_for(B, AST_AS(s, For)); break;
    case AST_Match: kb_match(B, AST_AS(s, Match)); break;
    case AST_Return:
        v = AST_AS(s, Return)->value ? kb_expr(B, AST_AS(s, Return)->value) : (KVal){.kind = K_STATIC, .v = VNONE};
        if (kb_bad(v))
            return;
        kb_set(B, f.value, kb_now(B, v));
        kb_set(B, f.ret, kb_yes);
        break;
    case AST_Break: kb_set(B, f.brk, kb_yes); break;
    case AST_Continue: kb_set(B, f.cont, kb_yes); break;
    case AST_Pass: break;
    case AST_Assert: assertion(B, AST_AS(s, Assert)); break;
    default: kb_fail(B, "E0618: this statement cannot stand in a kernel");
    }
}

/* A whole function: nobody has left it yet. */
void kb_body_of(Body *B, AstSeq body) { make_rest(B, &body, NULL); }
