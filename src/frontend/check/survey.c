/*
 * What a unit's statements do anywhere in it: which variables and attributes
 * they change in place or store from outside, which classes others derive from.
 * One walk finds all of it before anything is typed.
 */
#include "frontend/check/checker.h"

#include "base/hash.h"
#include "base/words.h"
#include "frontend/check/collect.h"
#include "frontend/check/handed.h"
#include "frontend/check/spaces.h"

#include <string.h>

typedef struct {
    Home *h;
    Check *C;
    Sym self, setattr, hasattr, dict, parameter;
    int functions, later;       /* functions around; those that are no __init__ */
    int depth, inside, caught;  /* inside: of how many functions, for mark_hidden; caught: of how many statements that catch what is raised */
    bool own, parts;            /* own: written by the user; parts: x[i][k] = v, what x holds is changed */
    Map shared;                 /* Sym -> 1: variables and attributes that may hold what has another name too */
    Map defs;                   /* Sym -> 1: the functions that are defined here; 2: with *args or **kwargs, or made into another */
    Handed handed;
    const Ast *callee;          /* of the call that was met last: a name there is not handed on */
} Survey;

enum { DEEPEST = 1000 };

/* ------------------------------------------------------------- changes in place */

static void note_mutated(Home *h, Sym name, uintptr_t how)
{
    uintptr_t was = 0;

    map_find(&h->mutated, (uintptr_t)name, &was);
    map_set(&h->mutated, (uintptr_t)name, was | how);
}

/* The variable and the attributes that an expression goes through. */
static void mark(const Survey *v, const Ast *e)
{
    Home *h = v->h;
    const Ast *of = AST_IS(e, Attribute) ? AST_AS(e, Attribute)->value : NULL;
    bool own = AST_IS(of, Name) && AST_AS(of, Name)->id == v->self && !v->later;        /* self.x.append(...) in __init__ */
    uintptr_t where = (v->functions ? MUTATED_INSIDE : 0) | (own ? 0 : MUTATED_LATER), how = MUTATED_ITSELF;

    for (;;) {
        switch (e ? (int)e->kind : -1) {
        case AST_Name:
            note_mutated(h, AST_AS(e, Name)->id, how | where);
            return;
        case AST_Attribute:
            note_mutated(h, AST_AS(e, Attribute)->attr, how | where);
            e = AST_AS(e, Attribute)->value;
            if (e && e->kind == AST_Name)
                return;                             /* self.x.append: x changes, not self */
            break;
        case AST_Subscript:                         /* x[k].append: an element changes */
            e = AST_AS(e, Subscript)->value;
            how = MUTATED_PARTS;
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
            how = MUTATED_ITSELF;
            break;
        default:
            return;
        }
    }
}

bool is_mutator(Sym method)
{
    static const char *const names[] = {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse", "update",
                                        "setdefault", "add", "discard", "appendleft", "popleft", "extendleft", "rotate",
                                        "difference_update", "intersection_update", "symmetric_difference_update",
                                        "__setitem__", "__delitem__", "move_to_end", "subtract"};
    static Word slot[64];
    static Words words = {slot, 64, 0};

    return method && words_has(&words, names, sizeof names / sizeof *names, method);
}

static void mark_target(const Survey *v, Ast *t, bool augmented)
{
    AstSeq e = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : t->kind == AST_List ? AST_AS(t, List)->elts : (AstSeq){0};

    for (int i = 0; i < e.n; i++)
        mark_target(v, e.at[i], augmented);
    if (t->kind == AST_Subscript)
        mark(v, AST_AS(t, Subscript)->value);
    else if (augmented && (t->kind == AST_Name || t->kind == AST_Attribute))
        mark(v, t);
}

bool has_mutated_parts(const Home *h, Sym name)
{
    uintptr_t how = 0;

    return !h->mutates_any && map_find(&h->mutated, (uintptr_t)name, &how) && (how & (MUTATED_ITSELF | MUTATED_PARTS)) == MUTATED_PARTS;
}

bool is_mutated_so(const Home *h, Sym name, int how)
{
    uintptr_t is = 0;

    return h->mutates_any || (map_find(&h->mutated, (uintptr_t)name, &is) && is & (uintptr_t)how);
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

void survey_stored(Check *C, Sym attr) { note_attr(C, attr, ATTR_HIDDEN); }

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

/* ------------------------------------------------------------- other names for the same */

/* Does it make a value that nothing else holds? */
static bool is_fresh(const Ast *e)
{
    switch (e ? (int)e->kind : -1) {
    case AST_Name: case AST_Attribute: case AST_Subscript: case AST_IfExp: case AST_BoolOp: case AST_NamedExpr:
        return false;
    case AST_Call:
        return AST_IS(AST_AS(e, Call)->func, Name) && AST_AS(AST_AS(e, Call)->func, Name)->bind == BIND_PRELUDE;
    default:
        return true;
    }
}

static void share(Survey *v, const Ast *target)
{
    AstSeq e = AST_IS(target, Tuple) ? AST_AS(target, Tuple)->elts : (AstSeq){0};

    for (int i = 0; i < e.n; i++)
        share(v, e.at[i]);
    if (AST_IS(target, Name))
        map_set(&v->shared, (uintptr_t)AST_AS(target, Name)->id, 1);
    else if (AST_IS(target, Attribute))
        map_set(&v->shared, (uintptr_t)AST_AS(target, Attribute)->attr, 1);
    else if (AST_IS(target, Subscript))
        v->parts |= AST_IS(AST_AS(target, Subscript)->value, Subscript);
}

/* What may hold a container under a second name. */
static void share_assigned(Survey *v, const AstAssign *a)
{
    for (int i = 0; i < a->targets.n; i++) {
        const Ast *t = a->targets.at[i];
        if (!AST_IS(t, Tuple) && is_fresh(a->value))
            v->parts |= AST_IS(t, Subscript) && AST_IS(AST_AS(t, Subscript)->value, Subscript);
        else
            share(v, t);
    }
}

static void note_function(Survey *v, const AstFunctionDef *def)
{
    uintptr_t how = 1;

    for (int i = 0; i < def->decorators.n; i++)
        if (!decorator_is_transparent(decorator_name(def->decorators.at[i])))
            how = 2;
    for (int i = 0; i < def->params.n; i++)
        if (AST_IS(def->params.at[i], Param) && (AST_AS(def->params.at[i], Param)->kind == PARAM_VARARGS ||
                                                 AST_AS(def->params.at[i], Param)->kind == PARAM_KWARGS))
            how = 2;
    if (def->name)
        map_set(&v->defs, (uintptr_t)def->name, how);
}

/* Is a container changed through what may be another name of it? */
static bool changes_shared(const Survey *v)
{
    for (uint32_t i = 0; i < v->shared.cap; i++)
        if (v->shared.key[i] && map_find(&v->h->mutated, v->shared.key[i], NULL))
            return true;
    return v->parts;
}

static uintptr_t def_of(const Survey *v, const Ast *e)
{
    uintptr_t how = 0;

    if (AST_IS(e, Name))
        map_find(&v->defs, (uintptr_t)AST_AS(e, Name)->id, &how);
    return AST_IS(e, Lambda) ? 1 : how;
}

static const Ast *argument_value(const Ast *a) { return AST_IS(a, Arg) ? AST_AS(a, Arg)->value : a; }

/*
 * Are the arguments of a call out of sight from then on? Those that a function hands on, those beside a function that may be
 * called with them, and those that *args takes.  Of others the call itself says what becomes of them.
 */
static bool hides(const Survey *v, const AstCall *c)
{
    for (int i = 0; i < c->args.n; i++)
        if (def_of(v, argument_value(c->args.at[i])))
            return true;
    if (AST_IS(c->func, Name) && AST_AS(c->func, Name)->bind == BIND_PRELUDE)
        return false;
    return v->inside || def_of(v, c->func) == 2;
}

static void mark_each(Survey *v, AstSeq s)
{
    for (int i = 0; i < s.n; i++) {
        const Ast *e = AST_IS(s.at[i], DictItem) ? AST_AS(s.at[i], DictItem)->value : argument_value(s.at[i]);
        if (AST_IS(e, Name))
            mark(v, e);
    }
}

/* Variables whose containers get other names, in a unit that changes some through such. */
static bool mark_hidden(Ast *n, void *state)
{
    Survey *v = state;
    bool function = n && (n->kind == AST_FunctionDef || n->kind == AST_Lambda);

    if (!n || v->depth > DEEPEST)
        return true;
    switch (n->kind) {
    case AST_Call:
        if (hides(v, AST_AS(n, Call)))
            mark_each(v, AST_AS(n, Call)->args);
        break;
    case AST_Tuple: mark_each(v, AST_AS(n, Tuple)->elts); break;
    case AST_List: mark_each(v, AST_AS(n, List)->elts); break;
    case AST_Dict: mark_each(v, AST_AS(n, Dict)->items); break;
    case AST_Assign:                                /* cc = same(conf) */
        if (AST_IS(AST_AS(n, Assign)->value, Call) && !is_fresh(AST_AS(n, Assign)->value))
            for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++) {
                const Ast *t = AST_AS(n, Assign)->targets.at[i];
                if (AST_IS(t, Name) && map_find(&v->h->mutated, (uintptr_t)AST_AS(t, Name)->id, NULL))
                    mark_each(v, AST_AS(AST_AS(n, Assign)->value, Call)->args);
            }
        break;
    default: break;
    }
    v->depth++;
    v->inside += function;
    ast_walk(n, mark_hidden, v);
    v->inside -= function;
    v->depth--;
    return true;
}

/* ------------------------------------------------------------- the walk */

static bool visit(Ast *n, void *state);

static void visit_each(Survey *v, AstSeq s)
{
    v->depth++;
    for (int i = 0; i < s.n; i++)
        visit(s.at[i], v);
    v->depth--;
}

static void visit_assign(Survey *v, const AstAssign *a)
{
    for (int i = 0; i < a->targets.n; i++) {
        mark_target(v, a->targets.at[i], false);
        note_store(v, a->targets.at[i]);
        if (v->own)
            handed_stored(&v->handed, a->targets.at[i]);
    }
    if (v->own)
        share_assigned(v, a);
}

static void visit_del(Survey *v, const AstDel *d)
{
    for (int i = 0; i < d->targets.n; i++) {
        mark_target(v, d->targets.at[i], false);
        if (v->h->library)
            note_store(v, d->targets.at[i]);
    }
}

static void visit_function(Survey *v, const AstFunctionDef *def)
{
    visit_each(v, def->decorators);
    visit_each(v, def->params);
    if (v->own) {
        note_function(v, def);
        handed_enter(&v->handed, &def->ast);
    }
    v->functions++;
    v->later += !def->name || strcmp(def->name->text, "__init__");
    visit_each(v, def->body);
    v->later -= !def->name || strcmp(def->name->text, "__init__");
    v->functions--;
    if (v->own)
        handed_leave(&v->handed);
}

static void visit_name(Survey *v, const AstName *n)
{
    bool ours = n->bind != BIND_PRELUDE && n->bind != BIND_DIM;

    v->C->parameters |= !v->h->library && n->id == v->parameter;
    if (!v->h->library) {
        v->C->setattr_used |= n->id == v->setattr || n->id == v->dict;
        v->C->hasattr_used |= n->id == v->hasattr;
    }
    if (v->own && ours && &n->ast == v->callee)
        handed_called(&v->handed, n->id);
    else if (v->own && ours)
        handed_named(&v->handed, n->id);
}

static void visit_attribute(Survey *v, const AstAttribute *a)
{
    v->C->parameters |= !v->h->library && a->attr == v->parameter;
    if (is_mutator(a->attr))                        /* xs.append, called at once or handed on */
        mark(v, a->value);
    if (v->own && &a->ast == v->callee)
        handed_called(&v->handed, a->attr);
    else if (v->own)
        handed_named(&v->handed, a->attr);
}

/* Is what is called a value, which may be any function? */
static bool calls_value(const Survey *v, const Ast *callee)
{
    const AstName *n = AST_IS(callee, Name) ? AST_AS(callee, Name) : NULL;
    const Local *l;

    if (!n)
        return callee && (callee->kind == AST_Subscript || callee->kind == AST_Call);
    if (n->bind != BIND_GLOBAL)
        return n->bind != BIND_PRELUDE;
    l = scope_local(v->h->scope, n->id);
    return !l || l->nbinds != 1 || !l->node || (l->node->kind != AST_FunctionDef && l->node->kind != AST_ClassDef &&
                                                l->node->kind != AST_Import && l->node->kind != AST_ImportFrom);
}

/* Is what the statement's body raises caught? */
static bool catches(const Ast *n)
{
    bool found = n->kind == AST_Try && AST_AS(n, Try)->handlers.n;

    for (int i = 0; n->kind == AST_With && i < AST_AS(n, With)->items.n; i++)
        found |= flow_swallows(AST_AS(AST_AS(n, With)->items.at[i], WithItem)->context);
    return found;
}

static void visit_class(Survey *v, AstClassDef *def)
{
    v->handed.classes = true;
    if (!v->h->library)
        note_derived(v->C, def);
}

/* Children of these are looked at by the rules above, or change nothing. */
static bool visit_apart(Survey *v, Ast *n)
{
    switch (n->kind) {
    case AST_Int: case AST_Float: case AST_Str: case AST_Const:
        return true;
    case AST_Name:
        visit_name(v, AST_AS(n, Name));
        return true;
    case AST_Param:                                 /* annotations change nothing */
        if (v->own && AST_AS(n, Param)->name)
            map_set(&v->shared, (uintptr_t)AST_AS(n, Param)->name, 1);
        visit(AST_AS(n, Param)->dflt, v);
        return true;
    case AST_AnnAssign:
        if (v->own)
            handed_stored(&v->handed, AST_AS(n, AnnAssign)->target);
        visit(AST_AS(n, AnnAssign)->target, v);
        visit(AST_AS(n, AnnAssign)->value, v);
        return true;
    case AST_FunctionDef:
        visit_function(v, AST_AS(n, FunctionDef));
        return true;
    default:
        return false;
    }
}

/* by: 1, and -1 to leave it */
static void enter_lambda(Survey *v, Ast *n, int by)
{
    v->functions += by;
    v->later += by;
    if (v->own && by > 0)
        handed_enter(&v->handed, n);
    else if (v->own)
        handed_leave(&v->handed);
}

static bool visit(Ast *n, void *state)
{
    Survey *v = state;
    bool lambda = n && n->kind == AST_Lambda, caught = false;

    if (!n || v->depth > DEEPEST || visit_apart(v, n))
        return true;
    switch (n->kind) {
    case AST_Assign: visit_assign(v, AST_AS(n, Assign)); break;
    case AST_Del: visit_del(v, AST_AS(n, Del)); break;
    case AST_AugAssign:
        mark_target(v, AST_AS(n, AugAssign)->target, true);
        if (v->own)
            handed_stored(&v->handed, AST_AS(n, AugAssign)->target);
        break;
    case AST_For:
        mark_target(v, AST_AS(n, For)->target, false);
        if (v->own)
            share(v, AST_AS(n, For)->target);
        break;
    case AST_ClassDef: visit_class(v, AST_AS(n, ClassDef)); break;
    case AST_Attribute: visit_attribute(v, AST_AS(n, Attribute)); break;
    case AST_Call:
        v->callee = AST_AS(n, Call)->func;
        v->C->catches |= v->own && v->caught && calls_value(v, v->callee);
        break;
    case AST_Try: case AST_With: caught = catches(n); break;
    default: break;
    }
    v->caught += caught;
    if (lambda)
        enter_lambda(v, n, 1);
    v->depth++;
    ast_walk(n, visit, v);
    v->depth--;
    v->caught -= caught;
    if (lambda)
        enter_lambda(v, n, -1);
    return true;
}

void survey(Check *C, Home *h, Unit *u)
{
    Survey v = {.h = h, .C = C, .self = sym("self"), .setattr = sym("setattr"), .hasattr = sym("hasattr"), .dict = sym("__dict__"),
                .parameter = sym("Parameter"),
                .own = !h->library || (h->space && h->space->path)};

    visit((Ast *)u->module, &v);
    if (changes_shared(&v))
        mark_hidden((Ast *)u->module, &v);
    handed_end(&v.handed, C);
    map_done(&v.shared);
    map_done(&v.defs);
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
           C->setattr_used * 7u + C->hasattr_used * 19u + C->parameters * 13u + C->names_wrong * 11u + C->catches * 17u;
}
