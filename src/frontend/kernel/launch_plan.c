/*
 * The grid of a launch: how large the work is, which dimensions groups share, and how many groups and lanes there are, as far as the launch
 * does not say.
 */
#include "frontend/kernel/launch_impl.h"

#include <string.h>

enum { LANES_MOST = 1024 };

static int64_t ceil_div(int64_t a, int64_t b) { return b > 0 ? (a + b - 1) / b : 0; }

/*
 * What the largest is looked for among: what is stored to. Tiles that add up to cells which they share are as many as there is to add up,
 * so there all parameters are.
 */
void launch_counted(const Launch *L, bool *counted)
{
    bool gathers = L->form.atomic;

    for (int i = 0; i < L->spec.nparams; i++)
        gathers |= L->spec.param[i].reduces;
    gathers &= launch_by_element(L) && !launch_tiles(L);
    for (int i = 0; i < L->spec.nparams; i++)
        counted[i] = gathers || L->form.param[i].written;
}

/* The parameter that says how large the work is: the largest that is written. -1: none. */
int launch_output(const Launch *L, const bool *written)
{
    int best = -1;

    for (int i = 0; i < L->spec.nparams; i++)
        if (L->spec.param[i].tensor && written[i] && (best < 0 || tensor_size(L->spec.param[i].tensor) > tensor_size(L->spec.param[best].tensor)))
            best = i;
    return best;
}

static bool in_whole_tensor(const Launch *L, Sym dim, int but)
{
    for (int i = 0; i < L->spec.nparams; i++)
        for (int k = 0; i != but && L->spec.param[i].tensor && L->spec.param[i].kind != KPARAM_TILE && k < L->spec.param[i].tensor->rank &&
                k < VIEW_RANK; k++)
            if (L->spec.param[i].dim[k] == dim)
                return true;
    return false;
}

bool launch_tiles(const Launch *L)
{
    for (int i = 0; i < L->spec.nparams; i++)
        if (L->spec.param[i].kind == KPARAM_TILE && L->spec.param[i].tensor)
            return true;
    return false;
}

Extent2 launch_extent(const Launch *L, int out)
{
    Extent2 e = {.size = {1, 1}};
    const KParam *p = &L->spec.param[out];
    int rank = p->tensor->rank;

    if (rank >= 1) {
        e.size[0] = p->tensor->shape[rank >= 2 ? rank - 2 : 0];
        e.dim[0] = p->dim[rank >= 2 ? rank - 2 : 0];
    }
    if (rank >= 2) {
        e.size[1] = p->tensor->shape[rank - 1];
        e.dim[1] = p->dim[rank - 1];
    }
    return e;
}

/* Of what is returned: axes that groups put together, and axes that came from a dimension as it is, larger than a block, and not needed whole. */
static Extent2 result_extent(const Launch *L, const Version *v)
{
    Extent2 e = {.size = {1, 1}};

    for (int i = 0; i < v->nresults; i++) {
        const KResult *r = &v->result[i];
        for (int k = 0; k < r->rank; k++)
            if (r->axis[k].along) {
                int c = r->axis[k].along - 1;
                e.size[c] = kresult_extent(&L->spec, &r->axis[k]);
                e.dim[c] = r->axis[k].dim;
                e.placed[c] = true;
            }
        for (int c = 0; c < 2; c++) {
            int axis = r->rank >= 2 ? r->rank - 2 + c : c ? -1 : r->rank - 1;
            int64_t block = L->spec.sched[c ? SCHED_block_n : SCHED_block_m], size = 0;
            if (axis < 0 || !r->axis[axis].dim || e.dim[c] || e.placed[c])
                continue;
            for (int p = 0; p < L->spec.nparams; p++)
                for (int k = 0; L->spec.param[p].tensor && k < L->spec.param[p].tensor->rank && k < VIEW_RANK; k++)
                    if (L->spec.param[p].dim[k] == r->axis[axis].dim && L->spec.param[p].kind == KPARAM_TILE)
                        size = L->spec.param[p].tensor->shape[k];
            if ((size > block || (L->spec.any && size)) && r->axis[axis].extent == block && !in_whole_tensor(L, r->axis[axis].dim, -1)) {
                e.size[c] = size;
                e.dim[c] = r->axis[axis].dim;
            }
        }
    }
    return e;
}

static void cut_by(Launch *L, const Extent2 *e, int out)
{
    bool tile = out < 0 || L->spec.param[out].kind == KPARAM_TILE;

    for (int c = 0; c < 2; c++)
        if (e->dim[c] && (tile ? !in_whole_tensor(L, e->dim[c], out) : !in_whole_tensor(L, e->dim[c], out)))
            L->spec.cut[c] = e->dim[c];
}

/* Groups along rows and columns, as far as the launch does not say. */
void launch_grid(Launch *L, const Extent2 *e)
{
    KSpec *s = &L->spec;
    int64_t down = ceil_div(e->size[0], s->sched[SCHED_block_m]), across = ceil_div(e->size[1], s->sched[SCHED_block_n]);

    s->deep = L->ngrid == 3;
    s->deeps = L->ngrid == 3 ? L->grid[2] : 1;
    s->across = L->ngrid >= 2 ? L->grid[1] : across;
    s->across = s->across > 0 ? s->across : 1;
    s->groups = L->plain ? down * across : L->grid[0] * (L->ngrid >= 2 ? L->grid[1] : 1) * (L->ngrid >= 3 ? L->grid[2] : 1);
}

/* One tile for each element of the largest output. */
static void grid_of_elements(Launch *L, int64_t elements)
{
    L->spec.groups = ceil_div(elements, L->spec.lanes * L->spec.warps);
    L->spec.across = 1;
}

bool launch_by_element(const Launch *L)
{
    bool blocks = L->form.levels & (1u << KERNEL_BLOCK | 1u << KERNEL_FRAGMENT) || (L->form.blocks && !L->form.shares), tiles = launch_tiles(L);

    return (L->form.numbered && (L->form.in_launch || !tiles)) || !(blocks || tiles);
}

/* The stack of matrices that a launch goes through: the KTile that has most; -1: there is none. */
static int launch_led(const Launch *L)
{
    int best = -1;
    int64_t most = -1;

    for (int i = 0; i < L->spec.nparams; i++) {
        const KParam *p = &L->spec.param[i];
        int64_t n = 1;
        if (!p->tensor || p->tensor->rank <= 2 || !p->leads)
            continue;
        for (int k = 0; k < p->tensor->rank - 2; k++)
            n *= p->tensor->shape[k];
        if (n > most) {
            best = i;
            most = n;
        }
    }
    return best;
}

/*
 * A tensor of one axis is rows; where groups ask for their columns alone, as sums down columns do, it is columns. Where they store at
 * [block_n, block_m], as transposes do, its rows are the groups' columns.
 */
static bool lay_beside(Launch *L, Extent2 *e)
{
    const KParam *out = L->plan.out >= 0 ? &L->spec.param[L->plan.out] : NULL;
    const Version *v;

    if (!out || !out->tensor->rank || out->kind == KPARAM_TILE || L->ngrid >= 2 || (L->plan.by != GRID_BLOCKS && L->plan.by != GRID_GIVEN))
        return true;
    if (!(v = launch_version(L)))
        return false;
    L->plan.beside = out->tensor->rank == 1 && v->across && !v->down && !v->asks_group;
    L->plan.turned = out->tensor->rank > 1 && v->turned >> L->plan.out & 1 && !v->asks_group;
    if (L->plan.beside || L->plan.turned) {
        *e = (Extent2){.size = {e->size[1], e->size[0]}, .dim = {e->dim[1], e->dim[0]}};
        L->plan.e = *e;
        launch_grid(L, e);
    }
    return true;
}

/*
 * A kernel that never asks for its place along columns, `block_n`, works on whole rows: one group does each, where the launch does not say
 * otherwise. One that asks for no place at all is one group's.
 */
static bool fit_to_body(Launch *L, Extent2 *e)
{
    const Version *v;
    bool blocks = L->plan.by == GRID_BLOCKS;

    if (!lay_beside(L, e))
        return false;
    if ((!blocks && L->plan.by != GRID_GIVEN) || L->ngrid >= 2 || (blocks ? L->spec.groups : L->spec.across) <= 1)
        return true;
    if (!(v = launch_version(L)))
        return false;
    if (blocks && v->asks_group)
        return true;
    L->plan.across_one = !v->across;
    L->plan.down_one = blocks && !v->down && e->size[0];
    if (L->plan.across_one) {
        L->spec.groups /= blocks ? L->spec.across : 1;
        L->spec.across = 1;
    }
    if (L->plan.down_one)
        L->spec.groups = L->spec.across;
    return true;
}

/* The groups that work on the parts of what is written, or as many as the launch says. */
/* Tiles that number themselves inside of their group, which has a block of its own: one for each element of it, where a group can have so many. */
static void lanes_of_block(Launch *L)
{
    int64_t n = 1;

    for (int c = 0; c < 2; c++)
        n *= L->spec.cut[c] ? L->spec.sched[c ? SCHED_block_n : SCHED_block_m] : 1;
    if (L->form.numbered && launch_tiles(L) && !L->spec.sched_given[SCHED_warps] && n > 1 && n <= LANES_MOST)
        L->spec.lanes = (int)n;
}

static void plan_groups(Launch *L, const Extent2 *e)
{
    GridPlan *p = &L->plan;

    if (L->plain && launch_by_element(L)) {
        p->by = p->out >= 0 ? GRID_ELEMENTS : GRID_ONE;
        if (p->out >= 0)
            grid_of_elements(L, tensor_size(L->spec.param[p->out].tensor));
        return;
    }
    p->by = L->plain ? GRID_BLOCKS : GRID_GIVEN;
    launch_grid(L, e);
    if (!L->plain)
        return;
    if (p->out < 0 && !L->spec.cut[0] && !L->spec.cut[1] && !e->placed[0] && !e->placed[1])
        p->by = GRID_ONE;
    if (p->out >= 0 && launch_tiles(L) && L->spec.param[p->out].kind == KPARAM_TILE && !e->dim[0] && !e->dim[1])
        p->by = GRID_ONE;                                   /* without names nothing says what is cut */
    if (p->by == GRID_ONE)
        L->spec.groups = L->spec.across = 1;
    else
        lanes_of_block(L);
}

bool launch_plan(Launch *L)
{
    bool written[KERNEL_PARAMS];
    Extent2 e = {.size = {1, 1}};
    bool tiles = launch_tiles(L), returned;
    char why[240];
    int out;

    launch_counted(L, written);
    out = launch_output(L, written);
    L->spec.cut[0] = L->spec.cut[1] = NULL;
    L->spec.groups = L->plain ? 1 : L->grid[0];
    L->spec.across = 1;
    L->spec.led = launch_led(L);
    if (out >= 0)
        e = launch_extent(L, out);
    returned = out < 0 && L->plain && L->form.returns && !launch_by_element(L);
    if (returned || (tiles && (L->plain || L->grid[0] * L->grid[1] * L->grid[2] > 1))) {
        if (out < 0) {                                      /* what it returns, or stores to by parts, is seen when it is made */
            Version *v;
            L->spec.sample = tiles;
            v = launch_version(L);
            L->spec.sample = false;
            if (!v)
                return false;
            out = launch_output(L, v->written);
            e = out >= 0 ? launch_extent(L, out) : result_extent(L, v);
        }
        cut_by(L, &e, out);
    }
    L->plan.out = out;
    L->plan.e = e;
    plan_groups(L, &e);
    if (!fit_to_body(L, &e) || !(lead_plan(&L->spec, why, sizeof why) || launch_refuse(L, "E0623: kernel '%s': %s", L->name, why)))
        return false;
    L->spec.groups *= L->spec.warps;
    return true;
}
