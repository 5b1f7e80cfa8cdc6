/*
 * Statements, and what all nodes share: lists, heights, the one report a line.
 *
 * A compound statement's span is its header.  Loops, functions and classes are
 * made in two steps, head and body, so that what is wrong with the head is said
 * while its line is being read.
 */
#include "frontend/syntax/build.h"

#include <string.h>

Diag *syntax_error(Parser *p, DiagCode code, Span span, const char *a, const char *b)
{
    if (p->reported)
        return NULL;
    p->reported = true;
    return DIAG_AT(p->sink, code, span, a, b);
}

/* ---- lists: room is a power of two, so growth is seen from the length alone ---- */

AstSeq seq1(Parser *p, Ast *n)
{
    AstSeq s = {arena_array(p->arena, Ast *, 1), 1};

    s.at[0] = n;
    return s;
}

AstSeq seq_add(Parser *p, AstSeq s, Ast *n)
{
    if ((s.n & (s.n - 1)) == 0) {
        Ast **more = arena_array(p->arena, Ast *, s.n ? s.n * 2 : 1);
        if (s.n)
            memcpy(more, s.at, (size_t)s.n * sizeof *more);
        s.at = more;
    }
    s.at[s.n++] = n;
    return s;
}

AstSeq seq_join(Parser *p, AstSeq a, AstSeq b)
{
    for (int i = 0; i < b.n; i++)
        a = seq_add(p, a, b.at[i]);
    return a;
}

/* ---- heights ---- */

static void rise(Ast *n, const Ast *child)
{
    int h;

    if (!child)
        return;
    h = child->height + (ast_info[n->kind].category != CAT_PART);
    if (h > n->height)
        n->height = (uint16_t)h;
}

/* n, or an Error in its place when it is too high. */
static Ast *bounded(Parser *p, Ast *n)
{
    if (n->height <= AST_HEIGHT_MAX)
        return n;
    if (!p->reported)
        syntax_error(p, E0121, n->span, "expressions are nested too deeply", NULL);
    p->unit->broken = true;
    n = ast_alloc(p->arena, AST_Error, n->span);
    n->height = 1;
    return n;
}

Ast *seal(Parser *p, Ast *n)
{
    n->height = ast_info[n->kind].category != CAT_PART;
    for (const AstChild *f = ast_child[n->kind]; f->kind; f++) {
        if (f->kind == CHILD_NODE) {
            rise(n, *ast_child_node(n, f));
        } else {
            const AstSeq *s = ast_child_list(n, f);
            for (int i = 0; i < s->n; i++)
                rise(n, s->at[i]);
        }
    }
    return bounded(p, n);
}

Ast *seal_more(Parser *p, Ast *n, const Ast *child)
{
    rise(n, child);
    return bounded(p, n);
}

#define SEAL(p, n) seal((p), &(n)->ast)

static Span head_span(const Token *from, const Token *colon)
{
    return span_join(from->span, colon->span);
}

/* ---- lines that could not be read ---- */

Ast *bad_line(Parser *p, const Token *t)
{
    AstExprStmt *s = ast_new(p->arena, ExprStmt, t->span);

    p->unit->broken = true;
    s->value = ast_alloc(p->arena, AST_Error, t->span);
    return SEAL(p, s);
}

/* `if <error>:` with the block that followed */
Ast *bad_block(Parser *p, const Token *t, AstSeq body)
{
    AstIf *s = ast_new(p->arena, If, t->span);

    p->unit->broken = true;
    s->test = ast_alloc(p->arena, AST_Error, t->span);
    s->body = body;
    return SEAL(p, s);
}

Ast *bad_branch(Parser *p, Ast *block, const Token *t, AstSeq body)
{
    AstIf *s = ast_new(p->arena, If, block->span);

    (void)t;
    if (block->kind != AST_If)
        return block;
    *s = *AST_AS(block, If);
    s->orelse = seq_join(p, (AstSeq){0}, s->orelse);
    s->orelse = seq_join(p, s->orelse, body);
    return SEAL(p, s);
}

/* ---- simple statements ---- */

Ast *mk_plain(Parser *p, AstKind k, const Token *t)
{
    return seal(p, ast_alloc(p->arena, k, t->span));
}

Ast *mk_expr_stmt(Parser *p, Ast *e)
{
    AstExprStmt *s = ast_new(p->arena, ExprStmt, e->span);

    s->value = e;
    if (e->kind == AST_Starred)
        syntax_error(p, E0133, e->span, "a starred expression cannot stand alone", NULL);
    return SEAL(p, s);
}

static void no_lone_star(Parser *p, const Ast *e)
{
    if (AST_IS(e, Starred))
        syntax_error(p, E0133, e->span, "a starred expression cannot be a value: it needs a list or tuple around it", NULL);
}

Ast *mk_assign(Parser *p, AstSeq targets, Ast *value)
{
    AstAssign *s = ast_new(p->arena, Assign, span_join(targets.at[0]->span, value->span));

    for (int i = 0; i < targets.n; i++)
        target_check(p, targets.at[i], TARGET_ASSIGN);
    no_lone_star(p, value);
    s->targets = targets;
    s->value = value;
    return SEAL(p, s);
}

Ast *mk_aug_assign(Parser *p, Ast *target, const Token *op, Ast *value)
{
    AstAugAssign *s = ast_new(p->arena, AugAssign, span_join(target->span, value->span));

    target_check(p, target, TARGET_AUG);
    no_lone_star(p, value);
    s->target = target;
    s->op = op->op;
    s->value = value;
    return SEAL(p, s);
}

Ast *mk_ann_assign(Parser *p, Ast *target, Ast *annotation, Ast *value)
{
    AstAnnAssign *s = ast_new(p->arena, AnnAssign, span_join(target->span, value ? value->span : annotation->span));

    target_check(p, target, TARGET_ANN);
    no_lone_star(p, value);
    s->target = target;
    s->annotation = annotation;
    s->value = value;
    return SEAL(p, s);
}

Ast *mk_return(Parser *p, const Token *t, Ast *value)
{
    AstReturn *s = ast_new(p->arena, Return, value ? span_join(t->span, value->span) : t->span);

    no_lone_star(p, value);
    s->value = value;
    return SEAL(p, s);
}

Ast *mk_raise(Parser *p, const Token *t, Ast *exc, Ast *cause)
{
    Ast *last = cause ? cause : exc;
    AstRaise *s = ast_new(p->arena, Raise, last ? span_join(t->span, last->span) : t->span);

    s->exc = exc;
    s->cause = cause;
    return SEAL(p, s);
}

Ast *mk_assert(Parser *p, const Token *t, Ast *test, Ast *msg)
{
    AstAssert *s = ast_new(p->arena, Assert, span_join(t->span, msg ? msg->span : test->span));

    s->test = test;
    s->msg = msg;
    return SEAL(p, s);
}

Ast *mk_del(Parser *p, const Token *t, Ast *targets)
{
    AstDel *s = ast_new(p->arena, Del, span_join(t->span, targets->span));

    target_check(p, targets, TARGET_DEL);
    s->targets = AST_IS(targets, Tuple) && !targets->parens ? AST_AS(targets, Tuple)->elts : seq1(p, targets);
    return SEAL(p, s);
}

Ast *mk_global(Parser *p, const Token *t, AstSeq names)
{
    AstGlobal *s = ast_new(p->arena, Global, span_join(t->span, names.at[names.n - 1]->span));

    s->names = names;
    return SEAL(p, s);
}

Ast *mk_nonlocal(Parser *p, const Token *t, AstSeq names)
{
    AstNonlocal *s = ast_new(p->arena, Nonlocal, span_join(t->span, names.at[names.n - 1]->span));

    s->names = names;
    return SEAL(p, s);
}

/* ---- imports ---- */

AstAlias *mk_alias(Parser *p, const Token *name)
{
    AstAlias *a = ast_new(p->arena, Alias, name->span);

    a->name = name->u.sym;
    return a;
}

AstAlias *mk_dotted(Parser *p, AstSeq names)
{
    AstAlias *a = ast_new(p->arena, Alias, span_join(names.at[0]->span, names.at[names.n - 1]->span));
    StrBuf b = {0};

    for (int i = 0; i < names.n; i++) {
        if (i)
            sb_putc(&b, '.');
        sb_puts(&b, AST_AS(names.at[i], Name)->id->text);
    }
    a->name = sym_n(b.s, b.n);
    sb_done(&b);
    return a;
}

Ast *mk_alias_as(Parser *p, AstAlias *a, const Token *name)
{
    a->asname = name->u.sym;
    a->ast.span = span_join(a->ast.span, name->span);
    return &a->ast;
}

Ast *mk_import(Parser *p, const Token *t, AstSeq names)
{
    AstImport *s = ast_new(p->arena, Import, span_join(t->span, names.at[names.n - 1]->span));

    s->names = names;
    return SEAL(p, s);
}

Ast *mk_from(Parser *p, const Token *t, Origin o, AstSeq names, const Token *last)
{
    AstImportFrom *s = ast_new(p->arena, ImportFrom, span_join(t->span, last ? last->span : names.at[names.n - 1]->span));

    s->module = o.name ? o.name->name : NULL;
    s->level = o.level;
    s->names = names;
    s->star = names.n == 0;
    return SEAL(p, s);
}

Ast *mk_type_alias(Parser *p, const Token *t, const Token *name, AstSeq typarams, Ast *value)
{
    AstTypeAlias *s = ast_new(p->arena, TypeAlias, span_join(t->span, value->span));

    s->name = mk_name(p, name);
    s->typarams = typarams;
    s->value = value;
    return SEAL(p, s);
}

/* ---- compound statements ---- */

static AstIf *new_if(Parser *p, const Token *t, Ast *test, const Token *colon, AstSeq body)
{
    AstIf *s = ast_new(p->arena, If, head_span(t, colon));

    s->test = test;
    s->body = body;
    return s;
}

IfChain if_first(Parser *p, const Token *t, Ast *test, const Token *colon, AstSeq body)
{
    AstIf *s = new_if(p, t, test, colon, body);

    return (IfChain){s, s};
}

/* `elif` is an If alone in the orelse of the one before. Setting it again, after a rewind, does no harm. */
IfChain if_more(Parser *p, IfChain c, const Token *t, Ast *test, const Token *colon, AstSeq body)
{
    AstIf *s = new_if(p, t, test, colon, body);

    c.last->orelse = seq1(p, &s->ast);
    return (IfChain){c.first, s};
}

/* Heights are known from the last branch upwards. */
Ast *if_done(Parser *p, IfChain c, AstSeq orelse)
{
    Vec(AstIf *) branch = {0};
    Ast *below = NULL;

    for (AstIf *s = c.first;; s = AST_AS(s->orelse.at[0], If)) {
        vec_push(&branch, s);
        if (s == c.last)
            break;
    }
    c.last->orelse = orelse;
    for (int i = branch.n - 1; i >= 0; i--) {
        if (below)
            branch.at[i]->orelse.at[0] = below;
        below = SEAL(p, branch.at[i]);
    }
    vec_free(&branch);
    return below;
}

Ast *mk_while(Parser *p, const Token *t, Ast *test, const Token *colon, AstSeq body, AstSeq orelse)
{
    AstWhile *s = ast_new(p->arena, While, head_span(t, colon));

    s->test = test;
    s->body = body;
    s->orelse = orelse;
    return SEAL(p, s);
}

AstFor *for_head(Parser *p, const Token *t, const Token *async, Ast *target, Ast *iter, const Token *colon)
{
    AstFor *s = ast_new(p->arena, For, head_span(async ? async : t, colon));

    target_check(p, target, TARGET_FOR);
    s->is_async = async != NULL;
    s->target = target;
    s->iter = iter;
    return s;
}

Ast *mk_for(Parser *p, AstFor *s, AstSeq body, AstSeq orelse)
{
    s->body = body;
    s->orelse = orelse;
    return SEAL(p, s);
}

Ast *mk_with_item(Parser *p, Ast *context, Ast *target)
{
    AstWithItem *s = ast_new(p->arena, WithItem, target ? span_join(context->span, target->span) : context->span);

    if (target)
        target_check(p, target, TARGET_WITH);
    s->context = context;
    s->target = target;
    return SEAL(p, s);
}

Ast *mk_with(Parser *p, const Token *t, const Token *async, AstSeq items, const Token *colon, AstSeq body)
{
    AstWith *s = ast_new(p->arena, With, head_span(async ? async : t, colon));

    s->is_async = async != NULL;
    s->items = items;
    s->body = body;
    return SEAL(p, s);
}

Ast *mk_on(Parser *p, const Token *t, Ast *place, const Token *colon, AstSeq body)
{
    AstOn *s = ast_new(p->arena, On, head_span(t, colon));

    s->place = place;
    s->body = body;
    return SEAL(p, s);
}

Ast *mk_try(Parser *p, const Token *t, const Token *colon, AstSeq body, AstSeq handlers, AstSeq orelse,
            const AstSeq *final)
{
    AstTry *s = ast_new(p->arena, Try, head_span(t, colon));

    for (int i = 0; i + 1 < handlers.n; i++)
        if (!AST_AS(handlers.at[i], Handler)->type)
            syntax_error(p, E0154, handlers.at[i]->span, NULL, NULL);
    s->body = body;
    s->handlers = handlers;
    s->orelse = orelse;
    s->has_final = final != NULL;
    if (final)
        s->final = *final;
    return SEAL(p, s);
}

Ast *mk_handler(Parser *p, const Token *t, Ast *type, const Token *name, const Token *colon, AstSeq body)
{
    AstHandler *s = ast_new(p->arena, Handler, head_span(t, colon));

    s->type = type;
    s->name = name ? name->u.sym : NULL;
    s->body = body;
    return SEAL(p, s);
}

Ast *mk_match(Parser *p, const Token *t, Ast *subject, const Token *colon, AstSeq cases)
{
    AstMatch *s = ast_new(p->arena, Match, head_span(t, colon));

    s->subject = subject;
    s->cases = cases;
    return SEAL(p, s);
}

Ast *mk_case(Parser *p, const Token *t, Ast *pattern, Ast *guard, const Token *colon, AstSeq body)
{
    AstMatchCase *s = ast_new(p->arena, MatchCase, head_span(t, colon));

    s->pattern = pattern;
    s->guard = guard;
    s->body = body;
    return SEAL(p, s);
}

/* ---- definitions ---- */

Ast *decorate(Parser *p, AstSeq decorators, Ast *definition)
{
    if (AST_IS(definition, FunctionDef))
        AST_AS(definition, FunctionDef)->decorators = decorators;
    else if (AST_IS(definition, ClassDef))
        AST_AS(definition, ClassDef)->decorators = decorators;
    return seal(p, definition);
}

AstFunctionDef *mk_def(Parser *p, const Token *t, const Token *async, const Token *name, AstSeq typarams,
                       AstSeq params, Ast *returns, AstSeq where, const Token *colon)
{
    AstFunctionDef *f = ast_new(p->arena, FunctionDef, head_span(async ? async : t, colon));

    f->is_async = async != NULL;
    f->name = name->u.sym;
    f->typarams = typarams;
    f->params = params_finish(p, params);
    f->returns = returns;
    f->where = where;
    return f;
}

Ast *def_done(Parser *p, AstFunctionDef *f, AstSeq body)
{
    f->body = body;
    return SEAL(p, f);
}

static bool is_named(const AstSeq *bases, int i, const char *name)
{
    const Ast *b = AST_IS(bases->at[i], Arg) ? AST_AS(bases->at[i], Arg)->value : NULL;

    return AST_IS(b, Name) && !strcmp(AST_AS(b, Name)->id->text, name);
}

/* Enum, enum.Enum */
static bool is_enum(const Ast *e)
{
    Sym name = AST_IS(e, Name) ? AST_AS(e, Name)->id : AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr : NULL;

    return name && !strcmp(name->text, "Enum");
}

/* class Color(str, Enum) is a class of one base: of what the module enum has for members that are texts, or ints. */
static void join_enum_bases(Parser *p, AstClassDef *c)
{
    AstSeq *b = &c->bases;
    const char *kind = b->n != 2 ? NULL : is_named(b, 0, "str") ? "_str_" : is_named(b, 0, "int") ? "_int_" : NULL;
    AstAttribute *joined;
    AstArg *base;

    if (!kind || !AST_IS(b->at[1], Arg) || AST_AS(b->at[1], Arg)->name || !is_enum(AST_AS(b->at[1], Arg)->value))
        return;
    base = AST_AS(b->at[1], Arg);
    joined = ast_new(p->arena, Attribute, base->value->span);
    joined->value = base->value;
    joined->attr = sym(kind);
    base->value = (Ast *)joined;
    *b = (AstSeq){b->at + 1, 1};
}

AstClassDef *mk_class(Parser *p, const Token *t, const Token *name, AstSeq typarams, AstSeq bases, const Token *colon)
{
    AstClassDef *c = ast_new(p->arena, ClassDef, head_span(t, colon));

    c->name = name->u.sym;
    c->typarams = typarams;
    c->bases = bases;
    join_enum_bases(p, c);
    return c;
}

Ast *class_done(Parser *p, AstClassDef *c, AstSeq body)
{
    c->body = body;
    return SEAL(p, c);
}
