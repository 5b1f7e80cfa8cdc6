/*
 * What functions declare of their effects, and where they break it.
 *
 * An error stands on the line that brings the effect in, with the way from
 * there to the print, draw or store that causes it.  Callers see what a function
 * declares, so one mistake is reported once.
 */
#include "frontend/check/effects.h"
#include "frontend/check/foreign.h"

#include <stdio.h>
#include <string.h>

#define ALL_NAMES "random, io, memory, state, collective, all"

/* ------------------------------------------------------------- reading */

static const char *next_effect(void *state)
{
    int *i = state;

    return *i < EFF_COUNT ? effect_name[(*i)++] : *i == EFF_COUNT ? ((*i)++, "all") : NULL;
}

static void unknown_effect(Effects *E, const Ast *e, const char *name)
{
    int i = 0;
    const char *near = closest_name(name, next_effect, &i);
    Diag *d = DIAG_AT(E->sink, E0503, e->span, name);

    diag_note(d, "effects are %s", ALL_NAMES);
    if (near)
        diag_guess(d, span_quoted(e->span), name, near);
}

static void read_name(Effects *E, EffFn *f, const Ast *e)
{
    Effect x;

    if (!AST_IS(e, Str))
        return;
    if (!strcmp(AST_AS(e, Str)->value.s, "all"))
        f->declares = EFFECTS_ALL, f->is_all = true;
    else if (effect_find(AST_AS(e, Str)->value.s, &x))
        f->declares |= (uint8_t)(1u << x);
    else if (f->own)
        unknown_effect(E, e, AST_AS(e, Str)->value.s);
}

/* @effects(["random", "io"]); names that are not written out leave the function undeclared. */
static void read_effects(Effects *E, EffFn *f, const AstCall *c)
{
    AstSeq names;
    Ast *list = c->args.n == 1 && AST_IS(c->args.at[0], Arg) ? AST_AS(c->args.at[0], Arg)->value : NULL;

    if (!AST_IS(list, List) && !AST_IS(list, Tuple) && !AST_IS(list, Set))
        return;
    names = AST_IS(list, List) ? AST_AS(list, List)->elts : AST_IS(list, Tuple) ? AST_AS(list, Tuple)->elts : AST_AS(list, Set)->elts;
    for (int i = 0; i < names.n; i++)
        if (!AST_IS(names.at[i], Str))
            return;
    f->declared_at = &c->ast;
    for (int i = 0; i < names.n; i++)
        read_name(E, f, names.at[i]);
}

void declared_read(Effects *E, EffFn *f)
{
    AstSeq list = f->node->kind == AST_FunctionDef ? AST_AS(f->node, FunctionDef)->decorators : (AstSeq){0};
    Scope *scope = f->scope ? f->scope->parent : NULL;

    for (int i = 0; scope && i < list.n; i++) {
        Ast *d = list.at[i], *name = d->kind == AST_Call ? AST_AS(d, Call)->func : d;
        if (effects_is_library(E, scope, name, "scopes", "pure")) {
            f->is_pure = true;
            f->declared_at = d;
        } else if (d->kind == AST_Call && effects_is_library(E, scope, name, "_Effects", "__call__")) {
            read_effects(E, f, AST_AS(d, Call));
        } else if (effects_is_library(E, scope, name, "module", "stateful")) {
            f->is_stateful = true;
        }
    }
}

/* ------------------------------------------------------------- naming */

static void print_bits(const EffFn *f, uint8_t bits, StrBuf *out)
{
    const char *sep = "";

    for (int b = 0; b < EFF_COUNT; b++) {
        if (!(bits >> b & 1))
            continue;
        sb_printf(out, "%s%s", sep, effect_name[b]);
        sep = ", ";
        if (b != EFF_state || !f || !f->ndetail)
            continue;
        for (int i = 0; i < f->ndetail; i++)
            sb_printf(out, "%s%s", i ? ", " : "(", f->detail[i]);
        sb_putc(out, ')');
    }
}

static const char *bits_text(Effects *E, const EffFn *f, uint8_t bits)
{
    StrBuf b = {0};
    const char *text;

    print_bits(f, bits, &b);
    text = arena_strdup(&E->arena, sb_str(&b));
    sb_done(&b);
    return text;
}

static const char *fn_name(const EffFn *f)
{
    return f->name ? f->name->text : "lambda";
}

/* From the call to the cause: each function on the way gets a label where it goes on. */
static void explain(Effects *E, Diag *d, const EffSource *s, uint8_t bits)
{
    const EffFn *f = s->next;
    int bit = 0;

    while (bit < EFF_COUNT - 1 && !(bits >> bit & 1))
        bit++;
    for (int hop = 0; f && hop < 3; hop++) {
        const Why *y = &f->why[bit];
        if (f->declared_at && f->declares >> bit & 1) {
            diag_note(d, "%s() declares the effect %s", fn_name(f), f->is_all ? "all" : effect_name[bit]);
            return;
        }
        if (!y->span.hi)
            return;
        if (source_of(y->span.lo) == E->u->src)
            diag_label(d, y->span, "%s() has the effect '%s' from here", fn_name(f), effect_name[bit]);
        else
            diag_note(d, "%s() of the library has the effect '%s' because it calls %s()", fn_name(f), effect_name[bit], y->what);
        f = y->next;
    }
}

/* ------------------------------------------------------------- breaking a declaration */

static void broken_pure(EffWalk *w, const EffSource *s, uint8_t bits)
{
    Effects *E = w->E;
    const EffFn *f = w->fn;
    Diag *d = DIAG_AT(E->sink, E0502, s->span, fn_name(f), bits_text(E, f, bits));

    diag_label(d, f->declared_at->span, "declared pure here");
    explain(E, d, s, bits);
    diag_help(d, "declare what it does: @tessera.effects([\"%s\"])", bits_text(E, NULL, bits));
}

static void broken_effects(EffWalk *w, const EffSource *s, uint8_t bits)
{
    Effects *E = w->E;
    const EffFn *f = w->fn;
    StrBuf want = {0};
    bool all = s->next && s->next->is_all;
    Diag *d = DIAG_AT(E->sink, E0504, s->span, fn_name(f), all ? "all" : bits_text(E, f, bits), *s->what ? s->what : "this");

    diag_label(d, f->declared_at->span, f->declares ? "it declares only %s" : "it declares none", bits_text(E, NULL, f->declares));
    explain(E, d, s, bits);
    if (all) {
        diag_help(d, "a caller of %s() declares [\"all\"]", fn_name(s->next));
    } else {
        for (int b = 0; b < EFF_COUNT; b++)
            if ((f->declares | bits) >> b & 1)
                sb_printf(&want, "%s\"%s\"", want.n ? ", " : "", effect_name[b]);
        diag_help(d, "declare it too: @tessera.effects([%s])", sb_str(&want));
    }
    sb_done(&want);
}

static void broken_suspension(EffWalk *w, const EffSource *s, uint8_t bits)
{
    for (int b = 0; b < EFF_COUNT; b++)
        if (bits >> b & 1) {
            Diag *d = DIAG_AT(w->E->sink, E0505, s->span, effect_name[b]);
            diag_label(d, w->suspended_at[b]->span, "suspended by this");
            explain(w->E, d, s, (uint8_t)(1u << b));
            diag_help(d, "move it behind the block");
            return;
        }
}

const char *effects_callee(Effects *E, const char *name)
{
    size_t n = strlen(name);
    char *text = arena_alloc(&E->arena, n + 3);

    if (!n)
        return "this call";
    memcpy(text, name, n);
    memcpy(text + n, "()", 3);
    return text;
}

/* From the call to the one that was not followed to its end. */
static void explain_more(Diag *d, const EffFn *f)
{
    for (int hop = 0; f && hop < 3; hop++, f = f->more.next)
        if (!f->owner)
            diag_label(d, f->more.span, "%s() calls this", fn_name(f));
}

static void not_followed(EffWalk *w, const EffSource *s)
{
    Diag *d;

    if (!w->suspended && (!w->fn || !w->fn->declared_at || w->fn->is_all))
        return;
    d = DIAG_AT(w->E->sink, E0514, s->span, effects_callee(w->E, s->what));
    if (w->suspended)
        diag_note(d, "effects are suspended here");
    else
        diag_label(d, w->fn->declared_at->span, "the effects of %s() are declared here", fn_name(w->fn));
    explain_more(d, s->next);
}

static void found(EffWalk *w, const EffSource *s)
{
    uint8_t bits = w->fn && w->fn->declared_at ? s->bits & EFFECTS_ALL & (uint8_t)~w->fn->declares : 0;

    if (s->bits & EFFECTS_MORE)
        not_followed(w, s);
    if (w->fn && w->fn->is_pure)
        bits &= (uint8_t)~(1u << EFF_memory);       /* what a cache holds cannot be observed */
    if (s->bits & w->suspended)
        broken_suspension(w, s, s->bits & w->suspended);
    else if (bits && w->fn->is_pure)
        broken_pure(w, s, bits);
    else if (bits)
        broken_effects(w, s, bits);
}

/* ------------------------------------------------------------- objects with state */

typedef struct { Effects *E; const EffFn *m; Scope *scope; bool found; int depth; } Calls;

static bool find_call(Ast *n, void *state)
{
    Calls *c = state;
    Things t;

    if (!n || c->found || c->depth > 400)
        return !c->found;
    if (n->kind == AST_Call && AST_IS(AST_AS(n, Call)->func, Attribute) && AST_AS(AST_AS(n, Call)->func, Attribute)->attr == c->m->name) {
        t = things_of(c->E, c->scope, AST_AS(n, Call)->func);
        for (int i = 0; i < t.n; i++)
            c->found |= t.at[i].kind == THING_FN && t.at[i].p == c->m;
    }
    c->depth++;
    ast_walk(n, find_call, c);
    c->depth--;
    return !c->found;
}

static bool calls_method(EffFn *f, Effects *E, const EffFn *m)
{
    Calls c = {E, m, f ? f->scope : NULL, false, 0};

    if (f && f != m)
        ast_walk(f->node, find_call, &c);
    return c.found;
}

/* Making an object and taking it back to its beginning may write its state; what only they call, too. */
static bool is_exempt(Effects *E, const EffFn *f)
{
    return !strncmp(f->name->text, "__init", 6) || !strcmp(f->name->text, "reset") || !strncmp(f->name->text, "load", 4) ||
           f->name->text[0] == '_' || calls_method(things_method(E, f->cls, "__init__"), E, f) ||
           calls_method(things_method(E, f->cls, "reset"), E, f);
}

/* Is this a method that has to say that it changes its object, and does not? */
static bool keeps_quiet(Effects *E, const EffFn *f)
{
    return f->cls && f->name && !f->is_static && f->writes & 1 && !f->is_stateful && !f->declared_at &&
           things_derives(E, f->cls, "Stateful") && !is_exempt(E, f);
}

static void undeclared_write(EffWalk *w, const EffSource *s)
{
    EffFn *f = w->fn;

    if (!(s->bits >> EFF_state & 1) || w->statement == f->node || (s->next && keeps_quiet(w->E, s->next)))
        return;
    w->statement = f->node;                         /* one report a method */
    diag_help(DIAG_AT(w->E->sink, E0507, s->span, f->cls->def->name->text, fn_name(f), f->ndetail ? f->detail[0] : "write self"),
              "decorate it with @tessera.stateful");
}

static void check_stateful(Effects *E, EffFn *f)
{
    EffWalk w = {.E = E, .fn = f, .found = undeclared_write};

    if (f->own && keeps_quiet(E, f))
        effects_walk(&w);
}

/* The inference was given up: what is declared was not held against all that may happen. */
static void check_settled(Effects *E)
{
    for (int i = 0; E->unsettled && i < E->own.n; i++)
        if (E->own.at[i]->declared_at && !E->own.at[i]->is_all)
            DIAG_AT(E->sink, E0514, E->own.at[i]->declared_at->span, effects_callee(E, fn_name(E->own.at[i])));
}

/* What a decorator below the declaration makes of f is what the declaration speaks of. */
static void check_decorators(EffWalk *w)
{
    AstSeq list = w->fn->node->kind == AST_FunctionDef ? AST_AS(w->fn->node, FunctionDef)->decorators : (AstSeq){0};
    bool below = false;

    for (int i = 0; w->fn->declared_at && i < list.n; i++) {
        Things d = below ? things_of(w->E, w->fn->scope->parent, list.at[i]) : (Things){.n = 0};
        for (int k = 0; k < d.n; k++)
            if (d.at[k].kind == THING_FN && !((const EffFn *)d.at[k].p)->owner)
                for (const Given *g = ((const EffFn *)d.at[k].p)->returns; g; g = g->next)
                    effects_passed(w, g->scope, g->value, list.at[i]->span);
        below |= list.at[i] == w->fn->declared_at;
    }
}

void declared_check(Effects *E)
{
    EffWalk module = {.E = E, .found = found};

    effects_walk(&module);
    check_settled(E);
    for (int i = 0; i < E->own.n; i++) {
        EffWalk w = {.E = E, .fn = E->own.at[i], .found = found};
        if (w.fn->scope) {
            effects_walk(&w);
            check_decorators(&w);
        }
        check_stateful(E, E->own.at[i]);
    }
}

/* ------------------------------------------------------------- printing */

void declared_print(const Effects *E, StrBuf *out)
{
    for (int i = 0; i < E->own.n; i++) {
        const EffFn *f = E->own.at[i];
        uint8_t seen = effects_seen(f), bits = seen & EFFECTS_ALL;
        const char *sep = "";
        if (!f->name)
            continue;
        if (f->cls)
            sb_printf(out, "%s.", f->cls->def->name->text);
        sb_printf(out, "%s: ", f->name->text);
        if (f->is_all)
            sb_puts(out, "all");
        else
            print_bits(f, bits, out);
        sep = bits ? ", " : "";
        for (int slot = 0; slot < 64; slot++)
            if (f->calls >> slot & 1 && things_param(f, slot)) {
                sb_printf(out, "%sthose of '%s'", sep, things_param(f, slot)->name->text);
                sep = ", ";
            }
        if (seen & EFFECTS_MORE)
            sb_printf(out, "%snot all known\n", sep);
        else
            sb_puts(out, bits || f->calls ? "\n" : "none\n");
    }
}
