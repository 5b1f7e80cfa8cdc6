/* lint.h - `tessera lint FILE`: what makes the kernels of a program slow. */
#ifndef TSR_TOOLS_LINT_H
#define TSR_TOOLS_LINT_H

#include "tools/options.h"

int lint_program(const Options *o);             /* run the program, report on its launches; the exit code */

#endif
