/*
 * The interpreter's beginning and end.
 *
 * Programs run on a stack of our own, large and lazily mapped, whatever the
 * process's stack limit is.  The Interp owns all classes, modules and units;
 * ending it drops them and collects what is left in cycles.
 */
#include "frontend/eval/tasks.h"

#include "frontend/prelude.h"

#include <errno.h>
#include <string.h>

static void name_syms(Interp *I)
{
    static const char *const names[D_COUNT] = {
#define DUNDER(id, text) [D_##id] = text,
#include "frontend/eval/dunder.def"
    };

    for (int i = 0; i < D_COUNT; i++)
        I->dunder_sym[i] = sym(names[i]);
    I->s_name = sym("__name__");
    I->s_dict = sym("__dict__");
    I->s_class = sym("__class__");
    I->s_bound_to = sym("_bound_to");
    I->s_doc = sym("__doc__");
    I->s_file = sym("__file__");
    I->s_args = sym("args");
    I->s_value = sym("value");
    I->s_match_args = sym("__match_args__");
    I->s_annotations = sym("__annotations__");
}

/* Room that natives may take on the process's stack before calls move to one of ours. */
enum { ROOT_ROOM = 128 << 10 };

Interp *interp_new(const InterpOptions *opt)
{
    Interp *I = tsr_calloc(sizeof *I);

    if (opt)
        I->opt = *opt;
    I->depth_limit = DEPTH_LIMIT;
    I->fiber = tsr_calloc(sizeof *I->fiber);
    I->stack_limit = (char *)__builtin_frame_address(0) - ROOT_ROOM;
    name_syms(I);
    I->class_version = 1;
    I->active = I->redirect[0] = I->redirect[1] = I->redirect[2] = VERR;
    I->modules = as_dict(dict_new());
    native_class(I, "object");
    exc_init(I);
    I->prelude = tsr_calloc((size_t)prelude_room() * sizeof *I->prelude);
    trace_init(&I->trace);
    I->trace.host = I;
    tensor_init(I);
    return I;
}

/* ------------------------------------------------------------- running */

typedef struct Job { Interp *I; bool (*fn)(Interp *, void *); void *arg; bool ok; } Job;

static void job_entry(void *arg)
{
    Job *j = arg;

    j->ok = j->fn(j->I, j->arg);
}

bool run_on_large_stack(Interp *I, void (*entry)(void *arg), void *arg)
{
    Fiber *cur = I->fiber, *g = fiber_new(FIBER_LARGE, entry, arg);
    char *limit = I->stack_limit;

    if (!g)
        return false;
    I->fiber = g;
    I->stack_limit = g->limit;
    fiber_resume(cur, g);
    I->fiber = cur;
    I->stack_limit = limit;
    fiber_free(g);
    return true;
}

/* Run fn on a large stack of our own, unless it is on one already. */
static bool on_big_stack(Interp *I, bool (*fn)(Interp *, void *), void *arg)
{
    Job j = {I, fn, arg, false};

    return !I->fiber->fn && run_on_large_stack(I, job_entry, &j) ? j.ok : fn(I, arg);
}

typedef struct { Unit *u; Sym name; Value *result; } RunArgs;

static bool run_unit(Interp *I, void *arg)
{
    RunArgs *a = arg;
    ModuleObj *m = module_new(I, a->name, a->u->src->path);

    if (I->main)
        obj_unref(I->main);
    I->main = m;
    dict_set_sym(I->modules, sym(a->u->src->path), vobj(m));
    return module_run(I, m, a->u);
}

bool interp_run_unit(Interp *I, Unit *u, Sym name)
{
    RunArgs a = {u, name, NULL};

    return on_big_stack(I, run_unit, &a);
}

static bool run_input(Interp *I, void *arg)
{
    RunArgs *a = arg;
    AstSeq *body = &a->u->module->body;
    const Ast *last = body->n ? body->at[body->n - 1] : NULL;
    bool shows = AST_IS(last, ExprStmt), ok;

    *a->result = VNONE;
    if (!I->main) {
        I->main = module_new(I, sym("__main__"), NULL);
        I->main->path = "<repl>";
    }
    body->n -= shows;
    ok = module_run(I, I->main, a->u);
    body->n += shows;
    if (ok && shows)
        *a->result = module_eval(I, I->main, a->u, AST_AS(last, ExprStmt)->value);
    return ok && !is_err(*a->result);
}

bool interp_run_input(Interp *I, Unit *u, Value *result)
{
    RunArgs a = {u, NULL, result};

    return on_big_stack(I, run_input, &a);
}

struct ModuleObj *interp_main(Interp *I)
{
    return I->main;
}

const InterpOptions *interp_options(Interp *I)
{
    return &I->opt;
}

int *interp_depth_limit(Interp *I)
{
    return &I->depth_limit;
}

unsigned interp_suspend(Interp *I, unsigned effects)
{
    unsigned was = I->suspended;

    I->suspended = effects;
    return was;
}

bool interp_may(Interp *I, unsigned effect, const char *what)
{
    if (!(I->suspended & effect))
        return true;
    raise(I, EXC_EffectError, "effect '%s' is suspended here: %s", effect == SUSPEND_IO ? "io" : "random", what);
    return false;
}

bool interp_may_touch(Interp *I, const char *what)
{
    if (!I->arms)
        return true;
    raise(I, EXC_TypeError, "E0541: %s stands in code that runs only where a condition on a staged tensor holds, and cannot be put back for "
          "the other branch; do it before or after the branch", what);
    return false;
}

/* ------------------------------------------------------------- output, position */

static int write_error;                         /* errno of the first write that failed */

static void note_failure(void)
{
    if (!write_error)
        write_error = errno;
}

void interp_write(Interp *I, const char *s, size_t n)
{
    (void)I;
    if (fwrite(s, 1, n, stdout) != n)
        note_failure();
}

Value *interp_redirect(Interp *I, int fd)
{
    return &I->redirect[fd];
}

void interp_flush(Interp *I)
{
    (void)I;
    if (fflush(stdout))
        note_failure();
}

int interp_write_error(void)
{
    return write_error;
}

Span interp_span(Interp *I)
{
    return I->frame && I->frame->at ? I->frame->at->span : (Span){0, 0};
}

void *interp_keep(Interp *I, Value v)
{
    if (!I->kept)
        I->kept = as_list(list_new(4));
    list_push(I->kept, value_ref(v));
    return v.o;
}

void interp_half_set(Interp *I, const Code *c, uint32_t slot, Span branch, Span at)
{
    for (int i = 0; i < I->half.n; i++)
        if (I->half.at[i].code == c && I->half.at[i].slot == slot) {
            I->half.at[i] = (HalfSet){c, slot, branch, at};
            return;
        }
    HalfSet h = {c, slot, branch, at};
    vec_push(&I->half, h);
}

bool interp_half_find(const Interp *I, const Code *c, uint32_t slot, Span *branch, Span *at)
{
    for (int i = 0; i < I->half.n; i++)
        if (I->half.at[i].code == c && I->half.at[i].slot == slot) {
            *branch = I->half.at[i].branch;
            *at = I->half.at[i].at;
            return true;
        }
    return false;
}

ReadLog *interp_reads(Interp *I)
{
    return I->reads;
}

ReadLog *interp_set_reads(Interp *I, ReadLog *log)
{
    ReadLog *old = I->reads;

    I->reads = log;
    return old;
}

struct Trace *interp_trace(Interp *I)
{
    return &I->trace;
}

/* ------------------------------------------------------------- the end */

static void drop_modules(Interp *I)
{
    int64_t pos = 0;
    Value k, v;

    while (dict_next(I->modules, &pos, &k, &v)) {
        ModuleObj *m = (ModuleObj *)v.o;
        for (int i = m->nslots; i-- > 0;) {
            Value old = m->slot[i];
            m->slot[i] = VERR;
            value_unref(old);
        }
    }
}

/* What programs made: modules, the library's values, the pending exception. */
static void drop_values(Interp *I)
{
    regions_drop(I);
    drop_modules(I);
    if (exc_pending(I))
        exc_clear(I);
    obj_unref(I->kept);
    I->kept = NULL;
    vec_free(&I->half);
    value_unref(I->handling);
    I->handling = VERR;
    for (int i = 0; i < 3; i++) {
        value_unref(I->redirect[i]);
        I->redirect[i] = VERR;
    }
    for (int i = 0; i < prelude_room(); i++) {
        Value old = I->prelude[i];
        I->prelude[i] = VERR;
        value_unref(old);
    }
    value_unref(I->no_arguments);
    value_unref(I->no_keywords);
    value_unref(I->graph_passes);
    value_unref(I->last_graph);
    for (int i = 0; i < WHOLE_COUNT; i++)
        obj_unref(I->whole[i].staged);
    I->no_arguments = I->no_keywords = VERR;
    obj_unref(I->main);
    obj_unref(I->modules);
    I->main = NULL;
    loop_free(I->tasks);
    I->tasks = NULL;
    heap_collect();             /* suspended generators end here, and that raises: the classes are still needed */
    heap_abandon(I);            /* as do those that only their own closures hold */
}

static void drop_classes(Interp *I)
{
    for (int i = 1; i < EXC_COUNT; i++)
        obj_unref(I->exc_class[i]);
    for (uint32_t i = 0; i < I->native_class.cap; i++)
        if (I->native_class.key[i])
            obj_unref((ClassObj *)I->native_class.val[i]);
    map_done(&I->native_class);
    heap_collect();
}

static void drop_code(Interp *I)
{
    for (int i = 0; i < I->constants.n; i++)
        value_unref(I->constants.at[i]);
    vec_free(&I->constants);
    vec_free(&I->units);
    for (int i = 0; i < I->scopes.n; i++)
        scope_free_module(I->scopes.at[i]);
    vec_free(&I->scopes);
    for (int i = 0; i < I->loaded.n; i++) {
        source_drop(I->loaded.at[i]->src);
        unit_free(I->loaded.at[i]);
    }
    vec_free(&I->loaded);
    arena_done(&I->library);
}

void interp_free(Interp *I)
{
    drop_values(I);
    tensor_done(I);
    trace_done(&I->trace);
    lib_done();
    drop_classes(I);
    interp_flush(I);
    fiber_pool_done();
    drop_code(I);
    heap_trim();
    tsr_free(I->prelude);
    tsr_free(I->fiber);
    tsr_free(I);
}
