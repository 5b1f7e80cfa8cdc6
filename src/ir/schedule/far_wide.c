/*
 * Products for warpgroups (sm_90): which of them are, under which schedule, and what is done with others before.
 *
 * A schedule is found by what it takes: rounds over the chip, each of so many steps of the units, and the rest.  Products of few rows wait
 * for memory: those are turned, so that the many rows of the other operand go 64 a block, and clusters of blocks divide the steps until all
 * processors bring something.  Operands of bytes and of tf32 have to lie by their steps; where they do not, and the product is large enough, a
 * copy does.
 */
#include "ir/schedule/far_product.h"

#include "runtime/gpu_device.h"
#include "runtime/kernel_util.h"
#include "runtime/mesh.h"

#include <stdlib.h>

enum { PLACES = 132 };          /* processors of the chip that the figures are of */
enum { WORTH_A_COPY = 128 };    /* so many rows, or columns, that read an operand */

/* ---- schedules ---- */

/*
 * Blocks, the warps that multiply one and how many sets of them take turns; stages, 0: as many as fit;
 * bytes: 128 times so many of each row's steps a round; cluster: blocks that bring an operand together. rate: of the units' limit, in
 * hundredths, that the loop reaches; rest: what is not under it, in steps.  As measured on an H200 (bench/gpu/results).
 */
typedef struct Wide { int16_t rows, columns; int8_t warps, sets, stages, bytes, cluster; int16_t rate, rest; } Wide;

static const Wide wides[] = {
    {128, 256, 8, 1, 3, 1, 2, 100, 160}, {256, 128, 8, 1, 3, 1, 1, 99, 160}, {128, 192, 8, 1, 4, 1, 1, 96, 120}, {128, 128, 4, 2, 0, 1, 1, 95, 50},
    {128, 192, 4, 2, 0, 1, 1, 100, 60},
    {128, 128, 8, 1, 0, 1, 1, 90, 160}, {128, 64, 4, 1, 0, 1, 1, 58, 100}, {64, 128, 4, 1, 0, 1, 1, 60, 100}, {64, 64, 4, 1, 0, 2, 1, 38, 100},
};

/* Of few columns. */
static const Wide thins[] = {
    {64, 16, 4, 1, 0, 2, 1, 44, 100}, {64, 32, 4, 1, 0, 2, 1, 44, 100}, {64, 48, 4, 1, 0, 2, 1, 44, 100}, {64, 64, 4, 1, 0, 2, 1, 44, 100},
};
enum { THIN = 64, GIVEN_MOST = 64 << 10 };       /* the most that those have; bytes of sums that blocks of a cluster hand on, at most */

/* How a product is divided: a schedule's blocks, the steps among kernels' groups that another one joins, or among blocks of a cluster. */
typedef struct Way { const Wide *w; int parts, split; } Way;

/* Rows at no multiple of 128 bytes take twice the requests of each box. */
static bool is_askew(const ProductKind *p, const int64_t *sizes)
{
    int64_t bytes = (int64_t)raw_size((DType)p->x), row[2] = {p->turned[0] ? sizes[2] : sizes[4], p->turned[1] ? sizes[4] : sizes[3]};

    return row[0] * bytes % 128 || row[1] * bytes % 128;
}

/* Clusters of so many blocks that the chip holds: those of four and eight leave some processors out. */
static const struct { int split, clusters; } splits[] = {{1, PLACES}, {2, PLACES / 2}, {4, 32}, {8, 15}};
enum { SPLITS = sizeof splits / sizeof *splits };

/* Can blocks of a cluster hand on their sums? Where sets take turns they cannot. */
static bool splits_fit(const Wide *w, int split) { return split == 1 || (w->sets == 1 && (split - 1) * 4 * w->rows * w->columns <= GIVEN_MOST); }

static int64_t tiles_of(const Wide *w, const int64_t *sizes)
{
    return sizes[0] * sizes[1] * ((sizes[2] + w->rows - 1) / w->rows) * ((sizes[3] + w->columns - 1) / w->columns);
}

/*
 * Steps of a multiplier of the chip's that so many rounds over the chip take, of so many steps each, whose elements come from the L2 cache. Where
 * sets take turns, one computes what follows while the other one multiplies.
 */
static double rounds_cost(const ProductKind *p, const Wide *w, int64_t rounds, double steps, bool askew)
{
    enum { BRING = 68, FOLLOW = 36 };   /* for an element of two bytes that each processor brings; for the cost of what follows */
    double follow = FOLLOW * p->formula, loop = steps * 100 / w->rate, each = w->sets == 1 ? loop + follow : loop > follow ? loop : follow;
    double multiplying = (double)w->rows * w->columns * (each + w->rest);
    double bringing = (double)(w->rows + w->columns) * (askew ? 2 * BRING : BRING) * steps;

    return (double)rounds * (multiplying > bringing ? multiplying : bringing);
}

/* Of a product in so many parts, which are added up then: that has a start, and goes over memory. */
static double cost_of(const ProductKind *p, const Wide *w, const int64_t *sizes, int parts, bool askew)
{
    enum { JOIN = 24 << 20, JOIN_ELEMENT = 6 };
    double join = parts > 1 ? JOIN + (double)JOIN_ELEMENT * parts * sizes[2] * sizes[3] : 0;

    return rounds_cost(p, w, (tiles_of(w, sizes) * parts + PLACES - 1) / PLACES, (double)(sizes[4] + parts - 1) / parts, askew) + join;
}

/* Of one whose steps clusters divide: sums go from block to block. */
static double cost_of_split(const ProductKind *p, const Wide *w, const int64_t *sizes, int i, bool askew)
{
    enum { JOIN = 5 << 20, JOIN_SUM = 256 };
    int clusters = splits[i].clusters, others = splits[i].split - 1;

    return rounds_cost(p, w, (tiles_of(w, sizes) + clusters - 1) / clusters, (double)sizes[4] / splits[i].split, askew) + JOIN +
           (double)JOIN_SUM * others * w->rows * w->columns;
}

/* Sums of bytes that are added in f32 on the way take twice the registers. */
static bool promotes(const ProductKind *p) { return raw_size((DType)p->x) == 1 && p->sum == DT_f32 && !p->fast; }

/* Two sets of 192 columns leave few registers for what follows the sums. */
static bool is_fit(const ProductKind *p, const Wide *w)
{
    enum { PROMOTED = 128 * 16, SUMS = 128 * 32 };
    int each = w->rows * w->columns / w->warps;

    return (p->turned[1] || w->columns % 64 == 0) && each <= (promotes(p) ? PROMOTED : p->fast ? INT32_MAX : SUMS);
}

static void take_if_less(Way *best, double *least, Way way, double cost)
{
    if (best->w && cost >= *least)
        return;
    *best = way;
    *least = cost;
}

/* The one whose rounds over the chip end first, in up to `most` parts. Sets take turns where all groups have as many rounds. */
static Way find_wide(const ProductKind *p, const int64_t *sizes, int most)
{
    bool askew = is_askew(p, sizes);
    Way best = {NULL, 1, 1};
    double least = 0;

    for (size_t i = 0; i < sizeof wides / sizeof *wides; i++) {
        const Wide *w = &wides[i];
        for (int n = 1; n <= (w->sets > 1 ? 1 : most) && is_fit(p, w); n++)
            take_if_less(&best, &least, (Way){w, n, 1}, cost_of(p, w, sizes, n, askew));
        for (int k = 1; k < SPLITS && is_fit(p, w); k++)
            if (splits_fit(w, splits[k].split))
                take_if_less(&best, &least, (Way){w, 1, splits[k].split}, cost_of_split(p, w, sizes, k, askew));
    }
    return best;
}

/*
 * Memory limits it: so that all processors bring something, and as long. What joins their sums takes as long as so many steps. An operand of the
 * columns that lies by them is taken 64 at a time.
 */
static Way find_thin(const ProductKind *p, const int64_t *sizes)
{
    enum { JOIN = 256 };
    const Wide *w = &thins[(p->turned[1] ? sizes[3] - 1 : THIN - 1) / thins->columns];
    Way best = {NULL, 1, 1};
    double least = 0;

    for (int k = 0; k < SPLITS; k++) {
        int clusters = splits[k].clusters, split = splits[k].split;
        double steps = (double)sizes[4] / split + (k ? JOIN : 0);
        if (splits_fit(w, split))
            take_if_less(&best, &least, (Way){w, 1, split}, (double)((tiles_of(w, sizes) + clusters - 1) / clusters) * steps);
    }
    return best;
}

/* Is it worth it, and do blocks come in pairs down the rows, but for the last one of many? */
static bool clusters_share(const ProductKind *p, const Wide *w, const int64_t *sizes)
{
    enum { MANY = 16, LARGE = 128 * 192 };
    int64_t down = (sizes[2] + w->rows - 1) / w->rows;

    return (w->cluster > 1 || (w->rows * w->columns >= LARGE && w->sets == 1 && is_askew(p, sizes))) && (down % 2 == 0 || down >= MANY);
}

int product_choose_wide(ProductKind *p, const int64_t *sizes, int most)
{
    bool thin = sizes[3] <= THIN && sizes[0] * sizes[1] == 1;
    Way way = thin ? find_thin(p, sizes) : find_wide(p, sizes, most);
    const Wide *w = way.w;
    int size = (int)raw_size((DType)p->x);

    p->block[0] = w->rows, p->block[1] = w->columns, p->block[2] = w->bytes * 128 / size;
    p->warps = w->warps, p->stages = size == 2 ? w->stages : 0, p->sets = w->sets;
    p->split = (int8_t)way.split;
    p->cluster = clusters_share(p, w, sizes) ? 2 : 1;
    return way.parts;
}

/* ---- operands ---- */

/* Are the units of a device warpgroups? Bundles have no kernels for those. */
static bool has_warpgroups(int device)
{
    const char *way = getenv("TESSERA_TMA");
    int chip = far_chip(device);

    return (!way || *way != '0') && chip >= 90 && chip < 100 && far_made_for < 0;
}

bool product_is_copied(const Tensor *t, bool turned, bool along_steps)
{
    int bytes = dtype_info[t->dtype].sbits / 8;
    bool fits = t->offset * bytes % 16 == 0 && (bytes == 2 || along_steps);

    for (int i = 0; i < t->rank; i++) {
        bool inner = i == t->rank - 1 - turned;
        fits = fits && (t->shape[i] == 1 || (inner ? t->stride[i] == 1 : t->stride[i] >= 0 && t->stride[i] * bytes % 16 == 0));
    }
    return fits;
}

bool product_is_wide(int device, Tensor *const *t, const ProductKind *p, const int64_t *sizes)
{
    return p->units && sizes[4] && has_warpgroups(device) && product_is_copied(t[0], p->turned[0], !p->turned[0]) &&
           product_is_copied(t[1], p->turned[1], p->turned[1]);
}

static bool repeats(const Tensor *x)
{
    for (int i = 0; i < x->rank; i++)
        if (x->stride[i] == 0 && x->shape[i] > 1)
            return true;
    return false;
}

int product_rounds(Tensor *const *x, const Attr *a)
{
    enum { WHOLE = 4 };         /* elements of 16 bytes */
    int which = 0;

    if (x[0]->rank < 2 || x[1]->rank < 2 || x[0]->rank > 3 || x[1]->rank > 3 || (a->accum != DT_NONE && a->accum != DT_f32) ||
        !has_warpgroups(device_of_operands(x, 2)))
        return 0;
    for (int i = 0; i < 2; i++) {
        const Tensor *t = x[i];
        int r = t->rank, other = x[!i]->rank - 1 - i;
        int64_t steps = t->shape[r - 1 - i];
        bool turned = t->stride[r - 1] != 1 && t->stride[r - 2] == 1;
        if ((t->dtype != DT_f32 && t->dtype != DT_tf32) || !steps)
            return 0;
        if (turned == (i == 1) && !repeats(t) && product_is_copied(t, turned, true))
            which |= 1 << i;
        else if (steps % WHOLE || x[!i]->shape[other] < WORTH_A_COPY || (t->dtype == DT_tf32 && repeats(t)))
            return 0;
    }
    return which;
}

/* ---- other ways ---- */

/* Are there so few rows, of one batch, that they are better columns? */
static bool has_few_rows(const int64_t *sizes) { return sizes[0] * sizes[1] == 1 && sizes[2] <= THIN && sizes[3] >= 2 * THIN; }

static bool is_thin(int device, Tensor *const *t, const ProductKind *p, const int64_t *sizes)
{
    return has_few_rows(sizes) && product_is_wide(device, t, p, sizes);
}

/* A matrix's view with its axes exchanged; rows: of all batches that are rows. */
static Tensor *turned_view(Tensor *t, int64_t rows)
{
    int r = t->rank;
    Dim shape[2] = {t->shape[r - 1], rows};
    int64_t stride[2] = {t->stride[r - 1], rows > 1 ? t->stride[r - 2] : t->shape[r - 1]};

    return tensor_view(t, 2, shape, stride, t->offset);
}

/* The few rows as the columns of what is turned. */
static int turn(int device, Tensor *const *t, int64_t rows, DType accum, int slack, Span where)
{
    Tensor *v[3] = {turned_view(t[1], t[1]->shape[t[1]->rank - 2]), turned_view(t[0], rows), turned_view(t[2], rows)};
    int done = v[0] && v[1] && v[2] ? far_product(device, v[0], v[1], v[2], accum, slack, where) : -1;

    for (int i = 0; i < 3; i++)
        tensor_unref(v[i]);
    return done;
}

/* The last two axes exchanged. */
static Tensor *exchanged(Tensor *t)
{
    int r = t->rank;
    Dim shape[RANK_MAX];
    int64_t stride[RANK_MAX];

    for (int i = 0; i < r; i++) {
        int from = i < r - 2 ? i : 2 * r - 3 - i;
        shape[i] = t->shape[from];
        stride[i] = t->stride[from];
    }
    return tensor_view(t, r, shape, stride, t->offset);
}

/* A copy of an operand whose steps lie side by side. NULL: there is no memory. */
static Tensor *by_steps(Tensor *t, int operand)
{
    Tensor *v = operand ? exchanged(t) : tensor_ref(t), *lies = v ? tensor_contiguous(v) : NULL, *y = lies && operand ? exchanged(lies) : lies;

    if (y != lies)
        tensor_unref(lies);
    tensor_unref(v);
    return y;
}

/* Does an operand lie in a way that units, or few rows, are not taken, and do as many rows or columns read it as make a copy worth it? */
static bool is_laid_anew(int device, Tensor *const *t, const ProductKind *p, const int64_t *sizes, int operand)
{
    const Tensor *x = t[operand];
    int bytes = (int)raw_size((DType)p->x);

    if (!sizes[4] || repeats(x))
        return false;                           /* there is nothing to copy, or more than there is of it */
    if (bytes == 2 && !(operand == 0 && has_few_rows(sizes) && (sizes[2] <= THIN / 2 || !product_is_copied(x, p->turned[0], false))))
        return false;
    return p->units && has_warpgroups(device) && x->stride[x->rank - 1 - operand] != 1 && sizes[4] * bytes % 16 == 0 &&
           sizes[operand ? 2 : 3] >= WORTH_A_COPY;
}

bool product_has_other_way(int device, Tensor *const *t, const ProductKind *p, const int64_t *sizes)
{
    return is_laid_anew(device, t, p, sizes, 0) || is_laid_anew(device, t, p, sizes, 1) || is_thin(device, t, p, sizes);
}

int product_other_way(int device, Tensor *const *t, const ProductKind *p, int slack, int64_t rows, const int64_t *sizes, Span where)
{
    for (int i = 0; i < 2; i++)
        if (is_laid_anew(device, t, p, sizes, i)) {
            Tensor *lies = by_steps(t[i], i);
            int done = lies ? far_product(device, i ? t[0] : lies, i ? lies : t[1], t[2], (DType)p->sum, slack, where) : PRODUCT_AS_IT_IS;
            tensor_unref(lies);
            return done;
        }
    return is_thin(device, t, p, sizes) ? turn(device, t, rows, (DType)p->sum, slack, where) : PRODUCT_AS_IT_IS;
}
