/*
 * fiber.h - stacks of our own.
 *
 * A Fiber runs a function on its own stack and can stop in the middle of it.
 * Stacks are mapped lazily, so an idle one costs the few pages that it touched, and pooled.
 */
#ifndef TSR_FRONTEND_FIBER_H
#define TSR_FRONTEND_FIBER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Fiber {
    void *sp;                   /* where it stopped */
    char *base;                 /* lowest address of the mapping */
    size_t size;
    char *limit;                /* below this, calls must look for another stack */
    void (*fn)(void *arg);
    void *arg;
    struct Fiber *caller;       /* who resumed it */
    bool done;
    void *fake;                 /* AddressSanitizer's view of it */
} Fiber;

enum { FIBER_SMALL = 512 << 10, FIBER_LARGE = 64 << 20 };

/* NULL: no address space. fn must not return control by other ways than returning or fiber_suspend. */
Fiber *fiber_new(size_t size, void (*fn)(void *), void *arg);
/* Switch to g until it suspends or its function returns. cur is what runs now. */
void fiber_resume(Fiber *cur, Fiber *g);
/* From one stack to another, whoever resumed them; somebody has to come back the same way. */
void fiber_jump(Fiber *cur, Fiber *to);
/* Back to whoever resumed f. */
void fiber_suspend(Fiber *f);
void fiber_free(Fiber *f);      /* must be done, or abandoned for good */
void fiber_pool_done(void);

#endif
