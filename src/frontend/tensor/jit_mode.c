/* The modes of a staged function: names, and what they switch for the time of a call. */
#include "frontend/tensor/jit_mode.h"

#include "frontend/eval/eval.h"
#include "ir/schedule/fused.h"

#include <string.h>

static const char *const names[] = {[MODE_INTERPRET] = "interpret", [MODE_DEFAULT] = "default", [MODE_OPTIMIZE] = "optimize", [MODE_FAST] = "fast"};

bool jit_mode_of(Interp *I, Value v, JitMode *out)
{
    Value text;

    *out = MODE_DEFAULT;
    if (!is_given(v))
        return true;
    for (int m = MODE_INTERPRET; v.tag == V_STR && m <= MODE_FAST; m++)
        if (!strcmp(as_str(v)->s, names[m])) {
            *out = (JitMode)m;
            return true;
        }
    text = value_repr(I, v);
    if (!is_err(text))
        raise(I, EXC_ValueError, "compile_mode is one of interpret, default, optimize, fast, not %s", as_str(text)->s);
    value_unref(text);
    return false;
}

JitManner jit_manner_begin(Interp *I, JitMode mode)
{
    Trace *T = trace_of(I);
    JitManner m = {.mode = mode, .numerics = T->numerics};

    if (mode < MODE_OPTIMIZE)
        return m;
    m.lazily = fused_lazily(false);
    m.effort = fused_effort(3);
    if (mode == MODE_FAST)
        T->numerics = fast_numerics(T->numerics);

    return m;
}

void jit_manner_end(Interp *I, const JitManner *m)
{
    if (m->mode < MODE_OPTIMIZE)
        return;
    fused_lazily(m->lazily);
    fused_effort(m->effort);
    trace_of(I)->numerics = m->numerics;
}

JitBlock jit_block_begin(Interp *I, Value block)
{
    Trace *T = trace_of(I);
    JitBlock b = {T->scope, I->named};
    TupleObj *blocks = block.tag == V_TUPLE ? as_tuple(as_tuple(block)->at[0]) : NULL;

    for (int i = 0; blocks && i < blocks->n; i++) {
        const TupleObj *one = as_tuple(blocks->at[i]);
        trace_enter(T, as_str(one->at[0])->s, as_str(one->at[1])->s);
    }
    if (blocks)
        I->named = as_tuple(block)->at[1].tag == V_LIST ? as_list(as_tuple(block)->at[1]) : NULL;
    return b;
}

void jit_block_end(Interp *I, const JitBlock *b)
{
    trace_of(I)->scope = b->scope;
    I->named = b->named;
}
