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
#include "frontend/check/effects.h"

#include "frontend/check/type.h"
#include "frontend/eval/native.h"

#include <string.h>

enum { WALK_MAX = 1000, ROOT_DEPTH = 200 };

/* ------------------------------------------------------------- what natives call */

static bool mentions_callable(const Ast *a)
{
    if (AST_IS(a, BinOp))
        return mentions_callable(AST_AS(a, BinOp)->left) || mentions_callable(AST_AS(a, BinOp)->right);
    return AST_IS(a, Name) && !strcmp(AST_AS(a, Name)->id->text, "Callable");
}

/* The signature that a call of d is bound by; *first: its parameters that the call does not write. */
static const NativeSig *call_sig(const NativeDef *d, int *first)
{
    if (d->sig && !strncmp(d->sig, "type[", 5))
        d = native_find(d->name, "__new__");
    if (!d || !d->sig || d->sig[0] != '(')
        return NULL;
    *first = !strncmp(d->sig, "(self", 5) || !strncmp(d->sig, "(cls", 4);
    return native_sig(d);
}

/* Does a native call what it gets there, now? One that gives a function back makes one and calls nothing yet. */
static bool calls_argument(const NativeDef *d, const AstArg *a, int position)
{
    int first = 0;
    const NativeSig *sig = call_sig(d, &first);

    if (!sig || mentions_callable(sig->returns) || !strcmp(d->name, "partial") || !strncmp(d->name, "custom_", 7))
        return false;
    for (int i = 0; i < sig->n; i++)
        if (a->name ? sig->param[i].name == a->name : i == position + first)
            return mentions_callable(sig->param[i].annotation);
    return false;
}

/* ------------------------------------------------------------- where a changed object came from */

typedef enum { ROOT_FRESH, ROOT_PARAM, ROOT_CAPTURED, ROOT_OUTSIDE } RootKind;
typedef struct { RootKind kind; int param; const Local *local; Sym name; } Root;

static Root root_from(EffWalk *w, Ast *e, int depth);

/* A variable of the function is what it was given; the first that is not fresh counts. A second visit finds nothing else. */
static Root root_of_given(EffWalk *w, const Local *l, int depth)
{
    uintptr_t seen = 0;

    if (map_find(&w->E->rooted, (uintptr_t)l, &seen) && seen == w->E->searches)
        return (Root){.kind = ROOT_FRESH};
    map_set(&w->E->rooted, (uintptr_t)l, w->E->searches);
    for (const Given *g = things_given(w->E, l); g; g = g->next) {
        Root r = g->held ? (Root){.kind = ROOT_FRESH} : root_from(w, g->value, depth + 1);
        if (r.kind != ROOT_FRESH)
            return r;
    }
    return (Root){.kind = ROOT_FRESH};
}

static Root root_of_name(EffWalk *w, AstName *n, int depth)
{
    Scope *owner = NULL;
    const Local *l = things_local(w->E, w->scope, n, &owner);

    if (!l || !w->fn)
        return (Root){.kind = ROOT_FRESH};
    if (owner->kind == SCOPE_MODULE)
        return (Root){.kind = ROOT_OUTSIDE, .name = n->id};
    if (owner != w->fn->scope && owner->kind != SCOPE_GENEXP)
        return (Root){.kind = ROOT_CAPTURED, .local = l, .name = n->id};
    if (l->is_param)
        return (Root){.kind = ROOT_PARAM, .param = (int)l->slot, .name = n->id};
    return root_of_given(w, l, depth);
}

static Root root_from(EffWalk *w, Ast *e, int depth)
{
    Root r = {.kind = ROOT_FRESH};

    w->lost |= depth >= ROOT_DEPTH;
    if (!e || depth >= ROOT_DEPTH)
        return r;
    switch (e->kind) {
    case AST_Name:
        return root_of_name(w, AST_AS(e, Name), depth);
    case AST_Attribute:
        return root_from(w, AST_AS(e, Attribute)->value, depth + 1);
    case AST_Subscript:
        return root_from(w, AST_AS(e, Subscript)->value, depth + 1);
    case AST_IfExp:
        r = root_from(w, AST_AS(e, IfExp)->body, depth + 1);
        return r.kind != ROOT_FRESH ? r : root_from(w, AST_AS(e, IfExp)->orelse, depth + 1);
    default:
        return r;
    }
}

static Root root_of(EffWalk *w, Ast *e)
{
    w->E->searches++;
    w->lost = false;
    return root_from(w, e, 0);
}

/* ------------------------------------------------------------- sources */

static void note_detail(EffWalk *w, const char *text)
{
    EffFn *f = w->fn;

    if (!f || !text)
        return;
    for (int i = 0; i < f->ndetail; i++)
        if (!strcmp(f->detail[i], text))
            return;
    if (f->ndetail < DETAILS_MAX) {
        f->detail[f->ndetail++] = arena_strdup(&w->E->arena, text);
        w->E->changed = true;
    }
}

static void source(EffWalk *w, EffSource s)
{
    EffFn *f = w->fn;

    s.bits &= (uint8_t)~w->masked;
    for (int b = 0; f && b < EFF_COUNT; b++)
        if (s.bits >> b & 1 && !(f->bits >> b & 1)) {
            f->bits |= (uint8_t)(1u << b);
            f->why[b] = (Why){s.span, s.what, s.next};
            w->E->changed = true;
        }
    if (f && s.bits & EFFECTS_MORE && !(f->bits & EFFECTS_MORE)) {
        f->bits |= EFFECTS_MORE;
        f->more = (Why){s.span, s.what, s.next};
        w->E->changed = true;
    }
    if (s.bits && w->found)
        w->found(w, &s);
}

static const char *last_name(const Ast *e)
{
    return AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : AST_IS(e, Name) ? AST_AS(e, Name)->id->text : "";
}

/* What a call may run, of which not all was found. */
static void note_more(EffWalk *w, const Things *t, const AstCall *c)
{
    if (t->more)
        source(w, (EffSource){EFFECTS_MORE, c->ast.span, last_name(c->func), NULL});
}

static void note_capture(EffWalk *w, const Local *l)
{
    EffFn *f = w->fn;

    for (int i = 0; i < f->ncaptured; i++)
        if (f->captured[i] == l)
            return;
    if (f->ncaptured == CAPTURED_MAX) {
        f->state_outside = true;
        return;
    }
    f->captured[f->ncaptured++] = l;
    w->E->changed = true;
}

/* Something with this root is changed at `span`; text: "write self.x". */
static void change(EffWalk *w, Root r, Span span, const char *what, const EffFn *next, const char *text)
{
    EffFn *f = w->fn;

    if (w->lost)
        source(w, (EffSource){EFFECTS_MORE, span, what, NULL});
    w->lost = false;
    if (!f || r.kind == ROOT_FRESH)
        return;
    if (r.kind == ROOT_PARAM && r.param < 64 && !(f->writes >> r.param & 1)) {
        f->writes |= 1ull << r.param;
        w->E->changed = true;
    } else if (r.kind == ROOT_CAPTURED) {
        note_capture(w, r.local);
    } else if (r.kind == ROOT_OUTSIDE && !f->state_outside) {
        f->state_outside = w->E->changed = true;
    }
    note_detail(w, text);
    source(w, (EffSource){1u << EFF_state, span, what, next});
}

static const char *write_text(EffWalk *w, Ast *target)
{
    StrBuf b = {0};
    const char *text;

    while (target->kind == AST_Subscript)
        target = AST_AS(target, Subscript)->value;
    sb_puts(&b, "write ");
    ast_print(target, &b);
    text = b.n > 60 ? "write" : arena_strdup(&w->E->arena, sb_str(&b));
    sb_done(&b);
    return text;
}

/* ------------------------------------------------------------- calls */

static Ast *argument(const EffFn *f, AstCall *c, int slot, bool bound)
{
    AstParam *p = things_param(f, slot);
    int at = slot - (bound ? 1 : 0), k = 0;

    for (int i = 0; i < c->args.n; i++) {
        AstArg *a = AST_AS(c->args.at[i], Arg);
        if (a->ast.kind != AST_Arg || a->stars)
            continue;
        if (a->name ? p && a->name == p->name : k++ == at && p && p->kind <= PARAM_VARARGS)
            return a->value;
    }
    return p ? p->dflt : NULL;
}

static void passed(EffWalk *w, Ast *value, AstCall *c, const char *what, const EffFn *next);

/* The object that a method was taken from. */
static Ast *receiver(AstCall *c)
{
    return AST_IS(c->func, Attribute) ? AST_AS(c->func, Attribute)->value : c->func;
}

static void state_of(EffWalk *w, const EffFn *f, AstCall *c, bool bound, bool fresh, const char *what)
{
    const char *text = f->ndetail ? f->detail[0] : NULL;

    if (f->state_outside) {
        change(w, (Root){.kind = ROOT_OUTSIDE}, c->ast.span, what, f, text);
        for (int i = 1; i < f->ndetail; i++)
            note_detail(w, f->detail[i]);
    }
    for (int i = 0; i < f->ncaptured; i++) {
        bool own = false;
        for (Scope *s = w->fn ? w->fn->scope : NULL; s && !own; s = s == w->fn->scope ? NULL : s->parent)
            for (int k = 0; k < s->locals.n && !own; k++)
                own = &s->locals.at[k] == f->captured[i];
        if (w->fn && !own)
            change(w, (Root){.kind = ROOT_CAPTURED, .local = f->captured[i]}, c->ast.span, what, f, text);
    }
    for (int slot = 0; slot < 64; slot++) {
        Ast *a;
        if (!(f->writes >> slot & 1) || (fresh && !slot))
            continue;
        a = bound && !slot ? receiver(c) : argument(f, c, slot, bound);
        if (a)
            change(w, root_of(w, a), c->ast.span, what, f, text);
    }
}

/* A call of a function whose code is known; fresh: it constructs its first argument. */
static void call_fn(EffWalk *w, EffFn *f, AstCall *c, bool bound, bool fresh)
{
    const char *what = f->name ? f->name->text : "lambda";
    int row = f->owner ? effect_row(f->owner, what) : -1;
    uint8_t bits;

    if (row >= 0) {
        if (row >> EFF_state & 1)
            change(w, (Root){.kind = ROOT_OUTSIDE}, c->ast.span, what, NULL, what);
        source(w, (EffSource){(uint8_t)(row & ~(1 << EFF_state)), c->ast.span, what, NULL});
        return;
    }
    if (!f->walk)
        effects_infer_fn(w->E, f);
    bits = effects_seen(f);
    source(w, (EffSource){bits & (uint8_t)~(1u << EFF_state), c->ast.span, what, f});
    if (f->declared_at && bits >> EFF_state & 1 && !f->writes && !f->ncaptured)
        change(w, (Root){.kind = ROOT_OUTSIDE}, c->ast.span, what, f, f->ndetail ? f->detail[0] : NULL);
    else if (bits >> EFF_state & 1)
        state_of(w, f, c, bound, fresh, what);
    for (int slot = 0; slot < 64; slot++)
        if (f->calls >> slot & 1)
            passed(w, argument(f, c, slot, bound), c, what, f);
}

static bool has_keyword(const AstCall *c, const char *name)
{
    for (int i = 0; i < c->args.n; i++)
        if (AST_IS(c->args.at[i], Arg) && AST_AS(c->args.at[i], Arg)->name &&
            !strcmp(AST_AS(c->args.at[i], Arg)->name->text, name))
            return true;
    return false;
}

/* tessera.log(x) as a statement of its own writes a log; as a value it is the logarithm. */
static bool is_logging(const EffWalk *w, const AstCall *c, const NativeDef *d)
{
    const Ast *f = c->func;

    return w->statement == (const Ast *)c && !*d->owner && !strcmp(d->name, "log") && f->kind == AST_Attribute;
}

static void call_native(EffWalk *w, const NativeDef *d, AstCall *c)
{
    int row = effect_row(d->owner, d->name);

    if (row > 0 && row >> EFF_random & 1 && has_keyword(c, "key"))
        row = 0;
    if (is_logging(w, c, d))
        row = 1 << EFF_io;
    if (row > 0)
        source(w, (EffSource){(uint8_t)row, c->ast.span, d->name, NULL});
    if (effects_mutates(d) && AST_IS(c->func, Attribute))
        change(w, root_of(w, receiver(c)), c->ast.span, d->name, NULL, write_text(w, receiver(c)));
    if (!strcmp(d->name, "setattr") && c->args.n && AST_IS(c->args.at[0], Arg))
        change(w, root_of(w, AST_AS(c->args.at[0], Arg)->value), c->ast.span, d->name, NULL, "setattr");
    for (int i = 0; i < c->args.n; i++)
        if (AST_IS(c->args.at[i], Arg) && calls_argument(d, AST_AS(c->args.at[i], Arg), i))
            passed(w, AST_AS(c->args.at[i], Arg)->value, c, d->name, NULL);
}

static void call_param(EffWalk *w, const Thing *t)
{
    EffFn *f = w->fn;

    if (f && t->p == f && t->param < 64 && !(f->calls >> t->param & 1)) {
        f->calls |= 1ull << t->param;
        w->E->changed = true;
    }
}

static EffFn *called_method(Effects *E, const EffCls *c)
{
    EffFn *m = things_method(E, c, "__call__");

    return m && !m->owner ? m : things_method(E, c, "forward") ? things_method(E, c, "forward") : m;
}

/* A method that `of` inherits, called at `call`: what it calls of its own object may be what `of` has instead. */
typedef struct { EffWalk *w; EffFn *f; const EffCls *of; AstCall *call; Map *seen; int depth; } Inherited;

static void inherited(EffWalk *w, EffFn *f, const EffCls *of, AstCall *call, Map *seen);

static bool find_overridden(Ast *n, void *state)
{
    Inherited *x = state;
    AstAttribute *a = n && AST_IS(n, Call) ? AST_AS(AST_AS(n, Call)->func, Attribute) : NULL;
    const AstParam *self = AST_AS(x->f->params.at[0], Param);
    EffFn *own, *m;

    if (!n || x->depth > WALK_MAX / 4)
        return true;
    if (a && AST_IS((Ast *)a, Attribute) && AST_IS(a->value, Name) && AST_AS(a->value, Name)->id == self->name) {
        m = things_method(x->w->E, x->of, a->attr->text);
        own = things_method(x->w->E, x->f->cls, a->attr->text);
        if (m && m != own) {
            if (!m->walk)
                effects_infer_fn(x->w->E, m);
            source(x->w, (EffSource){effects_seen(m) & (uint8_t)~(1u << EFF_state), x->call->ast.span, m->name->text, m});
            if (m->state_outside || m->writes & 1)
                change(x->w, m->state_outside ? (Root){.kind = ROOT_OUTSIDE} : root_of(x->w, receiver(x->call)), x->call->ast.span,
                       m->name->text, m, m->ndetail ? m->detail[0] : NULL);
        }
        if (m)
            inherited(x->w, m, x->of, x->call, x->seen);
    }
    x->depth++;
    ast_walk(n, find_overridden, x);
    x->depth--;
    return true;
}

static void inherited(EffWalk *w, EffFn *f, const EffCls *of, AstCall *call, Map *seen)
{
    Inherited x = {w, f, of, call, seen, 0};

    if (!f->cls || !f->params.n || !AST_IS(f->params.at[0], Param) || f->node->kind != AST_FunctionDef || map_find(seen, (uintptr_t)f, NULL))
        return;
    map_set(seen, (uintptr_t)f, 1);
    ast_walk(f->node, find_overridden, &x);
}

static void call_inherited(EffWalk *w, const Thing *t, AstCall *c)
{
    Map seen = {0};

    if (t->of && t->bound && ((const EffFn *)t->p)->owner == NULL)
        inherited(w, (EffFn *)t->p, t->of, c, &seen);
    map_done(&seen);
}

static void call_thing(EffWalk *w, const Thing *t, AstCall *c)
{
    EffFn *m;

    switch (t->kind) {
    case THING_FN:
        call_fn(w, (EffFn *)t->p, c, t->bound, false);
        call_inherited(w, t, c);
        break;
    case THING_NATIVE:
        call_native(w, t->p, c);
        break;
    case THING_CLASS:
        m = things_method(w->E, t->p, "__init__");
        if (m)
            call_fn(w, m, c, true, true);
        break;
    case THING_INSTANCE:
        m = called_method(w->E, t->p);
        if (m)
            call_fn(w, m, c, true, false);
        break;
    case THING_PARAM:
        call_param(w, t);
        break;
    case THING_SPACE:
    case THING_OBJECT:
        break;
    }
}

/* A function handed to one that calls it: its effects happen there. */
static void passed(EffWalk *w, Ast *value, AstCall *c, const char *what, const EffFn *next)
{
    Things t;
    EffFn *m;

    if (!value || value->kind == AST_Int || value->kind == AST_Float || value->kind == AST_Str || value->kind == AST_Const)
        return;
    t = things_of(w->E, w->scope, value);
    note_more(w, &t, c);
    for (int i = 0; i < t.n; i++) {
        const Thing *x = &t.at[i];
        m = x->kind == THING_FN ? (EffFn *)x->p : x->kind == THING_INSTANCE ? called_method(w->E, x->p) : NULL;
        if (m && m->walk == 0)
            effects_infer_fn(w->E, m);
        if (m && x->kind == THING_FN)
            source(w, (EffSource){effects_seen(m), c->ast.span, m->name ? m->name->text : what, m});
        else if (m && !m->owner)
            source(w, (EffSource){effects_seen(m) & (uint8_t)~(1u << EFF_state), c->ast.span, m->name->text, m});
        if (x->kind == THING_NATIVE) {
            int row = effect_row(((const NativeDef *)x->p)->owner, ((const NativeDef *)x->p)->name);
            if (row > 0)
                source(w, (EffSource){(uint8_t)row, c->ast.span, ((const NativeDef *)x->p)->name, next});
        }
        if (x->kind == THING_PARAM)
            call_param(w, x);
    }
}

/* ------------------------------------------------------------- walking */

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
            change(w, (Root){.kind = ROOT_OUTSIDE}, t->span, n->id->text, NULL, write_text(w, t));
        else if (w->fn && n->bind == BIND_FREE && w->scope == w->fn->scope)
            change(w, (Root){.kind = ROOT_CAPTURED, .local = things_local(w->E, w->scope, n, NULL)}, t->span, n->id->text, NULL,
                   write_text(w, t));
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
        change(w, root_of(w, base), t->span, AST_AS(t, Attribute)->attr->text, NULL, write_text(w, t));
        break;
    case AST_Subscript:
        base = AST_AS(t, Subscript)->value;
        if (base->kind == AST_Attribute || changes_object(base) ||
            (AST_IS(base, Name) && is_display(things_given(w->E, things_local(w->E, w->scope, AST_AS(base, Name), NULL)))))
            change(w, root_of(w, base), t->span, "", NULL, write_text(w, t));
        break;
    default:
        break;
    }
}

static void walk_call(EffWalk *w, AstCall *c)
{
    Things t = things_of(w->E, w->scope, c->func);
    int row = t.n || c->func->kind != AST_Attribute ? -1 : effect_row("*", last_name(c->func));

    if (row > 0)                                    /* comm.all_reduce(x): whatever object that is, the name tells */
        source(w, (EffSource){(uint8_t)row, c->ast.span, last_name(c->func), NULL});
    note_more(w, &t, c);
    if (!t.n && AST_IS(c->func, Attribute) && w->statement == (const Ast *)c && type_is_any(type_found(AST_AS(c->func, Attribute)->value)) &&
        effects_mutator(last_name(c->func)))        /* xs.append(1) for its effect alone, whatever xs is */
        change(w, root_of(w, receiver(c)), c->ast.span, last_name(c->func), NULL, write_text(w, receiver(c)));
    for (int i = 0; i < t.n; i++)
        call_thing(w, &t.at[i], c);
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
        call_fn(w, (EffFn *)m, &c0, true, false);
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
            call_fn(w, m, &c, true, false);
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
               (effects_is_library(w->E, w->scope, c->func, "_Deterministic", "__call__") && has_keyword(c, "seed"))) {
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
    case AST_FunctionDef:
        walk_each(w, AST_AS(n, FunctionDef)->params);
        return true;
    case AST_Lambda:
        return true;
    case AST_ClassDef: {
        Scope *was = w->scope;
        w->scope = AST_AS(n, ClassDef)->scope;
        walk_each(w, AST_AS(n, ClassDef)->body);
        w->scope = was;
        return true;
    }
    case AST_GenExp:
        walk_generator(w, AST_AS(n, GenExp));
        return true;
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
        walk_call(w, AST_AS(n, Call));
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
    case AST_AugAssign:
        walk_children(w, n);
        store(w, AST_AS(n, AugAssign)->target);
        if (AST_IS(AST_AS(n, AugAssign)->target, Name) && changes_object(AST_AS(n, AugAssign)->target))
            change(w, root_of(w, AST_AS(n, AugAssign)->target), n->span, "", NULL, write_text(w, AST_AS(n, AugAssign)->target));
        return true;
    case AST_AnnAssign:
        if (AST_AS(n, AnnAssign)->value) {
            walk_node(AST_AS(n, AnnAssign)->value, w);
            store(w, AST_AS(n, AnnAssign)->target);
        }
        return true;
    case AST_Del:
        for (int i = 0; i < AST_AS(n, Del)->targets.n; i++)
            if (AST_AS(n, Del)->targets.at[i]->kind != AST_Name)
                store(w, AST_AS(n, Del)->targets.at[i]);
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

void effects_passed(EffWalk *w, Scope *scope, Ast *value, Span span)
{
    AstCall c = {.ast = {.kind = AST_Call, .span = span}, .func = value};
    Scope *was = w->scope;

    w->scope = scope;
    passed(w, value, &c, "", NULL);
    w->scope = was;
}

uint8_t effects_of_call(Effects *E, Scope *scope, AstCall *c)
{
    EffFn none = {.scope = scope, .walk = 1};
    EffWalk w = {.E = E, .fn = &none, .scope = scope};

    walk_call(&w, c);
    return none.bits;
}
