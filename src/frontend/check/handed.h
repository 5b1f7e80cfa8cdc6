/*
 * handed.h - functions that are called out of sight, as the survey's walk finds them.
 *
 * The walk tells what it passes; handed_end says of the attributes that such
 * functions store that they are stored at no known time (survey_stored).
 */
#ifndef TSR_FRONTEND_HANDED_H
#define TSR_FRONTEND_HANDED_H

#include "frontend/check/checker.h"

/* A function or lambda; what it does is a chain of deeds, the functions in it a chain of functions, as those of one name. 0 ends each. */
typedef struct HandedFn {
    int around, inner, next, namesake, deed;
    bool reached;               /* called out of sight */
    bool all;                   /* those of its name, of which it is the last, are */
} HandedFn;
typedef struct HandedDeed { Sym name; int next; bool store; } HandedDeed;

/* All zero to begin with. */
typedef struct Handed {
    Vec(HandedFn) fn;           /* [0]: the module */
    Vec(HandedDeed) deed;       /* [0]: none; calls of a name and stores of an attribute */
    Vec(int) found;             /* functions to be followed yet */
    Map of_name;                /* Sym -> the last function of that name */
    Map named;                  /* Sym -> 1: mentioned, other than to be called at once */
    int in;                     /* the function being walked */
    bool classes;
} Handed;

void handed_enter(Handed *h, const Ast *function);      /* FunctionDef or Lambda: its body follows */
void handed_leave(Handed *h);
void handed_named(Handed *h, Sym name);
void handed_called(Handed *h, Sym name);
void handed_stored(Handed *h, const Ast *target);
void handed_end(Handed *h, Check *C);

#endif
