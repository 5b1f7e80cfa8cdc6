/*
 * session.h - an interactive session's state, shared by its files: repl.c reads
 * and runs, command.c has the :commands, complete.c finds names, describe.c says
 * what a value is.
 */
#ifndef TSR_REPL_SESSION_H
#define TSR_REPL_SESSION_H

#include "frontend/check/scope.h"
#include "frontend/eval/interp.h"
#include "tools/options.h"
#include "tools/repl/edit.h"

typedef struct Session {
    const Options *options;
    Interp *I;
    Scope *globals;
    History history;
    bool smart;                 /* lines are edited here; else they are just read */
    bool done;
    int exit_code;
    int inputs;                 /* so far: <input 1>, <input 2> ... */
    Vec(Unit *) units;          /* of all inputs */
    Vec(const Source *) worked; /* inputs that ran, for :save */
} Session;

/* Run a text as the session's next input. False: it failed, and that was shown. */
bool session_run(Session *s, const char *name, const char *text, size_t n);
/* The same without showing the value, which the caller owns. */
bool session_eval(Session *s, const char *name, const char *text, size_t n, Value *result);

/* command.c: a line that begins with : or ?. */
void session_command(Session *s, const char *line);

/* ir.c: show the graph that an expression becomes. */
void session_ir(Session *s, const char *text, size_t n);

/* complete.c: an EditHooks function. */
void session_complete(void *state, const char *text, size_t cursor, Completions *out);

/* describe.c: the value of a dotted path of names, without running anything but attribute access; V_ERR: none. */
Value session_lookup(Session *s, const char *path, size_t n);
/* What ?name shows: signature and documentation. */
void describe_value(Session *s, Value v, StrBuf *out);
/* "Tensor[2, 3, f32]", "list of 4", "int". */
void describe_type(Session *s, Value v, StrBuf *out);
/* Parameter names of something callable, pushed to out as owned strings with a = behind. */
void describe_keywords(Session *s, Value v, Completions *out);

#endif
