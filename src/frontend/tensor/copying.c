/*
 * copying.c - copies of tensors that are made while the program goes on: memory.async_copy, async_load, async_store.
 *
 * A copy has a thread of its own from beginning to end, where it is large enough to pay for one.  The program's tensor may be
 * stored to meanwhile: its elements have a second owner until the copy is whole, so that a store takes elements of its own.
 */
#include "frontend/tensor/watch.h"

#include "frontend/eval/eval.h"
#include "runtime/storage.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { ALONE = 1 << 18 };               /* bytes that pay for a thread */

typedef struct Copying {
    NativeInst inst;
    Tensor *from, *to;                  /* from: a look at the program's, NULL once the copy is whole */
    const void *src;
    void *dst;
    size_t bytes;
    int64_t began, ended;
    Sym what;
    pthread_t thread;
    bool runs;
} Copying;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *copy_bytes(void *st)
{
    Copying *c = st;

    memcpy(c->dst, c->src, c->bytes);
    c->ended = now();
    return NULL;
}

/* Wait until it is whole. */
static void finish(Copying *c)
{
    if (c->runs)
        pthread_join(c->thread, NULL);
    c->runs = false;
    if (c->from)
        profile_beside(c->what, c->began, c->ended - c->began, (double)c->bytes);
    tensor_unref(c->from);
    c->from = NULL;
}

static void copying_free(void *self)
{
    Copying *c = self;

    finish(c);
    tensor_unref(c->to);
}

static const NativeType copying_type = {.name = "copying", .free = copying_free};

/* Rows of the host's memory are copied beside the program; what is elsewhere, or lies otherwise, at once. */
static bool begin(Copying *c, Tensor *t)
{
    c->began = now();
    c->from = tensor_view(t, t->rank, t->shape, t->stride, t->offset);
    if (!c->from || !t->contiguous || t->store->device || tensor_nbytes(t) < ALONE) {
        c->to = c->from ? tensor_copy(t) : NULL;
        c->ended = now();
        return c->to != NULL;
    }
    if (!(c->to = tensor_new((DType)t->dtype, t->rank, t->shape)))
        return false;
    c->to->weak = t->weak;
    c->to->policy = t->policy;
    c->bytes = tensor_nbytes(t);
    c->dst = tensor_data(c->to);
    c->src = tensor_read(c->from);
    c->runs = !pthread_create(&c->thread, NULL, copy_bytes, c);
    if (!c->runs)
        copy_bytes(c);
    return true;
}

static Value f_copy_begin(Interp *I, Value *a)          /* x, what */
{
    Copying *c;
    Tensor *t;

    if (a[0].tag != V_TENSOR || as_tensor(a[0])->tracer)
        return raise(I, EXC_TypeError, "a copy is made of a tensor that has elements");
    t = as_tensor(a[0]);
    c = (Copying *)nativeobj_new(&copying_type, sizeof *c);
    c->what = sym_n(as_str(a[1])->s, as_str(a[1])->len);
    if (begin(c, t))
        return vobj((Obj *)c);
    value_unref(vobj((Obj *)c));
    return raise(I, EXC_MemoryError, "no memory for a copy of %zu bytes", tensor_nbytes(t));
}

static Value f_copy_end(Interp *I, Value *a)            /* what copy_begin gave */
{
    Copying *c;
    int64_t from = now();

    if (a[0].tag != V_NATIVEOBJ || ((NativeInst *)a[0].o)->type != &copying_type)
        return raise(I, EXC_TypeError, "this is no copy under way");
    c = (Copying *)a[0].o;
    if (c->from)
        finish(c), profile_wait(from, now() - from);
    return tensor_value(tensor_ref(c->to));
}

const NativeDef tensor_copying_natives[] = {
    {"_core", "copy_begin", f_copy_begin, "(x: Tensor, what: str)", "Begin a copy of x beside the program."},
    {"_core", "copy_end", f_copy_end, "(copying) -> Tensor", "The copy, when it is whole."},
    {0},
};
