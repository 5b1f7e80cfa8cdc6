/*
 * Functions made of functions and what they are given: partial(f, x), compose(f, g), pipe(f, g).
 *
 * Calling one calls the functions in it, so what is wrong between two of them is found at the call:
 *
 *     encode = compose(head, body)
 *     encode(x)                        head of what body gives, which has to fit
 */
#include "frontend/check/transforms.h"

#include <string.h>

static const CallArg *argument_named(const CallArgs *a, Sym name)
{
    for (int i = 0; i < a->n; i++)
        if (a->at[i].name == name)
            return &a->at[i];
    return NULL;
}

const Type *transform_partial(Check *C, const Type *t, const CallArgs *a, Ast *node)
{
    CallArg all[64];
    CallArgs in = {all, 0, a->open};

    if (t->n / 2 + a->n > 64)
        return T_ANY;
    for (int i = 0; i < t->n; i += 2)
        if (t->item[i]->kind == TY_NONE)
            all[in.n++] = (CallArg){NULL, t->item[i + 1], node, 0};
    for (int i = 0; i < a->n; i++)
        all[in.n++] = a->at[i];
    for (int i = 0; i < t->n; i += 2)
        if (t->item[i]->kind == TY_STR && !argument_named(a, t->item[i]->text))
            all[in.n++] = (CallArg){t->item[i]->text, t->item[i + 1], node, 0};
    return call_type(C, t->ref, &in, node);
}

/* compose(f, g) and pipe(g, f), as the functions in the order that they run in. false: something there is none, or a Module, which makes one. */
bool transform_pipe(const CallArgs *a, const char *name, const Type **out)
{
    const Type *f[ITEMS_MAX];
    bool last_first = !strcmp(name, "compose");

    if (!a->n || a->n > ITEMS_MAX || call_has_names(a))
        return false;
    for (int i = 0; i < a->n; i++) {
        const Type *t = a->at[last_first ? a->n - 1 - i : i].type;
        if (type_is_any(t) || (t->kind != TY_FUNC && t->kind != TY_LIBRARY && t->kind != TY_NATIVE && t->kind != TY_TRANSFORM &&
                               t->kind != TY_METHOD))
            return false;
        f[i] = t;
    }
    *out = type_partial(TRANSFORM_PIPE, f[0], f, a->n);
    return true;
}

const Type *transform_piped(Check *C, const Type *t, CallArgs *a, Ast *node)
{
    const Type *r = call_type(C, t->ref, a, node);

    for (int i = 1; i < t->n; i++)
        r = call_type(C, t->item[i], &(CallArgs){&(CallArg){NULL, r, node, 0}, 1, false}, node);
    return r;
}
