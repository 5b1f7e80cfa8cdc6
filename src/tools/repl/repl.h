/* repl.h - the interactive session. */
#ifndef TSR_REPL_H
#define TSR_REPL_H

#include "tools/options.h"

/* Read inputs from standard input and run them until its end; the exit code. */
int repl_run(const Options *o);

#endif
