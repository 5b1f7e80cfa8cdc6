/* Text to tree to names to types, then evaluation: the one order in which every verb does it. */
#include "tools/program.h"

#include "tools/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool program_check(Program *p, const Source *src)
{
    *p = (Program){0};
    p->unit = unit_parse(src, &p->sink);
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

void program_done(Program *p)
{
    diag_sink_done(&p->sink);
    if (p->unit)
        unit_free(p->unit);
    *p = (Program){0};
}
