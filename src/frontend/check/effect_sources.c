/*
 * Where an effect is noted, and whose the object is that a function changes.
 *
 * The origin of an object is a parameter, a variable of a function around, something outside, or
 * nothing of these: what the function made itself is nobody else's, and to change it is no effect.
 */
#include "frontend/check/effect_walk.h"

#include <string.h>

enum { ROOT_DEPTH = 200 };
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

Root effect_root(EffWalk *w, Ast *e)
{
    w->E->searches++;
    w->lost = false;
    return root_from(w, e, 0);
}

void effect_detail(EffWalk *w, const char *text)
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

void effect_source(EffWalk *w, EffSource s)
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
void effect_change(EffWalk *w, Root r, Span span, const char *what, const EffFn *next, const char *text)
{
    EffFn *f = w->fn;

    if (w->lost)
        effect_source(w, (EffSource){EFFECTS_MORE, span, what, NULL});
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
    effect_detail(w, text);
    effect_source(w, (EffSource){1u << EFF_state, span, what, next});
}

const char *effect_write_text(EffWalk *w, Ast *target)
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
