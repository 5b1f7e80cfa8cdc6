/*
 * Graphs as text.
 *
 *     tessera.graph v1 hash=8f0e2c6a51d3b974...
 *     graph @loss(%0: f32[B, 4], %1: f32[4]) -> (%3) {
 *       %2: f32[B, 4] = mul(%0, %1)
 *       %3: f32[] = sum(%2) {axes=(-2, -1)}
 *     }
 *
 * The hash is the SHA-256 of the text below it, without comments.  Results are
 * numbered in order, parameters first.  Ops with effects say which, and for
 * those with an order the token they take: `token=io:0` runs before
 * `token=io:1`; each region counts for itself, and the op around it has the
 * effects of its regions.  Recomputations carry the number of the pass that made
 * them.  Regions follow the attributes of their op as `region0 graph ...`.  Two
 * size variables of one name print under different names, so that reading the
 * text keeps them apart.  Nodes of a with block that names a device or a mesh axis stand in a block: `device=gpu:0 {`.
 * Opaque language objects (custom rules) do not print: their ops read back
 * as calls of their body.
 */
#include "ir/graph/graph.h"

#include "base/sha256.h"
#include "runtime/tensor.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

typedef struct Printer {
    StrBuf *out;
    Vec(Dim) seen;              /* variables met */
    Vec(Dim) shown;             /* what they print as */
    bool places;                /* say where nodes come from */
} Printer;

static bool name_taken(const Printer *p, Sym name)
{
    StrBuf b = {0};
    bool taken = false;

    for (int i = 0; i < p->shown.n && !taken; i++) {
        sb_clear(&b);
        dim_print(p->shown.at[i], &b);
        taken = !strcmp(sb_str(&b), name->text);
    }
    sb_done(&b);
    return taken;
}

static void meet(Printer *p, Dim var)
{
    StrBuf b = {0};
    Sym base;
    Dim shown = var;

    for (int i = 0; i < p->seen.n; i++)
        if (p->seen.at[i] == var)
            return;
    dim_print(var, &b);
    base = sym(sb_str(&b));
    if (name_taken(p, base)) {
        int k = 2;
        do {
            sb_clear(&b);
            sb_printf(&b, "%s_%d", base->text, k++);
        } while (name_taken(p, sym(sb_str(&b))));
        shown = dim_var(sym(sb_str(&b)), 0, INT64_MAX);
    }
    vec_push(&p->seen, var);
    vec_push(&p->shown, shown);
    sb_done(&b);
}

static Dim shown_dim(Printer *p, Dim d)
{
    Dim v[32];
    int n;

    if (dim_is_const(d))
        return d;
    n = dim_vars(d, v, 32);
    for (int i = 0; i < n && i < 32; i++)
        meet(p, v[i]);
    return dim_subst(d, p->seen.at, p->shown.at, p->seen.n);
}

static void print_type(Printer *p, const TType *t)
{
    TType y = *t;

    for (int i = 0; i < y.rank; i++)
        y.shape[i] = shown_dim(p, y.shape[i]);
    ttype_print(&y, p->out);
}

static void print_element(StrBuf *out, const Tensor *t, int64_t at)
{
    double re, im;

    if (dtype_is_complex((DType)t->dtype)) {
        elem_get_c(t, at, &re, &im);
        sb_printf(out, "%.17g:%.17g", re, im);
    } else if (dtype_is_float((DType)t->dtype))
        sb_printf(out, "%.17g", elem_get_f(t, at));
    else if (t->dtype == DT_uint64)
        sb_printf(out, "%" PRIu64, (uint64_t)elem_get_i(t, at));
    else
        sb_printf(out, "%" PRId64, elem_get_i(t, at));
}

static void print_value(Printer *p, Tensor *v)
{
    TType y = {.dtype = v->dtype, .rank = v->rank};
    Tensor *c = tensor_contiguous(v);
    int64_t n = c ? tensor_size(c) : 0;

    memcpy(y.shape, v->shape, sizeof(Dim) * v->rank);
    sb_puts(p->out, v->weak ? "value=weak " : "value=");
    print_type(p, &y);
    sb_putc(p->out, '(');
    for (int64_t i = 0; i < n; i++) {
        sb_puts(p->out, i ? ", " : "");
        print_element(p->out, c, c->offset + i);
    }
    sb_putc(p->out, ')');
    tensor_unref(c);
}

static void print_attr(Printer *p, OpId op, const Attr *a)
{
    StrBuf b = {0};
    Attr shown = *a;

    for (int k = 0; k < 4; k++)
        for (int i = 0; i < shown.nd[k]; i++)
            shown.d[k][i] = shown_dim(p, shown.d[k][i]);
    attr_print(op, &shown, &b);
    if (b.n || a->value) {
        sb_printf(p->out, " {%s", sb_str(&b));
        if (a->value) {
            sb_puts(p->out, b.n ? " " : "");
            print_value(p, a->value);
        }
        sb_putc(p->out, '}');
    }
    sb_done(&b);
}

/* What the op does besides its results, and its place among the graph's ops that do the same: "effects=[io] token=io:0". */
static void print_effects(Printer *p, const Node *n, uint32_t *next)
{
    unsigned flags = node_effects(n);
    const char *sep = " effects=[";
    bool ordered = false;

    for (int i = 0; i < EFFECT_COUNT; i++)
        if (flags & op_effect[i].flag) {
            sb_printf(p->out, "%s%s", sep, op_effect[i].name);
            sep = ", ";
        }
    if (!flags)
        return;
    sb_puts(p->out, "] token=");
    for (int i = 0; i < EFFECT_COUNT; i++)
        if (flags & op_effect[i].flag && op_effect[i].ordered) {
            sb_printf(p->out, "%s%s:%u", ordered ? "," : "", op_effect[i].name, next[i]++);
            ordered = true;
        }
    sb_puts(p->out, ordered ? "" : "free");
}

/* Which dtypes an op takes to which other one: "matmul(fp8_e4m3, fp8_e4m3) -> f32". */
static void print_dtypes(Printer *p, const Node *n)
{
    bool casts = n->op == OP_convert || n->op == OP_dither;

    if (n->nout != 1 || (!casts && op_info[n->op].family != FAM_CONTRACT))
        return;
    sb_printf(p->out, "%s(", casts ? "cast" : op_info[n->op].name);
    for (int i = 0; i < (casts ? 1 : n->nin); i++)
        sb_printf(p->out, "%s%s", i ? ", " : "", dtype_info[gvalue_type(n->in[i])->dtype].name);
    sb_printf(p->out, ") -> %s, ", dtype_info[n->type[0].dtype].name);
}

static void print_place(Printer *p, const Node *n)
{
    Place at = n->span.hi && p->places ? source_place(n->span.lo) : (Place){0};

    if (!at.src)
        return;
    sb_puts(p->out, "  # ");
    print_dtypes(p, n);
    sb_printf(p->out, "%s:%u", at.src->path, at.line);
}

static void print_graph(Printer *p, const Graph *g, int indent);

static void print_node(Printer *p, const Node *n, const uint32_t *number, uint32_t *next, int indent)
{
    sb_pad(p->out, ' ', (size_t)indent);
    for (int i = 0; i < n->nout; i++) {
        sb_printf(p->out, "%s%%%u: ", i ? ", " : "", number[n->id] + (uint32_t)i);
        print_type(p, &n->type[i]);
    }
    sb_printf(p->out, "%s%s(", n->nout ? " = " : "", op_info[n->op].name);
    for (int i = 0; i < n->nin; i++)
        sb_printf(p->out, "%s%%%u", i ? ", " : "", number[n->in[i].node->id] + (uint32_t)n->in[i].index);
    sb_putc(p->out, ')');
    print_attr(p, (OpId)n->op, n->attr);
    if (n->again)
        sb_printf(p->out, " recompute=%u", n->again);
    print_effects(p, n, next);
    print_place(p, n);
    for (int k = 0; k < 4; k++)
        if (n->attr->region[k]) {
            sb_printf(p->out, "\n%*sregion%d ", indent + 2, "", k);
            print_graph(p, n->attr->region[k], indent + 2);
        }
    sb_putc(p->out, '\n');
}

static uint32_t *number_values(const Graph *g)
{
    uint32_t *number = tsr_calloc(sizeof *number * (g->nnodes + 1)), next = 0;

    for (int i = 0; i < g->params.n; i++)
        number[g->params.at[i]->id] = next++;
    for (const Node *n = g->first; n; n = n->next)
        if (n->op != GRAPH_PARAM) {
            number[n->id] = next;
            next += n->nout;
        }
    return number;
}

static void print_conds(Printer *p, const Graph *g)
{
    static const char *const text[] = {[DIM_IS_EQ] = "==", [DIM_IS_NE] = "!=", [DIM_IS_GE] = ">="};

    for (int i = 0; i < g->conds.n; i++) {
        const DimCond *c = &g->conds.at[i];
        sb_puts(p->out, i ? ", " : " where ");
        dim_print(shown_dim(p, c->a), p->out);
        sb_printf(p->out, " %s ", text[c->rel]);
        dim_print(shown_dim(p, c->b), p->out);
    }
}

/* A name that is no word, as that of a lambda, in quotes. */
static void print_name(StrBuf *out, const char *name)
{
    bool word = *name;

    for (const char *c = name; *c && word; c++)
        word = isalnum((unsigned char)*c) || strchr("_.", *c) || (unsigned char)*c >= 0x80;
    if (word)
        sb_puts(out, name);
    else
        sb_put_json(out, name, strlen(name));
}

/* How many bytes of whole words two scopes begin with alike. */
static size_t common_scope(const char *a, const char *b)
{
    size_t i = 0, common = 0;

    for (; a[i] && a[i] == b[i]; i++)
        if (a[i] == ' ')
            common = i + 1;
    return (!a[i] || a[i] == ' ') && (!b[i] || b[i] == ' ') ? i : common;
}

static int depth_of(const char *scope, size_t n)
{
    int depth = n > 0;

    for (size_t i = 0; i + 1 < n; i++)
        depth += scope[i] == ' ';
    return depth;
}

/* Close and open the blocks between two nodes: "device=gpu:0 {" ... "}". Gives the depth at the second. */
static int change_scope(Printer *p, const char *from, const char *to, int indent)
{
    size_t same = common_scope(from, to);
    int depth = depth_of(from, strlen(from)), kept = depth_of(to, same);

    for (; depth > kept; depth--)
        sb_printf(p->out, "%*s}\n", indent + 2 * (depth - 1), "");
    for (const char *s = to + same; *s; depth++) {
        size_t n;
        s += *s == ' ';
        n = strcspn(s, " ");
        sb_printf(p->out, "%*s%.*s {\n", indent + 2 * depth, "", (int)n, s);
        s += n;
    }
    return depth;
}

static void print_nodes(Printer *p, const Graph *g, const uint32_t *number, int indent)
{
    uint32_t next[EFFECT_COUNT] = {0};
    const char *scope = "";
    int depth = 0;

    for (const Node *n = g->first; n; n = n->next) {
        const char *here = n->scope ? n->scope->text : "";
        if (n->op == GRAPH_PARAM)
            continue;
        if (strcmp(here, scope))
            depth = change_scope(p, scope, here, indent);
        scope = here;
        print_node(p, n, number, next, indent + 2 * depth);
    }
    change_scope(p, scope, "", indent);
}

static void print_graph(Printer *p, const Graph *g, int indent)
{
    uint32_t *number = number_values(g);

    sb_puts(p->out, "graph @");
    print_name(p->out, g->name ? g->name->text : "_");
    sb_putc(p->out, '(');
    for (int i = 0; i < g->params.n; i++) {
        const TType *y = &g->params.at[i]->type[0];
        sb_printf(p->out, "%s%%%u: %s", i ? ", " : "", number[g->params.at[i]->id], y->weak ? "weak " : "");
        print_type(p, y);
        if (y->policy) {
            sb_putc(p->out, ' ');
            policy_print(y->policy, p->out);
        }
    }
    sb_puts(p->out, ") -> (");
    for (int i = 0; i < g->results.n; i++)
        sb_printf(p->out, "%s%%%u", i ? ", " : "", number[g->results.at[i].node->id] + (uint32_t)g->results.at[i].index);
    sb_putc(p->out, ')');
    print_conds(p, g);
    sb_puts(p->out, " {\n");
    print_nodes(p, g, number, indent + 2);
    sb_pad(p->out, ' ', (size_t)indent);
    sb_putc(p->out, '}');
    tsr_free(number);
}

void graph_print_conds(const Graph *g, StrBuf *out)
{
    Printer p = {.out = out};

    print_conds(&p, g);
    vec_free(&p.seen);
    vec_free(&p.shown);
}

static void print_body(const Graph *g, bool places, StrBuf *out)
{
    Printer p = {.out = out, .places = places};

    print_graph(&p, g, 0);
    sb_putc(out, '\n');
    vec_free(&p.seen);
    vec_free(&p.shown);
}

/* The first line, over the text without comments. */
static void print_head(const char *level, StrBuf *body, StrBuf *out)
{
    char hash[SHA256_TEXT];

    sha256_text(sb_str(body), body->n, hash);
    sb_printf(out, "tessera.%s v1 hash=%s\n", level, hash);
}

void graph_print(const Graph *g, StrBuf *out)
{
    StrBuf body = {0};

    print_body(g, false, &body);
    print_head("graph", &body, out);
    sb_puts(out, sb_str(&body));
    sb_done(&body);
}

void graph_print_placed(const Graph *g, const char *level, StrBuf *out)
{
    StrBuf body = {0};

    print_body(g, false, &body);
    print_head(level, &body, out);
    print_body(g, true, out);
    sb_done(&body);
}
