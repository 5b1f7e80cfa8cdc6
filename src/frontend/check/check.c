/*
 * Statements: one walk in order, with a type for each variable at each point.  What a function is walked with: walks.c.
 */
#include "frontend/check/check.h"

#include "frontend/check/frames.h"
#include "frontend/check/kernels.h"
#include "frontend/check/spaces.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- reporting */

static Diag *muted(Check *C)
{
    static Diag mute;
    static Arena scratch;

    C->shown = false;
    C->last = NULL;
    arena_done(&scratch);
    mute.arena = &scratch;
    mute.labels.n = mute.notes.n = mute.helps.n = 0;
    return &mute;
}

/* Which call leads to a mistake in a body that is followed. */
static void tell_call(const Check *C, Diag *d)
{
    const CFrame *f = C->frame;

    while (f->caller && f->caller->caller)
        f = f->caller;
    if (f->caller && f->call && source_place(f->call->span.lo).line != source_place(d->span.lo).line)
        diag_label(d, f->call->span, "in this call");
}

/* A mistake inside a library is the mistake of the program's call; a note says where it showed. */
static Diag *report_blamed(Check *C, DiagCode code, Span inside, const char *const *args, int nargs)
{
    Place p = source_place(inside.lo);
    const Fn *f = C->frame->fn;
    Diag *d;

    if (C->trial)
        return C->last = diag_emit(C->trial, code, C->blame.node->span, args, nargs);
    if (map_find(&C->reported, (uint64_t)C->blame.node->span.lo + 1, NULL))
        return muted(C);
    map_set(&C->reported, (uint64_t)C->blame.node->span.lo + 1, 1);
    d = C->last = diag_emit(C->sink, code, C->blame.node->span, args, nargs);
    diag_note(d, "in %s, %s line %d", f && f->name ? f->name->text : "the module", C->home->space->name, (int)p.line);
    tell_call(C, d);
    return d;
}

/*
 * Does the call that is followed surely get here: outside of undecided branches, with no return before, here and in the functions between
 * here and the code that is checked for its own sake?
 */
bool followed_surely(const Check *C)
{
    const CFrame *f = C->frame;

    if (C->quiet || C->kernel || C->home->library)
        return false;
    for (; f && f->caller; f = f->caller)
        if (f->ret || !f->fn || f->fn->dynamic || f->home->library)
            return false;
    return f && C->branches == f->branches && !f->home->library;
}

/*
 * In a body that is followed what goes wrong with tensors is said, and of other values what surely does: but for missing attributes, which a
 * program may ask any object for.
 */
Diag *report(Check *C, DiagCode code, Span span, const char *const *args, int nargs)
{
    char family = diag_code_name(code)[2];
    bool host = C->calls > 0 && family == '9' && (code == E0910 || !followed_surely(C));     /* in a body that is followed */
    bool library = C->home->library;
    bool heard = !C->quiet || ((family == '3' || family == '9') && flow_first_round(C));

    C->findings++;
    C->shown = true;
    if (library && !C->quiet && C->blame.node && (family == '3' || family == '4' || (family == '9' && code != E0910 && library_surely(C))))
        return report_blamed(C, code, span, args, nargs);
    if (C->trial && heard && !host && !library)
        return C->last = diag_emit(C->trial, code, span, args, nargs);
    if (heard && !host && !library && !map_find(&C->reported, (uint64_t)span.lo + 1, NULL)) {
        map_set(&C->reported, (uint64_t)span.lo + 1, 1);
        C->last = diag_emit(C->sink, code, span, args, nargs);
        if (C->calls > 0 && (family == '9' || family == '3' || family == '4'))
            tell_call(C, C->last);
        return C->last;
    }
    return muted(C);
}

/* ------------------------------------------------------------- definitions */

const char *decorator_name(const Ast *d)
{
    if (d->kind == AST_Call)
        d = AST_AS(d, Call)->func;
    if (d->kind == AST_Attribute)
        return AST_AS(d, Attribute)->attr->text;
    return d->kind == AST_Name ? AST_AS(d, Name)->id->text : "";
}

/* Is the option of the decorator's call the constant? */
static bool decorator_has(const Ast *d, const char *option, int constant)
{
    for (int i = 0; AST_IS(d, Call) && i < AST_AS(d, Call)->args.n; i++) {
        const AstArg *a = AST_AS(AST_AS(d, Call)->args.at[i], Arg);
        if (a->ast.kind == AST_Arg && a->name && !strcmp(a->name->text, option))
            return ast_is_const(a->value, constant);
    }
    return false;
}

bool decorator_says(const Ast *d, const char *option) { return decorator_has(d, option, CONST_TRUE); }
bool decorator_denies(const Ast *d, const char *option) { return decorator_has(d, option, CONST_FALSE); }

bool decorator_is_transparent(const char *s)
{
    static const char *const names[] = {"jit", "function", "compile", "export", "pure", "effects", "checkpoint", "deterministic",
                                        "staticmethod", "classmethod", "property", "numerically_stable", "maybe", "numerics",
                                        "custom", "wraps", "cache", "lru_cache", "stateful", "staged_when_large"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], s))
            return true;
    return false;
}

Fn *fn_make(Check *C, Ast *node)
{
    Fn *f = arena_new(&C->arena, Fn);
    bool known = map_get_ptr(&C->fn_of, node) != NULL;

    f->node = node;
    f->around = C->frame;
    f->mixed = C->mixed > 0;
    frame_capture(C);
    if (node->kind == AST_Lambda) {
        f->params = AST_AS(node, Lambda)->params;
        f->scope = AST_AS(node, Lambda)->scope;
        f->checked = known || C->calls > 0 || C->home->library || C->tries || C->catches || C->kernel;
        if (!f->checked) {                          /* for its own sake unless something calls it: fn_followed, or catches what it raises */
            map_set_ptr(&C->fn_of, node, f);
            vec_push(&C->fns, f);
        }
        return f;
    }
    f->params = AST_AS(node, FunctionDef)->params;
    f->scope = AST_AS(node, FunctionDef)->scope;
    f->name = AST_AS(node, FunctionDef)->name;
    f->cls = C->frame->cls;
    f->dynamic = f->scope->is_generator || f->scope->is_async || kernel_def(AST_AS(node, FunctionDef));
    if (!known) {
        map_set_ptr(&C->fn_of, node, f);
        if (C->home->library)
            f->checked = true;                      /* a library is checked where it is written */
        else
            vec_push(&C->fns, f);
    }
    return f;
}

/* Staging decorators build on each other from the inside out: function, distribute, checkpoint, compile. */
static void check_order(Check *C, AstFunctionDef *def)
{
    static const char *const order[] = {"function", "distribute", "checkpoint", "compile"};
    int inner = -1;

    for (int i = def->decorators.n - 1; i >= 0; i--)
        for (int k = 0; k < 4; k++) {
            if (strcmp(decorator_name(def->decorators.at[i]), order[k]))
                continue;
            if (k < inner)
                diag_help(REPORT(C, E0912, def->decorators.at[i]->span, order[k], order[inner]),
                          "from the inside out the order is function, distribute, checkpoint, compile");
            inner = k > inner ? k : inner;
        }
}

/* A function that this program wrote, or a module of its own: what it makes of another one is found by following it. */
static bool is_own(const Type *t)
{
    return t->kind == TY_FUNC && !((const Fn *)t->ref)->around->home->library;
}

/* The function as its decorators leave it, from the inside out; made: what they are. */
static const Type *decorated(Check *C, AstFunctionDef *def, const Type *t, const Type *const *made)
{
    for (int i = def->decorators.n - 1; i >= 0; i--) {
        Ast *d = def->decorators.at[i];
        CallArg one = {NULL, t, d, 0};
        if (decorator_is_transparent(decorator_name(d)) && !is_own(made[i]))
            continue;
        if (kernel_decorator(def, d) && kernel_def(def) && t->kind == TY_FUNC) {
            t = kernel_type(t);
            continue;
        }
        if (made[i]->kind == TY_FUNC && !is_own(made[i])) {     /* of the library: it gives back what it gets, or a function around it */
            C->quiet++;
            t = call_type(C, made[i], &(CallArgs){&one, 1, false}, d);
            C->quiet--;
            if (t->kind != TY_FUNC)
                return T_ANY;
            continue;
        }
        t = made[i]->kind == TY_TRANSFORM || (made[i]->kind == TY_NATIVE && t->kind != TY_ANY) || is_own(made[i])
                ? call_type(C, made[i], &(CallArgs){&one, 1, false}, d) : T_ANY;
        if (t->kind != TY_TRANSFORM && t->kind != TY_FUNC)
            return T_ANY;
    }
    return t;
}

static void function_def(Check *C, AstFunctionDef *def)
{
    Fn *f = fn_make(C, (Ast *)def);
    const Type **made = arena_array(&C->arena, const Type *, def->decorators.n + 1), *t = type_ref(TY_FUNC, f);
    bool plain = true, held_elsewhere;          /* effects.h */

    check_order(C, def);
    for (int i = 0; i < def->decorators.n; i++) {
        const char *s = decorator_name(def->decorators.at[i]);
        held_elsewhere = !strcmp(s, "effects");
        C->quiet += held_elsewhere;
        made[i] = expr(C, def->decorators.at[i]);
        C->quiet -= held_elsewhere;
        if (!decorator_is_transparent(s) || is_own(made[i])) {
            plain = false;
            continue;
        }
        f->is_static |= !strcmp(s, "staticmethod");
        f->is_class |= !strcmp(s, "classmethod");
        f->is_staged |= !strcmp(s, "jit") || !strcmp(s, "function") || !strcmp(s, "compile") || !strcmp(s, "export");
        f->is_property |= !strcmp(s, "property");
    }
    for (int i = 0; i < def->params.n; i++)
        if (AST_IS(def->params.at[i], Param) && AST_AS(def->params.at[i], Param)->dflt)
            expr(C, AST_AS(def->params.at[i], Param)->dflt);
    if (!def->bound)
        return;
    if (!plain)
        t = decorated(C, def, t, made);
    if (t->ref != f && (f->is_static || f->is_class || f->is_property))
        t = T_ANY;
    set_name(C, def->bound, t, NULL);
}

/* A field that is None at first may be None, as a parameter may. */
static const Type *field_type(const Type *t, const Ast *value)
{
    return !type_is_any(t) && ast_is_const(value, CONST_NONE) ? type_union(t, T_NONE) : t;
}

/* Annotated names of the body are the class's attributes. */
static void declare_attributes(Check *C, Cls *c, AstSeq body)
{
    for (int i = 0; i < body.n; i++) {
        AstAnnAssign *a = AST_AS(body.at[i], AnnAssign);
        if (a->ast.kind == AST_AnnAssign && AST_IS(a->target, Name))
            map_set_ptr(&c->declared, AST_AS(a->target, Name)->id, field_type(annotation(C, a->annotation), a->value));
    }
}

static void class_def(Check *C, AstClassDef *def)
{
    Cls *c = cls_make(C, def);
    CFrame *f = arena_new(&C->arena, CFrame);

    f->up = C->frame;
    f->trail = f->up->trail;
    f->home = C->home;
    f->scope = def->scope;
    f->cls = c;
    f->nvar = def->scope->nslots;
    f->var = arena_array(&C->arena, const Type *, f->nvar + 1);
    f->decl = arena_array(&C->arena, const Type *, f->nvar + 1);
    f->from = arena_array(&C->arena, Ast *, f->nvar + 1);
    for (int i = 0; i < def->decorators.n; i++)
        expr(C, def->decorators.at[i]);
    if (def->bound)
        set_name(C, def->bound, type_ref(TY_CLASS, c), NULL);
    C->frame = f;
    declare_attributes(C, c, def->body);
    block(C, def->body);
    C->frame = f->up;
    policy_class_judged(C, type_ref(TY_CLASS, c), def->body);
}

/* ------------------------------------------------------------- simple statements */

static void return_stmt(Check *C, AstReturn *r)
{
    CFrame *f = C->frame;
    const Type *t = T_NONE, *want = f->declared;
    char what[128];
    Diag *d;

    C->leaving = AST_IS(r->value, Tuple);           /* no variable of this function sees them afterwards */
    t = r->value ? expr_looked(C, r->value) : t;
    f->ret = f->ret ? type_join(f->ret, t) : t;
    f->dead = true;
    staging_return(C, r, t);
    if (want && r->value && type_fits(C, T_NONE, want) == FITS_NOT && !fn_is_held_back(f->fn))
        optional_used(C, r->value, "%.60s() is declared to return %s", f->fn->name ? f->fn->name->text : "lambda", type_text(want));
    if (C->kernel && AST_IS(f->fn->node, FunctionDef) && kernel_def(AST_AS(f->fn->node, FunctionDef)))
        kernel_returned(C, AST_AS(f->fn->node, FunctionDef), t, r);
    if (!want || type_fits(C, t, want) != FITS_NOT || fn_is_held_back(f->fn))
        return;
    if (t->kind == TY_TENSOR && want->kind == TY_TENSOR) {
        const TType *a = t->tensor, *b = want->tensor;
        bool dtypes = a->dtype != DT_NONE && b->dtype != DT_NONE && a->dtype != b->dtype;
        d = REPORT(C, E0302, r->ast.span, f->fn->name ? f->fn->name->text : "lambda",
                         dtypes ? dtype_info[b->dtype].name : shape_known(want), dtypes ? dtype_info[a->dtype].name : shape_known(t));
        if (dtypes)
            diag_help(d, "Add explicit cast: .to(%s)", dtype_info[b->dtype].name);
        else
            diag_help(d, "change the declared result, or the value returned");
        if (C->shown && AST_IS(f->fn->node, FunctionDef) && AST_AS(f->fn->node, FunctionDef)->returns)
            diag_label(d, AST_AS(f->fn->node, FunctionDef)->returns->span, "declared here");
        for (int i = 0; !dtypes && a->rank == b->rank && a->rank != RANK_UNKNOWN && i < a->rank; i++)
            if (dim_eq(a->shape[i], b->shape[i], NULL, NULL) != DIM_PROVED)
                origin_of(C, d, r->value, a->shape[i]);
        if (!dtypes && AST_IS(f->fn->node, FunctionDef))
            origin_sizes(C, d, f, AST_AS(f->fn->node, FunctionDef)->returns, b, a);
        return;
    }
    snprintf(what, sizeof what, "the result of %s()", f->fn->name ? f->fn->name->text : "lambda");
    d = REPORT(C, E0907, r->ast.span, f->fn->name ? f->fn->name->text : "lambda", type_text(want), type_text(t));
    if (AST_IS(f->fn->node, FunctionDef) && AST_AS(f->fn->node, FunctionDef)->returns)
        diag_label(d, AST_AS(f->fn->node, FunctionDef)->returns->span, "declared here");
    if (AST_IS(r->value, Tuple) && t->kind == TY_TUPLE && want->kind == TY_TUPLE && t->n == want->n && t->n == AST_AS(r->value, Tuple)->elts.n)
        for (int i = 0; i < t->n; i++)
            if (!type_is_any(t->item[i]) && t->item[i]->kind == TY_TENSOR && !type_is_any(want->item[i]) && want->item[i]->kind == TY_TENSOR)
                origin_stored(C, want->item[i]->tensor, t->item[i]->tensor, AST_AS(r->value, Tuple)->elts.at[i]);
}

/* A tensor keeps what is known of it beyond its declaration. */
static const Type *declared_type(const Type *want, const Type *t)
{
    if (want && want->kind == TY_HIDDEN)
        return T_ANY;
    if (type_is_any(want))
        return t;
    if (want->kind != TY_TENSOR)
        return want;
    if (type_is_any(t) || t->kind != TY_TENSOR || (type_is_segmented(want) && t->tensor->rank == RANK_UNKNOWN))
        return want;
    return narrowed(want->tensor, t->tensor);
}

/*
 * Outside of functions nothing binds names of sizes: in x: Tensor["B", "D"] = zeros(2, 3) they are those of the tensor assigned,
 * equal where the names are, and mean nothing to the next annotation.  Without a tensor to read them from they are not known.
 */
static const Type *name_sizes(Check *C, const Type *want, int first, const Type *t)
{
    int n = C->frame->dims.n - first;
    const TType *w = want && want->kind == TY_TENSOR && want->tensor->rank != RANK_UNKNOWN ? want->tensor : NULL,
                *v = w && t && t->kind == TY_TENSOR && t->tensor->rank == w->rank ? t->tensor : NULL;
    Dim from[16], to[16];

    if (C->frame->fn || C->frame->cls || n <= 0 || n > 16)
        return want;
    for (int i = 0; i < n; i++) {
        NamedDim *d = &C->frame->dims.at[first + i];
        from[i] = d->dim;
        to[i] = dim_open();
        for (int axis = v ? v->rank - 1 : -1; axis >= 0; axis--)
            to[i] = w->shape[axis] == from[i] ? v->shape[axis] : to[i];
    }
    C->frame->dims.n = first;
    return type_subst(want, from, to, n);
}

static bool holds_tensor(const Type *t)
{
    for (int i = 0; !type_is_any(t) && t->kind != TY_TENSOR && t->item && i < (t->n < 0 ? 1 : t->n); i++)
        if (holds_tensor(t->item[i]))
            return true;
    return !type_is_any(t) && t->kind == TY_TENSOR;
}

/* self.names: List[str] = [] declares the attribute; sizes are the method's own names, so of tensors it tells nothing to others. */
static void declare_own(Check *C, Ast *target, const Type *want)
{
    const Fn *f = C->frame->fn;
    const AstAttribute *a = AST_IS(target, Attribute) ? AST_AS(target, Attribute) : NULL;
    const AstParam *self = f && f->cls && !f->is_static && f->params.n && AST_IS(f->params.at[0], Param) ? AST_AS(f->params.at[0], Param) : NULL;

    if (a && self && AST_IS(a->value, Name) && AST_AS(a->value, Name)->id == self->name && !type_is_any(want) && !holds_tensor(want) &&
        !cls_declared(f->cls, a->attr))
        map_set_ptr(&f->cls->declared, a->attr, want);
}

static void ann_assign(Check *C, AstAnnAssign *a)
{
    int named = C->frame->dims.n;
    const Type *want = annotation(C, a->annotation), *t = a->value ? expr(C, a->value) : NULL;
    AstName *n = AST_IS(a->target, Name) ? AST_AS(a->target, Name) : NULL;
    CFrame *f = C->frame;
    char what[96];

    if (t && type_is_any(want) && a->annotation && !AST_IS(a->annotation, Name) && t->kind == TY_INSTANCE && ((const Cls *)t->ref)->home->library)
        t = T_ANY;                                  /* state: OptimizerState[w] @paged(...) = adamw(): made into that */
    want = name_sizes(C, want, named, t);
    if (want && f->cls && !f->fn)
        want = cls_field_wants(f->cls, NULL, field_type(want, a->value), t);
    if (t && want && type_fits(C, t, want) == FITS_NOT) {
        snprintf(what, sizeof what, "'%s'", n ? n->id->text : "the target");
        C->last = NULL;
        report_misfit(C, a->ast.span, what, t, want);
        if (t->kind == TY_TENSOR && want->kind == TY_TENSOR)
            origin_annotated(C, a->annotation, want->tensor, t->tensor, a->value);
    }
    if (!n) {
        declare_own(C, a->target, want);
        bind_target(C, a->target, t ? t : want, a->value);
        return;
    }
    if ((n->bind == BIND_LOCAL || n->bind == BIND_CELL) && (int)n->slot < f->nvar)
        f->decl[n->slot] = want;
    else if (n->bind == BIND_GLOBAL && (int)n->slot < C->home->nglob && f == &C->home->frame)
        C->home->decl[n->slot] = want;
    if (t) {
        set_name(C, n, want ? declared_type(want, t) : t, a->value);
        if (AST_IS(a->value, Call) && type_has_none(t) && t->kind != TY_NONE)
            optional_declared(C, n, want);
    } else if (f->fn && n->bind != BIND_CLASS && n->bind != BIND_GLOBAL && !f->var[n->slot])
        set_name(C, n, type_of_kind(TY_UNSET), NULL);
    else if (n->bind == BIND_CLASS)
        map_set_ptr(&f->cls->attrs, n->id, want ? want : T_ANY);
}

/* Is it of a type whose values nothing can be taken from one by one? */
static bool holds_nothing(const Type *t)
{
    return !type_is_any(t) && (t->kind == TY_NONE || t->kind == TY_BOOL || t->kind == TY_INT || t->kind == TY_FLOAT || t->kind == TY_COMPLEX);
}

void aug_assign(Check *C, AstAugAssign *a)
{
    AstBinOp op = {.ast = {.kind = AST_BinOp, .span = a->ast.span}, .left = a->target, .op = a->op, .right = a->value};

    const Type *t = expr_looked(C, a->target), *by = expr_looked(C, a->value), *made = NULL;

    if (t->kind == TY_DICT && a->op == AOP_BITOR && by->kind != TY_DICT)        /* d |= pairs */
        made = type_dict(T_ANY, T_ANY);
    else if (t->kind == TY_LIST && a->op == AOP_ADD && by->kind != TY_LIST && !holds_nothing(by))
        made = type_list(T_ANY);                                                /* xs += what can be iterated over */
    else if (t->kind == TY_INSTANCE)
        made = object_changed(C, (int)a->op, t, by, (Ast *)a);
    bind_target(C, a->target, made ? made : operated(C, &op, t, by), a->value);
}

/* del a[i] of an object asks its __delitem__ alone; of other things the checker reads what goes. */
static void delete_names(Check *C, AstSeq targets)
{
    for (int i = 0; i < targets.n; i++) {
        const AstSubscript *s = AST_AS(targets.at[i], Subscript);
        if (targets.at[i]->kind == AST_Name)
            set_name(C, AST_AS(targets.at[i], Name), T_ANY, NULL);
        else if (targets.at[i]->kind != AST_Subscript || expr(C, s->value)->kind != TY_INSTANCE || s->index->kind == AST_Slice)
            expr(C, targets.at[i]);
        else
            expr(C, s->index);
    }
}

static const char *home_path(const Check *C)
{
    const Space *s = C->home->space;

    return !s ? C->path : s->path ? s->path : LIBRARY_FOLDER;
}

static void import_modules(Check *C, AstSeq names)
{
    for (int i = 0; i < names.n; i++) {
        AstAlias *a = AST_AS(names.at[i], Alias);
        const Space *s;
        if (a->ast.kind != AST_Alias || !a->bound)
            continue;
        s = a->asname || !strchr(a->name->text, '.') ? space_import(a->name->text, 0, home_path(C)) : NULL;
        set_name(C, a->bound, s ? type_ref(TY_SPACE, s) : T_ANY, NULL);
    }
}

static void import_names(Check *C, AstImportFrom *f)
{
    const Space *s = f->module ? space_import(f->module->text, (int)f->level, home_path(C)) : NULL;

    for (int i = 0; i < f->names.n; i++) {
        AstAlias *a = AST_AS(f->names.at[i], Alias);
        const Space *sub;
        if (a->ast.kind != AST_Alias || !a->bound)
            continue;
        sub = s ? space_member(s, a->name) : NULL;
        set_name(C, a->bound, sub ? type_ref(TY_SPACE, sub) : s && a->name ? type_lazy(s, a->name) : T_ANY, NULL);
    }
}

static void simple(Check *C, Ast *s)
{
    Facts facts;

    switch (s->kind) {
    case AST_ExprStmt:
        expr(C, AST_AS(s, ExprStmt)->value);
        break;
    case AST_Assign: {
        const Type *t = expr(C, AST_AS(s, Assign)->value);
        for (int i = 0; i < AST_AS(s, Assign)->targets.n; i++)
            bind_target(C, AST_AS(s, Assign)->targets.at[i], t, AST_AS(s, Assign)->value);
        break;
    }
    case AST_AugAssign:
        aug_assign(C, AST_AS(s, AugAssign));
        break;
    case AST_AnnAssign:
        ann_assign(C, AST_AS(s, AnnAssign));
        break;
    case AST_Return:
        return_stmt(C, AST_AS(s, Return));
        break;
    case AST_Raise:
        if (AST_AS(s, Raise)->exc)
            expr(C, AST_AS(s, Raise)->exc);
        raise_judged(C, AST_AS(s, Raise));
        C->frame->dead = true;
        break;
    case AST_Assert:
        C->quiet++;                             /* what an assertion compares is its own business */
        expr(C, AST_AS(s, Assert)->test);
        C->quiet--;
        narrow_asserted(C, AST_AS(s, Assert)->test);
        facts_read(C, AST_AS(s, Assert)->test, true, &facts);
        facts_assume(C, &facts);
        break;
    case AST_Break:
    case AST_Continue:
        flow_leave_loop(C);
        break;
    case AST_Del:
        delete_names(C, AST_AS(s, Del)->targets);
        break;
    case AST_TypeAlias:
        if (AST_IS(AST_AS(s, TypeAlias)->name, Name))
            set_name(C, AST_AS(AST_AS(s, TypeAlias)->name, Name), T_ANY, AST_AS(s, TypeAlias)->typarams.n ? NULL : AST_AS(s, TypeAlias)->value);
        break;
    case AST_Import:
        import_modules(C, AST_AS(s, Import)->names);
        break;
    case AST_ImportFrom:
        import_names(C, AST_AS(s, ImportFrom));
        break;
    default:
        break;
    }
}

static void statement(Check *C, Ast *s)
{
    if (C->kernel)
        kernel_statement(C, s);
    if (C->frame->several)
        several_judged(C, s);
    switch (s->kind) {
    case AST_If:
        flow_if(C, AST_AS(s, If));
        break;
    case AST_While:
        flow_loop(C, NULL, AST_AS(s, While));
        break;
    case AST_For:
        flow_loop(C, AST_AS(s, For), NULL);
        break;
    case AST_Try:
        flow_try(C, AST_AS(s, Try));
        break;
    case AST_With:
        flow_with(C, AST_AS(s, With));
        break;
    case AST_On:
        expr(C, AST_AS(s, On)->place);
        block(C, AST_AS(s, On)->body);
        break;
    case AST_Match:
        flow_match(C, AST_AS(s, Match));
        break;
    case AST_FunctionDef:
        function_def(C, AST_AS(s, FunctionDef));
        break;
    case AST_ClassDef:
        class_def(C, AST_AS(s, ClassDef));
        break;
    default:
        simple(C, s);
    }
}

void block(Check *C, AstSeq body)
{
    for (int i = 0; i < body.n && C->fuel > 0; i++) {
        if (C->frame->dead || C->depth > 1000)
            return;
        C->depth++;
        C->stmt = body.at[i];
        statement(C, body.at[i]);
        C->depth--;
        if (body.n > 1)
            unused_result(C, body.at[i]);
        if (C->fuel <= 0 && !C->calls && !C->home->library)
            C->spent = body.at[i];
    }
}
