/*
 * reads.h - who wants to know what a running function reads from outside.
 *
 * Interp.reads is NULL except while a function is being staged; then reads of
 * globals and closure cells are reported before the value is used.
 */
#ifndef TSR_FRONTEND_READS_H
#define TSR_FRONTEND_READS_H

#include "frontend/eval/value.h"

typedef struct ReadLog {
    void (*cell)(struct ReadLog *log, CellObj *cell);
    void (*global)(struct ReadLog *log, ModuleObj *m, uint32_t slot);
    void (*made)(struct ReadLog *log, CellObj *cell);       /* a new cell: inside, not outside */
    void (*value)(struct ReadLog *log, Value v);            /* an object that came from outside as itself */
} ReadLog;

ReadLog *interp_reads(Interp *I);
ReadLog *interp_set_reads(Interp *I, ReadLog *log);                 /* the one before */

#endif
