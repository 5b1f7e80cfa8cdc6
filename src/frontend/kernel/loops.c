/*
 * Loops of a kernel.
 *
 * A loop carries the variables that its body changes.  What they are (a number
 * known now, an int, an f32) is found by evaluating the body until it holds: what
 * a round gives joins what it began with, and what was made goes.  A loop that
 * may be left is a while whose test asks for it; one over things that are known,
 * or whose number must be, is written out.
 */
#include "frontend/kernel/body.h"

#include <string.h>

enum { WRITTEN_OUT_MAX = 4096, ROUNDS = 24 };

/* ------------------------------------------------------------- which variables a loop changes */

typedef struct Assigned { Merge *m; bool leaves; } Assigned;

static void assigned_target(Assigned *a, Ast *t)
{
    if (AST_IS(t, Name))
        merge_add(a->m, AST_AS(t, Name)->id);
    else if (AST_IS(t, Tuple) || AST_IS(t, List))
        for (int i = 0; i < AST_AS(t, Tuple)->elts.n; i++)
            assigned_target(a, AST_AS(t, Tuple)->elts.at[i]);
    else if (AST_IS(t, Subscript))                          /* an element of a list */
        assigned_target(a, AST_AS(t, Subscript)->value);
    else if (AST_IS(t, Starred))
        assigned_target(a, AST_AS(t, Starred)->value);
}

static void assigned_pattern(Assigned *a, const Ast *p)
{
    Sym name = AST_IS(p, PatAs) ? AST_AS(p, PatAs)->name : AST_IS(p, PatStar) ? AST_AS(p, PatStar)->name : AST_AS(p, PatCapture)->name;

    if (name)
        merge_add(a->m, name);
}

static bool assigned_in(Ast *n, void *state)
{
    Assigned *a = state;

    if (!n)
        return true;
    switch (n->kind) {
    case AST_Assign:
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            assigned_target(a, AST_AS(n, Assign)->targets.at[i]);
        break;
    case AST_AugAssign: assigned_target(a, AST_AS(n, AugAssign)->target); break;
    case AST_AnnAssign: assigned_target(a, AST_AS(n, AnnAssign)->target); break;
    case AST_NamedExpr: assigned_target(a, AST_AS(n, NamedExpr)->target); break;
    case AST_For: assigned_target(a, AST_AS(n, For)->target); break;
    case AST_PatCapture: case AST_PatStar: case AST_PatAs: assigned_pattern(a, n); break;
    case AST_Return: a->leaves = true; break;
    case AST_Break: a->leaves = true; break;
    case AST_Call:                                          /* mask_causal(S, ...) and fragments change what they are given */
        for (int i = 0; i < AST_AS(n, Call)->args.n; i++)
            if (AST_IS(AST_AS(n, Call)->args.at[i], Arg) && AST_IS(AST_AS(AST_AS(n, Call)->args.at[i], Arg)->value, Name))
                merge_add(a->m, AST_AS(AST_AS(AST_AS(n, Call)->args.at[i], Arg)->value, Name)->id);
        break;
    default: break;
    }
    return ast_walk(n, assigned_in, a);
}

/* Its variables, the leaving ones, and what fragments hold. */
static Assigned assigned(Body *B, Merge *m, AstSeq body, Ast *test)
{
    Assigned a = {m, false};
    Flags f = kb_flags();

    for (int i = 0; i < body.n; i++)
        assigned_in(body.at[i], &a);
    assigned_in(test, &a);
    if (a.leaves) {
        merge_add(m, f.ret);
        merge_add(m, f.brk);
        merge_add(m, f.value);
    }
    for (int i = 0; i < B->fn->vars.n; i++)
        if (B->fn->vars.at[i].name->text[0] == '$' && B->fn->vars.at[i].name->text[1] == 'f')
            merge_add(m, B->fn->vars.at[i].name);
    held_assigned(B, m);
    return a;
}

/* ------------------------------------------------------------- loops */

/* Behind a loop: `break` is that of the loop around it again, and what stands under `else` runs where nobody left by the loop's own. */
static void loop_done(Body *B, KVal outer, AstSeq orelse)
{
    Flags f = kb_flags();
    KVal gone = kb_either(B, vars_value(&B->fn->vars, f.ret), vars_value(&B->fn->vars, f.brk));

    kb_set(B, f.brk, outer.kind == K_UNSET ? kb_no : outer);
    kb_set(B, f.cont, kb_no);
    kb_unless(B, gone, orelse);
}

typedef struct Loop {
    const Ast *node;            /* the statement */
    Ast *target, *test;         /* for; while */
    AstSeq body, orelse;
    Lin lo, count, step;        /* for: lo, lo + step, ... count times; TOP_for walks 0..count unless plain */
    bool plain;                 /* for: lo up to hi by a positive number */
    Lin hi;
    bool as_while;
    bool can_unroll;
} Loop;

/* Give up what an attempt made. */
static void forget(Body *B, TileBlock *b, TileNode *last)
{
    while (b->last != last && b->last != B->front)
        tile_unlink(b->last);
    B->indices.n = 0;
}

static KVal loop_number(Body *B, const Loop *l, TileRef i)
{
    Lin at = lin_of(i), y;

    kb_lane_mark(B, i, false);
    if (l->plain) {
        if (kb_lane_dependent(B, lin_ref(B, &l->lo)))
            kb_lane_mark(B, i, true);
        return kb_int(B, at);
    }
    {
        int64_t k;
        KVal x;
        if (lin_number_of(&l->step, &k))
            return lin_add(B, l->lo, at, k, &y) ? kb_int(B, y) : kb_fail(B, "a loop's number with too many parts");
        x = kb_int(B, l->step);
        x = kb_binary(B, AOP_MUL, x, kb_int(B, at));
        return kb_binary(B, AOP_ADD, kb_int(B, l->lo), x);
    }
}

static void run_body(Body *B, const Loop *l, KVal number)
{
    Flags f = kb_flags();

    kb_set(B, f.cont, kb_no);
    if (l->target)
        kb_bind(B, l->target, number);
    kb_block_of(B, l->body);
    kb_set(B, f.cont, kb_no);
}

static void mark_carried(Body *B, const TileRef *init, TileBlock *b, int skip, int n)
{
    for (int i = 0; i < n; i++)
        kb_lane_mark(B, (TileRef){b->params.at[skip + i], 0}, tile_type(init[i])->kind != TILE_VIEW && kb_lane_dependent(B, init[i]));
}

static void set_types(Body *B, const Merge *m, const TileRef *ref)
{
    int at = 0;

    for (int i = 0; i < m->name.n; i++)
        kb_set(B, m->name.at[i], join_rebuild(B, m->type.at[i], ref, &at));
}

/* What the variables are as values of their types. */
static int flatten_vars(Body *B, const Merge *m, const Vars *vars, TileRef *out, int n)
{
    for (int i = 0; i < m->name.n && !B->failed; i++)
        n = join_flatten(B, join_convert(B, vars_value(vars, m->name.at[i]), m->type.at[i]), m->type.at[i], out, n);
    return n;
}

/* After a round: do the types hold? They become what holds both. */
static bool types_hold(Body *B, Merge *m)
{
    bool hold = true;

    for (int i = 0; i < m->name.n; i++) {
        KVal t = join_types(B, m->type.at[i], vars_value(&B->fn->vars, m->name.at[i]));
        if (kb_bad(t)) {
            if (!B->again)
                sb_printf(&B->err, " ('%s')", m->name.at[i]->text);
            return false;
        }
        hold &= join_same(m->type.at[i], t);
        m->type.at[i] = t;
    }
    return hold;
}

/* lo to hi by step, or 0 to count by 1. */
static int bounds(Body *B, const Loop *l, TileRef *in)
{
    Lin zero = lin_number(0), one = lin_number(1);

    in[0] = lin_ref(B, l->plain ? &l->lo : &zero);
    in[1] = lin_ref(B, l->plain ? &l->hi : &l->count);
    in[2] = lin_ref(B, l->plain ? &l->step : &one);
    return 3;
}

static void params_of(const TileBlock *b, int skip, TileRef *out)
{
    for (int i = skip; i < b->params.n && i - skip < JOIN_REFS; i++)
        out[i - skip] = (TileRef){b->params.at[i], 0};
}

/* The end of a round of node f: what variables are now is handed on, and `out` is what f gives. false: it failed, or types are others. */
static bool end_round(Body *B, TileNode *f, Merge *m, TileRef *out)
{
    int n;

    if (B->failed || !types_hold(B, m))
        return false;
    n = flatten_vars(B, m, &B->fn->vars, out, 0);
    if (B->failed || !tile_yield(&B->b, out, n))
        return false;
    for (int i = 0; i < f->nout && i < JOIN_REFS; i++)
        out[i] = (TileRef){f, i};
    return true;
}

/* One attempt at a for with these types; false: they did not hold, or it failed. */
static bool attempt_for(Body *B, const Loop *l, Merge *m, const Vars *before)
{
    TileRef in[JOIN_REFS + 3], inner[JOIN_REFS];
    TileBlock *here = B->b.at;
    int nb = bounds(B, l, in), n = flatten_vars(B, m, before, in + nb, 0);
    TileNode *f = B->failed ? NULL : tile_add(&B->b, TOP_for, NULL, in, nb + n);
    bool ok;

    if (!f)
        return kb_fail(B, "%s", sb_str(&B->build_err)), false;
    params_of(f->region[0], 1, inner);
    mark_carried(B, in + nb, f->region[0], 1, n);
    B->b.at = f->region[0];
    set_types(B, m, inner);
    if (l->can_unroll)
        map_set(&B->loop_of, f->region[0]->params.at[0]->id + 1, (uintptr_t)l->node);
    run_body(B, l, loop_number(B, l, (TileRef){f->region[0]->params.at[0], 0}));
    ok = end_round(B, f, m, inner);
    B->b.at = here;
    if (ok)
        set_types(B, m, inner);
    return ok;
}

/* Numbers of a loop that may be left are a variable of it. */
static Sym number_name(void) { return sym("$number"); }

static KVal while_test(Body *B, const Loop *l)
{
    Flags f = kb_flags();
    KVal gone = kb_either(B, vars_value(&B->fn->vars, f.ret), vars_value(&B->fn->vars, f.brk)), stay = kb_unary(B, AOP_NOT, gone), t;

    if (B->failed || kb_is_static_false(stay))
        return stay;
    if (l->target) {
        KVal i = vars_value(&B->fn->vars, number_name());
        t = kb_compare(B, AOP_LT, i, kb_int(B, l->plain ? l->hi : l->count));
        return stay.kind == K_STATIC ? t : t.kind == K_STATIC ? (t.v.i ? stay : t) : kb_apply(B, OP_bitand, (KVal[]){stay, t}, 2);
    }
    if (stay.kind == K_STATIC)
        return kb_truth(B, kb_expr(B, l->test));
    return kb_and_test(B, stay, l->test);
}

static void while_round(Body *B, const Loop *l)
{
    KVal i = vars_value(&B->fn->vars, number_name()), number = KUNSET;

    if (l->target) {
        Lin x;
        if (!kb_to_lin(B, i, &x))
            return;
        number = i;
        if (!l->plain) {
            KVal y = kb_binary(B, AOP_MUL, kb_int(B, l->step), i);
            number = kb_binary(B, AOP_ADD, kb_int(B, l->lo), y);
        }
    }
    run_body(B, l, number);
    if (l->target && !B->failed)
        kb_set(B, number_name(), kb_binary(B, AOP_ADD, i, l->plain ? kb_int(B, l->step) : kb_number(1)));
}

static bool attempt_while(Body *B, const Loop *l, Merge *m, const Vars *before)
{
    TileRef in[JOIN_REFS], inner[JOIN_REFS];
    TileBlock *here = B->b.at;
    int n = flatten_vars(B, m, before, in, 0);
    TileNode *w = B->failed ? NULL : tile_add(&B->b, TOP_while, NULL, in, n);
    KVal t;
    bool ok;

    if (!w)
        return kb_fail(B, "%s", sb_str(&B->build_err)), false;
    B->b.at = w->region[0];
    params_of(w->region[0], 0, inner);
    mark_carried(B, in, w->region[0], 0, n);
    set_types(B, m, inner);
    t = while_test(B, l);
    t = kb_bad(t) ? t : kb_for_all(B, t, kb_any_group_work(B, l->body));
    if (t.kind == K_STATIC)
        t = kb_scalar(kb_const(B, DT_bool, 0, t.v.i), false);
    ok = !B->failed && tile_yield(&B->b, &t.ref, 1);
    if (ok) {
        B->b.at = w->region[1];
        params_of(w->region[1], 0, inner);
        mark_carried(B, in, w->region[1], 0, n);
        set_types(B, m, inner);
        while_round(B, l);
    }
    ok = ok && end_round(B, w, m, inner);
    B->b.at = here;
    if (ok)
        set_types(B, m, inner);
    return ok;
}

static uint64_t guess_key(const Body *B, const Loop *l) { return ((uintptr_t)l->node * 0x9e3779b97f4a7c15u ^ B->fn->path) | 1; }

/* Types begin as the values before the loop, or as what an earlier attempt around this one came to. */
static void first_types(Body *B, const Loop *l, Merge *m)
{
    uintptr_t old;
    const KVal *known = map_find(&B->guess, guess_key(B, l), &old) ? (const KVal *)old : NULL;

    for (int i = 0; i < m->name.n; i++) {
        KVal v = vars_value(&B->fn->vars, m->name.at[i]);
        vec_push(&m->type, known && known[i].kind != K_UNSET ? join_types(B, v, known[i]) : v);
    }
}

static void keep_types(Body *B, const Loop *l, const Merge *m)
{
    KVal *kept = kb_alloc(B, sizeof *kept * (size_t)(m->name.n + 1));

    for (int i = 0; i < m->name.n; i++) {                   /* only what is a type: values of this attempt go with it */
        KVal t = m->type.at[i];
        bool type = (t.kind == K_SCALAR || t.kind == K_BLOCK) ? !t.ref.node->block : t.kind == K_INT ? !t.lin->t[0].r.node : false;
        kept[i] = type ? t : KUNSET;
    }
    map_set(&B->guess, guess_key(B, l), (uintptr_t)kept);
}

static void loop(Body *B, Loop *l)
{
    Flags f = kb_flags();
    Merge m = {{0}, {0}};
    KVal outer = vars_value(&B->fn->vars, f.brk);
    Vars before;
    TileNode *last = B->b.at->last;
    bool done = false;
    Assigned a;

    kb_set(B, f.brk, kb_no);
    kb_set(B, f.cont, kb_no);
    a = assigned(B, &m, l->body, l->test);
    if (l->target)
        assigned_target(&a, l->target);
    l->as_while = !l->target || a.leaves;
    if (l->target && l->as_while) {
        kb_set(B, number_name(), l->plain ? kb_int(B, l->lo) : kb_number(0));
        merge_add(&m, number_name());
    }
    before = vars_copy(&B->fn->vars);
    first_types(B, l, &m);
    for (int round = 0; round < ROUNDS && !done && !B->failed; round++) {
        Vars start = vars_copy(&before);
        vars_take(B, &start);
        done = l->as_while ? attempt_while(B, l, &m, &before) : attempt_for(B, l, &m, &before);
        if (!done && !B->failed)
            forget(B, B->b.at, last);
    }
    if (!done)
        kb_fail(B, "the types of this loop's variables do not settle");
    else
        keep_types(B, l, &m);
    if (!B->failed) {
        kb_set(B, number_name(), KUNSET);
        loop_done(B, outer, l->orelse);
    }
    vec_free(&before);
    merge_done(&m);
}

/* ------------------------------------------------------------- rounds written out */

static void unrolled(Body *B, const AstFor *s, const KVal *item, int n)
{
    AstSeq body = s->body;
    Ast *target = s->target;
    Flags f = kb_flags();
    KVal outer = vars_value(&B->fn->vars, f.brk);
    uint64_t path = B->fn->path;
    bool work = kb_any_group_work(B, body);

    if (n > WRITTEN_OUT_MAX) {
        kb_fail(B, "a loop of %d rounds is too long to be written out", n);
        return;
    }
    kb_set(B, f.brk, kb_no);
    for (int i = 0; i < n && !B->failed; i++) {
        KVal gone = kb_either(B, vars_value(&B->fn->vars, f.ret), vars_value(&B->fn->vars, f.brk));
        Loop l = {.target = target, .body = body};
        B->fn->path = (path + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
        if (kb_is_static_true(gone))
            break;
        if (gone.kind == K_STATIC) {
            run_body(B, &l, item[i]);
        } else {
            KVal stay = kb_for_all(B, kb_unary(B, AOP_NOT, gone), work);
            kb_bind(B, target, item[i]);
            kb_if_block(B, stay, &body);
            kb_set(B, f.cont, kb_no);
        }
    }
    B->fn->path = path;
    loop_done(B, outer, s->orelse);
}

/* ------------------------------------------------------------- for */

static bool has_shared_range(Ast *n, void *state)
{
    bool *found = state;

    if (!n || *found)
        return true;
    if (n->kind == AST_For && AST_IS(AST_AS(n, For)->iter, Call)) {
        const KernelOp *op = kernel_called(AST_AS(AST_AS(n, For)->iter, Call));
        *found |= op && kernel_op_id(op) == KOP_range;
    }
    return ast_walk(n, has_shared_range, state);
}

/* Who takes which numbers: tile.range over chunks goes by groups, inside it by tiles, alone by all tiles of the launch. */
static bool share(Body *B, const AstFor *s, KVal *lo, KVal *step)
{
    bool outer = false;
    KVal me, all;
    Lin start;

    if (!kb_to_lin(B, *lo, &start))
        return false;
    if (start.n && kb_lane_dependent(B, lin_ref(B, &start)))
        return true;                                        /* the tile's own */
    for (int i = 0; i < s->body.n; i++)
        has_shared_range(s->body.at[i], &outer);
    B->uses_lanes = true;
    if (B->ranges) {
        me = kb_local_id(B);
        all = kb_number(kb_group_size(B));
    } else {
        B->asks_group = true;
        me = outer ? kb_group_id(B) : kb_linear_id(B);
        all = outer ? kb_group_count(B) : kb_binary(B, AOP_MUL, kb_group_count(B), kb_number(kb_group_size(B)));
    }
    *lo = kb_binary(B, AOP_ADD, *lo, kb_binary(B, AOP_MUL, me, *step));
    *step = kb_binary(B, AOP_MUL, all, *step);
    return !B->failed;
}

/* How many rounds there are, where the step is kb_no positive number: the quotient rounded up. */
static KVal rounds_of(Body *B, KVal lo, KVal hi, KVal step)
{
    KVal up = kb_compare(B, AOP_GT, step, kb_number(0)), n[2], zero = kb_number(0);

    for (int i = 0; i < 2; i++) {
        KVal span = i ? kb_binary(B, AOP_SUB, lo, hi) : kb_binary(B, AOP_SUB, hi, lo);
        KVal s = i ? kb_unary(B, AOP_NEG, step) : step;
        n[i] = kb_extreme(B, true, kb_binary(B, AOP_FLOORDIV, kb_binary(B, AOP_SUB, kb_binary(B, AOP_ADD, span, s), kb_number(1)), s), zero);
    }
    if (B->failed || up.kind == K_STATIC)
        return B->failed ? KBAD : n[!up.v.i];
    return kb_to_int(B, kb_apply(B, OP_where, (KVal[]){up, n[0], n[1]}, 3));
}

static void for_range(Body *B, AstFor *s, KVal range)
{
    KVal lo = range.item[0], hi = range.item[1], step = range.item[2];
    Loop l = {.node = &s->ast, .target = s->target, .body = s->body, .orelse = s->orelse};
    int64_t a, b, k;
    bool numbers;

    if (range.how == RANGE_SHARED && !share(B, s, &lo, &step))
        return;
    if (!kb_to_lin(B, lo, &l.lo) || !kb_to_lin(B, hi, &l.hi) || !kb_to_lin(B, step, &l.step))
        return;
    numbers = lin_number_of(&l.lo, &a) && lin_number_of(&l.hi, &b) && lin_number_of(&l.step, &k);
    if (numbers && k == 0) {
        kb_fail(B, "the step of a range must not be 0");
        return;
    }
    if (numbers && map_find(B->unroll, (uintptr_t)s, NULL)) {
        int64_t n = k > 0 ? (b > a ? (b - a + k - 1) / k : 0) : (a > b ? (a - b - k - 1) / -k : 0);
        KVal *item = kb_alloc(B, sizeof *item * (size_t)((n > WRITTEN_OUT_MAX ? 0 : n) + 1));
        for (int64_t i = 0; i < n && n <= WRITTEN_OUT_MAX; i++)
            item[i] = kb_number(a + i * k);
        unrolled(B, s, item, n > WRITTEN_OUT_MAX ? WRITTEN_OUT_MAX + 1 : (int)n);
        return;
    }
    l.can_unroll = numbers;
    l.plain = kb_positive(B, &l.step);
    if (!l.plain) {
        KVal n = rounds_of(B, lo, hi, step);
        if (kb_bad(n) || !kb_to_lin(B, n, &l.count))
            return;
    }
    B->ranges += range.how == RANGE_SHARED;
    loop(B, &l);
    B->ranges -= range.how == RANGE_SHARED;
}

/* The parts of a place by a cache level: loops over the axes, each part cut from the place. */
static const int32_t part_sizes[3][VIEW_RANK] = {{4096, 64, 16, 8}, {1024, 16, 8, 4}, {64, 8, 4, 2}};

typedef struct Parts { AstFor *s; KPlace place; int axis; int32_t size[VIEW_RANK]; } Parts;

static void part_loops(Body *B, Parts *p);

static bool part_size(Body *B, const KPlace *p, int k, int level, int rank, int32_t *out)
{
    int32_t extent;

    if (!kplace_extent(B, p, k, &extent))
        return false;
    B->asks_extent = true;
    *out = part_sizes[level][rank - 1];
    *out = *out < extent ? *out : extent;
    while (extent % *out && level)                          /* inner parts stay within theirs; outer ones end with the tensor */
        --*out;
    return true;
}

static void for_parts(Body *B, AstFor *s, KVal parts)
{
    Parts p = {.s = s, .place = *parts.place};
    int level = !strcmp(parts.name->text, "L2") ? 0 : !strcmp(parts.name->text, "L1") ? 1 : 2, rank = kplace_free(&p.place);
    KVal outer = vars_value(&B->fn->vars, kb_flags().brk);

    for (int i = 0; i < rank; i++)
        if (!part_size(B, &p.place, kplace_axis(&p.place, i), level, rank, &p.size[i]))
            return;
    if (AST_IS(s->target, Name))                            /* it need not go together with what another loop left there */
        kb_set(B, AST_AS(s->target, Name)->id, KUNSET);
    kb_set(B, kb_flags().brk, kb_no);
    part_loops(B, &p);
    if (!B->failed)
        loop_done(B, outer, s->orelse);
}

/*
 * The loop over one axis, whose body is the next one, with the variables that it assigns of the types in m. false: it failed, or m has
 * other types now, with which it is to be tried again. out: the variables behind it.
 */
static bool try_part(Body *B, Parts *p, Merge *m, const Vars *before, const TileRef *bounds, TileRef *out)
{
    TileRef in[3 + JOIN_REFS];
    int k = kplace_axis(&p->place, p->axis), n;
    PlaceAxis was = p->place.axis[k];
    TileBlock *here = B->b.at;
    Vars start = vars_copy(before);
    bool done;
    TileNode *f;

    vars_take(B, &start);
    memcpy(in, bounds, sizeof *in * 3);
    n = flatten_vars(B, m, before, in + 3, 0);
    f = B->failed ? NULL : tile_add(&B->b, TOP_for, NULL, in, 3 + n);
    if (!f) {
        kb_fail(B, "%s", sb_str(&B->build_err));
        return false;
    }
    params_of(f->region[0], 1, out);
    B->b.at = f->region[0];
    set_types(B, m, out);
    p->place.axis[k].start = lin_of((TileRef){f->region[0]->params.at[0], 0});
    p->place.axis[k].extent = lin_number(p->size[p->axis]);
    p->axis++;
    part_loops(B, p);
    p->axis--;
    p->place.axis[k] = was;
    done = end_round(B, f, m, out);
    B->b.at = here;
    return done;
}

/* One axis after another: a synthetic loop whose body is the next one. */
static void part_axis(Body *B, Parts *p, Lin lo, Lin hi)
{
    Lin step = lin_number(p->size[p->axis]);
    TileRef bounds[3], out[JOIN_REFS];
    TileBlock *here = B->b.at;
    TileNode *last;
    Merge m = {{0}, {0}};
    Vars before;
    bool done = false;

    bounds[0] = lin_ref(B, &lo);
    bounds[1] = lin_ref(B, &hi);
    bounds[2] = lin_ref(B, &step);
    last = here->last;
    assigned(B, &m, p->s->body, NULL);
    before = vars_copy(&B->fn->vars);
    for (int i = 0; i < m.name.n; i++)
        vec_push(&m.type, vars_value(&before, m.name.at[i]));
    for (int round = 0; round < ROUNDS && !done && !B->failed; round++) {
        done = try_part(B, p, &m, &before, bounds, out);
        if (done)
            set_types(B, &m, out);
        else if (!B->failed)
            forget(B, here, last);
    }
    vec_free(&before);
    merge_done(&m);
}

static void part_loops(Body *B, Parts *p)
{
    int k = kplace_axis(&p->place, p->axis);
    Lin hi;

    if (k < 0) {
        Flags f = kb_flags();
        KVal gone = kb_either(B, vars_value(&B->fn->vars, f.ret), vars_value(&B->fn->vars, f.brk));
        kb_bind(B, p->s->target, kplace_value(B, &p->place));
        kb_unless(B, gone, p->s->body);
        kb_set(B, f.cont, kb_no);
        return;
    }
    if (!lin_add(B, p->place.axis[k].start, p->place.axis[k].extent, 1, &hi))
        kb_fail(B, "a part with too many parts");
    else
        part_axis(B, p, p->place.axis[k].start, hi);
}

void kb_for(Body *B, AstFor *s)
{
    KVal it = kb_expr(B, s->iter), *item;
    int n;

    if (kb_bad(it))
        return;
    if (it.kind == K_RANGE)
        for_range(B, s, it);
    else if (it.kind == K_PARTS)
        for_parts(B, s, it);
    else if ((n = kb_iterated(B, it, &item)) >= 0)
        unrolled(B, s, item, n);
    else
        kb_fail(B, "a kernel loops over range, tile.range, tile.range_n, tile.split, tuples and lists");
}

void kb_while(Body *B, AstWhile *s)
{
    Loop l = {.node = &s->ast, .test = s->test, .body = s->body, .orelse = s->orelse};

    loop(B, &l);
}
