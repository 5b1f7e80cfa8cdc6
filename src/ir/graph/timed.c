/*
 * The table of `run --trace-kernels`.
 */
#include "ir/graph/timed.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/source.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LABEL_OPS = 6 };         /* of a kernel, which its line names */

typedef struct Line {
    char *label;
    int64_t calls;
    Timed all, least;           /* of all calls, of the shortest */
    double bytes, steps;        /* of one call; steps: multiplications with an addition of its products */
} Line;

bool timed_on;
static Vec(Line) lines;
static Map line_of;             /* hash of the label -> its place, from 1 */

static double clock_now(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

Timed timed_now(void) { return (Timed){clock_now(CLOCK_MONOTONIC), clock_now(CLOCK_PROCESS_CPUTIME_ID)}; }

static bool is_told(const Node *n)
{
    return n->op != GRAPH_PARAM && n->op != OP_constant && op_info[n->op].family != FAM_MOVE;
}

/* What a kernel computes: its first ops, and how many more there are. */
static void put_body(StrBuf *s, const Graph *body)
{
    int n = 0;

    for (const Node *x = body->first; x; x = x->next)
        if (is_told(x) && n++ < LABEL_OPS)
            sb_printf(s, "%s%s", n > 1 ? " " : "", op_info[x->op].name);
    if (n > LABEL_OPS)
        sb_printf(s, " +%d", n - LABEL_OPS);
}

static void put_values(StrBuf *s, Tensor *const *x, int n)
{
    for (int i = 0; i < n; i++) {
        sb_printf(s, "%s%s[", i ? ", " : "", dtype_info[x[i]->dtype].name);
        for (int k = 0; k < x[i]->rank; k++)
            sb_printf(s, "%s%lld", k ? ", " : "", (long long)x[i]->shape[k]);
        sb_putc(s, ']');
    }
}

static void put_label(StrBuf *s, const Node *n, Tensor *const *in, Tensor *const *out, int nout)
{
    Place p = source_place(n->span.lo);

    if (n->op == OP_fused)
        put_body(s, n->attr->region[0]);
    else {
        sb_printf(s, "%s ", op_info[n->op].name);
        put_values(s, in, n->nin);
    }
    sb_puts(s, " -> ");
    put_values(s, out, nout < 3 ? nout : 3);
    if (nout > 3)
        sb_printf(s, ", %d more", nout - 3);
    if (p.src)
        sb_printf(s, "  %s:%u", p.src->path, p.line);
}

static double bytes_of(Tensor *const *x, int n)
{
    double bytes = 0;

    for (int i = 0; i < n; i++)
        bytes += (double)dtype_nbytes((DType)x[i]->dtype, (size_t)tensor_size(x[i]));
    return bytes;
}

static Line *find_line(const char *label, size_t n)
{
    uint64_t key = hash_bytes64(label, n) | 1;
    uintptr_t at;

    while (map_find(&line_of, key, &at)) {
        if (!strcmp(lines.at[at - 1].label, label))
            return &lines.at[at - 1];
        key += 2;
    }
    vec_push(&lines, ((Line){.label = tsr_alloc(n + 1)}));
    map_set(&line_of, key, (uintptr_t)lines.n);
    return memcpy(lines.at[lines.n - 1].label, label, n + 1), &lines.at[lines.n - 1];
}

/* Multiplications of the product that the node is or holds, whose result has as many elements as the tensor that it ends in. */
static double product_steps(const Node *n, Tensor *const *in)
{
    const Graph *body = n->op == OP_fused ? n->attr->region[0] : NULL;
    const Tensor *x = NULL, *y = NULL;
    double batch = 1;

    if (n->op == OP_matmul)
        x = in[0], y = in[1];
    for (const Node *p = body ? body->first : NULL; p && !x; p = p->next)
        for (int i = 0; p->op == OP_matmul && i < body->params.n; i++) {
            x = body->params.at[i] == p->in[0].node ? in[i] : x;
            y = body->params.at[i] == p->in[1].node ? in[i] : y;
        }
    if (!x || !y || x->rank < 2 || y->rank < 2)
        return 0;
    for (int k = 3; k <= x->rank || k <= y->rank; k++) {
        Dim a = k <= x->rank ? x->shape[x->rank - k] : 1, b = k <= y->rank ? y->shape[y->rank - k] : 1;
        batch *= (double)(a > b ? a : b);
    }
    return batch * (double)x->shape[x->rank - 2] * (double)x->shape[x->rank - 1] * (double)y->shape[y->rank - 1];
}

void timed_add(const Node *n, Tensor *const *in, Tensor *const *out, int nout, Timed since)
{
    Timed now = timed_now(), took = {now.seconds - since.seconds, now.cpu - since.cpu};
    StrBuf s = {0};
    Line *l;

    put_label(&s, n, in, out, nout);
    l = find_line(sb_str(&s), s.n);
    l->least.seconds = !l->calls || took.seconds < l->least.seconds ? took.seconds : l->least.seconds;
    l->least.cpu = !l->calls || took.cpu < l->least.cpu ? took.cpu : l->least.cpu;
    l->calls++;
    l->all.seconds += took.seconds;
    l->all.cpu += took.cpu;
    l->bytes = bytes_of(in, n->nin) + bytes_of(out, nout);
    l->steps = product_steps(n, in);
    sb_done(&s);
}

static int dearest_first(const void *a, const void *b)
{
    const Line *x = a, *y = b;

    return x->all.cpu < y->all.cpu ? 1 : x->all.cpu > y->all.cpu ? -1 : strcmp(x->label, y->label);
}

void timed_print(StrBuf *out)
{
    Timed all = {0};

    qsort(lines.at, (size_t)lines.n, sizeof *lines.at, dearest_first);
    for (int i = 0; i < lines.n; i++) {
        all.seconds += lines.at[i].all.seconds;
        all.cpu += lines.at[i].all.cpu;
    }
    sb_printf(out, "%6s %8s %9s %9s %9s %9s %8s %7s %7s  %s\n", "% cpu", "calls", "ms", "cpu ms", "least ms", "least cpu", "MB", "GB/s",
              "GFLOP/s", "what");
    for (int i = 0; i < lines.n; i++) {
        Line *l = &lines.at[i];
        double rate = l->least.seconds > 0 ? 1e-9 / l->least.seconds : 0;
        sb_printf(out, "%6.2f %8lld %9.3f %9.3f %9.3f %9.3f %8.2f %7.1f %7.0f  %s\n", all.cpu > 0 ? 100 * l->all.cpu / all.cpu : 0,
                  (long long)l->calls, 1e3 * l->all.seconds, 1e3 * l->all.cpu, 1e3 * l->least.seconds, 1e3 * l->least.cpu, 1e-6 * l->bytes,
                  l->bytes * rate, 2 * l->steps * rate, l->label);
        tsr_free(l->label);
    }
    sb_printf(out, "%6s %8s %9.3f %9.3f\n", "", "all", 1e3 * all.seconds, 1e3 * all.cpu);
    vec_free(&lines);
    map_done(&line_of);
}
