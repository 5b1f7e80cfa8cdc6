/*
 * Does an argument fit its parameter? What is said when it does not: both sizes, where they come from, the cast that would help.
 *
 * Of a function that is passed where Callable[[A], B] is declared, what it gives is looked at as well; of an object where a protocol is, that it
 * has the methods.
 */
#include "frontend/check/binding.h"

#include <stdio.h>
#include <string.h>

static const Type *inner_tensor(const Type *t)
{
    if (t && (t->kind == TY_LIST) && t->n)
        return inner_tensor(type_settle(t)->item[0]);
    return t;
}

/* The statement with the cast that would make it fit. */
static void suggest_cast(Check *C, Diag *d, Ast *node, const Ast *arg, const TType *from, const TType *to)
{
    Ast *value = arg->kind == AST_Arg ? AST_AS(arg, Arg)->value : (Ast *)arg;
    StrBuf before = {0}, name = {0}, after = {0};
    const char *at;

    ast_print(C->stmt && C->stmt->kind == AST_Assign && AST_AS(C->stmt, Assign)->value == node ? C->stmt : node, &before);
    ast_print(value, &name);
    while (before.n && strchr("\n ", sb_str(&before)[before.n - 1]))
        before.n--;
    at = strchr(sb_str(&before), '(');
    at = at ? strstr(at, sb_str(&name)) : NULL;
    if (at) {
        sb_write(&after, before.s, (size_t)(at - before.s) + name.n);
        sb_printf(&after, ".to(%s)%s", dtype_info[to->dtype].name, at + name.n);
        diag_note(d, "Tensor '%s' has type %s but function expects %s", sb_str(&name), dtype_info[from->dtype].name,
                  dtype_info[to->dtype].name);
        diag_note(d, "Suggestion: Add explicit cast:\n    %s\nOr use automatic mixed precision:\n    with tessera.precision(\"mixed\"):",
                  sb_str(&after));
    }
    sb_done(&before);
    sb_done(&name);
    sb_done(&after);
}

static bool argument_fits(Check *C, const Fn *f, const AstParam *p, const CallArg *a, const Type *want, const Bound *b,
                           Ast *node)
{
    const Type *need = type_subst(want, b->from, b->to, b->n);
    char what[160];
    Span span;

    if (!need || type_fits(C, a->type, need) != FITS_NOT)
        return true;
    span = at_call(node, a->node);
    if (a->type->kind == TY_NONE && ast_is_const(p->dflt, CONST_NONE))
        return true;
    snprintf(what, sizeof what, "argument '%s' of %s()", p->name->text, f->name ? f->name->text : "lambda");
    if (C->mixed && a->type->kind == TY_TENSOR && need->kind == TY_TENSOR)
        return true;
    if (a->type->kind == TY_TENSOR && want->kind == TY_TENSOR &&
        (a->type->tensor->dtype == want->tensor->dtype || want->tensor->dtype == DT_NONE || a->type->tensor->dtype == DT_NONE) &&
        sig_report(C, span, what, want->tensor, a->type->tensor, b))
        return false;
    if (a->type->kind == TY_TENSOR && need->kind == TY_TENSOR && a->type->tensor->dtype != need->tensor->dtype &&
        a->type->tensor->dtype != DT_NONE && need->tensor->dtype != DT_NONE) {
        suggest_cast(C, report_dtype(C, node->span, what, a->type->tensor, need->tensor), node, a->node, a->type->tensor, need->tensor);
        return false;
    }
    if (a->type->kind == TY_LIST && a->type->exact && want->kind == TY_LIST) {
        const Type *elem = inner_tensor(need);
        for (int i = 0; i < a->type->n; i++)
            if (type_fits(C, type_list_of(&a->type->item[i], 1), type_list(elem)) == FITS_NOT) {
                report_misfit(C, span, what, a->type->item[i], elem);
                return false;
            }
    }
    report_misfit(C, span, what, a->type, need);
    return false;
}

/*
 * Of a function that is passed where Callable[[float], float] is declared: what it gives for such arguments. A tensor may be a number, and who
 * wants None takes anything.
 */
static bool result_fits(Check *C, const Fn *f, const AstParam *p, const CallArg *a, const Type *want, Ast *node)
{
    const Type *r, *need = want->kind == TY_CALLABLE && want->n >= 0 ? want->item[want->n] : T_ANY;
    CallArg given[ITEMS_MAX];
    char what[160];

    if (type_is_any(need) || need->kind == TY_NONE || type_is_any(a->type) || a->type->kind != TY_FUNC || C->home->library)
        return true;
    for (int i = 0; i < want->n; i++)
        given[i] = (CallArg){NULL, want->item[i], a->node, 0};
    C->quiet++;
    r = call_type(C, a->type, &(CallArgs){given, want->n, false}, node);
    C->quiet--;
    if (type_is_any(r) || r->kind == TY_TENSOR || type_fits(C, r, need) != FITS_NOT)
        return true;
    snprintf(what, sizeof what, "what argument '%.40s' of %.60s() gives", p->name->text, f->name ? f->name->text : "lambda");
    report_misfit(C, at_call(node, a->node), what, r, need);
    return false;
}

/* The protocol that a parameter is declared with; NULL: none. */
static const Cls *declared_protocol(Check *C, const Fn *f, const AstParam *p)
{
    Home *home = C->home;
    CFrame *frame = C->frame;
    const Type *t;

    if (!AST_IS(p->annotation, Name) || AST_AS(p->annotation, Name)->bind != BIND_GLOBAL)
        return NULL;
    C->home = f->around->home;
    C->frame = &f->around->home->frame;
    t = name_type(C, AST_AS(p->annotation, Name));
    C->frame = frame;
    C->home = home;
    return t->kind == TY_CLASS && ((const Cls *)t->ref)->is_protocol ? t->ref : NULL;
}

/* An object of a class that lacks a method of the protocol. */
static bool meets_protocol(Check *C, const Fn *f, const AstParam *p, const CallArg *a, Ast *node)
{
    const Cls *own = !type_is_any(a->type) && a->type->kind == TY_INSTANCE ? a->type->ref : NULL, *c;
    char what[160], want[128];

    if (!own || own->home->library || cls_is_open(own) || !(c = declared_protocol(C, f, p)))
        return true;
    for (int i = 0; i < c->def->body.n; i++) {
        const AstFunctionDef *m = AST_AS(c->def->body.at[i], FunctionDef);
        uintptr_t stored = 0;
        if (!AST_IS(c->def->body.at[i], FunctionDef) || !m->name || cls_has(own, m->name) ||
            (map_find(&C->stored_attrs, (uintptr_t)m->name, &stored) && stored != ATTR_DERIVED))
            continue;
        snprintf(what, sizeof what, "argument '%.40s' of %.60s()", p->name->text, f->name ? f->name->text : "lambda");
        snprintf(want, sizeof want, "a %.40s, which has %.60s()", cls_name(c), m->name->text);
        diag_help(REPORT(C, E0906, at_call(node, a->node), what, want, type_text(a->type)), "define %s in %s", m->name->text, cls_name(own));
        diag_label(C->last, m->ast.span, "%s asks for it here", cls_name(c));
        return false;
    }
    return true;
}

Ast *value_of_arg(Ast *a)
{
    return AST_IS(a, Arg) ? AST_AS(a, Arg)->value : a;
}

static bool check_argument(Check *C, const Fn *f, const AstParam *p, const CallArg *a, const Type *want, const Bound *b,
                           Ast *node)
{
    const TType *tensor = want->kind == TY_TENSOR ? want->tensor : NULL, *need;

    C->last = NULL;
    if (argument_fits(C, f, p, a, want, b, node)) {
        if (type_fits(C, T_NONE, want) == FITS_NOT && !ast_is_const(p->dflt, CONST_NONE))
            optional_used(C, value_of_arg(a->node), "argument '%.40s' of %.60s() must be %s", p->name->text,
                          f->name ? f->name->text : "lambda", type_text(want));
        return true;
    }
    need = tensor ? type_subst(want, b->from, b->to, b->n)->tensor : NULL;
    if (f->around->home != C->home && tensor && a->type->kind == TY_TENSOR)
        story_between_files(C, f, p, need, a->type->tensor, a->node, node);
    origin_declared(C, f, p, tensor, need, a->type->kind == TY_TENSOR ? a->type->tensor : NULL,
                    AST_IS(a->node, Arg) ? AST_AS(a->node, Arg)->value : a->node);
    if (C->last && need && a->type->kind == TY_TENSOR && need->dtype != a->type->tensor->dtype)
        origin_of(C, C->last, value_of_arg(a->node), DIM_BAD);
    return false;
}

bool argument_judged(Check *C, const Fn *f, const AstParam *p, const CallArg *a, const Type *want, const Bound *b, Ast *node)
{
    if (want->kind == TY_CALLABLE && !f->around->home->library && !result_fits(C, f, p, a, want, node))
        return false;
    if (a->type && a->type->kind == TY_INSTANCE && !f->around->home->library && !meets_protocol(C, f, p, a, node))
        return false;
    return check_argument(C, f, p, a, want, b, node);
}
