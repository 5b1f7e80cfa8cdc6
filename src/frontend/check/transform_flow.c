/*
 * Branches and loops as functions: cond and while_loop, where a tensor may decide; tree_map, a loop over leaves.
 *
 * A graph has room for one kind of result: the arms of cond must agree.  The functions of loops are
 * followed for the first round, the one whose sizes are known.
 */
#include "frontend/check/transforms.h"

#include <stdio.h>
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

/* The condition of a loop decides once for all elements. */
static void one_truth(Check *C, const Type *t, Ast *node)
{
    StrBuf text = {0};

    if (type_is_any(t) || t->kind != TY_TENSOR || ttype_count(t->tensor) == DIM_BAD || dim_eq(ttype_count(t->tensor), 1, NULL, NULL) != DIM_REFUTED)
        return;
    sb_printf(&text, "while_loop: the condition gives %s, not one truth", shape_of(t->tensor));
    diag_help(REPORT(C, E0306, node->span, sb_str(&text)), "reduce it with .any() or .all()");
    sb_done(&text);
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
    one_truth(C, call_type(C, a->at[0].type, &(CallArgs){arg, n, false}, node), node);
    next = call_type(C, a->at[1].type, &(CallArgs){arg, n, false}, node);
    if (parts ? n > 1 && (next->kind == TY_TUPLE ? next->n >= 0 && next->n != n
                                                 : next->kind == TY_TENSOR || next->kind == TY_INT || next->kind == TY_FLOAT)
              : init->kind == TY_TENSOR && !type_is_any(next) && next->kind == TY_TUPLE && next->n > 1) {
        sb_printf(&text, "while_loop: the body gives %s for a state of %d", next->kind == TY_TUPLE ? type_text(next) : "one value", n);
        diag_help(REPORT(C, E0306, node->span, sb_str(&text)), "the body gives the next state, as many values as it gets");
        sb_done(&text);
        return T_ANY;
    }
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

/* ------------------------------------------------------------- trees */

enum { LEAVES = 64, TREES = 8 };

/* The tensors and numbers in a tree, in order, behind the n that are there; -1: not known, or too many. */
static int leaves_of(const Type *t, const Type **out, int n)
{
    int step = t->kind == TY_DICT ? 2 : 1;

    if (type_is_any(t) || n < 0 || n == LEAVES)
        return -1;
    if (t->kind == TY_TENSOR || t->kind == TY_INT || t->kind == TY_FLOAT) {
        out[n] = t;
        return n + 1;
    }
    if (t->kind == TY_STR || t->kind == TY_NONE)
        return n;
    if (t->n < 0 || (t->kind != TY_TUPLE && !((t->kind == TY_LIST || t->kind == TY_DICT) && t->exact)))
        return -1;
    for (int i = step - 1; i < t->n && n >= 0; i += step)
        n = leaves_of(t->item[i], out, n);
    return n;
}

/* The tree with these leaves in their places. */
static const Type *with_leaves(const Type *t, const Type *const **leaf)
{
    const Type *m[ITEMS_MAX];

    if (t->kind == TY_TENSOR || t->kind == TY_INT || t->kind == TY_FLOAT)
        return *(*leaf)++;
    if (t->kind == TY_STR || t->kind == TY_NONE)
        return t;
    for (int i = 0; i < t->n; i++)
        m[i] = t->kind == TY_DICT && i % 2 == 0 ? t->item[i] : with_leaves(t->item[i], leaf);
    return t->kind == TY_TUPLE ? type_tuple(m, t->n) : t->kind == TY_DICT ? type_dict_of(m, t->n) : type_list_of(m, t->n);
}

/* The tensors that are attributes of an object, the objects in it included, behind the n that are there. */
static int leaves_held(const Inst *inst, const Type **out, int n, int depth)
{
    for (uint32_t i = 0; i < inst->stored.cap && n < LEAVES && depth < 6; i++) {
        const Type *t = inst->stored.key[i] ? (const Type *)inst->stored.val[i] : NULL;
        if (!type_is_any(t) && t->kind == TY_TENSOR)
            out[n++] = t;
        else if (!type_is_any(t) && t->kind == TY_INSTANCE && t->inst && t->inst != inst)
            n = leaves_held(t->inst, out, n, depth + 1);
    }
    return n;
}

/*
 * tree_map over a Module: where f gives each tensor's own type for all that are known, another object like it comes back. Of what the others of
 * its attributes are nothing is known before, nor behind.
 */
static const Type *map_object(Check *C, const CallArgs *a, Ast *node)
{
    const Type *tree = a->at[1].type, *leaf[LEAVES];
    CallArg arg[TREES];
    int n = leaves_held(tree->inst, leaf, 0, 0);

    for (int k = 0; k < n; k++) {
        for (int i = 1; i < a->n; i++)
            arg[i - 1] = (CallArg){NULL, a->at[i].type == tree ? leaf[k] : T_ANY, node, 0};
        if (call_type(C, a->at[0].type, &(CallArgs){arg, a->n - 1, false}, node) != leaf[k])
            return T_ANY;
    }
    return n ? tree : T_ANY;
}

/* tree_map(f, tree, *others): f gets a leaf of each tree. */
const Type *transform_tree_map(Check *C, const CallArgs *a, Ast *node)
{
    const Type *leaf[TREES][LEAVES], *made[LEAVES], *const *at = made;
    CallArg arg[TREES];
    int trees = a->n - 1, n = 0;
    char text[96];

    if (trees > TREES)
        return T_ANY;
    if (!type_is_any(a->at[1].type) && a->at[1].type->kind == TY_INSTANCE && a->at[1].type->inst)
        return map_object(C, a, node);
    for (int i = 0; i < trees; i++) {
        int k = leaves_of(a->at[i + 1].type, leaf[i], 0);
        if (i && k >= 0 && n >= 0 && k != n) {
            snprintf(text, sizeof text, "tree_map: the first tree has %d leaves, tree %d has %d", n, i + 1, k);
            diag_help(REPORT(C, E0306, node->span, text), "trees that are mapped together have the same structure");
            origin_of(C, C->last, a->at[i + 1].node, DIM_BAD);
            return T_ANY;
        }
        n = k < 0 || n < 0 ? -1 : k;
    }
    for (int k = 0; k < (n < 0 ? 1 : n); k++) {         /* of trees that are not known: does f take so many? */
        for (int i = 0; i < trees; i++)
            arg[i] = (CallArg){NULL, n < 0 ? T_ANY : leaf[i][k], node, 0};
        made[k] = call_type(C, a->at[0].type, &(CallArgs){arg, trees, false}, node);
    }
    return n < 0 ? T_ANY : with_leaves(a->at[1].type, &at);
}
