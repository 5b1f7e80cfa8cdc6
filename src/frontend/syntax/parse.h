/*
 * parse.h - between the driver, its diagnoses and the checks that follow.
 */
#ifndef TSR_FRONTEND_PARSE_H
#define TSR_FRONTEND_PARSE_H

#include "frontend/syntax/build.h"

typedef struct Driver {
    Parser p;
    TokenList list, last;       /* the portion being parsed, and the one before: the stack may still have tokens of that */
    void *lemon;
    ParserMark mark;            /* the stack before the current line */
    int line;
} Driver;

bool driver_accepts(const Driver *d, int kind);

typedef enum { REPAIR_NONE, REPAIR_INSERT, REPAIR_REPLACE } RepairKind;
typedef struct { RepairKind kind; int token; } Repair;

/*
 * Report what is wrong with token `at` of the line whose first token is
 * `first`; the automaton stands just before it.  Returns how the line may be
 * read on.
 */
Repair diagnose(Driver *d, int first, int at);

#endif
