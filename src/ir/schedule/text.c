/*
 * Schedules as text, and the one that a region gets when nobody says otherwise.
 */
#include "ir/schedule/schedule.h"
#include "ir/schedule/steps.h"

#include <stdio.h>
#include <string.h>

enum { MAP_PIECE = 1024, ROWS = 4, ROW_PIECE = TILE_REDUCE_MAX, TURNS_MAX = 1 << 20 };

static const char *const kinds[] = {"map", "rows", "columns"};
static const char *const past[] = {"", ".past()", ".past().beside()", ".past().near()"};        /* where results go, and what is kept */
enum { PLACES = sizeof past / sizeof *past };
static const char *const steps[] = {[STEPS_ROWS] = "steps.rows", [STEPS_SLICES] = "steps.slices", [STEPS_BESIDE] = "steps.beside"};

StepsKind steps_kind(const Attr *a)
{
    for (int k = STEPS_ROWS; a->name && k <= STEPS_BESIDE; k++)
        if (!strcmp(a->name->text, steps[k]))
            return (StepsKind)k;
    return STEPS_NONE;
}

Sym steps_name(StepsKind kind) { return sym(steps[kind]); }

Schedule schedule_default(const Region *r)
{
    return r && r->nkept < r->naxes ? (Schedule){SCHEDULE_ROWS, ROWS, ROW_PIECE} : (Schedule){SCHEDULE_MAP, 1, MAP_PIECE};
}

void schedule_print(const Schedule *s, StrBuf *out)
{
    sb_printf(out, "%s.block(m=%d, n=%d)", kinds[s->kind], s->m, s->n);
    if (s->align)
        sb_printf(out, ".align(%d)", s->align);
    sb_puts(out, past[s->past ? 1 + s->beside + (s->beside && s->near) : 0]);
    if (s->turns)
        sb_printf(out, ".turns(%d)", s->turns);
}

/* What may follow a block: `at` is where it ends in the text. false: it is something else. */
static bool read_rest(const char *at, Schedule *s)
{
    int where = PLACES - 1, end = 0, align = 0, turns = 0;

    if (sscanf(at, ".align(%d)%n", &align, &end) == 1 && end && align > 1 && align <= ALIGN_MOST && !(align & (align - 1))) {
        at += end;
        s->align = (int16_t)align;
    }
    while (where && strncmp(at, past[where], strlen(past[where])) != 0)
        where--;
    at += strlen(past[where]);
    end = 0;
    if (*at && (sscanf(at, ".turns(%d)%n", &turns, &end) != 1 || !end || at[end] || turns < 1 || turns > TURNS_MAX || s->kind != SCHEDULE_ROWS))
        return false;
    s->past = where > 0;
    s->beside = where > 1;
    s->near = where > 2;
    s->turns = turns;
    return true;
}

bool schedule_read(const char *text, Schedule *out, StrBuf *err)
{
    char kind[8];
    int m, n, end = 0;

    if (sscanf(text, "%7[a-z].block(m=%d, n=%d)%n", kind, &m, &n, &end) != 3 || !end)
        end = 0;
    for (int k = 0; end && k < 3; k++) {
        *out = (Schedule){.kind = (uint8_t)k, .m = m, .n = n};
        if (!strcmp(kind, kinds[k]) && m > 0 && n > 0 && (int64_t)m * n <= TILE_ELEMENTS_MAX && (!k || n <= TILE_REDUCE_MAX) &&
            read_rest(text + end, out))
            return true;
    }
    sb_printf(err, "'%s' is no schedule, as rows.block(m=4, n=256).past() is", text);
    return false;
}
