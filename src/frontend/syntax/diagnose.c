/* What is wrong with a line. */
#include "frontend/syntax/parse.h"

#include <string.h>

static const char *spelling(Driver *d, const Token *t)
{
    const Source *s = d->p.unit->src;

    switch (t->kind) {
    case TOK_NEWLINE: case TOK_INDENT: case TOK_DEDENT: case TOK_FTEXT: case TOK_FEND:
        return token_name(t->kind);
    default:
        return arena_printf(d->p.arena, "'%.*s'", (int)(t->span.hi - t->span.lo > 40 ? 40 : t->span.hi - t->span.lo),
                            s->text + (t->span.lo - s->base));
    }
}

Repair diagnose(Driver *d, int first, int at)
{
    const Token *t = &d->list.tok.at[at];

    (void)first;
    syntax_error(&d->p, E0101, t->span, spelling(d, t), NULL);
    return (Repair){REPAIR_NONE, 0};
}
