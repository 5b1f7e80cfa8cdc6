/*
 * check.h - what a program is told before it runs.
 *
 * check_unit types a resolved unit by walking it in order, functions that are
 * never called included.  What it does not understand is dynamic, and dynamic
 * code is never rejected: an error is reported only where every run that gets
 * there fails.  Shape and dtype rules are op_infer's; nothing is repeated here.
 */
#ifndef TSR_FRONTEND_CHECK_H
#define TSR_FRONTEND_CHECK_H

#include "frontend/check/scope.h"

typedef struct CheckOptions {
    StrBuf *shapes;             /* `check --shapes`: a line for each named tensor and function; NULL: none */
    StrBuf *effects;            /* `check --effects`: a line for each function; NULL: none */
} CheckOptions;

/* After scope_resolve, with errors or without. Reports E03.. E04.. E05.. E07.. E09.. into the sink. */
void check_unit(Unit *u, CheckOptions opt, DiagSink *sink);

/* For session.h: a check of some of a module's statements, where what the others give is known from before. */
typedef struct CheckPart {
    const bool *want;           /* by statement; NULL: all */
    uint64_t facts;             /* what all statements together say of names; when it changed all are walked */
    bool effects;               /* out: the program is held to effects, which are checked over all statements */
    bool whole;                 /* out: all were walked */
    bool loose;                 /* out: what is found in one place may depend on all others */
} CheckPart;
void check_part(Unit *u, CheckOptions opt, DiagSink *sink, CheckPart *part);

#endif
