/*
 * What the host sees of kernels: calls and launches of them, and Schedules.
 *
 * A kernel is a TY_TRANSFORM of its function: it takes what the function takes.
 * Everything else about it is the class Kernel of the library, and a schedule is
 * the library's class Schedule; only their keywords are judged here, against schedule.def.
 */
#include "frontend/check/kernels.h"

#include "frontend/check/resolve.h"
#include "frontend/check/spaces.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- schedules */

static bool in_module(const Home *h, const char *name)
{
    return h->library && h->space && !strcmp(h->space->name, name);
}

bool is_schedule_class(const Cls *c)
{
    return c && c->name && in_module(c->home, "schedules") &&
           (!strcmp(c->name->text, "Schedule") || !strcmp(c->name->text, "ScheduleChain"));
}

bool is_kernel_class(const Cls *c)
{
    static const struct { const char *module, *name; } kinds[] = {{"kernels", "Kernel"}, {"kernels", "_KernelDecorator"}, {"tuning", "Attaching"}};

    for (size_t i = 0; c && c->name && i < sizeof kinds / sizeof *kinds; i++)
        if (in_module(c->home, kinds[i].module) && !strcmp(c->name->text, kinds[i].name))
            return true;
    return false;
}

bool schedule_takes_fields(const Fn *f)
{
    const char *s = f->name && f->around->home->library ? f->name->text : "";

    return (in_module(f->around->home, "schedules") && (!strcmp(s, "derive") || !strcmp(s, "schedule"))) ||
           (in_module(f->around->home, "tuning") && !strcmp(s, "search_space"));
}

static void unknown_field(Check *C, const char *name, Span span, Span word)
{
    Diag *d = REPORT(C, E0640, span, name);
    const char *near = schedule_nearest(name);

    if (near) {
        diag_help(d, "did you mean '%s'?", near);
        diag_fix(d, word, near);
    } else {
        diag_help(d, "its fields are block_m block_n block_k block_d tile_m tile_n tile_k warps stages vector swizzle unroll prefetch producers");
    }
}

static void wrong_value(Check *C, const char *name, const char *need, const Type *t, Span span)
{
    StrBuf b = {0};

    if (t->kind == TY_INT && t->value != DIM_BAD)
        dim_print(t->value, &b);
    else if (t->kind == TY_STR && t->text)
        sb_printf(&b, "\"%s\"", t->text->text);
    else
        sb_puts(&b, type_text(t));
    REPORT(C, E0641, span, name, need, sb_str(&b));
    sb_done(&b);
}

static bool is_swizzle(const Type *t)
{
    for (int i = 0; t->kind == TY_STR && schedule_swizzles[i]; i++)
        if (!t->text || !strcmp(t->text->text, schedule_swizzles[i]))
            return true;
    return false;
}

/* One value of a field; lists are search spaces, and checked element by element. */
static void check_value(Check *C, const char *name, const Type *t, ScheduleField f, Span span)
{
    ScheduleKind kind = (ScheduleKind)schedule_fields[f].kind;
    int64_t n = 1;

    if (type_is_any(t) || t->kind == TY_NONE || t->kind == TY_UNION)
        return;
    if (t->kind == TY_LIST) {
        for (int i = 0; i < t->n; i++)
            check_value(C, name, t->item[i], f, span);
        return;
    }
    if (kind == SCHED_WORD) {
        if (!is_swizzle(t))
            wrong_value(C, name, "\"xor\" or \"none\"", t, span);
        return;
    }
    if (t->kind != TY_INT || (t->value != DIM_BAD && dim_const_value(t->value, &n) && n < (kind == SCHED_SIZE)))
        wrong_value(C, name, kind == SCHED_SIZE ? "a positive int" : "an int from 0", t, span);
}

static void check_group(Check *C, const ScheduleName *g, const Type *t, Span span)
{
    int most = g->last - g->first + 1;

    if (type_is_any(t) || t->kind == TY_INT || t->kind == TY_LIST) {
        check_value(C, g->name, t, (ScheduleField)g->first, span);
        return;
    }
    if (t->kind != TY_TUPLE || t->n == 0 || t->n > most) {
        char need[64];
        snprintf(need, sizeof need, "%s %d sizes, as a tuple", most > 2 ? "2 or" : "an int or", most);
        wrong_value(C, g->name, need, t, span);
        return;
    }
    for (int i = 0; i < t->n; i++)
        check_value(C, g->name, t->item[i], (ScheduleField)(g->first + i), span);
}

static bool is_parameter(const Fn *f, Sym name)
{
    for (int i = 0; f && i < f->params.n; i++)
        if (AST_IS(f->params.at[i], Param) && AST_AS(f->params.at[i], Param)->name == name &&
            AST_AS(f->params.at[i], Param)->kind != PARAM_KWARGS)
            return true;
    return false;
}

void schedule_check_call(Check *C, const Fn *f, const CallArgs *a, Ast *node)
{
    for (int i = 0; i < a->n; i++) {
        const CallArg *x = &a->at[i];
        const ScheduleName *g = x->name ? schedule_name(schedule_groups, x->name->text) : NULL;
        if (!x->name && !x->stars && !f) {
            REPORT(C, E0903, at_call(node, x->node), "Schedule", "it takes its fields by name, as block=(64, 64)");
            return;
        }
        if (!x->name || is_parameter(f, x->name))
            continue;
        if (!schedule_takes(x->name->text))
            unknown_field(C, x->name->text, at_call(node, x->node), x->node->span);
        else if (g)
            check_group(C, g, x->type, at_call(node, x->node));
        else
            check_value(C, x->name->text, x->type, schedule_field(x->name->text), at_call(node, x->node));
    }
}

/* s.warps, s.with_warps; of a chain the links .k and .warps. */
const Type *schedule_attribute(Check *C, const Cls *c, Sym attr, Ast *node)
{
    const char *s = attr->text;
    bool chain = strcmp(c->name->text, "Schedule") != 0;

    if (!strncmp(s, "__", 2) || (!chain && schedule_takes(s)))
        return T_ANY;
    if (chain ? schedule_takes(s) || schedule_name(schedule_shorts, s) : !strncmp(s, "with_", 5) && schedule_takes(s + 5)) {
        const Type *step = space_type(C, c->home->space, sym(chain ? "_Link" : "_With"));
        return !type_is_any(step) && step->kind == TY_CLASS ? type_instance(step->ref, NULL) : T_ANY;
    }
    unknown_field(C, !chain && !strncmp(s, "with_", 5) ? s + 5 : s, node->span, node->span);
    return T_ANY;
}

/* ------------------------------------------------------------- the schedule of a kernel, from its text */

static void set_field(Dim *size, ScheduleField f, const Type *t)
{
    if (!type_is_any(t) && t->kind == TY_INT && t->value != DIM_BAD)
        size[f] = t->value;
}

static void set_keyword(Dim *size, const char *name, const Type *t)
{
    const ScheduleName *g = schedule_name(schedule_groups, name);

    if (!g && schedule_field(name) < SCHED_COUNT)
        set_field(size, schedule_field(name), t);
    for (int i = 0; g && i <= g->last - g->first; i++)
        if (t->kind == TY_INT)
            set_field(size, (ScheduleField)(g->first + i), t);
        else if (t->kind == TY_TUPLE && i < t->n)
            set_field(size, (ScheduleField)(g->first + i), t->item[i]);
}

/* Schedule(...) written where it is used, or in a variable that one statement binds. */
static const AstCall *written_schedule(Check *C, Ast *e)
{
    const AstName *n = AST_AS(e, Name);
    const Type *made;

    if (AST_IS(e, Name) && n->bind == BIND_GLOBAL && (int)n->slot < C->home->nglob && C->home->from[n->slot]) {
        const Local *l = scope_local(C->home->scope, n->id);
        e = l && l->nbinds == 1 ? C->home->from[n->slot] : NULL;
    }
    made = AST_IS(e, Call) ? type_found(AST_AS(e, Call)->func) : NULL;
    return !type_is_any(made) && made->kind == TY_CLASS && is_schedule_class(made->ref) ? AST_AS(e, Call) : NULL;
}

void schedule_of(Check *C, const AstFunctionDef *def, Dim *size)
{
    for (int i = 0; i < def->decorators.n; i++) {
        AstCall *d = AST_AS(def->decorators.at[i], Call);
        const AstCall *s;
        const char *name = decorator_name(def->decorators.at[i]);
        if (!kernel_decorator(def, def->decorators.at[i]) || !AST_IS(def->decorators.at[i], Call) || d->args.n != 1 ||
            !AST_IS(d->args.at[0], Arg) || (strcmp(name, "schedule") && strcmp(name, "with_schedule")))
            continue;
        s = written_schedule(C, AST_AS(d->args.at[0], Arg)->value);
        for (int k = 0; s && k < s->args.n; k++) {
            const AstArg *a = AST_AS(s->args.at[k], Arg);
            if (a->ast.kind == AST_Arg && a->name && !a->stars && type_found(a->value))
                set_keyword(size, a->name->text, type_found(a->value));
        }
    }
}

/* ------------------------------------------------------------- kernels on the host */

const Type *kernel_type(const Type *fn)
{
    return type_transform(TRANSFORM_KERNEL, fn);
}

bool type_is_kernel(const Type *t)
{
    return !type_is_any(t) && t->kind == TY_TRANSFORM && (t->value & 255) == TRANSFORM_KERNEL && t->ref;
}

const Type *kernel_member(Check *C, const Type *t, Sym attr, Ast *node)
{
    const Type *cls, *m;

    if (!strcmp(attr->text, "launch"))
        return type_transform(TRANSFORM_LAUNCH, t);
    if (!strcmp(attr->text, "with_schedule"))
        return type_transform(TRANSFORM_RESCHEDULE, t);
    cls = space_type(C, space_builtin("kernels"), sym("Kernel"));
    if (type_is_any(cls) || cls->kind != TY_CLASS)
        return T_ANY;
    m = cls_attribute(C, cls->ref, type_instance(cls->ref, NULL), attr, node);
    return m ? m : T_ANY;
}

/* Is the i-th size of a launch written as a number? */
static bool size_written(const Ast *e, int i)
{
    AstSeq in;

    e = AST_IS(e, Arg) ? AST_AS(e, Arg)->value : e;
    in = AST_IS(e, Tuple) ? AST_AS(e, Tuple)->elts : AST_IS(e, List) ? AST_AS(e, List)->elts : (AstSeq){(Ast **)&e, 1};
    return i < in.n && AST_IS(in.at[i], Int);
}

/* grid=(g,) and block=(b,): positive ints, and a block of at most KERNEL_GROUP_MAX tiles. A grid may come to 0, but nobody writes 0. */
static void check_launch_size(Check *C, const CallArg *a, const char *name, Ast *node)
{
    const Type *t = a->type, *one[1] = {t};
    const Type *const *item = t->kind == TY_TUPLE || t->kind == TY_LIST ? t->item : one;
    int n = item == one ? 1 : t->n < 0 || (t->kind == TY_LIST && !t->exact) ? 0 : t->n;
    int64_t product = 1, v;
    char need[64];

    snprintf(need, sizeof need, "an int or a tuple of up to 3 ints from 1");
    if (n > 3 || (item == one && t->kind != TY_INT)) {
        REPORT(C, E0620, at_call(node, a->node), name, need, type_text(t));
        return;
    }
    for (int i = 0; i < n; i++) {
        char got[32];
        if (type_is_any(item[i]))
            return;
        if (item[i]->kind != TY_INT) {
            REPORT(C, E0620, at_call(node, a->node), name, need, type_text(item[i]));
            return;
        }
        if (item[i]->value == DIM_BAD || !dim_const_value(item[i]->value, &v))
            return;
        snprintf(got, sizeof got, "%lld", (long long)v);
        if (v < 1 && (v < 0 || strcmp(name, "grid") != 0 || size_written(a->node, i))) {
            REPORT(C, E0620, at_call(node, a->node), name, need, got);
            return;
        }
        product = v > KERNEL_GROUP_MAX || product > KERNEL_GROUP_MAX ? KERNEL_GROUP_MAX + 1 : product * v;
    }
    if (!strcmp(name, "block") && product > KERNEL_GROUP_MAX) {
        snprintf(need, sizeof need, "at most %d tiles", KERNEL_GROUP_MAX);
        REPORT(C, E0620, at_call(node, a->node), name, need, "more");
    }
}

typedef struct { int i; } LaunchNames;

static const char *next_launch_name(void *state)
{
    static const char *const names[] = {"grid", "block"};
    int i = ((LaunchNames *)state)->i++;

    return i < 2 ? names[i] : NULL;
}

static const Type *launched(Check *C, const Type *t, CallArgs *a, Ast *node)
{
    int at = 0;

    for (int i = 0; i < a->n && !a->open; i++) {
        const CallArg *x = &a->at[i];
        const char *name = x->name ? x->name->text : at == 0 ? "grid" : at == 1 ? "block" : NULL;
        LaunchNames all = {0};
        at += !x->name;
        if (!name) {
            REPORT(C, E0903, at_call(node, x->node), "launch", "it takes grid and block");
            break;
        }
        if (strcmp(name, "grid") && strcmp(name, "block")) {
            Diag *d = REPORT(C, E0904, at_call(node, x->node), "launch", name);
            const char *near = closest_name(name, next_launch_name, &all);
            diag_help(d, near ? "did you mean '%s'?" : "a launch has a grid and a block%s", near ? near : "");
            continue;
        }
        if (!type_is_any(x->type) && x->type->kind != TY_NONE)
            check_launch_size(C, x, name, node);
    }
    return t;
}

const Type *kernel_used(Check *C, const Type *t, CallArgs *a, Ast *node)
{
    const Type *s = a->n ? a->at[0].type : NULL;

    switch (t->value & 255) {
    case TRANSFORM_LAUNCH:
        return launched(C, t->ref, a, node);
    case TRANSFORM_RESCHEDULE:
        if (s && (s->kind == TY_INT || s->kind == TY_STR || s->kind == TY_FLOAT || s->kind == TY_LIST || s->kind == TY_TENSOR))
            REPORT(C, E0906, at_call(node, a->at[0].node), "argument 'schedule' of with_schedule()", "Schedule", type_text(s));
        return t->ref;
    default:
        return call_type(C, t->ref, a, node);
    }
}
