/*
 * Instances: what a call of a class makes.
 *
 * Calls with arguments of equal types make one object of the checker's, whose __init__ is walked once, with
 * attributes and sizes of its own.
 */
#include "frontend/check/kernels.h"

#include <string.h>

enum { INST_MAX = 20000 };

const Type *cls_callee(const Cls *c)
{
    const Type *m = cls_find(c, sym("__call__"));

    if (c->is_module && (!m || (m->kind == TY_FUNC && ((const Fn *)m->ref)->cls->home->library)))
        m = cls_find(c, sym("forward"));
    return m;
}

/* The object that this class makes of these arguments; *fresh: its __init__ is still to be walked. NULL: too many to tell. */
static Inst *inst_of(Check *C, Cls *c, const CallArgs *a, Ast *node, bool *fresh)
{
    const Type *m[ITEMS_MAX], *key;
    Inst *i, *older;
    int n = 0;

    *fresh = false;
    m[n++] = type_ref(TY_CLASS, c);
    for (int k = 0; k < a->n; k++) {
        if (n + 2 >= ITEMS_MAX)
            return NULL;
        if (a->at[k].name)
            m[n++] = type_lazy(c, a->at[k].name);           /* no argument is of that type: C("a", 1) is not C(a=1) */
        m[n++] = !a->at[k].type ? T_ANY : c->home->library ? a->at[k].type : type_any_float(a->at[k].type);
    }
    key = type_tuple(m, n);
    if (key->n != n)                                        /* too large to tell calls apart by */
        return NULL;
    older = map_get_ptr(&C->inst_of, key);
    if (older && !older->refused && (older->making || older->era < 0 || older->era == C->era))
        return older->making ? NULL : older;
    if (C->inst_of.n > INST_MAX)
        return NULL;
    i = arena_new(&C->arena, Inst);
    map_set_ptr(&C->inst_of, key, i);
    *i = (Inst){.cls = c, .key = key, .made = node, .older = older};
    *fresh = true;
    return i;
}

/* Sizes of the class that the constructor's arguments tell, then what its attributes tell. */
static void bind_dims(Check *C, Inst *i, const Fn *init, CallArgs *a)
{
    static const Sig none;
    const Sig *sig = init ? fn_sig(C, (Fn *)init) : &none;
    int k = 0;

    for (int p = 1; init && p < init->params.n && k < a->n; p++, k++) {
        const AstParam *x = AST_AS(init->params.at[p], Param);
        if (x->ast.kind != AST_Param || x->kind != PARAM_NORMAL || a->at[k].name || a->at[k].stars)
            break;
        sig_match(&none, i->cls, sig->param[x->slot], a->at[k].type, &i->dims);
    }
    for (int k2 = 0; init && k2 < a->n; k2++)
        for (int p = 1; a->at[k2].name && p < init->params.n; p++)
            if (AST_IS(init->params.at[p], Param) && AST_AS(init->params.at[p], Param)->name == a->at[k2].name)
                sig_match(&none, i->cls, sig->param[AST_AS(init->params.at[p], Param)->slot], a->at[k2].type, &i->dims);
}

static void bind_declared(Inst *i)
{
    static const Sig none;

    for (uint32_t k = 0; k < i->cls->declared.cap; k++) {
        uintptr_t t = 0;
        if (i->cls->declared.key[k] && map_find(&i->stored, i->cls->declared.key[k], &t))
            sig_match(&none, i->cls, (const Type *)i->cls->declared.val[k], (const Type *)t, &i->dims);
    }
    for (int k = 0; k < i->cls->dims.n; k++)
        bound_add(&i->dims, i->cls->dims.at[k].dim, dim_open());
}

/* Is the nearest __init__ that of a dataclass, which takes its fields? */
static bool inits_by_fields(const Cls *c)
{
    for (; c; c = c->base) {
        if (map_find(&c->attrs, (uintptr_t)sym("__init__"), NULL))
            return false;
        if (c->is_dataclass && c->makes_init)
            return true;
    }
    return false;
}

/* Walk __init__ for an object of its own. */
static void make_inst(Check *C, Inst *i, const Type *self, const Type *init, CallArgs *a, Ast *node)
{
    int branches = C->branches;
    long findings = C->findings, held = C->held_made;

    bind_dims(C, i, init && init->kind == TY_FUNC ? init->ref : NULL, a);
    i->making = true;
    C->blame.branches -= branches;          /* as many more or less than there are here */
    C->branches = 0;
    if (init && init->kind == TY_FUNC)
        call_type(C, type_method(self, init), a, node);
    C->branches = branches;
    C->blame.branches += branches;
    i->making = false;
    i->refused = i->cls->home->library && C->findings != findings;
    i->era = C->held_made == held ? -1 : C->era;
    bind_declared(i);
}

const Type *cls_call(Check *C, Cls *c, CallArgs *a, Ast *node)
{
    bool fresh, known = !a->open && !cls_is_open(c);
    Inst *i = known ? inst_of(C, c, a, node, &fresh) : NULL;
    bool of_fields = inits_by_fields(c);
    const Type *self = type_instance(c, i), *init = of_fields ? NULL : cls_find(c, sym("__init__"));

    abstract_judged(C, c, node);
    if (is_schedule_class(c) && !strcmp(c->name->text, "Schedule")) {
        schedule_check_call(C, NULL, a, node);
        return type_instance(c, NULL);
    }
    if (c->is_dict)
        return type_dict(T_ANY, T_ANY);
    if (c->is_record && !c->far && !map_find(&c->attrs, (uintptr_t)sym("__new__"), NULL))
        return dataclass_call(C, c, a->open ? NULL : inst_of(C, c, a, node, &fresh), a, node);
    if (c->far || cls_find(c, sym("__class_call__")))
        return self;
    if (i && !fresh)
        return self;
    if (i)
        make_inst(C, i, self, init, a, node);
    if (init && init->kind == TY_FUNC) {
        if (!i)
            call_type(C, type_method(self, init), a, node);
    } else if (of_fields && !cls_is_open(c))
        return dataclass_call(C, c, i, a, node);
    else if (!cls_is_open(c) && a->n && !a->open && !init)
        REPORT(C, E0903, node->span, cls_name(c), "it takes no arguments");
    return self;
}
