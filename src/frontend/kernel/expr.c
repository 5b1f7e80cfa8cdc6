/*
 * Expressions of a kernel: names, operators, displays, indices, truths.
 */
#include "frontend/kernel/oper.h"

#include <stdio.h>
#include <string.h>

enum { INDICES_MAX = 8 };

/* ------------------------------------------------------------- names */

KVal *kb_var(Body *B, Sym name)
{
    for (int i = 0; i < B->fn->vars.n; i++)
        if (B->fn->vars.at[i].name == name)
            return &B->fn->vars.at[i].val;
    return NULL;
}

void kb_set(Body *B, Sym name, KVal v)
{
    KVal *at = kb_var(B, name);

    if (at)
        *at = v;
    else
        vec_push(&B->fn->vars, ((Var){name, v}));
}

/*
 * A variable outside: what it is now is built in, so the kernel holds while it stays so. Of a tensor that is where it lies, not
 * what its elements are.
 */
static KVal outer(Body *B, const Value *at, Sym name)
{
    if (is_err(*at))
        return kb_fail(B, "name '%s' is not defined", name->text);
    for (int i = 0; i < B->reads.n; i++)
        if (B->reads.at[i].at == at)
            return B->reads.at[i].place ? kplace_value(B, B->reads.at[i].place) : (KVal){.kind = K_STATIC, .v = B->reads.at[i].v};
    vec_push(&B->reads, ((KRead){at, value_ref(*at), NULL, -1}));
    if (at->tag == V_TENSOR) {
        KVal memory = kb_tensor_outside(B, as_tensor(*at), name);
        if (memory.kind == K_PLACE) {
            vec_last(&B->reads).place = memory.place;
            vec_last(&B->reads).param = B->k->params.n - 1;
        }
        if (memory.kind != K_UNSET)
            return memory;
    }
    return (KVal){.kind = K_STATIC, .v = vec_last(&B->reads).v};
}

static KVal implied(Body *B, Sym name)
{
    const ScheduleName *s = schedule_name(schedule_implicit, name->text);
    static const char *const offsets[] = {"block_m", "block_n", "block_k", "block_d"};

    if (s)
        return kb_field(B, (ScheduleField)s->first);
    for (int i = 0; i < 4; i++)
        if (!strcmp(offsets[i], name->text))
            return i < 3 ? group_offset(B, i) : kb_number(0);
    return kb_fail(B, "name '%s' is not defined", name->text);
}

KVal kb_name(Body *B, const AstName *n)
{
    const FuncObj *fn = B->fn->fn;
    KVal *v = kb_var(B, n->id);

    if (v && v->kind != K_UNSET)
        return *v;
    switch (n->bind) {
    case BIND_GLOBAL:
        if ((int)n->slot < fn->module->nslots && !is_err(fn->module->slot[n->slot]))
            return outer(B, &fn->module->slot[n->slot], n->id);
        break;
    case BIND_FREE:
        if (fn->closure && fn->closure[n->slot])
            return outer(B, &fn->closure[n->slot]->v, n->id);
        break;
    case BIND_PRELUDE: {
        Value p = prelude_value(B->I, (int)n->slot);
        return is_err(p) ? kb_pending(B) : kb_static(B, value_ref(p));
    }
    case BIND_LOCAL: case BIND_CELL:
        if (!v)
            break;
        return kb_fail(B, "variable '%s' has no value here, or no single one", n->id->text);
    default: break;
    }
    return implied(B, n->id);
}

/* ------------------------------------------------------------- sequences */

KVal kb_static_item(Value v) { return (KVal){.kind = K_STATIC, .v = v}; }

static bool range_numbers(KVal r, int64_t *out)
{
    for (int i = 0; i < 3; i++) {
        if (r.item[i].kind != K_STATIC || r.item[i].v.tag != V_INT)
            return false;
        out[i] = r.item[i].v.i;
    }
    return r.how == RANGE_ALL && out[2] != 0;
}

static int range_items(Body *B, const int64_t *r, KVal **items)
{
    int64_t n = r[2] > 0 ? (r[1] > r[0] ? (r[1] - r[0] + r[2] - 1) / r[2] : 0) : (r[0] > r[1] ? (r[0] - r[1] - r[2] - 1) / -r[2] : 0);

    if (n > 4096) {
        kb_fail(B, "%lld numbers are too many to be written out", (long long)n);
        return -1;
    }
    *items = kb_alloc(B, sizeof **items * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++)
        (*items)[i] = kb_number(r[0] + i * r[2]);
    return (int)n;
}

int kb_sequence(Body *B, KVal v, KVal **items)
{
    int64_t r[3];

    *items = v.item;
    if (v.kind == K_TUPLE || v.kind == K_LIST || v.kind == K_VECTOR)
        return v.n;
    if (v.kind == K_RANGE && range_numbers(v, r))
        return range_items(B, r, items);
    if (v.kind == K_STATIC && (v.v.tag == V_TUPLE || v.v.tag == V_LIST)) {
        int64_t n = v.v.tag == V_TUPLE ? as_tuple(v.v)->n : as_list(v.v)->n;
        const Value *at = v.v.tag == V_TUPLE ? as_tuple(v.v)->at : as_list(v.v)->at;
        *items = kb_alloc(B, sizeof **items * (size_t)(n + 1));
        for (int64_t i = 0; i < n; i++)
            (*items)[i] = kb_static_item(at[i]);
        return (int)n;
    }
    return -1;
}

int kb_iterated(Body *B, KVal v, KVal **items)
{
    int n = kb_sequence(B, v, items);
    Value list;

    if (n >= 0 || v.kind != K_STATIC)
        return n;
    list = value_to_list(B->I, v.v);
    if (!is_err(list))
        return kb_sequence(B, kb_static(B, list), items);
    exc_clear(B->I);
    return -1;
}

Sym kb_called(const Ast *target) { return AST_IS(target, Name) ? AST_AS(target, Name)->id : NULL; }

static KVal display(Body *B, const Ast *e, int kind)
{
    AstSeq elts = AST_AS(e, Tuple)->elts, names = B->targets ? AST_AS(B->targets, Tuple)->elts : (AstSeq){0};
    KVal y = {.kind = (uint8_t)kind, .n = elts.n};

    y.item = kb_alloc(B, sizeof *y.item * (size_t)(elts.n + 1));
    for (int i = 0; i < elts.n; i++) {
        uint64_t path = B->fn->path;
        B->fn->path = (path + (uint64_t)i + 1) * 0xff51afd7ed558ccdu;
        B->targets = NULL;
        if (i < names.n)
            B->target = kb_called(names.at[i]);
        y.item[i] = kb_now(B, kb_expr(B, elts.at[i]));
        B->fn->path = path;
        if (kb_bad(y.item[i]))
            return KBAD;
    }
    return y;
}

typedef struct Comp { const AstListComp *e; Vec(KVal) out; } Comp;

static bool comp_clause(Body *B, Comp *c, int at);

static bool comp_round(Body *B, Comp *c, int at, const AstCompFor *f)
{
    for (int i = 0; i < f->ifs.n; i++) {
        KVal t = kb_truth(B, kb_expr(B, f->ifs.at[i]));
        if (t.kind != K_STATIC)
            return kb_bad(t) ? false : (kb_fail(B, "the condition of a comprehension must be known before the launch"), false);
        if (!t.v.i)
            return true;
    }
    return comp_clause(B, c, at + 1);
}

static void comp_bind(Body *B, Ast *target, KVal v)
{
    KVal *item;

    if (AST_IS(target, Name)) {
        kb_set(B, AST_AS(target, Name)->id, v);
    } else if (AST_IS(target, Tuple) && kb_sequence(B, v, &item) == AST_AS(target, Tuple)->elts.n) {
        for (int i = 0; i < AST_AS(target, Tuple)->elts.n; i++)
            comp_bind(B, AST_AS(target, Tuple)->elts.at[i], item[i]);
    } else {
        kb_fail(B, "the parts of a comprehension do not fit its names");
    }
}

static bool comp_clause(Body *B, Comp *c, int at)
{
    const AstCompFor *f;
    uint64_t path = B->fn->path;
    KVal *item, it;
    int n;

    if (at == c->e->clauses.n) {
        vec_push(&c->out, kb_now(B, kb_expr(B, c->e->elt)));
        return !B->failed;
    }
    f = AST_AS(c->e->clauses.at[at], CompFor);
    it = kb_expr(B, f->iter);
    n = kb_bad(it) ? -1 : kb_iterated(B, it, &item);
    if (n < 0)
        return kb_fail(B, "a comprehension goes over what is known before the launch"), false;
    for (int i = 0; i < n && !B->failed; i++) {
        B->fn->path = (path + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
        comp_bind(B, f->target, item[i]);
        comp_round(B, c, at, f);
    }
    B->fn->path = path;
    return !B->failed;
}

static KVal comprehension(Body *B, const AstListComp *e)
{
    Comp c = {.e = e};
    KVal y = {.kind = K_LIST};

    if (comp_clause(B, &c, 0)) {
        y.n = c.out.n;
        y.item = kb_alloc(B, sizeof *y.item * (size_t)(c.out.n + 1));
        for (int i = 0; i < c.out.n; i++)
            y.item[i] = c.out.at[i];
    }
    vec_free(&c.out);
    return B->failed ? KBAD : y;
}

/* ------------------------------------------------------------- indices */

/* x[at[i]:at[i]+16]: where it begins is read once, so its extent is what is written. */
static bool from_start(const AstSlice *s)
{
    return s->lo && AST_IS(s->hi, BinOp) && AST_AS(s->hi, BinOp)->op == AOP_ADD && ast_equal(AST_AS(s->hi, BinOp)->left, s->lo);
}

static KVal slice_of(Body *B, const AstSlice *s)
{
    Ast *part[3] = {s->lo, s->hi, s->step};
    KVal y = {.kind = K_TUPLE, .n = 3, .name = sym("slice")};
    Lin start;

    y.item = kb_alloc(B, sizeof *y.item * 3);
    for (int i = 0; i < 3; i++)
        if (i == 1 && from_start(s) && kb_to_lin(B, y.item[0], &start))
            y.item[0] = kb_int(B, start), y.item[1] = kb_binary(B, AOP_ADD, y.item[0], kb_value(B, kb_expr(B, AST_AS(s->hi, BinOp)->right)));
        else
            y.item[i] = part[i] ? kb_value(B, kb_expr(B, part[i])) : kb_static_item(VNONE);
    return B->failed ? KBAD : y;
}

static KVal one_index(Body *B, Ast *e)
{
    return AST_IS(e, Slice) ? slice_of(B, AST_AS(e, Slice)) : kb_value(B, kb_expr(B, e));
}

int kb_indices(Body *B, Ast *index, KVal *out)
{
    int n = 0;

    if (!AST_IS(index, Tuple)) {
        KVal v = one_index(B, index), *item;
        int count;
        if (v.kind == K_TUPLE && !v.name && (count = kb_sequence(B, v, &item)) >= 0 && count <= INDICES_MAX) {
            for (; n < count; n++)
                out[n] = kb_value(B, item[n]);
            return B->failed ? -1 : n;
        }
        out[n++] = v;
        return kb_bad(v) ? -1 : n;
    }
    if (AST_AS(index, Tuple)->elts.n > INDICES_MAX)
        return kb_fail(B, "more than %d indices", INDICES_MAX), -1;
    for (; n < AST_AS(index, Tuple)->elts.n; n++)
        if (kb_bad(out[n] = one_index(B, AST_AS(index, Tuple)->elts.at[n])))
            return -1;
    return n;
}

/* p["w"], of a dict of tensors among the arguments: each is a parameter. */
static KVal *tensor_in_dict(Body *B, const AstSubscript *e, KVal base, KVal key)
{
    if (base.kind != K_STATIC || base.v.tag != V_DICT || key.kind != K_STATIC || !AST_IS(e->value, Name))
        return NULL;
    return kb_var(B, kernel_item_name(B->I, AST_AS(e->value, Name)->id, key.v));
}

static KVal subscript(Body *B, AstSubscript *e)
{
    KVal base = kb_expr(B, e->value), index[INDICES_MAX], *own;
    int n = kb_bad(base) ? -1 : kb_indices(B, e->index, index);

    if (n == 1 && (own = tensor_in_dict(B, e, base, index[0])))
        return *own;

    B->b.span = e->ast.span;
    return n < 0 ? KBAD : kb_subscript(B, base, index, n);
}

/* ------------------------------------------------------------- truths */

static KVal make_expr(Body *B, void *e) { return kb_truth(B, kb_expr(B, e)); }
static KVal make_plain(Body *B, void *e) { return kb_expr(B, e); }
static KVal make_static(Body *B, void *v) { (void)B; return *(KVal *)v; }

typedef struct Both { Ast *test; KVal fixed; } Both;
static KVal make_both(Body *B, void *what)
{
    Both *b = what;

    return b->test ? make_expr(B, b->test) : make_static(B, &b->fixed);
}

KVal kb_and_test(Body *B, KVal stay, Ast *test)
{
    Both a = {test, KUNSET}, b = {NULL, {.kind = K_STATIC, .v = vbool(false)}};

    return kb_choose(B, stay, make_both, &a, &b);
}

/* a and b: the second is evaluated only where the first says so. Of operands known now, the value itself. */
static KVal bool_op(Body *B, const AstBoolOp *e)
{
    KVal x = kb_expr(B, e->values.at[0]);

    for (int i = 1; i < e->values.n && !kb_bad(x); i++) {
        KVal t = kb_truth(B, x);
        Both next = {e->values.at[i], KUNSET}, stop = {NULL, t};
        if (kb_bad(t))
            return t;
        if (t.kind == K_STATIC) {
            if ((e->op == AOP_AND) != (t.v.i != 0))
                return x;
            x = kb_expr(B, e->values.at[i]);
            continue;
        }
        stop.fixed = kb_static_item(vbool(e->op == AOP_OR));
        x = e->op == AOP_AND ? kb_choose(B, t, make_both, &next, &stop) : kb_choose(B, t, make_both, &stop, &next);
    }
    return x;
}

static KVal compare_chain(Body *B, const AstCompare *e)
{
    KVal a = kb_value(B, kb_expr(B, e->left)), y = kb_static_item(vbool(true));

    for (int i = 0; i < e->rest.n && !kb_bad(a) && !kb_bad(y); i++) {
        const AstCompareItem *c = AST_AS(e->rest.at[i], CompareItem);
        KVal b, t;
        if (kb_is_static_false(y))
            return y;
        b = kb_expr(B, c->right);
        b = c->op == AOP_IN || c->op == AOP_NOT_IN ? b : kb_value(B, b);
        t = kb_compare(B, (AstOp)c->op, a, b);
        y = kb_is_static_true(y) ? t : kb_is_static_true(t) ? y : kb_is_static_false(t) ? t : kb_apply(B, OP_bitand, (KVal[]){y, t}, 2);
        a = b;
    }
    return kb_bad(a) ? a : y;
}

static KVal if_expr(Body *B, const AstIfExp *e)
{
    KVal t = kb_truth(B, kb_expr(B, e->test));

    if (kb_bad(t))
        return t;
    if (t.kind == K_STATIC)
        return kb_expr(B, t.v.i ? e->body : e->orelse);
    if (tile_type(t.ref)->rank)
        return kb_fail(B, "E0617: a block value is not true or false: where(test, a, b) chooses by element");
    return kb_choose(B, t, make_plain, e->body, e->orelse);
}

/* ------------------------------------------------------------- attributes */

static KVal method(Body *B, KVal of, Sym name)
{
    KVal y = {.kind = K_METHOD, .name = name, .n = 1};

    y.item = kb_alloc(B, sizeof *y.item);
    y.item[0] = of;
    return y;
}

static KVal context_field(Body *B, Sym name)
{
    const ScheduleName *s = schedule_name(schedule_shorts, name->text);
    ScheduleField f = s ? (ScheduleField)s->first : schedule_field(name->text);
    KVal d = kb_dimension(B, name, true);

    if (d.kind != K_UNSET)
        return d;
    return f < SCHED_COUNT ? kb_field(B, f) : kb_fail(B, "E0619: a tile's context has no '%s'", name->text);
}

Sym kernel_field_name(Sym param, Sym attr)
{
    char text[160];

    snprintf(text, sizeof text, "%.64s.%.64s", param->text, attr->text);
    return sym(text);
}

/* A tensor of an object among the arguments is a parameter too. */
static KVal *field(Body *B, const AstAttribute *e)
{
    return AST_IS(e->value, Name) ? kb_var(B, kernel_field_name(AST_AS(e->value, Name)->id, e->attr)) : NULL;
}

static KVal count_of(Body *B, KVal shape)
{
    KVal y = kb_number(1);

    for (int i = 0; i < shape.n && !kb_bad(y); i++)
        y = kb_binary(B, AOP_MUL, y, shape.item[i]);
    return y;
}

static KVal attribute(Body *B, const AstAttribute *e)
{
    KVal *own = field(B, e), base = own ? *own : kb_expr(B, e->value);
    const char *s = e->attr->text;

    if (own)
        return *own;

    if (kb_bad(base))
        return base;
    if (base.kind == K_CONTEXT)
        return context_field(B, e->attr);
    if (base.kind == K_STATIC) {
        Value v = value_getattr(B->I, base.v, e->attr);
        return is_err(v) ? kb_pending(B) : kb_static(B, v);
    }
    if (base.kind == K_PLACE || base.kind == K_BLOCK) {
        if (!strcmp(s, "shape"))
            return kb_shape(B, base);
        if (!strcmp(s, "size"))
            return count_of(B, kb_shape(B, base));
        if (!strcmp(s, "ndim"))
            return kb_number(base.kind == K_PLACE ? kplace_free(base.place) : tile_type(base.ref)->rank);
        if (!strcmp(s, "dtype") || !strcmp(s, "policy"))
            return kb_static(B, dtype_value(base.kind == K_PLACE ? base.place->dtype : (DType)tile_type(base.ref)->dtype, NULL));
        if (!strcmp(s, "T") || !strcmp(s, "mT"))
            return block_method(B, kb_value(B, base), s, NULL, NULL, 0);
    }
    if (base.kind == K_SCALAR && (!strcmp(s, "dtype") || !strcmp(s, "policy")))
        return kb_static(B, dtype_value(base.weak ? DT_f32 : (DType)tile_type(base.ref)->dtype, NULL));
    if (base.kind == K_SCALAR && !strcmp(s, "ndim"))
        return kb_number(0);
    return method(B, base, e->attr);
}

/* ------------------------------------------------------------- expressions */

static Value text_value(AstText t) { return str_new(t.s, t.n); }

static KVal constant(const AstConst *e)
{
    static const Value v[] = {[CONST_NONE] = {.tag = V_NONE}, [CONST_FALSE] = {.tag = V_BOOL}, [CONST_TRUE] = {.tag = V_BOOL, .i = 1},
                              [CONST_ELLIPSIS] = {.tag = V_ELLIPSIS}};

    return kb_static_item(v[e->value]);
}

static KVal expr(Body *B, Ast *e)
{
    KVal a, b;

    switch (e->kind) {
    case AST_Name: return kb_name(B, AST_AS(e, Name));
    case AST_Int: return kb_number(AST_AS(e, Int)->value);
    case AST_Float: return kb_static_item(vfloat(AST_AS(e, Float)->value));
    case AST_Str: return kb_static(B, text_value(AST_AS(e, Str)->value));
    case AST_Const: return constant(AST_AS(e, Const));
    case AST_BinOp:
        a = kb_expr(B, AST_AS(e, BinOp)->left);
        b = kb_bad(a) ? a : kb_expr(B, AST_AS(e, BinOp)->right);
        B->b.span = e->span;
        a = kb_value(B, a);
        return kb_binary(B, (AstOp)AST_AS(e, BinOp)->op, a, kb_value(B, b));
    case AST_UnaryOp: return kb_unary(B, (AstOp)AST_AS(e, UnaryOp)->op, kb_expr(B, AST_AS(e, UnaryOp)->operand));
    case AST_BoolOp: return bool_op(B, AST_AS(e, BoolOp));
    case AST_Compare: return compare_chain(B, AST_AS(e, Compare));
    case AST_Call: return kb_call(B, AST_AS(e, Call));
    case AST_Attribute: return attribute(B, AST_AS(e, Attribute));
    case AST_Subscript: return subscript(B, AST_AS(e, Subscript));
    case AST_Tuple: return display(B, e, K_TUPLE);
    case AST_List: return display(B, e, K_LIST);
    case AST_IfExp: return if_expr(B, AST_AS(e, IfExp));
    case AST_ListComp: case AST_GenExp: return comprehension(B, AST_AS(e, ListComp));
    case AST_NamedExpr:
        a = kb_value(B, kb_expr(B, AST_AS(e, NamedExpr)->value));
        if (!kb_bad(a) && AST_IS(AST_AS(e, NamedExpr)->target, Name))
            kb_set(B, AST_AS(AST_AS(e, NamedExpr)->target, Name)->id, a);
        return a;
    default: return kb_fail(B, "E0618: this expression cannot stand in a kernel");
    }
}

KVal kb_expr(Body *B, Ast *e)
{
    KVal v;

    if (B->failed)
        return KBAD;
    B->b.span = e->span;
    v = expr(B, e);
    B->b.span = e->span;
    return B->failed ? KBAD : v;
}
