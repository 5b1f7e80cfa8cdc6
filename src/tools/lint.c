/*
 * What a program's launches do badly: bank conflicts, accesses of global memory
 * that take more sectors than they need, barriers that hold nothing apart,
 * registers, and which roof bounds them.
 *
 * The program runs, with its output on standard error; of each kernel and each
 * shape of its launches two groups are watched (ir/tile/watch.h) before it
 * runs.  Findings are warnings, which leave the exit code alone; estimates are
 * notes, which are given when they are asked for.
 */
#include "tools/lint.h"

#include "base/ints.h"
#include "frontend/kernel/launch.h"
#include "ir/tile/count.h"
#include "ir/tile/banks.h"
#include "ir/tile/resources.h"
#include "ir/tile/tile_impl.h"
#include "ir/tile/watch.h"
#include "runtime/gpu.h"
#include "tools/program.h"
#include "tools/term.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { WORK = 1 << 25 };                /* steps of lanes that a watched group may take */
enum { SECTORS_OVER = 2, SECTORS_MORE = 4, ROUNDS = 6, PRESSED = 168, LOADED_OFTEN = 4 };     /* from where a finding is worth a word */

/* A barrier of the program in all launches together. */
typedef struct Barrier { uint64_t key; Span span; const char *name; bool held, seen; } Barrier;

typedef struct Lint {
    const Options *o;
    DiagSink *sink;
    Vec(uint64_t) known;                /* launches that were looked at: kernel, sizes, extents */
    Vec(uint64_t) told;                 /* findings: code and place */
    Vec(Barrier) barriers;
    int launches;
    const KernelLaunch *l;              /* at hand */
    TileWatch watch;
    const GpuModel *gpu;
} Lint;

/* ---- what was asked for ---- */

static bool wants(const Lint *t, Opt opt)
{
    bool any = option_on(t->o, OPT_banks) || option_on(t->o, OPT_access) || option_on(t->o, OPT_barriers) || option_on(t->o, OPT_registers) ||
               option_on(t->o, OPT_roofline);

    return any ? option_on(t->o, opt) : opt != OPT_roofline;
}

static uint64_t mixed(uint64_t h, uint64_t x) { return (h ^ x) * 0x9e3779b97f4a7c15u ^ (h >> 29); }

static uint64_t launch_key(const KernelLaunch *l)
{
    uint64_t h = mixed((uint64_t)(uintptr_t)l->k, (uint64_t)l->lanes);

    for (int i = 0; i < l->k->size.n; i++)
        h = mixed(h, (uint64_t)l->size[i]);
    for (int i = 0; i < l->k->params.n; i++)
        for (int a = 0; a < l->k->params.at[i]->type[0].rank; a++)
            h = mixed(mixed(h, (uint64_t)l->arg[i].extent[a]), (uint64_t)l->arg[i].stride[a]);
    return h;
}

#define NEW_IN(list, x) is_new((list).at, (list).n, (x))
static bool is_new(const uint64_t *at, int n, uint64_t x)
{
    for (int i = 0; i < n; i++)
        if (at[i] == x)
            return false;
    return true;
}

static uint64_t place_key(int code, Span at)
{
    Place p = source_place(at.lo);

    return mixed(mixed((uint64_t)code, (uint64_t)(uintptr_t)p.src), p.line);
}

/* Is this finding the first of its code and kind at its place? One line is told once, whatever the launch. */
static bool first_of_kind(Lint *t, DiagCode code, Span at, uint64_t kind)
{
    uint64_t key = mixed(place_key((int)code, at), kind);

    if (!at.hi || !NEW_IN(t->told, key))
        return false;
    vec_push(&t->told, key);
    return true;
}

static bool first_of(Lint *t, DiagCode code, Span at) { return first_of_kind(t, code, at, 0); }

/* ---- findings ---- */

static const char *text_of(char *room, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static const char *text_of(char *room, size_t n, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(room, n, fmt, ap);
    va_end(ap);
    return room;
}
#define TEXT(...) text_of((char[96]){0}, 96, __VA_ARGS__)

static const char *name_of(const TileKernel *k, TileRef v)
{
    while (v.node->op == TOP_part)
        v = v.node->in[0];
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i] == v.node)
            return k->param_name.at[i]->text;
    return v.node->op == TOP_alloc && v.node->attr->name ? v.node->attr->name->text : "memory";
}

static const TileNode *buffer_of(TileRef v)
{
    while (v.node->op == TOP_part)
        v = v.node->in[0];
    return v.node->op == TOP_alloc ? v.node : NULL;
}

/* The elements of its rows, where that is a number; 0: not known. */
static int64_t row_of(const TileNode *alloc)
{
    const TileNode *last = alloc && alloc->nin ? alloc->in[alloc->nin - 1].node : NULL;

    return last && last->op == TOP_index ? last->attr->i : 0;
}

static void bank_conflict(Lint *t, const TileNode *n, const TileUse *u)
{
    const TileNode *buffer = buffer_of(n->in[0]);
    int64_t row = row_of(buffer);
    Diag *d;

    if (u->ways < 2 || !first_of(t, E0661, n->span))
        return;
    d = DIAG_AT(t->sink, E0661, n->span, TEXT("%d", u->ways), TEXT("%u", source_place(n->span.lo).line), n->op == TOP_load ? "reads" : "writes",
                name_of(t->l->k, n->in[0]));
    if (buffer && buffer->span.hi)
        diag_label(d, buffer->span, "its rows have %" PRId64 " elements", row);
    if (u->padded < u->ways)
        diag_help(d, "give the rows %" PRId64 " elements%s", row + 1, u->padded == 1 ? "" : TEXT(": %d-way then", u->padded));
    if (u->xored < u->ways)
        diag_help(d, "give the array swizzle=\"xor\"%s", u->xored == 1 ? "" : TEXT(": %d-way then", u->xored));
    if (u->padded >= u->ways && u->xored >= u->ways)
        diag_help(d, "let neighbouring lanes touch neighbouring elements");
}

static void more_sectors(Lint *t, const TileNode *n, const TileUse *u)
{
    double each = u->times ? (double)u->sectors / (double)u->times : 0, fewest = u->times ? (double)u->fewest / (double)u->times : 0;

    if (each < SECTORS_OVER * fewest || each - fewest < SECTORS_MORE || !first_of(t, E0662, n->span))
        return;
    DIAG_AT(t->sink, E0662, n->span, TEXT("%u", source_place(n->span.lo).line), n->op == TOP_load ? "read" : "write", name_of(t->l->k, n->in[0]),
            TEXT("%.3g", each), TEXT("%.3g", fewest));
}

/* Does the program say it itself? Operations of the whole group have barriers of their own. */
static bool is_written(Span at)
{
    Place p = source_place(at.lo);

    const char *text = p.src ? p.src->text + (at.lo - p.src->base) : NULL;

    return text && at.hi > at.lo && at.hi - p.src->base <= p.src->len &&
           (memmem(text, at.hi - at.lo, "barrier(", 8) || memmem(text, at.hi - at.lo, "sync(", 5));
}

static void see_barrier(Lint *t, const TileNode *n, const TileUse *u)
{
    bool round = false;
    uint64_t key = place_key(E0663, n->span);
    int i = 0;

    for (const TileBlock *b = n->block; b; b = b->owner ? b->owner->block : NULL)
        round |= b->owner && b->owner->op != TOP_if;
    while (i < t->barriers.n && t->barriers.at[i].key != key)
        i++;
    if (i == t->barriers.n)
        vec_push(&t->barriers, ((Barrier){key, n->span, t->l->k->name->text, false, false}));
    t->barriers.at[i].held |= u->held;
    t->barriers.at[i].seen |= u->times >= (round ? ROUNDS : 1);         /* a loop shows in later rounds what it holds apart */
}

static void idle_barriers(Lint *t)
{
    for (int i = 0; i < t->barriers.n; i++) {
        const Barrier *b = &t->barriers.at[i];
        if (!b->held && b->seen && b->span.hi)
            DIAG_AT(t->sink, E0663, b->span, TEXT("%u", source_place(b->span.lo).line), b->name);
    }
}

static void findings_in(Lint *t, const TileBlock *b)
{
    for (const TileNode *n = b->first; n; n = n->next) {
        const TileUse *u = &t->watch.use[n->id];
        bool memory = n->nin && tile_type(n->in[0])->kind == TILE_VIEW && u->times;
        if (memory && tile_type(n->in[0])->space == SPACE_SHARED && wants(t, OPT_banks))
            bank_conflict(t, n, u);
        if (memory && tile_type(n->in[0])->space == SPACE_GLOBAL && wants(t, OPT_access))
            more_sectors(t, n, u);
        if (n->op == TOP_barrier && u->times && is_written(n->span) && wants(t, OPT_barriers))
            see_barrier(t, n, u);
        for (int r = 0; r < 2; r++)
            if (n->region[r])
                findings_in(t, n->region[r]);
    }
}

/* Blocks that the group loads and stores: their lanes lie along the last axis, which must not jump. */
static void see_block(void *state, const TileNode *n, TileAccess a)
{
    Lint *t = state;
    const TileType *block = n->op == TOP_load || n->op == TOP_gather ? &n->type[0] : tile_type(n->in[n->nin - 1]);

    if (a < ACCESS_STRIDED || n->op == TOP_copy || n->op == TOP_copy_async || block->rank == 0 || !wants(t, OPT_access) ||
        !first_of(t, E0662, n->span))
        return;
    DIAG_AT(t->sink, E0662, n->span, TEXT("%u", source_place(n->span.lo).line), n->op == TOP_load || n->op == TOP_gather ? "read" : "write",
            name_of(t->l->k, n->in[0]), "32", TEXT("%d", dtype_info[block->dtype].bits / 8));
}

/* ---- estimates ---- */

/* How many groups a multiprocessor holds at once. */
static int64_t resident(const Lint *t, const TileResources *r)
{
    int64_t lanes = (t->l->lanes + WARP_LANES - 1) / WARP_LANES * WARP_LANES, shared = r->shared + r->staged;
    int each = r->registers > GPU_LANE_REGISTERS ? 256 : (r->registers + 7) / 8 * 8;       /* they are handed out by eights */
    int64_t by_registers = t->gpu->registers / (lanes * each);
    int64_t by_shared = shared ? t->gpu->shared_processor * (int64_t)1024 / (shared + 1024) : GPU_PROCESSOR_LANES;

    return least(least(by_registers, by_shared), GPU_PROCESSOR_LANES / lanes);
}

static void registers(Lint *t, Span at)
{
    TileResources r;
    int64_t groups;
    Diag *d;
    int warps = (t->l->lanes + WARP_LANES - 1) / WARP_LANES;

    tile_resources(t->l->k, t->l->size, t->l->lanes, &r);
    if (!option_on(t->o, OPT_registers) && r.registers <= GPU_LANE_REGISTERS)
        return;
    if (!first_of_kind(t, E0664, at, (uint64_t)r.registers))
        return;
    groups = resident(t, &r);
    d = DIAG_AT(t->sink, E0664, at, t->l->name, TEXT("%d", r.registers), TEXT("%.1f", 100.0 * r.registers / GPU_LANE_REGISTERS));
    diag_note(d, "shared memory: %.1f KB of %d KB; a multiprocessor of an %s holds %" PRId64 " of its groups, %.0f%% of the warps there can be",
              (double)(r.shared + r.staged) / 1024, t->gpu->shared_group, t->gpu->name, groups,
              100.0 * (double)(groups * warps) / (GPU_PROCESSOR_LANES / WARP_LANES));
    if (r.registers > GPU_LANE_REGISTERS)
        diag_help(d, "what does not fit is kept in memory: use smaller blocks, or more warps");
    else if (r.registers > PRESSED)
        diag_help(d, "smaller blocks, or more warps, leave room for more groups at a time");
}

/* Bytes that the tensors of the launch have: what has to move at least. */
static double bytes_of_args(const KernelLaunch *l)
{
    double sum = 0;

    for (int i = 0; i < l->k->params.n; i++) {
        const TileType *p = &l->k->params.at[i]->type[0];
        double n = dtype_info[p->dtype].bits / 8.0;
        for (int a = 0; a < p->rank; a++)
            n *= (double)l->arg[i].extent[a];
        sum += n;
    }
    return sum;
}

static void roofline(Lint *t, Span at, const TileCount *c)
{
    double all = bytes_of_args(t->l), moved = c->loaded + c->stored, ridge = t->gpu->flops / t->gpu->bandwidth;
    double bytes = fmax(fmin(moved, all), 1), rate = c->flops / bytes;
    bool memory = rate < ridge;
    Diag *d;

    if (!wants(t, OPT_roofline) || !first_of(t, E0665, at))
        return;
    d = DIAG_AT(t->sink, E0665, at, t->l->name, memory ? "memory" : "arithmetic", TEXT("%.3g", rate), TEXT("%.3g", ridge), t->gpu->name);
    diag_note(d, "%.3g operations and %.3g bytes: at least %.3g microseconds", c->flops, bytes,
              1e6 * fmax(c->flops / t->gpu->flops, bytes / t->gpu->bandwidth));
    if (moved > LOADED_OFTEN * all)
        diag_help(d, "it asks global memory for %.3g times the bytes of its tensors: bring blocks that are used again into shared memory",
                  moved / all);
    else if (c->groups < t->gpu->processors)
        diag_help(d, "its %.0f group%s leave%s most of %d multiprocessors idle: make the blocks smaller", c->groups, c->groups == 1 ? "" : "s",
                  c->groups == 1 ? "s" : "", t->gpu->processors);
}

/* Where the kernel's text begins, as far as its nodes say. */
static Span first_place(const TileBlock *b)
{
    Span at = {0, 0};

    for (const TileNode *n = b->first; n; n = n->next) {
        Span here = n->span;
        for (int r = 0; r < 2 && !here.hi; r++)
            here = n->region[r] ? first_place(n->region[r]) : here;
        if (here.hi && (!at.hi || here.lo < at.lo))
            at = here;
    }
    return at;
}

/* ---- launches ---- */

static void see_launch(void *state, const KernelLaunch *l)
{
    Lint *t = state;
    uint64_t key = launch_key(l);
    TileAccessSink sink = {see_block, t};
    TileCount count;
    StrBuf err = {0};

    t->launches++;
    if (!NEW_IN(t->known, key))
        return;
    vec_push(&t->known, key);
    t->l = l;
    tile_watch_init(&t->watch, l->k);
    for (int64_t g = 0; g <= l->groups / 2; g += l->groups > 1 ? l->groups / 2 : 1) {
        tile_watch(l->k, l->size, l->arg, g, WORK, &t->watch, &err);
        sb_clear(&err);                                     /* a fault is for --debug to report */
    }
    sb_done(&err);
    findings_in(t, &l->k->body);
    if (tile_count(l->k, l->size, l->arg, &sink, &count))
        roofline(t, first_place(&l->k->body), &count);
    if (wants(t, OPT_registers))
        registers(t, first_place(&l->k->body));
    tile_watch_done(&t->watch);
}

static void see_proof(void *state, const char *text)
{
    Lint *t = state;

    DIAG_AT(t->sink, E0666, ((Span){0, 0}), text);
}

static void print_findings(const Program *p, const Options *o)
{
    StrBuf out = {0};

    if (option_on(o, OPT_json))
        diag_render_json(&p->sink, &out);
    else if (p->sink.all.n)
        diag_render(&p->sink, term_style(o, STDOUT_FILENO), &out);
    fwrite(sb_str(&out), 1, out.n, stdout);
    sb_done(&out);
}

int lint_program(const Options *o)
{
    Program p;
    Lint t = {.o = o, .gpu = gpu_target(), .sink = &p.sink};
    int code;

    if (!program_open(&p, o, stdout))
        return EXIT_MISTAKE;
    kernel_launched = see_launch;
    kernel_proved = see_proof;
    kernel_launched_state = &t;
    code = program_run_aside(&p, o);
    kernel_launched = NULL;
    kernel_proved = NULL;
    idle_barriers(&t);
    print_findings(&p, o);
    if (code == EXIT_OK && !t.launches)
        fprintf(stderr, "note: no kernel was launched, so nothing is known of any\n");
    program_done(&p);
    vec_free(&t.known);
    vec_free(&t.told);
    vec_free(&t.barriers);
    return code;
}
