/*
 * Operators on what is no tensor: the pairs that no run can compute.
 *
 * Only values whose kind is known for certain are judged, and classes may define
 * what they like.  A float may be a tensor of no axes here (sqrt(2.0) gives
 * one), so it is only judged beside what no tensor goes with either.
 */
#include "frontend/check/checker.h"
#include "frontend/check/foreign.h"

#include <stdio.h>
#include <string.h>

typedef enum { OTHER, NONE, NUMBER, REAL, TEXT, BYTES, LIST, TUPLE, DICT, SET, RANGE, RUNNING } Sort;

/* NUMBER: int, bool; RUNNING: a generator or coroutine, which only goes on */

static Sort sort_of(const Type *t)
{
    switch (t->kind) {
    case TY_NONE: return NONE;
    case TY_BOOL: case TY_INT: return NUMBER;
    case TY_FLOAT: case TY_COMPLEX: return REAL;
    case TY_STR: return TEXT;
    case TY_BYTES: return BYTES;
    case TY_LIST: return LIST;
    case TY_TUPLE: return TUPLE;
    case TY_DICT: return DICT;
    case TY_SET: return SET;
    case TY_RANGE: return RANGE;
    case TY_OBJECT: return !strcmp(t->text->text, "generator") || !strcmp(t->text->text, "coroutine") ? RUNNING : OTHER;
    default: return OTHER;
    }
}

static bool is_sequence(Sort s)
{
    return s >= TEXT && s <= TUPLE;
}

static bool numbers(Sort a, Sort b)
{
    return (a == NUMBER || a == REAL) && (b == NUMBER || b == REAL);
}

/* Does `a op b` surely fail? */
static bool no_operator(int op, Sort a, Sort b)
{
    if (a == OTHER || b == OTHER)
        return false;
    if ((a == REAL && b >= LIST) || (b == REAL && a >= LIST))
        return false;
    switch (op) {
    case AOP_ADD: return !numbers(a, b) && !(a == b && is_sequence(a));
    case AOP_SUB: return !numbers(a, b) && !(a == SET && b == SET);
    case AOP_MUL: return !numbers(a, b) && !(is_sequence(a) && b == NUMBER) && !(a == NUMBER && is_sequence(b));
    case AOP_MOD: return !numbers(a, b) && a != TEXT && a != BYTES;
    case AOP_DIV: case AOP_FLOORDIV: case AOP_POW: return !numbers(a, b);
    case AOP_LSHIFT: case AOP_RSHIFT: return !(a == NUMBER && b == NUMBER) && !numbers(a, b);
    case AOP_BITAND: case AOP_BITXOR: return !numbers(a, b) && !(a == SET && b == SET);
    case AOP_BITOR: return !numbers(a, b) && !(a == b && (a == SET || a == DICT)) && a != NONE && b != NONE;
    default: return false;
    }
}

static bool no_order(Sort a, Sort b)
{
    if (a == OTHER || b == OTHER || (a == REAL && b >= LIST) || (b == REAL && a >= LIST))
        return false;
    return !numbers(a, b) && !(a == b && (is_sequence(a) || a == SET));
}

/* "str": the type without what is known of its elements. */
static const char *sort_text(const Type *t)
{
    static const char *const names[] = {[NONE] = "None", [TEXT] = "str", [BYTES] = "bytes", [LIST] = "list", [TUPLE] = "tuple",
                                        [DICT] = "dict", [SET] = "set", [RANGE] = "range"};
    Sort s = sort_of(t);

    return s == NUMBER || s == REAL || s == OTHER || s == RUNNING ? type_text(t) : names[s];
}

static void advise(Diag *d, int op, Sort a, Sort b)
{
    if (op == AOP_ADD && (a == TEXT || b == TEXT) && a != NONE && b != NONE)
        diag_help(d, "put the value into the text: f\"... {value}\", or convert one side with str(), int() or float()");
    else if (a == NONE || b == NONE)
        diag_help(d, "give the variable a value first; a function without return gives None, and so do append and sort");
    else if ((a == LIST || b == LIST) && (a == NUMBER || b == NUMBER))
        diag_help(d, "compute with each element: [x + 1 for x in xs], or with a tensor: tensor(xs) + 1");
    else if (op == AOP_ADD && a != b && is_sequence(a) && is_sequence(b))
        diag_help(d, "convert one side: list(t) or tuple(xs)");
}

/* Both operands, each with where it comes from. */
static void tell_operands(Check *C, Diag *d, Ast *left, Ast *right)
{
    origin_of(C, d, left, DIM_BAD);
    origin_of(C, d, right, DIM_BAD);
}

/* A number that is written there, 2.0, is no tensor: containers do not go with it. */
static bool number_beside(int op, const Type *number, const Type *t)
{
    return number->kind == TY_FLOAT && number->exact && sort_of(t) >= LIST && sort_of(t) <= RANGE && op <= AOP_POW;
}

/* The same of types; of one of several each fails. */
static bool no_operator_of(int op, const Type *a, const Type *b)
{
    const Type *u = a->kind == TY_UNION ? a : b;

    if (u->kind != TY_UNION)
        return no_operator(op, sort_of(a), sort_of(b));
    for (int i = 0; i < u->n; i++)
        if (!no_operator_of(op, u == a ? u->item[i] : a, u == a ? b : u->item[i]))
            return false;
    return u->n > 0;
}

void host_operands(Check *C, int op, const Type *a, const Type *b, Ast *node)
{
    Ast *left = AST_IS(node, BinOp) ? AST_AS(node, BinOp)->left : NULL, *right = left ? AST_AS(node, BinOp)->right : NULL;
    Diag *d;

    if (!no_operator_of(op, a, b) && !number_beside(op, a, b) && !number_beside(op, b, a))
        return;
    d = REPORT(C, E0913, node->span, ast_op_text[op], sort_text(a), sort_text(b));
    if (sort_of(a) == RUNNING || sort_of(b) == RUNNING)
        diag_help(d, !strcmp(sort_text(sort_of(a) == RUNNING ? a : b), "coroutine") ? "a coroutine is awaited for its result: await f()"
                                                                                    : "a generator gives its values one by one: for x in g, list(g)");
    else
        advise(d, op, sort_of(a), sort_of(b));
    tell_operands(C, d, left, right);
}

void host_operand(Check *C, const Type *t, Ast *e, const char *op)
{
    Sort s = sort_of(t);
    char what[32];
    const char *method = *op == '-' ? "__neg__" : *op == '+' ? "__pos__" : "__invert__";

    if (object_lacks(C, t, method)) {
        snprintf(what, sizeof what, "the operand of %s", op);
        diag_help(REPORT(C, E0906, e->span, what, "a number or a tensor", type_text(t)), "define %s.%s(self)", cls_name(t->ref), method);
        return;
    }
    if (s == OTHER || s == NUMBER || s == REAL)
        return;
    snprintf(what, sizeof what, "the operand of %s", op);
    origin_of(C, REPORT(C, E0906, e->span, what, "a number or a tensor", sort_text(t)), e, DIM_BAD);
}

/* Has a class's object no order with what is beside it? Ordered dataclasses and named tuples have. */
static bool unordered(const Check *C, int op, const Type *a, const Type *b)
{
    static const char *const own[] = {"__lt__", "__le__", "__gt__", "__ge__"}, *const other[] = {"__gt__", "__ge__", "__lt__", "__le__"};
    const Cls *c = a->kind == TY_INSTANCE ? a->ref : NULL, *k = b->kind == TY_INSTANCE ? b->ref : NULL;
    int i = op == AOP_LT ? 0 : op == AOP_LE ? 1 : op == AOP_GT ? 2 : op == AOP_GE ? 3 : -1;

    if (i < 0 || (!c && !k) || (c && (c->is_ordered || c->is_record)) || (k && (k->is_ordered || k->is_record)))
        return false;
    return (c ? object_lacks(C, a, own[i]) : sort_of(a) != OTHER) && (k ? object_lacks(C, b, other[i]) : sort_of(b) != OTHER);
}

void host_order(Check *C, int op, const Type *a, const Type *b, Ast *left, Ast *right)
{
    Diag *d;
    bool in = op == AOP_IN || op == AOP_NOT_IN;

    if (in ? sort_of(b) != NONE && sort_of(b) != NUMBER && !(b->kind == TY_STR && sort_of(a) == NUMBER)
           : op < AOP_LT || op > AOP_GE || (!no_order(sort_of(a), sort_of(b)) && !unordered(C, op, a, b)))
        return;
    d = REPORT(C, E0913, span_join(left->span, right->span), ast_op_text[op], sort_text(a), sort_text(b));
    if (in)
        diag_help(d, "what stands right of 'in' holds elements: a list, a dict, a text, range(n)");
    else if (a->kind == TY_INSTANCE || b->kind == TY_INSTANCE)
        diag_help(d, "define %s.__lt__(self, other), or sort by a number or text of it: key=", cls_name((a->kind == TY_INSTANCE ? a : b)->ref));
    else
        advise(d, op, sort_of(a), sort_of(b));
    tell_operands(C, d, left, right);
}

bool object_lacks(const Check *C, const Type *t, const char *name)
{
    const Cls *c = !type_is_any(t) && t->kind == TY_INSTANCE ? t->ref : NULL;
    Sym method = sym(name);

    return c && !cls_is_open(c) && !c->far && !c->is_protocol && !c->is_module && !c->home->library && !cls_has(c, method) &&
           !C->setattr_used && !map_find(&C->stored_attrs, (uintptr_t)method, NULL) &&
           !(c->name && map_find(&C->subclassed, (uintptr_t)c->name, NULL) && !t->inst);
}

/* Functions, and tensors of no axes. */
static bool no_elements(const Type *t)
{
    return !type_is_any(t) && (t->kind == TY_FUNC || (t->kind == TY_TENSOR && t->tensor->rank == 0));
}

void host_iterated(Check *C, const Type *t, Ast *e)
{
    Sort s = sort_of(t);
    Diag *d;

    optional_used(C, e, "None cannot be iterated over");
    if (s != NONE && s != NUMBER && !no_elements(t) &&
        !(object_lacks(C, t, "__iter__") && object_lacks(C, t, "__getitem__") && object_lacks(C, t, "__aiter__")))
        return;
    d = REPORT(C, E0914, e->span, sort_text(t));
    if (t->kind == TY_FUNC)
        diag_help(d, "call the function for what it gives: f()");
    if (t->kind == TY_INSTANCE)
        diag_help(d, "define %s.__iter__(self), which may be a generator", cls_name(t->ref));
    if (t->kind == TY_TENSOR)
        diag_help(d, "a tensor without axes is one number: x.item()");
    if (t->kind == TY_INT)
        diag_help(d, "go through the numbers below it: range(n), or through the places of a sequence: range(len(xs))");
    origin_of(C, d, e, DIM_BAD);
}

/* What is only gone through: map, zip, the views of dicts. */
static bool is_gone_through(const Type *t)
{
    static const char *const names[] = {"map", "zip", "filter", "enumerate", "reversed", "dict_keys", "dict_values", "dict_items",
                                       "chain", "islice", "product"};

    for (size_t i = 0; t->kind == TY_OBJECT && i < sizeof names / sizeof *names; i++)
        if (!strcmp(t->text->text, names[i]))
            return true;
    return false;
}

void host_subscripted(Check *C, const Type *t, const Type *index, Ast *value, Ast *node)
{
    Sort s = sort_of(t), i = sort_of(index);
    Diag *d;

    if (is_gone_through(t)) {
        d = REPORT(C, E0915, node->span, t->text->text, "with []");
        diag_help(d, "make a list of it first: list(xs)[0], or take the first: next(iter(xs))");
    } else if (s == NONE || s == NUMBER || s == RUNNING || s == SET) {
        d = REPORT(C, E0915, node->span, sort_text(t), "with []");
        diag_help(d, s == RUNNING ? !strcmp(sort_text(t), "coroutine") ? "a coroutine is awaited for its result: (await f())[0]"
                                                                    : "make a list of it first: list(g)[0], or take the next value: next(g)" :
                  s == SET ? "a set has no order: sorted(s)[0], or next(iter(s))" :
                  s == NONE ? "give the variable a value first; a function without return gives None"
                               : "only sequences, dicts and tensors have elements");
        origin_of(C, d, value, DIM_BAD);
    } else if (is_sequence(s) && (i == TEXT || i == NONE || index->kind == TY_TUPLE || index->kind == TY_LIST)) {
        d = REPORT(C, E0915, node->span, sort_text(t), index->kind == TY_TUPLE ? "by several indices" : i == TEXT ? "by a text" :
                   i == NONE ? "by None" : "by a list");
        diag_help(d, s == LIST && index->kind == TY_TUPLE ? "index a list of lists one by one, xs[i][j], or make a tensor of it: tensor(xs)[i, j]"
                     : "a sequence is indexed by an int or a slice");
        origin_of(C, d, value, DIM_BAD);
    }
}

typedef struct { const Type *dict; int i; } Keys;

static const char *next_key(void *state)
{
    Keys *k = state;

    k->i += 2;
    while (k->i <= k->dict->n && !k->dict->item[k->i - 2]->text)
        k->i += 2;
    return k->i <= k->dict->n ? k->dict->item[k->i - 2]->text->text : NULL;
}

static void put_key(StrBuf *out, const Type *key)
{
    if (key->kind == TY_STR)
        sb_printf(out, "\"%s\"", key->text->text);
    else
        dim_print(key->value, out);
}

void host_key_missing(Check *C, const Type *dict, const Type *key, Ast *node)
{
    Keys all = {dict, 0};
    const char *near = key->kind == TY_STR ? closest_name(key->text->text, next_key, &all) : NULL;
    StrBuf by = {0}, keys = {0};
    Diag *d;

    sb_puts(&by, "by ");
    put_key(&by, key);
    sb_puts(&by, ": it has no such key");
    d = REPORT(C, E0915, node->span, "dict", sb_str(&by));
    for (int i = 0; i < dict->n && i < 16; i += 2) {
        sb_puts(&keys, i ? ", " : "");
        put_key(&keys, dict->item[i]);
    }
    diag_note(d, "its keys are %s%s", sb_str(&keys), dict->n > 16 ? ", ..." : "");
    if (near)
        diag_guess(d, span_quoted(AST_AS(node, Subscript)->index->span), key->text->text, near);
    else
        diag_help(d, "d.get(key, default) gives a default where there is none");
    sb_done(&by);
    sb_done(&keys);
}

void host_out_of_range(Check *C, const Type *t, int64_t n, int64_t k, Ast *node)
{
    StrBuf by = {0};
    Diag *d;

    sb_printf(&by, "by %lld: it has %lld %s%s", (long long)k, (long long)n, t->kind == TY_STR ? "character" : "element", n == 1 ? "" : "s");
    d = REPORT(C, E0915, node->span, sort_text(t), sb_str(&by));
    if (n)
        diag_help(d, "indices go from %lld to %lld", (long long)-n, (long long)n - 1);
    sb_done(&by);
}

/* Elements of a container that statements change are known only where they are declared. */
void host_element_stored(Check *C, const Type *container, const Type *t, Span span)
{
    const Type *want = container->kind == TY_DICT && !container->exact ? container->item[1] :
                       (container->kind == TY_LIST && !container->exact) || container->kind == TY_SET ? container->item[0] : NULL;

    if (!type_is_any(want) && type_fits(C, t, want) == FITS_NOT)
        report_misfit(C, span, "an element of it", t, want);
}

void host_key_stored(Check *C, const Type *container, const Type *key, Span span)
{
    const Type *want = container->kind == TY_DICT && !container->exact ? container->item[0] : NULL;

    if (!type_is_any(want) && type_fits(C, key, want) == FITS_NOT)
        report_misfit(C, span, "a key of it", key, want);
}

/* ------------------------------------------------------------- objects of the program's classes */

static const struct { int op; const char *own, *other, *changing; } operators[] = {
    {AOP_ADD, "__add__", "__radd__", "__iadd__"},
    {AOP_SUB, "__sub__", "__rsub__", "__isub__"},
    {AOP_MUL, "__mul__", "__rmul__", "__imul__"},
    {AOP_DIV, "__truediv__", "__rtruediv__", "__itruediv__"},
    {AOP_FLOORDIV, "__floordiv__", "__rfloordiv__", "__ifloordiv__"},
    {AOP_MOD, "__mod__", "__rmod__", "__imod__"},
    {AOP_POW, "__pow__", "__rpow__", "__ipow__"},
    {AOP_MATMUL, "__matmul__", "__rmatmul__", "__imatmul__"},
};

/* The method of an object's class; *unknown: whether it has one is not known, for what is no object too. */
static const Type *method_of(Check *C, const Type *t, const char *name, bool *unknown)
{
    const Cls *c = !type_is_any(t) && t->kind == TY_INSTANCE ? t->ref : NULL;
    const Type *m = c ? cls_find(c, sym(name)) : NULL;

    *unknown |= !c || cls_is_open(c) || c->far || c->is_protocol || c->home->library || map_find(&C->stored_attrs, (uintptr_t)sym(name), NULL);
    return m && m->kind == TY_FUNC ? m : (*unknown |= m != NULL, NULL);
}

/* Only what the program's classes and the builtin ones say is known. */
static bool is_judged(const Type *t) { return t->kind == TY_INSTANCE || sort_of(t) != OTHER; }

/* A sequence times an object that says how often. */
static bool repeats(int op, const Type *seq, const Type *times)
{
    return op == AOP_MUL && is_sequence(sort_of(seq)) && times->kind == TY_INSTANCE && cls_has(times->ref, sym("__index__"));
}

const Type *object_operator(Check *C, int op, const Type *a, const Type *b, Ast *node)
{
    bool unknown = false;
    const Type *m;
    Diag *d;

    if (op == AOP_MOD && a->kind == TY_STR)             /* "%s" % x writes any x */
        return type_str(NULL);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (operators[i].op != op)
            continue;
        m = a->kind == TY_INSTANCE ? method_of(C, a, operators[i].own, &unknown) : NULL;
        if (m)
            return call_type(C, type_method(a, m), &(CallArgs){&(CallArg){NULL, b, node, 0}, 1, false}, node);
        m = b->kind == TY_INSTANCE ? method_of(C, b, operators[i].other, &unknown) : NULL;
        if (m)
            return call_type(C, type_method(b, m), &(CallArgs){&(CallArg){NULL, a, node, 0}, 1, false}, node);
        if (unknown || !AST_IS(node, BinOp) || !is_judged(a) || !is_judged(b) || repeats(op, a, b) || repeats(op, b, a))
            return T_ANY;
        d = REPORT(C, E0913, node->span, ast_op_text[op], type_text(a), type_text(b));
        diag_help(d, "define %s.%s(self, other)", cls_name((a->kind == TY_INSTANCE ? a : b)->ref),
                  a->kind == TY_INSTANCE ? operators[i].own : operators[i].other);
        break;
    }
    return T_ANY;
}

const Type *object_changed(Check *C, int op, const Type *t, const Type *by, Ast *node)
{
    bool unknown = false;
    const Type *m;

    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].op == op && (m = method_of(C, t, operators[i].changing, &unknown)))
            return call_type(C, type_method(t, m), &(CallArgs){&(CallArg){NULL, by, node, 0}, 1, false}, node);
    return unknown ? T_ANY : NULL;
}

const Type *object_subscript(Check *C, const Type *t, const Type *index, Ast *node)
{
    bool unknown = false;
    const Type *m = method_of(C, t, "__getitem__", &unknown);

    if (m)
        return call_type(C, type_method(t, m), &(CallArgs){&(CallArg){NULL, index, node, 0}, 1, false}, node);
    if (!unknown)
        diag_help(REPORT(C, E0915, node->span, type_text(t), "with []"), "define %s.__getitem__(self, index)", cls_name(t->ref));
    return T_ANY;
}

void host_stored(Check *C, const Type *t, const Type *index, AstSubscript *place)
{
    Sort s = sort_of(t);
    Diag *d;

    if (t->kind == TY_DICT && !type_is_any(index) && (index->kind == TY_LIST || index->kind == TY_DICT || index->kind == TY_SET)) {
        d = REPORT(C, E0915, place->ast.span, "dict", "by what can change, such as a list, dict or set");
        diag_help(d, "a key is a text, a number or a tuple: %s",
                  index->kind == TY_DICT ? "tuple(d.items())" : index->kind == TY_LIST ? "tuple(xs)" : "frozenset(s)");
        return;
    }
    if (s != TEXT && s != BYTES && s != TUPLE && s != RANGE) {
        host_subscripted(C, t, index, place->value, (Ast *)place);
        return;
    }
    d = REPORT(C, E0915, place->ast.span, sort_text(t), "on the left of '=': it does not change");
    if (s == TUPLE)
        diag_help(d, "use a list, or build the tuple anew");
    else
        diag_help(d, s == TEXT ? "build the text anew: s[:i] + new + s[i + 1:]" : "make a list of it first");
    if (s != TUPLE)
        origin_of(C, d, place->value, DIM_BAD);
}
