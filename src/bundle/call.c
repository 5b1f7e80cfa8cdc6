/*
 * One call: the caller's memory as tensors, the form that serves their sizes,
 * the graph, results and state.
 *
 * Arguments are looked at where they lie; other strides than row by row are the
 * business of whoever reads them.  What a call leaves behind never refers to
 * the caller's memory.
 */
#include "bundle/bundle.h"

#include "base/alloc.h"
#include "ir/graph/level.h"
#include "ir/graph/sizes.h"
#include "runtime/cuda.h"
#include "runtime/mesh.h"
#include "runtime/storage.h"

#include <string.h>

enum { FEW = 16, FOREVER = 1 << 30, FEW_BYTES = 1 << 16 };

int bundle_refuse(StrBuf *err, int status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    sb_vprintf(err, fmt, ap);
    va_end(ap);
    return status;
}

int bundle_fault(int status, StrBuf *err)
{
    FaultKind kind = FAULT_RUN;

    fault_take(err, &kind);
    return kind == FAULT_MEMORY ? TSR_MEMORY : status;
}

/* ---- the caller's arrays ---- */

/* Do places and sizes make sense: no negative size, nothing that overflows? Sets whether it lies row by row. */
static bool sound(const tsr_array *a, int64_t bytes, bool *rows)
{
    int64_t n, last, far = 0, step = 1;

    *rows = true;
    for (int i = a->rank - 1; i >= 0; i--) {
        if (a->shape[i] < 0)
            return false;
        *rows &= a->shape[i] <= 1 || a->stride[i] == step;
        if (__builtin_mul_overflow(step, a->shape[i] ? a->shape[i] : 1, &step) || a->stride[i] == INT64_MIN ||
            __builtin_mul_overflow(a->stride[i] < 0 ? -a->stride[i] : a->stride[i], a->shape[i] ? a->shape[i] - 1 : 0, &last) ||
            __builtin_add_overflow(far, last, &far) || far > INT64_MAX / 2 / bytes)
            return false;
    }
    return shape_elements(a->rank, a->shape, &n);
}

static int check_array(const tsr_array *a, const char *what, bool *rows, StrBuf *err)
{
    int64_t n = 0;

    if (a->dtype < 0 || a->dtype >= DT_COUNT)
        return bundle_refuse(err, TSR_DTYPE, "%s: %d is not a dtype", what, a->dtype);
    if (a->rank < 0 || a->rank > TSR_AXES)
        return bundle_refuse(err, TSR_RANK, "%s: %d axes; there are at most %d", what, a->rank, TSR_AXES);
    if (!sound(a, dtype_info[a->dtype].sbits, rows))
        return bundle_refuse(err, TSR_ARGUMENT, "%s: its sizes or strides are negative or too large", what);
    if (!a->data && shape_elements(a->rank, a->shape, &n) && n)
        return bundle_refuse(err, TSR_ARGUMENT, "%s: data is NULL", what);
    if (!*rows && dtype_info[a->dtype].sbits < 8)
        return bundle_refuse(err, TSR_ARGUMENT, "%s: packed elements lie row by row", what);
    return TSR_OK;
}

static void fill(Borrowed *b, const tsr_array *a, void *data)
{
    static char nothing[64];
    Tensor base = {.refs = 1, .dtype = (uint8_t)a->dtype, .shape = base.dims_, .stride = base.strides_, .store = &b->store};

    b->store = (Storage){.refs = FOREVER, .data = data ? data : nothing};
    b->t = tensor_view(&base, a->rank, a->shape, a->stride, 0);
}

static bool aligned(const tsr_array *a)
{
    int bits = dtype_info[a->dtype].sbits;

    return bits <= 8 || !((uintptr_t)a->data % (uintptr_t)(bits > 64 ? 8 : bits / 8));
}

/* An element at a time, from where they need not be aligned. */
static Tensor *gathered(const tsr_array *a)
{
    Tensor *t = tensor_new((DType)a->dtype, a->rank, a->shape);
    int64_t n = t ? tensor_size(t) : 0, bytes = dtype_info[a->dtype].sbits / 8;
    char *to = t ? storage_data(t->store) : NULL;

    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = 0;
        for (int k = a->rank - 1; k >= 0; k--) {
            at += rest % a->shape[k] * a->stride[k];
            rest /= a->shape[k];
        }
        memcpy(to + i * bytes, (const char *)a->data + at * bytes, (size_t)bytes);
    }
    return t;
}

/* Bytes of bools are 0 and 1 in here; C programs may have others. */
static bool odd_bools(const Tensor *t)
{
    const uint8_t *p = t->dtype == DT_bool && t->contiguous ? tensor_read(t) : NULL;

    for (int64_t i = 0, n = p ? tensor_size(t) : 0; i < n; i++)
        if (p[i] > 1)
            return true;
    return t->dtype == DT_bool && !t->contiguous;
}

static Tensor *plain_bools(Tensor *t)
{
    Tensor *c = tensor_copy(t);
    uint8_t *p = c ? tensor_data(c) : NULL;

    for (int64_t i = 0, n = p ? tensor_size(c) : 0; i < n; i++)
        p[i] = p[i] != 0;
    tensor_unref(t);
    return c;
}

int bundle_borrow(const tsr_array *a, const char *what, Borrowed *out, StrBuf *err)
{
    bool rows;
    int bad = check_array(a, what, &rows, err);

    if (bad)
        return bad;
    if (aligned(a))
        fill(out, a, a->data);
    else
        out->t = gathered(a);
    if (out->t && odd_bools(out->t))
        out->t = plain_bools(out->t);
    return out->t ? TSR_OK : bundle_refuse(err, TSR_MEMORY, "%s: not enough memory", what);
}

/* Why the array is not for the tensor, which messages call `what`; TSR_OK: it is. */
static int check_result(const Tensor *t, const tsr_array *out, const char *what, StrBuf *err)
{
    bool rows;
    int bad = check_array(out, what, &rows, err);

    if (bad)
        return bad;
    if (out->dtype != t->dtype)
        return bundle_refuse(err, TSR_RESULT, "%s is %s, the array for it %s", what, dtype_info[t->dtype].name, dtype_info[out->dtype].name);
    if (out->rank != t->rank)
        return bundle_refuse(err, TSR_RESULT, "%s has %d axes, the array for it %d", what, t->rank, out->rank);
    for (int i = 0; i < t->rank; i++) {
        if (out->shape[i] != t->shape[i])
            return bundle_refuse(err, TSR_RESULT, "%s has size %lld at axis %d, the array for it %lld", what, (long long)t->shape[i], i,
                          (long long)out->shape[i]);
        if (out->shape[i] > 1 && !out->stride[i])
            return bundle_refuse(err, TSR_RESULT, "%s: the array for it has stride 0 at axis %d, so that elements lie on each other", what, i);
    }
    return aligned(out) ? TSR_OK : bundle_refuse(err, TSR_RESULT, "%s: the array for it is not aligned to its elements", what);
}

/* Can *t be given? Where the caller brings no memory it becomes memory that nobody else has. */
static int prepare(Tensor **t, const char *what, const tsr_array *out, StrBuf *err)
{
    bool packed = dtype_info[(*t)->dtype].sbits < 8;
    int bad = out->data ? check_result(*t, out, what, err) : TSR_OK;
    Tensor *c;

    if (bad || (out->data && !packed) || ((*t)->contiguous && (*t)->refs == 1 && (*t)->store->refs == 1))
        return bad;
    if (!(c = tensor_copy(*t)))
        return bundle_refuse(err, TSR_MEMORY, "%s: not enough memory", what);
    tensor_unref(*t);
    *t = c;
    return TSR_OK;
}

/* Rows that are on a GPU go to the caller's memory as they are. */
static bool from_device(Tensor *to, const Tensor *t)
{
    return t->store->away && t->contiguous && to->contiguous &&
           storage_copy_far(to->store, 0, t->store, (size_t)t->offset * (dtype_info[t->dtype].sbits / 8), tensor_nbytes(t));
}

/* Takes t, which is prepared. */
static void deliver(Tensor *t, tsr_array *out)
{
    Borrowed to = {0};

    if (!out->data) {
        *out = tsr_rows((tsr_dtype)t->dtype, tensor_data(t), t->rank, t->shape);
        out->owner = t;
        return;
    }
    if (dtype_info[t->dtype].sbits < 8) {
        memcpy(out->data, storage_read(t->store), tensor_nbytes(t));
    } else {
        fill(&to, out, out->data);
        if (!from_device(to.t, t))
            tensor_assign(to.t, t);
        tensor_unref(to.t);
    }
    tensor_unref(t);
}

int bundle_give(Tensor *t, const char *what, tsr_array *out, StrBuf *err)
{
    int bad = prepare(&t, what, out, err);

    if (bad)
        tensor_unref(t);
    else
        deliver(t, out);
    return bad;
}

/* ---- which form ---- */

/* A parameter's axis in the words of the signature: "x: axis 1 has size 5, expected 784". */
static int misfit(StrBuf *err, const char *name, int axis, Dim want, int64_t expected, int64_t have)
{
    bundle_refuse(err, TSR_SIZE, "%s: axis %d has size %lld, expected ", name, axis, (long long)have);
    dim_print(want, err);
    if (!dim_is_const(want))
        sb_printf(err, " = %lld", (long long)expected);
    return TSR_SIZE;
}

/* Sizes against the types of one form's parameters; variables are those met so far. */
static int check_sizes(const struct tsr_function *f, const Form *m, Tensor *const *x, StrBuf *err)
{
    enum { VARS = 64 };
    Dim var[VARS];
    int64_t size[VARS], v;
    int n = 0;

    for (int bind = 1; bind >= 0; bind--)
        for (int i = 0; i < f->input.n; i++) {
            const TType *y = &m->graph->params.at[m->ncaptures + 1 + i]->type[0];
            for (int k = 0; k < y->rank; k++) {
                bool known = dim_is_const(y->shape[k]) ? (v = y->shape[k], true) : dim_eval(y->shape[k], var, size, n, &v);
                if (bind && !known && dim_is_var(y->shape[k]) && n < VARS) {
                    var[n] = y->shape[k];
                    size[n++] = x[i]->shape[k];
                } else if (!bind && known && v != x[i]->shape[k])
                    return misfit(err, f->input.at[i], k, y->shape[k], v, x[i]->shape[k]);
            }
        }
    return TSR_OK;
}

/* No form serves these sizes: why? */
static int unserved(const struct tsr_function *f, Tensor *const *x, StrBuf *err)
{
    int bad = check_sizes(f, &f->form.at[0], x, err);

    if (bad)
        return bad;
    sb_printf(err, "%s was not built for these sizes, but for", f->name);
    for (int i = 0; i < f->form.n; i++) {
        sb_puts(err, i ? ", or" : "");
        graph_print_conds(f->form.at[i].graph, err);
    }
    return TSR_GUARD;
}

static int check_kind(const struct tsr_function *f, int i, const TType *want, const Tensor *t, StrBuf *err)
{
    if (t->dtype != want->dtype)
        return bundle_refuse(err, TSR_DTYPE, "%s is %s, expected %s", f->input.at[i], dtype_info[t->dtype].name, dtype_info[want->dtype].name);
    if (t->rank != want->rank)
        return bundle_refuse(err, TSR_RANK, "%s has %d axes, expected %d", f->input.at[i], t->rank, want->rank);
    return TSR_OK;
}

/* ---- running ---- */

typedef struct Call {
    struct tsr_function *f;
    const Form *form;
    int nin;
    Borrowed *in;
    Tensor **x;                 /* the graph's operands: captures, key, inputs. Borrowed from their owners, the key apart */
    Tensor **y;                 /* its results; references */
    int ny;
    Tensor *key;
} Call;

static int status_of(OpError e)
{
    switch (e) {
    case OPERR_SHAPE: return TSR_SIZE;
    case OPERR_DTYPE: return TSR_DTYPE;
    case OPERR_INDEX: return TSR_INDEX;
    case OPERR_MEMORY: return TSR_MEMORY;
    case OPERR_ZERODIV: return TSR_ZERO;
    case OPERR_NUMERIC: return TSR_NUMERIC;
    case OPERR_DEVICE: return TSR_GPU;
    default: return TSR_VALUE;
    }
}

/* To the GPU; few bytes, which the host may want to look at, when a kernel asks for them. */
static bool send(Tensor **t, int device)
{
    Tensor *copy;

    if (tensor_nbytes(*t) > FEW_BYTES)
        return tensor_on(t, device);
    if (!(copy = tensor_copy(*t)))
        return false;
    storage_place(copy->store, (uint32_t)device);
    tensor_unref(*t);
    *t = copy;
    return true;
}

static int borrow_all(Call *c, const tsr_array *in, StrBuf *err)
{
    const Form *first = &c->f->form.at[0];

    for (int i = 0; i < c->nin; i++) {
        const TType *want = &first->graph->params.at[first->ncaptures + 1 + i]->type[0];
        int bad = bundle_borrow(&in[i], c->f->input.at[i], &c->in[i], err);
        if (bad || (bad = check_kind(c->f, i, want, c->in[i].t, err)))
            return bad;
        if (c->f->bundle->device && !send(&c->in[i].t, c->f->bundle->device))
            return fault_kept ? bundle_fault(TSR_GPU, err) : bundle_refuse(err, TSR_MEMORY, "%s: not enough memory", c->f->input.at[i]);
        c->in[i].t->weak = want->weak;
        c->in[i].t->policy = want->policy;
    }
    return TSR_OK;
}

static int choose_form(Call *c, StrBuf *err)
{
    Tensor *few[FEW], **x = c->nin <= FEW ? few : tsr_alloc(sizeof *x * (size_t)c->nin);
    int bad;

    for (int k = 0; k < c->f->form.n; k++) {
        const Form *m = &c->f->form.at[k];
        for (int i = 0; i < m->ncaptures; i++)
            c->x[i] = c->f->bundle->weight.at[m->capture[i]].t;
        c->x[m->ncaptures] = c->key;
        for (int i = 0; i < c->nin; i++)
            c->x[m->ncaptures + 1 + i] = c->in[i].t;
        if (graph_takes(m->graph, c->x)) {
            c->form = m;
            if (x != few)
                tsr_free(x);
            return TSR_OK;
        }
    }
    for (int i = 0; i < c->nin; i++)
        x[i] = c->in[i].t;
    bad = unserved(c->f, x, err);
    if (x != few)
        tsr_free(x);
    return bad;
}

/* Does it lie in memory that is only lent? */
static bool is_borrowed(const Call *c, const Tensor *t)
{
    for (int i = 0; i < c->nin; i++)
        if (t->store == &c->in[i].store)
            return true;
    return false;
}

/* Results that look at the caller's memory become copies. */
static bool own_results(Call *c)
{
    for (int i = 0; i < c->ny; i++)
        if (is_borrowed(c, c->y[i])) {
            Tensor *t = tensor_copy(c->y[i]);
            if (!t)
                return false;
            tensor_unref(c->y[i]);
            c->y[i] = t;
        }
    return true;
}

static int run_here(Call *c, StrBuf *err)
{
    Trace *T = &c->f->bundle->T;
    uint64_t draws = T->draws;

    T->host = err;
    if (c->form->random) {
        tensor_unref(c->key);
        if (!(c->key = trace_key(T)))
            return bundle_refuse(err, TSR_MEMORY, "not enough memory");
        c->x[c->form->ncaptures] = c->key;
    }
    if (graph_apply(T, c->form->graph, c->x, c->form->ncaptures + 1 + c->nin, c->y, &c->ny) && own_results(c))
        return TSR_OK;
    T->draws = draws;
    if (T->error == OPERR_HOST)                             /* a launch has said why */
        return TSR_MEMORY;
    if (c->ny)
        return bundle_refuse(err, TSR_MEMORY, "not enough memory for the results");
    return bundle_refuse(err, status_of(T->error), "%s: %s", c->f->name, sb_str(&T->message));
}

/* On the bundle's device, whose faults show before a result is given. */
static int run(Call *c, StrBuf *err)
{
    int was = device_enter(c->f->bundle->device), bad = run_here(c, err);

    device_enter(was);
    return bad || !c->f->bundle->device ? bad : bundle_wait(c->f->bundle, err);
}

/* All results or none. */
static int give_all(Call *c, tsr_array *out, StrBuf *err)
{
    for (int i = 0; i < c->f->noutputs; i++) {
        StrBuf why = {0};
        int bad = prepare(&c->y[i], "", &out[i], &why);
        if (bad) {
            sb_printf(err, "result %d%s", i + 1, sb_str(&why));
            sb_done(&why);
            return bad;
        }
    }
    for (int i = 0; i < c->f->noutputs; i++) {
        deliver(c->y[i], &out[i]);
        c->y[i] = NULL;
    }
    return TSR_OK;
}

static void store_all(Call *c)
{
    for (int i = 0; i < c->form->nstores; i++) {
        Weight *w = &c->f->bundle->weight.at[c->form->store[i]];
        Tensor *t = c->y[c->f->noutputs + i];
        t = t->refs > 1 ? tensor_view(t, t->rank, t->shape, t->stride, t->offset) : tensor_ref(t);
        t->weak = w->t->weak;
        t->policy = w->t->policy;
        tensor_unref(w->t);
        w->t = t;
    }
}

static int most_operands(const struct tsr_function *f)
{
    int most = 0;

    for (int k = 0; k < f->form.n; k++)
        most = f->form.at[k].graph->params.n > most ? f->form.at[k].graph->params.n : most;
    return most;
}

static int most_results(const struct tsr_function *f)
{
    int most = 0;

    for (int k = 0; k < f->form.n; k++)
        most = f->form.at[k].graph->results.n > most ? f->form.at[k].graph->results.n : most;
    return most;
}

int bundle_call(struct tsr_function *f, const tsr_array *in, int nin, tsr_array *out, int nout, StrBuf *err)
{
    Borrowed few_in[FEW];
    Tensor *few_x[2 * FEW], *few_y[FEW];
    int most_x = most_operands(f), most_y = most_results(f), bad;
    Call c = {.f = f, .nin = nin, .in = few_in, .x = few_x, .y = few_y};

    if (nin != f->input.n || nout != f->noutputs)
        return bundle_refuse(err, TSR_COUNT, "%s takes %d arrays and gives %d; the call has %d and %d", f->name, f->input.n, f->noutputs, nin, nout);
    if (!f->bundle->device && quick_call(f, in, nin, out))
        return TSR_OK;
    c.in = nin <= FEW ? few_in : tsr_alloc(sizeof *c.in * (size_t)nin);
    c.x = most_x <= 2 * FEW ? few_x : tsr_alloc(sizeof *c.x * (size_t)most_x);
    c.y = most_y <= FEW ? few_y : tsr_alloc(sizeof *c.y * (size_t)most_y);
    memset(c.in, 0, sizeof *c.in * (size_t)nin);
    memset(c.y, 0, sizeof *c.y * (size_t)most_y);
    c.key = trace_no_key();
    bad = c.key ? borrow_all(&c, in, err) : bundle_refuse(err, TSR_MEMORY, "not enough memory");
    if (!bad)
        bad = choose_form(&c, err);
    if (!bad)
        bad = run(&c, err);
    if (!bad)
        bad = give_all(&c, out, err);
    if (!bad) {
        store_all(&c);
        if (!f->bundle->device)
            quick_note(f, c.x);
    }
    tensors_unref(c.y, c.ny);
    for (int i = 0; i < nin; i++)
        tensor_unref(c.in[i].t);
    tensor_unref(c.key);
    if (c.in != few_in)
        tsr_free(c.in);
    if (c.x != few_x)
        tsr_free(c.x);
    if (c.y != few_y)
        tsr_free(c.y);
    return bad;
}
