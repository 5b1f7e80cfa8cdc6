/*
 * Mending a program by the edits that its reports carry.
 *
 * All edits of a round are made at once, of those that overlap the first.  The
 * result counts only if it has fewer mistakes than before; else each edit is
 * tried alone, so that one that does not help never stands in the way of the
 * others.  What is mended may show more, so rounds follow until no edit helps,
 * and a second `--fix` finds nothing to do.  Everything happens on texts in
 * memory; the file is replaced once, at the end.
 */
#include "tools/fix.h"

#include "base/vec.h"
#include "base/vfs.h"
#include "tools/load.h"
#include "tools/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 64 };

typedef struct { const Diag *d; uint32_t lo, hi; const char *text; } Edit;      /* lo, hi: bytes of the text */
typedef Vec(Edit) Edits;
/* Names and types are judged only where the syntax is right, and a line shows its first syntax mistake alone. */
typedef struct { int syntax, all; uint32_t rest; } Score;       /* rest: bytes from the first syntax mistake to the end */

static Score score(const Program *p, const Source *src)
{
    Score s = {0, p->sink.all.n, 0};

    for (int i = 0; i < p->sink.all.n; i++) {
        const Diag *d = p->sink.all.at[i];
        if (diag_severity(d->code) != DIAG_ERROR || strncmp(diag_code_name(d->code), "E01", 3) || source_of(d->span.lo) != src)
            continue;
        s.syntax++;
        if (src->base + src->len - d->span.lo > s.rest)
            s.rest = src->base + src->len - d->span.lo;
    }
    return s;
}

static bool better(Score a, Score b)
{
    return a.syntax != b.syntax ? a.syntax < b.syntax : a.rest != b.rest ? a.rest < b.rest : a.all < b.all;
}

/* ------------------------------------------------------------- edits */

static int by_place(const void *a, const void *b)
{
    const Edit *x = a, *y = b;

    return x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : x->hi != y->hi ? (x->hi < y->hi ? -1 : 1) : 0;
}

static Edits edits_of(const Program *p, const Source *src)
{
    Edits e = {0};

    for (int i = 0; i < p->sink.all.n; i++) {
        const Diag *d = p->sink.all.at[i];
        if (d->fix_text && !d->guessed && source_of(d->fix_span.lo) == src)
            vec_push(&e, ((Edit){d, d->fix_span.lo - src->base, d->fix_span.hi - src->base, d->fix_text}));
    }
    if (e.n)
        qsort(e.at, (size_t)e.n, sizeof *e.at, by_place);
    return e;
}

/* Of edits that touch the same text, or insert at one place, the first one stays. */
static void drop_overlaps(Edits *e)
{
    int n = 0;

    for (int i = 0; i < e->n; i++)
        if (!n || (e->at[i].lo >= e->at[n - 1].hi && e->at[i].lo > e->at[n - 1].lo))
            e->at[n++] = e->at[i];
    e->n = n;
}

static const Source *edited(const Source *src, const Edit *e, int n)
{
    StrBuf out = {0};
    uint32_t at = 0;
    const Source *made;

    for (int i = 0; i < n; i++) {
        sb_write(&out, src->text + at, e[i].lo - at);
        sb_puts(&out, e[i].text);
        at = e[i].hi;
    }
    sb_write(&out, src->text + at, src->len - at);
    made = source_add(src->path, sb_str(&out), out.n);
    sb_done(&out);
    return made;
}

/* ------------------------------------------------------------- rounds */

typedef struct { const Options *o; StrBuf said; int mended; } Fixer;

static void say_mended(Fixer *f, const Edit *e, int n)
{
    for (int i = 0; i < n; i++) {
        Place p = source_place(e[i].d->span.lo);
        f->mended++;
        if (option_on(f->o, OPT_json))
            diag_json_applied(e[i].d, &f->said);
        else
            sb_printf(&f->said, "%s:%u:%u: mended [%s] %s\n", p.src->path, p.line, p.col, diag_code_name(e[i].d->code), e[i].d->message);
    }
}

/* The text with these edits, if that is better; NULL: it is not. */
static const Source *attempt(Fixer *f, const Source *src, Score before, const Edit *e, int n)
{
    const Source *next = edited(src, e, n);
    Program p;
    bool good;

    if (!next)
        return NULL;
    program_check(&p, next, (CheckOptions){0});
    good = better(score(&p, next), before);
    program_done(&p);
    if (good)
        say_mended(f, e, n);
    return good ? next : NULL;
}

/* One round; NULL: nothing helps. */
static const Source *mend(Fixer *f, const Source *src)
{
    Program p;
    const Source *next = NULL;
    Edits e;

    program_check(&p, src, (CheckOptions){0});
    e = edits_of(&p, src);
    drop_overlaps(&e);
    if (e.n)
        next = attempt(f, src, score(&p, src), e.at, e.n);
    for (int i = 0; i < e.n && e.n > 1 && !next; i++)
        next = attempt(f, src, score(&p, src), e.at + i, 1);
    vec_free(&e);
    program_done(&p);
    return next;
}

static bool write_back(const char *path, const Source *src, StrBuf *err)
{
    int e = access(path, W_OK) ? errno : vfs_write_atomic(path, src->text, src->len);

    if (e)
        sb_printf(err, "cannot write '%s': %s; nothing was changed", path, strerror(e));
    return !e;
}

const Source *fix_program(const char *path, const Options *o, StrBuf *err)
{
    Fixer f = {.o = o};
    const Source *src, *next;
    bool ok = true;

    if (!strcmp(path, "-")) {
        sb_puts(err, "--fix changes a file: name one instead of standard input");
        return NULL;
    }
    src = load_program(path, err);
    for (int i = 0; src && i < ROUNDS && (next = mend(&f, src)); i++)
        src = next;
    if (src && f.mended)
        ok = write_back(path, src, err);
    if (ok)
        fwrite(sb_str(&f.said), 1, f.said.n, option_on(o, OPT_json) ? stdout : stderr);
    sb_done(&f.said);
    return ok ? src : NULL;
}
