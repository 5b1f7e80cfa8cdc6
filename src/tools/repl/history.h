/* history.h - what was entered before: newest last, each text once, kept in a file. */
#ifndef TSR_REPL_HISTORY_H
#define TSR_REPL_HISTORY_H

#include "base/vec.h"

typedef struct History {
    Vec(char *) entry;          /* owned texts; may hold several lines */
    char *path;                 /* NULL: not kept */
} History;

enum { HISTORY_MAX = 5000 };

/* Open the user's history: $TESSERA_HISTORY, else tessera/history below $XDG_STATE_HOME or ~/.local/state. */
void history_open(History *h);
/* Remember a text as the newest; an older equal one goes. The file is appended at once, so a kill loses nothing. */
void history_add(History *h, const char *text);
/* Newest entry at or before `from` that contains `needle`, or -1. */
int history_search(const History *h, const char *needle, int from);
void history_close(History *h);

#endif
