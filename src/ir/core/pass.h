/*
 * pass.h - what all passes of all levels share: switched off by name, verified, shown.
 *
 * Graph, Schedule and Tile IR have passes of their own; each asks pass_runs before it works and tells pass_done what it made.
 * So one option switches any of them off, one checks every step, and one prints the IR behind each.
 */
#ifndef TSR_IR_PASS_H
#define TSR_IR_PASS_H

#include "base/strbuf.h"

#include <stdbool.h>

/* Passes, separated by commas, do nothing from now on. */
void passes_off(const char *names);
bool pass_runs(const char *name);

/* Passes that a program or a plugin brings: listed, and known to --no-pass. what: its level and a line of help. */
void pass_declare(const char *name, const char *what);
/* The i-th of them; NULL: there are no more. */
const char *pass_declared(int i, const char **what);
/* Names that were given to passes_off and that no pass has asked for so far; NULL: there are no more. */
const char *pass_unknown(int i);

/* How to check and to print what a pass works on. */
typedef struct PassIr {
    bool (*verify)(const void *ir, StrBuf *err);
    void (*print)(const void *ir, StrBuf *out);
} PassIr;

/* Verify behind every pass (TESSERA_VERIFY); what is broken is our mistake, which names the pass. */
extern bool passes_verify;
/* Print the IR behind these passes ("all": every one) to standard error; NULL: none. */
extern const char *passes_shown;
void pass_done(const char *name, const PassIr *how, const void *ir);

#endif
