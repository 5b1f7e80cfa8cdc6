/* graphs.h - the Graph IR on the command line: `inspect --ir graph FILE` and `opt FILE`. */
#ifndef TSR_TOOLS_GRAPHS_H
#define TSR_TOOLS_GRAPHS_H

#include "tools/options.h"

int graphs_of_program(const Options *o);        /* run the program, print what its functions become; the exit code */
int graphs_of_text(const Options *o);           /* the graphs that the file holds as text */
void graphs_list_passes(StrBuf *out);
/* After a program ended with `code`: names of --no-pass that no pass has, its own ones included, are errors; the exit code. */
int graphs_check_names(int code);

#endif
