/*
 * Which variables a statement may change.
 *
 * Staged control flow runs both arms of a branch and joins what they assigned,
 * so it needs the assigned names (and attributes of names: self.state) before
 * it runs anything.  They are read off the syntax tree; functions and classes
 * defined inside are not entered.
 */
#include "frontend/eval/staged.h"

#include <string.h>

/* ------------------------------------------------------------- collecting */

static void add_place(Vars *p, const AstName *name, Sym attr)
{
    if (!name || (name->bind != BIND_LOCAL && name->bind != BIND_CELL && name->bind != BIND_FREE && name->bind != BIND_GLOBAL))
        return;
    for (int i = 0; i < p->n; i++)
        if (p->at[i].bind == name->bind && p->at[i].slot == name->slot && p->at[i].attr == attr)
            return;
    Var q = {name->bind, name->slot, name->id, attr, VERR};
    vec_push(p, q);
}

static void add_target(Vars *p, const Ast *t)
{
    const Ast *base;

    switch (t->kind) {
    case AST_Name: add_place(p, AST_AS(t, Name), NULL); break;
    case AST_Starred: add_target(p, AST_AS(t, Starred)->value); break;
    case AST_Tuple:
        for (int i = 0; i < AST_AS(t, Tuple)->elts.n; i++)
            add_target(p, AST_AS(t, Tuple)->elts.at[i]);
        break;
    case AST_List:
        for (int i = 0; i < AST_AS(t, List)->elts.n; i++)
            add_target(p, AST_AS(t, List)->elts.at[i]);
        break;
    case AST_Subscript:         /* a tensor that is stored into is rebound */
        add_target(p, AST_AS(t, Subscript)->value);
        break;
    case AST_Attribute:
        base = AST_AS(t, Attribute)->value;
        if (AST_IS(base, Name))
            add_place(p, AST_AS(base, Name), AST_AS(t, Attribute)->attr);
        break;
    default: break;
    }
}

static bool collect(Ast *n, void *st)
{
    Vars *p = st;

    switch (n->kind) {
    case AST_FunctionDef: add_place(p, AST_AS(n, FunctionDef)->bound, NULL); return true;
    case AST_ClassDef: add_place(p, AST_AS(n, ClassDef)->bound, NULL); return true;
    case AST_Lambda: case AST_ListComp: case AST_SetComp: case AST_DictComp: case AST_GenExp: return true;
    case AST_Assign:
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            add_target(p, AST_AS(n, Assign)->targets.at[i]);
        break;
    case AST_AugAssign: add_target(p, AST_AS(n, AugAssign)->target); break;
    case AST_AnnAssign:
        if (AST_AS(n, AnnAssign)->value)
            add_target(p, AST_AS(n, AnnAssign)->target);
        break;
    case AST_For: add_target(p, AST_AS(n, For)->target); break;
    case AST_WithItem:
        if (AST_AS(n, WithItem)->target)
            add_target(p, AST_AS(n, WithItem)->target);
        break;
    case AST_NamedExpr: add_target(p, AST_AS(n, NamedExpr)->target); break;
    case AST_Handler: add_place(p, AST_AS(n, Handler)->bound, NULL); break;
    case AST_Alias: add_place(p, AST_AS(n, Alias)->bound, NULL); break;
    case AST_PatCapture: add_place(p, AST_AS(n, PatCapture)->bound, NULL); break;
    case AST_PatAs: add_place(p, AST_AS(n, PatAs)->bound, NULL); break;
    default: break;
    }
    return ast_walk(n, collect, st);
}

void places_of(AstSeq body, Vars *out)
{
    for (int i = 0; i < body.n; i++)
        collect(body.at[i], out);
}

typedef struct { int loops; bool found[3]; } Leaves;

static bool look(Ast *n, void *st)
{
    Leaves *l = st;

    switch (n->kind) {
    case AST_FunctionDef: case AST_ClassDef: case AST_Lambda: case AST_GenExp: return true;
    case AST_Return: l->found[LEAVES_RETURN] = true; return true;
    case AST_Break: l->found[LEAVES_BREAK] |= !l->loops; return true;
    case AST_Continue: l->found[LEAVES_CONTINUE] |= !l->loops; return true;
    case AST_For: case AST_While:
        l->loops++;
        ast_walk(n, look, st);
        l->loops--;
        return true;
    default: return ast_walk(n, look, st);
    }
}

bool block_leaves(AstSeq body, LeaveKind how)
{
    Leaves l = {0};

    for (int i = 0; i < body.n; i++)
        look(body.at[i], &l);
    return l.found[how];
}

/* ------------------------------------------------------------- reading and writing */

static Value *name_at(const Var *p, Frame *f)
{
    switch (p->bind) {
    case BIND_LOCAL: return &f->slot[p->slot];
    case BIND_CELL: return &((CellObj *)f->slot[p->slot].o)->v;
    case BIND_FREE: return &f->closure[p->slot]->v;
    default: return &f->module->slot[p->slot];
    }
}

Value place_get(const Var *p, Frame *f)
{
    Value v = *name_at(p, f);

    if (!p->attr)
        return value_ref(v);
    if (v.tag != V_INSTANCE)
        return VERR;
    return value_ref(dict_get_sym(((InstanceObj *)v.o)->attrs, p->attr));
}

/* Steals v; V_ERR unsets the place. */
void place_set(const Var *p, Frame *f, Value v)
{
    Value *at = name_at(p, f), old = *at;
    InstanceObj *o = (InstanceObj *)old.o;

    if (!p->attr) {
        *at = v;
        value_unref(old);
        return;
    }
    if (old.tag == V_INSTANCE && o->attrs) {
        if (is_err(v))
            dict_del_sym(o->attrs, p->attr);
        else
            dict_set_sym(o->attrs, p->attr, v);
    }
    value_unref(v);
}

/* Lists and dicts that an arm may store into are copied, so that the other arm does not see it. */
Value place_copy(Interp *I, Value v)
{
    if (v.tag == V_LIST)
        return value_to_list(I, v);
    if (v.tag == V_DICT)
        return dict_copy(I, as_dict(v));
    return value_ref(v);
}
