/*
 * Which functions, classes and modules an expression may be.
 *
 * Every variable and attribute has the list of all values that some statement
 * gives it; the order of statements is not looked at.  A container is what it
 * holds: the things of [f, g] are f and g, and those of d["k"] are d's.  What
 * is not found is simply missing: a call of it counts as without effect.
 */
#include "frontend/check/effects.h"

#include "frontend/check/collect.h"
#include "frontend/eval/native.h"
#include "frontend/check/type.h"
#include "frontend/prelude.h"

#include <string.h>

enum { LOOK_DEPTH = 24, LOOK_FUEL = 300, READ_DEPTH = 1000 };

/* ------------------------------------------------------------- variables */

static Local *local_in(const Scope *s, const AstName *n, bool by_slot)
{
    uintptr_t i = 0;
    Local *l;

    if (!map_find(&s->slot_of, (uintptr_t)n->id, &i) || !i)
        return NULL;
    l = &s->locals.at[i - 1];
    return by_slot && l->slot != n->slot ? NULL : l;    /* else a comprehension's own variable */
}

static Scope *module_of(Scope *s)
{
    while (s->parent)
        s = s->parent;
    return s;
}

Local *things_local(Scope *scope, const AstName *n, Scope **owner)
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
        l = local_in(at = module_of(s), n, true);
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
    Local *l = AST_IS(e, Name) ? things_local(r->scope, n, NULL) : NULL;

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
        give_local(r, things_local(r->scope, AST_AS(target, Name), NULL), value);
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
        give_local(r, things_local(r->scope, def->bound, NULL), (Ast *)def);
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
        give_local(r, things_local(r->scope, def->bound, NULL), (Ast *)def);
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

/* ------------------------------------------------------------- looking */

typedef struct Kept { int n; Thing at[]; } Kept;    /* Things, no larger than they are */
typedef struct Look { Effects *E; Things *out; int depth, fuel; } Look;

static void look(Look *L, Scope *scope, Ast *e);

static void put(Look *L, Thing t)
{
    Things *o = L->out;

    for (int i = 0; i < o->n; i++)
        if (o->at[i].kind == t.kind && o->at[i].p == t.p && o->at[i].param == t.param)
            return;
    if (o->n < THINGS_MAX)
        o->at[o->n++] = t;
}

static void look_given(Look *L, const Given *g)
{
    for (; g && L->fuel > 0; g = g->next)
        look(L, g->scope, g->value);
}

/* What `e` may be, apart from what is being looked for. */
static Things aside(Look *L, Scope *scope, Ast *e)
{
    Things t = {.n = 0};
    Look inner = {L->E, &t, L->depth, L->fuel};

    look(&inner, scope, e);
    L->fuel = inner.fuel;
    return t;
}

/* A def is itself, and what the program's own decorators make of it. */
static void look_def(Look *L, Scope *scope, AstFunctionDef *def)
{
    EffFn *f = map_get_ptr(&L->E->fn_of, def);

    if (f)
        put(L, (Thing){.kind = THING_FN, .p = f});
    for (int i = 0; i < def->decorators.n; i++) {
        Things d = aside(L, scope, def->decorators.at[i]);
        for (int k = 0; k < d.n; k++)
            if (d.at[k].kind == THING_FN && !((const EffFn *)d.at[k].p)->owner)
                look_given(L, ((const EffFn *)d.at[k].p)->returns);
    }
}

static const Space *resolved(Effects *E, const Space *s)
{
    Unit *u = s ? space_resolved(s) : NULL;

    if (u)
        things_read(E, u, s->path ? NULL : s->name);
    return s;
}

/* A native name: a function, or a constant of some class (sys.stdout). */
static void put_native(Look *L, const NativeDef *d)
{
    if (d->sig && d->sig[0] != '(' && !strchr(d->sig, '[') && native_has_owner(d->sig))
        put(L, (Thing){.kind = THING_OBJECT, .p = d->sig});
    else
        put(L, (Thing){.kind = THING_NATIVE, .p = d});
}

/* The member `name` of a module. */
static void look_space(Look *L, const Space *s, Sym name)
{
    const Space *sub = space_member(s, name);
    const NativeDef *d;
    uintptr_t i = 0;
    int row;

    if (sub) {
        put(L, (Thing){.kind = THING_SPACE, .p = sub});
        return;
    }
    if (!strcmp(s->name, "tessera") || !strcmp(s->name, "ts")) {
        row = prelude_find(name);
        const PreludeRow *r = row >= 0 ? prelude_row(row) : NULL;
        if (r && r->kind == PRELUDE_NATIVE)
            put_native(L, r->native);
        else if (r && r->kind == PRELUDE_STDLIB)
            look_space(L, space_builtin(r->module), name);
        return;
    }
    d = s->path ? NULL : native_find(s->name, name->text);
    if (d) {
        put_native(L, d);
        return;
    }
    resolved(L->E, s);
    if (s->unit && s->unit->module->scope && map_find(&s->unit->module->scope->slot_of, (uintptr_t)name, &i) && i)
        look_given(L, things_given(L->E, &s->unit->module->scope->locals.at[i - 1]));
}

/* What an import statement binds to `name`. */
static void look_import(Look *L, Scope *scope, Ast *stmt, Sym name)
{
    const char *path = source_of(stmt->span.lo) ? source_of(stmt->span.lo)->path : "";
    bool from = stmt->kind == AST_ImportFrom;
    AstSeq names = from ? AST_AS(stmt, ImportFrom)->names : AST_AS(stmt, Import)->names;
    const Space *s;

    (void)scope;
    for (int i = 0; i < names.n; i++) {
        AstAlias *a = AST_AS(names.at[i], Alias);
        if (a->ast.kind != AST_Alias || alias_binds(a, from) != name)
            continue;
        if (!from) {
            s = a->asname || !strchr(a->name->text, '.') ? space_import(a->name->text, 0, path) : NULL;
            if (s)
                put(L, (Thing){.kind = THING_SPACE, .p = s});
        } else if (AST_AS(stmt, ImportFrom)->module) {
            s = space_import(AST_AS(stmt, ImportFrom)->module->text, (int)AST_AS(stmt, ImportFrom)->level, path);
            if (s)
                look_space(L, s, a->name);
        }
    }
}

/* Objects of the class that an annotation names. */
static void look_annotation(Look *L, Scope *scope, Ast *a)
{
    Things t;

    if (!a || (a->kind != AST_Name && a->kind != AST_Attribute && a->kind != AST_Str))
        return;
    t = aside(L, scope, a);
    if (AST_IS(a, Name) && AST_AS(a, Name)->bind == BIND_DIM && prelude_find(AST_AS(a, Name)->id) >= 0) {
        Look inner = {L->E, &t, L->depth, L->fuel};
        look_space(&inner, space_builtin("tessera"), AST_AS(a, Name)->id);
    }
    for (int i = 0; i < t.n; i++)
        if (t.at[i].kind == THING_CLASS)
            put(L, (Thing){.kind = THING_INSTANCE, .p = t.at[i].p});
}

/* A parameter: the object of a method, an instance of its annotation, its default, or whatever is passed. */
static void look_param(Look *L, const Scope *owner, const Local *l)
{
    EffFn *f = map_get_ptr(&L->E->fn_of, owner->node);
    AstParam *p = f ? things_param(f, (int)l->slot) : NULL;
    int before;

    if (!p)
        return;
    if (f->cls && !l->slot && !f->is_static) {
        put(L, (Thing){.kind = THING_INSTANCE, .p = f->cls});
        return;
    }
    before = L->out->n;
    look_annotation(L, f->scope->parent, p->annotation);
    if (L->out->n == before)
        put(L, (Thing){.kind = THING_PARAM, .p = f, .param = (int)l->slot});
}

static void look_name(Look *L, Scope *scope, AstName *n)
{
    Scope *owner = NULL;
    Local *l;

    if (n->bind == BIND_PRELUDE) {
        const PreludeRow *r = prelude_row((int)n->slot);
        if (r->kind == PRELUDE_SPACE)
            put(L, (Thing){.kind = THING_SPACE, .p = space_builtin(r->module)});
        else
            look_space(L, space_builtin("tessera"), r->name);
        return;
    }
    l = things_local(scope, n, &owner);
    if (!l)
        return;
    if (l->is_param)
        look_param(L, owner, l);
    if (l->node && (l->node->kind == AST_Import || l->node->kind == AST_ImportFrom))
        look_import(L, scope, l->node, l->name);
    look_given(L, things_given(L->E, l));
}

static EffCls *base_of(Look *L, const EffCls *c)
{
    for (int i = 0; i < c->def->bases.n; i++) {
        AstArg *a = AST_AS(c->def->bases.at[i], Arg);
        Things t = a->ast.kind == AST_Arg && !a->name && a->value ? aside(L, c->scope, a->value) : (Things){.n = 0};
        for (int k = 0; k < t.n; k++)
            if (t.at[k].kind == THING_CLASS && t.at[k].p != c)
                return (EffCls *)t.at[k].p;
    }
    return NULL;
}

static void look_member(Look *L, const EffCls *c, Sym name, bool bound)
{
    for (int up = 0; c && up < 16; up++, c = base_of(L, c)) {
        EffFn *m = map_get_ptr(&c->methods, name);
        const Given *g = map_get_ptr(&c->attrs, name);
        if (m && m->is_property)
            look_given(L, m->returns);
        else if (m)
            put(L, (Thing){.kind = THING_FN, .bound = bound && !m->is_static, .p = m});
        look_given(L, g);
        if (m || g)
            return;
    }
}

static const char *builtin_owner(const Type *t)
{
    switch (t ? t->kind : TY_ANY) {
    case TY_STR: return "str";
    case TY_LIST: return "list";
    case TY_DICT: return "dict";
    case TY_SET: return "set";
    case TY_TENSOR: return "Tensor";
    default: return NULL;
    }
}

static void look_attribute(Look *L, Scope *scope, AstAttribute *a)
{
    Things base = aside(L, scope, a->value);
    const char *owner = builtin_owner(type_found(a->value));
    const NativeDef *d;

    for (int i = 0; i < base.n; i++)
        switch (base.at[i].kind) {
        case THING_SPACE:
            look_space(L, base.at[i].p, a->attr);
            break;
        case THING_INSTANCE:
        case THING_CLASS:
            look_member(L, base.at[i].p, a->attr, base.at[i].kind == THING_INSTANCE);
            break;
        case THING_OBJECT:                          /* open(path) as f: f.write */
            d = native_find(base.at[i].p, a->attr->text);
            if (d)
                put(L, (Thing){.kind = THING_NATIVE, .p = d});
            break;
        default:
            break;
        }
    if (owner && (d = native_find(owner, a->attr->text)))
        put(L, (Thing){.kind = THING_NATIVE, .p = d});
}

/* open gives a TextIOWrapper, as its signature says; a class gives its objects. */
static void look_result(Look *L, const NativeDef *d)
{
    const NativeSig *sig = d->sig && d->sig[0] == '(' ? native_sig(d) : NULL;
    const Ast *r = sig ? sig->returns : NULL;

    if (d->sig && !strncmp(d->sig, "type[", 5))
        put(L, (Thing){.kind = THING_OBJECT, .p = d->name});
    if (AST_IS(r, Name) && native_has_owner(AST_AS(r, Name)->id->text))
        put(L, (Thing){.kind = THING_OBJECT, .p = AST_AS(r, Name)->id->text});
}

/* The result of a call: an object, what the function returns, or a function made of those passed. */
static void look_call(Look *L, Scope *scope, AstCall *c)
{
    Things f = aside(L, scope, c->func);

    for (int i = 0; i < f.n; i++) {
        const EffFn *fn = f.at[i].p;
        if (f.at[i].kind == THING_CLASS)
            put(L, (Thing){.kind = THING_INSTANCE, .p = f.at[i].p});
        else if (f.at[i].kind == THING_FN)
            look_given(L, fn->returns);
        else if (f.at[i].kind == THING_NATIVE)
            look_result(L, f.at[i].p);
    }
    for (int i = 0; i < c->args.n && L->fuel > 0; i++) {
        Things a = AST_IS(c->args.at[i], Arg) ? aside(L, scope, AST_AS(c->args.at[i], Arg)->value) : (Things){.n = 0};
        for (int k = 0; k < a.n; k++)
            if (a.at[k].kind == THING_FN || a.at[k].kind == THING_NATIVE || a.at[k].kind == THING_PARAM)
                put(L, a.at[k]);
    }
}

static void put_object(Look *L, const char *owner)
{
    put(L, (Thing){.kind = THING_OBJECT, .p = owner});
}

static void look_each(Look *L, Scope *scope, AstSeq s)
{
    for (int i = 0; i < s.n && L->fuel > 0; i++)
        look(L, scope, s.at[i]);
}

static void look(Look *L, Scope *scope, Ast *e)
{
    if (!e || !scope || L->depth >= LOOK_DEPTH || L->fuel-- <= 0)
        return;
    L->depth++;
    switch (e->kind) {
    case AST_Name: look_name(L, scope, AST_AS(e, Name)); break;
    case AST_Attribute: look_attribute(L, scope, AST_AS(e, Attribute)); break;
    case AST_Call: look_call(L, scope, AST_AS(e, Call)); break;
    case AST_Lambda:
        if (map_get_ptr(&L->E->fn_of, e))
            put(L, (Thing){.kind = THING_FN, .p = map_get_ptr(&L->E->fn_of, e)});
        break;
    case AST_FunctionDef: look_def(L, scope, AST_AS(e, FunctionDef)); break;
    case AST_ClassDef:
        if (map_get_ptr(&L->E->cls_of, e))
            put(L, (Thing){.kind = THING_CLASS, .p = map_get_ptr(&L->E->cls_of, e)});
        break;
    case AST_Subscript: look(L, scope, AST_AS(e, Subscript)->value); break;
    case AST_IfExp:
        look(L, scope, AST_AS(e, IfExp)->body);
        look(L, scope, AST_AS(e, IfExp)->orelse);
        break;
    case AST_BoolOp: look_each(L, scope, AST_AS(e, BoolOp)->values); break;
    case AST_List:
        look_each(L, scope, AST_AS(e, List)->elts);
        put_object(L, "list");
        break;
    case AST_Tuple: look_each(L, scope, AST_AS(e, Tuple)->elts); break;
    case AST_Set:
        look_each(L, scope, AST_AS(e, Set)->elts);
        put_object(L, "set");
        break;
    case AST_Dict:
        for (int i = 0; i < AST_AS(e, Dict)->items.n; i++)
            look(L, scope, AST_AS(AST_AS(e, Dict)->items.at[i], DictItem)->value);
        put_object(L, "dict");
        break;
    case AST_ListComp:
        look(L, scope, AST_AS(e, ListComp)->elt);
        put_object(L, "list");
        break;
    case AST_DictComp: put_object(L, "dict"); break;
    case AST_SetComp: put_object(L, "set"); break;
    case AST_NamedExpr: look(L, scope, AST_AS(e, NamedExpr)->value); break;
    case AST_Await: look(L, scope, AST_AS(e, Await)->value); break;
    case AST_Starred: look(L, scope, AST_AS(e, Starred)->value); break;
    default: break;
    }
    L->depth--;
}

/* What an expression may be does not depend on when it is asked, so it is found once. */
Things things_of(Effects *E, Scope *scope, Ast *e)
{
    Things t = {.n = 0};
    Look L = {E, &t, 0, LOOK_FUEL};
    uintptr_t known = 0;

    if (!e)
        return t;
    if (map_find(&E->found, (uintptr_t)e, &known)) {
        const Kept *k = (const Kept *)known;
        if (k)
            memcpy(t.at, k->at, sizeof *k->at * (size_t)(t.n = k->n));
        return t;
    }
    look(&L, scope, e);
    if (t.n) {
        Kept *k = arena_alloc(&E->arena, sizeof *k + sizeof *t.at * (size_t)t.n);
        memcpy(k->at, t.at, sizeof *t.at * (size_t)(k->n = t.n));
        known = (uintptr_t)k;
    }
    map_set(&E->found, (uintptr_t)e, known);
    return t;
}

void things_attribute(Effects *E, const EffCls *c, Sym name, Things *out)
{
    Look L = {E, out, 0, LOOK_FUEL};

    look_member(&L, c, name, true);
}

EffFn *things_method(Effects *E, const EffCls *c, const char *name)
{
    Things t = {.n = 0};

    things_attribute(E, c, sym(name), &t);
    for (int i = 0; i < t.n; i++)
        if (t.at[i].kind == THING_FN && t.at[i].bound)
            return (EffFn *)t.at[i].p;
    return NULL;
}

bool things_derives(Effects *E, const EffCls *c, const char *library)
{
    Things t = {.n = 0};
    Look L = {E, &t, 0, LOOK_FUEL};

    for (int up = 0; c && up < 16; up++, c = base_of(&L, c))
        if (c->owner && !strcmp(c->def->name->text, library))
            return true;
    return false;
}
