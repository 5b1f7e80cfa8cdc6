/*
 * Statements to nodes. Bodies of functions and modules are lower_code.c's, patterns lower_pattern.c's.
 */
#include "frontend/eval/staged.h"

#include <string.h>

static Step *stmt(Lower *L, const Ast *at, ExecFn fn)
{
    Step *n = step_new(L, at);

    n->exec = fn;
    return n;
}

/* Strings and constants standing alone do nothing. */
bool lower_is_idle(const Ast *s)
{
    return AST_IS(s, Pass) || AST_IS(s, Global) || AST_IS(s, Nonlocal) ||
           (AST_IS(s, ExprStmt) && (AST_IS(AST_AS(s, ExprStmt)->value, Str) || AST_IS(AST_AS(s, ExprStmt)->value, Const) ||
                                    AST_IS(AST_AS(s, ExprStmt)->value, Int)));
}

static Step *lower_stmt(Lower *L, const Ast *s);

/* A block of one statement is that statement; of the others, p holds the statements as they were written. */
Step *lower_block(Lower *L, AstSeq body)
{
    Vec(Step *) out = {0};
    Vec(const Ast *) from = {0};
    Step *n;

    for (int i = 0; i < body.n; i++)
        if (!lower_is_idle(body.at[i])) {
            Step *s = lower_stmt(L, body.at[i]);
            if (s) {
                vec_push(&out, s);
                vec_push(&from, body.at[i]);
            }
        }
    if (out.n == 1) {
        n = out.at[0];
    } else {
        n = arena_new(L->arena, Step);
        n->exec = ex_block;
        n->seq = seq_new(L, out.n);
        if (out.n) {
            memcpy(n->seq->at, out.at, (size_t)out.n * sizeof *out.at);
            n->span = out.at[0]->span;
            n->p = arena_array(L->arena, const Ast *, out.n);
            memcpy(n->p, from.at, (size_t)from.n * sizeof *from.at);
        }
    }
    vec_free(&out);
    vec_free(&from);
    return n;
}

static Step *block_or_null(Lower *L, AstSeq body)
{
    return body.n ? lower_block(L, body) : NULL;
}

/* ------------------------------------------------------------- assignment */

enum { SWAP_MAX = 8 };

static bool has_star(AstSeq elts)
{
    for (int i = 0; i < elts.n; i++)
        if (AST_IS(elts.at[i], Starred))
            return true;
    return false;
}

/* a, b = x, y: no tuple is made */
static bool is_swap(const AstAssign *s)
{
    const Ast *t = s->targets.at[0];

    if (s->targets.n != 1 || !AST_IS(s->value, Tuple) || !AST_IS(t, Tuple))
        return false;
    AstSeq to = AST_AS(t, Tuple)->elts, from = AST_AS(s->value, Tuple)->elts;
    return to.n == from.n && to.n <= SWAP_MAX && !has_star(to) && !has_star(from);
}

static Step *lower_swap(Lower *L, const AstAssign *s)
{
    Step *n = stmt(L, &s->ast, ex_swap);

    n->seq = lower_exprs(L, AST_AS(s->value, Tuple)->elts);
    n->b = lower_target(L, s->targets.at[0]);
    return n;
}

/* x = x + ... */
static bool extends_itself(const AstAssign *s)
{
    const AstBinOp *sum = AST_AS(s->value, BinOp);

    return s->targets.n == 1 && AST_IS(s->targets.at[0], Name) && AST_IS(s->value, BinOp) && sum->op == AOP_ADD &&
           AST_IS(sum->left, Name) && AST_AS(sum->left, Name)->id == AST_AS(s->targets.at[0], Name)->id;
}

static Step *lower_assign(Lower *L, const AstAssign *s)
{
    Step *n = stmt(L, &s->ast, ex_assign);

    if (is_swap(s))
        return lower_swap(L, s);

    n->a = lower_expr(L, s->value);
    if (s->targets.n == 1) {
        n->a = L->declared ? lower_assigned(L, n->a, s->targets.at[0]) : n->a;
        n->b = lower_target(L, s->targets.at[0]);
        if (n->b->store == st_local) {
            n->exec = ex_assign_local;
            n->slot = n->b->slot;
        }
        if (n->b->store == st_item && is_local(n->b->a) && is_local(n->b->b))
            n->exec = ex_assign_item;
        if (extends_itself(s) && n->b->store != st_class_name && n->b->store != st_ignore)
            n->exec = ex_append_name;
        return n;
    }
    n->exec = ex_assign_many;
    n->seq = seq_new(L, s->targets.n);
    for (int i = 0; i < s->targets.n; i++)
        n->seq->at[i] = lower_target(L, s->targets.at[i]);
    return n;
}

static Step *lower_aug(Lower *L, const AstAugAssign *s)
{
    Step *n = stmt(L, &s->ast, ex_aug_name);

    n->op = (uint8_t)s->op;
    switch (s->target->kind) {
    case AST_Attribute:
        n->exec = ex_aug_attr;
        n->a = lower_expr(L, AST_AS(s->target, Attribute)->value);
        n->p = cache_new(L, AST_AS(s->target, Attribute)->attr);
        n->c = lower_expr(L, s->value);
        return n;
    case AST_Subscript: {
        Step *t = lower_target(L, s->target);
        n->exec = ex_aug_item;
        n->a = t->a;
        n->b = t->b;
        n->c = lower_expr(L, s->value);
        n->p = t->c;            /* where the container is stored, for tensors */
        return n;
    }
    default:
        n->a = lower_expr(L, s->target);
        n->b = lower_target(L, s->target);
        n->c = lower_expr(L, s->value);
        if (n->b->store == st_local) {
            n->exec = ex_aug_local;
            n->slot = n->b->slot;
        }
        return n;
    }
}

/* In a class body an annotated name is recorded, with the annotation's text and its element type's value: @dataclass reads them. */
static Step *lower_annotation(Lower *L, const AstAnnAssign *s)
{
    Step *n;
    StrBuf text = {0};

    if (!L->in_class || !AST_IS(s->target, Name))
        return NULL;
    n = stmt(L, &s->ast, ex_annotate);
    n->sym = AST_AS(s->target, Name)->id;
    ast_print(s->annotation, &text);
    n->k = lower_keep(L, str_steal(&text));
    n->a = lower_element_type(L, s->annotation);
    return n;
}

static Step *lower_ann_assign(Lower *L, const AstAnnAssign *s)
{
    Step *note = lower_annotation(L, s), *n = NULL, *both;

    if (s->value) {
        n = stmt(L, &s->ast, ex_assign);
        n->a = lower_declared(L, lower_expr(L, s->value), s->annotation, true);
        n->b = lower_target(L, s->target);
    }
    if (AST_IS(s->target, Name) && !L->in_class)
        lower_declare_name(L, AST_AS(s->target, Name)->id, s->annotation, false);
    if (!note || !n)
        return note ? note : n;
    both = stmt(L, &s->ast, ex_block);
    both->seq = seq_new(L, 2);
    both->seq->at[0] = note;
    both->seq->at[1] = n;
    return both;
}

static Step *lower_del(Lower *L, const AstDel *s)
{
    Step *n = stmt(L, &s->ast, ex_del);
    Vec(Ast *) flat = {0};

    for (int i = 0; i < s->targets.n; i++) {
        Ast *t = s->targets.at[i];
        if (AST_IS(t, Tuple) || AST_IS(t, List)) {
            AstSeq in = AST_IS(t, Tuple) ? AST_AS(t, Tuple)->elts : AST_AS(t, List)->elts;
            for (int k = 0; k < in.n; k++)
                vec_push(&flat, in.at[k]);
        } else {
            vec_push(&flat, t);
        }
    }
    n->seq = seq_new(L, flat.n);
    for (int i = 0; i < flat.n; i++)
        n->seq->at[i] = lower_target(L, flat.at[i]);
    vec_free(&flat);
    return n;
}

/* ------------------------------------------------------------- control flow */

static Step *lower_if(Lower *L, const AstIf *s)
{
    Step *n = stmt(L, &s->ast, ex_if);

    n->a = lower_expr(L, s->test);
    n->b = lower_block(L, s->body);
    n->c = block_or_null(L, s->orelse);
    n->p = (void *)(uintptr_t)s;
    return n;
}

static Step *lower_while(Lower *L, const AstWhile *s)
{
    Step *n = stmt(L, &s->ast, ex_while);

    n->a = lower_expr(L, s->test);
    n->b = lower_block(L, s->body);
    n->c = block_or_null(L, s->orelse);
    n->p = (void *)(uintptr_t)s;
    n->flag = block_leaves(s->body, LEAVES_BREAK) || block_leaves(s->body, LEAVES_CONTINUE) || block_leaves(s->body, LEAVES_RETURN);
    return n;
}

/* range(...) of the prelude with plain arguments, stored to a plain local */
static bool is_prelude_range(const Ast *e)
{
    const AstCall *c = AST_AS(e, Call);

    if (!AST_IS(e, Call) || !AST_IS(c->func, Name) || AST_AS(c->func, Name)->bind != BIND_PRELUDE ||
        strcmp(AST_AS(c->func, Name)->id->text, "range") || c->args.n < 1 || c->args.n > 3)
        return false;
    for (int i = 0; i < c->args.n; i++)
        if (AST_AS(c->args.at[i], Arg)->stars || AST_AS(c->args.at[i], Arg)->name)
            return false;
    return true;
}

/* a = iterable, b = target, c = body, p = ForParts; range loops hold the range's arguments in seq */
static Step *lower_for(Lower *L, const AstFor *s)
{
    Step *n = stmt(L, &s->ast, s->is_async ? ex_for_async : ex_for);
    ForParts *parts = arena_new(L->arena, ForParts);

    n->a = lower_expr(L, s->iter);
    n->b = lower_target(L, s->target);
    n->c = lower_block(L, s->body);
    n->p = parts;
    parts->orelse = block_or_null(L, s->orelse);
    parts->ast = s;
    if (!s->is_async && is_prelude_range(s->iter)) {
        n->exec = ex_for_range;
        n->seq = n->a->seq;
    }
    return n;
}

static Step *lower_with(Lower *L, const AstWith *s, int item)
{
    L->guards = true;
    const AstWithItem *w = AST_AS(s->items.at[item], WithItem);
    Step *n = stmt(L, &w->ast, s->is_async ? ex_with_async : ex_with);

    n->a = lower_expr(L, w->context);
    n->b = w->target ? lower_target(L, w->target) : NULL;
    n->c = item + 1 < s->items.n ? lower_with(L, s, item + 1) : lower_block(L, s->body);
    return n;
}

static Step *lower_on(Lower *L, const AstOn *s)
{
    Step *n = stmt(L, &s->ast, ex_with);

    n->a = lower_expr(L, s->place);
    n->c = lower_block(L, s->body);
    return n;
}

static Step *lower_handler(Lower *L, const AstHandler *h)
{
    Step *n = step_new(L, &h->ast);

    n->a = h->type ? lower_expr(L, h->type) : NULL;
    n->b = h->bound ? lower_name_store(L, h->bound) : NULL;
    n->c = lower_block(L, h->body);
    return n;
}

static Step *lower_try(Lower *L, const AstTry *s)
{
    L->guards = true;
    Step *n = stmt(L, &s->ast, ex_try);

    n->a = lower_block(L, s->body);
    n->b = block_or_null(L, s->orelse);
    n->c = s->has_final ? lower_block(L, s->final) : NULL;
    n->seq = seq_new(L, s->handlers.n);
    for (int i = 0; i < s->handlers.n; i++)
        n->seq->at[i] = lower_handler(L, AST_AS(s->handlers.at[i], Handler));
    return n;
}

static Step *lower_match(Lower *L, const AstMatch *s)
{
    Step *n = stmt(L, &s->ast, ex_match);

    n->a = lower_expr(L, s->subject);
    n->seq = seq_new(L, s->cases.n);
    for (int i = 0; i < s->cases.n; i++) {
        const AstMatchCase *c = AST_AS(s->cases.at[i], MatchCase);
        Step *m = step_new(L, &c->ast);
        m->a = lower_pattern(L, c->pattern);
        m->b = c->guard ? lower_expr(L, c->guard) : NULL;
        m->c = lower_block(L, c->body);
        n->seq->at[i] = m;
    }
    return n;
}

/* ------------------------------------------------------------- functions and classes */

static StepSeq *lower_decorators(Lower *L, AstSeq decorators)
{
    return lower_exprs(L, decorators);
}

/* p = code, b = where the name is bound, seq = decorators */
static Step *lower_def(Lower *L, const AstFunctionDef *d)
{
    Step *n = stmt(L, &d->ast, ex_def);

    n->p = lower_code(L, &d->ast, d->scope, d->name);
    n->b = lower_name_store(L, d->bound);
    n->seq = lower_decorators(L, d->decorators);
    return n;
}

/* The keywords beside a class's base, at most 8 of them; NULL: none. */
static Step *class_keywords(Lower *L, const AstClassDef *d)
{
    Step *k = step_new(L, &d->ast);
    int n = 0;

    k->seq = seq_new(L, d->bases.n < 8 ? d->bases.n : 8);
    for (int i = 0; i < d->bases.n && n < 8; i++) {
        const AstArg *a = AST_AS(d->bases.at[i], Arg);
        if (!AST_IS(d->bases.at[i], Arg) || !a->name)
            continue;
        Step *one = step_new(L, &a->ast);
        one->sym = a->name;
        one->a = lower_expr(L, a->value);
        k->seq->at[n++] = one;
    }
    k->seq->n = n;
    return n ? k : NULL;
}

/* a = base or NULL; c = the keywords beside it */
static Step *lower_class(Lower *L, const AstClassDef *d)
{
    Step *n = stmt(L, &d->ast, ex_class);

    n->p = lower_code(L, &d->ast, d->scope, d->name);
    n->b = lower_name_store(L, d->bound);
    n->seq = lower_decorators(L, d->decorators);
    if (ast_class_base(d))
        n->a = lower_expr(L, ast_class_base(d));
    n->c = class_keywords(L, d);
    return n;
}

static Step *lower_alias(Lower *L, const AstTypeAlias *s)
{
    Step *n = stmt(L, &s->ast, ex_type_alias);

    n->a = lower_expr(L, s->value);
    n->b = lower_target(L, s->name);
    n->sym = AST_IS(s->name, Name) ? AST_AS(s->name, Name)->id : sym("?");
    return n;
}

/* ------------------------------------------------------------- imports */

static Step *lower_import(Lower *L, const AstImport *s)
{
    Step *n = stmt(L, &s->ast, ex_import);

    n->seq = seq_new(L, s->names.n);
    for (int i = 0; i < s->names.n; i++) {
        const AstAlias *a = AST_AS(s->names.at[i], Alias);
        Step *m = step_new(L, &a->ast);
        m->sym = a->name;
        m->flag = a->asname != NULL;
        m->b = a->bound ? lower_name_store(L, a->bound) : NULL;
        n->seq->at[i] = m;
    }
    return n;
}

static Step *lower_import_from(Lower *L, const AstImportFrom *s)
{
    Step *n = stmt(L, &s->ast, s->star ? ex_import_star : ex_import_from);

    n->sym = s->module;
    n->small = (uint16_t)s->level;
    n->seq = seq_new(L, s->names.n);
    for (int i = 0; i < s->names.n; i++) {
        const AstAlias *a = AST_AS(s->names.at[i], Alias);
        Step *m = step_new(L, &a->ast);
        m->sym = a->name;
        m->b = a->bound ? lower_name_store(L, a->bound) : NULL;
        n->seq->at[i] = m;
    }
    return n;
}

/* ------------------------------------------------------------- all statements */

static Step *lower_simple(Lower *L, const Ast *s, ExecFn fn, const Ast *a, const Ast *b)
{
    Step *n = stmt(L, s, fn);

    n->a = a ? lower_expr(L, a) : NULL;
    n->b = b ? lower_expr(L, b) : NULL;
    return n;
}

static Step *lower_return(Lower *L, const AstReturn *s)
{
    Step *n = lower_simple(L, &s->ast, ex_return, s->value, NULL);

    n->a = lower_declared(L, n->a, L->returns, false);
    return n;
}

static Step *lower_stmt(Lower *L, const Ast *s)
{
    switch (s->kind) {
    case AST_ExprStmt: return lower_simple(L, s, ex_expr, AST_AS(s, ExprStmt)->value, NULL);
    case AST_Assign: return lower_assign(L, AST_AS(s, Assign));
    case AST_AugAssign: return lower_aug(L, AST_AS(s, AugAssign));
    case AST_AnnAssign: return lower_ann_assign(L, AST_AS(s, AnnAssign));
    case AST_Return: return lower_return(L, AST_AS(s, Return));
    case AST_Break: return stmt(L, s, ex_break);
    case AST_Continue: return stmt(L, s, ex_continue);
    case AST_Del: return lower_del(L, AST_AS(s, Del));
    case AST_Raise: return lower_simple(L, s, ex_raise, AST_AS(s, Raise)->exc, AST_AS(s, Raise)->cause);
    case AST_Assert: return lower_simple(L, s, ex_assert, AST_AS(s, Assert)->test, AST_AS(s, Assert)->msg);
    case AST_Import: return lower_import(L, AST_AS(s, Import));
    case AST_ImportFrom: return lower_import_from(L, AST_AS(s, ImportFrom));
    case AST_If: return lower_if(L, AST_AS(s, If));
    case AST_While: return lower_while(L, AST_AS(s, While));
    case AST_For: return lower_for(L, AST_AS(s, For));
    case AST_With: return lower_with(L, AST_AS(s, With), 0);
    case AST_On: return lower_on(L, AST_AS(s, On));
    case AST_Try: return lower_try(L, AST_AS(s, Try));
    case AST_Match: return lower_match(L, AST_AS(s, Match));
    case AST_FunctionDef: return lower_def(L, AST_AS(s, FunctionDef));
    case AST_ClassDef: return lower_class(L, AST_AS(s, ClassDef));
    case AST_TypeAlias: return lower_alias(L, AST_AS(s, TypeAlias));
    default: return stmt(L, s, ex_pass);
    }
}
