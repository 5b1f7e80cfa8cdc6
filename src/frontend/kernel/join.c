/*
 * Two ways to one variable.
 *
 * Where ways of a choice meet, and where a loop begins again, a variable has a
 * type: a value that says what is static in it and what is code.  Values that
 * agree stay static; numbers that differ become code; a Python number takes
 * the dtype of the element that the other way gives.  Lists and tuples join
 * element by element, shared arrays by becoming one array with an axis more.
 */
#include "frontend/kernel/body.h"

#include <string.h>

/* A type's code parts are made of nothing yet: their refs are only types. */
static bool is_truth(KVal v) { return (v.kind == K_STATIC && v.v.tag == V_BOOL) || kb_dtype(v) == DT_bool; }

static bool is_number(KVal v)
{
    double f;

    return v.kind == K_INT || v.kind == K_SCALAR || v.kind == K_BLOCK || kb_static_number(v, &f);
}

static bool is_weak_float(KVal v) { return (v.kind == K_SCALAR && v.weak) || (v.kind == K_STATIC && v.v.tag == V_FLOAT); }

static bool same_ref(TileRef a, TileRef b) { return a.node == b.node && a.index == b.index; }

static bool same_lin(const Lin *a, const Lin *b)
{
    if (a->n != b->n || a->c != b->c)
        return false;
    for (int i = 0; i < a->n; i++)
        if (!same_ref(a->t[i].r, b->t[i].r) || a->t[i].k != b->t[i].k)
            return false;
    return true;
}

/* ------------------------------------------------------------- types */

/* A tile that stands for a type: any node of it would do, and none is made. */
static KVal of_type(Body *B, int kind, TileType t, bool weak)
{
    TileNode *n = kb_alloc(B, sizeof *n);
    TileType *type = kb_alloc(B, sizeof *type);
    KVal v = {.kind = (uint8_t)kind, .weak = weak};

    *type = t;
    n->op = TILE_PARAM;
    n->nout = 1;
    n->type = type;
    n->attr = &tattr_none;
    v.ref = (TileRef){n, 0};
    if (kind == K_BLOCK)
        v.tag = kb_alloc(B, sizeof(AxisTag) * VIEW_RANK);
    return v;
}

static KVal int_type(Body *B)
{
    Lin *l = kb_alloc(B, sizeof *l);

    l->n = 1;                   /* of nothing: not a number */
    return (KVal){.kind = K_INT, .lin = l};
}

static KVal scalar_type(Body *B, DType dt, bool weak) { return of_type(B, K_SCALAR, (TileType){.kind = TILE_VALUE, .dtype = (uint8_t)dt}, weak); }

/* Where the axes begin may differ from now on, and is code of a region that will be left. */
static KVal block_type(Body *B, KVal block, KVal a, KVal b, DType dt)
{
    TileType t = *tile_type(block.ref);
    KVal v;
    AxisTag *tag;

    t.dtype = (uint8_t)dt;
    v = of_type(B, K_BLOCK, t, false);
    tag = (AxisTag *)v.tag;
    for (int i = 0; i < t.rank; i++) {
        tag[i] = a.kind == K_BLOCK && (a.tag[i].dim || a.tag[i].none) ? a.tag[i] : b.kind == K_BLOCK ? b.tag[i] : (AxisTag){0};
        tag[i].moved = true;
        tag[i].start = lin_number(0);
    }
    return v;
}

/* The type of a value that only one way has; UNSET: none that could be carried. */
static KVal own_type(Body *B, KVal v)
{
    KVal y = v;

    switch (v.kind) {
    case K_INT: return int_type(B);
    case K_SCALAR: return scalar_type(B, (DType)tile_type(v.ref)->dtype, v.weak);
    case K_BLOCK: return block_type(B, v, v, v, (DType)tile_type(v.ref)->dtype);
    case K_PLACE: {
        KPlace p = *v.place;
        for (int i = 0; i < p.rank; i++) {
            if (p.axis[i].start.n)
                p.axis[i].start = *int_type(B).lin;
            if (p.axis[i].extent.n && !p.axis[i].gone)
                return KUNSET;
        }
        return kplace_value(B, &p);
    }
    case K_TUPLE: case K_LIST: case K_VECTOR:
        y.item = kb_alloc(B, sizeof *y.item * (size_t)(v.n + 1));
        for (int i = 0; i < v.n; i++)
            y.item[i] = own_type(B, v.item[i]);
        return y;
    case K_METHOD: case K_RANGE: case K_PARTS: return KUNSET;
    default: return v;
    }
}

static KVal join_numbers(Body *B, KVal a, KVal b)
{
    DType x = kb_dtype(a), y = kb_dtype(b), dt;
    bool floats = is_weak_float(a) || is_weak_float(b);
    KVal block = a.kind == K_BLOCK ? a : b;

    if (is_truth(a) && is_truth(b) && a.kind != K_BLOCK && b.kind != K_BLOCK)
        return scalar_type(B, DT_bool, false);
    if (kb_is_int(a) && kb_is_int(b))
        return int_type(B);
    if (x == DT_NONE && y == DT_NONE)
        return scalar_type(B, DT_f64, true);
    dt = x == DT_NONE ? y : x;
    if (x != DT_NONE && y != DT_NONE && !dtype_promote(x, y, &dt))
        return kb_fail(B, "E0609: a variable is %s on one way and %s on another: tile.cast one of them", dtype_info[x].name, dtype_info[y].name);
    if (floats && !dtype_is_inexact(dt))
        dt = DT_f32;
    if (a.kind != K_BLOCK && b.kind != K_BLOCK)             /* a truth with an int is an int */
        return dt == DT_bool ? int_type(B) : scalar_type(B, dt, false);
    if (dt == DT_bool && !(is_truth(a) && is_truth(b)))
        return kb_fail(B, "E0609: a variable is bool on one way and an int on another: tile.cast one of them");
    if (a.kind == K_BLOCK && b.kind == K_BLOCK && (tile_type(a.ref)->rank != tile_type(b.ref)->rank ||
        memcmp(tile_type(a.ref)->extent, tile_type(b.ref)->extent, sizeof(int32_t) * tile_type(a.ref)->rank)))
        return kb_fail(B, "E0606: a variable is a block value of other extents on another way");
    return block_type(B, block, a, b, dt);
}

static KVal join_places(Body *B, KVal a, KVal b)
{
    KPlace p = *a.place;
    const KPlace *q = b.place;

    if (p.held != q->held && (!held_leave(B, &p) || !held_leave(B, q)))
        return KBAD;
    if (p.buffer && q->buffer && p.view.node != q->view.node && p.rank - p.stacked == q->rank - q->stacked && p.dtype == q->dtype) {
        uintptr_t in[2] = {0, 0};
        int stack = ++*B->nstacks;
        map_find(B->stack, p.buffer, &in[0]);
        map_find(B->stack, q->buffer, &in[1]);
        if (in[0] && in[1])
            return kb_fail(B, "a variable names shared arrays of two lists on two ways");
        if (in[0] || in[1]) {                               /* one more in that stack */
            uintptr_t of = (in[0] ? in[0] : in[1]) / STACK_MAX, n = 0;
            for (uint32_t i = 0; i < B->stack->cap; i++)
                n += B->stack->key[i] && B->stack->val[i] / STACK_MAX == of;
            map_set(B->stack, in[0] ? q->buffer : p.buffer, of * STACK_MAX + n);
            return n >= STACK_MAX ? kb_fail(B, "more than %d shared arrays take turns", STACK_MAX) : kb_again(B);
        }
        map_set(B->stack, p.buffer, (uintptr_t)(stack * STACK_MAX));
        map_set(B->stack, q->buffer, (uintptr_t)(stack * STACK_MAX + 1));
        return kb_again(B);
    }
    if (p.view.node != q->view.node)
        return kb_fail(B, "a variable names memory of one array on one way and of another one on another");
    for (int i = 0; i < p.rank; i++) {
        if (p.axis[i].gone != q->axis[i].gone || (!p.axis[i].gone && !same_lin(&p.axis[i].extent, &q->axis[i].extent)))
            return kb_fail(B, "a variable names parts of different extents on two ways");
        if (!same_lin(&p.axis[i].start, &q->axis[i].start))
            p.axis[i].start = *int_type(B).lin;
    }
    return kplace_value(B, &p);
}

static KVal join_items(Body *B, KVal a, KVal b)
{
    KVal y = a;

    if (a.n != b.n)
        return kb_fail(B, "a variable has %d elements on one way and %d on another", a.n, b.n);
    y.item = kb_alloc(B, sizeof *y.item * (size_t)(a.n + 1));
    for (int i = 0; i < a.n; i++) {
        y.item[i] = join_types(B, a.item[i], b.item[i]);
        if (kb_bad(y.item[i]))
            return KBAD;
    }
    return y;
}

static bool static_equal(Body *B, KVal a, KVal b)
{
    int eq;

    if (a.v.tag != b.v.tag)
        return false;
    if (!is_obj(a.v))
        return a.v.i == b.v.i;
    if (a.v.o == b.v.o)
        return true;
    if (a.v.tag != V_STR && a.v.tag != V_TUPLE && a.v.tag != V_DTYPE)
        return false;
    eq = value_equal(B->I, a.v, b.v);
    if (eq < 0)
        exc_clear(B->I);
    return eq > 0;
}

KVal join_types(Body *B, KVal a, KVal b)
{
    if (kb_bad(a) || kb_bad(b))
        return KBAD;
    if (a.kind == K_UNSET)
        return own_type(B, b);
    if (b.kind == K_UNSET)
        return own_type(B, a);
    if (a.kind == K_STATIC && b.kind == K_STATIC && static_equal(B, a, b))
        return a;
    if (a.kind == K_INT && b.kind == K_INT && same_lin(a.lin, b.lin))
        return a;
    if ((a.kind == K_SCALAR || a.kind == K_BLOCK) && a.kind == b.kind && same_ref(a.ref, b.ref) && a.weak == b.weak)
        return a;
    if (is_number(a) && is_number(b))
        return join_numbers(B, a, b);
    if (a.kind == b.kind) {
        switch (a.kind) {
        case K_PLACE: return join_places(B, a, b);
        case K_TUPLE: case K_LIST: case K_VECTOR: return join_items(B, a, b);
        case K_FRAGMENT: case K_GROUP:
            if (a.v.i == b.v.i)
                return a;
            break;
        case K_CONTEXT: return a;
        default: break;
        }
    }
    if (a.kind == K_PLACE || b.kind == K_PLACE)
        return kb_fail(B, "a variable is memory on one way and a value on another; v[...] += x changes memory, v += x makes a value of its own");
    return kb_fail(B, "a variable is one thing on one way and another on another");
}

static bool type_node(TileRef r) { return r.node && r.node->op == TILE_PARAM && !r.node->block; }

/* Is what b says new to a? Both are types or values. */
bool join_same(KVal a, KVal b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case K_STATIC: return a.v.tag == b.v.tag && (is_obj(a.v) ? a.v.o == b.v.o : a.v.i == b.v.i);
    case K_INT: return same_lin(a.lin, b.lin);
    case K_SCALAR: case K_BLOCK:
        return a.weak == b.weak && tile_type_equal(tile_type(a.ref), tile_type(b.ref)) && (type_node(a.ref) || same_ref(a.ref, b.ref) ||
                type_node(b.ref)) &&
               type_node(a.ref) == type_node(b.ref);
    case K_PLACE:
        for (int i = 0; i < a.place->rank; i++)
            if (!same_lin(&a.place->axis[i].start, &b.place->axis[i].start))
                return false;
        return a.place->view.node == b.place->view.node;
    case K_TUPLE: case K_LIST: case K_VECTOR:
        for (int i = 0; i < a.n; i++)
            if (i >= b.n || !join_same(a.item[i], b.item[i]))
                return false;
        return a.n == b.n;
    default: return true;
    }
}

/* ------------------------------------------------------------- values of a type */

static bool int_is_type(const Lin *l) { return l->n == 1 && !l->t[0].r.node; }

/* A value where a way has none: it is not read. */
static KVal nothing(Body *B, KVal type)
{
    const TileType *t;
    TileRef r;

    switch (type.kind) {
    case K_INT: return kb_number(0);
    case K_SCALAR: return kb_scalar(kb_const(B, (DType)tile_type(type.ref)->dtype, 0, 0), type.weak);
    case K_BLOCK:
        t = tile_type(type.ref);
        r = kb_const(B, (DType)t->dtype, 0, 0);
        return kb_block(B, kb_splat(B, r, t->rank, t->extent), type.tag);
    case K_PLACE: {
        KPlace p = *type.place;
        for (int i = 0; i < p.rank; i++)
            if (int_is_type(&p.axis[i].start))
                p.axis[i].start = lin_number(0);
        return kplace_value(B, &p);
    }
    default: return type;
    }
}

KVal join_convert(Body *B, KVal v, KVal type)
{
    KVal y = type;

    if (B->failed)
        return KBAD;
    if (v.kind == K_UNSET && type.kind != K_TUPLE && type.kind != K_LIST && type.kind != K_VECTOR)
        v = nothing(B, type);
    switch (type.kind) {
    case K_SCALAR:
        if (!type_node(type.ref))
            return v;
        return kb_scalar(kb_ref(B, v, (DType)tile_type(type.ref)->dtype), type.weak);
    case K_BLOCK: {
        const TileType *t = tile_type(type.ref);
        TileRef r;
        if (!type_node(type.ref))
            return v;
        r = kb_ref(B, v, (DType)t->dtype);
        if (r.node && !tile_type(r)->rank)
            r = kb_splat(B, r, t->rank, t->extent);
        return kb_block(B, r, type.tag);
    }
    case K_TUPLE: case K_LIST: case K_VECTOR:
        y.item = kb_alloc(B, sizeof *y.item * (size_t)(type.n + 1));
        for (int i = 0; i < type.n; i++)
            y.item[i] = join_convert(B, v.kind == type.kind && i < v.n ? v.item[i] : KUNSET, type.item[i]);
        return y;
    default: return v;
    }
}

static void join_refs(Body *B, KVal v, TileRef *out, int *n)
{
    if (*n >= JOIN_REFS - VIEW_RANK) {
        kb_fail(B, "more variables than a loop or choice can carry");
        return;
    }
    switch (v.kind) {
    case K_INT: out[(*n)++] = lin_ref(B, v.lin); break;
    case K_STATIC:
        if (v.v.tag == V_INT || v.v.tag == V_BOOL)
            out[(*n)++] = kb_index(B, v.v.i);
        break;
    case K_SCALAR: case K_BLOCK: out[(*n)++] = v.ref; break;
    default: break;
    }
}

/* The parts of v that are code in the type. */
static void refs_of(Body *B, KVal v, KVal type, TileRef *out, int *n)
{
    switch (type.kind) {
    case K_INT:
        if (int_is_type(type.lin))
            join_refs(B, v, out, n);
        break;
    case K_SCALAR: case K_BLOCK:
        if (type_node(type.ref))
            join_refs(B, v, out, n);
        break;
    case K_PLACE:
        for (int i = 0; i < type.place->rank; i++)
            if (int_is_type(&type.place->axis[i].start))
                out[(*n)++] = lin_ref(B, v.kind == K_PLACE ? &v.place->axis[i].start : &(Lin){0});
        break;
    case K_TUPLE: case K_LIST: case K_VECTOR:
        for (int i = 0; i < type.n; i++)
            refs_of(B, v.item[i], type.item[i], out, n);
        break;
    default: break;
    }
}

int join_flatten(Body *B, KVal v, KVal type, TileRef *out, int n)
{
    refs_of(B, v, type, out, &n);
    return n;
}

KVal join_rebuild(Body *B, KVal type, const TileRef *ref, int *at)
{
    KVal y = type;

    switch (type.kind) {
    case K_INT: return int_is_type(type.lin) ? kb_int(B, lin_of(ref[(*at)++])) : type;
    case K_SCALAR: return type_node(type.ref) ? kb_scalar(ref[(*at)++], type.weak) : type;
    case K_BLOCK: return type_node(type.ref) ? kb_block(B, ref[(*at)++], type.tag) : type;
    case K_PLACE: {
        KPlace p = *type.place;
        for (int i = 0; i < p.rank; i++)
            if (int_is_type(&p.axis[i].start))
                p.axis[i].start = lin_of(ref[(*at)++]);
        return kplace_value(B, &p);
    }
    case K_TUPLE: case K_LIST: case K_VECTOR:
        y.item = kb_alloc(B, sizeof *y.item * (size_t)(type.n + 1));
        for (int i = 0; i < type.n; i++)
            y.item[i] = join_rebuild(B, type.item[i], ref, at);
        return y;
    default: return type;
    }
}
