/*
 * Control flow on tensors that have no value yet.
 */
#include "frontend/eval/lower.h"

bool staged_truth(Value v)
{
    return value_is_staged(v);
}

static Value refuse(Interp *I, const char *what)
{
    return raise(I, EXC_TypeError, "%s depends on the data of a tensor that is being staged", what);
}

Value staged_not(Interp *I, Value v) { return tensor_op_unary(I, AOP_NOT, v); }

Value staged_logic(Interp *I, int is_or, Value a, Value b)
{
    return value_binary(I, is_or ? AOP_BITOR : AOP_BITAND, a, b);
}

Exit staged_if(const Step *n, Frame *f, Value test)
{
    value_unref(test);
    refuse(f->I, "this branch");
    return X_RAISE;
}

Exit staged_while(const Step *n, Frame *f, Value test)
{
    value_unref(test);
    refuse(f->I, "this loop");
    return X_RAISE;
}

Value staged_ifexp(const Step *n, Frame *f, Value test)
{
    value_unref(test);
    return refuse(f->I, "this branch");
}
