/*
 * Reading kernels of the Tile IR from text (text.c says how they look).
 *
 * A recursive descent over the words of scan.h.  Nothing in it is trusted: numbers and
 * nesting are bounded, every node is typed as it is built and must have the
 * types that are written, and the result is verified.
 */
#include "ir/tile/tile_impl.h"

#include "base/map.h"
#include "ir/core/scan.h"

#include <ctype.h>
#include <string.h>

enum { OPERANDS_MAX = 256, NODES_MAX = 1 << 14 };

typedef Vec(TileRef) Refs;
typedef Vec(TileType) Types;
typedef Vec(int64_t) Numbers;

typedef struct Parser {
    Scan s;
    int depth;
    TileKernel *k;
    Map value;                  /* number + 1 -> index in refs */
    Map word;                   /* a name that is given to a value -> its number + 1 */
    int words;
    Refs refs;                  /* of numbered values, in the order of their definition; those of closed blocks have no node */
} Parser;

/* ---- types ---- */

static uint8_t op_name(Parser *p)
{
    Sym w = scan_word(&p->s);
    OpId op = OP_neg;

    if (!p->s.bad && !op_find(w->text, &op))
        scan_fail(&p->s, "'%.40s' is not an op", w->text);
    return (uint8_t)op;
}

static void axis_entry(Parser *p, TileType *t)
{
    int i = t->rank++;

    if (t->kind != TILE_VIEW)
        t->extent[i] = (int32_t)scan_between(&p->s, 1, TILE_ELEMENTS_MAX);
    else
        t->stride[i] = scan_accept(&p->s, "?") ? STRIDE_ANY : (int8_t)scan_between(&p->s, 0, 1);
}

static TileType type(Parser *p)
{
    TileType t = {.kind = TILE_VALUE};

    if (scan_accept(&p->s, "index"))
        return (TileType){.kind = TILE_INDEX};
    if (scan_accept(&p->s, "view")) {
        t.kind = TILE_VIEW;
    } else if (scan_accept(&p->s, "tree")) {
        t.kind = TILE_TREE;
        t.op = op_name(p);
    }
    t.dtype = scan_dtype(&p->s);
    scan_expect(&p->s, "[");
    while (!p->s.bad && !scan_accept(&p->s, "]")) {
        if (t.rank)
            scan_expect(&p->s, ",");
        if (t.rank == TILE_RANK_MAX)
            scan_fail(&p->s, "more than %d axes", TILE_RANK_MAX);
        else
            axis_entry(p, &t);
    }
    if (t.kind == TILE_VIEW)
        t.space = scan_accept(&p->s, "shared") ? SPACE_SHARED : scan_accept(&p->s, "local") ? SPACE_LOCAL : SPACE_GLOBAL;
    return t;
}

/* ---- values ---- */

static TileRef value(Parser *p)
{
    static const TileRef none;
    uintptr_t at;

    scan_expect(&p->s, "%");
    if (p->s.bad)
        return none;
    if (p->s.at < p->s.end && isdigit((unsigned char)*p->s.at)) {
        int64_t n = scan_integer(&p->s);
        if (n >= 0 && map_find(&p->value, (uint64_t)n + 1, &at) && p->refs.at[at].node)
            return p->refs.at[at];
        scan_fail(&p->s, "%%%lld is not defined here", (long long)n);
        return none;
    }
    Sym name = scan_word(&p->s);
    if (map_find(&p->word, (uintptr_t)name, &at) && map_find(&p->value, at, &at) && p->refs.at[at].node)
        return p->refs.at[at];
    for (int i = 0; i < p->k->params.n; i++)
        if (p->k->param_name.at[i] == name)
            return (TileRef){p->k->params.at[i], 0};
    scan_fail(&p->s, "there is no parameter %%%.40s", name->text);
    return none;
}

static void values(Parser *p, Refs *in, const char *close)
{
    if (scan_accept(&p->s, close))
        return;
    do
        vec_push(in, value(p));
    while (!p->s.bad && in->n < OPERANDS_MAX && scan_accept(&p->s, ","));
    scan_expect(&p->s, close);
}

static void define(Parser *p, int64_t n, TileRef v)
{
    if (p->s.bad)
        return;
    if (n < 0 || n > 2 * NODES_MAX || map_find(&p->value, (uint64_t)n + 1, NULL)) {
        scan_fail(&p->s, "%%%lld is defined twice, or its number is too large", (long long)n);
        return;
    }
    map_set(&p->value, (uint64_t)n + 1, (uintptr_t)p->refs.n);
    vec_push(&p->refs, v);
}

/* Who writes kernels by hand may give values names, which become numbers behind all others. */
static int64_t new_number(Parser *p)
{
    uintptr_t at;
    int64_t n;
    Sym name;

    scan_expect(&p->s, "%");
    if (p->s.bad || p->s.at >= p->s.end || !isalpha((unsigned char)*p->s.at))
        return scan_integer(&p->s);
    name = scan_word(&p->s);
    n = map_find(&p->word, (uintptr_t)name, &at) ? (int64_t)at - 1 : NODES_MAX + 1 + p->words++;
    map_set(&p->word, (uintptr_t)name, (uintptr_t)n + 1);
    return n;
}

/* ---- attributes ---- */

static void list(Parser *p, TAttr *a, bool shape)
{
    scan_expect(&p->s, "(");
    while (!p->s.bad && !scan_accept(&p->s, ")")) {
        if (a->rank)
            scan_expect(&p->s, ",");
        if (a->rank >= TILE_RANK_MAX)
            scan_fail(&p->s, "more than %d axes", TILE_RANK_MAX);
        else if (shape)
            a->shape[a->rank++] = (int32_t)scan_between(&p->s, 1, TILE_ELEMENTS_MAX);
        else
            a->axes[a->rank++] = (int8_t)scan_between(&p->s, 0, TILE_RANK_MAX - 1);
    }
}

enum { STAGES_MAX = 16, PRODUCERS_MAX = 31 };

static int swizzle(Parser *p)
{
    int64_t bytes;

    if (scan_accept(&p->s, "xor"))
        return SWIZZLE_XOR;
    if (scan_accept(&p->s, "rows"))
        return SWIZZLE_ROWS;
    bytes = scan_integer(&p->s);
    if (bytes != SWIZZLE_32 && bytes != SWIZZLE_64 && bytes != SWIZZLE_128)
        scan_fail(&p->s, "a buffer is swizzled by xor, rows, 32, 64 or 128");
    return (int)bytes;
}

static int alignment(Parser *p)
{
    int64_t n = scan_between(&p->s, 2, ALIGN_MOST);

    if (n & (n - 1))
        scan_fail(&p->s, "what is known to divide a size is a power of two");
    return (int)n;
}

static bool attribute(Parser *p, TAttr *a, unsigned has)
{
#define IS(field) (has & TA_##field && scan_accept(&p->s, #field "="))
    if (IS(dtype))
        a->dtype = scan_dtype(&p->s);
    else if (IS(space))
        a->space = scan_accept(&p->s, "local") ? SPACE_LOCAL : (scan_expect(&p->s, "shared"), SPACE_SHARED);
    else if (IS(rounding))
        a->rounding = (uint8_t)scan_between(&p->s, 0, ROUND_AWAY);
    else if (IS(saturate))
        a->saturate = (uint8_t)scan_between(&p->s, 0, 1);
    else if (IS(flush))
        a->flush = (uint8_t)scan_between(&p->s, 0, 1);
    else if (IS(fast))
        a->fast = (uint8_t)scan_between(&p->s, 0, 1);
    else if (IS(drop))
        a->drop = (uint8_t)scan_between(&p->s, 0, (1 << TILE_RANK_MAX) - 1);
    else if (IS(swizzle))
        a->swizzle = (uint8_t)swizzle(p);
    else if (IS(align))
        a->align = (uint16_t)alignment(p);
    else if (IS(vector))
        a->vector = (uint8_t)scan_between(&p->s, 1, 16);
    else if (IS(within))
        a->within = (uint8_t)scan_between(&p->s, 0, 1);
    else if (IS(stages))
        a->stages = (uint8_t)scan_between(&p->s, 1, STAGES_MAX);
    else if (IS(axis))
        a->axis = (int8_t)scan_between(&p->s, 0, TILE_RANK_MAX - 1);
    else if (IS(shape))
        list(p, a, true);
    else if (IS(axes))
        list(p, a, false);
    else if (IS(i))
        a->i = scan_integer(&p->s);
    else if (IS(f))
        a->f = scan_number(&p->s);
    else if (IS(name))
        a->name = scan_quoted(&p->s);
    else
        return false;
#undef IS
    return true;
}

/* ---- nodes ---- */

typedef struct Line {           /* what a line says */
    Numbers number;
    Types type;
    Refs in;
    TileOp op;
    TAttr a;
} Line;

static void block(Parser *p, TileBlock *b);

static void results(Parser *p, Line *l)
{
    scan_skip(&p->s);
    if (p->s.at >= p->s.end || *p->s.at != '%')
        return;
    do {
        vec_push(&l->number, new_number(p));
        scan_expect(&p->s, ":");
        vec_push(&l->type, type(p));
    } while (!p->s.bad && l->type.n < OPERANDS_MAX && scan_accept(&p->s, ","));
    scan_expect(&p->s, "=");
}

/* On the line of their op: the next one may begin with a value too. */
static void operands(Parser *p, Line *l)
{
    while (p->s.at < p->s.end && (*p->s.at == ' ' || *p->s.at == '\t'))
        p->s.at++;
    if (p->s.at >= p->s.end || *p->s.at != '%')
        return;
    vec_push(&l->in, value(p));
    if (scan_accept(&p->s, "["))
        values(p, &l->in, "]");
    while (!p->s.bad && l->in.n < OPERANDS_MAX && scan_accept(&p->s, ","))
        vec_push(&l->in, value(p));
}

static TileNode *add(Parser *p, TileBlock *b, Line *l)
{
    StrBuf why = {0};
    TileBuilder to = {p->k, b, {0, 0}, &why};
    TileNode *n = NULL;

    if (!p->s.bad && p->k->nnodes > NODES_MAX)
        scan_fail(&p->s, "the kernel is too large");
    if (!p->s.bad && !(n = tile_add(&to, l->op, &l->a, l->in.at, l->in.n)))
        scan_fail(&p->s, "%s", sb_str(&why));
    sb_done(&why);
    return p->s.bad ? NULL : n;
}

/* Are the types those that are written? Then the results have their numbers. */
static void give_numbers(Parser *p, const Line *l, TileNode *n)
{
    if (p->s.bad)
        return;
    if (n->nout != l->type.n) {
        scan_fail(&p->s, "%s gives %d results, %d are written", tile_op_info[n->op].name, n->nout, l->type.n);
        return;
    }
    for (int i = 0; i < n->nout; i++) {
        if (!tile_type_equal(&n->type[i], &l->type.at[i])) {
            StrBuf t = {0};
            tile_type_print(&n->type[i], &t);
            scan_fail(&p->s, "result %d of %s is %s, another type is written", i + 1, tile_op_info[n->op].name, sb_str(&t));
            sb_done(&t);
            return;
        }
        define(p, l->number.at[i], (TileRef){n, i});
    }
}

static void carries(Parser *p, Line *l, Numbers *inner)
{
    scan_expect(&p->s, "(");
    if (scan_accept(&p->s, ")"))
        return;
    do {
        vec_push(inner, new_number(p));
        scan_expect(&p->s, "=");
        vec_push(&l->in, value(p));
    } while (!p->s.bad && l->in.n < OPERANDS_MAX && scan_accept(&p->s, ","));
    scan_expect(&p->s, ")");
}

static void control_operands(Parser *p, Line *l, Numbers *inner)
{
    if (l->op == TOP_if) {
        vec_push(&l->in, value(p));
        return;
    }
    if (l->op == TOP_for) {
        vec_push(inner, new_number(p));
        scan_expect(&p->s, "=");
        vec_push(&l->in, value(p));
        scan_expect(&p->s, "to");
        vec_push(&l->in, value(p));
        scan_expect(&p->s, "step");
        vec_push(&l->in, value(p));
        if (scan_accept(&p->s, "stages="))
            l->a.stages = (uint8_t)scan_between(&p->s, 1, STAGES_MAX);
        if (scan_accept(&p->s, "producers="))
            l->a.producers = (uint8_t)scan_between(&p->s, 1, PRODUCERS_MAX);
        if (!scan_accept(&p->s, "carry"))
            return;
    } else {
        scan_expect(&p->s, "carry");
    }
    carries(p, l, inner);
}

static void name_params(Parser *p, TileBlock *b, const Numbers *inner)
{
    if (!p->s.bad && inner->n != b->params.n)
        scan_fail(&p->s, "the block has %d parameters, %d are written", b->params.n, inner->n);
    for (int i = 0; i < inner->n && !p->s.bad; i++)
        define(p, inner->at[i], (TileRef){b->params.at[i], 0});
}

static void do_params(Parser *p, Numbers *inner)
{
    inner->n = 0;
    scan_expect(&p->s, "do");
    scan_expect(&p->s, "(");
    if (scan_accept(&p->s, ")"))
        return;
    do
        vec_push(inner, new_number(p));
    while (!p->s.bad && inner->n < OPERANDS_MAX && scan_accept(&p->s, ","));
    scan_expect(&p->s, ")");
}

static void region(Parser *p, TileBlock *b, const Numbers *inner)
{
    int from = p->refs.n;

    name_params(p, b, inner);
    block(p, b);
    for (int i = from; i < p->refs.n; i++)
        p->refs.at[i].node = NULL;              /* what a block defines is not seen behind it */
}

static void control(Parser *p, TileBlock *b, Line *l)
{
    Numbers inner = {0};
    TileNode *n;

    control_operands(p, l, &inner);
    if ((n = add(p, b, l))) {
        region(p, n->region[0], &inner);
        if (l->op == TOP_if) {
            scan_expect(&p->s, "else");
            region(p, n->region[1], &inner);
        } else if (l->op == TOP_while) {
            do_params(p, &inner);
            region(p, n->region[1], &inner);
        }
        give_numbers(p, l, n);
    }
    vec_free(&inner);
}

static void plain(Parser *p, TileBlock *b, Line *l)
{
    unsigned has = tile_op_fields(l->op);
    TileNode *n;

    if (has & TA_op)
        l->a.op = op_name(p);
    operands(p, l);
    if (scan_accept(&p->s, "{")) {
        while (!p->s.bad && attribute(p, &l->a, has))
            ;
        scan_expect(&p->s, "}");
    }
    if ((n = add(p, b, l)))
        give_numbers(p, l, n);
}

static void node(Parser *p, TileBlock *b)
{
    Line l = {.a = tattr_none};
    Sym name;

    results(p, &l);
    name = scan_word(&p->s);
    if (!p->s.bad && !tile_op_find(name->text, &l.op))
        scan_fail(&p->s, "'%.40s' is not an op of tiles", name->text);
    if (!p->s.bad && tile_op_info[l.op].regions)
        control(p, b, &l);
    else if (!p->s.bad)
        plain(p, b, &l);
    vec_free(&l.number);
    vec_free(&l.type);
    vec_free(&l.in);
}

static void yield(Parser *p, TileBlock *b, bool said)
{
    StrBuf why = {0};
    TileBuilder at = {p->k, b, {0, 0}, &why};
    Refs out = {0};

    scan_skip(&p->s);
    if (said && p->s.at < p->s.end && *p->s.at == '%')
        do
            vec_push(&out, value(p));
        while (!p->s.bad && out.n < OPERANDS_MAX && scan_accept(&p->s, ","));
    if (!p->s.bad && !tile_yield(&at, out.at, out.n))
        scan_fail(&p->s, "%s", sb_str(&why));
    sb_done(&why);
    vec_free(&out);
}

/* "{", lines, "}". A block without a yield yields nothing. */
static void block(Parser *p, TileBlock *b)
{
    if (++p->depth > TILE_DEPTH_MAX)
        scan_fail(&p->s, "blocks are nested too deeply");
    scan_expect(&p->s, "{");
    while (!p->s.bad && !scan_accept(&p->s, "}"))
        if (scan_accept(&p->s, "yield"))
            yield(p, b, true);
        else
            node(p, b);
    if (!p->s.bad && b->owner && !b->closed)
        yield(p, b, false);
    p->depth--;
}

/* ---- kernels ---- */

static void params(Parser *p)
{
    scan_expect(&p->s, "(");
    while (!p->s.bad && !scan_accept(&p->s, ")")) {
        TileType t;
        Sym name;
        if (p->k->params.n)
            scan_expect(&p->s, ",");
        scan_expect(&p->s, "%");
        name = scan_word(&p->s);
        scan_expect(&p->s, ":");
        t = type(p);
        if (isdigit((unsigned char)name->text[0]) || p->k->params.n >= OPERANDS_MAX)
            scan_fail(&p->s, "'%.40s' is no name for a parameter, or there are too many", name->text);
        if (!p->s.bad)
            tile_param(p->k, name, &t);
    }
}

static void size_names(Parser *p)
{
    scan_expect(&p->s, "(");
    do {
        int n = p->k->size.n;
        tile_size(p->k, scan_word(&p->s));
        if (!p->s.bad && p->k->size.n == n)
            scan_fail(&p->s, "the same size twice");
    } while (!p->s.bad && scan_accept(&p->s, ","));
    scan_expect(&p->s, ")");
}

static Dim grid_variable(void *st, Sym name)
{
    const TileKernel *k = st;

    for (int i = 0; i < k->size.n; i++)
        if (k->size.at[i] == name)
            return k->size_var.at[i];
    return DIM_BAD;
}

static void grid_axis(Parser *p)
{
    Dim d = scan_size(&p->s, ",)", grid_variable, p->k);

    if (p->k->grid.n == 3)
        scan_fail(&p->s, "a grid has at most three axes");
    vec_push(&p->k->grid, d);
}

static void kernel(Parser *p)
{
    scan_expect(&p->s, "kernel");
    scan_expect(&p->s, "@");
    p->k->name = scan_word(&p->s);
    params(p);
    if (scan_accept(&p->s, "sizes"))
        size_names(p);
    if (scan_accept(&p->s, "grid")) {
        scan_expect(&p->s, "(");
        do
            grid_axis(p);
        while (!p->s.bad && scan_accept(&p->s, ","));
        scan_expect(&p->s, ")");
    }
    if (scan_accept(&p->s, "lanes="))
        p->k->lanes = (int32_t)scan_between(&p->s, 1, 1024);
    if (scan_accept(&p->s, "schedule="))
        p->k->schedule = scan_quoted(&p->s);
    block(p, &p->k->body);
}

static void text(Parser *p)
{
    scan_expect(&p->s, "tessera.tile");
    scan_heading(&p->s);
    kernel(p);
    scan_finish(&p->s, "kernel");
    if (!p->s.bad && !tile_verify(p->k, p->s.err))
        p->s.bad = true;
}

TileKernel *tile_parse(const char *from, size_t len, StrBuf *err)
{
    Parser p = {.k = tile_kernel_new(NULL)};

    scan_init(&p.s, from, len, err);
    text(&p);
    map_done(&p.value);
    map_done(&p.word);
    vec_free(&p.refs);
    scan_done(&p.s);
    if (!p.s.bad)
        return p.k;
    tile_kernel_free(p.k);
    return NULL;
}
