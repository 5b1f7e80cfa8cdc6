/*
 * interrupt.h - ctrl-C as a flag.
 *
 * The driver catches SIGINT; whatever runs long looks at tsr_interrupted and
 * stops at its next safe point.  Whoever answers (interp_poll, which raises
 * KeyboardInterrupt) sets it back to 0.
 */
#ifndef TSR_BASE_INTERRUPT_H
#define TSR_BASE_INTERRUPT_H

/* Really a sig_atomic_t; spelled so, because <signal.h> has a raise() of its own. */
extern volatile int tsr_interrupted;

/* Catch SIGINT from now on. The third one that nobody answered ends the process with 130. */
void interrupt_catch(void);

#endif
