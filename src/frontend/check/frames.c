/* Blocks come in powers of two from the check's arena; those that were given back wait in a list for each power. */
#include "frontend/check/frames.h"

#include <string.h>

enum { LEAST = 6 };             /* no block is smaller than two to this */

struct Spare { Spare *next; };

static int power_of(size_t size)
{
    return size <= (size_t)1 << LEAST ? LEAST : 64 - __builtin_clzll((unsigned long long)size - 1);
}

void *spare_take(Check *C, size_t size)
{
    int power = power_of(size);
    Spare **list = &C->spare[power - LEAST], *s = *list;

    if (!s)
        return arena_alloc(&C->arena, (size_t)1 << power);
    *list = s->next;
    return memset(s, 0, size);
}

void spare_put(Check *C, void *p, size_t size)
{
    Spare **list = &C->spare[power_of(size) - LEAST], *s = p;

    s->next = *list;
    *list = s;
}

/* The frame, and behind it its arrays. */
static size_t size_of(int nvar)
{
    return sizeof(CFrame) + (size_t)(nvar + 1) * (sizeof(const Type *) * 2 + sizeof(Ast *));
}

CFrame *frame_new(Check *C, CFrame *up, Scope *s)
{
    CFrame *f = spare_take(C, size_of(s->nslots));

    f->up = up;
    f->scope = s;
    f->nvar = s->nslots;
    f->var = (const Type **)(f + 1);
    f->decl = f->var + f->nvar + 1;
    f->from = (Ast **)(f->decl + f->nvar + 1);
    f->trail = &f->own;
    return f;
}

static void drop_lists(CFrame *f)
{
    vec_free(&f->dims);
    vec_free(&f->facts);
}

void frame_leave(Check *C, CFrame *f, FrameHold before)
{
    vec_free(&f->own.put);
    if (C->captures != before) {
        vec_push(&C->frames, f);
        return;
    }
    drop_lists(f);
    spare_put(C, f, size_of(f->nvar));
}

/* Frames of modules and of their classes are there to the end anyway. */
void frame_capture(Check *C)
{
    const CFrame *f = C->frame;

    while (f && !f->fn)
        f = f->up;
    C->captures += f != NULL;
}

void frames_done(Check *C)
{
    for (int i = 0; i < C->frames.n; i++)
        drop_lists(C->frames.at[i]);
    vec_free(&C->frames);
}
