/*
 * What arms leave behind, joined.
 *
 * A place's value goes into the graph as its tensors.  An object that existed
 * before the construct is not taken apart: a cell stands for it (Scene.mark), equal in
 * both arms when both leave the same object there, and its own changes are
 * places of their own.  So identity survives, and a model with a million weights costs nothing
 * where an arm changes one counter.
 *
 * Numbers are lifted to weak tensors; where arms give a number and a tensor,
 * the number takes the dtype of the tensor.
 */
#include "frontend/eval/scene.h"

#include <string.h>

enum { TRIES_MAX = 24 };

int line_of(Span at) { return (int)source_place(at.lo).line; }

/* ------------------------------------------------------------- beginning and ending */

void scene_begin(Scene *s, Frame *f)
{
    int n = f->code->nslots;

    *s = (Scene){.I = f->I, .f = f, .absent = VERR, .ret = VERR};
    s->slot = tsr_alloc(sizeof *s->slot * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        s->slot[i] = value_ref(f->slot[i]);
    s->shot = shot_take(f->I, f);
}

void scene_end(Scene *s)
{
    for (int i = 0; i < s->f->code->nslots; i++)
        value_unref(s->slot[i]);
    for (int i = 0; i < s->place.n; i++)
        spot_free(&s->place.at[i]);
    for (int i = 0; i < s->marks.n; i++)
        value_unref(s->marks.at[i]);
    shot_free(s->shot);
    value_unref(s->absent);
    value_unref(s->ret);
    tsr_free(s->ret_type);
    tsr_free(s->slot);
    vec_free(&s->place);
    vec_free(&s->marks);
    vec_free(&s->want);
    map_done(&s->mark);
}

static void add(Scene *s, Spot p)
{
    for (int i = 0; i < s->place.n; i++)
        if (spot_equal(s->I, &s->place.at[i], &p))
            return;
    value_ref(p.of);
    value_ref(p.key);
    vec_push(&s->place, p);
}

void scene_add(Scene *s, const Vars *vars)
{
    Frame *f = s->f;

    for (int i = 0; i < vars->n; i++) {
        const Var *v = &vars->at[i];
        Spot p = {.at = v->slot, .of = VNONE, .key = VNONE, .name = v->name};
        Value now = VERR;
        switch (v->bind) {
        case BIND_LOCAL: p.kind = SPOT_LOCAL; now = f->slot[v->slot]; break;
        case BIND_GLOBAL: p.kind = SPOT_GLOBAL; p.of = vobj(f->module); now = f->module->slot[v->slot]; break;
        default:
            p.kind = SPOT_CELL;
            p.at = 0;
            p.of = v->bind == BIND_CELL ? f->slot[v->slot] : vobj(f->closure[v->slot]);
            now = ((CellObj *)p.of.o)->v;
        }
        if (v->attr) {
            if (now.tag != V_INSTANCE)
                continue;
            p = (Spot){.kind = SPOT_KEY, .of = now, .key = str_sym(v->attr)};
            if (!((InstanceObj *)now.o)->attrs || is_err(dict_get_sym(((InstanceObj *)now.o)->attrs, v->attr))) {
                value_unref(p.key);
                continue;
            }
            add(s, p);
            value_unref(p.key);
        } else {
            add(s, p);
        }
    }
}

void scene_reset(Scene *s)
{
    Frame *f = s->f;

    for (int i = 0; i < f->code->nslots; i++) {
        Value old = f->slot[i];
        f->slot[i] = value_ref(s->slot[i]);
        value_unref(old);
    }
    shot_undo(s->shot);
}

/* ------------------------------------------------------------- marks */

static Value mark(Scene *s, Value v)
{
    CellObj *c = map_get_ptr(&s->mark, v.o);

    if (!c) {
        c = obj_new(V_CELL, sizeof *c);
        c->v = value_ref(v);
        map_set_ptr(&s->mark, v.o, c);
        vec_push(&s->marks, vobj(c));
    }
    return value_ref(vobj(c));
}

static Value mark_absent(Scene *s)
{
    if (is_err(s->absent))
        s->absent = vobj(obj_new(V_CELL, sizeof(CellObj)));
    return value_ref(s->absent);
}

static bool is_box(Value v) { return v.tag == V_LIST || v.tag == V_DICT || v.tag == V_INSTANCE || v.tag == V_SET; }

/* v with marks for the objects that were there before. Consumes v; V_ERR pending. */
static Value marked(Scene *s, Value v)
{
    Value r;

    if (is_box(v) && shot_has(s->shot, v)) {
        r = mark(s, v);
        value_unref(v);
        return r;
    }
    if (v.tag != V_TUPLE && v.tag != V_LIST)
        return v;
    if (!interp_enter(s->I)) {
        value_unref(v);
        return VERR;
    }
    bool tuple = v.tag == V_TUPLE;
    int64_t n = tuple ? as_tuple(v)->n : as_list(v)->n;
    r = tuple ? tuple_new(n) : list_new(n);
    for (int64_t i = 0; i < n && !is_err(r); i++) {
        Value x = marked(s, value_ref(tuple ? as_tuple(v)->at[i] : as_list(v)->at[i]));
        if (is_err(x)) {
            value_unref(r);
            r = VERR;
        } else if (tuple) {
            as_tuple(r)->at[i] = x;
        } else {
            list_push(as_list(r), x);
        }
    }
    interp_leave(s->I);
    value_unref(v);
    return r;
}

/* The same cell for the same number. Consumes nothing. */
static Value mark_number(Spot *p, Value v)
{
    CellObj *c = (CellObj *)p->number.o;

    if (is_err(p->number) || c->v.tag != v.tag || c->v.i != v.i) {
        value_unref(p->number);
        c = obj_new(V_CELL, sizeof *c);
        c->v = v;
        p->number = vobj(c);
    }
    return value_ref(p->number);
}

static bool is_host_number(Value v) { return v.tag == V_INT || v.tag == V_FLOAT || v.tag == V_BOOL; }

/* The objects for their marks, in a tree that is ours alone. */
static void unmark(Value *v)
{
    Value old = *v;
    int64_t n = v->tag == V_TUPLE ? as_tuple(*v)->n : v->tag == V_LIST ? as_list(*v)->n : 0;

    if (v->tag == V_CELL) {
        *v = value_ref(((CellObj *)old.o)->v);
        value_unref(old);
        return;
    }
    for (int64_t i = 0; i < n && old.o->refs == 1; i++)
        unmark(v->tag == V_TUPLE ? &as_tuple(*v)->at[i] : &as_list(*v)->at[i]);
}

/* ------------------------------------------------------------- giving */

static Value values_of(Scene *s)
{
    Value t = tuple_new(s->place.n);

    for (int i = 0; i < s->place.n; i++) {
        Spot *p = &s->place.at[i];
        Value v = p->dropped ? VERR : spot_read(s->I, p, s->f);
        if (exc_pending(s->I)) {
            value_unref(t);
            return VERR;
        }
        if (is_err(v))
            v = mark_absent(s);
        else if (s->hold_numbers && !p->by_value && is_host_number(v))
            v = mark_number(p, v);
        else if (!p->by_value)
            v = marked(s, v);
        if (is_err(v)) {
            value_unref(t);
            return VERR;
        }
        as_tuple(t)->at[i] = v;
    }
    return t;
}

static bool give_code(Scene *s, const Left *left, Tensor **out, int *nout)
{
    Tensor *t = left->code.tag == V_TENSOR ? tensor_ref(as_tensor(left->code))
                                           : tensor_scalar_i(DT_int32, is_err(left->code) ? X_NORMAL : left->code.i);

    out[*nout] = t ? do_convert(s->I, t, DT_int32) : NULL;
    return out[*nout] && (*nout)++ >= 0;
}

static bool learn_return(Scene *s, Gift *g, Tensor **out, int n)
{
    s->ret = value_ref(g->ret);
    s->ret_type = tsr_alloc(sizeof *s->ret_type * (size_t)(n + 1));
    s->nret = n;
    s->ret_at = g->ret_at;
    for (int i = 0; i < n; i++)
        s->ret_type[i] = tensor_type(out[i]);
    return true;
}

static Tensor *zeros_of(Interp *I, const TType *y, uint8_t dtype)
{
    Attr a = attr_default();

    a.dtype = dtype;
    a.nd[0] = y->rank;
    memcpy(a.d[0], y->shape, sizeof(Dim) * y->rank);
    return run_op(I, OP_full, &a, NULL, 0);
}

static bool refuse_returns(Scene *s, const Gift *g)
{
    raise(s->I, EXC_TypeError, "what is returned depends on a staged tensor, so it must have one structure: line %d and line %d return "
          "different ones; return the same kind of value from both, or choose with where() or cond()", line_of(s->ret_at), line_of(g->ret_at));
    return false;
}

static uint8_t wanted(const Scene *s, int i, uint8_t otherwise)
{
    return i < s->want.n && s->want.at[i] != DT_NONE ? s->want.at[i] : otherwise;
}

/* Zeros for what other arms return. */
static bool pad_return(Scene *s, Gift *g, Tensor **out, int *nout)
{
    for (int i = 0; !is_err(s->ret) && i < s->nret; i++, (*nout)++, g->npad++)
        if (!(out[*nout] = zeros_of(s->I, &s->ret_type[i], wanted(s, *nout, s->ret_type[i].dtype))))
            return false;
    return true;
}

static bool flatten_return(Scene *s, Gift *g, Value ret, Tensor **out, int *n)
{
    Value v = s->ret_by_value ? value_ref(ret) : marked(s, value_ref(ret));
    bool ok = !is_err(v) && flatten_weak(s->I, v, &g->ret, out, n);

    value_unref(v);
    return ok;
}

/* Objects that were there before are returned as they are, if all arms return the same; else staged again, with copies of them. */
static bool return_copies(Scene *s)
{
    if (s->ret_by_value || !s->marks.n)
        return false;
    value_unref(s->ret);
    tsr_free(s->ret_type);
    s->ret = VERR;
    s->ret_type = NULL;
    s->nret = 0;
    return s->ret_by_value = s->again = true;
}

static bool give_return(Scene *s, Gift *g, const Left *left, Tensor **out, int *nout)
{
    int n = 0;

    if (is_err(left->ret))
        return pad_return(s, g, out, nout);
    if (!flatten_return(s, g, left->ret, out + *nout, &n))
        return false;
    if (is_err(s->ret)) {
        learn_return(s, g, out + *nout, n);
    } else if (tree_same(s->I, s->ret, g->ret) != 1) {
        while (n)
            tensor_unref(out[*nout + --n]);
        return !exc_pending(s->I) && (return_copies(s) || refuse_returns(s, g));
    }
    *nout += n;
    return true;
}

/* Numbers take the dtypes that other arms gave their values. */
static bool convert_wanted(Scene *s, Tensor **out, int n)
{
    for (int i = 0; i < n && i < s->want.n; i++) {
        uint8_t dt = wanted(s, i, out[i]->dtype);
        if (out[i]->dtype != dt && out[i]->weak && !(out[i] = do_convert(s->I, out[i], (DType)dt)))
            return false;
    }
    return true;
}

bool scene_give(Scene *s, Gift *g, GiveKind kind, const Left *left, Tensor **out, int *nout)
{
    gift_done(g);
    *nout = 0;
    g->raw = values_of(s);
    if (is_err(g->raw) || !flatten_weak(s->I, g->raw, &g->skeleton, out, nout))
        return false;
    if (kind == GIVE_LEFT && !give_code(s, left, out, nout))
        return false;
    if (kind != GIVE_PLACES && !give_return(s, g, left, out, nout))
        return false;
    if (!convert_wanted(s, out, *nout))
        return false;
    g->n = *nout;
    g->type = tsr_alloc(sizeof *g->type * (size_t)(g->n + 1));
    for (int i = 0; i < g->n; i++) {
        g->type[i] = tensor_type(out[i]);
        g->type[i].weak |= i >= g->n - g->npad;         /* zeros take any dtype */
    }
    return true;
}

void gift_done(Gift *g)
{
    value_unref(g->skeleton);
    value_unref(g->raw);
    value_unref(g->ret);
    tsr_free(g->type);
    *g = (Gift){.skeleton = VERR, .raw = VERR, .ret = VERR, .at = g->at, .ret_at = g->ret_at};
}

/* ------------------------------------------------------------- comparing */

/* Variables that were set although the syntax did not say so: by a pattern, in a comprehension. */
static void local_changes(Scene *s)
{
    for (int i = 0; s->locals && i < s->f->code->nslots; i++) {
        Value now = s->f->slot[i], was = s->slot[i];
        Spot p = {.kind = SPOT_LOCAL, .at = i, .of = VNONE, .key = VNONE, .name = local_name(s->f->code, i)};
        if (now.tag != was.tag || (now.tag > V_NOTIMPL && now.i != was.i))
            add(s, p);
    }
}

bool scene_settled(Scene *s)
{
    bool found = false;

    local_changes(s);
    return shot_changes(s->shot, &s->place, &found);
}

static const char *kind_of(Value v)
{
    return v.tag == V_NOTIMPL ? "a tensor or number" : v.tag == V_CELL ? "what it was before" : value_type_name(v);
}

static bool refuse_one_sided(Scene *s, const Spot *p, const char *first, const char *second, const Gift *a, const Gift *b, bool in_a)
{
    StrBuf n = {0};

    shot_name(s->shot, p, &n);
    raise(s->I, EXC_TypeError, "E0542: '%s' has a value after %s (line %d) and none after %s (line %d); which one runs depends on a staged "
          "tensor, so give it a value before", sb_str(&n), in_a ? first : second, line_of(in_a ? a->at : b->at), in_a ? second : first,
          line_of(in_a ? b->at : a->at));
    sb_done(&n);
    return false;
}

/* What a part is: its kind, or itself where the kinds are equal. */
static void put_part(Interp *I, Value v, Value other, StrBuf *out)
{
    if (v.tag != other.tag || v.tag == V_NOTIMPL || v.tag == V_CELL || v.tag == V_INSTANCE || !value_repr_to(I, v, out))
        sb_puts(out, kind_of(v));
}

static void refuse_parts(Scene *s, const char *name, Value x, Value y, const Gift *a, const Gift *b, const char *first, const char *second)
{
    StrBuf way = {0}, was = {0}, is = {0};

    tree_difference(s->I, &x, &y, &way);
    put_part(s->I, x, y, &was);
    put_part(s->I, y, x, &is);
    raise(s->I, EXC_TypeError, "E0542: '%s' must have the same structure after %s (line %d) as after %s (line %d), because a staged "
          "tensor decides: %s%s is %s there and %s here", name, first, line_of(a->at), second, line_of(b->at), way.n ? name : "it",
          way.n ? sb_str(&way) : "", sb_str(&was), sb_str(&is));
    sb_done(&way);
    sb_done(&was);
    sb_done(&is);
}

static bool refuse_kinds(Scene *s, const Spot *p, Value x, Value y, const Gift *a, const Gift *b, const char *first, const char *second)
{
    StrBuf n = {0};

    shot_name(s->shot, p, &n);
    if (p->kind == SPOT_WHOLE && x.tag == V_TUPLE && y.tag == V_TUPLE && as_tuple(x)->n != as_tuple(y)->n)
        raise(s->I, EXC_TypeError, "E0542: the list '%s' has %lld elements after %s (line %d) and %lld after %s (line %d); a staged tensor "
              "decides which, so its length must be the same: store into elements that exist, or append after the %s", sb_str(&n),
              (long long)as_tuple(x)->n, first, line_of(a->at), (long long)as_tuple(y)->n, second, line_of(b->at),
              s->loop ? "loop (scan collects one value for each round)" : "branch");
    else
        refuse_parts(s, sb_str(&n), x, y, a, b, first, second);
    sb_done(&n);
    return false;
}

/* What nothing reads behind the branch need not be one thing: it is unset afterwards. */
static bool drop_unread(Scene *s, int i)
{
    Spot *p = i < s->place.n ? &s->place.at[i] : NULL;
    const Ast *function = s->f->code->ast;

    if (!p || !s->branch || p->kind != SPOT_LOCAL || !p->name || !function || read_behind(function, p->name, s->branch))
        return false;
    return p->dropped = s->again = true;
}

/* One place's skeletons; true when they fit or when it can be made to fit by staging again. */
static bool compare_place(Scene *s, int i, const Gift *a, const Gift *b, const char *first, const char *second)
{
    Spot *p = &s->place.at[i];
    Value x = as_tuple(a->skeleton)->at[i], y = as_tuple(b->skeleton)->at[i];
    bool ax = x.tag == V_CELL && is_err(((CellObj *)x.o)->v), ay = y.tag == V_CELL && is_err(((CellObj *)y.o)->v);
    int same = tree_same(s->I, x, y);

    if (same)
        return same > 0;
    if (ax || ay) {
        if (p->kind == SPOT_LOCAL && s->may_drop) {
            interp_half_set(s->I, s->f->code, (uint32_t)p->at, a->at, (ay ? a : b)->at);
            return p->dropped = s->again = true;
        }
        return refuse_one_sided(s, p, first, second, a, b, ay);
    }
    if (!p->by_value && p->kind != SPOT_WHOLE) {
        p->by_value = s->again = true;
        return true;
    }
    if (drop_unread(s, i))
        return true;
    return refuse_kinds(s, p, x, y, a, b, first, second);
}

/* The place that a leaf belongs to; place.n: it is of the result. */
static int place_of(Scene *s, int leaf, const Gift *a)
{
    int at = 0, i = 0;

    for (; i < s->place.n; i++) {
        TensorVec leaves = {0};
        bool here = tree_leaves(s->I, as_tuple(a->skeleton)->at[i], TREE_ALL, &leaves) && leaf < at + leaves.n;
        at += leaves.n;
        vec_free(&leaves);
        if (here)
            break;
    }
    return i;
}

static bool refuse_types(Scene *s, int leaf, const Gift *a, const Gift *b, const char *first, const char *second)
{
    StrBuf m = {0};
    int i = place_of(s, leaf, a);

    if (drop_unread(s, i))
        return true;
    sb_puts(&m, "both branches must give the same type, because a staged tensor decides: ");
    if (i < s->place.n) {
        sb_putc(&m, '\'');
        shot_name(s->shot, &s->place.at[i], &m);
        sb_puts(&m, "' is ");
    } else {
        sb_puts(&m, "the result is ");
    }
    ttype_print(&a->type[leaf], &m);
    sb_printf(&m, " after %s (line %d), ", first, line_of(a->at));
    ttype_print(&b->type[leaf], &m);
    sb_printf(&m, " after %s (line %d)", second, line_of(b->at));
    raise(s->I, a->type[leaf].dtype != b->type[leaf].dtype ? EXC_DTypeError : EXC_ShapeError, "%s", sb_str(&m));
    sb_done(&m);
    return false;
}

static bool compare_leaf(Scene *s, int i, const Gift *a, const Gift *b, const char *first, const char *second)
{
    const TType *x = &a->type[i], *y = &b->type[i];
    uint8_t dt, weak;

    if (ttype_fits(x, y))
        return true;
    if (x->dtype == y->dtype || !(x->weak || y->weak) || !op_join_dtypes(x, y, &dt, &weak))
        return refuse_types(s, i, a, b, first, second);
    while (s->want.n <= i)
        vec_push(&s->want, DT_NONE);
    if (s->want.at[i] == dt)
        return refuse_types(s, i, a, b, first, second);
    s->want.at[i] = dt;
    s->again = true;
    return true;
}

bool scene_compare(Scene *s, const Gift *a, const Gift *b, const char *first, const char *second)
{
    s->again |= as_tuple(a->skeleton)->n != as_tuple(b->skeleton)->n;       /* b found places that a did not give */
    if (s->again) {
        s->want.n = 0;
        return true;
    }
    for (int i = 0; i < s->place.n; i++)
        if (!compare_place(s, i, a, b, first, second))
            return false;
    s->again |= a->n != b->n;           /* one of them returns */
    if (s->again) {
        s->want.n = 0;                  /* they were places in another list */
        return true;
    }
    for (int i = 0; i < a->n; i++)
        if (!compare_leaf(s, i, a, b, first, second))
            return false;
    return true;
}

bool scene_retry(Scene *s)
{
    bool again = s->again;

    s->again = false;
    if (again && !exc_pending(s->I) && ++s->tries > TRIES_MAX)
        raise(s->I, EXC_TypeError, "what this code changes differs each time it is staged; staged control flow cannot follow it");
    return again && !exc_pending(s->I);
}

/* ------------------------------------------------------------- taking */

static bool same_number(Value a, Value b)
{
    return a.tag == b.tag && is_host_number(a) && a.i == b.i;
}

bool scene_write(Scene *s, Value tuple)
{
    for (int i = 0; i < as_tuple(tuple)->n; i++) {
        unmark(&as_tuple(tuple)->at[i]);
        if (!spot_write(s->I, &s->place.at[i], s->f, as_tuple(tuple)->at[i]))
            return false;
    }
    return true;
}

bool scene_take(Scene *s, const Gift *a, const Gift *b, GiveKind kind, Tensor **out, int n, Left *left)
{
    int pos = 0;
    Value t = tree_rebuild(s->I, a->skeleton, TREE_ALL, out, &pos);
    bool ok = !is_err(t);

    for (int i = 0; ok && i < s->place.n; i++)
        if (!is_err(b->raw) && same_number(as_tuple(a->raw)->at[i], as_tuple(b->raw)->at[i])) {
            value_unref(as_tuple(t)->at[i]);
            as_tuple(t)->at[i] = as_tuple(a->raw)->at[i];
        }
    ok = ok && scene_write(s, t);
    value_unref(t);
    if (ok && kind == GIVE_LEFT)
        left->code = tensor_value(tensor_ref(out[pos++]));
    if (ok && kind != GIVE_PLACES && !is_err(s->ret)) {
        left->ret = tree_rebuild(s->I, s->ret, TREE_ALL, out, &pos);
        ok = !is_err(left->ret);
        unmark(&left->ret);
    }
    for (int i = 0; i < n; i++)
        tensor_unref(out[i]);
    return ok;
}
