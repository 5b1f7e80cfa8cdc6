/* What the op table says about an op, in words: its rows are read, nothing is repeated here. */
#include "tools/inspect.h"

#include "base/sym.h"
#include "ir/core/op.h"

#include <string.h>

static const char *next_op(void *state)
{
    int *i = state;

    return *i < OP_COUNT ? op_info[(*i)++].name : NULL;
}

static void put_operands(const OpInfo *o, StrBuf *out)
{
    if (o->nin < 0)
        sb_puts(out, "operands: any number");
    else
        sb_printf(out, "operands: %d", o->nin);
    if (o->nout < 0)
        sb_puts(out, "; results: any number\n");
    else
        sb_printf(out, "; results: %d\n", o->nout);
}

static void put_laws(const OpInfo *o, StrBuf *out)
{
    static const struct { uint16_t flag; const char *text; } law[] = {
        {OPF_LINEAR, "linear"}, {OPF_MULTILINEAR, "linear in each operand"}, {OPF_COMMUTES, "commutes"},
        {OPF_ASSOC, "associative"}, {OPF_VIEW, "may give a view"},
    };
    bool first = true;

    for (size_t i = 0; i < sizeof law / sizeof *law; i++)
        if (o->flags & law[i].flag) {
            sb_printf(out, "%s%s", first ? "laws: " : ", ", law[i].text);
            first = false;
        }
    sb_puts(out, first ? "" : "\n");
}

static void put_effects(const OpInfo *o, StrBuf *out)
{
    bool any = false;

    sb_puts(out, "effects: [");
    for (int i = 0; i < EFFECT_COUNT; i++)
        if (o->flags & op_effect[i].flag) {
            sb_printf(out, "%s%s", any ? ", " : "", op_effect[i].name);
            any = true;
        }
    sb_puts(out, "]\n");
}

static void put_rule(StrBuf *out, const char *what, const char *rule, const char *none)
{
    sb_printf(out, "%s: %s\n", what, strcmp(rule, "none") ? rule : none);
}

/* Control flow is as linear as its regions, and transposed with them. */
static const char *adjoint(const OpInfo *o)
{
    if (*o->adjoint)
        return o->adjoint;
    return o->flags & OPF_REGIONS ? "that of its regions, from the last step to the first" : "none: it is not linear";
}

bool inspect_op(const char *name, StrBuf *out, StrBuf *err)
{
    const OpInfo *o;
    OpId op;
    int i = 0;

    if (!op_find(name, &op)) {
        const char *near = closest_name(name, next_op, &i);
        sb_printf(err, "there is no operation '%s'; ", name);
        if (near)
            sb_printf(err, "did you mean '%s'?", near);
        else
            sb_puts(err, "'tessera inspect' lists them");
        return false;
    }
    o = &op_info[op];
    sb_printf(out, "%s: %s\n", o->name, o->doc);
    put_operands(o, out);
    sb_printf(out, "shape rule: %s\ndtype rule: %s\n", o->shape, o->typing);
    if (*o->attrs)
        sb_printf(out, "attributes: %s\n", o->attrs);
    put_laws(o, out);
    put_effects(o, out);
    put_rule(out, "derivative", o->flags & OPF_NODIFF ? "none" : o->jvp, "none: its result has no tangent");
    sb_printf(out, "adjoint: %s\n", adjoint(o));
    put_rule(out, "vmap", o->batch, "none: it cannot be mapped");
    return true;
}

void inspect_list(StrBuf *out)
{
    for (int i = 0; i < OP_COUNT; i++)
        sb_printf(out, "%-20s %s\n", op_info[i].name, op_info[i].doc);
}
