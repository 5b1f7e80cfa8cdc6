/*
 * The tree as source text: statements.
 *
 * Printing keeps the tree and not its looks: comments, line breaks and the kind
 * of quotes are gone, but parsing the text gives an equal tree.  Expressions
 * are in print_expr.c.
 */
#include "frontend/syntax/print.h"

static void statement(Printer *pr, const Ast *n);

static void start_line(Printer *pr)
{
    sb_pad(pr->out, ' ', (size_t)pr->depth * 4);
}

static void block(Printer *pr, const AstSeq *body)
{
    sb_puts(pr->out, ":\n");
    pr->depth++;
    for (int i = 0; i < body->n; i++)
        statement(pr, body->at[i]);
    if (!body->n) {
        start_line(pr);
        sb_puts(pr->out, "pass\n");
    }
    pr->depth--;
}

static void word_block(Printer *pr, const char *word, const AstSeq *body)
{
    if (!body->n)
        return;
    start_line(pr);
    sb_puts(pr->out, word);
    block(pr, body);
}

static void names(Printer *pr, const AstSeq *s)
{
    for (int i = 0; i < s->n; i++) {
        sb_puts(pr->out, i ? ", " : " ");
        sb_puts(pr->out, AST_AS(s->at[i], Name)->id->text);
    }
}

static void aliases(Printer *pr, const AstSeq *s)
{
    for (int i = 0; i < s->n; i++) {
        AstAlias *a = AST_AS(s->at[i], Alias);
        sb_printf(pr->out, "%s%s", i ? ", " : "", a->name->text);
        if (a->asname)
            sb_printf(pr->out, " as %s", a->asname->text);
    }
}

static void type_params(Printer *pr, const AstSeq *s)
{
    for (int i = 0; i < s->n; i++) {
        AstTypeParam *t = AST_AS(s->at[i], TypeParam);
        sb_printf(pr->out, "%s%s%s", i ? ", " : "[", t->stars == 1 ? "*" : t->stars ? "**" : "", t->name->text);
        if (t->bound) {
            sb_puts(pr->out, ": ");
            print_expr(pr, t->bound, PREC_EXPR);
        }
    }
    if (s->n)
        sb_putc(pr->out, ']');
}

/* ---- compound statements ---- */

static void print_if(Printer *pr, const AstIf *n)
{
    const char *word = "if ";

    for (;;) {
        start_line(pr);
        sb_puts(pr->out, word);
        print_expr(pr, n->test, PREC_NAMED);
        block(pr, &n->body);
        if (n->orelse.n != 1 || n->orelse.at[0]->kind != AST_If)
            break;
        n = AST_AS(n->orelse.at[0], If);
        word = "elif ";
    }
    word_block(pr, "else", &n->orelse);
}

static void print_for(Printer *pr, const AstFor *n)
{
    sb_puts(pr->out, n->is_async ? "async for " : "for ");
    print_list(pr, n->target);
    sb_puts(pr->out, " in ");
    print_list(pr, n->iter);
    block(pr, &n->body);
    word_block(pr, "else", &n->orelse);
}

static void print_with(Printer *pr, const AstWith *n)
{
    sb_puts(pr->out, n->is_async ? "async with " : "with ");
    for (int i = 0; i < n->items.n; i++) {
        AstWithItem *w = AST_AS(n->items.at[i], WithItem);
        sb_puts(pr->out, i ? ", " : "");
        print_expr(pr, w->context, PREC_EXPR);
        if (w->target) {
            sb_puts(pr->out, " as ");
            print_expr(pr, w->target, PREC_PRIMARY);
        }
    }
    block(pr, &n->body);
}

static void print_handler(Printer *pr, const AstHandler *h)
{
    start_line(pr);
    sb_puts(pr->out, "except");
    if (h->type) {
        sb_putc(pr->out, ' ');
        print_expr(pr, h->type, PREC_EXPR);
    }
    if (h->name)
        sb_printf(pr->out, " as %s", h->name->text);
    block(pr, &h->body);
}

static void print_try(Printer *pr, const AstTry *n)
{
    sb_puts(pr->out, "try");
    block(pr, &n->body);
    for (int i = 0; i < n->handlers.n; i++)
        print_handler(pr, AST_AS(n->handlers.at[i], Handler));
    word_block(pr, "else", &n->orelse);
    if (n->has_final)
        word_block(pr, "finally", &n->final);
}

static void print_match(Printer *pr, const AstMatch *n)
{
    sb_puts(pr->out, "match ");
    print_list(pr, n->subject);
    sb_puts(pr->out, ":\n");
    pr->depth++;
    for (int i = 0; i < n->cases.n; i++) {
        AstMatchCase *c = AST_AS(n->cases.at[i], MatchCase);
        start_line(pr);
        sb_puts(pr->out, "case ");
        print_pattern(pr, c->pattern);
        if (c->guard) {
            sb_puts(pr->out, " if ");
            print_expr(pr, c->guard, PREC_NAMED);
        }
        block(pr, &c->body);
    }
    pr->depth--;
}

static void decorators(Printer *pr, const AstSeq *s)
{
    for (int i = 0; i < s->n; i++) {
        sb_putc(pr->out, '@');
        /* at depth 0 of a decorator a further @ begins the next one */
        print_expr(pr, s->at[i], AST_IS(s->at[i], NamedExpr) ? PREC_NAMED : PREC_POWER);
        sb_putc(pr->out, '\n');
        start_line(pr);
    }
}

static void print_def(Printer *pr, const AstFunctionDef *n)
{
    decorators(pr, &n->decorators);
    sb_printf(pr->out, "%sdef %s", n->is_async ? "async " : "", n->name->text);
    type_params(pr, &n->typarams);
    sb_putc(pr->out, '(');
    print_params(pr, &n->params);
    sb_putc(pr->out, ')');
    if (n->returns) {
        sb_puts(pr->out, " -> ");
        print_expr(pr, n->returns, PREC_EXPR);
    }
    for (int i = 0; i < n->where.n; i++) {
        sb_puts(pr->out, i ? ", " : " where ");
        print_expr(pr, n->where.at[i], PREC_EXPR);
    }
    block(pr, &n->body);
}

static void print_class(Printer *pr, const AstClassDef *n)
{
    decorators(pr, &n->decorators);
    sb_printf(pr->out, "class %s", n->name->text);
    type_params(pr, &n->typarams);
    if (n->bases.n) {
        sb_putc(pr->out, '(');
        print_args(pr, &n->bases);
        sb_putc(pr->out, ')');
    }
    block(pr, &n->body);
}

static bool compound(Printer *pr, const Ast *n)
{
    switch (n->kind) {
    case AST_If: print_if(pr, AST_AS(n, If)); return true;
    case AST_While:
        start_line(pr);
        sb_puts(pr->out, "while ");
        print_expr(pr, AST_AS(n, While)->test, PREC_NAMED);
        block(pr, &AST_AS(n, While)->body);
        word_block(pr, "else", &AST_AS(n, While)->orelse);
        return true;
    case AST_For: start_line(pr); print_for(pr, AST_AS(n, For)); return true;
    case AST_With: start_line(pr); print_with(pr, AST_AS(n, With)); return true;
    case AST_On:
        start_line(pr);
        sb_puts(pr->out, "on ");
        print_expr(pr, AST_AS(n, On)->place, PREC_EXPR);
        block(pr, &AST_AS(n, On)->body);
        return true;
    case AST_Try: start_line(pr); print_try(pr, AST_AS(n, Try)); return true;
    case AST_Match: start_line(pr); print_match(pr, AST_AS(n, Match)); return true;
    case AST_FunctionDef: start_line(pr); print_def(pr, AST_AS(n, FunctionDef)); return true;
    case AST_ClassDef: start_line(pr); print_class(pr, AST_AS(n, ClassDef)); return true;
    default: return false;
    }
}

/* ---- simple statements ---- */

static void word_list(Printer *pr, const char *word, const Ast *value)
{
    sb_puts(pr->out, word);
    if (value) {
        sb_putc(pr->out, ' ');
        print_list(pr, value);
    }
}

static void print_assign(Printer *pr, const AstAssign *n)
{
    for (int i = 0; i < n->targets.n; i++) {
        print_list(pr, n->targets.at[i]);
        sb_puts(pr->out, " = ");
    }
    print_value(pr, n->value);
}

static void print_ann_assign(Printer *pr, const AstAnnAssign *n)
{
    print_expr(pr, n->target, PREC_PRIMARY);
    sb_puts(pr->out, ": ");
    print_expr(pr, n->annotation, PREC_EXPR);
    if (n->value) {
        sb_puts(pr->out, " = ");
        print_value(pr, n->value);
    }
}

static void print_raise(Printer *pr, const AstRaise *n)
{
    sb_puts(pr->out, "raise");
    if (n->exc) {
        sb_putc(pr->out, ' ');
        print_expr(pr, n->exc, PREC_EXPR);
    }
    if (n->cause) {
        sb_puts(pr->out, " from ");
        print_expr(pr, n->cause, PREC_EXPR);
    }
}

static void print_from(Printer *pr, const AstImportFrom *n)
{
    sb_puts(pr->out, "from ");
    sb_pad(pr->out, '.', (size_t)n->level);
    sb_printf(pr->out, "%s import ", n->module ? n->module->text : "");
    if (n->star)
        sb_putc(pr->out, '*');          /* the names that it brings are the checker's finding */
    else
        aliases(pr, &n->names);
}

static void print_del(Printer *pr, const AstDel *n)
{
    sb_puts(pr->out, "del ");
    for (int i = 0; i < n->targets.n; i++) {
        sb_puts(pr->out, i ? ", " : "");
        print_expr(pr, n->targets.at[i], PREC_PRIMARY);
    }
}

static void simple(Printer *pr, const Ast *n)
{
    switch (n->kind) {
    case AST_ExprStmt: print_value(pr, AST_AS(n, ExprStmt)->value); break;
    case AST_Assign: print_assign(pr, AST_AS(n, Assign)); break;
    case AST_AugAssign:
        print_expr(pr, AST_AS(n, AugAssign)->target, PREC_PRIMARY);
        sb_printf(pr->out, " %s= ", ast_op_text[AST_AS(n, AugAssign)->op]);
        print_value(pr, AST_AS(n, AugAssign)->value);
        break;
    case AST_AnnAssign: print_ann_assign(pr, AST_AS(n, AnnAssign)); break;
    case AST_Return: word_list(pr, "return", AST_AS(n, Return)->value); break;
    case AST_Pass: sb_puts(pr->out, "pass"); break;
    case AST_Break: sb_puts(pr->out, "break"); break;
    case AST_Continue: sb_puts(pr->out, "continue"); break;
    case AST_Del: print_del(pr, AST_AS(n, Del)); break;
    case AST_Raise: print_raise(pr, AST_AS(n, Raise)); break;
    case AST_Assert:
        sb_puts(pr->out, "assert ");
        print_expr(pr, AST_AS(n, Assert)->test, PREC_NAMED);
        if (AST_AS(n, Assert)->msg) {
            sb_puts(pr->out, ", ");
            print_expr(pr, AST_AS(n, Assert)->msg, PREC_NAMED);
        }
        break;
    case AST_Import: sb_puts(pr->out, "import "); aliases(pr, &AST_AS(n, Import)->names); break;
    case AST_ImportFrom: print_from(pr, AST_AS(n, ImportFrom)); break;
    case AST_Global: sb_puts(pr->out, "global"); names(pr, &AST_AS(n, Global)->names); break;
    case AST_Nonlocal: sb_puts(pr->out, "nonlocal"); names(pr, &AST_AS(n, Nonlocal)->names); break;
    case AST_TypeAlias:
        sb_puts(pr->out, "type ");
        print_expr(pr, AST_AS(n, TypeAlias)->name, PREC_PRIMARY);
        type_params(pr, &AST_AS(n, TypeAlias)->typarams);
        sb_puts(pr->out, " = ");
        print_expr(pr, AST_AS(n, TypeAlias)->value, PREC_EXPR);
        break;
    default: print_expr(pr, n, PREC_NAMED); break;
    }
}

static void statement(Printer *pr, const Ast *n)
{
    if (compound(pr, n))
        return;
    start_line(pr);
    simple(pr, n);
    sb_putc(pr->out, '\n');
}

void ast_print(const Ast *n, StrBuf *out)
{
    Printer pr = {.out = out};

    if (n->kind == AST_Module)
        for (int i = 0; i < AST_AS(n, Module)->body.n; i++)
            statement(&pr, AST_AS(n, Module)->body.at[i]);
    else if (ast_info[n->kind].category == CAT_STMT)
        statement(&pr, n);
    else if (ast_info[n->kind].category == CAT_PAT)
        print_pattern(&pr, n);
    else
        print_expr(&pr, n, PREC_NAMED);
}
