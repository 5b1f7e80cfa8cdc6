/*
 * index.c - x[key] and x[key] = v: reading and storing by a resolved subscript.
 *
 * Ints, slices, None and ... give views of concrete tensors without any op; on
 * traced tensors they are slice, flip and reshape nodes.  Integer tensors, lists and masks follow
 * NumPy: they broadcast together, and their axes stand where the first of them
 * stood if they are neighbours, otherwise in front.
 */
#include "frontend/tensor/index.h"

#include <string.h>

/* ------------------------------------------------------------- slices and ints */

static Tensor *basic_view(Interp *I, Tensor *x, const Index *ix, bool keep)
{
    Dim shape[2 * RANK_MAX];
    int64_t stride[2 * RANK_MAX], offset = x->offset;
    int r = 0, axis = 0;
    for (int i = 0; i < ix->n; i++) {
        const IxItem *it = &ix->item[i];
        if (it->kind == IX_NEW) {
            shape[r] = 1, stride[r++] = 0;
            continue;
        }
        if (it->kind == IX_TENSOR) {
            shape[r] = x->shape[axis], stride[r++] = x->stride[axis];
        } else {
            offset += it->start * x->stride[axis];
            if (it->kind == IX_SLICE)
                shape[r] = it->count, stride[r++] = it->step * x->stride[axis];
            else if (keep)
                shape[r] = 1, stride[r++] = x->stride[axis];
        }
        axis++;
    }
    if (r > RANK_MAX) {
        raise(I, EXC_ShapeError, "tensors have at most %d axes", RANK_MAX);
        return NULL;
    }
    Tensor *t = tensor_view(x, r, shape, stride, offset);
    if (!t)
        raise(I, EXC_MemoryError, "not enough memory for a tensor");
    return t;
}

/* The result's shape of a basic subscript. */
static int basic_shape(const Tensor *x, const Index *ix, bool keep, Dim *shape)
{
    int r = 0, axis = 0;
    for (int i = 0; i < ix->n; i++) {
        const IxItem *it = &ix->item[i];
        if (it->kind == IX_NEW)
            shape[r++] = 1;
        else if (it->kind == IX_SLICE)
            shape[r++] = it->count;
        else if (it->kind == IX_TENSOR)
            shape[r++] = x->shape[axis];
        else if (keep)
            shape[r++] = 1;
        axis += it->kind != IX_NEW;
    }
    return r;
}

/* Where a slice of that many elements ends; an empty one where it starts. */
static Dim slice_stop(Dim start, Dim step, Dim count)
{
    if (count == 0 || step == 1)
        return dim_add(start, count);
    return dim_same(count, 0) ? start : dim_add(start, dim_add(dim_mul(dim_sub(count, 1), step), 1));
}

static bool has_symbolic(const Index *ix)
{
    for (int i = 0; i < ix->n; i++)
        if (ix->item[i].kind != IX_NEW && (!dim_is_const(ix->item[i].start) || !dim_is_const(ix->item[i].count)))
            return true;
    return false;
}

/* One slice node for all axes; negative steps flip first. */
static Tensor *basic_ops(Interp *I, Tensor *x, const Index *ix, bool keep)
{
    Attr s = attr_default(), f = attr_default();
    int axis = 0, r = x->rank;
    bool whole = true;
    s.nd[0] = s.nd[1] = s.nd[2] = (uint8_t)r;
    for (int i = 0; i < ix->n; i++) {
        const IxItem *it = &ix->item[i];
        if (it->kind == IX_NEW)
            continue;
        Dim start = 0, stop = x->shape[axis], step = 1;
        if (it->kind == IX_INT) {
            start = it->start, stop = dim_add(start, 1);
        } else if (it->kind == IX_SLICE) {
            start = it->start, step = it->step;
            if (step < 0) {
                f.axis[f.naxes++] = (int8_t)(axis - r);
                start = it->count == 0 ? 0 : dim_sub(dim_sub(x->shape[axis], 1), start);
                step = -step;
            }
            stop = slice_stop(start, step, it->count);
        }
        whole &= start == 0 && stop == x->shape[axis] && step == 1;
        s.d[0][axis] = start, s.d[1][axis] = stop, s.d[2][axis] = step;
        axis++;
    }
    Dim shape[2 * RANK_MAX];
    int rank = basic_shape(x, ix, keep, shape);
    Tensor *y = f.naxes ? run1(I, OP_flip, &f, x) : tensor_ref(x);
    if (!whole)
        y = chain1(I, OP_slice, &s, y);
    return do_reshape(I, y, rank, shape);
}

Tensor *index_basic(Interp *I, Tensor *x, const Index *ix, bool keep)
{
    return x->tracer || has_symbolic(ix) ? basic_ops(I, x, ix, keep) : basic_view(I, x, ix, keep);
}

/* ------------------------------------------------------------- tensors as indices */

/* Where the indexed axes stand among the axes that index_basic leaves; ints beside tensors index too. */
typedef struct Places { int at[RANK_MAX], n, rank, first; bool adjacent; } Places;

static Places index_places(const Index *ix)
{
    Places p = {.first = -1, .adjacent = true};
    int last = -1;
    for (int i = 0; i < ix->n; i++) {
        IxKind k = ix->item[i].kind;
        if (k == IX_TENSOR || k == IX_INT) {
            if (last >= 0 && i != last + 1)
                p.adjacent = false;
            last = i;
            if (p.first < 0)
                p.first = p.rank;
            p.at[p.n++] = p.rank;
        }
        p.rank++;
    }
    return p;
}

/* The operands of an index op after x: ints as 0-d tensors. Fills idx, owned. */
static bool index_operands(Interp *I, const Index *ix, Tensor **idx)
{
    int n = 0;
    for (int i = 0; i < ix->n; i++) {
        const IxItem *it = &ix->item[i];
        if (it->kind == IX_TENSOR)
            idx[n++] = tensor_ref(it->t);
        else if (it->kind == IX_INT)
            idx[n++] = tensor_scalar_i(DT_int32, 0);    /* index_basic kept one element there */
    }
    return true;
}

static void front_perm(const Places *p, int rank, int *perm)
{
    bool taken[RANK_MAX] = {false};
    int n = 0;
    for (int i = 0; i < p->n; i++)
        taken[perm[n++] = p->at[i]] = true;
    for (int i = 0; i < rank; i++)
        if (!taken[i])
            perm[n++] = i;
}

/* Axes [0, nb) of y (rank r) go to stand before old position `first` of the rest. */
static Tensor *move_front(Interp *I, Tensor *y, int nb, int first)
{
    int perm[RANK_MAX], n = 0, r = y->rank;
    for (int i = 0; i < first; i++)
        perm[n++] = nb + i;
    for (int i = 0; i < nb; i++)
        perm[n++] = i;
    for (int i = nb + first; i < r; i++)
        perm[n++] = i;
    return do_permute(I, y, perm);
}

static Tensor *gather(Interp *I, Tensor *x, const Index *ix)
{
    Places p = index_places(ix);
    Tensor *in[RANK_MAX + 1] = {0}, *y = NULL;
    int perm[RANK_MAX];
    Tensor *base = index_basic(I, x, ix, true);
    if (!base)
        return NULL;
    front_perm(&p, base->rank, perm);
    in[0] = do_permute(I, base, perm);
    if (in[0] && index_operands(I, ix, in + 1)) {
        Attr a = attr_default();
        a.n = (int16_t)p.n;
        y = run_op(I, OP_index, &a, in, p.n + 1);
        if (y && p.adjacent && p.first > 0)
            y = move_front(I, y, y->rank - (in[0]->rank - p.n), p.first);
    }
    for (int i = 0; i <= p.n; i++)
        tensor_unref(in[i]);
    return y;
}

/* x as the one row of a tensor with an axis more. */
static Tensor *as_row(Interp *I, Tensor *x)
{
    Dim shape[RANK_MAX] = {1};

    if (x->rank == RANK_MAX) {
        raise(I, EXC_ShapeError, "tensors have at most %d axes", RANK_MAX);
        return NULL;
    }
    memcpy(shape + 1, x->shape, sizeof(Dim) * (size_t)x->rank);
    return do_reshape(I, tensor_ref(x), x->rank + 1, shape);
}

/* x[mask] for a mask without axes: x as the one row of a tensor, or none. */
static Value under_one(Interp *I, Tensor *x, Tensor *mask)
{
    Tensor *row = as_row(I, x), *m = as_row(I, mask), *y = NULL;
    Index ix = {.mask = m ? tensor_ref(m) : NULL};
    if (row && m && index_mask_items(I, row, &ix))
        y = gather(I, row, &ix);
    index_done(&ix);
    tensor_unref(row);
    tensor_unref(m);
    return value_of(y);
}

/* x[True]: all of x on a new axis of size 1; x[False]: none of it on one of size 0. */
static Value under_truth(Interp *I, Tensor *x, bool truth)
{
    Index ix = {0};

    ix.item[ix.n++] = (IxItem){.kind = IX_SLICE, .step = 1, .count = truth};
    for (int i = 0; i < x->rank; i++)
        ix.item[ix.n++] = (IxItem){.kind = IX_SLICE, .step = 1, .count = x->shape[i]};
    Tensor *row = as_row(I, x), *y = row ? index_basic(I, row, &ix, false) : NULL;
    tensor_unref(row);
    return value_of(y);
}

Value tensor_op_getitem(Interp *I, Value v, Value key)
{
    Tensor *x = as_tensor(v), *y;
    Index ix;
    if (key.tag == V_INT && !x->tracer && x->rank) {
        Index one = {0};
        if (!index_int(I, &one, key.i, 0, x->shape[0]))
            return VERR;
        y = tensor_view(x, x->rank - 1, x->shape + 1, x->stride + 1, x->offset + one.item[0].start * x->stride[0]);
        return y ? tensor_value(y) : raise(I, EXC_MemoryError, "not enough memory for a tensor");
    }
    if (key.tag == V_TENSOR && as_tensor(key)->dtype == DT_bool && !as_tensor(key)->rank)
        return under_one(I, x, as_tensor(key));
    if (key.tag == V_BOOL)
        return under_truth(I, x, key.i);
    if (!index_resolve(I, x, key, false, &ix))
        return VERR;
    y = ix.ntensors ? gather(I, x, &ix) : index_basic(I, x, &ix, false);
    index_done(&ix);
    return value_of(y);
}

/* ------------------------------------------------------------- stores */

/* The value to store, in the dtype of x. */
static Tensor *store_value(Interp *I, Tensor *x, Value v)
{
    return do_convert(I, arg_beside(I, v, x, "a store"), x->dtype);
}

static bool store_shape(Interp *I, Tensor **v, int rank, const Dim *shape)
{
    while (*v && (*v)->rank > rank && dim_same((*v)->shape[0], 1))      /* NumPy drops leading axes of one */
        *v = do_reshape(I, *v, (*v)->rank - 1, (*v)->shape + 1);
    bool fits = *v && (*v)->rank <= rank;
    for (int i = 1; fits && i <= (*v)->rank; i++) {
        Dim d = (*v)->shape[(*v)->rank - i];
        fits = d == 1 || dim_same(d, shape[rank - i]) || dim_same(d, 1);
    }
    if (*v && !fits) {
        StrBuf s = {0};
        put_shape(&s, (*v)->rank, (*v)->shape);
        sb_puts(&s, " into a selection of shape ");
        put_shape(&s, rank, shape);
        raise(I, EXC_ShapeError, "cannot store a value of shape %s", sb_str(&s));
        sb_done(&s);
        tensor_unref(*v);
        *v = NULL;
    }
    *v = *v ? do_broadcast(I, *v, rank, shape) : NULL;
    return *v != NULL;
}

/* Concrete x and v: write through a view of the only copy. Consumes x; gives it back changed. */
static Tensor *write_view(Interp *I, Tensor *x, const Index *ix, Tensor *v)
{
    if (!tensor_own(&x)) {
        raise(I, EXC_MemoryError, "not enough memory to copy the tensor");
        tensor_unref(x);
        return NULL;
    }
    Tensor *part = basic_view(I, x, ix, false);
    if (part)
        tensor_assign(part, v);
    tensor_unref(part);
    return x;
}

/* The same as ops: dynamic_update where steps are 1, else a scatter over flat positions. */
static Tensor *update_region(Interp *I, Tensor *x, const Index *ix, Tensor *v)
{
    Attr a = attr_default();
    Tensor *in[RANK_MAX + 2] = {x};
    Dim shape[2 * RANK_MAX];
    int n = 0, rank = 0;
    bool made = true;
    for (int i = 0; i < ix->n; i++)
        if (ix->item[i].kind != IX_NEW) {
            shape[rank++] = ix->item[i].kind == IX_INT ? 1 : ix->item[i].count;
            in[2 + n++] = size_tensor(I, ix->item[i].start, DT_int32);
            made &= in[1 + n] != NULL;
        }
    a.n = (int16_t)n;
    Tensor *y = NULL;
    if (made && (in[1] = do_reshape(I, tensor_ref(v), rank, shape)))
        y = run_op(I, OP_dynamic_update, &a, in, n + 2);
    for (int i = 1; i < n + 2; i++)
        tensor_unref(in[i]);
    return y;
}

static Tensor *flat(Interp *I, Tensor *x)
{
    Dim n = shape_product(x->rank, x->shape);
    return do_reshape(I, x, 1, &n);
}

static Tensor *update_strided(Interp *I, Tensor *x, const Index *ix, Tensor *v)
{
    Attr a = attr_default();
    Tensor *in[3] = {0}, *y = NULL, *at = NULL;
    a.n = 1;
    Tensor *all = do_reshape(I, iota_axis(I, DT_int64, shape_product(x->rank, x->shape)), x->rank, x->shape);
    if (all && (at = index_basic(I, all, ix, false)) && (in[0] = flat(I, tensor_ref(x))) && (in[1] = flat(I, tensor_ref(v))) &&
        (in[2] = flat(I, tensor_ref(at))))
        y = run_op(I, OP_index_put, &a, in, 3);
    tensor_unref(all);
    tensor_unref(at);
    for (int i = 0; i < 3; i++)
        tensor_unref(in[i]);
    return do_reshape(I, y, x->rank, x->shape);
}

/* x (consumed) with v (borrowed, any shape that broadcasts) at a basic subscript. */
static Tensor *store_basic(Interp *I, Tensor *x, const Index *ix, Tensor *value)
{
    Dim shape[2 * RANK_MAX];
    int rank = basic_shape(x, ix, false, shape);
    Tensor *v = tensor_ref(value), *y = NULL;
    bool unit = true, empty = false;
    if (!store_shape(I, &v, rank, shape)) {
        tensor_unref(x);
        return NULL;
    }
    for (int i = 0; i < ix->n; i++) {
        unit &= ix->item[i].kind != IX_SLICE || ix->item[i].step == 1;
        empty |= ix->item[i].kind == IX_SLICE && ix->item[i].count == 0;
    }
    if (!x->tracer && !v->tracer && !has_symbolic(ix)) {
        y = write_view(I, x, ix, v);
        tensor_unref(v);
        return y;
    }
    y = empty ? tensor_ref(x) : unit ? update_region(I, x, ix, v) : update_strided(I, x, ix, v);
    tensor_unref(v);
    tensor_unref(x);
    return y;
}

/* v, whose indexed axes stand at `first`, with them in front. */
static Tensor *values_front(Interp *I, Tensor *v, int nb, int first)
{
    int perm[RANK_MAX], n = 0;
    for (int i = 0; i < nb; i++)
        perm[n++] = first + i;
    for (int i = 0; i < v->rank; i++)
        if (i < first || i >= first + nb)
            perm[n++] = i;
    return do_permute(I, v, perm);
}

static Tensor *inverse_permute(Interp *I, Tensor *x, const int *perm)
{
    int inv[RANK_MAX];
    for (int i = 0; x && i < x->rank; i++)
        inv[perm[i]] = i;
    return do_permute(I, x, inv);
}

/* The shape the index tensors broadcast to. */
static bool broadcast_shape(Interp *I, Tensor *const *idx, int n, int *rank, Dim *shape)
{
    *rank = 0;
    for (int i = 0; i < n; i++)
        *rank = idx[i]->rank > *rank ? idx[i]->rank : *rank;
    for (int k = 0; k < *rank; k++)
        shape[k] = 1;
    for (int i = 0; i < n; i++)
        for (int k = 1; k <= idx[i]->rank; k++) {
            Dim d = idx[i]->shape[idx[i]->rank - k], *s = &shape[*rank - k];
            if (!dim_join(*s, d, s)) {
                raise(I, EXC_ShapeError, "the index tensors do not broadcast: %s and %s", dim_text(*s), dim_text(d));
                return false;
            }
        }
    return true;
}

/* Write v into sub (whose axes are items of ix, ints kept as axes of one); borrows; a new tensor. */
static Tensor *scatter(Interp *I, Tensor *sub, const Index *ix, Tensor *value)
{
    Places p = index_places(ix);
    Tensor *in[RANK_MAX + 2] = {0}, *y = NULL;
    Dim shape[2 * RANK_MAX];
    int perm[RANK_MAX], nb, r, first = p.adjacent ? p.first : 0;
    front_perm(&p, sub->rank, perm);
    index_operands(I, ix, in + 2);
    if (!broadcast_shape(I, in + 2, p.n, &nb, shape + RANK_MAX))
        goto out;
    r = 0;
    for (int i = 0, rest = p.n; i < sub->rank - p.n + 1; i++) {     /* the selection's shape, in reading order */
        if (i == first)
            for (int k = 0; k < nb; k++)
                shape[r++] = shape[RANK_MAX + k];
        if (i < sub->rank - p.n)
            shape[r++] = sub->shape[perm[rest++]];
    }
    in[1] = tensor_ref(value);
    if (!store_shape(I, &in[1], r, shape) || !(in[1] = values_front(I, in[1], nb, first)))
        goto out;
    if ((in[0] = do_permute(I, tensor_ref(sub), perm))) {
        Attr a = attr_default();
        a.n = (int16_t)p.n;
        y = inverse_permute(I, run_op(I, OP_index_put, &a, in, p.n + 2), perm);
    }
out:
    for (int i = 0; i < p.n + 2; i++)
        tensor_unref(in[i]);
    return y;
}

/* Without None: a store may name new axes, the value's shape then has them; drop them from both. */
static void drop_new(Index *ix)
{
    int n = 0;
    for (int i = 0; i < ix->n; i++)
        if (ix->item[i].kind != IX_NEW)
            ix->item[n++] = ix->item[i];
    ix->n = n;
}

static Tensor *store_indexed(Interp *I, Tensor *x, Index *ix, Tensor *v)
{
    drop_new(ix);
    Tensor *sub = index_basic(I, x, ix, true), *y = NULL;
    Tensor *changed = sub ? scatter(I, sub, ix, v) : NULL;
    tensor_unref(sub);
    if (changed) {
        Index region = {.n = ix->n};
        for (int i = 0, axis = 0; i < ix->n; i++, axis++) {         /* the same region as slices */
            IxItem it = ix->item[i];
            region.item[i] = it.kind == IX_TENSOR ? (IxItem){.kind = IX_SLICE, .step = 1, .count = x->shape[axis]}
                           : it.kind == IX_INT ? (IxItem){.kind = IX_SLICE, .start = it.start, .step = 1, .count = 1} : it;
        }
        bool whole = true;
        for (int i = 0; i < region.n; i++)
            whole &= region.item[i].count == x->shape[i] && region.item[i].step == 1;
        y = whole ? tensor_ref(changed) : store_basic(I, tensor_ref(x), &region, changed);
    }
    tensor_unref(changed);
    tensor_unref(x);
    return y;
}

/* x[mask] = v for a mask without axes, which chooses all of x or nothing: into x as the one row of a tensor. Consumes x. */
static Tensor *store_under_one(Interp *I, Tensor *x, Index *ix, Tensor *v)
{
    Tensor *row = as_row(I, x), *mask = ix->mask, *y = NULL;

    ix->mask = as_row(I, mask);
    tensor_unref(mask);
    if (row && ix->mask && index_mask_items(I, row, ix))
        y = store_indexed(I, row, ix, v);
    else
        tensor_unref(row);
    y = do_reshape(I, y, x->rank, x->shape);
    tensor_unref(x);
    return y;
}

/* x[mask] = one value: where(mask, v, x). Consumes x. */
static Tensor *store_mask(Interp *I, Tensor *x, Index *ix, Tensor *v)
{
    if (v->rank && !ix->mask->rank)
        return store_under_one(I, x, ix, v);
    if (v->rank) {
        if (index_mask_items(I, x, ix))
            return store_indexed(I, x, ix, v);
        tensor_unref(x);
        return NULL;
    }
    Dim shape[RANK_MAX];
    for (int i = 0; i < x->rank; i++)
        shape[i] = i < ix->mask->rank ? ix->mask->shape[i] : 1;
    Tensor *mask = do_reshape(I, tensor_ref(ix->mask), x->rank, shape);
    Tensor *y = mask ? run_op(I, OP_where, NULL, (Tensor *[]){mask, v, x}, 3) : NULL;
    tensor_unref(mask);
    tensor_unref(x);
    return y;
}

/* The usual store: concrete, and nobody else sees these elements. */
static bool store_direct(Interp *I, Tensor **x, const Index *ix, Tensor **v)
{
    Dim shape[2 * RANK_MAX];
    int rank = basic_shape(*x, ix, false, shape);
    if (!store_shape(I, v, rank, shape))
        return false;
    if (!tensor_own(x)) {
        raise(I, EXC_MemoryError, "not enough memory to copy the tensor");
        return false;
    }
    Tensor *part = basic_view(I, *x, ix, false);
    if (part)
        tensor_assign(part, *v);
    tensor_unref(part);
    return part != NULL;
}

static Tensor *store_any(Interp *I, Tensor *x, Index *ix, Tensor *v)
{
    tensor_ref(x);
    return ix->mask ? store_mask(I, x, ix, v) : ix->ntensors ? store_indexed(I, x, ix, v) : store_basic(I, x, ix, v);
}

static void replace_tensor(Value *slot, Tensor *y)
{
    TensorObj *o = (TensorObj *)slot->o;
    if (o->obj.refs == 1) {
        tensor_unref(o->t);
        o->t = y;
        return;
    }
    Value changed = tensor_value(y);
    changed.o->flags = o->obj.flags;
    value_unref(*slot);
    *slot = changed;
}

bool tensor_op_setitem(Interp *I, Value *slot, Value key, Value value)
{
    TensorObj *o = (TensorObj *)slot->o;
    Index ix;
    bool tuple = key.tag == V_TUPLE;
    if (interp_options(I)->debug && !index_slices_inside(I, o->t, tuple ? as_tuple(key)->at : &key, tuple ? as_tuple(key)->n : 1))
        return false;
    Tensor *v = store_value(I, o->t, value), *y = NULL;
    if (!v || !index_resolve(I, o->t, key, true, &ix)) {
        tensor_unref(v);
        return false;
    }
    bool ok, plain = !ix.mask && !ix.ntensors && !o->t->tracer && !v->tracer && !has_symbolic(&ix);
    if (plain && o->obj.refs == 1) {
        ok = store_direct(I, &o->t, &ix, &v);
    } else {
        ok = (y = store_any(I, o->t, &ix, v)) != NULL;
        if (ok)
            replace_tensor(slot, y);
    }
    index_done(&ix);
    tensor_unref(v);
    return ok;
}
