/*
 * Fragments: matrices that a warp has in registers, and the operations that fill, multiply and store them.
 *
 * A fragment is a tile, which is the group's.  Where warps of a group have places of their own for theirs, and do more together than
 * launch.c's warps_apart can part, a fragment is a tile for each warp, and each operation is done for one warp after another: where a warp's
 * part lies is asked of its first lane.
 */
#include "frontend/kernel/oper.h"

#include <stdio.h>

static int copies(const Body *B) { return *B->fragments_apart ? B->spec->lanes / WARP : 1; }

static Sym fragment_name(const Body *B, KVal f)
{
    char text[32];

    snprintf(text, sizeof text, B->warp ? "$f%d_%d" : "$f%d", (int)f.v.i, B->warp);
    return sym(text);
}

KVal fragment_value(Body *B, KVal f)
{
    KVal *v = NULL;

    if (copies(B) > 1 && !B->in_fragments)
        return kb_fail(B, "a fragment that each warp has its own of is for load_matrix(), mma() and store_matrix() alone");
    for (Inlined *in = B->fn; in && !v; in = in->up) {
        Inlined *here = B->fn;
        B->fn = in;
        v = kb_var(B, fragment_name(B, f));
        B->fn = here;
    }
    return v ? *v : kb_fail(B, "the fragment holds nothing");
}

static void fragment_set(Body *B, KVal f, KVal v) { kb_set(B, fragment_name(B, f), v); }

/* For the fragments of each warp. */
static KVal each_warp(KArgs *a, bool (*one)(KArgs *a))
{
    Body *B = a->B;
    KArgs given = *a;
    bool ok = true;

    B->in_fragments = true;
    for (B->warp = 0; ok && B->warp < copies(B); B->warp++) {
        *a = given;
        ok = one(a);
    }
    B->in_fragments = false;
    B->warp = 0;
    return ok && !B->failed ? (KVal){.kind = K_STATIC, .v = VNONE} : KBAD;
}

static bool clear_fragment(KArgs *a)
{
    KVal zero = oper_filled(a, 1, kb_number(0));

    if (!kb_bad(zero))
        fragment_set(a->B, (KVal){.kind = K_FRAGMENT, .v = vint(a->B->fragments)}, zero);
    return !kb_bad(zero);
}

static KVal op_fragment(KArgs *a)
{
    KVal f = {.kind = K_FRAGMENT, .v = vint(++a->B->fragments)}, done = each_warp(a, clear_fragment);

    return kb_bad(done) ? done : f;
}

/* What stands in the kernel's body and holds what is being made; NULL: that stands there itself. */
static TileNode *outermost(const Body *B)
{
    TileNode *n = B->b.at->owner;

    while (n && n->block->owner)
        n = n->block->owner;
    return n;
}

/* An index as the first lane of the warp at hand has it, asked for outside of loops where it is known there. */
static TileRef at_first_lane(Body *B, TileRef x)
{
    TileNode *before = x.node->block == &B->k->body ? outermost(B) : NULL, *y;
    TAttr a = tattr_none;
    TileRef in[2] = {x};

    a.i = (int64_t)B->warp * WARP;
    if (!before) {
        in[1] = kb_index(B, a.i);
        a.i = 0;
        return kb_emit(B, TOP_shuffle, &a, in, 2);
    }
    in[1] = tile_out(tile_insert(B->k, before, TOP_index, &a, NULL, 0));
    a.i = 0;
    y = tile_insert(B->k, before, TOP_shuffle, &a, in, 2);
    kb_lane_mark(B, tile_out(y), false);
    return tile_out(y);
}

/* The place's starts as the warp at hand has them. false: each warp has to have its own fragments first. */
static bool of_warp(Body *B, KPlace *p)
{
    for (int i = 0; i < p->rank; i++)
        for (int k = 0; k < p->axis[i].start.n; k++) {
            TileRef *x = &p->axis[i].start.t[k].r;
            if (!kb_lane_dependent(B, *x))
                continue;
            if (!*B->fragments_apart && (B->spec->lanes <= WARP || B->spec->lanes % WARP))
                continue;
            if (!*B->fragments_apart) {
                *B->fragments_apart = true;
                kb_again(B);
                return false;
            }
            *x = at_first_lane(B, *x);
        }
    return true;
}

/* Rows of a matrix in memory: the stride between them must be the one that the memory has. */
static bool fragment_place(KArgs *a, KVal f, KVal where_, int stride_at, KPlace *out)
{
    KVal held = fragment_value(a->B, f);
    Lin stride, width;
    int64_t s, w;

    if (kb_bad(held) || where_.kind != K_PLACE)
        return kb_bad(held) ? false : (kb_fail(a->B, "%s() needs memory", a->name), false);
    *out = *where_.place;
    if (kplace_free(out) != 2)
        return kb_fail(a->B, "%s() takes memory of two axes", a->name), false;
    width = out->axis[out->rank - 1].size;
    if (!kb_to_lin(a->B, a->at[stride_at], &stride))
        return false;
    if (lin_known(a->B, &stride, &s) && lin_known(a->B, &width, &w) && s != w)
        return kb_fail(a->B, "%s(): rows of the memory are %lld elements apart, not %lld", a->name, (long long)w, (long long)s), false;
    for (int i = 0; i < 2; i++)
        out->axis[kplace_axis(out, i)].extent = lin_number(kb_type(held)->extent[i]);
    return of_warp(a->B, out);
}

static bool load_fragment(KArgs *a)
{
    KPlace p;
    KVal v;

    if (!fragment_place(a, a->at[0], a->at[1], 2, &p))
        return false;
    v = kplace_load(a->B, &p);
    v = kb_bad(v) ? v : kb_cast(a->B, v, (DType)kb_type(fragment_value(a->B, a->at[0]))->dtype);
    if (!kb_bad(v))
        fragment_set(a->B, a->at[0], v);
    return !kb_bad(v);
}

static KVal op_load_matrix(KArgs *a)
{
    return a->at[0].kind == K_FRAGMENT ? each_warp(a, load_fragment) : kb_fail(a->B, "%s() fills a fragment", a->name);
}

static bool store_fragment(KArgs *a)
{
    KPlace p;

    return fragment_place(a, a->at[1], a->at[0], 2, &p) && kplace_store(a->B, &p, fragment_value(a->B, a->at[1]));
}

static KVal op_store_matrix(KArgs *a)
{
    return a->at[1].kind == K_FRAGMENT ? each_warp(a, store_fragment) : kb_fail(a->B, "%s() stores a fragment", a->name);
}

/* mma(d, a, b, c) */
static bool multiply_fragments(KArgs *a)
{
    KVal d = a->at[0], y;

    a->at[0] = a->at[1];
    a->at[1] = a->at[2];
    a->at[2] = a->at[3];
    y = oper_dot(a);
    y = kb_bad(y) ? y : kb_cast(a->B, y, (DType)kb_type(fragment_value(a->B, d))->dtype);
    if (!kb_bad(y))
        fragment_set(a->B, d, y);
    return !kb_bad(y);
}

KVal oper_fragment(KArgs *a)
{
    switch (kernel_op_id(a->op)) {
    case KOP_load_matrix: return op_load_matrix(a);
    case KOP_store_matrix: return op_store_matrix(a);
    case KOP_mma: return each_warp(a, multiply_fragments);
    default: return op_fragment(a);
    }
}
