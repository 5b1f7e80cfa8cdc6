/* locals(): the variables of the calling function as a dict, a copy that nothing follows. */
#include "frontend/eval/eval.h"

static Value slot_value(const Local *l, Value v)
{
    return l->is_cell && v.tag == V_CELL ? ((CellObj *)v.o)->v : v;
}

static void put(DictObj *d, Sym name, Value v)
{
    if (!is_err(v))
        dict_set_sym(d, name, v);
}

static void put_locals(DictObj *d, const Scope *s, const Value *slot)
{
    for (int i = 0; i < s->locals.n; i++)
        put(d, s->locals.at[i].name, slot_value(&s->locals.at[i], slot[s->locals.at[i].slot]));
}

static Value f_locals(Interp *I, Value *a)
{
    Frame *f = I->frame;
    Value out = dict_new();

    (void)a;
    if (!f)
        return out;
    if (f->ns) {
        int64_t pos = 0;
        Value k, v;
        while (dict_next(f->ns, &pos, &k, &v))
            dict_set_sym(as_dict(out), str_to_sym(as_str(k)), v);
        return out;
    }
    if (!f->func) {
        put_locals(as_dict(out), f->module->scope, f->module->slot);
        return out;
    }
    put_locals(as_dict(out), f->code->scope, f->slot);
    for (int i = 0; i < f->code->scope->frees.n; i++)
        put(as_dict(out), f->code->scope->frees.at[i].name, f->closure[i]->v);
    return out;
}

const NativeDef natives_locals[] = {
    {"", "locals", f_locals, "() -> dict", "The variables of the calling function by name."},
    {0},
};
