/*
 * _pool: memory that a program sets aside for tensors, as tessera.memory.Pool has it (stdlib/buffers.tsr, runtime/reserve.h).
 */
#include "frontend/tensor/bind.h"

#include "runtime/reserve.h"

typedef struct PoolObj { NativeInst inst; Reserve *reserve; } PoolObj;

static void pool_free(void *o) { reserve_unref(((PoolObj *)o)->reserve); }

static const NativeType pool_type = {"MemoryPool", .free = pool_free};

static Reserve *reserve_of(Value v)
{
    return v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type == &pool_type ? ((PoolObj *)v.o)->reserve : NULL;
}

static Value f_make(Interp *I, Value *a)                /* size, growth */
{
    Reserve *r = reserve_new((size_t)a[0].i, a[1].f);
    PoolObj *o;

    if (!r)
        return raise(I, EXC_MemoryError, "a pool of %lld bytes cannot be had", (long long)a[0].i);
    o = nativeobj_new(&pool_type, sizeof *o);
    o->reserve = r;
    return vobj(o);
}

static Value current = {.tag = V_NONE}; /* whose hook storage_pool is */

/* New tensors are made there from now on. The former one. */
static Value f_enter(Interp *I, Value *a)               /* pool or None */
{
    Value former = current;

    current = value_ref(a[0]);
    storage_pool = reserve_hook(reserve_of(current));
    return former;
}

static Value f_facts(Interp *I, Value *a)
{
    ReserveFacts f = reserve_facts(reserve_of(a[0]));

    return tuple_of(5, vint((int64_t)f.capacity), vint((int64_t)f.used), vint((int64_t)f.peak), vint(f.grows), vint(f.defrags));
}

const NativeDef tensor_pool_natives[] = {
    {"_pool", "make", f_make, "(size: int, growth: float) -> object", "Memory set aside: bytes, and what they are multiplied by where they do not suffice."},
    {"_pool", "enter", f_enter, "(pool: object) -> object", "New tensors are made there; None: where the system has memory. Gives the former pool."},
    {"_pool", "facts", f_facts, "(pool: object) -> tuple", "Bytes there are, in use, and at most in use; how often it grew, and how often free pieces were joined."},
    {0},
};
