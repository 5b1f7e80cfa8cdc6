/*
 * Rows beside the sums of a product by warpgroups: what is the same for all rows of a tile, as a bias is.
 *
 * Each warpgroup loads them before it multiplies, an element or two a thread, and puts them into shared memory of its own when it has the sums.
 * Loaded where they are used, by each thread for its columns, they would be waited for again and again.
 */
#include "codegen/gpu_roles.h"

#include "codegen/cpu_lane.h"

enum { ROWS_ALIGN = 128 };

static bool is_beside(const CpuCode *e, const Roles *r, const TileNode *n)
{
    bool is = n->op == TOP_load && n->type[0].rank == 2 && n->type[0].extent[0] == 1 && n->type[0].extent[1] == r->extent[1] &&
              n->in[0].node->op == TILE_PARAM && !gpu_writes(&e->k->body, n->in[0].node) && !is_packed((DType)n->type[0].dtype) &&
              !dtype_is_complex((DType)n->type[0].dtype);

    for (int i = 1; is && i < n->nin; i++)
        is = roles_is_known(n->in[i].node);
    return is;
}

static int64_t row_bytes(const RoleBeside *s) { return (cpu_tile_bytes(&s->load->type[0]) + ROWS_ALIGN - 1) / ROWS_ALIGN * ROWS_ALIGN; }

int64_t roles_find_beside(const CpuCode *e, Roles *r)
{
    int64_t all = 0;

    for (const TileNode *n = e->k->body.first; n && r->nbeside < BESIDE_MOST; n = n->next)
        if (is_beside(e, r, n)) {
            RoleBeside *s = &r->beside[r->nbeside++];
            *s = (RoleBeside){.load = n, .at = all};
            all += roles_groups(r) * row_bytes(s);
        }
    return all;
}

bool role_is_beside(const CpuCode *e, const TileNode *load)
{
    for (int i = 0; i < roles(e)->nbeside; i++)
        if (roles(e)->beside[i].load == load)
            return true;
    return false;
}

/* Column number i of this thread's: some threads have the same where columns are no multiple of them. */
static LLVMValueRef column_of(CpuCode *e, const RoleBeside *s, int i)
{
    LLVMValueRef c = op32(e, LLVMAdd, op32(e, LLVMAnd, e->gpu->thread, GROUP_THREADS - 1), (int64_t)i * GROUP_THREADS);

    return wide(e, op32(e, LLVMURem, c, s->load->type[0].extent[1]));
}

static int columns_of(const RoleBeside *s) { return (s->load->type[0].extent[1] + GROUP_THREADS - 1) / GROUP_THREADS; }

void role_load_beside(CpuCode *e)
{
    Roles *r = roles(e);
    bool own = r->reads_own, masked = e->masked;

    for (const TileNode *n = r->loop->next; r->nbeside && n; n = n->next)
        role_emit_known(e, n);
    r->reads_own = true;                        /* here, and not where they are used */
    e->masked = true;
    e->width = 1;
    for (int k = 0; k < r->nbeside; k++) {
        RoleBeside *s = &r->beside[k];
        for (int i = 0; i < columns_of(s); i++) {
            Spot p = {.at = {cpu_number(e, 0), column_of(e, s, i)}, .strip = -1};
            s->x[i] = cpu_load_strip(e, s->load, &p);
        }
    }
    r->reads_own = own;
    e->masked = masked;
}

void role_put_beside(CpuCode *e)
{
    Roles *r = roles(e);
    LLVMValueRef own = plus(e, op32(e, LLVMMul, r->set, r->threads / GROUP_THREADS), role_warpgroup(e)), barrier, at;

    if (!r->nbeside)
        return;
    barrier = op32(e, LLVMAdd, own, SLOT_BARRIER);
    gpu_named_barrier(e, barrier, GROUP_THREADS);       /* those of the tile before have been read */
    for (int k = 0; k < r->nbeside; k++) {
        RoleBeside *s = &r->beside[k];
        DType dt = (DType)s->load->type[0].dtype;
        Val *v = cpu_val(e, (TileRef){(TileNode *)s->load, 0});
        at = wide(e, op32(e, LLVMAdd, op32(e, LLVMMul, own, row_bytes(s)), r->beside_at + s->at));
        v->x = LLVMBuildGEP2(e->u->builder, LLVMInt8TypeInContext(e->u->context), e->scratch, &at, 1, "");
        for (int i = 0; i < columns_of(s); i++)
            cpu_store_flat(e, dt, v->x, column_of(e, s, i), lanes_of_raw(e->u, dt, s->x[i], 1), NULL);
    }
    gpu_named_barrier(e, barrier, GROUP_THREADS);
}
