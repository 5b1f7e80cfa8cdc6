/*
 * match in a kernel.
 *
 * A pattern is a test of the subject and names for parts of it.  Of what is
 * known before the launch one case is left; else each case is a choice, as a
 * chain of ifs would be.  Patterns are values, names, alternatives, and tuples
 * and lists of patterns; classes and mappings are none that a tile could hold.
 */
#include "frontend/kernel/body.h"

/* What one pattern gives names to. */
typedef struct Named { Sym name; KVal v; } Named;
typedef struct Found { Body *B; Vec(Named) named; } Found;

static KVal pattern_test(Found *f, Ast *p, KVal v);

static KVal both(Body *B, KVal a, KVal b)
{
    if (kb_bad(a) || kb_bad(b))
        return KBAD;
    if (a.kind == K_STATIC)
        return kb_is_static_true(a) ? b : kb_no;
    if (b.kind == K_STATIC)
        return kb_is_static_true(b) ? a : kb_no;
    return kb_apply(B, OP_bitand, (KVal[]){a, b}, 2);
}

static KVal named(Found *f, Sym name, KVal v)
{
    if (name)
        vec_push(&f->named, ((Named){name, v}));
    return kb_yes;
}

/* None, True and False are what they are; other values are compared. */
static KVal value_test(Body *B, Ast *value, KVal v)
{
    KVal want = kb_expr(B, value);

    if (AST_IS(value, Const))
        return v.kind == K_STATIC || AST_AS(value, Const)->value == CONST_NONE ? kb_compare(B, AOP_IS, v, want) : kb_compare(B, AOP_EQ, v, want);
    if (v.kind == K_TUPLE || v.kind == K_LIST)
        return kb_no;
    if (want.kind == K_STATIC && v.kind != K_STATIC && !kb_is_value(want))
        return kb_no;                                       /* a text is no element */
    return kb_compare(B, AOP_EQ, v, want);
}

static KVal sequence_test(Found *f, AstSeq elts, KVal v)
{
    KVal *item, y = kb_yes, rest = {.kind = K_LIST};
    int n = v.kind == K_STATIC && v.v.tag == V_STR ? -1 : kb_sequence(f->B, v, &item), star = -1;

    for (int i = 0; i < elts.n; i++)
        star = AST_IS(elts.at[i], PatStar) ? i : star;
    if (n < 0 || (star < 0 ? n != elts.n : n < elts.n - 1))
        return kb_no;
    for (int i = 0; i < elts.n && !kb_bad(y) && !kb_is_static_false(y); i++) {
        int at = star >= 0 && i > star ? n - (elts.n - i) : i;
        if (i == star) {
            rest.n = n - (elts.n - 1);
            rest.item = item + i;
            named(f, AST_AS(elts.at[i], PatStar)->name, rest);
        } else {
            y = both(f->B, y, pattern_test(f, elts.at[i], item[at]));
        }
    }
    return y;
}

static KVal any_of(Found *f, AstSeq alts, KVal v)
{
    KVal y = kb_no;

    for (int i = 0; i < alts.n && !kb_is_static_true(y) && !kb_bad(y); i++) {
        int names = f->named.n;
        KVal t = pattern_test(f, alts.at[i], v);
        if (kb_is_static_false(t))
            f->named.n = names;
        else if (!kb_bad(t) && t.kind != K_STATIC && f->named.n > names)
            return kb_fail(f->B, "E0618: names in alternatives that are decided in the launch cannot stand in a kernel");
        y = kb_bad(t) ? t : kb_either(f->B, y, t);
    }
    return y;
}

static KVal pattern_test(Found *f, Ast *p, KVal v)
{
    Body *B = f->B;
    KVal t;

    B->b.span = p->span;
    switch (p->kind) {
    case AST_PatValue: return value_test(B, AST_AS(p, PatValue)->value, v);
    case AST_PatCapture: return named(f, AST_AS(p, PatCapture)->name, v);
    case AST_PatSequence: return sequence_test(f, AST_AS(p, PatSequence)->elts, v);
    case AST_PatOr: return any_of(f, AST_AS(p, PatOr)->alts, v);
    case AST_PatAs:
        t = pattern_test(f, AST_AS(p, PatAs)->pattern, v);
        named(f, AST_AS(p, PatAs)->name, v);
        return t;
    default: return kb_fail(B, "E0618: a pattern of a class or a mapping cannot stand in a kernel");
    }
}

/* ------------------------------------------------------------- cases */

/* The cases from `at` on; taken: the first of them holds, and names what it names. */
typedef struct Cases { const AstMatch *m; int at; KVal subject; const Found *taken; } Cases;

static KVal take_cases(Body *B, const Cases *c);

static KVal way(Body *B, void *what)
{
    const Cases *c = what;

    if (!c->taken)
        return take_cases(B, c);
    for (int i = 0; i < c->taken->named.n; i++)
        kb_set(B, c->taken->named.at[i].name, c->taken->named.at[i].v);
    kb_block_of(B, AST_AS(c->m->cases.at[c->at], MatchCase)->body);
    return kb_no;
}

/* The guard sees the pattern's names, of which nothing is left where the case does not hold. */
static KVal guarded(Body *B, const Found *f, KVal test, Ast *guard)
{
    Vars before;

    if (!guard || kb_bad(test) || kb_is_static_false(test))
        return test;
    before = vars_copy(&B->fn->vars);
    for (int i = 0; i < f->named.n; i++)
        kb_set(B, f->named.at[i].name, f->named.at[i].v);
    test = test.kind == K_STATIC ? kb_truth(B, kb_expr(B, guard)) : kb_and_test(B, test, guard);
    vars_take(B, &before);
    return test;
}

static KVal take_cases(Body *B, const Cases *c)
{
    Cases yes = *c, no = *c;
    Found f = {.B = B};
    const AstMatchCase *first;
    bool work = false;
    KVal t;

    if (c->at == c->m->cases.n)
        return kb_no;
    first = AST_AS(c->m->cases.at[c->at], MatchCase);
    for (int i = c->at; i < c->m->cases.n; i++)
        work |= kb_any_group_work(B, AST_AS(c->m->cases.at[i], MatchCase)->body);
    t = guarded(B, &f, pattern_test(&f, first->pattern, c->subject), first->guard);
    t = kb_bad(t) ? t : kb_for_all(B, t, work);
    yes.taken = &f;
    no.at++;
    t = kb_choose(B, t, way, &yes, &no);
    vec_free(&f.named);
    return t;
}

void kb_match(Body *B, const AstMatch *m)
{
    Cases c = {.m = m, .subject = kb_now(B, kb_expr(B, m->subject))};

    if (!kb_bad(c.subject))
        take_cases(B, &c);
}
