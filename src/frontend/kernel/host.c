/*
 * What stdlib/schedules.tsr and stdlib/kernels.tsr ask for: the schedule's table
 * as values, and the launch of a kernel.
 *
 * A launch on tensors that are traced becomes an op of the graph; under grad or
 * vmap that op says that it has no derivative of its own.
 */
#include "frontend/kernel/kernel.h"

#include "frontend/eval/native.h"
#include "frontend/eval/symint.h"
#include "frontend/eval/eval.h"
#include "frontend/kernel/launch.h"
#include "ir/graph/trace.h"

/* ------------------------------------------------------------- the table of schedules */

static void put(Value dict, const char *name, Value v)
{
    dict_set_sym(as_dict(dict), sym(name), v);
    value_unref(v);
}

static Value f_kinds(Interp *I, Value *a)
{
    static const char *const text[] = {[SCHED_SIZE] = "size", [SCHED_KIND_COUNT] = "count", [SCHED_WORD] = "word"};
    Value d = dict_new();

    for (int i = 0; i < SCHED_COUNT; i++)
        put(d, schedule_fields[i].name, str_c(text[schedule_fields[i].kind]));
    return d;
}

/* The fields from first to last, by name. */
static Value fields_between(int first, int last)
{
    Value t = tuple_new(last - first + 1);

    for (int i = first; i <= last; i++)
        as_tuple(t)->at[i - first] = str_c(schedule_fields[i].name);
    return t;
}

static Value f_names(Interp *I, Value *a)
{
    Value d = dict_new();

    for (int i = 0; i < SCHED_COUNT; i++)
        put(d, schedule_fields[i].name, fields_between(i, i));
    for (const ScheduleName *n = schedule_aliases; n->name; n++)
        put(d, n->name, fields_between(n->first, n->last));
    for (const ScheduleName *n = schedule_groups; n->name; n++)
        put(d, n->name, fields_between(n->first, n->last));
    return d;
}

static Value f_shorts(Interp *I, Value *a)
{
    Value d = dict_new();

    for (const ScheduleName *n = schedule_shorts; n->name; n++)
        put(d, n->name, str_c(schedule_fields[n->first].name));
    return d;
}

/* What kernels run with where nothing says more; None: it follows another field. */
static Value f_defaults(Interp *I, Value *a)
{
    Value d = dict_new();

    for (int i = 0; i < SCHED_COUNT; i++) {
        const ScheduleInfo *f = &schedule_fields[i];
        bool follows = i == SCHED_tile_m || i == SCHED_tile_n || i == SCHED_tile_k;
        put(d, f->name, f->kind == SCHED_WORD ? str_c("none") : follows ? VNONE : vint(f->dflt));
    }
    return d;
}

static Value f_nearest(Interp *I, Value *a)
{
    const char *near = a[0].tag == V_STR ? schedule_nearest(as_str(a[0])->s) : NULL;

    return near ? str_c(near) : VNONE;
}

/* ------------------------------------------------------------- launches */

/* args, kwargs, grid, block with numbers for what follows from sizes. */
static Value run_settled(Interp *I, const char *name, Value *a)
{
    Value own[4], y = VERR;
    bool ok = true;

    for (int i = 0; i < 4; i++)
        own[i] = value_ref(a[2 + i]);
    for (int i = 0; i < 4 && ok; i++)
        ok = symint_settle_inside(I, &own[i]);
    if (ok)
        y = kernel_launch(I, name, a[1], own[0], own[1], own[2], own[3], a[6]);
    for (int i = 0; i < 4; i++)
        value_unref(own[i]);
    return y;
}

static Value f_run(Interp *I, Value *a)                 /* name, function, args, kwargs, grid, block, schedule */
{
    const char *name = a[0].tag == V_STR ? as_str(a[0])->s : "kernel";

    if (kernel_traced(I, a[1], a[2], a[3]))
        return (interp_trace(I)->coded ? kernel_stage_coded : kernel_stage)(I, name, a[1], a[2], a[3], a[4], a[5], a[6]);
    return run_settled(I, name, a);
}

static Value f_count(Interp *I, Value *a)               /* name, function, args, kwargs, schedule */
{
    return kernel_count(I, a[0].tag == V_STR ? as_str(a[0])->s : "kernel", a[1], a[2], a[3], a[4]);
}

static Value f_written(Interp *I, Value *a)             /* name, function, schedule */
{
    return kernel_written(I, a[0].tag == V_STR ? as_str(a[0])->s : "kernel", a[1], a[2]);
}

/* What a kernel does with each of its parameters, as its text says: "read", "write", "readwrite". */
static Value f_touched(Interp *I, Value *a)             /* function */
{
    const Ast *def = a[0].tag == V_FUNC ? ((FuncObj *)a[0].o)->code->ast : NULL;
    Value y = list_new(8);
    KernelForm form;

    if (!AST_IS(def, FunctionDef))
        return y;
    kernel_form(AST_AS(def, FunctionDef), &form);
    for (int i = 0; i < form.n; i++)
        list_push(as_list(y), str_c(!form.param[i].written ? "read" : form.param[i].read ? "readwrite" : "write"));
    return y;
}

static Value f_takes_self(Interp *I, Value *a)          /* function */
{
    const Ast *def = a[0].tag == V_FUNC ? ((FuncObj *)a[0].o)->code->ast : NULL;
    AstSeq params = AST_IS(def, FunctionDef) ? AST_AS(def, FunctionDef)->params : (AstSeq){0};
    const AstParam *first = params.n && AST_IS(params.at[0], Param) ? AST_AS(params.at[0], Param) : NULL;

    return vbool(first && first->name && !strcmp(first->name->text, "self"));
}

static Value f_bounds(Interp *I, Value *a)              /* name, function, args, kwargs, schedule */
{
    if (kernel_traced(I, a[1], a[2], a[3]))
        return VNONE;
    return kernel_bounds(I, a[0].tag == V_STR ? as_str(a[0])->s : "kernel", a[1], a[2], a[3], a[4]);
}

static Value f_proved(Interp *I, Value *a)
{
    if (kernel_proved && a[0].tag == V_STR)
        kernel_proved(kernel_launched_state, as_str(a[0])->s);
    return VNONE;
}

/* Does somebody ask for the schedules of launches? note(text) tells. */
static Value f_watched(Interp *I, Value *a) { return vbool(kernel_scheduled != NULL); }

static Value f_note(Interp *I, Value *a)
{
    if (kernel_scheduled && a[0].tag == V_STR)
        kernel_scheduled(kernel_made_state, as_str(a[0])->s);
    return VNONE;
}

const NativeDef natives_kernel_host[] = {
    {"_schedule", "kinds", f_kinds, "()", "Each field of a schedule and what it takes."},
    {"_schedule", "names", f_names, "()", "Each keyword of Schedule(...) and the fields that it sets."},
    {"_schedule", "shorts", f_shorts, "()", "The short names of fields."},
    {"_schedule", "defaults", f_defaults, "()", "What kernels run with by default."},
    {"_schedule", "nearest", f_nearest, "(name)", "The keyword that was likely meant; None: none is near."},
    {"_kernel", "run", f_run, "(name, fn, args, kwargs, grid, block, schedule)", "Launch a kernel: (result, outputs, outputs by name)."},
    {"_kernel", "count", f_count, "(name, fn, args, kwargs, schedule)", "The work of one launch, by what it is: flops, bytes, ..."},
    {"_kernel", "written", f_written, "(name, fn, schedule)", "(dtype, shape) of each parameter, where annotations write all sizes out."},
    {"_kernel", "touched", f_touched, "(fn)", "Which privilege a kernel's text takes on each parameter."},
    {"_kernel", "takes_self", f_takes_self, "(fn)", "Is a kernel's first parameter the object whose method it is?"},
    {"_kernel", "bounds", f_bounds, "(name, fn, args, kwargs, schedule)", "The least and the largest that a launch may give, and whether it may give NaN; None: not known."},
    {"_kernel", "proved", f_proved, "(text)", "What was proved of a kernel's results."},
    {"_kernel", "watched", f_watched, "()", "Are the schedules of launches asked for?"},
    {"_kernel", "note", f_note, "(text)", "The schedule of a launch, as text."},
    {0},
};
