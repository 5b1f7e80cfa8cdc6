/*
 * build.h - `tessera build`: a program's exported functions as a bundle.
 *
 * The parts are made in memory, as files with paths; the folder is written at
 * the end, whole or not at all.  The same program, options and Tessera give
 * the same bytes, wherever it is built.
 */
#ifndef TSR_TOOLS_BUNDLE_BUILD_H
#define TSR_TOOLS_BUNDLE_BUILD_H

#include "bundle/bundle.h"
#include "frontend/tensor/export.h"
#include "ir/schedule/far_code.h"
#include "ir/tile/tile.h"
#include "tools/bundle/verbs.h"

enum { BUILD_CPUS = 3, BUILD_ARCHS = 8, BUILD_CHIPS = 8 };

typedef struct BuildFile { char *path; StrBuf bytes; } BuildFile;
typedef struct BuildKernel { char *key; bool made[BUILD_CPUS]; } BuildKernel;     /* made: for this CPU its object is a file */

/* A chip that --gpu names; a kernel's code for each machine that chips stand for (chips.c). */
typedef struct BuildChip { char name[16]; int sm; bool own; } BuildChip;
typedef struct BuildFar {
    char key[KEY_DIGITS + 1];
    bool asked[GPU_MACHINES], made[GPU_MACHINES];
    GpuFrame frame[GPU_MACHINES];
    StrBuf image[GPU_MACHINES];         /* PTX; of the driver of the tests an object */
} BuildFar;

typedef struct Building {
    const char *name;           /* a C identifier: of the library, the header and what the header defines */
    const char *cpu[BUILD_CPUS];
    int ncpus;
    const struct GpuModel *model[BUILD_ARCHS];      /* --arch */
    int nmodels;
    BuildChip chip[BUILD_CHIPS];                    /* --gpu */
    int nchips;
    unsigned machines;                              /* bit m: gpu_machines[m] */
    bool cubins;                                    /* is there what assembles? */
    Exports exports;
    Vec(BuildFile) file;
    Vec(BuildKernel) kernel;
    Vec(BuildFar) far;
    bool debug;                 /* --debug: the bundle runs op by op, and every result is looked at */
    const char *facts;          /* further members of the manifest; NULL: none */
    StrBuf err;
} Building;

StrBuf *build_file(Building *b, const char *path);      /* a new file, to be filled; valid until the next */

char *build_name(const char *path);                     /* its last part without its ending, as a C identifier; owned by the caller */

/* Graphs, kernels, weights. false: b->err. */
bool build_code(Building *b, Trace *T);
/* --arch: the names as models. false: *err says which one is unknown. */
bool variants_read(Building *b, const char *text, StrBuf *err);
/* What the program exported on each model becomes b->exports: functions whose graphs differ have the forms of each. false: b->err. */
bool variants_join(Building *b, Exports *each);

/* --gpu: the names of chips. false: *err says which one is unknown. */
bool chips_read(Building *b, const char *text, StrBuf *err);
void chips_rehearse(Building *b, Trace *T, Graph *g);   /* notes the kernels that g asks for on GPUs */
bool chips_finish(Building *b);                         /* their files. false: b->err */
void chips_describe(const Building *b, StrBuf *out);    /* and what the manifest says of them */
void chips_done(Building *b);

/* The header and the manifest; the manifest is last, as it describes all other files. */
void build_header(Building *b);
void build_manifest(Building *b);
void build_rest(Building *b);                           /* the library, the header and the manifest */
void building_done(Building *b);
char *build_graph_path(const ExportFunction *f, int form);
void build_signature(const ExportFunction *f, StrBuf *out);     /* "predict(x: f32[B, 784]) -> f32[B, 10]" */

/* Put the files there. A bundle that is there is replaced, anything else is left alone. false: *err. */
bool build_write(const Building *b, const char *folder, StrBuf *err);

struct tsr_array;
struct tsr_array build_array(const Tensor *t);          /* a look at it */

/* What bundles carry (runtime_files.S). */
extern const char bundle_runtime[], bundle_runtime_end[], bundle_gpu_runtime[], bundle_gpu_runtime_end[], bundle_interface[], bundle_interface_end[];

#endif
