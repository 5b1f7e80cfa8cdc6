/*
 * The sizes of a signature at one call: a name alone gets the size of the first
 * argument that has it, expressions follow, constraints are judged.
 */
#include "frontend/check/binding.h"

#include <stdio.h>
#include <string.h>

static Dim *bound_to(Bound *b, Dim d)
{
    for (int i = 0; i < b->n; i++)
        if (b->from[i] == d)
            return &b->to[i];
    return NULL;
}

static bool among(const DimNames *names, Dim d)
{
    for (int i = 0; i < names->n; i++)
        if (names->at[i].dim == d)
            return true;
    return false;
}

void bound_add(Bound *b, Dim from, Dim to)
{
    if (b->n < 32 && !bound_to(b, from)) {
        b->from[b->n] = from;
        b->to[b->n++] = to;
    }
}

static void match_size(const Sig *sig, const Cls *cls, Dim want, Dim got, Bound *b)
{
    if (among(&sig->dims, want) || (cls && among(&cls->dims, want)))
        bound_add(b, want, got);
}

/* The sizes around "...", and what "..." stands for: the first argument tells it for all. */
static void match_rest(const Sig *sig, const Cls *cls, const Type *want, const Type *got, Bound *b)
{
    int front = type_front(want), back = type_back(want), n = front + back;
    bool open = got->tensor->rank == RANK_UNKNOWN;
    int rank = open ? type_front(got) + type_back(got) : got->tensor->rank;

    if (open ? front > type_front(got) || back > type_back(got) || !got->n : rank < n)
        return;
    for (int i = 0; i < front; i++)
        match_size(sig, cls, want->tensor->shape[i], got->tensor->shape[i], b);
    for (int i = 1; i <= back; i++)
        match_size(sig, cls, want->tensor->shape[n - i], got->tensor->shape[rank - i], b);
    if (!b->rest) {
        b->rest = got->tensor;
        b->rest_at = front;
        b->rest_n = rank - n;
        b->rest_front = open ? type_front(got) - front : -1;
    }
}

/* A declared tensor with its "..." put in. */
const Type *rest_filled(const Type *t, const Bound *b)
{
    TType x;
    int front;

    if (!t || t->kind != TY_TENSOR || t->tensor->rank != RANK_UNKNOWN || !t->n)
        return t;
    front = type_front(t);
    if (!b->rest || front + type_back(t) + b->rest_n > 15) {        /* it is not the caller's "..." */
        x = (TType){.dtype = t->tensor->dtype, .policy = t->tensor->policy, .rank = RANK_UNKNOWN};
        return type_tensor(&x);
    }
    x = *t->tensor;
    for (int i = 0; i < b->rest_n; i++)
        x.shape[front + i] = b->rest->shape[b->rest_at + i];
    for (int i = 0; i < type_back(t); i++)
        x.shape[front + b->rest_n + i] = t->tensor->shape[front + i];
    if (b->rest_front >= 0)
        return type_tensor_rest(&x, front + b->rest_front, b->rest_n - b->rest_front + type_back(t));
    x.rank = (uint8_t)(front + type_back(t) + b->rest_n);
    return type_tensor(&x);
}

/* The member of Optional[Tensor["N"]] and the like that an argument meets; NULL: none, or no union. */
static const Type *member_met(const Type *want, const Type *got)
{
    for (int i = 0; want->kind == TY_UNION && i < want->n; i++) {
        const Type *m = want->item[i];
        if (!type_is_any(m) && m->kind == got->kind &&
            (m->kind != TY_TENSOR || m->tensor->rank == RANK_UNKNOWN || m->tensor->rank == got->tensor->rank))
            return m;
    }
    return NULL;
}

/* A size that is just a name of the signature gets the first argument's size. */
void sig_match(const Sig *sig, const Cls *cls, const Type *want, const Type *got, Bound *b)
{
    if (!want || type_is_any(got))
        return;
    if (want->kind == TY_UNION && !(want = member_met(want, got)))
        return;
    if (want->kind == TY_LIST && got->kind == TY_LIST) {
        for (int i = 0; i < got->n; i++)
            sig_match(sig, cls, type_settle(want)->item[0], got->item[i], b);
        return;
    }
    if (want->kind == TY_TUPLE && got->kind == TY_TUPLE && want->n == got->n) {
        for (int i = 0; i < want->n; i++)
            sig_match(sig, cls, want->item[i], got->item[i], b);
        return;
    }
    if (want->kind == TY_DICT && got->kind == TY_DICT) {
        sig_match(sig, cls, type_settle(want)->item[1], type_settle(got)->item[1], b);
        return;
    }
    if (want->kind == TY_TENSOR && got->kind == TY_TENSOR && want->tensor->rank == RANK_UNKNOWN)
        match_rest(sig, cls, want, got, b);
    if (want->kind != TY_TENSOR || got->kind != TY_TENSOR || want->tensor->rank == RANK_UNKNOWN ||
        want->tensor->rank != got->tensor->rank)
        return;
    for (int i = 0; i < want->tensor->rank; i++)
        match_size(sig, cls, want->tensor->shape[i], got->tensor->shape[i], b);
}

/* The x for which a * x + c is `got`; DIM_BAD: the expression is another, or no size does it. */
static Dim solved(Dim e, Dim x, Dim got)
{
    Dim at[3], c, a;

    for (int i = 0; i < 3; i++)
        at[i] = dim_subst(e, &x, &(Dim){i}, 1);
    c = at[0];
    a = dim_sub(at[1], c);
    if (dim_eq(dim_sub(at[2], at[1]), a, NULL, NULL) != DIM_PROVED || dim_ge(a, 1, NULL, NULL) != DIM_PROVED ||
        dim_ge(got, c, NULL, NULL) == DIM_REFUTED)
        return DIM_BAD;
    got = dim_sub(got, c);
    return a == 1 ? got : dim_divides(a, got) == DIM_PROVED ? dim_floordiv(got, a) : DIM_BAD;
}

/* Which sizes of an expression of the signature are not bound yet: how many, and the last of them. */
static int unbound(const Sig *sig, Dim e, Bound *b, Dim *out)
{
    Dim var[8];
    int n = dim_is_const(e) || bound_to(b, e) ? 0 : dim_vars(e, var, 8), count = 0;

    for (int i = 0; i < n && i < 8; i++)
        if (among(&sig->dims, var[i]) && !bound_to(b, var[i])) {
            *out = var[i];
            count++;
        }
    return count;
}

/* An expression with one size that stands nowhere by itself tells it (B+1, 4*H); of several (B*H) all that is known is that they are sizes. */
void sig_solve(const Sig *sig, const Type *want, const Type *got, Bound *b)
{
    if (want->kind != TY_TENSOR || got->kind != TY_TENSOR || want->tensor->rank == RANK_UNKNOWN || want->tensor->rank != got->tensor->rank)
        return;
    for (int i = 0; i < want->tensor->rank; i++) {
        Dim e = want->tensor->shape[i], x = DIM_BAD, y;
        int n = unbound(sig, e, b, &x);
        if (n == 1 && (y = solved(dim_subst(e, b->from, b->to, b->n), x, got->tensor->shape[i])) != DIM_BAD)
            bound_add(b, x, y);
        while (n > 1 && b->n < 32 && unbound(sig, e, b, &x))
            bound_add(b, x, dim_open());
    }
}

/* Sizes that no argument tells are unknown to the caller. */
void sig_bind_rest(const Sig *sig, Bound *b)
{
    for (int i = 0; i < sig->dims.n && b->n < 32; i++)
        if (!bound_to(b, sig->dims.at[i].dim)) {
            b->from[b->n] = sig->dims.at[i].dim;
            b->to[b->n++] = dim_open();
        }
}

static const char *size_text(Dim d, StrBuf *b)
{
    sb_clear(b);
    dim_print(d, b);
    return sb_str(b);
}

/* The mistake in the signature's words: "H = 112 but got 116". */
bool sig_report(Check *C, Span span, const char *what, const TType *want, const TType *got, const Bound *b)
{
    StrBuf name = {0}, value = {0}, have = {0};
    bool found = false;
    int rank = want->rank == got->rank && want->rank != RANK_UNKNOWN ? want->rank : 0;

    for (int i = 0; i < rank && !found; i++) {
        Dim w = want->shape[i], v = dim_subst(w, b->from, b->to, b->n);
        DimAnswer a = dim_eq(v, got->shape[i], NULL, NULL);
        if (w == v || dim_is_const(w) || (a != DIM_REFUTED && a != DIM_DIFFERS) || dim_is_open(v) || dim_is_open(got->shape[i]))
            continue;
        Diag *d = REPORT(C, E0304, span, what, size_text(w, &name), size_text(v, &value), size_text(got->shape[i], &have));
        diag_note(d, "Expected: %s", shape_of(want));
        diag_note(d, "Received: %s", shape_of(got));
        diag_help(d, "pass tensors whose sizes agree on %s", sb_str(&name));
        found = true;
    }
    sb_done(&name);
    sb_done(&value);
    sb_done(&have);
    return found;
}

/* ------------------------------------------------------------- constraints */

static Dim named_size(const DimNames *names, Sym name, const Bound *b)
{
    for (int i = 0; i < names->n; i++)
        if (names->at[i].name == name)
            return dim_subst(names->at[i].dim, b->from, b->to, b->n);
    return DIM_BAD;
}

/* The int that a parameter of this name gets; DIM_BAD: it is not known. */
static Dim number_given(const Slots *s, Sym name)
{
    const Type *t = NULL;

    for (int i = 0; i < s->n; i++)
        if (s->at[i].name == name && s->at[i].arg)
            t = s->at[i].arg->type;
    return !type_is_any(t) && t->kind == TY_INT ? t->value : DIM_BAD;
}

/* A size that has the name of a parameter is what that one gets. */
void sig_numbers(const Sig *sig, const Slots *s, Bound *b)
{
    for (int i = 0; i < sig->dims.n; i++)
        for (int k = 0; k < s->n; k++)
            if (s->at[k].name == sig->dims.at[i].name) {
                Dim d = number_given(s, s->at[k].name);
                bound_add(b, sig->dims.at[i].dim, d == DIM_BAD ? dim_open() : d);
            }
}

static Dim constraint_dim(Ast *e, const Bound *b, const Fn *f, const Slots *s)
{
    Dim x, y;

    if (e->kind == AST_Int)
        return dim_const(AST_AS(e, Int)->value);
    if (e->kind == AST_Name) {
        Dim d = named_size(&f->sig.dims, AST_AS(e, Name)->id, b);
        for (const Cls *c = f->cls; c && d == DIM_BAD; c = c->base)
            d = named_size(&c->dims, AST_AS(e, Name)->id, b);
        return d != DIM_BAD ? d : number_given(s, AST_AS(e, Name)->id);
    }
    if (e->kind != AST_BinOp)
        return DIM_BAD;
    x = constraint_dim(AST_AS(e, BinOp)->left, b, f, s);
    y = constraint_dim(AST_AS(e, BinOp)->right, b, f, s);
    if (x == DIM_BAD || y == DIM_BAD)
        return DIM_BAD;
    switch (AST_AS(e, BinOp)->op) {
    case AOP_ADD: return dim_add(x, y);
    case AOP_SUB: return dim_sub(x, y);
    case AOP_MUL: return dim_mul(x, y);
    case AOP_FLOORDIV: return dim_floordiv(x, y);
    case AOP_MOD: return dim_mod(x, y);
    default: return DIM_BAD;
    }
}

/* false: the condition surely does not hold. */
static bool holds(Ast *cond, const Bound *b, const Fn *f, const Slots *s, Dim *lhs, Dim *rhs, int *op)
{
    AstCompare *c = AST_AS(cond, Compare);
    DimAnswer a;
    Dim x, y;

    if (cond->kind != AST_Compare || c->rest.n != 1)
        return true;
    x = constraint_dim(c->left, b, f, s);
    y = constraint_dim(AST_AS(c->rest.at[0], CompareItem)->right, b, f, s);
    *op = (int)AST_AS(c->rest.at[0], CompareItem)->op;
    *lhs = x;
    *rhs = y;
    if (x == DIM_BAD || y == DIM_BAD)
        return true;
    switch (*op) {
    case AOP_EQ:
        a = dim_eq(x, y, NULL, NULL);
        return !(a == DIM_REFUTED || (a == DIM_DIFFERS && !dim_is_open(x) && !dim_is_open(y)));
    case AOP_NE: return dim_eq(x, y, NULL, NULL) != DIM_PROVED;
    case AOP_GE: return dim_ge(x, y, NULL, NULL) != DIM_REFUTED;
    case AOP_LE: return dim_ge(y, x, NULL, NULL) != DIM_REFUTED;
    case AOP_GT: return dim_ge(y, x, NULL, NULL) != DIM_PROVED;
    case AOP_LT: return dim_ge(x, y, NULL, NULL) != DIM_PROVED;
    default: return true;
    }
}

static void put_values(Ast *cond, const Sig *sig, const Bound *b, StrBuf *out)
{
    bool first = true;

    for (int i = 0; i < sig->dims.n; i++) {
        StrBuf text = {0};
        const char *name = sig->dims.at[i].name->text;
        ast_print(cond, &text);
        for (const char *p = strstr(sb_str(&text), name); p; p = NULL) {
            sb_printf(out, "%s%s = ", first ? "" : ", ", name);
            dim_print(dim_subst(sig->dims.at[i].dim, b->from, b->to, b->n), out);
            first = false;
        }
        sb_done(&text);
    }
}

static bool check_constraint(Check *C, const Fn *f, Ast *cond, const Bound *b, const Slots *s, Ast *node)
{
    const Sig *sig = &f->sig;
    Diag *d;
    Dim l, r;
    int op;
    StrBuf text = {0}, values = {0};

    if (!cond || holds(cond, b, f, s, &l, &r, &op))
        return true;
    ast_print(cond, &text);
    while (text.n && sb_str(&text)[text.n - 1] == '\n')
        text.n--;
    put_values(cond, sig, b, &values);
    d = REPORT(C, E0305, node->span, sb_str(&text), sb_str(&values));
    if (!f->around->home->library)
        diag_label(d, cond->span, "declared here");
    sb_done(&text);
    sb_done(&values);
    return false;
}

bool sig_constraints(Check *C, Fn *f, const Bound *b, const Slots *s, Ast *node)
{
    bool ok = true;

    if (f->node->kind != AST_FunctionDef)
        return true;
    for (int i = 0; i < f->params.n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->kind == PARAM_CONSTRAINT)
            ok &= check_constraint(C, f, p->annotation, b, s, node);
    }
    for (int i = 0; i < AST_AS(f->node, FunctionDef)->where.n; i++)
        ok &= check_constraint(C, f, AST_AS(f->node, FunctionDef)->where.at[i], b, s, node);
    return ok;
}

/* f[D: static]: a size that the program's top level does not know yet cannot stand for D. false: reported. */
bool sig_statics(Check *C, Fn *f, const Bound *b, Ast *node)
{
    AstSeq list = f->node->kind == AST_FunctionDef ? AST_AS(f->node, FunctionDef)->typarams : (AstSeq){0};
    char text[160];

    if (C->frame->fn || C->calls)
        return true;
    for (int i = 0; i < list.n; i++) {
        AstTypeParam *p = AST_AS(list.at[i], TypeParam);
        if (!AST_IS(p->bound, Name) || strcmp(AST_AS(p->bound, Name)->id->text, "static"))
            continue;
        for (int k = 0; k < f->sig.dims.n; k++) {
            Dim *to = f->sig.dims.at[k].name == p->name ? bound_to((Bound *)b, f->sig.dims.at[k].dim) : NULL;
            if (!to || !dim_is_open(*to))
                continue;
            snprintf(text, sizeof text, "%s is declared static: its size must be known before the program runs", p->name->text);
            diag_help(REPORT(C, E0306, node->span, text), "pass a tensor of known size, or declare the dimension without static");
            return false;
        }
    }
    return true;
}
