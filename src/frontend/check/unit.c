/*
 * A whole unit: its statements in order, then each function for its own sake,
 * then effects; or, for session.h, of the statements only some.
 */
#include "frontend/check/check.h"

#include "frontend/check/checker.h"
#include "frontend/check/effects.h"
#include "frontend/check/frames.h"

static void check_functions(Check *C)
{
    for (int i = 0; i < C->fns.n && C->fuel > 0; i++)
        fn_check(C, C->fns.at[i]);
    C->frame = &C->program->frame;
    C->home = C->program;
}

static void check_done(Check *C)
{
    for (uint32_t i = 0; i < C->home_of.cap; i++)
        if (C->home_of.key[i] && C->home_of.val[i])
            home_done((Home *)C->home_of.val[i]);
    home_done(C->program);
    frames_done(C);
    for (int i = 0; i < C->signed_fns.n; i++)
        vec_free(&C->signed_fns.at[i]->sig.dims);
    vec_free(&C->signed_fns);
    vec_free(&C->fns);
    map_done(&C->rule_of);
    map_done(&C->home_of);
    for (uint32_t i = 0; i < C->cls_of.cap; i++)
        if (C->cls_of.key[i]) {
            Cls *c = (Cls *)C->cls_of.val[i];
            map_done(&c->attrs);
            map_done(&c->declared);
            map_done(&c->stored);
            map_done(&c->stores);
            map_done(&c->sites);
            vec_free(&c->dims);
        }
    for (uint32_t i = 0; i < C->inst_of.cap; i++)
        for (Inst *x = C->inst_of.key[i] ? (Inst *)C->inst_of.val[i] : NULL; x; x = x->older) {
            map_done(&x->stored);
            map_done(&x->sites);
        }
    map_done(&C->inst_of);
    map_done(&C->result_of.said);
    map_done(&C->result_of.quiet);
    map_done(&C->held_result_of.said);
    map_done(&C->held_result_of.quiet);
    map_done(&C->wild);
    map_done(&C->fn_of);
    map_done(&C->cls_of);
    map_done(&C->stored_attrs);
    map_done(&C->subclassed);
    map_done(&C->reported);
    arena_done(&C->arena);
    types_done();
}

static void walk_wanted(Check *C, AstSeq body, const bool *want)
{
    for (int i = 0; i < body.n; i++) {
        bool reached = want[i] && !C->frame->dead && C->fuel > 0;
        if (want[i])
            block(C, (AstSeq){&body.at[i], 1});
        if (reached && body.n > 1)              /* as block() does: the statement is not alone */
            unused_result(C, body.at[i]);
    }
}

/* Takes and gives what session.h wants to know beside what is reported. */
static void walk_part(Check *C, Unit *u, CheckPart *part)
{
    uint64_t facts = survey_facts(C, C->program);
    bool effects = effects_spoken_of(u);

    part->whole = !part->want || facts != part->facts || effects || part->effects;
    part->facts = facts;
    part->effects = effects;
    if (part->whole)
        block(C, u->module->body);
    else
        walk_wanted(C, u->module->body, part->want);
    part->loose = C->program->frame.dead;
}

void check_part(Unit *u, CheckOptions opt, DiagSink *sink, CheckPart *part)
{
    Check C = {.sink = sink, .opt = opt, .fuel = FUEL + (long)FUEL_BYTE * u->src->len, .unrolled = 1, .path = u->src->path};
    Home program = {0};
    DimMark sizes = dim_mark();

    for (int i = 0; i < sink->all.n; i++)
        C.names_wrong |= diag_severity(sink->all.at[i]->code) == DIAG_ERROR && sink->all.at[i]->code != E0218;
    home_init(&C, &program, u->module->scope);
    survey(&C, &program, u);
    C.home = C.program = &program;
    C.frame = &program.frame;
    dim_push();
    if (part)
        walk_part(&C, u, part);
    else
        block(&C, u->module->body);
    program.frame.dead = false;
    check_functions(&C);
    if (C.fuel <= 0 && C.spent)
        DIAG_AT(sink, E0917, C.spent->span, AST_IS(C.spent, For) || AST_IS(C.spent, While) ? "loop" : "statement");
    if (part)
        part->loose |= C.wild.n > 0 || C.fuel <= 0;
    effects_check(u, opt, sink);
    dim_pop();
    check_done(&C);
    dim_release(sizes);
}

void check_unit(Unit *u, CheckOptions opt, DiagSink *sink)
{
    check_part(u, opt, sink, NULL);
}
