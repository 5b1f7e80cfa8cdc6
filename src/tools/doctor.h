/* doctor.h - `tessera doctor`: what this machine has for programs to run on, and what to do about what is missing. */
#ifndef TSR_TOOLS_DOCTOR_H
#define TSR_TOOLS_DOCTOR_H

#include "tools/options.h"

/* version: a line that says which Tessera and which compiler this is. Starts each GPU, to see whether it does. */
void doctor(const Options *o, const char *version, StrBuf *out);

#endif
