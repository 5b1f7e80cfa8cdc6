/*
 * Reading kernels of the Tile IR from text (text.c says how they look).
 *
 * A recursive descent over the text.  Nothing in it is trusted: numbers and
 * nesting are bounded, every node is typed as it is built and must have the
 * types that are written, and the result is verified.
 */
#include "ir/tile/tile_impl.h"

#include "base/map.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS_MAX = 256, NODES_MAX = 1 << 14 };

typedef Vec(TileRef) Refs;
typedef Vec(TileType) Types;
typedef Vec(int64_t) Numbers;

typedef struct Parser {
    const char *at, *end, *start;
    StrBuf *err;
    bool bad;
    int depth;
    TileKernel *k;
    Map value;                  /* number + 1 -> index in refs */
    Refs refs;                  /* of numbered values, in the order of their definition; those of closed blocks have no node */
} Parser;

static bool fail(Parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Parser *p, const char *fmt, ...)
{
    va_list ap;
    int line = 1;

    if (p->bad)
        return false;
    p->bad = true;
    for (const char *s = p->start; s < p->at; s++)
        line += *s == '\n';
    sb_printf(p->err, "line %d: ", line);
    va_start(ap, fmt);
    sb_vprintf(p->err, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- tokens ---- */

static void skip(Parser *p)
{
    while (p->at < p->end && (isspace((unsigned char)*p->at) || *p->at == '#')) {
        if (*p->at == '#')
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        else
            p->at++;
    }
}

static bool word_byte(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || (unsigned char)c >= 0x80; }

/* Is this text next? A word only as a whole. */
static bool accept(Parser *p, const char *text)
{
    size_t n = strlen(text);

    skip(p);
    if (p->bad || (size_t)(p->end - p->at) < n || memcmp(p->at, text, n))
        return false;
    if (word_byte(text[n - 1]) && p->at + n < p->end && word_byte(p->at[n]))
        return false;
    p->at += n;
    return true;
}

static bool expect(Parser *p, const char *text) { return accept(p, text) || fail(p, "expected '%s'", text); }

static Sym word(Parser *p)
{
    const char *from;

    skip(p);
    from = p->at;
    while (p->at < p->end && word_byte(*p->at))
        p->at++;
    if (p->at == from)
        fail(p, "expected a word");
    return sym_n(from, (size_t)(p->at - from));
}

static int64_t integer(Parser *p)
{
    char *end;
    long long v;

    skip(p);
    v = strtoll(p->at, &end, 10);
    if (end == p->at)
        fail(p, "expected a number");
    p->at = end;
    return v;
}

static int64_t integer_to(Parser *p, int64_t lo, int64_t hi)
{
    int64_t v = integer(p);

    if (!p->bad && (v < lo || v > hi))
        fail(p, "%lld is out of range", (long long)v);
    return p->bad ? lo : v;
}

static double number(Parser *p)
{
    char *end;
    double v;

    skip(p);
    v = strtod(p->at, &end);
    if (end == p->at)
        fail(p, "expected a number");
    p->at = end;
    return v;
}

static int hex_digit(char c) { return isdigit((unsigned char)c) ? c - '0' : (tolower((unsigned char)c) - 'a') + 10; }

static uint32_t unicode_escape(Parser *p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++, p->at++) {
        if (p->at >= p->end || !isxdigit((unsigned char)*p->at)) {
            fail(p, "bad escape");
            return 0;
        }
        v = v * 16 + (uint32_t)hex_digit(*p->at);
    }
    return v;
}

static Sym quoted(Parser *p)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    StrBuf b = {0};
    Sym s;

    expect(p, "\"");
    while (!p->bad && p->at < p->end && *p->at != '"') {
        char c = *p->at++;
        const char *esc;
        if (c == '\\' && p->at < p->end) {
            c = *p->at++;
            if (c == 'u') {
                sb_put_utf8(&b, unicode_escape(p));
                continue;
            }
            c = (esc = strchr(from, c)) ? to[esc - from] : c;
        }
        sb_putc(&b, c);
    }
    if (!p->bad && p->at >= p->end)
        fail(p, "a string does not end");
    p->at += !p->bad;
    s = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    return s;
}

/* ---- types ---- */

static uint8_t dtype(Parser *p)
{
    Sym w = word(p);
    DType dt = DT_f32;

    if (!p->bad && !dtype_find(w->text, &dt))
        fail(p, "'%.40s' is not a dtype", w->text);
    return (uint8_t)dt;
}

static uint8_t op_name(Parser *p)
{
    Sym w = word(p);
    OpId op = OP_neg;

    if (!p->bad && !op_find(w->text, &op))
        fail(p, "'%.40s' is not an op", w->text);
    return (uint8_t)op;
}

static void axis_entry(Parser *p, TileType *t)
{
    int i = t->rank++;

    if (t->kind != TILE_VIEW)
        t->extent[i] = (int32_t)integer_to(p, 1, TILE_ELEMENTS_MAX);
    else
        t->stride[i] = accept(p, "?") ? STRIDE_ANY : (int8_t)integer_to(p, 0, 1);
}

static TileType type(Parser *p)
{
    TileType t = {.kind = TILE_VALUE};

    if (accept(p, "index"))
        return (TileType){.kind = TILE_INDEX};
    if (accept(p, "view")) {
        t.kind = TILE_VIEW;
    } else if (accept(p, "tree")) {
        t.kind = TILE_TREE;
        t.op = op_name(p);
    }
    t.dtype = dtype(p);
    expect(p, "[");
    while (!p->bad && !accept(p, "]")) {
        if (t.rank)
            expect(p, ",");
        if (t.rank == TILE_RANK_MAX)
            fail(p, "more than %d axes", TILE_RANK_MAX);
        else
            axis_entry(p, &t);
    }
    if (t.kind == TILE_VIEW)
        t.space = accept(p, "shared") ? SPACE_SHARED : accept(p, "local") ? SPACE_LOCAL : SPACE_GLOBAL;
    return t;
}

/* ---- values ---- */

static TileRef value(Parser *p)
{
    static const TileRef none;
    uintptr_t at;

    expect(p, "%");
    if (p->bad)
        return none;
    if (p->at < p->end && isdigit((unsigned char)*p->at)) {
        int64_t n = integer(p);
        if (n >= 0 && map_find(&p->value, (uint64_t)n + 1, &at) && p->refs.at[at].node)
            return p->refs.at[at];
        fail(p, "%%%lld is not defined here", (long long)n);
        return none;
    }
    Sym name = word(p);
    for (int i = 0; i < p->k->params.n; i++)
        if (p->k->param_name.at[i] == name)
            return (TileRef){p->k->params.at[i], 0};
    fail(p, "there is no parameter %%%.40s", name->text);
    return none;
}

static void values(Parser *p, Refs *in, const char *close)
{
    if (accept(p, close))
        return;
    do
        vec_push(in, value(p));
    while (!p->bad && in->n < OPERANDS_MAX && accept(p, ","));
    expect(p, close);
}

static void define(Parser *p, int64_t n, TileRef v)
{
    if (p->bad)
        return;
    if (n < 0 || n > NODES_MAX || map_find(&p->value, (uint64_t)n + 1, NULL)) {
        fail(p, "%%%lld is defined twice, or its number is too large", (long long)n);
        return;
    }
    map_set(&p->value, (uint64_t)n + 1, (uintptr_t)p->refs.n);
    vec_push(&p->refs, v);
}

static int64_t new_number(Parser *p)
{
    expect(p, "%");
    return integer(p);
}

/* ---- attributes ---- */

static void list(Parser *p, TAttr *a, bool shape)
{
    expect(p, "(");
    while (!p->bad && !accept(p, ")")) {
        if (a->rank)
            expect(p, ",");
        if (a->rank >= TILE_RANK_MAX)
            fail(p, "more than %d axes", TILE_RANK_MAX);
        else if (shape)
            a->shape[a->rank++] = (int32_t)integer_to(p, 1, TILE_ELEMENTS_MAX);
        else
            a->axes[a->rank++] = (int8_t)integer_to(p, 0, TILE_RANK_MAX - 1);
    }
}

enum { STAGES_MAX = 16, PRODUCERS_MAX = 31 };

static int swizzle(Parser *p)
{
    int64_t bytes;

    if (accept(p, "xor"))
        return SWIZZLE_XOR;
    if (accept(p, "rows"))
        return SWIZZLE_ROWS;
    bytes = integer(p);
    if (bytes != SWIZZLE_32 && bytes != SWIZZLE_64 && bytes != SWIZZLE_128)
        fail(p, "a buffer is swizzled by xor, rows, 32, 64 or 128");
    return (int)bytes;
}

static bool attribute(Parser *p, TAttr *a, unsigned has)
{
#define IS(field) (has & TA_##field && accept(p, #field "="))
    if (IS(dtype))
        a->dtype = dtype(p);
    else if (IS(space))
        a->space = accept(p, "local") ? SPACE_LOCAL : (expect(p, "shared"), SPACE_SHARED);
    else if (IS(rounding))
        a->rounding = (uint8_t)integer_to(p, 0, ROUND_AWAY);
    else if (IS(saturate))
        a->saturate = (uint8_t)integer_to(p, 0, 1);
    else if (IS(flush))
        a->flush = (uint8_t)integer_to(p, 0, 1);
    else if (IS(fast))
        a->fast = (uint8_t)integer_to(p, 0, 1);
    else if (IS(drop))
        a->drop = (uint8_t)integer_to(p, 0, (1 << TILE_RANK_MAX) - 1);
    else if (IS(swizzle))
        a->swizzle = (uint8_t)swizzle(p);
    else if (IS(vector))
        a->vector = (uint8_t)integer_to(p, 1, 16);
    else if (IS(stages))
        a->stages = (uint8_t)integer_to(p, 1, STAGES_MAX);
    else if (IS(axis))
        a->axis = (int8_t)integer_to(p, 0, TILE_RANK_MAX - 1);
    else if (IS(shape))
        list(p, a, true);
    else if (IS(axes))
        list(p, a, false);
    else if (IS(i))
        a->i = integer(p);
    else if (IS(f))
        a->f = number(p);
    else if (IS(name))
        a->name = quoted(p);
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
    skip(p);
    if (p->at >= p->end || *p->at != '%')
        return;
    do {
        vec_push(&l->number, new_number(p));
        expect(p, ":");
        vec_push(&l->type, type(p));
    } while (!p->bad && l->type.n < OPERANDS_MAX && accept(p, ","));
    expect(p, "=");
}

/* On the line of their op: the next one may begin with a value too. */
static void operands(Parser *p, Line *l)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t'))
        p->at++;
    if (p->at >= p->end || *p->at != '%')
        return;
    vec_push(&l->in, value(p));
    if (accept(p, "["))
        values(p, &l->in, "]");
    while (!p->bad && l->in.n < OPERANDS_MAX && accept(p, ","))
        vec_push(&l->in, value(p));
}

static TileNode *add(Parser *p, TileBlock *b, Line *l)
{
    StrBuf why = {0};
    TileBuilder to = {p->k, b, {0, 0}, &why};
    TileNode *n = NULL;

    if (!p->bad && p->k->nnodes > NODES_MAX)
        fail(p, "the kernel is too large");
    if (!p->bad && !(n = tile_add(&to, l->op, &l->a, l->in.at, l->in.n)))
        fail(p, "%s", sb_str(&why));
    sb_done(&why);
    return p->bad ? NULL : n;
}

/* Are the types those that are written? Then the results have their numbers. */
static void give_numbers(Parser *p, const Line *l, TileNode *n)
{
    if (p->bad)
        return;
    if (n->nout != l->type.n) {
        fail(p, "%s gives %d results, %d are written", tile_op_info[n->op].name, n->nout, l->type.n);
        return;
    }
    for (int i = 0; i < n->nout; i++) {
        if (!tile_type_equal(&n->type[i], &l->type.at[i])) {
            StrBuf t = {0};
            tile_type_print(&n->type[i], &t);
            fail(p, "result %d of %s is %s, another type is written", i + 1, tile_op_info[n->op].name, sb_str(&t));
            sb_done(&t);
            return;
        }
        define(p, l->number.at[i], (TileRef){n, i});
    }
}

static void carries(Parser *p, Line *l, Numbers *inner)
{
    expect(p, "(");
    if (accept(p, ")"))
        return;
    do {
        vec_push(inner, new_number(p));
        expect(p, "=");
        vec_push(&l->in, value(p));
    } while (!p->bad && l->in.n < OPERANDS_MAX && accept(p, ","));
    expect(p, ")");
}

static void control_operands(Parser *p, Line *l, Numbers *inner)
{
    if (l->op == TOP_if) {
        vec_push(&l->in, value(p));
        return;
    }
    if (l->op == TOP_for) {
        vec_push(inner, new_number(p));
        expect(p, "=");
        vec_push(&l->in, value(p));
        expect(p, "to");
        vec_push(&l->in, value(p));
        expect(p, "step");
        vec_push(&l->in, value(p));
        if (accept(p, "stages="))
            l->a.stages = (uint8_t)integer_to(p, 1, STAGES_MAX);
        if (accept(p, "producers="))
            l->a.producers = (uint8_t)integer_to(p, 1, PRODUCERS_MAX);
        if (!accept(p, "carry"))
            return;
    } else {
        expect(p, "carry");
    }
    carries(p, l, inner);
}

static void name_params(Parser *p, TileBlock *b, const Numbers *inner)
{
    if (!p->bad && inner->n != b->params.n)
        fail(p, "the block has %d parameters, %d are written", b->params.n, inner->n);
    for (int i = 0; i < inner->n && !p->bad; i++)
        define(p, inner->at[i], (TileRef){b->params.at[i], 0});
}

static void do_params(Parser *p, Numbers *inner)
{
    inner->n = 0;
    expect(p, "do");
    expect(p, "(");
    if (accept(p, ")"))
        return;
    do
        vec_push(inner, new_number(p));
    while (!p->bad && inner->n < OPERANDS_MAX && accept(p, ","));
    expect(p, ")");
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
            expect(p, "else");
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
    if (accept(p, "{")) {
        while (!p->bad && attribute(p, &l->a, has))
            ;
        expect(p, "}");
    }
    if ((n = add(p, b, l)))
        give_numbers(p, l, n);
}

static void node(Parser *p, TileBlock *b)
{
    Line l = {.a = tattr_none};
    Sym name;

    results(p, &l);
    name = word(p);
    if (!p->bad && !tile_op_find(name->text, &l.op))
        fail(p, "'%.40s' is not an op of tiles", name->text);
    if (!p->bad && tile_op_info[l.op].regions)
        control(p, b, &l);
    else if (!p->bad)
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

    skip(p);
    if (said && p->at < p->end && *p->at == '%')
        do
            vec_push(&out, value(p));
        while (!p->bad && out.n < OPERANDS_MAX && accept(p, ","));
    if (!p->bad && !tile_yield(&at, out.at, out.n))
        fail(p, "%s", sb_str(&why));
    sb_done(&why);
    vec_free(&out);
}

/* "{", lines, "}". A block without a yield yields nothing. */
static void block(Parser *p, TileBlock *b)
{
    if (++p->depth > TILE_DEPTH_MAX)
        fail(p, "blocks are nested too deeply");
    expect(p, "{");
    while (!p->bad && !accept(p, "}"))
        if (accept(p, "yield"))
            yield(p, b, true);
        else
            node(p, b);
    if (!p->bad && b->owner && !b->closed)
        yield(p, b, false);
    p->depth--;
}

/* ---- kernels ---- */

static void params(Parser *p)
{
    expect(p, "(");
    while (!p->bad && !accept(p, ")")) {
        TileType t;
        Sym name;
        if (p->k->params.n)
            expect(p, ",");
        expect(p, "%");
        name = word(p);
        expect(p, ":");
        t = type(p);
        if (isdigit((unsigned char)name->text[0]) || p->k->params.n >= OPERANDS_MAX)
            fail(p, "'%.40s' is no name for a parameter, or there are too many", name->text);
        if (!p->bad)
            tile_param(p->k, name, &t);
    }
}

static void size_names(Parser *p)
{
    expect(p, "(");
    do {
        int n = p->k->size.n;
        tile_size(p->k, word(p));
        if (!p->bad && p->k->size.n == n)
            fail(p, "the same size twice");
    } while (!p->bad && accept(p, ","));
    expect(p, ")");
}

static Dim grid_variable(void *st, Sym name)
{
    const TileKernel *k = st;

    for (int i = 0; i < k->size.n; i++)
        if (k->size.at[i] == name)
            return k->size_var.at[i];
    return DIM_BAD;
}

/* A size expression up to a comma or the parenthesis that closes the list. */
static void grid_axis(Parser *p)
{
    const char *from;
    int depth = 0;
    StrBuf b = {0};
    Dim d = 0;

    skip(p);
    for (from = p->at; p->at < p->end && *p->at != '\n' && (depth || (*p->at != ',' && *p->at != ')')); p->at++)
        depth += *p->at == '(' ? 1 : *p->at == ')' ? -1 : 0;
    sb_write(&b, from, (size_t)(p->at - from));
    if (!dim_parse(sb_str(&b), grid_variable, p->k, &d) || p->k->grid.n == 3)
        fail(p, "'%.40s' is not a size of the grid's first three", sb_str(&b));
    vec_push(&p->k->grid, d);
    sb_done(&b);
}

static void kernel(Parser *p)
{
    expect(p, "kernel");
    expect(p, "@");
    p->k->name = word(p);
    params(p);
    if (accept(p, "sizes"))
        size_names(p);
    if (accept(p, "grid")) {
        expect(p, "(");
        do
            grid_axis(p);
        while (!p->bad && accept(p, ","));
        expect(p, ")");
    }
    if (accept(p, "lanes="))
        p->k->lanes = (int32_t)integer_to(p, 1, 1024);
    if (accept(p, "schedule="))
        p->k->schedule = quoted(p);
    block(p, &p->k->body);
}

static void text(Parser *p)
{
    expect(p, "tessera.tile");
    if (!accept(p, "v1"))
        fail(p, "only version 1 of the text form is known");
    if (accept(p, "hash="))             /* says what the text was; whoever edits it need not compute it */
        (void)word(p);
    kernel(p);
    skip(p);
    if (!p->bad && p->at != p->end)
        fail(p, "text behind the kernel");
    if (!p->bad && !tile_verify(p->k, p->err))
        p->bad = true;
}

TileKernel *tile_parse(const char *from, size_t len, StrBuf *err)
{
    StrBuf copy = {0};          /* with a NUL at the end, for strtod and friends */
    Parser p = {.err = err, .k = tile_kernel_new(NULL)};

    sb_write(&copy, from, len);
    p.at = p.start = sb_str(&copy);
    p.end = p.start + strlen(p.start);
    if (p.end - p.start != (ptrdiff_t)len)
        fail(&p, "the text contains a zero byte");
    else
        text(&p);
    map_done(&p.value);
    vec_free(&p.refs);
    sb_done(&copy);
    if (!p.bad)
        return p.k;
    tile_kernel_free(p.k);
    return NULL;
}
