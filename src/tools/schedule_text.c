/*
 * Schedules of launches read back: who gave it, the fields of schedule.def with values that they take, and the passes
 * that changed it.
 */
#include "tools/schedule_text.h"

#include "base/sym.h"
#include "frontend/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

typedef struct Line {
    Sym name, source, passes;           /* passes: NULL where none ran */
    Sym value[SCHED_COUNT];             /* NULL: the schedule does not say */
} Line;

static const char *const sources[] = {"default", "explicit", "scope", "auto"};

static bool is_source(const char *word)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!strcmp(word, sources[i]))
            return true;
    return false;
}

static bool takes(const ScheduleInfo *f, const char *value)
{
    char *end;
    long n = strtol(value, &end, 10);

    if (f->kind != SCHED_WORD)
        return *value && !*end && n >= (f->kind == SCHED_SIZE);
    for (int i = 0; schedule_swizzles[i]; i++)
        if (!strcmp(value, schedule_swizzles[i]))
            return true;
    return false;
}

static bool read_field(Line *l, const char *key, Sym value, StrBuf *err)
{
    for (int f = 0; f < SCHED_COUNT; f++)
        if (!strcmp(key, schedule_fields[f].name)) {
            if (l->value[f])
                sb_printf(err, "the field '%s' is given twice", key);
            else if (!takes(&schedule_fields[f], value->text))
                sb_printf(err, "the field '%s' cannot be %s", key, value->text);
            l->value[f] = value;
            return !err->n;
        }
    sb_printf(err, "a schedule has no field '%s'", key);
    return false;
}

/* "key=value" of n bytes. */
static bool read_word(Line *l, const char *word, size_t n, StrBuf *err)
{
    const char *eq = memchr(word, '=', n);
    Sym key, value;

    if (!eq) {
        sb_printf(err, "expected FIELD=VALUE, found '%.*s'", (int)n, word);
        return false;
    }
    key = sym_n(word, (size_t)(eq - word));
    value = sym_n(eq + 1, (size_t)(word + n - eq - 1));
    if (!strcmp(key->text, "source") && is_source(value->text))
        return (l->source = value) != NULL;
    if (!strcmp(key->text, "passes") && value->len)
        return (l->passes = value) != NULL;
    return read_field(l, key->text, value, err);
}

static void print(const Line *l, StrBuf *out)
{
    sb_printf(out, SCHEDULE_HEAD "%s source=%s", l->name->text, l->source->text);
    for (int f = 0; f < SCHED_COUNT; f++)
        if (l->value[f])
            sb_printf(out, " %s=%s", schedule_fields[f].name, l->value[f]->text);
    if (l->passes)
        sb_printf(out, " passes=%s", l->passes->text);
    sb_putc(out, '\n');
}

bool schedule_text_read(const char *line, size_t n, StrBuf *out, StrBuf *err)
{
    const char *at = line + strlen(SCHEDULE_HEAD), *end = memchr(line, '\n', n);
    Line l = {0};
    size_t len;

    end = end ? end : line + n;
    len = at < end ? strcspn(at, " \n") : 0;
    if (!len) {
        sb_puts(err, "expected 'schedule @NAME source=...'");
        return false;
    }
    l.name = sym_n(at, len);
    for (at += len; at < end; at += len) {
        at += strspn(at, " ");
        len = strcspn(at, " \n");
        if (at < end && len && !read_word(&l, at, len, err))
            return false;
    }
    if (!l.source) {
        sb_printf(err, "the schedule of %s does not say who gave it: source=default, explicit, scope or auto", l.name->text);
        return false;
    }
    print(&l, out);
    return true;
}
