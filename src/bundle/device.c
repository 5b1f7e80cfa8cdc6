/*
 * A bundle on a GPU: its fat binaries as a compiler, as kernels.c has them for this CPU, and its weights there.
 *
 * Nothing of this is touched before somebody asks for a GPU.  Then all fat binaries are read and compared, and of each the code is kept
 * that suits the chip: machine code for it, else PTX.  What the bundle lacks runs on the host.
 *
 * The runtime part of bundles without such code has no_device.c in place of this file.
 */
#include "bundle/bundle.h"

#include "base/alloc.h"
#include "base/map.h"
#include "ir/schedule/far_code.h"
#include "runtime/fatbin.h"
#include "runtime/gpu_device.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

const char *const gpu_machines[GPU_MACHINES] = {"sm_80", "sm_90a", "sm_0"};

typedef struct BundleFar {
    uint32_t refs;
    Hash128 key;
    FarCode code;
} BundleFar;

static Map loaded;              /* low half of the key -> BundleFar * of an open bundle */

static uint64_t place_of(Hash128 key) { return key.lo | 1; }

/* ---- as a compiler ---- */

static void drop(void *code)
{
    BundleFar *f = code;

    if (--f->refs)
        return;
    sb_done(&f->code.image);
    tsr_free(f);
}

static void *find(const TileKernel *tile, StrBuf *err)
{
    Hash128 key = tile_key(tile);
    uintptr_t at;
    BundleFar *f = map_find(&loaded, place_of(key), &at) ? (BundleFar *)at : NULL;

    if (!f || f->key.lo != key.lo || f->key.hi != key.hi) {
        sb_puts(err, "the bundle has no kernel for GPUs for operands that lie like this");
        return NULL;
    }
    f->refs++;
    return f;
}

static KernelFn *no_entry(const void *code) { return NULL; }
static int64_t no_scratch(const void *code, const int64_t *size) { return 0; }
static uint32_t users(const void *code) { return ((const BundleFar *)code)->refs; }

static const KernelCompiler from_bundles = {find, no_entry, no_scratch, users, drop};

static int launch(void *code, const TileKernel *k, int device, const int64_t *sizes, const TileArg *args, Span where)
{
    BundleFar *f = code;

    return far_code_launch(&f->code, k, device, sizes, args, where);
}

/* ---- which code ---- */

/* How well an entry suits a chip; 0: not at all. Machine code runs on later chips of its generation, PTX on all later ones. */
static int suits(const FatbinEntry *e, int sm)
{
    if (!e->sm || !sm)
        return e->sm == sm && e->kind == FATBIN_CUBIN;
    if (e->own)
        return e->sm == sm ? e->kind == FATBIN_CUBIN ? 1003 : 1002 : 0;
    if (e->kind == FATBIN_CUBIN)
        return e->sm / 10 == sm / 10 && e->sm <= sm ? 2 + e->sm : 0;
    return e->sm <= sm;
}

static int machine_of(const FatbinEntry *e) { return e->own ? 1 : e->sm ? 0 : 2; }

static bool choose(const StrBuf *file, int sm, FatbinEntry *out)
{
    FatbinEntry e;
    int best = 0;

    for (int i = 0; fatbin_entry(file->s, file->n, i, &e); i++)
        if (suits(&e, sm) > best) {
            best = suits(&e, sm);
            *out = e;
        }
    return best > 0;
}

/* ---- reading ---- */

/* What launches of the entry's code have to know. */
static bool read_frame(const Json *j, int row, const FatbinEntry *e, GpuFrame *out)
{
    int at = json_get(j, json_get(j, row, "frames"), gpu_machines[machine_of(e)]);
    char *text = json_kind(j, at) == JSON_STRING ? json_string(j, at) : NULL;
    bool ok = text && far_frame_read(text, out);

    tsr_free(text);
    return ok;
}

static int read_fatbin(struct tsr_bundle *b, const BundleFiles *files, const Json *j, int row, const char *path, Hash128 key, int sm, StrBuf *err)
{
    StrBuf file = {0};
    FatbinEntry e;
    GpuFrame frame;
    int bad = bundle_file(files, j, path, &file, err);

    if (!bad && !fatbin_check(sb_str(&file), file.n))
        bad = bundle_refuse(err, TSR_CODE, "%s: it is no fat binary", path);
    if (!bad && choose(&file, sm, &e)) {
        if (!read_frame(j, row, &e, &frame)) {
            bad = bundle_refuse(err, TSR_MANIFEST, "%s: the frame of a kernel for GPUs is missing or damaged", BUNDLE_MANIFEST);
        } else {
            BundleFar *f = tsr_calloc(sizeof *f);
            *f = (BundleFar){.refs = 1, .key = key, .code = {.frame = frame}};
            sb_write(&f->code.image, e.image, e.n);
            vec_push(&b->far, f);
        }
    }
    sb_done(&file);
    return bad;
}

static int read_row(struct tsr_bundle *b, const BundleFiles *files, const Json *j, int row, int sm, StrBuf *err)
{
    int at[2] = {json_get(j, row, "key"), json_get(j, row, "fatbin")}, bad;
    char *key = json_kind(j, at[0]) == JSON_STRING ? json_string(j, at[0]) : NULL;
    char *path = json_kind(j, at[1]) == JSON_STRING ? json_string(j, at[1]) : NULL;
    Hash128 hash;

    if (!key || !path || !bundle_key_read(key, &hash))
        bad = bundle_refuse(err, TSR_MANIFEST, "%s: a kernel for GPUs lacks its key or its file", BUNDLE_MANIFEST);
    else
        bad = read_fatbin(b, files, j, row, path, hash, sm, err);
    tsr_free(key);
    tsr_free(path);
    return bad;
}

/* What the bundle has code for that runs on the chip; -1: nothing. PTX for sm_80 is in every bundle with code for real ones. */
static int made_for(const Json *j, int sm)
{
    int list = json_get(j, json_get(j, 0, "target"), "gpu"), best = -1;

    for (int k = 0, i = list + 1; k < json_count(j, list); k++, i = json_next(j, i)) {
        int chip = json_is(j, i, "sm_0") ? 0 : json_is(j, i, "sm_90a") && sm == 90 ? 90 : 80;
        if (chip > best && (chip ? sm >= 80 : !sm))
            best = chip;
    }
    return best;
}

int bundle_read_far(struct tsr_bundle *b, const BundleFiles *files, int sm, StrBuf *err)
{
    StrBuf text = {0};
    Json j;
    int bad = bundle_manifest(files, &text, &j, err), list = bad ? -1 : json_get(&j, 0, "gpu_kernels");

    if (!bad && list < 0)
        bad = bundle_refuse(err, TSR_NO_CODE, "the bundle has no code for GPUs: build it with --gpu=sm_%d", sm);
    else if (!bad && (b->made_for = made_for(&j, sm)) < 0)
        bad = bundle_refuse(err, TSR_NO_CODE, "the bundle has no code for this GPU (sm_%d): build it with --gpu=native there", sm);
    for (int k = 0, i = list + 1; !bad && k < json_count(&j, list); k++, i = json_next(&j, i))
        bad = read_row(b, files, &j, i, sm, err);
    json_done(&j);
    sb_done(&text);
    return bad;
}

/* ---- devices ---- */

static void forget_code(struct tsr_bundle *b)
{
    for (int i = 0; i < b->far.n; i++) {
        BundleFar *f = b->far.at[i];
        uintptr_t at;
        if (map_find(&loaded, place_of(f->key), &at) && (BundleFar *)at == f)
            map_set(&loaded, place_of(f->key), 0);
        drop(f);
    }
    vec_free(&b->far);
}

/* The elements follow when they are asked for. */
static void place_weights(struct tsr_bundle *b, int device)
{
    for (int i = 0; i < b->weight.n; i++) {
        storage_place(b->weight.at[i].t->store, (uint32_t)device);
        storage_place(b->weight.at[i].first->store, (uint32_t)device);
    }
    b->device = device;
    devices_used |= device != 0;
}

int bundle_use_device(struct tsr_bundle *b, const BundleFiles *files, const char *name, StrBuf *err)
{
    GpuDevice *g;
    int device, bad;

    gpus_offer();
    if (!device_named(name, &device))
        return bundle_refuse(err, TSR_DEVICE, "there is no device '%.40s' here: %s", name,
                      *cuda_reason() ? cuda_reason() : "devices are cpu, gpu:0, gpu:1, ...");
    if (device == b->device)
        return TSR_OK;
    if (device && !(g = device_gpu(device)))
        return bundle_fault(TSR_DEVICE, err);
    if (device && !b->far.n && (bad = bundle_read_far(b, files, g->sm, err))) {
        forget_code(b);
        return bad;
    }
    for (int i = 0; device && i < b->far.n; i++)
        map_set(&loaded, place_of(b->far.at[i]->key), (uintptr_t)b->far.at[i]);
    if (device) {
        far_begin(&from_bundles, launch);
        far_made_for = b->made_for;
    }
    place_weights(b, device);
    return fault_kept ? bundle_fault(TSR_DEVICE, err) : TSR_OK;
}

int bundle_wait(struct tsr_bundle *b, StrBuf *err)
{
    GpuDevice *g = b->device ? device_gpu(b->device) : NULL;

    if (g)
        gpu_sync(g);
    return fault_kept ? bundle_fault(TSR_GPU, err) : TSR_OK;
}

void bundle_leave_device(struct tsr_bundle *b) { forget_code(b); }
