/*
 * Operands whose sizes have to agree: which surely do not, and what follows where that cannot be told.
 */
#include "frontend/check/tensorcalls.h"

/* Are they equal at most where they are 0, as d and 4 * d? */
static bool never_equal(Dim a, Dim b)
{
    bool never;

    dim_push();
    never = dim_assume_ge(a, 1) && dim_assume_ge(b, 1) && dim_eq(a, b, NULL, NULL) == DIM_REFUTED;
    dim_pop();
    return never;
}

static bool known_to_differ(Check *C, Dim a, Dim b)
{
    DimAnswer r;

    if (a != 1 && b != 1 && dim_is_chosen(a) && dim_is_chosen(b) && !C->lenient)      /* where some number makes them equal, a guard decides */
        return dim_eq(a, b, NULL, NULL) == DIM_REFUTED || never_equal(a, b);
    if (a == 1 || b == 1 || a == b || ((dim_is_open(a) || dim_is_open(b)) && !sizes_of_one_object(a, b)) ||
        (C->lenient && !(dim_is_const(a) && dim_is_const(b))))
        return false;
    r = dim_eq(a, b, NULL, NULL);
    return r == DIM_REFUTED || r == DIM_DIFFERS;
}

bool operands_conflict(Check *C, OpId op, const TType *in, int nin)
{
    if (nin != 2)
        return false;
    if (op == OP_matmul)
        return in[0].rank > 1 && in[1].rank > 1 && in[0].shape[in[0].rank - 1] != 1 && in[1].shape[in[1].rank - 2] != 1 &&
               known_to_differ(C, in[0].shape[in[0].rank - 1], in[1].shape[in[1].rank - 2]);
    for (int i = 1; op_info[op].family == FAM_MAP && i <= in[0].rank && i <= in[1].rank; i++)
        if (known_to_differ(C, in[0].shape[in[0].rank - i], in[1].shape[in[1].rank - i]))
            return true;
    return false;
}

/* Both sizes as the one that they must be. A number above 1 is it; else it is not known. false: they agree, or never do. */
static bool agreed(Dim *a, Dim *b)
{
    Dim one;

    if (*a == 1 || *b == 1 || dim_eq(*a, *b, NULL, NULL) == DIM_PROVED)
        return false;
    if (dim_is_const(*a) && dim_is_const(*b))
        return false;
    one = dim_is_const(*a) ? *a : dim_is_const(*b) ? *b : dim_open();
    *a = *b = one;
    return true;
}

bool operands_agreed(const Check *C, OpId op, TType *in, int nin)
{
    bool any = false;

    if (C->lenient || C->kernel)
        return false;
    if (op == OP_matmul)
        return nin == 2 && in[0].rank > 1 && in[1].rank > 1 && agreed(&in[0].shape[in[0].rank - 1], &in[1].shape[in[1].rank - 2]);
    if (op_info[op].family != FAM_MAP)
        return false;
    for (int k = 0; k < nin; k++)
        for (int n = 0; n < k; n++)
            for (int i = 1; i <= in[k].rank && i <= in[n].rank; i++)
                any |= agreed(&in[n].shape[in[n].rank - i], &in[k].shape[in[k].rank - i]);
    return any;
}
