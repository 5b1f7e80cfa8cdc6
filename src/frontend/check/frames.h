/*
 * frames.h - the frames of bodies that are walked, and the memory that they share in turn.
 *
 *     FrameHold before = frame_hold(C);
 *     CFrame *f = frame_new(C, up, scope);  C->frame = f;  ... walk ...  C->frame = up;
 *     frame_leave(C, f, before);
 *
 * A body is walked for each call that is followed, and most frames are of no
 * use afterwards: their memory serves the next one, near to the processor.  A
 * function that was defined in a body, and an attribute that was stored there,
 * look at the frame later: while they are met, frame_capture says so, and what
 * is being walked then stays until the check is done.
 */
#ifndef TSR_FRONTEND_FRAMES_H
#define TSR_FRONTEND_FRAMES_H

#include "frontend/check/checker.h"

typedef long FrameHold;

static inline FrameHold frame_hold(const Check *C) { return C->captures; }
/* The frame of a body with these names, inside `up`; empty. */
CFrame *frame_new(Check *C, CFrame *up, Scope *s);
void frame_leave(Check *C, CFrame *f, FrameHold before);
/* Something will look at the frame that is being walked, and at what is around it, after it was left. */
void frame_capture(Check *C);
void frames_done(Check *C);

/* Zeroed memory for a while: arrays beside a frame.  spare_put gives it back, with the size that was asked for. */
void *spare_take(Check *C, size_t size);
void spare_put(Check *C, void *p, size_t size);

#endif
