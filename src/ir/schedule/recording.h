/*
 * recording.h - what one run of a graph puts on a GPU, put down so that it can be put there again, as one launch.
 *
 * A recording is a list of launches, fills and copies on a device.  Addresses in them are places in rooms, and a room is the memory of an
 * operand, of a result, of a constant, or memory that is given back before the end.  Played again, operands and results are wherever they
 * are then, and the rest shares one block that is taken for as long as the launch lasts.
 *
 * Only one recording is written at a time, by the thread that makes tensors.
 */
#ifndef TSR_IR_RECORDING_H
#define TSR_IR_RECORDING_H

#include "base/source.h"
#include "runtime/tensor.h"

typedef struct Recording Recording;

/* Everything from now on, on the GPU that `device` (mesh.h) is. The operands' storage is used by reference. NULL: a recording is being written. */
Recording *recording_begin(int device, Storage *const *operand, int n);
/* What happens now cannot be played again, because; the first reason stays. Nothing where no recording is written. */
void recording_spoil(const char *why);
bool recording_writing(void);
/* May its elements be others next time? Operands' may, and what was made since the recording began, unless it follows from constants: settled. */
bool recording_varies(const Storage *s);
void recording_settled(const Storage *s);
void recording_settles(bool all);               /* from now on: is all that is made settled? */
/* It is made by the host, which will have made it again, as number `which` of its own, before the recording is played. */
void recording_hosted(const Storage *s, int which);
int recording_host(const Storage *s);           /* its number; -1: it is not made so */
/*
 * The end: whatever was made and is still alive is a result, or can never change. NULL: it cannot be played, which the recording's reason
 * says; the recording is gone.
 */
Recording *recording_end(Recording *t, Storage *const *result, int n, const char **why);
void recording_drop(Recording *t);                        /* NULL allowed; also one that is being written */

size_t recording_within(const Recording *t);              /* bytes of the memory that it takes while it is played */
/* Play it on these; results get their elements. false: a fault is kept (cuda.h), and nothing has run. */
bool recording_play(Recording *t, Storage *const *operand, Storage *const *result, Storage *const *hosted, const char *name, Span where);

#endif
