/* launches.h - launches of kernels on the command line: `inspect --hierarchy FILE`, `inspect --access FILE`. */
#ifndef TSR_TOOLS_LAUNCHES_H
#define TSR_TOOLS_LAUNCHES_H

#include "tools/options.h"

int launches_of_program(const Options *o);      /* run the program, print what its launches are; the exit code */

#endif
