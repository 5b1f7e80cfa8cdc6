/*
 * Reading graphs from text (text.c says how they look).
 *
 * A recursive descent over the text.  Nothing in it is trusted: numbers,
 * nesting and sizes are bounded, every node is typed by the op table and must
 * agree with the type that is written, effects and tokens must be those that the
 * op has here, and the result is verified.
 */
#include "ir/graph/read.h"
#include "ir/graph/trace.h"
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

    scan_expect(&p->s, "%");
    v = scan_integer(&p->s);
    if (p->s.bad || v < 0 || v >= s->value.n) {
        scan_fail(&p->s, "%%%lld is not defined", (long long)v);
        return (GValue){NULL, 0};
    }
    return s->value.at[v];
}

static void define(Reader *p, Scope *s, int64_t n, GValue v)
{
    if (n != s->value.n || n >= VALUES_MAX)
        scan_fail(&p->s, "expected %%%d here", s->value.n);
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
    if (!scan_accept(&p->s, "%"))
        return;
    do {
        vec_push(&l->number, scan_integer(&p->s));
        scan_expect(&p->s, ":");
        vec_push(&l->type, read_type(p));
    } while (!p->s.bad && scan_accept(&p->s, ",") && scan_expect(&p->s, "%"));
    scan_expect(&p->s, "=");
}

static void operands(Reader *p, Scope *s, Line *l)
{
    scan_expect(&p->s, "(");
    if (scan_accept(&p->s, ")"))
        return;
    do
        vec_push(&l->in, value(p, s));
    while (!p->s.bad && l->in.n < 4096 && scan_accept(&p->s, ","));
    scan_expect(&p->s, ")");
}

static int effect(Reader *p)
{
    Sym w = scan_word(&p->s);

    for (int i = 0; i < EFFECT_COUNT; i++)
        if (!strcmp(w->text, op_effect[i].name))
            return i;
    scan_fail(&p->s, "'%.40s' is not an effect", w->text);
    return 0;
}

static void effects(Reader *p, Line *l)
{
    do
        l->effects |= op_effect[effect(p)].flag;
    while (!p->s.bad && scan_accept(&p->s, ","));
    scan_expect(&p->s, "]");
}

static void tokens(Reader *p, Line *l)
{
    if (scan_accept(&p->s, "free"))
        return;
    do {
        int e = effect(p);
        scan_expect(&p->s, ":");
        l->token[e] = scan_integer(&p->s);
        l->ordered |= op_effect[e].flag;
    } while (!p->s.bad && scan_accept(&p->s, ","));
}

/* What is written about effects must be what the op has, in the order of the text. */
static void effects_agree(Reader *p, Scope *s, const Line *l, const Node *n)
{
    unsigned flags = node_effects(n);

    if (l->says_effects && l->effects != flags)
        scan_fail(&p->s, "%s has other effects than are written", op_info[n->op].name);
    for (int i = 0; i < EFFECT_COUNT && !p->s.bad; i++) {
        const OpEffect *e = &op_effect[i];
        bool has = flags & e->flag && e->ordered;
        if (l->says_token && has != !!(l->ordered & e->flag))
            scan_fail(&p->s, "%s %s a token of %s", op_info[n->op].name, has ? "needs" : "has no use for", e->name);
        else if (l->says_token && has && l->token[i] != s->next[i])
            scan_fail(&p->s, "token %s:%lld where %s:%u is next", e->name, (long long)l->token[i], e->name, s->next[i]);
        s->next[i] += has;
    }
}

/* Which region follows; -1: none. */
static int region_key(Reader *p)
{
    static const char *const key[] = {"region0", "region1", "region2", "region3"};

    for (int k = 0; k < 4; k++)
        if (scan_accept(&p->s, key[k]))
            return k;
    return -1;
}

static void rest(Reader *p, Line *l)
{
    int k;

    l->a = attr_default();
    if (scan_accept(&p->s, "{")) {
        scan_skip(&p->s);
        while (!p->s.bad && read_attribute(p, &l->a))
            scan_skip(&p->s);
        scan_expect(&p->s, "}");
    }
    if (scan_accept(&p->s, "recompute="))
        l->again = (uint32_t)scan_integer(&p->s);
    if ((l->says_effects = scan_accept(&p->s, "effects=[")))
        effects(p, l);
    if ((l->says_token = scan_accept(&p->s, "token=")))
        tokens(p, l);
    while (!p->s.bad && (k = region_key(p)) >= 0)
        if (l->a.region[k])
            scan_fail(&p->s, "bad region");
        else
            l->a.region[k] = graph(p);
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
        scan_fail(&p->s, "%s", sb_str(&why));
    else if (nout != l->type.n)
        scan_fail(&p->s, "%s gives %d results, %d are written", op_info[l->op].name, nout, l->type.n);
    for (int i = 0; i < nout && !p->s.bad; i++) {
        if (!result_fits(l->op, &l->type.at[i], &y[i]))
            scan_fail(&p->s, "result %d of %s has another type", i, op_info[l->op].name);
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
    const char *behind = p->s.at;
    Node *node;

    p->s.at = l->start;
    types_agree(p, l);
    if (p->s.bad)
        return;
    node = graph_append(s->g, l->op, &l->a, l->in.at, l->in.n, l->type.at, l->type.n, (Span){0, 0});
    node->again = l->again;
    effects_agree(p, s, l, node);
    if (!p->s.bad)
        p->s.at = behind;
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
    static const char *const keys[] = {"device=", "mesh_axis=", "auto=", "op=", SCOPE_FUSION, SCOPE_CALL};
    Sym outer = s->g->scope;
    const char *from;
    StrBuf b = {0};
    bool known = false;

    if (outer && scan_accept(&p->s, "}")) {
        const char *last = strrchr(outer->text, ' ');
        s->g->scope = last ? sym_n(outer->text, (size_t)(last - outer->text)) : NULL;
        return true;
    }
    scan_skip(&p->s);
    from = p->s.at;
    for (size_t i = 0; !known && i < sizeof keys / sizeof *keys; i++)
        known = scan_accept(&p->s, keys[i]);
    if (!known)
        return false;
    while (p->s.at < p->s.end && !isspace((unsigned char)*p->s.at) && *p->s.at != '{')
        p->s.at++;
    sb_printf(&b, "%s%s%.*s", outer ? outer->text : "", outer ? " " : "", (int)(p->s.at - from), from);
    s->g->scope = sym_n(sb_str(&b), b.n);
    sb_done(&b);
    if (depth_of_scope(s->g->scope) > DEPTH_MAX)
        scan_fail(&p->s, "blocks are nested too deeply");
    return scan_expect(&p->s, "{");
}

static void node(Reader *p, Scope *s)
{
    Line l = {.a = attr_default()};
    Sym name;

    scan_skip(&p->s);
    l.start = p->s.at;
    results(p, &l);
    name = scan_word(&p->s);
    if (!p->s.bad && !op_find(name->text, &l.op))
        scan_fail(&p->s, "'%.40s' is not an op", name->text);
    if (!p->s.bad)
        operands(p, s, &l);
    if (!p->s.bad)
        rest(p, &l);
    if (!p->s.bad)
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
    scan_expect(&p->s, "(");
    if (scan_accept(&p->s, ")"))
        return;
    do {
        TType y;
        int64_t n;
        scan_expect(&p->s, "%");
        n = scan_integer(&p->s);
        scan_expect(&p->s, ":");
        y = read_type(p);
        if (scan_accept(&p->s, "policy("))
            y.policy = read_policy(p);
        if (!p->s.bad)
            define(p, s, n, graph_param(s->g, &y));
    } while (!p->s.bad && scan_accept(&p->s, ","));
    scan_expect(&p->s, ")");
}

static void conditions(Reader *p, Graph *g)
{
    if (!scan_accept(&p->s, "where "))
        return;
    do {
        DimCond c = {.a = read_size(p, "=!>")};
        if (scan_accept(&p->s, "=="))
            c.rel = DIM_IS_EQ;
        else if (scan_accept(&p->s, "!="))
            c.rel = DIM_IS_NE;
        else if (scan_expect(&p->s, ">="))
            c.rel = DIM_IS_GE;
        c.b = read_size(p, ",{");
        vec_push(&g->conds, c);
        vec_push(&p->conds, c);
    } while (!p->s.bad && scan_accept(&p->s, ","));
}

static Graph *graph(Reader *p)
{
    Scope s = {0};
    Vec(int64_t) result = {0};
    int outer;

    if (++p->depth > DEPTH_MAX)
        scan_fail(&p->s, "regions are nested too deeply");
    scan_expect(&p->s, "graph");
    scan_expect(&p->s, "@");
    scan_skip(&p->s);
    s.g = graph_new(*p->s.at == '"' ? scan_quoted(&p->s) : scan_word(&p->s));
    params(p, &s);
    scan_expect(&p->s, "->");
    scan_expect(&p->s, "(");
    if (!scan_accept(&p->s, ")")) {
        do {
            scan_expect(&p->s, "%");
            vec_push(&result, scan_integer(&p->s));
        } while (!p->s.bad && scan_accept(&p->s, ","));
        scan_expect(&p->s, ")");
    }
    outer = p->conds.n;
    conditions(p, s.g);
    scan_expect(&p->s, "{");
    while (!p->s.bad) {
        if (scope_line(p, &s))
            continue;
        if (p->s.bad || scan_accept(&p->s, "}"))
            break;
        node(p, &s);
    }
    s.g->scope = NULL;
    for (int i = 0; i < result.n && !p->s.bad; i++)
        if (result.at[i] < 0 || result.at[i] >= s.value.n)
            scan_fail(&p->s, "result %%%lld is not defined", (long long)result.at[i]);
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
    Reader p = {0};
    Graph *g = NULL;

    scan_init(&p.s, text, len, err);
    if (!scan_accept(&p.s, "tessera.schedule"))          /* a graph with fused nodes */
        scan_expect(&p.s, "tessera.graph");
    scan_heading(&p.s);
    if (!p.s.bad)
        g = graph(&p);
    scan_finish(&p.s, "graph");
    if (!p.s.bad && !graph_verify(g, err))
        p.s.bad = true;
    map_done(&p.sizes);
    vec_free(&p.conds);
    scan_done(&p.s);
    if (p.s.bad) {
        graph_unref(g);
        return NULL;
    }
    return g;
}

