/*
 * What a kernel returns: numbers, which the first tile of the first group
 * stores, and block values, each a parameter of the code that groups store to.
 *
 * A block is a group's part of the result along an axis where the group took it
 * from its own place: where a Tile was cut, where what was loaded begins at
 * block_m or block_n, or where the annotation, or what the block was made of, names
 * the dimension that blocks of this size go along. Then the result has all of that dimension, and a plain call
 * has a group for each block of it. Elsewhere the block is the result.
 *
 * The annotation is a promise as parameters' are: number or block, dtype, axes,
 * and sizes, which are seen when a launch makes the result.
 */
#include "frontend/kernel/launch_impl.h"

#include <string.h>

/* ------------------------------------------------------------- the annotation */

/* What it says of one result. axes: -1, nothing of them; number: f32, no tensor at all. */
typedef struct Said { DType dtype; bool number; int axes; Sym dim[VIEW_RANK]; int64_t size[VIEW_RANK]; } Said;

bool kernel_returns_number(const AstFunctionDef *def, DType *dt)
{
    const Ast *a = def->returns;

    return (AST_IS(a, Name) || AST_IS(a, Attribute)) && dtype_find(kernel_annotation_word(a), dt);
}

static bool is_tuple_word(const Ast *a)
{
    const char *word = kernel_annotation_word(AST_IS(a, Subscript) ? AST_AS(a, Subscript)->value : a);

    return !strcmp(word, "tuple") || !strcmp(word, "Tuple");
}

static const Ast *said_of(const Body *B, int i)
{
    const Ast *a = B->spec->def->returns, *item[12];

    if (!B->returns_tuple || !a)
        return a;
    if (AST_IS(a, Tuple))
        return i < AST_AS(a, Tuple)->elts.n ? AST_AS(a, Tuple)->elts.at[i] : NULL;
    return is_tuple_word(a) && i < kernel_annotation_items(a, item) ? item[i] : NULL;
}

static Said said_in(const Ast *a)
{
    Said y = {.dtype = DT_NONE, .axes = -1};
    const Ast *item[12];
    int n = kernel_annotation_items(a, item);

    if (a && dtype_find(kernel_annotation_word(a), &y.dtype)) {
        y.number = true;
        return y;
    }
    for (int i = 0; i < n; i++) {
        Sym name;
        int64_t number;
        bool sum = AST_IS(item[i], BinOp);                  /* N + 1, f32 @ policy */
        const Ast *of = item[i];
        while (AST_IS(of, BinOp))
            of = AST_AS(of, BinOp)->left;
        if (AST_IS(of, Tuple) && !AST_AS(of, Tuple)->elts.n) {
            y.axes = 0;
        } else if (kernel_axis_item(of, &name, &number)) {
            y.axes += y.axes < 0;
            if (y.axes < VIEW_RANK) {
                y.dim[y.axes] = sum ? NULL : name;
                y.size[y.axes] = sum ? -1 : number;
            }
            y.axes++;
        } else {
            dtype_find(kernel_annotation_word(of), &y.dtype);
        }
    }
    return y;
}

/* n values, -1: one that stands alone. */
static bool right_count(Body *B, int n)
{
    const Ast *a = B->spec->def->returns, *item[12];
    Said one = said_in(a);
    int said = n < 0 ? 1 : n;

    if (AST_IS(a, Tuple))
        said = AST_AS(a, Tuple)->elts.n;
    else if (is_tuple_word(a) && AST_IS(a, Subscript))
        said = kernel_annotation_items(a, item);
    else if (one.number || one.axes >= 0)
        said = 1;
    return said == (n < 0 ? 1 : n) || (kb_fail(B, "it returns %d values, where the annotation says %d", n < 0 ? 1 : n, said), false);
}

static bool keeps(Body *B, const Said *said, const KResult *r, int lead)
{
    if (said->number && r->rank)
        return kb_fail(B, "it returns a block value of %d axes, where the annotation says a number", r->rank), false;
    if (said->axes >= 0 && said->axes != r->rank + lead)
        return kb_fail(B, "it returns %d axes, where the annotation says %d", r->rank + lead, said->axes), false;
    if (said->dtype != DT_NONE && said->dtype != r->dtype)
        return kb_fail(B, "it returns %s, where the annotation says %s: tile.cast(v, %s)", dtype_info[r->dtype].name, dtype_info[said->dtype].name,
                       dtype_info[said->dtype].name), false;
    return true;
}

/* ------------------------------------------------------------- numbers */

/* A number is stored once, by the first lane of the first group. */
static void store_once(Body *B, TileRef view, TileRef value)
{
    KVal first = kb_compare(B, AOP_EQ, kb_group_id(B), kb_number(0)), lane = kb_compare(B, AOP_EQ, kb_local_id(B), kb_number(0));
    TileRef in[2] = {view, value};
    TileBlock *here = B->b.at;
    TileNode *n;
    bool alone = B->spec->lanes == 1;

    if (!alone)
        first = kb_apply(B, OP_bitand, (KVal[]){first, lane}, 2);
    n = kb_bad(first) ? NULL : tile_add(&B->b, TOP_if, NULL, &first.ref, 1);
    if (!n)
        return;
    B->b.at = n->region[0];
    kb_emit(B, TOP_store, NULL, in, 2);
    tile_yield(&B->b, NULL, 0);
    B->b.at = n->region[1];
    tile_yield(&B->b, NULL, 0);
    B->b.at = here;
}

/* A number of Python's is what the annotation says, as far as it can be. */
static DType result_dtype(KVal v, const Said *said)
{
    bool weak = v.kind == K_STATIC || v.kind == K_INT || v.weak;
    DType own = v.kind == K_SCALAR || v.kind == K_BLOCK              ? v.weak ? DT_f32 : (DType)tile_type(v.ref)->dtype
                : v.kind == K_STATIC && v.v.tag == V_FLOAT           ? DT_f32
                : v.kind == K_STATIC && v.v.tag == V_BOOL            ? DT_bool
                                                                     : DT_int64;
    bool widens = said->dtype != DT_NONE && (dtype_is_float(said->dtype) || (own == DT_int64 && said->dtype != DT_bool));

    return weak && v.kind != K_BLOCK && own != DT_bool && widens ? said->dtype : own;
}

/* ------------------------------------------------------------- blocks */

/* What a group returns is its matrix of the result: leading axes stand before those of the value. */
static int result_leading(Body *B, int rank, KPlace *p, TileType *t)
{
    const KSpec *s = B->spec;
    int n = s->led >= 0 ? kspec_leading(s, s->led) : 0;

    if (rank + n > VIEW_RANK) {
        kb_fail(B, "a kernel returns at most %d axes, of which %d say which matrix", VIEW_RANK, n);
        return 0;
    }
    for (int i = n; i-- > 0;) {
        KVal size = kb_size(B, kparam_axis_name(&s->param[s->led], i), kspec_extent(s, s->led, i));
        if (!kb_to_lin(B, size, &p->axis[i].size))
            return 0;
        p->axis[i].extent = p->axis[i].size;
        t->stride[i] = STRIDE_ANY;
    }
    return n;
}

bool lin_same(const Lin *a, const Lin *b)
{
    bool same = a->n == b->n && a->c == b->c;

    for (int i = 0; same && i < a->n; i++)
        same = a->t[i].k == b->t[i].k && a->t[i].r.node == b->t[i].r.node && a->t[i].r.index == b->t[i].r.index;
    return same;
}

/* Does the group's place along rows (0) or columns (1) count, and is the block as large as groups lie apart? */
static bool goes_along(const Body *B, const KResultAxis *x, int k)
{
    return B->offset[k] && x->extent == B->spec->sched[k ? SCHED_block_n : SCHED_block_m];
}

/* The whole of a dimension as the launch says how large it is: by a name, or a number. */
static bool whole_of(const Lin *size, KResultAxis *x)
{
    const TileNode *n = size->n == 1 && size->t[0].k == 1 && !size->c ? size->t[0].r.node : NULL;

    if (n && n->op == TOP_size)
        x->dim = n->attr->name;
    return x->dim || lin_number_of(size, &x->whole);
}

/* Where along rows or columns a result's axis is put, 1 or 2; 0: it is as large as the block. */
static int placed(Body *B, const AxisTag *tag, KResultAxis *x, int axis, int rank)
{
    int64_t ignored;

    for (int k = 0; k < 2; k++) {
        Lin at;
        if (!goes_along(B, x, k) || !kb_to_lin(B, *B->offset[k], &at))
            continue;
        if (tag->size.n + (tag->size.c != 0) && !tag->moved && lin_same(&at, &tag->start) && whole_of(&tag->size, x))
            return 1 + k;
    }
    for (int k = 0; k < 2; k++) {
        bool known = x->said ? kspec_dimension(B->spec, x->said, &ignored) : x->number >= 0 || tag->dim;
        bool here = rank >= 2 ? axis == rank - 2 + k : k == 0 || !goes_along(B, x, 0);
        if (known && here && goes_along(B, x, k)) {
            x->dim = x->said || x->number >= 0 ? x->said : tag->dim;
            x->whole = x->number;
            return 1 + k;
        }
    }
    return 0;
}

static bool give_axis(Body *B, KResultAxis *x, const AxisTag *tag, int axis, int rank, PlaceAxis *to)
{
    KVal at;

    x->dim = tag->dim;
    x->cut = tag->cut;
    x->extent = tag->none ? 0 : x->extent;
    to->extent = lin_number(x->extent);
    if (!x->cut) {
        x->along = (int8_t)placed(B, tag, x, axis, rank);
        x->cut = x->along > 0;
    }
    if (!x->cut)
        return true;
    at = group_offset(B, x->along ? x->along - 1 : B->spec->cut[1] == tag->dim);
    return kb_to_lin(B, at, &to->start);
}

/* Is it what a kernel returns? */
static bool may_be_result(Body *B, KVal v)
{
    if (kb_bad(v))
        return false;
    if (!kb_is_value(v) || v.kind == K_VECTOR)
        kb_fail(B, "a kernel returns numbers, elements and block values");
    else if (B->nresults == KERNEL_RESULTS)
        kb_fail(B, "a kernel returns at most %d values", KERNEL_RESULTS);
    return !B->failed;
}

/* The one element of a result without axes. */
static void give_element(Body *B, TileRef view, KVal v, DType dt)
{
    bool lanes = B->uses_lanes;

    store_once(B, view, kb_ref(B, v, dt));
    B->uses_lanes = lanes || (v.kind != K_STATIC && kb_lane_dependent(B, kb_ref(B, v, dt)));
}

static void give_result(Body *B, KVal v)
{
    int i = B->nresults, lead;
    KResult *r = &B->result[i];
    Said said = said_in(said_of(B, i));
    char name[24];
    TileType t = {.kind = TILE_VIEW};
    KPlace p = {.param = -1, .buffer = 1};

    v = kb_value(B, v);
    if (!may_be_result(B, v))
        return;
    snprintf(name, sizeof name, "result%d", B->nresults++);
    r->dtype = result_dtype(v, &said);
    r->rank = v.kind == K_BLOCK ? tile_type(v.ref)->rank : 0;
    lead = r->rank ? result_leading(B, r->rank, &p, &t) : 0;
    if (B->failed || !keeps(B, &said, r, lead))
        return;
    t.dtype = (uint8_t)r->dtype;
    t.rank = (uint8_t)(r->rank + lead);
    for (int k = lead; k < t.rank; k++)
        t.stride[k] = k == t.rank - 1 ? 1 : STRIDE_ANY;
    r->led = lead > 0;
    r->param = B->k->params.n;
    p.view = tile_param(B->k, sym(name), &t);
    if (!t.rank) {
        give_element(B, p.view, v, r->dtype);
        return;
    }
    p.rank = t.rank;
    p.dtype = r->dtype;
    for (int k = 0; k < r->rank; k++) {
        r->axis[k] = (KResultAxis){.extent = tile_type(v.ref)->extent[k], .number = -1};
        if (said.axes >= 0) {
            r->axis[k].said = said.dim[lead + k];
            r->axis[k].number = said.size[lead + k];
        }
        if (!give_axis(B, &r->axis[k], &v.tag[k], k, r->rank, &p.axis[lead + k]))
            return;
    }
    if (lead && !lead_take(B, &p, lead))
        return;
    kplace_store(B, &p, v);
}

void kb_give_results(Body *B)
{
    KVal *v = kb_var(B, sym("$value")), *item;
    int n;

    if (!v || v->kind == K_UNSET || (v->kind == K_STATIC && v->v.tag == V_NONE))
        return;
    n = v->kind == K_TUPLE ? kb_sequence(B, *v, &item) : -1;
    B->returns_tuple = n >= 0;
    if (!right_count(B, n))
        return;
    for (int i = 0; i < n && !B->failed; i++)
        give_result(B, item[i]);
    if (n < 0)
        give_result(B, *v);
}

/* ------------------------------------------------------------- how large */

int64_t kresult_extent(const KSpec *s, const KResultAxis *x)
{
    int64_t whole = x->dim ? launch_size(s, x->dim) : x->cut ? x->whole : x->extent;

    return x->cut || whole < x->extent ? whole : x->extent;
}

bool kresult_keeps(Launch *L, const KResult *r)
{
    for (int i = 0; i < r->rank; i++) {
        const KResultAxis *x = &r->axis[i];
        int64_t is = kresult_extent(&L->spec, x), said = x->number;
        char of[80] = "";
        if (x->said && !kspec_dimension(&L->spec, x->said, &said))
            continue;
        if (x->said)
            snprintf(of, sizeof of, "%.64s = ", x->said->text);
        if (said >= 0 && said != is)
            return launch_refuse(L, "E0623: kernel '%s' returns %lld elements along axis %d, where its annotation says %s%lld: "
                                 "what begins at block_m or block_n is put together", L->name, (long long)is, i, of, (long long)said);
    }
    return true;
}
