/* The dtype table and the few rules that relate dtypes to each other. */
#include "ir/core/dtype.h"

#include "base/alloc.h"
#include "base/words.h"

#include <pthread.h>
#include <string.h>

const DTypeInfo dtype_info[DT_COUNT] = {
#define DTYPE(name, kind, bits, sbits, e, m, aliases) [DT_##name] = {#name, DK_##kind, bits, sbits, e, m, aliases},
#include "ir/core/dtype.def"
};

static Word dtype_word[256];
static Words dtype_words = {dtype_word, 256, 0};
static pthread_once_t dtype_words_made = PTHREAD_ONCE_INIT;

static void make_dtype_words(void)
{
    for (int i = 0; i < DT_COUNT; i++) {
        words_add_all(&dtype_words, dtype_info[i].name, i);
        words_add_all(&dtype_words, dtype_info[i].aliases, i);
    }
}

bool dtype_find(const char *name, DType *out)
{
    int i;

    pthread_once(&dtype_words_made, make_dtype_words);
    i = words_find(&dtype_words, name);
    if (i >= 0)
        *out = (DType)i;
    return i >= 0;
}

DType dtype_real(DType t)
{
    return t == DT_c64 ? DT_f32 : t == DT_c128 ? DT_f64 : t;
}

DType dtype_complex(DType t)
{
    return t == DT_f64 || t == DT_c128 || t == DT_int64 || t == DT_uint64 ? DT_c128 : DT_c64;
}

static bool promote_ints(DType a, DType b, DType *out)
{
    const DTypeInfo *x = &dtype_info[a], *y = &dtype_info[b];
    static const DType as_signed[] = {[4] = DT_int8, [8] = DT_int16, [16] = DT_int32, [32] = DT_int64, [64] = DT_int64};

    if (x->kind == y->kind) {
        *out = x->bits >= y->bits ? a : b;
        return true;
    }
    if (x->kind == DK_UINT) {           /* let a be the signed one */
        const DTypeInfo *t = x;
        DType d = a;
        x = y, y = t, a = b, b = d;
    }
    *out = x->bits > y->bits ? a : as_signed[y->bits];
    return true;
}

bool dtype_promote(DType a, DType b, DType *out)
{
    int ka = dtype_info[a].kind, kb = dtype_info[b].kind;

    if (a == b || kb == DK_BOOL) {
        *out = a;
        return true;
    }
    if (ka == DK_BOOL) {
        *out = b;
        return true;
    }
    if (ka <= DK_UINT && kb <= DK_UINT)
        return promote_ints(a, b, out);
    if (ka == DK_COMPLEX || kb == DK_COMPLEX) {
        bool wide = a == DT_c128 || b == DT_c128 || a == DT_f64 || b == DT_f64;
        *out = wide ? DT_c128 : DT_c64;
        return true;
    }
    if (ka <= DK_UINT || kb <= DK_UINT) {
        *out = ka <= DK_UINT ? b : a;
        return true;
    }
    return false;                       /* two different floats */
}

DType dtype_compute(DType t)
{
    return dtype_is_float(t) && dtype_info[t].bits < 32 ? DT_f32 : t;
}

DType dtype_accum(DType t)
{
    if (dtype_is_float(t))
        return dtype_compute(t);
    if (t == DT_bool || (dtype_is_int(t) && dtype_info[t].bits < 32))
        return DT_int32;
    return t;
}

size_t dtype_nbytes(DType t, size_t n)
{
    size_t bits = dtype_info[t].sbits;

    return bits % 8 ? (n * bits + 7) / 8 : n * (bits / 8);
}

/* ---- policies ---- */

const Policy policy_none = {.storage = DT_NONE, .compute = DT_NONE, .accum = DT_NONE, .rounding = DT_NONE, .quant = {DT_NONE, DT_NONE}};

static const struct { const char *name; Rounding mode; } roundings[] = {
    {"nearest", ROUND_NEAREST}, {"toward_zero", ROUND_ZERO}, {"up", ROUND_UP}, {"down", ROUND_DOWN}, {"stochastic", ROUND_STOCHASTIC},
    {"away", ROUND_AWAY}, {"rte", ROUND_NEAREST}, {"rne", ROUND_NEAREST}, {"nearest_even", ROUND_NEAREST}, {"rtz", ROUND_ZERO},
};

const char *rounding_name(Rounding r)
{
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++)
        if (roundings[i].mode == r)
            return roundings[i].name;
    return "nearest";
}

bool rounding_find(const char *name, Rounding *out)
{
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++)
        if (!strcmp(roundings[i].name, name)) {
            *out = roundings[i].mode;
            return true;
        }
    return false;
}

Policy policy_over(Policy p, const Policy *q)
{
    p.storage = q->storage != DT_NONE ? q->storage : p.storage;
    p.compute = q->compute != DT_NONE ? q->compute : p.compute;
    p.accum = q->accum != DT_NONE ? q->accum : p.accum;
    p.rounding = q->rounding != DT_NONE ? q->rounding : p.rounding;
    p.denorm = q->denorm ? q->denorm : p.denorm;
    p.saturate |= q->saturate;
    p.compensated |= q->compensated;
    p.fast |= q->fast;
    p.master |= q->master;
    if (q->has_scale)
        p.has_scale = true, p.scale = q->scale;
    return p;
}

static bool policy_equal(const Policy *p, const Policy *q)
{
    return p->storage == q->storage && p->compute == q->compute && p->accum == q->accum && p->rounding == q->rounding &&
           p->denorm == q->denorm && p->saturate == q->saturate && p->compensated == q->compensated && p->fast == q->fast &&
           p->has_scale == q->has_scale && p->master == q->master && p->scale == q->scale &&
           p->quant[0] == q->quant[0] && p->quant[1] == q->quant[1] && p->training == q->training;
}

/* Policies are few: a list that is searched. */
typedef struct Interned {
    struct Interned *next;
    Policy p;
} Interned;

const Policy *policy_intern(Policy p)
{
    static Interned *all;
    Interned *i;

    if (policy_equal(&p, &policy_none))
        return NULL;
    for (i = all; i; i = i->next)
        if (policy_equal(&i->p, &p))
            return &i->p;
    i = tsr_calloc(sizeof *i);
    i->p = p;
    i->next = all;
    all = i;
    return &i->p;
}

const Policy *fast_numerics(const Policy *scope)
{
    Policy p = scope ? *scope : policy_none;

    p.fast = true;
    return policy_intern(p);
}
