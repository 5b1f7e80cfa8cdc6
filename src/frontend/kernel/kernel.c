/*
 * The tables of the kernel language, and its operations as natives.
 *
 * An operation exists for the host too, so that names, signatures and help are
 * found where all others are; called outside a kernel it says where it belongs.
 */
#include "frontend/kernel/kernel.h"

#include "frontend/eval/native.h"

#include <stdio.h>
#include <string.h>

enum {
    R0 = KERNEL_R0, R1 = KERNEL_R1, W0 = KERNEL_W0, W1 = KERNEL_W1, SYNC = KERNEL_SYNC, ASYNC = KERNEL_ASYNC,
    ATOMIC = KERNEL_ATOMIC, ALLOC = KERNEL_ALLOC, RANDOM = KERNEL_RANDOM, COLLECTIVE = KERNEL_COLLECTIVE,
};

const KernelOp kernel_ops[KOP_COUNT] = {
#define KERNEL(id, owner, name, sig, rule, level, effects, varies, doc) \
    [KOP_##id] = {owner, #name, sig, doc, KERNEL_##level, VARY_##varies, effects},
#include "frontend/kernel/kernel.def"
};

const char *kernel_op_text(const KernelOp *op)
{
    static char text[4][64];
    static int at;
    char *s = text[at++ & 3];

    snprintf(s, sizeof text[0], "%s%s%s", op->owner, *op->owner ? "." : "", op->name);
    return s;
}

bool kernel_is_group_work(const KernelOp *op)
{
    bool together = op->level == KERNEL_BLOCK || op->level == KERNEL_FRAGMENT;

    return together && (op->effects || kernel_op_id(op) >= KOP_dot) && op->effects != (KERNEL_W0 | KERNEL_ATOMIC);
}

/* ------------------------------------------------------------- on the host */

static Value outside(Interp *I, KernelOpId id)
{
    return raise(I, EXC_RuntimeError, "E0601: %s belongs to kernels: call it in a function decorated with @kernel",
                 kernel_op_text(&kernel_ops[id]));
}

#define KERNEL(id, ...) static Value outside_##id(Interp *I, Value *a) { return outside(I, KOP_##id); }
#include "frontend/kernel/kernel.def"

const NativeDef natives_kernel[] = {
#define KERNEL(id, owner, name, sig, rule, level, effects, varies, doc) {owner, #name, outside_##id, sig, doc},
#include "frontend/kernel/kernel.def"
    {0},
};

const KernelOp *kernel_op_of(const NativeDef *d)
{
    return d >= natives_kernel && d < natives_kernel + KOP_COUNT ? &kernel_ops[d - natives_kernel] : NULL;
}

/* ------------------------------------------------------------- schedules */

const ScheduleInfo schedule_fields[SCHED_COUNT] = {
#define SIZE SCHED_SIZE
#define COUNT SCHED_KIND_COUNT
#define WORD SCHED_WORD
#define FIELD(name, kind, dflt, doc) [SCHED_##name] = {#name, kind, dflt, doc},
#include "frontend/kernel/schedule.def"
#undef SIZE
#undef COUNT
#undef WORD
};

const char *const schedule_swizzles[] = {"xor", "none", NULL};

const ScheduleName schedule_aliases[] = {
#define ALIAS(alias, field) {#alias, SCHED_##field, SCHED_##field},
#include "frontend/kernel/schedule.def"
    {0},
};

const ScheduleName schedule_groups[] = {
#define BOTH(name, first, last, doc) {#name, SCHED_##first, SCHED_##last},
#include "frontend/kernel/schedule.def"
    {0},
};

const ScheduleName schedule_shorts[] = {
#define SHORT(name, field) {#name, SCHED_##field, SCHED_##field},
#include "frontend/kernel/schedule.def"
    {0},
};

const ScheduleName schedule_implicit[] = {
#define IMPLICIT(name, field) {#name, SCHED_##field, SCHED_##field},
#include "frontend/kernel/schedule.def"
    {0},
};

const ScheduleName *schedule_name(const ScheduleName *list, const char *name)
{
    for (; list->name; list++)
        if (!strcmp(list->name, name))
            return list;
    return NULL;
}

ScheduleField schedule_field(const char *name)
{
    const ScheduleName *alias = schedule_name(schedule_aliases, name);

    if (alias)
        return (ScheduleField)alias->first;
    for (int i = 0; i < SCHED_COUNT; i++)
        if (!strcmp(schedule_fields[i].name, name))
            return (ScheduleField)i;
    return SCHED_COUNT;
}

bool schedule_takes(const char *name)
{
    return schedule_field(name) < SCHED_COUNT || schedule_name(schedule_groups, name);
}

static const char *next_keyword(void *state)
{
    int i = (*(int *)state)++;

    if (i < SCHED_COUNT)
        return schedule_fields[i].name;
    i -= SCHED_COUNT;
    for (const ScheduleName *n = schedule_aliases; n->name; n++)
        if (!i--)
            return n->name;
    for (const ScheduleName *n = schedule_groups; n->name; n++)
        if (!i--)
            return n->name;
    return NULL;
}

const char *schedule_nearest(const char *wrong)
{
    int at = 0;

    return closest_name(wrong, next_keyword, &at);
}

bool schedule_is_implicit(const char *name)
{
    static const char *const offsets[] = {"block_m", "block_n", "block_k", "block_d"};

    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        if (!strcmp(offsets[i], name))
            return true;
    return schedule_name(schedule_implicit, name) != NULL;
}
