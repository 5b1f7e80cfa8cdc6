/*
 * mesh.h - devices, and meshes of them.
 *
 * Devices are numbered: 0 is the host, k + 1 is gpu:k.  GPUs are those that the
 * driver has (gpu_device.h), which is first asked when somebody asks here; or, once
 * devices_simulate says how many, simulated ones: host memory that is marked with the
 * device's number, so every program over n devices runs on one machine.  Each Storage
 * says where it is.
 *
 * A Mesh lays devices out along named axes, in row-major order: the rank of a
 * member is its place in that order.  A set of axes is a mask (bit a: axis a);
 * the ranks that agree on all other axes form a group of it.  Meshes are
 * interned: equal meshes are equal pointers, and they live to the end.
 */
#ifndef TSR_RUNTIME_MESH_H
#define TSR_RUNTIME_MESH_H

#include "runtime/tensor.h"

#include "base/sym.h"

enum { MESH_AXES_MAX = 8, DEVICES_MAX = 4096 };

typedef struct Mesh {
    int id;                     /* 1, 2, ... in the order of their making */
    int naxes, size;
    Sym name[MESH_AXES_MAX];
    int extent[MESH_AXES_MAX];
    int *device;                /* by rank */
} Mesh;

const Mesh *mesh_new(int naxes, const Sym *name, const int *extent, const int *device);
const Mesh *mesh_by_id(int64_t id);                     /* NULL: no such */
static inline bool mesh_any(void) { return mesh_by_id(1) != NULL; }     /* has a mesh been made? */

static inline uint16_t mesh_all(const Mesh *m) { return (uint16_t)((1u << m->naxes) - 1); }
int mesh_coordinate(const Mesh *m, int rank, int axis);
int mesh_extent(const Mesh *m, uint16_t axes);          /* how many ranks a group of these axes has */
int mesh_index(const Mesh *m, int rank, uint16_t axes); /* the rank's place in its group */
int mesh_member(const Mesh *m, int rank, uint16_t axes, int index);     /* the rank at a place of rank's group */
uint16_t mesh_parse_axes(const Mesh *m, Sym names);     /* "dp" or "dp,tp" */
Sym mesh_axes_name(const Mesh *m, uint16_t axes);       /* the inverse */

void devices_simulate(int gpus);                        /* how many simulated GPUs there are; 0, as at the start: the driver's, if any */
int devices_gpus(void);
bool device_is_far(int device);                         /* is it a GPU of the driver's? */
struct GpuDevice *device_gpu(int device);               /* that one, started; NULL: it is none, or a fault is kept */
int device_number(const char *name);                     /* cpu, host: 0; gpu:1, cuda:1: 2, whether or not it is here; -1: no such name */
bool device_named(const char *name, int *device);        /* cpu, host, gpu:1, cuda. false: it is none, or not here */
extern int device_now;                                  /* where new tensors are made */
extern bool devices_used;                               /* has any tensor been made elsewhere than on the host? */
int device_enter(int device);                           /* new tensors are made there; the former place */
bool tensor_on(Tensor **t, int device);                 /* move: *t becomes a copy there. false: no memory */
/* Where an op on these operands runs: on the device of the first that is not on the host. */
int device_of_operands(Tensor *const *in, int nin);
/* Are two of them on different GPUs, *a and *b? What is on the host may come along anywhere. */
bool devices_differ(Tensor *const *in, int nin, int *a, int *b);

#endif
