/*
 * What a scope binds: every name that its body assigns, imports, declares or deletes, collected before the body is walked.
 *
 * global and nonlocal must stand before what they speak of, so a body with one of them is gone through again up to it: what was
 * met there is kept from then on (Frame.decl).  Of bodies whose variables some way may leave unset, the scope remembers that.
 */
#include "frontend/check/resolve.h"

#include "frontend/check/collect.h"
#include "frontend/check/spaces.h"

static void declare(Res *R, Frame *f, CollectEvent e, Sym name, Ast *node)
{
    const char *word = e == COLLECT_GLOBAL ? "global" : "nonlocal";
    Local *own = scope_local(f->scope, name);
    uintptr_t d = 0;

    map_find(&f->decl, (uintptr_t)name, &d);
    if (e == COLLECT_NONLOCAL && f->scope->kind == SCOPE_MODULE)
        DIAG_AT(R->sink, E0205, node->span, name->text);
    else if (own && own->is_param)
        diag_label(DIAG_AT(R->sink, E0207, node->span, name->text, word), own->decl, "the parameter");
    else if (d & (DECL_USED | DECL_BOUND) && f->scope->kind != SCOPE_MODULE) {
        Diag *late = DIAG_AT(R->sink, E0206, node->span, name->text, d & DECL_BOUND ? "assigned" : "used", word);
        if (own)
            diag_label(late, own->decl, "assigned here");
    } else if (d & (e == COLLECT_GLOBAL ? DECL_NONLOCAL : DECL_GLOBAL))
        DIAG_AT(R->sink, E0216, node->span, name->text);
    else if (e == COLLECT_GLOBAL) {
        map_set(&f->decl, (uintptr_t)name, d | DECL_GLOBAL);
        if (!scope_local(R->globals, name))
            scope_add_local(R->globals, name, node->span, NULL);
    } else if (frame_find(R, f->up, name, false).bind != BIND_FREE &&
               frame_find(R, f->up, name, false).bind != BIND_LOCAL)
        DIAG_AT(R->sink, E0204, node->span, name->text);
    else
        map_set(&f->decl, (uintptr_t)name, d | DECL_NONLOCAL);
}

/*
 * `body` is what is collected; declares: it has a global or nonlocal statement, so that what was met before counts; ways: how many
 * statements around what is being collected may pass it by.
 */
typedef struct { Res *R; Frame *f; AstSeq body; bool declares; int ways; } Binding;

static void meet(Frame *f, CollectEvent e, Sym name)
{
    uintptr_t d = 0, now = e == COLLECT_BIND ? DECL_BOUND : DECL_USED;

    map_find(&f->decl, (uintptr_t)name, &d);
    if (!(d & now))
        map_set(&f->decl, (uintptr_t)name, d | now);
}

typedef struct { Frame *f; const Ast *until; bool past; } Earlier;

static void meet_earlier(void *state, CollectEvent e, Sym name, Ast *node)
{
    Earlier *x = state;

    x->past |= node == x->until;
    if (!x->past && (e == COLLECT_BIND || e == COLLECT_USE))
        meet(x->f, e, name);
}

/* The first declaration: few bodies have one, so nothing was kept until now. */
static void begin_declaring(Binding *b, const Ast *declaration)
{
    Earlier x = {b->f, declaration, false};

    collect_block(b->body, meet_earlier, &x);
    b->declares = true;
}

static void bind_star(Res *R, Frame *f, AstImportFrom *imp)
{
    const Space *s = imp->module ? space_import(imp->module->text, (int)imp->level, R->u->src->path) : NULL;
    int n = s ? s->exported.n : 0;

    imp->names.at = n ? arena_array(&R->u->arena, Ast *, n) : NULL;
    imp->names.n = n;
    for (int i = 0; i < n; i++) {
        AstAlias *a = ast_new(&R->u->arena, Alias, imp->ast.span);
        a->name = s->exported.at[i];
        imp->names.at[i] = (Ast *)a;
        frame_bind(R, f, a->name, imp->ast.span, (Ast *)imp);
    }
}

static bool first_binding(const Scope *s, Sym name)
{
    const Local *l = scope_local(s, name);

    return l && l->nbinds == 1 && !l->is_param;
}

static void on_event(void *state, CollectEvent e, Sym name, Ast *node)
{
    Binding *b = state;

    if (b->declares && (e == COLLECT_BIND || e == COLLECT_USE))
        meet(b->f, e, name);
    switch (e) {
    case COLLECT_BIND:
        frame_bind(b->R, b->f, name, node->span, node);
        b->f->scope->ways |= b->ways && !b->f->scope->ways && first_binding(b->f->scope, name);
        break;
    case COLLECT_WAYS:
        b->ways++;
        b->f->scope->ways |= node->kind == AST_Del;
        break;
    case COLLECT_MEET:
        b->ways--;
        break;
    case COLLECT_USE:
        break;
    case COLLECT_GLOBAL:
    case COLLECT_NONLOCAL:
        if (!b->declares)
            begin_declaring(b, node);
        declare(b->R, b->f, e, name, node);
        break;
    case COLLECT_STAR:
        bind_star(b->R, b->f, AST_AS(node, ImportFrom));
        break;
    case COLLECT_YIELD:
        b->f->scope->is_generator = true;
        break;
    case COLLECT_AWAIT:
        break;
    }
}

void scope_bind_block(Res *R, Frame *f, AstSeq body)
{
    Binding b = {R, f, body, false, 0};

    collect_block(body, on_event, &b);
}

void scope_bind_expr(Res *R, Frame *f, Ast *e)
{
    Binding b = {.R = R, .f = f};

    collect_expr(e, on_event, &b);
}
