/*
 * From the body of a `fused` node to kernels: one for each way in which operands step, and each schedule, made when it is
 * first asked for.  Bodies that say the same (bodykey.c) share them, for the rest of the process.
 */
#include "ir/schedule/far.h"
#include "ir/schedule/fused_impl.h"

#include "ir/tile/tile_impl.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <string.h>
#include <time.h>

FusedState fused_state;
static Map by_key;              /* hash of the key -> FusedCode *, a reference, until the process ends */

static FusedCode *code_new(const Graph *body, const Attr *a)
{
    FusedCode *c = tsr_calloc(sizeof *c);
    StrBuf err = {0};

    c->refs = 1;
    c->whole = graph_clone(body);
    c->body = schedule_epilogue(c->whole, &c->product);
    c->able = region_of_body(c->body, &c->r) && c->body->params.n + body->results.n + c->r.ncounters <= OPERANDS;
    c->looks_up = fused_looks_up(c->whole);
    for (int k = 0; c->product && k < 2; k++)
        for (int i = 0; i < body->params.n; i++)
            if (c->whole->params.at[i] == c->product->in[k].node)
                c->factor[k] = i;
    if (!a->name || !schedule_read(a->name->text, &c->s, &err))
        c->s = schedule_default(c->able ? &c->r : NULL);
    for (int i = 0; c->able && i < c->body->params.n; i++)
        c->value[i] = region_value(&c->r, c->body->params.at[i]);
    for (int i = 0; c->able && i < body->results.n; i++)
        c->value[c->body->params.n + i] = region_value(&c->r, c->body->results.at[i].node);
    sb_done(&err);
    return c;
}

static void variant_free(Variant *v)
{
    if (v->code)
        v->by->free(v->code);
    tile_kernel_free(v->tile);
    tsr_free(v);
}

void fused_code_free(FusedCode *c)
{
    if (--c->refs)
        return;
    while (c->first) {
        Variant *v = c->first;
        c->first = v->next;
        variant_free(v);
    }
    graph_unref(c->divided);
    graph_unref(c->one);
    graph_unref(c->body);
    graph_unref(c->whole);
    sb_done(&c->key);
    tsr_free(c);
}

static bool same_key(const StrBuf *a, const StrBuf *b) { return a->n == b->n && !memcmp(a->s, b->s, a->n); }

FusedCode *fused_code_of(Graph *body, const Attr *a)
{
    StrBuf key = {0};
    uint64_t hash;
    uintptr_t at;
    FusedCode *c;

    if (body->code)
        return body->code;
    fused_body_key(body, &key);
    sb_puts(&key, a->name ? a->name->text : "");
    hash = hash_bytes64(key.s, key.n) | 1;
    c = map_find(&by_key, hash, &at) ? (FusedCode *)at : NULL;
    if (!c || !same_key(&c->key, &key)) {
        if (c)
            fused_code_free(c);                     /* one whose hash is the same: its bodies keep it */
        c = code_new(body, a);
        c->key = key;
        map_set(&by_key, hash, (uintptr_t)c);
    } else {
        sb_done(&key);
    }
    c->refs++;
    return body->code = c;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void set_code(Variant *v, void *code)
{
    const Schedule *s = &v->schedule;

    v->code = code;
    if (code)
        v->launch = (LaunchKernel){v->by->entry(code), schedule_group_rows(s), s->kind == SCHEDULE_MAP ? s->n : 0, s->kind == SCHEDULE_COLUMNS, code,
                                   v->by->scratch};
}

/* By whoever is the first to have it; kernels that could not be compiled count too. */
static bool is_new(const Variant *v) { return v->tile && (!v->code || v->by->users(v->code) == 1); }

static void compile(Variant *v, const FusedCode *c)
{
    StrBuf err = {0};

    v->tile = schedule_lower(c->body, &c->r, &v->schedule, v->stride, NULL, &err);
    if (v->tile)
        tile_fold(v->tile);
    v->waits = v->tile && fused_state.rehearses && v->by && v->by->compile_all;
    if (v->waits) {
        vec_push(&fused_state.waiting, v);
    } else {
        if (v->tile && v->by)
            set_code(v, v->by->compile(v->tile, &err));
        fused_state.stats.kernels += is_new(v);
    }
    sb_done(&err);
}

static bool same_schedule(const Schedule *a, const Schedule *b)
{
    return a->kind == b->kind && a->lean == b->lean && a->past == b->past && a->beside == b->beside && a->near == b->near &&
           a->long_rows == b->long_rows && a->whole == b->whole && a->part == b->part && a->align == b->align && a->rounds == b->rounds &&
           a->m == b->m && a->n == b->n && a->turns == b->turns && a->held == b->held && a->blocks == b->blocks && a->stays == b->stays;
}

Variant *fused_variant(FusedCode *c, const StrideClass *stride, int n, Schedule s)
{
    Variant *v = c->first;
    double start;

    while (v && (v->by != fused_state.compiler || v->effort != fused_state.effort ||
                 !same_schedule(&v->schedule, &s) || memcmp(v->stride, stride, sizeof *stride * (size_t)n)))
        v = v->next;
    if (v)
        return v;
    start = now();
    v = tsr_calloc(sizeof *v);
    memcpy(v->stride, stride, sizeof *stride * (size_t)n);
    v->schedule = s;
    v->by = fused_state.compiler;
    v->effort = fused_state.effort;
    compile(v, c);
    v->next = c->first;
    c->first = v;
    fused_state.stats.seconds += now() - start;
    return v;
}

/* ---- rehearsals ---- */

Tensor *fused_ghost(DType dt, int rank, const Dim *shape)
{
    int64_t stride[REGION_AXES], step = 1;
    Tensor *one, *t;

    if (far_pretends)               /* storage of a GPU that is none takes no memory */
        return tensor_new(dt, rank, shape);
    for (int k = rank - 1; k >= 0 && rank <= REGION_AXES; k--) {
        stride[k] = step;
        if (__builtin_mul_overflow(step, shape[k] ? shape[k] : 1, &step))
            return NULL;
    }
    if (rank > REGION_AXES || !(one = tensor_zeros(dt, 0, NULL)))
        return NULL;
    t = tensor_view(one, rank, shape, stride, 0);
    tensor_unref(one);
    return t;
}

static void make_waiting(void)
{
    int n = fused_state.waiting.n;
    const TileKernel **tile = tsr_alloc(sizeof *tile * ((size_t)n + 1));
    void **code = tsr_alloc(sizeof *code * ((size_t)n + 1));
    double start = now();

    for (int i = 0; i < n; i++)
        tile[i] = fused_state.waiting.at[i]->tile;
    if (n)
        fused_state.compiler->compile_all(tile, n, code);
    for (int i = 0; i < n; i++) {
        Variant *v = fused_state.waiting.at[i];
        set_code(v, code[i]);
        v->waits = false;
        fused_state.stats.kernels += is_new(v);
    }
    fused_state.stats.seconds += now() - start;
    tsr_free(tile);
    tsr_free(code);
    vec_free(&fused_state.waiting);
}

void fused_rehearse(bool begin)
{
    fused_state.rehearses = begin;
    if (begin)
        return;
    while (fused_state.worked.n) {
        Worked w = vec_last(&fused_state.worked);
        fused_state.worked.n--;
        w.code->work = w.work;
    }
    vec_free(&fused_state.worked);
    make_waiting();
}
