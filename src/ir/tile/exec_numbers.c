/*
 * Where NaN or infinity first appears: a result that is not finite although
 * everything that it was computed from is.  What is loaded, and what a program
 * writes as a constant, is as it is.
 */
#include "ir/tile/exec_impl.h"

#include <math.h>

static bool computes(const TileNode *n)
{
    return n->nout == 1 && n->type[0].kind == TILE_VALUE && dtype_is_float((DType)n->type[0].dtype) &&
           (n->op == TOP_map || n->op == TOP_dot || n->op == TOP_reduce || n->op == TOP_lane_reduce || n->op == TOP_total);
}

/* Elements that a value has, those of all lanes included. */
static int64_t count_of(const Exec *e, TileRef v) { return tile_elements(tile_type(v)) * (exec_varies(e, v) ? e->k->lanes : 1); }

static double element_of(Exec *e, TileRef v, int64_t i)
{
    DType dt = (DType)tile_type(v)->dtype;
    double x;

    raw_convert(DT_f64, &x, dt, exec_slot(e, v)->data + (size_t)i * raw_size(dt), 1, NULL, 0);
    return x;
}

static bool is_float_value(TileRef v) { return tile_type(v)->kind == TILE_VALUE && dtype_is_float((DType)tile_type(v)->dtype); }

/* Is what went into element i of a result of n elements finite? A trapped input is told by *x, if it is one element. */
static bool inputs_finite(Exec *e, const TileNode *n, int64_t i, int64_t count, double *x, bool *one)
{
    *one = false;
    for (int k = 0; k < n->nin; k++) {
        int64_t m = is_float_value(n->in[k]) ? count_of(e, n->in[k]) : 0;
        bool own = n->op == TOP_map && (m == count || m == 1);
        if (tile_type(n->in[k])->kind == TILE_TREE)
            return true;                                    /* what was pushed was looked at */
        for (int64_t j = own ? m == 1 ? 0 : i : 0; j < (own ? (m == 1 ? 0 : i) + 1 : m); j++)
            if (!isfinite(element_of(e, n->in[k], j)))
                return false;
        if (own && !*one) {
            *x = element_of(e, n->in[k], m == 1 ? 0 : i);
            *one = true;
        }
    }
    return true;
}

bool exec_finite(Exec *e, const TileNode *n)
{
    TileRef y = {(TileNode *)n, 0};
    int64_t count = computes(n) ? count_of(e, y) : 0, each = computes(n) ? tile_elements(&n->type[0]) : 1;
    Place p = n->span.hi ? source_place(n->span.lo) : (Place){0};
    bool has_op = n->op == TOP_map || n->op == TOP_reduce || n->op == TOP_lane_reduce;
    const char *name = has_op ? op_info[n->attr->op].name : n->op == TOP_dot ? "dot" : "sum";

    for (int64_t i = 0; i < count; i++) {
        double v = element_of(e, y, i), x = 0;
        bool one, lane = count == each || e->mask[i / each];
        if (!lane || isfinite(v) || !inputs_finite(e, n, i, count, &x, &one))
            continue;
        sb_printf(e->err, "%s produced by %s", isnan(v) ? "NaN" : "infinity", name);
        if (p.src)
            sb_printf(e->err, " at %s:%u", p.src->path, p.line);
        if (one)
            sb_printf(e->err, ". Input to %s: %.9g", name, x);
        return false;
    }
    return true;
}
