/*
 * Which functions, classes and modules an expression may be.
 *
 * Every variable and attribute has the list of all values that some statement
 * gives it; the order of statements is not looked at.  A container is what it
 * holds: the things of [f, g] are f and g, and those of d["k"] are d's.  What
 * is not found is simply missing: a call of it counts as without effect.  What
 * the limits of the look cut off is told (Things.more).  A value that is made of
 * itself (h = f(h)) is looked at again until nothing new comes of it.
 */
#include "frontend/check/effects.h"

#include "frontend/check/collect.h"
#include "frontend/eval/native.h"
#include "frontend/check/type.h"
#include "frontend/prelude.h"

#include <string.h>

enum { LOOK_DEPTH = 60, LOOK_FUEL = 600, LOOK_AGAIN = 6 };

/* ------------------------------------------------------------- looking */

typedef struct Kept { int n; bool more; Thing at[]; } Kept;     /* Things, no larger than they are */

/* An expression that is being looked at: what was found of it the last time. */
typedef struct Open {
    const Ast *e;
    const Things *so_far;
    bool asked;                 /* it came up again inside */
    int level;                  /* how many are further out */
    struct Open *outer;
} Open;

typedef struct Look { Effects *E; Things *out; int depth, fuel; Open *open; } Look;

static void look(Look *L, Scope *scope, Ast *e);

static void put(Look *L, Thing t)
{
    Things *o = L->out;

    for (int i = 0; i < o->n; i++)
        if (o->at[i].kind == t.kind && o->at[i].p == t.p && o->at[i].param == t.param && o->at[i].of == t.of)
            return;
    if (o->n < THINGS_MAX)
        o->at[o->n++] = t;
    else
        o->more = true;
}

static void put_all(Look *L, const Things *t)
{
    for (int i = 0; i < t->n; i++)
        put(L, t->at[i]);
    L->out->more |= t->more;
}

static void things_none(Things *t)
{
    t->n = 0;
    t->more = false;
}

static void look_given(Look *L, const Given *g)
{
    for (; g && L->fuel > 0; g = g->next)
        look(L, g->scope, g->value);
    L->out->more |= g != NULL;
}

/* What `e` may be, apart from what is being looked for. */
static Things aside(Look *L, Scope *scope, Ast *e)
{
    Things t;
    Look inner = {L->E, &t, L->depth, L->fuel, L->open};

    things_none(&t);
    look(&inner, scope, e);
    L->fuel = inner.fuel;
    L->out->more |= t.more;
    return t;
}

/* A def is itself, and what the program's own decorators make of it; those below what it declares are held to that (declared.c). */
static void look_def(Look *L, Scope *scope, AstFunctionDef *def)
{
    EffFn *f = map_get_ptr(&L->E->fn_of, def);

    if (f)
        put(L, (Thing){.kind = THING_FN, .p = f});
    for (int i = 0; i < def->decorators.n && !(f && f->declared_at == def->decorators.at[i]); i++) {
        Things d = aside(L, scope, def->decorators.at[i]);
        for (int k = 0; k < d.n; k++)
            if (d.at[k].kind == THING_FN && !((const EffFn *)d.at[k].p)->owner)
                look_given(L, ((const EffFn *)d.at[k].p)->returns);
    }
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
    things_read_space(L->E, s);
    if (!s->scope)
        return;
    things_need(L->E, s->scope, name);
    if (scope_local(s->scope, name))
        look_given(L, things_given(L->E, scope_local(s->scope, name)));
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

    for (;;) {                                      /* KVCache["B", ...] @rolling_window, Optional[Log] */
        if (AST_IS(a, BinOp) && AST_AS(a, BinOp)->op == AOP_MATMUL)
            a = AST_AS(a, BinOp)->left;
        else if (AST_IS(a, Subscript) && AST_IS(AST_AS(a, Subscript)->value, Name))
            a = !strcmp(AST_AS(AST_AS(a, Subscript)->value, Name)->id->text, "Optional") ? AST_AS(a, Subscript)->index : AST_AS(a, Subscript)->value;
        else
            break;
    }
    if (AST_IS(a, BinOp) && AST_AS(a, BinOp)->op == AOP_BITOR && L->depth < 50) {
        look_annotation(&(Look){L->E, L->out, L->depth + 1, L->fuel, L->open}, scope, AST_AS(a, BinOp)->left);
        look_annotation(&(Look){L->E, L->out, L->depth + 1, L->fuel, L->open}, scope, AST_AS(a, BinOp)->right);
        return;
    }
    if (!a || (a->kind != AST_Name && a->kind != AST_Attribute && a->kind != AST_Str))
        return;
    t = aside(L, scope, a);
    if (AST_IS(a, Name) && AST_AS(a, Name)->bind == BIND_DIM && prelude_find(AST_AS(a, Name)->id) >= 0) {
        Look inner = {L->E, &t, L->depth, L->fuel, L->open};
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
    l = things_local(L->E, scope, n, &owner);
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
    const EffCls *of = bound ? c : NULL;

    for (int up = 0; c && up < 16; up++, c = base_of(L, c)) {
        EffFn *m = map_get_ptr(&c->methods, name);
        const Given *g = map_get_ptr(&c->attrs, name);
        if (m && m->is_property)
            look_given(L, m->returns);
        else if (m)
            put(L, (Thing){.kind = THING_FN, .bound = bound && !m->is_static, .p = m, .of = of != c ? of : NULL});
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
    bool more = L->out->more;
    Things base = aside(L, scope, a->value);
    const char *owner = builtin_owner(type_found(a->value));
    const NativeDef *d;

    if (owner)                                      /* whatever else it may be made of */
        L->out->more = more;
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

static void look_once(Look *L, Scope *scope, Ast *e)
{
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
}

/* Is e being looked at further out? Then what is known of it so far is what it gives here. */
static bool is_open(Look *L, const Ast *e)
{
    for (Open *o = L->open; o; o = o->outer)
        if (o->e == e) {
            o->asked = true;
            L->E->leans = o->level < L->E->leans ? o->level : L->E->leans;
            put_all(L, o->so_far);
            return true;
        }
    return false;
}

/* What is known of an expression for good; false: nothing yet. */
static bool known(const Effects *E, const Ast *e, Look *L)
{
    uintptr_t at = 0;
    const Kept *k;

    if (!map_find(&E->found, (uintptr_t)e, &at))
        return false;
    k = (const Kept *)at;
    for (int i = 0; k && i < k->n; i++)
        put(L, k->at[i]);
    L->out->more |= k && k->more;
    return true;
}

static void keep(Effects *E, const Ast *e, const Things *t)
{
    Kept *k = NULL;

    if (t->n || t->more) {
        k = arena_alloc(&E->arena, sizeof *k + sizeof *t->at * (size_t)t->n);
        memcpy(k->at, t->at, sizeof *t->at * (size_t)(k->n = t->n));
        k->more = t->more;
    }
    map_set_ptr(&E->found, e, k);
}

/*
 * Again as long as it is made of itself and something new comes of that.  What leans on nothing that is open further out,
 * and was cut off by no limit, is so wherever it is asked for.
 */
static void look_settled(Look *L, Scope *scope, Ast *e)
{
    Things last, next;
    Open here = {e, &last, false, L->open ? L->open->level + 1 : 0, L->open};
    int leans = L->E->leans;
    bool grows = true;

    if (known(L->E, e, L))
        return;
    L->E->leans = here.level;
    things_none(&last);
    for (int times = 0; grows && times < LOOK_AGAIN; times++) {
        Look inner = {L->E, &next, L->depth, L->fuel, &here};
        things_none(&next);
        here.asked = false;
        look_once(&inner, scope, e);
        L->fuel = inner.fuel;
        grows = here.asked && next.n > last.n;
        last = next;
    }
    last.more |= grows;
    put_all(L, &last);
    if (L->E->leans == here.level && !last.more)
        keep(L->E, e, &last);
    L->E->leans = leans < L->E->leans ? leans : L->E->leans;
}

static void look(Look *L, Scope *scope, Ast *e)
{
    if (!e || !scope || is_open(L, e))
        return;
    if (L->depth >= LOOK_DEPTH || L->fuel-- <= 0) {
        L->out->more = true;
        return;
    }
    L->depth++;
    if (e->kind == AST_Name || e->kind == AST_Attribute || e->kind == AST_Call)
        look_settled(L, scope, e);
    else
        look_once(L, scope, e);
    L->depth--;
}

/* What an expression may be does not depend on when it is asked, so it is found once. */
Things things_of(Effects *E, Scope *scope, Ast *e)
{
    Things t;
    Look L = {E, &t, 0, LOOK_FUEL, NULL};

    things_none(&t);
    if (!e || known(E, e, &L))
        return t;
    look(&L, scope, e);
    keep(E, e, &t);
    return t;
}

/* The method or stored attribute `name` of objects of c. */
static void things_attribute(Effects *E, const EffCls *c, Sym name, Things *out)
{
    Look L = {E, out, 0, LOOK_FUEL, NULL};

    look_member(&L, c, name, true);
}

EffFn *things_method(Effects *E, const EffCls *c, const char *name)
{
    Things t;

    things_none(&t);
    things_attribute(E, c, sym(name), &t);
    for (int i = 0; i < t.n; i++)
        if (t.at[i].kind == THING_FN && t.at[i].bound)
            return (EffFn *)t.at[i].p;
    return NULL;
}

bool things_derives(Effects *E, const EffCls *c, const char *library)
{
    Things t;
    Look L = {E, &t, 0, LOOK_FUEL, NULL};

    things_none(&t);
    for (int up = 0; c && up < 16; up++, c = base_of(&L, c))
        if (c->owner && !strcmp(c->def->name->text, library))
            return true;
    return false;
}
