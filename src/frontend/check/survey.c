/*
 * What a unit's statements do anywhere in it: which variables and attributes
 * they change in place or store from outside, which classes others derive from.
 * One walk finds all of it before anything is typed.
 */
#include "frontend/check/checker.h"

#include "base/hash.h"
#include "base/words.h"
#include "frontend/check/collect.h"

#include <string.h>

typedef struct { Home *h; Check *C; Sym self, setattr, dict; int depth; } Survey;

enum { DEEPEST = 1000 };

/* ------------------------------------------------------------- changes in place */

/* The variable and the attributes that an expression goes through. */
static void mark(Home *h, const Ast *e)
{
    for (;;) {
        switch (e ? (int)e->kind : -1) {
        case AST_Name:
            map_set(&h->mutated, (uintptr_t)AST_AS(e, Name)->id, 1);
            return;
        case AST_Attribute:
            map_set(&h->mutated, (uintptr_t)AST_AS(e, Attribute)->attr, 1);
            e = AST_AS(e, Attribute)->value;
            if (e && e->kind == AST_Name)
                return;                             /* self.x.append: x changes, not self */
            break;
        case AST_Subscript:
            e = AST_AS(e, Subscript)->value;
            break;
        case AST_Call:                              /* d.setdefault(k, []).append: what a method gives is part of its object */
            e = AST_AS(e, Call)->func;
            if (e->kind == AST_Name && AST_AS(e, Name)->bind == BIND_PRELUDE)
                return;                             /* list(x).append: a fresh one */
            if (e->kind != AST_Attribute) {
                h->mutates_any = true;
                return;
            }
            e = AST_AS(e, Attribute)->value;
            break;
        default:
            return;
        }
    }
}

static bool is_mutator(Sym method)
{
    static const char *const names[] = {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse", "update",
                                        "setdefault", "add", "discard", "appendleft", "popleft", "extendleft", "rotate",
                                        "difference_update", "intersection_update", "symmetric_difference_update",
                                        "__setitem__", "__delitem__", "move_to_end", "subtract"};
    static Word slot[64];
    static Words words = {slot, 64, 0};

    return method && words_has(&words, names, sizeof names / sizeof *names, method);
}

static void mark_target(Home *h, Ast *t, bool augmented)
{
    AstSeq e = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : t->kind == AST_List ? AST_AS(t, List)->elts : (AstSeq){0};

    for (int i = 0; i < e.n; i++)
        mark_target(h, e.at[i], augmented);
    if (t->kind == AST_Subscript)
        mark(h, AST_AS(t, Subscript)->value);
    else if (augmented && (t->kind == AST_Name || t->kind == AST_Attribute))
        mark(h, t);
}

bool is_mutated(const Home *h, Sym name)
{
    return h->mutates_any || map_find(&h->mutated, (uintptr_t)name, NULL);
}

/* ------------------------------------------------------------- stores */

static void note_attr(Check *C, Sym attr, uintptr_t how)
{
    uintptr_t was = 0;

    map_find(&C->stored_attrs, (uintptr_t)attr, &was);
    map_set(&C->stored_attrs, (uintptr_t)attr, was | how);
}

/* The attributes that a class's statements store. */
static bool note_targets(Ast *n, void *state)
{
    Check *C = state;

    if (!n || C->depth > DEEPEST)
        return true;
    C->depth++;
    if (n->kind == AST_Assign)
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++) {
            Ast *t = AST_AS(n, Assign)->targets.at[i];
            AstSeq elts = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : (AstSeq){&t, 1};
            for (int k = 0; k < elts.n; k++)
                if (elts.at[k]->kind == AST_Attribute)
                    note_attr(C, AST_AS(elts.at[k], Attribute)->attr, ATTR_DERIVED);
        }
    if (n->kind == AST_AnnAssign && AST_IS(AST_AS(n, AnnAssign)->target, Attribute))
        note_attr(C, AST_AS(AST_AS(n, AnnAssign)->target, Attribute)->attr, ATTR_DERIVED);
    ast_walk(n, note_targets, C);
    C->depth--;
    return true;
}

static void note_bound(void *state, CollectEvent e, Sym name, Ast *node)
{
    Check *C = state;

    if (e == COLLECT_BIND)
        note_attr(C, name, ATTR_DERIVED);
}

/* What a derived class adds, its base's methods may find in self. */
static void note_derived(Check *C, AstClassDef *def)
{
    for (int i = 0; i < def->bases.n; i++)
        if (AST_IS(def->bases.at[i], Arg) && AST_IS(AST_AS(def->bases.at[i], Arg)->value, Name) &&
            AST_AS(AST_AS(def->bases.at[i], Arg)->value, Name)->bind != BIND_PRELUDE) {
            map_set(&C->subclassed, (uintptr_t)AST_AS(AST_AS(def->bases.at[i], Arg)->value, Name)->id, 1);
            collect_block(def->body, note_bound, C);
            note_targets((Ast *)def, C);
        }
}

/* m.training = mode: not only the object's own methods store it. */
static void note_store(const Survey *v, const Ast *target)
{
    const Ast *object;

    if (target->kind != AST_Attribute)
        return;
    object = AST_AS(target, Attribute)->value;
    if (!(AST_IS(object, Name) && AST_AS(object, Name)->id == v->self))
        note_attr(v->C, AST_AS(target, Attribute)->attr, ATTR_STORED);
}

/* ------------------------------------------------------------- the walk */

static void note_targets_of(const Survey *v, AstSeq targets, bool stores)
{
    for (int i = 0; i < targets.n; i++) {
        mark_target(v->h, targets.at[i], false);
        if (stores)
            note_store(v, targets.at[i]);
    }
}

static bool visit(Ast *n, void *state);

static void visit_each(Survey *v, AstSeq s)
{
    v->depth++;
    for (int i = 0; i < s.n; i++)
        visit(s.at[i], v);
    v->depth--;
}

static bool visit(Ast *n, void *state)
{
    Survey *v = state;
    AstCall *c;

    if (!n || v->depth > DEEPEST)
        return true;
    switch (n->kind) {
    case AST_Name:
        v->C->setattr_used |= !v->h->library && (AST_AS(n, Name)->id == v->setattr || AST_AS(n, Name)->id == v->dict);
        return true;
    case AST_Int: case AST_Float: case AST_Str: case AST_Const:
        return true;
    case AST_Param:                                 /* annotations change nothing */
        return visit(AST_AS(n, Param)->dflt, v);
    case AST_AnnAssign:
        visit(AST_AS(n, AnnAssign)->target, v);
        return visit(AST_AS(n, AnnAssign)->value, v);
    case AST_FunctionDef:
        visit_each(v, AST_AS(n, FunctionDef)->decorators);
        visit_each(v, AST_AS(n, FunctionDef)->params);
        visit_each(v, AST_AS(n, FunctionDef)->body);
        return true;
    case AST_Assign: note_targets_of(v, AST_AS(n, Assign)->targets, true); break;
    case AST_Del: note_targets_of(v, AST_AS(n, Del)->targets, v->h->library); break;
    case AST_AugAssign: mark_target(v->h, AST_AS(n, AugAssign)->target, true); break;
    case AST_For: mark_target(v->h, AST_AS(n, For)->target, false); break;
    case AST_ClassDef:
        if (!v->h->library)
            note_derived(v->C, AST_AS(n, ClassDef));
        break;
    case AST_Call:
        c = AST_AS(n, Call);
        if (AST_IS(c->func, Attribute) && is_mutator(AST_AS(c->func, Attribute)->attr))
            mark(v->h, AST_AS(c->func, Attribute)->value);
        break;
    default: break;
    }
    v->depth++;
    ast_walk(n, visit, v);
    v->depth--;
    return true;
}

void survey(Check *C, Home *h, Unit *u)
{
    Survey v = {h, C, sym("self"), sym("setattr"), sym("__dict__"), 0};

    visit((Ast *)u->module, &v);
}

/* Maps have no order, so a sum. */
static uint64_t keys_of(const Map *m, uint64_t which)
{
    uint64_t sum = which * m->n;

    for (uint32_t i = 0; i < m->cap; i++)
        if (m->key[i])
            sum += hash_u64(m->key[i] ^ which ^ m->val[i] << 3) * (which * 2 + 1);
    return sum;
}

uint64_t survey_facts(const Check *C, const Home *h)
{
    return keys_of(&h->mutated, 1) + keys_of(&C->stored_attrs, 2) + keys_of(&C->subclassed, 3) + h->mutates_any * 5u +
           C->setattr_used * 7u + C->names_wrong * 11u;
}
