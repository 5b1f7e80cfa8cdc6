/*
 * tessera.h - the functions of a Tessera bundle, called from C.
 *
 * A bundle is a folder that `tessera build` makes of a program's @export
 * functions; the shared library in it runs them and has this interface.
 * Functions return TSR_OK or a number of tsr_status; tsr_message() then says in
 * words what was wrong in the calling thread's last call.  Any thread may call
 * anything at any time; calls wait for each other, and big ones use threads of
 * their own.  Nothing here ends the process.
 */
#ifndef TSR_TESSERA_H
#define TSR_TESSERA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TSR_API
#define TSR_API
#endif

#define TSR_INTERFACE 2                 /* of this header; tsr_interface() is the library's */

typedef enum tsr_status {
    TSR_OK = 0,
    TSR_ARGUMENT = 1,                   /* an argument that no call can have, such as NULL */
    TSR_MEMORY = 2,
    TSR_FILE = 3,                       /* a file of the bundle cannot be read */
    TSR_MANIFEST = 4,                   /* what describes the bundle is damaged, or was not made by tessera build */
    TSR_VERSION = 5,                    /* made by a version of Tessera that this library does not understand */
    TSR_CPU = 6,                        /* the bundle's code is for another CPU */
    TSR_HASH = 7,                       /* a file is not the one that was built: damaged, cut off or changed */
    TSR_CODE = 8,                       /* a kernel cannot be loaded */
    TSR_GRAPH = 9,                      /* a function's graph cannot be read */
    TSR_WEIGHTS = 10,                   /* the weights cannot be read, or some are missing */
    TSR_NAME = 11,                      /* the bundle has no function, or no weight, of that name */
    TSR_COUNT = 12,                     /* too many or too few arrays */
    TSR_DTYPE = 13,
    TSR_RANK = 14,                      /* number of axes */
    TSR_SIZE = 15,                      /* a size is another one than the signature says */
    TSR_GUARD = 16,                     /* the function was not built for these sizes */
    TSR_RESULT = 17,                    /* an array for a result does not fit the result */
    TSR_INDEX = 18,                     /* while it ran: IndexError */
    TSR_VALUE = 19,                     /* while it ran: ValueError, a failed check */
    TSR_ZERO = 20,                      /* while it ran: integers divided by zero */
    TSR_NUMERIC = 21,                   /* while it ran: a numeric error */
    TSR_BROKEN = 22,                    /* memory ran out inside an earlier call: this library takes no more calls */
    TSR_DEVICE = 23,                    /* there is no such device here: no driver, no GPU, no such number */
    TSR_NO_CODE = 24,                   /* the bundle has no code for this device */
    TSR_GPU = 25                        /* a GPU failed while it ran: what was there is lost, and every call on it fails from now on */
} tsr_status;

typedef enum tsr_dtype {
    TSR_BOOL, TSR_INT4, TSR_INT8, TSR_INT16, TSR_INT32, TSR_INT64, TSR_UINT4, TSR_UINT8, TSR_UINT16, TSR_UINT32, TSR_UINT64,
    TSR_FP4, TSR_FP6, TSR_FP8_E4M3, TSR_FP8_E5M2, TSR_F16, TSR_BF16, TSR_TF32, TSR_F32, TSR_F64, TSR_C64, TSR_C128
} tsr_dtype;

enum { TSR_AXES = 16 };

/*
 * A tensor in memory. Element (i, j, ...) is i * stride[0] + j * stride[1] + ... elements behind the first one; strides may be
 * 0 or negative. int4, uint4, fp4 and fp6 are packed, lowest bits first: they lie row by row.
 */
typedef struct tsr_array {
    void *data;                         /* the first element */
    int32_t dtype, rank;
    int64_t shape[TSR_AXES], stride[TSR_AXES];
    void *owner;                        /* of a result that the library made: its memory, until tsr_release */
} tsr_array;

typedef struct tsr_bundle tsr_bundle;
typedef struct tsr_function tsr_function;

/* folder NULL: the one that this library lies in. */
TSR_API int tsr_open(const char *folder, tsr_bundle **out);
TSR_API void tsr_close(tsr_bundle *b);  /* its functions end with it; results stay. NULL is allowed */

/* The function of that name, which lives as long as the bundle; NULL: there is none. */
TSR_API tsr_function *tsr_find(tsr_bundle *b, const char *name);
/* The i-th one, by name; NULL beyond the last. */
TSR_API tsr_function *tsr_function_at(tsr_bundle *b, int i);
TSR_API const char *tsr_name(const tsr_function *f);
TSR_API const char *tsr_signature(const tsr_function *f);   /* "predict(x: f32[B, 784]) -> f32[B, 10]" */
TSR_API int tsr_inputs(const tsr_function *f);
TSR_API int tsr_outputs(const tsr_function *f);

/*
 * Call it. A result whose data is NULL is made by the library, row by row, and given back with tsr_release; else dtype, rank,
 * shape and strides are those of memory of the caller's, which must suit the result and lie apart from all other arrays.
 * After an error no result holds anything, and state is as before.
 */
TSR_API int tsr_call(tsr_function *f, const tsr_array *in, int nin, tsr_array *out, int nout);
TSR_API void tsr_release(tsr_array *a);

/* A weight, or state as it is now, as a new array; names are those in weights.safetensors. */
TSR_API int tsr_weight(tsr_bundle *b, const char *name, tsr_array *out);
/* Another value of the same dtype and shape. */
TSR_API int tsr_set_weight(tsr_bundle *b, const char *name, const tsr_array *value);
/* Weights and random numbers as they were when the bundle was opened. */
TSR_API int tsr_reset(tsr_bundle *b);
/* Random numbers from now on are those of a program after random.seed(seed). */
TSR_API int tsr_seed(tsr_bundle *b, uint64_t seed);
/*
 * Where the bundle's functions run from now on: "cpu", as at first, or "gpu:0", "gpu:1", ... for a bundle that was built with --gpu.
 * Arrays stay in the caller's memory: inputs are copied there and results back. Weights and state live there from the first call
 * on that reads them. After an error the device is the one it was.
 */
TSR_API int tsr_use_device(tsr_bundle *b, const char *name);
TSR_API int tsr_threads(int n);         /* for big calls; 0: one a core. Results do not depend on it */

TSR_API int tsr_code(void);             /* of the calling thread's last call */
TSR_API const char *tsr_message(void);  /* "B15: x: axis 1 has size 5, expected 784"; until the thread's next call; "" without an error */
TSR_API int tsr_interface(void);

/* An array of memory that lies row by row. */
static inline tsr_array tsr_rows(tsr_dtype dtype, const void *data, int rank, const int64_t *shape)
{
    tsr_array a;
    int64_t step = 1;
    int i;

    memset(&a, 0, sizeof a);
    a.data = (void *)(uintptr_t)data;
    a.dtype = (int32_t)dtype;
    a.rank = (int32_t)rank;
    for (i = rank < TSR_AXES ? rank - 1 : TSR_AXES - 1; i >= 0; i--) {
        a.shape[i] = shape[i];
        a.stride[i] = step;
        step *= shape[i];
    }
    return a;
}

/* Room for a result that the library makes. */
static inline tsr_array tsr_result(void)
{
    tsr_array a;

    memset(&a, 0, sizeof a);
    return a;
}

#ifdef __cplusplus
}
#endif
#endif
