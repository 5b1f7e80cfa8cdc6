/*
 * What is given to variables, attributes and results: one walk over each unit
 * notes the expressions, for things.c to say what they may be.
 */
#include "frontend/check/effects.h"

#include "frontend/check/collect.h"
#include "frontend/check/spaces.h"

#include <string.h>

enum { READ_DEPTH = 1000 };

/* ------------------------------------------------------------- variables */

static Local *local_in(const Scope *s, const AstName *n, bool by_slot)
{
    Local *l = scope_local(s, n->id);

    return l && by_slot && l->slot != n->slot ? NULL : l;       /* else a comprehension's own variable */
}

static Scope *module_of(Scope *s)
{
    while (s->parent)
        s = s->parent;
    return s;
}

Local *things_local(Effects *E, Scope *scope, const AstName *n, Scope **owner)
{
    Scope *s = scope, *at = NULL;
    Local *l = NULL;

    switch (n->bind) {
    case BIND_LOCAL:
    case BIND_CELL:
        l = local_in(at = s, n, true);
        break;
    case BIND_FREE:
        for (at = s->parent; at && !l; at = at->parent)
            if (at->kind != SCOPE_CLASS && (l = local_in(at, n, false)))
                break;
        break;
    case BIND_GLOBAL:
        things_need(E, at = module_of(s), n->id);
        l = local_in(at, n, true);
        break;
    case BIND_CLASS:
        l = local_in(at = s, n, false);
        break;
    default:
        break;
    }
    if (owner)
        *owner = at;
    return l;
}

Given *things_given(const Effects *E, const Local *l)
{
    return l ? map_get_ptr(&E->given, l) : NULL;
}

AstParam *things_param(const EffFn *f, int slot)
{
    for (int i = 0; i < f->params.n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->name && p->kind <= PARAM_KWARGS && (int)p->slot == slot)
            return p;
    }
    return NULL;
}

/* ------------------------------------------------------------- reading a unit */

typedef struct Reader {
    Effects *E;
    Scope *scope;
    EffFn *fn;
    EffCls *cls;
    const char *owner;
    bool own, holding;          /* holding: what is given goes into a container */
    int depth;
} Reader;

static Given *given_new(Reader *r, Ast *value, Given *next)
{
    Given *g = arena_new(&r->E->arena, Given);

    *g = (Given){value, r->scope, r->holding, next};
    return g;
}

static void give_local(Reader *r, const Local *l, Ast *value)
{
    if (l)
        map_set_ptr(&r->E->given, l, given_new(r, value, things_given(r->E, l)));
}

static void give_attr(Reader *r, EffCls *c, Sym name, Ast *value)
{
    map_set_ptr(&c->attrs, name, given_new(r, value, map_get_ptr(&c->attrs, name)));
}

/* The class whose method stores through this name: self.x = ... */
static EffCls *self_class(Reader *r, const Ast *e)
{
    const AstName *n = AST_AS(e, Name);
    Local *l = AST_IS(e, Name) ? things_local(r->E, r->scope, n, NULL) : NULL;

    return l && l->is_param && l->slot == 0 && r->fn && !r->fn->is_static ? r->fn->cls : NULL;
}

static void give(Reader *r, Ast *target, Ast *value);

/* The container that `target` names has `value` in it. */
static void hold(Reader *r, Ast *target, Ast *value)
{
    bool was = r->holding;

    r->holding = true;
    give(r, target, value);
    r->holding = was;
}

static void give(Reader *r, Ast *target, Ast *value)
{
    AstSeq to, from = {0};
    Ast *base = target;

    switch (target->kind) {
    case AST_Name:
        give_local(r, things_local(r->E, r->scope, AST_AS(target, Name), NULL), value);
        break;
    case AST_Starred:
        give(r, AST_AS(target, Starred)->value, value);
        break;
    case AST_Tuple:
    case AST_List:
        to = target->kind == AST_Tuple ? AST_AS(target, Tuple)->elts : AST_AS(target, List)->elts;
        if (AST_IS(value, Tuple) && AST_AS(value, Tuple)->elts.n == to.n)
            from = AST_AS(value, Tuple)->elts;
        for (int i = 0; i < to.n && r->depth < READ_DEPTH; i++) {
            r->depth++;
            give(r, to.at[i], from.n ? from.at[i] : value);
            r->depth--;
        }
        break;
    case AST_Attribute: {
        EffCls *c = self_class(r, AST_AS(target, Attribute)->value);
        if (c)
            give_attr(r, c, AST_AS(target, Attribute)->attr, value);
        break;
    }
    case AST_Subscript:
        while (base->kind == AST_Subscript)
            base = AST_AS(base, Subscript)->value;
        if (base->kind == AST_Name || base->kind == AST_Attribute)
            hold(r, base, value);
        break;
    default:
        break;
    }
}

/* fs.append(f): the container holds f. */
static void give_call(Reader *r, AstCall *c)
{
    static const char *const adders[] = {"append", "insert", "add", "extend", "setdefault", "appendleft"};
    AstAttribute *a = AST_AS(c->func, Attribute);

    if (!AST_IS(c->func, Attribute) || !c->args.n)
        return;
    for (size_t i = 0; i < sizeof adders / sizeof *adders; i++)
        if (!strcmp(adders[i], a->attr->text) && AST_IS(c->args.at[c->args.n - 1], Arg) &&
            (a->value->kind == AST_Name || a->value->kind == AST_Attribute))
            hold(r, a->value, AST_AS(c->args.at[c->args.n - 1], Arg)->value);
}

static EffFn *read_fn(Reader *r, Ast *node)
{
    EffFn *f = arena_new(&r->E->arena, EffFn);
    bool lambda = node->kind == AST_Lambda;

    f->node = node;
    f->scope = lambda ? AST_AS(node, Lambda)->scope : AST_AS(node, FunctionDef)->scope;
    f->params = lambda ? AST_AS(node, Lambda)->params : AST_AS(node, FunctionDef)->params;
    f->name = lambda ? NULL : AST_AS(node, FunctionDef)->name;
    f->cls = lambda ? NULL : r->cls;
    f->owner = r->cls && r->owner ? r->cls->def->name->text : r->owner;
    f->own = r->own;
    map_set_ptr(&r->E->fn_of, node, f);
    vec_push(&r->E->all, f);
    if (r->own)
        vec_push(&r->E->own, f);
    return f;
}

static bool read_node(Ast *n, void *state);

static void read_each(Reader *r, AstSeq s)
{
    for (int i = 0; i < s.n; i++)
        read_node(s.at[i], r);
}

static void read_body(Reader *r, AstSeq body, Scope *scope, EffFn *fn, EffCls *cls)
{
    Reader inner = {r->E, scope, fn, cls, r->owner, r->own, false, r->depth + 1};

    if (inner.depth < READ_DEPTH && scope)
        read_each(&inner, body);
}

static bool is_decorated(const AstFunctionDef *def, const char *name)
{
    for (int i = 0; i < def->decorators.n; i++)
        if (AST_IS(def->decorators.at[i], Name) && !strcmp(AST_AS(def->decorators.at[i], Name)->id->text, name))
            return true;
    return false;
}

static void read_def(Reader *r, AstFunctionDef *def)
{
    EffFn *f = read_fn(r, (Ast *)def);

    if (def->bound)
        give_local(r, things_local(r->E, r->scope, def->bound, NULL), (Ast *)def);
    f->is_static = is_decorated(def, "staticmethod");
    f->is_property = is_decorated(def, "property");
    if (r->cls && def->name)
        map_set_ptr(&r->cls->methods, def->name, f);
    read_each(r, def->decorators);
    read_each(r, def->params);
    read_body(r, def->body, f->scope, f, NULL);
}

static void read_class(Reader *r, AstClassDef *def)
{
    EffCls *c = arena_new(&r->E->arena, EffCls);

    c->def = def;
    c->scope = r->scope;
    c->owner = r->owner;
    map_set_ptr(&r->E->cls_of, def, c);
    vec_push(&r->E->classes, c);
    if (def->bound)
        give_local(r, things_local(r->E, r->scope, def->bound, NULL), (Ast *)def);
    read_each(r, def->decorators);
    read_each(r, def->bases);
    read_body(r, def->body, def->scope, r->fn, c);
}

static void read_assign(Reader *r, AstSeq targets, Ast *value)
{
    for (int i = 0; value && i < targets.n; i++) {
        if (r->cls && AST_IS(targets.at[i], Name))
            give_attr(r, r->cls, AST_AS(targets.at[i], Name)->id, value);
        give(r, targets.at[i], value);
    }
}

static bool read_node(Ast *n, void *state)
{
    Reader *r = state;

    if (!n || r->depth > READ_DEPTH)
        return true;
    switch (n->kind) {
    case AST_FunctionDef:
        read_def(r, AST_AS(n, FunctionDef));
        return true;
    case AST_Lambda: {
        EffFn *f = read_fn(r, n);
        f->returns = given_new(&(Reader){.E = r->E, .scope = f->scope}, AST_AS(n, Lambda)->body, NULL);
        read_each(r, f->params);
        read_body(r, (AstSeq){&AST_AS(n, Lambda)->body, 1}, f->scope, f, NULL);
        return true;
    }
    case AST_ClassDef:
        read_class(r, AST_AS(n, ClassDef));
        return true;
    case AST_GenExp:
        read_body(r, (AstSeq){&AST_AS(n, GenExp)->elt, 1}, AST_AS(n, GenExp)->scope, r->fn, NULL);
        read_body(r, AST_AS(n, GenExp)->clauses, AST_AS(n, GenExp)->scope, r->fn, NULL);
        return true;
    case AST_Assign:
        read_assign(r, AST_AS(n, Assign)->targets, AST_AS(n, Assign)->value);
        break;
    case AST_AnnAssign:
        read_assign(r, (AstSeq){&AST_AS(n, AnnAssign)->target, 1}, AST_AS(n, AnnAssign)->value);
        break;
    case AST_NamedExpr:
        give(r, AST_AS(n, NamedExpr)->target, AST_AS(n, NamedExpr)->value);
        break;
    case AST_For:
        give(r, AST_AS(n, For)->target, AST_AS(n, For)->iter);
        break;
    case AST_WithItem:
        if (AST_AS(n, WithItem)->target)
            give(r, AST_AS(n, WithItem)->target, AST_AS(n, WithItem)->context);
        break;
    case AST_Return:
        if (r->fn && AST_AS(n, Return)->value)
            r->fn->returns = given_new(r, AST_AS(n, Return)->value, r->fn->returns);
        break;
    case AST_Call:
        give_call(r, AST_AS(n, Call));
        break;
    default:
        break;
    }
    r->depth++;
    ast_walk(n, read_node, r);
    r->depth--;
    return true;
}

void things_read(Effects *E, Unit *u, const char *owner)
{
    Reader r = {.E = E, .scope = u->module->scope, .owner = owner, .own = u == E->u};

    if (!u->module->scope || map_get_ptr(&E->units, u))
        return;
    map_set(&E->units, (uintptr_t)u, 1);
    ast_walk((Ast *)u->module, read_node, &r);
}

static void read_piece(Effects *E, const Space *s, int i)
{
    Unit *u = space_piece(s, i);

    if (u)
        things_read(E, u, s->path ? NULL : s->name);
}

void things_read_space(Effects *E, const Space *s)
{
    const Scope *names = space_scope(s);

    if (!names || map_get_ptr(&E->spaces, names))
        return;
    map_set_ptr(&E->spaces, names, (void *)s);
    for (int i = 0; i < s->piece.n; i++)
        if (!s->piece.at[i].name)
            read_piece(E, s, i);
}

void things_need(Effects *E, const Scope *module, Sym name)
{
    const Space *s = map_get_ptr(&E->spaces, module);
    int i = s ? space_piece_of(s, name) : -1;

    if (i >= 0)
        read_piece(E, s, i);
}
