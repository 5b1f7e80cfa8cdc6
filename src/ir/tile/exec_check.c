/*
 * Who touched what: the oracle's search for races.
 *
 * For each element of shared memory and of the tensors that a kernel sees, the
 * last read, write and atomic update are kept, with who did it: a lane, or the
 * group as one, and after how many barriers.  Two of them conflict when one
 * writes, they are not both atomic, and nothing orders them: different lanes
 * with no barrier between, or different groups of the launch.  What the group
 * does as one is in order with itself, and conflicts with what a lane does.
 * The order in which the oracle takes lanes plays no part.
 */
#include "ir/tile/exec_impl.h"

#include <inttypes.h>
#include <string.h>

typedef struct Mark {
    const TileNode *node;               /* NULL: nobody yet */
    int64_t group;
    int32_t who;
    uint32_t epoch;
    const TileNode *other;              /* of the same epoch and group, by someone else; NULL: nobody */
    int32_t other_who;
    const TileNode *before;             /* of another group, which came earlier; NULL: none. Of a watched group, of another epoch: */
    int64_t before_group;               /* ... who and when: earlier_of */
} Mark;

typedef struct Cell { Mark mark[TOUCH_KINDS]; } Cell;

struct Memory {
    const char *base;                   /* of the lowest element */
    size_t size;
    int64_t n;
    Cell *cell;
};

/* ---- memory ---- */

Memory *memory_new(const View *v)
{
    Memory *m = tsr_calloc(sizeof *m);
    int64_t low = 0, high = 0;

    for (int i = 0; i < v->rank; i++) {
        int64_t reach = v->extent[i] > 0 ? (v->extent[i] - 1) * v->stride[i] : 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    m->size = raw_size(v->dtype);
    m->base = v->base + low * (int64_t)m->size;
    m->n = high - low + 1;
    m->cell = tsr_calloc(sizeof *m->cell * (size_t)m->n);
    return m;
}

void memory_free(Memory *m)
{
    if (m)
        tsr_free(m->cell);
    tsr_free(m);
}

/* ---- messages ---- */

/* "[3, 4]" of an element of a view. */
static void memory_place(const View *v, const char *element, StrBuf *out)
{
    int64_t off = (element - v->base) / (int64_t)raw_size(v->dtype);

    sb_putc(out, '[');
    for (int i = 0; i < v->rank; i++) {         /* strides of what is walked are decreasing, or the order does not matter */
        int64_t x = v->stride[i] ? off / v->stride[i] : 0;
        x = x < 0 || x >= v->extent[i] ? 0 : x;
        off -= x * v->stride[i];
        sb_printf(out, "%s%" PRId64, i ? ", " : "", x);
    }
    sb_putc(out, ']');
}

static const char *verb(Touch t) { return t == TOUCH_READ ? "reads" : t == TOUCH_WRITE ? "writes" : "updates"; }

static void put_who(StrBuf *b, int who)
{
    if (who == WHO_GROUP)
        sb_puts(b, "the group");
    else if (who == WHO_COPY)
        sb_puts(b, "an asynchronous copy");
    else
        sb_printf(b, "tile %d", who);
}

void memory_put_line(StrBuf *b, const TileNode *n)
{
    Place p = n->span.hi ? source_place(n->span.lo) : (Place){0};

    if (p.src)
        sb_printf(b, " at line %u", p.line);
}

static const char *space_of(const View *v) { return v->lane_step ? "register" : "shared"; }
static const char *name_of(const View *v) { return v->name ? v->name->text : "?"; }

static bool race(Exec *e, const TileNode *n, const View *v, const char *element, int who, Touch t, const Mark *m, Touch earlier, bool groups)
{
    StrBuf b = {0};
    bool last = m->who != who;

    sb_printf(&b, "data race on %s '%s': ", v->shared ? "shared" : "global", name_of(v));
    if (groups)
        sb_printf(&b, "group %" PRId64, e->group_number);
    else
        put_who(&b, who);
    sb_printf(&b, " %s ", verb(t));
    memory_place(v, element, &b);
    sb_puts(&b, ", which ");
    if (groups)
        sb_printf(&b, "group %" PRId64, m->group != e->group_number ? m->group : m->before_group);
    else
        put_who(&b, last ? m->who : m->other_who);
    sb_printf(&b, " %s", verb(earlier));
    memory_put_line(&b, !groups ? last ? m->node : m->other : m->group == e->group_number ? m->before : m->node);
    sb_puts(&b, groups ? ", and groups of a launch have no order" : ", with no barrier between");
    exec_fault(e, n, "%s", sb_str(&b));
    sb_done(&b);
    return false;
}

/* A lane uses what a copy brings, or has brought with no barrier since. */
static void race_with_copy(Exec *e, const TileNode *n, const View *v, bool coming, const char *element)
{
    const TileNode *by = view_copier(v, element);
    StrBuf at = {0};

    memory_place(v, element, &at);
    if (by && by->span.hi) {
        sb_puts(&at, ", which the copy");
        memory_put_line(&at, by);
        sb_puts(&at, " brings");
    }
    exec_fault(e, n, "data race with a copy%s: %s '%s' is %s at %s",
               coming ? " that is under way" : ": it has landed, but there was no barrier since", space_of(v), name_of(v),
               n->op == TOP_store ? "written" : "read", sb_str(&at));
    sb_done(&at);
}

bool memory_usable(Exec *e, const TileNode *n, const View *v, const uint8_t *state, const char *element)
{
    StrBuf at = {0};

    if (*state == COMING || *state == LANDED) {
        race_with_copy(e, n, v, *state == COMING, element);
        return false;
    }
    if (*state != NEVER_WRITTEN || n->op == TOP_store)
        return true;
    memory_place(v, element, &at);
    exec_fault(e, n, "uninitialised read on %s '%s': %s is read, but was never written", space_of(v), name_of(v), sb_str(&at));
    sb_done(&at);
    return false;
}

/* ---- touching ---- */

static bool conflicts(const Exec *e, const Mark *m, int who, bool shared, bool *groups)
{
    *groups = !shared && m->node && (m->group != e->group_number || m->before);
    if (!m->node || *groups)
        return *groups;
    return m->epoch == e->epoch && (m->who != who || m->other);
}

static int64_t earlier_of(const Mark *m) { return (int64_t)((uint64_t)m->epoch << 32 | (uint32_t)m->who); }

/* Where a group is watched: a barrier keeps apart what it did and does now. Groups have nothing to do with each other there. */
static void kept_apart(Exec *e, const Mark *m, int who)
{
    if (m->node && m->epoch < e->epoch && m->who != who)
        exec_seen_order(e, m->epoch);
    if (m->before && (int32_t)(uint32_t)m->before_group != who)
        exec_seen_order(e, (uint32_t)((uint64_t)m->before_group >> 32));
}

static void note(const Exec *e, Mark *m, const TileNode *n, int who)
{
    if (e->watch && m->node && m->epoch != e->epoch) {
        m->before = m->node;
        m->before_group = earlier_of(m);
    } else if (m->node && m->group != e->group_number) {
        m->before = m->node;
        m->before_group = m->group;
    }
    if (m->node && (m->group != e->group_number || m->epoch != e->epoch)) {
        m->other = NULL;
    } else if (m->node && m->who != who) {
        m->other = m->node;
        m->other_who = m->who;
    }
    m->who = who;
    m->node = n;
    m->group = e->group_number;
    m->epoch = e->epoch;
}

bool memory_touch(Exec *e, const TileNode *n, const View *v, const char *element, int who, Touch touch)
{
    Memory *m = v->memory;
    Cell *c;

    if (!m)
        return true;
    c = &m->cell[(element - m->base) / (int64_t)m->size];
    for (Touch t = TOUCH_READ; t < TOUCH_KINDS; t++) {
        bool groups;
        if ((t == TOUCH_READ && touch == TOUCH_READ) || (t == TOUCH_ATOMIC && touch == TOUCH_ATOMIC))
            continue;
        if (e->watch)
            kept_apart(e, &c->mark[t], who);
        else if (conflicts(e, &c->mark[t], who, v->shared, &groups))
            return race(e, n, v, element, who, touch, &c->mark[t], t, groups);
    }
    note(e, &c->mark[touch], n, who);
    return true;
}

bool memory_touch_block(Exec *e, const TileNode *n, const View *v, const int64_t *start, const int64_t *shape, Touch touch)
{
    int64_t at[TILE_RANK_MAX] = {0};
    int who = n->op == TOP_copy_async ? WHO_COPY : e->k->lanes == 1 ? 0 : WHO_GROUP, i;

    if (!v->memory)
        return true;
    for (i = 0; i < v->rank; i++)
        if (shape[i] <= 0)
            return true;
    do {
        const char *p = v->base;
        bool inside = true;
        for (i = 0; i < v->rank; i++) {
            int64_t x = start[i] + at[i];
            inside &= x >= 0 && x < v->extent[i];
            p += inside ? x * v->stride[i] * (int64_t)raw_size(v->dtype) : 0;
        }
        if (inside && !memory_touch(e, n, v, p, who, touch))
            return false;
        for (i = v->rank - 1; i >= 0 && ++at[i] == shape[i]; i--)
            at[i] = 0;
    } while (i >= 0);
    return true;
}
