/*
 * One kernel: its parameters as places in memory, the names and sizes that its
 * schedule gives, and what Python has that a kernel has not.
 *
 * A size that the text of the schedule tells is that number.  Otherwise it is a
 * variable of its own: BM and BN may differ, and BM may turn out to be 64.
 */
#include "frontend/check/kernels.h"

#include "frontend/eval/native.h"

#include <string.h>

const KernelPlace kernel_places[] = {
    [MEM_TENSOR] = {MEM_TENSOR, "global memory"},
    [MEM_TILE] = {MEM_TILE, "a tile"},
    [MEM_SHARED] = {MEM_SHARED, "shared memory"},
    [MEM_REGISTER] = {MEM_REGISTER, "registers"},
};

/* ------------------------------------------------------------- sizes */

Dim kernel_unknown(void)
{
    return dim_var(sym("?"), -(INT64_C(1) << 40), INT64_MAX);
}

Dim kernel_field(const Check *C, ScheduleField f)
{
    Dim d = C->kernel->size[f];

    return d == DIM_BAD ? kernel_unknown() : d;
}

const Type *kernel_name(Check *C, Sym name)
{
    const ScheduleName *n = schedule_name(schedule_implicit, name->text);

    if (n)
        return type_int(kernel_field(C, (ScheduleField)n->first));
    for (int i = SCHED_block_m; i <= SCHED_block_d; i++)
        if (!strcmp(schedule_fields[i].name, name->text))
            return type_int(C->kernel->offset[i - SCHED_block_m]);
    return NULL;
}

/* The schedule as its text gives it; the rest are variables under the names that the kernel sees. */
static void set_sizes(Check *C, Kernel *k, const AstFunctionDef *def)
{
    for (int i = 0; i < SCHED_COUNT; i++)
        k->size[i] = DIM_BAD;
    schedule_of(C, def, k->size);
    for (const ScheduleName *n = schedule_implicit; n->name; n++)
        if (k->size[n->first] == DIM_BAD)
            k->size[n->first] = dim_var(sym(n->name), 1, INT64_MAX);
    for (int i = 0; i < 4; i++)
        k->offset[i] = dim_var(sym("?"), 0, INT64_MAX);
}

const Type *kernel_fresh(const Type *t)
{
    return t && t->kind == TY_INT && t->value == DIM_BAD ? type_int(kernel_unknown()) : t;
}

/* m = -INF, then m = max(m, x[i]): an element's dtype, of two numbers the wider kind. */
static const Type *join_scalars(const Type *a, const Type *b)
{
    const Type *element = a->kind == TY_TENSOR ? a : b, *number = a->kind == TY_TENSOR ? b : a;

    if (element->kind != TY_TENSOR)
        return a->kind == TY_FLOAT || b->kind == TY_FLOAT ? type_of_kind(TY_FLOAT) : type_int(kernel_unknown());
    if (number->kind == TY_FLOAT && element->tensor->dtype != DT_NONE && dtype_is_int((DType)element->tensor->dtype))
        return kernel_block(DT_NONE, 0, NULL);
    return kernel_value(element);
}

const Type *kernel_join(const Type *a, const Type *b)
{
    if (!type_is_any(a) && !type_is_any(b) && a->kind != b->kind && kernel_is_scalar(a) && kernel_is_scalar(b))
        return join_scalars(a, b);
    return kernel_fresh(type_join(a, b));
}

/* ------------------------------------------------------------- tile.context(), groups, fragments */

typedef struct { Check *C; int i; } Members;

static const char *next_member(void *state)
{
    Members *m = state;
    const DimNames *dims = &m->C->kernel->fn->sig.dims;
    int i = m->i++, shorts = 0;

    if (i < dims->n)
        return dims->at[i].name->text;
    i -= dims->n;
    while (schedule_shorts[shorts].name)
        shorts++;
    if (i < shorts)
        return schedule_shorts[i].name;
    return i - shorts < SCHED_COUNT ? schedule_fields[i - shorts].name : NULL;
}

static const Type *context_attribute(Check *C, Sym attr, Ast *node)
{
    const DimNames *dims = &C->kernel->fn->sig.dims;
    const ScheduleName *n = schedule_name(schedule_shorts, attr->text);
    Members m = {C, 0};
    const char *near;
    ScheduleField f;
    Diag *d;

    for (int i = 0; i < dims->n; i++)
        if (dims->at[i].name == attr)
            return type_int(dims->at[i].dim);
    f = n ? (ScheduleField)n->first : schedule_field(attr->text);
    if (f < SCHED_COUNT)
        return schedule_fields[f].kind == SCHED_WORD ? type_str(NULL) : type_int(kernel_field(C, f));
    d = REPORT(C, E0619, node->span, attr->text);
    near = closest_name(attr->text, next_member, &m);
    if (near)
        diag_help(d, "did you mean '%s'?", near);
    return T_ANY;
}

const Type *kernel_attribute(Check *C, const Type *t, Sym attr, Ast *node)
{
    const NativeDef *d;

    if (t->value == KT_CONTEXT)
        return C->kernel ? context_attribute(C, attr, node) : T_ANY;
    d = t->value == KT_GROUP ? native_find("CooperativeGroup", attr->text) : NULL;
    if (d)
        return type_method(t, type_ref(TY_NATIVE, d));
    if (t->value == KT_GROUP)
        diag_help(REPORT(C, E0910, node->span, "a cooperative group", attr->text), "group.reduce(x, op=\"sum\") reduces over it");
    return T_ANY;
}

/* ------------------------------------------------------------- what may not stand in a kernel */

static const char *forbidden(const Ast *s)
{
    switch (s->kind) {
    case AST_Try: return "try";
    case AST_With: return "with";
    case AST_ClassDef: return "class";
    case AST_FunctionDef: return "def";
    case AST_Raise: return "raise";
    case AST_Import: case AST_ImportFrom: return "import";
    case AST_Global: return "global";
    case AST_Nonlocal: return "nonlocal";
    case AST_Del: return "del";
    case AST_On: return "on";
    default: return NULL;
    }
}

/* What no tile can hold: it would have to be made anew by each. */
static const char *forbidden_value(const Ast *e)
{
    switch (e->kind) {
    case AST_Dict: case AST_DictComp: return "dict";
    case AST_Set: case AST_SetComp: return "set";
    case AST_FString: return "f-string";
    case AST_Lambda: return "lambda";
    case AST_Bytes: return "bytes";
    case AST_Imag: return "complex";
    case AST_Yield: case AST_YieldFrom: return "yield";
    case AST_Await: return "await";
    default: return NULL;
    }
}

static bool report_values(Ast *e, void *state);

/* What print() is given: f-strings are its own, what stands in them is not. */
static bool in_print(Ast *e, void *state)
{
    return e->kind == AST_FString || e->kind == AST_Arg || e->kind == AST_Hole ? ast_walk(e, in_print, state) : report_values(e, state);
}

static bool is_print(const Ast *e)
{
    const Ast *f = AST_IS(e, Call) ? AST_AS(e, Call)->func : NULL;

    return AST_IS(f, Name) && !strcmp(AST_AS(f, Name)->id->text, "print");
}

/* Those of one statement, without the statements in it. */
static bool report_values(Ast *e, void *state)
{
    Check *C = state;
    const char *word = forbidden_value(e);

    if (ast_info[e->kind].category == CAT_STMT)
        return true;
    if (word && e->kind == AST_Lambda)
        diag_help(REPORT(C, E0618, e->span, word), "a function of the module does that, and kernels may be passed one");
    else if (word)
        REPORT(C, E0618, e->span, word);
    else
        ast_walk(e, is_print(e) ? in_print : report_values, C);
    return true;
}

/* ---- loops that nobody leaves ---- */

typedef struct Round { Map names; bool leaves, changes; int loops; } Round;

static bool find_names(Ast *n, void *state)
{
    Round *r = state;

    switch (n ? n->kind : AST_Const) {
    case AST_Name: map_set(&r->names, (uintptr_t)AST_AS(n, Name)->id, 1); break;
    case AST_Const: case AST_Int: case AST_Float: case AST_Compare: case AST_CompareItem: case AST_BoolOp: case AST_BinOp: case AST_UnaryOp: break;
    default: r->changes = true;                         /* memory, calls, what is assigned in it: it may become another */
    }
    return !n || ast_walk(n, find_names, r);
}

/* Is what n assigns among the names? Items of lists and memory are none that a test of names alone looks at. */
static void target_of(Round *r, const Ast *t)
{
    AstSeq e = AST_IS(t, Tuple) ? AST_AS(t, Tuple)->elts : AST_IS(t, List) ? AST_AS(t, List)->elts : (AstSeq){0};

    if (AST_IS(t, Name))
        r->changes |= map_find(&r->names, (uintptr_t)AST_AS(t, Name)->id, NULL);
    for (int i = 0; i < e.n; i++)
        target_of(r, e.at[i]);
}

static bool in_round(Ast *n, void *state)
{
    Round *r = state;
    bool loop = n && (n->kind == AST_For || n->kind == AST_While);

    if (!n || r->leaves || r->changes)
        return true;
    switch (n->kind) {
    case AST_Return: r->leaves = true; break;
    case AST_Break: r->leaves = !r->loops; break;
    case AST_Assign:
        for (int i = 0; i < AST_AS(n, Assign)->targets.n; i++)
            target_of(r, AST_AS(n, Assign)->targets.at[i]);
        break;
    case AST_AugAssign: target_of(r, AST_AS(n, AugAssign)->target); break;
    case AST_AnnAssign: target_of(r, AST_AS(n, AnnAssign)->target); break;
    case AST_NamedExpr: target_of(r, AST_AS(n, NamedExpr)->target); break;
    case AST_For: target_of(r, AST_AS(n, For)->target); break;
    case AST_Match: r->changes = true; break;           /* names in patterns */
    default: break;
    }
    r->loops += loop;
    ast_walk(n, in_round, r);
    r->loops -= loop;
    return true;
}

static bool never(const Ast *test)
{
    return (AST_IS(test, Const) && AST_AS(test, Const)->value != CONST_TRUE) || (AST_IS(test, Int) && !AST_AS(test, Int)->value);
}

/* No tile that is in this loop gets out: the test looks at what no round changes, and nothing leaves. */
static void endless(Check *C, AstWhile *s)
{
    Round r = {0};

    find_names(s->test, &r);
    for (int i = 0; i < s->body.n; i++)
        in_round(s->body.at[i], &r);
    if (!r.changes && !r.leaves && !never(s->test)) {
        Diag *d = REPORT(C, E0626, s->test->span, NULL);
        diag_help(d, r.names.n ? "change in the loop what its test looks at, or leave by break" : "leave it by break or return");
    }
    map_done(&r.names);
}

void kernel_statement(Check *C, Ast *s)
{
    const char *word = C->frame->fn == C->kernel->fn ? forbidden(s) : NULL;

    if (C->frame->fn == C->kernel->fn && s->kind == AST_While)
        endless(C, AST_AS(s, While));
    if (word)
        REPORT(C, E0618, s->span, word);
    else if (C->frame->fn == C->kernel->fn && s->kind != AST_Assert)    /* what it says, the host does */
        ast_walk(s, report_values, C);
}

/* An element, a block value, or a list or tuple with some. */
static bool of_tensors(const Type *t)
{
    bool any = !type_is_any(t) && t->kind == TY_TENSOR;

    for (int i = 0; !any && !type_is_any(t) && (t->kind == TY_LIST || t->kind == TY_TUPLE) && i < (t->n < 0 ? 1 : t->n); i++)
        any = !type_is_any(t->item[i]) && t->item[i]->kind == TY_TENSOR;
    return any;
}

bool kernel_host_call(Check *C, const NativeDef *d, const CallArgs *a, Ast *node)
{
    static const char *const files[] = {"open", "input"}, *const texts[] = {"str", "repr", "format", "sorted", "isinstance", "hash"};
    bool element = false;

    if (*d->owner)
        return false;
    for (int i = 0; i < a->n; i++)
        element |= of_tensors(a->at[i].type);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(files[i], d->name))
            return REPORT(C, E0618, node->span, d->name), true;
    for (size_t i = 0; element && i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(texts[i], d->name))
            return REPORT(C, E0618, node->span, d->name), true;
    return false;
}

/* Is it nothing that a place in memory takes? */
static bool is_no_number(const Type *t)
{
    return !type_is_any(t) && (t->kind == TY_NONE || t->kind == TY_STR || t->kind == TY_BYTES || (t->kind >= TY_LIST && t->kind <= TY_SET));
}

bool kernel_takes(Check *C, const Type *value, Ast *node)
{
    if (!is_no_number(value))
        return true;
    REPORT(C, E0906, node->span, "what a kernel stores", "a number, an element or a block value", type_text(value));
    return false;
}

void kernel_iterated(Check *C, const Type *t, Ast *iter)
{
    if (!type_is_any(t) && t->kind == TY_TENSOR)
        diag_help(REPORT(C, E0906, iter->span, "what a kernel loops over", "a range, a list or a tuple", type_text(t)),
                  "go through its places: for j in range(N), with x[j]");
}

bool kernel_list_grows(Check *C, const char *method, Ast *node)
{
    static const char *const names[] = {"append", "extend", "insert", "pop", "remove", "clear"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], method)) {
            diag_help(REPORT(C, E0618, node->span, method), "a list in a kernel has its length: make it with a comprehension, and store into it");
            return true;
        }
    return false;
}

void kernel_condition(Check *C, Ast *test)
{
    const Type *t = type_found(test);

    if (!type_is_any(t) && t->kind == TY_TENSOR && t->tensor->rank != RANK_UNKNOWN && t->tensor->rank > 0) {
        Diag *d = REPORT(C, E0617, test->span, shape_of(t->tensor));
        diag_help(d, "where(condition, a, b) chooses element by element");
    }
}

/* At module level it surely runs on the host; a function may be called from a kernel. */
void report_outside(Check *C, const KernelOp *op, Ast *node)
{
    if (C->frame->fn == NULL && C->frame->cls == NULL)
        REPORT(C, E0601, node->span, kernel_op_text(op));
}

/* ------------------------------------------------------------- the walk */

/* A parameter as the body sees it. */
static const Type *as_place(const AstParam *p, const Type *t, const KernelForm *form, bool *leads)
{
    static const Memory memory[] = {[KPARAM_TENSOR] = MEM_TENSOR, [KPARAM_TILE] = MEM_TILE, [KPARAM_REGION] = MEM_TENSOR};
    KernelParamKind kind = kernel_param_kind(p);

    if (kind == KPARAM_NUMBER)
        return kernel_fresh(t);
    if (kind == KPARAM_OTHER || type_is_any(t) || t->kind != TY_TENSOR)
        return t;
    if (kernel_param_leads(form, p) && t->tensor->rank > 2) {
        *leads = true;
        if (t->tensor->rank != RANK_UNKNOWN) {              /* a group sees its own matrix */
            TType own = *t->tensor;
            memmove(own.shape, own.shape + own.rank - 2, 2 * sizeof *own.shape);
            own.rank = 2;
            t = type_tensor(&own);
        }
    }
    return type_placed(t, &kernel_places[memory[kind]]);
}

static void check_shape_of_function(Check *C, AstFunctionDef *def)
{
    if (def->scope->is_async)
        REPORT(C, E0618, def->ast.span, "async");
}

void kernel_check(Check *C, Fn *f)
{
    AstFunctionDef *def = AST_AS(f->node, FunctionDef);
    Kernel k = {.fn = f}, *outer = C->kernel;
    const Type **given = arena_array(&C->arena, const Type *, f->scope->nslots + 1);
    bool known = true;
    KernelForm form;

    kernel_form(def, &form);
    check_shape_of_function(C, def);
    for (int i = 0; i < f->params.n; i++) {
        AstParam *p = AST_AS(f->params.at[i], Param);
        if (p->ast.kind == AST_Param && p->name && p->kind <= PARAM_KWARGS)
            given[p->slot] = as_place(p, f->sig.param[p->slot], &form, &k.leads);
        else
            known &= p->ast.kind != AST_Param || p->kind != PARAM_ANY;
    }
    if (!known)                                     /* def k(...): ... */
        return;
    set_sizes(C, &k, def);
    C->kernel = &k;
    fn_walk(C, f, given, NULL, f->sig.ret);
    kernel_barriers(C, def);
    C->kernel = outer;
    map_done(&k.allocated);
}
