/*
 * index_resolve.c - subscripts: what each element of x[a, 1:5:2, None, mask] means for a tensor of this shape.
 *
 * Ints and slices are checked as far as sizes are known, masks become places, and axes that nothing names are whole.
 */
#include "frontend/tensor/index.h"

#include <string.h>

void index_done(Index *ix)
{
    for (int i = 0; i < ix->n; i++)
        tensor_unref(ix->item[i].t);
    tensor_unref(ix->mask);
}

static int mask_rank(const Tensor *t) { return t->dtype == DT_bool ? t->rank : 1; }

/* How many axes of x one element of the subscript is for. */
static int item_axes(Value v)
{
    if (v.tag == V_NONE || v.tag == V_ELLIPSIS)
        return 0;
    return v.tag == V_TENSOR ? mask_rank(as_tensor(v)) : 1;
}

static bool bad_item(Interp *I, Value v)
{
    raise(I, EXC_TypeError, "a tensor is indexed by ints, slices, None, ..., masks and integer tensors, not by %s", value_type_name(v));
    return false;
}

static IxItem *new_item(Index *ix, IxKind kind)
{
    IxItem *it = &ix->item[ix->n++];
    *it = (IxItem){.kind = kind};
    return it;
}

static bool out_of_range(Interp *I, Dim i, int axis, Dim size)
{
    raise(I, EXC_IndexError, "index %s is out of range for axis %d of size %s", dim_text(i), axis, dim_text(size));
    return false;
}

static bool add_size(Interp *I, Index *ix, Dim i, int axis, Dim size)
{
    bool back = dim_ask_ge(i, 0) == DIM_REFUTED;
    Dim at = back ? dim_add(i, size) : i;
    if (back ? dim_ask_ge(at, 0) == DIM_REFUTED : dim_ask_ge(size, dim_add(at, 1)) == DIM_REFUTED)
        return out_of_range(I, i, axis, size);
    new_item(ix, IX_INT)->start = at;
    return true;
}

bool index_int(Interp *I, Index *ix, int64_t i, int axis, Dim size)
{
    if (!dim_is_const(size))
        return add_size(I, ix, dim_const(i), axis, size);
    if (i < -size || i >= size)
        return out_of_range(I, dim_const(i), axis, size);
    new_item(ix, IX_INT)->start = i < 0 ? i + size : i;
    return true;
}

static bool add_slice(Interp *I, Index *ix, const SliceObj *s, Dim size)
{
    IxItem *it = new_item(ix, IX_SLICE);
    return slice_sizes(I, s, size, &it->start, &it->step, &it->count);
}

static void add_whole(Index *ix, Dim size)
{
    IxItem *it = new_item(ix, IX_SLICE);
    it->step = 1;
    it->count = size;
}

/* A mask over the k axes from `axis` on: one integer tensor an axis. */
static bool add_mask(Interp *I, Index *ix, Tensor *x, Tensor *mask, int axis)
{
    for (int i = 0; i < mask->rank; i++)
        if (!dim_same(mask->shape[i], x->shape[axis + i])) {
            StrBuf s = {0};
            put_shape(&s, mask->rank, mask->shape);
            raise(I, EXC_IndexError, "the mask of shape %s does not fit: axis %d has size %s", sb_str(&s), axis + i,
                  dim_text(x->shape[axis + i]));
            sb_done(&s);
            return false;
        }
    Tensor *at = run1(I, OP_nonzero, NULL, mask);
    if (!at)
        return false;
    for (int i = 0; i < mask->rank; i++) {
        Index col = {.n = 2, .item = {{.kind = IX_SLICE, .step = 1, .count = at->shape[0]}, {.kind = IX_INT, .start = i}}};
        IxItem *it = new_item(ix, IX_TENSOR);
        it->t = index_basic(I, at, &col, false);
        ix->ntensors++;
        if (!it->t)
            break;
    }
    tensor_unref(at);
    return !exc_pending(I);
}

static bool add_tensor(Interp *I, Index *ix, Tensor *x, Tensor *t, int axis)
{
    if (t->dtype == DT_bool && t->rank)
        return add_mask(I, ix, x, t, axis);
    if (!dtype_is_int(t->dtype)) {
        if (t->dtype == DT_bool)
            raise(I, EXC_IndexError, "a mask without axes is the whole subscript: x[mask]");
        else
            raise(I, EXC_IndexError, "an index tensor holds ints or bools, not %s", dtype_info[t->dtype].name);
        return false;
    }
    Tensor *c = t->rank ? NULL : tensor_concrete(t);
    if (c)
        return index_int(I, ix, elem_get_i(c, c->offset), axis, x->shape[axis]);
    new_item(ix, IX_TENSOR)->t = tensor_ref(t);
    ix->ntensors++;
    return true;
}

static bool add_item(Interp *I, Index *ix, Tensor *x, Value v, int axis)
{
    Tensor *t;
    int64_t i;
    switch (v.tag) {
    case V_INT:
        return index_int(I, ix, v.i, axis, x->shape[axis]);
    case V_SYMINT:
        return add_size(I, ix, symint_size(v), axis, x->shape[axis]);
    case V_SLICE:
        return add_slice(I, ix, (SliceObj *)v.o, x->shape[axis]);
    case V_TENSOR:
        return add_tensor(I, ix, x, as_tensor(v), axis);
    case V_LIST: case V_RANGE: {
        if (!(t = tensor_from_data(I, v, DT_NONE)))
            return false;
        if (!tensor_size(t) && t->dtype == DT_f32)
            t = do_convert(I, t, DT_int32);
        bool ok = add_tensor(I, ix, x, t, axis);
        tensor_unref(t);
        return ok;
    }
    case V_BOOL: case V_FLOAT: case V_STR:
        return bad_item(I, v);
    default:
        return value_as_int(I, v, &i) && index_int(I, ix, i, axis, x->shape[axis]);
    }
}

static bool too_many(Interp *I, const Tensor *x, int used)
{
    if (used <= x->rank)
        raise(I, EXC_ShapeError, "tensors have at most %d axes", RANK_MAX);
    else
        raise(I, EXC_IndexError, "too many indices: %d for a tensor of %d ax%s", used, x->rank, x->rank == 1 ? "is" : "es");
    return false;
}

static bool resolve_items(Interp *I, Tensor *x, const Value *key, int64_t nkey, Index *ix)
{
    int used = 0, axis = 0, dots = 0;
    for (int64_t i = 0; i < nkey; i++)
        used += item_axes(key[i]), dots += key[i].tag == V_ELLIPSIS;
    if (used > x->rank || nkey > RANK_MAX)
        return too_many(I, x, used);
    if (dots > 1) {
        raise(I, EXC_IndexError, "a subscript can hold only one ...");
        return false;
    }
    for (int64_t i = 0; i < nkey; i++) {
        if (key[i].tag == V_NONE)
            new_item(ix, IX_NEW);
        else if (key[i].tag == V_ELLIPSIS)
            for (int k = x->rank - used; k > 0; k--)
                add_whole(ix, x->shape[axis++]);
        else if (!add_item(I, ix, x, key[i], axis))
            return false;
        else
            axis += item_axes(key[i]);
    }
    while (axis < x->rank)
        add_whole(ix, x->shape[axis++]);
    return true;
}

bool index_resolve(Interp *I, Tensor *x, Value key, bool keep_mask, Index *ix)
{
    memset(ix, 0, sizeof *ix);
    if (keep_mask && key.tag == V_BOOL)
        return (ix->mask = tensor_from_data(I, key, DT_bool)) != NULL;
    if (keep_mask && key.tag == V_TENSOR && as_tensor(key)->dtype == DT_bool && as_tensor(key)->rank <= x->rank) {
        ix->mask = tensor_ref(as_tensor(key));
        return true;
    }
    bool ok = key.tag == V_TUPLE ? resolve_items(I, x, as_tuple(key)->at, as_tuple(key)->n, ix) : resolve_items(I, x, &key, 1, ix);
    if (!ok)
        index_done(ix);
    return ok;
}

bool index_mask_items(Interp *I, Tensor *x, Index *ix)
{
    Tensor *mask = ix->mask;
    ix->mask = NULL;
    bool ok = add_mask(I, ix, x, mask, 0);
    for (int axis = mask->rank; ok && axis < x->rank; axis++)
        add_whole(ix, x->shape[axis]);
    tensor_unref(mask);
    return ok;
}

/* ------------------------------------------------------------- slices that end outside */

/* With --debug the bounds of a slice that is stored to lie inside; without it they are cut, as Python does. */
static bool slice_inside(Interp *I, Value item, int axis, Dim size)
{
    SliceObj *s = item.tag == V_SLICE ? (SliceObj *)item.o : NULL;
    StrBuf text = {0};
    Place at;
    bool low, high;

    if (!s || !dim_is_const(size))
        return true;
    low = s->lo.tag == V_INT && (s->lo.i < -size || s->lo.i > size);
    high = s->hi.tag == V_INT && (s->hi.i < -size || s->hi.i > size);
    if (!low && !high)
        return true;
    if (s->lo.tag == V_INT)
        sb_printf(&text, "%lld", (long long)s->lo.i);
    sb_putc(&text, ':');
    if (s->hi.tag == V_INT)
        sb_printf(&text, "%lld", (long long)s->hi.i);
    at = source_place(interp_span(I).lo);
    if (at.src)
        raise(I, EXC_IndexError, "slice %s out of bounds for dimension %d of size %s at %s:%u", sb_str(&text), axis, dim_text(size),
              strrchr(at.src->path, '/') ? strrchr(at.src->path, '/') + 1 : at.src->path, at.line);
    else
        raise(I, EXC_IndexError, "slice %s out of bounds for dimension %d of size %s", sb_str(&text), axis, dim_text(size));
    sb_done(&text);
    return false;
}

bool index_slices_inside(Interp *I, const Tensor *x, const Value *key, int64_t n)
{
    int used = 0, axis = 0;

    for (int64_t i = 0; i < n; i++)
        used += item_axes(key[i]);
    for (int64_t i = 0; i < n && axis < x->rank; i++) {
        if (!slice_inside(I, key[i], axis, x->shape[axis]))
            return false;
        axis += key[i].tag == V_ELLIPSIS ? x->rank - used : item_axes(key[i]);
    }
    return true;
}
