/*
 * Quantised products: with numerics in force that name integers for the operands of products, each float operand is
 * its largest magnitude's share of the integer's range, rounded: q = round(x / step), step = max|x| / top.
 *
 *   for use       (q_x @ q_w) summed in int32, times step_x * step_w: the product of the integers is what runs
 *   in training   (q_x * step_x) @ (q_w * step_w) in the floats' own dtype, derivatives passing the rounding unchanged
 *                 (Bengio, Leonard and Courville 2013), so that weights learn to live on the grid
 *
 * Both give the same numbers up to the rounding of the float product.
 */
#include "ir/graph/numerics.h"

/* A chain of ops whose values are dropped together. */
typedef struct Chain { Trace *T; Vec(Tensor *) made; bool failed; } Chain;

static Tensor *op(Chain *c, OpId id, const Attr *a, Tensor *x, Tensor *y)
{
    Tensor *out[1] = {NULL};
    int n;

    if (c->failed || !op_dispatch(c->T, id, a ? a : &attr_none, (Tensor *[]){x, y}, y ? 2 : 1, out, &n)) {
        c->failed = true;
        return x;
    }
    vec_push(&c->made, out[0]);
    return out[0];
}

static Tensor *number(Chain *c, Tensor *like, double v)
{
    Tensor *t = tensor_scalar_f((DType)like->dtype, v);

    vec_push(&c->made, t);
    return t;
}

static Tensor *to(Chain *c, Tensor *x, uint8_t dtype)
{
    Attr a = attr_default();

    a.dtype = dtype;
    return x->dtype == dtype ? x : op(c, OP_convert, &a, x, NULL);
}

/* The largest value of the integer, as of its negative. */
static double top_of(uint8_t dt) { return (double)((1ll << (dtype_info[dt].bits - 1)) - 1); }

/* The step between neighbours of x's grid: 0-d, of x's dtype. */
static Tensor *step_of(Chain *c, Tensor *x, uint8_t dt)
{
    Attr all = attr_default();
    Tensor *m;

    for (int i = 0; i < x->rank; i++)
        if (x->shape[i] == 0)
            return number(c, x, 1);             /* nothing to measure */
    for (int i = 0; i < x->rank; i++)
        all.axis[all.naxes++] = (int8_t)(i - x->rank);
    m = op(c, OP_abs, NULL, x, NULL);
    if (x->rank)
        m = op(c, OP_max, &all, m, NULL);
    m = op(c, OP_maximum, NULL, m, number(c, m, 1e-12));
    return op(c, OP_div, NULL, m, number(c, m, top_of(dt)));
}

/* round(x / step), within the range: still floats. */
static Tensor *places_of(Chain *c, Tensor *x, Tensor *step, uint8_t dt)
{
    Tensor *q = op(c, OP_round, NULL, op(c, OP_div, NULL, x, step), NULL);

    q = op(c, OP_minimum, NULL, q, number(c, x, top_of(dt)));
    return op(c, OP_maximum, NULL, q, number(c, x, -top_of(dt)));
}

/* x moved onto its grid; its derivative is that of x. */
static Tensor *on_grid(Chain *c, Tensor *x, uint8_t dt)
{
    Tensor *still = op(c, OP_stop_gradient, NULL, x, NULL), *step = step_of(c, still, dt);
    Tensor *moved = op(c, OP_mul, NULL, places_of(c, still, step, dt), step);

    return op(c, OP_add, NULL, x, op(c, OP_sub, NULL, moved, still));
}

static Tensor *in_training(Chain *c, const Policy *p, OpId id, const Attr *a, Tensor *const *in)
{
    return op(c, id, a, on_grid(c, in[0], p->quant[0]), on_grid(c, in[1], p->quant[1]));
}

static Tensor *for_use(Chain *c, const Policy *p, OpId id, const Attr *a, Tensor *const *in)
{
    Tensor *q[2], *step[2], *y;
    Attr b = *a;

    for (int i = 0; i < 2; i++) {
        Tensor *x = op(c, OP_stop_gradient, NULL, in[i], NULL);
        step[i] = step_of(c, x, p->quant[i]);
        q[i] = to(c, places_of(c, x, step[i], p->quant[i]), p->quant[i]);
    }
    if (p->quant[0] != p->quant[1])                     /* they meet in the wider one, exactly */
        for (int i = 0; i < 2; i++)
            q[i] = to(c, q[i], dtype_info[p->quant[0]].bits > dtype_info[p->quant[1]].bits ? p->quant[0] : p->quant[1]);
    b.dtype = b.accum = p->accum != DT_NONE && dtype_is_int((DType)p->accum) ? p->accum : DT_int32;
    y = op(c, id, &b, q[0], q[1]);
    y = to(c, y, in[0]->dtype);
    return op(c, OP_mul, NULL, y, op(c, OP_mul, NULL, step[0], step[1]));
}

bool quantized_product(Trace *T, const Policy *p, OpId id, const Attr *a, Tensor *const *in, Tensor **out)
{
    Chain c = {.T = T};
    Tensor *wide[2], *y;
    Attr b = *a;

    for (int i = 0; i < 2; i++)                         /* steps need a float with digits to spare */
        wide[i] = dtype_info[in[i]->dtype].bits < 32 ? to(&c, in[i], DT_f32) : in[i];
    b.dtype = DT_NONE;
    y = p->training ? in_training(&c, p, id, &b, wide) : for_use(&c, p, id, &b, wide);
    y = to(&c, y, a->dtype != DT_NONE ? a->dtype : in[0]->dtype);
    *out = c.failed ? NULL : tensor_ref(y);
    for (int i = 0; i < c.made.n; i++)
        tensor_unref(c.made.at[i]);
    vec_free(&c.made);
    return !c.failed;
}
