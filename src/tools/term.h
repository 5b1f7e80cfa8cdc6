/* term.h - what the terminal can do, and what the user wants of it. */
#ifndef TSR_TOOLS_TERM_H
#define TSR_TOOLS_TERM_H

#include "base/diag.h"
#include "tools/options.h"

/* Colour and characters for text written to fd, from --color, --ascii, the environment and the terminal. */
DiagStyle term_style(const Options *o, int fd);
/* Is fd a terminal on which lines can be edited? */
bool term_is_smart(int fd);

#endif
