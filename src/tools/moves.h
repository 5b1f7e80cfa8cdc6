/* moves.h - `inspect --moves FILE`: where a program says that data moves between memories. */
#ifndef TSR_TOOLS_MOVES_H
#define TSR_TOOLS_MOVES_H

#include "tools/options.h"

int moves_of_program(const Options *o);         /* check the program, print its moves in the order of the text; the exit code */

#endif
