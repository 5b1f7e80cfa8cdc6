/* Text to tree to names to types, then evaluation: the one order in which every verb does it. */
#include "tools/program.h"

#include "ir/graph/timed.h"
#include "ir/schedule/fused.h"
#include "ir/schedule/launched.h"

#include "frontend/eval/interp.h"
#include "frontend/tensor/memory.h"
#include "runtime/gpu_launch.h"
#include "runtime/kernels.h"
#include "runtime/storage.h"
#include "runtime/store.h"
#include "tools/load.h"
#include "tools/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int complain(StrBuf *err, int code)
{
    fprintf(stderr, "error: %s\n", sb_str(err));
    sb_done(err);
    return code;
}

bool program_parse(Program *p, const Source *src)
{
    *p = (Program){0};
    p->unit = unit_parse(src, &p->sink);
    return !p->sink.errors;
}

bool program_check(Program *p, const Source *src, CheckOptions opt)
{
    program_parse(p, src);
    p->globals = scope_new_module(sym("__main__"));
    if (!p->sink.errors) {                      /* unknown names do not keep types from being judged */
        scope_resolve(p->unit, p->globals, (ScopeOptions){0}, &p->sink);
        check_unit(p->unit, opt, &p->sink);
    }
    return !p->sink.errors;
}

void program_report(const Program *p, const Options *o, FILE *json)
{
    StrBuf out = {0};

    if (!p->sink.all.n)
        return;
    if (option_on(o, OPT_json))
        diag_render_json(&p->sink, &out);
    else
        diag_render(&p->sink, term_style(o, STDERR_FILENO), &out);
    fwrite(sb_str(&out), 1, out.n, option_on(o, OPT_json) ? json : stderr);
    sb_done(&out);
}

bool program_open(Program *p, const Options *o, FILE *json)
{
    StrBuf err = {0};
    const Source *src = load_program(o->operand[0], &err);

    if (!src)
        return complain(&err, false);
    if (program_check(p, src, (CheckOptions){0}))
        return true;
    program_report(p, o, json);
    program_done(p);
    return false;
}

/* TESSERA_PATH as a NULL-terminated list; one block to free, the texts in it included. */
static const char **module_path(void)
{
    const char *text = getenv("TESSERA_PATH");
    size_t n = text ? strlen(text) : 0, parts = 2;
    const char **list;
    char *copy;
    int k = 0;

    for (size_t i = 0; i < n; i++)
        parts += text[i] == ':';
    list = tsr_calloc(parts * sizeof *list + n + 1);
    copy = (char *)(list + parts);
    memcpy(copy, text ? text : "", n);
    while (*copy) {
        size_t len = strcspn(copy, ":");
        bool last = !copy[len];
        copy[len] = 0;
        if (len)
            list[k++] = copy;
        copy += len + !last;
    }
    return list;
}

/* What became of a pending exception: the program's own exit code, or 1 and a traceback. */
static int uncaught(Interp *I)
{
    bool interrupted = exc_matches(I, EXC_KeyboardInterrupt);
    Value exc = exc_take(I);
    int code = exc_exit_code(I, exc);
    StrBuf out = {0};

    fflush(stdout);
    if (code < 0) {
        exc_render(I, exc, &out);
        fputs(sb_str(&out), stderr);
        code = interrupted ? EXIT_INTERRUPTED : EXIT_MISTAKE;
    }
    sb_done(&out);
    value_unref(exc);
    return code;
}

/* Kernels of the program that a GPU was chosen for, and why the host did them. */
static void print_own_on_host(void)
{
    int n;
    const LaunchedOnHost *at = launched_on_host(&n);

    for (int i = 0; i < n; i++)
        fprintf(stderr, "stats: gpu on-the-host kernel %s=%lld: %s\n", at[i].name, (long long)at[i].times, at[i].why);
}

static void print_on_host(void)
{
    bool any = false;

    for (int op = 0; op < OP_COUNT; op++)
        if (trace_on_host[op]) {
            fprintf(stderr, "%s %s=%lld", any ? "" : "stats: gpu on-the-host", op_info[op].name, (long long)trace_on_host[op]);
            any = true;
        }
    if (any)
        fputc('\n', stderr);
    print_own_on_host();
}

/* What tensors held at most of each GPU that the program used, and what the pool has of the driver. */
static void print_gpu_memory(void)
{
    for (int i = 0; i < gpu_count(); i++) {
        GpuMemory m = gpu_look(i) ? gpu_memory(gpu_look(i)) : (GpuMemory){0};
        if (m.peak)
            fprintf(stderr, "stats: gpu:%d memory peak=%.1f held=%.1f MB blocks=%lld segments=%lld moved=%lld to-the-host=%lld\n", i,
                    (double)m.peak / 1e6, (double)(m.used + m.kept) / 1e6, (long long)m.blocks, (long long)m.segments,
                    (long long)m.shifted, (long long)m.moved);
    }
}

/* Of the whole program; nothing of what it did not use. */
static void print_kernel_stats(void)
{
    FusedStats f = fused_stats();
    LaunchedStats own = launched_stats();

    if (f.kernels)
        fprintf(stderr, "stats: kernels made=%d from-cache=%d milliseconds=%.1f launches=%d op-by-op=%d\n", f.kernels, store_found(),
                1e3 * f.seconds, f.launches, f.fallbacks);
    if (own.launches || own.interpreted)
        fprintf(stderr, "stats: own kernels made=%d refused=%d milliseconds=%.1f launches=%d by-oracle=%d\n", own.made, own.refused,
                1e3 * own.seconds, own.launches, own.interpreted);
    if (gpu_launches())
        fprintf(stderr, "stats: gpu launches=%lld graphs=%lld\n", (long long)gpu_launches(), (long long)gpu_graph_launches());
    print_gpu_memory();
    print_on_host();
}

/* --stats: the lines of tessera.dist.stats(), and of kernels. */
static void print_stats(Interp *I)
{
    Value m = import_module(I, "dist"), lines = is_err(m) ? VERR : value_call_method(I, m, sym("stats"), NULL, 0);

    interp_flush(I);
    if (is_err(lines))
        exc_clear(I);
    for (int64_t i = 0; lines.tag == V_LIST && i < as_list(lines)->n; i++)
        fprintf(stderr, "stats: %s\n", as_str(as_list(lines)->at[i])->s);
    value_unref(lines);
    value_unref(m);
    print_kernel_stats();
}

static void print_times(Interp *I)
{
    StrBuf s = {0};

    interp_flush(I);
    timed_print(&s);
    fputs(sb_str(&s), stderr);
    sb_done(&s);
    timed_on = false;
}

/* stdlib/profiling.tsr makes tables and files of what was recorded. false: an exception is pending. */
static bool finish_profile(Interp *I, const Options *o)
{
    const char *file[] = {o->value[OPT_trace], o->value[OPT_flame], o->value[OPT_memory_timeline]};
    Value m = import_module(I, "profiling"), args[4], done;

    for (int i = 0; i < 3; i++)
        args[i] = file[i] ? str_new(file[i], strlen(file[i])) : VNONE;
    args[3] = vbool(option_on(o, OPT_nvtx));
    done = is_err(m) ? VERR : value_call_method(I, m, sym("finish"), args, 4);
    for (int i = 0; i < 3; i++)
        value_unref(args[i]);
    value_unref(m);
    value_unref(done);
    return !is_err(done);
}

int program_run(Program *p, const Options *o, int argc, char **argv)
{
    const char **path = module_path();
    InterpOptions io = {.argc = argc, .argv = argv, .path = path, .trace_shapes = option_on(o, OPT_trace_shapes),
                        .trace_fold = option_on(o, OPT_trace_fold), .trace_rng = option_on(o, OPT_rng),
                        .trace_memory = option_on(o, OPT_trace_memory), .stats = option_on(o, OPT_stats),
                        .why_compile = o->verb == VERB_why_compile, .guard_numerics = option_on(o, OPT_guard_numerics),
                        .debug = option_on(o, OPT_debug), .fast = mode_is_fast(o), .profile = o->verb == VERB_prof,
                        .autotune_trace = o->value[OPT_autotune_trace],
                        .staged = p->staged, .staged_state = p->staged_state};
    if (option_on(o, OPT_memory_limit) && !quantity_of_bytes(o->value[OPT_memory_limit], &io.memory_limit)) {
        fprintf(stderr, "error: --memory-limit takes a size such as 64MB, not '%s'\n", o->value[OPT_memory_limit]);
        tsr_free(path);
        return EXIT_USAGE;
    }
    storage_limit((size_t)io.memory_limit);
    Interp *I;
    int code = EXIT_OK;

    pool_init((int)o->number[OPT_threads]);
    timed_on = option_on(o, OPT_trace_kernels);
    I = interp_new(&io);
    if (!interp_run_unit(I, p->unit, sym("__main__")) || (!gpu_finish() && is_err(fault_raise(I, VNONE))))
        code = uncaught(I);
    else if (o->verb == VERB_prof && !finish_profile(I, o))
        code = uncaught(I);
    else if (p->after)
        p->after(p->after_state, I);
    if (option_on(o, OPT_stats))
        print_stats(I);
    if (timed_on)
        print_times(I);
    interp_flush(I);
    interp_free(I);
    tsr_free(path);
    return code;
}

void program_done(Program *p)
{
    diag_sink_done(&p->sink);
    if (p->globals)
        scope_free_module(p->globals);
    if (p->unit)
        unit_free(p->unit);
    *p = (Program){0};
}

int program_run_aside(Program *p, const Options *o)
{
    int out, code;

    fflush(stdout);
    out = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    code = program_run(p, o, o->noperands, o->operand);
    fflush(stdout);
    if (out >= 0) {
        dup2(out, STDOUT_FILENO);
        close(out);
    }
    return code;
}

int program_write_error(void)
{
    return interp_write_error();
}
