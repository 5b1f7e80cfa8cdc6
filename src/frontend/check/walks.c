/*
 * Walks of functions: each for its own sake, with what its signature says of its parameters, and once more for calls that say more.
 */
#include "frontend/check/check.h"

#include "frontend/check/frames.h"
#include "frontend/check/kernels.h"

static const Type *param_type(const AstParam *p, const Type *given, const Type *declared)
{
    const Type *t = !type_is_any(given) ? with_declared_policy(given, declared) : declared;

    if (p->kind == PARAM_VARARGS)
        return given && given->kind == TY_TUPLE ? given : type_tuple_any(declared ? declared : T_ANY);
    if (p->kind == PARAM_KWARGS)
        return given && given->kind == TY_DICT ? given : type_dict(type_str(NULL), declared ? declared : T_ANY);
    if (!given && t && ast_is_const(p->dflt, CONST_NONE))
        return type_union(t, T_NONE);
    return t;
}

/*
 * In a body that is walked for its own sake an int that the caller chooses is a number of its own, of either sign: sizes that are
 * made of it are compared as those of tensors are.
 */
static const Type *param_number(const AstParam *p, const Type *t)
{
    return t && t->kind == TY_INT && t->value == DIM_BAD ? type_int(dim_chosen(p->name)) : t;
}

/* The types of parameters, in their slots of the frame. */
static void take_params(Check *C, Fn *f, const Sig *sig, CFrame *frame, const Type *const *given)
{
    for (int i = 0; i < f->params.n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->name && p->kind <= PARAM_KWARGS && (int)p->slot < frame->nvar) {
            frame->from[p->slot] = (Ast *)p;
            frame->var[p->slot] = param_type(p, given ? given[p->slot] : NULL, sig->param[p->slot]);
            if (!given && !C->kernel && p->kind < PARAM_VARARGS && frame->var[p->slot] == sig->param[p->slot])
                frame->var[p->slot] = optional_untested(frame->var[p->slot]);
            frame->several |= type_is_untested(frame->var[p->slot]);
            if (!given && !C->kernel && p->kind < PARAM_VARARGS)
                frame->var[p->slot] = param_number(p, frame->var[p->slot]);
        }
    }
    if (!given && f->cls && !f->is_static && f->params.n && AST_IS(f->params.at[0], Param) && frame->nvar)
        frame->var[AST_AS(f->params.at[0], Param)->slot] = f->is_class ? T_ANY : type_instance(f->cls, NULL);
}

/* The function's frame; that of a call (bound) takes what is known of the call. */
static CFrame *enter_frame(Check *C, Fn *f, const Sig *sig, const DimNames *bound)
{
    CFrame *outer = C->frame, *frame = frame_new(C, f->around, f->scope);

    frame->home = f->around->home;
    frame->branches = C->branches;
    frame->fn = f;
    frame->caller = bound ? outer : NULL;
    frame->arg = bound ? C->arg : NULL;
    frame->slots = bound ? C->slots : NULL;
    frame->call = bound ? C->called : NULL;
    C->arg = NULL;
    C->slots = NULL;
    C->called = NULL;
    for (int i = 0; bound ? i < bound->n : i < sig->dims.n; i++)
        vec_push(&frame->dims, bound ? bound->at[i] : sig->dims.at[i]);
    return frame;
}

/* The body, in its frame: what it returns; NULL: nothing known. */
static const Type *walk_body(Check *C, Fn *f, CFrame *frame, const DimNames *bound, const Type *declared)
{
    const Type *ret;

    if (f->node->kind == AST_Lambda)
        return expr(C, AST_AS(f->node, Lambda)->body);
    frame->declared = declared;
    block(C, AST_AS(f->node, FunctionDef)->body);
    ret = frame->dead ? frame->ret : frame->ret ? type_join(frame->ret, T_NONE) : T_NONE;
    if (!bound && declared && !frame->dead)
        ends_judged(C, f, declared, !frame->ret);
    return C->fuel <= 0 || C->depth > 1000 ? T_ANY : ret;          /* given up half-way: it did not end */
}

const Type *fn_walk(Check *C, Fn *f, const Type *const *given, const DimNames *bound, const Type *declared)
{
    CFrame *frame, *outer = C->frame;
    FrameHold before = frame_hold(C);
    Sig *sig = fn_sig(C, f);
    struct Loop *loops = C->loop;
    Home *home = C->home;
    const Type *ret;
    int facts = C->facts;

    frame = enter_frame(C, f, sig, bound);
    take_params(C, f, sig, frame, given);
    C->frame = frame;
    C->home = frame->home;
    C->loop = NULL;
    staging_begin(C, frame);
    ret = walk_body(C, f, frame, bound, declared);
    if (f->dynamic && f->scope->is_generator)
        ret = type_iterable(sym("generator"), frame->yields ? frame->yields : T_ANY);
    facts_drop(C, facts);
    C->loop = loops;
    C->frame = outer;
    C->home = home;
    frame_leave(C, frame, before);
    return ret ? ret : T_ANY;
}

/* Conditions that a signature declares hold in its body. */
static void assume_constraint(Check *C, Fn *f, Ast *cond)
{
    CFrame frame = {.up = f->around, .fn = f, .scope = f->scope}, *outer = C->frame;
    Facts facts;

    if (!cond)
        return;
    for (int i = 0; i < f->sig.dims.n; i++)
        vec_push(&frame.dims, f->sig.dims.at[i]);
    C->frame = &frame;
    facts_read(C, cond, true, &facts);
    facts_hold(facts.at, facts.n);
    C->frame = outer;
    vec_free(&frame.dims);
}

static void assume_all(Check *C, Fn *f)
{
    AstFunctionDef *def = AST_AS(f->node, FunctionDef);

    for (int i = 0; i < f->params.n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->kind == PARAM_CONSTRAINT)
            assume_constraint(C, f, p->annotation);
    }
    for (int i = 0; i < def->where.n; i++)
        assume_constraint(C, f, def->where.at[i]);
}

/* What holds in the functions around holds in those that they define. */
static void assume_around(Check *C, const CFrame *f)
{
    for (; f; f = f->up) {
        if (f->fn && f->fn->node->kind == AST_FunctionDef)
            assume_all(C, f->fn);
        facts_hold(f->facts.at, f->facts.n);
    }
}

/* --shapes: "B: dynamic, D: static" for the type parameters of a function. */
static void show_kinds(Check *C, AstSeq typarams)
{
    for (int i = 0; C->opt.shapes && i < typarams.n; i++) {
        AstTypeParam *t = AST_AS(typarams.at[i], TypeParam);
        bool fixed = AST_IS(t->bound, Name) && !strcmp(AST_AS(t->bound, Name)->id->text, "static");
        sb_printf(C->opt.shapes, "%s%s: %s%s", i ? ", " : "", t->name->text, fixed ? "static" : "dynamic",
                  i == typarams.n - 1 ? "\n" : "");
    }
}

void fn_check(Check *C, Fn *f)
{
    CFrame *outer = C->frame;
    Home *home = C->home;
    int quiet = C->quiet, calls = C->calls, mixed = C->mixed, branches = C->branches, tries = C->tries;

    if (f->checked)
        return;
    f->checked = true;
    C->home = f->around->home;
    fn_sig(C, f);
    dim_push();
    assume_around(C, f->around);
    if (f->node->kind == AST_FunctionDef) {
        show_kinds(C, AST_AS(f->node, FunctionDef)->typarams);
        assume_all(C, f);
    }
    C->frame = f->around;
    C->quiet = C->calls = C->branches = C->tries = 0;
    C->mixed = f->mixed;
    f->active++;
    if (f->node->kind == AST_FunctionDef && kernel_def(AST_AS(f->node, FunctionDef)))
        kernel_check(C, f);
    else
        fn_walk(C, f, NULL, NULL, f->sig.ret);
    f->active--;
    C->quiet = quiet;
    C->calls = calls;
    C->mixed = mixed;
    C->branches = branches;
    C->tries = tries;
    C->frame = outer;
    C->home = home;
    dim_pop();
}

void fn_followed(Check *C, Fn *f)
{
    Fn *first = f->node->kind == AST_Lambda ? map_get_ptr(&C->fn_of, f->node) : f;

    if (f->node->kind == AST_FunctionDef)
        fn_check(C, f);
    else if (first)
        first->checked = true;
}
