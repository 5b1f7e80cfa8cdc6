/*
 * Variables: what is known about one where it is read, and what a store makes known.
 */
#include "frontend/check/kernels.h"
#include "frontend/check/resolve.h"

#include "frontend/check/spaces.h"
#include "frontend/eval/native.h"
#include "frontend/prelude.h"

#include <stdio.h>
#include <string.h>

/* What a library file defines: functions with a rule of their own are known by it alone. */
static const Type *library_type(Check *C, const char *module, Sym name)
{
    const Space *s = space_builtin(module);
    Ast *def = tensor_has_rule(C, name->text) ? space_definition(s, name) : NULL;
    const Type *t;

    if (AST_IS(def, FunctionDef))
        return type_ref(TY_LIBRARY, def);
    t = space_type(C, s, name);
    return t && t->kind == TY_LAZY ? lazy_type(C, t) : t ? t : T_ANY;
}

const Type *lazy_type(Check *C, const Type *t)
{
    return space_attribute(C, t->ref, t->text);
}

static const Type *read_prelude(Check *C, int row)
{
    const PreludeRow *r = prelude_row(row);
    const NativeDef *d = r->native;
    DType dt;

    if (r->kind == PRELUDE_SPACE)
        return type_ref(TY_SPACE, space_builtin(r->module));
    if (dtype_find(r->name->text, &dt) && strcmp(r->name->text, "bool"))
        return type_dtype(dt, NULL);
    if (r->kind == PRELUDE_STDLIB)
        return library_type(C, r->module, r->name);
    if (d && d->sig && !strcmp(d->sig, "float"))
        return type_of_kind(TY_FLOAT);
    return r->kind == PRELUDE_NATIVE && d ? type_ref(TY_NATIVE, d) : T_ANY;
}

/* A library file that is being walked does not know all of itself yet: what is not known is asked for again. */
const Type *prelude_type(Check *C, int row)
{
    const Type **at;

    if (!C->prelude)
        C->prelude = arena_array(&C->arena, const Type *, prelude_room());
    at = &C->prelude[row];
    if (!*at || *at == T_ANY)
        *at = read_prelude(C, row);
    return *at;
}

/* The size of that name, of the function or of one around it. */
static const Type *dim_value(const CFrame *f, Sym name)
{
    for (; f; f = f->up) {
        const DimNames *d = f->cls && !f->fn ? &f->cls->dims : &f->dims;
        for (int i = 0; i < d->n; i++)
            if (d->at[i].name == name)
                return type_int(d->at[i].dim);
    }
    return type_int(DIM_BAD);
}

/* A captured variable is known only when one statement binds it. */
static const Type *captured(CFrame *f, uint32_t index)
{
    while (f) {
        Free *x = (int)index < f->scope->frees.n ? &f->scope->frees.at[index] : NULL;
        CFrame *up = f->up;
        Local *l;
        if (!x || !up)
            return T_ANY;
        if (!x->from_cell) {
            index = x->index;
            f = up;
            continue;
        }
        for (int i = 0; i < up->scope->locals.n; i++) {
            l = &up->scope->locals.at[i];
            if (l->slot == x->index && l->name == x->name && l->is_dim && !((int)l->slot < up->nvar && up->var[l->slot]))
                return dim_value(up, l->name);
            if (l->slot == x->index && l->name == x->name && up->scope->kind != SCOPE_MODULE)
                return l->nbinds <= 1 && (int)l->slot < up->nvar && up->var[l->slot] ? up->var[l->slot] : T_ANY;
        }
        return T_ANY;
    }
    return T_ANY;
}

static const Type *global_type(Check *C, AstName *n)
{
    Local *l;
    const Type *t;

    home_need(C, C->home, n->id);
    t = (int)n->slot < C->home->nglob ? C->home->glob[n->slot] : NULL;
    if (type_is_any(t))
        return t;
    l = (int)n->slot < C->home->scope->locals.n ? &C->home->scope->locals.at[n->slot] : NULL;
    if (C->frame->up || C->frame->fn)               /* inside a function other statements may have run since */
        return l && l->nbinds == 1 ? is_mutated(C->home, n->id) && !C->home->decl[n->slot] ? type_forget(t) : t : T_ANY;
    return l && l->is_shared ? T_ANY : t;
}

/* A variable of the same name outside is what may have been meant. */
static void help_outer(Diag *d, const Scope *s, Sym name)
{
    for (s = s ? s->parent : NULL; s; s = s->parent)
        if (s->kind != SCOPE_CLASS && scope_find(s, name) >= 0) {
            diag_help(d, "write %s %s at the beginning of the function to change the variable outside",
                      s->kind == SCOPE_MODULE ? "global" : "nonlocal", name->text);
            return;
        }
}

/* A local variable without a value: where it is bound at all. */
static void report_unbound(Check *C, DiagCode code, const AstName *n, const char *what)
{
    Diag *d = REPORT(C, code, n->ast.span, n->id->text);
    Local *own = C->frame->scope ? scope_local(C->frame->scope, n->id) : NULL;

    if (own)
        diag_label(d, own->decl, "%s", what);
    if (code == E0218)
        help_outer(d, C->frame->scope, n->id);
}

/* A plain variable that no statement on any way here has given a value. */
static bool is_unbound(Check *C, AstName *n)
{
    const Local *l = scope_local(C->frame->scope, n->id);

    return C->frame->fn->node->kind == AST_FunctionDef && !C->calls && !C->quiet && !C->names_wrong && l && !l->is_dim && !l->is_param &&
           l->slot == n->slot;
}

const Type *name_type(Check *C, AstName *n)
{
    CFrame *f = C->frame;
    const Type *t = NULL;
    bool held = C->hold == (Ast *)n;

    C->hold = held ? NULL : C->hold;
    switch (n->bind) {
    case BIND_LOCAL:
    case BIND_CELL:
        t = (int)n->slot < f->nvar ? f->var[n->slot] : NULL;
        if (t && n->bind == BIND_CELL && f->scope && scope_local(f->scope, n->id) && scope_local(f->scope, n->id)->is_shared)
            return T_ANY;
        if (!t && n->bind == BIND_LOCAL && f->fn && is_unbound(C, n)) {
            report_unbound(C, E0218, n, "assigned here, which makes it a variable of this function");
            return T_ANY;
        }
        if (!t && scope_local(f->scope, n->id) && (scope_local(f->scope, n->id)->is_dim || !f->var))
            t = dim_value(C->frame, n->id);         /* in a condition of a signature parameters are sizes */
        break;
    case BIND_FREE:
        t = captured(f, n->slot);
        break;
    case BIND_GLOBAL:
        t = global_type(C, n);
        break;
    case BIND_CLASS:
        t = f->cls ? map_get_ptr(&f->cls->attrs, n->id) : NULL;
        break;
    case BIND_PRELUDE:
        t = prelude_type(C, (int)n->slot);
        break;
    case BIND_DIM:
        t = C->kernel ? kernel_name(C, n->id) : NULL;
        t = t ? t : dim_value(C->frame, n->id);
        break;
    default:
        break;
    }
    if (t && t->kind == TY_LAZY)
        t = lazy_type(C, t);
    if (t && (t->kind == TY_LIST || t->kind == TY_DICT) && (n->bind == BIND_LOCAL || n->bind == BIND_GLOBAL))
        t = grown_name(C, n, t, held);
    if (t && t->kind == TY_UNSET) {
        report_unbound(C, E0217, n, "declared here, without a value");
        return T_ANY;
    }
    return t ? type_tested(t) : T_ANY;
}

/* The container in this variable or attribute may be changed through another name from now on. */
void forget_place(Check *C, Ast *e)
{
    const Type *t;

    if (e->kind == AST_Arg)
        e = AST_AS(e, Arg)->value;
    if (e->kind == AST_Name) {
        AstName *n = AST_AS(e, Name);
        bool global = n->bind == BIND_GLOBAL;
        const Type **at = (n->bind == BIND_LOCAL || n->bind == BIND_CELL) && (int)n->slot < C->frame->nvar ? &C->frame->var[n->slot] :
                          global && (int)n->slot < C->home->nglob ? &C->home->glob[n->slot] : NULL;
        if (at && type_is_container(*at))
            var_put(global ? C->home->frame.trail : C->frame->trail, at, type_forget(*at));
    } else if (e->kind == AST_Subscript) {
        forget_place(C, AST_AS(e, Subscript)->value);
    } else if (e->kind == AST_Call && AST_IS(AST_AS(e, Call)->func, Attribute)) {
        forget_place(C, AST_AS(AST_AS(e, Call)->func, Attribute)->value);
    } else if (e->kind == AST_Attribute) {
        t = expr(C, AST_AS(e, Attribute)->value);
        if (t->kind == TY_INSTANCE && t->inst)
            map_set(&((Inst *)t->inst)->stored, (uintptr_t)AST_AS(e, Attribute)->attr, (uintptr_t)T_ANY);
        attr_wild(C, AST_AS(e, Attribute)->attr);
        C->era++;
    }
}

static const Type **declared_slot(Check *C, AstName *n)
{
    CFrame *f = C->frame;

    if ((n->bind == BIND_LOCAL || n->bind == BIND_CELL) && (int)n->slot < f->nvar)
        return &f->decl[n->slot];
    return n->bind == BIND_GLOBAL && (int)n->slot < C->home->nglob && f == &C->home->frame ? &C->home->decl[n->slot] : NULL;
}

void set_name(Check *C, AstName *n, const Type *t, Ast *value)
{
    CFrame *f = C->frame;
    const Type **decl = declared_slot(C, n);
    char what[96];

    if (decl && *decl && value && type_fits(C, t, *decl) == FITS_NOT) {
        snprintf(what, sizeof what, "'%s'", n->id->text);
        C->last = NULL;
        report_misfit(C, n->ast.span, what, t, *decl);
        if (C->last && t->kind == TY_TENSOR && (*decl)->kind == TY_TENSOR)
            origin_stored(C, (*decl)->tensor, t->tensor, value);
        t = *decl;
    }
    t = decl ? with_declared_policy(t, *decl) : t;
    t = decl && *decl && !type_is_any(*decl) && (*decl)->kind != TY_TENSOR ? *decl :
        is_mutated(C->home, n->id) && grows(C, n) && value ? grown_first(t, value) :
        has_mutated_parts(C->home, n->id) ? type_forget_parts(t) : is_mutated(C->home, n->id) ? type_forget(t) : type_keep(t);
    if (C->kernel)
        t = kernel_fresh(t);
    if (type_is_container(t) && value && is_mutated(C->home, n->id))
        forget_place(C, value);                     /* the same container under another name */
    if ((n->bind == BIND_LOCAL || n->bind == BIND_CELL) && (int)n->slot < f->nvar)
        var_put(f->trail, &f->var[n->slot], t);
    else if (n->bind == BIND_GLOBAL && (int)n->slot < C->home->nglob)
        var_put(C->home->frame.trail, &C->home->glob[n->slot],
                f == &C->home->frame || (f->cls && !f->fn && f->up == &C->home->frame) ? t : T_ANY);
    else if (n->bind == BIND_CLASS && f->cls)
        map_set_ptr(&f->cls->attrs, n->id, t ? t : T_ANY);
    if ((n->bind == BIND_LOCAL || n->bind == BIND_CELL) && (int)n->slot < f->nvar)
        f->from[n->slot] = value;
    else if (n->bind == BIND_GLOBAL && (int)n->slot < C->home->nglob)
        C->home->from[n->slot] = value;
    if (C->opt.shapes && !C->quiet && t && t->kind == TY_TENSOR && value && t->tensor->rank != RANK_UNKNOWN && f->fn)
        sb_printf(C->opt.shapes, "%s: %s%s%s\n", n->id->text, shape_of(t->tensor), t->tensor->policy ? " " : "",
                  t->tensor->policy ? element_text(t->tensor->dtype, t->tensor->policy) : "");
}
