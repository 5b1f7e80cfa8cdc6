/* `tessera build FILE`: check the program, run it, and keep what it exports. */
#include "tools/bundle/build.h"

#include "frontend/tensor/bind.h"
#include "runtime/cpu.h"
#include "runtime/gpu.h"
#include "tools/graphs.h"
#include "tools/program.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* The last part of a path without its ending, as a C identifier. */
char *build_name(const char *path)
{
    size_t n = strlen(path), from, end;
    StrBuf b = {0};
    char *text;

    while (n && path[n - 1] == '/')
        n--;
    for (from = n; from && path[from - 1] != '/'; from--)
        ;
    for (end = n; end > from && path[end - 1] != '.'; end--)
        ;
    end = end > from + 1 ? end - 1 : n;
    if (from < end && isdigit((unsigned char)path[from]))
        sb_putc(&b, '_');
    for (size_t i = from; i < end; i++)
        sb_putc(&b, isalnum((unsigned char)path[i]) ? path[i] : '_');
    text = strcpy(tsr_alloc(b.n + 1), sb_str(&b));
    sb_done(&b);
    return text;
}

/* Where the bundle goes: as -o says, else the program's name with .tsb. */
static char *folder_of(const Options *o)
{
    const char *file = o->operand[0], *given = o->value[OPT_output], *dot = strrchr(file, '.');
    StrBuf b = {0};
    char *text;

    if (given)
        sb_puts(&b, given);
    else
        sb_printf(&b, "%.*s.tsb", (int)(dot && !strchr(dot, '/') ? (size_t)(dot - file) : strlen(file)), file);
    while (b.n > 1 && b.s[b.n - 1] == '/')
        b.n--;
    text = memcpy(tsr_alloc(b.n + 1), sb_str(&b), b.n);
    text[b.n] = 0;
    sb_done(&b);
    return text;
}

/* "v3", "base,v3,v4", "native": the best that this machine runs. */
static bool read_target(Building *b, const char *text, StrBuf *err)
{
    static const char *const known[] = {"base", "v3", "v4"};

    for (size_t n; *text; text += n + (text[n] == ',')) {
        const char *found = NULL;
        n = strcspn(text, ",");
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strlen(known[i]) == n && !strncmp(known[i], text, n))
                found = known[i];
        if (n == 6 && !strncmp(text, "native", 6))
            found = cpu()->name;
        if (!found) {
            sb_printf(err, "--target takes base, v3, v4 and native, separated by commas, not '%.*s'", (int)n, text);
            return false;
        }
        for (int c = 0; c < b->ncpus; c++)
            found = found && !strcmp(b->cpu[c], found) ? NULL : found;
        if (found)
            b->cpu[b->ncpus++] = found;
    }
    return true;
}

/* ---- the program ---- */

typedef struct Job {
    Building *b;
    Program *p;
    Exports *out;
    bool last;                  /* the program does not run again */
    bool ok;
} Job;

/* The program has run: what did it export? */
static void collect(void *st, Interp *I)
{
    Job *j = st;

    j->ok = exports_of(I, VNONE, j->out, &j->p->sink);
    if (j->ok && !j->out->function.n) {
        AstSeq body = j->p->unit->module->body;
        diag_emit(&j->p->sink, E0813, body.n ? body.at[0]->span : j->p->unit->module->ast.span, NULL, 0);
        j->ok = false;
    }
    if (j->ok && j->last)
        j->ok = (!j->b->nmodels || variants_join(j->b, j->out - j->b->nmodels + 1)) && build_code(j->b, interp_trace(I));
}

static int build_program(const Options *o, Job *j)
{
    Program p;
    int code;

    if (!program_open(&p, o, stderr))
        return EXIT_MISTAKE;
    j->p = &p;
    p.after = collect;
    p.after_state = j;
    code = graphs_check_names(program_run_aside(&p, o));
    program_report(&p, o, stderr);
    program_done(&p);
    if (code == EXIT_OK && !j->ok)
        code = j->b->err.n ? complain(&j->b->err, EXIT_MISTAKE) : EXIT_MISTAKE;
    return code;
}

/* Once for each model, on which the program then is. */
static int build_variants(const Options *o, Building *b)
{
    Exports each[BUILD_ARCHS] = {0};
    int code = EXIT_OK;

    for (int i = 0; i < b->nmodels && code == EXIT_OK; i++) {
        Job job = {.b = b, .out = &each[i], .last = i == b->nmodels - 1};
        setenv("TESSERA_FAKE_DEVICE", b->model[i]->name, 1);
        code = build_program(o, &job);
    }
    for (int i = 0; i < b->nmodels; i++)
        exports_done(&each[i]);
    return code;
}

void building_done(Building *b)
{
    exports_done(&b->exports);
    for (int i = 0; i < b->file.n; i++) {
        tsr_free(b->file.at[i].path);
        sb_done(&b->file.at[i].bytes);
    }
    for (int i = 0; i < b->kernel.n; i++)
        tsr_free(b->kernel.at[i].key);
    vec_free(&b->file);
    vec_free(&b->kernel);
    chips_done(b);
    sb_done(&b->err);
}

/* The runtime part, with that for GPUs where there is code for them. */
static void put_library(Building *b)
{
    const char *s = b->nchips ? bundle_gpu_runtime : bundle_runtime, *end = b->nchips ? bundle_gpu_runtime_end : bundle_runtime_end;
    StrBuf path = {0};

    sb_printf(&path, "lib%s.so", b->name);
    sb_write(build_file(b, sb_str(&path)), s, (size_t)(end - s));
    sb_done(&path);
}

void build_rest(Building *b)
{
    put_library(b);
    build_header(b);
    build_manifest(b);
}

int build_verb(const Options *o)
{
    Building b = {0};
    StrBuf err = {0};
    Job once = {.b = &b, .out = &b.exports, .last = true};
    char *folder, *name;
    int code;

    if (!read_target(&b, o->value[OPT_target] ? o->value[OPT_target] : "native", &err) ||
        (o->value[OPT_arch] && !variants_read(&b, o->value[OPT_arch], &err)) || (o->value[OPT_gpu] && !chips_read(&b, o->value[OPT_gpu], &err)))
        return complain(&err, EXIT_USAGE);
    folder = folder_of(o);
    b.debug = option_on(o, OPT_debug);
    if (b.debug && b.nchips) {
        sb_puts(&err, "--debug makes a bundle that runs op by op on the host, for which --gpu has no code: leave one of them out");
        return complain(&err, EXIT_USAGE);
    }
    b.name = name = build_name(folder);
    code = b.nmodels ? build_variants(o, &b) : build_program(o, &once);
    if (code == EXIT_OK) {
        build_rest(&b);
        if (!build_write(&b, folder, &err))
            code = complain(&err, EXIT_MISTAKE);
    }
    building_done(&b);
    tsr_free(folder);
    tsr_free(name);
    return code;
}
