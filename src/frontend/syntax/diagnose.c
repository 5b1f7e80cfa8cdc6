/*
 * What is wrong with a line, in words.
 *
 * The automaton stands before the token that does not fit and can be asked what
 * would fit.  A list of rules is tried in order, from the most particular (a
 * mistake with a name of its own: a print statement, ++, = in a condition) to
 * the general (expected this, found that).  The first that applies reports, and
 * may say how to read on.
 */
#include "frontend/syntax/parse.h"

#include <string.h>

typedef struct Case {
    Driver *d;
    const Token *tok;
    int first, at, end;         /* of the line; `end` is its NEWLINE */
    const Token *t, *prev;      /* the token that does not fit, the one before it (NULL: none on this line) */
    int head;                   /* kind of the line's first word, past `async` and decorators */
    int around;                 /* index of the innermost bracket open at `at`, or -1 */
    Repair repair;
} Case;

/* ---- looking ---- */

static bool fits(const Case *c, int kind)
{
    return driver_accepts(c->d, kind);
}

static bool expression_fits(const Case *c)
{
    return fits(c, TOK_INT);
}

static bool prev_is(const Case *c, int kind)
{
    return c->prev && c->prev->kind == kind;
}

static const char *source_at(const Case *c, uint32_t pos)
{
    const Source *s = c->d->p.unit->src;

    return s->text + (pos - s->base);
}

static const char *spelled(const Case *c, const Token *t)
{
    int n = (int)(t->span.hi - t->span.lo);

    if (t->kind == TOK_NEWLINE || t->kind == TOK_FTEXT || t->kind == TOK_FEND || t->kind == TOK_INDENT || n == 0)
        return token_name(t->kind);
    if (n > 32)
        return token_name(t->kind);
    return arena_printf(c->d->p.arena, "'%.*s'", n, source_at(c, t->span.lo));
}

/* Two tokens without white space between them, read as one sign. */
static bool joined(const Case *c, const char *sign)
{
    size_t n = strlen(sign), before = c->prev ? c->prev->span.hi - c->prev->span.lo : 0;

    return c->prev && c->prev->span.hi == c->t->span.lo && before < n &&
           !strncmp(source_at(c, c->prev->span.lo), sign, n);
}

static bool begins_operand(int kind)
{
    switch (kind) {
    case TOK_NAME: case TOK_INT: case TOK_FLOAT: case TOK_IMAG: case TOK_STRING: case TOK_BYTES: case TOK_FSTART:
    case TOK_NONE: case TOK_TRUE: case TOK_FALSE: case TOK_ELLIPSIS: case TOK_LAMBDA: case TOK_NOT: case TOK_AWAIT:
    case TOK_LPAR: case TOK_LSQB: case TOK_LBRACE: case TOK_TILDE:
        return true;
    default:
        return false;
    }
}

static bool ends_operand(int kind)
{
    switch (kind) {
    case TOK_NAME: case TOK_INT: case TOK_FLOAT: case TOK_IMAG: case TOK_STRING: case TOK_BYTES: case TOK_FEND:
    case TOK_NONE: case TOK_TRUE: case TOK_FALSE: case TOK_ELLIPSIS: case TOK_RPAR: case TOK_RSQB: case TOK_RBRACE:
        return true;
    default:
        return false;
    }
}

static bool opens(int kind)
{
    return kind == TOK_LPAR || kind == TOK_LSQB || kind == TOK_LBRACE || kind == TOK_FLBRACE || kind == TOK_WITH_LPAR;
}

static bool closes(int kind)
{
    return kind == TOK_RPAR || kind == TOK_RSQB || kind == TOK_RBRACE || kind == TOK_FRBRACE;
}

static int innermost(const Token *tok, int first, int at)
{
    int depth = 0;

    for (int i = at - 1; i >= first; i--) {
        depth += closes(tok[i].kind) - opens(tok[i].kind);
        if (depth < 0)
            return i;
    }
    return -1;
}

static bool colon_ahead(const Case *c)
{
    int depth = 0;

    for (int i = c->at; i < c->end; i++) {
        depth += opens(c->tok[i].kind) - closes(c->tok[i].kind);
        if (depth == 0 && c->tok[i].kind == TOK_COLON)
            return true;
    }
    return false;
}

static bool is_header(int kind)
{
    switch (kind) {
    case TOK_IF: case TOK_ELIF: case TOK_ELSE: case TOK_WHILE: case TOK_FOR: case TOK_TRY: case TOK_EXCEPT:
    case TOK_FINALLY: case TOK_WITH: case TOK_DEF: case TOK_CLASS: case TOK_MATCH: case TOK_CASE: case TOK_ON:
        return true;
    default:
        return false;
    }
}

/* What is missing at a line's end is missing behind its last word, not behind its comment. */
static Diag *say(Case *c, DiagCode code, const char *a, const char *b)
{
    Span end = {c->prev ? c->prev->span.hi : 0, c->prev ? c->prev->span.hi : 0};

    return syntax_error(&c->d->p, code, c->t->kind == TOK_NEWLINE && c->prev ? end : c->t->span, a, b);
}

/* ---- mistakes with a name ---- */

/* else, except, ... where no statement is open that they belong to */
static bool stray_branch(Case *c)
{
    static const struct { int kind; const char *partner; } row[] = {
        {TOK_ELSE, "'if', 'for', 'while' or 'try'"}, {TOK_ELIF, "'if'"}, {TOK_EXCEPT, "'try'"}, {TOK_FINALLY, "'try'"},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (c->at == c->first && c->t->kind == row[i].kind && !fits(c, TOK_CASE)) {
            Diag *e = say(c, E0145, token_name(c->t->kind), row[i].partner);
            if (e)
                diag_help(e, "it must stand right after the block it belongs to, with the same indentation");
            return true;
        }
    return false;
}

static bool not_a_case(Case *c)
{
    if (c->at != c->first || !fits(c, TOK_CASE))
        return false;
    say(c, E0102, "'case'", spelled(c, c->t));
    return true;
}

static bool print_statement(Case *c)
{
    const Token *name = &c->tok[c->first];
    const char *text;
    Diag *e;

    if (c->at != c->first + 1 || name->kind != TOK_NAME || strcmp(name->u.sym->text, "print") ||
        !begins_operand(c->t->kind))
        return false;
    e = syntax_error(&c->d->p, E0134, name->span, "print", NULL);
    if (e && c->tok[c->end].span.lo - c->t->span.lo < 200) {
        Span rest = {name->span.hi, c->tok[c->end].span.lo};
        for (int i = c->at; i < c->end; i++)
            rest.hi = c->tok[i].span.hi;
        text = arena_printf(c->d->p.arena, "(%.*s)", (int)(rest.hi - c->t->span.lo), source_at(c, c->t->span.lo));
        diag_help(e, "did you mean print%s?", text);
        diag_fix(e, rest, text);
    }
    return true;
}

/* Operators of other languages. */
static bool foreign_operator(Case *c)
{
    static const struct { const char *sign, *ours; } row[] = {
        {"&&", "and"}, {"||", "or"}, {"<>", "!="}, {"===", "=="}, {"!==", "!="}, {"=>", ">="}, {"=<", "<="},
    };
    Span both;
    Diag *e;

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (!joined(c, row[i].sign))
            continue;
        both = span_join(c->prev->span, c->t->span);
        e = syntax_error(&c->d->p, E0146, both, row[i].sign, NULL);
        if (e) {
            diag_help(e, "write '%s'", row[i].ours);
            diag_fix(e, both, row[i].ours);
        }
        return true;
    }
    if (c->t->kind == TOK_ARROW && ends_operand(c->prev ? c->prev->kind : 0)) {
        e = say(c, E0146, "->", NULL);
        if (e)
            diag_help(e, "attributes follow a '.'");
        return true;
    }
    return false;
}

/* x++ and x-- */
static bool increment(Case *c)
{
    const Token *p = c->prev;
    bool plus = prev_is(c, TOK_PLUS), minus = prev_is(c, TOK_MINUS);
    Diag *e;

    if (c->at - 2 < c->first || !(plus || minus) || p[-1].kind != p->kind || p[-1].span.hi != p->span.lo ||
        !expression_fits(c))
        return false;
    e = syntax_error(&c->d->p, E0146, span_join(p[-1].span, p->span), plus ? "++" : "--", NULL);
    if (e) {
        diag_help(e, "write '%s= 1'", plus ? "+" : "-");
        diag_fix(e, span_join(p[-1].span, p->span), plus ? " += 1" : " -= 1");
    }
    return true;
}

static const char *condition_name(int head)
{
    switch (head) {
    case TOK_IF: return "the condition of 'if'";
    case TOK_ELIF: return "the condition of 'elif'";
    case TOK_WHILE: return "the condition of 'while'";
    case TOK_ASSERT: return "the condition of 'assert'";
    default: return "an expression";
    }
}

/* = where only a comparison makes sense */
static bool assignment_in_expression(Case *c)
{
    Diag *e;

    if (c->t->kind != TOK_EQ || !fits(c, TOK_CMP))
        return false;
    e = say(c, E0135, condition_name(c->head), NULL);
    if (e) {
        diag_fix(e, c->t->span, "==");
        diag_help(e, "to give a name a value inside an expression, write (name := value)");
    }
    c->repair = (Repair){REPAIR_REPLACE, TOK_CMP};
    return true;
}

static bool walrus_statement(Case *c)
{
    Diag *e;

    if (c->t->kind != TOK_WALRUS)
        return false;
    e = say(c, E0101, "':='", NULL);
    if (e)
        diag_help(e, c->around < 0 ? "a statement assigns with '='; ':=' stands in brackets or conditions"
                                   : "put the assignment expression in brackets of its own");
    return true;
}

static bool keyword_as_name(Case *c)
{
    Diag *e;

    if (!c->prev || c->at != c->first + 1 || !token_is_keyword(c->prev->kind) ||
        (c->t->kind != TOK_EQ && c->t->kind != TOK_AUG))
        return false;
    e = syntax_error(&c->d->p, E0102, c->prev->span, "a name", spelled(c, c->prev));
    if (e)
        diag_help(e, "%s is a keyword and cannot be assigned to", spelled(c, c->prev));
    return true;
}

static bool missing_else(Case *c)
{
    Diag *e;

    if (!fits(c, TOK_ELSE) || c->t->kind == TOK_COLON || c->head == TOK_CASE)
        return false;
    if (ends_operand(c->t->kind) && !closes(c->t->kind))
        return false;
    e = say(c, E0153, NULL, NULL);
    if (e)
        diag_help(e, "write: a if condition else b");
    return true;
}

static bool else_if(Case *c)
{
    Diag *e;

    if (!prev_is(c, TOK_ELSE) || c->t->kind != TOK_IF || c->at != c->first + 1)
        return false;
    e = say(c, E0102, "':'", "'if'");
    if (e) {
        diag_help(e, "'else if' is written 'elif'");
        diag_fix(e, span_join(c->prev->span, c->t->span), "elif");
    }
    return true;
}

static bool except_forms(Case *c)
{
    Diag *e;

    if (c->head != TOK_EXCEPT)
        return false;
    if (c->t->kind == TOK_STAR) {
        say(c, E0150, "'except*'", NULL);
        return true;
    }
    if (c->t->kind != TOK_COMMA || c->around >= 0)
        return false;
    e = say(c, E0102, "':'", "','");
    if (e)
        diag_help(e, "several exception types stand in parentheses: except (A, B):");
    return true;
}

static const char *header_name(const Case *c)
{
    if (c->head == TOK_DEF)
        return "the function's signature";
    if (c->head == TOK_CLASS)
        return "the class's name and base";
    return arena_printf(c->d->p.arena, "'%s'", token_name(c->head));
}

static bool missing_colon(Case *c)
{
    Span where;
    Diag *e;

    if (!is_header(c->head) || c->around >= 0 || !fits(c, TOK_COLON) || colon_ahead(c) || !c->prev)
        return false;
    if (c->head == TOK_ELSE && c->t->kind == TOK_IF)
        return false;
    where = (Span){c->prev->span.hi, c->prev->span.hi};
    e = syntax_error(&c->d->p, E0103, where, header_name(c), NULL);
    if (e)
        diag_fix(e, where, ":");
    c->repair = (Repair){REPAIR_INSERT, TOK_COLON};
    return true;
}

/* ---- f-strings ---- */

static bool hole(Case *c)
{
    Arena *a = c->d->p.arena;

    if (c->around < 0 || c->tok[c->around].kind != TOK_FLBRACE)
        return false;
    if (c->at == c->around + 1)
        say(c, E0118, arena_printf(a, "an expression is needed before %s", spelled(c, c->t)), NULL);
    else if (c->t->kind == TOK_FCOLON && c->tok[c->around + 1].kind == TOK_LAMBDA)
        say(c, E0118, "a lambda needs parentheses here", NULL);
    else if (expression_fits(c))
        say(c, E0118, arena_printf(a, "expected an expression, found %s", spelled(c, c->t)), NULL);
    else
        say(c, E0118, arena_printf(a, "expected '}', found %s", spelled(c, c->t)), NULL);
    return true;
}

/* ---- the general ---- */

static bool dict_value(Case *c)
{
    if (c->around < 0 || c->tok[c->around].kind != TOK_LBRACE || !fits(c, TOK_COLON) ||
        (c->t->kind != TOK_RBRACE && c->t->kind != TOK_COMMA))
        return false;
    say(c, E0102, "':' and a value after this key", spelled(c, c->t));
    return true;
}

static const char *keyword_next(void *state)
{
    return keyword_at((*(int *)state)++);
}

/* Words that begin a statement elsewhere. */
static const struct { const char *word, *help; } foreign_word[] = {
    {"elseif", "write 'elif'"}, {"elsif", "write 'elif'"}, {"function", "functions begin with 'def'"},
    {"func", "functions begin with 'def'"}, {"fn", "functions begin with 'def'"},
    {"let", "names need no declaration: write name = value"}, {"var", "names need no declaration: write name = value"},
    {"const", "names need no declaration: write name = value"}, {"switch", "write 'match', with 'case' for each branch"},
    {"foreach", "write 'for x in values:'"}, {"unless", "write 'if not'"}, {"until", "write 'while not'"},
    {"throw", "write 'raise'"}, {"catch", "write 'except'"}, {"new", "an object is made by calling its class"},
    {"exec", "write exec(...) as a call; but it is not in the language"}, {"struct", "write 'class'"},
    {"using", "write 'import'"}, {"include", "write 'import'"}, {"and", "'and' stands between two operands"},
};

/* for x of xs: after a loop's target `in` fits, and no other comparison does */
static bool missing_in(Case *c)
{
    if (!fits(c, TOK_IN) || fits(c, TOK_CMP))
        return false;
    say(c, E0102, "'in'", spelled(c, c->t));
    return true;
}

/* Two operands in a row. */
static bool two_operands(Case *c)
{
    const Token *name = &c->tok[c->first];
    const char *guess;
    int state = 0;
    Diag *e;

    if (!c->prev || !ends_operand(c->prev->kind) || !(begins_operand(c->t->kind) || token_is_keyword(c->t->kind)))
        return false;
    if (expression_fits(c))
        return false;
    e = say(c, E0101, spelled(c, c->t), NULL);
    if (!e)
        return true;
    if (c->around >= 0 && fits(c, TOK_COMMA)) {
        diag_help(e, "perhaps a comma is missing before it");
        diag_fix(e, (Span){c->prev->span.hi, c->prev->span.hi}, ",");
    } else if (c->at == c->first + 1 && name->kind == TOK_NAME) {
        for (size_t i = 0; i < sizeof foreign_word / sizeof *foreign_word; i++)
            if (!strcmp(foreign_word[i].word, name->u.sym->text)) {
                diag_help(e, "%s", foreign_word[i].help);
                return true;
            }
        guess = closest_name(name->u.sym->text, keyword_next, &state);
        if (guess)
            diag_help(e, "did you mean '%s'?", guess);
    }
    if (c->around < 0 && !e->helps.n)
        diag_help(e, "two statements on one line are separated by ';', two values by an operator or ','");
    return true;
}

/* What a name would be called where only a name fits. */
static const char *wanted_name(const Case *c)
{
    switch (c->prev ? c->prev->kind : 0) {
    case TOK_DEF: return "a function name";
    case TOK_CLASS: return "a class name";
    case TOK_DOT: return "a name after '.'";
    case TOK_AS: return "a name after 'as'";
    case TOK_IMPORT: return c->head == TOK_FROM ? "a name to import" : "a module name";
    case TOK_FROM: return "a module name";
    default: break;
    }
    if (c->head == TOK_DEF && c->around >= 0)
        return c->tok[c->around].kind == TOK_LSQB ? "a type parameter" : "a parameter";
    return c->head == TOK_LAMBDA ? "a parameter" : "a name";
}

/* The one sign or word that would fit, if there is just one. */
static const char *only_token(const Case *c)
{
    static const int likely[] = {TOK_RPAR, TOK_RSQB, TOK_RBRACE, TOK_COLON, TOK_EQ, TOK_IN, TOK_IMPORT, TOK_LPAR, TOK_DEF,
                                 TOK_COMMA, TOK_NEWLINE, TOK_FRBRACE, TOK_FROM, TOK_ARROW};
    int found = 0, n = 0;

    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++)
        if (fits(c, likely[i])) {
            found = likely[i];
            n++;
        }
    if (n != 1)
        return NULL;
    return found == TOK_NEWLINE ? "the end of the line" : arena_printf(c->d->p.arena, "'%s'", token_name(found));
}

static bool expected(Case *c)
{
    const char *found = spelled(c, c->t), *want;
    Diag *e;

    if (prev_is(c, TOK_ASYNC))
        want = "'def', 'for' or 'with' after 'async'";
    else if (prev_is(c, TOK_AS) && c->head == TOK_WITH)
        want = "a name after 'as'";
    else if (c->head == TOK_FOR && c->at == c->first + 1)
        want = "a name after 'for'";
    else if (expression_fits(c))
        want = "an expression";
    else if (fits(c, TOK_NAME))
        want = wanted_name(c);
    else
        want = only_token(c);
    if (!want)
        return false;
    e = say(c, E0102, want, found);
    if (e && token_is_keyword(c->t->kind) && fits(c, TOK_NAME))
        diag_help(e, "%s is a keyword", found);
    if (e && c->t->kind == TOK_RSQB && prev_is(c, TOK_LSQB))
        diag_help(e, "an index stands between the brackets; the type of a tensor without axes is Tensor[()]");
    if (e && c->t->kind == TOK_RETURN && c->prev && c->prev->kind == TOK_COLON)
        diag_help(e, "the body of a lambda is one expression; write a 'def' for more");
    return true;
}

static bool unexpected(Case *c)
{
    say(c, E0101, spelled(c, c->t), NULL);
    return true;
}

static bool (*const rules[])(Case *) = {
    stray_branch, not_a_case, print_statement, foreign_operator, increment, else_if, except_forms, keyword_as_name,
    assignment_in_expression, walrus_statement, hole, missing_else, missing_colon, dict_value, missing_in,
    two_operands, expected, unexpected,
};

/* The line's first word past decorators and `async`. */
static int head_of(const Token *tok, int first, int end)
{
    int i = first;

    if (tok[i].kind == TOK_DECORATOR)
        while (i < end && tok[i].kind != TOK_DEF && tok[i].kind != TOK_CLASS && tok[i].kind != TOK_ASYNC)
            i++;
    if (i < end && tok[i].kind == TOK_ASYNC)
        i++;
    return tok[i].kind;
}

Repair diagnose(Driver *d, int first, int at)
{
    const Token *tok = d->list.tok.at;
    Case c = {.d = d, .tok = tok, .first = first, .at = at, .end = d->list.line.at[d->line].end - 1, .t = &tok[at]};

    c.prev = at > first ? &tok[at - 1] : NULL;
    c.head = head_of(tok, first, c.end);
    c.around = innermost(tok, first, at);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i](&c))
            break;
    return c.repair;
}
