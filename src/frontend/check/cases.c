/*
 * match: which case a subject takes, where its type tells, and what the names in a pattern stand for then.
 *
 * Where one case surely matches, and those before it surely do not, that one alone is walked, with the parts of the subject in the names of its
 * pattern.  Else every case is walked, the subject hidden, as the branches of an `if` are.
 */
#include "frontend/check/kernels.h"
#include "frontend/check/ways.h"

#include <string.h>

/* ------------------------------------------------------------- names in patterns */

static void capture(Check *C, Ast *p);

static bool capture_child(Ast *n, void *state)
{
    capture(state, n);
    return true;
}

static AstName *captured_name(Ast *p)
{
    switch (p->kind) {
    case AST_PatCapture: return AST_AS(p, PatCapture)->bound;
    case AST_PatStar: return AST_AS(p, PatStar)->bound;
    case AST_PatMapping: return AST_AS(p, PatMapping)->bound;
    case AST_PatAs: return AST_AS(p, PatAs)->bound;
    default: return NULL;
    }
}

/* Of what is not known. */
static void capture(Check *C, Ast *p)
{
    if (!p)
        return;
    if (captured_name(p))
        set_name(C, captured_name(p), T_ANY, NULL);
    if (C->depth < 200) {
        C->depth++;
        ast_walk(p, capture_child, C);
        C->depth--;
    }
}

/* ------------------------------------------------------------- does it match? */

static int matches(Check *C, const Type *t, Ast *p);

static int all_of(int a, int b) { return !a || !b ? 0 : a < 0 || b < 0 ? -1 : 1; }

static int star_at(AstSeq elts)
{
    int i = 0;

    while (i < elts.n && elts.at[i]->kind != AST_PatStar)
        i++;
    return i;
}

static int matches_sequence(Check *C, const Type *t, AstSeq elts)
{
    const Type *const *item;
    int n, star = star_at(elts), r = 1;

    t = record_tuple(t);
    if (type_is_any(t) || t->kind == TY_UNION || t->kind == TY_TENSOR || t->kind == TY_INSTANCE || t->kind == TY_OBJECT)
        return -1;
    if (t->kind != TY_TUPLE && t->kind != TY_LIST && t->kind != TY_RANGE)
        return t->kind <= TY_BYTES || t->kind == TY_DICT || t->kind == TY_SET ? 0 : -1;
    n = type_items(t, &item);
    if (n < 0)
        return -1;
    if (star == elts.n ? n != elts.n : n < elts.n - 1)
        return 0;
    for (int i = 0; i < elts.n; i++)
        if (i != star)
            r = all_of(r, matches(C, item[i < star ? i : n - (elts.n - i)], elts.at[i]));
    return r;
}

/* The attribute that argument i of Point(x, 0, z=1) is about; NULL: that is not known. */
static Sym pattern_field(const Type *cls, AstSeq args, int i)
{
    const Cls *c = cls->kind == TY_CLASS ? cls->ref : NULL;
    AstParam field[ITEMS_MAX];

    if (AST_IS(args.at[i], PatKeyword))
        return AST_AS(args.at[i], PatKeyword)->name;
    if (!c || (!c->is_dataclass && !c->is_record) || cls_is_open(c) || cls_find(c, sym("__match_args__")))
        return NULL;
    return i < cls_fields(c, field, ITEMS_MAX) ? field[i].name : NULL;
}

static Ast *pattern_argument(AstSeq args, int i)
{
    return AST_IS(args.at[i], PatKeyword) ? AST_AS(args.at[i], PatKeyword)->pattern : args.at[i];
}

static int matches_class(Check *C, const Type *t, const AstPatClass *p)
{
    const Type *cls = expr(C, p->cls);
    int r = truth_of_class(t, cls);

    for (int i = 0; r > 0 && i < p->args.n; i++) {
        Sym name = t->kind == TY_INSTANCE ? pattern_field(cls, p->args, i) : NULL;
        if (!name && cls->kind == TY_NATIVE && p->args.n == 1 && !AST_IS(p->args.at[0], PatKeyword))
            r = matches(C, t, p->args.at[0]);           /* int(n): the number itself */
        else
            r = name ? all_of(r, matches(C, attribute(C, t, name, (Ast *)p), pattern_argument(p->args, i))) : -1;
    }
    return r;
}

static int matches_value(Check *C, const Type *t, Ast *value)
{
    const Type *v = expr(C, value);

    if (t->kind == TY_STR && v->kind == TY_STR && t->text && v->text)
        return t->text == v->text;
    if (t->kind == TY_INT && v->kind == TY_INT && dim_is_const(t->value) && dim_is_const(v->value) && t->value != DIM_BAD)
        return t->value == v->value;
    if (t->kind == TY_NONE || v->kind == TY_NONE)
        return t->kind == v->kind ? 1 : type_has_none(t) || type_is_any(v) ? -1 : 0;
    if ((t->kind == TY_STR || t->kind == TY_INT) && (v->kind == TY_STR || v->kind == TY_INT) && t->kind != v->kind)
        return 0;
    return t->kind == TY_DTYPE && v->kind == TY_DTYPE ? t == v : -1;
}

/* Does a value of type t match? 1, 0; -1: not known. */
static int matches(Check *C, const Type *t, Ast *p)
{
    int any = 0;

    switch (p ? (int)p->kind : -1) {
    case AST_PatCapture:
        return 1;
    case AST_PatAs:
        return AST_AS(p, PatAs)->pattern ? matches(C, t, AST_AS(p, PatAs)->pattern) : 1;
    case AST_PatValue:
        return type_is_any(t) ? -1 : matches_value(C, t, AST_AS(p, PatValue)->value);
    case AST_PatSequence:
        return matches_sequence(C, t, AST_AS(p, PatSequence)->elts);
    case AST_PatClass:
        return matches_class(C, t, AST_AS(p, PatClass));
    case AST_PatOr:
        for (int i = 0; i < AST_AS(p, PatOr)->alts.n; i++) {
            int r = matches(C, t, AST_AS(p, PatOr)->alts.at[i]);
            if (r > 0)
                return 1;
            any = r < 0 ? -1 : any;
        }
        return any;
    default:
        return -1;
    }
}

/* ------------------------------------------------------------- a case that surely matches */

static void bind_pattern(Check *C, const Type *t, Ast *p);

static void bind_sequence(Check *C, const Type *t, AstSeq elts)
{
    const Type *const *item = NULL;
    int n = type_items(record_tuple(t), &item), star = star_at(elts);

    for (int i = 0; i < elts.n; i++)
        if (i == star && AST_AS(elts.at[i], PatStar)->bound)
            set_name(C, AST_AS(elts.at[i], PatStar)->bound, n >= elts.n ? type_list_of(item + i, n - (elts.n - 1)) : type_list(T_ANY), NULL);
        else if (i != star)
            bind_pattern(C, item[i < star ? i : n - (elts.n - i)], elts.at[i]);
}

/* The names of a pattern that t matches. */
static void bind_pattern(Check *C, const Type *t, Ast *p)
{
    const AstPatClass *c;
    const Type *cls;

    switch (p->kind) {
    case AST_PatCapture:
    case AST_PatAs:
        if (captured_name(p))
            set_name(C, captured_name(p), t, NULL);
        if (AST_IS(p, PatAs) && AST_AS(p, PatAs)->pattern)
            bind_pattern(C, t, AST_AS(p, PatAs)->pattern);
        break;
    case AST_PatSequence:
        bind_sequence(C, t, AST_AS(p, PatSequence)->elts);
        break;
    case AST_PatClass:
        c = AST_AS(p, PatClass);
        cls = expr(C, c->cls);
        for (int i = 0; i < c->args.n; i++) {
            Sym name = t->kind == TY_INSTANCE ? pattern_field(cls, c->args, i) : NULL;
            bind_pattern(C, name ? attribute(C, t, name, p) : t, pattern_argument(c->args, i));
        }
        break;
    default:
        capture(C, p);
    }
}

/* The case that is taken, all before it being refused: NULL: not known. */
static AstMatchCase *sure_case(Check *C, const Type *t, AstMatch *m)
{
    for (int i = 0; i < m->cases.n; i++) {
        AstMatchCase *c = AST_AS(m->cases.at[i], MatchCase);
        int r = matches(C, t, c->pattern);
        if (r > 0 && !c->guard)
            return c;
        if (r)
            return NULL;
    }
    return NULL;
}

static AstMatchCase *taken(Check *C, const Type *t, AstMatch *m)
{
    AstMatchCase *sure;

    if (C->kernel || type_is_any(t) || (t->kind == TY_INSTANCE && !t->inst))      /* which may be of a derived class, or changed */
        return NULL;
    C->quiet++;
    sure = sure_case(C, t, m);
    C->quiet--;
    return sure;
}

void flow_match(Check *C, AstMatch *m)
{
    const Type *subject = expr(C, m->subject);
    AstMatchCase *sure = taken(C, subject, m);
    Way done = {.dead = C->frame->dead}, way;
    Hiding h;
    Fork at;
    int facts = C->facts;

    if (sure) {
        bind_pattern(C, subject, sure->pattern);
        block(C, sure->body);
        return;
    }
    for (int i = 0; i < m->cases.n; i++) {
        AstMatchCase *c = AST_AS(m->cases.at[i], MatchCase);
        at = way_fork(C);
        C->branches++;
        C->frame->guards++;
        flow_hide(C, &h, m->subject);
        capture(C, c->pattern);
        if (c->guard)
            expr(C, c->guard);
        block(C, c->body);
        facts_drop(C, facts);
        flow_unhide(&h);
        C->branches--;
        C->frame->guards--;
        way = way_end(C, at);
        way_merge(&way, &done);
        done = way;
    }
    way_take(C, &done);
}
