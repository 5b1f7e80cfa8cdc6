/*
 * Graphs and kernels on the command line.
 *
 * `inspect --ir LEVEL FILE` runs the program and prints each graph that one of
 * its functions becomes, in that order, when the program is over (lowered.h).  Standard output holds
 * nothing else, so that the text can be read back: what the program prints goes to standard error.
 * `opt FILE` reads such a text of any level but the last, which may hold several graphs or kernels.  Both run the passes
 * that --pass names.
 */
#include "tools/graphs.h"

#include "base/sym.h"
#include "frontend/kernel/launch.h"
#include "ir/graph/graph.h"
#include "ir/graph/plan.h"
#include "ir/schedule/lowered.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/steps.h"
#include "runtime/kernels.h"
#include "tools/load.h"
#include "tools/program.h"
#include "tools/schedule_text.h"

#include <stdio.h>
#include <string.h>

/* A graph at its level, a kernel, or a text: the schedule of a launch, what a kernel becomes. */
typedef struct Piece { IrLevel level; Graph *g; TileKernel *k; char *text; } Piece;
typedef Vec(Piece) Pieces;

/* ------------------------------------------------------------- passes */

/* Names of all passes, by level: what is listed, and what a mistyped one is compared with. */
typedef struct PassRow { const char *name, *level, *when, *help; } PassRow;

static const PassRow below[] = {
    {"apart", "graph", "on", "reductions over different axes compute what they need for themselves"},
    {"recompute", "graph", "on", "the second half of a graph computes again what is cheaper to compute than to keep"},
    {"memory", "graph", "on", "values are in memory until their last use, and results take the place of what ends there"},
    {"offload", "graph", "on", "what a full GPU has not used for longest is on the host until it is used again"},
    {"capture", "graph", "on", "what a staged function launched on a GPU is one launch when it is called again"},
    {"branches", "graph", "on", "what is launched so waits for what it needs, and not for all before it"},
    {"fuse", "schedule", "on", "nodes that share an iteration space become one kernel"},
    {"slices", "schedule", "on", "products of batches, and what follows them, go slice after slice through the second cache"},
    {"turns", "schedule", "on", "many rows that are gone over several times are done in turn, all passes side by side"},
#define PASS(name, function, help) {"tile." #name, "tile", "on", help},
#include "ir/tile/pass.def"
};

static bool pass_row(int i, PassRow *out)
{
    int n = 0, m = (int)(sizeof below / sizeof *below);
    const char *what;

    while (graph_pass[n].name)
        n++;
    if (i < n)
        *out = (PassRow){graph_pass[i].name, "graph", graph_pass[i].when == PASS_STAGED ? "on" : "", graph_pass[i].help};
    else if (i < n + m)
        *out = below[i - n];
    else if ((out->name = pass_declared(i - n - m, &what)))
        *out = (PassRow){out->name, "", "on", what};
    else
        return false;
    return true;
}

static const char *next_pass(void *state)
{
    PassRow row;

    return pass_row((*(int *)state)++, &row) ? row.name : NULL;
}

void graphs_list_passes(StrBuf *out)
{
    PassRow p;

    for (int i = 0; pass_row(i, &p); i++)
        if (*p.level)
            sb_printf(out, "%-12s %-3s %-9s %s\n", p.name, p.when, p.level, p.help);
        else
            sb_printf(out, "%-12s %-3s %s\n", p.name, p.when, p.help);
}

static bool no_such_pass(const char *name, const char *level, StrBuf *err)
{
    int first = 0;
    const char *near = closest_name(name, next_pass, &first);

    sb_printf(err, "there is no pass '%s'%s%s; ", name, *level ? " over " : "", level);
    if (near && strcmp(near, name))
        sb_printf(err, "did you mean '%s'?", near);
    else
        sb_puts(err, "--passes lists them");
    return false;
}

int graphs_check_names(int code)
{
    StrBuf err = {0};
    const char *name;

    for (int i = 0; (name = pass_unknown(i)); i++) {
        PassRow row;
        int k = 0;
        while (pass_row(k, &row) && strcmp(row.name, name))
            k++;
        if (row.name)
            continue;
        (void)no_such_pass(name, "", &err);
        fprintf(stderr, "error: --no-pass: %s\n", sb_str(&err));
        sb_clear(&err);
        code = code == EXIT_OK ? EXIT_MISTAKE : code;
    }
    sb_done(&err);
    return code;
}

static Graph *recompute(Graph *g) { return schedule_recompute(g); }

static Graph *slices(Graph *g)
{
    (void)schedule_slices(g);
    return NULL;
}

/* Passes that take a graph of one level and make a new one, NULL where there is nothing to do or the graph itself was changed. */
static const struct { const char *name; Graph *(*run)(Graph *g); IrLevel takes, makes; } makers[] = {
    {"apart", schedule_apart, LEVEL_GRAPH, LEVEL_GRAPH},
    {"recompute", recompute, LEVEL_GRAPH, LEVEL_GRAPH},
    {"fuse", schedule_fuse, LEVEL_GRAPH, LEVEL_SCHEDULE},
    {"slices", slices, LEVEL_SCHEDULE, LEVEL_SCHEDULE},
};

/* false: there is no such pass. */
static bool make_graph(Piece *x, const char *name)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        Graph *made;
        if (strcmp(makers[i].name, name) || makers[i].takes != x->level)
            continue;
        x->level = makers[i].makes;
        if ((made = makers[i].run(x->g))) {
            graph_unref(x->g);
            x->g = made;
        }
        return true;
    }
    return false;
}

static bool graph_one_pass(Piece *x, const char *name, StrBuf *err)
{
    const PassInfo *p = graph_pass_find(name);

    if (p)
        graph_pass_run(p, x->g);
    else if (!make_graph(x, name))
        return no_such_pass(name, x->level == LEVEL_GRAPH ? "graphs" : "schedules", err);
    return graph_verify(x->g, err);
}

static bool one_pass(Piece *x, const char *name, StrBuf *err)
{
    TilePass run;

    if (x->g)
        return graph_one_pass(x, name, err);
    if (!(run = tile_pass_find(strncmp(name, "tile.", 5) ? name : name + 5)))
        return no_such_pass(name, "kernels", err);
    run(x->k);
    return tile_verify(x->k, err);
}

/* false: a pass is unknown, or left IR that breaks a rule. */
static bool run_passes(Piece *x, const char *names, StrBuf *err)
{
    for (size_t n; names && *names; names += n + (names[n] == ',')) {
        Sym name;
        n = strcspn(names, ",");
        name = sym_n(names, n);
        if (!one_pass(x, name->text, err)) {
            if (strncmp(sb_str(err), "there is no pass", 16))
                sb_printf(err, " (after the pass %s)", name->text);
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

static void put_section(const char *name, StrBuf *out) { sb_printf(out, "# ---- %s ----\n", name); }

/* The graph on every level, each under a line that names it; assembly where a machine is named. */
static bool print_lowering(const Options *o, Graph *g, StrBuf *out, StrBuf *err)
{
    for (IrLevel level = LEVEL_GRAPH; level < LEVEL_TARGET + (o->value[OPT_machine] != NULL); level++) {
        put_section(level_name[level], out);
        if (!lowered_print(g, level, out, err))
            return false;
    }
    return true;
}

static bool print_piece(const Options *o, const Piece *x, StrBuf *out, StrBuf *err)
{
    IrLevel level = x->level;

    if (x->text) {
        sb_puts(out, x->text);
        return true;
    }
    if (x->g && option_on(o, OPT_lowering))
        return print_lowering(o, x->g, out, err);
    if (x->k && option_on(o, OPT_lowering)) {           /* keep_lowered has the levels before */
        put_section(level_name[LEVEL_TARGET], out);
        return lowered_print_kernel(x->k, LEVEL_TARGET, out, err);
    }
    if (o->value[OPT_ir] && !level_find(o->value[OPT_ir], &level))
        return false;
    if (level < x->level) {
        sb_printf(err, "a text of the level %s is not raised to %s again", level_name[x->level], level_name[level]);
        return false;
    }
    if (x->g)
        return lowered_print(x->g, level, out, err);
    return lowered_print_kernel(x->k, level, out, err);
}

static bool print_pieces(const Options *o, Pieces *all, StrBuf *err)
{
    StrBuf out = {0};
    bool ok = true;

    for (int i = 0; ok && i < all->n; i++) {
        ok = (all->at[i].text || run_passes(&all->at[i], o->value[OPT_pass], err)) && print_piece(o, &all->at[i], &out, err);
        if (ok && option_on(o, OPT_plan) && all->at[i].g)
            put_plan(all->at[i].g, &out);
    }
    fwrite(sb_str(&out), 1, out.n, stdout);
    sb_done(&out);
    return ok;
}

static void drop_pieces(Pieces *all)
{
    for (int i = 0; i < all->n; i++) {
        graph_unref(all->at[i].g);
        if (all->at[i].k)
            tile_kernel_free(all->at[i].k);
        tsr_free(all->at[i].text);
    }
    vec_free(all);
}

/* ------------------------------------------------------------- a program's */

static void keep_graph(void *st, const Graph *g)
{
    Pieces *all = st;

    vec_push(all, ((Piece){.level = LEVEL_GRAPH, .g = graph_clone(g)}));
}

/* A kernel of the program's own is kept as its text says it. */
static void keep_kernel(void *st, const TileKernel *k)
{
    Pieces *all = st;
    StrBuf text = {0}, err = {0};
    TileKernel *copy;

    tile_print(k, &text);
    copy = tile_parse(sb_str(&text), text.n, &err);
    if (copy)
        vec_push(all, ((Piece){.level = LEVEL_TILE, .k = copy}));
    sb_done(&text);
    sb_done(&err);
}

static char *copied(const char *text)
{
    size_t n = strlen(text);
    char *copy = tsr_calloc(n + 1);

    memcpy(copy, text, n);
    return copy;
}

/* Schedules of launches are kept once each. */
static void keep_schedule(void *st, const char *text)
{
    Pieces *all = st;

    for (int i = 0; i < all->n; i++)
        if (all->at[i].text && !strcmp(all->at[i].text, text))
            return;
    vec_push(all, ((Piece){.level = LEVEL_SCHEDULE, .text = copied(text)}));
}

/* ------------------------------------------------------------- a kernel's lowering */

/* The lines of the program's text that the kernel's code comes from, of the file that its first op is of. */
typedef struct Lines { const Source *src; uint32_t first, last; } Lines;

static void lines_of(const TileBlock *b, Lines *y)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        Place at = n->span.hi ? source_place(n->span.lo) : (Place){0};
        if (at.src && (!y->src || at.src == y->src)) {
            y->first = y->src && y->first < at.line ? y->first : at.line;
            y->last = y->src && y->last > at.line ? y->last : at.line;
            y->src = at.src;
        }
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                lines_of(n->region[r], y);
    }
}

/* Its source and its tile IR, each op with its line; the schedule stands before (keep_lowered_schedule), the target behind. */
static void keep_lowered(void *st, const TileKernel *k)
{
    StrBuf text = {0};
    Lines l = {0};

    lines_of(&k->body, &l);
    put_section("source", &text);
    for (uint32_t i = l.first; l.src && i <= l.last; i++) {
        uint32_t n;
        const char *line = source_line(l.src, i, &n);
        sb_printf(&text, "# %s:%u  %.*s\n", l.src->path, i, (int)n, line);
    }
    put_section(level_name[LEVEL_TILE], &text);
    tile_print_placed(k, &text);
    vec_push((Pieces *)st, ((Piece){.level = LEVEL_TILE, .text = copied(sb_str(&text))}));
    sb_done(&text);
}

static void keep_lowered_to_target(void *st, const TileKernel *k)
{
    keep_lowered(st, k);
    keep_kernel(st, k);
}

static void keep_lowered_schedule(void *st, const char *text)
{
    StrBuf s = {0};

    put_section(level_name[LEVEL_SCHEDULE], &s);
    sb_puts(&s, text);
    keep_schedule(st, sb_str(&s));
    sb_done(&s);
}

/* ------------------------------------------------------------- running it */

/* What launches of the program's kernels tell. */
static void listen(const Options *o, IrLevel level, Pieces *all)
{
    bool lowering = option_on(o, OPT_lowering);

    kernel_made = lowering ? (o->value[OPT_machine] ? keep_lowered_to_target : keep_lowered) : level >= LEVEL_TILE ? keep_kernel : NULL;
    kernel_scheduled = lowering ? keep_lowered_schedule : level == LEVEL_SCHEDULE ? keep_schedule : NULL;
    kernel_made_state = all;
}

/* Kernels are on the level of tiles from the start; the level before has their schedules. */
static IrLevel wanted_level(const Options *o)
{
    IrLevel level = LEVEL_GRAPH;

    return o->value[OPT_ir] && level_find(o->value[OPT_ir], &level) ? level : LEVEL_GRAPH;
}

int graphs_of_program(const Options *o)
{
    StrBuf err = {0}, list = {0};
    Pieces all = {0};
    Program p;
    int code;

    if (!program_open(&p, o, stderr))
        return EXIT_MISTAKE;
    program_report(&p, o, stderr);
    p.staged = keep_graph;
    p.staged_state = &all;
    listen(o, wanted_level(o), &all);
    code = program_run_aside(&p, o);
    kernel_made = NULL;
    kernel_scheduled = NULL;
    code = graphs_check_names(code);
    if (option_on(o, OPT_passes)) {
        graphs_list_passes(&list);
        fputs(sb_str(&list), stdout);
    } else if (!print_pieces(o, &all, &err))
        code = complain(&err, EXIT_MISTAKE);
    else if (code == EXIT_OK && !all.n)
        fprintf(stderr, "note: no function was staged; @jit stages one when it is called\n");
    drop_pieces(&all);
    program_done(&p);
    sb_done(&list);
    sb_done(&err);
    return code;
}

/* ------------------------------------------------------------- as text */

/* The schedule of a launch, one line. */
static bool read_launch(const char *at, size_t n, Pieces *all, StrBuf *err)
{
    StrBuf text = {0};
    bool ok = schedule_text_read(at, n, &text, err);

    if (ok)
        vec_push(all, ((Piece){.level = LEVEL_SCHEDULE, .text = copied(sb_str(&text))}));
    sb_done(&text);
    return ok;
}

/* One piece, whose first line at `head` says what it is: "tessera.graph v1 ...", "tessera.tile v1 ...". */
static bool read_piece(const char *at, const char *head, size_t n, Pieces *all, StrBuf *err)
{
    Piece x = {LEVEL_GRAPH, NULL, NULL};
    StrBuf why = {0};

    if (!strncmp(head, SCHEDULE_HEAD, strlen(SCHEDULE_HEAD)))
        return read_launch(head, n - (size_t)(head - at), all, err);
    if (!strncmp(head, "tessera.tile ", 13)) {
        x.level = LEVEL_TILE;
        x.k = tile_parse(at, n, &why);
    } else {
        x.level = strncmp(head, "tessera.schedule ", 17) ? LEVEL_GRAPH : LEVEL_SCHEDULE;
        x.g = graph_parse(at, n, &why);
    }
    if (x.g || x.k)
        vec_push(all, x);
    else if (all->n)
        sb_printf(err, "%s %d of the file, ", x.level == LEVEL_TILE ? "kernel" : "graph", all->n + 1);
    sb_puts(err, sb_str(&why));
    sb_done(&why);
    return x.g || x.k;
}

/* Where the next piece begins, at a line's start; NULL: there is none. */
static const char *next_head(const char *at, bool here)
{
    static const char *const heads[] = {"\ntessera.", "\n" SCHEDULE_HEAD};
    const char *first = NULL;

    for (int i = 0; i < 2; i++) {
        const char *found = strstr(at, heads[i]);
        if (here && !strncmp(at, heads[i] + 1, strlen(heads[i]) - 1))
            return at;
        if (found && (!first || found < first))
            first = found;
    }
    return first ? first + 1 : NULL;
}

/* What stands above the first piece is read with it, so that lines count from the file's first. */
static bool read_pieces(const Source *src, Pieces *all, StrBuf *err)
{
    const char *at = src->text, *head = next_head(at, true);

    if (!head)
        head = at;
    for (const char *next; head; at = head = next) {
        next = next_head(head, false);
        if (!read_piece(at, head, next ? (size_t)(next - at) : strlen(at), all, err))
            return false;
    }
    return true;
}

int graphs_of_text(const Options *o)
{
    StrBuf err = {0};
    Pieces all = {0};
    const Source *src = load_program(o->operand[0], &err);
    bool ok = src && read_pieces(src, &all, &err) && print_pieces(o, &all, &err);

    drop_pieces(&all);
    if (!ok)
        return complain(&err, EXIT_MISTAKE);
    sb_done(&err);
    return EXIT_OK;
}
