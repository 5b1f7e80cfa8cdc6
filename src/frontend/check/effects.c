/*
 * Effects of functions: inferred over the call graph to a fixed point, and all checks that build on them.
 */
#include "frontend/check/effects.h"

#include "frontend/eval/native.h"

#include <string.h>

enum { ROUNDS = 32, CALLS_MAX = 60 };

const char *const effect_name[EFF_COUNT] = {"random", "io", "memory", "state", "collective"};

bool effect_find(const char *name, Effect *out)
{
    for (int i = 0; i < EFF_COUNT; i++)
        if (!strcmp(effect_name[i], name)) {
            *out = (Effect)i;
            return true;
        }
    return false;
}

/* ------------------------------------------------------------- the library's rows */

static const struct { const char *owner, *name; uint8_t bits; } rows[] = {
#define EFFECT(owner, name, bits) {owner, #name, bits},
#define MUTATES(owner, name)
#include "frontend/check/effects.def"
};
static const struct { const char *owner, *name; } mutators[] = {
#define EFFECT(owner, name, bits)
#define MUTATES(owner, name) {owner, #name},
#include "frontend/check/effects.def"
};

int effect_row(const char *owner, const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((!strcmp(rows[i].owner, owner) || !strcmp(rows[i].owner, "*")) &&
            (!strcmp(rows[i].name, name) || !strcmp(rows[i].name, "*")))
            return rows[i].bits;
    return -1;
}

bool effects_mutates(const NativeDef *d)
{
    for (size_t i = 0; i < sizeof mutators / sizeof *mutators; i++)
        if (!strcmp(mutators[i].owner, d->owner) && !strcmp(mutators[i].name, d->name))
            return true;
    return false;
}

bool effects_mutator(const char *name)
{
    for (size_t i = 0; i < sizeof mutators / sizeof *mutators; i++)
        if (!strcmp(mutators[i].name, name))
            return true;
    return false;
}

/* ------------------------------------------------------------- the fixed point */

uint8_t effects_seen(const EffFn *f)
{
    int row = f->owner && f->name ? effect_row(f->owner, f->name->text) : -1;

    return row >= 0 ? (uint8_t)row : f->declared_at ? f->declares : f->bits;
}

void effects_infer_fn(Effects *E, EffFn *f)
{
    EffWalk w = {.E = E, .fn = f};

    if (f->walk == 1 || !f->scope)
        return;
    if (E->depth > CALLS_MAX) {                     /* in the next round, then */
        E->changed |= !f->walk;
        f->walk = 2;
        return;
    }
    if (!f->walk && !f->own)
        declared_read(E, f);
    f->walk = 1;
    E->depth++;
    effects_walk(&w);
    E->depth--;
    f->walk = 2;
}

/* Rounds go up and down in turn, so that a long chain of calls settles in either order. */
static void effects_infer(Effects *E)
{
    for (int round = 0; round < ROUNDS; round++) {
        E->changed = false;
        for (int i = 0; i < E->own.n; i++)
            effects_infer_fn(E, E->own.at[round % 2 ? E->own.n - 1 - i : i]);
        for (int i = 0; i < E->all.n; i++)          /* of other modules, what the program reaches */
            if (!E->all.at[i]->own && E->all.at[i]->walk)
                effects_infer_fn(E, E->all.at[i]);
        if (!E->changed)
            return;
    }
    E->unsettled = true;
}

/* ------------------------------------------------------------- the unit */

/* Programs that say nothing of effects are not held to any. */
bool effects_spoken_of(const Unit *u)
{
    static const char *const words[] = {"pure", "effects", "Stateful", "get_rank", "axis_index", "local_rank", "spmd", "shard", "RANK",
                                        "Region", "index_launch", "memory", "mesh", "Mesh", "donate", "_async", "defvjp", "gpu:1", "cuda:1"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(u->src->text, words[i]))
            return true;
    return false;
}

static void done(Effects *E)
{
    for (int i = 0; i < E->classes.n; i++) {
        map_done(&E->classes.at[i]->attrs);
        map_done(&E->classes.at[i]->methods);
    }
    vec_free(&E->classes);
    vec_free(&E->own);
    vec_free(&E->all);
    map_done(&E->fn_of);
    map_done(&E->cls_of);
    map_done(&E->given);
    map_done(&E->units);
    map_done(&E->spaces);
    map_done(&E->found);
    map_done(&E->varies);
    map_done(&E->rooted);
    arena_done(&E->arena);
}

void effects_check(Unit *u, CheckOptions opt, DiagSink *sink)
{
    Effects E = {.u = u, .sink = sink};

    if (!opt.effects && !effects_spoken_of(u))
        return;
    things_read(&E, u, NULL);
    for (int i = 0; i < E.own.n; i++)
        declared_read(&E, E.own.at[i]);
    effects_infer(&E);
    declared_check(&E);
    variance_check(&E);
    regions_check(&E);
    launches_check(&E);
    placement_check(&E);
    meshes_check(&E);
    moved_check(&E);
    told_check(&E);
    if (opt.effects)
        declared_print(&E, opt.effects);
    done(&E);
}
