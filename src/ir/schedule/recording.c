/*
 * Recordings: recording.h.
 *
 * While one is written, the runtime tells what it puts on the device (gpu_device.h) and launches tell which of their words are addresses
 * (far_code.h).  An address belongs to the room that is alive at it just then: the pool gives the same memory to several, one after the other.
 *
 * A graph of the driver's holds addresses, which differ from call to call: operands are the last call's results.  They take turns among few places,
 * so a recording keeps a few such graphs; where none has the right addresses, the one that was used longest ago gets them.
 */
#include "ir/schedule/recording.h"

#include "ir/schedule/branches.h"
#include "ir/schedule/far_code.h"

#include "base/map.h"
#include "base/vec.h"
#include "runtime/gpu_launch.h"
#include "runtime/gpu_report.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

#include <string.h>

enum { GRAPHS = 4, GRAIN = 512, SMALL = 256 << 10, FOREVER = INT32_MAX };

typedef enum { ROOM_OPERAND, ROOM_RESULT, ROOM_HOSTED, ROOM_CONSTANT, ROOM_WITHIN } RoomKind;

typedef struct Room {
    uint8_t kind;
    int which;                  /* of the operands, of the results, of what the host makes */
    CUdeviceptr at;             /* while the recording is written */
    size_t bytes;
    int from, to;               /* the events between which it is alive; FOREVER: to the end */
    size_t offset;              /* within */
    Storage *store;             /* of a constant: a reference; else borrowed while the recording is written */
} Room;

typedef struct RoomPlace { int room; uint64_t offset; } RoomPlace;

typedef enum { EVENT_LAUNCH, EVENT_FILL, EVENT_COPY } EventKind;

typedef struct MapOf { GpuMap map; int rank; TileArg arg; RoomPlace place; } MapOf;
typedef struct Patch { int word; bool writes; RoomPlace place; } Patch;

typedef struct Event {
    uint8_t kind;
    int byte;
    size_t bytes;
    RoomPlace to, from;
    GpuFunction *f;
    GpuLaunch launch;
    bool stays, reports;        /* do its blocks stay and take groups in turn? may it tell of an index that is out of range? */
    uint64_t *word;
    int nwords, npatches, nmaps;
    Patch *patch;
    MapOf *map;
} Event;

typedef struct Instance { GpuGraph *graph; CUdeviceptr *at; uint64_t used; } Instance;      /* at: by room */

struct Recording {
    GpuDevice *g;
    Storage *const *operand;
    int noperands;
    Vec(Room) rooms;
    Vec(Event) events;
    Map made;                   /* storage -> how it was made since the recording began */
    size_t within;
    const char *why;            /* it cannot be played */
    Branches branches;          /* which event waits for which */
    Instance instance[GRAPHS];
    uint64_t plays;
};

static Recording *writing;
static bool settles;
static void (*noted_before)(const Storage *s, bool made);

bool recording_writing(void) { return writing != NULL; }

void recording_spoil(const char *why)
{
    if (writing && !writing->why)
        writing->why = why;
}

/* The host's constants, such as one divided by a size, are made anew in each run. */
typedef enum { MADE_NOT, MADE_VARYING, MADE_SETTLED, MADE_HOSTED /* and so on, one for each */ } MadeHow;

static uintptr_t made_how(const Storage *s)
{
    uintptr_t v = MADE_NOT;

    map_find(&writing->made, (uintptr_t)s, &v);
    return v;
}

void recording_hosted(const Storage *s, int which) { map_set(&writing->made, (uintptr_t)s, MADE_HOSTED + (uintptr_t)which); }

int recording_host(const Storage *s)
{
    uintptr_t v = writing ? made_how(s) : MADE_NOT;

    return v >= MADE_HOSTED ? (int)(v - MADE_HOSTED) : -1;
}

void recording_settled(const Storage *s)
{
    if (writing && made_how(s) == MADE_VARYING)
        map_set(&writing->made, (uintptr_t)s, MADE_SETTLED);
}

void recording_settles(bool all) { settles = all; }

static int operand_of(const Recording *t, const Storage *s)
{
    for (int i = 0; i < t->noperands; i++)
        if (t->operand[i] == s)
            return i;
    return -1;
}

bool recording_varies(const Storage *s)
{
    uintptr_t how = writing ? made_how(s) : MADE_SETTLED;

    return how == MADE_NOT ? operand_of(writing, s) >= 0 : how != MADE_SETTLED;
}

/* ---- rooms ---- */

static int room_at(const Recording *t, CUdeviceptr at)
{
    for (int i = t->rooms.n; i-- > 0; )
        if (t->rooms.at[i].to == FOREVER && at >= t->rooms.at[i].at && at - t->rooms.at[i].at < t->rooms.at[i].bytes)
            return i;
    return -1;
}

/* The place of an address; room -1: nobody knows it. */
static RoomPlace place_of(const Recording *t, CUdeviceptr at)
{
    int i = room_at(t, at);

    return (RoomPlace){i, i < 0 ? 0 : at - t->rooms.at[i].at};
}

static RoomPlace known_place(const Recording *t, CUdeviceptr at)
{
    RoomPlace p = place_of(t, at);

    if (p.room < 0)
        recording_spoil("memory is used that belongs to no tensor");
    return p;
}

static void add_room(Recording *t, Storage *s)
{
    int which = operand_of(t, s);
    Room r = {.kind = which >= 0 ? ROOM_OPERAND : made_how(s) ? ROOM_WITHIN : ROOM_CONSTANT, .which = which, .at = s->remote,
              .bytes = s->nbytes ? s->nbytes : 1, .from = t->events.n, .to = FOREVER, .store = s};

    if (r.kind == ROOM_CONSTANT)
        storage_ref(s);
    vec_push(&t->rooms, r);
}

/* ---- what the runtime tells ---- */

static void note_room(GpuDevice *g, Storage *s, bool written)
{
    Recording *t = writing;
    int i = room_at(t, s->remote);

    if (g != t->g)
        recording_spoil("it uses several GPUs");
    if (i < 0) {
        add_room(t, s);
        i = t->rooms.n - 1;
    }
    if (written && t->rooms.at[i].kind != ROOM_WITHIN)
        recording_spoil("it writes to what was there before");
}

/* A constant lives as long as the recording, so that it is there whenever that is played. */
static void note_sent(const Storage *s)
{
    uintptr_t how = made_how(s);
    int i = room_at(writing, s->remote);

    if (how == MADE_VARYING || i < 0)
        recording_spoil("the host computes a part of it");
    else if (how >= MADE_HOSTED) {
        writing->rooms.at[i].kind = ROOM_HOSTED;
        writing->rooms.at[i].which = (int)(how - MADE_HOSTED);
    } else if (how == MADE_SETTLED && writing->rooms.at[i].kind == ROOM_WITHIN) {
        writing->rooms.at[i].kind = ROOM_CONSTANT;
        storage_ref(writing->rooms.at[i].store);
    }
}

static void note_left(GpuDevice *g, CUdeviceptr at)
{
    int i = g == writing->g ? room_at(writing, at) : -1;

    if (i >= 0 && writing->rooms.at[i].kind != ROOM_WITHIN && writing->rooms.at[i].kind != ROOM_HOSTED)
        recording_spoil("it lets go what was there before");
    if (i >= 0)
        writing->rooms.at[i].to = writing->events.n;
}

static void note_moved(GpuDevice *g, CUdeviceptr from, CUdeviceptr to)
{
    int i = g == writing->g ? room_at(writing, from) : -1;

    if (i >= 0)
        writing->rooms.at[i].at = to;
}

static void note_fill(GpuDevice *g, CUdeviceptr at, int byte, size_t bytes)
{
    Event e = {.kind = EVENT_FILL, .byte = byte, .bytes = bytes};

    if (!bytes)
        return;
    e.to = known_place(writing, at);
    if (e.to.room < 0 || writing->rooms.at[e.to.room].kind == ROOM_WITHIN)      /* an operand's zeros are written as it is asked for */
        vec_push(&writing->events, e);
}

static void note_copy(GpuDevice *g, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    Event e = {.kind = EVENT_COPY, .bytes = bytes};

    if (!bytes)
        return;
    e.to = known_place(writing, to);
    e.from = known_place(writing, from);
    vec_push(&writing->events, e);
}

static void note_made(const Storage *s, bool made)
{
    if (writing)
        map_set(&writing->made, (uintptr_t)s, !made ? MADE_NOT : settles ? MADE_SETTLED : MADE_VARYING);
    if (noted_before)
        noted_before(s, made);
}

static bool is_empty(const TileArg *a, int rank)
{
    for (int i = 0; i < rank; i++)
        if (!a->extent[i])
            return true;
    return false;
}

/* The words of a launch are sizes, three numbers of groups, and for each view its base, extents and strides. */
static void note_launch(GpuFunction *f, const GpuLaunch *l, const FarCode *c, const TileKernel *k, const TileArg *args)
{
    Event e = {.kind = EVENT_LAUNCH, .f = f, .launch = *l, .nwords = (int)(l->nbytes / 8), .nmaps = c->frame.nmaps, .stays = c->frame.resident};

    e.word = tsr_alloc(l->nbytes + 8);
    memcpy(e.word, l->params, l->nbytes);
    e.patch = tsr_calloc(sizeof *e.patch * (size_t)(k->params.n + 1));
    e.map = tsr_calloc(sizeof *e.map * (size_t)(c->frame.nmaps + 1));
    for (int i = 0, word = k->size.n + 3; i < k->params.n; i++) {
        int rank = k->params.at[i]->type[0].rank;
        bool reports = args[i].base && gpu_reports(writing->g, args[i].base);
        e.reports |= reports;
        if (args[i].base && !is_empty(&args[i], rank) && !reports)
            e.patch[e.npatches++] = (Patch){word, tile_writes_to(k, i), known_place(writing, (CUdeviceptr)(uintptr_t)args[i].base)};
        word += 1 + 2 * rank;
    }
    for (int i = 0; i < e.nmaps; i++) {
        const GpuMap *m = &c->frame.map[i];
        const TileArg *a = &args[m->param];
        e.map[i] = (MapOf){*m, k->params.at[m->param]->type[0].rank, *a, known_place(writing, (CUdeviceptr)(uintptr_t)a->base)};
    }
    vec_push(&writing->events, e);
}

static const GpuNotes notes = {note_fill, note_copy, note_room, note_sent, note_left, note_moved, recording_spoil};

/* ---- from begin to end ---- */

Recording *recording_begin(int device, Storage *const *operand, int n)
{
    GpuDevice *g = writing ? NULL : device_gpu(device);
    Recording *t = g ? tsr_calloc(sizeof *t) : NULL;

    if (!t)
        return NULL;
    t->g = g;
    t->operand = operand;
    t->noperands = n;
    gpu_lock();
    writing = t;
    settles = false;
    noted_before = storage_noted;
    storage_noted = note_made;
    gpu_notes = &notes;
    far_noted = note_launch;
    gpu_unlock();
    return t;
}

static void stop(void)
{
    gpu_lock();
    writing = NULL;
    storage_noted = noted_before;
    gpu_notes = NULL;
    far_noted = NULL;
    gpu_unlock();
}

/* What lives at the end: results, and what is kept from now on. */
static void settle_rooms(Recording *t, Storage *const *result, int n)
{
    for (int i = 0; i < t->rooms.n; i++) {
        Room *r = &t->rooms.at[i];
        if (r->kind != ROOM_WITHIN || r->to != FOREVER)
            continue;
        for (int k = 0; k < n && r->kind == ROOM_WITHIN; k++)
            if (result[k] == r->store) {
                r->kind = ROOM_RESULT;
                r->which = k;
            }
        if (r->kind == ROOM_WITHIN && recording_host(r->store) < 0) {
            r->kind = ROOM_CONSTANT;
            storage_ref(r->store);
        }
    }
}

/*
 * Are the rooms alive at the same time, so that they need memory of their own each? Small ones have it anyway: who takes the place of another one
 * has to wait for all that use that.
 */
static bool meet(const Room *a, const Room *b) { return a->bytes <= SMALL || b->bytes <= SMALL || (a->from <= b->to && b->from <= a->to); }

/* Each in turn as low as it may lie, beside those that it meets. */
static void lay_out(Recording *t)
{
    for (int i = 0; i < t->rooms.n; i++) {
        Room *r = &t->rooms.at[i];
        size_t size = (r->bytes + GRAIN - 1) / GRAIN * GRAIN;
        if (r->kind != ROOM_WITHIN)
            continue;
        for (bool moved = true; moved; ) {
            moved = false;
            for (int k = 0; k < i; k++) {
                const Room *o = &t->rooms.at[k];
                size_t end = o->offset + (o->bytes + GRAIN - 1) / GRAIN * GRAIN;
                if (o->kind == ROOM_WITHIN && meet(o, r) && r->offset < end && o->offset < r->offset + size) {
                    r->offset = end;
                    moved = true;
                }
            }
        }
        t->within = r->offset + size > t->within ? r->offset + size : t->within;
    }
}

/* ---- who waits for whom ---- */

typedef Vec(BranchUse) Uses;

/* Where each room begins among all of them, those within as they lie; behind them the report's place, then a place for each event's function. */
static uint64_t *begin_rooms(const Recording *t, uint64_t *end)
{
    uint64_t *from = tsr_alloc(sizeof *from * ((size_t)t->rooms.n + 1)), at = t->within;

    for (int i = 0; i < t->rooms.n; i++) {
        bool within = t->rooms.at[i].kind == ROOM_WITHIN;
        from[i] = within ? t->rooms.at[i].offset : at;
        at += within ? 0 : t->rooms.at[i].bytes;
    }
    *end = at;
    return from;
}

static void use_room(const Recording *t, const uint64_t *from, Uses *u, RoomPlace p, bool writes)
{
    vec_push(u, ((BranchUse){from[p.room], from[p.room] + t->rooms.at[p.room].bytes, writes}));
}

/* Launches of one function whose blocks take groups in turn, which it may count in a place of its own, follow each other. */
static int first_of_function(const Recording *t, int i)
{
    int k = 0;

    while (t->events.at[k].f != t->events.at[i].f)
        k++;
    return k;
}

static void use_event(const Recording *t, const uint64_t *from, uint64_t end, int i, Uses *u)
{
    const Event *e = &t->events.at[i];

    if (e->kind != EVENT_LAUNCH) {
        use_room(t, from, u, e->to, true);
        if (e->kind == EVENT_COPY)
            use_room(t, from, u, e->from, false);
        return;
    }
    for (int k = 0; k < e->npatches; k++)
        use_room(t, from, u, e->patch[k].place, e->patch[k].writes);
    if (e->reports)
        vec_push(u, ((BranchUse){end, end + 1, true}));
    if (e->stays) {
        uint64_t own = end + 1 + (uint64_t)first_of_function(t, i);
        vec_push(u, ((BranchUse){own, own + 1, true}));
    }
}

static void find_branches(Recording *t)
{
    int *first = tsr_calloc(sizeof *first * ((size_t)t->events.n + 1));
    uint64_t end, *from = begin_rooms(t, &end);
    Uses uses = {0};

    for (int i = 0; i < t->events.n; i++) {
        use_event(t, from, end, i, &uses);
        first[i + 1] = uses.n;
    }
    t->branches = branches_find(uses.at, first, t->events.n);
    vec_free(&uses);
    tsr_free(first);
    tsr_free(from);
}

Recording *recording_end(Recording *t, Storage *const *result, int n, const char **why)
{
    if (!t->events.n)
        recording_spoil("it launches nothing");
    settle_rooms(t, result, n);
    stop();
    map_done(&t->made);
    t->made = (Map){0};
    t->operand = NULL;
    if ((*why = t->why)) {
        recording_drop(t);
        return NULL;
    }
    lay_out(t);
    if (pass_runs("branches"))
        find_branches(t);
    return t;
}

void recording_drop(Recording *t)
{
    if (!t)
        return;
    if (t == writing)
        stop();
    for (int i = 0; i < GRAPHS; i++) {
        gpu_graph_free(t->instance[i].graph);
        tsr_free(t->instance[i].at);
    }
    for (int i = 0; i < t->events.n; i++) {
        tsr_free(t->events.at[i].word);
        tsr_free(t->events.at[i].patch);
        tsr_free(t->events.at[i].map);
    }
    for (int i = 0; i < t->rooms.n; i++)
        if (t->rooms.at[i].kind == ROOM_CONSTANT)
            storage_unref(t->rooms.at[i].store);
    branches_done(&t->branches);
    map_done(&t->made);
    vec_free(&t->rooms);
    vec_free(&t->events);
    tsr_free(t);
}

size_t recording_within(const Recording *t) { return t->within; }

/* ---- playing ---- */

static CUdeviceptr address(const CUdeviceptr *at, RoomPlace p) { return at[p.room] + p.offset; }

static bool play_launch(const Recording *t, const Event *e, const CUdeviceptr *at)
{
    uint64_t words[GPU_WORDS];
    CUtensorMap map[GPU_MAPS];
    void *each[GPU_WORDS + GPU_MAPS];
    GpuLaunch l = e->launch;

    memcpy(words, e->word, 8 * (size_t)e->nwords);
    for (int i = 0; i < e->npatches; i++)
        words[e->patch[i].word] = address(at, e->patch[i].place);
    for (int i = 0; i < e->nmaps; i++) {
        TileArg arg = e->map[i].arg;
        arg.base = (void *)(uintptr_t)address(at, e->map[i].place);
        if (far_map(t->g, &e->map[i].map, e->map[i].rank, &arg, &map[i]) != 1)
            return fault(FAULT_RUN, "E0746: gpu:%d: a tensor map cannot be made again", t->g->index);
    }
    for (int i = 0; i < e->nwords + e->nmaps; i++)
        each[i] = i < e->nwords ? (void *)&words[i] : (void *)&map[i - e->nwords];
    l.params = words;
    l.each = e->nmaps ? each : NULL;
    return gpu_launch(e->f, &l);
}

static bool play_event(const Recording *t, const Event *e, const CUdeviceptr *at)
{
    switch ((EventKind)e->kind) {
    case EVENT_LAUNCH: return play_launch(t, e, at);
    case EVENT_FILL: return gpu_fill(t->g, address(at, e->to), e->byte, e->bytes);
    default: return gpu_copy(t->g, address(at, e->to), t->g, address(at, e->from), e->bytes);
    }
}

/* What is put down next is event i, with what it waits for. */
static bool enter_branch(const Recording *t, int i, const GpuNode *node, GpuNode *after)
{
    const Branches *b = &t->branches;
    int n = 0;

    for (int k = b->first ? b->first[i] : 0; b->first && k < b->first[i + 1]; k++)
        after[n++] = node[b->after[k]];
    return !b->first || gpu_capture_after(t->g, after, n);
}

static bool capture(Recording *t, Instance *n, const CUdeviceptr *at)
{
    bool ok = gpu_capture_begin(t->g, GPU_MAIN);
    GpuNode *node = tsr_calloc(sizeof *node * ((size_t)t->events.n + 1)), *after = tsr_calloc(sizeof *after * ((size_t)t->events.n + 1));

    for (int i = 0; ok && i < t->events.n; i++)
        ok = enter_branch(t, i, node, after) && play_event(t, &t->events.at[i], at) && (!t->branches.first || (node[i] = gpu_captured(t->g)));
    tsr_free(node);
    tsr_free(after);
    if (!gpu_capturing(t->g))
        return false;
    if (n->graph)
        return gpu_capture_into(t->g, n->graph) && ok;
    n->graph = gpu_capture_end(t->g);
    return n->graph && ok;
}

/* The graph with these addresses; NULL: a fault is kept. */
static GpuGraph *graph_at(Recording *t, const CUdeviceptr *at)
{
    size_t size = sizeof *at * (size_t)t->rooms.n;
    Instance *oldest = &t->instance[0], *n;

    t->plays++;
    for (n = t->instance; n < t->instance + GRAPHS; n++) {
        if (n->graph && !memcmp(n->at, at, size)) {
            n->used = t->plays;
            return n->graph;
        }
        oldest = n->used < oldest->used ? n : oldest;
    }
    n = oldest;
    n->used = t->plays;
    if (!n->at)
        n->at = tsr_alloc(size + 8);
    memcpy(n->at, at, size);
    if (capture(t, n, at))
        return n->graph;
    gpu_graph_free(n->graph);
    n->graph = NULL;
    n->used = 0;
    return NULL;
}

typedef struct Stage { Storage *const *operand, *const *result, *const *hosted; CUdeviceptr within; } Stage;

static CUdeviceptr room_now(const Recording *t, const Room *r, const Stage *s)
{
    switch ((RoomKind)r->kind) {
    case ROOM_OPERAND: return storage_on_device(s->operand[r->which], t->g, DEVICE_READ);
    case ROOM_HOSTED: return storage_on_device(s->hosted[r->which], t->g, DEVICE_READ);
    case ROOM_CONSTANT: return storage_on_device(r->store, t->g, DEVICE_READ);
    case ROOM_RESULT: return storage_on_device(s->result[r->which], t->g, DEVICE_FILL);
    default: return s->within + r->offset;
    }
}

bool recording_play(Recording *t, Storage *const *operand, Storage *const *result, Storage *const *hosted, const char *name, Span where)
{
    CUdeviceptr *at = tsr_alloc(sizeof *at * (size_t)(t->rooms.n + 1));
    Stage s = {operand, result, hosted, 0};
    GpuGraph *graph = NULL;
    bool ok;

    storage_op++;
    gpu_lock();
    ok = !t->within || (s.within = gpu_alloc(t->g, t->within));
    for (int i = 0; ok && i < t->rooms.n; i++)
        ok = (at[i] = room_now(t, &t->rooms.at[i], &s)) != 0;
    ok = ok && (graph = graph_at(t, at)) && gpu_graph_launch(graph, GPU_MAIN, (GpuWhere){name, where});
    gpu_free(t->g, s.within);
    gpu_unlock();
    tsr_free(at);
    return ok;
}
