/*
 * Calls: which argument meets which parameter, whether it fits, and what comes back.
 *
 * A declared result is taken at its word, with the caller's sizes put in.  The
 * body of a function without one is followed with the arguments' types (followed.c);
 * what is found wrong inside is reported inside.
 */
#include "frontend/check/binding.h"
#include "frontend/check/foreign.h"
#include "frontend/check/frames.h"

#include "frontend/check/kernels.h"
#include "frontend/check/texts.h"
#include "frontend/eval/native.h"

#include <stdio.h>
#include <string.h>

/* Errors about arguments stand on the call's line, at the argument when it is there too. */
Span at_call(const Ast *node, const Ast *arg)
{
    return source_same_line(node->span.lo, arg->span.lo) ? arg->span : node->span;
}

/* ------------------------------------------------------------- functions of the program */

static void keep_example(Check *C, Fn *f, const Bound *b)
{
    Dim *sizes = arena_array(&C->arena, Dim, 2 * b->n);

    memcpy(sizes, b->from, sizeof *sizes * (size_t)b->n);
    memcpy(sizes + b->n, b->to, sizeof *sizes * (size_t)b->n);
    f->example = sizes;
    f->example_n = b->n;
}

/* After a mistake in the arguments the sizes of the result are nobody's word: what follows from them is no mistake of its own. */
static const Type *sizes_forgotten(const Type *t)
{
    TType x;

    if (t->kind != TY_TENSOR)
        return t;
    x = *t->tensor;
    for (int i = 0; x.rank != RANK_UNKNOWN && i < x.rank; i++)
        x.shape[i] = dim_open();
    return x.rank == RANK_UNKNOWN ? type_tensor_unknown() : type_tensor(&x);
}

/* --shapes: "f: [2, 3] -> []" for a call with tensors from the top. */
static const Type *show_call(Check *C, const Fn *f, const CallArgs *a, const Type *r)
{
    if (!C->opt.shapes || C->quiet || C->calls || !f->name || type_is_any(r) || r->kind != TY_TENSOR || !a->n ||
        r->tensor->rank == RANK_UNKNOWN)
        return r;
    for (int i = 0; i < a->n; i++)
        if (type_is_any(a->at[i].type) || a->at[i].type->kind != TY_TENSOR)
            return r;
    sb_printf(C->opt.shapes, "%s: ", f->name->text);
    for (int i = 0; i < a->n; i++)
        sb_printf(C->opt.shapes, "%s%s", i ? ", " : "", shape_of(a->at[i].type->tensor));
    sb_printf(C->opt.shapes, " -> %s\n", shape_of(r->tensor));
    return r;
}

/* A method's class has the sizes of the object; those of an object that is not known are not known, except to itself. */
static void bind_object(Bound *b, const Fn *f, const Type *self, const Check *C)
{
    const Inst *i = self && self->kind == TY_INSTANCE ? self->inst : NULL;

    for (const Cls *c = f->cls; c; c = c->base) {
        bool inside = false;
        for (const CFrame *x = C->frame; x; x = x->up)
            inside |= x->cls == c && !x->fn;
        if (!i && inside)
            continue;
        for (int k = 0; k < c->dims.n; k++)
            bound_add(b, c->dims.at[k].dim, i ? dim_subst(c->dims.at[k].dim, i->dims.from, i->dims.to, i->dims.n) : dim_open());
    }
}

static bool find_catch(Ast *n, void *state)
{
    bool *found = state;

    if (!n || *found)
        return true;
    if (n->kind == AST_With || (n->kind == AST_Try && AST_AS(n, Try)->handlers.n))
        *found = true;
    else
        ast_walk(n, find_catch, found);
    return true;
}

/* A lambda that a function gets which catches what is raised may be made to fail: it is not judged for its own sake. */
static void excuse_lambdas(const Fn *f, const CallArgs *a)
{
    for (int i = 0; i < a->n; i++) {
        Fn *x = !type_is_any(a->at[i].type) && a->at[i].type->kind == TY_FUNC ? (Fn *)a->at[i].type->ref : NULL;
        bool found = false;
        if (!x || x->checked || x->node->kind != AST_Lambda)
            continue;
        find_catch(f->node, &found);
        x->checked = found;
    }
}

/* The function's name; of an object that is called, the name that the program has for it. */
static const char *called_by(const Fn *f, const Ast *node)
{
    const Ast *callee = AST_IS(node, Call) ? AST_AS(node, Call)->func : NULL;

    if (f->name && !strcmp(f->name->text, "__call__") && AST_IS(callee, Name))
        return AST_AS(callee, Name)->id->text;
    if (f->name && !strcmp(f->name->text, "__call__") && AST_IS(callee, Attribute))
        return AST_AS(callee, Attribute)->attr->text;
    return f->name ? f->name->text : "lambda";
}

/* What *args and **kw get, one by one; tensors among them have sizes of their own. */
static bool extras_judged(Check *C, Fn *f, const Slots *s, Bound *b, Ast *node)
{
    bool ok = true;

    for (int i = 0; i < f->params.n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        bool named = p->ast.kind == AST_Param && p->kind == PARAM_KWARGS;
        const Type *want = p->name && (named || (p->ast.kind == AST_Param && p->kind == PARAM_VARARGS)) ? f->sig.param[p->slot] : NULL;
        for (int k = 0; ok && !type_is_any(want) && want->kind != TY_TENSOR && k < s->nextra && k < ITEMS_MAX; k++)
            if ((s->extra[k]->name != NULL) == named && !s->extra[k]->stars)
                ok = argument_judged(C, f, p, s->extra[k], want, b, node);
    }
    return ok;
}

/* Three times over the arguments: what they say of the signature's names, what follows from that for the others, and whether they fit. */
static bool match_arguments(Check *C, Fn *f, const Slots *s, Bound *b, Ast *node)
{
    bool ok = true;
    int k = 0;

    for (int pass = 0; pass < 3; pass++, k = 0)
        for (int i = 0; i < f->params.n && k < s->n; i++) {
            AstParam *p = AST_AS(f->params.at[i], Param);
            const CallArg *x;
            if (p->ast.kind != AST_Param || p->kind == PARAM_CONSTRAINT || p->kind == PARAM_ANY || !p->name)
                continue;
            x = s->at[k++].arg;
            if (!x || !f->sig.param[p->slot])
                continue;
            if (pass == 0)
                sig_match(&f->sig, NULL, f->sig.param[p->slot], x->type, b);
            else if (pass == 1)
                sig_solve(&f->sig, f->sig.param[p->slot], x->type, b);
            else if (ok)
                ok = argument_judged(C, f, p, x, f->sig.param[p->slot], b, node);
        }
    return ok && extras_judged(C, f, s, b, node);
}

/* A call from outside of the library of something in it: what is wrong within is the call's mistake. false: an argument is none for it. */
static bool enter_library(Check *C, Fn *f, const Slots *s, Ast *node)
{
    C->blame = (Blame){node, C->frame, C->branches, C->unrolled};
    return library_judged(C, f->params, f->cls && f->cls->name && !strcmp(s->callee, "__init__") ? f->cls->name->text : s->callee, s, node);
}

static const Type *call_fn(Check *C, Fn *f, const Type *self, CallArgs *a, Ast *node)
{
    Slots s;
    Bound b;
    const Type *r;
    Blame blame = C->blame;
    bool library = f->around->home->library, ok, fit = true;        /* fit: as far as the library says; its body has no more to tell then */

    excuse_lambdas(f, a);
    slots_init(&s, called_by(f, node), library ? (AstSeq){0} : f->params);
    bound_init(&b);
    if (!slots_read(f->params, &s) || !slots_bind(C, &s, a, self != NULL, node))
        return T_ANY;
    if (library && !self && f->name && transform_make(C, f->name->text, a, node, &r))
        return r;
    if (library && !C->home->library)
        fit = enter_library(C, f, &s, node);
    for (int i = 0; i < a->n && !fit; i++)
        a->at[i].type = T_ANY;
    if (library && schedule_takes_fields(f))
        schedule_check_call(C, f, a, node);
    fn_sig(C, f);
    bind_object(&b, f, self, C);
    sig_numbers(&f->sig, &s, &b);
    ok = match_arguments(C, f, &s, &b, node);
    if (!f->example && !library && b.n)
        keep_example(C, f, &b);
    C->quiet += !fit;
    ok = ok && sig_constraints(C, f, &b, &s, node) && sig_statics(C, f, &b, node);
    sig_bind_rest(&f->sig, &b);
    if (!ok)
        r = f->sig.ret ? sizes_forgotten(fn_declared_result(f, &b)) : T_ANY;
    else
        r = f->dynamic ? fn_running(C, f, &s, self, &b, node) : show_call(C, f, a, fn_result(C, f, &s, self, &b, node));
    C->quiet -= !fit;
    if (f->is_staged && !f->sig.ret)
        r = type_staged(r);
    C->blame = blame;
    return r;
}

/* ------------------------------------------------------------- natives */

/* By the signature of the function, or of what makes the class's objects. false: they do not go together. */
static bool arguments_judged(Check *C, const NativeDef *d, CallArgs *a, Ast *node)
{
    bool cls = d->sig && !strncmp(d->sig, "type[", 5);
    Slots bound;

    d = cls ? native_find(d->name, "__new__") : d;
    if (!d)
        return true;
    if (!native_bind(C, d, cls, a, node, &bound))
        return false;
    native_judged(C, d, &bound, a, node);
    return true;
}

static const Type *call_native(Check *C, const NativeDef *d, const Type *self, CallArgs *a, Ast *node)
{
    const KernelOp *op = kernel_op_of(d);
    const Type *r;
    const NativeSig *sig;
    long findings = C->findings;
    Slots bound;

    if (op)
        return kernel_call(C, op, d, self, a, node);
    texts_judged(C, d, self, a, node);
    if (C->kernel && !self && !*d->owner && kernel_builtin(C, d->name, a, node, &r))
        return r;
    if (C->kernel && C->frame->fn == C->kernel->fn && kernel_host_call(C, d, a, node))
        return T_ANY;
    if (C->kernel && self && self->kind == TY_LIST && kernel_list_grows(C, d->name, node))
        return T_ANY;
    if (!self && host_owner(d->owner) && host_call(C, d, a, node, &r)) {
        if (type_is_any(r) || r->kind != TY_TENSOR)
            arguments_judged(C, d, a, node);
        return r;
    }
    if (d->sig && !strncmp(d->sig, "type[", 5)) {
        if (!arguments_judged(C, d, a, node))
            return T_ANY;
        if (tensor_call(C, d->owner, d->name, self, a, node, &r))
            return r;
        return native_declared(&(AstName){.ast = {.kind = AST_Name}, .id = sym(d->name)}.ast);
    }
    if (!native_bind(C, d, self != NULL, a, node, &bound))
        return T_ANY;
    if (!self && !*d->owner && transform_make(C, d->name, a, node, &r))
        return r;
    if (tensor_call(C, d->owner, d->name, self, a, node, &r)) {
        if (C->findings == findings)                /* else it was said in the rule's words */
            native_judged(C, d, &bound, a, node);
        return r;
    }
    if (self && a->n == 1 && !a->open && !C->growing && (!strcmp(d->name, "append") || !strcmp(d->name, "add")) && type_is_container(self))
        host_element_stored(C, self, a->at[0].type, at_call(node, a->at[0].node));
    sig = d->sig && d->sig[0] == '(' ? native_sig(d) : NULL;
    native_judged(C, d, &bound, a, node);
    r = self && self->kind == TY_DICT && type_settle(self)->item && !strcmp(d->owner, "dict") ? dict_view(self, d->name) :
        self ? text_made(d, self, a) : NULL;
    return r ? r : sig ? native_declared(sig->returns) : T_ANY;
}

/* A function of the library's files: its parameters are checked, its result follows the tensor rules. */
static const Type *call_library(Check *C, const AstFunctionDef *def, const Type *self, CallArgs *a, Ast *node)
{
    Slots s;
    const Type *r;

    slots_init(&s, def->name->text, (AstSeq){0});
    if (!slots_read(def->params, &s) || !slots_bind(C, &s, a, self != NULL, node))
        return T_ANY;
    if (!C->home->library && !library_judged(C, def->params, def->name->text, &s, node))
        return T_ANY;
    if (!self && transform_make(C, def->name->text, a, node, &r))
        return r;
    return tensor_call(C, "", def->name->text, self, a, node, &r) ? r : T_ANY;
}

/* ------------------------------------------------------------- all callees */

/* A Callable parameter: its declared parameters take the arguments. */
static const Type *call_callable(Check *C, const Type *f, CallArgs *a, Ast *node)
{
    char what[64], given[16];
    Diag *d;

    if (f->n < 0)
        return T_ANY;
    for (int i = 0; i < a->n; i++)
        if (a->at[i].name)
            return f->item[f->n];
    if (!a->open && a->n != f->n) {
        snprintf(what, sizeof what, "%d argument%s", f->n, f->n == 1 ? "" : "s");
        snprintf(given, sizeof given, "%d", a->n);
        d = REPORT(C, E0918, node->span, type_text(f), what, given);
        origin_of(C, d, AST_AS(node, Call)->func, DIM_BAD);
        return f->item[f->n];
    }
    for (int i = 0; i < a->n && i < f->n && !a->open; i++) {
        if (type_fits(C, a->at[i].type, f->item[i]) != FITS_NOT)
            continue;
        snprintf(what, sizeof what, "argument %d of the function", i + 1);
        report_misfit(C, at_call(node, a->at[i].node), what, a->at[i].type, f->item[i]);
        break;
    }
    return f->item[f->n];
}

static const Type *call_instance(Check *C, const Type *t, CallArgs *a, Ast *node)
{
    const Cls *c = t->ref;
    const Type *m = cls_callee(c);

    if (!m && object_lacks(C, t, "__call__"))
        diag_help(REPORT(C, E0911, node->span, type_text(t)), "define %s.__call__(self, ...), or call a method of it", cls_name(c));
    return m && m->kind == TY_FUNC ? call_fn(C, (Fn *)m->ref, t, a, node) : T_ANY;
}

/* Is it the library's method of that name of a named tuple? */
static bool record_method(const Type *self, const Fn *f, const char *name)
{
    return self->kind == TY_INSTANCE && ((const Cls *)self->ref)->is_record && f->around->home->library && f->name && !strcmp(f->name->text, name);
}

/* The library's reduce(f, xs) and reduce(f, xs, init): not the one that combines tensors, or ranks. */
static bool folds_sequence(const Fn *f, const CallArgs *a)
{
    const Type *first = a->n > 1 && !a->at[0].name && !a->at[1].name ? a->at[0].type : T_ANY;

    return f->name && !strcmp(f->name->text, "reduce") && f->around->home->library && !type_is_any(first) &&
           (first->kind == TY_FUNC || first->kind == TY_NATIVE);
}

const Type *call_type(Check *C, const Type *f, CallArgs *a, Ast *node)
{
    const Type *r, *t;

    if (type_is_any(f))
        return T_ANY;
    switch (f->kind) {
    case TY_FUNC:
        if (folds_sequence(f->ref, a) && (t = host_reduce(C, a, node)))
            return t;
        return call_fn(C, (Fn *)f->ref, NULL, a, node);
    case TY_METHOD:
        r = f->ref;
        if (f->self->kind == TY_DTYPE && r->kind == TY_NATIVE)
            return tensor_call(C, dtype_info[f->self->value].name, ((const NativeDef *)r->ref)->name, NULL, a, node, &t) ? t : T_ANY;
        if (r->kind == TY_FUNC && record_method(f->self, r->ref, "_replace") && !a->open && (t = fields_changed(C, f->self, a, 0, node)))
            return t;
        if (r->kind == TY_FUNC)
            return call_fn(C, (Fn *)r->ref, f->self, a, node);
        if (r->kind == TY_LIBRARY)
            return call_library(C, r->ref, f->self, a, node);
        return r->kind == TY_NATIVE ? call_native(C, r->ref, f->self, a, node) : T_ANY;
    case TY_LIBRARY:
        return call_library(C, f->ref, NULL, a, node);
    case TY_TRANSFORM:
        return transform_call(C, f, a, node);
    case TY_NATIVE:
        return call_native(C, f->ref, NULL, a, node);
    case TY_CLASS:
        return cls_call(C, (Cls *)f->ref, a, node);
    case TY_INSTANCE:
        return call_instance(C, f, a, node);
    case TY_CALLABLE:
        return call_callable(C, f, a, node);
    case TY_INT: case TY_FLOAT: case TY_STR: case TY_BOOL: case TY_NONE: case TY_LIST: case TY_TUPLE: case TY_DICT: case TY_SET: case TY_TENSOR:
        origin_of(C, REPORT(C, E0911, node->span, type_text(f)), AST_AS(node, Call)->func, DIM_BAD);
        return T_ANY;
    default:
        return T_ANY;
    }
}

/* ------------------------------------------------------------- arguments as written */

/* *t or **t of known parts as so many arguments. false: it is not known, or there are too many. */
static bool spread(CallArgs *a, const AstArg *x, const Type *t)
{
    if (x->stars == 1 && t->n >= 0 && a->n + t->n <= 64 && (t->kind == TY_TUPLE || (t->kind == TY_LIST && t->exact))) {
        for (int k = 0; k < t->n; k++)
            a->at[a->n++] = (CallArg){NULL, t->item[k], x->value, 0};
        return true;
    }
    if (x->stars != 2 || t->kind != TY_DICT || !t->exact || a->n + t->n / 2 > 64)
        return false;
    for (int k = 0; k < t->n; k += 2)
        if (t->item[k]->kind != TY_STR)
            return false;
    for (int k = 0; k < t->n; k += 2)
        a->at[a->n++] = (CallArg){t->item[k]->text, t->item[k + 1], x->value, 0};
    return true;
}

/* Does it name what it gets, and is it no function that a library made? *args hands things on that nobody follows. */
static bool names_arguments(const Fn *f)
{
    for (int i = 0; i < f->params.n; i++)
        if (AST_AS(f->params.at[i], Param)->kind == PARAM_VARARGS || AST_AS(f->params.at[i], Param)->kind == PARAM_KWARGS)
            return false;
    return !f->around->home->library || !f->around->fn;
}

/* Do its arguments stay without other names: is it no method, no class, and nothing that keeps them for later? */
static bool only_looks(const Type *f)
{
    static const char *const keepers[] = {"partial", "setattr", "append", "insert", "add", "setdefault", "appendleft"};
    const NativeDef *d = f->kind == TY_NATIVE ? f->ref : f->kind == TY_METHOD && f->ref && ((const Type *)f->ref)->kind == TY_NATIVE
                         ? ((const Type *)f->ref)->ref : NULL;

    for (size_t i = 0; d && i < sizeof keepers / sizeof *keepers; i++)
        if (!strcmp(d->name, keepers[i]))
            return false;
    return d || f->kind == TY_LIBRARY || f->kind == TY_TRANSFORM || (f->kind == TY_FUNC && names_arguments(f->ref));
}

/* false: more than a call is followed with */
static bool read_arguments(Check *C, const AstCall *c, const Type *f, CallArgs *a)
{
    bool grows = C->home->mutated.n > 0, looks = grows && only_looks(f);

    for (int i = 0; i < c->args.n; i++) {
        AstArg *x = AST_AS(c->args.at[i], Arg);
        const Type *t;
        C->hold = grows && x->ast.kind == AST_Arg && (looks || x->stars) ? x->value : NULL;
        t = x->ast.kind == AST_Arg ? expr(C, x->value) : T_ANY;
        if (x->ast.kind == AST_Arg && spread(a, x, t))
            continue;
        if (a->n == 64 || x->ast.kind != AST_Arg)
            return false;
        a->at[a->n++] = (CallArg){x->name, t, x->value, (uint8_t)x->stars};
        a->open |= x->stars != 0;
        if (x->name)
            a->at[a->n - 1].node = (Ast *)x;
    }
    return true;
}

/* The parameter of the body that is followed which e still is; NULL: it is none. */
static const AstParam *own_parameter(const CFrame *f, const Ast *e)
{
    const AstName *n = AST_IS(e, Name) ? AST_AS(e, Name) : NULL;

    if (!n || (n->bind != BIND_LOCAL && n->bind != BIND_CELL) || (int)n->slot >= f->nvar || !AST_IS(f->from[n->slot], Param))
        return NULL;
    return AST_AS(f->from[n->slot], Param);
}

/*
 * The call in a wrapper: of a function that is captured, or a parameter, with what the wrapper itself got.  Its arguments are
 * then its caller's, whose mistake it is when they do not fit.  false: it is another.
 */
static bool hands_on(Check *C, const AstCall *c, CallArgs *a)
{
    const CFrame *f = C->frame;
    const AstName *callee = AST_IS(c->func, Name) ? AST_AS(c->func, Name) : NULL;
    bool captured = callee && callee->bind == BIND_FREE;
    int n = 0;

    if (!f->caller || !f->call || !callee || (!captured && !own_parameter(f, c->func)) || a->open)
        return false;
    for (int i = 0; i < c->args.n; i++) {
        const AstArg *x = AST_AS(c->args.at[i], Arg);
        const AstParam *p = own_parameter(f, x->value);
        if (!p || (x->stars ? p->kind != (x->stars == 1 ? PARAM_VARARGS : PARAM_KWARGS) : !captured || !f->arg[p->slot]))
            return false;
        for (int k = 0; x->stars && k < f->slots->nextra; k++)
            if ((f->slots->extra[k]->name != NULL) == (x->stars == 2))
                a->at[n++].node = f->slots->extra[k]->node;
        if (!x->stars)
            a->at[n++].node = f->arg[p->slot];
    }
    return n && n == a->n;
}

const Type *call(Check *C, AstCall *c)
{
    CFrame *here = C->frame;
    CallArg list[64];
    CallArgs a = {list, 0, false};
    const Type *f, *r;

    C->hold = AST_IS(c->func, Attribute) ? AST_AS(c->func, Attribute)->value : NULL;
    optional_used(C, c->func, "None cannot be called");
    f = expr(C, c->func);
    if (!read_arguments(C, c, f, &a)) {
        grown_called(C, c, &(CallArgs){list, 0, true});
        return T_ANY;
    }
    if (!hands_on(C, c, &a)) {
        C->growing = C->home->mutated.n && grown_calls(C, c);
        if (!C->growing)
            return call_type(C, f, &a, (Ast *)c);
        r = call_type(C, f, &a, (Ast *)c);
        C->growing = false;
        grown_called(C, c, &a);
        return r;
    }
    C->handed++;
    C->calls--;
    C->frame = here->caller;
    C->home = here->caller->home;
    r = call_type(C, f, &a, here->call);
    C->frame = here;
    C->home = here->home;
    C->calls++;
    return r;
}
