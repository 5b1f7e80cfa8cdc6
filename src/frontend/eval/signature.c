/*
 * What a signature says of its tensors, held at entry.
 *
 *     def f(x: Tensor["B", 768, f16], y: Tensor["B", "..."]):
 *
 * The checker reports the calls that it can see through; values that only the
 * run knows meet the same words here: number of axes, literal sizes, names that
 * stand for one size, sizes made of names ("B*H", once all arguments have told
 * what B and H are), dtype.  Of sizes that are symbolic, in a function being staged, it asks: the
 * answers are conditions of its graph.  A name of the program in the last place is a size or an element type
 * (frontend/eval/declare.c): which, its value says.
 */
#include "frontend/eval/lower.h"

#include "ir/core/dim_ask.h"
#include "ir/graph/trace.h"

#include <ctype.h>
#include <string.h>

enum { AXES = 16, NAMES = 32 };

/* One of size, name, value, text; or none. */
typedef struct Axis { Dim size; Sym name; uint8_t index; const Step *value; const char *text; } Axis;
typedef struct Known { Sym name[NAMES]; int n; } Known;
/* front sizes, perhaps "..." (rest), back sizes, perhaps a name that may be a size (either), whose value is `last` where it can be read. */
struct TensorGuard { uint32_t slot; DType dtype; uint8_t front, back; bool rest, either, made; const Step *last; Axis *axis; const Known *known; };

/* ------------------------------------------------------------- reading annotations */

AstSubscript *tensor_brackets(Ast *a, bool *region)
{
    const char *name;
    Ast *base;

    while (AST_IS(a, BinOp) && AST_AS(a, BinOp)->op == AOP_MATMUL)        /* a placement */
        a = AST_AS(a, BinOp)->left;
    if (!AST_IS(a, Subscript))
        return NULL;
    base = AST_AS(a, Subscript)->value;
    name = AST_IS(base, Attribute) ? AST_AS(base, Attribute)->attr->text : AST_IS(base, Name) ? AST_AS(base, Name)->id->text : "";
    *region = !strcmp(name, "Region");
    return *region || !strcmp(name, "Tensor") ? AST_AS(a, Subscript) : NULL;
}

static bool element_dtype(const Ast *e, DType *out)
{
    *out = DT_NONE;
    if (AST_IS(e, Name))
        return dtype_find(AST_AS(e, Name)->id->text, out);
    if (AST_IS(e, Attribute))
        return dtype_find(AST_AS(e, Attribute)->attr->text, out);
    return AST_IS(e, Call) || (AST_IS(e, BinOp) && AST_AS(e, BinOp)->op == AOP_MATMUL);
}

static bool is_rest(const Ast *e)
{
    return AST_IS(e, Const) || (AST_IS(e, Str) && !strncmp(AST_AS(e, Str)->value.s, "...", 3));
}

static void named(Axis *x, Known *known, Sym name)
{
    for (int i = 0; i < known->n; i++)
        if (known->name[i] == name) {
            *x = (Axis){.size = DIM_BAD, .name = name, .index = (uint8_t)i};
            return;
        }
    if (known->n == NAMES)
        return;
    known->name[known->n] = name;
    *x = (Axis){.size = DIM_BAD, .name = name, .index = (uint8_t)known->n++};
}

static Dim no_names(void *state, Sym name)
{
    return DIM_BAD;
}

static bool is_identifier(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

/* Is it made of numbers and names of dims alone? */
static bool of_dims(const Ast *e)
{
    const AstBinOp *op = AST_IS(e, BinOp) ? AST_AS(e, BinOp) : NULL;

    if (AST_IS(e, Name))
        return AST_AS(e, Name)->bind == BIND_DIM;
    return AST_IS(e, Int) || (op && of_dims(op->left) && of_dims(op->right));
}

/* The text of a size made of names and numbers; NULL: it is no such size. */
static const char *size_text(Lower *L, Ast *e)
{
    StrBuf b = {0};
    char *text;

    if (AST_IS(e, Str))
        return strcmp(AST_AS(e, Str)->value.s, "?") ? AST_AS(e, Str)->value.s : NULL;
    if (!AST_IS(e, BinOp) || !of_dims(e))
        return NULL;
    ast_print(e, &b);
    text = arena_strdup(L->arena, sb_str(&b));
    sb_done(&b);
    return text;
}

static Axis axis_of(Lower *L, Ast *e, Known *known)
{
    Axis x = {.size = DIM_BAD};
    Dim d = DIM_BAD;

    if (AST_IS(e, Int))
        x.size = dim_const(AST_AS(e, Int)->value);
    else if (AST_IS(e, Str) && is_identifier(AST_AS(e, Str)->value.s))
        named(&x, known, sym(AST_AS(e, Str)->value.s));
    else if (AST_IS(e, Str) && isdigit((unsigned char)*AST_AS(e, Str)->value.s) &&
             dim_parse(AST_AS(e, Str)->value.s, no_names, NULL, &d) && dim_is_const(d))
        x.size = d;
    else if (AST_IS(e, Name) && AST_AS(e, Name)->bind == BIND_DIM)
        named(&x, known, AST_AS(e, Name)->id);
    else if (AST_IS(e, Name) && AST_AS(e, Name)->bind == BIND_GLOBAL)
        x.value = lower_expr(L, e);
    else
        x.text = size_text(L, e);
    return x;
}

/* A name of the program, which may stand for a size or an element type. */
static bool is_program_name(const Ast *e)
{
    return AST_IS(e, Name) && AST_AS(e, Name)->bind != BIND_DIM && AST_AS(e, Name)->bind != BIND_PRELUDE && AST_AS(e, Name)->bind != BIND_NONE;
}

static bool read_guard(Lower *L, const AstParam *p, Known *known, struct TensorGuard *g)
{
    bool region = false;
    AstSubscript *s = tensor_brackets(p->annotation, &region);
    AstSeq elts;
    int n, from = region;

    if (!s)
        return false;
    elts = AST_IS(s->index, Tuple) ? AST_AS(s->index, Tuple)->elts : (AstSeq){&s->index, 1};
    n = elts.n;
    *g = (struct TensorGuard){.slot = p->slot, .dtype = DT_NONE, .known = known};
    if (n > from && element_dtype(elts.at[n - 1], &g->dtype))
        n--;
    else if (n > from && is_program_name(elts.at[n - 1])) {
        g->either = true;
        g->last = AST_AS(elts.at[--n], Name)->bind == BIND_GLOBAL ? lower_expr(L, elts.at[n]) : NULL;
    }
    if (n - from + g->either > AXES)
        return false;
    g->rest = n <= from && !g->either;                  /* Tensor[f32]: any shape */
    g->axis = arena_array(L->arena, Axis, AXES);
    for (int i = from; i < n; i++) {
        if (is_rest(elts.at[i])) {
            if (g->rest)
                return false;
            g->rest = true;
        } else if (!AST_IS(elts.at[i], Tuple) || AST_AS(elts.at[i], Tuple)->elts.n) {       /* Tensor[(), f32] has no axes */
            g->axis[g->front + g->back] = axis_of(L, elts.at[i], known);
            g->made |= g->axis[g->front + g->back].text != NULL;
            *(g->rest ? &g->back : &g->front) += 1;
        }
    }
    return true;
}

void lower_signature(Lower *L, Code *c, const AstFunctionDef *d)
{
    struct TensorGuard *list = arena_array(L->arena, struct TensorGuard, d->params.n + 1);
    Known *known = arena_new(L->arena, Known);

    for (int i = 0; i < d->params.n; i++) {
        const AstParam *p = AST_AS(d->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->annotation && p->kind < PARAM_VARARGS && read_guard(L, p, known, &list[c->nsignature]))
            c->nsignature++;
    }
    c->signature = list;
}

/* ------------------------------------------------------------- holding values to them */

static bool refuse(Frame *f, const struct TensorGuard *g, int axis, Dim want, Dim got, const char *name)
{
    StrBuf b = {0};

    sb_printf(&b, "argument '%s' of %s(): %s%s", f->code->param[g->slot]->text, f->code->name->text, name ? name : "size ", name ? " = " : "");
    dim_print_at_hand(want, &b);
    sb_puts(&b, name ? " but got " : " expected but got ");
    dim_print_at_hand(got, &b);
    sb_printf(&b, " at axis %d", axis);
    f->at = NULL;
    raise(f->I, EXC_ShapeError, "%s", sb_str(&b));
    sb_done(&b);
    return false;
}

/* What a name stands for; None: nothing yet, it is defined later. */
static Value value_there(const Step *name, Frame *f)
{
    Value v = name->eval(name, f);

    if (!is_err(v) || !exc_matches(f->I, EXC_NameError))
        return v;
    exc_clear(f->I);
    return VNONE;
}

static bool axis_holds(Frame *f, const struct TensorGuard *g, const Axis *x, int axis, Dim got, Dim *size)
{
    Dim want = x->name ? size[x->index] : x->size;

    if (x->value) {
        Value v = value_there(x->value, f);
        if (is_err(v))
            return false;
        want = v.tag == V_INT ? dim_const(v.i) : DIM_BAD;
        value_unref(v);
    }
    if (x->name && want == DIM_BAD)
        size[x->index] = got;
    if (want == DIM_BAD || dim_ask_eq(want, got) != DIM_REFUTED)
        return true;
    return refuse(f, g, axis, want, got, x->name ? x->name->text : NULL);
}

/* Is the name in the last place a size? 1, 0; -1: not known; -2: an exception is pending. */
static int last_is_size(Frame *f, const struct TensorGuard *g, Axis *x)
{
    Value v;
    int is = -1;

    if (!g->either || !g->last)
        return g->either ? -1 : 0;
    v = value_there(g->last, f);
    if (is_err(v))
        return -2;
    if (v.tag == V_INT)
        is = 1, *x = (Axis){.size = dim_const(v.i)};
    else if (v.tag == V_DTYPE || v.tag == V_INSTANCE || v.tag == V_CLASS || v.tag == V_STR)
        is = 0;
    value_unref(v);
    return is;
}

static bool tensor_holds(Frame *f, const struct TensorGuard *g, const TType *t, Dim *size)
{
    int named = g->front + g->back, last;
    Axis end;

    if ((last = last_is_size(f, g, &end)) == -2)
        return false;
    named += last == 1;
    if (t->rank < named || (!g->rest && t->rank > named + (last < 0))) {
        f->at = NULL;
        raise(f->I, EXC_ShapeError, "argument '%s' of %s(): %s%d axes expected but got %d", f->code->param[g->slot]->text,
              f->code->name->text, g->rest ? "at least " : "", named, t->rank);
        return false;
    }
    if (g->dtype != DT_NONE && t->dtype != g->dtype) {
        f->at = NULL;
        raise(f->I, EXC_TypeError, "argument '%s' of %s(): %s expected but got %s; convert it with .to(%s)", f->code->param[g->slot]->text,
              f->code->name->text, dtype_info[g->dtype].name, dtype_info[t->dtype].name, dtype_info[g->dtype].name);
        return false;
    }
    if (last == 1 && !axis_holds(f, g, &end, t->rank - 1, t->shape[t->rank - 1], size))
        return false;
    for (int i = 0; i < g->front + (last < 0 ? 0 : g->back); i++) {
        int axis = i < g->front ? i : t->rank - named + i;
        if (!axis_holds(f, g, &g->axis[i], axis, t->shape[axis], size))
            return false;
    }
    return true;
}

typedef struct Sizes { const Known *known; const Dim *size; } Sizes;

static Dim size_known(void *state, Sym name)
{
    const Sizes *s = state;

    for (int i = 0; i < s->known->n; i++)
        if (s->known->name[i] == name)
            return s->size[i];
    return DIM_BAD;
}

/* The sizes made of names, of an argument that has the axes that are asked for.  One whose names nothing tells says nothing. */
static bool made_hold(Frame *f, const struct TensorGuard *g, const TType *t, const Dim *size)
{
    Sizes s = {g->known, size};

    for (int i = 0; i < g->front + (g->either ? 0 : g->back); i++) {
        int axis = i < g->front ? i : t->rank - g->front - g->back + i;
        const char *text = g->axis[i].text;
        Dim got = t->shape[axis], want;
        if (text && dim_parse(text, size_known, &s, &want) && dim_ask_eq(want, got) == DIM_REFUTED)
            return refuse(f, g, axis, want, got, text);
    }
    return true;
}

/* The tensor that a guard is about; false: the argument is something else. */
static bool guarded_type(Frame *f, const struct TensorGuard *g, TType *t)
{
    Value v = f->slot[g->slot];

    if (v.tag == V_CELL)
        v = ((CellObj *)v.o)->v;
    if (v.tag != V_TENSOR)
        return false;
    *t = tensor_type(((TensorObj *)v.o)->t);
    return true;
}

bool signature_holds(Frame *f)
{
    const struct TensorGuard *g = f->code->signature, *end = g + f->code->nsignature;
    Dim size[NAMES];
    bool made = false;
    TType t;

    for (int i = 0; i < NAMES; i++)
        size[i] = DIM_BAD;
    for (; g < end; g++) {
        made |= g->made;
        if (guarded_type(f, g, &t) && !tensor_holds(f, g, &t, size))
            return false;
    }
    for (g = f->code->signature; made && g < end; g++)
        if (g->made && guarded_type(f, g, &t) && !made_hold(f, g, &t, size))
            return false;
    return true;
}
