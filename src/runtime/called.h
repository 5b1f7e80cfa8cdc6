/*
 * called.h - all that compiled kernels may call, offered to code (code.h).
 *
 * Whoever compiles kernels or loads some that were compiled elsewhere, from the
 * store or a bundle, makes the offer; the list is one, so that what was compiled
 * in one process can be loaded in any other.
 */
#ifndef TSR_RUNTIME_CALLED_H
#define TSR_RUNTIME_CALLED_H

void called_offer(void);                /* idempotent; threads may call it at the same time */

#endif
