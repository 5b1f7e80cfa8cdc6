/* schedule_text.h - the schedule of a launch as text, `schedule @NAME source=WHO FIELD=VALUE...`: inspect --ir schedule prints it. */
#ifndef TSR_TOOLS_SCHEDULE_TEXT_H
#define TSR_TOOLS_SCHEDULE_TEXT_H

#include "base/strbuf.h"

#include <stdbool.h>

#define SCHEDULE_HEAD "schedule @"

/* Read one such line of n bytes, and append it to *out as it is printed: fields in the order of the table. false: *err says what is wrong. */
bool schedule_text_read(const char *line, size_t n, StrBuf *out, StrBuf *err);

#endif
