/*
 * What a newcomer writes out of habit is answered with what is written here.
 * The rows are only looked at once a name is known to be missing, so that a
 * program's own names never meet them.
 */
#include "frontend/check/foreign.h"

#include <string.h>

static const Foreign row[] = {
#define FOREIGN(where, name, ours, help) {where, name, ours, help},
#include "frontend/check/foreign.def"
};

const Foreign *foreign_find(const char *where, const char *name)
{
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].name, name) && !strcmp(row[i].where, where))
            return &row[i];
    return NULL;
}

void foreign_help(Diag *d, const Foreign *f, Span name)
{
    diag_help(d, "%s", f->help);
    if (f->ours)
        diag_fix(d, name, f->ours);
}

Span span_tail(Span s, const char *name)
{
    uint32_t n = (uint32_t)strlen(name);

    return s.hi - s.lo > n ? (Span){s.hi - n, s.hi} : s;
}

Span span_head(Span s, const char *name)
{
    uint32_t n = (uint32_t)strlen(name);

    return s.hi - s.lo > n ? (Span){s.lo, s.lo + n} : s;
}

Span span_quoted(Span s)
{
    const Source *src = source_of(s.lo);
    const char *text = src ? src->text + (s.lo - src->base) : "";
    bool plain = s.hi - s.lo > 2 && (text[0] == '"' || text[0] == '\'') && text[1] != text[0];

    return plain ? (Span){s.lo + 1, s.hi - 1} : (Span){0, 0};
}
