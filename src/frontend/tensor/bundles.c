/*
 * _bundle: what stdlib/artifacts.tsr is built on: save(folder, functions, facts), open(folder), and calls of what is open.
 */
#include "frontend/tensor/bundles.h"

#include "frontend/eval/eval.h"

#include <string.h>

const BundleTools *bundle_tools;

typedef struct BundleObj { NativeInst inst; void *b; } BundleObj;

static void bundle_done(void *self)
{
    BundleObj *o = self;

    if (o->b)
        bundle_tools->close(o->b);
}

static const NativeType bundle_type = {.name = "Bundle", .free = bundle_done};

static bool have_tools(Interp *I)
{
    if (!bundle_tools)
        raise(I, EXC_RuntimeError, "this Tessera was built without a compiler, and has no bundles");
    return bundle_tools != NULL;
}

static void *opened(Interp *I, Value v)
{
    if (v.tag == V_NATIVEOBJ && ((NativeInst *)v.o)->type == &bundle_type)
        return ((BundleObj *)v.o)->b;
    raise(I, EXC_TypeError, "an open bundle is wanted, not %s", value_type_name(v));
    return NULL;
}

/* ---- saving ---- */

static Value refused(Interp *I, const DiagSink *sink)
{
    return raise(I, EXC_ValueError, "%s", sink->all.n ? sink->all.at[0]->message : "it cannot be exported");
}

static Value f_save(Interp *I, Value *a)                /* folder, functions, facts */
{
    StrBuf err = {0};
    DiagSink sink = {0};
    Exports x;
    Value v = VNONE;

    if (!have_tools(I))
        return VERR;
    if (!exports_of(I, a[1], &x, &sink))
        v = exc_pending(I) ? VERR : refused(I, &sink);
    else if (!bundle_tools->save(I, as_str(a[0])->s, &x, as_str(a[2])->s, &err))
        v = raise(I, EXC_OSError, "%s", sb_str(&err));
    exports_done(&x);
    diag_sink_done(&sink);
    sb_done(&err);
    return v;
}

/* ---- opening ---- */

static Value failed(Interp *I, int code, const char *folder, const StrBuf *err)
{
    bool missing = code == 3, damaged = code == 7;

    return raise(I, missing ? EXC_FileNotFoundError : EXC_ValueError, "%s: B%02d: %s%s", folder, code, damaged ? "hash mismatch: " : "",
                 err->n ? err->s : "");
}

static Value f_open(Interp *I, Value *a)
{
    BundleObj *o;
    StrBuf err = {0};
    void *b = NULL;
    int code;
    Value v;

    if (!have_tools(I))
        return VERR;
    code = bundle_tools->open(as_str(a[0])->s, &b, &err);
    if (code)
        v = failed(I, code, as_str(a[0])->s, &err);
    else {
        o = nativeobj_new(&bundle_type, sizeof *o);
        o->b = b;
        v = vobj(o);
    }
    sb_done(&err);
    return v;
}

static Value f_manifest(Interp *I, Value *a)
{
    void *b = opened(I, a[0]);

    return b ? str_c(bundle_tools->manifest(b)) : VERR;
}

/* ---- calling ---- */

static Value call_failed(Interp *I, int code, const StrBuf *err)
{
    const char *text = err->n ? err->s : "";

    return raise(I, code == 18 ? EXC_IndexError : code == 20 ? EXC_ZeroDivisionError : EXC_ValueError, "B%02d: %s", code, text);
}

static Value results(Tensor **out, int n)
{
    Value all = list_new(n);

    for (int i = 0; i < n; i++)
        list_push(as_list(all), tensor_value(out[i]));
    return all;
}

static Value f_call(Interp *I, Value *a)                /* bundle, function, tensors */
{
    void *b = opened(I, a[0]);
    int n = b && a[2].tag == V_LIST ? (int)as_list(a[2])->n : 0, nout = b ? bundle_tools->count(b, as_str(a[1])->s) : -1, code;
    Tensor **t;
    StrBuf err = {0};
    Value v = VERR;

    if (!b)
        return VERR;
    if (nout < 0)
        return raise(I, EXC_AttributeError, "the bundle has no function '%s'", as_str(a[1])->s);
    t = tsr_calloc(sizeof *t * (size_t)(n + nout + 1));
    for (int i = 0; i < n; i++)
        if (!(t[i] = as_list(a[2])->at[i].tag == V_TENSOR ? tensor_concrete(as_tensor(as_list(a[2])->at[i])) : NULL)) {
            tsr_free(t);
            return raise(I, EXC_TypeError, "a function of a bundle takes tensors with values; it is no part of jit, grad or vmap");
        }
    code = bundle_tools->call(b, as_str(a[1])->s, t, n, t + n, nout, &err);
    v = code ? call_failed(I, code, &err) : results(t + n, nout);
    tsr_free(t);
    sb_done(&err);
    return v;
}

const NativeDef tensor_bundle_natives[] = {
    {"_bundle", "save", f_save, "(folder: str, functions: dict, facts: str) -> None", "Make a bundle of exported functions by name; facts: members of a JSON object."},
    {"_bundle", "open", f_open, "(folder: str)", "A bundle that was made, checked and ready to be called."},
    {"_bundle", "manifest", f_manifest, "(bundle) -> str", "All that the bundle says of itself, as JSON."},
    {"_bundle", "call", f_call, "(bundle, function: str, tensors: list) -> list", "The results of a function."},
    {0},
};
