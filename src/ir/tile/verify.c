/*
 * The rules of the Tile IR, checked one by one: operands are defined before
 * their users in the same block or one around it, types are what tile.def
 * says, blocks are closed with what their op needs, use counts are right,
 * a tree is used once on each way through the kernel, buffers stand outside
 * all blocks with extents that follow from sizes alone, and what a group of
 * lanes does together it does where all of them are (vary.h).
 */
#include "ir/tile/tile_impl.h"
#include "ir/tile/vary.h"

#include <stdarg.h>

typedef struct Check {
    const TileKernel *k;
    StrBuf *err;
    uint32_t *uses;             /* by id */
    bool *visible;              /* defined, and its block still open */
    const uint32_t *number;
    int depth;
} Check;

static bool broken(Check *c, const TileNode *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool broken(Check *c, const TileNode *n, const char *fmt, ...)
{
    va_list ap;

    if (n && n->op < TOP_COUNT) {
        if (n->nout)
            sb_printf(c->err, "%%%u, ", c->number[n->id]);
        sb_printf(c->err, "%s: ", tile_op_info[n->op].name);
    }
    va_start(ap, fmt);
    sb_vprintf(c->err, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- operands ---- */

static bool value_ok(Check *c, const TileNode *user, TileRef v)
{
    if (!v.node || v.node->id >= c->k->nnodes || !c->visible[v.node->id])
        return broken(c, user, "uses a value that is not defined before it");
    if (v.index < 0 || v.index >= v.node->nout)
        return broken(c, user, "uses result %d of a node with %d", v.index, v.node->nout);
    c->uses[v.node->id]++;
    return true;
}

static bool types_ok(Check *c, const TileNode *n)
{
    TileType *y = tsr_alloc(sizeof *y * (size_t)(n->nin + 1));
    StrBuf why = {0};
    TAttr only = tattr_only((TileOp)n->op, n->attr);
    int nout = 0;
    bool ok = tile_infer(c->k, (TileOp)n->op, n->attr, n->in, n->nin, y, &nout, &why);

    if (!ok)
        broken(c, n, "%s", sb_str(&why));
    else if (nout >= 0 && nout != n->nout)
        ok = broken(c, n, "has %d results instead of %d", n->nout, nout);
    else if (!tattr_equal(&only, n->attr))
        ok = broken(c, n, "has attributes that mean nothing");
    for (int i = 0; i < nout && ok; i++)
        if (!tile_type_equal(&n->type[i], &y[i]))
            ok = broken(c, n, "result %d has a type that the op does not give", i);
    sb_done(&why);
    tsr_free(y);
    return ok;
}

/* ---- buffers ---- */

enum { STEPS = 1000 };          /* that an extent may be away from what it follows from */

/* Does an index follow from sizes alone? */
static bool is_uniform(const TileNode *n, int *steps)
{
    if (--*steps < 0)
        return false;
    switch (n->op) {
    case TOP_index: case TOP_size: return true;
    case TOP_iadd: case TOP_isub: case TOP_imul: case TOP_idiv: case TOP_imod: case TOP_imin: case TOP_imax:
        return is_uniform(n->in[0].node, steps) && is_uniform(n->in[1].node, steps);
    default: return false;
    }
}

static bool alloc_ok(Check *c, const TileNode *n)
{
    int steps = STEPS;

    if (n->block != &c->k->body)
        return broken(c, n, "a buffer stands inside a block");
    for (int i = 0; i < n->nin; i++)
        if (!is_uniform(n->in[i].node, &steps))
            return broken(c, n, "the extent of axis %d does not follow from sizes alone", i);
    return true;
}

/* ---- blocks ---- */

static bool block_ok(Check *c, const TileBlock *b);

static bool params_ok(Check *c, const TileNode *n, int r)
{
    const TileBlock *b = n->region[r];
    TileType *want = tsr_alloc(sizeof *want * (size_t)(n->nin + 1));
    int count = tile_region_params(n, r, want);
    bool ok = b->params.n == count;

    for (int i = 0; i < count && ok; i++)
        ok = b->params.at[i]->op == TILE_PARAM && b->params.at[i]->block == b && tile_type_equal(&b->params.at[i]->type[0], &want[i]);
    tsr_free(want);
    return ok || broken(c, n, "the parameters of block %d are not those of the op", r);
}

static bool yields_ok(Check *c, const TileNode *n, int r)
{
    const TileBlock *b = n->region[r];
    const TileType *want;
    TileType flag;
    int count = tile_region_yields(n, r, &want, &flag);

    if (!b->closed)
        return broken(c, n, "block %d does not yield", r);
    if (b->yields.n != count)
        return broken(c, n, "block %d yields %d values instead of %d", r, b->yields.n, count);
    for (int i = 0; i < count; i++)
        if (!tile_type_equal(tile_type(b->yields.at[i]), &want[i]))
            return broken(c, n, "value %d that block %d yields has another type", i, r);
    return true;
}

static bool node_ok(Check *c, const TileNode *n)
{
    if (n->op >= TOP_COUNT)
        return broken(c, n, "there is no op %d", n->op);
    for (int i = 0; i < n->nin; i++)
        if (!value_ok(c, n, n->in[i]))
            return false;
    if (!types_ok(c, n) || (n->op == TOP_alloc && !alloc_ok(c, n)))
        return false;
    for (int r = 0; r < 2; r++) {
        if ((n->region[r] != NULL) != (r < tile_op_info[n->op].regions))
            return broken(c, n, "has not the blocks of its op");
        if (n->region[r] && (n->region[r]->owner != n || !params_ok(c, n, r) || !block_ok(c, n->region[r]) || !yields_ok(c, n, r)))
            return n->region[r]->owner == n ? false : broken(c, n, "its block belongs to another op");
    }
    return true;
}

static void show(Check *c, const TileBlock *b, bool visible)
{
    for (int i = 0; i < b->params.n; i++)
        c->visible[b->params.at[i]->id] = visible;
    for (const TileNode *n = b->first; n && !visible; n = n->next)
        c->visible[n->id] = false;
}

static bool block_ok(Check *c, const TileBlock *b)
{
    if (++c->depth > TILE_DEPTH_MAX)
        return broken(c, b->owner, "blocks are nested too deeply");
    show(c, b, true);
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->id >= c->k->nnodes || n->block != b || (n->next && n->next->prev != n))
            return broken(c, n, "the list of nodes is damaged");
        if (!node_ok(c, n))
            return false;
        c->visible[n->id] = true;
    }
    for (int i = 0; i < b->yields.n; i++)
        if (!value_ok(c, b->owner, b->yields.at[i]))
            return false;
    show(c, b, false);
    c->depth--;
    return true;
}

static bool uses_ok(Check *c, const TileBlock *b)
{
    for (int i = 0; i < b->params.n; i++)
        if (b->params.at[i]->nuse != c->uses[b->params.at[i]->id])
            return broken(c, b->owner, "parameter %d counts %u uses, has %u", i, b->params.at[i]->nuse, c->uses[b->params.at[i]->id]);
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->nuse != c->uses[n->id])
            return broken(c, n, "counts %u uses, has %u", n->nuse, c->uses[n->id]);
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !uses_ok(c, n->region[r]))
                return false;
    }
    return true;
}

/* ---- trees ---- */

/* How often is v used on the way through a block that uses it most? A use inside a loop counts twice. */
static int uses_in(const TileBlock *b, TileRef v)
{
    int n = 0;

    for (const TileNode *m = b->first; m; m = m->next) {
        int inner = 0;
        for (int i = 0; i < m->nin; i++)
            n += m->in[i].node == v.node && m->in[i].index == v.index;
        for (int r = 0; r < 2; r++) {
            int here = m->region[r] ? uses_in(m->region[r], v) : 0;
            inner = here > inner ? here : inner;
        }
        n += m->op == TOP_if ? inner : 2 * inner;
    }
    for (int i = 0; i < b->yields.n; i++)
        n += b->yields.at[i].node == v.node && b->yields.at[i].index == v.index;
    return n;
}

static bool tree_ok(Check *c, const TileBlock *b, const TileNode *n)
{
    for (int i = 0; i < n->nout; i++)
        if (n->type[i].kind == TILE_TREE && uses_in(b, (TileRef){(TileNode *)n, i}) > 1)
            return broken(c, n, "a tree is used more than once");
    return true;
}

static bool trees_ok(Check *c, const TileBlock *b)
{
    for (int i = 0; i < b->params.n; i++)
        if (!tree_ok(c, b, b->params.at[i]))
            return false;
    for (const TileNode *n = b->first; n; n = n->next) {
        if (!tree_ok(c, b, n))
            return false;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !trees_ok(c, n->region[r]))
                return false;
    }
    return true;
}

/* ---- producers ---- */

static bool stands_in(const TileNode *n, const TileBlock *b)
{
    for (const TileBlock *x = n->block; x; x = x->owner ? x->owner->block : NULL)
        if (x == b)
            return true;
    return false;
}

/*
 * Warps that only bring blocks see the number of the round and what stands before the loop. Does a value follow from these, by
 * arithmetic that reads no memory and makes nobody wait?
 */
static bool brought(const TileNode *loop, TileRef v, int *steps)
{
    const TileNode *n = v.node;

    if (--*steps < 0)
        return false;
    if (!stands_in(n, loop->region[0]))
        return true;
    if (n->op == TILE_PARAM)
        return n == loop->region[0]->params.at[0];
    if (tile_op_info[n->op].flags != TF_PURE || n->region[0])
        return false;
    for (int i = 0; i < n->nin; i++)
        if (!brought(loop, n->in[i], steps))
            return false;
    return true;
}

/* All copies of a loop with producers, and the choices around them. */
static bool producers_ok(Check *c, const TileNode *loop, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        bool copies = n->op == TOP_copy_async;
        int steps = STEPS;
        for (int r = 0; r < 2; r++)
            for (const TileNode *m = n->op == TOP_if ? n->region[r]->first : NULL; m; m = m->next)
                copies |= m->op == TOP_copy_async;
        for (int i = 0; i < n->nin && copies; i++)
            if (!brought(loop, n->in[i], &steps))
                return broken(c, n, "producers do not know operand %d: it does not follow from the round's number", i);
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !producers_ok(c, loop, n->region[r]))
                return false;
    }
    return true;
}

static bool loops_ok(Check *c, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        if (n->op == TOP_for && n->attr->producers && !producers_ok(c, n, n->region[0]))
            return false;
        for (int r = 0; r < 2; r++)
            if (n->region[r] && !loops_ok(c, n->region[r]))
                return false;
    }
    return true;
}

/* ---- the kernel ---- */

static bool head_ok(Check *c)
{
    const TileKernel *k = c->k;

    if (k->body.params.n != k->params.n || k->param_name.n != k->params.n)
        return broken(c, NULL, "the kernel's parameters are not those of its body");
    for (int i = 0; i < k->params.n; i++) {
        if (k->params.at[i]->type[0].kind != TILE_VIEW || k->params.at[i]->type[0].space != SPACE_GLOBAL)
            return broken(c, NULL, "parameter %%%s is not a view of global memory", k->param_name.at[i]->text);
        for (int j = 0; j < i; j++)
            if (k->param_name.at[i] == k->param_name.at[j])
                return broken(c, NULL, "two parameters are named %%%s", k->param_name.at[i]->text);
    }
    if (k->grid.n > 3)
        return broken(c, NULL, "a grid has at most 3 axes");
    if (k->lanes < 1 || k->lanes > 1024)
        return broken(c, NULL, "a group of %d lanes", k->lanes);
    for (int i = 0; i < k->grid.n; i++) {
        Dim var[16];
        int n = dim_vars(k->grid.at[i], var, 16);
        for (int j = 0; j < n; j++) {
            bool known = false;
            for (int s = 0; s < k->size.n; s++)
                known |= k->size_var.at[s] == var[j];
            if (!known)
                return broken(c, NULL, "axis %d of the grid depends on what is not a size of the launch", i);
        }
    }
    return true;
}

/* What is the group's is done where all lanes are, with what they agree on. */
static bool lanes_ok(Check *c)
{
    TileVary v;
    const char *why;
    const TileNode *bad;

    tile_vary(c->k, &v);
    bad = tile_vary_broken(c->k, &v, &why);
    tile_vary_done(&v);
    return !bad || broken(c, bad, "%s", why);
}

bool tile_verify(const TileKernel *k, StrBuf *err)
{
    uint32_t count, *number = tile_numbers(k, &count);
    Check c = {.k = k, .err = err, .number = number};
    bool ok;

    c.uses = tsr_calloc(sizeof *c.uses * (k->nnodes + 1));
    c.visible = tsr_calloc(k->nnodes + 1);
    ok = head_ok(&c) && block_ok(&c, &k->body) && uses_ok(&c, &k->body) && trees_ok(&c, &k->body) && loops_ok(&c, &k->body) && lanes_ok(&c);
    tsr_free(c.uses);
    tsr_free(c.visible);
    tsr_free(number);
    return ok;
}
