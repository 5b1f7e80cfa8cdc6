/*
 * Lists, tuples and dicts of tensors among the arguments of a launch that is staged.
 *
 * The op of such a launch has tensors as operands, so each tensor of a pack is one, and what stays with the op is a copy of the pack with None
 * in their places.  When the graph runs, copies get them back, and the launch sees the packs that the program passed.
 */
#include "frontend/kernel/launch_impl.h"

bool pack_traced(Value v)
{
    int64_t n = v.tag == V_TUPLE ? as_tuple(v)->n : v.tag == V_LIST ? as_list(v)->n : 0, pos = 0;
    const Value *item = v.tag == V_TUPLE ? as_tuple(v)->at : v.tag == V_LIST ? as_list(v)->at : NULL;
    Value key, val;

    for (int64_t i = 0; i < n; i++)
        if (item[i].tag == V_TENSOR && as_tensor(item[i])->tracer)
            return true;
    while (v.tag == V_DICT && dict_next(as_dict(v), &pos, &key, &val))
        if (val.tag == V_TENSOR && as_tensor(val)->tracer)
            return true;
    return false;
}

/* What stands for an item: a tensor's stand-in; anything else is itself. A new reference. */
static Value item_of(Value key, Value v, PackItem of, void *state)
{
    return v.tag == V_TENSOR && of ? of(state, key, v) : value_ref(v);
}

static Value dict_mapped(Interp *I, Value v, PackItem of, void *state)
{
    Value y = dict_new(), key, val;
    int64_t pos = 0;

    while (dict_next(as_dict(v), &pos, &key, &val)) {
        Value own = item_of(key, val, of, state);
        bool ok = !is_err(own) && dict_set(I, as_dict(y), key, own);
        value_unref(own);
        if (!ok) {
            value_unref(y);
            return VERR;
        }
    }
    return y;
}

Value pack_mapped(Interp *I, Value v, PackItem of, void *state)
{
    bool list = v.tag == V_LIST;
    int64_t n = list ? as_list(v)->n : v.tag == V_TUPLE ? as_tuple(v)->n : 0;
    const Value *item = list ? as_list(v)->at : as_tuple(v)->at;
    Value y;

    if (v.tag == V_DICT)
        return dict_mapped(I, v, of, state);
    y = list ? list_new(n) : tuple_new(n);
    for (int64_t i = 0; i < n; i++) {
        Value own = item_of(vint(i), item[i], of, state);
        if (is_err(own)) {
            value_unref(y);
            return VERR;
        }
        if (list)
            list_push(as_list(y), own);
        else
            as_tuple(y)->at[i] = own;
    }
    return y;
}

void pack_put(Interp *I, Value v, Value key, Value item)
{
    Value *at = v.tag == V_LIST ? &as_list(v)->at[key.i] : v.tag == V_TUPLE ? &as_tuple(v)->at[key.i] : NULL;

    if (!at) {
        if (!dict_set(I, as_dict(v), key, item))
            exc_clear(I);
        return;
    }
    value_unref(*at);
    *at = value_ref(item);
}
