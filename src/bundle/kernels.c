/*
 * The kernels of open bundles as a compiler: "compiling" looks the kernel's text
 * up.  Code is counted, because fused bodies keep what they ran by when their
 * bundle is closed.
 */
#include "bundle/bundle.h"

#include "base/alloc.h"
#include "ir/graph/level.h"
#include "ir/schedule/launched.h"
#include "runtime/called.h"
#include "runtime/code.h"
#include "runtime/kernels.h"

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
    Hash128 key = tile_key(tile);
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

/* ---- launches of programs ---- */

static Loaded *code_of(const Attr *a)
{
    uintptr_t at;
    Hash128 key = {.lo = (uint64_t)a->i, .hi = (uint64_t)a->seed};
    BundleKernel *k = map_find(&loaded, place_of(key), &at) ? (BundleKernel *)at : NULL;

    return k && k->key.hi == key.hi ? k->loaded : NULL;
}

/* An operand as the code takes it: neighbours along the last axis, and of one that it stores to a copy, unless it dies. NULL: no memory. */
static Tensor *as_argument(Tensor *t, bool stored, bool dies, TileArg *arg)
{
    bool rows = !t->rank || t->shape[t->rank - 1] <= 1 || t->stride[t->rank - 1] == 1;
    Tensor *y = (stored ? !(dies && tensor_is_own(t)) : !rows) ? tensor_copy(t) : tensor_ref(t);

    if (!y)
        return NULL;
    arg->base = stored ? tensor_data(y) : (void *)tensor_read(y);
    for (int i = 0; i < y->rank; i++) {
        arg->extent[i] = y->shape[i];
        arg->stride[i] = y->stride[i];
    }
    return y;
}

static bool launch(const Loaded *l, const Attr *a, const TileArg *arg)
{
    int64_t size[16 * 3 + 3];
    int n = 0;

    for (int k = 1; k < 4; k++)
        for (int i = 0; i < a->nd[k]; i++)
            size[n++] = a->d[k][i];
    size[n] = size[n + 1] = 1;
    return a->d[3][0] <= 0 || launched_groups(l->entry, l->scratch(size), size, arg, a->d[3][0], a->kind, a->f);
}

bool bundle_launch(void *host, const Attr *a, Tensor *const *in, int nin, uint32_t dying, Tensor **out, int *nout)
{
    TileArg *arg = tsr_calloc(sizeof *arg * (size_t)(nin + 1));
    Tensor **t = tsr_calloc(sizeof *t * (size_t)(nin + 1));
    const Loaded *l = code_of(a);
    bool ok = l != NULL;

    for (int i = 0; ok && i < nin; i++) {
        bool stored = false;
        for (int k = 0; k < a->nd[0]; k++)
            stored |= a->d[0][k] == i;
        ok = (t[i] = as_argument(in[i], stored, i < DYING_MAX && dying >> i & 1, &arg[i])) != NULL;
    }
    ok = ok && launch(l, a, arg);
    for (*nout = 0; ok && *nout < a->nd[0]; ++*nout)
        out[*nout] = tensor_ref(t[a->d[0][*nout]]);
    if (!ok)
        bundle_refuse(host, TSR_MEMORY, "%s: %s", a->name->text, l ? "not enough memory" : "the bundle lacks its code");
    tensors_unref(t, nin);
    tsr_free(t);
    tsr_free(arg);
    return ok;
}

/* ---- objects ---- */

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
