/*
 * Tensors as text.  A number gets the fewest digits that read back as the same
 * value of its dtype, in Python's layout: positional between 1e-4 and 1e16.
 * A tensor is one line when that fits, else one row a line; of more than 1000
 * elements only the first and last three along each axis are shown.
 */
#include "runtime/storage.h"

#include "ir/core/dtype_code.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 100, ELIDE = 1000, EDGE = 3, INDENT = 7 };    /* INDENT: the length of "Tensor(" */

/* Does the text of p digits read back as v in dt? */
static bool reads_back(DType dt, double v, const char *text)
{
    static const RoundOpts nearest;

    return dtype_encode(dt, strtod(text, NULL), &nearest) == dtype_encode(dt, v, &nearest);
}

/* Digits and decimal exponent to Python's repr: 0.0001, 123.0, 1e+16, 1.5e-07. */
static void put_number(const char *digits, int ndigits, int exp10, StrBuf *out)
{
    if (exp10 < -4 || exp10 >= 16) {
        sb_putc(out, digits[0]);
        if (ndigits > 1) {
            sb_putc(out, '.');
            sb_write(out, digits + 1, (size_t)ndigits - 1);
        }
        sb_printf(out, "e%c%02d", exp10 < 0 ? '-' : '+', abs(exp10));
    } else if (exp10 < 0) {
        sb_puts(out, "0.");
        sb_pad(out, '0', (size_t)(-exp10 - 1));
        sb_write(out, digits, (size_t)ndigits);
    } else if (exp10 + 1 >= ndigits) {
        sb_write(out, digits, (size_t)ndigits);
        sb_pad(out, '0', (size_t)(exp10 + 1 - ndigits));
        sb_puts(out, ".0");
    } else {
        sb_write(out, digits, (size_t)exp10 + 1);
        sb_putc(out, '.');
        sb_write(out, digits + exp10 + 1, (size_t)(ndigits - exp10 - 1));
    }
}

void elem_print(DType dt, double v, StrBuf *out)
{
    char text[40], digits[24];
    int n = 0, exp10;

    if (v != v || isinf(v)) {
        sb_puts(out, v != v ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(v))
        sb_putc(out, '-');
    v = fabs(v);
    for (int p = 0; p < 17; p++) {
        snprintf(text, sizeof text, "%.*e", p, v);
        if (reads_back(dt, v, text))
            break;
    }
    exp10 = atoi(strchr(text, 'e') + 1);
    for (const char *s = text; *s != 'e'; s++)
        if (*s != '.')
            digits[n++] = *s;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    put_number(digits, n, exp10, out);
}

static void put_complex(DType part, double re, double im, StrBuf *out)
{
    elem_print(part, re, out);
    if (!signbit(im) || im != im)
        sb_putc(out, '+');
    elem_print(part, im, out);
    sb_putc(out, 'j');
}

void tensor_print_element(const Tensor *t, int64_t at, StrBuf *out)
{
    DType dt = (DType)t->dtype;
    double re, im;

    switch (dtype_info[dt].kind) {
    case DK_BOOL:
        sb_puts(out, elem_get_i(t, at) ? "True" : "False");
        break;
    case DK_INT:
        sb_printf(out, "%" PRId64, elem_get_i(t, at));
        break;
    case DK_UINT:
        sb_printf(out, "%" PRIu64, (uint64_t)elem_get_i(t, at));
        break;
    case DK_FLOAT:
        elem_print(dt, elem_get_f(t, at), out);
        break;
    default:
        elem_get_c(t, at, &re, &im);
        put_complex(dtype_real(dt), re, im, out);
        break;
    }
}

typedef struct Printer {
    const Tensor *t;
    const Dim *shape;           /* t's own; where t has nothing but the edges of another tensor, that one's */
    bool rows, elide;           /* one row a line; only the edges */
    StrBuf *out;
} Printer;

static void put_break(Printer *p, int axis, bool last_axis)
{
    if (!p->rows || last_axis) {
        sb_puts(p->out, ", ");
        return;
    }
    sb_puts(p->out, ",\n");
    sb_pad(p->out, ' ', (size_t)(INDENT + axis + 1));
}

static void put_axis(Printer *p, int axis, int64_t at)
{
    const Tensor *t = p->t;
    bool last = axis == t->rank - 1;

    if (axis == t->rank) {
        tensor_print_element(t, at, p->out);
        return;
    }
    sb_putc(p->out, '[');
    for (int64_t i = 0, n = p->shape[axis]; i < n; i++) {
        if (i)
            put_break(p, axis, last);
        if (p->elide && n > 2 * EDGE && i == EDGE) {
            sb_puts(p->out, "...");
            i = n - EDGE - 1;
            continue;
        }
        put_axis(p, axis + 1, at + (i < EDGE ? i : i - n + t->shape[axis]) * t->stride[axis]);
    }
    sb_putc(p->out, ']');
}

static void put_shape(const Tensor *t, const Dim *shape, StrBuf *out)
{
    sb_puts(out, ", shape=(");
    for (int i = 0; i < t->rank; i++) {
        sb_puts(out, i ? ", " : "");
        dim_print(shape[i], out);
    }
    sb_printf(out, "%s), dtype=%s)", t->rank == 1 ? "," : "", dtype_info[t->dtype].name);
}

static void put_tensor(Printer *p)
{
    sb_puts(p->out, "Tensor(");
    put_axis(p, 0, p->t->offset);
    put_shape(p->t, p->shape, p->out);
}

/* Of a tensor that a GPU has: what is shown of long axes, on the host; NULL: bringing all of it is less work. */
static Tensor *edges_here(Tensor *t)
{
    int64_t size[RANK_MAX], stride[RANK_MAX], left[RANK_MAX];
    Tensor *view, *here, *edges = NULL;

    if (2 * t->rank > RANK_MAX)
        return NULL;
    for (int i = 0; i < t->rank; i++) {
        bool cut = t->shape[i] > 2 * EDGE;
        left[i] = cut ? 2 * EDGE : t->shape[i];
        size[2 * i] = cut ? 2 : 1;
        size[2 * i + 1] = cut ? EDGE : t->shape[i];
        stride[2 * i] = (t->shape[i] - EDGE) * t->stride[i];
        stride[2 * i + 1] = t->stride[i];
    }
    view = tensor_view(t, 2 * t->rank, size, stride, t->offset);
    here = tensor_here(view);
    if (here && here != view) {
        for (int64_t i = t->rank - 1, step = 1; i >= 0; step *= left[i--])
            stride[i] = step;
        edges = tensor_view(here, t->rank, left, stride, 0);
    }
    tensor_unref(view);
    tensor_unref(here);
    return edges;
}

void tensor_print(const Tensor *t, StrBuf *out)
{
    Printer p = {.t = t, .shape = t->shape, .out = out};
    size_t start = out->n;
    Tensor *here = NULL;

    if (!t->store) {                    /* a traced value: nothing to show but its type */
        sb_puts(out, "Tensor(<traced>");
        put_shape(t, t->shape, out);
        return;
    }
    p.elide = tensor_size(t) > ELIDE;
    if (t->store->away & AWAY_READ && (here = p.elide ? edges_here((Tensor *)t) : tensor_here((Tensor *)t)))
        p.t = here;
    put_tensor(&p);
    if (out->n - start > WIDTH && t->rank >= 2) {
        out->n = start;
        p.rows = true;
        put_tensor(&p);
    }
    tensor_unref(here);
}
