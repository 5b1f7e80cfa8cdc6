/*
 * The memory plan: one walk over the nodes puts values into blocks and finds
 * their lifetimes, a second adds up what lives at each step.
 *
 * Order is the graph's own.  A result and its operands are in memory together
 * unless the result takes over an operand's block; what dies at a step is free
 * from the next one on.  Where it depends on the strides at hand whether a
 * reshape copies, both are counted: its own block, and its operand's for as long.
 * Operands of the graph are taken to be in row-major order.
 */
#include "ir/graph/plan.h"

#include "ir/core/pass.h"
#include "ir/graph/sizes.h"
#include "runtime/gemm.h"

#include <string.h>

enum { PEAKS_MAX = 8 };

/* ------------------------------------------------------------- rules */

Dim ttype_bytes(const TType *t)
{
    Dim n = 1;
    int bits = dtype_info[t->dtype].sbits;

    for (int i = 0; i < t->rank; i++)
        n = dim_mul(n, t->shape[i]);
    return bits % 8 ? dim_cdiv(dim_mul(n, bits), 8) : dim_mul(n, bits / 8);
}

Lies node_lies(const Node *n, bool row_major)
{
    switch (n->op) {
    case OP_constant:
        return LIES_NOWHERE;
    case OP_stop_gradient: case OP_as_softmax: case OP_lay_as: case OP_place:
        return LIES_WITHIN;
    case OP_convert:
        return n->attr->name ? LIES_WITHIN : LIES_APART;
    case OP_reshape:
        return row_major ? LIES_WITHIN : LIES_EITHER;
    default:
        return op_info[n->op].flags & OPF_VIEW ? LIES_WITHIN : LIES_APART;
    }
}

bool node_row_major(const Node *n, bool operand)
{
    if (n->op == OP_stop_gradient || n->op == OP_as_softmax || n->op == OP_lay_as || n->op == OP_reshape || (n->op == OP_convert && n->attr->name))
        return operand;
    return n->op != OP_place && !(op_info[n->op].flags & (OPF_VIEW | OPF_REGIONS));
}

static bool same_type(const TType *a, const TType *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->shape, b->shape, sizeof(Dim) * a->rank);
}

/* Kernels compute in lanes of these dtypes; others are converted on the way, into memory of their own. */
static bool is_lane(uint8_t dt)
{
    return dt == DT_f32 || dt == DT_f64 || dt == DT_int32 || dt == DT_int64;
}

bool node_may_take(const Node *n, int k)
{
    bool map = op_info[n->op].family == FAM_MAP && n->op != OP_convert && n->op != OP_stop_gradient;
    bool write = k == 0 && (n->op == OP_index_put || n->op == OP_index_add);

    return (map || write) && n->nout == 1 && is_lane(n->type[0].dtype) && same_type(gvalue_type(n->in[k]), &n->type[0]);
}

/* Where the operands of a region's parameters begin: a condition stands before those of cond. */
static int first_operand(const Node *n) { return n->op == OP_cond; }

int node_returns(const Node *n, int result)
{
    if (!(op_info[n->op].flags & OPF_REGIONS))
        return -1;
    for (int k = 0; k < 4; k++) {
        const Graph *r = n->attr->region[k];
        if (!r || result >= r->results.n)
            continue;
        for (int i = 0; i < r->params.n && first_operand(n) + i < n->nin; i++)
            for (const Node *v = r->results.at[result].node;;) {
                if (v == r->params.at[i])
                    return first_operand(n) + i;
                if (v->op == GRAPH_PARAM || node_lies(v, false) == LIES_APART || !v->nin)
                    break;
                v = v->in[0].node;
            }
    }
    return -1;
}

bool node_is_kept(const Graph *g, const Node *n)
{
    const SizePlan *p = size_plan((Graph *)(uintptr_t)g);
    int64_t v;

    return p->fixed && p->fixed[n->id] && n->nout == 1 && (!dim_const_value(ttype_bytes(&n->type[0]), &v) || v <= SIZE_KEPT_MAX);
}

static Dim most(Dim a, Dim b)
{
    return dim_ge(a, b, NULL, NULL) == DIM_PROVED ? a : dim_ge(b, a, NULL, NULL) == DIM_PROVED ? b : dim_max(a, b);
}

/*
 * What a matrix product packs (runtime/gemm.c), without more threads where there is no memory. One column is computed as one row.
 * turned: the left operand is not in row-major order, so that panels of its rows are packed together.
 */
static Dim panel_bytes(const Node *n, bool turned)
{
    enum { FILLED = 64, TURNED = 112 }; /* columns and rows that filling up to whole tiles adds at most; rows that are packed together */
    const TType *a = gvalue_type(n->in[0]);
    TType c = n->type[0];
    int64_t size = dtype_info[a->dtype].bits > 32 ? 8 : 4, bytes;
    Dim k = a->shape[a->rank - 1], rows = a->rank > 1 ? a->shape[a->rank - 2] : 1, columns = c.shape[c.rank - 1], all;

    c.dtype = DT_uint8;
    if (!dim_is_const(columns) || columns == 1)
        columns = ttype_bytes(&c);
    if (turned)
        columns = dim_add(columns, dim_is_const(rows) && rows < TURNED ? rows : TURNED);
    all = dim_mul(size, dim_mul(dim_is_const(k) && k > GEMM_CHUNK ? GEMM_CHUNK : k, dim_add(columns, FILLED)));
    return dim_const_value(all, &bytes) && bytes > gemm_room_max() ? gemm_room_max() : all;
}

/* Copies that kernels make: of operands that are not in row-major order, and of dtypes that are computed with in another. */
static Dim kernel_inside(const Node *n, uint64_t scattered)
{
    enum { LANES = 2 };         /* as values of the accumulator, and as its lanes */
    bool moves = op_info[n->op].family == FAM_MOVE || op_info[n->op].family >= FAM_MAKE;
    bool lanes = !moves && op_info[n->op].family != FAM_MAP;
    Dim need = n->op == OP_matmul ? panel_bytes(n, scattered & 1) : 0;

    for (int i = 0; i < n->nin && !moves; i++) {
        const TType *t = gvalue_type(n->in[i]);
        TType wide = *t;
        wide.dtype = dtype_info[t->dtype].bits > 64 ? DT_c128 : DT_f64;
        if (scattered >> (i < 63 ? i : 63) & 1 && n->op != OP_matmul)
            need = dim_add(need, ttype_bytes(t));
        if (lanes && !is_lane(t->dtype))
            need = dim_add(need, dim_mul(LANES, ttype_bytes(&wide)));
    }
    for (int i = 0; i < n->nout && (lanes || n->op == OP_unwindow); i++) {
        TType wide = n->type[i];
        wide.dtype = dtype_info[wide.dtype].bits > 64 ? DT_c128 : DT_f64;
        if (!is_lane(n->type[i].dtype) || n->op == OP_unwindow)
            need = dim_add(need, ttype_bytes(&wide));
    }
    return need;
}

/* Does the body walk its operands in another order than they lie in? */
static bool walks_across(const Graph *body)
{
    for (const Node *n = body->first; n; n = n->next) {
        bool reduces = n->op < OP_COUNT && op_info[n->op].family == FAM_REDUCE;
        for (int i = 0; reduces && i < n->attr->naxes; i++)
            if (n->attr->axis[i] < -n->attr->naxes)
                return true;
        if (n->op == OP_permute)
            return true;
    }
    return false;
}

/* What `index` in a body takes: places, and what it gives if it is done apart. */
static Dim looked_up_bytes(const Graph *body)
{
    Dim need = 0;

    for (const Node *n = body->first; n; n = n->next)
        if (n->op == OP_index) {
            TType places = n->type[0];
            places.dtype = DT_int64;
            places.rank = (uint8_t)(places.rank - (gvalue_type(n->in[0])->rank - n->attr->m - n->attr->n));
            need = dim_add(need, dim_add(ttype_bytes(&places), ttype_bytes(&n->type[0])));
        }
    return need;
}

/*
 * A fused node runs by a kernel, or op by op: what its body needs besides the results, which stand in blocks of their own, and
 * rows that a kernel copies operands to. It takes over no operand's block.
 */
static Dim fused_inside(const Node *n, uint64_t scattered)
{
    const Graph *body = n->attr->region[0];
    Plan *p = graph_plan(body);
    Dim need = plan_peak(p), copies = looked_up_bytes(body);
    bool across = walks_across(body);

    plan_free(p);
    for (int i = 0; i < n->nout; i++)
        need = dim_sub(need, ttype_bytes(&n->type[i]));
    for (int i = 0; i < n->nin; i++) {
        const TType *t = gvalue_type(n->in[i]);
        bool small = t->rank != n->type[0].rank || memcmp(t->shape, n->type[0].shape, sizeof(Dim) * t->rank);
        if (across || small || scattered >> (i < 63 ? i : 63) & 1)
            copies = dim_add(copies, dim_mul(2, ttype_bytes(t)));
    }
    return dim_add(most(need, 0), copies);
}

Dim node_inside(const Node *n, uint64_t scattered)
{
    Dim need = 0;

    if (n->op == OP_fused)
        return fused_inside(n, scattered);
    if (!(op_info[n->op].flags & OPF_REGIONS))
        return kernel_inside(n, scattered);
    for (int k = 0; k < 4; k++)
        if (n->attr->region[k]) {
            Plan *p = graph_plan(n->attr->region[k]);
            need = most(need, plan_peak(p));
            plan_free(p);
        }
    for (int i = 0; i < n->nin; i++)                        /* regions take their operands to be in order */
        if (scattered >> (i < 63 ? i : 63) & 1)
            need = dim_add(need, dim_mul(2, ttype_bytes(gvalue_type(n->in[i]))));
    if (n->op == OP_scan || n->op == OP_while)              /* carries of two rounds, and what is stacked at the end */
        for (int i = 0; i < n->nout; i++)
            need = dim_add(need, ttype_bytes(&n->type[i]));
    return need;
}

/* ------------------------------------------------------------- blocks */

typedef struct Maker {
    Plan *p;
    const Graph *g;
    bool at_last_use;           /* values leave their blocks there; else at the end, and no operand's block is taken over */
    bool *row_major;            /* by slot */
    int *last;                  /* by slot: the last step that uses it, -1: none */
    int *values;                /* by block: how many values lie in it that are still to be used */
} Maker;

static uint32_t slot_of(const Plan *p, GValue v) { return p->slot[v.node->id] + (uint32_t)v.index; }

static int add_block(Maker *m, BlockKind kind, const TType *t, int at, GValue maker)
{
    PlanBlock b = {.kind = (uint8_t)kind, .bytes = ttype_bytes(t), .from = at, .to = at, .maker = maker};

    vec_push(&m->p->blocks, b);
    return m->p->blocks.n - 1;
}

static void lie_in(Maker *m, uint32_t slot, int block, int also)
{
    m->p->block[slot] = block;
    m->p->also[slot] = also;
    m->values[block]++;
    if (also >= 0)
        m->values[also]++;
}

/* The operand whose block the result of n, step `at`, takes over: it dies here, and nothing else lies in its block. */
static int taken_operand(const Maker *m, const Node *n, int at)
{
    for (int k = 0; k < n->nin && m->at_last_use; k++) {
        uint32_t s = slot_of(m->p, n->in[k]);
        int b = m->p->block[s];
        bool twice = false;
        for (int i = 0; i < n->nin; i++)
            twice |= i != k && slot_of(m->p, n->in[i]) == s;
        if (!twice && node_may_take(n, k) && m->last[s] == at && m->p->blocks.at[b].kind == BLOCK_OWN && m->values[b] == 1 &&
            m->p->also[s] < 0 && m->row_major[s])
            return k;
    }
    return -1;
}

static void place_result(Maker *m, const Node *n, int at, int i)
{
    Plan *p = m->p;
    GValue v = {(Node *)(uintptr_t)n, i};
    uint32_t s = slot_of(p, v), x = n->nin ? slot_of(p, n->in[0]) : 0;
    bool rows = n->nin && m->row_major[x];
    Lies lies = node_lies(n, rows);
    int from = node_returns(n, i), take = -1;

    m->row_major[s] = node_row_major(n, rows);
    if (lies == LIES_NOWHERE)
        lie_in(m, s, add_block(m, BLOCK_CONSTANT, &n->type[i], at, v), -1);
    else if (lies == LIES_WITHIN)
        lie_in(m, s, p->block[x], p->also[x]);
    else if (lies == LIES_EITHER || from >= 0)
        lie_in(m, s, add_block(m, BLOCK_OWN, &n->type[i], at, v), p->block[from >= 0 ? slot_of(p, n->in[from]) : x]);
    else if ((take = taken_operand(m, n, at)) >= 0)
        lie_in(m, s, p->block[slot_of(p, n->in[take])], -1);
    else
        lie_in(m, s, add_block(m, BLOCK_OWN, &n->type[i], at, v), -1);
    if (take >= 0)
        p->takes[at] = take;
}

static void leave(Maker *m, uint32_t slot)
{
    m->values[m->p->block[slot]]--;
    if (m->p->also[slot] >= 0)
        m->values[m->p->also[slot]]--;
}

/* Operands that die at this step, and results that nobody uses, lie in their blocks no more. */
static void leave_dying(Maker *m, const Node *n, int at)
{
    for (int i = 0; i < n->nin; i++) {
        uint32_t s = slot_of(m->p, n->in[i]);
        bool before = false;
        for (int k = 0; k < i; k++)
            before |= slot_of(m->p, n->in[k]) == s;
        if (m->last[s] == at && !before)
            leave(m, s);
    }
    for (int i = 0; i < n->nout; i++)
        if (m->last[m->p->slot[n->id] + (uint32_t)i] < 0)
            leave(m, m->p->slot[n->id] + (uint32_t)i);
}

static void extend(Plan *p, int block, int at)
{
    if (block >= 0 && p->blocks.at[block].to < at)
        p->blocks.at[block].to = at;
}

static void place_values(Maker *m)
{
    Plan *p = m->p;

    for (int i = 0; i < m->g->params.n; i++) {
        GValue v = {m->g->params.at[i], 0};
        lie_in(m, slot_of(p, v), add_block(m, BLOCK_OPERAND, gvalue_type(v), 0, v), -1);
        m->row_major[slot_of(p, v)] = true;
    }
    for (int at = 0; at < p->nsteps; at++) {
        for (int i = 0; i < p->step[at]->nout; i++)
            place_result(m, p->step[at], at, i);
        leave_dying(m, p->step[at], at);
    }
    for (const Node *n = m->g->first; n; n = n->next)
        for (int i = 0; i < n->nout; i++) {
            uint32_t s = p->slot[n->id] + (uint32_t)i;
            extend(p, p->block[s], m->last[s]);
            extend(p, p->also[s], m->last[s]);
        }
}

/* ------------------------------------------------------------- lifetimes */

static int number_steps(Plan *p, const Graph *g)
{
    int slots = 0;

    for (const Node *n = g->first; n; n = n->next) {
        p->slot[n->id] = (uint32_t)slots;
        slots += n->nout;
        if (n->op != GRAPH_PARAM)
            p->step[p->nsteps++] = n;
    }
    return slots;
}

static void find_last_uses(Maker *m)
{
    Plan *p = m->p;

    for (int at = 0; at < p->nsteps; at++)
        for (int i = 0; i < p->step[at]->nin; i++)
            m->last[slot_of(p, p->step[at]->in[i])] = at;
    for (int at = 0; at < p->nsteps; at++)
        if (node_is_kept(m->g, p->step[at]))
            m->last[p->slot[p->step[at]->id]] = p->nsteps;
    for (int i = 0; i < m->g->results.n; i++)
        m->last[slot_of(p, m->g->results.at[i])] = p->nsteps;
    for (const Node *n = m->g->first; n && !m->at_last_use; n = n->next)
        for (int i = 0; i < n->nout; i++)
            m->last[p->slot[n->id] + (uint32_t)i] = p->nsteps;
}

/* The step becomes one of the peaks unless another always needs as much; those that it always exceeds go. */
static void offer_peak(Plan *p, int at)
{
    int kept = 0;

    for (int i = 0; i < p->peaks.n; i++)
        if (dim_ge(p->live[p->peaks.at[i]], p->live[at], NULL, NULL) == DIM_PROVED)
            return;
    for (int i = 0; i < p->peaks.n; i++)
        if (dim_ge(p->live[at], p->live[p->peaks.at[i]], NULL, NULL) != DIM_PROVED)
            p->peaks.at[kept++] = p->peaks.at[i];
    p->peaks.n = kept;
    if (kept < PEAKS_MAX)
        vec_push(&p->peaks, at);
}

static uint64_t scattered_operands(const Maker *m, const Node *n)
{
    uint64_t mask = 0;

    for (int i = 0; i < n->nin; i++)
        mask |= (uint64_t)!m->row_major[slot_of(m->p, n->in[i])] << (i < 63 ? i : 63);
    return mask;
}

static void add_up(const Maker *m)
{
    Plan *p = m->p;
    Dim *change = tsr_calloc(sizeof *change * (size_t)(p->nsteps + 2)), now = 0;

    for (int i = 0; i < p->blocks.n; i++) {
        const PlanBlock *b = &p->blocks.at[i];
        if (b->kind != BLOCK_OWN)
            continue;
        change[b->from] = dim_add(change[b->from], b->bytes);
        if (b->to < p->nsteps)
            change[b->to + 1] = dim_sub(change[b->to + 1], b->bytes);
    }
    for (int at = 0; at < p->nsteps; at++) {
        now = dim_add(now, change[at]);
        p->live[at] = dim_add(now, node_inside(p->step[at], scattered_operands(m, p->step[at])));
        offer_peak(p, at);
    }
    tsr_free(change);
}

Plan *graph_plan(const Graph *g)
{
    Plan *p = tsr_calloc(sizeof *p);
    Maker m = {.p = p, .g = g, .at_last_use = pass_runs("memory")};
    size_t slots, n = g->nnodes + 1;

    p->slot = tsr_calloc(sizeof *p->slot * n);
    p->step = tsr_calloc(sizeof *p->step * n);
    slots = (size_t)number_steps(p, g) + 1;
    p->block = tsr_calloc(sizeof *p->block * slots);
    p->also = tsr_calloc(sizeof *p->also * slots);
    p->takes = tsr_alloc(sizeof *p->takes * n);
    memset(p->takes, -1, sizeof *p->takes * n);
    p->live = tsr_calloc(sizeof *p->live * n);
    m.row_major = tsr_calloc(slots);
    m.last = tsr_calloc(sizeof *m.last * slots);
    m.values = tsr_calloc(sizeof *m.values * (2 * slots + 1));
    memset(m.last, -1, sizeof *m.last * slots);
    find_last_uses(&m);
    place_values(&m);
    add_up(&m);
    tsr_free(m.row_major);
    tsr_free(m.last);
    tsr_free(m.values);
    return p;
}

void plan_free(Plan *p)
{
    tsr_free(p->slot);
    tsr_free(p->step);
    tsr_free(p->block);
    tsr_free(p->also);
    tsr_free(p->takes);
    tsr_free(p->live);
    vec_free(&p->blocks);
    vec_free(&p->peaks);
    tsr_free(p);
}

Dim plan_peak(const Plan *p)
{
    Dim d = 0;

    for (int i = 0; i < p->peaks.n; i++)
        d = i ? most(d, p->live[p->peaks.at[i]]) : p->live[p->peaks.at[i]];
    return d;
}

/* ------------------------------------------------------------- text */

static void print_bytes(StrBuf *out, Dim d)
{
    dim_print(d, out);
    sb_puts(out, " bytes");
}

/* "peak: 8*B+4 bytes at step 3 (exp)", a line for each step that may need the most, and the blocks behind. */
/*
 * Blocks of the same size that are never in use together may be one buffer, which is what the store of freed blocks makes of
 * them: each block goes where the first such one has ended.  next[i]: the block that follows i in its buffer, -1: none.
 */
static void join_blocks(const Plan *p, int *next, bool *first)
{
    for (int i = 0; i < p->blocks.n; i++) {
        const PlanBlock *b = &p->blocks.at[i];
        next[i] = -1;
        first[i] = b->kind == BLOCK_OWN;
        for (int k = 0; first[i] && k < i; k++) {
            const PlanBlock *before = &p->blocks.at[k];
            if (before->kind == BLOCK_OWN && next[k] < 0 && before->bytes == b->bytes && before->to < b->from) {
                next[k] = i;
                first[i] = false;
            }
        }
    }
}

static void print_buffers(const Plan *p, StrBuf *out)
{
    int *next = tsr_calloc(sizeof *next * (size_t)(p->blocks.n + 1)), count = 0;
    bool *first = tsr_calloc((size_t)p->blocks.n + 1);

    join_blocks(p, next, first);
    for (int i = 0; i < p->blocks.n; i++)
        if (first[i]) {
            sb_printf(out, "# buffer %d: ", ++count);
            print_bytes(out, p->blocks.at[i].bytes);
            sb_printf(out, ", block%s %d", next[i] < 0 ? "" : "s", i);
            for (int k = next[i]; k >= 0; k = next[k])
                sb_printf(out, ", %d", k);
            sb_putc(out, '\n');
        }
    tsr_free(next);
    tsr_free(first);
}

void plan_print(const Plan *p, StrBuf *out)
{
    for (int i = 0; i < p->peaks.n; i++) {
        int at = p->peaks.at[i];
        sb_puts(out, i ? "# or:   " : "# peak: ");
        print_bytes(out, p->live[at]);
        sb_printf(out, " at step %d (%s)\n", at, op_info[p->step[at]->op].name);
    }
    for (int i = 0; i < p->blocks.n; i++) {
        const PlanBlock *b = &p->blocks.at[i];
        if (b->kind != BLOCK_OWN)
            continue;
        sb_printf(out, "# block %d: ", i);
        print_bytes(out, b->bytes);
        if (b->to == p->nsteps)
            sb_printf(out, ", from step %d to the end", b->from);
        else
            sb_printf(out, ", steps %d to %d", b->from, b->to);
        sb_printf(out, " (%s)\n", op_info[b->maker.node->op].name);
    }
    for (int at = 0; at < p->nsteps; at++)
        if (p->takes[at] >= 0)
            sb_printf(out, "# step %d (%s) takes over the memory of its operand %d\n", at, op_info[p->step[at]->op].name, p->takes[at] + 1);
    print_buffers(p, out);
}
