/*
 * branches.h - which of the things that are done one after the other have to wait for which.
 *
 * Each uses some stretches of memory, read or written.  One that meets nothing of what an earlier one writes, and writes nothing that an
 * earlier one uses, need not wait for it.  What it would wait for anyway, by way of another one, is not said.
 */
#ifndef TSR_IR_BRANCHES_H
#define TSR_IR_BRANCHES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct BranchUse { uint64_t from, to; bool writes; } BranchUse;

/* Of thing i the uses from first[i] up to first[i + 1], and what it waits for, earlier things, the latest first, likewise. */
typedef struct Branches { int *first, *after; } Branches;

/* n things; where there are very many each waits for the one before it. */
Branches branches_find(const BranchUse *use, const int *first, int n);
void branches_done(Branches *b);

#endif
