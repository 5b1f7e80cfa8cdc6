/*
 * tasks.h - futures, tasks and the loop that runs them (tasks.c). await, which waits for them, is in async.c.
 */
#ifndef TSR_FRONTEND_TASKS_H
#define TSR_FRONTEND_TASKS_H

#include "frontend/eval/eval.h"

/* A result that will be there; a task is the future of a coroutine that the loop runs. */
typedef struct Future {
    NativeInst inst;
    Interp *I;
    Value coro;                 /* a task's coroutine; V_ERR: somebody else fulfils it */
    Value result, error;        /* when done; error V_ERR: none */
    Value waits;                /* a future, or a list of some, that is cancelled when this is; V_ERR: nothing */
    Value told;                 /* list of the tasks that go on and the functions called when it is done; V_ERR: nobody */
    int64_t number;             /* of a task, in the order of making */
    int cancels;                /* calls of cancel, less those of uncancel */
    bool done, cancelled, must_cancel, seen;    /* seen: somebody has had the error */
} Future;

/* What a coroutine yields to the loop: go on when this future is done; V_ERR: when it is its turn again. */
typedef struct Wait { NativeInst inst; Value future; } Wait;

extern const NativeType task_type, future_type, wait_type;

static inline bool is_native(Value v, const NativeType *t) { return v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type == t; }
static inline bool is_future(Value v) { return is_native(v, &task_type) || is_native(v, &future_type); }

Value wait_new(Value future);
/* Let the tasks whose turn it is go on, and sleep before when there is none. false: pending. */
bool loop_turn(Interp *I);
/* Run the loop until f is done. false: pending. */
bool loop_until(Interp *I, const Future *f);
void loop_free(struct TaskLoop *l);

#endif
