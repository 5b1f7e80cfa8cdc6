/*
 * bundle.h - a bundle in memory: what tessera.h's opaque types are.
 *
 * A bundle is a folder.  Its manifest names every other file with its size and
 * hash, and ends in a hash of itself, so that nothing damaged, cut off or
 * exchanged is ever used.  A function has one or more forms: graphs of the
 * Schedule IR with the sizes that each serves.  Its kernels are objects, found by the
 * hash of the Tile IR that they were compiled from, which the Schedule IR is
 * lowered to again for the operands at hand; a kernel that is not there is
 * replaced by running its body op by op.
 *
 * None of this locks: api.c has one lock for the whole library.
 */
#ifndef TSR_BUNDLE_BUNDLE_H
#define TSR_BUNDLE_BUNDLE_H

#include "base/hash.h"
#include "base/json.h"
#include "bundle/tessera.h"
#include "ir/graph/trace.h"

enum { BUNDLE_FORMAT = 1, BUNDLE_FILE_MAX = 1 << 30 };
#define BUNDLE_MANIFEST "manifest.json"
#define BUNDLE_WEIGHTS "weights.safetensors"

/* Where a bundle's files come from. read: an errno, 0 when the file follows what *out held. */
typedef struct BundleFiles {
    int (*read)(void *st, const char *path, size_t max, StrBuf *out);
    void *st;
} BundleFiles;

typedef struct Weight {
    char *name;
    Tensor *t, *first;          /* as it is now, and as the file has it */
} Weight;

struct Quick;
typedef struct Form {
    Graph *graph;               /* parameters: captures, the key of random numbers, inputs; results: outputs, stores */
    int *capture, ncaptures;    /* weights */
    int *store, nstores;        /* weights that take the last results */
    bool random;
    struct Quick *quick;        /* quick.c; NULL: calls of the form take the long way */
} Form;

struct tsr_function {
    struct tsr_bundle *bundle;
    char *name, *signature;
    Vec(char *) input;          /* names of the parameters' tensors */
    int noutputs;
    Vec(Form) form;
};

typedef struct BundleKernel {
    Hash128 key;
    char *path;
    struct Loaded *loaded;      /* kernels.c; NULL until it is loaded */
} BundleKernel;

struct BundleFar;
struct tsr_bundle {
    char *name, *cpu;           /* cpu: of the kernels that were loaded */
    char *folder;               /* which api.c opened it from; NULL: somebody else did */
    int device;                 /* where functions run: 0 the host, else a GPU (runtime/mesh.h) */
    Vec(struct tsr_function) function;      /* sorted by name */
    Vec(Weight) weight;
    Vec(BundleKernel) kernel;
    int made_for;               /* of these: the chip that they were made for */
    Vec(struct BundleFar *) far;            /* device.c: kernels for GPUs, once one was asked for */
    uint64_t seed, draws;       /* of the program at the end of building */
    Trace T;
};

/* Everything is read and checked. TSR_OK, or what is wrong, with a line in *err. */
int bundle_read(const BundleFiles *files, struct tsr_bundle **out, StrBuf *err);
/* The manifest alone, read and checked. json_done and sb_done are due in either case. */
int bundle_manifest(const BundleFiles *files, StrBuf *text, Json *j, StrBuf *err);
/* A file that the manifest lists, compared with what it says of it. */
int bundle_file(const BundleFiles *files, const Json *manifest, const char *path, StrBuf *out, StrBuf *err);
void bundle_free(struct tsr_bundle *b);
BundleFiles bundle_folder(const char *path);    /* its files; the path stays the caller's */

/* The key under which a kernel is found (tile_key), in hexadecimal. */
enum { KEY_DIGITS = 32 };
void bundle_key_text(Hash128 key, char text[static KEY_DIGITS + 1]);
bool bundle_key_read(const char *text, Hash128 *out);   /* false: that is no key */

/* End a manifest: *text is an object without its last brace. */
void bundle_seal(StrBuf *text);

bool kernel_load(BundleKernel *k, const void *object, size_t n, StrBuf *err);  /* the object's code, copied; false: *err says why it is none */
void kernel_unload(BundleKernel *k);                /* no call finds it any more */
void bundle_offer_kernels(struct tsr_bundle *b);    /* fused nodes are run by these from now on */

/*
 * Where functions run from now on: "cpu", "gpu:0", ...  What the bundle has for GPUs is read from its files then.  After an error all is as before.
 * In a library without code for GPUs this is no_device.c, and there is the CPU.
 */
int bundle_use_device(struct tsr_bundle *b, const BundleFiles *files, const char *name, StrBuf *err);
/* The first part of that: what there is for the chip, which is 80, 90, ..., or 0 for the driver of the tests. */
int bundle_read_far(struct tsr_bundle *b, const BundleFiles *files, int sm, StrBuf *err);
int bundle_wait(struct tsr_bundle *b, StrBuf *err);     /* until its GPU is done with all that it was given: did it go well? */
void bundle_leave_device(struct tsr_bundle *b);    /* the code that a GPU was given for it goes */
/* Say why, return the status. */
int bundle_refuse(StrBuf *err, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int bundle_fault(int status, StrBuf *err);              /* a GPU's fault (runtime/cuda.h) as an error: TSR_MEMORY, or this one */
/* Kinds of code that a kernel may have: for sm_80 and all later chips, for sm_90a, for the driver of the tests. */
enum { GPU_MACHINES = 3 };
extern const char *const gpu_machines[GPU_MACHINES];

/*
 * As tsr_call; *err explains. No lock is taken, and memory that runs out goes where the caller of the process sent it.
 */
int bundle_call(struct tsr_function *f, const tsr_array *in, int nin, tsr_array *out, int nout, StrBuf *err);
void bundle_reset(struct tsr_bundle *b);        /* weights and random numbers as they were */
bool bundle_print(void *host, const Attr *a, Tensor *const *in, int nin);     /* Trace.host_print */
/* Trace.host_launch: by the code that the bundle has for it. */
bool bundle_launch(void *host, const Attr *a, Tensor *const *in, int nin, uint32_t dying, Tensor **out, int *nout);
int bundle_find_weight(const struct tsr_bundle *b, const char *name);   /* -1: there is none */

/*
 * The short way, for a function that is one kernel: a call with the sizes of the last one, of arrays that lie row by row.
 * false: the long way is to be taken. The call that took it with these operands is noted by quick_note.
 */
bool quick_call(struct tsr_function *f, const tsr_array *in, int nin, tsr_array *out);
void quick_begin(struct tsr_function *f);               /* once, when the function is read */
void quick_note(struct tsr_function *f, Tensor *const *x);
void quick_free(struct Quick *q);

/* A tensor that looks at the caller's memory, which `store` stands for and which nothing frees. */
typedef struct Borrowed { Storage store; Tensor *t; } Borrowed;
int bundle_borrow(const tsr_array *a, const char *what, Borrowed *out, StrBuf *err);
/* Give t, whose reference is taken, to the caller: into *out's memory, or as memory of its own. */
int bundle_give(Tensor *t, const char *what, tsr_array *out, StrBuf *err);

#endif
