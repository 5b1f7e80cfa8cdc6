/*
 * The sizes of an object of which only the class is known: p.D, for a field of
 * p declared as Tensor["D", "H"].
 *
 * Inside the class, D is one size, whatever it is.  Elsewhere it is what this
 * object has, which may well be what another tensor has, so p.D compares like
 * an unknown size; yet p.D and p.H are sizes of one object, which the class
 * declares to be two.  Such a size is a variable called "?p.D", which prints as
 * p.D; the function that reads p has it among its dims, so that every field
 * read there speaks of the same one.
 */
#include "frontend/check/checker.h"

#include <string.h>

/* Does the code that is walked stand in a method of the class, or of one that derives from it? */
static bool inside(const Check *C, const Cls *c)
{
    for (const CFrame *f = C->frame; f; f = f->up)
        if ((f->cls && cls_derives(f->cls, c)) || (f->fn && f->fn->cls && cls_derives(f->fn->cls, c)))
            return true;
    return false;
}

static Dim named(CFrame *f, Sym name)
{
    for (int i = 0; i < f->dims.n; i++)
        if (f->dims.at[i].name == name)
            return f->dims.at[i].dim;
    vec_push(&f->dims, ((NamedDim){name, dim_var(name, 1, INT64_MAX)}));
    return vec_last(&f->dims).dim;
}

/* What the object's size is called, for a size of its class. */
static Dim own_size(Check *C, const char *object, Dim size)
{
    StrBuf name = {0};
    Dim own;

    sb_printf(&name, "?%s.", object);
    dim_print(size, &name);
    own = named(C->frame, sym(sb_str(&name)));
    sb_done(&name);
    return own;
}

static void gather(Check *C, const char *object, const Type *t, Bound *b)
{
    Dim vars[8];

    for (int i = 0; (t->kind == TY_TUPLE || t->kind == TY_LIST) && i < t->n; i++)
        gather(C, object, t->item[i], b);
    if (t->kind != TY_TENSOR || t->tensor->rank == RANK_UNKNOWN)
        return;
    for (int i = 0; i < t->tensor->rank; i++) {
        int n = dim_vars(t->tensor->shape[i], vars, 8);
        for (int k = 0; k < n; k++)
            if (!dim_is_open(vars[k]))
                bound_add(b, vars[k], object ? own_size(C, object, vars[k]) : dim_open());
    }
}

const Type *object_field(Check *C, const Cls *c, const Type *t, const Ast *node)
{
    const Ast *of = AST_IS(node, Attribute) ? AST_AS(node, Attribute)->value : NULL;
    Bound b = {0};

    if (inside(C, c))
        return t;
    gather(C, of && AST_IS(of, Name) ? AST_AS(of, Name)->id->text : NULL, t, &b);
    return type_subst(t, b.from, b.to, b.n);
}

/* The part of a size's name that says whose it is; 0: it is no object's, or of several. */
static size_t owner(Dim d, StrBuf *name)
{
    Dim vars[8];
    int n = dim_vars(d, vars, 8);
    size_t len = 0;

    sb_clear(name);
    for (int i = 0; i < n; i++) {
        size_t at = name->n, own;
        const char *dot;
        dim_print(vars[i], name);
        dot = strchr(sb_str(name) + at, '.');
        own = dot ? (size_t)(dot - (name->s + at)) : 0;
        if (!own || (i && (own != len || strncmp(name->s, name->s + at, len) != 0)))
            return 0;
        len = own;
    }
    return len;
}

bool sizes_of_one_object(Dim a, Dim b)
{
    StrBuf x = {0}, y = {0};
    size_t n, m;
    bool same;

    if (dim_is_const(a) || dim_is_const(b) || !dim_is_open(a) || !dim_is_open(b))
        return false;
    n = owner(a, &x);
    m = owner(b, &y);
    same = n && n == m && !strncmp(x.s, y.s, n);
    sb_done(&x);
    sb_done(&y);
    return same;
}
