/*
 * `inspect --hierarchy FILE` and `inspect --access FILE`: what the launches of a
 * program's kernels are.  The program runs, with its output on standard error;
 * launches that are alike are told once.
 */
#include "tools/launches.h"

#include "frontend/kernel/launch.h"
#include "ir/tile/count.h"
#include "tools/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WARP = 32 };

/* What was told, text after text: a launch whose text is there is told already. */
typedef struct Told { const Options *o; StrBuf text; } Told;

static void hierarchy(const KernelLaunch *l, StrBuf *out)
{
    int lanes = l->lanes < WARP ? l->lanes : WARP;

    sb_printf(out, "  Mesh        1 device\n  Device      %" PRId64 " tile group%s\n", l->groups, l->groups == 1 ? "" : "s");
    sb_printf(out, "  Tile Group  %d tile%s in %d warp%s\n  Tile        linear_id 0 .. %" PRId64 "\n", l->lanes, l->lanes == 1 ? "" : "s",
        (l->lanes + WARP - 1) / WARP, l->lanes <= WARP ? "" : "s", l->groups * l->lanes - 1);
    sb_printf(out, "  Lane        lane_id 0 .. %d\n", lanes - 1);
}

static void see_access(void *state, const TileNode *n, TileAccess a)
{
    StrBuf *out = state, line = {0};
    Place p = n->span.hi ? source_place(n->span.lo) : (Place){0};
    uint32_t len = 0;
    const char *text = p.src ? source_line(p.src, p.line, &len) : "";

    for (; len && *text == ' '; len--)
        text++;
    sb_printf(&line, "  %5u  %-9s  %.*s\n", p.line, tile_access_names[a], (int)len, text);
    if (!out->n || !strstr(sb_str(out), sb_str(&line)))
        sb_puts(out, sb_str(&line));
    sb_done(&line);
}

static void see_launch(void *state, const KernelLaunch *l)
{
    Told *t = state;
    StrBuf out = {0};

    sb_printf(&out, "kernel %s\n", l->name);
    if (option_on(t->o, OPT_hierarchy))
        hierarchy(l, &out);
    if (option_on(t->o, OPT_access)) {
        TileAccessSink sink = {see_access, &out};
        TileCount count;
        tile_count(l->k, l->size, l->arg, &sink, &count);
    }
    if (!t->text.n || !strstr(sb_str(&t->text), sb_str(&out)))
        sb_puts(&t->text, sb_str(&out));
    sb_done(&out);
}

int launches_of_program(const Options *o)
{
    Told told = {.o = o};
    Program p;
    int code;

    if (!program_open(&p, o, stderr))
        return EXIT_MISTAKE;
    program_report(&p, o, stderr);
    kernel_launched = see_launch;
    kernel_launched_state = &told;
    code = program_run_aside(&p, o);
    kernel_launched = NULL;
    fwrite(told.text.s, 1, told.text.n, stdout);
    if (code == EXIT_OK && !told.text.n)
        fprintf(stderr, "note: no kernel was launched\n");
    program_done(&p);
    sb_done(&told.text);
    return code;
}
