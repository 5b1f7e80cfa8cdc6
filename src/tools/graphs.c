/*
 * Graphs on the command line.
 *
 * `inspect --ir LEVEL FILE` runs the program and prints each graph that one of
 * its functions becomes, in that order, when the program is over (lowered.h).  Standard output holds
 * nothing else, so that the text can be read back: what the program prints goes to standard error.
 * `opt FILE` reads such a text, which may hold several graphs.  Both run the passes that --pass names.
 */
#include "tools/graphs.h"

#include "base/sym.h"
#include "ir/graph/graph.h"
#include "ir/graph/plan.h"
#include "runtime/kernels.h"
#include "tools/load.h"
#include "tools/lowered.h"
#include "tools/program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef Vec(Graph *) Graphs;

static int complain(StrBuf *err, int code)
{
    fprintf(stderr, "error: %s\n", sb_str(err));
    sb_done(err);
    return code;
}

/* ------------------------------------------------------------- passes */

static const char *next_pass(void *state)
{
    const PassInfo **p = state;

    return (*p)->name ? (*p)++->name : NULL;
}

void graphs_list_passes(StrBuf *out)
{
    for (const PassInfo *p = graph_pass; p->name; p++)
        sb_printf(out, "%-10s %-4s %s\n", p->name, p->when == PASS_STAGED ? "on" : "", p->help);
}

/* The pass named by n bytes of a list; NULL: *err names what was meant. */
static const PassInfo *find_pass(const char *name, size_t n, StrBuf *err)
{
    const PassInfo *first = graph_pass, *p = graph_pass_find(sym_n(name, n)->text);
    const char *near;

    if (p)
        return p;
    near = closest_name(sym_n(name, n)->text, next_pass, &first);
    sb_printf(err, "there is no pass '%.*s'; ", (int)n, name);
    if (near)
        sb_printf(err, "did you mean '%s'?", near);
    else
        sb_puts(err, "--passes lists them");
    return NULL;
}

/* false: a pass is unknown, or left a graph that breaks a rule. */
static bool run_passes(Graph *g, const char *names, StrBuf *err)
{
    for (size_t n; names && *names; names += n + (names[n] == ',')) {
        const PassInfo *p;
        n = strcspn(names, ",");
        if (!(p = find_pass(names, n, err)))
            return false;
        p->run(g);
        if (!graph_verify(g, err)) {
            sb_printf(err, " (after the pass %s)", p->name);
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------- output */

static void put_plan(const Graph *g, StrBuf *out)
{
    Plan *p = graph_plan(g);

    plan_print(p, out);
    plan_free(p);
}

static bool print_graphs(const Options *o, Graphs *all, StrBuf *err)
{
    const char *level = o->value[OPT_ir] ? o->value[OPT_ir] : "graph";
    StrBuf out = {0};
    bool ok = true;

    for (int i = 0; ok && i < all->n; i++) {
        ok = run_passes(all->at[i], o->value[OPT_pass], err) && lowered_print(all->at[i], level, &out, err);
        if (ok && option_on(o, OPT_plan))
            put_plan(all->at[i], &out);
    }
    fwrite(sb_str(&out), 1, out.n, stdout);
    sb_done(&out);
    return ok;
}

static void drop_graphs(Graphs *all)
{
    for (int i = 0; i < all->n; i++)
        graph_unref(all->at[i]);
    vec_free(all);
}

/* ------------------------------------------------------------- a program's */

static void keep_graph(void *st, const Graph *g)
{
    Graphs *all = st;

    vec_push(all, graph_clone(g));
}

/* Run it with standard output going where standard error goes. */
static int run_aside(Program *p, const Options *o)
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

int graphs_of_program(const Options *o)
{
    StrBuf err = {0};
    Graphs all = {0};
    const Source *src = load_program(o->operand[0], &err);
    Program p;
    int code = EXIT_MISTAKE;

    if (!src)
        return complain(&err, EXIT_MISTAKE);
    if (program_check(&p, src, (CheckOptions){0})) {
        program_report(&p, o, stderr);
        p.staged = keep_graph;
        p.staged_state = &all;
        code = run_aside(&p, o);
        if (!print_graphs(o, &all, &err))
            code = complain(&err, EXIT_MISTAKE);
        else if (code == EXIT_OK && !all.n)
            fprintf(stderr, "note: no function was staged; @jit stages one when it is called\n");
    } else
        program_report(&p, o, stderr);
    drop_graphs(&all);
    program_done(&p);
    sb_done(&err);
    return code;
}

/* ------------------------------------------------------------- as text */

/* Each graph begins with a line "tessera.graph v1". */
static bool read_graphs(const Source *src, Graphs *all, StrBuf *err)
{
    static const char head[] = "\ntessera.graph v";
    const char *at = src->text, *next;

    for (; at; at = next) {
        const char *first = strncmp(at, head + 1, sizeof head - 2) ? strstr(at, head) : at;
        StrBuf why = {0};
        Graph *g;
        next = first ? strstr(first + 1, head) : NULL;
        next = next ? next + 1 : NULL;
        g = graph_parse(at, next ? (size_t)(next - at) : strlen(at), &why);
        if (!g && all->n)
            sb_printf(err, "graph %d of the file, ", all->n + 1);
        sb_puts(err, sb_str(&why));
        sb_done(&why);
        if (!g)
            return false;
        vec_push(all, g);
    }
    return true;
}

int graphs_of_text(const Options *o)
{
    StrBuf err = {0};
    Graphs all = {0};
    const Source *src = load_program(o->operand[0], &err);
    bool ok = src && read_graphs(src, &all, &err) && print_graphs(o, &all, &err);

    drop_graphs(&all);
    if (!ok)
        return complain(&err, EXIT_MISTAKE);
    sb_done(&err);
    return EXIT_OK;
}
