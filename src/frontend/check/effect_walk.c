/*
 * What one body does.
 *
 * A walk goes through a function's body and joins what each call and store
 * does.  Calling a parameter, or changing an object that came in through one,
 * is noted in a mask and settled at each call by the arguments there, so
 * higher-order functions need no variables of effects.  Changing what the
 * function made itself is no effect.  Functions that a function defines count
 * where they are called or passed on, not where they are written.
 */
#include "frontend/check/effect_walk.h"

#include "frontend/check/type.h"
#include "frontend/eval/native.h"

#include <string.h>

static bool walk_node(Ast *n, void *state);

static void walk_each(EffWalk *w, AstSeq s)
{
    for (int i = 0; i < s.n; i++)
        walk_node(s.at[i], w);
}

static void walk_children(EffWalk *w, Ast *n)
{
    w->depth++;
    ast_walk(n, walk_node, w);
    w->depth--;
}

/* Does a store there change an object, rather than a variable or a tensor's own copy? */
static bool changes_object(const Ast *base)
{
    const Type *t = type_found(base);

    return t && (t->kind == TY_LIST || t->kind == TY_DICT || t->kind == TY_INSTANCE);
}

static bool is_display(const Given *g)
{
    return g && (g->value->kind == AST_List || g->value->kind == AST_Dict || g->value->kind == AST_ListComp ||
                 g->value->kind == AST_DictComp);
}

static void store(EffWalk *w, Ast *t)
{
    AstSeq e;
    AstName *n;
    Ast *base;

    switch (t->kind) {
    case AST_Name:
        n = AST_AS(t, Name);
        if (w->fn && n->bind == BIND_GLOBAL)
            effect_change(w, (Root){.kind = ROOT_OUTSIDE}, t->span, n->id->text, NULL, effect_write_text(w, t));
        else if (w->fn && n->bind == BIND_FREE && w->scope == w->fn->scope)
            effect_change(w, (Root){.kind = ROOT_CAPTURED, .local = things_local(w->E, w->scope, n, NULL)}, t->span, n->id->text, NULL,
                   effect_write_text(w, t));
        break;
    case AST_Tuple:
    case AST_List:
        e = t->kind == AST_Tuple ? AST_AS(t, Tuple)->elts : AST_AS(t, List)->elts;
        for (int i = 0; i < e.n && w->depth < WALK_MAX; i++) {
            w->depth++;
            store(w, e.at[i]);
            w->depth--;
        }
        break;
    case AST_Starred:
        store(w, AST_AS(t, Starred)->value);
        break;
    case AST_Attribute:
        base = AST_AS(t, Attribute)->value;
        effect_change(w, effect_root(w, base), t->span, AST_AS(t, Attribute)->attr->text, NULL, effect_write_text(w, t));
        break;
    case AST_Subscript:
        base = AST_AS(t, Subscript)->value;
        if (base->kind == AST_Attribute || changes_object(base) ||
            (AST_IS(base, Name) && is_display(things_given(w->E, things_local(w->E, w->scope, AST_AS(base, Name), NULL)))))
            effect_change(w, effect_root(w, base), t->span, "", NULL, effect_write_text(w, t));
        break;
    default:
        break;
    }
}

/* Reading a property runs its function. */
static void walk_attribute(EffWalk *w, AstAttribute *a)
{
    Things t;
    uintptr_t m = 0;

    if (a->value->kind != AST_Name && a->value->kind != AST_Attribute)
        return;
    t = things_of(w->E, w->scope, a->value);
    for (int i = 0; i < t.n; i++) {
        const EffCls *c = t.at[i].p;
        if (t.at[i].kind != THING_INSTANCE || !map_find(&c->methods, (uintptr_t)a->attr, &m) || !((EffFn *)m)->is_property)
            continue;
        AstCall c0 = {.ast = {.kind = AST_Call, .span = a->ast.span}, .func = (Ast *)a};
        effect_call_fn(w, (EffFn *)m, &c0, true, false);
    }
}

/* x + y, x[i], len(x): the class's own method, when it has one. */
static void walk_operator(EffWalk *w, Ast *operand, const char *method, Ast *node)
{
    Things t;

    if (operand->kind != AST_Name && operand->kind != AST_Attribute)
        return;
    t = things_of(w->E, w->scope, operand);
    for (int i = 0; i < t.n; i++) {
        EffFn *m = t.at[i].kind == THING_INSTANCE ? things_method(w->E, t.at[i].p, method) : NULL;
        AstCall c = {.ast = {.kind = AST_Call, .span = node->span}, .func = operand};
        if (m && !m->owner)
            effect_call_fn(w, m, &c, true, false);
    }
}

static const char *operator_method(int64_t op)
{
    static const char *const names[] = {[AOP_ADD] = "__add__", [AOP_SUB] = "__sub__", [AOP_MUL] = "__mul__",
                                        [AOP_DIV] = "__truediv__", [AOP_MATMUL] = "__matmul__"};

    return op <= AOP_MATMUL ? names[op] : NULL;
}

static const char *text_argument(const AstCall *c, int k)
{
    const Ast *a = k < c->args.n && AST_IS(c->args.at[k], Arg) ? AST_AS(c->args.at[k], Arg)->value : NULL;

    return AST_IS(a, Str) ? AST_AS(a, Str)->value.s : NULL;
}

bool effects_is_library(Effects *E, Scope *scope, Ast *e, const char *owner, const char *name)
{
    Things t = things_of(E, scope, e);

    for (int i = 0; i < t.n; i++) {
        const EffFn *f = t.at[i].p;
        const NativeDef *d = t.at[i].p;
        if (t.at[i].kind == THING_FN && f->owner && f->name && !strcmp(f->owner, owner) && !strcmp(f->name->text, name))
            return true;
        if (t.at[i].kind == THING_NATIVE && !strcmp(d->owner, owner) && !strcmp(d->name, name))
            return true;
        if (t.at[i].kind == THING_INSTANCE && !strcmp(name, "__call__") && things_derives(E, t.at[i].p, owner))
            return true;
    }
    return false;
}

static void enter_item(EffWalk *w, Ast *context)
{
    AstCall *c = AST_AS(context, Call);
    Effect e;

    if (context->kind != AST_Call) {
        walk_operator(w, context, "__enter__", context);
        return;
    }
    if (effects_is_library(w->E, w->scope, c->func, "_Effects", "suspend")) {
        for (int i = 0; i < c->args.n; i++)
            if (text_argument(c, i) && (effect_find(text_argument(c, i), &e) || !strcmp(text_argument(c, i), "all")))
                for (int b = 0; b < EFF_COUNT; b++)
                    if (!strcmp(text_argument(c, i), "all") || b == (int)e) {
                        w->suspended |= (uint8_t)(1u << b);
                        w->suspended_at[b] = context;
                    }
    } else if (effects_is_library(w->E, w->scope, c->func, "random", "key") ||
               effects_is_library(w->E, w->scope, c->func, "random", "scope") ||
               (effects_is_library(w->E, w->scope, c->func, "_Deterministic", "__call__") && effect_has_keyword(c, "seed"))) {
        w->masked |= 1u << EFF_random;              /* the draws inside repeat, and the generator outside is untouched */
    }
}

static void walk_with(EffWalk *w, AstWith *s)
{
    EffWalk was = *w;

    for (int i = 0; i < s->items.n; i++) {
        AstWithItem *x = AST_AS(s->items.at[i], WithItem);
        walk_node(x->context, w);
        enter_item(w, x->context);
    }
    walk_each(w, s->body);
    w->masked = was.masked;
    w->suspended = was.suspended;
    memcpy(w->suspended_at, was.suspended_at, sizeof was.suspended_at);
}

static void walk_targets(EffWalk *w, AstSeq targets)
{
    for (int i = 0; i < targets.n; i++)
        store(w, targets.at[i]);
}

/* x += y changes x's object where it has one that can. */
static void walk_augmented(EffWalk *w, AstAugAssign *s)
{
    walk_children(w, (Ast *)s);
    store(w, s->target);
    if (AST_IS(s->target, Name) && changes_object(s->target))
        effect_change(w, effect_root(w, s->target), s->ast.span, "", NULL, effect_write_text(w, s->target));
}

static void walk_deleted(EffWalk *w, AstSeq targets)
{
    for (int i = 0; i < targets.n; i++)
        if (targets.at[i]->kind != AST_Name)
            store(w, targets.at[i]);
}

static void walk_class(EffWalk *w, AstClassDef *c)
{
    Scope *was = w->scope;

    w->scope = c->scope;
    walk_each(w, c->body);
    w->scope = was;
}

static void walk_generator(EffWalk *w, AstGenExp *g)
{
    Scope *was = w->scope;

    w->scope = g->scope ? g->scope : was;
    walk_children(w, (Ast *)g);
    w->scope = was;
}

static bool walk_node(Ast *n, void *state)
{
    EffWalk *w = state;

    if (!n || w->depth > WALK_MAX)
        return true;
    switch (n->kind) {
    case AST_FunctionDef: return walk_each(w, AST_AS(n, FunctionDef)->params), true;
    case AST_Lambda: return true;
    case AST_ClassDef: return walk_class(w, AST_AS(n, ClassDef)), true;
    case AST_GenExp: return walk_generator(w, AST_AS(n, GenExp)), true;
    case AST_With:
        w->depth++;
        walk_with(w, AST_AS(n, With));
        w->depth--;
        return true;
    case AST_ExprStmt:
        w->statement = AST_AS(n, ExprStmt)->value;
        break;
    case AST_Call:
        walk_children(w, n);
        effect_call(w, AST_AS(n, Call));
        return true;
    case AST_Attribute:
        walk_attribute(w, AST_AS(n, Attribute));
        break;
    case AST_BinOp:
        if (operator_method(AST_AS(n, BinOp)->op))
            walk_operator(w, AST_AS(n, BinOp)->left, operator_method(AST_AS(n, BinOp)->op), n);
        break;
    case AST_Subscript:
        walk_operator(w, AST_AS(n, Subscript)->value, "__getitem__", n);
        break;
    case AST_For:
        walk_operator(w, AST_AS(n, For)->iter, "__iter__", n);
        walk_children(w, n);
        store(w, AST_AS(n, For)->target);
        return true;
    case AST_Assign:
        walk_children(w, n);
        walk_targets(w, AST_AS(n, Assign)->targets);
        return true;
    case AST_AugAssign: return walk_augmented(w, AST_AS(n, AugAssign)), true;
    case AST_AnnAssign:
        if (AST_AS(n, AnnAssign)->value) {
            walk_node(AST_AS(n, AnnAssign)->value, w);
            store(w, AST_AS(n, AnnAssign)->target);
        }
        return true;
    case AST_Del:
        walk_deleted(w, AST_AS(n, Del)->targets);
        break;
    default:
        break;
    }
    walk_children(w, n);
    return true;
}

void effects_walk(EffWalk *w)
{
    if (!w->fn) {
        w->scope = w->E->u->module->scope;
        walk_each(w, w->E->u->module->body);
        return;
    }
    w->scope = w->fn->scope;
    if (w->fn->node->kind == AST_Lambda)
        walk_node(AST_AS(w->fn->node, Lambda)->body, w);
    else
        walk_each(w, AST_AS(w->fn->node, FunctionDef)->body);
}
