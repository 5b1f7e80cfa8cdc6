/*
 * dist.h - devices, meshes and ranks as stdlib/dist.tsr sees them.
 *
 * The natives of owner "_dist" are the bare operations, by numbers: a device is
 * its number (runtime/mesh.h), a mesh its id, a set of mesh axes a text "dp,tp".
 * What programs call, with its checks and words, is Tessera: stdlib/dist.tsr.
 */
#ifndef TSR_FRONTEND_DIST_H
#define TSR_FRONTEND_DIST_H

#include "frontend/tensor/bind.h"
#include "ir/graph/shard.h"

/* Are the arguments of these kinds, one letter each: t tensor, i int, l list of anything, s str, L list of str, . anything? */
bool args_are(Interp *I, const Value *a, const char *kinds);
const Mesh *arg_mesh(Interp *I, Value id);              /* NULL: an exception is pending */
/* A device by its name ("gpu:1", "cuda:1", "cpu") or as a Device object. false: an exception is pending. */
bool arg_device(Interp *I, Value v, int *number);
Value device_move(Interp *I, Tensor *t, int number);    /* the tensor there, gathered if it was distributed */
Value mesh_axes_list(const Mesh *m, uint16_t axes);     /* their names */

/* Attributes of tensors. */
Value attr_device(Interp *I, Value v);
Value attr_placement(Interp *I, Value v);               /* None: not distributed */
Value attr_mesh(Interp *I, Value v);
Value attr_local_shape(Interp *I, Value v);             /* of a rank's part */

#endif
