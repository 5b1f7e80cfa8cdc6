/*
 * Schedules of convolutions by warpgroups: blocks, and boxes of places that are their rows or steps, by what they take.
 *
 * Boxes of rows are powers of two along each axis, so that each 64 rows of a block are a box of their own, which is stored. Boxes of steps have no
 * more lines and places than there are: what lies beside those might be infinite, and the cotangent's zeros would not help.
 */
#include "ir/schedule/far_images.h"

#include "runtime/kernel_util.h"

#include <string.h>

enum { PLACES = 132, ACROSS = 64 };     /* processors of the chip that the figures are of; columns of an operand that lies along them, at least */

/* rate: of the units' limit, in hundredths, that the loop reaches; rest: clocks that are not under it. */
typedef struct Way { int16_t rows, columns; int8_t warps, sets, stages; int16_t rate, rest; } Way;
static const Way ways[] = {
    {128, 256, 8, 1, 3, 95, 1600}, {256, 128, 8, 1, 3, 95, 1600}, {128, 192, 4, 2, 0, 95, 700}, {128, 128, 4, 2, 0, 92, 500},
    {256, 64, 8, 1, 0, 80, 1000}, {128, 64, 4, 2, 0, 75, 400}, {64, 256, 4, 2, 0, 75, 500}, {64, 128, 4, 2, 0, 60, 400}, {64, 64, 4, 2, 0, 40, 300},
    {128, 32, 4, 2, 0, 45, 400}, {128, 16, 4, 2, 0, 22, 400},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Clocks of so many tiles of so many rounds, of which the units take some and bringing operands others. */
static double clocks(const Way *w, int64_t tiles, double rounds, int steps)
{
    enum { MULTIPLIED = 2048, BROUGHT = 36, LATENCY = 100 };    /* a clock: products; bytes; of a round, at least */
    double unit = (double)w->rows * w->columns * steps / MULTIPLIED * 100 / w->rate, bring = (double)(w->rows + w->columns) * steps * 2 / BROUGHT;
    double round = unit > bring ? unit : bring;

    return (double)blocks(tiles, PLACES) * (rounds * (round > LATENCY ? round : LATENCY) + w->rest);
}

/*
 * A box of so many rows, powers of two along images, lines and places, that covers them with the fewest; images: so many of a box at most.
 * Returns how many boxes there are.
 */
static int64_t find_box(int rows, const int64_t *extent, int64_t images, int16_t *box)
{
    int64_t least = 0;

    for (int w = 1; w <= rows; w *= 2)
        for (int h = 1; w * h <= rows; h *= 2) {
            int n = rows / w / h;
            int64_t all = blocks(extent[IMAGE], n) * blocks(extent[LINE], h) * blocks(extent[PLACE], w);
            if (n > images || (least && all > least))
                continue;
            least = all;
            box[0] = (int16_t)n, box[1] = (int16_t)h, box[2] = (int16_t)w;
        }
    return least;
}

static void take(WindowKind *k, const Way *w, int steps, const int16_t *box)
{
    k->block[0] = w->rows, k->block[1] = w->columns, k->block[2] = (int16_t)steps;
    k->warps = w->warps, k->sets = w->sets, k->stages = w->stages;
    memcpy(k->box, box, sizeof k->box);
}

double windows_of_places(WindowKind *k, const int64_t *extent, int64_t images, int64_t group, int64_t channels)
{
    int bytes = (int)raw_size((DType)k->dt);
    int64_t outputs = extent[CHANNEL];
    int64_t taps = k->taps[0] * k->taps[1] * k->taps[OF_DEPTH];
    double least = 0;

    for (int i = 0; i < WAYS; i++)
        for (int steps = 128 / bytes; steps >= 16; steps /= 2) {
            int16_t box[3];
            int64_t tiles;
            if ((k->grouped && (group % ways[i].columns || channels % steps)) || (k->across && ways[i].columns < ACROSS))
                continue;                       /* what lies beside is another group's; units take no narrower rows of what lies across */
            tiles = find_box(ways[i].rows, extent, images, box) * blocks(outputs, ways[i].columns);
            double all = clocks(&ways[i], tiles, (double)(taps * blocks(channels, steps)), steps * bytes / 2);
            if (least && all >= least)
                continue;
            least = all;
            take(k, &ways[i], steps, box);
        }
    return least;
}

/* A box of places that are steps: lines and places that divide the sums' own, images that divide theirs where there are phases. Returns boxes. */
static int64_t find_steps(const int64_t *extent, int64_t images, bool whole, int16_t *box)
{
    enum { LEAST = 32, MOST = 80, MOST_OF_ONE = 128, MULTIPLE = 16 };
    int64_t top = images == 1 ? MOST_OF_ONE : MOST;
    double least = 0;

    for (int64_t w = 1; w <= top && w <= extent[PLACE]; w++)
        for (int64_t h = 1; w * h <= top && h <= extent[LINE]; h++)
            for (int64_t n = 1; w * h * n <= top && n <= images && !(extent[PLACE] % w || extent[LINE] % h); n++) {
                int64_t steps = w * h * n, all = blocks(extent[IMAGE], n) * (extent[LINE] / h) * (extent[PLACE] / w);
                double cost = (double)all * (double)(steps + MULTIPLE);
                if (steps % MULTIPLE || steps < LEAST || (whole && extent[IMAGE] % n) || (least > 0 && cost >= least))
                    continue;
                least = cost;
                box[0] = (int16_t)n, box[1] = (int16_t)h, box[2] = (int16_t)w;
            }
    return least > 0 ? blocks(extent[IMAGE], box[0]) * (extent[LINE] / box[1]) * (extent[PLACE] / box[2]) : 0;
}

bool windows_of_kernel(WindowKind *k, const int64_t *extent, int64_t images, bool whole, int64_t outputs, int64_t channels, int64_t *sizes)
{
    enum { PARTS = 64, JOINED = 2000, JOIN = 4000, ROUNDS = 4 };        /* bytes a clock; clocks; a part's, at least */
    int64_t taps = k->taps[0] * k->taps[1] * k->taps[OF_DEPTH];
    double least = 0;
    int16_t box[3];

    sizes[W_ROUNDS] = find_steps(extent, images, whole, box);
    for (int i = 0; i < WAYS && sizes[W_ROUNDS]; i++)
        for (int64_t parts = 1; parts <= PARTS && parts * ROUNDS <= sizes[W_ROUNDS] + ROUNDS; parts++) {
            int64_t tiles = blocks(outputs, ways[i].rows) * taps * blocks(channels, ways[i].columns), each = blocks(sizes[W_ROUNDS], parts);
            double all = clocks(&ways[i], tiles * parts, (double)each, box[0] * box[1] * box[2]) + JOIN +
                         (double)(parts * outputs * taps * channels) * 8 / JOINED;
            if (least > 0 && all >= least)
                continue;
            least = all;
            take(k, &ways[i], box[0] * box[1] * box[2], box);
            sizes[W_PART] = each;
            sizes[W_PARTS] = blocks(sizes[W_ROUNDS], each);
        }
    return least > 0;
}
