/*
 * Branches and loops as functions: cond and while_loop, where a tensor may decide.
 *
 * A graph has room for one kind of result: the arms of cond must agree.  The functions of loops are
 * followed for the first round, the one whose sizes are known.
 */
#include "frontend/check/checker.h"

#include <string.h>

/* cond(pred, on_true, on_false, *operands) */
const Type *transform_cond(Check *C, const CallArgs *a, Ast *node)
{
    const Type *pred = a->at[0].type, *arm[2], *x, *y;
    bool known = pred->kind == TY_BOOL && pred->value != BOOL_UNKNOWN;
    StrBuf text = {0};

    for (int i = 1; i < 3; i++)
        if (!type_is_any(a->at[i].type) && a->at[i].type->kind == TY_TENSOR) {
            const char *what = i == 1 ? "the argument 'on_true' of cond()" : "the argument 'on_false' of cond()";
            diag_help(REPORT(C, E0906, at_call(node, a->at[i].node), what, "a function", type_text(a->at[i].type)),
                      "cond runs one of two functions; where(test, a, b) chooses between tensors");
            return T_ANY;
        }
    for (int i = 0; i < 2; i++)
        arm[i] = known && (pred->value == BOOL_TRUE) == i ? T_ANY       /* it does not run */
                                                          : call_type(C, a->at[1 + i].type, &(CallArgs){a->at + 3, a->n - 3, false}, node);
    if (known)
        return arm[pred->value == BOOL_FALSE];
    if (pred->kind != TY_TENSOR || !results_differ(arm[0], arm[1], &x, &y))
        return type_join(arm[0], arm[1]);
    sb_puts(&text, "cond: where it is true it gives ");
    put_result(x, &text);
    sb_puts(&text, ", else ");
    put_result(y, &text);
    diag_help(REPORT(C, E0306, node->span, sb_str(&text)), "both functions give the same sizes and dtypes: pad or convert what differs");
    sb_done(&text);
    return T_ANY;
}

static bool takes_one(const Type *f)
{
    const Fn *fn = f->kind == TY_FUNC ? f->ref : NULL;

    return fn && fn->params.n == 1 && AST_IS(fn->params.at[0], Param) && AST_AS(fn->params.at[0], Param)->kind < PARAM_VARARGS;
}

/* while_loop(cond, body, init): state = body(*state) while cond(*state); where both take one, state = body(state). */
const Type *transform_while(Check *C, const CallArgs *a, Ast *node)
{
    const Type *init = a->at[2].type, *next, *x, *y;
    StrBuf text = {0};
    CallArg arg[ITEMS_MAX];
    bool parts = init->kind == TY_TUPLE && (init->n == 1 || !takes_one(a->at[0].type) || !takes_one(a->at[1].type));
    int n = parts ? init->n : 1;

    if (type_is_any(init) || n < 0 || n > ITEMS_MAX)
        return T_ANY;
    for (int i = 0; i < n; i++)
        arg[i] = (CallArg){NULL, parts ? init->item[i] : init, node, 0};
    call_type(C, a->at[0].type, &(CallArgs){arg, n, false}, node);
    next = call_type(C, a->at[1].type, &(CallArgs){arg, n, false}, node);
    if (C->frame->fn && C->frame->fn->is_staged && results_differ(init, next, &x, &y)) {
        sb_puts(&text, "while_loop: the state is ");
        put_result(x, &text);
        sb_puts(&text, " and becomes ");
        put_result(y, &text);
        diag_help(REPORT(C, E0306, node->span, sb_str(&text)), "a state keeps its sizes and dtypes from round to round");
        sb_done(&text);
    }
    return next == init ? init : T_ANY;
}
