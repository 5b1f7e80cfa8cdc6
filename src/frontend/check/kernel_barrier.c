/*
 * Barriers, and work of the group, that only some tiles of a group reach.
 *
 * A value varies when it comes from the tile's own number, or from memory at an
 * index that does.  A barrier under control that varies, in a loop whose length
 * does, or behind an exit that only some tiles take, leaves the others waiting;
 * a block value that is loaded or stored there is nobody's.
 * What may vary but need not (a warp's sum in a group of one warp) counts as
 * uniform: only what surely depends on the tile's number is reported.
 *
 * Variables have one answer for the whole kernel; the walk is repeated until no
 * answer changes, then once aloud.  The table of operations says which vary.
 */
#include "frontend/check/kernels.h"

#include <string.h>

enum { ROUNDS = 16, DEPTH = 600 };

typedef struct Vary {
    Check *C;
    Map varies;                 /* Sym of a variable -> 1 */
    const Ast *why;             /* the condition around that varies; NULL: every tile gets here */
    const char *how;
    bool report, changed;
    bool once;                  /* no tile asks who it is: what atomics give is the group's */
    int depth;
} Vary;

/* ------------------------------------------------------------- expressions */

static bool varies(Vary *v, Ast *e);

typedef struct { Vary *v; bool found; } Any;

static bool any_child(Ast *n, void *state)
{
    Any *a = state;

    a->found = a->found || varies(a->v, n);
    return true;
}

static const KernelOp *called(const AstCall *c)
{
    const Type *f = type_found(c->func);

    if (type_is_any(f))
        return NULL;
    if (f->kind == TY_METHOD)
        f = f->ref;
    return f->kind == TY_NATIVE ? kernel_op_of(f->ref) : NULL;
}

static bool call_varies(Vary *v, AstCall *c)
{
    const KernelOp *op = called(c);
    Any a = {v, false};

    if (op && op->varies != VARY_ARGS)
        return op->varies == VARY_LANE && !(v->once && op->effects & KERNEL_ATOMIC);
    for (int i = 0; i < c->args.n; i++)
        any_child(c->args.at[i], &a);
    return a.found;
}

static bool varies(Vary *v, Ast *e)
{
    Any a = {v, false};

    if (!e || v->depth > DEPTH)
        return false;
    v->depth++;
    switch (e->kind) {
    case AST_Name:
        a.found = map_find(&v->varies, (uintptr_t)AST_AS(e, Name)->id, NULL);
        break;
    case AST_Call:
        a.found = call_varies(v, AST_AS(e, Call));
        break;
    case AST_Attribute:                             /* x.shape */
        break;
    case AST_Subscript:                             /* an array's elements vary with the index */
        a.found = varies(v, AST_AS(e, Subscript)->index);
        break;
    default:
        ast_walk(e, any_child, &a);
    }
    v->depth--;
    return a.found;
}

/* ------------------------------------------------------------- statements */

static void mark(Vary *v, Ast *target, bool on)
{
    if (AST_IS(target, Tuple) || AST_IS(target, List)) {
        AstSeq e = AST_IS(target, Tuple) ? AST_AS(target, Tuple)->elts : AST_AS(target, List)->elts;
        for (int i = 0; i < e.n; i++)
            mark(v, e.at[i], on);
    } else if (on && AST_IS(target, Name) && !map_find(&v->varies, (uintptr_t)AST_AS(target, Name)->id, NULL)) {
        map_set(&v->varies, (uintptr_t)AST_AS(target, Name)->id, 1);
        v->changed = true;
    }
}

/* What a pattern gives names to varies as its subject does. */
static bool mark_pattern(Ast *p, void *state)
{
    Vary *v = state;
    Sym name = p && p->kind == AST_PatCapture ? AST_AS(p, PatCapture)->name : p && p->kind == AST_PatAs ? AST_AS(p, PatAs)->name : NULL;

    if (name && !map_find(&v->varies, (uintptr_t)name, NULL)) {
        map_set(&v->varies, (uintptr_t)name, 1);
        v->changed = true;
    }
    return !p || ast_walk(p, mark_pattern, v);
}

/* Does it need all tiles of the group? A warp has fragments of its own. */
static bool waits(const KernelOp *op)
{
    if (op->effects & KERNEL_SYNC)
        return true;
    return op->level == KERNEL_BLOCK && kernel_is_group_work(op) && kernel_op_id(op) != KOP_mma && !(op->effects & KERNEL_ALLOC);
}

typedef struct { const KernelOp *op; int depth; } Sync;

static bool find_sync(Ast *n, void *state)
{
    Sync *s = state;
    const KernelOp *op;

    if (!n || s->op || s->depth > DEPTH)
        return true;
    op = n->kind == AST_Call ? kernel_called(AST_AS(n, Call)) : NULL;
    if (op && waits(op))
        s->op = op;
    s->depth++;
    ast_walk(n, find_sync, s);
    s->depth--;
    return true;
}

/* The barrier, or the group's work, that a call is, or that the program's function which it calls has in its body; NULL: none. */
static const KernelOp *barrier_of(const AstCall *c)
{
    const Type *f = type_found(c->func);
    const KernelOp *op = called(c);
    Sync s = {NULL, 0};

    if (op || type_is_any(f) || f->kind != TY_FUNC)
        return op && waits(op) ? op : NULL;
    ast_walk(((const Fn *)f->ref)->node, find_sync, &s);
    return s.op;
}

/* a if t < n else b: only some tiles look at a. */
static bool find_in_arms(Vary *v, AstIfExp *e);

static bool find_barriers(Ast *n, void *state)
{
    Vary *v = state;
    const KernelOp *op;

    if (!n || v->depth > DEPTH)
        return true;
    if (n->kind == AST_IfExp && !v->why && varies(v, AST_AS(n, IfExp)->test))
        return find_in_arms(v, AST_AS(n, IfExp));
    v->depth++;
    op = n->kind == AST_Call && v->why && v->report ? barrier_of(AST_AS(n, Call)) : NULL;
    if (op) {
        Diag *d = REPORT(v->C, E0605, n->span, kernel_op_text(op), op->effects & KERNEL_SYNC ? "a barrier" : "the group's work");
        diag_label(d, v->why->span, "%s", v->how);
        diag_help(d, "move it out, so that all tiles of the group reach it");
    }
    ast_walk(n, find_barriers, v);
    v->depth--;
    return true;
}

static bool find_in_arms(Vary *v, AstIfExp *e)
{
    v->why = e->test;
    v->how = "only some tiles of a group go this way";
    find_barriers(e->body, v);
    find_barriers(e->orelse, v);
    v->why = NULL;
    return true;
}

static void block_of(Vary *v, AstSeq body);

/* The body under a condition; control is as before afterwards. */
static void under(Vary *v, AstSeq body, const Ast *why, const char *how)
{
    const Ast *outer = v->why;
    const char *before = v->how;

    if (why && !v->why) {
        v->why = why;
        v->how = how;
    }
    block_of(v, body);
    v->why = outer;
    v->how = before;
}

/* The first way out of this kind that only some tiles take; NULL: there is none. */
typedef struct { Vary *v; const Ast *why; bool loop; } Exit;

static bool find_exit(Ast *n, void *state);

static const Ast *exit_in(Vary *v, AstSeq body, bool loop)
{
    Exit x = {v, NULL, loop};

    for (int i = 0; i < body.n && !x.why; i++)
        find_exit(body.at[i], &x);
    return x.why;
}

static bool leaves(Ast *n, void *state)
{
    bool *found = state;

    *found |= n && n->kind == AST_Return;
    if (n && !*found)
        ast_walk(n, leaves, found);
    return true;
}

/* loop: break and continue of this loop count too. */
static bool leaves_loop(Ast *n, void *state)
{
    bool *found = state;

    *found |= n && (n->kind == AST_Return || n->kind == AST_Break || n->kind == AST_Continue);
    if (n && !*found && n->kind != AST_For && n->kind != AST_While)
        ast_walk(n, leaves_loop, found);
    return true;
}

static bool find_exit(Ast *n, void *state)
{
    Exit *x = state;
    bool out = false;

    if (!n || x->why || (x->loop && (n->kind == AST_For || n->kind == AST_While)))
        return true;
    if (n->kind == AST_If && varies(x->v, AST_AS(n, If)->test)) {
        ast_walk(n, x->loop ? leaves_loop : leaves, &out);
        if (out) {
            x->why = AST_AS(n, If)->test;
            return true;
        }
    }
    ast_walk(n, find_exit, x);
    return true;
}

static void loop(Vary *v, Ast *head, AstSeq body, AstSeq orelse, Ast *target)
{
    bool differs = varies(v, head);
    const Ast *out = exit_in(v, body, true);

    if (target)
        mark(v, target, differs || v->why);
    under(v, body, out ? out : differs ? head : NULL,
          out ? "some tiles of a group leave here" : "tiles of a group go around this loop a different number of times");
    under(v, orelse, out, "some tiles of a group leave here");
}

/* Each case is a way that only some tiles go where the subject, or what a case before asks, varies. */
static void match_of(Vary *v, AstMatch *m)
{
    const Ast *why = varies(v, m->subject) ? m->subject : NULL;

    find_barriers(m->subject, v);
    for (int i = 0; i < m->cases.n; i++) {
        AstMatchCase *c = AST_AS(m->cases.at[i], MatchCase);
        if (why)
            mark_pattern(c->pattern, v);
        why = why || !varies(v, c->guard) ? why : c->guard;
        under(v, c->body, why, "only some tiles of a group go this way");
    }
}

static void statement(Vary *v, Ast *s)
{
    switch (s->kind) {
    case AST_Assign: {
        bool on = varies(v, AST_AS(s, Assign)->value) || v->why;
        for (int i = 0; i < AST_AS(s, Assign)->targets.n; i++)
            mark(v, AST_AS(s, Assign)->targets.at[i], on);
        break;
    }
    case AST_AugAssign:
        mark(v, AST_AS(s, AugAssign)->target, varies(v, AST_AS(s, AugAssign)->value) || v->why);
        break;
    case AST_AnnAssign:
        mark(v, AST_AS(s, AnnAssign)->target, varies(v, AST_AS(s, AnnAssign)->value) || v->why);
        break;
    default:
        break;
    }
    if (s->kind == AST_If) {
        AstIf *i = AST_AS(s, If);
        const Ast *why = varies(v, i->test) ? i->test : NULL;
        find_barriers(i->test, v);
        under(v, i->body, why, "only some tiles of a group go this way");
        under(v, i->orelse, why, "only some tiles of a group go this way");
    } else if (s->kind == AST_While) {
        find_barriers(AST_AS(s, While)->test, v);
        loop(v, AST_AS(s, While)->test, AST_AS(s, While)->body, AST_AS(s, While)->orelse, NULL);
    } else if (s->kind == AST_For) {
        loop(v, AST_AS(s, For)->iter, AST_AS(s, For)->body, AST_AS(s, For)->orelse, AST_AS(s, For)->target);
    } else if (s->kind == AST_Match) {
        match_of(v, AST_AS(s, Match));
    } else if (s->kind != AST_FunctionDef && s->kind != AST_ClassDef) {
        find_barriers(s, v);
    }
}

static void block_of(Vary *v, AstSeq body)
{
    const Ast *outer = v->why;
    const char *before = v->how;

    if (v->depth > DEPTH)
        return;
    v->depth++;
    for (int i = 0; i < body.n; i++) {
        const Ast *out;
        statement(v, body.at[i]);
        out = v->why ? NULL : exit_in(v, (AstSeq){&body.at[i], 1}, false);
        if (out) {                                  /* after it only the other tiles go on */
            v->why = out;
            v->how = "some tiles of a group have returned here";
        }
    }
    v->depth--;
    v->why = outer;
    v->how = before;
}

void kernel_barriers(Check *C, AstFunctionDef *def)
{
    Vary v = {.C = C};
    KernelForm form;

    kernel_form(def, &form);
    v.once = !form.numbered && !form.shares && !(form.levels & 1u << KERNEL_WARP) && form.levels & 1u << KERNEL_BLOCK;
    for (int i = 0; i < ROUNDS; i++) {
        v.changed = false;
        block_of(&v, def->body);
        if (!v.changed)
            break;
    }
    v.report = true;
    block_of(&v, def->body);
    map_done(&v.varies);
}
