/*
 * Binding: positional arguments in turn, then keywords, then what is missing;
 * and what is said when a call and its parameters do not go together.
 */
#include "frontend/check/binding.h"

#include "frontend/check/foreign.h"

#include <stdio.h>
#include <string.h>

/* There is one for each call: only what is used of it is set. */
void slots_init(Slots *s, const char *callee, AstSeq params)
{
    s->params = params;
    s->n = 0;
    s->callee = callee;
    s->any = s->open = false;
    s->rest = s->names = NULL;
    s->nextra = 0;
}

typedef struct { const Slots *s; int i; } Names;

static const char *next_name(void *state)
{
    Names *n = state;

    while (n->i < n->s->n) {
        const Slot *p = &n->s->at[n->i++];
        if (p->name && (p->kind == PARAM_NORMAL || p->kind == PARAM_KWONLY))
            return p->name->text;
    }
    return NULL;
}

/* The parameters that a call does not go with. */
static Diag *label_params(Diag *d, const Slots *s)
{
    if (s->params.n)
        diag_label(d, span_join(s->params.at[0]->span, s->params.at[s->params.n - 1]->span), "the parameters of %s()", s->callee);
    return d;
}

static Slot *slot_named(Slots *s, Sym name)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i].name == name && (s->at[i].kind == PARAM_NORMAL || s->at[i].kind == PARAM_KWONLY))
            return &s->at[i];
    return NULL;
}

void help_names(Diag *d, const char *what, const char *(*next)(void *), void *state)
{
    enum { MOST = 8 };
    StrBuf list = {0};
    const char *name;
    int n = 0;

    while ((name = next(state)) && n <= MOST) {
        if (name[0] == '_' || !strcmp(name, "self"))
            continue;
        if (n < MOST)
            sb_printf(&list, "%s%s", n ? ", " : "", name);
        else
            sb_puts(&list, ", ...");
        n++;
    }
    if (n)
        diag_help(d, "%s %s", what, sb_str(&list));
    sb_done(&list);
}

static bool unknown_keyword(Check *C, const Slots *s, const CallArg *a, Ast *node)
{
    Names n = {s, 0};
    Diag *d = label_params(REPORT(C, E0904, at_call(node, a->node), s->callee, a->name->text), s);
    const char *near = closest_name(a->name->text, next_name, &n);
    char where[96];
    const Foreign *known;

    snprintf(where, sizeof where, "keyword of %.60s", s->callee);
    known = foreign_find(where, a->name->text);
    known = known ? known : foreign_find("keyword", a->name->text);
    if (known && AST_IS(a->node, Arg) && (!known->ours || slot_named((Slots *)s, sym(known->ours))))
        foreign_help(d, known, span_head(a->node->span, a->name->text));
    else if (near && AST_IS(a->node, Arg))
        diag_guess(d, span_head(a->node->span, a->name->text), a->name->text, near);
    else
        help_names(d, "it takes", next_name, &(Names){s, 0});
    return false;
}

static Slot *slot_of_kind(Slots *s, int kind)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i].kind == kind)
            return &s->at[i];
    return NULL;
}

static bool keep_extra(Slots *s, const CallArg *a)
{
    if (s->nextra < ITEMS_MAX)
        s->extra[s->nextra] = a;
    s->nextra++;
    return true;
}

/* What *args and **kw get of a call whose arguments are all known. */
static void gather_extra(Slots *s)
{
    const Type *rest[ITEMS_MAX], *names[ITEMS_MAX];
    int n = 0, k = 0;

    for (int i = 0; i < s->nextra; i++) {
        const CallArg *x = s->extra[i];
        const Type *t = x->type ? x->type : T_ANY;
        if (!x->name)
            rest[n++] = t;
        else if (k + 2 <= ITEMS_MAX)
            names[k++] = type_str(x->name), names[k++] = t;
        else
            return;
    }
    if (slot_of_kind(s, PARAM_VARARGS))
        s->rest = type_tuple(rest, n);
    if (slot_of_kind(s, PARAM_KWARGS))
        s->names = type_dict_of(names, k);
}

static bool bind_keyword(Check *C, Slots *s, const CallArg *a, Ast *node)
{
    Slot *p = slot_named(s, a->name);

    if (!p && (slot_of_kind(s, PARAM_KWARGS) || s->any))
        return keep_extra(s, a);
    if (!p)
        return unknown_keyword(C, s, a, node);
    if (p->taken) {
        Diag *d = REPORT(C, E0905, at_call(node, a->node), s->callee, a->name->text);
        if (p->arg)
            diag_label(d, p->arg->node->span, "given here first");
        return false;
    }
    p->taken = 1;
    p->arg = a;
    return true;
}

static bool too_many(Check *C, const Slots *s, const CallArg *a, int given, int skip, Ast *node)
{
    Diag *d;
    char text[96];
    int most = 0;

    for (int i = 0; i < s->n; i++)
        most += s->at[i].kind == PARAM_POSONLY || s->at[i].kind == PARAM_NORMAL;
    if (skip)
        snprintf(text, sizeof text, "%d given besides the object, it takes %d", given, most > skip ? most - skip : 0);
    else
        snprintf(text, sizeof text, "%d given, it takes %d by position", given, most);
    d = label_params(REPORT(C, E0903, at_call(node, a->node), s->callee, text), s);
    for (int i = 0; i < s->n; i++)
        if (s->at[i].kind == PARAM_KWONLY && !s->at[i].taken && s->at[i].name) {
            diag_help(d, "what stands behind * is passed by its name: %s=...", s->at[i].name->text);
            break;
        }
    if (skip && s->params.n && s->n && s->at[0].name && strcmp(s->at[0].name->text, "self") && strcmp(s->at[0].name->text, "cls"))
        diag_help(d, "a method's first parameter is its object: def %s(self, %s%s)", s->callee, s->at[0].name->text, s->n > 1 ? ", ..." : "");
    return false;
}

/* Is there a parameter for the object that a method is called of? */
static bool takes_object(const Slots *s) { return s->n && (s->at[0].kind == PARAM_POSONLY || s->at[0].kind == PARAM_NORMAL); }

/* Positional arguments in turn, then keywords, then what is missing. */
bool slots_bind(Check *C, Slots *s, CallArgs *a, int skip, Ast *node)
{
    int at = skip, given = 0;
    bool positional_open = false;

    s->open = a->open;
    if (skip && !s->any && !slot_of_kind(s, PARAM_VARARGS) && !takes_object(s)) {
        diag_help(label_params(REPORT(C, E0903, node->span, s->callee, "the object is given, it takes nothing by position"), s),
                  "a method's first parameter is its object: def %s(self)", s->callee);
        return false;
    }
    for (int i = 0; i < skip && i < s->n; i++)
        s->at[i].taken = 1;
    for (int i = 0; i < a->n; i++)
        given += !a->at[i].name && !a->at[i].stars;
    for (int i = 0; i < a->n; i++) {
        const CallArg *x = &a->at[i];
        if (x->stars)
            positional_open |= x->stars == 1;
        else if (x->name) {
            if (!bind_keyword(C, s, x, node))
                return false;
        } else if (!positional_open) {
            while (at < s->n && s->at[at].kind != PARAM_POSONLY && s->at[at].kind != PARAM_NORMAL)
                at++;
            if (at < s->n) {
                s->at[at].taken = 1;
                s->at[at++].arg = x;
            } else if (!slot_of_kind(s, PARAM_VARARGS) && !s->any) {
                return too_many(C, s, x, given, skip, node);
            } else {
                keep_extra(s, x);
            }
        }
    }
    if (!a->open && s->nextra < ITEMS_MAX)
        gather_extra(s);
    for (int i = 0; i < s->n && !a->open; i++)
        if (s->at[i].required && !s->at[i].taken) {
            label_params(REPORT(C, E0902, node->span, s->callee, s->at[i].name ? s->at[i].name->text : "?"), s);
            return false;
        }
    return true;
}

bool slots_read(AstSeq params, Slots *s)
{
    s->n = 0;
    s->any = false;
    for (int i = 0; i < params.n; i++) {
        const AstParam *p = AST_AS(params.at[i], Param);
        if (p->ast.kind != AST_Param || p->kind == PARAM_CONSTRAINT)
            continue;
        if (p->kind == PARAM_ANY || !p->name) {
            s->any = true;
            continue;
        }
        if (s->n == 64)
            return false;
        s->at[s->n++] = (Slot){p->name, (uint8_t)p->kind,
                               !p->dflt && p->kind != PARAM_VARARGS && p->kind != PARAM_KWARGS, NULL, 0};
    }
    return true;
}
