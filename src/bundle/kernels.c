/*
 * The kernels of open bundles as a compiler: "compiling" looks the kernel's text
 * up.  Code is counted, because fused bodies keep what they ran by when their
 * bundle is closed.
 */
#include "bundle/bundle.h"

#include "base/alloc.h"
#include "ir/schedule/fused.h"
#include "runtime/called.h"
#include "runtime/code.h"

typedef int64_t ScratchFn(const int64_t *size);

typedef struct Loaded {
    uint32_t refs;
    Code *code;
    KernelFn *entry;
    ScratchFn *scratch;
} Loaded;

static Map loaded;              /* low half of the key -> BundleKernel * of an open bundle */

static uint64_t place_of(Hash128 key) { return key.lo | 1; }

static void drop(void *code)
{
    Loaded *l = code;

    if (--l->refs)
        return;
    code_free(l->code);
    tsr_free(l);
}

static void *find(const TileKernel *tile, StrBuf *err)
{
    Hash128 key = bundle_key(tile);
    uintptr_t at;
    BundleKernel *k = map_find(&loaded, place_of(key), &at) ? (BundleKernel *)at : NULL;

    if (!k || k->key.lo != key.lo || k->key.hi != key.hi) {
        sb_puts(err, "the bundle has no kernel for operands that lie like this");
        return NULL;
    }
    k->loaded->refs++;
    return k->loaded;
}

static KernelFn *entry(const void *code) { return ((const Loaded *)code)->entry; }
static int64_t scratch(const void *code, const int64_t *size) { return ((const Loaded *)code)->scratch(size); }
static uint32_t users(const void *code) { return ((const Loaded *)code)->refs; }

static const KernelCompiler from_bundles = {find, entry, scratch, users, drop};

bool kernel_load(BundleKernel *k, const void *object, size_t n, StrBuf *err)
{
    Code *code;
    Loaded *l;

    called_offer();
    if (!(code = code_load(object, n, err)))
        return false;
    l = tsr_calloc(sizeof *l);
    *l = (Loaded){1, code, (KernelFn *)code_find(code, "kernel"), (ScratchFn *)code_find(code, "kernel.scratch")};
    if (!l->entry || !l->scratch) {
        sb_puts(err, "the object lacks its functions");
        drop(l);
        return false;
    }
    k->loaded = l;
    return true;
}

void bundle_offer_kernels(struct tsr_bundle *b)
{
    for (int i = 0; i < b->kernel.n; i++)
        map_set(&loaded, place_of(b->kernel.at[i].key), (uintptr_t)&b->kernel.at[i]);
    fused_begin(&from_bundles, false);
}

void kernel_unload(BundleKernel *k)
{
    uintptr_t at;

    if (map_find(&loaded, place_of(k->key), &at) && (BundleKernel *)at == k)
        map_set(&loaded, place_of(k->key), 0);
    if (k->loaded)
        drop(k->loaded);
}
