/*
 * program.h - one program on its way from text to evaluation.
 *
 * program_check does everything that runs nothing; what it finds is in the
 * sink.  program_run evaluates a checked program and gives its exit code.
 */
#ifndef TSR_TOOLS_PROGRAM_H
#define TSR_TOOLS_PROGRAM_H

#include "base/diag.h"
#include "frontend/check/check.h"
#include "frontend/syntax/ast.h"
#include "tools/options.h"

#include <stdio.h>

struct Graph;
struct Interp;

enum { EXIT_OK = 0, EXIT_MISTAKE = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* "error: ..." on standard error; ends the text, and gives the code. */
int complain(StrBuf *err, int code);

typedef struct Program {
    Unit *unit;
    Scope *globals;
    DiagSink sink;
    void (*staged)(void *st, const struct Graph *g);    /* told of each graph that the run makes; NULL: nobody asks */
    void *staged_state;
    void (*after)(void *st, struct Interp *I);          /* called when the program has ended well; NULL: nobody waits */
    void *after_state;
} Program;

/* Parse only. False: there are errors. */
bool program_parse(Program *p, const Source *src);
/* Parse, resolve and check. False: there are errors. */
bool program_check(Program *p, const Source *src, CheckOptions opt);
/* Evaluate; argv[0] is the file. Exceptions that nobody caught are shown on standard error. */
int program_run(Program *p, const Options *o, int argc, char **argv);
int program_write_error(void);          /* errno of the first output that could not be written; 0: none */
int program_run_aside(Program *p, const Options *o);        /* standard output goes where standard error goes */
/* Diagnostics: as text for people on standard error, or as JSON on `json`. */
void program_report(const Program *p, const Options *o, FILE *json);
/* Check the program that the command line names. False: it is not to run, which has been reported, and *p needs no program_done. */
bool program_open(Program *p, const Options *o, FILE *json);
void program_done(Program *p);

#endif
