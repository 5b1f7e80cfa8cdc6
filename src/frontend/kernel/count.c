/*
 * How much work one launch of a kernel is, from its code.
 *
 * Where all sizes are written out, the kernel is made for them, and its nodes
 * are counted: an operation of an elementwise op on floats for each element, two for
 * each step of a product; loops as often as they go round.  Tiles that do an
 * element each are as many as the largest output has.  Bytes are those of each
 * tensor once, twice when it is read and written.
 */
#include "frontend/kernel/launch_impl.h"

#include "frontend/tensor/tensor_ops.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------- indices for one lane */

/* The value of an index for a lane of the first group; false: it is not known. */
static bool index_at(TileRef r, int64_t lane, int64_t *out, int depth)
{
    int64_t a, b;
    const TileNode *n = r.node;

    if (depth > 60 || tile_type(r)->kind != TILE_INDEX)
        return false;
    *out = 0;
    switch (n->op) {
    case TILE_PARAM: return n->block && n->block->owner && n->block->owner->op == TOP_for && n->block->params.at[0] == n &&
                            index_at(n->block->owner->in[0], lane, out, depth + 1);
    case TOP_index: *out = n->attr->i; return true;
    case TOP_group: return true;
    case TOP_lane: *out = lane; return true;
    default: break;
    }
    if (n->nin != 2 || !index_at(n->in[0], lane, &a, depth + 1) || !index_at(n->in[1], lane, &b, depth + 1))
        return false;
    switch (n->op) {
    case TOP_iadd: *out = a + b; return true;
    case TOP_isub: *out = a - b; return true;
    case TOP_imul: *out = a * b; return true;
    case TOP_idiv: *out = b > 0 ? a / b - (a % b < 0) : 0; return b > 0;
    case TOP_imod: *out = b > 0 ? a - (a / b - (a % b < 0)) * b : 0; return b > 0;
    case TOP_imin: *out = a < b ? a : b; return true;
    case TOP_imax: *out = a > b ? a : b; return true;
    default: return false;
    }
}

/* ------------------------------------------------------------- operations */

static double elements(const TileType *t)
{
    double n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->extent[i];
    return n;
}

static bool is_arithmetic(const TileNode *n)
{
    switch (n->attr->op) {
    case OP_convert: case OP_where: case OP_eq: case OP_ne: case OP_lt: case OP_le: case OP_gt: case OP_ge: case OP_lnot: case OP_stop_gradient:
        return false;
    default: return dtype_is_inexact((DType)n->type[0].dtype);
    }
}

static double work_of(const TileBlock *b);

static double rounds(const TileNode *n)
{
    int64_t lo, hi, step;

    if (!index_at(n->in[0], 0, &lo, 0) || !index_at(n->in[1], 0, &hi, 0) || !index_at(n->in[2], 0, &step, 0) || step < 1)
        return 1;
    return hi > lo ? (double)((hi - lo + step - 1) / step) : 0;
}

static double work_of_node(const TileNode *n)
{
    double x, y;

    switch (n->op) {
    case TOP_map: return is_arithmetic(n) ? elements(&n->type[0]) * (n->attr->op == OP_fma ? 2 : 1) : 0;
    case TOP_reduce: return elements(tile_type(n->in[0]));
    case TOP_dot: return 2 * elements(&n->type[0]) * tile_type(n->in[0])->extent[1];
    case TOP_atomic: return elements(tile_type(n->in[n->nin - 1]));
    case TOP_for: return rounds(n) * work_of(n->region[0]);
    case TOP_while: return work_of(n->region[0]) + work_of(n->region[1]);
    case TOP_if:
        x = work_of(n->region[0]);
        y = work_of(n->region[1]);
        return x > y ? x : y;
    default: return 0;
    }
}

static double work_of(const TileBlock *b)
{
    double sum = 0;

    for (const TileNode *n = b->first; n; n = n->next)
        sum += work_of_node(n);
    return sum;
}

/* ------------------------------------------------------------- access */

typedef enum { ACCESS_NONE, ACCESS_BROADCAST, ACCESS_COALESCED, ACCESS_STRIDED, ACCESS_RANDOM } Access;

/* How neighbouring lanes read: from one place, from neighbours, from places apart, from anywhere. */
static Access access_of_load(const TileNode *n)
{
    int rank = tile_type(n->in[0])->rank;
    Access worst = ACCESS_BROADCAST;

    if (n->type[0].rank)
        return ACCESS_COALESCED;
    for (int i = 0; i < rank; i++) {
        int64_t a, b;
        if (!index_at(n->in[1 + i], 0, &a, 0) || !index_at(n->in[1 + i], 1, &b, 0))
            return ACCESS_RANDOM;
        if (a != b)
            worst = i == rank - 1 && b - a == 1 && worst == ACCESS_BROADCAST ? ACCESS_COALESCED : ACCESS_STRIDED;
    }
    return worst;
}

static Access access_of(const TileBlock *b)
{
    Access worst = ACCESS_NONE;

    for (const TileNode *n = b->first; n; n = n->next) {
        Access a = n->op == TOP_gather ? ACCESS_RANDOM : n->op == TOP_load &&
                tile_type(n->in[0])->space == SPACE_GLOBAL ? access_of_load(n) : ACCESS_NONE;
        worst = a > worst ? a : worst;
        for (int r = 0; r < 2; r++) {
            a = n->region[r] ? access_of(n->region[r]) : ACCESS_NONE;
            worst = a > worst ? a : worst;
        }
    }
    return worst;
}

/* ------------------------------------------------------------- a launch without one */

static const Ast *without_policy(const Ast *a)
{
    while (AST_IS(a, BinOp) && AST_AS(a, BinOp)->op == AOP_MATMUL)
        a = AST_AS(a, BinOp)->left;
    return a;
}

/* A tensor of the sizes and dtype that an annotation writes out; NULL: it leaves some open. */
static Tensor *tensor_written(const AstParam *p)
{
    const Ast *a = without_policy(p->annotation);
    Dim shape[VIEW_RANK];
    DType dt = DT_NONE;
    int rank = 0;
    Tensor *t;

    if (!AST_IS(a, Subscript) || !AST_IS(AST_AS(a, Subscript)->index, Tuple))
        return NULL;
    for (int i = 0; i < AST_AS(AST_AS(a, Subscript)->index, Tuple)->elts.n; i++) {
        const Ast *e = without_policy(AST_AS(AST_AS(a, Subscript)->index, Tuple)->elts.at[i]);
        const char *word = AST_IS(e, Name) ? AST_AS(e, Name)->id->text : AST_IS(e, Attribute) ? AST_AS(e, Attribute)->attr->text : NULL;
        if (AST_IS(e, Int) && rank < VIEW_RANK && dt == DT_NONE)
            shape[rank++] = AST_AS(e, Int)->value;
        else if (!word || !dtype_find(word, &dt))
            return NULL;
    }
    if (dt == DT_NONE)
        return NULL;
    t = tensor_abstract(dt, rank, shape, NULL);
    for (int64_t i = rank - 1, step = 1; t && i >= 0; i--) {
        t->stride[i] = step;
        step *= shape[i];
    }
    return t;
}

static bool take_written(Launch *L, Tensor **own)
{
    L->spec.nparams = L->form.n;
    for (int i = 0; i < L->form.n; i++) {
        KParam *p = &L->spec.param[i];
        const AstParam *ast = L->form.param[i].param;
        p->name = ast->name;
        p->kind = L->form.param[i].kind;
        p->v = p->kind == KPARAM_NUMBER ? vfloat(1) : VNONE;
        if (p->kind == KPARAM_NUMBER && AST_IS(ast->annotation, Name) && !strcmp(AST_AS(ast->annotation, Name)->id->text, "float"))
            continue;
        p->tensor = own[i] = tensor_written(ast);
        if (!p->tensor)
            return raise(L->I, EXC_RuntimeError, "E0625: kernel '%s': the size of '%s' is not written out, so its work is not known",
                    L->name, p->name->text), false;
    }
    return true;
}

/* Groups that there are, and how often the body counts: a block kernel's for each group, else once an element. */
static double launch_written(Launch *L)
{
    bool written[KERNEL_PARAMS];
    int out;

    for (int i = 0; i < L->spec.nparams; i++)
        written[i] = L->form.param[i].written;
    out = launch_output(L, written);
    L->spec.literal = true;
    L->spec.groups = L->spec.across = 1;
    if (out < 0 || launch_tiles(L))
        return 1;
    if (launch_by_element(L)) {
        L->spec.groups = (tensor_size(L->spec.param[out].tensor) + L->spec.lanes - 1) / L->spec.lanes;
        return (double)tensor_size(L->spec.param[out].tensor);
    }
    {
        Extent2 e = launch_extent(L, out);
        launch_grid(L, &e);
        return (double)L->spec.groups;
    }
}

static double bytes_moved(const Launch *L)
{
    double sum = 0;

    for (int i = 0; i < L->spec.nparams; i++)
        if (L->spec.param[i].tensor)
            sum += (double)tensor_nbytes(L->spec.param[i].tensor) * (L->form.param[i].read + L->form.param[i].written);
    return sum;
}

static Value counted(Launch *L, const char *what)
{
    static const char *const words[] = {"none", "broadcast", "coalesced", "strided", "random"};
    double times = launch_written(L);
    Value y = VERR;
    Body B;

    if (!strcmp(what, "bytes"))
        return vint((int64_t)bytes_moved(L));
    if (!body_make(L->I, &L->spec, &B))
        raise(L->I, EXC_RuntimeError, "E0623: kernel '%s': %s", L->name, B.err.n ? sb_str(&B.err) : "it cannot be made");
    else
        y = !strcmp(what, "access") ? str_c(words[access_of(&B.k->body)]) : vint((int64_t)(times * work_of(&B.k->body)));
    tile_kernel_free(B.k);
    map_done(&B.fixed_names);
    body_done(&B);
    return y;
}

Value kernel_count(Interp *I, const char *name, Value fn, Value schedule, const char *what)
{
    Launch *L = tsr_calloc(sizeof *L);
    Tensor *own[KERNEL_PARAMS] = {NULL};
    Value y = VERR;

    L->I = I;
    L->name = name;
    if (launch_begin(L, fn, VNONE, VNONE, schedule) && take_written(L, own))
        y = counted(L, what);
    for (int i = 0; i < KERNEL_PARAMS; i++)
        tensor_unref(own[i]);
    tsr_free(L);
    return y;
}
