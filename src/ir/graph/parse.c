/*
 * Reading graphs from text (text.c says how they look).
 *
 * A recursive descent over the text.  Nothing in it is trusted: numbers,
 * nesting and sizes are bounded, every node is typed by the op table and must
 * agree with the type that is written, effects and tokens must be those that the
 * op has here, and the result is verified.
 */
#include "ir/graph/read.h"
#include "runtime/tensor.h"

#include <ctype.h>
#include <string.h>

enum { DEPTH_MAX = 32, VALUES_MAX = 1 << 20 };

typedef struct Scope {
    Graph *g;
    Vec(GValue) value;          /* by number */
    uint32_t next[EFFECT_COUNT];        /* the token of each ordered effect that comes next */
} Scope;

/* -- nodes ------------------------------------------------------------------------------------------------------------------------ */

static Graph *graph(Reader *p);

static GValue value(Reader *p, Scope *s)
{
    int64_t v;

    read_expect(p, "%");
    v = read_integer(p);
    if (p->bad || v < 0 || v >= s->value.n) {
        read_fail(p, "%%%lld is not defined", (long long)v);
        return (GValue){NULL, 0};
    }
    return s->value.at[v];
}

static void define(Reader *p, Scope *s, int64_t n, GValue v)
{
    if (n != s->value.n || n >= VALUES_MAX)
        read_fail(p, "expected %%%d here", s->value.n);
    else
        vec_push(&s->value, v);
}

typedef struct Line {           /* what a line of a node says */
    const char *start;
    Vec(int64_t) number;
    Vec(TType) type;
    Vec(GValue) in;
    OpId op;
    Attr a;
    uint32_t again;
    bool says_effects, says_token;
    unsigned effects, ordered;          /* as written: flags, and those with a token */
    int64_t token[EFFECT_COUNT];
} Line;

static void results(Reader *p, Line *l)
{
    if (!read_accept(p, "%"))
        return;
    do {
        vec_push(&l->number, read_integer(p));
        read_expect(p, ":");
        vec_push(&l->type, read_type(p));
    } while (!p->bad && read_accept(p, ",") && read_expect(p, "%"));
    read_expect(p, "=");
}

static void operands(Reader *p, Scope *s, Line *l)
{
    read_expect(p, "(");
    if (read_accept(p, ")"))
        return;
    do
        vec_push(&l->in, value(p, s));
    while (!p->bad && l->in.n < 4096 && read_accept(p, ","));
    read_expect(p, ")");
}

static int effect(Reader *p)
{
    Sym w = read_word(p);

    for (int i = 0; i < EFFECT_COUNT; i++)
        if (!strcmp(w->text, op_effect[i].name))
            return i;
    read_fail(p, "'%.40s' is not an effect", w->text);
    return 0;
}

static void effects(Reader *p, Line *l)
{
    do
        l->effects |= op_effect[effect(p)].flag;
    while (!p->bad && read_accept(p, ","));
    read_expect(p, "]");
}

static void tokens(Reader *p, Line *l)
{
    if (read_accept(p, "free"))
        return;
    do {
        int e = effect(p);
        read_expect(p, ":");
        l->token[e] = read_integer(p);
        l->ordered |= op_effect[e].flag;
    } while (!p->bad && read_accept(p, ","));
}

/* What is written about effects must be what the op has, in the order of the text. */
static void effects_agree(Reader *p, Scope *s, const Line *l, const Node *n)
{
    unsigned flags = node_effects(n);

    if (l->says_effects && l->effects != flags)
        read_fail(p, "%s has other effects than are written", op_info[n->op].name);
    for (int i = 0; i < EFFECT_COUNT && !p->bad; i++) {
        const OpEffect *e = &op_effect[i];
        bool has = flags & e->flag && e->ordered;
        if (l->says_token && has != !!(l->ordered & e->flag))
            read_fail(p, "%s %s a token of %s", op_info[n->op].name, has ? "needs" : "has no use for", e->name);
        else if (l->says_token && has && l->token[i] != s->next[i])
            read_fail(p, "token %s:%lld where %s:%u is next", e->name, (long long)l->token[i], e->name, s->next[i]);
        s->next[i] += has;
    }
}

static void rest(Reader *p, Line *l)
{
    l->a = attr_default();
    if (read_accept(p, "{")) {
        read_skip(p);
        while (!p->bad && read_attribute(p, &l->a))
            read_skip(p);
        read_expect(p, "}");
    }
    if (read_accept(p, "recompute="))
        l->again = (uint32_t)read_integer(p);
    if ((l->says_effects = read_accept(p, "effects=[")))
        effects(p, l);
    if ((l->says_token = read_accept(p, "token=")))
        tokens(p, l);
    while (!p->bad && read_accept(p, "region")) {
        int64_t k = read_integer(p);
        if (k < 0 || k > 3 || l->a.region[k])
            read_fail(p, "bad region");
        else
            l->a.region[k] = graph(p);
    }
}

/* Type the node and compare with what is written. */
static void types_agree(Reader *p, Line *l)
{
    int n = l->in.n, nout = 0, code;
    TType *x = tsr_alloc(sizeof *x * (size_t)(n + 1)), *y = tsr_alloc(sizeof *y * (size_t)graph_max_results(l->op, &l->a));
    StrBuf why = {0};

    for (int i = 0; i < n; i++)
        x[i] = *gvalue_type(l->in.at[i]);
    dim_push();
    for (int i = 0; i < p->conds.n; i++)
        dim_cond_assume(&p->conds.at[i]);
    if (!op_infer(l->op, &l->a, x, n, y, &nout, &why, &code))
        read_fail(p, "%s", sb_str(&why));
    else if (nout != l->type.n)
        read_fail(p, "%s gives %d results, %d are written", op_info[l->op].name, nout, l->type.n);
    for (int i = 0; i < nout && !p->bad; i++) {
        if (!result_fits(l->op, &l->type.at[i], &y[i]))
            read_fail(p, "result %d of %s has another type", i, op_info[l->op].name);
        l->type.at[i].weak = y[i].weak;
        l->type.at[i].policy = y[i].policy;
    }
    dim_pop();
    sb_done(&why);
    tsr_free(x);
    tsr_free(y);
}

/* What is wrong with a node is reported at its line. */
static void append(Reader *p, Scope *s, Line *l)
{
    const char *behind = p->at;
    Node *node;

    p->at = l->start;
    types_agree(p, l);
    if (p->bad)
        return;
    node = graph_append(s->g, l->op, &l->a, l->in.at, l->in.n, l->type.at, l->type.n, (Span){0, 0});
    node->again = l->again;
    effects_agree(p, s, l, node);
    if (!p->bad)
        p->at = behind;
    for (int i = 0; i < l->type.n; i++)
        define(p, s, l->number.at[i], (GValue){node, i});
}

static int depth_of_scope(Sym scope)
{
    int depth = 1;

    for (const char *c = scope->text; *c; c++)
        depth += *c == ' ';
    return depth;
}

/* "device=gpu:0 {" or its end; false: a node follows, or the end of the graph. */
static bool scope_line(Reader *p, Scope *s)
{
    static const char *const keys[] = {"device=", "mesh_axis=", "auto=", "op="};
    Sym outer = s->g->scope;
    const char *from;
    StrBuf b = {0};
    bool known = false;

    if (outer && read_accept(p, "}")) {
        const char *last = strrchr(outer->text, ' ');
        s->g->scope = last ? sym_n(outer->text, (size_t)(last - outer->text)) : NULL;
        return true;
    }
    read_skip(p);
    from = p->at;
    for (size_t i = 0; !known && i < sizeof keys / sizeof *keys; i++)
        known = read_accept(p, keys[i]);
    if (!known)
        return false;
    while (p->at < p->end && !isspace((unsigned char)*p->at) && *p->at != '{')
        p->at++;
    sb_printf(&b, "%s%s%.*s", outer ? outer->text : "", outer ? " " : "", (int)(p->at - from), from);
    s->g->scope = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    if (depth_of_scope(s->g->scope) > DEPTH_MAX)
        read_fail(p, "blocks are nested too deeply");
    return read_expect(p, "{");
}

static void node(Reader *p, Scope *s)
{
    Line l = {.a = attr_default()};
    Sym name;

    read_skip(p);
    l.start = p->at;
    results(p, &l);
    name = read_word(p);
    if (!p->bad && !op_find(name->text, &l.op))
        read_fail(p, "'%.40s' is not an op", name->text);
    if (!p->bad)
        operands(p, s, &l);
    if (!p->bad)
        rest(p, &l);
    if (!p->bad)
        append(p, s, &l);
    for (int k = 0; k < 4; k++)
        graph_unref(l.a.region[k]);
    tensor_unref(l.a.value);
    vec_free(&l.number);
    vec_free(&l.type);
    vec_free(&l.in);
}

static void params(Reader *p, Scope *s)
{
    read_expect(p, "(");
    if (read_accept(p, ")"))
        return;
    do {
        TType y;
        int64_t n;
        read_expect(p, "%");
        n = read_integer(p);
        read_expect(p, ":");
        y = read_type(p);
        if (read_accept(p, "policy("))
            y.policy = read_policy(p);
        if (!p->bad)
            define(p, s, n, graph_param(s->g, &y));
    } while (!p->bad && read_accept(p, ","));
    read_expect(p, ")");
}

static void conditions(Reader *p, Graph *g)
{
    if (!read_accept(p, "where "))
        return;
    do {
        DimCond c = {.a = read_size(p, "=!>")};
        if (read_accept(p, "=="))
            c.rel = DIM_IS_EQ;
        else if (read_accept(p, "!="))
            c.rel = DIM_IS_NE;
        else if (read_expect(p, ">="))
            c.rel = DIM_IS_GE;
        c.b = read_size(p, ",{");
        vec_push(&g->conds, c);
        vec_push(&p->conds, c);
    } while (!p->bad && read_accept(p, ","));
}

static Graph *graph(Reader *p)
{
    Scope s = {0};
    Vec(int64_t) result = {0};
    int outer;

    if (++p->depth > DEPTH_MAX)
        read_fail(p, "regions are nested too deeply");
    read_expect(p, "graph");
    read_expect(p, "@");
    read_skip(p);
    s.g = graph_new(*p->at == '"' ? read_quoted(p) : read_word(p));
    params(p, &s);
    read_expect(p, "->");
    read_expect(p, "(");
    if (!read_accept(p, ")")) {
        do {
            read_expect(p, "%");
            vec_push(&result, read_integer(p));
        } while (!p->bad && read_accept(p, ","));
        read_expect(p, ")");
    }
    outer = p->conds.n;
    conditions(p, s.g);
    read_expect(p, "{");
    while (!p->bad) {
        if (scope_line(p, &s))
            continue;
        if (p->bad || read_accept(p, "}"))
            break;
        node(p, &s);
    }
    s.g->scope = NULL;
    for (int i = 0; i < result.n && !p->bad; i++)
        if (result.at[i] < 0 || result.at[i] >= s.value.n)
            read_fail(p, "result %%%lld is not defined", (long long)result.at[i]);
        else
            graph_result(s.g, s.value.at[result.at[i]]);
    p->depth--;
    p->conds.n = outer;
    vec_free(&result);
    vec_free(&s.value);
    return s.g;
}

Graph *graph_parse(const char *text, size_t len, StrBuf *err)
{
    StrBuf copy = {0};          /* with a NUL at the end, for strtod and friends */
    Reader p = {.err = err};
    Graph *g = NULL;

    sb_write(&copy, text, len);
    p.at = p.start = sb_str(&copy);
    p.end = p.start + strlen(p.start);
    if (p.end - p.start != (ptrdiff_t)len)
        read_fail(&p, "the text contains a zero byte");
    if (!read_accept(&p, "tessera.schedule v"))          /* a graph with fused nodes */
        read_expect(&p, "tessera.graph v");
    if (!p.bad && read_integer(&p) != 1)
        read_fail(&p, "only version 1 of the text form is known");
    if (read_accept(&p, "hash="))            /* says what the text was; whoever edits it need not compute it */
        (void)read_word(&p);
    if (!p.bad)
        g = graph(&p);
    read_skip(&p);
    if (!p.bad && p.at != p.end)
        read_fail(&p, "text behind the graph");
    if (!p.bad && !graph_verify(g, err))
        p.bad = true;
    map_done(&p.sizes);
    vec_free(&p.conds);
    sb_done(&copy);
    if (p.bad) {
        graph_unref(g);
        return NULL;
    }
    return g;
}

