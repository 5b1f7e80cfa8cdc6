/*
 * Loops that become loops of the graph.
 *
 * The state that goes round is what the body assigns (scene.h), the number
 * that says how the loop was left when it can be left early, and what it then returns.
 * A `while` on a staged test and a `for` over a range of unknown length become while nodes, a `for`
 * over a tensor's rows or over many rounds a scan node: each round's value is an element of it.
 *
 * A loop whose rounds are known can always be unrolled, so it is staged only if nothing stands
 * against it: no host number changes from round to round, no list grows, no
 * random number is drawn (each round would draw from another key than unrolled).  Otherwise the attempt
 * is taken back, and the loop is unrolled.
 */
#include "frontend/eval/arms.h"

#include "frontend/tensor/bind.h"

#include <string.h>

enum { UNROLL_MAX = 4 };        /* rounds that are always unrolled */

typedef struct StagedLoop {
    Scene s;
    const Step *step, *body, *target;
    const Step *test;           /* while; NULL: a for */
    const Rounds *rounds;
    bool leaves;                /* break or return in the body */
    uint32_t end;               /* where the loop's text ends */
    bool scan;                  /* the rounds are known, and all of them run */
    bool attempt;               /* it may be unrolled instead */
    bool given_up;
    bool carried;               /* what the test found goes round: it is evaluated behind the body, and before the loop */
    Value first;                /* what it found before the loop; V_NONE: that there is a round */
    Gift start;                 /* what goes round, at the beginning */
    Value now;                  /* the places' values at the beginning of this part */
    unsigned ways;
} StagedLoop;

static bool host_failed(Interp *I)
{
    interp_trace(I)->error = OPERR_HOST;
    return false;
}

/* Put the state of this round where the body finds it. */
static bool set_state(StagedLoop *l, Tensor *const *in)
{
    int pos = 0;
    Value t = tree_rebuild(l->s.I, l->start.skeleton, TREE_ALL, in, &pos);
    bool ok = !is_err(t);

    scene_reset(&l->s);
    ok = ok && scene_write(&l->s, t);
    value_unref(l->now);
    l->now = t;
    return ok;
}

/* Where the counter or the element lies behind the state: places, code, returned values. */
static int state_count(const StagedLoop *l) { return l->start.n; }

static int code_at(const StagedLoop *l)
{
    return l->start.n - (is_err(l->s.ret) ? 0 : l->s.nret) - 1;
}

static bool is_that(Value a, Value b) { return a.tag == b.tag && (a.tag <= V_NOTIMPL || a.i == b.i); }

/* Do both lists, as tuples, hold the same things? */
static bool hold_same(const TupleObj *a, const TupleObj *b)
{
    for (int64_t i = 0; a->n == b->n && i < a->n; i++)
        if (!is_that(a->at[i], b->at[i]))
            return false;
    return a->n == b->n;
}

/* Something that the test changed: a variable that it assigns, an object that a function it calls changes. */
static bool test_changed(StagedLoop *l)
{
    bool changed = l->s.place.n > as_tuple(l->now)->n;

    for (int i = 0; !changed && i < l->s.place.n; i++) {
        const Spot *p = &l->s.place.at[i];
        Value was = as_tuple(l->now)->at[i], is = spot_read(l->s.I, p, l->s.f);
        changed = p->kind == SPOT_WHOLE ? !hold_same(as_tuple(was), as_tuple(is)) : !is_that(was, is);
        value_unref(is);
    }
    return changed;
}

/* a & !left */
static Value unless_left(StagedLoop *l, Value go, Tensor *const *in)
{
    Interp *I = l->s.I;
    Value code, stay, r = VERR;

    if (!l->leaves || is_err(go))
        return go;
    code = tensor_value(tensor_ref(in[code_at(l)]));
    stay = value_compare(I, AOP_EQ, code, vint(X_NORMAL));
    if (!is_err(stay))
        r = value_binary(I, AOP_BITAND, go, stay);
    value_unref(code);
    value_unref(stay);
    value_unref(go);
    return r;
}

static Value evaluated(StagedLoop *l)
{
    Value v = l->test->eval(l->test, l->s.f), r = is_err(v) ? VERR : staged_bool(l->s.I, v);

    value_unref(v);
    return r;
}

static Value test_of(StagedLoop *l, Tensor *const *in)
{
    Value count, r;

    if (l->carried)
        return tensor_value(tensor_ref(in[state_count(l)]));
    if (l->test)
        return evaluated(l);
    count = tensor_value(tensor_ref(in[state_count(l)]));
    r = value_compare(l->s.I, AOP_LT, count, l->rounds->n);
    value_unref(count);
    return r;
}

/* A test that changes something: what it changes goes round with the rest, so the loop is staged once more. */
static bool carry_test(StagedLoop *l)
{
    if (l->leaves)
        raise(l->s.I, EXC_TypeError, "E0541: the condition of a loop that a staged tensor decides and that break or return may leave cannot change "
              "anything (line %d); change it in the body", line_of(l->step->span));
    l->carried = l->s.again = true;
    return host_failed(l->s.I);
}

static bool loop_test(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    StagedLoop *l = self;
    Value go;

    (void)nin;
    if (!set_state(l, in))
        return host_failed(l->s.I);
    go = unless_left(l, test_of(l, in), in);
    if (go.tag == V_TENSOR && scene_settled(&l->s)) {
        if (l->test && !l->carried && test_changed(l)) {
            value_unref(go);
            return carry_test(l);
        }
        out[0] = tensor_ref(as_tensor(go));
        *nout = 1;
    }
    value_unref(go);
    return *nout == 1 || host_failed(l->s.I);
}

/* The target's value in this round: an element, or lo + step * count. */
static Value round_value(StagedLoop *l, Tensor *last)
{
    Interp *I = l->s.I;
    Value v = tensor_value(tensor_ref(last)), w, r;
    const Rounds *r0 = l->rounds;

    if (!is_err(r0->rows) && !l->scan) {                /* the element that the count says */
        r = tensor_op_getitem(I, r0->rows, v);
        value_unref(v);
        return r;
    }
    if (!is_err(r0->rows) || (r0->first.tag == V_INT && r0->first.i == 0 && r0->step == 1))
        return v;
    w = value_binary(I, AOP_MUL, v, vint(r0->step));
    r = is_err(w) ? VERR : value_binary(I, AOP_ADD, w, r0->first);
    value_unref(v);
    value_unref(w);
    return r;
}

static bool store_target(StagedLoop *l, Tensor *last)
{
    Value v;

    if (!l->target)
        return true;
    v = round_value(l, last);
    return !is_err(v) && l->target->store(l->target, l->s.f, v);
}

/* A round that continues has ended. */
static bool continue_is_normal(Interp *I, Left *left)
{
    Value c, keep, code;

    if (!(left->ways >> X_CONTINUE & 1))
        return true;
    left->ways = (left->ways & ~(1u << X_CONTINUE)) | 1u << X_NORMAL;
    if (left->code.tag == V_INT) {
        left->code = left->code.i == X_CONTINUE ? vint(X_NORMAL) : left->code;
        return true;
    }
    c = value_compare(I, AOP_NE, left->code, vint(X_CONTINUE));
    keep = is_err(c) ? VERR : staged_bool(I, c);
    code = is_err(keep) ? VERR : tensor_op_binary(I, AOP_MUL, left->code, keep);
    value_unref(c);
    value_unref(keep);
    value_unref(left->code);
    left->code = code;
    return !is_err(code);
}

/* How the body ended, for the loop. */
static bool body_left(StagedLoop *l, Left *left)
{
    Frame *f = l->s.f;
    Exit x;

    l->s.I->arms++;
    x = l->body->exec(l->body, f);
    l->s.I->arms--;
    if (x == X_STAGED) {
        x = staged_settle(f, left);
        if (x == X_RAISE)
            return false;
        if (!continue_is_normal(l->s.I, left))
            return false;
    } else if (x != X_RAISE) {
        left->code = vint(x == X_CONTINUE ? X_NORMAL : x);
        left->ways = 1u << (x == X_CONTINUE ? X_NORMAL : x);
        if (x == X_RETURN) {
            left->ret = f->ret;
            f->ret = VERR;
        }
    }
    l->ways |= left->ways;
    return x != X_RAISE && !exc_pending(l->s.I);
}

static Value number_in(Value v) { return v.tag == V_CELL ? ((CellObj *)v.o)->v : v; }

/* A host number that changes from round to round: only unrolling keeps it one. */
static bool number_moves(const StagedLoop *l, const Gift *end)
{
    for (int i = 0; l->attempt && i < as_tuple(l->start.raw)->n; i++) {
        Value a = number_in(as_tuple(l->start.raw)->at[i]), b = number_in(as_tuple(end->raw)->at[i]);
        if (arg_is_number(b) && !(a.tag == b.tag && a.i == b.i))
            return true;
    }
    return false;
}

static bool body_ends(StagedLoop *l, const Left *left, Tensor **out, int *nout)
{
    Scene *s = &l->s;
    Gift end = NO_GIFT;
    bool ok;

    end.at = end.ret_at = l->body->span;
    if (s->f->at)
        end.ret_at = s->f->at->span;
    ok = scene_settled(s) && scene_give(s, &end, l->leaves ? GIVE_LEFT : GIVE_PLACES, left, out, nout);
    if (ok && number_moves(l, &end))
        ok = !(l->given_up = true);
    ok = ok && scene_compare(s, &l->start, &end, "the start of the loop", "a round of it") && !s->again;
    gift_done(&end);
    if (!ok)
        while (*nout > 0)
            tensor_unref(out[--*nout]);
    return ok;
}

/* What the test of the next round needs of this one behind the places: the count, or what the test says. */
static bool next_test(StagedLoop *l, Tensor *last, Value *next)
{
    if (l->carried) {
        *next = evaluated(l);
    } else if (!l->test && !l->scan) {
        Value c = tensor_value(tensor_ref(last));
        *next = value_binary(l->s.I, AOP_ADD, c, vint(1));
        value_unref(c);
    } else {
        return true;
    }
    return !is_err(*next);
}

static bool loop_body(void *self, Tensor *const *in, int nin, Tensor **out, int *nout)
{
    StagedLoop *l = self;
    Left left = NOT_LEFT;
    Value next = VERR;
    Tensor *last = nin ? in[nin - 1] : NULL;            /* a while may carry nothing, before it is known what changes */
    bool ok = set_state(l, in) && store_target(l, last) && body_left(l, &left) && next_test(l, last, &next) && body_ends(l, &left, out, nout);

    left_drop(&left);
    if (ok && l->attempt && trace_drew(interp_trace(l->s.I)))
        l->given_up = true;
    if (ok && !is_err(next))
        out[(*nout)++] = tensor_ref(as_tensor(next));
    value_unref(next);
    return ok || host_failed(l->s.I);
}

/* ------------------------------------------------------------- running them */

static void unref_all(Tensor **t, int n)
{
    while (n > 0)
        tensor_unref(t[--n]);
}

/* The target of a loop whose rounds are known has its last value afterwards. */
static bool is_target(const StagedLoop *l, const Spot *p)
{
    return l->target && l->target->store == st_local && p->kind == SPOT_LOCAL && (uint32_t)p->at == l->target->slot;
}

/* Whether a loop can be left is known from its syntax; then a number goes round that says how. */
static bool begin(StagedLoop *l, Tensor **init, int *n)
{
    Left none = NOT_LEFT;
    Scene *s = &l->s;

    scene_reset(s);
    gift_done(&l->start);
    l->start.at = l->start.ret_at = l->step->span;
    if (!scene_give(s, &l->start, l->leaves ? GIVE_LEFT : GIVE_PLACES, &none, init, n))
        return false;
    for (int i = 0; i < s->place.n; i++) {              /* what is unset before lives for one round */
        Value v = as_tuple(l->start.raw)->at[i];
        Spot *p = &s->place.at[i];
        if (v.tag != V_CELL || !is_err(((CellObj *)v.o)->v) || p->dropped)
            continue;
        if (p->kind != SPOT_LOCAL && p->kind != SPOT_CELL) {
            StrBuf b = {0};
            shot_name(s->shot, p, &b);
            raise(s->I, EXC_TypeError, "E0542: '%s' is made in the body of a loop on a staged tensor (line %d), which may run no round; "
                  "give it a value before the loop", sb_str(&b), line_of(l->step->span));
            sb_done(&b);
            return false;
        }
        p->dropped = true;
        if (l->attempt && !is_target(l, p) && (!p->name || !s->f->code->ast || read_later(s->f->code->ast, p->name, l->end)))
            return !(l->given_up = true);
        if (p->kind == SPOT_LOCAL)
            interp_half_set(s->I, s->f->code, (uint32_t)p->at, l->step->span, l->body->span);
    }
    return true;
}

static bool as_while(StagedLoop *l, Tensor **init, int n, Tensor **out)
{
    bool counts = !l->test || l->carried;

    if (l->carried)
        init[n] = l->first.tag == V_NONE ? tensor_scalar_i(DT_bool, 1) : do_convert(l->s.I, tensor_ref(as_tensor(l->first)), DT_bool);
    else if (counts)
        init[n] = tensor_scalar_i(DT_int32, 0);
    bool ok = (!counts || init[n]) &&
              trace_while(interp_trace(l->s.I), (TensorFn){loop_test, l, 1}, (TensorFn){loop_body, l, MAX_RESULTS}, init, n + counts, out);
    if (counts) {
        tensor_unref(init[n]);
        if (ok)
            tensor_unref(out[n]);
    }
    return ok;
}

static Tensor *elements(StagedLoop *l)
{
    if (!is_err(l->rounds->rows))
        return tensor_ref(as_tensor(l->rounds->rows));
    return iota_axis(l->s.I, DT_int32, l->rounds->n.i);
}

static bool as_scan(StagedLoop *l, Tensor **init, int n, Tensor **out)
{
    Tensor *xs = elements(l);
    int nout = 0;
    bool ok = xs && trace_scan(interp_trace(l->s.I), (TensorFn){loop_body, l, MAX_RESULTS}, init, n, &xs, 1, false, out, &nout);

    if (xs)
        tensor_unref(xs);
    return ok;
}

static bool once(StagedLoop *l, Tensor **init, Tensor **out, Left *left)
{
    Gift none = NO_GIFT;
    Trace *T = interp_trace(l->s.I);
    int n = 0;
    bool ok = begin(l, init, &n);

    l->ways = 0;
    if (ok) {
        ok = l->scan ? as_scan(l, init, n, out) : as_while(l, init, n, out);
        if (!ok && !l->s.again && !l->given_up && !exc_pending(l->s.I))
            raise_op_error(l->s.I);
        T->error = OPERR_NONE;
    }
    scene_reset(&l->s);
    if (ok && l->given_up) {
        unref_all(out, n);
        ok = false;
    }
    if (ok)
        ok = scene_take(&l->s, &l->start, &none, l->leaves ? GIVE_LEFT : GIVE_PLACES, out, n, left);
    left->ways = l->ways | 1u << X_NORMAL;
    unref_all(init, n);
    return ok;
}

/* X_NORMAL: *left says how the loop was left. */
static Exit run_loop(StagedLoop *l, const Vars *vars, Frame *f, Left *left)
{
    Tensor **init = tsr_calloc(sizeof *init * 2 * (MAX_RESULTS + 1)), **out = init + MAX_RESULTS + 1;
    bool ok;

    scene_begin(&l->s, f);
    l->s.locals = true;
    l->s.may_drop = l->s.loop = true;
    l->s.hold_numbers = l->attempt;
    l->start = NO_GIFT;
    l->now = VERR;
    scene_add(&l->s, vars);
    do
        ok = once(l, init, out, left);
    while (!ok && !l->given_up && scene_retry(&l->s));
    if (!ok)
        scene_reset(&l->s);
    gift_done(&l->start);
    value_unref(l->now);
    scene_end(&l->s);
    tsr_free(init);
    return ok && !exc_pending(f->I) ? X_NORMAL : X_RAISE;
}

static bool body_leaves(AstSeq body) { return block_leaves(body, LEAVES_BREAK) || block_leaves(body, LEAVES_RETURN); }

static bool refuse_yield(Frame *f, AstSeq body)
{
    if (!block_yields(body))
        return true;
    raise(f->I, EXC_TypeError, "E0541: a loop whose rounds depend on a staged tensor cannot yield; collect the values in a tensor and return it");
    return false;
}

Exit staged_while(const Step *n, Frame *f, Value test)
{
    const AstWhile *s = n->p;
    Vars vars = {0};
    StagedLoop l = {.step = n, .body = n->b, .test = n->a, .leaves = body_leaves(s->body), .first = test};
    Left left = NOT_LEFT;
    Exit x;

    if (!refuse_yield(f, s->body)) {
        value_unref(test);
        return X_RAISE;
    }
    places_of(s->body, &vars);
    x = run_loop(&l, &vars, f, &left);
    vec_free(&vars);
    value_unref(test);
    if (x == X_NORMAL)
        return staged_leave_loop(f, &left, n->c);
    left_drop(&left);
    return x;
}

/* A round whose body may stop at a staged branch, of a loop whose test is known: when it does, the loop is
 * staged from the state before the round. */
Exit staged_watch(const Step *n, Frame *f, bool *staged)
{
    Scene before;
    Exit x;

    scene_begin(&before, f);
    x = n->b->exec(n->b, f);
    *staged = x == X_STAGED;
    if (*staged) {
        staged_forget(f);
        scene_reset(&before);
    }
    scene_end(&before);
    return *staged ? staged_while(n, f, VNONE) : x;
}

/* ------------------------------------------------------------- for */

/* (hi - lo + step - 1) // step for a positive step, at least 0; each bound an int or a staged tensor. */
Value staged_trip_count(Interp *I, Value lo, Value hi, int64_t step)
{
    Value d, e, n = VERR, zero = VERR, r = VERR;

    d = step > 0 ? value_binary(I, AOP_SUB, hi, lo) : value_binary(I, AOP_SUB, lo, hi);
    step = step > 0 ? step : -step;
    e = is_err(d) ? VERR : value_binary(I, AOP_ADD, d, vint(step - 1));
    if (!is_err(e))
        n = value_binary(I, AOP_FLOORDIV, e, vint(step));
    if (n.tag == V_TENSOR && (as_tensor(n)->rank || !dtype_is_int((DType)as_tensor(n)->dtype))) {
        raise(I, EXC_TypeError, "range() takes ints; a tensor among its bounds has one integer element");
    } else if (!is_err(n)) {
        zero = value_of(tensor_scalar_i((DType)as_tensor(n)->dtype, 0));
        Tensor *m = binary_op(I, OP_maximum, as_tensor(n), as_tensor(zero));
        r = value_of(m ? do_convert(I, m, DT_int32) : NULL);
    }
    value_unref(d);
    value_unref(e);
    value_unref(n);
    value_unref(zero);
    return r;
}

/* Worth being a loop of the graph: while a graph is being made, from this many rounds on. */
bool staged_worthwhile(Interp *I, int64_t rounds)
{
    if (rounds <= UNROLL_MAX)
        return false;
    for (const Level *lv = interp_trace(I)->top; lv; lv = lv->outer)
        if (lv->kind == TRACE_STAGE && !lv->linear)
            return true;
    return false;
}

/* Numbers of the target that the body needs as such. */
static bool needs_numbers(const AstFor *s, bool rows)
{
    return !rows && (!AST_IS(s->target, Name) || needs_number(s->body, AST_AS(s->target, Name)->id));
}

/* After the last round the target keeps its last value. */
static bool store_last(const Step *loop, Frame *f, const Rounds *r, int64_t n)
{
    Value v = is_err(r->rows) ? vint(r->first.i + (n - 1) * r->step) : tensor_op_getitem(f->I, r->rows, vint(n - 1));

    return !is_err(v) && loop->b->store(loop->b, f, v);
}

/* With rounds that are known the target has a value after the loop, wherever it is left. */
static bool store_first(const Step *loop, Frame *f, const Rounds *r)
{
    Value v = is_err(r->rows) ? value_ref(r->first) : tensor_op_getitem(f->I, r->rows, vint(0));

    return !is_err(v) && loop->b->store(loop->b, f, v);
}

static Exit finish_for(const Step *loop, Frame *f, const Rounds *r, const StagedLoop *l, Left *left)
{
    if (l->scan && !store_last(loop, f, r, r->n.i)) {
        left_drop(left);
        return X_RAISE;
    }
    return staged_leave_loop(f, left, ((const ForParts *)loop->p)->orelse);
}

/* As if nothing had been tried. */
static Exit take_back(Frame *f, Left *left, Scene *before, uint64_t draws)
{
    exc_clear(f->I);
    staged_forget(f);
    scene_reset(before);
    f->I->trace.draws = draws;
    left_drop(left);
    return X_NORMAL;
}

Exit staged_for(const Step *loop, Frame *f, const Rounds *r, bool *done)
{
    const AstFor *s = ((const ForParts *)loop->p)->ast;
    bool leaves = body_leaves(s->body), known = r->n.tag == V_INT;
    StagedLoop l = {.step = loop, .body = loop->c, .target = loop->b, .rounds = r, .leaves = leaves, .attempt = known,
                    .scan = known && !leaves, .end = block_end(s->body)};
    Vars vars = {0};
    Left left = NOT_LEFT;
    uint64_t draws = f->I->trace.draws;
    Scene before;
    Exit x = X_NORMAL;

    *done = !known;
    if (known && (needs_numbers(s, !is_err(r->rows)) || block_yields(s->body)))
        return X_NORMAL;
    if (!refuse_yield(f, s->body))
        return X_RAISE;
    scene_begin(&before, f);
    places_of(s->body, &vars);
    if (!l.scan)
        places_of_target(s->target, &vars);
    if (known && leaves && !store_first(loop, f, r))
        x = X_RAISE;
    x = x == X_NORMAL ? run_loop(&l, &vars, f, &left) : x;
    vec_free(&vars);
    if (x == X_RAISE && known)
        x = take_back(f, &left, &before, draws);
    else
        *done = true;
    scene_end(&before);
    if (*done && x == X_NORMAL)
        return finish_for(loop, f, r, &l, &left);
    left_drop(&left);
    return x;
}

/* ------------------------------------------------------------- for, unrolled */

/* Either nothing (the loop was left) or the target's value and the body. */
typedef struct Round { const Step *loop; Value item; } Round;

static Exit ev_round(const Step *n, Frame *f)
{
    const Round *r = n->p;

    if (!r->loop->b->store(r->loop->b, f, value_ref(r->item)))
        return X_RAISE;
    return r->loop->c->exec(r->loop->c, f);
}

/* The body once more, unless the loop was left before. */
static Exit guarded_round(const Step *loop, Frame *f, Value item, Left *left)
{
    const AstFor *s = ((const ForParts *)loop->p)->ast;
    Round round = {loop, item};
    Step run = {.exec = ev_round, .span = loop->c->span, .p = &round};
    Value test = value_compare(f->I, AOP_NE, left->code, vint(X_NORMAL));
    Start skip = {.kind = START_GIVEN, .left = *left, .at = loop->span}, body = {.kind = START_BLOCK, .body = &run, .at = loop->c->span};
    Scene scene;
    Arm yes = {.s = &scene, .start = &skip, .give = GIVE_LEFT, .raised = VERR, .gift = NO_GIFT}, no = yes;
    Left next = NOT_LEFT;
    Vars vars = {0};
    bool ok;

    if (is_err(test))
        return X_RAISE;
    no.start = &body;
    scene_begin(&scene, f);
    scene.locals = true;
    places_of_target(s->target, &vars);
    places_of(s->body, &vars);
    scene_add(&scene, &vars);
    ok = arms_join(&yes, &no, test, &next);
    vec_free(&vars);
    scene_end(&scene);
    next.ways |= left->ways;
    left_drop(left);
    *left = next;
    return ok && continue_is_normal(f->I, left) ? X_NORMAL : X_RAISE;
}

Exit staged_round(const Step *loop, Frame *f, Exit x, Value item, Left *left)
{
    if (is_err(left->code)) {
        x = staged_settle(f, left);
        if (x == X_NORMAL && !continue_is_normal(f->I, left))
            x = X_RAISE;
        if (x == X_NORMAL && left->ways == 1u << X_NORMAL)      /* it only continues */
            left_drop(left);
    } else {
        x = guarded_round(loop, f, item, left);
    }
    value_unref(item);
    return x;
}
