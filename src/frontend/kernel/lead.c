/*
 * Matrices in stacks: KTile["B*H", "S", "D"] is a matrix for each group, and a
 * launch goes through the stack.
 *
 * Groups are numbered matrix by matrix.  Inside of one matrix they are what
 * they were without a stack, `_per` of them.  What is loaded beside it by rows
 * or columns, tile.load(cache.K, block), may have leading axes of its own, by
 * whatever axes: the matrices are counted along all of them.  A stack of fewer
 * matrices is shared by neighbours, as the heads of a group of queries share
 * one of keys.
 */
#include "frontend/kernel/body.h"

#include <stdio.h>

static int64_t stacked(const Tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank - 2; i++)
        n *= t->shape[i];
    return n;
}

int kspec_leading(const KSpec *spec, int param)
{
    const KParam *p = &spec->param[param];

    return spec->led >= 0 && p->leads && p->tensor && p->tensor->rank > 2 ? p->tensor->rank - 2 : 0;
}

/* ------------------------------------------------------------- the launch */

bool lead_plan(KSpec *spec, char *why, size_t n)
{
    uint64_t own = 0;

    spec->leads = 1;
    spec->per = spec->groups;
    if (spec->led < 0)
        return true;
    spec->leads = stacked(spec->param[spec->led].tensor);
    spec->groups *= spec->leads;
    for (int i = 0; i < spec->nparams; i++)
        if (kspec_leading(spec, i))
            own |= (uint64_t)1 << i;
    return lead_holds(spec, own, why, n);
}

bool lead_holds(const KSpec *spec, uint64_t shared, char *why, size_t n)
{
    for (int i = 0; i < spec->nparams; i++) {
        const KParam *p = &spec->param[i];
        int64_t own = shared >> i & 1 ? stacked(p->tensor) : spec->leads;
        if (own == spec->leads || (own > 0 && spec->leads % own == 0))
            continue;
        snprintf(why, n, "'%.64s' is a stack of %lld matrices, and '%.64s' one of %lld: as many, or a part of them that neighbours share",
                 p->name->text, (long long)own, spec->param[spec->led].name->text, (long long)spec->leads);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------- the body */

/* What is made of sizes and the group's number stands before all that uses it. */
static KVal in_front(Body *B, KVal (*make)(Body *B))
{
    TileBlock *here = B->b.at;
    TileNode *last;
    KVal g = kb_group_id(B), per = kb_launch_size(B, LAUNCH_per), y;

    if (kb_bad(g) || kb_bad(per))
        return KBAD;
    B->b.at = &B->k->body;
    last = B->k->body.last;
    y = make(B);
    for (TileNode *n = last ? last->next : B->k->body.first, *next; n; n = next) {
        next = n->next;
        kb_to_front(B, n);
    }
    B->b.at = here;
    return y;
}

static KVal per_matrix(Body *B) { return kb_launch_size(B, LAUNCH_per); }
static KVal make_inside(Body *B) { return kb_binary(B, AOP_MOD, kb_group_id(B), per_matrix(B)); }
static KVal make_lead(Body *B) { return kb_binary(B, AOP_FLOORDIV, kb_group_id(B), per_matrix(B)); }

KVal lead_inside(Body *B) { return B->spec->led < 0 ? kb_group_id(B) : in_front(B, make_inside); }

static KVal lead_number(Body *B)
{
    if (!B->lead) {
        KVal v = in_front(B, make_lead);
        if (kb_bad(v))
            return v;
        B->lead = kb_alloc(B, sizeof v);
        *B->lead = v;
    }
    return *B->lead;
}

/* How many neighbours share a matrix of a stack of so many. */
static KVal sharing(Body *B, KVal own)
{
    return kb_binary(B, AOP_FLOORDIV, kb_launch_size(B, LAUNCH_leads), own);
}

bool lead_take(Body *B, KPlace *p, int axes)
{
    KVal own = kb_number(1), at;

    if (B->spec->led < 0) {
        kb_fail(B, "E0614: rows and columns are taken of a matrix, and this memory has %d axes: index the first, or make a parameter a KTile "
                "whose leading axes say which matrix a group has", kplace_free(p));
        return false;
    }
    for (int i = 0; i < axes; i++)
        own = kb_binary(B, AOP_MUL, own, kb_int(B, p->axis[kplace_axis(p, i)].extent));
    at = kb_binary(B, AOP_FLOORDIV, lead_number(B), sharing(B, own));
    if (p->param >= 0)
        B->shared_leads |= (uint64_t)1 << p->param;
    for (int i = axes; i-- > 0 && !kb_bad(at);) {
        PlaceAxis *x = &p->axis[kplace_axis(p, i)];
        KVal size = kb_int(B, x->extent);
        Lin l;
        if (!kb_to_lin(B, i ? kb_binary(B, AOP_MOD, at, size) : at, &l) || !lin_add(B, x->start, l, 1, &x->start))
            return false;
        at = kb_binary(B, AOP_FLOORDIV, at, size);
        x->gone = true;
        x->extent = lin_number(1);
    }
    return !B->failed;
}
