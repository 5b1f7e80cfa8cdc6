/*
 * driver.c - what each verb does.
 *
 * A program goes text -> syntax tree -> names -> types -> evaluation; each step
 * reports into one DiagSink, and the first that finds an error ends the way with
 * exit code 1.  The program's own output is standard output; everything that
 * Tessera says about it goes to standard error.
 */
#include "driver.h"

#include "base/interrupt.h"
#ifdef TSR_LLVM
#include "codegen/compiler.h"
#include "codegen/llvm.h"
#include "tools/bundle/verbs.h"
#endif
#include "ir/schedule/fused.h"
#include "ir/schedule/launched.h"
#include "ir/schedule/lowered.h"
#include "ir/schedule/schedule.h"
#include "runtime/cuda.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"
#include "runtime/store.h"
#include "tools/cache.h"
#include "tools/doctor.h"
#include "tools/explain.h"
#include "tools/fix.h"
#include "tools/graphs.h"
#include "tools/inspect.h"
#include "tools/lint.h"
#include "tools/load.h"
#include "tools/options.h"
#include "tools/plugin.h"
#include "tools/launches.h"
#include "tools/moves.h"
#include "tools/program.h"
#include "tools/repl/repl.h"
#include "tools/version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static int print(StrBuf *out)
{
    fwrite(out->s, 1, out->n, stdout);
    sb_done(out);
    return EXIT_OK;
}

/* ------------------------------------------------------------- verbs */

static void put_version(StrBuf *out)
{
    sb_printf(out, "%s (git %s), ", TESSERA_VERSION, TESSERA_COMMIT);
#ifdef TSR_LLVM
    llvm_describe(out);
#else
    sb_puts(out, "without LLVM");
#endif
}

static int do_version(const Options *o)
{
    StrBuf out = {0};

    sb_puts(&out, "tessera ");
    put_version(&out);
    sb_putc(&out, '\n');
    return print(&out);
}

static int do_doctor(const Options *o)
{
    StrBuf version = {0}, out = {0};

    put_version(&version);
    doctor(o, sb_str(&version), &out);
    sb_done(&version);
    return print(&out);
}

static int do_help(const Options *o)
{
    StrBuf out = {0}, err = {0};

    if (!o->noperands)
        help_overview(&out);
    else if (!help_topic(o->operand[0], &out, &err))
        return complain(&err, EXIT_USAGE);
    return print(&out);
}

static int do_explain(const Options *o)
{
    StrBuf out = {0}, err = {0};

    if (!o->noperands)
        explain_list(&out);
    for (int i = 0; i < o->noperands; i++) {
        if (i)
            sb_putc(&out, '\n');
        if (!explain_code(o->operand[i], &out, &err)) {
            print(&out);
            return complain(&err, EXIT_MISTAKE);
        }
    }
    return print(&out);
}

/* The graphs of a program, which runs for it, on standard output; of a text of graphs these. */
static int inspect_graphs(const Options *o)
{
    StrBuf err = {0};

#ifdef TSR_LLVM
    if (o->noperands && is_bundle(o->operand[0]))
        return bundle_inspect_verb(o);
#endif
    if (!o->noperands) {
        sb_puts(&err, "a file is missing: tessera inspect --ir graph FILE");
        return complain(&err, EXIT_USAGE);
    }
    if (option_on(o, OPT_moves))
        return moves_of_program(o);
    if (option_on(o, OPT_hierarchy) || option_on(o, OPT_access))
        return launches_of_program(o);
    if (!option_on(o, OPT_ir) && !option_on(o, OPT_lowering) && !option_on(o, OPT_passes)) {
        sb_printf(&err, "what of '%s'? --ir graph prints the graphs of its staged functions", o->operand[0]);
        return complain(&err, EXIT_USAGE);
    }
    return graphs_of_program(o);
}

static int do_bundle(const Options *o)
{
    StrBuf err = {0};

    if (strcmp(o->operand[0], "info")) {
        sb_printf(&err, "'%s' is nothing that is done with bundles: tessera bundle info FOLDER", o->operand[0]);
        return complain(&err, EXIT_USAGE);
    }
#ifdef TSR_LLVM
    Options of = *o;
    of.operand++;
    of.noperands--;
    return bundle_inspect_verb(&of);
#else
    sb_puts(&err, "this Tessera was built without a compiler, and has no bundles");
    return complain(&err, EXIT_MISTAKE);
#endif
}

static int do_inspect(const Options *o)
{
    StrBuf out = {0}, err = {0};

    if (option_on(o, OPT_passes) && !o->noperands)
        graphs_list_passes(&out);
    else if (option_on(o, OPT_ir) || option_on(o, OPT_lowering) || option_on(o, OPT_hierarchy) || option_on(o, OPT_access) ||
             option_on(o, OPT_moves) || o->noperands)
        return inspect_graphs(o);
    else if (!o->value[OPT_op])
        inspect_list(&out);
    else if (!inspect_op(o->value[OPT_op], &out, &err))
        return complain(&err, EXIT_MISTAKE);
    return print(&out);
}

/* Texts of any level, read and printed. */
static int do_ir(const Options *o) { return graphs_of_text(o); }

static int do_opt(const Options *o)
{
    StrBuf out = {0};

    if (!option_on(o, OPT_passes))
        return graphs_of_text(o);
    graphs_list_passes(&out);
    return print(&out);
}

/* What --dump-ast and --print-ast print. */
static void print_tree(const Options *o, const Program *p)
{
    StrBuf out = {0};

    if (option_on(o, OPT_dump_ast))
        ast_dump(&p->unit->module->ast, &out);
    if (option_on(o, OPT_print_ast))
        ast_print(&p->unit->module->ast, &out);
    print(&out);
}

static int check_file(const Options *o, const char *path)
{
    StrBuf err = {0};
    const Source *src = option_on(o, OPT_fix) ? fix_program(path, o, &err) : load_program(path, &err);
    StrBuf shapes = {0}, effects = {0};
    Program p;
    bool ok;

    if (!src)
        return complain(&err, EXIT_MISTAKE);
    if (option_on(o, OPT_dump_ast) || option_on(o, OPT_print_ast)) {
        ok = program_parse(&p, src);
        print_tree(o, &p);
    } else {
        ok = program_check(&p, src, (CheckOptions){.shapes = option_on(o, OPT_shapes) ? &shapes : NULL,
                                                    .effects = option_on(o, OPT_effects) ? &effects : NULL});
        print(&shapes);
        print(&effects);
    }
    program_report(&p, o, stdout);
    program_done(&p);
    sb_done(&err);
    return ok ? EXIT_OK : EXIT_MISTAKE;
}

static int do_check(const Options *o)
{
    int code = EXIT_OK;

    for (int i = 0; i < o->noperands; i++)
        if (check_file(o, o->operand[i]) != EXIT_OK)
            code = EXIT_MISTAKE;
    return code;
}

/* The program's argv: its file (-c for -e CODE), then what followed. */
static char **program_arguments(const Options *o, int *argc)
{
    static char no_file[] = "-c";
    int shift = option_on(o, OPT_eval);
    char **argv = tsr_calloc(sizeof *argv * (size_t)(o->noperands + shift + 1));

    if (shift)
        argv[0] = no_file;
    for (int i = 0; i < o->noperands; i++)
        argv[i + shift] = o->operand[i];
    *argc = o->noperands + shift;
    return argv;
}

/* Check a text, then run it. */
static int run_source(const Options *o, const Source *src, int argc, char **argv)
{
    Program p;
    bool ok = program_check(&p, src, (CheckOptions){0});
    int result = EXIT_MISTAKE;

    program_report(&p, o, stderr);
    if (ok)
        result = graphs_check_names(program_run(&p, o, argc, argv));
    program_done(&p);
    return result;
}

/* One looks for its device itself. */
static bool runs_bundle(const Options *o)
{
#ifdef TSR_LLVM
    return o->verb == VERB_run && !o->value[OPT_eval] && is_bundle(o->operand[0]);
#else
    return false;
#endif
}

static int do_run(const Options *o)
{
    const char *code = o->value[OPT_eval];
    int argc, result;
    char **argv = program_arguments(o, &argc);
    StrBuf err = {0};
    const Source *src;

#ifdef TSR_LLVM
    if (runs_bundle(o)) {
        tsr_free(argv);
        return bundle_run_verb(o);
    }
#endif
    src = code ? load_text("<code>", code, strlen(code), &err) : load_program(o->operand[0], &err);
    result = src ? run_source(o, src, argc, argv) : complain(&err, EXIT_MISTAKE);
    sb_done(&err);
    tsr_free(argv);
    return result;
}

/* As do_tune. */
static int do_devices(const Options *o)
{
    static const char code[] = "import sys, devices\ndevices.command(sys.argv)\n";
    static char memory[] = "--memory";
    char *argv[] = {memory};
    StrBuf err = {0};

    return run_source(o, load_text("<devices>", code, sizeof code - 1, &err), option_on(o, OPT_memory), argv);
}

/* The verb is a function of the library; its arguments are the file of records, then the operands. */
static int do_tune(const Options *o)
{
    static const char code[] = "import sys, tuning\ntuning.command(sys.argv)\n";
    StrBuf records = {0}, err = {0};
    char *argv[3];
    int result;

    sb_printf(&records, "%s", o->value[OPT_records] ? o->value[OPT_records] : "");
    argv[0] = records.s;
    for (int i = 0; i < o->noperands; i++)
        argv[i + 1] = o->operand[i];
    result = run_source(o, load_text("<tune>", code, sizeof code - 1, &err), o->noperands + 1, argv);
    sb_done(&records);
    return result;
}

static int do_build(const Options *o)
{
#ifdef TSR_LLVM
    return build_verb(o);
#else
    fputs("error: this Tessera is built without a compiler, which bundles are made by\n", stderr);
    return EXIT_MISTAKE;
#endif
}

static int do_cache(const Options *o)
{
    StrBuf out = {0}, err = {0};
    int code = cache_verb(o, &out, &err);

    return err.n ? complain(&err, code) : print(&out);
}

static int (*const verb_fn[VERB_COUNT])(const Options *) = {
    [VERB_run] = do_run,
    [VERB_bundle] = do_bundle,
    [VERB_prof] = do_run,
    [VERB_build] = do_build,
    [VERB_why_compile] = do_run,
    [VERB_check] = do_check,
    [VERB_repl] = repl_run,
    [VERB_inspect] = do_inspect,
    [VERB_lint] = lint_program,
    [VERB_opt] = do_opt,
    [VERB_ir] = do_ir,
    [VERB_devices] = do_devices,
    [VERB_cache] = do_cache,
    [VERB_tune] = do_tune,
    [VERB_doctor] = do_doctor,
    [VERB_explain] = do_explain,
    [VERB_help] = do_help,
    [VERB_version] = do_version,
};

/* Which passes of the compiler run, and what is looked at behind each. */
static void choose_passes(const Options *o)
{
    const char *verify = getenv("TESSERA_VERIFY");

    if (o->value[OPT_no_pass])
        passes_off(o->value[OPT_no_pass]);
    passes_shown = o->value[OPT_dump_after];
    passes_verify = verify && *verify && strcmp(verify, "0");
}

#ifdef TSR_LLVM
static bool object_for(const TileKernel *k, const char *cpu, StrBuf *object, StrBuf *err)
{
    return compile_object(k, machine_find(cpu), object, err);
}

static bool gpu_code_for(const TileKernel *k, const char *machine, GpuFrame *frame, StrBuf *image, StrBuf *err)
{
    const Machine *m = machine_find(machine);

    return m ? compile_ptx(k, m, false, frame, image, err) : compile_stand_in(k, frame, image, err);
}
#endif

/* What runs staged functions. Without a compiler in this build, auto and cpu are eval. */
static void choose_backend(const char *name, const char *level)
{
    if (!strcmp(name, "oracle"))
        fused_begin(NULL, false);
    fused_oracle = tile_exec;
    steps_begin();
#ifdef TSR_LLVM
    if (!strcmp(name, "auto") || !strcmp(name, "cpu"))
        fused_begin(&cpu_compiler, !strcmp(name, "auto"));
    if (!strcmp(name, "auto") || !strcmp(name, "cpu"))
        launched_begin(&cpu_compiler, !strcmp(name, "auto"));
    lowered_assemble = compile_assembly;
    gpu_kernels_begin();
    if (level)
        compile_level(atoi(level));
    build_object = object_for;
    build_gpu_code = gpu_code_for;
    bundles_begin();
#endif
}

/* What --ir target shows. false: nobody knows it. */
static bool choose_machine(const char *name)
{
#ifdef TSR_LLVM
    const Machine *m = name ? machine_find(name) : NULL;

    compile_shown(m);
    lowered_for_gpu = m && machine_is_gpu(m);
    return m || !name;
#else
    return true;
#endif
}

/* Where new tensors are made. false: there is no such device; that is said. */
static bool choose_device(const char *name)
{
    int device = 0;

    if (name && !device_named(name, &device)) {
        const char *why = *cuda_reason() ? cuda_reason() : "tessera devices lists those that there are";
        fprintf(stderr, "error: there is no device '%s' here: %s\n", name, why);
        return false;
    }
    if (device)
        device_enter(device);
    return true;
}

/* A byte, as a number; anything else is not asked for. */
static void fill_memory(const char *text)
{
    char *end;
    long byte = text && *text ? strtol(text, &end, 10) : -1;

    if (byte >= 0 && byte <= 255 && !*end)
        storage_fill((int)byte);
}

/* Results that depend on more than the program and its inputs are announced. */
static void announce_mode(const Options *o)
{
    if (mode_is_fast(o))
        fprintf(stderr, "mode %s: compiled code may reassociate and contract sums%s; results may differ between machines and versions\n",
                o->value[OPT_mode], strcmp(o->value[OPT_mode], "fast-math") ? ", in the order in which parts come" : "");
}

static int do_verb(const Options *o)
{
    StrBuf out = {0};

    if (option_on(o, OPT_version))
        return do_version(o);
    if (option_on(o, OPT_help) && o->verb != VERB_help) {
        help_verb(o->verb, &out);
        return print(&out);
    }
    if (o->number[OPT_sim_devices] > DEVICES_MAX) {
        fprintf(stderr, "error: --sim-devices takes at most %d\n", DEVICES_MAX);
        return EXIT_USAGE;
    }
    devices_simulate((int)o->number[OPT_sim_devices]);
    gpus_offer();
    cache_begin();
    fill_memory(getenv("TESSERA_FILL"));
    schedule_turns = &schedule_rows_in_turn;
    fused_make = schedule_make;
    fused_turns = getenv("TESSERA_TURNS") ? (int32_t)strtol(getenv("TESSERA_TURNS"), NULL, 10) & 0xffff : 0;
    choose_passes(o);
    if (o->value[OPT_plugin] && !plugins_load(o->value[OPT_plugin], &out))
        return complain(&out, EXIT_USAGE);
    choose_backend(o->value[OPT_backend] ? o->value[OPT_backend] : "auto", o->value[OPT_opt_level]);
    if (!choose_machine(o->value[OPT_machine])) {
        fprintf(stderr, "error: --machine takes base, v3, v4, sm_80 and sm_90a, not '%s'\n", o->value[OPT_machine]);
        return EXIT_USAGE;
    }
    if (!runs_bundle(o) && !choose_device(o->value[OPT_device]))
        return EXIT_MISTAKE;
    announce_mode(o);
    return verb_fn[o->verb](o);
}

/* ------------------------------------------------------------- the process */

/* A result that could not be written is a failure, also when only the last flush tells. */
static int close_stdout(int code)
{
    if (!fflush(stdout) && !ferror(stdout))
        return code;
    fprintf(stderr, "error: cannot write to standard output: %s\n", strerror(program_write_error() ? program_write_error() : errno));
    return code ? code : EXIT_MISTAKE;
}

static int out_of_memory(void)
{
    static const char text[] = "error: out of memory; use smaller tensors, or free what is no longer needed\n";

    fflush(stdout);
    return write(STDERR_FILENO, text, sizeof text - 1) < 0 ? EXIT_USAGE : EXIT_MISTAKE;
}

int driver_main(int argc, char **argv)
{
    static Options o;
    static jmp_buf recovery;
    StrBuf err = {0};
    int code;

    tsr_heap_begin();
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);       /* too large a file is an OSError */
    interrupt_catch();
    if (setjmp(recovery))
        return out_of_memory();
    tsr_oom_set(&recovery);
    environment_check(environ, &err);
    fputs(sb_str(&err), stderr);
    sb_clear(&err);
    if (!options_parse(argc, argv, &o, &err)) {
        code = complain(&err, EXIT_USAGE);
    } else {
        sb_done(&err);
        code = do_verb(&o);
        store_done();
    }
    options_done(&o);
    return close_stdout(code);
}
