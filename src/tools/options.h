/*
 * options.h - the command line as a table (options.def) and what was given.
 *
 * Strings in Options point into argv; only the operand list is owned.
 */
#ifndef TSR_TOOLS_OPTIONS_H
#define TSR_TOOLS_OPTIONS_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum Verb {
#define VERB(name, operands, least, most, summary) VERB_##name,
#include "tools/options.def"
    VERB_COUNT
} Verb;

typedef enum Opt {
#define OPT(verbs, name, letter, kind, value, summary) OPT_##name,
#include "tools/options.def"
    OPT_COUNT
} Opt;

typedef struct Options {
    Verb verb;
    const char *value[OPT_COUNT];   /* NULL: not given; a flag's is "1" */
    int64_t number[OPT_COUNT];      /* NUMBER options */
    char **operand;                 /* NULL-terminated; for run: the file, then the program's arguments */
    int noperands;
} Options;

/* Read argv[1..]. False: *err holds one line that says what is wrong (usage, exit code 2). */
bool options_parse(int argc, char **argv, Options *out, StrBuf *err);
void options_done(Options *o);
static inline bool option_on(const Options *o, Opt opt) { return o->value[opt] != NULL; }
bool mode_is_fast(const Options *o);        /* --mode, other than deterministic */

/* Help: the first screen, one command, a topic. False: no such topic. */
void help_overview(StrBuf *out);
void help_verb(Verb v, StrBuf *out);
bool help_topic(const char *topic, StrBuf *out, StrBuf *err);

/* A line for each TESSERA_* variable that is set and unknown, with the likely meaning. */
void environment_check(char **environ_, StrBuf *out);

#endif
