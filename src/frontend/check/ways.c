/*
 * Ways through the code: what the variables are where branches meet.
 *
 * A frame keeps a trail of what its variables were before each store, while
 * some branch is open.  The end of a branch turns the trail since its fork into
 * a Way - each variable that changed, with what it was and what it is - and
 * takes it back, so that the next branch starts where this one did.  Ways of
 * one fork are merged, and the result is stored like anything else.  So a
 * branch costs what it changes, however many variables there are.
 */
#include "frontend/check/ways.h"

#include "frontend/check/kernels.h"

typedef struct Change Change;

void var_put(Trail *trail, const Type **at, const Type *t)
{
    if (trail && trail->forks)
        vec_push(&trail->put, ((Put){at, *at}));
    *at = t;
}

Fork way_fork(Check *C)
{
    CFrame *f = C->frame;

    f->trail->forks++;
    return (Fork){f->trail->put.n, f->dead};
}

/*
 * While ways are read, a variable that was seen holds its place in the list instead of a type,
 * so that the list names each once.
 */
static const Type *tag(int i)
{
    return (const Type *)((uintptr_t)i * 2 + 1);
}

static int tag_of(const Type *t)
{
    return (uintptr_t)t & 1 ? (int)((uintptr_t)t / 2) : -1;
}

/* What changed since the fork; the variables hold tags afterwards. */
static Way since(Check *C, Fork from)
{
    Trail *trail = C->frame->trail;
    Way w = {.dead = C->frame->dead, .kernel = C->kernel != NULL};

    for (int i = from.mark; i < trail->put.n; i++) {
        Put *p = &trail->put.at[i];
        if (tag_of(*p->at) >= 0)
            continue;
        vec_push(&w.changes, ((Change){p->at, p->was, *p->at, NULL}));
        *p->at = tag(w.changes.n - 1);
    }
    return w;
}

Way way_end(Check *C, Fork from)
{
    Way w = since(C, from);
    int n = 0;

    for (int i = 0; i < w.changes.n; i++) {
        Change *c = &w.changes.at[i];
        *c->at = c->was;
        if (c->now != c->was)
            w.changes.at[n++] = *c;
    }
    w.changes.n = n;
    C->frame->trail->put.n = from.mark;
    C->frame->trail->forks--;
    C->frame->dead = from.dead;
    return w;
}

Way way_here(Check *C, Fork from)
{
    Way w = since(C, from);

    for (int i = 0; i < w.changes.n; i++)
        *w.changes.at[i].at = w.changes.at[i].now;
    return w;
}

void way_drop(Way *w)
{
    vec_free(&w->changes);
}

/* A variable without a type was not assigned on that way. */
static const Type *join(const Way *w, const Type *a, const Type *b)
{
    if (!a || !b || a == b)
        return a ? a : b;
    return w->kernel ? kernel_join(a, b) : type_join(a, b);
}

void way_merge(Way *w, Way *other)
{
    int n = w->changes.n;

    if (other->dead) {
        way_drop(other);
        return;
    }
    if (w->dead) {
        way_drop(w);
        *w = *other;
        return;
    }
    for (int i = 0; i < n; i++) {
        w->changes.at[i].kept = *w->changes.at[i].at;
        *w->changes.at[i].at = tag(i);
    }
    for (int k = 0; k < other->changes.n; k++) {
        Change c = other->changes.at[k];
        int i = tag_of(*c.at);
        if (i < 0) {
            c.now = join(w, c.was, c.now);
            vec_push(&w->changes, c);
            continue;
        }
        w->changes.at[i].now = join(w, w->changes.at[i].now, c.now);
        *c.at = w->changes.at[i].kept;
    }
    for (int i = 0; i < n; i++) {
        Change *c = &w->changes.at[i];
        if (tag_of(*c->at) < 0)
            continue;
        *c->at = c->kept;
        c->now = join(w, c->now, c->was);
    }
    way_drop(other);
}

void way_join_start(Way *w)
{
    for (int i = 0; i < w->changes.n; i++)
        w->changes.at[i].now = join(w, w->changes.at[i].now, w->changes.at[i].was);
}

bool way_changes(const Way *w)
{
    for (int i = 0; i < w->changes.n; i++)
        if (w->changes.at[i].now != w->changes.at[i].was)
            return true;
    return false;
}

void way_take(Check *C, Way *w)
{
    for (int i = 0; i < w->changes.n; i++)
        var_put(C->frame->trail, w->changes.at[i].at, w->changes.at[i].now);
    C->frame->dead = w->dead;
    way_drop(w);
}
