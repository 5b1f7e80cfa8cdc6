/*
 * What a call does, as far as the things that it may call are known.
 *
 * Its effects are those of each function that it may run, with the objects that those change taken
 * for the arguments here.  A method that a class inherits counts with what the class overrides of it.
 * A function that is handed to one that calls it runs there.
 */
#include "frontend/check/effect_walk.h"

#include "frontend/check/type.h"
#include "frontend/eval/native.h"

#include <string.h>

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

static const char *last_name(const Ast *e)
{
    return AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : AST_IS(e, Name) ? AST_AS(e, Name)->id->text : "";
}

/* What a call may run, of which not all was found. */
static void note_more(EffWalk *w, const Things *t, const AstCall *c)
{
    if (t->more)
        effect_source(w, (EffSource){EFFECTS_MORE, c->ast.span, last_name(c->func), NULL});
}

/* The object that a method was taken from. */
static Ast *receiver(AstCall *c)
{
    return AST_IS(c->func, Attribute) ? AST_AS(c->func, Attribute)->value : c->func;
}

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

static void state_of(EffWalk *w, const EffFn *f, AstCall *c, bool bound, bool fresh, const char *what)
{
    const char *text = f->ndetail ? f->detail[0] : NULL;

    if (f->state_outside) {
        effect_change(w, (Root){.kind = ROOT_OUTSIDE}, c->ast.span, what, f, text);
        for (int i = 1; i < f->ndetail; i++)
            effect_detail(w, f->detail[i]);
    }
    for (int i = 0; i < f->ncaptured; i++) {
        bool own = false;
        for (Scope *s = w->fn ? w->fn->scope : NULL; s && !own; s = s == w->fn->scope ? NULL : s->parent)
            for (int k = 0; k < s->locals.n && !own; k++)
                own = &s->locals.at[k] == f->captured[i];
        if (w->fn && !own)
            effect_change(w, (Root){.kind = ROOT_CAPTURED, .local = f->captured[i]}, c->ast.span, what, f, text);
    }
    for (int slot = 0; slot < 64; slot++) {
        Ast *a;
        if (!(f->writes >> slot & 1) || (fresh && !slot))
            continue;
        a = bound && !slot ? receiver(c) : argument(f, c, slot, bound);
        if (a)
            effect_change(w, effect_root(w, a), c->ast.span, what, f, text);
    }
}

/* A call of a function whose code is known; fresh: it constructs its first argument. */
void effect_call_fn(EffWalk *w, EffFn *f, AstCall *c, bool bound, bool fresh)
{
    const char *what = f->name ? f->name->text : "lambda";
    int row = f->owner ? effect_row(f->owner, what) : -1;
    uint8_t bits;

    if (row >= 0) {
        if (row >> EFF_state & 1)
            effect_change(w, (Root){.kind = ROOT_OUTSIDE}, c->ast.span, what, NULL, what);
        effect_source(w, (EffSource){(uint8_t)(row & ~(1 << EFF_state)), c->ast.span, what, NULL});
        return;
    }
    if (!f->walk)
        effects_infer_fn(w->E, f);
    bits = effects_seen(f);
    effect_source(w, (EffSource){bits & (uint8_t)~(1u << EFF_state), c->ast.span, what, f});
    if (f->declared_at && bits >> EFF_state & 1 && !f->writes && !f->ncaptured)
        effect_change(w, (Root){.kind = ROOT_OUTSIDE}, c->ast.span, what, f, f->ndetail ? f->detail[0] : NULL);
    else if (bits >> EFF_state & 1)
        state_of(w, f, c, bound, fresh, what);
    for (int slot = 0; slot < 64; slot++)
        if (f->calls >> slot & 1)
            passed(w, argument(f, c, slot, bound), c, what, f);
}

bool effect_has_keyword(const AstCall *c, const char *name)
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

    if (row > 0 && row >> EFF_random & 1 && effect_has_keyword(c, "key"))
        row = 0;
    if (is_logging(w, c, d))
        row = 1 << EFF_io;
    if (row > 0)
        effect_source(w, (EffSource){(uint8_t)row, c->ast.span, d->name, NULL});
    if (effects_mutates(d) && AST_IS(c->func, Attribute))
        effect_change(w, effect_root(w, receiver(c)), c->ast.span, d->name, NULL, effect_write_text(w, receiver(c)));
    if (!strcmp(d->name, "setattr") && c->args.n && AST_IS(c->args.at[0], Arg))
        effect_change(w, effect_root(w, AST_AS(c->args.at[0], Arg)->value), c->ast.span, d->name, NULL, "setattr");
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
            effect_source(x->w, (EffSource){effects_seen(m) & (uint8_t)~(1u << EFF_state), x->call->ast.span, m->name->text, m});
            if (m->state_outside || m->writes & 1)
                effect_change(x->w, m->state_outside ? (Root){.kind = ROOT_OUTSIDE} : effect_root(x->w, receiver(x->call)), x->call->ast.span,
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
        effect_call_fn(w, (EffFn *)t->p, c, t->bound, false);
        call_inherited(w, t, c);
        break;
    case THING_NATIVE:
        call_native(w, t->p, c);
        break;
    case THING_CLASS:
        m = things_method(w->E, t->p, "__init__");
        if (m)
            effect_call_fn(w, m, c, true, true);
        break;
    case THING_INSTANCE:
        m = called_method(w->E, t->p);
        if (m)
            effect_call_fn(w, m, c, true, false);
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
            effect_source(w, (EffSource){effects_seen(m), c->ast.span, m->name ? m->name->text : what, m});
        else if (m && !m->owner)
            effect_source(w, (EffSource){effects_seen(m) & (uint8_t)~(1u << EFF_state), c->ast.span, m->name->text, m});
        if (x->kind == THING_NATIVE) {
            int row = effect_row(((const NativeDef *)x->p)->owner, ((const NativeDef *)x->p)->name);
            if (row > 0)
                effect_source(w, (EffSource){(uint8_t)row, c->ast.span, ((const NativeDef *)x->p)->name, next});
        }
        if (x->kind == THING_PARAM)
            call_param(w, x);
    }
}

void effect_call(EffWalk *w, AstCall *c)
{
    Things t = things_of(w->E, w->scope, c->func);
    int row = t.n || c->func->kind != AST_Attribute ? -1 : effect_row("*", last_name(c->func));

    if (row > 0)                                    /* comm.all_reduce(x): whatever object that is, the name tells */
        effect_source(w, (EffSource){(uint8_t)row, c->ast.span, last_name(c->func), NULL});
    note_more(w, &t, c);
    if (!t.n && AST_IS(c->func, Attribute) && w->statement == (const Ast *)c && type_is_any(type_found(AST_AS(c->func, Attribute)->value)) &&
        effects_mutator(last_name(c->func)))        /* xs.append(1) for its effect alone, whatever xs is */
        effect_change(w, effect_root(w, receiver(c)), c->ast.span, last_name(c->func), NULL, effect_write_text(w, receiver(c)));
    for (int i = 0; i < t.n; i++)
        call_thing(w, &t.at[i], c);
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

    effect_call(&w, c);
    return none.bits;
}
